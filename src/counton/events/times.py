"""A column of times, whatever its type, as microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from typing import Literal, get_args

import polars as pl

from counton.errors import InvalidInput

ClockChange = Literal["raise", "earliest", "latest"]
CLOCK_CHANGE: tuple[ClockChange, ...] = get_args(ClockChange)

#: Microseconds (as a ratio) of one unit of the epoch formats.
_EPOCHS = {
    "epoch": (1_000_000, 1),
    "epoch_ms": (1_000, 1),
    "epoch_us": (1, 1),
    "epoch_ns": (1, 1000),
}
EPOCH_FORMATS = tuple(_EPOCHS)

_WITH_OFFSET: tuple[str, ...] = ("%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%dT%H:%M%z")
_LOCAL: tuple[str, ...] = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
_OFFSETS = ("%z", "%:z", "%#z", "%+")
#: What ISO 8601 and databases write shorter or otherwise than the formats above.
_ISO_8601 = (
    (r"^(\d{4}-\d{2}-\d{2}) ", "${1}T"),
    (r"[Zz]$", "+0000"),
    (r"(T.*[+-]\d{2})$", "${1}00"),  # an offset in hours, as PostgreSQL writes
    (r"^(\d{4}-\d{2}-\d{2}T\d{2})([+-].*)?$", "${1}:00${2}"),
)
#: Years 1 to 9999: beyond them a number of seconds is a misread unit.
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_370_764_800_000_000


def with_moments(
    frame: pl.LazyFrame,
    name: str,
    timezone: str,
    clock_change: ClockChange = "raise",
    time_format: str | None = None,
) -> pl.LazyFrame:
    """The frame and two columns more: ``us`` (Int64) and ``readable`` (Boolean).

    A time that could be read but is no single moment, because the local clocks skip it or pass it
    twice, is readable and its ``us`` is null.

    Args:
        frame: has no columns ``us`` and ``readable``.
        name: the column of times; it may change in the result.
        timezone: zone of times without an offset.
        clock_change: which moment a local time means that comes twice.
        time_format: ``epoch`` (seconds), ``epoch_ms``, ``epoch_us``, ``epoch_ns``, a strftime
            format, or None for ISO 8601.

    Raises:
        InvalidInput: the type cannot hold times, or is a number without an epoch format.

    >>> frame = pl.LazyFrame({"time": ["1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "?"]})
    >>> with_moments(frame, "time", "UTC").collect()["us"].to_list()
    [1000000, 1000000, None]
    """
    column, dtype = pl.col(name), frame.collect_schema()[name]
    if time_format in _EPOCHS:
        return _marked(frame, _from_epoch(column, *_EPOCHS[time_format]))
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return _marked(frame, column.dt.cast_time_unit("us").dt.epoch("us"))
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        local = column.cast(pl.Datetime("us"))
        return frame.with_columns(
            us=_local_to_utc(local, timezone, clock_change), readable=column.is_not_null()
        )
    if dtype != pl.String:
        raise InvalidInput(
            f"column {name!r} holds {dtype}, not times; if these are numbers since 1970, state the "
            f"time format ({', '.join(EPOCH_FORMATS)})"
        )
    return _from_text(frame, name, timezone, clock_change, time_format)


def _marked(frame: pl.LazyFrame, moment: pl.Expr) -> pl.LazyFrame:
    return frame.with_columns(us=moment).with_columns(readable=pl.col("us").is_not_null())


def _from_epoch(column: pl.Expr, numerator: int, denominator: int) -> pl.Expr:
    # Whole numbers exactly; text such as 1357016400.25 through float64 (exact to a microsecond).
    low, high = (bound * denominator // numerator for bound in (_EARLIEST, _LATEST))
    whole = column.cast(pl.Int64, strict=False)
    exact = pl.when(whole.is_between(low, high)).then(whole * numerator // denominator)
    number = column.cast(pl.Float64, strict=False)
    rounded = (
        pl.when(number.is_between(low, high))
        .then((number * numerator / denominator).floor())
        .cast(pl.Int64, strict=False)
    )
    return pl.when(number != number.floor()).then(rounded).otherwise(pl.coalesce(exact, rounded))


def _from_text(
    frame: pl.LazyFrame,
    name: str,
    timezone: str,
    clock_change: ClockChange,
    time_format: str | None,
) -> pl.LazyFrame:
    text = pl.col(name).str.strip_chars()
    with_offset, local = _WITH_OFFSET, _LOCAL
    if time_format is None:
        for pattern, replacement in _ISO_8601:
            text = text.str.replace(pattern, replacement)
    elif any(offset in time_format for offset in _OFFSETS):
        with_offset, local = (time_format,), ()
    else:
        with_offset, local = (), (time_format,)
    nothing = pl.lit(None, dtype=pl.Int64)
    text_column = pl.col(name)
    absolute = [_parse(text_column, form).dt.epoch("us") for form in with_offset]
    naive = [_parse(text_column, form) for form in local]
    if time_format is None:
        naive.append(text_column.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")))
    # In stages, so that each text is normalised and parsed once.
    return (
        frame.with_columns(text.alias(name))
        .with_columns(
            us=pl.coalesce(*absolute, nothing),
            readable=pl.coalesce(*naive, nothing.cast(pl.Datetime("us"))),
        )
        .with_columns(
            us=pl.coalesce("us", _local_to_utc(pl.col("readable"), timezone, clock_change)),
            readable=pl.col("us").is_not_null() | pl.col("readable").is_not_null(),
        )
    )


def _parse(text: pl.Expr, form: str) -> pl.Expr:
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _local_to_utc(local: pl.Expr, timezone: str, clock_change: ClockChange) -> pl.Expr:
    return local.dt.replace_time_zone(
        timezone,
        ambiguous="null" if clock_change == "raise" else clock_change,
        non_existent="null",
    ).dt.epoch("us")

"""Time cut into consecutive windows: window k is step k of a stream.

Times are integers, microseconds since 1970-01-01 UTC, so that no comparison depends on a time zone.
Windows of seconds, minutes and hours have a fixed length in absolute time (an hour is an hour, also
on the day the clocks change); windows of days, weeks and months follow the local calendar. A column
of times, whatever its type, is brought to such integers by `moments`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
_EARLIEST_US, _LATEST_US = -62_135_596_800_000_000, 253_370_764_800_000_000


#: Above all steps and below all moments: what is no moment stands for itself, less than this.
NO_MOMENT = -(2**62)
NO_TIME, UNREADABLE_TIME, CHANGED_CLOCKS = (NO_MOMENT - reason for reason in (1, 2, 3))


def moments(
    name: str,
    dtype: pl.DataType,
    timezone: str,
    clock_change: ClockChange = "raise",
    time_format: str | None = None,
) -> pl.Expr:
    """Microseconds since 1970 of a column of times (Int64), or why there are none.

    Never null: a missing time is `NO_TIME`, one that cannot be read `UNREADABLE_TIME`, and one that
    the local clocks skip or pass twice `CHANGED_CLOCKS`, all below `NO_MOMENT`.

    Args:
        name: the column.
        dtype: its type.
        timezone: zone of times without an offset.
        clock_change: which moment a local time means that comes twice.
        time_format: ``epoch`` (seconds), ``epoch_ms``, ``epoch_us``, ``epoch_ns``, a strftime
            format, or None for ISO 8601.

    Raises:
        InvalidInput: the type cannot hold times, or is a number without an epoch format.

    >>> texts = pl.Series("time", ["1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "?"])
    >>> found = texts.to_frame().select(moments("time", texts.dtype, "UTC"))["time"]
    >>> found.to_list() == [1000000, 1000000, UNREADABLE_TIME]
    True
    """
    column = pl.col(name)
    missing = pl.when(column.is_null()).then(NO_TIME)
    if time_format == "epoch_ns" and dtype.is_float():
        raise InvalidInput(
            f"column {name!r} holds {dtype}, which cannot tell nanoseconds since 1970 from each "
            f"other (a single missing value can have made it so); cast it to whole numbers"
        )
    if time_format in _EPOCHS:
        return missing.otherwise(_from_epoch(column, *_EPOCHS[time_format])).fill_null(
            UNREADABLE_TIME
        )
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return column.dt.cast_time_unit("us").dt.epoch("us").fill_null(NO_TIME)
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        local = column.cast(pl.Datetime("us"))
        moment = _local_to_utc(local, timezone, clock_change)
        return moment.fill_null(missing.otherwise(CHANGED_CLOCKS))
    if dtype != pl.String:
        raise InvalidInput(
            f"column {name!r} holds {dtype}, not times; if these are numbers since 1970, state the "
            f"time format ({', '.join(EPOCH_FORMATS)})"
        )

    def read(texts: pl.Series) -> pl.Series:
        return _from_text(texts, timezone, clock_change, time_format)

    return column.map_batches(read, return_dtype=pl.Int64, is_elementwise=True)


def _from_epoch(column: pl.Expr, numerator: int, denominator: int) -> pl.Expr:
    # Whole numbers exactly; text such as 1357016400.25 through float64 (exact to a microsecond).
    low, high = (bound * denominator // numerator for bound in (_EARLIEST_US, _LATEST_US))
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
    texts: pl.Series, timezone: str, clock_change: ClockChange, time_format: str | None
) -> pl.Series:
    """As `moments`, of texts."""
    found = None
    if time_format is None and len(texts):
        found = _from_one_shape(texts, timezone, clock_change)
    if found is None:
        return _from_any_shape(texts, timezone, clock_change, time_format)
    other = found.is_null()
    if not other.any():
        return found
    rest = _from_any_shape(texts.filter(other), timezone, clock_change, time_format)
    return found.scatter(other.arg_true(), rest)


#: What ISO 8601 writes after the seconds of times with an offset, and microseconds of the offset.
_OFFSETS_US = {"Z": 0, "z": 0} | {
    f"{sign}{minutes // 60:02}{separator}{minutes % 60:02}": int(f"{sign}1") * minutes * 60_000_000
    for minutes in range(0, 16 * 60, 15)
    for sign in "+-"
    for separator in ("", ":")
}


def _from_one_shape(texts: pl.Series, timezone: str, clock_change: ClockChange) -> pl.Series | None:
    """Times written as the first one is, to the second or finer; others are null.

    Programs write all times of a file alike, and seconds of a fixed shape are read in a sixth of
    the time that a general parser takes. None where the first time has another shape.
    """
    first = texts.drop_nulls().first()
    shape = None if first is None else _SECONDS.fullmatch(str(first))
    if shape is None:
        return None
    local = texts.str.head(_SECONDS_LONG).str.to_datetime(
        f"%Y-%m-%d{shape['between']}%H:%M:%S", time_unit="us", strict=False, cache=False
    )
    after = texts.str.slice(_SECONDS_LONG)
    if fraction := shape["fraction"]:
        # The digits after the point, down to microseconds, if all that are expected are there.
        long = len(fraction)
        digits = after.str.slice(1, min(long, 6)).str.to_integer(strict=False, dtype=pl.Int64)
        us = digits * 10 ** max(6 - long, 0)
        whole = after.str.contains(rf"^\.[0-9]{{{long}}}")
        local = local + us.set(~whole, None).cast(pl.Duration("us"))
        after = after.str.slice(1 + long)
    offset = shape["offset"]
    if (after == offset).all():  # a null counts as equal, and stays null
        if not offset:
            frame = pl.DataFrame({"time": local})
            return frame.select(_local_to_utc(pl.col("time"), timezone, clock_change)).to_series()
        return local.dt.epoch("us") - _OFFSETS_US[offset]
    offsets = after.replace_strict(_OFFSETS_US, default=None, return_dtype=pl.Int64)
    return local.dt.epoch("us") - offsets


_SECONDS = re.compile(
    r"\d{4}-\d\d-\d\d(?P<between>[T ])\d\d:\d\d:\d\d(\.(?P<fraction>\d{1,9}))?(?P<offset>"
    + "|".join(["", *map(re.escape, _OFFSETS_US)])
    + ")"
)
_SECONDS_LONG = len("2013-01-01T05:00:00")


def _from_any_shape(
    texts: pl.Series, timezone: str, clock_change: ClockChange, time_format: str | None
) -> pl.Series:
    """As `moments`, of texts in ISO 8601's many shapes, or in a stated format."""
    text = pl.col("given").str.strip_chars()
    with_offset, local = _WITH_OFFSET, _LOCAL
    if time_format is None:
        for pattern, replacement in _ISO_8601:
            text = text.str.replace(pattern, replacement)
    elif any(offset in time_format for offset in _OFFSETS):
        with_offset, local = (time_format,), ()
    else:
        with_offset, local = (), (time_format,)
    nothing = pl.lit(None, dtype=pl.Int64)
    text_column = pl.col("text")
    absolute = [_parse(text_column, form).dt.epoch("us") for form in with_offset]
    naive = [_parse(text_column, form) for form in local]
    if time_format is None:
        naive.append(text_column.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")))
    # In stages, so that each text is normalised and parsed once.
    return (
        pl.DataFrame({"given": texts})
        .with_columns(text=text)
        .with_columns(
            us=pl.coalesce(*absolute, nothing),
            local=pl.coalesce(*naive, nothing.cast(pl.Datetime("us"))),
        )
        .select(
            pl.coalesce("us", _local_to_utc(pl.col("local"), timezone, clock_change)).fill_null(
                pl.when(pl.col("given").is_null())
                .then(NO_TIME)
                .when(pl.col("local").is_null())
                .then(UNREADABLE_TIME)
                .otherwise(CHANGED_CLOCKS)
            )
        )
        .to_series()
    )


def _parse(text: pl.Expr, form: str) -> pl.Expr:
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _local_to_utc(local: pl.Expr, timezone: str, clock_change: ClockChange) -> pl.Expr:
    return local.dt.replace_time_zone(
        timezone,
        ambiguous="null" if clock_change == "raise" else clock_change,
        non_existent="null",
    ).dt.epoch("us")


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIXED = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_EVERY = re.compile(r"([1-9]\d{0,8})(s|m|h|d|w|mo)")
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)
_LARGEST_CALENDAR = 1_000_000
_ENDLESS = 40_000  # calendar windows have a table of their edges
_NOMINAL_DAYS = {"d": 1, "w": 7, "mo": 31}


def load_zone(name: str) -> ZoneInfo:
    """Time zone by its IANA name.

    Raises:
        InvalidInput: no such zone.

    >>> load_zone("America/New_York").key
    'America/New_York'
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput(
            f"time zone {name!r} is not known; use an IANA name such as UTC or America/New_York"
        ) from error


def microseconds(time: datetime) -> int:
    """Microseconds from 1970-01-01 UTC to an aware datetime, exactly.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))
    2000000
    """
    return (time - EPOCH) // _MICROSECOND


def moment(us: int) -> datetime:
    """Inverse of `microseconds`, in UTC.

    >>> moment(2_000_000).isoformat()
    '1970-01-01T00:00:02+00:00'
    """
    return EPOCH + timedelta(microseconds=us)


def parse_time(text: str, timezone: str) -> datetime:
    """A moment from ISO 8601 text; without an offset it is local time in ``timezone``.

    Raises:
        InvalidInput: not a time, or a local time which the clocks skip or pass twice.

    >>> parse_time("2013-01-01T00:00", "America/New_York").astimezone(UTC).isoformat()
    '2013-01-01T05:00:00+00:00'
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInput(
            f"{text!r} is not a time; write ISO 8601, as in 2013-01-01T00:00 or 2013-01-01T05:00Z"
        ) from error
    if time.tzinfo is not None:
        return time
    return _localise(time, load_zone(timezone))


def _localise(time: datetime, zone: ZoneInfo) -> datetime:
    """Attach a zone to a local time that exists exactly once there."""
    first, second = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        passed_twice = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == time
        raise InvalidInput(
            f"local time {time.isoformat()} {'comes twice' if passed_twice else 'does not exist'} "
            f"in {zone.key} because the clocks change; add a UTC offset, as in "
            f"2013-11-03T01:30-04:00"
        )
    return first


def _first_moment(time: datetime, zone: ZoneInfo) -> datetime:
    """When local clocks first show a time or, where they skip it, a later one.

    Many zones change their clocks at midnight, where a day begins.
    """
    first, second = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None
    assert after is not None
    if before >= after:  # the time comes once, or twice
        return first.astimezone(UTC)
    # Skipped. Clocks jump between these two moments; bisect, to the microsecond.
    low, high = second.astimezone(UTC), first.astimezone(UTC)
    while high - low > _MICROSECOND:
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class Windows:
    """``steps`` windows of length ``every`` from ``start`` on; window k is half-open.

    A calendar window begins when local clocks first show its time or, where they skip it, a later
    one; so each moment is in one window on any calendar.

    Args:
        start: beginning of window 1, an aware datetime.
        every: length, a whole number and a unit: ``s``, ``m``, ``h`` (absolute time), ``d``, ``w``,
            ``mo`` (calendar of ``timezone``).
        steps: number of windows.
        timezone: IANA name.

    Raises:
        InvalidInput: unreadable length, no steps, a naive start, or windows beyond the year 9999.

    >>> windows = Windows(datetime(2013, 1, 1, tzinfo=UTC), "1h", 24, "UTC")
    >>> windows.ended_by(microseconds(datetime(2013, 1, 1, 3, 30, tzinfo=UTC)))
    3
    >>> moment(int(windows.ends(range(24, 25))[0])).isoformat()
    '2013-01-02T00:00:00+00:00'
    """

    start: datetime
    every: str
    steps: int
    timezone: str = "UTC"

    @classmethod
    def endless(cls, start: datetime, every: str, timezone: str = "UTC") -> Windows:
        """As many windows as the calendar has room for: 40,000 of days and longer ones.

        Raises:
            InvalidInput: as for the class.

        >>> Windows.endless(datetime(2013, 1, 1, tzinfo=UTC), "1d").steps
        40000
        """
        probe = cls(start, every, 1, timezone)
        room = microseconds(_LATEST) - microseconds(start)
        amount, unit = probe._parsed
        days = amount * _NOMINAL_DAYS[unit] if unit in _NOMINAL_DAYS else 0
        most = room // probe.length if probe.length else room // (days * 86_400_000_000)
        return cls(start, every, int(most if probe.length else min(most, _ENDLESS)), timezone)

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        if not _EVERY.fullmatch(self.every):
            raise InvalidInput(
                f"window length {self.every!r} is not a whole number above 0 and a unit; write "
                f"15m, 1h, 1d, 1w or 1mo"
            )
        if self.steps < 1:
            raise InvalidInput(f"steps is {self.steps}; it must be at least 1")
        if self.start.tzinfo is None:
            raise InvalidInput("the start of the windows has no time zone; attach one")
        if self.length is None and self.steps > _LARGEST_CALENDAR:
            raise InvalidInput(
                f"{self.steps:,} calendar windows are too many; at most {_LARGEST_CALENDAR:,} are "
                f"allowed: use hours, which have no limit"
            )
        if self._end_of(self.steps) > microseconds(_LATEST):
            raise InvalidInput(
                f"{self.steps:,} windows of {self.every} from {self.start.isoformat()} end after "
                f"the year 9999; lower the number of steps"
            )

    @property
    def length(self) -> int | None:
        """Microseconds of one window, or None where it varies with the calendar."""
        amount, unit = self._parsed
        return amount * _FIXED[unit] if unit in _FIXED else None

    @property
    def _parsed(self) -> tuple[int, str]:
        match = _EVERY.fullmatch(self.every)
        assert match is not None
        return int(match[1]), match[2]

    @cached_property
    def _origin(self) -> int:
        return microseconds(self.start)

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Edges 0..steps of calendar windows."""
        zone = load_zone(self.timezone)
        local = self.start.astimezone(zone).replace(tzinfo=None)
        return np.array(
            [
                microseconds(_first_moment(self._shifted(local, k), zone))
                for k in range(self.steps + 1)
            ],
            dtype=np.int64,
        )

    def _shifted(self, local: datetime, k: int) -> datetime:
        amount, unit = self._parsed
        try:
            if unit != "mo":
                return local + timedelta(days=k * amount * (7 if unit == "w" else 1))
            months = local.year * 12 + local.month - 1 + k * amount
            first = date(months // 12, months % 12 + 1, 1)
            following = date((months + 1) // 12, (months + 1) % 12 + 1, 1)
            day = min(local.day, (following - first).days)
            return local.replace(year=first.year, month=first.month, day=day)
        except (OverflowError, ValueError) as error:
            raise InvalidInput(
                f"window {k:,} of {self.every} from {self.start.isoformat()} ends after the year "
                f"9999; lower the number of steps"
            ) from error

    def _end_of(self, step: int) -> int:
        if self.length is not None:
            return self._origin + step * self.length
        return int(self._edges[step])

    @property
    def end(self) -> int:
        """End of the last window."""
        return self._end_of(self.steps)

    def starts(self, steps: range) -> NDArray[np.int64]:
        """First microsecond of each window: shape ``(len(steps),)``."""
        return self.ends(range(steps.start - 1, steps.stop - 1))

    def ends(self, steps: range) -> NDArray[np.int64]:
        """First microsecond after each window: shape ``(len(steps),)``."""
        if self.length is None:
            return self._edges[steps.start : steps.stop]
        return self._origin + np.arange(steps.start, steps.stop, dtype=np.int64) * self.length

    def ends_of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """First microsecond after each of some windows, in any order."""
        if self.length is None:
            return self._edges[steps]
        return self._origin + steps * self.length

    def step(self, us: str) -> pl.Expr:
        """Window of each moment of a column, as `step_of`; what is no moment stays as it is."""
        column = pl.col(us)
        if self.length is None:
            step = column.map_batches(
                lambda moments: pl.Series(self.step_of(moments.to_numpy())),
                return_dtype=pl.Int64,
                is_elementwise=True,
            )
        else:
            step = (column - self._origin) // self.length + 1
        return pl.when(column > NO_MOMENT).then(step.clip(0, self.steps + 1)).otherwise(column)

    def step_of(self, us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Window of each moment; at most 0 before window 1, ``steps + 1`` after the last."""
        if self.length is None:
            return np.searchsorted(self._edges, us, side="right").astype(np.int64)
        return np.minimum((us - self._origin) // self.length + 1, self.steps + 1)

    def ended_by(self, us: int) -> int:
        """How many windows have ended at a moment."""
        return int(np.clip(self.step_of(np.array([us], dtype=np.int64))[0] - 1, 0, self.steps))

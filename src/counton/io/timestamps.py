"""Columns of times of any type as integers: microseconds since 1970-01-01 UTC."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple, cast, get_args

from counton.base.errors import InvalidInputError, param
from counton.io.error_policy import Problem
from counton.io.problem_codes import code_as_time
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import is_moment

ClockChange = Literal["raise", "earliest", "latest"]
CLOCK_CHANGE: tuple[ClockChange, ...] = get_args(ClockChange)
#: The same where only the day of a local time matters, which it names.
WITHIN_DAY = "within the day"

#: Length of one unit of each epoch format in microseconds, as a ratio.
EPOCHS = {
    "epoch": (1_000_000, 1),
    "epoch_ms": (1_000, 1),
    "epoch_us": (1, 1),
    "epoch_ns": (1, 1000),
}
EPOCH_FORMATS = tuple(EPOCHS)

_WITH_OFFSET: tuple[str, ...] = ("%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%dT%H:%M%z")
_LOCAL: tuple[str, ...] = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
_OFFSETS = ("%z", "%:z", "%#z", "%+")
#: Replacements that turn other forms of times, of ISO 8601 and databases, into the formats above.
_ISO_8601 = (
    (r"^([0-9]{4})([0-9]{2})([0-9]{2})([T ]|$)", "${1}-${2}-${3}${4}"),
    (r"^(\d{4}-\d{2}-\d{2}) ", "${1}T"),
    (r"^(.{10}T[0-9]{2})([0-9]{2})([0-9]{2})", "${1}:${2}:${3}"),
    (r"^(.{10}T[0-9]{2})([0-9]{2})", "${1}:${2}"),
    (r"(:[0-9]{2}),([0-9]+)", "${1}.${2}"),
    (r" ?(?:UTC|GMT)$", "+0000"),  # as BigQuery writes
    (r"[Zz]$", "+0000"),
    (r"(T.*[+-]\d{2})$", "${1}00"),  # an offset in hours, as PostgreSQL writes
    (r"^(\d{4}-\d{2}-\d{2}T\d{2})([+-].*)?$", "${1}:00${2}"),
)
#: Matches the end of a day, which is the beginning of the next.
_END_OF_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T24:00(?::00(?:\.0+)?)?(?:[+-]|$)"
#: Matches a minute or second of one digit, which polars would misread.
_ONE_DIGIT = ":[0-9]([^0-9]|$)"
#: Matches a directive after a colon that is no hour, minute or second.
_OTHER_CLOCK = re.compile(":%[^HMSz]")
#: The years 1 to 9999. A number of seconds outside them probably has another unit.
_EARLIEST_US = -62_135_596_800_000_000
_LATEST_US = 253_402_300_799_999_999
#: Local times may lie outside these years by less than a day.
_DAY_US = 86_400_000_000

#: Number of forms of times that are read fast in each batch of rows. Offsets change with the
#: season.
_MOST_FAST_SHAPES = 4
#: Number of texts by which is seen whether most are repeated.
_SAMPLED_TEXTS = 1000

#: Numbers in place of a time, for the reason why there is none.
NO_TIME = code_as_time(Problem.NO_TIME)
UNREADABLE_TIME = code_as_time(Problem.UNREADABLE_TIME)
CHANGED_CLOCKS = code_as_time(Problem.CLOCK_CHANGE)


def moments(
    name: str,
    dtype: pl.DataType,
    timezone: str,
    ambiguous: str = "raise",
    time_format: str | None = None,
) -> pl.Expr:
    """Return an expression for microseconds since 1970 (Int64), or for why there is no valid time.

    The reasons, none of them a moment (`is_moment`), are `NO_TIME`; `UNREADABLE_TIME`, also for a
    year outside 1 to 9999; and `CHANGED_CLOCKS` for a local time that clocks skip or show twice.

    Args:
        ambiguous: the moment of a local time that clocks show twice; "raise" gives a code.
            `WITHIN_DAY` also takes a time that clocks skip, as if they had not been changed yet.
        time_format: ``epoch`` (seconds since 1970), ``epoch_ms``, ``epoch_us``, ``epoch_ns``, a
            strftime format, or None for ISO 8601.

    Raises:
        InvalidInputError: the type cannot hold times, or is a number without an epoch format.

    >>> texts = pl.Series("time", ["1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "?"])
    >>> found = texts.to_frame().select(moments("time", texts.dtype, "UTC"))["time"]
    >>> found.to_list() == [1000000, 1000000, UNREADABLE_TIME]
    True
    """
    column = pl.col(name)
    if time_format is not None:
        _refuse_other_zone(time_format, timezone)
    missing = pl.when(column.is_null()).then(NO_TIME)
    if time_format == "epoch_ns" and dtype.is_float():
        raise InvalidInputError(
            f"column {name!r} holds {dtype}, which is too coarse for nanoseconds since 1970; "
            "convert the column to whole numbers (a single missing value may have changed its type)"
        )
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        # Times become integers: polars ends the process if it computes with a time without a date.
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            return physical_us(column, dtype, UNREADABLE_TIME).fill_null(NO_TIME)
        local = physical_us(column, dtype)
        moment = _local_to_utc(local.cast(pl.Datetime("us")), timezone, ambiguous)
        fallback = missing.when(local.is_null()).then(UNREADABLE_TIME)
        return _in_years(moment).fill_null(fallback.otherwise(CHANGED_CLOCKS))
    if time_format in EPOCHS and (dtype.is_numeric() or dtype == pl.String):
        return missing.otherwise(_from_epoch(column, *EPOCHS[time_format])).fill_null(
            UNREADABLE_TIME
        )
    if dtype != pl.String:
        raise InvalidInputError(
            f"column {name!r} holds {dtype}, not times; if it holds numbers since 1970, state the "
            f"time format ({', '.join(EPOCH_FORMATS)}), and if it holds dates such as 20240301, "
            "convert them to dates or text"
        )

    def read(texts: pl.Series) -> pl.Series:
        sample = texts.gather_every(len(texts) // _SAMPLED_TEXTS + 1)
        if len(texts) < _SAMPLED_TEXTS or 4 * sample.n_unique() > len(sample):
            return _from_text(texts, timezone, ambiguous, time_format)
        # Most texts are repeated, as in a table of days, so each is read once.
        distinct = texts.unique()
        us = _from_text(distinct, timezone, ambiguous, time_format).alias("us")
        times = pl.DataFrame({"text": distinct, "us": us})
        frame = texts.alias("text").to_frame()
        return frame.join(times, on="text", how="left", nulls_equal=True, maintain_order="left")[
            "us"
        ]

    return column.map_batches(read, return_dtype=pl.Int64, is_elementwise=True)


#: Matches one directive of a strftime format.
_DIRECTIVE = re.compile(r"%[-_0]?(?::{1,3}|#|\.?[0369]?)([A-Za-z%+])")
_CENTURY = "a year of two digits, whose century nobody can tell"
#: Directives that are not read as they are meant, what to write in place of them, and why.
_MISREAD = (
    ("%Z", "%z", "the name of a zone, which would be ignored"),
    *(("%y", "%Y", _CENTURY), ("%g", "%G", _CENTURY)),
    *((short, "%m/%d/%Y", _CENTURY) for short in ("%D", "%x")),
    *((short, "%.f", "which would be read as nanoseconds") for short in (".%f", "%f")),
)
#: Times that a format has to say so that they are read as they were.
_PROBES = [datetime(year, month, 23, 15, 45) for year, month in ((1961, 7), (1999, 2), (2024, 11))]


def check_time_format(form: str) -> None:
    """Refuse a format without a day and its year, with years of two digits, or an ignored zone.

    >>> check_time_format("%H:%M")
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: time_format='%H:%M' does not say a day and its year, ...
    """
    if form in EPOCHS:
        return
    shown_form = _as_format(form)
    wrong = None
    for directive, right, why in _MISREAD:
        if directive in form and wrong is None:
            wrong = directive, why, form.replace(directive, right)
    hour = re.search(r"(?<![A-Za-z])[AaPp]\.?[Mm]\b\.?", _DIRECTIVE.sub("\0", form))
    if hour is not None:
        why = "which would be ignored"
        right = form.replace(hour[0], "%p").replace("%H", "%I").replace("%k", "%I")
        wrong = f"the word {hour[0]}", why, right
    if re.search(r"(?<![A-Za-z])[Zz]\s*$", _DIRECTIVE.sub("0", form)):
        why = "which means UTC, but would be read as any other sign"
        wrong = "a Z at its end", why, re.sub(r"[Zz](\s*)$", r"%z\1", form)
    if "%s" in form:
        wrong = "%s", "seconds since 1970", "epoch"
    if wrong is not None:
        problem, why, right = wrong
        raise InvalidInputError(
            f"{shown_form} has {problem}, {why}: write times for {_as_format(right)}"
        )
    _refuse_period_format(form)
    read = list(map(partial(_read_back, form), _PROBES))
    if None in read:
        raise InvalidInputError(
            f"{shown_form} is no format by which a time can be read; give one such as "
            f"{_as_format('%d.%m.%Y %H:%M')}"
        )
    if [moment and moment.date() for moment in read] != [probe.date() for probe in _PROBES]:
        letters = set(_DIRECTIVE.findall(form))
        clock_alone = letters & set("HIklTRXr") and not letters & set("YmdbBhej")
        more = f"%Y-%m-%d {form}" if clock_alone else "%d.%m.%Y %H:%M"
        raise InvalidInputError(
            f"{shown_form} does not say a day and its year, so all events would be on the wrong "
            f"day: give a format of both, such as {_as_format(more)}"
        )


def _refuse_period_format(form: str) -> None:
    """Refuse a format of months, quarters or years, in which every day is meant.

    >>> _refuse_period_format("%Y-%m")
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: time_format='%Y-%m' has no day. Write the first day ...
    """
    letters = set(_DIRECTIVE.findall(form))
    if "Y" not in letters or letters - set("YmbBhq"):
        return
    period = "year"
    if "q" in letters:
        period = "quarter"
    elif letters != {"Y"}:
        period = "month"
    raise InvalidInputError(
        f"{_as_format(form)} has no day. Write the first day of each {period}, as in 2024-01-01, "
        f"and leave {param('time_format')} out"
    )


def _as_format(form: str) -> str:
    return param("time_format", f"'{form}'")


def _read_back(form: str, moment: datetime) -> datetime | None:
    """Return what is read of a written time."""
    with warnings.catch_warnings(), suppress(pl.exceptions.PolarsError, ValueError):
        warnings.simplefilter("ignore")  # polars warns of formats that it understands otherwise
        written = pl.Series([moment]).dt.replace_time_zone("UTC")
        text = written.dt.strftime(re.sub(r"%[:#]+z", "%z", form))
        time = text.str.to_datetime(form, time_unit="us", strict=False)[0]
        return None if time is None else time.replace(tzinfo=None)
    return None


#: Words that name a time zone, in lower case; other abbreviations are in capitals.
_ZONE_WORDS = {
    "utc", "gmt", "ut", "zulu", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "akst",
    "akdt", "hst", "ast", "adt", "nst", "ndt", "wet", "west", "cet", "cest", "met", "mest",
    "eet", "eest", "bst", "msk", "ist", "pkt", "jst", "kst", "hkt", "sgt", "wib", "wita", "wit",
    "aest", "aedt", "acst", "acdt", "awst", "nzst", "nzdt", "sast", "cat", "eat", "wat", "gst",
    "idt",
}  # fmt: skip
#: Words in capitals that are no zones.
_OTHER_WORDS = ("UHR", "HRS")
#: Names of UTC, as a word of a format and as a time zone.
_NAMES_OF_UTC = ("utc", "gmt", "ut", "zulu", "z", "uct", "universal", "etc/utc", "etc/gmt")
#: Matches a region such as Europe/Berlin, a word, or an offset such as +0000.
_ZONE_LITERAL = re.compile(r"[A-Za-z_]+(?:/[A-Za-z_]+)+|[A-Za-z]+|[+\u2212-]\s?\d[\d:]*")


def _zone_literals(form: str) -> list[str]:
    """Return the parts of a format, other than directives, that look like a zone or an offset."""
    literals = list[str]()
    for literal in _ZONE_LITERAL.findall(_DIRECTIVE.sub("\0", form)):
        is_word = literal.isalpha()
        is_abbreviation = re.fullmatch("[A-Z]{3,5}", literal) and literal not in _OTHER_WORDS
        if not is_word or is_abbreviation or literal.lower() in _ZONE_WORDS:
            literals.append(literal)
    return literals


def _refuse_other_zone(form: str, timezone: str) -> None:
    """Refuse a format with a zone or an offset as text, if times would be read in another zone.

    Args:
        form: a strftime format.
        timezone: the zone in which times without an offset are read.

    Raises:
        InvalidInputError: The format has such a text and no directive for offsets.
    """
    if form in EPOCHS or any(offset in form for offset in _OFFSETS):
        return
    in_utc = timezone.lower() in _NAMES_OF_UTC
    for literal in _zone_literals(form):
        is_utc = literal.lower() in _NAMES_OF_UTC or not re.search("[A-Za-z1-9]", literal)
        if literal == timezone or (is_utc and in_utc):
            continue
        part = f"the word {literal}" if literal[0].isalpha() else f"the offset {literal}"
        right = param("time_format", f"'{form.replace(literal, '%z')}'")
        leave_out = f"leave {param('timezone')} out, or " if is_utc else ""
        raise InvalidInputError(
            f"{_as_format(form)} has {part}, which is not read, and times would be read in "
            f"{timezone}: {leave_out}write times with offsets, as in +0000, for {right}"
        )


def is_serial(column: pl.Expr) -> pl.Expr:
    """Return whether numbers may be days as Excel counts them, of the years 1954 to 2119; as
    seconds since 1970 they would be of its first day.
    """
    number = column.cast(pl.Float64, strict=False)
    return number.is_between(20_000, 80_000).fill_null(False)


def format_like(text: str) -> str | None:
    """Return the strftime format of a time with points between day, month and year, if it is one.

    >>> format_like("1.9.2026 09:17"), format_like("09/01/2026"), format_like("31.12.2026")
    ('%d.%m.%Y %H:%M', None, '%d.%m.%Y')
    """
    match = re.fullmatch(r"\d{1,2}\.\d{1,2}\.\d{4}( \d{1,2}:\d\d(:\d\d)?)?", text)
    if match is None:
        return None
    return "%d.%m.%Y" + " %H:%M" * (match[1] is not None) + ":%S" * (match[2] is not None)


def physical_us(column: pl.Expr, dtype: pl.DataType, beyond: int | None = None) -> pl.Expr:
    """Convert dates or times to microseconds since 1970, ``beyond`` outside the valid years."""
    times = StoredTimes.of(dtype)
    stored = column.to_physical().cast(pl.Int64)
    us = stored
    if times.microseconds != times.units:
        us = stored * times.microseconds // times.units
    is_valid = stored.is_between(times.first, times.last).fill_null(True)
    return pl.when(is_valid).then(us).otherwise(beyond)


class StoredTimes(NamedTuple):
    """The integers in which a column holds dates or times.

    Attributes:
        microseconds, units: so many microseconds are so many units.
        first, last: integers of the first and last time in the valid years.
    """

    microseconds: int
    units: int
    first: int
    last: int

    @classmethod
    def of(cls, dtype: pl.DataType) -> StoredTimes:
        """Return those of a type of dates or times."""
        unit = dtype.time_unit if isinstance(dtype, pl.Datetime) else "d"
        microseconds, units = {"d": (_DAY_US, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}[
            unit
        ]
        first, last = (edge * units // microseconds for edge in (_EARLIEST_US, _LATEST_US))
        return cls(microseconds, units, max(first, -(2**63)), min(last, 2**63 - 1))

    @property
    def are_all_valid(self) -> bool:
        """Whether each integer is a time in the valid years."""
        return self.first == -(2**63)

    def from_us(self, us: int) -> int | None:
        """Return microseconds in this unit; None if they are no whole number of units."""
        number, rest = divmod(us * self.units, self.microseconds)
        return None if rest else number


def as_text(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return texts; null for bytes that are not UTF-8.

    A date or time that does not exist is its stored number: polars would end the process.

    >>> days = pl.Series("day", [0, 2**31 - 1], pl.Int32).cast(pl.Date)
    >>> days.to_frame().select(as_text(pl.col("day"), days.dtype))["day"].to_list()
    ['1970-01-01', '2147483647']
    """
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        is_valid = physical_us(column, dtype).is_not_null()
    elif dtype == pl.Time:
        is_valid = column.to_physical().is_between(0, 1000 * _DAY_US - 1)
    elif dtype == pl.Duration:
        return column.to_physical().cast(pl.String)
    elif dtype == pl.Binary:
        return column.map_batches(_decode, return_dtype=pl.String, is_elementwise=True)
    else:
        return column.cast(pl.String, strict=False)
    text = pl.when(is_valid).then(column).cast(pl.String, strict=False)
    return pl.coalesce(text, pl.when(~is_valid).then(column.to_physical()).cast(pl.String))


def _decode(values: pl.Series) -> pl.Series:
    texts: list[str | None] = []
    for value in values:
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
    return pl.Series(texts, dtype=pl.String)


def _in_years(us: pl.Expr) -> pl.Expr:
    """Replace times outside the years 1 to 9999 by `UNREADABLE_TIME`; nulls stay.

    Within a day outside, where an offset may have moved it, a time becomes the first or last
    moment.
    """
    near = us.is_between(_EARLIEST_US - _DAY_US, _LATEST_US + _DAY_US)
    inside = pl.when(near).then(us.clip(_EARLIEST_US, _LATEST_US))
    return inside.when(us.is_not_null()).then(UNREADABLE_TIME)


def _from_epoch(column: pl.Expr, numerator: int, denominator: int) -> pl.Expr:
    # Integers are exact; text such as 1357016400.25 goes through float64 (exact to a microsecond).
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
    texts: pl.Series,
    timezone: str,
    ambiguous: str,
    time_format: str | None,
    shapes: int = _MOST_FAST_SHAPES,
) -> pl.Series:
    """Convert texts to microseconds since 1970 (Int64), or to codes of `moments`.

    Texts written like the first are parsed together, which is fast; then the rest, for ``shapes``
    rounds before a slower parser reads what remains.
    """
    if texts.null_count() == len(texts):
        return pl.repeat(NO_TIME, len(texts), dtype=pl.Int64, eager=True)
    times = None
    if time_format is None and shapes:
        times = _from_one_shape(texts, timezone, ambiguous)
    if times is None:
        return _from_any_shape(texts, timezone, ambiguous, time_format)
    other = times.is_null()
    if not other.any():
        return times
    rest = _from_text(texts.filter(other), timezone, ambiguous, time_format, shapes - 1)
    return times.scatter(other.arg_true(), rest)


#: Text after the seconds of times with an offset in ISO 8601, and its microseconds.
_OFFSETS_US = {"Z": 0, "z": 0} | {
    f"{sign}{minutes // 60:02}{separator}{minutes % 60:02}": int(f"{sign}1") * minutes * 60_000_000
    for minutes in range(0, 16 * 60, 15)
    for sign in "+-"
    for separator in ("", ":")
}


def _from_one_shape(texts: pl.Series, timezone: str, ambiguous: str) -> pl.Series | None:
    """Convert texts of the form of the first; others become null, as with another offset from UTC.

    None if that form is unknown. Most programs write one form, which is read in a sixth of the time
    of a general parser.
    """
    first = texts.drop_nulls().first()
    shape = None if first is None else _CLOCK_SHAPE.fullmatch(str(first))
    if shape is None or (shape["offset"] and shape["offset"] not in _OFFSETS_US):
        return None
    seconds = "" if shape["seconds"] is None else ":%S"
    fraction = "" if shape["fraction"] is None else f".%{len(shape['fraction'])}f"
    form = f"%Y-%m-%d{shape['between']}%H:%M{seconds}{fraction}{shape['offset']}"
    text = pl.col("text")
    # Polars also reads times of almost this shape, with a sign or a tab in place of a digit. Then
    # the first row would decide the meaning of another.
    digits = re.sub("[0-9]", "[0-9]", shape["seconds"] or "").replace(".", r"\.")
    alike = rf"^{_CLOCK.format(shape['between'])}{digits}{re.escape(shape['offset'])}$"
    parsed = text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    local = pl.when(text.str.contains(alike)).then(parsed)
    if shape["offset"]:
        times = local.dt.epoch("us") - _OFFSETS_US[shape["offset"]]
    else:
        times = _local_to_utc(local, timezone, ambiguous)
    us = pl.DataFrame({"text": texts}).select(us=times).to_series()
    edges = cast("tuple[int | None, int | None]", (us.min(), us.max()))
    if (edges[0] or 0) >= _EARLIEST_US and (edges[1] or 0) <= _LATEST_US:
        return us
    return pl.DataFrame({"us": us}).select(_in_years(pl.col("us"))).to_series()


#: A date and a time of day, with digits as in polars' own regular expressions.
_CLOCK = "[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{}[0-9]{{2}}:[0-9]{{2}}"
_CLOCK_SHAPE = re.compile(
    r"\d{4}-\d\d-\d\d(?P<between>[T ])\d\d:\d\d"
    r"(?P<seconds>:\d\d(\.(?P<fraction>\d{3}|\d{6}|\d{9}))?)?"
    r"(?P<offset>|[Zz]|[+-]\d\d:?\d\d)",
    re.ASCII,
)


def _from_any_shape(
    texts: pl.Series, timezone: str, ambiguous: str, time_format: str | None
) -> pl.Series:
    """Convert texts in any form of ISO 8601, or in a stated format, or to codes of `moments`."""
    with_offset, local = _forms_of(time_format)
    nothing = pl.lit(None, dtype=pl.Int64)
    text_column = pl.col("text")
    absolute = [_parse(text_column, form).dt.epoch("us") for form in with_offset]
    naive = [_parse(text_column, form) for form in local]
    if time_format is None:
        naive.append(text_column.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")))
    near = is_moment(_in_years(pl.col("local").dt.epoch("us")))  # otherwise the date may not exist
    clocks = _local_to_utc(pl.when(near).then(pl.col("local")), timezone, ambiguous)
    later = pl.lit(0, dtype=pl.Int64)
    if time_format is None:
        later = pl.when(pl.col("text").str.contains(_END_OF_DAY)).then(_DAY_US).otherwise(0)
    midnight = text_column.str.replace("T24", "T00", literal=True)
    # In stages, so that each text is normalised and parsed once.
    return (
        pl.LazyFrame({"given": texts})
        .with_columns(text=_normal_text(pl.col("given"), time_format))
        .with_columns(later=later.fill_null(0))
        .with_columns(text=pl.when(pl.col("later") > 0).then(midnight).otherwise(text_column))
        .with_columns(text=pl.when(_is_whole(text_column, time_format)).then(text_column))
        .with_columns(
            us=pl.coalesce(*absolute, nothing) + pl.col("later"),
            local=pl.coalesce(*naive, nothing.cast(pl.Datetime("us")))
            + pl.col("later").cast(pl.Duration("us")),
        )
        .select(
            _in_years(pl.coalesce("us", clocks)).fill_null(
                pl.when(pl.col("given").is_null())
                .then(NO_TIME)
                .when(pl.col("local").is_null() | ~near)
                .then(UNREADABLE_TIME)
                .otherwise(CHANGED_CLOCKS)
            )
        )
        .collect()
        .to_series()
    )


def _forms_of(time_format: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """Return the forms of times with an offset from UTC, and of local times."""
    if time_format is None:
        return _WITH_OFFSET, _LOCAL
    if any(offset in time_format for offset in _OFFSETS):
        return (time_format,), ()
    return (), (time_format,)


def _normal_text(texts: pl.Expr, time_format: str | None) -> pl.Expr:
    """Return texts in the forms that are parsed."""
    text = texts.str.strip_chars()
    if time_format is None:
        for pattern, replacement in _ISO_8601:
            text = text.str.replace(pattern, replacement)
    elif time_format.endswith("z") and any(offset in time_format for offset in _OFFSETS):
        text = text.str.replace("[Zz]$", "+00:00")
    return text


def _is_whole(text: pl.Expr, time_format: str | None) -> pl.Expr:
    """Return whether all numbers of a text have all their digits.

    Polars also reads numbers of one digit, and a year of fewer digits, as in the first century.
    """
    whole = pl.lit(True)
    if time_format is None or _OTHER_CLOCK.search(time_format) is None:
        whole = ~text.str.contains(_ONE_DIGIT)
    if time_format is None or "%s" not in time_format:
        digits = "^[0-9]{4}" if time_format is None else "[0-9]{4}"
        whole &= text.str.contains(digits)
    return whole


def _parse(text: pl.Expr, form: str) -> pl.Expr:
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _local_to_utc(local: pl.Expr, timezone: str, ambiguous: str) -> pl.Expr:
    if timezone == "UTC":  # its clocks are never changed
        return local.dt.epoch("us")
    twice: Any = {"raise": "null", WITHIN_DAY: "earliest"}.get(ambiguous, ambiguous)

    def moment(clocks: pl.Expr) -> pl.Expr:
        times = clocks.dt.replace_time_zone(timezone, ambiguous=twice, non_existent="null")
        return times.dt.epoch("us")

    times = moment(local)
    if ambiguous != WITHIN_DAY:
        return times
    skipped = pl.when(times.is_null()).then(local)
    changed = skipped.dt.offset_by("1h")
    same_day = pl.when(changed.dt.date() == skipped.dt.date())
    return times.fill_null(same_day.then(moment(changed)))

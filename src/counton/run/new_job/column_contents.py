"""What the first rows show about columns: times and their format, the decimal sign, rows of totals,
and numbers that may be counts.

A result is a fact about the rows: formats and signs are part of the schema of the events and stand
in the job file, all else is shown to the operator alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import polars as pl

from counton.io.row_assignment import LIKE_MISSING
from counton.io.timestamps import EPOCH_FORMATS, moments
from counton.io.written_numbers import NumberText
from counton.windowing.windows import is_moment, microseconds

#: Number of values that are tried.
_TRIED_VALUES = 1000
#: Fraction of them that must be times, or numbers.
_LEAST_SHARE_OF_VALUES = 0.9
#: Number of first values that may have the shape of a time.
_FIRST_VALUES = 10
#: Least number of different months or weeks that make a series.
_LEAST_PERIODS = 3
#: Earliest time of an event that is a number since 1970; the latest is tomorrow.
_FIRST_EPOCH = 10**15
_OFFSET_PATTERN = re.compile(r"(?:[Zz]|UTC|GMT|[T ].*[+-]\d\d(?::?\d\d)?)$")
#: The numbers of such an offset at the end of a text.
_NUMBERS_OF_OFFSET = re.compile(r"[+-]\d\d(?::?\d\d)?$")
#: Zones and offsets that are UTC.
_NAMES_OF_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00", "+0000", "+00:00", "-00:00")
#: Words in the name of a column of times. A number since 1970 looks like any other number, such as
#: that of an order, so it is a time only under such a name.
_TIME_WORDS = frozenset({
    "at", "begin", "begun", "clock", "created", "date", "datetime", "datum", "day", "dt", "end",
    "ended", "epoch", "fecha", "finished", "from", "heure", "hora", "horodatage", "instant",
    "moment", "occurred", "on", "since", "start", "started", "stamp", "t", "tag", "time",
    "timestamp", "ts", "unix", "utc", "when", "zeit", "zeitpunkt", "zeitstempel",
})  # fmt: skip
_TIME_ENDINGS = ("time", "timestamp", "datetime", "datum", "zeit", "stamp")
#: Names of groups that are sums of other groups.
_TOTALS = frozenset({
    "all", "all groups", "alle", "ensemble", "gesamt", "gesamtsumme", "grand total", "insgesamt",
    "overall", "somme", "subtotal", "sum", "suma", "summe", "todos", "tot", "tot.", "totaal",
    "total", "total général", "totale", "totals", "tous", "toutes", "tutti", "zusammen",
    "zwischensumme",
})  # fmt: skip


class TimeColumn(NamedTuple):
    """A column whose values are times.

    Attributes:
        name: name of the column.
        local: whether its times lack a time zone, so that one must be stated.
        time_format: format of the times, such as ``%d.%m.%Y`` or ``epoch``; None: ISO 8601, the
            column has a data type of times, or ``formats`` has several.
        formats: all formats that the times may have, if there are several, as for 3/4/2024.
        offset: an offset or a zone of the times that is not UTC, such as +02:00, so that days may
            begin at another moment than in UTC; None: there is none.
    """

    name: str
    local: bool
    time_format: str | None
    formats: tuple[str, ...] = ()
    offset: str | None = None

    @property
    def leaves_zone_open(self) -> bool:
        """Whether the times do not show in which zone days begin, so that one must be stated."""
        return self.local or self.offset is not None


def find_months(columns: Iterable[pl.Series]) -> tuple[str, ...]:
    """Return the columns of texts that are months without a day, as in 2024-03.

    >>> find_months([pl.Series("month", ["2024-03", "2024-04"]), pl.Series("day", ["2024-03-01"])])
    ('month',)
    """
    return tuple(
        column.name
        for column in columns
        if column.dtype == pl.String
        and _fraction(_some_of(column).str.contains(_MONTH)) >= _LEAST_SHARE_OF_VALUES
    )


def usual_window(
    column: pl.Series, time_format: str | None, *, least_periods: int = _LEAST_PERIODS
) -> str | None:
    """Return the length of windows that days without hours suggest: a month or a week.

    Args:
        column: the first values of a column of times without a zone.
        time_format: the format of the times; None for ISO 8601 or a data type of times.
        least_periods: least number of months or weeks.

    Returns:
        ``"1mo"`` if all times are midnights of the first day of a month, ``"1w"`` if all are
        midnights of one day of the week, of at least ``least_periods`` months or weeks; else None.

    >>> usual_window(pl.Series("month", ["2024-03-01", "2024-01-01", "2024-02-01"]), None)
    '1mo'
    >>> usual_window(pl.Series("day", ["2024-03-01", "2024-01-01", "2024-02-02"]), None)
    """
    distinct = column.drop_nulls().unique()
    read = moments(column.name, distinct.dtype, "UTC", "earliest", time_format)
    us = distinct.to_frame().select(read).to_series()
    days = us.filter(is_moment(us)).cast(pl.Datetime("us")).unique()
    if days.len() < least_periods or (days.dt.truncate("1d") != days).any():
        return None
    if (days.dt.day() == 1).all():
        return "1mo"
    return "1w" if days.dt.weekday().n_unique() == 1 else None


def find_times(column: pl.Series, *, is_stated: bool = False) -> TimeColumn | None:
    """Return the name of a column and the format of its times.

    Args:
        column: the first values of the column.
        is_stated: whether somebody said that the column has times; then its name does not matter.

    Returns:
        None if the column holds no times.

    >>> find_times(pl.Series("Date", ["3/1/2024 9:30:00 PM", "3/13/2024 1:05:00 AM"]))
    TimeColumn(name='Date', local=True, time_format='%m/%d/%Y %I:%M:%S %p', formats=(), offset=None)
    >>> find_times(pl.Series("at", ["2024-03-31T00:30+01:00", "2024-03-31T12:00+02:00"])).offset
    '+01:00'
    >>> find_times(pl.Series("date", ["03/04/2024", "01/02/2024"])).formats
    ('%d/%m/%Y', '%m/%d/%Y')
    >>> find_times(pl.Series("order_no", [1_700_000_001, 1_700_000_002]))
    """
    values = _some_of(column)
    dtype = values.dtype
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
        return TimeColumn(column.name, zone is None, None, offset=_other_than_utc([zone]))
    if values.is_empty() or not (dtype == pl.String or dtype.is_numeric()):
        return None
    if dtype == pl.String:
        are_iso = _are_times(values, None)
        if _fraction(are_iso) >= _LEAST_SHARE_OF_VALUES:
            texts = values.filter(are_iso).to_list()
            is_local = _OFFSET_PATTERN.search(texts[0].strip()) is None
            offset = None if is_local else _offset_of(texts)
            return TimeColumn(column.name, is_local, None, offset=offset)
        forms = _formats_of(values)
        if forms:
            is_local = not any("%z" in form for form in forms)
            offset = None if is_local else _offset_of(values.drop_nulls().to_list())
            if len(forms) == 1:
                return TimeColumn(column.name, is_local, forms[0], offset=offset)
            return TimeColumn(column.name, is_local, None, forms, offset)
    if is_stated or _names_a_time(column.name):
        for form in EPOCH_FORMATS:
            if form == "epoch_ns" and dtype.is_float():
                continue  # a Float64 is too coarse for nanoseconds
            if _fraction(_are_times(values, form)) >= _LEAST_SHARE_OF_VALUES:
                return TimeColumn(column.name, False, form)
    return None


def _offset_of(texts: Iterable[str]) -> str | None:
    """Return the first offset of texts of times that is not UTC; None if there is none."""
    matches = (_NUMBERS_OF_OFFSET.search(text.strip()) for text in texts)
    return _other_than_utc(match.group() for match in matches if match)


def _other_than_utc(zones: Iterable[str | None]) -> str | None:
    """Return the first offset or zone that is not UTC; None if there is none."""
    return next((zone for zone in zones if zone is not None and zone not in _NAMES_OF_UTC), None)


def _some_of(column: pl.Series) -> pl.Series:
    """Return some values of a column, evenly spread over its rows, without empty ones."""
    values = column.drop_nulls()
    values = values.gather_every(values.len() // _TRIED_VALUES + 1)
    if values.dtype != pl.String:
        return values
    return values.filter(values.str.strip_chars() != "")


def _are_times(values: pl.Series, form: str | None) -> pl.Series:
    """Return which values are times in a format; of numbers since 1970, which are of the past."""
    read = values.to_frame().select(moments(values.name, values.dtype, "UTC", "earliest", form))
    us = read.to_series()
    if form not in EPOCH_FORMATS:
        return is_moment(us)
    tomorrow = microseconds(datetime.now(UTC) + timedelta(days=1))
    return us.is_between(_FIRST_EPOCH, tomorrow)


def _fraction(which: pl.Series) -> float:
    """Return the fraction of a boolean series that is True; 0 if the series is empty."""
    return float(which.sum()) / max(1, which.len())


#: Dates that are not ISO 8601: a pattern of the first value, and the formats that it may have.
_DATES = (
    (r"\d{1,2}\.\d{1,2}\.\d{4}", ("%d.%m.%Y",)),
    (r"\d{1,2}/\d{1,2}/\d{4}", ("%d/%m/%Y", "%m/%d/%Y")),
    (r"\d{1,2}-\d{1,2}-\d{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"\d{4}/\d{1,2}/\d{1,2}", ("%Y/%m/%d",)),
    (r"\d{4}\.\d{1,2}\.\d{1,2}", ("%Y.%m.%d",)),
    (r"\d{1,2} [A-Za-z]+ \d{4}", ("%d %b %Y",)),
    (r"\d{1,2}-[A-Za-z]+-\d{4}", ("%d-%b-%Y",)),
    (r"\d{1,2}/[A-Za-z]+/\d{4}", ("%d/%b/%Y",)),
    (r"[A-Za-z]+ \d{1,2}, \d{4}", ("%b %d, %Y",)),
)
#: The time of day after a date, and an offset from UTC.
_CLOCK = re.compile(
    r"(?P<between>, | |T|:)(?P<hour>\d{1,2}):\d\d(?P<seconds>:\d\d)?(?P<fraction>\.\d+)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<offset> ?[+-]\d\d:?\d\d)?"
)


def _formats_of(values: pl.Series) -> tuple[str, ...]:
    """Return the formats, other than ISO 8601, that read the most of some texts.

    They are several if each of them reads most values, as of dates before the 13th of a month.
    """
    # The first value may be a second line of the header.
    possible = next(filter(None, map(_formats_like, values.head(_FIRST_VALUES).to_list())), [])
    fractions = {form: _fraction(_are_times(values, form)) for form in possible}
    best = max(fractions.values(), default=0.0)
    if best < _LEAST_SHARE_OF_VALUES:
        return ()
    least = best if best == 1.0 else _LEAST_SHARE_OF_VALUES
    return tuple(form for form, fraction in fractions.items() if fraction >= least)


def _formats_like(text: str) -> list[str]:
    """Return the formats of a date, with or without a time of day, that is not ISO 8601.

    >>> _formats_like("1.9.2026 09:17"), _formats_like("01/Mar/2024:03:29:00 +0000")
    (['%d.%m.%Y %H:%M'], ['%d/%b/%Y:%H:%M:%S %z'])
    """
    text = text.strip()
    for pattern, dates in _DATES:
        date = re.match(pattern, text)
        if date is None:
            continue
        rest = text[date.end() :]
        if not rest:
            return list(dates)
        time_of_day = _CLOCK.fullmatch(rest)
        return [] if time_of_day is None else [form + _clock_format(time_of_day) for form in dates]
    return []


def _clock_format(time_of_day: re.Match[str]) -> str:
    """Return the format of a time of day after a date, as `_CLOCK` matches it."""
    half = time_of_day["half"]
    offset = time_of_day["offset"]
    form = f"{time_of_day['between']}{'%H' if half is None else '%I'}:%M"
    if time_of_day["seconds"]:
        form += ":%S"
    if time_of_day["fraction"]:
        form += "%.f"
    if half is not None:
        form += " %p" if half.startswith(" ") else "%p"
    if offset:
        form += " %z" if offset.startswith(" ") else "%z"
    return form


def _names_a_time(name: str) -> bool:
    """Return whether a word in the name of a column means a time.

    >>> [_names_a_time(name) for name in ("startTime", "ts", "created_at", "Zeitstempel (UTC)")]
    [True, True, True, True]
    >>> [_names_a_time(name) for name in ("position_lat", "order_no", "candidate_id", "population")]
    [False, False, False, False]
    """
    words = re.findall(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])", name)
    return any(
        word.lower() in _TIME_WORDS or word.lower().endswith(_TIME_ENDINGS) for word in words
    )


#: A month without a day.
_MONTH = r"^\s*[12][0-9]{3}[-/.](?:0[1-9]|1[0-2])\s*$"
#: Numbers as texts: whole ones, and those that have a decimal sign or a sign of thousands.
_WHOLE = r"^[+-]?[0-9]+$"
_WITH_COMMA = r"^[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]+$"
_WITH_POINT = r"^[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)\.[0-9]+$"
_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+$"
_COMMA_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+$"


#: Matches whole numbers that are written with decimals, which are 0.
_COUNTS_WITH_SIGN = {",": r"^[0-9.]+,(?:0|00)$", ".": r"^[0-9,]+\.(?:0|00)$"}
#: Least part of the numbers with a comma or a point that shows which of them is the decimal sign.
#: Fewer such numbers may be mistakes.
_LEAST_SHARE_OF_SIGNS = 0.02


class _SignsOfColumn(NamedTuple):
    """What the numbers of a column show about the decimal sign.

    Attributes:
        shown: signs that can only be decimal signs, as in 1,5 or 0.204.
        doubtful: numbers that can be read in two ways, as 1.204; none if a sign is shown.
        has_plain: whether the column has numbers without commas and points.
    """

    shown: frozenset[str]
    doubtful: pl.Series
    has_plain: bool

    @classmethod
    def of(cls, column: pl.Series, *, are_counts: bool) -> _SignsOfColumn:
        """Return what the numbers of a column of texts show.

        Args:
            column: the first values of the column.
            are_counts: whether its numbers are counts. These are whole, so that 1,204 is no
                decimal, and 12.5 is a mistake that shows nothing.
        """
        values = column.drop_nulls().str.strip_chars()
        if are_counts:
            doubtful = values.filter(values.str.contains(_THOUSANDS))
            patterns = _COUNTS_WITH_SIGN
        else:
            is_doubtful = values.str.contains(f"{_THOUSANDS}|{_COMMA_THOUSANDS}")
            doubtful = values.filter(is_doubtful)
            values = values.filter(~is_doubtful)
            patterns = {",": _WITH_COMMA, ".": _WITH_POINT}
        numbers = {sign: int(values.str.contains(form).sum()) for sign, form in patterns.items()}
        has_plain = bool(values.str.contains(_WHOLE).any())
        is_shown = sum(numbers.values()) > _LEAST_SHARE_OF_SIGNS * doubtful.len()
        if is_shown:
            shown = frozenset(sign for sign, number in numbers.items() if number)
            return cls(shown, doubtful.clear(), has_plain)
        return cls(frozenset(), doubtful, has_plain)

    @property
    def doubtful_signs(self) -> set[str]:
        """The signs in numbers that can be read in two ways."""
        return {sign for sign in ",." if self.doubtful.str.contains(sign, literal=True).any()}


def decimal_sign(
    columns: Iterable[pl.Series], separator: str, *, are_counts: bool = False
) -> str | None:
    """Return the decimal sign of the numbers in CSV.

    A number such as 1.204 can be read in two ways. Numbers such as 1.5 or 0.204 show how it is
    meant. Those of another column show nothing if its own column has plain numbers, such as 850:
    a program that writes 1.204 with three decimals also writes 850.000.

    Args:
        columns: the first values of the columns that may be read as numbers.
        separator: the separator of fields. A comma shows that a comma groups thousands.
        are_counts: whether the numbers are counts.

    Returns:
        ``","`` or ``"."``; None if the numbers can be read in both ways, as 1.204.

    >>> decimal_sign([pl.Series(["1,5", "0,25"])], ";"), decimal_sign([pl.Series(["1.204"])], ",")
    (',', None)
    >>> paid = pl.Series(["12.50", "7.00"])
    >>> [decimal_sign([paid, pl.Series(texts)], ",") for texts in (["1.204"], ["1.204", "850"])]
    ['.', None]
    """
    shown_signs: set[str] = set()
    doubtful_signs: set[str] = set()
    signs_of_thousands: set[str] = set()
    for column in columns:
        if not (are_counts or _are_mostly_numbers(column)):
            continue
        signs = _SignsOfColumn.of(column, are_counts=are_counts)
        shown_signs |= signs.shown
        doubtful_signs |= signs.doubtful_signs
        if signs.has_plain:
            signs_of_thousands |= signs.doubtful_signs
    if separator == ",":
        doubtful_signs.discard(",")
        signs_of_thousands.discard(",")
    if len(shown_signs) == 1 and not shown_signs & signs_of_thousands:
        return shown_signs.pop()
    return None if shown_signs or doubtful_signs else "."


def find_doubtful_numbers(
    columns: Iterable[pl.Series], *, are_counts: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the columns of numbers that can be read in two ways, and such a number.

    Args:
        columns: the first values of the columns that may be read as numbers.
        are_counts: whether the numbers are counts.

    >>> find_doubtful_numbers([pl.Series("meals", ["850", "1.204"]), pl.Series("kg", ["1.5"])])
    (('meals', '1.204'),)
    """
    doubtful_numbers: list[tuple[str, str]] = []
    for column in columns:
        if are_counts or _are_mostly_numbers(column):
            doubtful = _SignsOfColumn.of(column, are_counts=are_counts).doubtful
            doubtful_numbers += [(column.name, text) for text in doubtful.head(1).to_list()]
    return tuple(doubtful_numbers)


def _are_mostly_numbers(column: pl.Series) -> bool:
    """Return whether a column of texts has numbers, apart from a few mistakes."""
    values = _some_of(column).str.strip_chars()
    numbers = rf"{_WHOLE}|{_WITH_COMMA}|{_WITH_POINT}|{_THOUSANDS}|{_COMMA_THOUSANDS}"
    return _fraction(values.str.contains(numbers)) >= _LEAST_SHARE_OF_VALUES


def find_thousands(
    columns: Iterable[pl.Series],
    count_column: str | None = None,
    *,
    commas_group_thousands: bool = False,
) -> tuple[tuple[str, str], ...]:
    """Return the columns of numbers with separators of thousands, and such a number.

    Args:
        columns: the first values of the columns.
        count_column: the column of counts. These are whole, so that a comma groups thousands.
        commas_group_thousands: whether a comma is no decimal sign in other columns either.

    >>> find_thousands([pl.Series("income", ["3.424,66", "810,5"]), pl.Series("ip", ["10.0.0.17"])])
    (('income', '3.424,66'),)
    >>> find_thousands([pl.Series("meals", ["1,204", "850"])], "meals")
    (('meals', '1,204'),)
    """
    columns_of_numbers: list[tuple[str, str]] = []
    for column in columns:
        if column.dtype != pl.String:
            continue
        is_comma_certain = commas_group_thousands or column.name == count_column
        values = _some_of(column).str.strip_chars()
        plain = f"{_WHOLE}|{_WITH_COMMA}|{_WITH_POINT}"
        is_grouped = ~values.str.contains(plain) | values.str.contains(r"[.,].*[.,]")
        if is_comma_certain:
            is_grouped |= values.str.contains(_COMMA_THOUSANDS)
        texts = values.filter(is_grouped)
        numbers = [NumberText.parse(text) for text in texts.to_list()]
        n_others = sum(number is None for number in numbers)
        certain = [
            number is not None
            and (number.is_certain or (is_comma_certain and number.separator == ","))
            for number in numbers
        ]
        if any(certain) and n_others <= (1 - _LEAST_SHARE_OF_VALUES) * values.len():
            columns_of_numbers.append((column.name, texts[certain.index(True)]))
    return tuple(columns_of_numbers)


def find_totals(columns: Iterable[pl.Series]) -> tuple[tuple[str, str], ...]:
    """Return the columns with names such as Total beside other names, and these names.

    >>> find_totals([pl.Series("region", ["A", "Total"]), pl.Series("kind", ["all", "all"])])
    (('region', 'Total'),)
    """
    names_of_totals: list[tuple[str, str]] = []
    for column in columns:
        if column.dtype != pl.String:
            continue
        names = column.drop_nulls().unique()
        if names.len() < 2:
            continue
        folded = names.str.strip_chars().str.to_lowercase()
        totals = names.filter(folded.is_in(list(_TOTALS)))
        names_of_totals += [(column.name, name) for name in sorted(totals.to_list())]
    return tuple(names_of_totals)


def find_fractions(columns: Iterable[pl.Series]) -> tuple[str, ...]:
    """Return the columns of numbers that are not all whole, which name no users.

    >>> find_fractions([pl.Series("amount", [1.25, 4.0]), pl.Series("id", [17.0, None])])
    ('amount',)
    >>> find_fractions([pl.Series("paid", ["1,50", "2"]), pl.Series("id", ["17.0", "18.0"])])
    ('paid',)
    """
    return tuple(column.name for column in columns if _has_fractions(_some_of(column)))


def _has_fractions(values: pl.Series) -> bool:
    if values.dtype == pl.String:
        texts = values.str.strip_chars()
        has_sign = texts.str.contains(_WITH_COMMA) | texts.str.contains(_WITH_POINT)
        numbers = has_sign | texts.str.contains(_WHOLE)
        is_fraction = has_sign & ~texts.str.contains(r"[.,]0+$")
        return _fraction(numbers) >= _LEAST_SHARE_OF_VALUES and bool(is_fraction.any())
    if values.dtype.is_float() or values.dtype.is_decimal():
        return bool((values != values.floor()).any())
    return False


def find_like_missing(columns: Iterable[pl.Series]) -> tuple[tuple[str, str, int], ...]:
    """Return columns with texts that programs write for a missing value, and numbers of rows.

    >>> find_like_missing([pl.Series("reader", ["ann", "NA", "NA"]), pl.Series("number", [1, 2])])
    (('reader', 'NA', 2),)
    """
    return tuple(
        (column.name, text, number)
        for column in columns
        if column.dtype == pl.String
        for text in LIKE_MISSING
        if (number := int((column == text).sum()))
    )


_QUARTER_HOUR = 900 * 1_000_000
#: Words in names of columns whose whole numbers are no counts.
_LABELS = frozenset({
    "code", "hour", "id", "key", "lat", "lon", "long", "month", "no", "nr", "num", "plz", "rate",
    "status", "week", "zip",
})  # fmt: skip


def columns_of_counts(sample: pl.DataFrame, time: str, us: pl.Series) -> tuple[str, ...]:
    """Return the columns of whole numbers of a table that seems to have a row for each window and
    group: each time is a full quarter of an hour, and no two rows have the same time and texts.

    Args:
        sample: the first rows.
        time: the column of times.
        us: these times, in microseconds since 1970.
    """
    rest = [name for name in sample.columns if name != time]
    whole = [name for name in rest if _are_counts(sample[name])]
    texts = [name for name in rest if name not in whole and not _are_numbers(sample[name])]
    is_full = us.filter(is_moment(us)) % _QUARTER_HOUR == 0
    if is_full.is_empty() or not is_full.all():
        return ()
    few = [name for name in whole if sample[name].n_unique() <= sample.height**0.5]
    for labels in (texts, texts + few):
        keys = sample.select(
            pl.Series("", us), *(pl.col(name).alias(f"_{name}") for name in labels)
        )
        if keys.is_unique().all():
            return tuple(name for name in whole if name not in labels and not _is_label(name))
    return ()


def _is_label(name: str) -> bool:
    """Return whether a column of whole numbers has the name of an id or of a place."""
    return not name or any(word.lower() in _LABELS for word in re.findall(r"[^\W_]+", name))


def _are_counts(values: pl.Series) -> bool:
    some = _some_of(values)
    if some.is_empty():
        return False
    if some.dtype == pl.String:
        digits = r"^(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:[.,][0-9]{3})+)$"
        return bool(some.str.contains(digits).all())
    return some.dtype.is_integer() and bool((some >= 0).all())


def _are_numbers(values: pl.Series) -> bool:
    if values.dtype != pl.String:
        return values.dtype.is_numeric()
    return bool(_some_of(values).str.contains(rf"{_WHOLE}|{_WITH_COMMA}|{_WITH_POINT}").all())

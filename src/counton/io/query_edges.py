"""Values for ``{since}`` and ``{until}`` of a query, in the type and form of its column of times.

A database compares numbers with numbers, and texts letter by letter. So an edge is bound as a value
that a row of that moment would have. The order of such values must be the order of time.

**What the form depends on.** The form is that of all times around the edges. If they have several
forms, the query is refused. So no row changes how other rows are read: either the rows between the
edges are those whose times lie there, or the run ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from typing_extensions import override

from counton.base.errors import InvalidInputError, param
from counton.base.wording import counted
from counton.io.timestamps import CHANGED_CLOCKS, EPOCHS, WITHIN_DAY, moments
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import is_moment, load_zone, microseconds, moment

#: Value of an edge, as a database takes it.
EdgeValue = int | float | str | bytes
#: Largest difference between the day that a text names and the day of its moment in UTC, rounded
#: up: offsets are less than a day.
_MARGIN: Final = timedelta(days=2)
_MINUTE: Final = timedelta(minutes=1)
_MICROSECOND: Final = timedelta(microseconds=1)


class QueryEdges(NamedTuple):
    """The edges of a query, and how the rows of its answer are read.

    Attributes:
        moments: values of ``since`` and ``until``, as far as the query names them, in microseconds
            since 1970.
        column: name of the column of times in the answer.
        timezone: zone of times that have none.
        ambiguous: moment that is meant by a local time that clocks show twice; see `moments`.
        time_format: format of the times; None: ISO 8601, or a type of the database.
        holds_all_rows: True if the answer holds all rows between the edges, by their times.
    """

    moments: Mapping[str, int]
    column: str
    timezone: str
    ambiguous: str
    time_format: str | None
    holds_all_rows: bool

    def widen(self) -> QueryEdges:
        """Return edges that are at least two days earlier and later, at midnights of the zone.

        Where clocks change, 48 hours before a midnight is no midnight. A format that has days alone
        could not write it.
        """
        wide = dict[str, int]()
        zone = load_zone(self.timezone)
        for name, us in self.moments.items():
            if name == "since":
                day = (moment(us) - _MARGIN).astimezone(zone).date()
            else:
                day = (moment(us) + _MARGIN).astimezone(zone).date() + timedelta(days=1)
            wide[name] = microseconds(datetime.combine(day, time.min, zone))
        return self._replace(moments=wide)

    def read(self, texts: pl.Series) -> pl.Series:
        """Return the moments of times as a run reads them, or codes of `moments`.

        Args:
            texts: times as texts.
        """
        read = moments("time", pl.String(), self.timezone, self.ambiguous, self.time_format)
        return pl.DataFrame({"time": texts.cast(pl.String)}).select(us=read).to_series()

    def between(self, us: pl.Series) -> pl.Series:
        """Return the moments that lie between the edges.

        Args:
            us: moments in microseconds since 1970.
        """
        return us.filter(self.are_between(us))

    def are_between(self, us: pl.Series) -> pl.Series:
        """Return whether each moment lies between the edges.

        Args:
            us: moments in microseconds since 1970.
        """
        inside = is_moment(us)
        if "since" in self.moments:
            inside &= us >= self.moments["since"]
        if "until" in self.moments:
            inside &= us < self.moments["until"]
        return inside.fill_null(False)

    def values(self, form: EdgeForm) -> dict[str, EdgeValue]:
        """Return the edges in a form, by name.

        Args:
            form: the form of the column of times.
        """
        return {name: form.value(us) for name, us in self.moments.items()}


class EdgeForm(ABC):
    """A form in which a column holds times, and whose order is the order of time."""

    @abstractmethod
    def value(self, us: int) -> EdgeValue:
        """Return the least value that stands for a moment or a later one.

        Args:
            us: the moment, in microseconds since 1970.
        """


@dataclass(frozen=True)
class EpochNumber(EdgeForm):
    """Numbers since 1970.

    >>> EpochNumber("epoch").value(1_500_000), EpochNumber("epoch_ms").value(1_500_000)
    (1.5, 1500)

    Attributes:
        time_format: the unit, such as ``epoch_ms``.
    """

    time_format: str

    @override
    def value(self, us: int) -> int | float:
        numerator, denominator = EPOCHS[self.time_format]
        whole, rest = divmod(us * denominator, numerator)
        if rest:
            return us * denominator / numerator
        return min(max(whole, -(2**63)), 2**63 - 1)  # integers of databases


@dataclass(frozen=True)
class EpochDigits(EpochNumber):
    """Numbers since 1970 that are written as texts."""

    @override
    def value(self, us: int) -> str:  # type: ignore[override]
        return str(super().value(us))


class UtcText(EdgeForm):
    """ISO 8601 in UTC, for functions of SQL that convert the edge to the form of the column.

    >>> UtcText().value(0)
    '1970-01-01 00:00:00'
    """

    @override
    def value(self, us: int) -> str:
        return moment(us).replace(tzinfo=None).isoformat(" ")


class TextStyle(NamedTuple):
    """How texts in ISO 8601 are written.

    Attributes:
        has_dashes: whether days are written as 2024-03-01, not as 20240301.
        separator: sign between day and time.
        has_colons: whether times are written as 09:30, not as 0930; None if they are hours alone.
        has_seconds: whether all texts have seconds.
    """

    has_dashes: bool = True
    separator: str = " "
    has_colons: bool | None = True
    has_seconds: bool = False

    def write_day(self, local: datetime) -> str:
        """Return the day of a local time."""
        day = local.date().isoformat()
        return day if self.has_dashes else day.replace("-", "")

    def write(self, local: datetime) -> str:
        """Return a local time, with seconds if it or all texts have them."""
        precision = "auto"
        if not self.has_seconds and local.second == local.microsecond == 0:
            precision = "hours" if self.has_colons is None and local.minute == 0 else "minutes"
        clock = local.time().isoformat(precision)
        if self.has_colons is False:
            clock = clock.replace(":", "")
        return f"{self.write_day(local)}{self.separator}{clock}"

    def write_beginning(self, local: datetime) -> str:
        """Return where texts of a local time begin, whatever precision they have."""
        if local.time() == time.min:
            return self.write_day(local)
        return self._replace(has_seconds=False).write(local)


@dataclass(frozen=True)
class UtcDay(EdgeForm):
    """Days of UTC, the beginning of times in ISO 8601.

    >>> UtcDay().value(0), UtcDay(has_dashes=False).value(0)
    ('1970-01-01', '19700101')

    Attributes:
        has_dashes: see `TextStyle`.
    """

    has_dashes: bool = True

    @override
    def value(self, us: int) -> str:
        return TextStyle(has_dashes=self.has_dashes).write_day(moment(us))


class UtcTimestamp(EdgeForm):
    """Moments with an offset, for a type with a zone.

    >>> UtcTimestamp().value(0)
    '1970-01-01T00:00:00+00:00'
    """

    @override
    def value(self, us: int) -> str:
        return moment(us).isoformat()


@dataclass(frozen=True)
class LocalTimestamp(EdgeForm):
    """Local times, for a type without a zone.

    >>> LocalTimestamp("Europe/Berlin", "raise").value(0)
    '1970-01-01T01:00:00'

    Attributes:
        timezone: the zone of the clocks.
        ambiguous: see `QueryEdges`.
    """

    timezone: str
    ambiguous: str

    @override
    def value(self, us: int) -> str:
        return first_local_time(us, self.timezone, self.ambiguous).isoformat()


@dataclass(frozen=True)
class LocalDay(EdgeForm):
    """Local days: a day stands for its first moment.

    >>> LocalDay("UTC", "raise").value(0), LocalDay("UTC", "raise").value(1)
    ('1970-01-01', '1970-01-02')

    Attributes:
        timezone: the zone of the clocks.
        ambiguous: see `QueryEdges`.
        has_dashes: see `TextStyle`.
    """

    timezone: str
    ambiguous: str
    has_dashes: bool = True

    @override
    def value(self, us: int) -> str:
        local = first_local_time(us, self.timezone, self.ambiguous)
        if local.time() != time.min:
            local += timedelta(days=1)
        return TextStyle(has_dashes=self.has_dashes).write_day(local)


@dataclass(frozen=True)
class LocalText(EdgeForm):
    """Texts of local times without an offset.

    A midnight is its day alone, which is where all texts of that day begin.

    >>> local = LocalText("UTC", "raise", TextStyle())
    >>> local.value(0), local.value(60_000_000)
    ('1970-01-01', '1970-01-01 00:01')

    Attributes:
        timezone: the zone of the clocks.
        ambiguous: see `QueryEdges`.
        style: how the texts are written.
    """

    timezone: str
    ambiguous: str
    style: TextStyle

    @override
    def value(self, us: int) -> str:
        local = first_local_time(us, self.timezone, self.ambiguous)
        return self.style.write_beginning(local)


@dataclass(frozen=True)
class OffsetText(EdgeForm):
    """Texts of times with an offset from UTC.

    >>> OffsetText("Z", TextStyle()).value(60_000_000), OffsetText("+01", TextStyle()).value(0)
    ('1970-01-01 00:01', '1970-01-01 01:00+01')

    Attributes:
        offset: an offset as the texts have it.
        style: how the texts are written.
        timezone: zone whose offsets the texts have; None: all have ``offset``.
    """

    offset: str
    style: TextStyle
    timezone: str | None = None

    @override
    def value(self, us: int) -> str:
        if self.timezone is None:
            minutes = _minutes_of(self.offset)
        else:
            zone = load_zone(self.timezone)
            local = moment(us).astimezone(zone)
            if _is_repeated(local.replace(tzinfo=None), zone):
                raise InvalidInputError(
                    f"the clocks of {self.timezone} show {local.replace(tzinfo=None)} twice, and a "
                    "window begins then. Texts with the offsets of that zone are not in the order "
                    "of time: give times in UTC"
                )
            minutes = (local.utcoffset() or timedelta()) // _MINUTE
        local_time = (moment(us) + timedelta(minutes=minutes)).replace(tzinfo=None)
        if minutes == 0 and self.timezone is None:
            return self.style.write_beginning(local_time)
        return self.style.write(local_time) + _write_offset(minutes, self.offset)


@dataclass(frozen=True)
class FormattedText(EdgeForm):
    """Texts in a stated format.

    >>> FormattedText("UTC", "raise", "%Y%m%d").value(0)
    '19700101'

    Attributes:
        timezone: the zone of the clocks.
        ambiguous: see `QueryEdges`.
        time_format: a strftime format.
    """

    timezone: str
    ambiguous: str
    time_format: str

    @override
    def value(self, us: int) -> str:
        local = first_local_time(us, self.timezone, self.ambiguous)
        text = _format(local, self.time_format)
        if _format(local - _MICROSECOND, self.time_format) != text:
            return text
        raise InvalidInputError(
            f"{param('time_format', self.time_format)} cannot tell apart the times before and "
            f"after {local}, where a window begins: give times that can"
        )

    def length(self) -> int | None:
        """Return the number of characters that all times have if none of their parts is short.

        >>> FormattedText("UTC", "raise", "%Y-%m-%d").length()
        10

        Returns:
            The number; None if there is no such number, as with ``%B``.
        """
        lengths = {len(_format(local, self.time_format)) for local in _IN_ORDER}
        return lengths.pop() if len(lengths) == 1 else None

    def years(self, edges: QueryEdges) -> dict[str, EdgeValue]:
        """Return edges between which all times of the years of some edges lie, however written.

        Args:
            edges: the edges.
        """
        zone = load_zone(self.timezone)
        years = dict[str, EdgeValue]()
        for name, us in edges.moments.items():
            year = moment(us).astimezone(zone).year
            before, _, _ = _format(datetime(year, 7, 1), self.time_format).partition(f"{year:04}")
            # A database may take digits alone for a number, and a number is less than any text.
            years[name] = f"{before}{year + 1:04}-" if name == "until" else f"{before}{year:04}"
        return years


@dataclass(frozen=True)
class DigitsAsNumber(EdgeForm):
    """Numbers whose digits are texts of another form.

    >>> DigitsAsNumber(FormattedText("UTC", "raise", "%Y%m%d")).value(0)
    19700101

    Attributes:
        written: the form of the texts.
    """

    written: EdgeForm

    @override
    def value(self, us: int) -> int:
        return int(str(self.written.value(us)))


def first_local_time(us: int, timezone: str, ambiguous: str) -> datetime:
    """Return the least local time that is read as a moment or a later one.

    Local times that clocks skip are read as no moment, or as the following one. So the moment at
    which clocks skip some times begins with the first of them.

    Args:
        us: the moment, in microseconds since 1970.
        timezone: the zone of the clocks.
        ambiguous: moment that is meant by a local time that clocks show twice.

    >>> autumn = 1729990800 * 10**6
    >>> [str(first_local_time(autumn, "Europe/Berlin", meant)) for meant in ("earliest", "latest")]
    ['2024-10-27 03:00:00', '2024-10-27 02:00:00']
    """
    zone = load_zone(timezone)
    local = moment(us).astimezone(zone)
    naive = local.replace(tzinfo=None)
    before = moment(us - 1).astimezone(zone).replace(tzinfo=None) + _MICROSECOND
    if before < naive:  # the clocks have just skipped the times between
        return before
    if not _is_repeated(naive, zone):
        return naive
    if ambiguous in ("earliest", WITHIN_DAY) and local.fold == 1:
        naive = naive.replace(second=0, microsecond=0)
        while _is_repeated(naive, zone):
            naive += _MINUTE
    elif ambiguous == "latest" and local.fold == 0:
        naive = naive.replace(second=0, microsecond=0)
        while _is_repeated(naive - _MINUTE, zone):
            naive -= _MINUTE
    return naive


def _is_repeated(naive: datetime, zone: ZoneInfo) -> bool:
    """Return True if clocks show a local time twice."""
    offsets = [zone.utcoffset(naive.replace(fold=fold)) or timedelta() for fold in (0, 1)]
    return offsets[0] > offsets[1]


def _minutes_of(offset: str) -> int:
    """Convert an offset to minutes.

    >>> [_minutes_of(offset) for offset in ("Z", " UTC", "+01:00", "-0330", "+01")]
    [0, 0, 60, -210, 60]
    """
    if offset[0] not in "+-":
        return 0
    hours = int(offset[1:3])
    minutes = int(offset[3:].removeprefix(":") or 0)
    return (60 * hours + minutes) * (-1 if offset[0] == "-" else 1)


def _write_offset(minutes: int, like: str) -> str:
    """Write an offset as another one is written."""
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if len(like) == len("+01") and rest == 0:
        return f"{sign}{hours:02}"
    return f"{sign}{hours:02}{':' if ':' in like else ''}{rest:02}"


def _format(local: datetime, time_format: str) -> str:
    written = pl.Series([local], dtype=pl.Datetime("us")).dt.strftime(time_format)
    return str(written[0])


#: Local times in their order, in which each part of a time once grows by a digit.
_IN_ORDER: Final = [
    *(datetime(1999, 12, 31, 23, 59, 59), datetime(2000, 1, 1), datetime(2000, 1, 9)),
    *(datetime(2000, 1, 10), datetime(2000, 2, 1), datetime(2000, 9, 30), datetime(2000, 10, 1)),
    *(datetime(2000, 10, 1, 9), datetime(2000, 10, 1, 10), datetime(2000, 10, 1, 13)),
    *(datetime(2000, 10, 1, 13, 9), datetime(2000, 10, 1, 13, 10)),
    *(datetime(2000, 10, 1, 13, 10, 9), datetime(2000, 10, 1, 13, 10, 10)),
]


def is_in_order_of_time(time_format: str) -> bool:
    """Return whether texts in a strftime format are in the order of their times.

    >>> [is_in_order_of_time(form) for form in ("%Y%m%d %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d%z")]
    [True, False, False]
    """
    if "z" in time_format or "%+" in time_format:
        return False  # offsets may differ
    texts = [_format(local, time_format) for local in _IN_ORDER]
    return texts == sorted(texts)


#: A time in ISO 8601 as databases write it.
_ISO_8601: Final = (
    r"^(?:[0-9]{4}(?P<dash>-)[0-9]{2}-[0-9]{2}|[0-9]{8})(?:(?P<separator>[T ])[0-9]{2}"
    r"(?:(?P<colon>:?)[0-9]{2}(?P<seconds>:?[0-9]{2}(?:[.,][0-9]+)?)?)?"
    r"(?P<offset>[Zz]| ?(?:UTC|GMT)|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)


def text_form(edges: QueryEdges, name: str, texts: pl.Series) -> EdgeForm:
    """Return the form of texts of times in ISO 8601.

    Texts that are no times have no form: a run treats them as bad rows.

    Args:
        edges: the edges of the query.
        name: name of the query, for messages.
        texts: all texts of times around the edges.

    Raises:
        InvalidInputError: the texts have several forms, or one whose order is not the order of
            time.
    """
    us = edges.read(texts)
    times = pl.DataFrame({"text": texts, "us": us}).filter(
        is_moment(pl.col("us")) | (pl.col("us") == CHANGED_CLOCKS)
    )
    if times.is_empty():
        return LocalText(edges.timezone, edges.ambiguous, TextStyle())
    matched = times.with_columns(
        is_known=pl.col("text").str.contains(_ISO_8601),
        parts=pl.col("text").str.extract_groups(_ISO_8601),
    ).unnest("parts")
    style = (
        pl.col("offset").str.to_uppercase().str.replace(r"^[+-]", "").str.replace_all("[0-9]", "0")
    )
    parts = ("is_known", "dash", "separator", "colon", style.alias("offset style"))
    forms = matched.group_by(parts).agg(pl.col("text").min(), pl.col("seconds").is_not_null().all())
    if forms.height > 1 or not forms["is_known"].all():
        raise _several_forms(edges, name, forms["text"].sort().to_list())
    form = forms.row(0, named=True)
    has_dashes = form["dash"] is not None
    if form["separator"] is None:
        return LocalDay(edges.timezone, edges.ambiguous, has_dashes)
    written = TextStyle(
        has_dashes=has_dashes,
        separator=form["separator"],
        has_colons=None if form["colon"] is None else form["colon"] == ":",
        has_seconds=form["seconds"],
    )
    offset = matched["offset"][0]
    if offset is None:
        return LocalText(edges.timezone, edges.ambiguous, written)
    if matched["offset"].n_unique() == 1:
        return OffsetText(offset, written)
    if not _has_offsets_of(matched, edges.timezone):
        examples = matched.group_by("offset").agg(pl.col("text").min())["text"].sort()
        raise _several_forms(edges, name, examples.to_list())
    return OffsetText(offset, written, edges.timezone)


def join_styles(dashed: pl.Series, compact: pl.Series) -> pl.Series:
    """Return the times around the edges, each row once.

    Days with dashes and days without are compared with edges of their own kind.

    Args:
        dashed: texts between edges such as 2024-03-01.
        compact: texts between edges such as 20240301.

    >>> join_styles(pl.Series(["2024-03-01", "20240301"]), pl.Series(["20240302"])).to_list()
    ['2024-03-01', '20240302']
    """
    is_compact = "^[0-9]{8}"
    dashed_texts = pl.DataFrame({"text": dashed}, schema={"text": pl.String})
    dashed_texts = dashed_texts.filter(~pl.col("text").str.contains(is_compact).fill_null(False))
    compact_texts = pl.DataFrame({"text": compact}, schema={"text": pl.String})
    compact_texts = compact_texts.filter(pl.col("text").str.contains(is_compact).fill_null(False))
    return pl.concat([dashed_texts, compact_texts]).to_series()


def _has_offsets_of(times: pl.DataFrame, timezone: str) -> bool:
    """Return True if each time has the offset that clocks of a zone have then."""
    local = pl.from_epoch("us", "us").dt.replace_time_zone("UTC").dt.convert_time_zone(timezone)
    offset = (local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_minutes()
    minutes = pl.col("offset").replace_strict(
        {text: _minutes_of(text) for text in times["offset"].unique()}, return_dtype=pl.Int64
    )
    return bool(times.select((offset == minutes).all()).item())


def _several_forms(edges: QueryEdges, name: str, examples: list[str]) -> InvalidInputError:
    shown = " and ".join(repr(text) for text in examples[:_SHOWN_TEXTS])
    return InvalidInputError(
        f"column {edges.column!r} of {name} holds times as {shown}, whose order is not the order "
        "of time. So the database cannot compare them with {since} and {until}. Write all times "
        "in one form, such as UTC, or compare another column"
    )


#: Number of texts that a message shows.
_SHOWN_TEXTS: Final = 2
#: Edges between which all texts lie that begin with a blank or a sign, and those that begin with a
#: letter. No database takes these edges for numbers.
BEFORE_DIGITS: Final[tuple[EdgeValue, EdgeValue]] = ("", "/")
AFTER_DIGITS: Final[tuple[EdgeValue, EdgeValue]] = (":", b"")


def other_texts(
    edges: QueryEdges,
    wide: QueryEdges,
    form: EdgeForm,
    column: str,
    bounds: Sequence[tuple[EdgeValue, EdgeValue]],
) -> list[tuple[dict[str, EdgeValue], str]]:
    """Return edges and conditions of SQL for texts whose order may not be that of the form.

    Such texts begin with a blank, or their days or months have one digit. So they may lie far from
    the edges, among times of other months.

    Args:
        edges: the edges of the query.
        wide: edges that are further apart.
        form: the form of the column of times.
        column: SQL for the column as text.
        bounds: pairs of edges for texts that begin with no digit.
    """
    conditions = list[tuple[dict[str, EdgeValue], str]]()
    if not isinstance(form, FormattedText) or is_written_with_digit(form.time_format):
        for since, until in bounds:
            values = {"since": since, "until": until}
            parameters = {name: values[name] for name in edges.moments}
            conditions.append((parameters, f"({column} < '0' OR {column} >= ':')"))
    if isinstance(form, FormattedText) and (length := form.length()) is not None:
        conditions.append((form.years(wide), f"length({column}) <> {length}"))
    return conditions


def refuse_times_elsewhere(
    edges: QueryEdges, name: str, around: pl.Series, texts: pl.Series
) -> None:
    """Refuse texts that are times between the edges, but which the database finds elsewhere.

    Args:
        edges: the edges of the query.
        name: name of the query, for messages.
        around: all texts of times around the edges, as the database finds them.
        texts: texts in another form, such as with a blank before them.

    Raises:
        InvalidInputError: one of them is a time between the edges, and not around them.
    """
    lost = edges.are_between(edges.read(texts)) & ~texts.is_in(around.unique().implode())
    if lost.any():
        examples = [*texts.filter(lost).sort().head(1), *around.drop_nulls().sort().head(1)]
        raise _several_forms(edges, name, examples)


def is_written_in_digits(time_format: str) -> bool:
    """Return whether texts in a format are numbers, such as 20240301.

    >>> [is_written_in_digits(form) for form in ("epoch", "%Y%m%d", "%Y-%m-%d")]
    [True, True, False]
    """
    return time_format in EPOCHS or _format(_IN_ORDER[0], time_format).isdigit()


def is_written_with_digit(time_format: str) -> bool:
    """Return whether texts in a format begin with a digit.

    >>> [is_written_with_digit(form) for form in ("%Y-%m-%d", "day %Y-%m-%d")]
    [True, False]
    """
    return _format(_IN_ORDER[0], time_format)[:1].isdigit()


def written_form(edges: QueryEdges) -> EdgeForm:
    """Return the form of texts in the stated format.

    Args:
        edges: the edges of a query, with a format.

    Raises:
        InvalidInputError: the order of such texts is not the order of time.
    """
    assert edges.time_format is not None
    if edges.time_format in EPOCHS:
        return EpochDigits(edges.time_format)
    if is_in_order_of_time(edges.time_format):
        return FormattedText(edges.timezone, edges.ambiguous, edges.time_format)
    raise InvalidInputError(
        f"texts for {param('time_format', edges.time_format)} are not in the order of time, so the "
        f"database cannot compare {edges.column!r} with {{since}} and {{until}}. Convert the "
        "column in the query to ISO 8601, compare the result with the edges, and leave "
        f"{param('time_format')} out"
    )


def stated_forms(edges: QueryEdges) -> list[EdgeForm]:
    """Return the forms in which a column may hold times of the stated format.

    Args:
        edges: the edges of a query, with a format.

    Raises:
        InvalidInputError: the order of such texts is not the order of time.
    """
    assert edges.time_format is not None
    written = written_form(edges)
    if isinstance(written, EpochDigits):
        return [EpochNumber(edges.time_format), written, UtcText()]
    if is_written_in_digits(edges.time_format):
        return [written, DigitsAsNumber(written)]
    return [written]


def refuse_lost_rows(edges: QueryEdges, name: str, around: pl.Series, got: pl.Series) -> None:
    """Refuse an answer that lacks rows between its edges, by their times.

    Args:
        edges: the edges of the query.
        name: name of the query, for messages.
        around: moments of the rows that the query returns between edges that are further apart.
        got: moments of the rows that it returns.

    Raises:
        InvalidInputError: a row is missing.
    """
    expected = edges.between(around).alias("us").value_counts()
    actual = got.alias("us").value_counts().rename({"count": "there"})
    missing = expected.join(actual, on="us", how="left").select(
        (pl.col("count").cast(pl.Int64) - pl.col("there").fill_null(0)).clip(0).sum()
    )
    rows = int(missing.item() or 0)
    if rows:
        raise InvalidInputError(
            f"{name} does not return {counted(rows, 'row')} whose "
            f"{edges.column!r} lies between {{since}} and {{until}}. The edges are values of that "
            "column: compare them with it, and convert both alike. If you compare another column "
            "or zone, convert the edges to it"
        )


def refuse_divided_rows(
    edges: QueryEdges, name: str, wide: pl.DataFrame, got: pl.DataFrame
) -> None:
    """Refuse an answer whose rows between the edges depend on the edges.

    A row may stand for many others, such as those of a day (``group by``). If an edge divides
    them, the row is there, and its numbers are of a part of them. Between edges that are further
    apart the same row has other numbers.

    Args:
        edges: the edges of the query.
        name: name of the query, for messages.
        wide: the rows that the query returns between edges that are further apart, as texts.
        got: the rows that it returns, with the same columns.

    Raises:
        InvalidInputError: rows between the edges differ.
    """
    expected = _rows_between(edges, wide).with_columns(surplus=pl.lit(1, pl.Int64))
    actual = _rows_between(edges, got).with_columns(surplus=pl.lit(-1, pl.Int64))
    surplus = (
        pl.concat([expected, actual]).group_by(pl.exclude("surplus")).agg(pl.col("surplus").sum())
    )["surplus"]
    rows = max(int(surplus.clip(0).sum()), int((-surplus).clip(0).sum()))
    if rows:
        raise InvalidInputError(
            f"{name} returns {counted(rows, 'row')} between {{since}} and {{until}} with "
            "other values if the edges are further apart. An edge may divide what a row adds up, "
            f"such as a day of another zone, or LIMIT may cut. Compare {edges.column!r}, as the "
            "query computes it, with the edges"
        )


def _rows_between(edges: QueryEdges, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows between the edges, with their moments for their times.

    Sums of floating-point numbers may differ in their last digits when a database adds them in
    another order.
    """
    us = edges.read(rows[edges.column])
    others = [pl.col(column) for column in rows.columns if column != edges.column]
    rounded = [
        pl.when(text.str.contains("[.eE]"))
        .then(
            pl.coalesce(
                text.cast(pl.Float64, strict=False)
                .round_sig_figs(_COMPARED_DIGITS)
                .cast(pl.String),
                text,
            )
        )
        .otherwise(text)
        for text in others
    ]
    named = [value.alias(f"value {number}") for number, value in enumerate(rounded)]
    return rows.select(*named, pl.lit(us).alias("us")).filter(edges.are_between(us))


#: Number of digits to which floating-point numbers of two answers must be equal.
_COMPARED_DIGITS: Final = 9

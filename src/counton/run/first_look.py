"""A first look at events: their header and first rows, for `init`.

Nothing is written and nothing spent. Names of columns and the format of times are the schema of the
events. All other facts are exact and private: only `FirstLook.for_operator` shows them, to people
who may see the events. A job must not depend on them, unless such a person takes a value that was
shown as one of the rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import polars as pl
from typing_extensions import override

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.base.windows import NO_MOMENT, load_zone, moment
from counton.job.job import NEWEST, Job
from counton.released.periods import period_of
from counton.rows.files import NO_UTF8, EventFile
from counton.rows.paths import SEPARATORS, moments_named
from counton.rows.sources import EventFrame, Rows, Source, UnreadableRow, unreadable_errors
from counton.rows.timestamps import EPOCH_FORMATS, format_like, moments
from counton.run.changes import Counts, for_operator
from counton.run.clock import length_of
from counton.run.runs import read_rows
from counton.run.settlement import open_source, resolve

#: Number of uncompressed bytes of each file, or of rows of other sources, to look at.
SAMPLE_BYTES, _SAMPLE_ROWS = 2**25, 500_000
#: Number of values tried to find a column of times, and the fraction that must be times.
_TRIED, _MOST_ARE_TIMES = 1000, 0.9
#: Numbers of seconds since 1970 that look like a time: the years 2001 to 2065.
_EPOCH_SECONDS = (1e9, 3e9)
_OFFSET = re.compile(r"(?:[Zz]|[T ].*[+-]\d\d(?::?\d\d)?)$")
#: Bounds on a person's rows, and waits for late rows, whose effects are shown.
BOUNDS, WAITS = (1, 2, 3, 5, 10, 20, 50), ("0s", "1h", "6h", "1d", "2d", "7d")
#: Name of an added column with the time at which a row's file was written.
_WRITTEN = "counton written"
#: Values of ``{since}`` and ``{until}`` in a query whose windows are not known yet: all rows.
_EVER = {"since": "0001-01-01T00:00:00+00:00", "until": "9999-12-31T00:00:00+00:00"}
#: Files whose times are this far apart were not all copied at once.
_APART_SECONDS = 3600

X = TypeVar("X")


class TimeColumn(NamedTuple):
    """A column whose values are times.

    Attributes:
        name: name of the column.
        local: whether its times lack a time zone, so that one must be stated.
        time_format: format of the times, such as ``%d.%m.%Y`` or ``epoch``; None: ISO 8601, or the
            column has a data type of times.
    """

    name: str
    local: bool
    time_format: str | None


@name_alone
class FirstFacts(NamedTuple):
    """Exact facts about the first rows: only for the operator.

    Attributes:
        rows: number of rows looked at.
        first, newest: times of the events, on clocks of the job's zone; None: unknown.
        without: number of rows without a value, by column; under the key "", the number of rows
            that lack a value in at least one column.
        unreadable: number of rows that cannot be read, and the reason for the first of them. The
            other facts leave these rows out.
        names: number of rows of each group, the largest group first.
        repeated: for each column in which values repeat, the number of distinct values; columns of
            times are left out.
        beyond: for several bounds on a user's rows, the fraction of rows that the bound leaves out.
            The job's own bound is one of them.
        late: for each waiting time, such as "6h", the fraction of rows that arrive later than this
            after the end of their window.
    """

    rows: int
    first: datetime | None
    newest: datetime | None
    without: dict[str, int]
    unreadable: tuple[int, str]
    names: dict[str, int]
    repeated: dict[str, int]
    beyond: dict[int, float]
    late: dict[str, float]


class _Sample(NamedTuple):
    """The first rows of events, with facts about them.

    Attributes:
        rows: the rows; an unreadable row of a file is left empty.
        unreadable, reason: number of unreadable rows, and why the first of them cannot be read.
        repeated: for each column in which values repeat, the number of distinct values.
        known: results that the method `once` has computed and remembers.
    """

    rows: pl.DataFrame
    unreadable: int
    reason: str
    repeated: Mapping[str, int]
    known: dict[object, Any]

    def once(self, find: Callable[..., X], *given: Hashable) -> X:
        """Call ``find`` on these rows with the arguments ``given``; if it was called with them
        before, return the remembered result.
        """
        if (find, given) not in self.known:
            self.known[find, given] = find(self, *given)
        found: X = self.known[find, given]
        return found


@name_alone
class ReadSample(NamedTuple):
    """The outcome of a run on the first rows alone: only for the operator.

    Attributes:
        counts: exact numbers of the rows.
        refusal: the error that a run would raise because rows are unreadable; None if all are
            readable.
    """

    counts: Private[Counts]
    refusal: CountonError | None

    def for_operator(self) -> Counts:
        """Return how many of the first rows were read and left out, exactly, for people who may see
        the events: do not publish these numbers.
        """
        return for_operator(self.counts)


@dataclass(frozen=True)
class _SampledSource(Source):
    """A source that holds only the first rows of events; more rows follow elsewhere."""

    @property
    @override
    def live(self) -> bool:
        return True

    @override
    def sift(self, columns: Sequence[str], most: int) -> Source:
        return _SampledSource(super().sift(columns, most).parts, self.name)


@dataclass(frozen=True)
class FirstLook:
    """The header of events, and private facts about their first rows.

    Attributes:
        columns: names of the columns.
        times: columns that hold times; the first is the likeliest to hold the times of the events.
        has_all_rows: whether the first rows are all rows.
        written: whether the files were written at different times; then the time at which a file
            was written shows when its rows arrived.
        separator: separator of fields in CSV.
    """

    columns: tuple[str, ...]
    times: tuple[TimeColumn, ...]
    has_all_rows: bool
    written: bool
    separator: str
    _sample: Private[_Sample]
    _source: Source = attribute(repr=False)

    def for_operator(self, job: Job, entered: str | None = None) -> FirstFacts:
        """Return exact facts about the first rows, under the options of a job.

        Args:
            entered: column with the time at which each row arrived; None: the time at which its
                file was written, if known.
        """
        sample = open_private(self._sample)
        times = (job.times.time, job.times.timezone or "UTC", job.format.time_format)
        by = () if job.groups.by is None else job.groups.by.split(",")
        named = tuple(dict.fromkeys((job.times.time, *by, job.people.user)))
        entered = entered or (_WRITTEN if self.written else None)
        people = job.people.user, job.people.per, job.people.most
        first, newest = sample.once(_span, *times)
        return FirstFacts(
            sample.rows.height - sample.unreadable,
            first,
            newest,
            dict(sample.once(_without, named)),
            (sample.unreadable, sample.reason),
            names=sample.once(_names, job.groups.by),
            repeated=dict(sample.repeated),
            beyond=sample.once(_beyond, *people, *times),
            late=sample.once(_late, entered, job.times.every, *times),
        )

    def refuse_other_encoding(self, job: Job) -> None:
        """Refuse events with many rows that are not UTF-8, unless the job states ``bad_rows``.

        Such rows would be set aside, and with them perhaps all rows of a group whose name has such
        letters.

        Raises:
            InvalidInput: more than three rows, and more than 1 in 100, are unreadable, and the
                first of them is not UTF-8.
        """
        facts = self.for_operator(job)
        unreadable, reason = facts.unreadable
        many = unreadable > max(3, (facts.rows + unreadable) // 100)
        if many and NO_UTF8 in reason and not job.states("bad_rows"):
            raise InvalidInput(
                f"more than 1 in 100 rows are not UTF-8: {reason}; or set such rows aside "
                f"({field('bad_rows', 'quarantine:FILE')}), though all rows of a group may be such"
            )

    def read_as_run(self, job: Job) -> ReadSample:
        """Read the first rows as a run of a job would read them; nothing is written.

        Args:
            job: the job, complete enough to run.

        Raises:
            CountonError: a run would refuse these rows.
        """
        said: dict[str, Any] = {"events": self._source, "query": None}
        if not self.has_all_rows:
            said["until"] = NEWEST
        refusal: CountonError | None = None
        if job.format.policies().quarantine is not None:
            try:
                return ReadSample(_counts(job.having(**said, bad_rows="refuse")), None)
            except InvalidInput as error:
                if self.for_operator(job).first is None:
                    raise
                refusal = error
        with TemporaryDirectory() as nowhere:
            if refusal is not None:
                said["bad_rows"] = f"quarantine:{Path(nowhere) / 'rows.csv'}"
            found = _counts(job.having(**said))
        return ReadSample(found, refusal)


def _counts(job: Job) -> Private[Counts]:
    with resolve(job) as settled:
        return read_rows(settled).counts


def look_at(job: Job) -> FirstLook:
    """Read the header and the first rows of a job's events: of each file, or of the query's result.

    Raises:
        InvalidInput: the events cannot be read; a run would raise the same error.

    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", None], "reader": ["ann", "bob"]})
    >>> found = look_at(Job("count", rows, "visits.db"))
    >>> found.times, found.columns
    ((TimeColumn(name='at', local=True, time_format=None),), ('at', 'reader'))
    >>> found.for_operator(Job("count", rows, "visits.db", time="at", user="reader")).without
    {'at': 1, 'reader': 0, '': 1}
    """
    ever = {name: _EVER[name] for name in moments_named(job.rows.query or "")}
    source = open_source(job, moments=ever)
    header = source.columns()
    if len(header) == 1 and not job.states("separator"):  # it has another sign than the comma
        for sign in SEPARATORS[1:]:
            if sign in header[0]:
                job = job.having(separator="tab" if sign == "\t" else sign)
                source = open_source(job)
                break
    if job.rows.query is not None:  # otherwise a database gives all its rows
        question = job.rows.query.strip().rstrip(";")
        some = f"SELECT * FROM ({question}\n) AS looked_at LIMIT {_SAMPLE_ROWS + 1}"  # noqa: S608
        source = open_source(job.having(query=some), moments=ever)
    names, parts, whole = source.columns(), list[_Sample](), True
    left, beginnings = SAMPLE_BYTES, list[Rows]()
    for part in source.parts:
        most = job.format.policies().most - sum(one.unreadable for one in parts)
        looked_at, begins, all_of_it, size = _beginning(part, names, left, most)
        parts.append(looked_at)
        beginnings.append(begins)
        whole &= all_of_it
        left -= size
        if left <= 0:
            whole &= part is source.parts[-1]
            break
    # In one chunk: polars nests a call of Python for each chunk, up to a recursion error.
    sample = pl.concat([one.rows for one in parts], how="diagonal_relaxed").rechunk()
    unreadable = sum(one.unreadable for one in parts)
    reason = next((one.reason for one in parts if one.unreadable), "")
    stamps = sample[_WRITTEN].drop_nulls() if _WRITTEN in sample.columns else pl.Series([0])
    low, high = [int(stamps.min() or 0), int(stamps.max() or 0)]  # type: ignore[arg-type]
    found = [_time_column(sample, name) for name in names if name in sample.columns]
    times = sorted(filter(None, found), key=lambda one: bool(_OTHER_TIMES.search(one.name)))
    apart, repeated = {_WRITTEN, *(one.name for one in times)}, {}
    for name in sample.columns:
        values = sample[name].drop_nulls()
        if name not in apart and 1 < (many := values.n_unique()) < values.len():
            repeated[name] = many
    return FirstLook(
        columns=tuple(names),
        times=tuple(times),
        has_all_rows=whole,
        written=high - low > _APART_SECONDS * 1_000_000,
        separator=job.format.separator or ",",
        _sample=Private(_Sample(sample, unreadable, reason, repeated, {})),
        _source=(Source if whole and sample.height else _SampledSource)(
            tuple(beginnings), source.name
        ),
    )


def _beginning(
    part: Rows, names: Sequence[str], size: int, most: int
) -> tuple[_Sample, Rows, bool, int]:
    """Return the first rows of a file or other source, with three more results.

    These are a source that holds only the first rows (about ``size`` bytes of a file); whether the
    first rows are all rows; and the number of bytes read.

    Raises:
        InvalidInput: more than ``most`` rows are unreadable, which a run refuses too; or more than
            half of the first rows, as in a file of another encoding.
    """
    whole, taken, unreadable, reason = True, 0, 0, ""
    if isinstance(part, EventFile) and part.kind != "parquet":
        part, whole, taken = part.beginning(size)
    try:
        found = _rows_of(part, names)
    except unreadable_errors() as error:
        why = part.unreadable(error)
        try:
            sifted = part.sift(names, most)  # a run sets these rows aside
        except UnreadableRow:
            raise why from error
        found = _rows_of(sifted, names)
        unreadable, reason = len(sifted.unread), str(why)
        if 2 * unreadable > found.height:
            raise why from error
    begins = part
    if found.height > _SAMPLE_ROWS and not taken:
        found, whole = found.head(_SAMPLE_ROWS), False
    if not taken:
        begins = EventFrame(found)
        begins.name = part.name
    if isinstance(part, EventFile) and os.path.exists(part.path):
        stamp = Path(part.path).stat().st_mtime_ns // 1000
        found = found.with_columns(pl.lit(stamp).alias(_WRITTEN))
    return _Sample(found, unreadable, reason, {}, {}), begins, whole, taken


def _rows_of(part: Rows, names: Sequence[str]) -> pl.DataFrame:
    present = [name for name in names if name in part.columns()]
    frame = part.frame(present)
    types = frame.collect_schema()
    flat = [one for one in present if not (types[one].is_nested() or types[one] == pl.Object)]
    return frame.select(flat).head(_SAMPLE_ROWS + 1).collect(engine="streaming")


def _time_column(sample: pl.DataFrame, name: str) -> TimeColumn | None:
    """Return a column's name and the format of its times; None if the column holds no times."""
    values = sample[name].drop_nulls().head(_TRIED)
    dtype = values.dtype
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
        return TimeColumn(name, zone is None, None)
    if dtype == pl.String:
        values = values.filter(values.str.strip_chars() != "")
    if values.is_empty() or not (dtype == pl.String or dtype.is_numeric()):
        return None
    dates = format_like(str(values[0])), "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M"  # not ISO 8601
    for form in [None, *filter(None, dates), *_epochs(values)]:
        if dtype.is_numeric() and form not in EPOCH_FORMATS:
            continue
        read = _moments(values.to_frame(), name, "UTC", form)
        if (read > NO_MOMENT).mean() >= _MOST_ARE_TIMES:  # type: ignore[operator]
            offset = form in EPOCH_FORMATS or _OFFSET.search(str(values[0]).strip())
            return TimeColumn(name, not offset, form)
    return None


def _epochs(values: pl.Series) -> list[str]:
    """Return the formats, such as ``epoch_ms``, under which all numbers in a column are times in
    the years 2001 to 2065.

    The formats count seconds, milliseconds, microseconds or nanoseconds since 1970. The list is
    empty if a value is missing or is no number.
    """
    number = values.cast(pl.Float64, strict=False).drop_nulls()
    if number.len() < values.len() or number.is_empty():
        return []
    low, high = (float(str(one)) for one in (number.min(), number.max()))
    sizes = {"epoch": 1.0, "epoch_ms": 1e3, "epoch_us": 1e6, "epoch_ns": 1e9}
    least, most = _EPOCH_SECONDS
    return [form for form, size in sizes.items() if least * size < low <= high < most * size]


#: Matches names of columns with other times than the event's.
_OTHER_TIMES = re.compile(r"birth|born|due|until|expir|return|updat|enter|insert|load|import", re.I)


def _is_empty(sample: pl.DataFrame, name: str) -> pl.Expr:
    column = pl.col(name)
    if sample.schema[name] == pl.String:
        return (column == "").fill_null(True)
    return column.is_null()


def _moments(sample: pl.DataFrame, name: str, zone: str, form: str | None) -> pl.Series:
    dtype = sample.schema[name]
    return sample.select(moments(name, dtype, zone, "earliest", form)).to_series()


def _moments_of(sample: _Sample, name: str, zone: str, form: str | None) -> pl.Series:
    return _moments(sample.rows, name, zone, form)


def _span(
    sample: _Sample, time: str | None, zone: str, form: str | None
) -> tuple[datetime, datetime] | tuple[None, None]:
    """Return the times of the earliest and the newest row, on clocks of a zone; two Nones if
    unknown. ``time`` is the column of times, ``form`` their format.
    """
    if time is None or time not in sample.rows.columns:
        return None, None
    given = sample.once(_moments_of, time, zone, form)
    known = given.filter(given > NO_MOMENT)
    if known.is_empty():
        return None, None
    first, newest = (moment(int(str(us))) for us in (known.min(), known.max()))
    return first.astimezone(load_zone(zone)), newest.astimezone(load_zone(zone))


def _without(sample: _Sample, named: Sequence[str | None]) -> dict[str, int]:
    """Return for each column in ``named`` the number of rows without a value. The key "" has the
    number of rows without a value in any of the columns.
    """
    asked = [name for name in named if name is not None and name in sample.rows.columns]
    empty = {name: _is_empty(sample.rows, name) for name in asked}
    if empty:
        empty[""] = pl.any_horizontal(*empty.values())
    return {
        name: int(sample.rows.select(said.sum()).item()) - sample.unreadable
        for name, said in empty.items()
    }


def _names(sample: _Sample, by: str | None) -> dict[str, int]:
    if by is None or by not in sample.rows.columns:
        return {}
    found = sample.rows[by].cast(pl.String, strict=False).drop_nulls().value_counts(sort=True)
    return dict(found.filter(pl.col(by) != "").iter_rows())


def _beyond(
    sample: _Sample,
    user: str | None,
    per: str | None,
    most: int | None,
    time: str | None,
    zone: str,
    form: str | None,
) -> dict[int, float]:
    """Return, for several bounds on a user's rows in a period, the fraction of rows that the bound
    leaves out. ``most``, if given, is one of the bounds. ``user`` and ``time`` are columns, ``per``
    is the length of a period, ``form`` the format of times.
    """
    known = sample.rows
    if user is None or user not in known.columns:
        return {}
    keys = [pl.col(user).cast(pl.String, strict=False).alias("user")]
    if per is not None and time is not None:
        us = sample.once(_moments_of, time, zone, form).alias("us")
        known = known.with_columns(us).filter(pl.col("us") > NO_MOMENT)
        keys.append(period_of(pl.col("us"), per, zone).alias("period"))
    sizes = known.filter(~_is_empty(known, user)).group_by(keys).len()["len"]
    rows = int(sizes.sum())
    if not rows:
        return {}
    bounds = sorted({*BOUNDS, *([] if most is None else [most])})
    return {one: int((sizes.cast(pl.Int64) - one).clip(0).sum()) / rows for one in bounds}


def _late(
    sample: _Sample,
    entered: str | None,
    every: str | None,
    time: str | None,
    zone: str,
    form: str | None,
) -> dict[str, float]:
    """Return, for each waiting time, the fraction of rows that arrived later than this after their
    window's end. The columns ``entered`` and ``time`` have the times of arrival and of the events.
    ``form`` is the format of ``time``, ``every`` the length of a window.
    """
    if entered is None or time is None or every is None:
        return {}
    us = sample.once(_moments_of, time, zone, form).alias("us")
    if entered == _WRITTEN:
        there = sample.rows[_WRITTEN].alias("there")
    else:
        known = _time_column(sample.rows, entered)
        there_form = None if known is None else known.time_format
        there = sample.once(_moments_of, entered, zone, there_form).alias("there")
    both = pl.DataFrame([us, there]).filter(pl.col("us") > NO_MOMENT, pl.col("there") > NO_MOMENT)
    if both.is_empty():
        return {}
    local = pl.from_epoch("us", time_unit="us").dt.convert_time_zone("UTC")
    clock = local.dt.convert_time_zone(zone).dt.replace_time_zone(None)  # a day is told by its date
    end = clock.dt.truncate(every).dt.offset_by(every)
    ended = end.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null").dt.epoch("us")
    delay = both.select((pl.col("there") - ended).alias("delay"))["delay"].drop_nulls()
    return {wait: float(str((delay > length_of(wait)).mean())) for wait in WAITS}


def check_column(look: FirstLook, name: str) -> None:
    """Refuse a name that is no column of the events.

    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00"]})
    >>> check_column(look_at(Job("count", rows, "visits.db")), "time")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: there is no column 'time'; the columns are at
    """
    if name not in look.columns:
        raise InvalidInput(
            f"there is no column {name!r}; the columns are {', '.join(look.columns)}"
        )

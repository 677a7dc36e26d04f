"""A first look at events: their header, and the times in their first rows, for `init`.

Nothing is written and nothing spent. Names of columns and the format of times are the schema of the
events. The days of the first rows are exact and private: only `FirstLook.for_operator` shows them,
to people who may see the events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import polars as pl

from counton.base.errors import InvalidInput
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.frame.windows import NO_MOMENT, load_zone, moment
from counton.job.job import Job
from counton.job.stated_options import named_columns
from counton.rows.files import EventFile
from counton.rows.paths import SEPARATORS, moments_named
from counton.rows.sources import Rows, UnreadableRow, unreadable_errors
from counton.rows.timestamps import EPOCH_FORMATS, format_like, moments
from counton.run.settlement import EVER, open_source

#: Number of uncompressed bytes of the files, or of rows of other sources, to look at.
SAMPLE_BYTES, _SAMPLE_ROWS = 2**25, 500_000
#: Number of values tried to find a column of times, and the fraction that must be times.
_TRIED, _MOST_ARE_TIMES = 1000, 0.9
#: Numbers that look like a time, in microseconds since 1970: the years 2001 to 2065.
_EPOCHS = (10**15, 3 * 10**15)
_OFFSET = re.compile(r"(?:[Zz]|[T ].*[+-]\d\d(?::?\d\d)?)$")


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
        first, newest: times of the earliest and the newest of the first rows, on clocks of the
            job's zone; None: unknown.
    """

    first: datetime | None
    newest: datetime | None


@dataclass(frozen=True)
class FirstLook:
    """The header of events, and private facts about their first rows.

    Attributes:
        columns: names of the columns.
        times: columns that hold times; the first is the likeliest to hold the times of the events.
        has_all_rows: whether the first rows are all rows.
        separator: separator of fields in CSV.
    """

    columns: tuple[str, ...]
    times: tuple[TimeColumn, ...]
    has_all_rows: bool
    separator: str
    _sample: Private[pl.DataFrame]

    def for_operator(self, job: Job) -> FirstFacts:
        """Return exact facts about the first rows, under the options of a job."""
        sample, time = open_private(self._sample), job.times.time
        if time is None or time not in sample.columns:
            return FirstFacts(None, None)
        zone = job.times.timezone or "UTC"
        given = _moments(sample, time, zone, job.format.time_format)
        known = given.filter(given > NO_MOMENT)
        if known.is_empty():
            return FirstFacts(None, None)
        first, newest = (moment(int(str(us))) for us in (known.min(), known.max()))
        clock = load_zone(zone)
        return FirstFacts(first.astimezone(clock), newest.astimezone(clock))


def look_at(job: Job) -> FirstLook:
    """Read the header and the first rows of a job's events: of each file, or of the query's result.

    Raises:
        InvalidInput: the events cannot be read; a run would raise the same error.

    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", None], "reader": ["ann", "bob"]})
    >>> found = look_at(Job("count", rows, "visits.db"))
    >>> found.times, found.columns
    ((TimeColumn(name='at', local=True, time_format=None),), ('at', 'reader'))
    """
    ever = {name: EVER[name] for name in moments_named(job.rows.query or "")}
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
    names, left, whole, parts = source.columns(), SAMPLE_BYTES, True, list[pl.DataFrame]()
    if not names:
        source.sift(("",), 0)  # refuses lines that are no JSON
        raise InvalidInput(
            f"{source.name} has no row that names a column, so there is nothing to look at; give "
            "the events of a day that has some"
        )
    source.parts[0].check_columns(named_columns(job, names))
    for part in source.parts:
        if left <= 0:
            whole = False
            break
        if isinstance(part, EventFile) and part.kind != "parquet":
            part, all_of_it, taken = part.beginning(left)
            whole, left = whole and all_of_it, left - taken
        parts.append(_rows_of(part, names, job.format.policies().most))
    # In one chunk: polars nests a call of Python for each chunk, up to a recursion error.
    sample = pl.concat(parts, how="diagonal_relaxed").rechunk()
    found = [_time_column(sample, name) for name in names if name in sample.columns]
    return FirstLook(
        columns=tuple(names),
        times=tuple(sorted(filter(None, found), key=lambda it: bool(_OTHER_TIMES.search(it.name)))),
        has_all_rows=whole and sample.height <= _SAMPLE_ROWS,
        separator=job.format.separator or ",",
        _sample=Private(sample),
    )


def _rows_of(part: Rows, names: Sequence[str], most: int) -> pl.DataFrame:
    """Return the first rows of a source, in which unreadable rows are left empty.

    Raises:
        InvalidInput: over ``most`` rows, or half of the first rows, are unreadable.
    """
    try:
        return _first_rows(part, names)
    except unreadable_errors() as error:
        raise part.unreadable(error) from error
    except UnreadableRow:
        sifted = part.sift(names, most)  # a run sets these rows aside
        found = _first_rows(sifted, names)
        if 2 * len(sifted.unread) > found.height:
            raise
        return found


def _first_rows(part: Rows, names: Sequence[str]) -> pl.DataFrame:
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
    forms = EPOCH_FORMATS if dtype.is_numeric() else (None, *filter(None, dates), *EPOCH_FORMATS)
    for form in forms:
        read = _moments(values.to_frame(), name, "UTC", form)
        least, most = _EPOCHS if form in EPOCH_FORMATS else (NO_MOMENT, None)
        times = read.is_between(least, most) if most else read > least
        if times.mean() >= _MOST_ARE_TIMES:  # type: ignore[operator]
            offset = form in EPOCH_FORMATS or _OFFSET.search(str(values[0]).strip())
            return TimeColumn(name, not offset, form)
    return None


#: Matches names of columns with other times than the event's.
_OTHER_TIMES = re.compile(r"birth|born|due|until|expir|return|updat|enter|insert|load|import", re.I)


def _moments(sample: pl.DataFrame, name: str, zone: str, form: str | None) -> pl.Series:
    dtype = sample.schema[name]
    return sample.select(moments(name, dtype, zone, "earliest", form)).to_series()

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
from counton.rows.paths import SEPARATORS
from counton.rows.sources import Rows, UnreadableRow, unreadable_errors
from counton.rows.timestamps import moments
from counton.run.column_contents import (
    TimeColumn,
    columns_of_counts,
    decimal_sign,
    find_times,
    find_totals,
)
from counton.run.settlement import open_source

#: Number of uncompressed bytes of the files, or of rows of other sources, to look at.
SAMPLE_BYTES, _SAMPLE_ROWS = 2**25, 500_000
#: Number of first rows in which totals and counts are looked for.
_SOME_ROWS = 10_000


@name_alone
class FirstFacts(NamedTuple):
    """Exact facts about the first rows: only for the operator.

    Attributes:
        first, newest: times of the earliest and the newest of the first rows, on clocks of the
            job's zone; None: unknown.
        totals: columns with names of totals, such as Total, and these names.
        counts: columns of whole numbers, if each row seems to stand for several events.
    """

    first: datetime | None
    newest: datetime | None
    totals: tuple[tuple[str, str], ...] = ()
    counts: tuple[str, ...] = ()


@dataclass(frozen=True)
class FirstLook:
    """The header of events, and private facts about their first rows.

    Attributes:
        columns: names of the columns.
        times: columns that hold times; the first is the likeliest to hold the times of the events.
        has_all_rows: whether the first rows are all rows.
        separator: separator of fields in CSV.
        decimal: decimal sign of numbers in CSV; None: the numbers can be read with both.
        has_rows: whether there is a row.
    """

    columns: tuple[str, ...]
    times: tuple[TimeColumn, ...]
    has_all_rows: bool
    separator: str
    decimal: str | None
    has_rows: bool
    _sample: Private[pl.DataFrame]

    def for_operator(self, job: Job) -> FirstFacts:
        """Return exact facts about the first rows, under the options of a job."""
        sample = open_private(self._sample)
        time = job.times.time
        some = sample.head(_SOME_ROWS)
        totals = find_totals(some.iter_columns())
        formats = {column.name: column.time_format for column in self.times if not column.formats}
        time_format = job.format.time_format or formats.get(time or "")
        if time not in sample.columns or not (time in formats or time_format):
            return FirstFacts(None, None, totals)
        zone = job.times.timezone or "UTC"
        times = _moments(sample, time, zone, time_format)
        known = times.filter(times > NO_MOMENT)
        if known.is_empty():
            return FirstFacts(None, None, totals)
        clock = load_zone(zone)
        first = moment(int(str(known.min()))).astimezone(clock)
        newest = moment(int(str(known.max()))).astimezone(clock)
        counts = columns_of_counts(some, time, times.head(_SOME_ROWS))
        return FirstFacts(first, newest, totals, counts)


def look_at(job: Job) -> FirstLook:
    """Read the header and the first rows of a job's events: of each file, or of the query's result.

    Raises:
        InvalidInput: the events cannot be read; a run would raise the same error.

    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", None], "reader": ["ann", "bob"]})
    >>> found = look_at(Job("count", rows, "visits.db"))
    >>> found.times, found.columns
    ((TimeColumn(name='at', local=True, time_format=None, formats=()),), ('at', 'reader'))
    """
    source = open_source(job)
    header = source.columns()
    if len(header) == 1 and not job.states("separator"):  # it has another sign than the comma
        for sign in SEPARATORS[1:]:
            if sign in header[0]:
                job = job.having(separator="tab" if sign == "\t" else sign)
                source = open_source(job)
                break
    if header and header[0].lower().startswith("sep="):
        raise InvalidInput(
            f"the first line of {source.name} names a separator ({header[0]}) and no columns; "
            "remove that line"
        )
    if job.rows.query is not None:  # otherwise a database gives all its rows
        question = job.rows.query.strip().rstrip(";")
        some = f"SELECT * FROM ({question}\n) AS looked_at LIMIT {_SAMPLE_ROWS + 1}"  # noqa: S608
        source = open_source(job.having(query=some))
    names, left, whole = source.columns(), SAMPLE_BYTES, True
    parts: list[pl.DataFrame] = []
    parts_read: list[Rows] = []
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
        parts_read.append(part)
        try:
            parts.append(_rows_of(part, names, job.format.policies().most))
        except UnreadableRow as error:
            if len(names) > 1:
                raise
            raise InvalidInput(
                f"the first line of {source.name} names one column ({names[0]}), and other lines "
                "have more fields; remove the lines above the names of the columns"
            ) from error
    # In one chunk: polars nests a call of Python for each chunk, up to a recursion error.
    sample = pl.concat(parts, how="diagonal_relaxed").rechunk()
    times = _time_columns(sample, names, job.times.time)
    separator = job.format.separator or ","
    decimal: str | None = job.format.decimal or "."
    is_csv = any(isinstance(part, EventFile) and part.kind == "csv" for part in parts_read)
    if is_csv and not job.states("decimal"):
        known = {column.name for column in times}
        others = [sample[name] for name in sample.columns if name not in known]
        decimal = decimal_sign(others, separator)
    return FirstLook(
        columns=tuple(names),
        times=times,
        has_all_rows=whole and sample.height <= _SAMPLE_ROWS,
        separator=separator,
        decimal=decimal,
        has_rows=not sample.is_empty(),
        _sample=Private(sample),
    )


def _time_columns(
    sample: pl.DataFrame, names: Sequence[str], stated: str | None
) -> tuple[TimeColumn, ...]:
    """Return the columns of times; the first is the likeliest to hold the times of the events."""
    found = [find_times(sample[name], is_stated=name == stated) for name in names if name in sample]
    known = [column for column in found if column is not None]
    return tuple(sorted(known, key=lambda column: bool(_OTHER_TIMES.search(column.name))))


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


#: Matches names of columns with other times than the event's.
_OTHER_TIMES = re.compile(r"birth|born|due|until|expir|return|updat|enter|insert|load|import", re.I)


def _moments(sample: pl.DataFrame, name: str, zone: str, form: str | None) -> pl.Series:
    dtype = sample.schema[name]
    return sample.select(moments(name, dtype, zone, "earliest", form)).to_series()

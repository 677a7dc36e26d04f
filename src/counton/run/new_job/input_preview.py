"""A first look at the rows of a job: their columns, and the times in their first rows.

Nothing is written and nothing spent. Names of columns and the format of times are the schema of the
events. The days of the first rows are exact and private: only `FirstLook.confidential_counts` shows
them, to people who may see the events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from counton.base.errors import InvalidInputError
from counton.base.exact import name_alone
from counton.base.private import Private, reveal
from counton.io.files import EventFile
from counton.io.input_paths import SEPARATORS
from counton.io.sources import InputPart, Source, UnreadableRowError, unreadable_errors
from counton.io.timestamps import moments
from counton.job.common_options import Job
from counton.run.new_job.column_contents import (
    TimeColumn,
    columns_of_counts,
    decimal_sign,
    find_doubtful_numbers,
    find_fractions,
    find_like_missing,
    find_months,
    find_thousands,
    find_times,
    find_totals,
    usual_window,
)
from counton.run.rows.row_source import (
    named_columns,
    open_rows,
    refuse_groups_of_no_header,
    refuse_rows_as_domain,
    refuse_unit_of_users,
)
from counton.run.spec.parsing import parse_policies
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import is_moment, load_zone, moment

#: Number of uncompressed bytes of the files to look at.
SAMPLE_BYTES = 2**25
#: Number of rows of other sources to look at.
_SAMPLE_ROWS = 500_000
#: Number of first rows in which totals and counts are looked for.
_INSPECTED_ROWS = 10_000
#: Number of days from which weeks or months cannot be told from days.
_FEWEST_DAYS_OF_PERIOD = 2
#: Matches names of columns with other times than the event's.
_OTHER_TIMES = re.compile(r"birth|born|due|until|expir|return|updat|enter|insert|load|import", re.I)


@name_alone
class FirstFacts(NamedTuple):
    """Exact facts about the first rows: only for the operator.

    Attributes:
        first, newest: times of the earliest and the newest of the first rows, on clocks of the
            job's zone; None: unknown.
        totals: columns with names of totals, such as Total, and these names.
        counts: columns of whole numbers, if each row seems to stand for several events.
        like_missing: columns that may name users, with texts that programs write for a missing
            value, and numbers of rows.
        not_utf8: files with bytes that are not UTF-8, and numbers of rows that have them.
        thousands: columns of numbers with separators of thousands, and such a number.
        doubtful_numbers: columns of numbers that can be read in two ways, and such a number, if the
            decimal sign is not known.
        perhaps_every: length of windows that the days of two weeks or months may mean; else None.
    """

    first: datetime | None
    newest: datetime | None
    totals: tuple[tuple[str, str], ...] = ()
    counts: tuple[str, ...] = ()
    like_missing: tuple[tuple[str, str, int], ...] = ()
    not_utf8: tuple[tuple[str, int], ...] = ()
    thousands: tuple[tuple[str, str], ...] = ()
    doubtful_numbers: tuple[tuple[str, str], ...] = ()
    perhaps_every: str | None = None


@dataclass(frozen=True)
class FirstLook:
    """The columns of events, and private facts about their first rows.

    Attributes:
        columns: names of the columns.
        times: columns that hold times; the first is the likeliest to hold the times of the events.
        has_all_rows: whether the first rows are all rows.
        separator: separator of fields in CSV.
        decimal: decimal sign of numbers in CSV; None: the numbers can be read with both.
        has_rows: whether there is a row.
        months: columns of months without a day, as in 2024-03, which cannot be read as times.
        window_by_time: lengths of windows that columns of times suggest, by their names.
        fractions: columns of numbers that are not all whole.
    """

    columns: tuple[str, ...]
    times: tuple[TimeColumn, ...]
    has_all_rows: bool
    separator: str
    decimal: str | None
    has_rows: bool
    _sample: Private[pl.DataFrame]
    _not_utf8: Private[tuple[tuple[str, int], ...]]
    months: tuple[str, ...] = ()
    window_by_time: Mapping[str, str] = field(default_factory=dict)
    fractions: tuple[str, ...] = ()

    def confidential_counts(self, job: Job) -> FirstFacts:
        """Return exact facts about the first rows, under the options of a job."""
        sample = reveal(self._sample)
        some = sample.head(_INSPECTED_ROWS)
        count_column = _count_column(sample, job)
        doubtful_numbers: tuple[tuple[str, str], ...] = ()
        if self.decimal is None:
            doubtful_numbers = find_doubtful_numbers(
                _number_columns(sample, job, self.times), are_counts=count_column is not None
            )
        facts = FirstFacts(
            None,
            None,
            totals=find_totals(some.iter_columns()),
            like_missing=find_like_missing(sample[name] for name in _user_columns(sample, job)),
            not_utf8=reveal(self._not_utf8),
            thousands=find_thousands(
                some.iter_columns(),
                count_column,
                commas_group_thousands=self.separator == "," and self.decimal == ".",
            ),
            doubtful_numbers=doubtful_numbers,
        )
        time = "" if job.time is None else str(job.time)
        formats = {column.name: column.time_format for column in self.times if not column.formats}
        time_format = formats.get(time) if job.time_format is None else str(job.time_format)
        if time not in sample.columns or not (time in formats or time_format):
            return facts
        zone = str(job.timezone or "UTC")
        times = _moments(sample, time, zone, time_format)
        known_times = times.filter(is_moment(times))
        if known_times.is_empty():
            return facts
        clock = load_zone(zone)
        first = moment(int(str(known_times.min()))).astimezone(clock)
        newest = moment(int(str(known_times.max()))).astimezone(clock)
        counts = columns_of_counts(some, time, times.head(_INSPECTED_ROWS))
        perhaps_every = None
        is_local = any(column.name == time and column.local for column in self.times)
        if is_local and time not in self.window_by_time:
            perhaps_every = usual_window(
                sample[time], time_format, least_periods=_FEWEST_DAYS_OF_PERIOD
            )
        return facts._replace(
            first=first, newest=newest, counts=counts, perhaps_every=perhaps_every
        )


def look_at(job: Job) -> FirstLook:
    """Read the columns and the first rows of each file of a job's events, or of its query.

    Raises:
        InvalidInputError: the events cannot be read; a run would raise the same error.

    >>> from counton.job.statistics.count import CountJob
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", None], "reader": ["ann", "bob"]})
    >>> look = look_at(CountJob(events=rows, state="visits.db"))
    >>> [column.name for column in look.times], look.columns
    (['at'], ('at', 'reader'))
    """
    job = _with_separator(job)
    source = _open(job)
    columns = source.columns()
    if columns and columns[0].lower().startswith("sep="):
        separator = columns[0]
        if len(columns) > 1:  # at which the line was split
            separator += job.separator or ","
        raise InvalidInputError(
            f"The first line of {source.name} names a separator ({separator}) and no columns. "
            "Remove that line"
        )
    if job.query is not None:  # otherwise a database gives all its rows
        query = str(job.query).strip().rstrip(";")
        limited = f"SELECT * FROM ({query}\n) AS looked_at LIMIT {_SAMPLE_ROWS + 1}"  # noqa: S608
        source = _open(job.with_options(query=limited))
    names = source.columns()
    if not names:
        source.sift(("",), 0)  # refuses lines that are no JSON
        raise InvalidInputError(
            f"{source.name} has no row that names a column, so there is nothing to look at. Give "
            "the events of a day that has some"
        )
    source.parts[0].check_columns(named_columns(job, names))
    refuse_unit_of_users(job, names)
    refuse_groups_of_no_header(job, names)
    beginning = _read_beginning(source, parse_policies(job).most)
    sample = beginning.sample
    time = None if job.time is None else str(job.time)
    times = _time_columns(sample, names, time)
    separator = str(job.separator or ",")
    decimal: str | None = job.decimal or "."
    if beginning.has_csv and not job.has_stated("decimal"):
        numbers = _number_columns(sample, job, times)
        are_counts = _count_column(sample, job) is not None
        decimal = decimal_sign(numbers, separator, are_counts=are_counts)
    return FirstLook(
        columns=tuple(names),
        times=times,
        has_all_rows=beginning.is_whole and sample.height <= _SAMPLE_ROWS,
        separator=separator,
        decimal=decimal,
        has_rows=not sample.is_empty(),
        _sample=Private(sample),
        _not_utf8=Private(beginning.not_utf8),
        months=find_months(sample.iter_columns()),
        window_by_time=_window_by_time(sample, times),
        fractions=find_fractions(sample.iter_columns()),
    )


def _window_by_time(sample: pl.DataFrame, times: Sequence[TimeColumn]) -> dict[str, str]:
    """Return the lengths of windows that columns of times suggest."""
    windows: dict[str, str] = {}
    for column in times:
        # A time with an offset is a midnight in one zone alone.
        if not column.local or column.formats:
            continue
        window = usual_window(sample[column.name], column.time_format)
        if window is not None:
            windows[column.name] = window
    return windows


def _open(job: Job) -> Source:
    source = open_rows(job, None)
    refuse_rows_as_domain(job, source, None)
    return source


def _with_separator(job: Job) -> Job:
    """Return the job with the separator of its events, if it states none and that is no comma."""
    if job.has_stated("separator"):
        return job
    try:
        columns = _open(job).columns()
    except UnreadableRowError:  # other separators may stand between names in quotation marks
        return _with_separator_of_quoted_names(job)
    if len(columns) != 1:
        return job
    for sign in SEPARATORS[1:]:
        if sign in columns[0]:
            return _separated_by(job, sign)
    return job


def _with_separator_of_quoted_names(job: Job) -> Job:
    for sign in SEPARATORS[1:]:
        separated = _separated_by(job, sign)
        with suppress(UnreadableRowError):
            if len(_open(separated).columns()) > 1:
                return separated
    return job


def _separated_by(job: Job, sign: str) -> Job:
    return job.with_options(separator="tab" if sign == "\t" else sign)


@name_alone
class _Beginning(NamedTuple):
    """The first rows of all parts of a source.

    Attributes:
        is_whole: whether all files were read to their ends.
        has_csv: whether one of the files is CSV.
        not_utf8: files with bytes that are not UTF-8, and numbers of rows that have them.
    """

    sample: pl.DataFrame
    is_whole: bool
    has_csv: bool
    not_utf8: tuple[tuple[str, int], ...]


def _read_beginning(source: Source, most_unreadable: int) -> _Beginning:
    """Read the first rows of each part of a source, up to a number of bytes in all."""
    names = source.columns()
    bytes_left = SAMPLE_BYTES
    is_whole = True
    has_csv = False
    frames: list[pl.DataFrame] = []
    not_utf8: list[tuple[str, int]] = []
    for input_part in source.parts:
        if bytes_left <= 0:
            is_whole = False
            break
        if isinstance(input_part, EventFile) and input_part.kind != "parquet":
            input_part, is_all_of_it, n_bytes = input_part.beginning(bytes_left)
            is_whole = is_whole and is_all_of_it
            bytes_left -= n_bytes
        has_csv |= isinstance(input_part, EventFile) and input_part.kind == "csv"
        try:
            rows, n_not_utf8 = _rows_of(input_part, names, most_unreadable)
        except UnreadableRowError as error:
            if len(names) > 1:
                raise
            raise InvalidInputError(
                f"The first line of {source.name} names one column ({names[0]}), and other lines "
                "have more fields. Remove the lines above the names of the columns"
            ) from error
        frames.append(rows)
        if n_not_utf8:
            not_utf8.append((input_part.name, n_not_utf8))
    # One chunk is needed: polars nests a call of Python for each, up to a recursion error.
    sample = pl.concat(frames, how="diagonal_relaxed").rechunk()
    return _Beginning(sample, is_whole, has_csv, tuple(not_utf8))


def _count_column(sample: pl.DataFrame, job: Job) -> str | None:
    """Return the column of texts that has counts, if the job names one; else None."""
    name = job.value_of("count_column")
    return str(name) if sample.schema.get(str(name)) == pl.String else None


def _number_columns(sample: pl.DataFrame, job: Job, times: Sequence[TimeColumn]) -> list[pl.Series]:
    """Return the columns of texts that may be read as numbers: the counts alone, if there are any.

    Args:
        sample: the first rows.
        job: the job; columns that it uses for something else are left out.
        times: the columns of times.
    """
    count_column = _count_column(sample, job)
    if count_column is not None:
        return [sample[count_column]]
    used = {str(job.value_of("user")), str(job.row_id), *(job.value_of("group_by") or ())}
    used |= {column.name for column in times}
    texts = sample.select(pl.col(pl.String))
    return [texts[name] for name in texts.columns if name not in used]


def _user_columns(sample: pl.DataFrame, job: Job) -> list[str]:
    """Return the columns that may name users: the stated one, or all texts if it is not known."""
    user = job.value_of("user")
    if user is not None:
        return [str(user)] if str(user) in sample.columns else []
    if job.value_of("count_column") is not None or job.privacy_unit is not None:
        return []
    others = {str(name) for name in (job.time, *(job.value_of("group_by") or ()))}
    return [name for name in sample.columns if name not in others]


def _time_columns(
    sample: pl.DataFrame, names: Sequence[str], time_of_job: str | None
) -> tuple[TimeColumn, ...]:
    """Return the columns of times; the first is the likeliest to hold the times of the events."""
    columns = [
        find_times(sample[name], is_stated=name == time_of_job) for name in names if name in sample
    ]
    times = [column for column in columns if column is not None]
    return tuple(sorted(times, key=lambda column: bool(_OTHER_TIMES.search(column.name))))


def _rows_of(input_part: InputPart, names: Sequence[str], most: int) -> tuple[pl.DataFrame, int]:
    """Return the first rows of a source, in which unreadable rows are left empty, and how many of
    them have bytes that are not UTF-8.

    Raises:
        InvalidInputError: over ``most`` rows, or half of the first rows, are unreadable.
    """
    try:
        return _first_rows(input_part, names), 0
    except unreadable_errors() as error:
        raise input_part.unreadable(error) from error
    except UnreadableRowError:
        sifted = input_part.sift(names, most)  # a run sets these rows aside
        rows = _first_rows(sifted, names)
        if 2 * len(sifted.unread) > rows.height:
            raise
        return rows, sifted.n_not_utf8


def _first_rows(input_part: InputPart, names: Sequence[str]) -> pl.DataFrame:
    present = [name for name in names if name in input_part.columns()]
    frame = input_part.frame(present)
    types = frame.collect_schema()
    flat = [name for name in present if not (types[name].is_nested() or types[name] == pl.Object)]
    return frame.select(flat).head(_SAMPLE_ROWS + 1).collect(engine="streaming")


def _moments(sample: pl.DataFrame, name: str, zone: str, form: str | None) -> pl.Series:
    dtype = sample.schema[name]
    return sample.select(moments(name, dtype, zone, "earliest", form)).to_series()

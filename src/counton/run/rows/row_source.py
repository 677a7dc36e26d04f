"""The source of a run's rows: files, a data frame, or a database query.

A list of groups that is read from the rows themselves is refused: it would reveal whose rows exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from counton.base.errors import CountonError, InvalidInputError, param
from counton.io.declared_groups import (
    refuse_events_as_domain,
    refuse_groups_of_fewer_columns,
    refuse_groups_without_header,
)
from counton.io.files import EventFile
from counton.io.files import open_source as open_files
from counton.io.input_paths import CsvForm, is_database, moments_named
from counton.io.other_formats import refuse_address
from counton.io.sources import Source, join_columns
from counton.io.timestamps import WITHIN_DAY
from counton.job.common_options import Job
from counton.job.incompatible import refuse_source
from counton.run.rows.window_sums import columns_of
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import DeclaredGroups, RunOptions
from counton.run.windows.covered_windows import covered_windows
from counton.run.windows.due_windows import EndedWindows, ReleaseClock, RowTimes

if TYPE_CHECKING:
    from counton.io.query_edges import QueryEdges

#: Options that name columns of times, users and ids; and of groups and values.
_TIMES_AND_NAMES = ("time", "user", "row_id")
_GROUPS_AND_VALUES = ("group_by", "value", "count_column", "columns", "levels", "label")


class QueryMoments(NamedTuple):
    """The moments that a database query asks for.

    Attributes:
        asked_at: the time at which the query is asked; None if it names no moment.
        edges: values of ``{since}`` and ``{until}``, and how times are read; None if the query
            names no moment, or its windows are not known yet: all rows lie between them.
    """

    asked_at: datetime | None = None
    edges: QueryEdges | None = None


def query_moments(
    job: Job, spec: StreamSpec, options: RunOptions, released: int, now: datetime
) -> QueryMoments:
    """Return the values of ``{since}`` and ``{until}`` in the query of a job.

    Rows from ``since`` to before ``until`` belong to the windows that are covered, or else to those
    that are released now. So if a query of new rows uses both, each row is selected once.

    Args:
        released: number of steps released before.
        now: the current time.

    Raises:
        InvalidInputError: the query has a moment in quotes.
    """
    query = None if job.query is None else str(job.query)
    names = frozenset[str]() if query is None else moments_named(query)
    if query is None or not names:
        return QueryMoments()
    windows = spec.terms.windowing.windows
    ended = EndedWindows(released, 0)
    if "until" in names or options.input.lookback is not None:
        clock = ReleaseClock(
            windows=windows,
            options=options,
            times=RowTimes(None, None, any_beyond=False, any_rows=False),
            released=released,
            now=now,
            is_new_stream=False,
        )
        ended = clock.ended_windows(allows_missing_rows=True)
    since = released
    if spec.takes_whole_windows:
        since = covered_windows(windows, options, released, ended).start - 1
    steps = {"since": since, "until": max(ended.last, released)}
    moments = {
        name: int(windows.ends(range(step, step + 1))[0])
        for name, step in steps.items()
        if name in names
    }
    from counton.io.query_edges import QueryEdges  # files do not need it

    edges = QueryEdges(
        moments=moments,
        column=spec.terms.windowing.time,
        timezone=windows.timezone,
        ambiguous=WITHIN_DAY if windows.whole_days else spec.terms.ambiguous,
        time_format=spec.terms.time_format,
        holds_all_rows=not job.append,
    )
    return QueryMoments(now, edges)


def open_rows(job: Job, rows: object, edges: QueryEdges | None = None) -> Source:
    """Open the rows of a job: its files, its query, or a data frame that a program passes.

    Args:
        rows: a data frame or another source; None: what the job names.
        edges: values of the moments that the query names; None: all rows lie between them.

    Raises:
        InvalidInputError: there are none, or a file is missing or of an unknown format.
    """
    events = job.events if rows is None else rows
    if events is None:
        raise InvalidInputError(f"{param('events')} is missing. Name the files of the rows")
    refuse_source(job, events)
    if is_database(events):
        from counton.io.databases import open_query

        return open_query(events, str(job.query), edges)
    for path in events if isinstance(events, list | tuple) else [events]:
        if isinstance(path, str):
            refuse_address(path)
    separator = None if job.separator is None else str(job.separator)
    return open_files(events, job.file_format, CsvForm.read(separator, job.decimal))


def open_rows_of_new_stream(job: Job, rows: object) -> Source | None:
    """Open the rows of a job that begins its stream, and look at their columns.

    This comes before the stream is planned: a misspelt column would make other messages wrong.

    Returns:
        The rows; None if `open_rows` opens them once the stream is planned. It then reports why
        rows cannot be opened, asks a query whose moments are known, and takes a `Source` as it is.

    Raises:
        InvalidInputError: a column is missing that an option names, or the groups were read from
            the rows.
    """
    if isinstance(job.events if rows is None else rows, Source):
        return None
    try:
        source = open_rows(job, rows)
        columns = source.parts[0].columns()
    except CountonError:
        return None
    if columns:
        source.parts[0].check_columns(named_columns(job, columns))
        refuse_unit_of_users(job, columns)
    refuse_rows_as_domain(job, source, rows)
    refuse_groups_of_no_header(job, columns)
    return None if job.query is not None else source


def refuse_groups_of_no_header(job: Job, columns: Sequence[str]) -> None:
    """Refuse a table of groups whose first line is probably a group and no header.

    Args:
        job: the job that begins a stream.
        columns: columns of the rows.

    Raises:
        InvalidInputError: the only column of the table is none of the rows.
    """
    column = ",".join(job.value_of("group_by") or ())
    if column and columns:
        refuse_groups_without_header(job.value_of("groups"), column, columns)


def refuse_unit_of_users(job: Job, columns: Sequence[str]) -> None:
    """Refuse the name of a unit that is a column of the rows, if single rows are protected.

    A reader of the ledger would believe that each visitor is protected, if single visits are. Only
    names of columns decide, never the rows.

    Args:
        job: the job that begins a stream.
        columns: columns of the rows.

    Raises:
        InvalidInputError: the unit is a column that holds neither counts nor ids of rows.

    >>> from counton.job.statistics.count import CountJob
    >>> refuse_unit_of_users(CountJob(privacy_unit="visit"), ["time", "visitor"])
    >>> refuse_unit_of_users(CountJob(privacy_unit="visit", row_id="visit"), ["time", "visit"])
    """
    if job.privacy_unit is None or job.value_of("user") is not None:
        return
    if job.value_of("upstream_max_contributions") is not None:
        return
    unit = str(job.privacy_unit)
    others = {job.row_id, job.value_of("count_column")}
    names = [name for name in columns if name not in others and _names_unit(name, unit)]
    if not names:
        return
    raise InvalidInputError(
        f"{param('privacy_unit', unit)} is only a name: without {param('user')}, each row is "
        f"protected alone. The rows have a column {names[0]!r}. To protect each {unit}, give "
        f"{param('user', names[0])} and {param('max_contributions')}. To protect single rows, use "
        f"another name, as in {param('privacy_unit', 'row')}"
    )


def _names_unit(column: str, unit: str) -> bool:
    """Return whether a column is called like a unit, as "visitor" or "Visitor ID".

    >>> [_names_unit(name, "visitor") for name in ("Visitor ID", "visitorId", "visitors")]
    [True, True, False]
    """
    name = re.sub(r"[\W_]", "", column).casefold()
    word = re.sub(r"[\W_]", "", unit).casefold()
    return name in (word, f"{word}id")


def refuse_rows_as_domain(job: Job, source: Source, rows: object) -> None:
    """Refuse a list of groups that seems to be read from the rows of a job.

    Args:
        job: the job, filled with the options that its stream keeps.
        source: the rows.
        rows: a source of rows that a program passes; None: what the job names.

    Raises:
        InvalidInputError: it does; groups that are found in the rows reveal whose rows exist.
    """
    domain = job.value_of("groups")
    people = [str(name) for name in (job.value_of("user"), job.row_id) if name is not None]
    refuse_events_as_domain(
        domain,
        source,
        None if job.time is None else str(job.time),
        None if job.time_format is None else str(job.time_format),
        named=_named_by(job, _GROUPS_AND_VALUES, source.columns()),
        people=people,
        once=job.is_single_table(),
        same=domain is (job.events if rows is None else rows),
    )


def with_combined_columns(source: Source, spec: StreamSpec, *, is_new_stream: bool) -> Source:
    """Return the rows of a stream with its combined columns.

    Args:
        is_new_stream: whether the job begins its stream.
    """
    if not is_new_stream:
        source = source.for_known_stream()
    return join_columns(source, spec.terms.groups.column)


def check_rows(source: Source, spec: StreamSpec, *, is_new_stream: bool) -> None:
    """Refuse rows that lack a column of their stream.

    Args:
        source: the rows, with the combined columns of the stream.
        is_new_stream: whether the job begins its stream.

    Raises:
        InvalidInputError: a column is missing, its type cannot be read, or groups of several
            columns are named by one.
    """
    groups = spec.terms.groups
    are_joined = groups.column is not None and groups.column in source.parts[0].together
    if is_new_stream and are_joined and isinstance(groups, DeclaredGroups):
        refuse_groups_of_fewer_columns(groups.declared, groups.column)
    columns = columns_of(spec).names
    input_part = source.parts[0]
    if input_part.columns():
        input_part.check_columns(input_part.of_file(columns))
    if is_new_stream and isinstance(input_part, EventFile):  # only its header is read
        input_part.scan(columns)


def named_columns(job: Job, present: Sequence[str]) -> list[str]:
    """Return all columns of the rows that the options of a job name.

    Args:
        present: columns of the rows; one of them may have a comma in its name, which separates
            columns otherwise.

    >>> from counton.job.statistics.sum import SumJob
    >>> job = SumJob(time="at", group_by="a,b", value="paid")
    >>> named_columns(job, ["at"]), named_columns(job, ["a,b"])
    (['at', 'a', 'b', 'paid'], ['at', 'a,b', 'paid'])
    """
    return _named_by(job, (*_TIMES_AND_NAMES, *_GROUPS_AND_VALUES), present)


def _named_by(job: Job, options: Sequence[str], present: Sequence[str]) -> list[str]:
    values = [job.value_of(name) for name in options]
    for member in (job.value_of("statistics") or {}).values():
        values += [member.value_of(name) for name in options]
    names: list[str] = []
    for value in filter(None, values):
        columns = (value,) if isinstance(value, str) else tuple(value)
        whole = ",".join(columns)
        names += [whole] if whole in present else columns
    return list(dict.fromkeys(names))

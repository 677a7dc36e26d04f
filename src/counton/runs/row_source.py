"""The source of a run's rows: files, a data frame, or a database query.

A list of groups that is read from the rows themselves is refused: it would reveal whose rows exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from counton.base.errors import InvalidInput
from counton.base.errors import field as option_name
from counton.base.private import Private
from counton.frame.options import split_names
from counton.options.common_options import Job
from counton.rows.domains import refuse_events_as_domain
from counton.rows.files import open_source as open_files
from counton.rows.paths import CsvForm, is_database, moments_named
from counton.rows.sources import Source, join_columns
from counton.runs.due_windows import RowTimes, covered_windows, ended_windows
from counton.runs.reading import columns_of
from counton.runs.stream_spec import StreamSpec
from counton.runs.terms import RunOptions, SingleTable, Snapshot


class QueryMoments(NamedTuple):
    """The moments that a database query asks for.

    Attributes:
        asked_at: the time at which the query is asked; None if it names no moment.
        edges: values of ``{since}`` and ``{until}``, as far as the query names them.
    """

    asked_at: datetime | None = None
    edges: Mapping[str, str] = {}


def query_moments(
    job: Job, spec: StreamSpec, run: RunOptions, released: int, now: datetime
) -> QueryMoments:
    """Return the values of ``{since}`` and ``{until}`` in the query of a job.

    Rows from ``since`` to before ``until`` belong to the windows that are covered, or else to those
    that are released now. So if a query of new rows uses both, each row is selected once.

    Args:
        released: number of steps released before.
        now: the current time.

    Raises:
        InvalidInput: the query names a moment that the stream cannot have.
    """
    query = None if job.query is None else str(job.query)
    names = frozenset[str]() if query is None else moments_named(query)
    if query is None or not names:
        return QueryMoments()
    shown = option_name("query", query[:40])
    windows = spec.terms.windowing.windows
    if isinstance(spec.terms.windowing, SingleTable):
        raise InvalidInput(
            f"{shown} uses {{{min(names)}}}, a time between windows, and "
            f"{spec.terms.statistic.name} has no windows here; leave it out"
        )
    if spec.terms.takes_new_rows and len(names) == 1:
        raise InvalidInput(
            f"{shown} uses only {{{min(names)}}}, so the next run would select some of these new "
            "rows again, and count them twice; use both {since} and {until}"
        )
    if "until" in names and run.until == "newest":
        raise InvalidInput(
            f"{shown} uses {{until}}, but {option_name('until', 'newest')} is known only after the "
            "rows are read; leave one of them out"
        )
    covers = run.input.covers if isinstance(run.input, Snapshot) else None
    last = released
    since = released
    if "until" in names or covers is not None:
        nothing = RowTimes(None, None, any_beyond=False, any_rows=False)
        ended = ended_windows(windows, run, nothing, released, now, allows_empty_windows=True)
        last = max(ended.last, released)
        if spec.takes_whole_windows:
            covered = covered_windows(windows, run, released, ended, repeats_all_rows=False)
            since = covered.start - 1
    edges = {"since": since, "until": last}
    return QueryMoments(
        now,
        {
            name: windows.local(int(windows.ends(range(step, step + 1))[0])).isoformat()
            for name, step in edges.items()
            if name in names
        },
    )


def repeats_all_rows(job: Job) -> bool:
    """Return whether a job's input repeats the rows of released windows.

    Files of new rows do not, nor does the result of a query with ``{since}``.
    """
    if job.append:
        return False
    return job.query is None or "since" not in moments_named(str(job.query))


def open_rows(
    job: Job, spec: StreamSpec, rows: object, moments: QueryMoments, *, is_new_stream: bool
) -> Private[Source]:
    """Open the rows of a job: its files, its query, or a data frame that a program passes.

    Args:
        rows: a data frame or another source; None: what the job names.
        moments: values of the moments that the query names.
        is_new_stream: whether the job begins its stream.

    Raises:
        InvalidInput: there are none; a file or a column is missing; or the groups were read from
            the rows.
    """
    events = job.events if rows is None else rows
    if events is None:
        raise InvalidInput(f"{option_name('events')} is missing; name the files of the rows")
    source = _open(job, events, moments.edges)
    columns = columns_of(spec)
    terms = spec.terms
    if job.states("domain"):
        refuse_events_as_domain(
            job.value_of("domain"),
            source,
            columns.time or None,
            terms.time_format,
            named=[*split_names(columns.group or ()), *columns.parts],
            people=[name for name in (columns.user, columns.id) if name is not None],
            once=isinstance(terms.windowing, SingleTable),
            same=job.value_of("domain") is events,
        )
    if not is_new_stream:
        source = source.for_known_stream()
    source = join_columns(source, terms.groups.column)
    part = source.parts[0]
    if part.columns():
        part.check_columns(part.of_file(columns.names))
    return Private(source)


def _open(job: Job, events: object, edges: Mapping[str, str]) -> Source:
    query = None if job.query is None else str(job.query)
    if is_database(events):
        from counton.rows.databases import open_query

        return open_query(events, query, edges)
    if query is not None:
        raise InvalidInput(
            f"{option_name('query', query[:40])} is for a database, and {option_name('events')} "
            "name no database; give sqlite:///FILE or postgresql://USER@HOST/DATABASE, or leave "
            f"{option_name('query')} out"
        )
    separator = None if job.separator is None else str(job.separator)
    return open_files(events, job.file_format, CsvForm.read(separator, job.decimal))

"""Completion and check of a job, before a row is read, from its options and those that its stream
keeps.

All refusals that need no rows happen here. The state is open, but nothing is written. A new stream
is defined (`counton.run.new_stream`). A later run of an existing stream may leave out options that
define the stream, and may not contradict them: `refuse_other` compares both. A stream keeps its
last job's policies and outputs, and its selection of the statistic's numbers to show.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counton.base.errors import AlreadyEnded, CountonError, InvalidInput, RequestMismatch, field
from counton.base.exact import quote
from counton.base.private import Private
from counton.frame.groups import GroupNames
from counton.frame.options import Option, check_text, split_names
from counton.frame.windows import parse_time
from counton.job import stated_options as statements
from counton.job.job import NEWEST, Job, options_of, usual_name
from counton.job.stated_options import refuse_other_kinds
from counton.options.custom_strategies import OWN, own_strategy
from counton.privacy import ExpiringDP, ExpiringZCDP, Spend
from counton.privacy.contribution import known_unit, unit_without_period
from counton.rows.domains import read_domain, refuse_events_as_domain
from counton.rows.files import EventFile
from counton.rows.files import open_source as open_rows
from counton.rows.other_formats import refuse_address
from counton.rows.paths import (
    CsvForm,
    event_paths,
    is_database,
    is_file,
    moments_named,
    names_tell_format,
    refuse_among_events,
)
from counton.rows.query_edges import QueryEdges
from counton.rows.sources import Source, join_columns
from counton.rows.timestamps import WITHIN_DAY
from counton.run.clock import (
    ClockFacts,
    length_of,
    refuse_unproven,
    windows_covered_by,
    windows_ended,
)
from counton.run.definition import (
    DEFINING,
    REMEMBERED,
    Definition,
    check_discovery,
    check_words,
    growth_of,
    remembering,
    stated_guarantee,
)
from counton.run.outputs import Outputs, Progress, silent
from counton.state import Store
from counton.state.database import Closing
from counton.state.keys import state_files
from counton.state.ledger_rows import SpentUnit, record_in
from counton.state.reader import JournalReader
from counton.state.sqlite_file import NoState
from counton.statistics import Statistic
from counton.strategies import Expiring


@dataclass(frozen=True)
class OpenedJob(Closing):
    """A job with its open state (database): the input of `resolve`.

    Close it, or the `SettledJob` that `resolve` makes of it.

    Attributes:
        job: the job, completed with the options that its stream keeps.
        store: the state; None if it does not exist yet.
        saved: the job's stream, opened for reading; None for a new stream.
    """

    job: Job
    store: Store | None
    saved: JournalReader | None

    def having(self, **more: Any) -> OpenedJob:
        """Return a copy of this opened job in which some fields of the job are replaced."""
        return replace(self, job=self.job.having(**more))

    def close(self) -> None:
        """Close the state (database) of the job, if it exists."""
        if self.store is not None:
            self.store.close()


@dataclass(frozen=True)
class SettledJob(OpenedJob):
    """A job completed with the options of its stream, with its open state (database) and its
    stream's definition; no row is read yet.

    Attributes:
        definition: definition of the stream (columns, windows, groups and guarantee), including the
            options of this job that it will keep.
        source: source of the rows.
        outputs: output files of the job.
        asked_at: for a query with ``{since}`` or ``{until}``, the time at which it is asked; only
            windows that ended by then are released.
    """

    definition: Definition
    source: Private[Source]
    outputs: Outputs
    asked_at: datetime | None = None

    @property
    def spend(self) -> Spend:
        """The ledger's entry of the job's stream."""
        this, name = self.definition, self.job.keeping.name
        promise = this.guarantee, this.unit_in_ledger, this.contribution.relation
        return Spend(name, *promise)


def resolve(
    asked: Job | OpenedJob, units: Sequence[SpentUnit] = (), *, progress: Progress = silent
) -> SettledJob:
    """Complete a job with the options that its stream keeps, or define its new stream, and check
    everything.

    No row is read and nothing is written. Close the result after use.

    Args:
        asked: the job; or a job with an open state, which then belongs to the result.
        units: further protected units for which the state's ledger (the record of spent privacy
            loss) will have entries.
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.

    Raises:
        InvalidInput: a value of the job is out of range.
        StateError: the state cannot be used, or its stream was made with other options.
        BudgetExceeded: the limit of the state does not allow the job.

    >>> job = Job("count", "visits.csv", "a-state-that-is-new.db", steps=9)
    >>> resolve(job)
    Traceback (most recent call last):
    counton.frame.options.MissingOptions: a new stream needs time, every, start and epsilon ...
    """
    given: object = asked
    if not isinstance(given, Job | OpenedJob):
        raise InvalidInput(f"the request is {quote(given)}; give a Job(what, events, state)")
    progress("choosing a strategy", 0.05)
    opened = open_job(given) if isinstance(given, Job) else given
    try:
        settled = _settle(opened, units)
        job, definition = settled.job, settled.definition
        if job.lateness.watermark is not None:
            length_of(job.lateness.watermark)  # refuses a wrong one
        if job.people.retain is not None:
            from counton.run.erasure import check_retain

            check_retain(job.people.retain, definition)
        if settled.saved is None and settled.store is not None:
            settled.store.refuse_beyond(settled.spend)
        return settled
    except BaseException:
        opened.close()
        raise


def _settle(opened: OpenedJob, units: Sequence[SpentUnit]) -> SettledJob:
    """Complete a job: define its new stream, or check it against its existing stream."""
    job, store, saved = opened.job, opened.store, opened.saved
    before = None
    if saved is not None:
        before = Definition.reopen(saved.design, saved.details)
        if before.ended is not None:
            raise AlreadyEnded(
                f"stream {job.keeping.name!r} has ended at step {before.ended:,} and releases "
                f"nothing more; begin another {field('name')}, or write again what was released "
                "from the state alone",
                before.ended,
            )
    first = checked_source(job) if saved is None else None
    # Nodes, and what they are called, are said by rows, so these are looked at first.
    source = open_source(job, before) if first is None and statements.declares_nodes(job) else first
    if before is None:
        from counton.run.new_stream import define

        definition = define(job, [*(() if store is None else store.units), *units])
    else:
        definition = before
        refuse_other(job, definition)
        if (record := remembering(definition.record, job)) != definition.record:
            definition = definition.having(record=record)
    refuse_unproven(job, definition)
    if any(map(job.states, ("out", "plot", "bad_rows"))):
        _check_outputs(job, None if saved is None else saved.design.noise_id)
    asked_at, edges = None, None
    if job.rows.query is not None:
        released = 0 if saved is None else saved.step
        asked_at, edges = edges_of(job, definition, job.rows.query, released)
    if source is None:
        source = open_source(job, before, edges)
    source = source if saved is None else source.for_known_stream()
    source = join_columns(source, definition.columns.group)
    if saved is None and isinstance(source.parts[0], EventFile):  # only its header is read
        source.parts[0].scan(definition.columns.names)
    outputs = Outputs.of(job, definition)
    return SettledJob(job, store, saved, definition, Private(source), outputs, asked_at)


def checked_source(job: Job) -> Source | None:
    """Open a new stream's rows and check columns first: a misspelt one makes other messages wrong.

    None: a query, asked when its moments are known, or rows that cannot be opened.
    """
    if isinstance(job.events, Source):
        return None
    try:
        source = open_source(job)
    except CountonError:  # told when the rest is known
        return None
    part = source.parts[0]
    if present := part.columns():
        part.check_columns(statements.named_columns(job, present))
    return source if job.rows.query is None else None


def edges_of(
    job: Job, definition: Definition, query: str, released: int
) -> tuple[datetime | None, QueryEdges | None]:
    """Return the time at which a database query is asked, and the values for ``{since}`` and
    ``{until}`` in it.

    Rows from ``since`` to before ``until`` belong to the windows that are covered (``covers``), or
    else to those that are released now. So if a query of new events uses both, each event is
    selected once. Both are None if the query names neither.
    """
    if not (named := moments_named(query)):
        return None, None
    if not definition.cut.goes_on:
        raise InvalidInput(
            f"{field('query', query[:40])} uses {{{min(named)}}}, a time between windows, and "
            f"{definition.what} has no windows here; leave it out"
        )
    if definition.new_rows and len(named) == 1:
        raise InvalidInput(
            f"{field('query', query[:40])} uses only {{{min(named)}}}, so the next run would "
            "select some of these new events again, and count them twice; use both {since} and "
            "{until}"
        )
    if "until" in named and job.times.until == NEWEST:
        raise InvalidInput(
            f"{field('query', query[:40])} uses {{until}}, but {field('until', NEWEST)} is known "
            "only after the rows are read; leave one of them out"
        )
    now, windows, until, ended = datetime.now(UTC), definition.cut, None, released
    if "until" in named or job.rows.covers is not None:
        facts = ClockFacts("", None, False, released, all_of_them=False)
        until, ended = windows_ended(job, definition, facts, now, yes=True)
    covered = windows_covered_by(job, definition, released, ended, until)
    since = released if covered is None else covered.start - 1
    steps = {"since": since, "until": max(ended, released)}
    ends = {name: int(windows.ends(range(step, step + 1))[0]) for name, step in steps.items()}
    clock_change = WITHIN_DAY if windows.whole_days else job.format.clock_change or "raise"
    edges = QueryEdges(
        moments={name: ends[name] for name in named},
        column=definition.columns.time,
        timezone=windows.timezone,
        clock_change=clock_change,
        time_format=job.format.time_format,
        holds_all_rows=not job.rows.append,
    )
    return now, edges


def open_source(
    job: Job, before: Definition | None = None, edges: QueryEdges | None = None
) -> Source:
    """Open the source of a job's rows, with the ``edges`` of its query; None: it has all rows.

    A list of groups that is read from the events themselves is refused.
    """
    if is_database(job.events):
        from counton.rows.databases import open_query

        source = open_query(job.events, job.rows.query, edges)
    else:
        for events in job.events if isinstance(job.events, list | tuple) else [job.events]:
            if isinstance(events, str):
                refuse_address(events)
        if job.rows.query is not None:
            raise InvalidInput(
                f"{field('query', job.rows.query[:40])} is for a database, and {field('events')} "
                "name no database; give sqlite:///FILE or "
                f"postgresql://USER@HOST/DATABASE, or leave {field('query')} out"
            )
        form = CsvForm.read(job.format.separator, job.format.decimal)
        source = open_rows(job.events, job.format.file_format, form)
    if job.groups.domain is None:
        return source
    # Groups that are read from the events would reveal whose events exist.
    if before is None:
        time, by = job.times.time, job.groups.by
        people, own, once = (job.people.user, job.rows.id), set[str](), statements.is_once(job)
    else:
        columns = before.columns
        time, by, people = columns.time, columns.group, (columns.user, columns.id)
        own, once = {*columns.own.names}, not before.cut.goes_on
    counted = job.option("value"), job.option("counts")
    named = {*split_names(by or ()), *counted, *statements.label_columns(job), *own}
    refuse_events_as_domain(
        job.groups.domain,
        source,
        time or None,
        job.format.time_format,
        named=[name for name in named if name is not None],
        people=[name for name in people if name is not None],
        once=once,
        same=job.groups.domain is job.events,
    )
    return source


def open_job(job: Job) -> OpenedJob:
    """Open a job's state, and complete the job with the options that its stream keeps.

    The stream is not opened for writing.

    Raises:
        StateError: the state cannot be read.
    """
    try:
        store = Store(job.keeping.state)
    except NoState:
        return OpenedJob(job, None, None)
    try:
        if (name := _name_in(store, job)) != job.keeping.name:
            job = job.having(name=name)
        saved = store.find(job.keeping.name, job.keeping.key)
        return OpenedJob(job if saved is None else as_before(job, saved), store, saved)
    except BaseException:
        store.close()
        raise


def _name_in(store: Store, job: Job) -> str:
    """Return the name of a job's stream in an existing state.

    Without a name, and without what a new stream states, it is the only stream of the statistic
    that began without a name.
    """
    what, given = statements.name_of(job.what), job.keeping.name
    stated = any(map(job.option, ("value", "columns", "counts", "start")))
    if stated or given != usual_name(job.what) or given in store.streams:
        return given
    found = [
        name
        for name, details in store.details.items()
        if details.get("what") == what and name == usual_name(what, record_in(details).get)
    ]
    return found[0] if len(found) == 1 else given


def as_before(job: Job, saved: JournalReader) -> Job:
    """Complete a job with the policies and outputs that its stream keeps."""
    kept = record_in(saved.details)
    known = statements.options_of_job(job)
    own = any(job.option(each.name) != each.default for each in statements.kept_as("output", known))
    told = {
        name: value
        for name, value in kept.items()
        if name in known
        and known[name].kept in (*REMEMBERED, "reading")
        and job.option(name) == known[name].default
        and not (own and known[name].kept == "output")
    }
    if "file_format" in told and names_tell_format(job.events):
        del told["file_format"]  # files whose names do not tell it
    return job.having(**told) if told else job


def with_kept(job: Job, kept: Definition) -> Job:
    """Complete a later run's job with the options of its stream."""
    keeps = {**kept.record, "strategy": None, "delay": kept.record["delay"] or None}
    if not isinstance(job.what, str):
        keeps |= {"value": None, "columns": list(kept.columns.own.names) or None}
    own = statements.own_options(job.what)
    names = {*DEFINING, *(option.name for option in own)} - {"domain"}
    for option in own:
        if job.states(option.name):
            names -= {*option.instead}
        elif any(map(job.states, option.instead)):
            names -= {option.name}
    filled = {name: keeps.get(name) for name in names if not job.states(name)}
    reads_domain = "domain" in statements.kind_of(job.what).reads
    if reads_domain and isinstance(job.what, str) and job.groups.domain is None:
        filled["domain"] = kept.statistic.domain if kept.domain is None else kept.domain
    return job.having(**{name: one for name, one in filled.items() if one is not None})


def refuse_other(job: Job, kept: Definition) -> None:
    """Refuse a later run that differs from what its stream keeps.

    Raises:
        RequestMismatch: the job states another value than the stream was created with.
        InvalidInput: the job states an option that no stream takes.
    """
    what, name = statements.name_of(job.what), job.keeping.name
    check_words(job)
    steps = "revised" if kept.cut.lags else "windows"
    steps = "expiring" if kept.expires or job.promise.expire else steps
    steps = "once" if not kept.cut.goes_on and what == kept.what else steps
    loss = "stated" if job.promise.within is None else "wanted"
    groups = {} if kept.cells.named_beforehand else {"groups": "found"}
    rows = "new" if kept.new_rows else "whole"
    refuse_other_kinds(job, {"steps": steps, "loss": loss, **groups, "input": rows})
    if what != kept.what:
        raise RequestMismatch(
            f"stream {name!r} is a {kept.what!r} and cannot be continued as a "
            f"{what!r}; give {field('what', kept.what)}, or another {field('name')}"
        )
    if job.promise.within is not None:
        from counton.run.planned_errors import reached_halfwidths

        if (found := reached_halfwidths(kept, job)).factor > 1:
            raise RequestMismatch(
                f"{field('within', job.promise.within)} asks for another error than stream "
                f"{name!r} has, whose privacy loss is {kept.guarantee}: {found}; leave "
                f"it out to continue the stream, or give another {field('name')} for another stream"
            )
    if kept.cut.goes_on and (job.rows.append or kept.ids) != kept.new_rows:
        one = f"all rows of windows (without {field('append', True)})"
        other = f"new rows ({field('append', True)})"
        this, was = (one, other) if kept.new_rows else (other, one)
        raise RequestMismatch(
            f"this input is said to hold {this}, but the inputs of stream {name!r} hold {was}, and "
            f"rows would count twice, or not at all: give such an input, or another "
            f"{field('name')} for another stream"
        )
    reading = {option.name: option for option in statements.kept_as("reading", options_of(Job))}
    for option, (value, before) in _beside(job, kept).items():
        if value is None or value is False or value == before:
            continue
        if option in reading and _reads_alike(reading[option], value, before):
            continue
        created = "without it" if before is None else f"with {_in_words(before)}"
        if option in reading:
            raise RequestMismatch(
                f"{field(option)} is {_in_words(value)}, but stream {name!r} was created "
                f"{created}. The same row would be read differently, and could count twice. Write "
                f"the rows as before and leave {field(option)} out, or start another stream with "
                f"another {field('name')}"
            )
        raise RequestMismatch(
            f"{_TOGETHER.get(option) or f'{field(option)} is'} {_in_words(value)}, but stream "
            f"{name!r} was created {created}. To continue the stream, leave it out; to "
            f"start another one, give another {field('name')}: the privacy losses of both add up. "
            f"{field('end_stream(state, name)')} ends this one"
        )


def _reads_alike(option: Option, value: object, before: object) -> bool:
    """Return whether rows that counted before are read alike with another value of an option.

    Args:
        option: an option that decides how cells are read.
        value: the value that a later run states.
        before: the value that the stream keeps, or None.
    """
    if before not in (None, option.usual):
        return False
    return option.later or value == option.usual


#: Names of several options that are stated together.
_TOGETHER = {
    "statistic": "the statistic is",
    "columns": "the columns are",
    "guarantee": "the guarantee is",
}


def _beside(job: Job, kept: Definition) -> dict[str, tuple[Any, Any]]:
    """Return pairs (stated, kept) of the options that define a stream, by name."""
    unknown, policy = job.groups.unknown, kept.cells.policy
    discovers = unknown == "discover" or (unknown is not None and policy is not None)
    if unknown == "discover":
        check_discovery(job, job.groups.by or kept.columns.group)
    guarantee = stated_guarantee(job, expires=kept.expires)
    if isinstance(guarantee, ExpiringDP | ExpiringZCDP) and isinstance(kept.strategy, Expiring):
        guarantee = guarantee.bound_to(kept.strategy)
    stated = {name: job.option(name) for name in DEFINING if name != "domain"}
    if job.times.start is not None:
        start = parse_time(job.times.start, job.times.timezone or kept.cut.timezone)
        stated["start"] = kept.cut.local(start).isoformat()
    if job.promise.unit is not None:
        unit = unit_without_period(job.promise.unit, kept.counting.per)
        stated["unit"] = known_unit(unit, [kept.record["unit"]])
    if kept.expires and job.promise.growth is not None:
        stated["growth"] = growth_of(job)
    if (own := own_strategy(job.noise.strategy)) is not None:
        stated["strategy"] = OWN if own == kept.strategy else repr(own)
    statistic, columns = _other_statistic(job, kept)
    return {
        "unknown": (unknown if discovers else None, policy),
        "statistic": (statistic, kept.inner),
        "columns": (columns, ", ".join(kept.columns.own.names) or None),
        **{name: (value, kept.record.get(name)) for name, value in stated.items()},
        "domain": (_other_groups(job, kept), kept.declared_groups),
        "guarantee": (guarantee, kept.guarantee),
    }


def _other_statistic(job: Job, kept: Definition) -> tuple[Statistic | str | None, str | None]:
    """Return a later run's statistic and columns if they differ, else two Nones."""
    # A count or a ranking of groups that are found has no parameters.
    silent = kept.cells.policy is not None and kept.statistic.additive
    if isinstance(job.what, str):
        statements.check_own_options(job)
        counted = statements.kind_of(job.what)
        of_domain = job.groups.domain is not None and "domain" in counted.reads
        silent |= not (of_domain or statements.stated_options(job))
    if silent:
        return None, None
    given, parts = statements.settle_statistic(with_kept(job, kept))
    columns = ", ".join(parts.names) or None
    if kept.cells.policy is not None:
        from counton.statistics.average import undeclared_variant

        given = undeclared_variant(given)
    elif kept.inner.declares is not None:
        # As groups, which are compared separately.
        given = given.by_groups(kept.inner.declares) or given
    if given.allows(kept.inner):
        return None, columns
    alike = repr(given) == repr(kept.inner)
    return f"{given!r} of other names, or in another order" if alike else given, columns


def _other_groups(job: Job, kept: Definition) -> GroupNames | None:
    """Return a later run's groups if they differ, else None; ranking ignores order."""
    if job.groups.domain is None or statements.declares_nodes(job):
        return None
    groups = read_domain(job.groups.domain, job.groups.by or kept.by or "")
    declared, ranks = kept.declared_groups, kept.statistic.declares is not None
    if groups in (kept.groups, declared):
        return None
    return None if ranks and set(groups) == set(declared) else groups


def _in_words(value: object) -> str:
    if isinstance(value, GroupNames):
        return f"{len(value):,} groups ({', '.join(value[:4])}{', ...' if len(value) > 4 else ''})"
    return str(value)


def _check_outputs(job: Job, noise_id: str | None) -> None:
    """Refuse files of a job that cannot be written, or that would replace another file of the run,
    or another stream's table: no run may read what another writes or sets aside.
    """
    from counton.run.written_files import PICTURES, check_output, refuse_another_streams

    read = [*event_paths(job.events, job.format.file_format), job.groups.domain]
    named = [os.fspath(name) for name in read if isinstance(name, str | os.PathLike)]
    kept = [Path(name) for name in named if is_file(name)]
    kept += state_files(job.keeping.state, job.keeping.key)
    aside = job.format.policies().quarantine
    if isinstance(job.events, Source) and job.events.accepted:
        aside = None
    for name, given, formats in (
        ("bad_rows", aside, (".csv",)),
        ("out", job.output.out, None),
        ("plot", job.output.plot, PICTURES),
    ):
        if given is not None:
            check_text(name, str(given))
            check_output(Path(given), formats, inputs=kept)
            kept.append(Path(given))
            refuse_among_events(job.events, Path(given))
    if job.output.out is not None:
        refuse_another_streams(Path(job.output.out), noise_id)

"""What is settled before a row is read: what a job asks, and what its stream remembers.

Everything that can be refused without rows is refused here. The state is open, but nobody writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from counton.base.errors import InvalidInput, field
from counton.base.exact import quote
from counton.base.options import ROWS, OwnColumns, split_names
from counton.base.private import Private
from counton.privacy import Spend
from counton.privacy.contribution import checked_unit
from counton.rows.files import EventFile
from counton.rows.paths import event_paths, is_database, refuse_among_events
from counton.rows.policies import Policies
from counton.rows.sources import Source, join_columns
from counton.rows.window_marks import collect
from counton.run.clock import length_of
from counton.run.definition import Definition
from counton.run.journal_values import fit_of, refuse_other_fit
from counton.run.later_runs import amend, check, refuse_ended
from counton.run.memory import as_before, look, remembered_of, with_totals
from counton.run.new_stream import define
from counton.run.progress import Progress, silent
from counton.run.request import RequestValues, ask
from counton.spec.job import Events, Job
from counton.spec.stated_options import (
    is_numbered,
    is_once,
    kept_as,
    label_columns,
    name_of,
    options_of_job,
    statistic_class,
)
from counton.state import Store
from counton.state.database import Closing
from counton.state.keyfile import state_files
from counton.state.shared import SharedBook, known_units, ledger_of
from counton.state.store import StoredStream
from counton.state.units import SpentUnit, unit_word

if TYPE_CHECKING:
    from counton.state.seen import Secret


@dataclass(frozen=True)
class SettledJob(Closing):
    """A job together with what its stream remembers. Close it: it holds the state open.

    Attributes:
        job: what is asked, with what is remembered where it says nothing else.
        definition: of the stream, with what is to be remembered of this job.
        source: of rows; None where the events are the letters of a text.
        store: the state; None where there is none yet.
        saved: what it says of the stream; None of a new one.
        outputs: the job that says what is written and shown: with what is remembered, and with its
            rows as they were named.
        dropped: how many rows wait in the stream that this one continues.
    """

    job: Job
    definition: Definition
    source: Private[Source] | None
    store: Store | None
    saved: StoredStream | None
    outputs: Job
    dropped: int = 0

    @property
    def steps_released(self) -> int | None:
        """Steps that are released; None of a new stream."""
        return None if self.saved is None else self.saved.step

    @property
    def store_entry(self) -> tuple[Store, StoredStream] | None:
        """The state and what it says of the stream; None of a new stream."""
        return None if self.store is None or self.saved is None else (self.store, self.saved)

    def secret(self) -> Secret | None:
        """The secret of the stream's digests; None where it has none yet."""
        if self.store_entry is None:
            return None
        return self.store_entry[0].secret(self.job.name, self.job.key)

    def close(self) -> None:
        """Close the state."""
        if self.store is not None:
            self.store.close()


def resolve(
    job: Job, units: Sequence[SpentUnit] = (), *, progress: Progress = silent
) -> SettledJob:
    """What is asked and what is remembered, as one: a run up to its first row. Close the result.

    Nothing is written; a plan does no more.

    Args:
        job: what is asked.
        units: what the state will have spent for, besides those that it knows.
        progress: is told where the run is.

    Raises:
        InvalidInput: the job is outside what is allowed.
        StateError: the state does not fit what is asked.
        BudgetExceeded: the limit of the state, or of a ledger that it shares, does not allow it.

    >>> job = Job("count", "visits.csv", "a-state-that-is-new.db", steps=9)
    >>> resolve(job)
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: a new stream needs time, every, start and epsilon or rho; ...
    """
    given: object = job
    if not isinstance(given, Job):
        raise InvalidInput(f"the request is {quote(given)}; give a Job(what, events, state)")
    progress("choosing a strategy", 0.05)
    job = with_totals(job)
    store, saved = look(job)
    try:
        if store is None or saved is None:
            settled = _of_new_stream(job, store, units)
        else:
            settled = _of_known_stream(as_before(job, saved), store, saved)
        if settled.job.watermark is not None:
            length_of(settled.job.watermark)
        if settled.job.retain is not None:
            from counton.run.erasure import check_retain

            check_retain(settled.job.retain, settled.definition)
        if settled.saved is None:
            _refuse_beyond(settled)
        return settled
    except BaseException:
        if store is not None:
            store.close()
        raise


def _refuse_beyond(settled: SettledJob) -> None:
    """Refuse a new stream that goes beyond the limit of its state, or of one that it shares.

    Raises:
        BudgetExceeded: naming the stream, what it asks, what is left and what would fit.
    """
    spend = spend_of(settled)
    if settled.definition.ordered:
        return  # whose unit is called as the state says when the stream is entered
    if settled.store is not None:
        contribution = settled.definition.contribution
        settled.store.refuse_beyond(spend.name, spend.guarantee, contribution, spend.follows)
    if (found := shared_book(settled)) is not None:
        found.spend(spend)


def predecessor(definition: Definition) -> str | None:
    """The stream of which no unit counts in this one, if it goes on from such a one."""
    before = definition.continues
    return before.name if before is not None and before.apart else None


def spend_of(settled: SettledJob) -> Spend:
    """The entry of a job's stream in a ledger."""
    definition = settled.definition
    return Spend(
        settled.job.name,
        definition.guarantee,
        definition.unit,
        definition.contribution.relation,
        predecessor(definition),
    )


def shared_book(settled: SettledJob) -> SharedBook | None:
    """The entries of the ledger that a job's state shares; None where it counts by itself.

    Raises:
        InvalidInput: it has no limit.
        StateError: it cannot be used.
    """
    database = None if settled.store is None else settled.store.database
    shared = ledger_of(database, settled.job.ledger)
    if shared is None:
        return None
    with shared:
        return shared.book(database, settled.job.name)


def _of_new_stream(job: Job, store: Store | None, units: Sequence[SpentUnit]) -> SettledJob:
    """A job whose stream is not there yet: what it states defines it."""
    outputs, in_ledger = job, known_units(None if store is None else store.database, job.ledger)
    continues, predecessor, step, dropped = job.continues, None, 0, 0
    if continues is not None:
        from counton.run.continuation import succeed

        job, predecessor, (step, dropped) = succeed(job, store)
    job = _with_numbered_rows(job, None)
    _check_policies(job)
    source, asked = _source_and_values(job, None)
    in_any_order = asked.statistic is not None and asked.statistic.tallied
    if in_any_order and (job.time is not None or asked.once):
        known = [*(() if store is None else store.units), *units, *in_ledger]
        asked = asked._replace(request=with_unit(asked.request, known))
    definition = define(asked)
    if predecessor is not None and continues is not None:
        from counton.run.continuation import as_continuation

        definition = as_continuation(definition, continues, predecessor, step)
    rows = _join_columns_of(source, definition)
    if source is not None and isinstance(source.parts[0], EventFile):  # its header alone is read
        join_columns(source, definition.columns.group).parts[0].scan(definition.columns.names)
    _check_fit(job, definition)
    definition = replace(definition, remembered=_kept_of(job, definition))
    if predecessor is not None and store is not None:
        alone = job.ledger is None and store.shared_ledger is None
        if alone:  # a ledger of several states adds all of their streams up
            from counton.run.continuation import counted_once

            definition = counted_once(definition, predecessor, job.name, store)
    return SettledJob(job, definition, rows, store, None, outputs, dropped)


def _of_known_stream(job: Job, store: Store, saved: StoredStream) -> SettledJob:
    """A job whose stream is there: it may leave out what that keeps, and not contradict it."""
    known_units(store.database, job.ledger)  # a ledger that cannot be read is refused first
    definition, outputs = _as_kept(job, saved), job
    job = _with_numbered_rows(job, definition)
    _check_policies(job)
    source, asked = _source_and_values(job, definition)
    check(definition, asked)
    rows = _join_columns_of(None if source is None else source.for_known_stream(), definition)
    _check_fit(job, definition)
    definition = replace(definition, remembered=_kept_of(job, definition))
    from counton.run.continuation import as_read

    definition = as_read(definition, Definition.reopen(saved.design, saved.details))
    return SettledJob(job, definition, rows, store, saved, outputs)


def _check_policies(job: Job) -> None:
    """Refuse to set rows aside where they would be read or kept."""
    policies = job.policies()
    if not (isinstance(job.events, Source) and job.events.checked):
        kept = state_files(job.state, job.key)
        check_quarantine(policies, job.events, job.file_format, kept)


def _source_and_values(job: Job, before: Definition | None) -> tuple[Source | None, RequestValues]:
    """The rows, and what is asked of them; no rows where the events are the letters of a text."""
    source = _open_source(job, before) if _reads_domain(job) else None
    asked = ask(job, before)
    if source is None and not _is_text(asked, before):
        source = _open_source(job, before)
    return source, asked


def _join_columns_of(source: Source | None, definition: Definition) -> Private[Source] | None:
    """The rows with the columns that a stream reads, its groups' as one."""
    if source is None:
        return None
    _refuse_no_order(definition, source)
    return Private(join_columns(source, definition.columns.group))


def _kept_of(job: Job, definition: Definition) -> dict[str, Any]:
    """What is to be remembered of a job."""
    kept = remembered_of(job, definition.remembered)
    if definition.statistic.on_demand:  # what is asked of it is asked anew
        policies = {option.name for option in kept_as("policy", options_of_job(job))}
        return {name: value for name, value in kept.items() if name in policies}
    return kept


def _as_kept(job: Job, saved: StoredStream) -> Definition:
    """The definition of a stream that there is, changed as the job asks."""
    definition = amend(Definition.reopen(saved.design, saved.details), job, saved.step)
    refuse_ended(definition, job.name)
    if definition.once:
        refuse_other_fit(job.name, fit_of(definition.remembered), fit_of(vars(job)))
    return definition


def _with_numbered_rows(job: Job, before: Definition | None) -> Job:
    """A job whose rows are the cells of a line, with their numbers; any other as it is."""
    named_so = before is not None and name_of(job.what) == before.what
    its_rows = before is not None and named_so and before.stated.get("label") == ROWS
    if not (its_rows or (before is None and is_numbered(job))):
        return job
    value = None if before is None else before.stated.get("value")
    return number_rows(job.having(value=job.option("value") or value))


def number_rows(job: Job) -> Job:
    """A line of rows without names, each of them a cell: with a column of their numbers.

    How many rows there are is published.

    Raises:
        InvalidInput: several files, names of cells that no column has, no column of counts, no
            rows, rows without an order, or one that cannot be read: the others are not its cells.
    """
    if job.domain is not None:
        raise InvalidInput(
            f"{field('domain', job.domain if isinstance(job.domain, str) else None)} names cells, "
            f"but there is no {field('label')}, the column with their names; give it"
        )
    value = job.option("value")
    if value is None:
        raise InvalidInput(f"a line of rows without names needs {field('value')}; give it")
    if is_database(job.events):
        raise InvalidInput(
            f"a database answers with rows in no order, and without {field('label')} each row is a "
            f"cell of a line; give {field('label')}, the column that names the cells"
        )
    source = job.open_rows(job.events)
    if len(source.parts) != 1:
        raise InvalidInput(
            f"{field('events')} are {len(source.parts)} files, and the rows of a line without "
            f"{field('label')} have an order; give one file, or names of the cells"
        )
    part = source.parts[0]
    if not part.numbered:
        raise InvalidInput(
            f"{part.name} has rows in no order, and without {field('label')} each row is a cell of "
            f"a line; give {field('label')}, the column that names the cells"
        )
    rows = part.scan((value,)).select(part.number(pl.col(value))).with_row_index(ROWS)
    table = collect(source, rows.with_columns(pl.col(ROWS).cast(pl.String)))
    if not table.height:
        raise InvalidInput(
            f"{part.name} has no rows, and without {field('label')} each row is a cell of a line; "
            f"give one at least"
        )
    return job.having(events=table, label=ROWS, domain=range(table.height), file_format=None)


def _open_source(job: Job, before: Definition | None) -> Source:
    if is_database(job.events):
        from counton.rows.questions import open_question

        source = open_question(job.events, job.query)
    else:
        if job.query is not None:
            raise InvalidInput(
                f"{field('query', job.query[:40])} asks a database, and {field('events')} are "
                f"none; give duckdb:///FILE, sqlite:///FILE or postgresql://USER@HOST/DATABASE, or "
                f"leave it out"
            )
        source = job.open_rows(job.events)
    _refuse_events_as_domain(job, before, source)
    return source


def _refuse_no_order(definition: Definition, source: Source) -> None:
    """Refuse rows that have no order where it says how they count."""
    for part in source.parts:
        if definition.ordered and not part.numbered:
            raise InvalidInput(
                f"{definition.what} takes rows in their order, one after the other, which "
                f"{part.name} does not have; write them into a file, sorted by their time"
            )


def _check_fit(job: Job, definition: Definition) -> None:
    if (fit := fit_of(vars(job))) is None:
        return
    from counton.released.read_options import check_fit

    check_fit(fit, definition.inner)
    if fit.known and not definition.once:
        raise InvalidInput(
            f"{field('known')} is of a table that is released once, and this one grows; leave "
            f"it out, or leave {field('time')} out"
        )


def with_unit(request: Job, known: Sequence[SpentUnit]) -> Job:
    """A new stream's request with the word by which its state counts what it protects.

    Raises:
        InvalidInput: see `units.unit_word`.
    """
    kind = "event" if request.user is None else "user"
    unit = None if request.unit is None else checked_unit(request.unit)
    return replace(request, unit=unit_word(known, kind, unit, kind))


def check_quarantine(
    policies: Policies, events: Events, file_format: str | None, kept: Sequence[Path]
) -> None:
    """Refuse to set rows aside in a file that the run reads or keeps, or would read the next time.

    Args:
        policies: of the run.
        events, file_format: that it reads.
        kept: files of its state.

    Raises:
        InvalidInput: naming it.
    """
    if policies.quarantine is None:
        return
    from counton.run.outputs import check_output

    read = [Path(path) for path in event_paths(events, file_format) if path != "-"]
    check_output(policies.quarantine, (".csv",), inputs=[*kept, *read])
    refuse_among_events(events, policies.quarantine)


def _refuse_events_as_domain(request: Job, definition: Definition | None, source: Source) -> None:
    """Groups read from the events would say whose events are in them."""
    if request.domain is None:
        return
    from counton.run.private_domain import refuse_events_as_domain

    columns: Any = request if definition is None else definition.columns
    by = request.by if definition is None else columns.group
    named = {*split_names(by or ()), request.option("value"), *label_columns(request)}
    if definition is not None:
        named |= {*map(definition.current_name, definition.parts.names)}
    people = [name for name in (columns.user, columns.id) if name is not None]
    refuse_events_as_domain(
        request.domain,
        source,
        columns.time or None,
        request.time_format,
        named=[name for name in named if name is not None],
        people=people,
        once=is_once(request) if definition is None else definition.once,
        same=request.domain is request.events,
    )


def _reads_domain(request: Job) -> bool:
    """Whether the domain is of a statistic's own cells, and not of groups of rows."""
    reads = statistic_class(request.what).reads if isinstance(request.what, str) else ()
    return "domain" in reads and "by" not in reads


def _is_text(asked: RequestValues, definition: Definition | None) -> bool:
    """Whether the events are the letters of a text, which has no columns."""
    statistic = asked.statistic if definition is None else definition.statistic
    parts = asked.parts if definition is None else definition.parts
    return statistic is not None and statistic.of_letters and parts == OwnColumns()

"""What tests ask a result of a run, or the journal of its stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from counton.base.private import reveal
from counton.continual.design import Design
from counton.run import RunResult
from counton.run.counting.operator_counts import ChangedWindow
from counton.state import Store


class Counts(NamedTuple):
    """Exact numbers of the rows of a run.

    Attributes:
        rows: those that were read.
        before, beyond: those before the first window, and after the last one.
        unknown: those of groups that nobody declared; `unlisted` has their names.
        others: those that the group of all other names counts.
        skipped: those without a needed value.
        quarantined: those that cannot be read.
        late: new rows that wait for the next release.
        shut: rows of a snapshot for windows that take none any more.
        closed: new rows that count nowhere, since their window is final.
        outside: rows of a snapshot that it does not cover.
        known: new rows whose ids were counted before.
        gone: counted rows that the input lacks.
        taken_back: counted rows that are taken back.
        beyond_most: rows of users beyond their bound.
        late_by: how late the latest row is, in microseconds.
        empty: released windows after the newest row.
        differing: released windows of which the input says otherwise.
    """

    rows: int
    before: int
    beyond: int
    unknown: int
    others: int
    skipped: int
    quarantined: int
    late: int
    shut: int
    closed: int
    outside: int
    known: int
    gone: int
    taken_back: int
    beyond_most: int
    late_by: int | None
    empty: int
    unlisted: Sequence[tuple[str, int]]
    differing: Sequence[ChangedWindow]


def counts_of(result: RunResult) -> Counts:
    """Return the exact numbers of the rows of a run."""
    counts = result.confidential_counts()
    rows = counts.rows
    of_input = counts.input
    choice = of_input.choice
    append = result.job.append
    return Counts(
        rows=rows.read,
        before=rows.before_start,
        beyond=rows.after_last_window,
        unknown=rows.unlisted,
        others=rows.in_other_group,
        skipped=rows.missing,
        quarantined=rows.quarantined,
        late=of_input.late_uncounted,
        shut=0 if append else of_input.after_final,
        closed=(choice.after_final or of_input.after_final) if append else 0,
        outside=of_input.outside_snapshot,
        known=choice.duplicates if append else 0,
        gone=of_input.missing or choice.missing,
        taken_back=choice.retracted,
        beyond_most=choice.beyond_bound,
        late_by=of_input.late_by,
        empty=counts.empty_windows,
        unlisted=list(rows.unlisted_names),
        differing=of_input.changed,
    )


def releases_of(result: RunResult) -> Any:
    """Return the released numbers of a run's stream, without any form."""
    with _store_of(result) as store:
        return store.reader(result.name, result.job.key).releases().values


def design_of(result: RunResult) -> Design:
    """Return the noise of a run's stream."""
    with _store_of(result) as store:
        return store.reader(result.name, result.job.key).design


def labels_of(result: RunResult) -> Sequence[str]:
    """Return the names of groups that a run's stream has counted. They are secret."""
    with _store_of(result) as store:
        return reveal(store.reader(result.name, result.job.key).labels())


def details_of(result: RunResult) -> dict[str, Any]:
    """Return the facts that a run's stream keeps."""
    with _store_of(result) as store:
        return store.public_facts[result.name]


def _store_of(result: RunResult) -> Store:
    assert result.job.state is not None
    return Store(result.job.state)

"""What tests ask a result of a run, or the journal of its stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from counton.base.private import reveal
from counton.continual.design import Design
from counton.run import RunResult
from counton.run.counting.operator_counts import ChangedWindow
from counton.state import Store


class RunRowCounts(NamedTuple):
    """Exact numbers of the rows of a run.

    Attributes:
        rows: those that were read.
        before, after_last_window: those before the first window, and after the last one.
        unlisted: those of groups that nobody declared; `unlisted_names` has their names.
        others: those that the group of all other names counts.
        skipped: those without a needed value.
        quarantined: those that cannot be read.
        late: new rows that wait for the next release.
        late_ignored: rows of a snapshot for windows that take none any more.
        after_final: new rows that count nowhere, since their window is final.
        outside_snapshot: rows of a snapshot that it does not cover.
        duplicates: new rows whose ids were counted before.
        missing: counted rows that the input lacks.
        retracted: counted rows that are taken back.
        beyond_bound: rows of users beyond their bound.
        late_by: how late the latest row is, in microseconds.
        empty: released windows after the newest row.
        differing: released windows of which the input says otherwise.
    """

    rows: int
    before: int
    after_last_window: int
    unlisted: int
    others: int
    skipped: int
    quarantined: int
    late: int
    late_ignored: int
    after_final: int
    outside_snapshot: int
    duplicates: int
    missing: int
    retracted: int
    beyond_bound: int
    late_by: int | None
    empty: int
    unlisted_names: Sequence[tuple[str, int]]
    differing: Sequence[ChangedWindow]


def counts_of(result: RunResult) -> RunRowCounts:
    """Return the exact numbers of the rows of a run."""
    counts = result.confidential_counts()
    rows = counts.rows
    of_input = counts.input
    choice = of_input.choice
    append = result.job.append
    return RunRowCounts(
        rows=rows.read,
        before=rows.before_start,
        after_last_window=rows.after_last_window,
        unlisted=rows.unlisted,
        others=rows.in_other_group,
        skipped=rows.missing,
        quarantined=rows.quarantined,
        late=of_input.late_uncounted,
        late_ignored=0 if append else of_input.after_final,
        after_final=(choice.after_final or of_input.after_final) if append else 0,
        outside_snapshot=of_input.outside_snapshot,
        duplicates=choice.duplicates if append else 0,
        missing=of_input.missing or choice.missing,
        retracted=choice.retracted,
        beyond_bound=choice.beyond_bound,
        late_by=of_input.late_by,
        empty=counts.empty_windows,
        unlisted_names=list(rows.unlisted_names),
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

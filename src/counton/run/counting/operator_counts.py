"""Exact numbers that the rows of a run tell its operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from counton.run.counting.contribution_choice import ChoiceCounts


class ChangedWindow(NamedTuple):
    """A released window of which a snapshot says something else than an earlier one. Exact.

    Attributes:
        number: number of the window.
        before, now: numbers of rows in the earlier snapshot and in this one.
        added, missing: numbers of rows that one of them has and the other lacks.
        is_open: whether the snapshot counts.
    """

    number: int
    before: int
    now: int
    added: int
    missing: int
    is_open: bool


class TimelinessCounts(NamedTuple):
    """Numbers of the rows of a run, and of those that came before their windows' release. Exact.

    Attributes:
        counted: number of all rows that count, in time or late.
        in_time: number of those that were in time.
        in_time_after_wait: number of those that a longer wait would have found in time.
    """

    counted: int = 0
    in_time: int = 0
    in_time_after_wait: int = 0


@dataclass(frozen=True, repr=False)
class OperatorCounts:
    """Exact numbers that the rows of a run tell its operator.

    Two of them decide something, too: `refuse_shrunk_windows` ends a run by `changed`, and the
    state adds up `late`. No released number depends on any of them.

    Attributes:
        late: new rows of windows released before, unless these windows are final.
        late_by: a wait in windows that would have been enough for most late rows, and for nearly
            all rows of the run; 0 without late rows.
        timeliness: numbers of rows of the run that count, and of those that were in time, and would
            have been in time with this wait.
        late_uncounted: rows of released windows that have not been counted yet.
        after_final: new rows of windows that were final, counted nowhere.
        outside_snapshot: rows of windows that a snapshot does not cover, counted nowhere.
        missing: counted rows of final windows that a snapshot lacks.
        changed: released windows of which a snapshot says something else than before.
        choice: which rows of users, or with ids, do not count.
    """

    late: int = 0
    late_by: int = 0
    timeliness: TimelinessCounts = field(default_factory=TimelinessCounts)
    late_uncounted: int = 0
    after_final: int = 0
    outside_snapshot: int = 0
    missing: int = 0
    changed: tuple[ChangedWindow, ...] = ()
    choice: ChoiceCounts = field(default_factory=ChoiceCounts)

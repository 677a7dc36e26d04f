"""Slots of people in inputs of whole windows, over every history of one person's rows.

Each history is a person of its own, with groups of its own, so that one choice by the real rule
shows what each history changes. A person has three rows, of which each night's input holds any. No
history moves more than ``most * (1 + 2 * recounts)``, and some move as much.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from some_cases import long

from counton.base.private import Private, reveal
from counton.run import Job, StreamSpec
from counton.run.counting import chosen_rows
from counton.run.counting.chosen_rows import RowChoice
from counton.run.counting.contribution_slots import ContributionSlots, compare_slots
from counton.run.counting.remembered_rows import RememberedRows, change_of_memory
from counton.run.rows.row_buffer import Portion
from counton.run.spec.parsing import parse_run
from counton.run.spec.plan_spec import plan_spec
from counton.run.windows.covered_windows import covered_windows
from counton.run.windows.due_windows import EndedWindows
from counton.state.dedup import DigestChange, DigestSet, Secret

#: A person's rows: the window and the group (0 or 1) of each.
ROWS = [
    [(1, 0), (2, 0), (3, 0)],
    [(1, 0), (1, 1), (2, 0)],
    [(1, 0), (1, 0), (2, 1)],
]
#: How many windows have ended at each night; a night may release nothing, or several.
ENDED = [(1, 2, 3, 4), (1, 1, 2, 3), (2, 3, 3, 4), (1, 3, 5, 5)]
NIGHTS = 4
#: Which of the three rows each night's input of each history holds: shape (histories, nights, 3).
HELD = np.array([*itertools.product(range(8), repeat=NIGHTS)])[:, :, None] >> np.arange(3) & 1


class Case(NamedTuple):
    """Rows, nights, whether each night covers no more than it must, and the bounds."""

    rows: Sequence[tuple[int, int]]
    ended: tuple[int, ...]
    short: tuple[bool, ...]
    lags: int
    most: int
    recounts: int

    @property
    def bound(self) -> int:
        return self.most * (1 + 2 * self.recounts)


class Memory:
    """What the state keeps of people between nights."""

    def __init__(self) -> None:
        self.sets: list[DigestSet] = []

    def digest_sets(self, kind: str) -> Private[list[DigestSet]]:
        return Private([one for one in self.sets if one.kind == kind])

    def write(self, private: Private[DigestChange]) -> None:
        change = reveal(private)
        gone = set(change.replaced)
        kept = dict(change.forgotten)
        stay = [one for one in self.sets if (one.kind, one.period) not in gone]
        stay = [one for one in stay if one.period >= kept.get(one.kind, one.period)]
        self.sets = [*stay, *change.added]


class Buffer:
    """The rows of one input, as they are held before rows are chosen."""

    def __init__(self, rows: list[pl.DataFrame], groups: Sequence[str]) -> None:
        self.secret = Secret.fresh()
        self.groups = groups
        self._rows = pl.concat(rows)

    def portions(self) -> Iterator[tuple[Portion, pl.DataFrame]]:
        yield Portion(range(64)), self._rows


@cache
def planned(lags: int, most: int, recounts: int, people: int) -> StreamSpec:
    job = Job(
        "count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
        group_by="group",
        groups=[f"{one:06}" for one in range(2 * people)], user="user", max_contributions=most,
        epsilon=1,
        allowed_lateness=f"{lags}d", max_corrections=recounts or None,
    )  # fmt: skip
    return plan_spec(job, ())


def nights(case: Case) -> Iterator[tuple[bool, int, range]]:
    """Of each night: whether a window is new, the last before, and the windows it may change."""
    spec = planned(*case[3:], len(HELD))
    released = 0
    windows = spec.terms.windowing.windows
    for ended, short in zip(case.ended, case.short, strict=True):
        covers = f"{max(ended - released, 1) if short else 9}d"
        asked = parse_run(spec.job.with_options(lookback=covers), spec.terms)
        until = int(windows.ends(range(ended, ended + 1))[0])
        covered = covered_windows(windows, asked, released, EndedWindows(ended, until))
        last = released if ended > released else released - 1
        yield ended > released, last, range(max(covered.start, last + 1 - case.lags), covered.stop)
        released = max(ended, released)


def moved(case: Case, held: Any = HELD, *, keeps_always: bool = False) -> Any:
    """What each night changes: the sum of absolute changes by history and night.

    ``keeps_always``: a mistake: nights without a new window write slots, too.
    """
    people = len(held)
    terms = planned(case.lags, case.most, case.recounts, people).terms
    names = list(terms.groups.names or ())
    keys = np.arange(1, people + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    memory: Any = Memory()
    found = np.zeros((people, NIGHTS), np.int64)
    for night, (new, last, inside) in enumerate(nights(case)):
        if not (new or keeps_always):
            continue
        rows = []
        for place, (step, group) in enumerate(case.rows):
            who = np.flatnonzero(held[:, night, place])
            frame = {
                "us": np.full(len(who), step * 86_400_000_000 + 1_709_251_200_000_000 - 1),
                "window": np.full(len(who), step),
                "group": 2 * who + group,
                "total": np.ones(len(who), np.int64),
                "user": keys[who],
            }
            rows.append(pl.DataFrame(frame))
        remembered = RememberedRows.read(memory, terms, last)
        target = max(case.ended[: night + 1])
        choice = RowChoice(terms, names, last, inside, target)
        buffer: Any = Buffer(rows, names)
        chosen = choice.choose(buffer, remembered)
        if new:
            cell, number = chosen.sums(len(names), None).select("cell", "rows").to_numpy().T
            found[:, night] = np.bincount(cell // 2, np.abs(number), people)
        change = change_of_memory(
            remembered,
            chosen.users_to_keep(terms.max_corrections),
            chosen.rows,
            secret=buffer.secret,
            terms=terms,
            target=target,
        )
        memory.write(Private(change))
    return found


def cases(rows: Any, ended: tuple[int, ...]) -> list[Case]:
    """All cases that differ in a window that a night covers or may change."""
    short = itertools.product([False, True], repeat=NIGHTS)
    every = itertools.product([rows], [ended], short, (1, 2), (1, 2), (0, 1, 2))
    found = {
        str(([one for one in nights(case) if one[0]], case[3:])): case
        for case in itertools.starmap(Case, every)
    }
    return [*found.values()]


def check(case: Case) -> bool:
    """Check one case in every history; return whether one moves as much as may be."""
    found = moved(case)
    far = found.sum(axis=1)
    assert far.max() <= case.bound
    # What is held by nights that release nothing changes nothing.
    newest = np.maximum.accumulate([0, *case.ended])
    counts = np.diff(newest) > 0
    told = (HELD * (1 << np.arange(3))).sum(axis=2)[:, counts] @ 8 ** np.arange(counts.sum())
    order = np.argsort(told, kind="stable")
    same = told[order][1:] == told[order][:-1]
    assert (found[order][1:] == found[order][:-1])[same].all()
    return bool(far.max() == case.bound)


@pytest.mark.parametrize(
    ("rows", "ended", "lags", "recounts"),
    [
        (ROWS[1], ENDED[1], 2, 1),
        *(long(*both, 1, 2) for both in itertools.product(ROWS, ENDED)),
    ],
)
def test_no_history_moves_more_than_its_slots(
    rows: Any, ended: tuple[int, ...], lags: int, recounts: int
) -> None:
    """With at least so many lags and at most so many recounts; all slots are attained where rows
    may be replaced and nights are enough.
    """
    some = [one for one in cases(rows, ended) if one.lags >= lags and one.recounts <= recounts]
    attained = {case[3:] for case in some if check(case)}
    assert attained >= {(2, 1, 0), (2, 1, 1), (2, 2, 0)}
    assert (2, 2, 1) in attained or ended != ENDED[0]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("recounts", [0, 1, 2])
def test_slots_attain_their_bound(most: int, recounts: int) -> None:
    """All rows of a person go to another group each night."""
    rows = [(1, group) for group in (0, 1) for _ in range(most)]
    case = Case(rows, (1, 2, 3, 4), (False,) * NIGHTS, 3, most, recounts)
    held = np.array([[[night % 2 == group for _, group in rows] for night in range(NIGHTS)]])
    assert moved(case, held).sum() == case.bound


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_replaced_slot_keeps_its_row_among_equal_slots(order: list[int]) -> None:
    """The other can still be replaced, so the row that the input lacks is taken back."""
    alike = {"user": [7, 7], "period": [0, 0], "window": [1, 1], "group": [0, 0], "total": [0, 0]}
    slots = pl.DataFrame({**alike, "step_of_bound": [0, 0], "replaced": order})
    found = compare_slots(slots, slots[:1], range(1, 2), 1)
    assert (found.kept["replaced"].to_list(), found.free["replaced"].to_list()) == ([1], [1])
    assert (found.retracted.height, found.missing) == (1, 0)


def chooses_anew(
    slots: pl.DataFrame, snapshot: pl.DataFrame, covered: range, max_corrections: int
) -> ContributionSlots:
    """A mistake: rows of open windows are chosen anew each night."""
    found = compare_slots(slots, snapshot.clear(), covered, 99)
    return found._replace(free=compare_slots(slots, snapshot, range(0), max_corrections).free)


def frees_closed_slots(
    slots: pl.DataFrame, snapshot: pl.DataFrame, covered: range, max_corrections: int
) -> ContributionSlots:
    """A mistake: a slot is free again once its window is closed."""
    found = compare_slots(slots, snapshot, covered, max_corrections)
    return found._replace(kept=found.kept.filter(pl.col("window") >= covered.start))


@pytest.mark.parametrize("wrong", [chooses_anew, frees_closed_slots])
def test_slots_with_wrong_rule_exceed_their_bound(
    wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(ROWS[0], (1, 2, 3, 4), (False,) * NIGHTS, 1, 1, 1)
    assert moved(case).sum(axis=1).max() <= case.bound
    monkeypatch.setattr(chosen_rows, "compare_slots", wrong)
    assert moved(case).sum(axis=1).max() > case.bound


def test_slots_kept_without_a_release_show_its_input() -> None:
    case = Case(ROWS[1], (1, 1, 2, 3), (False,) * NIGHTS, 2, 1, 1)
    same = np.flatnonzero((HELD[:, [0, 2, 3]] == [[1, 0, 0]] * 3).all(axis=(1, 2)))
    right, wrong = (moved(case, keeps_always=one)[same] for one in (False, True))
    assert (right == right[0]).all()
    assert not (wrong == wrong[0]).all()

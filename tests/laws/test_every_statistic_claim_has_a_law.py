"""Every claim of a statistic is in a law's list, and a wrong one breaks that law.

As `test_every_claim_has_a_law` does for strategies: a name of `Statistic` or `Tallied` stands
beside wrong statistics that the laws refuse, or among those whose wrong value hurts nobody. A new
name that stands nowhere fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counton import Contribution
from counton.laws import Bounded, Shift
from counton.mechanisms import Release
from counton.statistics import Count, Distinct, Substrings, Tallied
from counton.statistics.base import Statistic
from counton.statistics.readings import CellsReading
from counton.statistics.tallied import Part, Sums
from counton.testing import LawBroken, check_statistic

STREAM = [[10, 70, 90], [], [60], [20, 61]]


class Above(Tallied):
    """How many values lie below a threshold, and how many above."""

    parts = (Part("value"),)
    counts_rows = True

    def __init__(self, threshold: int = 60) -> None:
        self.threshold = threshold

    @property
    def cells(self) -> tuple[int, ...]:
        return (2,)

    @property
    def places(self) -> int:
        return 2

    @property
    def parameters(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def contribution(self, *, batched: bool = False) -> Contribution:
        return Contribution.add_remove(cells=1)

    def said(self, *parts: Any) -> Any:
        return (np.asarray(parts[0]) > self.threshold).astype(np.int64)

    def entries(self, said: Any) -> Any:
        return [(said, 1)]

    def read(self, release: Any) -> CellsReading:
        return CellsReading(self, release)

    def cell(self, name: Any) -> int:
        return {"below": 0, "above": 1}[name]

    def name_of(self, cell: int) -> str:
        return ("below", "above")[cell]


class Half(Above):
    """What it measures is less than what one unit changes there."""

    def entries(self, said: Any) -> Any:
        return [(said, 3)]

    def row_bounds(self) -> tuple[int, int]:
        return 3, 3

    counts_rows = False

    def contribution(self, *, batched: bool = False) -> Contribution:
        return Contribution.add_remove(cells=1, per_cell=3 if batched else 1)


class InOneStep(Distinct):
    """Says that all a user changes stands in one step; who comes and goes changes two."""

    def __init__(self) -> None:
        super().__init__(changes=2)

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    def contribution(self, *, batched: bool = False) -> Contribution:
        pattern = Bounded(2, 4, once=True)
        return Contribution.patterned(pattern, "which changes as much as two", unit="user")


class RemembersSums(Sums):
    def take(self, events: Any, stops: Any) -> Any:
        found = super().take(events, stops)
        statistic: Any = self._statistic
        statistic.seen = found
        return found


class ShowsWhatItCounted(Above):
    """Reads exact sums where there are some."""

    seen: Any = None

    def begin(self) -> Sums:
        return RemembersSums(self)

    def read(self, release: Any) -> CellsReading:
        return CellsReading(self, replace(release, value=self._exact(release)))

    def _exact(self, release: Release) -> Any:
        return release.value if self.seen is None else self.seen.sum(axis=0)


class ShowsOnlyWhatItCounted(ShowsWhatItCounted):
    def _exact(self, release: Release) -> Any:
        return self.seen.sum(axis=0)


class SaysWhatItCounted(ShowsWhatItCounted):
    """Shows what was released, and what was counted in words."""

    def read(self, release: Any) -> CellsReading:
        class Words(CellsReading):
            def describe(self) -> str:
                statistic: Any = self.statistic
                return f"{statistic.seen}"

        return Words(self, release)


class Forgetful(Sums):
    """Counts nothing once it was restored."""

    def __init__(self, statistic: Any, restored: bool = False) -> None:
        super().__init__(statistic)
        self._restored = restored

    def take(self, events: Any, stops: Any) -> Any:
        return super().take(events, stops) * (not self._restored)


class Growing(Sums):
    """Saves how much it took, and does not say so in its news."""

    def __init__(self, statistic: Any, taken: int = 0) -> None:
        super().__init__(statistic)
        self._taken = taken

    def take(self, events: Any, stops: Any) -> Any:
        self._taken += 1
        return super().take(events, stops)

    def undo(self) -> None:
        self._taken -= 1

    def save(self) -> bytes:
        return bytes([self._taken])

    def news(self) -> bytes:
        return b""


class Joins(Above):
    def begin(self) -> Sums:
        return Growing(self)

    def restore(self, saved: bytes) -> Sums:
        return Growing(self, saved[0] if saved else 0)


def claiming(**claims: Any) -> Above:
    cls: Any = type("Wrong", (Above,), claims)
    made: Above = cls()
    return made


def one(self: Any, strategy: Any, *, batched: bool = False) -> Shift:
    return Shift(1, 1)


def within(self: Any, horizon: int | None, *, batched: bool = False) -> Contribution:
    """What nothing that counts is within."""
    return Contribution.add_remove(cells=1) if horizon is None else Contribution.add_remove()


class WithinLess(Half):
    def contribution(self, *, batched: bool = False) -> Contribution:
        return Contribution.add_remove(cells=1, per_cell=3)

    def contribution_within(self, horizon: int | None, *, batched: bool = False) -> Contribution:
        return Contribution.add_remove(cells=1)


class LetterByLetter(Substrings):
    """Protects less than one letter changes, where a step has one."""

    def contribution(self, *, batched: bool = False) -> Contribution:
        if batched:
            return super().contribution(batched=True)
        return Contribution.replace(cells=1, unit="letter")


#: For each name of `Statistic` and `Tallied`, wrong statistics.
WRONG: dict[str, list[Statistic]] = {
    "allows": [claiming(allows=lambda self, other: False)],
    "begin": [claiming(begin=lambda self: Forgetful(self, restored=True))],
    "cell": [claiming(cell=lambda self, name: 0)],
    "cells": [claiming(cells=(3,))],
    "columns_of": [claiming(columns_of=lambda self, events: (events, events))],
    "contribution": [Half(), LetterByLetter("ab", 2), InOneStep()],
    "contribution_within": [WithinLess()],
    "counts_rows": [claiming(entries=lambda self, said: [(said, 1), (0, 1)])],
    "entries": [claiming(entries=lambda self, said: [(said - 1, 1)])],
    "from_dict": [claiming(from_dict=classmethod(lambda cls, saved: Count()))],
    "joined": [Joins()],
    "largest_entry": [claiming(measured=lambda self, sums: 5 * sums)],
    "measured": [claiming(measured=lambda self, sums: sums**2)],
    "name_of": [claiming(name_of=lambda self, cell: "below")],
    "parameters": [claiming(parameters={"threshold": 3})],
    "parts": [claiming(parts=(Part("value"), Part("weight")))],
    "places": [claiming(places=1)],
    "plain": [claiming(plain=True, measured=lambda self, sums: sums[:, ::-1])],
    "read": [ShowsWhatItCounted(), ShowsOnlyWhatItCounted(), SaysWhatItCounted()],
    "restore": [claiming(restore=lambda self, saved: Forgetful(self, restored=True))],
    "row_bounds": [claiming(row_bounds=lambda self: (0, 0))],
    "said": [claiming(said=lambda self, values: np.arange(len(values)) % 2)],
    "sensitivity": [claiming(sensitivity=lambda self, strategy, p, batched=False: 0.5)],
    "settled": [claiming(settled=lambda self, guarantee, horizon=None: Above(self.threshold + 1))],
    "shift": [claiming(shift=one)],
    "sources": [claiming(sources=("nobody",))],
    "tallied": [claiming(said=lambda self, values: np.arange(len(values)) // 2)],
    "to_dict": [claiming(to_dict=lambda self: {"statistic": "Above", "threshold": 3})],
}

#: Names whose wrong value takes neither privacy nor a right number from anybody.
NO_LAW = {
    "asked": "a reading of cells on demand, each exact count with noise that the machine adds",
    "check_events": "refuses numbers of events, and changes nothing",
    "counter": "made from the others",
    "counts_units": "whether a job asks for whole numbers",
    "error_of": "what a plan's errors are of; tested where a reading differs from its cells",
    "event": "a word",
    "least_errors": "theorems that a plan shows beside its errors",
    "neighbours_differ": "words",
    "of_letters": "refuses steps that have not one event",
    "on_demand": "whether cells are computed when somebody asks for them",
    "plan": "made from the others",
    "protects": "a word",
    "restated": "made from `error_of` and `least_errors`",
}

STREAMS: dict[type[Statistic], tuple[Any, Any]] = {
    LetterByLetter: (["ab", "", "b", "aab"], None),
    InOneStep: ([[("ann", True)], [("ann", False)]], lambda event: event[0]),
}


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(Tallied) if not name.startswith("_")}
    assert not WRONG.keys() & NO_LAW.keys()
    assert names <= WRONG.keys() | NO_LAW.keys(), "a claim without a law: see the module's text"


def test_a_right_one_keeps_the_laws() -> None:
    check_statistic(Above(), STREAM)


@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        pytest.param(name, statistic, id=f"{name}-{number}")
        for name, statistics in WRONG.items()
        for number, statistic in enumerate(statistics)
    ],
)
def test_a_wrong_claim_breaks_a_law(name: str, statistic: Statistic) -> None:
    batches, unit_of = STREAMS.get(type(statistic), (STREAM, None))
    with pytest.raises(LawBroken):
        check_statistic(statistic, batches, unit_of=unit_of)

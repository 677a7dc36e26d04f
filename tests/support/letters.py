"""Statistics of the smallest kind, dense and on demand: how often a and b came."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from counton import ContributionBound
from counton.base.errors import InvalidInputError
from counton.statistics import Exact, Statistic
from counton.statistics.catalogue import MODULES
from counton.statistics.live_statistic import OnDemandResult
from counton.statistics.statistic import Events, NamedCells


class _Kept(Exact):
    """The events themselves, a step after the other."""

    def __init__(self, statistic: Statistic) -> None:
        self.statistic = statistic
        self.steps: tuple[str, ...] = ()
        self.before: tuple[str, ...] = ()

    def take(self, events: Events, stops: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if any(event not in ("a", "b") for event in events):
            raise InvalidInputError(f"letters are {events!r}; they must be a or b")
        starts = [0, *stops.tolist()]
        new = ["".join(events[a:b]) for a, b in pairwise(starts)]
        self.before = self.steps
        self.steps = (*self.steps, *new)
        if self.statistic.on_demand:
            return np.zeros((len(stops), 0), np.int64)
        counts = [[step.count(letter) for letter in "ab"] for step in new]
        return np.array(counts, np.int64).reshape(len(stops), 2)

    def undo(self) -> None:
        self.steps = self.before

    def save(self) -> bytes:
        single = all(len(step) == 1 for step in self.steps)
        return ("" if single else "/").join(self.steps).encode() + (b"" if single else b"/")

    def load(self, saved: bytes) -> None:
        text = saved.decode()
        self.before = self.steps = tuple(text[:-1].split("/") if "/" in text else text)

    @property
    def largest(self) -> int:
        return len("".join(self.steps))

    def counts(self, cells: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
        so_far = "".join(self.steps[:step])
        return np.array([so_far.count("ab"[cell]) for cell in cells])


class Letters(Statistic):
    """How often a and b came."""

    event = "letter"
    of_letters = True
    parameters: dict[str, Any] = {}  # noqa: RUF012
    cells = (2,)

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.replace(unit="letter")

    def begin(self) -> Exact:
        return _Kept(self)

    @property
    def number_names(self) -> tuple[str, ...]:
        return "a", "b"


class LettersOnDemand(Letters, NamedCells):
    """The same, read on demand."""

    def cell(self, name: Any) -> int:
        if name not in ("a", "b"):
            raise InvalidInputError(f"cell {name!r} is none")
        return "ab".index(name)

    def name_of(self, cell: int) -> str:
        return "ab"[cell]

    on_demand = True
    result_type = OnDemandResult


@pytest.fixture
def letters_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """States and checkpoints find them by their names."""
    for name in "Letters", "LettersOnDemand":
        monkeypatch.setitem(MODULES, name, __name__)

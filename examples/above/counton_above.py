"""How many values lie above a threshold: a statistic of a package of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from counton.base.exact import Number, exact, text
from counton.privacy import ContributionBound
from counton.statistics import AccumulatorStatistic, Part


class Above(AccumulatorStatistic):
    """How many values lie above a threshold; one row, added or removed, changes it by 1 at most."""

    # The name of its command. Arguments of the constructor are its options, in job files as well.
    keyword = "above"
    says = "How many values lie above a threshold."
    unit_word = "values"
    event = "value"
    parts = (Part("value"),)

    def __init__(self, threshold: Number, *, unit: str | None = None) -> None:
        self.threshold = exact(threshold, "threshold")
        self._contribution = ContributionBound.add_remove(unit=unit or "event")
        self._stated = unit is not None

    @classmethod
    def examples(cls) -> list[tuple[Above, list[list[float]]]]:
        return [(cls(60), [[10, 70, 90], [], [60], [20, 61]])]  # for the laws

    @property
    def parameters(self) -> dict[str, Any]:
        """What the constructor takes, as JSON values."""
        given = {"threshold": text(self.threshold)}
        return {**given, "unit": self._contribution.unit} if self._stated else given

    # The private half: what rows change, and what one unit changes at most.
    cells = ()
    n_accumulators = 1

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """One event counts in one cell by at most 1."""
        return self._contribution

    def encode(self, *parts: Any) -> Any:
        """1 for each value above the threshold, 0 for each other."""
        return (np.asarray(parts[0], np.float64) > float(self.threshold)).astype(np.int64)

    def entries(self, said: Any) -> Any:
        """What a row says is added to the only place there is."""
        return [(0, said)]

    def row_bounds(self) -> tuple[int, int]:
        """A row adds 0 or 1."""
        return 0, 1

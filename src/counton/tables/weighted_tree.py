"""Strategies on a tree over a line that have a weight for each level."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.strategy import Norm
from counton.tables.tree_distribution import TreeDistribution


class WeightedTree(LineStrategy):
    """A strategy on a tree over a line of cells, with one weight for each level.

    A column has at most one entry for each level: plus or minus its weight, an integer.
    """

    weights: tuple[int, ...]

    @property
    @abstractmethod
    def joint_distribution(self) -> TreeDistribution:
        """Joint distribution of the estimates, in units of one measurement's noise variance."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: the constructor's arguments without the name."""
        return {name: value for name, value in super().parameters.items() if name != "name"}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters, and the name that the user chose, as JSON values."""
        return {**super().to_dict(), "name": self.name}

    @override
    def largest_column(self, norm: Norm) -> int:
        return sum(int(weight**norm) for weight in self.weights)

    @property
    @override
    def largest_entry(self) -> int:
        return max(self.weights)

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        return self.joint_distribution.variance(low, high)

    @override
    def ranges_variance(self) -> float:
        """Return the summed variance over all intervals, in time logarithmic in the cells."""
        return math.fsum(self.joint_distribution.prefix_levels(ranges=True))

    @override
    def functional_variance(self, weights: Floats) -> float:
        return math.fsum(self.joint_distribution.functional_levels(weights))

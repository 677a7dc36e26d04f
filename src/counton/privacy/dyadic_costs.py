"""What it costs to hide one item in the noise of dyadic intervals, as functions of one label.

Two streams that differ in the item at position j give the same releases if the noise of the
intervals is shifted such that every position from j on that was released gains 1 and every earlier
one 0. Give each interval as its label the shifts of all intervals around it and its own together;
an interval then costs a function of the difference of its label and its parent's. Labels outside
[0, 1] never help, so a subtree is summed up by its least cost as a function of the label of its
parent. Both kinds below keep such functions for many positions at once, one a column, and as
arrays that may be added up.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]


class CostKind(Protocol):
    """Functions of the parent's label: how they start, grow and are read."""

    #: Labels at which functions are compared when positions are ruled out; 0 and 1 among them.
    labels: NDArray[np.float64]
    #: Cost of covering a whole tree whose root has level l, by l.
    whole: list[float]

    def fixed(self, level: int, label: float) -> Costs:
        """An interval of ``level`` whose own label is given: shape (size, 1)."""
        ...

    def uniform(self, level: int, ones: bool) -> Costs:
        """A whole interval of released positions (ones) or of earlier ones: shape (size, 1)."""
        ...

    def up(self, costs: Costs, level: int) -> Costs:
        """From functions of an interval's own label to functions of its parent's."""
        ...

    def at_labels(self, costs: Costs) -> Costs:
        """Values at ``labels``: shape (labels, positions)."""
        ...

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Functions that are nowhere smaller, and larger by less than 4 ``grid``."""
        ...

    def at_zero(self, costs: Costs) -> Costs:
        """Values for an interval without a parent."""
        ...


class AbsoluteCosts:
    """Laplace noise: |shift| * weight(level). Labels may be taken integral, 0 or 1.

    A linear program over a laminar family has an integral optimum; its value is exactly the pure
    loss, which far out in the direction of the shift is attained.
    """

    def __init__(self, weights: list[float]) -> None:
        self.labels = np.array([0.0, 1.0])
        self._weights = weights
        self.whole = [weights[0]]
        for weight in weights[1:]:
            self.whole.append(min(weight, 2 * self.whole[-1]))

    def fixed(self, level: int, label: float) -> Costs:
        """Cost |parent's label - label| * weight."""
        return self._weights[level] * np.abs(self.labels - label)[:, None]

    def uniform(self, level: int, ones: bool) -> Costs:
        """It costs something only where the parent's label is the other one."""
        return self.whole[level] * np.array([[ones], [not ones]], np.float64)

    def up(self, costs: Costs, level: int) -> Costs:
        """Keep the parent's label, or pay the weight for the other one."""
        kept: Costs = np.minimum(costs, self._weights[level] + costs[::-1])
        return kept

    def at_labels(self, costs: Costs) -> Costs:
        """The functions are stored as their values."""
        return costs

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Both values on the grid; least costs over labels rise by no more than they do."""
        above: Costs = np.ceil(costs / grid) * grid
        return above

    def at_zero(self, costs: Costs) -> Costs:
        """The value at label 0."""
        value: Costs = costs[0]
        return value


class QuadraticCosts:
    """Gaussian noise: shift^2 / variance(level), kept as a x^2 - 2 b x + c.

    The least sum over all shifts is 1^T Sigma^-1 1, with the releases before the item known too.
    """

    def __init__(self, variances: list[float]) -> None:
        self.labels = np.linspace(0, 1, 5)
        self._variances = variances
        self.whole = [1 / variances[0]]
        for variance in variances[1:]:
            both = 2 * self.whole[-1]
            self.whole.append(both / (1 + variance * both))

    def fixed(self, level: int, label: float) -> Costs:
        """Cost (parent's label - label)^2 / variance."""
        return np.array([[1.0], [label], [label**2]]) / self._variances[level]

    def uniform(self, level: int, ones: bool) -> Costs:
        """Cost whole * (parent's label - value)^2."""
        return self.whole[level] * np.array([[1.0], [ones], [ones]])

    def up(self, costs: Costs, level: int) -> Costs:
        """Minimise over the interval's own label in closed form."""
        square, linear, constant = costs
        variance = self._variances[level]
        shrink = 1 + variance * square
        return np.stack(
            [square / shrink, linear / shrink, constant - variance * linear**2 / shrink]
        )

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Larger for labels in [0, 1]; 0 <= b <= a stays, so that the best labels lie there."""
        square, linear, constant = costs / grid
        return grid * np.stack([np.ceil(square), np.floor(linear), np.ceil(constant)])

    def at_labels(self, costs: Costs) -> Costs:
        """Evaluate the quadratics."""
        x = self.labels[:, None]
        values: Costs = costs[0] * x**2 - 2 * costs[1] * x + costs[2]
        return values

    def at_zero(self, costs: Costs) -> Costs:
        """The constant term."""
        value: Costs = costs[2]
        return value

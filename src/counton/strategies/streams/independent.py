"""The strategy that adds independent noise to each step's own count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.exact import check_integer
from counton.strategies.participation import Structure, tree_structure
from counton.strategies.strategy import (
    LARGEST_HORIZON,
    Metric,
    Node,
    NodeNoise,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    check_window,
    window_ends,
)


class Independent(StreamStrategy):
    """A strategy that releases the count of each step with one independent draw of noise.

    No strategy of equal sensitivity has a smaller mean variance of single counts.

    Raises:
        InvalidInputError: horizon not an integer, below 1 or above 2^62.

    >>> single = Independent(8760)
    >>> single.facts.release, single.l1_sensitivity(), single.variance([1, 24], since=0).tolist()
    ('windows', Fraction(1, 1), [1.0, 24.0])
    """

    # With all columns of C of 1-norm or 2-norm at most 1, the mean variance of the best estimates
    # is tr (C^T C)^-1 / T >= (1/T) sum 1 / ||C e_t||_2^2 >= 1. For units that count in k steps the
    # same follows from the mean over all sets of k steps.

    sources = ("calibration",)

    horizon: int
    facts = StrategyFacts(release="windows", causal=True)

    def __init__(self, horizon: int) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)

    def column(self, step: int) -> tuple[Node, ...]:
        return (Node(0, check_step(self, step), 1),)

    def row(self, step: int) -> tuple[Node, ...]:
        return (Node(0, check_step(self, step), 1),)

    def l1_sensitivity(self) -> Fraction:
        """Return 1: a count enters its own node with weight 1."""
        return Fraction(1)

    @property
    @override
    def structure(self) -> Structure:
        return tree_structure(self.horizon, (1,))

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the number of steps of each window.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
        """
        first, last = window_ends(self, steps, since)
        return (last - first).astype(np.float64)

    @override
    def _decayed_variance(self, factor: float, steps: Integers) -> Floats:
        return np.asarray((1 - factor ** (2.0 * steps)) / (1 - factor**2))

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return 1.

        Args:
            metric: "mean" or "max"; both are equal.
            of: has no effect.
        """
        check_metric(metric)
        return 1.0

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        check_window(self, steps)
        if len(steps) == 0:
            return np.zeros((0, *field.shape), np.int64)
        return field.run(0, steps)

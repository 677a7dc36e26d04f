"""The binary mechanism: one node for every left child of a binary tree.

Node j of level l covers the items 2j 2^l + 1 .. (2j+1) 2^l. A release at t reads one node for every
set bit of t, so the noise at t is the noise at t without its lowest set bit, plus one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.exact import check_integer
from counton.strategies.base import (
    ROWS_CHUNK,
    Metric,
    Node,
    NodeNoise,
    Steps,
    StreamStrategy,
    check_metric,
    is_wide,
    nodes_per_chunk,
)
from counton.strategies.participation import Stretch
from counton.strategies.streams.dyadic import below_split, dyadic_error, dyadic_window_error


class Binary(StreamStrategy):
    """The binary tree with left children only, over ``horizon`` steps.

    D_1 = D_2^2 = bit_length(horizon), attained by item 1; the variance at t is the number of set
    bits of t.

    Source: Andersson and Pagh, "A Smooth Binary Mechanism", sec. 2.3; Andersson et al., "Count on
    Your Elders", sec. 3.1; after Dwork et al. and Chan, Shi and Song.

    >>> tree = Binary(1000)
    >>> tree.sensitivity(1), tree.row(6), tree.overall_variance("max")
    (10.0, (Node(level=2, index=0, weight=1), Node(level=1, index=1, weight=1)), 9.0)

    Raises:
        InvalidInput: horizon below 1 or not an integer.
    """

    sources = ("binary",)

    horizon: int
    causal = True

    def __init__(self, horizon: int) -> None:
        self.horizon = check_integer("horizon", horizon, 1)
        #: Number of levels.
        self.height = self.horizon.bit_length()

    @property
    def parameters(self) -> dict[str, Any]:
        """The horizon."""
        return {"horizon": self.horizon}

    def column(self, step: int) -> tuple[Node, ...]:
        """The left children above leaf ``step``."""
        leaf = self.check_step(step) - 1
        return tuple(
            Node(level, leaf >> level + 1, 1)
            for level in range(self.height)
            if not leaf >> level & 1
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """One node for each set bit of ``step``, from the highest down."""
        self.check_step(step)
        return tuple(
            Node(level, step >> level + 1, 1)
            for level in reversed(range(self.height))
            if step >> level & 1
        )

    def l1_sensitivity(self) -> Fraction:
        """The height: item 1 enters the first node of every level."""
        return Fraction(self.height)

    def squared_sensitivity(self) -> Fraction:
        """The height: all entries are 0 or 1."""
        return Fraction(self.height)

    def divisions(self, part: Stretch | None) -> tuple[tuple[Stretch, int], ...]:
        """Left half, which is a node, and right half."""
        if part is None:
            part = Stretch(self.height, 0, self.horizon)
        if part.level == 0:
            return ()
        half = 1 << part.level - 1
        left = Stretch(part.level - 1, 1, min(part.steps, half))
        if part.steps <= half:
            return ((left, 1),)
        return (left, 1), (Stretch(part.level - 1, 0, part.steps - half), 1)

    def nodes_by_level(self) -> Iterator[NDArray[np.int64]]:
        """The left children above each leaf."""
        leaves = np.arange(self.horizon)
        for level in range(self.height):
            yield np.where(leaves >> level & 1, -1, leaves >> level + 1)

    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Number of set bits of each step, in variances of one node."""
        return np.bitwise_count(self.check_steps(steps)).astype(np.float64)

    def window_variance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Set bits of both ends from the highest in which they differ: nodes above are shared."""
        first, last = self.check_ends(starts, stops)
        low = below_split(first, last)
        parts = np.bitwise_count(first & low) + np.bitwise_count(last & low)
        return np.asarray(parts, dtype=np.float64)

    def overall_variance(self, metric: Metric) -> float:
        """Mean or maximum number of set bits over the horizon, in closed form."""
        check_metric(metric)
        return float(dyadic_error(self.horizon, lambda level: Fraction(1), metric))

    @override
    def overall_window_variance(self, metric: Metric) -> float:
        """See `StreamStrategy.overall_window_variance`; in closed form."""
        check_metric(metric)
        return dyadic_window_error(self, metric)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z on a window: top down for narrow nodes, row by row for wide ones."""
        self.check_window(steps)
        if len(steps) == 0:
            return np.zeros((0, *field.shape), np.int64)
        if is_wide(field.shape):
            return self._noise_rows(field, steps)
        values = np.zeros((1, *field.shape), np.int64)
        for level in reversed(range(self.height)):
            low, high = steps.start >> level, (steps.stop - 1 >> level) + 1
            values = _expand(field, level, low, high, values)
        return values

    def _noise_rows(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """One addition a row, in place: noise(t) = noise(t without its lowest bit) + one node."""
        out = np.empty((len(steps), *field.shape), np.int64)
        # Parents before the window are the step before it, with ever fewer of its bits.
        earlier = {0: np.zeros(field.shape, np.int64)}
        reached = 0
        for node in self.row(steps.start - 1) if steps.start > 1 else ():
            row = field.run(node.level, range(node.index, node.index + 1))[0]
            row = row + earlier[reached]
            reached += 1 << node.level
            earlier[reached] = row
        size = nodes_per_chunk(field.shape, ROWS_CHUNK)
        for at in range(steps.start, steps.stop, size):
            part = range(at, min(at + size, steps.stop))
            drawn = []
            for level in range(self.height):
                half = 1 << level
                first = part.start + half - 1 >> level + 1
                last = part.stop + half - 1 >> level + 1
                if part.stop <= half:
                    break
                drawn.append(iter(field.run(level, range(first, last)) if first < last else ()))
            for t in part:
                parent = t & (t - 1)
                known = earlier[parent] if parent < steps.start else out[parent - steps.start]
                np.add(known, next(drawn[(t & -t).bit_length() - 1]), out=out[t - steps.start])
        return out


def _expand(
    field: NodeNoise, level: int, low: int, high: int, parents: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Noise at numbers low..high-1 of a level; ``parents`` starts at low // 2, one level up."""
    out = np.empty((high - low, *field.shape), np.int64)
    first = low >> 1
    size = nodes_per_chunk(field.shape)
    for at in range(first, (high + 1) >> 1, size):
        pairs = range(at, min(at + size, (high + 1) >> 1))
        evens = range(max(pairs.start, low + 1 >> 1), pairs.stop)
        odds = range(pairs.start, min(pairs.stop, high >> 1))
        if len(evens) > 0:
            kept = parents[evens.start - first : evens.stop - first]
            out[2 * evens.start - low : 2 * evens.stop - 1 - low : 2] = kept
        if len(odds) > 0:
            known = parents[odds.start - first : odds.stop - first]
            target = out[2 * odds.start + 1 - low : 2 * odds.stop - low : 2]
            np.add(known, field.run(level, odds), out=target)
    return out

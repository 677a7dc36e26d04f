"""Epochs: running totals of a stream without a known end, under pure privacy.

Time is divided into epochs, each 16 times as long as all earlier ones: steps 1 to 16, then 16^j + 1
to 16^(j+1). In epoch j the sums of aligned nodes of 1, 16, .., 16^j steps are measured, and the
total of the epoch, its root. An item enters j + 2 nodes, each with Laplace noise of scale (j + 2) /
epsilon, so its privacy loss is epsilon in every epoch. (Published schemes without an end reserve a
share of every item's budget for each level that may ever come.)

Within an epoch, releases are those of the strategy `LookAhead`; to them a release adds the
estimates of the totals of completed epochs. A node is estimated by 15/16 of its own measurement and
1/16 of the sum of its children's measurements.

This mechanism is counton's own. Privacy: every release is the exact total plus a linear function of
the noise of nodes, each drawn once, with B C = A; and no release uses nodes of later epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import NoiseDistribution
from counton.base.exact import check_integer
from counton.strategies.participation import Structure
from counton.strategies.rounding import PART_BITS, part_of
from counton.strategies.strategy import (
    EndlessStrategy,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StrategyFacts,
    check_step,
    last_served_step,
    node_distribution,
    window_ends,
)
from counton.strategies.streams.look_ahead import LookAhead
from counton.strategies.streams.subtrees import FRACTION_BITS, LevelNoise, Subtrees

#: Longest stream for which indices of nodes fit int64; with at most so many epochs, all levels fit
#: a noise address.
LONGEST = 2**60
_MOST_EPOCHS = 20


class _Epoch(LookAhead):
    """The tree of measurements over one epoch, whose root, its total, is measured too."""

    def __init__(self, radix: int, number: int) -> None:
        radices = (radix,) * number + (radix - 1 if number else radix,)
        super().__init__(math.prod(radices), radices, (1,) * (number + 2))
        self.radix = radix
        own_share = Fraction(part_of(Fraction(radix - 1, radix)), 1 << PART_BITS)
        self._trees = Subtrees(self.horizon, radices, self.weights, own_share)
        self.number = number
        #: The last step before the epoch, and the noise level of its steps.
        self.before = radix**number if number else 0
        self.level = number * (number + 3) // 2

    def field(self, field: NodeNoise) -> NodeNoise:
        """Return the noise for this epoch, with the levels of its tree numbered 0, 1, ...."""
        return NoiseView(field.shape, lambda level, nodes: field.run(self.level + level, nodes))


@lru_cache(maxsize=256)
def _epoch(radix: int, number: int) -> _Epoch:
    return _Epoch(radix, number)


class _EpochReader(Reader):
    """The noise of one running stream, computed for one epoch after another."""

    _strategy: Epochs

    def __init__(self, strategy: Epochs, field: NodeNoise) -> None:
        super().__init__(strategy, field, self._epoch_by_epoch)
        self._number = -1
        self._of_epoch: Reader | None = None
        self._past = np.zeros(field.shape, np.int64)

    def _epoch_by_epoch(self, field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        for epoch in self._strategy._up_to(steps.stop - 1) if steps else []:
            # The steps that lie in this epoch, whose first step has the number 1.
            steps_within = range(
                max(steps.start - epoch.before, 1),
                min(steps.stop - epoch.before, epoch.horizon + 1),
            )
            if not steps_within:
                continue
            if epoch.number != self._number or self._of_epoch is None:
                past = np.zeros(field.shape, np.int64)  # the noise of the total of earlier epochs
                for earlier in self._strategy._before(epoch):
                    trees = earlier._trees
                    drawn = LevelNoise(earlier.field(field), trees.counts)
                    past = past + trees.estimates(drawn, trees.top, range(1), trees.depths[-1])[0]
                self._past = past
                self._of_epoch = epoch._reader(epoch.field(field))
                self._number = epoch.number
            for part in self._of_epoch.parts(steps_within):
                yield part + self._past


class Epochs(EndlessStrategy):
    """Running totals of a stream without a known end, under a guarantee that does not weaken.

    With k children per node, epoch 0 has the steps 1 to k, and epoch j the steps k^j + 1 to
    k^(j+1). Each has a tree of its own, whose noise is wider in later epochs. A release sums the
    totals of completed epochs and the running total within the present one.

    From 17 steps on, the mean variance is 1.5 to 2.3 times the mean variance of the best strategy
    for a known end; for published schemes it is 11 to 47 times as large. Releases are multiples of
    2^-16.

    Args:
        radix: number of children, from 3 to 64; with 16 the error is nearly the least.

    Raises:
        InvalidInputError: a radix outside that range.

    >>> epochs = Epochs()
    >>> (8 * epochs.variance([1, 16, 17, 1000])).round(2).tolist()
    [7.53, 7.53, 24.47, 254.98]
    >>> epochs.column(300)[0]
    Node(level=5, index=43, weight=1)
    """

    sources = ("trees_estimate_from_below", "families_estimate_from_above")

    def __init__(self, radix: int = 16) -> None:
        self.radix = check_integer("radix", radix, 3, 64)
        self.facts = StrategyFacts(
            fraction_bits=FRACTION_BITS,
            unit_columns=False,
            attained=False,
            # Up to a million steps, a reader holds the children of one node of every level, and the
            # totals of epochs so far.
            buffer_size=5 * (self.radix + 2) + 1,
            last_step=min(LONGEST, self.radix**_MOST_EPOCHS),
        )

    @classmethod
    def examples(cls, horizon: int) -> Sequence[Epochs]:
        return (cls(), cls(3)) if horizon <= 250 else (cls(),)

    def _at(self, step: int) -> _Epoch:
        number = 0
        end = self.radix
        while end < step:
            number = number + 1
            end = end * self.radix
        return _epoch(self.radix, number)

    def _before(self, epoch: _Epoch) -> Iterator[_Epoch]:
        return (_epoch(self.radix, number) for number in range(epoch.number))

    def _up_to(self, step: int) -> list[_Epoch]:
        last = self._at(step)
        return [*self._before(last), last]

    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return one node on each level of the step's epoch, and its root.

        Args:
            step: step of the stream, from 1.
            last: has no effect, because a count enters nodes of its epoch alone.
        """
        epoch = self._at(check_step(self, step))
        return tuple(
            node._replace(level=node.level + epoch.level)
            for node in epoch.column(step - epoch.before)
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return nodes of the totals of completed epochs, and of the step's own.

        Args:
            step: step of the stream, from 1.
        """
        epoch = self._at(check_step(self, step))
        parts = [(earlier, earlier.horizon) for earlier in self._before(epoch)]
        return tuple(
            node._replace(level=node.level + earlier.level)
            for earlier, last in (*parts, (epoch, step - epoch.before))
            for node in earlier.row(last)
        )

    def _number(self, level: int) -> int:
        number = 0
        while (number + 1) * (number + 4) // 2 <= level:
            number += 1
        return number

    @property
    @override
    def structure(self) -> Structure:
        """Only one fact: nodes sum consecutive steps, so columns are aligned."""
        return Structure(aligned=lambda: True)

    def l1_sensitivity(self) -> Fraction:
        """Return 2, the largest 1-norm of a column whose entries are divided by scales of noise."""
        # An item of epoch j enters j + 2 nodes, whose noise has (j + 2) / 2 times the first epoch's
        # scale.
        return Fraction(2)

    def squared_sensitivity(self) -> Fraction:
        """Return 2, the largest squared 2-norm of a column, divided by variances of noise."""
        return Fraction(2)

    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return, for each of ``stops``, the width of the noise in its epoch."""
        ends = [float(self.radix ** (number + 1)) for number in range(_MOST_EPOCHS)]
        return np.asarray((np.searchsorted(ends, stops) + 2) / 2.0)

    def _node_factor(self, level: int) -> Fraction:
        """Return (j + 2) / 2 for the nodes of epoch j."""
        return Fraction(self._number(level) + 2, 2)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        for epoch in (_epoch(self.radix, 0), self._at(last_served_step(self) or LONGEST)):
            epoch._check_distribution(node_distribution(self, distribution, epoch.level))

    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        """Return the variances of releases, or of their differences.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
            distribution: noise distribution of the first epoch, for exact variances in squared data
                units. Default: variances relative to Laplace noise of the first epoch.
        """
        first, last = window_ends(self, steps, since)
        variances = np.zeros(first.shape)
        if not last.size:
            return variances
        for epoch in self._up_to(max(int(last.max()), 1)):
            low = np.clip(first - epoch.before, 0, epoch.horizon)
            high = np.clip(last - epoch.before, 0, epoch.horizon)
            some = high > low
            if some.any():
                squared = float(self._node_factor(epoch.level)) ** 2
                width = (
                    squared
                    if distribution is None
                    else node_distribution(self, distribution, epoch.level).variance
                )
                variances[some] += width * epoch.variance(high[some], low[some])
        return variances

    def _window_rounding(self, first: Integers, last: Integers) -> NDArray[np.float64]:
        """Return a bound on rounding of the counts of the steps first + 1 .. last, in 2^-16."""
        roundings = np.zeros(first.shape)
        if last.size:
            for epoch in self._up_to(max(int(last.max()), 1)):
                low = np.clip(first - epoch.before, 0, epoch.horizon)
                high = np.clip(last - epoch.before, 0, epoch.horizon)
                roundings += epoch._window_rounding(low, high)
        return roundings

    def _reader(self, field: NodeNoise) -> Reader:
        return _EpochReader(self, field)

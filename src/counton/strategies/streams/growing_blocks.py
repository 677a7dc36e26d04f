"""The growing square root over blocks: Gaussian totals without a known end, over 2^30 steps.

The noise of a release of the growing square root sums draws of all earlier steps. So its streams
end after 2^20 - 1 steps. Here the steps are divided into blocks of 1,024, and there are two
strategies:

- *between blocks*, a growing square root whose steps are the blocks: it counts finished blocks;
- *within each block*, a square root whose columns have norm 1: it counts the steps of that block.

The noise of release t is that of the finished blocks, plus that of the steps in the open block. At
the last step of a block it is that of the finished blocks alone.

**Privacy.** The count of a step enters the nodes of its own block, with the squared norm 1 at most,
and the nodes of the growing square root, with the squared norm 1 at most when divided by variances.
The noise between blocks has 4 / 5 of the variance of the noise within blocks. So the squared
sensitivity is 1 + 5 / 4, in units of the noise within blocks, for all releases together.

**Variance.** It is the sum of both. Over 2^20 to 2^30 steps the largest variance is 1.48 to 1.52
times that of the square root for a known end; over 2^14 steps 1.73 times, over 2^10 steps 2.0
times. Over fewer than 2^20 steps the growing square root alone is better.

This mechanism is counton's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.exact import check_integer
from counton.strategies.participation import Structure
from counton.strategies.strategy import (
    EndlessStrategy,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StrategyFacts,
    check_step,
    check_window,
    window_ends,
)
from counton.strategies.streams.growing_root import (
    STEPS,
    GrowingSquareRoot,
    WeightedRoot,
    check_noise,
    quarter,
    refuse_laplace,
    series_bits,
)
from counton.strategies.streams.root_variances import exact_variances
from counton.strategies.streams.staircase import Staircase

#: Steps of a block, by default and at most.
_DEFAULT_BLOCK_STEPS = 2**10
_LARGEST_BLOCK_STEPS = 2**13
#: Beyond, nodes would have no noise addresses in streams of several cells.
_MOST_STEPS = 2**30
#: Variance of the noise between blocks, at the first nodes, over that of the noise within blocks.
_VARIANCE_BETWEEN_BLOCKS = Fraction(4, 5)
_WEIGHT_BITS = 18
#: More than four times the bits of any node in a block, so that all of them have equal noise.
_EQUAL_LEVELS = 64
#: Numbers of noise of whole blocks that are computed together.
_NUMBERS_PER_DRAW = 2**20


class _BlockRoot(WeightedRoot):
    """The matrix square root over the steps of a block, with columns of norm 1 at most."""

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """The weights of the columns, rounded down, in units of 2^-weight_bits."""
        unit = 4 ** (self.weight_bits + self.root.bits)
        squares = self._squares[::-1].tolist()
        return np.array([math.isqrt(unit // square) for square in squares], np.int64)

    @cached_property
    def widths(self) -> Floats:
        """Variances of the nodes' noise, relative to the first node's: all are 1."""
        return np.ones(self.horizon)

    @cached_property
    def _variances(self) -> Floats:
        return exact_variances(self.shares, self.inverse, self.widths)


class _WithinBlock(GrowingSquareRoot):
    """Running totals of the first ``length`` steps, with noise of equal width at all nodes.

    Its methods are those of the growing square root; only the columns have other norms.
    """

    def __init__(self, between: GrowingSquareRoot, length: int) -> None:
        super().__init__(between.weight_bits)
        self._between = between
        self._length = length
        self._equal = _EQUAL_LEVELS
        self.facts = self.facts._replace(last_step=length)

    @cached_property
    def _root(self) -> _BlockRoot:
        return _BlockRoot(self._length, self.weight_bits)

    @property
    @override
    def _stairs(self) -> Staircase:
        return self._between._stairs

    @override
    def _weights(self, nodes: range) -> NDArray[np.int64]:
        return self._root.weights[nodes.start - 1 : nodes.stop - 1]

    @override
    def _beginning(self, nodes: int) -> _BlockRoot:
        return self._root

    @override
    def _of_totals(self, steps: Integers) -> Floats:
        return np.append(0.0, self._root._variances)[steps]


class GrowingBlocks(EndlessStrategy):
    """Running totals of up to 2^30 - 1 steps without a known end, with Gaussian noise.

    The guarantee is for all releases together, and does not weaken with age.

    A growing square root counts finished blocks, and a square root counts the steps of the open
    block. Over 2^20 to 2^30 steps, the largest variance is 1.48 to 1.52 times that of the square
    root for a known end. Over fewer steps `GrowingSquareRoot` is better.

    Args:
        weight_bits: fraction bits of weights, from 4 to 18; with fewer the error is slightly
            larger, but wider noise fits int64.
        block: steps of a block, from 2 to 2^13. A stream has fewer than 2^20 blocks, and
            fewer than 2^30 steps.

    Raises:
        InvalidInputError: an argument outside that range.

    >>> blocks = GrowingBlocks()
    >>> late = blocks.variance([2**20, 2**30 - 1]) * float(blocks.squared_sensitivity())
    >>> late.round(1).tolist()
    [24.3, 80.9]
    >>> blocks.facts.last_step == 2**30 - 1
    True
    """

    sources = ("a_floor_estimates",)

    def __init__(self, weight_bits: int = _WEIGHT_BITS, block: int = _DEFAULT_BLOCK_STEPS) -> None:
        self.weight_bits = check_integer("weight_bits", weight_bits, 4, _WEIGHT_BITS)
        self.block = check_integer("block", block, 2, _LARGEST_BLOCK_STEPS)
        self._between = GrowingSquareRoot(self.weight_bits)
        self._within = _WithinBlock(self._between, self.block - 1)
        self.facts = StrategyFacts(
            lattice_bits=series_bits(self.weight_bits) + self.weight_bits,
            fraction_bits=self._between.facts.fraction_bits,
            unit_columns=False,
            attained=False,
            causal=True,
            local=False,
            last_step=min(self.block * (STEPS + 1), _MOST_STEPS) - 1,
        )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[GrowingBlocks]:
        if horizon <= 26:
            return (cls(block=3), cls(4, 4))
        return (cls(4, 8),) if horizon <= 250 else ()

    @property
    @override
    def structure(self) -> Structure:
        """Only one fact: the inner product of two columns may be negative."""
        return Structure(aligned=lambda: False)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        return {"weight_bits": self.weight_bits, "block": self.block}

    # ------------------------------------------------------------------------------ C and its norm

    @override
    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the nodes of the step and of later steps in its block, and those of the blocks.

        Args:
            step: step of the stream, from 1.
            last: the last release that is considered. It must be given.
        """
        finished, place = divmod(check_step(self, step) - 1, self.block)
        last = self._check_end(last)
        before = finished * self.block
        nodes: list[Node] = []
        end = min(last - before, self.block - 1)  # a finished block's own noise is not used
        if place < end:
            nodes += [
                Node(0, before + node, weight)
                for _, node, weight in self._within.column(place + 1, end)
            ]
        if last // self.block > finished:
            nodes += [
                Node(1 + level, node, weight)
                for level, node, weight in self._between.column(finished + 1, last // self.block)
            ]
        return tuple(nodes)

    @override
    def l1_sensitivity(self) -> Fraction:
        """Raise `InvalidInputError`: no column has a finite 1-norm, which Laplace noise needs."""
        refuse_laplace(self)

    @override
    def squared_sensitivity(self) -> Fraction:
        """Return 9 / 4, the largest squared norm of a column over stds of noise."""
        return 1 + 1 / _VARIANCE_BETWEEN_BLOCKS

    @override
    def _node_factor(self, level: int) -> Fraction:
        """Return the noise variance of ``level``'s nodes, relative to those within blocks."""
        return (
            Fraction(1)
            if level == 0
            else _VARIANCE_BETWEEN_BLOCKS * self._between._node_factor(level - 1)
        )

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        last_level = 1 + quarter(STEPS)
        check_noise(self, distribution, last_level=last_level, last=f"after {STEPS:,} blocks")

    # ----------------------------------------------------------------------------- B and variances

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes in the release, fast for early steps only.

        Args:
            step: step of the stream, from 1.
        """
        finished, place = divmod(check_step(self, step), self.block)
        nodes: list[Node] = []
        if place:
            nodes += [
                Node(0, finished * self.block + node, weight)
                for _, node, weight in self._within.row(place)
            ]
        if finished:
            nodes += [
                Node(1 + level, node, weight) for level, node, weight in self._between.row(finished)
            ]
        return tuple(nodes)

    @override
    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return, for each of ``stops``, a bound on a node's weight times its relative std."""
        between = math.sqrt(_VARIANCE_BETWEEN_BLOCKS) * self._between.largest_reads(
            stops // self.block
        )
        return np.maximum(between, self._within.largest_reads(np.ones_like(stops)))

    @property
    @override
    def _release_rounding(self) -> float:
        """Largest change of a release by rounding: half a unit of each of the two parts."""
        return 1.0

    @override
    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        """Return the variances of running totals or, with ``since``, of their differences.

        The time for a difference is proportional to the number of blocks before its last step.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, that come before each sum. Default:
                running totals.
            distribution: noise distribution within blocks, for variances in squared data units.
                Default: variances relative to that noise.
        """
        starts, stops = window_ends(self, steps, since)
        finished_before, first = np.divmod(starts, self.block)
        finished, last = np.divmod(stops, self.block)
        variances = float(_VARIANCE_BETWEEN_BLOCKS) * _of_pairs(
            self._between, finished_before, finished
        )
        same = finished_before == finished
        variances += _of_pairs(self._within, np.where(same, first, 0), last)
        variances += np.where(same, 0.0, self._within._of_totals(first))
        return np.asarray(variances * self._within._unit(distribution))

    def _of_blocks(self, steps: int) -> tuple[Floats, Floats, int]:
        """Return the variances between blocks after 0, 1, 2, ... of them, and within a block.

        Up to release ``steps``. Also return the number of releases in the last block.
        """
        finished, last = divmod(check_step(self, steps), self.block)
        between = float(_VARIANCE_BETWEEN_BLOCKS) * self._between._of_totals(
            np.arange(finished + 1)
        )
        return between, self._within._of_totals(np.arange(self.block)), last + 1

    @override
    def mean_variance(self, steps: int, distribution: NoiseDistribution | None = None) -> float:
        between, within, open_steps = self._of_blocks(steps)
        total = self.block * between[:-1].sum() + (len(between) - 1) * within.sum()
        total += open_steps * between[-1] + within[:open_steps].sum()
        return float(total / steps * self._within._unit(distribution))

    @override
    def largest_variance(self, steps: int, distribution: NoiseDistribution | None = None) -> float:
        between, within, open_steps = self._of_blocks(steps)
        largest = between[-1] + within[:open_steps].max()
        if len(between) > 1:
            largest = max(largest, between[:-1].max() + within.max())
        return float(largest * self._within._unit(distribution))

    # -------------------------------------------------------------------------------------- noise

    @override
    def _reader(self, field: NodeNoise) -> Reader:
        return _BlockReader(self, field)


def _of_pairs(root: GrowingSquareRoot, starts: Integers, stops: Integers) -> Floats:
    """Return the variances of the counts of the steps start + 1 .. stop, each pair once."""
    variances = root._of_totals(stops)
    inner = starts > 0  # the others are totals
    if inner.any():
        length = int(stops.max()) + 1
        keys, places = np.unique(starts[inner] * length + stops[inner], return_inverse=True)
        pair_variances = root.variance(keys % length, since=keys // length)
        variances[inner] = pair_variances[places.reshape(-1)]
    return variances


class _BlockReader(Reader):
    """The noise of one running stream, block by block."""

    _strategy: GrowingBlocks

    def __init__(self, strategy: GrowingBlocks, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        shifted = NoiseView(field.shape, lambda level, nodes: field.run(1 + level, nodes))
        self._between = strategy._between._reader(shifted)
        self._open_block(0)

    def _open_block(self, finished: int) -> None:
        self._finished = finished
        before = finished * self._strategy.block
        field = self._field

        def run(_level: int, nodes: range) -> Integers:
            return field.run(0, range(before + nodes.start, before + nodes.stop))

        self._within = self._strategy._within._reader(NoiseView(field.shape, run))

    @property
    @override
    def local(self) -> bool:
        """Whether memory suffices for the nodes so far; then steps take constant time."""
        return self._between.local and self._within.local

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        check_window(self._strategy, steps)
        out = np.zeros((len(steps), *self._field.shape), np.int64)
        if not out.size:
            return out
        block = self._strategy.block
        blocks = range(steps.start // block, (steps.stop - 1) // block + 1)
        finished = range(max(blocks.start, 1), blocks.stop)
        between = self._between.noise(finished) if finished else out[:0]
        if blocks.start == 0:
            between = np.concatenate([np.zeros((1, *self._field.shape), np.int64), between])
        sizes = [
            min((number + 1) * block, steps.stop) - max(number * block, steps.start)
            for number in blocks
        ]
        out += np.repeat(between, sizes, axis=0)
        self._add_within(steps, out)
        return out

    def _add_within(self, steps: range, out: Integers) -> None:
        """Add the noise within blocks of consecutive steps to ``out``."""
        block = self._strategy.block
        step = steps.start
        together = max(1, _NUMBERS_PER_DRAW // (block * math.prod(self._field.shape)))
        while step < steps.stop:
            finished, place = divmod(step, block)
            whole = min((steps.stop - step) // block, together)
            if place == 0 and whole > 1:
                out[step - steps.start :][: whole * block] += self._whole_blocks(finished, whole)
                step += whole * block
                continue
            stop = min((finished + 1) * block, steps.stop)
            if finished != self._finished:
                self._open_block(finished)
            places = range(max(place, 1), stop - finished * block)
            if places:
                first = finished * block + places.start - steps.start
                out[first:][: len(places)] += self._within.noise(places)
            step = stop

    def _whole_blocks(self, finished: int, count: int) -> Integers:
        """Return the noise within ``count`` blocks, for all of their steps; the first have none."""
        strategy = self._strategy
        block = strategy.block
        shape = self._field.shape
        nodes = self._field.run(0, range(finished * block, (finished + count) * block))
        columns = np.moveaxis(nodes.reshape(count, block, -1), 1, 0).reshape(block, -1)
        view = NoiseView(columns.shape[1:], lambda _level, some: columns[some.start : some.stop])
        noise = np.zeros_like(columns)
        noise[1:] = strategy._within.noise(view, range(1, block))
        released = np.moveaxis(noise.reshape(block, count, -1), 0, 1)
        return np.ascontiguousarray(released).reshape(count * block, *shape)

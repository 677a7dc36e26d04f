"""Measurements of single cells and of overlapping hat functions on several levels.

The best strategies that a search finds have this form. A level has positions on the line of cells,
the knots. A hat is a piecewise linear function (a linear B-spline): it rises from one knot to the
next, and falls to 0 at the following knot, so the hats of a level sum to 1 in every cell. A
measurement is the sum of counts weighted by a hat times its amplitude. Every cell is also measured
alone, with the remaining weight, so that all columns of C have equal norm. So amplitudes divide the
privacy budget between levels, and along the line.

Least squares takes O(cells) time. With the rows H of the hats and the diagonal matrix D of the
squared weights of single cells, G = C^T C = H^T H + D and, by Woodbury, G^-1 = D^-1 - D^-1 H^T K^-1
H D^-1 with K = I + H D^-1 H^T. Hats are eliminated from K in the order in which they end. Each
elimination changes only the hats that overlap the eliminated one, two on each level. Eliminating in
reverse order gives the entries of K^-1 between overlapping hats (Takahashi). The variances of
prefix sums need no other entries.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import (
    Floats,
    Integers,
    IntegersOrFloats,
    integers_from_text,
    integers_to_text,
)
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, check_integers, check_sequence, shorten
from counton.strategies.lines.least_squares import CellwiseLine, NormalEquations
from counton.strategies.participation import Norm, check_norm

#: Largest number of cells, and of fraction bits of weights, so that columns stay far below 2^63.
LARGEST_LINE = 2**22
MOST_BITS = 24
#: Largest knot, so that 4 * amplitude * spacing stays far below 2^63.
LARGEST_KNOT = 2**32
#: Largest number of levels; time and memory grow with its square.
MOST_LEVELS = 64
#: Number of array entries that are processed at a time.
_ENTRIES_PER_CHUNK = 2**16
#: Several lines of floats are multiplied by a dense matrix of at most so many entries.
_MOST_DENSE_ENTRIES = 2**20


class _Level(NamedTuple):
    """The hats of one level. Each cell lies under one hat that falls there and one that rises."""

    starts: Integers  # first cell of each interval between knots
    lengths: Integers  # cells of each interval
    falls: Integers  # (cells,): weight of the hat that falls from the interval's first knot
    rises: Integers  # (cells,): weight of the hat that rises to the interval's second knot
    interval: Integers  # (cells,): the interval that contains each cell
    first: int  # index of its first hat among all hats


class Hats(CellwiseLine):
    """A strategy that measures single cells and, on several levels, sums weighted by hats.

    A hat has the weight ``amplitude`` at its knot, falls linearly to 0 at the next knot on either
    side, and is 0 beyond.

    Args:
        cells: number of cells n, up to 2^22.
        spacings: for each of up to 64 levels, the cells between two knots, or all knots: increasing
            integers up to 2^32, of which only the last is n or more. Left of the first knot the
            first hat is constant.
        amplitudes: for each level, an integer of at least 0 for each knot, in units of
            ``2**-bits``. A spacing of s has ceil(n / s) + 1 knots.
        norm: the norm of all columns that is 1: 1 (sum of entries, for Laplace noise) or 2 (root of
            the sum of squares, up to rounding, for Gaussian noise).
        bits: entries of C are integers in units of ``2**-bits``.

    Raises:
        InvalidInputError: an argument out of range, or amplitudes that leave no weight for a cell.

    >>> strategy = Hats(8, (4,), [[8, 4, 8]], bits=4)
    >>> strategy.matrix()[:3].tolist()  # hats around the knots 0, 4 and 8
    [[7, 5, 3, 1, 0, 0, 0, 0], [1, 2, 3, 4, 4, 3, 2, 1], [0, 0, 0, 0, 1, 3, 5, 7]]
    >>> Hats(8, ((3, 8),), [[8, 0]], bits=4).matrix()[0].tolist()  # level as far as its knot
    [8, 8, 8, 7, 6, 4, 2, 1]
    >>> strategy.own.tolist(), strategy.l1_sensitivity()
    ([8, 9, 10, 11, 11, 10, 9, 8], 16)
    """

    sources = ("own",)
    name = "hats"

    def __init__(
        self,
        cells: int,
        spacings: Sequence[int | Sequence[int]],
        amplitudes: Sequence[Sequence[int] | Integers],
        norm: Norm = 1,
        bits: int = 16,
    ) -> None:
        self.cells = check_integer("cells", cells, 1, LARGEST_LINE)
        self.norm = check_norm(norm)
        self.bits = check_integer("bits", bits, 1, MOST_BITS)
        check_sequence("spacing", spacings, MOST_LEVELS)
        check_sequence("amplitude", amplitudes, MOST_LEVELS)
        if len(spacings) != len(amplitudes):
            raise InvalidInputError(
                f"there are {len(spacings)} spacings and {len(amplitudes)} rows of amplitudes; "
                "give one spacing and one row for each level"
            )
        levels = [_knots(self.cells, spacing) for spacing in spacings]
        self.spacings = tuple(spacing for spacing, _ in levels)
        self._amplitudes: list[Integers] = []
        self._levels: list[_Level] = []
        hats = 0
        for (_, knots), heights in zip(levels, amplitudes, strict=True):
            self._amplitudes.append(_check_amplitudes(heights, len(knots), self.bits, self.cells))
            self._levels.append(_level(self.cells, knots, self._amplitudes[-1], hats))
            hats += len(knots)
        self.rows = hats
        self.measurements = hats + self.cells
        #: Whether several lines of floats are quicker multiplied by `dense`.
        self.few = self.rows * self.cells <= _MOST_DENSE_ENTRIES
        #: Weight of each cell's own measurement: int64, shape (cells,).
        self.own: Integers = self._leftover()

    @classmethod
    @override
    def examples(cls, cells: int) -> Sequence[Self]:
        def waves(spacing: int, most: int) -> Integers:
            return (np.arange(-(-cells // spacing) + 1) * 7 + 3) % most

        knots = tuple(k * k for k in range(1, math.isqrt(cells - 1) + 2)) if cells > 1 else (0, 3)
        uneven = [(np.arange(len(knots)) * 11 + 40) % 128]
        return (
            cls(cells, (), ()),
            cls(cells, (3, 5), (waves(3, 100) + 20, waves(5, 90)), bits=8),
            cls(cells, (2, 4, 8 * cells), (waves(2, 9), waves(4, 9), [7, 0]), norm=2, bits=6),
            cls(cells, (knots,), uneven, bits=8),
        )

    @property
    @override
    def short_text(self) -> str:
        """Number of cells, and the spacing of each level: a distance, or the number of knots."""
        levels = (
            str(spacing) if isinstance(spacing, int) else f"{len(spacing)} knots"
            for spacing in self.spacings
        )
        return f"Hats(cells={self.cells}, spacings=({', '.join(levels)}))"

    @property
    def amplitudes(self) -> tuple[Integers, ...]:
        """For each level, the weight at each knot: int64, in units of ``2**-bits``."""
        return tuple(self._amplitudes)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: its sizes, and a digest of the amplitudes."""
        digest = hashlib.sha256()
        for row in self._amplitudes:
            digest.update(np.ascontiguousarray(row, "<i8").tobytes())
        return {
            "cells": self.cells,
            "spacings": [s if isinstance(s, int) else list(s) for s in self.spacings],
            "norm": self.norm,
            "bits": self.bits,
            "amplitudes_sha256": digest.hexdigest(),
        }

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters, the name, and all amplitudes as JSON values."""
        rows = np.concatenate([np.zeros(0, np.int64), *self._amplitudes])
        return {**super().to_dict(), "name": self.name, "amplitudes": integers_to_text(rows)}

    @classmethod
    @override
    def _from_description(
        cls, cells: int, spacings: Any, amplitudes: str, norm: Norm, bits: int, **_: Any
    ) -> Self:
        cells = check_integer("cells", cells, 1, LARGEST_LINE)
        check_sequence("spacing", spacings, MOST_LEVELS)
        counts = [len(_knots(cells, spacing)[1]) for spacing in spacings]
        flat = integers_from_text(amplitudes, (sum(counts),))
        rows = np.split(flat, np.cumsum(counts)[:-1]) if counts else []
        return cls(cells, spacings, rows, norm, bits)

    def _leftover(self) -> Integers:
        """Return the largest weight of each cell alone for which its column has norm at most 1."""
        unit = 1 << self.bits
        spent = np.zeros(self.cells, np.int64)
        for level in self._levels:
            spent += (level.falls**self.norm) + (level.rises**self.norm)
        remaining: Integers = unit**self.norm - spent
        if remaining.min() < 1:
            worst = int(np.argmin(remaining))
            raise InvalidInputError(
                f"the measurements of cell {worst} use {int(spent[worst])} of the "
                f"{unit**self.norm} that a column may have, and leave nothing for the cell "
                "itself: give smaller amplitudes"
            )
        if self.norm == 1:
            return remaining
        root = np.sqrt(remaining.astype(np.float64)).astype(np.int64)  # exact or one too large
        return np.asarray(np.maximum(root - (root**2 > remaining), 1))

    # ----------------------------------------------------------------- what is measured

    @cached_property
    def dense(self) -> Floats:
        """H, shape (rows, cells)."""
        return self.under(np.eye(self.rows, dtype=np.int64)).astype(np.float64)

    @override
    def over(self, cells: NDArray[Any]) -> NDArray[Any]:
        if self.few and len(cells) > 1 and cells.dtype == float:
            return np.asarray(cells @ self.dense.T)
        out = np.zeros((len(cells), self.rows), cells.dtype)
        for level in self._levels:
            knots = level.first
            count = len(level.starts)
            for weights, shift in ((level.falls, 0), (level.rises, 1)):
                sums = np.add.reduceat(weights.astype(cells.dtype) * cells, level.starts, axis=1)
                out[:, knots + shift : knots + shift + count] += sums
        return out

    @override
    def under(self, hats: NDArray[Any]) -> NDArray[Any]:
        """Return H^T y for each row y of ``hats``, in their dtype; integers are modulo 2^64.

        Args:
            hats: numbers for the hats, shape (vectors, rows).

        Returns:
            Shape (vectors, cells).
        """
        if self.few and len(hats) > 1 and hats.dtype == float:
            return np.asarray(hats @ self.dense)
        out = np.zeros((len(hats), self.cells), hats.dtype)
        spread = np.empty_like(out)
        for level in self._levels:
            for weights, shift in ((level.falls, 0), (level.rises, 1)):
                np.take(
                    hats, level.interval + (level.first + shift), axis=1, out=spread, mode="clip"
                )
                spread *= weights.astype(hats.dtype)
                out += spread
        return out

    @override
    def measure(self, counts: Integers) -> Integers:
        """Return the exact measurements: first of the hats of each level, then of single cells.

        Args:
            counts: exact counts of cells, int64, shape (cells, ...).
        """
        lines = np.ascontiguousarray(counts.reshape(self.cells, -1).T)
        measured = np.concatenate([self.over(lines), self.own * lines], axis=1)
        return np.ascontiguousarray(measured.T).reshape(-1, *counts.shape[1:])

    @override
    def rows_of(self, cell: int) -> list[tuple[int, int]]:
        reads = []
        for level in self._levels:
            interval = int(np.searchsorted(level.starts, cell, side="right")) - 1
            for weights, shift in ((level.falls, 0), (level.rises, 1)):
                if weights[cell]:
                    reads.append((level.first + interval + shift, int(weights[cell])))
        return reads

    @override
    def powers(self, norm: Norm) -> Integers:
        zeros = np.zeros(self.cells, np.int64)
        both = (np.abs(v.falls) ** norm + np.abs(v.rises) ** norm for v in self._levels)
        return np.asarray(sum(both, zeros))

    @property
    @override
    def spread(self) -> float:
        return float(self.under(self.over(np.ones((1, self.cells)))).max()) * (1 + 2.0**-20)

    @override
    def overlap(self, lag: int) -> int:
        """Return an upper bound on the inner product of two columns ``lag`` or more apart.

        For a bound for every distance, the second cell gets, in each hat, the largest weight that
        the hat has ``lag`` or more cells after the first.

        Args:
            lag: the least distance of the two columns in cells, from 1.
        """
        if lag >= self.cells:
            return 0
        products = np.zeros(self.cells - lag, np.int64)
        for level in self._levels:
            ends = level.starts + level.lengths - 1
            tops = np.zeros(len(level.starts) + 1, np.int64)
            tops[:-1] = level.falls[level.starts]
            tops[1:] = level.rises[ends]
            np.maximum(tops[1:-1], level.falls[level.starts[1:]], out=tops[1:-1])
            here = level.interval[:-lag]
            there = level.interval[lag:]
            for weights, shift in ((level.falls, 0), (level.rises, 1)):
                hat = here + shift  # ``lag`` cells on, the hat rises, falls, or has ended
                down = np.where(there == hat, level.falls[lag:], 0)
                highest = np.where(there < hat, tops[hat], down)
                products += weights[:-lag] * highest
        return int(products.max())

    @override
    def largest_column(self, norm: Norm) -> int:
        return int((np.abs(self.own) ** norm + self.powers(norm)).max())

    @property
    @override
    def largest_entry(self) -> int:
        hats = [int(np.maximum(np.abs(v.falls), np.abs(v.rises)).max()) for v in self._levels]
        return max([int(self.own.max()), *hats, 1])

    # ------------------------------------------------------------------ what is estimated

    @override
    def equations(self, precision: Floats) -> NormalEquations:
        """Return the equations for estimating the cells, in linear time.

        Args:
            precision: 1 / variance of a separate estimate of each cell, shape (cells,).
        """
        return _HatEquations(self, precision)

    @cached_property
    def _solver(self) -> NormalEquations:
        return self.equations(self.own.astype(np.float64) ** 2)

    @override
    def estimate(self, measured: IntegersOrFloats) -> Floats:
        lines = np.ascontiguousarray(measured.reshape(self.measurements, -1).T, np.float64)
        right = self.under(lines[:, : self.rows]) + self.own * lines[:, self.rows :]
        return np.ascontiguousarray(self._solver.solve(right).T).reshape(
            self.cells, *measured.shape[1:]
        )

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        return self._solver.range_variance(low, high)

    @override
    def ranges_variance(self) -> float:
        # With V the variance it is (n + 1) times the sum over t of V(prefix t), less V(sum of all
        # prefixes).
        weights = np.arange(self.cells, 0, -1.0)
        return (self.cells + 1) * float(self._solver.variances[0][1:].sum()) - (
            self.functional_variance(weights[None])
        )

    @override
    def functional_variance(self, weights: Floats) -> float:
        rows = max(1, _ENTRIES_PER_CHUNK * 16 // self.cells)
        parts = (weights[start : start + rows] for start in range(0, len(weights), rows))
        return math.fsum(float((part * self._solver.solve(part)).sum()) for part in parts)


def _knots(cells: int, spacing_or_knots: object) -> tuple[int | tuple[int, ...], Integers]:
    """Return the stated distance or positions of a level's knots, and its knots as int64.

    Knots increase; only the last may lie beyond the cells.
    """
    if not isinstance(spacing_or_knots, (list, tuple, range, np.ndarray)):
        distance = check_integer("spacing", spacing_or_knots, 1, LARGEST_KNOT)
        return distance, np.arange(-(-cells // distance) + 1) * np.int64(distance)
    spacing = check_integers("knot", spacing_or_knots, 0, LARGEST_KNOT, most=cells + 1)
    knots = np.array(spacing, np.int64)
    if len(knots) < 2 or (np.diff(knots) < 1).any() or not knots[-2] < cells <= knots[-1]:
        raise InvalidInputError(
            f"knots (the cells at which the tents of a level have their peaks) over {cells} cells "
            f"are {shorten(spacing)}; give increasing integers from 0 on, and only the last of "
            f"them may be {cells} or more"
        )
    return spacing, knots


def _check_amplitudes(amplitudes: object, knots: int, bits: int, cells: int) -> Integers:
    check_sequence("amplitude", amplitudes, cells + 1)
    try:
        array = np.asarray(amplitudes)
    except (ValueError, OverflowError):  # ragged
        array = np.array(None)
    if array.shape != (knots,) or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"amplitudes of a level have shape {array.shape} and type {array.dtype}; give an "
            f"integer for each of its {knots} knots (the cells of its peaks)"
        )
    if array.min() < 0 or array.max() > 1 << bits:
        raise InvalidInputError(
            f"amplitudes of a level are from {array.min()} to {array.max()}; they must be from 0 "
            f"to 2^{bits}"
        )
    array = array.astype(np.int64)
    array.flags.writeable = False
    return array


def _level(cells: int, knots: Integers, amplitudes: Integers, first: int) -> _Level:
    """Return the intervals between a level's knots, and the weights of its hats from ``first``."""
    # A hat's weight is its height at the middle of the cell times its amplitude, rounded.
    starts = knots[:-1].copy()
    starts[0] = 0
    lengths = np.minimum(knots[1:], cells) - starts
    interval = np.repeat(np.arange(len(starts)), lengths)
    # It is the distance of each cell's middle from the knot to its left, in half cells.
    risen = 2 * (np.arange(cells) - knots[interval]) + 1
    np.maximum(risen, 0, out=risen)  # the first hat is constant up to its knot
    width = 2 * np.diff(knots)[interval]
    falling = amplitudes[interval]
    rising = amplitudes[interval + 1]
    falls, rises = (  # rounded, halves up
        np.asarray((2 * product + width) // (2 * width), np.int64)
        for product in (falling * (width - risen), rising * risen)
    )
    return _Level(starts, lengths, falls, rises, interval, first)


class _Segments(NamedTuple):
    """The ends of hats, in order along the line. A *segment* is a range of cells between them.

    Attributes:
        ends: for each hat but the last two of each level, the first cell in which it is 0 again.
        slots_of_ends: the slot of each of these hats.
    """

    ends: Integers
    slots_of_ends: Integers

    @property
    def starts(self) -> Integers:
        """The first cell of each segment."""
        return np.concatenate([[0], self.ends])

    def sums(self, numbers: Floats) -> Floats:
        """Return the sum of numbers of cells over each segment; 0 for an empty one."""
        starts = self.starts
        sums = np.add.reduceat(numbers, starts)
        sums[:-1][starts[1:] == starts[:-1]] = 0.0
        return np.asarray(sums)


def _segments_of(levels: Sequence[_Level]) -> _Segments:
    """Return the segments of a line."""
    # Each level's hats end in order, at the starts of its intervals; all last hats end with the
    # line.
    ends = np.concatenate([np.zeros(0, np.int64), *(level.starts[1:] for level in levels)])
    slots = np.concatenate(
        [
            np.zeros(0, np.int64),
            *(
                2 * level_index + (np.arange(len(level.starts) - 1) & 1)
                for level_index, level in enumerate(levels)
            ),
        ]
    )
    order = np.argsort(ends, kind="stable")
    return _Segments(ends[order], slots[order])


def _weights_in_slots(levels: Sequence[_Level]) -> list[Floats]:
    """Return the weights in every cell of the hats of each slot."""
    in_slots = []
    for level in levels:
        for rises in ((level.interval & 1).astype(bool), (level.interval & 1) == 0):
            weights = np.where(rises, level.rises, level.falls)
            in_slots.append(weights.astype(np.float64))
    return in_slots


class _SegmentProducts(NamedTuple):
    """Sums over the cells of each segment, divided by the cells' precision.

    Attributes:
        grams: sums of products of the weights of two slots: shape (segments, slots, slots).
        weights: sums of the weights of a slot: shape (segments, slots).
        ones: sums of ones: shape (segments,).
    """

    grams: Floats
    weights: Floats
    ones: Floats


def _segment_products(
    segments: _Segments, in_slots: Sequence[Floats], inverse: Floats
) -> _SegmentProducts:
    """Return the sums over segments, given the weights by slot, and 1 / precision of cells."""
    slots = len(in_slots)
    count = len(segments.starts)
    grams = np.zeros((count, slots, slots))
    weights = np.zeros((count, slots))
    for a in range(slots):
        scaled = in_slots[a] * inverse
        weights[:, a] = segments.sums(scaled)
        for b in range(a + 1):
            grams[:, a, b] = grams[:, b, a] = segments.sums(scaled * in_slots[b])
    return _SegmentProducts(grams, weights, segments.sums(inverse))


class _Factors(NamedTuple):
    """The factors of K = L diag(pivots) L^T, by hat in the order in which hats are eliminated.

    Attributes:
        hats: indices of the hats.
        slots: their slots.
        others: hats that overlap each of them, by slot: shape (hats, slots).
        ratios: the entries of L for these: shape (hats, slots).
        pivots: the diagonal matrix.
        variances_before: at the start of each segment, the variance of the sum of all earlier
            cells, before the hats that are still above 0 lower it.
        weights_before: the weights of these hats in it, by slot: shape (segments, slots).
    """

    hats: Integers
    slots: list[int]
    others: Integers
    ratios: Floats
    pivots: Floats
    variances_before: Floats
    weights_before: Floats


def _factors(levels: Sequence[_Level], segments: _Segments, products: _SegmentProducts) -> _Factors:
    """Factor K by eliminating hats in the order in which they fall to 0."""
    n_slots = 2 * len(levels)
    n_segments = len(segments.starts)
    slots = [*segments.slots_of_ends.tolist(), *range(n_slots)]
    factors = _Factors(
        hats=np.zeros(len(slots), np.int64),
        slots=slots,
        others=np.zeros((len(slots), n_slots), np.int64),
        ratios=np.zeros((len(slots), n_slots)),
        pivots=np.ones(len(slots)),
        variances_before=np.zeros(n_segments),
        weights_before=np.zeros((n_segments, n_slots)),
    )
    gram = np.eye(n_slots)
    weights = np.zeros(n_slots)
    variance = 0.0
    active = np.array([level.first + k for level in levels for k in (0, 1)], np.int64)
    for event, slot in enumerate(slots):
        if event < n_segments:
            factors.variances_before[event] = variance
            factors.weights_before[event] = weights
            gram += products.grams[event]
            weights = weights + products.weights[event]
            variance += products.ones[event]
        pivot = gram[slot, slot]
        ratio = gram[slot] / pivot
        ratio[slot] = 0.0
        factors.hats[event] = active[slot]
        factors.others[event] = active
        factors.pivots[event] = pivot
        factors.ratios[event] = ratio
        variance -= weights[slot] ** 2 / pivot
        weights = weights - ratio * weights[slot]
        gram -= ratio[:, None] * gram[slot]
        gram[slot] = gram[:, slot] = 0.0
        weights[slot] = 0.0
        if event < n_segments - 1:  # the next hat of the level takes the slot
            gram[slot, slot] = 1.0
            active[slot] += 2
    return factors


def _inverses_by_segment(factors: _Factors) -> Floats:
    """Return the entries of K^-1 for hats that overlap: shape (segments, slots, slots)."""
    n_segments, n_slots = factors.weights_before.shape
    overlapping = np.zeros((n_segments, n_slots, n_slots))
    inverse = np.zeros((n_slots, n_slots))
    for event in range(len(factors.slots) - 1, -1, -1):
        slot = factors.slots[event]
        ratio = factors.ratios[event]
        column = -(inverse @ ratio)
        column[slot] = 1.0 / factors.pivots[event] - float(ratio @ column)
        inverse[slot] = inverse[:, slot] = column
        if event < n_segments:
            overlapping[event] = inverse
    return overlapping


class _SumBefore(NamedTuple):
    """The sum of all cells before a cell, before the hats above 0 in it lower its variance.

    Attributes:
        variance: its variance.
        weights: the weights of these hats in it, by slot.
    """

    variance: float
    weights: Floats


class _HatEquations(NormalEquations):
    """The equations G u = r of least squares, with G = H^T H + D and D = diag(precision).

    H has the weight of each hat in every cell. They are solved with K = I + H D^-1 H^T; see the
    module's docstring.

    In every cell two hats of each level are above 0, with an even and an odd index. So each level
    has two *slots*.
    """

    def __init__(self, strategy: Hats, precision: Floats) -> None:
        self._strategy = strategy
        self._levels = strategy._levels
        self._alone = 1.0 / precision
        self.floor = precision
        self._cells = len(precision)
        self._segments = _segments_of(self._levels)
        self._in_slots = _weights_in_slots(self._levels)
        products = _segment_products(self._segments, self._in_slots, self._alone)
        self._factors = _factors(self._levels, self._segments, products)

    @cached_property
    @override
    def variances(self) -> tuple[Floats, Floats]:
        n_slots = len(self._in_slots)
        inverses = _inverses_by_segment(self._factors)
        prefixes = np.zeros(self._cells + 1)
        singles = np.empty(self._cells)
        size = max(1, _ENTRIES_PER_CHUNK // max(n_slots, 1) ** 2 * 8)
        before = _SumBefore(0.0, np.zeros(n_slots))
        for part in _slices(self._cells, size):
            prefixes[1:][part], singles[part], before = self._variances_of(part, before, inverses)
        return prefixes, singles

    def _variances_of(
        self, part: slice, before: _SumBefore, inverses: Floats
    ) -> tuple[Floats, Floats, _SumBefore]:
        """Return the variances of the sums up to each cell of ``part``, and of the single cells.

        Args:
            part: consecutive cells.
            before: the sum of all cells before them.
            inverses: entries of K^-1, by segment.

        Returns:
            Both variances, and the sum of all cells up to the end of ``part``.
        """
        n_slots = len(self._in_slots)
        alone = self._alone[part]
        segment = np.searchsorted(
            self._segments.ends, np.arange(part.start, part.stop), side="right"
        )
        in_slots = np.zeros((len(alone), 0))
        if n_slots:
            in_slots = np.stack([weights[part] for weights in self._in_slots], 1)
        scaled = in_slots * alone[:, None]
        weight_sums = np.concatenate([np.zeros((1, n_slots)), np.cumsum(scaled, axis=0)])
        sums_alone = np.concatenate([[0.0], np.cumsum(alone)])
        # What is added begins at the start of the cell's segment, or of the part.
        begin = self._segments.starts[segment]
        begins_here = begin >= part.start
        from_start = np.maximum(begin - part.start, 0)
        weights = np.where(
            begins_here[:, None], self._factors.weights_before[segment], before.weights
        )
        weights = weights + weight_sums[1:] - weight_sums[from_start]
        sums = np.where(begins_here, self._factors.variances_before[segment], before.variance)
        sums = sums + sums_alone[1:] - sums_alone[from_start]
        inverse = inverses[segment]
        prefixes = sums - np.einsum("ca,cab,cb->c", weights, inverse, weights, optimize=True)
        singles = alone - np.einsum("ca,cab,cb->c", scaled, inverse, scaled, optimize=True)
        return prefixes, singles, _SumBefore(float(sums[-1]), weights[-1])

    @override
    def solve(self, right: Floats) -> Floats:
        hats = self._strategy.over(right * self._alone)
        if self._strategy.few and len(right) > 1:
            hats = hats @ self._inverse
        elif len(right) == 1:
            hats[0] = self._solve_column(hats[0].tolist())
        else:
            hats = np.ascontiguousarray(self._solve_columns(np.ascontiguousarray(hats.T)).T)
        return np.asarray((right - self._strategy.under(hats)) * self._alone)

    @cached_property
    def _inverse(self) -> Floats:
        return self._solve_columns(np.eye(self._strategy.rows))

    def _solve_columns(self, columns: Floats) -> Floats:
        """Return K^-1 times each column (overwritten)."""
        factors = self._factors
        hats = factors.hats.tolist()
        for event, hat in enumerate(hats):
            columns[factors.others[event]] -= factors.ratios[event][:, None] * columns[hat]
        columns[factors.hats] /= factors.pivots[:, None]
        for event in range(len(hats) - 1, -1, -1):
            columns[hats[event]] -= factors.ratios[event] @ columns[factors.others[event]]
        return columns

    def _solve_column(self, right: list[float]) -> list[float]:
        """Return K^-1 ``right`` (overwritten) for a single column, faster than `solve`."""
        hats = self._factors.hats.tolist()
        others = self._factors.others.tolist()
        ratios = self._factors.ratios.tolist()
        for hat, theirs, ratios_of_hat in zip(hats, others, ratios, strict=True):
            value = right[hat]
            for other, ratio in zip(theirs, ratios_of_hat, strict=True):
                right[other] -= ratio * value
        for hat, pivot in zip(hats, self._factors.pivots.tolist(), strict=True):
            right[hat] /= pivot
        for hat, theirs, ratios_of_hat in zip(hats[::-1], others[::-1], ratios[::-1], strict=True):
            read = 0.0
            for other, ratio in zip(theirs, ratios_of_hat, strict=True):
                read += ratio * right[other]
            right[hat] -= read
        return right

    @override
    def range_variance(self, low: Integers, high: Integers) -> Floats:
        low, high = np.broadcast_arrays(low, high)
        shape = low.shape
        first = low.ravel().astype(float)
        last = high.ravel().astype(float)
        variances = np.empty(len(first))
        sums, singles = self.variances
        cell = np.minimum(first.astype(np.int64), self._cells - 1)
        is_within_cell = last <= cell + 1
        variances[is_within_cell] = (last - first)[is_within_cell] ** 2 * singles[
            cell[is_within_cell]
        ]
        # These begin at cell 0. If the end lies inside a cell, only the part before it counts.
        prefix = ~is_within_cell & (first == 0)
        end = np.minimum(last[prefix].astype(np.int64), self._cells - 1)
        share = last[prefix] - end
        variances[prefix] = (
            (1 - share) * sums[end] + share * sums[end + 1] - share * (1 - share) * singles[end]
        )
        rest = np.flatnonzero(~is_within_cell & ~prefix)
        columns = max(1, _ENTRIES_PER_CHUNK * 4 // max(self._strategy.rows, 1))
        for part in _slices(len(rest), columns):
            some = rest[part]
            variances[some] = self._between(first[some], last[some])
        return variances.reshape(shape)

    @cached_property
    def _running(self) -> list[tuple[Floats, Floats]]:
        """By level, running sums from 0 of falling and rising hats' weights / ``precision``."""
        sums_by_level = []
        for level in self._levels:
            both = []
            for weights in (level.falls, level.rises):
                sums = np.concatenate([[0.0], np.cumsum(weights * self._alone)])
                both.append(sums)
            sums_by_level.append((both[0], both[1]))
        return sums_by_level

    def _read(self, ends: Floats) -> Floats:
        """Return H D^-1 w, shape (hats, ends), for the sum of the cells from 0 to each real end."""
        # For hats whose interval lies wholly before a position, running sums over whole intervals
        # are used.
        cell = np.minimum(ends.astype(np.int64), self._cells - 1)
        share = ends - cell
        out = np.zeros((self._strategy.rows, len(ends)))
        positions = np.arange(len(ends))
        for level, (falls, rises) in zip(self._levels, self._running, strict=True):
            count = len(level.starts)
            interval = np.searchsorted(level.starts, cell, side="right") - 1
            begin = level.starts
            end = level.starts + level.lengths
            fallen = falls[end] - falls[begin]
            risen = rises[end] - rises[begin]
            done = np.arange(count)[:, None] < interval
            out[level.first : level.first + count] += np.where(done, fallen[:, None], 0.0)
            out[level.first + 1 : level.first + 1 + count] += np.where(done, risen[:, None], 0.0)
            for sums, shift in ((falls, 0), (rises, 1)):
                partial = sums[cell] - sums[begin[interval]] + share * (sums[cell + 1] - sums[cell])
                out[level.first + interval + shift, positions] += partial
        return out

    @cached_property
    def _plain(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self._alone)])

    def _between(self, first: Floats, last: Floats) -> Floats:
        """Return the variances of sums between positions that lie in different cells."""
        low = first.astype(np.int64)
        high = np.minimum(last.astype(np.int64), self._cells - 1)
        inverse = self._alone
        # Squares of the weights over D are summed: of whole cells, and of the parts that the ends
        # cut off.
        whole = self._plain[high] - self._plain[low]
        cut = first - low
        more = last - high
        squares = whole + ((1 - cut) ** 2 - 1) * inverse[low] + more**2 * inverse[high]
        right = self._read(last) - self._read(first)
        # r^T K^-1 r is taken off for each column r of ``right``, with K = I + H D^-1 H^T.
        factors = self._factors
        for event, hat in enumerate(factors.hats.tolist()):
            right[factors.others[event]] -= factors.ratios[event][:, None] * right[hat]
        return np.asarray(
            squares - (right[factors.hats] ** 2 / factors.pivots[:, None]).sum(axis=0)
        )


def _slices(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))

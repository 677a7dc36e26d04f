"""The search for what `counton.strategies.streams.shapes` ships: levels of hats, of least error.

A *shape* is a line of hats (`Hats`) with, for longer streams, a tree inside each cell
(`LeastSquaresStrategy`). Searched for are the knots of all levels and an amplitude for each,
so that the columns of C have norm 1 and the mean (or largest) variance of the released totals is
least: by L-BFGS, with the exact gradient. The tree inside a cell enters by what it tells about the
cell's total and by the variances it adds.

**Variances in linear time.** At any time only two hats of each level are alive. Down the line goes
a filter: the covariance P_t of (S_t, the live hats' sums so far), S_t the sum of the first t cells,
given the cells up to t and the hats that have ended. Up the line goes the covariance Q_t of what
is yet to come of the hats that are alive, noise included, given all that comes later. Then

    Var(S_t) = P_SS - P_Sa (P_aa + Q_t)^-1 P_aS.

Both change by a rank-one term a cell, and by one where a hat ends or begins. So does the gradient,
going through the same steps the other way round.

`make shapes` runs it: some hours on one processor. What it finds can differ in the last
digits between processors, which is why it is shipped. Every shape is kept as soon as it is found;
run again, the search goes on where it was.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, integers_to_text
from counton.strategies.strategy import Metric, Norm, ReleaseForm
from counton.strategies.streams.shapes import AMPLITUDE_BITS, Shape, tree
from counton.tables.optimal import _improve, laplace_rows
from counton.tables.workloads import Prefixes

Question = tuple[Norm, Metric, ReleaseForm]
#: What is searched for.
QUESTIONS: tuple[Question, ...] = (
    (1, "mean", "totals"),
    (1, "max", "totals"),
    (1, "mean", "both"),
)
#: The largest variance is smoothed to the p-norm of all.
_SMOOTH = 24.0
#: Steps of the descent: on amplitudes from every guess, on all from the best, on the lattice.
_FIRST_STEPS = 40
_STEPS = 300
_LAST_STEPS = 60
#: Most cells of a line: more lower the error by a percent at a million steps.
_MOST_CELLS = 8192
#: Up to so many cells every horizon is searched.
_SMALL = 64
#: Up to so many cells a dense matrix is searched for beside it: for the mean over totals there are
#: more guesses, so that shapes lose little to it. On few cells descents end at many places:
#: guesses are also shaken, so often each, and so many descents are followed to their ends.
_BESIDE_DENSE = 512
_SHAKEN_CELLS = 240
_SHAKEN = 12
_DESCENTS = 40
#: Searches that begin at known shapes: of how many neighbours, the logarithms by which numbers of
#: knots differ, and up to which multiple of the best error a descent is followed to its end.
_NEAR = 5
_KNOTS = (0.0, 0.05, 0.12, 0.25)
_WORTH = 1.008
#: Shares inside a cell are multiples of 1 / 256.
_SHARES = 256
#: For the mean over these numbers of steps, rows of any form are searched for, by descents of so
#: many steps from weights not below this part of a cell's own: at 0 slopes are 0.
_ROWS: dict[ReleaseForm, range] = {"totals": range(10, 513), "both": range(13, 513)}
_ROW_STEPS = 400
_LEAST_ROW = 1e-6
#: Logarithm of the least distance between two knots, in cells.
_LEAST_GAP = -7.0
#: No cell's own weight falls below this.
_LEAST_OWN = 1e-3


class Inside(NamedTuple):
    """The effect of a tree inside each cell on the variances of released numbers, if a budget of 1
    is spent in the cell.

    Let S_j be the estimated sum of the first j cells, and x_j that of the j-th cell. A total
    released within cell j has variance (mean, or that in the middle) ``before`` Var(S_(j-1)) + (1 -
    ``before``) Var(S_j) + ``own`` Var(x_j) + ``added``. The count of a single step has variance
    ``step_own`` Var(x_j) + ``step_added``.
    """

    information: float  # 1 / variance of the estimate of the cell's total from inside it
    before: float
    own: float
    added: float
    step_own: float
    step_added: float


def inside(radices: Sequence[int], shares: Sequence[float], metric: Metric = "mean") -> Inside:
    """Compute the effect (`Inside`) of a tree inside a cell.

    Args:
        radices: number of children of a node at each level, from the lowest level up; (): each cell
            is one step.
        shares: fraction of the budget of each level but the root, from single steps up. The
            fractions add up to 1 under norm 1; under norm 2 their squares do.
        metric: "mean" for the mean over the cell's steps, "max" for the largest variance.

    >>> inside((4,), (1.0,)).information, inside((), ())
    (0.25, Inside(information=1.0, before=0.0, own=0.0, added=0.0, step_own=1.0, step_added=0.0))
    """
    if not radices:
        return Inside(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    mean = square = 1.0  # of the part of a node that a prefix takes, and of its square
    added = step_added = worst = 0.0
    step_own = 1.0
    total = math.inf
    for radix, share in zip(radices, shares, strict=True):
        variance = 1 / (share**2 + 1 / total)  # of a child, from itself and from below
        places = np.arange(radix)
        squares = places**2 + 2 * places * mean + square
        added += variance * float((places + square - squares / radix).mean())
        worst += variance * radix / 4
        step_added += step_own * variance * (1 - 1 / radix)
        step_own /= radix**2
        mean = float((places + mean).mean()) / radix
        square = float(squares.mean()) / radix**2
        total = radix * variance
    if metric == "max":
        return Inside(1 / total, 0.5, -0.25, worst, step_own, step_added)
    return Inside(1 / total, 1 - mean, square - mean, added, step_own, step_added)


class Slots(NamedTuple):
    """The hats that are alive at each cell: each level has two slots, which its hats take in turn.

    A hat is a sum of cells whose weights rise to a knot and fall after it, like a triangle.

    Attributes:
        weights: shape (cells, slots), the weight with which each cell enters the hat in each slot.
        turns: pairs (cell, slot): before this cell the hat in the slot ends and another one begins.
    """

    weights: Floats
    turns: list[tuple[int, int]]


def variances(
    slots: Slots, squares: Floats
) -> tuple[Floats, Floats, Callable[[Floats, Floats], tuple[Floats, Floats]]]:
    """Compute the variances of running sums and of cells, estimated by least squares, in units of a
    node's noise variance.

    Args:
        slots: the hats.
        squares: shape (cells,), the squares of the cells' own weights.

    Returns:
        Var(S_t) and Var(x_t), shape (cells,) each, where S_t is the sum of the first t cells and
            x_t the t-th cell; and a function that applies the chain rule. It takes the derivatives
            of any function of these variances, and returns its derivatives by ``slots.weights`` and
            ``squares``.

    >>> slots = Slots(np.array([[1.0], [1.0]]), [])
    >>> variances(slots, np.ones(2))[0].round(6).tolist()  # C^T C = [[2, 1], [1, 2]]
    [0.666667, 0.666667]
    """
    weights = slots.weights
    cells = len(squares)
    ends: dict[int, list[int]] = {}
    for cell, slot in slots.turns:
        ends.setdefault(cell, []).append(slot)
    edges = [0, *sorted(ends), cells]
    runs = list(itertools.pairwise(edges))
    both = np.concatenate([np.ones((cells, 1)), weights], axis=1)
    steps = both[:, :, None] * both[:, None, :] / squares[:, None, None]
    down = np.empty_like(steps)
    turned_down = {}
    state = np.zeros(steps.shape[1:])
    for start, stop in runs:
        turned_down[start] = [_turn(state, slot + 1, 1.0, 0.0) for slot in ends.get(start, ())]
        np.cumsum(steps[start:stop], axis=0, out=down[start:stop])
        down[start:stop] += state
        state = down[stop - 1].copy()
    inner = np.ascontiguousarray(steps[:, 1:, 1:])
    up = np.empty_like(inner)
    turned_up = {}
    state = np.eye(weights.shape[1])
    for start, stop in reversed(runs):
        up[stop - 1] = state
        np.cumsum(inner[stop - 1 : start : -1], axis=0, out=up[start : stop - 1][::-1])
        up[start : stop - 1] += state
        state = up[start] + inner[start]
        turned_up[start] = [_turn(state, slot, 0.0, 1.0) for slot in reversed(ends.get(start, []))]
    across = np.stack([down[:, 1:, 0], weights / squares[:, None]], axis=2)
    solved = np.linalg.solve(down[:, 1:, 1:] + up, across)
    explained = (across * solved).sum(axis=1)
    totals = down[:, 0, 0] - explained[:, 0]
    own = 1 / squares - explained[:, 1]

    def slopes(by_totals: Floats, by_own: Floats) -> tuple[Floats, Floats]:
        left = np.concatenate([np.ones((cells, 1)), -solved[:, :, 0]], axis=1)
        gained = by_totals[:, None, None] * left[:, :, None] * left[:, None, :]
        other = by_own[:, None, None] * solved[:, :, None, 1] * solved[:, None, :, 1]
        gained[:, 1:, 1:] += other
        by_steps = np.empty_like(gained)
        carry = np.zeros(gained.shape[1:])
        for start, stop in reversed(runs):
            np.cumsum(gained[start:stop][::-1], axis=0, out=by_steps[start:stop][::-1])
            by_steps[start:stop] += carry
            carry = by_steps[start].copy()
            for slot, turn in zip(
                reversed(ends.get(start, [])), reversed(turned_down[start]), strict=True
            ):
                _turn_back(carry, slot + 1, *turn)
        gained = by_totals[:, None, None] * solved[:, :, None, 0] * solved[:, None, :, 0] + other
        upwards = np.zeros_like(gained)
        carry = np.zeros(gained.shape[1:])
        for start, stop in runs:
            for slot, turn in zip(ends.get(start, ()), reversed(turned_up[start]), strict=True):
                _turn_back(carry, slot, *turn)
            upwards[start] = carry if start else 0
            np.cumsum(gained[start : stop - 1], axis=0, out=upwards[start + 1 : stop])
            upwards[start + 1 : stop] += carry
            carry = upwards[stop - 1] + gained[stop - 1]
        by_steps[:, 1:, 1:] += upwards
        applied = np.einsum("tij,tj->ti", by_steps, both)
        by_weights = 2 * applied[:, 1:] / squares[:, None]
        by_weights -= 2 * (by_own / squares)[:, None] * solved[:, :, 1]
        by_squares = -(applied * both).sum(axis=1) / squares**2
        by_squares += by_own * (2 * explained[:, 1] / squares - 1 / squares**2)
        return by_weights, by_squares

    return totals, own, slopes


def _turn(state: Floats, slot: int, noise: float, fresh: float) -> tuple[Floats, float]:
    """Replace the hat in a slot: condition the covariance ``state`` on the old hat, measured with
    ``noise``, and set the new hat's variance to ``fresh``.

    Return the slot's old column and its variance with noise, which `_turn_back` needs.
    """
    column = state[slot].copy()
    variance = float(column[slot]) + noise
    state -= column[:, None] * (column / variance)
    state[slot] = state[:, slot] = 0.0
    state[slot, slot] = fresh
    return column, variance


def _turn_back(slope: Floats, slot: int, column: Floats, variance: float) -> None:
    """Convert the derivative by the covariance after `_turn` to the derivative by the covariance
    before it, in place.

    Args:
        slope: the derivative.
        slot: the slot.
        column, variance: the result of `_turn`.
    """
    slope[slot] = slope[:, slot] = 0.0
    along = slope @ column / variance
    slope[slot] -= along
    slope[:, slot] -= along
    slope[slot, slot] += float(along @ column) / variance


class Problem(NamedTuple):
    """One search problem: a line of hats (sums of cells with triangles as weights), and the tree
    inside each cell.

    Attributes:
        cells: number of cells.
        norm: norm by which columns of C are bounded, 1 or 2.
        metric: whether the mean or the largest variance is minimised.
        release: whether totals, or totals and windows, are released.
        radices: number of children of a node at each level of the tree inside a cell.
    """

    cells: int
    norm: Norm = 1
    metric: Metric = "mean"
    release: ReleaseForm = "totals"
    radices: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Number of steps of the stream: cells times the steps in a cell."""
        return self.cells * math.prod(self.radices)

    @property
    def beside_dense(self) -> bool:
        """True if a dense matrix is searched for elsewhere for the same problem, so that results
        are compared.
        """
        plain = (self.metric, self.release, self.radices) == ("mean", "totals", ())
        return plain and _SMALL < self.cells <= _BESIDE_DENSE

    @property
    def of_rows(self) -> bool:
        """True if rows of any form are shipped."""
        plain = (self.norm, self.metric, self.radices) == (1, "mean", ())
        return plain and self.cells in _ROWS[self.release]


class Levels:
    """Levels of hats (sums of cells with triangles as weights) during a search, with real-valued
    knots and amplitudes.

    Attributes:
        knots: for each level, increasing positions of the triangles' peaks; before the first and
            after the last knot hats are flat.
        amplitudes: for each level, a positive number for each knot.
        shares: fraction of a cell's budget for each level of the tree inside it.
    """

    def __init__(
        self,
        problem: Problem,
        knots: Sequence[Floats],
        amplitudes: Sequence[Floats],
        shares: Sequence[float] = (),
    ) -> None:
        self.problem = problem
        self.knots = list(knots)
        self.amplitudes = list(amplitudes)
        self.fixed: dict[int, int] = {}  # spacings that stay as they are
        parts = len(problem.radices)
        self.shares = tuple(shares) or (max(parts, 1) ** (-1 / problem.norm),) * parts

    @classmethod
    def uniform(cls, problem: Problem, spacings: Sequence[float]) -> Self:
        """Build levels of constant spacing and amplitude; a spacing that is an integer stays fixed
        in the search.
        """
        knots: list[Floats] = []
        fixed = {}
        for level, spacing in enumerate(spacings):
            if isinstance(spacing, int):
                fixed[level] = spacing
                count = -(-problem.cells // int(spacing))
                knots.append(np.arange(count + 1, dtype=np.float64) * spacing)
            else:
                count = max(1, round(problem.cells / spacing))
                knots.append(np.linspace(0.0, problem.cells, count + 1))
        height = (0.7 / len(knots)) ** (1 / problem.norm)
        made = cls(problem, knots, [np.full(len(row), height) for row in knots])
        made.fixed = fixed
        return made

    @classmethod
    def of(cls, shape: Shape, problem: Problem) -> Self:
        """Build levels from a known shape with the same number of cells, to start a search from."""
        knots: list[Floats] = []
        fixed = {}
        for level, (spacing, row) in enumerate(zip(shape.spacings, shape.amplitudes, strict=True)):
            if isinstance(spacing, int):
                fixed[level] = spacing
                knots.append(np.arange(len(row), dtype=np.float64) * spacing)
            else:
                knots.append(spacing.astype(np.float64))
        made = cls(problem, knots, [row / (1 << AMPLITUDE_BITS) for row in shape.amplitudes])
        made.fixed = fixed
        return made

    @classmethod
    def like(cls, shape: Shape, problem: Problem, random: np.random.Generator, by: float) -> Self:
        """Build levels from the shape of another number of cells, to start a search from: stretched
        to this problem's cells, each level with ``by`` more or fewer of its knots, by chance.
        """
        made = cls.of(shape, problem)
        made.fixed = {}
        for level, (row, heights) in enumerate(zip(made.knots, made.amplitudes, strict=True)):
            knots = max(2, round(len(row) * math.exp(random.normal(0.0, by))))
            places = np.linspace(0, len(row) - 1, knots)
            known = np.arange(len(row))
            made.knots[level] = np.interp(places, known, row * (problem.cells / shape.cells))
            made.amplitudes[level] = np.interp(places, known, heights)
        return made

    def shaken(self, random: np.random.Generator) -> Self:
        """Change the gaps between knots and the amplitudes at random; return these levels."""
        for level, row in enumerate(self.knots):
            gaps = np.diff(row) * np.exp(random.normal(0.0, 0.3, len(row) - 1))
            ends = np.cumsum(gaps) * (self.problem.cells / gaps.sum())
            self.knots[level] = np.concatenate([[0.0], ends])
            self.amplitudes[level] *= np.exp(random.normal(-0.2, 0.3, len(row)))
        return self

    @property
    def error(self) -> float:
        """Mean or (smoothed) largest variance, in units of the variance of a node's noise."""
        return math.exp(self._value(*self._placed())[0])

    def _placed(self) -> tuple[list[Integers], list[Floats]]:
        """Return, for each level, the interval between knots that contains each cell, and the
        position in it from 0 to 1.
        """
        cells = np.arange(self.problem.cells) + 0.5
        intervals = []
        places = []
        for row in self.knots:
            interval = np.clip(np.searchsorted(row, cells) - 1, 0, len(row) - 2)
            intervals.append(interval)
            places.append(np.clip((cells - row[interval]) / np.diff(row)[interval], 0.0, 1.0))
        return intervals, places

    def _value(
        self, intervals: list[Integers], places: list[Floats]
    ) -> tuple[float, Callable[[], list[tuple[Floats, Floats]]]]:
        """Return the logarithm of the error, and a function that computes its derivatives.

        The function returns a pair for each level: the derivatives by the weight with which each
        cell enters the hat that falls there, and the hat that rises there.
        """
        problem = self.problem
        norm = self.problem.norm
        count = len(self.knots)
        cells = np.arange(problem.cells)
        weights = np.zeros((problem.cells, 2 * count))
        turns = []
        for level, (interval, place) in enumerate(zip(intervals, places, strict=True)):
            row = self.amplitudes[level]
            odd = interval & 1
            weights[cells, 2 * level + odd] = row[interval] * (1 - place)
            weights[cells, 2 * level + 1 - odd] = row[interval + 1] * place
            for turn in (np.flatnonzero(np.diff(interval)) + 1).tolist():
                turns += [
                    (turn, 2 * level + (ended & 1))
                    for ended in range(int(interval[turn - 1]), int(interval[turn]))
                ]
        left = 1 - (weights**norm).sum(axis=1)
        if left.min() < _LEAST_OWN:
            return 10.0, lambda: [(np.zeros(1), np.zeros(1))] * count
        own = left ** (2 / norm)
        within = inside(problem.radices, self.shares, problem.metric)
        totals, cell, slopes = variances(Slots(weights, turns), within.information * own)
        before = np.concatenate([[0.0], totals[:-1]])
        released = within.before * before + (1 - within.before) * totals
        by_cell = within.own
        by_own = within.added
        share = 1.0
        if problem.release == "both":
            share = 0.5
            by_cell = (by_cell + within.step_own) / 2
            by_own = (by_own + within.step_added) / 2
        released = share * released + by_cell * cell + by_own / own
        power = 1.0 if problem.metric == "mean" else _SMOOTH
        largest = float(released.max())
        mean = float(((released / largest) ** power).mean())
        value = largest * mean ** (1 / power)

        def slope() -> list[tuple[Floats, Floats]]:
            by = (released / largest) ** (power - 1) * (
                mean ** (1 / power - 1) / problem.cells / value
            )
            by_totals = share * (1 - within.before) * by
            by_totals[:-1] += share * within.before * by[1:]
            by_weights, by_squares = slopes(by_totals, by_cell * by)
            # own = left^(2 / norm), left = 1 - the sum of weights^norm
            by_left = (within.information * by_squares - by_own * by / own**2) * (
                2 / norm * left ** (2 / norm - 1)
            )
            by_weights -= norm * weights ** (norm - 1) * by_left[:, None]
            return [
                (
                    by_weights[cells, 2 * level + (interval & 1)],
                    by_weights[cells, 2 * level + 1 - (interval & 1)],
                )
                for level, interval in enumerate(intervals)
            ]

        return math.log(value), slope

    def improve(self, steps: int, move: bool = False) -> Self:
        """Reduce the error by at most ``steps`` steps of L-BFGS; return these levels.

        All amplitudes change. If ``move``, knots change too, except those of fixed spacing.
        """
        from scipy.optimize import minimize

        if not self.knots:
            return self
        free = [k for k in range(len(self.knots)) if move and k not in self.fixed]
        sizes = [len(row) - 1 for row in self.knots]
        largest = math.log(2 * self.problem.cells)

        def unpack(flat: Floats) -> None:
            at = 0
            for level in free:
                self.knots[level] = np.cumsum(
                    np.exp(np.clip(flat[at : at + sizes[level] + 1], _LEAST_GAP, largest))
                )
                at += sizes[level] + 1
            for level, size in enumerate(sizes):
                self.amplitudes[level] = np.exp(np.minimum(flat[at : at + size + 1], 0.0))
                at += size + 1

        def value(flat: Floats) -> tuple[float, Floats]:
            unpack(flat)
            intervals, places = self._placed()
            found, slope = self._value(intervals, places)
            if found == 10.0:
                return found, np.zeros_like(flat)
            by_knots = []
            by_amplitudes = []
            for level, (falls, rises) in enumerate(slope()):
                interval = intervals[level]
                place = places[level]
                row = self.amplitudes[level]
                many = sizes[level] + 1
                by_amplitudes.append(
                    row
                    * (
                        np.bincount(interval, falls * (1 - place), many)
                        + np.bincount(interval + 1, rises * place, many)
                    )
                )
                if level in free:
                    gaps = np.diff(self.knots[level], prepend=0.0)
                    by_place = rises * row[interval + 1] - falls * row[interval]
                    by_place = np.where((place > 0) & (place < 1), by_place, 0.0)
                    by_place /= gaps[interval + 1]
                    by = np.bincount(interval, by_place * (place - 1), many)
                    by -= np.bincount(interval + 1, by_place * place, many)
                    by_knots.append(gaps * np.cumsum(by[::-1])[::-1])
            return found, np.concatenate([*by_knots, *by_amplitudes])

        start = []
        for level in free:
            gaps = np.diff(self.knots[level], prepend=0.0)
            gaps[0] = max(gaps[0], gaps[1] / 4)
            start.append(np.log(gaps))
        start += [np.log(np.maximum(row, 1e-5)) for row in self.amplitudes]
        options = {"maxiter": steps, "maxcor": 20, "ftol": 1e-9}
        best = minimize(value, np.concatenate(start), jac=True, method="L-BFGS-B", options=options)
        unpack(best.x)
        return self

    def share_out(self) -> Self:
        """Find the best shares of a cell's budget for the levels of the tree inside it, with
        unchanged hats; return these levels.
        """
        from scipy.optimize import minimize

        if len(self.problem.radices) > 1:
            placed = self._placed()

            def value(logarithms: Floats) -> float:
                self.shares = self._normed(np.exp(np.append(logarithms, 0.0)))
                return self._value(*placed)[0]

            start = np.log(np.array(self.shares[:-1]) / self.shares[-1])
            options = {"maxiter": 40 * len(start), "xatol": 0.01, "fatol": 1e-5}
            best = minimize(value, start, method="Nelder-Mead", options=options)
            value(best.x)
        return self

    def _normed(self, shares: Floats) -> tuple[float, ...]:
        norm = self.problem.norm
        return tuple((shares / (shares**norm).sum() ** (1 / norm)).tolist())

    def round(self) -> Self:
        """Round knots to whole cells; afterwards each level has exactly one knot at the end or
        beyond, the last one.
        """
        cells = self.problem.cells
        for level, (row, heights) in enumerate(zip(self.knots, self.amplitudes, strict=True)):
            whole = np.rint(row)
            whole[0] = min(whole[0], cells - 1)
            kept = np.concatenate([[True], np.diff(whole) > 0])
            kept[1:] &= whole[:-1] < cells
            whole = whole[kept]
            heights = heights[kept]
            if whole[-1] < cells or len(whole) < 2:
                whole = np.append(whole, cells)
                heights = np.append(heights, heights[-1])
            self.knots[level] = whole
            self.amplitudes[level] = heights
        return self

    def shape(self) -> Shape:
        """Return the shape to ship: with whole knots, and amplitudes in units of the lattice. These
        levels are rounded accordingly.
        """
        problem = self.problem
        units = 1 << AMPLITUDE_BITS
        shares = [max(1, round(share * _SHARES)) for share in self.shares[1:]]
        if self.shares:
            # With norm 1 they add up to a power of two, and so do all columns.
            shares.insert(0, _SHARES - sum(shares) if problem.norm == 1 and shares else 1)
        self.shares = self._normed(np.array(shares, np.float64)) if shares else ()
        self.round().improve(_LAST_STEPS)
        whole = [np.rint(row * units).astype(np.int64) for row in self.amplitudes]
        self.amplitudes = [row / units for row in whole]
        spacings = [
            self.fixed.get(level, row.astype(np.int64)) for level, row in enumerate(self.knots)
        ]
        return Shape(
            problem.norm,
            problem.metric,
            problem.release,
            problem.cells,
            problem.radices,
            tuple(shares),
            tuple(spacings),
            tuple(whole),
        )


def guesses(problem: Problem) -> list[tuple[float, ...]]:
    """Return spacings of levels from which searches start; an integer stays fixed in the search.

    >>> guesses(Problem(8192, radices=(8,)))[0]
    (4, 128.0, 4096.0)
    """
    cells = problem.cells
    block = math.prod(problem.radices)
    if cells <= _SMALL:
        fine = [float(k) for k in (1, 2, 3, 4, 6, 8, 11) if k < cells] or [1.0]
        above: list[tuple[float, ...]] = [(), (float(cells),), (cells / 2,)]
        return [(one, *more) for one in fine for more in above]
    finest: list[float] = [12.0, 14.0, 17.0] if block == 1 else [8.5] if block == 2 else [4]
    found: list[tuple[float, ...]] = []
    if problem.beside_dense:
        found += [(14.0, *between, float(cells)) for between in ((), (14.0,), (20.0,))]
    for spacing in finest:
        for top in (cells / 2, cells / 3):
            for levels in (1, 2, 3, 4):
                ratio = (top / spacing) ** (1 / levels)
                if 8 <= ratio <= 45 or (levels == 1 and ratio < 8):
                    rest = (round(spacing * ratio**k, 1) for k in range(1, levels + 1))
                    found.append((spacing, *rest))
    return found


def search(problem: Problem, near: Shape | None = None) -> tuple[Levels, Shape]:
    """Return the best result of a few descents: the levels, and the shape to ship.

    Args:
        problem: the problem.
        near: the shape of a similar problem with as many cells; the search then starts from it
            alone.

    >>> found, shape = search(Problem(4))  # identity is best
    >>> shape.cells, round(2 * found.error, 2)
    (4, 5.0)
    """
    if near is not None:
        levels = Levels.of(near, problem).share_out().improve(_STEPS // 4, move=True).share_out()
        shape = levels.shape()
        return levels, shape
    trials: list[tuple[float, int, Levels]] = []
    random = np.random.default_rng(problem.cells)
    shaken = problem.beside_dense and problem.cells <= _SHAKEN_CELLS
    for spacings in guesses(problem):
        starts = [Levels.uniform(problem, spacings)]
        if shaken and spacings[-1] == problem.cells:
            starts += [Levels.uniform(problem, spacings).shaken(random) for _ in range(_SHAKEN)]
        for start in starts:
            levels = start.improve(_FIRST_STEPS).share_out()
            trials.append((levels.error, len(trials), levels))
    trials.sort()
    most = len(trials) if problem.cells <= _SMALL else 4 if problem.cells <= 4096 else 1
    most = _DESCENTS if shaken else most
    found = []
    if problem.cells <= _SMALL:  # up to 9 steps no hat is of use
        trials.insert(0, (0.0, -1, Levels(problem, [], [])))
        most += 1
    for _, number, levels in trials[:most]:
        levels.improve(_FIRST_STEPS).share_out().improve(_STEPS, move=True).share_out()
        shape = levels.shape()
        found.append((levels.error, number, levels, shape))
    return min(found)[2:]


def search_again(problem: Problem, known: Sequence[Shape], trials: int = 30) -> Shape:
    """Return the best shape for a problem among those known, and ends of descents from the shapes
    of nearly as many cells, with a few more or fewer knots in each level.

    Descents from equal spacings end at many places, of which some have .7 percent more error than
    others. Good places are good for neighbours too.

    >>> from counton.strategies.streams.shapes import shapes
    >>> search_again(Problem(70), [one for one in shapes() if 69 < one.horizon < 77], 1).horizon
    70
    """
    random = np.random.default_rng(problem.cells)
    near = sorted(known, key=lambda one: abs(math.log(one.cells / problem.cells)))[:_NEAR]
    own = [one for one in near if one.cells == problem.cells]
    best = min((Levels.of(one, problem).error, at, one) for at, one in enumerate(own))
    for trial in range(trials):
        by = _KNOTS[trial // len(near) % len(_KNOTS)]
        levels = Levels.like(near[trial % len(near)], problem, random, by)
        levels.improve(_FIRST_STEPS).improve(_FIRST_STEPS, move=True)
        if levels.error < _WORTH * best[0]:
            shape = levels.improve(_STEPS, move=True).shape()
            best = min(best, (levels.error, len(own) + trial, shape))
    return best[2]


class TotalsAndSteps(Prefixes):
    """All totals, and the counts of all steps, as far as a descent needs them."""

    @override
    def gram_times(self, functionals: Floats) -> Floats:
        return super().gram_times(functionals) + functionals

    @override
    def gram_diagonal(self) -> Floats:
        return super().gram_diagonal() + 1


def search_rows(problem: Problem, starts: Sequence[Shape]) -> Shape:
    """Return the best shape of rows of any form: the least end of descents from other shapes, and
    from what `optimal_laplace` finds.

    >>> from counton.strategies.streams.shapes import shapes
    >>> [shape] = [one for one in shapes() if one.horizon == 16]
    >>> rows = search_rows(Problem(16), [shape]).rows
    >>> rows.shape, int(rows.sum(axis=0).max())
    ((1, 16), 2214)
    """
    workload = Prefixes(problem.cells)
    found = []
    if problem.release == "both":
        workload = TotalsAndSteps(problem.cells)
    else:
        found.append(laplace_rows(workload))
    for start in starts:
        line = start.serving(problem.cells).line
        found.append(line.under(np.eye(line.rows)) / line.own)
    ends = [
        _improve(workload, np.maximum(rows, _LEAST_ROW), _ROW_STEPS) for rows in found if len(rows)
    ]
    rows = min(ends, key=lambda end: end[0])[1]
    weights = np.rint(rows / (1 + rows.sum(axis=0)) * (1 << AMPLITUDE_BITS)).astype(np.int64)
    # a row of one cell adds nothing to the cell's own
    weights = weights[(weights > 0).sum(axis=1) > 1]
    return Shape(*problem[1:4], problem.cells, (), (), (), (), weights)


def problems() -> list[Problem]:
    """Return all problems that `make shapes` solves."""
    return [
        Problem(cells, *question, radices)
        for question in QUESTIONS
        for cells, radices in _grid(question[2] == "totals", question[1:] == ("mean", "totals"))
    ]


def _grid(every: bool, finer: bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield pairs of a number of cells and the radices of the tree inside each cell, in order of
    the number of steps.

    In short streams a cell is one step; in longer ones it is a short block of steps, then a tree.

    Args:
        every: True for more numbers of steps.
        finer: True for still more numbers of steps, where errors are compared with those of dense
            matrices.
    """
    first = _SMALL if every else 16
    yield from ((steps, ()) for steps in range(2, first + 1))
    fine = (
        [2.0 ** (k / 4) for k in range(25, 48)] if every else [2.0 ** (k / 2) for k in range(9, 24)]
    )
    coarse = [2.0 ** (k / 2) for k in range(24, 33)]
    # Where the error is compared with that of a dense matrix: twice as many, and common horizons.
    more = [*(2.0 ** (k / 8) for k in range(49, 72, 2)), 90, 168, 180] if finer else []
    for steps in sorted([*fine, *more, *coarse, 365, 8760]):
        block = 1 if steps <= 4096 else 2 if steps < 2**14.1 else 4 if steps < 2**15.1 else 8
        yield round(steps / block), (block,) if block > 1 else ()
    for steps in (2**16.5, 2**17):
        yield round(steps / 18), (9, 2)
    for steps in (2**17.5, 2**18):
        yield round(steps / 33), (11, 3)
    for bits in range(6, 20):
        yield _MOST_CELLS, tree(2**bits)


def shape_to_json(shape: Shape) -> dict[str, Any]:
    """Return a shape as JSON values for `Shape.from_json`."""
    levels = [
        {
            "knots": len(heights),
            "spacing": spacing
            if isinstance(spacing, int)
            else integers_to_text(np.diff(spacing, prepend=0)),
            "amplitudes": integers_to_text(heights),
        }
        for spacing, heights in zip(shape.spacings, shape.amplitudes, strict=True)
    ]
    plain = shape._asdict()
    rows = {"rows": [len(shape.rows), integers_to_text(shape.rows)]} if len(shape.rows) else {}
    return {name: plain[name] for name in Shape._fields[:6]} | {"levels": levels} | rows


def run(path: Path, questions: Sequence[Question] = QUESTIONS) -> None:
    """Solve the problems whose solutions the file ``path`` lacks; add each solution as soon as it
    is found.
    """
    kept: dict[str, dict[str, Any]] = {}
    if path.exists():
        for line in json.loads(path.read_text(encoding="ascii")):
            kept[_key(Shape.from_json(line))] = line
    wanted = [
        problem
        for problem in problems()
        if (problem.norm, problem.metric, problem.release) in questions
    ]
    for number, problem in enumerate(wanted, start=1):
        if _key(problem) not in kept:
            levels, shape = search(problem, _near(problem, kept))
            if not problem.radices and problem.cells > _BESIDE_DENSE:
                shape = search_again(problem, [shape, *_alike(problem, kept)])
            if problem.of_rows:
                known = [Shape.from_json(line) for line in kept.values() if "rows" in line]
                known = [one for one in known if one.release == problem.release]
                shape = search_rows(problem, [shape, *known[-_NEAR:]])
            kept[_key(problem)] = shape_to_json(shape)
            lines = ",\n".join(
                json.dumps(kept[key]) for key in map(_key, problems()) if key in kept
            )
            draft = path.with_suffix(".part")
            draft.write_text(f"[\n{lines}\n]\n", encoding="ascii")
            os.replace(draft, path)
            error = f"{problem.metric} {2 * levels.error:.2f}"
        else:
            error = "is known"
        done = 40 * number // len(wanted)
        sys.stderr.write(
            f"\r[{'#' * done}{' ' * (40 - done)}] {number}/{len(wanted)} {problem.steps}: {error} "
        )
    sys.stderr.write("\n")


def _near(problem: Problem, kept: dict[str, dict[str, Any]]) -> Shape | None:
    """Return the known shape for the next smaller tree inside the same number of cells; None if
    there is none.
    """
    if len(problem.radices) < 2:
        return None
    found = [
        problem._replace(radices=tuple(line["radices"]))
        for line in kept.values()
        if len(line["radices"]) > 1 and line["cells"] == problem.cells
    ]
    found = [one for one in found if _key(one) in kept and one.steps < problem.steps]
    if not found:
        return None
    return Shape.from_json(kept[_key(max(found, key=lambda one: one.steps))])


def _alike(problem: Problem, kept: dict[str, dict[str, Any]]) -> Iterator[Shape]:
    """Yield the known shapes, without trees, for the same question about other horizons."""
    for line in kept.values():
        shape = Shape.from_json(line)
        if shape[:3] == problem[1:4] and not shape.radices and not len(shape.rows):
            yield shape


def _key(which: Problem | Shape) -> str:
    return f"{which.norm} {which.metric} {which.release} {which.cells} {which.radices}"


if __name__ == "__main__":
    import counton.strategies.streams.shapes as shipped
    from counton.base.arrays import one_thread

    with one_thread():
        run(Path(shipped.__file__).with_suffix(".json"))

"""Strategies with the least known variance for any horizon, from long searches made in advance.

``shapes.json``, written by `tools.shape_search` (``make shapes``), holds the strategies found,
called *shapes*. A shape divides the horizon into cells of equally many steps. It measures sums of
cells with weights that form triangles (`Hats`), and, for longer streams, the nodes of a tree inside
each cell (`LeastSquaresStrategy`). For means over up to 512 steps, descents from these end at
rows of any form (`Dense`): up to half a percent less error of totals, 1.5 of totals and counts of
steps. Every horizon up to 64 was searched. Above, each is about 1.2 times the one before (for the
mean over totals 1.1 times up to 512 steps); above 4096 steps 1.4 times, above 2^18 twice.

For a horizon in between, the shape of the nearest one is stretched. Knots keep their amplitudes and
their relative places between both ends. In a level of equally spaced knots the cells between them
stay instead, and amplitudes are interpolated linearly. Near its minimum the error hardly changes:
stretching costs less than 1 percent, and less than .1 for the mean over totals up to 4096 steps.

With Gaussian noise the matrix square root, with weights for its rows, is near the optimum, so a
formula is enough (`scaled_square_root`), a dense matrix up to 1024 steps.

Strategies from the file are computed in integers, those of the formula by operations that IEEE 754
defines to the last bit: they are the same on every machine.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from counton.base.arrays import Integers, integers_from_text
from counton.strategies.strategy import Metric, Norm, ReleaseForm

if TYPE_CHECKING:
    from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy

#: Amplitudes in the file are multiples of 2^-12; entries of a strategy's matrix are multiples of
#: 2^-16.
AMPLITUDE_BITS = 12
_LATTICE_BITS = 16
_LATTICE_STEPS_PER_AMPLITUDE = 1 << (_LATTICE_BITS - AMPLITUDE_BITS)
_LONGEST_GAUSSIAN_LINE = 1024
_FILE = "shapes.json"


class Shape(NamedTuple):
    """A strategy found by search: levels of hats (`Hats`) over cells, and a tree inside each cell;
    or rows of any form over cells that are steps.

    Attributes:
        norm: 1 for Laplace, 2 for Gaussian noise.
        metric: the variance that the search minimised, "mean" or "max".
        release: the released numbers whose variance was minimised.
        cells: number of cells into which the horizon is divided.
        radices: number of children of levels 1, 2, ... of the tree; their product is the steps in a
            cell.
        shares: for each level of the tree, its part of the cell's weight; single steps first.
        spacings: for each level of hats, the cells between two knots, or the positions of all.
        amplitudes: for each level, the weight at each knot, in units of 2^-12.
        rows: in place of levels: weights of some rows of any form in all cells, in units of 2^-12.
            Cells are steps, and each has the rest of the weight in a row of its own.
    """

    norm: Norm
    metric: Metric
    release: ReleaseForm
    cells: int
    radices: tuple[int, ...]
    shares: tuple[int, ...]
    spacings: tuple[int | Integers, ...]
    amplitudes: tuple[Integers, ...]
    rows: Integers = np.zeros((0, 0), np.int64)

    @property
    def horizon(self) -> int:
        """Number of steps of the stream."""
        return self.cells * prod(self.radices)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """Rebuild a shape from JSON values, as ``tools/shape_search.py`` writes them."""
        spacings: list[int | Integers] = []
        heights = []
        for level in plain["levels"]:
            count = (level["knots"],)
            spacing = level["spacing"]
            text = isinstance(spacing, str)
            spacings.append(np.cumsum(integers_from_text(spacing, count)) if text else spacing)
            heights.append(integers_from_text(level["amplitudes"], count))
        parts = {name: plain[name] for name in Shape._fields[:4]}
        shape = cls(
            **parts,
            radices=tuple(plain["radices"]),
            shares=tuple(plain["shares"]),
            spacings=tuple(spacings),
            amplitudes=tuple(heights),
        )
        if "rows" not in plain:
            return shape
        count, text = plain["rows"]
        return shape._replace(rows=integers_from_text(text, (count, shape.cells)))

    def serving(self, horizon: int) -> LeastSquaresStrategy:
        """Return this shape's strategy, stretched to a horizon near its own."""
        from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy

        if len(self.rows):
            from counton.strategies.lines.dense import Dense

            rows = self._rows_for(horizon)
            diagonal = np.diag((1 << _LATTICE_BITS) - rows.sum(axis=0))
            return LeastSquaresStrategy(Dense(np.concatenate([rows, diagonal]), "rows"))
        from counton.strategies.lines.hats import Hats

        radices = self.radices
        if len(radices) > 1:
            radices = _radices(radices, -(-horizon // self.cells))
        cells = -(-horizon // prod(radices))
        spacings: list[int | list[int]] = []
        amplitudes = []
        for spacing, heights in zip(self.spacings, self.amplitudes, strict=True):
            if isinstance(spacing, int):
                spacings.append(spacing)
                amplitudes.append(self._heights_for(cells, spacing, heights))
            else:
                knots = (2 * spacing * cells + self.cells) // (2 * self.cells)
                knots[0] = min(knots[0], cells - 1)
                # The last knot of a shape is not before the end of the last cell, and stays so.
                kept = np.append(True, (np.diff(knots) > 0) & (knots[:-1] < cells))
                spacings.append(knots[kept].tolist())
                amplitudes.append(heights[kept])
        line = Hats(
            cells,
            spacings,
            [heights * _LATTICE_STEPS_PER_AMPLITUDE for heights in amplitudes],
            self.norm,
            _LATTICE_BITS,
        )
        return LeastSquaresStrategy(line, radices, self.shares, self.norm, horizon)

    def _rows_for(self, horizon: int) -> Integers:
        """Return the weights of rows in the steps of a horizon.

        The middle of each step lies between two of the shape's own cells, whose weights are mixed.
        """
        parts = 2 * horizon
        place = np.arange(1, parts, 2) * self.cells - horizon  # on these cells, times ``parts``
        before = np.clip(place // parts, 0, self.cells - 2)
        weight_after = np.clip(place - before * parts, 0, parts)
        mixed = self.rows[:, before] * (parts - weight_after)
        mixed += self.rows[:, before + 1] * weight_after
        return np.asarray((2 * mixed + parts) // (2 * parts) * _LATTICE_STEPS_PER_AMPLITUDE)

    def _heights_for(self, cells: int, spacing: int, heights: Integers) -> Integers:
        """Return the weights at equally spaced knots of a line.

        Each knot lies between two of the shape's own knots, whose heights are mixed.

        Args:
            cells: number of cells of the line.
            spacing: number of cells between two knots.
            heights: the weights at the shape's own knots.
        """
        place = np.arange(-(-cells // spacing) + 1) * self.cells  # on these knots, times ``cells``
        before = np.minimum(place // cells, len(heights) - 2)
        weight_after = np.clip(place - before * cells, 0, cells)
        mixed = heights[before] * (cells - weight_after) + heights[before + 1] * weight_after
        return np.asarray((2 * mixed + cells) // (2 * cells))


def strategies_of_shape(
    horizon: int, norm: Norm = 1, metric: Metric = "mean", release: ReleaseForm = "totals"
) -> tuple[LeastSquaresStrategy, ...]:
    """Return the strategy of least known variance for a horizon in a tuple, or an empty one.

    It is empty for windows, for a horizon of one step, and for horizons whose variance takes
    seconds to compute. ``norm`` is 1 for Laplace, 2 for Gaussian noise.

    >>> [strategy] = strategies_of_shape(365)
    >>> float(strategy.l1_sensitivity()), round(2 * strategy.overall_variance("mean"), 1)
    (1.0, 61.9)
    """
    if horizon < 2 or release == "windows":
        return ()
    if norm == 2:
        return (scaled_square_root(horizon, metric),) if horizon <= _LONGEST_GAUSSIAN_LINE else ()
    known_shapes = shapes(norm, metric, release)
    if not known_shapes or horizon > known_shapes[-1].horizon:
        return ()
    # The nearest shape by ratio is taken: of two neighbours a < T < b, it is a if T^2 < a b.
    index = next(
        (k for k, shape in enumerate(known_shapes) if shape.horizon >= horizon),
        len(known_shapes) - 1,
    )
    if index and horizon**2 < known_shapes[index - 1].horizon * known_shapes[index].horizon:
        index -= 1
    return (known_shapes[index].serving(horizon),)


@lru_cache(maxsize=16)
def shapes(
    norm: Norm = 1, metric: Metric = "mean", release: ReleaseForm = "totals"
) -> tuple[Shape, ...]:
    """Return the stored shapes of solved strategies, in order of their horizons."""
    # Totals have the largest variances, so for "max" the release form does not matter.
    asked = norm, metric, release if metric == "mean" else "totals"
    data = json.loads(files(__package__).joinpath(_FILE).read_text(encoding="ascii"))
    lines = (line for line in data if (line["norm"], line["metric"], line["release"]) == asked)
    return tuple(sorted((Shape.from_json(line) for line in lines), key=lambda shape: shape.horizon))


def scaled_square_root(horizon: int, metric: Metric) -> LeastSquaresStrategy:
    """Return a strategy for Gaussian noise with nearly the least error, by `scaled_root`.

    >>> strategy = scaled_square_root(64, "mean")
    >>> round(strategy.overall_variance("mean") ** 0.5, 3)
    2.108
    """
    from counton.strategies.lines.dense import Dense
    from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy

    return LeastSquaresStrategy(
        Dense.by_formula(horizon, "mean" if metric == "mean" else "max"), norm=2
    )


def tree(least: int) -> tuple[int, ...]:
    """Return the radices of a tree inside a cell of ``least`` steps or slightly more.

    >>> tree(128), tree(2**20)
    ((19, 7), (16, 10, 11, 11, 11, 5))
    """
    # About 18 on the lowest level, 12 in between and 6 at the top is best; a line strategy replaces
    # the levels above.
    levels = 2
    while 12 * (18 * 6 * 12 ** (levels - 2)) ** 2 < least**2:  # the nearest by ratio
        levels += 1
    return _radices((18, *(12,) * (levels - 2), 6), least)


def _radices(radices: tuple[int, ...], least: int) -> tuple[int, ...]:
    """Return radices in about these proportions, with a product of ``least`` or slightly more."""
    increased = list(radices)
    order = range(len(radices))

    def part(level: int) -> Fraction:
        return Fraction(increased[level], radices[level])

    while prod(increased) < least:
        increased[min(order, key=part)] += 1
    while True:
        for level in sorted(order, key=part, reverse=True):
            if (
                prod(increased) // increased[level] * (increased[level] - 1) >= least
                and increased[level] > 2
            ):
                increased[level] -= 1
                break
        else:
            return tuple(increased)

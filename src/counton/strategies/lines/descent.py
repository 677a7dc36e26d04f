"""A strategy of very small total squared error with Laplace noise, by search.

There the columns of C must have 1-norm 1 and the problem is not convex. As in McKenna, Miklau, Hay
and Machanavajjhala, "Optimizing error of high-dimensional statistical queries under differential
privacy" (HDMM, 2018), C is an identity of adjustable weights on top of a few further rows with
non-negative entries, improved by descent. Here the rows start as a weighted hierarchy instead of at
random, which ends lower: as that of a few good ones from which a short descent leads furthest.
Entries are squares of what is searched, so none becomes negative.

**The same C on every machine, nearly always.** Sums in floating point depend on the processor, if
not on the number of threads as here, and a descent makes such differences grow about a thousandfold
every twenty steps. So it goes in stages: after each, the rows are put on a coarse grid, where
differences that have not grown yet vanish, and what has gone to nothing is given a little again.
That costs nothing: it ends lower than in one go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from counton.arrays import Floats
from counton.strategies.lines.base import LATTICE_BITS
from counton.strategies.lines.branching import good_trees
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.optimal import refuse_long, rounded_columns
from counton.strategies.lines.single_thread import descend, product
from counton.strategies.lines.workload import Workload

#: Longest line for which the search takes seconds.
LARGEST_LAPLACE = 1024
_TRIAL_STEPS = 40
_STAGES = 3
_STEPS = 60
#: Remembered steps, from which the descent learns curvature.
_MEMORY = 8
#: Grid of the rows after each stage, and what every entry has at least before the next, in units of
#: the weight of a cell; and what every entry has more than the hierarchy at the start.
_GRID = 2.0**-9
_SPRINKLE = 2.0**-9
_FIRST_SPRINKLE = 0.01


def optimal_laplace(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """A strategy of very small total squared error with Laplace noise.

    Raises:
        InvalidInput: more than 1024 cells.

    >>> from counton.strategies.lines.intervals import AllRanges
    >>> strategy = optimal_laplace(AllRanges(64))
    >>> print(f"{strategy.l1_sensitivity() ** 2 * strategy.ranges_variance():.3g}")
    3.21e+04
    """
    refuse_long(workload, LARGEST_LAPLACE, "Laplace")
    trials = [
        _improved(workload, _rows_above(workload, *tree) + _FIRST_SPRINKLE, _TRIAL_STEPS)
        for tree in good_trees(workload, 1)
    ]
    rows = min(trials, key=lambda trial: trial[0])[1]
    for _ in range(_STAGES):
        rows = _improved(workload, np.maximum(rows, _SPRINKLE), _STEPS)[1]
    own = 1 / (1 + rows.sum(axis=0))
    matrix = rounded_columns(np.vstack([np.diag(own), rows * own]), 1, bits)
    return Dense(matrix[matrix.any(axis=1)], "optimal")


def _rows_above(workload: Workload, radices: Sequence[int], weights: Floats) -> Floats:
    """Rows of a hierarchy above its leaves, in units of the leaves' weight; at least one."""
    tree = Nodes.of(workload, radices, weights)
    above = tree.matrix()[tree.cells :] / float(tree.weights[0])
    return above if len(above) else np.zeros((1, tree.cells))


def _improved(workload: Workload, rows: Floats, steps: int) -> tuple[float, Floats]:
    """One stage of the descent, from positive rows to rows on the grid; and the error."""
    squares = workload.gram_diagonal()

    def value(flat: Floats) -> tuple[float, Floats]:
        roots = flat.reshape(rows.shape)
        error, slope = _error_and_slope(roots**2, workload, squares)
        return math.log(error), (slope * 2 * roots / error).ravel()

    least, found = descend(value, np.sqrt(rows).ravel(), steps, _MEMORY)
    return least, np.rint(found.reshape(rows.shape) ** 2 / _GRID) * _GRID


def _error_and_slope(rows: Floats, workload: Workload, squares: Floats) -> tuple[float, Floats]:
    """Total error of C = [I; rows] / (1 + column sums of rows), and its derivative by the rows.

    With X = C^T C and K = (I + R R^T)^-1, X^-1 is I - R^T K R between the column sums.
    """
    sizes = 1 + rows.sum(axis=0)
    queried = workload.gram_times(rows * sizes) * sizes
    across = np.ascontiguousarray(rows.T)
    inner = np.eye(len(rows)) + product(rows, across)
    inverse = np.asarray(np.linalg.inv(inner), dtype=np.float64)
    carried = product(inverse, queried)
    own = squares * sizes**2
    saved = (rows * carried).sum(axis=0)
    twice = product(product(carried, across), inverse)
    slope = 2 / sizes * (own - saved) - 2 * (carried - product(twice, rows))
    return float(own.sum() - saved.sum()), slope

"""Strategies of least known total squared error for a workload, for Gaussian and for Laplace noise.

**Gaussian noise.** With the measurement matrix C and the queries as rows of W, minimise trace(G
X^-1) subject to X_ii = 1 over X = C^T C, where G = W^T W. At the optimum X = M^-1/2 S M^-1/2 with S
= (M^1/2 G M^1/2)^1/2 for multipliers M = diag(mu). The fixed-point iteration mu <- mu * diag(X)^2
finds them: diag(X) falls about like mu^-1/2, so the square halves the exponent of the gap, whereas
the first power would halve the gap. Every iterate also proves a lower bound: for every mu, no
strategy of unit sensitivity has an error below trace(S)^2 / sum(mu).

**Laplace noise.** The columns of C must have 1-norm 1, and the problem is not convex. As in
McKenna, Miklau, Hay and Machanavajjhala, "Optimizing error of high-dimensional statistical queries
under differential privacy" (HDMM, 2018), C is an identity of adjustable weights on top of a few
further rows with non-negative entries, improved by descent (L-BFGS). Here the rows start as a
weighted hierarchy instead of at random, which ends with a lower error: the search takes the best of
a few good hierarchies after a short descent. Entries are squares of the search variables, so none
becomes negative.

Results can differ between processors, which round sums differently. So a release stores its matrix
(`Dense.to_dict`) and does not repeat the search.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from counton.base.arrays import Floats, Integers, one_thread
from counton.base.errors import InvalidInputError
from counton.strategies.descent import descend
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.line_strategy import LATTICE_BITS
from counton.strategies.strategy import LARGEST_DENSE
from counton.tables.nodes import Nodes, good_trees
from counton.tables.workloads import NamedWorkload, Workload

#: Weight added to every cell in the queries, so that C has full rank even if no query contains a
#: cell.
_RIDGE_WEIGHT = 1e-6
_COARSE = 256
#: Largest number of fraction bits of C. More would lower the error by less than 0.01% and need more
#: storage.
_FINEST_BITS = 16
_EDGE = 32
#: Longest line for which the search for Laplace noise takes only seconds.
LONGEST_LAPLACE_LINE = 1024
#: Steps of the L-BFGS search from every tree, and further steps from the best result.
_TRIAL_STEPS = 30
_SEARCH_STEPS = 200
#: Number added to every entry of the tree's rows at the start, and least entry before the further
#: steps, relative to a cell's weight. Entries are squares of the search variables, so an entry of 0
#: would have slope 0 and stay 0.
_FIRST_SPRINKLE = 0.01
_SPRINKLE = 2.0**-9


def optimal_gaussian(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """Return the strategy of least total squared error over a workload with Gaussian noise.

    Its error is within 0.02% of the proven lower bound up to 512 cells, 0.1% up to 1024, and 0.5%
    beyond, where fewer iterations are made. C is scaled to columns of norm up to 2^b, and its
    entries are rounded to integers; b is ``bits``, at most 16.

    Args:
        workload: the queries whose summed variance counts.
        bits: binary digits of the norm of a column; 16 if it is larger.

    Raises:
        InvalidInputError: more than 4096 cells.

    >>> from counton.tables.workloads import AllRanges
    >>> strategy = optimal_gaussian(AllRanges(16))
    >>> round(strategy.squared_sensitivity() * strategy.ranges_variance(), 1)
    413.1
    """
    _refuse_long(workload, LARGEST_DENSE, "Gaussian")
    with one_thread():
        inner, _ = _fixed_point(workload)
        # measured is X, with ones on the diagonal
        root = np.sqrt(inner.diagonal())
        measured = inner / root[:, None] / root
        factor = np.asarray(np.linalg.cholesky(measured).T, dtype=np.float64)
        return Dense(_rounded_columns(factor, 2, min(bits, _FINEST_BITS)), "optimal")


def optimal_laplace(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """Return a strategy of very small total squared error over a workload with Laplace noise.

    C is scaled to columns of 1-norm up to 2^bits, and its entries are rounded to integers.

    Args:
        workload: the queries whose summed variance counts.
        bits: binary digits of the 1-norm of a column.

    Raises:
        InvalidInputError: more than 1024 cells.

    >>> from counton.tables.workloads import AllRanges
    >>> strategy = optimal_laplace(AllRanges(64))
    >>> print(f"{strategy.l1_sensitivity() ** 2 * strategy.ranges_variance():.3g}")
    3.21e+04
    """
    _refuse_long(workload, LONGEST_LAPLACE_LINE, "Laplace")
    rows = laplace_rows(workload)
    diagonal = 1 / (1 + rows.sum(axis=0))
    matrix = _rounded_columns(np.vstack([np.diag(diagonal), rows * diagonal]), 1, bits)
    return Dense(matrix[matrix.any(axis=1)], "optimal")


def laplace_rows(workload: Workload) -> Floats:
    """Return the rows that `optimal_laplace` measures beside single cells: shape (rows, cells).

    A single cell has weight 1 here; columns are not scaled.
    """
    with one_thread():
        trials = []
        for radices, weights in good_trees(workload, 1):
            tree = Nodes.with_weights(workload, radices, weights)
            # The rows of nodes above the leaves, relative to the leaves' weight; at least one row.
            above = tree.matrix()[tree.cells :] / float(tree.weights[0])
            above = above if len(above) else np.zeros((1, tree.cells))
            trials.append(_improve(workload, above + _FIRST_SPRINKLE, _TRIAL_STEPS))
        best = min(trials, key=lambda trial: trial[0])[1]
        return _improve(workload, np.maximum(best, _SPRINKLE), _SEARCH_STEPS)[1]


def gaussian_bound(workload: Workload) -> float:
    """Return a proven lower bound on the error of every strategy with Gaussian noise.

    The error is the squared sensitivity times the summed variance of all queries.

    Args:
        workload: queries over up to 4096 cells.

    Raises:
        InvalidInputError: more than 4096 cells.

    >>> from counton.tables.workloads import AllRanges
    >>> bool(gaussian_bound(AllRanges(16)) > 413.1)
    True
    """
    _refuse_long(workload, LARGEST_DENSE, "Gaussian")
    with one_thread():
        root = np.sqrt(_fixed_point(workload)[1])
        trace = float(np.trace(_square_root(root[:, None] * workload.gram() * root)))
    return trace**2 / float((root**2).sum())


def _refuse_long(workload: Workload, most: int, noise: str) -> None:
    """Refuse a workload on more than ``most`` cells, for which a search takes too long."""
    if workload.cells > most:
        raise InvalidInputError(
            f"the optimal strategy with {noise} noise is too slow for {workload.cells} cells; at "
            f"most {most} are possible: use haar, hierarchy or square_root"
        )


@lru_cache(maxsize=1)
def _fixed_point(workload: Workload) -> tuple[Floats, Floats]:
    """Return S, shape (cells, cells), and mu, shape (cells,), of the strategy of least error.

    The module's docstring states the iteration. For a named workload on many cells it starts from
    the solution on 256 cells.
    """
    cells = workload.cells
    gram = workload.gram()
    gram = gram + np.eye(cells) * (np.trace(gram) / cells * _RIDGE_WEIGHT)
    multipliers = np.full(cells, 1 / cells)
    if isinstance(workload, NamedWorkload) and cells > 2 * _COARSE:
        # Inside the line they depend on the relative position of a cell, near the ends on the
        # number of cells to the end.
        coarse = _fixed_point(type(workload)(_COARSE))[1]
        positions = (np.arange(cells) + 0.5) / cells * _COARSE - 0.5
        finer = np.interp(positions, np.arange(_COARSE), coarse)
        finer[:_EDGE] = coarse[:_EDGE] * (finer[_EDGE] / coarse[_EDGE])
        finer[-_EDGE:] = coarse[-_EDGE:] * (finer[-_EDGE - 1] / coarse[-_EDGE - 1])
        multipliers = finer / finer.sum()
    best: tuple[float, Floats, Floats] | None = None
    # Each iteration takes time proportional to the cube of the cells.
    iterations = 100
    if cells > 2 * _COARSE:
        iterations = 12 if cells <= LARGEST_DENSE // 2 else 4
    for _ in range(iterations):
        root = np.sqrt(multipliers)
        inner = _square_root(root[:, None] * gram * root)
        diagonal = inner.diagonal() / multipliers
        trace = float(np.trace(inner))
        gap = float(diagonal.max()) * float(multipliers.sum()) / trace - 1
        if best is None or gap < best[0]:
            best = gap, inner, multipliers
        if gap < _gap(cells):
            break
        multipliers = multipliers * diagonal**2
        multipliers /= multipliers.sum()
    assert best is not None
    return best[1:]


def _gap(cells: int) -> float:
    """Return the relative gap to the bound at which `_fixed_point` ends, larger for many cells."""
    if cells <= 2 * _COARSE:
        return 1e-4
    return 1e-3 if cells <= 4 * _COARSE else 5e-3


def _square_root(matrix: Floats) -> Floats:
    """Return the positive square root of a symmetric positive definite matrix."""
    # A mirror-symmetric matrix is split into halves.
    size = len(matrix)
    nothing = 1e-12 * float(matrix.max())
    mirrored = np.allclose(matrix, matrix[::-1, ::-1], rtol=1e-9, atol=nothing)
    if size < 3 or not mirrored:
        return _eigen_root(matrix)
    half, odd = divmod(size, 2)
    near = matrix[:half, :half]
    far = matrix[:half, size - half :][:, ::-1]
    even = np.zeros((half + odd, half + odd))
    even[:half, :half] = near + far
    if odd:
        even[:half, half] = even[half, :half] = math.sqrt(2) * matrix[:half, half]
        even[half, half] = matrix[half, half]
    plus = _eigen_root(even)
    minus = _eigen_root(near - far)
    root = np.empty((size, size))
    root[:half, :half] = (plus[:half, :half] + minus) / 2
    root[:half, size - half :] = ((plus[:half, :half] - minus) / 2)[:, ::-1]
    if odd:
        root[:half, half] = plus[:half, half] / math.sqrt(2)
        root[half, half] = plus[half, half]
        root[half, :half] = root[:half, half]
        root[half, half + 1 :] = root[:half, half][::-1]
    root[size - half :] = root[:half, ::-1][::-1]
    return root


def _eigen_root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, values.max() * 1e-24))
    return np.asarray((vectors * values) @ vectors.T, dtype=np.float64)


def _rounded_columns(matrix: Floats, norm: int, bits: int) -> Integers:
    """Return a matrix scaled to columns of norm up to 2^bits and rounded to integers."""
    largest = (np.abs(matrix) ** norm).sum(axis=0).max() ** (1 / norm)
    return np.asarray(np.rint(matrix / largest * 2.0**bits), dtype=np.int64)


def _improve(workload: Workload, rows: Floats, steps: int) -> tuple[float, Floats]:
    """Search by L-BFGS for rows beside all cells of less error; return its logarithm, and them."""
    squares = workload.gram_diagonal()

    def value(flat: Floats) -> tuple[float, Floats]:
        roots = flat.reshape(rows.shape)
        error, slope = _error_and_slope(roots**2, workload, squares)
        return math.log(error), (slope * 2 * roots / error).ravel()

    least, roots = descend(value, np.sqrt(rows).ravel(), maxiter=steps)
    return least, (roots**2).reshape(rows.shape)


def _error_and_slope(rows: Floats, workload: Workload, squares: Floats) -> tuple[float, Floats]:
    """Return the total error, and its gradient with respect to ``rows``.

    The strategy measures each cell and these rows, scaled so that all columns have 1-norm 1.
    ``squares`` is the diagonal of the workload's Gram matrix.
    """
    # C = [I; R] D^-1, with R the rows and D the diagonal matrix of 1 + column sums of R. With K =
    # (I + R R^T)^-1, (C^T C)^-1 is D (I - R^T K R) D.
    sizes = 1 + rows.sum(axis=0)
    queried = workload.gram_times(rows * sizes) * sizes
    inverse = np.linalg.inv(np.eye(len(rows)) + rows @ rows.T)
    carried = inverse @ queried
    row_squares = squares * sizes**2
    saved = (rows * carried).sum(axis=0)
    slope = 2 / sizes * (row_squares - saved) - 2 * (carried - carried @ rows.T @ inverse @ rows)
    return float(row_squares.sum() - saved.sum()), np.asarray(slope)

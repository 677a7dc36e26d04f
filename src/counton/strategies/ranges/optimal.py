"""The strategies of least total squared error for a workload, by computation.

**Gaussian noise.** Minimise trace(G X^-1) subject to X_ii = 1 over X = C^T C, where G = W^T W. At
the optimum X = M^-1/2 S M^-1/2 with S = (M^1/2 G M^1/2)^1/2 for multipliers M = diag(mu), and the
fixed-point iteration mu <- mu * diag(X)^2 finds them (diag(X) falls about like mu^-1/2, so the
square halves the exponent of the gap where the first power halves the gap). Every iterate also
proves a bound: for any mu, no strategy of unit sensitivity has an error below trace(S)^2 / sum(mu).

**Laplace noise.** There the columns of C must have 1-norm 1 and the problem is not convex. As in
McKenna, Miklau, Hay and Machanavajjhala, "Optimizing error of high-dimensional statistical queries
under differential privacy" (HDMM, 2018), C is an identity of adjustable weights on top of a few
further rows with non-negative entries, improved by gradient descent. Here it starts at the best
weighted hierarchy instead of at random, which ends lower.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats
from counton.errors import InvalidInput
from counton.strategies.base import LARGEST_DENSE
from counton.strategies.ranges.base import LATTICE_BITS
from counton.strategies.ranges.dense import Dense
from counton.strategies.ranges.nodes import Nodes
from counton.strategies.ranges.workload import NamedWorkload, Workload

#: Longest line for which the search with Laplace noise takes seconds.
LARGEST_LAPLACE = 1024
#: What nobody asks about is given this much weight, so that C keeps full rank.
_RIDGE = 1e-6
_COARSE = 256
_EDGE = 32
_DESCENT_STEPS = 300
_SPRINKLE = 0.005


def optimal_gaussian(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """The strategy of least total squared error with Gaussian noise.

    To within 0.01% of the proven bound up to 512 cells, 0.1% up to 1024 and 0.5% beyond, where that
    takes no more than a few steps.

    Raises:
        InvalidInput: more than 4096 cells.

    >>> from counton.strategies.ranges.intervals import AllRanges
    >>> strategy = optimal_gaussian(AllRanges(16))
    >>> round(strategy.squared_sensitivity() * strategy.ranges_variance(), 1)
    413.1
    """
    _check(workload, LARGEST_DENSE, "Gaussian")
    inner, _ = _solved(workload)
    root = np.sqrt(inner.diagonal())  # of M^1/2 X M^1/2: leaves X with ones on the diagonal
    measured = inner / root[:, None] / root
    factor = np.asarray(np.linalg.cholesky(measured).T, dtype=np.float64)
    return Dense(_rounded(factor, 2, bits), "optimal")


def gaussian_bound(workload: Workload) -> float:
    """A proven lower bound on squared_sensitivity() * (total variance) of every strategy.

    >>> from counton.strategies.ranges.intervals import AllRanges
    >>> bool(gaussian_bound(AllRanges(16)) > 413.1)
    True
    """
    _check(workload, LARGEST_DENSE, "Gaussian")
    root = np.sqrt(_solved(workload)[1])
    trace = float(np.trace(_square_root(root[:, None] * workload.gram() * root)))
    return trace**2 / float((root**2).sum())


def _check(workload: Workload, most: int, noise: str) -> None:
    if workload.cells > most:
        raise InvalidInput(
            f"the optimal strategy with {noise} noise over {workload.cells} cells was asked for; "
            f"at most {most} are possible: use haar, hierarchy or square_root"
        )


@lru_cache(maxsize=1)
def _solved(workload: Workload) -> tuple[Floats, Floats]:
    """S and mu by fixed-point iteration, from the solution on fewer cells if there is one."""
    cells = workload.cells
    gram = _ridged(workload.gram())
    multipliers = np.full(cells, 1 / cells)
    if isinstance(workload, NamedWorkload) and cells > 2 * _COARSE:
        multipliers = _finer(_solved(type(workload)(_COARSE))[1], cells)
    best: tuple[float, Floats, Floats] | None = None
    for _ in range(_iterations(cells)):
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


def _finer(known: Floats, cells: int) -> Floats:
    """Multipliers of fewer cells as a start for more.

    Inside they depend on where along the line a cell is, near the ends on how many cells are left.
    """
    places = (np.arange(cells) + 0.5) / cells * len(known) - 0.5
    finer = np.interp(places, np.arange(len(known)), known)
    finer[:_EDGE] = known[:_EDGE] * (finer[_EDGE] / known[_EDGE])
    finer[-_EDGE:] = known[-_EDGE:] * (finer[-_EDGE - 1] / known[-_EDGE - 1])
    return np.asarray(finer / finer.sum())


def _gap(cells: int) -> float:
    """How far from the proven bound is near enough."""
    return 1e-4 if cells <= 2 * _COARSE else 1e-3 if cells <= 4 * _COARSE else 5e-3


def _iterations(cells: int) -> int:
    """Each takes time in proportion to the cube of the cells."""
    return 100 if cells <= 2 * _COARSE else 12 if cells <= LARGEST_DENSE // 2 else 4


def _ridged(gram: Floats) -> Floats:
    cells = len(gram)
    return np.asarray(gram + np.eye(cells) * (np.trace(gram) / cells * _RIDGE))


def _mirrored(matrix: Floats) -> bool:
    return len(matrix) > 2 and bool(
        np.allclose(matrix, matrix[::-1, ::-1], rtol=1e-9, atol=1e-12 * float(matrix.max()))
    )


def _square_root(matrix: Floats) -> Floats:
    """Positive square root; a matrix that is its own mirror image splits into halves."""
    if not _mirrored(matrix):
        return _eigen_root(matrix)
    size = len(matrix)
    half, odd = divmod(size, 2)
    near, far = matrix[:half, :half], matrix[:half, size - half :][:, ::-1]
    even = np.zeros((half + odd, half + odd))
    even[:half, :half] = near + far
    if odd:
        even[:half, half] = even[half, :half] = math.sqrt(2) * matrix[:half, half]
        even[half, half] = matrix[half, half]
    plus, minus = _eigen_root(even), _eigen_root(near - far)
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


def _rounded(matrix: Floats, norm: int, bits: int) -> NDArray[np.int64]:
    """On the lattice, the largest column at norm 2^bits."""
    largest = (np.abs(matrix) ** norm).sum(axis=0).max() ** (1 / norm)
    return np.asarray(np.rint(matrix / largest * 2.0**bits), dtype=np.int64)


def optimal_laplace(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """A strategy of very small total squared error with Laplace noise.

    Raises:
        InvalidInput: more than 1024 cells.

    >>> from counton.strategies.ranges.intervals import AllRanges
    >>> strategy, cells = optimal_laplace(AllRanges(128)), Nodes.independent(128)
    >>> error = strategy.l1_sensitivity() ** 2 * strategy.ranges_variance()
    >>> error < 0.75 * cells.ranges_variance()
    True
    """
    from scipy.optimize import minimize

    _check(workload, LARGEST_LAPLACE, "Laplace")
    cells = workload.cells
    gram = workload.gram()
    start = _first_rows(workload)
    scale = 1 / _error_and_slope(start, gram)[0]

    def value(flat: Floats) -> tuple[float, Floats]:
        error, slope = _error_and_slope(flat.reshape(-1, cells), gram)
        return error * scale, slope.ravel() * scale

    found = minimize(
        value,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * start.size,
        options={"maxiter": _DESCENT_STEPS},
    )
    rows = found.x.reshape(-1, cells)
    own = 1 / (1 + rows.sum(axis=0))
    rounded = _rounded(np.vstack([np.diag(own), rows * own]), 1, bits)
    return Dense(rounded[rounded.any(axis=1)], "optimal")


def _first_rows(workload: Workload) -> Floats:
    """Rows of the best weighted hierarchy above its leaves, a little of everything added."""
    tree = Nodes.best(workload, 1)
    above = tree.matrix()[tree.cells :] / float(tree.weights[0])
    if not len(above):
        above = np.zeros((1, tree.cells))
    return np.asarray(above + _SPRINKLE)


def _error_and_slope(rows: Floats, gram: Floats) -> tuple[float, Floats]:
    """Total error of C = [I; rows] / (1 + column sums of rows), and its derivative by the rows."""
    sizes = 1 + rows.sum(axis=0)
    queried = (rows * sizes) @ gram * sizes
    inverse = np.linalg.inv(np.eye(len(rows)) + rows @ rows.T)
    solved = inverse @ rows
    squares = gram.diagonal() * sizes**2
    saved = (queried * solved).sum(axis=0)
    carried = inverse @ queried
    slope = -2 * (carried - (carried @ rows.T) @ solved) + 2 / sizes * (squares - saved)
    return float(squares.sum() - saved.sum()), slope

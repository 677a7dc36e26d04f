"""The strategy of least total squared error with Gaussian noise, by computation.

Minimise trace(G X^-1) subject to X_ii = 1 over X = C^T C, where G = W^T W. At
the optimum X = M^-1/2 S M^-1/2 with S = (M^1/2 G M^1/2)^1/2 for multipliers M = diag(mu), and the
fixed-point iteration mu <- mu * diag(X)^2 finds them (diag(X) falls about like mu^-1/2, so the
square halves the exponent of the gap where the first power halves the gap). Every iterate also
proves a bound: for any mu, no strategy of unit sensitivity has an error below trace(S)^2 / sum(mu).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.strategies.base import LARGEST_DENSE
from counton.strategies.lines.base import LATTICE_BITS
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.workload import NamedWorkload, Workload

#: What nobody asks about is given this much weight, so that C keeps full rank.
_RIDGE = 1e-6
_COARSE = 256
#: Finest lattice for C. A finer one would lower the error by less than 0.01%, and make it likelier
#: that another processor, which rounds sums in floating point otherwise, finds another C.
_FINEST_BITS = 16
_EDGE = 32


def optimal_gaussian(workload: Workload, bits: int = LATTICE_BITS) -> Dense:
    """The strategy of least total squared error with Gaussian noise.

    To within 0.02% of the proven bound up to 512 cells, 0.1% up to 1024 and 0.5% beyond, where that
    takes no more than a few steps. C is on a lattice of 2^-16 or coarser.

    Raises:
        InvalidInput: more than 4096 cells.

    >>> from counton.strategies.lines.intervals import AllRanges
    >>> strategy = optimal_gaussian(AllRanges(16))
    >>> round(strategy.squared_sensitivity() * strategy.ranges_variance(), 1)
    413.1
    """
    refuse_long(workload, LARGEST_DENSE, "Gaussian")
    inner, _ = _solved(workload)
    root = np.sqrt(inner.diagonal())  # of M^1/2 X M^1/2: leaves X with ones on the diagonal
    measured = inner / root[:, None] / root
    factor = np.asarray(np.linalg.cholesky(measured).T, dtype=np.float64)
    return Dense(rounded_columns(factor, 2, min(bits, _FINEST_BITS)), "optimal")


def gaussian_bound(workload: Workload) -> float:
    """A proven lower bound on squared_sensitivity() * (total variance) of every strategy.

    >>> from counton.strategies.lines.intervals import AllRanges
    >>> bool(gaussian_bound(AllRanges(16)) > 413.1)
    True
    """
    refuse_long(workload, LARGEST_DENSE, "Gaussian")
    root = np.sqrt(_solved(workload)[1])
    trace = float(np.trace(_square_root(root[:, None] * workload.gram() * root)))
    return trace**2 / float((root**2).sum())


def refuse_long(workload: Workload, most: int, noise: str) -> None:
    """Refuse lines over which a search takes too long.

    Args:
        workload: on the line.
        most: cells.
        noise: kind of noise, in the message.

    Raises:
        InvalidInput: more cells.
    """
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


def rounded_columns(matrix: Floats, norm: int, bits: int) -> Integers:
    """A real matrix on the lattice, its largest column at norm 2^bits.

    >>> rounded_columns(np.array([[0.5, 0.0], [0.5, 0.5]]), norm=1, bits=2).tolist()
    [[2, 0], [2, 2]]
    """
    largest = (np.abs(matrix) ** norm).sum(axis=0).max() ** (1 / norm)
    return np.asarray(np.rint(matrix / largest * 2.0**bits), dtype=np.int64)

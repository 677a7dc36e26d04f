"""The mechanisms that the paper compares, at its privacy: exact errors, largest ones by runs."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key
from counton.planning.ranges_plan import CellsDesign
from counton.privacy import ApproxDP, ContributionBound, PureDP, calibrate
from counton.strategies.lines.line_strategy import LATTICE_BITS
from counton.strategies.participation import NORMS
from counton.tables import Grid, LineStrategy, Queries, Workload
from counton.tables.line_catalogue import build, total_variance
from counton.tables.table_calibration import sensitivity_of_cells
from papers.ranges.dyadic import Dyadic
from papers.ranges.largest_error import largest_errors
from papers.ranges.workloads import workload
from papers.simulation import Measured

#: Section 5: one unit added or removed in one cell.
GUARANTEE = ApproxDP(epsilon=0.1, delta=1e-9)
#: Of the random subsets of appendix E.3.
SUBSETS = 2500
#: The paper stops HDMM here.
LARGEST_HDMM = 2**10


class Mechanism(NamedTuple):
    """One curve of the paper's figures.

    Attributes:
        name: of the strategy, as `counton.plan_cells` takes it.
        label: in a legend.
        largest: cells up to which it is drawn.
    """

    name: str
    label: str
    largest: int = 2**15


OURS = Mechanism("cascade", "cascade (the paper's own)")
MECHANISMS = (
    OURS,
    Mechanism("identity", "Gaussian noise on the input"),
    Mechanism("dyadic", "binary tree"),
    Mechanism("binary", "hierarchical (Hay et al.)"),
    Mechanism("wavelet", "wavelet (Privelet)"),
    Mechanism("optimal", "HDMM (here the optimum)", LARGEST_HDMM),
    Mechanism("square_root", "explicit factorization"),
)


@lru_cache(maxsize=128)
def choice(name: str, cells: int, asked: str = "ranges") -> CellsDesign:
    """A mechanism with discrete Gaussian noise, as `counton.plan_cells` would calibrate it.

    >>> f"{choice('cascade', 1024).expected_error:.3e}"
    '2.724e+10'
    """
    work = workload(asked, cells)
    unit = ContributionBound.add_remove()
    strategy = line(name, work)
    grid = Grid((strategy,))
    distribution = calibrate(GUARANTEE, sensitivity_of_cells(grid, unit), "gaussian").distribution
    return CellsDesign(
        strategy=grid,
        distribution=distribution,
        guarantee=GUARANTEE,
        contribution=unit,
        workloads=(work,),
        expected_error=distribution.variance
        * (
            work.total(strategy)
            if name == "dyadic"
            else total_variance(name, work, 2, LATTICE_BITS)
        ),
    )


def line(name: str, asked: Workload) -> LineStrategy:
    """The strategy of this name for Gaussian noise; "dyadic" is none that plans compare."""
    return Dyadic(asked.cells) if name == "dyadic" else build(name, asked, 2, LATTICE_BITS)


def total_error(name: str, cells: int, asked: str) -> float:
    """err_{W,2}, exact: the expected total squared error (of one random subset, times 2,500).

    >>> f"{total_error('binary', 1024, 'ranges'):.3e}"
    '2.866e+10'
    """
    found = choice(name, cells, asked).expected_error
    return found * SUBSETS if asked == "subsets" else found


def laplace_total_error(cells: int, asked: str) -> float:
    """As `total_error`, for the best strategy found for Laplace noise, at pure epsilon 0.1."""
    work = workload(asked, cells)
    family = "laplace"
    grid = Grid((build("optimal", work, NORMS["laplace"], LATTICE_BITS),))
    pure = PureDP(GUARANTEE.epsilon)
    distribution = calibrate(
        pure, sensitivity_of_cells(grid, ContributionBound.add_remove()), family
    ).distribution
    found = distribution.variance * total_variance("optimal", work, NORMS["laplace"], LATTICE_BITS)
    return found * SUBSETS if asked == "subsets" else found


@lru_cache(maxsize=256)
def largest_error(name: str, cells: int, asked: str, runs: int) -> Measured:
    """err_{W,inf} by simulation: the expectation of the largest error over all queries.

    >>> found = largest_error("cascade", 16, "nodes", 50)
    >>> found.runs, 100 < found.mean < 300
    (50, True)
    """
    queries: str | Workload = subsets(cells) if asked == "subsets" else asked
    return Measured.of([*largest_errors(choice(name, cells, asked), queries, runs=runs, key=key())])


@lru_cache(maxsize=4)
def subsets(cells: int) -> Queries:
    """The 2,500 random queries of appendix E.3: the size uniform on n/4..n, then any such set.

    >>> subsets(16).matrix.sum(axis=1).min() >= 4
    np.True_
    """
    rng = np.random.default_rng(cells)
    sizes = rng.integers(-(-cells // 4), cells + 1, SUBSETS)
    ranks = rng.random((SUBSETS, cells)).argsort(axis=1).argsort(axis=1)
    return Queries(ranks < sizes[:, None])


def key() -> Key:
    """For the same noise every time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        return InsecureSeededKey(20260102)


def rank(name: str, errors: dict[str, float]) -> int:
    """Place of a mechanism, least error first.

    >>> rank("b", {"a": 1.0, "b": 2.0})
    2
    """
    return sorted(errors, key=lambda each: errors[each]).index(name) + 1

"""Workloads that are no intervals, and workloads by their names."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counton.arrays import Floats
from counton.errors import InvalidInput
from counton.strategies.lines.intervals import AllRanges, Prefixes, TreeNodes
from counton.strategies.lines.tree import TreeLaw
from counton.strategies.lines.workload import Estimator, NamedWorkload, Workload, tree_law


class RandomSubsets(NamedWorkload):
    """One random set of cells: its size uniform on ceil(n/4)..n, then every set of that size.

    The random queries of "Ranges", appendix E.3. The error is the expectation for one query.

    >>> RandomSubsets(4).gram().round(3)[0].tolist()
    [0.625, 0.417, 0.417, 0.417]
    """

    name = "subsets"

    def _queries(self) -> int:
        return 1

    def _chances(self) -> tuple[float, float]:
        """Probability that one cell is in the set, and that two are."""
        n = self.cells
        sizes = np.arange(max(-(-n // 4), 1), n + 1.0)
        return float((sizes / n).mean()), float((sizes * (sizes - 1)).mean() / max(n * (n - 1), 1))

    def _weights(self) -> tuple[float, float]:
        one, two = self._chances()
        return one - two, two

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        if (law := tree_law(estimator)) is not None:
            return float(self.levels(law).sum())
        single, together = self._weights()
        low = np.arange(self.cells)
        ends = np.array([0]), np.array([self.cells])
        return single * float(estimator.variance(low, low + 1).sum()) + together * float(
            estimator.variance(*ends)[0]
        )

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        single, together = self._weights()
        ends = np.array([0]), np.array([self.cells])
        parts = zip(joint_law.cell_levels(), joint_law.interval_levels(*ends), strict=True)
        return np.array([single * cell + together * float(whole[0]) for cell, whole in parts])

    def gram(self) -> Floats:
        """Expectation of W^T W."""
        self.check_dense()
        single, together = self._weights()
        return single * np.eye(self.cells) + together


class Queries(Workload):
    """The caller's own queries.

    Args:
        matrix: one query a row, shape (queries, cells).

    Raises:
        InvalidInput: not a finite matrix with at least one row, one column and one non-zero.

    >>> Queries([[1, 1, 0], [0, 1, 1]]).gram().astype(int).tolist()
    [[1, 1, 0], [1, 2, 1], [0, 1, 1]]
    """

    name = "matrix"
    costly = True

    def __init__(self, matrix: ArrayLike) -> None:
        try:
            weights = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the workload is not a matrix of numbers: {error}") from error
        if weights.ndim != 2 or not weights.size or not np.isfinite(weights).all():
            raise InvalidInput(
                f"the workload has shape {weights.shape}; it must be a finite matrix with one row "
                f"a query and one column a cell"
            )
        if not weights.any():
            raise InvalidInput("the workload is all zeros; it must ask for at least one cell")
        weights.flags.writeable = False
        self.matrix = weights
        self.queries, self.cells = weights.shape

    def __repr__(self) -> str:
        return f"Queries(<{self.queries} x {self.cells}>)"

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        return estimator.functional_variance(self.matrix)

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(joint_law.functional_levels(self.matrix)))

    def gram(self) -> Floats:
        """W^T W."""
        return self.matrix.T @ self.matrix


NAMED: dict[str, type[NamedWorkload]] = {
    kind.name: kind for kind in (AllRanges, Prefixes, TreeNodes, RandomSubsets)
}


def workload(kind: str | Workload | ArrayLike, cells: int) -> Workload:
    """The workload of that name over ``cells`` cells, or the caller's matrix.

    Raises:
        InvalidInput: an unknown name, or a matrix over another number of cells.

    >>> workload("ranges", 10)
    AllRanges(10)
    """
    if isinstance(kind, str):
        if kind not in NAMED:
            raise InvalidInput(
                f"workload is {kind!r}; it must be one of {', '.join(NAMED)}, or a matrix with one "
                f"row a query"
            )
        return NAMED[kind](cells)
    asked = kind if isinstance(kind, Workload) else Queries(kind)
    if asked.cells != cells:
        raise InvalidInput(
            f"the workload asks about {asked.cells} cells, but there are {cells}: give it one "
            f"column for each cell"
        )
    return asked

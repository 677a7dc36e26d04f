"""What will be asked of a line of cells: the queries whose total squared error is to be small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import InvalidInput
from counton.strategies.ranges.tree import TreeLaw

#: Workloads up to this many cells can be written out as a matrix.
LARGEST_DENSE = 4096

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Estimator(Protocol):
    """What a workload needs to know about a strategy to sum up its error."""

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Variance of the sums over [low, high), in units of one measurement's noise variance."""
        ...

    def ranges_variance(self) -> float:
        """Total variance of all ranges."""
        ...

    def functional_variance(self, weights: Floats) -> float:
        """Total variance of the queries ``weights`` (queries, cells)."""
        ...


class Workload(ABC):
    """A set of linear queries on ``cells`` cells.

    Attributes:
        cells: number of cells.
        queries: number of queries (1 for random subsets: the expectation over one).
    """

    name: ClassVar[str]
    cells: int
    queries: int

    @abstractmethod
    def total(self, estimator: Estimator) -> float:
        """Total variance of all queries, in units of one measurement's noise variance."""

    @abstractmethod
    def levels(self, law: TreeLaw) -> Floats:
        """The same for a tree, split by level: lowest nodes first, root last."""

    @abstractmethod
    def gram(self) -> Floats:
        """W^T W for the matrix W of the queries, shape (cells, cells); up to 4096 cells."""


class _Named(Workload):
    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.queries = self._queries()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cells})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.cells == self.cells

    def __hash__(self) -> int:
        return hash((self.name, self.cells))

    @abstractmethod
    def _queries(self) -> int: ...

    def _check_dense(self) -> None:
        if self.cells > LARGEST_DENSE:
            raise InvalidInput(
                f"a dense matrix over {self.cells} cells was asked for; at most {LARGEST_DENSE} "
                f"are possible: use a tree strategy such as haar"
            )


class AllRanges(_Named):
    """Every interval [low, high) with low < high.

    >>> AllRanges(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 4, 2], [1, 2, 3]]
    """

    name = "ranges"

    def _queries(self) -> int:
        return self.cells * (self.cells + 1) // 2

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        return estimator.ranges_variance()

    def levels(self, law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(law.prefix_levels(ranges=True)))

    def gram(self) -> Floats:
        """Entry (i, j), from 1: min(i, j) (n + 1 - max(i, j))."""
        self._check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(np.minimum.outer(i, i) * (self.cells + 1 - np.maximum.outer(i, i)))


class Prefixes(_Named):
    """Every prefix [0, high): running totals.

    >>> Prefixes(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 2, 1], [1, 1, 1]]
    """

    name = "prefixes"

    def _queries(self) -> int:
        return self.cells

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        high = np.arange(1, self.cells + 1)
        return float(estimator.variance(np.zeros_like(high), high).sum())

    def levels(self, law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(law.prefix_levels(ranges=False)))

    def gram(self) -> Floats:
        """Entry (i, j), from 1: n + 1 - max(i, j)."""
        self._check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(self.cells + 1 - np.maximum.outer(i, i))


class _Intervals(_Named):
    @abstractmethod
    def intervals(self) -> tuple[Integers, Integers]: ...

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        return float(estimator.variance(*self.intervals()).sum())

    def levels(self, law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array([float(part.sum()) for part in law.interval_levels(*self.intervals())])

    def gram(self) -> Floats:
        """Entry (i, j): how many of the intervals hold both cells."""
        self._check_dense()
        low, high = self.intervals()
        corners = np.zeros((self.cells + 1, self.cells + 1))
        np.add.at(corners, (low, low), 1)
        np.add.at(corners, (low, high), -1)
        np.add.at(corners, (high, low), -1)
        np.add.at(corners, (high, high), 1)
        return corners.cumsum(0).cumsum(1)[:-1, :-1]


class TreeNodes(_Intervals):
    """Every node of the binary tree over the cells: powers of two, aligned.

    >>> low, high = TreeNodes(3).intervals()
    >>> list(zip(low.tolist(), high.tolist()))
    [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)]
    """

    name = "nodes"

    def _queries(self) -> int:
        return 2 * self.cells - 1

    def intervals(self) -> tuple[Integers, Integers]:
        """Ends of all nodes; a node that has one child is the same query as that child."""
        lows, highs, size = [], [], 1
        while True:
            low = np.arange(0, self.cells, size)
            high = np.minimum(low + size, self.cells)
            proper = (high - low > size // 2) | (size == 1)
            lows.append(low[proper])
            highs.append(high[proper])
            if size >= self.cells:
                return np.concatenate(lows), np.concatenate(highs)
            size *= 2


class RandomSubsets(_Named):
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
        single, together = self._weights()
        low = np.arange(self.cells)
        ends = np.array([0]), np.array([self.cells])
        return single * float(estimator.variance(low, low + 1).sum()) + together * float(
            estimator.variance(*ends)[0]
        )

    def levels(self, law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        single, together = self._weights()
        low = np.arange(self.cells)
        ends = np.array([0]), np.array([self.cells])
        return np.array(
            [
                single * float(cell.sum()) + together * float(whole[0])
                for cell, whole in zip(
                    law.interval_levels(low, low + 1), law.interval_levels(*ends), strict=True
                )
            ]
        )

    def gram(self) -> Floats:
        """Expectation of W^T W."""
        self._check_dense()
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

    def levels(self, law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(law.functional_levels(self.matrix)))

    def gram(self) -> Floats:
        """W^T W."""
        return self.matrix.T @ self.matrix


NAMED: dict[str, type[_Named]] = {
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

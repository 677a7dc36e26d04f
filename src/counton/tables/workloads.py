"""Workloads: sets of queries on a line of cells, whose total squared error is to be small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.base.exact import without_mask
from counton.strategies.strategy import LARGEST_DENSE
from counton.tables.tree_distribution import TreeDistribution
from counton.tables.weighted_tree import WeightedTree

#: If nodes have at most this many children, summing variances by levels is faster than query by
#: query.
_MOST_CHILDREN_BY_LEVEL = 64


class Estimator(Protocol):
    """Variances of a strategy's estimates, from which a workload computes its error."""

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return variances of sums over low .. high - 1, in units of a measurement's variance."""
        ...

    def ranges_variance(self) -> float: ...

    def functional_variance(self, weights: Floats) -> float:
        """Return the summed variance of queries with these weights: shape (queries, cells)."""
        ...


def tree_distribution(estimator: Estimator) -> TreeDistribution | None:
    """Return the joint distribution of noise on a tree of few children; else None."""
    if not isinstance(estimator, WeightedTree):
        return None
    distribution = estimator.joint_distribution
    return distribution if max(distribution.radices, default=1) <= _MOST_CHILDREN_BY_LEVEL else None


class Workload(ABC):
    """A set of queries on a line of cells; each is a weighted sum of the cells.

    Attributes:
        cells: number of cells.
        costly: whether `levels` computes each query by itself, slow for many cells.
    """

    name: ClassVar[str]
    costly: ClassVar[bool] = False
    cells: int

    @property
    @abstractmethod
    def queries(self) -> int:
        """Number of queries."""

    @abstractmethod
    def total(self, estimator: Estimator) -> float:
        """Return the summed variance of all queries, in units of a measurement's variance.

        Args:
            estimator: a strategy for a line of `cells`, or another source of variances.
        """

    @abstractmethod
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        """Return each tree level's part in the summed variance, leaves first: shape (levels,).

        Args:
            joint_distribution: noise of the estimates of a tree over these cells.
        """

    @abstractmethod
    def gram(self) -> Floats:
        """Return W^T W, where W has a row for each query, for up to 4096 cells."""

    def gram_times(self, rows: Floats) -> Floats:
        """Return ``rows @ gram()``, shape (rows, cells), which may need no `gram`.

        Args:
            rows: float64, shape (rows, cells).
        """
        return np.asarray(rows @ self._gram)

    def gram_diagonal(self) -> Floats:
        """Return the diagonal of `gram`: each cell's summed squared weights."""
        return self._gram.diagonal()

    @cached_property
    def _gram(self) -> Floats:
        return self.gram()


class NamedWorkload(Workload):
    """A workload that is determined by its name and the number of cells."""

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cells})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.cells == self.cells

    def __hash__(self) -> int:
        return hash((self.name, self.cells))

    def check_dense(self) -> None:
        """Raise `InvalidInputError` for more than 4096 cells, too many for a matrix over them."""
        if self.cells > LARGEST_DENSE:
            raise InvalidInputError(
                f"a dense matrix over {self.cells} cells is too large; at most {LARGEST_DENSE} "
                "cells are possible: use a tree strategy such as haar"
            )


class AllRanges(NamedWorkload):
    """The workload of all intervals of cells low .. high - 1 with low < high.

    >>> AllRanges(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 4, 2], [1, 2, 3]]
    """

    name = "ranges"

    @property
    @override
    def queries(self) -> int:
        return self.cells * (self.cells + 1) // 2

    @override
    def total(self, estimator: Estimator) -> float:
        return estimator.ranges_variance()

    @override
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        return np.array(list(joint_distribution.prefix_levels(ranges=True)))

    def gram(self) -> Floats:
        """Return W^T W: entry (i, j), counted from 1, is min(i, j) (n + 1 - max(i, j))."""
        self.check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(np.minimum.outer(i, i) * (self.cells + 1 - np.maximum.outer(i, i)))

    @override
    def gram_times(self, rows: Floats) -> Floats:
        return _from_both_ends(rows, np.arange(1.0, self.cells + 1))


class Prefixes(NamedWorkload):
    """The workload of all running totals: the sums of the cells 0 .. high - 1.

    >>> Prefixes(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 2, 1], [1, 1, 1]]
    """

    name = "prefixes"

    @property
    @override
    def queries(self) -> int:
        return self.cells

    @override
    def total(self, estimator: Estimator) -> float:
        if (distribution := tree_distribution(estimator)) is not None:
            return float(self.levels(distribution).sum())
        high = np.arange(1, self.cells + 1)
        return float(estimator.variance(np.zeros_like(high), high).sum())

    @override
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        return np.array(list(joint_distribution.prefix_levels(ranges=False)))

    def gram(self) -> Floats:
        """Return W^T W: entry (i, j), counted from 1, is n + 1 - max(i, j)."""
        self.check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(self.cells + 1 - np.maximum.outer(i, i))

    @override
    def gram_times(self, rows: Floats) -> Floats:
        return _from_both_ends(rows, np.ones(self.cells))


def _from_both_ends(rows: Floats, first: Floats) -> Floats:
    """Return ``rows`` times the matrix of ``first[min(i, j)] * (n - max(i, j))``, not built."""
    n_queries = np.arange(float(len(first)), 0, -1)
    outer = rows * n_queries
    sums_beyond = outer.sum(axis=1, keepdims=True) - np.cumsum(outer, axis=1)
    return np.asarray(n_queries * np.cumsum(rows * first, axis=1) + first * sums_beyond)


class Queries(Workload):
    """A workload of the caller's own queries, a matrix of shape (queries, cells).

    Raises:
        InvalidInputError: not a finite matrix with a row, a column and an entry other than 0; or
            masked entries.

    >>> Queries([[1, 1, 0], [0, 1, 1]]).gram().astype(int).tolist()
    [[1, 1, 0], [1, 2, 1], [0, 1, 1]]
    """

    name = "matrix"
    costly = True

    def __init__(self, matrix: ArrayLike) -> None:
        matrix = without_mask(matrix, "the workload")
        try:
            weights = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                "the workload is not a matrix of numbers; give a matrix with one row for each query"
            ) from None
        if weights.ndim != 2 or not weights.size or not np.isfinite(weights).all():
            raise InvalidInputError(
                f"the workload has shape {weights.shape}; give a finite matrix with one row for "
                "each query and one column for each cell"
            )
        if not weights.any():
            raise InvalidInputError("the workload is all zeros; ask for at least one cell")
        weights.flags.writeable = False
        self.matrix = weights
        self.cells = weights.shape[1]

    @property
    @override
    def queries(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return f"Queries(<{self.queries} x {self.cells}>)"

    @override
    def total(self, estimator: Estimator) -> float:
        return estimator.functional_variance(self.matrix)

    @override
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        return np.array(list(joint_distribution.functional_levels(self.matrix)))

    def gram(self) -> Floats:
        """Return W^T W for the matrix W of the queries."""
        return self.matrix.T @ self.matrix


NAMED_WORKLOADS: dict[str, type[NamedWorkload]] = {
    kind.name: kind for kind in (AllRanges, Prefixes)
}


def workload(kind: str | Workload | ArrayLike, cells: int) -> Workload:
    """Return the workload with this name over ``cells`` cells, or of a matrix of queries.

    Args:
        kind: "ranges", "prefixes", a workload, or a matrix of shape (queries, cells).
        cells: number of cells of the line.

    Raises:
        InvalidInputError: an unknown name, or a matrix over another number of cells.

    >>> workload("ranges", 10)
    AllRanges(10)
    """
    if isinstance(kind, str):
        if kind not in NAMED_WORKLOADS:
            raise InvalidInputError(
                f"workload is {kind!r}; give one of {', '.join(NAMED_WORKLOADS)}, or a matrix with "
                "one row for each query"
            )
        return NAMED_WORKLOADS[kind](cells)
    result = kind if isinstance(kind, Workload) else Queries(kind)
    if result.cells != cells:
        raise InvalidInputError(
            f"the workload has {result.cells} columns, but there are {cells} cells: give one "
            "column for each cell"
        )
    return result

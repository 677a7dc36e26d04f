"""What will be asked of a line of cells: the queries whose total squared error is to be small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, Protocol

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.strategies.base import LARGEST_DENSE
from counton.strategies.lines.single_thread import product
from counton.strategies.lines.tree import TreeLaw

#: Children of a node up to which summing up by levels is faster than query by query.
_NARROW = 64


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


def tree_law(estimator: Estimator) -> TreeLaw | None:
    """Joint law of an estimator on a narrow tree: its levels are summed up without every query."""
    law = getattr(estimator, "joint_law", None)
    narrow = isinstance(law, TreeLaw) and max(law.radices, default=1) <= _NARROW
    return law if narrow else None


class Workload(ABC):
    """A set of linear queries on ``cells`` cells.

    Attributes:
        cells: number of cells.
        queries: number of queries (1 for random subsets: the expectation over one).
        costly: `levels` goes through all queries, which takes time on long lines.
    """

    name: ClassVar[str]
    costly: ClassVar[bool] = False
    cells: int
    queries: int

    @abstractmethod
    def total(self, estimator: Estimator) -> float:
        """Total variance of all queries, in units of one measurement's noise variance."""

    @abstractmethod
    def levels(self, joint_law: TreeLaw) -> Floats:
        """The same for a tree, split by level: lowest nodes first, root last."""

    @abstractmethod
    def gram(self) -> Floats:
        """W^T W for the matrix W of the queries, shape (cells, cells); up to 4096 cells."""

    def gram_times(self, rows: Floats) -> Floats:
        """``rows @ gram()``, shape (rows, cells); faster where the Gram matrix has a pattern."""
        return product(rows, self._gram)

    def gram_diagonal(self) -> Floats:
        """Diagonal of `gram`: how often each cell is asked for, in squares."""
        return self._gram.diagonal()

    @cached_property
    def _gram(self) -> Floats:
        return self.gram()


class NamedWorkload(Workload):
    """A workload that its name and the number of cells say all about."""

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

    def check_dense(self) -> None:
        """Refuse to write out too large a matrix."""
        if self.cells > LARGEST_DENSE:
            raise InvalidInput(
                f"a dense matrix over {self.cells} cells was asked for; at most {LARGEST_DENSE} "
                f"are possible: use a tree strategy such as haar"
            )

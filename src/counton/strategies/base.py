"""What a strategy is: a factorisation A = B C of the prefix-sum matrix.

Item ``step`` enters the nodes of ``column(step)`` (a column of C); the release at ``step`` reads the
nodes of ``row(step)`` (a row of B). The released value is the exact prefix sum plus ``B z``, where z
is one independent draw per node. A strategy is pure mathematics: no randomness, no data, no
privacy. Steps count from 1; A is lower triangular and all ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Metric = Literal["mean", "max"]


class Node(NamedTuple):
    """One node of a strategy and the weight with which an item enters it or a release reads it."""

    level: int
    index: int
    weight: int | Fraction


class NodeNoise(Protocol):
    """Where a strategy finds z: independent integers, one per (level, node, coordinate).

    They stand in units of ``2**-strategy.lattice_bits``.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Noise of consecutive nodes of one level: int64, shape ``(len(nodes), *self.shape)``."""
        ...


class Strategy(ABC):
    """A factorisation A = B C with exact sensitivity, exact error and a fast way to compute B z.

    Attributes:
        horizon: how many steps it can serve; None if unbounded.
        lattice_bits: node values C x and noise z lie on multiples of ``2**-lattice_bits``
            (0: integers), so that C x is exact in integer arithmetic.
        fraction_bits: released noise lies on multiples of ``2**-fraction_bits`` (0: integers).
            Where B is not integral, B z is rounded to that grid such that the rounded value is a
            function of the private measurements y = C x + z alone.
        local: noise on a window costs time in proportion to the window; otherwise in proportion to
            the window's end.
        unit_columns: all non-zero entries of C are +1 or -1.
    """

    horizon: int | None
    lattice_bits: int = 0
    fraction_bits: int = 0
    local: ClassVar[bool] = True
    unit_columns: ClassVar[bool] = True

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments (JSON values) that rebuild this strategy; part of the noise address."""

    @abstractmethod
    def column(self, step: int) -> tuple[Node, ...]:
        """Nodes which item ``step`` enters."""

    @abstractmethod
    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes which release ``step`` reads."""

    @abstractmethod
    def l1_sensitivity(self) -> Fraction:
        """Exact maximum over items of the 1-norm of a column of C."""

    @abstractmethod
    def squared_sensitivity(self) -> Fraction:
        """Exact maximum over items of the squared 2-norm of a column of C."""

    @abstractmethod
    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Variance of the releases at ``steps``, in units of the variance of one node's noise."""

    @abstractmethod
    def error(self, metric: Metric) -> float:
        """Mean or maximum of ``variance`` over all steps of the horizon, exactly computed."""

    @abstractmethod
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z for consecutive steps: int64, shape ``(len(steps), *field.shape)``.

        In units of ``2**-fraction_bits``. The same numbers however a window is cut.
        """

    def sensitivity(self, p: Literal[1, 2]) -> float:
        """Largest p-norm of a column of C (D_1 or D_2)."""
        raise NotImplementedError

    def matrices(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Dense (B, C) for small horizons: int64 where integral, else objects (Fraction)."""
        raise NotImplementedError

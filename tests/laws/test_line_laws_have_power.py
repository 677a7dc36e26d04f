"""A strategy for lines broken on purpose breaks the law that is meant to catch it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from own_laws.lines import (
    check_line_description,
    check_line_estimates,
    check_line_sensitivity,
    check_line_strategy,
    check_line_variance,
    check_line_workloads,
    check_running_sums,
)

from counton.base.arrays import Floats, Integers
from counton.base.distributions import Sensitivity
from counton.laws import LawBroken
from counton.strategies import NodeNoise, Norm
from counton.tables import Haar, LineStrategy, Nodes, SquareRoot
from counton.tables.tree_law import TreeLaw

CELLS = 11
WEIGHTS = (7, 5, 4, 3, 2)


class Nameless(Haar):
    def __init__(self, cells: int, weights: tuple[int, ...], name: str = "") -> None:
        super().__init__(cells, weights, name="")


class ForgetsItsWeights(Haar):
    """Two matrices under one noise address."""

    @property
    def parameters(self) -> dict[str, Any]:
        return {"cells": self.cells}


class ForgetsItsCells(Haar):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"weights": list(self.weights)}


class ParametersNoJson(Haar):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"cells": self.cells, "weights": self.weights}


class ShowsLess(Haar):
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cells})"


class OnlyItself(Haar):
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class EqualsEverything(Haar):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class ErrorsByName(Nodes):
    """Strategies that measure the same claim other errors."""

    def variance(self, low: Integers, high: Integers) -> Floats:
        return super().variance(low, high) / (2 if self.name == "hierarchy" else 1)


class MeasuresLess(Nodes):
    """Counts in the last cell do not reach the root."""

    def measure(self, counts: Integers) -> Integers:
        measured = super().measure(counts)
        if counts.ndim == 1:
            measured[-1] -= counts[-1] * self.weights[-1]
        return measured


class ClaimsLess(Haar):
    def l1_sensitivity(self) -> int:
        return super().l1_sensitivity() - 1


class ClaimsMore(Haar):
    def squared_sensitivity(self) -> int:
        return super().squared_sensitivity() + 1


class MovesLess(Nodes):
    def largest_move(self, norm: Norm) -> int:
        return super().largest_move(norm) - (norm == 1)


class MovesShorter(Nodes):
    def largest_move(self, norm: Norm) -> int:
        return super().largest_move(norm) - (norm == 2)


class InnerProductsTooLarge(Nodes):
    @property
    def least_inner(self) -> int:
        return super().least_inner + 1


class EntriesTooSmall(Haar):
    @property
    def largest_entry(self) -> int:
        return super().largest_entry - 1


class ClaimsUnits(Haar):
    def __init__(self, cells: int, weights: tuple[int, ...], name: str = "haar") -> None:
        super().__init__(cells, weights, name)
        self.unit_columns = True


class OtherShift(Haar):
    def sensitivities(self, *args: Any, **options: Any) -> Sensitivity:
        return Sensitivity(1, 1)


class DescribesLess(Haar):
    """Rebuilt, its release would be shown with other noise."""

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "weights": [1] * len(self.weights)}


class DescribesNoName(Haar):
    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if name != "name"}


class LosesACell(Haar):
    def estimate(self, measured: NDArray[Any]) -> Floats:
        cells = super().estimate(measured)
        cells[0] = 0
        return cells


class WeighsBadly(Nodes):
    """Unbiased, from the leaves alone."""

    def estimate(self, measured: NDArray[Any]) -> Floats:
        return np.asarray(measured[: self.cells] / self.weights[0])


class ClaimsLessVariance(Haar):
    def variance(self, low: Integers, high: Integers) -> Floats:
        return super().variance(low, high) * (1 - 1e-4)


class ClaimsLessJointly(Haar):
    @cached_property
    def joint_law(self) -> TreeLaw:
        law = super().joint_law
        return replace(law, complete=tuple(own * (1 - 1e-4) for own in law.complete))


class OneShapeOnly(Haar):
    def variance(self, low: Integers, high: Integers) -> Floats:
        return super().variance(low, high).ravel()


class RangesTotalTooSmall(Haar):
    def ranges_variance(self) -> float:
        return super().ranges_variance() * (1 - 1e-4)


class QueriesTotalTooSmall(SquareRoot):
    def functional_variance(self, weights: Floats) -> float:
        return super().functional_variance(weights) * (1 - 1e-4)


class RoundsTheExactSums(SquareRoot):
    """x itself is rounded, outside of C x + z: neighbours can be told apart."""

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        sums, bits = super().running_sums(counts, noise, bits)
        exact = np.concatenate([[0], np.cumsum(counts)]) << bits
        return sums - exact + (exact >> bits + 1 << bits + 1), bits


class ShowsACount(Haar):
    """One bit of the data beside the measurements."""

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        sums, bits = super().running_sums(counts, noise, bits)
        sums[-1] += int(counts[0]) % 2
        return sums, bits


class NoNoise(Haar):
    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        return np.concatenate([[0], np.cumsum(counts)]) << bits, bits


class DrawsTwice(Haar):
    """The second draw of the same measurement lets an observer average."""

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        noise.run(0, range(self.measurements, 2 * self.measurements))
        return super().running_sums(counts, noise, bits)


class HalfTheNoise(Haar):
    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        sums, bits = super().running_sums(counts, noise, bits)
        exact = np.concatenate([[0], np.cumsum(counts)]) << bits
        return exact + (sums - exact) // 2, bits


class DropsTheZero(Haar):
    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        sums, bits = super().running_sums(counts, noise, bits)
        return sums[1:], bits


def test_an_honest_subclass_passes() -> None:
    check_line_strategy(type("Honest", (Haar,), {})(CELLS, WEIGHTS))


def haar(cls: type[Haar]) -> LineStrategy:
    return cls(CELLS, WEIGHTS)


def nodes(cls: type[Nodes]) -> LineStrategy:
    return cls(CELLS, (3, 4), (5, 2, 1))


@pytest.mark.parametrize(
    ("check", "strategy"),
    [
        (check_line_description, haar(Nameless)),
        (check_line_description, ForgetsItsWeights.cascade(CELLS)),
        (check_line_description, haar(ForgetsItsCells)),
        (check_line_description, haar(ParametersNoJson)),
        (check_line_description, haar(ShowsLess)),
        (check_line_description, haar(OnlyItself)),
        (check_line_description, haar(EqualsEverything)),
        (check_line_description, ErrorsByName(CELLS, (CELLS,), (1, 1), "hierarchy 2")),
        (check_line_sensitivity, nodes(MeasuresLess)),
        (check_line_sensitivity, haar(ClaimsLess)),
        (check_line_sensitivity, haar(ClaimsMore)),
        (check_line_sensitivity, nodes(MovesLess)),
        (check_line_sensitivity, nodes(MovesShorter)),
        (check_line_sensitivity, nodes(InnerProductsTooLarge)),
        (check_line_sensitivity, haar(EntriesTooSmall)),
        (check_line_sensitivity, haar(ClaimsUnits)),
        (check_line_sensitivity, haar(OtherShift)),
        (check_line_description, haar(DescribesLess)),
        (check_line_description, DescribesNoName.cascade(CELLS)),
        (check_line_estimates, haar(LosesACell)),
        (check_line_estimates, nodes(WeighsBadly)),
        (check_line_variance, haar(ClaimsLessVariance)),
        (check_line_variance, haar(OneShapeOnly)),
        (check_line_workloads, haar(RangesTotalTooSmall)),
        (check_line_workloads, haar(ClaimsLessJointly)),
        (check_line_workloads, QueriesTotalTooSmall(CELLS)),
        (check_running_sums, RoundsTheExactSums(CELLS)),
        (check_running_sums, haar(ShowsACount)),
        (check_running_sums, haar(NoNoise)),
        (check_running_sums, haar(DrawsTwice)),
        (check_running_sums, haar(HalfTheNoise)),
        (check_running_sums, haar(DropsTheZero)),
        (check_running_sums, haar(LosesACell)),
        (check_running_sums, nodes(WeighsBadly)),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_broken_strategy_is_caught(
    check: Callable[[LineStrategy], None], strategy: LineStrategy
) -> None:
    with pytest.raises(LawBroken, match=type(strategy).__name__):
        check(strategy)
    with pytest.raises(LawBroken):
        check_line_strategy(strategy)

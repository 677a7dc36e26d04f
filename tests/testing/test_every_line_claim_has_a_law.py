"""Every claim of a strategy for lines is in a law's list, and a wrong one breaks that law.

As `test_every_claim_has_a_law` does for streams.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from own_laws.lines import (
    check_line_description,
    check_line_estimates,
    check_line_sensitivity,
    check_line_strategy,
    check_line_variance,
    check_line_workloads,
    check_running_sums,
)

from counton.base.distributions import Sensitivity
from counton.tables import Haar, LineStrategy, Nodes, SquareRoot
from counton.testing import PropertyViolationError
from papers.ranges.dyadic import Dyadic
from papers.ranges.running_sums import sums_of_measurements

CELLS = 11


def haar() -> Haar:
    return Haar(CELLS, (7, 5, 4, 3, 2))


def nodes() -> Nodes:
    return Nodes(CELLS, (3, 4), (5, 2, 1))


def claiming(made: LineStrategy, **claims: Any) -> LineStrategy:
    """The strategy, which says something else."""
    found: Any = copy(made)
    base = type(made)
    found.__class__ = type(f"Wrong{base.__name__}", (base,), claims)
    vars(found).update({name: claim for name, claim in claims.items() if name in vars(made)})
    strategy: LineStrategy = found
    return strategy


def changed(made: LineStrategy, name: str, change: Callable[[Any], Any]) -> LineStrategy:
    """The strategy, of which one method returns something else."""
    held: Any = getattr(type(made), name)
    return claiming(made, **{name: lambda self, *args, **more: change(held(self, *args, **more))})


def halved(made: LineStrategy, name: str) -> LineStrategy:
    return changed(made, name, lambda found: found * 0.5)


def a_little_less(made: LineStrategy, name: str) -> LineStrategy:
    return changed(made, name, lambda found: found * (1 - 1e-4))


def in_norm(wrong: int, name: str, change: Callable[[int], int], base: Any = Haar) -> LineStrategy:
    """Another value of one norm, and the other one as it is."""
    held = getattr(base, name)
    made = haar() if base is Haar else nodes()

    def claim(self: Any, norm: int) -> int:
        found: int = held(self, norm)
        return change(found) if norm == wrong else found

    return claiming(made, **{name: claim})


def shifted_by_one(self: Any, *args: Any, **more: Any) -> Sensitivity:
    return Sensitivity(1, 1)


def releasing(
    make: Callable[[Any, Any, int], tuple[Any, int]], made: LineStrategy | None = None
) -> LineStrategy:
    """A strategy that makes something else of its sums, of the exact ones, and the bits."""
    made = made or haar()
    held: Any = getattr(type(made), "running_sums", sums_of_measurements)

    def running_sums(self: Any, counts: Any, noise: Any, bits: int) -> tuple[Any, int]:
        sums, bits = held(self, counts, noise, bits)
        return make(sums, np.concatenate([[0], np.cumsum(counts)]) << bits, bits)

    return claiming(made, running_sums=running_sums)


def draws_twice(self: Any, counts: Any, noise: Any, bits: int) -> tuple[Any, int]:
    """The second draw of the same measurement lets an observer average."""
    noise.run(0, range(self.measurements, 2 * self.measurements))
    return sums_of_measurements(self, counts, noise, bits)


def shows_a_count(self: Any, counts: Any, noise: Any, bits: int) -> tuple[Any, int]:
    """One bit of the data beside the measurements."""
    sums, bits = sums_of_measurements(self, counts, noise, bits)
    sums[-1] += int(counts[0]) % 2
    return sums, bits


def measures_less(self: Any, counts: Any) -> Any:
    """Counts in the last cell do not reach the root."""
    measured = Nodes.measure(self, counts)
    if counts.ndim == 1:
        measured[-1] -= counts[-1] * self.weights[-1]
    return measured


def loses_a_cell(self: Any, measured: Any) -> Any:
    cells = Haar.estimate(self, measured)
    cells[0] = 0
    return cells


def errors_by_name(self: Any, low: Any, high: Any) -> Any:
    """Strategies that measure the same claim other errors."""
    return Nodes.variance(self, low, high) / (2 if self.name == "hierarchy" else 1)


LOSES_A_CELL = claiming(haar(), estimate=loses_a_cell)
#: Unbiased, from the leaves alone.
WEIGHS_BADLY = claiming(
    nodes(),
    estimate=lambda self, measured: np.asarray(measured[: self.cells] / self.weights[0]),
)
JOINT = haar().joint_distribution

#: For each name of `LineStrategy`, and some more, wrong strategies by the law that notices.
WRONG: dict[str, list[tuple[Callable[[Any], None], LineStrategy]]] = {
    "__eq__": [
        (
            check_line_description,
            claiming(
                haar(), __eq__=lambda self, other: self is other, __hash__=lambda self: id(self)
            ),
        ),
        (
            check_line_description,
            claiming(haar(), __eq__=lambda self, other: True, __hash__=lambda self: 0),
        ),
    ],
    "__repr__": [
        (
            check_line_description,
            claiming(haar(), __repr__=lambda self: f"{type(self).__name__}({self.cells})"),
        )
    ],
    "estimate": [
        (check_line_strategy, halved(nodes(), "estimate")),
        (check_line_estimates, LOSES_A_CELL),
        (check_running_sums, LOSES_A_CELL),
        (check_line_estimates, WEIGHS_BADLY),
        (check_running_sums, WEIGHS_BADLY),
    ],
    "_from_description": [
        (
            check_line_strategy,
            claiming(nodes(), _from_description=classmethod(lambda cls, **_: Haar.cascade(8))),
        )
    ],
    "functional_variance": [
        (check_line_strategy, halved(nodes(), "functional_variance")),
        (check_line_strategy, halved(haar(), "functional_variance")),
        (check_line_workloads, a_little_less(SquareRoot(CELLS), "functional_variance")),
    ],
    "joint_distribution": [
        (
            check_line_workloads,
            claiming(
                haar(),
                joint_distribution=replace(
                    JOINT, complete=tuple(x * (1 - 1e-4) for x in JOINT.complete)
                ),
            ),
        )
    ],
    "l1_sensitivity": [
        (check_line_sensitivity, changed(haar(), "l1_sensitivity", lambda found: found - 1)),
    ],
    "largest_entry": [
        (check_line_sensitivity, claiming(haar(), largest_entry=haar().largest_entry - 1)),
    ],
    "largest_column": [
        (check_line_strategy, in_norm(norm, "largest_column", lambda found: found // 2))
        for norm in (1, 2)
    ],
    "largest_move": [
        *(
            (check_line_strategy, in_norm(norm, "largest_move", lambda found: found // 2))
            for norm in (1, 2)
        ),
        *(
            (check_line_sensitivity, in_norm(norm, "largest_move", lambda found: found - 1, Nodes))
            for norm in (1, 2)
        ),
    ],
    "least_inner": [
        (check_line_strategy, claiming(haar(), least_inner=10**12)),
        (check_line_sensitivity, claiming(nodes(), least_inner=nodes().least_inner + 1)),
    ],
    "matrix": [(check_line_strategy, changed(nodes(), "matrix", lambda found: found * 2))],
    "measure": [
        (check_line_strategy, changed(nodes(), "measure", lambda found: found * 2)),
        (check_line_sensitivity, claiming(nodes(), measure=measures_less)),
    ],
    "name": [(check_line_description, claiming(haar(), name=""))],
    "parameters": [
        (check_line_strategy, claiming(nodes(), parameters={"cells": 3})),
        # Two matrices under one noise address.
        (check_line_description, claiming(Haar.cascade(CELLS), parameters={"cells": CELLS})),
        (check_line_description, claiming(haar(), parameters={"weights": [7, 5, 4, 3, 2]})),
        (
            check_line_description,
            claiming(haar(), parameters={"cells": CELLS, "weights": (7, 5, 4, 3, 2)}),
        ),
    ],
    "ranges_variance": [
        (check_line_strategy, halved(nodes(), "ranges_variance")),
        (check_line_workloads, a_little_less(haar(), "ranges_variance")),
    ],
    "reads": [(check_line_strategy, halved(nodes(), "reads"))],
    "running_sums": [
        (check_line_strategy, releasing(lambda sums, _, bits: (sums + 1, bits), SquareRoot(8))),
        # x itself is rounded, outside of C x + z: neighbours can be told apart.
        (
            check_running_sums,
            releasing(
                lambda sums, x, bits: (sums - x + (x >> bits + 1 << bits + 1), bits),
                SquareRoot(CELLS),
            ),
        ),
        (check_running_sums, claiming(haar(), running_sums=shows_a_count)),
        (check_running_sums, releasing(lambda sums, exact, bits: (exact, bits))),  # no noise
        (check_running_sums, claiming(haar(), running_sums=draws_twice)),
        (check_running_sums, releasing(lambda sums, x, bits: (x + (sums - x) // 2, bits))),
        (check_running_sums, releasing(lambda sums, _, bits: (sums[1:], bits))),
    ],
    "saved_name": [(check_line_strategy, claiming(nodes(), saved_name="Haar"))],
    "sensitivities": [
        (check_line_strategy, claiming(nodes(), sensitivities=shifted_by_one)),
    ],
    "sources": [(check_line_strategy, claiming(nodes(), sources=("nobody",)))],
    "squared_sensitivity": [
        (check_line_strategy, changed(haar(), "squared_sensitivity", lambda found: 1)),
        (check_line_sensitivity, changed(haar(), "squared_sensitivity", lambda found: found + 1)),
    ],
    "to_dict": [
        (check_line_strategy, claiming(nodes(), to_dict=lambda self: {"strategy": "Nodes"})),
        # Rebuilt, its release would be shown with other noise.
        (
            check_line_description,
            changed(haar(), "to_dict", lambda found: {**found, "weights": [1] * 5}),
        ),
        (
            check_line_description,
            changed(
                Haar.cascade(CELLS),
                "to_dict",
                lambda found: {name: value for name, value in found.items() if name != "name"},
            ),
        ),
    ],
    "unit_columns": [
        (check_line_sensitivity, claiming(haar(), unit_columns=True)),
    ],
    "variance": [
        (check_line_strategy, halved(nodes(), "variance")),
        (check_line_variance, a_little_less(haar(), "variance")),
        (check_line_variance, changed(haar(), "variance", lambda found: found.ravel())),
        (
            check_line_description,
            claiming(Nodes(CELLS, (CELLS,), (1, 1), "hierarchy 2"), variance=errors_by_name),
        ),
    ],
    "works_on_grids": [(check_line_strategy, claiming(Dyadic.examples(8)[0], works_on_grids=True))],
}

#: Names whose wrong value takes neither privacy nor a right number from anybody.
NO_LAW = {"examples": "called by these laws and by nothing else: over which instances they run"}


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(LineStrategy) if not name.startswith("_")}
    assert not WRONG.keys() & NO_LAW.keys()
    assert names <= WRONG.keys() | NO_LAW.keys(), "a claim without a law"


@pytest.mark.parametrize("name", WRONG)
def test_line_checks_reject_each_wrong_claim(name: str) -> None:
    for distribution, strategy in WRONG[name]:
        with pytest.raises(PropertyViolationError, match=r"Wrong|Haar\(cells"):
            distribution(strategy)
        with pytest.raises(PropertyViolationError):
            check_line_strategy(strategy)


@pytest.mark.parametrize(
    "made", [nodes(), haar(), Haar.cascade(CELLS), SquareRoot(CELLS)], ids=repr
)
def test_correct_line_strategy_passes_checks(made: LineStrategy) -> None:
    check_line_strategy(claiming(made))
    assert np.array_equal(claiming(made).matrix(), made.matrix())

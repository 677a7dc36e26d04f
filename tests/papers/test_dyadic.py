"""The binary tree without least squares, which a paper compares and no plan chooses."""

from typing import Any

import numpy as np
import pytest
from own_laws.lines import (
    check_largest_errors,
    check_line_estimates,
    check_line_sensitivity,
    check_line_variance,
    check_line_workloads,
    check_running_sums,
)

from papers.ranges.dyadic import Dyadic
from papers.ranges.mechanisms import choice

SIZES = [1, 2, 3, 5, 8, 11, 16]


@pytest.mark.parametrize("cells", SIZES)
def test_dyadic_strategy_passes_line_checks(cells: int) -> None:
    for check in (
        check_line_sensitivity,
        check_line_estimates,
        check_line_variance,
        check_line_workloads,
        check_running_sums,
        check_largest_errors,
    ):
        check(Dyadic(cells))


@pytest.mark.parametrize("cells", SIZES)
def test_intervals_are_answered_by_the_nodes_that_are_read(cells: Any) -> None:
    strategy = Dyadic(cells)
    measured = np.random.default_rng(cells).integers(-1000, 1000, strategy.measurements)
    low, high = np.triu_indices(cells + 1)
    place = np.arange(cells)
    queries = ((low[:, None] <= place) & (place < high[:, None])).astype(float)
    found = strategy.answer(measured, low, high)
    assert found.tolist() == (strategy.reads(queries) @ measured).tolist()


def test_least_squares_improve_every_dyadic_interval() -> None:
    plain, consistent = (choice(name, 1000) for name in ("dyadic", "binary"))
    assert plain.distribution == consistent.distribution
    low, high = np.triu_indices(1001, 1)
    ends = low[None, ::37], high[None, ::37]
    assert (plain.strategy.variance(*ends) > consistent.strategy.variance(*ends)).all()

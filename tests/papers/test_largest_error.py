"""Expected largest errors: against what is known in closed form, and by brute force."""

import math
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

import counton
from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP, PureDP
from papers.ranges.dyadic import Dyadic
from papers.ranges.largest_error import expected_largest_error, largest_errors, mean_with_interval
from papers.ranges.workloads import RandomSubsets

KEY = chosen_key()


def choice(cells: int, strategy: str, rho: float = 0.001) -> Any:
    line: Any = Dyadic(cells) if strategy == "dyadic" else strategy
    return counton.plan_cells(cells, guarantee=ZCDP(rho), line=line).best


def test_expected_largest_error_equals_normal_integral() -> None:
    """Cells of their own, asked one by one: E max |Z_i| over 64, by its integral; power: 10%."""
    best = choice(64, "identity")
    grid = np.linspace(0, 10, 20001)
    below = np.vectorize(math.erf)(grid / math.sqrt(2)) ** 64
    expected = float(np.trapezoid(1 - below, grid)) * math.sqrt(best.distribution.variance)
    found = expected_largest_error(best, np.eye(64), runs=1000, level=0.999, key=KEY)
    assert found.lower < expected < found.upper
    assert found.upper - found.lower < 0.1 * expected
    one = expected_largest_error(choice(1, "cascade"), "nodes", runs=1000, level=0.999, key=KEY)
    std = math.sqrt(choice(1, "cascade").expected_error)
    assert one.lower < math.sqrt(2 / math.pi) * std < one.upper < 0.9 * std


@pytest.mark.parametrize("strategy", ["cascade", "dyadic", "square_root"])
def test_all_intervals_of_a_draw_are_looked_at(strategy: str) -> None:
    """The same noise, and every interval as a query of one's own."""
    cells = 13
    place, (low, high) = np.arange(cells), np.triu_indices(cells + 1, 1)
    queries = (low[:, None] <= place) & (place < high[:, None])
    best = choice(cells, strategy)
    every = [*largest_errors(best, runs=5, key=KEY)]
    assert every == pytest.approx([*largest_errors(best, queries, runs=5, key=KEY)], rel=1e-3)
    assert len(set(every)) == 5


def test_the_interval_is_students() -> None:
    found = mean_with_interval([1.0, 2.0, 4.0, 5.0], 0.95)
    assert found.mean == 3
    assert found.upper - 3 == pytest.approx(3.182446 * math.sqrt(10 / 3 / 4), rel=1e-6)
    assert 3 - found.lower == pytest.approx(found.upper - 3)


def test_expected_largest_error_refuses_unsupported_choices() -> None:
    best = choice(8, "haar")
    grid = counton.plan_cells((4, 4), guarantee=PureDP(1)).best
    asked: list[tuple[Any, dict[str, Any], str]] = [
        (grid, {}, "a grid of 2 axes"),
        (best, {"runs": 1}, "runs is 1"),
        (best, {"level": 1}, "level"),
        (best, {"workload": RandomSubsets(8)}, "give a matrix with one subset in each row"),
        (best, {"workload": "subsets"}, "give a matrix with one subset in each row"),
        (choice(8, "dyadic"), {"workload": "subsets"}, "give a matrix with one subset in each row"),
        (best, {"workload": [[1, 1]]}, "has 2 columns"),
        (best, {"key": b"secret"}, "must be a counton.Key"),
    ]
    for which, arguments, message in asked:
        with pytest.raises(InvalidInputError, match=message):
            expected_largest_error(which, **arguments)

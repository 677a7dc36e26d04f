"""Ranges: privacy by brute force, honest errors, the choice of strategy, grids, bad input."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from once import line
from tables_of_noise import WrittenNoise

import counton
from counton import ZCDP, ApproxDP, ContributionBound, PureDP, Ranges
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.tables import AllRanges, Haar, Nodes, gaussian_bound
from counton.tables.line_catalogue import NAMES
from papers.ranges.running_sums import running_sums
from papers.ranges.workloads import RandomSubsets, TreeNodes

KEY = chosen_key()
GUARANTEES = [PureDP(0.7), ApproxDP(1, 1e-6), ZCDP(0.5)]


def kronecker(grid: Any) -> Any:
    matrix = np.ones((1, 1), np.int64)
    for axis in grid.axes:
        matrix = np.kron(matrix, axis.matrix())
    return matrix


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "square_root"])
@pytest.mark.parametrize("shape", [(11,), (3, 4)])
def test_privacy_shift_by_brute_force_over_cells(strategy: Any, shape: Any) -> None:
    """One unit more in a cell, and noise shifted by its column, give the same release."""
    for guarantee in GUARANTEES:
        choice = counton.plan_cells(shape, guarantee=guarantee, line=strategy).best
        matrix = kronecker(choice.strategy)
        one = choice.strategy.sensitivities()
        moved = choice.strategy.sensitivities("move")
        assert one.l1 == np.abs(matrix).sum(axis=0).max()
        assert one.l2_squared == (matrix**2).sum(axis=0).max()
        moves = matrix[:, :, None] - matrix[:, None, :]
        assert moved.l1 >= np.abs(moves).sum(axis=0).max()
        assert moved.l2_squared >= (moves**2).sum(axis=0).max()
        rng = np.random.default_rng(0)
        counts = rng.integers(0, 50, shape)
        noise = rng.integers(-(2**22), 2**22, len(matrix))
        base, _ = running_sums(choice.strategy, counts, WrittenNoise({0: noise}), 24)
        for cell in range(counts.size):
            neighbour = counts.copy().ravel()
            neighbour[cell] += 1
            shifted = WrittenNoise({0: noise - matrix[:, cell]})
            other, _ = running_sums(choice.strategy, neighbour.reshape(shape), shifted, 24)
            assert (other == base).all()


def test_square_root_privacy_shift_and_sensitivity() -> None:
    choice = counton.plan_cells(30, guarantee=ZCDP(1), line="square_root").best
    axis = choice.strategy.axes[0]
    matrix = np.array([axis.measure(row) for row in np.eye(30, dtype=np.int64)]).T
    assert axis.l1_sensitivity() == matrix.sum(axis=0).max()
    assert axis.squared_sensitivity() == (matrix**2).sum(axis=0).max()
    moves = matrix[:, :, None] - matrix[:, None, :]
    assert axis.largest_move(2) >= (moves**2).sum(axis=0).max()
    assert axis.largest_move(1) >= np.abs(moves).sum(axis=0).max()
    assert axis.least_inner <= (matrix.T @ matrix).min()


def test_automatic_strategy_has_least_error() -> None:
    plan = counton.plan_cells(256, guarantee=ZCDP(1 / (2 * 50.2098**2)))
    assert plan.best.name == "optimal"
    share = plan.best.expected_error / (50.2098**2 * gaussian_bound(AllRanges(256)))
    assert 0.9999 <= share <= 1.02
    errors = [choice.expected_error for choice in plan.choices]
    assert errors == sorted(errors)
    assert {choice.name for choice in plan.choices} == set(NAMES)
    both = counton.plan_cells(100, guarantee=ApproxDP(0.1, 1e-9))
    assert {choice.noise_kind for choice in both.choices} == {"laplace", "gaussian"}
    assert both.best.noise_kind == "laplace"
    assert counton.plan_cells(100, guarantee=ApproxDP(0.1, 1e-3)).best.noise_kind == "gaussian"


@pytest.mark.parametrize(
    "workload",
    ["ranges", "prefixes", TreeNodes(40), RandomSubsets(40), np.eye(40)[:7] + np.eye(40)[1:8]],
)
def test_expected_error_is_the_sum_of_the_variances(workload: Any) -> None:
    plan = counton.plan_cells(40, guarantee=ZCDP(0.5), workload=workload, line="haar")
    (choice,), gram = plan.choices, plan.best.workloads[0].gram()

    def variance(low: Any, high: Any) -> Any:
        return choice.strategy.variance(low[None], high[None]) * choice.distribution.variance

    low, high = np.triu_indices(41, 0)
    sums = np.zeros((41, 41))
    sums[low, high] = variance(low, high)
    # Covariances of cells from variances of intervals.
    inner = -(sums[:-1, 1:] - sums[1:, 1:] - sums[:-1, :-1] + sums[1:, :-1])
    joint = np.triu(-inner, 1) / 2
    joint = joint + joint.T + np.diag(variance(np.arange(40), np.arange(1, 41)))
    assert choice.expected_error == pytest.approx((gram * joint).sum(), rel=1e-6)


@pytest.mark.long
def test_variance_of_boxes_equals_published_constants() -> None:
    reading = line([0] * 1024, ZCDP(0.5), KEY, strategy="cascade")
    sigma = math.sqrt(1 + 10 / 3)
    low, high = np.triu_indices(1025, 1)
    ratio = reading.boxes(low[None], high[None])[1] ** 2 / sigma**2
    assert f"{ratio.max():.6f}" == "7.111111"
    assert f"{ratio.mean():.6f}" == "4.751952"
    assert reading.std() == pytest.approx(sigma)


def test_two_dimensional_cascade_has_the_product_sensitivity() -> None:
    """The paper leaves the privacy of its Algorithm 4 open."""
    choice = counton.plan_cells((8, 32), guarantee=ZCDP(0.5), line="cascade").best
    sigma_squared = (1 + 3 / 3) * (1 + 5 / 3)
    low = np.array([[0, 0, 4], [0, 0, 8]])
    high = np.array([[8, 1, 8], [32, 1, 16]])
    found = choice.strategy.variance(low, high) * choice.distribution.variance
    assert found == pytest.approx(np.full(3, sigma_squared), rel=1e-5)


def test_ranges_accept_strategy_for_each_axis() -> None:
    best = counton.plan_cells(
        (8, 6), guarantee=ZCDP(0.5), line=("haar", Nodes.independent(6)),
        workload=("ranges", np.eye(6)),
    ).best  # fmt: skip
    assert best.name == "haar x identity"
    own = line([1, 2, 3, 4], ZCDP(1), KEY, strategy=Haar(4, (3, 2, 1)))
    assert own.statistic.grid.name == "haar"


def test_moving_a_unit_costs_more_and_cells_multiply() -> None:
    def std(contribution: Any) -> Any:
        best = counton.plan_cells(
            16, guarantee=ZCDP(1), line="cascade", contribution=contribution
        ).best
        whole = best.strategy.variance(np.array([[0]]), np.array([[16]]))
        return math.sqrt(float(whole[0]) * best.distribution.variance)

    base = std(ContributionBound.add_remove())
    assert std(ContributionBound.replace()) / base == pytest.approx(
        math.sqrt(2 * 5 / 3 / (1 + 4 / 3)), rel=1e-6
    )
    assert std(ContributionBound.add_remove(cells=2, per_cell=3)) == pytest.approx(6 * base)


@pytest.mark.parametrize(
    ("name", "message"),
    [((3, 2), "ends before it begins"), ((0, 7), "is not among"), ((-1, 2), "is not among")],
)
def test_intervals_outside_the_line_are_refused(name: Any, message: Any) -> None:
    reading = line([1, 2, 3, 4, 5], ZCDP(1), KEY)
    with pytest.raises(InvalidInputError, match=message):
        reading[name]


@pytest.mark.parametrize(
    ("shape", "changed", "message"),
    [
        (2, {"line": "best"}, "must be 'auto', or one of"),
        (2, {"line": None}, "line is None"),
        ((1, 2), {"line": ["haar", "haar"]}, "or a tuple with one of these for each axis"),
        (2, {"guarantee": ZCDP(1e-30)}, "no gaussian noise is known"),
        (2, {"line": Nodes.independent(3)}, "measures 3 cells, but there are 2"),
        (2, {"line": ("haar", "haar")}, "2 strategies are given for 1 axes"),
        (2, {"workload": "all"}, "workload is 'all'"),
        (2, {"workload": np.eye(3)}, "has 3 columns, but there are 2"),
        (2, {"workload": ("ranges", "ranges")}, "2 workloads are given for 1 axes"),
        ((1, 2), {"line": "square_root"}, "works only on a line"),
        (5000, {"line": "optimal"}, "at most 4096"),
        (5000, {"line": "optimal", "guarantee": PureDP(1)}, "at most 1024"),
        (
            2,
            {"contribution": ContributionBound.values(0, 5, resolution=1)},
            "values that are clipped",
        ),
        (2, {"contribution": ContributionBound.add_remove(steps=2)}, "no steps"),
        (2, {"contribution": ContributionBound.replace(every=2)}, "no steps"),
    ],
)
def test_plans_of_nothing_that_could_be_are_refused(shape: Any, changed: Any, message: Any) -> None:
    with pytest.raises(InvalidInputError, match=message):
        counton.plan_cells(shape, **{"guarantee": ZCDP(1), **changed})


@pytest.mark.parametrize("shape", [0, (), (3, 0), 6.5, (6.5,), True, "6"])
def test_shapes_that_are_none_are_refused(shape: Any) -> None:
    with pytest.raises(InvalidInputError, match="at least one cell along each axis"):
        counton.plan_cells(shape, guarantee=ZCDP(1))
    six: Any = np.int64(6)
    assert counton.plan_cells(six, guarantee=ZCDP(1)).best.strategy.shape == (6,)


@pytest.mark.parametrize("count", [2**45, 2**61])
def test_counts_too_large_to_be_exact_are_refused(count: Any) -> None:
    statistic = Ranges(2, counts=True).resolve_parameters(ZCDP(1), 1)
    with pytest.raises(SumOverflowError, match="larger units"):
        statistic.measure(np.array([[1, count]]))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_documented_table_of_strategies_states_their_errors(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "strategies.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(r"^\| `(\w+)` \| ([\d.e+]+) \| ([\d.e+]+) \|", page, re.MULTILINE)
    assert {row[0] for row in rows} == set(NAMES)
    [(_, *told)] = [row for row in rows if row[0] == name]
    found = []
    for guarantee, family, digits in (
        (ZCDP(0.5), "gaussian", ".3e"),
        (PureDP(0.1), "laplace", ".2e"),
    ):
        (choice,) = counton.plan_cells(1024, guarantee=guarantee, line=name).choices
        assert choice.noise_kind == family
        found.append(format(choice.expected_error, digits))
    assert found == told

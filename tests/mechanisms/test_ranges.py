"""Ranges: privacy by brute force, honest errors, the choice of strategy, grids, bad input."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from tables_of_noise import WrittenNoise

from counton.errors import InvalidInput, SumOverflow
from counton.mechanisms.ranges import check_size, plan_ranges
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP, Contribution, PureDP
from counton.store import release_ranges
from counton.strategies.lines import AllRanges, Dense, Haar, Nodes, gaussian_bound
from counton.strategies.lines.catalogue import NAMES

KEY = chosen_key()
#: What can be released; dyadic can only be planned with.
RELEASED = [name for name in NAMES if name != "dyadic"]
GUARANTEES = [PureDP(0.7), ApproxDP(1, 1e-6), ZCDP(0.5)]


def kronecker(grid: Any) -> Any:
    matrix = np.ones((1, 1), np.int64)
    for axis in grid.axes:
        matrix = np.kron(matrix, axis.matrix())
    return matrix


@pytest.mark.parametrize("strategy", [name for name in RELEASED if name != "square_root"])
@pytest.mark.parametrize("shape", [(11,), (3, 4)])
def test_privacy_shift_by_brute_force_over_cells(strategy: Any, shape: Any) -> None:
    """One unit more in a cell, and noise shifted by its column, give the same release."""
    for guarantee in GUARANTEES:
        choice = plan_ranges(shape, guarantee=guarantee, strategy=strategy).best
        matrix = kronecker(choice.grid)
        one, moved = choice.grid.shift(), choice.grid.shift("move")
        assert one.l1 == np.abs(matrix).sum(axis=0).max()
        assert one.l2_squared == (matrix**2).sum(axis=0).max()
        moves = matrix[:, :, None] - matrix[:, None, :]
        assert moved.l1 >= np.abs(moves).sum(axis=0).max()
        assert moved.l2_squared >= (moves**2).sum(axis=0).max()
        rng = np.random.default_rng(0)
        counts = rng.integers(0, 50, shape)
        noise = rng.integers(-(2**22), 2**22, len(matrix))
        base, _ = choice.grid.running_sums(counts, WrittenNoise({0: noise}), 24)
        for cell in range(counts.size):
            neighbour = counts.copy().ravel()
            neighbour[cell] += 1
            shifted = WrittenNoise({0: noise - matrix[:, cell]})
            other, _ = choice.grid.running_sums(neighbour.reshape(shape), shifted, 24)
            assert (other == base).all()


def test_square_root_privacy_shift_and_sensitivity() -> None:
    choice = plan_ranges(30, guarantee=ZCDP(1), strategy="square_root").best
    axis = choice.grid.axes[0]
    matrix = np.array([axis.measure(row) for row in np.eye(30, dtype=np.int64)]).T
    assert axis.l1_sensitivity() == matrix.sum(axis=0).max()
    assert axis.squared_sensitivity() == (matrix**2).sum(axis=0).max()
    moves = matrix[:, :, None] - matrix[:, None, :]
    assert axis.squared_move_sensitivity() >= (moves**2).sum(axis=0).max()
    assert axis.l1_move_sensitivity() >= np.abs(moves).sum(axis=0).max()
    assert axis.least_inner <= (matrix.T @ matrix).min()


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("cells", [1, 2, 5, 100, 3001])
@pytest.mark.slow
def test_every_strategy_has_the_errors_it_states(cells: Any, guarantee: Any) -> None:
    counts = np.random.default_rng(cells).integers(0, 100, cells)
    exact = np.concatenate([[0], np.cumsum(counts)])
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, cells + 1, size=(2, 300)), axis=0)
    for strategy in RELEASED:
        if strategy == "optimal" and cells > 200:
            continue
        release = release_ranges(counts, guarantee=guarantee, key=KEY, strategy=strategy)
        assert release.strategy == strategy
        low, high = ends
        away = release.sum(low, high) - (exact[high] - exact[low])
        std = release.std(low, high)
        assert (away[low == high] == 0).all()
        assert (std[low == high] == 0).all()
        real = low < high
        if real.any():
            assert (np.abs(away[real]) / std[real]).max() < 9
        if cells > 3000:
            single = release.cells() - counts
            expected = release.std(np.arange(cells), np.arange(1, cells + 1))
            assert (single / expected).std() == pytest.approx(1, abs=0.15)


def test_intervals_add_up_exactly_and_the_cells_add_up_to_them() -> None:
    counts = np.random.default_rng(0).integers(0, 10**6, 1000)
    release = release_ranges(counts, guarantee=ZCDP(0.1), key=KEY)
    assert release.sum(3, 700) + release.sum(700, 999) == release.sum(3, 999)
    assert release.cells()[5:50].sum() == release.sum(5, 50)


def test_auto_takes_the_least_error_and_states_it() -> None:
    plan = plan_ranges(1024, guarantee=ZCDP(1 / (2 * 50.2098**2)))
    assert plan.best.name == "optimal"
    assert plan.best.expected_error <= 1.02 * 1.635e10
    assert plan.best.expected_error >= 50.2098**2 * gaussian_bound(AllRanges(1024)) * 0.9999
    errors = [choice.expected_error for choice in plan.choices]
    assert errors == sorted(errors)
    assert {choice.name for choice in plan.choices} == set(RELEASED)
    both = plan_ranges(200, guarantee=ApproxDP(0.1, 1e-9))
    assert {choice.family for choice in both.choices} == {"laplace", "gaussian"}
    assert both.best.family == "laplace"
    assert plan_ranges(200, guarantee=ApproxDP(0.1, 1e-3)).best.family == "gaussian"


def test_the_tree_without_least_squares_is_planned_with_and_not_released() -> None:
    """Its answers do not add up, and least squares on what it measures are better everywhere."""
    plain, consistent = (
        plan_ranges(1000, guarantee=ZCDP(0.5), strategy=name).best for name in ("dyadic", "binary")
    )
    assert plain.noise_law == consistent.noise_law
    low, high = np.triu_indices(1001, 1)
    ends = low[None, ::37], high[None, ::37]
    assert (plain.grid.variance(*ends) > consistent.grid.variance(*ends)).all()
    with pytest.raises(InvalidInput, match="strategy is 'dyadic', whose answers do not add up"):
        release_ranges([3, 1, 4], guarantee=ZCDP(0.5), key=KEY, strategy="dyadic")
    with pytest.raises(InvalidInput, match="dyadic works on a line only"):
        plan_ranges((8, 8), guarantee=ZCDP(0.5), strategy="dyadic")


def test_auto_on_long_lines_is_at_least_as_good_as_haar() -> None:
    for guarantee in (PureDP(0.1), ZCDP(0.5)):
        best = plan_ranges(2**15, guarantee=guarantee).best.expected_error
        assert best <= plan_ranges(2**15, guarantee=guarantee, strategy="haar").best.expected_error


@pytest.mark.parametrize(
    "workload", ["ranges", "prefixes", "nodes", "subsets", np.eye(40)[:7] + np.eye(40)[1:8]]
)
def test_expected_error_is_the_sum_of_the_variances(workload: Any) -> None:
    release = release_ranges(
        np.zeros(40, int), guarantee=ZCDP(0.5), key=KEY, workload=workload, strategy="haar"
    )
    gram = release.plan.workloads[0].gram()
    low, high = np.triu_indices(41, 0)
    sums = np.zeros((41, 41))
    sums[low, high] = release.variance(low, high)
    # Covariances of cells from variances of intervals.
    inner = -(sums[:-1, 1:] - sums[1:, 1:] - sums[:-1, :-1] + sums[1:, :-1])
    joint = np.triu(-inner, 1) / 2
    joint = joint + joint.T + np.diag(release.variance(np.arange(40), np.arange(1, 41)))
    assert release.expected_error == pytest.approx((gram * joint).sum(), rel=1e-6)


def test_the_middle_of_an_interval_costs_what_the_published_law_says() -> None:
    release = release_ranges([0] * 1024, guarantee=ZCDP(0.5), key=KEY, strategy="cascade")
    sigma = math.sqrt(1 + 10 / 3)
    low, high = np.triu_indices(1025, 1)
    ratio = release.variance(low, high) / sigma**2
    assert f"{ratio.max():.6f}" == "7.111111"
    assert f"{ratio.mean():.6f}" == "4.751952"
    assert release.std(0, 1024) == pytest.approx(sigma)


@pytest.mark.parametrize("shape", [(8, 4), (6, 7), (3, 4, 5)])
@pytest.mark.parametrize("strategy", ["auto", "cascade", "haar", "binary", "identity"])
def test_boxes_against_the_kronecker_product(shape: Any, strategy: Any) -> None:
    counts = np.random.default_rng(2).integers(0, 9, shape)
    release = release_ranges(counts, guarantee=ZCDP(4), key=KEY, strategy=strategy)
    matrix = kronecker(release.plan.best.grid).astype(float)
    joint = np.linalg.inv(matrix.T @ matrix) * release.noise_law.variance
    sides = [list(itertools.combinations(range(count + 1), 2)) for count in shape]
    rng = np.random.default_rng(3)
    boxes = [[side[rng.integers(len(side))] for side in sides] for _ in range(20)]
    low = np.array([[side[0] for side in box] for box in boxes])
    high = np.array([[side[1] for side in box] for box in boxes])
    for box, std, value in zip(boxes, release.std(low, high), release.sum(low, high), strict=True):
        inside = np.zeros(shape)
        inside[tuple(slice(*side) for side in box)] = 1
        query = inside.ravel()
        assert std**2 == pytest.approx(query @ joint @ query)
        assert abs(value - (counts * inside).sum()) < 7 * std
    assert release.cells().sum() == release.sum([0] * len(shape), shape)


def test_two_dimensional_cascade_has_the_product_sensitivity() -> None:
    """The paper leaves the privacy of its Algorithm 4 open."""
    release = release_ranges(
        np.zeros((8, 32), int), guarantee=ZCDP(0.5), key=KEY, strategy="cascade"
    )
    sigma_squared = (1 + 3 / 3) * (1 + 5 / 3)
    assert release.variance([0, 0], [8, 32]) == pytest.approx(sigma_squared, rel=1e-5)
    assert release.variance([0, 0], [1, 1]) == pytest.approx(sigma_squared, rel=1e-5)
    assert release.variance([4, 8], [8, 16]) == pytest.approx(sigma_squared, rel=1e-5)


def test_strategies_for_each_axis() -> None:
    release = release_ranges(
        np.zeros((8, 6), int),
        guarantee=ZCDP(0.5),
        key=KEY,
        strategy=("haar", Nodes.independent(6)),
        workload=("ranges", np.eye(6)),
    )
    assert release.strategy == "haar x identity"
    own = release_ranges([1, 2, 3, 4], guarantee=ZCDP(1), key=KEY, strategy=Haar(4, (3, 2, 1)))
    assert own.strategy == "haar"


def test_moving_a_unit_costs_more_and_cells_multiply() -> None:
    def std(contribution: Any) -> Any:
        return release_ranges(
            [0] * 16, guarantee=ZCDP(1), key=KEY, strategy="cascade", contribution=contribution
        ).std(0, 16)

    base = std(Contribution.add_remove())
    assert std(Contribution.replace()) / base == pytest.approx(
        math.sqrt(2 * 5 / 3 / (1 + 4 / 3)), rel=1e-6
    )
    assert std(Contribution.add_remove(cells=2, per_cell=3)) == pytest.approx(6 * base)


def test_the_same_key_gives_the_same_release_and_other_terms_other_noise() -> None:
    counts = [5, 6, 7, 8]
    base = release_ranges(counts, guarantee=ZCDP(1), key=KEY, strategy="haar")
    again = release_ranges(counts, guarantee=ZCDP(1), key=KEY, strategy="haar")
    assert (base.cells() == again.cells()).all()
    changes: list[dict[str, Any]] = [
        {"name": "other"},
        {"guarantee": ZCDP(1.1)},
        {"strategy": "cascade"},
        {"contribution": Contribution.replace()},
        {"key": Key.generate()},
    ]
    for changed in changes:
        terms: dict[str, Any] = {"guarantee": ZCDP(1), "key": KEY, "strategy": "haar", **changed}
        assert (release_ranges(counts, **terms).cells() != base.cells()).any()


def test_the_protected_unit_and_the_guarantee_are_printed() -> None:
    text = str(release_ranges([1, 2], guarantee=PureDP(1), key=KEY))
    assert "one unit, which counts in one cell by at most 1, added or removed" in text
    assert "pure differential privacy with epsilon = 1" in text


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (3, 2, r"\[3, 2\) is reversed"),
        (-1, 2, "low is -1"),
        (0, 6, "high is 6; there are 5 cells"),
        (0.0, 2, "must be integers"),
        ([0, 1], [2, 3, 4], "do not go together"),
        ([0, 4], [5, 3], r"\[4, 3\) is reversed"),
    ],
)
def test_intervals_outside_the_line_are_refused(low: Any, high: Any, message: Any) -> None:
    release = release_ranges([1, 2, 3, 4, 5], guarantee=ZCDP(1), key=KEY)
    for answer in (release.sum, release.std):
        with pytest.raises(InvalidInput, match=message):
            answer(low, high)


def test_boxes_need_coordinates() -> None:
    release = release_ranges([[1, 2], [3, 4]], guarantee=ZCDP(1), key=KEY)
    with pytest.raises(InvalidInput, match="must hold 2 coordinates"):
        release.sum(0, 1)
    with pytest.raises(InvalidInput, match="high is 3"):
        release.sum([0, 0], [2, 3])


@pytest.mark.parametrize(
    ("counts", "changed", "message"),
    [
        ([], {}, "at least one cell"),
        (5, {}, "at least one cell"),
        (np.zeros((3, 0), int), {}, "at least one cell"),
        ([1, -2], {}, "row 2 of the counts holds -2, which is negative"),
        ([1.0, 2.0], {}, "must be integers"),
        ([1, None], {}, "must be an integer"),
        ([float("nan")], {}, "must be integers"),
        (["1"], {}, "must be integers"),
        ([[1], [1, 2]], {}, "do not form an array"),
        ([True], {}, "must be integers"),
        ([1, 2], {"strategy": "best"}, "must be 'auto' or one of"),
        ([1, 2], {"strategy": None}, "strategy is None"),
        ([[1, 2]], {"strategy": ["haar", "haar"]}, "or a tuple with one of these an axis"),
        ([1, 2], {"guarantee": ZCDP(1e-30)}, "no gaussian noise is known"),
        ([1, 2], {"strategy": Nodes.independent(3)}, "measures 3 cells, but there are 2"),
        ([1, 2], {"strategy": ("haar", "haar")}, "2 strategies were given for 1 axes"),
        ([1, 2], {"workload": "all"}, "workload is 'all'"),
        ([1, 2], {"workload": np.eye(3)}, "asks about 3 cells, but there are 2"),
        ([1, 2], {"workload": ("ranges", "ranges")}, "2 workloads were given for 1 axes"),
        ([[1, 2]], {"strategy": "square_root"}, "works on a line only"),
        ([1] * 5000, {"strategy": "optimal"}, "at most 4096"),
        ([1] * 5000, {"strategy": "optimal", "guarantee": PureDP(1)}, "at most 1024"),
        ([1, 2], {"name": ""}, "name is ''"),
        ([1, 2], {"contribution": Contribution.clipped(0, 5, resolution=1)}, "clipped values"),
        ([1, 2], {"contribution": Contribution.add_remove(steps=2)}, "no steps"),
        ([1, 2], {"contribution": Contribution.replace(every=2)}, "no steps"),
    ],
)
def test_bad_input_is_refused_with_a_reason(counts: Any, changed: Any, message: Any) -> None:
    with pytest.raises(InvalidInput, match=message):
        release_ranges(counts, **{"guarantee": ZCDP(1), "key": KEY, **changed})


@pytest.mark.parametrize("shape", [0, (), (3, 0), 6.5, (6.5,), True, "6", None])
def test_shapes_that_are_none_are_refused(shape: Any) -> None:
    with pytest.raises(InvalidInput, match="at least one cell along every axis"):
        plan_ranges(shape, guarantee=ZCDP(1))
    six: Any = np.int64(6)
    assert plan_ranges(six, guarantee=ZCDP(1)).best.grid.shape == (6,)


@pytest.mark.parametrize("count", [2**45, 2**61, 2**80])
def test_counts_too_large_to_be_exact_are_refused(count: Any) -> None:
    with pytest.raises(SumOverflow, match="larger units"):
        release_ranges([1, count], guarantee=ZCDP(1), key=KEY)


def test_a_saved_strategy_gives_the_same_release_again(tmp_path: Any) -> None:
    counts = np.arange(30)
    first = release_ranges(counts, guarantee=ZCDP(1), key=KEY)
    (axis,) = first.strategies
    assert isinstance(axis, Dense)
    axis.save(tmp_path / "axis.npz")
    again = release_ranges(
        counts, guarantee=ZCDP(1), key=KEY, strategy=Dense.load(tmp_path / "axis.npz")
    )
    assert (again.cells() == first.cells()).all()
    grid = release_ranges(np.ones((3, 4), int), guarantee=ZCDP(1), key=KEY)
    same = release_ranges(
        np.ones((3, 4), int), guarantee=ZCDP(1), key=KEY, strategy=grid.strategies
    )
    assert (same.cells() == grid.cells()).all()


@pytest.mark.parametrize(
    ("guarantee", "strategy"),
    [(ZCDP(3000), "identity"), (PureDP(1e4), "identity"), (ZCDP(1e12), "haar")],
)
def test_noise_that_is_next_to_never_there_is_no_error(guarantee: Any, strategy: Any) -> None:
    release = release_ranges([1, 2, 7], guarantee=guarantee, key=KEY, strategy=strategy)
    assert release.sum(0, 3) == pytest.approx(10, abs=1e-3)
    assert release.std(0, 3) < 1e-3


def test_no_question_has_no_answers_and_huge_ends_are_out_of_range() -> None:
    line = release_ranges([1, 2, 7], guarantee=ZCDP(1), key=KEY)
    assert line.sum([], []).shape == line.std([], []).shape == (0,)
    grid = release_ranges([[1, 2], [3, 4]], guarantee=ZCDP(1), key=KEY)
    assert grid.sum([], []).shape == grid.std([], []).shape == (0,)
    with pytest.raises(InvalidInput, match="high is 1180591620717411303424, which is out of range"):
        line.sum(0, 2**70)
    with pytest.raises(InvalidInput, match="there are 2 x 2 cells"):
        grid.sum([0, 0], [1, 2**70])


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_what_is_no_key_is_refused(key: Any) -> None:
    what = "neither state nor key is given" if key is None else r"it must be a counton\.Key"
    with pytest.raises(InvalidInput, match=what):
        release_ranges([1, 2], guarantee=ZCDP(1), key=key)


def test_a_bad_cell_of_a_grid_is_named_as_questions_name_it() -> None:
    with pytest.raises(InvalidInput, match=r"cell \(1, 0\) of the counts holds -4"):
        release_ranges([[1, 2], [-4, 4]], guarantee=ZCDP(1), key=KEY)


def test_the_largest_sum_is_named_exactly() -> None:
    most = 2**61 - 1
    with pytest.raises(SumOverflow, match=f"sum to {most + 1}; with this strategy at most {most} "):
        release_ranges([most, 1], guarantee=ZCDP(1), key=KEY, strategy="identity")


def test_grids_with_too_many_measurements_are_refused_before_they_are_measured() -> None:
    strategy = Nodes.binary(2**14)
    plan = plan_ranges((2**14, 2**14), guarantee=ZCDP(1), strategy=(strategy, strategy))
    with pytest.raises(InvalidInput, match="takes 1,073,676,289 measurements; at most 268,435,456"):
        check_size(plan.best.grid.shape, plan.best.grid.axes)


@pytest.mark.slow
def test_the_documented_table_of_strategies_states_their_errors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.e+]+) \| ([\d.e+]+) \|", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(RELEASED)
    columns = ((1, ZCDP(0.5), "gaussian", ".3e"), (2, PureDP(0.1), "laplace", ".2e"))
    for column, guarantee, family, digits in columns:
        choices = plan_ranges(1024, guarantee=guarantee).choices
        errors = {choice.name: choice.expected_error for choice in choices}
        assert {choice.family for choice in choices} == {family}
        assert {row[0]: row[column] for row in rows} == {
            name: format(error, digits) for name, error in errors.items()
        }

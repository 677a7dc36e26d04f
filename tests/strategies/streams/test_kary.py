"""k-ary trees: the values of "Count on Your Elders", recomputed exactly."""

import math
from fractions import Fraction
from itertools import product

import pytest
from drawn_noise import CountedNoise
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import InvalidInputError
from counton.strategies import KAry, Metric, sensitivity


def laplace_mse(tree: KAry) -> float:
    """Mean squared error at epsilon = 1: two times the squared scale D_1, a node."""
    return 2 * sensitivity(tree, 1) ** 2 * tree.overall_variance("mean")


# Best odd arity, its exact mean squared error, and that of k = 19, by enumeration in exact
# arithmetic; the closed form is Theorem 1.2 of the paper.
ODD_TABLE = [
    (2**8, 23, 90.25, 191.0), (2**10, 13, 170.5078125, 199.5), (2**12, 21, 270.861328, 478.5),
    (2**16, 21, 614.624023, 950.1), (2**20, 19, 1147.434044, 1147.4),
    (2**24, 19, 1955.476799, 1955.5),
]  # fmt: skip


@pytest.mark.parametrize(("horizon", "arity", "mse", "mse_19"), ODD_TABLE)
def test_best_odd_arity(horizon: int, arity: int, mse: float, mse_19: float) -> None:
    best = min((KAry(horizon, k) for k in range(3, 129, 2)), key=laplace_mse)
    assert best.arity == arity
    assert laplace_mse(best) == pytest.approx(mse, abs=5e-7)
    assert laplace_mse(KAry(horizon, 19)) == pytest.approx(mse_19, abs=0.05)
    assert laplace_mse(KAry.best(horizon)) <= laplace_mse(best)


def test_even_arity_is_sometimes_better() -> None:
    best = KAry.best(2**16)
    assert best.arity == 20
    assert laplace_mse(best) == pytest.approx(607.960938, abs=1e-6)


@pytest.mark.parametrize(("arity", "height"), list(product((3, 5, 13, 19, 21), (1, 2, 3, 4))))
def test_closed_form_odd_with_subtraction(arity: int, height: int) -> None:
    k = Fraction(arity)
    h = height
    tree = KAry((arity**h - 1) // 2, arity)
    assert tree.height == h
    mse = k * (1 - 1 / k**2) * h**3 / (2 * (1 - 1 / k**h))
    assert laplace_mse(tree) == pytest.approx(float(mse), rel=1e-14)


@pytest.mark.parametrize(("arity", "height"), list(product((2, 4, 10, 20), (1, 2, 3, 4))))
def test_closed_form_even_with_subtraction(arity: int, height: int) -> None:
    k = Fraction(arity)
    h = height
    tree = KAry(int(k * (k**h - 1) / (2 * (k - 1))), arity)
    assert tree.height == h
    terms = k * h / (4 * (1 - 1 / k**h)) + (k - 2) / (4 * (k - 1))
    assert tree.overall_variance("mean") == pytest.approx(float(terms), rel=1e-14)


@pytest.mark.parametrize(("arity", "height"), list(product((2, 3, 10, 17), (1, 2, 3, 4))))
def test_closed_form_without_subtraction(arity: int, height: int) -> None:
    k = Fraction(arity)
    h = height
    tree = KAry(arity**h - 1, arity, subtraction=False)
    assert tree.height == h
    assert tree.overall_variance("mean") == pytest.approx(
        float(h * (k - 1) / (2 * (1 - 1 / k**h))), rel=1e-14
    )
    assert tree.overall_variance("max") == h * (arity - 1)


@pytest.mark.parametrize(
    ("subtraction", "parity", "best", "constant"), [(False, 0, 17, 0.23429), (True, 1, 19, 0.12359)]
)
def test_asymptotic_arity(subtraction: bool, parity: int, best: int, constant: float) -> None:
    """Mean squared error over log2(T)^3 as full trees grow; the paper's constants."""

    def leading(k: int) -> float:
        height = int(60 / math.log2(k))
        full = (k**height - 1) // (2 if subtraction else 1)
        tree = KAry(full, k, subtraction)
        assert tree.height == height
        return laplace_mse(tree) / (height * math.log2(k)) ** 3

    arities = range(3, 60, 2) if parity else range(2, 60)
    assert min(arities, key=leading) == best
    assert leading(best) == pytest.approx(constant, abs=5e-6)


@pytest.mark.parametrize("arity", [2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("subtraction", [True, False])
def test_height_is_the_smallest_that_reaches_the_horizon(arity: int, subtraction: bool) -> None:
    for horizon in range(1, 400):
        height = 1
        while not (
            2 * horizon <= arity**height - 1
            if subtraction and arity % 2
            else 2 * (arity - 1) * horizon <= arity * (arity**height - 1)
            if subtraction
            else arity**height >= horizon + 1
        ):
            height += 1
        assert KAry(horizon, arity, subtraction).height == height


def test_height_is_exact_where_logarithms_are_not() -> None:
    assert KAry(10**15 - 1, 10, subtraction=False).height == 15
    assert KAry(10**15, 10, subtraction=False).height == 16
    assert KAry((3**35 - 1) // 2, 3).height == 35
    assert KAry((3**35 - 1) // 2 + 1, 3).height == 36


@given(
    horizon=st.integers(1, 3000), arity=st.integers(2, 40), subtraction=st.booleans(),
    metric=st.sampled_from(["mean", "max"]),
)  # fmt: skip
def test_error_is_that_of_enumeration(
    horizon: int, arity: int, subtraction: bool, metric: str
) -> None:
    tree = KAry(horizon, arity, subtraction)
    variance = tree.variance(range(1, horizon + 1))
    total = Fraction(int(variance.sum()), horizon) if metric == "mean" else int(variance.max())
    assert tree.overall_variance(metric) == float(total)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", ["mean", "max"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("subtraction", [True, False, None])
def test_best_is_best_of_all(metric: str, norm: int, subtraction: bool | None) -> None:
    def cost(tree: KAry) -> float:
        return tree.overall_variance(metric) * sensitivity(tree, norm) ** 2  # type: ignore[arg-type]

    for horizon in (1, 2, 3, 4, 5, 6, 10, 30, 31, 40, 100, 250, 400):
        forms = [True, False] if subtraction is None else [subtraction]
        everything = [KAry(horizon, k, f) for k in range(2, 2 * horizon + 3) for f in forms]
        best = KAry.best(horizon, metric, subtraction, norm)  # type: ignore[arg-type]
        assert cost(best) == pytest.approx(min(map(cost, everything)), rel=1e-14)
        assert subtraction is None or best.subtraction == subtraction


@pytest.mark.parametrize("horizon", [10**9, 10**18])
def test_best_looks_far_enough_at_long_horizons(horizon: int) -> None:
    for metric in ("mean", "max"):
        best = KAry.best(horizon, metric)
        wider = min(
            KAry(horizon, k).overall_variance(metric) * KAry(horizon, k).height ** 2
            for k in range(2, 500)
        )
        assert best.overall_variance(metric) * best.height**2 == pytest.approx(wider, rel=1e-14)


def test_digits_of_the_paper() -> None:
    """Algorithm 2 walks p from 0 and adds the node each move completes."""
    tree = KAry(62, 5)
    assert [(n.level, n.index, n.weight) for n in tree.row(14)] == [
        (2, 1, 1),  # up to 25
        (1, 4, -1),  # without 16..20, 21..25
        (1, 5, -1),
        (0, 15, -1),
    ]
    assert tree.variance([14]).tolist() == [4.0]
    for item in range(1, 63):
        for level, index, _ in tree.column(item):
            assert (index - 1) * 5**level < item <= index * 5**level


def test_wide_step_draws_only_nodes_it_reads() -> None:
    tree = KAry(1000, 13)
    table = CountedNoise((100,))
    for step in range(1, 1001):
        tree.noise(table, range(step, step + 1))
    assert table.drawn == tree.variance(range(1, 1001)).sum()


def test_indices_stay_below_the_horizon_and_a_group() -> None:
    tree = KAry(1000, 13)
    assert max(n.index for t in range(1, 1001) for n in tree.row(t)) <= 1000 + 6


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0, 3), "horizon is 0"),
        ((2**62 + 1, 3), "horizon is 4611686018427387905"),
        ((10, 1), "arity is 1"),
        ((10, 2.5), "arity is 2.5"),
        ((10, 3, 1), "subtraction is 1"),
    ],
)
def test_bad_arguments(arguments: tuple[int, int], complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        KAry(*arguments)


def test_bad_choices() -> None:
    with pytest.raises(InvalidInputError, match="metric is 'median'"):
        KAry.best(10, "median")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="norm is 3"):
        KAry.best(10, norm=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="horizon is 0"):
        KAry.best(0)
    with pytest.raises(InvalidInputError, match="metric is 'median'"):
        KAry(10, 3).overall_variance("median")  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", ["mean", "max"])
@pytest.mark.parametrize("subtraction", [True, False])
@pytest.mark.parametrize("horizon", [1, 5, 70, 200, 500, 1500])
def test_undominated_trees_are_those_of_all_arities(
    horizon: int, subtraction: bool, metric: Metric
) -> None:
    """Also trees of one level: the best with so little noise that every node is mostly 0."""
    least: dict[int, float] = {}
    for arity in range(2, 2 * horizon + 2):
        tree = KAry(horizon, arity, subtraction)
        least[tree.height] = min(least.get(tree.height, math.inf), tree.overall_variance(metric))
    front = {}
    error = math.inf
    for height in sorted(least):
        if least[height] < error:
            front[height] = error = least[height]
    found = KAry.undominated_trees(horizon, metric, subtraction)
    assert {tree.height: tree.overall_variance(metric) for tree in found} == front

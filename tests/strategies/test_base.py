"""What every strategy inherits: sensitivities as floats, matrices, checked steps, identity."""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counton import plan
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.strategies import (
    Binary,
    Expiring,
    HonakerOnline,
    Independent,
    KAry,
    LookAhead,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
    matrices,
    public_strategies,
)
from counton.strategies.participation import Norm, check_norm, sensitivity
from counton.strategies.strategy import check_window, window_rows
from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy as Solved
from counton.testing import HashedNoise
from counton.testing.rows import node_variance

#: Trees of as many steps as there may be, by their kind.
LONG: dict[str, st.SearchStrategy[StreamStrategy]] = {
    "binary": st.just(Binary(10**18)),
    "k-ary": st.builds(KAry, st.just(10**18), st.integers(2, 30), st.booleans()),
    "smooth": st.sampled_from(SmoothBinary.examples(10**18)),
}


@pytest.mark.parametrize("kind", LONG)
@settings(max_examples=40)
@given(data=st.data(), wide=st.booleans())
def test_windows_anywhere_up_to_1e18(kind: str, data: st.DataObject, wide: bool) -> None:
    tree = data.draw(LONG[kind])
    table = HashedNoise((40,) if wide else ())
    start = data.draw(st.integers(1, 10**18 - 100))
    length = data.draw(st.integers(1, 100))
    noise = tree.noise(table, range(start, start + length))
    for step in (start, start + length // 2, start + length - 1):
        row = tree.row(step)
        expected = sum(table.at(level, index) * int(weight) for level, index, weight in row)
        np.testing.assert_array_equal(noise[step - start], expected)
        assert tree.variance([step])[0] == sum(abs(int(weight)) for *_, weight in row)


def test_matrices_of_a_tiny_tree() -> None:
    reads, enters = matrices(KAry(4, 3))
    # Nodes: items 1, 3 and 4 alone, and the first three together; 2 = 3 - 1.
    assert reads.tolist() == [[1, 0, 0, 0], [0, -1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert enters.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 0]]
    assert (reads @ enters).tolist() == np.tri(4, dtype=int).tolist()
    assert reads.dtype == enters.dtype == np.int64


def test_matrices_of_fractions_hold_objects() -> None:
    reads, enters = matrices(HonakerOnline(5))
    assert reads.dtype == object
    assert (reads @ enters == np.tri(5, dtype=int)).all()


def test_matrices_over_fewer_steps() -> None:
    reads, enters = matrices(Binary(1000), steps=6)
    assert (reads @ enters == np.tri(6, dtype=int)).all()


@pytest.mark.parametrize("steps", [0, 4097])
def test_matrices_too_large(steps: int) -> None:
    with pytest.raises(InvalidInputError, match=f"over {steps} steps"):
        matrices(Binary(10_000), steps)


MATRICES: list[tuple[StreamStrategy, int]] = [
    (Binary(13), 13),
    (Binary(1000), 6),
    (KAry(20, 3), 20),
    (HonakerOnline(9), 9),
    (SmoothBinary.best(9), 9),
    (LookAhead.examples(12)[0], 12),
    (SqrtToeplitz(9), 9),
    (Expiring(), 9),
    *((solved, horizon) for horizon in (8, 20) for solved in Solved.examples(horizon)),
    (Solved.examples(20)[0], 7),
]


@pytest.mark.parametrize(("strategy", "steps"), MATRICES, ids=lambda value: str(value)[:60])
def test_matrices_in_floats_are_the_exact_ones_rounded(
    strategy: StreamStrategy, steps: int
) -> None:
    exact = matrices(strategy, steps)
    rounded = matrices(strategy, steps, exact=False)
    for wanted, found in zip(exact, rounded, strict=True):
        assert found.dtype == np.float64
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=1e-9, atol=1e-12)


def check_float_factorisation(strategy: StreamStrategy, steps: int) -> None:
    """Check B C = A for matrices in floats, where A has the sums that the strategy releases."""
    reads, enters = matrices(strategy, steps, exact=False)
    sums = np.eye if strategy.facts.release == "windows" else np.tri
    expected = sums(steps, k=-strategy.facts.delay)
    np.testing.assert_allclose(reads @ enters, expected, atol=1e-9)


@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
def test_float_matrices_of_every_strategy_give_its_sums(cls: type[StreamStrategy]) -> None:
    n_checked = 0
    for horizon in (1, 2, 7, 24, 64):
        for strategy in cls.examples(horizon):
            check_float_factorisation(strategy, min(horizon, strategy.horizon or horizon))
            n_checked += 1
    assert n_checked


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize(
    ("series", "horizon"), [("cumulative", 100), ("per-window", 100), ("cumulative", None)]
)
def test_float_matrices_of_every_choice_give_its_sums(
    guarantee: Guarantee, series: Any, horizon: int | None
) -> None:
    choices = plan(horizon, guarantee, series=series).choices
    assert choices
    for choice in choices:
        check_float_factorisation(choice.strategy, 100)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(1)])
def test_matrices_of_long_strategy_are_floats_on_request(guarantee: Guarantee) -> None:
    strategy = plan(365, guarantee).best.strategy
    with pytest.raises(InvalidInputError, match=r"up to 256 cells.*exact=False"):
        matrices(strategy)
    reads, enters = matrices(strategy, exact=False)
    np.testing.assert_allclose(reads @ enters, np.tri(365), atol=1e-9)
    variances = strategy.variance(range(1, 366))
    np.testing.assert_allclose((reads**2).sum(axis=1), variances, rtol=1e-6)
    assert np.abs(enters).sum(axis=0).max() <= strategy.l1_sensitivity() * (1 + 1e-12)


def test_sensitivity_as_float() -> None:
    tree = Binary(1000)
    assert sensitivity(tree, 1) == 10.0
    assert sensitivity(tree, 2) == math.sqrt(10)
    with pytest.raises(InvalidInputError, match="norm is 3"):
        sensitivity(tree, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", [True, 1.0, Fraction(1), "1", None, np.array([1, 2]), [1]])
def test_norms_are_integers(norm: Norm) -> None:
    with pytest.raises(InvalidInputError, match=r"norm is .*; give 1"):
        sensitivity(Binary(9), norm)
    assert type(check_norm(np.int64(1))) is int


@pytest.mark.parametrize(
    "steps",
    [None, True, 3, "abc", [[1], [2, 3]], [2**70], range(1, 2**40), [True], [1.0], ["1"], range(3)],
)
def test_variance_refuses_invalid_steps(steps: Any) -> None:
    for strategy in (Binary(2**50), LookAhead(2**50), Independent(2**50)):
        with pytest.raises(InvalidInputError, match="step"):
            strategy.variance(steps)


def test_steps_in_any_form() -> None:
    tree = Binary(100)
    expected = [1.0, 2.0, 1.0]
    for steps in (
        [2, 3, 4],
        (2, 3, 4),
        range(2, 5),
        iter([2, 3, 4]),
        np.array([2, 3, 4], np.uint8),
    ):
        assert tree.variance(steps).tolist() == expected
    assert tree.variance(range(4, 1, -1)).tolist() == expected[::-1]
    assert tree.variance(np.array([[2, 3], [4, 1]])).shape == (2, 2)


@pytest.mark.parametrize("window", [range(1, 9, 2), range(9, 1, -1), [1, 2], slice(1, 3)])
def test_bad_windows(window: range) -> None:
    with pytest.raises(InvalidInputError, match="consecutive steps"):
        check_window(Binary(100), window)


def test_empty_windows_draw_nothing() -> None:
    assert check_window(Binary(100), range(200, 200)) == range(200, 200)


@pytest.mark.parametrize("step", [True, 1.0, "1", None])
def test_a_step_is_an_integer(step: int) -> None:
    with pytest.raises(InvalidInputError, match="must be an integer"):
        Binary(100).row(step)


def test_beyond_the_horizon() -> None:
    with pytest.raises(HorizonExceededError, match="plan a longer horizon"):
        Binary(100).column(101)


def test_identity_is_type_and_parameters() -> None:
    assert KAry(100, 5) == KAry(100, 5, subtraction=True)
    assert KAry(100, 5) != KAry(100, 5, subtraction=False)
    assert Binary(100) != HonakerOnline(100)
    assert len({Binary(7), Binary(7), Binary(8)}) == 2
    assert repr(KAry(100, 5)) == "KAry(horizon=100, arity=5, subtraction=True)"


def test_parameters_are_those_of_a_constructor_that_a_decorator_adds() -> None:
    @dataclass(frozen=True, eq=False)
    class Own(Binary):
        horizon: int
        factor: int

        def __post_init__(self) -> None:
            super().__init__(self.horizon)

    made = object.__new__(Own)
    made.__dict__.update(horizon=7, factor=3)
    assert made.parameters == {"horizon": 7, "factor": 3}  # all are in the noise's address


def test_windows_are_checked() -> None:
    tree = Binary(10)
    for starts, stops, message in (
        (-1, 3, "from -1 to 3"),
        ([0, 4], [1, 3], "from 4 to 3"),
        (0.5, 3, "give integers"),
        ("3", 4, "give integers"),
        ([1, 2], [3, 4, 5], "have different shapes"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            tree.variance(stops, since=starts)  # type: ignore[arg-type]
    with pytest.raises(HorizonExceededError):
        tree.variance(11, since=0)
    assert tree.variance([], since=[]).shape == (0,)
    assert tree.variance(0, since=0).shape == ()
    assert tree.variance([3, 4, 5], since=np.zeros((2, 1), int)).shape == (2, 3)


def variance_of_rows(strategy: StreamStrategy, start: int, stop: int) -> float:
    read: Counter[tuple[int, int]] = Counter()
    for sign, step in window_rows(strategy, start, stop):
        for level, index, weight in strategy.row(step):
            read[level, index] += sign * weight  # type: ignore[assignment]
    return math.fsum(float(w) ** 2 * node_variance(strategy, at[0]) for at, w in read.items())


@pytest.mark.parametrize(
    "strategy",
    [KAry(2**40, 19), SmoothBinary.best(2**40), Binary(2**62), Expiring(2), HonakerOnline(2**40)],
    ids=repr,
)
def test_windows_far_out_are_those_of_the_rows(strategy: StreamStrategy) -> None:
    """Beyond the horizons of the laws, where numbers have more than 32 bits."""
    rng = np.random.default_rng(1)
    highest = 2**10 if isinstance(strategy, HonakerOnline) else 2**40
    starts = rng.integers(0, highest - 5, 20)
    stops = starts + rng.integers(0, np.minimum(highest - starts, [3] * 10 + [highest] * 10))
    claimed = strategy.variance(stops, since=starts)
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    assert claimed == pytest.approx([variance_of_rows(strategy, *ends) for ends in pairs], 1e-12)


def test_windows_of_the_square_root_by_length_and_by_start() -> None:
    strategy = SqrtToeplitz(2**12)
    b = np.array([float(x) for x in strategy.root.row(340)])

    def exact(start: int, stop: int) -> float:
        late = b[:stop][::-1]
        early = np.zeros(stop)
        early[:start] = b[:start][::-1]
        return math.fsum((late - early) ** 2)

    for starts, stops in (
        (np.full(200, 7), np.arange(50, 250)),
        (np.arange(200), np.arange(200) + 24),
        (np.arange(0, 250, 9), np.arange(0, 250, 9)[::-1] // 3 + 250),
    ):
        expected = [exact(s, t) for s, t in zip(starts.tolist(), stops.tolist(), strict=True)]
        assert strategy.variance(stops, since=starts) == pytest.approx(expected, rel=1e-12)

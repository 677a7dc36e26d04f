"""SqrtToeplitz: exact factorisation, correctly rounded noise, and the paper's values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from calls import calls_of
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.strategies import SqrtToeplitz
from counton.strategies.streams import power_series as series
from counton.strategies.streams import square_root
from counton.strategies.streams.square_root import square_root_coefficients, square_root_sensitivity
from counton.testing.node_noise import HashedNoise

OFFSET = Fraction(1, 2) + Fraction(1, 3 * 2**20)


class Table:
    """A fixed table of node noise, as a strategy reads it."""

    def __init__(self, values: NDArray[np.int64]) -> None:
        self.values = values
        self.shape = values.shape[1:]

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        assert level == 0
        assert nodes.start >= 1
        assert nodes.stop - 1 <= len(self.values)
        return self.values[nodes.start - 1 : nodes.stop - 1].copy()


def table(horizon: int, *shape: int, seed: int = 0, std: float = 2.0**21) -> Table:
    normal = np.random.default_rng(seed).normal(scale=std, size=(horizon, *shape))
    return Table(np.rint(normal).astype(np.int64))


def rounded(cells: Fraction) -> int:
    return math.floor(cells + OFFSET)


def exact_noise(strategy: SqrtToeplitz, z: NDArray[np.int64]) -> list[int]:
    """round(B z) by rational arithmetic, scalar z."""
    b = strategy.root.row(len(z))
    cell = Fraction(2**strategy.facts.fraction_bits, 2**strategy.facts.lattice_bits)
    return [rounded(cell * sum(b[t - i] * int(z[i]) for i in range(t + 1))) for t in range(len(z))]


# --- the factorisation -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 250])
def test_b_times_c_is_exactly_the_prefix_sum(horizon: int) -> None:
    strategy = SqrtToeplitz(horizon)
    b = strategy.root.row(horizon)
    bits = strategy.facts.lattice_bits
    unit = 2**bits
    c = [int(v) for v in strategy.root.numerators]
    assert c[0] == unit
    # Over a common denominator 2^(p k), to keep Fractions out of the inner loop.
    scaled = [b[k] * unit**k for k in range(horizon)]
    assert all(v.denominator == 1 for v in scaled)
    whole = [v.numerator for v in scaled]
    for k in range(horizon):
        product = sum((c[i] * whole[k - i]) << bits * i for i in range(k + 1))
        assert product == unit ** (k + 1)


@pytest.mark.parametrize(
    "horizon", [*range(1, 18), 63, 64, 65, 129, 999, 8760, 2**16, 2**19, 2**19 + 1, 2**20]
)
def test_rounding_c_costs_next_to_nothing(horizon: int) -> None:
    strategy = SqrtToeplitz(horizon)
    squares = square_root_coefficients(horizon) ** 2
    ideal = {"max": squares.sum(), "mean": np.cumsum(squares).mean()}
    for metric in ("mean", "max"):
        ratio = float(strategy.squared_sensitivity()) * strategy.overall_variance(metric)
        assert ratio == pytest.approx(squares.sum() * ideal[metric], rel=1e-6)


@pytest.mark.parametrize("horizon", [4000, 2**19 + 1])
def test_c_is_the_nearest_lattice_point(horizon: int) -> None:
    """Against integers with 100 more bits, at the first and the last 4000 coefficients."""
    strategy = SqrtToeplitz(horizon)
    guard = 100
    scaled = 1 << strategy.facts.lattice_bits + guard
    exact = []
    for k in range(4000):
        scaled = scaled * (2 * k - 1) // (2 * k) if k else scaled
        exact.append((scaled + (1 << guard - 1)) >> guard)
    assert strategy.root.numerators[:4000].tolist() == exact
    # Far out by Stirling's series, whose next term is below 1e-20.
    far = np.arange(max(horizon - 4000, 1000), horizon)
    x = far.astype(np.float64)
    series = 1 - 1 / (8 * x) + 1 / (128 * x**2) + 5 / (1024 * x**3) - 21 / (32768 * x**4)
    values = 2.0**strategy.facts.lattice_bits * series / np.sqrt(np.pi * x)
    assert (strategy.root.numerators[far] == np.rint(values)).all()


def test_c_is_the_same_everywhere() -> None:
    """Noise is addressed by the horizon, so C must never change: sums of its numerators."""
    known = {1000: 37411080, 8760: 110738956, 2**16: 302896328, 2**20: 1211587705}
    for horizon, total in known.items():
        assert SqrtToeplitz(horizon).l1_sensitivity() == Fraction(total, 2**20)


# --- values of "constant matters" --------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "digits"),
    [(1, "1.0000000000"), (2, "1.2500000000"), (10, "1.7913439416"), (2**20, "5.4789877804")],
)
def test_square_root_sensitivity(horizon: int, digits: str) -> None:
    assert f"{square_root_sensitivity(horizon):.10f}" == digits


def test_square_root_sensitivity_grows_like_its_asymptote() -> None:
    horizon = 2**20
    asymptote = math.log(horizon) / math.pi + 1.06628
    assert square_root_sensitivity(horizon) == pytest.approx(asymptote, abs=1e-5)


# --- noise: one definite function of z -----------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "std"), [(1, 2.0**21), (2, 2.0**21), (3, 2.0**21), (150, 2.0**21), (120, 2.0**43)]
)
def test_noise_is_b_z_correctly_rounded(horizon: int, std: float) -> None:
    """Around the largest law (scale 2^40), float64 alone decides little."""
    strategy = SqrtToeplitz(horizon)
    field = table(horizon, std=std)
    expected = exact_noise(strategy, field.values)
    assert strategy.noise(field, range(1, horizon + 1)).tolist() == expected


def test_ties_are_rounded_the_same_way_everywhere() -> None:
    # Multiples of half a cell: every first output is an exact tie.
    z = np.arange(-40, 40) * 128
    strategy = SqrtToeplitz(80)
    assert strategy.noise(Table(z), range(1, 81)).tolist() == exact_noise(strategy, z)
    for value in z:
        assert strategy.noise(Table(z[:1] * 0 + value), range(1, 2))[0] == math.floor(
            value / 256 + 0.5
        )


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_one_coordinate_at_a_time_is_the_same(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = SqrtToeplitz(700)
    field = table(700, *shape, seed=6)
    whole = strategy.noise(field, range(1, 701))
    monkeypatch.setattr(square_root, "_NUMBERS_PER_TRANSFORM", 1)
    assert (strategy.noise(field, range(1, 701)) == whole).all()


def test_overall_variances_of_long_horizon_are_those_of_releases() -> None:
    horizon = 2**17 + 1
    strategy = SqrtToeplitz(horizon)
    variances = strategy.variance(range(1, horizon + 1))
    assert strategy.overall_variance("mean") == pytest.approx(variances.mean(), rel=1e-9)
    assert strategy.overall_variance("max") == pytest.approx(variances.max(), rel=1e-9)


def test_first_noise_of_long_stream_needs_only_first_coefficients() -> None:
    horizon = 2**15
    table = HashedNoise((), 2**30)
    alone = SqrtToeplitz(horizon)
    noise = alone.noise(table, range(1, 3001))
    first = alone.root.first_inverse(3000)
    assert len(first.coefficients) < horizon
    whole = SqrtToeplitz(horizon)
    inverse = whole.root.inverse
    assert len(inverse.coefficients) == horizon
    assert whole.noise(table, range(1, 3001)).tolist() == noise.tolist()
    apart = first.coefficients - inverse.coefficients[: len(first.coefficients)]
    assert np.linalg.norm(apart) <= first.error + inverse.error


def test_noise_does_not_depend_on_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    field = table(400, seed=7)
    whole = SqrtToeplitz(400).noise(field, range(1, 401))
    asked = calls_of(monkeypatch, SqrtToeplitz, "_decide")
    assert (SqrtToeplitz(400).noise(field, range(1, 401)) == whole).all()
    assert len(asked) <= 3
    # A guard so wide that integers decide everything, first with the usual bound on b's error ...
    monkeypatch.setattr(square_root.RootSeries, "_slack", lambda self, length: 1e6)
    assert (SqrtToeplitz(400).noise(field, range(1, 401)) == whole).all()
    assert len(asked) >= 400
    # ... then with one so large that further digits of b are needed.
    undecided = (0, 1 << 200)
    monkeypatch.setattr(square_root.RootSeries, "last_sum", lambda self, z: undecided)
    bound = series.PrefixQuotient.error_units
    monkeypatch.setattr(
        series.PrefixQuotient,
        "error_units",
        lambda self, j: bound(self, j) + (2 ** (61 + 30 * j) if j < 3 else 0),
    )
    fresh = SqrtToeplitz(400)
    assert (fresh.noise(field, range(1, 401)) == whole).all()
    assert len(fresh.root.quotient._digits) == 4


def test_large_noise_and_long_streams_stay_exact() -> None:
    """Around the largest law (scale 2^40), float64 alone decides little."""
    strategy = SqrtToeplitz(120)
    field = table(120, seed=8, std=2.0**43)
    expected = exact_noise(strategy, field.values)
    assert strategy.noise(field, range(1, 121)).tolist() == expected


def test_long_noise_against_integers_at_some_steps() -> None:
    horizon = 2**14 + 3
    strategy = SqrtToeplitz(horizon)
    field = table(horizon, seed=9)
    whole = strategy.noise(field, range(1, horizon + 1))
    for step in (1, 2, 1000, 9999, horizon):
        assert strategy._decide(field.values[:step]) == whole[step - 1]
    np.testing.assert_allclose(
        whole / 2**strategy.facts.fraction_bits,
        series.convolve(
            strategy.root.quotient.approximate,
            field.values / 2.0**strategy.facts.lattice_bits,
            horizon,
        ),
        atol=0.51 / 2**strategy.facts.fraction_bits,
    )


def test_last_sum_is_within_its_error_of_the_exact_one() -> None:
    """Its error is so small that exact division is hardly ever needed."""
    strategy = SqrtToeplitz(300)
    z = table(300, seed=11).values
    b = strategy.root.row(300)
    for count in (1, 2, 300):
        terms = (b[count - 1 - i] * int(z[i]) for i in range(count))
        exact = Fraction(sum(terms, Fraction(0))) * 2**62
        total, error = strategy.root.last_sum(z[:count])
        assert abs(total - exact) <= error
        assert error < 2.0**16 * float(np.linalg.norm(z[:count]))


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [0, -1, 2**24 + 1, 1.0, True])
def test_bad_horizons_are_refused(horizon: object) -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        SqrtToeplitz(horizon)  # type: ignore[arg-type]


def test_noise_beyond_exact_arithmetic_is_refused() -> None:
    with pytest.raises(SumOverflowError, match=r"2\^52"):
        SqrtToeplitz(3).noise(Table(np.array([1, 2**52, 1])), range(1, 4))

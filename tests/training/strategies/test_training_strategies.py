"""Golden numbers of the strategies for training, and what they refuse."""

from itertools import combinations

import numpy as np
import pytest
from some_cases import long

from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.strategies.participation import Schedule
from counton.training import plan
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    training_schedule,
)
from counton.training.strategies.buffered import fit_buffers
from counton.training.strategies.toeplitz import ToeplitzTraining
from papers.dense_optimum import dense_optimum

THETA = (0.9971, 0.96, 0.66)
THETAHAT = (0.9871, 0.877, 0.265)
#: Least errors that were published or computed independently, of BLT-3 without scaling.
BLT_3 = {(512, 1): 2.837458, (1024, 1): 3.058671, (512, 8): 9.840248, (2046, 6): 9.169022}
BLT_3 |= {(2048, 16): 18.099904, (4096, 16): 18.981632, (10**4, 10): 14.510681}
ECHO_2 = {
    (512, 8): (9.046323, 4.561911, (0.9917812198, 0.7961268628), (0.9479444297, 0.3719352563),
               0.27698903, 0.58967974),
    (2046, 6): (8.609713, 4.320130, (0.9974922098, 0.8910312218), (0.9802221572, 0.5031453407),
                0.19731391, 0.42475985),
    (2048, 16): (16.289823, 6.873129, (0.996591905, 0.8578472386), (0.9704913255, 0.4513320847),
                 0.30669721, 0.64600562),
    (4096, 16): (17.108936, 7.136800, (0.9981610352, 0.898365047), (0.9823913801, 0.5138516797),
                 0.28885855, 0.62425752),
}  # fmt: skip


def echo_2(steps: int, epochs: int) -> Echo:
    _, _, theta, thetahat, gain, ratio = ECHO_2[steps, epochs]
    return Echo(steps, theta, thetahat, gain, ratio, training_schedule(steps, epochs))


@pytest.mark.parametrize(
    ("steps", "epochs", "squared", "variance", "error"),
    [
        (512, 1, 2.985533921, 2.748921274, 2.864785805),
        (1024, 1, 3.027158594, 3.090599847, 3.058714744),
        (512, 8, 53.350882186, 2.748921274, 12.110217793),
        (2046, 6, 24.198767894, 3.699493493, 9.461669216),
        (2048, 16, 113.199511290, 3.700661126, 20.467365021),
    ],
)
@pytest.mark.parametrize("order", ["fixed", "separated"])
def test_golden_numbers_of_a_stated_blt(
    steps: int, epochs: int, squared: float, variance: float, error: float, order: str
) -> None:
    strategy = BufferedToeplitz(steps, THETA, THETAHAT, training_schedule(steps, epochs, order))
    assert strategy.squared_sensitivity() == pytest.approx(squared, rel=3e-9)
    assert strategy.mean_variance() == pytest.approx(variance, rel=1e-9)
    assert strategy.rmse == pytest.approx(error, rel=3e-9)


def test_coefficients_of_a_stated_blt() -> None:
    strategy = BufferedToeplitz(9, THETA, THETAHAT)
    assert strategy.coefficients()[1:4].tolist() == pytest.approx([0.488, 0.387916, 0.32010637])
    assert strategy.inverse()[1:4].tolist() == pytest.approx([-0.488, -0.149772, -0.05771463])
    wanted = [-0.00111498, -0.03210274, -0.45478229]
    assert strategy.outputs == pytest.approx(wanted, abs=1e-8)


def test_golden_numbers_of_step_scaling() -> None:
    once = BufferedToeplitz(512, THETA, THETAHAT).with_scaling()
    assert once.rmse == pytest.approx(2.773172513, rel=1e-9)
    assert [once.divisor(step) for step in (1, 2, 257, 512)] == pytest.approx(
        [0.57874732, 0.57877209, 0.59387766, 1], abs=1e-8
    )
    often = BufferedToeplitz(512, THETA, THETAHAT, training_schedule(512, 8)).with_scaling()
    assert often.rmse == pytest.approx(11.835298548, rel=1e-9)


@pytest.mark.parametrize(
    ("steps", "epochs", "squared", "variance", "error"),
    [
        (512, 8, 23.152223902, 4.771492210, 10.510502176),
        (2046, 6, 25.316971685, 9.919820557, 15.847391462),
        (2048, 16, 62.592533492, 12.531744988, 28.007028901),
    ],
)
def test_golden_numbers_of_a_stated_echo(
    steps: int, epochs: int, squared: float, variance: float, error: float
) -> None:
    schedule = training_schedule(steps, epochs)
    strategy = Echo(steps, (0.99, 0.8), (0.95, 0.37), 0.28, 0.6, schedule)
    assert strategy.squared_sensitivity() == pytest.approx(squared, rel=3e-9)
    assert strategy.mean_variance() == pytest.approx(variance, rel=1e-9)
    assert strategy.rmse == pytest.approx(error, rel=3e-9)


@pytest.mark.parametrize(
    ("steps", "epochs"),
    [pytest.param(*place, marks=[pytest.mark.long] * (place[0] > 1024)) for place in BLT_3],
)
def test_the_fit_finds_the_least_error_that_is_known(steps: int, epochs: int) -> None:
    assert BufferedToeplitz.fit(steps, epochs).rmse <= BLT_3[steps, epochs] * (1 + 1e-6)


@pytest.mark.parametrize(("steps", "epochs"), ECHO_2)
def test_echo_at_its_known_parameters(steps: int, epochs: int) -> None:
    error, sensitivity, *_ = ECHO_2[steps, epochs]
    strategy = echo_2(steps, epochs)
    assert strategy.rmse == pytest.approx(error, rel=1e-6)
    assert strategy.squared_sensitivity() ** 0.5 == pytest.approx(sensitivity, rel=1e-6)


def test_largest_cost_of_echo_may_be_at_later_position() -> None:
    strategy = echo_2(4096, 16)
    costs = strategy._gram.sum((1, 2))
    assert int(costs.argmax()) == 188


@pytest.mark.parametrize(
    ("steps", "epochs", "bar", "reached"),
    [long(2046, 6, 0.93, 8.476107), long(2048, 16, 0.885, 15.931087), (512, 8, 0.905, 8.868446)],
)
def test_echo_with_free_scaling_against_blt(
    steps: int, epochs: int, bar: float, reached: float
) -> None:
    error = echo_2(steps, epochs).with_scaling("free").rmse
    assert error / BufferedToeplitz.fit(steps, epochs).rmse <= bar
    assert error == pytest.approx(reached, rel=1e-4)


@pytest.mark.parametrize(
    ("steps", "epochs", "bar", "reached"),
    [(1024, 1, 0.985, 2.992244), long(512, 8, 0.995, 9.768346)],
)
def test_scaling_reduces_error_in_separated_order(
    steps: int, epochs: int, bar: float, reached: float
) -> None:
    plain = BufferedToeplitz.fit(steps, epochs, "separated")
    strategy = BufferedToeplitz.fit(steps, epochs, "separated", scaling="equal")
    assert strategy.rmse / plain.rmse <= bar
    assert strategy.rmse <= reached * (1 + 1e-6)


@pytest.mark.parametrize(
    ("steps", "epochs", "reached"),
    [long(512, 8, 9.594531), (500, 5, 7.018), long(2046, 6, 9.007908)],
)
def test_epoch_shares_keep_sensitivity_in_separated_order(
    steps: int, epochs: int, reached: float
) -> None:
    """It costs no example more, in any order: the bound over all sets of steps is 1 still."""
    strategy = BufferedToeplitz.fit(steps, epochs, "separated", scaling="epochs")
    assert strategy.scaling == "epochs"
    assert strategy.squared_sensitivity() == pytest.approx(1, rel=1e-8)
    assert strategy.rmse <= reached * (1 + 1e-6)
    shares = strategy.to_dict()["shares"]
    again = BufferedToeplitz(steps, strategy.theta, strategy.thetahat, strategy.schedule, shares)
    assert again == strategy
    assert again.rmse == strategy.rmse


@pytest.mark.parametrize("separation", [long(3), 4])
def test_shares_of_epochs_are_never_worse_than_equal_ones(separation: int) -> None:
    strategy = BufferedToeplitz.fit(14, 3, "separated", separation)
    assert strategy.with_scaling("epochs").rmse <= strategy.with_scaling("equal").rmse


@pytest.mark.long
def test_optimal_bands_reduce_error_in_separated_order() -> None:
    """Below 9.345, the least error of 64 bands with equal coefficients (jax_privacy 2.0)."""
    strategy = BandedOptimum.fit(512, 8)
    assert strategy.bands == 64
    assert strategy.squared_sensitivity() == pytest.approx(1, rel=1e-5)
    assert 8.9503 < strategy.rmse < 8.951
    assert strategy.draws == 256.5
    # its columns are orthogonal at the least distance: the worst set of steps is any at all
    gram = strategy.encoder().T @ strategy.encoder()
    assert not np.tril(gram, -64).any()
    worse = BandedOptimum(strategy.encoder(), Schedule(8, 63, False))
    assert worse.squared_sensitivity() > 1.01


@pytest.mark.long
def test_plan_with_few_draws_is_nearly_as_accurate() -> None:
    """And a plan takes them; for 512 steps see tests/papers/test_training_tables.py."""
    best = plan(steps=128, epochs=8, order="separated", dimension=9, draws=16).best
    strategy = best.strategy
    assert isinstance(strategy, BandedOptimum)
    assert (best.strategy.draws, best.strategy.buffers) == (15.5, 0)
    assert best.error < 7.86
    # what a fixed order alone would promise is less: that would be too little noise
    fixed = BandedOptimum(strategy.encoder(), Schedule(8, 16, True), strategy.lags)
    assert fixed.squared_sensitivity() < 0.999 * strategy.squared_sensitivity()


def test_sensitivity_with_few_draws_covers_worst_set_of_steps() -> None:
    """Exact for small runs, by all sets of steps; columns alone, as of bands, would be too few."""
    strategy = BandedOptimum.fit(12, 3, draws=4)
    assert strategy.lags == (0, 1, 2, 4, 5)
    gram = np.abs(strategy.encoder().T @ strategy.encoder())
    sets = [s for s in combinations(range(12), 3) if s[1] - s[0] >= 4 <= s[2] - s[1]]
    worst = max(float(gram[np.ix_(own, own)].sum()) for own in sets)
    claimed = strategy.squared_sensitivity()
    assert worst <= claimed <= 1.1 * worst
    columns = np.diagonal(gram).reshape(3, 4).max(axis=1).sum()
    assert columns < 0.99 * worst


def test_normals_at_other_lags_than_named_are_refused() -> None:
    strategy = BandedOptimum.fit(12, 3, draws=4)
    with pytest.raises(InvalidInputError, match=r"at other lags than \(0, 1, 2, 4\)"):
        BandedOptimum(strategy.encoder(), strategy.schedule, (0, 1, 2, 4))
    with pytest.raises(InvalidInputError, match=r"draws is 0\.5; it must be at least 1"):
        BandedOptimum.fit(12, 3, draws=0.5)


#: What `OctaveTraining.fit` finds, to four digits.
WEIGHTS_ONCE = (1.0, 1.1965, 0.8105, 1.0235, 0.9066, 0.9909, 0.8972, 1.1308, 0.0029, 0.0101, 3.192)
WEIGHTS_8 = (1.0, 1.2068, 0.7023, 1.2501, 0.0793, 0.0339, 0.7741, 1.1293, 1.5663, 0.0545, 5.3397)


@pytest.mark.parametrize(
    ("steps", "epochs", "weights", "bar", "reached"),
    [
        (512, 1, WEIGHTS_ONCE, 0.98, 2.752981),
        long(1024, 1, WEIGHTS_ONCE[:5] + WEIGHTS_ONCE[5:6] * 2 + WEIGHTS_ONCE[6:], 0.98, 2.969886),
        (512, 8, WEIGHTS_8, 0.985, 9.473903),
    ],
)
def test_octave_without_state_against_blt(
    steps: int, epochs: int, weights: tuple[float, ...], bar: float, reached: float
) -> None:
    strategy = OctaveTraining(steps, weights, training_schedule(steps, epochs))
    strategy = strategy.with_scaling("free") if epochs > 1 else strategy
    assert strategy.buffers == 0
    assert strategy.rmse / BLT_3[steps, epochs] <= bar
    assert strategy.rmse == pytest.approx(reached, rel=1e-5)


def test_the_search_for_weights_follows_its_gradient() -> None:
    """A descent along a wrong gradient would stop early: what is found cannot be improved."""
    strategy = OctaveTraining.fit(48, 4)
    for level in range(1, len(strategy.weights)):
        for factor in (0.97, 1.03):
            weights = list(strategy.weights)
            weights[level] *= factor
            other = OctaveTraining(48, weights, strategy.schedule)
            assert other.rmse >= strategy.rmse * (1 - 1e-4)


def test_the_dense_optimum_keeps_the_conditions_of_an_optimum() -> None:
    """X L X = A^T A with |L_st| <= L_ss, equal within each S_i: the problem is convex."""
    strategy = dense_optimum(48, 4)
    matrix = strategy.encoder()
    totals = np.tril(np.ones((48, 48)))
    inverse = np.linalg.inv(matrix.T @ matrix)
    multiplier = inverse @ totals.T @ totals @ inverse
    for first in range(12):
        own = np.arange(first, 48, 12)
        block = multiplier[np.ix_(own, own)]
        assert np.ptp(block.diagonal()) < 0.01 * block.diagonal().mean()
        assert np.abs(block - np.diag(block.diagonal())).max() < block.diagonal().mean()
    others = np.arange(48)[:, None] % 12 != np.arange(48) % 12
    assert np.abs(multiplier[others]).max() < 0.01 * multiplier.diagonal().max()


@pytest.mark.long
def test_echo_comes_near_the_dense_optimum() -> None:
    """That of 512 steps in 8 epochs, 8.5770 by `dense_optimum`, takes seconds to find."""
    assert echo_2(512, 8).with_scaling("free").rmse / 8.5770 <= 1.035
    short = Echo.fit(48, 4, scaling="free").rmse / dense_optimum(48, 4).rmse
    assert short <= 1.05


def test_octave_agrees_with_the_dense_least_norm() -> None:
    """Golden: least norm with all deviations 1, nodes from 0 on; here nodes begin at 1."""
    strategy = OctaveTraining(64, (1.0,) * 7)
    increments, _ = strategy.increments()
    sums = np.cumsum(increments * strategy._divisors[:, None], axis=0)
    totals = np.tril(np.ones((64, 64)))
    encoder = np.linalg.pinv(sums) @ totals
    norms = (encoder**2).sum(axis=0)
    assert np.allclose(1 / np.sqrt(norms), strategy._divisors, rtol=1e-9)


def test_free_scaling_exceeds_sensitivity_when_order_is_not_fixed() -> None:
    """Under mere separation the sensitivity of free shares is above what was calibrated."""
    strategy = BufferedToeplitz.fit(512, 8).with_scaling("free")
    other = strategy._with_shares(strategy.shares)
    other.schedule = Schedule(8, 64, False)
    assert strategy.squared_sensitivity() == pytest.approx(1, rel=1e-6)
    assert other.squared_sensitivity() > 1.07


def test_echo_with_separated_order_has_ten_percent_larger_sensitivity() -> None:
    from counton.training.strategies.sensitivity import full_gram, separated_squared

    strategy = echo_2(512, 8)
    products = np.abs(full_gram(strategy.coefficients()))
    broken = separated_squared(products, Schedule(8, 64, False))
    assert 1.09 < (broken / strategy.squared_sensitivity()) ** 0.5 < 1.12


@pytest.mark.parametrize("scaling", ["none", "equal"])
def test_with_another_schedule_the_same_noise_is_worth_something_else(scaling: str) -> None:
    strategy = BufferedToeplitz.fit(24, 3, scaling=scaling)  # type: ignore[arg-type]
    parameters = (24, strategy.theta, strategy.thetahat)
    separated = BufferedToeplitz(*parameters, Schedule(3, 8, False), strategy.shares)
    assert separated.squared_sensitivity() >= strategy.squared_sensitivity() * (1 - 1e-12)
    fewer = BufferedToeplitz(*parameters, Schedule(2, 8, False), strategy.shares)
    assert fewer.squared_sensitivity() < separated.squared_sensitivity()


@pytest.mark.parametrize(
    "make",
    [
        lambda: BufferedToeplitz(9, (0.5,), (0.6,)),
        lambda: BufferedToeplitz(9, (0.5, 0.4), (0.3,)),
        lambda: BufferedToeplitz(9, (1.0,), (0.3,)),
        lambda: BufferedToeplitz(0, (0.5,), (0.3,)),
        lambda: BufferedToeplitz(2, (0.5,), (0.3,), shares=[1.0, 0.0]),
        lambda: BufferedToeplitz.fit(9, buffers=0),
        lambda: BufferedToeplitz.fit(9, scaling="some"),  # type: ignore[arg-type]
        lambda: BufferedToeplitz.fit(9, 2),
        lambda: BufferedToeplitz.fit(9, 3, "shuffled"),
        lambda: BufferedToeplitz.fit(9, 3, "separated").with_scaling("free"),
        lambda: Echo.fit(9, 1),
        lambda: Echo(9, (0.5,), (0.3,), 0.1, 0.5, Schedule(3, 3, False)),
        lambda: Echo(9, (0.5,), (0.3,), 0.1, 1.5, Schedule(3, 3, True)),
        lambda: OctaveTraining(9, ()),
        lambda: OctaveTraining(9, (1.0, -1.0)),
        lambda: OctaveTraining.fit(9, 3, "separated", scaling="free"),
        lambda: OctaveTraining.fit(5000),
        lambda: dense_optimum(5000),
        lambda: BandedInverseSquareRoot(9, 10),
        lambda: training_schedule(9, 3, separation=2),
        lambda: training_schedule(9, 10),
    ],
)
def test_training_strategies_refuse_invalid_arguments(make: object) -> None:
    with pytest.raises(InvalidInputError):
        make()  # type: ignore[operator]


def test_a_step_beyond_the_run_is_refused() -> None:
    echo = Echo(8, (0.5,), (0.3,), 0.1, 0.5, training_schedule(8, 2))
    for strategy in (BufferedToeplitz.fit(8), OctaveTraining.fit(8), echo):
        with pytest.raises(HorizonExceededError, match="after the last of the 8 steps"):
            strategy.taps(9)
        with pytest.raises(InvalidInputError):
            strategy.taps(0)


def test_buffers_that_gain_nothing_are_left_out() -> None:
    assert [BufferedToeplitz.fit(steps).buffers for steps in (1, 2, 3, 5, 12)] == [1, 1, 1, 1, 2]
    assert BufferedToeplitz.fit(2, 2).buffers == 1
    theta, thetahat = fit_buffers(1, Schedule(1, 1, True), 2)
    assert len(theta) == len(thetahat)


def test_the_variance_of_scaled_blt_agrees_with_the_general_formula() -> None:
    strategy = BufferedToeplitz.fit(24, 2, scaling="free")
    general = ToeplitzTraining.mean_variance(strategy)
    assert strategy.mean_variance() == pytest.approx(general, rel=1e-10)


def test_each_strategy_is_saved_under_a_name_that_never_changes() -> None:
    """Noise addresses and states hold it: another name would be other noise."""
    strategies = (OctaveTraining.fit(8), BufferedToeplitz.fit(8), echo_2(512, 8))
    saved = [one.to_dict()["strategy"] for one in strategies]
    assert saved == ["Octave", "BufferedToeplitz", "Echo"]


@pytest.mark.parametrize(("count", "width"), [(1, 1), (1, 5), (9, 2), (300, 64), (64, 64)])
def test_divide_series_is_the_filter_of_scipy(count: int, width: int) -> None:
    from scipy.signal import lfilter

    from counton.training.strategies import division

    random = np.random.default_rng(count)
    numerator = random.standard_normal(count)
    denominator = np.r_[1.0, random.uniform(-1, 1, width - 1) / 2 ** np.arange(1, width)]
    wanted = lfilter([1.0], denominator, numerator)
    np.testing.assert_allclose(
        division.divide_series(numerator, denominator), wanted, rtol=1e-12, atol=1e-12
    )


def test_divide_series_of_a_long_sequence_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from counton.training.strategies import division

    numerator = np.ones(50)
    denominator = np.array([1.0, -0.5, 0.25])
    short = division.divide_series(numerator, denominator)
    monkeypatch.setattr(division, "_MOST_ENTRIES", 10)
    np.testing.assert_allclose(division.divide_series(numerator, denominator), short, rtol=1e-12)

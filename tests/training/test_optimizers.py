"""Plans for weights that stochastic gradient descent makes of noisy gradients."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from keys import chosen_key
from some_cases import long

from counton.base.errors import InvalidInputError
from counton.noise import Key
from counton.privacy import ZCDP
from counton.training import SGD, PoissonBatches, SecretPlaces, TrainingDesign, plan, training_plan
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    training_schedule,
    training_strategy_from_dict,
)
from counton.training.strategies.sgd import matrix_of
from papers.dense_optimum import no_error_below

STEPS = 48


def falling(step: int) -> float:
    return (1 + math.cos(math.pi * (step - 1) / STEPS)) / 2


MOMENTUM = SGD(momentum=0.9)
OPTIMIZERS = {
    "momentum": MOMENTUM,
    "falling": SGD(rate=falling),
    "both": SGD(momentum=0.9, rate=falling),
    "decay": SGD(0.9, 0.01, [0.5 * falling(step) for step in range(1, STEPS + 1)]),
}


#: Fits are searched for each optimizer: a test takes both of the two that are not long.
FITTED = pytest.mark.parametrize(
    "optimizer", [*map(long, [*OPTIMIZERS.values()][:2]), *[*OPTIMIZERS.values()][2:]]
)


def descended(optimizer: SGD, gradients: np.ndarray) -> np.ndarray:
    """The weights after each step, from 0, as the documents of torch.optim.SGD define them."""
    weights = np.zeros(gradients.shape[1])
    buffer = np.zeros(gradients.shape[1])
    found = []
    for rate, gradient in zip(optimizer.rates(len(gradients)), gradients, strict=True):
        gradient = gradient + optimizer.weight_decay * weights
        buffer = optimizer.momentum * buffer + gradient
        weights = weights - rate * buffer
        found.append(weights)
    return np.array(found)


@cache
def fitted(optimizer: SGD | None) -> list[TrainingStrategy]:
    place = (STEPS, 4)
    echo = Echo(STEPS, (0.97, 0.7), (0.9, 0.4), 0.28, 0.6, training_schedule(*place))
    return [
        BufferedToeplitz.fit(*place, buffers=2, optimizer=optimizer),
        BufferedToeplitz.fit(*place, buffers=2, scaling="free", optimizer=optimizer),
        BufferedToeplitz.fit(*place, "separated", scaling="epochs", optimizer=optimizer),
        BandedInverseSquareRoot.fit(*place, optimizer=optimizer),
        BandedInverseSquareRoot.fit(*place, scaling="free", optimizer=optimizer),
        echo.under(optimizer),
        echo.under(optimizer).with_scaling("free"),
        BandedOptimum.fit(*place, optimizer=optimizer),
        BandedOptimum.fit(*place, draws=10, optimizer=optimizer),
        OctaveTraining.fit(*place).under(optimizer),
        OctaveTraining.fit(*place).under(optimizer).with_scaling("free"),
    ]


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_matrix_is_that_of_the_optimizer(optimizer: SGD) -> None:
    gradients = np.random.default_rng(1).standard_normal((STEPS, 3))
    np.testing.assert_allclose(
        matrix_of(optimizer, STEPS) @ gradients, -descended(optimizer, gradients), rtol=1e-9,
        atol=1e-12,
    )  # fmt: skip


@FITTED
def test_errors_are_those_of_weights(optimizer: SGD) -> None:
    """The stated error of every strategy is sensitivity times the deviation of the weights."""
    for strategy in fitted(optimizer):
        increments, _ = strategy.increments()
        weights = descended(optimizer, increments)
        wanted = math.sqrt(strategy.squared_sensitivity() * (weights**2).sum() / STEPS)
        assert strategy.rmse == pytest.approx(wanted, rel=1e-8), strategy


@FITTED
def test_drawn_noise_moves_weights_by_the_stated_error(optimizer: SGD) -> None:
    """A deviation 3% off would be rejected: 20,000 coordinates, one key."""
    best = TrainingDesign(fitted(optimizer)[0], ZCDP(0.5), 1.0, 20_000)
    noise = best.noise(key=chosen_key(), name="weights")
    drawn = np.array([noise.read(step, "w", 20_000) for step in range(1, STEPS + 1)], np.float64)
    found = math.sqrt((descended(optimizer, drawn) ** 2).mean())
    assert found == pytest.approx(best.error, rel=0.015)


@pytest.mark.parametrize(
    ("kind", "epochs", "above", "before"),
    [
        ("both", 1, 1.002, 1.10), long("momentum", 1, 1.002, 1.13),
        long("momentum", 4, 1.003, 1.09), long("falling", 4, 1.014, 1.14),
        long("both", 4, 1.003, 1.22), long("decay", 4, 1.003, 1.20),
    ],
)  # fmt: skip
def test_plans_are_near_the_least_error(
    kind: str, epochs: int, above: float, before: float
) -> None:
    """And a plan for running sums has much more."""
    optimizer = OPTIMIZERS[kind]
    least = no_error_below(STEPS, epochs, optimizer)
    found = plan(steps=STEPS, epochs=epochs, dimension=1, optimizer=optimizer)
    assert 1 - 1e-6 <= found.best.rmse / least <= above
    sums = plan(steps=STEPS, epochs=epochs, dimension=1).best.strategy
    assert sums.under(optimizer).rmse / least >= before


@FITTED
def test_fits_with_scaled_steps_have_less_error_of_weights(optimizer: SGD) -> None:
    for own, sums in zip(fitted(optimizer), fitted(None), strict=True):
        if sums.divisor(1) != 1 and own != sums:
            assert own.rmse <= 0.98 * sums.under(optimizer).rmse, own
            assert own.under(None).rmse > sums.rmse, own


@pytest.mark.long
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_fit_of_an_echo_has_less_error_of_weights(optimizer: SGD) -> None:
    own, sums = (Echo.fit(STEPS, 4, 2, "free", one) for one in (optimizer, None))
    assert own.rmse <= 0.98 * sums.under(optimizer).rmse
    assert own.under(None).rmse > sums.rmse


def test_plain_descent_is_running_sums() -> None:
    for strategy in fitted(None):
        assert strategy.under(SGD()).rmse == pytest.approx(strategy.rmse, rel=1e-9)


def test_a_run_has_its_noise_back_without_its_optimizer() -> None:
    for strategy in fitted(OPTIMIZERS["both"]):
        again = training_strategy_from_dict(strategy.to_dict())
        assert again == strategy
        np.testing.assert_array_equal(again.increments()[0], strategy.increments()[0])
        assert again.under(strategy.optimizer).rmse == pytest.approx(strategy.rmse, rel=1e-12)


def test_a_banded_root_with_momentum_has_another_address() -> None:
    plain, other = (BandedInverseSquareRoot(8, 3, momentum=momentum) for momentum in (0, 0.9))
    assert "momentum" not in plain.address
    assert other.address != plain.address
    # (1 - x)^(1/2) (1 - 0.9 x)^(1/2) squared is (1 - x) (1 - 0.9 x)
    root = BandedInverseSquareRoot(8, 8, momentum=0.9).inverse()
    np.testing.assert_allclose(np.convolve(root, root)[:8], [1, -1.9, 0.9, *[0] * 5], atol=1e-12)


@pytest.mark.long
def test_plans_with_random_batches_are_for_weights_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_plan, "multiplier", lambda *_: 1.0)  # it takes half a minute
    key = Key.generate()
    optimizer = SGD(0.9, rate=falling)
    for sampler in (
        SecretPlaces(48, steps_per_epoch=6, epochs=2, key=key, name="secret"),
        PoissonBatches(480, rate=0.1, steps=12, key=key, name="poisson"),
    ):
        found = plan(sampler=sampler, dimension=1, buffers=1, optimizer=optimizer)
        assert {choice.strategy.optimizer for choice in found.choices} == {optimizer}
        sums = plan(sampler=sampler, dimension=1, buffers=1).best
        before = replace(sums, strategy=sums.strategy.under(optimizer)).error
        assert found.best.error <= before * (1 + 1e-9)


@pytest.mark.parametrize("rate", [[1.0] * 3, [1.0, -1.0], [0.0, 0.0], [1.0, math.inf], math.nan])
def test_rates_that_are_none_are_refused(rate: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="one for each of the 2 steps"):
        SGD(rate=rate).rates(2)


@pytest.mark.parametrize("given", [{"momentum": 1}, {"momentum": -0.1}, {"weight_decay": -1}])
def test_optimizers_that_are_none_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match="momentum of at least 0 and below 1"):
        SGD(**given)


def test_plan_with_optimizer_refuses_invalid_arguments() -> None:
    with pytest.raises(InvalidInputError, match="up to 4,096 steps"):
        plan(steps=5000, dimension=1, optimizer=MOMENTUM)
    given: object = "sgd"
    with pytest.raises(InvalidInputError, match="optimizer is of type str"):
        plan(steps=8, dimension=1, optimizer=given)  # type: ignore[arg-type]

"""Plans of training runs: which strategies they compare, how long they search, what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.noise import Key
from counton.privacy import ApproxDP
from counton.training import SGD, FixedEpochs, SecretPlaces, plan, training_plan
from counton.training.strategies import (
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    banded_search,
    echo,
    training_strategy_from_dict,
)
from counton.training.strategies.sgd import weights_of

#: Rounding of a sum, and of parameters to a grid.
ROUNDED = 1 + 1e-6


def best_error(**run: Any) -> float:
    """Return the least error of a plan."""
    return plan(**run).best.error


@pytest.mark.parametrize(
    ("steps", "epochs"), [(8, 2), (9, 3), (16, 4), (48, 4), (64, 4), (64, 2), (96, 12), (128, 4)]
)
@pytest.mark.parametrize("search", ["quick", pytest.param("long", marks=pytest.mark.long)])
def test_plan_in_fixed_order_has_no_more_error_than_separated(
    steps: int, epochs: int, search: Any
) -> None:
    """A fixed order is the stronger promise: each step of an epoch comes again after one epoch."""
    fixed = best_error(steps=steps, epochs=epochs, search=search)
    separated = best_error(steps=steps, epochs=epochs, order="separated", search=search)
    assert fixed <= separated * ROUNDED


@pytest.mark.long
@pytest.mark.parametrize(("steps", "epochs"), [(192, 4), (256, 8), (256, 2), (384, 16), (512, 2)])
def test_fixed_order_has_no_more_error_than_separated_order(steps: int, epochs: int) -> None:
    for search in ("quick", "long"):
        fixed = best_error(steps=steps, epochs=epochs, search=search)
        separated = best_error(steps=steps, epochs=epochs, order="separated", search=search)
        assert fixed <= separated * ROUNDED


def test_plan_with_fixed_batches_has_no_more_error_than_separated() -> None:
    sampler = FixedEpochs(examples=64, batch_size=4, epochs=4)
    separated = best_error(steps=64, epochs=4, order="separated")
    assert best_error(sampler=sampler) <= separated * ROUNDED


@pytest.mark.parametrize(
    "numbers", [(1, 4, 16), pytest.param((1, 2, 4, 8, 16), marks=pytest.mark.long)]
)
@pytest.mark.parametrize("order", ["fixed", "separated"])
def test_plan_with_fewer_epochs_has_no_more_error(order: str, numbers: tuple[int, ...]) -> None:
    errors = [best_error(steps=64, epochs=epochs, order=order) for epochs in numbers]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    "separations", [(4, 16), pytest.param((4, 8, 12, 16), marks=pytest.mark.long)]
)
def test_plan_with_larger_separation_has_no_more_error(separations: tuple[int, ...]) -> None:
    errors = [
        best_error(steps=64, epochs=4, order="separated", separation=separation)
        for separation in separations
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("draws", [None, 6])
def test_banded_optimum_in_fixed_order_has_its_own_sensitivity(draws: int | None) -> None:
    """The largest over places of the sum of products of columns, by loops."""
    steps = 24
    epochs = 4
    fixed = BandedOptimum.fit(steps, epochs, draws=draws, order="fixed")
    matrix = fixed.encoder()
    gram = np.abs(matrix.T @ matrix)
    apart = steps // epochs
    wanted = 0.0
    for place in range(apart):
        own = range(place, steps, apart)
        wanted = max(wanted, sum(gram[s, t] for s in own for t in own))
    assert fixed.squared_sensitivity() == pytest.approx(wanted, rel=1e-8)
    separated = BandedOptimum.fit(steps, epochs, draws=draws)
    assert fixed.rmse <= separated.rmse * ROUNDED
    again = training_strategy_from_dict(fixed.to_dict())
    assert again == fixed
    assert again != separated


@pytest.mark.parametrize("steps", [4097, 5000, 2**14, 2**17, 2**20])
@pytest.mark.parametrize(("epochs", "order"), [(1, "fixed"), (1, "separated"), (4, "separated")])
def test_plan_of_many_steps_is_made(steps: int, epochs: int, order: str) -> None:
    found = plan(steps=steps, epochs=epochs, order=order, buffers=1)
    assert found.best.strategy.steps == steps
    assert math.isfinite(found.best.error)


@pytest.mark.parametrize("search", ["quick", pytest.param("long", marks=pytest.mark.long)])
def test_plan_of_many_steps_in_epochs_has_echo(search: Any) -> None:
    found = plan(steps=6000, epochs=3, search=search)
    assert isinstance(found.best.strategy, Echo)


def test_dimension_is_for_the_memory_alone() -> None:
    without = plan(steps=64, epochs=4)
    with_dimension = plan(steps=64, epochs=4, dimension=1000)
    assert str(without) == str(with_dimension)
    assert without.best.error == with_dimension.best.error
    assert without.best.state_bytes is None
    for choice in with_dimension:
        assert choice.state_bytes == 4 * choice.strategy.buffers * 1000
    with pytest.raises(InvalidInputError, match="dimension"):
        plan(steps=64, dimension=0)


@pytest.mark.parametrize(
    ("steps", "epochs", "more"),
    [
        (48, 4, 1.001),
        (64, 4, 1.001),
        pytest.param(96, 12, 1.005, marks=pytest.mark.long),
        pytest.param(128, 2, 1.005, marks=pytest.mark.long),
        pytest.param(256, 8, 1.005, marks=pytest.mark.long),
        pytest.param(384, 16, 1.005, marks=pytest.mark.long),
        pytest.param(512, 8, 1.005, marks=pytest.mark.long),
        pytest.param(1024, 8, 1.005, marks=pytest.mark.long),
    ],
)
def test_quick_search_has_nearly_the_error_of_a_long_one(
    steps: int, epochs: int, more: float
) -> None:
    quick = best_error(steps=steps, epochs=epochs)
    long = best_error(steps=steps, epochs=epochs, search="long")
    assert long <= quick * ROUNDED
    assert quick <= more * long


@pytest.mark.long
@pytest.mark.parametrize(("steps", "epochs"), [(192, 4), (256, 8), (512, 8), (512, 2)])
def test_quick_search_in_separated_order_is_near_a_long_one(steps: int, epochs: int) -> None:
    quick = best_error(steps=steps, epochs=epochs, order="separated")
    long = best_error(steps=steps, epochs=epochs, order="separated", search="long")
    assert long <= quick * ROUNDED
    assert quick <= 1.04 * long


@pytest.mark.long
@pytest.mark.parametrize("optimizer", [SGD(0.9), SGD(rate=lambda step: 1 / step), SGD(0.9, 0.01)])
@pytest.mark.parametrize(("steps", "epochs"), [(64, 4), (256, 4), (1024, 4)])
def test_quick_search_for_weights_is_near_a_long_one(
    steps: int, epochs: int, optimizer: SGD
) -> None:
    run: dict[str, Any] = {"steps": steps, "epochs": epochs, "optimizer": optimizer}
    assert best_error(**run) <= 1.03 * best_error(**run, search="long")


def test_long_search_writes_a_line_for_each_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    plan(steps=16, epochs=2, search="long")
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert lines[0] == "counton: plan for 16 steps, 1 of 5: BLT"
    assert [line.split(": ")[2] for line in lines] == [
        "BLT",
        "banded inverse square root",
        "Echo",
        "banded optimum",
        "Octave",
    ]
    assert told.out == ""


def test_long_search_with_secret_places_prints_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each strategy's proof takes seconds.
    monkeypatch.setattr("counton.training.fit.places_multiplier", lambda *_: 1.0)
    key = Key.generate()
    sampler = SecretPlaces(60, steps_per_epoch=4, epochs=2, key=key, name="run")
    plan(sampler=sampler, guarantee=ApproxDP(1, 1e-5), search="long")
    assert ": noise for BLT-1" in capsys.readouterr().err


def test_quick_search_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    plan(steps=16, epochs=2)
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out == ""


def test_unknown_search_is_refused() -> None:
    fits: list[Callable[..., Any]] = [
        plan,
        lambda **run: Echo.fit(8, 2, **run),
        lambda **run: BandedOptimum.fit(8, 2, **run),
        lambda **run: OctaveTraining.fit(8, 2, **run),
    ]
    for fit in fits:
        run = {"steps": 8} if fit is plan else {}
        with pytest.raises(InvalidInputError, match="search is 'fast'; give 'quick' or 'long'"):
            fit(search="fast", **run)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *values: Any, **more: Any) -> Any:
        self.calls += 1
        return self.function(*values, **more)


@pytest.mark.parametrize(
    ("steps", "epochs", "most"), [(64, 4, 410), (384, 16, 410), (512, 64, 220)]
)
def test_quick_search_for_echo_has_few_evaluations(
    steps: int, epochs: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a quarter of a millisecond each; a long search has thousands."""
    counted = Counted(echo._series)
    monkeypatch.setattr(echo, "_series", counted)
    echo._fit.cache_clear()
    Echo._fit_scaled.cache_clear()
    Echo.fit(steps, epochs, 2, "free", search="quick")
    assert 50 < counted.calls <= most


@pytest.mark.parametrize(("steps", "most"), [(192, 150), (384, 12), (512, 12)])
def test_quick_search_for_bands_has_few_evaluations(
    steps: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of time in proportion to the cube of the steps: 7 milliseconds for 192, 60 for 512."""
    counted = Counted(weights_of)
    monkeypatch.setattr("counton.training.strategies.banded_search.weights_of", counted)
    banded_search.optimal_few.cache_clear()
    BandedOptimum.fit(steps, 4, draws=64, search="quick")
    assert counted.calls <= most


def test_long_search_for_echo_has_no_more_error_than_quick() -> None:
    """A search does not know the scales, with which its second best may be better."""
    for steps, epochs in ((16, 2), (30, 3)):
        long = Echo.fit(steps, epochs, 2, "free")
        quick = Echo.fit(steps, epochs, 2, "free", search="quick")
        assert long.rmse <= quick.rmse * ROUNDED


def test_buffered_noise_of_a_plan_is_that_of_its_fit() -> None:
    choices = {choice.strategy.name: choice.strategy for choice in plan(steps=64, epochs=4)}
    fitted = BufferedToeplitz.fit(64, 4)
    assert choices[fitted.name] == fitted


@pytest.mark.parametrize(
    ("steps", "second", "proved"), [(16, 1.01, 2), (16, 1.1, 1), (2048, 1.01, 1)]
)
def test_quick_plan_proves_close_estimates_only(
    steps: int, second: float, proved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof for secret places takes seconds, so a clearly worse strategy gets none."""
    sampler = SecretPlaces(80, 8, 2, key=Key.generate(), name="run")
    errors = iter((1.0, second, 3.0))

    def estimate(guarantee: Any, strategy: Any, places: int) -> float:
        return next(errors) / float(strategy.rmse)

    monkeypatch.setattr(training_plan, "quick_places_multiplier", estimate)
    run = training_plan._Run(
        steps=steps, epochs=2, order="fixed", separation=None, schedule=sampler.schedule,
        sampler=sampler, buffers=3, draws=64, optimizer=None, search="quick",
        guarantee=ApproxDP(1, 1e-5),
    )  # fmt: skip
    strategies: list[Any] = [BufferedToeplitz.fit(16, 2, buffers=count) for count in (1, 2, 3)]
    assert training_plan._most_promising(run, strategies) == strategies[:proved]

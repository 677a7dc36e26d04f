"""The laws of strategies for training, over all of them and many schedules."""

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
from own_laws.training import check_training_strategy

from counton.testing import PropertyViolationError
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    public_training_strategies,
    training_schedule,
)
from counton.training.strategies.sgd import SGD
from counton.training.strategies.training_strategy import Tap
from papers.dense_optimum import dense_optimum

RUNS = [(1, 1), (2, 2), (12, 1), (12, 3), (12, 4), (13, 1)]


#: A strategy and what it is called; to find one by descent takes a tenth of a second.
Made = tuple[str, Callable[[], TrainingStrategy]]


def strategies() -> Iterator[Made]:
    for steps, epochs in RUNS:
        for order in ("fixed", "separated"):
            said = f"{steps}-{epochs}-{order}"
            for scaling in ("none", "equal", "epochs"):
                fit = partial(BufferedToeplitz.fit, steps, epochs, order, buffers=2)
                yield f"buffers-{said}-{scaling}", partial(fit, scaling=scaling)
            schedule = training_schedule(steps, epochs, order)
            banded = BandedInverseSquareRoot(steps, min(steps, 3), schedule)
            yield f"bands-{said}", partial(copy, banded)
            yield f"bands-{said}-scaled", banded.with_scaling
            yield f"octave-{said}", partial(OctaveTraining.fit, steps, epochs, order)
        said = f"{steps}-{epochs}"
        yield f"buffers-{said}-free", partial(free_buffers, steps, epochs)
        yield f"octave-{said}-free", partial(OctaveTraining.fit, steps, epochs, scaling="free")
        yield f"dense-{said}", partial(dense_optimum, steps, epochs)
        yield f"optimal-bands-{said}", partial(BandedOptimum.fit, steps, epochs)
        few = partial(BandedOptimum.fit, steps, epochs, draws=min(3, (steps + 1) / 2))
        yield f"optimal-bands-{said}-few", few
        if epochs > 1:
            echo = Echo(steps, (0.9, 0.5), (0.7, 0.2), 0.2, 0.6, training_schedule(steps, epochs))
            yield f"echo-{said}", partial(copy, echo)
            yield f"echo-{said}-equal", partial(echo.with_scaling, "equal")
            yield f"echo-{said}-free", partial(echo.with_scaling, "free")
    fit = partial(BufferedToeplitz.fit, 14, 3, "separated", separation=4)
    for scaling in ("equal", "epochs"):
        yield f"buffers-14-3-apart-{scaling}", partial(fit, scaling=scaling)
    yield "optimal-bands-14-3-apart", partial(BandedOptimum.fit, 14, 3, 4)
    yield "optimal-bands-14-3-apart-few", partial(BandedOptimum.fit, 14, 3, 4, 4)
    bands = partial(BandedInverseSquareRoot.fit, 14, 3, "separated", separation=2)
    yield "bands-14-3-apart", partial(bands, scaling="equal")
    yield "octave-14-3-apart", partial(OctaveTraining.fit, 14, 3, "separated", separation=4)


def free_buffers(steps: int, epochs: int) -> TrainingStrategy:
    return BufferedToeplitz.fit(steps, epochs, buffers=2).with_scaling("free")


def test_cases_cover_every_training_strategy() -> None:
    of = dict(strategies())
    each = {said.partition("-")[0]: make for said, make in of.items() if "-12-3" in said}
    assert {type(make()) for make in each.values()} == set(public_training_strategies())
    assert len(of) == len(list(strategies()))


@pytest.mark.parametrize("make", [pytest.param(make, id=said) for said, make in strategies()])
def test_training_strategies_pass_checks(make: Callable[[], TrainingStrategy]) -> None:
    check_training_strategy(make())


def claiming(**claims: Any) -> TrainingStrategy:
    """A strategy that says something else."""
    cls: Any = type("Wrong", (BufferedToeplitz,), claims)
    made: TrainingStrategy = cls(12, (0.9, 0.5), (0.7, 0.2), training_schedule(12, 3))
    return made


def silent(self: Any, step: int) -> tuple[Tap, ...]:
    """Noise without a normal, where `increments` says that there is one."""
    return tuple(tap._replace(weight=0.0) for tap in BufferedToeplitz.taps(self, step))


def times(name: str, factor: float) -> TrainingStrategy:
    """A strategy that says so much of what it should."""
    held = getattr(BufferedToeplitz, name)
    return claiming(**{name: lambda self: factor * held(self)})


class Forgetful(Echo):
    def taps(self, step: int) -> tuple[Tap, ...]:
        return super().taps(step)[:1]


class TooLate(OctaveTraining):
    """Says that its normals begin when their numbers say so, which those of octaves do not."""

    def first_step(self, level: int, index: int) -> int:
        return index


class Unscaled(BufferedToeplitz):
    """Rebuilt without the scales of its steps, of which it says nothing."""

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "scaling": "none"}


RIGHT = BufferedToeplitz(12, (0.9, 0.5), (0.7, 0.2), training_schedule(12, 3))

#: For each name of `TrainingStrategy`, wrong strategies.
WRONG: dict[str, list[TrainingStrategy]] = {
    "buffers": [claiming(buffers=3)],
    "check_small": [claiming(check_small=lambda self: None)],
    "check_step": [claiming(check_step=lambda self, step: step)],
    "decays": [claiming(decays=property(lambda self: (0.9,), lambda self, value: None))],
    "divisor": [claiming(divisor=lambda self, step: 2.0 * self.check_step(step) / step)],
    "draws": [claiming(draws=0.5)],
    "encoder": [times("encoder", 0.9)],
    "first_step": [
        claiming(first_step=lambda self, level, index: 1),
        TooLate(8, (1.0, 0.8, 0.8, 0.8, 1.2)),
    ],
    "increments": [claiming(increments=lambda self: (np.eye(12), RIGHT.increments()[1]))],
    "mean_variance": [times("mean_variance", 0.99)],
    "name": [claiming(name="")],
    "address": [
        claiming(address={"strategy": "Wrong"}),
        claiming(address=RIGHT.address | {"theta": [0.9]}),
    ],
    "optimizer": [claiming(optimizer=SGD(0.5))],
    "outputs": [claiming(outputs=property(lambda self: (0.1, 0.1), lambda self, value: None))],
    "parameters": [
        claiming(parameters={"steps": 3}),
        Unscaled(12, (0.9, 0.5), (0.7, 0.2), training_schedule(12, 3), np.ones(12)),
    ],
    "rmse": [claiming(rmse=0.1)],
    "saved_name": [claiming(saved_name="Other", to_dict=lambda self: RIGHT.to_dict())],
    "sources": [claiming(sources=("nobody",))],
    "squared_sensitivity": [times("squared_sensitivity", 0.99)],
    "taps": [
        claiming(taps=silent),
        claiming(taps=silent, increments=lambda self: RIGHT.increments()),
        Forgetful(12, (0.9, 0.5), (0.7, 0.2), 0.2, 0.5, training_schedule(12, 3)),
    ],
    "to_dict": [
        claiming(to_dict=lambda self: {"strategy": "Wrong"}),
        claiming(to_dict=lambda self: self.address | {"scaling": "equal"}),
    ],
    "under": [
        claiming(under=lambda self, optimizer: self),
        claiming(under=lambda self, optimizer: RIGHT.with_scaling("equal")),
    ],
}


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(TrainingStrategy) if not name.startswith("_")}
    assert names <= WRONG.keys(), "a claim without a law"


@pytest.mark.parametrize("name", WRONG)
def test_training_checks_reject_each_wrong_claim(name: str) -> None:
    check_training_strategy(RIGHT)
    for strategy in WRONG[name]:
        with pytest.raises(PropertyViolationError):
            check_training_strategy(strategy)

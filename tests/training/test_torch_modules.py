"""PyTorch: modules that mix examples, or store statistics of them, are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from keys import chosen_key

from counton import ZCDP
from counton.base.errors import InvalidInputError
from counton.training import TrainingNoise
from counton.training.strategies import OctaveTraining

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch", reason="torch is not installed: make test-training")
opacus = pytest.importorskip("opacus", reason="opacus is not installed: make test-training")

from opacus.validators import ModuleValidator  # noqa: E402 - after the skip
from opacus.validators.errors import UnsupportedModuleError  # noqa: E402

import counton.training.torch as torch_steps  # noqa: E402
from counton.training.torch import make_private  # noqa: E402

nn = torch.nn


def noise_of() -> TrainingNoise:
    strategy = OctaveTraining.fit(4)
    return TrainingNoise(strategy, key=chosen_key(), name="run", guarantee=ZCDP("1e12"))


def private_sgd(model: Any, clipped: bool = False) -> Any:
    """Return an optimizer with private steps over a model, or over one weight beside it."""
    model.beside = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([model.beside], lr=1.0)
    make_private(optimizer, noise_of(), model, batch_size=1, clipped=clipped)
    return optimizer


class OwnNorm(nn.BatchNorm1d):  # type: ignore[misc, name-defined]
    """A batch normalisation of a user."""


class Block(nn.Module):  # type: ignore[misc, name-defined]
    """A module of a user with another module inside."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"inner": inner})

    def forward(self, inputs: Any) -> Any:
        return self.layers["inner"](inputs)


def without_statistics_flag(module: Any) -> Any:
    """Return the module with its flag set later, as Opacus's repair does it."""
    module.track_running_stats = False
    return module


MIXING: dict[str, Callable[[], Any]] = {
    "BatchNorm1d": lambda: nn.BatchNorm1d(3),
    "BatchNorm2d": lambda: nn.BatchNorm2d(3),
    "BatchNorm3d": lambda: nn.BatchNorm3d(3),
    "without weights": lambda: nn.BatchNorm1d(3, affine=False),
    "without statistics": lambda: nn.BatchNorm1d(3, track_running_stats=False),
    "neither": lambda: nn.BatchNorm2d(3, affine=False, track_running_stats=False),
    "evaluated": lambda: nn.BatchNorm1d(3, track_running_stats=False).eval(),
    "frozen": lambda: nn.BatchNorm1d(3).requires_grad_(False),
    "SyncBatchNorm": lambda: nn.SyncBatchNorm(3),
    "LazyBatchNorm1d": lambda: nn.LazyBatchNorm1d(),
    "LazyBatchNorm2d": lambda: nn.LazyBatchNorm2d(affine=False),
    "LazyBatchNorm3d": lambda: nn.LazyBatchNorm3d(track_running_stats=False),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(3, track_running_stats=True),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    "InstanceNorm3d": lambda: nn.InstanceNorm3d(3, track_running_stats=True),
    "LazyInstanceNorm1d": lambda: nn.LazyInstanceNorm1d(),
    "flag set later": lambda: without_statistics_flag(nn.InstanceNorm1d(3, 1e-5, 0.1, False, True)),
    "flag, evaluated": lambda: without_statistics_flag(
        nn.InstanceNorm1d(3, track_running_stats=True)
    ).eval(),
    "derived": lambda: OwnNorm(3),
    "scripted": lambda: torch.jit.script(nn.BatchNorm1d(3)),
    "max_norm": lambda: nn.Embedding(5, 3, max_norm=1.0),
    "max_norm of a bag": lambda: nn.EmbeddingBag(5, 3, max_norm=1.0).requires_grad_(False),
    "scale_grad_by_freq": lambda: nn.Embedding(5, 3, scale_grad_by_freq=True),
}

APART: dict[str, Callable[[], Any]] = {
    "GroupNorm": lambda: nn.GroupNorm(1, 3),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "LocalResponseNorm": lambda: nn.LocalResponseNorm(2),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(3, affine=True),
    "LazyInstanceNorm1d": lambda: nn.LazyInstanceNorm1d(track_running_stats=False),
    "BatchNorm1d, evaluated": lambda: nn.BatchNorm1d(3).eval(),
    "LazyBatchNorm1d, evaluated": lambda: nn.LazyBatchNorm1d().eval(),
    "InstanceNorm1d, evaluated": lambda: nn.InstanceNorm1d(3, track_running_stats=True).eval(),
    "Embedding": lambda: nn.Embedding(5, 3),
    "LSTM": lambda: nn.LSTM(3, 3),
    "MultiheadAttention": lambda: nn.MultiheadAttention(3, 1),
}


@pytest.mark.parametrize("clipped", [True, False])
@pytest.mark.parametrize("case", MIXING)
def test_module_that_mixes_examples_is_refused(case: str, clipped: bool) -> None:
    model = nn.Sequential(nn.Identity(), Block(MIXING[case]()))
    with pytest.raises(
        InvalidInputError, match=r"module '1\.layers\.inner' \(.* Before make_private"
    ):
        private_sgd(model, clipped)


@pytest.mark.parametrize("case", MIXING)
def test_module_that_mixes_examples_is_refused_when_it_comes_later(case: str) -> None:
    model = nn.Sequential(nn.Identity(), Block(nn.Identity()))
    optimizer = private_sgd(model)
    optimizer.step()
    model[1].layers["inner"] = MIXING[case]()
    with pytest.raises(InvalidInputError, match=r"module '1\.layers\.inner' \("):
        optimizer.step()


@pytest.mark.parametrize("case", APART)
def test_module_that_keeps_examples_apart_is_accepted(case: str) -> None:
    private_sgd(nn.Sequential(nn.Identity(), Block(APART[case]()))).step()


@pytest.mark.parametrize("case", ["BatchNorm1d, evaluated", "InstanceNorm1d, evaluated"])
@pytest.mark.parametrize("grad", [True, False])
def test_forward_pass_in_another_mode_is_refused(case: str, grad: bool) -> None:
    """Even if the mode is back before the step: the statistics have no noise."""
    model = nn.Sequential(nn.Identity(), Block(APART[case]()))
    optimizer = private_sgd(model)
    inputs = torch.randn(4, 3, 5)
    model[1](inputs)
    model.train()
    with torch.set_grad_enabled(grad):
        with pytest.raises(InvalidInputError, match=r"module '1\.layers\.inner' \("):
            model(inputs)
        with pytest.raises(InvalidInputError, match="of the private model"):
            model[1](inputs)
    model.eval()
    model(inputs)
    del optimizer
    model.train()
    model(inputs)  # when the run is over, its hooks are gone


def test_module_present_only_in_forward_pass_is_refused() -> None:
    """No step sees a module that is in the model during the forward pass alone."""
    model = nn.Sequential(nn.Identity(), Block(nn.Identity()))
    optimizer = private_sgd(model)
    inputs = torch.randn(4, 3)
    model(inputs)
    model[1].layers["inner"] = nn.BatchNorm1d(3, affine=False)
    with pytest.raises(InvalidInputError, match=r"module '1\.layers\.inner' \("):
        model(inputs)
    model[1].layers["inner"] = nn.Identity()
    model(inputs)
    optimizer.step()


def moved_by_the_last_example(make: Callable[[], Any], inputs: Any) -> float:
    """Return by how much the last example moves a model in one step, with the module inside.

    Args:
        make: Makes the module.
        inputs: The inputs; the last example has long gradients.
    """
    ends = []
    for rows in (len(inputs), len(inputs) - 1):
        torch.manual_seed(1)
        module = make()
        last = nn.Linear(3, 1)
        model = nn.Sequential(module, last)
        optimizer = torch.optim.SGD(last.parameters(), lr=1.0)
        make_private(optimizer, noise_of(), model, batch_size=1)
        hidden = module(inputs[:rows]).detach()
        # Gradients of examples of the last layer, for the sum of its outputs.
        hidden = hidden.reshape(len(hidden), -1, 3).sum(1).abs()
        last.weight.grad_sample = hidden[:, None] * 0.2
        last.bias.grad_sample = torch.zeros(len(hidden), 1)
        optimizer.step()
        ends.append(torch.cat([each.double().flatten() for each in model.state_dict().values()]))
    return float((ends[0] - ends[1]).norm())


def outlier(*shape: int) -> Any:
    torch.manual_seed(2)
    inputs = torch.randn(*shape) + 1
    inputs[-1] = 1e3
    return inputs


def words() -> Any:
    return torch.tensor([1, 1, 2, 3])


MEASURED = {
    "without weights": lambda: outlier(32, 3),
    "without statistics": lambda: outlier(32, 3),
    "BatchNorm1d": lambda: outlier(32, 3),
    "InstanceNorm1d": lambda: outlier(4, 3, 5),
    "flag, evaluated": lambda: outlier(4, 3, 5),
    "max_norm": words,
}


@pytest.mark.parametrize("case", MEASURED)
def test_module_without_check_lets_an_example_move_more(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> Any:
        module = MIXING[case]()
        if case == "max_norm":
            module.weight.data *= 10
        return module

    inputs = MEASURED[case]()
    with pytest.raises(InvalidInputError, match="what one example changes"):
        moved_by_the_last_example(make, inputs)
    monkeypatch.setattr(torch_steps, "check_modules", lambda _: None)
    monkeypatch.setattr(torch_steps, "watch_modes", lambda _: [])
    assert moved_by_the_last_example(make, inputs) > 1.1


@pytest.mark.parametrize("case", ["GroupNorm", "LayerNorm", "BatchNorm1d, evaluated"])
def test_module_that_is_accepted_lets_an_example_move_the_clip(case: str) -> None:
    assert moved_by_the_last_example(APART[case], outlier(32, 3)) < 1.001


def test_frequencies_of_words_let_an_example_move_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped sums under scale_grad_by_freq: an example with many words halves each one's sum."""

    def moved() -> float:
        ends = []
        for present in (True, False):
            model = nn.Embedding(20, 4, scale_grad_by_freq=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            model.weight.data.zero_()
            make_private(optimizer, noise_of(), model, batch_size=1, clipped=True)
            # 16 examples of one word each, and one example of 16 words: the gradient of each has
            # the norm 1.
            used = torch.cat([torch.arange(16)] * (2 if present else 1))
            weights = torch.zeros(len(used), 4)
            weights[:16, 0] = 1.0
            weights[16:, 1] = 0.25
            (model(used) * weights).sum().backward()
            optimizer.step()
            ends.append(model.weight.detach().clone())
        return float((ends[0] - ends[1]).norm())

    with pytest.raises(InvalidInputError, match="scale_grad_by_freq"):
        moved()
    monkeypatch.setattr(torch_steps, "check_modules", lambda _: None)
    monkeypatch.setattr(torch_steps, "watch_modes", lambda _: [])
    assert moved() > 1.1


def test_model_that_opacus_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> list[UnsupportedModuleError]:
        return [UnsupportedModuleError("examples meet in this layer")]

    class Meeting(nn.Linear):  # type: ignore[misc, name-defined]
        pass

    monkeypatch.setitem(ModuleValidator.VALIDATORS, Meeting, refuse)
    plain = nn.Sequential(Meeting(3, 2))
    optimizer = torch.optim.SGD(plain.parameters(), lr=1.0)
    make_private(optimizer, noise_of(), plain, batch_size=1, clipped=True)
    for training in (True, False):
        model = opacus.GradSampleModule(nn.Sequential(Meeting(3, 2)))
        model.train(training)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        with pytest.raises(InvalidInputError, match="Opacus refuses the model: examples meet"):
            make_private(optimizer, noise_of(), model, batch_size=1)


def test_model_of_opacus_may_be_trained_later() -> None:
    model = opacus.GradSampleModule(nn.Linear(3, 2)).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise_of(), model, batch_size=1)
    model.train()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()

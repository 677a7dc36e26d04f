"""PyTorch: what one example adds to a step has norm `clip` at most, or the step is refused.

Each test measures it: two runs with one example more or less, with noise that is next to nothing,
and all numbers of the model after the last step. A wrong implementation, which lacks one check, is
measured too: there one example adds more.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from keys import chosen_key

from counton import ZCDP
from counton.base.errors import InvalidInputError, StateError
from counton.training import FixedEpochs, TrainingNoise
from counton.training.strategies import BufferedToeplitz, OctaveTraining

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch", reason="torch is not installed: make test-training")
opacus = pytest.importorskip("opacus", reason="opacus is not installed: make test-training")

from opacus.grad_sample import (  # noqa: E402 - after the skip
    GradSampleModule,
    GradSampleModuleFastGradientClipping,
)
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping  # noqa: E402

from counton.training.torch import PrivateSteps, make_private  # noqa: E402

#: More than this is more than `clip`, which is 1, and rounding.
BOUND = 1.001
#: What a wrong implementation lets one example add, at least.
BROKEN = 1.1

nn = torch.nn


def noise_of(steps: int = 4, **terms: Any) -> TrainingNoise:
    usual: dict[str, Any] = {"guarantee": ZCDP("1e12"), "name": "run", "clip": 1.0}
    return TrainingNoise(OctaveTraining.fit(steps), key=chosen_key(), **usual | terms)


class TwoHeads(nn.Module):  # type: ignore[misc, name-defined]
    """A trunk and two heads, which a pass uses as it says."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.trunk = nn.Linear(3, 4)
        self.first = nn.Linear(4, 2)
        self.second = nn.Linear(4, 2)

    def forward(self, inputs: Any, head: str) -> Any:
        hidden = torch.tanh(self.trunk(inputs))
        if head == "both":
            return self.first(hidden) + self.second(hidden)
        return getattr(self, head)(hidden)


class Tied(nn.Module):  # type: ignore[misc, name-defined]
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.encoder = nn.Linear(3, 3, bias=False)
        self.decoder = nn.Linear(3, 3, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, inputs: Any) -> Any:
        return self.decoder(torch.tanh(self.encoder(inputs)))


def batch_of(count: int = 6, present: bool = True) -> Any:
    """Inputs; without the last example, whose gradients are long."""
    torch.manual_seed(2)
    inputs = torch.randn(count, 3)
    inputs[-1] = 30.0
    return inputs if present else inputs[:-1]


def values_of(model: Any) -> Any:
    """Return all numbers of a model that a release would contain: parameters and buffers."""
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


def moved_by_an_example(train: Callable[[bool], Any]) -> float:
    """Return the norm by which one example moves a model.

    Args:
        train: Trains with the example or without it, and returns the model.
    """
    return float((values_of(train(True)) - values_of(train(False))).norm())


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=1.0)


# --------------------------------------------------------------------- parameters of the optimizer


def train_with_group_added(present: bool) -> Any:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = torch.optim.SGD(model._module.first.parameters(), lr=1.0)
    make_private(optimizer, noise_of(), model, batch_size=1)
    optimizer.step()
    optimizer.add_param_group({"params": list(model._module.trunk.parameters())})
    model(batch_of(present=present), "first").square().sum().backward()
    optimizer.step()
    return model


def train_with_parameter_replaced(present: bool) -> Any:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    other = nn.Parameter(model._module.first.weight.detach().clone())
    group = optimizer.param_groups[0]
    replaced = model._module.first.weight
    group["params"] = [other if each is replaced else each for each in group["params"]]
    model._module.first.weight = other
    other.grad_sample = None
    other._forward_counter = 0
    model(batch_of(present=present), "first").square().sum().backward()
    optimizer.step()
    return model


def train_with_layer_unfrozen(present: bool) -> Any:
    model = TwoHeads()
    model.trunk.requires_grad_(False)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    optimizer = sgd(wrapped)
    make_private(optimizer, noise_of(), wrapped, batch_size=1)
    wrapped(batch_of(present=present), "first").square().sum().backward()
    optimizer.step()
    model.trunk.requires_grad_(True)
    for parameter in model.trunk.parameters():
        parameter.grad_sample = None
        parameter._forward_counter = 0
    wrapped(batch_of(present=present), "first").square().sum().backward()
    optimizer.step()
    return wrapped


def train_with_old_gradient_of_frozen_layer(present: bool) -> Any:
    model = TwoHeads()
    model(batch_of(present=present), "first").square().sum().backward()
    model.trunk.requires_grad_(False)
    model.first.zero_grad()
    wrapped = GradSampleModule(model, loss_reduction="sum")
    optimizer = sgd(wrapped)
    make_private(optimizer, noise_of(), wrapped, batch_size=1)
    optimizer.step()
    return wrapped


def train_clipped_with_group_added(present: bool) -> Any:
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.first.parameters(), lr=1.0)
    make_private(optimizer, noise_of(), model, batch_size=1, clipped=True)
    optimizer.add_param_group({"params": list(model.trunk.parameters())})
    model(batch_of(present=present), "first").square().sum().backward()
    for parameter in model.first.parameters():
        parameter.grad = None  # nothing of the example, which is clipped all the same
    optimizer.step()
    return model


PARAMETERS = {
    "added": (train_with_group_added, "was added to the optimizer after make_private"),
    "replaced": (train_with_parameter_replaced, "first.weight' was added to the optimizer"),
    "unfrozen": (train_with_layer_unfrozen, "was frozen, and was unfrozen after make_private"),
    "old": (train_with_old_gradient_of_frozen_layer, "is frozen, but has a gradient"),
    "clipped": (train_clipped_with_group_added, "was added to the optimizer after make_private"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_step_with_other_parameters_is_refused(case: str) -> None:
    train, message = PARAMETERS[case]
    with pytest.raises(InvalidInputError, match=message):
        train(True)


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_without_check_let_an_example_add_more(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateSteps, "_check_parameters", lambda *_: None)
    monkeypatch.setattr(PrivateSteps, "_check_reached", lambda *_: None)
    assert moved_by_an_example(PARAMETERS[case][0]) > BROKEN


def test_refused_step_changes_nothing_and_keeps_no_gradient() -> None:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = torch.optim.SGD(model._module.first.parameters(), lr=1.0)
    private = make_private(optimizer, noise_of(), model, batch_size=1)
    optimizer.add_param_group({"params": list(model._module.trunk.parameters())})
    before = values_of(model)
    for _ in range(2):
        model(batch_of(), "first").square().sum().backward()
        with pytest.raises(InvalidInputError, match="was added"):
            optimizer.step()
        assert model._module.first.weight.grad is None
        assert model._module.first.weight.grad_sample is None
    assert torch.equal(values_of(model), before)
    assert private.step == 0


@pytest.mark.parametrize("change", ["freeze", "remove from optimizer", "remove from model"])
def test_step_after_a_parameter_left_is_refused(change: str) -> None:
    """Its noise would move a frozen layer, or a new layer would not be trained, without a word."""
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    inner = model._module
    if change == "freeze":
        inner.second.requires_grad_(False)
        message = "second.weight' was trained, and was frozen"
    elif change == "remove from optimizer":
        group = optimizer.param_groups[0]
        group["params"] = [each for each in group["params"] if each is not inner.second.bias]
        message = "second.bias' was removed from the optimizer"
    else:
        inner.second = nn.Linear(4, 2)
        message = "second.weight' was removed from the model"
    with pytest.raises(InvalidInputError, match=message):
        optimizer.step()


def test_optimizer_that_loads_its_state_stays_private() -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        private = make_private(optimizer, noise_of(), model, batch_size=1)
        optimizer.step()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        model(batch_of(present=present), "both").square().sum().backward()
        optimizer.step()
        assert private.step == 2
        return model

    assert 0.9 < moved_by_an_example(train) < BOUND


def test_optimizer_with_private_steps_is_not_copied() -> None:
    """A copy has the parameters, but no hooks: its steps would apply raw gradients."""
    model = TwoHeads()
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="cannot be copied or pickled"):
            copied(optimizer)

    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = sgd(model)
        make_private(optimizer, noise_of(), model, batch_size=1)
        del optimizer.__getstate__  # a wrong implementation
        other = copy.copy(optimizer)
        model(batch_of(present=present), "first").square().sum().backward()
        other.step()
        return model

    assert moved_by_an_example(train) > BROKEN


class Doubled(torch.optim.SGD):  # type: ignore[misc, name-defined]
    """An optimizer whose step calls that of its base class, so that hooks run twice."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


@pytest.mark.parametrize("clipped", [True, False])
def test_step_within_a_step_is_refused(clipped: bool) -> None:
    model = TwoHeads()
    sgd(model)  # PyTorch adds hooks to the step of a class when its first object is made
    optimizer = Doubled(model.parameters(), lr=1.0)
    private = make_private(optimizer, noise_of(), model, batch_size=1, clipped=clipped)
    before = values_of(model)
    with pytest.raises(InvalidInputError, match="began before the last one had ended"):
        optimizer.step()
    assert torch.equal(values_of(model), before)
    assert private.step == 1


def test_closure_under_any_name_is_refused() -> None:
    model = TwoHeads()
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    before = values_of(model)
    for given in ((lambda: 0.0,), ()):
        with pytest.raises(InvalidInputError, match="closure"):
            optimizer.step(*given, **({} if given else {"closure": lambda: 0.0}))
    assert torch.equal(values_of(model), before)


# ------------------------------------------------------------------- structure of the gradients


def train_with_two_passes(present: bool) -> Any:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    inputs = batch_of(present=present)
    for head in ("first", "second"):
        model(inputs, head).square().sum().backward()
    optimizer.step()
    return model


def train_whole_model_twice(present: bool) -> Any:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    inputs = batch_of(present=present)
    for _ in range(2):
        model(inputs, "both").square().sum().backward()
    optimizer.step()
    return model


def train_two_forwards_then_two_passes(present: bool) -> Any:
    """Opacus adds up the rows of both passes, which here are of different examples."""
    torch.manual_seed(1)
    model = GradSampleModule(nn.Linear(1, 1, bias=False), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    losses = [model(torch.tensor([[5.0]])), -model(torch.tensor([[50.0 * present]]))]
    for loss in losses:
        loss.sum().backward()
    optimizer.step()
    return model


def train_heads_on_different_examples(present: bool) -> Any:
    """Row 0 of one head is another example than row 0 of the other head, and no row is twice."""
    model = TwoHeads()
    model.trunk.requires_grad_(False)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    optimizer = sgd(wrapped)
    make_private(optimizer, noise_of(), wrapped, batch_size=1)
    inputs = torch.ones(1, 3)
    (1.0 * wrapped(inputs, "first")).sum().backward()
    (1000.0 * present * wrapped(inputs, "second")).sum().backward()
    optimizer.step()
    return wrapped


def train_a_head_without_backward(present: bool) -> Any:
    """Opacus writes grad_sample in each pass, and ``autograd.grad`` calls no hook of a gradient."""
    model = TwoHeads()
    model.trunk.requires_grad_(False)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    optimizer = sgd(wrapped)
    make_private(optimizer, noise_of(), wrapped, batch_size=1)
    inputs = torch.ones(1, 3, requires_grad=True)
    torch.autograd.grad((1.0 * wrapped(inputs, "first")).sum(), inputs)
    (1000.0 * present * wrapped(inputs.detach(), "second")).sum().backward()
    optimizer.step()
    return wrapped


def train_with_lists_of_different_length(present: bool) -> Any:
    model = TwoHeads()
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    for name, parameter in model.named_parameters():
        gradients = [torch.ones(1, *parameter.shape) * 100 * present]
        parameter.grad_sample = gradients * (2 if name.startswith("trunk") else 1)
    optimizer.step()
    return model


def train_with_fewer_rows_in_a_head(present: bool) -> Any:
    """The second example is row 1 of the trunk and row 0 of the head."""
    model = TwoHeads()
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    for name, parameter in model.named_parameters():
        count = 1 if name.startswith("first") else 2
        gradients = torch.ones(count, *parameter.shape)
        gradients[-1] *= -100 * present
        parameter.grad_sample = gradients
    optimizer.step()
    return model


def rows_in_sequence(private: PrivateSteps) -> dict[str, Any]:
    """A wrong implementation: rows of several passes one after another, padded by zeros."""
    held = {}
    for name, parameter in private._parameters.items():
        gradients = getattr(parameter, "grad_sample", None)
        if gradients is not None:
            held[name] = torch.cat(gradients) if isinstance(gradients, list) else gradients
    longest = max((len(gradients) for gradients in held.values()), default=0)
    for name, gradients in held.items():
        padded = torch.zeros(longest, *gradients.shape[1:])
        padded[: len(gradients)] = gradients
        held[name] = padded
    return held


STRUCTURES = {
    "two passes": (train_with_two_passes, "several backward passes"),
    "whole model twice": (train_whole_model_twice, "several backward passes"),
    "two forwards": (train_two_forwards_then_two_passes, "several backward passes"),
    "different examples": (train_heads_on_different_examples, "several backward passes"),
    "no backward": (train_a_head_without_backward, r"backward\(\) did not reach it"),
    "lists": (train_with_lists_of_different_length, "several backward passes"),
    "rows": (train_with_fewer_rows_in_a_head, "gradients of 2 examples, but 'first.weight' of 1"),
}


@pytest.mark.parametrize("case", STRUCTURES)
def test_gradients_that_may_pair_examples_wrongly_are_refused(case: str) -> None:
    train, message = STRUCTURES[case]
    with pytest.raises(InvalidInputError, match=message):
        train(True)


@pytest.mark.parametrize("case", STRUCTURES)
def test_rows_paired_by_index_let_an_example_add_more(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateSteps, "_gradients_of_examples", rows_in_sequence)
    assert moved_by_an_example(STRUCTURES[case][0]) > BROKEN


def test_compiled_steps_add_new_noise_without_tracing_key() -> None:
    """What ``torch.compile`` traces is kept for later steps, and may be written into messages."""
    model = nn.Linear(3, 1, bias=False)
    optimizer = sgd(model)
    make_private(optimizer, noise_of(guarantee=ZCDP("1/2")), model, batch_size=1, clipped=True)
    steps = 0

    def step() -> None:
        nonlocal steps
        assert not torch.compiler.is_compiling()
        steps += 1

    original = TrainingNoise.add

    def add(noise: TrainingNoise, *terms: Any) -> Any:
        step()
        return original(noise, *terms)

    values = [values_of(model)]
    compiled = torch.compile(lambda: optimizer.step(), backend="eager")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingNoise, "add", add)
        for _ in range(3):
            model.weight.grad = torch.zeros_like(model.weight)
            compiled()
            values.append(values_of(model))
    changes = [after - before for before, after in itertools.pairwise(values)]
    assert steps == len(changes)
    assert all(change.norm() > 0 for change in changes)
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(changes, 2))


def test_gradients_of_another_shape_are_refused() -> None:
    model = nn.Linear(3, 1, bias=False)
    optimizer = sgd(model)
    make_private(optimizer, noise_of(), model, batch_size=1)
    model.weight.grad_sample = torch.ones(4, 3)
    with pytest.raises(
        InvalidInputError, match=r"shape \(4, 3\)\. It must be one gradient of .*1, 3"
    ):
        optimizer.step()


def test_gradient_without_gradients_of_examples_is_refused() -> None:
    """The parameter would be trained on noise alone."""
    model = TwoHeads()
    model.trunk.requires_grad_(False)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    model.trunk.requires_grad_(True)
    optimizer = sgd(wrapped)
    make_private(optimizer, noise_of(), wrapped, batch_size=1)
    wrapped(batch_of(), "first").square().sum().backward()
    with pytest.raises(
        InvalidInputError, match=r"trunk\.weight' has a gradient, but no grad_sample"
    ):
        optimizer.step()


def test_parts_that_accumulate_may_reach_different_parameters() -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = sgd(model)
        private = make_private(optimizer, noise_of(), model, batch_size=1)
        inputs = batch_of(present=present)
        model(inputs[:3], "first").square().sum().backward()
        private.accumulate()
        model(inputs[3:], "second").square().sum().backward()
        optimizer.step()
        return model

    assert 0.9 < moved_by_an_example(train) < BOUND


@pytest.mark.parametrize("how", ["one loss", "cleared", "logged", "siamese"])
def test_steps_with_one_counted_pass_are_accepted(how: str) -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = sgd(model)
        make_private(optimizer, noise_of(), model, batch_size=1)
        inputs = batch_of(present=present)
        if how == "cleared":  # as the pass of a generator through its critic
            model(inputs, "both").exp().sum().backward()
            model.zero_grad()
        if how == "siamese":
            losses = (model(inputs, "first") * model(-inputs, "first")).sum()
        else:
            losses = model(inputs, "first").square().sum() + model(inputs, "second").exp().sum()
        if how == "logged":
            parameters = list(model._module.first.parameters())
            torch.autograd.grad(parameters[0].sum() * 2, parameters[:1])
        losses.backward()
        optimizer.step()
        return model

    assert 0.9 < moved_by_an_example(train) < BOUND


def test_weight_of_two_modules_is_clipped_once() -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(Tied(), loss_reduction="sum")
        optimizer = sgd(model)
        make_private(optimizer, noise_of(), model, batch_size=1)
        model(batch_of(present=present)).square().sum().backward()
        optimizer.step()
        return model._module.encoder

    assert 0.9 < moved_by_an_example(train) < BOUND


def test_parameter_without_a_gradient_gets_noise_alone() -> None:
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    make_private(optimizer, noise_of(guarantee=ZCDP("1/2")), model, batch_size=1)
    wanted = noise_of(guarantee=ZCDP("1/2")).read(1, "second.weight", 8)
    before = model._module.second.weight.detach().clone()
    model(batch_of(), "first").square().sum().backward()
    optimizer.step()
    moved = (before - model._module.second.weight.detach()).flatten()
    assert torch.allclose(moved, torch.from_numpy(wanted), atol=1e-6)


@pytest.mark.parametrize("how", ["state", "resume"])
def test_gradients_from_before_a_checkpoint_do_not_count(how: str) -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = sgd(model)
        private = make_private(optimizer, noise_of(), model, batch_size=1)
        saved = private.state_dict()
        model(batch_of(present=present), "both").square().sum().backward()
        private.accumulate()
        model(batch_of(present=present), "both").square().sum().backward()
        if how == "state":
            private.load_state_dict(saved)
        else:
            private.resume(1)
        optimizer.step()
        return model

    assert moved_by_an_example(train) < 1e-4


def test_sampler_refuses_examples_that_count_twice() -> None:
    """With `accumulate` between two losses of the same examples, only their number shows it."""
    model = GradSampleModule(TwoHeads(), loss_reduction="sum")
    optimizer = sgd(model)
    sampler = FixedEpochs(examples=6, batch_size=6, epochs=4)
    noise = TrainingNoise(
        BufferedToeplitz.fit(4, 4),
        key=chosen_key(),
        name="run",
        guarantee=ZCDP(1),
        sampler=sampler,
    )
    private = make_private(optimizer, noise, model, batch_size=6)
    for head in ("first", "second"):
        model(batch_of(), head).square().sum().backward()
        private.accumulate()
    with pytest.raises(InvalidInputError, match=r"of 12 examples, but .* batch has 6"):
        optimizer.step()


# ----------------------------------------------------------------------------- ghost clipping


class SquaredError:
    """A loss in the form that Opacus's ghost clipping asks for: one number for each example."""

    reduction = "sum"

    def __call__(self, outputs: Any, targets: Any) -> Any:
        losses = (outputs - targets).square().sum(1)
        return losses if self.reduction == "none" else losses.sum()


def ghost(model: Any) -> tuple[Any, Any, Callable[..., Any]]:
    """Return the model under ghost clipping, a private optimizer, and its loss."""
    wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, loss_reduction="sum")
    optimizer = sgd(wrapped)
    optimizer.loss_reduction = "sum"
    make_private(optimizer, noise_of(), wrapped, batch_size=1, clipped=True)
    loss = DPLossFastGradientClipping(wrapped, optimizer, SquaredError(), loss_reduction="sum")
    return wrapped, optimizer, loss


def test_ghost_clipping_bounds_an_example() -> None:
    def train(present: bool) -> Any:
        model, optimizer, loss = ghost(TwoHeads())
        outputs = model(batch_of(present=present), "both")
        loss(outputs, torch.zeros(len(outputs), 2)).backward()
        optimizer.step()
        return model

    assert 0.9 < moved_by_an_example(train) < BOUND


def train_by_ghost_clipping_with_an_unused_head(present: bool) -> Any:
    """The second step reaches one head; Opacus takes the norms of the other from the first step."""
    model, optimizer, loss = ghost(TwoHeads())
    targets = torch.zeros(6, 2)
    targets[:, 1] = 1e6 * present
    loss(model(torch.ones(6, 3), "both"), targets).backward()
    optimizer.zero_grad()  # so that the first step applies nothing of these examples
    optimizer.step()
    loss(model(torch.ones(6, 3), "first"), torch.ones(6, 2)).backward()
    optimizer.step()
    return model


def test_ghost_clipping_takes_no_norms_of_earlier_examples() -> None:
    with pytest.raises(AttributeError, match="_norm_sample"):
        train_by_ghost_clipping_with_an_unused_head(True)


def test_norms_of_earlier_examples_let_them_change_a_later_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keep_norms(private: PrivateSteps) -> None:
        for parameter in private._parameters.values():
            parameter.grad = None

    monkeypatch.setattr(PrivateSteps, "_clear_gradients", keep_norms)
    assert moved_by_an_example(train_by_ghost_clipping_with_an_unused_head) > BROKEN


def test_gradients_of_examples_are_refused_as_clipped_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train(present: bool) -> Any:
        model = GradSampleModule(TwoHeads(), loss_reduction="sum")
        optimizer = sgd(model)
        make_private(optimizer, noise_of(), model, batch_size=1, clipped=True)
        model(batch_of(present=present), "both").square().sum().backward()
        optimizer.step()
        return model

    with pytest.raises(
        InvalidInputError, match="has grad_sample, gradients of single examples, but"
    ):
        train(True)
    monkeypatch.setattr(PrivateSteps, "_check_clipped", lambda _: None)
    assert moved_by_an_example(train) > BROKEN

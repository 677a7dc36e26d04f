"""PyTorch: private steps of any optimiser; skipped where torch is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from patience import HANGS

from counton import ZCDP, Key
from counton.base.errors import InvalidInputError, StateError
from counton.training import FixedEpochs, TrainingNoise
from counton.training.strategies import BufferedToeplitz, Echo, OctaveTraining, TrainingStrategy

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch", reason="torch is not installed: make test-training")

from counton.training.torch import make_private  # noqa: E402 - after the skip

RUNS = Path(__file__).parent / "torch_processes.py"


def noise_of(strategy: TrainingStrategy, rho: str = "1e12", clip: float = 1.0) -> TrainingNoise:
    return TrainingNoise(strategy, key=chosen_key(), name="run", guarantee=ZCDP(rho), clip=clip)


def model_of(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))


def data(count: int = 8) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    inputs = torch.tensor(random.standard_normal((count, 4)), dtype=torch.float32)
    return inputs, torch.tensor(random.integers(0, 2, count))


def examples_gradients(model: Any, inputs: Any, labels: Any) -> None:
    """Fill grad_sample as Opacus does, by torch.func."""
    from torch.func import functional_call, grad, vmap

    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: Any, one: Any, label: Any) -> Any:
        out = functional_call(model, values, (one[None],))
        return torch.nn.functional.cross_entropy(out, label[None])

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, labels)
    for name, parameter in model.named_parameters():
        parameter.grad_sample = found[name]


def clipped_sum(model: Any, inputs: Any, labels: Any, clip: float) -> dict[str, Any]:
    """By a loop over examples."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for one, label in zip(inputs, labels, strict=True):
        loss = torch.nn.functional.cross_entropy(model(one[None]), label[None])
        found = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in found))
        for name, gradient in zip(total, found, strict=True):
            total[name] += gradient * min(1.0, clip / float(norm))
    return total


def test_a_step_is_that_of_the_clipped_sum_plus_noise() -> None:
    model, (inputs, labels) = model_of(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    strategy = OctaveTraining.fit(4)
    private = make_private(optimizer, noise_of(strategy, "1/2", 0.1), model, batch_size=8)
    wanted = noise_of(strategy, "1/2", 0.1).add(1, clipped_sum(model, inputs, labels, 0.1))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    examples_gradients(model, inputs, labels)
    optimizer.step()
    assert private.step == 1
    for name, parameter in model.named_parameters():
        moved = before[name] - parameter.detach()
        assert torch.allclose(moved, wanted[name] / 8, atol=1e-6)
        assert parameter.grad_sample is None


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_parts_of_a_batch_add_up_to_the_whole(momentum: float) -> None:
    ends = []
    for parts in (1, 4):
        model, (inputs, labels) = model_of(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=momentum)
        private = make_private(
            optimizer, noise_of(OctaveTraining.fit(4), "1/2"), model, batch_size=8
        )
        for _ in range(3):
            for number in range(parts):
                own = slice(number * 8 // parts, (number + 1) * 8 // parts)
                examples_gradients(model, inputs[own], labels[own])
                private.accumulate()
            optimizer.step()
        assert private.step == 3
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.allclose(ends[0], ends[1], atol=1e-5)


def test_two_parameters_of_one_plain_name_are_refused() -> None:
    """By the name alone one would be left out, and go on with its own gradient without noise."""
    model = torch.nn.Linear(4, 3)
    model.module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    noise = noise_of(OctaveTraining.fit(4))
    with pytest.raises(InvalidInputError, match=r"'weight' and 'module\.weight' are both called"):
        make_private(optimizer, noise, model, batch_size=8)
    kept = torch.optim.SGD(model.module.parameters(), lr=1.0)  # these have different names
    make_private(kept, noise, model, batch_size=8)


def test_opacus_gives_the_gradients_of_examples() -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed: make test-training")
    plain, (inputs, labels) = model_of(), data()
    model = opacus.GradSampleModule(model_of())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    noise = noise_of(OctaveTraining.fit(4), clip=0.1)
    private = make_private(optimizer, noise, model, batch_size=1)
    for part in (slice(0, 5), slice(5, 8)):
        loss = torch.nn.functional.cross_entropy(model(inputs[part]), labels[part])
        loss.backward()
        private.accumulate()
    optimizer.step()
    wanted = clipped_sum(plain, inputs, labels, 0.1)
    for name, parameter in plain.named_parameters():
        moved = parameter.detach() - dict(model.named_parameters())["_module." + name].detach()
        assert torch.allclose(moved, wanted[name], atol=1e-5)


def test_an_example_without_a_finite_gradient_counts_for_nothing() -> None:
    model, (inputs, labels) = model_of(), data(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise_of(OctaveTraining.fit(4)), model, batch_size=1)
    before = [p.detach().clone() for p in model.parameters()]
    inputs[2] = torch.nan
    examples_gradients(model, inputs, labels)
    optimizer.step()
    keep = torch.tensor([0, 1, 3])
    wanted = clipped_sum(model_of(), inputs[keep], labels[keep], 1.0)
    for was, parameter, total in zip(before, model.parameters(), wanted.values(), strict=True):
        assert torch.allclose(was - parameter.detach(), total, atol=1e-5)


def test_an_empty_batch_is_released_with_its_noise() -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = make_private(optimizer, noise_of(OctaveTraining.fit(4), "1/2"), model, batch_size=8)
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    optimizer.step()
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert private.step == 1
    assert (before != after).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_clips_in_float32(dtype: Any) -> None:
    model, (inputs, labels) = model_of(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise_of(OctaveTraining.fit(4), clip=0.1), model, batch_size=1)
    before = [p.detach().clone() for p in model.parameters()]
    examples_gradients(model, inputs, labels)
    for parameter in model.parameters():
        parameter.grad_sample = parameter.grad_sample.to(dtype)
    optimizer.step()
    moved = torch.cat(
        [(a - b.detach()).flatten() for a, b in zip(before, model.parameters(), strict=True)]
    )
    assert moved.norm() <= 8 * 0.1
    wanted = clipped_sum(model_of(), inputs, labels, 0.1)
    assert torch.allclose(moved, torch.cat([w.flatten() for w in wanted.values()]), atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("size", "value"), [(10**6, 1e-4), (16, 300.0)])
def test_clipping_holds_where_16_bits_do_not_hold_a_square(
    dtype: Any, size: int, value: float
) -> None:
    """A million coordinates of 1e-4 are as long as 0.1, and the square of 300 is above 65,504."""
    model = torch.nn.Linear(size, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    noise = noise_of(OctaveTraining.fit(4), "1e12", clip=0.01)
    make_private(optimizer, noise, model, batch_size=1)
    before = model.weight.detach().clone()
    model.weight.grad_sample = torch.full((1, 1, size), value, dtype=dtype)
    optimizer.step()
    assert 0.0098 < (model.weight.detach() - before).norm() < 0.0102


@pytest.mark.parametrize(
    "strategy", [BufferedToeplitz.fit(8), Echo.fit(8, 2), OctaveTraining.fit(8)]
)
@pytest.mark.parametrize("how", ["checkpoint", "key and step"])
def test_training_resumes_with_same_bits_after_crash(
    strategy: TrainingStrategy, how: str, tmp_path: Path
) -> None:
    inputs, labels = data()

    def run(model: Any, optimizer: Any, steps: int) -> None:
        for _ in range(steps):
            examples_gradients(model, inputs, labels)
            optimizer.step()

    def begun() -> tuple[Any, Any, Any]:
        model = model_of()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return (
            model,
            optimizer,
            make_private(optimizer, noise_of(strategy, "1/2"), model, batch_size=8),
        )

    whole, optimizer, private = begun()
    run(whole, optimizer, 3)
    torch.save(
        {"m": whole.state_dict(), "o": optimizer.state_dict(), "p": private.state_dict()},
        tmp_path / "checkpoint.pt",
    )
    run(whole, optimizer, 2)
    again, optimizer, private = begun()
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    again.load_state_dict(saved["m"])
    optimizer.load_state_dict(saved["o"])
    if how == "checkpoint":
        private.load_state_dict(saved["p"])
    else:
        private.resume(4)
    run(again, optimizer, 2)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def flat(model: Any) -> Any:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_sweep_of_learning_rates_shares_no_noise() -> None:
    key, (inputs, labels) = Key.generate(), data()
    strategy = BufferedToeplitz.fit(8)
    moved = []

    def trained(name: str, rate: float, draws: TrainingNoise | None = None) -> Any:
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        noise = draws or TrainingNoise(strategy, key=key, name=name, guarantee=ZCDP(1))
        make_private(optimizer, noise, model, batch_size=8)
        before = flat(model)
        examples_gradients(model, inputs, labels)
        optimizer.step()
        return (before - flat(model)) / rate

    for rate in (0.1, 0.3):
        moved.append(trained(f"rate {rate}", rate))
    assert (moved[0] - moved[1]).abs().max() > 1e-2
    with pytest.raises(StateError, match="another run"):
        trained("rate 0.1", 1.0)
    shared = TrainingNoise(strategy, key=key, name="all", guarantee=ZCDP(1))
    trained("all", 0.1, shared)
    with pytest.raises(InvalidInputError, match="another optimizer"):
        trained("all", 0.3, shared)


def test_optimizer_resumes_from_checkpoint_at_its_step(tmp_path: Path) -> None:
    key, (inputs, labels) = Key.generate(), data()
    sampler = FixedEpochs(examples=8, batch_size=4, epochs=4)

    def begun() -> tuple[Any, Any, Any]:
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        noise = TrainingNoise(
            Echo.fit(8, 4), key=key, name="run", guarantee=ZCDP(1), sampler=sampler
        )
        return model, optimizer, make_private(optimizer, noise, model, batch_size=4)

    model, optimizer, private = begun()
    for batch in private.batches():
        examples_gradients(model, inputs[batch], labels[batch])
        optimizer.step()
        if private.step == 3:
            torch.save(private.state_dict(), tmp_path / "private.pt")
        if private.step == 5:
            break
    model, optimizer, private = begun()
    examples_gradients(model, inputs[:4], labels[:4])
    with pytest.raises(StateError, match="load its checkpoint"):
        optimizer.step()
    ends = []
    for _ in range(2):
        model, optimizer, private = begun()
        private.load_state_dict(torch.load(tmp_path / "private.pt", weights_only=True))
        taken = []
        for batch in private.batches():
            taken.append(batch.tolist())
            examples_gradients(model, inputs[batch], labels[batch])
            optimizer.step()
        assert taken == [sampler.batch(step).tolist() for step in range(4, 9)]
        assert private.step == 8
        ends.append(flat(model))
    assert (ends[0] - ends[1]).abs().max() > 1e-2


def test_batches_that_are_not_the_samplers_are_refused() -> None:
    sampler = FixedEpochs(examples=80, batch_size=8, epochs=2)
    model, (inputs, labels) = model_of(), data(80)
    noise = TrainingNoise(
        OctaveTraining.fit(20, 2), key=Key.generate(), name="run", guarantee=ZCDP(1),
        sampler=sampler,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = make_private(optimizer, noise, model, batch_size=8)
    before = flat(model)
    for wrong in (range(80), range(7), range(0)):
        if wrong:
            examples_gradients(model, inputs[wrong], labels[wrong])
        with pytest.raises(
            InvalidInputError, match=f"of {len(wrong)} examples, but .* batch has 8"
        ):
            optimizer.step()
    assert torch.equal(flat(model), before)
    assert private.step == 0
    for part in (slice(0, 5), slice(5, 8)):
        own = sampler.batch(1)[part]
        examples_gradients(model, inputs[own], labels[own])
        private.accumulate()
    optimizer.step()
    with pytest.raises(InvalidInputError, match="the optimizer took 0 steps"):
        list(private.batches())


def test_clipped_sum_above_batch_bound_is_refused() -> None:
    sampler = FixedEpochs(examples=80, batch_size=8, epochs=2)
    model = model_of()
    noise = TrainingNoise(
        OctaveTraining.fit(20, 2), key=Key.generate(), name="run", guarantee=ZCDP(1),
        sampler=sampler,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise, model, batch_size=8, clipped=True)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 80 / flat(model).numel() ** 0.5)
    with pytest.raises(InvalidInputError, match="add up to a norm of 80, but the 8 examples"):
        optimizer.step()


def test_schedulers_see_an_optimizer() -> None:
    model, (inputs, labels) = model_of(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise_of(OctaveTraining.fit(4)), model, batch_size=8)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    examples_gradients(model, inputs, labels)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_make_private_refuses_unprotected_steps() -> None:
    model, (inputs, labels) = model_of(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = make_private(optimizer, noise_of(OctaveTraining.fit(4)), model, batch_size=8)
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(InvalidInputError, match="GradSampleModule"):
        optimizer.step()
    with pytest.raises(InvalidInputError, match="closure"):
        optimizer.step(lambda: 0.0)
    assert private.step == 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    with pytest.raises(InvalidInputError, match="private steps already"):
        make_private(optimizer, noise_of(OctaveTraining.fit(4)), model, batch_size=8)
    with pytest.raises(StateError):
        private.load_state_dict({})
    other = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(InvalidInputError, match="model does not have"):
        make_private(other, noise_of(OctaveTraining.fit(4)), model_of(), batch_size=8)
    with pytest.raises(InvalidInputError, match="batch_size"):
        make_private(other, noise_of(OctaveTraining.fit(4)), model, batch_size=0)
    clipped = make_private(
        other, noise_of(OctaveTraining.fit(4)), model, batch_size=8, clipped=True
    )
    with pytest.raises(InvalidInputError, match="leave the call of accumulate"):
        clipped.accumulate()


def test_steps_beyond_the_run_are_refused() -> None:
    model, (inputs, labels) = model_of(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise_of(OctaveTraining.fit(1)), model, batch_size=8)
    examples_gradients(model, inputs, labels)
    optimizer.step()
    examples_gradients(model, inputs, labels)
    with pytest.raises(InvalidInputError, match="after the last of the 1 steps"):
        optimizer.step()


def processes_train(kind: str, processes: int, folder: Path) -> Path:
    """Let several processes train together; where the model is that they end with."""
    out, rendezvous = (folder / f"{kind}-{processes}.{end}" for end in ("npy", "store"))
    run = [sys.executable, "-W", "ignore", str(RUNS), kind, str(processes)]
    started = [
        subprocess.Popen(
            [*run, str(rank), str(rendezvous), str(out)], env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(processes)
    ]  # fmt: skip
    said = [process.communicate(timeout=HANGS)[0] for process in started]
    assert all(process.returncode == 0 for process in started), said
    return out


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "ddp on device", "fsdp on device"])
def test_two_processes_train_as_one_does(kind: str, tmp_path: Path) -> None:
    """Over gloo: the same noise bits in shards, the same model in the end."""
    ends = [np.load(processes_train(kind, processes, tmp_path)) for processes in (1, 2)]
    assert np.allclose(ends[0], ends[1], atol=2e-5)


def test_processes_that_train_together_are_one_run(tmp_path: Path) -> None:
    """Under a key that nobody chose: the same noise, the same batches by chance, one name."""
    Key.generate().save(tmp_path / "joined-2.store.key")
    processes_train("joined", 2, tmp_path)


def test_processes_divide_the_batches_of_a_loader(tmp_path: Path) -> None:
    """Two processes over gloo, with places drawn in secret, and a run that continues."""
    Key.generate().save(tmp_path / "loaded-2.store.key")
    assert processes_train("loaded", 2, tmp_path).exists()

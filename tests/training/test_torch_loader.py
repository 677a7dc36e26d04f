"""Loaders of PyTorch: each example is in the batches of its steps, once, on one process."""

from __future__ import annotations

import copy
from collections import Counter, namedtuple
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import InvalidInputError
from counton.training import (
    FixedEpochs,
    GivenBatches,
    PoissonBatches,
    Sampler,
    SecretPlaces,
    TrainingNoise,
    plan,
)
from counton.training.strategies import BandedInverseSquareRoot, BufferedToeplitz
from counton.training.torch_loader import part_of_batch, without_rows

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch", reason="torch is not installed: make test-training")
opacus = pytest.importorskip("opacus", reason="opacus is not installed: make test-training")

from counton.training import torch as torch_steps  # noqa: E402 - after the skip
from counton.training.torch import PrivateSteps, make_private  # noqa: E402

#: More than this is more than `clip`, which is 1, and rounding.
BOUND = 1.001


def samplers(examples: int = 24) -> dict[str, Sampler]:
    key = Key.generate()
    return {
        "fixed": FixedEpochs(examples, 4, 2),
        "chance": PoissonBatches(examples, 0.05, 12, key=key, name="run"),
        "places": SecretPlaces(examples, 6, 2, key=key, name="run"),
        "given": GivenBatches([[0, 1], [], [2, 3], [4]]),
    }


def private_steps(
    sampler: Sampler, key: Key | None = None, **terms: Any
) -> tuple[Any, Any, PrivateSteps]:
    """A model with gradients of examples by Opacus, its optimizer, and its private steps."""
    torch.manual_seed(1)
    model = opacus.GradSampleModule(torch.nn.Linear(3, 2), loss_reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=terms.pop("lr", 1.0))
    guarantee = ApproxDP(1, 1e-5) if sampler.chance is not None else ZCDP(1)
    if sampler.for_independent_noise:
        strategy: Any = BandedInverseSquareRoot(sampler.steps, 1, sampler.schedule)
    else:
        strategy = BufferedToeplitz(sampler.steps, (0.4,), (0.1,), sampler.schedule)
    noise = TrainingNoise(
        strategy, key=key or Key.generate(), name="run", guarantee=guarantee, sampler=sampler
    )
    return model, optimizer, make_private(optimizer, noise, model, batch_size=4)


def numbered(examples: int = 24) -> Any:
    """A dataset whose examples show their position."""
    return torch.utils.data.TensorDataset(
        torch.arange(3.0 * examples).reshape(examples, 3), torch.arange(examples)
    )


def train_with(loader: Any, model: Any, optimizer: Any) -> list[list[int]]:
    """Take a step for each batch, and return the positions of the examples of each."""
    taken = []
    for inputs, positions in loader:
        assert inputs.shape == (len(positions), 3)
        model(inputs).square().sum().backward()
        optimizer.step()
        taken.append(positions.tolist())
    return taken


@pytest.mark.parametrize("name", samplers())
@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_gives_the_batches_of_the_sampler(name: str, num_workers: int) -> None:
    """Empty batches too, in which no example counts."""
    sampler = samplers()[name]
    model, optimizer, private = private_steps(sampler)
    loader = private.loader(numbered(), num_workers=num_workers)
    assert len(loader) == sampler.steps
    taken = train_with(loader, model, optimizer)
    assert taken == [sampler.batch(step).tolist() for step in range(1, sampler.steps + 1)]
    assert name not in ("chance", "given") or [] in taken
    assert len(loader) == 0


def test_loader_of_a_resumed_run_continues_after_its_steps() -> None:
    key = Key.generate()

    def begin() -> tuple[Any, Any, PrivateSteps]:
        return private_steps(SecretPlaces(24, 6, 2, key=key, name="run"), key)

    model, optimizer, private = begin()
    steps = Counter[int]()
    saved: Any = None
    for inputs, positions in private.loader(numbered()):
        model(inputs).square().sum().backward()
        optimizer.step()
        steps.update(positions.tolist())
        if private.step == 5:
            saved = private.state_dict(), Counter(steps), flat(model)
        if private.step == 8:
            break
    ends = []
    for _ in range(2):
        model, optimizer, private = begin()
        private.load_state_dict(saved[0])
        loader = private.loader(numbered())
        assert len(loader) == 7
        again = Counter(saved[1])
        for batch in train_with(loader, model, optimizer):
            again.update(batch)
        assert set(again.values()) == {2}  # twice, as the guarantee has it
        ends.append(flat(model))
    assert (ends[0] - ends[1]).abs().max() > 1e-2


def flat(model: Any) -> Any:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_one_batch_is_one_step() -> None:
    model, optimizer, private = private_steps(FixedEpochs(24, 4, 2))
    with pytest.raises(InvalidInputError, match="the optimizer took 0 steps"):
        list(private.loader(numbered()))
    batches = iter(private.loader(numbered()))
    inputs, _ = next(batches)
    model(inputs).square().sum().backward()
    optimizer.step()
    model(inputs).square().sum().backward()
    optimizer.step()
    with pytest.raises(InvalidInputError, match="the optimizer took 2 steps"):
        next(batches)


@pytest.mark.parametrize("examples", [23, 25])
def test_dataset_of_another_size_is_refused(examples: int) -> None:
    _, _, private = private_steps(FixedEpochs(24, 4, 2))
    with pytest.raises(InvalidInputError, match=f"has {examples} examples, but the sampler 24"):
        private.loader(numbered(examples))


def test_given_batches_may_leave_examples_out() -> None:
    sampler = GivenBatches([[0, 1], [2]])
    model, optimizer, private = private_steps(sampler)
    assert train_with(private.loader(numbered()), model, optimizer) == [[0, 1], [2]]
    _, _, private = private_steps(sampler)
    with pytest.raises(InvalidInputError, match="has 2 examples"):
        private.loader(numbered(2))


def test_iterable_dataset_is_refused() -> None:
    """Each worker would give the same examples."""

    class Endless(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(numbered())

    _, _, private = private_steps(FixedEpochs(24, 4, 2))
    with pytest.raises(InvalidInputError, match="gives each worker the same examples"):
        private.loader(Endless())


@pytest.mark.parametrize("name", ["batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"])
def test_options_that_choose_batches_are_refused(name: str) -> None:
    _, _, private = private_steps(FixedEpochs(24, 4, 2))
    with pytest.raises(InvalidInputError, match=f"{name} would choose other batches"):
        private.loader(numbered(), **{name: None})  # type: ignore[arg-type]


def test_loader_without_a_sampler_is_refused() -> None:
    model = torch.nn.Linear(3, 2)
    noise = TrainingNoise(
        BufferedToeplitz.fit(4), key=Key.generate(), name="run", guarantee=ZCDP(1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = make_private(optimizer, noise, model, batch_size=4)
    with pytest.raises(InvalidInputError, match="needs a sampler"):
        private.loader(numbered())


Pair = namedtuple("Pair", ["inputs", "names"])


def test_empty_batches_have_the_form_of_others() -> None:
    batch = Pair({"a": torch.ones(1, 3), "b": [torch.ones(1)]}, ("ann",))
    empty = without_rows(batch)
    assert isinstance(empty, Pair)
    assert empty.inputs["a"].shape == (0, 3)
    assert empty.inputs["b"][0].shape == (0,)
    assert empty.names == ()


class WithoutEmptyBatches:
    """A dataset that reads many examples at a time, and fails without any."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, position: int) -> Any:
        return torch.full((3,), float(position)), position

    def __getitems__(self, positions: list[int]) -> list[Any]:
        assert positions
        return [self[position] for position in positions]


def test_datasets_that_read_many_examples_give_empty_batches_too() -> None:
    sampler = samplers()["given"]
    model, optimizer, private = private_steps(sampler)
    loader = private.loader(WithoutEmptyBatches(), collate_fn=torch.utils.data.default_collate)
    assert train_with(loader, model, optimizer) == [[0, 1], [], [2, 3], [4]]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_parts_of_a_batch_have_no_example_in_common(processes: int) -> None:
    batch = np.array([7, 3, 9, 1])
    parts = [part_of_batch(batch, number, processes).tolist() for number in range(processes)]
    assert sorted(chain(*parts)) == [1, 3, 7, 9]


# ------------------------------------------------------------------------------ what is refused


def test_dropped_part_of_a_batch_is_refused() -> None:
    """A loop that leaves examples out, as ``drop_last`` does, takes another batch."""
    model, optimizer, private = private_steps(FixedEpochs(22, 4, 2))
    inputs, _ = next(iter(private.loader(numbered(22))))
    model(inputs[:3]).square().sum().backward()
    with pytest.raises(InvalidInputError, match=r"of 3 examples, but .* batch has 4"):
        optimizer.step()


def test_example_in_two_parts_of_batch_is_refused() -> None:
    model, optimizer, private = private_steps(FixedEpochs(24, 4, 2))
    inputs, _ = next(iter(private.loader(numbered())))
    for part in (inputs[:3], inputs[2:]):
        model(part).square().sum().backward()
        private.accumulate()
    with pytest.raises(InvalidInputError, match=r"of 5 examples, but .* batch has 4"):
        optimizer.step()


def accumulated(parts: list[slice], present: bool) -> Any:
    """Weights after one step of a batch in parts, with its last example or an empty place."""
    torch.manual_seed(1)
    model = opacus.GradSampleModule(torch.nn.Linear(3, 2), loss_reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    noise = TrainingNoise(
        BufferedToeplitz.fit(4), key=Key.generate(), name="run", guarantee=ZCDP("1e12")
    )
    private = make_private(optimizer, noise, model, batch_size=1)
    inputs = torch.ones(8, 3)
    inputs[7] = 100.0
    for part in parts:
        own = inputs[part] if present else inputs[:7][part]
        model(own).square().sum().backward()
        private.accumulate()
    optimizer.step()
    return flat(model)


def test_accumulated_parts_bound_an_example() -> None:
    parts = [slice(0, 3), slice(3, 6), slice(6, 8)]
    moved = accumulated(parts, present=True) - accumulated(parts, present=False)
    assert 0.9 < float(moved.norm()) < BOUND


def test_an_example_in_two_parts_would_move_more() -> None:
    """Without a sampler nothing counts the examples: a wrong division into parts."""
    parts = [slice(0, 8), slice(4, 8)]
    moved = accumulated(parts, present=True) - accumulated(parts, present=False)
    assert float(moved.norm()) > 1.9


def test_optimizers_of_opacus_are_refused_by_name() -> None:
    from opacus.optimizers import DPOptimizer

    model = opacus.GradSampleModule(torch.nn.Linear(3, 2))
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    wrapped = DPOptimizer(inner, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4)
    noise = TrainingNoise(
        BufferedToeplitz.fit(4), key=Key.generate(), name="run", guarantee=ZCDP(1)
    )
    with pytest.raises(InvalidInputError, match=r"DPOptimizer.* optimizer\.original_optimizer"):
        make_private(wrapped, noise, model, batch_size=4)
    make_private(wrapped.original_optimizer, noise, model, batch_size=4)


# ------------------------------------------------------------------------------ epsilon so far


def test_epsilon_is_that_of_the_steps_so_far() -> None:
    model, optimizer, private = private_steps(FixedEpochs(24, 4, 2))
    assert private.epsilon(1e-5) == 0
    found = []
    for inputs, _ in private.loader(numbered()):
        model(inputs).square().sum().backward()
        optimizer.step()
        found.append(private.epsilon(1e-5))
    assert found == sorted(found)
    assert found[-1] == private.epsilon(1e-5, at_end=True)
    assert found[0] < 0.9 * found[-1]


# ------------------------------------------------------------------------------ a whole program


def checkpoint_of(folder: Path, key: Key) -> tuple[Any, Any, PrivateSteps]:
    sampler = SecretPlaces(24, 6, 2, key=key, name="run")
    best = plan(sampler=sampler, guarantee=ApproxDP(4, 1e-3)).best
    model = opacus.GradSampleModule(torch.nn.Linear(3, 2), loss_reduction="sum")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    private = make_private(optimizer, best.noise(key=key, name="run"), model, batch_size=4)
    if (folder / "checkpoint.pt").exists():
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        private.load_state_dict(saved["private"])
    return model, optimizer, private


def test_checkpoint_and_key_in_files_continue_a_run(tmp_path: Path) -> None:
    Key.generate().save(tmp_path / "training.key")
    steps = Counter[int]()
    for last in (5, 12):
        model, optimizer, private = checkpoint_of(tmp_path, Key.load(tmp_path / "training.key"))
        for inputs, positions in private.loader(numbered()):
            model(inputs).square().sum().backward()
            optimizer.step()
            steps.update(positions.tolist())
            parts = {"model": model, "optimizer": optimizer, "private": private}
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save(states, tmp_path / "checkpoint.pt")
            if private.step == last:
                break
    assert private.step == 12
    assert set(steps.values()) == {2}


def test_sums_that_differ_between_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exchange of gradients, the difference of two models has no noise."""
    import torch.distributed as distributed

    model = torch.nn.Linear(3, 2)
    noise = TrainingNoise(
        BufferedToeplitz.fit(4), key=Key.generate(), name="run", guarantee=ZCDP(1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    make_private(optimizer, noise, model, batch_size=4, clipped=True)
    monkeypatch.setattr(torch_steps, "_several", lambda: True)
    monkeypatch.setattr(torch_steps, "_from_first", lambda value: value)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)

    def gather(held: list[Any], value: Any) -> None:
        held[:] = [value, other or value]

    monkeypatch.setattr(distributed, "all_gather_object", gather)
    before = copy.deepcopy(flat(model))
    for other in (b"another", None):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if other:
            with pytest.raises(InvalidInputError, match="processes have different sums"):
                optimizer.step()
            assert torch.equal(before, flat(model))
    optimizer.step()
    assert not torch.equal(before, flat(model))

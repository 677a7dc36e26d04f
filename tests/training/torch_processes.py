"""One of several processes that train together: kind, processes, rank, store, output."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import Any


def joined(rank: int, processes: int, store: str) -> None:
    """With a key that nobody chose: the run and the batches are those of the first process."""
    import torch
    import torch.distributed as distributed

    from counton import ApproxDP, Key
    from counton.training import PoissonBatches, plan
    from counton.training.torch import make_private

    key = Key.load(f"{store}.key")
    ends: list[Any] = []
    state: dict[str, Any] = {}
    for again in (False, True):
        sampler = PoissonBatches(100, 0.1, 4, key=key, name="run")
        best = plan(sampler=sampler, dimension=6, guarantee=ApproxDP(1, 1e-5)).best
        torch.manual_seed(1)
        model = torch.nn.Linear(5, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = make_private(optimizer, best.noise(key=key, name="run"), model, batch_size=10)
        if again:
            private.load_state_dict(state)
        for batch in private.batches():
            for parameter in model.parameters():
                own = len(batch[rank::processes])
                parameter.grad_sample = torch.ones(own, *parameter.shape)
            optimizer.step()
            if private.step == 2:
                state = private.state_dict()
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        all_of_them = [torch.zeros_like(flat) for _ in range(processes)]
        distributed.all_gather(all_of_them, flat)
        assert all(torch.equal(one, flat) for one in all_of_them), all_of_them
        ends.append(flat)
    assert not torch.allclose(*ends)


def loaded(rank: int, processes: int, store: str, out: str) -> None:
    """Batches of a loader, divided between processes: each example once in each epoch.

    Args:
        rank: Number of this process.
        processes: Number of processes.
        store: Path of the store, beside which the key is.
        out: Path of what the first process writes.
    """
    import numpy as np
    import torch
    import torch.distributed as distributed
    from opacus import GradSampleModule
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

    from counton import ApproxDP, Key
    from counton.training import SecretPlaces, TrainingNoise
    from counton.training.strategies import BufferedToeplitz
    from counton.training.torch import make_private

    key = Key.load(f"{store}.key")
    dataset = torch.utils.data.TensorDataset(torch.ones(40, 3), torch.arange(40))
    state: dict[str, Any] = {}
    ends: list[Any] = []
    for again in (False, True):
        sampler = SecretPlaces(40, 5, 2, key=key, name="run")
        strategy = BufferedToeplitz(10, (0.4,), (0.1,), sampler.schedule)
        noise = TrainingNoise(
            strategy, key=key, name="run", guarantee=ApproxDP(1, 1e-5), sampler=sampler
        )
        torch.manual_seed(rank)
        model = GradSampleModule(
            DifferentiallyPrivateDistributedDataParallel(torch.nn.Linear(3, 1)),
            loss_reduction="sum",
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = make_private(optimizer, noise, model, batch_size=8)
        if again:
            private.load_state_dict(state)
        own: list[list[int]] = []
        for inputs, positions in private.loader(dataset):
            model(inputs).sum().backward()
            optimizer.step()
            own.append(positions.tolist())
            if private.step == 3:
                state = private.state_dict()
        gathered: list[Any] = [None] * processes
        distributed.all_gather_object(gathered, own)
        batches = [sorted(chain(*parts)) for parts in zip(*gathered, strict=True)]
        assert batches == [sampler.batch(step).tolist() for step in range(4 if again else 1, 11)]
        if not again:
            assert sorted(chain(*batches)) == sorted([*range(40), *range(40)])
        flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        held: list[Any] = [None] * processes
        distributed.all_gather_object(held, flat)
        assert all(torch.equal(one, flat) for one in held), held
        ends.append(flat)
    assert not torch.allclose(*ends)
    # Every process takes the whole batch: each example counts once in each process.
    refused = 0
    sampler = SecretPlaces(40, 5, 2, key=key, name="twice")
    strategy = BufferedToeplitz(10, (0.4,), (0.1,), sampler.schedule)
    noise = TrainingNoise(
        strategy, key=key, name="twice", guarantee=ApproxDP(1, 1e-5), sampler=sampler
    )
    model = GradSampleModule(torch.nn.Linear(3, 1), loss_reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_private(optimizer, noise, model, batch_size=8)
    for batch in private.batches():
        model(torch.ones(len(batch), 3)).sum().backward()
        try:
            optimizer.step()
        except Exception as error:
            assert f"of {2 * len(batch)} examples" in str(error), error  # noqa: PT017
            refused += 1
        break
    assert refused == 1
    if rank == 0:
        np.save(out, ends[0].numpy())


def train(kind: str, processes: int, rank: int, store: str, out: str) -> None:
    import numpy as np
    import pytest
    import torch
    import torch.distributed as distributed
    from torch.func import functional_call, grad, vmap

    from counton import ZCDP
    from counton.base.errors import InvalidInputError
    from counton.noise import InsecureSeededKey
    from counton.training import TrainingNoise
    from counton.training.strategies import BufferedToeplitz, Echo
    from counton.training.torch import make_private

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", store=distributed.FileStore(store, processes), rank=rank, world_size=processes
    )
    if kind in ("joined", "loaded"):
        if kind == "joined":
            joined(rank, processes, store)
        else:
            loaded(rank, processes, store, out)
        distributed.barrier()
        distributed.destroy_process_group()
        return
    torch.manual_seed(1)
    model: Any = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    kind, _, where = kind.partition(" on ")
    strategy = Echo.fit(8, 2) if where else BufferedToeplitz.fit(8)
    noise = TrainingNoise(
        strategy,
        key=InsecureSeededKey(5),
        name="run",
        guarantee=ZCDP(1),
        clip=0.5,
        where=where or "host",
    )
    random = np.random.default_rng(2)
    inputs = torch.tensor(random.standard_normal((8, 5)), dtype=torch.float32)[rank::processes]
    labels = torch.tensor(random.integers(0, 3, 8))[rank::processes]

    def loss(values: Any, one: Any, label: Any) -> Any:
        found = functional_call(model, values, (one[None],))
        return torch.nn.functional.cross_entropy(found, label[None])

    if kind == "ddp":
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        make_private(optimizer, noise, wrapped, batch_size=8)
        for _ in range(6):
            values = {name: p.detach() for name, p in model.named_parameters()}
            found = vmap(grad(loss), in_dims=(None, 0, 0))(values, inputs, labels)
            for name, parameter in model.named_parameters():
                parameter.grad_sample = found[name]
            optimizer.step()
    else:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(InvalidInputError, match="sharded over processes"):
            make_private(optimizer, noise, model, batch_size=8)
        make_private(optimizer, noise, model, batch_size=8, clipped=True)
        for _ in range(6):
            optimizer.zero_grad()
            # sums, not means, over processes
            (processes * 0.05 * torch.tanh(model(inputs)).sum()).backward()
            optimizer.step()

    final = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    if rank == 0:
        np.save(out, torch.cat([p.detach().flatten() for p in final]).numpy())
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    # Threads of the backend that ask for the interpreter while it ends would abort it.
    sys.stdout.flush()
    os._exit(0)

"""Training with PyTorch: noise for any optimiser, in the conventions of Opacus.

Opacus's ``GradSampleModule`` stores the gradient of every example in ``parameter.grad_sample``.
`make_private` adds a hook to an optimiser, which clips and sums these gradients and adds the noise
before each step. The optimiser itself is unchanged, so schedulers and checkpoints work as usual.

PyTorch is imported when `make_private` is called; in a checkout: ``pip install '.[torch]'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from counton.base.errors import InvalidInput, StateError
from counton.base.exact import check_integer, check_positive
from counton.base.lazy import require
from counton.training.device import generator_of

if TYPE_CHECKING:
    from counton.training import TrainingNoise

__all__ = ["PrivateSteps", "make_private"]

#: Prefixes that wrappers of a model add to a parameter's name.
_WRAPPERS = ("_module.", "module.", "_orig_mod.", "_fsdp_wrapped_module.")


def make_private(
    optimizer: Any, noise: TrainingNoise, model: Any, *, batch_size: float, clipped: bool = False
) -> PrivateSteps:
    """Make every step of an optimiser private: clip, sum and add noise before the optimiser's own
    step.

    Args:
        optimizer: any ``torch.optim.Optimizer`` over parameters of ``model``.
        noise: a `TrainingNoise`; its ``clip`` bounds the 2-norm of an example's gradient. One noise
            serves one optimiser of one run.
        model: a ``GradSampleModule``, or any module if gradients are ``clipped``.
        batch_size: the number by which sums are divided, such as the expected batch size. It must
            not depend on the data.
        clipped: True if ``parameter.grad`` is a sum of gradients that are already clipped to
            ``clip`` for each example. FSDP averages over processes, so multiply losses by the
            number of processes.

    Returns:
        An object that counts the steps; put its `PrivateSteps.state_dict` into every checkpoint.

    Raises:
        MissingExtra: PyTorch is not installed.
        InvalidInput: the model does not have a parameter of the optimiser, two parameters have one
            name without the prefixes of wrappers, parameters are sharded but gradients are not
            ``clipped``, or the noise is bound to another optimiser.

    Example (``pip install opacus``)::

        >>> from counton.training.torch import make_private           # doctest: +SKIP
        >>> model = GradSampleModule(model)                  # doctest: +SKIP
        >>> make_private(optimizer, noise, model, batch_size=64)  # doctest: +SKIP
    """
    require("torch")
    return PrivateSteps(optimizer, noise, model.named_parameters(), batch_size, clipped)


class PrivateSteps:
    """The steps of an optimiser that `make_private` changed: each step clips gradients and adds
    noise.

    Attributes:
        step: number of steps taken.

    Example::

        >>> private = make_private(optimizer, noise, model, batch_size=64)  # doctest: +SKIP
        >>> private.step                                                    # doctest: +SKIP
        0
    """

    def __init__(
        self,
        optimizer: Any,
        noise: TrainingNoise,
        named_parameters: Iterable[tuple[str, Any]],
        batch_size: float,
        clipped: bool,
    ) -> None:
        check_positive("batch_size", batch_size, "the expected examples of a step")
        names = {id(parameter): name for name, parameter in named_parameters}
        mine = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if not all(id(parameter) in names for parameter in mine):
            raise InvalidInput(
                "the optimizer has a parameter that the model does not have: make it from "
                "model.parameters()"
            )
        if not clipped and any(hasattr(parameter, "placements") for parameter in mine):
            raise InvalidInput(
                "parameters are sharded over processes, where the gradients of single examples are "
                "not known: clip them yourself and give clipped=True, or use "
                "DistributedDataParallel"
            )
        self._parameters: dict[str, Any] = {}
        for parameter in mine:
            name = names[id(parameter)]
            other = self._parameters.setdefault(plain_name(name), parameter)
            if other is not parameter:
                raise InvalidInput(
                    f"parameters {names[id(other)]!r} and {name!r} are both called "
                    f"{plain_name(name)!r} without the prefixes of wrappers, and would have equal "
                    "noise: rename one"
                )
        if noise.on_device:
            noise.bind(*map(generator_of, mine))
        noise.take()
        self._noise, self._batch_size, self._clipped = noise, float(batch_size), clipped
        self._sums: dict[str, Any] = {}
        self._rows = 0
        self._joined = False
        self.step = 0
        # Let all processes draw the same batches, where they are drawn by chance.
        if noise.sampler is not None and noise.sampler.identity is not None:
            noise.sampler.join(_from_first(noise.sampler.identity))
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def batches(self) -> Iterator[Any]:
        """Yield the sampler's batches from the next step on, one for each step.

        After a checkpoint is loaded, the batches continue from its step.

        Raises:
            InvalidInput: the noise has no sampler, or the optimiser did not take exactly one step
                for a batch.
        """
        sampler = self._noise.sampler
        if sampler is None:
            raise InvalidInput("batches() needs a sampler: give noise(sampler=...)")
        while self.step < sampler.steps:
            step = self.step
            yield sampler.batch(step + 1)
            if self.step != step + 1:
                raise InvalidInput(
                    f"after the batch of step {step + 1} the optimizer took {self.step - step} "
                    "steps; take exactly one step for each batch"
                )

    def accumulate(self) -> None:
        """Add the gradients of one part of a batch that is too large for a single backward pass.

        Call it after each backward pass except the last; the optimiser's next step sums all parts.
        """
        if self._clipped:
            raise InvalidInput(
                "gradients are clipped already and add up in parameter.grad by themselves: leave "
                "the call of accumulate() out"
            )
        self._take_in()

    def resume(self, step: int, run: Mapping[str, Any] | None = None) -> None:
        """Continue at a step in a new process, without a checkpoint of the noise.

        Args:
            step: the next step.
            run: the value of ``noise.run`` in the earlier process.

        Raises:
            InvalidInput, StateError: see `counton.training.TrainingNoise.resume`.
        """
        self._noise.resume(step, run)
        self.step, self._joined = step - 1, False

    def state_dict(self) -> dict[str, Any]:
        """Return steps, and the buffers that carry noise from step to step, as tensors and plain
        values, which must be saved with the model.

        They are secret, because buffers hold noise.
        """
        import torch

        state = self._noise.state_dict()
        entries = [
            entry | {"buffers": torch.from_numpy(entry["buffers"])} for entry in state["parameters"]
        ]
        return {"step": self.step, "noise": state | {"parameters": entries}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the steps and the buffers (which carry noise from step to step) that `state_dict`
        returned, so that the run continues.

        Raises:
            StateError: the state belongs to another run, or is incomplete.
        """
        try:
            inner = dict(state["noise"])
            inner["parameters"] = [
                entry | {"buffers": np.asarray(entry["buffers"])} for entry in inner["parameters"]
            ]
            step = check_integer("step", state["step"], 0)
        except (KeyError, TypeError) as error:
            raise StateError(
                f"the state of private steps cannot be read ({type(error).__name__}): load an "
                f"earlier checkpoint, or use resume(step, run)"
            ) from error
        if step != inner.get("step", step):
            raise StateError(
                f"the state is at step {step}, but its noise at step {inner['step']}: load an "
                "earlier checkpoint"
            )
        self._noise.load_state_dict(inner)
        self._sums, self._rows = {}, 0
        self.step, self._joined = step, False

    # ---------------------------------------------------------------------------------- each step

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        given = (*args, *kwargs.values())  # the optimizer itself is the first
        if any(argument is not None and argument is not optimizer for argument in given):
            raise InvalidInput(
                "the optimizer was given a closure, which would compute gradients after their "
                "noise was added: call step() without it"
            )
        import torch

        with torch.no_grad():
            if not self._clipped:
                self._take_in()
                # Refuse more gradients than the sampler's batch can have, and discard their sums.
                if self._noise.sampler is not None:
                    try:
                        self._noise.check_count(self.step + 1, _total(self._rows))
                    except InvalidInput:
                        self._sums, self._rows = {}, 0
                        raise
            # Give all processes the run of the first one, so that they add the same noise.
            if not self._joined:
                self._noise.join(_from_first(self._noise.run))
                self._joined = True
            self._add_noise(self.step + 1)
        self.step, self._rows = self.step + 1, 0

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Clear the gradients after the optimiser's step, so that none counts in the next batch."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def _take_in(self) -> None:
        """Add each gradient, clipped by its 2-norm over all parameters; 0 if not finite."""
        import torch

        held = {
            name: found
            for name, parameter in self._parameters.items()
            if (found := getattr(parameter, "grad_sample", None)) is not None
        }
        if not held:
            found = [parameter.grad for parameter in self._parameters.values()]
            if any(grad is not None and bool(grad.any()) for grad in found) and not self._sums:
                raise InvalidInput(
                    "parameters have no grad_sample, the gradients of single examples: wrap the "
                    "model in opacus.GradSampleModule, or clip gradients yourself and give "
                    "clipped=True"
                )
            return  # an empty batch
        passes = {
            name: found if isinstance(found, list) else [found] for name, found in held.items()
        }
        for number in range(max(map(len, passes.values()))):
            part = {name: each[number] for name, each in passes.items() if number < len(each)}
            squares = [each.float().flatten(1).square().sum(1) for each in part.values()]
            norms = torch.stack(squares).sum(0).sqrt()
            self._rows += len(norms)
            # an example whose gradient is not finite counts for nothing
            factors = (self._noise.clip / norms.clamp_min(self._noise.clip)).where(
                norms.isfinite(), torch.zeros_like(norms)
            )
            for name, each in part.items():
                finite = each.float().nan_to_num(0.0, 0.0, 0.0)
                total = torch.tensordot(factors, finite, dims=1)
                known = self._sums.get(name)
                self._sums[name] = total if known is None else known + total
        for parameter in self._parameters.values():
            parameter.grad_sample = None

    def _add_noise(self, step: int) -> None:
        import torch

        sums, shards = {}, {}
        for name, parameter in self._parameters.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            total = parameter.grad if self._clipped else self._sums.pop(name, None)
            if total is None:  # no example reached this parameter
                total = torch.zeros_like(parameter, dtype=torch.float32)
            local, place = local_part(total)
            if place is None and not self._clipped and _several():
                import torch.distributed as distributed

                distributed.all_reduce(local)  # each process has its part of the batch
            if place is not None:
                shards[name] = place
            sums[name] = local.float()
        noisy = self._noise.add(step, sums, shards)
        for name, parameter in self._parameters.items():
            found = (noisy[name] / self._batch_size).to(parameter.dtype)
            if name in shards:
                local, _ = local_part(parameter.grad)
                local.copy_(found)
            else:
                parameter.grad = found


def plain_name(name: str) -> str:
    """Return a parameter's name without the prefixes that wrappers of a model add.

    >>> plain_name("_module.module.layer.weight")
    'layer.weight'
    """
    while True:
        for wrapper in _WRAPPERS:
            if name.startswith(wrapper):
                name = name[len(wrapper) :]
                break
        else:
            return name


def local_part(tensor: Any) -> tuple[Any, tuple[int, int] | None]:
    """Return this process's part of a tensor, and its position in the whole tensor.

    The position is the number of the first coordinate and the size of the whole tensor; None if the
    tensor is not sharded.

    Raises:
        InvalidInput: the tensor is sharded along another axis than its rows.
    """
    if not hasattr(tensor, "placements"):
        return tensor, None
    placements = tensor.placements
    local = tensor.to_local()
    if all(placement.is_replicate() for placement in placements):
        return local, None
    if len(placements) != 1 or not placements[0].is_shard(0):
        raise InvalidInput(
            f"a gradient is sharded as {placements}; it must be sharded by rows over one dimension "
            "of processes, as fully_shard does"
        )
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, placements)
    width = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
    return local, (min(offset[0] * width, tensor.numel()), tensor.numel())


def _several() -> bool:
    """Return True if several processes of ``torch.distributed`` train together."""
    import torch.distributed as distributed

    return bool(
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _from_first(value: Any) -> Any:
    """Return the value that the first process of ``torch.distributed`` has, in all processes."""
    if not _several():
        return value
    import torch.distributed as distributed

    held = [value]
    distributed.broadcast_object_list(held, src=0)
    return held[0]


def _total(count: int) -> int:
    """Return the sum of ``count`` over all processes of ``torch.distributed``."""
    if not _several():
        return count
    import torch.distributed as distributed

    held: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(held, count)
    return sum(held)

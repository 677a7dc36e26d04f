"""Training with PyTorch: noise for any optimiser, in the conventions of Opacus.

Opacus's ``GradSampleModule`` stores the gradient of every example in ``parameter.grad_sample``.
`make_private` adds a hook to an optimiser, which clips and sums these gradients and adds the noise
before each step. The optimiser itself is unchanged, so schedulers and checkpoints work as usual.

The bound of one example's contribution holds for the parameters that the optimiser and the model
had when `make_private` was called, and for gradients of single examples whose rows belong to the
same examples in every parameter. Each step checks both, and refuses anything else.

PyTorch is imported when `make_private` is called; in a checkout: ``pip install '.[torch]'``.
"""

from __future__ import annotations

import hashlib
import sys
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.base.errors import InvalidInputError, StateError
from counton.base.exact import Number, check_integer, check_positive
from counton.base.lazy import require
from counton.training.device import generator_of
from counton.training.torch_loader import StepLoader
from counton.training.torch_modules import check_modules, check_with_opacus, watch_modes

if TYPE_CHECKING:
    from counton.training import TrainingNoise

__all__ = ["PrivateSteps", "StepLoader", "check_modules", "make_private"]

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
        model: a ``GradSampleModule``, or any module if gradients are ``clipped``. Row i of every
            forward pass of a step must be the same example.
        batch_size: the number by which sums are divided, such as the expected batch size. It must
            not depend on the data.
        clipped: True if ``parameter.grad`` is a sum of gradients that are already clipped to
            ``clip`` for each example, over all backward passes of a step, as by Opacus's ghost
            clipping. FSDP averages over processes, so multiply losses by the number of processes.

    Returns:
        An object that counts the steps; put its `PrivateSteps.state_dict` into every checkpoint.

    Raises:
        MissingDependencyError: PyTorch is not installed.
        InvalidInputError: the model does not have a parameter of the optimiser, a module of the
            model mixes examples (as batch normalisation does), two parameters have one name without
            the prefixes of wrappers, parameters are sharded but gradients are not ``clipped``, the
            optimiser has private steps already, or the noise is bound to another optimiser.

    A step of the optimiser raises `InvalidInputError`, applies nothing and discards all gradients,
    if

    - the optimiser has other parameters than before, or one was frozen, unfrozen, or is no longer
      in the model;
    - a module of the model mixes examples;
    - a parameter has a gradient, but no gradients of single examples;
    - gradients are those of several backward passes without `PrivateSteps.accumulate`;
    - parameters have gradients of different numbers of examples, or gradients that Opacus wrote
      outside of ``backward()``.

    Example (``pip install opacus``)::

        >>> from counton.training.torch import make_private           # doctest: +SKIP
        >>> model = GradSampleModule(model)                  # doctest: +SKIP
        >>> make_private(optimizer, noise, model, batch_size=64)  # doctest: +SKIP
    """
    require("torch")
    return PrivateSteps(optimizer, noise, model, batch_size, clipped)


class _Listed(NamedTuple):
    """A parameter that the optimiser had when its steps became private."""

    name: str
    parameter: Any
    is_trained: bool


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
        model: Any,
        batch_size: float,
        clipped: bool,
    ) -> None:
        check_positive("batch_size", batch_size, "the expected examples of a step")
        _check_optimizer(optimizer)
        if getattr(optimizer, "__getstate__", None) is _refuse_copy:
            raise InvalidInputError(
                "the optimizer has private steps already, and would add noise twice. Make another "
                "optimizer."
            )
        check_modules(model)
        check_with_opacus(model)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._listed = {
            id(parameter): _Listed(
                names.get(id(parameter), "without a name"), parameter, parameter.requires_grad
            )
            for parameter in _parameters_of(optimizer)
        }
        trained = [listed.parameter for listed in self._listed.values() if listed.is_trained]
        _check_trained(trained, names, clipped=clipped)
        self._parameters = _by_plain_name(trained, names)
        if noise.on_device:
            noise.bind(*map(generator_of, trained))
        noise.take()
        self._noise = noise
        self._model = model
        self._batch_size = float(batch_size)
        self._clipped = clipped
        self._sums: dict[str, Any] = {}
        self._rows = 0
        #: By parameter: the backward passes that reached it since its gradients were last cleared.
        self._passes: dict[str, list[int]] = {}
        self._joined = False
        #: True from the noise of a step to the end of the optimiser's own step.
        self._is_applied = False
        self.step = 0
        # Let all processes draw the same batches, where they are drawn by chance.
        if noise.sampler is not None and noise.sampler.identity is not None:
            noise.sampler.join(_from_first(noise.sampler.identity))
        self._add_hooks(optimizer)

    def _add_hooks(self, optimizer: Any) -> None:
        """Let the model's modules and parameters, and the optimiser, call this object."""
        import torch

        handles = watch_modes(self._model)
        if not self._clipped:
            # A hook that kept this object alive would keep the buffers of the noise.
            steps = weakref.ref(self)
            for name, parameter in self._parameters.items():
                handles.append(parameter.register_hook(partial(_note_pass, steps, name)))
        for handle in handles:
            weakref.finalize(self, handle.remove).atexit = False
        # Otherwise ``torch.compile`` of a step would trace the draws of noise, and may write their
        # secret key into a message.
        optimizer.register_step_pre_hook(torch.compiler.disable(self._before_step))
        optimizer.register_step_post_hook(torch.compiler.disable(self._after_step))
        optimizer.__getstate__ = _refuse_copy

    def batches(self) -> Iterator[Any]:
        """Yield the sampler's batches from the next step on, one for each step.

        After a checkpoint is loaded, the batches continue from its step.

        Raises:
            InvalidInputError: the noise has no sampler, or the optimiser did not take exactly one
                step for a batch.
        """
        sampler = self._noise.sampler
        if sampler is None:
            raise InvalidInputError("batches() needs a sampler: give noise(sampler=...)")
        while self.step < sampler.steps:
            step = self.step
            yield sampler.batch(step + 1)
            self.check_taken(step)

    def loader(
        self, dataset: Any, *, num_workers: int = 0, collate_fn: Any = None, **options: Any
    ) -> StepLoader:
        """Return a loader with the sampler's batches from the next step on, one for each step.

        If several processes of ``torch.distributed`` train together, each gets its part of every
        batch. A batch that is drawn by chance may be empty; its tensors then have no rows. After a
        checkpoint is loaded, the batches continue from its step.

        Args:
            dataset: a dataset with ``__len__`` and ``__getitem__``. Its examples have the
                positions that the sampler gives.
            num_workers: number of processes that load examples; 0: this process.
            collate_fn: makes a batch from a list of examples; by default PyTorch's.
            options: other options of ``torch.utils.data.DataLoader``, such as ``pin_memory``.

        Raises:
            InvalidInputError: the noise has no sampler; the dataset has another number of examples
                than the sampler, or no access by position; or an option would choose other batches.

        Example::

            >>> for inputs, labels in private.loader(dataset):    # doctest: +SKIP
            ...     loss(model(inputs), labels).backward()
            ...     optimizer.step()
        """
        sampler = self._noise.sampler
        if sampler is None:
            raise InvalidInputError("loader() needs a sampler: give noise(sampler=...)")
        options = {**options, "num_workers": num_workers, "collate_fn": collate_fn}
        return StepLoader(self, sampler, dataset, _part_of_process(), options)

    def check_taken(self, step: int) -> None:
        """Raise an error unless the optimiser took exactly one step after ``step``.

        Args:
            step: number of steps that were taken before the batch.

        Raises:
            InvalidInputError: the optimiser took another number of steps.
        """
        if self.step != step + 1:
            raise InvalidInputError(
                f"after the batch of step {step + 1} the optimizer took {self.step - step} "
                "steps; take exactly one step for each batch"
            )

    def epsilon(self, delta: Number, at_end: bool = False) -> float:
        """Return the epsilon with which the steps so far keep (epsilon, delta).

        It is an upper bound, and includes amplification by the sampler.

        Args:
            delta: delta, above 0 and below 1.
            at_end: True for all steps of the run, those to come included.

        Raises:
            InvalidInputError: delta is out of range.

        Example::

            >>> private.epsilon(1e-5), private.epsilon(1e-5, at_end=True)  # doctest: +SKIP
            (0.31, 1.0)
        """
        return self._noise.epsilon(delta, None if at_end else self.step)

    def accumulate(self) -> None:
        """Add the gradients of one part of a batch that is too large for a single backward pass.

        Call it after each backward pass except the last; the optimiser's next step sums all parts.
        Each example must be in one part only, because each part is clipped by itself. Add up
        several losses of the same examples, and call ``backward()`` once.

        Raises:
            InvalidInputError: gradients are clipped already, or are refused as in a step.
        """
        if self._clipped:
            raise InvalidInputError(
                "gradients are clipped already and add up in parameter.grad by themselves: leave "
                "the call of accumulate() out"
            )
        try:
            check_modules(self._model)
            self._take_in()
        except BaseException:
            self._discard()
            raise

    def resume(self, step: int, run: Mapping[str, Any] | None = None) -> None:
        """Continue at a step in a new process, without a checkpoint of the noise.

        Args:
            step: the next step.
            run: the value of ``noise.run`` in the earlier process.

        Raises:
            InvalidInputError, StateError: see `counton.training.TrainingNoise.resume`.
        """
        self._noise.resume(step, run)
        self._discard()
        self.step = step - 1
        self._joined = False

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
        self._discard()
        self.step = step
        self._joined = False

    # ---------------------------------------------------------------------------------- each step

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        values = (*args, *kwargs.values())  # the optimizer itself is the first
        if any(argument is not None and argument is not optimizer for argument in values):
            raise InvalidInputError(
                "the optimizer was given a closure, which would compute gradients after their "
                "noise was added: call step() without it"
            )
        import torch

        try:
            self._check_begins()
            self._check_parameters(optimizer)
            check_modules(self._model)
            with torch.no_grad():
                self._take_gradients()
                self._join_first_process()
                self._add_noise(self.step + 1)
        except BaseException:
            # No later step may apply gradients that were refused, or count them once more.
            self._discard()
            raise
        self.step += 1
        self._rows = 0
        self._is_applied = True

    def _take_gradients(self) -> None:
        """Sum the gradients of a step; refuse more of them than the sampler's batch can have."""
        if self._clipped:
            self._check_clipped()
            return
        self._take_in()
        if self._noise.sampler is not None:
            self._noise.check_count(self.step + 1, _total(self._rows))

    def _join_first_process(self) -> None:
        """Give all processes the run of the first one, so that they add the same noise."""
        if not self._joined:
            self._noise.join(_from_first(self._noise.run))
            self._joined = True

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Clear the gradients after the optimiser's step, so that none counts in the next batch."""
        self._is_applied = False
        self._clear_gradients()

    def _discard(self) -> None:
        """Forget all gradients that no step has applied."""
        self._sums = {}
        self._rows = 0
        self._clear_gradients()

    def _clear_gradients(self) -> None:
        """Clear all gradients, sums and of single examples, and norms that Opacus keeps."""
        for parameter in self._parameters.values():
            parameter.grad = None
            if hasattr(parameter, "grad_sample"):
                parameter.grad_sample = None
        self._passes = {}
        for parameter in self._model.parameters():
            # Ghost clipping would clip later examples by the norms of these examples, in a
            # parameter that the later backward pass does not reach.
            if hasattr(parameter, "_norm_sample"):
                del parameter._norm_sample

    def _check_begins(self) -> None:
        """Raise an error if this is no new step, so that one noise serves one step.

        Raises:
            InvalidInputError: the last step has not ended, or the step is recorded to be replayed.
        """
        import torch

        if self._is_applied:
            self._is_applied = False
            raise InvalidInputError(
                "a step of the optimizer began before the last one had ended. Either it was "
                "interrupted: take this batch again. Or the optimizer's step() calls step() of its "
                "base class, which adds noise twice: use the base class."
            )
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise InvalidInputError(
                "the step is recorded in a CUDA graph, and every replay would add the same noise. "
                "Call step() outside of the graph."
            )

    def _check_parameters(self, optimizer: Any) -> None:
        """Raise an error unless the optimiser applies gradients to the same parameters as before.

        Only these parameters are clipped and get noise.

        Raises:
            InvalidInputError: a parameter is new, missing, frozen or unfrozen, has a gradient
                although it is frozen, or is no longer in the model.
        """
        present = {id(parameter): parameter for parameter in _parameters_of(optimizer)}
        in_model = {id(parameter): name for name, parameter in self._model.named_parameters()}
        for key, parameter in present.items():
            if key not in self._listed:
                name = in_model.get(key, f"of shape {tuple(parameter.shape)}")
                raise _changed(f"parameter {name!r} was added to the optimizer")
        for key, listed in self._listed.items():
            if key not in present:
                raise _changed(f"parameter {listed.name!r} was removed from the optimizer")
            if listed.parameter.requires_grad and not listed.is_trained:
                raise _changed(f"parameter {listed.name!r} was frozen, and was unfrozen")
            if listed.is_trained and not listed.parameter.requires_grad:
                raise _changed(f"parameter {listed.name!r} was trained, and was frozen")
            if listed.is_trained and key not in in_model:
                raise _changed(f"parameter {listed.name!r} was removed from the model")
            if not listed.is_trained and not _is_zero(listed.parameter.grad):
                raise InvalidInputError(
                    f"parameter {listed.name!r} is frozen, but has a gradient, which the step "
                    "would apply without clipping and noise. Set its grad to None."
                )

    def _check_clipped(self) -> None:
        """Raise an error if gradients of single examples are there, which nobody has clipped."""
        for name, parameter in self._parameters.items():
            if getattr(parameter, "grad_sample", None) is not None:
                raise InvalidInputError(
                    f"parameter {name!r} has grad_sample, gradients of single examples, but "
                    "clipped=True says that parameter.grad is a sum of clipped gradients. Leave "
                    "clipped=True out, or clip the gradients and set grad_sample to None."
                )

    def _take_in(self) -> None:
        """Add each gradient, clipped by its 2-norm over all parameters; 0 if not finite."""
        import torch

        held = self._gradients_of_examples()
        if not held:
            return  # an empty batch
        squares = [gradient.float().flatten(1).square().sum(1) for gradient in held.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        self._rows += len(norms)
        # an example whose gradient is not finite counts for nothing
        factors = (self._noise.clip / norms.clamp_min(self._noise.clip)).where(
            norms.isfinite(), torch.zeros_like(norms)
        )
        for name, gradient in held.items():
            finite = gradient.float().nan_to_num(0.0, 0.0, 0.0)
            total = torch.tensordot(factors, finite, dims=1)
            total_before = self._sums.get(name)
            self._sums[name] = total if total_before is None else total_before + total
        self._clear_gradients()

    def _gradients_of_examples(self) -> dict[str, Any]:
        """Return the gradients of single examples by parameter, shape (examples, *parameter).

        Row i is the gradient of the same example in every parameter, so that clipping bounds it
        over all parameters together.

        Raises:
            InvalidInputError: rows may belong to different examples, or gradients have other
                shapes.
        """
        held: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            gradients = getattr(parameter, "grad_sample", None)
            if isinstance(gradients, list):
                if len(gradients) > 1:
                    raise _several_passes(name)
                gradients = gradients[0] if gradients else None
            if gradients is not None:
                held[name] = gradients
        self._check_reached(held)
        for name in held:
            parameter = self._parameters[name]
            # Opacus counts the uses of a parameter, and its hooks wrote the gradients.
            if hasattr(parameter, "_forward_counter") and not self._passes.get(name):
                raise InvalidInputError(
                    f"parameter {name!r} has grad_sample, but backward() did not reach it after "
                    "make_private: torch.autograd.grad of a loss also writes grad_sample. Call "
                    "model.disable_hooks() before such a gradient, and backward() once for a step."
                )
        passes = {layer_pass for name in held for layer_pass in self._passes.get(name, ())}
        if len(passes) > 1:
            raise _several_passes(next(iter(held)))
        first = next(iter(held), "")
        for name, gradients in held.items():
            shape = tuple(self._parameters[name].shape)
            if tuple(gradients.shape[1:]) != shape:
                raise InvalidInputError(
                    f"the grad_sample of parameter {name!r} has shape {tuple(gradients.shape)}. It "
                    f"must be one gradient of shape {shape} for each example."
                )
            if len(gradients) != len(held[first]):
                raise InvalidInputError(
                    f"parameter {first!r} has gradients of {len(held[first])} examples, but "
                    f"{name!r} of {len(gradients)}. Clipping bounds an example only if all "
                    "parameters have a gradient for it. Give every module the same batch."
                )
        return held

    def _check_reached(self, held: Mapping[str, Any]) -> None:
        """Raise an error if a parameter has a gradient that is not that of single examples.

        Args:
            held: the gradients of single examples, by parameter.

        Raises:
            InvalidInputError: A parameter has a sum of gradients, but no gradients of single
                examples.
        """
        if held and _several():
            # DistributedDataParallel gives each process the mean of all processes' gradients.
            return
        for name, parameter in self._parameters.items():
            if name in held or _is_zero(parameter.grad):
                continue
            if held:
                raise InvalidInputError(
                    f"parameter {name!r} has a gradient, but no grad_sample, the gradients of "
                    "single examples. Its module is in evaluation mode, or was frozen when the "
                    "model was wrapped. Wrap the model again, and keep it in training mode."
                )
            raise InvalidInputError(
                "parameters have no grad_sample, the gradients of single examples: wrap the "
                "model in opacus.GradSampleModule, or clip gradients yourself and give "
                "clipped=True"
            )

    def _add_noise(self, step: int) -> None:
        import torch

        sums = {}
        shards = {}
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
        if self._clipped:
            _check_equal([total for name, total in sums.items() if name not in shards])
        noisy = self._noise.add(step, sums, shards)
        for name, parameter in self._parameters.items():
            gradient = (noisy[name] / self._batch_size).to(parameter.dtype)
            if name in shards:
                local, _ = local_part(parameter.grad)
                local.copy_(gradient)
            else:
                parameter.grad = gradient


def _check_optimizer(optimizer: Any) -> None:
    """Raise an error if an optimiser is one of Opacus's, which clips and adds noise as well.

    Raises:
        InvalidInputError: it is an Opacus optimiser, such as ``DPOptimizer``.
    """
    opacus = sys.modules.get("opacus.optimizers")
    if opacus is not None and isinstance(optimizer, opacus.DPOptimizer):
        raise InvalidInputError(
            f"the optimizer is Opacus's {type(optimizer).__name__}, which clips and adds noise, "
            "too. Give make_private the optimizer that it wraps, optimizer.original_optimizer, "
            "and leave PrivacyEngine out."
        )


def _parameters_of(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check_trained(trained: list[Any], names: Mapping[int, str], *, clipped: bool) -> None:
    """Refuse parameters whose gradients of single examples would not be known.

    Args:
        trained: the parameters that the optimiser trains.
        names: names of the model's parameters, by the identity of the object.
        clipped: whether gradients are sums that are already clipped.
    """
    if not all(id(parameter) in names for parameter in trained):
        raise InvalidInputError(
            "the optimizer has a parameter that the model does not have: make it from "
            "model.parameters()"
        )
    if not clipped and any(hasattr(parameter, "placements") for parameter in trained):
        raise InvalidInputError(
            "parameters are sharded over processes, where the gradients of single examples are "
            "not known: clip them yourself and give clipped=True, or use "
            "DistributedDataParallel"
        )


def _by_plain_name(trained: list[Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return parameters by their names without the prefixes of wrappers; refuse equal names."""
    parameters: dict[str, Any] = {}
    for parameter in trained:
        name = names[id(parameter)]
        other = parameters.setdefault(plain_name(name), parameter)
        if other is not parameter:
            raise InvalidInputError(
                f"parameters {names[id(other)]!r} and {name!r} are both called "
                f"{plain_name(name)!r} without the prefixes of wrappers, and would have equal "
                "noise: rename one"
            )
    return parameters


def _refuse_copy() -> Any:
    """Refuse to copy or pickle an optimiser: a copy would have its parameters, but not the hooks.

    Raises:
        StateError: always.
    """
    raise StateError(
        "an optimizer with private steps cannot be copied or pickled, because the copy would take "
        "steps without noise. Save its state_dict() and that of the private steps."
    )


def _note_pass(steps: weakref.ref[PrivateSteps], name: str, gradient: Any) -> None:
    """Remember which backward pass reached a parameter: a hook of the parameter's gradient."""
    import torch

    private = steps()
    if private is None:
        return
    task = torch._C._current_graph_task_id()
    passes = private._passes.setdefault(name, [])
    if task in passes:
        return
    if passes and _is_cleared(private._parameters[name]):
        passes.clear()
    passes.append(task)


def _is_cleared(parameter: Any) -> bool:
    """Return True if a parameter's gradients of earlier backward passes were cleared."""
    if hasattr(parameter, "_current_grad_sample"):
        return False  # Opacus adds the gradients of the next pass to these, row by row
    return _is_zero(parameter.grad)


def _is_zero(gradient: Any) -> bool:
    """Return True if there is no gradient, or only zeros."""
    if gradient is None:
        return True
    numbers = gradient.coalesce().values() if gradient.is_sparse else gradient
    return not bool(numbers.any())


def _changed(change: str) -> InvalidInputError:
    return InvalidInputError(
        f"{change} after make_private. Only the parameters of then are clipped and get noise. Make "
        "an optimizer with all parameters that this run trains. Then call make_private with new "
        "noise under another name."
    )


def _several_passes(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"parameter {name!r} has gradients of several backward passes, and an example could count "
        "once in each. Add up all losses of an example and call backward() once. For parts of a "
        "batch call accumulate() in between. Checkpointing needs use_reentrant=False."
    )


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
        InvalidInputError: the tensor is sharded along another axis than its rows.
    """
    if not hasattr(tensor, "placements"):
        return tensor, None
    placements = tensor.placements
    local = tensor.to_local()
    if all(placement.is_replicate() for placement in placements):
        return local, None
    if len(placements) != 1 or not placements[0].is_shard(0):
        raise InvalidInputError(
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


def _part_of_process() -> tuple[int, int]:
    """Return the number of this process, and how many processes train together."""
    if not _several():
        return 0, 1
    import torch.distributed as distributed

    return distributed.get_rank(), distributed.get_world_size()


def _from_first(value: Any) -> Any:
    """Return the value that the first process of ``torch.distributed`` has, in all processes."""
    if not _several():
        return value
    import torch.distributed as distributed

    held = [value]
    distributed.broadcast_object_list(held, src=0)
    return held[0]


def _check_equal(sums: list[Any]) -> None:
    """Raise an error unless all processes have the same sums of gradients.

    They add the same noise. With other sums, the difference of two processes' models would have no
    noise.

    Raises:
        InvalidInputError: a process has other sums.
    """
    if not sums or not _several():
        return
    import torch.distributed as distributed

    digest = hashlib.sha256()
    for total in sums:
        digest.update(total.detach().cpu().numpy().tobytes())
    held: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(held, digest.digest())
    if len(set(held)) > 1:
        raise InvalidInputError(
            "processes have different sums of gradients, but add the same noise, so the difference "
            "of their models would have none. Wrap the model in DistributedDataParallel, or add up "
            "parameter.grad over processes before the step."
        )


def _total(count: int) -> int:
    """Return the sum of ``count`` over all processes of ``torch.distributed``."""
    if not _several():
        return count
    import torch.distributed as distributed

    held: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(held, count)
    return sum(held)

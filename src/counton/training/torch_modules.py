"""Modules of PyTorch whose output for one example depends on other examples, or that keep
statistics of examples.

Clipping bounds what one example adds to the sum of gradients. It does not bound what the example
changes in the gradients of other examples. Numbers that a module stores during its forward pass,
such as running means, get no noise at all. So `check_modules` refuses such modules.

What no module shows is not found: a batch statistic that a forward method computes itself, or a
loss that mixes examples.
"""

from __future__ import annotations

import sys
from typing import Any

from counton.base.errors import InvalidInputError

#: Names of PyTorch's batch normalisations, by which they are known in a scripted model.
_BATCH_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
#: The same for instance normalisations.
_INSTANCE_NORMS = ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
#: Largest number of characters of an Opacus message that an error repeats.
_LONGEST = 120


def describe_mixing(module: Any) -> str | None:
    """Return how a module mixes examples or stores statistics of them, in its present mode.

    Submodules are not looked at.

    Args:
        module: a ``torch.nn.Module``.

    Returns:
        A clause whose subject is the module; None if the module treats each example alone.
    """
    from torch import nn

    if is_batch_norm(module):
        if module.training or (module.running_mean is None and module.running_var is None):
            return "normalises each example by statistics of the whole batch"
        return None
    if is_instance_norm(module):
        if module.running_mean is None:
            return None
        if module.training or not module.track_running_stats:
            return "stores running statistics of the examples, without noise"
        return None
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.max_norm is not None:
            return "shortens (max_norm) the vectors that a batch uses, without noise"
        if module.scale_grad_by_freq:
            return "scales gradients (scale_grad_by_freq) by how often a batch uses a vector"
    return None


def is_batch_norm(module: object) -> bool:
    """Return True if a module is a batch normalisation of PyTorch, or derives from one.

    Args:
        module: a ``torch.nn.Module``.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    return isinstance(module, _BatchNorm) or getattr(module, "original_name", "") in _BATCH_NORMS


def is_instance_norm(module: object) -> bool:
    """Return True if a module is an instance normalisation of PyTorch, or derives from one.

    Args:
        module: a ``torch.nn.Module``.
    """
    from torch.nn.modules.instancenorm import _InstanceNorm

    scripted = getattr(module, "original_name", "")
    return isinstance(module, _InstanceNorm) or scripted in _INSTANCE_NORMS


def check_modules(model: Any) -> None:
    """Raise an error if a module of a model mixes examples or stores statistics of them.

    Args:
        model: a ``torch.nn.Module``; its submodules are checked too.

    Raises:
        InvalidInputError: A module mixes examples.
    """
    for name, module in model.named_modules():
        mixing = describe_mixing(module)
        if mixing is not None:
            raise InvalidInputError(
                _refusal(f"module {name!r}" if name else "the model", module, mixing)
            )


def watch_modes(model: Any) -> list[Any]:
    """Let a model refuse a forward pass that would mix examples.

    Between two steps a normalisation with stored statistics may change its mode, and a module may
    be replaced by another one. The model checks its modules at each forward pass. A normalisation
    checks itself, too, because a program may call a part of the model.

    Args:
        model: a ``torch.nn.Module``, which `check_modules` accepts.

    Returns:
        The handles of the hooks, to remove them.
    """
    handles = [
        module.register_forward_pre_hook(refuse_mixing)
        for module in model.modules()
        if is_batch_norm(module) or is_instance_norm(module)
        if module.running_mean is not None and not _is_scripted(module)
    ]
    if not _is_scripted(model):
        handles.append(model.register_forward_pre_hook(refuse_mixing_inside))
    return handles


def refuse_mixing(module: object, _: object) -> None:
    """Raise an error if a module is about to mix examples: a forward hook of `watch_modes`.

    Args:
        module: the module.
        _: its inputs.

    Raises:
        InvalidInputError: The module mixes examples in its present mode.
    """
    mixing = describe_mixing(module)
    if mixing is not None:
        raise InvalidInputError(_refusal("a module of the private model", module, mixing))


def refuse_mixing_inside(model: object, _: object) -> None:
    """Raise an error if a module of a model is about to mix examples: a hook of `watch_modes`.

    While ``torch.compile`` traces the model, nothing is checked: it would trace this check, too.

    Args:
        model: the model.
        _: its inputs.

    Raises:
        InvalidInputError: A module mixes examples in its present mode.
    """
    import torch

    if not torch.compiler.is_compiling():
        check_modules(model)


def check_with_opacus(model: Any) -> None:
    """Raise an error if the model is one of Opacus's and Opacus's ``ModuleValidator`` refuses it.

    A model without Opacus's hooks is not checked: the validator refuses layers, such as LSTM, for
    which only these hooks are missing.

    Args:
        model: a ``torch.nn.Module``.

    Raises:
        InvalidInputError: Opacus refuses the model.
    """
    for module in model.modules():
        if not _has_opacus_hooks(module):
            continue
        from opacus.validators import ModuleValidator

        errors = ModuleValidator.validate(module)
        if not module.training:
            # The first error says only that the model is not in training mode yet.
            errors = errors[1:]
        if errors:
            raise InvalidInputError(
                f"Opacus refuses the model: {str(errors[0])[:_LONGEST]}... Replace this layer, or "
                "repair the model with opacus.validators.ModuleValidator.fix before you wrap it."
            )
        return


def _has_opacus_hooks(module: object) -> bool:
    opacus = sys.modules.get("opacus.grad_sample")
    wrapped = opacus is not None and isinstance(module, opacus.AbstractGradSampleModule)
    return wrapped or hasattr(module, "autograd_grad_sample_hooks")


def _is_scripted(module: object) -> bool:
    return hasattr(module, "original_name")


def _refusal(subject: str, module: object, mixing: str) -> str:
    kind = getattr(module, "original_name", type(module).__name__)
    if is_batch_norm(module):
        remedy = "use GroupNorm or LayerNorm, or keep a trained BatchNorm in evaluation mode"
    elif is_instance_norm(module):
        remedy = "make it with track_running_stats=False"
    else:
        remedy = "leave this option out"
    return (
        f"{subject} ({kind}) {mixing}. Clipping does not bound what one example changes there. "
        f"Before make_private, {remedy}."
    )

"""Trees of gradients: arrays of numpy, PyTorch or JAX, in dicts, lists and other containers.

Neither PyTorch nor JAX is imported here, because a caller who passes their arrays has imported
them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from counton.base.errors import InvalidInputError

#: Separator between the parts of a parameter's name.
SEPARATOR = "/"


def leaves(tree: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the array of each leaf of a tree of gradients; None is left out.

    Leaves come in the same order as in `rebuilt`.

    >>> [name for name, _ in leaves({"b": [np.ones(1), None], "a": {"x": np.ones(2)}})]
    ['b/0', 'a/x']
    """
    if tree is None:
        return
    if is_array(tree):
        yield prefix, tree
        return
    children, _ = _parts(tree, prefix)
    for name, child in children:
        yield from leaves(child, _below(prefix, name))


def distinct_leaves(tree: object) -> list[tuple[str, Any]]:
    """Return the name and the array of each leaf; two names must differ."""
    named_leaves = list(leaves(tree))
    seen = set[str]()
    for name, _ in named_leaves:
        if name in seen:
            raise InvalidInputError(
                f"two gradients are both called {name!r}, and would have equal noise: rename one"
            )
        seen.add(name)
    return named_leaves


def rebuilt(tree: object, change: Callable[[str, Any], Any], prefix: str = "") -> Any:
    """Return a copy of a tree of gradients in which each array is replaced by ``change(name,
    array)``.

    >>> rebuilt({"a": (np.ones(1), None)}, lambda name, array: name)
    {'a': ('a/0', None)}
    """
    if tree is None:
        return None
    if is_array(tree):
        return change(prefix, tree)

    children, rebuild = _parts(tree, prefix)
    return rebuild([rebuilt(child, change, _below(prefix, name)) for name, child in children])


def _below(prefix: str, name: object) -> str:
    return f"{prefix}{SEPARATOR}{name}" if prefix else str(name)


def _parts(
    tree: object, prefix: str
) -> tuple[list[tuple[object, object]], Callable[[list[Any]], Any]]:
    """Return a container's named children, and a function that rebuilds it from new ones."""
    kind = type(tree)
    if isinstance(tree, Mapping):
        make: Callable[[Any], Any] = kind
        return [*tree.items()], lambda others: make(dict(zip(tree, others, strict=True)))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [*zip(tree._fields, tree, strict=True)], lambda others: kind(*others)
    if isinstance(tree, list | tuple):
        return [*enumerate(tree)], kind
    if (jax := sys.modules.get("jax")) is not None:
        flat, whole = jax.tree_util.tree_flatten_with_path(
            tree, is_leaf=lambda node: node is not tree
        )
        is_registered = len(flat) != 1 or flat[0][1] is not tree
        if is_registered:
            children = []
            for path, child in flat:
                entry = path[-1]  # an entry of a path: a key, an index or an attribute
                names = [
                    getattr(entry, attribute)
                    for attribute in ("key", "idx", "name")
                    if hasattr(entry, attribute)
                ]
                children.append((names[0] if names else entry, child))
            return children, whole.unflatten
    raise InvalidInputError(
        f"gradients contain {kind.__name__}{f' at {prefix}' if prefix else ''}; they must be "
        "arrays of numpy, PyTorch or JAX in dicts, lists or tuples: pass the arrays of the tree"
    )


def is_array(value: object) -> bool:
    """Return True if a value is an array of numpy, PyTorch or JAX."""
    return isinstance(value, (np.ndarray, np.floating)) or is_torch(value) or is_jax(value)


def is_torch(value: object) -> bool:
    """Return True if a value is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_jax(value: object) -> bool:
    """Return True if a value is an array of JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def check_floats(array: Any, name: str) -> None:
    """Raise `InvalidInputError` for an array that does not hold real floating-point numbers."""
    kind = getattr(array.dtype, "name", str(array.dtype))  # a name is free of the byte order
    if not kind.removeprefix("torch.").startswith(("float", "bfloat")):
        raise InvalidInputError(
            f"gradient {name!r} is of type {array.dtype}; it must be real floating-point numbers: "
            "leave out parameters that are not trained"
        )


def check_finite(array: Any, name: str) -> None:
    """Raise `InvalidInputError` for numbers without a finite sum, as NaN or infinity."""
    with np.errstate(all="ignore"):
        total = float(array.sum())
    if not math.isfinite(total):
        raise InvalidInputError(
            f"gradient {name!r} adds up to {total}, which is not finite: leave out examples whose "
            "gradients are not finite"
        )


def squared_norm(array: Any) -> float:
    """Return the sum of squares of an array's numbers, computed with at least 32 bits.

    >>> squared_norm(np.array([3.0, 4.0], np.float16))
    25.0
    """
    if is_torch(array):
        torch = sys.modules["torch"]
        wide = torch.promote_types(array.dtype, torch.float32)
        return float(torch.linalg.vector_norm(array, dtype=wide)) ** 2
    numpy = sys.modules["jax"].numpy if is_jax(array) else np
    flat = array.reshape(-1).astype(numpy.promote_types(array.dtype, np.float32))
    return float(numpy.dot(flat, flat))


def on_host(array: Any) -> Any:
    """Return a tensor's numbers as an array of numpy; an array of numpy stays."""
    return array.cpu().numpy() if is_torch(array) else array


def with_noise(array: Any, noise: Any) -> Any:
    """Return ``array`` plus ``noise``, as an array of the same library, type and device.

    ``noise``, an array of numpy or a tensor, has the same number of coordinates; it is overwritten.
    """
    if is_torch(array):
        drawn = sys.modules["torch"].as_tensor(noise).reshape(array.shape)
        return drawn.to(device=array.device, dtype=array.dtype).add_(array)
    if is_jax(array):
        shaped = noise.reshape(array.shape).astype(array.dtype)
        return array + sys.modules["jax"].device_put(shaped, array.sharding)
    shaped = noise.reshape(array.shape)
    if array.dtype == shaped.dtype and array.ndim:
        return np.add(array, shaped, out=shaped)
    return array + shaped.astype(array.dtype)

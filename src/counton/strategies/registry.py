"""Strategies by name: written into a state as data, and rebuilt from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar

from counton.errors import InvalidInput
from counton.strategies.base import StreamStrategy

_Base = TypeVar("_Base")


def exported(package: ModuleType, base: type[_Base]) -> tuple[type[_Base], ...]:
    """Classes that a package exports and that derive from ``base``, in order of name.

    >>> import counton.strategies
    >>> [cls.__name__ for cls in exported(counton.strategies, StreamStrategy)][:2]
    ['Binary', 'Expiring']
    """
    members = (getattr(package, name) for name in sorted(package.__all__))
    return tuple(
        member
        for member in members
        if inspect.isclass(member) and issubclass(member, base) and member is not base
    )


def public_strategies() -> tuple[type[StreamStrategy], ...]:
    """Every strategy for streams that ``counton.strategies`` exports, in order of name.

    >>> [cls.__name__ for cls in public_strategies()]
    ['Binary', ...'KAry', ...]
    """
    import counton.strategies as package

    return exported(package, StreamStrategy)  # type: ignore[type-abstract]


def strategy_from_dict(description: Mapping[str, Any]) -> StreamStrategy:
    """The strategy for streams that ``to_dict`` described.

    >>> strategy_from_dict({"strategy": "KAry", "horizon": 1000, "arity": 13, "subtraction": True})
    KAry(horizon=1000, arity=13, subtraction=True)

    Raises:
        InvalidInput: an unknown name, missing or unknown parameters, or parameters out of range.
    """
    parameters = dict(description)
    name = parameters.pop("strategy", None)
    known = {cls.__name__: cls for cls in public_strategies()}
    if name not in known:
        raise InvalidInput(f"strategy is {name!r}; known are {', '.join(known)}")
    try:
        return known[name](**parameters)
    except TypeError as error:
        raise InvalidInput(f"parameters of {name} are {parameters!r}: {error}") from error

"""Signatures that name the keys of a TypedDict, for editors and `help`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Call = TypeVar("_Call", bound=Callable[..., Any])


def with_keywords(keys: type, defaults: Mapping[str, Any]) -> Callable[[_Call], _Call]:
    """Give a function whose last parameter takes the keys of a TypedDict a signature that names
    each key.

    Args:
        keys: the TypedDict.
        defaults: what a key that is left out stands for; a key that is not here: None.

    >>> from typing import TypedDict
    >>> class Look(TypedDict, total=False):
    ...     width: float
    ...     title: str | None
    >>> @with_keywords(Look, {"width": 7.5})
    ... def draw(numbers: list[int], **look: object) -> None: ...
    >>> fields = inspect.signature(draw).parameters
    >>> list(fields), fields["width"].default, str(fields["title"])
    (['numbers', 'width', 'title'], 7.5, "title: 'str | None' = None")
    """

    def name_them(call: _Call) -> _Call:
        given = inspect.signature(call)
        own = [*given.parameters.values()][:-1]
        there = {one.name for one in own}
        fields = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=kind.__forward_arg__,
            )
            for name, kind in keys.__annotations__.items()
            if name not in there
        ]
        # `inspect.signature` reads this attribute first.
        call.__signature__ = given.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
        return call

    return name_them

"""Commands whose options are the fields of a dataclass: each is stated once, with its default."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

_Options = TypeVar("_Options")


def takes(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Make a command of a function of one value: typer sees the value's fields as parameters.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     events: str
    ...     append: bool = False
    >>> @takes(Options)
    ... def command(options: Options) -> None:
    ...     print(options)
    >>> inspect.signature(command)
    <Signature (events: str, append: bool = False) -> None>
    >>> command(events="visits.csv")
    Options(events='visits.csv', append=False)
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)  # type: ignore[arg-type]
    ]

    def made(perform: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            perform(options(**given))

        command.__name__, command.__doc__ = perform.__name__, perform.__doc__
        command.__annotations__ = {field.name: field.annotation for field in parameters}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=None
        )
        return command

    return made

"""Commands whose options are the fields of a dataclass: each is stated once, with its default.

What lies below the command line knows fields, not options; errors that name fields are told here in
the words of the command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

from typer.models import OptionInfo

from counton.cli.exits import explained

_Options = TypeVar("_Options")

#: What is no option of its own: the command, and another command.
_COMMANDS = {
    "what": "counton",
    "plan_expiration": "counton plan --expire 1d:1,365d:3 --every 1h",
}


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
    names = _COMMANDS | {name: _shown(name, hint) for name, hint in hints.items()}
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
            with explained(names):
                perform(options(**given))

        command.__name__, command.__doc__ = perform.__name__, perform.__doc__
        command.__annotations__ = {field.name: field.annotation for field in parameters}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=None
        )
        return command

    return made


def _shown(name: str, hint: Any) -> str:
    """What the command line calls a field: its option, or the name of its argument."""
    for said in getattr(hint, "__metadata__", ()):
        if isinstance(said, OptionInfo):
            # In an annotation typer takes the first name for a default, and mends it later.
            stated = [said.default, *(said.param_decls or ())]
            own = [text for text in stated if isinstance(text, str) and text.startswith("--")]
            return own[0] if own else f"--{name.replace('_', '-')}"
    return name.upper()

"""Checks of arguments and of texts that several packages share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from counton.base.errors import InvalidInputError, is_one, is_text, param

_Call = TypeVar("_Call", bound=Callable[..., Any])
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: Default number of largest groups to show.
DEFAULT_TOP = 10


def split_names(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Split a text at commas and trim the names; those of a list are only trimmed."""
    names = columns.split(",") if isinstance(columns, str) else columns
    return tuple(str(name).strip() for name in names)


def check_text(name: str, value: object) -> None:
    """Refuse a text that is not UTF-8, or holds NUL, because no file or database can store it."""
    if isinstance(value, str) and not is_text(value):
        raise InvalidInputError(
            f"{param(name)} is {value[:80]!r}, which is not valid UTF-8 (it has NUL, or a byte of "
            "another encoding); write or rename it in UTF-8"
        )


def wrong_type(name: str, value: object, expected: str) -> InvalidInputError:
    """Build the error for a value of a wrong type; it shows the value if `is_one` allows."""
    description = f"{repr(value)[:80]}, of type" if is_one(value) else "of type"
    return InvalidInputError(
        f"{param(name)} is {description} {type(value).__name__}; give {expected}"
    )


def numbers_of(values: str | Sequence[Any], name: str) -> list[float]:
    """Return numbers from a list, or from text with commas."""
    try:
        return [
            float(value) for value in (values.split(",") if isinstance(values, str) else values)
        ]
    except ValueError as error:
        raise InvalidInputError(
            f"{param(name, values)} is not a list of numbers; separate numbers by commas, as in "
            "0.5,0.9"
        ) from error


def refuse_unknown(
    function: str, names: Iterable[str], allowed: Iterable[str], reference: str
) -> None:
    """Refuse an argument that a function does not have, with the nearest name that it has.

    >>> refuse_unknown("plan", ["strategy"], ["horizon", "strategies"], "help(plan)")
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInputError: plan has no argument 'strategy': did you mean strategies?
    """
    allowed = [*allowed]
    for name in names:
        if name not in allowed:
            from difflib import get_close_matches

            near = get_close_matches(name, allowed, 1)
            meant = f"did you mean {near[0]}?" if near else f"{reference} lists all arguments"
            raise InvalidInputError(f"{function} has no argument {name!r}: {meant}")


def known_arguments(call: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function refuse unknown arguments with the nearest name that it has."""
    parameter_names = [*inspect.signature(call).parameters]
    name = call.__name__

    @wraps(call)
    def call_it(*args: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        refuse_unknown(name, named, parameter_names, f"help({name})")
        return call(*args, **named)

    return call_it


def with_keywords(keys: type, defaults: Mapping[str, object]) -> Callable[[_Call], _Call]:
    """Return a decorator that lists each keyword of ``**keywords`` in a function's signature.

    Args:
        keys: TypedDict of the keywords.
        defaults: their defaults; of a missing one None.

    >>> from typing import TypedDict
    >>> class ChartOptions(TypedDict, total=False):
    ...     width: float
    ...     title: str | None
    >>> @with_keywords(ChartOptions, {"width": 7.5})
    ... def draw(numbers: list[int], **look: object) -> None: ...
    >>> fields = inspect.signature(draw).parameters
    >>> list(fields), fields["width"].default, str(fields["title"])
    (['numbers', 'width', 'title'], 7.5, "title: 'str | None' = None")
    """

    def name_them(call: _Call) -> _Call:
        signature = inspect.signature(call)
        parameters = [*signature.parameters.values()][:-1]
        names = {parameter.name for parameter in parameters}
        fields = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=kind.__forward_arg__,
            )
            for name, kind in keys.__annotations__.items()
            if name not in names
        ]
        # `inspect.signature` reads this attribute first.
        call.__signature__ = signature.replace(parameters=[*parameters, *fields])  # type: ignore[attr-defined]
        return call

    return name_them

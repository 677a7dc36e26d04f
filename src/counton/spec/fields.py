"""The options of every job: each written once, beside the field's name, type and default.

The command line makes options of them, a job file keys, the schema and the documentation texts.
What a stream keeps of an option, and who may state it, is said there too.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, replace
from functools import cache
from typing import Any

from counton.base.options import Kind, Option

#: Kinds by how the type of a field is written; all others are texts.
_KINDS: dict[str, Kind] = {
    "bool": "flag",
    "int": "whole",
    "int | None": "whole",
    "float": "number",
    "float | None": "number",
    "Path": "path",
    "Path | None": "path",
    "list[str]": "texts",
}


def option(
    default: Any, help: str, called: str | None = None, *, repr: bool = True, **more: Any
) -> Any:
    """A field of a dataclass that a user may state.

    Args:
        default: ``...`` where it must be given.
        called: its name in commands and files, where it is not the field's; without dashes.
        repr: whether it shows in a representation; not where a frame would show its rows.
        more: what else an `Option` says.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Asked:
    ...     start: str | None = option(None, "beginning of the first window")
    >>> options_of(Asked)["start"].help
    'beginning of the first window'
    """
    told = {"option": Option("", help, word=called, heading="", **more)}
    if default is ...:
        return field(metadata=told, repr=repr)
    return field(default=default, metadata=told, repr=repr)


def options_of(kind: Any) -> dict[str, Option]:
    """What may be stated of a dataclass, by the names of its fields; arguments first."""
    return _read_options(kind)


@cache
def _read_options(kind: type) -> dict[str, Option]:
    told = [item for item in fields(kind) if isinstance(item.metadata.get("option"), Option)]
    found = [_option(kind, item) for item in told]
    return {option.name: option for option in sorted(found, key=lambda one: not one.argument)}


def _option(kind: type, item: Field[Any]) -> Option:
    said: Option = item.metadata["option"]
    type_ = str(item.type).removeprefix("typing.")
    of_numbers = "Mapping[Any, int]" in type_
    part = next(one for one in kind.__mro__ if item.name in vars(one).get("__annotations__", ()))
    return replace(
        said,
        name=item.name,
        kind=_KINDS.get(type_, "text"),
        heading=vars(part).get("heading", ""),
        kept=said.kept or vars(part).get("kept", ""),
        default=None if item.default is MISSING else item.default,
        several=("Sequence" in type_ and not of_numbers) or item.name in ("events", "by"),
        by_name="Mapping" in type_,
        exact=type_.startswith("Number"),
        needed=item.default is MISSING,
    )

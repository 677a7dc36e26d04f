"""What is said of a field that somebody asks for: written once, beside its name, type and default.

The command line makes options of it, a job file keys, the schema and the documentation their texts.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields
from typing import Any, Literal, NamedTuple

#: How a value is written: in a word of a command, or as a value of a file.
Kind = Literal["text", "texts", "whole", "number", "flag", "path"]
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


class Said(NamedTuple):
    """What is said of a field.

    Attributes:
        help: what it means, in one line.
        called: its name in commands and files, where it is not the field's.
        group: the heading under which it stands.
        argument: it has no name in a command, and stands by itself.
    """

    help: str
    called: str | None = None
    group: str = ""
    argument: bool = False


def asked(
    default: Any,
    help: str,
    called: str | None = None,
    *,
    group: str = "",
    argument: bool = False,
    repr: bool = True,
) -> Any:
    """A field of a dataclass that a user may state.

    Args:
        default: ``...`` where it must be given.
        help: what it means, in one line.
        called: its name in commands and files, where it is not the field's; without dashes.
        group: the heading under which it stands.
        argument: it has no name in a command.
        repr: whether it shows in a representation; not where a frame would show its rows.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Asked:
    ...     start: str | None = asked(None, "beginning of the first window", "from")
    >>> said_of(Asked)["start"].help
    'beginning of the first window'
    """
    told = {"asked": Said(help, called, group, argument)}
    if default is ...:
        return field(metadata=told, repr=repr)
    return field(default=default, metadata=told, repr=repr)


def said_of(kind: type) -> dict[str, Said]:
    """What is said of each field of a dataclass, as far as anything is."""
    return {item.name: item.metadata["asked"] for item in fields(kind) if "asked" in item.metadata}


def kind_of(item: Field[Any]) -> Kind:
    """How a value of a field is written."""
    return _KINDS.get(str(item.type).removeprefix("typing."), "text")


def called(item: Field[Any]) -> str:
    """What a field is called in commands and files, with hyphens and without dashes before it."""
    said: Said = item.metadata["asked"]
    return said.called or item.name.replace("_", "-")


def default_of(item: Field[Any]) -> Any:
    """The default of a field, None where it must be given."""
    return None if item.default is MISSING else item.default

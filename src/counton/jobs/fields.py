"""The options of every job: each written once, beside the field's name, type and default.

The command line makes options of them, a job file keys, the schema and the documentation texts.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields
from typing import Any, NamedTuple

from counton.options import Kind, Option

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


class FieldWords(NamedTuple):
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


def option(
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
    ...     start: str | None = option(None, "beginning of the first window")
    >>> options_of(Asked)["start"].help
    'beginning of the first window'
    """
    told = {"job_option": FieldWords(help, called, group, argument)}
    if default is ...:
        return field(metadata=told, repr=repr)
    return field(default=default, metadata=told, repr=repr)


def options_of(kind: type) -> dict[str, Option]:
    """What may be stated of a dataclass, by the names of its fields; arguments first."""
    found = [_option(item) for item in fields(kind) if "job_option" in item.metadata]
    return {option.name: option for option in sorted(found, key=lambda one: not one.argument)}


def _option(item: Field[Any]) -> Option:
    said: FieldWords = item.metadata["job_option"]
    type_ = str(item.type).removeprefix("typing.")
    return Option(
        item.name,
        said.help,
        _KINDS.get(type_, "text"),
        word=said.called,
        heading=said.group,
        default=default_of(item),
        argument=said.argument,
        several=item.name in ("events", "by") or "Sequence" in type_,
        by_name="Mapping" in type_,
        needed=item.default is MISSING,
    )


def default_of(item: Field[Any]) -> Any:
    """The default of a field, None where it must be given."""
    return None if item.default is MISSING else item.default

"""The names on the page of notation exist, and every symbol has a meaning."""

import dataclasses
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import counton

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "notation.md").read_text(
    encoding="utf-8"
)


def public_things() -> dict[str, Any]:
    """Everything that any package exports, by name, and the laws of noise."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(counton.__path__, "counton."):
        if module.ispkg:
            package = import_module(module.name)
            found |= {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    laws = import_module("counton.base.distributions")
    return (
        found
        | {"DiscreteLaplace": laws.DiscreteLaplace}
        | {"DiscreteGaussian": laws.DiscreteGaussian}
    )


def named() -> list[str]:
    """Names in the column of code."""
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("|")]
    cells = [row[3] for row in rows if len(row) == 6 and "---" not in row[1]]
    return sorted({name for cell in cells for name in re.findall(r"`([A-Za-z_.]+)`", cell)})


def has(thing: Any, attribute: str) -> bool:
    """Whether a class has an attribute, a field or an argument of its constructor of this name."""
    names = set(inspect.signature(thing).parameters)
    for kind in thing.__mro__:
        names |= set(getattr(kind, "__annotations__", ()))
    if dataclasses.is_dataclass(thing):
        names |= {field.name for field in dataclasses.fields(thing)}
    if not inspect.isabstract(thing) and hasattr(thing, "examples"):
        names |= set(vars(thing.examples(16)[0]))
    return attribute in names or hasattr(thing, attribute)


@pytest.mark.parametrize("name", [name for name in named() if name[0].isupper()])
def test_a_name_on_the_page_exists(name: str) -> None:
    kind, _, attribute = name.partition(".")
    thing = public_things()[kind]
    assert not attribute or has(thing, attribute)


def test_the_page_has_names_and_whole_rows() -> None:
    assert len(named()) > 35
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert all(row.count("|") == 5 for row in rows), [r for r in rows if r.count("|") != 5]


def test_an_attribute_that_is_gone_is_noticed() -> None:
    assert has(public_things()["Contribution"], "cells")
    assert not has(public_things()["Contribution"], "cell")

"""Every public name says what it is and shows it in an example."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import counton

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


def public_packages() -> list[str]:
    """Every package that says what it exports."""
    inner = pkgutil.walk_packages(counton.__path__, "counton.")
    names = ["counton", *(module.name for module in inner if module.ispkg)]
    return [name for name in names if hasattr(import_module(name), "__all__")]


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in public_packages():
        module = import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{package}.{name}", thing


def examples_in(thing: Any) -> bool:
    """Whether the docstring, or for a class that of one of its members, holds an example."""
    texts = [inspect.getdoc(thing)]
    if inspect.isclass(thing):
        members = (m for m in vars(thing).values() if inspect.isroutine(m) or hasattr(m, "__get__"))
        texts += [inspect.getdoc(member) for member in members]
    return any(">>>" in (text or "") for text in texts)


def needs_no_example(thing: Any) -> bool:
    """Exceptions and warnings, and classes which cannot be instantiated."""
    return inspect.isclass(thing) and (
        issubclass(thing, BaseException)
        or inspect.isabstract(thing)
        or getattr(thing, "_is_protocol", False)
    )


@pytest.mark.parametrize(("address", "thing"), list(public_objects()))
def test_a_public_name_is_described_with_an_example(address: str, thing: Any) -> None:
    described = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert described, f"{address} has no docstring"
    assert needs_no_example(thing) or examples_in(thing), f"{address} shows no example"


def test_an_undocumented_class_would_be_noticed() -> None:
    class Silent:
        pass

    assert not examples_in(Silent)
    assert not needs_no_example(Silent)


def shown_in(reference: str) -> list[str]:
    """Addresses that a page shows, in order."""
    lines = reference.splitlines()
    return [line.removeprefix("::: ") for line in lines if line.startswith("::: ")]


def faults_of(reference: str, public: set[str]) -> list[str]:
    """Public names that a page does not show, and those it shows twice."""
    times = Counter(shown_in(reference))
    missing = sorted(f"{address} is missing" for address in public - set(times))
    return missing + [f"{address} is shown twice" for address in times if times[address] > 1]


def test_the_reference_shows_every_public_name_once() -> None:
    public = {address for address, thing in public_objects() if address.count(".") > 1}
    assert faults_of(REFERENCE.read_text(encoding="utf-8"), public) == []


def test_a_name_left_out_of_the_reference_or_shown_twice_is_noticed() -> None:
    page = "# Reference\n\n::: counton.noise.Key\n::: counton.noise.Key\n"
    public = {"counton.noise.Key", "counton.strategies.lines.Haar"}
    assert faults_of(page, public) == [
        "counton.strategies.lines.Haar is missing",
        "counton.noise.Key is shown twice",
    ]
    assert faults_of("::: counton.noise.Key\n", {"counton.noise.Key"}) == []


def test_packages_with_public_names_are_found_by_themselves() -> None:
    found = set(public_packages())
    inner = {"counton.strategies.trees", "counton.strategies.lines"}
    assert {"counton", "counton.mechanisms.ranges", "counton.testing"} | inner <= found


def test_the_first_level_is_listed_completely() -> None:
    first = REFERENCE.read_text(encoding="utf-8").split("\n\n")[1]
    listed = re.findall(r"`(\w+)`", first)
    assert set(listed) == {"counton", "Stream", *counton.__all__}  # Stream needs an extra

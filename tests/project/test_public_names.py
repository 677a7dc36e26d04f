"""Every public name says what it is and shows it in an example."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
PACKAGES = (
    "counton",
    "counton.analysis",
    "counton.jobs",
    "counton.mechanisms",
    "counton.mechanisms.hierarchy",
    "counton.mechanisms.ranges",
    "counton.noise",
    "counton.privacy",
    "counton.reproduce",
    "counton.store",
    "counton.strategies",
    "counton.testing",
)


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in PACKAGES:
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


def test_the_reference_shows_every_public_name() -> None:
    shown = {
        line.removeprefix("::: ")
        for line in REFERENCE.read_text(encoding="utf-8").splitlines()
        if line.startswith("::: ")
    }
    public = {address for address, thing in public_objects() if address.count(".") > 1}
    assert public - shown == set()

"""Public names that are loaded when they are first used, so that importing a package is cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loader(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``: names from the modules in which they live.

    Args:
        package: name of the package.
        home: for each public name the module that defines it.

    >>> load = loader("counton", {"Key": "counton.noise"})
    >>> load("Key").__module__
    'counton.noise.key'
    >>> load("Kay")
    Traceback (most recent call last):
    ...
    AttributeError: module 'counton' has no attribute 'Kay'
    """

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load

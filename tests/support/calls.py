"""Calls of a function, noted as they are made."""

from typing import Any

import pytest


def calls_of(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """The arguments of each call from now on, of a function that does what it did."""
    made = list[tuple[Any, ...]]()
    right = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        made.append(given)
        return right(*given, **named)

    patch.setattr(owner, name, noted)
    return made

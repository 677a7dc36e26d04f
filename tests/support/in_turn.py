"""A few of many cases that hold one law, always the same; all of them where that is asked for."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
#: `make test-in-turn` and `make fuzz` set it.
ALL = int(os.environ.get("COUNTON_FUZZ", "0")) > 0


def in_turn(cases: Iterable[T], apart: int, first: int = 0) -> list[T]:
    """Every case of so many, from the first on; all with ``COUNTON_FUZZ=1``."""
    return [*cases] if ALL else [*cases][first::apart]

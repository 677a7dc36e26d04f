"""All strategies for ranges, found by themselves."""

from __future__ import annotations

from counton.strategies.lines.base import RangeStrategy
from counton.strategies.registry import exported


def public_range_strategies() -> tuple[type[RangeStrategy], ...]:
    """Every range strategy that ``counton.strategies.lines`` exports, in order of name.

    >>> [cls.__name__ for cls in public_range_strategies()]
    ['Dense', 'Haar', 'Nodes', 'SquareRoot']
    """
    import counton.strategies.lines as package

    return exported(package, RangeStrategy)  # type: ignore[type-abstract]

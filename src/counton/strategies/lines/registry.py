"""All strategies for lines, found by themselves."""

from __future__ import annotations

from counton.strategies.lines.base import LineStrategy
from counton.strategies.registry import exported


def public_line_strategies() -> tuple[type[LineStrategy], ...]:
    """Every strategy for lines that ``counton.strategies.lines`` exports, in order of name.

    >>> [cls.__name__ for cls in public_line_strategies()]
    ['Dense', 'Haar', 'Nodes', 'SquareRoot']
    """
    import counton.strategies.lines as package

    return exported(package, LineStrategy)  # type: ignore[type-abstract]

"""All strategies for ranges, found by themselves."""

from __future__ import annotations

import inspect

from counton.strategies.ranges.base import RangeStrategy


def public_range_strategies() -> tuple[type[RangeStrategy], ...]:
    """Every range strategy that ``counton.strategies.ranges`` exports, in order of name.

    >>> [cls.__name__ for cls in public_range_strategies()]
    ['Dense', 'Haar', 'Nodes', 'SquareRoot']
    """
    import counton.strategies.ranges as package

    members = (getattr(package, name) for name in sorted(package.__all__))
    return tuple(
        member
        for member in members
        if inspect.isclass(member)
        and issubclass(member, RangeStrategy)
        and not inspect.isabstract(member)
    )

"""Strategies for lines from their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.strategy import built_from, saved_strategy_name

#: Names of strategies for lines in descriptions.
SAVED_NAMES = ("Dense", "Haar", "Hats", "Nodes", "SquareRoot")


def line_strategy_from_dict(description: Mapping[str, object]) -> LineStrategy:
    """Rebuild a strategy for a line of cells from its ``to_dict``; only its module is imported.

    Args:
        description: JSON values that ``to_dict`` returned.

    Raises:
        InvalidInputError: an unknown class, or missing or wrong parameters.

    >>> from counton.tables import Haar
    >>> line_strategy_from_dict(Haar.cascade(4).to_dict()) == Haar.cascade(4)
    True
    """
    named = saved_strategy_name(description, SAVED_NAMES, " for lines")
    kind: type[LineStrategy] = getattr(import_module("counton.tables"), named)
    return built_from(kind, description)

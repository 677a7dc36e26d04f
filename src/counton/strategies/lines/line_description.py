"""A strategy for a line, rebuilt from its description in a state or a file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counton.strategies.strategy import built_from, stated_kind

if TYPE_CHECKING:
    from counton.strategies.lines.line_strategy import LineStrategy

#: Names of strategies for lines in descriptions.
KINDS = ("Dense", "Dyadic", "Haar", "Hats", "Nodes", "SquareRoot")


def line_strategy_from_dict(description: Mapping[str, Any]) -> LineStrategy:
    """Rebuild a strategy for lines from a description that its ``to_dict`` made.

    Only the class of that strategy is loaded.

    Raises:
        InvalidInput: an unknown class, or missing or wrong parameters.

    >>> from counton.strategies.lines import Haar
    >>> line_strategy_from_dict(Haar.cascade(4).to_dict()) == Haar.cascade(4)
    True
    """
    named = stated_kind(description, KINDS, " for lines")
    kind: type[LineStrategy] = getattr(import_module("counton.strategies.lines"), named)
    return built_from(kind, description)

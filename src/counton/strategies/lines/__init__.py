"""Lines of cells, which are blocks of steps of a stream; other lines are in `counton.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from counton.strategies.strategy import built_from, saved_strategy_name

if TYPE_CHECKING:
    from counton.strategies.lines.least_squares import CellwiseLine

#: Names of these strategies in descriptions.
SAVED_NAMES = ("Dense", "Hats")


def line_of_blocks(description: Mapping[str, object]) -> CellwiseLine:
    """Rebuild the line of a stream's blocks from its ``to_dict``."""
    from counton.strategies.lines.dense import Dense
    from counton.strategies.lines.hats import Hats

    named = saved_strategy_name(description, SAVED_NAMES, " for blocks of steps")
    kind: type[CellwiseLine] = Dense if named == "Dense" else Hats
    return built_from(kind, description)

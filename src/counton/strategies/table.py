"""What is measured of a table that is released once: the root of lines, grids and trees."""

from __future__ import annotations

from abc import abstractmethod

from counton.errors import InvalidInput
from counton.shift import Shift
from counton.strategies.base import Relation, Strategy


class TableStrategy(Strategy):
    """An integer matrix C with a column for each cell, and how far one unit moves C x.

    >>> from counton.strategies.lines import Nodes
    >>> strategy = Nodes(4, (2, 2), (1, 1, 1))
    >>> strategy.shift(), strategy.shift("move")
    (Shift(l1=3, l2_squared=3, entries=((1, 3),)), Shift(l1=4, l2_squared=4, entries=None))
    """

    @abstractmethod
    def l1_sensitivity(self) -> int:
        """Exact maximum 1-norm of a column of C: one unit added or removed."""

    @abstractmethod
    def squared_sensitivity(self) -> int:
        """Exact maximum squared 2-norm of a column of C."""

    @abstractmethod
    def l1_move_sensitivity(self) -> int:
        """At least the 1-norm of any difference of two columns: one unit moved."""

    @abstractmethod
    def squared_move_sensitivity(self) -> int:
        """At least the squared 2-norm of any difference of two columns."""

    def shift(
        self,
        relation: Relation = "add_remove",
        *,
        steps: int | None = None,
        separation: int = 1,
        every: int | None = None,
    ) -> Shift:
        """How far one unit moves all measurements together; see `Strategy.shift`.

        Raises:
            InvalidInput: another relation than "add_remove" and "move", or several steps: a table
                is released once.
        """
        if steps not in (None, 1) or separation != 1 or every is not None:
            raise InvalidInput(
                f"steps is {steps!r}, separation {separation!r} and every {every!r}; a table is "
                f"released once, so a unit counts in one step: leave them out, and state all of "
                f"its cells in the contribution"
            )
        if relation == "add_remove":
            l1 = self.l1_sensitivity()
            entries = ((1, l1),) if self.unit_columns else None
            return Shift(l1, self.squared_sensitivity(), entries)
        if relation != "move":
            raise InvalidInput(
                f"relation is {relation!r}; a unit of a table is added or removed, or moved to "
                f"another cell: use 'add_remove' or 'move'"
            )
        l1 = self.l1_move_sensitivity()
        # Both may be bounds; integer vectors have l1 <= l2_squared.
        return Shift(l1, max(self.squared_move_sensitivity(), l1))

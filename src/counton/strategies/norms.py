"""How far a unit can move the measurements of a table: norms of the columns of C."""

from __future__ import annotations

from dataclasses import dataclass

from counton.strategies.base import Norm as Norm


@dataclass(frozen=True, slots=True)
class ColumnNorms:
    """Norms of the columns of an integer measurement matrix C and of their differences.

    Attributes:
        l1, l2_squared: of the largest column: one unit added or removed.
        move_l1, move_l2_squared: at least those of the largest difference of two columns: one unit
            moved.
        unit_columns: all non-zero entries of C are known to be +1 or -1.

    >>> ColumnNorms(l1=2, l2_squared=2, move_l1=2, move_l2_squared=2, unit_columns=True).l1
    2
    """

    l1: int
    l2_squared: int
    move_l1: int
    move_l2_squared: int
    unit_columns: bool = False

"""A law of all strategies for tables: the change by a unit, against the matrix itself."""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Integers
from counton.laws.rows import require
from counton.strategies import Norm, TableStrategy

_NORMS: tuple[Norm, Norm] = (1, 2)


def check_columns(strategy: TableStrategy, matrix: Integers) -> None:
    """Check stated norms against all columns of C and all pairs of columns; norms of moves may be
    bounds.
    """
    l1, squared = (_largest(matrix, norm) for norm in _NORMS)
    largest = int(np.abs(matrix).max())
    for claimed in (strategy.l1_sensitivity(), strategy.largest_column(1)):
        require(claimed == l1, strategy, f"largest 1-norm of a column is {l1}")
    for claimed in (strategy.squared_sensitivity(), strategy.largest_column(2)):
        require(claimed == squared, strategy, f"squared 2-norm is {squared}")
    require(strategy.largest_entry >= largest, strategy, f"largest entry is {largest}")
    if strategy.unit_columns:
        require(largest == 1, strategy, "C has entries other than 1 and -1")
    one, moved = strategy.sensitivities(), strategy.sensitivities("move")
    require(
        (one.l1, one.l2_squared) == (l1, squared), strategy, "sensitivity is not the largest column"
    )
    units = ((1, l1),) if strategy.unit_columns else None
    require(one.entries == units, strategy, f"entries of the sensitivity are not {units}")
    for column in range(matrix.shape[1]):
        moves = matrix - matrix[:, [column]]
        for norm, stated in zip(_NORMS, (moved.l1, moved.l2_squared), strict=True):
            true = _largest(moves, norm)
            enough = min(strategy.largest_move(norm), stated) >= true
            require(enough, strategy, f"a move is {true} in norm {norm}")


def _largest(matrix: Integers, norm: Norm) -> int:
    return int((np.abs(matrix) ** norm).sum(axis=0).max())

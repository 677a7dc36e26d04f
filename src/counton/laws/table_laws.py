"""A law of all strategies for tables: how far a unit moves them, against the matrix itself."""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Integers
from counton.laws.rows import require
from counton.strategies import TableStrategy


def check_columns(strategy: TableStrategy, matrix: Integers) -> None:
    """Claimed norms against all columns of C and all pairs of them; of moves they may be bounds."""
    l1 = int(np.abs(matrix).sum(axis=0).max())
    squared = int((matrix**2).sum(axis=0).max())
    largest = int(np.abs(matrix).max())
    require(strategy.l1_sensitivity() == l1, strategy, f"largest 1-norm of a column is {l1}")
    require(strategy.squared_sensitivity() == squared, strategy, f"squared 2-norm is {squared}")
    bits = strategy.lattice_bits
    require(bits == 0, strategy, f"C is a matrix of integers, and its lattice has {bits} bits")
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
        l1 = int(np.abs(moves).sum(axis=0).max())
        enough = min(strategy.l1_move_sensitivity(), moved.l1) >= l1
        require(enough, strategy, f"1-norm of a move is {l1}")
        squared = int((moves**2).sum(axis=0).max())
        enough = min(strategy.squared_move_sensitivity(), moved.l2_squared) >= squared
        require(enough, strategy, f"squared 2-norm of a move is {squared}")

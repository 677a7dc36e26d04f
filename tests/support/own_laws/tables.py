"""A test of all strategies for tables: stated sensitivities against the measurement matrix."""

import numpy as np

from counton.base.arrays import Integers
from counton.strategies import Norm, TableStrategy
from counton.testing.rows import names_subject, require

_NORMS: tuple[Norm, Norm] = (1, 2)


@names_subject
def check_columns(strategy: TableStrategy, matrix: Integers) -> None:
    """Stated sensitivities are those of the measurement matrix C, for added and for moved units.

    An added unit changes the measurements by a column, a moved unit by a difference of two columns,
    for which the strategy may state an upper bound.
    """
    l1, squared = (_largest(matrix, norm) for norm in _NORMS)
    largest = int(np.abs(matrix).max())
    for claimed in (strategy.l1_sensitivity(), strategy.largest_column(1)):
        require(claimed == l1, f"the largest 1-norm of a column is {l1}, not {claimed}")
    for claimed in (strategy.squared_sensitivity(), strategy.largest_column(2)):
        require(claimed == squared, f"the largest squared 2-norm is {squared}, not {claimed}")
    require(strategy.largest_entry >= largest, f"largest_entry is below the entry {largest} of C")
    if strategy.unit_columns:
        require(largest == 1, "unit_columns is True, but C has entries other than 1 and -1")
    one = strategy.sensitivities()
    moved = strategy.sensitivities("move")
    right = (one.l1, one.l2_squared) == (l1, squared)
    require(right, "sensitivities() must return the largest norms of a column")
    units = ((1, l1),) if strategy.unit_columns else None
    require(one.entries == units, f"sensitivities() must have the entries {units}")
    for column in range(matrix.shape[1]):
        moves = matrix - matrix[:, [column]]
        for norm, stated in zip(_NORMS, (moved.l1, moved.l2_squared), strict=True):
            true = _largest(moves, norm)
            enough = min(strategy.largest_move(norm), stated) >= true
            require(enough, f"a unit that moves changes the measurements by {true} in norm {norm}")


def _largest(matrix: Integers, norm: Norm) -> int:
    return int((np.abs(matrix) ** norm).sum(axis=0).max())

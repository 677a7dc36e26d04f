"""A test of all strategies for tables: stated sensitivities against the measurement matrix."""

import numpy as np

from counton.base.arrays import Integers
from counton.laws.rows import names_subject, require
from counton.strategies import Norm, TableStrategy

_NORMS: tuple[Norm, Norm] = (1, 2)


@names_subject
def check_columns(strategy: TableStrategy, matrix: Integers) -> None:
    """Check stated sensitivities against the measurement matrix, for added and for moved units.

    An added unit changes the measurements by a column of ``matrix``, a moved unit by a difference
    of two columns. For moved units the strategy may state an upper bound.
    """
    l1, squared = (_largest(matrix, norm) for norm in _NORMS)
    largest = int(np.abs(matrix).max())
    for claimed in (strategy.l1_sensitivity(), strategy.largest_column(1)):
        require(
            claimed == l1,
            f"the largest 1-norm of a column is {l1}, but l1_sensitivity() or "
            "largest_column(1) returns another number",
        )
    for claimed in (strategy.squared_sensitivity(), strategy.largest_column(2)):
        require(
            claimed == squared,
            f"the largest squared 2-norm of a column is {squared}, but squared_sensitivity() or "
            "largest_column(2) returns another number",
        )
    require(
        strategy.largest_entry >= largest,
        f"an entry of the measurement matrix C has magnitude {largest}, but largest_entry is "
        "less; it must be an upper bound",
    )
    if strategy.unit_columns:
        require(
            largest == 1,
            "unit_columns is True, but the measurement matrix C has entries other than 1 and -1",
        )
    one, moved = strategy.sensitivities(), strategy.sensitivities("move")
    require(
        (one.l1, one.l2_squared) == (l1, squared),
        "sensitivities() must return the largest norms of a column",
    )
    units = ((1, l1),) if strategy.unit_columns else None
    require(one.entries == units, f"sensitivities() must have the entries {units}")
    for column in range(matrix.shape[1]):
        moves = matrix - matrix[:, [column]]
        for norm, stated in zip(_NORMS, (moved.l1, moved.l2_squared), strict=True):
            true = _largest(moves, norm)
            enough = min(strategy.largest_move(norm), stated) >= true
            require(
                enough,
                f"a unit that moves to another cell changes the measurements by {true} in norm "
                f"{norm}, but sensitivities('move') or largest_move({norm}) returns less; return "
                "an upper bound",
            )


def _largest(matrix: Integers, norm: Norm) -> int:
    return int((np.abs(matrix) ** norm).sum(axis=0).max())

"""The number of users with at least 1, 5 or 100 rows (or other thresholds) in a period.

There is a cell for each threshold k. A user adds 1 to it with the k-th row of the period. No bound
on rows is needed, because rows beyond the largest threshold change nothing. The number of users
with 1 to 4 rows is the difference of two cells, with the noise of both.
"""

# A user with all rows of a period changes as many cells as there are thresholds, each by 1. With r
# thresholds the 1-norm of the change is r; so is the square of its 2-norm, because each cell has
# nodes of its own. By group this holds in each of at most `most` groups in which a user counts.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from counton.base.arguments import split_names
from counton.base.errors import InvalidInputError, param
from counton.base.exact import quote
from counton.privacy import ContributionBound
from counton.statistics.accumulator_statistic import UsersByRank
from counton.statistics.cells import Cells

if TYPE_CHECKING:
    from counton.continual.formulas import Estimate

#: Largest number of thresholds; each is a bit of the integer that encodes a row.
_MOST_THRESHOLDS = 16
#: Largest number of rows of a user that are remembered, each by its digest.
_MOST_ROWS = 10**6


class Reach(UsersByRank):
    """The number of users with at least some number of rows in a period.

    The protected unit is a user with all rows of a period. Only a job counts this statistic; it
    states the column ``user`` and the period ``per``, by default the whole stream. Releases are
    running totals over all periods.

    Args:
        at_least: the thresholds.
        unit: the word for one user.

    Raises:
        InvalidInputError: no thresholds or more than 16, or a threshold that is not a whole number
            from 1 to 1,000,000 or occurs twice.

    >>> from counton.statistics import Reach
    >>> Reach("5, 1").number_names, Reach(3).at_least
    (['1 or more', '5 or more', '1 to 4'], (3,))
    >>> print(Reach([1, 5, 100]).contribution())
    one user added or removed, with at most 3 events counted, each by at most 1, no two of them in
    the same cell
    """

    keyword = "reach"
    example = "user=visitor per=1mo at-least=1,2"
    says = "How many users have at least 1, 5, 100 rows in a period."
    help = (
        f"As count with {param('user')}, the column that says whose a row is, and "
        f"{param('contribution_period')}, the length of the period. A user's k-th row of a period "
        "enters the cell "
        f"of k in the window in which it came. By group it is how many users have as many rows in "
        f"that group, and {param('max_contributions')} is in how many groups a user counts."
    )
    phrase = "number of {units} by how many rows each has"
    also_called = ("frequency", "returning", "active")
    unit_word = "users"
    event = "user"
    column = "measure"

    def __init__(
        self, at_least: str | int | Sequence[object] = (1,), *, unit: str | None = None
    ) -> None:
        several: Any = split_names(at_least) if isinstance(at_least, str) else at_least
        try:
            thresholds = sorted(map(int, [several] if isinstance(several, int) else several))
        except (TypeError, ValueError):
            thresholds = []
        in_range = all(1 <= threshold <= _MOST_ROWS for threshold in thresholds)
        if not in_range or not 1 <= len({*thresholds}) == len(thresholds) <= _MOST_THRESHOLDS:
            raise InvalidInputError(
                f"{param('at_least')} is {quote(at_least)}; give 1 to {_MOST_THRESHOLDS} different "
                f"whole numbers from 1 to {_MOST_ROWS:,}, as in 1,5,100"
            )
        self.at_least = self.counted_ranks = tuple(thresholds)
        self.n_accumulators = len(self.at_least)
        self._call_units(unit, "user")

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        return {"at_least": list(self.at_least), **self._parameters_of("unit")}

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (len(self.at_least),)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.events(len(self.at_least), once="group", unit=self.unit)

    @override
    def whole(self, cells: Cells) -> Estimate:
        return cells.cell(0)

    @property
    @override
    def number_names(self) -> Sequence[str]:
        return [*(f"{least} or more" for least in self.at_least), *self._bands]

    @property
    def _bands(self) -> dict[str, int]:
        """For each band, such as "1 to 4", the cell of its lower threshold, minus the next."""
        return {
            f"{least}" if above == least + 1 else f"{least} to {above - 1}": cell
            for cell, (least, above) in enumerate(pairwise(self.at_least))
        }

    @override
    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        """Return the number of users by how many rows they have.

        Args:
            cells: the released cells.
            name: an integer threshold or "5 or more" for users with at least as many rows; a band
                such as "1 to 4". None: the only threshold.
        """
        if name not in self._bands:
            return super().number_of(cells, f"{name} or more" if isinstance(name, int) else name)
        first = self._bands[name]
        return cells.sum({first: 1.0, first + 1: -1.0})

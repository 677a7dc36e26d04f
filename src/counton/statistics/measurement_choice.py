"""Tables: statistics whose measurement is the best for the kind of noise, unless it is stated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import BoundedChange, Sensitivity
from counton.base.errors import InvalidInput, SumOverflow
from counton.base.exact import quote
from counton.numbers.table_noise import LARGEST_MEASUREMENT
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, Guarantee, PureDP
from counton.privacy.contribution import Relation
from counton.statistics.tally_statistic import TallyStatistic, X
from counton.strategies import StreamStrategy
from counton.strategies.participation import Norm, check_norm

#: An event counts at most so many times.
_MOST_COUNTED = 2**32


class TableStatistic(TallyStatistic):
    """A statistic whose readings are a table: rows without times are released once.

    Unless a measurement is stated, it is the best for Laplace or for Gaussian noise. How finely
    weights are chosen follows from how many steps there are: sums that grow for ever need the room
    that finer ones would take.
    """

    is_table = True
    counts_rows = True

    #: How neighbours differ, and what one protected unit is called: see `_protect`.
    neighbours: Relation
    unit: str
    #: How many numbers there are, in words.
    size: str
    #: Whether an event counts as often as it says.
    counts = False

    @property
    @abstractmethod
    def _is_stated(self) -> bool:
        """Whether how cells are measured is stated, or settled already."""

    @abstractmethod
    def _best(self, norm: Norm, horizon: int | None = None) -> Self:
        """The same with the best measurement under one kind of noise, over this many steps."""

    @property
    def criterion(self) -> float:
        """What is to be small: a deviation, where each measured cell has deviation 1."""
        return self.error_of.mean

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """With the measurement that has the least error under a guarantee.

        That is found for either kind of noise, and if both can give the guarantee, by the error
        with the planner's strategy over time.
        """
        if self._is_stated:
            return self
        if isinstance(guarantee, (PureDP, ExpiringDP)):
            return self._best(1, horizon)
        large = isinstance(guarantee, ZCDP) and guarantee.rho > 2 and horizon == 1
        if not (isinstance(guarantee, ApproxDP) or large) or horizon is None:
            return self._best(2, horizon)

        def error(this: Self) -> float:
            one = this.plan(horizon, guarantee).best.mean_std / this.error_of.mean
            return one * this.criterion

        return min((self._best(2, horizon), self._best(1, horizon)), key=error)

    @override
    def sensitivity(self, strategy: StreamStrategy, p: Norm, *, batched: bool = False) -> float:
        if self._is_stated:
            return super().sensitivity(strategy, p, batched=batched)
        best = self._best(check_norm(p), strategy.horizon)
        return best.sensitivity(strategy, p, batched=batched)

    def _protect(self, neighbours: Relation, unit: str | None) -> None:
        """Take what is protected: one event, unless it is called otherwise."""
        one = Contribution(neighbours, 1, 1, unit="event" if unit is None else unit)
        self.neighbours, self.unit, self._stated = one.relation, one.unit, unit is not None

    def _common(self) -> dict[str, Any]:
        """Parameters that tables share, as far as they are stated."""
        return self._parameters_of("counts", "neighbours", "unit")

    def _contribution_of(self, moved: Sensitivity, words: str) -> Contribution:
        """The contribution of a unit that counts in one cell of one step."""
        pattern = BoundedChange(moved.l1, moved.l2_squared, once=True)
        return Contribution.of_pattern(pattern, words, relation=self.neighbours, unit=self.unit)

    def _count_of(self, event: Any, named: str) -> tuple[Any, int]:
        """What an event names, and how often it counts."""
        if not self.counts:
            return event, 1
        if not isinstance(event, (tuple, list)) or len(event) != 2:
            raise InvalidInput(
                f"event is {quote(event)}; it must be a pair: {named}, and how often it counts"
            )
        what, count = event
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if not whole or not 0 <= count <= _MOST_COUNTED:
            raise InvalidInput(
                f"an event counts {quote(count)} times; it must be a whole number from 0 to 2^32"
            )
        return what, count

    @override
    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        if not self.counts:
            return [(said, 1)]
        return [(said % self.places, said // self.places)]

    @override
    def row_bounds(self) -> tuple[int, int]:
        return (0, _MOST_COUNTED) if self.counts else (1, 1)

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What is measured, a sentence."""

    @abstractmethod
    def spread(self, std: float) -> list[dict[str, Any]]:
        """Largest standard deviations by what is read, where each measured cell has this one."""

    def choices_in_words(self, guarantee: Guarantee) -> Sequence[tuple[str, str]]:
        """What it could be measured by at one go: names, and what stands beside them."""
        return ()

    def accuracy(self, guarantee: Guarantee, horizon: int = 1) -> list[dict[str, Any]]:
        """How accurate the table would be: known before any data.

        Args:
            horizon: number of steps; of 1 the table is released once.

        Returns:
            Rows as of `spread`: ``std`` is typical of all steps, and over time ``largest_std`` that
            of the worst.
        """
        settled = self.settle(guarantee, horizon)
        best, of = settled.plan(horizon, guarantee, batched=True).best, settled.error_of
        rows = settled.spread(best.mean_std / of.mean)
        if horizon == 1:
            return rows
        worst = best.max_std / of.largest / (best.mean_std / of.mean)
        return [{**row, "largest_std": row["std"] * worst} for row in rows]


def refuse_inexact(sums: Integers, largest_entry: int) -> None:
    """Refuse counts whose measurements would not be exact.

    Args:
        sums: shape ``(steps, places)``.
        largest_entry: no measurement is larger than this times the sum of all places.
    """
    most = float(np.abs(sums.astype(np.float64)).sum(axis=1).max(initial=0.0))
    if most * largest_entry >= LARGEST_MEASUREMENT:
        raise SumOverflow(
            f"the counts of a step sum to {most:.3g}; at most "
            f"{LARGEST_MEASUREMENT / largest_entry:.3g} can be measured exactly: count in "
            f"larger units"
        )


#: So many standard deviations noise stays within, and as much is left for what is rounded.
_ROOM = 64


def most_read(bits: int, std: float) -> float:
    """How large counts may be whose sums are read on multiples of 2^-bits, in float64.

    Args:
        bits: behind the point.

    >>> most_read(16, 1.0) / 2**37
    0.99...
    """
    return 2.0 ** (53 - bits) - _ROOM * max(std, 1.0)

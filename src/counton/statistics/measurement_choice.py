"""Base class of tables: statistics that choose the linear measurement with the least error."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import BoundedChange, Sensitivity
from counton.base.errors import InvalidInput
from counton.base.exact import quote
from counton.base.exact_sums import refuse_overflow
from counton.numbers.table_noise import LARGEST_MEASUREMENT
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, Guarantee, PureDP
from counton.privacy.contribution import Relation
from counton.statistics.statistic import Statistic
from counton.statistics.tally_statistic import TallyStatistic, X
from counton.strategies.participation import Norm

#: Most times that an event counts.
_MOST_COUNTED = 2**32


class TableStatistic(TallyStatistic):
    """Base class of statistics whose numbers are a table; rows without times are released once.

    A measurement is the integer matrix that converts exact counts to the cells that get noise.
    Unless one is stated, the best one for Laplace or for Gaussian noise is chosen. Weights are
    coarser for streams of several steps, whose sums grow larger.
    """

    counts_rows = True

    #: Neighbouring relation, and the word for one protected unit: see `_protect`.
    neighbours: Relation
    unit: str
    #: Number of estimates, in words.
    size: str
    #: True if an event counts as often as its number says.
    counts = False

    #: Name of the parameter with the measurement, and the measurement; None: open.
    _measured_by: ClassVar[str]
    _measurement: Any = None

    @abstractmethod
    def _choose(self, norm: Norm, horizon: int | None = None) -> Any:
        """Return the best measurement under Laplace noise (norm 1) or Gaussian noise (norm 2).

        ``horizon`` is the number of steps.
        """

    @cached_property
    def measurement(self) -> Any:
        """The matrix that is applied to exact counts before noise is added.

        Before the guarantee is known, it is the best under Laplace noise.
        """
        return self._measurement or self._choose(1)

    def _with_measurement(self, measurement: Any) -> Self:
        return type(self)(**{**self.parameters, self._measured_by: measurement})

    def _best(self, norm: Norm, horizon: int | None = None) -> Self:
        """Return this statistic with the measurement that `_choose` finds."""
        return self._with_measurement(self._choose(norm, horizon))

    @override
    def allows(self, other: Statistic) -> bool:
        if self._measurement is not None or not isinstance(other, type(self)):
            return self == other

        def terms(one: TableStatistic) -> dict[str, Any]:
            return {**one.parameters, "unit": one.unit, one._measured_by: None}

        return terms(self) == terms(other)

    @property
    @override
    def largest_entry(self) -> int:
        found: int = self.measurement.largest_entry
        return found

    @property
    def criterion(self) -> float:
        """The error that a measurement should minimise: a standard deviation, if each measured cell
        has 1.
        """
        return self.error_of.mean

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return this statistic with the measurement of least error under a guarantee.

        The best measurement is found for Laplace and for Gaussian noise. If the guarantee allows
        both, the one with the smaller error is taken.
        """
        if self._measurement is not None:
            return self
        if isinstance(guarantee, (PureDP, ExpiringDP)):
            return self._best(1, horizon)
        from counton.statistics.statistic_plan import plan_statistic

        large = isinstance(guarantee, ZCDP) and guarantee.rho > 2 and horizon == 1
        if not (isinstance(guarantee, ApproxDP) or large) or horizon is None:
            return self._best(2, horizon)

        def error(this: Self) -> float:
            one = plan_statistic(this, horizon, guarantee).best.mean_std / this.error_of.mean
            return one * this.criterion

        return min((self._best(2, horizon), self._best(1, horizon)), key=error)

    def _protect(self, neighbours: Relation, unit: str | None, counts: bool = False) -> None:
        """Set the protected unit: one event; with ``counts``, one of the times that an event
        counts.
        """
        self.counts = self.counts_units = bool(counts)
        self.counts_rows = not counts
        one = Contribution(neighbours, 1, 1, unit="event" if unit is None else unit)
        self.neighbours, self.unit, self._stated = one.relation, one.unit, unit is not None

    def _common(self) -> dict[str, Any]:
        """Return the parameters that all tables share, apart from those with their defaults."""
        return self._parameters_of("counts", "neighbours", "unit")

    def _contribution_of(self, moved: Sensitivity, words: str) -> Contribution:
        """Return the contribution bound of a unit that changes the measured cells of one step.

        ``moved`` is the size of the change.
        """
        pattern = BoundedChange(moved.l1, moved.l2_squared, once=True)
        return Contribution.of_pattern(pattern, words, relation=self.neighbours, unit=self.unit)

    def _count_of(self, event: Any, named: str) -> tuple[Any, int]:
        """Split an event into the value that it names and how often it counts."""
        if not self.counts:
            return event, 1
        if not isinstance(event, (tuple, list)) or len(event) != 2:
            raise InvalidInput(
                f"an event is {quote(event)}; give pairs: {named}, and how often it counts"
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
        """A sentence on how the table is measured."""

    @abstractmethod
    def spread(self, std: float) -> list[dict[str, Any]]:
        """Return how accurate the numbers are: for each kind a row with the largest std.

        ``std`` is the standard deviation of each measured cell.
        """

    def choices_in_words(self, guarantee: Guarantee) -> Sequence[tuple[str, str]]:
        """Return the possible measurements for one release, each with its error, in words."""
        return ()

    def accuracy(self, guarantee: Guarantee, horizon: int = 1) -> list[dict[str, Any]]:
        """Return how accurate the table's numbers will be; no data is needed.

        Args:
            horizon: number of steps; 1 releases the table once.

        Returns:
            Rows as in `spread`: ``std`` is typical of all steps; over time ``largest_std`` is that
                of the worst step.
        """
        from counton.statistics.statistic_plan import plan_statistic

        settled = self.settle(guarantee, horizon)
        best = plan_statistic(settled, horizon, guarantee, batched=True).best
        of = settled.error_of
        rows = settled.spread(best.mean_std / of.mean)
        if horizon == 1:
            return rows
        worst = best.max_std / of.largest / (best.mean_std / of.mean)
        return [{**row, "largest_std": row["std"] * worst} for row in rows]


def refuse_inexact(sums: Integers, largest_entry: int) -> None:
    """Raise `SumOverflow` for counts so large that their measurements would not be exact.

    Args:
        sums: shape ``(steps, places)``.
        largest_entry: bound on a measurement, divided by the sum of all places.
    """
    most = float(np.abs(sums.astype(np.float64)).sum(axis=1).max(initial=0.0))
    refuse_overflow(
        most * largest_entry,
        LARGEST_MEASUREMENT - 1,
        lambda: (
            f"the counts of a step add up to {most:.3g}; at most "
            f"{LARGEST_MEASUREMENT / largest_entry:.3g} can be measured exactly: count in larger "
            "units"
        ),
    )


#: Noise stays within so many standard deviations, with as much room again for rounding.
_ROOM = 64


def most_read(bits: int, std: float) -> float:
    """Return the largest count whose sums are exact multiples of 2^-bits in float64.

    Args:
        bits: number of fractional bits.

    >>> most_read(16, 1.0) / 2**37
    0.99...
    """
    return 2.0 ** (53 - bits) - _ROOM * max(std, 1.0)

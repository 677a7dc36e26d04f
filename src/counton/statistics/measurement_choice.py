"""Base class of tables: statistics that choose the measured sums with the least error."""

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
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, Guarantee, PureDP
from counton.privacy.contribution import Relation
from counton.statistics.statistic import Statistic
from counton.statistics.tally_statistic import TallyStatistic, X
from counton.strategies.participation import Norm
from counton.tables.table_noise import LARGEST_MEASUREMENT

#: Largest number of times that one event counts.
_MOST_COUNTED = 2**32


class TableStatistic(TallyStatistic):
    """Base class of statistics whose released numbers form a table, such as counts by cell.

    If rows have no times, the table is released once; otherwise after every step.

    A measurement is the integer matrix that converts exact counts to the cells that get noise.
    Unless the caller states one, the best measurement for the kind of noise is chosen. In streams
    of several steps the matrix has smaller entries, because exact counts grow larger there.
    """

    counts_rows = True

    #: Neighbouring relation and the word for one protected unit; `_protect` sets them.
    neighbours: Relation
    unit: str
    #: Number of released counts, in words.
    size: str
    #: True if an event has a number that says how often it counts.
    counts = False

    #: Name of the parameter that holds the measurement, and the measurement; None: not yet chosen.
    _measured_by: ClassVar[str]
    _measurement: Any = None

    @abstractmethod
    def _choose(self, norm: Norm, horizon: int | None = None) -> Any:
        """Return the measurement matrix with the least error for a kind of noise.

        Args:
            norm: 1 for Laplace noise, 2 for Gaussian noise.
            horizon: number of steps; None: unknown or no end.
        """

    @cached_property
    def measurement(self) -> Any:
        """The matrix that is applied to exact counts before noise is added.

        Until `settle` has chosen it for the guarantee, it is the best one for Laplace noise.
        """
        return self._measurement or self._choose(1)

    def _with_measurement(self, measurement: Any) -> Self:
        return type(self)(**{**self.parameters, self._measured_by: measurement})

    def _best(self, norm: Norm, horizon: int | None = None) -> Self:
        """Return a copy of the statistic with the measurement matrix of least error for a kind of
        noise.

        ``norm`` is 1 for Laplace and 2 for Gaussian noise, ``horizon`` the number of steps (None:
        unknown or no end).
        """
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
        """The error that the best measurement matrix minimises.

        It is the square root of the mean variance of the statistic's numbers if each measured cell
        has noise with variance 1.
        """
        return self.error_of.mean

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return a copy with the measurement of least error under a guarantee.

        If the guarantee allows both Laplace and Gaussian noise, the best measurement for each is
        found, and the one with the smaller error is taken.
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
            one = plan_statistic(this, horizon, guarantee).best.errors.mean_std / this.error_of.mean
            return one * this.criterion

        return min((self._best(2, horizon), self._best(1, horizon)), key=error)

    def _protect(self, neighbours: Relation, unit: str | None, counts: bool = False) -> None:
        """Set the neighbouring relation and the protected unit.

        The unit is one event. With ``counts`` an event counts several times; then the unit is not
        the whole event, but a single count of it.
        """
        self.counts = self.counts_units = bool(counts)
        self.counts_rows = not counts
        one = Contribution(neighbours, 1, 1, unit="event" if unit is None else unit)
        self.neighbours, self.unit, self._stated = one.relation, one.unit, unit is not None

    def _common(self) -> dict[str, Any]:
        """Return the parameters that all tables have, as JSON values, without default values."""
        return self._parameters_of("counts", "neighbours", "unit")

    def _contribution_of(self, moved: Sensitivity, words: str) -> Contribution:
        """Return the contribution bound of a unit that changes the measured cells in one step.

        Args:
            moved: bounds on the 1-norm and the squared 2-norm of the change.
            words: a clause that describes the change.
        """
        pattern = BoundedChange(moved.l1, moved.l2_squared, once=True)
        return Contribution.of_pattern(pattern, words, relation=self.neighbours, unit=self.unit)

    def _count_of(self, event: Any, named: str) -> tuple[Any, int]:
        """Split an event into its value and the number of times that the event counts. Without
        ``counts`` the event itself is the value, and it counts once.

        Args:
            event: the event.
            named: the words for the value in error messages.

        Raises:
            InvalidInput: with ``counts``, the event is not a pair, or its number is not a whole
                number from 0 to 2^32.
        """
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
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        if not self.counts:
            return [(code, 1)]
        return [(code % self.places, code // self.places)]

    @override
    def row_bounds(self) -> tuple[int, int]:
        return (0, _MOST_COUNTED) if self.counts else (1, 1)

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """A sentence that describes how the table of counts is measured with noise."""

    @abstractmethod
    def spread(self, std: float) -> list[dict[str, Any]]:
        """Return a table of noise levels: one row for each kind of number, such as each level of a
        tree, with the largest standard deviation of this kind.

        Args:
            std: standard deviation of each measured cell.
        """

    def choices_in_words(self, guarantee: Guarantee) -> Sequence[tuple[str, str]]:
        """Return pairs of a title and words that list the possible measurements for one release,
        with their errors.
        """
        return ()

    def accuracy(self, guarantee: Guarantee, horizon: int = 1) -> list[dict[str, Any]]:
        """Return how accurate the table's numbers will be; this needs no data.

        Args:
            guarantee: the guarantee for all releases together.
            horizon: number of steps; 1 releases the table once.

        Returns:
            Rows as in `spread`. With several steps, ``std`` is an average over the steps (root of
                the mean variance), and ``largest_std`` belongs to the worst step.
        """
        from counton.statistics.statistic_plan import plan_statistic

        settled = self.settle(guarantee, horizon)
        errors = plan_statistic(settled, horizon, guarantee, batched=True).best.errors
        of = settled.error_of
        rows = settled.spread(errors.mean_std / of.mean)
        if horizon == 1:
            return rows
        worst = errors.max_std / of.largest / (errors.mean_std / of.mean)
        return [{**row, "largest_std": row["std"] * worst} for row in rows]


def refuse_inexact(sums: Integers, largest_entry: int) -> None:
    """Raise `SumOverflow` if exact counts are so large that the cells computed from them would not
    be exact.

    Args:
        sums: exact counts, shape ``(steps, places)``, one for each step and each sum over rows.
        largest_entry: largest absolute entry of the measurement matrix.
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


#: Room for noise and rounding, in standard deviations of the noise.
_ROOM = 64


def most_read(bits: int, std: float) -> float:
    """Return the largest count that stays exact in float64 when noise is added to it and the sum is
    rounded to a multiple of 2^-bits.

    Args:
        bits: number of fractional bits.
        std: standard deviation of the noise.

    >>> most_read(16, 1.0) / 2**37
    0.99...
    """
    return 2.0 ** (53 - bits) - _ROOM * max(std, 1.0)

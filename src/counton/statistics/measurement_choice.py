"""Base class of tables, which choose the measured sums with the least error."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import BoundedChange, Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import has_parts, is_whole, quote, refuse_overflow
from counton.privacy import ZCDP, ContributionBound, Guarantee
from counton.privacy.contribution import Relation
from counton.statistics.accumulator_statistic import AccumulatorStatistic, X
from counton.statistics.statistic import Statistic
from counton.strategies.participation import NORMS, Norm
from counton.tables.table_calibration import LARGEST_MEASUREMENT

#: Largest number of times that one event counts.
_MOST_COUNTED = 2**32


class TableStatistic(AccumulatorStatistic):
    """Base class of statistics whose released numbers form a table.

    If rows have no times, the table is released once. A measurement is the integer matrix from
    exact counts to the cells that get noise; by default the best one for the kind of noise. In
    streams of several steps its entries are smaller, because exact counts grow larger there.
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
        """Return the best measurement for Laplace (1) or Gaussian (2) noise."""

    @cached_property
    def measurement(self) -> Any:
        """The matrix of the measured sums; until `resolve_parameters`, the best one for Laplace
        noise."""
        return self._measurement or self._choose(1)

    def _with_measurement(self, measurement: Any) -> Self:
        return type(self)(**{**self.parameters, self._measured_by: measurement})

    @override
    def allows(self, other: Statistic) -> bool:
        if self._measurement is not None or not isinstance(other, type(self)):
            return self == other

        def terms(statistic: TableStatistic) -> dict[str, Any]:
            return {**statistic.parameters, "unit": statistic.unit, statistic._measured_by: None}

        return terms(self) == terms(other)

    @property
    @override
    def largest_entry(self) -> int:
        entry: int = self.measurement.largest_entry
        return entry

    @property
    def criterion(self) -> float:
        """The error that the best measurement minimises: the square root of the mean variance of
        the numbers, for variance 1 of a cell.
        """
        return self.error_of.mean

    def resolve_parameters(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return a copy with the measurement of least error.

        Of the best ones for Laplace and for Gaussian noise, the one with the smaller error is
        taken.
        """
        if self._measurement is not None:
            return self
        norms: tuple[Norm, ...] = (NORMS[guarantee.families[-1]],)
        large = isinstance(guarantee, ZCDP) and guarantee.rho > 2 and horizon == 1
        if horizon is not None and (large or len(guarantee.families) > 1):
            norms = (2, 1)
        candidates = [self._with_measurement(self._choose(norm, horizon)) for norm in norms]
        if len(candidates) == 1:
            return candidates[0]
        from counton.statistics.statistic_plan import plan_statistic

        def error(statistic: Self) -> float:
            relative_error = (
                plan_statistic(statistic, horizon, guarantee).best.errors.mean_std
                / statistic.error_of.mean
            )
            return relative_error * statistic.criterion

        return min(candidates, key=error)

    def _protect(self, neighbours: Relation, unit: str | None, *, counts: bool = False) -> None:
        """Set the relation and the protected unit: an event, or with ``counts`` a count of it."""
        self.counts = self.counts_units = bool(counts)
        self.counts_rows = not counts
        contribution = ContributionBound(neighbours, unit="event" if unit is None else unit)
        self.neighbours = contribution.relation
        self.unit = contribution.unit
        self._stated = unit is not None

    def _contribution_of(self, moved: Sensitivity, words: str) -> ContributionBound:
        """Return the bound of a unit that changes the measured cells by ``moved`` in one step."""
        pattern = BoundedChange(moved.l1, moved.l2_squared, single_step=True)
        return ContributionBound.of_pattern(
            pattern, words, relation=self.neighbours, unit=self.unit
        )

    def _count_of(self, event: object, named: str) -> tuple[object, int]:
        """Return an event's value, and the number of times that it counts."""
        if not self.counts:
            return event, 1
        if not has_parts(event, 2):
            raise InvalidInputError(
                f"an event is {quote(event)}; give pairs: {named}, and how often it counts"
            )
        value, count = event
        if not is_whole(count) or not 0 <= count <= _MOST_COUNTED:
            raise InvalidInputError(
                f"an event counts {quote(count)} times; it must be a whole number from 0 to 2^32"
            )
        return value, count

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        if not self.counts:
            return [(code, 1)]
        return [(code % self.n_accumulators, code // self.n_accumulators)]

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 0, self.n_accumulators * (_MOST_COUNTED * self.counts + 1) - 1

    @override
    def row_bounds(self) -> tuple[int, int]:
        return (0, _MOST_COUNTED) if self.counts else (1, 1)


def refuse_inexact_measurements(sums: Integers, largest_entry: int) -> None:
    """Raise `SumOverflowError` if cells computed from ``sums`` might not be exact;
    ``largest_entry`` is the largest absolute entry of the measurement matrix.
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
_ROOM_STDS = 64


def most_read(bits: int, std: float) -> float:
    """Return the largest count that stays exact in float64 with noise and 2^-bits.

    >>> most_read(16, 1.0) / 2**37
    0.99...
    """
    return 2.0 ** (53 - bits) - _ROOM_STDS * max(std, 1.0)

"""The distribution of values over time: counts in ranges, medians and other quantiles.

An integer matrix C_cells is applied to each step's exact histogram, and the measured sums are
counted over time: the strategy C_time x C_cells. A value is in one cell of one step, so the
sensitivities multiply. The number of values below an edge is linear in the released sums: its
variance is that of one sum times that of the linear function for sums of variance 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from counton.base.arguments import numbers_of
from counton.base.arrays import Floats, Integers, read_only
from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError, MissingOptionError, param
from counton.base.exact import check_integer, exact, quote, quote_name, quoted_numbers
from counton.base.systematic_error import SystematicError
from counton.continual.comparisons import Answer, answer
from counton.continual.formulas import ClosedForm, Estimate, TableNumbers
from counton.continual.intervals import check_confidence_level
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ContributionBound, value_grid
from counton.privacy.contribution import Relation
from counton.statistics.accumulator_statistic import Part
from counton.statistics.measurement_choice import TableStatistic
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import ErrorScale, Events, Statistic
from counton.strategies.strategy import Norm
from counton.tables import LineStrategy, Prefixes
from counton.tables.line_catalogue import NAMES, line_over_time, serves
from counton.tables.saved_lines import line_strategy_from_dict

_MOST_CELLS = 2**16
#: Largest number of compared entries with which all pairs of a matrix's columns are compared.
_MOST_DISTANCES = 2**25
_LARGEST_SUM = 2**62
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def checked_shares(values: str | float | Sequence[object]) -> tuple[float, ...]:
    """Parse shares between 0 and 1, without duplicates.

    >>> checked_shares("0.25, 0.5"), checked_shares(0.5)
    ((0.25, 0.5), (0.5,))
    """
    several: Any = numbers_of(values, "shares") if isinstance(values, str) else values
    try:
        shares = [
            float(share) for share in (several if hasattr(several, "__iter__") else [several])
        ]
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{param('shares')} has an entry that is not a number; try 0.5, the median"
        ) from None
    if not shares or not all(0 < share < 1 for share in shares):
        words = values if isinstance(values, str) else ",".join(map(str, shares))
        raise InvalidInputError(
            f"{param('shares', words)} must be numbers above 0 and below 1; try 0.5, the median"
        )
    return tuple(dict.fromkeys(shares))


class Quantile(NamedTuple):
    """A quantile with its interval: ``share`` of all values lie below ``value``."""

    share: float
    value: float
    lower: float
    upper: float


class QuantilesResult(StatisticResult):
    """The released distribution of values."""

    statistic: Quantiles

    @cached_property
    def _below(self) -> Floats:
        """Released number of values below each edge; noise may make it fall."""
        counts = self.statistic.line.estimate(np.asarray(self.release.value, np.float64))
        sums: Floats = read_only(np.concatenate([[0.0], np.cumsum(counts)]))
        return sums

    def _halves(self, variances: Floats, confidence_level: float) -> Floats:
        """Return half-widths of linear functions, given their variances for sums of variance 1."""
        std = self.cells.std * np.sqrt(variances)
        return self.cells.halfwidths(std, confidence_level, self.statistic.line.measurements)

    def between(
        self, low: float | None = None, high: float | None = None, confidence_level: float = 0.95
    ) -> Answer:
        """Return the released number of values in [low, high).

        ``low`` and ``high`` are edges of cells; None: the first or the last.

        Raises:
            InvalidInputError: no edges, edges that do not ascend, or a level outside (0, 1 - 1e-9].
        """
        ends = f"from {low} to below {high}" if low is not None or high is not None else "in all"
        return answer(self._between(low, high), confidence_level, what=f"values {ends}")

    def _between(self, low: float | None, high: float | None) -> ClosedForm:
        statistic = self.statistic
        first = 0 if low is None else statistic.edge(low)
        last = statistic.n_accumulators if high is None else statistic.edge(high)
        if first >= last:
            raise InvalidInputError(f"low is {low!r} and high is {high!r}: low must be below high")
        variance = statistic.line.variance(np.array([first]), np.array([last]))
        value = float(self._below[last] - self._below[first])
        std = self.cells.std * math.sqrt(float(variance[0]))
        return ClosedForm.symmetric(
            value, lambda confidence_level: float(self._halves(variance, confidence_level)[0]), std
        )

    def quantile(self, share: float, confidence_level: float = 0.95) -> Quantile:
        """Return the value below which ``share`` of all values lie, with an interval.

        The true quantile is the smallest value v, clipped to the edges, such that at least this
        share of the values is v or less. The estimate assumes that values are spread evenly over
        each cell. The interval reaches from the first to the last cell that could hold the true
        quantile, for one share at one step.

        Raises:
            InvalidInputError: the share or the level is out of range.
        """
        # The estimated numbers of values below each edge are made monotone and inverted.
        #
        # The true quantile lies in one cell, [e, f). A cell is left out in two cases. Its upper
        # edge has too few values below it: fewer than `share` of all by more than the half-width of
        # this difference, which is a linear function of the released rows. Or its lower edge has
        # too many. Each test leaves the true cell out with probability at most (1 - level) / 2;
        # other cells do not matter.
        statistic = self.statistic
        confidence_level = check_confidence_level(confidence_level)
        part = _checked_share(share)
        excess = self._below - part * self._below[-1]
        half = self._halves(statistic.excess_variance(part), confidence_level)
        # The first possible cell; the very first if there is none, so that none is left out.
        first = int(np.argmax(excess[1:] >= -half[1:]))
        last = statistic.n_accumulators - int(np.argmax((excess[:-1] < half[:-1])[::-1]))
        value = self._estimate(part)
        lower = min(value, float(statistic.edges[first]), float(statistic.edges[last]))
        upper = max(value, float(statistic.edges[first]), float(statistic.edges[last]))
        return Quantile(part, value, lower, upper)

    @override
    def number_of(self, name: Any = None) -> Estimate:
        if not isinstance(name, (tuple, list)):
            return self.numbers(TableRequest([0.5 if name is None else name])).numbers.selected(0)
        if len(name) != 2:
            raise InvalidInputError(
                f"{quote_name(name)} names no number of values; give the two ends of a range, such "
                "as (0, 30)"
            )
        low, high = name
        return self._between(low, high)

    @cached_property
    def monotone(self) -> Floats:
        """Released number of values below each edge, adjusted so that it never falls."""
        highest_before = np.maximum.accumulate(self._below)
        lowest_after = np.minimum.accumulate(self._below[::-1])
        fitted: Floats = read_only(np.maximum((highest_before + lowest_after[::-1]) / 2, 0.0))
        return fitted

    def cell_at(self, share: float) -> int | None:
        """Return the cell of the estimated quantile; None: released counts are not positive."""
        if (whole := self.monotone[-1]) <= 0:
            return None
        place = int(np.searchsorted(self.monotone, share * whole)) - 1
        return min(max(place, 0), self.statistic.n_accumulators - 1)

    def _estimate(self, share: float) -> float:
        """Return the quantile by inverting `monotone`, linearly within a cell."""
        edges = self.statistic.edges
        below = self.monotone
        cell = self.cell_at(share)
        if cell is None:
            return float(edges[0] + edges[-1]) / 2
        inside = (share * below[-1] - below[cell]) / max(below[cell + 1] - below[cell], 1e-300)
        return float(edges[cell] + (edges[cell + 1] - edges[cell]) * min(max(inside, 0.0), 1.0))

    def median(self, confidence_level: float = 0.95) -> Quantile:
        """Return ``quantile(0.5)``."""
        return self.quantile(0.5, confidence_level)

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        requested = self.statistic.shares if request.ask is None else request.ask
        shares = [_checked_share(share) for share in requested]

        def ends(confidence_level: float) -> tuple[Floats, Floats]:
            answers = [self.quantile(share, confidence_level) for share in shares]
            return np.array([answer.lower for answer in answers]), np.array(
                [answer.upper for answer in answers]
            )

        values = ClosedForm(np.array([self._estimate(share) for share in shares]), ends)
        return TableNumbers({"quantile": np.array(shares)}, values)


class Quantiles(TableStatistic):
    """Quantiles of values, and the number of values between two edges, over time.

    An event is a number, in the cell from one edge up to, but not including, the next. Numbers
    below the first edge count in the first cell, at or above the last edge in the last. NaN and
    infinity are refused.

    Args:
        edges: ascending, at least two.
        lower, upper, cells: instead, two bounds and the number of cells of equal width.
        shares: quantiles that a table shows; None: 0.1, 0.25, 0.5, 0.75 and 0.9. Others can be
            computed from a release too, at no further cost.
        line: the strategy for cells, its name or `to_dict`. None: the one with the least error of
            counts below an edge, among independent cells, differences of neighbours (Haar),
            hierarchies and, up to 256 cells, dense matrices.
        neighbours: "add_remove", or "replace" within the same step.
        unit: the word for one protected unit.

    Raises:
        InvalidInputError: edges that do not ascend, no cells or more than 2^16, shares that do not
            lie between 0 and 1, or an unknown strategy.

    Sensitivity: exactly that of the strategy over time times that of the strategy for the cells. If
    a value is replaced, the latter is the largest distance of two columns of the matrix.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import Quantiles
    >>> delays = Quantiles(lower=0, upper=120, cells=24)
    >>> counter = RunningStatistic.start(
    ...     delays, 24, ZCDP(2), key=Key.generate(), name="delays", batched=True
    ... )
    >>> hour = counter.release_batch([10] * 300 + [40] * 500 + [90] * 100)
    >>> median = hour.quantile(0.5)
    >>> median.lower <= 40 < median.upper, abs(hour.between(35, 50).value - 500) < 60
    (True, True)
    """

    is_table = True
    result_type = QuantilesResult
    keyword = "quantiles"
    example = "value=seconds lower=0 upper=600 cells=60"
    says = "How values are distributed: median and other quantiles."
    phrase = "distribution of {value} over ranges from {first} to {last}, with its quantiles,"
    unit_word = "{value}"
    also_called = ("median", "quantile", "percentile", "percentiles")
    in_rank = True
    known_beforehand = ()
    shows = ("shares", "over")
    event = "value"
    parts = (Part("value"),)

    def __init__(
        self,
        edges: Sequence[float] | None = None,
        *,
        lower: float | None = None,
        upper: float | None = None,
        cells: int | None = None,
        shares: str | float | Sequence[float] | None = None,
        line: str | Mapping[str, object] | LineStrategy | None = None,
        neighbours: Relation = "add_remove",
        unit: str | None = None,
    ) -> None:
        self.edges = ends = _edges_of(edges, lower, upper, cells)
        self.n_accumulators = len(ends) - 1
        self.size = f"quantiles over {self.n_accumulators:,} cells"
        self.shares = _SHARES if shares is None else checked_shares(shares)
        self._protect(neighbours, unit)
        self._named: str | None = None
        if isinstance(line, str):
            names = [name for name in NAMES if serves(name, Prefixes(self.n_accumulators), 1, 1)]
            self._named = line
            if line not in names:
                raise InvalidInputError(f"line is {line!r}; give one of {', '.join(names)}")
        elif line is not None:
            strategy = line_strategy_from_dict(line) if isinstance(line, Mapping) else line
            if strategy.cells != self.n_accumulators:
                raise InvalidInputError(
                    f"line is made for {strategy.cells:,} cells, but the edges make "
                    f"{self.n_accumulators:,} cells: build it for that number"
                )
            self._measurement = strategy

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        line = self._named if self._measurement is None else self._measurement.to_dict()
        shares = {} if self.shares == _SHARES else {"shares": [*self.shares]}
        parameters = {
            "edges": self.edges.tolist(),
            **shares,
            **({} if line is None else {"line": line}),
        }
        return {**parameters, **self._parameters_of("counts", "neighbours", "unit")}

    def __repr__(self) -> str:
        cells = f"{self.n_accumulators:,} cells from {self.edges[0]:g} to {self.edges[-1]:g}"
        measurement = "" if self._measurement is None else f", {self._measurement.name}"
        return f"Quantiles({cells}{measurement})"

    _measured_by = "line"

    @property
    def line(self) -> LineStrategy:
        line: LineStrategy = self.measurement
        return line

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.line.measurements,)

    @override
    def _choose(self, norm: Norm, horizon: int | None = None) -> LineStrategy:
        workload = Prefixes(self.n_accumulators)
        return line_over_time(workload, norm, self._named, self.neighbours, _line_sensitivity)

    @override
    def allows(self, other: Statistic) -> bool:
        named = not isinstance(other, Quantiles) or self._named in (None, other.line.name)
        return super().allows(other) and named

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return self._contribution_of(
            _line_sensitivity(self.line, self.neighbours),
            f"whose value counts in one of {self.n_accumulators:,} cells, which are measured "
            "together",
        )

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        low, high = (f"{self.edges[place]:.12g}" for place in (0, -1))
        return (
            SystematicError(
                f"values outside {low} to {high}",
                "are counted at the nearer end, so that quantiles outside this range are shown "
                "at its ends",
            ),
        )

    @override
    def check_asked(self, name: Any) -> None: ...  # a share is checked when it is read

    @property
    @override
    def error_of(self) -> ErrorScale:
        """The numbers of values below each edge but the first, below which no value lies.

        >>> from counton import PureDP, plan
        >>> alone = Quantiles(lower=0, upper=4, cells=4, line="identity")
        >>> errors = plan(1, PureDP(1), of=alone).best.errors  # sums of 1, 2, 3, 4 cells
        >>> round(errors.max_std / errors.mean_std, 6) == round((4 / 2.5) ** 0.5, 6)
        True
        """
        meaning = "how many values lie below an edge, over all steps and edges"
        return ErrorScale.from_variances(meaning, self._variances[0][1:])

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        values = value_grid.finite(events)
        if values.ndim != 1:
            raise InvalidInputError(
                f"values have shape {values.shape}; give a flat list of numbers, one for each event"
            )
        return (values,)

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return the cell of each value: int64."""
        places = np.searchsorted(self.edges, parts[0], "right") - 1
        return np.asarray(np.clip(places, 0, self.n_accumulators - 1), np.int64)

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        if rows is None:
            return None
        per_cell, remainder = divmod(rows, self.n_accumulators)
        before = (
            remainder * np.arange(self.n_accumulators + 1, dtype=np.int64) // self.n_accumulators
        )
        even = per_cell + np.diff(before)
        return np.asarray(self.measure(even[None, :])[0], np.int64)

    @override
    def gives(self, place: int | None) -> Mapping[str, Any]:
        return {"count": (None, None)} if place is None else {}

    @override
    def measure(self, sums: Integers) -> Integers:
        rows = self.line.measure(np.ascontiguousarray(sums.T))
        return np.ascontiguousarray(rows.T).astype(np.int64)

    def edge(self, value: Any) -> int:
        """Return the index of an edge.

        Args:
            value: the edge itself, in the unit of the values.

        Raises:
            InvalidInputError: ``value`` is no edge; the message names the nearest edges.
        """
        place = int(np.searchsorted(self.edges, value))
        if place < len(self.edges) and self.edges[place] == value:
            return place
        near = self.edges[max(place - 1, 0) : place + 1].tolist()
        raise InvalidInputError(
            f"{quote(value)} is not an edge of a cell: ask for "
            f"{' or '.join(f'{e:g}' for e in near)}"
        )

    def excess_variance(self, share: float) -> Floats:
        """Return the excess variance of the number of values below each edge.

        The excess of an edge is the number of values below it, minus ``share`` times the number of
        all values.

        Args:
            share: the share of all values, from 0 to 1.

        Returns:
            One variance for each edge, for measured sums of variance 1.

        >>> Quantiles([0, 1, 2], line="identity").excess_variance(0.25).tolist()
        [0.125, 0.625, 1.125]
        """
        below, above = self._variances
        # The number is (1 - share) of the values below the edge minus share of those from it on.
        both = (below[-1] - below - above) / 2
        variances = (1 - share) ** 2 * below + share**2 * above - 2 * share * (1 - share) * both
        return np.asarray(np.maximum(variances, 0.0))

    @cached_property
    def _variances(self) -> tuple[Floats, Floats]:
        """Variances of the numbers below, and at or above, each edge, for sums of variance 1."""
        ends = np.arange(self.n_accumulators + 1)
        nothing = [0.0]
        below = self.line.variance(np.zeros(self.n_accumulators, np.int64), ends[1:])
        above = self.line.variance(ends[:-1], np.full(self.n_accumulators, self.n_accumulators))
        return np.concatenate([nothing, below]), np.concatenate([above, nothing])


def _checked_share(share: Any) -> float:
    try:
        part = float(share)
    except (TypeError, ValueError):
        part = math.nan
    if not 0 < part < 1:
        raise InvalidInputError(f"share is {quote(share)}; it must be above 0 and below 1: try 0.5")
    return part


def _edges_of(edges: object, lower: Any, upper: Any, cells: object) -> Floats:
    even = (lower, upper, cells)
    if (edges is None) == (None in even) or (edges is not None and even != (None,) * 3):
        raise MissingOptionError(
            "the edges of cells are missing: give edges, or lower, upper and cells",
            [] if edges is not None else ["lower", "upper", "cells"],
        )
    if edges is None:
        low = exact(lower, "lower")
        high = exact(upper, "upper")
        count = check_integer("cells", cells, 1, _MOST_CELLS)
        edges = [float(low + (high - low) * Fraction(place, count)) for place in range(count + 1)]
    try:
        ends = np.asarray(edges, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"edges are {quoted_numbers(edges)}; give a list of numbers"
        ) from None
    ascend = ends.ndim == 1 and np.isfinite(ends).all() and (np.diff(ends) > 0).all()
    if not ascend or not 2 <= len(ends) <= _MOST_CELLS + 1:
        raise InvalidInputError(
            f"edges are {quoted_numbers(edges)}; give two to 65,537 finite numbers in ascending "
            "order"
        )
    checked_edges: Floats = read_only(ends)
    return checked_edges


@lru_cache(maxsize=64)
def _line_sensitivity(line: LineStrategy, relation: Relation) -> Sensitivity:
    """Bound how much one value changes the measured sums.

    With "replace" it is the largest distance of two columns. All pairs are compared; if there are
    too many, an upper bound is returned.

    >>> line = Quantiles([0, 1, 2, 3], line="haar").line
    >>> line.sensitivities("move").l1, _line_sensitivity(line, "replace").l1
    (612, 465)
    """
    if relation != "replace":
        return line.sensitivities("add_remove")
    bound = line.sensitivities("move")
    is_large = line.cells**2 * line.measurements > _MOST_DISTANCES or line.cells == 1
    if is_large or 4 * line.largest_entry**2 * line.measurements > _LARGEST_SUM:
        return bound
    columns = line.matrix().T
    l1 = 1
    l2_squared = 1
    for place in range(1, line.cells):
        distances = np.abs(columns[:place] - columns[place])
        l1 = max(l1, int(distances.sum(axis=1).max()))
        l2_squared = max(l2_squared, int((distances**2).sum(axis=1).max()))
    return Sensitivity(min(l1, bound.l1), min(l2_squared, bound.l2_squared))

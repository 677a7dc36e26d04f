"""A report: several statistics of the same rows under one guarantee.

A row is one event for all statistics together. The cells of each are multiplied by a whole number,
the statistic's weight; then all get noise of one distribution, so that a larger weight means a
smaller error and a larger share of the budget. Statistics divide the budget by their shares.

A number that follows from another statistic is not measured twice: the number of rows from any
statistic that counts them, a sum or an average from an average or moments of the same column.
"""

# Let D1_k and D2_k bound the change by one unit in the cells of statistic k, and w_k be its weight.
# Then a unit changes the report's cells by
#
#     sum_k w_k D1_k  in the 1-norm,  and  (sum_k (w_k D2_k)^2)^(1/2)  in the 2-norm,
#
# since no cell belongs to two statistics.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arguments import split_names
from counton.base.arrays import Column, Floats, Integers, IntegersOrFloats
from counton.base.columns import BETWEEN, MISSING, OUTSIDE
from counton.base.distributions import BoundedChange, scaled_norms
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer, has_parts, quote, quote_name, refuse_overflow
from counton.continual.design import Design
from counton.continual.formulas import Estimate, TableNumbers, join_numbers
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ZCDP, ApproxDP, ContributionBound, Guarantee, PureDP, value_grid
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, RankDigit, X
from counton.statistics.by_group import Grouped, GroupedResult
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.cells import Cells
from counton.statistics.report_budget import part_design, weights_for_noise
from counton.statistics.report_members import (
    GroupedRows,
    checked_name,
    fitting,
    is_pair,
    norms_of,
    norms_of_people,
    shares_by_name,
    whole_weights,
)
from counton.statistics.results import StatisticResult, read_cells
from counton.statistics.statistic import ErrorScale, Events, OwnColumns, Statistic
from counton.strategies.participation import NORMS
from counton.tables.table_calibration import LARGEST_MEASUREMENT


class ReportResult(StatisticResult):
    """The released numbers of all statistics of a report.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Average, Count, Report
    >>> report = Report({"rows": Count(), "paid": Average(0, 9, 1)}, columns={"paid": "paid"})
    >>> counter = RunningStatistic.start(
    ...     report, 1, PureDP(1), key=Key.generate(), name="r", batched=True
    ... )
    >>> result = counter.release_batch([{"paid": 3}])
    >>> list(result.parts)
    ['rows', 'paid']
    """

    statistic: Report

    def of(self, name: str) -> StatisticResult:
        """Return the released numbers of one statistic; `InvalidInputError` for an unknown name."""
        self.statistic.statistic(name)
        return self.statistic.read_part(name, self.cells)

    @property
    def parts(self) -> dict[str, StatisticResult]:
        """The result of each statistic by its name."""
        return {name: self.of(name) for name in self.statistic.statistics}

    @override
    def number_of(self, name: Any = None) -> Estimate:
        if isinstance(name, tuple) and len(name) == 2:
            return self.of(name[0]).number_of(name[1])
        called = "" if name is None else name
        for part in sorted(self.statistic.statistics, key=len, reverse=True):
            if called == part:
                return self.of(part).number_of()
            if called.startswith(f"{part} "):
                rest = called[len(part) + 1 :]
                with suppress(InvalidInputError):
                    return self.of(part).number_of(rest)
                return self.of(part).number_of(rest.partition(" ")[2] or rest)  # without its level
        first = next(iter(self.statistic.statistics))
        raise InvalidInputError(
            f"{quote_name(name)} names no number of the report: give the name of a statistic "
            f"({', '.join(self.statistic.statistics)}), and after it the name of its number if it "
            f"has several, such as {f'{first} mean'!r}"
        )

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        every_row = TableRequest(running_totals=request.running_totals)
        parts = {name: result.numbers(every_row) for name, result in self.parts.items()}
        n_rows = {name: np.size(part.numbers.value) for name, part in parts.items()}
        present = {column for part in parts.values() for column in part.about}
        about = {"statistic": np.repeat(np.array([*parts], dtype=object), [*n_rows.values()])}
        groups = [_groups_of_rows(part.about, n_rows[name]) for name, part in parts.items()]
        if any(group is not None for part_groups in groups for group in part_groups):
            about["group"] = np.concatenate(groups)
        if "measure" in present:
            about["measure"] = np.concatenate(
                [
                    part.about.get("measure", np.full(n_rows[name], None)).astype(object)
                    for name, part in parts.items()
                ]
            )
        if "quantile" in present:
            about["quantile"] = np.concatenate(
                [
                    part.about.get("quantile", np.full(n_rows[name], np.nan))
                    for name, part in parts.items()
                ]
            )
        return TableNumbers(about, join_numbers([part.numbers for part in parts.values()]))


def _groups_of_rows(about: Mapping[str, Column], n_rows: int) -> Column:
    """Return the group of each row of a statistic, such as its node in a tree; None: there is none.

    Args:
        about: the columns that describe the rows.
        n_rows: number of the rows.
    """
    names = [
        values
        for name, values in about.items()
        if name not in ("rank", "measure", "quantile", "tree_level")
    ]
    groups = np.full(n_rows, None, dtype=object)
    for row in range(n_rows):
        texts = [str(values[row]) for values in names if values[row] is not None]
        groups[row] = BETWEEN.join(texts) or None
    return groups


class FollowedResult(StatisticResult):
    """The numbers of a statistic without noise of its own, taken from another's."""

    def __init__(
        self, statistic: Statistic, result: StatisticResult, rows: Mapping[Any, Any]
    ) -> None:
        super().__init__(statistic, result.cells)
        self._result = result
        self._rows = rows

    @property
    @override
    def number_names(self) -> Sequence[Any]:
        return [*self._rows]

    @override
    def number_of(self, name: Any = None) -> Estimate:
        place = next(iter(self._rows.values()), None)
        if len(self._rows) > 1 or name is not None:
            if name not in self._rows:
                raise InvalidInputError(
                    f"name is {quote_name(name)}, which is not known; the numbers are "
                    f"{', '.join(map(str, self._rows))}"
                )
            place = self._rows[name]
        return self._result.number_of(place)

    @override
    def since(self, earlier: StatisticResult) -> Self:
        assert isinstance(earlier, FollowedResult)
        return type(self)(self.statistic, self._result.since(earlier._result), self._rows)


#: Largest number of different codes of a row. A row's code is one integer for all statistics.
_MOST_CODES = 2**62
_MOST_STATISTICS = 64


class Report(AccumulatorStatistic):
    """Several statistics of the same rows, under one guarantee and one contribution bound.

    An event is a mapping from columns to values, or a sequence in the order of ``column_names``. A
    row with a value that one statistic refuses counts in none.

    Args:
        statistics: by name, or pairs of a name and a `statistic_to_dict`.
        columns: what each statistic reads, in the order of its `AccumulatorStatistic.parts`; by
            default their names.
        groups: for statistics counted by group, the names of the groups. The first of its columns
            then names the group.
        shares: how the budget is divided among the statistics; by default equally.
        size: public number of rows at the last step, with which the stream was planned.
        most: the largest number of rows of one user that count.
        weights: of each measured statistic; None: `resolve_parameters` chooses them.
        unit: the word for one row.

    Raises:
        InvalidInputError: a statistic needs its rows in order, or protects something else than one
            row added or removed; the columns do not fit; or the integer that encodes a row needs
            over 62 bits.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Average, Count
    >>> daily = Report(
    ...     {"visits": Count(), "paid": Average(0, 100, resolution=1)}, columns={"paid": "paid"}
    ... )
    >>> counter = RunningStatistic.start(
    ...     daily, 30, PureDP(1), key=Key.generate(), name="daily", batched=True
    ... )
    >>> day = counter.release_batch([{"paid": 20}, {"paid": 70}] * 500)
    >>> low, high = day.of("paid").interval("mean", 1 - 1e-9)
    >>> low <= 45 <= high, list(day.table_columns())
    (True, ['window_index', 'statistic', 'measure', 'estimate', 'noise_std', 'lower', 'upper',
        'confidence_level'])
    """

    result_type = ReportResult
    keyword = "report"
    example = "statistics=numbers.json"
    example_file = (
        "numbers.json",
        '{"top":{"statistic":"top-k","group-by":"page","groups":"home,shop"}}\n',
    )
    says = "Several statistics of the same rows, under one guarantee and one bound on people."
    phrase = "report of {statistics}"
    also_called = ("several", "dashboard")
    unit_word = ""
    event = "row"

    def __init__(
        self,
        statistics: Mapping[str, Statistic | Mapping[str, object]] | Sequence[object],
        *,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        shares: Mapping[str, float] | None = None,
        size: int | None = None,
        most: int = 1,
        weights: Mapping[str, int] | None = None,
        unit: str | None = None,
    ) -> None:
        self.statistics: dict[str, AccumulatorStatistic] = _members(statistics, groups or {})
        for name in groups or ():
            self.statistic(name)
        self.columns = self._columns(columns or {})
        self.column_names, self.parts = self._parts()
        numbers = tuple(part.name for part in self.parts if part.kind != "label")
        self.own_columns = OwnColumns(self.column_names, numbers)
        self._base = 0 if self.parts else 1  # a row without columns has code 1
        self._refuse_only_rows()
        named = [source for statistic in self.statistics.values() for source in statistic.sources]
        is_known = any(
            statistic.known_beforehand is not None for statistic in self.statistics.values()
        )
        self.sources = tuple(dict.fromkeys(named))
        self.known_beforehand = () if is_known else None
        self.size = None if size is None else check_integer("size", size, 1, 2**60)
        self.shares = shares_by_name(shares, self.statistics)
        self.most = check_integer("most", most, 1, 2**20)
        self._call_units(unit)
        self.weights = None if weights is None else whole_weights(weights, self.measured_ones)
        self.n_accumulators = sum(
            statistic.n_accumulators for statistic in self.measured_ones.values()
        )
        self._refuse_large_codes()

    def _refuse_only_rows(self) -> None:
        """Refuse a report whose statistics read no column and rank no group."""
        ranked = any(statistic.counted_ranks for statistic in self.statistics.values())
        if not self.parts and not ranked:
            raise InvalidInputError(
                "no statistic of the report reads a column, so it would only count rows: release "
                "count instead"
            )

    def _refuse_large_codes(self) -> None:
        """Refuse values that do not fit the code of a row."""
        largest_code = self.code_bounds()[1]
        if largest_code >= _MOST_CODES or math.prod(map(len, self.spans)) >= _MOST_CODES // 2**20:
            raise InvalidInputError(
                "the values that the report reads from one row take more than 62 bits: give a "
                "coarser resolution, fewer cells, or two reports"
            )

    # Statistics and columns.

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, object] = {
            "statistics": [
                [name, statistic_to_dict(statistic)] for name, statistic in self.statistics.items()
            ],
            "columns": {name: [*names] for name, names in self.columns.items() if names},
        }
        for name, value in (
            ("shares", self.shares),
            ("size", self.size),
            ("weights", self.weights),
        ):
            if value:
                parameters[name] = dict(value) if isinstance(value, Mapping) else value
        return {**parameters, **self._parameters_of("most", "unit")}

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {type(statistic).__name__}" for name, statistic in self.statistics.items()
        )
        return f"Report({parts})"

    def _columns(self, columns: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
        for name in columns:
            self.statistic(name)
        columns_by_statistic = {}
        for name, statistic in self.statistics.items():
            names = tuple(part.name for part in statistic.parts)
            listed = columns.get(name)
            if listed is not None:
                names = split_names(listed)
            if len(names) != len(statistic.parts) or not all(names):
                raise InvalidInputError(
                    f"columns of {name!r} are {', '.join(names) or 'none'}, but {statistic!r} "
                    f"reads {len(statistic.parts)} columns: "
                    f"{', '.join(part.name for part in statistic.parts)}; give a column for each"
                )
            columns_by_statistic[name] = names
        return columns_by_statistic

    def _parts(self) -> tuple[tuple[str, ...], tuple[Part, ...]]:
        """Return each column that the statistics read, with its description."""
        parts: dict[str, Part] = {}
        for name, statistic in self.statistics.items():
            for column, part in zip(self.columns[name], statistic.parts, strict=True):
                before = parts.setdefault(column, Part(column, part.kind, part.labels))
                if before.kind != part.kind:
                    raise InvalidInputError(
                        f"column {column!r} would be read as {before.kind}s by one statistic of "
                        f"the report and as {part.kind}s by another: give one of them another "
                        "column"
                    )
                labels = tuple(dict.fromkeys((*before.labels, *part.labels)))
                parts[column] = Part(column, part.kind, labels)
        return tuple(parts), tuple(parts.values())

    def statistic(self, name: object) -> AccumulatorStatistic:
        """Return a statistic of the report.

        Args:
            name: its name in the report.

        Raises:
            InvalidInputError: the report has no statistic of this name.
        """
        if not isinstance(name, str) or name not in self.statistics:
            raise InvalidInputError(
                f"{quote(name)} is not a statistic of the report, which has "
                f"{', '.join(self.statistics)}: give one of these"
            )
        return self.statistics[name]

    # Measured statistics, and those that follow from them.

    @cached_property
    def derived_from(self) -> dict[str, str]:
        """For each statistic that is not measured, the one that provides its numbers."""
        names = [*self.statistics]

        def says(other: str, name: str) -> bool:
            return other != name and self._answers_from(name, other) is not None

        kept = {
            name
            for place, name in enumerate(names)
            if not any(
                says(other, name) and not (says(name, other) and other_place > place)
                for other_place, other in enumerate(names)
            )
        }
        sources = {
            name: next((other for other in names if other in kept and says(other, name)), None)
            for name in names
            if name not in kept
        }
        return {name: source for name, source in sources.items() if source is not None}

    def _answers_from(self, name: str, source_name: str) -> dict[Any, Any] | None:
        """Map each number of one statistic to the equal number of another one, the source.

        None: some are lacking. If both round values, the resolution of the source may be finer.
        """
        statistic = self.statistics[name]
        source = self.statistics[source_name]
        columns = self.columns[name]
        source_columns = self.columns[source_name]
        if not statistic.asks or len(columns) > 1 or not {*columns} <= {*source_columns}:
            return None
        place = source_columns.index(columns[0]) if columns else None
        answers = source.gives(place)
        if not {*statistic.asks} <= {*answers}:
            return None
        if place is not None:
            bounds = statistic.bounds_of(0)
            source_bounds = source.bounds_of(place)
            if bounds is None or source_bounds is None or bounds[:2] != source_bounds[:2]:
                return None
            if bounds[2] < source_bounds[2]:
                return None
        return {(ask if len(statistic.asks) > 1 else None): answers[ask] for ask in statistic.asks}

    @cached_property
    def measured_ones(self) -> dict[str, AccumulatorStatistic]:
        return {
            name: statistic
            for name, statistic in self.statistics.items()
            if name not in self.derived_from
        }

    @cached_property
    def cell_ranges(self) -> dict[str, slice]:
        sizes = [math.prod(statistic.cells) for statistic in self.measured_ones.values()]
        return _slices(self.measured_ones, sizes)

    @cached_property
    def _accumulator_ranges(self) -> dict[str, slice]:
        return _slices(
            self.measured_ones,
            [statistic.n_accumulators for statistic in self.measured_ones.values()],
        )

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (sum(math.prod(statistic.cells) for statistic in self.measured_ones.values()),)

    @property
    @override
    def rank_digits(self) -> tuple[RankDigit, ...]:
        return tuple(
            RankDigit(digit.unit, digit.size, digit.of.counted_ranks)
            for digit in self._digits.values()
            if digit.of.counted_ranks
        )

    @cached_property
    def _digits(self) -> dict[str, _Digit]:
        """The digit of each statistic by name; one that treats all rows alike needs none."""
        digits = dict[str, _Digit]()
        unit = 1
        for name, statistic in reversed([*self.statistics.items()]):
            if statistic.parts or statistic.counted_ranks:
                low, high = statistic.code_bounds()
                digits[name] = _Digit(statistic, low, high - low + 1, unit)
                unit *= high - low + 1
        return digits

    def weight(self, name: str) -> int:
        """Return the factor of a statistic's cells, 1 until `resolve_parameters`.

        Args:
            name: name of a measured statistic of the report.
        """
        return 1 if self.weights is None else self.weights[name]

    def _weigh(self, norms: Callable[[str], tuple[int, int]]) -> tuple[int, int]:
        """Bound the weighted cells' 1-norm and squared 2-norm, given each statistic's."""
        pairs = (scaled_norms(*norms(name), by=self.weight(name)) for name in self.measured_ones)
        l1s, l2s_squared = zip(*pairs, strict=True)
        return sum(l1s), sum(l2s_squared)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """Return the bound on all weighted cells, derived at the beginning of this file.

        Args:
            batched: of no effect; the bound holds for any number of rows in a step.
        """
        l1, l2_squared = self._weigh(lambda name: norms_of(self.statistics[name]))
        names = ", ".join(self.statistics)
        ranked_names = ", ".join(
            name for name, statistic in self.statistics.items() if statistic.counted_ranks
        )
        rank_note = f" (in {ranked_names} only the first one)" if ranked_names else ""
        return ContributionBound.of_pattern(
            BoundedChange(l1, l2_squared, single_step=True),
            f"which counts in all of {names}{rank_note}",
            unit=self.unit,
        )

    @override
    def norms_of_people(self, most: int) -> tuple[int, int]:
        """Bound the 1-norm and squared 2-norm of the change by ``most`` rows of one user.

        Statistics that count users count the user once.

        Args:
            most: largest number of rows of one user that count.
        """
        return self._weigh(partial(self.norms_of_member, most=most))

    def norms_of_member(self, name: str, most: int) -> tuple[int, int]:
        """Bound the same change of one statistic's cells, without its weight.

        Args:
            name: name of the statistic in the report.
            most: largest number of rows of one user that count.
        """
        return norms_of_people(self.statistics[name], most)

    @property
    @override
    def error_of(self) -> ErrorScale:
        return ErrorScale("one cell, before it is divided by the weight of its statistic")

    @override
    def by_groups(self, groups: Sequence[str]) -> None:
        for name, statistic in self.statistics.items():
            if (
                statistic.declares is not None
                or isinstance(statistic, GroupedRows)
                or statistic.counted_ranks
            ):
                reason = "counts users" if statistic.counted_ranks else "has groups of its own"
                raise InvalidInputError(
                    f"{param('group_by')} would group the whole report, but {name!r} {reason}: "
                    f"give {param('group_by')} and {param('groups')} inside the statistics that "
                    "need groups, and not to the report"
                )

    @override
    def for_people(self, most: int) -> Self:
        """Return a copy for ``most`` rows of each user.

        Args:
            most: largest number of rows of one user that count.

        Raises:
            InvalidInputError: a statistic needs more rows of each user.
        """
        for name, statistic in self.statistics.items():
            if statistic.counted_ranks and statistic.counted_ranks[-1] > most:
                raise InvalidInputError(
                    f"{name!r} of the report counts users with {statistic.counted_ranks[-1]:,} "
                    f"rows, but only {param('max_contributions', most)} rows of a user count; "
                    "give a larger "
                    f"{param('max_contributions')}"
                )
        return self if most == self.most else self.with_parameters(most=most)

    def with_parameters(self, **changes: Any) -> Self:
        return type(self)(**{**self.parameters, **changes})

    def resolve_parameters(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return a copy with weights, and with statistics, chosen for the guarantee.

        Args:
            guarantee: the guarantee of all releases together, one that does not expire.
            horizon: number of steps; None: the stream has no last step.

        Raises:
            InvalidInputError: the guarantee expires, or the wanted accuracy cannot be reached; the
                message states the remedy.
        """
        if self.weights is not None:
            return self
        inner = [
            [name, statistic.resolve_parameters(guarantee, horizon)]
            for name, statistic in self.statistics.items()
        ]
        resolved = self.with_parameters(statistics=inner)
        if not isinstance(guarantee, PureDP | ApproxDP | ZCDP):
            raise InvalidInputError(
                f"guarantee is {quote(guarantee)}, but a report has one that does not fade: give "
                "PureDP(epsilon), ApproxDP(epsilon, delta) or ZCDP(rho)"
            )
        weights = weights_for_noise(resolved, NORMS[guarantee.families[-1]])
        return resolved.with_parameters(weights=weights)

    @override
    def allows(self, other: Statistic) -> bool:
        if not isinstance(other, Report) or [*other.statistics] != [*self.statistics]:
            return False
        same = all(
            statistic.allows(other.statistics[name]) for name, statistic in self.statistics.items()
        )
        mine, its = ((report.columns, report.shares) for report in (self, other))
        left_open = self.size in (None, other.size) and self.weights in (None, other.weights)
        return same and mine == its and left_open

    # Integers that encode rows.

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        if self.rank_digits:
            raise InvalidInputError(
                f"{self!r} counts users, but events of Python do not name "
                f"their user: run a job with {param('user')} and {param('max_contributions')}"
            )
        columns: list[Column] = []
        for place, part in enumerate(self.parts):
            values = []
            for event in events:
                if isinstance(event, Mapping) and part.name in event:
                    values.append(event[part.name])
                elif has_parts(event, len(self.parts)):
                    values.append(event[place])
                else:
                    raise InvalidInputError(
                        f"a row is {quote(event)}; it must have a value for each of the columns "
                        f"{', '.join(self.column_names)}"
                    )
            if part.kind == "label":
                codes: dict[object, int] = {label: code for code, label in enumerate(part.labels)}
                texts = [value if isinstance(value, str) else None for value in values]
                columns.append(np.array([codes.get(text, OUTSIDE) for text in texts], np.int64))
            else:
                columns.append(value_grid.finite(values))
        return tuple(columns)

    @override
    def encode(self, *parts: Any) -> Integers:
        """Encode each row as an integer with a digit for each statistic."""
        parts_by_column = dict(zip(self.column_names, parts, strict=True))
        labels = {part.name: part.labels for part in self.parts}
        codes = np.zeros(len(parts[0]), np.int64)
        is_known = np.ones(len(parts[0]), np.bool_)
        for name, (statistic, low, size, unit) in self._digits.items():
            if not statistic.parts:
                continue  # its digit is the rank among its user's rows, not known yet
            columns = []
            for column, part in zip(self.columns[name], statistic.parts, strict=True):
                values = parts_by_column[column]
                if part.kind == "label" and part.labels != labels[column]:
                    values = _recode(np.asarray(values), labels[column], part.labels)
                columns.append(values)
            part_codes = np.asarray(statistic.encode(*columns), np.int64)
            if statistic.spans:
                is_known &= part_codes >= 0
                part_codes = np.where(part_codes >= 0, part_codes, low)
            if len(part_codes) and (
                int(part_codes.min()) < low or int(part_codes.max()) >= low + size
            ):
                raise InvalidInputError(
                    f"encode() of {statistic!r} returned codes outside code_bounds, which is a "
                    "defect of that statistic: report it to its author"
                )
            codes += (part_codes - low) * unit
        return np.where(is_known, codes, -1)

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        entries = list[tuple[X | int, X | int]]()
        for name, statistic in self.measured_ones.items():
            part_code: Any = statistic.code_bounds()[0]
            if (digit := self._digits.get(name)) is not None:
                part_code = (code - self._base) // digit.unit % digit.size + digit.low
            start = self._accumulator_ranges[name].start
            entries += [(place + start, amount) for place, amount in statistic.entries(part_code)]
        return entries

    @cached_property
    @override
    def spans(self) -> tuple[range, ...]:
        return tuple(
            range(places.start + span.start, places.start + span.stop)
            for name, places in self._accumulator_ranges.items()
            for span in self.statistics[name].spans
        )

    @override
    def code_bounds(self) -> tuple[int, int]:
        codes = math.prod(digit.size for digit in self._digits.values())
        return self._base, self._base + codes - 1

    @property
    @override
    def largest_entry(self) -> int:
        return max(
            self.weight(name) * statistic.largest_entry
            for name, statistic in self.measured_ones.items()
        )

    @override
    def total_of_sums(self, sums: Floats) -> float:
        totals = [
            statistic.total_of_sums(sums[self._accumulator_ranges[name]])
            for name, statistic in self.measured_ones.items()
            if statistic.most_counted(0.0, 0.0) < math.inf
        ]
        return max(totals, default=0.0)

    @override
    def largest_measured(self, sums: Floats) -> float:
        return max(
            self.weight(name) * statistic.largest_measured(sums[self._accumulator_ranges[name]])
            for name, statistic in self.measured_ones.items()
        )

    @override
    def row_bounds(self) -> tuple[int, int]:
        lows, highs = zip(
            *(statistic.row_bounds() for _, statistic in self.measured_ones.items()), strict=True
        )
        return min(lows), max(highs)

    @override
    def measure(self, sums: Integers) -> Integers:
        most = self.largest_measured(np.abs(sums.astype(np.float64)).max(axis=0, initial=0.0))
        refuse_overflow(
            float(most),
            LARGEST_MEASUREMENT - 1,
            lambda: (
                f"the sums of a step of the report may reach {most:.3g}, but they are exact only "
                f"below {LARGEST_MEASUREMENT:.3g}: take shorter steps, or a coarser resolution"
            ),
        )
        parts = [
            statistic.measure(sums[:, self._accumulator_ranges[name]]).reshape(len(sums), -1)
            * self.weight(name)
            for name, statistic in self.measured_ones.items()
        ]
        return np.concatenate(parts, axis=1).astype(np.int64)

    @override
    def most_counted(self, first: float, last: float) -> float:
        return min(
            statistic.most_counted(first / self.weight(name), last / self.weight(name))
            for name, statistic in self.measured_ones.items()
        )

    @override
    def total(self, cells: Integers) -> Floats:
        totals = [
            statistic.total(
                (cells[:, self.cell_ranges[name]] // self.weight(name)).reshape(
                    -1, *statistic.cells
                )
            )
            for name, statistic in self.measured_ones.items()
            if statistic.most_counted(0.0, 0.0) < math.inf
        ]
        return np.asarray(np.max([np.zeros(len(cells)), *totals], axis=0), np.float64)

    @override
    def check_events(self, event_counts: NDArray[np.int64]) -> None:
        for statistic in self.statistics.values():
            statistic.check_events(event_counts)

    # Readings.

    def design_of(self, name: str, design: Design, groups: tuple[int, ...] = ()) -> Design:
        """Return the design of one measured statistic.

        Args:
            name: name of the statistic in the report.
            design: the design of the whole stream.
            groups: number of groups, as a tuple of one; empty: without groups.
        """
        statistic = self.measured_ones[name]
        first = self.cell_ranges[name].start
        stride = math.prod(self.cells)
        starts = range(first, first + math.prod(groups) * stride, stride)
        return part_design(
            design, statistic, self.weight(name), (*groups, *statistic.cells), starts
        )

    def read_part(
        self, name: str, cells: Cells, by_group: Grouped | None = None
    ) -> StatisticResult:
        """Return one statistic's numbers from cells of the report.

        Args:
            name: name of the statistic in the report.
            cells: released cells of the report.
            by_group: the statistic by group, to read all groups; None: the cells of one group.
        """
        measured = self.derived_from.get(name, name)
        source = self.statistics[measured]
        groups = () if by_group is None else (len(by_group.groups),)
        design = self.design_of(measured, cells.design, groups)
        # Cells of other groups, and of statistics with equal descriptions, have other noise.
        first = cells.first // math.prod(self.cells) * math.prod(source.cells)
        part = cells.part(lambda values: self.values_of(measured, values, design), design, first)

        def read_derived(cells: Cells) -> StatisticResult:
            return self.result_of(name, read_cells(source, cells))

        follows = read_derived if name in self.derived_from else None
        if by_group is not None:
            return GroupedResult(by_group, part, follows)
        return read_cells(source, part) if follows is None else follows(part)

    def result_of(self, name: str, result: StatisticResult) -> FollowedResult:
        """Return the numbers of a statistic that follow from those of another.

        Args:
            name: name of the statistic, one that is not measured itself.
            result: the numbers of the measured statistic.
        """
        answers = self._answers_from(name, self.derived_from[name])
        assert answers is not None
        return FollowedResult(self.statistics[name], result, answers)

    def values_of(self, name: str, values: IntegersOrFloats, design: Design) -> NDArray[np.float64]:
        """Return one statistic's cells without its weight.

        Args:
            name: name of a measured statistic of the report.
            values: released cells of the report, which are the last axis.
            design: the design of the statistic, from `design_of`.

        Returns:
            Values in data units, of shape ``(*values.shape[:-1], *cells)``.
        """
        part_cells = np.asarray(values)[..., self.cell_ranges[name]].astype(np.float64)
        shape = (*part_cells.shape[:-1], *self.statistics[name].cells)
        return np.asarray(design.errors.in_data_units(part_cells.reshape(shape)))


def _slices(names: Mapping[str, object], sizes: Sequence[int]) -> dict[str, slice]:
    ends = [0, *np.cumsum(sizes).tolist()]
    return {
        name: slice(start, stop) for name, (start, stop) in zip(names, pairwise(ends), strict=True)
    }


def _recode(codes: NDArray[Any], labels: Sequence[str], part_labels: Sequence[str]) -> Integers:
    """Convert indices among all labels of a column to those among a statistic's own.

    Labels that it does not have become `OUTSIDE`; `MISSING` and `OUTSIDE` are below 0.
    """
    place = {label: index for index, label in enumerate(part_labels)}
    table = np.array([place.get(label, OUTSIDE) for label in labels] + [MISSING], np.int64)
    indexes = np.where(codes >= 0, codes, len(labels))
    return np.where(codes == OUTSIDE, OUTSIDE, table[indexes])


class _Digit(NamedTuple):
    """A statistic's digit in a row's integer: (code - ``low``) * ``unit``, of ``size`` values."""

    of: AccumulatorStatistic
    low: int
    size: int
    unit: int


def _members(
    statistics: Mapping[str, Statistic | Mapping[str, object]] | Sequence[object],
    groups: Mapping[str, Sequence[str]],
) -> dict[str, AccumulatorStatistic]:
    """Return the statistics of a report by name.

    Args:
        statistics: statistics or their descriptions, by name, or pairs of both.
        groups: declared groups of some of them, by name.

    Raises:
        InvalidInputError: there is no name, no statistic, or one that a report cannot have.
    """
    pairs: Any = [*statistics.items()] if isinstance(statistics, Mapping) else statistics
    if not isinstance(pairs, list | tuple) or not all(map(is_pair, pairs)):
        raise InvalidInputError(
            "the statistics of a report have no names: give a dictionary from names to "
            "statistics, such as {'visits': Count()}"
        )
    if not 1 <= len(pairs) <= _MOST_STATISTICS:
        raise InvalidInputError(
            f"a report has {len(pairs)} statistics; give 1 to {_MOST_STATISTICS}"
        )
    members = {
        checked_name(name): fitting(name, statistic, groups.get(name)) for name, statistic in pairs
    }
    if len(members) < len(pairs):
        raise InvalidInputError(
            "two statistics of a report have the same name; give each its own name"
        )
    return members

"""Counts of the cells of a line over time; the count in every interval is accurate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer, has_parts, is_whole, quote, quote_name
from counton.base.table_schema import refuse_reserved
from counton.continual.formulas import TableNumbers
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.contribution import Relation
from counton.statistics.grid_cells import GridCells, GridResult
from counton.statistics.statistic import ErrorScale
from counton.strategies.strategy import Norm
from counton.tables.grid import Grid
from counton.tables.line_catalogue import NAMES, line_over_time
from counton.tables.workloads import NAMED_WORKLOADS, Workload, workload

if TYPE_CHECKING:
    from counton.planning.plans import Plan
    from counton.planning.ranges_plan import CellsDesign

_LINES = tuple(name for name in NAMES if name != "square_root")


class RangesResult(GridResult):
    """Released counts in intervals of cells.

    A number's name is a pair of labels, the first cell and the cell after the last; None stands for
    the beginning or the end. A single label names one cell.
    """

    statistic: Ranges

    def _box(self, name: object) -> tuple[Integers, Integers]:
        count = len(self.statistic.labels)
        if name is None:
            name = (None, None)
        if has_parts(name, 2):
            low = 0 if name[0] is None else self.statistic.place_of(0, name[0])
            high = count if name[1] is None else self.statistic.place_of(0, name[1])
        elif isinstance(name, tuple):
            raise InvalidInputError(
                f"{quote_name(name)} names no interval. Give its two ends, as in "
                f"({self.statistic.labels[0]!r}, None)"
            )
        else:
            try:
                low = self.statistic.place_of(0, name)
                high = low + 1
            except InvalidInputError:
                if not isinstance(name, str):
                    raise
                low, high = self.statistic.interval_of(name)
        if low > high:
            raise InvalidInputError(
                f"the interval {quote_name(name)} ends before it begins; write the smaller cell "
                "first"
            )
        return np.array([[low]]), np.array([[high]])

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the counts of all cells, or of requested intervals: "0:24" is cells 0 to 23."""
        if request.ask is not None:
            ends = np.array(
                [self.statistic.interval_of(interval) for interval in request.ask], np.int64
            ).T
            low = ends[:1]
            high = ends[1:]
            about = {"from_cell": low[0], "to_before": high[0]}
            return TableNumbers(about, self.of_boxes(low, high))
        place = np.arange(len(self.statistic.labels))[None]
        names = np.array(self.statistic.labels, dtype=object)
        labels = place[0] if self.statistic.numbered else names
        if not request.running_totals:
            return TableNumbers({self.statistic.name: labels}, self.of_boxes(place, place + 1))
        about = {
            self.statistic.name: np.concatenate([labels, labels]),
            "measure": np.repeat(np.array(["count", "running total"], dtype=object), len(names)),
        }
        low = np.concatenate([place, np.zeros_like(place)], axis=1)
        high = np.concatenate([place, place], axis=1) + 1
        return TableNumbers(about, self.of_boxes(low, high))


class Ranges(GridCells):
    """Counts in any interval of a line of cells, such as the hours of a day, over time.

    An event is the label of its cell; with ``counts`` a pair such as ("09", 3), which counts 3
    times.

    Args:
        labels: public labels of all cells in order; or their number, with labels 0, 1, 2, ...
        name: what the labels are, such as "hour".
        workload: the counts to make accurate: "ranges" (all intervals) or "prefixes" (intervals
            that begin at the first cell).
        line: name of the strategy for the cells. None: the one with the least total error, among
            independent cells, differences of neighbours (Haar), hierarchies and, up to 256 cells,
            dense matrices. In a stream of one step all strategies are tried.
        counts, neighbours, unit: as in `Hierarchy`.
        grid: the strategy in full, as `Grid.to_dict`; None: ``line`` decides.

    Raises:
        InvalidInputError: labels that are not texts or occur twice, an unknown workload or line.

    Sensitivity: if events are added or removed, it is exactly the sensitivity of the strategy for
    the cells times the sensitivity of the strategy over time.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> hours = Ranges([f"{hour:02}" for hour in range(24)], name="hour")
    >>> counter = RunningStatistic.start(
    ...     hours, 365, ZCDP(2), key=Key.generate(), name="hours", batched=True
    ... )
    >>> day = counter.release_batch(["09"] * 500 + ["17"] * 800)
    >>> abs(day["08", "12"] - 500) < 90, day["00", "12"] + day["12", None] == day.total
    (True, True)
    """

    is_table = True
    result_type = RangesResult
    keyword = "ranges"
    example = "label=page groups=home,shop"
    says = "A line of counts, accurate in every interval."
    help = (
        f"With {param('time')} the line is released after each window, as count releases its "
        f"totals; {param('label')} names each row's cell, and {param('line')} chooses how cells "
        f"are measured. Without {param('time')} the line is released once: the same command again "
        f"shows the same numbers. The number of cells is published, and so are their labels."
    )
    phrase = "line of counts, for sums over any of its ranges,"
    shows = ("ask", "over")
    alike = "a cell"

    def __init__(
        self,
        labels: Sequence[str] | int,
        *,
        name: str = "cell",
        workload: str = "ranges",
        line: str | None = None,
        counts: bool = False,
        grid: Mapping[str, object] | Grid | None = None,
        neighbours: Relation = "add_remove",
        unit: str | None = None,
    ) -> None:
        if workload not in NAMED_WORKLOADS:
            raise InvalidInputError(
                f"workload is {quote(workload)}; it must be one of {', '.join(NAMED_WORKLOADS)}"
            )
        if line is not None and line not in NAMES:
            raise InvalidInputError(
                f"line is {quote(line)}; give one of {', '.join(NAMES)}, or None for the best"
            )
        refuse_reserved([name], "measure")
        self.name = name
        self.workload = workload
        self.line = line
        self.numbered = isinstance(labels, int)
        if isinstance(labels, int):
            labels = [str(number) for number in range(check_integer("labels", labels, 1))]
        super().__init__({name: labels}, counts=counts, grid=grid, neighbours=neighbours, unit=unit)
        self.labels = self.columns[name]
        self.domain = self.labels

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        labels: Any = len(self.labels) if self.numbered else list(self.labels)
        parameters: dict[str, object] = {"labels": labels, "name": self.name}
        if self.workload != "ranges":
            parameters["workload"] = self.workload
        if self.line is not None:
            parameters["line"] = self.line
        return {**parameters, **super().parameters}

    @override
    def place_of(self, axis: int, label: object) -> int:
        return super().place_of(axis, str(label) if self.numbered and is_whole(label) else label)

    @override
    def check_asked(self, name: Any) -> None:
        self.interval_of(name)

    @property
    def _workload(self) -> Workload:
        return workload(self.workload, len(self.labels))

    @override
    def _choose(self, norm: Norm, horizon: int | None = None) -> Grid:
        if self.line == "square_root" and horizon not in (None, 1):
            raise InvalidInputError(
                f"line is 'square_root', which cannot serve {horizon:,} steps, because its sums "
                f"would not be exact; give one of {', '.join(_LINES)}"
            )
        return Grid((line_over_time(self._workload, norm, self.line),))

    @property
    @override
    def criterion(self) -> float:
        return math.sqrt(self.grid.total((self._workload,)))

    @override
    def resolve_parameters(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return a copy with the best strategy; for one step all strategies are compared.

        Args:
            guarantee: the guarantee of all releases together.
            horizon: number of steps; None: the stream has no last step.
        """
        if self._measurement is not None or horizon != 1:
            return super().resolve_parameters(guarantee, horizon)
        return self._with_measurement(self.lines(guarantee).best.strategy)

    def lines(self, guarantee: Guarantee) -> Plan[CellsDesign]:
        """Rank all strategies for the cells by their error in a stream of one step.

        Args:
            guarantee: the guarantee of the single release.

        >>> from counton import ZCDP
        >>> [choice.name for choice in Ranges(64).lines(ZCDP(0.5)).choices[:3]]
        ['optimal', 'square_root', 'haar']
        """
        from counton.planning.ranges_plan import plan_cells

        replaced = self.neighbours == "replace"
        unit = ContributionBound.replace() if replaced else ContributionBound.add_remove()
        return plan_cells(
            len(self.labels),
            guarantee,
            contribution=unit,
            line=self.line or "auto",
            workload=self.workload,
        )

    @property
    @override
    def error_of(self) -> ErrorScale:
        last = np.arange(1, len(self.labels) + 1)
        below = self.grid.variance(np.zeros((1, len(last)), np.int64), last[None])
        meaning = "the first cells together, over all steps and numbers of them"
        return ErrorScale.from_variances(meaning, below)

    def interval_of(self, text: str) -> tuple[int, int]:
        """Return the first cell, and the cell after the last, of an interval such as "0:24".

        Args:
            text: two indices of cells with a colon between them; the second cell is not included.

        Raises:
            InvalidInputError: the text is no interval, or the interval reaches beyond the last
                cell.
        """
        low, colon, high = str(text).partition(":")
        if not (colon and low.strip().isdecimal() and high.strip().isdecimal()):
            raise InvalidInputError(
                f"{quote(text)} is not an interval; write 0:24 for cells 0 to 23"
            )
        if not int(low) <= int(high) <= len(self.labels):
            raise InvalidInputError(
                f"the interval {quote(text)} is not within the {len(self.labels):,} cells, which "
                "count from 0; write the smaller cell first"
            )
        return int(low), int(high)

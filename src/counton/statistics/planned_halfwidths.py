"""Half-widths of a statistic's intervals, computed from public parameters before any data.

They are those of a release without rows; the half-width of a mean, a slope or a quantile is
computed for a stated number of rows, which are spread evenly over the steps, and whose values are
spread evenly between their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from counton.base.arrays import Column
from counton.base.errors import InvalidInputError, param
from counton.base.exact import quote
from counton.continual.design import Design
from counton.continual.releases import DecayedRelease, SpanRelease, StepRelease
from counton.continual.stream_errors import ErrorsOf
from counton.continual.table_request import TableRequest
from counton.statistics.accumulator_statistic import AccumulatorStatistic
from counton.statistics.by_group import Grouped
from counton.statistics.cells import Cells
from counton.statistics.results import StatisticResult, result_of_release

if TYPE_CHECKING:
    from counton.statistics.report import Report
    from counton.statistics.statistic import Statistic
    from counton.strategies.workloads import Decayed

#: So many rows that no interval is clipped at 0.
_ROWS_WITHOUT_CLIPPING = 10**7


def planned_halfwidths(
    statistic: Statistic,
    design: Design,
    step: int,
    confidence_level: float = 0.95,
    *,
    rows: int | None = None,
    over: int | None = None,
    decay: Decayed | None = None,
    ask: Sequence[object] | None = None,
) -> dict[str, float]:
    """Return the half-widths at a step by the name of the number.

    Args:
        rows: number of rows from step 1 to this step, also if the number covers fewer steps; None:
            numbers that depend on it are left out. If none is left, the result is the half-width
            of `Statistic.error_of`, named "".
        over: number of last steps whose rows count; None: the step alone if the strategy releases
            the counts of single steps, else all steps so far.
        decay: how fast the weights of steps fall, for numbers of decayed sums; None: all counted
            steps have the same weight.
        ask: names of numbers, such as 0.9 for a quantile; None: all.

    >>> from counton import PureDP, plan
    >>> from counton.statistics import Average
    >>> waits = Average(0, 60, resolution=1)
    >>> from counton.continual.design import design_for
    >>> best = plan(52, PureDP(1), of=waits, batched=True).best
    >>> design = design_for(best.strategy, best.guarantee, best.contribution, best.shape)
    >>> found = planned_halfwidths(waits, design, 52, rows=5000)
    >>> {name: round(half, 2) for name, half in found.items()}
    {'mean': 0.11, 'sum': 778.55, 'count': 18.35}
    """
    request = _HalfwidthRequest(
        design, step, confidence_level, rows=rows, over=over, decay=decay, ask=ask
    )
    return request.halfwidths_of(statistic)


@dataclass(frozen=True)
class _HalfwidthRequest:
    """The arguments of `planned_halfwidths` besides the statistic."""

    design: Design
    step: int
    confidence_level: float
    rows: int | None
    over: int | None
    decay: Decayed | None
    ask: Sequence[object] | None

    def halfwidth_of_cell(self) -> float:
        """Return the half-width of the sum of one cell over the counted steps."""
        if self.decay is not None:
            release = _decayed_release(self.design, self.step, self.decay)
            return Cells(release).halfwidth(self.confidence_level)
        start = step_before(self.design, self.step, self.over)
        errors = self.design.errors
        return float(errors.window_halfwidths(start, self.step, self.confidence_level))

    def halfwidths_of(self, statistic: Statistic) -> dict[str, float]:
        """Return the half-widths of a statistic; see `planned_halfwidths`."""
        if statistic.statistics:
            return _halfwidths_of_report(statistic, self)
        if isinstance(statistic, Grouped):
            return _halfwidths_of_one_group(statistic, self)
        if statistic.on_demand:
            return {"": self.halfwidth_of_cell()}
        return _halfwidths_of_result(statistic, self)

    def result_of(self, statistic: Statistic) -> StatisticResult:
        """Return the numbers of a noiseless release; see `planned_result`."""
        if self.decay is not None:
            return planned_decayed_result(
                statistic, self.design, self.step, rows=self.rows, decay=self.decay
            )
        return planned_result(statistic, self.design, self.step, rows=self.rows, over=self.over)


def _halfwidths_of_one_group(statistic: Grouped, request: _HalfwidthRequest) -> dict[str, float]:
    """Return the half-widths of one group of a statistic by group."""
    rows = request.rows
    if rows is not None:  # a row belongs to one group
        rows = max(rows // len(statistic.groups), 1)
    design = replace(request.design, shape=statistic.inner.cells)
    return replace(request, design=design, rows=rows).halfwidths_of(statistic.inner)


def _halfwidths_of_result(statistic: Statistic, request: _HalfwidthRequest) -> dict[str, float]:
    """Return the half-widths of a statistic without groups and parts."""
    result = request.result_of(statistic)
    halfwidths = halfwidths_of(result, request.confidence_level, request.ask)
    known_names = statistic.known_beforehand
    if request.rows is not None or known_names is None:
        return halfwidths
    halfwidths = {name: half for name, half in halfwidths.items() if name in known_names}
    return halfwidths or {"": request.halfwidth_of_cell() * statistic.error_of.mean}


def _halfwidths_of_report(statistic: Statistic, request: _HalfwidthRequest) -> dict[str, float]:
    """Return the half-widths of a report's statistics, by their name and that of the number."""
    report = cast("Report", statistic)
    halfwidths_of_report = dict[str, float]()
    for name, part in report.statistics.items():
        part_request = replace(request, ask=None)
        if name in report.derived_from:
            halfwidths = _halfwidths_of_derived_part(report, name, part_request)
        else:
            design = report.design_of(name, request.design)
            halfwidths = replace(part_request, design=design).halfwidths_of(part)
        halfwidths_of_report |= {f"{name} {key}".strip(): half for key, half in halfwidths.items()}
    return halfwidths_of_report


def _halfwidths_of_derived_part(
    report: Report, name: str, request: _HalfwidthRequest
) -> dict[str, float]:
    """Return the half-widths of a statistic that a report computes from another one's cells.

    Args:
        report: the report.
        name: name of the statistic in it.
        request: design and other arguments for the whole report.
    """
    known_names = report.statistics[name].known_beforehand if request.rows is None else None
    if known_names == ():
        return {}
    measured = report.derived_from[name]
    design = report.design_of(measured, request.design)
    cells = replace(request, design=design).result_of(report.statistics[measured])
    halfwidths = halfwidths_of(report.result_of(name, cells), request.confidence_level)
    if known_names is None:
        return halfwidths
    return {key: half for key, half in halfwidths.items() if key in known_names}


def refuse_share_of_rows(statistic: Statistic, halfwidths: Mapping[str, float]) -> None:
    """Refuse a percentage of the rows as the half-width of numbers that do not count rows.

    Args:
        statistic: the planned statistic.
        halfwidths: half-widths by the name of the number, as in `planned_halfwidths`.

    Raises:
        InvalidInputError: a sum, a mean or a quantile would be compared with a number of rows.
    """
    if halfwidths.get("count") or any(name.startswith("count in ") for name in halfwidths):
        return  # an unnamed half-width is that of the count
    for name, member in (statistic.statistics or {"": statistic}).items():
        inner = member.inner if isinstance(member, Grouped) else member
        if not isinstance(inner, AccumulatorStatistic):
            continue  # it counts events in their order
        counts = inner.keyword == "count" or inner.counts_rows or inner.counts_users
        if inner.in_rank or not (counts or inner.is_table):
            named_part = quote(name) if name else inner.keyword or type(inner).__name__
            example = "NAME=20" if name else "20"
            raise InvalidInputError(
                f"{param('margin_of_error')} is a percentage of the rows, but {named_part} does "
                f"not count rows. Give a number, as in {param('margin_of_error', example)}"
            )


def step_before(design: Design, step: int, over: int | None = None) -> int:
    """Return the step after which the number of a step begins to count; 0 for the first.

    Args:
        over: number of last steps whose rows count; None: those that the strategy's releases cover.
    """
    if over is None and design.strategy.facts.release == "windows":
        over = 1
    return 0 if over is None else max(step - over, 0)


def planned_result(
    statistic: Statistic, design: Design, step: int, rows: int | None, over: int | None = None
) -> StatisticResult:
    """Return the numbers of a noiseless release, if ``rows`` rows are spread evenly over all steps.

    Args:
        rows: number of rows from step 1 to ``step``; None: so many that no interval is clipped at
            0. Cells are 0 if the statistic cannot tell which these rows would give.
        over: as in `planned_halfwidths`.
    """
    start = step_before(design, step, over)
    counted = _ROWS_WITHOUT_CLIPPING
    if rows is not None:
        counted = max(rows * (step - start) // step, 1)
    value = _typical_value(statistic, design, counted, step - start)
    release = StepRelease(step, value, float(design.errors.std(step)), design)
    if start != step - 1 and design.strategy.facts.release == "windows":
        std = float(design.errors.window_std(start, step))
        release = SpanRelease(step, value, std, design, start=start)
    elif start and design.strategy.facts.release == "totals":
        nothing = StepRelease(start, value - value, float(design.errors.std(start)), design)
        release = release.since(nothing)
    return result_of_release(statistic, release)


def _typical_value(statistic: Statistic, design: Design, rows: int, steps: int) -> Any:
    """Return the cells of some rows in data units; 0 if the statistic cannot tell them."""
    cells = None
    if isinstance(statistic, AccumulatorStatistic):
        cells = statistic.typical_cells(rows, steps)
    exact = np.zeros(design.shape, np.int64) if cells is None else np.asarray(cells, np.int64)
    part = design.part
    value: Any = design.contribution.from_grid(exact) if part is None else exact * float(part.exact)
    return value if design.shape else np.asarray(value).item()


def planned_decayed_result(
    statistic: Statistic, design: Design, step: int, rows: int | None, decay: Decayed
) -> StatisticResult:
    """Return the noiseless numbers of decayed sums, if rows are spread evenly over all steps.

    Args:
        statistic: the planned statistic.
        design: the design of its stream.
        step: the last step that counts.
        rows: number of rows from step 1 to ``step``; None: as in `planned_result`.
        decay: how fast the weights of steps fall.
    """
    counted = _ROWS_WITHOUT_CLIPPING
    if rows is not None:
        weights = (1 - decay.factor**step) / (1 - decay.factor)
        counted = max(int(rows * weights / step), 1)
    value = _typical_value(statistic, design, counted, step)
    release = _decayed_release(design, step, decay, value)
    return result_of_release(statistic, release)


def _decayed_release(
    design: Design, step: int, decay: Decayed, value: object = None
) -> DecayedRelease:
    """Return a noiseless release of decayed sums, which are 0 without a ``value``."""
    errors = replace(design, errors_of=ErrorsOf(workload=decay)).errors
    (stds,) = errors.recent_stds([step]).values()
    cells = np.zeros(design.shape) if value is None else value
    return DecayedRelease(step, cells, float(stds[0]), design, factor=decay.factor)


def halfwidths_of(
    result: StatisticResult, confidence_level: float, ask: Sequence[object] | None = None
) -> dict[str, float]:
    """Return half-widths by name; that of `Statistic.alike` if all numbers are of one kind."""
    read = result.numbers(TableRequest(ask, running_totals=False))
    low, high = (
        np.ravel(np.asarray(end, float)) for end in read.numbers.interval(confidence_level)
    )
    halfwidths: dict[str, float] = {}
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
    for label, halfwidth in zip(_labels(read.about, len(half)), half.tolist(), strict=True):
        halfwidths[label] = max(halfwidths.get(label, 0.0), halfwidth)
    if result.statistic.known_beforehand is not None:  # the rows of each step decide it
        return halfwidths
    if "from_cell" in read.about:  # requested intervals of a line have names
        return halfwidths
    alike = len({float(f"{halfwidth:.9g}") for halfwidth in halfwidths.values()}) == 1
    return {result.statistic.alike: max(halfwidths.values())} if alike else halfwidths


def _share(quantile: float) -> list[str]:
    """Return the text of a quantile's share; nothing for another number."""
    return [] if math.isnan(quantile) else [f"{quantile:g}"]


def _labels(columns: Mapping[str, Column], count: int) -> list[str]:
    """Return a label for each row; rows with equal labels have equal half-widths."""
    if "statistic" in columns:  # a report
        names = [columns[name] for name in ("statistic", "group", "measure") if name in columns]
        quantiles = columns.get("quantile", np.full(count, np.nan))
        return [
            " ".join([str(name) for name in row_names if name is not None] + _share(quantile))
            for *row_names, quantile in zip(*names, quantiles.tolist(), strict=True)
        ]
    if "from_cell" in columns:
        ends = zip(columns["from_cell"].tolist(), columns["to_before"].tolist(), strict=True)
        return [f"{low}:{high}" for low, high in ends]
    if "measure" in columns:
        return [str(measure) for measure in columns["measure"]]
    if "tree_level" in columns:
        return [str(tree_level) for tree_level in columns["tree_level"]]
    if "quantile" in columns:
        return [f"quantile {quantile:g}" for quantile in columns["quantile"]]
    if any(any(label is None for label in column) for column in columns.values()):  # margins
        kept = [
            [name for name, column in columns.items() if column[place] is not None]
            for place in range(count)
        ]
        return [", ".join(names) or "total" for names in kept]
    return [""] * count

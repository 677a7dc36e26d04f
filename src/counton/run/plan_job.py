"""Plans of jobs: what each would release, with which errors, and at which privacy cost.

A plan prepares a job as a run does (`counton.run.prepared_run.prepare`), and so refuses what a run
refuses. Nothing is written, and no row is read: it looks at existing states, ledgers and files, and
reads only the header of a file of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from counton.base.errors import CountonError, hide_secrets
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.io.input_paths import NoFilesError, event_paths
from counton.io.sources import EventFrame, Source
from counton.job.common_options import Job
from counton.privacy.ledger import LedgerEntry
from counton.results.metadata import ReleaseMetadata
from counton.results.systematic_errors import uneven_windows_note
from counton.run.opened_state import OpenedState
from counton.run.outputs.path_conflicts import JobStates, refuse_shared, state_of
from counton.run.prepared_run import PreparedRun, prepare
from counton.run.spec.planned_accuracy import (
    count_windows,
    counted_windows,
    halfwidths_at,
    planned_design,
    planned_last_step,
)
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import SingleTable
from counton.state import Store
from counton.state.ledger_rows import SpentUnit
from counton.statistics import AccumulatorStatistic, Grouped, Report
from counton.statistics.by_group import inner_of
from counton.statistics.report_budget import budget_shares
from counton.windowing.lazy_polars import polars as pl

#: Number of windows to plan if a stream has no last one and no number is stated.
_DEFAULT_WINDOWS = 1000
#: Rows that will come: their columns are not known.
_ROWS_TO_COME = "rows to come"


class PlannedNumber(NamedTuple):
    """The planned error of one released number.

    Attributes:
        name: name of the number; "" if the statistic releases numbers of one kind only.
        halfwidths: half-widths of its intervals, at each of the planned steps of its job.
        percent: half-width of the interval at the last step, in per cent of the number of rows that
            the number counts; None: the number of rows is not stated, or the released number is no
            count.
        in_rank: whether ``percent`` is the error of a quantile's rank: the part of the rows that
            may lie between the released and the true quantile.
        part: name of the member statistic that the number belongs to, if the statistic is a report
            of several; else "".
        share: fraction of the report's budget that this member gets; None if it gets none, because
            it is computed from another member.
        source: name of the other member that it is computed from, or "".
    """

    name: str
    halfwidths: tuple[float, ...]
    percent: float | None = None
    in_rank: bool = False
    part: str = ""
    share: float | None = None
    source: str = ""


@dataclass(frozen=True)
class PlannedJob:
    """The planned releases of one job.

    Attributes:
        spec: the specification of the job's stream, as it would be made.
        steps: steps for which errors are planned: first, middle and last; a single one for a table
            that is released once; of revised windows, the versions of one window.
        level: confidence level of the intervals.
        numbers: released numbers.
        needs_size: whether some half-widths are left out because they depend on the number of rows,
            which is not stated.
        state: path or URL of the job's state.
        spend: the job's entry in the ledger of its state: guarantee and protected unit.
        sizes: if groups are found in the rows, the lowest and highest count from which on a group
            is shown; None if groups are declared.
        size: number of rows by the last window; None: it is not stated.
        windows: number of windows over which they are spread evenly.
        counted: how many of these windows a number of the last step counts, by the name of the
            number, as in `counton.run.spec.planned_accuracy.counted_windows`.
        other_units: of a new stream, units in the ledger of the state whose losses are not added to
            that of the stream.
    """

    spec: StreamSpec
    steps: tuple[int, ...]
    level: float
    numbers: tuple[PlannedNumber, ...]
    needs_size: bool
    state: str
    spend: LedgerEntry
    sizes: tuple[int, int] | None = None
    size: int | None = None
    windows: int = 1
    counted: Mapping[str, int] = field(default_factory=dict)
    other_units: tuple[str, ...] = ()

    @cached_property
    def metadata(self) -> ReleaseMetadata:
        """The public description of the stream."""
        return self.spec.metadata()

    def rows_of(self, name: str) -> Fraction | None:
        """Return the expected number of rows that a number of the last step counts.

        Args:
            name: name of the number.

        Returns:
            The number of rows in all groups; None if the job does not state its number of rows.
        """
        if self.size is None:
            return None
        counted = self.counted.get(name, self.counted.get("", self.windows))
        for times, windows in self.counted.items():
            if times and name.endswith(f" {times}"):
                counted = windows
        return Fraction(self.size * counted, self.windows)

    def to_dict(self) -> dict[str, object]:
        """Return this plan of a job (errors, guarantee, numbers) as JSON values."""
        metadata = self.metadata
        plan: dict[str, object] = {
            "what": metadata.statistic_name,
            "windows": list(self.steps),
            "confidence_level": self.level,
            "guarantee": metadata.guarantee.to_dict(),
            "privacy_unit": metadata.privacy_unit,
            "protected": metadata.contribution.describe(metadata.privacy_unit),
            "strategy": repr(metadata.strategy),
            "state": self.state,
        }
        if self.sizes is not None:
            plan["thresholds"] = list(self.sizes)
        uneven = uneven_windows_note(metadata)
        if uneven is not None:
            plan["note"] = uneven
        return plan | {"numbers": [_number_to_dict(number) for number in self.numbers]}


def _number_to_dict(number: PlannedNumber) -> dict[str, object]:
    values: dict[str, object] = {
        "of": number.name,
        "halfwidths": list(number.halfwidths),
        "percent": number.percent,
    }
    if number.in_rank:
        values["in_rank"] = True
    if number.part:
        values |= {"part": number.part, "share": number.share}
    return values


class _Book:
    """The ledger of a state with the entries of planned jobs, which limit those after them.

    Args:
        store: the state; None if it does not exist yet.

    Attributes:
        units: the protected units of the entries.
    """

    def __init__(self, store: Store | None) -> None:
        self._ledger = None if store is None else store.ledger
        self.units: list[SpentUnit] = []

    def enter(self, prepared: PreparedRun) -> None:
        """Add the guarantee of a planned job as an entry, unless its stream has one already."""
        if not prepared.begins_stream:
            return
        spend = prepared.state.ledger_entry_of(prepared.spec)
        if self._ledger is not None:
            self._ledger.spend(**spend._asdict())
        has_users = prepared.spec.terms.privacy_unit.user_column is not None
        kind = "user" if has_users else prepared.spec.accumulator_statistic.protects
        self.units.append(SpentUnit(spend.name, spend.unit, kind))


def planned_jobs(
    jobs: Mapping[str, Job | CountonError], *, size: int | None = None
) -> dict[str, PlannedJob | CountonError | OSError]:
    """Plan each job; a job that does not fit its state's limit beside those before it is refused.

    Args:
        jobs: jobs by name, or the errors for which jobs cannot be read.
        size: public number of rows by the last window; None: the number of each job.

    Returns:
        By name of a job its plan, or the error that says why it has none.

    Raises:
        InvalidInputError: one job would overwrite files of another.

    >>> from counton.job.statistics.count import CountJob
    >>> job = CountJob(events="visits.csv", state="visits.db", time="at", every="1d",
    ...                start="2024-03-01", windows=52, epsilon=1)
    >>> plans = planned_jobs({"visits": job}, size=5000)
    >>> [round(halfwidth, 1) for halfwidth in plans["visits"].numbers[0].halfwidths]
    [5.9, 10.5, 12.3]
    """
    plans: dict[str, PlannedJob | CountonError | OSError] = {}
    books: dict[str, _Book] = {}  # by address of a state
    with JobStates({name: job for name, job in jobs.items() if isinstance(job, Job)}) as states:
        refuse_shared(states.jobs)
        for name, job in jobs.items():
            if isinstance(job, CountonError):
                plans[name] = job
                continue
            try:
                address = state_of(job)
                if address not in books:
                    books[address] = _Book(states.at(job.state))
                book = books[address]
                plans[name] = _plan_and_enter(job, book, size)
            except (CountonError, OSError) as error:
                plans[name] = error
    return plans


def _plan_and_enter(job: Job, book: _Book, size: int | None) -> PlannedJob:
    """Plan a job, and enter its guarantee in the ledger of its state."""
    with _before_rows(job, book.units) as prepared:
        plan = _plan_of(prepared, size)
        book.enter(prepared)
    return plan


def planned_job(job: Job, *, size: int | None = None) -> PlannedJob:
    """Plan one job: what it would release, with its errors and its privacy cost.

    Args:
        size: public number of rows by the last window; None: as the job states.

    Raises:
        InvalidInputError: a run would refuse the job.
        StateError: the job's state cannot be used, or its stream was made with other options.
        BudgetExceededError: the job does not fit the limit of its state.
    """
    with _before_rows(job) as prepared:
        return _plan_of(prepared, size)


@contextmanager
def _before_rows(job: Job, units: Sequence[SpentUnit] = ()) -> Iterator[PreparedRun]:
    """Yield a prepared run, of which no row is read; files need not exist."""
    rows = Source((EventFrame(pl.DataFrame()),), _ROWS_TO_COME) if _is_read_once(job) else None
    with OpenedState(job) as state:
        yield prepare(job, state, rows, datetime.now(UTC), units=units)


def _is_read_once(job: Job) -> bool:
    """Return whether a job's rows do not exist yet, or can be read only once."""
    try:
        paths = event_paths(job.events, job.file_format)
    except NoFilesError:
        return True
    return any(path == "-" or Path(path).is_fifo() for path in paths)


def _plan_of(prepared: PreparedRun, size: int | None) -> PlannedJob:
    spec = prepared.spec
    job = prepared.job
    assert job.state is not None, "a prepared job has a state"
    display = prepared.options.display
    level = check_confidence_level(job.confidence_level, usual=DEFAULT_CONFIDENCE_LEVEL)
    if size is None:
        size = job.expected_rows
    stated_windows = None if isinstance(spec.terms.windowing, SingleTable) else job.windows
    last = planned_last_step(spec) or stated_windows or _DEFAULT_WINDOWS
    windows = count_windows(spec) or stated_windows or _DEFAULT_WINDOWS
    steps = tuple(dict.fromkeys((1, (last + 1) // 2, last)))
    halfwidths = halfwidths_at(
        spec, steps, level, rows=size, windows=windows, over=display.over, ask=display.ask
    )
    numbers = tuple(PlannedNumber(name, values) for name, values in halfwidths.items())
    counted = counted_windows(spec, steps, display.over)
    planned = PlannedJob(
        spec=spec,
        steps=steps,
        level=level,
        numbers=numbers,
        needs_size=size is None and spec.terms.group_statistic.known_beforehand is not None,
        state=hide_secrets(os.fspath(job.state)),
        spend=prepared.state.ledger_entry_of(spec),
        sizes=spec.cells.sizes(planned_design(spec)),
        size=size,
        windows=windows,
        counted={name: numbers_of_steps[-1] for name, numbers_of_steps in counted.items()},
        other_units=prepared.other_units,
    )
    ranks: dict[str, tuple[float, ...]] = {}
    if size is not None and any(number.name.rpartition("quantile ")[1] for number in numbers):
        ranks = halfwidths_at(spec, steps, level, over=display.over)
    completed = [_with_share_and_percent(number, planned, ranks) for number in numbers]
    return replace(planned, numbers=tuple(completed))


def _with_share_and_percent(
    number: PlannedNumber, planned: PlannedJob, ranks: Mapping[str, Sequence[float]]
) -> PlannedNumber:
    """Complete a number with its share in a report, and its error in per cent of its rows.

    All groups are assumed to have equally many rows.

    Args:
        planned: the plan of its job.
        ranks: half-widths of the number of values below an edge, by the name of a statistic in a
            report, or "".
    """
    spec = planned.spec
    statistic = inner_of(spec.accumulator_statistic)
    metadata = planned.metadata
    counts_rows = metadata.statistic_name == "count"
    groups = spec.terms.groups.number or 1
    if isinstance(statistic, Report):
        number, member = _with_share(number, planned, statistic)
        groups *= len(member.groups) if isinstance(member, Grouped) else 1
        statistic = inner_of(member)
        counts_rows = statistic.keyword == "count"
    rows = planned.rows_of(number.name)
    if rows is None:
        return number
    if statistic.in_rank:
        rank = ranks[number.part][-1]
        return number._replace(percent=float(100 * rank * groups / rows), in_rank=True)
    name = number.name.partition(" in the last ")[0] if metadata.widths else number.name
    counts_rows |= name.endswith("count") or statistic.is_table
    counts_rows &= metadata.half_life is None  # such sums have no number of rows
    if number.part and statistic.known_beforehand is None:
        counts_rows |= statistic.counts_rows or statistic.counts_users
    if not counts_rows:
        return number
    return number._replace(percent=float(100 * number.halfwidths[-1] * groups / rows))


def _with_share(
    number: PlannedNumber, planned: PlannedJob, report: Report
) -> tuple[PlannedNumber, AccumulatorStatistic]:
    """Return a number of a report with the member that it belongs to, and this member."""
    names = [name for name in report.statistics if f"{number.name} ".startswith(f"{name} ")]
    part = max(names, key=len)
    source = report.derived_from.get(part, "")
    share = None
    if not source:
        norm: Literal[1, 2] = 1 if planned_design(planned.spec).noise_kind == "laplace" else 2
        share = float(budget_shares(report, norm)[part])
    return number._replace(part=part, source=source, share=share), report.statistics[part]

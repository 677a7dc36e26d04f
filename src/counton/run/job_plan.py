"""Plans of the jobs of a file: what each would release, with which error, at which cost.

Nothing is run. A plan completes a job as a run does (`counton.run.settlement.resolve`), and so
refuses what a run refuses. It reads no row and writes nothing: it looks at existing states, ledgers
and files of events, and reads only the header of a file of events. Exception: if a table has a cell
for each row of a file, it counts the rows, since their number is published.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from counton.base.errors import CountonError, hide_secrets
from counton.job.job import Job
from counton.privacy.ledger import Spend
from counton.released.besides_noise import late_note
from counton.rows.paths import NoFiles, event_paths
from counton.rows.sources import EventFrame, Source
from counton.run.definition import Definition
from counton.run.planned_errors import (
    count_windows,
    covered_windows,
    design_of,
    halfwidths_at,
    last_step,
)
from counton.run.settlement import SettledJob, resolve
from counton.run.shared_paths import JobStates, refuse_shared, state_of
from counton.state import Store
from counton.state.ledger_rows import SpentUnit
from counton.statistics import Grouped
from counton.statistics.by_group import inner_of
from counton.statistics.report_budget import budget_shares

#: Number of steps to plan if a stream has no last one and no number is stated.
_AROUND = 1000


class PlannedNumber(NamedTuple):
    """The planned error of one released number.

    Attributes:
        what: name of the number; "" if the statistic releases numbers of one kind only.
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

    what: str
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
        definition: definition of the job's stream (columns, windows, groups and guarantee), as it
            would be made.
        steps: steps that errors are planned for: first, middle and last; a single one for a table
            that is released once; for windows that are released again when late rows come, the
            versions of one window.
        level: probability with which each interval holds.
        numbers: released numbers.
        needs_size: whether some half-widths are left out because they depend on the number of rows,
            which is not stated.
        size: number of rows by the last window; None: it is not stated.
        windows: number of windows over which they are spread evenly.
        counted: how many of these windows a number of the last step counts: by `EACH_WINDOW` or "",
            as in `counton.run.planned_errors.covered_windows`.
        state: path or URL of the job's state.
        spend: the job's entry in the ledger of its state: guarantee and protected unit.
        sizes: if groups are found in the data, the lowest and highest count from which on a group
            is shown; None if groups are declared.
    """

    definition: Definition
    steps: tuple[int, ...]
    level: float
    numbers: tuple[PlannedNumber, ...]
    needs_size: bool
    state: str
    spend: Spend
    sizes: tuple[int, int] | None = None
    size: int | None = None
    windows: int = 1
    counted: Mapping[str, int] = attribute(default_factory=dict)

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
        return Fraction(self.size * counted, self.windows)

    @property
    def bound_note(self) -> str | None:
        """Warning, with the remedy, if the bound on a person's rows makes the counts of later
        windows in a period too low; else None.

        >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", user="reader",
        ...           start="2024-03-01", steps=52, epsilon=1, most=20, per="1mo")
        >>> print(planned_job(job).bound_note)
        late windows of a period are counted too low: ...; most-a-window = 1, or another ...
        """
        late = late_note(self.definition)
        if late is None:
            return None
        if self.definition.counting.most_a_window is not None:
            return f"{late}; a larger most leaves more to late windows"
        distinct = self.definition.counting.distinct
        if distinct or self.definition.contribution.pattern is not None:
            return f"{late}; a larger most, or a period of one window, avoids it"
        return (
            f"{late}; most-a-window = 1, or another small number, keeps windows from taking what "
            f"later ones need"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this plan of a job (errors, guarantee, numbers) as JSON values."""
        return {
            "what": self.definition.what,
            "steps": list(self.steps),
            "level": self.level,
            "guarantee": self.definition.guarantee.to_dict(),
            "unit": self.definition.unit,
            "protected": self.definition.contribution.describe(self.definition.unit),
            "strategy": repr(self.definition.strategy),
            "state": self.state,
            **({} if self.sizes is None else {"thresholds": list(self.sizes)}),
            **({} if self.bound_note is None else {"note": self.bound_note}),
            "numbers": [
                {
                    "of": one.what,
                    "halfwidths": list(one.halfwidths),
                    "percent": one.percent,
                    **({"in_rank": True} if one.in_rank else {}),
                    **({"part": one.part, "share": one.share} if one.part else {}),
                }
                for one in self.numbers
            ],
        }


class _Book:
    """The ledger (record of spent privacy loss) of a state (database) with the entries of planned
    jobs, which a job that does not fit the limit is refused by.

    Args:
        store: the state; None if it does not exist yet.
    """

    def __init__(self, store: Store | None) -> None:
        self._ledger = None if store is None else store.ledger
        self.units: list[SpentUnit] = []

    def enter(self, settled: SettledJob) -> None:
        """Add the guarantee of a planned job as an entry, unless its stream has one already."""
        if settled.saved is None:
            spend = settled.spend
            if self._ledger is not None:
                self._ledger.spend(**spend._asdict())
            of_people = settled.job.people.user is not None
            kind = "user" if of_people else settled.definition.statistic.protects
            self.units.append(SpentUnit(spend.name, spend.unit, kind))


def planned_jobs(
    jobs: Mapping[str, Job], *, size: int | None = None
) -> dict[str, PlannedJob | CountonError | OSError]:
    """Plan each job; a job that does not fit its state's limit beside those before it is refused.

    Args:
        jobs: jobs by name.
        size: public number of rows by the last step; None: the number of each job.

    Returns:
        By name of a job its plan, or the error that says why it has none.

    Raises:
        InvalidInput: one job would overwrite files of another.

    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           steps=52, epsilon=1)
    >>> found = planned_jobs({"visits": job}, size=5000)
    >>> [round(half, 1) for half in found["visits"].numbers[0].halfwidths]
    [5.9, 10.5, 12.3]
    """
    found: dict[str, PlannedJob | CountonError | OSError] = {}
    books: dict[str, _Book] = {}
    with JobStates(jobs) as states:
        refuse_shared(states.jobs)
        for name, job in jobs.items():
            try:
                if (where := state_of(job)) not in books:
                    books[where] = _Book(states.at(job.keeping.state))
                book = books[where]
                with _before_rows(job, book.units) as settled:
                    found[name] = _plan_of(settled, size)
                    book.enter(settled)
            except (CountonError, OSError) as error:
                found[name] = error
    return found


def planned_job(job: Job, *, size: int | None = None) -> PlannedJob:
    """Plan one job: what it would release, with its errors and its privacy cost.

    Args:
        size: public number of rows by the last step; None: as the job states.

    Raises:
        InvalidInput: a run would refuse the job, or its rows would have to be read.
        StateError: the job's state cannot be used, or its stream was made with other options.
        BudgetExceeded: the job does not fit the limit of its state.
    """
    with _before_rows(job) as settled:
        return _plan_of(settled, size)


@contextmanager
def _before_rows(job: Job, units: Sequence[SpentUnit] = ()) -> Iterator[SettledJob]:
    """Yield a job completed without reading rows; files need not exist."""
    try:
        paths = event_paths(job.events, job.format.file_format)
    except NoFiles:
        paths = ["-"]
    if any(path == "-" or Path(path).is_fifo() for path in paths):  # or it can be read only once
        nothing: Any = Source((EventFrame(pl.DataFrame({"time": []})),), "rows to come")
        job = job.having(events=nothing)
    with resolve(job, units) as settled:
        yield settled


def _plan_of(settled: SettledJob, size: int | None) -> PlannedJob:
    definition, job = settled.definition, settled.job
    size = job.promise.size if size is None else size
    level, shown = settled.outputs.level, settled.outputs.shown
    last = last_step(definition, job.times.around) or job.times.steps or _AROUND
    windows = count_windows(definition, job) or job.times.steps or _AROUND
    steps = tuple(dict.fromkeys((1, (last + 1) // 2, last)))
    halfwidths = halfwidths_at(
        definition, steps, level, rows=size, windows=windows, over=shown.over, ask=shown.ask
    )
    numbers = tuple(PlannedNumber(name, each) for name, each in halfwidths.items())
    counted = covered_windows(definition, steps, shown.over)
    planned = PlannedJob(
        definition=definition,
        steps=steps,
        level=level,
        numbers=numbers,
        needs_size=size is None and definition.inner.known_beforehand is not None,
        state=hide_secrets(os.fspath(job.keeping.state)),
        spend=settled.spend,
        sizes=definition.cells.sizes(design_of(definition)),
        size=size,
        windows=windows,
        counted={name: each[-1] for name, each in counted.items()},
    )
    ranks = {}
    if size is not None and any(one.what.rpartition("quantile ")[1] for one in numbers):
        ranks = halfwidths_at(definition, steps, level, over=shown.over)
    completed = [_with_share_and_percent(number, planned, ranks) for number in numbers]
    return replace(planned, numbers=tuple(completed))


def _with_share_and_percent(
    one: PlannedNumber, job: PlannedJob, ranks: Mapping[str, Sequence[float]]
) -> PlannedNumber:
    """Complete a number with its share in a report, and its error in per cent of its rows.

    All groups are assumed to have equally many rows.

    Args:
        one: the number.
        job: the plan of its job.
        ranks: half-widths of the number of values below an edge, by the name of a statistic in a
            report, or "".
    """
    definition = job.definition
    inner, what = definition.inner, definition.what
    groups = 1 if definition.domain is None else max(len(definition.groups), 1)
    if members := inner.statistics:
        report: Any = inner
        named = [name for name in report.statistics if f"{one.what} ".startswith(f"{name} ")]
        part = max(named, key=len)
        laplace = design_of(definition).family == "laplace"
        source = report.derived_from.get(part, "")
        share = None if source else float(budget_shares(report, 1 if laplace else 2)[part])
        one = one._replace(part=part, source=source, share=share)
        member = members[part]
        groups *= len(member.groups) if isinstance(member, Grouped) else 1
        inner = inner_of(member)
        what = inner.keyword
    rows = job.rows_of(one.what)
    if rows is None:
        return one
    if inner.in_rank:
        return one._replace(percent=float(100 * ranks[one.part][-1] * groups / rows), in_rank=True)
    counts = what == "count" or one.what.endswith("count") or inner.is_table
    of_rows = inner.counts_rows or inner.counts_users
    counts |= bool(one.part) and of_rows and inner.known_beforehand is None
    if not counts:
        return one
    return one._replace(percent=float(100 * one.halfwidths[-1] * groups / rows))

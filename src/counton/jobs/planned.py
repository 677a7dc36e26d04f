"""What the jobs of a file will release, how far off it will be and what it costs; nothing is run.

No state is opened or made and no row is read: half-widths, guarantees and strategies follow from
what the jobs state. So a state that is there already may have spent more than is said here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from counton.errors import BudgetExceeded, CountonError, InvalidInput, field, hide_secrets
from counton.events.paths import event_paths
from counton.jobs import statements
from counton.jobs.accuracy import EACH_WINDOW, halfwidths_at, last_step, planned_terms
from counton.jobs.asking import ask
from counton.jobs.defining import define
from counton.jobs.definition import Definition
from counton.jobs.job import Job
from counton.jobs.released import shown_by
from counton.jobs.settling import with_unit
from counton.laws import DiscreteLaplace
from counton.mechanisms.calibration import law_for
from counton.privacy import ZCDP, ApproxDP, Guarantee, Ledger, PureDP
from counton.privacy.contribution import Relation, known_unit
from counton.privacy.ledger import Spend, totals
from counton.statistics import Grouped, TallyStatistic
from counton.statistics.report_budget import budget_shares

if TYPE_CHECKING:
    from counton.results.release import Release
    from counton.results.shown import View

#: Steps that are planned for where a stream has no last one and nobody says how many are in mind.
_AROUND = 1000


class PlannedNumber(NamedTuple):
    """How far off a number will be.

    Attributes:
        what: which; "" of a statistic that has one kind.
        halfwidths: of its intervals, at each of the steps of its job.
        percent: the last of them, in per cent of how many rows there will be; None: nobody says how
            many, or it is no number of rows.
        part: of a report the statistic that it is of; "": it is no report.
        share: of the report's budget that this statistic has; None: it follows from another.
        source: that other one; "": there is none.
    """

    what: str
    halfwidths: tuple[float, ...]
    percent: float | None = None
    part: str = ""
    share: float | None = None
    source: str = ""


@dataclass(frozen=True)
class PlannedJob:
    """What a job will release.

    Attributes:
        name: of the job.
        definition: of its stream, as it would be made.
        steps: the first, one in the middle, and the last; of a table that is released once, one.
        level: probability with which each interval holds.
        numbers: what is released.
        needs_size: whether there is more, whose half-width depends on how many rows there are.
        state: where it will be kept.
        ledger: a state whose limit it shares with others, if any.
        spend: what the ledger of the state will hold.
        shown: what is shown of a statistic's readings.
    """

    name: str
    definition: Definition
    steps: tuple[int, ...]
    level: float
    numbers: tuple[PlannedNumber, ...]
    needs_size: bool
    state: str
    ledger: str | None
    spend: Spend
    shown: View

    @property
    def bound_note(self) -> str | None:
        """Why a bound on people that spans windows does harm, and the remedy; None: it does not.

        >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", user="reader",
        ...           start="2024-03-01", steps=52, epsilon=1, most=20, per="1mo")
        >>> print(planned_job(job).bound_note)
        late windows of a period are counted too low: ...; most-a-window = 1 beside it, ...
        """
        people, late = self.definition.people, self.definition.late_note
        if people is None or late is None:
            return None
        if people.most_a_window is not None:
            return f"{late}; a larger most leaves more to late windows"
        if self.definition.contribution.pattern is not None:
            return f"{late}; a larger most, or a period of one window, avoids it"
        return (
            f"{late}; most-a-window = 1 beside it, or another small number, keeps windows from "
            f"taking what later ones need"
        )

    def simulate(self, numbers: Any, n: int = 1) -> list[Release]:
        """What a reader would see if the true numbers were these; nothing is read or spent.

        Args:
            numbers: what happens in each step from the first on: of counts and sums a number for
                each group, in data units, of shape ``(steps, groups)``; of other statistics what
                their cells change by. As many steps as there are numbers are simulated.
            n: how many releases, each with noise of its own.

        Raises:
            InvalidInput: numbers of another shape or that are not finite, or a stream whose groups
                are found, or whose cells are computed on demand.

        >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d",
        ...           start="2024-03-01", steps=52, epsilon=1)
        >>> (made,) = planned_job(job).simulate([[300], [500], [200]])
        >>> made.terms.name, made.table().height, made.definition.simulated
        ('SIMULATED events', 3, True)
        """
        from counton.results.planned import release_of_nothing

        definition = self.definition
        if definition.discovery is not None:
            raise InvalidInput(
                f"job {self.name!r} finds its groups, and which are found depends on their rows: "
                f"declare them ({field('domain')}) to simulate their numbers"
            )
        terms = planned_terms(definition, definition.shape, self.spend.name)
        return release_of_nothing(definition, terms, self.level, self.shown).simulate(numbers, n)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "what": self.definition.what,
            "steps": list(self.steps),
            "level": self.level,
            "guarantee": self.definition.guarantee.to_dict(),
            "unit": self.definition.unit,
            "protected": self.definition.contribution.describe(self.definition.unit),
            "strategy": repr(self.definition.strategy),
            "state": self.state,
            "ledger": self.ledger,
            **({} if self.bound_note is None else {"note": self.bound_note}),
            "numbers": [
                {
                    "of": one.what,
                    "halfwidths": list(one.halfwidths),
                    "percent": one.percent,
                    **({"part": one.part, "share": one.share} if one.part else {}),
                }
                for one in self.numbers
            ],
        }


class Account(NamedTuple):
    """What the ledger of a state will hold for one kind of unit.

    Attributes:
        unit: what is protected.
        relation: how neighbours differ.
        spent: by all jobs together; None where no one sum is known.
        limit: what may be spent; None: as much as anybody likes.
        shares: of the limit, or of what is spent where there is none, by job.
    """

    unit: str
    relation: Relation
    spent: Guarantee | None
    limit: Guarantee | None
    shares: Mapping[str, float]


@dataclass(frozen=True)
class PlannedFile:
    """What the jobs of a file will release.

    Attributes:
        jobs: those that can be planned, by name.
        failed: why others cannot, by name.
        accounts: of each state, what its ledger will hold.
        shared: of each ledger that states share, what these jobs add to it; its limit stands there.
        beyond: of states whose jobs do not fit their limit, why.
    """

    jobs: Mapping[str, PlannedJob]
    failed: Mapping[str, CountonError]
    accounts: Mapping[str, tuple[Account, ...]]
    shared: Mapping[str, tuple[Account, ...]]
    beyond: Mapping[str, BudgetExceeded]


def planned_jobs(
    jobs: Mapping[str, Job],
    limit: PureDP | ApproxDP | ZCDP | None = None,
    *,
    level: float | None = None,
    size: int | None = None,
) -> PlannedFile:
    """What jobs will release, and what all of them together will have spent.

    Args:
        jobs: by name.
        limit: what each state may spend.
        level: probability with which intervals hold; None: as each job has it.
        size: how many rows there will be by the last step, where that is public; None: as each job
            has it.

    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           steps=52, epsilon=1)
    >>> found = planned_jobs({"visits": job}, PureDP(4), size=5000)
    >>> [round(half, 1) for half in found.jobs["visits"].numbers[0].halfwidths]
    [6.1, 10.5, 12.4]
    >>> found.accounts["visits.db"][0].shares
    {'visits': 0.25}
    """
    planned: dict[str, PlannedJob] = {}
    failed: dict[str, CountonError] = {}
    for name, job in jobs.items():
        try:
            planned[name] = planned_job(job, name, level=level, size=size)
        except CountonError as error:
            failed[name] = error
    accounts: dict[str, tuple[Account, ...]] = {}
    beyond: dict[str, BudgetExceeded] = {}
    for state in dict.fromkeys(one.state for one in planned.values()):
        spends = {name: one.spend for name, one in planned.items() if one.state == state}
        try:
            accounts[state] = _accounts(spends, limit)
        except BudgetExceeded as error:
            beyond[state] = error
            accounts[state] = _accounts(spends, None)
    shared = {
        ledger: _accounts(
            {n: one.spend for n, one in planned.items() if one.ledger == ledger}, None
        )
        for ledger in dict.fromkeys(one.ledger for one in planned.values())
        if ledger is not None
    }
    return PlannedFile(planned, failed, accounts, shared, beyond)


def planned_job(
    job: Job, name: str | None = None, *, level: float | None = None, size: int | None = None
) -> PlannedJob:
    """What one job will release.

    Raises:
        InvalidInput: it does not say all that a new stream needs, or its rows would have to be
            read.
    """
    definition = _definition(job)
    size = job.size if size is None else size
    level = float(job.level if level is None else level)
    last = last_step(definition, job.around) or job.steps or _AROUND
    steps = tuple(dict.fromkeys((1, (last + 1) // 2, last)))
    shown = shown_by(replace(job, known=None))
    halfwidths = halfwidths_at(
        definition, definition.shape, steps, level, rows=size, over=shown.over, ask=shown.ask
    )
    numbers = [PlannedNumber(name, each) for name, each in halfwidths.items()]
    needs_size = size is None and definition.inner.known_beforehand is not None
    found = [_with_percent(_of_part(one, definition), definition, size) for one in numbers]
    spend = Spend(job.name, definition.guarantee, definition.unit, definition.contribution.relation)
    return PlannedJob(
        name=job.name if name is None else name,
        definition=definition,
        steps=steps,
        level=level,
        numbers=tuple(found),
        needs_size=needs_size,
        state=hide_secrets(os.fspath(job.state)),
        ledger=None if job.ledger is None else hide_secrets(os.fspath(job.ledger)),
        spend=spend,
        shown=shown,
    )


def _definition(job: Job) -> Definition:
    """The stream that a job would make, from what it states alone.

    Raises:
        InvalidInput: it needs rows, or what its state remembers.
    """
    if job.continues is not None:
        raise InvalidInput(
            f"{field('continues', job.continues)} goes on from totals whose noise its state knows: "
            f"plan it without, as a stream of its own"
        )
    if statements.is_numbered(job):
        raise InvalidInput(
            "how many cells there are is how many rows there are, and a plan reads none: give "
            f"{field('label')} and {field('domain')}"
        )
    if _is_among_events(job):
        raise InvalidInput(
            f"{field('domain')} is the file of the events, and a plan reads no rows: declare the "
            f"groups apart from them"
        )
    asked = ask(replace(job, known=None))
    assert asked.statistic is not None
    if asked.statistic.tallied and (job.time is not None or asked.once):
        asked = asked._replace(request=with_unit(asked.request, ()))
    return define(asked)


def _is_among_events(job: Job) -> bool:
    if not isinstance(job.domain, str | os.PathLike):
        return False
    if job.domain is job.events:
        return True
    given: list[Any] = list(job.events) if isinstance(job.events, list | tuple) else [job.events]
    if not all(isinstance(one, str | os.PathLike) for one in given):
        return False
    private = {os.path.realpath(os.fspath(one)) for one in given}
    with suppress(CountonError):  # there may be no events yet
        private |= {os.path.realpath(path) for path in event_paths(job.events, job.file_format)}
    return os.path.realpath(os.fspath(job.domain)) in private


def _of_part(one: PlannedNumber, definition: Definition) -> PlannedNumber:
    """With the statistic of a report that it is of, and the share of the budget that this has."""
    if not definition.inner.statistics:
        return one
    report: Any = definition.inner
    named = [name for name in report.statistics if f"{one.what} ".startswith(f"{name} ")]
    part = max(named, key=len)
    law = law_for(
        definition.strategy, definition.guarantee, definition.contribution, definition.shape
    ).law
    shares = budget_shares(report, 1 if isinstance(law, DiscreteLaplace) else 2)
    source = report.derived_from.get(part, "")
    return one._replace(part=part, source=source, share=None if source else float(shares[part]))


def _with_percent(one: PlannedNumber, definition: Definition, size: int | None) -> PlannedNumber:
    """In per cent of all rows, or of an even share of them where there are groups."""
    inner, what = definition.inner, definition.what
    groups = 1 if definition.domain is None else max(len(definition.groups), 1)
    if one.part:
        member: Any = inner.statistics[one.part]
        groups *= len(member.groups) if isinstance(member, Grouped) else 1
        inner, what = member.inner, member.inner.keyword
    rows = isinstance(inner, TallyStatistic) and (inner.counts_rows or inner.once_each)
    counts = what == "count" or one.what.endswith("count") or inner.is_table
    counts |= bool(one.part) and rows and inner.known_beforehand is None
    if size is None or not counts or one.what == EACH_WINDOW:
        return one
    return one._replace(percent=100 * one.halfwidths[-1] * groups / size)


def _accounts(
    spends: Mapping[str, Spend], limit: PureDP | ApproxDP | ZCDP | None
) -> tuple[Account, ...]:
    """What a ledger will hold.

    Raises:
        BudgetExceeded: more than the limit.
    """
    if limit is None:
        found = []
        for unit, (relation, spent) in totals(spends.values()).items():
            shares = {
                name: _part(one.guarantee, spent)
                for name, one in spends.items()
                if known_unit(one.unit, [unit]) == unit
            }
            found.append(Account(unit, relation, spent, None, shares))
        return tuple(found)
    ledger = Ledger(limit)
    ledger.enter_all(spends.values())
    counted = {
        name: (entry, as_what)
        for name, (entry, as_what) in zip(spends, ledger.entries_with_costs(), strict=True)
    }
    found = []
    for unit, relation in ledger.units.items():
        shares = {
            name: _part(as_what, limit)
            for name, (entry, as_what) in counted.items()
            if entry.unit == unit
        }
        found.append(Account(unit, relation, ledger.cost(unit=unit), limit, shares))
    return tuple(found)


def _part(one: Guarantee | None, whole: Guarantee | None) -> float:
    """Which part of a guarantee another one is; nan where they are of different kinds."""
    if one is None or whole is None:
        return float("nan") if whole is None else 0.0
    for name in ("rho", "epsilon"):
        if hasattr(one, name) and hasattr(whole, name):
            return float(Fraction(getattr(one, name)) / Fraction(getattr(whole, name)))
    return float("nan")

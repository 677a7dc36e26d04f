"""Definition of a new stream from a job, before any row is read: what the job requests, the noise
under which it is planned, and the definition that the stream keeps.

A later run makes none of it: one function (`counton.run.settlement.refuse_other`) compares its job
with what the stream keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from counton.base.columns import REVISED, refuse_added
from counton.base.distributions import BoundedChange, DiscreteLaplace
from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.base.strategy_names import KINDS, PAPERS
from counton.frame.groups import GroupNames
from counton.frame.options import MissingOptions, OwnColumns
from counton.frame.windows import (
    Windows,
    lags_in,
    load_zone,
    parse_time,
    usual_revised_windows,
)
from counton.job import stated_options as statements
from counton.job.job import Job, check_most_a_window, require_guarantee
from counton.job.stated_options import kinds_of, refuse_other_kinds
from counton.numbers.design import Design
from counton.numbers.node_law import law_for
from counton.options.custom_strategies import OWN, own_strategy
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import checked_unit, unit_without_period
from counton.released.description import Counting, period_anew
from counton.released.periods import made_of_windows, period_starts
from counton.rows.domains import read_domain, refuse_long_terms
from counton.run.definition import (
    DEFINING,
    KIND,
    Definition,
    check_discovery,
    check_words,
    counting_of,
    cut_of,
    growth_of,
    needs_one_loss,
    remembering,
    rows_of_each_group,
    stated_guarantee,
)
from counton.state.ledger_rows import SpentUnit, protects_users, unit_word
from counton.statistics import Grouped, Statistic, TallyStatistic
from counton.statistics.by_group import inner_of
from counton.statistics.discovery import (
    DECLARED,
    ONE_CELL,
    ROOM,
    Cells,
    ComparedCells,
    Discovery,
    counters_of,
    sums_draws,
)
from counton.statistics.statistic import shape_of
from counton.strategies import Expiring, KAry, Metric, StreamStrategy, WindowVersions
from counton.strategies.participation import NORMS
from counton.strategies.streams.window_versions import MOST_CORRECTIONS

if TYPE_CHECKING:
    from counton.strategies.strategy import ReleaseForm


def define(asked: Job | StreamRequest, units: Sequence[SpentUnit] = ()) -> Definition:
    """Define the new stream of a job or its request: statistic, strategy, guarantee and all else
    that does not depend on its events.

    Args:
        units: protected units that have entries in the ledger (the record of spent privacy loss) of
            its state.

    Raises:
        InvalidInput: a value of the job is out of range.
    """
    request = ask(asked, units) if isinstance(asked, Job) else asked
    job, cut, most, record = request.job, request.cut, request.counting.most, request.record
    statistic, guarantee = request.statistic, request.guarantee
    cells: Cells = DECLARED
    strategy: StreamStrategy
    if job.promise.expire:
        strategy = Expiring(record["growth"], record["delay"])
        if record["release"] != "totals" and strategy.delay:
            raise InvalidInput(
                f"{field('release', record['release'])} does not go with "
                f"{field('delay', strategy.delay)}, because a delayed release counts up to an "
                "earlier window; leave one of them out"
            )
        if not isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            raise needs_one_loss()
        guarantee, contribution = guarantee.bound_to(strategy), request.contribution(statistic)
    else:
        if guarantee is None and job.promise.within is not None:
            request = _enough(request)
            statistic, guarantee = request.statistic, request.guarantee
        elif guarantee is None and not cut.goes_on:
            statistic, guarantee = _as_wanted(statistic, most)
        guarantee = require_guarantee(guarantee)
        discovering = job.groups.unknown == "discover"
        promised = counters_of(guarantee) if discovering else guarantee
        steps = record.get("steps") if job.times.around is None or not cut.goes_on else None
        if cut.lags:
            steps = cut.lags + 1  # of one window, whose noise is that of its versions
        statistic = statistic.for_people(most).settle(promised, steps)
        contribution = request.contribution(statistic)
        recounts = job.lateness.recounts or 0
        if job.lateness.recounts is not None:
            _check_recounts(request, recounts, contribution)
            contribution = contribution if cut.lags else contribution.in_steps(1 + recounts)
        groups = None if request.groups is None else len(request.groups)
        shape = (ROOM,) if discovering else shape_of(statistic, groups)
        strategy = _strategy(request, steps, promised, contribution, shape)
        if cut.lags:
            strategy = WindowVersions(cut.steps, strategy, recounts)
        if isinstance(promised, ApproxDP) and statistic.statistics:
            from counton.statistics.report_budget import weights_for_noise

            report: Any = request.statistic
            law = law_for(strategy, promised, contribution, shape).law
            settled = cast("Any", statistic)
            weights = weights_for_noise(settled, NORMS[law.family])
            if weights != settled.weights and report.weights is None:  # at most once
                fitting = settled.with_parameters(weights=weights)
                return define(replace(request, statistic=fitting))
        if discovering:
            law = law_for(strategy, promised, contribution, shape).law
            assert isinstance(law, DiscreteLaplace)
            delta = Fraction(guarantee.to_dict()["delta"])
            compared = ONE_CELL
            if statistic.row_total is not None:
                compared = ComparedCells(statistic.places, statistic.row_total)
            cells = Discovery.of(
                strategy, law, cut.steps, contribution, delta, rows=most, compared=compared
            )
    details: dict[str, Any] = {
        "kind": KIND,
        "what": statements.name_of(job.what),
        "record": record,
        "domain": request.groups,
        "once": not cut.goes_on,
        "new_rows": job.rows.append or job.rows.id is not None,
        "parts": {name: [*each] for name, each in request.parts._asdict().items()},
        "discovery": cells.to_dict(),
        "ended": None,
    }
    return Definition.from_details(details, statistic, guarantee, contribution, strategy)


@dataclass(frozen=True)
class StreamRequest:
    """The request of a job for a stream: statistic, groups, and options that define it.

    Attributes:
        job: the job, with fields that its statistic sets.
        statistic: statistic of all groups; parameters that depend on the guarantee are not set yet.
        parts: columns that the statistic reads.
        groups: declared groups and the group of all others; None: rows are not split by group.
        record: options that define the stream, and policies and outputs, by name, as the state
            keeps them.
        cut, counting: rule that assigns each row to a step, and rule that decides which rows count.
        guarantee: stated guarantee; None if it follows from the wanted accuracy.
        own: strategy of the user's own; None if the record names one.
    """

    job: Job
    statistic: TallyStatistic
    parts: OwnColumns
    groups: GroupNames | None
    record: Mapping[str, Any]
    cut: Windows
    counting: Counting
    guarantee: Guarantee | None
    own: StreamStrategy | None

    def contribution(self, statistic: Statistic) -> Contribution:
        """Return the contribution bound of a row, or of a user's counted rows."""
        found = statistic.contribution(batched=True)
        found = replace(found, unit=self.counting.of(self.record["unit"]))
        return self.counting.bounding(found, statistic.norms_of_people(self.counting.most))


def ask(job: Job, units: Iterable[SpentUnit] = ()) -> StreamRequest:
    """Build the request of a job for a new stream.

    Args:
        units: protected units that have entries in the ledger (the record of spent privacy loss) of
            its state.

    Raises:
        InvalidInput: a value of the job is out of range.
    """
    asked, once = job, statements.is_once(job)
    check_words(job)
    statistic, parts = _new_statistic(job, once=once)
    within, targets = job.promise.within, None
    if within is not None and isinstance(job.what, str) and hasattr(statistic, "fitted_to"):
        from counton.planning.least_privacy import bounds_of

        fitted = statistic.fitted_to(bounds_of(within, job.promise.size))
        statistic, targets = fitted, fitted.targets
    declares = statistic.declares
    filled = dict(statements.kind_of(job.what).fills) if isinstance(job.what, str) else {}
    if declares is not None and job.groups.domain is None and job.times.time is not None:
        filled["domain"] = list(declares)
    job = job.having(**filled) if filled else job
    if statistic.ordered:
        raise InvalidInput(
            f"{statistic!r} takes events in their order, which jobs do not: count them in memory, "
            "with counton.Running in Python"
        )
    refuse_other_kinds(job, kinds_of(job, statistic))
    statistic = cast("TallyStatistic", statistic)
    if statistic.rank_digits and job.people.user is None:
        needs = f"{field('user')}, the column that names the user of a row"
        if rows_of_each_group(statistic) is None:
            needs += f", and {field('most')}, how many rows of one user count"
        raise InvalidInput(
            f"a {statements.name_of(job.what)} that counts users needs {needs}; give it"
        )
    guarantee = stated_guarantee(job, expires=job.promise.expire)
    groups, own = groups_of(job), own_strategy(job.noise.strategy)
    record = {name: job.option(name) for name in DEFINING if name != "domain"}
    record |= statements.stated_options(job, parts)
    if targets is not None:  # as if they were stated, for later runs
        record["target"] = dict(targets)
    if job.times.time is not None:
        record |= _cut_by_time(job)
    else:
        for name in ("every", "start", "until", "timezone", "revise"):
            if job.option(name) is not None:
                raise InvalidInput(
                    f"{field(name, job.option(name))} needs {field('time')}, the column of times; "
                    f"give it, or leave {field(name)} out: then all rows are released once"
                )
        record |= {"steps": 1}
    if job.people.user is not None:
        record["most"] = _most(job, statistic)
    if groups is not None:
        statistic = _by_group(statistic, groups, job)
    cut, counting = cut_of(record, once=once), counting_of(record, statistic)
    record["release"] = _form_of_release(job, statistic, counting.per, cut)
    unit = job.promise.unit
    kind = "user" if protects_users(record) else "event"
    if unit is not None:
        unit = unit_without_period(checked_unit(unit), job.people.per)
    record |= {
        # The word that is stated, or that the state has for such a unit already.
        "unit": unit_word(units, kind, unit, kind),
        "strategy": OWN if own is not None else job.noise.strategy or "auto",
        "metric": job.noise.metric or "mean",
        "delay": job.promise.delay or 0,
        "growth": growth_of(job) if job.promise.expire else None,
    }
    stated = {name: one for name, one in record.items() if one is not None and one is not False}
    kept = remembering(stated, asked)
    return StreamRequest(job, statistic, parts, groups, kept, cut, counting, guarantee, own)


def _new_statistic(job: Job, *, once: bool) -> tuple[Statistic, OwnColumns]:
    """Return a new stream's statistic and columns; one error names all missing options."""
    named, counted = isinstance(job.what, str), statements.kind_of(job.what)
    needed = () if once else ("time", "every", "start", "steps")
    endless = job.times.around is not None or job.promise.expire or job.lateness.revise is not None
    lacking = [field(name) for name in needed if job.option(name) is None]
    lacking = [name for name in lacking if not (endless and name == field("steps"))]
    computed = job.promise.within is not None or (once and job.option("target") is not None)
    if job.promise.epsilon is None and job.promise.rho is None and not computed:
        lacking.append(f"{field('epsilon')} or {field('rho')}")
    groups, people = job.groups, job.people
    if named and counted.additive:
        if groups.by is not None and groups.domain is None and groups.unknown != "discover":
            lacking.append(field("domain"))
        if people.user is not None and people.most is None and not people.first:
            lacking.append(field("most"))
    try:
        found = statements.settle_statistic(job)
    except MissingOptions as error:
        own = [one.name for one in counted.options if one.needed and job.option(one.name) is None]
        absent = [*dict.fromkeys([*map(field, (*error.names, *own)), *lacking])]
        if not error.names or len(absent) == len(error.names):
            raise
        raise _lacks(absent) from None
    if len(lacking) > 1 or (lacking and lacking[0] in map(field, needed)):
        raise _lacks(lacking)
    return found


def _lacks(lacking: Sequence[str]) -> MissingOptions:
    several = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
    return MissingOptions(
        f"a new stream needs {several}; choose {'them' if len(lacking) > 1 else 'it'} without "
        f"looking at the data. If the stream exists already, "
        f"correct {field('state')} or {field('name')}",
        InvalidInput(several).fields,
    )


def groups_of(job: Job) -> GroupNames | None:
    """Return declared groups, then that of all others; None without groups or for a hierarchy."""
    groups, by, domain = job.groups, job.groups.by, job.groups.domain
    if groups.unknown == "discover":
        check_discovery(job, by)
        return GroupNames(())
    if statements.declares_nodes(job) or (domain is None and by is None):
        return None
    if by is None:
        raise InvalidInput(
            f"{field('domain', domain)} lists groups, and the column of the groups is missing; "
            f"give {field('by')}"
        )
    if domain is None:
        raise MissingOptions(
            f"{field('by', by)} needs {field('domain')}, a list of the groups, because groups "
            "found in the data would reveal whose events are in it; give a file with one group a "
            f"line, a table with a column {by!r}, or a list A,B,C; or find the groups privately "
            f"({field('unknown', 'discover')})",
            ["domain"],
        )
    found = read_domain(domain, by)
    if groups.other is not None and (not groups.other.strip() or groups.other in found):
        raise InvalidInput(
            f"{field('other')} is {groups.other!r}, which is also a group of {field('domain')}; "
            "give another name"
        )
    return found if groups.other is None else found.plus([groups.other])


def _by_group(statistic: TallyStatistic, groups: GroupNames, job: Job) -> TallyStatistic:
    """Apply a statistic to each of several groups: return the statistic of all groups."""
    if job.groups.unknown == "discover":
        from counton.statistics.average import undeclared_variant

        found = undeclared_variant(statistic)
        if not found.additive and found.row_total is None:
            raise InvalidInput(
                f"{field('unknown', 'discover')} finds groups by their number of rows, which is "
                f"private, but {statistic!r} takes it as public; list the groups "
                f"({field('domain')})"
            )
        return found
    own = statistic.by_groups(groups)
    if own is statistic:
        return statistic  # the groups are its nodes
    if own is None:
        refuse_long_terms(groups)
    return own or Grouped(statistic, groups)


def _cut_by_time(job: Job) -> dict[str, Any]:
    """Return start, time zone and number of steps of a stream of time windows.

    A revised window is released again at the end of each further window within ``revise``.
    """
    times, zone = job.times, job.times.timezone or "UTC"
    assert times.start is not None
    assert times.every is not None
    start, steps = parse_time(times.start, zone), times.steps
    if times.around is not None or steps is None:
        steps = Windows.endless(start, times.every, zone).steps
    if job.lateness.revise is not None:
        if times.steps is None:  # the noise is the same for any number
            steps = usual_revised_windows(start, times.every, zone)
        from counton.strategies.streams.window_versions import MOST_VERSIONS

        lags, most = lags_in(job.lateness.revise, times.every), MOST_VERSIONS - 1
        if lags > most:
            number = times.every.rstrip("smhdwo")
            longest = f"{most * int(number)}{times.every.removeprefix(number)}"
            raise InvalidInput(
                f"{field('revise', job.lateness.revise)} publishes a window anew after each of "
                f"{lags:,} further windows of {times.every}, and at most {most:,} are possible: "
                f"give at most {longest}, or a longer {field('every')}"
            )
    began = start.astimezone(load_zone(zone)).isoformat()
    return {"start": began, "timezone": zone, "steps": steps}


def _most(job: Job, statistic: TallyStatistic) -> int:
    """Return the bound on a user's counted events, or groups."""
    people, by = job.people, job.groups.by
    if people.per is not None:
        check_period(people.per, job.times.timezone or "UTC")
    each, once = rows_of_each_group(statistic), field("first", True)
    if each is None and not people.first:
        if people.most is None:
            raise MissingOptions(
                f"{field('user', people.user)} needs {field('most')}, how many events of one user "
                f"count, because noise must hide all of them; give it, or {once} to count each "
                "user once for ever",
                ["most"],
            )
        check_most_a_window(people.most_a_window, people.most)
        return people.most
    how = f"with {once if people.first else statements.name_of(job.what)}"
    if people.most is not None and people.most > 1 and by is None:
        raise InvalidInput(
            f"{field('most', people.most)} {how} bounds the groups in which a user counts, and "
            f"there are no groups; leave {field('most')} out, or give {field('by')}"
        )
    if people.most is None and by is not None:
        raise InvalidInput(
            f"{field('by', by)} {how} needs {field('most')}, the number of groups in which a user "
            f"counts, because noise must hide all of them; give it (with {field('most', 1)} each "
            "user counts only in the first group)"
        )
    return people.most or 1


def check_period(per: str, timezone: str = "UTC") -> None:
    """Refuse a text that is not the length of a user's period, such as ``1d``."""
    try:
        Windows(datetime(2000, 1, 1, tzinfo=UTC), per, 1, timezone)
    except InvalidInput as error:
        raise InvalidInput(f"{field('per', per)} is not the length of a period: {error}") from None


def _form_of_release(job: Job, statistic: TallyStatistic, per: str | None, cut: Windows) -> str:
    """Return "totals", "windows", "both", or "periods" if users count anew in each."""
    inner = inner_of(statistic)
    if cut.lags:
        refuse_added([part.name for part in inner.parts if part.kind == "label"], *REVISED)
        ranks = inner.counts_users or inner.counted_ranks
        if (ranks or job.people.first) and not (per == cut.every and made_of_windows(cut, per)):
            # A window would count only the users whose first row is in it.
            longer = "for ever" if per is None else f"in each {per}"
            raise InvalidInput(
                f"{field('revise', job.lateness.revise)} revises the users of each window of "
                f"{cut.every}, but here a user counts once {longer}, in the first window with a "
                f"row of that user: give {field('per', cut.every)} (for distinct users, reach with "
                f"{field('at_least', 1)}), and let windows begin where these periods begin"
            )
        if job.groups.unknown == "discover" and job.times.steps is None:
            raise InvalidInput(
                f"{field('unknown', 'discover')} with {field('revise', job.lateness.revise)} needs "
                f"{field('steps')}: each version of each window may show a group, so the size that "
                f"a group must have grows with the number of windows; give it"
            )
        return "windows"
    every = period_anew(inner, per)
    anew = every is not None
    if isinstance(every, str):
        anew = made_of_windows(cut, every)
    if job.times.around is not None and job.noise.release not in (None, "totals", "both"):
        raise InvalidInput(
            f"{field('release', job.noise.release)} does not go with "
            f"{field('around', job.times.around)}: a stream without an end releases totals, or "
            "both, whose windows are differences of totals"
        )
    if job.noise.release == "periods" and not anew:
        raise InvalidInput(
            f"{field('release', 'periods')} is for users who count anew in each period "
            f"({field('per')}) of whole windows, as reach does, and here no user does; leave it out"
        )
    return job.noise.release or ("periods" if anew else "totals")


def _check_recounts(request: StreamRequest, recounts: int, contribution: Contribution) -> None:
    """Refuse a number of changes, of an event or of each counted row of a user, that a guarantee
    cannot cover.
    """
    counting = request.counting
    check_integer("recounts", recounts, 1, MOST_CORRECTIONS)
    bounds = counting.distinct, counting.each, counting.most_a_window, contribution.pattern
    other, pattern = None, contribution.pattern
    if contribution.relation == "replace":
        other = f"{field('replace', True)}, where a row is replaced, not added"
    elif contribution.every or not isinstance(pattern, BoundedChange | None):
        other = f"{request.statistic.keyword}, whose rows count by a schedule or a pattern"
    elif counting.users and (any(bounds) or not request.cut.lags):
        other = (
            f"{field('user')}, because it is proven only for counts and sums with "
            f"{field('revise')}, of which {field('most')} alone bounds the rows"
        )
    if other is not None:
        raise InvalidInput(f"{field('recounts', recounts)} does not go with {other}: leave one out")


def _enough(request: StreamRequest) -> StreamRequest:
    """Return the request with the least loss that reaches the job's accuracy at the last step.

    The result depends only on what the job states, not on rows.
    """
    from counton.planning.least_privacy import least_guarantee
    from counton.run.planned_errors import reached_halfwidths

    def factor(guarantee: Guarantee) -> float:
        made = define(replace(request, guarantee=guarantee))
        return reached_halfwidths(made, request.job).factor

    promise = request.job.promise
    least = cast("Literal['epsilon', 'rho']", promise.least or "epsilon")
    return replace(request, guarantee=least_guarantee(factor, least, promise.delta))


def _as_wanted(statistic: TallyStatistic, most: int) -> tuple[TallyStatistic, Guarantee | None]:
    """Return a table's statistic with its accuracies as budget shares, and the guarantee they cost.

    Other statistics come back unchanged, with None. A user counts in at most ``most`` cells.
    """
    wanting: Any = getattr(statistic, "as_wanted", None)
    if wanting is None:
        return statistic, None
    found = wanting()
    if found is None:
        raise InvalidInput(
            f"the privacy loss is missing; give {field('rho', 0.5)} for example, or state the "
            f"accuracy by {field('target', 'LEVEL=STD,...')}, from which the loss is computed"
        )
    settled, guarantee = found
    return settled, ZCDP(guarantee.rho * most**2)  # norms multiply


def _strategy(
    request: StreamRequest,
    horizon: int | None,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """Return the job's own strategy, the best of its kind, or the planner's choice."""
    job, form = request.job, "totals" if request.cut.lags else request.record["release"]
    release = cast("ReleaseForm", "totals" if form == "periods" else form)
    name = request.record["strategy"]
    if (own := request.own) is not None:
        if own.horizon != horizon:
            ends = own.horizon, horizon
            has, steps = ("no last step" if end is None else f"{end:,} steps" for end in ends)
            raise InvalidInput(
                f"{field('strategy')} is {own!r}, made for {has}, and the stream has {steps}: "
                "build it for that number"
            )
        form_of_own = "windows" if release == "windows" else "totals"
        if own.facts.workload != form_of_own or release == "both":
            raise InvalidInput(
                f"{field('strategy')} is {own!r}, made for {own.facts.workload}, and does not go "
                f"with {field('release', release)}; leave one of them out"
            )
        from counton.planning.planner import ranked_designs

        found, _ = ranked_designs(
            horizon, guarantee, contribution=contribution, shape=shape, strategies=[own]
        )
        return found[0].strategy
    for kind in (PAPERS[name],) if name in PAPERS else KINDS.get(name, ()):
        if kind.windows != (release == "windows"):
            of = "single windows" if kind.windows else "totals"
            raise InvalidInput(
                f"{field('strategy', name)} is made for {of}, and does not go with "
                f"{field('release', release)}; leave one of them out"
            )
    if horizon is None and release == "both":
        release = "totals"  # totals are planned; a window is the difference of two
    periods = None
    if form == "periods" and horizon is not None and name == "auto":
        anew = period_anew(inner_of(request.statistic), request.counting.per)
        begins = period_starts(request.cut, anew, horizon)
        places = np.unique(np.linspace(0, horizon - 1, _WEIGHED).astype(np.int64))
        periods = tuple(zip(begins[places].tolist(), (places + 1).tolist(), strict=True))
    summed_draws = job.groups.unknown == "discover"
    return _best(
        name,
        horizon,
        guarantee,
        cast("Metric", job.noise.metric or "mean"),
        contribution,
        shape,
        release=release,
        summed_draws=summed_draws,
        simple=job.noise.simple or summed_draws or not request.cut.goes_on,
        around=job.times.around,
        periods=periods,
    )


#: Most steps at which errors of sums over periods are compared.
_WEIGHED = 512


@lru_cache(maxsize=32)  # streams of a service, and jobs of a file, are planned alike
def _best(
    name: str,
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric,
    contribution: Contribution,
    shape: tuple[int, ...],
    *,
    release: ReleaseForm,
    summed_draws: bool,
    simple: bool,
    around: int | None,
    periods: tuple[tuple[int, int], ...] | None,
) -> StreamStrategy:
    """Return the strategy of one kind (``name``) with the least error.

    Args:
        summed_draws: consider only strategies whose noise is a sum of draws from one distribution.
        periods: first and last step of each period. With periods, the strategy with the least error
            in the sums of the periods is chosen. Without (None), the strategy with the least error
            in the totals is chosen. For short periods the chosen strategy has independent noise in
            each step.

    Raises:
        InvalidInput: no strategy of the kind can serve the stream.
    """
    from counton.planning.planner import ranked_designs  # a later run needs no planner

    also = []
    if periods is not None and horizon is not None:
        also = [KAry(horizon, horizon + 1, subtraction=False)]
    ranked, _ = ranked_designs(
        horizon,
        guarantee,
        metric,
        contribution=contribution,
        shape=shape,
        strategies=None if name == "auto" else (name,),
        release=release,
        simple=simple,
        compare=summed_draws or name != "auto",
        around=around,
        also=also,
    )
    if periods is not None:
        starts, stops = np.asarray(periods).T

        def error(choice: Design) -> float:
            found = choice.errors.window_std(starts, stops) ** 2
            return float(found.max() if metric == "max" else found.mean())

        return min(ranked, key=error).strategy
    for choice in ranked:
        if not summed_draws or sums_draws(choice.strategy):
            return choice.strategy
    raise InvalidInput(
        f"strategy {name!r} cannot serve {'any number of' if horizon is None else horizon} steps "
        f"under {guarantee}; give {field('strategy', 'auto')}"
    )

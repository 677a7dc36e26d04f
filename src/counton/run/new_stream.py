"""A new stream: its definition, from what a job asks, with a strategy chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from counton.base.arrays import Integers
from counton.base.errors import InvalidInput, field
from counton.base.exact import Number, check_integer
from counton.base.groups import GroupNames
from counton.base.literature import paper_of
from counton.base.options import MissingOptions, OwnColumns
from counton.base.strategy_names import KINDS, PAPERS, PUBLISHED, KindOfStrategy
from counton.base.windows import EachRow, Once, RevisedWindows, Windows, lags_in, parse_time
from counton.job import refusals
from counton.job import stated_options as statements
from counton.job.job import (
    NEWEST,
    NOW,
    Job,
    check_most,
    check_most_a_window,
    check_people_columns,
    require_guarantee,
)
from counton.job.own_strategies import OWN, is_file_of, own_strategy
from counton.job.refusals import (
    AROUND,
    WITHIN_OF_PARTS,
    check_within,
    refuse,
    refuse_of_ordered,
    refuse_of_tables,
    refuse_without,
)
from counton.numbers.design import Design, design_for
from counton.numbers.discovery import DECLARED, ROOM, Discovery, counters_of
from counton.privacy import ZCDP, Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import checked_unit, unit_without_period, whole_of
from counton.privacy.guarantees import check_delta, guarantee_from
from counton.released.counting import Added, Bounded, Counting, Ordered
from counton.released.description import Description, period_anew
from counton.released.periods import begun_anew, made_of_windows
from counton.rows.domains import read_domain, refuse_long_terms
from counton.run.definition import DEFINING, Definition, rows_of_each_group
from counton.state.unit_names import SpentUnit, unit_word
from counton.statistics import Grouped, Statistic, TallyStatistic
from counton.statistics.by_group import for_people, inner_of, norms_of_people
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.planned_halfwidths import planned_halfwidths
from counton.statistics.statistic import protects, shape_of
from counton.statistics.tally_statistic import is_tallied
from counton.strategies import Expiring, Metric, StreamStrategy

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths
    from counton.strategies.strategy import ReleaseForm


def define(job: Job, units: Sequence[SpentUnit] = ()) -> Definition:
    """The definition of a new stream: all that can be said of a job without looking at events.

    Args:
        units: what its state, and the ledger that this shares, have spent for.

    Raises:
        InvalidInput: the job is outside what is allowed.
    """
    once = statements.is_once(job)
    if once:
        refuse_of_tables(job)
    check_options(job)
    lacking = _lacking(job)
    try:
        statistic, parts = statements.settle_statistic(job)
    except MissingOptions as error:
        absent = dict.fromkeys([*map(field, (*error.names, *_own_lacking(job))), *lacking])
        if not error.names or len(absent) == len(error.names):
            raise
        raise _lacks([*absent]) from None
    if len(lacking) > 1:
        raise _lacks(lacking)
    if isinstance(statistic, TallyStatistic) and statistic.counts_units:
        beside = f"a {statements.name_of(job.what)} of counts"
        refuse(job, refusals.COUNTS, beside, "leave it out")
    if isinstance(job.what, str):
        job = _fill_open_fields(job)
    job = with_declared(job, statistic)
    if job.promise.expire:
        refuse(job, refusals.EXPIRE, field("expire"))
    if job.times.revise is not None:
        _check_revise(job)
    guarantee = stated_guarantee(job, expires=job.promise.expire)
    check_until(job, job.times.timezone or "UTC")
    domain = groups_of(job, job.groups.by)
    if is_tallied(statistic) and (job.times.time is not None or once):
        job = _with_unit(job, units)
    return _define(job, statistic, parts, domain, guarantee)


def _fill_open_fields(job: Job) -> Job:
    """A job with the fields that its statistic fills, where a new stream leaves them open."""
    fills = statements.kind_of(job.what).card.fills
    return job if fills is None else job.having(**fills(job.statement))


def planned_people(job: Job, steps: int | None) -> tuple[Statistic, Contribution]:
    """The statistic of a new stream that protects people, and what one of them changes in it.

    The statistic is not settled, since no guarantee is needed.

    >>> job = Job("count", "visits.csv", "visits.db", user="reader", most=20, per="1mo")
    >>> print(planned_people(job, 365)[1])
    one user's month added or removed, with at most 20 events counted, ...
    """
    kind = statements.kind_of(job.what)
    job = job.having(time=job.times.time or "time")
    statistic = kind.from_spec(job.statement)
    if not is_tallied(statistic):
        refuse_of_ordered(job, statistic, OwnColumns(), each_row=False)
    job = _with_unit(_fill_open_fields(job), ())
    domain = None if job.groups.domain is None else groups_of(job, job.groups.by)
    grouped = statistic if domain is None else _by_group(statistic, domain, job)
    counting = _counting(job, statistic, in_order=False)
    contribution = _contribution_of(grouped, job, counting, steps=steps)
    return for_people(statistic, counting.most), contribution


def check_options(job: Job) -> None:
    """Refuse what no stream takes."""
    named = isinstance(job.noise.strategy, str) and not is_file_of(job.noise.strategy)
    if named and job.noise.strategy not in ("auto", PUBLISHED, *KINDS, *PAPERS):
        raise InvalidInput(
            f"strategy {job.noise.strategy!r} is not known; use auto or one of "
            f"{', '.join((*KINDS, PUBLISHED, *PAPERS))}, or a file with one of your own, mine.json"
        )
    check_most(job.people.most)
    check_people_columns(job.people.user, job.rows.id)


def with_declared(job: Job, statistic: Statistic | None) -> Job:
    """A job with the groups that its statistic declares, where it declares none itself."""
    declares = None if statistic is None else statistic.card.declares
    if declares is None or job.groups.domain is not None or job.times.time is None:
        return job
    return job.having(domain=list(declares))


def stated_guarantee(job: Job, *, expires: bool) -> Guarantee | None:
    """The guarantee that a job states; where protection fades, not bound to its strategy."""
    if not expires and not job.promise.expire:
        refuse_without(job, "expire")
    check_within(job)
    numbers = (job.promise.epsilon, job.promise.delta, job.promise.rho)
    if job.promise.within is not None:
        check_delta(job.promise.delta)
        numbers = (None, None, None)
    return _expiring_guarantee(*numbers) if expires else guarantee_from(*numbers)


def check_until(job: Job, timezone: str) -> None:
    """Refuse what is no time, before rows are read."""
    if job.times.until not in (NOW, NEWEST):
        moment(job.times.until, timezone)


def _lacking(request: Job) -> list[str]:
    """What a new stream of any statistic needs and a request does not state."""
    each_row = request.times.time is None and not statements.kind_of(request.what).card.windowed
    needed = ["steps"] if each_row else ["time", "every", "start", "steps"]
    once = statements.is_once(request)
    if once:
        needed = []
    if request.times.around is not None or request.promise.expire or request.times.revise:
        needed.remove("steps")
    lacking = [field(name) for name in needed if request.option(name) is None]
    computed = (
        once and request.option("target") is not None
    )  # the guarantee is what the targets cost
    computed = computed or request.promise.within is not None
    if request.promise.epsilon is None and request.promise.rho is None and not computed:
        lacking.append(f"{field('epsilon')} or {field('rho')}")
    if isinstance(request.what, str) and statements.kind_of(request.what).card.additive:
        if (
            request.groups.by is not None
            and request.groups.domain is None
            and request.groups.unknown != "discover"
        ):
            lacking.append(field("domain"))
        if (
            request.people.user is not None
            and request.people.most is None
            and not request.people.first
        ):
            lacking.append(field("most"))
    return lacking


def _own_lacking(request: Job) -> list[str]:
    """What a statistic needs of its own and a job does not state."""
    own = statements.kind_of(request.what).card.options if isinstance(request.what, str) else ()
    return [one.name for one in own if one.needed and request.option(one.name) is None]


def _lacks(lacking: Sequence[str]) -> MissingOptions:
    several = f"{', '.join(lacking[:-1])} and {lacking[-1]}"
    return MissingOptions(
        f"a new stream needs {several}; give them, chosen without looking at the data, or, to go "
        f"on with a stream that exists, correct {field('state')} or {field('name')}",
        InvalidInput(several).fields,
    )


def moment(given: str | datetime | None, timezone: str) -> datetime | None:
    if isinstance(given, datetime):
        given = given.isoformat()
    return None if given is None else parse_time(given, timezone)


def groups_of(request: Job, by: str | None, *, known: bool = False) -> GroupNames | None:
    """The groups that a job declares; None where it declares none, or nodes of its statistic.

    Args:
        known: whether the stream is there, so that it may leave them out.
    """
    if statements.declares_nodes(request):
        return None
    domain = request.groups.domain
    if by is None and not known and domain is not None:
        raise InvalidInput(
            f"{field('domain', domain)} declares groups, but there is no {field('by')}, the column "
            f"to find them in; give it"
        )
    if request.groups.unknown == "discover":
        _check_discovery(request, by)
        return None if known else GroupNames(())
    if domain is None:
        if by is not None and not known:
            raise MissingOptions(
                f"{field('by', by)} needs {field('domain')}: the groups must be declared, because "
                f"groups found in the data would reveal whose events are in it; give a file with "
                f"one group per line, a table with a column {by!r}, or a list A,B,C; or find them "
                f"privately ({field('unknown', 'discover')})",
                ["domain"],
            )
        return None
    return read_domain(domain, by or "")


def _check_discovery(request: Job, by: str | None) -> None:
    asked = field("unknown", "discover")
    if by is None:
        raise InvalidInput(f"{asked} needs {field('by')}, the column of the groups; give it")
    if not statements.kind_of(request.what).card.finds:
        raise InvalidInput(
            f"{asked} finds groups by how many events they have, and this is a sum; declare the "
            f"groups ({field('domain')})"
        )
    refuse(request, refusals.DISCOVER, asked)
    if request.noise.strategy not in (None, "auto", "binary", "kary", "smooth"):
        raise InvalidInput(
            f"{field('strategy', request.noise.strategy)} does not go with {asked}, whose "
            "thresholds are proven for binary, kary and smooth; choose one of them, or auto"
        )


def _counting(request: Job, statistic: Statistic, *, in_order: bool) -> Counting:
    """How rows count, as a new stream's job says it."""
    if in_order:
        return Ordered(protects(statistic) == "user")
    most, per, each = request.people.most, request.people.per, rows_of_each_group(statistic)
    if request.people.user is None:
        refuse_without(request, "user")
        return Added()
    if per is not None:
        check_period(per, request.times.timezone or "UTC")
    if each is not None:
        refuse(
            request,
            refusals.ROWS_OF_USERS,
            statements.name_of(request.what),
            "leave it out",
        )
    if request.people.first:
        refuse(request, refusals.FIRST, field("first", True))
        each = 1
    if each is not None:
        _check_groups_of_user(request)
        return Bounded(1 if most is None else most, per, each=each)
    if most is None:
        raise MissingOptions(
            f"{field('user', request.people.user)} needs {field('most')}, how many events of one "
            f"user count: noise must hide them all; or give {field('first', True)} to count each "
            "user once for ever",
            ["most"],
        )
    check_most_a_window(request.people.most_a_window, most)
    return Bounded(most, per, request.people.distinct, most_a_window=request.people.most_a_window)


def _check_groups_of_user(request: Job) -> None:
    most, once = request.people.most, field("first", True)
    how = f"with {once if request.people.first else statements.name_of(request.what)}"
    if most is not None and most > 1 and request.groups.by is None:
        raise InvalidInput(
            f"{field('most', most)} {how} is in how many groups a user counts, and there is no "
            f"{field('by')}; leave {field('most')} out"
        )
    if most is None and request.groups.by is not None:
        raise InvalidInput(
            f"{field('by', request.groups.by)} {how} needs {field('most')}, in how many groups a "
            f"user counts: noise must hide them all, and with {field('most', 1)} each user counts "
            "in the first group alone"
        )


def check_period(per: str, timezone: str = "UTC") -> None:
    """Refuse a user's period that is no length."""
    try:
        Windows(datetime(2000, 1, 1, tzinfo=UTC), per, 1, timezone)
    except InvalidInput as error:
        raise InvalidInput(f"{field('per', per)} is no period of a user: {error}") from None


def _expiring_guarantee(
    epsilon: Number | None, delta: Number | None, rho: Number | None
) -> ExpiringDP | ExpiringZCDP | None:
    if delta is not None:
        raise InvalidInput(
            f"{field('delta', delta)} does not go with {field('expire')}; give {field('epsilon')} "
            f"or {field('rho')} alone"
        )
    if epsilon is not None and rho is not None:
        raise needs_one_loss()
    if epsilon is not None:
        return ExpiringDP(epsilon)
    return None if rho is None else ExpiringZCDP(rho)


def needs_one_loss() -> InvalidInput:
    """The error for a stream without an end that states no loss, or two."""
    return InvalidInput(
        f"{field('expire')} needs either {field('epsilon')} (the loss of the newest event) or "
        f"{field('rho')}; {field('plan_expiring(...)')} finds it from the losses you allow"
    )


_Given = TypeVar("_Given")

_MOST_SPARE = 1_000_000


def _check_bounds_of_parts(statistic: Statistic, request: Job) -> None:
    if not getattr(statistic, "within", None):
        return
    usual = ("metric",) if request.noise.metric == "mean" else ()
    refuse(request, WITHIN_OF_PARTS, field("within"), but=usual)


def _enough(
    job: Job, statistic: Statistic, parts: OwnColumns, domain: GroupNames | None
) -> Guarantee:
    """The least guarantee with which the last release is as accurate as it is wanted.

    A function of what the job states alone.
    """
    from counton.planning.least_privacy import least_guarantee

    plain = job.having(within=None, least=None, size=None)

    def factor(guarantee: Guarantee) -> float:
        made = _define(plain, statistic, parts, domain, guarantee)
        return reached_halfwidths(made, job).factor

    least = cast("Literal['epsilon', 'rho']", job.promise.least or "epsilon")
    return least_guarantee(factor, 1.0, least, job.promise.delta)


def reached_halfwidths(definition: Definition, request: Job) -> ReachedHalfwidths:
    """The half-widths that a job wants, beside those of a stream."""
    from counton.planning.least_privacy import bounds_of, compare_halfwidths

    assert request.promise.within is not None
    if request.promise.size is not None:
        check_integer("size", request.promise.size, 1, 2**60)
    last = last_step(definition, request.times.around)
    if last is None:
        raise InvalidInput(
            f"{field('within', request.promise.within)} is said of the last step, and the stream "
            f"has none: give {field('around')}, or leave it out"
        )
    bounds = bounds_of(request.promise.within, request.promise.size)
    if definition.cut.lags and definition.statistic.card.additive:
        from counton.run.revised_plan import FINAL, named_versions

        terms = design_of(definition, definition.shape)
        found = {**named_versions(terms, request.view.level)}
        bounds = {name or FINAL: bound for name, bound in bounds.items()}
    else:
        found = halfwidths_at(
            definition, definition.shape, [last], request.view.level, rows=request.promise.size
        )
    halfwidths = {name: each[-1] for name, each in found.items()}
    return compare_halfwidths(halfwidths, bounds, last, request.view.level)


def _define(
    job: Job,
    statistic: Statistic,
    parts: OwnColumns,
    domain: GroupNames | None,
    guarantee: Guarantee | None,
) -> Definition:
    said = (statistic, parts, domain)
    ordered = (job.times.time is None and not statements.is_once(job)) or not is_tallied(statistic)
    counting = _counting(job, statistic, in_order=ordered)
    domain = _with_other(job, domain)
    _check_bounds_of_parts(statistic, job)
    cut = _cut(job)
    if domain is not None:
        statistic = _by_group(statistic, domain, job)
    if ordered:
        refuse_of_ordered(job, statistic, parts, each_row=not cut.batched)
        if cut.timed and not parts.names:
            raise InvalidInput(
                f"{field('time', job.times.time)} is a column of a table, and the events are a "
                f"text of letters; name the column of letters, or leave {field('time')} out"
            )
    job = job.having(release=_form_of_release(job, statistic, counting.per, cut))
    contribution = _contribution_of(statistic, job, counting)
    unit = contribution.unit
    strategy: StreamStrategy
    release = job.noise.release
    discovering, promised = False, None
    if job.promise.expire:
        endless = Expiring(
            1 if job.promise.growth is None else job.promise.growth, job.promise.delay or 0
        )
        if release != "totals" and endless.delay:
            raise InvalidInput(
                f"{field('release', release)} does not go with "
                f"{field('delay', job.promise.delay)}, since a release then counts up to an "
                "earlier window; leave one of them out"
            )
        if not isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            raise needs_one_loss()
        strategy, guarantee = endless, guarantee.bound_to(endless)
    else:
        if guarantee is None and job.promise.within is not None:
            guarantee = _enough(job, *said)
        elif guarantee is None:
            statistic, guarantee = _as_wanted(statistic, counting.most, cut)
        guarantee = require_guarantee(guarantee)
        discovering, promised = job.groups.unknown == "discover", guarantee
        if discovering:
            promised = counters_of(guarantee)
        assert promised is not None
        steps: int | None = None
        if cut.lags:
            steps = cut.lags + 1  # of a window, whose noise is that of its versions
        elif job.times.around is None or not cut.goes_on:
            steps = (
                cut.steps if cut.timed or not cut.goes_on else _require(job.times.steps, "steps")
            )
        statistic = for_people(statistic, counting.most)
        statistic = statistic.settle(promised, steps)
        contribution = _contribution_of(statistic, job, counting, steps=steps)
        contribution = replace(contribution, unit=unit)
        groups = None if domain is None else len(domain) + (job.groups.spare or 0)
        shape = (ROOM,) if discovering else shape_of(statistic, groups)
        anew = period_anew(inner_of(statistic), counting.per) if release == "periods" else None
        begins = None if steps is None or anew is None else begun_anew(cut, anew, steps)
        if cut.lags:
            from counton.strategies import WindowVersions

            versions = _choose(job.having(release="totals"), steps, promised, contribution, shape)
            strategy = WindowVersions(cut.steps, versions)
        else:
            strategy = _choose(job, steps, promised, contribution, shape, begins)
    return Definition.from_record(
        _record_of(job, statistic, parts, cut, strategy, counting, unit),
        what=statements.name_of(job.what),
        statistic=statistic,
        domain=domain,
        guarantee=guarantee,
        contribution=contribution,
        strategy=strategy,
        cells=_found_by(strategy, guarantee, promised, cut.steps, contribution)
        if discovering
        else DECLARED,
        parts=parts,
        cut=cut,
    )


def _form_of_release(job: Job, statistic: Statistic, per: str | None, cut: Windows) -> str:
    """What is published of each step: of users who are counted anew in each period, its number."""
    if cut.lags:
        return "windows"
    every = period_anew(inner_of(statistic), per)
    anew = every is not None
    if isinstance(every, str) and cut.timed:
        anew = made_of_windows(cut, every)
    if job.noise.release == "periods" and not anew:
        raise InvalidInput(
            f"{field('release', 'periods')} is of users who are counted anew in each period of "
            f"whole windows ({field('per')}, as of reach), and here nobody is; leave it out"
        )
    return job.noise.release or ("periods" if anew else "totals")


def _as_wanted(statistic: Statistic, most: int, cut: Windows) -> tuple[Statistic, Guarantee | None]:
    """A table that wants accuracies and states no guarantee: with that which they cost."""
    wanting: Any = None if cut.goes_on else getattr(statistic, "as_wanted", None)
    if wanting is None:
        return statistic, None
    found = wanting()
    if found is None:
        raise InvalidInput(
            f"neither a guarantee nor targets are stated; give {field('rho', 0.5)} for example, or "
            f"{field('target', 'LEVEL=STD,...')} to compute the cost"
        )
    settled, guarantee = found
    return settled, ZCDP(guarantee.rho * most**2)  # norms multiply


def _record_of(
    request: Job,
    statistic: Statistic,
    parts: OwnColumns,
    cut: Windows,
    strategy: StreamStrategy,
    counting: Counting,
    unit: str,
) -> dict[str, Any]:
    """What is asked of a new stream, with what is settled where the job leaves it open."""
    said = {name: request.option(name) for name in DEFINING if name != "domain"}
    if isinstance(request.what, str):
        said |= statements.stated_options(request)
    else:
        known = {option.name for option in type(request.what).card.options}
        said |= {
            name: value
            for name, value in inner_of(statistic).parameters.items()
            if name in known and isinstance(value, str | int | float)
        }
        said["value"] = parts.names[0] if parts.names else None
    if cut.timed:
        said |= {"start": cut.local(cut.start).isoformat(), "timezone": cut.timezone}
    if request.promise.expire and isinstance(strategy, Expiring):
        said["growth"] = str(strategy.growth)
    said |= {
        "steps": cut.steps if cut.timed else strategy.horizon,
        "most": counting.most if counting.users else request.people.most,
        "unit": request.promise.unit or unit,
        "release": request.noise.release or "totals",
        "strategy": choice_of(request) or "auto",
        "metric": request.noise.metric or "mean",
        "spare": request.groups.spare or 0,
        "delay": strategy.facts.delay,
    }
    return {name: value for name, value in said.items() if value is not None and value is not False}


def _cut(request: Job) -> Windows:
    """How rows become steps."""
    if request.times.time is None:
        if statements.kind_of(request.what).card.windowed:
            _require(request.times.time, "time")
        for name in ("every", "start", "until", "timezone"):
            if request.option(name) is not None:
                once = statements.is_once(request)
                then = "all rows are released once" if once else "each row is a step"
                raise InvalidInput(
                    f"{field(name, request.option(name))} cuts time, and there is no "
                    f"{field('time')}, the column to find it in; give it, or leave {field(name)} "
                    f"out: then {then}"
                )
        return Once() if statements.is_once(request) else EachRow()
    timezone = request.times.timezone or "UTC"
    start = _require(moment(request.times.start, timezone), "start")
    every = _require(request.times.every, "every")
    if request.times.around is not None:
        _refuse_beside_around(request)
        return Windows.endless(start, every, timezone)
    if request.promise.expire and request.times.steps is None:
        return Windows.endless(start, every, timezone)
    if request.times.revise is not None:
        versions = lags_in(request.times.revise, every) + 1
        steps = request.times.steps
        if steps is None:  # noise is the same for any number
            steps = min(Windows.endless(start, every, timezone).steps, _MOST_REVISED)
        return RevisedWindows(start, every, steps, timezone, versions)
    return Windows(start, every, _require(request.times.steps, "steps"), timezone)


#: So many windows a stream has that are revised, where nobody says how many.
_MOST_REVISED = 1_000_000


def _check_revise(job: Job) -> None:
    """Refuse what does not go with windows that are revised, without a look at rows."""
    asked = field("revise", job.times.revise)
    refuse(job, refusals.REVISE, asked)
    _require(job.times.time, "time")
    if job.groups.unknown == "discover":
        raise InvalidInput(
            f"{field('unknown', 'discover')} does not go with {asked}, whose windows have groups "
            f"that are declared; give {field('domain')}"
        )


def _refuse_beside_around(request: Job) -> None:
    both = (
        ("release",) if request.noise.release == "both" else ()
    )  # a window is the difference of two
    refuse(request, AROUND, field("around", request.times.around), but=both)
    if request.groups.unknown == "discover":
        raise InvalidInput(
            f"{field('unknown', 'discover')} needs {field('steps')}, since each release may show a "
            f"group; leave {field('around', request.times.around)} out"
        )


def _by_group(statistic: Statistic, domain: GroupNames, request: Job) -> Statistic:
    by_groups = statistic.card.by_groups
    own = None if by_groups is None else by_groups(statistic, domain)
    if own is statistic:
        return statistic  # whose nodes they are
    _refuse_spare(request, statistic)
    if own is not None:
        return own
    if request.times.time is None:
        raise InvalidInput(
            f"{field('by', request.groups.by)} tells groups apart by windows of time, and each row "
            f"is a step here; give {field('time')}, or leave {field('by')} out"
        )
    refuse_long_terms(domain)
    return Grouped(statistic, domain)


def _refuse_spare(request: Job, statistic: Statistic) -> None:
    if request.groups.spare:
        raise InvalidInput(
            f"{field('spare', request.groups.spare)} reserves cells for counts and sums, and "
            f"{statistic!r} has cells of its own; leave it out"
        )


def _contribution_of(
    statistic: Statistic,
    request: Job,
    counting: Counting,
    *,
    steps: int | None = None,
) -> Contribution:
    """What one protected unit changes: what a row does, or all rows of a user that count."""
    if counting.in_order:
        found = statistic.contribution(batched=request.times.time is not None, horizon=steps)
        if request.promise.unit is None:
            return found
        part = found.unit.removeprefix(whole_of(found.unit))
        return replace(found, unit=checked_unit(request.promise.unit) + part)
    word = _require(request.promise.unit, "unit")
    unit = counting.of(word)
    found = replace(statistic.contribution(batched=True, horizon=steps), unit=unit)
    if not isinstance(counting, Bounded):
        _refuse_users(statistic)
        return found
    if found.relation == "replace":
        raise InvalidInput(
            f"{field('user', request.people.user)} protects whether a user is there, and "
            f"{field('replace', True)} where rows are known to be; leave one of them out"
        )
    return counting.bounding(found, norms_of_people(statistic, counting.most))


def _refuse_users(statistic: Statistic) -> None:
    inner = inner_of(statistic)
    if not isinstance(inner, TallyStatistic) or not inner.counts_users:
        return
    user = f"{field('user')}, the column that says whose a row is"
    if inner.counted_ranks:
        raise InvalidInput(f"{statistic!r} counts users, and needs {user}; give it")
    raise InvalidInput(
        f"a report that counts users needs {user}, and {field('most')}, how many rows of a user "
        f"count; give both"
    )


def _found_by(
    strategy: StreamStrategy,
    guarantee: Guarantee,
    counters: Guarantee | None,
    steps: int,
    contribution: Contribution,
) -> Discovery:
    from counton.base.distributions import DiscreteLaplace
    from counton.numbers.node_law import law_for
    from counton.privacy import ApproxDP

    assert isinstance(guarantee, ApproxDP)
    assert counters is not None
    law = law_for(strategy, counters, contribution, (ROOM,)).law
    assert isinstance(law, DiscreteLaplace)
    return Discovery.of(strategy, law, steps, contribution, Fraction(guarantee.delta))


def _with_unit(request: Job, known: Sequence[SpentUnit]) -> Job:
    """A new stream's request with the word by which its state counts what it protects."""
    kind = "event" if request.people.user is None else "user"
    unit = None if request.promise.unit is None else checked_unit(request.promise.unit)
    unit = None if unit is None else unit_without_period(unit, request.people.per)
    return request.having(unit=unit_word(known, kind, unit, kind))


def _with_other(request: Job, domain: GroupNames | None) -> GroupNames | None:
    """The groups of a new stream: those declared, and the one of all others."""
    if domain is None:
        refuse_without(request, "domain")
    if request.groups.spare is not None and not 0 <= request.groups.spare <= _MOST_SPARE:
        raise InvalidInput(
            f"{field('spare', request.groups.spare)} must lie between 0 and {_MOST_SPARE:,}; give "
            "how many groups to reserve"
        )
    for name in ("also", "rename"):
        if request.option(name) is not None:
            raise InvalidInput(
                f"{field(name, request.option(name))} changes a stream that exists, and stream "
                f"{request.keeping.name!r} does not; give {field('domain')} and columns as they are"
            )
    if request.groups.other is None or domain is None:
        return domain
    if not request.groups.other.strip() or request.groups.other in domain:
        raise InvalidInput(
            f"{field('other')} is {request.groups.other!r}; it must be a name that no declared "
            "group has: choose another one"
        )
    return domain.plus([request.groups.other])


def _require(value: _Given | None, name: str) -> _Given:
    if value is None:
        raise MissingOptions(
            f"a new stream needs {field(name)}; give it, or correct {field('state')} and "
            f"{field('name')}",
            [name],
        )
    return value


def _choose(
    request: Job,
    horizon: int | None,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
    begins: Integers | None = None,
) -> StreamStrategy:
    """The planner's first choice, or its best strategy of the kind asked for.

    Args:
        begins: of a number of periods, the step after which that of each step began.
    """
    release = cast(
        "ReleaseForm", "totals" if request.noise.release == "periods" else request.noise.release
    )
    own = own_strategy(request.noise.strategy)
    if own is not None:
        from counton.planning.planner import plan_stream

        given = [_own(own, horizon, release)]
        return plan_stream(
            horizon, guarantee, contribution=contribution, shape=shape, strategies=given
        ).best.strategy
    name = cast("str | None", request.noise.strategy) or "auto"
    for kind in _kinds_named(name):
        if kind.windows != (release == "windows"):
            of = "single windows" if kind.windows else "totals"
            raise InvalidInput(
                f"{field('strategy', name)} is for {of}, and does not go with "
                f"{field('release', release)}; leave one of them out"
            )
    if horizon is None and release == "both":
        release = "totals"  # which are planned; a window is the difference of two
    discovering = request.groups.unknown == "discover"
    if begins is not None and name == "auto":
        places = np.unique(np.linspace(0, len(begins) - 1, _WEIGHED).astype(np.int64))
        ends = tuple(zip(begins[places].tolist(), (places + 1).tolist(), strict=True))
        metric = cast("Metric", request.noise.metric or "mean")
        return _best_of_periods(
            ends, len(begins), guarantee, metric, contribution, shape, simple=request.noise.simple
        )
    return _first_of_kind(
        name,
        horizon,
        guarantee,
        cast("Metric", request.noise.metric or "mean"),
        contribution,
        shape,
        release=release,
        whole=discovering,
        simple=request.noise.simple or discovering or statements.is_once(request),
        around=request.times.around,
    )


def _kinds_named(name: str) -> tuple[KindOfStrategy, ...]:
    if name in PAPERS:
        return (PAPERS[name],)
    return () if name in ("auto", PUBLISHED) else KINDS[name]


@lru_cache(maxsize=16)  # streams of a service, and jobs of a file, are planned alike
def _first_of_kind(
    name: str,
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric,
    contribution: Contribution,
    shape: tuple[int, ...],
    *,
    release: ReleaseForm,
    whole: bool,
    simple: bool,
    around: int | None,
) -> StreamStrategy:
    """The best strategy of a kind; of those whose releases are sums of draws of one law if whole.

    Raises:
        InvalidInput: none of them can serve the stream.
    """
    from counton.planning.planner import plan_stream  # a later run needs no planner

    wanted = None if name in ("auto", PUBLISHED) else (name,)
    ranked = plan_stream(
        horizon,
        guarantee,
        metric,
        contribution=contribution,
        shape=shape,
        strategies=wanted,
        release=release,
        simple=simple,
        compare=whole or name != "auto",
        around=around,
    )
    for choice in ranked.choices:
        if (
            whole
            and not choice.strategy.facts.fraction_bits == choice.strategy.facts.lattice_bits == 0
        ):
            continue
        if name == PUBLISHED and paper_of(choice.strategy.sources) is None:
            continue
        return choice.strategy
    raise InvalidInput(
        f"no strategy of kind {name!r} can serve {'any number of' if horizon is None else horizon} "
        f"steps under {guarantee}; use auto"
    )


#: Steps at which the numbers of periods are weighed.
_WEIGHED = 512


@lru_cache(maxsize=16)
def _best_of_periods(
    ends: tuple[tuple[int, int], ...],
    horizon: int,
    guarantee: Guarantee,
    metric: Metric,
    contribution: Contribution,
    shape: tuple[int, ...],
    *,
    simple: bool,
) -> StreamStrategy:
    """The strategy whose totals of periods have the least error, and not those of all steps.

    Where periods are short, it is one draw for each step.

    Args:
        ends: after which step a period began, and up to which step it is counted.
    """
    from counton.planning.planner import plan_stream
    from counton.strategies import KAry

    each_step = KAry(horizon, horizon + 1, subtraction=False)
    ranked = plan_stream(
        horizon,
        guarantee,
        metric,
        contribution=contribution,
        shape=shape,
        simple=simple,
        compare=False,
        also=[each_step],
    )
    starts, stops = np.asarray(ends).T

    def error(choice: Design) -> float:
        found = choice.window_std(starts, stops) ** 2
        return float(found.max() if metric == "max" else found.mean())

    return min(ranked.choices, key=error).strategy


def choice_of(request: Job, definition: Definition | None = None) -> str | None:
    """What a request says of its strategy; one of its own that is not the stream's shows itself."""
    own = own_strategy(request.noise.strategy)
    if own is None:
        return cast("str | None", request.noise.strategy)
    return OWN if definition is None or own == definition.strategy else repr(own)


def _own(own: StreamStrategy, horizon: int | None, release: ReleaseForm) -> StreamStrategy:
    if own.horizon != horizon:
        steps = "no last step" if horizon is None else f"{horizon:,} steps"
        has = "no last step" if own.horizon is None else f"{own.horizon:,} steps"
        raise InvalidInput(
            f"{field('strategy')} is {own!r}, for {has}, and the stream has {steps}: build it for "
            f"as many"
        )
    wanted = "windows" if release == "windows" else "totals"
    if own.facts.workload != wanted or release == "both":
        raise InvalidInput(
            f"{field('strategy')} is {own!r}, of {own.facts.workload}, and does not go with "
            f"{field('release', release)}; leave one of them out"
        )
    return own


#: What the number of each window is called beside the totals.
EACH_WINDOW = "in each window"


def last_step(definition: Description, around: int | None = None) -> int | None:
    """The last step of a stream; of one without an end the step that somebody has in mind.

    Of windows that are revised the last version of one.
    """
    if definition.cut.lags:
        return definition.cut.lags + 1
    return (definition.strategy.horizon or around) if definition.cut.goes_on else 1


def design_of(definition: Description, shape: tuple[int, ...], name: str = "planned") -> Design:
    """The design that a stream will have."""
    guarantee, statistic = definition.guarantee, definition.statistic
    return design_for(
        definition.strategy,
        guarantee,
        definition.contribution,
        shape,
        counters=definition.cells.counters(guarantee),
        name=name,
        statistic=None if statistic.card.additive else statistic_to_dict(statistic),
    )


def halfwidths_at(
    definition: Description,
    shape: tuple[int, ...],
    steps: Sequence[int],
    level: float,
    *,
    rows: int | None = None,
    over: int | None = None,
    ask: Sequence[Any] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Half-widths of what is released at some steps, by what they are of.

    Args:
        definition: of the stream.
        shape: of one step's cells.
        steps: which, from 1; the last one last. Of windows that are revised versions of one.
        level: probability with which each interval holds.
        rows: how many rows there will be by the last of them; None: what depends on that is left
            out.
        over, ask: what is shown of a statistic's readings.
    """
    terms, lags = design_of(definition, shape), definition.cut.lags
    if lags:
        from counton.run.revised_plan import halfwidths_of_versions, newest_at
    if lags and definition.statistic.card.additive:
        return {EACH_WINDOW: halfwidths_of_versions(terms, steps, level)}
    if lags:  # each version is one of a window of its own
        terms, over = newest_at(terms, lags), 1
        steps = [lags + 2 - version for version in steps]
    if definition.statistic.card.additive:
        return _of_cells(definition.release, terms, steps, level)
    found: dict[str, list[float]] = {}
    begins = None
    if over is None and definition.release == "periods":
        begins = begun_anew(definition.cut, definition.anew_every(), steps[-1])
    for step in steps:
        since = over if begins is None else step - int(begins[step - 1])
        at = planned_halfwidths(
            definition.statistic,
            terms,
            step,
            level,
            rows=None if rows is None else max(rows * step // steps[-1], 1),
            over=since,
            ask=None if definition.inner.card.on_demand else ask,
        )
        for name, half in at.items():
            found.setdefault(name, []).append(half)
    return {name: tuple(halves) for name, halves in found.items()}


def _of_cells(
    release: str, terms: Design, steps: Sequence[int], level: float
) -> dict[str, tuple[float, ...]]:
    """Of counts and sums: so far, in each window, or both."""

    def halfwidths(starts: Sequence[int]) -> tuple[float, ...]:
        return tuple(terms.window_halfwidths([*starts], [*steps], level).tolist())

    each = halfwidths([step - 1 for step in steps])
    if release == "windows":
        return {EACH_WINDOW: each}
    so_far = {"": halfwidths([0 for _ in steps])}
    return so_far | ({EACH_WINDOW: each} if release == "both" else {})

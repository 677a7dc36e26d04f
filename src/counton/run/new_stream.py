"""A new stream: its definition, with the strategy that the planner chooses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.base.exact import check_integer
from counton.base.groups import GroupNames
from counton.base.options import OwnColumns
from counton.base.windows import Windows
from counton.numbers.discovery import Discovery
from counton.privacy import ZCDP, Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import checked_unit
from counton.released.description import People
from counton.rows.domains import refuse_long_terms
from counton.rows.row_reading import Columns
from counton.run.definition import Definition
from counton.run.request import RequestValues, needs_one_loss
from counton.spec import stated_options as statements
from counton.spec.job import EXPIRING, Job, require_guarantee
from counton.spec.own_strategies import OWN, own_strategy
from counton.spec.parts import STRATEGIES
from counton.spec.refusals import (
    AROUND,
    WITHIN_OF_PARTS,
    refuse,
    refuse_of_ordered,
    refuse_without,
)
from counton.statistics import Grouped, Statistic, TallyStatistic
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths
    from counton.strategies.strategy import ReleaseForm

_Given = TypeVar("_Given")

#: Of which a release is a sum of draws of one law with weights +1 and -1.
_SUMS = ("Binary", "KAry", "SmoothBinary")

_MOST_SPARE = 1_000_000


def _check_bounds_of_parts(statistic: Statistic, request: Job) -> None:
    """Refuse another arrangement of the noise than that for which a report's bounds are kept.

    Raises:
        InvalidInput: naming it.
    """
    if not getattr(statistic, "within", None):
        return
    usual = ("metric",) if request.metric == "mean" else ()
    refuse(request, WITHIN_OF_PARTS, field("within"), but=usual)


def _enough(asked: RequestValues) -> Guarantee:
    """The least guarantee with which the last release is as accurate as it is wanted.

    A function of what the job states alone.

    Raises:
        InvalidInput: no guarantee is enough.
    """
    from counton.planning.least_privacy import least_guarantee

    request = asked.request
    plain = replace(request, within=None, least=None, size=None)

    def factor(guarantee: Guarantee) -> float:
        made = define(asked._replace(request=plain, guarantee=guarantee))
        return _reached_halfwidths(made, request).factor

    least = cast("Literal['epsilon', 'rho']", request.least or "epsilon")
    return least_guarantee(factor, 1.0, least, request.delta)


def _reached_halfwidths(definition: Definition, request: Job) -> ReachedHalfwidths:
    """The half-widths that a job wants, beside those of a stream."""
    from counton.planning.least_privacy import bounds_of, compare_halfwidths
    from counton.run.accuracy import halfwidths_at, last_step

    assert request.within is not None
    if request.size is not None:
        check_integer("size", request.size, 1, 2**60)
    last = last_step(definition, request.around)
    if last is None:
        raise InvalidInput(
            f"{field('within', request.within)} is said of the last step, and the stream has none: "
            f"give {field('around')}, or leave it out"
        )
    found = halfwidths_at(definition, definition.shape, [last], request.level, rows=request.size)
    halfwidths = {name: each[-1] for name, each in found.items()}
    bounds = bounds_of(request.within, request.size)
    return compare_halfwidths(halfwidths, bounds, last, request.level)


def check_reached(definition: Definition, request: Job) -> None:
    """Refuse another accuracy than a stream was created with.

    Raises:
        StateError: it is not as accurate as is wanted.
    """
    if (
        request.within is not None
        and (reached := _reached_halfwidths(definition, request)).factor > 1
    ):
        raise RequestMismatch(
            f"{field('within', request.within)} is wanted, but stream {request.name!r} was created "
            f"with {definition.guarantee}: {reached}; leave it out to continue the stream, or "
            f"start another one with another {field('name')}"
        )


def define(asked: RequestValues) -> Definition:
    """The definition of a new stream.

    Raises:
        InvalidInput: something is left out, or no strategy can give the guarantee.
    """
    request, people = asked.request, asked.people
    assert asked.statistic is not None
    assert asked.parts is not None
    statistic, domain = asked.statistic, _with_other(request, asked.domain)
    _check_bounds_of_parts(statistic, request)
    cut = _cut(asked)
    if domain is not None:
        statistic = _by_group(statistic, domain, request, cut)
    ordered = (cut is None and not asked.once) or not statistic.tallied
    if ordered:
        refuse_of_ordered(request, statistic, asked.parts, each_row=cut is None)
        if cut is not None and not asked.parts.names:
            raise InvalidInput(
                f"{field('time', request.time)} is a column of a table, and the events are a text "
                f"of letters; name the column of letters, or leave {field('time')} out"
            )
    contribution = _contribution_of(statistic, asked, ordered=ordered)
    unit = contribution.unit
    columns = _columns(asked.parts, statistic, request, ordered=ordered)
    guarantee: Guarantee
    strategy: StreamStrategy
    release = cast("ReleaseForm", request.release or "totals")
    discovering, promised = False, None
    if asked.endless is not None:
        if release != "totals" and asked.endless.delay:
            raise InvalidInput(
                f"{field('release', release)} does not go with {field('delay', request.delay)}, "
                f"since a release then counts up to an earlier window; leave one of them out"
            )
        if not isinstance(asked.guarantee, ExpiringDP | ExpiringZCDP):
            raise needs_one_loss()
        strategy, guarantee = asked.endless, asked.guarantee.bound_to(asked.endless)
    else:
        wanted = asked.guarantee
        if wanted is None and request.within is not None:
            wanted = _enough(asked)
        elif wanted is None:
            statistic, wanted = _as_wanted(statistic, asked)
        guarantee = require_guarantee(wanted)
        discovering, promised = request.unknown == "discover", guarantee
        if discovering:
            from counton.numbers.discovery import ROOM, counters_of

            promised = counters_of(guarantee)
        assert promised is not None
        steps: int | None = None
        if asked.once:
            steps = 1
        elif request.around is None:
            steps = cut.steps if cut is not None else _require(request.steps, "steps")
        statistic = statistic.for_people(1 if people is None else people.most)
        statistic = statistic.settle(promised, steps)
        contribution = replace(
            _contribution_of(statistic, asked, ordered=ordered, steps=steps), unit=unit
        )
        groups = None if domain is None else len(domain) + (request.spare or 0)
        shape = (ROOM,) if discovering else statistic.shape_of(groups)
        strategy = _choose(asked, steps, promised, contribution, shape)
    return Definition(
        what=statements.name_of(request.what),
        statistic=statistic,
        by=columns.group,
        value=columns.value,
        columns=columns,
        cut=cut,
        domain=domain,
        unit=contribution.unit,
        guarantee=guarantee,
        contribution=contribution,
        strategy=strategy,
        release=release,
        choice=EXPIRING if asked.endless is not None else choice_of(request) or "auto",
        metric=asked.metric or "mean",
        simple=request.simple,
        other=request.other,
        spare=request.spare or 0,
        people=people,
        discovery=_found_by(strategy, guarantee, promised, cut.steps, contribution)
        if discovering and cut is not None
        else None,
        parts=asked.parts,
        stated=statements.stated_options(request) if isinstance(request.what, str) else {},
        once=asked.once,
    )


def _as_wanted(statistic: Statistic, asked: RequestValues) -> tuple[Statistic, Guarantee | None]:
    """A table that wants accuracies and states no guarantee: with that which they cost."""
    wanting: Any = getattr(statistic, "as_wanted", None) if asked.once else None
    if wanting is None:
        return statistic, None
    found = wanting()
    if found is None:
        raise InvalidInput(
            f"neither a guarantee nor targets are stated; give {field('rho', 0.5)} for example, or "
            f"{field('target', 'LEVEL=STD,...')} to compute the cost"
        )
    settled, guarantee = found
    most = 1 if asked.people is None else asked.people.most  # norms multiply
    return settled, ZCDP(guarantee.rho * most**2)


def _columns(parts: OwnColumns, statistic: Statistic, request: Job, *, ordered: bool) -> Columns:
    """Where a new stream finds its events."""
    one = not ordered and len(parts.names) == 1 and parts.names == parts.numbers
    value, several = (parts.names[0], ()) if one else (None, () if ordered else parts.names)
    columns = Columns(request.time or "", request.by, value, request.user, request.id, several)
    if len(columns.parts) > len(set(columns.parts)):
        raise InvalidInput(
            f"the columns are {', '.join(columns.parts)}; each part of an event needs its own: "
            f"name each once"
        )
    return columns


def _cut(asked: RequestValues) -> Windows | None:
    """How time is cut; None where each row is a step."""
    request = asked.request
    if request.time is None:
        if statements.kind_of(request.what).windowed:
            _require(request.time, "time")
        for name in ("every", "start", "until", "timezone"):
            if getattr(request, name) is not None:
                then = "all rows are released once" if asked.once else "each row is a step"
                raise InvalidInput(
                    f"{field(name, getattr(request, name))} cuts time, and there is no "
                    f"{field('time')}, the column to find it in; give it, or leave {field(name)} "
                    f"out: then {then}"
                )
        return None
    timezone = request.timezone or "UTC"
    start, every = _require(asked.start, "start"), _require(request.every, "every")
    if request.around is not None:
        _refuse_beside_around(request)
        return Windows.endless(start, every, timezone)
    if asked.endless is not None and request.steps is None:
        return Windows.endless(start, every, timezone)
    return Windows(start, every, _require(request.steps, "steps"), timezone)


def _refuse_beside_around(request: Job) -> None:
    """Refuse what a stream without a last step does not have."""
    both = ("release",) if request.release == "both" else ()  # a window is the difference of two
    refuse(request, AROUND, field("around", request.around), but=both)
    if request.unknown == "discover":
        raise InvalidInput(
            f"{field('unknown', 'discover')} needs {field('steps')}, since each release may show a "
            f"group; leave {field('around', request.around)} out"
        )


def _by_group(
    statistic: Statistic, domain: GroupNames, request: Job, cut: Windows | None
) -> Statistic:
    """A statistic of each declared group."""
    own = statistic.by_groups(domain)
    if own is statistic:
        return statistic  # whose nodes they are
    _refuse_spare(request, statistic)
    if own is not None:
        return own
    if cut is None:
        raise InvalidInput(
            f"{field('by', request.by)} tells groups apart by windows of time, and each row is a "
            f"step here; give {field('time')}, or leave {field('by')} out"
        )
    refuse_long_terms(domain)
    return Grouped(statistic, domain)


def _refuse_spare(request: Job, statistic: Statistic) -> None:
    if request.spare:
        raise InvalidInput(
            f"{field('spare', request.spare)} reserves cells for counts and sums, and "
            f"{statistic!r} has cells of its own; leave it out"
        )


def _contribution_of(
    statistic: Statistic, asked: RequestValues, *, ordered: bool, steps: int | None = None
) -> Contribution:
    """What one protected unit changes: what a row does, or all rows of a user that count."""
    request, people = asked.request, asked.people
    if ordered:
        found = statistic.contribution_within(steps, batched=request.time is not None)
        return found if request.unit is None else replace(found, unit=checked_unit(request.unit))
    found = replace(statistic.contribution_within(steps, batched=True), unit=unit_of(request))
    if people is None:
        _refuse_users(statistic)
        return found
    if found.relation == "replace":
        raise InvalidInput(
            f"{field('user', request.user)} protects whether a user is there, and "
            f"{field('replace', True)} where rows are known to be; leave one of them out"
        )
    return people.bounding(found, statistic.norms_of_people(people.most))


def _refuse_users(statistic: Statistic) -> None:
    """Refuse to count users where nobody says whose rows they are."""
    inner = statistic.inner
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
    from counton.numbers.discovery import ROOM
    from counton.numbers.node_law import law_for
    from counton.privacy import ApproxDP

    assert isinstance(guarantee, ApproxDP)
    assert counters is not None
    law = law_for(strategy, counters, contribution, (ROOM,)).law
    assert isinstance(law, DiscreteLaplace)
    return Discovery.of(strategy, law, steps, contribution, Fraction(guarantee.delta))


def unit_of(request: Job) -> str:
    """What a new stream protects, in the word by which the ledger counts it.

    >>> unit_of(Job("count", "visits.csv", "visits.db", user="cookie", most=3, per="1d"))
    "user's day"
    """
    if request.user is None:
        return "event" if request.unit is None else checked_unit(request.unit)
    user = "user" if request.unit is None else checked_unit(request.unit)
    return People(request.most or 1, request.per).of(user)


def _with_other(request: Job, domain: GroupNames | None) -> GroupNames | None:
    """The groups of a new stream: those declared, and the one of all others."""
    if domain is None:
        refuse_without(request, "domain")
    if request.spare is not None and not 0 <= request.spare <= _MOST_SPARE:
        raise InvalidInput(
            f"{field('spare', request.spare)} must lie between 0 and {_MOST_SPARE:,}; give how "
            f"many groups to reserve"
        )
    for name in ("also", "rename"):
        if getattr(request, name) is not None:
            raise InvalidInput(
                f"{field(name, getattr(request, name))} changes a stream that exists, and stream "
                f"{request.name!r} does not; give {field('domain')} and columns as they are"
            )
    if request.other is None or domain is None:
        return domain
    if not request.other.strip() or request.other in domain:
        raise InvalidInput(
            f"{field('other')} is {request.other!r}; it must be a name that no declared group has: "
            f"choose another one"
        )
    return domain.plus([request.other])


def _require(value: _Given | None, name: str) -> _Given:
    if value is None:
        raise InvalidInput(
            f"a new stream needs {field(name)}; give it, or correct {field('state')} and "
            f"{field('name')}"
        )
    return value


def _choose(
    asked: RequestValues,
    horizon: int | None,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """The planner's first choice, or its best strategy of the kind asked for."""
    from counton.planning.planner import plan_stream  # a later run needs no planner

    release = cast("ReleaseForm", asked.request.release or "totals")
    own = own_strategy(asked.request.strategy)
    if own is not None:
        given = [_own(own, horizon, release)]
        return plan_stream(
            horizon, guarantee, contribution=contribution, shape=shape, strategies=given
        ).best.strategy
    name = cast("str | None", asked.request.strategy)
    if release == "windows" and name not in (None, "auto"):
        raise InvalidInput(
            f"{field('strategy', name)} is for totals, and does not go with "
            f"{field('release', release)}, which needs one draw of noise a window; leave one of "
            f"them out"
        )
    if horizon is None and release == "both":
        release = "totals"  # which are planned; a window is the difference of two
    metric = asked.metric or "mean"
    discovering = asked.request.unknown == "discover"
    ranked = plan_stream(
        horizon,
        guarantee,
        metric,
        contribution=contribution,
        shape=shape,
        release=release,
        simple=asked.request.simple or discovering or asked.once,
        compare=discovering or name not in (None, "auto"),
        around=asked.request.around,
    )
    for choice in ranked.choices:
        if discovering and choice.strategy.saved_name not in _SUMS:
            continue
        if name in (None, "auto") or choice.strategy.saved_name == STRATEGIES[name]:
            return choice.strategy
    raise InvalidInput(
        f"no strategy of kind {name!r} can serve {'any number of' if horizon is None else horizon} "
        f"steps under {guarantee}; use auto"
    )


def choice_of(request: Job, definition: Definition | None = None) -> str | None:
    """What a request says of its strategy; one of its own that is not the stream's shows itself."""
    own = own_strategy(request.strategy)
    if own is None:
        return cast("str | None", request.strategy)
    return OWN if definition is None or own == definition.strategy else repr(own)


def _own(own: StreamStrategy, horizon: int | None, release: ReleaseForm) -> StreamStrategy:
    """A strategy that somebody brings along, if it fits the stream.

    Raises:
        InvalidInput: it is for another number of steps, or for windows where totals are released.
    """
    if own.horizon != horizon:
        steps = "no last step" if horizon is None else f"{horizon:,} steps"
        has = "no last step" if own.horizon is None else f"{own.horizon:,} steps"
        raise InvalidInput(
            f"{field('strategy')} is {own!r}, for {has}, and the stream has {steps}: build it for "
            f"as many"
        )
    wanted = "windows" if release == "windows" else "totals"
    if own.workload != wanted or release == "both":
        raise InvalidInput(
            f"{field('strategy')} is {own!r}, of {own.workload}, and does not go with "
            f"{field('release', release)}; leave one of them out"
        )
    return own

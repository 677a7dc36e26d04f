"""What a job asks for, as values: all that can be said of it without looking at events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from counton.base.errors import InvalidInput, field
from counton.base.exact import Number
from counton.base.groups import GroupNames
from counton.base.options import MissingOptions, OwnColumns
from counton.base.windows import Windows, parse_time
from counton.privacy import ExpiringDP, ExpiringZCDP, Guarantee
from counton.released.description import People
from counton.rows.domains import read_domain
from counton.run.definition import Definition
from counton.spec import guards, refusals
from counton.spec import stated_options as statements
from counton.spec.job import EXPIRING, NEWEST, NOW, Job, guarantee_from, metric_from
from counton.spec.own_strategies import is_file_of
from counton.spec.parts import STRATEGIES
from counton.spec.refusals import check_within, refuse, refuse_of_tables, refuse_without
from counton.statistics import Statistic, TallyStatistic

if TYPE_CHECKING:
    from counton.strategies import Expiring


class RequestValues(NamedTuple):
    """A request as values, each read once; None where it leaves something out.

    Attributes:
        request: what was read.
        start: an aware datetime.
        domain: the declared groups.
        guarantee: what the numbers state; of a stream without an end, not bound to its strategy.
        statistic, parts: what rows become, and the columns that it reads; None where a later run
            leaves out what defines it.
        people: how many events of a user count, in a new stream.
        endless: the strategy of a stream without an end.
        metric: by which error the strategy is chosen.
        once: whether a new stream is a table that is released once.
    """

    request: Job
    start: datetime | None
    domain: GroupNames | None
    guarantee: Guarantee | None
    statistic: Statistic | None
    parts: OwnColumns | None
    people: People | None
    endless: Expiring | None
    metric: Literal["mean", "max"] | None
    once: bool


def ask(request: Job, saved: Definition | None = None) -> RequestValues:
    """Read a request: all that can be said of it without looking at events.

    Args:
        request: as given.
        saved: the stream it goes on with, which says what the request leaves out.

    Raises:
        InvalidInput: a value is outside what is allowed, or two do not go together.
    """
    once = statements.is_once(request) if saved is None else saved.once
    if once and (saved is None or statements.name_of(request.what) == saved.what):
        refuse_of_tables(request, known=saved is not None)
    _check_choices(request)
    guards.check_most(request.most)
    guards.check_people_columns(request.user, request.id)
    lacking = [] if saved is not None else _lacking(request)
    try:
        statistic, parts = _statistic(request, saved)
    except MissingOptions as error:
        if not lacking:
            raise
        raise _lacks([*map(field, error.names), *lacking]) from None
    if len(lacking) > 1:
        raise _lacks(lacking)
    if saved is None and isinstance(statistic, TallyStatistic) and statistic.counts_units:
        beside = f"a {statements.name_of(request.what)} of counts"
        refuse(request, refusals.COUNTS, beside, "leave it out")
    named = statements.statistic_class(request.what) if isinstance(request.what, str) else None
    if saved is None and named is not None:
        request = replace(request, **named.settles(request))
    declares = None if statistic is None else statistic.declares
    if declares is not None and request.domain is None and request.time is not None:
        request = replace(request, domain=list(declares))
    reads = () if named is None else named.reads
    kept_zone = "UTC" if saved is None or saved.cut is None else saved.cut.timezone
    timezone = request.timezone or kept_zone
    if saved is None:
        endless = _endless(request) if request.expire else None
        by = request.by
    else:
        endless = cast("Expiring", saved.strategy) if saved.choice == EXPIRING else None
        by = request.by or saved.columns.group
    if endless is None and not request.expire:
        refuse_without(request, "expire")
    check_within(request)
    numbers = (request.epsilon, request.delta, request.rho)
    if request.within is not None:
        guards.check_delta(request.delta)
        numbers = (None, None, None)
    guarantee = guarantee_from(*numbers) if endless is None else _expiring_guarantee(*numbers)
    of_nodes = "domain" in reads and "by" not in reads
    each_row = request.time is None and not once
    own_users = statistic is not None and (each_row or not statistic.tallied)
    if request.until not in (NOW, NEWEST):
        _moment(request.until, timezone)  # so that no time is refused after rows are read
    return RequestValues(
        request=request,
        start=_moment(request.start, timezone),
        domain=None if of_nodes else _groups(request, by, known=saved is not None),
        guarantee=guarantee,
        statistic=statistic,
        parts=parts,
        people=_people(request, timezone, statistic) if saved is None and not own_users else None,
        endless=endless,
        metric=None if request.metric is None else metric_from(request.metric),
        once=once,
    )


def _lacking(request: Job) -> list[str]:
    """What a new stream of any statistic needs and a request does not state."""
    each_row = request.time is None and not statements.kind_of(request.what).windowed
    needed = ["steps"] if each_row else ["time", "every", "start", "steps"]
    once = statements.is_once(request)
    if once:
        needed = []
    if request.around is not None or request.expire:
        needed.remove("steps")
    lacking = [field(name) for name in needed if getattr(request, name) is None]
    computed = (
        once and request.option("target") is not None
    )  # the guarantee is what the targets cost
    computed = computed or request.within is not None
    if request.epsilon is None and request.rho is None and not computed:
        lacking.append(f"{field('epsilon')} or {field('rho')}")
    return lacking


def _lacks(lacking: Sequence[str]) -> InvalidInput:
    several = f"{', '.join(lacking[:-1])} and {lacking[-1]}"
    return InvalidInput(
        f"a new stream needs {several}; give them, chosen without looking at the data, or, to go "
        f"on with a stream that exists, correct {field('state')} or {field('name')}"
    )


def _check_choices(request: Job) -> None:
    named = isinstance(request.strategy, str) and not is_file_of(request.strategy)
    if named and request.strategy not in ("auto", *STRATEGIES):
        raise InvalidInput(
            f"strategy {request.strategy!r} is not known; use auto or one of "
            f"{', '.join(STRATEGIES)}, or a file with one of your own, mine.json"
        )


def _moment(given: str | datetime | None, timezone: str) -> datetime | None:
    if isinstance(given, datetime):
        given = given.isoformat()
    return None if given is None else parse_time(given, timezone)


def _groups(request: Job, by: str | None, *, known: bool) -> GroupNames | None:
    """The groups that a request declares; None where events are not grouped."""
    domain = request.domain
    if by is None and not known and domain is not None:
        raise InvalidInput(
            f"{field('domain', domain)} declares groups, but there is no {field('by')}, the column "
            f"to find them in; give it"
        )
    if request.unknown == "discover":
        _check_discovery(request, by)
        return None if known else GroupNames(())
    if domain is None:
        if by is not None and not known:
            raise InvalidInput(
                f"{field('by', by)} needs {field('domain')}: the groups must be declared, because "
                f"groups found in the data would reveal whose events are in it; give a file with "
                f"one group per line, a table with a column {by!r}, or a list A,B,C; or find them "
                f"privately ({field('unknown', 'discover')})"
            )
        return None
    return read_domain(domain, by or "")


def _check_discovery(request: Job, by: str | None) -> None:
    """What does not go with groups that nobody declared."""
    asked = field("unknown", "discover")
    if by is None:
        raise InvalidInput(f"{asked} needs {field('by')}, the column of the groups; give it")
    if not statements.kind_of(request.what).finds:
        raise InvalidInput(
            f"{asked} finds groups by how many events they have, and this is a sum; declare the "
            f"groups ({field('domain')})"
        )
    refuse(request, refusals.DISCOVER, asked)
    if request.strategy not in (None, "auto", "binary", "kary", "smooth"):
        raise InvalidInput(
            f"{field('strategy', request.strategy)} does not go with {asked}, whose thresholds "
            f"are proven for binary, kary and smooth; choose one of them, or auto"
        )


def _statistic(
    request: Job, saved: Definition | None
) -> tuple[Statistic | None, OwnColumns | None]:
    """What rows become, with what the stream keeps of it where the request leaves that out."""
    name = statements.name_of(request.what)
    if saved is None:
        return statements.settle_statistic(request)
    if name != saved.what or saved.discovery is not None:
        return None, None  # is refused later, or has no parameters
    if isinstance(request.what, str):
        named = statements.checked_class(request)
        takes = tuple(option.name for option in named.options)
        stated = saved.stated or _said_by(saved, takes)
        known: dict[str, Any] = {
            given: value for given, value in stated.items() if given not in request.options
        }
        says_nothing = set(known) == set(stated) and not statements.stated_options(request)
        of_domain = request.domain is not None and "domain" in named.reads
        if says_nothing and not of_domain:
            return None, None
        if request.domain is None:
            kept = saved.statistic.domain
            known["domain"] = kept if saved.domain is None else saved.domain
        for given in ("time", "by", "user", "most", "first"):
            if not request.option(given):
                known[given] = saved.defining_options[given]
        request = request.having(**known)
    elif not request.options and saved.parts.names:
        request = request.having(columns=list(saved.parts.names))
    return statements.settle_statistic(_as_created(request, saved))


def _as_created(request: Job, saved: Definition) -> Job:
    """A request that calls columns as they were called when its stream was created."""
    if not saved.renamed:
        return request

    def once(name: Any) -> Any:
        return saved.called_once(name.strip()) if isinstance(name, str) else name

    def names_in(given: Any) -> Any:
        names = given.split(",") if isinstance(given, str) else given
        return None if names is None else [once(name) for name in names]

    def by_name(given: Any, between: str) -> Any:
        """The same of names before values: a mapping, or a text of such pairs."""
        if isinstance(given, Mapping):
            return {once(name): value for name, value in given.items()}
        if isinstance(given, str) and "=" in given:
            pairs = (pair.partition("=") for pair in given.split(between))
            return between.join(f"{once(name)}={value}" for name, _, value in pairs)
        return given

    changed: dict[str, Any] = {name: once(getattr(request, name)) for name in ("user", "by")}
    for option in statements.own_options(request.what):
        given = request.option(option.name)
        if option.column and given is not None:
            changed[option.name] = names_in(given) if option.several else once(given)
        elif option.by_name and given is not None:
            changed[option.name] = by_name(given, ",")
    return request.having(**changed, domain=by_name(request.domain, ";"))


def _said_by(saved: Definition, takes: tuple[str, ...]) -> dict[str, Any]:
    """What a job could have said of a statistic that was given as such."""
    kept = saved.statistic.inner
    found = {
        name: value
        for name, value in kept.parameters.items()
        if name in takes and isinstance(value, str | int | float)
    }
    column = saved.defining_options["value"]
    return {**found, "value": column} if "value" in takes and column else found


def _people(request: Job, timezone: str, statistic: Statistic | None) -> People | None:
    """How many events of a user count, in a new stream."""
    most, per, each = request.most, request.per, _rows_of_each_group(statistic)
    if request.user is None:
        refuse_without(request, "user")
        return None
    if per is not None:
        check_period(per, timezone)
    if each is not None:
        refuse(
            request,
            refusals.ROWS_OF_USERS,
            statements.name_of(request.what),
            "leave it out",
        )
    if request.first:
        refuse(request, refusals.FIRST, field("first", True))
        each = 1
    if each is not None:
        _check_groups_of_user(request)
        return People(1 if most is None else most, per, each=each)
    if most is None:
        raise InvalidInput(
            f"{field('user', request.user)} needs {field('most')}, how many events of one user "
            f"count: noise must hide them all; or give {field('first', True)} to count each user "
            f"once for ever"
        )
    guards.check_most_a_window(request.most_a_window, most)
    return People(most, per, request.distinct, most_a_window=request.most_a_window)


def _rows_of_each_group(statistic: Statistic | None) -> int | None:
    """How many rows of a user count in each group, where a statistic says it; None: it does not."""
    tallied = isinstance(statistic, TallyStatistic) and statistic.counted_ranks
    return tallied[-1] if tallied else None


def _check_groups_of_user(request: Job) -> None:
    """Refuse a bound on the groups of a user where there are none, or none where there are some.

    Raises:
        InvalidInput: naming the bound.
    """
    most, once = request.most, field("first", True)
    how = f"with {once if request.first else statements.name_of(request.what)}"
    if most is not None and most > 1 and request.by is None:
        raise InvalidInput(
            f"{field('most', most)} {how} is in how many groups a user counts, and there is no "
            f"{field('by')}; leave {field('most')} out"
        )
    if most is None and request.by is not None:
        raise InvalidInput(
            f"{field('by', request.by)} {how} needs {field('most')}, in how many groups a user "
            f"counts: noise must hide them all, and with {field('most', 1)} each user counts in "
            f"the first group alone"
        )


def check_period(per: str, timezone: str = "UTC") -> None:
    """Refuse a user's period that is no length.

    Raises:
        InvalidInput: it is none.
    """
    try:
        Windows(datetime(2000, 1, 1, tzinfo=UTC), per, 1, timezone)
    except InvalidInput as error:
        raise InvalidInput(f"{field('per', per)} is no period of a user: {error}") from None


def _endless(request: Job) -> Expiring:
    """The strategy of a new stream without an end."""
    refuse(request, refusals.EXPIRE, field("expire"))
    from counton.strategies import Expiring

    return Expiring(1 if request.growth is None else request.growth, request.delay or 0)


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
        f"{field('rho')}; {field('plan(expire=...)')} finds it from the losses you allow"
    )

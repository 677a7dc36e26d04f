"""What defines a stream of event counts: fixed when it is created, checked at every later run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import numpy as np

from counton.arrays import Integers
from counton.errors import InvalidInput, StateError, field
from counton.events.domains import read_domain, refuse_long_terms
from counton.events.row_reading import Columns, Unknown
from counton.events.windows import ClockChange
from counton.exact import Number, check_integer
from counton.groups import GroupNames
from counton.jobs import guards, statements
from counton.jobs.clock import length_of
from counton.jobs.job import (
    EXPIRING,
    NEWEST,
    NOW,
    Job,
    check_types,
    guarantee_from,
    metric_from,
    require_guarantee,
)
from counton.jobs.own_strategies import OWN, is_file_of, own_strategy
from counton.mechanisms import StreamTerms
from counton.mechanisms.discovery import Discovery
from counton.options import MissingOptions, OwnColumns
from counton.privacy import ZCDP, Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import checked_unit, known_unit
from counton.results.description import (
    Description,
    People,
    statistic_kept,
    windows_from_dict,
    windows_to_dict,
)
from counton.statistics import Grouped, Statistic, TallyStatistic
from counton.strategies import StreamStrategy
from counton.windows import Windows, parse_time

if TYPE_CHECKING:
    from counton.plans.least import Reached
    from counton.strategies import Expiring
    from counton.strategies.base import ReleaseForm

_Given = TypeVar("_Given")
#: Of details that a job keeps with its stream.
KIND = "events by window and group"

#: Names of strategies, and the strategies they stand for.
STRATEGIES = {
    "binary": "Binary",
    "honaker": "HonakerOnline",
    "kary": "KAry",
    "smooth": "SmoothBinary",
    "sqrt": "SqrtToeplitz",
    "normalised-sqrt": "NormalisedSqrt",
    "look-ahead": "LookAhead",
    "solved": "Solved",
}
#: Of which a release is a sum of draws of one law with weights +1 and -1.
_SUMS = ("Binary", "KAry", "SmoothBinary")
_MOST_SPARE = 1_000_000


class Continuation(NamedTuple):
    """The stream that another one goes on from.

    Attributes:
        name: in the same state.
        step: its last release that counts here.
        totals: whether this stream's totals go on from that release; else they begin anew.
        apart: whether no unit counts in both, so that the ledger counts the larger guarantee alone.
    """

    name: str
    step: int
    totals: bool
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Definition(Description):
    """A stream of events: its description, and what its runs have to know besides.

    Attributes:
        columns: where time, group, user and id stand in the events.
        other: the group that counts rows of all groups not declared, if any; after those declared,
            and before those of ``named``.
        named: groups that were named later, and from which step on they count.
        spare: cells that have no name yet; nothing is counted in them, and they are not shown.
        renamed: columns that are called otherwise, old and new, since which step.
        continues: the stream that this one goes on from, if any.
        ended: the step at which it ended; None: it goes on.
        parts, stated: columns of a statistic, and what was said of it.
        remembered: policies and outputs of the last job.
        choice, simple: by what the strategy was chosen, besides ``metric``.

    >>> request = Job(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, by="page", domain="home,shop", epsilon=1
    ... )
    >>> definition = define(ask(request))
    >>> definition.groups, type(definition.strategy).__name__
    (('home', 'shop'), 'Solved')
    """

    columns: Columns
    choice: str
    simple: bool
    other: str | None = None
    named: tuple[tuple[str, int], ...] = ()
    spare: int = 0
    renamed: tuple[tuple[str, str, int], ...] = ()
    continues: Continuation | None = None
    ended: int | None = None
    parts: OwnColumns = attribute(default_factory=OwnColumns)
    stated: Mapping[str, Any] = attribute(default_factory=dict)
    remembered: Mapping[str, Any] = attribute(default_factory=dict, repr=False)

    @property
    def adds(self) -> TallyStatistic | None:
        """What rows of one group are added up to; None where they are counted."""
        inner = self.statistic.inner
        if not isinstance(inner, TallyStatistic):
            return None
        says = inner.once_each or any(part.name != "by" for part in inner.parts)
        return inner if says else None

    @property
    def places(self) -> int:
        """How many numbers rows of one group are added up to."""
        return 1 if self.adds is None else self.adds.places

    @property
    def measures(self) -> tuple[str, ...]:
        """What is kept of each place: how many rows, and what they add up to if that is more."""
        return ("rows",) if self.adds is None or self.adds.counts_rows else ("rows", "total")

    def measure(self, sums: Integers) -> Integers:
        """What is released of sums by place, shape ``(steps, groups * places)``, in grid units."""
        if self.statistic.additive:
            return sums.reshape(len(sums), *(self.shape if self.discovery is None else (-1,)))
        assert isinstance(self.statistic, TallyStatistic)
        return self.statistic.measure(sums)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one step."""
        if self.discovery is not None:
            from counton.mechanisms.discovery import ROOM

            return (ROOM,)
        return self.statistic.shape_of(None if self.domain is None else len(self.cells))

    @property
    def cells(self) -> GroupNames:
        """All cells of one step: first the groups, then those that have no name yet."""
        if not self.spare:
            return self.groups
        return self.groups.plus([f"(spare {number + 1})" for number in range(self.spare)])

    @property
    def declared_groups(self) -> GroupNames:
        """The groups that were declared when the stream was created."""
        return self.groups[: len(self.groups) - len(self.named) - (self.other is not None)]

    @property
    def since(self) -> dict[str, int]:
        """From which step on groups count by themselves that were part of ``other`` before."""
        return {} if self.other is None else dict(self.named)

    def current_name(self, column: str | None) -> str | None:
        """What a column is called now that was called so once."""
        for old, new, _ in self.renamed:
            column = new if column == old else column
        return column

    def called_once(self, column: str) -> str:
        """What a column was called when the stream was created that is called so now."""
        for old, new, _ in reversed(self.renamed):
            column = old if column == new else column
        return column

    @property
    def reads(self) -> tuple[str, ...]:
        """All columns, as they are called now."""
        parts = (self.current_name(name) or name for name in self.parts.names)
        return tuple(dict.fromkeys((*self.columns.names, *parts)))

    @cached_property
    def details(self) -> dict[str, Any]:
        """Public facts that are kept with the stream, as JSON values."""
        return {
            "kind": KIND,
            "what": self.what,
            "time": self.columns.time or None,
            "by": self.columns.group,
            "value": self.columns.value,
            **({"several": list(self.columns.several)} if self.columns.several else {}),
            **({} if self.cut is None else windows_to_dict(self.cut)),
            **({"once": True} if self.once else {}),
            "domain": self.domain,
            "user": self.columns.user,
            "id": self.columns.id,
            "people": None if self.people is None else self.people._asdict(),
            "unit": self.unit,
            "release": self.release,
            "strategy": self.choice,
            "metric": self.metric,
            "simple": self.simple,
            "other": self.other,
            "named": [list(group) for group in self.named],
            "spare": self.spare,
            "renamed": [list(column) for column in self.renamed],
            "continues": None if self.continues is None else self.continues._asdict(),
            "ended": self.ended,
            "parts": {name: list(columns) for name, columns in self.parts._asdict().items()},
            "stated": dict(self.stated),
            "remembered": dict(self.remembered),
            **({} if self.discovery is None else {"discovery": self.discovery._asdict()}),
        }

    @classmethod
    def reopen(
        cls, saved: StreamTerms, details: Mapping[str, Any], *, discovering: bool = True
    ) -> Definition:
        """The definition of a stream that exists.

        Args:
            saved: its terms.
            details: as they were kept.
            discovering: whether groups may be such as nobody declared.

        Raises:
            StateError: the stream is not one of events by windows of time, or not one of those
                asked for.
        """
        found = details.get("discovery")
        if found is not None and not discovering:
            raise StateError(
                f"stream {saved.name!r} finds groups that nobody declared, so it has no successor: "
                f"begin a stream of declared groups"
            )
        if details.get("kind") != KIND:
            raise StateError(
                f"stream {saved.name!r} does not count or sum events by windows of time; continue "
                f"it with the program that made it, or choose another {field('name')}"
            )
        return cls(
            what=details["what"],
            statistic=statistic_kept(saved, details["what"]),
            by=details["by"],
            value=details["value"],
            columns=Columns(
                details["time"] or "",
                details["by"],
                details["value"],
                details["user"],
                details["id"],
                tuple(details.get("several", ())),
            ),
            cut=windows_from_dict(details) if "every" in details else None,
            once=details.get("once", False),
            domain=details["domain"],
            unit=saved.contribution.unit,
            guarantee=saved.guarantee,
            contribution=saved.contribution,
            strategy=saved.strategy,
            release=details.get("release", "totals"),  # states of before there was a choice
            choice=details["strategy"],
            metric=details["metric"],
            simple=details.get("simple", False),
            people=None if details["people"] is None else People(**details["people"]),
            other=details.get("other"),
            named=tuple((group, step) for group, step in details.get("named", ())),
            spare=details.get("spare", 0),
            renamed=tuple((old, new, step) for old, new, step in details.get("renamed", ())),
            continues=Continuation(**details["continues"]) if details.get("continues") else None,
            ended=details.get("ended"),
            discovery=None if found is None else Discovery(**found),
            parts=OwnColumns(**{name: tuple(part) for name, part in details["parts"].items()}),
            stated=details["stated"],
            remembered=details.get("remembered", {}),
        )


class RequestValues(NamedTuple):
    """A request as values, each read once; None where it leaves something out.

    Attributes:
        request: what was read.
        start, until: aware datetimes.
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
    until: datetime | None
    domain: GroupNames | None
    guarantee: Guarantee | None
    statistic: Statistic | None
    parts: OwnColumns | None
    people: People | None
    endless: Expiring | None
    metric: Literal["mean", "max"] | None
    unknown: Unknown
    clock_change: ClockChange
    once: bool


def ask(request: Job, saved: Definition | None = None) -> RequestValues:
    """Read a request: all that can be said of it without looking at events.

    Args:
        request: as given.
        saved: the stream it goes on with, which says what the request leaves out.

    Raises:
        InvalidInput: a value is outside what is allowed, or two do not go together.
    """
    request = check_types(request)
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
        _refuse_of_counts(request)
    named = statements.statistic_class(request.what) if isinstance(request.what, str) else None
    if saved is None and named is not None:
        request = replace(request, **named.settles(statements.OfJob(request)))
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
        for name in ("growth", "delay"):
            if getattr(request, name) is not None:
                raise InvalidInput(
                    f"{field(name, getattr(request, name))} needs {field('expire')}; give it, or "
                    f"leave {field(name)} out"
                )
    _check_within(request)
    numbers = (request.epsilon, request.delta, request.rho)
    if request.within is not None:
        guards.check_delta(request.delta)
        numbers = (None, None, None)
    guarantee = guarantee_from(*numbers) if endless is None else _expiring_guarantee(*numbers)
    of_nodes = "domain" in reads and "by" not in reads
    each_row = request.time is None and not once
    own_users = statistic is not None and (each_row or not statistic.tallied)
    return RequestValues(
        request=request,
        start=_moment(request.start, timezone),
        until=None if request.until in (NOW, NEWEST) else _moment(request.until, timezone),
        domain=None if of_nodes else _groups(request, by, known=saved is not None),
        guarantee=guarantee,
        statistic=statistic,
        parts=parts,
        people=_people(request, timezone) if saved is None and not own_users else None,
        endless=endless,
        metric=None if request.metric is None else metric_from(request.metric),
        unknown=cast(Unknown, request.unknown),
        clock_change=cast(ClockChange, request.clock_change),
        once=once,
    )


def _refuse_of_counts(request: Job) -> None:
    """Refuse what bounds rows where a row counts as often as it says: protected is less than that.

    However the statistic is given: one that is handed over has read no statement of a job.

    Raises:
        InvalidInput: naming it, and why.
    """
    reasons = {
        "user": "bounds the rows of a user, and rows with counts are of many",
        "id": "counts rows once, and what is protected is less than a row",
    }
    for name, why in reasons.items():
        value = getattr(request, name)
        if value is not None:
            raise InvalidInput(
                f"{field(name, value)} does not go with a {statements.name_of(request.what)} of "
                f"counts: it {why}; leave it out"
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


def _check_within(request: Job) -> None:
    """Refuse what does not go with a guarantee that is found from a half-width, and without one.

    Raises:
        InvalidInput: naming it.
    """
    if request.within is None:
        named = isinstance(request.what, str)
        reads = statements.kind_of(request.what).reads if named else ()
        for name in ("least", "size"):
            if getattr(request, name) is not None and name not in reads:
                raise InvalidInput(
                    f"{field(name, getattr(request, name))} needs {field('within')}, how far off a "
                    f"number may be; give it, or leave {field(name)} out"
                )
        return
    reasons = {
        "epsilon": "is what it finds",
        "rho": "is what it finds",
        "expire": "says by losses what is promised",
        "continues": "goes on from totals that have noise of their own",
        "target": "says itself how accurate a table is",
    }
    for name, why in reasons.items():
        value = request.option(name) if name == "target" else getattr(request, name)
        if value not in (None, False):
            raise InvalidInput(
                f"{field('within', request.within)} does not go with {field(name, value)}, which "
                f"{why}; leave one of them out"
            )


#: What arranges the noise of a report otherwise than its budget is shared for, and what is usual.
_ARRANGED = {
    "simple": (False,),
    "strategy": (None, "auto"),
    "metric": (None, "mean"),
    "release": (None, "totals"),
    "around": (None,),
}


def _check_bounds_of_parts(statistic: Statistic, request: Job) -> None:
    """Refuse another arrangement of the noise than that for which a report's bounds are kept.

    Raises:
        InvalidInput: naming it.
    """
    if not getattr(statistic, "within", None):
        return
    for name, usual in _ARRANGED.items():
        value = getattr(request, name)
        if value not in usual:
            raise InvalidInput(
                f"{field(name, value if isinstance(value, str | int) else None)} does not go with "
                f"{field('within')} of a statistic of a report, which is kept with the strategy "
                f"that is chosen by itself; leave one of them out"
            )


def _enough(asked: RequestValues) -> Guarantee:
    """The least guarantee with which the last release is as accurate as it is wanted.

    A function of what the job states alone.

    Raises:
        InvalidInput: no guarantee is enough.
    """
    from counton.plans.least import least_guarantee

    request = asked.request
    plain = replace(request, within=None, least=None, size=None)

    def factor(guarantee: Guarantee) -> float:
        made = define(asked._replace(request=plain, guarantee=guarantee))
        return _reached_halfwidths(made, request).factor

    least = cast("Literal['epsilon', 'rho']", request.least or "epsilon")
    return least_guarantee(factor, 1.0, least, request.delta)


def _reached_halfwidths(definition: Definition, request: Job) -> Reached:
    """The half-widths that a job wants, beside those of a stream."""
    from counton.jobs.accuracy import halfwidths_at, last_step
    from counton.plans.least import bounds_of, compared

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
    return compared(halfwidths, bounds, last, request.level)


def _check_reached(definition: Definition, request: Job) -> None:
    """Refuse another accuracy than a stream was created with.

    Raises:
        StateError: it is not as accurate as is wanted.
    """
    if (
        request.within is not None
        and (reached := _reached_halfwidths(definition, request)).factor > 1
    ):
        raise StateError(
            f"{field('within', request.within)} is wanted, but stream {request.name!r} was created "
            f"with {definition.guarantee}: {reached}; leave it out to continue the stream, or "
            f"start another one with another {field('name')}"
        )


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
    for name in ("domain", "other", "spare", "also", "continues", "expire", "rho"):
        given = getattr(request, name)
        if given not in (None, False):
            raise InvalidInput(
                f"{field(name, given if isinstance(given, str | int | bool) else None)} does not "
                f"go with {asked}: its groups have no names, and its guarantee is epsilon and "
                f"delta; leave one of them out"
            )
    if request.release not in (None, "totals"):
        raise InvalidInput(
            f"{field('release', request.release)} does not go with {asked}, since each group "
            f"is shown from some window on; leave one of them out, and publish totals"
        )
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
        if request.time is None and saved.columns.time:
            known["time"] = saved.columns.time
        for given in ("by", "user"):
            if getattr(request, given) is None:
                known[given] = getattr(saved.columns, {"by": "group"}.get(given, given))
        most, first = _bound_of(saved)
        known |= {"most": request.most or most, "first": request.first or first}
        request = request.having(**known)
    elif not request.options and saved.parts.names:
        request = request.having(columns=list(saved.parts.names))
    return statements.settle_statistic(_as_created(request, saved))


def _bound_of(saved: Definition) -> tuple[int | None, bool]:
    """How much of a user counts, and whether once for ever, whoever bounds it."""
    if saved.people is not None:
        return saved.people.most, saved.people.first
    stated = saved.inner.parameters if saved.inner.declares is not None else {}
    return stated.get("most"), stated.get("once") is not None


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
    column = _value_of(saved)
    return {**found, "value": column} if "value" in takes and column else found


def _people(request: Job, timezone: str) -> People | None:
    """How many events of a user count, in a new stream."""
    most, per = request.most, request.per
    fields = [(name, getattr(request, name)) for name in ("most", "per", "distinct", "first")]
    given = [(name, value) for name, value in fields if value not in (None, False)]
    if request.user is None:
        if given:
            raise InvalidInput(
                f"{field(*given[0])} needs {field('user')}, the column that says whose an event "
                f"is; give it, or leave {field(given[0][0])} out"
            )
        return None
    if request.first:
        for name, value in given:
            if name in ("per", "distinct"):
                raise InvalidInput(
                    f"{field(name, value)} does not go with {field('first', True)}: a user "
                    f"counts once for ever; leave one of them out"
                )
        if most is not None and most > 1 and request.by is None:
            raise InvalidInput(
                f"{field('most', most)} with {field('first', True)} is in how many groups a user "
                f"counts, and there is no {field('by')}; leave {field('most')} out"
            )
        if most is None and request.by is not None:
            raise InvalidInput(
                f"{field('by', request.by)} with users who count once for ever needs "
                f"{field('most')}, in how many groups a user counts: noise must hide them all, and "
                f"with {field('most', 1)} each user counts in the first group alone"
            )
        return People(1 if most is None else most, first=True)
    if most is None:
        raise InvalidInput(
            f"{field('user', request.user)} needs {field('most')}, how many events of one user "
            f"count: noise must hide them all; or give {field('first', True)} to count each user "
            f"once for ever"
        )
    if per is not None:
        check_period(per, timezone)
    return People(most, per, request.distinct)


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
    for name in ("strategy", "metric", "simple"):
        if getattr(request, name) not in (None, False):
            raise InvalidInput(
                f"{field(name, getattr(request, name))} does not go with {field('expire')}, which "
                f"has a strategy of its own; leave one of them out"
            )
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
        raise _needs_one_loss()
    if epsilon is not None:
        return ExpiringDP(epsilon)
    return None if rho is None else ExpiringZCDP(rho)


def _needs_one_loss() -> InvalidInput:
    return InvalidInput(
        f"{field('expire')} needs either {field('epsilon')} (the loss of the newest event) or "
        f"{field('rho')}; {field('plan(expire=...)')} finds it from the losses you allow"
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
            raise _needs_one_loss()
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
            from counton.mechanisms.discovery import ROOM, counters_of

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
        choice=EXPIRING if asked.endless is not None else _choice_of(request) or "auto",
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
    usual: dict[str, tuple[Any, ...]] = {
        "steps": (None,),
        "expire": (False,),
        "release": (None, "totals", "both"),
        "metric": (None,),
    }
    for name, taken in usual.items():
        value = getattr(request, name)
        if value not in taken:
            raise InvalidInput(
                f"{field(name, value)} does not go with {field('around', request.around)}: such "
                f"a stream has no end and releases totals; leave one of them out"
            )
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


#: What a table cannot have that is released once, and why.
_ONCE = {
    "per": "has no times that would tell periods apart",
    "release": "has totals alone",
    "continues": "begins with its own rows",
    "expire": "is planned for one step",
    "around": "is planned for one step",
    "growth": "is planned for one step",
    "delay": "is planned for one step",
    "strategy": "arranges no noise over steps ({line} says how cells are measured)",
    "metric": "has one step, whose error is the mean and the largest",
    "simple": "releases integers",
    "watermark": "has no windows",
    "append": "is of all its rows",
    "over": "has no windows",
}


def refuse_of_tables(request: Job, *, known: bool = False) -> None:
    """Refuse what does not go with a table that is released once.

    Args:
        request: what is asked.
        known: of a stream that there is, which no time makes another one.

    Raises:
        InvalidInput: naming it, and why.
    """
    for name, why in _ONCE.items():
        value = getattr(request, name)
        if value is None or value is False or value == _USUAL.get(name) or value == "auto":
            continue
        remedy = "leave it out" if known else f"leave it out, or give {field('time')}"
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} does not go with a "
            f"{statements.name_of(request.what)} that is released once, which "
            f"{why.format(line=field('line'))}; {remedy}"
        )


#: What a statistic whose rows come in order cannot have, and why.
_IN_ORDER = {
    "user": "protects what it says itself, and reads no column of users",
    "id": "takes rows as they stand, also those that come twice",
    "release": "has totals alone",
    "continues": "knows its events from the first step on, and begins anew",
    "most": "bounds what a unit does by its own parameters",
    "per": "bounds what a unit does by its own parameters",
    "distinct": "bounds what a unit does by its own parameters",
    "first": "bounds what a unit does by its own parameters",
    "other": "has no groups",
    "spare": "has no groups",
    "expire": "is planned for a number of steps",
}


#: Of these every run may say something else.
_RUNS_IN_ORDER = {
    "append": "is compared with all events since the first step, so that order and late rows show",
    "missing": "has as many steps as rows, which would tell how many are left out",
    "bad_rows": "has as many steps as rows, which would tell how many are left out",
}
_USUAL = {"release": "totals", "missing": "refuse", "bad_rows": "refuse"}


def refuse_of_ordered(
    request: Job, statistic: Statistic, parts: OwnColumns | None = None, *, each_row: bool
) -> None:
    """Refuse what does not go with rows that are taken in their order.

    Args:
        request: what is asked.
        statistic: of the stream.
        parts: the columns of a new stream; None: of a later run only what is its own is looked at.
        each_row: whether each row is a step.

    Raises:
        InvalidInput: naming what does not go with it, and why.
    """
    own: tuple[str, ...] = ()
    if statistic.declares is not None and each_row:
        own = ("most", "first")
    if parts is not None and request.user in parts.names and statistic.protects == "user":
        own = (*own, "user")
    for name, why in {**(_IN_ORDER if parts is not None else {}), **_RUNS_IN_ORDER}.items():
        value = getattr(request, name)
        if name in ("missing", "bad_rows") and not each_row:
            continue
        if value is None or value is False or value == _USUAL.get(name) or name in own:
            continue
        what = "where each row is a step," if statistic.tallied else "whose rows count in order,"
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} does not go with "
            f"{statements.name_of(request.what)}, {what} which {why}; leave it out"
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
    if isinstance(statistic, TallyStatistic) and statistic.once_each:
        raise InvalidInput(
            f"a report that counts distinct users needs {field('user')}, the column that says "
            f"whose a row is, and {field('most')}, how many rows of a user count; give both"
        )


def _found_by(
    strategy: StreamStrategy,
    guarantee: Guarantee,
    counters: Guarantee | None,
    steps: int,
    contribution: Contribution,
) -> Discovery:
    from counton.laws import DiscreteLaplace
    from counton.mechanisms.calibration import law_for
    from counton.mechanisms.discovery import ROOM
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


def refuse_ended(definition: Definition, name: str) -> None:
    """Refuse to go on with a stream that has ended.

    Raises:
        StateError: it has.
    """
    if definition.ended is not None:
        raise StateError(
            f"stream {name!r} has ended at step {definition.ended:,} and releases nothing more; "
            f"begin another {field('name')} with {field('continues', name)}, or write again what "
            f"was released from the state alone"
        )


def _with_other(request: Job, domain: GroupNames | None) -> GroupNames | None:
    """The groups of a new stream: those declared, and the one of all others."""
    for name in ("other", "spare"):
        if getattr(request, name) is not None and domain is None:
            raise InvalidInput(
                f"{field(name, getattr(request, name))} needs {field('domain')}, the groups that "
                f"are declared; give it, or leave {field(name)} out"
            )
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


def amend(definition: Definition, request: Job, released: int) -> Definition:
    """A stream as the operator changes it: columns called otherwise, spare groups named.

    What is changed already stays as it is, so that the same request may come again and again.

    Args:
        definition: as it is kept.
        request: ``rename`` and ``also`` say what changes.
        released: steps released so far; the change holds from the next one on.

    Raises:
        InvalidInput: a column that the stream does not use, or no spare group is left.
    """
    if request.rename is not None:
        definition = _rename(definition, request.rename, released + 1)
    if request.also is None:
        return definition
    if definition.domain is None:
        raise InvalidInput(
            f"{field('also', request.also)} names groups, and stream {request.name!r} counts none "
            f"apart; leave it out, or begin a stream with {field('by')} and {field('domain')}"
        )
    also = request.also.split(",") if isinstance(request.also, str) else request.also
    names = [str(group).strip() for group in also]
    if not names or "" in names or len(set(names)) < len(names):
        raise InvalidInput(
            f"{field('also')} is {request.also!r}; name each new group once, as in A,B"
        )
    new = [group for group in names if group not in definition.groups]
    step = released + 1 if definition.other is None else _unread(definition, released)
    if len(new) > definition.spare:
        raise InvalidInput(
            f"{field('also', request.also)} names {len(new):,} new groups, and stream "
            f"{request.name!r} has {definition.spare:,} spare ones left; name fewer, or begin a "
            f"stream with more ({field('spare')})"
        )
    if new and step > definition.windows.steps:
        raise InvalidInput(
            f"{field('also', request.also)} names groups that count by themselves from step "
            f"{step:,} on, and stream {request.name!r} ends with step "
            f"{definition.windows.steps:,}; declare them in the stream that follows"
        )
    return replace(
        definition,
        domain=definition.domain.plus(new),
        named=(*definition.named, *((group, step) for group in new)),
        spare=definition.spare - len(new),
    )


def _unread(definition: Definition, released: int) -> int:
    """The first window of which no run has read rows that came when they were due.

    Rows that were read before a group had its name wait among the others, and cannot be told from
    them; so the group counts by itself from a window on that has none of these, and where a row
    counts hangs on its own time alone. Which window that is follows from public facts: the last run
    came before the first window that is not released had ended, and its watermark.
    """
    windows, kept = definition.windows, definition.remembered.get("watermark")
    if released >= windows.steps:
        return released + 1
    due = int(windows.ends(range(released + 1, released + 2))[0])
    due += 0 if kept is None else length_of(kept)
    return int(windows.step_of(np.array([due - 1], np.int64))[0]) + 1


def _rename(definition: Definition, rename: str, step: int) -> Definition:
    for pair in rename.split(","):
        old, equals, new = (part.strip() for part in pair.partition("="))
        if not (old and equals and new):
            raise InvalidInput(
                f"{field('rename', rename)} is not understood at {pair!r}; write OLD=NEW, and "
                f"commas between several"
            )
        uses = definition.reads
        if old != new and {old, new} <= set(uses):
            raise InvalidInput(
                f"{field('rename', rename)} gives {old!r} the name of another column that the "
                f"stream uses; it uses {', '.join(map(repr, uses))}"
            )
        if old in uses and old != new:
            columns = definition.columns.renamed(old, new)
            definition = replace(
                definition,
                columns=columns,
                by=columns.group,
                value=columns.value,
                renamed=(*definition.renamed, (old, new, step)),
            )
        elif new not in uses:
            raise InvalidInput(
                f"{field('rename', rename)} names the column {old!r}, which the stream does not "
                f"use; it uses {', '.join(map(repr, uses))}"
            )
    return definition


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
    from counton.plans.planner import plan_stream  # a later run needs no planner

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
        if discovering and type(choice.strategy).__name__ not in _SUMS:
            continue
        if name in (None, "auto") or type(choice.strategy).__name__ == STRATEGIES[name]:
            return choice.strategy
    raise InvalidInput(
        f"no strategy of kind {name!r} can serve {'any number of' if horizon is None else horizon} "
        f"steps under {guarantee}; use auto"
    )


def _choice_of(request: Job, definition: Definition | None = None) -> str | None:
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


def check(definition: Definition, asked: RequestValues) -> None:
    """A later run may leave out what defines a stream, and may not contradict it.

    Raises:
        StateError: something differs from what the stream was created with.
    """
    request, windows, columns = asked.request, definition.cut, definition.columns
    if request.expire and asked.endless is None:
        raise StateError(
            f"stream {request.name!r} was created without {field('expire')} and cannot change its "
            f"guarantee; leave it out, or start another stream with another {field('name')}"
        )
    finds = definition.discovery is not None
    if (finds and request.unknown == "drop") or (not finds and request.unknown == "discover"):
        groups = "finds its groups" if finds else "has declared groups"
        raise StateError(
            f"{field('unknown', request.unknown)} does not go with stream {request.name!r}, which "
            f"{groups}; leave it out, or start another stream with another {field('name')}"
        )
    what = statements.name_of(request.what)
    if what != definition.what:
        raise StateError(
            f"stream {request.name!r} is of {definition.what!r} and cannot be continued as "
            f"{what!r}; use {field('what', definition.what)} or another {field('name')}"
        )
    growth, guarantee = None, asked.guarantee
    if asked.endless is not None:
        if request.growth is not None:
            from counton.expiry import Expiry

            growth = Expiry(request.growth).growth
        if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            guarantee = guarantee.bound_to(asked.endless)
    kept_growth = None if asked.endless is None else asked.endless.growth
    start = asked.start
    if start is not None and windows is not None:
        start = windows.local(start)
    _check_statistic(definition, asked)
    _check_reached(definition, request)
    people, unit = definition.people, None if request.unit is None else checked_unit(request.unit)
    if people is not None and unit:
        unit = people.of(unit)
    unit = unit and known_unit(unit, [definition.unit])
    continues = None if definition.continues is None else definition.continues.name
    for name, given, kept in (
        (field("continues"), request.continues, continues),
        (field("time"), definition.current_name(request.time), columns.time or None),
        (field("by"), definition.current_name(request.by), columns.group),
        (field("value"), definition.current_name(request.option("value")), _value_of(definition)),
        (field("every"), request.every, windows and windows.every),
        (field("steps"), request.steps, _steps_of(definition)),
        (field("start"), start, windows and windows.local(windows.start)),
        (field("timezone"), request.timezone, windows and windows.timezone),
        (field("domain"), _new_groups(definition, asked.domain), definition.declared_groups),
        (field("other"), request.other, definition.other),
        (field("spare"), request.spare, definition.spare + len(definition.named)),
        (field("user"), definition.current_name(request.user), columns.user),
        (field("id"), definition.current_name(request.id), columns.id),
        (field("most"), request.most, _bound_of(definition)[0]),
        (field("per"), request.per, people and people.per),
        (field("distinct"), request.distinct or None, people and people.distinct),
        (field("first"), request.first or None, _bound_of(definition)[1]),
        (field("unit"), unit, definition.unit),
        (field("release"), request.release, definition.release),
        (field("strategy"), _choice_of(request, definition), definition.choice),
        (field("metric"), asked.metric, definition.metric),
        (field("simple"), request.simple or None, definition.simple),
        (field("growth"), growth, kept_growth),
        (field("delay"), request.delay, definition.strategy.delay),
        ("the guarantee", guarantee, definition.guarantee),
    ):
        if given is not None and given != kept:
            created = "without it" if kept is None else f"with {_in_words(kept)}"
            raise StateError(
                f"{name} is {_in_words(given)}, but stream {request.name!r} was created {created}; "
                f"leave it out to continue the stream, or start another one with another "
                f"{field('name')}"
            )


def _steps_of(definition: Definition) -> int | None:
    return definition.cut.steps if definition.cut is not None else definition.strategy.horizon


def _value_of(definition: Definition) -> str | None:
    kept = definition.columns.value or definition.stated.get("value")
    return definition.current_name(kept) or (
        definition.parts.names[0] if definition.parts.names else None
    )


def _check_statistic(definition: Definition, asked: RequestValues) -> None:
    """Refuse a statistic, or columns, other than those of the stream."""
    kept = definition.statistic
    inner = kept.inner
    given = asked.statistic
    if given is not None and given.declares is not None and inner.declares is not None:
        given = given.by_groups(inner.declares)  # compared as groups, below
    if given is not None and not given.allows(inner):
        alike = repr(given) == repr(inner)
        raise StateError(
            f"the statistic is {given!r}, but stream {asked.request.name!r} was created with "
            f"{inner!r}{' of other names, or in another order' if alike else ''}; give what it was "
            f"created with, or start another one with another {field('name')}"
        )
    parts = definition.parts
    named = tuple(definition.current_name(name) or name for name in parts.names)
    if asked.parts is not None and asked.parts.names and asked.parts.names != parts.names:
        given_names = (definition.current_name(name) or name for name in asked.parts.names)
        raise StateError(
            f"the columns are {', '.join(given_names)}, but stream {asked.request.name!r} "
            f"was created with {', '.join(named)}; leave them out to continue the stream, or start "
            f"another one with another {field('name')}"
        )


def _new_groups(definition: Definition, domain: GroupNames | None) -> GroupNames | None:
    """Groups that a later run declares, if they are others than those of the stream.

    Those that were named later may be among them.
    """
    if domain is None or domain == definition.groups or domain == definition.declared_groups:
        return None
    later = definition.declared_groups.plus([group for group, _ in definition.named])
    ranks = definition.statistic.declares is not None
    if ranks and set(domain) == set(definition.declared_groups):
        return None  # the order of groups that are ranked says nothing
    return None if domain == later else domain


def _in_words(value: object) -> str:
    if isinstance(value, GroupNames):
        return f"{len(value):,} groups ({', '.join(value[:4])}{', ...' if len(value) > 4 else ''})"
    return value.isoformat() if isinstance(value, datetime) else str(value)

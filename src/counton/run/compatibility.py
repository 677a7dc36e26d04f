"""A later run beside its stream: it may leave out what defines that, and may not contradict it."""

from __future__ import annotations

from typing import Any

from counton.base.errors import RequestMismatch, field
from counton.base.groups import GroupNames
from counton.base.options import OwnColumns
from counton.job import stated_options as statements
from counton.job.job import Job
from counton.job.refusals import refuse_of_tables
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.contribution import known_unit, unit_without_period
from counton.run.definition import COLUMNS, Definition
from counton.run.new_stream import (
    check_options,
    check_until,
    choice_of,
    groups_of,
    moment,
    reached_halfwidths,
    stated_guarantee,
    with_declared,
)
from counton.statistics import Statistic
from counton.strategies import Expiring


def check_compatible(definition: Definition, request: Job) -> None:
    """Refuse a later run that contradicts what defines its stream, which it may leave out.

    Raises:
        RequestMismatch: it states something else than the stream was created with.
        InvalidInput: it states what no stream takes.
    """
    what = statements.name_of(request.what)
    if not definition.cut.goes_on and what == definition.what:
        refuse_of_tables(request, known=True)
    check_options(request)
    given = _options_of_run(definition, request)
    if what != definition.what:
        raise RequestMismatch(
            f"stream {request.keeping.name!r} is of {definition.what!r} and cannot be continued as "
            f"{what!r}; use {field('what', definition.what)} or another {field('name')}"
        )
    _check_reached(definition, request)
    kept = {**definition.defining_options, **_kept_together(definition)}
    for name, value in given.items():
        if value is None or value is False or value == kept[name]:
            continue
        created = "without it" if kept[name] is None else f"with {_in_words(kept[name])}"
        raise RequestMismatch(
            f"{_TOGETHER.get(name) or f'{field(name)} is'} {_in_words(value)}, but stream "
            f"{request.keeping.name!r} was created {created}; leave it out to continue the stream, "
            f"or start another one with another {field('name')}; "
            f"{field('end_stream(state, name)')} ends this one, and what it has spent stays spent: "
            "the losses of both add up"
        )


#: What several options say together, by a name.
_TOGETHER = {
    "statistic": "the statistic is",
    "columns": "the columns are",
    "guarantee": "the guarantee is",
}


def _kept_together(definition: Definition) -> dict[str, Any]:
    """What a stream keeps of what several options say together."""
    names = (definition.current_name(name) or name for name in definition.parts.names)
    return {
        "statistic": definition.inner,
        "columns": ", ".join(names) or None,
        "guarantee": definition.guarantee,
        "unknown": definition.cells.policy,
    }


def _options_of_run(definition: Definition, request: Job) -> dict[str, Any]:
    """What a later run states of what makes its stream, as that keeps it; None of the rest."""
    statistic, parts = _statistic(request, definition)
    request = with_declared(request, statistic)
    guarantee = stated_guarantee(request, expires=definition.expires)
    cut, strategy = definition.cut, definition.strategy if definition.expires else None
    timezone = request.times.timezone or cut.timezone
    check_until(request, timezone)
    start = moment(request.times.start, timezone)
    groups = groups_of(request, request.groups.by or definition.columns.group, known=True)
    given = {name: request.option(name) for name in definition.defining_options}
    for name in COLUMNS:
        given[name] = definition.current_name(given[name])
    if start is not None:
        given["start"] = cut.local(start).isoformat()
    if request.promise.unit is not None:
        asked = unit_without_period(request.promise.unit, definition.counting.per)
        given["unit"] = known_unit(asked, [definition.record["unit"]])
    if isinstance(strategy, Expiring) and request.promise.growth is not None:
        given["growth"] = str(Expiring(request.promise.growth).growth)
    if isinstance(strategy, Expiring) and isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        guarantee = guarantee.bound_to(strategy)
    unlike = request.groups.unknown == "drop" and definition.cells.policy is not None
    names = () if parts is None else parts.names
    return {
        "unknown": request.groups.unknown
        if unlike or request.groups.unknown == "discover"
        else None,
        "statistic": _other_statistic(definition, statistic),
        "columns": ", ".join(definition.current_name(name) or name for name in names) or None,
        **given,
        "domain": _new_groups(definition, groups),
        "strategy": choice_of(request, definition),
        "guarantee": guarantee,
    }


def _other_statistic(definition: Definition, given: Statistic | None) -> Statistic | str | None:
    """A statistic that is stated, if it is another one than a stream's."""
    kept = definition.inner
    if given is not None and given.card.by_groups is not None and kept.card.declares is not None:
        given = given.card.by_groups(given, kept.card.declares)  # as groups, by themselves
    if given is None or given.allows(kept):
        return None
    alike = repr(given) == repr(kept)
    return f"{given!r} of other names, or in another order" if alike else given


def _new_groups(definition: Definition, domain: GroupNames | None) -> GroupNames | None:
    """Groups that a later run declares, if they are others than those of the stream.

    Those that were named later may be among them.
    """
    if domain is None or domain == definition.groups or domain == definition.declared_groups:
        return None
    later = definition.declared_groups.plus([group for group, _ in definition.named])
    ranks = definition.statistic.card.declares is not None
    if ranks and set(domain) == set(definition.declared_groups):
        return None  # the order of groups that are ranked says nothing
    return None if domain == later else domain


def _in_words(value: object) -> str:
    if isinstance(value, GroupNames):
        return f"{len(value):,} groups ({', '.join(value[:4])}{', ...' if len(value) > 4 else ''})"
    return str(value)


def _statistic(request: Job, saved: Definition) -> tuple[Statistic | None, OwnColumns | None]:
    """What rows become, with what the stream keeps of it where the request leaves that out."""
    if statements.name_of(request.what) != saved.what or saved.cells.policy is not None:
        return None, None  # is refused later, or has no parameters
    if isinstance(request.what, str):
        named = statements.checked_class(request)
        stated = saved.own_options
        known: dict[str, Any] = {
            given: value for given, value in stated.items() if given not in request.options
        }
        says_nothing = set(known) == set(stated) and not statements.stated_options(request)
        of_domain = request.groups.domain is not None and "domain" in named.card.reads
        if says_nothing and not of_domain:
            return None, None
        if request.groups.domain is None:
            kept = saved.statistic.card.domain
            known["domain"] = kept if saved.domain is None else saved.domain
        for given in ("time", "by", "user", "most", "first"):
            if not request.option(given) and saved.defining_options[given] is not None:
                known[given] = saved.defining_options[given]
        request = request.having(**known)
    elif not request.options and saved.parts.names:
        request = request.having(columns=list(saved.parts.names))
    if saved.renamed:
        request = statements.rename_columns(request, saved.called_once)
    return statements.settle_statistic(request)


def _check_reached(definition: Definition, request: Job) -> None:
    """Refuse another accuracy than a stream was created with."""
    if (
        request.promise.within is not None
        and (reached := reached_halfwidths(definition, request)).factor > 1
    ):
        raise RequestMismatch(
            f"{field('within', request.promise.within)} is wanted, but stream "
            f"{request.keeping.name!r} was created with {definition.guarantee}: {reached}; leave "
            f"it out to continue the stream, or start another one with another {field('name')}"
        )

"""A stream that there is: what a later run may say of it, and what its operator changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from counton.base.errors import AlreadyEnded, InvalidInput, RequestMismatch, field
from counton.base.groups import GroupNames
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.contribution import checked_unit, known_unit
from counton.run.clock import length_of
from counton.run.definition import Definition
from counton.run.new_stream import check_reached, choice_of
from counton.run.request import RequestValues
from counton.spec import stated_options as statements
from counton.spec.job import Job


def refuse_ended(definition: Definition, name: str) -> None:
    """Refuse to go on with a stream that has ended.

    Raises:
        StateError: it has.
    """
    if definition.ended is not None:
        raise AlreadyEnded(
            f"stream {name!r} has ended at step {definition.ended:,} and releases nothing more; "
            f"begin another {field('name')} with {field('continues', name)}, or write again what "
            f"was released from the state alone",
            definition.ended,
        )


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
            columns = definition.columns.rename(old, new)
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


def check(definition: Definition, asked: RequestValues) -> None:
    """A later run may leave out what defines a stream, and may not contradict it.

    Raises:
        StateError: something differs from what the stream was created with.
    """
    request = asked.request
    if request.expire and asked.endless is None:
        raise RequestMismatch(
            f"stream {request.name!r} was created without {field('expire')} and cannot change its "
            f"guarantee; leave it out, or start another stream with another {field('name')}"
        )
    finds = definition.discovery is not None
    if (finds and request.unknown == "drop") or (not finds and request.unknown == "discover"):
        groups = "finds its groups" if finds else "has declared groups"
        raise RequestMismatch(
            f"{field('unknown', request.unknown)} does not go with stream {request.name!r}, which "
            f"{groups}; leave it out, or start another stream with another {field('name')}"
        )
    what = statements.name_of(request.what)
    if what != definition.what:
        raise RequestMismatch(
            f"stream {request.name!r} is of {definition.what!r} and cannot be continued as "
            f"{what!r}; use {field('what', definition.what)} or another {field('name')}"
        )
    _check_statistic(definition, asked)
    check_reached(definition, request)
    for name, given in _options_of_run(definition, asked).items():
        kept = definition.guarantee if name == _GUARANTEE else definition.defining_options[name]
        if given is not None and given is not False and given != kept:
            created = "without it" if kept is None else f"with {_in_words(kept)}"
            what = name if name == _GUARANTEE else field(name)
            raise RequestMismatch(
                f"{what} is {_in_words(given)}, but stream {request.name!r} was created {created}; "
                f"leave it out to continue the stream, or start another one with another "
                f"{field('name')}"
            )


#: What several options say together.
_GUARANTEE = "the guarantee"


def _options_of_run(definition: Definition, asked: RequestValues) -> dict[str, Any]:
    """What a later run states of what makes its stream, as `Definition.defining_options` has it."""
    request, guarantee = asked.request, asked.guarantee
    given = {name: request.option(name) for name in definition.defining_options}
    for name in ("time", "by", "value", "user", "id"):
        given[name] = definition.current_name(given[name])
    if asked.start is not None:
        cut = definition.cut
        given["start"] = asked.start if cut is None else cut.local(asked.start)
    if request.unit is not None:
        people, unit = definition.people, checked_unit(request.unit)
        unit = unit if people is None else people.of(unit)
        given["unit"] = known_unit(unit, [definition.unit])
    if asked.endless is not None and request.growth is not None:
        from counton.base.expiry import Expiry

        given["growth"] = Expiry(request.growth).growth
    if asked.endless is not None and isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        guarantee = guarantee.bound_to(asked.endless)
    return given | {
        "domain": _new_groups(definition, asked.domain),
        "strategy": choice_of(request, definition),
        "metric": asked.metric,
        _GUARANTEE: guarantee,
    }


def _check_statistic(definition: Definition, asked: RequestValues) -> None:
    """Refuse a statistic, or columns, other than those of the stream."""
    kept = definition.statistic
    inner = kept.inner
    given = asked.statistic
    if given is not None and given.declares is not None and inner.declares is not None:
        given = given.by_groups(inner.declares)  # compared as groups, below
    if given is not None and not given.allows(inner):
        alike = repr(given) == repr(inner)
        raise RequestMismatch(
            f"the statistic is {given!r}, but stream {asked.request.name!r} was created with "
            f"{inner!r}{' of other names, or in another order' if alike else ''}; give what it was "
            f"created with, or start another one with another {field('name')}"
        )
    parts = definition.parts
    named = tuple(definition.current_name(name) or name for name in parts.names)
    if asked.parts is not None and asked.parts.names and asked.parts.names != parts.names:
        given_names = (definition.current_name(name) or name for name in asked.parts.names)
        raise RequestMismatch(
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

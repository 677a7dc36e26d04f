"""A later run may leave out what defines a stream, and may not contradict it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from counton.errors import StateError, field
from counton.events.domain import read_domain
from counton.events.windows import parse_time
from counton.jobs.choices import needed_guarantee
from counton.jobs.definition import Definition, contribution_from
from counton.jobs.expiring import expiring_guarantee, refuse_without_expire
from counton.jobs.request import Request
from counton.privacy import Guarantee
from counton.strategies import Expiring


def check(definition: Definition, request: Request) -> None:
    """Refuse options that contradict the stream they continue.

    Raises:
        StateError: an option differs from what the stream was created with.
    """
    windows, columns = definition.windows, definition.columns
    timezone = request.timezone or windows.timezone
    start = None if request.start is None else parse_time(request.start, timezone).astimezone(UTC)
    by = request.by or columns.group or ""
    domain = None if request.domain is None else read_domain(request.domain, by)
    pairs: list[tuple[str, object, object]] = [
        (field("time"), request.time, columns.time),
        (field("by"), request.by, columns.group),
        (field("value"), request.value, columns.value),
        (field("every"), request.every, windows.every),
        (field("steps"), request.steps, windows.steps),
        (field("start"), start, windows.start.astimezone(UTC)),
        (field("timezone"), request.timezone, windows.timezone),
        (field("domain"), domain, definition.domain),
        (field("unit"), request.unit, definition.unit),
        (field("strategy"), request.strategy, definition.choice),
        (field("metric"), request.metric, definition.metric),
    ]
    if isinstance(definition.strategy, Expiring):
        growth = None if request.growth is None else Expiring(request.growth).growth
        pairs.append((field("growth"), growth, definition.strategy.growth))
        pairs.append((field("delay"), request.delay, definition.strategy.delay))
    elif request.expire:
        raise StateError(
            f"stream {request.name!r} was created without {field('expire')} and cannot change "
            f"its guarantee; leave it out, or start another stream with another {field('name')}"
        )
    else:
        refuse_without_expire(request)
    if request.what != definition.what:
        raise StateError(
            f"stream {request.name!r} is a {definition.what} and cannot be continued as a "
            f"{request.what}; use {field('what', definition.what)} or another {field('name')}"
        )
    if request.epsilon is not None or request.delta is not None or request.rho is not None:
        guarantee: Guarantee
        if isinstance(definition.strategy, Expiring):
            guarantee = expiring_guarantee(request, definition.strategy)
        else:
            guarantee = needed_guarantee(request.epsilon, request.delta, request.rho)
        pairs.append(("the guarantee", str(guarantee), str(definition.guarantee)))
    if request.lower is not None or request.upper is not None or request.resolution is not None:
        contribution = contribution_from(replace(request, value=columns.value))
        pairs.append(("the bounds", str(contribution), str(definition.contribution)))
    for option, asked, kept in pairs:
        if asked is not None and asked != kept:
            raise StateError(
                f"{option} is {_shown(asked)}, but stream {request.name!r} was created with "
                f"{_shown(kept)}; leave it out to continue the stream, or start another one with "
                f"another {field('name')}"
            )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value):,} groups ({', '.join(value[:4])}{', ...' if len(value) > 4 else ''})"
    return value.isoformat() if isinstance(value, datetime) else str(value)

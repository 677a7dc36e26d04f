"""What defines a stream of event counts: fixed when it is created, checked at every later run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from counton.errors import InvalidInput, StateError, field
from counton.events.domain import read_domain
from counton.events.tally import Columns
from counton.events.windows import Windows, parse_time
from counton.jobs.choices import choose_strategy, metric_from, needed_guarantee
from counton.jobs.expiring import (
    CHOICE,
    expiring_guarantee,
    expiring_strategy,
    refuse_without_expire,
)
from counton.jobs.request import Request
from counton.mechanisms import StreamTerms
from counton.privacy import Contribution, Guarantee, guarantee_from_dict
from counton.strategies import StreamStrategy

_Given = TypeVar("_Given")
_KIND = "events by window and group"


@dataclass(frozen=True)
class Definition:
    """A stream of counts or sums of events.

    Attributes:
        what: ``count`` or ``sum``.
        columns: where time, group and value stand in the events.
        windows: how time is cut; window k is step k.
        domain: the declared groups, or None for one total.
        unit: what one row is called in the output.
        guarantee, contribution, strategy: as in `Counter`.
        choice, metric: by what the strategy was chosen.

    >>> request = Request(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, by="page", domain="home,shop", epsilon=1
    ... )
    >>> definition = define(request)
    >>> definition.groups, definition.strategy
    (('home', 'shop'), KAry(horizon=8760, arity=26, subtraction=True))
    """

    what: str
    columns: Columns
    windows: Windows
    domain: tuple[str, ...] | None
    unit: str
    guarantee: Guarantee
    contribution: Contribution
    strategy: StreamStrategy
    choice: str
    metric: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one step."""
        return () if self.domain is None else (len(self.domain),)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the cells of one step."""
        return ("all",) if self.domain is None else self.domain

    @cached_property
    def details(self) -> dict[str, Any]:
        """Public facts that are kept with the stream, as JSON values."""
        return {
            "kind": _KIND,
            "what": self.what,
            "time": self.columns.time,
            "by": self.columns.group,
            "value": self.columns.value,
            "every": self.windows.every,
            "from": self.windows.start.astimezone(UTC).isoformat(),
            "steps": self.windows.steps,
            "timezone": self.windows.timezone,
            "domain": None if self.domain is None else list(self.domain),
            "unit": self.unit,
            "strategy": self.choice,
            "metric": self.metric,
        }


def define(request: Request) -> Definition:
    """The definition of a new stream, from options alone.

    Raises:
        InvalidInput: an option is missing or outside what is allowed.
    """
    timezone = request.timezone or "UTC"
    start = parse_time(_needed(request.start, "start"), timezone)
    every = _needed(request.every, "every")
    if request.expire and request.steps is None:
        windows = Windows.endless(start, every, timezone)
    else:
        windows = Windows(start, every, _needed(request.steps, "steps"), timezone)
    columns = Columns(_needed(request.time, "time"), request.by, request.value)
    domain = declared_groups(request)
    contribution = contribution_from(request)
    guarantee: Guarantee
    strategy: StreamStrategy
    if request.expire:
        strategy = expiring_strategy(request)
        guarantee = expiring_guarantee(request, strategy)
    else:
        refuse_without_expire(request)
        guarantee = needed_guarantee(request.epsilon, request.delta, request.rho)
        shape = () if domain is None else (len(domain),)
        strategy = choose_strategy(
            request.strategy, windows.steps, guarantee, request.metric, contribution, shape
        )
    return Definition(
        what=request.what,
        columns=columns,
        windows=windows,
        domain=domain,
        unit=request.unit or "event",
        guarantee=guarantee,
        contribution=contribution,
        strategy=strategy,
        choice=CHOICE if request.expire else request.strategy or "auto",
        metric=metric_from(request.metric),
    )


def _needed(value: _Given | None, name: str) -> _Given:
    if value is None:
        raise InvalidInput(
            f"a new stream needs {field(name)}; give it, or correct {field('state')} and "
            f"{field('name')}"
        )
    return value


def declared_groups(request: Request) -> tuple[str, ...] | None:
    """The groups that options declare; None where events are not grouped.

    Raises:
        InvalidInput: groups without a declaration, or a declaration without groups.
    """
    if request.by is None:
        if request.domain is not None:
            raise InvalidInput(
                f"{field('domain', request.domain)} declares groups, but there is no "
                f"{field('by')}, the column to find them in; give it"
            )
        return None
    if request.domain is None:
        raise InvalidInput(
            f"{field('by', request.by)} needs {field('domain')}: the groups must be declared, "
            f"because groups found in the data would reveal whose events are in it; give a file "
            f"with one group per line, a table with a column {request.by!r}, or a list A,B,C"
        )
    return read_domain(request.domain, request.by)


def contribution_from(request: Request) -> Contribution:
    """What one row can change: one count, or one clipped value.

    Raises:
        InvalidInput: a sum without a value, bounds or a resolution.
    """
    if request.what == "count":
        return Contribution.add_remove()
    if request.value is None:
        raise InvalidInput(f"a sum needs {field('value')}, a column; give it")
    missing = [
        field(name) for name in ("lower", "upper", "resolution") if getattr(request, name) is None
    ]
    if missing:
        raise InvalidInput(
            f"a sum needs {', '.join(missing)}: values are clipped to bounds and put on a grid, so "
            f"that one row can change the sum by a known amount; choose them without looking at "
            f"the data"
        )
    assert request.lower is not None
    assert request.upper is not None
    assert request.resolution is not None
    return Contribution.clipped(request.lower, request.upper, request.resolution)


def reopen(spec: Mapping[str, Any], details: Mapping[str, Any], name: str) -> Definition:
    """The definition of a stream that exists.

    Raises:
        StateError: the stream was not made by this command line.
    """
    if details.get("kind") != _KIND:
        raise StateError(
            f"stream {name!r} does not count or sum events by windows of time; continue it with "
            f"the program that made it, or choose another {field('name')}"
        )
    saved = StreamTerms.from_dict(dict(spec))
    return Definition(
        what=details["what"],
        columns=Columns(details["time"], details["by"], details["value"]),
        windows=Windows(
            datetime.fromisoformat(details["from"]),
            details["every"],
            details["steps"],
            details["timezone"],
        ),
        domain=None if details["domain"] is None else tuple(details["domain"]),
        unit=details["unit"],
        guarantee=guarantee_from_dict(saved.guarantee.to_dict()),
        contribution=saved.contribution,
        strategy=saved.strategy,
        choice=details["strategy"],
        metric=details["metric"],
    )

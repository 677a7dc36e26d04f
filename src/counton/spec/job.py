"""What is asked of a job, and how it says where it is.

Imports nothing heavy: the help of the command line is made from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as made
from datetime import date, datetime, timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, Unpack, cast

from typing_extensions import override

from counton.base.errors import InvalidInput, field, hide_secrets
from counton.base.options import Statement, check_text
from counton.spec.fields import option, options_of
from counton.spec.guards import check_delta
from counton.spec.parts import (
    Arrangement,
    Groups,
    Keeping,
    OutputFiles,
    Promise,
    RowPolicies,
    Showing,
    Times,
    Users,
)

if TYPE_CHECKING:
    import polars as pl

    from counton.base.exact import Number
    from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
    from counton.spec.keywords import JobFields
    from counton.statistics import Statistic

_Given = TypeVar("_Given")

#: What the choice of strategy is recorded as for streams without an end.
EXPIRING = "expiring"
METRICS = ("mean", "max")
#: The time at which a run begins, or the end of the stream where that is over.
NOW = "now"
#: The time of the newest event.
NEWEST = "newest"


class Arrow(Protocol):
    """What lends its columns as Arrow's PyCapsule interface says: a data frame of any library."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the rows."""


#: Where events are read from.
Events: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pl.LazyFrame | Arrow"
)


def _check_events(value: Any) -> None:
    """Paths are texts; what else there is, is looked at where it is read."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | os.PathLike):
            check_text("events", os.fspath(one))


@dataclass(frozen=True, init=False)
class Job(
    Showing,
    OutputFiles,
    RowPolicies,
    Users,
    Arrangement,
    Promise,
    Groups,
    Times,
    Keeping,
    Statement,
):
    """A job states what one run is asked; a field that is left out is None.

    A new stream needs the fields that define it. A later run may leave them out, and may not
    contradict them. The fields of its parts are fields and keywords of the job.

    >>> Job(what="count", events="visits.csv", state="visits.db").name
    'events'

    Attributes:
        what: a statistic, or its name: "count", "sum", "average", "top-k" and others.
        events: one row each: a file, ``-`` for standard input, a folder of files, a pattern, or
            several of these; or a data frame that speaks Arrow (polars, pandas, pyarrow, DuckDB).
        options: the options of the statistic by name, as its ``options`` list them, each a
            keyword: ``lower=0``. A statistic that is given as an object takes only ``columns``,
            the columns of an event's parts in their order, or ``value``, where that is one.
    """

    what: str | Statistic = ""
    events: Events = option(
        ...,
        "files of events: CSV, Parquet or JSON lines; a folder of them; - for standard input",
        argument=True,
        file=True,
        other=_check_events,
        repr=False,  # a frame would show its rows
    )
    options: Mapping[str, Any] = made(default_factory=dict)

    def __init__(
        self,
        what: str | Statistic,
        events: Events,
        state: str | os.PathLike[str],
        **more: Unpack[JobFields],
    ) -> None:
        taken: dict[str, Any] = {"what": what, "events": events, "state": state}
        stated = cast("dict[str, Any]", more)
        for item in fields(self):
            if item.name not in taken and item.name != "options":
                taken[item.name] = stated.pop(item.name, item.default)
        given = {**stated.pop("options", {}), **stated}
        taken["options"] = {
            name: _plain(value)
            for name, value in given.items()
            if value is not None and value is not False
        }
        for name, value in taken.items():
            object.__setattr__(self, name, value)
        _check_what(what)
        self._put_in_words()
        self._call_stream()
        self.__post_init__()

    def __repr__(self) -> str:
        """As a call, without its events, and without passwords of addresses."""
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
        return hide_secrets(f"Job({', '.join(shown)})")

    def option(self, name: str) -> Any:
        """What is stated by a field, or by an option of the statistic; None where nothing is.

        >>> Job("average", "visits.csv", "visits.db", lower=0).option("lower")
        0
        """
        return getattr(self, name) if name in _NAMES else self.options.get(name)

    def states(self, name: str) -> bool:
        """Whether a field, or an option of the statistic, says more than what is usual.

        >>> job = Job("count", "visits.csv", "visits.db", release="totals", steps=9)
        >>> job.states("release"), job.states("steps"), job.states("missing")
        (False, True, False)
        """
        value, said = self.option(name), options_of(Job).get(name)
        known = () if said is None else (said.default, said.usual)
        return value is not None and value is not False and value not in known

    def having(self, **changes: Any) -> Job:
        """This job with other values of some fields or options.

        >>> Job("average", "visits.csv", "visits.db", lower=0).having(lower=1, steps=9).options
        {'lower': 1}
        """
        return replace(self, **changes)

    @property
    def statistic(self) -> str:
        """The name of its statistic."""
        return str(self.what)

    @override
    def of_part(
        self, statistic: str, options: Mapping[str, Any], by: str | None, domain: Any
    ) -> Job:
        return replace(self, what=statistic, options=dict(options), by=by, domain=domain)

    @override
    def groups(self, column: str) -> tuple[str, ...]:
        from counton.rows.domains import read_domain, refuse_long_terms

        names = read_domain(cast("Any", self.domain), column)
        refuse_long_terms(names)
        return tuple(names)

    @override
    def tree(self, levels: Sequence[str], value: str | None) -> Any:
        from counton.spec.public_tables import tree_of

        return tree_of(self.domain, levels, value)

    @override
    def labels(self, columns: Sequence[str], value: str | None) -> dict[str, list[str]]:
        from counton.spec.public_tables import names_of, values_of

        self.refuse_counts(value)
        stated = self.options.get("columns")
        given = stated if isinstance(stated, str) else columns
        return values_of(self.domain, names_of(given, "columns"))

    @override
    def refuse_counts(self, value: str | None) -> None:
        from counton.spec.public_tables import refuse_counts

        refuse_counts(self.domain, value)

    def _call_stream(self) -> None:
        given: object = self.name
        if given is None or (isinstance(given, str) and not given):
            object.__setattr__(self, "name", _stream_of(self.what))

    def _put_in_words(self) -> None:
        """What Python says otherwise than files and commands: dates, lengths, several columns."""
        for name, said in options_of(Job).items():
            given: Any = getattr(self, name)
            if said.words == "length" and isinstance(given, timedelta):
                given = length_in_words(name, given)
            elif said.words == "moment" and isinstance(given, date):
                given = given if isinstance(given, datetime) else given.isoformat()
            elif said.words == "columns" and isinstance(given, list | tuple) and _are_texts(given):
                given = ",".join(given)
            object.__setattr__(self, name, given)


def _stream_of(what: object) -> str:
    """What the streams of a statistic are called, unless a job says else."""
    if not isinstance(what, str):
        return str(getattr(what, "stream", "statistic"))
    from counton.statistics.catalogue import keywords, statistic_named

    return statistic_named(what).stream if what in keywords() else "statistic"


def _plain(value: Any) -> Any:
    """A whole number of another library as Python's."""
    other = isinstance(value, Integral) and not type(value).__module__.startswith("builtins")
    return int(value) if other else value


#: The fields of every job.
_NAMES = frozenset(item.name for item in fields(Job))


def length_in_words(name: str, length: timedelta) -> str:
    """A length of time as options have it.

    >>> length_in_words("every", timedelta(hours=36)), length_in_words("every", timedelta(days=7))
    ('36h', '7d')
    """
    seconds = length.total_seconds()
    if seconds <= 0 or seconds != int(seconds):
        raise InvalidInput(
            f"{field(name)} is {length}, which is no whole number of seconds above 0; give one, as "
            f"in 15m, 1h or 1d"
        )
    for word, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{int(seconds // size)}{word}"
    return f"{int(seconds)}s"


def _check_what(value: object) -> None:
    if isinstance(value, str):
        return
    from counton.base.exact import quote
    from counton.statistics import Statistic

    if not isinstance(value, Statistic):
        raise InvalidInput(
            f"what is {quote(value)}; give a statistic such as Average(0, 200, resolution=1), or "
            f'the name of one, such as "count"; the events come after it'
        )


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def guarantee_from(
    epsilon: Number | None, delta: Number | None, rho: Number | None
) -> PureDP | ApproxDP | ZCDP | None:
    """The guarantee that numbers state; None if they state none.

    >>> print(guarantee_from("1", "1e-9", None))
    approximate differential privacy with epsilon = 1 and delta = 1e-9
    """
    from counton.privacy import ZCDP, ApproxDP, PureDP

    check_delta(delta)
    if rho is not None:
        if epsilon is not None or delta is not None:
            other = field("delta", delta) if epsilon is None else field("epsilon", epsilon)
            raise InvalidInput(
                f"{field('rho', rho)} and {other} are two different guarantees; give one of them"
            )
        return ZCDP(rho)
    if epsilon is None:
        if delta is not None:
            raise InvalidInput(f"{field('delta', delta)} stands alone; it needs {field('epsilon')}")
        return None
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def needed_guarantee(epsilon: Number | None, delta: Number | None, rho: Number | None) -> Guarantee:
    """As `guarantee_from`, where one must be stated."""
    return require_guarantee(guarantee_from(epsilon, delta, rho))


def require_guarantee(guarantee: _Given | None) -> _Given:
    """A guarantee that may be missing, which must not."""
    if guarantee is None:
        raise InvalidInput(
            f"no guarantee is stated; give {field('epsilon')}, {field('epsilon')} and "
            f"{field('delta')}, or {field('rho')}: {field('epsilon', 1)} is a common choice"
        )
    return guarantee


def metric_from(metric: str | None) -> Literal["mean", "max"]:
    """The error to make small: its mean over the steps unless stated."""
    if metric is not None and metric not in METRICS:
        raise InvalidInput(f"metric {metric!r} is not known; use mean or max")
    return cast(Literal["mean", "max"], metric or "mean")

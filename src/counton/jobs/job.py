"""What is asked of a job, and how it says where it is.

Imports nothing heavy: the help of the command line is made from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as attribute
from datetime import datetime
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast

from counton.errors import InvalidInput, field, is_text
from counton.jobs.guards import check_delta

if TYPE_CHECKING:
    import polars as pl

    from counton.exact import Number
    from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP

_Given = TypeVar("_Given")

#: What the choice of strategy is recorded as for streams without an end.
EXPIRING = "expiring"
METRICS = ("mean", "max")
#: The time at which a run begins, or the end of the stream where that is over.
NOW = "now"
#: What is published of each window: the total so far, the window's own count, or both.
RELEASES = ("totals", "windows", "both")


class Arrow(Protocol):
    """What lends its columns as Arrow's PyCapsule interface says: a data frame of any library."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the rows."""


#: Where events are read from.
Events: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pl.LazyFrame | Arrow"
)


@dataclass(frozen=True)
class Job:
    """What ``counton count`` and ``counton sum`` are asked; None where something is left out.

    A new stream needs the fields that define it; a later run may leave them out, and may not
    contradict them.

    >>> Job(what="count", events="visits.csv", state="visits.db").name
    'events'

    Attributes:
        what: number of events, or sum of a column of values.
        events: one row each: a file, ``-`` for standard input, a folder of files, a pattern, or
            several of these; or a data frame that speaks Arrow (polars, pandas, pyarrow, DuckDB).
        state: path of a SQLite file, or a database URL.
        time, by, value: columns of the events.
        every, start, steps, timezone: windows of time.
        domain: the declared groups, public knowledge: a file, a list ``A,B,C``, or a sequence.
        lower, upper, resolution: of the values of a sum.
        until: windows that ended by then are released, "now" when the run begins; None: by the
            newest event's time.
        confirmed: release also what looks like a mistake, as many windows after the newest event.
        epsilon, delta, rho: the guarantee.
        continues: a stream of the same state that ends now; this one begins where it ends.
        other: a group of its own for all rows of groups that are not declared.
        spare: so many groups more, without a name yet.
        also: names for spare groups, known to the public: a list ``A,B`` or a sequence; from the
            next window on.
        rename: columns that are called otherwise from now on, ``old=new``, commas between several.
        release: "totals" so far, the "windows" alone, or "both"; None: as the stream, else totals.
        strategy, metric: how the noise is arranged, or by which error it is chosen.
        simple: choose among strategies that release integers, without a search.
        expire, growth, delay: of a stream without an end.
        user: column that says whose an event is; then a user is protected, not one event.
        most: at most so many events of a user count.
        per: or so many in each period of a user, ``1d``: then one user's one period is protected.
        distinct: at most one event of a user counts in each window and group.
        first: at most one event of a user counts in each group, for ever, in ``most`` groups (1).
        id: column that says which event a row is; it counts once, in whatever files it comes.
        unit: what is protected, as the ledger calls it: one row, or with ``user`` one user (whose
            period has the period's name too); left out: as in the state, else "event" or "user".
        name: within the state.
        key: where the key is kept: a file, ``env:NAME``, ``command:...``; None: ``STATE.key``.
        file_format, time_format, clock_change: how the events are read.
        unknown: whether rows of undeclared groups are refused ("refuse") or dropped ("drop"); or
            no group is declared and each is shown once it is large enough ("discover").
        bad_rows: whether rows that cannot be read end the run ("refuse"), or are written into a
            file, anew in each run ("quarantine:FILE"), at most ``bad_rows_most`` of them.
        missing: whether rows that lack a time, group, value, user or id are refused as such
            ("refuse"), or counted nowhere ("skip").
        append: the file holds new events only.
    """

    what: Literal["count", "sum"]
    events: Events = attribute(repr=False)  # a frame would show its rows
    state: str | os.PathLike[str]
    time: str | None = None
    every: str | None = None
    by: str | None = None
    domain: str | os.PathLike[str] | Sequence[str] | None = None
    value: str | None = None
    lower: Number | None = None
    upper: Number | None = None
    resolution: Number | None = None
    steps: int | None = None
    start: str | datetime | None = None
    until: str | datetime | None = None
    confirmed: bool = False
    timezone: str | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    continues: str | None = None
    other: str | None = None
    spare: int | None = None
    also: str | Sequence[str] | None = None
    rename: str | None = None
    release: str | None = None
    strategy: str | None = None
    metric: str | None = None
    simple: bool = False
    expire: bool = False
    growth: Number | None = None
    delay: int | None = None
    user: str | None = None
    most: int | None = None
    per: str | None = None
    distinct: bool = False
    first: bool = False
    id: str | None = None
    unit: str | None = None
    name: str = "events"
    key: str | os.PathLike[str] | None = None
    file_format: str | None = None
    time_format: str | None = None
    clock_change: str = "raise"
    unknown: str = "refuse"
    bad_rows: str = "refuse"
    bad_rows_most: int = 1000
    missing: str = "refuse"
    append: bool = False


class Progress(Protocol):
    """Called with what is being done and the share of the whole work that is behind it."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Take note."""


def silent(_stage: str, _share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class RangesRequest:
    """What ``counton ranges`` is asked.

    Attributes:
        series: file of counts, one row a cell; how many cells there are is published.
        state: path of a SQLite file, or a database URL.
        value: column of the counts.
        label: column that names the cells; needs ``domain``.
        domain: the labels of all cells in their order, public knowledge: a file, a list ``A,B,C``,
            or a sequence. Cells without a row count 0.
        ask: intervals to answer, ``0:24,24:48`` (ends excluded).
        workload, strategy: as in `counton.plan_ranges`.
        epsilon, delta, rho: the guarantee.
        move: protect where a unit is counted, not whether it is.
        unit: what one count is called; None: as in the state, or "unit".
        name: of the release within the state.
        key: where the key is kept: a file, ``env:NAME``, ``command:...``; None: ``STATE.key``.

    >>> RangesRequest(series="visits.csv", state="visits.db", value="visits").name
    'ranges'
    """

    series: str | os.PathLike[str]
    state: str | os.PathLike[str]
    value: str
    label: str | None = None
    domain: str | os.PathLike[str] | Sequence[str] | None = None
    ask: str | None = None
    workload: str = "ranges"
    strategy: str = "auto"
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    move: bool = False
    unit: str | None = None
    name: str = "ranges"
    key: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class HierarchyRequest:
    """What ``counton hierarchy`` is asked.

    Attributes:
        leaves: file of counts, one row a leaf; leaves without a row count 0.
        state: path of a SQLite file, or a database URL.
        levels: the level columns, coarsest first: names, or ``A,B,C``.
        value: column of the counts.
        domain: public table with the level columns: which leaves exist.
        target: standard deviation by level, ``LEVEL=STD,...`` or a mapping; relative ones if a
            guarantee is given, else its cost is computed.
        epsilon, delta, rho, move, unit, name, key: as in `RangesRequest`.

    >>> HierarchyRequest(
    ...     leaves="people.csv", state="people.db", levels="state,county", value="people",
    ...     domain="places.csv",
    ... ).name
    'hierarchy'
    """

    leaves: str | os.PathLike[str]
    state: str | os.PathLike[str]
    levels: str | Sequence[str]
    value: str
    domain: str | os.PathLike[str]
    target: str | Mapping[str, float] | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    move: bool = False
    unit: str | None = None
    name: str = "hierarchy"
    key: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class ContingencyRequest:
    """What ``counton contingency`` is asked.

    Attributes:
        rows: file of rows, one a unit, or with a column of counts.
        state: path of a SQLite file, or a database URL.
        columns: the columns of the table: names, or ``A,B,C``.
        domain: the values that each column can have, public, in the order in which they are
            wanted: a table with these columns (shorter ones end in empty cells), a text
            ``sex=f,m;smokes=no,yes``, or a mapping.
        value: column of counts; None: every row is one unit.
        equal: the same accuracy for every margin, instead of least total error over all.
        epsilon, delta, rho, move, unit, name, key: as in `RangesRequest`.

    >>> ContingencyRequest(
    ...     rows="people.csv", state="people.db", columns="sex,smokes",
    ...     domain="sex=f,m;smokes=no,yes",
    ... ).name
    'contingency'
    """

    rows: str | os.PathLike[str]
    state: str | os.PathLike[str]
    columns: str | Sequence[str]
    domain: str | os.PathLike[str] | Mapping[str, Sequence[str]]
    value: str | None = None
    equal: bool = False
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    move: bool = False
    unit: str | None = None
    name: str = "contingency"
    key: str | os.PathLike[str] | None = None


_FILES = ("events", "series", "leaves", "rows")
_FLAGS = ("confirmed", "simple", "expire", "append", "distinct", "first", "move", "equal")
_WHOLE = ("steps", "delay", "most", "spare", "bad_rows_most")
_MOMENTS = ("start", "until")
#: Checked where they are read: they may be more than one type, or any exact number.
_ELSEWHERE = (
    *("domain", "also", "levels", "columns", "target"),
    *("lower", "upper", "resolution", "epsilon", "delta", "rho", "growth"),
)
_Request = TypeVar("_Request", "Job", "RangesRequest", "HierarchyRequest", "ContingencyRequest")


def checked(request: _Request) -> _Request:
    """A request whose fields have the types they say, with whole numbers as Python's.

    Raises:
        InvalidInput: a field of another type, or a text that no file can hold.

    >>> checked(Job("count", "visits.csv", "visits.db", steps="30"))
    Traceback (most recent call last):
    counton.errors.InvalidInput: steps is '30', of type str; give a whole number, as in steps=30
    """
    whole = {}
    for item in fields(request):
        name, value = item.name, getattr(request, item.name)
        if value is None and item.default is None:
            continue
        if name in _FILES or name in ("state", "key"):
            _check_path(name, value)
        elif name in _FLAGS:
            if value is not True and value is not False:
                raise _wrong_type(name, value, "True or False")
        elif name in _WHOLE:
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise _wrong_type(name, value, f"a whole number, as in {field(name, 30)}")
            whole[name] = int(value)
        elif name in _MOMENTS:
            if not isinstance(value, str | datetime):
                raise _wrong_type(name, value, "a datetime or a text, as in 2013-01-01T00:00")
            check_text(name, value)
        elif name not in _ELSEWHERE:
            if not isinstance(value, str):
                raise _wrong_type(name, value, "a text")
            check_text(name, value)
        elif isinstance(value, str | os.PathLike):
            check_text(name, os.fspath(value))
    return replace(cast(Any, request), **whole) if whole else request


def check_text(name: str, value: object) -> None:
    """Refuse a text that is none in UTF-8, or holds NUL: no file or database keeps it.

    Raises:
        InvalidInput: naming the field.

    >>> check_text("name", "visits")
    """
    if not isinstance(value, str):
        return
    if not is_text(value):
        raise InvalidInput(
            f"{field(name)} is {value[:80]!r}, which is no text in UTF-8 (a byte of another "
            f"encoding, or NUL); write or rename it in UTF-8"
        )


def _check_path(name: str, value: Any) -> None:
    if name == "events":
        _check_events(value)
        return
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        if name in _FILES:
            raise InvalidInput(
                f"{field(name)} is of type {type(value).__name__}, which is not the path of a "
                f"file; write it to one (a data frame: write_parquet or to_parquet)"
            )
        what = "the path of a file" + (" or a database URL" if name == "state" else "")
        raise _wrong_type(name, value, what)
    check_text(name, path)


def _check_events(value: Any) -> None:
    """Paths are texts; what else there is, is looked at where it is read."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | os.PathLike):
            check_text("events", os.fspath(one))


def _wrong_type(name: str, value: object, wanted: str) -> InvalidInput:
    return InvalidInput(
        f"{field(name)} is {repr(value)[:80]}, of type {type(value).__name__}; give {wanted}"
    )


def guarantee_from(
    epsilon: Number | None, delta: Number | None, rho: Number | None
) -> PureDP | ApproxDP | ZCDP | None:
    """The guarantee that numbers state; None if they state none.

    Raises:
        InvalidInput: numbers that exclude each other, or outside their bounds.

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
    """As `guarantee_from`, where one must be stated.

    Raises:
        InvalidInput: none is.
    """
    return stated(guarantee_from(epsilon, delta, rho))


def stated(guarantee: _Given | None) -> _Given:
    """A guarantee that may be missing, which must not.

    Raises:
        InvalidInput: there is none.
    """
    if guarantee is None:
        raise InvalidInput(
            f"no guarantee is stated; give {field('epsilon')}, {field('epsilon')} and "
            f"{field('delta')}, or {field('rho')}: {field('epsilon', 1)} is a common choice"
        )
    return guarantee


def metric_from(metric: str | None) -> Literal["mean", "max"]:
    """The error to make small: its mean over the steps unless stated.

    Raises:
        InvalidInput: neither ``mean`` nor ``max``.
    """
    if metric is not None and metric not in METRICS:
        raise InvalidInput(f"metric {metric!r} is not known; use mean or max")
    return cast(Literal["mean", "max"], metric or "mean")

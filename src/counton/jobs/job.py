"""What is asked of a job, and how it says where it is.

Imports nothing heavy: the help of the command line is made from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from dataclasses import field as made
from datetime import date, datetime, timedelta
from numbers import Integral, Real
from numbers import Number as AnyNumber
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, Unpack, cast

from counton.errors import InvalidInput, field, is_one, is_text
from counton.jobs.fields import asked
from counton.jobs.guards import check_delta
from counton.jobs.own_strategies import own_strategy

if TYPE_CHECKING:
    import polars as pl

    from counton.exact import Number
    from counton.jobs.keywords import JobFields
    from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
    from counton.statistics import Statistic
    from counton.strategies.base import StreamStrategy

_Given = TypeVar("_Given")

#: What the choice of strategy is recorded as for streams without an end.
EXPIRING = "expiring"
METRICS = ("mean", "max")
#: The time at which a run begins, or the end of the stream where that is over.
NOW = "now"
#: The time of the newest event.
NEWEST = "newest"
#: Statistics that are tables, whose streams are called by them unless they are called otherwise.
TABLES = ("hierarchy", "ranges", "contingency")
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


@dataclass(frozen=True, init=False)
class Job:
    """What a command is asked; None where something is left out.

    A new stream needs the fields that define it; a later run may leave them out, and may not
    contradict them.

    >>> Job(what="count", events="visits.csv", state="visits.db").name
    'events'

    Attributes:
        what: a statistic, or its name: "count", "sum", "average", "top-k" and others.
        events: one row each: a file, ``-`` for standard input, a folder of files, a pattern, or
            several of these; or a data frame that speaks Arrow (polars, pandas, pyarrow, DuckDB).
        state: path of a SQLite file, or a database URL.
        time, by: columns of the events; ``by`` may be several, ``["region", "product"]`` or
            ``"region,product"``, whose groups are called ``north / shoes``.
        every, start, steps, timezone: windows of time; a `timedelta` and a `date` will do too.
        domain: the declared groups, public knowledge: a file, a list ``A,B,C``, or a sequence; of
            several columns a table with them, a sequence of tuples, or a mapping of lists, all of
            whose combinations are declared.
        options: those of the statistic by name, as it says in its ``options``, each a keyword of
            its own: ``lower=0``. Of a statistic that is given as such only ``columns``, of the
            parts of an event in its order, or ``value``, where that is one.
        until: windows that ended by then are released; None or "now", when the run begins;
            "newest", by the time of the newest event, which is somebody's and not protected.
        watermark: a window is released so long after its end, whether the clock, the newest event
            or ``until`` says what time it is: rows that are late by less count in their own window.
        confirmed: release also what looks like a mistake, as many windows after the newest event.
        epsilon, delta, rho: the guarantee.
        continues: a stream of the same state that ends now; this one begins where it ends.
        other: a group of its own for all rows of groups that are not declared.
        spare: so many groups more, without a name yet.
        also: names for spare groups, known to the public: a list ``A,B`` or a sequence; where there
            is ``other``, from the first window on of which no run has read rows.
        rename: columns that are called otherwise from now on, ``old=new``, commas between several.
        release: "totals" so far, the "windows" alone, or "both"; None: as the stream, else totals.
        strategy, metric: how the noise is arranged (a name, a `Factorisation` of one's own, or a
            file with what its ``to_dict`` says), or by which error it is chosen.
        simple: choose among strategies that release integers, without a search.
        around: instead of steps, of a stream without an end whose protection never fades: errors
            are made small up to about so many windows, and it serves as many as come.
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
        late: rows that come for a released window, of a statistic whose rows count in their order:
            refused ("refuse"), or counted nowhere ("drop"). Others count at the next release.
        append: the file holds new events only.
        out, plot, sums: files of released steps, of a chart, and of sums over periods.
        level: probability with which each interval holds that is shown or written.
        title, axis, source, width: of the chart.
        over, shares, ask, cut: what is shown of a statistic's readings.
        integers, nonnegative, known: how the numbers of a table are made to fit, as they are shown
            everywhere; ``known`` is a file, or a mapping from paths of nodes to totals.
    """

    what: str | Statistic
    events: Events = asked(
        ...,
        "files of events: CSV, Parquet or JSON lines; a folder of them; - for standard input",
        group="",
        argument=True,
        repr=False,  # a frame would show its rows
    )
    state: str | os.PathLike[str] = asked(
        ..., "SQLite file or database URL that keeps the stream; secret", group="State"
    )
    time: str | None = asked(None, "column of the events' times", group="Time")
    every: str | None = asked(None, "length of a window: 15m, 1h, 1d, 1w, 1mo", group="Time")
    by: str | None = asked(None, "column of the events' groups, or several: A,B", group="Groups")
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = asked(
        None,
        "the declared groups, public: a file (one per line, or a table) or a list A,B,C",
        group="Groups",
    )
    steps: int | None = asked(None, "how many windows the stream will ever have", group="Time")
    around: int | None = asked(
        None,
        "instead of steps: the stream has no end, and you have about so many windows in mind",
        group="Time",
    )
    start: str | datetime | None = asked(
        None, "beginning of the first window", "from", group="Time"
    )
    until: str | datetime | None = asked(
        None,
        "release windows that ended by then; default: now; newest: by the newest event's time",
        group="Time",
    )
    watermark: str | None = asked(
        None,
        "release a window only so long after its end, as in 6h: late rows fall into their own",
        group="Time",
    )
    confirmed: bool = asked(
        False, "release also many windows after the newest event", "yes", group="Time"
    )
    timezone: str | None = asked(
        None, "zone of local times and calendar windows; default: UTC", group="Time"
    )
    epsilon: Number | None = asked(None, "privacy loss of one row", group="Guarantee")
    delta: Number | None = asked(None, "with epsilon: approximate privacy", group="Guarantee")
    rho: Number | None = asked(
        None, "zero-concentrated privacy instead of epsilon", group="Guarantee"
    )
    continues: str | None = asked(
        None,
        "a stream of the state, which ends: this one goes on, with what it does not say",
        group="State",
    )
    other: str | None = asked(
        None, "a group of its own for rows of groups that are not declared", group="Groups"
    )
    spare: int | None = asked(None, "so many groups more, to be named later", group="Groups")
    also: str | Sequence[str] | None = asked(
        None, "names for spare groups, A,B: they count from the next window on", group="Groups"
    )
    rename: str | None = asked(
        None, "columns called otherwise from now on: OLD=NEW,...", group="Rows"
    )
    release: str | None = asked(
        None,
        "totals so far, windows (each one's own number), or both; default: totals",
        group="Noise",
    )
    strategy: str | StreamStrategy | None = asked(
        None,
        "auto, solved, look-ahead, kary, smooth, honaker, binary, sqrt or normalised-sqrt; or a "
        "file with one of your own, mine.json",
        group="Noise",
    )
    metric: str | None = asked(None, "error to make small: mean or max", group="Noise")
    simple: bool = asked(False, "only strategies that release integers, no search", group="Noise")
    expire: bool = asked(
        False, "protection fades with age; no steps needed: see plan expire", group="Guarantee"
    )
    growth: Number | None = asked(
        None, "with expire: the loss grows like log(age)^GROWTH; default: 1", group="Guarantee"
    )
    delay: int | None = asked(
        None, "with expire: release events this many windows late", group="Guarantee"
    )
    user: str | None = asked(
        None, "column of users: protect a user, not one event; needs most", group="People"
    )
    most: int | None = asked(
        None, "at most so many events of a user count; the others are dropped", group="People"
    )
    per: str | None = asked(
        None, "so many in each period, as in 1d; protects a user's one period", group="People"
    )
    distinct: bool = asked(False, "a user counts once in each window and group", group="People")
    first: bool = asked(False, "a user counts once for ever: distinct users so far", group="People")
    id: str | None = asked(
        None, "column of ids: a row counts once, in whatever file it comes", group="Rows"
    )
    unit: str | None = asked(
        None, "what one row, or one user, is called; the ledger counts by it", group="Guarantee"
    )
    name: str = asked(
        "",
        'name of the stream within the state; default: events, of other statistics "statistic", '
        "of tables their own",
        group="State",
    )
    key: str | os.PathLike[str] | None = asked(
        None,
        "file of the key, env:NAME or command:...; default: STATE.key, made for a new state",
        group="State",
    )
    file_format: str | None = asked(
        None, "csv, parquet or jsonl, where the name does not say", "format", group="Rows"
    )
    time_format: str | None = asked(
        None,
        "epoch, epoch_ms, epoch_us, epoch_ns or a strftime format; default: ISO 8601",
        group="Rows",
    )
    clock_change: str = asked(
        "raise", "local times that come twice a year: raise, earliest or latest", group="Rows"
    )
    unknown: str = asked(
        "refuse",
        "rows of undeclared groups: refuse or drop; discover: none is declared",
        group="Groups",
    )
    bad_rows: str = asked(
        "refuse",
        "rows that cannot be read: refuse, or quarantine:FILE, written anew in each run",
        group="Rows",
    )
    bad_rows_most: int = asked(1000, "with quarantine: so many rows may be set aside", group="Rows")
    missing: str = asked(
        "refuse", "rows that lack a time, group, value, user or id: refuse or skip", group="Rows"
    )
    late: str = asked(
        "refuse",
        "rows of released windows, where rows count in order: refuse, or drop them",
        group="Rows",
    )
    append: bool = asked(False, "the file holds new events only, not all since from", group="Rows")

    out: str | os.PathLike[str] | None = asked(
        None,
        "write all released steps: .parquet, .csv, .json, .jsonl, .arrow or .xlsx",
        group="Output",
    )
    plot: str | os.PathLike[str] | None = asked(
        None, "draw all released steps: .png, .svg or .pdf", group="Output"
    )
    sums: str | None = asked(
        None,
        "also write what happened in each 1d,1w,1mo: OUT with that before its ending",
        group="Output",
    )
    title: str | None = asked(
        None, "of the chart, in other words than the statistic's own", group="Output"
    )
    axis: str | None = asked(None, "what the chart's axis shows", group="Output")
    source: str | None = asked(
        None, "where the numbers come from, a line below the chart", group="Output"
    )
    width: float | None = asked(
        None, "of the chart in inches, as in 4 for a telephone; default: 7.5", group="Output"
    )
    over: int | None = asked(
        None, "show what came in the last so many steps, not in all so far", group="Output"
    )
    shares: str | Sequence[float] | None = asked(
        None, "which quantiles are shown, as in 0.25,0.5,0.75; 0.5 is the median", group="Output"
    )
    ask: str | Sequence[str] | None = asked(
        None, "only these words, after every step: ACG,TT; default: all, now", group="Output"
    )
    cut: str | None = asked(
        None,
        "sets of nodes, A,B;C: the weight between each set and all other nodes, every step",
        group="Output",
    )
    integers: bool = asked(False, "of a table: whole numbers that add up", group="Output")
    nonnegative: bool = asked(
        False,
        "of a table: no number below 0, which is biased where little is counted",
        group="Output",
    )
    known: str | os.PathLike[str] | Mapping[Any, int] | Sequence[Any] | None = asked(
        None,
        "of a hierarchy: public totals that are kept, a table with level columns and 'total'",
        group="Output",
    )
    level: float = asked(0.95, "probability that an interval holds the true number", group="Output")

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
        self._put_in_words()
        self._call_stream()

    def given(self, name: str) -> Any:
        """What is stated by a field, or by an option of the statistic; None where nothing is.

        >>> Job("average", "visits.csv", "visits.db", lower=0).given("lower")
        0
        """
        return getattr(self, name) if name in _NAMES else self.options.get(name)

    def having(self, **changes: Any) -> Job:
        """This job with other values of some fields or options.

        >>> Job("average", "visits.csv", "visits.db", lower=0).having(lower=1, steps=9).options
        {'lower': 1}
        """
        return replace(self, **changes)

    def _call_stream(self) -> None:
        given: object = self.name
        if given is None or (isinstance(given, str) and not given):
            object.__setattr__(self, "name", _stream_of(self.what))

    def _put_in_words(self) -> None:
        """What Python says otherwise than files and commands: dates, lengths, several columns."""
        for name in ("every", "watermark", "per", "start", "until", "by"):
            given: Any = getattr(self, name)
            if isinstance(given, timedelta):
                given = length_in_words(name, given)
            elif isinstance(given, date) and not isinstance(given, datetime):
                given = given.isoformat()
            elif name == "by" and isinstance(given, list | tuple) and _are_texts(given):
                given = ",".join(given)
            object.__setattr__(self, name, given)


def _stream_of(what: object) -> str:
    """What the streams of a statistic are called, unless a job says else."""
    if not isinstance(what, str):
        return str(getattr(what, "stream", "statistic"))
    from counton.statistics.known import keywords, statistic_named

    return statistic_named(what).stream if what in keywords() else "statistic"


def _plain(value: Any) -> Any:
    """A whole number of another library as Python's."""
    other = isinstance(value, Integral) and not type(value).__module__.startswith("builtins")
    return int(value) if other else value


#: The fields of every job.
_NAMES = frozenset(item.name for item in fields(Job))


def length_in_words(name: str, length: timedelta) -> str:
    """A length of time as options have it.

    Raises:
        InvalidInput: no whole number of seconds above 0.

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


_FILES = ("events", "state", "key")
_FLAGS = (
    "confirmed",
    "simple",
    "expire",
    "append",
    "distinct",
    "first",
    "move",
    "equal",
    "replace",
    "integers",
    "nonnegative",
)
_WHOLE = (
    *(
        "steps",
        "around",
        "delay",
        "most",
        "spare",
        "number",
        "cells",
        "top",
        "room",
        "window",
        "windows",
    ),
    *("changes", "stay", "bad_rows_most", "over", "longest", "degree", "leaves", "nodes"),
    "grid",
)
_MOMENTS = ("start", "until")
#: Checked where they are read: they may be more than one type, or any exact number.
_ELSEWHERE = (
    "domain",
    "also",
    "levels",
    "columns",
    "target",
    "bounds",
    "edges",
    "alphabet",
    "edge",
    "known",
)
#: Exact numbers, which may be written as texts.
_EXACT = ("lower", "upper", "resolution", "largest", "epsilon", "delta", "rho", "growth")
_REAL = ("level", "width")
_WRITTEN = ("out", "plot")
_LISTS = ("shares", "ask")


def checked(request: Job) -> Job:
    """A request whose fields have the types they say, with whole numbers as Python's.

    Raises:
        InvalidInput: a field of another type, or a text that no file can hold.

    >>> checked(Job("count", "visits.csv", "visits.db", steps="30"))
    Traceback (most recent call last):
    counton.errors.InvalidInput: steps is '30', of type str; give a whole number, as in steps=30
    """
    given: object = request
    if not is_dataclass(given):
        from counton.exact import quoted

        raise InvalidInput(f"the request is {quoted(given)}; give a Job(what, events, state)")
    whole = {}
    for item in fields(request):
        name, value = item.name, getattr(request, item.name)
        if (value is None and item.default is None) or name == "options":
            continue  # options are checked as their statistic says
        if name in _FILES:
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
                raise _wrong_type(
                    name, value, "a date, a datetime or a text, as in 2013-01-01T00:00"
                )
            check_text(name, value)
        elif name in _EXACT:
            if isinstance(value, bool) or not isinstance(value, str | AnyNumber):
                raise _wrong_type(name, value, "a number")
        elif name in _REAL:
            if isinstance(value, bool) or not isinstance(value, Real):
                raise _wrong_type(name, value, "a number")
        elif name in _WRITTEN:
            if not isinstance(value, str | os.PathLike):
                raise _wrong_type(name, value, "the path of a file")
            check_text(name, os.fspath(value))
        elif name in _LISTS:
            of_several = isinstance(value, list | tuple) and all(map(is_one, value))
            if not isinstance(value, str) and not of_several:
                raise _wrong_type(name, value, "a list, or a text with commas between")
            check_text(name, value)
        elif name == "what":
            _check_what(value)
        elif name == "strategy" and not isinstance(value, str):
            own_strategy(value)
        elif name not in _ELSEWHERE:
            if not isinstance(value, str):
                raise _wrong_type(name, value, "a text")
            check_text(name, value)
        elif isinstance(value, str | os.PathLike):
            check_text(name, os.fspath(value))
    return replace(request, **cast(Any, whole)) if whole else request


def _check_what(value: object) -> None:
    if isinstance(value, str):
        return
    from counton.exact import quoted
    from counton.statistics import Statistic

    if not isinstance(value, Statistic):
        raise InvalidInput(
            f"what is {quoted(value)}; give a statistic such as Average(0, 200, resolution=1), or "
            f'the name of one, such as "count"; the events come after it'
        )


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
        what = "the path of a file" + (" or a database URL" if name == "state" else "")
        raise _wrong_type(name, value, what)
    check_text(name, path)


def _check_events(value: Any) -> None:
    """Paths are texts; what else there is, is looked at where it is read."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | os.PathLike):
            check_text("events", os.fspath(one))


def _wrong_type(name: str, value: object, wanted: str) -> InvalidInput:
    found = f"{repr(value)[:80]}, of type" if is_one(value) else "of type"
    return InvalidInput(f"{field(name)} is {found} {type(value).__name__}; give {wanted}")


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


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

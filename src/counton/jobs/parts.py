"""The parts of a job: each says and checks what it means, and states each option once.

A job is a statistic with its own options (`counton.statistics`), rows, windows of time, groups, a
bound on people, a promise, an arrangement of the noise, a place where it is kept, files, and what
is shown. Options of the command line, keys of job files, the schema and the documentation are made
from these fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from numbers import Integral, Real
from numbers import Number as AnyNumber
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from typing_extensions import override

from counton.errors import InvalidInput, field, is_one, is_text
from counton.jobs.fields import option
from counton.jobs.own_strategies import own_strategy

if TYPE_CHECKING:
    from counton.exact import Number
    from counton.store.keyfile import Kept
    from counton.strategies.base import StreamStrategy

#: What is published of each window: the total so far, the window's own count, or both.
RELEASES = ("totals", "windows", "both")
#: Names of strategies that may be asked for, and their classes in ``counton.strategies``.
STRATEGIES = {
    "solved": "Solved",
    "look-ahead": "LookAhead",
    "octave": "Octave",
    "kary": "KAry",
    "smooth": "SmoothBinary",
    "honaker": "HonakerOnline",
    "binary": "Binary",
    "sqrt": "SqrtToeplitz",
    "normalised-sqrt": "NormalisedSqrt",
}
#: Of a field the words that it may be.
Choices: TypeAlias = Mapping[str, tuple[str, ...]]


class JobPart:
    """What all parts share: their fields have the types that they say."""

    #: Fields that are checked elsewhere.
    elsewhere: ClassVar[tuple[str, ...]] = ()

    def choices(self) -> Choices:
        """Fields that are one of some words."""
        return {}

    def check(self) -> dict[str, int]:
        """Refuse a field of another type, or another word than it may be.

        Returns:
            Whole numbers of other libraries, as Python's.

        Raises:
            InvalidInput: naming field, value and what is wanted.
        """
        whole = {}
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if item.name in self.elsewhere or (value is None and item.default is None):
                continue
            if str(item.type).startswith("int"):
                whole[item.name] = whole_number(item.name, value)
            else:
                check_type(item.name, str(item.type), value)
        words: dict[str, tuple[str, ...]] = {}
        for part in type(self).__mro__:
            if "choices" in vars(part):
                words |= vars(part)["choices"](self)
        for name, known in words.items():
            given = getattr(self, name)
            if given is not None and given not in known:
                raise InvalidInput(f"{field(name)} is {given!r}; use one of {', '.join(known)}")
        return whole


def whole_number(name: str, value: Any) -> int:
    """A whole number as Python's.

    Raises:
        InvalidInput: it is none.

    >>> whole_number("steps", 30)
    30
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(name, value, f"a whole number, as in {field(name, 30)}")
    return int(value)


def check_type(name: str, type_: str, value: Any) -> None:
    """Refuse a value of another type than a field has.

    Args:
        name: of the field.
        type_: how its type is written.
        value: what is stated.

    Raises:
        InvalidInput: naming it.

    >>> check_type("append", "bool", True)
    """
    if isinstance(value, str | os.PathLike):
        check_text(name, os.fspath(value))
    if type_.startswith("bool"):
        if value is not True and value is not False:
            raise wrong_type(name, value, "True or False")
    elif type_.startswith("Number"):
        if isinstance(value, bool) or not isinstance(value, str | AnyNumber):
            raise wrong_type(name, value, "a number")
    elif type_.startswith("float"):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise wrong_type(name, value, "a number")
    elif "datetime" in type_:
        if not isinstance(value, str | datetime):
            raise wrong_type(name, value, "a date, a datetime or a text, as in 2013-01-01T00:00")
    elif "Sequence[Any]" in type_:  # checked where it is read
        return
    elif "Sequence" in type_:
        of_several = isinstance(value, list | tuple) and all(map(is_one, value))
        if not isinstance(value, str) and not of_several:
            raise wrong_type(name, value, "a list, or a text with commas between")
    elif type_ == "Kept":
        if isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str):
            return
        from counton.noise import Key

        if not isinstance(value, Key):
            wanted = "a counton.Key, or where one is kept: a file, env:NAME or command:..."
            raise wrong_type(name, value, wanted)
    elif "PathLike" in type_:
        path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
        if not isinstance(path, str):
            url = " or a database URL" if name in ("state", "ledger") else ""
            what = f"the path of a file{url}"
            raise wrong_type(name, value, what)
    elif "StreamStrategy" in type_ and not isinstance(value, str):
        own_strategy(value)
    elif not isinstance(value, str):
        raise wrong_type(name, value, "a text")


def check_text(name: str, value: object) -> None:
    """Refuse a text that is none in UTF-8, or holds NUL: no file or database keeps it.

    Raises:
        InvalidInput: naming the field.

    >>> check_text("name", "visits")
    """
    if isinstance(value, str) and not is_text(value):
        raise InvalidInput(
            f"{field(name)} is {value[:80]!r}, which is no text in UTF-8 (a byte of another "
            f"encoding, or NUL); write or rename it in UTF-8"
        )


def wrong_type(name: str, value: object, wanted: str) -> InvalidInput:
    """An error that names a field, its value if that may be shown, and what is wanted."""
    found = f"{repr(value)[:80]}, of type" if is_one(value) else "of type"
    return InvalidInput(f"{field(name)} is {found} {type(value).__name__}; give {wanted}")


@dataclass(frozen=True)
class Keeping(JobPart):
    """Where a stream is kept, and what it is called there.

    Attributes:
        state: path of a SQLite file, or a database URL.
        continues: a stream of the same state that ends now; this one begins where it ends.
        drop_waiting: rows that wait in that stream, and come in no file again, count nowhere.
        name: within the state.
        key: a `Key`, or where it is kept: a file, ``env:NAME``, ``command:...``; None:
            ``STATE.key``.
        ledger: a state with a limit, path or URL, under which several states count together; None:
            the one in which this state counts already, if it does.
        witness: a folder or a database URL, away from the state, where a second witness is kept.

    >>> Keeping("visits.db").key is None
    True
    """

    state: str | os.PathLike[str] = option(
        ..., "SQLite file or database URL that keeps the stream; secret", group="State"
    )
    continues: str | None = option(
        None,
        "end this stream of the state, and go on where it ends, with its options",
        group="State",
    )
    drop_waiting: bool = option(
        False, "with continues: drop rows that wait in the stream that ends", group="State"
    )
    name: str = option(
        "",
        'name of the stream within the state; default: "events" for counts and sums, "statistic" '
        "for other statistics, and the statistic's own name for tables",
        group="State",
    )
    key: Kept = option(
        None,
        "file of the key, env:NAME or command:...; default: STATE.key, made for a new state",
        group="State",
    )
    ledger: str | os.PathLike[str] | None = option(
        None,
        "state (file or URL) whose limit this state shares with others; it is remembered",
        group="State",
    )
    witness: str | os.PathLike[str] | None = option(
        None,
        "folder or URL away from the state that notices old copies of it; it is remembered",
        group="State",
    )


@dataclass(frozen=True)
class Times(JobPart):
    """How time is cut into windows, and which of them are released.

    Attributes:
        time: column of the events.
        every, start, steps, timezone: windows of time; a `timedelta` and a `date` will do too.
        around: instead of steps, for a stream without an end whose protection never fades: about
            how many windows should have small errors. It serves as many as come.
        until: windows that ended by then are released; None or "now", when the run begins;
            "newest", by the time of the newest event, which is somebody's and not protected.
        watermark: how long after its end a window is released, whether the clock, the newest event
            or ``until`` tells the time. Rows that are late by less count in their own window.
        confirmed: release also what looks like a mistake, as many windows after the newest event.

    >>> Times("at", every="1d").steps is None
    True
    """

    time: str | None = option(None, "column of the events' times", group="Time")
    every: str | None = option(None, "length of a window: 15m, 1h, 1d, 1w, 1mo", group="Time")
    steps: int | None = option(None, "how many windows the stream will ever have", group="Time")
    around: int | None = option(
        None,
        "instead of steps: about how many windows you expect of a stream without an end",
        group="Time",
    )
    start: str | datetime | None = option(None, "beginning of the first window", group="Time")
    until: str | datetime | None = option(
        None,
        "release windows that ended by then; default: now; newest: the time of the newest event",
        group="Time",
    )
    watermark: str | None = option(
        None,
        "wait this long after a window's end before it is released, as in 6h, for late rows",
        group="Time",
    )
    confirmed: bool = option(
        False, "release windows even long after the newest event", "yes", group="Time"
    )
    timezone: str | None = option(
        None, "zone of local times and calendar windows; default: UTC", group="Time"
    )


@dataclass(frozen=True)
class Groups(JobPart):
    """Which groups there are, and what becomes of rows of others.

    Attributes:
        by: column of the events; several are ``["region", "product"]`` or ``"region,product"``,
            whose groups are called ``north / shoes``.
        domain: the declared groups, public knowledge: a file, a list ``A,B,C``, or a sequence; of
            several columns a table with them, a sequence of tuples, or a mapping of lists, all of
            whose combinations are declared.
        other: a group of its own for all rows of groups that are not declared.
        spare: how many more groups there are, without a name yet.
        also: names for spare groups, known to the public: a list ``A,B`` or a sequence; where there
            is ``other``, from the first window on of which no run has read rows.
        unknown: whether rows of undeclared groups are refused ("refuse") or dropped ("drop"); or
            no group is declared and each is shown once it is large enough ("discover").

    >>> Groups("page", "home,shop").unknown
    'refuse'
    """

    by: str | None = option(None, "column of the events' groups, or several: A,B", group="Groups")
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = option(
        None,
        "the declared groups, public: a file (one per line, or a table) or a list A,B,C",
        group="Groups",
    )
    other: str | None = option(
        None, "name of one more group, for rows of groups that are not declared", group="Groups"
    )
    spare: int | None = option(
        None, "how many more groups to keep free, to be named later", group="Groups"
    )
    also: str | Sequence[Any] | None = option(
        None, "names for spare groups, A,B; they count from the next window on", group="Groups"
    )
    unknown: str = option(
        "refuse",
        "rows of undeclared groups: refuse or drop; discover: find the groups privately",
        group="Groups",
    )

    @override
    def choices(self) -> Choices:
        return {"unknown": ("refuse", "drop", "discover")}


@dataclass(frozen=True)
class Promise(JobPart):
    """What is promised, and to whom.

    Attributes:
        epsilon, delta, rho: the guarantee.
        within: instead of epsilon or rho, which are then the least with which an interval of the
            last release is at most this to either side: 20, "2%" of ``size``, or by name,
            "count=20,mean=0.5".
        least, size: with ``within``: whether epsilon or rho is found, and how many rows there will
            be by the last step, where that is public.
        expire, growth, delay: of a stream without an end.
        unit: what is protected, as the ledger calls it: one row, or with ``user`` one user (whose
            period has the period's name too); left out: as in the state, else "event" or "user".

    >>> Promise(epsilon=1).expire
    False
    """

    epsilon: Number | None = option(
        None, "privacy loss of one row, or of one user: smaller hides more", group="Guarantee"
    )
    delta: Number | None = option(None, "with epsilon: approximate privacy", group="Guarantee")
    rho: Number | None = option(
        None, "zero-concentrated privacy instead of epsilon", group="Guarantee"
    )
    within: Number | None = option(
        None,
        "instead of epsilon: the smallest epsilon so that an interval at the last step reaches "
        "at most this far to either side, 20 or 2% of size",
        group="Guarantee",
    )
    least: str | None = option(
        None, "with within: find the smallest epsilon or rho; default: epsilon", group="Guarantee"
    )
    size: int | None = option(
        None,
        "with within: how many rows there will be by the last step, which must be public",
        group="Guarantee",
    )
    expire: bool = option(
        False,
        "a stream without an end, whose protection fades with age: see plan expire",
        group="Guarantee",
    )
    growth: Number | None = option(
        None, "with expire: the loss grows like log(age)^GROWTH; default: 1", group="Guarantee"
    )
    delay: int | None = option(
        None, "with expire: count events this many windows late", group="Guarantee"
    )
    unit: str | None = option(
        None,
        "what one row, or one user, is called; the ledger has a total for each name",
        group="Guarantee",
    )

    @override
    def choices(self) -> Choices:
        return {"least": ("epsilon", "rho")}


@dataclass(frozen=True)
class Arrangement(JobPart):
    """How the noise is arranged.

    Attributes:
        release: "totals" so far, the "windows" alone, or "both"; None: as the stream, else totals.
        strategy, metric: how the noise is arranged (a name, a `Factorisation` of one's own, or a
            file with what its ``to_dict`` says), or by which error it is chosen.
        simple: choose among strategies that release integers, without a search.

    >>> Arrangement(strategy="kary").simple
    False
    """

    release: str | None = option(
        None,
        "totals so far, windows (each one's own number), or both; default: totals",
        group="Noise",
    )
    strategy: str | StreamStrategy | None = option(
        None,
        f"auto, {', '.join(STRATEGIES)}; or a file with one of your own, mine.json",
        group="Noise",
    )
    metric: str | None = option(None, "the error to minimise: mean or max", group="Noise")
    simple: bool = option(False, "only strategies that release integers, no search", group="Noise")

    @override
    def choices(self) -> Choices:
        return {"release": RELEASES}


@dataclass(frozen=True)
class Users(JobPart):
    """Whose events are bounded, and how many of them count.

    Attributes:
        user: column that names the user of each event; then a user is protected, not one event.
        most: how many events of a user count at most.
        per: with ``most``, how many in each period of a user, ``1d``: then one period of a user is
            protected.
        most_a_window: with ``most``, how many of them count in each window, a late event in the
            one that releases it: so that late windows of a period keep some.
        retain: with ``per``, for how long the users of a period are known after its end, ``7d``:
            the next release then deletes their digests, and no row of that period counts any more.
            Left out, 35 days. Remembered with the stream; a later run may say another length.
        distinct: at most one event of a user counts in each window and group.
        first: at most one event of a user counts in each group, for ever, in ``most`` groups (1).

    >>> Users("visitor", most=3).first
    False
    """

    user: str | None = option(
        None,
        "column that names the user of each event: protect users, not events; needs most",
        group="People",
    )
    most: int | None = option(
        None, "how many events of a user count; further ones are dropped", group="People"
    )
    per: str | None = option(
        None,
        "with most: how many in each period, as in 1d; protects one period of a user",
        group="People",
    )
    most_a_window: int | None = option(
        None, "with most: how many of these count in each window", group="People"
    )
    retain: str | None = option(
        None,
        "with per: forget the users of a period this long after its end, as in 7d; default: 35d",
        group="People",
    )
    distinct: bool = option(False, "count a user once in each window and group", group="People")
    first: bool = option(False, "count a user once for ever: distinct users so far", group="People")


@dataclass(frozen=True)
class RowPolicies(JobPart):
    """How rows are read, and what becomes of those that cannot be counted.

    Attributes:
        rename: columns that are called otherwise from now on, ``old=new``, commas between several.
        id: column that says which event a row is; it counts once, in whatever files it comes.
        query: of a database, which rows: one SELECT.
        file_format, time_format, clock_change: how the events are read.
        separator, decimal: of CSV, what stands between fields (a comma, ``;``, ``|`` or ``tab``),
            and before the fraction of a number (a point or a comma).
        bad_rows: whether rows that cannot be read end the run ("refuse"), or are written into a
            file, anew in each run ("quarantine:FILE"), at most ``bad_rows_most`` of them.
        missing: whether rows that lack a time, group, value, user or id are refused as such
            ("refuse"), or counted nowhere ("skip").
        late: rows that come for a released window, of a statistic whose rows count in their order:
            refused ("refuse"), or counted nowhere ("drop"). Others count at the next release.
        append: the file holds new events only.
        counted: where files do not hold the rows that were counted of them. Refused ("refuse"); or
            what was counted stays counted ("keep"), and nothing of a file of new events counts that
            looks counted; or all new events are new indeed, whatever they look like ("new").

    >>> RowPolicies(id="ticket").late
    'refuse'
    """

    rename: str | None = option(
        None, "columns that have other names from now on: OLD=NEW,...", group="Rows"
    )
    id: str | None = option(
        None, "column of ids: a row counts once, in whatever file it comes", group="Rows"
    )
    query: str | None = option(
        None,
        "which rows of a database (duckdb:///FILE, sqlite:///FILE, postgresql://...): one SELECT",
        group="Rows",
    )
    file_format: str | None = option(
        None, "csv, parquet or jsonl, if the file's name does not say", "format", group="Rows"
    )
    separator: str = option(",", "of CSV: what stands between fields: , ; | or tab", group="Rows")
    decimal: str = option(
        ".", "of CSV: what stands before the fraction of a number: . or ,", group="Rows"
    )
    time_format: str | None = option(
        None,
        "epoch, epoch_ms, epoch_us, epoch_ns or a strftime format; default: ISO 8601",
        group="Rows",
    )
    clock_change: str = option(
        "raise",
        "local times that occur twice when clocks go back: raise, earliest or latest",
        group="Rows",
    )
    bad_rows: str = option(
        "refuse",
        "rows that cannot be read: refuse, or quarantine:FILE, written anew in each run",
        group="Rows",
    )
    bad_rows_most: int = option(
        1000, "with quarantine: how many rows may be set aside", group="Rows"
    )
    missing: str = option(
        "refuse", "rows without a time, group, value, user or id: refuse or skip", group="Rows"
    )
    late: str = option(
        "refuse",
        "rows of released windows, where rows count in order: refuse, or drop them",
        group="Rows",
    )
    append: bool = option(
        False, "the file holds new events only, not all since start", group="Rows"
    )
    counted: str = option(
        "refuse",
        "files whose counted rows were erased or changed: refuse; keep what was counted as it was; "
        "or new: they look counted, and are not",
        group="Rows",
    )

    @override
    def choices(self) -> Choices:
        return {
            "late": ("refuse", "drop"),
            "clock_change": ("raise", "earliest", "latest"),
            "counted": ("refuse", "keep", "new"),
        }


@dataclass(frozen=True)
class OutputFiles(JobPart):
    """What is written and drawn, and how it looks.

    Attributes:
        out, plot, sums: files of released steps, of a chart, and of sums over periods.
        above, surely_above: of many groups only rows whose estimate is above this, or whose whole
            interval is, are written to ``out``: a number that is chosen without looking at the
            data.
        title, axis, source, width: of the chart.

    >>> OutputFiles(out="visits.csv").plot is None
    True
    """

    out: str | os.PathLike[str] | None = option(
        None,
        "write all released steps: .parquet, .csv, .json, .jsonl, .arrow or .xlsx",
        group="Output",
    )
    above: float | None = option(
        None, "of many groups, write only rows whose estimate is above this", group="Output"
    )
    surely_above: float | None = option(
        None, "of many groups, write only rows whose interval is above this", group="Output"
    )
    plot: str | os.PathLike[str] | None = option(
        None, "draw all released steps: .png, .svg or .pdf", group="Output"
    )
    sums: str | None = option(
        None,
        "also write what happened in each 1d,1w,1mo, into OUT with the period before its ending",
        group="Output",
    )
    title: str | None = option(
        None, "title of the chart, instead of the statistic's own", group="Output"
    )
    axis: str | None = option(None, "what the chart's axis shows", group="Output")
    source: str | None = option(
        None, "where the numbers come from, a line below the chart", group="Output"
    )
    width: float | None = option(
        None, "width of the chart in inches, as in 4 for a telephone; default: 7.5", group="Output"
    )


@dataclass(frozen=True)
class Showing(JobPart):
    """What is shown of what was released: remembered with the stream.

    Attributes:
        over, shares, ask, cut: what is shown of a statistic's readings.
        integers, nonnegative, known: how the numbers of a table are made to fit, as they are shown
            everywhere; ``known`` is a file, or a mapping from paths of nodes to totals.
        level: probability with which each interval holds that is shown or written.

    >>> Showing().level
    0.95
    """

    over: int | None = option(
        None, "show what came in the last steps, this many, not in all so far", group="Output"
    )
    shares: str | Sequence[float] | None = option(
        None, "which quantiles to show, as in 0.25,0.5,0.75; 0.5 is the median", group="Output"
    )
    ask: str | Sequence[str] | None = option(
        None,
        "show only these words, after every step: ACG,TT; default: all words, now",
        group="Output",
    )
    cut: str | None = option(
        None,
        "show the weight between each set of nodes and all other nodes: A,B;C",
        group="Output",
    )
    integers: bool = option(False, "for tables: whole numbers that add up", group="Output")
    nonnegative: bool = option(
        False,
        "for tables: no number below 0; this biases small counts upwards",
        group="Output",
    )
    known: str | os.PathLike[str] | Mapping[Any, int] | Sequence[Any] | None = option(
        None,
        "for hierarchies: keep these public totals, a table with level columns and 'total'",
        group="Output",
    )
    level: float = option(
        0.95, "probability that an interval holds the true number", group="Output"
    )

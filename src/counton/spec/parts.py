"""The parts of a job: each says and checks what it means, and states each option once.

A job is a statistic with its own options (`counton.statistics`), rows, windows of time, groups, a
bound on people, a promise, an arrangement of the noise, a place where it is kept, files, and what
is shown. Options of the command line, keys of job files, the schema and the documentation are made
from these fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from counton.base.options import check_value, wrong_type
from counton.spec.fields import option, options_of
from counton.spec.own_strategies import own_strategy

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.rows.policies import Policies
    from counton.rows.sources import Source
    from counton.state.keyfile import Kept
    from counton.strategies.strategy import StreamStrategy

#: What is published of each window: the total so far, the window's own count, or both.
RELEASES = ("totals", "windows", "both")
#: Names of strategies that may be asked for, and what states call them.
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


class JobPart:
    """What all parts share: their fields have the types that they say.

    Attributes:
        heading: under which the fields of a part stand in the help.
        kept: what a stream keeps of those that do not say it (`counton.base.options.Kept`).
    """

    heading: ClassVar[str] = ""
    kept: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse a field of another type, or another word than it may be.

        Whole numbers of other libraries become Python's.
        """
        for name, said in options_of(type(self)).items():
            value = getattr(self, name)
            if value is None and said.default is None and not said.needed:
                continue
            check_value(said, value)
            if said.kind == "whole":
                object.__setattr__(self, name, int(value))


def _check_key(value: object) -> None:
    from counton.noise import Key

    if not isinstance(value, Key | os.PathLike):
        wanted = "a counton.Key, or where one is kept: a file, env:NAME or command:..."
        raise wrong_type("key", value, wanted)


@dataclass(frozen=True)
class Keeping(JobPart):
    """Where a stream is kept, and what it is called there.

    With ``drop_waiting`` rows that wait in the stream that ends, and come in no file again, count
    nowhere. A `ledger` that a state counts in already is the one that is meant where none is named.

    >>> Keeping("visits.db").key is None
    True
    """

    heading = "State"

    state: str | os.PathLike[str] = option(
        ..., "SQLite file or database URL that keeps the stream; secret", file=True
    )
    continues: str | None = option(
        None,
        "end this stream of the state, and go on where it ends, with its options",
        kept="stream",
    )
    drop_waiting: bool = option(
        False, "with continues: drop rows that wait in the stream that ends"
    )
    name: str = option(
        "",
        'name of the stream within the state; default: "events" for counts and sums, "statistic" '
        "for other statistics, and the statistic's own name for tables",
    )
    key: Kept = option(
        None,
        "file of the key, env:NAME or command:...; default: STATE.key, made for a new state",
        file=True,
        other=_check_key,
    )
    ledger: str | os.PathLike[str] | None = option(
        None,
        "state (file or URL) whose limit this state shares with others; it is remembered",
        file=True,
    )
    witness: str | os.PathLike[str] | None = option(
        None,
        "folder or URL away from the state that notices old copies of it; it is remembered",
        file=True,
    )


@dataclass(frozen=True)
class Times(JobPart):
    """How time is cut into windows, and which of them are released.

    Lengths may be a `timedelta`, and moments a `date` or a `datetime`. With ``around`` protection
    never fades, and the stream serves as many windows as come. ``until`` is "now" unless stated;
    the time of the newest event ("newest") is somebody's and not protected. Whatever tells the
    time, a window waits for its ``watermark``, and rows that are late by less count in their own.

    >>> Times("at", every="1d").steps is None
    True
    """

    heading = "Time"

    time: str | None = option(None, "column of the events' times", kept="stream")
    every: str | None = option(
        None, "length of a window: 15m, 1h, 1d, 1w, 1mo", kept="stream", words="length"
    )
    steps: int | None = option(None, "how many windows the stream will ever have", kept="stream")
    around: int | None = option(
        None,
        "instead of steps: about how many windows you expect of a stream without an end",
    )
    start: str | datetime | None = option(
        None, "beginning of the first window", kept="stream", words="moment"
    )
    until: str | datetime | None = option(
        None,
        "release windows that ended by then; default: now; newest: the time of the newest event",
        words="moment",
    )
    watermark: str | None = option(
        None,
        "wait this long after a window's end before it is released, as in 6h, for late rows",
        kept="policy",
        words="length",
    )
    confirmed: bool = option(
        False, "release windows even long after the newest event", "yes", served=False
    )
    timezone: str | None = option(
        None, "zone of local times and calendar windows; default: UTC", kept="stream"
    )


@dataclass(frozen=True)
class Groups(JobPart):
    """Which groups there are, and what becomes of rows of others.

    Of several columns (``["region", "product"]`` or ``"region,product"``) groups are called
    ``north / shoes``, and ``domain`` is a table with them, a sequence of tuples, or a mapping of
    lists, all of whose combinations are declared. Where there is ``other``, a group that ``also``
    names counts by itself from the first window on that no run has read rows of.

    >>> Groups("page", "home,shop").unknown
    'refuse'
    """

    heading = "Groups"

    by: str | None = option(
        None, "column of the events' groups, or several: A,B", kept="stream", words="columns"
    )
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = option(
        None,
        "the declared groups, public: a file (one per line, or a table) or a list A,B,C",
        kept="stream",
        file=True,
        other=lambda _: None,
    )
    other: str | None = option(
        None,
        "name of one more group, for rows of groups that are not declared",
        kept="stream",
        needs="domain",
    )
    spare: int | None = option(
        None, "how many more groups to keep free, to be named later", kept="stream", needs="domain"
    )
    also: str | Sequence[Any] | None = option(
        None,
        "names for spare groups, A,B; they count from the next window on",
        other=lambda _: None,
    )
    unknown: str = option(
        "refuse",
        "rows of undeclared groups: refuse or drop; discover: find the groups privately",
        kept="policy",
        choices=("refuse", "drop", "discover"),
    )


@dataclass(frozen=True)
class Promise(JobPart):
    """What is promised, and to whom.

    With ``within`` epsilon or rho is the least with which an interval of the last release is at
    most this to either side: 20, "2%" of ``size``, or by name, "count=20,mean=0.5". The ``unit`` is
    that of the state where none is named, else "event", or with ``user`` "user"; with ``per`` it
    has the period's name too.

    >>> Promise(epsilon=1).expire
    False
    """

    heading = "Guarantee"

    epsilon: Number | None = option(
        None, "privacy loss of one row, or of one user: smaller hides more", kept="stream"
    )
    delta: Number | None = option(None, "with epsilon: approximate privacy", kept="stream")
    rho: Number | None = option(None, "zero-concentrated privacy instead of epsilon", kept="stream")
    within: Number | None = option(
        None,
        "instead of epsilon: the smallest epsilon so that an interval at the last step reaches "
        "at most this far to either side, 20 or 2% of size",
        kept="stream",
    )
    least: str | None = option(
        None,
        "with within: find the smallest epsilon or rho; default: epsilon",
        choices=("epsilon", "rho"),
        needs="within",
    )
    size: int | None = option(
        None,
        "with within: how many rows there will be by the last step, which must be public",
        needs="within",
    )
    expire: bool = option(
        False,
        "a stream without an end, whose protection fades with age: see plan expire",
        kept="stream",
    )
    growth: Number | None = option(
        None,
        "with expire: the loss grows like log(age)^GROWTH; default: 1",
        kept="stream",
        needs="expire",
    )
    delay: int | None = option(
        None, "with expire: count events this many windows late", kept="stream", needs="expire"
    )
    unit: str | None = option(
        None,
        "what one row, or one user, is called; the ledger has a total for each name",
        kept="stream",
    )


@dataclass(frozen=True)
class Arrangement(JobPart):
    """How the noise is arranged.

    A ``strategy`` may be a `Factorisation` of one's own, or a file with what its ``to_dict`` says.

    >>> Arrangement(strategy="kary").simple
    False
    """

    heading = "Noise"
    kept = "stream"

    release: str | None = option(
        None,
        "totals so far, windows (each one's own number), or both; default: totals",
        choices=RELEASES,
        usual="totals",
    )
    strategy: str | StreamStrategy | None = option(
        None,
        f"auto, {', '.join(STRATEGIES)}; or a file with one of your own, mine.json",
        file=True,
        other=own_strategy,
        usual="auto",
    )
    metric: str | None = option(None, "the error to minimise: mean or max")
    simple: bool = option(False, "only strategies that release integers, no search")


@dataclass(frozen=True)
class Users(JobPart):
    """Whose events are bounded, and how many of them count.

    With ``per`` one period of a user is protected. A late event counts among ``most_a_window`` of
    the window that releases it, so that late windows of a period keep some. After ``retain``, 35
    days unless stated, the next release deletes the digests of a period's users, and no row of
    that period counts any more; a later run may say another length. With ``first`` a user counts
    once in each of ``most`` groups (1).

    >>> Users("visitor", most=3).first
    False
    """

    heading = "People"
    kept = "stream"

    user: str | None = option(
        None,
        "column that names the user of each event: protect users, not events; needs most",
    )
    most: int | None = option(
        None,
        "how many events of a user count; further ones are dropped",
        needs="user",
    )
    per: str | None = option(
        None,
        "with most: how many in each period, as in 1d; protects one period of a user",
        words="length",
        needs="user",
    )
    most_a_window: int | None = option(
        None, "with most: how many of these count in each window", needs="user"
    )
    retain: str | None = option(
        None,
        "with per: forget the users of a period this long after its end, as in 7d; default: 35d",
        kept="policy",
        words="length",
    )
    distinct: bool = option(False, "count a user once in each window and group", needs="user")
    first: bool = option(False, "count a user once for ever: distinct users so far", needs="user")


@dataclass(frozen=True)
class RowFormat(JobPart):
    """How rows are read, and what becomes of those that cannot be: the same for every door.

    >>> RowFormat(separator=";").decimal
    '.'
    """

    heading = "Rows"
    kept = "policy"

    file_format: str | None = option(
        None,
        "csv, parquet or jsonl, if the file's name does not say",
        "format",
        served=False,
    )
    separator: str = option(",", "of CSV: what stands between fields: , ; | or tab", served=False)
    decimal: str = option(
        ".",
        "of CSV: what stands before the fraction of a number: . or ,",
        served=False,
    )
    comment: str | None = option(
        None,
        "of CSV: lines that begin with this are no rows, as in #",
        served=False,
    )
    time_format: str | None = option(
        None,
        "epoch, epoch_ms, epoch_us, epoch_ns or a strftime format; default: ISO 8601",
    )
    clock_change: str = option(
        "raise",
        "local times that occur twice when clocks go back: raise, earliest or latest",
        choices=("raise", "earliest", "latest"),
    )
    bad_rows: str = option(
        "refuse",
        "rows that cannot be read: refuse, or quarantine:FILE, written anew in each run",
        file=True,
    )
    bad_rows_most: int = option(1000, "with quarantine: how many rows may be set aside")
    missing: str = option("refuse", "rows without a time, group, value, user or id: refuse or skip")

    def open_rows(self, events: object) -> Source:
        """The rows of files, a folder, a pattern, standard input or a data frame."""
        from counton.rows.formats import CsvForm
        from counton.rows.given_events import open_source

        form = CsvForm.read(self.separator, self.decimal, self.comment)
        return open_source(events, self.file_format, form)

    def policies(self) -> Policies:
        """What becomes of rows that cannot be counted."""
        from counton.rows.policies import Policies

        return Policies.read(self.bad_rows, self.bad_rows_most, self.missing)


@dataclass(frozen=True)
class RowPolicies(RowFormat):
    """Which rows count, and what becomes of those that come late or again.

    Rows that are ``late`` are refused or dropped where they count in their order; others count at
    the next release. With ``counted`` "keep" nothing of a file of new events counts that looks
    counted; with "new" all of them are new indeed, whatever they look like.

    >>> RowPolicies(id="ticket").late
    'refuse'
    """

    heading = "Rows"

    rename: str | None = option(None, "columns that have other names from now on: OLD=NEW,...")
    id: str | None = option(
        None, "column of ids: a row counts once, in whatever file it comes", kept="stream"
    )
    query: str | None = option(
        None,
        "which rows of a database (duckdb:///FILE, sqlite:///FILE, postgresql://...): one SELECT",
        served=False,
    )
    late: str = option(
        "refuse",
        "rows of released windows, where rows count in order: refuse, or drop them",
        kept="policy",
        choices=("refuse", "drop"),
    )
    append: bool = option(
        False, "the file holds new events only, not all since start", served=False
    )
    counted: str = option(
        "refuse",
        "files whose counted rows were erased or changed: refuse; keep what was counted as it was; "
        "or new: they look counted, and are not",
        served=False,
        choices=("refuse", "keep", "new"),
    )


@dataclass(frozen=True)
class OutputFiles(JobPart):
    """What is written and drawn, and how it looks.

    Thresholds (``above``, ``surely_above``) are numbers chosen without looking at the data.

    >>> OutputFiles(out="visits.csv").plot is None
    True
    """

    heading = "Output"
    kept = "output"

    out: str | os.PathLike[str] | None = option(
        None,
        "write all released steps: .parquet, .csv, .json, .jsonl, .arrow or .xlsx",
        file=True,
        served=False,
    )
    above: float | None = option(
        None,
        "of many groups, write only rows whose estimate is above this",
        served=False,
    )
    surely_above: float | None = option(
        None,
        "of many groups, write only rows whose interval is above this",
        served=False,
    )
    plot: str | os.PathLike[str] | None = option(
        None, "draw all released steps: .png, .svg or .pdf", file=True, served=False
    )
    sums: str | None = option(
        None,
        "also write what happened in each 1d,1w,1mo, into OUT with the period before its ending",
        served=False,
    )
    title: str | None = option(None, "title of the chart, instead of the statistic's own")
    axis: str | None = option(None, "what the chart's axis shows")
    source: str | None = option(None, "where the numbers come from, a line below the chart")
    width: float | None = option(
        None, "width of the chart in inches, as in 4 for a telephone; default: 7.5"
    )


@dataclass(frozen=True)
class Showing(JobPart):
    """What is shown of what was released: remembered with the stream.

    Totals that are ``known`` may be a mapping from paths of nodes to totals.

    >>> Showing().level
    0.95
    """

    heading = "Output"
    kept = "view"

    over: int | None = option(
        None, "show what came in the last steps, this many, not in all so far"
    )
    shares: str | Sequence[float] | None = option(
        None, "which quantiles to show, as in 0.25,0.5,0.75; 0.5 is the median"
    )
    ask: str | Sequence[str] | None = option(
        None,
        "show only these words, after every step: ACG,TT; default: all words, now",
    )
    cut: str | None = option(
        None, "show the weight between each set of nodes and all other nodes: A,B;C"
    )
    integers: bool = option(False, "for tables: whole numbers that add up")
    nonnegative: bool = option(
        False, "for tables: no number below 0; this biases small counts upwards"
    )
    known: str | os.PathLike[str] | Mapping[Any, int] | Sequence[Any] | None = option(
        None,
        "for hierarchies: keep these public totals, a table with level columns and 'total'",
        file=True,
        other=lambda _: None,
    )
    level: float = option(0.95, "probability that an interval holds the true number")

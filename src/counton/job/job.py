"""The definition of a job: its parts, whose fields are the options, and checks that all jobs share.

From each field the command line gets an option, a job file a key, and the schema and the
documentation a text. A field also says how a stream keeps its value, and who may state it. The
module imports nothing heavy, because the help of the command line is made from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from dataclasses import field as made
from datetime import date, datetime, timedelta
from functools import cache, partial
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, Unpack, cast

from typing_extensions import override

from counton.base.errors import InvalidInput, field, hide_secrets, is_one
from counton.base.strategy_names import KINDS, PAPERS, PUBLISHED
from counton.frame.options import (
    Kind,
    MissingOptions,
    Option,
    Statement,
    check_text,
    check_value,
    wrong_type,
)
from counton.options.custom_strategies import check_name, is_file_of, own_strategy

if TYPE_CHECKING:
    import polars as pl

    from counton.base.exact import Number
    from counton.job.keywords import JobFields
    from counton.rows.policies import Policies
    from counton.state.keys import Kept
    from counton.statistics import Statistic
    from counton.strategies.strategy import StreamStrategy

#: Kind of an option by the type annotation of its field; all other types are texts.
_KINDS: dict[str, Kind] = {
    "bool": "flag",
    "int": "whole",
    "int | None": "whole",
    "float": "number",
    "float | None": "number",
    "Path": "path",
    "Path | None": "path",
    "list[str] | None": "texts",
}


def option(
    help: str, called: str | None = None, *, default: Any = None, repr: bool = True, **more: Any
) -> Any:
    """Define a field of a dataclass that is an option which a user may state.

    Args:
        help: meaning, in one line.
        called: name of the option in commands and files, without dashes; None: the name of the
            field.
        default: value if not stated; ``...`` if the option must be given.
        repr: whether ``repr`` shows the field; False for events, because a frame shows its rows.
        more: further attributes of the `Option`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Asked:
    ...     start: str | None = option("beginning of the first window")
    >>> options_of(Asked)["start"].help
    'beginning of the first window'
    """
    metadata = {"option": Option("", help, word=called, heading="", **more)}
    if default is ...:
        return made(metadata=metadata, repr=repr)
    return made(default=default, metadata=metadata, repr=repr)


def fields_of(kind: Any) -> Iterator[tuple[type, Field[Any]]]:
    """Yield the public fields of a dataclass, each with the class that defines it.

    A field that holds a part of a job is replaced by the part's own fields.

    >>> [whose.__name__ for whose, item in fields_of(Job) if item.name in ("every", "by")]
    ['Times', 'Groups']
    """
    for item in fields(kind):
        if "part" in item.metadata:
            yield from fields_of(item.metadata["part"])
        elif not item.name.startswith("_"):
            yield kind, item


def _options_of(kind: Any) -> dict[str, Option]:
    """Return the options of a dataclass by the names of its fields; options that a command takes by
    position come first.
    """
    found = []
    for whose, item in fields_of(kind):
        if "option" not in item.metadata:
            continue
        stated: Option = item.metadata["option"]
        type_ = str(item.type).removeprefix("typing.")
        part = next(
            one for one in whose.__mro__ if item.name in vars(one).get("__annotations__", ())
        )
        several = "Sequence" in type_ and "Mapping[Any, int]" not in type_
        option = stated._replace(
            name=item.name,
            kind=_KINDS.get(type_, "text"),
            heading=vars(part).get("heading", ""),
            kept=stated.kept or vars(part).get("kept", ""),
            default=None if item.default is MISSING else item.default,
            several=several or type_ == "Events" or stated.words == "columns",
            by_name="Mapping" in type_,
            exact=type_.startswith("Number"),
            needed=item.default is MISSING,
        )
        found.append(option)
    return {option.name: option for option in sorted(found, key=lambda one: not one.argument)}


options_of: Callable[[Any], dict[str, Option]] = cache(_options_of)


#: Largest bound on the counted events of one user.
MOST_EVENTS = 1_000_000


def check_most(most: int, name: str = "most") -> None:
    """Refuse a bound on a user's events that is below 1, or so large that the noise would hide
    everything.

    >>> check_most(3)
    >>> check_most(10**9)
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: most=1000000000 is too large, because the noise grows with ...
    """
    if most < 1:
        raise InvalidInput(
            f"{field(name, most)} would count nothing; it is how many events of one user count: "
            "give at least 1"
        )
    if most > MOST_EVENTS:
        raise InvalidInput(
            f"{field(name, most)} is too large, because the noise grows with it and would hide "
            f"the counts; give at most {MOST_EVENTS:,}, and better only a few more than most users "
            "have"
        )


def check_most_a_window(a_window: int | None, most: int) -> None:
    """Refuse a bound on a user's events in one window that exceeds the bound on all windows.

    >>> check_most_a_window(2, most=20)
    """
    if a_window is not None and not 1 <= a_window <= most:
        raise InvalidInput(
            f"{field('most_a_window', a_window)} must be from 1 to {most:,}: it is how many of a "
            f"user's {most:,} events ({field('most')}) may count in one window"
        )


#: Series that may be released after each window: the total so far, the window's own count, or both;
#: for users who are counted anew in each period, the number of the period so far.
RELEASES = ("totals", "windows", "both", "periods")


#: Kinds of jobs (`counton.job.stated_options.KINDS`): with windows of time; that bound the rows of
#: users; whose groups have names.
_TIMED = ("windows", "endless", "expiring", "revised")
_USERS = ("users", "users once a window", "users once", "users by rows")
_NAMED = ("ungrouped", "declared")


class OptionRecord:
    """Base class of dataclasses whose fields are the options of a job or of a command."""

    def option(self, name: str) -> Any:
        """Return the value of the field with this name; None if it is not stated."""
        return getattr(self, name, None)

    def states(self, name: str) -> bool:
        """Return whether a field has a value that means something else than leaving it out.

        The result is False for None, False, the field's default and its ``usual`` value. For an
        option of the statistic it is False only for None and False.

        >>> job = Job("count", "visits.csv", "visits.db", release="totals", steps=9)
        >>> job.states("release"), job.states("steps"), job.states("missing")
        (False, True, False)
        """
        value, item = self.option(name), options_of(type(self)).get(name)
        known = () if item is None or not is_one(value) else (item.default, item.usual)
        return value is not None and value is not False and value not in known


class JobPart(OptionRecord):
    """Base class of the parts of a job, which checks that each field has its type.

    Attributes:
        heading: section of the help for the part's fields.
        kept: how the stream's state stores the part's fields, see `counton.frame.options.Kept`; a
            field may override it.
    """

    heading: ClassVar[str] = ""
    kept: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse a field of a wrong type, or a word that is not among its choices.

        Integers of other libraries, such as numpy, become integers of Python. Dates, lengths of
        time and lists of columns become the text that a job file or a command would have.
        """
        for name, item in options_of(type(self)).items():
            value = getattr(self, name)
            if item.words == "length" and isinstance(value, timedelta):
                value = length_in_words(name, value)
            elif item.words == "moment" and isinstance(value, date):
                value = value if isinstance(value, datetime) else value.isoformat()
            elif item.words == "columns" and isinstance(value, list | tuple):
                texts = all(isinstance(column, str) for column in value)
                value = ",".join(value) if texts else value
            object.__setattr__(self, name, value)
            if value is None and item.default is None and not item.needed:
                continue
            check_value(item, value)
            if item.kind == "whole":
                object.__setattr__(self, name, int(value))
            if item.check is not None:
                item.check(value)

    def __repr__(self) -> str:
        """Return the part as the text of a call, without the passwords in addresses."""
        shown = (f"{name}={getattr(self, name)!r}" for name in options_of(type(self)))
        return hide_secrets(f"{type(self).__name__}({', '.join(shown)})")


def _check_key(value: object) -> None:
    from counton.noise import Key
    from counton.noise.key import refuse_key_as_place

    if not isinstance(value, Key | str | os.PathLike):
        wanted = "a counton.Key, or the place of a key: a file, env:NAME or command:..."
        raise wrong_type("key", value, wanted)
    if not isinstance(value, Key):
        refuse_key_as_place(value)


def _is_place_of_no_file(key: str, _: Path) -> bool:
    return key.startswith(("env:", "command:"))


def _is_list_of_groups(domain: str, folder: Path) -> bool:
    from counton.rows.paths import is_file, looks_like_file

    if not domain.strip():
        return False
    return not (is_file(str(folder / domain)) or looks_like_file(domain))


#: Begins a value of ``bad_rows`` that names a file.
_QUARANTINE = "quarantine:"


def _check_bad_rows(value: str) -> None:
    if value != "refuse" and value.removeprefix(_QUARANTINE) in (value, ""):
        raise InvalidInput(f"{field('bad_rows')} is {value!r}; give refuse, or {_QUARANTINE}FILE")


def _check_bad_rows_most(value: int) -> None:
    if value < 0:
        raise InvalidInput(f"{field('bad_rows_most')} is {value}; it must be at least 0")


def _check_time_format(value: str) -> None:
    from counton.rows.timestamps import check_time_format  # needs polars

    check_time_format(value)


@dataclass(frozen=True, repr=False)
class Keeping(JobPart):
    """The state (database) of a stream, and the stream's name."""

    heading = "State"

    state: str | os.PathLike[str] = option(
        "SQLite file or database URL that keeps the stream, secret; default in a "
        "command: beside the file, as in visits.counton.db",
        default=...,
        file=True,
        often=True,
    )
    name: str = option(
        "name of the stream within the state; default: its statistic and value, as in count or "
        "sum_of_amount",
        default="",
    )
    key: Kept = option(
        "where the key is: a file, env:NAME or command:...; default: the file STATE.key, which "
        "a new state makes",
        file=True,
        is_word=_is_place_of_no_file,
        other=lambda _: None,
        check=_check_key,
    )
    witness: str | os.PathLike[str] | None = option(
        "folder, kept apart from the state, whose notes reveal that a state is an old "
        "copy; remembered, and moved if another is named; none: keep no witness",
        file=True,
        is_word=lambda text, _: text == "none",
    )


@dataclass(frozen=True, repr=False)
class Times(JobPart):
    """The windows of time, and the choice of windows to release.

    Lengths may be a `timedelta`, and moments a `date` or a `datetime`. With ``around``, an expected
    number of windows, the stream has no last window, and an old event is protected as strongly as a
    new one. ``until`` is "now" unless stated. "newest" stands for the time of the newest event.
    That event may be a person's, and its time is not protected.
    """

    heading = "Time"

    time: str | None = option("column with the time of each event", kept="stream", often=True)
    every: str | None = option(
        "length of a window: 15m, 1h, 1d, 1w, 1mo", kept="stream", words="length", often=True
    )
    steps: int | None = option(
        "how many windows the stream will have until it ends",
        kept="stream",
        often=True,
        of=("windows", "expiring", "revised", "once"),
    )
    around: int | None = option(
        "instead of steps, for a stream without an end: about how many windows you expect",
        of=("endless", *_NAMED),
    )
    start: str | datetime | None = option(
        "beginning of the first window, as in 2024-03-01", kept="stream", words="moment", often=True
    )
    until: str | datetime | None = option(
        "release all windows that ended by this time; default: now; newest: the time of the "
        "newest event",
        words="moment",
        nightly=True,
        often=True,
    )
    yes: bool = option(
        "release even if rows seem to be missing",
        default=False,
        nightly=True,
    )
    quiet: int | None = option(
        "stop at so many windows in a row without rows; default: 1 with covers, else 3",
        kept="policy",
        served=False,
        in_file=True,
    )
    timezone: str | None = option(
        "time zone of times without a zone, and of days, weeks and months; default: UTC",
        kept="stream",
    )


@dataclass(frozen=True, repr=False)
class Lateness(JobPart):
    """The wait for late rows, and the windows in which they count.

    ``watermark`` is the time from a window's end to its release; rows that come before the release
    count in the window. With ``revise`` a row that comes later counts in its own window too, and
    that window is released again.
    """

    heading = "Time"

    watermark: str | None = option(
        "wait for late rows, as in 6h: how long after its end a window is released",
        kept="policy",
        words="length",
        of=_TIMED,
    )
    revise: str | None = option(
        "keep windows open for late rows this long, as in 14d: a late row counts in its own "
        "window, which is published anew until it is final",
        kept="stream",
        words="length",
        of=("revised", "once"),
    )
    recounts: int | None = option(
        "without append: how many changes of an event, or of each counted row of a user, after its "
        "first release the promise covers; noise grows with it; default: none, and each costs more",
        kept="stream",
        of=("windows", "revised", *_NAMED, "whole"),
        in_file=True,
    )


@dataclass(frozen=True, repr=False)
class Groups(JobPart):
    """The groups, and the policy for rows of other groups.

    Groups of several columns (``["region", "product"]`` or ``"region,product"``) have names like
    ``north / shoes``. Then ``domain`` is a table with these columns, a sequence of tuples, or a
    mapping of lists, all of whose combinations are declared.
    """

    heading = "Groups"

    by: str | None = option(
        "column with the group of each event, or several: A,B",
        kept="stream",
        words="columns",
        often=True,
    )
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = option(
        "list of all groups, which must be public: a file (one group per line, or a table), or "
        "A,B,C",
        kept="stream",
        file=True,
        is_word=_is_list_of_groups,
        other=lambda _: None,
        often=True,
        of=("declared",),
    )
    other: str | None = option(
        "name of one more group, which counts the rows of all groups that are not in the domain",
        kept="stream",
        of=("declared",),
    )
    unknown: str | None = option(
        "what happens to rows of groups that are not in the domain: refuse (the run stops, the "
        "default) or drop; discover: publish a group, privately, when enough rows have it",
        kept="policy",
        choices=("refuse", "drop", "discover"),
        usual="refuse",
    )


@dataclass(frozen=True, repr=False)
class Promise(JobPart):
    """The guarantee, and the unit that it protects.

    ``within`` is a wanted half-width of the last release's interval: 20, "2%" of ``size``, or by
    name, "count=20,mean=0.5". Then the smallest epsilon or rho is used that reaches this
    half-width. The default ``unit`` is the name that the state uses already. In a new state it is
    "event", or "user" if there is a column of users; with ``per`` the name of the period is added.
    """

    heading = "Guarantee"

    epsilon: Number | None = option(
        "privacy loss of one row, or (with user) of one user: a smaller number protects more and "
        "adds more noise",
        kept="stream",
        often=True,
        of=("stated",),
    )
    delta: Number | None = option(
        "with epsilon: the delta of (epsilon, delta) privacy, as in 1e-6", kept="stream"
    )
    rho: Number | None = option(
        "instead of epsilon: privacy loss in zero-concentrated privacy (Gaussian noise)",
        kept="stream",
        of=("stated", *_NAMED),
    )
    within: Number | None = option(
        "instead of epsilon: how far the interval at the last step may reach to either side, "
        "as in 20 or 2% of size; the smallest epsilon that allows it is found",
        kept="stream",
    )
    least: str | None = option(
        "with within: which number to find, epsilon or rho; default: epsilon",
        choices=("epsilon", "rho"),
        of=("wanted",),
        in_file=True,
    )
    size: int | None = option(
        "with within: how many rows there will be by the last step; the number must be public",
        of=("wanted",),
        in_file=True,
    )
    expire: bool = option(
        "a stream without an end, whose protection of an event fades as the event gets older",
        default=False,
        kept="stream",
        of=("expiring", *_NAMED, "stated"),
    )
    growth: Number | None = option(
        "with expire: the loss of an event of some age grows like log(age)^GROWTH; default: 1",
        kept="stream",
        of=("expiring",),
    )
    delay: int | None = option(
        "with expire: how many windows late each event is counted, which lowers the noise",
        kept="stream",
        of=("expiring",),
    )
    unit: str | None = option(
        "what the ledger calls the protected unit, as in reader; default: event or user; the "
        "ledger adds up each unit apart",
        kept="stream",
    )


@dataclass(frozen=True, repr=False)
class Arrangement(JobPart):
    """The choice of the noise: its strategy, its error metric, and the released series.

    A ``strategy`` may be a `Factorisation` of your own, or a file with the output of its
    ``to_dict``.
    """

    heading = "Noise"
    kept = "stream"

    release: str | None = option(
        "which numbers to publish: totals so far, windows (each alone), both, or periods; periods, "
        "with per, are totals since the period began; default: totals, with per periods",
        choices=RELEASES,
        usual="totals",
        often=True,
        of=("windows", "endless", "expiring"),
    )
    strategy: str | StreamStrategy | None = option(
        f"method that arranges the noise; auto chooses the best; {PUBLISHED}: the best of "
        f"refereed papers; or {', '.join(KINDS)}; a method exactly as in its paper: "
        f"{', '.join(PAPERS)}; or a file with your own, mine.json",
        file=True,
        is_word=lambda text, _: not is_file_of(text),
        other=own_strategy,
        check=check_name,
        usual="auto",
        of=("windows", "endless", "revised"),
    )
    metric: str | None = option(
        "which error the strategy makes smallest: mean (over all steps) or max",
        choices=("mean", "max"),
        in_file=True,
        of=("windows", "revised"),
    )
    simple: bool = option(
        "use only strategies that publish whole numbers, without a search",
        default=False,
        in_file=True,
        of=("windows", "endless", "revised"),
    )


@dataclass(frozen=True, repr=False)
class Users(JobPart):
    """The column of users, and the bounds on how many events of each user count.

    With ``per`` the protected unit is one period of a user. ``most_a_window`` bounds the events in
    one window, so that some of ``most`` are left for the later windows of a period; a late event
    counts towards the bound of the window that releases it. After ``retain``, 35 days unless
    stated, the next release deletes the digests of a period's users, and no further row of that
    period counts; a later run may change this length. With ``first`` a user counts only once in
    each of up to ``most`` groups (default: 1).
    """

    heading = "People"
    kept = "stream"

    user: str | None = option(
        "column that names the user of each event: protect users instead of single events; "
        "needs most",
        often=True,
        of=("events", *_USERS),
    )
    most: int | None = option(
        "how many events of a user count; the rest is dropped",
        often=True,
        check=check_most,
        of=_USERS,
    )
    per: str | None = option(
        "with most: apply most to each period of this length, as in 1d; protects what a user does "
        "in one period",
        words="length",
        of=(*_TIMED, "users", "users once a window", "users by rows"),
    )
    most_a_window: int | None = option(
        "with most: how many of a user's events count in one window",
        in_file=True,
        of=(*_TIMED, "users", "users once a window"),
    )
    retain: str | None = option(
        "with per: how long after the end of a period its users are remembered, as in 7d; "
        "later rows of it do not count; default: 35d",
        kept="policy",
        words="length",
        in_file=True,
    )
    row: str | None = option(
        "with user or moves: what texts call one row, as in loan; default: event",
        in_file=True,
        of=("users", "counts of people"),
    )
    moves: int | None = option(
        "with counts: of how many events of one user the table was made, in all windows together; "
        "whoever made it bounded them, and counton cannot check it",
        in_file=True,
        check=partial(check_most, name="moves"),
        of=("counts of people",),
    )
    distinct: bool = option(
        "count a user once in each window and group, however many rows the user has",
        default=False,
        in_file=True,
        of=("users", "users once a window"),
    )
    first: bool = option(
        "count a user once in the whole stream: the number of different users so far",
        default=False,
        of=("users", "users once"),
    )


@dataclass(frozen=True, repr=False)
class RowFormat(JobPart):
    """The format of rows, and the policy for unreadable rows, for files, frames and services
    alike.
    """

    heading = "Rows"
    kept = "policy"

    file_format: str | None = option(
        "format of the events: csv, parquet or jsonl; default: as the file's ending says",
        "format",
        served=False,
    )
    separator: str | None = option(
        "of CSV: the character between fields: , (the default) ; | or tab",
        served=False,
        usual=",",
    )
    decimal: str | None = option(
        "of CSV: the decimal sign of numbers: . (the default) or ,",
        kept="reading",
        served=False,
        usual=".",
    )
    time_format: str | None = option(
        "how times are written: epoch (seconds), epoch_ms, epoch_us, epoch_ns, or a strftime "
        "format such as %d.%m.%Y; default: ISO 8601, as in 2024-03-01 08:30",
        kept="reading",
        check=_check_time_format,
    )
    clock_change: str | None = option(
        "in windows shorter than a day, which moment is meant by local times that occur twice, "
        "when clocks go back: earliest or latest; raise, the default: refuse them",
        choices=("raise", "earliest", "latest"),
        kept="reading",
        later=True,
        usual="raise",
        in_file=True,
    )
    bad_rows: str | None = option(
        "what happens to rows that cannot be read: refuse (the run stops, the default), or "
        "quarantine:FILE, which leaves them out and lists them in FILE, anew in each run",
        file=True,
        before_file=_QUARANTINE,
        served=False,
        usual="refuse",
        check=_check_bad_rows,
    )
    bad_rows_most: int | None = option(
        "with quarantine: how many rows may be set aside before a run refuses; default: 1000",
        served=False,
        usual=1000,
        in_file=True,
        check=_check_bad_rows_most,
    )
    missing: str | None = option(
        "what happens to rows without a time, group, value, user or id: refuse (the run "
        "stops, the default) or skip",
        choices=("refuse", "skip"),
        usual="refuse",
        in_file=True,
    )

    def policies(self) -> Policies:
        """Return the policies for rows that cannot be counted, such as unreadable rows."""
        from counton.rows.policies import MOST, Policies

        file = None
        if self.bad_rows is not None and self.bad_rows != "refuse":
            file = Path(self.bad_rows.removeprefix(_QUARANTINE))
        most = MOST if self.bad_rows_most is None else self.bad_rows_most
        return Policies(file, most, cast("Any", self.missing or "refuse"))


@dataclass(frozen=True, repr=False)
class RowPolicies(JobPart):
    """The choice of the rows that count, and the policies for late and repeated rows.

    A late row belongs to a window that is released already. If rows count in their order, ``late``
    says whether late rows are refused or dropped. For other statistics, late rows in files of new
    events count at the next release. Late rows in a file of all events count nowhere, unless rows
    have an ``id`` or the events of users are bounded.
    """

    heading = "Rows"

    id: str | None = option(
        "column with an id of each row: a row counts once, in however many files it comes",
        kept="stream",
        of=("events", *_USERS),
    )
    query: str | None = option(
        "one SELECT that chooses the rows, if the events are a database (sqlite:///FILE, "
        "postgresql://...)",
        served=False,
    )
    append: bool = option(
        "each file holds only new events, and is counted once; without append, a run's files hold "
        "all events since start, or of the windows that covers states",
        default=False,
        of=_TIMED,
    )
    covers: str | None = option(
        "the windows of which a run's files hold all rows, as in 7d: those of the last 7 days up "
        "to until; remembered; default: all since start",
        words="length",
        kept="policy",
        served=False,
        often=True,
        of=(*_TIMED, "whole"),
    )


@dataclass(frozen=True, repr=False)
class OutputFiles(JobPart):
    """The files and charts that a run writes, and their form."""

    heading = "Output"
    kept = "output"

    out: str | os.PathLike[str] | None = option(
        "file for all released steps: .parquet, .csv or .json", file=True, served=False, often=True
    )
    plot: str | os.PathLike[str] | None = option(
        "file for a chart of all released steps: .png, .svg or .pdf", file=True, served=False
    )
    title: str | None = option(
        "title of the chart; default: the name of the statistic", in_file=True
    )
    axis: str | None = option("label of the chart's axis of numbers", in_file=True)
    source: str | None = option(
        "source line below the chart, which says where the numbers come from", in_file=True
    )
    width: float | None = option(
        "width of the chart in inches, as in 4 for a telephone; default: 7.5", in_file=True
    )


@dataclass(frozen=True, repr=False)
class Showing(JobPart):
    """The choice of the released numbers to show. Later runs of the stream repeat it."""

    heading = "Output"
    kept = "view"

    over: int | None = option(
        "show the numbers of this many last steps alone, instead of all so far",
        of=(*_TIMED, *_NAMED),
    )
    shares: str | Sequence[float] | None = option(
        "which quantiles to show, as in 0.25,0.5,0.75; 0.5 is the median"
    )
    ask: str | Sequence[str] | None = option(
        "with ranges: show only these intervals of cells, in place of single cells"
    )
    level: float | None = option(
        "probability that an interval holds the number without noise; default: 0.95"
    )


_Given = TypeVar("_Given")

#: The time at which a run begins; the end of the stream if the stream is over.
NOW = "now"
#: The time of the newest event.
NEWEST = "newest"


class Arrow(Protocol):
    """A data frame of any library that exports its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream in a PyCapsule, as Arrow's C stream interface
        prescribes.
        """


#: Sources of events.
Events: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pl.LazyFrame | Arrow"
)


def _check_events(value: Any) -> None:
    """Refuse event paths that no file can have. Other sources of events are checked when they are
    opened.
    """
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | os.PathLike):
            check_text("events", os.fspath(one))


def part(kind: type[JobPart]) -> Any:
    """Define a field of `Job` that holds one part of a job."""
    return made(metadata={"part": kind})


@dataclass(frozen=True, init=False)
class Job(OptionRecord):
    """The request for one run; a field that is left out is None.

    A new stream needs the fields that define it. A later run may leave them out, and may not
    contradict them. A job consists of parts, such as `Times` and `Groups`; the fields of all parts
    are keyword arguments of the job.

    >>> job = Job(what="count", events="visits.csv", state="visits.db", every="1d")
    >>> job.keeping.name, job.times.every
    ('count', '1d')

    Attributes:
        what: a statistic, or its name: "count", "sum", "average", "top-k" and others.
        events: source of events, one per row: a file, ``-`` for standard input, a folder of files,
            a pattern, or several of these; or a data frame that exports Arrow (polars, pandas,
            pyarrow, DuckDB).
        options: options of the statistic by name, as in its ``options``, each a keyword:
            ``lower=0``. If the statistic is an object, only ``columns`` (the columns of an event's
            parts in their order) or ``value`` (if there is one) are allowed.
        keeping, times, lateness, groups, promise, noise, people, format, rows, output, view: parts
            of the job.
    """

    what: str | Statistic
    keeping: Keeping = part(Keeping)
    times: Times = part(Times)
    lateness: Lateness = part(Lateness)
    groups: Groups = part(Groups)
    promise: Promise = part(Promise)
    noise: Arrangement = part(Arrangement)
    people: Users = part(Users)
    format: RowFormat = part(RowFormat)
    rows: RowPolicies = part(RowPolicies)
    output: OutputFiles = part(OutputFiles)
    view: Showing = part(Showing)
    events: Events = option(
        "files of events: CSV, Parquet or JSON lines; a folder of them; - for standard input",
        default=...,
        argument=True,
        file=True,
        other=_check_events,
        often=True,
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
        if not isinstance(what, str):
            from counton.base.exact import quote
            from counton.statistics import Statistic

            if not isinstance(what, Statistic):
                raise InvalidInput(
                    f"what is {quote(what)}; give a statistic such as Average(0, 200, "
                    'resolution=1), or the name of a statistic such as "count"; the events are the '
                    "second argument"
                )
        stated: dict[str, Any] = {**more, "state": state}
        if not stated.get("name"):
            stated["name"] = usual_name(what, {**stated, **stated.get("options", {})}.get)
        taken: dict[str, Any] = {"what": what, "events": events}
        for item in fields(self):
            if kind := item.metadata.get("part"):
                names = options_of(kind)
                taken[item.name] = kind(**{n: stated.pop(n) for n in names if n in stated})
        given = {**stated.pop("options", {}), **stated}
        taken["options"] = {  # an integer of another library, such as numpy, becomes one of Python
            name: int(value)
            if isinstance(value, Integral) and type(value).__module__ != "builtins"
            else value
            for name, value in given.items()
            if value is not None and value is not False
        }
        check_value(options_of(Job)["events"], events)
        for name, value in taken.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the job as the text of a call with its stated fields, without its events and
        without the passwords in addresses.

        >>> Job("count", "visits.csv", "visits.db", every="1d")
        Job(what='count', state='visits.db', name='count', every='1d')
        """
        values = self._by_name()
        del values["events"]  # a frame would show its rows
        stated = {name: value for name, value in values.items() if self.states(name)}
        shown = {"what": self.what, **stated, **self.options}
        return hide_secrets(f"Job({', '.join(f'{name}={one!r}' for name, one in shown.items())})")

    @override
    def option(self, name: str) -> Any:
        """Return the value of a field, or of an option of the statistic; None if it is not stated.

        >>> Job("average", "visits.csv", "visits.db", lower=0).option("lower")
        0
        """
        place = _PLACES.get(name)
        return self.options.get(name) if place is None else place(self)

    def having(self, **changes: Any) -> Job:
        """Return a copy of the job in which some fields, or options of its statistic, have other
        values.

        >>> Job("average", "visits.csv", "visits.db", lower=0).having(lower=1, steps=9).options
        {'lower': 1}
        """
        own = {"what": self.what, "options": self.options}
        return Job(**{**own, **self._by_name(), **changes})

    def _by_name(self) -> dict[str, Any]:
        return {name: place(self) for name, place in _PLACES.items()}


#: Functions that return a stated value of a job, by the value's name.
_PLACES = {
    name: attrgetter(name if "part" not in item.metadata else f"{item.name}.{name}")
    for item in fields(Job)
    if item.name not in ("what", "options")
    for name in (options_of(item.metadata["part"]) if "part" in item.metadata else [item.name])
}


class JobStatement(Statement):
    """A job's stated values, as an object from which a statistic reads its options."""

    def __init__(self, job: Job) -> None:
        self._job, self.options = job, job.options
        for name, place in _PLACES.items():
            setattr(self, name, place(job))

    @property
    def statistic(self) -> str:
        return str(self._job.what)

    @override
    def of_part(
        self, statistic: str, options: Mapping[str, Any], by: str | None, domain: Any
    ) -> Statement:
        job = self._job
        part = job.having(what=statistic, options=dict(options), by=by, domain=domain)
        return JobStatement(part)

    @override
    def groups(self, column: str) -> tuple[str, ...]:
        from counton.rows.domains import read_domain, refuse_long_terms

        names = read_domain(self.domain, column)
        refuse_long_terms(names)
        return tuple(names)

    @override
    def tree(self, levels: Sequence[str], value: str | None) -> Any:
        from counton.options.group_tables import tree_of

        return tree_of(self.domain, levels, value)

    @override
    def labels(self, columns: Sequence[str], value: str | None) -> dict[str, list[str]]:
        from counton.options.group_tables import names_of, values_of

        self.refuse_counts(value)
        stated = self.options.get("columns")
        given = stated if isinstance(stated, str) else columns
        return values_of(self.domain, names_of(given, "columns"))

    @override
    def refuse_counts(self, value: str | None) -> None:
        from counton.options.group_tables import refuse_counts

        refuse_counts(self.domain, value)


#: Longest name of a stream whose job states none, in characters.
_LONGEST_USUAL = 100


def usual_name(what: str | Statistic, option: Callable[[str], Any] = lambda _: None) -> str:
    """Return the name of a stream whose job states none: its statistic and the columns of its
    values. It consists of letters, digits and ``_``, so that it may also name a file or a table.

    Args:
        option: function that returns an option of the job by its name.

    >>> usual_name("count"), usual_name("sum", {"value": "amount (EUR)"}.get)
    ('count', 'sum_of_amount_EUR')
    """
    columns = option("value") or option("columns") or option("counts")
    keyword = what if isinstance(what, str) else what.keyword or type(what).__name__
    words = [columns] if isinstance(columns, str) else columns or ()
    read = " ".join(map(str, words)) if isinstance(words, Iterable) else str(words)
    said = re.sub(r"\W+", "_", f"{keyword} of {read}" if read else keyword)
    return said.strip("_")[:_LONGEST_USUAL]


def length_in_words(name: str, length: timedelta) -> str:
    """Convert a `timedelta` to a length of time as text, such as "36h".

    >>> length_in_words("every", timedelta(hours=36)), length_in_words("every", timedelta(days=7))
    ('36h', '7d')
    """
    seconds = length.total_seconds()
    if seconds <= 0 or seconds != int(seconds):
        raise InvalidInput(
            f"{field(name)} is {length}, which is not a whole number of seconds above 0; write it "
            "as in 15m, 1h or 1d"
        )
    for word, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{int(seconds // size)}{word}"
    return f"{int(seconds)}s"


def require_guarantee(guarantee: _Given | None) -> _Given:
    """Return the guarantee; raise an error if it is None."""
    if guarantee is None:
        raise MissingOptions(
            f"the privacy loss is missing; give {field('epsilon')}, {field('epsilon')} and "
            f"{field('delta')}, or {field('rho')}: {field('epsilon', 1)} is a common choice",
            ["epsilon"],
        )
    return guarantee

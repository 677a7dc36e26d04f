"""A first job for events, made from their header and common defaults, with a list of open
questions.

The values in the rows decide nothing here: `first_look` finds the names of columns and the format
of times, and all other defaults are the same for all events. At a terminal the operator is shown
three values that rows suggest, ``start``, ``until`` and ``watermark``, and takes or changes them.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, Unpack

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.exact import figures_above, percent
from counton.base.lengths import PERIODS, days_in
from counton.base.options import MissingOptions
from counton.base.outside_input import parse_toml, read_plain
from counton.job.job import NEWEST, Events, Job, options_of
from counton.job.keywords import JobFields
from counton.job.signatures import with_job_fields
from counton.job.stated_options import kind_of, options_of_job
from counton.rows.paths import is_database, is_table
from counton.run.clock import QUIET
from counton.run.first_look import BOUNDS as BOUNDS
from counton.run.first_look import FirstFacts as FirstFacts
from counton.run.first_look import FirstLook as FirstLook
from counton.run.first_look import ReadSample as ReadSample
from counton.run.first_look import check_column as check_column
from counton.run.first_look import look_at as look_at
from counton.run.job_plan import PlannedJob, planned_job
from counton.run.new_stream import EACH_WINDOW, define
from counton.state.database import state_file
from counton.state.key_and_witness import file_of
from counton.state.standing import check_places

#: Years of a new stream. If windows are released alone, a longer stream is no less accurate.
_YEARS, _MOST_WINDOWS = 10, 100_000
#: Matches names of columns that tell when a row arrived.
_ARRIVAL = re.compile(r"arriv|enter|insert|import|load|receiv|recorded|ingest|stored|synced", re.I)
#: If a larger fraction of rows arrives after the wait for late ones, a longer wait is suggested.
MOST_LATE = 0.01
#: Matches names of columns that name people.
_PEOPLE = re.compile(
    r"(^|[^a-z])(reader|user|person|people|patient|customer|client|member|visitor|student|"
    r"employee|driver|rider|author|owner|cookie|account|email|e-mail|phone|passenger|guest|"
    r"borrower|household|device|ip)s?([^a-z]|$)",
    re.I,
)

#: Fields of a `Job` that the user stated, by name, including ``events`` and ``state``.
JobValues: TypeAlias = Mapping[str, Any]


class RequiredOption(NamedTuple):
    """An option that the user must state, because the events do not show its value.

    Attributes:
        why: reason why it must be stated.
        example: example of fields of a `Job` that state the option.
    """

    why: str
    example: Mapping[str, Any]

    @property
    def line(self) -> str:
        """The example and the reason of this required option, as one line of a message."""
        return f"{' '.join(field(name, value) for name, value in self.example.items())}: {self.why}"


@with_job_fields
def init(
    events: Events, *, state: str | os.PathLike[str] | None = None, **more: Unpack[JobFields]
) -> Job:
    """Make a job that counts events: to print, to change and to run. Nothing is spent or stored.

    The header tells which column holds times, and the first rows tell their format. The other
    defaults are usual choices: windows of one day, each with a number of its own
    (``release="windows"``), for ten years; rows without a value and unreadable rows are left out.
    ``by`` and ``domain`` declare the groups. With ``missing="refuse"`` or ``clock_change="raise"``
    an unreadable row ends a run.

    Args:
        events: see `counton.release`; also the address of a database, with ``query``.
        state: see `counton.release`; None: beside the file.
        more: fields of `Job`.

    Raises:
        InvalidInput: options are missing that the events do not show; the message names all of
            them, among them ``until`` if the newest event is old. Or the events cannot be read, or
            a run would refuse the job or one of the first rows.

    >>> import polars as pl
    >>> import counton
    >>> loans = pl.DataFrame({"at": ["2026-03-01T09:00"], "reader": ["ann"], "branch": ["north"]})
    >>> counton.init(loans, by="branch")
    Traceback (most recent call last):
    counton.base.options.MissingOptions: the events do not tell the value of these options; ...
    >>> job = counton.init(
    ...     loans, by="branch", domain=["north", "south"], timezone="Europe/Berlin",
    ...     user="reader", most=3, per="1d", start="2026-01-01", epsilon=1, until="newest",
    ... )
    >>> job.times.time, job.times.every, job.noise.release, job.promise.unit, job.format.missing
    ('at', '1d', 'windows', 'reader', 'skip')
    """
    given = {name: value for name, value in more.items() if value is not None}
    values = {"events": events, "state": state or default_state(events), **given}
    look = look_at(job_of(values))
    look.refuse_other_encoding(job_of(values))
    if left := required_options(values, look):
        unstated = (
            f"{', '.join(field(name, value) for name, value in one.example.items())}: {one.why}"
            for one in left
        )
        names = [name for one in left for name in one.example]
        groups = "" if "by" in given else f"; {groups_to_add(job_of(values), look)}"
        raise MissingOptions(
            "the events do not tell the value of these options; give them: "
            f"{'; '.join(unstated)}{groups}",
            names,
        )
    job = with_free_files(check_job(values, look)[0], values)
    look.read_as_run(job)
    return job


def job_of(values: JobValues) -> Job:
    """Build a `Job` that counts events from the fields that the user stated."""
    return Job("count", **values)


def check_job(values: JobValues, look: FirstLook) -> tuple[Job, PlannedJob]:
    """Complete the fields that the user stated (``values``) to a job with common defaults, and plan
    the job; refuse a job that a run would refuse.

    Raises:
        CountonError: as `run` raises it before it reads rows.
    """
    job = complete_job(values, look)
    columns = job.times.time, job.people.user, job.rows.id, *(job.groups.by or "").split(",")
    for name in filter(None, columns):
        check_column(look, name)
    file = state_file(job.keeping.state)
    check_places(file, file_of(job.keeping.key))
    return job, planned_job(job)


def with_free_files(job: Job, values: JobValues, save: Path | None = None) -> Job:
    """Return a job whose default output files are free: no such file exists yet, and no other job
    file names it.

    The files are for the released numbers and for the unreadable rows. Job files are looked for
    beside the events and beside ``save``.

    Args:
        job: a complete job.
        values: the fields that the user stated; their files are not changed.
        save: the job file of this job, which may name the files; None: it has none.
    """
    path = _path_of(job.events)
    if path is None:
        return job
    own = None if save is None else save.resolve()
    folders = {path.parent.resolve()} | (set() if own is None else {own.parent})
    files = [one for folder in folders for one in folder.glob("*.toml") if one.resolve() != own]
    named = {place for file in files for place in _paths_in(file)}
    for number in itertools.count(1):
        more = "" if number == 1 else f"-{number}"
        out = _beside(job.events, f"{more}.released.csv")
        bad = _beside(job.events, f"{more}.unreadable.csv")
        if not any(one.exists() or one.resolve() in named for one in (out, bad)):
            break
    found = {"out": os.fspath(out)}
    if job.format.policies().quarantine is not None:
        found["bad_rows"] = f"quarantine:{bad}"
    return job.having(**{name: value for name, value in found.items() if name not in values})


def _paths_in(file: Path) -> set[Path]:
    """Return all paths that a job file may name: each of its texts, read as a path. Empty if the
    file cannot be read.
    """
    with suppress(OSError, ValueError):
        left, found = [parse_toml(read_plain(file))], set[Path]()
        while left:
            value: Any = left.pop()
            if isinstance(value, dict | list):
                left += value.values() if isinstance(value, dict) else value
            elif isinstance(value, str) and value.isprintable():
                found.add((file.parent / value.removeprefix("quarantine:")).resolve())
        return found
    return set()


def are_old(job: Job, look: FirstLook) -> bool:
    """Return True if events are so old that a run up to the current time would release many
    windows without events. This is an exact fact, for the operator alone.
    """
    newest = look.for_operator(job).newest
    if newest is None or not look.has_all_rows or job.times.yes:
        return False
    windows = (datetime.now(newest.tzinfo) - newest).total_seconds() / 86_400
    windows /= days_of(job.times.every or "1d")
    return windows > (QUIET if job.times.quiet is None else job.times.quiet)


def fitting_start(job: Job, look: FirstLook) -> str | None:
    """Return January 1 of the year of the first row, if all rows are older than the current year;
    otherwise None. This is an exact fact, for the operator alone.
    """
    facts = look.for_operator(job)
    if facts.first is None or facts.newest is None or str(facts.newest.date()) >= usual_start():
        return None
    return f"{facts.first.year:04}-01-01"


def default_state(events: object) -> str:
    """Return the path of a stream's state (SQLite database) if none is stated: a file beside the
    events.

    >>> default_state("library/loans.2024.csv.gz"), default_state("logs/2024-*.csv")
    ('library/loans.2024.counton.db', 'logs.counton.db')
    """
    return os.fspath(_beside(events, ".counton.db"))


def is_named(events: object) -> bool:
    """Return True if events are files, which have names; False for a frame or a database.

    >>> is_named("loans.csv"), is_named("sqlite:///library.db"), is_named([])
    (True, False, False)
    """
    return (isinstance(events, str) and events == "-") or _path_of(events) is not None


def state_beside(events: object, *, append: bool) -> str:
    """Return the path of a run's state (SQLite database) if none is stated: beside the events,
    where each run over the same events finds it.

    For a link the state lies beside the link, because the link may lead to another file tomorrow.

    Raises:
        MissingOptions: the path cannot be derived from the events. They have no lasting name, or
            each file has only new events and all files need one state, or they are a link to a file
            that has a state.

    >>> state_beside("library/loans.csv", append=False)
    'library/loans.counton.db'
    >>> state_beside("night-7.csv", append=True)
    Traceback (most recent call last):
    counton.base.options.MissingOptions: state is missing: each file has new events, and ...
    """
    one = events[0] if isinstance(events, list | tuple) and len(events) == 1 else events
    stated = field("state", "visits.db")
    if _path_of(one) is None:
        why = "the events are no file, so the state has no usual name"
    elif isinstance(one, list | tuple):
        why = (
            "there are several files, so the state has no usual name that the next run would find "
            "again"
        )
    elif append and not holds_new_events(one):
        why = "each file has new events, and all of them need a single state"
    elif (there := _state_behind(one)) is not None:
        why = (
            f"{one} is a link to a file that is counted in state {there} already, and another "
            "stream would spend privacy again"
        )
        stated = field("state", there)
    else:
        return default_state(one)
    raise MissingOptions(f"{field('state')} is missing: {why}; give it, as in {stated}", ["state"])


def _state_behind(events: Any) -> str | None:
    """Return the path of the default state (SQLite database) of the file to which a link leads.

    The result is None if events is no link, if that state does not exist, or if the link has a
    state of its own.
    """
    path = Path(events)
    if not path.is_symlink() or Path(default_state(events)).exists():
        return None
    there = default_state(os.path.relpath(path.resolve()))
    return there if Path(there).exists() else None


def _beside(events: object, ending: str) -> Path:
    """Return a path beside the events: their path, with another ending."""
    path = _path_of(events)
    return Path(f"counts{ending}") if path is None else path.parent / f"{_stem(path)}{ending}"


def _path_of(events: object) -> Path | None:
    """Return the path that names the events: their file, or the folder if there are several files.

    None for a data frame, a database or standard input. The folders ``.`` and ``..`` are replaced
    by their full path.
    """
    first = events[0] if isinstance(events, list | tuple) and events else events
    if not isinstance(first, str | os.PathLike) or is_database(first) or first == "-":
        return None
    path = Path(first)
    path = path.parent if "*" in path.name or isinstance(events, list | tuple) else path
    if path.name in ("", ".."):
        path = path.resolve()
        return Path(os.path.relpath(path.parent)) / path.name
    return path


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    name = Path(name).stem if is_table(Path(name)) else name
    return name or "counts"


def holds_new_events(events: object) -> bool:
    """Return True if the events are a list, a folder or a pattern of files, which may get further
    files. Each file then holds new events.
    """
    if isinstance(events, list | tuple):
        return True
    path = None if _path_of(events) is None else os.fspath(events)  # type: ignore[call-overload]
    return path is not None and ("*" in path or Path(path).is_dir())


def usual_start() -> str:
    """Return January 1 of this year, the default start of a stream.

    The start is published, so it must not depend on rows.
    """
    return f"{datetime.now(UTC).year}-01-01"


def usual_wait(every: str) -> str:
    """Return the default wait for late rows: "6h" if a window is a day or longer, else "0s"."""
    return "6h" if days_of(every) >= 1 else "0s"


def tells_arrival(column: str) -> bool:
    """Return True if a column seems, by its name, to hold the times at which rows arrived.

    The empty name returns True: it stands for the dates of the files, which show when rows arrived.

    >>> tells_arrival("entered_at"), tells_arrival(""), tells_arrival("returned_at")
    (True, True, False)
    """
    return not column or _ARRIVAL.search(column) is not None


def sufficient_wait(late: Mapping[str, float], usual: str) -> str:
    """Return the shortest waiting time after which at most one row in a hundred is still to arrive.

    It is not shorter than the usual time. If no known time is long enough, the longest known time
    is returned.

    Args:
        late: for each waiting time, ascending, the fraction of rows that arrive later.
        usual: the usual waiting time.

    >>> sufficient_wait({"6h": 0.2, "1d": 0.004, "2d": 0.0}, "6h")
    '1d'
    """
    longer = [wait for wait in late if days_in(wait) >= days_in(usual)]
    return next((wait for wait in longer if late[wait] <= MOST_LATE), (longer or [usual])[-1])


def days_of(every: str) -> float:
    """Return the approximate length of a window in days; 1 if the text is not a length."""
    try:
        return days_in(every) or 1
    except (KeyError, ValueError):
        return 1


def usual_period(job: Job) -> str:
    """Return the usual period of a bound on a person's rows: a window, or a day if that is longer.

    >>> usual_period(Job("count", "visits.csv", "v.db", every="1w")), usual_period(
    ...     Job("count", "visits.csv", "v.db", every="1h")
    ... )
    ('1w', '1d')
    """
    every = job.times.every
    return every if every is not None and days_of(every) > 1 else "1d"


def noun_of(every: str) -> str:
    """Return the common word for a window of this length: "day" for ``1d``, for example.

    >>> noun_of("1d"), noun_of("36h")
    ('day', 'window')
    """
    return PERIODS.get(every, "window")


def person_column(look: FirstLook) -> str | None:
    """Return a column whose name suggests that it names people."""
    return next((name for name in look.columns if _PEOPLE.search(name.replace("_", " "))), None)


def _steps(every: str) -> int:
    return min(_MOST_WINDOWS, math.ceil(_YEARS * 365.25 / days_of(every)))


def complete_job(values: JobValues, look: FirstLook) -> Job:
    """Build a job from the fields that the user stated (``values``) and common defaults. Epsilon is
    1 if neither a privacy loss nor an accuracy is stated.
    """
    job, times = job_of(values), {one.name: one for one in look.times}
    path, endless = _path_of(job.events), job.times.around is not None or job.promise.expire
    found: dict[str, Any] = {"missing": "skip"}
    if look.separator != ",":
        found["separator"] = look.separator
    found["time"] = job.times.time or next(iter(times), None)
    column = times.get(found["time"])
    local = column is None or column.local
    found["time_format"] = None if column is None else column.time_format
    if local and (job.times.timezone or "UTC") != "UTC":
        found["clock_change"] = "earliest"
    every = found["every"] = job.times.every or "1d"
    found |= {"start": usual_start(), "watermark": usual_wait(every), "quiet": QUIET}
    if job.lateness.revise is not None:
        endless = True
    if not endless:
        found["steps"] = _steps(every)
        only_totals = job.people.first or job.groups.unknown == "discover"
        found["release"] = None if only_totals else "windows"
    if states_no_loss(values):
        found["epsilon"] = "1"
    if job.people.user is not None and not job.people.first:
        found["most"] = 1
    if job.groups.domain is not None and "unknown" not in values:
        found |= _OTHERS
    if job.rows.id is None and holds_new_events(job.events):
        found["append"] = True
    if job.people.user is not None and path is not None and not job.people.first:
        found["row"] = _row_of(path)
    found["unit"] = _row_of(path) if job.people.user is None else _unit(job.people.user)
    if path is not None:
        found |= {
            "name": _stem(path),
            "out": os.fspath(_beside(job.events, ".released.csv")),
        }
        # A file can take unusable rows, if no stated option ends the run at such a row.
        if values.get("missing") != "refuse" and values.get("clock_change") != "raise":
            found["bad_rows"] = f"quarantine:{_beside(job.events, '.unreadable.csv')}"
    return job_of(found | dict(values))


def states_no_loss(values: JobValues) -> bool:
    """Return True if the user stated neither a privacy loss nor an accuracy (``within``), from
    which the loss would follow.
    """
    return not {"epsilon", "rho", "within"} & {*values}


#: Matches names that end in a plural whose singular only lacks the "s".
_PLURAL = re.compile(r"[a-z]{3}(?<!new)(?<!ie)(?<!sse)(?<!xe)(?<!che)(?<!she)(?<![siu])s$", re.I)


def _row_of(path: Path | None) -> str:
    """Return the word for one event: the singular of the file's name if that is a plural, else
    "row".

    >>> [_row_of(Path(f"{name}.csv")) for name in ("loans", "bike_rides", "status", "entries", "s")]
    ['loan', 'bike ride', 'row', 'row', 'row']
    """
    name = "" if path is None else _stem(path)
    return _unit(name) if _PLURAL.search(name) else "row"


def _unit(name: str) -> str:
    """Return the word for one protected unit, from the name of a column or a file.

    >>> _unit("reader_id"), _unit("loans"), _unit("2024")
    ('reader', 'loan', 'row')
    """
    word = re.sub(r"[_ -]?(id|no|nr|number|name|key|hash)$", "", name, flags=re.I)
    word = word.replace("_", " ").strip().lower()
    if not re.fullmatch("[a-z][a-z ]*", word):
        return "row"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


#: Example of declared groups, and the reason why they must be stated.
_NAMES: Mapping[str, Any] = {"domain": "A,B,C"}
_PUBLIC = "the names of groups are published, so take them from a public list, not from rows"
_OTHERS: Mapping[str, Any] = {"other": "other"}
_DROPS: Mapping[str, Any] = {"unknown": "drop"}


_START = "the first window's beginning is published, so choose it without looking at the rows"


def required_options(values: JobValues, look: FirstLook) -> list[RequiredOption]:
    """List the options that the user must still state, because neither the events nor common
    defaults give their values.
    """
    job, found = job_of(values), list[RequiredOption]()
    times, people = [one.name for one in look.times], person_column(look)
    if job.times.time is None and len(times) != 1:
        why = f"{' or '.join(map(repr, times))} may say when it happened"
        if not times:
            why = f"no column holds times in a known format; there are {', '.join(look.columns)}"
        form = {} if times or job.format.time_format else {"time_format": "%d.%m.%Y"}
        found.append(RequiredOption(why, {"time": [*times, *look.columns][0]} | form))
    named = [one for one in look.times if one.name == job.times.time]
    column = next(iter(named or ([] if job.times.time else look.times)), None)
    if job.times.timezone is None and (column is None or column.local):
        why = "the times have no zone, which decides when a day begins"
        found.append(RequiredOption(why, {"timezone": "Europe/Berlin"}))
    whole = complete_job(values, look)
    start = fitting_start(whole, look)
    if job.times.start is None and start is not None:
        why = f"{_START}; exact: no row is of this year, and this day is of the first's"
        found.append(RequiredOption(why, {"start": start}))
    if job.groups.by is None and job.groups.domain is not None:
        by = [*_columns_of_groups(job, look), "COLUMN"][0]
        found.append(RequiredOption("the column of the groups", {"by": by}))
    if job.groups.by is not None and job.groups.domain is None and job.groups.unknown != "discover":
        found.append(RequiredOption(_PUBLIC, _NAMES))
    new = job.rows.append or holds_new_events(job.events)
    if job.lateness.revise is not None and job.rows.id is None and not new:
        why = (
            "a file of all events does not tell late rows from changed rows, so each file must "
            f"hold new rows alone; or instead name the column of ids, {field('id')}"
        )
        found.append(RequiredOption(why, {"append": True}))
    if job.times.until is None and are_old(whole, look):
        why = (
            "the newest row is old, and the clock would release empty windows; so readers learn "
            "the window of the newest row, which is not protected"
        )
        found.append(RequiredOption(why, {"until": NEWEST}))
    if job.people.user is None and job.promise.unit is None:
        row = whole.promise.unit
        why = "whom to protect: single rows, each called by this word"
        example: Mapping[str, Any] = {"unit": row}
        if people is not None:
            why = f"whom to protect: people; or instead single rows, with {field('unit', row)}"
            usual: dict[str, Any] = {"user": people}
            usual |= {} if job.people.first else {"most": 3, "per": usual_period(job)}
            example = {name: value for name, value in usual.items() if name not in values}
        found.append(RequiredOption(why, example))
    elif job.people.user is not None and job.people.most is None and not job.people.first:
        why = "how many rows of one person count: noise hides them all"
        per: dict[str, Any] = {} if job.people.per else {"per": usual_period(job)}
        found.append(RequiredOption(why, {"most": 3, **per}))
    if states_no_loss(values):
        why = (
            f"what one row, or one person whose rows are bounded, may lose; or instead the largest "
            f"error, {field('within', 15)}"
        )
        found.append(RequiredOption(why, {"epsilon": "1"}))
    return found


def some(names: Sequence[str], most: int = 5) -> str:
    """Join the first ``most`` names, and say how many more there are.

    >>> some(["north", "south", "east"], 2)
    'north, south and 1 others'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} others" if rest > 0 else "")


def _columns_of_groups(job: Job, look: FirstLook) -> list[str]:
    """Return the columns in which values repeat, so that they may hold groups."""
    others = (person_column(look), job.people.user, job.rows.id)
    return [one for one in look.for_operator(job).repeated if one not in others]


def groups_to_add(job: Job, look: FirstLook, **more: Any) -> str:
    """Return a sentence that tells the user how a job would release a number for each group.

    It names the options to add, and the columns that may hold groups because values repeat in them.
    The columns are an exact fact, for the operator alone.

    Args:
        more: example of further options that groups need.
    """
    columns = _columns_of_groups(job, look)
    found = f" (exact: values repeat in {some(columns)})" if columns else ""
    example = {"by": [*columns, "COLUMN"][0], **_NAMES, **more}
    return f"if you want a number by group{found}, {RequiredOption(_PUBLIC, example).line}"


def needs_of_first_run(
    job: Job, look: FirstLook, missing: Collection[str]
) -> tuple[list[RequiredOption], Job]:
    """List the options that a job needs before its first run, with examples; also return the job
    with these examples.

    They are the options that the job lacks, and the options without which a run would refuse the
    first rows of the events. Reasons may hold exact facts, for the operator alone.

    Args:
        job: the job as far as the user stated it.
        missing: names of the options that it lacks; empty: it lacks none.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T09:00"], "reader": ["a", None]})
    >>> job = Job("count", rows, "visits.db", every="1d", start="2024-03-01", timezone="UTC")
    >>> needed, whole = needs_of_first_run(job, look_at(job), ["time", "steps", "epsilon"])
    >>> [[*one.example] for one in needed]
    [['time'], ['steps'], ['until'], ['user', 'most', 'per'], ['epsilon'], ['missing']]
    >>> whole.format.missing
    'skip'
    """
    card = kind_of(job.what).card
    columns = {
        "by": card.additive and job.groups.domain is not None,
        "user": job.people.most is not None,
    }
    asked = [*missing, *(name for name, needs in columns.items() if needs and not job.has(name))]
    allowed = False
    with suppress(CountonError):  # one of the values is refused
        define(_with_examples(job, asked, look, usual_start()))
        allowed = True
    windowed = allowed and not card.is_table
    needed = _options_of_windows(job, look, missing) if windowed else []
    whole = job.having(**{name: value for one in needed for name, value in one.example.items()})
    start = None
    if allowed and not windowed:  # the options of windows have a start already
        start = fitting_start(_with_examples(job, ("time",), look, ""), look)
    whole, known = _with_examples(whole, missing, look, start or usual_start()), options_of_job(job)
    told = {name for one in needed for name in one.example}
    needed += [
        RequiredOption(known[name].help, {name: whole.option(name)})
        for name in missing
        if name not in told and whole.has(name)
    ]
    if windowed:
        more = _options_for_rows(whole, look)
        needed += more
        whole = whole.having(**{name: value for one in more for name, value in one.example.items()})
    return needed, whole


def _with_examples(job: Job, missing: Collection[str], look: FirstLook, start: str) -> Job:
    """Complete a job with example values of its missing options, such as columns of the events.

    ``start`` is the example for the beginning of the first window.
    """
    card, time = kind_of(job.what).card, [*(one.name for one in look.times), *look.columns][0]
    taken = time, job.times.time, job.groups.by, job.people.user
    left = [one for one in look.columns if one not in taken]
    examples: dict[str, Any] = {**_USUAL, "start": start, "time": time}
    if card.is_table and (every := job.times.every or job.people.per):  # one table a period
        examples |= {"every": every, "steps": max(1, round(365 / days_of(every)))}
    examples |= {"by": look.columns[-1], "user": person_column(look) or "USER"}
    for one in card.options:
        words = (card.example or {}).get(one.key, one.name.upper())
        columns = left[: words.count(",") + 1] if one.column else []
        examples[one.name] = ",".join(columns) or (one.name.upper() if one.column else words)
    absent = [one for one in missing if one != "rho" and not job.has(one)]
    return job.having(**{one: examples.get(one, one.upper()) for one in absent})


#: Example values for missing options of a new stream, if the events suggest nothing better.
_USUAL = {"every": "1d", "steps": 365, "epsilon": "1", "most": 3, "domain": "A,B,C"}


def _options_of_windows(
    job: Job, look: FirstLook, missing: Collection[str]
) -> list[RequiredOption]:
    """List the options of time windows, groups and people that a job must state before its first
    run.

    If the job lacks no option (``missing`` is empty), only ``until`` is listed, if a run would
    refuse the events without it.
    """
    additive = kind_of(job.what).card.additive
    if not missing:
        names = {"until"}
    elif job.times.time is None and "time" not in missing:  # each row is a step
        names = {"epsilon"}
    else:
        names = {"time", "timezone", "start", "until", "epsilon"}
        names |= {"by", "domain", "user", "most"} if additive else set()
    found = list[RequiredOption]()
    if "time" in missing and len(look.times) == 1:
        found.append(RequiredOption("the column of times", {"time": look.times[0].name}))
    every = job.times.every or "1d"
    usual: Mapping[str, Any] = {"every": every, "steps": _steps(every)}
    if length := {name: value for name, value in usual.items() if name in missing}:
        why = "the length of a window, and how many there will ever be"
        if additive and job.noise.release is None:
            why += f"; each has the total so far, or with {field('release', 'windows')} its own"
        found.append(RequiredOption(why, length))
    values = {name: job.option(name) for name in options_of(Job) if job.has(name)}
    needed = required_options(values, look)
    if "start" in missing and not any("start" in one.example for one in needed):
        found.append(RequiredOption(_START, {"start": usual_start()}))
    for why, example in needed:
        more: Mapping[str, Any] = {}
        if "domain" in example and job.groups.other is None:
            why, more = f"{why}; rows of other names count in the group other", _OTHERS
        if "timezone" in example and not job.states("clock_change"):
            more = {"clock_change": "earliest"}
        if names & {*example}:
            found.append(RequiredOption(why, {**example, **more}))
    return found


def _options_for_rows(job: Job, look: FirstLook) -> list[RequiredOption]:
    """List the options that a complete job needs so that a run accepts the first rows, such as a
    file for unreadable rows. Empty if no such option is needed, or if none helps.
    """
    groups, usual = job.groups, dict[str, Any]()
    if _path_of(job.events) is not None:
        usual["bad_rows"] = f"quarantine:{_beside(job.events, '.unreadable.csv')}"
    usual |= {"clock_change": "earliest", "missing": "skip"}
    if groups.by is not None and groups.other is None and groups.unknown in (None, "refuse"):
        additive = kind_of(job.what).card.additive
        usual |= _OTHERS if additive else _DROPS
    usual = {name: value for name, value in usual.items() if not job.states(name)}
    found, left = list[RequiredOption](), dict(usual)
    with suppress(CountonError):
        look.read_as_run(job.having(**usual))
        for name, value in usual.items():
            del left[name]
            try:
                look.read_as_run(job.having(**left))
            except CountonError as error:
                left[name] = value
                why = error.template.partition("; ")[0]
                found.append(RequiredOption(why, {name: value}))
    return found


def refuse_state(job: Job) -> None:
    """Refuse to use an existing state file that the user did not name, because it holds other
    streams.
    """
    file, state = state_file(job.keeping.state), os.fspath(job.keeping.state)
    if file is not None and file.exists() and state == default_state(job.events):
        raise InvalidInput(
            f"state {state!r} exists already, and options of its streams "
            f"cannot change; give another state ({field('state', 'other.db')}), or a new "
            f"{field('name')} for another stream in this state"
        )


def within(values: JobValues, look: FirstLook, most: str) -> str:
    """Return the least epsilon, as text, for which a released number is off by at most ``most``
    with the job's confidence level.

    >>> import polars as pl
    >>> values = {"events": pl.DataFrame({"at": ["2026-03-01T09:00Z"]}), "state": "loans.db"}
    >>> within(values, look_at(job_of(values)), "15")
    '0.193'
    """
    plan = check_job({**values, "within": most}, look)[1]
    return str(plan.definition.guarantee.to_dict()["epsilon"])


def errors_in_words(plan: PlannedJob) -> list[str]:
    """Describe in sentences how far the released numbers of a planned count may be off, rounded up.

    >>> import polars as pl
    >>> values = {"events": pl.DataFrame({"at": ["2026-03-01T09:00Z"]}), "state": "loans.db"}
    >>> errors_in_words(check_job(values, look_at(job_of(values)))[1])
    ["a day's number is off by at most 3 in 95 of 100 days"]
    """
    definition, sentences = plan.definition, list[str]()
    noun = noun_of(definition.windows.every)
    of = "" if definition.by is None else f" of one {definition.by}"
    often = f"{percent(plan.level)} of 100"
    for number in plan.numbers:
        halves = [figures_above(one) for one in number.halfwidths]
        off = f"is off by at most {halves[0]}"
        if len(set(halves)) > 1 and definition.cut.lags:
            off += f" when it is first published and {halves[-1]} when it is final,"
        elif len(set(halves)) > 1:
            off += f" at first, {halves[len(halves) // 2]} half-way and {halves[-1]} at the end"
        if number.what == EACH_WINDOW:
            a = "an" if noun == "hour" else "a"
            sentences.append(f"{a} {noun}'s number{of} {off} in {often} {noun}s")
        else:
            sentences.append(f"the total so far{of} {off}, in {often}")
    return sentences

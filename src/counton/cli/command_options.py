"""Options of the command line, each stated once: the fields of dataclasses, with their defaults.

The docstring of a command's record is its help. Rooms below the command line know fields, not
options; here errors that name fields are translated to options.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from counton.base.options import Option, check_text
from counton.cli.exits import explain_errors
from counton.job.job import Job, OptionRecord, fields_of, option, options_of

_WIDTH = 94
JSON = "print one JSON object instead of text"
_ENDINGS = ".parquet, .csv, .json, .jsonl, .arrow or .xlsx"


def whole_number(text: str) -> int:
    """Parse an integer as people write it; typer's own message does not name the value."""
    try:
        return int(str(text).replace(",", "_"))  # a default is a number already
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a whole number; write it as in 8760") from error


def fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number; write it as in 0.95") from error


def argument(help: str, default: Any = ..., **more: Any) -> Any:
    """Define a field of a dataclass that is the argument of a command."""
    return option(default, help, argument=True, **more)


def of_job(name: str) -> Any:
    """Define a field of a dataclass for the option of the same name of a job."""
    item = options_of(Job)[name]
    return option(item.default, item.help, item.word, often=item.often)


_LIKE = (
    "with a table that lost its description in another tool: an unchanged table of the same "
    "stream, which has it"
)


@dataclass(frozen=True)
class Printing:
    """Options for the printed report of a run, for its job file, and for a plan alone."""

    plan: bool = option(
        False,
        "show what would be spent and published, and how large errors would be; release nothing",
        often=True,
    )
    save: Path | None = option(
        None, "write these options into a job file, for counton run, as in nightly.toml"
    )
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class RunOptions(OptionRecord):
    """Run the jobs of a file, one after the other, as every night.

    A job that fails is reported, and the others run all the same; the exit code is that of the
    first failure. counton count ... --save nightly.toml writes a job file; --schema prints all
    that it may hold. An option of this command overrides the file, in all jobs, for this run.
    """

    file: str | None = argument("a job file: TOML with [defaults] and [jobs.NAME]", None)
    only: str | None = option(
        None, "run only these jobs, A,B; default: all, in the order of the file"
    )
    until: str | None = of_job("until")
    yes: bool = of_job("yes")
    also: str | None = of_job("also")
    rename: str | None = of_job("rename")
    drop_waiting: bool = of_job("drop_waiting")
    dry_run: bool = option(
        False, "plan the jobs, read the rows and check what can be checked; write nothing"
    )
    schema: bool = option(False, "print the JSON schema of job files, and do nothing else")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class InitOptions(OptionRecord):
    """Make a job file for events: ask for each missing option, and suggest an answer.

    It reads the header and the first rows, spends nothing, and writes the job file alone. It does
    not ask for an option that is given. --yes asks nothing, and lists the options that are still
    missing. Then: counton run nightly.toml
    """

    events: str = argument(
        "CSV, Parquet or JSON lines, one row per event; a folder of them; or duckdb:///FILE"
    )
    save: Path = option(
        Path("nightly.toml"),
        "the job file to write; a file that exists is not overwritten without --force",
    )
    force: bool = option(False, "overwrite a job file that exists")
    yes: bool = option(False, "ask no questions: take the usual value of all that is not stated")
    time: str | None = of_job("time")
    time_format: str | None = of_job("time_format")
    timezone: str | None = of_job("timezone")
    every: str | None = of_job("every")
    start: str | None = of_job("start")
    steps: int | None = of_job("steps")
    around: int | None = of_job("around")
    watermark: str | None = of_job("watermark")
    revise: str | None = of_job("revise")
    clock_change: str | None = option(None, options_of(Job)["clock_change"].help)
    release: str | None = option(
        None, "which numbers to publish: totals (so far), windows (of each window alone), or both"
    )
    by: str | None = of_job("by")
    domain: str | None = option(None, options_of(Job)["domain"].help)
    other: str | None = of_job("other")
    unknown: str | None = option(None, options_of(Job)["unknown"].help)
    user: str | None = of_job("user")
    most: int | None = of_job("most")
    per: str | None = of_job("per")
    first: bool = of_job("first")
    unit: str | None = of_job("unit")
    epsilon: str | None = option(None, options_of(Job)["epsilon"].help)
    delta: str | None = option(None, options_of(Job)["delta"].help)
    rho: str | None = option(None, options_of(Job)["rho"].help)
    within: str | None = option(None, options_of(Job)["within"].help)
    missing: str | None = option(None, options_of(Job)["missing"].help)
    bad_rows: str | None = option(None, options_of(Job)["bad_rows"].help)
    id: str | None = of_job("id")
    append: bool = of_job("append")
    query: str | None = of_job("query")
    file_format: str | None = of_job("file_format")
    separator: str | None = option(None, options_of(Job)["separator"].help)
    state: str | None = option(None, "SQLite file or database URL; default: beside the events")
    name: str | None = option(None, "name of the stream; default: the name of the events' file")
    key: str | None = option(None, options_of(Job)["key"].help)
    witness: str | None = option(None, options_of(Job)["witness"].help)
    out: str | None = option(
        None, f"file for the released numbers ({_ENDINGS}); default: beside the events, as CSV"
    )


@dataclass(frozen=True)
class ServeOptions:
    """Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.

    Readers get the released series as JSON, CSV or Arrow, or live. serve-token makes the tokens.
    Several servers may share one PostgreSQL database: one of them releases.
    """

    file: str = argument("a job file: TOML with [defaults], [jobs.NAME] and [serve]")
    listen: str = option(
        "127.0.0.1:8080", "HOST:PORT at which the service listens; port 0 takes any free port"
    )
    only: str | None = option(None, "serve only these jobs, A,B; default: all")


@dataclass(frozen=True)
class TokenOptions:
    """List, make or revoke the tokens of a service, while it runs.

    A token is for ingest (sending rows), read (reading released series) or operate (seeing exact
    numbers, which only the operator of the service may see). Only digests of tokens are kept.
    """

    file: str = argument("the job file of the service")
    make: str | None = option(
        None,
        "make a token for ingest, read or operate, or several of them as A,B, and print "
        "it this once",
    )
    revoke: str | None = option(None, "revoke the token that has this id in the list")


@dataclass(frozen=True)
class SendOptions:
    """Send rows to a service in batches, each until it is acknowledged: each batch counts once.

    A file beside the rows notes the acknowledged ones. The same command later sends only new rows,
    even after it or the service was killed. From a pipe (-) rows are sent as they come.
    """

    rows: str = argument("JSON lines, or CSV with a header; - for JSON lines from standard input")
    to: str = option(..., "address of the stream: https://HOST/v1/streams/NAME")
    token: str | None = option(
        None,
        "token for ingest, or env:NAME, which others cannot see in the list of "
        "processes; default: env:COUNTON_TOKEN",
    )
    notes: Path | None = option(
        None, "file that notes which rows were acknowledged; default: FILE.sent; needed for a pipe"
    )
    batch_rows: int = option(5000, "how many rows a batch has at most")
    wait: float = option(1, "with a pipe: how many seconds a batch waits for more rows")
    patience: float = option(600, "for how many seconds to try a batch again before giving up")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class LeftOutOptions:
    """List the batches of rows that a service accepted and could not count, and why.

    Put a batch back once its fault is mended, or drop it, while the service runs. The list is
    exact: it is for you alone, and not to be published.
    """

    file: str = argument("the job file of the service")
    only: str | None = option(None, "list only these jobs, A,B; default: all")
    rows: str | None = option(
        None, "print the rows of the batch with this id as CSV; keep them secret"
    )
    put_back: str | None = option(None, "count the batch with this id now")
    drop: str | None = option(None, "drop the batch with this id: its rows are never counted")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class FitOptions:
    """Constraints that the shown numbers of a table keep, if its state states none."""

    integers: bool = option(False, "show whole numbers that add up")
    nonnegative: bool = option(
        False, "show no number below 0; this makes small counts too large on the average"
    )
    known: str | None = option(
        None,
        "public totals that the shown numbers add up to; a table with level columns and 'total'",
    )


@dataclass(frozen=True)
class OnceOptions:
    """Options of tables that are released once, under an earlier name."""

    move: bool = option(
        False,
        "another name for --replace: hide in which cell a unit is counted, not whether "
        "it is counted",
    )


@dataclass(frozen=True)
class PlanOptions(OptionRecord):
    """Show how accurate a release would be, before you spend anything: the exact error.

    Strategies are ranked, best first. --within finds the smallest epsilon for an accuracy that you
    want. A job file is planned whole: the error of every number of its jobs, and what they cost;
    --simulate shows what readers would see if the true numbers were those of a file. plan-expiring
    plans a stream whose protection fades; a table's own command plans it, with --plan. No rows are
    read.
    """

    asked: str | None = argument(
        "how many windows the stream will have until it ends, as with --steps; or a job file "
        "to plan",
        None,
        often=True,
    )
    steps: int | None = of_job("steps")
    epsilon: str | None = option(
        None, "privacy loss of one event, or with --most of one user", often=True
    )
    delta: str | None = option(
        None, "with --epsilon: the delta of (epsilon, delta) privacy, as in 1e-6", often=True
    )
    rho: str | None = of_job("rho")
    within: str | None = option(
        None,
        "find the smallest epsilon (or rho) so that an interval at the last step reaches at most "
        "this far to either side: 20, 2% of --size, or by name, count=20,mean=0.5",
        often=True,
    )
    level: float | None = option(
        None,
        "with --within or a job file: probability that an interval holds the true number",
        often=True,
    )
    least: str | None = option(
        None, "with --within: which number to find, epsilon (default) or rho"
    )
    size: int | None = option(
        None, "how many rows there will be by the last step; the number must be public"
    )
    metric: str | None = of_job("metric")
    release: str | None = option(
        None, "which numbers must be accurate: totals, windows or both", often=True
    )
    around: int | None = option(
        None, "plan a stream without an end for this many first windows", often=True
    )
    simple: bool = of_job("simple")
    most: int | None = option(
        None,
        "protect users instead of single events; at most this many events of a user count",
        often=True,
    )
    per: str | None = option(
        None,
        "with --most: apply --most to each period of this length, as in 1d; protects what a user "
        "does in one period",
        needs="most",
    )
    most_a_window: int | None = option(
        None, "with --most: how many of a user's events count in one window", needs="most"
    )
    of: str | None = option(
        None,
        "plan this statistic; write it with the options that define it: 'distinct --changes 4'",
        often=True,
    )
    each_row: bool = option(
        False, "with --of: each row is a step of its own, as in a run without --time", needs="of"
    )
    simulate: str | None = option(
        None,
        "with a job file: show what readers would see if the numbers in this CSV file were the "
        "true ones; it has step, group and number; for one job of several, JOB=FILE",
        often=True,
    )
    out: Path | None = option(
        None, "with --simulate: write what readers would see, as a table or a chart"
    )
    strategy: str | None = option(
        None,
        "rank only these, A,B: strategies as in count --strategy, or mechanisms exactly as in "
        "their papers, such as smooth-paper; auto: all",
        often=True,
    )
    over: str | None = option(
        None,
        "compare strategies at several numbers of windows: 10,100, or 16:4096, which "
        "doubles from 16 to 4096",
    )
    plot: Path | None = option(
        None,
        "file for a chart of the errors over time, or with --over by number of windows",
        often=True,
    )
    width: float | None = of_job("width")
    full: bool = option(False, "show all strategies, their costs, and lower bounds of the error")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class ExpiringPlanOptions(OptionRecord):
    """Plan a stream without an end, whose protection fades with age: state the largest losses.

    The plan finds the growth, the delay and the loss of the newest event, with the least error, and
    shows what one event has lost at each age. No rows are read.
    """

    epsilon: str | None = option(
        None,
        "largest privacy loss of an event by its age, as in 1d:1,365d:3: 1 within a day, "
        "3 within a year",
    )
    rho: str | None = option(
        None, "largest loss by age in rho instead (Gaussian noise), as in 1d:.1,365d:.3"
    )
    every: str | None = option(None, "length of a window: 15m, 1h, 1d, 1w, 1mo")
    per_step: float = option(1, "expected events per window; the error of a delay grows with them")
    rmse: float | None = option(None, "root-mean-square error that the plan must reach")
    largest_error: float | None = option(None, "bound that no error exceeds, with probability 2/3")
    steps: int | None = option(
        None, "number of windows whose errors are averaged; default: the largest age"
    )
    largest_growth: str | None = option(None, "largest growth to try, from 0 on; default: 2")
    plot: Path | None = option(None, "file for a chart of the loss by age: .png, .svg or .pdf")
    width: float | None = of_job("width")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class InspectOptions(OptionRecord):
    """Ask privately how many events users have, to choose --most, or for bounds of values.

    The answer is a release of its own: it protects users, and the ledger of the state records it.
    The answer and a plan (--plan) show what each bound keeps and costs. --exact shows exact numbers
    instead, and protects nobody: use it only for data that is public.
    """

    events: str = argument("CSV, Parquet or JSON lines, one row per event; - for standard input")
    user: str = option(..., "column that names the user of each event")
    epsilon: str | None = option(
        None, "privacy loss of the answer for one user, or with --per for one period of a user"
    )
    delta: str | None = option(
        None, "with --epsilon: the delta of (epsilon, delta) privacy, as in 1e-6"
    )
    rho: str | None = of_job("rho")
    state: str | None = option(
        None, "SQLite file or database URL whose ledger records the answer; keep it secret"
    )
    key: str | None = option(None, "file of the key, env:NAME or command:...; default: STATE.key")
    ledger: str | None = option(
        None, "state (file or URL) that holds the privacy limit of several states"
    )
    party: str | None = of_job("party")
    name: str | None = option(None, "name of the release; default: inspect, or inspect-bounds")
    unit: str | None = option(
        None, "what the ledger calls a user, as in visitor; default: user, or as the state calls it"
    )
    share: str = option(
        "0.95",
        "share of the users: the answer is a number of events that this share of the users does "
        "not exceed; or several shares: A,B",
    )
    at_most: int = option(
        1024,
        "largest number of events to tell apart; users with more are treated as if they had "
        "this many",
    )
    bounds: str | None = option(
        None, "column of values: find the bounds between which this share of the values lies"
    )
    most: int | None = option(None, "with --bounds: how many values of a user count at most")
    lower: str | None = option(None, "with --bounds and --cells: lower end of the cells")
    upper: str | None = option(None, "with --bounds and --cells: upper end of the cells")
    cells: int | None = option(
        None, "with --bounds: how many cells of equal width to count values in"
    )
    edges: str | None = option(
        None,
        "with --bounds: ends of the cells to count values in, as in 0,10,100; default: "
        "powers of two",
    )
    per: str | None = option(
        None, "count the events of each user in each period of this length, as in 1d; needs --time"
    )
    time: str | None = option(None, "column with the time of each event; with --per")
    timezone: str = option("UTC", "time zone of times without a zone, and of periods")
    sweep: str | None = option(
        None,
        "values of --most to compare, by the rows they keep and the noise they cost: "
        "1,2,5,10; default: values up to the answer",
    )
    plan: str | None = option(
        None, "show also the noise of this later stream: 'count --steps 366 --epsilon 1'"
    )
    level: float = option(0.95, "probability that each interval holds the true number")
    exact: bool = option(False, "NOT PRIVATE: show exact numbers; use it only for public data")
    plot: Path | None = option(
        None, "file for a chart of noise and lost rows by --most: .png, .svg or .pdf"
    )
    width: float | None = of_job("width")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class DemoOptions:
    """Run an example: a year of departures from New York's airports, hour by hour.

    Writes the events, a table and a chart into a folder, and shows the command that made them. The
    data come with counton's extra demo.
    """

    folder: str = option("demo", "folder for the data, the state and the results")
    expire: bool = option(False, "show a stream without an end, whose protection fades with age")


@dataclass(frozen=True)
class EndOptions:
    """End a stream: it releases nothing more, and what it has spent stays spent.

    Another stream can go on from there (--continues) under a new guarantee, and a new key if you
    give one. The command refuses while rows wait to be counted; --drop-waiting drops them.
    """

    state: str = argument("SQLite file or database URL that keeps the stream; secret")
    name: str | None = option(None, "name of the stream; needed if there are several")
    drop_waiting: bool = option(False, "drop the rows that still wait to be counted")


@dataclass(frozen=True)
class ForgetOptions:
    """Delete what a state keeps of a person, or of all people of long ago (--older).

    A state keeps digests of the people whose rows have counted. Released numbers and sums stay as
    they are. A service may run meanwhile: give --wait 60. The rows themselves, and copies of the
    state, are yours to delete.
    """

    state: str = argument("SQLite file or database URL that keeps the streams; secret")
    person: str | None = argument("the user to forget, as written in the rows", None)
    age: str | None = option(
        None,
        "instead of one user: forget all users of periods that ended this long ago, as in 90d "
        "or 12w",
        "older",
    )
    name: str | None = option(
        None, "forget in this stream only; default: in all streams of the state"
    )
    key: str | None = option(
        None, "where the key is: a file, env:NAME or command:...; default: STATE.key"
    )
    wait: int = option(
        0, "while a service runs: for how many seconds to wait until it has counted the rows it has"
    )
    yes: bool = option(
        False,
        "forget the user even if, as a result, a thousandth of all new users no longer counts",
    )


@dataclass(frozen=True)
class LedgerOptions:
    """Show what the streams of a state have spent of privacy, and set a limit.

    A new stream that would exceed the limit is refused. Set the limit before anything is released:
    the state may be new.
    """

    state: str = argument("SQLite file or database URL that keeps the releases; secret")
    epsilon: str | None = option(
        None, "limit of epsilon for all streams of the state together", "limit-epsilon"
    )
    delta: str | None = option(None, "with --limit-epsilon: limit of delta", "limit-delta")
    rho: str | None = option(
        None, "limit of rho (zero-concentrated privacy), instead of epsilon", "limit-rho"
    )
    age: int | None = option(
        None,
        "for streams with --expire: the limit holds for events up to this many windows old",
        "limit-age",
    )
    approximate_delta: str | None = option(
        None,
        "with --limit-delta: the part of it that guarantees with a delta of their own may spend",
        "limit-approximate-delta",
    )
    relation: str | None = option(
        None,
        "how neighbouring data differ, for all units: add_remove (a unit is added or removed) "
        "or replace (a unit is exchanged); default: as in the first release",
        "limit-relation",
    )
    unit: str | None = option(
        None,
        'unit that the limit protects, as in reader or "reader\'s month"; a release that protects '
        "less is refused; default: the unit of each release, each unit apart",
        "limit-unit",
    )
    allow_raise: bool = option(
        False,
        "raise a limit, or change it in any way but lowering it; the ledger notes who did it, and "
        "when",
        "raise",
    )
    quota: str | None = option(
        None,
        "party that may spend at most a part of the limit; needs --quota-epsilon or --quota-rho; "
        "from the first quota on, each new release names a party that has one (--party)",
    )
    quota_epsilon: str | None = option(None, "with --quota: epsilon of the party", "quota-epsilon")
    quota_delta: str | None = option(None, "with --quota: delta of the party", "quota-delta")
    quota_rho: str | None = option(None, "with --quota: rho of the party", "quota-rho")
    add: str | None = option(
        None,
        "record what another program spent, under this name; needs --epsilon or --rho, and --unit",
    )
    add_epsilon: str | None = option(None, "with --add: its epsilon", "epsilon")
    add_delta: str | None = option(None, "with --add: its delta", "delta")
    add_rho: str | None = option(None, "with --add: its rho", "rho")
    add_unit: str | None = option(
        None, "with --add: unit that the other program protects, as in reader", "unit"
    )
    add_relation: str = option(
        "add_remove",
        "with --add: how its neighbouring data differ: add_remove (a unit is added or removed) "
        "or replace (a unit is exchanged)",
        "relation",
        choices=("add_remove", "replace"),
    )
    add_party: str | None = option(
        None, "with --add: party whose quota the other program spends", "party"
    )
    history: bool = option(
        False,
        "show all entries and all changes of the limit by time, with users and parties, instead "
        "of the table of entries",
    )
    warn_at: float | None = option(
        None,
        "end with exit code 10 if at least this share of the limit is spent, as in .8",
    )
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class WatchOptions:
    """Find changes of level in what was released, with a stated rate of false alarms.

    Released numbers are enough: alarms cost no privacy and need no key. The exit code is 10 if the
    newest window has an alarm. Level, weekday and spread are learnt from the earlier windows.
    """

    source: str = argument(
        "a table that was written, several with commas between, a database that `publish` wrote, a "
        "state, or a stream of a service: https://counts.example/v1/streams/visits"
    )
    name: str | None = option(None, "name of the stream, if a database has several")
    groups: str | None = option(None, "watch only these groups: A,B", often=True)
    false_alarms: float = option(
        1.0,
        "how many false alarms a year to accept, over all groups together",
        kind=fraction,
        often=True,
    )
    over: str | None = option(
        None,
        "length of the changes to look for, as in 1d or 30d; default: changes that last",
        often=True,
    )
    change: float | None = option(
        None,
        "also say how long it takes until a lasting change of this size, in each window, gives "
        "an alarm",
        kind=fraction,
        often=True,
    )
    trend: bool = option(False, "do not take steady growth or decline for a change")
    token: str | None = option(
        None, "token for the service, or env:NAME; default: env:COUNTON_TOKEN"
    )
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class ShowOptions:
    """Show what a state or a released table holds: last numbers, promises and strategies.

    --full shows the account of each promise. Shows no secrets and needs no key. A released table or
    a published database carries all that is public about its stream.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or what is public: a table, "
        "several with commas between, a database that `publish` wrote, a stream of a service"
    )
    name: str | None = option(None, "which stream to show; default: all")
    like: str | None = option(None, _LIKE)
    full: bool = option(
        False,
        "also show the account of each promise: who is protected, from whom, and at what cost",
    )
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class UpgradeOptions:
    """Carry a state of an earlier version over to the format of this one.

    The first run that writes does the same; commands that read need no upgrade. A copy of the old
    state is kept beside it. Programs of the earlier version that still use the state are refused.
    """

    state: str = argument("SQLite file or database URL that keeps the releases, secret")
    no_copy: bool = option(False, "keep no copy of the state before the upgrade")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class BackupOptions:
    """Copy a state that is a SQLite file, even while a run or a service writes it.

    The copy lacks the key and the witness; keep these in another place.
    """

    state: str = argument("SQLite file that keeps the releases; secret")
    out: Path = option(..., "file for the copy; a file that exists is never overwritten")


@dataclass(frozen=True)
class MethodsOptions:
    """Write the text that a website prints with the numbers: subject, time, protection, error.

    Some five sentences for everybody; the whole account (attacker, mechanism, what is not
    protected, sources) is --full. A state is enough, or a released table, a published database or
    a service.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or a released table"
    )
    name: str | None = option(None, "write about this stream or table only; default: all")
    level: float | None = option(
        None, "probability that an interval holds the true number; default: as in the files"
    )
    full: bool = option(
        False, "write the whole account, for specialists, instead of some five sentences"
    )
    registry: bool = option(
        False, "print a record for the public register of deployments instead, as YAML"
    )
    like: str | None = option(None, _LIKE)
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class KeyOptions:
    """Draw a key and write it to a new file, for a vault or for --key.

    The key is never shown. A new state derives a key of its own from the key that you give it.
    """

    file: str = argument("file for the key; a file that exists is never overwritten")


@dataclass(frozen=True)
class ExportOptions:
    """Write what was released again, as a table or a chart, from a state or a released table.

    Choose any steps, any groups and intervals of any level. No key is needed, and nobody who
    writes the stream is disturbed.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or a job file; or what is "
        "public: a table, several with commas between, a database that `publish` wrote, a stream "
        "of a service"
    )
    name: str | None = option(None, "name of the stream or table; needed if there are several")
    out: Path | None = option(
        None,
        f"write a table ({_ENDINGS}), a chart (.png, .svg, .pdf), a page for a website (.html), or "
        "without an ending a folder of Parquet files by step; default: print; '{name}.csv' writes "
        "a file for each release",
    )
    steps: str | None = option(
        None,
        "only these steps, the first and the last: 25:48, 25: or :48; or days, "
        "2024-03-18:2024-03-24",
    )
    start: str | None = option(None, "only windows that begin at this time or later")
    until: str | None = option(None, "only windows that end by this time")
    groups: str | None = option(None, "only these groups, in this order: A,B,C")
    as_of: str | None = option(
        None,
        "for windows that are revised: the versions known by the end of this day, or at this time",
    )
    versions: str | None = option(
        None,
        "for windows that are revised: all writes a row for each version; epiprocess writes "
        "the columns geo_value, time_value, version and value of that R package",
        choices=("all", "epiprocess"),
    )
    above: float | None = option(
        None, "only rows whose estimate is above this, or whose group has such a row"
    )
    surely_above: float | None = option(None, "only rows whose whole interval is above this")
    csv_formulas: str = of_job("csv_formulas")
    separator: str = option(",", "with .csv: the character between fields: , ; | or tab")
    decimal: str = option(".", "with .csv: the decimal sign of numbers: . or ,", choices=(".", ","))
    metadata: str | None = option(
        None,
        "with .csv: write beside it a description for data catalogues: csvw, dcat or "
        "sdmx, or several: A,B",
    )
    panels: bool = option(
        False, "with a chart: draw one panel for each group; of more than 24, the largest 24"
    )
    title: str | None = of_job("title")
    axis: str | None = of_job("axis")
    source: str | None = of_job("source")
    width: float | None = of_job("width")
    locale: str | None = of_job("locale")
    level: float | None = option(
        None, "probability that an interval holds the true number; default: as before, or 0.95"
    )
    like: str | None = option(None, _LIKE)
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class AnswerOptions:
    """Answer questions from what was released: differences, ratios, shares, sums.

    A released table is enough, since it carries all that is public about its stream; no key is
    needed. A state, or the address of a stream of a service, does as well. Put a service's token
    into the environment: everyone on the machine can see the options of a running command.
    """

    source: str = argument(
        "a table that was written, several with commas between, a database that `publish` wrote, a "
        "state, or a stream of a service: https://counts.example/v1/streams/visits"
    )
    name: str | None = option(None, "name of the stream, if a database has several")
    part: str | None = option(None, "which statistic to ask, if the stream is a report of several")
    token: str | None = option(
        None, "token for the service, or env:NAME; default: env:COUNTON_TOKEN"
    )
    difference: list[str] | None = option(
        None,
        "how much more one group has than another: A,B; if there are no groups, two numbers of "
        "the statistic, such as mean; repeat it for more questions, whose intervals then hold "
        "together",
    )
    ratio: list[str] | None = option(
        None, "how many times as much one group has as another: A,B; may be repeated"
    )
    change: list[str] | None = option(
        None, "by how many per cent one group has more than another: A,B; may be repeated"
    )
    share: list[str] | None = option(
        None, "share of these groups in all groups: A, or A,B; may be repeated"
    )
    of: str | None = option(
        None, "which number of each group to take, if the statistic has several: mean, count, 0.9"
    )
    beside: str | None = option(
        None, "compare with this other table, state or address, which has the second group", "with"
    )
    steps: str | None = option(
        None,
        "only these steps: 25:48 (both included), 25:, :48 or 25, or days 2024-03-18:2024-03-24",
    )
    start: str | None = option(None, "only windows that begin then or later")
    until: str | None = option(None, "only windows that end by then")
    other_steps: str | None = option(
        None, "take the second group at these steps instead: this compares two periods"
    )
    total: list[str] | None = option(
        None,
        "how much these groups have together: A, or A,B; all: every group; may be repeated",
    )
    as_of: str | None = option(
        None,
        "for windows that are revised: the versions known by the end of this day, or at this time",
    )
    revision: list[str] | None = option(
        None,
        "how much a revised window changed since its first version, up to --as-of or now: "
        "WINDOW, as in 2024-03-18, or WINDOW,GROUP; may be repeated",
    )
    nowcast: bool = option(
        False,
        "estimate what windows that are not final yet will be, by the delays of earlier windows",
    )
    sums: str | None = option(None, "add up each period: 1d, 1w or 1mo")
    by: list[str] | None = option(
        None,
        "average by hour (of the day) or by weekday; both, given one after the other: by each "
        "hour of the week",
    )
    changes: bool = option(
        False,
        "how much each group changed from --other-steps to --steps, the largest change first; "
        "all intervals hold together",
        "largest-change",
    )
    band: bool = option(
        False, "all rows, with intervals that hold together for all steps and groups"
    )
    hidden: bool = option(False, "upper bound of the number of a group that is not shown")
    out: Path | None = option(
        None, "file for all rows of the answer: .csv, .parquet, .json, .jsonl, .arrow or .xlsx"
    )
    plot: Path | None = option(
        None, "file for a chart of the answers, with their intervals: .png, .svg or .pdf"
    )
    level: float | None = option(
        None, "probability that an interval holds the true number; default: as in the table"
    )
    like: str | None = option(None, _LIKE)
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class PublishOptions:
    """Write releases into plain database tables, for Grafana, Metabase or psql.

    The view counton_releases shows them. Run the command after each release; within the state's own
    database every later run publishes by itself.
    """

    state: str = argument("SQLite file or database URL that keeps the stream; secret")
    to: str | None = option(
        None, "database to publish into, a SQLite file or a URL; default: the state's own"
    )
    name: str | None = option(None, "name of the stream; needed if there are several")
    level: float | None = option(
        None, "probability that an interval holds the true number; default: as before, or 0.95"
    )
    remove: bool = option(False, "remove the stream's rows from the database instead")
    key: str | None = option(
        None,
        "where the key is, if not beside the state; its witness reveals an old copy",
    )
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class VerifyOptions:
    """Compute every released value again, from sums and key, and compare with the journal.

    The state does not change. Exit code 0: all is right; 3: something differs; 6: a key is
    missing; 7: the state is an old copy.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or what is public: a table, "
        "a database that `publish` wrote, a stream of a service"
    )
    name: str | None = option(None, "verify only this stream or table; default: all")
    key: list[str] | None = option(
        None,
        "where the key is: a file, env:NAME or command:...; default: STATE.key; repeat it for "
        "a state with several keys",
    )
    by_reference: bool = option(
        False,
        "also compute each value by counton.reference, a program of one file that shares no "
        "code with the rest: seconds to minutes for a stream",
    )
    accept_old_copy: bool = option(
        False,
        "accept this state as the newest, though no witness here can confirm it (it is lost, "
        "or another machine wrote last); if it is an old copy, exact differences leak",
    )
    json: bool = option(False, JSON)


#: Names in messages that stand for commands, not for options.
_COMMANDS = {
    "what": "counton",
    "end_stream(state, name)": "counton end STATE --name NAME",
    "accept_old_copy": "counton verify --accept-old-copy",
    "plan_expiring(...)": "counton plan-expiring --epsilon 1d:1,365d:3 --every 1h",
}
_PARSERS: dict[str, Callable[[str], Any]] = {"whole": whole_number, "number": fraction}


def takes(
    *kinds: type,
    own: Sequence[Option] = (),
    unneeded: Mapping[str, Any] | None = None,
    **fixed: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function of dataclasses into a command: typer sees their fields as parameters.

    Args:
        kinds: one dataclass for each argument of the function.
        own: options of a statistic, which `Job` takes besides its fields.
        unneeded: fields that may be left out, and their default values.
        fixed: values of fields that are no options of this command.

    >>> @dataclass(frozen=True)
    ... class Options:
    ...     events: str = argument("a file")
    ...     append: bool = option(False, "the file holds new events only")
    >>> @takes(Options)
    ... def command(options: Options) -> None:
    ...     print(options)
    >>> command(events="visits.csv", append=True)
    Options(events='visits.csv', append=True)
    """
    stated: dict[str, Option] = {}
    for kind in kinds:
        for name, entry in options_of(kind).items():
            if unneeded is not None and name in unneeded:
                entry = replace(entry, needed=False, default=unneeded[name])
            stated[name] = entry
            if kind is Job and name == "state":
                # A later run may leave out options that define its statistic.
                stated |= {one.name: replace(one, needed=False, default=None) for one in own}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if entry.needed else entry.default,
            annotation=_parameter_of(entry),
        )
        for name, entry in stated.items()
        if name not in fixed
    ]
    own_names = {option.name for option in own}

    def names() -> Mapping[str, str]:
        return words_of(*kinds)

    def make_command(perform: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            given |= fixed
            with explain_errors(names):
                for name, value in given.items():
                    for one in value if isinstance(value, list) else [value]:
                        check_text(name, str(one))
                values = []
                for kind in kinds:
                    wanted = {item.name for _, item in fields_of(kind)}
                    wanted |= own_names if kind is Job else set()
                    if kind is Job and given["state"] is None:
                        from counton.run.first_job import state_beside

                        given["state"] = state_beside(given["events"], append=given["append"])
                    values.append(kind(**{name: given[name] for name in given if name in wanted}))
                perform(*values)

        command.__name__, command.__doc__ = perform.__name__, perform.__doc__
        command.__annotations__ = {field.name: field.annotation for field in parameters}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=None
        )
        return command

    return make_command


def words_of(*kinds: type) -> Mapping[str, str]:
    """Return the command line's names of all fields that an error about dataclasses may name."""
    found = option_names(*kinds)
    if not {Job, PlanOptions, InspectOptions}.isdisjoint(
        kinds
    ):  # plan and inspect take words of a job
        from counton.job.stated_options import all_options

        known = {**all_options(), **options_of(Job)}
        found = {name: f"--{item.key}" for name, item in known.items()} | found
    return found


def of_statistic(name: str) -> dict[str, Any]:
    """Return arguments of `takes` for a statistic: its own options, and values of absent ones.

    >>> of_statistic("count")["own"], of_statistic("count")["what"]
    ((), 'count')
    """
    from counton.job.stated_options import statistic_class

    of = statistic_class(name)
    defaults = {one: option.default for one, option in options_of(Job).items()}
    gone = {one: defaults[one] for one in _OF_READINGS if one not in of.card.shows}
    return {"own": of.card.options, "what": name, **gone}


#: Options for views of released numbers, which only some statistics have.
_OF_READINGS = ("shares", "ask", "cut", "over", "sums", "integers", "nonnegative", "known")


def often_of(*kinds: type) -> list[str]:
    """Return the fields of dataclasses that are on the first page of help.

    >>> often_of(Job)[:3]
    ['events', 'state', 'time']
    """
    return [one.name for kind in kinds for one in options_of(kind).values() if one.often]


def option_names(*kinds: type) -> dict[str, str]:
    """Map each field of some dataclasses to its name in the command line, such as ``--out``.

    >>> option_names(Job)["start"]
    '--start'
    """
    return _COMMANDS | {
        name: name.upper() if item.argument else f"--{item.key}"
        for kind in kinds
        for name, item in options_of(kind).items()
    }


def command_line(command: str, *values: Any) -> str:
    r"""Write the command with these options, in lines that fit a page.

    >>> ledger = LedgerOptions("my visits.db", epsilon="2", age=24)
    >>> print(command_line("ledger", ledger))
    counton ledger 'my visits.db' --limit-epsilon 2 --limit-age 24
    """
    words = []
    for given in values:
        kind: type = type(given)
        names = option_names(kind)
        read = given.option if isinstance(given, Job) else partial(getattr, given)
        stated = [(name, read(name), item.default) for name, item in options_of(kind).items()]
        if isinstance(given, Job):
            names |= {name: f"--{name.replace('_', '-')}" for name in given.options}
            stated += [(name, value, None) for name, value in given.options.items()]
            usual = given.having(name="").keeping.name
            stated = [one for one in stated if one[:2] != ("name", usual)]
        for name, value, default in stated:
            if value is True:
                words.append(names[name])
            elif names[name].startswith("--") and value != default:
                words.append(f"{names[name]} {shlex.quote(str(value))}")
            elif not names[name].startswith("--"):
                given_values = value if isinstance(value, list) else [value]
                words[:0] = [shlex.quote(str(one)) for one in given_values]
    lines = [f"counton {command}"]
    for place, word in enumerate(words):
        if place and len(lines[-1]) + len(word) > _WIDTH:
            lines.append("     ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


#: Types of values for the command line, by kind.
_TYPES: dict[str, Any] = {
    "text": str | None,
    "texts": list[str] | None,
    "whole": int | None,
    "number": float | None,
    "flag": bool,
    "path": Path | None,
}


def _parameter_of(item: Option) -> Any:
    """Return the type of an option for typer: a flag has no second name for false."""
    given: Any = _TYPES[item.kind]
    if item.kind == "text" and (item.needed or isinstance(item.default, str)):
        given = str
    if item.kind == "texts" or (item.argument and item.several):
        given = list[str]
    parser = _PARSERS.get(item.kind)
    if item.argument:
        return Annotated[given, typer.Argument(help=item.help)]
    heading = item.heading or None
    parameter = typer.Option(
        f"--{item.key}", help=item.help, rich_help_panel=heading, parser=parser
    )
    return Annotated[given, parameter]

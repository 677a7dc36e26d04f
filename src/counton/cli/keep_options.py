"""Options of commands that keep a state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import JSON, argument
from counton.job.job import option


@dataclass(frozen=True)
class EndOptions:
    """End a stream: it releases nothing more, and what it has spent stays spent.

    The command refuses while rows wait to be counted; --drop-waiting drops them.
    """

    state: str = argument("SQLite file or database URL that keeps the stream; secret")
    name: str | None = option("name of the stream; needed if there are several")
    drop_waiting: bool = option("drop the rows that still wait to be counted", default=False)
    withdrawn: str | None = option(
        "mark the numbers as withdrawn, with these public words: why, and what replaces them. The "
        "description of every later table, chart, page, published database and methods text says "
        "so; files written before do not. A table released once can be withdrawn too"
    )


@dataclass(frozen=True)
class MarkOptions:
    """Put a public note beside a wrong number, in all later tables, pages, charts and texts.

    Day and note are published as they are written, and nothing protects a choice that was made by
    exact numbers. The stream goes on.
    """

    state: str = argument("SQLite file or database URL that keeps the stream; secret")
    window: str = option("a moment in the window, as in 2019-01-20", default=...)
    note: str = option("one line that says why the number is wrong", default=...)
    group: str | None = option("the group whose number is wrong; default: all")
    name: str | None = option("name of the stream; needed if there are several")
    withdraw: bool = option(
        "take the number out of later tables; what was published stays published", default=False
    )


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
        "instead of one user: forget all users of periods that ended this long ago, as in 90d "
        "or 12w",
        "older",
    )
    name: str | None = option("forget in this stream only; default: in all streams of the state")
    key: str | None = option(
        "where the key is: a file, env:NAME or command:...; default: STATE.key"
    )
    wait: int = option(
        "while a service runs: for how many seconds to wait until it has counted the rows it has",
        default=0,
    )
    yes: bool = option(
        "forget the user even if, as a result, a thousandth of all new users no longer counts",
        default=False,
    )


@dataclass(frozen=True)
class LedgerOptions:
    """Show how much privacy the streams of a state have spent, and set a limit.

    A new stream that would exceed the limit is refused. Set the limit before anything is released:
    the state may be new.
    """

    state: str = argument("SQLite file or database URL that keeps the releases; secret", often=True)
    epsilon: str | None = option(
        "most epsilon that all streams of the state may spend together", "limit-epsilon", often=True
    )
    delta: str | None = option("with --limit-epsilon: limit of delta", "limit-delta")
    rho: str | None = option(
        "limit of rho (zero-concentrated privacy), instead of epsilon", "limit-rho"
    )
    age: int | None = option(
        "for streams with --expire: the limit holds for events up to this many windows old",
        "limit-age",
    )
    approximate_delta: str | None = option(
        "with --limit-delta: the part of it that guarantees with a delta of their own may spend",
        "limit-approximate-delta",
    )
    relation: str | None = option(
        "what is protected of every unit: add_remove (whether its rows are there) or replace "
        "(what its rows hold); default: as in the first release",
        "limit-relation",
    )
    unit: str | None = option(
        "whom the limit protects: reader, with all rows of a reader for ever, or "
        '"reader\'s month", with the rows of one month (--per 1mo; for a year --per 12mo); a '
        "release that protects less is refused; default: the unit of each release, each unit apart",
        "limit-unit",
        often=True,
    )
    allow_raise: bool = option(
        "needed for each change of a limit but a lower one; the ledger notes who made it, and when",
        "raise",
        default=False,
        often=True,
    )
    add: str | None = option(
        "record what another program spent, under this name; needs --epsilon or --rho, and --unit"
    )
    add_epsilon: str | None = option("with --add: its epsilon", "epsilon")
    add_delta: str | None = option("with --add: its delta", "delta")
    add_rho: str | None = option("with --add: its rho", "rho")
    add_unit: str | None = option(
        "with --add: unit that the other program protects, as in reader", "unit"
    )
    add_relation: str = option(
        "with --add: how its neighbouring data differ: add_remove (a unit is added or removed) "
        "or replace (a unit is exchanged)",
        "relation",
        default="add_remove",
        choices=("add_remove", "replace"),
    )
    history: bool = option(
        "show all entries and all changes of the limit by time, instead of the table of entries; "
        "with users",
        default=False,
        often=True,
    )
    warn_at: float | None = option(
        "end with exit code 10 if at least this share of the limit is spent, as in .8", often=True
    )
    json: bool = option(JSON, default=False)


@dataclass(frozen=True)
class BackupOptions:
    """Copy a state that is a SQLite file, even while a run or a service writes it.

    The copy lacks the key and the witness; keep these in another place.
    """

    state: str = argument("SQLite file that keeps the releases; secret")
    out: Path = option("file for the copy; a file that exists is never overwritten", default=...)


@dataclass(frozen=True)
class VerifyOptions:
    """Compute every released value again, from sums and key, and compare with the journal.

    The state does not change. Exit code 0: all is right; 3: something differs; 6: a key is
    missing; 7: the state is an old copy.
    """

    state: str = argument("SQLite file or database URL that keeps the releases, secret")
    name: str | None = option("verify only this stream or table; default: all")
    key: str | None = option(
        "where the key is: a file, env:NAME or command:...; default: STATE.key"
    )
    witness: str | None = option("folder of the state's witness, if the file was moved there")
    accept_old_copy: bool = option(
        "accept this state as the newest, though its witness cannot confirm it, or is lost; if "
        "it is an old copy, exact differences leak",
        default=False,
    )
    json: bool = option(JSON, default=False)

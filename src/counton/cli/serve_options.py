"""Options of a service, and of the commands that send it rows and keep its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import JSON, argument
from counton.job.job import option


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

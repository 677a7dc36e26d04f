"""Options of a service, and of the command that sends it rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import JSON, argument
from counton.job.job import option


@dataclass(frozen=True)
class ServeOptions:
    """Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.

    Readers get the released series as JSON or CSV, or live. The first start makes a token to write
    and a token to read, in JOBFILE.tokens. Several servers may
    share one PostgreSQL database: one of them releases.
    """

    file: str = argument("a job file: TOML with [defaults], [jobs.NAME] and [serve]")
    listen: str = option(
        "127.0.0.1:8080", "HOST:PORT at which the service listens; port 0 takes any free port"
    )
    only: str | None = option(None, "serve only these jobs, A,B; default: all")


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
        "token to write, or env:NAME, which others cannot see in the list of "
        "processes; default: env:COUNTON_TOKEN",
    )
    notes: Path | None = option(
        None, "file that notes which rows were acknowledged; default: FILE.sent; needed for a pipe"
    )
    batch_rows: int = option(5000, "how many rows a batch has at most")
    wait: float = option(1, "with a pipe: how many seconds a batch waits for more rows")
    patience: float = option(600, "for how many seconds to try a batch again before giving up")
    json: bool = option(False, JSON)

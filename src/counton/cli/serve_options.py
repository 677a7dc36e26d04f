"""Options of a service."""

from __future__ import annotations

from dataclasses import dataclass

from counton.cli.command_options import argument
from counton.job.job import option


@dataclass(frozen=True)
class ServeOptions:
    """Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.

    Readers get the released series as JSON or CSV. The first start makes a token to write and a
    token to read, in JOBFILE.tokens. Several servers may share one PostgreSQL database: one of them
    releases.
    """

    file: str = argument("a job file: TOML with [defaults], [jobs.NAME] and [serve]")
    listen: str = option(
        "HOST:PORT at which the service listens; port 0 takes any free port",
        default="127.0.0.1:8080",
    )
    only: str | None = option("serve only these jobs, A,B; default: all")

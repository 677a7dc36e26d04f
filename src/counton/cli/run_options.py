"""Options of ``run``."""

from __future__ import annotations

from dataclasses import dataclass

from counton.cli.command_options import JSON, argument, of_job
from counton.job.job import OptionRecord, option


@dataclass(frozen=True)
class RunOptions(OptionRecord):
    """Run the jobs of a file, one after the other, as every night.

    A job that fails is reported, and the others run all the same; the exit code is that of the
    first failure. counton count ... --save nightly.toml writes a job file; --schema prints all
    that it may hold. An option of this command overrides the file, in all jobs, for this run.
    """

    file: str | None = argument("a job file: TOML with [defaults] and [jobs.NAME]", None)
    only: str | None = option("run only these jobs, A,B; default: all, in the order of the file")
    until: str | None = of_job("until")
    yes: bool = of_job("yes")
    dry_run: bool = option(
        "plan the jobs, read the rows and check what can be checked; write nothing", default=False
    )
    schema: bool = option("print the JSON schema of job files, and do nothing else", default=False)
    json: bool = option(JSON, default=False)

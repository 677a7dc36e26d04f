"""The command ``run``: the jobs of a file, one after the other."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

from counton.cli.exits import ExitCode, exit_code
from counton.cli.options import RunOptions, option_names
from counton.cli.printing import print_json, print_line
from counton.cli.run import carried_out
from counton.errors import CountonError, InvalidInput
from counton.jobs.job import Job
from counton.jobs.jobfile import chosen, load, schema_text


def perform(options: RunOptions) -> None:
    """Carry out the jobs; each by itself, so that one that fails stops no other.

    Raises:
        InvalidInput: no file, or one that cannot be read, before anything is released.
        SystemExit: with the code of the first job that failed.
    """
    if options.schema:
        sys.stdout.write(schema_text() + "\n")
        return
    if options.file is None:
        raise InvalidInput("no job file is named; give one, as in: counton run nightly.toml")
    only = [] if options.only is None else [name.strip() for name in options.only.split(",")]
    jobs = chosen(load(options.file), only)
    reports: dict[str, Any] = {}
    failed = ExitCode.OK
    errors, console = Console(stderr=True), Console()
    for number, (name, job) in enumerate(jobs.items()):
        if not options.json:
            print_line(console, f"{chr(10) if number else ''}job {name}", bold=True)
        try:
            reports[name] = carried_out(job, silently=options.json)
            if reports[name]["not_drawn"]:
                failed = failed or ExitCode.FAILED
                print_line(errors, f"counton: job {name}: {reports[name]['not_drawn']}")
        except (CountonError, OSError) as error:
            code = exit_code(error)
            failed = failed or code
            said = error.told(_keys()) if isinstance(error, CountonError) else str(error)
            print_line(errors, f"counton: job {name}: {said}")
            reports[name] = {"failed": int(code), "error": said}
    if options.json:
        print_json({"jobs": reports})
    if failed:
        raise SystemExit(int(failed))


def _keys() -> dict[str, str]:
    """What a job file calls the fields that an error names."""
    return {name: said.removeprefix("--") for name, said in option_names(Job).items()}

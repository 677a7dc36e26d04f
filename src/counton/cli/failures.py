"""The message of a failed job, where several jobs run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from counton.base.errors import CountonError
from counton.base.lazy import OPTIONAL_MODULES, missing
from counton.cli.command_class import COMMAND_WORDS
from counton.cli.exits import ExitCode, exit_code
from counton.job.job_file import file_keys

if TYPE_CHECKING:
    from counton.job.common_options import Job

#: What messages call the options of ``counton run``; all others are keys of the job file.
_RUN_OPTIONS = {
    "file": "FILE",
    "only": "--only",
    "until": "--until",
    "allow_empty_windows": "--allow-empty-windows",
    "dry_run": "--dry-run",
    "schema": "--schema",
    "json": "--json",
    "max_empty_windows": "max-empty-windows of the job file",
    "lookback": "lookback =",
}
#: The same in a refusal: for data of the past, each run needs the line ``until``. A sign alone, as
#: in "give decimal ,", would read like the end of a clause.
_LINES_TO_ADD = {
    "until=latest-event": 'until = "latest-event" in the job file',
    "decimal=,": 'decimal = ","',
    "decimal=.": 'decimal = "."',
}


def names_in_run(models: Iterable[type[Job]] | None = None) -> dict[str, str]:
    """Return what messages of ``counton run`` call options, by their names in Python.

    Args:
        models: models that have the options; None: those of all statistics.

    >>> names_in_run()["until"], names_in_run()["release_delay"]
    ('--until', 'release-delay')
    """
    return {**COMMAND_WORDS, **file_keys(models), **_RUN_OPTIONS}


def names_of_job(job: Job, *, until_is_of_file: bool) -> dict[str, str]:
    """Return what messages about one job call options.

    Args:
        job: the job.
        until_is_of_file: whether ``until`` is a line of the job file, if it is stated.
    """
    names = names_in_run([type(job)])
    if until_is_of_file:
        names["until"] = "until"
    return names


def failure(error: BaseException) -> tuple[ExitCode, str]:
    """Return the exit code of a failed job and its message, for the operator alone.

    The message of a refused job may show a row's value. The message of a defect in counton shows
    only the type of the error.

    Options of ``counton run`` appear in the message as on the command line, such as ``--until``.
    All other options appear as in job files, such as ``time-format``.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL_MODULES:
        error = missing(error.name, error)
    if isinstance(error, CountonError):
        return exit_code(error), error.translate(names_in_run() | _LINES_TO_ADD)
    if isinstance(error, OSError):
        return exit_code(error), str(error)
    return ExitCode.ERROR, (
        f"it ended with {type(error).__name__}, which is a defect of counton or of a plug-in; "
        "numbers released before it are kept. To see where it fails, run this job with --only, "
        "and show the output to nobody: it may contain rows"
    )


def line_of_failed_job(name: str, message: str) -> str:
    """Return the line that reports a failed job, which names the job once.

    Args:
        name: name of the job.
        message: message of its failure; that of a job that cannot be read names the job and its
            file.

    >>> line_of_failed_job("visits", "epsilon is missing")
    'counton: job visits: epsilon is missing'
    >>> line_of_failed_job("visits", "job 'visits' of 'nightly.toml': epsilon is missing")
    "counton: job 'visits' of 'nightly.toml': epsilon is missing"
    """
    is_named = message.startswith(f"job {name!r} of ")
    return f"counton: {message}" if is_named else f"counton: job {name}: {message}"


def failed_report(code: ExitCode, message: str) -> dict[str, object]:
    """Return the JSON report of a failed job. Its ``message`` may name a row's value, so it is only
    for the operator.
    """
    return {"failed": int(code), "not_private": {"error": message}}

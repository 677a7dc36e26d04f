"""The message of a failed job among several."""

from __future__ import annotations

from counton.base.errors import CountonError
from counton.base.lazy import NEEDED, missing
from counton.cli.command_options import RunOptions, option_names
from counton.cli.exits import ExitCode, exit_code
from counton.job.stated_options import words_of_files


def failure(error: BaseException) -> tuple[ExitCode, str]:
    """Return the exit code of a failed job and its message, which never shows a row's content.

    Options that may be stated for one night have the command's names, all others those of job
    files.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        error = missing(error.name, error)
    if isinstance(error, CountonError):
        return exit_code(error), error.translate(words_of_files() | option_names(RunOptions))
    if isinstance(error, OSError):
        return exit_code(error), str(error)
    return ExitCode.FAILED, (
        f"it ended with {type(error).__name__}, which is a defect; what had been released is kept. "
        f"Run the command of this job alone to see where, and keep what it prints to yourself: it "
        f"may show rows"
    )

"""Exit codes, for scripts. Imports nothing heavy, since `counton --help` loads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

from counton.base.errors import (
    BudgetExceededError,
    ConcurrentWriterError,
    CountonError,
    InputChangedError,
    InvalidInputError,
    NoiseAddressError,
    NoiseKeyError,
    StateError,
    StateRolledBackError,
    StateUnavailableError,
    StreamMismatchError,
    hide_secrets,
)
from counton.base.lazy import OPTIONAL_MODULES, missing


class ExitCode(IntEnum):
    """The exit codes of the command line's process."""

    OK = 0
    ERROR = 1
    INVALID_INPUT = 2
    CORRUPT_STATE = 3
    BUDGET_EXCEEDED = 4
    CONCURRENT_WRITER = 5
    NOISE_KEY = 6
    STATE_ROLLED_BACK = 7
    INPUT_CHANGED = 8
    UNAVAILABLE = 9
    BUDGET_WARNING = 10


MEANINGS = {
    ExitCode.OK: "done, even if there was nothing new to release",
    ExitCode.ERROR: "an unexpected failure: a file that cannot be written, or a defect",
    ExitCode.INVALID_INPUT: "an option, a name or the data is not allowed; nothing was released",
    ExitCode.CORRUPT_STATE: "the state is damaged, altered or of another version of counton",
    ExitCode.BUDGET_EXCEEDED: "the privacy budget of the state would be exceeded",
    ExitCode.CONCURRENT_WRITER: "another process works on the stream; try again when it has ended",
    ExitCode.NOISE_KEY: (
        "the key is missing, badly protected, not the stream's own, or cannot be written"
    ),
    ExitCode.STATE_ROLLED_BACK: "the state is an old copy, or two copies of it went on",
    ExitCode.INPUT_CHANGED: "rows that were counted have changed or disappeared, or come again",
    ExitCode.UNAVAILABLE: "the state, or the events' server, cannot be reached now; try again",
    ExitCode.BUDGET_WARNING: "an alarm of counton ledger --warn-at",
}

#: Codes after which the same command may succeed later, without a change.
RETRYABLE_CODES = (ExitCode.ERROR, ExitCode.CONCURRENT_WRITER, ExitCode.UNAVAILABLE)
#: The code of each kind of error; the first match counts, so subclasses come before `StateError`.
_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (InvalidInputError, ExitCode.INVALID_INPUT),
    (NoiseAddressError, ExitCode.INVALID_INPUT),
    (StreamMismatchError, ExitCode.INVALID_INPUT),
    (StateRolledBackError, ExitCode.STATE_ROLLED_BACK),
    (StateUnavailableError, ExitCode.UNAVAILABLE),
    (StateError, ExitCode.CORRUPT_STATE),
    (InputChangedError, ExitCode.INPUT_CHANGED),
    (BudgetExceededError, ExitCode.BUDGET_EXCEEDED),
    (ConcurrentWriterError, ExitCode.CONCURRENT_WRITER),
    (NoiseKeyError, ExitCode.NOISE_KEY),
)


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code of the process for an error.

    >>> exit_code(InvalidInputError("epsilon is -1")).name
    'INVALID_INPUT'
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.ERROR)


def close_output() -> None:
    """Discard all further output, because its reader (such as ``head``) has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def explain_errors(options: Callable[[], Mapping[str, str]] | None = None) -> Iterator[None]:
    """Within the ``with`` block, turn known errors into a line on stderr and an exit code.

    Known errors are those that counton raises, and failures of files.

    Args:
        options: function that maps the names of fields in error messages to the command's options,
            such as ``--output``; None: fields keep their names.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL_MODULES:
            raise
        _end(missing(error.name, error), {})
    except BrokenPipeError:  # the reader of the output has read enough
        close_output()
    except (CountonError, OSError) as error:
        _end(error, {} if options is None else options())


def _end(error: Exception, options: Mapping[str, str]) -> NoReturn:
    from counton.base.outside_input import printable

    words = str(error)
    if isinstance(error, CountonError):
        words = error.translate(options)
    elif isinstance(error, OSError) and error.filename is not None:
        words = (
            f"{error.filename!r} cannot be used ({error.strerror}): check the path, its "
            f"permissions and the space left"
        )
    sys.stderr.write(f"counton: {printable(hide_secrets(words))}\n")
    raise SystemExit(int(exit_code(error))) from error


def epilogue() -> str:
    """Return a table of the exit codes for the end of the help."""
    lines = "\n".join(f"  {int(code)}  {meaning}" for code, meaning in MEANINGS.items())
    return f"\b\nExit codes:\n{lines}"

"""Paths that a job does not state: of its state and its outputs, beside the events."""

from __future__ import annotations

import os
from pathlib import Path

from counton.base.errors import field as option_name
from counton.frame.options import MissingOptions
from counton.rows.paths import is_database, is_table

#: End of the name of a state beside the events.
_STATE = ".counton.db"


def default_state(events: object) -> str:
    """Return the path of a stream's state if none is stated: a file beside the events.

    >>> default_state("library/loans.2024.csv.gz"), default_state("logs/2024-*.csv")
    ('library/loans.2024.counton.db', 'logs.counton.db')
    """
    return os.fspath(path_beside(events, _STATE))


def is_named(events: object) -> bool:
    """Return whether events are files, which have names, and not a frame or a database.

    >>> is_named("loans.csv"), is_named("sqlite:///library.db"), is_named([])
    (True, False, False)
    """
    is_standard_input = isinstance(events, str) and events == "-"
    return is_standard_input or path_of(events) is not None


def state_beside(events: object, *, append: bool) -> str:
    """Return the path of a job's state if none is stated, where each run over the events finds it.

    For a link the state lies beside the link, because the link may lead to another file tomorrow.

    Raises:
        MissingOptions: the path cannot be derived from the events. They have no lasting name, or
            each file has only new events and all files need one state, or they are a link to a file
            that has a state.

    >>> state_beside("library/loans.csv", append=False)
    'library/loans.counton.db'
    >>> state_beside("night-7.csv", append=True)
    Traceback (most recent call last):
    counton.frame.options.MissingOptions: state is missing, and each file has new events, so all ...
    """
    if isinstance(events, list | tuple) and len(events) == 1:
        events = events[0]
    example = "visits.db"
    if path_of(events) is None:
        reason = "the events are no file, so it has no usual name"
    elif isinstance(events, list | tuple):
        reason = "there are several files, so it has no usual name"
    elif append and not holds_new_events(events):
        reason = "each file has new events, so all of them need the same one"
    else:
        state = _state_behind(os.fspath(events))  # type: ignore[call-overload]
        if state is None:
            return default_state(events)
        example = state
        reason = f"{events} is a link to a file that is counted in state {state} already"
    raise MissingOptions(
        f"{option_name('state')} is missing, and {reason}. Give it, as in "
        f"{option_name('state', example)}",
        ["state"],
    )


def _state_behind(events: str) -> str | None:
    """Return the existing state of the file behind a link without a state of its own, or None."""
    path = Path(events)
    if not path.is_symlink() or Path(default_state(events)).exists():
        return None
    state = default_state(os.path.relpath(path.resolve()))
    return state if Path(state).exists() else None


def path_beside(events: object, ending: str) -> Path:
    """Return a path beside the events: their path, with another ending."""
    path = path_of(events)
    return Path(f"counts{ending}") if path is None else path.parent / f"{stem_of(path)}{ending}"


def path_of(events: object) -> Path | None:
    """Return the path of the events' file or folder; None of a frame, database or standard input.

    >>> path_of("logs/2024-*.csv"), path_of("-")
    (PosixPath('logs'), None)
    """
    first = events[0] if isinstance(events, list | tuple) and events else events
    if not isinstance(first, str | os.PathLike) or is_database(first) or first == "-":
        return None
    path = Path(first)
    if "*" in path.name or isinstance(events, list | tuple):
        path = path.parent
    if path.name in ("", ".."):
        path = path.resolve()
        return Path(os.path.relpath(path.parent)) / path.name
    return path


def stem_of(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if is_table(Path(name)):
        name = Path(name).stem
    return name or "counts"


def holds_new_events(events: object) -> bool:
    """Return whether events are a list, folder or pattern of files, each of which has new events."""
    if isinstance(events, list | tuple):
        return True
    if path_of(events) is None or not isinstance(events, str | os.PathLike):
        return False
    path = os.fspath(events)
    return "*" in path or Path(path).is_dir()

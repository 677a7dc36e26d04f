"""Paths that nobody stated: the state of a stream, and files that lie beside its events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from counton.base.errors import MissingOptionError, param
from counton.io.input_paths import is_database, is_table

#: Ending of a state's default path.
_STATE = ".counton.db"
#: Name of a file beside events that are no file.
_NO_NAME = "counts"


def default_state(events: object) -> str:
    """Return the path of a stream's state if none is stated: a file beside the events.

    >>> default_state("library/loans.2024.csv.gz"), default_state("logs/2024-*.csv")
    ('library/loans.2024.counton.db', 'logs.counton.db')
    """
    return os.fspath(path_beside(events, _STATE))


def state_beside(events: object, *, append: bool) -> str:
    """Return the path of a run's state if none is stated: beside the events, where each run over
    the same events finds it.

    For a link the state lies beside the link, because the link may lead to another file tomorrow.

    Args:
        events: the events of a job.
        append: whether each file holds new events.

    Raises:
        MissingOptionError: the path cannot be derived from the events. They have no lasting name,
            or each file has only new events and all files need one state, or they are a link to a
            file that has a state.

    >>> state_beside("library/loans.csv", append=False)
    'library/loans.counton.db'
    >>> state_beside("night-7.csv", append=True)
    Traceback (most recent call last):
    counton.base.errors.MissingOptionError: state is missing: each file has new events, ...
    """
    if isinstance(events, list | tuple) and len(events) == 1:
        events = events[0]
    example = param("state", "visits.db")
    if path_of(events) is None:
        reason = "the events are no file, so the state has no usual name"
    elif isinstance(events, list | tuple):
        reason = (
            "there are several files, so the state has no usual name that the next run would find "
            "again"
        )
    elif append and not holds_new_events(events):
        reason = "each file has new events, and all of them need a single state"
    else:
        other_state = _state_of_linked_file(events)
        if other_state is None:
            return default_state(events)
        reason = (
            f"{events} is a link to a file that is counted in state {other_state} already, and "
            "another stream would spend privacy again"
        )
        example = param("state", other_state)
    raise MissingOptionError(
        f"{param('state')} is missing: {reason}; give it, as in {example}", ["state"]
    )


def has_default_state(state: object, events: object, *, append: bool) -> bool:
    """Return whether a state has the default path of events.

    >>> has_default_state("loans.counton.db", "loans.csv", append=False)
    True
    """
    if not str(state).endswith(_STATE):
        return False
    try:
        return str(state) == state_beside(events, append=append)
    except MissingOptionError:
        return False


def is_named(events: object) -> bool:
    """Return True if events are files, which have names; False for a frame or a database.

    >>> is_named("loans.csv"), is_named("sqlite:///library.db"), is_named([])
    (True, False, False)
    """
    is_standard_input = isinstance(events, str) and events == "-"
    return is_standard_input or path_of(events) is not None


def path_beside(events: object, ending: str) -> Path:
    """Return a path beside the events: their path, with another ending."""
    path = path_of(events)
    if path is None:
        return Path(f"{_NO_NAME}{ending}")
    return path.parent / f"{stem_of(path)}{ending}"


def path_of(events: object) -> Path | None:
    """Return the full path of the events' file or folder; None for a frame, a database or standard
    input. That of several files is their folder.
    """
    are_several = isinstance(events, list | tuple)
    first = _first_of(events)
    if first is None or is_database(first) or first == "-":
        return None
    path = Path(first)
    if are_several or "*" in path.name:
        path = path.parent
    if path.name in ("", ".."):
        path = path.resolve()
        return Path(os.path.relpath(path.parent)) / path.name
    return path


def _first_of(events: object) -> str | os.PathLike[str] | None:
    """Return the first file of events, or None for what is no file."""
    first: object = events
    if isinstance(events, Sequence) and not isinstance(events, str) and events:
        first = events[0]
    return first if isinstance(first, str | os.PathLike) else None


def stem_of(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if is_table(Path(name)):
        name = Path(name).stem
    return name or _NO_NAME


def holds_new_events(events: object) -> bool:
    """Return True for a list, folder or pattern of files, each of which holds new events."""
    if isinstance(events, list | tuple):
        return True
    if path_of(events) is None or not isinstance(events, str | os.PathLike):
        return False
    path = os.fspath(events)
    return "*" in path or Path(path).is_dir()


def _state_of_linked_file(events: object) -> str | None:
    """Return the existing state of the file behind a link without a state of its own, or None."""
    if not isinstance(events, str | os.PathLike):
        return None
    path = Path(events)
    if not path.is_symlink() or Path(default_state(events)).exists():
        return None
    state = default_state(os.path.relpath(path.resolve()))
    return state if Path(state).exists() else None

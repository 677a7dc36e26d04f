"""The state of a stream (SQLite database) whose path nobody stated: a file beside the events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from counton.base.errors import field
from counton.frame.options import MissingOptions
from counton.rows.paths import is_database, is_table


def default_state(events: object) -> str:
    """Return the path of a stream's state if none is stated: a file beside the events.

    >>> default_state("library/loans.2024.csv.gz"), default_state("logs/2024-*.csv")
    ('library/loans.2024.counton.db', 'logs.counton.db')
    """
    return os.fspath(path_beside(events, ".counton.db"))


def is_named(events: object) -> bool:
    """Return True if events are files, which have names; False for a frame or a database.

    >>> is_named("loans.csv"), is_named("sqlite:///library.db"), is_named([])
    (True, False, False)
    """
    return (isinstance(events, str) and events == "-") or path_of(events) is not None


def state_beside(events: object, *, append: bool) -> str:
    """Return the path of a run's state (SQLite database) if none is stated: beside the events,
    where each run over the same events finds it.

    For a link the state lies beside the link, because the link may lead to another file tomorrow.

    Raises:
        MissingOptions: the path cannot be derived from the events. They have no lasting name, or
            each file has only new events and all files need one state, or they are a link to a file
            that has a state.

    >>> state_beside("library/loans.csv", append=False)
    'library/loans.counton.db'
    >>> state_beside("night-7.csv", append=True)
    Traceback (most recent call last):
    counton.frame.options.MissingOptions: state is missing: each file has new events, and ...
    """
    one = events[0] if isinstance(events, list | tuple) and len(events) == 1 else events
    stated = field("state", "visits.db")
    if path_of(one) is None:
        why = "the events are no file, so the state has no usual name"
    elif isinstance(one, list | tuple):
        why = (
            "there are several files, so the state has no usual name that the next run would find "
            "again"
        )
    elif append and not holds_new_events(one):
        why = "each file has new events, and all of them need a single state"
    elif (there := _state_behind(one)) is not None:
        why = (
            f"{one} is a link to a file that is counted in state {there} already, and another "
            "stream would spend privacy again"
        )
        stated = field("state", there)
    else:
        return default_state(one)
    raise MissingOptions(f"{field('state')} is missing: {why}; give it, as in {stated}", ["state"])


def _state_behind(events: Any) -> str | None:
    """Return the existing state of the file behind a link without a state of its own, or None."""
    path = Path(events)
    if not path.is_symlink() or Path(default_state(events)).exists():
        return None
    there = default_state(os.path.relpath(path.resolve()))
    return there if Path(there).exists() else None


def path_beside(events: object, ending: str) -> Path:
    """Return a path beside the events: their path, with another ending."""
    path = path_of(events)
    return Path(f"counts{ending}") if path is None else path.parent / f"{stem_of(path)}{ending}"


def path_of(events: object) -> Path | None:
    """Return the full path of the events' file or folder; None for frame, database or standard
    input.
    """
    first = events[0] if isinstance(events, list | tuple) and events else events
    if not isinstance(first, str | os.PathLike) or is_database(first) or first == "-":
        return None
    path = Path(first)
    path = path.parent if "*" in path.name or isinstance(events, list | tuple) else path
    if path.name in ("", ".."):
        path = path.resolve()
        return Path(os.path.relpath(path.parent)) / path.name
    return path


def stem_of(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    name = Path(name).stem if is_table(Path(name)) else name
    return name or "counts"


def holds_new_events(events: object) -> bool:
    """Return True for a list, folder or pattern of files, each of which holds new events."""
    if isinstance(events, list | tuple):
        return True
    path = None if path_of(events) is None else os.fspath(events)  # type: ignore[call-overload]
    return path is not None and ("*" in path or Path(path).is_dir())

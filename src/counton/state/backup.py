"""Work on a whole state: copy it, or rewrite it without deleted rows."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from counton.base.errors import InvalidInputError, StateUnavailableError
from counton.state.database import LOCK_TIMEOUT_SECONDS, Database
from counton.state.sqlite_file import connect, copy_of


def back_up(state: str | os.PathLike[str], copy: str | os.PathLike[str]) -> Path:
    """Copy a state as it stood at one moment, while others may go on writing it.

    The copy holds the last commit; a plain copy of the file may lack it, because new commits stand
    in a log (``STATE-wal``) until SQLite merges them. The log is merged after the copy, if nobody
    uses it.

    Args:
        state: path of a SQLite file.
        copy: path of a new file, made with mode 0600; it appears under this name once it is
            complete.

    Returns:
        Path of the copy, which is as secret as the state. Noise that was drawn ahead for later
        steps is left out; it can be drawn again. If the state releases more steps, the older copy
        is refused.

    Raises:
        InvalidInputError: the state is on a server, or there is a file at that path.
        StateError: the state cannot be read, or the copy cannot be written; no copy is left.

    >>> from counton import PureDP, Stream
    >>> from counton.state import state_summary
    >>> from counton.strategies import Binary
    >>> state, copy = "visits.db", "night.db"
    >>> with Stream.create(state, "visits", Binary(horizon=100), PureDP(epsilon=1)) as stream:
    ...     _ = stream.release(3)
    ...     made = back_up(state, copy)
    >>> made.name, state_summary(copy)["streams"][0]["step"]
    ('night.db', 1)
    """
    database = Database(state)
    target = Path(copy)
    database.close()
    if database.path is None:
        raise InvalidInputError(
            f"state {database.label} is on a server, which makes its own copies: use pg_dump "
            "instead"
        )
    for existing in (target, target.with_name(f"{target.name}-wal")):
        if os.path.lexists(existing):
            raise InvalidInputError(
                f"{str(existing)!r} exists already; give a new file name for the copy"
            )
    try:
        with copy_of(database.path, target, LOCK_TIMEOUT_SECONDS) as whole:
            # It is encrypted, but the copy needs none of it: it can be drawn again.
            whole.execute("DELETE FROM counton_noise")
            whole.commit()
            whole.execute("VACUUM").close()
            # The file alone is the copy.
            whole.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise StateUnavailableError(
            f"state {database.label} could not be copied to {str(target)!r} ({why}): check that "
            f"its folder exists and has the space"
        ) from error
    with suppress(sqlite3.Error), closing(connect(database.path, 0)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    return target


def compact(state: str | os.PathLike[str]) -> None:
    """Rewrite a state's storage so that no deleted row remains in it.

    A SQLite file is rewritten whole. On a server only the table with digests of users and row ids
    is rewritten. Earlier copies and a server's archived log keep the deleted rows.

    Raises:
        StateError: another process uses the state. The rows are deleted, but their bytes may still
            stand in the file.
    """
    database = Database(state)
    try:
        if database.path is None:
            import psycopg

            with psycopg.connect(database.address.url, autocommit=True) as connection:
                connection.execute("VACUUM FULL counton_marks")
            return
        database.close()
        with closing(sqlite3.connect(database.path, timeout=LOCK_TIMEOUT_SECONDS)) as file:
            file.execute("VACUUM").close()
            busy, *_ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("its log is being read")
    except database.address.errors as error:
        raise StateUnavailableError(
            f"state {database.label} could not be written anew ({error}), so deleted digests may "
            "still be in its files: end the processes that use the state, then forget again"
        ) from error
    finally:
        database.close()

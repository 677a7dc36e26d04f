"""A state written anew, so that what was deleted in it is in no byte of its files."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import sqlalchemy as sa

from counton.base.errors import StateUnavailable
from counton.state import schema
from counton.state.database import LOCK_TIMEOUT_SECONDS, Database


def compact(state: str | os.PathLike[str]) -> None:
    """Leave nothing of deleted rows: all of a file, and of a server's tables the one of marks.

    Copies that were made before, and what a server has archived of its log, are not touched.

    Raises:
        StateError: another process reads or writes the state; what was deleted is deleted, and may
            still stand in the file.
    """
    database = Database(state)
    try:
        if database.path is None:
            engine = sa.create_engine(database.url, isolation_level="AUTOCOMMIT")
            with closing(engine.connect()) as connection:
                connection.exec_driver_sql(f"VACUUM FULL {schema.marks.name}")
            engine.dispose()
            return
        database.close()
        with closing(sqlite3.connect(database.path, timeout=LOCK_TIMEOUT_SECONDS)) as file:
            file.execute("VACUUM").close()
            busy, *_ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("its log is being read")
    except (sqlite3.Error, sa.exc.SQLAlchemyError) as error:
        raise StateUnavailable(
            f"state {database.label} could not be written anew ({error}), so that what was deleted "
            f"may still stand in its files: end the processes that use it, then forget again"
        ) from error
    finally:
        database.close()

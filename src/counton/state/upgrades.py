"""States of earlier formats: they are read without change, and upgraded at the first write.

For each format there is a function that makes it from the one before, within a transaction. A state
of an earlier format is read through a copy in memory, or on a server in a transaction that is
undone; the functions upgrade that copy, and the state stays unchanged. The first write, or
``counton upgrade``, upgrades the state itself in one transaction: a killed process leaves the state
as it was. A copy of the old state is kept beside it.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from counton.base.errors import StateError, StateUnavailable
from counton.state import schema, sqlite_file
from counton.state.sql import Connection, Connections

#: The first format that later versions read; earlier ones were never released.
OLDEST: Final = 15


def _count_late_rows(connection: Connection) -> None:
    """Add columns for the numbers of all rows and of late rows; both are counted from now on."""
    for name in ("arrived", "late"):
        said = f"ALTER TABLE counton_streams ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"
        connection.execute(said)


def _note_who_spent(connection: Connection) -> None:
    """Add columns for party, user and machine to the ledger's entries (one for the guarantee of
    each stream); for earlier entries they are unknown.
    """
    for table in ("counton_ledger", "counton_shared_entries"):
        for column in ("party VARCHAR(200)", "who TEXT", "host TEXT"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


#: Functions that change the tables to the next format, by the earlier format.
STEPS: dict[int, Callable[[Connection], None]] = {
    15: _count_late_rows,
    16: _note_who_spent,
}


class Upgrade(NamedTuple):
    """The result of an upgrade of a state's format.

    Attributes:
        before, after: number of the format before and now; equal if there was nothing to do.
        kept: path or server schema of the copy of the old state; None if there is no copy.
    """

    before: int
    after: int
    kept: str | None


def format_of(connection: Connection) -> int:
    """Return the number of a state's format."""
    if connection.is_sqlite:  # a pragma: another program's file may lack the table
        return int(connection.value("PRAGMA user_version"))
    return int(connection.value("SELECT format FROM counton_database"))


def refuse_unknown(found: int, label: str) -> None:
    """Refuse a state whose format this version does not read.

    Raises:
        StateError: the state is of a later version, or of one that was never released.
    """
    if found > schema.FORMAT:
        raise StateError(
            f"state {label} has format {found}, and this version of counton reads formats up to "
            f"{schema.FORMAT}: use the version that wrote it, or a later one; stop programs and "
            f"services of this version that use the state"
        )
    if found < OLDEST:
        raise StateError(
            f"state {label} has format {found}, but this version of counton reads formats from "
            f"{OLDEST} on: use the version that wrote it. If you begin a new state instead, "
            "remember that only the old one knows the loss spent before"
        )


def apply_steps(connection: Connection, found: int) -> None:
    """Change the tables of a state from format ``found`` to this version's format."""
    for earlier in range(found, schema.FORMAT):
        STEPS[earlier](connection)
    if connection.is_sqlite:
        connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
    connection.run("UPDATE counton_database SET format = :format", format=schema.FORMAT)


def in_memory(path: Path, found: int, timeout_seconds: float) -> Connections:
    """Return connections to a copy of a state's file. The copy is in memory, and is upgraded to
    this version's format.
    """
    place = f"file:{uuid4().hex}?mode=memory&cache=shared"
    first = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
    with closing(sqlite_file.open_file(path, timeout=timeout_seconds)) as source:
        source.backup(first)
    connection = Connection(first, is_sqlite=True)
    connection.execute("BEGIN")
    apply_steps(connection, found)
    connection.commit()

    def connect() -> Any:
        return sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)

    connections = Connections(connect, is_sqlite=True)
    # The copy exists while one connection is open: this one, as long as somebody may connect.
    weakref.finalize(connections, first.close).atexit = False
    return connections


def carry_over(
    connections: Connections, path: Path | None, label: str, *, copy: bool = True
) -> Upgrade:
    """Upgrade a state to this version's format, in one transaction.

    Args:
        connections: connections to the state.
        path: path of the state's file; None if it is on a server.
        label: the state's address, for messages.
        copy: keep the old state, as the file ``STATE.formatN`` or in the schema
            ``counton_format_N``.

    Raises:
        StateError: the format is unknown.
        StateUnavailable: the copy cannot be made; the state is unchanged.
    """
    with connections.transaction("BEGIN" if path is None else "BEGIN IMMEDIATE") as connection:
        connection.lock(schema.APPLICATION_ID)
        found = format_of(connection)
        refuse_unknown(found, label)
        if found == schema.FORMAT:
            return Upgrade(found, found, None)
        if path is None:
            kept = _copy_tables(connection, found) if copy else None
        else:
            target = path.with_name(f"{path.name}.format{found}")
            sqlite_file.remove_left_copies(target)
            kept = _copy_file(path, target) if copy else None
        apply_steps(connection, found)
    return Upgrade(found, schema.FORMAT, kept)


def _copy_tables(connection: Connection, found: int) -> str:
    """Copy a state's tables on a server into a new schema, named by their format ``found``; return
    its name.
    """
    own = str(connection.value("SELECT current_schema()"))
    kept = f"{'counton' if own == 'public' else own}_format_{found}"
    connection.execute(f'CREATE SCHEMA "{kept}"')
    said = (
        "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r'"
        " AND starts_with(relname, :ours) AND pg_catalog.pg_table_is_visible(oid)"
    )
    for name in [row.relname for row in connection.rows(said, ours="counton_")]:
        connection.execute(f'CREATE TABLE "{kept}"."{name}" AS TABLE "{name}"')
    return kept


def _copy_file(path: Path, target: Path) -> str:
    """Copy a state's file to ``target``; return the copy's path."""
    try:
        with sqlite_file.copy_of(path, target, os.replace, timeout=0) as whole:
            whole.execute("PRAGMA journal_mode=DELETE").close()
    except (sqlite3.Error, OSError) as error:
        raise StateUnavailable(
            f"state {path} could not be copied to {target} ({error}), so it was not converted: "
            "make room, or upgrade without a copy"
        ) from error
    return str(target)

"""Releases as plain database rows, one for each number, for tools such as Grafana or psql.

The tables of streams and rows hold nothing secret; the view ``counton_releases`` shows both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from counton.base.errors import (
    ConcurrentWriterError,
    InvalidInputError,
    StateRolledBackError,
    StateUnavailableError,
    StreamMismatchError,
    first_line,
    param,
)
from counton.base.outside_input import sqlite_header
from counton.base.table_schema import VIEW_COLUMNS, ColumnType
from counton.state.database import LOCK_TIMEOUT_SECONDS, Database, DatabaseAddress, parse_address
from counton.state.sql import Connection
from counton.state.sqlite_file import is_state

_STREAMS = "counton_published_streams"
_ROWS = "counton_published_rows"
#: The columns of a published row, in the order of the table, besides that of its stream.
ROW_COLUMNS = ("row", "local_start", *(column.name for column in VIEW_COLUMNS))
#: Types of columns in a database. Numbers have no type in a file, so that integers stay integers.
_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "{number}",
    ColumnType.TEXT: "TEXT",
    ColumnType.TIME: "TIMESTAMP WITH TIME ZONE",
    ColumnType.BOOLEAN: "BOOLEAN",
}
_COLUMN_TYPES = ",\n    ".join(f'"{column.name}" {_TYPES[column.type]}' for column in VIEW_COLUMNS)
_TABLES = (
    # Shown is JSON of what decides the rows besides the confidence level: what is displayed, and
    # notes on single windows. The description is the guarantee in a file.
    f"""CREATE TABLE {_STREAMS} (
    id {{serial}} PRIMARY KEY, stream VARCHAR(200) NOT NULL UNIQUE,
    key_fingerprint VARCHAR(64) NOT NULL, protected TEXT NOT NULL, guarantee TEXT NOT NULL,
    strategy TEXT NOT NULL, confidence_level {{number}} NOT NULL, last_window BIGINT NOT NULL,
    shown TEXT, description TEXT NOT NULL
);"""
    # Rows without times were released at once. The local start is a clock time of its zone.
    f"""CREATE TABLE {_ROWS} (
    stream_id BIGINT REFERENCES {_STREAMS} (id), row BIGINT, local_start TIMESTAMP,
    {_COLUMN_TYPES},
    PRIMARY KEY (stream_id, window_index, row)
) {{key}};"""
)

#: The view to read: the columns of released tables, after the stream and its newest window.
_VIEW = f"""CREATE VIEW counton_releases AS
SELECT s.stream, s.last_window, r.local_start,
    {", ".join(f'r."{column.name}"' for column in VIEW_COLUMNS)}
FROM {_STREAMS} s JOIN {_ROWS} r ON r.stream_id = s.id
"""


def checked_address(to: str | os.PathLike[str], state: DatabaseAddress) -> DatabaseAddress:
    """Return the address of the database for published releases; errors as for `Place`."""
    address = parse_address(to, param("to"))
    if address.file is None or address == state:
        return address
    why = ""
    remedy = "give a file of its own for the published numbers"
    if is_state(address.file):
        why = "a state, which is secret"
    elif address.file.is_dir():
        why = "a folder"
    elif not address.file.parent.is_dir():
        why = "in a folder that does not exist"
        remedy = "make the folder first"
    elif address.file.exists() and address.file.stat().st_size and not sqlite_header(address.file):
        why = "a file, but no SQLite database"
    if why:
        raise InvalidInputError(f"{param('to', os.fspath(to))} is {why}: {remedy}")
    return address


class PublishTarget:
    """A database in which releases are published: the state's own, or another one.

    Args:
        database: the state's database.
        to: path of a SQLite file, made if missing, or a database URL; None: the state's own
            database.

    Raises:
        InvalidInputError: ``to`` is neither a path nor a SQLite or PostgreSQL URL, or is another
            state, or a file that is no database.
    """

    def __init__(self, database: Database, to: str | os.PathLike[str] | None) -> None:
        self._database: Database | None = database
        self.label = database.label
        address = database.address if to is None else checked_address(to, database.address)
        if address == database.address:
            return
        self.label = address.label
        self._database = None
        self._errors = address.errors
        self._connections = address.connections(LOCK_TIMEOUT_SECONDS)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Open a transaction: the end of the block commits it, an exception undoes it."""
        if self._database is not None:
            with self._database.transaction(write=write) as connection:
                yield connection
            return
        try:
            with self._connections.transaction("BEGIN") as connection:
                yield connection
        except self._errors as error:
            raise StateUnavailableError(
                f"{param('to', self.label)} cannot be used ({first_line(error)}): check the path "
                "or address, its permissions and the space left"
            ) from error

    def close(self) -> None:
        """Close the connections to a database other than the state's."""
        if self._database is None:
            self._connections.close()


class PublishedStream(Protocol):
    """The columns of a published stream's row by which it is published further."""

    id: int
    key_fingerprint: str
    last_window: int
    confidence_level: float
    shown: str


def find_row(connection: Connection, stream: str) -> PublishedStream | None:
    """Return the database row of a published stream; None if it is not published."""
    if not connection.has_table(_STREAMS):
        return None
    sql = f"SELECT * FROM {_STREAMS} WHERE stream = :stream"
    row: PublishedStream | None = connection.first(sql, stream=stream)
    return row


def begin(connection: Connection, facts: Mapping[str, Any], lags: int) -> range:
    """Make missing tables, write the stream's row, and return the steps whose rows are missing.

    The rows of the last ``lags`` windows, which later steps revise, are removed.

    Raises:
        StateError: another published stream has this name, or more published steps than released.
    """
    if not connection.has_table(_STREAMS):
        connection.script(_TABLES)
        connection.execute(_VIEW)
    elif old := connection.first(f"SELECT * FROM {_ROWS}"):
        missing = [column for column in ROW_COLUMNS if not hasattr(old, column)]
        if missing:
            raise StreamMismatchError(
                f"the published tables there have no column {missing[0]!r}, because an earlier "
                f"version of counton made them; publish to another database ({param('to')})"
            )
    name = facts["stream"]
    last = facts["last_window"]
    row = find_row(connection, name)
    last_unchanged = 0
    if row is not None:
        if row.key_fingerprint != facts["key_fingerprint"]:
            raise StreamMismatchError(
                f"another stream {name!r} is published there already, with the key "
                f"{row.key_fingerprint}: publish to another database, or remove that stream first "
                f"(counton publish, {param('remove', True)})"
            )
        if row.last_window > last:
            raise StateRolledBackError(
                f"{row.last_window:,} steps of stream {name!r} are published, but the state has "
                f"only {last:,}, so the state is an old copy; restore the newest copy"
            )
        last_unchanged = (
            row.last_window if row.last_window == last else max(row.last_window - lags, 0)
        )
        if (row.confidence_level, row.shown) != (facts["confidence_level"], facts["shown"]):
            last_unchanged = 0  # changed readings, and withdrawn numbers, make all rows new
        assignments = ", ".join(f"{column} = :{column}" for column in facts)
        sql = f"UPDATE {_STREAMS} SET {assignments} WHERE id = :stream_id AND last_window = :before"
        changed = connection.execute(sql, stream_id=row.id, before=row.last_window, **facts)
        if changed.rowcount != 1:
            raise ConcurrentWriterError(
                f"another process is publishing this stream, and has added step "
                f"{row.last_window + 1:,} already: let only one of them publish"
            )
        sql = f"DELETE FROM {_ROWS} WHERE stream_id = :stream AND window_index > :kept"
        connection.execute(sql, stream=row.id, kept=last_unchanged)
    else:
        connection.insert(_STREAMS, facts)
    return range(last_unchanged + 1, last + 1)


def write(connection: Connection, stream: str, rows: Iterable[Sequence[object]]) -> None:
    """Add published rows of a stream from a step on."""
    published = find_row(connection, stream)
    assert published is not None, "the stream was published by `begin`"
    stream_id = published.id
    connection.append(_ROWS, ((stream_id, *row) for row in rows))


def remove(connection: Connection, stream: str) -> PublishedStream | None:
    """Remove a stream's published rows; return its former database row or None."""
    row = find_row(connection, stream)
    if row is not None:
        connection.execute(f"DELETE FROM {_ROWS} WHERE stream_id = :stream", stream=row.id)
        connection.execute(f"DELETE FROM {_STREAMS} WHERE id = :stream", stream=row.id)
    return row

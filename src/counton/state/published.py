"""Releases as plain database rows, one for each number, for tools such as Grafana or psql.

The tables of streams and rows hold nothing secret; the view ``counton_releases`` shows both.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from counton.base.errors import (
    InvalidInput,
    OldCopy,
    RequestMismatch,
    StateError,
    StateUnavailable,
    StreamConflict,
    field,
    first_line,
)
from counton.base.outside_input import parse_json
from counton.frame.sqlite_header import sqlite_header
from counton.state.database import LOCK_TIMEOUT_SECONDS, Database, DatabaseAddress, parse_address
from counton.state.sql import Connection, Connections
from counton.state.sqlite_file import is_state

#: SQLite's instructions between two checks, and most checks while rows are read.
_WORK, _MOST_WORK = 10_000, 400_000

#: Notes on single numbers in a description, some of which are withdrawn.
_MARKS = "marks"
_STREAMS, _ROWS = "counton_published_streams", "counton_published_rows"
#: Columns of numbers have no type in a file, so that whole numbers stay whole.
_TABLES = (
    # Step is the last published one. Shown is JSON of the readings' columns; null for streams
    # whose values need no reading. The description is what a file of the release carries.
    f"""CREATE TABLE {_STREAMS} (
    id {{serial}} PRIMARY KEY, stream VARCHAR(200) NOT NULL UNIQUE,
    key_fingerprint VARCHAR(64) NOT NULL, protected TEXT NOT NULL, guarantee TEXT NOT NULL,
    strategy TEXT NOT NULL, level {{number}} NOT NULL, step BIGINT NOT NULL, shown TEXT,
    description TEXT NOT NULL
);"""
    # Rows without times were released at once. The local start is a clock time of its zone.
    f"""CREATE TABLE {_ROWS} (
    stream_id BIGINT REFERENCES {_STREAMS} (id), step BIGINT, row BIGINT,
    window_start TIMESTAMP WITH TIME ZONE, window_end TIMESTAMP WITH TIME ZONE,
    local_start TIMESTAMP, "group" TEXT NOT NULL,
    estimate {{number}}, std {{number}}, lower {{number}}, upper {{number}},
    window_estimate {{number}}, window_std {{number}}, window_lower {{number}},
    window_upper {{number}}, note TEXT, PRIMARY KEY (stream_id, step, row)
) {{key}};"""
)

#: The view to read. Columns ``window_...`` are of one window alone, the others of all windows up
#: to it.
_VIEW = f"""CREATE VIEW counton_releases AS
SELECT s.stream, r.step, r.window_start, r.window_end, r."group", r.estimate, r.std, r.lower,
    r.upper, r.window_estimate, r.window_std, r.window_lower, r.window_upper, s.level,
    s.step AS last_step, r.local_start, r.note
FROM {_STREAMS} s JOIN {_ROWS} r ON r.stream_id = s.id
"""


class PublishedRows(NamedTuple):
    """All published rows of one stream in a database; everything is public.

    Attributes:
        place: address of the database, without a password.
        facts: public description of the release, as JSON values, and the program that wrote it.
        columns: values by column name: ``step``, and for counts and sums ``group, estimate,
            window_estimate``.
    """

    place: str
    facts: dict[str, Any]
    columns: dict[str, list[Any]]


def checked_address(to: str | os.PathLike[str], state: DatabaseAddress) -> DatabaseAddress:
    """Return the address of the database for published releases; errors as for `Place`."""
    address = parse_address(to, field("to"))
    if address.file is None or address == state:
        return address
    why, remedy = "", "give a file of its own for the published numbers"
    if is_state(address.file):
        why = "a state, which is secret"
    elif address.file.is_dir():
        why = "a folder"
    elif not address.file.parent.is_dir():
        why, remedy = "in a folder that does not exist", "make the folder first"
    elif address.file.exists() and address.file.stat().st_size and not sqlite_header(address.file):
        why = "a file, but no SQLite database"
    if why:
        raise InvalidInput(f"{field('to', os.fspath(to))} is {why}: {remedy}")
    return address


class Place:
    """A database in which releases are published: the state's own, or another one.

    Args:
        database: the state's database.
        to: path of a SQLite file, made if missing, or a database URL; None: the state's own
            database.

    Raises:
        InvalidInput: ``to`` is neither a path nor a SQLite or PostgreSQL URL, or is another state,
            or a file that is no database.
    """

    def __init__(self, database: Database, to: str | os.PathLike[str] | None) -> None:
        self._database: Database | None = database
        self.label = database.label
        address = database.address if to is None else checked_address(to, database.address)
        if address == database.address:
            return
        self.label = address.label
        self._database, self._errors = None, address.errors
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
            raise StateUnavailable(
                f"{field('to', self.label)} cannot be used ({first_line(error)}): check the path "
                "or address, its permissions and the space left"
            ) from error

    def close(self) -> None:
        """Close the connections to a database other than the state's."""
        if self._database is None:
            self._connections.close()


def find_row(connection: Connection, stream: str) -> Any:
    """Return the database row of a published stream; None if it is not published."""
    if not connection.has(_STREAMS):
        return None
    return connection.first(f"SELECT * FROM {_STREAMS} WHERE stream = :stream", stream=stream)


def begin(connection: Connection, facts: Mapping[str, Any], lags: int) -> range:
    """Make missing tables, write the stream's row, and return the steps whose rows are missing.

    The rows of the last ``lags`` windows, which later steps revise, are removed.

    Raises:
        StateError: another published stream has this name, or more published steps than released.
    """
    if not connection.has(_STREAMS):
        connection.script(_TABLES)
        connection.execute(_VIEW)
    elif (old := connection.first(f"SELECT * FROM {_ROWS}")) and not hasattr(old, "note"):
        raise RequestMismatch(
            f"the published tables there have no column {'note'!r}, because an earlier version of "
            f"counton made them; publish to another database ({field('to')})"
        )
    name, last = facts["stream"], facts["step"]
    row, kept = find_row(connection, name), 0
    if row is not None:
        if row.key_fingerprint != facts["key_fingerprint"]:
            raise RequestMismatch(
                f"another stream {name!r} is published there already, with the key "
                f"{row.key_fingerprint}: publish to another database, or remove that stream first "
                f"(counton publish, {field('remove', True)})"
            )
        if row.step > last:
            raise OldCopy(
                f"{row.step:,} steps of stream {name!r} are published, but the state has only "
                f"{last:,}, so the state is an old copy; restore the newest copy"
            )
        kept = row.step if row.step == last else max(row.step - lags, 0)
        texts = row.description or "{}", facts["description"]
        before, now = (parse_json(one).get("description", {}).get(_MARKS) for one in texts)
        same = before == now
        if not same or (row.level, row.shown) != (facts["level"], facts["shown"]):
            kept = 0  # changed readings, and withdrawn numbers, make all rows new
        said = ", ".join(f"{column} = :{column}" for column in facts)
        said = f"UPDATE {_STREAMS} SET {said} WHERE id = :stream_id AND step = :before"
        changed = connection.execute(said, stream_id=row.id, before=row.step, **facts)
        if changed.rowcount != 1:
            raise StreamConflict(
                f"another process is publishing this stream, and has added step {row.step + 1:,} "
                "already: let only one of them publish"
            )
        said = f"DELETE FROM {_ROWS} WHERE stream_id = :stream AND step > :kept"
        connection.execute(said, stream=row.id, kept=kept)
    else:
        connection.insert(_STREAMS, facts)
    return range(kept + 1, last + 1)


def write(connection: Connection, stream: str, rows: Iterable[Sequence[Any]]) -> None:
    """Add published rows of a stream from a step on."""
    of = find_row(connection, stream).id
    connection.append(_ROWS, ((of, *row) for row in rows))


def remove(connection: Connection, stream: str) -> Any:
    """Remove a stream's published rows; return its former database row or None."""
    row = find_row(connection, stream)
    if row is not None:
        connection.execute(f"DELETE FROM {_ROWS} WHERE stream_id = :stream", stream=row.id)
        connection.execute(f"DELETE FROM {_STREAMS} WHERE id = :stream", stream=row.id)
    return row


def read_rows(source: str, name: str | None = None) -> PublishedRows:
    """Read a stream's published rows from a database, without changing it.

    Raises:
        StateError: the database is a state, or has nothing published, or lacks this stream, or
            cannot be read; or the stream was published without a description.
    """
    with _reading(source) as (connection, place):
        if not connection.has(_STREAMS):
            raise RequestMismatch(_nothing(connection, place))
        rows = connection.rows(f"SELECT stream FROM {_STREAMS} ORDER BY stream")
        names = [row.stream for row in rows]
        chosen = names[0] if name is None and len(names) == 1 else name
        if chosen not in names:
            listed = ", ".join(map(repr, names))
            if not names:
                raise RequestMismatch(
                    f"{place} has no published stream: publish a stream there first (counton "
                    "publish)"
                )
            if chosen is None:
                raise RequestMismatch(f"{place} has {listed}: choose with {field('name')}")
            raise RequestMismatch(
                f"stream {chosen!r} is not published in {place}, which has {listed}: correct the "
                "name"
            )
        said = f"SELECT description FROM {_STREAMS} WHERE stream = :stream"
        text = connection.value(said, stream=chosen)
        try:
            facts = dict(parse_json(text))
            plain = facts["description"].get("shown") is None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StateError(
                f"{place} has no description of stream {chosen!r} any more, and its numbers cannot "
                "be read without it: publish the stream again (counton publish)"
            ) from error
        listed = 'step, "group", estimate, window_estimate' if plain else "DISTINCT step"
        found = connection.execute(
            f"SELECT {listed} FROM counton_releases WHERE stream = :stream ORDER BY step",
            stream=chosen,
        )
        names = [column[0] for column in found.description]
        columns = [list(column) for column in zip(*found.fetchall(), strict=True)]
    columns = columns or [[] for _ in names]
    return PublishedRows(place, facts, dict(zip(names, columns, strict=True)))


def is_published(source: str) -> bool:
    """Return True if a readable database holds published releases and is no state."""
    file = parse_address(source, "the database").file
    if file is not None and is_state(file):
        return False
    with _reading(source) as (connection, _):
        if not connection.has(_STREAMS):
            return False
        if not connection.has("counton_streams"):
            return True
        return not connection.value("SELECT has_any_column_privilege('counton_streams', 'SELECT')")


def _nothing(connection: Connection, place: str) -> str:
    """Return a sentence that says why a database has no published stream."""
    if connection.has("counton_streams"):
        return (
            f"{place} is a state, and nothing is published in it: publish its streams first "
            f"(counton publish), or read the state (counton show)"
        )
    return (
        f"{place} has no table {_STREAMS}, so nothing is published there: publish a stream there "
        "first (counton publish)"
    )


def _connection_of(address: str) -> sqlite3.Connection:
    """Open a SQLite file that is not trusted: the work of its queries is limited."""
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    left = iter(range(_MOST_WORK))
    connection.set_progress_handler(lambda: next(left, None) is None, _WORK)
    return connection


@contextmanager
def _reading(source: str) -> Iterator[tuple[Connection, str]]:
    """Open a transaction that only reads; yield it with the database's address for messages."""
    address = parse_address(source, "the database")
    file, place = address.file, address.label
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    if file is None:
        connections = address.connections(LOCK_TIMEOUT_SECONDS)
    else:
        begin = "BEGIN"  # all reads see one moment
        if not file.is_file():
            raise RequestMismatch(
                f"{place} is not a file: give a database that counton publish wrote"
            )
        if is_state(file):
            raise RequestMismatch(
                f"{place} is a state, which is secret and not for readers: publish its streams to "
                "another file (counton publish), or read the state (counton show)"
            )
        read_only = partial(_connection_of, f"{file.as_uri()}?mode=ro")
        connections = Connections(read_only, is_sqlite=True)
    try:
        with connections.transaction(begin) as connection:
            yield connection, place
    except address.errors as error:
        raise StateUnavailable(
            f"{place} cannot be read ({first_line(error)}): check the path or address; a reader on "
            f"a server is granted SELECT on counton_releases and {_STREAMS}"
        ) from error
    finally:
        connections.close()

"""Releases as plain database rows, for tools such as Grafana, Metabase or psql.

The journal keeps releases as compressed blobs, which SQL cannot read. Here each value has a row of
its own, in tables that hold nothing secret. The view ``counton_releases`` shows them all. Facts
that all groups of a step share (times, standard deviation, half-width of the interval) are stored
once per step. The public facts of each stream stand beside them, in the form of an exported release
file.
"""

from __future__ import annotations

import json
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
from counton.base.sqlite_header import sqlite_header
from counton.base.windows import load_zone
from counton.state.database import LOCK_TIMEOUT_SECONDS, Database, DatabaseAddress, parse_address
from counton.state.sql import Connection, Connections
from counton.state.sqlite_file import is_state

#: Longest text in characters and most rows of one stream that are read; SQLite's instructions
#: between two checks, and most checks.
_MOST_TEXT, _MOST_ROWS = 2**28, 2**24
_WORK, _MOST_WORK = 10_000, 400_000

#: Columns of numbers have no type in a file, so that whole numbers stay whole.
_TABLES = (
    # Step is the last published one. Shown is JSON of the readings' columns; null for streams
    # whose values need no reading.
    """CREATE TABLE counton_published_streams (
    id {serial} PRIMARY KEY, stream VARCHAR(200) NOT NULL UNIQUE,
    key_fingerprint VARCHAR(64) NOT NULL, protected TEXT NOT NULL, guarantee TEXT NOT NULL,
    strategy TEXT NOT NULL, level {number} NOT NULL, step BIGINT NOT NULL, shown TEXT
);"""
    """CREATE TABLE counton_published_groups (
    stream_id BIGINT REFERENCES counton_published_streams (id), cell BIGINT, "group" TEXT NOT NULL,
    PRIMARY KEY (stream_id, cell), UNIQUE (stream_id, "group")
) {key};"""
    # All rows without times were released at once. The local start is a clock time of its zone.
    """CREATE TABLE counton_published_windows (
    stream_id BIGINT REFERENCES counton_published_streams (id), step BIGINT,
    window_start TIMESTAMP WITH TIME ZONE, window_end TIMESTAMP WITH TIME ZONE,
    std {number}, half {number}, window_std {number}, window_half {number}, local_start TIMESTAMP,
    PRIMARY KEY (stream_id, step)
) {key};"""
    """CREATE TABLE counton_published_values (
    stream_id BIGINT REFERENCES counton_published_streams (id), step BIGINT, cell BIGINT,
    estimate {number}, window_estimate {number},
    PRIMARY KEY (stream_id, step, cell)
) {key};"""
    # Readings of statistics: several numbers a step, each with an interval of its own.
    """CREATE TABLE counton_published_readings (
    stream_id BIGINT REFERENCES counton_published_streams (id), step BIGINT, row BIGINT,
    "group" TEXT NOT NULL, estimate {number}, std {number}, lower {number}, upper {number},
    PRIMARY KEY (stream_id, step, row)
) {key};"""
    # Public facts of a stream in JSON, as files carry them.
    """CREATE TABLE counton_published_descriptions (
    stream_id BIGINT PRIMARY KEY REFERENCES counton_published_streams (id),
    description TEXT NOT NULL
) {key};"""
    # Cells from which the readings of a statistic are made, by consecutive steps, in JSON.
    """CREATE TABLE counton_published_cells (
    stream_id BIGINT REFERENCES counton_published_streams (id), first_step BIGINT,
    last_step BIGINT NOT NULL, cells TEXT NOT NULL,
    PRIMARY KEY (stream_id, first_step)
) {key};"""
)

#: The view to read. Columns ``window_...`` are of one window alone, the others of all windows up
#: to it.
_VIEW = """CREATE VIEW counton_releases AS
SELECT s.stream, w.step, w.window_start, w.window_end, g."group",
    v.estimate, w.std, v.estimate - w.half AS lower, v.estimate + w.half AS upper,
    v.window_estimate, w.window_std,
    v.window_estimate - w.window_half AS window_lower,
    v.window_estimate + w.window_half AS window_upper,
    s.level, s.step AS last_step, w.local_start
FROM counton_published_streams s
JOIN counton_published_groups g ON g.stream_id = s.id
JOIN counton_published_windows w ON w.stream_id = s.id
JOIN counton_published_values v
    ON v.stream_id = s.id AND v.step = w.step AND v.cell = g.cell
UNION ALL
SELECT s.stream, w.step, w.window_start, w.window_end, r."group",
    r.estimate, r.std, r.lower, r.upper, NULL, NULL, NULL, NULL, s.level, s.step, w.local_start
FROM counton_published_streams s
JOIN counton_published_windows w ON w.stream_id = s.id
JOIN counton_published_readings r ON r.stream_id = s.id AND r.step = w.step
"""


_STREAMS = "counton_published_streams"


class PublicFacts(NamedTuple):
    """Facts about a stream that are published with its rows: among them the protected unit and the
    guarantee in words, the confidence level of its intervals (0 to 1), and the labels of its
    groups.
    """

    stream: str
    key_fingerprint: str
    protected: str
    guarantee: str
    strategy: str
    level: float
    shown: str | None
    groups: Sequence[str]


class PublishedReach(NamedTuple):
    """The steps of a stream that are published in a database.

    Attributes:
        stream_id: row id of the stream in the published tables.
        step: last published step.
        cells: last step whose noisy cells are published, for a statistic that is computed from such
            cells.
    """

    stream_id: int
    step: int
    cells: int


class PublishedRows(NamedTuple):
    """All published rows of one stream in a database; everything is public.

    Attributes:
        place: address of the database, without a password.
        facts: public description of the release, as JSON values, and the program that wrote it.
        last: last published step.
        columns: values by column name: ``step``, and for counts and sums ``group, estimate,
            window_estimate``.
        cells: for a statistic: blocks of consecutive steps, each as first step, last step, and the
            packed noisy cells.
    """

    place: str
    facts: dict[str, Any]
    last: int
    columns: dict[str, list[Any]]
    cells: list[tuple[int, int, dict[str, Any]]]


def checked_address(to: str | os.PathLike[str], state: DatabaseAddress) -> DatabaseAddress:
    """Return the address of the database in which releases of a state will be published; refuse a
    file that cannot be one.

    Raises:
        InvalidInput: see `Place`.
    """
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


def begin(
    connection: Connection,
    shown: PublicFacts,
    last: int,
    about: Mapping[str, Any],
    author: str,
) -> PublishedReach:
    """Prepare a database for a stream's releases: make missing tables, and the stream's row. Return
    how far the stream is published already.

    Args:
        shown: public facts of the stream, among them its name and groups.
        last: the stream's last released step.
        about: the description of the release, and its notes.
        author: the program that publishes, with its version.

    Raises:
        StateError: the database has another published stream of this name, or more published steps
            than this stream has released.
    """
    if not connection.has(_STREAMS):
        connection.script(_TABLES)
        connection.execute(_VIEW)
    row = find_row(connection, shown.stream)
    facts = {name: value for name, value in shown._asdict().items() if name != "groups"}
    if row is not None and row.key_fingerprint != shown.key_fingerprint:
        raise RequestMismatch(
            f"another stream {shown.stream!r} is published there already, with the key "
            f"{row.key_fingerprint}: publish to another database, or remove that stream first "
            f"(counton publish, {field('remove', True)})"
        )
    if row is not None and row.step > last:
        raise OldCopy(
            f"{row.step:,} steps of stream {shown.stream!r} are published, but the state has only "
            f"{last:,}, so the state is an old copy; restore the newest copy"
        )
    if row is not None:
        said = "SELECT count(*) FROM counton_published_groups WHERE stream_id = :stream"
        known = connection.value(said, stream=row.id)
        same = row.level == shown.level and row.shown == shown.shown
        if not same or known != len(shown.groups):
            remove(connection, shown.stream)  # changed readings or groups make all rows new
            row = None
    if row is None:
        connection.insert(_STREAMS, {**facts, "step": 0})
        row = find_row(connection, shown.stream)
        named = (
            {"stream_id": row.id, "cell": cell, "group": name}
            for cell, name in enumerate(shown.groups)
        )
        connection.insert("counton_published_groups", *named)
    before = connection.first(_DESCRIPTION, stream=row.id)
    text = json.dumps({"written_by": author, **about})
    if before is None or _parse_facts(before.description) != json.loads(text) | {"written_by": 0}:
        _remove_from(connection, "descriptions", row.id)
        described = {"stream_id": row.id, "description": text}
        connection.insert("counton_published_descriptions", described)
    newest = "SELECT max(last_step) FROM counton_published_cells WHERE stream_id = :stream"
    return PublishedReach(row.id, row.step, connection.value(newest, stream=row.id) or 0)


_DESCRIPTION = "SELECT description FROM counton_published_descriptions WHERE stream_id = :stream"


def _parse_facts(text: str) -> Any:
    """Return the published facts of a stream, without the program that wrote them; None if they
    have no description.
    """
    try:
        found = parse_json(text)
        return found | {"written_by": 0} if found["description"] is not None else None
    except (ValueError, LookupError, TypeError):
        return None


def write_cells(
    connection: Connection, stream_id: int, first: int, last: int, packed: Mapping[str, Any]
) -> None:
    """Write the noisy cells of the steps ``first`` to ``last``, packed as JSON values, to the
    published tables.
    """
    row = {"stream_id": stream_id, "first_step": first, "last_step": last}
    connection.insert("counton_published_cells", {**row, "cells": json.dumps(packed)})


def remove_cells(connection: Connection, stream_id: int) -> None:
    """Remove all published noisy cells of a stream, because they are too many, or will be written
    again.
    """
    _remove_from(connection, "cells", stream_id)


def _remove_from(connection: Connection, table: str, stream_id: int) -> None:
    said = f"DELETE FROM counton_published_{table} WHERE stream_id = :stream"
    connection.run(said, stream=stream_id)


def write(
    connection: Connection,
    stream_id: int,
    first: int,
    last: int,
    window_rows: Iterable[Sequence[Any]],
    value_rows: Iterable[Sequence[Any]],
    reading_rows: Iterable[Sequence[Any]] = (),
) -> None:
    """Write the steps ``first`` to ``last`` to the published tables: a table of windows, a table of
    values, and a table of a statistic's results.
    """
    said = f"UPDATE {_STREAMS} SET step = :last WHERE id = :stream AND step = :before"
    if connection.run(said, stream=stream_id, before=first - 1, last=last) != 1:
        raise _published_by_another(first)
    for table, rows in (
        ("windows", window_rows),
        ("values", value_rows),
        ("readings", reading_rows),
    ):
        connection.append(f"counton_published_{table}", ((stream_id, *row) for row in rows))


def take_back(connection: Connection, begun: PublishedReach, last: int) -> PublishedReach:
    """Remove the published rows of steps after ``last``, and all published noisy cells, because
    both will be written again; return how far the stream is published then.
    """
    said = f"UPDATE {_STREAMS} SET step = :last WHERE id = :stream AND step = :before"
    if connection.run(said, stream=begun.stream_id, before=begun.step, last=last) != 1:
        raise _published_by_another(begun.step + 1)
    for table in ("values", "readings", "windows"):
        said = f"DELETE FROM counton_published_{table} WHERE stream_id = :stream AND step > :last"
        connection.run(said, stream=begun.stream_id, last=last)
    remove_cells(connection, begun.stream_id)
    return PublishedReach(begun.stream_id, last, 0)


def _published_by_another(step: int) -> StreamConflict:
    return StreamConflict(
        f"another process is publishing this stream, and has added step {step:,} already: let only "
        "one of them publish"
    )


def remove(connection: Connection, stream: str) -> Any:
    """Remove all published rows of a stream. Return its former database row; None if it was not
    published.
    """
    row = find_row(connection, stream)
    if row is not None:
        for table in ("values", "readings", "cells", "descriptions", "windows", "groups"):
            _remove_from(connection, table, row.id)
        connection.run(f"DELETE FROM {_STREAMS} WHERE id = :stream", stream=row.id)
    return row


def moments(connection: Connection, times: Sequence[Any]) -> Sequence[Any]:
    """Convert times to what the database stores: SQLite has no type for times, so it stores text in
    UTC.
    """
    if not connection.is_sqlite:
        return times
    return [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times]


def local_moments(connection: Connection, times: Sequence[Any], zone: str) -> Sequence[Any]:
    """Return times as clocks in a time zone show them, without an offset from UTC."""
    local = [time.astimezone(load_zone(zone)).replace(tzinfo=None) for time in times]
    return [time.isoformat() for time in local] if connection.is_sqlite else local


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
        said = f"SELECT id, step FROM {_STREAMS} WHERE stream = :stream"
        row = connection.one(said, stream=chosen)
        described = connection.first(_DESCRIPTION, stream=row.id)
        text = None if described is None else described.description
        if text is not None and len(text) > _MOST_TEXT:
            raise StateError(
                f"{place} has a description of {len(text):,} characters, more than the "
                f"{_MOST_TEXT:,} that are read: publish the stream again (counton publish)"
            )
        if text is None or _parse_facts(text) is None:
            raise StateError(
                f"{place} has no description of stream {chosen!r} any more, and its numbers cannot "
                "be read without it: publish the stream again (counton publish)"
            )
        facts = parse_json(text)
        said = (
            "SELECT first_step, last_step, cells FROM counton_published_cells"
            " WHERE stream_id = :stream ORDER BY first_step"
        )
        stretches = [*connection.rows(said, stream=row.id)]
        plain = facts["description"].get("shown") is None
        listed = 'step, "group", estimate, window_estimate' if plain else "DISTINCT step"
        order = 'step, "group"' if plain else "step"
        found = connection.execute(
            f"SELECT {listed} FROM counton_releases "
            f"WHERE stream = :stream ORDER BY {order} LIMIT {_MOST_ROWS + 1}",
            {"stream": chosen},
        )
        names = [column[0] for column in found.description]
        rows = found.fetchall()
        if len(rows) > _MOST_ROWS:
            raise RequestMismatch(
                f"{place} has more than {_MOST_ROWS:,} rows of stream {chosen!r}, which is the "
                "most that can be read at once: query the database yourself, or export parts of "
                "the stream to files"
            )
        columns = [list(column) for column in zip(*rows, strict=True)]
    return PublishedRows(
        place,
        facts,
        row.step,
        dict(zip(names, columns or [[] for _ in names], strict=True)),
        [(first, last, parse_json(packed)) for first, last, packed in stretches],
    )


def is_published(source: str) -> bool:
    """Return True if a database holds published releases and is no state; False if it cannot be
    read.
    """
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
            f"(counton publish), or ask the state (counton answer)"
        )
    return (
        f"{place} has no table {_STREAMS}, so nothing is published there: publish a stream there "
        "first (counton publish)"
    )


def _connection_of(address: str) -> sqlite3.Connection:
    """Open a SQLite file that is not trusted: the work of its queries and the length of its texts
    are limited.
    """
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT)
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
                "another file (counton publish), or ask the state (counton answer)"
            )
        read_only = partial(_connection_of, f"{file.as_uri()}?mode=ro")
        connections = Connections(read_only, is_sqlite=True)
    try:
        with connections.transaction(begin) as connection:
            yield connection, place
    except address.errors as error:
        raise StateUnavailable(
            f"{place} cannot be read ({first_line(error)}): check the path or address; a reader on "
            f"a server is granted SELECT on counton_releases, {_STREAMS}, "
            f"counton_published_descriptions and counton_published_cells"
        ) from error
    finally:
        connections.close()

"""SQL for SQLite files and PostgreSQL servers, where ``:name`` stands for a value."""

from __future__ import annotations

import os
import re
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from counton.base.errors import StateError
from counton.state import schema

_PLACE = re.compile(r"(?<!:):(\w+)")
#: Most connections kept open between transactions.
_MOST_IDLE_CONNECTIONS = 5
#: Column types, and a random identifier, in the two kinds of database.
_OF_STREAM = "stream_id BIGINT NOT NULL REFERENCES counton_streams (id)"
_SQLITE_WORDS = {
    "serial": "INTEGER", "bytes": "BLOB", "number": "NUMERIC", "key": "WITHOUT ROWID",
    "of_stream": _OF_STREAM, "identity": "lower(hex(randomblob(16)))",
}  # fmt: skip
_SERVER_WORDS = {
    "serial": "BIGSERIAL", "bytes": "BYTEA", "number": "DOUBLE PRECISION", "key": "",
    "of_stream": _OF_STREAM, "identity": "replace(gen_random_uuid()::text, '-', '')",
}  # fmt: skip


class MissingRowError(Exception):
    """A row that must exist is missing."""


@dataclass(eq=False, repr=False)
class Connection:
    """A database connection within an open transaction.

    >>> import sqlite3
    >>> driver = sqlite3.connect(":memory:")
    >>> connection = Connection(driver, is_sqlite=True)
    >>> connection.script("CREATE TABLE seen (step BIGINT, body {bytes})")
    >>> connection.insert("seen", {"step": 1, "body": b"one"}, {"step": 2, "body": b"two"})
    >>> connection.execute("DELETE FROM seen WHERE step > :last", last=1).rowcount
    1
    >>> connection.first("SELECT * FROM seen").body
    b'one'
    >>> driver.close()
    """

    driver: Any
    is_sqlite: bool
    _cursors: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet, init=False)

    def execute(self, statement: str, *rows: Mapping[str, object], **values: object) -> Any:
        """Run a statement with values by name, or once for each of several rows of values; return
        its cursor, whose ``rowcount`` is the number of changed rows.
        """
        text = statement if self.is_sqlite else _for_server(statement)
        cursor = self.driver.cursor()
        self._cursors.add(cursor)
        if len(rows) > 1:
            cursor.executemany(text, rows)
        else:
            cursor.execute(text, *(rows or (values,)))
        return cursor

    def insert(self, table: str, *rows: Mapping[str, object]) -> None:
        """Add rows, which all have the columns of the first, to a table."""
        if rows:
            names, places = (", ".join(map(form.format, rows[0])) for form in ('"{}"', ":{}"))
            self.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", *rows)

    def append(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Add rows that have a value for each column of a table, in the order of the columns."""
        rows = [*rows]
        if rows:
            places = ", ".join(["?" if self.is_sqlite else "%s"] * len(rows[0]))
            statement = f"INSERT INTO {table} VALUES ({places})"
            self.driver.cursor().executemany(statement, rows)

    def rows(self, statement: str, **values: object) -> Iterator[Any]:
        """Run a SELECT with values by name; return its rows, with their columns as attributes.

        Raises:
            StateError: a value has another type than its column in the tables of a state.
        """
        cursor = self.execute(statement, **values)
        columns = tuple(column[0] for column in cursor.description)
        return map(_row_of(*columns), _checked(cursor, _checks_of(statement, columns)))

    @property
    def for_update(self) -> str:
        """End of a SELECT that locks its rows on a server; a SQLite file is locked as a whole."""
        return "" if self.is_sqlite else " FOR UPDATE"

    def first(self, statement: str, **values: object) -> Any:
        """Run a SELECT with values by name; return its first row, or None if it has no row."""
        return next(self.rows(statement, **values), None)

    def value(self, statement: str, **values: object) -> Any:
        """Return the first column of a SELECT's first row, or raise `MissingRowError`."""
        for row in self.rows(statement, **values):
            return row[0]
        raise MissingRowError("a row is missing")

    def has_table(self, table: str) -> bool:
        """Return True if the connection's database has a table of this name that counton made."""
        return self.first(_FILE_HAS if self.is_sqlite else _SERVER_HAS, name=table) is not None

    def script(self, tables: str) -> None:
        """Make the tables of a script, with types of this database for words in braces."""
        words = _SQLITE_WORDS if self.is_sqlite else _SERVER_WORDS
        for statement in tables.format_map(words).split(";"):
            if statement.strip():
                self.execute(statement)

    def lock(self, number: int, *more: int, shared: bool = False) -> None:
        """Take a lock on a server until the transaction ends, beside other ``shared`` ones if
        shared.

        A SQLite file needs none: it is locked as a whole while it is written.
        """
        if not self.is_sqlite:
            kind = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
            self.execute(f"SELECT {kind}({', '.join(map(str, (number, *more)))})")

    def abandon(self) -> None:
        """Undo the transaction by closing the connection, without a statement.

        A ROLLBACK statement would not suffice: SQLite keeps a transaction and its locks while a
        cursor has rows left, for example in the frames of an exception.
        """
        for undo in (*(cursor.close for cursor in self._cursors), self.driver.rollback):
            with suppress(Exception):
                undo()
        self.driver.close()


_FILE_HAS = "SELECT name FROM sqlite_master WHERE name = :name"
#: Not ``to_regclass``: a table that it missed once, it misses until the next transaction.
_SERVER_HAS = (
    "SELECT oid FROM pg_catalog.pg_class"
    " WHERE relname = :name AND relkind IN ('r', 'p', 'v', 'm', 'f')"
    " AND pg_catalog.pg_table_is_visible(oid)"
)


class _Check(NamedTuple):
    """The types that the values at one place of a row may have."""

    place: int
    types: frozenset[type]
    column: str


@cache
def _checks_of(statement: str, columns: tuple[str, ...]) -> tuple[_Check, ...]:
    """Return the checks of a statement's columns that tables of a state declare."""
    tables = [schema.types_of(table) for table in _TABLE_NAME.findall(statement)]
    checks = []
    for place, column in enumerate(columns):
        declared = {table[column] for table in tables if column in table}
        if len(declared) == 1:
            checks.append(_Check(place, declared.pop(), column))
    return tuple(checks)


_TABLE_NAME = re.compile(r"\bcounton_\w+")


def _checked(rows: Iterable[Any], checks: tuple[_Check, ...]) -> Iterator[Any]:
    """Yield rows; refuse a value of another type than its column has."""
    for row in rows:
        for place, types, column in checks:
            if type(row[place]) not in types:
                expected = " or ".join(sorted(kind.__name__ for kind in types))
                raise StateError(
                    f"column {column} holds a value of type {type(row[place]).__name__}, and it "
                    f"must be {expected}: the state was altered; restore it from a copy"
                )
        yield row


@cache
def _for_server(statement: str) -> str:
    return _PLACE.sub(r"%(\1)s", statement.replace("%", "%%"))


@cache
def _row_of(*columns: str) -> Callable[[Sequence[object]], object]:
    kind: Any = namedtuple  # the names come from a statement
    row = kind("Row", columns, rename=True)
    row.__repr__ = lambda _: "Row(secret)"  # it may hold an exact number of rows
    return row._make  # type: ignore[no-any-return]


class Connections:
    """Connections to one database, each of which serves one transaction at a time."""

    def __init__(self, connect: Callable[[], Any], *, is_sqlite: bool) -> None:
        self._connect = connect
        self._is_sqlite = is_sqlite
        self._idle: deque[Any] = deque()
        #: Close all connections, except those that a parent process has opened.
        self.close = partial(_close, self._idle, os.getpid())
        # Connections that nobody closes are closed when this object goes, and not whenever Python
        # may.
        weakref.finalize(self, self.close).atexit = False

    @contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """Open a transaction with ``begin``: the block's end commits it, an exception undoes it."""
        idle_connection = None
        connection = None
        broken = False
        with suppress(IndexError):
            idle_connection = self._idle.pop()
        while connection is None:
            driver = self._connect() if idle_connection is None else idle_connection
            connection = Connection(driver, is_sqlite=self._is_sqlite)
            try:
                connection.execute(begin)
            except BaseException as error:
                connection.abandon()
                if idle_connection is None or self._is_sqlite or not isinstance(error, Exception):
                    raise
                idle_connection = connection = None  # the server may have restarted since
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            broken = True  # unless the transaction ends, whatever interrupts it
            with suppress(Exception):  # it is broken, or the database has ended the transaction
                connection.execute("ROLLBACK")
                broken = False
            raise
        finally:
            if broken:
                connection.abandon()
            elif len(self._idle) < _MOST_IDLE_CONNECTIONS:
                self._idle.append(driver)
            else:
                driver.close()


def _close(idle: deque[Any], owner: int) -> None:
    """Close the idle connections, if this process has opened them."""
    while idle and os.getpid() == owner:
        idle.pop().close()

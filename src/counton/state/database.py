"""A state database: a SQLite file or a PostgreSQL server, its transactions and its errors."""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InvalidInputError,
    StateError,
    StateRolledBackError,
    StateUnavailableError,
    StreamMismatchError,
    first_line,
    hide_secrets,
    is_text,
)
from counton.base.lazy import require
from counton.state import schema, sqlite_file
from counton.state.sql import Connection, Connections, MissingRowError
from counton.state.sqlite_file import NoStateError

#: Longest wait of a transaction for another process's transaction.
LOCK_TIMEOUT_SECONDS = 5.0
#: A server ends a transaction that has been idle for this many seconds, if all transactions are
#: short (see ``short_transactions`` of `Database`).
PAUSE_SECONDS = 20.0

_LOCK_MESSAGES = re.compile(
    r"database (table )?is (locked|busy)|lock timeout|could not obtain lock"
)
_DISK_MESSAGES = re.compile(
    r"disk is full|disk I/O error|No space left|File too large|could not extend"
)
_DAMAGE_MESSAGES = re.compile(
    r"not a database|malformed|disk image|encrypted|no such (table|column)"
)
_IDENTITY = re.compile("[0-9a-f]{32}")
#: Errors of a damaged state, besides those with messages that `_DAMAGE_MESSAGES` matches.
_DAMAGE_ERRORS = (UnicodeDecodeError, MissingRowError)
#: Errors of a value that cannot be decoded. A JSON text may be nested too deeply, and code that
#: takes what counton writes for granted may fail its assertion.
_DECODING_ERRORS = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RecursionError, zlib.error,
)  # fmt: skip
#: Function called within a transaction, just before its commit.
CommitHook = Callable[[Connection], None]


class Closing:
    """A resource that a ``with`` block closes at its end."""

    def close(self) -> None:
        """Close everything that this object holds open, such as connections."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DatabaseAddress(NamedTuple):
    """Address of a SQLite file, or URL of a server, with its password.

    Attributes:
        label: the address of the database for messages, without its passwords.
    """

    file: Path | None
    url: str
    label: str

    def connections(self, timeout_seconds: float, options: str = "") -> Connections:
        """Return an opener of connections whose transactions wait ``timeout_seconds`` for locks."""
        if self.file is not None:
            return Connections(
                partial(sqlite_file.connect, self.file, timeout_seconds), is_sqlite=True
            )
        require("psycopg")
        import psycopg

        # A server may default to asynchronous commits, which a power cut can lose.
        options = (
            f"-c lock_timeout={int(1000 * timeout_seconds)} -c synchronous_commit=on"
            f" -c client_encoding=UTF8 {options}"  # otherwise some databases return texts as bytes
        )

        def connect() -> object:
            base_options = psycopg.conninfo.conninfo_to_dict(self.url).get("options") or ""
            return psycopg.connect(self.url, options=f"{base_options} {options}", autocommit=True)

        return Connections(connect, is_sqlite=False)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that the client library of this kind of database raises."""
        if self.file is not None:
            return sqlite3.Error, UnicodeDecodeError, MissingRowError
        import psycopg

        return psycopg.Error, UnicodeError, MissingRowError


class Database:
    """A state's database. Not public: `counton.state.Store` and ``Stream`` use it.

    Args:
        state: path of a SQLite file, or a database URL.
        create: make the database if it is missing.
        short_transactions: True if transactions compute nothing between their statements. A server
            then ends a transaction that is idle for `PAUSE_SECONDS`, so that a paused process does
            not block others.

    Attributes:
        identity: random identifier of the state, which stays the same if the state is moved or
            copied. Not secret.

    Raises:
        StateError: the file is missing, truncated, not a database, not ours, of another format, or
            has several names (hard links).
        ConcurrentWriterError: somebody else holds the lock.
        InvalidInputError: the address is neither a path nor a SQLite or PostgreSQL URL.
    """

    identity: str

    def __init__(
        self,
        state: str | os.PathLike[str],
        *,
        create: bool = False,
        short_transactions: bool = False,
    ) -> None:
        self.address = parse_address(state)
        self.path = self.address.file
        self.is_sqlite = self.path is not None
        self.label = self.address.label
        self.lock_timeout_seconds = LOCK_TIMEOUT_SECONDS
        self._owner = os.getpid()
        if self.path is not None:
            if create and not self.path.exists():
                sqlite_file.create(self.path)
            sqlite_file.check(self.path)
            # After the check: before it, another process may not have made the file yet.
            self._file = sqlite_file.identity(self.path)
        pause = f"-c idle_in_transaction_session_timeout={int(1000 * PAUSE_SECONDS)}"
        self._connections = self.address.connections(
            self.lock_timeout_seconds, pause if short_transactions else ""
        )
        #: Close all connections to the state's database.
        self.close = self._connections.close
        try:
            if create and not self.is_sqlite:
                self._create_tables()
            self._look_at_format()
        except BaseException:
            self.close()
            raise

    def _create_tables(self) -> None:
        """Create the tables of a server's state, if they are missing."""
        with self.transaction(write=True) as connection:
            # If two processes "create if missing" at once, one of them fails.
            connection.lock(schema.APPLICATION_ID)
            if not self._has_tables(connection):
                connection.script(schema.TABLES)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Open a transaction: the end of the block commits it, an exception undoes it."""
        if os.getpid() != self._owner:
            raise ConcurrentWriterError(
                f"state {self.label} was opened by process {self._owner}, and the forked process "
                f"{os.getpid()} uses it too: open the state anew in each process"
            )
        if write and self.path is not None and sqlite_file.identity(self.path) != self._file:
            raise StateRolledBackError(
                f"state {self.label} was removed or replaced while it was open, so later runs "
                "would not find the steps that are released now: put the file back, or open "
                "the new one"
            )
        # A writer takes the lock of a file at once: a reader's lock cannot be turned into a
        # writer's later without the risk of an immediate "database is locked".
        begin = "BEGIN IMMEDIATE" if write and self.is_sqlite else "BEGIN"
        try:
            with self._connections.transaction(begin) as connection:
                yield connection
        except self.address.errors as error:
            raise self._explain(error) from error

    def check_pages(self) -> None:
        """Refuse a SQLite file with damaged pages, or an index that does not fit its table.

        It reads the whole file, so only `verify` calls it.
        """
        if not self.is_sqlite:
            return
        with self.transaction(write=False) as connection:
            fault = connection.value("PRAGMA integrity_check(1)")
        if fault != "ok":
            raise StateError(
                f"state {self.label} is damaged ({first_line(ValueError(fault))}): restore it from "
                "a copy"
            )

    def _has_tables(self, connection: Connection) -> bool:
        """Tell whether a PostgreSQL database holds a state; refuse SQL_ASCII (names are bytes)."""
        if connection.value("SHOW server_encoding") == "SQL_ASCII":
            raise StreamMismatchError(
                f"state {self.label} is a database in the encoding SQL_ASCII, which cannot be "
                "trusted with texts: make another one with CREATE DATABASE ... ENCODING 'UTF8' "
                "TEMPLATE template0"
            )
        return connection.has_table("counton_database")

    def _look_at_format(self) -> None:
        """Read the identity; refuse a state whose format this version does not read."""
        with self.transaction(write=False) as connection:
            if not self.is_sqlite and not self._has_tables(connection):
                raise NoStateError(
                    f"state {self.label} holds nothing yet: create one with Stream.create"
                )
            query = (
                "PRAGMA user_version" if self.is_sqlite else "SELECT format FROM counton_database"
            )
            state_format = int(connection.value(query))
            if state_format == schema.FORMAT:
                self.identity = str(connection.value("SELECT identity FROM counton_database"))
                if not _IDENTITY.fullmatch(self.identity):
                    raise StateError(
                        f"the identity of state {self.label} is not one: the state was altered; "
                        "restore it from a copy"
                    )
        if state_format > schema.FORMAT:
            raise StateError(
                f"state {self.label} has format {state_format}, and this version of counton reads "
                f"format {schema.FORMAT}. Use the version that wrote it, or a later one"
            )
        if state_format < schema.FORMAT:
            raise StateError(
                f"state {self.label} has format {state_format} of an earlier version of counton "
                f"({schema.writer_of(state_format)}), and this version reads format "
                f"{schema.FORMAT}. Close its streams with the version that wrote it (counton "
                "close). Then begin a new state, and record in it what the old one spent, with "
                "counton ledger"
            )

    def _explain(self, error: Exception) -> Exception:
        cause = str(error)
        why = first_line(error) or type(error).__name__
        if _LOCK_MESSAGES.search(cause):
            return ConcurrentWriterError(
                f"state {self.label} is locked by another process for more than "
                f"{self.lock_timeout_seconds:g} seconds, so nothing was released. Wait for that "
                "process or end it, then try again"
            )
        if _DISK_MESSAGES.search(cause):
            return StateUnavailableError(
                f"state {self.label} could not be written, because the disk is full or the file "
                f"may not grow ({why}): nothing was released; make room, then try again"
            )
        if "decode to UTF-8" in cause:  # SQLite's message shows the text
            why = "a text in it is not valid UTF-8"
        if (
            "decode to UTF-8" in cause
            or _DAMAGE_MESSAGES.search(cause)
            or isinstance(error, _DAMAGE_ERRORS)
        ):
            return StateError(
                f"state {self.label} is truncated, damaged or not a counton database "
                f"({why}): restore it from a copy"
            )
        return StateUnavailableError(
            f"state {self.label} cannot be used ({why}): check the path or address, its "
            f"permissions and the space left"
        )


@contextmanager
def reading(subject: str) -> Iterator[None]:
    """Turn failures to decode stored values in the ``with`` block into `StateError`."""
    try:
        yield
    except InvalidInputError as error:  # a stored value is not allowed
        raise _unreadable(subject, error) from error
    except CountonError:
        raise
    except _DECODING_ERRORS as error:
        raise _unreadable(subject, error) from error


def _unreadable(subject: str, error: Exception) -> StateError:
    return StateError(
        f"{subject} cannot be read ({error}): the state was altered; restore it from a copy"
    )


def state_file(state: str | os.PathLike[str], called: str = "state") -> Path | None:
    """Return the file of a SQLite state, or None for a state on a server.

    Args:
        state: path of a SQLite file, or a database URL.
        called: name of the argument that holds the address, for messages.

    Raises:
        InvalidInputError: the argument is neither a path nor a SQLite or PostgreSQL URL.

    >>> state_file("sqlite:///visits.db").name, state_file("postgresql://ann@db/visits")
    ('visits.db', None)
    """
    return parse_address(state, called).file


def parse_address(state: str | os.PathLike[str], called: str = "state") -> DatabaseAddress:
    """Parse the address of a database; a bare path means a SQLite file.

    Symbolic links are followed: SQLite's log and the key lie beside the linked file.

    >>> parse_address("postgresql+psycopg://ann:x@db/visits").label
    'postgresql://ann:***@db/visits'
    """
    value: object = state
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{called} is of type {type(state).__name__}: give the path of a file or a database URL"
        )
    if not is_text(text):
        raise InvalidInputError(
            f"{called} is {text[:80]!r}, which is not valid UTF-8: rename it in UTF-8, without NUL"
        )
    if not text:
        raise InvalidInputError(
            f"{called} is an empty text: give the path of a file or a database URL"
        )
    kind, separator, rest = text.partition("://")
    name = text
    write = "write FILE, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    if kind in ("postgresql", "postgresql+psycopg") and separator:
        url = f"postgresql://{rest}"
        return DatabaseAddress(None, url, hide_secrets(url))
    if separator:
        host, _, place = rest.partition("/")
        if not re.fullmatch(r"[\w+]+", kind) or (kind == "sqlite" and host):
            raise InvalidInputError(f"{called} is neither a path nor a database URL: {write}")
        if kind != "sqlite":
            raise InvalidInputError(
                f"{called} is a {kind!r} address, and only SQLite and PostgreSQL (with psycopg) "
                f"are supported: {write}"
            )
        name, _, query = place.partition("?")
        name = ":memory:" if "mode=memory" in query else name
    address = name.startswith("file:") and (":memory:" in name or "mode=memory" in name)
    if name in ("", ":memory:") or address:
        raise InvalidInputError(
            f"{called} {text} would exist in memory only, but a state must outlive its process: "
            "give the path of a file; for a trial, a file in a temporary folder"
        )
    path = os.path.realpath(name)
    return DatabaseAddress(Path(path), "", path)

"""A state database: a SQLite file or a PostgreSQL server, its transactions and its errors."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoResultFound, SQLAlchemyError

from counton.base.errors import (
    CountonError,
    InvalidInput,
    OldCopy,
    RequestMismatch,
    StateError,
    StateUnavailable,
    StreamConflict,
    hide_secrets,
    is_text,
    without_secrets,
)
from counton.base.lazy import require
from counton.state import schema, sqlite_file
from counton.state.sql import PreparedStatement, has
from counton.state.sqlite_file import NoState

#: How long a transaction waits for another process's transaction.
LOCK_TIMEOUT_SECONDS = 5.0
#: After how long a server ends a transaction of a brief kind in which nothing is asked any more.
PAUSE_SECONDS = 20.0

_LOCKED = re.compile(r"database (table )?is (locked|busy)|lock timeout|could not obtain lock")
_FULL = re.compile(r"disk is full|disk I/O error|No space left|File too large|could not extend")
_DAMAGED = re.compile(r"not a database|malformed|disk image|encrypted|no such (table|column)")


#: Pragmas, and no tables of these names, which the file of another program may have.
_APPLICATION = PreparedStatement("PRAGMA application_id")
_FORMAT = PreparedStatement("PRAGMA user_version")
_ITS_ROW = PreparedStatement("SELECT identity, witnesses FROM counton_database")
#: What is done in a transaction of a database, before it is committed.
CommitHook = Callable[[Connection], None]


class Closing:
    """What a ``with`` block closes at its end."""

    def close(self) -> None:
        """Give back what it holds open."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _dispose(engine: Engine, owner: int) -> None:
    """Drop all connections of an engine that a process made; those of a fork are its parent's."""
    if os.getpid() == owner:
        engine.pool.dispose()  # the engine's own makes a new pool


class Database:
    """Where streams live. Not public: `counton.state.Store` and ``Stream`` use it.

    Args:
        state: path of a SQLite file, or a database URL.
        create: make it where there is none.
        brief: transactions ask one thing after the other, and compute nothing in between. A server
            ends one in which nothing is asked for `PAUSE_SECONDS`: a process that is paused within
            it holds up no other.

    Attributes:
        identity: which state it is, wherever it lies; copies of it have the same. Not secret.
        witnesses: by address, how it remembers each place that its second witness ever had: see
            `counton.state.second_witness`.

    Raises:
        StateError: the file is missing, truncated, not a database, not ours, of another format, or
            has several names (hard links).
        StreamConflict: somebody else holds the lock.
        InvalidInput: the address is neither a path nor a SQLite or PostgreSQL URL.
    """

    identity: str
    witnesses: dict[str, str]

    def __init__(
        self, state: str | os.PathLike[str], *, create: bool = False, brief: bool = False
    ) -> None:
        self.url = database_url(state)
        self._brief = brief
        self.path = _file_of(self.url)
        self.lock_timeout_seconds = LOCK_TIMEOUT_SECONDS
        self._owner = os.getpid()
        if self.path is not None:
            if create and not self.path.exists():
                sqlite_file.create(self.path)
            self._file = sqlite_file.identity(self.path)
            sqlite_file.check(self.path)
        self._moment = None if self.path is None else sqlite_file.moment_of(self.path)
        self._engine = self._connect()
        # What nobody closes is closed when it is dropped, and not whenever Python comes to it.
        weakref.finalize(self, _dispose, self._engine, self._owner).atexit = False
        try:
            if create and not self.is_sqlite:
                self._create_tables()
            self._read_its_row()
            if self.path is not None:
                sqlite_file.check_mode(self.path)
        except BaseException:
            self.close()
            raise

    @property
    def is_sqlite(self) -> bool:
        """Whether the state is a file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def label(self) -> str:
        """The address without its password, for messages."""
        return str(self.path) if self.path is not None else label_of(self.url)

    def close(self) -> None:
        """Drop all connections."""
        _dispose(self._engine, os.getpid())

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone if the block raises."""
        if os.getpid() != self._owner:
            raise StreamConflict(
                f"state {self.label} was opened by process {self._owner} and is used by its fork "
                f"{os.getpid()}: open it anew in each process"
            )
        if write and self.path is not None:
            if sqlite_file.identity(self.path) != self._file:
                raise OldCopy(
                    f"state {self.label} was removed or replaced while it was open, so what would "
                    f"be released now could not be found again: put the file back, or open the "
                    f"new one"
                )
            sqlite_file.check_only_name(self.path)
        try:
            with self._engine.begin() as connection:
                if self.is_sqlite:
                    sqlite_file.begin(connection, write=write)
                yield connection
                if self._moment is not None and self.path is not None:
                    self._refuse_changed(self.path)
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
            raise self._explain(error) from error

    def _refuse_changed(self, path: Path) -> None:
        """Refuse what was read without locks, where somebody has written it meanwhile."""
        if sqlite_file.moment_of(path) != self._moment:
            raise StateUnavailable(
                f"state {self.label} lies where this process may write nothing, and was changed by "
                f"another one while it was read: ask again, or read it where it is written"
            )

    def _connect(self) -> Engine:
        if self.is_sqlite:
            return sqlite_file.engine_of(self.url, self.lock_timeout_seconds)
        # A server may default to asynchronous commits, which a power cut can lose.
        options = (
            f"-c lock_timeout={int(1000 * self.lock_timeout_seconds)} -c synchronous_commit=on "
            "-c client_encoding=UTF8"  # or texts of a database without an encoding are bytes
        )
        if self._brief:
            options += f" -c idle_in_transaction_session_timeout={int(1000 * PAUSE_SECONDS)}"
        given = self.url.query.get("options")
        if given:
            options = f"{given if isinstance(given, str) else ' '.join(given)} {options}"
        driver = self.url.get_driver_name()
        if driver == "psycopg":
            require(driver)
        try:
            return _engine_on_server(self.url, options)
        except ModuleNotFoundError as error:
            raise RequestMismatch(
                f"state {self.label} names a driver which is not installed ({error}): install it, "
                f"or write postgresql://USER@HOST/DATABASE"
            ) from None

    def _create_tables(self) -> None:
        with self.transaction(write=True) as connection:
            # "create if missing" of two processes at once would fail in one of them
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(schema.APPLICATION_ID)))
            if not self._has_tables(connection):
                connection.exec_driver_sql(schema.script(self.url.drivername))
                connection.execute(schema.database.insert().values(schema.first_row()))

    def _has_tables(self, connection: Connection) -> bool:
        """Whether a server holds a state.

        Refused is a database that keeps bytes and not texts: names would come back as bytes.
        """
        if connection.exec_driver_sql("SHOW server_encoding").scalar_one() == "SQL_ASCII":
            raise RequestMismatch(
                f"state {self.label} is a database in the encoding SQL_ASCII, which keeps no "
                f"texts: make one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
            )
        return has(connection, schema.database)

    def _read_its_row(self) -> None:
        """Which state it is, if it has the format of this version."""
        with self.transaction(write=False) as connection:
            if self.is_sqlite:
                application, found = _APPLICATION.value(connection), _FORMAT.value(connection)
                if application != schema.APPLICATION_ID:
                    raise RequestMismatch(
                        f"state {self.label} is a SQLite file of another program "
                        f"(application_id {application}): give another path"
                    )
            elif not self._has_tables(connection):
                raise NoState(
                    f"state {self.label} holds nothing yet: create one with Stream.create"
                )
            else:
                found = connection.execute(sa.select(schema.database.c.format)).scalar_one()
            if found == schema.FORMAT:
                self.read_witnesses(connection)
        if found != schema.FORMAT:
            raise StateError(
                f"state {self.label} has format version {found}, this version of counton reads "
                f"{schema.FORMAT}: use the version that wrote it; a new state begins anew, and "
                f"what was spent before is known to the old one alone"
            )

    def read_witnesses(self, connection: Connection) -> None:
        """Which state it is, and what it remembers of its second witness by now."""
        row = _ITS_ROW.one(connection)
        self.identity = str(row.identity)
        with reading(f"where the second witness of state {self.label} is kept"):
            self.witnesses = {str(at): str(said) for at, said in json.loads(row.witnesses).items()}

    def _explain(self, error: Exception) -> Exception:
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        first_line = cause.strip().splitlines()[0] if cause.strip() else type(error).__name__
        if _LOCKED.search(cause):
            return StreamConflict(
                f"state {self.label} is locked by another process for more than "
                f"{self.lock_timeout_seconds:g} seconds: nothing was released; wait for that "
                f"process or end it, then try again"
            )
        if _FULL.search(cause):
            return StateUnavailable(
                f"state {self.label} could not be written, since the disk is full or the file may "
                f"not grow ({first_line}): nothing was released; make room, then try again"
            )
        if _DAMAGED.search(cause) or isinstance(error, UnicodeDecodeError | NoResultFound):
            return StateError(
                f"state {self.label} is truncated, damaged or not a counton database "
                f"({first_line}): restore it from a copy"
            )
        if self.path is not None and not sqlite_file.may_be_written(self.path):
            return StateUnavailable(
                f"state {self.label} lies where this process may write nothing ({first_line}): it "
                f"can be read there, once its log is merged, and not released from; give the state "
                f"where it is written, or a copy by counton backup"
            )
        return StateUnavailable(
            f"state {self.label} cannot be used ({first_line}): check the path or address, its "
            f"permissions and the space left"
        )


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what goes wrong while stored values are decoded into one clear error."""
    try:
        yield
    except CountonError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise StateError(
            f"{what} cannot be read ({error}): the state was altered; restore it from a copy"
        ) from error


def state_file(state: str | os.PathLike[str], called: str = "state") -> Path | None:
    """The file of a SQLite state; None for a state on a server.

    Args:
        called: what the caller calls it, in messages.

    Raises:
        InvalidInput: neither a path nor a SQLite or PostgreSQL URL.

    >>> state_file("sqlite:///visits.db").name, state_file("postgresql://ann@db/visits")
    ('visits.db', None)
    """
    return _file_of(database_url(state, called))


def _file_of(url: URL) -> Path | None:
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def database_url(state: str | os.PathLike[str], called: str = "state") -> URL:
    """A path or URL as an SQLAlchemy URL; a bare path means a SQLite file.

    Symbolic links are followed: log and key lie beside the file itself.

    Args:
        called: what the caller calls it, in messages.
    """
    given: Any = state
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInput(
            f"{called} is of type {type(state).__name__}: give the path of a file or a database URL"
        )
    if not is_text(text):
        raise InvalidInput(
            f"{called} is {text[:80]!r}, which is no text in UTF-8: rename it in UTF-8, without NUL"
        )
    if not text:
        raise InvalidInput(f"{called} is an empty text: give the path of a file or a database URL")
    if "://" not in text:
        if _in_memory(text):
            raise _memory(text, called)
        return URL.create("sqlite", database=os.path.realpath(text))
    try:
        url = make_url(text)
    except ArgumentError:
        raise InvalidInput(
            f"{called} is no path and no database URL: write FILE, sqlite:///FILE or "
            "postgresql://USER@HOST/DATABASE"
        ) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        if _in_memory(url.database or "") or url.query.get("mode") == "memory":
            raise _memory(text, called)
        return URL.create("sqlite", database=os.path.realpath(url.database or ""))
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg") if url.drivername == backend else url
    raise InvalidInput(
        f"{called} is of the kind {backend!r}, and databases are of SQLite or PostgreSQL: write "
        f"FILE, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )


#: By the address that is kept, without a password, the one that was given in this process.
_given: dict[str, str] = {}


def kept_address(place: str | os.PathLike[str], called: str = "state") -> str:
    """The address of a database as it is kept: without a password, which stays in this process.

    >>> kept_address("postgresql://ann:x@db/visits")
    'postgresql+psycopg://ann@db/visits'
    """
    url = database_url(place, called)
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    given = url.render_as_string(hide_password=False)
    kept = without_secrets(url._replace(password=None).render_as_string(hide_password=False))
    if given != kept:
        _given[kept] = given
    return kept


def given_address(kept: str) -> str:
    """An address with the password that was given for it in this process, if one was.

    >>> _ = kept_address("postgresql://ann:x@db/visits")
    >>> given_address("postgresql+psycopg://ann@db/visits")
    'postgresql+psycopg://ann:x@db/visits'
    """
    return _given.get(kept, kept)


def _engine_on_server(url: URL, options: str) -> Engine:
    """An engine for a server, with a pool of its own."""
    known = _first_engine(url, options)
    return Engine(known.pool.recreate(), known.dialect, url, hide_parameters=True)


@lru_cache(maxsize=16)
def _first_engine(url: URL, options: str) -> Engine:
    """An engine which nobody connects with; what others of it ask a server at first they know."""
    return sa.create_engine(
        url, connect_args={"options": options}, pool_pre_ping=True, hide_parameters=True
    )


def label_of(url: URL) -> str:
    """The address of a database without its passwords, for messages."""
    return hide_secrets(url.render_as_string(hide_password=True))


def _in_memory(name: str) -> bool:
    """Whether SQLite would take a name for no file: ":memory:", nothing, or an address of both."""
    if name in ("", ":memory:"):
        return True
    return name.startswith("file:") and (":memory:" in name or "mode=memory" in name)


def _memory(text: str, called: str) -> InvalidInput:
    return InvalidInput(
        f"{called} {text} would live in memory only, and what is released once has to be "
        f"remembered: give the path of a file, in a temporary folder where it is a trial"
    )

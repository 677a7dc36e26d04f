"""Rows of a query to a file of SQLite, or to a PostgreSQL server.

Columns are fetched as texts, as from CSV, so that a row's meaning depends on that row alone. One
statement is sent, which reads: from a file opened for reading, or in a transaction that is never
committed. This does not prevent effects of a server's functions outside the transaction.
"""

from __future__ import annotations

import re
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote
from weakref import finalize

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, StateUnavailable, field, first_line
from counton.base.lazy import require
from counton.rows.object_cells import read_cell
from counton.rows.paths import MOMENT
from counton.rows.sources import FetchedColumns, Source

#: Most rows that are in memory as Python objects at a time.
_AT_ONCE: Final = 100_000


class QueryRows(FetchedColumns):
    """The rows of a query: texts, or null.

    ``name`` in messages has no user and password.
    """

    kind = "a query of a database"

    def __init__(self, name: str, query: str) -> None:
        super().__init__(numbered=False)
        self.name, self._query = name, query

    @abstractmethod
    def _rows(self, select: str) -> tuple[list[str], Iterable[list[Any]]]:
        """Run a SELECT; return column names, and rows in several lists."""

    def _hold(self, connection: Any) -> None:
        """Ask for column names; the connection is closed with the last copy of these rows."""
        self._connection = _Connection(connection)
        self._names, _ = self._rows(f"SELECT * FROM ({self._query}\n) AS asked LIMIT 0")  # noqa: S608

    @override
    def columns(self) -> list[str]:
        return self._names

    #: SQL that turns the column ``c0`` into text.
    _text: str = "c0"

    @override
    def _fetch(self, names: Sequence[str]) -> pl.DataFrame:
        places = [self._names.index(name) for name in names]
        head = ", ".join(f"c{place}" for place in range(len(self._names)))
        wanted = ", ".join(self._text.replace("c0", f"c{place}") for place in places)
        said = f"WITH events ({head}) AS ({self._query}\n) SELECT {wanted} FROM events"  # noqa: S608
        schema = dict.fromkeys(names, pl.String())
        parts = [
            pl.DataFrame(
                [[_text_of_cell(cell) for cell in row] for row in rows], schema, orient="row"
            )
            for rows in self._rows(said)[1]
        ]
        return pl.concat([pl.DataFrame(schema=schema), *parts])

    def _refusal(self, error: BaseException) -> InvalidInput:
        return InvalidInput(
            f"{self.name} cannot be answered ({first_line(error)}); correct {field('events')} or "
            f"{field('query', 'select ...')}"
        )


class _Connection:
    """A connection that is closed when nobody refers to it any more."""

    def __init__(self, connection: Any) -> None:
        self.execute, self.cursor = connection.execute, connection.cursor
        finalize(self, connection.close)


def _text_of_cell(cell: Any) -> str | None:
    return read_cell(cell)[0]


class SqliteRows(QueryRows):
    """The rows of a query to a SQLite file, opened for reading only."""

    def __init__(self, url: str, query: str, moments: Mapping[str, str]) -> None:
        path = url.partition("://")[2].removeprefix("/")
        if not path:
            raise InvalidInput(f"{field('events', url)} names no file; give sqlite:///FILE")
        super().__init__(f"the query of sqlite:///{path}", _in_style(query, ":*"))
        self._moments = dict(moments)
        try:
            connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.execute("PRAGMA query_only = ON")
            connection.text_factory = _text_of_cell
            self._hold(connection)
            self._version = self._data_version()
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    @override
    def _rows(self, select: str) -> tuple[list[str], Iterable[list[Any]]]:
        try:
            cursor = self._connection.execute(select, self._moments)
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        names = [name for name, *_ in cursor.description]
        # SQLite calls a second column ``time`` of a subquery ``time:1``.
        plain = [re.sub(r":[0-9]+$", "", name) for name in names]
        names = [one if one in names else name for one, name in zip(plain, names, strict=True)]
        return names, iter(lambda: self._some(cursor), [])

    def _some(self, cursor: sqlite3.Cursor) -> list[Any]:
        try:
            found, version = cursor.fetchmany(_AT_ONCE), self._data_version()
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        if version != self._version:
            raise InvalidInput(
                f"{self.name} returned other rows when it was read again, so nobody can tell which "
                f"rows were counted; {self.still}"
            )
        return found

    def _data_version(self) -> int:
        """Return a number that changes when another connection has written."""
        found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return found


class PostgreSQLRows(QueryRows):
    """The rows of a query to a server, in one read-only transaction of a single moment."""

    _text = "CAST(c0 AS text)"
    #: Columns of the type numeric, whose texts have as many zeros as the type has places.
    _numeric: frozenset[str] = frozenset()

    def __init__(self, url: str, query: str, moments: Mapping[str, str]) -> None:
        require("psycopg")
        import psycopg

        place = _PLACE.fullmatch(url)
        name = f"the query of postgresql://{'' if place is None else place[1]}"
        super().__init__(name, _in_style(query.replace("%", "%%"), "%(*)s") if moments else query)
        self._moments = dict(moments) or None
        try:
            connection = psycopg.connect(
                url.replace("postgresql+psycopg://", "postgresql://", 1), client_encoding="UTF8"
            )
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SET TIME ZONE 'UTC'; SET DateStyle = 'ISO'")
            _take_no_power(connection)
        except psycopg.OperationalError as error:
            # Of an address in another form the driver may take a part of the password for the host.
            usual = place is not None and "@" not in url[place.start(1) :]
            reason = first_line(error) if usual else type(error).__name__
            raise StateUnavailable(
                f"{self.name} got no answer ({reason}), so nothing was released: try again when "
                f"the server can be reached, or correct {field('events')} or the password"
            ) from None  # its words may hold the password
        except (psycopg.Error, UnicodeError) as error:  # a name that no server can have
            raise InvalidInput(
                f"{self.name} got no answer ({type(error).__name__}): the address or the user "
                f"cannot be used; correct {field('events')}"
            ) from None
        self._hold(connection)

    @override
    def _rows(self, select: str) -> tuple[list[str], Iterable[list[Any]]]:
        import psycopg

        try:
            cursor = self._connection.cursor()
            # A prepared statement, since it cannot hold a second one.
            cursor.execute(select, self._moments, prepare=True)
        except psycopg.OperationalError as error:  # the server has ended, or has no room or time
            raise StateUnavailable(
                f"{self.name} got no whole answer ({first_line(error)}), so nothing was released: "
                "try again when the server can be reached"
            ) from error
        except psycopg.Error as error:
            raise self._refusal(error) from error
        names = [one.name for one in cursor.description or ()]
        numeric = [one.name for one in cursor.description or () if one.type_code == _NUMERIC]
        self._numeric = self._numeric or frozenset(numeric)
        return names, iter(lambda: cursor.fetchmany(_AT_ONCE), [])

    @override
    def count(self, column: str, given: pl.Expr) -> pl.Expr:
        return given.str.replace(r"\.0+$", "") if column in self._numeric else given


def _take_no_power(connection: Any) -> None:
    """Switch a superuser to the role that may read all tables, from version 14 on.

    In a read-only transaction a superuser's functions could still write files, or end other
    sessions. If rows are hidden from that role, the server raises an error.
    """
    info = connection.info
    if info.parameter_status("is_superuser") != "on" or info.server_version < _READS_ALL:
        return
    connection.execute(
        "SELECT set_config('search_path', coalesce((SELECT string_agg(quote_ident(one), ', ') "
        "FROM unnest(current_schemas(false)) AS one), ''), false)"  # "$user" is another role
    )
    connection.execute("SET row_security = off")
    connection.execute("SET ROLE pg_read_all_data")


#: Servers and database of an address, without its user; shown if it has the usual form.
_SERVER: Final = r"(?:\[[0-9a-fA-F:.]*\]|[^?#@/:,\[\]]*)(?::\d*)?"
_PLACE: Final = re.compile(
    rf"[a-z0-9+]+://(?:[^?#@/]*@)?({_SERVER}(?:,{_SERVER})*(?:/[^?#@]*)?)(?:[?#].*)?", re.DOTALL
)

#: The identifier of the type numeric.
_NUMERIC: Final = 1700
#: The first PostgreSQL with a role that reads all tables.
_READS_ALL: Final = 140000


def _in_style(query: str, style: str) -> str:
    """Replace ``{since}`` and ``{until}`` by parameters; ``*`` in ``style`` is their name."""
    return MOMENT.sub(lambda named: style.replace("*", named[2]), query)


def open_query(
    events: Any, query: str | None, moments: Mapping[str, str] = MappingProxyType({})
) -> Source:
    """Open the rows of one SELECT from ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.

    ``moments`` are times in ISO 8601 with an offset for ``{since}`` and ``{until}``, as parameters.
    """
    if isinstance(events, list | tuple):
        if len(events) > 1:
            raise InvalidInput(
                f"{field('events')} names {len(events)} sources, and one of them is a database, "
                "whose rows cannot be joined with others; count the others in a run of their own "
                f"({field('append', True)}), or select all rows in one query"
            )
        events = events[0]
    question = (query or "").strip().rstrip(";").strip()
    if not question:
        raise InvalidInput(
            f"{field('events')} is a database, and the query that selects its rows is missing; "
            f"give {field('query', 'select ...')}"
        )
    kinds: dict[str, Callable[[str, str, Mapping[str, str]], QueryRows]] = {
        "sqlite": SqliteRows,
        "postgresql": PostgreSQLRows,
    }
    rows = kinds[events.partition("://")[0].partition("+")[0]](events, question, moments)
    return Source((rows,), rows.name)

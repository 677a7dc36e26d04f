"""Rows of a database: a query in SQL, whose rows are counted in the database if possible.

If rows have only times and labels, the database counts equal rows and sends only their numbers.
Otherwise it sends the columns that a run reads. The only statement sent is one that reads: from a
file opened for reading, or in a transaction that is never committed. This does not prevent effects
of a server's functions outside the transaction. Keys never leave this process. A database may log
the text of a query, which names columns and the widths of windows, and no value.

Tables of other libraries (ibis, Delta, Iceberg) are read likewise.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from weakref import finalize

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, StateUnavailable, field, first_line
from counton.base.lazy import require
from counton.base.private import Private
from counton.rows.bad_rows import change_error
from counton.rows.files import refuse_sqlite
from counton.rows.paths import MOMENT
from counton.rows.remote_rows import Spread
from counton.rows.sources import EventFrame, Rows, Source
from counton.rows.tally import by_place, cells_of, labels_of, pick_rows
from counton.rows.timestamps import as_text
from counton.rows.window_marks import RowReading

if TYPE_CHECKING:
    from counton.rows.sources import Rows


def _in_style(query: str, style: str) -> str:
    """Replace ``{since}`` and ``{until}`` in a query by SQL parameters. ``style`` shows how the
    database writes a parameter; ``*`` in it stands for the parameter's name.
    """
    return MOMENT.sub(lambda named: style.replace("*", named[2]), query)


class EventDatabase(ABC):
    """A read-only database that answers queries.

    Attributes:
        name: name in messages, without user and password.
        inexact: columns that contain floating-point numbers which are no exact integers, if the
            database has no types of columns (SQLite). Maps a column's name to a boolean for each
            row: whether the value is such a number.
        unread: names of columns whose types counton cannot read, with the database's names for
            these types.
    """

    name: str
    inexact: Mapping[str, pl.Series] = MappingProxyType({})
    unread: Mapping[str, str] = MappingProxyType({})

    @cached_property
    @abstractmethod
    def empty(self) -> pl.DataFrame:
        """A data frame with the query's columns and no rows."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> pl.DataFrame:
        """Return the columns ``names`` of all rows of the database query."""

    def _refusal(self, error: BaseException) -> InvalidInput:
        return InvalidInput(
            f"{self.name} cannot be answered ({first_line(error)}); correct {field('events')} or "
            f"{field('query', 'select ...')}"
        )


class SqlDatabase(EventDatabase):
    """A database that is queried by SQL, and that can count equal rows itself: it returns them as
    one row, with their number.

    Attributes:
        quotient: SQL operator that divides integers and rounds towards zero.
    """

    quotient: str

    @override
    def read(self, names: Sequence[str]) -> pl.DataFrame:
        parts = ", ".join(self.expression(name) for name in names)
        found = self.rows(f"SELECT {parts} FROM events")  # noqa: S608 - numbers
        return found.rename(dict(zip(found.columns, names, strict=True)))

    def expression(self, name: str) -> str:
        """Return SQL that selects the column with this name, converted to a type that counton
        reads. The selected column is called ``c`` plus the column's index.
        """
        place = self.empty.columns.index(name)
        return f"{self.plain(place)} AS c{place}"

    @abstractmethod
    def rows(self, select: str) -> pl.DataFrame:
        """Run a SELECT, and return its rows. It may select from the table ``events``, which stands
        for the rows of the user's query.
        """

    @abstractmethod
    def plain(self, place: int) -> str:
        """Return SQL for a column, given its index, cast to a type that counton reads.

        The SQL makes the database compare texts by their bytes.
        """

    @abstractmethod
    def microseconds(self, column: str) -> str:
        """Return SQL that converts a time column to microseconds since 1970.

        Infinite times become numbers outside of all valid times.
        """

    def _schema(self, types: Mapping[str, pl.DataType | None], kinds: Sequence[str]) -> pl.Schema:
        """Return the polars types of the query's columns, and store in ``unread`` the columns whose
        types counton cannot read.

        ``types`` has the polars type of each column, None if counton cannot read it. ``kinds`` has
        the database's names of the types, in the order of ``types``.
        """
        named = zip(types, kinds, strict=True)
        self.unread = {name: kind for name, kind in named if types[name] is None}
        return pl.Schema({name: dtype or pl.Object() for name, dtype in types.items()})


class _Arrow:
    """A wrapper that exports the rows of a DuckDB relation as an Arrow stream, and hides the
    relation from polars.

    Polars keeps all types that it has seen until the program ends. Types of DuckDB would then
    outlive their module, and the program would end with an error message.
    """

    def __init__(self, relation: Any) -> None:
        self._stream = relation.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream


class DuckRelation(SqlDatabase):
    """The rows of a DuckDB relation, queried through the connection that made the relation."""

    name = "the relation"
    quotient = "//"

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    @cached_property
    @override
    def empty(self) -> pl.DataFrame:
        kinds = self._relation.types
        columns = [
            f"CAST(c{place} AS VARCHAR) AS c{place}"
            if kind.id == "enum"
            else f"{f'c{place}' if kind.id in _READ else 'NULL'} AS c{place}"
            for place, kind in enumerate(kinds)
        ]
        found = self.rows(f"SELECT {', '.join(columns)} FROM events LIMIT 0")  # noqa: S608 - numbers
        types = {
            name: dtype if kind.id in (*_READ, "enum") else None
            for name, kind, dtype in zip(
                _apart(self._relation.columns), kinds, found.dtypes, strict=True
            )
        }
        return pl.DataFrame(schema=self._schema(types, list(map(str, kinds))))

    @override
    def rows(self, select: str) -> pl.DataFrame:
        names = ", ".join(f"c{place}" for place in range(len(self._relation.columns)))
        numbered = f"WITH events ({names}) AS (SELECT * FROM asked) {select}"  # noqa: S608 - numbers
        import duckdb

        try:
            found = pl.DataFrame(_Arrow(self._relation.query("asked", numbered)))
        except duckdb.Error as error:
            raise self._refusal(error) from error
        zoned = [
            pl.col(name).dt.convert_time_zone("UTC")
            for name, dtype in found.schema.items()
            if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
        ]
        return found.with_columns(zoned)

    @override
    def plain(self, place: int) -> str:
        """Return SQL for a column, given its index, cast to a type that counton reads. Texts are
        compared by their bytes, without a collation.
        """
        dtype = self.empty.dtypes[place]
        if dtype == pl.String:
            return f"CAST(c{place} AS VARCHAR) COLLATE C"
        if isinstance(dtype, pl.Decimal):  # DuckDB refuses a number with more digits
            return f"CAST(c{place} AS DECIMAL({dtype.precision},{dtype.scale}))"
        return f"c{place}"

    @override
    def microseconds(self, column: str) -> str:
        return _finite(column, _within(f"epoch_us({column})"), _BEYOND)


class DuckFile(DuckRelation):
    """The rows of one SELECT from a file of DuckDB, opened for reading only, or from a database in
    memory.

    The query cannot change any setting of DuckDB, and a query to a file cannot read other files.
    """

    def __init__(self, url: str, query: str, moments: Mapping[str, str]) -> None:
        require("duckdb")
        import duckdb

        path = url.partition("://")[2].removeprefix("/")
        self.name = f"the query of duckdb:///{path}" if path else "the query of duckdb://"
        if path:
            refuse_sqlite(path)
        try:
            connection = duckdb.connect(
                path or ":memory:",
                read_only=bool(path),
                # A name that the database lacks must not become a variable of this program.
                config={"enable_external_access": not path, "python_enable_replacements": False},
            )
            finalize(self, connection.close)
            # Settings hold for every connection to the file in this process, until the last one
            # closes.
            if connection.sql("SELECT NOT current_setting('lock_configuration')").fetchall()[0][0]:
                connection.execute("SET GLOBAL TimeZone = 'UTC'")
                connection.execute("SET GLOBAL lock_configuration = true")
            query = _in_style(query, "$*")
            asked = connection.extract_statements(query)
            if [statement.type for statement in asked] != [duckdb.StatementType.SELECT]:
                raise ValueError("the query is not a single SELECT, and others are refused")
            super().__init__(connection.sql(query, params=dict(moments) or None))
        except (duckdb.Error, ValueError) as error:
            raise self._refusal(error) from error


class PostgreSQL(SqlDatabase):
    """A PostgreSQL server, queried in one read-only transaction that sees the data of a single
    moment.

    The user's query is sent as part of one statement.
    """

    quotient = "/"

    def __init__(self, url: str, query: str, moments: Mapping[str, str]) -> None:
        require("psycopg")
        import psycopg

        place = _PLACE.fullmatch(url)
        self.name = f"the query of postgresql://{'' if place is None else place[1]}"
        self._query, self._moments = query, moments
        try:
            self._connection = psycopg.connect(
                url.replace("postgresql+psycopg://", "postgresql://", 1), client_encoding="UTF8"
            )
            finalize(self, self._connection.close)
            self._connection.read_only = True
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._take_no_power()
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

    def _take_no_power(self) -> None:
        """Switch a superuser to a role that may read all tables and do nothing else.

        PostgreSQL has this role from version 14 on; in older versions nothing is switched.

        In a read-only transaction a superuser's functions could still write files, or end other
        sessions. If rows are hidden from that role, the server raises an error.
        """
        info = self._connection.info
        if info.parameter_status("is_superuser") != "on" or info.server_version < _READS_ALL:
            return
        self._connection.execute(
            "SELECT set_config('search_path', coalesce((SELECT string_agg(quote_ident(one), ', ') "
            "FROM unnest(current_schemas(false)) AS one), ''), false)"  # "$user" is another role
        )
        self._connection.execute("SET row_security = off")
        self._connection.execute("SET ROLE pg_read_all_data")

    @cached_property
    @override
    def empty(self) -> pl.DataFrame:
        head, _ = self._answer(f"SELECT * FROM ({self._query}\n) AS asked LIMIT 0")  # noqa: S608
        names, kinds = _apart([name for name, _ in head]), [kind for _, kind in head]
        self._exact = [kind == "numeric" for kind in kinds]
        types = dict(zip(names, map(_KINDS.get, kinds), strict=True))
        return pl.DataFrame(schema=self._schema(types, kinds))

    @override
    def rows(self, select: str) -> pl.DataFrame:
        names = ", ".join(f"c{place}" for place in range(len(self.empty.columns)))
        head, rows = self._answer(f"WITH events ({names}) AS ({self._query}\n) {select}")
        schema = {name: _KINDS.get(kind, pl.String()) for name, kind in head}
        times = {
            f"c{place}": dtype
            for place, dtype in enumerate(self.empty.dtypes)
            if dtype.is_temporal() and schema.get(f"c{place}") == pl.Int64
        }
        found = pl.DataFrame(rows, schema=schema, orient="row")
        return found.with_columns(pl.col(name).cast(dtype) for name, dtype in times.items())

    def _answer(self, select: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        import psycopg

        if self._moments:
            select = _in_style(select.replace("%", "%%"), "%(*)s")
        try:
            with self._connection.cursor() as cursor:
                # A prepared statement, since it cannot hold a second one.
                cursor.execute(select, dict(self._moments) or None, prepare=True)
                head = [(one.name, self._kind(one.type_code)) for one in cursor.description or ()]
                return head, cursor.fetchall()
        except psycopg.OperationalError as error:  # the server has ended, or has no room or time
            raise StateUnavailable(
                f"{self.name} got no whole answer ({first_line(error)}), so nothing was released: "
                "try again when the server can be reached"
            ) from error
        except psycopg.Error as error:
            raise self._refusal(error) from error

    def _kind(self, number: int) -> str:
        """Return the name of a database type, given its number; "text" for enumerations and for
        text types that users define.
        """
        known = self._connection.adapters.types.get(number)
        if known is not None:
            return known.name if known.oid == number else f"{known.name}[]"
        asked = "SELECT typcategory, format_type(oid, NULL) FROM pg_type WHERE oid = %s"
        own = self._connection.execute(asked, [number]).fetchone() or ("", f"type {number}")
        return "text" if own[0] in ("E", "S") else str(own[1])

    @override
    def plain(self, place: int) -> str:
        if self.empty.dtypes[place] == pl.String:
            return f'CAST(c{place} AS text) COLLATE "C"'
        # Times as numbers, since the server has more of them than Python.
        if self.empty.dtypes[place] == pl.Date:
            return _finite(f"c{place}", f"c{place} - DATE '1970-01-01'", 2**31 - 1)
        if self.empty.dtypes[place].is_temporal():
            return self.microseconds(f"c{place}")
        # A number without a bound on its digits is read as in files.
        return f"CAST(c{place} AS float8)" if self._exact[place] else f"c{place}"

    @override
    def microseconds(self, column: str) -> str:
        us = _within(f"extract(epoch FROM {column}) * 1000000")
        return _finite(column, f"CAST({us} AS bigint)", _BEYOND)


class SqliteFile(EventDatabase):
    """The rows of a query to a SQLite file, opened for reading only.

    In SQLite each value has a type of its own, and columns have none. So values are read as texts,
    as from CSV, and the meaning of a row depends on that row alone.
    """

    def __init__(self, url: str, query: str, moments: Mapping[str, str]) -> None:
        path = url.partition("://")[2].removeprefix("/")
        if not path:
            raise InvalidInput(f"{field('events', url)} names no file; give sqlite:///FILE")
        self.name = f"the query of sqlite:///{path}"
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            finalize(self, self._connection.close)
            self._connection.execute("PRAGMA query_only = ON")
            self._query, self._moments = _in_style(query, ":*"), moments
            head = self._execute(f"SELECT * FROM ({self._query}\n) LIMIT 0")  # noqa: S608
            self._version = self._data_version()
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        self._connection.text_factory = _decode
        self._names = _apart([name for name, *_ in head.description])

    @cached_property
    @override
    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=dict.fromkeys(self._names, pl.String()))

    @override
    def read(self, names: Sequence[str]) -> pl.DataFrame:
        places = [self._names.index(name) for name in names]
        head = ", ".join(f"c{place}" for place in range(len(self._names)))
        wanted = ", ".join(f"c{place}" for place in places)
        select = f"WITH events ({head}) AS ({self._query}\n) SELECT {wanted} FROM events"  # noqa: S608
        parts = [self.empty.select(names)]
        inexact = {name: [pl.Series([], dtype=pl.Boolean())] for name in names}
        try:
            cursor = self._execute(select)
            while rows := cursor.fetchmany(_AT_ONCE):
                texts = dict[str, Sequence[str | None]]()
                for name, cells in zip(names, zip(*rows, strict=True), strict=True):
                    kinds = set(map(type, cells))
                    texts[name] = cells if kinds <= _TEXTS else [*map(_text, cells)]
                    floats = pl.repeat(False, len(cells), eager=True)
                    if float in kinds:
                        floats = pl.Series([*map(_is_inexact, cells)])
                    inexact[name].append(floats)
                parts.append(pl.DataFrame(texts, dict.fromkeys(names, pl.String())))
            version = self._data_version()
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        if version != self._version:
            raise InvalidInput(
                f"{self.name} returned other rows when it was read again, so nobody can tell which "
                f"rows were counted; {QuestionRows.still}"
            )
        found = {name: pl.concat(floats) for name, floats in inexact.items()}
        self.inexact = {name: floats for name, floats in found.items() if floats.any()}
        return pl.concat(parts)

    def _execute(self, select: str) -> sqlite3.Cursor:
        return self._connection.execute(select, dict(self._moments))

    def _data_version(self) -> int:
        """Return a number that SQLite changes when another connection has written to the database
        file.
        """
        found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return found


def _decode(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _text(cell: Any) -> str | None:
    """Return a value of SQLite as text; None for null, and for bytes that are not UTF-8.

    >>> [_text(cell) for cell in ("a", b"a", b"\\xff", 7, 2.5, 7.0)]
    ['a', 'a', None, '7', '2.5', '7']
    """
    if isinstance(cell, bytes):
        return _decode(cell)
    if isinstance(cell, float) and not _is_inexact(cell):
        return str(int(cell))
    # repr of a float is the shortest text that means it.
    return cell if cell is None else str(cell)


def _is_inexact(cell: Any) -> bool:
    """Return True for a floating-point number that is no exact integer, and so is no name."""
    return isinstance(cell, float) and not (cell.is_integer() and abs(cell) < 2**53)


#: Python types of SQLite's values that need no conversion to text.
_TEXTS: Final = frozenset({str, type(None)})
#: Types of DuckDB that are read, besides enumerations.
_READ: Final = (
    *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint"),
    *("uinteger", "ubigint", "uhugeint", "float", "double", "decimal", "varchar", "uuid", "null"),
    *("date", "time", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
    "timestamp with time zone",
)

#: Servers and database of an address, without its user; shown if it has the usual form.
_SERVER: Final = r"(?:\[[0-9a-fA-F:.]*\]|[^?#@/:,\[\]]*)(?::\d*)?"
_PLACE: Final = re.compile(
    rf"[a-z0-9+]+://(?:[^?#@/]*@)?({_SERVER}(?:,{_SERVER})*(?:/[^?#@]*)?)(?:[?#].*)?", re.DOTALL
)

#: The first PostgreSQL with a role that reads all tables.
_READS_ALL: Final = 140000

#: Microseconds outside every year. The begin of a window can be subtracted without overflow.
_BEYOND: Final = 9 * 10**18


def _within(us: str) -> str:
    return f"least(greatest({us}, -{_BEYOND}), {_BEYOND})"


def _finite(column: str, finite: str, beyond: int) -> str:
    """Return SQL that replaces infinite times of a column by the number ``beyond``, outside every
    year.

    ``finite`` is the SQL for finite times.
    """
    sign = f"WHEN {column} > '1970-01-01' THEN {beyond} ELSE -{beyond}"
    return f"CASE WHEN {column} IS NULL THEN NULL WHEN isfinite({column}) THEN {finite} {sign} END"


#: Most rows of SQLite that are in memory as Python objects at a time.
_AT_ONCE: Final = 100_000


_KINDS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), pl.String()),
    **dict.fromkeys(("int2", "int4", "int8"), pl.Int64()),
    **dict.fromkeys(("float4", "float8", "numeric"), pl.Float64()),
    "bool": pl.Boolean(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us"),
    "timestamptz": pl.Datetime("us", "UTC"),
}


def _apart(names: Sequence[str]) -> list[str]:
    """Replace repeated names of columns by distinct ones, as polars chooses them.

    The second column called ``x`` becomes ``x_duplicated_0``, the third ``x_duplicated_1``.
    """
    found = list[str]()
    for place, name in enumerate(names):
        number = list(names[:place]).count(name)
        found.append(f"{name}_duplicated_{number - 1}" if number else name)
    return found


class UnorderedRows(EventFrame):
    """Rows of a table that has no order. Their digest does not depend on the order in which they
    come.
    """

    kind = "a query of a database"
    numbered = False
    still = "select rows that do not change during the run"
    again = (
        f"select only the new rows, or leave {field('append', True)} out if the query returns "
        "everything since the first window"
    )


class QuestionRows(UnorderedRows):
    """The rows that a database returns for a query; columns are fetched when they are needed."""

    def __init__(self, database: EventDatabase) -> None:
        self.database, self.name = database, database.name
        super().__init__(database.empty)
        self._held = pl.DataFrame()
        self.alike_digest: dict[tuple[str, ...], str] = {}

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        if columns is None:
            return self._frame
        self.refuse_unread(columns)
        wanted = list(dict.fromkeys((*self._held.columns, *columns)))
        if len(wanted) > len(self._held.columns):
            self._held = self.database.read(wanted)
        return self._held.lazy().select(columns)

    def refuse_unread(self, columns: Sequence[str]) -> None:
        """Raise an error if one of these columns of the database query has a type that is not
        supported.
        """
        for name in columns:
            if name in self.database.unread:
                raise InvalidInput(
                    f"column {name!r} of {self.name} holds {self.database.unread[name]}, and only "
                    "text, numbers and times can be read; convert the column in the query, or "
                    "leave it out"
                )

    @override
    def scan(self, columns: Sequence[str], names: Sequence[str] = ()) -> pl.LazyFrame:
        found = super().scan(columns, names)
        for name in names:
            # Such a number is no name, and is missing: other rows do not hang on it.
            for part in self.of_file([name]):
                if part in self.database.inexact:
                    exact = ~self.database.inexact[part]
                    found = found.with_columns(pl.when(exact).then(pl.col(name)).alias(name))
        return found

    def digest(self, columns: Sequence[str] = ()) -> str:
        """Return a SHA-256 digest of the rows that does not depend on their order.

        The hashes of rows are added up, here or in the database.
        """
        return self.alike_digest.get(tuple(columns)) or super().digest(columns)


class Question(Source):
    """A source whose rows are the answer of a database to a query."""

    @override
    def delegate(self, reading: RowReading) -> Source:
        """Return a source in which the database counts equal rows, if it can; otherwise return this
        source.
        """
        rows = self.parts[0]
        if not isinstance(rows, QuestionRows) or _grain(rows, reading) is None:
            return self
        return AlikeRows(rows) if isinstance(rows.database, SqlDatabase) else self


def _grain(rows: Rows, reading: RowReading) -> tuple[int, int] | None:
    """Return the length of the pieces of time within which the database may count equal rows
    together.

    Each piece lies within one window, so rows of one piece count in the same window, whatever their
    exact times.

    Returns:
        The time at which some piece begins (since 1970), and the length of a piece, both in
            microseconds. (0, 0) if times are dates, or rows have no time: then nothing has to be
            divided. None if the database cannot count equal rows together, for instance because
            rows have users, ids, or values that are not labels.
    """
    columns = reading.columns
    parts = () if reading.adds is None else reading.adds.parts
    if reading.time_format or columns.user or columns.id:
        return None
    if any(part.kind != "label" for part in parts):
        return None
    if not columns.time:
        return 0, 0
    dtype, windows = rows.frame().collect_schema().get(columns.time), reading.windows
    if dtype == pl.Date:
        return 0, 0
    if not isinstance(dtype, pl.Datetime) or dtype.time_unit != "us":
        return None
    if dtype.time_zone is None and windows.timezone != "UTC":
        return None
    return windows.pieces


class AlikeRows(Spread):
    """The rows of a query, counted by the database: it returns equal rows once, with their number.

    A window is divided into pieces of time. Rows that differ only in their time within a piece
    become one row, with the number of rows that it stands for.
    """

    def __init__(self, rows: QuestionRows) -> None:
        super().__init__((rows,), rows.name)

    @property
    def _rows(self) -> QuestionRows:
        rows = self.parts[0]
        assert isinstance(rows, QuestionRows)
        return rows

    @override
    def cells(self, reading: RowReading, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        if reading.unknown == "discover":
            return Private(by_place(self._sums(reading, None), domain or (), reading.adds))
        return Private(self._sums(reading, domain))

    @override
    def labels(self, reading: RowReading) -> Private[pl.DataFrame]:
        return Private(labels_of(self._sums(reading, None), reading))

    @override
    def some(self, reading: RowReading, which: pl.Expr, most: int) -> Private[pl.DataFrame]:
        return Private(pick_rows(self._rows, reading, which).head(most))

    def _sums(self, reading: RowReading, domain: Sequence[str] | None) -> pl.DataFrame:
        rows, names = self._rows, reading.columns.names
        rows.refuse_unread(rows.of_file(names))
        looked_at = EventFrame(rows.database.empty)
        looked_at.name, looked_at.together = rows.name, rows.together
        looked_at.scan(names, [name for name in names if name != reading.columns.time])
        found = _alike(rows, names, reading)
        counted = found.select(~pl.selectors.starts_with("counton "))
        hashed = hashlib.sha256(b"counton/alike 2")
        for text in (*names, *map(str, counted.schema.values())):
            hashed.update(len(text.encode()).to_bytes(8, "little") + text.encode())
        texts = found.select(as_text(pl.col(name), dtype) for name, dtype in found.schema.items())
        for line in sorted(map(repr, texts.rows())):
            hashed.update(line.encode() + b"\n")
        digest = hashed.hexdigest()
        if rows.alike_digest.setdefault(tuple(names), digest) != digest:
            raise change_error(rows)
        one = EventFrame(counted)
        one.together = rows.together
        many = [name for name in ("number", "newest") if f"counton {name}" in found.columns]
        return cells_of(
            one,
            reading,
            domain,
            found.select(pl.col(f"counton {name}").alias(name) for name in many),
        )


def _alike(rows: QuestionRows, names: Sequence[str], reading: RowReading) -> pl.DataFrame:
    """Fetch columns from the database, which counts equal rows: the result has each distinct row
    once.

    Windows are divided into pieces of time (see `_grain`). Times within one piece count as equal,
    and are replaced by the beginning of the piece.

    Returns:
        The query's columns from which ``names`` are made, and ``counton number``, the number of
        equal rows. If there are times, also ``counton newest`` (newest time, in microseconds),
        ``counton first`` (sum of the times, as text) and ``counton second`` (sum of the squares of
            the times' low 30 bits, as text). A later read compares both sums, to notice rows that
            have changed.
    """
    given, grain, database = rows.of_file(names), _grain(rows, reading), rows.database
    assert grain is not None
    assert isinstance(database, SqlDatabase)
    begin, length = grain
    time = reading.columns.time if length else ""
    inner = [database.expression(name) for name in given if name != time]
    keys = [f"c{database.empty.columns.index(name)}" for name in given if name != time]
    sums = ["count(*) AS number"]
    if time:
        us = database.microseconds(f"c{database.empty.columns.index(time)}")
        inner.append(f"{us} AS us")
        keys.append("piece")
        sums += ["max(us) AS newest", "CAST(sum(us) AS varchar) AS first"]
        low = f"(us & {2**30 - 1})"  # so that a square has 60 bits
        sums.append(f"CAST(sum({low} * {low}) AS varchar) AS second")
    of = f"(SELECT {', '.join(inner)} FROM events) AS given"  # noqa: S608 - numbers
    if time:
        quotient = f"(us - ({begin})) {database.quotient} {length}"
        cut = f"{quotient} - CASE WHEN us - ({begin}) < {length} * ({quotient}) THEN 1 ELSE 0 END"
        of = f"(SELECT *, {cut} AS piece FROM {of}) AS cut"  # noqa: S608 - numbers
    select = f"SELECT {', '.join([*keys, *sums])} FROM {of} GROUP BY {', '.join(keys)}"  # noqa: S608
    found = database.rows(select)
    plain = [name for name in given if name != time]
    called = dict(zip(found.columns, plain, strict=False))
    dtype = database.empty.schema
    if time:
        called |= {"piece": time}
        found = found.with_columns(
            (pl.col("piece").cast(pl.Int64) * length + begin).cast(pl.Datetime("us")),
            pl.col("newest").cast(pl.Int64),
        )
        if dtype[time].time_zone is not None:  # type: ignore[attr-defined]
            found = found.with_columns(pl.col("piece").dt.replace_time_zone("UTC"))
    found = found.with_columns(pl.col("number").cast(pl.Int64))
    own = {name: f"counton {name}" for name in ("number", "newest", "first", "second")}
    return found.rename(called | {name: new for name, new in own.items() if name in found.columns})


def open_table(events: Any) -> Rows:
    """Open the rows of a table of another library.

    Args:
        events: an expression of ibis, a ``DeltaTable`` of deltalake, or a table or a scan of
            pyiceberg.
    """
    library, kind = type(events).__module__.partition(".")[0], type(events).__name__
    if library == "ibis" and kind == "Table":
        found: EventDatabase = IbisTable(events)
        try:
            backend = events.get_backend()
            if backend.name == "duckdb":  # it counts equal rows; other databases send all rows
                events.limit(0).to_pyarrow()  # this moves tables in memory to the database
                found = IbisInDuck(backend.con.sql(backend.compile(events)), events)
        except Exception as error:  # the error of any database
            raise found._refusal(error) from error
        return QuestionRows(found)
    if library == "deltalake" and kind == "DeltaTable":
        return DeltaRows(events)
    if library == "pyiceberg" and kind in ("Table", "DataScan"):
        return QuestionRows(IcebergTable(events.scan() if kind == "Table" else events))
    raise InvalidInput(
        f"{field('events')} is a {kind} of {library}, which has no rows with named columns; give a "
        "table of that library"
    )


class IbisInDuck(DuckRelation):
    """An ibis expression that DuckDB evaluates."""

    name = "the ibis expression"

    def __init__(self, relation: Any, table: Any) -> None:
        super().__init__(relation)
        self._table = table  # ibis drops tables that it moved from memory with the last expression


class IbisTable(EventDatabase):
    """An ibis expression that a database other than DuckDB evaluates."""

    name = "the ibis expression"

    def __init__(self, table: Any) -> None:
        self._table = table

    @cached_property
    @override
    def empty(self) -> pl.DataFrame:
        return self._answer(self._table.limit(0))

    @override
    def read(self, names: Sequence[str]) -> pl.DataFrame:
        return self._answer(self._table.select(list(names)))

    def _answer(self, table: Any) -> pl.DataFrame:
        try:
            return pl.DataFrame(table)
        except Exception as error:  # the error of any database
            raise self._refusal(error) from error


class IcebergTable(EventDatabase):
    """A scan of an Iceberg table, always of the snapshot from which the scan was made."""

    name = "the Iceberg table"

    def __init__(self, scan: Any) -> None:
        self._scan = scan

    @cached_property
    @override
    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(self._scan.projection().as_arrow().empty_table())

    @override
    def read(self, names: Sequence[str]) -> pl.DataFrame:
        try:
            found = pl.DataFrame(self._scan.select(*names).to_arrow_batch_reader())
        except Exception as error:  # the error of any storage
            raise self._refusal(error) from error
        return found.select(names)


class DeltaRows(UnorderedRows):
    """A Delta table in the version that was opened, read in chunks like a lazy frame."""

    name = "the Delta table"
    kind = "a table of Delta"

    def __init__(self, table: Any) -> None:
        try:
            frame = pl.scan_delta(table)
            frame.collect_schema()
        except Exception as error:  # the error of deltalake, for versions that it does not know
            raise InvalidInput(
                f"{self.name} cannot be read ({first_line(error)}); give its rows as a frame"
            ) from error
        super().__init__(frame)


def open_question(
    events: Any, query: str | None, moments: Mapping[str, str] = MappingProxyType({})
) -> Source:
    """Open the rows that a database returns for a query.

    Args:
        events: ``duckdb:///FILE``, ``duckdb://`` for a database in memory, where a query may read
            files; ``sqlite:///FILE``; ``postgresql://USER@HOST/DATABASE``; a relation of DuckDB, or
            a table for `counton.rows.databases.open_table`.
        query: one SELECT; None if ``events`` is a relation or a table.
        moments: times to put in place of ``{since}`` and ``{until}`` in the query
            (`moments_named`), in ISO 8601 with an offset; they are sent as parameters.
    """
    if isinstance(events, list | tuple):
        if len(events) > 1:
            raise InvalidInput(
                f"{field('events')} names {len(events)} sources, and one of them is a database, "
                "whose rows cannot be joined with others; count the others in a run of their own "
                f"({field('append', True)}), or select all rows in one query"
            )
        events = events[0]
    if not isinstance(events, str):
        if query is not None:
            raise InvalidInput(
                f"{field('events')} is a table already, so no query is needed; leave "
                f"{field('query', query[:40])} out"
            )
        of_duckdb = type(events).__module__.lstrip("_").startswith("duckdb")
        found = QuestionRows(DuckRelation(events)) if of_duckdb else open_table(events)
        return Question((found,), found.name)
    if query is None or not query.strip().rstrip(";").strip():
        raise InvalidInput(
            f"{field('events')} is a database, and the query that selects its rows is missing; "
            f"give {field('query', 'select ...')}"
        )
    question = query.strip().rstrip(";").strip()
    kinds: dict[str, Callable[[str, str, Mapping[str, str]], EventDatabase]] = {
        "duckdb": DuckFile,
        "sqlite": SqliteFile,
        "postgresql": PostgreSQL,
    }
    kind = kinds[events.partition("://")[0].partition("+")[0]]
    rows = QuestionRows(kind(events, question, moments))
    return Question((rows,), rows.name)

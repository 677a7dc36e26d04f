"""Rows of a query to a file of SQLite, or to a PostgreSQL server.

Columns are fetched as texts, as from CSV, so that a row's meaning depends on that row alone. One
statement is sent, which reads: from a file opened for reading, or in a transaction that is never
committed. This does not prevent effects of a server's functions outside the transaction.
"""

from __future__ import annotations

import math
import re
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from weakref import finalize

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInputError, StateUnavailableError, first_line, param
from counton.base.lazy import require
from counton.io.input_paths import MOMENT, moments_named
from counton.io.object_cells import read_cell
from counton.io.query_edges import (
    AFTER_DIGITS,
    BEFORE_DIGITS,
    EdgeForm,
    EdgeValue,
    EpochDigits,
    EpochNumber,
    LocalDay,
    LocalTimestamp,
    QueryEdges,
    UtcDay,
    UtcTimestamp,
    is_written_in_digits,
    join_styles,
    other_texts,
    refuse_divided_rows,
    refuse_lost_rows,
    refuse_times_elsewhere,
    stated_forms,
    text_form,
    written_form,
)
from counton.io.sources import FetchedColumns, Source, no_column
from counton.io.timestamps import EPOCH_FORMATS

#: Most rows that are in memory as Python objects at a time.
_ROWS_AT_ONCE: Final = 100_000
#: Values of SQLite below and above all numbers and texts; and texts before and after all times.
_EDGES_OF_VALUES: Final[tuple[EdgeValue, EdgeValue]] = (-math.inf, b"\xff")
_EDGES_OF_TIMES: Final[tuple[EdgeValue, EdgeValue]] = ("0001-01-01", "9999-12-31")
#: Storage classes of numbers in SQLite.
_NUMBERS: Final = frozenset(("integer", "real"))
#: Types of PostgreSQL for texts, times and numbers.
_TEXTS: Final = frozenset(("text", "varchar", "bpchar"))
_TIMES: Final = frozenset(("timestamptz", "timestamp", "date"))
_NUMBER_TYPES: Final = ("int2", "int4", "int8", "numeric", "float4", "float8")
#: Least and greatest values of these types, in the years that can be read.
_EXTREMES: Final[Mapping[str, tuple[EdgeValue, EdgeValue]]] = {
    "int2": (str(-(2**15)), str(2**15 - 1)),
    "int4": (str(-(2**31)), str(2**31 - 1)),
    "int8": (str(-(2**63)), str(2**63 - 1)),
    "numeric": ("-1e30", "1e30"),
    "float4": ("-1e30", "1e30"),
    "float8": ("-1e30", "1e30"),
}
#: Name of the statement of which the server is asked for the types of its parameters.
_STATEMENT: Final = b"counton_edges"


class QueryRows(FetchedColumns):
    """The rows of a query: texts, or null.

    ``name`` in messages has no user and password.

    Args:
        name: name of the query, for messages.
        query: the SELECT, in which ``{since}`` and ``{until}`` are replaced by parameters.
        edges: values of ``{since}`` and ``{until}``, and how times are read; None: all rows lie
            between them.
        named: names of the edges that the query has.
    """

    kind = "a query of a database"

    def __init__(
        self, name: str, query: str, edges: QueryEdges | None, named: frozenset[str]
    ) -> None:
        super().__init__(numbered=False)
        self.name = name
        self._query = query
        self._edges = edges if named else None
        self._named = named
        self._parameters: dict[str, EdgeValue] | None = None
        #: Moments of the rows around the edges, if the query names edges.
        self._around: pl.Series | None = None
        #: Parameters with edges that are further apart, in the same form.
        self._wide_parameters: Mapping[str, EdgeValue] = {}

    @abstractmethod
    def _rows(
        self, select: str, parameters: Mapping[str, EdgeValue | None]
    ) -> tuple[list[str], Iterable[list[Any]]]:
        """Run a SELECT; return column names, and rows in several lists."""

    @abstractmethod
    def _bind_edges(self, edges: QueryEdges) -> dict[str, EdgeValue]:
        """Return the parameters of the query in the type and form of its column of times, and note
        the moments of the rows around the edges, and parameters that return these rows.
        """

    @abstractmethod
    def _bind_all(self) -> dict[str, EdgeValue]:
        """Return parameters between which all rows lie."""

    def _hold(self, connection: Any) -> None:
        """Ask for column names; the connection is closed with the last copy of these rows."""
        self._connection = _Connection(connection)
        head = f"SELECT * FROM ({self._query}\n) AS asked LIMIT 0"  # noqa: S608
        self._names, _ = self._rows(head, self._no_parameters())

    def _no_parameters(self) -> dict[str, EdgeValue | None]:
        """Return a null for each parameter."""
        return dict.fromkeys(self._named)

    @override
    def columns(self) -> list[str]:
        return self._names

    #: SQL that turns the column ``c0`` into text.
    _text: str = "c0"

    def _select(self, chosen: str) -> str:
        """Return a SELECT over the answer, whose columns are called c0, c1, and so on."""
        head = ", ".join(f"c{place}" for place in range(len(self._names)))
        return f"WITH events ({head}) AS ({self._query}\n) SELECT {chosen} FROM events"  # noqa: S608

    def _as_texts(self, name: str) -> str:
        """Return SQL for a column as text."""
        return self._text.replace("c0", f"c{self._names.index(name)}")

    @override
    def _fetch(self, names: Sequence[str]) -> pl.DataFrame:
        rows = self._read_texts(names, self._resolve_parameters())
        edges = self._edges
        if edges is not None and edges.holds_all_rows and edges.column in names:
            assert self._around is not None
            refuse_lost_rows(edges, self.name, self._around, edges.read(rows[edges.column]))
            refuse_divided_rows(
                edges, self.name, self._read_texts(names, self._wide_parameters), rows
            )
        return rows

    def _read_texts(
        self, names: Sequence[str], parameters: Mapping[str, EdgeValue]
    ) -> pl.DataFrame:
        """Return columns of the answer to some parameters, as texts."""
        schema = dict.fromkeys(names, pl.String())
        select = self._select(", ".join(map(self._as_texts, names)))
        parts = [
            pl.DataFrame(
                [[_text_of_cell(cell) for cell in row] for row in rows], schema, orient="row"
            )
            for rows in self._rows(select, parameters)[1]
        ]
        return pl.concat([pl.DataFrame(schema=schema), *parts])

    def _resolve_parameters(self) -> dict[str, EdgeValue]:
        """Return the parameters of the query, which are found once."""
        if self._parameters is None:
            if not self._named:
                self._parameters = {}
            elif self._edges is None:
                self._parameters = self._bind_all()
            elif self._edges.column not in self._names:
                raise no_column(self.name, self._edges.column, self._names)
            else:
                self._parameters = self._bind_edges(self._edges)
        return self._parameters

    def _refusal(self, error: BaseException) -> InvalidInputError:
        return InvalidInputError(
            f"{self.name} cannot be answered ({first_line(error)}); correct {param('events')} or "
            f"{param('query', 'select ...')}"
        )


class _Connection:
    """A connection that is closed when nobody refers to it any more."""

    def __init__(self, connection: Any) -> None:
        self.execute = connection.execute
        self.cursor = connection.cursor
        finalize(self, connection.close)


def _text_of_cell(cell: object) -> str | None:
    return read_cell(cell)[0]


class _Times(NamedTuple):
    """The times of some rows of a SQLite query.

    Attributes:
        texts: the times as texts.
        kinds: storage classes of the times that are not null.
    """

    texts: pl.Series
    kinds: frozenset[str]


class SqliteRows(QueryRows):
    """The rows of a query to a SQLite file, opened for reading only.

    A column of SQLite may hold values of any storage class, and a number is less than any text. So
    the edges are tried as a number and as a text, and each row that comes then must be of one
    class.
    """

    def __init__(self, url: str, query: str, edges: QueryEdges | None) -> None:
        path = url.partition("://")[2].removeprefix("/")
        if not path:
            raise InvalidInputError(f"{param('events', url)} names no file; give sqlite:///FILE")
        name = f"the query of sqlite:///{path}"
        super().__init__(name, _in_style(query, ":*"), edges, moments_named(query))
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
    def _bind_all(self) -> dict[str, EdgeValue]:
        for bounds in (_EDGES_OF_VALUES, _EDGES_OF_TIMES):
            parameters = self._between(bounds)
            if any(self._rows(f"{self._select('1')} LIMIT 1", parameters)[1]):
                return parameters
        return self._between(_EDGES_OF_VALUES)

    def _between(self, bounds: tuple[EdgeValue, EdgeValue]) -> dict[str, EdgeValue]:
        """Return the query's parameters by which it selects rows between two bounds."""
        lowest, highest = bounds
        values = {"since": lowest, "until": highest}
        return {name: values[name] for name in self._named}

    @override
    def _bind_edges(self, edges: QueryEdges) -> dict[str, EdgeValue]:
        wide = edges.widen()
        self._refuse_bytes(edges, wide)
        if edges.time_format is None:
            dashed, compact = (
                self._times(edges, wide.values(UtcDay(has_dashes))).texts
                for has_dashes in (True, False)
            )
            times = join_styles(dashed, compact)
            self._refuse_numbers(edges, wide, times)
            form = text_form(edges, self.name, times)
        else:
            form, times = self._stated_form(edges, wide)
        self._refuse_times_elsewhere(edges, wide, form, times)
        if times.is_empty() and edges.holds_all_rows:
            # A row that lies there by its time is then compared with something else.
            times = self._times(edges, self._between(_EDGES_OF_VALUES)).texts
        self._around = edges.read(times)
        self._wide_parameters = wide.values(form)
        return edges.values(form)

    def _stated_form(self, edges: QueryEdges, wide: QueryEdges) -> tuple[EdgeForm, pl.Series]:
        """Return the form of times with a ``time_format``, and the times around the edges.

        Numbers may be stored as texts, and digits as numbers. Functions of SQL may convert the
        edges to numbers.
        """
        forms = stated_forms(edges)
        times_by_form = [self._times(edges, wide.values(form)) for form in forms]
        kinds = frozenset[str]().union(*(times.kinds for times in times_by_form))
        if kinds & _NUMBERS and kinds - _NUMBERS:
            raise self._mixed_classes(edges)
        for form, times in zip(forms, times_by_form, strict=True):
            if times.kinds:
                return form, times.texts
        return forms[0], times_by_form[0].texts

    def _refuse_numbers(self, edges: QueryEdges, wide: QueryEdges, times: pl.Series) -> None:
        """Refuse numbers around the edges, in any unit, where times are texts.

        A number is less than any text, so these rows would be lost.
        """
        parameters: dict[str, EdgeValue | None] = {"since": None, "until": None}
        if "since" in wide.moments:  # days such as 20240301 are less than any seconds
            parameters["since"] = int(UtcDay(has_dashes=False).value(wide.moments["since"]))
        if "until" in wide.moments:
            parameters["until"] = EpochNumber("epoch_ns").value(wide.moments["until"])
        if not self._has_rows(edges, parameters, "'integer', 'real'"):
            return
        if len(times):
            raise self._mixed_classes(edges)
        raise InvalidInputError(
            f"column {edges.column!r} of {self.name} holds numbers, not times. If they are "
            f"numbers since 1970, give {param('time_format')} ({', '.join(EPOCH_FORMATS)}); if "
            f"they are days such as 20240301, {param('time_format', '%Y%m%d')}"
        )

    def _refuse_times_elsewhere(
        self, edges: QueryEdges, wide: QueryEdges, form: EdgeForm, around: pl.Series
    ) -> None:
        """Refuse times between the edges that are texts of another order.

        They begin with a blank, or their days or months have one digit. So they may lie far from
        the edges, among times of other months.
        """
        text = f"CAST({self._as_texts(edges.column)} AS TEXT)"
        conditions = other_texts(edges, wide, form, text, [BEFORE_DIGITS, AFTER_DIGITS])
        for parameters, condition in conditions:
            clause = f"WHERE typeof({self._as_texts(edges.column)}) = 'text' AND {condition}"
            rows = self._rows(f"{self._select(text)} {clause}", parameters)[1]
            cells = [_text_of_cell(cell) for part in rows for (cell,) in part]
            texts = pl.Series(cells, dtype=pl.String)
            refuse_times_elsewhere(edges, self.name, around, texts)

    def _refuse_bytes(self, edges: QueryEdges, wide: QueryEdges) -> None:
        """Refuse bytes around the edges: any text is less than they are."""
        text: EdgeForm = UtcDay()
        if edges.time_format in EPOCH_FORMATS:
            assert edges.time_format is not None
            text = EpochDigits(edges.time_format)
        parameters = {name: str(value).encode() for name, value in wide.values(text).items()}
        if self._has_rows(edges, parameters, "'blob'"):
            raise InvalidInputError(
                f"column {edges.column!r} of {self.name} holds bytes, which the database cannot "
                "compare with {since} and {until}. Store its times as texts or numbers"
            )

    def _has_rows(
        self, edges: QueryEdges, parameters: Mapping[str, EdgeValue | None], classes: str
    ) -> bool:
        """Return True if a row between some edges has a time of one of some storage classes."""
        clause = f"WHERE typeof({self._as_texts(edges.column)}) IN ({classes}) LIMIT 1"
        return any(self._rows(f"{self._select('1')} {clause}", parameters)[1])

    def _mixed_classes(self, edges: QueryEdges) -> InvalidInputError:
        return InvalidInputError(
            f"column {edges.column!r} of {self.name} holds numbers and texts, so the database "
            "cannot compare all of them with {since} and {until}. Store all times as numbers, or "
            "all as texts"
        )

    def _times(self, edges: QueryEdges, parameters: Mapping[str, EdgeValue]) -> _Times:
        """Return the times of the rows between some edges."""
        column = self._as_texts(edges.column)
        parts = [pl.Series(dtype=pl.String)]
        kinds = set[str]()
        for rows in self._rows(self._select(f"typeof({column}), {column}"), parameters)[1]:
            kinds.update(kind for kind, _ in rows)
            parts.append(pl.Series([_text_of_cell(cell) for _, cell in rows], dtype=pl.String))
        return _Times(pl.concat(parts), frozenset(kinds - {"null"}))

    @override
    def _rows(
        self, select: str, parameters: Mapping[str, EdgeValue | None]
    ) -> tuple[list[str], Iterable[list[Any]]]:
        try:
            cursor = self._connection.execute(select, parameters)
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        names = [name for name, *_ in cursor.description]
        # SQLite calls a second column ``time`` of a subquery ``time:1``.
        plain = [re.sub(r":[0-9]+$", "", name) for name in names]
        names = [
            plain_name if plain_name in names else name
            for plain_name, name in zip(plain, names, strict=True)
        ]
        return names, iter(lambda: self._some(cursor), [])

    def _some(self, cursor: sqlite3.Cursor) -> list[object]:
        try:
            rows = cursor.fetchmany(_ROWS_AT_ONCE)
            version = self._data_version()
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        if version != self._version:
            raise InvalidInputError(
                f"{self.name} returned other rows when it was read again, so nobody can tell which "
                f"rows were counted; {self.remedy_if_changed}"
            )
        return rows

    def _data_version(self) -> int:
        """Return a number that changes when another connection has written."""
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version


class PostgreSQLRows(QueryRows):
    """The rows of a query to a server, in one read-only transaction of a single moment.

    The server says which type each edge is compared with.
    """

    _text = "CAST(c0 AS text)"
    #: Columns of the type numeric, whose texts have as many zeros as the type has places.
    _numeric: frozenset[str] = frozenset()

    def __init__(self, url: str, query: str, edges: QueryEdges | None) -> None:
        require("psycopg")
        import psycopg

        place = _PLACE.fullmatch(url)
        name = f"the query of postgresql://{'' if place is None else place[1]}"
        #: Names of the edges, in the order in which the query has them. Each is a parameter of its
        #: own, since each may have a type of its own.
        self._order = [match[2] for match in MOMENT.finditer(query)]
        self._numbered = query
        sent = query
        if self._order:
            sent = _number(query.replace("%", "%%"), "%(edge{})s")
            self._numbered = _number(query, "${}")
        super().__init__(name, sent, edges, moments_named(query))
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
            raise StateUnavailableError(
                f"{self.name} got no answer ({reason}), so nothing was released: try again when "
                f"the server can be reached, or correct {param('events')} or the password"
            ) from None  # its words may hold the password
        except (psycopg.Error, UnicodeError) as error:  # a name that no server can have
            raise InvalidInputError(
                f"{self.name} got no answer ({type(error).__name__}): the address or the user "
                f"cannot be used; correct {param('events')}"
            ) from None
        self._hold(connection)
        self._types = self._parameter_types(connection) if self._order else []

    @override
    def _no_parameters(self) -> dict[str, EdgeValue | None]:
        return {f"edge{number}": None for number in range(1, len(self._order) + 1)}

    def _parameter_types(self, connection: Any) -> list[str]:
        """Return the names of the types with which the server compares each edge."""
        statement = f"SELECT * FROM ({self._numbered}\n) AS asked"  # noqa: S608
        prepared = connection.pgconn.prepare(_STATEMENT, statement.encode())
        if prepared.error_message:
            raise self._refusal(ValueError(prepared.error_message.decode(errors="replace")))
        described = connection.pgconn.describe_prepared(_STATEMENT)
        adapter_types = connection.adapters.types
        types = list[str]()
        for number in range(len(self._order)):
            info = adapter_types.get(described.param_type(number))
            types.append("a type of its own" if info is None else info.name)
        return types

    @override
    def _bind_all(self) -> dict[str, EdgeValue]:
        parameters = dict[str, EdgeValue]()
        for number, (name, type_name) in enumerate(zip(self._order, self._types, strict=True), 1):
            lowest, highest = _EXTREMES.get(type_name, _EDGES_OF_TIMES)
            parameters[f"edge{number}"] = lowest if name == "since" else highest
        return parameters

    @override
    def _bind_edges(self, edges: QueryEdges) -> dict[str, EdgeValue]:
        wide = edges.widen()
        text: EdgeForm = UtcDay()
        has_texts = not _TEXTS.isdisjoint(self._types)
        if edges.time_format is not None and (has_texts or not _TIMES.issuperset(self._types)):
            text = written_form(edges)
        times = self._times(edges, self._typed(wide, text))
        if edges.time_format is None and has_texts:
            compact = self._typed(wide, UtcDay(has_dashes=False))
            select = self._select(self._as_texts(edges.column))
            times = join_styles(times, self._texts_if_possible(select, compact))
        self._around = edges.read(times)
        if edges.time_format is None and has_texts:
            text = text_form(edges, self.name, times)
        if _TEXTS.issuperset(self._types):
            self._refuse_times_elsewhere(edges, wide, text, times)
        self._wide_parameters = self._typed(wide, text)
        return self._typed(edges, text)

    def _refuse_times_elsewhere(
        self, edges: QueryEdges, wide: QueryEdges, form: EdgeForm, around: pl.Series
    ) -> None:
        """Refuse times between the edges that are texts of another order, as in SQLite."""
        column = f'{self._as_texts(edges.column)} COLLATE "C"'
        for bounds, condition in other_texts(edges, wide, form, column, [BEFORE_DIGITS]):
            parameters = {
                f"edge{number}": bounds[name] for number, name in enumerate(self._order, 1)
            }
            select = f"{self._select(self._as_texts(edges.column))} WHERE {condition}"
            texts = self._texts_if_possible(select, parameters)
            refuse_times_elsewhere(edges, self.name, around, texts)

    def _texts_if_possible(self, select: str, parameters: Mapping[str, EdgeValue]) -> pl.Series:
        """Return the texts that a SELECT of one column returns for edges of another form.

        A query that converts its edges may end with an error for such a form, as with ``to_date``.
        Then it compares no texts of that form, and there are none.
        """
        self._connection.execute("SAVEPOINT other_form")
        try:
            cells = [cell for part in self._rows(select, parameters)[1] for (cell,) in part]
        except InvalidInputError:
            self._connection.execute("ROLLBACK TO SAVEPOINT other_form")
            cells = []
        return pl.Series([_text_of_cell(cell) for cell in cells], dtype=pl.String)

    def _typed(self, edges: QueryEdges, text: EdgeForm) -> dict[str, EdgeValue]:
        """Return each edge in the type that it is compared with; texts have the form ``text``."""
        forms: dict[str, EdgeForm] = {
            "timestamptz": UtcTimestamp(),
            "timestamp": LocalTimestamp(edges.timezone, edges.ambiguous),
            "date": LocalDay(edges.timezone, edges.ambiguous),
            **dict.fromkeys(_TEXTS, text),
        }
        if edges.time_format is not None and is_written_in_digits(edges.time_format):
            forms |= dict.fromkeys(_NUMBER_TYPES, text)
        parameters = dict[str, EdgeValue]()
        for number, (name, type_name) in enumerate(zip(self._order, self._types, strict=True), 1):
            if type_name not in forms:
                remedy = "compare it with a column of times, or cast it to the type of that column"
                if type_name in _NUMBER_TYPES:
                    remedy = (
                        f"give {param('time_format')} ({', '.join(EPOCH_FORMATS)}) if they are "
                        f"numbers since 1970, or {param('time_format', '%Y%m%d')} if they are days "
                        "such as 20240301"
                    )
                raise InvalidInputError(
                    f"{self.name} compares {{{name}}} with values of type {type_name}, which are "
                    f"no times: {remedy}"
                )
            parameters[f"edge{number}"] = forms[type_name].value(edges.moments[name])
        return parameters

    def _times(self, edges: QueryEdges, parameters: Mapping[str, EdgeValue]) -> pl.Series:
        """Return the times, as texts, of the rows between some edges."""
        parts = [pl.Series(dtype=pl.String)]
        select = self._select(self._as_texts(edges.column))
        for rows in self._rows(select, parameters)[1]:
            parts.append(pl.Series([_text_of_cell(cell) for (cell,) in rows], dtype=pl.String))
        return pl.concat(parts)

    @override
    def _rows(
        self, select: str, parameters: Mapping[str, EdgeValue | None]
    ) -> tuple[list[str], Iterable[list[Any]]]:
        import psycopg

        try:
            cursor = self._connection.cursor()
            # A prepared statement, since it cannot hold a second one.
            cursor.execute(select, parameters or None, prepare=True)
        except psycopg.OperationalError as error:  # the server has ended, or has no room or time
            raise StateUnavailableError(
                f"{self.name} got no whole answer ({first_line(error)}), so nothing was released: "
                "try again when the server can be reached"
            ) from error
        except psycopg.Error as error:
            raise self._refusal(error) from error
        names = [column.name for column in cursor.description or ()]
        numeric = [
            column.name
            for column in cursor.description or ()
            if column.type_code == _NUMERIC_TYPE_ID
        ]
        self._numeric = self._numeric or frozenset(numeric)
        return names, iter(lambda: cursor.fetchmany(_ROWS_AT_ONCE), [])

    @override
    def count(self, column: str, cell: pl.Expr) -> pl.Expr:
        return cell.str.replace(r"\.0+$", "") if column in self._numeric else cell


def _take_no_power(connection: Any) -> None:
    """Switch a superuser to the role that may read all tables, from version 14 on.

    In a read-only transaction a superuser's functions could still write files, or end other
    sessions. If rows are hidden from that role, the server raises an error.
    """
    info = connection.info
    if (
        info.parameter_status("is_superuser") != "on"
        or info.server_version < _FIRST_VERSION_WITH_READER
    ):
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
_NUMERIC_TYPE_ID: Final = 1700
#: The first PostgreSQL with a role that reads all tables.
_FIRST_VERSION_WITH_READER: Final = 140000


def _in_style(query: str, style: str) -> str:
    """Replace ``{since}`` and ``{until}`` by parameters; ``*`` in ``style`` is their name."""
    return MOMENT.sub(lambda named: style.replace("*", named[2]), query)


def _number(query: str, style: str) -> str:
    """Replace each ``{since}`` and ``{until}`` by a parameter with a number, from 1 on.

    >>> _number("at >= {since} and at < {until}", "${}")
    'at >= $1 and at < $2'
    """
    numbers = count(1)
    return MOMENT.sub(lambda _: style.format(next(numbers)), query)


def open_query(events: Any, query: str, edges: QueryEdges | None = None) -> Source:
    """Open the rows of one SELECT from ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.

    Args:
        events: the address.
        query: the SELECT.
        edges: values of ``{since}`` and ``{until}``; None: all rows lie between them.
    """
    if isinstance(events, list | tuple):
        (events,) = events  # a job of several sources was refused
    question = query.strip().rstrip(";").strip()
    kinds: dict[str, Callable[[str, str, QueryEdges | None], QueryRows]] = {
        "sqlite": SqliteRows,
        "postgresql": PostgreSQLRows,
    }
    rows = kinds[events.partition("://")[0].partition("+")[0]](events, question, edges)
    return Source((rows,), rows.name)

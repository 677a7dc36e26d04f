"""Statements of every release, written once: to build and compile one costs more than to run it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoResultFound

from counton.state import schema


class PreparedStatement:
    """A statement as the driver takes it, by the kind of database.

    Args:
        statement: SQL, or what SQLAlchemy makes of tables; with a parameter for each value.
        columns: of an INSERT, those which get a value.
    """

    def __init__(self, statement: str | sa.Insert, columns: Sequence[str] = ()) -> None:
        self._statement = sa.text(statement) if isinstance(statement, str) else statement
        self._columns = list(columns) or None
        self._texts: dict[str, tuple[str, Sequence[str] | None]] = {}
        self._row: Any = None

    @classmethod
    def insert(cls, table: sa.Table, *but: str) -> PreparedStatement:
        """Adds rows to a table, with values for all columns but those that come by themselves."""
        return cls(table.insert(), [name for name, _ in table.c.items() if name not in but])

    def run(self, connection: Connection, *rows: Mapping[str, Any]) -> int:
        """Run it with these values; of an INSERT with several rows. Returns how many it changed."""
        text, given = self._prepare(connection, rows)
        if (driver := _driver(connection)) is not None:
            return int(driver.executemany(text, given).rowcount)
        return connection.exec_driver_sql(text, given[0] if len(given) == 1 else given).rowcount

    def rows(self, connection: Connection, **values: Any) -> Iterator[Any]:
        """The rows that a SELECT finds with these values, with their columns as attributes."""
        text, (given,) = self._prepare(connection, [values])
        driver = _driver(connection)
        if driver is None:
            return iter(connection.exec_driver_sql(text, given))
        found = driver.execute(text, given)
        if self._row is None:
            kind: Any = namedtuple  # of names that a statement gives
            self._row = kind("Row", [column[0] for column in found.description], rename=True)._make
        return map(self._row, found)

    def first(self, connection: Connection, **values: Any) -> Any:
        """The first of these rows; None where there is none."""
        return next(self.rows(connection, **values), None)

    def one(self, connection: Connection, **values: Any) -> Any:
        """The first of these rows, which has to be there."""
        for row in self.rows(connection, **values):
            return row
        raise NoResultFound("a row is missing")

    def value(self, connection: Connection, **values: Any) -> Any:
        """The first column of `one`."""
        return self.one(connection, **values)[0]

    def _prepare(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[Any]]:
        """Its text for a kind of database, and the values as that takes them."""
        kind = connection.dialect.name
        if kind not in self._texts:
            compiled = self._statement.compile(
                dialect=connection.dialect, column_keys=self._columns
            )
            self._texts[kind] = str(compiled), compiled.positiontup
        text, order = self._texts[kind]
        if order is None:
            return text, [dict(row) for row in rows]
        return text, [tuple(row[name] for name in order) for row in rows]


def _driver(connection: Connection) -> Any:
    """What takes a SQLite file's statements in half the time; None where somebody listens to them.

    Those who listen, and servers, have them through SQLAlchemy.
    """
    heard = connection.engine.dispatch
    if connection.dialect.name != "sqlite" or heard.before_cursor_execute:
        return None
    return None if heard.after_cursor_execute else connection.connection.driver_connection


_FILE_HAS = PreparedStatement("SELECT name FROM sqlite_master WHERE name = :table")
#: Not ``to_regclass``: what a connection once did not find that misses until its next transaction.
_SERVER_HAS = PreparedStatement(
    "SELECT oid FROM pg_catalog.pg_class"
    " WHERE relname = :table AND relkind IN ('r', 'p', 'v', 'm', 'f')"
    " AND pg_catalog.pg_table_is_visible(oid)"
)


def has(connection: Connection, table: sa.Table) -> bool:
    """Whether a database has one of our tables."""
    asked = _FILE_HAS if connection.dialect.name == "sqlite" else _SERVER_HAS
    return asked.first(connection, table=table.name) is not None


#: A writer goes on to a step, of the row that it knows: of this epoch, at this step.
ADVANCE = PreparedStatement(
    "UPDATE counton_streams SET step = :now, checkpoint = :saved, seal = :sealed"
    " WHERE id = :stream AND writer_epoch = :epoch AND step = :before"
)
#: The writer changes one column of that row.
CHANGE = {
    column: PreparedStatement(
        f"UPDATE counton_streams SET {column} = :value"  # noqa: S608 - one of these two
        " WHERE id = :stream AND writer_epoch = :epoch AND step = :step"
    )
    for column in ("details", "forgotten")
}
#: What the one row says of a limit.
LIMIT = PreparedStatement("SELECT budget_limit FROM counton_database")
#: Rows of the journal.
JOURNAL = PreparedStatement.insert(schema.journal)
#: A row of marks.
MARK = PreparedStatement.insert(schema.marks)
#: The only row of a kind of marks.
REMARK = PreparedStatement(
    "UPDATE counton_marks SET marks = :said WHERE stream_id = :stream AND kind = :of_kind"
)

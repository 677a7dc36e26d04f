"""Statements of every release, written once: to build and compile one costs more than to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.state import schema


class PreparedStatement:
    """A statement as the driver takes it, by the kind of database.

    Args:
        statement: with a parameter of its own name for each value.
        columns: of an INSERT, those which get a value.
    """

    def __init__(self, statement: Any, columns: Sequence[str] = ()) -> None:
        self._statement, self._columns = statement, list(columns) or None
        self._texts: dict[str, tuple[str, Sequence[str] | None]] = {}

    def run(self, connection: Connection, *rows: Mapping[str, Any]) -> int:
        """Run it with these values; of an INSERT with several rows. Returns how many it changed."""
        kind = connection.dialect.name
        if kind not in self._texts:
            compiled = self._statement.compile(
                dialect=connection.dialect, column_keys=self._columns
            )
            self._texts[kind] = str(compiled), compiled.positiontup
        text, order = self._texts[kind]
        given: list[Any] = [
            dict(row) if order is None else tuple(row[name] for name in order) for row in rows
        ]
        if kind == "sqlite":  # through SQLAlchemy it would take twice as long
            driver: Any = connection.connection.driver_connection
            return int(driver.executemany(text, given).rowcount)
        return connection.exec_driver_sql(text, given[0] if len(given) == 1 else given).rowcount


def _mine() -> tuple[Any, ...]:
    """Of the streams' rows the one that its writer knows: of this epoch, at this step."""
    columns = schema.streams.c
    return (
        columns.id == sa.bindparam("stream"),
        columns.writer_epoch == sa.bindparam("epoch"),
        columns.step == sa.bindparam("before"),
    )


#: A writer goes on to a step: ``stream``, ``epoch``, ``before``; ``now``, ``saved``, ``sealed``.
ADVANCE = PreparedStatement(
    schema.streams.update()
    .where(*_mine())
    .values(
        step=sa.bindparam("now"),
        checkpoint=sa.bindparam("saved"),
        seal=sa.bindparam("sealed"),
    )
)
#: Rows of the journal.
JOURNAL = PreparedStatement(
    schema.journal.insert(), [column.name for column in schema.journal.columns]
)
#: A row of marks.
MARK = PreparedStatement(schema.marks.insert(), [column.name for column in schema.marks.columns])
#: The only row of a kind of marks: ``stream``, ``of_kind``; ``said``.
REMARK = PreparedStatement(
    schema.marks.update()
    .where(
        schema.marks.c.stream_id == sa.bindparam("stream"),
        schema.marks.c.kind == sa.bindparam("of_kind"),
    )
    .values(marks=sa.bindparam("said"))
)

"""Rows of tables that lie elsewhere, as other libraries name them: ibis, Delta, Iceberg."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, field
from counton.rows.databases import DuckRelation, EventDatabase, QuestionRows, UnorderedRows
from counton.rows.sources import Rows


def open_table(events: Any) -> Rows:
    """The rows of a table of another library.

    Args:
        events: an expression of ibis, a ``DeltaTable`` of deltalake, or of pyiceberg a table or a
            scan of one.
    """
    library, kind = type(events).__module__.partition(".")[0], type(events).__name__
    if library == "ibis" and kind == "Table":
        return QuestionRows(_of_ibis(events))
    if library == "deltalake" and kind == "DeltaTable":
        return DeltaRows(events)
    if library == "pyiceberg" and kind in ("Table", "DataScan"):
        return QuestionRows(IcebergTable(events.scan() if kind == "Table" else events))
    raise InvalidInput(
        f"{field('events')} is a {kind} of {library}, which has no rows with named columns; give a "
        f"table"
    )


def _of_ibis(table: Any) -> EventDatabase:
    """Rows that DuckDB counts where they are its own; those of other databases travel."""
    found = IbisTable(table)
    try:
        backend = table.get_backend()
        if backend.name != "duckdb":
            return found
        table.limit(0).to_pyarrow()  # brings what lies in memory to the database
        return IbisInDuck(backend.con.sql(backend.compile(table)), table)
    except Exception as error:  # of whatever database it is
        raise found._refusal(error) from error


class IbisInDuck(DuckRelation):
    """An expression of ibis that DuckDB answers."""

    name = "the ibis expression"

    def __init__(self, relation: Any, table: Any) -> None:
        super().__init__(relation)
        self._table = table  # ibis drops what it brought from memory with the last expression


class IbisTable(EventDatabase):
    """An expression of ibis, whatever database answers it."""

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
        except Exception as error:  # of whatever database it is
            raise self._refusal(error) from error


class IcebergTable(EventDatabase):
    """A scan of a table of Iceberg, which goes on to see the snapshot that it was made of."""

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
        except Exception as error:  # of whatever storage it is
            raise self._refusal(error) from error
        return found.select(names)


class DeltaRows(UnorderedRows):
    """A table of Delta, as of the version that was opened: read in chunks, as lazy frames are."""

    name = "the Delta table"
    kind = "a table of Delta"

    def __init__(self, table: Any) -> None:
        try:
            frame = pl.scan_delta(table)
            frame.collect_schema()
        except Exception as error:  # of deltalake, which may refuse what it does not know
            reason = str(error).strip().split("\n")[0]
            raise InvalidInput(
                f"{self.name} cannot be read ({reason}); give its rows as a frame"
            ) from error
        super().__init__(frame)

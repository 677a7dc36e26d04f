"""States that can be kept and put back as they were, as from a backup or a dump."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from counton.state import schema
from counton.state.database import database_url


class Place(Protocol):
    """Where a state is."""

    is_server: bool

    @property
    def address(self) -> str:
        """Path or database URL."""

    def saved(self) -> Any:
        """The state as it is."""

    def put_back(self, saved: Any) -> None:
        """The state as it was."""


class Files:
    """A SQLite state, which others may have been copied to."""

    is_server = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def address(self) -> str:
        """Its path."""
        return str(self.path)

    def saved(self) -> Any:
        """Its bytes, with all that is committed; None where there is none."""
        if not self.path.exists():
            return None
        with closing(sqlite3.connect(self.path)) as connection, connection:
            data = connection.serialize()
        connection.close()
        return data

    def put_back(self, saved: Any) -> None:
        """Another file, as a restored one is."""
        for part in ("", "-wal", "-shm"):
            Path(f"{self.path}{part}").unlink(missing_ok=True)
        if saved is not None:
            self.path.write_bytes(saved)
            self.path.chmod(0o600)


class Server:
    """A PostgreSQL database."""

    is_server = True

    def __init__(self, address: str) -> None:
        self.address = address

    def saved(self) -> Any:
        """Its rows."""
        engine = sa.create_engine(database_url(self.address))
        with engine.begin() as connection:
            rows = [
                (table, [dict(row._mapping) for row in connection.execute(sa.select(table))])
                for table in schema.metadata.sorted_tables
            ]
        engine.dispose()
        return rows

    def put_back(self, saved: Any) -> None:
        """Its rows of then."""
        engine = sa.create_engine(database_url(self.address))
        with engine.begin() as connection:
            for table in reversed(schema.metadata.sorted_tables):
                connection.execute(table.delete())
            for table, rows in saved:
                if rows:
                    connection.execute(table.insert(), rows)
        engine.dispose()

    def clear(self) -> None:
        """As a new database."""
        engine = sa.create_engine(database_url(self.address))
        schema.metadata.drop_all(engine)
        engine.dispose()

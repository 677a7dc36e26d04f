"""States that can be kept and put back as they were, as from a backup or a dump."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from databases import looked_into

from counton.state import schema


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
        with looked_into(self.address) as connection:
            return [
                (table, [row._asdict() for row in connection.rows(f"SELECT * FROM {table}")])  # noqa: S608 - a table
                for table in TABLES
            ]

    def put_back(self, saved: Any) -> None:
        """Its rows of then."""
        with looked_into(self.address) as connection:
            for table in reversed(TABLES):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a table
            for table, rows in saved:
                connection.insert(table, *rows)

    def clear(self) -> None:
        """As a new database."""
        with looked_into(self.address) as connection:
            for table in reversed(TABLES):
                connection.execute(f"DROP TABLE IF EXISTS {table}")


#: Where a state is.
Place = Files | Server
#: Names of a state's tables, those first to which others lead.
TABLES = re.findall(r"CREATE TABLE (\w+)", schema.TABLES)

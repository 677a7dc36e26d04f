"""States that somebody altered who has no key."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counton.state import journal
from counton.state.public_rows import checksum_of


def mend_checksums(state: Path) -> None:
    """Make all checksums of a SQLite state fit, as anybody can who alters it on purpose."""
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        for row in connection.execute("SELECT rowid, * FROM counton_streams").fetchall():
            checksum = checksum_of(dict(row))
            said = "UPDATE counton_streams SET checksum = ? WHERE rowid = ?"
            connection.execute(said, (checksum, row["id"]))
        for row in connection.execute("SELECT rowid, * FROM counton_journal").fetchall():
            cells = dict(row)
            number = cells.pop("rowid")
            said = "UPDATE counton_journal SET checksum = ? WHERE rowid = ?"
            connection.execute(said, (journal.checksum_of(**cells), number))
        connection.commit()


def alter_values(patch: pytest.MonkeyPatch, steps: slice, cell: int) -> None:
    """Let the values of a cell be one more at some of the steps that are read at once."""
    right = journal.read

    def altered(*arguments: Any) -> Any:
        entries = right(*arguments)
        values = entries.values.copy()
        values[steps, cell] += 1
        return entries._replace(values=values)

    patch.setattr(journal, "read", altered)

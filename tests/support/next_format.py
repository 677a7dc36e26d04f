"""A made-up next format of states: a column more, filled from another one, and a table.

Run as ``python next_format.py STATE NUMBER WHEN``: carries a state over, and is gone before or
after that statement, or (``copied``) before the copy of the old state has its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from databases import hear

from counton.state import schema, upgrades
from counton.state.backup import upgrade
from counton.state.sql import Connection

NOW = schema.FORMAT
#: Tables and columns that the oldest format lacks.
SINCE_15 = [
    *(("counton_streams", column) for column in ("arrived", "late")),
    *(
        (table, column)
        for table in ("counton_ledger", "counton_shared_entries")
        for column in ("party", "who", "host")
    ),
]


def to_next(connection: Connection) -> None:
    """Make the tables of the next format."""
    connection.script("CREATE TABLE counton_made_up (name VARCHAR(200) PRIMARY KEY, half BIGINT)")
    connection.execute("ALTER TABLE counton_streams ADD COLUMN half BIGINT")
    connection.run("UPDATE counton_streams SET half = step / 2")
    connection.run("INSERT INTO counton_made_up SELECT name, half FROM counton_streams")


@contextmanager
def next_version() -> Iterator[None]:
    """Let the version that runs be the next one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "FORMAT", NOW + 1)
        patched.setitem(upgrades.STEPS, NOW, to_next)
        yield


def _killed_at(number: int, when: str) -> None:
    """Let this process be gone before or after a statement."""
    left = iter(range(number, -1, -1))

    def at(_: str) -> None:
        if next(left) == 0:
            os._exit(9)

    if when == "copied":
        pytest.MonkeyPatch().setattr(os, "replace", lambda *_: os._exit(9))
    elif when == "before":
        hear(at)
    else:
        hear(lambda _: None, at)


if __name__ == "__main__":
    with next_version():
        _killed_at(int(sys.argv[2]), sys.argv[3])
        upgrade(sys.argv[1])

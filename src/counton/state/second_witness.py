"""The second home of a witness: away from the folder of the state, so that no copy of it has both.

It is a folder of the user's (``$XDG_STATE_HOME/counton``, by default ``~/.local/state/counton``),
or a folder or a database that a run names, and that the state remembers. It has a file, or rows,
for each state: by the state's identity, which copies share, so that whoever reads it needs no key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from typing_extensions import override

from counton.base.errors import InvalidInput, RequestMismatch, field, without_secrets
from counton.noise.witness import Entries, WitnessFile, WitnessPlace, parse_entries
from counton.state import ledger_rows as books
from counton.state import schema
from counton.state.database import Database, database_url
from counton.state.sql import has

#: Where a witness is kept: a folder, or a database URL.
Place = str | os.PathLike[str]

witnesses = sa.Table(
    "counton_witness",
    sa.MetaData(),
    sa.Column("state", sa.String(32), primary_key=True),  # its identity
    sa.Column("key", sa.String(64), primary_key=True),  # its fingerprint
    sa.Column("stream", sa.String(schema.LONGEST_NAME), primary_key=True),
    sa.Column("entry", sa.Text, nullable=False),  # JSON
)


def default_folder() -> Path | None:
    """The folder of the user's for what programs remember; None where the user has no home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "counton"
    try:
        return Path.home() / ".local" / "state" / "counton"
    except RuntimeError:
        return None


def address_of(place: Place) -> str:
    """How a state remembers a named place: from anywhere, and without a password.

    Raises:
        InvalidInput: neither a folder nor a database URL.
    """
    given: Any = place
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"{field('witness', place)} is no place: give a folder, or the URL of a database"
        )
    if "://" not in text:
        return os.path.abspath(text)
    url = database_url(text)._replace(password=None)
    return without_secrets(url.render_as_string(hide_password=False))


def home_of(identity: str, named: str | None) -> WitnessPlace | None:
    """Where a state's second witness is.

    Returns:
        None where the user has no home, and none was named.
    """
    if named is not None and "://" in named:
        return WitnessTable(named, identity)
    folder = default_folder() if named is None else Path(named)
    if folder is None:
        return None
    file = folder / f"{identity}.witness"
    return WitnessFile(file, folder=True, needed=named is not None)


def why_not_written(named: Place | None) -> str | None:
    """Why a second witness that is a folder could not be written, in words; None where it could."""
    if named is not None and "://" in os.fspath(named):
        return None
    folder = default_folder() if named is None else Path(named)
    if folder is None:
        return "the user has no home"
    there = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
    return None if os.access(there, os.W_OK | os.X_OK) else f"{folder} cannot be written"


class WitnessTable(WitnessPlace):
    """Rows of a database that remember, as a `WitnessFile` does in a folder."""

    def __init__(self, address: str, identity: str) -> None:
        self._address, self._identity = address, identity

    def __str__(self) -> str:
        return f"{self._address} (witness)"

    @override
    def read(self) -> Entries:
        with self._open() as database, database.transaction(write=False) as connection:
            return self._entries(connection) if has(connection, witnesses) else []

    @override
    def _change(self, change: Callable[[Entries], Entries | None]) -> None:
        with self._open() as database, database.transaction(write=True) as connection:
            books.lock(connection)
            books.make(connection, witnesses)
            entries = change(self._entries(connection))
            if entries is not None:
                self._write(connection, entries)

    @override
    def reserve(self, entry: dict[str, Any]) -> None:
        self.join({**entry, "digest": ""})  # all are written once more

    @contextmanager
    def _open(self) -> Iterator[Database]:
        database = Database(self._address, create=True)
        try:
            if database.identity == self._identity:
                raise RequestMismatch(
                    f"the witness of state {database.label} is kept in the state itself, and is "
                    f"put back with it: name another {field('witness')}"
                )
            yield database
        finally:
            database.close()

    def _entries(self, connection: Connection) -> Entries:
        found = sa.select(witnesses.c.entry).where(witnesses.c.state == self._identity)
        texts = [*connection.execute(found).scalars()]
        return parse_entries(f"[{','.join(texts)}]".encode()) if texts else []

    def _write(self, connection: Connection, entries: Entries) -> None:
        connection.execute(witnesses.delete().where(witnesses.c.state == self._identity))
        connection.execute(
            witnesses.insert(),
            [
                {
                    "state": self._identity,
                    "key": one["key"],
                    "stream": one["stream"],
                    "entry": json.dumps(one),
                }
                for one in entries
            ],
        )

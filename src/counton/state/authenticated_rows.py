"""Rows of a stream that decide what counts later, under the stream's MAC.

They are digests of counted users and ids, totals observed in each window, and digests of counted
files. Each row has a digest of its contents. The MAC of the stream, which needs the key, covers
the list of all rows with their digests: a tree of two levels. So opening a stream reads the list,
which is short, because a row holds up to millions of numbers. The contents of a row are read and
checked only where a run needs them, and a commit hashes only the rows that it writes.

A sum or XOR of keyed digests, without the list, would save no reading: whoever does not read the
list cannot tell which rows are missing. With digests in plain sight it would not be sound either,
because old rows can be combined to any XOR.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from counton.base.errors import StateError
from counton.state.sql import Connection

#: Values of the columns that identify a row within its stream.
Address = tuple[Any, ...]


class AuthenticatedTable(NamedTuple):
    """A table whose rows are under the seals of their streams.

    Attributes:
        name: name of the table.
        address: columns that identify a row within its stream.
        index_columns: further columns, by which rows are chosen before they are read.
        contents: columns of what is read.
        contents_in_words: the contents, for messages.
    """

    name: str
    address: tuple[str, ...]
    index_columns: tuple[str, ...]
    contents: tuple[str, ...]
    contents_in_words: str

    def digest_of(self, row: Mapping[str, object]) -> bytes:
        """Return a digest of all cells of a row, by column.

        It needs no key: the MAC covers it. It stands in the table itself, whose readers see the
        contents.
        """
        digest = hashlib.blake2b(self.name.encode(), digest_size=32)
        for column in (*self.address, *self.index_columns, *self.contents):
            value = row[column]
            cell = value if isinstance(value, bytes) else str(value).encode()
            digest.update(len(cell).to_bytes(8, "little"))
            digest.update(cell)
        return digest.digest()

    @property
    def place(self) -> str:
        """SQL that chooses a row by stream and address."""
        columns = " AND ".join(f"{column} = :{column}" for column in self.address)
        return f"FROM {self.name} WHERE stream_id = :stream AND {columns}"


#: Digests of counted users and ids, and where they counted: see `counton.state.dedup`.
MARKS: Final = AuthenticatedTable(
    "counton_marks", ("kind", "period", "part"), (), ("marks",), "counted users or ids"
)
#: Totals observed in windows: see `counton.state.journal`.
OBSERVED: Final = AuthenticatedTable(
    "counton_observed",
    ("step", "shape"),
    ("last", "written"),
    ("steps", "totals"),
    "rows that were read before",
)
#: Digests of counted files: see `counton.state.journal`.
SOURCES: Final = AuthenticatedTable("counton_sources", ("part",), (), ("digests",), "counted files")


class Entry(NamedTuple):
    """The part of a row that the MAC covers besides its address."""

    index_values: tuple[object, ...]
    digest: bytes


class AuthenticatedRows:
    """The rows of one stream in a table under its MAC: a list of them, with their digests.

    The list says which rows there are. A row that is missing, or is not the listed one, is refused
    when it is read. Changes are made in the database and in the list alike, so that the next MAC
    covers what this process has written, and nothing else.
    """

    def __init__(
        self,
        table: AuthenticatedTable,
        stream_id: int,
        entries: Mapping[Address, Entry] | None = None,
    ) -> None:
        self.table = table
        self._stream_id = stream_id
        self._entries = dict(entries or {})
        self._root: str | None = None
        self._held: dict[Address, object] = {}

    @classmethod
    def read_list(
        cls, connection: Connection, table: AuthenticatedTable, stream_id: int
    ) -> AuthenticatedRows:
        """List the rows of a stream, without their contents."""
        columns = (*table.address, *table.index_columns, "digest")
        sql = f"SELECT {', '.join(columns)} FROM {table.name} WHERE stream_id = :stream"
        width = len(table.address)
        entries: dict[Address, Entry] = {}
        number = 0
        for row in connection.rows(sql, stream=stream_id):
            number += 1
            entries[tuple(row[:width])] = Entry(tuple(row[width:-1]), bytes(row[-1]))
        if len(entries) != number:
            raise _altered(table)
        return cls(table, stream_id, entries)

    def copy(self) -> AuthenticatedRows:
        """Return a list that may change while this one stays."""
        copied = AuthenticatedRows(self.table, self._stream_id, self._entries)
        copied._root = self._root
        return copied

    @property
    def root(self) -> str:
        """One digest of the whole list."""
        if self._root is None:
            listed = [
                [*address, *entry.index_values, entry.digest.hex()]
                for address, entry in self._entries.items()
            ]
            text = json.dumps(sorted(listed), separators=(",", ":"))
            self._root = hashlib.sha256(text.encode()).hexdigest()
        return self._root

    def root_without(self, address: Address) -> str:
        """Return one digest of the list of all other rows."""
        others = {place: entry for place, entry in self._entries.items() if place != address}
        return AuthenticatedRows(self.table, self._stream_id, others).root

    def addresses(self) -> list[Address]:
        """Return the addresses of all rows, in order."""
        return sorted(self._entries)

    def index_values(self, address: Address) -> tuple[Any, ...]:
        """Return the values of a listed row in the index columns."""
        values: tuple[object, ...] = self._entries[address].index_values
        return values

    def __contains__(self, address: object) -> bool:
        return address in self._entries

    def read(self, connection: Connection, address: Address) -> Any:
        """Return a listed row with its contents.

        Raises:
            StateError: the row is missing, or its contents are not those that are listed.
        """
        table = self.table
        columns = (*table.address, *table.index_columns, *table.contents)
        sql = f"SELECT {', '.join(columns)} {table.place}"
        row = connection.first(sql, **self._values(address))
        if row is None or table.digest_of(row._asdict()) != self._entries[address].digest:
            raise _altered(table)
        return row

    def read_once(self, connection: Connection, address: Address) -> Any:
        """Return a listed row as `read` does, and hold it in memory for the next call."""
        if address not in self._held:
            self._held[address] = self.read(connection, address)
        return self._held[address]

    def read_every(
        self, connection: Connection, addresses: Iterable[Address] | None = None
    ) -> Iterator[Any]:
        """Yield some listed rows with their contents, or all, one at a time in memory."""
        for address in self.addresses() if addresses is None else addresses:
            yield self.read(connection, address)

    def delete(self, connection: Connection, address: Address) -> None:
        """Delete a listed row."""
        connection.execute(f"DELETE {self.table.place}", **self._values(address))
        del self._entries[address]
        self._held.pop(address, None)
        self._root = None

    def insert(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows, each with all columns but those of stream and digest."""
        table = self.table
        written = []
        for row in rows:
            digest = table.digest_of(row)
            address = tuple(row[column] for column in table.address)
            index_values = tuple(row[column] for column in table.index_columns)
            assert address not in self._entries
            self._entries[address] = Entry(index_values, digest)
            written.append({"stream_id": self._stream_id, **row, "digest": digest})
        connection.insert(table.name, *written)
        self._root = None

    def _values(self, address: Address) -> dict[str, object]:
        values = dict(zip(self.table.address, address, strict=True))
        return {"stream": self._stream_id, **values}


def _altered(table: AuthenticatedTable) -> StateError:
    return StateError(
        f"what is kept of {table.contents_in_words} (table {table.name}) is not what was written: "
        "the state was altered; restore it from a copy"
    )


class AuthenticatedContents(NamedTuple):
    """The lists of all rows under the MAC of a stream, and the MAC with which they were read."""

    digests: AuthenticatedRows
    observed: AuthenticatedRows
    sources: AuthenticatedRows
    mac: bytes

    @classmethod
    def empty(cls, stream_id: int, mac: bytes = b"") -> AuthenticatedContents:
        """Return the lists of a new stream."""
        return cls(
            digests=AuthenticatedRows(MARKS, stream_id),
            observed=AuthenticatedRows(OBSERVED, stream_id),
            sources=AuthenticatedRows(SOURCES, stream_id),
            mac=mac,
        )

    @classmethod
    def read_lists(
        cls, connection: Connection, stream_id: int, mac: bytes
    ) -> AuthenticatedContents:
        """List the rows of a stream; the MAC is not checked."""
        return cls(
            digests=AuthenticatedRows.read_list(connection, MARKS, stream_id),
            observed=AuthenticatedRows.read_list(connection, OBSERVED, stream_id),
            sources=AuthenticatedRows.read_list(connection, SOURCES, stream_id),
            mac=mac,
        )

    def copy(self) -> AuthenticatedContents:
        """Return lists that may change while these stay."""
        return AuthenticatedContents(
            digests=self.digests.copy(),
            observed=self.observed.copy(),
            sources=self.sources.copy(),
            mac=self.mac,
        )

    @property
    def tables(self) -> tuple[AuthenticatedRows, AuthenticatedRows, AuthenticatedRows]:
        """The list of each table."""
        return self.digests, self.observed, self.sources

    @property
    def roots(self) -> tuple[str, ...]:
        """One digest of each list."""
        return tuple(rows.root for rows in self.tables)

    def check_every_row(self, connection: Connection) -> None:
        """Read all rows; refuse one that is missing, or has other contents than listed."""
        for rows in self.tables:
            for _ in rows.read_every(connection):
                pass

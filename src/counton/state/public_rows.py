"""The public columns of a stream's row, which every reader of a state sees, with their checksum.

The checksum has no key, so that readers without a key notice damage. Alterations on purpose are
found by the MAC, which needs the key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, TypeVar

from counton.base.errors import StateError
from counton.state.database import reading
from counton.state.sql import Connection

#: Columns that the checksum covers. The writer epoch changes with every opening, and nothing
#: depends on its value.
_COVERED: Final = (
    "name", "terms", "details", "key_fingerprint", "key_salt", "created", "step", "forgotten",
)  # fmt: skip
_PUBLIC_COLUMNS: Final = f"id, {', '.join(_COVERED)}, writer_epoch, checksum"
#: All columns but the checkpoint, which may be large.
OPEN_COLUMNS: Final = f"{_PUBLIC_COLUMNS}, seal, arrived, late"
#: The form of `counton.noise.Key.fingerprint`, which is part of the name of a file.
_FINGERPRINT: Final = re.compile("[0-9a-f]{16}")
#: Largest number of steps of a stream. It leaves room to compute with steps in 64 bits.
_MOST_STEPS: Final = 2**53
#: Public columns: a reader of releases may have no right to see the sums.
PUBLIC: Final = f"SELECT {_PUBLIC_COLUMNS} FROM counton_streams"


class PublicRow(Protocol):
    """The public columns of a stream's row; `counton.state.schema` says what they hold."""

    id: int
    name: str
    terms: str
    details: str
    key_fingerprint: str
    key_salt: str | None
    created: str
    step: int
    forgotten: int
    writer_epoch: int
    checksum: str

    def _asdict(self) -> dict[str, object]: ...


class OpenRow(PublicRow, Protocol):
    """All columns of a stream's row but the checkpoint; the added ones are secret."""

    seal: bytes
    arrived: int
    late: int


class StreamRow(OpenRow, Protocol):
    """All columns of a stream's row."""

    checkpoint: bytes


_Row = TypeVar("_Row", bound=PublicRow)


def checksum_of(row: Mapping[str, object]) -> str:
    """Return the checksum of the public columns of a stream's row, by column."""
    text = json.dumps([row[column] for column in _COVERED])
    return hashlib.sha256(text.encode()).hexdigest()


def check_row(row: _Row) -> _Row:
    """Return a stream's row; refuse it if its public columns are damaged or impossible.

    Readers without a key use the columns before anything else is checked, and whoever alters them
    can compute the checksum.
    """
    if checksum_of(row._asdict()) != row.checksum:
        raise StateError(
            f"the row of stream {row.name!r} in table counton_streams does not fit its checksum: "
            "the state was damaged or altered; restore it from a copy"
        )
    with reading(f"the row of stream {row.name!r} in table counton_streams"):
        _check_values(row)
    return row


def _check_values(row: PublicRow) -> None:
    """Raise an error if a public column of a stream's row holds what counton never writes there.

    Raises:
        ValueError: a value is impossible.
    """
    for noun, stored in (("terms", row.terms), ("public facts", row.details)):
        with reading(f"the {noun} of stream {row.name!r}"):
            values = json.loads(stored)
            if not isinstance(values, dict):
                raise ValueError("they are no JSON object")
            json.dumps(values, ensure_ascii=False).encode()  # refuses half a surrogate pair
    if not _FINGERPRINT.fullmatch(row.key_fingerprint):
        raise ValueError("its key_fingerprint does not have 16 hexadecimal digits")
    for column, number in (("step", row.step), ("forgotten", row.forgotten)):
        if not 0 <= number <= _MOST_STEPS:
            raise ValueError(f"its {column} is {number:,}")


def public_row(connection: Connection, name: str) -> PublicRow | None:
    """Return a stream's row without secret columns; None if there is no such stream."""
    row: PublicRow | None = connection.first(f"{PUBLIC} WHERE name = :name", name=name)
    return None if row is None else check_row(row)


def public_rows(connection: Connection) -> Iterator[PublicRow]:
    """Yield the rows of all streams without secret columns, by name."""
    return map(check_row, connection.rows(f"{PUBLIC} ORDER BY name"))


def write_checksum(connection: Connection, stream_id: int) -> None:
    """Write the checksum of a stream's row anew, after a change of its public columns."""
    row = connection.first(f"{PUBLIC} WHERE id = :stream", stream=stream_id)
    sql = "UPDATE counton_streams SET checksum = :checksum WHERE id = :stream"
    connection.execute(sql, stream=stream_id, checksum=checksum_of(row._asdict()))

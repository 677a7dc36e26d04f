"""The last files that told a stream nothing new, and what a run found in them.

A later run over the same bytes, with the same options and no other writer in between, would find
the same, so it need not read them again. The record is secret: it holds exact numbers. It is kept
in SQLite files alone, in a table that is made when it is first needed; versions that do not know
the table become the stream's writer when they change anything, and then the record no longer
counts. Without a record the rows are read, so nothing is lost with it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

from counton.state.sql import Connection

_TABLE = "counton_last_read"
_MAKE = """CREATE TABLE counton_last_read (
    {of_stream}, epoch BIGINT NOT NULL, found TEXT NOT NULL, seal {bytes} NOT NULL,
    PRIMARY KEY (stream_id)
)"""


def read(
    connection: Connection, stream_id: int, epoch: int, request: str, subkey: bytes
) -> dict[str, Any] | None:
    """Return the facts that the last run found in its files (such as numbers of rows); None unless
    that run had the same files and options as this one, and nobody has written the stream since.

    Args:
        epoch: the number of the stream's last writer.
        request: text that names the digests of this run's files, and its options.
        subkey: key of the record's authentication code, so that nobody without the stream's key can
            forge a record.
    """
    if not (connection.is_sqlite and connection.has(_TABLE)):
        return None
    said = f"SELECT * FROM {_TABLE} WHERE stream_id = :stream AND epoch = :epoch"
    row = connection.first(said, stream=stream_id, epoch=epoch)
    if row is None or not (isinstance(row.found, str) and isinstance(row.seal, bytes)):
        return None  # SQLite keeps values of any type in a damaged row
    if not hmac.compare_digest(row.seal, _seal(subkey, epoch, request, row.found)):
        return None
    found: dict[str, Any] = json.loads(row.found)
    return found


def keep(
    connection: Connection,
    stream_id: int,
    epoch: int,
    request: str,
    subkey: bytes,
    found: Mapping[str, Any],
) -> None:
    """Store the facts that this run found in its files (such as numbers of rows), in place of the
    former record. The arguments are those of `read`; ``found`` has the facts.
    """
    if not connection.is_sqlite:
        return
    if not connection.has(_TABLE):
        connection.script(_MAKE)
    connection.run(f"DELETE FROM {_TABLE} WHERE stream_id = :stream", stream=stream_id)
    text = json.dumps(found, default=int)  # numbers of numpy
    row = {"stream_id": stream_id, "epoch": epoch, "found": text}
    connection.insert(_TABLE, row | {"seal": _seal(subkey, epoch, request, text)})


def _seal(subkey: bytes, epoch: int, request: str, found: str) -> bytes:
    return hmac.digest(subkey, json.dumps([epoch, request, found]).encode(), "sha256")

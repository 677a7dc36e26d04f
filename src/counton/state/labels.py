"""Labels of groups that nobody declared, in the order of their cells: secret, unless shown."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.base.errors import StreamConflict
from counton.state import schema
from counton.state.database import reading

_KIND = "labels"


def read(connection: Connection, stream_id: int) -> tuple[str, ...]:
    """All labels of a stream."""
    table = schema.marks
    query = (
        sa.select(table.c.marks)
        .where(table.c.stream_id == stream_id, table.c.kind == _KIND)
        .order_by(table.c.part)
    )
    with reading("the labels of groups"):
        parts = [json.loads(zlib.decompress(blob)) for blob in connection.scalars(query)]
        return tuple(label for part in parts for label in part)


def write(connection: Connection, stream_id: int, first: int, labels: Sequence[str]) -> None:
    """Add labels, of which the first has the cell ``first``.

    Raises:
        StreamConflict: another process has added some.
    """
    if len(read(connection, stream_id)) != first:
        raise StreamConflict(
            "another process has found groups in this stream meanwhile; nothing was released: run "
            "again"
        )
    if labels:
        blob = zlib.compress(json.dumps(list(labels)).encode())
        row = {"stream_id": stream_id, "kind": _KIND, "period": 0, "part": first, "marks": blob}
        connection.execute(schema.marks.insert(), [row])

"""What a statistic knows exactly, in its state: blocks, of which only changed ones are written.

Letters and edges only grow, so a release writes the last block of them and no more. Secret. A keyed
digest says whether the blocks are those that were written with the key.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.errors import StateError
from counton.noise import Key
from counton.store import schema
from counton.store.database import reading

#: Bytes of a block.
_BLOCK = 2**16
_EXACT, _EVENTS, _DIGEST = "exact", "events", "digest"


class Saved(NamedTuple):
    """What stands in the state beside a statistic's stream.

    Attributes:
        exact: what `Exact.save` gave.
        events: keyed digests of the events of each step, 8 bytes each.
    """

    exact: bytes
    events: bytes

    def write(
        self, connection: Connection, stream_id: int, key: Key, name: str, before: Saved
    ) -> None:
        """Write what has changed since ``before``, which is what stands there."""
        table = schema.marks
        of_stream = table.c.stream_id == stream_id
        for kind, new, old in (
            (_EXACT, self.exact, before.exact),
            (_EVENTS, self.events, before.events),
        ):
            blocks, known = _blocks(new), _blocks(old)
            for part in range(max(len(blocks), len(known))):
                block, was = (of[part] if part < len(of) else None for of in (blocks, known))
                if block == was:
                    continue
                here = (of_stream, table.c.kind == kind, table.c.part == part)
                if was is not None:
                    connection.execute(table.delete().where(*here))
                if block is not None:
                    packed = zlib.compress(block, 1)
                    row = {"stream_id": stream_id, "kind": kind, "period": 0, "part": part}
                    connection.execute(table.insert(), [{**row, "marks": packed}])
        connection.execute(table.delete().where(of_stream, table.c.kind == _DIGEST))
        row = {"stream_id": stream_id, "kind": _DIGEST, "period": 0, "part": 0}
        connection.execute(table.insert(), [{**row, "marks": self._digest(key, name)}])

    def _digest(self, key: Key, name: str) -> bytes:
        inner = hashlib.sha256(len(self.exact).to_bytes(8, "little") + self.exact)
        inner.update(self.events)
        return hmac.digest(key.derive(b"saved statistic", name.encode()), inner.digest(), "sha256")

    @classmethod
    def read(cls, connection: Connection, stream_id: int, key: Key, name: str) -> Saved:
        """What stands in the state.

        Raises:
            StateError: it is not what was written with the key.
        """
        table = schema.marks
        query = (
            sa.select(table.c.kind, table.c.marks)
            .where(table.c.stream_id == stream_id, table.c.period == 0)
            .order_by(table.c.kind, table.c.part)
        )
        parts: dict[str, list[bytes]] = {_EXACT: [], _EVENTS: [], _DIGEST: []}
        with reading(f"what statistic {name!r} knows"):
            for kind, blob in connection.execute(query):
                if kind in parts:
                    parts[kind].append(bytes(blob))
            try:
                found = cls(*(b"".join(map(zlib.decompress, parts[k])) for k in (_EXACT, _EVENTS)))
            except zlib.error as error:
                raise ValueError(str(error)) from error
        if not hmac.compare_digest(b"".join(parts[_DIGEST]), found._digest(key, name)):
            raise StateError(
                f"what statistic {name!r} knows of its events is not what was written with its "
                f"key: the state was altered; restore it from a copy"
            )
        return found


def _blocks(data: bytes) -> list[bytes]:
    return [data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK)]

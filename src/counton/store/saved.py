"""What a statistic knows exactly, in its state: blocks, of which only changed ones are written.

Letters and edges only grow, so a release writes the last block of them and no more. Secret: blocks
are encrypted under the stream's key (AES-256-GCM), since whoever has the state alone could else try
names of users. A keyed digest says whether the blocks are those that were written with the key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import zlib
from typing import NamedTuple

import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy.engine import Connection

from counton.errors import StateError
from counton.noise import Key
from counton.store import schema
from counton.store.database import reading

#: Bytes of a block.
_BLOCK = 2**16
_EXACT, _EVENTS, _DIGEST = "exact", "events", "digest"
#: What an encrypted block begins with; one that an earlier version compressed alone never does.
_ENCRYPTED, _NONCE = b"\x01", 12


class Saved(NamedTuple):
    """What stands in the state beside a statistic's stream.

    Attributes:
        exact: what `Exact.save` gave.
        events: keyed digests of the events of each step, 8 bytes each.
    """

    exact: bytes
    events: bytes

    def __repr__(self) -> str:
        return f"Saved({len(self.exact):,} and {len(self.events):,} bytes)"

    def write(
        self, connection: Connection, stream_id: int, key: Key, name: str, before: Saved
    ) -> None:
        """Write what has changed since ``before``, which is what stands there."""
        table, cipher = schema.marks, _cipher(key, name)
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
                    nonce = secrets.token_bytes(_NONCE)
                    packed = (
                        _ENCRYPTED + nonce + cipher.encrypt(nonce, zlib.compress(block, 1), None)
                    )
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
        cipher = _cipher(key, name)
        parts: dict[str, list[bytes]] = {_EXACT: [], _EVENTS: [], _DIGEST: []}
        with reading(f"what statistic {name!r} knows"):
            for kind, blob in connection.execute(query):
                if kind in parts:
                    parts[kind].append(bytes(blob))
            try:
                found = cls(
                    *(
                        b"".join(_opened(block, cipher) for block in parts[kind])
                        for kind in (_EXACT, _EVENTS)
                    )
                )
            except (zlib.error, InvalidTag) as error:
                raise ValueError(f"a block is damaged {error}".strip()) from error
        if not hmac.compare_digest(b"".join(parts[_DIGEST]), found._digest(key, name)):
            raise StateError(
                f"what statistic {name!r} knows of its events is not what was written with its "
                f"key: the state was altered; restore it from a copy"
            )
        return found


def _cipher(key: Key, name: str) -> AESGCM:
    return AESGCM(key.derive(b"saved blocks", name.encode()))


def _opened(block: bytes, cipher: AESGCM) -> bytes:
    if block.startswith(_ENCRYPTED):
        begin = len(_ENCRYPTED) + _NONCE
        block = cipher.decrypt(block[len(_ENCRYPTED) : begin], block[begin:], None)
    return zlib.decompress(block)


def _blocks(data: bytes) -> list[bytes]:
    return [data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK)]

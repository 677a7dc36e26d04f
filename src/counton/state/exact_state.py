"""Storage of a statistic's exact sums in the database: all sums at one step, then the additions of
each later release.

Each release writes one more part: keyed digests of its new events, and what they add to the sums.
Once these parts are as large as all sums together, all sums are written again. So the average cost
of a step depends on its own events, however large the state is.

Secret: parts are encrypted under the stream's key (AES-256-GCM). Otherwise anyone who holds the
state could test names of users against it. One keyed record holds the step and a digest over all
parts, so that no part can be left out, changed or replaced by an old one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from counton.base.errors import StateError
from counton.noise import Key
from counton.state.database import reading
from counton.state.sql import Connection

_PART, _HEAD = "exact", "digest"
#: Most bytes of the whole in one database row; size below which additions are never merged.
_PIECE, _LITTLE = 2**24, 2**13
#: Parts are merged if they are more than `_MOST`, plus one for each `_EACH` bytes of the whole.
_MOST, _EACH = 512, 2**8
_WHOLE, _ADDED = b"\0", b"\1"
_NONCE = 12
#: Step, number of the first part, number of the next part, and a digest of the parts.
_NUMBERS = struct.Struct("<qqq32s")
_LENGTH = struct.Struct("<q")
_OF_KIND = "FROM counton_marks WHERE stream_id = :stream AND kind = :of_kind"


class Parts(NamedTuple):
    """Sizes and numbers of the database rows (parts) that store a statistic's exact sums.

    The first part, or the first few, hold the *whole*: all sums at one step. Each later part holds
    the additions of one release.

    Attributes:
        first, following: number of the first stored part, and of the part to be written next.
        whole, added: size in bytes of the whole, and of all later parts.
        pieces: number of parts over which the whole is spread.
        digest: digest over all parts, each chained to the one before it.
    """

    first: int = 0
    following: int = 0
    whole: int = 0
    added: int = 0
    pieces: int = 0
    digest: bytes = b""

    @property
    def many(self) -> bool:
        """True if the additions of later releases are so many or so large that all sums should be
        written again as a whole.
        """
        count = self.following - self.first - self.pieces
        return self.added > max(self.whole, _LITTLE) or count > _MOST + self.whole // _EACH


class SavedState(NamedTuple):
    """A statistic's exact sums, as read from the database.

    Attributes:
        parts: numbers and sizes of the stored parts.
        step: step at which the sums were saved.
        events: keyed digests of the events of all steps.
        exact: all sums at the step at which they were last written as a whole, as `Exact.save`
            encoded them.
        news: the additions of each later release, as encoded by `Exact.news`.
    """

    parts: Parts
    step: int
    events: bytes
    exact: bytes
    news: list[bytes]

    def __repr__(self) -> str:
        return f"SavedState({self.parts}, step={self.step})"


class StatisticRecord:
    """The database rows in which a stream stores its statistic's exact sums, encrypted."""

    def __init__(self, stream_id: int, key: Key, name: str) -> None:
        self._stream_id, self._name = stream_id, name
        self._cipher = AESGCM(key.derive(b"saved blocks", name.encode()))
        self._subkey = key.derive(b"saved statistic", name.encode())

    def write(
        self,
        connection: Connection,
        parts: Parts,
        step: int,
        events: Callable[[], bytes],
        exact: Callable[[], bytes],
        added: tuple[bytes, bytes] | None,
    ) -> Parts:
        """Save the exact sums after a release: either its additions as one more part (database
        row), or all sums anew in place of all parts.

        Args:
            parts: the parts that are saved so far.
            step: step of the release.
            events, exact: return the digests of all events, and the encoded sums; called only if
                the whole is saved.
            added: digests and encoded additions of this release alone, for one more part; None
                saves the whole.

        Returns:
            The parts that are saved now.
        """
        if added is None or parts.many or not parts.following:
            connection.run(f"DELETE {_OF_KIND}", stream=self._stream_id, of_kind=_PART)
            known = events()
            said = zlib.compress(_LENGTH.pack(len(known)) + known + exact(), 1)
            number, digest = parts.following, b""
            for start in range(0, len(said), _PIECE):
                piece = _WHOLE + said[start : start + _PIECE]
                digest = self._insert(connection, number, piece, digest)
                number += 1
            pieces = number - parts.following
            after = Parts(parts.following, number, len(said), 0, pieces, digest)
        else:
            new, news = added
            said = _ADDED + zlib.compress(_LENGTH.pack(len(new)) + new + news, 1)
            digest = self._insert(connection, parts.following, said, parts.digest)
            size, number = parts.added + len(said), parts.following + 1
            after = parts._replace(following=number, added=size, digest=digest)
        numbers = _NUMBERS.pack(step, after.first, after.following, after.digest)
        head = numbers + hmac.digest(self._subkey, numbers, "sha256")
        connection.run(f"DELETE {_OF_KIND}", stream=self._stream_id, of_kind=_HEAD)
        row = {"stream_id": self._stream_id, "kind": _HEAD, "period": 0, "part": 0}
        connection.insert("counton_marks", {**row, "marks": head})
        return after

    def _insert(self, connection: Connection, number: int, part: bytes, before: bytes) -> bytes:
        """Encrypt one part of the sums and write it; return the digest over all parts up to it.

        ``before`` is the digest over the earlier parts.
        """
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, part, None)
        row = {"stream_id": self._stream_id, "kind": _PART, "period": 0, "part": number}
        connection.insert("counton_marks", {**row, "marks": sealed})
        return hashlib.sha256(before + sealed).digest()

    def read(self, connection: Connection) -> SavedState:
        """Read the stored sums, and check that no part is missing or altered."""
        said = f"SELECT part, marks {_OF_KIND} AND period = 0 ORDER BY part"
        with reading(f"what statistic {self._name!r} knows"):
            head, found = (
                [(int(number), bytes(blob)) for number, blob in rows]
                for rows in (
                    connection.rows(said, stream=self._stream_id, of_kind=kind)
                    for kind in (_HEAD, _PART)
                )
            )
            heads = b"".join(blob for _, blob in head)
            numbers = heads[: _NUMBERS.size]
            right = numbers + hmac.digest(self._subkey, numbers, "sha256")
            if not hmac.compare_digest(heads, right):
                raise self._alteration()
            step, first, following, digest = _NUMBERS.unpack(numbers)
            reached = b""
            for _, blob in found:
                reached = hashlib.sha256(reached + blob).digest()
            if reached != digest or [number for number, _ in found] != [*range(first, following)]:
                raise self._alteration()
            pieces, later = list[bytes](), list[bytes]()
            for _, blob in found:
                try:
                    part = self._cipher.decrypt(blob[:_NONCE], blob[_NONCE:], None)
                except InvalidTag:
                    raise self._alteration() from None
                (pieces if part[:1] == _WHOLE else later).append(part[1:])
            whole = b"".join(pieces)
            events, exact = _split(whole)
            added = [_split(one) for one in later]
            size = sum(1 + len(one) for one in later)
            return SavedState(
                Parts(first, following, len(whole), size, len(pieces), digest),
                step,
                b"".join([events, *(one for one, _ in added)]),
                exact,
                [news for _, news in added],
            )

    def _alteration(self) -> StateError:
        return StateError(
            f"the saved events of statistic {self._name!r} were not written with its key: the "
            f"state was altered; restore it from a copy"
        )


def _split(packed: bytes) -> tuple[bytes, bytes]:
    """Split stored bytes into the digests of events and what was stored with them: encoded sums, or
    the encoded additions of one release.
    """
    try:
        plain = zlib.decompress(packed)
        (length,) = _LENGTH.unpack_from(plain)
    except (zlib.error, struct.error) as error:
        raise ValueError(str(error)) from error
    begin = _LENGTH.size
    return plain[begin : begin + length], plain[begin + length :]

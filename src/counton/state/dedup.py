"""Keyed digests by which a stream recognises users and events that it has counted.

A digest is the result of a keyed function, 64 bits long. Without the key, nobody learns a name from
a state, or finds names with equal digests. A new name has the digest of a known one with
probability n / 2^64, where n is the number of known names: 5e-12 for 10^8 names.

Each release writes a set of digests for the rows that it counts, in its own transaction. Sets
belong to periods of time, so that old ones can be deleted.
``counton.run.counting.remembered_rows`` says which, and why no bound can be exceeded then.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base import arrays
from counton.base.errors import ConcurrentWriterError, StateError
from counton.base.exact import name_alone
from counton.noise import Key
from counton.state.authenticated_rows import Address, AuthenticatedRows
from counton.state.database import reading
from counton.state.sql import Connection

Digests = NDArray[np.uint64]
#: If a period has more parts than this, they are merged into one.
MOST_PARTS: Final = 8
#: Texts longer than this many bytes get a keyed BLAKE2b digest.
_MOST_BYTES_OF_SHORT_TEXT = 64
_LABELS = "labels"
#: Kind, period and part of the row with the secret.
_SECRET_PLACE = ("secret", 0, 0)
#: Most rows in one part, so that it stays below the longest value of a database (10^9 in SQLite).
_MOST_ROWS_OF_PART = 2**25
#: Masks of the first 0 to 8 bytes of a word.
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(9)], np.uint64)


@name_alone
class DigestSet(NamedTuple):
    """Marks (keyed digests of counted users or row ids) of one period of time.

    Attributes:
        kind: "user" or "id": ``digests`` has keyed digests of counted users or row ids. "refused":
            it has the numbers of the groups of users (buckets) that do not count any more, because
            a user in them was forgotten. "closed": up to ``period`` all digests were forgotten,
            and ``digests`` has no meaning. "past": ``digests`` has the number of rows that are too
            old to count after ``period`` steps, and ``columns`` has the first open period.
        period: number of the period.
        digests: the digests, ascending.
        columns: what is remembered with each digest, such as window and group: arrays as long as
            ``digests``.
    """

    kind: str
    period: int
    digests: Digests
    columns: tuple[NDArray[np.integer], ...] = ()


@name_alone
class DigestChange(NamedTuple):
    """Changes of a stream's keyed digests (of counted users and row ids), made in the
    transaction of one release.

    Attributes:
        secret: the secret key with which the digests are made.
        added: new sets of digests.
        replaced: kinds and periods of which all former sets are deleted, because ``added`` holds
            those of their digests that stay.
        forgotten: for each kind, the first period whose digests are kept; digests of earlier
            periods are deleted.
        forgets: whether the change carries out a request to forget people; the rollback guard (a
            record outside the state) counts such requests.
    """

    secret: Secret
    added: Sequence[DigestSet]
    replaced: Sequence[tuple[str, int]] = ()
    forgotten: Sequence[tuple[str, int]] = ()
    forgets: bool = False


class Secret:
    """The secret key of a stream's digests: 32 random bytes, stored in the state, encrypted with
    the stream's key.

    The state alone, or a copy of it, does not reveal whose digests it holds. Digests stay valid
    when the stream gets another key: then the secret is encrypted with the new key.

    >>> secret, subkey = Secret(bytes(range(32))), b"a subkey of 32 bytes, as derived"
    >>> Secret.unwrap(secret.wrap(subkey), subkey).pair_digests([1, 1], [2, 3]).size
    2
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher = Cipher(algorithms.AES(secret), modes.ECB())

    @classmethod
    def fresh(cls) -> Secret:
        """Draw a new secret key from the operating system's random generator."""
        return cls(secrets.token_bytes(32))

    def wrap(self, subkey: bytes) -> bytes:
        """Encrypt the secret with a key of 32 bytes, and add a tag that shows right decryption."""
        return _xor(self._secret, subkey) + self._tag

    @classmethod
    def unwrap(cls, wrapped: bytes, subkey: bytes) -> Secret:
        """Decrypt the secret from the bytes that `wrap` returned; refuse a wrong key."""
        secret = cls(_xor(wrapped[:32], subkey))
        if not hmac.compare_digest(secret._tag, wrapped[32:]):
            raise StateError(
                "the key cannot decrypt the secret by which the stream recognises users and ids: "
                "give the key of the stream, or restore both from a copy"
            )
        return secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._tag, other._tag)

    def __hash__(self) -> int:
        return hash(self._tag)

    @property
    def _tag(self) -> bytes:
        return hmac.digest(self._secret, b"counton/marks", "sha256")[:16]

    def pair_digests(self, low: ArrayLike, high: ArrayLike) -> Digests:
        """Return a keyed 64-bit digest (truncated AES-256) of each pair of 64-bit words."""
        blocks = np.stack([np.asarray(low).astype("<u8"), np.asarray(high).astype("<u8")], axis=-1)
        return self._encrypt(blocks)[:, 0].astype(np.uint64)

    def digests(self, text: bytes, lengths: NDArray[np.int64], purpose: int) -> Digests:
        """Return a 64-bit digest of each of several texts, which stand one after the other in
        ``text``; ``lengths`` has their lengths in bytes.

        A digest is the CBC-MAC (AES-256) of the text's length, the purpose, and the text. Long
        texts, which are few, get a keyed BLAKE2b digest.

        Args:
            purpose: number of the use; digests for different numbers are independent.
        """
        # No text is a prefix of another in this encoding, because the length comes first.
        begins = np.cumsum(lengths) - lengths
        padded = np.frombuffer(text + bytes(_MOST_BYTES_OF_SHORT_TEXT + 16), np.uint8)
        words = np.ndarray(len(padded) - 7, "<u8", padded, 0, (1,))  # eight bytes from each offset
        short = np.minimum(lengths, _MOST_BYTES_OF_SHORT_TEXT)
        heads = np.full((_MOST_BYTES_OF_SHORT_TEXT + 1, 2), purpose, "<u8")
        heads[:, 0] = np.arange(_MOST_BYTES_OF_SHORT_TEXT + 1)
        state = self._encrypt(heads).take(short, axis=0)  # encrypts every possible head once
        for offset in range(0, max(16, int(short.max(initial=0))), 16):
            longer = np.flatnonzero(short > offset) if offset else slice(None)
            block = state[longer]
            _add_text(block, words, begins[longer] + offset, short[longer] - offset)
            state[longer] = self._encrypt(block)
        digests = state[:, 0].astype(np.uint64)
        for row in np.flatnonzero(lengths > _MOST_BYTES_OF_SHORT_TEXT).tolist():
            name = text[begins[row] : begins[row] + lengths[row]]
            key = hmac.digest(self._secret, bytes([purpose]), "sha256")
            hashed = hashlib.blake2b(name, digest_size=8, key=key).digest()
            digests[row] = int.from_bytes(hashed, "little")
        return digests

    def _encrypt(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if not len(blocks):
            return blocks
        encrypted = self._cipher.encryptor().update(blocks.data.cast("B"))
        return np.frombuffer(encrypted, "<u8").reshape(-1, 2)


def _add_text(
    blocks: NDArray[np.uint64],
    words: NDArray[np.uint64],
    places: NDArray[np.int64],
    rest: NDArray[np.int64],
) -> None:
    """Add 16 bytes of a text, modulo 2, to each block; zeros follow the end of a text.

    Args:
        blocks: the blocks, two words each; changed in place.
        words: eight bytes from each place of all texts.
        places: places from which bytes are taken.
        rest: numbers of bytes from there to the end of each text.
    """
    # A method of an array is faster here than an index, which also checks the type of each place.
    blocks[:, 0] ^= words.take(places) & _MASKS.take(np.minimum(rest, 8))
    if rest.max(initial=0) > 8:
        second_rest = np.minimum(np.maximum(rest - 8, 0), 8)
        blocks[:, 1] ^= words.take(places + 8) & _MASKS.take(second_rest)


def _xor(first: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, other, strict=True))


def merge(parts: Sequence[DigestSet]) -> DigestSet:
    """Merge sets of digests of one kind and period into one set."""
    digests = np.concatenate([part.digests for part in parts])
    columns = [
        np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)
    ]
    if (digests[1:] < digests[:-1]).any():  # portions of ascending keys follow each other
        order = np.argsort(digests, kind="stable")
        digests = digests[order]
        columns = [column[order] for column in columns]
    return DigestSet(parts[0].kind, parts[0].period, digests, tuple(columns))


def pack(digests: Digests, columns: Sequence[NDArray[np.integer]] = ()) -> bytes:
    """Pack ascending digests (of users or row ids) and the columns remembered with them (such as
    window and group) into bytes; `unpack` is the inverse.

    Measured sizes: 7.9 bytes per digest for 300,000 users, each with a window and a group; 5.3
    bytes per digest for 10 million digests without columns. See `counton.base.arrays.pack`.

    >>> digests, (steps,) = unpack(pack(np.array([5, 7, 2**63], np.uint64), [np.array([-3, 9, 9])]))
    >>> digests.tolist(), steps.tolist()
    ([5, 7, 9223372036854775808], [-3, 9, 9])
    """
    parts = [len(digests).to_bytes(8, "little"), bytes([len(columns)])]
    for part in map(arrays.pack, (digests, *columns)):
        parts += [len(part).to_bytes(8, "little"), part]
    return b"".join(parts)


def unpack(blob: bytes) -> tuple[Digests, tuple[NDArray[np.int64], ...]]:
    """Return the digests that `pack` encoded, and the columns beside them."""
    with reading("what is known of counted rows"):
        view = memoryview(blob)
        size = int.from_bytes(blob[:8], "little")
        end = 9
        parts = []
        for _ in range(1 + blob[8]):
            begin = end + 8
            end = begin + int.from_bytes(view[end:begin], "little")
            parts.append(arrays.unpack(view[begin:end], (size,)))
        if end != len(blob):
            raise ValueError(f"the stored digests take {len(blob)} bytes instead of {end}")
        digests, *columns = parts
        return digests.view(np.uint64), tuple(columns)


def subkey(key: Key, name: str) -> bytes:
    """Derive from a stream's key the key that encrypts the secret of its digests in the state."""
    return key.derive(b"marks", name.encode())


def read_secret(connection: Connection, rows: AuthenticatedRows, subkey: bytes) -> Secret | None:
    """Return the secret key of a stream's digests; None without digests."""
    if _SECRET_PLACE not in rows:
        return None
    return Secret.unwrap(bytes(rows.read(connection, _SECRET_PLACE).marks), subkey)


def write(
    connection: Connection, rows: AuthenticatedRows, change: DigestChange, subkey: bytes
) -> None:
    """Write new sets of digests, and delete replaced and forgotten ones.

    Args:
        subkey: the key that encrypts the secret of the digests.

    Raises:
        ConcurrentWriterError: the new digests were made with another secret key than the stream's.
    """
    secret = read_secret(connection, rows, subkey)
    if secret is None:
        kind, period, part = _SECRET_PLACE
        rows.insert(connection, [_row(kind, period, part, change.secret.wrap(subkey))])
    elif secret != change.secret:
        raise ConcurrentWriterError(
            "another process has begun to count this stream's users in the meantime, so nothing "
            "was released here: run the same command again"
        )
    replaced = {*change.replaced}
    for kind, period, part in rows.addresses():
        is_forgotten = any(
            kind == forgotten_kind and period < first for forgotten_kind, first in change.forgotten
        )
        if is_forgotten or (kind, period) in replaced:
            rows.delete(connection, (kind, period, part))
    last: dict[tuple[str, int], int] = {}
    for kind, period, part in rows.addresses():
        last[kind, period] = part
    for digest_set in change.added:
        for begin in range(0, len(digest_set.digests), _MOST_ROWS_OF_PART):
            span = slice(begin, begin + _MOST_ROWS_OF_PART)
            packed = pack(digest_set.digests[span], [column[span] for column in digest_set.columns])
            number = last.get((digest_set.kind, digest_set.period), 0) + 1
            last[digest_set.kind, digest_set.period] = number
            rows.insert(connection, [_row(digest_set.kind, digest_set.period, number, packed)])


def _row(kind: str, period: int, part: int, digests: bytes) -> dict[str, object]:
    return {"kind": kind, "period": period, "part": part, "marks": digests}


def read(connection: Connection, rows: AuthenticatedRows, kind: str) -> Iterator[DigestSet]:
    """Yield a stream's sets of digests by period, one at a time in memory.

    Args:
        connection: an open transaction.
        rows: the authenticated rows of the stream's sets.
        kind: "user", "id", "refused", "closed" or "past", as in `DigestSet`.
    """
    for row in rows.read_every(connection, _of_kind(rows, kind)):
        yield DigestSet(kind, row.period, *unpack(bytes(row.marks)))


def _of_kind(rows: AuthenticatedRows, kind: str) -> list[Address]:
    """Return the addresses of all rows of a kind, by period and part."""
    return [address for address in rows.addresses() if address[0] == kind]


def read_labels(connection: Connection, rows: AuthenticatedRows) -> tuple[str, ...]:
    """Return the labels of found groups by cell. Secret until a group is shown."""
    labels: list[str] = []
    with reading("the labels of groups"):
        for row in rows.read_every(connection, _of_kind(rows, _LABELS)):
            labels += json.loads(zlib.decompress(row.marks))
    return tuple(labels)


def write_labels(
    connection: Connection, rows: AuthenticatedRows, first: int, labels: Sequence[str]
) -> None:
    """Store the labels of newly found groups, whose cells are numbered from ``first`` on.

    Raises:
        ConcurrentWriterError: another process has written labels meanwhile.
    """
    if len(read_labels(connection, rows)) != first:
        raise ConcurrentWriterError(
            "another process has found groups in this stream in the meantime, so nothing was "
            "released here: run the same command again"
        )
    if labels:
        blob = zlib.compress(json.dumps(list(labels)).encode())
        rows.insert(connection, [_row(_LABELS, 0, first, blob)])

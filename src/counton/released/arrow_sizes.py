"""How large an Arrow table says it is, before anything of it is decoded.

A reader takes the memory for a part before it reads it, and ends the process if there is none. The
parts of Arrow's format are flatbuffers: tables of fields at places that a message says itself.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: Kinds of messages in Arrow's format.
_DICTIONARY, _RECORDS = 2, 3
#: With what a file begins and ends.
_MAGIC = b"ARROW1"
#: A place of a batch in a file: where it begins, and the lengths of its message and its body.
_BLOCK = struct.Struct("<qi4xq")


class ArrowSize(NamedTuple):
    """The size that an Arrow table states.

    Attributes:
        rows: of all batches.
        size: bytes of all batches, after decompression.
    """

    rows: int
    size: int


def size_of_stream(body: bytes) -> ArrowSize:
    """That of a stream whose buffers are not compressed, so that its bytes bound its size.

    Raises:
        ValueError: it is none, says that it is larger than it is, or is compressed.
    """
    at, rows = 0, 0
    try:
        while at + 4 <= len(body):
            (size,) = struct.unpack_from("<i", body, at)
            at += 4
            if size == -1:  # continuation
                (size,) = struct.unpack_from("<i", body, at)
                at += 4
            if size == 0:
                break
            message = _part(body, at, size)
            at += size
            _, _, length = _message(message)
            rows += _batch(message, _part(body, at, length), compressed=False).rows
            at += length
    except (struct.error, IndexError) as error:
        raise ValueError("it is no stream of Arrow record batches") from error
    return ArrowSize(rows, len(body))


def size_of_file(body: bytes) -> ArrowSize:
    """That of a file, whose buffers may be compressed.

    Raises:
        ValueError: it is none, or says that it is larger than it is.
    """
    if len(body) < 20 or body[:6] != _MAGIC or body[-6:] != _MAGIC:
        raise ValueError("it is no Arrow file, or ends early")
    rows = size = 0
    try:
        (length,) = struct.unpack_from("<i", body, len(body) - 10)
        footer = _part(body, len(body) - 10 - length, length)
        (root,) = struct.unpack_from("<I", footer, 0)
        for field in (2, 3):  # dictionaries, batches
            begin, many = _vector(footer, root, field, _BLOCK.size)
            for number in range(many):
                at, head, length = _BLOCK.unpack_from(footer, begin + number * _BLOCK.size)
                framed = _part(body, at, head)
                begins = 8 if bytes(framed[:4]) == b"\xff" * 4 else 4
                found = _batch(framed[begins:], _part(body, at + head, length), compressed=True)
                rows, size = rows + found.rows, size + found.size
    except (struct.error, IndexError) as error:
        raise ValueError("it is no Arrow file, or was changed") from error
    return ArrowSize(rows, size)


def _part(body: bytes | memoryview, at: int, size: int) -> memoryview:
    if at < 0 or size < 0 or at + size > len(body):
        raise struct.error
    return memoryview(body)[at : at + size]


def _batch(message: memoryview, body: memoryview, *, compressed: bool) -> ArrowSize:
    """How large a batch is; no part of it may say that it is larger than the bytes of it."""
    kind, header, _ = _message(message)
    if kind not in (_DICTIONARY, _RECORDS):
        return ArrowSize(0, 0)
    batch = header if kind == _RECORDS else _table(message, header, 1)
    if batch is None:
        raise struct.error
    packed = bool(_slot(message, batch, 3))
    if packed and not compressed:
        raise ValueError("its buffers are compressed")
    place = _slot(message, batch, 0)
    rows = struct.unpack_from("<q", message, batch + place)[0] if place else 0
    buffers = _pairs(message, batch, 2)
    if rows < 0 or not all(at >= 0 and 0 <= n <= len(body) - at for at, n in buffers):
        raise ValueError("it says that it is larger than it is")
    sizes = [n for _, n in buffers]
    if packed:  # each begins with its size, or -1 where it is as it is
        said = [(n, struct.unpack_from("<q", body, at)[0]) for at, n in buffers if n]
        sizes = [n if size == -1 else size for n, size in said]
    size = sum(sizes)
    most = max(rows, 8 * size)  # of lists, in bits: more items than rows
    nodes = _pairs(message, batch, 1)
    at, many = _vector(message, batch, 4, 8)  # how many buffers texts have
    counts = struct.unpack_from(f"<{many}q", message, at)
    if not (
        all(one >= 0 for one in sizes)
        and all(0 <= many <= most and 0 <= none <= many for many, none in nodes)
        and all(0 <= count <= len(buffers) for count in counts)
    ):
        raise ValueError("it says that it is larger than it is")
    return ArrowSize(rows if kind == _RECORDS else 0, size)


def _pairs(message: memoryview, table: int, field: int) -> list[tuple[int, int]]:
    at, many = _vector(message, table, field, 16)
    found = struct.unpack_from(f"<{2 * many}q", message, at)
    return list(zip(found[::2], found[1::2], strict=True))


def _vector(message: memoryview, table: int, field: int, size: int) -> tuple[int, int]:
    """Where the items of a vector of a table begin, and how many there are."""
    place = _slot(message, table, field)
    if not place:
        return 0, 0
    (forward,) = struct.unpack_from("<I", message, table + place)
    begin = table + place + forward
    (many,) = struct.unpack_from("<I", message, begin)
    if begin + 4 + many * size > len(message):
        raise struct.error
    return begin + 4, many


def _message(message: memoryview) -> tuple[int, int, int]:
    """Kind, place of the header, and length of the body of a message (a flatbuffer)."""
    (root,) = struct.unpack_from("<I", message, 0)
    place = _slot(message, root, 1)
    kind = message[root + place] if place else 0
    place = _slot(message, root, 3)
    length = struct.unpack_from("<q", message, root + place)[0] if place else 0
    header = _table(message, root, 2)
    if header is None:
        raise struct.error
    return kind, header, length


def _slot(message: memoryview, table: int, field: int) -> int:
    """Where a field lies in a table, from its beginning; 0: it is not there."""
    (back,) = struct.unpack_from("<i", message, table)
    places = table - back
    if places < 0:
        raise struct.error
    (size,) = struct.unpack_from("<H", message, places)
    entry = 4 + 2 * field
    if entry + 2 > size:
        return 0
    found: int = struct.unpack_from("<H", message, places + entry)[0]
    return found


def _table(message: memoryview, table: int, field: int) -> int | None:
    """Where a table lies that is a field of another."""
    place = _slot(message, table, field)
    if not place:
        return None
    (forward,) = struct.unpack_from("<I", message, table + place)
    found: int = table + place + forward
    if found + 4 > len(message):
        raise struct.error
    return found

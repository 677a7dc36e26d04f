"""Number of rows in a stream of Arrow record batches, found before anything is decoded.

This is checked because a request's body may claim to be larger than it is. The parts of Arrow's
format are flatbuffers: tables of fields at positions that the message itself states.
"""

from __future__ import annotations

import struct

#: Kinds of messages in Arrow's format.
_DICTIONARY, _RECORDS = 2, 3


def rows_of_stream(body: bytes) -> int:
    """Return the number of rows in an Arrow stream.

    Compressed buffers are refused, so the number of bytes bounds the size in memory.

    Raises:
        ValueError: the bytes are no Arrow stream, state a larger size than they have, or are
            compressed.
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
            rows += _rows_of_batch(message, _part(body, at, length))
            at += length
    except (struct.error, IndexError) as error:
        raise ValueError("the body is no stream of Arrow record batches") from error
    return rows


def _part(body: bytes | memoryview, at: int, size: int) -> memoryview:
    if at < 0 or size < 0 or at + size > len(body):
        raise struct.error
    return memoryview(body)[at : at + size]


def _rows_of_batch(message: memoryview, body: memoryview) -> int:
    """Return the number of rows of a record batch; refuse a message that states longer parts than
    its body has.
    """
    kind, header, _ = _message(message)
    if kind not in (_DICTIONARY, _RECORDS):
        return 0
    batch = header if kind == _RECORDS else _table(message, header, 1)
    if batch is None:
        raise struct.error
    if _slot(message, batch, 3):
        raise ValueError("its buffers are compressed")
    place = _slot(message, batch, 0)
    rows: int = struct.unpack_from("<q", message, batch + place)[0] if place else 0
    buffers = _pairs(message, batch, 2)
    most = max(rows, 8 * sum(size for _, size in buffers))  # items of lists: a bit each, at least
    at, many = _vector(message, batch, 4, 8)  # number of buffers of texts
    counts = struct.unpack_from(f"<{many}q", message, at)
    if not (
        rows >= 0
        and all(at >= 0 and 0 <= size <= len(body) - at for at, size in buffers)
        and all(0 <= many <= most and 0 <= none <= many for many, none in _pairs(message, batch, 1))
        and all(0 <= count <= len(buffers) for count in counts)
    ):
        raise ValueError("the Arrow stream states a larger size than it has")
    return rows if kind == _RECORDS else 0


def _pairs(message: memoryview, table: int, field: int) -> list[tuple[int, int]]:
    at, many = _vector(message, table, field, 16)
    found = struct.unpack_from(f"<{2 * many}q", message, at)
    return list(zip(found[::2], found[1::2], strict=True))


def _vector(message: memoryview, table: int, field: int, size: int) -> tuple[int, int]:
    """Return the position of the first item of a vector (an array field of a flatbuffer table), and
    the number of items.

    Args:
        table: position of the flatbuffer table that contains the field.
        field: number of the field.
        size: number of bytes of one item.
    """
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
    """Return the kind of an Arrow message, the position of its header, and the length of its
    body.
    """
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
    """Return the offset of a field from the beginning of its flatbuffer table; 0 if it is
    missing.
    """
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
    """Return the position of the flatbuffer table that a field of another table refers to.

    None if the field is missing.
    """
    place = _slot(message, table, field)
    if not place:
        return None
    (forward,) = struct.unpack_from("<I", message, table + place)
    found: int = table + place + forward
    if found + 4 > len(message):
        raise struct.error
    return found

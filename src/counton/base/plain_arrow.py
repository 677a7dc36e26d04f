"""Texts of a small Arrow file, read without a library.

A run that has nothing new to release only wants the names of its groups, and importing polars would
cost a third of it. What is read here is the format "IPC File" of Apache Arrow, whose tables are
those of FlatBuffers, as far as one uncompressed column of texts needs it.
"""

from __future__ import annotations

import struct
from itertools import pairwise

_MAGIC = b"ARROW1"
#: The type of texts with offsets of 64 bits (``LargeUtf8``) in Arrow's list of types.
_LARGE_TEXTS = 20
#: The first element of a list, on the way to a place.
_FIRST = -1


def texts_in(file: bytes) -> tuple[str, ...] | None:
    """Return the texts of an Arrow file that holds one uncompressed column of texts.

    None for every other file, a damaged one included: polars reads it, or says why not.
    """
    end = len(file) - len(_MAGIC) - 4  # where the length of the footer stands
    try:
        footer = end - struct.unpack_from("<i", file, end)[0]
        column, part = _place(file, footer, 1, 1, _FIRST), _place(file, footer, 3, _FIRST)
        counts = struct.unpack_from("<I", file, column - 4) + struct.unpack_from(
            "<I", file, part - 4
        )
        # Where the part's message begins, and the size of its head: the body follows.
        start, head = struct.unpack_from("<qi", file, part)
        count, missing = struct.unpack_from("<qq", file, _place(file, start + 8, 2, 1, _FIRST))
        buffers = _place(file, start + 8, 2, 2, _FIRST)  # each a place in the body and a length
        of_buffers, _, _, offsets, _, letters = struct.unpack_from("<Iqqqqq", file, buffers - 4)
        (kind,) = struct.unpack_from("<B", file, _place(file, column, 2))
        is_compressed = _place(file, start + 8, 2, 3) > 0
        found = file[-len(_MAGIC) :], counts, kind, missing, of_buffers, is_compressed
        if found != (_MAGIC, (1, 1), _LARGE_TEXTS, 0, 3, False):
            return None
        ends = struct.unpack_from(f"<{count + 1}q", file, start + head + offsets)
        held = file[start + head + letters :]
        return tuple(held[first:last].decode() for first, last in pairwise(ends))
    except (struct.error, ValueError):  # a place outside the file; a text that is not UTF-8
        return None


def _place(file: bytes, at: int, *way: int) -> int:
    """Find a field of a file by following offsets through nested FlatBuffers tables, and return its
    position in bytes.

    Args:
        file: the bytes of the file.
        at: position of the offset that leads to the first table.
        way: for each table in turn the number of the field to follow. If a field leads to a list,
            ``_FIRST`` follows its first element.

    Returns:
        The position of the last field or element; 0 if a table lacks a field.
    """
    for number in way:
        table = at + int(struct.unpack_from("<I", file, at)[0])
        if number == _FIRST:
            at = table + 4
            continue
        layout, slot = table - int(struct.unpack_from("<i", file, table)[0]), 4 + 2 * number
        known = slot < struct.unpack_from("<H", file, layout)[0]
        inside = int(struct.unpack_from("<H", file, layout + slot)[0]) if known else 0
        if not inside:
            return 0
        at = table + inside
    return at

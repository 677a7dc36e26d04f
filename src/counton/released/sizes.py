"""How large a file of released numbers is, before anything of it is decoded.

Small files can say that they are large: one row of step 10^9, a page of gigabytes that takes a few
kilobytes, a row of ten thousand names before a million rows of none. Whatever is larger than the
bounds here is refused before memory is taken for it. The parts of Arrow's format are flatbuffers:
tables of fields at places that a message says itself.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import InvalidInput
from counton.base.outside_input import structure_of
from counton.base.parquet_footer import ROW_GROUPS, Compact, footer_of, rows_in

#: Bytes of a table, also without its compression.
MOST_BYTES = 2**30
#: Bytes of a description, or of what a service answers.
MOST_TEXT = 2**28
MOST_ROWS = 2**24
MOST_COLUMNS = 1024
#: Steps times groups that a release has in memory, whatever rows a file has of them.
MOST_NUMBERS = 2**24
#: Cells of rows that a table of a few bytes may have, most of them empty.
_FEW = 2**20
#: Bytes that a table may take without its compression, however few it has.
_FEW_BYTES = 2**27
#: Texts of JSON; those before a colon are names.
_NAME = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*:)?', re.DOTALL)
_BLOCK = 2**20


def check_bytes(path: Path, most: int = MOST_BYTES) -> None:
    """Refuse a file of more bytes.

    Raises:
        InvalidInput: naming both numbers.
        OSError: it cannot be read.
    """
    if (size := path.stat().st_size) > most:
        raise too_large(f"{size:,} bytes", f"{most:,}")


def too_large(what: str, most: str) -> InvalidInput:
    """The error for a file beyond a bound."""
    return InvalidInput(
        f"it has {what}, and at most {most} are read: give parts of it, by groups or steps "
        f"(counton export)"
    )


def check_shape(rows: int, columns: int, size: int | None = None) -> None:
    """Refuse a table that is too large in memory.

    Args:
        rows, columns: of the table.
        size: bytes of them as text, at least one for each value; None: that says
            nothing of how many they are.

    Raises:
        InvalidInput: naming the bound.
    """
    if rows > MOST_ROWS:
        raise too_large(f"{rows:,} rows", f"{MOST_ROWS:,}")
    if columns > MOST_COLUMNS:
        raise too_large(f"{columns:,} columns", f"{MOST_COLUMNS:,}")
    if size is not None and rows * columns > max(size, _FEW):
        raise InvalidInput(
            f"it has {rows:,} rows of {columns:,} columns in {size:,} bytes, so that most of them "
            f"are empty: give it as it was written"
        )


def _check_unpacked(size: int, packed: int) -> None:
    most = min(MOST_BYTES, max(_FEW_BYTES, 64 * packed))
    if size > most:
        raise too_large(f"{packed:,} bytes, {size:,} without compression", f"{most:,}")


def check_csv(path: Path) -> None:
    """Refuse a table of text that is too large.

    Raises:
        InvalidInput: naming the bound.
        OSError: it cannot be read.
    """
    check_bytes(path)
    rows, size = 0, path.stat().st_size
    with path.open("rb") as file:
        columns = file.readline(_BLOCK).count(b",") + 1
        while block := file.read(_BLOCK):
            rows += block.count(b"\n")
    check_shape(rows, columns, size)


def check_json_table(data: bytes) -> None:
    """Refuse rows as JSON objects that are too many, too wide, or too deep.

    Raises:
        InvalidInput: naming the bound.
    """
    rows = structure_of(data).count(b"{")
    names: set[bytes] = set()
    for found in _NAME.finditer(data):
        if found[2]:
            names.add(found[1])
        if len(names) > MOST_COLUMNS:
            break
    check_shape(rows, len(names), len(data))


def check_arrow(data: bytes) -> None:
    """Refuse an Arrow file that is too large without its compression.

    Raises:
        InvalidInput: naming the bound.
        ValueError: it is none.
    """
    rows, size = size_of_file(data)
    check_shape(rows, 1)
    _check_unpacked(size, len(data))


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file that is too large without its compression.

    Its footer says where the pages of each column lie, and each page, how large it is.

    Raises:
        InvalidInput: naming the bound.
        ValueError: it is none.
        OSError: it cannot be read.
    """
    check_bytes(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_pages(data)


def _check_pages(data: mmap.mmap) -> None:
    try:
        said = footer_of(data)
        groups = said.get(ROW_GROUPS, [])
        check_shape(rows_in(said), len(said[2]))
        size = 0
        for page in (
            page for group in groups for column in group[1] for page in _pages(data, column[3])
        ):
            size += page[_PAGE_SIZE]
            for kind in (_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2):
                values = page.get(kind, {}).get(1, 0)
                if not 0 <= values <= MOST_ROWS:
                    raise too_large(f"a page of {values:,} values", f"{MOST_ROWS:,}")
            if page.get(_DATA_PAGE, {}).get(2) == 7 or page.get(_DATA_PAGE_2, {}).get(4) == 7:
                raise InvalidInput(
                    "it has texts that are written by what differs from the one before "
                    "(DELTA_BYTE_ARRAY), which can be of any length: write it with another encoding"
                )
            if page[_PAGE_SIZE] < 0:
                raise ValueError("a page of it has no size")
            _check_unpacked(size, len(data))
    except (struct.error, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no Parquet file, or was changed: {error!r}") from error


#: Fields of the parts of a Parquet file, by their numbers in its definition.
_PAGE_SIZE, _PACKED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 2, 3, 5, 7, 8
_LARGEST_HEADER = 2**16
_CHUNK_SIZE, _FIRST_DATA, _FIRST_DICTIONARY = 7, 9, 11


def _pages(data: mmap.mmap, column: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """Headers of the pages of a column of a group of rows."""
    at = column[_FIRST_DATA]
    at = min(at, column.get(_FIRST_DICTIONARY) or at)
    end = at + column[_CHUNK_SIZE]
    if not 0 <= at <= end <= len(data):
        raise ValueError("a column of it lies elsewhere")
    while at < end:
        reader = Compact(data[at : min(end, at + _LARGEST_HEADER)])
        page = reader.struct()
        if page[_PACKED_SIZE] < 0:
            raise ValueError("a page of it has no size")
        yield page
        at += reader.at + page[_PACKED_SIZE]


#: Kinds of messages in Arrow's format.
_DICTIONARY, _RECORDS = 2, 3
#: With what a file begins and ends.
_MAGIC = b"ARROW1"
#: A place of a batch in a file: where it begins, and the lengths of its message and its body.
_PLACE = struct.Struct("<qi4xq")


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
            begin, many = _vector(footer, root, field, _PLACE.size)
            for number in range(many):
                at, head, length = _PLACE.unpack_from(footer, begin + number * _PLACE.size)
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

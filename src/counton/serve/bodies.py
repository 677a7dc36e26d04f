"""Untrusted bodies of requests: decompressed within a bound, then read as rows."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
import zstandard

from counton.base.errors import InvalidInput
from counton.rows.sources import unreadable_errors
from counton.serve.arrow_streams import rows_of_stream
from counton.serve.served_jobs import InboxRows

JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
ARROW = "application/vnd.apache.arrow.stream"
ENCODINGS = ("identity", "gzip", "zstd")
#: Most bytes of memory for the window of a zstd stream.
_WINDOW = 2**23
#: Number of bytes of a body that are decompressed at once.
_STEP = 2**14
#: Number of gzip members that are always allowed, and bytes of the bound for each further member.
_MEMBERS, _MEMBER = 1000, 2**14


#: Most characters that are kept of a line that is no row.
_SHOWN = 1000


#: Decoder of rows that reads numbers as texts.
_AS_TEXTS = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class TooLarge(Exception):
    """The error that a request's body exceeds a bound."""


class NoRow(NamedTuple):
    """A line of a request's body that cannot be read as a row.

    Attributes:
        number: number of the line among the rows, from 1.
        text: beginning of the line.
        problem: problem of the line, in words.
    """

    number: int
    text: str
    problem: str


class Body(NamedTuple):
    """Rows read from the body of a request.

    Attributes:
        rows: readable rows.
        numbers: position of each readable row in the batch, from 1.
        no_rows: lines that cannot be read as rows.
        missing: columns that every row lacks.
    """

    rows: InboxRows
    numbers: Sequence[int]
    no_rows: Sequence[NoRow] = ()
    missing: Sequence[str] = ()


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Decompress the body of a request to at most ``most`` bytes.

    Raises:
        TooLarge: the decompressed body would have more than ``most`` bytes.
        InvalidInput: the body is not of this encoding, ends early, or consists of too many gzip
            members.

    >>> decompress(zlib.compress(b"rows", wbits=31), "gzip", 100)
    b'rows'
    """
    if encoding == "identity":
        if len(body) > most:
            raise TooLarge
        return body
    broken = InvalidInput(f"the body is not valid {encoding}, or ends early; send it whole")
    try:
        if encoding == "gzip":
            return _gunzip(body, most)
        found = bytearray()
        reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
            body, read_across_frames=True
        )
        while part := reader.read(min(2**20, most + 1 - len(found))):
            found += part
            if len(found) > most:
                raise TooLarge
    except (zlib.error, zstandard.ZstdError) as error:
        raise broken from error
    if body and not found:
        raise broken
    return bytes(found)


def _gunzip(body: bytes, most: int) -> bytes:
    """Decompress gzip, which may consist of several members, some bytes at a time.

    To decompress a whole member at once would copy the rest of the body for each member.
    """
    found, place, members = bytearray(), 0, 0
    inflate = None
    while place < len(body):
        if inflate is None:
            members += 1
            if members > _MEMBERS + most // _MEMBER:
                raise InvalidInput(
                    f"the body consists of more than {_MEMBERS + most // _MEMBER:,} gzip members; "
                    "compress it as a single one"
                )
            inflate = zlib.decompressobj(wbits=31)
        step = body[place : place + _STEP]
        found += inflate.decompress(step, most + 1 - len(found))
        if len(found) > most:
            raise TooLarge
        place += len(step) - len(inflate.unused_data)
        if inflate.eof:
            inflate = None
    if inflate is not None:
        raise zlib.error("the gzip data end before their last member is complete")
    return bytes(found)


def read_rows(
    body: bytes, media: str, columns: Sequence[str], most: int, name: str, *, aside: bool = False
) -> Body:
    """Read the named columns of the rows in a request's body, as `counton.rows.files` reads them
    from a file.

    Args:
        most: largest number of rows.
        name: name of the body in messages.
        aside: return the lines that cannot be read beside the readable rows; False refuses them.

    Raises:
        TooLarge: there are more than ``most`` rows.
        InvalidInput: the body is not of this media type, has no rows, or has lines that are no
            rows; or the schema of an Arrow stream lacks a column.
    """
    if media == ARROW:
        rows = _arrow(body, columns, most, name)
        return Body(rows, range(1, rows.frame().select(pl.len()).collect().item() + 1))
    if body.count(b"\n") > most:
        raise TooLarge
    wanted: dict[str, list[str | None]] = {column: [] for column in columns}
    there: set[str] = set()
    numbers, no_rows, row = list[int](), list[NoRow](), 0
    for line in body.split(b"\n"):
        if not line.strip():
            continue
        row += 1
        found = _row_of(line, columns)
        if isinstance(found, tuple):
            problem, says = found
            shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
            if not aside:
                raise InvalidInput(f"row {row:,} of {name} {says}")
            no_rows.append(NoRow(row, shown, problem))
            continue
        numbers.append(row)
        there |= found.keys()
        for column, values in wanted.items():
            values.append(found.get(column))
    if not row:
        raise InvalidInput(f"{name} has no rows; send at least one")
    frame = pl.DataFrame(wanted, schema=dict.fromkeys(columns, pl.String))
    lacking = [column for column in columns if column not in there] if numbers else []
    return Body(InboxRows(frame, name), numbers, no_rows, lacking)


def no_column(name: str, column: str) -> InvalidInput:
    """Build the error for a column that every row lacks."""
    return InvalidInput(f"{name} has no column {column!r}; send it in each row")


def _row_of(line: bytes, columns: Sequence[str]) -> dict[str, str | None] | tuple[str, str]:
    """Parse a JSON line to its values by column, as texts. If the line is no row, return two texts
    instead: the problem in a few words, and a predicate for a message about the line.
    """
    try:
        row = _AS_TEXTS.decode(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "no UTF-8", "is not UTF-8; send text in UTF-8"
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return (
            "no JSON object",
            'is not a JSON object; send one object a line, as in {"time": "2026-03-01T09:00:00Z"}',
        )
    found: dict[str, str | None] = {}
    for column in columns:
        if column not in row:
            continue
        value: Any = row[column]
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None and not isinstance(value, str):
            return (
                "a list or an object",
                f"has a list or an object in column {column!r}; send a text, a number, true or "
                f"false",
            )
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                return "no Unicode", "has a text that is not valid Unicode; write it in UTF-8"
        found[column] = value
    return found


def _arrow(body: bytes, columns: Sequence[str], most: int, name: str) -> InboxRows:
    try:
        if rows_of_stream(body) > most:
            raise TooLarge
        frame = pl.read_ipc_stream(io.BytesIO(body))
    except unreadable_errors(ValueError) as error:
        raise _no_arrow(name) from error
    if frame.height > most:
        raise TooLarge
    if not frame.height:
        raise InvalidInput(f"{name} has no rows; send at least one")
    whole = InboxRows(frame, name)
    try:
        return InboxRows(whole.scan(columns, ()).collect(), name)
    except unreadable_errors() as error:
        raise _no_arrow(name) from error


def _no_arrow(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is not a stream of Arrow record batches, ends early, or has a type that cannot be "
        "read; send texts, numbers, times, true or false in Arrow's IPC stream format, without "
        "compression inside (use Content-Encoding instead)"
    )

"""Untrusted bodies of requests: decompressed within a bound, then read as rows."""

from __future__ import annotations

import io
import json
import zlib
from collections import Counter
from collections.abc import Sequence

import polars as pl

from counton.base.errors import InvalidInputError
from counton.io.json_lines import number_text
from counton.io.sources import EventFrame, no_column
from counton.io.text_lines import blocks

JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
ENCODINGS = ("identity", "gzip")


class _JsonObject(dict[str, object]):
    """A JSON object that knows which of its keys are written twice."""

    repeated: frozenset[str] = frozenset()


def _object_of(pairs: list[tuple[str, object]]) -> _JsonObject:
    json_object = _JsonObject(pairs)
    if len(json_object) < len(pairs):
        times = Counter(key for key, _ in pairs)
        json_object.repeated = frozenset(key for key, number in times.items() if number > 1)
    return json_object


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


#: Decoder of rows that reads numbers as texts, as `counton.io.json_lines` does.
_AS_TEXTS = json.JSONDecoder(
    object_pairs_hook=_object_of,
    parse_float=number_text,
    parse_int=number_text,
    parse_constant=_refuse_constant,
)


class TooLargeError(Exception):
    """A request's body exceeds a bound."""


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Decompress the body of a request to at most ``most`` bytes.

    Raises:
        TooLargeError: it would have more.
        InvalidInputError: the body is not gzip, ends early, or has more than one gzip member.

    >>> decompress(zlib.compress(b"rows", wbits=31), "gzip", 100)
    b'rows'
    """
    content = body
    if encoding == "gzip":
        inflate = zlib.decompressobj(wbits=31)
        broken = InvalidInputError(
            "the body is not valid gzip, ends early, or has several members; send it whole, "
            "compressed as a single member"
        )
        try:
            content = inflate.decompress(body, most + 1)
        except zlib.error as error:
            raise broken from error
        if len(content) <= most and (not inflate.eof or inflate.unused_data):
            raise broken
    if len(content) > most:
        raise TooLargeError
    return content


def read_rows(
    body: bytes, columns: Sequence[str], most: int, name: str, *, skips: bool = False
) -> EventFrame:
    """Read columns of JSON lines, as `counton.io.files` does.

    A mark of byte order at the beginning and blank lines at the end are left out.

    Raises:
        TooLargeError: there are more than ``most`` rows.
        InvalidInputError: the body has no rows, or has lines that are no rows; or no row has one of
            the columns, unless the job ``skips`` such rows.
    """
    if body.count(b"\n") > most:
        raise TooLargeError
    values_by_column: dict[str, list[str | None]] = {column: [] for column in columns}
    present = set[str]()
    row = 0
    lines = [line for block in blocks(io.BytesIO(body)) for line in block[:-1].split(b"\n")]
    if len(lines) > most:
        raise TooLargeError
    for row, line in enumerate(lines, 1):
        cells = _row_of(line, columns)
        if isinstance(cells, str):
            raise InvalidInputError(f"row {row:,} of {name} {cells}")
        present |= cells.keys()
        for column, values in values_by_column.items():
            values.append(cells.get(column))
    if not row:
        raise InvalidInputError(f"{name} has no rows; send at least one")
    if not skips and (lacking := [column for column in columns if column not in present]):
        raise no_column(name, lacking[0], [*_AS_TEXTS.decode(lines[0].decode())])
    return EventFrame(
        pl.DataFrame(values_by_column, schema=dict.fromkeys(columns, pl.String)), name
    )


def _row_of(line: bytes, columns: Sequence[str]) -> dict[str, str | None] | str:
    """Return a line's values by column, or the predicate of a message."""
    if not line.strip():
        return "is blank; send one JSON object a line"
    try:
        row, end = _AS_TEXTS.raw_decode(text := line.decode().strip(" \t\r"))
    except UnicodeDecodeError:
        return "is not UTF-8; send text in UTF-8"
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, _JsonObject) or end < len(text):
        return (
            'is not a JSON object; send one object a line, as in {"time": "2026-03-01T09:00:00Z"}'
        )
    cells: dict[str, str | None] = {}
    for column in columns:
        if column not in row:
            continue
        if column in row.repeated:
            return f"has the key {column!r} twice; send each key once"
        value: object = row[column]
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None and not isinstance(value, str):
            return (
                f"has a list or an object in column {column!r}; send a text, a number, true or "
                f"false"
            )
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                return "has a text that is not valid Unicode; write it in UTF-8"
        cells[column] = value
    return cells

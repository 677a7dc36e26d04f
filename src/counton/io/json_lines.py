"""Rows of JSON lines: a line is an object, and its keys become columns of texts.

A block of lines in which each line has each key once is parsed at once by polars. In any other
block, lines that readers understand differently are refused, and the rest is parsed: at once if
all of it can be read, else line by line.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import IO, Final

import numpy as np

from counton.io.text_lines import BYTE_ORDER_MARK, NO_UTF8, Fault, Piece, blocks
from counton.windowing.lazy_polars import polars as pl

_LINE_FEED: Final = ord("\n")


def json_pieces(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Piece]:
    """Yield some columns of JSON lines as texts, some lines at a time."""
    number = 1
    escapes = _escapes_of(columns)
    keys = [_as_key(name) for name in columns]
    for block in blocks(stream):
        whole_frame = _parse_json_block(block, columns, keys, escapes)
        if whole_frame is not None:
            number += whole_frame.height
            yield Piece(whole_frame, {})
            continue
        lines = block[:-1].split(b"\n")
        first = number
        number += len(lines)
        ambiguous = _ambiguous_lines(lines, columns, escapes, first)
        plain = lines
        if ambiguous:
            plain = [_NO_KEYS if row in ambiguous else line for row, line in enumerate(lines)]
        frame = _parse_json_lines(plain, columns)
        if frame is None:
            yield from _json_piecewise(lines, plain, columns, ambiguous, first)
        else:
            yield Piece(frame, ambiguous)


def _json_piecewise(
    lines: Sequence[bytes],
    plain: Sequence[bytes],
    columns: Sequence[str],
    ambiguous: Mapping[int, Fault],
    first: int,
) -> Iterator[Piece]:
    """Yield the rows of lines of which some cannot be read.

    Args:
        lines: the lines of the file.
        plain: the same lines, where ambiguous ones have no values.
        columns: the columns to read.
        ambiguous: what is wrong with ambiguous lines, by row.
        first: number of the first line.
    """
    read_lines = []
    for line in plain:
        text = select_keys(line.decode("utf-8", "surrogateescape"), columns) or ""
        read_lines.append(text.encode("utf-8", "surrogateescape"))
    row = 0
    for part in _readable_parts(read_lines, columns):
        if part is None:
            empty = pl.DataFrame({name: [None] for name in columns}, schema=_texts(columns))
            number = first + row
            yield Piece(empty, {0: Fault(number, lines[row], _fault_of_json(lines[row], number))})
            row += 1
            continue
        rows = range(row, row + part.height)
        yield Piece(part, {place - row: ambiguous[place] for place in rows if place in ambiguous})
        row += part.height


def _texts(columns: Sequence[str]) -> dict[str, type[pl.String]]:
    """Return the types of columns that are all texts."""
    return dict.fromkeys(columns, pl.String)


def _parse_json(text: bytes, n_lines: int, columns: Sequence[str]) -> pl.DataFrame | None:
    """Return the rows of a text of JSON lines; None if a line is no row."""
    try:
        frame = pl.scan_ndjson(io.BytesIO(text), schema=_texts(columns)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return frame if frame.height == n_lines else None


def _parse_json_lines(lines: Sequence[bytes], columns: Sequence[str]) -> pl.DataFrame | None:
    """Return the rows of JSON lines; None if a line is no row."""
    # No line is the first, of which polars would leave a mark of byte order out.
    return _parse_json(b"\n".join([b"", *lines]), len(lines), columns)


def _parse_json_block(
    block: bytes, columns: Sequence[str], keys: Sequence[bytes], escapes: re.Pattern[bytes]
) -> pl.DataFrame | None:
    """Return the rows of a block in which each line has each key once; else None.

    Args:
        block: whole lines.
        columns: the columns to read.
        keys: their keys, from `_as_key`.
        escapes: the pattern from `_escapes_of`.
    """
    if b"\\" in block and (escapes.search(block) or _SURROGATE.search(block)):
        return None
    n_lines = int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_FEED))
    # Rows with values in all columns have each key at least once.
    if any(block.count(key) != n_lines for key in keys):
        return None
    text = b"\n" + block if block.startswith(BYTE_ORDER_MARK) else block
    frame = _parse_json(text, n_lines, columns)
    if frame is None or any(column.null_count() for column in frame):
        return None
    return frame


def _readable_parts(
    lines: Sequence[bytes], columns: Sequence[str]
) -> Iterator[pl.DataFrame | None]:
    """Yield the rows of readable lines, and None for each other line."""
    frame = _parse_json_lines(lines, columns)
    if frame is not None or len(lines) == 1:
        yield frame
        return
    middle = len(lines) // 2
    yield from _readable_parts(lines[:middle], columns)
    yield from _readable_parts(lines[middle:], columns)


#: A row without values, in place of a line that is refused.
_NO_KEYS: Final = b"{}"
#: Matches an escape that may be half of a surrogate pair; and one whose other half is missing.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF: Final = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


def _escapes_of(columns: Sequence[str]) -> re.Pattern[bytes]:
    """Return a pattern of the escapes by which a key may be written in another way."""
    units = {
        unit
        for name in columns
        for unit in memoryview(name.encode("utf-16-le", "surrogatepass")).cast("H")
    }
    short = "".join(re.escape(sign) for sign in '"\\/' if any(sign in name for name in columns))
    long = "|".join(f"{unit:04x}" for unit in sorted(units)) or "(?!)"
    return re.compile((f"\\\\(?i:u(?:{long}))" + (f"|\\\\[{short}]" if short else "")).encode())


def _as_key(name: str) -> bytes:
    """Return a column's name as a key without needless escapes."""
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _ambiguous_lines(
    lines: Sequence[bytes], columns: Sequence[str], escapes: re.Pattern[bytes], first: int
) -> dict[int, Fault]:
    """Return faults of JSON objects that readers understand differently, by their place.

    Args:
        lines: the lines.
        columns: the keys that are read; other keys may repeat.
        escapes: the pattern from `_escapes_of`.
        first: the number of the first line.
    """
    suspicious = set[int]()
    block = b"\n".join(lines)
    for name in columns:
        key = _as_key(name)
        suspicious.update(row for row, line in enumerate(lines) if line.count(key) > 1)
    if b"\\" in block:
        halves = _SURROGATE.search(block) and _HALF.search(block)
        for pattern in (escapes if escapes.search(block) else None, _HALF if halves else None):
            if pattern is not None:
                suspicious.update(row for row, line in enumerate(lines) if pattern.search(line))
    faults = dict[int, Fault]()
    for row in sorted(suspicious):
        line = lines[row]
        fault = _ambiguity(line.decode("utf-8", "surrogateescape"), columns)
        if fault is not None:
            faults[row] = Fault(first + row, line, fault)
    return faults


def _ambiguity(line: str, columns: Sequence[str]) -> str | None:
    """Return what readers of a JSON object would understand differently, or None."""
    seen = set[str]()
    for key, value in _values(line) or ():
        if key not in columns:
            continue
        if key in seen:
            return f"has the key {key!r} twice"
        seen.add(key)
        if value.startswith('"') and _has_half_character(value):
            return f"has half a character (a lone surrogate) in {key!r}"
    return None


def _has_half_character(value: str) -> bool:
    try:
        json.loads(value).encode()
    except ValueError:  # also of UTF-8 that is invalid; then the line is refused for that
        return _SURROGATE.search(value.encode("utf-8", "surrogateescape")) is not None
    return False


def _fault_of_json(line: bytes, number: int) -> str:
    """Return what is wrong with a line that is no readable JSON object."""
    if not line.strip():
        return "is blank"
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        return NO_UTF8
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        early = isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip())
        if early and number == 1 and line.lstrip()[:1] in (b"[", b"{"):
            return _SEVERAL_LINES
        return "is no JSON object"
    if number == 1 and isinstance(value, list):
        return _ONE_ARRAY
    return "is no JSON object"


_SEVERAL_LINES = (
    "is the beginning of JSON over several lines, and JSON lines have an object on each line; "
    "write them so, as by jq -c 'if type == \"array\" then .[] else . end'"
)
_ONE_ARRAY = (
    "is a JSON array, and JSON lines have an object on each line; write them so, as by jq -c '.[]'"
)


#: Matches a token of a line of JSON: a text, a sign, or anything else.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


def select_keys(line: str, keys: Sequence[str]) -> str | None:
    """Return a JSON object with only some of its keys, unparsed others; None for another line.

    >>> select_keys('{"at": "9:00", "n": 1e999, "deep": [[{"at": 2}]]}', ["at", "paid"])
    '{"at":"9:00"}'
    >>> select_keys('{"n": 1e999}', ["n"])
    '{"n":"1e999"}'
    """
    pairs = _values(line)
    if pairs is None:
        return None
    # polars cannot read a number too large for a float or an integer; it becomes a text.
    shortened = [(key, json.dumps(value) if _is_large(value) else value) for key, value in pairs]
    return (
        "{"
        + ",".join(f"{json.dumps(key)}:{value}" for key, value in shortened if key in keys)
        + "}"
    )


#: Matches a number that may be too large for a float.
_JSON_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE]\+?\d+)?")
#: Number of digits that an integer of 128 bits always holds.
_INTEGER_DIGITS: Final = 38


def is_beyond_floats(number: str) -> bool:
    """Return True for a JSON number that is too large for a float."""
    return _JSON_NUMBER.fullmatch(number) is not None and math.isinf(float(number))


def _is_large(value: str) -> bool:
    """Return True for a JSON number that polars does not read."""
    digits = value.removeprefix("-")
    return (digits.isdecimal() and len(digits) > _INTEGER_DIGITS) or is_beyond_floats(value)


def number_text(number: str) -> str:
    """Return the text of a JSON number, as columns of JSON lines hold it.

    Args:
        number: the number as it is written.

    Returns:
        An integer as it is written, and another number without exponent and trailing zeros.

    >>> number_text("7.0"), number_text("1e3"), number_text("2.50"), number_text("1e-7")
    ('7', '1000', '2.5', '0.0000001')
    """
    if number.removeprefix("-").isdecimal():
        return "0" if number == "-0" else number
    if is_beyond_floats(number):
        return number
    text = format(Decimal(repr(float(number))), "f")
    return text.removesuffix(".0")


def keys_of(line: str) -> list[str]:
    """Return the keys of a JSON object; none for another line."""
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return [key for key, _ in _values(line) or ()]
    return list(value) if isinstance(value, dict) else []


def _values(line: str) -> list[tuple[str, str]] | None:
    """Return the keys of a JSON object with unparsed values; None for another line."""
    pairs = list[tuple[str, str]]()
    key = ""
    depth = 0
    done = False
    before = ""
    end = 0
    begin = 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if done or line[end : match.start()].strip():
            return None
        if depth == 0:
            if token != "{":
                return None
            depth = 1
            before = "{"
        elif depth == 1 and token in (",", "}"):
            if before not in ("value", "{") or (before == "{" and token == ","):
                return None
            if before == "value":
                pairs.append((key, line[begin:end]))
            before = ","
            done = token == "}"
        elif depth == 1 and before in ("{", ","):
            try:
                key = json.loads(token)
                before = "key"
            except ValueError:
                return None
            if not isinstance(key, str):
                return None
        elif depth == 1 and before == "key":
            if token != ":":
                return None
            before = ":"
        elif depth == 1 and (before == "value" or token in ("]", ":")):
            return None
        else:
            if depth == 1:
                begin = match.start()
            depth += (token in ("{", "[")) - (token in ("}", "]"))
            before = "value"
        end = match.end()
    return pairs if done and not line[end:].strip() else None

"""Reading of a text file in spite of unreadable lines, which are listed.

Polars reads a whole file or refuses it, so one line would decide about all rows. Here unreadable
lines are found by reading smaller and smaller parts. All other lines are read as if the file had no
unreadable ones. From JSON lines only the wanted keys are read.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, Any, Final, NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from counton.base.exact import name_alone
from counton.base.lazy_polars import polars as pl

#: Largest number of lines of a cell in quotation marks.
_MOST_LINES: Final = 1000
_REPLACED: Final = "\ufffd"
#: Matches a token of a line of JSON: a text, a sign, or anything else.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
#: Rows of readable lines; or None and the bytes of one unreadable record.
Piece: TypeAlias = "tuple[pl.DataFrame | None, bytes]"

#: Number of bytes that are read at a time.
BLOCK = 2**20


def select_keys(line: str, keys: Sequence[str]) -> str | None:
    """Return the text of a JSON object with only some of its keys; None if the line is no object.

    Values of other keys are not parsed.

    >>> select_keys('{"at": "9:00", "n": 1e999, "deep": [[{"at": 2}]]}', ["at", "paid"])
    '{"at":"9:00"}'
    >>> select_keys('{"n": 1e999}', ["n"])
    '{"n":"1e999"}'
    """
    found = _values(line)
    if found is None:
        return None
    # polars cannot read a number too large for a float; it becomes a text.
    kept = [(key, json.dumps(value) if is_beyond_floats(value) else value) for key, value in found]
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in kept if key in keys) + "}"


#: Matches a number that may be too large for a float.
_LARGE = re.compile(r"-?\d+(?:\.\d+)?(?:[eE]\+?\d+)?")


def is_beyond_floats(number: str) -> bool:
    """Return True if a text is a JSON number that is too large for a float.

    >>> is_beyond_floats("1e400"), is_beyond_floats("1e300"), is_beyond_floats("NaN")
    (True, False, False)
    """
    return _LARGE.fullmatch(number) is not None and math.isinf(float(number))


def keys_of(line: str) -> list[str]:
    """Return the keys of a JSON object; empty for a line that is no object.

    >>> keys_of('{"at": 1e999, "n": {"deep": 2}}'), keys_of("[1]")
    (['at', 'n'], [])
    """
    try:
        found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return [key for key, _ in _values(line) or ()]
    return list(found) if isinstance(found, dict) else []


def _values(line: str) -> list[tuple[str, str]] | None:
    """Return the keys of a JSON object, each with its unparsed value; None if the line is no
    object.
    """
    found, key, depth, done = list[tuple[str, str]](), "", 0, False
    before, at, begin = "", 0, 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if done or line[at : match.start()].strip():
            return None
        if depth == 0:
            if token != "{":
                return None
            depth, before = 1, "{"
        elif depth == 1 and token in (",", "}"):
            if before not in ("value", "{") or (before == "{" and token == ","):
                return None
            if before == "value":
                found.append((key, line[begin:at]))
            before, done = ",", token == "}"
        elif depth == 1 and before in ("{", ","):
            try:
                key, before = json.loads(token), "key"
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
        at = match.end()
    return found if done and not line[at:].strip() else None


def json_rows(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of a file of JSON lines, with these columns as texts, some rows at a time.

    A line that is no JSON object is yielded by itself, as None and its bytes.
    """
    schema = dict.fromkeys(columns, pl.String)

    def parse(records: list[bytes]) -> pl.DataFrame:
        frame = pl.scan_ndjson(io.BytesIO(b"".join(records)), schema=schema).collect()
        return _of_height(frame, len(records))

    for lines in _blocks(stream):
        given = [line for line in lines if line.strip()]
        records = []
        for line in given:
            kept = select_keys(line.decode("utf-8", "surrogateescape"), columns)
            records.append((kept or "").encode("utf-8", "surrogateescape") + b"\n")
        while given:
            frame, read = _prefix(records, parse)
            yield frame, b""
            if read < len(given):
                yield None, given[read]
            given, records = given[read + 1 :], records[read + 1 :]


def csv_rows(stream: IO[bytes], columns: Sequence[str], separator: str = ",") -> Iterator[Piece]:
    """Yield the rows of a CSV file, with these columns as texts, some rows at a time.

    An unreadable record is yielded by itself, as None and its bytes.
    """
    header, width = b"", 0

    def parse(records: list[bytes]) -> pl.DataFrame:
        rows = io.BytesIO(header + b"".join(records))
        frame = pl.scan_csv(rows, infer_schema=False, separator=separator).collect()
        return _of_height(frame.select(columns), len(records))

    def fields_of(record: bytes) -> int:
        if b'"' not in record:
            return record.count(separator.encode()) + 1 if record.rstrip(b"\r\n") else 0
        try:
            return len(
                next(csv.reader([record.decode("utf-8", "replace")], delimiter=separator), ())
            )
        except csv.Error:
            return 0

    lines: list[bytes] = []
    for more in _blocks(stream):
        lines += more
        if not header:
            size = _records(lines)[0][0]
            header, lines = b"".join(lines[:size]), lines[size:]
            width = fields_of(header)
        lines = yield from _read_csv(lines, parse, fields_of, width, whole=False)
    yield from _read_csv(lines, parse, fields_of, width, whole=True)


def _read_csv(
    lines: list[bytes],
    parsed: Callable[[list[bytes]], pl.DataFrame],
    fields_of: Callable[[bytes], int],
    width: int,
    *,
    whole: bool,
) -> Generator[Piece, None, list[bytes]]:
    """Yield the rows of a block of CSV lines; return the lines of an incomplete record at its end.

    A record with fewer fields than ``width`` is unreadable; an empty line is not.

    Args:
        lines: lines of the block, with their line ends.
        parsed: function that parses records, or raises an error.
        fields_of: function that returns the number of fields of a record; 0 for an empty line.
        width: number of fields of the header.
        whole: True if no lines follow the block, so that its last record is complete.
    """
    while lines:
        sizes, goes_on = _records(lines)
        records, at = list[bytes](), 0
        for size in sizes[:-1] if goes_on and not whole else sizes:
            records.append(b"".join(lines[at : at + size]))
            at += size
        frame, read = _prefix(records, parsed)
        begin = 0
        for place, record in enumerate(records[:read]):
            if 0 < fields_of(record) < width:
                yield frame[begin:place], b""
                yield None, record
                begin = place + 1
        yield frame[begin:], b""
        if read == len(records):
            return lines[at:]
        begin = sum(sizes[:read])
        lossy = _without_bytes(records[read], parsed)
        yield (None, lines[begin]) if lossy is None else (lossy, b"")
        # If a quotation mark was open, the lines after it may be rows.
        lines = lines[begin + (1 if lossy is None else sizes[read]) :]
    return []


def has_short_line(stream: IO[bytes], width: int, separator: str = ",") -> bool:
    """Return True if a CSV record has fewer fields than the header. Empty lines are ignored.

    A reader that fills missing fields with nothing cannot tell a short record from one whose last
    fields are empty.

    Args:
        stream: the whole file, without a line that has more fields than the header.

    >>> has_short_line(io.BytesIO(b'a,b\\n"1,\\n2",\\n\\n3,4\\n'), 2)
    False
    >>> has_short_line(io.BytesIO(b'a,b\\n"1,\\n2"\\n\\n3,4\\n'), 2)
    True
    """
    rest, more, between = b"", True, separator.encode()
    while more:
        block = stream.read(BLOCK)
        more = bool(block)
        rest += block if more else b"\n"
        end = rest.rfind(b"\n") + 1
        # No line has more fields than the header: that is refused elsewhere.
        if b'"' not in rest and rest.count(between, 0, end) == rest.count(b"\n") * (width - 1):
            rest = rest[end:]
            continue
        bytes_ = np.frombuffer(rest, np.uint8)
        outside = np.cumsum(bytes_ == _QUOTE, dtype=np.uint8) & 1 == 0
        ends = np.flatnonzero((bytes_ == _NEWLINE) & outside)
        if not len(ends):
            continue
        between_fields = np.flatnonzero((bytes_ == between[0]) & outside)
        fields = np.diff(np.searchsorted(between_fields, ends), prepend=0) + 1
        # The length of an empty line, with and without a return.
        long = np.diff(ends, prepend=-1) - (bytes_[ends - 1] == _RETURN)
        if ((fields < width) & (long > 1)).any():
            return True
        rest = rest[ends[-1] + 1 :]
    return False


class LinesOfRows(io.RawIOBase):
    """A stream of the lines of a CSV file without its comments.

    A line within quotation marks is part of a field, and no comment.

    >>> LinesOfRows(io.BytesIO(b'# made\\na,b\\n"x\\n# y",1\\n#z\\n'), b"#").read()
    b'a,b\\n"x\\n# y",1\\n'
    """

    def __init__(self, lines: IO[bytes], sign: bytes) -> None:
        self._lines, self._sign = lines, sign
        self._kept, self._rest = self._keep(), b""

    def _keep(self) -> Iterator[bytes]:
        inside = False
        for line in self._lines:
            if not inside and line.startswith(self._sign):
                continue
            inside ^= line.count(b'"') % 2 == 1
            yield line

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._kept, b"")
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    @override
    def close(self) -> None:
        self._lines.close()
        super().close()


def _records(lines: Sequence[bytes]) -> tuple[list[int], bool]:
    """Divide CSV lines into records: return the number of lines of each record, and whether the
    last record may continue after these lines.

    A record continues on the next line while a quotation mark is open, up to `_MOST_LINES` lines.
    """
    sizes, at, goes_on = list[int](), 0, False
    marks = [line.count(b'"') % 2 for line in lines]
    while at < len(lines):
        size = 1
        if marks[at]:
            try:
                size = marks.index(1, at + 1, at + _MOST_LINES) + 1 - at
            except ValueError:
                goes_on = at + _MOST_LINES > len(lines)
                size = len(lines) - at if goes_on else 1
        sizes.append(size)
        at += size
    return sizes, goes_on


def _of_height(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    if frame.height != rows:
        raise pl.exceptions.ComputeError("it has records that are not rows")
    return frame


def _without_bytes(
    record: bytes, parsed: Callable[[list[bytes]], pl.DataFrame]
) -> pl.DataFrame | None:
    """Parse a CSV record that is not valid UTF-8; return its row, or None if a wanted column has
    the invalid bytes.

    None also if the record is valid UTF-8, or cannot be parsed. ``parsed`` parses records, and
    returns the wanted columns.
    """
    text = record.decode("utf-8", "replace").encode()
    if text == record:
        return None
    frame, read = _prefix([text], parsed)
    shown = frame.select(pl.any_horizontal(pl.all().str.contains(_REPLACED, literal=True)))
    return frame if read and not any(shown.to_series().fill_null(False)) else None


def _prefix(
    records: list[bytes], parsed: Callable[[list[bytes]], pl.DataFrame]
) -> tuple[pl.DataFrame, int]:
    """Parse the CSV records before the first unreadable one; return their rows and their number.
    ``parsed`` parses records, or raises an error if one is unreadable.
    """
    try:
        return parsed(records), len(records)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        good, bad, frame = 0, len(records), parsed([])
    while bad - good > 1:
        # Unreadable records often follow each other, so the first tries are short.
        middle = min(2 * good + 1, (good + bad) // 2)
        try:
            frame, good = parsed(records[:middle]), middle
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            bad = middle
    return frame, good


def _blocks(stream: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of a stream, with their line ends, in lists."""
    rest, first = b"", True
    while block := stream.read(BLOCK):
        if first:
            block, first = block.removeprefix(b"\xef\xbb\xbf"), False
        whole, newline, rest_of = (rest + block).rpartition(b"\n")
        rest = rest_of
        if newline:
            yield [line + b"\n" for line in whole.split(b"\n")]
    if rest:
        yield [rest]


@name_alone
class FileRows(NamedTuple):
    """Rows of a file. The values of unreadable rows are null.

    Attributes:
        rows: the rows, with some columns as texts.
        unread: the lines of unreadable rows, by the row's number from 0.
    """

    rows: pl.DataFrame
    unread: dict[int, str]


def sift(
    pieces: Iterator[Piece], columns: Sequence[str], most: int
) -> FileRows | tuple[int, bytes]:
    """Join the pieces of a file's rows (`json_rows`, `csv_rows`) into one table, unless more than
    ``most`` rows are unreadable.

    Returns:
        The rows; or the number (from 0) and the line of the first unreadable row, if there are too
        many.
    """
    schema = dict.fromkeys(columns, pl.String)
    frames, unread, row = [pl.DataFrame(schema=schema)], dict[int, str](), 0
    empty = pl.DataFrame({name: [None] for name in columns}, schema=schema)
    first: tuple[int, bytes] | None = None
    for frame, line in pieces:
        if frame is None:
            first = first or (row, line)
            unread[row] = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
            if len(unread) > most:
                return first
        frames.append(empty if frame is None else frame)
        row += frames[-1].height
    return FileRows(pl.concat(frames), unread)

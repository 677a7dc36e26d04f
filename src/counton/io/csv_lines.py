"""Rows of CSV files: a line becomes a row of texts, or a fault of its own.

A block of whole lines is checked at once: between quotation marks stand only fields, and each line
has as many fields as the header. Polars parses it. In any other block each line is looked at by
itself, so a faulty line takes no other with it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Final, cast

import numpy as np
import numpy.typing as npt

from counton.base.wording import counted
from counton.io.input_paths import SEPARATORS, CsvForm
from counton.io.text_lines import (
    BYTE_ORDER_MARK,
    NO_UTF8,
    BrokenFileError,
    Fault,
    Piece,
    blocks,
)
from counton.windowing.lazy_polars import polars as pl

#: Number of bytes that are checked at a time, few enough for a processor's cache.
_BYTES_PER_CHECK: Final = 2**18
#: Number of bytes that are read at a time to find the header.
_HEADER_BYTES: Final = 2**14
_REPLACEMENT_CHARACTER: Final = "\ufffd"
_QUOTE, _LF = b'"\n'
#: A field in quotation marks.
_QUOTED_FIELD = re.compile(rb'"[^"\n]*+(?:""[^"\n]*+)*+"')


class _BadLineError(Exception):
    """What is wrong with a line, in words that follow "it"."""


def fields_of(line: bytes, form: CsvForm) -> list[bytes]:
    """Return a line's fields, with their quotation marks.

    >>> fields_of(b'a,"b, c"', CsvForm())
    [b'a', b'"b, c"']
    """
    fields = list[bytes]()
    separator = form.separator.encode()
    begin = 0
    while True:
        if line.startswith(b'"', begin):
            match = _QUOTED_FIELD.match(line, begin)
            if match is None:
                raise _BadLineError(_OPEN_QUOTE_FAULT)
            end = match.end()
            if end < len(line) and not line.startswith(separator, end):
                raise _BadLineError(_INNER_QUOTE_FAULT)
        else:
            end = line.find(separator, begin)
            end = len(line) if end < 0 else end
            if b'"' in line[begin:end]:
                raise _BadLineError(_LATE_QUOTE_FAULT)
        fields.append(line[begin:end])
        if end == len(line):
            return fields
        begin = end + 1


_OPEN_QUOTE_FAULT = "opens a quotation mark that is not closed on this line"
_INNER_QUOTE_FAULT = "has a quotation mark inside a quoted field; double it"
_LATE_QUOTE_FAULT = (
    "has a quotation mark in a field that does not begin with one; put the field in quotation "
    "marks, and double those inside it"
)


def _fault_of_line(line: bytes, width: int, form: CsvForm) -> str | None:
    """Return what is wrong with a line of CSV, or None."""
    if not line:
        return "is blank"
    try:
        fields = len(fields_of(line, form))
    except _BadLineError as error:
        return str(error)
    if fields == width:
        return None
    difference = f"{fields - width} more" if fields > width else f"{width - fields} fewer"
    return f"has {counted(fields, 'field')}, {difference} than the header"


def _count_records_if_regular(block: bytes, width: int, form: CsvForm) -> int | None:
    """Return the number of records in a block; None if one may break the rules."""
    begin = 0
    records = 0
    while begin < len(block):
        end = (
            block.rfind(b"\n", begin, begin + _BYTES_PER_CHECK) + 1 or block.index(b"\n", begin) + 1
        )
        records_of_part = _count_records_of_part(block[begin:end], width, form)
        if records_of_part is None:
            return None
        begin = end
        records += records_of_part
    return records


def _count_records_of_part(part: bytes, width: int, form: CsvForm) -> int | None:
    """Return the number of records in whole lines; None if one may break the rules.

    Separators and line ends are delimiters. Delimiters outside quoted fields must follow each other
    as in the header.
    """
    separator = ord(form.separator)
    if width == 1 and (b"\n\n" in part or part.startswith(b"\n")):
        return None
    byte_values = np.frombuffer(part, np.uint8)
    is_delimiter = byte_values == separator
    is_delimiter |= byte_values == _LF
    if b'"' in part:
        is_quote = byte_values == _QUOTE
        special = byte_values.compress(is_delimiter | is_quote)
        is_quoted = _find_quoted(byte_values, is_quote, is_delimiter, special, separator)
        if is_quoted is None:
            return None
        delimiters = special.compress(~is_quoted)
    else:
        delimiters = byte_values.compress(is_delimiter)
    if len(delimiters) % width:
        return None
    lines = delimiters.reshape(-1, width)
    is_regular = (lines[:, :-1] == separator).all() and (lines[:, -1] == _LF).all()
    return len(lines) if is_regular else None


def _find_quoted(
    byte_values: npt.NDArray[np.uint8],
    is_quote: npt.NDArray[np.bool_],
    is_delimiter: npt.NDArray[np.bool_],
    special: npt.NDArray[np.uint8],
    separator: int,
) -> npt.NDArray[np.bool_] | None:
    """Return which special bytes belong to quoted fields; None if a field may break the rules.

    A quotation mark of an odd number opens a field, or follows the one before at once. One of an
    even number closes a field, or another follows at once.

    Args:
        byte_values: whole lines.
        is_quote: which bytes are quotation marks.
        is_delimiter: which bytes are separators or line ends.
        special: all quotation marks, separators and line ends, in their order.
        separator: the separator.
    """
    special_is_quote: npt.NDArray[np.bool_] = special == _QUOTE
    if _enclose_plain_fields(is_quote, is_delimiter, special_is_quote):
        return special_is_quote
    places = np.flatnonzero(is_quote)
    if len(places) % 2:
        return None
    before_openings = byte_values[places[::2] - 1]  # before the first byte is the last one, a LF
    after_closings = byte_values[places[1::2] + 1]
    for neighbours in (before_openings, after_closings):
        allowed = (neighbours == separator) | (neighbours == _LF) | (neighbours == _QUOTE)
        if not allowed.all():
            return None
    quotes_so_far = np.cumsum(special_is_quote, dtype=np.uint8)  # modulo 256: odd stays odd
    is_inside: npt.NDArray[np.bool_] = (quotes_so_far & 1).view(np.bool_)
    if (special[is_inside] == _LF).any():
        return None
    return is_inside | special_is_quote


def _enclose_plain_fields(
    is_quote: npt.NDArray[np.bool_],
    is_delimiter: npt.NDArray[np.bool_],
    special_is_quote: npt.NDArray[np.bool_],
) -> bool:
    """Return True if each quoted field has two quotation marks, at its ends, and no delimiter.

    This is the usual case, and quick to check. Two conditions together ensure it:

    1. Each quotation mark has a delimiter beside it. So no three quotation marks follow each other
       among the special bytes: the second would have no delimiter beside it.
    2. Among the special bytes, there are half as many pairs of neighbouring quotation marks as
       quotation marks. Since no three follow each other, each is then in exactly one pair.

    No delimiter stands between the two of a pair. So one stands before the first, and one after the
    second.

    Args:
        is_quote: which bytes are quotation marks.
        is_delimiter: which bytes are separators or line ends.
        special_is_quote: which of the special bytes (both of these kinds) are quotation marks.
    """
    pairs = np.count_nonzero(special_is_quote[1:] & special_is_quote[:-1])
    if 2 * pairs != np.count_nonzero(special_is_quote):
        return False
    beside_delimiter = np.ones_like(is_delimiter)  # the text begins a field, and ends with a LF
    beside_delimiter[1:-1] = is_delimiter[2:] | is_delimiter[:-2]
    return not (is_quote > beside_delimiter).any()


def other_separator(header: bytes) -> str | None:
    """Return the only separator at which a header has several fields; None if it is not known.

    >>> other_separator(b'"week";"clinic, ward";"number"')
    ';'
    """
    possible = []
    for sign in SEPARATORS:
        with suppress(_BadLineError):
            if len(fields_of(header, CsvForm(sign))) > 1:
                possible.append(sign)
    return possible[0] if len(possible) == 1 else None


def csv_pieces(
    stream: IO[bytes], names: Sequence[str], columns: Sequence[str], form: CsvForm
) -> Iterator[Piece]:
    """Yield some columns of a CSV file as texts, some lines at a time; ``names`` are all, as from
    `header_of`.
    """
    number = 1
    schema = dict.fromkeys(names, pl.String)

    def parse(text: bytes, rows: int) -> pl.DataFrame:
        if text.startswith(BYTE_ORDER_MARK):  # polars would leave it out, here of a row
            text = BYTE_ORDER_MARK + text
        quote = '"' if b'"' in text else None
        frame = pl.scan_csv(
            io.BytesIO(text), has_header=False, schema=schema, separator=form.separator,
            quote_char=quote,
        ).select(columns).collect()  # fmt: skip
        if frame.height != rows:
            raise pl.exceptions.ShapeError(f"{rows} lines became {frame.height} rows")
        return frame

    for block in blocks(stream):
        first = number
        number += block.count(b"\n")
        if first == 1:  # the header
            block = block[block.index(b"\n") + 1 :]
            first = 2
            if not block:
                continue
        rows = _count_records_if_regular(block, len(names), form)
        if rows is not None:
            try:
                frame = parse(block, rows)
            except pl.exceptions.ComputeError:  # bytes that are no UTF-8
                pass
            else:
                yield Piece(frame, {})
                continue
        yield _line_by_line(block, first, len(names), form, parse)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_by_line(block: bytes, first: int, width: int, form: CsvForm, parse: Any) -> Piece:
    """Return a block's rows, line by line; ``parse`` gets good lines and their number."""
    good = list[bytes]()
    faults = dict[int, Fault]()
    lossy = dict[int, Fault]()
    places = list[int | None]()
    for row, line in enumerate(block[:-1].split(b"\n")):
        problem = _fault_of_line(line, width, form)
        if problem is not None:
            faults[row] = Fault(first + row, line, problem)
            places.append(None)
            continue
        places.append(len(good))
        if not _is_utf8(line):
            lossy[row] = Fault(first + row, line, NO_UTF8)
            line = line.decode("utf-8", "replace").encode()
        good.append(line)
    frame = parse(b"".join(line + b"\n" for line in good), len(good))
    if lossy:  # the bytes may be in a column that nobody reads
        shown = pl.any_horizontal(
            pl.all().str.contains(_REPLACEMENT_CHARACTER, literal=True).fill_null(False)
        )
        odd = frame.select(shown).to_series()
        for row, fault in lossy.items():
            if odd[cast(int, places[row])]:
                faults[row] = fault
                places[row] = None
    if faults:
        frame = frame.select(pl.all().gather(pl.Series(places, dtype=pl.UInt32)))
    return Piece(frame, faults)


def header_of(stream: IO[bytes], form: CsvForm) -> list[str]:
    """Return the names of the columns of a CSV file; [] without a line.

    Raises:
        BrokenFileError: the header does not keep the rules.

    >>> header_of(io.BytesIO(b'at,"a, b",at\\n'), CsvForm())
    ['at', 'a, b', 'at_duplicated_0']
    """
    block = next(blocks(stream, _HEADER_BYTES), None)
    if block is None:
        return []
    line = block[: block.index(b"\n")]
    fault = "is blank"
    try:
        blank = fields_of(line, form) == [b""]
        line.decode()
    except UnicodeDecodeError:
        fault = NO_UTF8
    except _BadLineError as error:
        fault = str(error)
    else:
        if not blank:
            buffer = io.BytesIO(line)
            return pl.read_csv(buffer, infer_schema=False, separator=form.separator).columns
    raise BrokenFileError(Fault(1, line, fault))

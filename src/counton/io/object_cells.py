"""Columns of Python objects, as of pandas and SQLite: each cell is converted alone.

A library that builds a typed column from objects lets one cell decide how all others are read. Here
a cell's text and kind depend on that cell only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from counton.windowing.lazy_polars import polars as pl


class CellKind(IntEnum):
    """What a cell is, where its text does not say it.

    >>> CellKind.TIME.name
    'TIME'
    """

    #: A text, a number, or nothing.
    TEXT = 0
    #: A date or a time: its text is ISO 8601, whatever time format the job states.
    TIME = 1
    #: A truth value: its text is "true" or "false", and as a number it is 1 or 0.
    TRUTH = 2
    #: An object that is no text, number, date or time; it has no text.
    OTHER = 3


class ObjectColumn(NamedTuple):
    """A column of texts, and the kind of each cell.

    Attributes:
        texts: the text of each cell; null for a missing one.
        kinds: values of `CellKind` (UInt8); None if all cells are texts, numbers or missing.
    """

    texts: pl.Series
    kinds: pl.Series | None = None


#: Whole floats below this number are written as integers, because a missing value turns a column of
#: whole numbers into floats.
_WHOLE_FLOATS: Final = 2**53
#: Decimal numbers with more digits before or after the point are written with an exponent.
_MOST_DIGITS: Final = 400


def convert_objects(name: str, cells: Sequence[object]) -> ObjectColumn:
    """Convert objects one by one.

    Args:
        name: the name of the column.
        cells: the objects; None for a missing one.

    Returns:
        The texts, and the kinds if a cell's text does not say what it is.

    >>> convert_objects("n", [7, 7.0, "7", Decimal("7.50"), None]).texts.to_list()
    ['7', '7', '7', '7.50', None]
    """
    if set(map(type, cells)) <= {str, type(None)}:
        try:
            return ObjectColumn(pl.Series(name, cells, dtype=pl.String))
        except UnicodeEncodeError:  # half of a surrogate pair in one of the texts
            pass
    read = [read_cell(cell) for cell in cells]
    texts = pl.Series(name, [text for text, _ in read], dtype=pl.String)
    kinds = pl.Series([kind for _, kind in read], dtype=pl.UInt8)
    return ObjectColumn(texts, kinds if (kinds != CellKind.TEXT).any() else None)


def read_cell(cell: object) -> tuple[str | None, CellKind]:
    """Return the text and the kind of one object.

    Args:
        cell: a text, a number, a date or time, a truth value, bytes, or None.

    Returns:
        The text, or None for a missing value, for bytes that are not UTF-8, and for other objects.

    >>> [read_cell(cell)[0] for cell in ("a", b"a", b"\\xff", 7, 7.0, 2.5, True, None)]
    ['a', 'a', None, '7', '7', '2.5', 'true', None]
    """
    read = _BY_TYPE.get(type(cell))
    if read is not None:
        return read(cell)
    if isinstance(cell, str):
        return _text_of_str(cell)
    if isinstance(cell, bool | np.bool_):
        return _text_of_truth(bool(cell))
    if isinstance(cell, np.timedelta64):  # numpy counts it among the integers
        return None, CellKind.OTHER
    if isinstance(cell, int | np.integer):
        return _text_of_integer(int(cell))
    if isinstance(cell, float | np.floating):
        return _text_of_float(float(cell))
    if isinstance(cell, Decimal):
        return _text_of_decimal(cell)
    if isinstance(cell, bytes):
        return _text_of_bytes(cell)
    if isinstance(cell, date):  # a datetime, or pandas' Timestamp, too
        return _text_of_date(cell)
    if isinstance(cell, np.datetime64):
        return _text_of_datetime64(cell)
    if isinstance(cell, time | uuid.UUID):
        return str(cell), CellKind.TEXT
    return None, CellKind.OTHER


def _text_of_str(cell: str) -> tuple[str | None, CellKind]:
    text = str.__str__(cell)  # of a member of an enumeration, its value
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return None, CellKind.OTHER
    return text, CellKind.TEXT


def _text_of_integer(number: int) -> tuple[str | None, CellKind]:
    try:
        return str(number), CellKind.TEXT
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return None, CellKind.OTHER


def _text_of_float(number: float) -> tuple[str | None, CellKind]:
    if number != number:  # NaN is a missing value
        return None, CellKind.TEXT
    if number.is_integer() and abs(number) < _WHOLE_FLOATS:
        return str(int(number)), CellKind.TEXT
    return repr(number), CellKind.TEXT  # the shortest text that means this float


def _text_of_decimal(number: Decimal) -> tuple[str | None, CellKind]:
    if number.is_nan():
        return None, CellKind.TEXT
    if not number.is_finite():
        return str(float(number)), CellKind.TEXT
    digits = number.as_tuple()
    exponent = digits.exponent
    assert isinstance(exponent, int)
    if max(abs(exponent), len(digits.digits)) > _MOST_DIGITS:
        return str(number), CellKind.TEXT
    whole = number == number.to_integral_value()
    return (str(int(number)) if whole else format(number, "f")), CellKind.TEXT


def _text_of_bytes(cell: bytes) -> tuple[str | None, CellKind]:
    try:
        return cell.decode(), CellKind.TEXT
    except UnicodeDecodeError:
        return None, CellKind.TEXT


def _text_of_date(cell: date) -> tuple[str | None, CellKind]:
    if cell != cell:  # pandas' NaT
        return None, CellKind.TEXT
    if not isinstance(cell, datetime) or cell.tzinfo is None:
        return cell.isoformat(), CellKind.TIME
    try:
        offset = cell.utcoffset()
        if offset is None:
            return cell.replace(tzinfo=None).isoformat(), CellKind.TIME
        try:
            return cell.astimezone(UTC).isoformat(), CellKind.TIME
        except (OverflowError, ValueError):  # UTC is in the year 0 or 10000
            return cell.isoformat(), CellKind.TIME
    except Exception:  # whatever a time zone of another library raises for this moment
        return None, CellKind.OTHER


#: Units of numpy that are longer than a day, and such as are shorter than a nanosecond.
_LONG_UNITS: Final = ("Y", "M", "W")
_SHORT_UNITS: Final = ("ps", "fs", "as")


def _text_of_datetime64(cell: np.datetime64) -> tuple[str | None, CellKind]:
    if np.isnat(cell):
        return None, CellKind.TEXT
    unit = np.datetime_data(cell.dtype)[0]
    if unit in _LONG_UNITS:
        cell = cell.astype("datetime64[D]")
    elif unit in _SHORT_UNITS:
        cell = cell.astype("datetime64[ns]")
    return str(cell), CellKind.TIME


def _nothing(_: None) -> tuple[str | None, CellKind]:
    return None, CellKind.TEXT


def _text_of_truth(cell: bool) -> tuple[str | None, CellKind]:
    return ("true" if cell else "false"), CellKind.TRUTH


#: The function that reads a cell of one of the usual types.
_BY_TYPE: Final[dict[type, Callable[[Any], tuple[str | None, CellKind]]]] = {
    type(None): _nothing,
    str: _text_of_str,
    bool: _text_of_truth,
    int: _text_of_integer,
    float: _text_of_float,
    Decimal: _text_of_decimal,
    bytes: _text_of_bytes,
    date: _text_of_date,
    datetime: _text_of_date,
}

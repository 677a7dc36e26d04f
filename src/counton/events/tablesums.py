"""Rows of a table with types, whatever their order: sums of digests of them.

As `counton.events.linesums` does for text, and for the same end: a file of the same rows is known
again in another order or compression, with its columns in another order, with names as a dictionary
or plain, and numbers and times of another width or unit. No text is made of numbers and of times,
which is what most of the time would go to.

Two rows that differ have the same digest with a chance of 2^-64. No key is in it: who may choose
rows could find two such rows, and make a file look counted that is not, but no counted file look
new. Digests stay as they are from version to version, since states keep what they come to.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.events.linesums import digests_of_lines
from counton.events.windows import as_text

Words = NDArray[np.uint64]

#: So many rows at a time: what is computed of them stays in the processor's cache.
_TOGETHER: Final = 2**15
#: Rows that are read together.
_READ: Final = 2**18
#: Texts of so many bytes or fewer lie in the words that Arrow has for each.
INLINE: Final = 12
#: How Arrow calls that layout.
_VIEWS: Final = b"vu"
#: Nanoseconds of the units of times.
_NANOSECONDS: Final = {"ns": 1, "us": 1000, "ms": 1_000_000}
_MINUS, _NINE = np.uint8(ord("-")), np.uint8(ord("9"))
_HALF: Final = np.uint64(32)


def _constant(*names: str) -> np.uint64:
    """An odd number that is nobody's choice."""
    hashed = hashlib.blake2b("\0".join(names).encode(), digest_size=8, person=b"counton/table 1")
    return np.uint64(int.from_bytes(hashed.digest(), "little") | 1)


_FIRST, _SECOND, _LAST = (_constant("mix", name) for name in ("first", "second", "last"))
_NULL, _FLOAT, _NAN, _UNSIGNED = map(_constant, ("null", "float", "NaN", "unsigned"))
_LOCAL, _MOMENT = _constant("local time"), _constant("moment")
_LARGE: Final = np.uint64(2**63)


class TableSums:
    """A digest of rows that are added some at a time, in any order.

    >>> one, other = TableSums(), TableSums()
    >>> rows = pl.DataFrame({"page": ["home", "shop", None], "paid": [1, 2, 2]})
    >>> one.add(rows), other.add(rows[2:]), other.add(rows[:2].select("paid", "page"))
    (None, None, None)
    >>> one.rows, one.digest() == other.digest()
    (3, True)
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sums = [0, 0]
        self._columns: tuple[str, ...] = ()
        self._state = np.zeros(0, np.uint64)

    def __repr__(self) -> str:
        return "TableSums(secret)"

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows in, of the columns that all have; of columns of lists and the like nothing."""
        flat = {name: dtype for name, dtype in rows.schema.items() if _is_flat(dtype)}
        self._columns = tuple(sorted(flat))
        self.rows += rows.height
        if len(self._state) < rows.height:
            self._state = np.empty(rows.height, np.uint64)
        state = self._state[: rows.height]
        state.fill(0)
        for name in self._columns:
            odd, begin = _constant("column", name), 0
            for words in _words(rows[name], flat[name]):
                part = state[begin : begin + len(words)]
                part ^= words
                _mix(part, odd)
                begin += len(words)
        for begin in range(0, rows.height, _TOGETHER):
            part = state[begin : begin + _TOGETHER]
            _mix(part, _LAST)
            part ^= part >> _HALF
            for place in range(2):
                added = int(part.sum(dtype=np.uint64))
                self._sums[place] = (self._sums[place] + added) % 2**64
                part *= part

    def digest(self) -> str:
        """It, in hexadecimal."""
        hashed = hashlib.sha256(b"counton/table 1")
        for number in (self.rows, *self._sums):
            hashed.update(number.to_bytes(8, "little"))
        for name in self._columns:
            hashed.update(len(name.encode()).to_bytes(8, "little") + name.encode())
        return hashed.hexdigest()


def table_digest(frame: pl.LazyFrame) -> str | None:
    """The digest of the rows of a table, read some at a time; None where it has none."""
    sums = TableSums()
    flat = [name for name, dtype in frame.collect_schema().items() if _is_flat(dtype)]
    batches = frame.select(flat).collect_batches(
        chunk_size=_READ, maintain_order=False, engine="streaming"
    )
    for batch in batches:
        sums.add(batch)
    return sums.digest() if sums.rows else None


def _is_flat(dtype: pl.DataType) -> bool:
    return not dtype.is_nested() and dtype != pl.Object


def _mix(words: Words, odd: np.uint64) -> None:
    """Words that differ stay so, and become unlike each other."""
    words ^= words >> _HALF
    words *= odd


def _words(column: pl.Series, dtype: pl.DataType) -> Iterator[Words]:
    """A word for each value, some at a time: the same for one value, whatever its type."""
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    elif not _is_number(dtype) and dtype != pl.String:  # null too for bytes that are no text
        column = column.to_frame("").select(as_text(pl.col(""), dtype)).to_series()
    missing = column.is_null().to_numpy() if column.null_count() else None
    column = column.to_physical()
    if missing is not None:
        column = column.fill_null(0 if _is_number(dtype) else "")
    begin = 0
    for words in _numbers(column, dtype) if _is_number(dtype) else _texts(column):
        if missing is not None:
            words = np.where(missing[begin : begin + len(words)], _NULL, words)
        begin += len(words)
        yield words


def _is_number(dtype: pl.DataType) -> bool:
    """Whether values are numbers of at most 64 bits, or stored as such."""
    if dtype in (pl.Int128, pl.UInt128):
        return False
    return dtype.is_integer() or dtype.is_float() or isinstance(dtype, pl.Datetime | pl.Duration)


def _numbers(column: pl.Series, dtype: pl.DataType) -> Iterator[Words]:
    """Of numbers and times, some at a time; of a null any."""
    if dtype == pl.Float32:
        column = column.cast(pl.String).cast(pl.Float64)  # the number that its digits say
    values = column.to_numpy()
    for begin in range(0, len(values), _TOGETHER):
        part = values[begin : begin + _TOGETHER]
        if dtype.is_float():
            words = part.astype(np.float64).view(np.uint64) ^ _FLOAT
            yield np.where(np.isnan(part), _NAN, words)
        elif isinstance(dtype, pl.Datetime):
            words = _whole(part) * np.uint64(_NANOSECONDS[dtype.time_unit])
            words ^= _LOCAL if dtype.time_zone is None else _MOMENT
            yield words
        else:
            yield _whole(part)


def _whole(values: NDArray[Any]) -> Words:
    """Of whole numbers themselves, modulo 2^64, where those from 2^63 on are no negative ones."""
    words = values.astype(np.int64, copy=False).view(np.uint64)
    if values.dtype == np.uint64 and (large := values >= _LARGE).any():
        words = np.where(large, words ^ _UNSIGNED, words)
    return words


def _texts(column: pl.Series) -> Iterator[Words]:
    """Of texts, some at a time; of one that a whole number is written as, that of the number."""
    begin = 0
    for lent in text_views(column):
        for at in range(0, len(lent), _TOGETHER):
            views = lent[at : at + _TOGETHER]
            state = views[:, 0].copy()
            _mix(state, _FIRST)
            state ^= views[:, 1]
            _mix(state, _SECOND)
            signs = views.view(np.uint8)[:, 4] - _MINUS  # of the first byte: "-" to "9"
            if (signs <= _NINE - _MINUS).any():
                _put_numbers(state, column.slice(begin, len(views)))
            sizes = views.view(np.uint32)[:, 0]
            if sizes.max() > INLINE:
                long = np.flatnonzero(sizes > INLINE)
                lengths = sizes[long].astype(np.int64)
                block = column.slice(begin, len(views)).gather(long).str.join("").item()
                state[long] = digests_of_lines(block.encode(), lengths)
            begin += len(views)
            yield state


def _put_numbers(words: Words, texts: pl.Series) -> None:
    """Write words of numbers for those texts that whole numbers are written as."""
    numbers = texts.cast(pl.Int64, strict=False)
    said = (numbers.cast(pl.String) == texts).fill_null(False).to_numpy()
    np.copyto(words, _whole(numbers.fill_null(0).to_numpy()), where=said)


class _Array(ctypes.Structure):
    """An array as Arrow's C data interface lends it."""


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]


class _Schema(ctypes.Structure):
    """The type of an array, likewise."""


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_void_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]


def _writer_of(what: type[ctypes.Structure]) -> Any:
    """The type of a function of a stream that writes such a thing."""
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(what))


class _Stream(ctypes.Structure):
    """Arrays of one type, one after the other, likewise."""


_Stream._fields_ = [
    ("get_schema", _writer_of(_Schema)),
    ("get_next", _writer_of(_Array)),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Memory:
    """Memory that is another's, as numpy reads it."""

    def __init__(self, address: int, shape: tuple[int, int]) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": shape,
            "typestr": "<u8",
            "version": 3,
        }


def text_views(column: pl.Series) -> Iterator[Words]:
    """Two words for each text: its length and first four bytes, and the next eight bytes.

    So Arrow lays texts out (Utf8View). What follows a text's end is 0. The second word of a text
    of more bytes than `INLINE` says where it lies, and means nothing here. An array is there until
    the next is asked for.

    Raises:
        RuntimeError: polars does not lend its texts.
    """
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule: Any = column.__arrow_c_stream__()  # which ends the stream when it is forgotten
    stream = ctypes.cast(pointer(capsule, b"arrow_array_stream"), ctypes.POINTER(_Stream))
    schema = _Schema()
    if stream.contents.get_schema(stream, ctypes.byref(schema)):
        raise RuntimeError("polars does not lend its texts")
    layout = schema.format
    schema.release(ctypes.byref(schema))
    if layout != _VIEWS:
        yield _copied_views(column)
        return
    while True:
        array = _Array()
        if stream.contents.get_next(stream, ctypes.byref(array)):
            raise RuntimeError("polars does not lend its texts")
        if not array.release:
            return
        try:
            if array.length:
                at = array.buffers[1] + 16 * array.offset
                yield np.asarray(_Memory(at, (array.length, 2)))
        finally:
            array.release(ctypes.byref(array))


def _copied_views(column: pl.Series) -> Words:
    """The same of a version of polars that lends texts in another layout."""
    block = np.frombuffer((column.str.join("").item() or "").encode() + bytes(INLINE), np.uint8)
    sizes = column.str.len_bytes().to_numpy().astype(np.int64)
    begins = np.cumsum(sizes) - sizes
    views = np.zeros((len(sizes), 16), np.uint8)
    views.view(np.uint32)[:, 0] = sizes
    for at in range(INLINE):
        views[:, 4 + at] = np.where(at < sizes, block[begins + at], 0)
    return views.view(np.uint64)

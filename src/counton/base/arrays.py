"""Array types of all computations, their one thread, and integers as text, bytes and multiples."""

from __future__ import annotations

import base64
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Numbers in data units: integers if the resolution is 1, else floats.
IntegersOrFloats = NDArray[np.int64 | np.float64]
#: A column of a table: numbers, texts, times or truth values.
Column = NDArray[np.generic]

_Number = TypeVar("_Number", bound=np.number)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread in the ``with`` block, in the whole process: the number of
    threads changes the last digits of sums.

    Without the package threadpoolctl it has no effect.

    >>> from threadpoolctl import threadpool_info
    >>> with one_thread():
    ...     {library["num_threads"] for library in threadpool_info()
    ...      if library["user_api"] == "blas"}
    {1}
    """
    # A search consists of thousands of small products. Threads that wait for each other, while
    # other processes use the processors, make it 5 to 30 times slower; on an idle machine they gain
    # little.
    try:
        controller = _libraries(len(sys.modules))
    except ModuleNotFoundError:
        yield
        return
    with controller.limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Find the libraries again once more ``modules`` are loaded, because these may bring others."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def read_only(array: object) -> Any:
    """Return a read-only view of an array, and any other value unchanged."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


#: Numbers that the cache of a processor holds.
_NUMBERS_IN_CACHE = 2**16


def extremes(numbers: Integers) -> tuple[int, int]:
    """Return the smallest and largest of some integers; 0 and 0 if there are none."""
    if numbers.size == 1:  # a single step: no array operation is as cheap
        return numbers.item(), numbers.item()
    if not numbers.size:
        return 0, 0
    flat = numbers.reshape(-1)
    # Scan in parts, so that the second scan finds the numbers still in the cache.
    smallest = int(flat[0])
    largest = int(flat[0])
    for start in range(0, flat.size, _NUMBERS_IN_CACHE):
        part = flat[start : start + _NUMBERS_IN_CACHE]
        smallest = min(smallest, int(part.min()))
        largest = max(largest, int(part.max()))
    return smallest, largest


def to_data(cells: Integers, resolution: Fraction) -> IntegersOrFloats:
    """Convert multiples of the resolution to data units: int64 for 1, else the nearest float64."""
    top, bottom = resolution.as_integer_ratio()
    if top == bottom:
        return cells
    smallest, largest = extremes(cells)
    if top < 2**53 and bottom < 2**53 and max(largest, -smallest) <= 2**53 // top:
        if top == 1 and bottom.bit_count() == 1:
            return cells * np.float64(1 / float(bottom))  # exact
        return cells * np.float64(top) / float(bottom)  # one rounding: both operands are exact
    exact = [int(cell) * top / bottom for cell in cells.ravel()]  # Python divides integers exactly
    return np.array(exact, dtype=np.float64).reshape(cells.shape)


#: Largest difference from a multiple that the rounding of a sum explains, in units.
_ROUNDING = 1e-6


def nearest_multiples(numbers: NDArray[np.float64], unit: Fraction) -> NDArray[np.float64]:
    """Return numbers without the rounding error of their sums, if they are multiples of a unit.

    Args:
        numbers: numbers, such as ends of intervals; those that are no multiples stay as they are.
        unit: the unit. Sums of multiples of a power of two have no such error.

    >>> nearest_multiples(np.array([0.1 + 0.2, 0.305]), Fraction(1, 100)).tolist()
    [0.3, 0.305]
    """
    if unit.denominator.bit_count() == 1:
        return numbers
    counts = numbers / float(unit)
    whole = np.rint(counts)
    are_multiples = (np.abs(counts - whole) < _ROUNDING) & (np.abs(whole) < 2**53)
    multiples = to_data(np.where(are_multiples, whole, 0).astype(np.int64), unit)
    return np.asarray(np.where(are_multiples, multiples, numbers), np.float64)


def integers_to_text(array: Integers) -> str:
    """Encode integers as short ASCII text for JSON; `integers_from_text` is the inverse.

    Each integer takes as many bytes as the largest needs: the first bytes of all come first.

    >>> integers_from_text(integers_to_text(np.array([[2**40, -1]])), (1, 2)).tolist()
    [[1099511627776, -1]]
    """
    kind = narrowest(int(array.min(initial=0)), int(array.max(initial=0)))
    planes = array.astype(kind).reshape(-1, 1).view(np.uint8).T
    return f"{kind.itemsize}:{base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode()}"


def narrowest(least: int, largest: int) -> np.dtype[np.integer]:
    """Return the smallest integer type that holds all integers within bounds."""
    widths = (w for w in (1, 2, 4, 8) if -(256**w) // 2 <= least and largest < 256**w // 2)
    return np.dtype(f"<i{next(widths)}")


def integers_from_text(text: object, shape: tuple[int, ...]) -> Integers:
    """Decode the text of `integers_to_text` to int64 of the stated shape."""
    widths = "1:", "2:", "4:", "8:"
    if type(text) is str and text[:2] in widths and min(shape, default=0) >= 0:
        width = int(text[0])
        count = math.prod(shape)
        with suppress(ValueError, zlib.error):
            unpacker = zlib.decompressobj()
            packed = base64.b64decode(text[2:], validate=True)
            # one byte more than wanted, so that no text fills the memory
            planes = unpacker.decompress(packed, count * width + 1)
            if len(planes) == count * width and unpacker.eof:
                held = np.frombuffer(planes, np.uint8).reshape(width, count).T
                return np.ascontiguousarray(held).view(f"<i{width}").reshape(shape).astype(np.int64)
    raise InvalidInputError(
        f"stored integers of shape {shape} are damaged or incomplete: restore the text that "
        "counton wrote, unchanged"
    )


def to_fixed_width(numbers: Integers, width: int) -> bytes | None:
    """Encode integers in ``width`` bytes each, so that the length says nothing about them.

    Args:
        numbers: int64, of any shape.
        width: number of bytes of each integer, from 1 to 8.

    Returns:
        The bytes, lowest first, integer by integer; None if an integer does not fit.

    >>> from_fixed_width(to_fixed_width(np.array([[300, -2]]), 2), (1, 2)).tolist()
    [[300, -2]]
    >>> to_fixed_width(np.array([[300, -2]]), 1) is None
    True
    """
    smallest, largest = extremes(numbers)
    if max(-smallest - 1, largest) >> (8 * width - 1):
        return None
    flat = np.ascontiguousarray(numbers, "<i8").reshape(-1, 1).view(np.uint8)
    return flat[:, :width].tobytes()


def from_fixed_width(data: bytes, shape: tuple[int, int]) -> Integers:
    """Decode the bytes of `to_fixed_width` to int64 of this shape.

    Raises:
        ValueError: the bytes do not encode integers of this shape.
    """
    count = math.prod(shape)
    width, rest = divmod(len(data), max(count, 1))
    if min(shape) < 1 or rest or not 1 <= width <= 8:
        raise ValueError(f"{len(data)} bytes do not encode integers of shape {shape}")
    wide = np.zeros((count, 8), np.uint8)
    wide[:, 8 - width :] = np.frombuffer(data, np.uint8).reshape(count, width)
    # The lowest bytes stand highest now; a shift to the right repeats the sign.
    numbers: Integers = wide.view("<i8").reshape(shape) >> (8 * (8 - width))
    return numbers


def pack(
    numbers: NDArray[_Number], read: Callable[[NDArray[_Number]], Integers] | None = None
) -> bytes:
    """Encode integers as compressed differences along the first axis; `unpack` decodes them.

    The lowest bytes of all numbers come first, then the second lowest, and so on. So numbers that
    change little, or of which few are large, take one to three bytes each.

    Args:
        read: function that converts a part of ``numbers`` to int64; None: they are integers.

    >>> len(pack(np.arange(10**6))) < 2000
    True
    """
    flat = np.ascontiguousarray(numbers)
    row = flat.size // max(1, len(flat))
    flat = flat.ravel()
    blocks = [
        slice(start, min(start + _NUMBERS_PER_BLOCK, flat.size))
        for start in range(0, flat.size, _NUMBERS_PER_BLOCK)
    ]
    whole = read or (lambda some: some.astype("<i8"))
    largest = max((int(_signless(flat, row, block, whole).max()) for block in blocks), default=0)
    width = max(1, (largest.bit_length() + 7) // 8)
    if flat.size < 2 and width < 5:  # as in a single step: the number itself
        return (
            bytes([width | _UNCOMPRESSED_MARK])
            + largest.to_bytes(width, "little")[: width * flat.size]
        )
    packed = list[bytes]()
    if width * flat.size > 4:  # else compression, which looks only for runs, never saves a byte
        packer = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
        packed = [packer.compress(plane.data) for plane in _planes(flat, row, blocks, width, whole)]
        packed.append(packer.flush())
    plain = not packed or sum(map(len, packed)) >= width * flat.size
    if plain:
        packed = [plane.tobytes() for plane in _planes(flat, row, blocks, width, whole)]
    return b"".join([bytes([width | (_UNCOMPRESSED_MARK if plain else 0)]), *packed])


def _planes(
    flat: NDArray[_Number],
    row: int,
    blocks: list[slice],
    width: int,
    whole: Callable[[NDArray[_Number]], Integers],
) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of differences between rows, ``(planes, numbers)``, the lowest first."""
    most = max(1, min(width, _BYTES_PER_COMPRESSION // max(1, flat.size)))
    for first in range(0, width, most):
        planes = np.empty((min(most, width - first), flat.size), np.uint8)
        for block in blocks:
            part = _signless(flat, row, block, whole).view(np.uint8).reshape(-1, 8)
            planes[:, block] = part[:, first : first + len(planes)].T
        yield planes


def _signless(
    flat: NDArray[_Number], row: int, block: slice, whole: Callable[[NDArray[_Number]], Integers]
) -> NDArray[np.uint64]:
    """Return differences between consecutive rows, in zigzag encoding; the first row as it is."""
    steps = whole(flat[block])
    first = min(max(row - block.start, 0), len(steps))  # the first row is counted from 0
    # Arithmetic is modulo 2^64, as is the addition that inverts it.
    if first < len(steps):
        steps[first:] -= whole(flat[block.start + first - row : block.stop - row])
    return ((steps << 1) ^ (steps >> 63)).view("<u8")


_NUMBERS_PER_BLOCK = 2**16  # numbers that are packed together, in the cache
_BYTES_PER_COMPRESSION = 2**25  # bytes that are compressed together
_UNCOMPRESSED_MARK = 128  # in the first byte: too few numbers to compress
_LONGEST_LIST = 2**24  # numbers in a list
_MOST_CELLS = 2**32  # largest number of cells if the shape leaves it open


def unpack(packed: bytes | memoryview, shape: tuple[int, ...], *, narrow: bool = False) -> Integers:
    """Decode the bytes of `pack`.

    Args:
        shape: shape of the result. ``()`` stands for one dimension of any length; a last size of -1
            is inferred from the bytes.
        narrow: allow one row a narrower type than int64, in which its sums may overflow.

    Raises:
        ValueError: the bytes do not encode integers of this shape.

    >>> unpack(pack(np.array([[5, 7], [6, -2]])), (2, 2))
    array([[ 5,  7],
           [ 6, -2]])
    """
    head = packed[0] if packed else 0
    body = memoryview(packed)[1:]
    width = head & ~_UNCOMPRESSED_MARK
    if not 1 <= width <= 8:
        raise ValueError(
            f"stored numbers are damaged: their first byte gives {width} bytes for each number, "
            "and 1 to 8 are allowed; restore the file from a copy"
        )
    open_ended = not shape or shape[-1] < 0
    longest = _MOST_CELLS if shape else _LONGEST_LIST
    most = longest * width if open_ended else math.prod(shape) * width
    if not head & _UNCOMPRESSED_MARK:
        reader = zlib.decompressobj(-15)
        try:
            body = memoryview(reader.decompress(body, most + 1))
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if not reader.eof and most:
            raise ValueError(
                "stored numbers are damaged: bytes are missing, or there are more numbers than "
                "their shape allows; restore the file from a copy"
            )
    if shape and open_ended:
        shape = (*shape[:-1], len(body) // width // max(1, math.prod(shape[:-1])))
    shape = shape or (len(body) // width,)
    count = math.prod(shape)
    planes = np.frombuffer(body, np.uint8).reshape(width, count)
    narrow = narrow and shape[0] == 1
    bound = 256**width // 2
    numbers: Integers = np.empty(count, narrowest(-bound, bound - 1) if narrow else np.int64)
    size = next(size for size in (1, 2, 4, 8) if size >= width)
    for start in range(0, count, _NUMBERS_PER_BLOCK):
        part = planes[:, start : start + _NUMBERS_PER_BLOCK]
        wide = np.zeros((part.shape[1], size), np.uint8)
        wide[:, :width] = part.T
        signless = wide.view(f"<u{size}").ravel()  # arithmetic is modulo 2^(8 size)
        unsigned = (signless >> 1) ^ -(signless & 1)
        numbers[start : start + _NUMBERS_PER_BLOCK] = unsigned.view(f"<i{size}")
    numbers = numbers.reshape(shape)
    if len(numbers) > 1:
        np.cumsum(numbers, axis=0, out=numbers)
    return numbers

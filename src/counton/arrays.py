"""Arrays that everything here computes with: their types, and integers as text."""

from __future__ import annotations

import base64
import math
import zlib

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def integers_to_text(array: Integers) -> str:
    """Integers exactly, as short ASCII text that JSON keeps; the inverse of `integers_from_text`.

    Each takes as many bytes as the largest needs. First bytes of all come first, then second ones:
    high bytes of weights repeat, so they nearly vanish when compressed.

    >>> integers_from_text(integers_to_text(np.array([[2**40, -1]])), (1, 2)).tolist()
    [[1099511627776, -1]]
    """
    least, largest = int(array.min(initial=0)), int(array.max(initial=0))
    width = next(w for w in (1, 2, 4, 8) if -(256**w) // 2 <= least and largest < 256**w // 2)
    planes = array.astype(f"<i{width}").reshape(-1, 1).view(np.uint8).T
    return f"{width}:{base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode()}"


def integers_from_text(text: object, shape: tuple[int, ...]) -> Integers:
    """The integers of `integers_to_text`, int64 of the stated shape.

    Raises:
        InvalidInput: not a text it made, or of another number of integers.
    """
    wrong = InvalidInput(
        f"a text does not hold integers of shape {shape}: give one that counton wrote, unchanged"
    )
    if (
        type(text) is not str
        or text[:2] not in ("1:", "2:", "4:", "8:")
        or min(shape, default=0) < 0
    ):
        raise wrong
    width, count = int(text[0]), math.prod(shape)
    try:
        unpacker = zlib.decompressobj()
        # one byte more than is wanted, so that no text fills the memory
        planes = unpacker.decompress(base64.b64decode(text[2:], validate=True), count * width + 1)
    except (ValueError, zlib.error):
        raise wrong from None
    if len(planes) != count * width or not unpacker.eof:
        raise wrong
    held = np.frombuffer(planes, np.uint8).reshape(width, count).T
    return np.ascontiguousarray(held).view(f"<i{width}").reshape(shape).astype(np.int64)

"""Released cells of a statistic as text, for the description that a file carries."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.outside_input import inflate

#: Released cells of a statistic that a description holds, at most.
MOST_CELLS = 2**22


def pack(values: NDArray[Any]) -> dict[str, Any]:
    """Integers or floats by step, to the bit, as JSON values.

    >>> pack(np.array([[3, 5], [4, 5]]))["steps"]
    2
    """
    kind = "i8" if values.dtype.kind == "i" else "f8"
    flat = np.ascontiguousarray(values.reshape(len(values), -1), f"<{kind}")
    # What is released at one step is like what was at the step before it.
    moved = flat.view(np.int64).copy()
    moved[1:] -= flat.view(np.int64)[:-1]
    data = base64.b64encode(zlib.compress(moved.tobytes(), 6)).decode("ascii")
    return {"type": kind, "steps": len(values), "data": data}


def unpack(
    packed: Mapping[str, Any], shape: tuple[int, ...], most: int = MOST_CELLS
) -> NDArray[Any]:
    """Inverse of `pack`: shape ``(steps, *shape)``.

    Raises:
        InvalidInput: more than ``most`` cells.
        ValueError: no such cells, or one that is no number.
    """
    moved = np.frombuffer(inflate(base64.b64decode(packed["data"]), 8 * most), "<i8")
    flat = np.cumsum(moved.reshape(int(packed["steps"]), -1), axis=0).astype("<i8")
    values = flat if packed["type"] == "i8" else flat.view("<f8")
    if not np.isfinite(values).all():
        raise ValueError("a cell is no number")
    return np.asarray(values.reshape(len(values), *shape))

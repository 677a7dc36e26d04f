"""Sums of the rows of the last counted input, so that the same bytes need not be read again.

They are a row of the table of keyed digests, like the labels of groups, and so under the stream's
MAC. They have no more than the totals by window that the state keeps anyway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base import arrays
from counton.base.exact import name_alone
from counton.state.authenticated_rows import AuthenticatedRows
from counton.state.database import reading
from counton.state.sql import Connection

#: Kind, period and part of the row.
_PLACE: Final = ("sums", 0, 0)


@name_alone
class InputSums(NamedTuple):
    """Sums of the rows of one input. Secret.

    Attributes:
        digest: digest of all on which the sums depend: bytes of the files, and how they are read.
        numbers: numbers of rows, and their newest times.
        columns: sums by window and cell.
        windows: windows with a row.
    """

    digest: str
    numbers: Mapping[str, Any]
    columns: tuple[NDArray[np.int64], ...]
    windows: NDArray[np.int64]


def write(connection: Connection, rows: AuthenticatedRows, sums: InputSums) -> None:
    """Keep the sums of an input, in place of those of an earlier one."""
    if _PLACE in rows:
        rows.delete(connection, _PLACE)
    kind, period, part = _PLACE
    row = {"kind": kind, "period": period, "part": part, "marks": _pack(sums)}
    rows.insert(connection, [row])


def read(connection: Connection, rows: AuthenticatedRows) -> InputSums | None:
    """Return the kept sums; None if there are none."""
    if _PLACE not in rows:
        return None
    return _unpack(bytes(rows.read_once(connection, _PLACE).marks))


def _pack(sums: InputSums) -> bytes:
    parts = [arrays.pack(column) for column in (*sums.columns, sums.windows)]
    head = {
        "digest": sums.digest,
        "numbers": dict(sums.numbers),
        "cells": len(sums.columns[0]),
        "windows": len(sums.windows),
        "sizes": [len(part) for part in parts],
    }
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def _unpack(blob: bytes) -> InputSums:
    with reading("the sums of the last input"):
        begin = 8 + int.from_bytes(blob[:8], "little")
        head = json.loads(blob[8:begin])
        *column_sizes, windows_size = head["sizes"]
        columns = []
        for size in column_sizes:
            columns.append(arrays.unpack(blob[begin : begin + size], (head["cells"],)))
            begin += size
        windows = arrays.unpack(blob[begin : begin + windows_size], (head["windows"],))
        return InputSums(head["digest"], head["numbers"], tuple(columns), windows)

"""Sums of the rows of the last counted input, so that the same bytes need not be read again.

They are a row of the table of keyed digests, like the labels of groups, and so under the stream's
MAC. Beyond the totals by window that the state keeps anyway, they have those of later windows in
the input, numbers of rows that count nowhere, and the newest times. The digest of the input is
keyed: without the key nobody can test guesses of rows with it, or of columns that are not read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base import arrays
from counton.base.exact import name_alone
from counton.state.authenticated_rows import AuthenticatedContents, AuthenticatedRows
from counton.state.database import reading
from counton.state.sql import Connection

#: Kind, period and part of the row.
_PLACE: Final = ("sums", 0, 0)


@name_alone
class InputSums(NamedTuple):
    """Sums of the rows of one input. Secret.

    Attributes:
        digest: digest of all on which the sums depend: bytes of the files, and how they are read.
            Sums that were read from a state have the keyed one (`keyed_digest`).
        numbers: numbers of rows, and their newest times.
        columns: sums by window and cell.
        windows: windows with a row.
        others: digest of all else that decides what counts, as the run has left it that kept the
            sums; empty before they are kept.
    """

    digest: str
    numbers: Mapping[str, Any]
    columns: tuple[NDArray[np.int64], ...]
    windows: NDArray[np.int64]
    others: str = ""


def digest_of_others(contents: AuthenticatedContents) -> str:
    """Return a digest of all that decides what counts, but for the sums."""
    roots = (
        contents.digests.root_without(_PLACE),
        contents.observed.root,
        contents.sources.root,
    )
    return hashlib.sha256("".join(roots).encode()).hexdigest()


def keyed_digest(digest: str, subkey: bytes) -> str:
    """Return the digest under which a state keeps sums, which nobody can compute without its key.

    Args:
        digest: digest of all on which the sums depend.
        subkey: the key of such digests.
    """
    return hmac.digest(subkey, digest.encode(), "sha256").hex()


def write(
    connection: Connection, contents: AuthenticatedContents, sums: InputSums, subkey: bytes
) -> None:
    """Keep the sums of an input, in place of those of an earlier one.

    Args:
        connection: an open transaction.
        contents: the authenticated rows of the stream; the others are as the transaction leaves
            them.
        sums: the sums.
        subkey: the key of the digest.
    """
    sums = sums._replace(
        digest=keyed_digest(sums.digest, subkey), others=digest_of_others(contents)
    )
    rows = contents.digests
    delete(connection, rows)
    kind, period, part = _PLACE
    row = {"kind": kind, "period": period, "part": part, "marks": _pack(sums)}
    rows.insert(connection, [row])


def delete(connection: Connection, rows: AuthenticatedRows) -> None:
    """Delete the kept sums, if there are any.

    Args:
        connection: an open transaction.
        rows: the authenticated rows of the stream's digests.
    """
    if _PLACE in rows:
        rows.delete(connection, _PLACE)


def read(connection: Connection, contents: AuthenticatedContents) -> InputSums | None:
    """Return the kept sums; None if there are none."""
    rows = contents.digests
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
        "others": sums.others,
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
        return InputSums(
            head["digest"], head["numbers"], tuple(columns), windows, head.get("others", "")
        )

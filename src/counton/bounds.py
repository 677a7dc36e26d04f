"""Input from outside, within bounds: JSON, compressed bytes, and text for a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from typing import Any

import numpy as np

from counton.errors import InvalidInput

#: Levels of lists and objects within each other.
MOST_DEPTH = 64
#: Values of one JSON text: each takes some hundred bytes of memory at most.
MOST_ITEMS = 2**23
#: Texts of JSON, also those that end too early; possessive, since going back would take memory.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
#: By how much a byte goes deeper.
_MARKS = np.zeros(256, np.int8)
_MARKS[[*b"[{"]], _MARKS[[*b"]}"]] = 1, -1
_BLOCK = 2**20
#: Joiners that names are written with.
_JOINERS = "\u200c\u200d"


def parse_json(text: str | bytes) -> Any:
    """A JSON value from outside.

    Args:
        text: UTF-8, of a length that whoever read it has bounded.

    Raises:
        InvalidInput: more levels or values than a description of a stream has.
        ValueError: it is no JSON, or has an integer of thousands of digits.

    >>> parse_json('{"steps": [1, 2]}')
    {'steps': [1, 2]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    counton.errors.InvalidInput: it has more than 64 levels of lists and objects...
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    structure = structure_of(data)
    if sum(structure.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS:
        raise InvalidInput(f"it has more than {MOST_ITEMS:,} values: write it in parts")
    return json.loads(data)


def structure_of(data: bytes) -> bytes:
    """JSON without its texts, if no reader goes too deep in it.

    Raises:
        InvalidInput: lists and objects lie too deep within each other.
    """
    found = _TEXT.sub(b"", data)
    depth = 0
    for at in range(0, len(found), _BLOCK):
        marks = np.frombuffer(found, np.uint8)[at : at + _BLOCK]
        depths = depth + np.cumsum(_MARKS[marks], dtype=np.int64)
        if depths.max(initial=0) > MOST_DEPTH:
            raise InvalidInput(
                f"it has more than {MOST_DEPTH} levels of lists and objects within each other: "
                f"give it as it was written"
            )
        depth = int(depths[-1])
    return found


def inflate(data: bytes, most: int) -> bytes:
    """Bytes that ``zlib`` compressed.

    Args:
        data: compressed.
        most: bytes that it may be.

    Raises:
        InvalidInput: it is more.
        ValueError: it is no such bytes, or ends early.

    >>> inflate(zlib.compress(b"cells"), 100)
    b'cells'
    >>> inflate(zlib.compress(bytes(10**6)), 100)
    Traceback (most recent call last):
    ...
    counton.errors.InvalidInput: it is compressed, and more than 100 bytes...
    """
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"what is compressed was changed: {error}") from error
    if len(found) > most:
        raise InvalidInput(
            f"it is compressed, and more than {most:,} bytes without that: give it as it was "
            f"written"
        )
    if not reader.eof:
        raise ValueError("what is compressed ends early")
    return found


def printable(text: str, kept: str = "\n") -> str:
    r"""A text as a terminal may show it: characters that steer a terminal are written as codes.

    Control characters, also those of a single byte, those that turn the direction of writing or
    are not seen, and halves of characters.

    Args:
        text: from anywhere.
        kept: control characters that stay as they are.

    >>> print(printable("shop\x1b[2J\x9b31m, \u202eedoc, " + chr(0xDC80)))
    shop\x1b[2J\x9b31m, \u202eedoc, \udc80
    >>> printable("Äpfel, 東京, 👩‍👩‍👦") == "Äpfel, 東京, 👩‍👩‍👦"
    True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in kept or _is_shown(one) else _code(one) for one in text)


def _is_shown(one: str) -> bool:
    return one.isprintable() or one in _JOINERS or unicodedata.category(one) in ("Zs", "Co", "Cn")


def _code(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")

"""Input from outside, within bounds: files, JSON, TOML, compressed bytes, text for a terminal."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
import unicodedata
import zlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from counton.base.errors import InvalidInput

#: Levels of lists and objects within each other.
MOST_DEPTH = 64
#: Values of one JSON text: each takes some hundred bytes of memory at most.
MOST_ITEMS = 2**23
#: Texts of JSON, also those that end too early; possessive, since going back would take memory.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BLOCK = 2**20
#: Joiners that names are written with.
_JOINERS = "\u200c\u200d"


def open_plain(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a plain file; a pipe that one would wait for, a device and a folder are refused.

    Raises:
        OSError: it cannot be opened, or is no plain file.
    """
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", os.fspath(path))
    return descriptor


def read_plain(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a plain file: see `open_plain`.

    >>> read_plain(os.devnull)
    Traceback (most recent call last):
    ...
    OSError: [Errno 22] it is no plain file: '/dev/null'
    """
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()


def parse_toml(data: bytes) -> dict[str, Any]:
    """Tables from outside.

    Raises:
        InvalidInput: lists or tables lie too deep within each other.
        ValueError: it is no TOML, or no UTF-8, or has an integer of thousands of digits.

    >>> parse_toml(b"a = " + b"[" * 100_000)
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInput: it has lists or tables that lie too deep within each other...
    """
    try:
        found = tomllib.loads(data.decode())
    except RecursionError:
        raise _too_deep() from None
    level: list[Any] = [found]
    for _ in range(MOST_DEPTH):  # dotted keys make tables as deep as anybody likes
        level = [one for table in level for one in _within(table)]
        if not level:
            return found
    raise _too_deep()


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> InvalidInput:
    return InvalidInput("it has lists or tables that lie too deep within each other to be read")


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
    counton.base.errors.InvalidInput: it has more than 64 levels of lists and objects...
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    structure = structure_of(data)
    if sum(structure.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS:
        raise InvalidInput(f"it has more than {MOST_ITEMS:,} values: write it in parts")
    return json.loads(data)


@cache
def _marks() -> Any:
    """By how much each byte goes deeper; numpy is loaded where something is read."""
    import numpy as np

    found = np.zeros(256, np.int8)
    found[[*b"[{"]], found[[*b"]}"]] = 1, -1
    return found


def structure_of(data: bytes) -> bytes:
    """JSON without its texts, if no reader goes too deep in it."""
    import numpy as np

    found = _TEXT.sub(b"", data)
    depth = 0
    for at in range(0, len(found), _BLOCK):
        marks = np.frombuffer(found, np.uint8)[at : at + _BLOCK]
        depths = depth + np.cumsum(_marks()[marks], dtype=np.int64)
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
        most: bytes that it may be.

    Raises:
        InvalidInput: it is more.
        ValueError: it is no such bytes, or ends early.

    >>> inflate(zlib.compress(b"cells"), 100)
    b'cells'
    >>> inflate(zlib.compress(bytes(10**6)), 100)
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInput: it is compressed, and more than 100 bytes...
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
        kept: control characters that stay as they are.

    >>> print(printable("shop\x1b[2J\x9b31m, \u202eedoc, " + chr(0xDC80)))
    shop\x1b[2J\x9b31m, \u202eedoc, \udc80
    >>> printable("Äpfel, 東京, 👩‍👩‍👦") == "Äpfel, 東京, 👩‍👩‍👦"
    True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if one in kept or _is_shown(one) else one.encode("unicode_escape").decode()
        for one in text
    )


def _is_shown(one: str) -> bool:
    return one.isprintable() or one in _JOINERS or unicodedata.category(one) in ("Zs", "Co", "Cn")

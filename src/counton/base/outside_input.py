"""Safe reading of untrusted input: files, JSON, TOML, compressed bytes, text for a terminal."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
import unicodedata
import zlib
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import InvalidInputError

#: Largest depth of nested lists and objects.
MOST_DEPTH = 64
#: Most values in one JSON text; each takes at most some hundred bytes of memory.
MOST_ITEMS = 2**23
#: Matches a JSON string, also an unterminated one, without backtracking, which takes memory.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_CHARACTERS_PER_BLOCK = 2**20
#: Invisible characters that some scripts need within names.
_JOINERS = "\u200c\u200d"


def open_plain(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a plain file; refuse a pipe, a device or a folder without waiting."""
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(
            errno.EINVAL, "it is no plain file, but a folder, a pipe or a device", os.fspath(path)
        )
    return descriptor


def read_plain(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a plain file; refuse a pipe, a device or a folder without waiting.

    >>> read_plain(os.devnull)
    Traceback (most recent call last):
    ...
    OSError: [Errno 22] it is no plain file, but a folder, a pipe or a device: '/dev/null'
    """
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()


class SqliteHeader(NamedTuple):
    """Application number of a SQLite file, and the size of its pages."""

    application_id: int
    page_bytes: int


def sqlite_header(path: Path) -> SqliteHeader | None:
    """Read the header of a SQLite file; None for any other. No lock is taken, no file is made.

    If a process opens and closes a SQLite file itself, POSIX drops all locks of its connections on
    that file, and others then delete a log that is in use. So only SQLite opens the file.

    Raises:
        OSError: the file is missing or unreadable, or is a folder.
    """
    import sqlite3  # only states and files of rows need it

    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory")
    if not stat.S_ISREG(status.st_mode) or status.st_size < 100:  # SQLite takes 0 bytes for 0 rows
        return None
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as file:
            # The file may be shorter than its header says: the rest may be in its log.
            file.execute("PRAGMA writable_schema = ON").close()
            (application_id,) = file.execute("PRAGMA application_id").fetchone()
            (page_size,) = file.execute("PRAGMA page_size").fetchone()
    except sqlite3.OperationalError as error:
        raise PermissionError(13, str(error)) from None
    except sqlite3.DatabaseError:
        return None
    return SqliteHeader(application_id, page_size)


#: Matches a TOML string, which may lack its end, or a comment.
_TOML_TEXT = re.compile(
    r"""
    "{3} (?: [^"\\] | \\. | "(?!"") )*+ (?: "{3,5} | \Z )
    | '{3} (?: [^'] | '(?!'') )*+ (?: '{3,5} | \Z )
    | " (?: [^"\\\n] | \\. )*+ "?
    | ' [^'\n]*+ '?
    | \# [^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
#: Matches a key with as many parts as there may be levels, in a text without strings.
_TOML_LONG_KEY = re.compile(
    rf"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){{{MOST_DEPTH - 1}}}"
)


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML text that is not trusted.

    Args:
        data: the text, as bytes.

    Raises:
        InvalidInputError: lists or tables are nested too deep.
        ValueError: the text is not TOML, or not UTF-8, or has an integer of thousands of digits.

    >>> parse_toml(b"a = " + b"[" * 100_000)
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInputError: it has lists or tables nested too deep to be read...
    """
    text = data.decode()
    # The time of Python's parser grows with the square of a key's parts, or faster.
    if _TOML_LONG_KEY.search(_TOML_TEXT.sub("q", text)) is not None:
        raise _too_deep()
    try:
        parsed = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level: list[object] = [parsed]
    for _ in range(MOST_DEPTH):  # dotted keys make tables as deep as anybody likes
        level = [
            value
            for table in level
            if isinstance(table, dict | list)
            for value in (table.values() if isinstance(table, dict) else table)
        ]
        if not level:
            return parsed
    raise _too_deep()


def _too_deep() -> InvalidInputError:
    return InvalidInputError(
        "it has lists or tables nested too deep to be read: write it with fewer levels"
    )


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text that is not trusted, of a length that the caller has limited.

    Raises:
        InvalidInputError: the text has more levels or values than counton ever writes.
        ValueError: the text is not JSON, or has an integer of thousands of digits.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInputError: it has more than 64 levels of lists and objects...
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    structure = structure_of(data)
    if sum(structure.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS:
        raise InvalidInputError(
            f"it has more than {MOST_ITEMS:,} values, too many to be read: split it into several "
            "files"
        )
    return json.loads(data)


@cache
def _marks() -> Any:
    """Return a table by byte: +1 for an opening bracket of JSON, -1 for a closing one, else 0."""
    import numpy as np

    changes = np.zeros(256, np.int8)
    changes[[*b"[{"]] = 1
    changes[[*b"]}"]] = -1
    return changes


def structure_of(data: bytes) -> bytes:
    """Return JSON without its strings, so that brackets are structure; refuse deep nesting."""
    import numpy as np

    structure = _TEXT.sub(b"", data)
    depth = 0
    for start in range(0, len(structure), _CHARACTERS_PER_BLOCK):
        marks = np.frombuffer(structure, np.uint8)[start : start + _CHARACTERS_PER_BLOCK]
        depths = depth + np.cumsum(_marks()[marks], dtype=np.int64)
        if depths.max(initial=0) > MOST_DEPTH:
            raise InvalidInputError(
                f"it has more than {MOST_DEPTH} levels of lists and objects, and counton writes no "
                "more: give the text as counton wrote it"
            )
        depth = int(depths[-1])
    return structure


def inflate(data: bytes, most: int) -> bytes:
    """Decompress bytes that are not trusted to at most ``most`` bytes.

    Raises:
        InvalidInputError: there are more than ``most`` bytes.
        ValueError: the bytes are not compressed by ``zlib``, or end early.

    >>> inflate(zlib.compress(bytes(10**6)), 100)
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInputError: its compressed data expand to more than 100 bytes, ...
    """
    reader = zlib.decompressobj()
    try:
        inflated = reader.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(
            f"its compressed data are damaged ({error}): compress it again, or send it again"
        ) from error
    if len(inflated) > most:
        raise InvalidInputError(
            f"its compressed data expand to more than {most:,} bytes, more than counton ever "
            f"writes: give the file as counton wrote it"
        )
    if not reader.eof:
        raise ValueError("the compressed data end early")
    return inflated


def shown_name(name: str) -> str:
    r"""Return a name as screens show it: in one line, invisible characters as codes.

    Files and JSON hold the name itself.

    >>> print(shown_name("north\nsouth"), shown_name(chr(0x200B)))
    north\nsouth \u200b
    """
    return printable(name, "")


def printable(text: str, kept: str = "\n") -> str:
    r"""Escape characters that could control a terminal, reverse the writing or are invisible.

    ``kept`` are control characters to keep.

    >>> print(printable("shop\x1b[2J\x9b31m, \u202eedoc, " + chr(0xDC80)))
    shop\x1b[2J\x9b31m, \u202eedoc, \udc80
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        or character in kept
        or character in _JOINERS
        or unicodedata.category(character) in ("Zs", "Co", "Cn")
        else character.encode("unicode_escape").decode()
        for character in text
    )

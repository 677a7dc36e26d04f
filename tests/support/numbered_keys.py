"""Noise keys known in advance, so that a page shows numbers that its commands print again.

Keys of new states, and salts of further streams, are numbered from 1. The keys follow from these
numbers, so nobody may use them for data.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counton.noise import Key

#: The variable that names the file in which the number of the last key stands.
VARIABLE = "COUNTON_NUMBERED_KEYS"


def next_number(counter: Path) -> int:
    """Return the number after the last one.

    Args:
        counter: the file with the last number; without it, there was none.
    """
    number = 1 + int(counter.read_text() if counter.exists() else 0)
    counter.write_text(str(number))
    return number


def number_keys() -> None:
    """Let this process number its keys and salts from now on, if the variable names a file."""
    if name := os.environ.get(VARIABLE):
        from counton.noise import Key

        counter = Path(name)
        with_salt = Key.with_salt

        def generate() -> Key:
            words = f"key {next_number(counter)} of a page"
            return Key._holding(sha256(words.encode()).digest())

        def with_numbered_salt(key: Key, salt: str | None = None) -> Key:
            return with_salt(key, salt or f"{next_number(counter):032x}")

        Key.generate = staticmethod(generate)  # type: ignore[method-assign]
        Key.with_salt = with_numbered_salt  # type: ignore[method-assign, assignment]

"""Noise keys known in advance, so that a page shows numbers that its commands print again.

The state that a page makes first has key 1, the next one key 2. The keys follow from these numbers,
so nobody may use them for data.
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


def next_key(counter: Path) -> Key:
    """Return the key after the last one.

    Args:
        counter: the file with the number of the last key; without it, there was none.
    """
    from counton.noise import Key

    number = 1 + int(counter.read_text() if counter.exists() else 0)
    counter.write_text(str(number))
    return Key._holding(sha256(f"key {number} of a page".encode()).digest())


def number_keys() -> None:
    """Let this process make numbered keys from now on, if the variable names a file."""
    if counter := os.environ.get(VARIABLE):
        from counton.noise import Key

        Key.generate = staticmethod(lambda: next_key(Path(counter)))  # type: ignore[method-assign]

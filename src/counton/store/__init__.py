"""What outlives a process: streams journaled in a database, and receipts of single releases.

Names are loaded when they are first used: receipts need no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counton.extras import require
from counton.lazy import loader

if TYPE_CHECKING:
    from counton.store.database import state_file as state_file
    from counton.store.keyfile import key_path as key_path
    from counton.store.receipts import Receipts as Receipts
    from counton.store.store import Store as Store
    from counton.store.store import state_summary as state_summary
    from counton.store.stream import Stream as Stream

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Receipts": "counton.store.receipts",
    "Store": "counton.store.store",
    "Stream": "counton.store.stream",
    "state_summary": "counton.store.store",
    "key_path": "counton.store.keyfile",
    "state_file": "counton.store.database",
}

_WITHOUT_DATABASE = {"Receipts"}

__all__ = ["Receipts", "Store", "Stream", "key_path", "state_file", "state_summary"]


_load = loader(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME and name not in _WITHOUT_DATABASE:
        require("sqlalchemy")
    return _load(name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""What outlives a process: streams journaled in a database, and receipts of single releases.

Names are loaded when they are first used: receipts need no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counton.store.database import state_file as state_file
    from counton.store.keyfile import key_path as key_path
    from counton.store.receipts import Receipts as Receipts
    from counton.store.store import Store as Store
    from counton.store.store import describe_state as describe_state
    from counton.store.stream import Stream as Stream

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Receipts": "counton.store.receipts",
    "Store": "counton.store.store",
    "Stream": "counton.store.stream",
    "describe_state": "counton.store.store",
    "key_path": "counton.store.keyfile",
    "state_file": "counton.store.database",
}

__all__ = ["Receipts", "Store", "Stream", "describe_state", "key_path", "state_file"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'counton.store' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise ModuleNotFoundError(
            "durable streams need SQLAlchemy, which is not installed: pip install 'counton[store]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]

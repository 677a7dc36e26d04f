"""What outlives a process: streams, journaled in a database with their ledger.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counton.lazy import loader, require

if TYPE_CHECKING:
    from counton.store.database import state_file as state_file
    from counton.store.keyfile import key_path as key_path
    from counton.store.store import Store as Store
    from counton.store.store import state_summary as state_summary
    from counton.store.stream import Stream as Stream
    from counton.store.verification import Verification as Verification
    from counton.store.verification import verify as verify

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Store": "counton.store.store",
    "Stream": "counton.store.stream",
    "Verification": "counton.store.verification",
    "state_summary": "counton.store.store",
    "key_path": "counton.store.keyfile",
    "state_file": "counton.store.database",
    "verify": "counton.store.verification",
}

__all__ = [
    "Store",
    "Stream",
    "Verification",
    "key_path",
    "state_file",
    "state_summary",
    "verify",
]


_load = loader(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        require("sqlalchemy")
    return _load(name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

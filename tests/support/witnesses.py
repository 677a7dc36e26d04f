"""Where the witness of a state is, and states that have none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from counton.state import Store


def witness_file(state: str | os.PathLike[str]) -> Path:
    """The file of a state's witness, in the folder that the state remembers."""
    with Store(state) as store, store.database.transaction(write=False) as connection:
        folder = connection.value("SELECT witness FROM counton_database")
        return Path(folder) / f"{store.database.identity}.witness"


def without_witness(patch: pytest.MonkeyPatch) -> None:
    """New states have none: they have one identity, or a copy goes on beside its state."""
    for module in ("keys", "rollback_guard"):
        patch.setattr(f"counton.state.{module}.default_folder", lambda: "none")


def refuse_writing(patch: pytest.MonkeyPatch, word: str = ".witness") -> None:
    """Let files with this word in their paths be as immutable ones: not even their owner writes."""
    plain = os.open

    def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY) and word in str(path):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return plain(path, flags, *more, **others)

    patch.setattr(os, "open", opened)


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, salts and secrets that are the same for each new stream, so that noise is compared."""
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", lambda size: bytes(range(size)))
    without_witness(monkeypatch)
    monkeypatch.setattr("counton.noise.key.secrets.token_hex", lambda size: "5a" * size)

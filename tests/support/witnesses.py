"""Where the witness of a state is, and states that have none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counton.state import Store


def witness_file(state: str | os.PathLike[str]) -> Path:
    """The file of a state's witness, in the folder that the state remembers."""
    with Store(state) as store, store.database.transaction(write=False) as connection:
        folder = connection.value("SELECT witness FROM counton_database")
        return Path(folder) / f"{store.database.identity}.witness"


def without_witness(patch: pytest.MonkeyPatch) -> None:
    """New states have none: they have one identity, or a copy goes on beside its state."""
    for module in ("keys", "state_witness"):
        patch.setattr(f"counton.state.{module}.default_folder", lambda: "none")


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, salts and secrets that are the same for each new stream, so that noise is compared."""
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", lambda size: bytes(range(size)))
    without_witness(monkeypatch)
    monkeypatch.setattr("counton.noise.key.secrets.token_hex", lambda size: "5a" * size)

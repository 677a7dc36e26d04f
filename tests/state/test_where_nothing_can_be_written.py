"""A state in a place where nothing can be written is refused: SQLite could not lock it."""

from pathlib import Path
from typing import Any

import pytest

from counton import PureDP, Stream
from counton.base.errors import StateUnavailableError
from counton.state import Store, state_summary, verify
from counton.state.backup import back_up
from counton.strategies import Binary


@pytest.mark.parametrize("act", [
    Store, state_summary, verify, lambda state: Stream.open(state, "visits"),
    lambda state: back_up(state, state.with_name("copy.db")),
])  # fmt: skip
def test_unwritable_folder_with_state_is_not_read_without_locks(
    act: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "v.db"
    with Stream.create(state, "visits", Binary(9), PureDP(1)) as stream:
        stream.release(3)
    names = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(
        StateUnavailableError, match=r"may not write, so it cannot be locked.*copy it th"
    ):
        act(state)
    monkeypatch.undo()
    assert sorted(tmp_path.iterdir()) == names
    assert state_summary(state)["streams"][0]["step"] == 1

"""A connection to a database that a test forgets is told by it, with each Python."""

import gc
import sqlite3

import pytest


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_forgotten_connection_is_told(forgotten: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.disable()  # else this one grows older, and with it all that others forgot would be told
    gc.collect(0)
    told: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: told.append(found.exc_value))
    connection = sqlite3.connect(":memory:")
    if not forgotten:
        connection.close()
    try:
        del connection
        gc.collect(0)
    finally:
        gc.enable()
    assert [isinstance(one, ResourceWarning) for one in told] == [True] * forgotten

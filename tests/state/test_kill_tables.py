"""Processes that are killed while they release a table never show two data sets under one name."""

import json
import os
import sys
from pathlib import Path

import pytest
from forked_commands import forked_python
from patience import HANGS
from programs import run_program

#: Shorter, of a table too: `test_restored_copies`, a process killed before it noted its release.
pytestmark = [pytest.mark.slow, pytest.mark.long]
#: Kills; at every event on request: COUNTON_KILLS=200 pytest tests/state/test_kill_tables.py.
KILLS = int(os.environ.get("COUNTON_KILLS", "8"))


def test_killed_at_any_place_a_name_shows_one_table(tmp_path: Path) -> None:
    worker = Path(__file__).with_name("killing.py")
    done = run_program(
        [forked_python(), worker, "tables", tmp_path, "none", str(KILLS), "2024"],
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["found"]
    assert set(found) == {"new", "old"}
    for after in found.values():
        # By the place: what is not kept is not shown, and the last two are before and after that.
        assert set(after) == {"nothing", "kept", "shown"}, found
        assert sorted(after, key=["nothing", "kept", "shown"].index) == after
        assert after[-2:] == ["kept", "shown"], found

"""Processes that are killed while they release a table never show two data sets under one name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
#: Kills; more on request: COUNTON_KILLS=100 pytest tests/store/test_kill_tables.py.
KILLS = int(os.environ.get("COUNTON_KILLS", "32"))


def test_killed_at_any_moment_a_name_shows_one_table(tmp_path: Path) -> None:
    worker = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, worker, "tables", tmp_path, "none", str(KILLS), "2024"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    found = Counter(json.loads(done.stdout)["found"])
    assert sum(found.values()) == KILLS
    assert found["nothing"] > KILLS / 4, found
    assert found["shown"] > KILLS / 8, found

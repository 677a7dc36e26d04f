"""Jobs killed at any moment and typed again: nothing lost, nothing doubled, all bounded."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forked_commands import forked_python
from patience import HANGS

from counton.base.private import open_private
from counton.noise import Key
from counton.state import Stream, verify

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("killing_nights.py")
MOST = 2
#: Kills, one in each of six nights; more on request.
KILLS = int(os.environ.get("COUNTON_KILLS", "6"))


def rows_of(state: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What is kept of a stream: exact sums, what was released, and what was seen."""
    columns = {
        "streams": "checkpoint, step",
        "journal": "step, input_digests, estimates, std",
        "observed": "step, shape, steps, totals",
    }
    connection = sqlite3.connect(state)
    found = {
        table: connection.execute(f"SELECT {which} FROM counton_{table} ORDER BY step").fetchall()  # noqa: S608
        for table, which in columns.items()
    }
    connection.close()
    return found


@pytest.mark.parametrize("mode", ["append", "whole", "many", "revised"])
def test_the_same_command_again_ends_with_the_table_of_an_undisturbed_run(
    mode: str, tmp_path: Path
) -> None:
    kills = KILLS // 2 if mode in ("many", "revised") else KILLS
    done = subprocess.run(
        [forked_python(), WORKER, tmp_path, mode, str(kills), "2024"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= kills
    assert seen["shown"] == seen["expected"]

    if mode in ("many", "revised"):
        kept = [rows_of(tmp_path / f"{state}.db") for state in ("killed", "undisturbed")]
        assert kept[0] == kept[1]
        assert kept[0]["journal"]
        key = Key.from_text((tmp_path / "many.key").read_text())
        assert all(one.right for one in verify(tmp_path / "killed.db", key=key))
        return
    facts = {}
    for state in ("killed", "undisturbed"):
        with Stream.open(tmp_path / f"{state}.db", "count") as stream:
            parts = list(open_private(stream.marks("user")))
            taken = Counter((part.period, digest) for part in parts for digest in part.digests)
            assert max(taken.values()) == MOST
            facts[state] = sorted(
                (part.period, *cell)
                for part in parts
                for cell in zip(*(fact.tolist() for fact in part.facts), strict=True)
            )
            totals = stream.releases().values[-1].sum()
        assert totals == len(facts[state])
    assert facts["killed"] == facts["undisturbed"]

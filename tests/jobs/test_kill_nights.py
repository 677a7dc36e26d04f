"""Jobs killed at any moment and typed again: nothing lost, nothing doubled, all bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from patience import HANGS

from counton.private import open_private
from counton.store import Stream

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("killing_nights.py")
MOST = 2
#: Kills, three in each of six nights; more on request.
KILLS = int(os.environ.get("COUNTON_KILLS", "18"))


@pytest.mark.parametrize("mode", ["append", "whole"])
def test_the_same_command_again_ends_with_the_table_of_an_undisturbed_run(
    mode: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, WORKER, tmp_path, mode, str(KILLS), "2024"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= KILLS
    assert seen["shown"] == seen["expected"]

    facts = {}
    for state in ("killed", "undisturbed"):
        with Stream.open(tmp_path / f"{state}.db", "events") as stream:
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

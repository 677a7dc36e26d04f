"""Jobs killed at any moment and typed again: nothing lost, nothing doubled, all bounded."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from databases import rows_in
from forked_commands import forked_python
from patience import HANGS
from postgresql_server import Server
from programs import run_program
from some_cases import long

from counton.base.private import reveal
from counton.noise import Key
from counton.state import Stream, verify

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("killing_nights.py")
MOST = 2
#: Kills, one in each of six nights; more on request.
KILLS = int(os.environ.get("COUNTON_KILLS", "6"))


def rows_of(state: str) -> dict[str, list[dict[str, Any]]]:
    """What is kept of a stream: exact sums, what was released, and what was seen."""
    columns = {
        "streams": "checkpoint, step, details",
        "journal": "step, input_digests, estimates, std",
        "observed": "step, shape, steps, totals",
        "marks": "kind, period, part, marks",
    }
    return {
        table: rows_in(state, f"SELECT {which} FROM counton_{table} ORDER BY 1, 2, 3")  # noqa: S608
        for table, which in columns.items()
    }


def slots_of(state: str, key: Key | None = None) -> list[tuple[int, ...]]:
    """The slots of all people, without whose they are."""
    with Stream.open(state, "count", key=key) as stream:
        parts = reveal(stream.digest_sets("user"))
        return sorted(
            (part.period, *facts)
            for part in parts
            for facts in zip(*(fact.tolist() for fact in part.columns), strict=True)
        )


MODES = ("whole", "many", "revised", "covered", "covered-postgres", "slots")


@pytest.fixture(params=["append", *map(long, MODES)])
def mode_and_states(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    """How nights come, and two empty states."""
    mode, _, server = request.param.partition("-")
    if server:
        there: Server = request.getfixturevalue("postgres_server")
        return mode, there.schema(), there.schema()
    return mode, str(tmp_path / "killed.db"), str(tmp_path / "undisturbed.db")


def test_repeated_command_after_kill_ends_with_undisturbed_table(
    mode_and_states: tuple[str, str, str], tmp_path: Path
) -> None:
    mode, *states = mode_and_states
    kills = KILLS // 2 if mode in ("many", "revised") else KILLS
    done = run_program(
        [forked_python(), WORKER, tmp_path, mode, str(kills), "2024", *states],
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= kills
    assert seen["shown"] == seen["expected"]

    if mode not in ("append", "whole"):
        kept = [rows_of(state) for state in states]
        key = Key.from_text((tmp_path / "many.key").read_text())
        if mode == "slots":  # each state has a secret of its own
            assert slots_of(states[0], key) == slots_of(states[1], key)
            kept = [{**one, "marks": []} for one in kept]
        assert kept[0] == kept[1]
        assert kept[0]["journal"]
        assert all(one.right for one in verify(states[0], key=key))
        return
    facts = {}
    for state in states:
        with Stream.open(state, "count") as stream:
            parts = list(reveal(stream.digest_sets("user")))
            taken = Counter((part.period, digest) for part in parts for digest in part.digests)
            assert max(taken.values()) == MOST
            totals = stream.releases().values[-1].sum()
        facts[state] = slots_of(state)
        assert totals == len(facts[state])
    assert facts[states[0]] == facts[states[1]]

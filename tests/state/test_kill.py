"""Writers that are killed, or that fight over a stream, never show two values for one step."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import looked_into, rows_in
from forked_commands import forked_python
from patience import HANGS
from programs import run_program
from some_cases import long

from counton import Key, PureDP, Stream
from counton.base.private import Private
from counton.state import journal
from counton.state.commit_input import CommitInput

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("killing.py")


def run(mode: str, state: str | Path, key_file: Path, count: int) -> dict[str, Any]:
    done = run_program(
        [forked_python(), WORKER, mode, state, key_file, str(count), "2024"],
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rows(state: str | Path, table: str) -> list[dict[str, Any]]:
    of_streams = {"id", "writer_epoch", "checksum", "seal"}  # a seal names its state
    but = {"created"} | (of_streams if table == "counton_streams" else set())
    said = f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608 - a table
    return [{n: v for n, v in row.items() if n not in but} for row in rows_in(state, said)]


def journaled(state: str | Path, last: int) -> tuple[bytes, bytes]:
    """Values and digests of inputs of all steps, however they were cut into rows."""
    with looked_into(state) as connection:
        terms = json.loads(connection.value("SELECT terms FROM counton_streams"))
        entries = journal.read(connection, 1, 1, last + 1, terms)
    return entries.values.tobytes(), entries.input_digests


@pytest.fixture
def killing() -> Any:
    """The worker as a module, for its inputs and constants."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("killing", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "the.key"
    Key.generate().save(path)
    return path


def shown_values(lines: list[str]) -> dict[int, set[str]]:
    """Every value that was shown of each step. A last line cut by the kill does not occur."""
    values: dict[int, set[str]] = {}
    for line in lines:
        step, value = line.split()
        values.setdefault(int(step), set()).add(value)
    return values


@pytest.mark.parametrize("kills", [18, long(36)])
def test_journal_after_kills_equals_undisturbed_run(
    state: str, tmp_path: Path, key_file: Path, killing: Any, kills: int
) -> None:
    seen = run("kill", state, key_file, kills)
    assert len(seen["landed"]) == kills

    key = Key.load(key_file)
    with Stream.open(state, killing.NAME, key=key) as stream:
        last = stream.step + 5
        rest = killing.inputs(stream.step + 1, 5)
        windows = {last - 4 + i: x for i, x in enumerate(rest)}
        stream.commit(
            Private(CommitInput(rest, windows, [f"file {last - 4 + i}" for i in range(5)]))
        )

    # With a witness of its own: the other one has seen what the key gave to the other state.
    undisturbed = tmp_path / "undisturbed.db"
    xs = killing.inputs(1, last)
    with Stream.create(
        undisturbed,
        killing.NAME,
        killing.STRATEGY,
        PureDP(1),
        key=key,
        shape=killing.SHAPE,
        rollback_guard=tmp_path / "alone",
    ) as stream:
        for steps in (range(last - 5), range(last - 5, last)):  # the last five as above
            windows = {1 + i: xs[i] for i in steps}
            sources = [f"file {1 + i}" for i in steps]
            stream.commit(Private(CommitInput(xs[steps.start : steps.stop], windows, sources)))
        values = stream.releases().values
    assert journaled(state, last) == journaled(undisturbed, last)
    for table in ("counton_streams", "counton_observed", "counton_sources"):
        assert rows(state, table) == rows(undisturbed, table), table

    shown = shown_values(seen["shown"])
    assert len(shown) > kills / 4
    for step, texts in shown.items():
        assert texts == {values[step - 1].astype("<i8").tobytes().hex()}, step

    # the kills really struck everywhere
    phases = Counter(phase for phase, _ in seen["landed"])
    assert set(phases) == set(killing.PHASES), phases
    assert len({step for _, step in seen["landed"]}) > kills / 3


def test_competing_writers_release_one_value_per_step(
    state: str, key_file: Path, killing: Any
) -> None:
    seen = run("race", state, key_file, 3)
    assert not [line for lines in seen["shown"] for line in lines if line.startswith("error")]
    # inputs differ between the writers, so two values of one step would show
    steps = [int(line.split()[0]) for lines in seen["shown"] for line in lines]
    assert len(steps) == len(set(steps))
    assert all(len(lines) >= 2 * killing.TURNS for lines in seen["shown"])
    with Stream.open(state, killing.NAME, key=Key.load(key_file)) as stream:
        assert stream.step == max(steps)
        values = stream.releases().values.astype("<i8")
    for step, texts in shown_values([line for lines in seen["shown"] for line in lines]).items():
        assert texts == {np.ascontiguousarray(values[step - 1]).tobytes().hex()}


@pytest.mark.parametrize("apart", [4, long(1)])
def test_state_killed_during_creation_is_usable_without_repair(
    tmp_path: Path, key_file: Path, apart: int
) -> None:
    seen = run("create", tmp_path, key_file, apart)
    found = Counter(seen["found"])
    assert seen["shown"] == 1
    assert set(found) == {"no state", "stream at 0", "stream at 1"}, found
    assert sum(found.values()) > 40 / apart, found

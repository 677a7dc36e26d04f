"""Commands ``counton upgrade`` that are killed at any moment lose no release, and double none.

``make test-upgrades UPGRADE_KILLS=200`` kills so often in files and on a server, and prints what
the killed left; ``COUNTON_SEED`` chooses other moments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import CORPUS, job_of, unpack
from databases import looked_into, rows_in
from forked_commands import forked_counton
from next_format import SINCE_15
from patience import HANGS

from counton import PureDP, Stream
from counton.run import run
from counton.state import schema, upgrades
from counton.strategies import Binary

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("COUNTON_KILLS", "2"))
SEED = int(os.environ.get("COUNTON_SEED", "2024"))
OLDEST = upgrades.OLDEST
#: Columns that the oldest format lacks, or an upgrade changes; limits had users before.
NEW = {("counton_database", "format"), *SINCE_15}
COMMAND = [sys.executable, "-m", "counton.cli", "upgrade"]


def tables_of(state: Path | str) -> list[str]:
    said = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'counton_%'"
    if isinstance(state, str):
        said = (
            "SELECT tablename AS name FROM pg_tables"
            " WHERE schemaname = current_schema() AND tablename LIKE 'counton_%'"
        )
    return sorted(row["name"] for row in rows_in(state, said))


def content(state: Path | str) -> dict[str, list[str]]:
    """All rows of all tables, apart from what an upgrade changes."""
    return {
        table: sorted(
            repr({name: _plain(value) for name, value in row.items() if (table, name) not in NEW})
            for row in rows_in(state, f"SELECT * FROM {table}")  # noqa: S608
        )
        for table in tables_of(state)
    }


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def format_of(state: Path | str) -> int:
    """The format of a state, which its columns and both of its numbers agree on."""
    with looked_into(state) as connection:
        names = {
            (table, one[0])
            for table in dict(SINCE_15)
            for one in connection.execute(f"SELECT * FROM {table}").description  # noqa: S608
        }
        found = int(connection.value("SELECT format FROM counton_database"))
        assert upgrades.format_of(connection) == found
    assert ({*SINCE_15} <= names) == (found == schema.FORMAT)
    return found


def losses(before: dict[str, list[str]], now: dict[str, list[str]]) -> tuple[int, int]:
    """How many rows are gone or another, and how many are there that were not."""
    lost = doubled = 0
    for table in before.keys() | now.keys():
        was, found = Counter(before.get(table, [])), Counter(now.get(table, []))
        lost, doubled = lost + (was - found).total(), doubled + (found - was).total()
    return lost, doubled


def killed(command: list[str], begun: Callable[[], bool], delay: float | None, rest: float) -> bool:
    """Kill a command after a delay, or so long after it has begun its work; whether it was."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if delay is None:
        while process.poll() is None and not begun():
            time.sleep(0.0002)
        delay = rest
    time.sleep(delay)
    process.kill()
    errors = process.communicate(timeout=HANGS)[1]
    assert process.returncode in (0, -9), errors
    return process.returncode == -9


def kill_often(
    made: Iterator[Path | str], begun: Callable[[Path | str], bool], copy_of: Callable[..., Any]
) -> Counter[str]:
    """Kill upgrades of fresh states, half at any moment and half while they work.

    Returns:
        How often a killed command left its state in the oldest format and in the newest one.
    """
    chance, seen = np.random.default_rng(SEED), Counter[str]()
    whole = working = 0.0
    while seen["old"] + seen["new"] < KILLS:
        state = next(made)
        before, command = content(state), [*COMMAND, str(state)]
        assert format_of(state) == OLDEST
        if not whole:  # how long it takes, measured once
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while not begun(state) and process.poll() is None:
                time.sleep(0.0002)
            at = time.monotonic()
            assert process.wait(HANGS) == 0
            whole, working = time.monotonic() - start, time.monotonic() - at
            assert losses(before, content(state)) == (0, 0)
            continue
        delay = chance.uniform(0, whole) if seen.total() % 2 else None
        if not killed(command, lambda: begun(state), delay, chance.uniform(0, working)):  # noqa: B023
            seen["ended by itself"] += 1
            continue
        left = format_of(state)
        assert losses(before, content(state)) == (0, 0)
        seen["new" if left == schema.FORMAT else "old"] += 1
        command = [forked_counton(), "upgrade", str(state)]
        again = subprocess.run(command, capture_output=True, timeout=HANGS, text=True)
        assert again.returncode == 0, again.stderr
        assert format_of(state) == schema.FORMAT
        assert losses(before, content(state)) == (0, 0)
        assert losses(before, copy_of(state)) == (0, 0)
        assert isinstance(state, str) or not [*state.parent.glob(".*")]
    return seen


def test_states_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    corpus = tmp_path / "corpus"
    unpack(CORPUS / str(OLDEST) / "states.tar.xz", corpus)

    def made() -> Iterator[Path | str]:
        for number, kept in enumerate(cycle(sorted(corpus.rglob("*.db")))):
            state = tmp_path / f"{number}" / "s.db"
            state.parent.mkdir()
            state.write_bytes(kept.read_bytes())
            state.chmod(0o600)
            yield state

    def begun(state: Path | str) -> bool:
        return any(Path(state).parent.glob(f".s.db.format{OLDEST}.*"))

    def copy_of(state: Path) -> Any:
        return content(state.with_name(f"s.db.format{OLDEST}"))

    seen = kill_often(made(), begun, copy_of)
    print(f"files: {KILLS} kills, 0 rows lost, 0 doubled; {dict(seen)}")


def test_a_state_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    unpack(CORPUS / str(OLDEST) / "states.tar.xz", tmp_path)
    folder = tmp_path / "count"
    released = rows_in(folder / "s.db", "SELECT estimates FROM counton_journal")

    def begun() -> bool:
        return any(folder.glob(f".s.db.format{OLDEST}.*"))

    killed([*COMMAND, str(folder / "s.db")], begun, None, 0)
    events = folder / "e.csv"
    events.write_text(events.read_text() + "2024-03-01T03:30,home,ann,3,u,v,1,a,9\n")
    with run(job_of("count", folder).having(until="2024-03-01T05:00")) as outcome:
        assert outcome.after > outcome.before
    assert format_of(folder / "s.db") == schema.FORMAT
    now = rows_in(folder / "s.db", "SELECT estimates FROM counton_journal ORDER BY step")
    assert now[: len(released)] == released


def test_losses_are_seen() -> None:
    before = {"counton_journal": ["one", "two"], "counton_ledger": ["it"]}
    assert losses(before, {"counton_journal": ["one", "two"]}) == (1, 0)
    assert losses(before, before | {"counton_journal": ["one", "two", "two"]}) == (0, 1)
    assert losses(before, before | {"counton_journal": ["one", "other"]}) == (1, 1)


def test_states_on_a_server(
    postgres_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))

    def made() -> Iterator[Path | str]:
        for number in range(10_000):
            url: str = postgres_server.schema()
            key = str(tmp_path / f"{number}.key")
            with Stream.create(url, "visits", Binary(100), PureDP(1), key=key) as stream:
                for step in range(3):
                    stream.release(step)
            with looked_into(url) as connection:
                for table, column in SINCE_15:
                    connection.run(f"ALTER TABLE {table} DROP COLUMN {column}")
                connection.run("UPDATE counton_database SET format = :oldest", oldest=OLDEST)
            yield url

    def begun(_: Path | str) -> bool:
        said = "SELECT 1 AS one FROM pg_locks WHERE locktype = 'advisory'"
        return bool(rows_in(postgres_server.url, said))

    def copy_of(url: str) -> Any:
        name = url.rpartition("%3D")[2]
        return content(url.replace(name, f"{name}_format_{OLDEST}"))

    seen = kill_often(made(), begun, copy_of)
    print(f"server: {KILLS} kills, 0 rows lost, 0 doubled; {dict(seen)}")

"""A state on a read-only mount is read, by every command that releases nothing."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counton import PureDP, Stream
from counton.base.errors import StateError, StateUnavailable
from counton.run import Job, run
from counton.state import Store, sqlite_file, state_summary, verify
from counton.state.backup import back_up
from counton.strategies import Binary

#: What reads a state; what would write it.
READS = ("show", "verify", "methods", "ledger", "export --out {}/x.csv",
         "backup --out {}/b.db", "publish --to {}/p.db")  # fmt: skip
WRITES = ("ledger --limit-epsilon 9", "end --name count")
#: Mounts a folder so that nothing can be written in it, in a name space of its own.
MOUNT = "mount -t tmpfs none {0} && cp -a {1}/. {0} && mount -o remount,ro {0} && "


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder with a state that has released."""
    folder = tmp_path / "used"
    folder.mkdir()
    (folder / "e.csv").write_text("time\n2024-03-01T09:00\n2024-03-02T10:15\n")
    asked: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "steps": 30}
    asked |= {"epsilon": 1}
    run(Job("count", folder / "e.csv", folder / "v.db", until="2024-03-04", **asked)).close()
    return folder


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    there, empty = tmp_path / "mount", tmp_path / "empty"
    there.mkdir()
    empty.mkdir()
    tried = MOUNT.format(there, empty) + "true"
    if (
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-m", "sh", "-c", tried], capture_output=True).returncode
    ):
        pytest.skip("this process may mount nothing")
    return there


#: Commands in one interpreter: the exit code of each, and what it said.
COMMANDS = """
import contextlib, io, json, sys
from counton.cli.__main__ import main
found = []
for sys.argv[1:] in json.loads(sys.argv[1]):
    told, code = io.StringIO(), 0
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    found.append((told.getvalue()[-300:], code))
print(json.dumps(found))
"""


def commands(names: tuple[str, ...], mount: Path, used: Path, out: Path) -> list[tuple[str, int]]:
    """What commands on a state that is mounted say, and their exit codes."""
    split = [name.format(out).split() for name in names]
    asked = [[word, str(mount / "v.db"), *rest] for word, *rest in split]
    script = MOUNT.format(mount, used) + 'exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", COMMANDS,
         json.dumps(asked)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [(said, code) for said, code in json.loads(done.stdout)]


@pytest.mark.slow
def test_a_read_only_mount_is_read(mount: Path, used: Path, tmp_path: Path) -> None:
    assert [code for _, code in commands(READS, mount, used, tmp_path)] == [0] * len(READS)
    for said, code in commands(WRITES, mount, used, tmp_path):
        assert code == 9, said
        assert "is in a place where this process may not write" in " ".join(said.split())


@pytest.mark.slow
@pytest.mark.parametrize("index", [True, False])
def test_a_log_that_is_not_merged_is_read_or_refused(
    mount: Path, used: Path, tmp_path: Path, index: bool
) -> None:
    """Without it an old state would be shown: the last releases are in it alone."""
    copy = tmp_path / "copy"
    with closing(sqlite3.connect(used / "v.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM counton_streams").fetchall()
        job = Job("count", used / "e.csv", used / "v.db", until="2024-03-06", quiet=9)
        run(job).close()
        shutil.copytree(used, copy)
    assert (copy / "v.db-wal").stat().st_size
    if not index:
        (copy / "v.db-shm").unlink()
    ((said, code),) = commands(("show --json",), mount, copy, tmp_path)
    asked = [sys.executable, "-m", "counton", "show", str(mount / "v.db"), "--json"]
    script = MOUNT.format(mount, copy) + 'exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *asked],
                          capture_output=True, text=True)  # fmt: skip
    if code == 0:
        assert '"step": 5' in done.stdout
    else:
        assert (code, index) == (9, False)
        assert "use a copy made by counton backup" in " ".join(said.split())


def test_what_is_read_without_locks_was_not_changed(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written beside it, by which another process would take it for its own."""
    before = state_summary(used / "v.db")
    names = sorted(path.name for path in used.iterdir())
    monkeypatch.setattr(sqlite_file, "may_be_written", lambda path: False)
    assert state_summary(used / "v.db") == before
    assert not verify(used / "v.db")[0].problems
    back_up(used / "v.db", used.with_name("copy.db"))
    assert sorted(path.name for path in used.iterdir()) == names
    with Store(used / "v.db") as store:
        assert store.streams == ("count",)
        monkeypatch.undo()
        Stream.create(used / "v.db", "more", Binary(9), PureDP(1)).close()
        monkeypatch.setattr(sqlite_file, "may_be_written", lambda path: False)
        with pytest.raises(StateUnavailable, match="was changed by another process while it"):
            store.streams  # noqa: B018
    with Store(used / "v.db") as store, pytest.raises(StateError, match="may not write"):
        store.set_limit(PureDP(9))
    assert os.access(used, os.W_OK)

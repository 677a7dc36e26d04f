"""Files that are written whole: what a killed process left goes, what another one writes stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from counton.base.atomic_file import replace_file

WRITES = """
import sys, time
from pathlib import Path
from counton.base.atomic_file import replace_file

def write(name):
    Path(name).write_text("half")
    print("writing", flush=True)
    sys.stdin.readline()

replace_file(Path(sys.argv[1]), write)
"""


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_file_left_by_killed_process_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "totals.csv"
    arguments = [sys.executable, "-c", WRITES, os.fspath(path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "writing\n"
        replace_file(path, lambda name: Path(name).write_text("whole"))
        assert len(hidden(tmp_path)) == 1, "it is being written"
        running.kill()
    assert len(hidden(tmp_path)) == 1
    other = tmp_path / ".another.csv"
    other.touch()
    replace_file(path, lambda name: Path(name).write_text("12"))
    assert path.read_text() == "12"
    assert hidden(tmp_path) == [other]


def test_a_long_name_has_room(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 100 + ".csv")
    replace_file(path, lambda name: Path(name).write_text("12"))
    assert [found.name for found in tmp_path.iterdir()] == [path.name]

"""Every line of ``counton run`` is true, by an oracle that reads only the files and the job.

Seeds draw small situations (`tests/support/nightly_situations.py`): files of events, of users and
of counts, with rows that are late, missing, repeated, changed or unreadable. Each line of each
night is checked (`tests/support/line_checks.py`) against numbers that the oracle works out
(`tests/support/line_oracle.py`). Lines that say what a later run does are proved by that run
(`tests/support/nightly_play.py`). A line of an unknown form fails the test.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from line_checks import LineChecker
from line_oracle import UntrueError
from nightly_play import FalseLine, Output, Player, set_clocks

from counton.cli.app import app

#: Seeds whose situations print nearly all forms of lines. Some show a repaired line: 4 the row that
#: a release needs, 215 the last window, 244 names of undeclared groups, 341 a longer delay, and
#: 2006 a revised window.
SEEDS = (3, 4, 81, 82, 91, 95, 127, 134, 215, 244, 261, 323, 324, 341, 2006)
#: Further seeds, for which there is less time. The first ones show other lines.
MORE_SEEDS = (17, 25, 27, 257, 934, 1375, *range(100, 120), 135, 140)


#: Seeds whose lines have many numbers, each of which a test falsifies.
PLANTED_SEEDS = (19, 50)
#: Beginnings of lines of which every number is checked.
CHECKED_LINES = ("confidential: job told: rows", "Released", "No new window", "told: would")


class PlantingPlayer(Player):
    """Raises each number of each line by one; the checks must reject the line."""

    def check(self, here: tuple[int, int], checker: LineChecker, done: Output) -> list[FalseLine]:
        """Return the falsified lines that the checks accept."""
        accepted = super().check(here, checker, done)
        for line in f"{done.stdout}\n{done.stderr}".splitlines():
            if not line.startswith(CHECKED_LINES):
                continue
            for found in re.finditer(r"\d+", line):
                number = f"{int(found[0]) + 1}".rjust(len(found[0]), "0")
                planted = f"{line[: found.start()]}{number}{line[found.end() :]}"
                try:
                    checker.check(planted)
                except (UntrueError, ValueError):  # a month has no day 32
                    continue
                accepted.append(FalseLine(*here, "planted", planted, "accepted"))
        return accepted


def command(folder: Path, *words: str) -> Any:
    """Call ``counton`` in a folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        done = CliRunner().invoke(app, [*words], prog_name="counton")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def false_lines(
    seeds: Iterable[int],
    folder: Path,
    patched: pytest.MonkeyPatch,
    player: type[Player] = Player,
) -> list[FalseLine]:
    """Return the lines of some situations that are not true."""
    set_clocks(patched)
    found = []
    for seed in seeds:
        own_folder = folder / f"{seed}"
        (own_folder / "work").mkdir(parents=True)
        patched.setenv("XDG_STATE_HOME", str(own_folder / "home"))
        found += player(seed, own_folder / "work", command).play()
    return found


def test_lines_of_runs_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not false_lines(SEEDS, tmp_path, monkeypatch)


def test_falsified_numbers_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not false_lines(PLANTED_SEEDS, tmp_path, monkeypatch, PlantingPlayer)


@pytest.mark.long
def test_lines_of_more_runs_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not false_lines(MORE_SEEDS, tmp_path, monkeypatch)

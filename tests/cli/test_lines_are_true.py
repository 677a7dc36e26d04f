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

#: Seeds whose situations print nearly all forms of lines.
SEEDS = (6, 17, 19, 22, 30, 35, 50, 68, 76, 89)
#: Further seeds, for which there is less time.
MORE_SEEDS = range(100, 135)


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

"""The recipe ``recipes/compare.py`` compares groups of a released file, for all pairs together."""

import re
from pathlib import Path
from typing import Any

import polars as pl
from forked_commands import forked_python
from programs import run_program

import counton
from counton import PureDP, release

RECIPE = Path(__file__).parents[2] / "recipes" / "compare.py"
ROWS = pl.DataFrame({"at": ["2024-03-01"] * 40, "shop": ["a", "b"] * 20, "paid": [1, 7] * 20})
TIMES: dict[str, Any] = {
    "time": "at", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "2024-03-02",
}  # fmt: skip


def answered(*words: object) -> list[str]:
    done = run_program([forked_python(), str(RECIPE), *map(str, words)])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_pairs_are_answered_together_from_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    state = tmp_path / "s.db"
    given: dict[str, Any] = {
        "group_by": "shop", "groups": "a,b,c", "state": state, "output": file,
        "privacy_unit": "sale",
    }  # fmt: skip
    release("count", ROWS, guarantee=PureDP(1), **given, **TIMES)
    state.unlink()
    _, one, two = answered(file, "a,b", "a,c")
    for pair, said in (("a minus b", one), ("a minus c", two)):
        assert re.match(rf"{pair}: \S+, and with probability 95% between", said)
    alone = counton.read(file).difference("a", "b")
    ends = [float(end) for end in re.findall(r"(-?[\d.]+)", one.replace("\u2212", "-"))[-2:]]
    assert ends[1] - ends[0] > alone.upper - alone.lower  # two intervals hold together

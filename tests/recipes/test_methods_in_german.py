"""The recipe ``methods_in_german.py``: a released file is enough for a text of one's own."""

from pathlib import Path

import polars as pl
from forked_commands import forked_python
from programs import run_program

from counton import PureDP, release

RECIPE = Path(__file__).parents[2] / "recipes" / "methods_in_german.py"


def test_a_file_is_explained_in_german(tmp_path: Path) -> None:
    release(
        "count", pl.DataFrame({"at": ["2024-03-01", "2024-03-02"]}), time="at", every="1d",
        start="2024-03-01", windows=9, until="2024-03-03", privacy_unit="visit",
        guarantee=PureDP(1),
        state=tmp_path / "s.db", output=tmp_path / "t.csv",
    )  # fmt: skip
    done = run_program([forked_python(), str(RECIPE), str(tmp_path / "t.csv"), "--was", "Besuche"])
    assert done.returncode == 0, done.stderr
    assert "Besuche wurden bisher 2 Mal veröffentlicht" in done.stdout
    assert "ob es «Besuch» gibt" in done.stdout
    assert "von je 95 %" in done.stdout

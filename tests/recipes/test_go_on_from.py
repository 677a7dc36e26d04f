"""The recipe ``go_on_from.py``: totals of two streams, with the noise of both."""

import io
import subprocess
from pathlib import Path

import polars as pl
import pytest
from forked_commands import forked_python

from counton import PureDP, read, release

RECIPE = Path(__file__).parents[2] / "recipes" / "go_on_from.py"


def test_the_last_totals_are_added_with_their_variance(tmp_path: Path) -> None:
    days = [f"2024-03-0{day}" for day in (1, 1, 2, 3, 4, 4)]
    rows = pl.DataFrame({"at": days, "page": ["a", "b"] * 3})
    for name, start, until in (("old", 1, 3), ("new", 3, 5)):
        release(
            "count", rows, time="at", every="1d", start=f"2024-03-0{start}", windows=2,
            group_by="page",
            groups="a,b", series="cumulative", until=f"2024-03-0{until}", privacy_unit="visit",
            stream=name,
            guarantee=PureDP(1), state=tmp_path / "s.db", output=tmp_path / f"{name}.csv",
        )  # fmt: skip
    old, new = (read(tmp_path / f"{name}.csv") for name in ("old", "new"))
    files = [str(tmp_path / f"{name}.csv") for name in ("old", "new")]
    done = subprocess.run([forked_python(), str(RECIPE), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    both = pl.read_csv(io.StringIO(done.stdout))
    last = old.table().filter(pl.col("window_index") == 2)
    for row, own in zip(both.rows(named=True), new.table().rows(named=True), strict=True):
        (before,) = last.filter(pl.col("group") == row["group"]).rows(named=True)
        assert row["estimate"] == own["estimate"] + before["estimate"]
        assert row["noise_std"] == pytest.approx(
            (own["noise_std"] ** 2 + before["noise_std"] ** 2) ** 0.5
        )
        assert row["lower"] < own["lower"] + before["lower"] < row["estimate"] < row["upper"]

"""The recipe ``recipes/chart_of_groups.py`` draws tables of every kind from their file alone."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from forked_commands import forked_python
from programs import run_program

from counton import PureDP, release

RECIPE = Path(__file__).parents[2] / "recipes" / "chart_of_groups.py"
ROWS = pl.DataFrame({"at": ["2024-03-01"] * 40, "shop": ["a", "b"] * 20, "paid": [1, 7] * 20})


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("count", {"group_by": "shop", "groups": "a,b", "series": "per-window"}),
        ("quantiles", {"value": "paid", "lower": 0, "upper": 10, "cells": 10}),
        ("hierarchy", {"levels": "shop", "groups": pl.DataFrame({"shop": ["a", "b"]})}),
    ],
)
def test_a_file_is_drawn(what: Any, more: dict[str, Any], tmp_path: Path) -> None:
    if what == "hierarchy":
        more["groups"].write_csv(tmp_path / "shops.csv")
        more = {**more, "groups": str(tmp_path / "shops.csv")}
    else:
        more |= {"time": "at", "every": "1d", "start": "2024-03-01", "windows": 9}
        more |= {"until": "2024-03-02"}
    release(
        what, ROWS, guarantee=PureDP(1), state=tmp_path / "s.db", output=tmp_path / "t.csv",
        privacy_unit="sale", **more,
    )  # fmt: skip
    done = run_program(
        [forked_python(), str(RECIPE), str(tmp_path / "t.csv"), str(tmp_path / "t.svg")]
    )
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "t.svg").read_text()
    assert "</svg>" in drawn

"""The recipe ``recipes/every_group.py`` asks for all groups of a released file at once."""

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton import PureDP, Release, release
from counton.base.errors import InvalidInputError

RECIPE = Path(__file__).parents[2] / "recipes" / "every_group.py"
MADE = runpy.run_path(str(RECIPE), run_name="recipe")
SHARES = MADE["shares"]
CHANGES = MADE["changes"]
PAGES = ["home", "shop", "far"]
ROWS = pl.DataFrame({
    "time": [f"2024-03-0{day}T10:00" for day in (1, 2) for _ in range(300)],
    "page": ["home"] * 250 + ["shop"] * 50 + ["home"] * 40 + ["shop"] * 260,
    "paid": [float(number % 7) for number in range(600)],
})  # fmt: skip


def released(what: Any, tmp_path: Path, **more: Any) -> Release:
    given: dict[str, Any] = {"group_by": "page", "groups": PAGES, "guarantee": PureDP(2), **more}
    release(
        what, ROWS, time="time", every="1d", start="2024-03-01", windows=30, until="2024-03-03",
        state=tmp_path / f"{what}.db", output=tmp_path / f"{what}.parquet", **given,
    )  # fmt: skip
    return counton.read(tmp_path / f"{what}.parquet")


@pytest.mark.parametrize("of", [None, "count", "sum"])
def test_shares_hold_for_all_groups_together(of: str | None, tmp_path: Path) -> None:
    paid: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}
    found = released("count" if of is None else "average", tmp_path, **(paid if of else {}))
    table = SHARES(found, steps="1:2", of=of)
    alone = [found.share(page, steps="1:2", of=of, at_once=3) for page in PAGES]
    assert table["group"].to_list() == PAGES
    assert table["noise_std"].to_list() == [one.std for one in alone]
    for name in ("lower", "upper"):
        assert table[name].to_list() == [getattr(one, name) for one in alone]
    assert table["estimate"].to_list() == [one.value for one in alone]


def test_largest_change_has_one_band_for_all_groups(tmp_path: Path) -> None:
    found = released("count", tmp_path)
    table = CHANGES(found, "2:2", "1:1")
    assert sorted(table["group"][:2].to_list()) == ["home", "shop"]
    assert table["group"][2] == "far"
    assert not table["is_certain"].any()  # one falls by as much as the other rises
    alone = found.at(0.95 ** (1 / 3)).difference("far", "far", steps="2:2", other_steps="1:1")
    assert table.filter(group="far").select("lower", "upper").row(0) == alone.interval()
    pair = found.only(groups=["home", "far"])
    assert CHANGES(pair, "2:2", "1:1").select("group", "is_certain").rows() == [
        ("home", True), ("far", False),
    ]  # fmt: skip


def test_a_release_without_groups_is_refused(tmp_path: Path) -> None:
    cells = {"group_by": None, "groups": None, "value": "paid", "lower": 0, "upper": 8, "cells": 8}
    with pytest.raises(InvalidInputError, match="has no groups"):
        CHANGES(released("quantiles", tmp_path, **cells), "2:2", "1:1")

"""Whole totals that never fall: what is shown is never changed, and adds up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import read, release
from counton.base.errors import InvalidInput
from tests.cli.conftest import Workplace

DAYS = 12


def asked(folder: Path, **more: Any) -> dict[str, Any]:
    """A stream of two groups of which one has few rows, so that its released totals fall."""
    rows = [(f"2024-03-{day:02}", "a") for day in range(1, DAYS + 1) for _ in range(3)]
    rows += [("2024-03-02", "b")]
    events = pl.DataFrame(rows, schema=["at", "group"], orient="row")
    told: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "steps": 30}
    told |= {"by": "group", "domain": ["a", "b"], "epsilon": 1, "state": folder / "s.db"}
    return {"events": events, "until": f"2024-03-{DAYS + 1:02}", **told, **more}


@pytest.mark.parametrize("form", ["totals", "both"])
def test_totals_are_whole_never_fall_and_add_up(tmp_path: Path, form: str) -> None:
    found = release("count", **asked(tmp_path, release=form))
    shown, table = found.table(never_falling=True), found.table()
    for group in ("a", "b"):
        totals = shown.filter(group=group)["total"].to_numpy()
        released = table.filter(group=group)["estimate"].to_numpy()
        rises = shown.filter(group=group)["in_window"].to_list()
        assert np.diff(totals, prepend=0).tolist() == rises
        expected = [max(0, *np.floor(released[: end + 1] + 0.5)) for end in range(DAYS)]
        assert totals.tolist() == expected
    assert (
        found.only(range(5, 8), ["b"])
        .table(never_falling=True)
        .equals(shown.filter(pl.col("step").is_between(5, 7), group="b"))
    )
    assert found.table().equals(table)  # which stays as it is


def test_later_releases_change_no_total(tmp_path: Path) -> None:
    told = asked(tmp_path)
    nights = []
    for day in range(2, DAYS + 2):
        found = release("count", **told | {"until": f"2024-03-{day:02}"})
        nights.append(found.table(never_falling=True))
    for night in nights:
        assert nights[-1].head(night.height).equals(night)
    again = release("count", **told, out=tmp_path / "t.parquet")
    assert (
        read(tmp_path / "t.parquet")
        .table(never_falling=True)
        .equals(again.table(never_falling=True))
    )


@pytest.mark.parametrize("found_groups", [False, True])
def test_a_file_that_lacks_an_earlier_total_is_refused(tmp_path: Path, found_groups: bool) -> None:
    """An earlier total may be the largest, so the totals here would be less than those shown."""
    told, out = asked(tmp_path), tmp_path / "t.csv"
    if found_groups:
        many = pl.concat([told["events"]] * 20)
        told |= {"events": many, "domain": None, "unknown": "discover", "delta": "1e-6"}
    found = release("count", **told, out=out)
    whole = found.table(never_falling=True)
    written = pl.read_csv(out)
    assert read(out).table(never_falling=True).equals(whole)
    for rows in (pl.col("step") > 4, pl.col("step") != 6):
        written.filter(rows | (pl.col("group") != "a")).write_csv(out)
        with pytest.raises(InvalidInput, match="of 'a' is not in the file; give a file that has"):
            read(out).table(never_falling=True)
    # Of these steps no earlier total is missing.
    early = read(out).only(range(1, 6)).table(never_falling=True)
    assert early.equals(whole.filter(pl.col("step") < 6))


def test_export_writes_them_with_the_bias(tmp_path: Path, place: Workplace) -> None:
    state, out = tmp_path / "s.db", tmp_path / "w.csv"
    found = release("count", **asked(tmp_path))
    done = place.plain("export", str(state), "--never-falling", "--out", str(out), "--steps", "4:")
    assert done.code == 0, done.err
    assert "too large on the average" in " ".join(done.out.split())
    expected = found.only(range(4, DAYS + 1)).table(never_falling=True)
    assert pl.read_csv(out)["total"].to_list() == expected["total"].to_list()
    about = json.loads((tmp_path / "w.csv.json").read_text())
    assert about["totals_of"] == "events"
    assert "at least 0 and rounded" in about["note"]
    for more, said in (
        (["--versions"], "totals that are never changed: leave one out"),
        (["--metadata", "csvw"], "--metadata csvw describes released numbers, and --never-falling"),
        (["--out", "x.svg"], "give --out as a table"),
        (["--out", "x.html"], "give --out as a table"),
    ):
        done = place.plain("export", str(state), "--never-falling", *more)
        assert (done.code, said in " ".join(done.err.split())) == (2, True), done.err


@pytest.mark.parametrize(
    ("what", "more", "said"),
    [
        ("count", {"release": "windows"}, "has no totals: begin a stream with release=totals"),
        ("count", {"revise": "2d", "steps": None, "append": True}, "has no totals"),
        (
            "sum",
            {"value": "paid", "lower": -1, "upper": 9, "resolution": 1},
            "adds up values that may be below 0",
        ),
        (
            "average",
            {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
            "releases average, and only totals of counts and sums never fall",
        ),
    ],
)
def test_other_releases_are_refused(
    tmp_path: Path, what: Any, more: dict[str, Any], said: str
) -> None:
    told = asked(tmp_path, **more)
    told["events"] = told["events"].with_columns(paid=pl.lit(1))
    found = release(what, **told)
    with pytest.raises(InvalidInput, match=f"never_falling=True is for totals, and .* {said}"):
        found.table(never_falling=True)


@pytest.mark.parametrize("steps", [range(3), range(3, DAYS + 2), range(1, 5, 2), range(-2, 2)])
@pytest.mark.parametrize("rising", [False, True])
def test_steps_that_are_not_released_are_refused(
    tmp_path: Path, steps: range, rising: bool
) -> None:
    found = release("count", **asked(tmp_path))
    with pytest.raises(InvalidInput, match=r"steps 1 to 12 are there: give consecutive ones"):
        found.table(steps, never_falling=rising)
    with pytest.raises(InvalidInput, match=r"such as range\(1, 13\)"):
        found.only(steps)

"""Of many groups only those that are large enough are written, and a file says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton.base.errors import InvalidInput
from counton.released.large_groups import only_above
from counton.released.release import Release
from counton.run import Job, commit, export, read_rows, resolve, run
from counton.run.outputs import Outputs
from counton.run.settlement import recall

PAGES = [f"page {number}" for number in range(40)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of forty pages, of which every day others are large."""
    folder = tmp_path_factory.mktemp("above")
    rows = [
        (f"2024-03-0{day}T12:00", PAGES[number])
        for day in (1, 2, 3)
        for number in range(40)
        for _ in range(60 if number % 10 == day else 1 if number % 2 else 0)
    ]
    events = pl.DataFrame(rows, schema=["time", "page"], orient="row")
    asked: dict[str, Any] = {
        "time": "time",
        "by": "page",
        "domain": PAGES,
        "every": "1d",
        "release": "windows",
    }
    path = folder / "s.db"
    job = Job("count", events, path, start="2024-03-01", steps=9, epsilon=1, **asked)
    with pytest.MonkeyPatch.context() as patch:  # each day has a large row, whatever is large
        token = "counton.noise.key.secrets.token_bytes"
        patch.setattr(token, lambda size: bytes(range(size, 0, -1)))
        run(job.having(until="2024-03-04")).close()
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
@pytest.mark.parametrize("of", ["above", "surely_above"])
def test_only_large_rows_are_written_and_read_again(
    of: str, ending: str, state: Path, tmp_path: Path
) -> None:
    file, number = tmp_path / f"large.{ending}", "window_estimate" if of == "above" else "lower"
    number = "window_lower" if of == "surely_above" else number
    all_rows = export(state).table()
    large = all_rows.filter(pl.col("window_estimate") > 20).sort("window_estimate")
    least = large.row(0, named=True)
    # Above half of the interval of the smallest large one: its estimate is, and its lower end not.
    value = (least["window_estimate"] + least["window_lower"]) / 2
    wanted = all_rows.filter(pl.col(number) > value)
    assert (least["group"] in wanted["group"]) == (of == "above")
    threshold: dict[str, Any] = {of: value}
    found = export(state, file, **threshold)
    assert found.table().equals(wanted.select(found.table().columns))
    shown = counton.read(file)
    assert shown.table().equals(found.table())
    assert shown.numbers.left_out()[0] == found.numbers.left_out()[0] > 0
    described = counton.read(file).numbers.definition.above
    assert described is not None
    assert (described.value, described.of == "lower", described.declared) == (
        *(value, of == "surely_above", 40),
    )
    assert set(shown.numbers.groups) == set(wanted["group"])
    beside = file if ending == "parquet" else tmp_path / f"large.{ending}.json"
    text = beside.read_bytes()
    hidden = set(PAGES) - set(wanted["group"])
    if ending != "parquet":  # names of groups that are not shown are not written
        assert not {name for name in hidden if json.dumps(name).encode() in text}
        assert "on the average larger" in str(json.loads(text)["notes"])


def release(job: Job) -> Release:
    asked = recall(job)
    with resolve(asked) as settled:
        outputs = Outputs.of_run(settled)
        with commit(settled, read_rows(settled)) as outcome:
            released = outputs.write(outcome).released
    assert released is not None
    return Release(released)


@pytest.mark.parametrize("of", ["above", "surely_above"])
def test_a_job_writes_only_large_rows_and_its_stream_remembers_it(of: str, tmp_path: Path) -> None:
    def rows(days: range) -> pl.DataFrame:
        found = [(f"2024-03-0{day}T12:00", f"page {day}") for day in days for _ in range(60)]
        return pl.DataFrame(found, schema=["time", "page"], orient="row")

    threshold: dict[str, Any] = {of: 20}
    out, path = tmp_path / "large.csv", tmp_path / "s.db"
    first = Job("count", rows(range(1, 3)), path, time="time", by="page", domain=PAGES, every="1d",
                start="2024-03-01", steps=9, epsilon=1, release="windows", until="2024-03-03",
                out=out, **threshold)  # fmt: skip
    written = release(first)
    assert len(written.table()) == 80  # what is answered is whole
    assert counton.read(out).table().equals(export(path, **threshold).table())
    assert counton.read(out).table()["group"].to_list() == ["page 1", "page 2"]
    again = Job("count", rows(range(1, 4)), path, until="2024-03-04")
    release(again)
    assert counton.read(out).table()["group"].to_list() == ["page 1", "page 2", "page 3"]
    whole = tmp_path / "whole.csv"
    release(again.having(out=whole))
    assert len(counton.read(whole).table()) == 120
    assert len(pl.read_csv(out)) == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"above": 1, "surely_above": 2}, "two thresholds"),
        ({"above": float("inf")}, "not a finite number"),
        ({"above": 1, "out": None}, "chooses the rows of a table"),
        ({"above": 1, "by": None, "domain": None}, "chooses groups by their counts or sums"),
        ({"above": 1, "domain": None, "unknown": "discover", "delta": 1e-6}, "no listed groups"),
    ],
)
def test_thresholds_of_a_job_are_refused_before_anything_is_released(
    wrong: dict[str, Any], words: str, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"time": ["2024-03-01T12:00"], "page": ["page 1"]})
    job = Job("count", rows, tmp_path / "s.db", time="time", by="page", domain=PAGES, every="1d",
              start="2024-03-01", steps=9, epsilon=1, until="2024-03-02",
              out=tmp_path / "large.csv")  # fmt: skip
    with pytest.raises(InvalidInput, match=words):
        release(job.having(**wrong))
    assert not (tmp_path / "s.db").exists()


def test_what_is_not_shown_is_not_answered(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "large.parquet"
    export(state, file, above=20)
    shown, whole = counton.read(file), export(state)
    one, step = shown.table().select("group", "step").row(0)
    with pytest.raises(InvalidInput, match="rows are left out whose estimate is not above 20"):
        shown.numbers.number_of("page 0")
    away = [each for each in (1, 2, 3) if each not in shown.table().filter(group=one)["step"]]
    with pytest.raises(InvalidInput, match=r"not in the file.*not above 20"):
        shown.difference(one, shown.numbers.groups[-1], steps=f"{away[0]}:{away[0]}")
    for refused in (
        shown.numbers.whole,
        shown.band,
        lambda: shown.changes("2:2", "1:1"),
        lambda: shown.share(one, steps=f"{step}:{step}"),
    ):
        with pytest.raises(InvalidInput, match="not chosen by their size"):
            refused()
    assert whole.share("page 1", steps="1:1") is not None


def test_files_of_several_nights_are_one_release(state: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{step}.parquet" for step in (1, 2, 3)]
    for step, file in enumerate(files, 1):
        export(state, file, steps=range(step, step + 1), above=20)
    together, at_once = counton.read(files), export(state, above=20)
    order = ["step", "group"]
    assert together.table().sort(order).equals(at_once.table().sort(order))
    other = tmp_path / "other.parquet"
    export(state, other, above=10)
    with pytest.raises(InvalidInput, match="their above differ"):
        counton.read([files[0], other])


def test_refuses_what_has_no_rows_to_choose(state: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="two thresholds"):
        export(state, above=1, surely_above=2)
    with pytest.raises(InvalidInput, match="not a finite number"):
        export(state, above=float("nan"))
    one = Job("count", pl.DataFrame({"time": ["2024-03-01T12:00"]}), tmp_path / "t.db", time="time",
              every="1d", start="2024-03-01", steps=9, epsilon=1, until="2024-03-03")  # fmt: skip
    run(one).close()
    with pytest.raises(InvalidInput, match="chooses groups by their counts or sums"):
        export(tmp_path / "t.db", above=3)
    nothing = export(state, tmp_path / "none.parquet", above=10**6)
    assert (nothing.table().height, nothing.numbers.groups) == (0, ())
    assert counton.read(tmp_path / "none.parquet").table().height == 0
    assert only_above(export(state).numbers, -(10**6)).table().height == 120

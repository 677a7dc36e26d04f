"""Rows that stand for several events: ``--count-column COLUMN``."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton import Count, Job, Key, PureDP, RunningStatistic, release
from counton.base.errors import InvalidInputError
from counton.run.spec.plan_spec import plan_spec
from counton.state.store import Store
from counton.statistics import Report

from .conftest import Workplace

ROWS = [("01", "bridge", "17"), ("01", "mill", "0"), ("02", "bridge", "5000000000"),
        ("02", "bridge", "4"), ("03", "mill", "2")]  # fmt: skip
EXACT = {("01", "bridge"): 17, ("01", "mill"): 0, ("02", "bridge"): 5000000004, ("02", "mill"): 0,
         ("03", "bridge"): 0, ("03", "mill"): 2}  # fmt: skip
STREAM: dict[str, Any] = {
    "time": "day", "every": "1d", "start": "2024-03-01", "windows": "9", "group_by": "site",
    "groups": "bridge,mill", "count_column": "passages", "privacy_unit": "passage",
    "series": "per-window",
    "until": "2024-03-04",
}  # fmt: skip


def table(folder: Path, rows: list[tuple[str, str, str]] = ROWS, name: str = "daily.csv") -> str:
    lines = "".join(f"2024-03-{day},{site},{many}\n" for day, site, many in rows)
    (folder / name).write_text(f"day,site,passages\n{lines}")
    return str(folder / name)


def words(place: Workplace, **more: str | None) -> list[str]:
    said = {"epsilon": "100", **STREAM, "state": str(place.state), **more}
    return [
        word
        for name, one in said.items()
        if one is not None
        for word in (f"--{name.replace('_', '-')}", one)
    ]


def released(file: Path) -> dict[tuple[str, str], int]:
    found = counton.read(file).table()
    days = found["window_start"].dt.strftime("%d")
    return dict(zip(zip(days, found["group"], strict=True), found["estimate"], strict=True))


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_rows_of_one_window_and_group_add_up(form: str, place: Workplace) -> None:
    events = table(place.folder)
    out = place.folder / "o.csv"
    frame = pl.read_csv(events, schema_overrides={"passages": pl.Int64})
    if form != "csv":
        events = str(place.folder / f"daily.{form}")
        frame.write_parquet(events) if form == "parquet" else frame.write_ndjson(events)
    done = place.plain("release", "count", events, *words(place), "--output", str(out)).fine()
    assert "Number of passages, by site, in each day" in done.out
    assert "sum of" not in done.out
    assert released(out) == EXACT
    again = place.plain("release", "count", events, *place.again, "--until", "2024-03-04")
    assert (again.code, "No new window is due" in again.out) == (0, True)
    assert "The privacy unit is one passage" in place.shown()
    assert place.plain("verify", str(place.state)).code == 0


def test_a_frame_with_counts_is_the_same_job(place: Workplace) -> None:
    frame = pl.read_csv(table(place.folder))
    said = {**STREAM, "windows": 9, "groups": ["bridge", "mill"], "epsilon": 100}
    by_name = release("count", frame, state=place.state, **said)
    assert by_name.table()["estimate"].to_list() == [*EXACT.values()]
    del said["count_column"]
    as_object = release(
        Count(counts=True), frame, value="passages", state=place.folder / "two.db", **said
    )
    assert as_object.table()["estimate"].to_list() == [*EXACT.values()]
    # By name it is the same stream, and spends nothing more; another column is another one.
    again = release("count", frame, count_column="passages", state=place.folder / "two.db", **said)
    assert again.table().equals(as_object.table())
    other = frame.with_columns(lorries=pl.col("passages"))
    release("count", other, count_column="lorries", state=place.folder / "two.db", **said)
    with Store(place.folder / "two.db") as store:
        assert [*store.streams] == ["count_of_lorries", "count_of_passages"]


def test_one_passage_more_moves_one_number_by_one(place: Workplace) -> None:
    """The noise is that of one event: that of a plain count, to the last digit."""
    plain, counted = (
        {**STREAM, "count_column": one, "windows": 9, "epsilon": 1} for one in (None, "n")
    )
    made = [plan_spec(Job("count", "e.csv", "s.db", **said)) for said in (plain, counted)]
    assert made[0].contribution == made[1].contribution
    assert made[0].strategy == made[1].strategy
    found = []
    for many in ("17", "18"):
        events = table(place.folder, [("01", "bridge", many), *ROWS[1:]])
        state = str(place.folder / f"{many}.db")
        out = place.folder / f"{many}.csv"
        place.plain(
            "release", "count", events, *words(place, state=state), "--output", str(out)
        ).fine()
        found.append(released(out))
    moved = {cell: found[1][cell] - found[0][cell] for cell in EXACT}
    assert moved == {cell: int(cell == ("01", "bridge")) for cell in EXACT}


@pytest.mark.parametrize("wrong", ["-1", "2.5", "1125899906842625", "many", ""])
def test_a_count_that_is_none_is_refused_with_its_line(wrong: str, place: Workplace) -> None:
    events = table(place.folder, [*ROWS[:2], ("02", "bridge", wrong)])
    said = place.plain("release", "count", events, *words(place)).refused()
    assert "row 3" in said or "line 4" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"user": "site", "max_contributions": "2"},
            "--count-column passages cannot be used with --user site",
        ),
        ({"row_id": "site"}, "--count-column passages cannot be used with --row-id site"),
        (
            {"groups": None, "unlisted_groups": "discover", "delta": "1e-6"},
            "--unlisted-groups discover cannot be used with --count-column passages",
        ),
        ({"count_column": "site"}, "not a finite number in column 'site' ('bridge')"),
    ],
)
def test_count_column_refuses_incompatible_options(
    more: dict[str, str | None], said: str, place: Workplace
) -> None:
    told = place.plain("release", "count", table(place.folder), *words(place, **more)).refused()
    assert said in told


def test_a_later_run_counts_the_same_column(place: Workplace) -> None:
    events = table(place.folder)
    assert place.plain("release", "count", events, *words(place, until="2024-03-03")).code == 0
    other = place.plain(
        "release", "count", events, *place.again, "--until", "2024-03-04", "--count-column", "site"
    )
    assert (other.code, "keeps stream count_of_passages" in other.err) == (2, True), other.err
    done = place.plain("release", "count", events, *place.again, "--until", "2024-03-04", "--json")
    assert (done.code, json.loads(done.out)["released"]) == (0, 3)


def test_a_report_takes_no_counts() -> None:
    with pytest.raises(InvalidInputError, match="counts a row more than once"):
        Report({"all": Count(counts=True)})


def test_bad_rows_file_clips_counts_above_bound(place: Workplace) -> None:
    """Set aside at once, a row would move the sum by all its events: 2^50, and in tables 2^32."""
    bad = place.folder / "bad.csv"
    days = {
        "time": "day",
        "every": "1d",
        "start": "2024-03-01",
        "windows": 4,
        "until": "2024-03-04",
    }
    sites = pl.DataFrame({"site": ["bridge", "mill"]})
    tables = {"levels": "site", "groups": sites, "count_column": "passages"}
    tries: list[Any] = [("count", {"count_column": "passages", **days}, 2**50)]
    for what, said, most in (*tries, ("hierarchy", tables, 2**32)):
        released_sums = {}
        for many in (most - 1, most, most + 1, 2 * most - 1, 2 * most, 9 * most):
            rows = [("01", "bridge", str(many)), ("02", "mill", "-1"), ("03", "mill", "2.5")]
            rows.append(("03", "mill", "0"))
            state = place.folder / f"{many}.db"
            aside = f"quarantine:{bad}"
            made = release(
                what, table(place.folder, rows), state=state, epsilon=2000, bad_rows=aside, **said
            )
            released_sums[many] = max(made.table()["estimate"].round().to_list())
            assert len(bad.read_text().splitlines()) == 3 + (many >= 2 * most)
        assert [*released_sums.values()] == [most - 1, most, most - 1, 1, 0, 0]


@pytest.mark.parametrize("wrong", [-1, 2.5, 2**50 + 1, "many", None, float("nan")])
def test_running_count_refuses_batch_with_invalid_count(wrong: Any) -> None:
    running = RunningStatistic.start(
        Count(counts=True), 9, PureDP(100), key=Key.generate(), name="n", batched=True
    )
    with pytest.raises(InvalidInputError):
        running.release_batch([3, wrong])
    assert running.release_batch([3, 4]).table_columns()["estimate"].tolist() == [7]

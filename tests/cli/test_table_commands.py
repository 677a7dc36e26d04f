"""The commands `hierarchy` and `ranges`: what they write, print, repeat and refuse."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from .conftest import Result, Workplace


class Desk:
    """A folder with a small hierarchy and a short line, and the command line called on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = self.write("places.csv", "state,county\nCA,Kings\nCA,Napa\nNY,Kings\nDC,\n")
        self.leaves = self.write("leaves.csv", "state,county,people\nNY,Kings,700\nDC,,90\n")
        self.line = self.write("line.csv", "hour,visits\n00,5\n01,0\n02,17\n03,4\n")

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def path(self, name: str) -> Path:
        return self.folder / name

    def __call__(self, *words: str) -> Result:
        return Workplace(self.folder).plain(*words)

    def hierarchy(self, *more: str, leaves: str | None = None, out: str = "out.csv") -> Result:
        options = ["--levels", "state,county", "--count-column", "people", "--groups", self.places]
        return self("release", "hierarchy", leaves or self.leaves, *options, *self.kept(out), *more)

    def ranges(self, *more: str, line: str | None = None, out: str = "out.csv") -> Result:
        hours = [] if "--label" in more else ["--label", "hour", "--groups", "00,01,02,03"]
        kept = self.kept(out)
        return self(
            "release", "ranges", line or self.line, "--count-column", "visits", *hours, *kept, *more
        )

    def kept(self, out: str) -> list[str]:
        return ["--state", str(self.path("state.db")), "--output", str(self.path(out))]

    def rest(self) -> set[str]:
        """Files in the folder besides the inputs."""
        inputs = {Path(name).name for name in (self.places, self.leaves, self.line)}
        return {path.name for path in self.folder.iterdir()} - inputs


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.json"])
def test_all_levels_are_written_and_add_up(desk: Desk, out: str) -> None:
    done = desk.hierarchy("--rho", "5", "--privacy-unit", "inhabitant", out=out).fine()
    assert "Released 7 nodes." in done.out
    later = ["--stream", "later", "--plan"]
    plan = desk.hierarchy("--rho", "5", "--privacy-unit", "inhabitant", *later, out=f"later.{out}")
    assert all(f"\n{level} " in plan.out for level in ("total", "state", "county"))
    shown = " ".join(desk("methods", str(desk.path("state.db")), "--full").out.split())
    assert "one inhabitant, which counts in one of 4 leaves, and" in shown
    assert "for each inhabitant" in " ".join(done.out.split())
    read: Any = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}
    table = read[out.split(".")[1]](desk.path(out))
    assert table.columns == [
        "tree_level",
        "state",
        "county",
        "estimate",
        "noise_std",
        "lower",
        "upper",
        "confidence_level",
    ]
    by = dict(table.group_by("tree_level").agg(pl.len()).rows())
    assert by == {"total": 1, "state": 3, "county": 3}
    states = table.filter(pl.col("tree_level") == "state")
    assert (
        states["estimate"].sum() == table.filter(pl.col("tree_level") == "total")["estimate"].item()
    )
    assert states.filter(pl.col("state") == "NY")["estimate"].item() == pytest.approx(700, abs=9)


def test_repeated_single_table_shows_released_values(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    first = desk.path("out.csv").read_text()
    desk.path("out.csv").unlink()
    again = desk.hierarchy("--rho", "5")
    assert "Nothing new. Released before: " in again.out
    assert desk.path("out.csv").read_text() == first
    changed = desk.write("leaves.csv", "state,county,people\nNY,Kings,701\nDC,,90\n")
    other = desk.hierarchy("--rho", "5", leaves=changed)
    assert (other.code, desk.path("out.csv").read_text()) == (0, first)
    assert (
        "after the table was released, not counted (to count them, start another --stream, "
        "which spends the privacy loss again)" in other.err
    )
    assert desk.hierarchy("--rho", "4", "--stream", "second", out="second.csv").code == 0


def test_tables_are_shown_with_the_streams(desk: Desk) -> None:
    state = str(desk.path("state.db"))
    desk.ranges("--rho", "1", "--privacy-unit", "visit")
    shown = desk("inspect", state).out
    assert "Stream ranges_of_visits: once" in shown
    account = desk("methods", state, "--full").out
    assert "The privacy unit is one visit, which counts in one of 4 cells" in account
    tables = json.loads(desk("inspect", state, "--json").out)["streams"]
    assert [(table["name"], table["step"]) for table in tables] == [("ranges_of_visits", 1)]
    assert tables[0]["terms"]["contribution"]["unit"] == "visit"


def test_key_and_state_are_private_files(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    for name in ("state.db", "state.db.key"):
        assert desk.path(name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs --epsilon or --rho"),
        (["--rho", "1", "--target", "state"], "--target state has no numbers by name"),
        (["--rho", "1", "--target", "state=1,state=2"], "names 'state' twice"),
        (["--rho", "1", "--levels", "state,state"], "names the column 'state' twice"),
        (
            ["--rho", "1", "--count-column", "county"],
            "--count-column county cannot be used with --levels",
        ),
        (["--rho", "1", "--target", "town=5"], "'town', which is not a level"),
        (["--target", "state=1000,county=1"], "times that of county"),
    ],
)
def test_bad_options_are_refused(desk: Desk, words: list[str], message: str) -> None:
    said = desk.hierarchy(*words).refused()
    assert message in said
    assert not desk.rest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state,county,people\nTX,Kings,1\n", "that are not listed: ('TX', 'Kings')"),
        ("state,county,people\nNY,Kings,1.5\n", "row 1 of"),
        ("state,county,people\nNY,Kings,-1\n", "has a count that is negative"),
        ("state,county,people\nNY,Kings,\n", "no value in column 'people'"),
    ],
)
def test_bad_leaves_are_refused(desk: Desk, text: str, message: str) -> None:
    said = desk.hierarchy("--rho", "1", leaves=desk.write("bad.csv", text)).refused()
    assert message in said
    assert desk.rest() == {"bad.csv"}


def test_ranges_of_a_line(desk: Desk) -> None:
    words = [
        "--epsilon",
        "20",
        "--label",
        "hour",
        "--groups",
        "00,01,02,03",
        "--privacy-unit",
        "visit",
    ]
    done = desk.ranges(*words, "--ask", "0:2,1:4").fine()
    assert "for each visit" in " ".join(done.out.split())
    assert "Released 4 cells." in done.out
    asked = pl.read_csv(desk.path("out.csv"))
    assert asked.select("from_cell", "to_before").rows() == [(0, 2), (1, 4)]
    done = desk.ranges(*words, "--stream", "whole", out="whole.csv")
    table = pl.read_csv(desk.path("whole.csv"), schema_overrides={"hour": pl.String})
    names = [
        "hour",
        "measure",
        "estimate",
        "noise_std",
        "lower",
        "upper",
        "confidence_level",
    ]
    assert table.columns == names
    assert table["hour"].to_list() == ["00", "01", "02", "03"] * 2
    totals = table.filter(measure="running total")["estimate"]
    assert table.filter(measure="count")["estimate"].sum() == totals[3]
    assert totals[3] == pytest.approx(26, abs=4)
    report = json.loads(desk.ranges(*words, "--json").out)
    assert (report["once"], report["new"], report["released"]) == (True, 0, 1)
    (_, second) = report["last"]["rows"]
    assert second["upper"] - second["estimate"] == pytest.approx(
        second["estimate"] - second["lower"]
    )
    found = desk.ranges(*words, "--plan", "--json")
    (plan,) = json.loads(found.out)["plans"].values()
    assert [number["of"] for number in plan["numbers"]] == ["0:2", "1:4"]


def test_plan_of_requested_intervals_names_each_of_them(desk: Desk) -> None:
    words = ("--rho", "1", "--ask", "0:1,0:3", "--plan", "--json")
    (plan,) = json.loads(desk.ranges(*words).out)["plans"].values()
    margins = {number["of"]: number["halfwidths"][-1] for number in plan["numbers"]}
    assert list(margins) == ["0:1", "0:3"]
    assert margins["0:1"] < margins["0:3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rho", "1", "--ask", "3"], "is not an interval"),
        (["--rho", "1", "--ask", "3:1"], "write the smaller cell first"),
        (["--rho", "1", "--ask", "0:5"], "is not within the 4 cells"),
        (["--rho", "1", "--strategy", "binary"], "--strategy binary needs --time"),
        (["--rho", "1", "--line", "best"], "line is 'best'; give one of"),
        (["--rho", "1", "--workload", "all"], "workload is 'all'"),
    ],
)
def test_bad_ranges_are_refused(desk: Desk, words: list[str], message: str) -> None:
    said = desk.ranges(*words).refused()
    assert message in said


def test_groups_table_with_column_of_counts_is_refused(desk: Desk) -> None:
    before = desk.rest()
    other = desk.write("other.CSV", "state,county,people\nDC,,90\nNY,Kings,700\n")
    said = desk.hierarchy("--rho", "1", "--groups", other).refused()
    assert "has the column of counts, 'people'" in said
    line = desk.write("line2.csv", "hour,visits\n01,0\n00,5\n02,17\n03,4\n")
    said = desk.ranges("--rho", "1", "--label", "hour", "--groups", line).refused()
    assert "has the column of counts, 'visits'" in said
    assert "list cells that are publicly known to exist" in said
    assert desk.rest() == before | {"other.CSV", "line2.csv"}


def test_ranges_refuse_labels_from_events(desk: Desk) -> None:
    said = desk.ranges("--rho", "1", "--label", "hour").refused()
    assert "ranges needs --groups" in said
    said = desk.ranges("--rho", "1", "--label", "hour", "--groups", desk.line).refused()
    assert "is the file of the events" in said
    done = desk.ranges("--rho", "1", "--label", "hour", "--groups", "00,01,02")
    assert "'hour' that are not listed: '03' (the first such row is row 4)" in done.err
    assert not desk.rest()
    desk.ranges("--rho", "100000", "--label", "hour", "--groups", "04,03,02,01,00").fine()
    table = pl.read_csv(desk.path("out.csv"), schema_overrides={"hour": pl.String})
    table = table.filter(measure="count")
    assert table["hour"].to_list() == ["04", "03", "02", "01", "00"]
    assert table["estimate"].round(0).to_list() == [0, 4, 17, 0, 5]


def test_a_screen_shows_the_largest_rows_with_their_intervals(desk: Desk) -> None:
    domain = desk.write("uneven.csv", "state,county\nDC,\nNY,Kings\nNY,Queens\n")
    leaves = desk.write("few.csv", "state,county,people\nDC,,500\nNY,Kings,300\n")
    done = desk.hierarchy("--rho", "1000000", "--groups", domain, leaves=leaves).fine()
    assert "95% confidence intervals" in done.out
    for words in ("total", "state +DC", "state +NY", "county +NY +Kings"):
        assert re.search(rf"\n{words} +\d[\d.]+ +\d", done.out), words


def test_inspect_describes_single_tables_in_file_and_state(desk: Desk) -> None:
    """The file was looked at for steps, of which it has none."""
    desk.hierarchy("--rho", "5", out="tree.parquet")
    labels = desk.write("hours.csv", "hour\n" + "".join(f"{hour:02}\n" for hour in range(24)))
    desk.ranges("--rho", "5", "--label", "hour", "--groups", labels, out="long.csv")
    state = str(desk.path("state.db"))
    named = ("hierarchy_of_people", "tree.parquet", 7), ("ranges_of_visits", "long.csv", 24)
    for name, out, rows in named:
        kind = name.partition("_")[0]
        done = desk("inspect", str(desk.path(out))).fine()
        assert f"Released table of stream {name}: once" in done.out
        assert "step" not in done.out
        found = json.loads(desk("inspect", str(desk.path(out)), "--json").out)
        assert (found["released"], len(found["rows"])) == (kind, min(rows, 20))
        assert not {"first", "last", "missing_steps"} & {*found}
    said = desk("export", state, "--stream", "ranges_of_visits", "--windows", "1:2").refused()
    assert "--windows 1:2 does not apply to stream 'ranges_of_visits', which was released" in said
    shown = desk("inspect", state).out + desk("methods", state, "--full").out
    assert "step" not in shown
    refused = desk("close", state, "--stream", "ranges_of_visits", "--drop-waiting")
    assert (refused.code, "it needs no end" in refused.err) == (2, True)


def test_verify_reports_results_with_exit_code(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    desk.ranges("--rho", "5", out="ranges.csv")
    state = str(desk.path("state.db"))
    done = desk("verify", state)
    assert (done.code, "2 of 2 releases verified: " in done.out) == (0, True)
    assert json.loads(desk("verify", state, "--json").out)["right"] is True
    desk.path("other.key").write_bytes(desk.path("state.db.key").read_bytes())
    desk.path("other.key").chmod(0o600)
    desk.path("state.db.key").unlink()
    done = desk("verify", state)
    assert (done.code, "skipped: " in done.out) == (6, True)
    assert desk("verify", state, "--key", str(desk.path("other.key"))).code == 0
    for words, code, said in (
        (("--stream", "visits"), 2, "has no release 'visits'"),
        (("--stream", "ranges_of_visits"), 6, "key"),
        (("--stream", "ranges_of_visits", "--key", str(desk.path("none.key"))), 6, "none.key"),
        (("--stream", "ranges_of_visits", "--key", desk.line), 6, "line.csv"),
    ):
        refused = desk("verify", state, *words)
        assert (refused.code, said in refused.err) == (code, True), refused.err
    assert desk("verify", str(desk.path("none.db"))).code == 2
    assert desk("verify", desk.line).code == 3
    assert desk("verify", "").code == 2

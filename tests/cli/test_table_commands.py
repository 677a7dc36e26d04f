"""The commands `hierarchy` and `ranges`: what they write, print, repeat and refuse."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.state import state_summary

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
        options = ["--levels", "state,county", "--counts", "people", "--domain", self.places]
        return self("hierarchy", leaves or self.leaves, *options, *self.kept(out), *more)

    def ranges(self, *more: str, line: str | None = None, out: str = "out.csv") -> Result:
        hours = [] if "--label" in more else ["--label", "hour", "--domain", "00,01,02,03"]
        kept = self.kept(out)
        return self("ranges", line or self.line, "--counts", "visits", *hours, *kept, *more)

    def kept(self, out: str) -> list[str]:
        return ["--state", str(self.path("state.db")), "--out", str(self.path(out))]

    def rest(self) -> set[str]:
        """Files in the folder besides the inputs."""
        inputs = {Path(name).name for name in (self.places, self.leaves, self.line)}
        return {path.name for path in self.folder.iterdir()} - inputs


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.json"])
def test_all_levels_are_written_and_add_up(desk: Desk, out: str) -> None:
    done = desk.hierarchy("--rho", "5", "--unit", "inhabitant", out=out).fine()
    assert "Released 7 nodes." in done.out
    later = ["--name", "later", "--plan"]
    plan = desk.hierarchy("--rho", "5", "--unit", "inhabitant", *later, out=f"later.{out}")
    assert all(f"\n{level} " in plan.out for level in ("total", "state", "county"))
    shown = " ".join(desk("methods", str(desk.path("state.db")), "--full").out.split())
    assert "one inhabitant, which counts in one of 4 leaves, and" in shown
    assert "one inhabitant more or less changes what is released" in " ".join(done.out.split())
    read: Any = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}
    table = read[out.split(".")[1]](desk.path(out))
    assert table.columns == ["level", "state", "county", "estimate", "std", "lower", "upper"]
    by = dict(table.group_by("level").agg(pl.len()).rows())
    assert by == {"total": 1, "state": 3, "county": 3}
    states = table.filter(pl.col("level") == "state")
    assert states["estimate"].sum() == table.filter(pl.col("level") == "total")["estimate"].item()
    assert states.filter(pl.col("state") == "NY")["estimate"].item() == pytest.approx(700, abs=9)


def test_the_same_again_and_changed_data_show_what_was_released(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    first = desk.path("out.csv").read_text()
    desk.path("out.csv").unlink()
    again = desk.hierarchy("--rho", "5")
    assert "Nothing new" in again.out
    assert desk.path("out.csv").read_text() == first
    changed = desk.write("leaves.csv", "state,county,people\nNY,Kings,701\nDC,,90\n")
    other = desk.hierarchy("--rho", "5", leaves=changed)
    assert (other.code, desk.path("out.csv").read_text()) == (0, first)
    assert "after the table was released, not counted: begin another --name" in other.err
    said = desk.hierarchy("--rho", "4").refused()
    assert "the guarantee is" in said
    assert desk.path("out.csv").read_text() == first
    assert desk.hierarchy("--rho", "4", "--name", "second", out="second.csv").code == 0


def test_another_output_shows_the_same_release_and_not_a_second_one(desk: Desk) -> None:
    assert "Released" in desk.hierarchy("--rho", "5").out
    assert "Nothing new" in desk.hierarchy("--rho", "5", out="second.csv").out
    assert desk.path("second.csv").read_text() == desk.path("out.csv").read_text()
    ledger = json.loads(desk("ledger", str(desk.path("state.db")), "--json").out)
    assert [(entry["name"], entry["rho"]) for entry in ledger["spent"]] == [
        ("hierarchy_of_people", "5")
    ]


def test_tables_obey_the_limit_and_are_shown_with_the_streams(desk: Desk) -> None:
    state = str(desk.path("state.db"))
    desk.ranges("--rho", "1", "--unit", "visit")
    assert desk("ledger", state, "--limit-rho", "3").code == 0
    refused = desk.hierarchy("--rho", "5", "--unit", "visit", out="second.csv")
    assert refused.code == 4
    assert not desk.path("second.csv").exists()
    shown = desk("show", state).out
    assert "stream ranges_of_visits: once" in shown
    account = desk("methods", state, "--full").out
    assert "The protected unit is one visit, which counts in one of 4 cells" in account
    tables = json.loads(desk("show", state, "--json").out)["streams"]
    assert [(table["name"], table["step"]) for table in tables] == [("ranges_of_visits", 1)]
    assert tables[0]["terms"]["contribution"]["unit"] == "visit"


def test_streams_and_tables_share_their_names(desk: Desk) -> None:
    events = desk.write("events.csv", "time\n2024-01-01T10:00\n")
    words = ["--time", "time", "--every", "1d", "--steps", "9", "--start", "2024-01-01"]
    words += ["--until", "2024-01-02", "--epsilon", "1", "--unit", "visit"]
    words += ["--state", str(desk.path("state.db"))]
    assert desk("count", events, *words, "--name", "visits").code == 0
    said = desk.ranges("--epsilon", "1", "--name", "visits").refused()
    assert "stream 'visits' is a 'count' and cannot be continued as a 'ranges'" in said
    assert desk.ranges("--epsilon", "1", "--name", "line").code == 0
    said = desk("count", events, *words, "--name", "line").refused()
    assert "stream 'line' is a 'ranges' and cannot be continued as a 'count'" in said
    units = json.loads(desk("ledger", str(desk.path("state.db")), "--json").out)
    assert {entry["unit"] for entry in units["spent"]} == {"visit"}  # once said, it is taken over


def test_outputs_replace_no_file_of_their_own_run(desk: Desk) -> None:
    out = str(desk.path("out.csv"))
    picture = str(desk.path("out.png"))
    for words in (["--key", out], ["--key", picture, "--plot", picture], ["--plot", desk.leaves]):
        for refused in (desk.hierarchy("--rho", "1", *words), desk.ranges("--rho", "1", *words)):
            assert refused.code == 2, words
        assert not desk.path("out.csv").exists()


def test_an_older_output_is_replaced(desk: Desk) -> None:
    desk.write("out.csv", "something else")
    desk.hierarchy("--rho", "1").fine()
    assert desk.path("out.csv").read_text().startswith("level,state")


def test_columns_that_the_released_table_needs_are_refused(desk: Desk) -> None:
    for name in ("level", "estimate", "std", "lower"):
        places = desk.write("named.csv", f"{name},people\na,1\nb,2\n")
        domain = desk.write("known.csv", f"{name}\na\nb\n")
        done = desk(
            "hierarchy", places, "--levels", name, "--counts", "people", "--domain", domain,
            "--rho", "1", *desk.kept("out.csv"),
        )  # fmt: skip
        assert done.code == 2
        assert f"is called '{name}'" in done.err
    line = desk.write("named.csv", "estimate,visits\na,1\nb,2\n")
    said = desk.ranges("--rho", "1", "--label", "estimate", "--domain", "a,b", line=line).refused()
    assert "is called 'estimate'" in said


def test_key_and_state_are_private_files(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    for name in ("state.db", "state.db.key"):
        assert desk.path(name).stat().st_mode & 0o777 == 0o600
    key = str(desk.path("own.key"))
    for state in ("b.db", "b.db", "c.db", "c.db"):
        kept = ["--key", key, "--state", str(desk.path(state))]
        desk.ranges("--rho", "5", *kept, out=f"{state}.csv").fine()
    prints = [
        state_summary(desk.path(name))["streams"][0]["key_fingerprint"] for name in ("b.db", "c.db")
    ]
    assert prints[0] != prints[1]  # a key of its own, derived with a salt


def test_targets_give_the_cost(desk: Desk) -> None:
    done = desk.hierarchy("--target", "state=50,county=100", "--json")
    report = json.loads(done.out)
    assert report["guarantee"]["guarantee"] == "zero-concentrated"
    stds: dict[str, float] = {}
    for row in report["last"]["rows"]:
        stds[row["level"]] = max(row["std"], stds.get(row["level"], 0))
    assert [*stds.values()] == pytest.approx([50, 50, 100], rel=1e-5)
    moved = desk.hierarchy("--rho", "1", "--replace", "--name", "moved", "--json", out="moved.csv")
    assert "replaced by another" in json.loads(moved.out)["protected"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the privacy loss is missing"),
        (["--rho", "1", "--target", "state"], "cannot be read; write LEVEL=STD"),
        (["--rho", "1", "--target", "state=1,state=2"], "names the level 'state' twice"),
        (["--rho", "1", "--levels", "state,state"], "is given for two purposes"),
        (["--rho", "1", "--counts", "county"], "has the column of counts"),
        (["--rho", "1", "--target", "town=5"], "'town', which is not a level"),
        (["--target", "state=1000,county=1"], "times that of county"),
        (["--epsilon", "-1"], "epsilon"),
        (["--rho", "1", "--epsilon", "1"], "state the privacy loss in two ways"),
        (["--rho", "1", "--plot", "chart.gif"], "must end in one of .png"),
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
        ("state,county,people\nNY,Kings,-1\n", "not a whole number from 0"),
        ("state,county,people\nNY,Kings,\n", "no value in column 'people'"),
        ("state,county,folk\nNY,Kings,1\n", "no column 'people'"),
        ("", "is empty"),
    ],
)
def test_bad_leaves_are_refused(desk: Desk, text: str, message: str) -> None:
    said = desk.hierarchy("--rho", "1", leaves=desk.write("bad.csv", text)).refused()
    assert message in said


def test_ranges_of_a_line(desk: Desk) -> None:
    words = ["--epsilon", "20", "--label", "hour", "--domain", "00,01,02,03", "--unit", "visit"]
    done = desk.ranges(*words, "--ask", "0:2,1:4").fine()
    assert "one visit more or less" in " ".join(done.out.split())
    assert "Released 4 cells." in done.out
    asked = pl.read_csv(desk.path("out.csv"))
    assert asked.select("from_cell", "to_before").rows() == [(0, 2), (1, 4)]
    done = desk.ranges(*words, "--name", "whole", out="whole.csv")
    table = pl.read_csv(desk.path("whole.csv"), schema_overrides={"hour": pl.String})
    names = ["hour", "estimate", "std", "lower", "upper", "running_total", "running_total_std"]
    assert table.columns == names
    assert table["hour"].to_list() == ["00", "01", "02", "03"]
    assert table["estimate"].sum() == table["running_total"][3]
    assert table["running_total"][3] == pytest.approx(26, abs=4)
    report = json.loads(desk.ranges(*words, "--json").out)
    assert (report["once"], report["new"], report["released"]) == (True, 0, 1)
    (_, second) = report["last"]["rows"]
    assert second["upper"] - second["estimate"] == pytest.approx(
        second["estimate"] - second["lower"]
    )
    found = desk.ranges(*words, "--plan", "--json")
    (plan,) = json.loads(found.out)["plans"].values()
    assert [one["of"] for one in plan["numbers"]] == ["a cell"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rho", "1", "--ask", "3"], "is not an interval"),
        (["--rho", "1", "--ask", "3:1"], "write the smaller cell first"),
        (["--rho", "1", "--ask", "0:5"], "is not within the 4 cells"),
        (["--rho", "1", "--strategy", "binary"], "does not go with a ranges that is released once"),
        (["--rho", "1", "--line", "best"], "line is 'best'; give one of"),
        (["--rho", "1", "--workload", "all"], "workload is 'all'"),
        ([], "the privacy loss is missing"),
    ],
)
def test_bad_ranges_are_refused(desk: Desk, words: list[str], message: str) -> None:
    said = desk.ranges(*words).refused()
    assert message in said


def test_the_private_leaves_are_no_public_domain(desk: Desk) -> None:
    leaves = desk.write("own.csv", "state,county,people\nNY,Kings,1\n")
    said = desk.hierarchy("--rho", "1", "--domain", leaves, leaves=leaves).refused()
    assert "is the file of the events" in said
    copied = desk.write("copied.csv", Path(leaves).read_text())
    done = desk.hierarchy("--rho", "1", "--domain", copied, leaves=leaves)
    assert "is the file of the events" in done.err
    assert desk.rest() == {"own.csv", "copied.csv"}


def test_a_table_with_the_counts_is_no_public_domain_in_any_order(desk: Desk) -> None:
    before = desk.rest()
    other = desk.write("other.CSV", "state,county,people\nDC,,90\nNY,Kings,700\n")
    said = desk.hierarchy("--rho", "1", "--domain", other).refused()
    assert "has the column of counts, 'people'" in said
    line = desk.write("line2.csv", "hour,visits\n01,0\n00,5\n02,17\n03,4\n")
    said = desk.ranges("--rho", "1", "--label", "hour", "--domain", line).refused()
    assert "has the column of counts, 'visits'" in said
    assert "list cells that are publicly known to exist" in said
    assert desk.rest() == before | {"other.CSV", "line2.csv"}


def test_labels_are_public_and_come_from_no_private_file(desk: Desk) -> None:
    said = desk.ranges("--rho", "1", "--label", "hour").refused()
    assert "ranges needs --domain" in said
    said = desk.ranges("--rho", "1", "--label", "hour", "--domain", desk.line).refused()
    assert "is the file of the events" in said
    done = desk.ranges("--rho", "1", "--label", "hour", "--domain", "00,01,02")
    assert "'hour' that are not listed: '03' (first in row 4)" in done.err
    assert not desk.rest()
    desk.ranges("--rho", "100000", "--label", "hour", "--domain", "04,03,02,01,00").fine()
    table = pl.read_csv(desk.path("out.csv"), schema_overrides={"hour": pl.String})
    assert table["hour"].to_list() == ["04", "03", "02", "01", "00"]
    assert table["estimate"].round(0).to_list() == [0, 4, 17, 0, 5]


def test_a_refused_release_leaves_no_key(desk: Desk) -> None:
    leaves = desk.write("bad.csv", "state,county,people\nTX,Kings,1\n")
    assert desk.hierarchy("--rho", "1", leaves=leaves).code == 2
    assert desk.rest() == {"bad.csv"}


def test_a_screen_shows_the_largest_rows_with_their_intervals(desk: Desk) -> None:
    domain = desk.write("uneven.csv", "state,county\nDC,\nNY,Kings\nNY,Queens\n")
    leaves = desk.write("few.csv", "state,county,people\nDC,,500\nNY,Kings,300\n")
    done = desk.hierarchy("--rho", "1000000", "--domain", domain, leaves=leaves).fine()
    assert "intervals of 95%" in done.out
    for words in ("total", "state +DC", "state +NY", "county +NY +Kings"):
        assert re.search(rf"\n{words} +\d[\d.]+ +\d", done.out), words


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_are_written_again_from_the_state_alone(desk: Desk, ending: str) -> None:
    labels = desk.write("hours.csv", "hour\n00\n01\n02\n03\n")
    desk.hierarchy("--rho", "5", out=f"tree.{ending}")
    desk.ranges("--rho", "5", "--label", "hour", "--domain", labels, out=f"ranges.{ending}").fine()
    state = str(desk.path("state.db"))
    desk.path("state.db.key").unlink()
    for name, out in (("hierarchy_of_people", "tree"), ("ranges_of_visits", "ranges")):
        again = desk.path(f"again.{ending}")
        desk("export", state, "--name", name, "--out", str(again)).fine()
        assert again.read_bytes() == desk.path(f"{out}.{ending}").read_bytes()
    said = desk("export", state, "--name", "ranges_of_visits", "--steps", "1:2").refused()
    assert (
        "--steps 1:2 does not apply to stream 'ranges_of_visits', which was released once" in said
    )
    assert "has 'hierarchy_of_people', 'ranges_of_visits': choose" in desk("export", state).err


def test_its_file_and_its_state_are_shown(desk: Desk) -> None:
    """The file was looked at for steps, of which it has none."""
    desk.hierarchy("--rho", "5", out="tree.parquet")
    labels = desk.write("hours.csv", "hour\n" + "".join(f"{hour:02}\n" for hour in range(24)))
    desk.ranges("--rho", "5", "--label", "hour", "--domain", labels, out="long.csv")
    state = str(desk.path("state.db"))
    named = ("hierarchy_of_people", "tree.parquet", 7), ("ranges_of_visits", "long.csv", 24)
    for name, out, rows in named:
        kind = name.partition("_")[0]
        done = desk("show", str(desk.path(out))).fine()
        assert f"stream {name}, as it was released: once" in done.out
        assert "step" not in done.out
        found = json.loads(desk("show", str(desk.path(out)), "--json").out)
        assert (found["released"], len(found["rows"])) == (kind, min(rows, 20))
        assert not {"first", "last", "missing_steps"} & {*found}
    shown = desk("show", state).out + desk("methods", state, "--full").out
    assert "step" not in shown
    refused = desk("end", state, "--name", "ranges_of_visits", "--drop-waiting")
    assert (refused.code, "it needs no end" in refused.err) == (2, True)


def test_verify_says_what_is_right_and_ends_with_a_code(desk: Desk) -> None:
    desk.hierarchy("--rho", "5")
    desk.ranges("--rho", "5", out="ranges.csv")
    state = str(desk.path("state.db"))
    done = desk("verify", state)
    assert (done.code, "2 of 2 releases are right: " in done.out) == (0, True)
    assert json.loads(desk("verify", state, "--json").out)["right"] is True
    desk.path("other.key").write_bytes(desk.path("state.db.key").read_bytes())
    desk.path("other.key").chmod(0o600)
    desk.path("state.db.key").unlink()
    done = desk("verify", state)
    assert (done.code, "not computed again: " in done.out) == (6, True)
    assert desk("verify", state, "--key", str(desk.path("other.key"))).code == 0
    for words, code, said in (
        (("--name", "visits"), 2, "has no release 'visits'"),
        (("--name", "ranges_of_visits"), 6, "key"),
        (("--name", "ranges_of_visits", "--key", str(desk.path("none.key"))), 6, "none.key"),
        (("--name", "ranges_of_visits", "--key", desk.line), 6, "line.csv"),
    ):
        refused = desk("verify", state, *words)
        assert (refused.code, said in refused.err) == (code, True), refused.err
    assert desk("verify", str(desk.path("none.db"))).code == 2
    assert desk("verify", desk.line).code == 3
    assert desk("verify", "").code == 2

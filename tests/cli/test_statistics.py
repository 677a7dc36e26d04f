"""The commands for statistics: each with options of its own, what is released stays released."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.released.series import finite
from counton.statistics import Substrings

ROWS = ["00:10,JFK,ann,5,true", "01:10,LGA,bob,-3,1", "01:20,JFK,ann,70,no", "03:20,JFK,cy,7,yes"]
HEADER = "time,to,user,delay,comes"
TOP = ("statistic", "top-k")


def windows(place: Any, **changed: str | None) -> list[str]:
    words: list[str] = place.new(**{"by": None, "domain": None, **changed})
    return words


@pytest.fixture
def events(place: Any) -> str:
    return str(place.write("e.csv", ROWS, HEADER))


def rows_of(place: Any, *words: str) -> list[dict[str, Any]]:
    done = place(*words, "--json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)["last"]["rows"]
    return found


def written(chart: Path) -> str:
    """The words of a chart, which are remarks of an SVG file, without spaces."""
    return re.sub(r"\s", "", "".join(re.findall("(?s)<!--(.*?)-->", chart.read_text())))


def newest(place: Any) -> list[str]:
    """Options of a later run over data of the past."""
    return [*place.again, "--until", "newest"]


def test_windows_of_a_statistic_are_released_once(place: Any, events: str) -> None:
    out = place.folder / "t.csv"
    words = [*TOP, events, *windows(place, by="to", domain="JFK,LGA,EWR"), "--top", "2"]
    done = place(*words, "--plot", str(place.folder / "t.svg"))
    assert (done.code, "draws counts and sums over time" in done.err) == (2, True)
    done = place(*words, "--out", str(out))
    assert done.code == 0, done.err
    assert "Released 3 new windows (1 to 3 of 6)." in done.out
    assert "one event more or less, counted in one cell" in place.shown()
    table = pl.read_csv(out)
    assert table["estimate"].to_list()[-2:] == [2, 1]
    assert table["group"].to_list()[-2:] == ["JFK", "LGA"]
    first = out.read_bytes()
    done = place(*TOP, events, "--by", "to", *newest(place))
    assert "Nothing new to release: 3 of 6 windows are released." in done.out
    assert "ranking of the 2 largest groups, by to" in place.shown()
    done = place(*TOP, events, "--by", "to", "--until", "2013-01-01T01:00", *place.again)
    assert "released 3 windows, up to 2013-01-01 03:00" in place.shown()
    other = [
        "--domain",
        "EWR,LGA,JFK",
        "--top",
        "1",
        *place.again,
        "--until",
        "newest",
    ]  # as they are known already
    (row,) = rows_of(place, *TOP, events, "--by", "to", *other)
    assert (row["group"], row["estimate"]) == ("JFK", 2)
    done = place(
        *TOP,
        events,
        "--by",
        "to",
        "--domain",
        "JFK,LGA,BOS",
        "--top",
        "2",
        *place.again,
        "--until",
        "newest",
    )
    assert (done.code, "--domain is 3 groups" in done.err) == (2, True)
    done = place(*TOP, events, "--by", "to", "--top", "0", *newest(place))
    assert (done.code, "--top 0 would show nothing" in done.err) == (2, True)
    done = place("count", events, *windows(place), "--name", "statistic")
    assert (done.code, "is a 'top-k' and cannot be continued as a 'count'" in done.err) == (2, True)
    place.write("e.csv", [*ROWS, "05:00,EWR,cy,1,0"], HEADER)
    done = place(*words, "--out", str(out))
    assert "Released 2 new windows (4 to 5 of 6)." in done.out
    assert out.read_bytes().startswith(first)
    place.write("e.csv", [*ROWS[1:], "05:00,EWR,cy,1,0"], HEADER)
    done = place(*words)
    assert done.code == 0
    assert "rows that were counted and are gone, which stay counted: 1\n" in done.err
    assert place("verify", str(place.state)).code == 0
    copy = place.folder / "copy.csv"
    assert place("export", str(place.state), "--out", str(copy)).code == 0
    assert pl.read_csv(copy).equals(pl.read_csv(out))
    shown = place("show", str(place.state), "--full").out
    assert "ranking of the 2 largest groups, by to" in shown
    assert "one event more or less, counted" in shown


def test_each_statistic_takes_its_own_columns(place: Any, events: str) -> None:
    common = ["--steps", "9", "--epsilon", "100", *place.again]
    bounds = ["--lower", "-10", "--upper", "60", "--resolution", "1"]
    (mean, *_) = rows_of(
        place, "statistic", "average", events, "--value", "delay", *bounds, *common, "--name", "a"
    )
    assert abs(mean["estimate"] - (5 - 3 + 60 + 7) / 4) < 8
    (users,) = rows_of(place, "statistic", "distinct", events, "--user", "user", *common)
    assert users["estimate"] == 3
    top = [*TOP, events, "--by", "to", "--domain", "JFK,LGA", *common]
    assert finite(pl.DataFrame({"std": [1.0, float("inf")]}))["std"].to_list() == [1, None]
    ranks = rows_of(place, *top, "--user", "user", "--most", "1", "--name", "users")
    assert [(row["group"], row["estimate"]) for row in ranks] == [("JFK", 2), ("LGA", 1)]
    assert "replaced by another" in place(*top, "--replace", "--name", "which").out
    coming = ["--user", "user", "--comes", "comes", "--changes", "4", "--name", "now"]
    (now,) = rows_of(place, "statistic", "distinct", events, *coming, *common)
    assert round(now["estimate"]) == 2


def test_groups_that_nobody_declared_are_ranked_once_they_are_large(place: Any) -> None:
    often = [f"{minute // 60:02}:{minute % 60:02},{to}" for minute in range(120) for to in "aab"]
    file = place.write("e.csv", [*often, "01:30,rare"])
    words = [*TOP, file, *windows(place, by="group", epsilon="10", delta="1e-9")]
    rows = rows_of(place, *words, "--unknown", "discover", "--until", "2013-01-01T02:00")
    assert [(row["rank"], row["group"], row["sure"]) for row in rows] == [
        (1, "a", True),
        (2, "b", True),
    ]
    assert all(
        row["lower"] <= times <= row["upper"] for row, times in zip(rows, (240, 120), strict=True)
    )
    out = place.folder / "t.csv"
    done = place(*words, "--unknown", "discover", "--out", str(out), "--top", "1")
    assert "for all that are shown at once, chosen from up to 1,000,000 groups" in done.out
    assert set(pl.read_csv(out)["group"]) == {"a"}
    assert "rare" not in done.out + out.read_text()
    done = place("verify", str(place.state))
    assert (done.code, "of all groups that were found, also of hidden ones" in done.out) == (
        0,
        True,
    )
    for more in (["--domain", "a"], ["--over", "2"]):
        done = place(*words, "--unknown", "discover", *more)
        assert (done.code, "--unknown discover" in done.err) == (2, True)
    few = place.write("few.csv", ["00:10,a", "02:30,b"])
    words = [*TOP, few, *windows(place, by="group", delta="1e-6"), "--unknown", "discover"]
    words += ["--name", "few", "--out", str(out)]
    assert rows_of(place, *words) == []
    assert "no group is large enough to be shown yet" in place(*words).out
    assert pl.read_csv(out).columns[:4] == ["step", "window_start", "window_end", "rank"]


def test_rows_of_other_groups_are_dropped_where_that_is_asked(place: Any, events: str) -> None:
    words = [*TOP, events, "--by", "to", "--domain", "JFK", "--unknown", "drop"]
    done = place.plain(*words, "--steps", "9", "--epsilon", "1", *place.again)
    assert (done.code, "give --time" in done.err) == (2, True)
    done = place(*words, *windows(place))
    assert "rows of undeclared groups, not counted: 1" in done.err
    assert "JFK" in done.out
    again = place(*words, *newest(place))
    assert (again.code, "Nothing new" in again.out) == (0, True), again.err
    done = place(
        *[word for word in words if word not in ("--unknown", "drop")],
        *place.again,
        "--until",
        "newest",
    )
    assert "rows of undeclared groups, not counted: 1" in done.err  # as it was told once


def test_what_came_lately_is_a_difference_of_readings(place: Any, events: str) -> None:
    words = ["statistic", "quantiles", events, "--value", "delay", *windows(place), "--edges"]
    (median,) = rows_of(place, *words, "0,6,60,80", "--shares", "0.5", "--over", "2")
    assert median["lower"] <= 60 <= median["upper"]
    (median,) = rows_of(place, *words, "0,6,60,80", "--shares", "0.5", "--over", "1")
    plot = place.folder / "t.png"
    done = place(*words, "0,6,60,80", "--over", "5")
    assert "nothing yet: fewer steps are released" in done.out
    for more, said in (
        (["--edges", "0,x"], "--edges 0,x is not a list"),
        (["--shares", "0.5,2"], "--shares 0.5,2 must be numbers above 0"),
        (["--shares", "nan"], "--shares nan must be numbers above 0"),
        (["--over", "-1"], "over is -1"),
        (["--title", "x"], "--title x is for a chart"),
    ):
        done = place(*words, "0,6,60,80", *more, "--name", "new")
        assert (done.code, said in done.err) == (2, True), done.err
        assert '"name": "new"' not in place("show", str(place.state), "--json").out
    done = place(*words, "0,6,60,80", "--shares", "0.5,0.9,0.5")
    assert "nothing yet: fewer steps are released" in done.out  # what was shown is remembered
    all_so_far = ["--shares", "0.5,0.9,0.5", "--over", "0"]
    done = place(*words, "0,6,60,80", *all_so_far)
    assert (done.code, done.out.count(" 0.5 ")) == (0, 1), done.err
    done = place(*words, "0,6,60,80", "--plot", str(plot))
    assert (done.code, "draws counts and sums over time" in done.err) == (2, True)


def test_cells_may_be_stated_in_another_way_later(place: Any, events: str) -> None:
    words = ["statistic", "quantiles", events, "--value", "delay", *windows(place)]
    rows = rows_of(place, *words, "--edges", "0,20,40,60")
    even = ("--lower", "0", "--upper", "60", "--cells")
    assert rows_of(place, *words, *even, "3") == rows
    for other in ((*even, "4"), ("--edges", "0,20,60")):
        done = place(*words, *other)
        assert done.code == 2
        assert "was created with Quantiles(3 cells from 0 to 60" in done.err


def test_words_are_answered_after_every_step(place: Any) -> None:
    text = place.folder / "reads.fa"
    text.write_text(">one\nACGT\nACCT\n")
    words = [str(text), "--alphabet", "ACGT", "--longest", "2", "--delta", "1e-6"]
    words += ["--steps", "20", "--epsilon", "10000", *place.again]
    for name, found in (("substrings", [2, 1, 1]), ("episodes", [2, 2, 2])):
        ask = ["--ask", "AC,CT,CC", "--name", name]
        rows = rows_of(place, "statistic", name, *words, *ask)
        assert [row["cell"] for row in rows] == ["AC", "CT", "CC"]
        assert [round(row["estimate"]) for row in rows] == found
        out = place.folder / "t.csv"
        done = place("statistic", name, *words, *ask, "--out", str(out))
        assert (done.code, "Nothing new" in done.out) == (0, True)
        promised = json.loads((place.folder / "t.csv.json").read_text())["meaning"]
        for said in (promised, " ".join(done.out.split())):
            assert "one letter replaced by another makes no output more than" in said
            assert "more or less" not in said
        table = pl.read_csv(out).filter(pl.col("cell") == "AC")
        assert table["estimate"].round().cast(pl.Int64).to_list() == [0, 1, 1, 1, 1, 2, 2, 2]
        assert (table["lower"] <= table["estimate"]).all()
        every = rows_of(place, "statistic", name, *words, "--name", name)
        assert len(every) == 4 + 16
        assert {row["cell"]: row["estimate"] for row in every}["AC"] == rows[0]["estimate"]
        done = place("statistic", name, *words, "--ask", "AX", "--name", name)
        assert (done.code, "'X' is not in" in done.err) == (2, True)
    done = place("export", str(place.state), "--name", "episodes")
    assert (done.code, "computed from its events and its key" in done.err) == (2, True)
    chart = ["--name", "episodes"]
    rows = rows_of(place, "statistic", "episodes", *words, "--ask", "AC,CT,AC", *chart)
    assert [row["cell"] for row in rows] == ["AC", "CT"]
    text.write_text("ACGTAC")
    done = place("statistic", "episodes", *words, "--name", "episodes")
    assert (done.code, "events are missing" in done.err) == (8, True)
    assert place("verify", str(place.state)).code == 0


GRAPH = ["00:10,a,b,1", "01:10,b,c,2", "01:20,a,c,9", "02:00,c,d,3", "03:10,a,b,1"]


@pytest.mark.parametrize(
    "words",
    [
        ("triangles", "--edge", "u,v", "--degree", "3"),
        ("average", "--value", "w", "--lower", "0", "--upper", "9", "--resolution", "1"),
        ("distinct", "--user", "u"),
    ],
)
def test_newest_windows_without_a_row_are_told(words: tuple[str, ...], place: Any) -> None:
    # A statistic whose rows count in order, one of sums, and one of users.
    file = place.write("g.csv", GRAPH, "time,u,v,w")
    done = place(
        "statistic", words[0], file, *windows(place), *words[1:], "--until", "2013-01-01T06:00"
    )
    assert done.code == 0, done.err
    assert "released without a row (is a file missing?): 2" in " ".join(done.err.split())


def test_graphs_are_streams_of_edges(place: Any) -> None:
    file = place.write("g.csv", GRAPH, "time,u,v,w")
    common = [*windows(place, epsilon="10000"), "--edge", "u,v"]
    for name, options, found in (
        ("edges", [], [4]),
        ("triangles", ["--degree", "3"], [1]),
        ("stars", ["--degree", "3", "--leaves", "2"], [5]),
        ("degrees", ["--degree", "3"], [1, 2, 1]),
        ("forest", ["--weight", "w", "--largest", "9"], [6]),
        ("cuts", ["--domain", "a,b,c,d", "--cut", "a;a,b"], [3, 2]),
        ("cuts", ["--domain", "a,b,c,d", "--weight", "w", "--upper", "9", "--resolution", "1"], 6),
    ):
        wanted = [*common, *options, "--name", f"{name} {options}", "--until", "2013-01-01T04:00"]
        rows = rows_of(place, "statistic", name, file, *wanted)
        if isinstance(found, int):
            assert len(rows) == found
            assert {row["cell"]: round(row["estimate"]) for row in rows}["a c"] == 9
            continue
        assert [round(row["estimate"]) for row in rows] == found
    assert place("verify", str(place.state)).code == 0
    for words, said in (
        (["triangles", file, "--degree", "1"], "degree is 1"),
        (
            ["stars", file, "--degree", "2", "--leaves", "2"],
            "node 'c' more than 2 edges (--degree)",
        ),
        (["edges", file, "--changes", "3"], "--comes and --changes"),
        (["cuts", file, "--domain", "a,b,c"], "'d'"),
        (["cuts", file, "--domain", "a,b,c,d", "--cut", "x"], "node 'x'"),
        (["cuts", file, "--domain", "a,b,c,d", "--weight", "w"], "--weight and --resolution"),
    ):
        done = place("statistic", *words, *common, "--name", "new")
        assert (done.code, said in done.err) == (2, True), done.err
    done = place("statistic", "edges", file, *windows(place), "--edge", "u")
    assert "--edge u must name the two columns" in done.err
    dropped = ["--degree", "2", "--beyond", "drop", "--name", "dropped"]
    (row,) = rows_of(place, "statistic", "triangles", file, *common, *dropped)
    assert round(row["estimate"]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*TOP, "E", "--by", "to", "--domain", "JFK", "--user", "user"], "--user and --most"),
        ([*TOP, "E", "--by", "to", "--domain", "JFK", "--first"], "--first needs --most"),
        ([*TOP, "E", "--by", "to", "--domain", "JFK", "--most", "2"], "--user and --most"),
        ([*TOP, "E", "--by", "to", "--domain", "JFK"], "group is 'LGA'"),
        ([*TOP, "E", "--by", "to"], "--unknown discover"),
        ([*TOP, "E", "--by", "to", "--domain", "a", "--unknown", "x"], "refuse, drop, discover"),
        ([*TOP, "E", "--by", "x", "--domain", "JFK,LGA"], "no column 'x'"),
        ([*TOP, "E", "--by", "to", "--domain", "JFK,LGA", "--every", "1h"], "needs --time"),
        (
            [*TOP, "E", "--by", "to", "--domain", "JFK,LGA", "--room", "9"],
            "--room 9 is the largest number",
        ),
        (["statistic", "distinct", "E", "--user", "user", "--changes", "3"], "--comes and"),
        (["statistic", "distinct", "E", "--user", "user", "--degree", "3"], "--degree"),
        (["statistic", "distinct", "E"], "--user"),
        (["statistic", "average", "E", "--value", "to", "--lower", "0"], "--upper"),
        (["statistic", "nothing", "E"], "nothing"),
    ],
)
def test_wrong_options_are_refused_in_words(
    words: list[str], said: str, place: Any, events: str
) -> None:
    given = [events if word == "E" else word for word in words]
    done = place(*given, "--steps", "9", "--epsilon", "1", *place.again)
    assert done.code == 2, done.out
    assert said in done.err
    assert not place.state.exists()


def test_plan_says_how_large_the_error_of_a_statistic_is(place: Any) -> None:
    common = ["--steps", "40", "--epsilon", "1", "--simple"]
    done = place("plan", "--of", "distinct --changes 4", *common)
    assert done.code == 0, done.err
    assert "40 steps; one user more or less makes no output more than 2.719 times" in done.out
    done = place("plan", "--of", "distinct --changes 4", *common, "--full")
    assert "one user added or removed, who comes or goes up to 4 times" in done.out
    plain, often = (
        json.loads(place("plan", *more, *common, "--json").out)["choices"][0]["mean_std"]
        for more in ([], ["--of", "distinct --changes 4"])
    )
    assert 2 * plain < often < 4.1 * plain
    words = "quantiles --lower 0 --upper 4 --cells 4 --line identity"
    found = json.loads(place("plan", "--of", words, *common, "--json").out)
    assert "errors are of how many values lie below an edge" in found["errors"]
    best = found["choices"][0]  # sums of 1, 2, 3 and 4 cells
    assert best["mean_std"] == pytest.approx(2.5**0.5 * plain)
    letters = ["--of", "substrings --alphabet ACGT --longest 3", "--delta", "1e-6"]
    batched, each_row = (
        json.loads(place("plan", *letters, *more, *common, "--json").out)
        for more in ([], ["--each-row"])
    )
    unit = Substrings("ACGT", longest=3).contribution(batched=False)
    assert each_row["contribution"] == unit.to_dict()
    assert "each row is a step" in each_row["errors"]
    assert each_row["choices"][0]["mean_std"] < batched["choices"][0]["mean_std"]
    assert "--each-row needs --of" in place("plan", "--each-row", *common).err
    for words, said in (
        ("distinct --degree 4", "No such option: --degree"),
        ("distinct --help", "No such option: --help"),
        ("nothing", "--of names no statistic: 'nothing'; give one of count"),
        ("top-k '", "cannot be read as a command"),
        ("", "--of names no statistic: ''"),
    ):
        done = place("plan", "--of", words, *common)
        assert done.code == 2
        assert said in done.err
    done = place("plan", "--of", "distinct", "--most", "3", *common)
    assert "--most 3 does not go with --of distinct" in done.err


def test_the_help_of_a_statistic_shows_its_options_alone(place: Any, tmp_path: Path) -> None:
    assert "top-k" in place("statistic", "--help").out
    shown = place("statistic", "distinct", "--help").out
    assert "--changes" in shown
    assert "--alphabet" not in shown

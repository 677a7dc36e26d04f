"""The commands for statistics: each with options of its own, what is released stays released."""

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import Quantiles, plan
from counton.results.table_rows import finite

from .conftest import Workplace

ROWS = ["00:10,JFK,ann,5,true", "01:10,LGA,bob,-3,1", "01:20,JFK,ann,70,no", "03:20,JFK,cy,7,yes"]
HEADER = "time,to,user,delay,comes"
TOP = ("release", "top-k")

#: Columns that say which window is meant.
WHEN = ("window_index", "window_start", "window_end")


def windows(place: Workplace, **changed: str | None) -> list[str]:
    words: list[str] = place.new(**{"group_by": None, "groups": None, **changed})
    return words


@pytest.fixture
def events(place: Workplace) -> str:
    return str(place.write("e.csv", ROWS, HEADER))


def rows_of(place: Workplace, *words: str) -> list[dict[str, Any]]:
    done = place(*words, "--json").fine()
    found: list[dict[str, Any]] = json.loads(done.out)["last"]["rows"]
    return found


def newest(place: Workplace) -> list[str]:
    """Options of a later run over data of the past."""
    return [*place.again, "--until", "latest-event"]


def top_two(place: Workplace, events: str) -> list[str]:
    """Return a command that ranks the destinations of each window."""
    return [*TOP, events, *windows(place, group_by="to", groups="JFK,LGA,EWR"), "--top", "2"]


@pytest.fixture
def ranked(place: Workplace, events: str) -> Path:
    """Release three windows of a ranking; return its table."""
    table = place.folder / "t.csv"
    done = place(*top_two(place, events), "--output", str(table)).fine()
    assert "Released 3 new windows (1 to 3 of 6)." in done.out
    return table


def test_ranking_is_written_with_largest_groups_first(place: Workplace, ranked: Path) -> None:
    table = pl.read_csv(ranked)
    assert table["estimate"].to_list()[-2:] == [2, 1]
    assert table["group"].to_list()[-2:] == ["JFK", "LGA"]
    assert "one event, counted in one cell" in place.shown()
    assert "ranking of the 2 largest groups by to" in place.shown()


def test_ranking_refuses_chart(place: Workplace, events: str) -> None:
    chart = str(place.folder / "t.svg")
    assert "--chart" in place(*top_two(place, events), "--chart", chart).refused()


@pytest.mark.parametrize("until", ["latest-event", "2013-01-01T01:00"])
def test_repeated_run_of_ranking_releases_nothing(
    until: str, place: Workplace, events: str, ranked: Path
) -> None:
    done = place(*TOP, events, "--group-by", "to", "--until", until, *place.again).fine()
    assert "No new window is due. Released: 3 of 6 windows." in done.out
    assert "3 windows, up to 1 January 2013, 03:00" in place.shown()


def test_later_run_may_show_fewer_ranks(place: Workplace, events: str, ranked: Path) -> None:
    same_groups = ["--group-by", "to", "--groups", "EWR,LGA,JFK"]
    (row,) = rows_of(place, *TOP, events, *same_groups, "--top", "1", *newest(place))
    assert (row["group"], row["estimate"]) == ("JFK", 2)


def test_ranking_of_no_group_is_refused(place: Workplace, events: str, ranked: Path) -> None:
    said = place(*TOP, events, "--group-by", "to", "--top", "0", *newest(place)).refused()
    assert "--top 0" in said


def test_later_windows_are_added_to_table_of_ranking(
    place: Workplace, events: str, ranked: Path
) -> None:
    first = ranked.read_bytes()
    place.write("e.csv", [*ROWS, "05:00,EWR,cy,1,0"], HEADER)
    done = place(*top_two(place, events), "--output", str(ranked))
    assert "Released 2 new windows (4 to 5 of 6)." in done.out
    assert ranked.read_bytes().startswith(first)
    copy = place.folder / "copy.csv"
    place("export", str(place.state), "--output", str(copy)).fine()
    assert pl.read_csv(copy).equals(pl.read_csv(ranked))


def test_ranking_discovers_large_groups(place: Workplace) -> None:
    often = [f"{minute // 60:02}:{minute % 60:02},{to}" for minute in range(120) for to in "aab"]
    file = place.write("e.csv", [*often, "01:30,rare"])
    words = [*TOP, file, *windows(place, group_by="group", epsilon="10", delta="1e-9")]
    rows = rows_of(place, *words, "--unlisted-groups", "discover", "--until", "2013-01-01T02:00")
    assert [(row["rank"], row["group"], row["is_certain"]) for row in rows] == [
        (1, "a", True),
        (2, "b", True),
    ]
    assert all(
        row["lower"] <= times <= row["upper"] for row, times in zip(rows, (240, 120), strict=True)
    )
    out = place.folder / "t.csv"
    done = place(*words, "--unlisted-groups", "discover", "--output", str(out), "--top", "1")
    assert "for all that are shown at once, chosen from up to 1,000,000 groups" in done.out
    assert set(pl.read_csv(out)["group"]) == {"a"}
    assert "rare" not in done.out + out.read_text()
    done = place("verify", str(place.state))
    assert (done.code, "of all discovered groups, including hidden ones" in done.out) == (
        0,
        True,
    )
    few = place.write("few.csv", ["00:10,a", "02:30,b"])
    words = [
        *TOP,
        few,
        *windows(place, group_by="group", delta="1e-6"),
        "--unlisted-groups",
        "discover",
    ]
    out = place.folder / "few-t.csv"
    words += ["--stream", "few", "--output", str(out)]
    assert rows_of(place, *words) == []
    assert "No group has reached the threshold yet" in place(*words).out
    assert pl.read_csv(out).columns[:5] == [*WHEN, "series", "rank"]


def test_quantiles_over_recent_windows_are_differences_of_totals(
    place: Workplace, events: str
) -> None:
    assert finite(pl.DataFrame({"noise_std": [1.0, math.inf]}))["noise_std"].to_list() == [1, None]
    words = ["release", "quantiles", events, "--value", "delay", *windows(place), "--edges"]
    (median,) = rows_of(place, *words, "0,6,60,80", "--shares", "0.5", "--over", "2")
    assert median["lower"] <= 60 <= median["upper"]
    (median,) = rows_of(place, *words, "0,6,60,80", "--shares", "0.5", "--over", "1")
    plot = place.folder / "t.png"
    done = place(*words, "0,6,60,80", "--over", "5")
    assert "Nothing yet: fewer windows are released" in done.out
    for more, said in (
        (["--edges", "0,x"], "--edges 0,x is not a list"),
        (["--shares", "0.5,2"], "--shares 0.5,2.0 must be numbers above 0"),
        (["--shares", "nan"], "--shares nan is not a list of numbers"),
        (["--over", "-1"], "--over -1 is below"),
    ):
        done = place(*words, "0,6,60,80", *more, "--stream", "new")
        assert (done.code, said in done.err) == (2, True), done.err
        assert '"name": "new"' not in place("inspect", str(place.state), "--json").out
    done = place(*words, "0,6,60,80", "--shares", "0.5,0.9,0.5")
    assert "Nothing yet: fewer windows are released" in done.out  # what was shown is remembered
    all_so_far = ["--shares", "0.5,0.9,0.5", "--over", "0"]
    done = place(*words, "0,6,60,80", *all_so_far)
    assert (done.code, done.out.count(" 0.5 ")) == (0, 1), done.err
    done = place(*words, "0,6,60,80", "--chart", str(plot))
    assert (done.code, "draws counts and sums over time" in done.err) == (2, True)


def test_cells_may_be_stated_in_another_way_later(place: Workplace, events: str) -> None:
    words = ["release", "quantiles", events, "--value", "delay", *windows(place)]
    rows = rows_of(place, *words, "--edges", "0,20,40,60")
    even = ("--lower", "0", "--upper", "60", "--cells")
    assert rows_of(place, *words, *even, "3") == rows
    for other in ((*even, "4"), ("--edges", "0,20,60")):
        said = place(*words, *other).refused()
        assert "stream 'quantiles_of_delay' exists with other options:" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [*TOP, "E", "--group-by", "to", "--groups", "JFK", "--user", "user"],
            "--user user needs --max-contributions",
        ),
        (["release", "count", "E", "--distinct-users"], "--distinct-users needs --user"),
        (
            [*TOP, "E", "--group-by", "to", "--groups", "JFK", "--max-contributions", "2"],
            "--max-contributions 2 needs --user",
        ),
        ([*TOP, "E", "--group-by", "to"], "--unlisted-groups discover"),
        (
            [*TOP, "E", "--group-by", "to", "--groups", "a", "--unlisted-groups", "x"],
            "give error, drop or discover",
        ),
        (
            [*TOP, "E", "--group-by", "to", "--groups", "JFK,LGA", "--room", "9"],
            "--room 9 needs --unlisted-groups discover",
        ),
        (["release", "distinct", "E", "--user", "user", "--lower", "3"], "--lower"),
        (["release", "distinct", "E"], "--user"),
        (["release", "average", "E", "--value", "to", "--lower", "0"], "--upper"),
    ],
)
def test_wrong_options_are_refused_in_words(
    words: list[str], said: str, place: Workplace, events: str
) -> None:
    given = [events if word == "E" else word for word in words]
    told = place(*given, *windows(place, windows="9", epsilon="1")).refused()
    assert said in told


def test_plan_states_error_of_statistic(place: Workplace, events: str) -> None:
    common = [*windows(place, windows="40", epsilon="1"), "--plan"]
    done = place(*TOP, events, "--group-by", "to", "--groups", "a,b", *common).fine()
    assert "Privacy: epsilon = 1 for each event" in done.out
    plain = plan(40, epsilon=1, simple=True).best.errors.mean_std
    cells = Quantiles(lower=0, upper=4, cells=4, line="identity")
    found = plan(40, epsilon=1, simple=True, of=cells, batched=True)
    assert "errors are of how many values lie below an edge" in found.best.errors_of.meaning
    best = found.best.errors.mean_std  # sums of 1, 2, 3 and 4 cells
    assert best == pytest.approx(2.5**0.5 * plain)
    done = place("plan", "40", "--epsilon", "1", "--of", "distinct")
    assert (done.code, "No such option '--of'" in done.err) == (2, True)


def test_the_help_of_a_statistic_shows_its_options_alone(place: Workplace, tmp_path: Path) -> None:
    assert "top-k" in place("release", "--help").out
    shown = place("release", "quantiles", "--help").out
    assert "--edges" in shown
    assert "--levels" not in shown

"""The command ``answer``: questions to a table that was written, or to a state."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

from .conftest import Workplace

HOURS = ["1 January 2013, 00:00 to 01:00", "1 January 2013, 01:00 to 02:00"]
EVENTS = ["00:10,a", "00:40,a", "01:30,b", "02:10,a", "02:20,b", "03:05,a"]


@pytest.fixture
def table(place: Workplace) -> str:
    out = place.folder / "t.parquet"
    assert place.count(place.write("e.csv", EVENTS), "--out", str(out)).code == 0
    return str(out)


def asked(place: Workplace, *words: str) -> dict[str, object]:
    done = place.plain("answer", *words, "--json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_a_file_and_its_state_answer_alike(place: Workplace, table: str) -> None:
    for words, what, value in (
        (("--difference", "a,b"), "a minus b (1 January 2013, 00:00 to 03:00)", 1),
        (
            ("--difference", "a,b", "--steps", "2:3"),
            "a minus b (1 January 2013, 01:00 to 03:00)", -1,
        ),
        (("--difference", "a", "--steps", "3:3", "--other-steps", "1:1"), None, -1),
        (
            ("--ratio", "a,b", "--start", "2013-01-01T02:00"),
            "a over b (1 January 2013, 02:00 to 03:00)", 1,
        ),
        (("--share", "b"), "b, of all groups (1 January 2013, 00:00 to 03:00)", 0.4),
        (("--share", "a,b"), "a and b, of all groups (1 January 2013, 00:00 to 03:00)", 1),
    ):  # fmt: skip
        found = asked(place, table, *words)
        assert found["estimate"] == value
        assert what is None or found["what"] == what
        assert found == asked(place, str(place.state), *words)
    assert "between" in place.plain("answer", table, "--difference", "a,b").out


def test_answers_in_words_have_dates_and_shares_per_cent(place: Workplace, table: str) -> None:
    words = ("--share", "b", "--start", "2013-01-01T01:00", "--until", "2013-01-01T03:00")
    said = " ".join(place.plain("answer", table, *words).out.split())
    assert re.search(
        r"b, of all groups \(1 January 2013, 01:00 to 03:00\): 66\.66\d*%, and with probability "
        r"95% between [\d.]+% and [\d.]+%",
        said,
    )
    assert asked(place, table, *words)["estimate"] == pytest.approx(2 / 3)


def test_published_tables_answer_as_their_state_does(place: Workplace, table: str) -> None:
    public = place.folder / "public.db"
    state = str(place.state)
    assert place("publish", state, "--to", str(public)).code == 0
    words = ("--difference", "a,b", "--steps", "2:3")
    for source in (str(public), f"sqlite:///{public}", state, f"sqlite:///{state}"):
        assert asked(place, source, *words) == asked(place, table, *words)
    done = place.plain("answer", str(public), "--name", "visits")
    assert (done.code, "stream 'visits' is not published in" in done.err) == (2, True)
    done = place.plain("answer", f"sqlite:///{place.folder}/none.db")
    assert (done.code, "is not a file: give a database" in " ".join(done.err.split())) == (2, True)


def test_show_describes_what_was_released(place: Workplace, table: str) -> None:
    public, state = str(place.folder / "public.db"), str(place.state)
    assert place("publish", state, "--to", public).code == 0
    said = place.plain("show", table, "--full")
    assert said.code == 0, said.err
    for words in ("stream count, as it was released", "3 windows, 1 to 3", "2 by ", "95%"):
        assert words in said.out
    assert place.plain("show", public, "--name", "count", "--full").out == said.out
    assert "fingerprint" not in said.out
    found = json.loads(place.plain("show", table, "--json").out)
    assert (found["name"], found["groups"], found["last"]) == ("count", ["a", "b"], 3)
    assert [(row["group"], row["estimate"]) for row in found["rows"]] == [("a", 3), ("b", 2)]
    assert json.loads(place.plain("show", public, "--json").out) == found
    assert "key" not in found
    rows = pl.read_parquet(table)
    facts = pl.read_parquet_metadata(table)["counton"]
    cut = place.folder / "cut.parquet"
    rows.filter(pl.col("step") != 2).write_parquet(cut, metadata={"counton": facts})
    assert "2 windows, 1 to 3; missing between them: 1" in place.plain("show", str(cut)).out
    assert f"state {state}, file format" in place.plain("show", state).out
    assert place("count", place.write("f.csv", ["00:10,a"]), *place.new(name="two")).code == 0
    one = place.shown("--name", "count")
    assert "stream count" in one
    assert "stream two" not in one
    assert "stream two" in place.shown()
    done = place.plain("show", state, "--name", "none")
    assert (done.code, "has no stream 'none'; it has 'count', 'two'" in done.err) == (2, True)


def test_rows_and_sums(place: Workplace, table: str) -> None:
    rows = asked(place, table, "--steps", "2:")["rows"]
    assert isinstance(rows, list)
    assert [(row["step"], row["group"], row["estimate"]) for row in rows] == [
        (2, "a", 2), (2, "b", 1), (3, "a", 3), (3, "b", 2),
    ]  # fmt: skip
    assert "estimate" in place.plain("answer", table).out
    sums = asked(place, table, "--sums", "1d")["rows"]
    assert isinstance(sums, list)
    assert [(row["group"], row["first_step"], row["last_step"], row["sum"]) for row in sums] == [
        ("a", 1, 3, 3), ("b", 1, 3, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--difference", "a,x"), "x"),
        (("--difference", "a"), "--other-steps"),
        (("--difference", "a,b", "--sums", "1d"), "two questions"),
        (("--difference", "a,b", "--of", "mean"), "leave it out"),
        (("--steps", "9:"), "released steps 1:3"),
        (("--level", "2"), "level"),
    ],
)
def test_what_cannot_be_answered_says_why(
    place: Workplace, table: str, words: tuple[str, ...], message: str
) -> None:
    done = place.plain("answer", table, *words)
    assert done.code == 2
    assert message in done.err


def test_a_statistic_answers_of_its_numbers(place: Workplace) -> None:
    out = place.folder / "t.csv"
    events = place.write("e.csv", ["00:10,3", "01:30,4", "02:10,5"], header="time,paid")
    new = place.new(by=None, domain=None)
    words = ["--value", "paid", "--lower", "0", "--upper", "9", "--resolution", "1"]
    done = place("statistic", "average", events, *new, *words, "--out", str(out))
    assert done.code == 0, done.err
    assert "mean" in place.plain("answer", str(out)).out
    done = place.plain("answer", str(out), "--difference", "a,b")
    assert done.code == 2
    assert "give 'mean', 'sum' or 'count'" in done.err
    done = place.plain("answer", str(out), "--sums", "1d")
    assert done.code == 0, done.err
    assert "mean" in done.out
    found = asked(place, str(out), "--difference", "mean", "--steps", "2:2", "--other-steps", "1:1")
    assert found["what"] == f"mean ({HOURS[1]}) minus mean ({HOURS[0]})"
    change = asked(place, str(out), "--change", "mean", "--steps", "2:", "--other-steps", "1:1")
    assert change["what"] == f"mean ({HOURS[1]}) against mean ({HOURS[0]}), in per cent"
    both = ("--difference", "mean,mean", "--change", "sum", "--other-steps", "1:1")
    done = place.plain("answer", str(out), *both)
    assert "All 2 intervals hold together with probability 95%." in done.out
    answers = asked(place, str(out), *both)["answers"]
    assert isinstance(answers, list)
    assert len(answers) == 2


def test_questions_with_rows_for_an_answer(place: Workplace, table: str) -> None:
    words = ("--largest-change", "--steps", "3:3", "--other-steps", "1:1")
    rows = asked(place, table, *words)["rows"]
    assert isinstance(rows, list)
    assert sorted(row["group"] for row in rows) == ["a", "b"]
    done = place.plain("answer", table, "--band", "--steps", "2:")
    assert "All intervals hold together with probability 95%." in done.out
    done = place.plain("answer", table, "--largest-change")
    assert "--other-steps" in done.err
    done = place.plain("answer", table, "--hidden")
    assert "shows all groups that were listed" in done.err
    done = place.plain("answer", table, "--hidden", "--band")
    assert "two questions" in done.err


def test_no_such_source_is_said(place: Workplace) -> None:
    done = place.plain("answer", str(place.folder / "none.parquet"))
    assert done.code == 2
    assert "is not a file" in done.err


def test_patterns_and_totals_are_answered(place: Workplace, table: str) -> None:
    rows = asked(place, table, "--by", "hour")["rows"]
    assert isinstance(rows, list)
    assert [row["hour"] for row in rows if row["group"] == "a"] == [0, 1, 2]
    assert [row["estimate"] for row in rows if row["group"] == "a"] == [2, 0, 1]
    done = place.plain("answer", table, "--by", "hour")
    assert "The average of each hour of the day" in done.out
    assert "a and b" not in place.plain("answer", table, "--total", "all").out
    found = asked(place, table, "--total", "all", "--steps", "2:3")
    assert (found["estimate"], str(found["what"])[:10]) == (3, "all groups")


def test_hours_and_days_of_the_week_make_one_table(place: Workplace) -> None:
    """None of both is dropped; a screen of 80 letters shows it whole, and a file has all rows."""
    rows = [
        f"2013-01-{day:02}T{hour:02}:30Z,{group}"
        for day in range(7, 21)
        for hour in range(24)
        for group in "aab"
    ]
    events, out = place.folder / "e.csv", place.folder / "t.parquet"
    events.write_text("\n".join(["time,group", *rows]))
    new = place.new(start="2013-01-07", steps="336", epsilon="1000000")
    done = place.plain("count", str(events), *new, "--until", "2013-01-21", "--out", str(out))
    assert done.code == 0, done.err
    week = place.folder / "week.csv"
    for given in (["hour", "weekday"], ["weekday", "hour"]):
        asked = [word for one in given for word in ("--by", one)]
        done = place.plain("answer", str(out), *asked, "--out", str(week))
        assert done.code == 0, done.err
        told = done.out.partition("table written to")[0]
        assert max(map(len, told.splitlines())) <= 80
        assert re.search("hour +Mon +Tue +Wed +Thu +Fri +Sat +Sun", done.out)
        lines = [line for line in done.out.splitlines() if line.startswith("23:00")]
        assert [[*map(float, line.split()[1:])] for line in lines] == [[2.0] * 7, [1.0] * 7]
        table = pl.read_csv(week)
        assert table.columns[:4] == ["weekday", "hour", "times", "group"]
        assert table.height == 2 * 7 * 24
        assert table["times"].unique().to_list() == [2]
        all_rows = json.loads(place.plain("answer", str(out), *asked, "--json").out)["rows"]
        assert len(all_rows) == table.height


def test_answers_are_written_with_what_protects_them(place: Workplace, table: str) -> None:
    out = place.folder / "answers.csv"
    both = ("--difference", "a,b", "--total", "a")
    done = place.plain("answer", table, *both, "--out", str(out))
    assert done.code == 0, done.err
    found = pl.read_csv(out)
    assert found.columns == ["what", "estimate", "std", "lower", "upper"]
    told = json.loads(
        place.plain("answer", table, "--difference", "a,b", "--total", "a", "--json").out
    )
    assert found["estimate"].to_list() == [one["estimate"] for one in told["answers"]]
    about = json.loads((place.folder / "answers.csv.json").read_text())
    assert about["guarantee"] == told["about"]["guarantee"]
    for words in (("--sums", "1d"), ("--band",), ()):
        out = place.folder / "rows.json"
        done = place.plain("answer", table, *words, "--out", str(out))
        assert done.code == 0, done.err
        assert f"table written to {out}" in done.out
        rows = json.loads(place.plain("answer", table, *words, "--json").out)["rows"]
        assert len(json.loads(out.read_text())) == len(rows)
    done = place.plain("answer", table, "--out", table)
    assert (done.code, "which the run reads or keeps" in " ".join(done.err.split())) == (2, True)
    assert place.plain("answer", table, "--out", "answers.txt").code == 2

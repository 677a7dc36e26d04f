"""``counton init``: from a file to a job file that runs, at a terminal and without one."""

from __future__ import annotations

import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton.base.errors import InvalidInput
from counton.job.jobfile import load
from counton.run import first_look, run
from tests.cli.conftest import Result, Workplace
from tests.cli.terminal import Answers, Talk, attend, talk

#: Loans on local clocks of Berlin: also in the hour that comes twice, and in one that is skipped.
LOANS = (
    "reader,branch,borrowed_at\n"
    "ann,north,2020-10-24 09:00\n"
    "ann,south,2020-10-24 10:00\n"
    "ann,north,2020-10-24 11:00\n"
    ",north,2020-10-24 12:00\n"
    "bob,,2020-10-24 13:00\n"
    "bob,north,2020-10-25 02:30\n"
    "cyd,east,2020-10-25 04:00\n"
    "dan,south,2020-03-29 02:30\n"
)
#: All that no file of loans tells.
SAID = (
    *("--timezone", "Europe/Berlin", "--start", "2020-10-24", "--until", "newest"),
    *("--user", "reader", "--most", "2"),
    *("--per", "1d", "--epsilon", "100", "--by", "branch", "--domain", "north,south"),
)
Terminal = Callable[..., Talk]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    (tmp_path / "loans.csv").write_text(LOANS)
    return tmp_path


@pytest.fixture
def terminal(loans: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    return lambda *words, **answers: talk(loans, monkeypatch, "init", *words, **answers)


@pytest.fixture
def init(loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(loans)
    return lambda *words: place.plain("init", *words)


def job_of(folder: Path, file: str = "nightly.toml") -> dict[str, Any]:
    (job,) = tomllib.loads((folder / file).read_text())["jobs"].values()
    return dict(job)


# --------------------------------------------------------------------------------- at a terminal


def test_enter_takes_what_was_found_and_what_no_file_tells_is_typed(
    terminal: Terminal, loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = terminal(
        *("loans.csv", "--save", "loans.toml", "--start", "2020-10-24"),
        zone_of_days=["every=1d"], a_column_and=["branch=north,south"], how_far_off=["15"],
    )  # fmt: skip
    assert (done.code, done.left) == (0, {}), done.out
    job = job_of(loans, "loans.toml")
    assert job.pop("epsilon") == "0.579"
    assert job.pop("steps") == 3653
    assert job == {
        "statistic": "count", "events": "loans.csv", "state": "loans.counton.db",
        "time": "borrowed_at", "every": "1d", "start": "2020-10-24", "timezone": "Europe/Berlin",
        "until": "newest",  # the rows are old
        "watermark": "6h", "quiet": 3, "by": "branch", "domain": ["north", "south"],
        "other": "other", "unit": "reader", "row": "loan", "release": "windows",
        "user": "reader", "most": 3, "per": "1d", "clock-change": "earliest",
        "bad-rows": "quarantine:loans.unreadable.csv", "missing": "skip",
        "out": "loans.released.csv",
    }  # fmt: skip
    text = (loans / "loans.toml").read_text()
    assert "\n# rows without a time, person or id: skip leaves them out\n" in text
    assert "\n# one more group, for rows of other names or of none\n" in text
    assert len(re.findall(r"^   .*\[.*\]: ", done.out, re.M)) == 6, done.out  # prompts
    assert "day's number of one branch is off by at most 15 in 95 of 100 days" in done.out
    page = (
        (ROOT / "README.md").read_text("utf-8").partition("## What it does that others do not")[0]
    )
    assert len(re.sub(r"\]\(.*?\)", "]", page).split()) + len(done.out.split()) <= 1000  # to read
    assert "windows before the first row are published, too" in done.out
    assert "One row, a person's day (per=1d), or a person with all rows (per=ever)." in done.out
    assert "per=1d most=3]: " in done.out
    assert re.search(r"the first time:\S*\n  counton run loans.toml\n", done.out)
    monkeypatch.chdir(loans)
    ran = place.plain("run", "loans.toml", "--until", "2020-10-26T06:00")
    assert ran.code == 0, ran.err
    assert "Released 2 new windows (1 to 2 of 3,653)" in ran.out


def test_each_line_of_the_job_file_has_a_comment_and_none_an_exact_number(
    terminal: Terminal, loans: Path
) -> None:
    shown = terminal("loans.csv", zone_of_days=["start=2020-10-24"]).out
    assert "exact: 1 without reader: 1 rows in all" in shown
    assert "16.7% with 2" in shown  # ann's third row of a day, of six with a reader and a time
    text = (loans / "nightly.toml").read_text()
    assert text.startswith("# Run every night by: counton run nightly.toml\n")
    lines = text.partition("[jobs.loans]\n")[2].splitlines()
    assert all(line.startswith("# ") for line in lines[::2])
    assert not any(line.startswith("#") for line in lines[1::2])
    assert "\n# what one reader's day may lose by all releases together: " in text
    assert (
        "\n# a run stops if more windows than this have ended since the newest event, its" in text
    )
    other = LOANS + "".join(f"r{i},west,2020-11-02 0{i}:00\n" for i in range(9))
    (loans / "loans.csv").write_text(other)
    terminal("loans.csv", "--force", zone_of_days=["start=2020-10-24"])
    assert (loans / "nightly.toml").read_text() == text  # rows decide nothing


@pytest.mark.parametrize(
    ("prompt", "wrong", "right", "why"),
    [
        ("zone_of_days", "all", "", "'all' states none of time=..., timezone=..., every=..."),
        ("zone_of_days", "every='1h", "", "a quote has no end"),
        (
            "zone_of_days",
            "time=when",
            "every=1h",
            "there is no column 'when'; the columns are reader",
        ),
        ("zone_of_days", "timezone=Berlin", "timezone=Europe/Berlin", "'Berlin'"),
        ("zone_of_days", "every=soon", "every=1d", "window length 'soon' is not a whole number"),
        ("zone_of_days", "start=yesterday", "start=2020-10-24", "'yesterday'"),
        ("zone_of_days", "time_format=%Y", "", "does not say a day and its year"),
        ("zone_of_days", "time_format=%d.%m.%Y", "", "no time in column 'borrowed_at' has"),
        ("which", "4", "1", "'4' is none of 1, 2 and 3"),
        ("a_column_and", "shop", "none", "there is no column 'shop'"),
        ("column_of_people", "user=who", "user=reader", "there is no column 'who'"),
        ("column_of_people", "none reader", "none unit=reader", "'reader' states none of unit=..."),
        ("column_of_people", "per=always", "per=ever most=3", "'always'"),
        ("column_of_people", "most=many", "most=2", "'many' is no whole number from 1 on"),
        ("column_of_people", "most=0", "most=2", "would count nothing; it is how many"),
        ("lack_something", "missing=perhaps", "missing=refuse", "'perhaps'"),
        ("lack_something", "watermark=long", "watermark=6h", "'long'; it is a length"),
        ("how_far", "e=3", "epsilon=2", "'e=3' is neither an error"),
        ("how_far", "-1", "epsilon=2", "-1"),
    ],
)
def test_a_wrong_answer_is_asked_again_with_the_reason(
    terminal: Terminal, loans: Path, prompt: str, wrong: str, right: str, why: str
) -> None:
    done = terminal("loans.csv", **{prompt: [wrong, right]})
    assert (done.code, done.left) == (0, {}), done.out
    assert any("Error: " in line and why in line for line in done.out.splitlines()), done.out
    assert load(loans / "nightly.toml")


def test_names_are_asked_again_until_they_are_some(terminal: Terminal, loans: Path) -> None:
    (loans / "branches.txt").write_text("north\nsouth\n")
    done = terminal(
        *("loans.csv", "--epsilon", "1"),
        a_column_and=["branch=north,north", "branch=branches.txt"], lack_something=["other=none"],
    )  # fmt: skip
    assert done.code == 0
    assert "'north' twice" in done.out
    assert "Take the names from a public list" in done.out
    job = job_of(loans)
    assert (job["domain"], job["unknown"], "other" in job) == ("branches.txt", "drop", False)


def test_a_stated_column_of_groups_is_asked_for_its_names_alone(
    terminal: Terminal, loans: Path
) -> None:
    done = terminal("loans.csv", "--by", "branch", one_in_each_line=["", "north,south"])
    assert (done.code, done.left) == (0, {}), done.out
    assert "Error: this question has no usual answer: type one" in done.out
    assert "a column and its names" not in done.out
    assert job_of(loans)["domain"] == ["north", "south"]
    assert terminal("loans.csv", "--by", "shop", "--force").code == 2


def test_names_that_differ_from_those_of_the_rows_are_shown_and_asked_again(
    terminal: Terminal, loans: Path
) -> None:
    done = terminal(
        *("loans.csv", "--epsilon", "1"), a_column_and=["branch"],
        one_in_each_line=["names.txt", "north,sooth"], write_them=["north,east"],
        lack_something=["domain=north,south"],
    )  # fmt: skip
    assert (done.code, done.left) == (0, {}), done.out
    assert "Error: there is no file 'names.txt'" in done.out
    assert "exact: 37.5% of rows have other names: south, east; no row has sooth" in (done.out)
    assert "exact: 12.5% of rows have other names: east\n" in done.out
    assert job_of(loans)["domain"] == ["north", "south"]
    assert "sooth" not in (loans / "nightly.toml").read_text()


@pytest.mark.parametrize(("bad", "code"), [(3, 0), (1001, 2)])
def test_unreadable_rows_are_told_and_too_many_refused_as_a_run_refuses_them(
    terminal: Terminal, loans: Path, bad: int, code: int
) -> None:
    good = b"ann,north,2020-10-24 09:00\n" * 2000
    wrong = "bob,süd,2020-10-24 09:00\n".encode("latin-1") * bad
    (loans / "latin.csv").write_bytes(b"reader,branch,borrowed_at\n" + good + wrong)
    done = terminal("latin.csv")
    assert done.code == code, done.out
    assert "row 2,001 of latin.csv cannot be read as csv (it has bytes that are not UTF-8)" in (
        done.out
    )
    assert ("3 rows are set aside; the first" in done.out) == (not code)
    assert ("none lacks a value" in done.out) == (not code)
    assert (loans / "nightly.toml").exists() == (not code)


def test_totals_rows_and_stopping_are_answers_too(terminal: Terminal, loans: Path) -> None:
    done = terminal(
        "loans.csv", which=["2"], column_of_people=["none"],
        lack_something=["missing=refuse watermark=0s"],
    )  # fmt: skip
    assert "A run would refuse these rows today: row 8 of loans.csv has a local time" in done.out
    job = job_of(loans)
    assert (done.code, "bad-rows" in job) == (0, False)
    assert not {"user", "most", "per"} & {*job}
    assert (job["missing"], job["watermark"]) == ("refuse", "0s")
    assert (job["release"], job["unit"]) == ("totals", "loan")


def test_what_is_stated_is_not_asked(terminal: Terminal) -> None:
    done = terminal("loans.csv", *SAID, "--release", "windows", "--missing", "skip",
                    "--watermark", "1h", "--every", "1d", "--time", "borrowed_at",
                    "--other", "other")  # fmt: skip
    assert done.code == 0
    assert "[" not in done.out.replace("[Service]", "").replace("[Timer]", "").replace(
        "[Install]", ""
    ).replace("stands in brackets", "").replace("\x1b[", "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--first --by branch", "--first needs --user"),
        ("--first --by branch --user reader", "--by branch with --first needs --most"),
        ("--by brunch", "there is no column 'brunch'"),
        ("--around 365 --release windows", "--release windows does not go with --around 365"),
    ],
)
def test_options_that_no_answer_completes_are_refused_before_the_first_question(
    terminal: Terminal, loans: Path, options: str, reason: str
) -> None:
    done = terminal("loans.csv", *options.split())
    assert done.code == 2
    assert done.out.startswith(f"counton: {reason}"), done.out
    assert "1. When?" not in done.out
    assert not (loans / "nightly.toml").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--around 365", "2. What? A stream without an end publishes the total so far."),
        (
            "--unknown discover --by branch --user reader --most 1 --delta 1e-6",
            "2. What? A stream whose groups are found publishes the total so far.",
        ),
        ("--rho 1", "With the stated privacy loss:"),
        ("--within 15", "With the stated privacy loss:"),
    ],
)
def test_the_question_of_what_is_published_holds_for_what_is_stated(
    terminal: Terminal, loans: Path, options: str, said: str
) -> None:
    done = terminal("loans.csv", *options.split(), zone_of_days=["start=2020-10-24"])
    assert (done.code, done.left) == (0, {}), done.out
    assert said in done.out
    assert job_of(loans).get("release", "totals") == ("windows" if "loss" in said else "totals")


def test_a_column_of_ids_is_not_suggested_as_the_column_of_people(
    terminal: Terminal, loans: Path
) -> None:
    done = terminal("loans.csv", "--id", "reader", zone_of_days=["start=2020-10-24"])
    assert done.code == 0, done.out
    assert "[none unit=loan]" in done.out


def test_a_first_look_reads_the_times_of_a_column_once(
    loans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = first_look.look_at(counton.Job("count", str(loans / "loans.csv"), "s.db"))
    read, times = list[object](), first_look._moments

    def counted(sample: pl.DataFrame, *how: Any) -> pl.Series:
        read.append(how)
        return times(sample, *how)

    monkeypatch.setattr(first_look, "_moments", counted)
    job = counton.Job(
        "count", str(loans / "loans.csv"), "s.db", time="borrowed_at", every="1d", per="1d"
    )
    for options in ({}, {"by": "branch"}, {"user": "reader"}, {}):
        found = look.for_operator(job.having(**options))
        assert found.newest is not None
        assert look.for_operator(job.having(**options)) == found
    assert read == [("borrowed_at", "UTC", None)]


def test_a_frame_in_thousands_of_chunks_is_looked_at() -> None:
    days = [pl.DataFrame({"at": ["07.10.2024 10:00"] * 2, "n": [day] * 2}) for day in range(1500)]
    job = counton.Job("count", pl.concat(days), "s.db", time="at", time_format="%d.%m.%Y %H:%M")
    assert first_look.look_at(job).for_operator(job).newest == datetime(2024, 10, 7, 10, tzinfo=UTC)


def test_a_bound_on_peoples_rows_is_proposed_for_a_longer_window() -> None:
    rows = pl.DataFrame({"at": ["2024-10-07T10:00Z"], "reader": ["ann"]})
    for every, per in (("1w", "1w"), ("1mo", "1mo"), ("1h", "1d")):
        with pytest.raises(InvalidInput, match=f"per={per}"):
            counton.init(rows, every=every)


def test_times_of_another_form_are_asked_for(terminal: Terminal, loans: Path) -> None:
    (loans / "till.csv").write_text("when\n2020|10|24\n")
    done = terminal(
        *("till.csv", "--epsilon", "1", "--unit", "sale"),
        zone_of_days=["", "time=when start=2020-10-24"], how_its_times=["%d.%m.%Y", "%Y|%m|%d"],
    )  # fmt: skip
    assert done.code == 0
    assert "no time in column 'when' has the format '%d.%m.%Y'" in done.out
    assert job_of(loans)["time-format"] == "%Y|%m|%d"


@pytest.mark.parametrize(
    ("form", "kept"), [([], None), (["ISO"], None), (["%d.%m.%Y"], "%d.%m.%Y")]
)
def test_a_header_alone_is_asked_for_its_times_with_the_reason(
    terminal: Terminal, loans: Path, form: list[str], kept: str | None
) -> None:
    (loans / "header.csv").write_text(LOANS.partition("\n")[0] + "\n")
    done = terminal(
        *("header.csv", "--epsilon", "1"),
        zone_of_days=["", "time=borrowed_at"], how_its_times=form,
    )  # fmt: skip
    assert (done.code, done.left) == (0, {}), done.out
    assert "header.csv has no rows yet: name the column of times." in done.out
    assert "Error: time has no usual value: write time=..." in done.out
    assert "or epoch, or ISO (2026-10-24 09:00) [ISO]: " in done.out
    job = job_of(loans)
    assert (job["time"], job.get("time-format")) == ("borrowed_at", kept)


def test_a_first_window_after_all_rows_is_taken_only_when_typed_twice(
    terminal: Terminal, loans: Path
) -> None:
    far = "start=2030-01-01"
    done = terminal("loans.csv", "--epsilon", "1", zone_of_days=[far, "start=2020-10-24"])
    assert "Error: no row would count: the newest is of 2020-10-25, before 2030-01-01" in done.out
    assert job_of(loans)["start"] == "2020-10-24"
    done = terminal("loans.csv", "--epsilon", "1", "--force", zone_of_days=[far, far])
    assert (done.code, done.left) == (0, {}), done.out
    assert job_of(loans)["start"] == "2030-01-01"
    refused, _, after = done.out.partition("A run would refuse these rows today: ")[2].partition(
        "is written"
    )
    assert refused
    assert "until newest" not in after
    assert "before the first run:" in after
    assert "begin init again with --force and other options." in after
    assert "crontab" not in after  # a line would fail
    done = terminal("loans.csv", "--epsilon", "1", "--force", zone_of_days=["start=2020-01-01"])
    assert "A run would refuse" not in done.out


def test_rows_of_the_past_are_counted_by_enter_alone(
    terminal: Terminal, loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (loans / "loans.csv").write_text(LOANS.replace("2020", "2024"))
    done = terminal("loans.csv")
    assert (done.code, "Error" in done.out, "A run would refuse" in done.out) == (0, False, False)
    assert "start=2024-01-01 is of the first row's, which Enter publishes" in done.out
    assert "until=newest releases up to the newest row, whose window is not protected" in done.out
    assert "per=1d most=3]: " in done.out
    job = job_of(loans)
    assert (job["start"], job["until"]) == ("2024-01-01", "newest")
    monkeypatch.chdir(loans)
    told = place.plain("init", "loans.csv", "--yes", "--save", "yes.toml").err
    assert "--start 2024-01-01: the first window's beginning is published, so choose" in told
    command = told.partition("as in:\n")[2].replace("\\\n", " ")
    assert place.plain(*command.split()[1:]).code == 0
    ran = place.plain("run", "nightly.toml")
    assert (ran.code, "Released 297 new windows" in ran.out) == (0, True), ran.err
    quiet = place.plain("run", "nightly.toml", "--until", "2025-01-01")
    assert "give --yes for this run" in quiet.err
    assert "give for every run quiet of the job file, the number of windows" in quiet.err
    again = terminal("loans.csv", "--until", "2024-11-01", "--save", "other.toml")
    assert again.code == 2
    assert "--until 2024-11-01 would stop every later night's run at this date, too" in again.out
    assert not (loans / "other.toml").exists()


def test_a_typed_bound_has_its_share_of_rows_too(terminal: Terminal, loans: Path) -> None:
    rows = "ann,north,2020-10-24 09:00\n" * 5
    (loans / "loans.csv").write_text("reader,branch,borrowed_at\n" + rows)
    done = terminal("loans.csv", column_of_people=["most=4"])
    assert "leaves out, of the events from 2020-10-24 to 2020-10-24: 20.0% with 4\n" in done.out


def test_a_longer_wait_is_suggested_where_rows_arrive_later(
    terminal: Terminal, loans: Path, init: Callable[..., Result]
) -> None:
    (loans / "late.csv").write_text(
        "at,entered\n2020-10-24 09:00,2020-10-24 10:00\n2020-10-24 09:00,2020-10-25 13:00\n"
    )
    said = [
        *("late.csv", "--unit", "loan", "--epsilon", "1", "--start", "2020-10-24"),
        *("--time", "at", "--timezone", "UTC", "--until", "newest"),
    ]
    done = terminal(*said)
    assert "1d is suggested, because more than 1% of rows arrive by entered later than 6h" in (
        done.out
    )
    assert "A row that comes later than 1d after its day does not count: in a file" in done.out
    assert job_of(loans)["watermark"] == "1d"
    done = terminal("loans.csv", "--force")
    assert "Nothing tells when rows arrive: 6h is a guess." in done.out
    told = init(*said, "--yes", "--force")  # rows decide nothing unasked
    assert job_of(loans)["watermark"] == "6h"
    assert "by entered later than 6h after their window's end; --watermark 1d waits" in told.err
    assert init(*said, "--yes", "--force", "--watermark", "1d").err == ""


def test_a_bound_for_ever_has_no_usual_value(terminal: Terminal, loans: Path) -> None:
    done = terminal("loans.csv", column_of_people=["per=ever"], how_many_rows=["", "4"])
    assert "how many rows of one person count at most: " in done.out
    assert "for ever leaves out, of the events from 2020-10-24 to 2020-10-25: 42.9% with 1, " in (
        done.out
    )
    assert "Error: this question has no usual answer" in done.out
    assert job_of(loans)["most"] == 4


def test_an_error_may_be_named_within(terminal: Terminal, loans: Path) -> None:
    done = terminal(
        *("loans.csv", "--domain", "north,south", "--by", "branch"),
        zone_of_days=["start=2020-10-24"], how_far_off=["within=15"],
    )  # fmt: skip
    assert (done.code, "Error" in done.out) == (0, False), done.out
    assert job_of(loans)["epsilon"] == "0.579"  # as of the answer 15


@pytest.mark.parametrize(("answer", "told"), [("epsilon=3", False), ("epsilon=3.5", True)])
def test_a_large_loss_is_remarked_upon(terminal: Terminal, answer: str, told: bool) -> None:
    done = terminal("loans.csv", how_far=[answer])
    assert ("An epsilon of 3.5 hides little; at most 1 is usual." in done.out) == told


def test_columns_that_may_name_people_are_shown_and_a_row_is_named(
    terminal: Terminal, loans: Path
) -> None:
    (loans / "kunde.csv").write_text(LOANS.replace(",", ";").replace("reader", "Kunde"))
    done = terminal("kunde.csv", a_column_and=["branch=north,south,east"],
                    column_of_people=["per=1mo", "none unit=Ausleihe"])  # fmt: skip
    people = "to protect a person, name the column of people, user=COLUMN; or write none"
    assert f"Error: {people}" in done.out
    assert "columns whose values repeat, as people's do: Kunde (4)\n" in done.out
    assert "With none, each single row is hidden, but no person" in done.out
    other = "A row that lacks nothing but its branch, or has another name, counts in the group "
    assert other in done.out
    assert "a row's name (published) [none unit=row]: " in done.out
    assert job_of(loans)["unit"] == "Ausleihe"


def test_another_column_of_people_or_period_is_asked_for_its_bound(
    terminal: Terminal, loans: Path
) -> None:
    (loans / "kunde.csv").write_text(LOANS.replace("reader", "Kunde"))
    done = terminal("kunde.csv", column_of_people=["user=Kunde"], how_many_rows=["2"])
    assert (done.code, done.left) == (0, {}), done.out
    assert "rows that a bound in 1d leaves out, of the events from" in done.out
    assert {"user": "Kunde", "per": "1d", "most": 2}.items() <= job_of(loans).items()
    done = terminal("loans.csv", "--force", column_of_people=["per=1mo most=2"])
    assert "exact: rows that a bound in 1mo leaves out, of the events from" in done.out
    assert "rows that a bound in 1mo" not in (loans / "nightly.toml").read_text()
    done = terminal("loans.csv", "--force", column_of_people=["per=1d most=2"])
    assert done.out.count("rows that a bound in 1d leaves out") == 1  # shown before the answer
    done = terminal("loans.csv", "--force", column_of_people=["per=1mo unit=borrower"])
    assert "how many rows of one person count at most [3]: " in done.out
    assert {"per": "1mo", "most": 3, "unit": "borrower"}.items() <= job_of(loans).items()


def test_a_second_column_of_times_tells_how_late_rows_come(terminal: Terminal, loans: Path) -> None:
    (loans / "late.csv").write_text(
        "at,entered\n2020-10-24 09:00,2020-10-24 10:00\n2020-10-24 09:00,2020-10-25 03:00\n"
    )
    done = terminal("late.csv", "--unit", "loan", "--epsilon", "1")
    assert "arrive by entered later than this after their window's end: 50.0% after" in done.out
    assert ", 50.0% after 1h, 0.0% after 6h" in done.out


IN_THE_NEXT = (
    "A row that comes after its window is released counts in the next one; to count it in its "
    "own, published anew for two days, begin init again with --revise 2d{}."
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            ("--unit", "loan"),
            "late rows cannot be told apart; to count it in its own, published anew for two days, "
            "begin init again with --revise 2d --id COLUMN.",
        ),
        (("--user", "reader"), IN_THE_NEXT.format(" --id COLUMN")),
        (("--user", "reader", "--id", "row"), IN_THE_NEXT.format("")),
        (("--append", "--unit", "loan"), IN_THE_NEXT.format("")),
        (("--append", "--unit", "loan", "--revise", "3d"), "its own, which is provisional for 3d."),
    ],
)
def test_the_question_about_late_rows_names_both_options(
    terminal: Terminal, loans: Path, said: tuple[str, ...], told: str
) -> None:
    (loans / "loans.csv").write_text(
        "reader,row,borrowed_at\nann,1,2020-10-24 09:00\nbob,2,2020-10-24 09:00\n"
    )
    done = terminal("loans.csv", "--epsilon", "1", *said)
    assert done.code == 0, done.out
    assert told in " ".join(done.out.split()), done.out
    assert "the wait for late ones [" in done.out  # --watermark
    job = job_of(loans)
    assert job["watermark"] == "6h"
    assert (job.get("revise"), "release" in job) == (
        ("3d", False) if "3d" in said else (None, True)
    )
    if "3d" in said:
        assert "It publishes each day's own number" in done.out


def test_each_line_of_the_file_has_a_comment_and_revised_numbers_both_errors(
    loans: Path, init: Callable[..., Result]
) -> None:
    (loans / "loans.csv").write_text("id,reader,borrowed_at,branch\n1,ann,2020-10-24 09:00,north\n")
    said = [one.replace("100", "1") for one in SAID]
    said += ["--append", "--id", "id", "--revise", "5d", "--key", "k", "--witness", "w"]
    done = init("loans.csv", "--yes", *said, "--name", "loans", "--format", "csv")
    off = r"off by at most (\d+) when it is first published and (\d+) when it is final, in 95"
    first, final = map(int, re.search(off, done.out).groups())  # type: ignore[union-attr]
    assert 0 < first < final
    lines = (loans / "nightly.toml").read_text().partition("[jobs.")[2].splitlines()[1:]
    lacking = [
        line for before, line in pairwise(lines) if "=" in line and not before.startswith("# ")
    ]
    assert [line for line in lacking if not line.startswith("#")] == []


def test_dates_of_files_tell_how_late_rows_come(terminal: Terminal, loans: Path) -> None:
    (loans / "events").mkdir()
    for day, late in ((24, 3600), (25, 90_000)):
        file = loans / f"events/{day}.csv"
        file.write_text(f"at\n2020-10-{day}T12:00Z\n")
        ends = 1_603_497_600 + (day - 24) * 86_400 + 86_400  # 2020-10-24T00:00Z is 1,603,497,600
        os.utime(file, (ends + late, ends + late))
    done = terminal("events", "--unit", "loan", "--epsilon", "1", zone_of_days=["timezone=UTC"])
    assert "100.0% after 0s, 50.0% after 1h, 50.0% after 6h, 50.0% after 1d, 0.0%" in done.out
    assert job_of(loans)["append"] is True


def test_ctrl_c_leaves_nothing(loans: Path) -> None:
    """In a process of its own, whose terminal it is."""
    before = sorted(loans.iterdir())
    child, master = pty.fork()
    if not child:  # nothing but another program is run here
        os.chdir(loans)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell in the background takes away
        os.execv(sys.executable, [sys.executable, "-m", "counton", "init", "loans.csv"])
    answers, typed = Answers({}), 0
    try:
        while typed < 4:
            answers.shown += os.read(master, 65536)
            if (said := answers.reply()) is not None:
                typed += 1
                os.write(master, b"\x03" if typed == 4 else said)
        attend(master, answers, threading.Event())  # until the command has ended
        _, status = os.waitpid(child, 0)
        child = 0
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(master)
    assert os.waitstatus_to_exitcode(status) != 0
    assert sorted(loans.iterdir()) == before, answers.shown.decode()
    assert b"nothing is written" in answers.shown


# ----------------------------------------------------------------------------- without a terminal


def test_without_a_terminal_one_refusal_says_all_with_a_command_that_runs(
    loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    refused = init("loans.csv")
    assert refused.code == 2
    by = (
        "if you want a number by group (exact: values repeat in branch), --by branch --domain A,B,C"
    )
    assert f"\n{by}: the names of groups are published" in refused.err
    refused = init("loans.csv", "--by", "branch")
    assert refused.code == 2
    assert "a number by group" not in refused.err
    assert "there is no terminal to ask at; its columns are reader, branch" in refused.err
    for option in ("--timezone", "--start", "--domain", "--user reader --most 3", "--epsilon"):
        assert f"\n  {option}" in refused.err
    assert [path.name for path in loans.iterdir()] == ["loans.csv"]
    command = refused.err.partition("as in:\n")[2].replace("\\\n", " ")
    done = place.plain(*command.split()[1:])
    assert done.code == 0, done.err
    assert place.plain("run", "nightly.toml", "--until", "2020-10-27").code == 0


def test_yes_says_what_is_left_and_asks_nothing(init: Callable[..., Result]) -> None:
    refused = init("loans.csv", "--yes", *SAID[:-4], "--by", "branch")
    assert refused.code == 2
    assert "events do not tell some options" in refused.err
    assert "--domain A,B,C" in refused.err
    assert "--timezone Europe/Berlin:" not in refused.err
    assert init("loans.csv", "--yes", *SAID).code == 0


@pytest.mark.parametrize(("year", "asked"), [("2020", True), ("2999", False)])
def test_a_start_must_be_stated_only_if_no_row_is_of_this_year(
    loans: Path, init: Callable[..., Result], year: str, *, asked: bool
) -> None:
    (loans / "loans.csv").write_text(LOANS.replace("2020", year))
    refused = init("loans.csv", "--yes")
    assert (refused.code, "\n  --start" in refused.err) == (2, asked)


def test_a_job_file_that_is_there_stays(loans: Path, init: Callable[..., Result]) -> None:
    assert init("loans.csv", "--yes", *SAID).code == 0
    before = (loans / "nightly.toml").read_bytes()
    refused = init("loans.csv", "--yes", *SAID, "--release", "totals")
    assert refused.code == 2
    assert "--save other.toml" in refused.err
    assert "--force" in refused.err
    assert (loans / "nightly.toml").read_bytes() == before
    assert init("loans.csv", "--yes", *SAID, "--release", "totals", "--force").code == 0
    assert job_of(loans)["release"] == "totals"


def test_a_state_that_has_begun_is_not_taken(
    loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    assert init("loans.csv", "--yes", *SAID).code == 0
    assert place.plain("run", "nightly.toml", "--until", "2020-10-27").code == 0
    refused = init("loans.csv", "--yes", *SAID, "--force")
    assert refused.code == 2
    assert "--state other.db" in refused.err


def test_a_second_stream_of_the_same_events_has_files_of_its_own(
    loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    assert init("loans.csv", "--yes", *SAID).code == 0
    assert init("loans.csv", "--yes", *SAID, "--force").code == 0
    assert job_of(loans)["out"] == "loans.released.csv"  # of the file that is overwritten
    z = ("--save", "z.toml", "--state", "z.db")
    assert init("loans.csv", "--yes", *SAID, *z).code == 0
    assert place.plain("run", "nightly.toml").code == 0
    (loans / "nightly.toml").unlink()
    for file in (*z, "--force"), ("--save", "y.toml", "--state", "y.db"):
        assert init("loans.csv", "--yes", *SAID, *file).code == 0
    files = [("loans-2.released.csv", "quarantine:loans-2.unreadable.csv")]
    files += [("loans-3.released.csv", "quarantine:loans-3.unreadable.csv")]
    jobs = [job_of(loans, name) for name in ("z.toml", "y.toml")]
    assert [(job["out"], job["bad-rows"]) for job in jobs] == files


def test_a_table_of_a_database_is_events_too(loans: Path, init: Callable[..., Result]) -> None:
    with closing(sqlite3.connect(loans / "library.db")) as database, database:
        database.execute("create table loans (reader text, branch text, borrowed_at text)")
        database.execute("insert into loans values ('ann', 'north', '2020-10-24 09:00')")
    database.close()
    due = "select * from loans where borrowed_at >= {since}"
    for query in ("select * from loans", due):
        words = ("--query", query, "--yes", "--force", "--key", "env:COUNTON_KEY")
        done = init("sqlite:///library.db", *SAID, *words)
        assert done.code == 0, done.err
        assert job_of(loans)["query"] == query
        assert "exact sums: secret" in (loans / "nightly.toml").read_text(encoding="utf-8")
    both = f"{due} and borrowed_at < {{until}}"
    asked = counton.Job("count", f"sqlite:///{loans / 'library.db'}", "visits.db", query=both)
    assert first_look.look_at(asked).for_operator(asked.having(time="borrowed_at")).rows == 1


@pytest.mark.parametrize("bad", [1, 40])
def test_rows_that_a_run_sets_aside_are_told_and_a_run_that_refuses_them_is_refused(
    loans: Path, init: Callable[..., Result], place: Workplace, bad: int
) -> None:
    latin = "eve,s\u00fcd,2020-10-24 09:00\n".encode("latin-1") * bad
    (loans / "loans.csv").write_bytes(
        b"reader,branch,borrowed_at\n" + b"ann,north,2020-10-24 09:00\n" * 41 + latin
    )
    why = (
        "row 42 of loans.csv cannot be read as csv (it has bytes that are not UTF-8); correct the "
    )
    remedy = "file, or convert it, as from Latin-1 by iconv -f LATIN1 -t UTF-8 loans.csv > utf8.csv"
    refused = init("loans.csv", "--yes", *SAID, "--bad-rows", "refuse")
    assert (refused.code, f"{why}{remedy}" in refused.err) == (2, True)
    assert not (loans / "nightly.toml").exists()
    set_aside = ("--bad-rows", "quarantine:loans.unreadable.csv")
    if bad > 3:  # else a whole branch would be published as zero
        other = init("loans.csv", "--yes", *SAID)
        assert (other.code, other.err.partition(": row 42 ")[0]) == (
            2, "counton: more than 1 in 100 rows are not UTF-8",
        )  # fmt: skip
        assert f"{remedy}; or set such rows aside (--bad-rows quarantine:FILE)" in other.err
        assert not (loans / "nightly.toml").exists()
    done = init("loans.csv", "--yes", *SAID, *(set_aside if bad > 3 else ()))
    assert done.code == 0
    told = f"rows that cannot be read, set aside: {bad}"
    assert done.err == f"exact, not to be published: {told}; the first: {why}{remedy}\n"
    ran = place.plain("run", "nightly.toml", "--until", "newest")
    assert told in ran.err
    assert "aside" not in init("loans.csv", "--yes", *SAID[:-4], "--save", "all.toml").err


def test_rows_left_out_are_told_without_a_terminal(init: Callable[..., Result]) -> None:
    assert init("loans.csv", "--yes", *SAID).err.splitlines() == [
        f"exact, not to be published: rows {what}"
        for what in (
            "that cannot be read, set aside: 1; the first: row 8 of loans.csv has a local time "
            "that a clock change skips or repeats in column 'borrowed_at' ('2020-03-29 02:30'); "
            "write times with a UTC offset; for a time that comes twice in Europe/Berlin you may "
            "also choose the earlier or the later (--clock-change)",
            "with a missing value, not counted: 1",
            "seen of undeclared groups, which belong to group 'other': 1 (most often 'east', 1)",
        )
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (("--steps", "0"), "steps is 0; it must be at least 1"),
        (("--most", "0"), "--most 0 would count nothing"),
        (("--start", "1500-01-01"), "is after the end of the stream's last step, 3,653"),
        (("--start", "2020-11-24"), "so there is nothing to count; correct --start or the events"),
        (("--start", "yesterday"), "'yesterday' is not a time that can be read; write ISO 8601"),
        (("--time", "branch"), "time that cannot be read in column 'branch' ('north')"),
        (("--time-format", "%d.%m.%Y"), "a time that cannot be read in column 'borrowed_at'"),
        (("--missing", "refuse"), "has no user in column 'reader'"),
        (("--clock-change", "raise"), "has a local time that a clock change skips or repeats"),
        (("--unknown", "refuse"), "groups in column 'branch' that are not listed: 'east'"),
        (("--state", "none/s.db"), "none/s.db cannot be created (its folder does not exist)"),
        (("--key", "none/key"), "key file none/key cannot be written (No such file or directory)"),
    ],
)
def test_a_bad_value_is_refused_in_the_words_of_a_run(
    loans: Path, init: Callable[..., Result], place: Workplace, said: tuple[str, ...], why: str
) -> None:
    refused = init("loans.csv", "--yes", *SAID, *said)
    assert refused.code in (2, 6)
    assert why in refused.err, refused.err
    assert [path.name for path in loans.iterdir()] == ["loans.csv"]
    options = ("--time", "borrowed_at", "--every", "1d", "--steps", "3653", "--until", "newest")
    rows = ["--missing", "skip", "--clock-change", "earliest"]
    if said[0] not in ("--missing", "--clock-change"):
        rows += ["--bad-rows", "quarantine:q.csv"]
    if said[0] not in ("--time", "--time-format"):  # a run sets all rows aside
        others = () if said[0] == "--unknown" else ("--other", "other")
        ran = place.plain("count", "loans.csv", *options, *rows, *others, *SAID, *said)
        assert (ran.code, why in ran.err) == (refused.code, True), ran.err


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("none.csv", None, "'none.csv' is not a file"),
        ("empty.csv", b"", "empty.csv is empty (0 bytes)"),
        ("latin.csv", "at,branch\n2020-10-24T09:00Z,M\xfcnchen\n".encode("latin-1"), "not UTF-8"),
        ("wide.csv", "at,branch\n".encode("utf-16"), "wide.csv is UTF-16"),
        ("till.csv", b"page,price\nhome,3\n", "no column holds times in a known format"),
        ("two.csv", b"sent,read\n2020-10-24,2020-10-25\n", "'sent' or 'read' may say when"),
    ],
)
def test_files_that_no_job_reads_are_refused_as_a_run_refuses_them(
    loans: Path, init: Callable[..., Result], name: str, content: bytes | None, why: str
) -> None:
    if content is not None:
        (loans / name).write_bytes(content)
    refused = init(name, "--yes")
    assert refused.code == 2
    assert why in refused.err, refused.err
    assert not (loans / "nightly.toml").exists()


def test_semicolons_parquet_and_a_header_alone_are_read(
    loans: Path, init: Callable[..., Result]
) -> None:
    (loans / "semi.csv").write_text(LOANS.replace(",", ";"))
    pl.read_csv(loans / "loans.csv").write_parquet(loans / "loans.parquet")
    (loans / "header.csv").write_text(LOANS.partition("\n")[0] + "\n")
    assert init("semi.csv", "--yes", *SAID, "--save", "semi.toml").code == 0
    assert job_of(loans, "semi.toml")["separator"] == ";"
    assert init("loans.parquet", "--yes", *SAID, "--save", "parquet.toml").code == 0
    named = ("--time", "borrowed_at", "--save", "header.toml")
    done = init("header.csv", "--yes", *SAID, *named)
    assert done.code == 0, done.err


def test_of_a_large_file_a_sample_from_the_start_is_looked_at_and_said(
    terminal: Terminal, loans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_look, "SAMPLE_BYTES", 1000)
    rows = "".join(f"r{i},north,2020-10-24 09:00\n" for i in range(1000))
    (loans / "loans.csv").write_text(LOANS + rows + "broken,line\n")
    done = terminal("loans.csv")
    assert done.code == 0
    assert "only the first rows are read" in done.out


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel counts no bytes read")
def test_of_ten_gigabytes_a_small_part_is_read(loans: Path) -> None:
    """Neither bytes that are read, nor memory, into which files are mapped, grow with the file."""
    rows = "ann,north,2020-10-24 09:00\n" * 2_000_000
    with (loans / "big.csv").open("w") as file:
        file.write("reader,branch,borrowed_at\n" + rows)
        file.truncate(10 * 2**30)
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from counton.cli.app import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "read = Path('/proc/self/io').read_text().split()[1]\n"
        "most = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"
        "print(read, most, file=sys.stderr)\n"
    )
    words = [sys.executable, "-c", program, "init", "big.csv", "--yes", *SAID]
    done = subprocess.run(words, cwd=loans, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Only the first rows were read." in done.stdout
    read, kilobytes = map(int, done.stderr.split())
    assert read < 2**27
    assert kilobytes < 2**20


@pytest.mark.parametrize("sample", [3, 500_000])
def test_of_a_table_of_a_database_the_first_rows_are_asked_for(
    sample: int, loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_look, "_SAMPLE_ROWS", sample)
    monkeypatch.chdir(loans)
    with closing(sqlite3.connect("library.db")) as library:
        library.execute("CREATE TABLE loans (at TEXT, reader TEXT)")
        rows = [(f"2020-10-24T{hour:02}:00Z", "ann") for hour in range(10)]
        library.executemany("INSERT INTO loans VALUES (?, ?)", rows)
        library.commit()
    asked = ("init", "sqlite:///library.db", "--query", "SELECT * FROM loans;", "--yes")
    left = place.plain(*asked)
    assert ("only the first rows were read" in left.err) == (sample == 3)
    said = ("--start", "2020-10-24", "--unit", "loan", "--epsilon", "1", "--until", "newest")
    assert place.plain(*asked, *said).code == 0
    ran = place.plain("run", "nightly.toml", "--until", "2020-10-25T06:00")
    assert (ran.code, "rows" in ran.err) == (0, False), ran.err
    assert "Released 1 new window" in ran.out


# ----------------------------------------------------------------------------------- from Python


def test_python_gives_a_job_to_print_to_change_and_to_run(loans: Path) -> None:
    frame = pl.read_csv(loans / "loans.csv")
    said: dict[str, Any] = {
        "timezone": "Europe/Berlin", "start": "2020-10-24", "unit": "loan", "epsilon": 100,
        "until": "newest",
    }  # fmt: skip
    with pytest.raises(
        InvalidInput, match="not tell the value of these options; give them: timezone=Europe/Berlin"
    ) as refused:
        counton.init(frame)
    assert set(refused.value.fields) >= {"timezone", "start", "user", "epsilon"}
    with pytest.raises(InvalidInput, match="clock change"):
        counton.init(frame, state=loans / "s.db", **said)
    assert not (loans / "s.db").exists()
    read = frame.filter(~pl.col("borrowed_at").str.contains("2020-03"))  # clocks skip this hour
    job = counton.init(read, state=loans / "s.db", **said)
    assert (job.noise.release, job.format.missing, job.format.clock_change) == (
        "windows",
        "skip",
        "earliest",
    )
    assert "ann" not in repr(job)
    with run(job.having(until="2020-10-26T06:00")) as done:
        assert done.after == 2


def test_what_a_first_look_found_shows_no_number_by_itself(loans: Path) -> None:
    said: dict[str, Any] = {
        "events": str(loans / "loans.csv"),
        "state": "s.db",
        "time": "borrowed_at",
    }
    look = first_look.look_at(counton.Job("count", **said))
    assert "north" not in repr(look)
    assert "2020" not in repr(look)
    facts = look.for_operator(counton.Job("count", **said))
    assert facts.rows == 8
    assert repr(facts) == "FirstFacts(secret)"


# ------------------------------------------------------------------------------------ every night


def test_the_lines_for_cron_and_systemd_run_after_the_window_and_its_wait(
    terminal: Terminal, loans: Path
) -> None:
    shown = terminal("loans.csv", zone_of_days=["start=2020-10-24"]).out
    assert f"\n  5 6 * * * cd {loans} && " in shown
    assert "\n  OnCalendar=*-*-* 06:05 Europe/Berlin\n" in shown
    hourly = terminal("loans.csv", "--every", "1h", "--force").out
    assert "\n  5 * * * * cd" in hourly
    assert "\n  OnCalendar=*:05\n" in hourly


def test_the_command_of_the_crontab_line_runs(loans: Path, init: Callable[..., Result]) -> None:
    shown = init("loans.csv", "--yes", *SAID).out
    line = next(one for one in shown.splitlines() if "* * *" in one)
    _, _, command = line.partition("cd ")
    words = command.replace("counton run", f"{sys.executable} -m counton run")
    done = subprocess.run(
        ["sh", "-c", f"cd {words} --until 2020-10-27"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Released 2 new windows" in done.stdout


def test_a_percent_sign_in_a_folder_is_escaped_in_the_lines_for_every_night(
    loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = loans / "50% off"
    folder.mkdir()
    (loans / "loans.csv").rename(folder / "loans.csv")
    monkeypatch.chdir(folder)
    shown = place.plain("init", "loans.csv", "--yes", *SAID, "--save", "a%b.toml").out
    cron = next(one for one in shown.splitlines() if " cd " in one)
    assert r"50\% off' && " in cron
    assert r"counton run a\%b.toml" in cron
    assert "/50%% off\n" in shown.partition("WorkingDirectory=")[2]
    assert "a%%b.toml" in shown.partition("ExecStart=")[2].partition("\n")[0]

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from witnesses import witness_file

from counton.base.errors import StateError
from counton.run import Job, run
from counton.serve.service import Service
from counton.state import Stream
from counton.state.rollback_guard import accept_old_copy

from .conftest import Workplace

EVENTS = ["00:10,a", "00:50,b", "01:30,a", "01:30,a", "03:00,b"]
UNLISTED_ROWS = "rows read of undeclared groups, for group 'rest', whether counted or not"
TOTALS = [[1, 1], [3, 1], [3, 1]]  # after hours 1, 2, 3; the event at 03:00 is in hour 4


def test_windows_that_have_ended_are_released_with_their_running_totals(place: Workplace) -> None:
    out = place.folder / "out.parquet"
    done = place.count(place.write("e.csv", EVENTS), "--output", str(out)).fine()
    assert place.estimates() == TOTALS
    table = pl.read_parquet(out)
    assert table.columns == [
        *("window_index", "window_start", "window_end", "series", "group"),
        *("estimate", "noise_std", "lower", "upper", "confidence_level"),
    ]
    assert table["group"].to_list() == ["a", "b"] * 3
    assert table["window_end"][5].isoformat() == "2013-01-01T03:00:00+00:00"
    assert (table["lower"] <= table["estimate"]).all()
    assert "Released 3 new windows (1 to 3 of 6)" in done.out
    assert "Not protected: the time of the newest event" in _flat(done.out)


def test_run_prints_end_and_delay_of_next_window(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    wait = ("--release-delay", "30m")
    until = (*wait, "--until", "latest-event")
    first = _flat(place.count(events, *until).out)
    assert "Not protected: the time of the newest event" in first
    assert "Less the release delay of 30m, it is 2013-01-01 02:30+00:00." in first
    again = _flat(place("release", "count", events, *place.again, *until).out)
    event = "an event of 2013-01-01 03:30 (UTC) or later, 30m after its end"
    assert f"Next: window 3 can be released once there is {event}" in again
    assert "Not protected" not in again
    by_clock = (*place.again, *wait, "--until", "2013-01-01T03:29")
    assert (
        "window 3 can be released with until = 2013-01-01 03:30 (UTC) or later, 30m after its end"
        in _flat(place("release", "count", events, *by_clock).out)
    )
    at_once = place.new(state=str(place.folder / "at once.db"), until="2013-01-01T02:00")
    next_window = "Next: window 3 can be released with until = 2013-01-01 03:00 (UTC) or later"
    released = place("release", "count", events, *at_once).out
    assert "Released 2 new windows" in released
    assert next_window in _flat(released)
    assert next_window in _flat(place("release", "count", events, *at_once).out)


def test_a_first_run_names_the_options_for_late_rows(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    said = "Late rows: to wait for them before their hour is released, set --release-delay."
    revise = (
        " To add them to their hour afterwards, start a new stream with --allowed-lateness, which "
        "spends the privacy loss again."
    )
    assert said + revise in _flat(place.count(events, "--until", "2013-01-01T02:00").out)
    again = place("release", "count", events, *place.again, "--until", "2013-01-01T03:00")
    assert "Released 1 new window" in again.out
    assert said not in _flat(again.out)
    new = place.new(state=str(place.folder / "n.db"), until="2013-01-01T02:00")
    assert revise in _flat(place("release", "count", events, *new, "--append").out)
    waits = place.new(
        state=str(place.folder / "w.db"), release_delay="1h", until="2013-01-01T03:00"
    )
    done = place("release", "count", events, *waits)
    assert "Released 2 new windows" in done.out
    assert said not in _flat(done.out)


@pytest.mark.parametrize(
    "series", [("rolling", "--last", "2h"), ("decayed", "--half-life", "2h")], ids=str
)
def test_run_of_recent_sums_names_no_option_that_they_refuse(
    place: Workplace, series: tuple[str, ...]
) -> None:
    events = place.write("e.csv", EVENTS)
    done = place.count(events, "--until", "2013-01-01T02:00", "--series", *series)
    assert "Late rows: to wait for them" in done.out
    later = place.write("e.csv", [*EVENTS, "00:20,b", "04:00,a"])
    again = place("release", "count", later, *place.again)
    assert "not counted (to wait: --release-delay): 1\n" in again.err
    assert "--allowed-lateness" not in done.out + again.err


def test_run_without_release_writes_no_output(place: Workplace) -> None:
    out = place.folder / "out.csv"
    events = place.write("e.csv", EVENTS[:2])
    done = place.count(events, "--output", str(out))
    assert "No window is released yet." in done.out
    assert "written to" not in done.out
    assert "Released windows ended by" not in done.out
    assert not out.exists()


def test_run_prints_privacy_guarantee_and_unit(place: Workplace) -> None:
    """In one sentence where it is counted, and the rest of it by `show`."""
    counted = place.count(
        place.write("e.csv", EVENTS), "--privacy-unit", "visit", "--epsilon", "1"
    ).out
    privacy = (
        "Privacy: epsilon = 1 for each visit, for all windows together. Users are not protected: "
        "a user with 100 visits loses 100 times the epsilon"
    )
    assert privacy in _flat(counted)
    assert f"full privacy statement: counton methods {place.state} --full" in counted
    assert len(counted.splitlines()) <= 15


def test_quantities_have_thousands_separators(place: Workplace) -> None:
    done = place.count(place.write("e.csv", ["00:10,a"] * 12_345 + ["01:00,b"]))
    assert "a 12,345 12,345 to 12,345" in _flat(done.out)


def test_late_rows_count_in_next_window_and_number_is_confidential(
    place: Workplace,
) -> None:
    place.count(place.write("e.csv", EVENTS), "--append")
    late = ["00:20,b", "00:30,b", "04:00,a"]
    out = ("--append", "--output", str(place.folder / "out.parquet"))
    done = place("release", "count", place.write("late.csv", late), *place.again, *out)
    assert place.estimates() == [*TOTALS, [3, 4]]  # 1 of hour 4 and 2 late ones
    assert "confidential: rows that arrived late" in done.err
    assert "counted in window 4: 2\n" in done.err
    assert "arrived" not in done.out
    remedy = (
        "of 3 new rows that may count, 1 (33.33%) was in time for their hour. With --release-delay "
        "3h, all of these would have been in time. To add late rows to their own windows: a new "
        "stream with --allowed-lateness 3h, which spends the privacy loss again\n"
    )
    assert remedy in done.err
    told = place("inspect", str(place.state)).err
    assert told.strip() == "confidential: count: 2 of 8 rows came late, 25.0%"
    done = place("release", "count", place.write("more.csv", ["05:00,b"]), *place.again, *out)
    assert place.estimates() == [*TOTALS, [3, 4], [4, 4]]
    assert done.err == ""
    waits = ("--release-delay", "30m", "--until", "2013-01-01T06:30")
    done = place(
        "release", "count", place.write("last.csv", ["04:30,b"]), *place.again, "--append", *waits
    )
    assert "rows that arrived late" in done.err
    assert "With --release-delay 90m, all of these would have been in time." in done.err


def test_wait_for_late_rows_is_not_the_longest_delay(place: Workplace) -> None:
    place.count(place.write("e.csv", EVENTS), "--append")
    late = ["00:20,b", "02:30,a", "02:40,a", "02:50,a"]
    events = place.write("late.csv", [*late, *["03:30,a"] * 396, "04:00,a"])
    done = place("release", "count", events, *place.again, "--append")
    assert (
        "of 401 new rows that may count, 397 (99%) were in time for their hour. With "
        "--release-delay 1h, 99.75% would have been in time; 1 row came later."
    ) in done.err


def test_late_rows_wait_while_nothing_is_released(place: Workplace) -> None:
    place.count(place.write("e.csv", EVENTS), "--append")
    out = ("--append", "--output", str(place.folder / "out.parquet"))
    done = place("release", "count", place.write("late.csv", ["00:20,b"]), *place.again, *out)
    assert "to be counted at the next release: 1\n" in done.err
    assert "of 1 new row that may count, 0 (0%) were in time for their hour. With" in done.err
    assert place.estimates() == TOTALS


def test_late_rows_of_complete_file_are_not_counted(place: Workplace) -> None:
    place.count(place.write("e.csv", EVENTS))
    events = place.write("e.csv", [*EVENTS, "00:20,b"])
    out = ("--output", str(place.folder / "out.parquet"))
    for _ in range(2):
        done = place("release", "count", events, *place.again, *out)
        late = "rows of this input that arrived after their window was released, not counted"
        assert late in done.err
        assert place.estimates() == TOTALS
        assert "came late" not in place("inspect", str(place.state)).err  # nothing of it is kept
    place("release", "count", events, *place.again, "--until", "2013-01-01T04:00", *out)
    assert ": 1 of 6 rows came late, 16.7%" in place("inspect", str(place.state)).err


def test_rows_after_last_release_are_reported_as_not_counted(place: Workplace) -> None:
    end = ("--append", "--until", "2013-01-01T06:00")
    place.count(place.write("e.csv", EVENTS), *end)
    late = place.write("late.csv", ["00:20,b"])
    done = place("release", "count", late, *place.again, *end)
    assert "not counted: the stream has had its last release: 1\n" in done.err


def test_disappeared_rows_are_reported_without_effect(place: Workplace) -> None:
    place.count(place.write("e.csv", EVENTS))
    fewer = place.write("e.csv", [*EVENTS[:2], EVENTS[2], EVENTS[4], "05:30,a"])
    done = place("release", "count", fewer, *place.again).fine()
    assert "rows that were counted before and are missing now, still counted: 1\n" in done.err
    differs = "the input differs from the rows that stream 'count' has counted"
    assert differs not in done.err  # two windows are new
    done = place("release", "count", fewer, *place.again)
    assert differs in done.err
    assert "begin a new stream" not in done.err  # no row is new
    assert "The numbers shown are those of the last release\n" in done.err
    report = json.loads(place("release", "count", fewer, *place.again, "--json").out)
    assert report["not_private"]["notes"][0].startswith(differs)
    done = place("release", "count", place.write("e.csv", EVENTS), *place.again)
    assert "No new window is due" in done.out
    assert differs not in done.err


def test_empty_folder_is_refused_with_option_for_empty_windows(place: Workplace) -> None:
    """And that is enough, however often it comes."""
    (folder := place.folder / "new").mkdir()
    (folder / "1.csv").write_text("time,group\n2013-01-01T00:10,a\n")
    until = ["--append", "--allow-empty-windows", "--until"]
    assert place.count(str(folder), *until, "2013-01-01T01:00").code == 0
    (folder / "1.csv").unlink()
    done = place("release", "count", str(folder), *place.again, *until, "2013-01-01T02:00")
    said = "if a run has no rows, add a file that has only the line of column names"
    assert (done.code, said in " ".join(done.err.split())) == (2, True)
    for hour in (2, 3):
        (folder / f"{hour}.csv").write_text("time,group\n")
        done = place(
            "release", "count", str(folder), *place.again, *until, f"2013-01-01T0{hour}:00"
        )
        assert (done.code, "Released 1 new window" in done.out) == (0, True), done.err
        (folder / f"{hour}.csv").unlink()


def test_window_without_rows_is_released(place: Workplace) -> None:
    # That there was no event at all must not show in whether there is a release.
    out = ("--append", "--output", str(place.folder / "out.parquet"))
    none = place.write("none.csv", [])
    for hour in ("01", "02"):
        place.count(none, "--until", f"2013-01-01T{hour}:00", *out).fine()
    events = place.write("e.csv", EVENTS)
    place("release", "count", events, *place.again, "--append", "--until", "2013-01-01T04:00")
    place("release", "count", none, *place.again, "--until", "2013-01-01T05:00", *out).fine()
    assert place.estimates() == [[0, 0], [0, 0], [3, 1], [3, 2], [3, 2]]


def test_input_without_rows_is_refused_unless_allowed(place: Workplace) -> None:
    """It is said to hold all rows: so they are probably elsewhere."""
    none = place.write("none.csv", [])
    done = place.count(none, "--until", "2013-01-01T01:00")
    assert (done.code, "would release 1 window, but there is no row" in done.err) == (2, True)
    assert not place.state.exists()
    assert place.count(none, "--until", "2013-01-01T01:00", "--allow-empty-windows").code == 0


@pytest.mark.parametrize("append", [(), ("--append",)])
def test_empty_newest_windows_are_reported_as_confidential(
    append: tuple[str, ...], place: Workplace
) -> None:
    def empty(name: str, hours: list[str], until: str, *options: str) -> str | None:
        events = place.write(name, [f"{hour}:10,a" for hour in hours])
        done = place(
            "release", "count", events, *(options or (*place.again, *append)), "--until", until
        ).fine()
        found = re.search(
            r"released without a row(?:, apart from late rows of earlier windows)? \(.*?\): (\d+)",
            _flat(done.err),
        )
        return found and found[1]

    kept = [] if append else ["00"]
    assert empty("1.csv", ["00"], "2013-01-01T01:00", *place.new(windows="9"), *append) is None
    assert empty("2.csv", kept, "2013-01-01T03:00") == "2"
    assert empty("3.csv", [*kept, "04"], "2013-01-01T04:00") is None  # a row that waits is newer
    assert empty("4.csv", [] if append else ["00", "04"], "2013-01-01T05:00") is None  # it counts
    assert empty("5.csv", [] if append else ["00", "04"], "2013-01-01T06:00") == "1"
    late = ["02"] if append else ["00", "02", "04"]
    assert empty("6.csv", late, "2013-01-01T07:00") == "1"  # a late row is not of these windows


def test_printed_output_of_duplicate_input_is_independent_of_rows(place: Workplace) -> None:
    place.count(place.write("e.csv", EVENTS), "--append")
    said = []
    for number, rows in enumerate(([], EVENTS[-1:])):
        events = place.write(f"{number}.csv", rows)
        for _ in range(2):
            done = place(
                "release", "count", events, *place.again, "--append", "--until", "2013-01-01T03:00"
            )
            said.append((done.code, done.out))
    assert len(set(said)) == 1
    assert "counted this input" in done.err


def test_run_killed_between_transactions_continues_to_same_result(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = place.write("e.csv", EVENTS)
    late = place.write("l.csv", [*EVENTS, "00:20,b"])
    key = str(place.folder / "key")
    out = str(place.folder / "out.parquet")
    small = place.new(epsilon="0.1", state=str(place.folder / "undisturbed.db"))
    end = ("--key", key, "--until", "2013-01-01T06:00", "--output", out)
    place("release", "count", events, *small, "--key", key)
    shutil.copy(place.folder / "undisturbed.db", place.state)
    assert place("release", "count", late, *small, *end).code == 0
    expected = pl.read_parquet(out)
    witness_file(place.state).unlink()  # which would refuse the copy
    accept_old_copy(place.state)

    monkeypatch.setattr(
        "counton.run.counting.step_inputs._VALUES_OF_TRANSACTION", 2
    )  # one step a transaction
    calls: list[int] = []
    take = Stream.commit

    def dies_at_the_second_call(self: Stream, *args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return take(self, *args, **more)

    monkeypatch.setattr(Stream, "commit", dies_at_the_second_call)
    with pytest.raises(KeyboardInterrupt):
        run(
            Job(
                what="count", events=late, state=str(place.state), key=Path(key),
                until="2013-01-01T06:00",
            )
        )  # fmt: skip
    monkeypatch.setattr(Stream, "commit", take)
    done = place("release", "count", late, *place.again, *end)
    assert "(5 to 6 of 6)" in done.out
    assert pl.read_parquet(out).equals(expected)


def test_json_is_one_object_and_nothing_else(place: Workplace) -> None:
    done = place.count(place.write("e.csv", [*EVENTS, "00:00,b"]), "--json")
    report = json.loads(done.out)
    assert (report["released"], report["new"], report["until_from_data"]) == (3, 3, True)
    assert report["guarantee"] == {"guarantee": "pure", "epsilon": "100"}
    first = report["last"]["rows"][0]
    assert [first[name] for name in ("series", "group", "estimate", "lower", "upper")] == [
        "cumulative", "a", 3, 3, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "rows"),
    [
        (["--unlisted-groups", "drop"], "rows of undeclared groups, not counted"),
        (["--other-group", "rest"], UNLISTED_ROWS),
        (
            ["--other-group", "rest", "--user", "group", "--max-contributions", "9"],
            UNLISTED_ROWS,
        ),
    ],
)
def test_names_of_unlisted_groups_are_confidential(
    stated: list[str], rows: str, place: Workplace
) -> None:
    names = ["secret@post", "secret@post", "w", "x", "y"]
    events = place.write("e.csv", [*EVENTS, *(f"00:30,{name}" for name in names)])
    done = place.count(events, *stated).fine()
    said = f"{rows}: 5 (most often 'secret@post', 2; 'w', 1; 'x', 1)"
    assert f"confidential: {said}\n" in done.err
    assert "most often" not in done.out
    again = json.loads(place.count(events, "--json").out)  # a run that has nothing new
    assert again["not_private"]["notes"] == [f"{rows}: 5"]
    files = [file for file in place.folder.rglob("*") if file.is_file() and file.name != "e.csv"]
    assert files
    assert not [file for file in files if b"secret@post" in file.read_bytes()]


def test_rows_outside_the_windows_are_reported_to_the_operator(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    said = place(
        "release", "count", events, *place.new(start="2013-01-01T01:00", windows="2")
    ).refused()
    assert (
        "after the last window of the stream, 2, which ends at 2013-01-01T03:00:00+00:00. Give "
        "--until" in said
    )
    done = place(
        *("release", "count", events, *place.new(start="2013-01-01T01:00", windows="2")),
        *("--until", "2013-01-01T03:00"),
    ).fine()
    assert "rows before the first window (2013-01-01T01:00:00+00:00), not counted: 2\n" in done.err
    assert "rows after the last window (2013-01-01T03:00:00+00:00), not counted: 1\n" in done.err


def test_a_terminal_without_signs_and_letters_ends_no_run(place: Workplace) -> None:
    events = place.write("e.csv", [*EVENTS, "00:30,ü"])
    done = subprocess.run(
        [
            sys.executable, "-m", "counton", "release", "count", events,
            *place.new(groups="a,b,ü", until="latest-event"),
        ],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"  ? " in done.stdout


def _flat(text: str) -> str:
    return " ".join(text.split())


def test_series_option_selects_totals_or_windows(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    out = place.folder / "out.parquet"
    done = place.count(events, "--series", "both", "--output", str(out), "--json")
    last = json.loads(done.out)["last"]
    assert [row["estimate"] for row in last["rows"]] == [*TOTALS[-1], 0, 0]
    windows = pl.read_parquet(out).filter(series="per-window")
    assert windows["estimate"].to_list() == [1, 1, 2, 0, 0, 0]
    words = _flat(place.count(events).out)
    assert "cumulative 95% interval in this hour 95% interval" in words
    assert "The noise of a window's own number has the standard deviation" in place.shown()
    alone = place.count(events, "--series", "per-window", "--stream", "alone")
    assert "Number of events, by group, in each hour (windows 1 to 3 of 6, UTC)" in alone.out


@pytest.mark.slow
def test_series_both_draws_two_charts(place: Workplace) -> None:
    plot = place.folder / "chart.png"
    place.count(place.write("e.csv", EVENTS), "--series", "both", "--chart", str(plot))
    assert plot.stat().st_size > 10_000
    assert (place.folder / "chart.windows.png").stat().st_size > 10_000


def test_until_now_is_a_time_that_has_passed(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    place.count(events, "--until", "now", "--output", str(place.folder / "out.parquet")).fine()
    assert place.estimates() == [*TOTALS, [3, 2], [3, 2], [3, 2]]  # the stream is over since 2013
    assert place("release", "count", events, *place.again, "--until", "now").code == 0
    start = ("--start", "2999-01-01", "--every", "1h", "--windows", "5", "--epsilon", "1")
    early = place(
        "release", "count", events, "--time", "time", *start, *place.again[:1], f"{place.state}2"
    )
    assert early.code == 2


def test_count_of_many_groups_shows_the_first_and_writes_all(place: Workplace) -> None:
    rows = [f"00:{minute:02},g{group}" for group in range(45) for minute in range(group)]
    names = [f"g{group}" for group in range(45)]
    events = place.write("e.csv", [*rows, "01:00,g0"])
    out = place.folder / "out.csv"
    done = place(
        "release", "count", events, *place.new(groups=",".join(names)), "--output", str(out)
    ).fine()
    shown = [line.split()[0] for line in done.out.splitlines() if line.startswith("g")][1:]
    assert shown == [f"g{group}" for group in range(20)]
    assert "Shown: the first 20 of 45 groups. All: counton export" in done.out
    assert len(out.read_text().splitlines()) == 46
    everything = json.loads(place("release", "count", events, *place.again, "--json").out)
    assert [row["estimate"] for row in everything["last"]["rows"]] == list(range(45))


@pytest.mark.parametrize("dangling", [False, True])
def test_unwritable_home_is_refused_with_rollback_guard_option(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, dangling: bool
) -> None:
    """In the words of each door, where the user's folder is a file or leads nowhere."""
    home = place.folder / "home"
    home.symlink_to(place.folder / "nowhere") if dangling else home.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    file = place.folder / "jobs.toml"
    rows = place.write("e.csv", ["00:10,a"])
    printed = place.count(rows, "--append")
    assert printed.code == 9, printed.out
    assert f"the rollback guard {home}/counton/" in printed.err
    assert "or name a folder that is (--rollback-guard)" in " ".join(printed.err.split())
    assert (
        place.count(rows, "--append", "--rollback-guard", "none", "--save-job", str(file)).code == 0
    )
    jobs = re.sub("rollback-guard = .*\n", "", file.read_text()).replace("state.db", "other.db")
    file.write_text(jobs)
    printed = place("run", str(file))
    assert printed.code == 9
    assert "or name a folder that is (rollback-guard)" in " ".join(printed.err.split())
    lines = [line for line in jobs.splitlines() if line[:5] not in ("event", "until")]
    file.write_text("\n".join(lines))
    with pytest.raises(StateError, match="or name a folder"):
        Service(file)

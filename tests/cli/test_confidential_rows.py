"""What a run and a dry run report of rows that do not count, to the operator alone."""

import datetime as dt
import json
from pathlib import Path

import pytest

from .conftest import Workplace

ROWS = (
    "time,who\n2024-03-01T09:00,ann\n2024-03-01T10:00,ann\n2024-03-02T10:15,bob\n"
    "soon,bob\nlater,bob\nnever,ann\n"
)
JOB = """
[jobs.visits]
state = "v.db"
events = "e.csv"
bad-rows = "quarantine:bad.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 365
user = "who"
max-contributions = 1
contribution-period = "1d"
privacy-unit = "visitor"
series = "per-window"
epsilon = 100
"""
SET_ASIDE = "confidential: job visits: rows that cannot be read, set aside: 3 of 6 (50.0%)"
UNLISTED = "rows read of undeclared groups, for group 'rest', whether counted or not"
NAMELESS = "rows read without a group, for group 'rest', whether counted or not"
BEYOND = "confidential: job visits: rows beyond their user's limit, not counted: 1"


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    """Return a job file whose rows have three that cannot be read and one beyond a limit."""
    (tmp_path / "e.csv").write_text(ROWS)
    file = tmp_path / "nightly.toml"
    file.write_text(JOB)
    return str(file)


def test_refused_run_does_not_hide_unreadable_rows(place: Workplace, job_file: str) -> None:
    refused = place.plain("run", job_file, "--until", "2024-05-01")
    assert refused.code == 2
    assert (place.folder / "bad.csv").exists()
    assert SET_ASIDE.removesuffix(" of 6 (50.0%)") in refused.err.splitlines()
    released = place.plain("run", job_file, "--until", "2024-03-03").fine()
    assert SET_ASIDE in released.err.splitlines()
    assert "set aside" not in place.plain("run", job_file, "--until", "2024-03-03").fine().err


def test_refused_later_run_reports_new_unreadable_rows(place: Workplace, job_file: str) -> None:
    place.plain("run", job_file, "--until", "2024-03-03").fine()
    (place.folder / "e.csv").write_text(f"{ROWS}tomorrow,cid\n")
    refused = place.plain("run", job_file, "--until", "2024-05-01")
    assert refused.code == 2
    note = "confidential: job visits: rows that cannot be read, set aside: 1"
    assert note in refused.err.splitlines()


def test_dry_run_reports_rows_that_do_not_count(place: Workplace, job_file: str) -> None:
    done = place.plain("run", job_file, "--dry-run", "--until", "2024-03-03").fine()
    assert not done.changed
    assert {SET_ASIDE, BEYOND} <= set(done.err.splitlines())
    again = place.plain("run", job_file, "--dry-run", "--json", "--until", "2024-03-03").fine()
    numbers = json.loads(again.out)["jobs"]["visits"]["not_private"]
    notes = [line.removeprefix("confidential: job visits: ") for line in (SET_ASIDE, BEYOND)]
    assert numbers == {"rows": 6, "dropped": 1, "quarantined": 3, "notes": notes}


def test_delay_and_newest_event_are_stated_apart(place: Workplace) -> None:
    events = place.write("e.csv", ["00:10,a", "01:20,a", "03:05,b"])
    done = place.count(events, "--release-delay", "30m", "--until", "latest-event").fine()
    said = " ".join(done.out.split())
    assert (
        "Not protected: the time of the newest event, 2013-01-01 03:05+00:00. Less the release "
        "delay of 30m, it is 2013-01-01 02:35+00:00. Windows that ended by then are released."
    ) in said


def test_rows_without_a_group_in_other_group_are_reported(place: Workplace) -> None:
    events = place.write("e.csv", ["00:10,a", "00:20,x", "00:30,", "00:40,", "01:20,a"])
    done = place.count(events, "--other-group", "rest").fine()
    lines = done.err.splitlines()
    assert f"confidential: {UNLISTED}: 1 (most often 'x', 1)" in lines
    assert f"confidential: {NAMELESS}: 2" in lines


def test_unreadable_rows_of_undeclared_groups_are_not_called_counted(place: Workplace) -> None:
    events = place.write("e.csv", ["00:10,a", "00:20,x", "soon,x", "01:20,a"])
    quarantine = ("--bad-rows", f"quarantine:{place.folder / 'bad.csv'}")
    lines = place.count(events, "--other-group", "rest", *quarantine).fine().err.splitlines()
    assert "confidential: rows that cannot be read, set aside: 1 of 4 (25.0%)" in lines
    assert f"confidential: {UNLISTED}: 2 (most often 'x', 2)" in lines


def test_rows_without_a_group_alone_are_reported(place: Workplace) -> None:
    events = place.write("e.csv", ["00:10,a", "00:30,", "01:20,a"])
    done = place.count(events, "--other-group", "rest").fine()
    assert f"confidential: {NAMELESS}: 1" in done.err.splitlines()
    assert "undeclared" not in done.err


def test_late_rows_of_revised_windows_count_in_their_own_windows(place: Workplace) -> None:
    revised = {"windows": None, "allowed_lateness": "3h"}
    first = place.write("first.csv", ["00:10,a", "01:10,a"])
    place("release", "count", first, *place.new(**revised), "--append").fine()
    late = place.write("late.csv", ["00:20,b", "00:30,b", "02:00,a"])
    done = place("release", "count", late, "--append", "--state", str(place.state)).fine()
    assert (
        "confidential: rows that arrived late for windows released before, counted in their own "
        "windows, which were revised with window 2: 2"
    ) in done.err.splitlines()


def test_share_of_rows_in_time_is_of_rows_within_limit(place: Workplace) -> None:
    users = ("--user", "who", "--max-contributions", "1", "--contribution-period", "1d")
    header = "time,group,who"
    first = place.write("first.csv", ["00:10,a,ann", "01:10,a,bob"], header)
    place.count(first, *users).fine()
    rows = ["00:10,a,ann", "00:20,a,cid", "00:30,a,cid", "01:10,a,bob", "02:10,a,dan"]
    done = place("release", "count", place.write("next.csv", rows, header), *place.again).fine()
    said = " ".join(done.err.split())
    share = "of 2 new rows within their user's limit that may count, 1 (50%) was in time"
    assert share in said


def days_of_ann(last: int) -> list[str]:
    """One row of ann on each of the first days of 2024."""
    days = (dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(last))
    return [f"{day}T09:00,ann" for day in days]


@pytest.mark.parametrize("lateness", ["", 'allowed-lateness = "2d"\n'])
def test_rows_too_late_for_their_users_period_are_reported(place: Workplace, lateness: str) -> None:
    (place.folder / "nightly.toml").write_text(
        JOB.replace("start = 2024-03-01", f"start = 2024-01-01\n{lateness}").replace(
            "windows = 365\n", "" if lateness else "windows = 365\n"
        )
    )
    late = ["2024-01-01T10:00,bob", "2024-01-02T10:00,bob", "2024-01-01T11:00,ann"]
    told = (
        "new rows whose visitor's day ended at least 35 days (840 hours) "
        "before the end of the last day that "
        "earlier runs released, not counted"
    )
    if lateness:
        told = "new rows of windows that were final, not counted"
    for rows, until, number in (
        (days_of_ann(50), "2024-02-20", None),
        (days_of_ann(51), "2024-02-21", None),
        (days_of_ann(52) + late, "2024-02-22", 3),
        (days_of_ann(53) + late, "2024-02-23", None),
        (days_of_ann(53) + late[:1], "2024-02-23", None),
        (days_of_ann(54) + late * 2, "2024-02-24", 3),
    ):
        (place.folder / "e.csv").write_text("\n".join(["time,who", *rows]) + "\n")
        done = place.plain("run", str(place.folder / "nightly.toml"), "--until", until).fine()
        expected = [] if number is None else [f"confidential: job visits: {told}: {number}"]
        assert [line for line in done.err.splitlines() if told in line] == expected


def test_rows_that_an_input_lacked_for_a_night_are_not_new(place: Workplace) -> None:
    (place.folder / "nightly.toml").write_text(
        JOB.replace("start = 2024-03-01", "start = 2024-01-01")
    )
    told = (
        "new rows whose visitor's day ended at least 35 days (840 hours) "
        "before the end of the last day that "
        "earlier runs released, not counted"
    )
    late = ["2024-01-02T10:00,bob", "2024-01-02T11:00,bob"]
    for rows, until, number in (
        (days_of_ann(50), "2024-02-20", None),
        (days_of_ann(51)[11:], "2024-02-21", None),
        (days_of_ann(52), "2024-02-22", None),
        (days_of_ann(53) + late, "2024-02-23", 2),
    ):
        (place.folder / "e.csv").write_text("\n".join(["time,who", *rows]) + "\n")
        done = place.plain("run", str(place.folder / "nightly.toml"), "--until", until).fine()
        expected = [] if number is None else [f"confidential: job visits: {told}: {number}"]
        assert [line for line in done.err.splitlines() if told in line] == expected


def test_report_counts_rows_that_are_too_late_as_dropped(place: Workplace) -> None:
    (place.folder / "nightly.toml").write_text(
        JOB.replace("start = 2024-03-01", "start = 2024-01-01")
    )
    dropped = []
    for rows, until in (
        (days_of_ann(50), "2024-02-20"),
        ([*days_of_ann(51), "2024-01-02T10:00,bob"], "2024-02-21"),
    ):
        (place.folder / "e.csv").write_text("\n".join(["time,who", *rows]) + "\n")
        words = ("run", str(place.folder / "nightly.toml"), "--until", until, "--json")
        report = json.loads(place.plain(*words).fine().out)["jobs"]["visits"]
        dropped.append(report["not_private"]["dropped"])
    assert dropped == [0, 1]


def test_input_of_last_days_reports_no_rows_as_too_late(place: Workplace) -> None:
    job = JOB.replace("start = 2024-03-01", 'start = 2024-01-01\nlookback = "40d"')
    (place.folder / "nightly.toml").write_text(job)
    for last, more in ((40, []), (41, []), (42, ["2024-01-03T10:00,bob"])):
        rows = days_of_ann(last)[-40:] + more
        (place.folder / "e.csv").write_text("\n".join(["time,who", *rows]) + "\n")
        until = str(dt.date(2024, 1, 1) + dt.timedelta(days=last))
        done = place.plain("run", str(place.folder / "nightly.toml"), "--until", until).fine()
        assert "ended at least 35 days" not in done.err


def test_rows_of_other_group_are_not_called_counted(place: Workplace) -> None:
    users = ("--user", "who", "--max-contributions", "1", "--contribution-period", "1d")
    rows = ["00:10,x,ann", "00:20,x,ann", "00:30,,ann", "01:20,a,bob"]
    events = place.write("e.csv", rows, "time,group,who")
    done = place.count(events, "--other-group", "rest", *users).fine()
    lines = done.err.splitlines()
    assert "confidential: rows beyond their user's limit, not counted: 2" in lines
    in_rest = [line for line in lines if "'rest'" in line]
    assert in_rest == [
        f"confidential: {UNLISTED}: 2 (most often 'x', 2)",
        f"confidential: {NAMELESS}: 1",
    ]


def test_share_in_time_excludes_rows_too_old_to_count(place: Workplace, job_file: str) -> None:
    known = "time,who\n2024-03-01T09:00,ann\n2024-05-01T09:00,ann\n"
    events = place.folder / "e.csv"
    events.write_text(known)
    times = ("--allow-empty-windows", "--until")
    place.plain("run", job_file, *times, "2024-05-02").fine()
    too_old = "".join(f"2024-03-02T09:00,u{number}\n" for number in range(3))
    late = "2024-04-30T09:00,bob\n2024-04-30T09:00,cid\n"
    events.write_text(f"{known}{too_old}{late}2024-05-02T09:00,dan\n")
    done = place.plain("run", job_file, *times, "2024-05-03").fine()
    said = " ".join(done.err.split())
    assert "of 3 new rows within their user's limit that may count, 1 (33.33%) was in time" in said
    assert "With release-delay 2d, all of these would have been in time." in said
    assert "time. 3 rows too old to count are not among these." in said


@pytest.mark.parametrize(
    ("timezone", "start", "until", "n_remembered"),
    [("UTC", "2024-01-01", "2024-02-25", 34), ("Europe/Berlin", "2024-02-01", "2024-04-02", 35)],
)
def test_missing_rows_are_those_that_the_state_remembers(
    place: Workplace, timezone: str, start: str, until: str, n_remembered: int
) -> None:
    """Digests of older rows are deleted, so nobody can tell how many of them are missing.

    Where clocks change, the remembered hours are of one more day. So no number of days is named.
    """
    job_file = place.folder / "nightly.toml"
    text = JOB.replace("start = 2024-03-01", f"start = {start}")
    job_file.write_text(f'{text}timezone = "{timezone}"\n')
    events = place.folder / "e.csv"
    n_days = (dt.date.fromisoformat(until) - dt.date.fromisoformat(start)).days
    all_days = [
        dt.date.fromisoformat(start) + dt.timedelta(days=number) for number in range(n_days)
    ]

    def told(days: list[dt.date]) -> str:
        events.write_text("\n".join(["time,who", *(f"{day}T09:00,ann" for day in days)]) + "\n")
        return place.plain("run", str(job_file), "--until", until).fine().err

    told(all_days)
    missing = told(all_days[-1:])
    line = (
        "rows that were counted before and are missing now, still counted (rows that the state no "
        "longer remembers are not compared)"
    )
    assert f"confidential: job visits: {line}: {n_remembered}\n" in missing
    assert "The numbers shown are those of the last release\n" in missing
    assert "begin a new stream" not in missing  # no row is new


def test_unreadable_rows_of_appended_files_are_reported_once(
    place: Workplace, job_file: str
) -> None:
    Path(job_file).write_text(f"{JOB}append = true\n")
    first = place.plain("run", job_file, "--until", "2024-03-03").fine()
    assert SET_ASIDE in first.err.splitlines()
    events = place.folder / "e.csv"
    events.write_text("time,who\n2024-03-03T09:00,ann\n")
    second = place.plain("run", job_file, "--until", "2024-03-04").fine()
    assert "set aside" not in second.err
    assert "soon" in (place.folder / "bad.csv").read_text()
    events.write_text("time,who\n2024-03-04T09:00,ann\ntomorrow,bob\n")
    third = place.plain("run", job_file, "--until", "2024-03-05").fine()
    assert "rows that cannot be read, set aside: 1 of 2 (50.0%)" in third.err
    assert "soon" not in (place.folder / "bad.csv").read_text()

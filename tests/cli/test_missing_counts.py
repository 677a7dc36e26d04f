"""Windows of a table of counts that are released as 0, because their counts are missing."""

import re
from datetime import date, timedelta

import pytest

from .conftest import Workplace

COUNTS = "week,branch,visitors\n" + "".join(
    f"2024-01-{day:02d},{branch},{'' if (day, branch) in ((8, 'A'), (15, 'B')) else 1200}\n"
    for day in (1, 8, 15, 22)
    for branch in "AB"
)
NOTE = (
    "2 windows of a group without a count, released as 0 with noise ('A', 8 January to 14 January "
    "2024; 'B', 15 January to 21 January 2024). If counts are missing, readers must be told"
)
JOB = """
[jobs.gates]
state = "g.db"
events = "e.csv"
time = "week"
every = "1w"
start = "2024-01-01"
windows = 52
until = "2024-01-29"
group-by = "branch"
groups = ["A", "B", "new"]
other-group = "other"
count-column = "visitors"
missing-values = "drop"
privacy-unit = "visit"
series = "per-window"
epsilon = 1
"""


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_windows_without_a_count_are_named(place: Workplace, options: tuple[str, ...]) -> None:
    (place.folder / "e.csv").write_text(COUNTS)
    (place.folder / "nightly.toml").write_text(JOB)
    done = place.plain("run", str(place.folder / "nightly.toml"), *options).fine()
    assert f"confidential: job gates: {NOTE}" in done.err.splitlines()
    assert "without a count" not in done.out


def test_windows_without_a_count_are_named_in_stretches_of_each_group(place: Workplace) -> None:
    """One group lacks every second week and the last eight. Another group lacks only two weeks."""
    weeks = [date(2024, 1, 1) + timedelta(weeks=number) for number in range(24)]
    lacking = {"A": {*range(1, 16, 2), *range(16, 24)}, "B": {20, 21}, "new": {2}}
    rows = [
        f"{week},{group},{'' if number in lacking[group] else 1200}\n"
        for number, week in enumerate(weeks)
        for group in lacking
    ]
    (place.folder / "e.csv").write_text("week,branch,visitors\n" + "".join(rows))
    (place.folder / "nightly.toml").write_text(JOB.replace("2024-01-29", "2024-06-17"))
    done = place.plain("run", str(place.folder / "nightly.toml")).fine()
    line = next(line for line in done.err.splitlines() if "without a count" in line)
    assert line.count("'A', ") == 5
    assert "19 windows of a group without a count" in line
    assert "; 'A', 15 April to 16 June 2024; " in line
    assert "; 'new', 15 January to 21 January 2024; 'B', 20 May to 2 June 2024; 3 more)" in line


def test_windows_whose_counts_are_set_aside_are_named(place: Workplace) -> None:
    (place.folder / "e.csv").write_text(COUNTS.replace(",\n", ",<5\n"))
    text = JOB.replace('missing-values = "drop"', 'bad-rows = "quarantine:bad.csv"')
    (place.folder / "nightly.toml").write_text(text)
    done = place.plain("run", str(place.folder / "nightly.toml")).fine()
    assert f"confidential: job gates: {NOTE}" in done.err.splitlines()


def test_counts_that_wait_since_an_earlier_file_of_new_rows_are_not_named(
    place: Workplace,
) -> None:
    """The first file has the counts of 15 January, which the second run releases."""
    job_file = place.folder / "nightly.toml"
    job_file.write_text(JOB.replace("until =", 'append = true\nrelease-delay = "0s"\nuntil ='))
    first = "2024-01-01,A,9\n2024-01-01,B,9\n2024-01-08,A,9\n2024-01-08,B,9\n"
    waiting = "2024-01-15,A,9\n2024-01-15,B,9\n"
    (place.folder / "e.csv").write_text("week,branch,visitors\n" + first + waiting)
    place.plain("run", str(job_file), "--until", "2024-01-15").fine()

    # B has no count that can be read in this file, but is known of the first one.
    (place.folder / "e.csv").write_text("week,branch,visitors\n2024-01-22,A,9\n2024-01-22,B,\n")
    done = place.plain("run", str(job_file)).fine()
    line = next(line for line in done.err.splitlines() if "without a count" in line)
    assert (
        "1 window of a group without a count, released as 0 with noise "
        "('B', 22 January to 28 January 2024)"
    ) in line


def test_windows_without_a_count_may_have_late_rows(place: Workplace) -> None:
    """A count of 8 January arrives late, and counts in the week of 15 January, which has none."""
    job_file = place.folder / "nightly.toml"
    job_file.write_text(
        JOB.replace("until =", 'append = true\nrelease-delay = "0s"\nuntil =')
        .replace("2024-01-29", "2024-01-22")
        .replace("epsilon = 1", "epsilon = 100")
    )
    header = "week,branch,visitors\n"
    first = "2024-01-01,A,9\n2024-01-01,B,9\n2024-01-08,A,9\n2024-01-08,B,9\n"
    (place.folder / "e.csv").write_text(header + first)
    place.plain("run", str(job_file), "--until", "2024-01-15").fine()

    (place.folder / "e.csv").write_text(
        header + "2024-01-08,A,250\n2024-01-15,A,\n2024-01-15,B,9\n"
    )
    done = place.plain("run", str(job_file)).fine()
    assert re.search(r"A +250 ", done.out)
    assert (
        "1 window of a group without a count, released as 0 with noise, apart from late rows of "
        "earlier windows ('A', 15 January to 21 January 2024)"
    ) in done.err


def test_windows_without_a_row_may_have_late_rows(place: Workplace) -> None:
    """A row of 2 January arrives late, and counts on 3 January, which has none."""
    job_file = place.folder / "nightly.toml"
    job = EVENTS_JOB.replace("epsilon = 1", "epsilon = 100").replace('until = "2024-01-09"', "")
    job_file.write_text(f'{job}max-empty-windows = 1\nappend = true\nrelease-delay = "0s"\n')
    (place.folder / "e.csv").write_text("at\n2024-01-01T09:00\n2024-01-02T09:00\n")
    place.plain("run", str(job_file), "--until", "2024-01-03").fine()
    (place.folder / "e.csv").write_text("at\n2024-01-02T10:00\n")
    done = place.plain("run", str(job_file), "--until", "2024-01-04").fine()
    assert re.search(r"3 January 2024 +1 ", done.out)
    assert (
        "newest windows released without a row, apart from late rows of earlier windows (check "
        "whether a file is missing): 1"
    ) in done.err


def test_later_run_does_not_repeat_windows_without_a_count(place: Workplace) -> None:
    (place.folder / "e.csv").write_text(COUNTS)
    (place.folder / "nightly.toml").write_text(JOB)
    place.plain("run", str(place.folder / "nightly.toml")).fine()
    assert (
        "without a count" not in place.plain("run", str(place.folder / "nightly.toml")).fine().err
    )


def test_window_without_rows_is_not_named_if_no_count_is_missing(place: Workplace) -> None:
    lines = [line for line in COUNTS.splitlines() if not line.endswith(",")]
    (place.folder / "e.csv").write_text("\n".join(lines) + "\n")
    (place.folder / "nightly.toml").write_text(JOB)
    assert (
        "without a count" not in place.plain("run", str(place.folder / "nightly.toml")).fine().err
    )


def test_changed_count_is_reported_as_net_of_each_group(place: Workplace) -> None:
    job_file = place.folder / "nightly.toml"
    job_file.write_text(JOB)
    counts = COUNTS.replace(",\n", ",1200\n")
    (place.folder / "e.csv").write_text(counts)
    place.plain("run", str(job_file)).fine()
    (place.folder / "e.csv").write_text(counts.replace("08,A,1200", "08,A,8889"))
    job_file.write_text(JOB.replace("2024-01-29", "2024-02-05") + "max-empty-windows = 1\n")
    done = place.plain("run", str(job_file)).fine()
    assert "10,089 visits, previously 2,400 (7,689 added, 0 missing, net in each group)" in done.err


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_listed_group_without_any_row_is_named(place: Workplace, options: tuple[str, ...]) -> None:
    """A count of 0 is a row. No count needs to be missing."""
    job_file = place.folder / "nightly.toml"
    (place.folder / "e.csv").write_text(COUNTS.replace(",\n", ",0\n"))
    job_file.write_text(JOB)
    done = place.plain("run", str(job_file), *options).fine()
    note = "listed groups without any readable row: 1 ('new'). Their numbers are only noise"
    assert f"confidential: job gates: {note}" in done.err.splitlines()
    assert "listed groups" not in done.out
    if not options:
        assert "listed groups" not in place.plain("run", str(job_file)).fine().err


EVENTS = "at\n" + "".join(f"2024-01-{day:02d}T09:00\n" for day in (1, 2, 5, 6, 8))
EVENTS_JOB = """
[jobs.gates]
state = "g.db"
events = "e.csv"
time = "at"
every = "1d"
start = "2024-01-01"
windows = 52
until = "2024-01-09"
privacy-unit = "visit"
series = "per-window"
epsilon = 1
"""


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("most", "note"),
    [
        (0, "windows without any readable row: 3 (3 January to 4 January 2024; 7 January 2024)"),
        (1, "windows without any readable row: 2 (3 January to 4 January 2024)"),
        (2, None),
    ],
)
def test_empty_windows_before_newest_row_are_named(
    place: Workplace, options: tuple[str, ...], most: int, note: str | None
) -> None:
    """They stop no run. As many windows in a row as ``max-empty-windows`` are usual."""
    (place.folder / "e.csv").write_text(EVENTS)
    job_file = place.folder / "nightly.toml"
    job_file.write_text(f"{EVENTS_JOB}max-empty-windows = {most}\n")
    done = place.plain("run", str(job_file), *options).fine()
    remedy = "If rows are missing, readers must be told"
    expected = [] if note is None else [f"confidential: job gates: {note}. {remedy}"]
    assert [
        line for line in done.err.splitlines() if "without any readable row" in line
    ] == expected
    assert "without any readable row" not in done.out


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("most", "message"),
    [
        (
            0,
            "No input has a row of 3 January to 4 January 2024, 7 January 2024. This run would "
            "release 3 windows without rows. Add the missing rows first. If nothing happened, give "
            "--allow-empty-windows for this run, or max-empty-windows of the job file for every "
            "run",
        ),
        (
            1,
            "No input has a row of 3 January to 4 January 2024. This run would release 2 windows "
            "without rows",
        ),
        (2, None),
    ],
)
def test_empty_windows_of_files_of_new_rows_stop_a_run(
    place: Workplace, options: tuple[str, ...], most: int, message: str | None
) -> None:
    (place.folder / "e.csv").write_text(EVENTS)
    job_file = place.folder / "nightly.toml"
    job_file.write_text(f"{EVENTS_JOB}max-empty-windows = {most}\nappend = true\n")
    done = place.plain("run", str(job_file), *options)
    if message is None:
        done.fine()
        return
    assert done.code == 2
    assert "Released" not in done.out
    assert message in done.err
    allowed = place.plain("run", str(job_file), *options, "--allow-empty-windows").fine()
    assert "windows without any readable row: " in allowed.err


def test_window_whose_row_an_earlier_run_read_is_not_named(place: Workplace) -> None:
    """A file of new rows does not repeat them."""
    job_file = place.folder / "nightly.toml"
    for days, until in (((1, 2, 3, 4), "2024-01-02"), ((5,), "2024-01-06")):
        rows = "".join(f"2024-01-{day:02d}T09:00\n" for day in days)
        (place.folder / "e.csv").write_text(f"at\n{rows}")
        job = EVENTS_JOB.replace("2024-01-09", until)
        job_file.write_text(f"{job}max-empty-windows = 0\nappend = true\n")
        assert "without any readable row" not in place.plain("run", str(job_file)).fine().err

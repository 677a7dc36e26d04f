"""Windows of a table of counts that are released as 0, because their counts are missing."""

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


def test_windows_whose_counts_are_set_aside_are_named(place: Workplace) -> None:
    (place.folder / "e.csv").write_text(COUNTS.replace(",\n", ",<5\n"))
    text = JOB.replace('missing-values = "drop"', 'bad-rows = "quarantine:bad.csv"')
    (place.folder / "nightly.toml").write_text(text)
    done = place.plain("run", str(place.folder / "nightly.toml")).fine()
    assert f"confidential: job gates: {NOTE}" in done.err.splitlines()


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

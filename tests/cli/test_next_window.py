"""When the next window can be released: a reader who does as the screen says is not refused."""

import json

import pytest

from .conftest import Workplace

JOB = {
    "state": "v.db", "events": "e.csv", "time": "time", "every": "1w", "start": "2024-03-04",
    "windows": 52, "series": "per-window", "epsilon": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "needs_rows"),
    [
        ({"max-empty-windows": 0}, True),
        ({}, False),
        ({"max-empty-windows": 0, "allow-empty-windows": True}, False),
        ({"max-empty-windows": 0, "append": True}, False),
    ],
)
def test_next_window_needs_rows_where_an_empty_one_is_refused(
    place: Workplace, options: dict[str, object], needs_rows: bool
) -> None:
    job_file = place.folder / "weekly.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**JOB, **options}.items()]
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    events = place.folder / "e.csv"
    rows = "time\n2024-03-05T09:00\n2024-03-12T09:00\n"
    events.write_text(rows)
    done = place.plain("run", str(job_file), "--until", "2024-03-18").fine()
    due = "window 3 can be released with until = 2024-03-25 00:00 (UTC) or later"
    said = " ".join(done.out.split())
    assert due in said
    assert (f"{due}, once it has rows" in said) == needs_rows
    if "append" in options:
        events.write_text("time\n")
    again = place.plain("run", str(job_file), "--until", "2024-03-25")
    assert (again.code != 0) == needs_rows
    if needs_rows:
        assert "18 March to 24 March 2024 would have no row" in " ".join(again.err.split())
        events.write_text(f"{rows}2024-03-19T09:00\n")
        place.plain("run", str(job_file), "--until", "2024-03-25").fine()

"""Which rows a run counts: those that were seen and not counted, and those with other values."""

from pathlib import Path
from typing import Any

import polars as pl
from run_results import releases_of

from counton.run import Job, run


def sums(state: Path, until: int, rows: list[tuple[int, int]], **options: Any) -> list[Any]:
    """The daily sums that a stream has released after a run over days and values."""
    days = [f"2024-03-0{day}T09:00" for day, _ in rows]
    frame = pl.DataFrame({"at": days, "paid": [value for _, value in rows]})
    job = Job(
        "sum", frame, state, time="at", every="1d", start="2024-03-01", windows=9, value="paid",
        lower=0, upper=9, resolution=1, epsilon=10**7, until=f"2024-03-0{until}",
        allow_empty_windows=True, **options,
    )  # fmt: skip
    with run(job) as result:
        return list(releases_of(result).round().astype(int).tolist())


def test_row_of_next_window_counts_when_that_window_is_released(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    options = {"append": True, "series": "per-window"}
    assert sums(state, 2, [(1, 3), (2, 4), (3, 5)], **options) == [3]
    assert sums(state, 3, [(2, 1)], **options) == [3, 5]
    assert sums(state, 4, [(3, 1)], **options) == [3, 5, 6]


def test_late_row_of_run_without_release_counts_in_next_step(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    options = {"append": True, "series": "per-window"}
    assert sums(state, 2, [(1, 3)], **options) == [3]
    assert sums(state, 2, [(1, 4)], **options) == [3]
    assert sums(state, 3, [(2, 1)], **options) == [3, 5]


def test_row_with_another_value_changes_its_revised_window(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    options = {"allowed_lateness": "1d"}
    assert sums(state, 2, [(1, 3)], **options) == [[3, 0]]
    _, versions_of_second_run = sums(state, 3, [(1, 5), (2, 1)], **options)
    assert versions_of_second_run == [1, 5]  # of the second window, and of the first

"""Rows that are held until those that count are chosen."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.run import Job, run

#: Later than any row.
NOW = datetime(2024, 3, 9, tzinfo=UTC)


def test_run_reports_row_beyond_32_bits_after_last_window(tmp_path: Path) -> None:
    rows = pl.DataFrame({"at": ["2024-03-01T00:00:01", "9999-01-01T00:00:00"], "who": ["a", "b"]})
    job = Job(
        "count", rows, tmp_path / "s.db", time="at", every="1s", start="2024-03-01", windows=86400,
        until="2024-03-01T00:00:09", max_empty_windows=99, user="who", max_contributions=1,
        epsilon=1,
    )  # fmt: skip
    with run(job, now=NOW) as result:
        numbers = result.confidential_counts().rows
    assert (result.after, numbers.read, numbers.after_last_window) == (9, 2, 1)


@pytest.mark.parametrize("most", [1, 9])
def test_run_report_with_many_codes_counts_undeclared_labels(most: int, tmp_path: Path) -> None:
    """The window times the number of codes has more than 32 bits."""
    rows = pl.DataFrame(
        {
            "at": [f"2024-04-0{day}T09:00" for day in range(1, 9)],
            "who": list("abcdefgh"),
            "page": ["home", "shop", "?", "home", "?", "shop", "home", "home"],
            "paid": [1.5] * 8,
            "many": [1] * 8,
        }
    )
    groups = {"group_by": "page", "groups": "home,shop,help"}
    statistics: dict[str, dict[str, Any]] = {
        "rows": {"statistic": "count"},
        "cells": {"statistic": "ranges", "label": "page", "groups": "home,shop,help"},
        "moments": {
            "statistic": "moments", "columns": "paid,many", "bounds": "-2:5,0:3.5",
            **groups,
        },
    }  # fmt: skip
    job = Job(
        "report", rows, tmp_path / "s.db", time="at", every="1d", start="2024-03-01", windows=400,
        until="2024-04-09", statistics=statistics, unlisted_groups="drop", max_empty_windows=99,
        user="who", max_contributions=most,
        series="per-window", epsilon=1, expected_rows=100,
    )  # fmt: skip
    with run(job, now=datetime(2024, 4, 9, tzinfo=UTC)) as result:
        numbers = result.confidential_counts().rows
    assert (numbers.read, numbers.unlisted, numbers.within) == (8, 2, 8)


@pytest.mark.parametrize("append", [False, True])
def test_user_with_row_ids_in_portions_counts_within_bound(
    append: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counton.run.rows.row_buffer._ROWS_OF_PORTION", 4)
    row_ids = [str(number) for number in range(60)]
    rows = pl.DataFrame({"at": "2024-03-01T09:00", "who": "ann", "id": row_ids})
    job = Job(
        "count", rows, tmp_path / "s.db", time="at", every="1d", start="2024-03-01", windows=9,
        until="2024-03-02", user="who", row_id="id", max_contributions=2, append=append,
        epsilon=100,
    )  # fmt: skip
    with run(job, now=NOW) as result:
        estimate = result.read().table()["estimate"].item()
    assert round(estimate) == 2

"""Rows at times that are not meant: outside all windows, in the year 9999, in sheets of Excel."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_results import counts_of

from counton.base.errors import InvalidInputError
from counton.run import Job, run

TERMS: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 20, "epsilon": 10**6,
}  # fmt: skip


def job(folder: Path, times: list[Any], **more: Any) -> Job:
    frame = pl.DataFrame({"time": times})
    return Job("count", frame, folder / "s.db", **{**TERMS, "until": "2024-03-15", **more})


@pytest.mark.parametrize(
    "far", ["9999-12-31", "2199-01-01T00:00", "9999-12-31T23:59:59.999999999Z", "2024-03-21"]
)
@pytest.mark.parametrize("append", [False, True])
def test_row_far_away_does_not_hide_missing_days(append: bool, far: str, tmp_path: Path) -> None:
    """It switched off the guard, and 13 empty windows were released."""
    given = job(tmp_path, ["2024-03-01", far], append=append)
    with pytest.raises(
        InvalidInputError, match=r"would release 1[34] windows, but the newest readable row is"
    ):
        run(given)
    assert not (tmp_path / "s.db").exists()
    with run(given.derive(allow_empty_windows=True)) as outcome:
        assert outcome.after == 14
        assert counts_of(outcome).empty == 13
        assert counts_of(outcome).after_last_window == 1


def test_row_of_future_does_not_hide_missing_days(tmp_path: Path) -> None:
    """Also in a stream without an end, where it lies in a window."""
    given = job(tmp_path, ["2024-03-01", "9999-12-31"], windows=None, expiring=True, epsilon=1)
    with pytest.raises(
        InvalidInputError, match=r"would release 1[34] windows, but the newest readable row is"
    ):
        run(given)


@pytest.mark.parametrize(
    ("times", "more"),
    [
        (["2023-03-01", "2023-03-02"], {}),
        (["2023-03-01", "9999-12-31"], {}),
        (["2024-04-01"], {}),
        (["2023-03-01"], {"append": True}),
        ([1, 2, 3], {"time_format": "epoch"}),
        ([1709337600, 1709337601], {"time_format": "epoch_ms"}),
    ],
)
def test_first_run_without_row_in_window_needs_yes(
    times: list[Any], more: dict[str, Any], tmp_path: Path
) -> None:
    given = job(tmp_path, times, **more)
    for quiet in (None, 99):
        with pytest.raises(InvalidInputError, match="No row lies in a window"):
            run(given.derive(max_empty_windows=quiet))
    assert not (tmp_path / "s.db").exists()
    with run(given.derive(allow_empty_windows=True)) as outcome:
        released = outcome.read().table()["estimate"]
        assert released.to_list() == [0] * outcome.after
    empty = pl.DataFrame({"time": []}, {"time": pl.String})
    without = given.derive(events=empty, state=tmp_path / "empty.db", allow_empty_windows=True)
    with run(without) as outcome:  # the same without these rows
        assert outcome.read().table()["estimate"].to_list() == released.to_list()


def test_rows_of_undeclared_groups_are_in_no_window_either(tmp_path: Path) -> None:
    frame = pl.DataFrame({"time": ["0024-03-01T00:00"], "page": ["x"]})
    terms = {**TERMS, "until": "2024-03-15", "group_by": "page", "groups": "a"}
    given = Job("count", frame, tmp_path / "s.db", unlisted_groups="drop", **terms)
    with pytest.raises(InvalidInputError, match="lies in a window"):
        run(given)
    with run(given.derive(allow_empty_windows=True)) as outcome:
        assert outcome.after == 14


def test_run_without_rows_in_windows_continues(tmp_path: Path) -> None:
    empty = job(tmp_path, [], allow_empty_windows=True).derive(
        events=pl.DataFrame({"time": []}, {"time": pl.String})
    )
    with run(empty.derive(until="2024-03-03")) as outcome:
        assert outcome.after == 2
    late = Job("count", pl.DataFrame({"time": ["2023-03-01"]}), tmp_path / "s.db",
               until="2024-03-04", allow_empty_windows=True)  # fmt: skip
    with run(late) as outcome:
        assert counts_of(outcome).before == 1


@pytest.mark.parametrize("kind", [pl.Float64, pl.Int64, pl.String])
@pytest.mark.parametrize("form", ["epoch", "epoch_ms"])
def test_days_of_excel_are_no_epoch(form: str, kind: Any, tmp_path: Path) -> None:
    """45352 is 1 March 2024 there, and 12:35 of 1 January 1970 in seconds."""
    now = int(datetime(2024, 3, 1, 9, tzinfo=UTC).timestamp()) * (1000 if form == "epoch_ms" else 1)
    times = pl.Series("time", [now, 45352], pl.Int64).cast(kind)
    given = job(tmp_path, times.to_list(), time_format=form, until="2024-03-02")
    with pytest.raises(InvalidInputError, match=r"row 2 of .*as Excel counts them"):
        run(given)
    aside = tmp_path / "bad.csv"
    with run(given.derive(bad_rows=f"quarantine:{aside}")) as outcome:
        assert np.rint(outcome.read().table()["estimate"].to_numpy()).tolist() == [1]


def test_epoch_seconds_of_1970_are_read_in_stream_from_1970(
    tmp_path: Path,
) -> None:
    more = {"start": "1970-01-01", "until": "1970-01-02", "time_format": "epoch"}
    with run(job(tmp_path, [45352, 45353], **more)) as outcome:
        assert np.rint(outcome.read().table()["estimate"].to_numpy()).tolist() == [2]

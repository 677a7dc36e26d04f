"""Each problem of a row has one number in place of a time, and one in place of a window."""

from datetime import UTC, datetime

import polars as pl
import pytest

from counton.io.error_policy import Problem
from counton.io.problem_codes import (
    code_as_time,
    code_as_window,
    has_one_of,
    has_problem,
    problem_of,
)
from counton.windowing.windows import SingleTableWindow, Windows, is_moment

PROBLEMS = [problem for problem in Problem if problem is not Problem.NONE]
START = datetime(2024, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "windows",
    [Windows(START, "1h", 9), Windows(START, "1d", 9, "Europe/Berlin"), SingleTableWindow()],
    ids=lambda windows: f"{windows.every} {windows.timezone}",
)
def test_step_turns_code_of_time_into_code_of_window(windows: Windows) -> None:
    times = pl.DataFrame({"us": [code_as_time(problem) for problem in PROBLEMS]})
    found = times.select(windows.step("us")).to_series().to_list()
    assert found == [code_as_window(problem) for problem in PROBLEMS]
    assert [problem_of(window) for window in found] == PROBLEMS
    assert not is_moment(times["us"]).any()


def test_windows_and_problems_are_told_apart() -> None:
    codes = [code_as_window(problem) for problem in PROBLEMS]
    rows = pl.DataFrame({"window": [0, 1, 10, *codes]})
    found = rows.select(has_problem().alias("any"), has_one_of([Problem.NO_ID]).alias("id"))
    assert found["any"].to_list() == [False] * 3 + [True] * len(codes)
    assert found.filter("id").height == 1
    assert rows.filter(has_one_of([Problem.NO_ID])).item() == code_as_window(Problem.NO_ID)

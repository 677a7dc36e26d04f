"""The order of rows within an input decides nothing: shuffled files release the same numbers.

Histories are drawn: rows of a few users come, vanish, move and come back from night to night. Each
night's rows are given in one order, and reversed or shuffled. Noise rounds to nothing.
"""

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_results import releases_of

from counton.run import Job, run

NIGHTS = 5
USERS = ("ann", "bob", "cyd")
GROUPS = ("n", "s", "w")
FIRST: dict[str, Any] = {
    "time": "at",
    "every": "1d",
    "start": "2024-03-01",
    "windows": 9,
    "epsilon": 10**9,
    "value": "paid",
    "lower": 0,
    "upper": 9,
    "resolution": 1,
    "group_by": "place",
    "groups": list(GROUPS),
    "allow_empty_windows": True,
}
KINDS: dict[str, dict[str, Any]] = {
    "max_corrections": {
        "user": "user",
        "max_contributions": 2,
        "allowed_lateness": "3d",
        "max_corrections": 1,
    },
    "two recounts": {
        "user": "user",
        "max_contributions": 3,
        "allowed_lateness": "4d",
        "max_corrections": 2,
    },
    "recounts by day": {
        "user": "user",
        "max_contributions": 2,
        "contribution_period": "1d",
        "allowed_lateness": "3d",
        "max_corrections": 2,
    },
    "recounts of events": {"allowed_lateness": "3d", "max_corrections": 1},
    "users of revised windows": {"user": "user", "max_contributions": 2, "allowed_lateness": "3d"},
    "users": {"user": "user", "max_contributions": 2},
    "users by day": {
        "user": "user",
        "max_contributions": 2,
        "contribution_period": "1d",
        "max_contributions_per_window": 1,
    },
    "users once a window": {"user": "user", "max_contributions": 2, "once_per_window": True},
    "users with ids": {"user": "user", "max_contributions": 2, "row_id": "id"},
    "ids": {"row_id": "id"},
}
Row = tuple[str, str, str, int, str]


def draw_history(seed: int) -> list[list[Row]]:
    """Return the rows of each night: a row stays, vanishes, or changes its group or value."""
    draw = random.Random(seed)
    rows: list[Row] = []
    nights = []
    for night in range(1, NIGHTS + 1):
        kept: list[Row] = []
        for row in rows:
            fate = draw.random()
            if fate < 0.5:
                kept.append(row)
            elif fate < 0.7:
                kept.append((*row[:2], draw.choice(GROUPS), draw.randrange(10), row[4]))
        if not kept:  # an input with other ids alone is refused
            kept = list(rows)
        for _ in range(4):
            day = draw.randint(max(1, night - 2), night)
            at = f"2024-03-{day:02}T{draw.randrange(3):02}:00"
            whose = draw.choice(USERS)
            place = draw.choice(GROUPS)
            kept.append((at, whose, place, draw.randrange(10), f"{night} {draw.randrange(10**6)}"))
        rows = kept
        nights.append(list(rows))
    return nights


def released(state: Path, kind: str, nights: list[list[Row]]) -> np.ndarray[Any, Any]:
    """Return all numbers that the nights of a history release."""
    options = {**FIRST, **KINDS[kind]}
    for night, rows in enumerate(nights, 1):
        frame = pl.DataFrame(rows, schema=["at", "user", "place", "paid", "id"], orient="row")
        until = f"2024-03-{night + 1:02}"
        job = Job("sum", frame, state, stream="it", until=until, **options)
        with run(job) as outcome:
            values = np.asarray(releases_of(outcome), np.float64)
    return np.asarray(np.rint(values))


def check_order(folder: Path, kind: str, nights: list[list[Row]], others: list[list[Row]]) -> None:
    """Check that two orders of the same rows release the same numbers."""
    in_order = released(folder / f"{kind} in order.db", kind, nights)
    in_another = released(folder / f"{kind} in another order.db", kind, others)
    np.testing.assert_array_equal(in_another, in_order)


@pytest.mark.parametrize("seed", [1, 9])
def test_slots_are_filled_alike_by_reversed_rows(seed: int, tmp_path: Path) -> None:
    nights = draw_history(seed)
    check_order(tmp_path, "max_corrections", nights, [rows[::-1] for rows in nights])


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_order_of_rows_in_input_changes_no_released_number(
    seed: int, kind: str, tmp_path: Path
) -> None:
    nights = draw_history(seed)
    draw = random.Random(seed)
    check_order(tmp_path, kind, nights, [draw.sample(rows, len(rows)) for rows in nights])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_order_of_corrected_rows_changes_no_released_number(seed: int, tmp_path: Path) -> None:
    nights = draw_history(seed)
    for kind in ("two recounts", "recounts by day"):
        check_order(tmp_path, kind, nights, [rows[::-1] for rows in nights])

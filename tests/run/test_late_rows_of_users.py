"""Late rows of users in files of the last days: their number, beside a plain recount."""

import warnings
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.run import Job, run

START = date(2024, 3, 1)
LOOKBACK = 3
#: A row: the number of its day, from 1 on, its user and its hour.
Row = tuple[int, str, int]


def nights_with_late_rows(random: Random) -> list[list[Row]]:
    """Return all rows that have arrived by the end of each day."""
    rows: list[Row] = []
    nights = []
    for day in range(1, 6):
        rows += [
            (random.randint(max(1, day - 3), day), f"u{random.randint(1, 5)}", random.randrange(24))
            for _ in range(8)
        ]
        rows.append((day, "u0", 0))  # no day is empty
        nights.append(list(rows))
    return nights


def run_night(folder: Path, rows: list[Row], day: int, **options: Any) -> int:
    """Return the number of late rows that a run shows."""
    midnight = datetime.combine(START, datetime.min.time())
    frame = pl.DataFrame(
        {
            "time": [
                (midnight + timedelta(days=number - 1, hours=hour)).isoformat()
                for number, _, hour in rows
                if number > day - LOOKBACK
            ],
            "user": [user for number, user, _ in rows if number > day - LOOKBACK],
        }
    )
    given: dict[str, Any] = {
        "time": "time", "every": "1d", "start": str(START), "lookback": f"{LOOKBACK}d",
        "until": str(START + timedelta(days=day)), "epsilon": 1, "user": "user",
        "contribution_period": "1d", "privacy_unit": "visitor", **options,
    }  # fmt: skip
    job = Job("count", frame, folder / "state.db", **given)
    with run(job) as outcome:
        return outcome.confidential_counts().input.choice.uncounted_late


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("allowed_days", [0, 1])
def test_late_rows_of_users_are_those_with_room_and_not_counted(
    tmp_path: Path, limit: int, allowed_days: int
) -> None:
    options: dict[str, Any] = {"max_contributions": limit, "windows": 365}
    if allowed_days:
        options = {"max_contributions": limit, "allowed_lateness": f"{allowed_days}d"}
    counted: Counter[tuple[int, str]] = Counter()
    seen = set()
    for day, rows in enumerate(nights_with_late_rows(Random(11)), 1):
        within = Counter(
            {key: min(n, limit) for key, n in Counter(row[:2] for row in rows).items()}
        )
        covered = {key: n for key, n in within.items() if key[0] > day - LOOKBACK}
        for key, number in covered.items():
            if key[0] >= day - allowed_days:
                counted[key] = number
        late = sum(number - counted[key] for key, number in covered.items())
        assert run_night(tmp_path, rows, day, **options) == late
        assert run_night(tmp_path, rows, day, **options) == late  # the same rows once more
        seen.add(late > 0)
    assert seen == {True, False}


def test_python_warns_of_late_rows_of_users(tmp_path: Path) -> None:
    """The user of the third row has room on 2 March, which was released before."""
    days = [("2024-03-01", "a"), ("2024-03-02", "b"), ("2024-03-02", "c"), ("2024-03-03", "a")]
    options: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 30, "epsilon": 1,
        "user": "user", "max_contributions": 1, "contribution_period": "1d",
        "privacy_unit": "visitor", "lookback": "3d", "state": tmp_path / "s.db",
    }  # fmt: skip

    def run_rows(rows: list[tuple[str, str]], until: str) -> None:
        frame = pl.DataFrame(rows, schema=["time", "user"], orient="row")
        release("count", frame, until=until, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_rows(days[:2], "2024-03-03")
    with pytest.warns(UserWarning, match="rows of users that came for windows released before"):
        run_rows(days, "2024-03-04")

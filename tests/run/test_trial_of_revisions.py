"""Sixty nights with late rows, a late file and rows that come twice: intervals hold."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from numpy.typing import NDArray

from counton import ZCDP, Release, release

NIGHTS, DAYS_OPEN, ROWS, START = 60, 7, 200_000, date(2024, 3, 1)
GROUPS = [f"door {number}" for number in range(10)]
#: The night before which no file came, and the one whose rows come again in the next night.
LATE_FILE, TWICE = 31, 41


class Trial(NamedTuple):
    """Files by night, and the exact numbers known after each: shape (nights, windows, groups)."""

    files: list[pl.DataFrame]
    known: NDArray[np.int64]


def made_up(seed: int) -> Trial:
    """Draw visits of which 3% come 1 to 6 days late."""
    rng = np.random.default_rng(seed)
    count = rng.poisson(ROWS / NIGHTS * (1 + 0.2 * np.sin(2 * np.pi * np.arange(NIGHTS) / 7)))
    day = np.repeat(np.arange(NIGHTS), count)
    late = np.where(rng.random(len(day)) < 0.03, rng.integers(1, 7, len(day)), 0)
    late[day == LATE_FILE - 1] = np.maximum(late[day == LATE_FILE - 1], 1)
    group = rng.choice(len(GROUPS), len(day), p=np.arange(1, 11) / 55)
    rows = np.stack([np.arange(len(day)), day, group])
    nights = [rows[:, day + late == night] for night in range(NIGHTS)]
    known = np.zeros((NIGHTS, NIGHTS, len(GROUPS)), np.int64)
    for night, (_, days, places) in enumerate(nights):
        known[night] = known[max(night - 1, 0)]
        np.add.at(known[night], (days, places), 1)
    nights[TWICE] = np.concatenate([nights[TWICE - 1], nights[TWICE]], axis=1)
    return Trial([_frame(came) for came in nights], known)


def _frame(rows: NDArray[np.int64]) -> pl.DataFrame:
    days = [START + timedelta(int(day)) for day in rows[1]]
    doors = [GROUPS[place] for place in rows[2]]
    return pl.DataFrame({"visit": rows[0], "day": days, "door": doors})


def released(trial: Trial, folder: Path, key: int) -> Release:
    told: dict[str, Any] = {
        "time": "day", "every": "1d", "start": START.isoformat(), "revise": f"{DAYS_OPEN}d",
        "by": "door", "domain": GROUPS, "id": "visit",
        "guarantee": ZCDP("0.5"), "key": chosen_key(key.to_bytes(32, "big")),
    }  # fmt: skip
    for night, rows in enumerate(trial.files, 1):
        done = release(
            "count", rows, **told, append=True, state=folder / f"{key}.db", yes=True,
            until=(START + timedelta(night)).isoformat(),
        )  # fmt: skip
    return done


def held(found: pl.DataFrame, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether intervals hold exact numbers, shape (windows, groups)."""
    places = found["group"].replace_strict({name: n for n, name in enumerate(GROUPS)})
    exact = truth[found["step"].to_numpy() - 1, places.to_numpy()]
    return np.asarray((found["lower"].to_numpy() <= exact) & (exact <= found["upper"].to_numpy()))


@pytest.mark.slow
def test_intervals_hold_whatever_comes_late_or_wrong(tmp_path: Path) -> None:
    final, provisional = list[bool](), list[bool]()
    for key in (1, 2):
        trial = made_up(key)
        versions = released(trial, tmp_path, key).versions()
        for night in range(DAYS_OPEN + 1, NIGHTS + 1):
            found = versions.filter(pl.col("step") + pl.col("lag") == night)
            for several, which in ((final, pl.col("final")), (provisional, ~pl.col("final"))):
                several += held(found.filter(which), trial.known[night - 1]).tolist()
    assert len(final) == 2 * len(GROUPS) * (NIGHTS - DAYS_OPEN)
    assert 0.94 <= np.mean(final) <= 0.96
    assert 0.94 <= np.mean(provisional) <= 0.96

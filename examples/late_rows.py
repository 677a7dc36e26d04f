"""Release four weeks of visits, of which one in three is reported late.

``python -m examples.late_rows STATE`` makes the state whose chart docs/revisions.md shows:
``counton export STATE --versions all --out known.png``.
"""

from __future__ import annotations

import random
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import polars as pl

from counton import PureDP, release

FIRST, DAYS = date(2024, 3, 1), 28


def nights(seed: int = 5) -> list[pl.DataFrame]:
    """Return the rows that come in each night, with times of up to six days before."""
    rng = random.Random(seed)  # noqa: S311 (made-up visits)
    found: list[list[datetime]] = [[] for _ in range(DAYS)]
    begins = datetime(FIRST.year, FIRST.month, FIRST.day)
    for day in range(DAYS):
        mean = 120 + 40 * (day % 7 in (4, 5)) + 2 * day
        for _ in range(round(rng.gauss(mean, mean**0.5))):
            lag = 0
            while rng.random() < 0.35 and lag < 6:
                lag += 1
            time = begins + timedelta(days=day, minutes=rng.randrange(24 * 60))
            if day + lag < DAYS:
                found[day + lag].append(time)
    return [pl.DataFrame({"time": times}) for times in found]


def main(state: Path) -> None:
    """Release each night."""
    for night, rows in enumerate(nights()):
        release(
            "count", rows, guarantee=PureDP(1), time="time", every="1d", start=FIRST, revise="7d",
            append=True, unit="visit", state=state, until=FIRST + timedelta(night + 1),
            witness="none", yes=True,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))

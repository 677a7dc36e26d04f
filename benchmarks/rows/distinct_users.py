"""Distinct users: counted as arrays, against a set of their names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton.statistics import Distinct

EVENTS = 200_000


def measure() -> Iterator[Row]:
    """Yield users who are all new, and users of whom each comes twenty times."""
    draws = np.random.default_rng(7)
    for what, numbers, bar in (
        ("all new", draws.permutation(EVENTS), 12),
        ("each twenty times", draws.integers(0, EVENTS // 20, EVENTS), 4),
    ):
        names = [f"user{number:07d}" for number in numbers.tolist()]
        stops = np.array([EVENTS])
        ours, theirs = fastest(partial(counted, names, stops), partial(added, names))
        yield Row(
            f"{EVENTS:,} sightings of users, {what}",
            measured=ours / theirs,
            bar=bar,
            note="times adding the names to a set, one by one",
        )


def counted(names: list[str], stops: NDArray[np.int64]) -> object:
    """By how much the number of users changes."""
    return Distinct().begin().take(names, stops)


def added(names: list[str]) -> set[str]:
    """A set of names."""
    found: set[str] = set()
    for name in names:
        found.add(name)
    return found

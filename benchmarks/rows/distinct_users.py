"""Distinct users: counted as arrays, against a set of their names, and against their digests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton.statistics import Distinct

EVENTS = 200_000


def measure() -> Iterator[Row]:
    """Measure the counting of distinct users who come twenty times each, and who are all new; yield
    the rows.
    """
    draws = np.random.default_rng(7)
    stops = np.array([EVENTS])
    names = [f"user{number:07d}" for number in draws.integers(0, EVENTS // 20, EVENTS).tolist()]
    ours, theirs = fastest(partial(counted, names, stops), partial(added, names))
    yield Row(
        f"{EVENTS:,} sightings of users, each twenty times",
        measured=ours / theirs,
        bar=4,
        note="times adding the names to a set, one by one",
    )
    names = [f"user{number:07d}" for number in draws.permutation(EVENTS).tolist()]
    ours, theirs = fastest(partial(counted, names, stops), partial(digested, names))
    yield Row(
        f"{EVENTS:,} sightings of users, all new",
        measured=ours / theirs,
        bar=2.5,
        note="times a digest of each name, which is kept in its place",
    )


def counted(names: list[str], stops: NDArray[np.int64]) -> object:
    """Count distinct users with counton: return the change of their number in each step."""
    return Distinct().begin().take(names, stops)


def added(names: list[str]) -> set[str]:
    """Add names to a set, one by one, for comparison."""
    found: set[str] = set()
    for name in names:
        found.add(name)
    return found


def digested(names: list[str]) -> list[bytes]:
    """Compute a digest of each name, for comparison."""
    return [blake2b(name.encode(), digest_size=16).digest() for name in names]

"""Compare groups of a released file: by how much one exceeds another, with intervals that hold
together for all pairs.

    python recipes/compare.py orders.parquet north,south north,west
    python recipes/compare.py paid.parquet north,south --of mean --windows 2:3

`difference` may be `ratio` or `change` (in per cent); `Release` lists the other questions: shares,
totals, sums of each week.
"""

from __future__ import annotations

import argparse

import counton
from counton.continual import Answer, jointly


def compared(
    release: counton.Release, pairs: list[str], of: str | None = None, steps: str | None = None
) -> list[Answer]:
    """Return an answer for each pair of groups, such as ``"north,south"``."""
    named = [pair.split(",") for pair in pairs]
    return jointly([release.difference(one, other, of=of, steps=steps) for one, other in named])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("pairs", nargs="+", help="two groups with a comma between: north,south")
    parser.add_argument("--of", help="number of each group, if it has several: mean, count, 0.9")
    parser.add_argument("--windows", help="windows 2:3, or days 2024-03-18:2024-03-24")
    given = parser.parse_args()
    found = counton.read(given.file)
    print(found.describe().splitlines()[0])
    for answer in compared(found, given.pairs, given.of, given.windows):
        print(answer.describe())

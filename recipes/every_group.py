"""Print the share of every group in a released file or, with two times, its change, with intervals
that hold for all groups at once: you may pick the largest.

    python recipes/every_group.py orders.parquet
    python recipes/every_group.py orders.parquet --windows 2024-03-25:2024-03-31 --from 2024-03-18

The noise of groups is independent, so an interval for each of them that holds with probability
``level ** (1 / groups)`` holds for all with probability ``level``.
"""

from __future__ import annotations

import argparse

import polars as pl

import counton
from counton.base.errors import InvalidInputError
from counton.continual import Answer


def groups_of(release: counton.Release) -> list[str]:
    """Return the names of the groups in the last rows of the table."""
    last = release.table(release.steps[-1:])
    if "group" not in last.columns:
        raise InvalidInputError("the release has no groups: give a file of one by groups")
    return last["group"].unique(maintain_order=True).to_list()


def shares(
    release: counton.Release, *, steps: str | None = None, of: str | None = None
) -> pl.DataFrame:
    """Return the share of each group in all groups; each may fail with a part of the error."""
    names = groups_of(release)
    found = [release.share(name, steps=steps, of=of, at_once=len(names)) for name in names]
    return _table(names, found)


def changes(
    release: counton.Release, steps: str, other_steps: str, *, of: str | None = None
) -> pl.DataFrame:
    """Return by how much each group has in ``steps`` more than in ``other_steps``, largest first.

    ``is_certain``: this change is certainly the largest of all, up or down.
    """
    names = groups_of(release)
    alone = release.at(release.numbers.level ** (1 / len(names)))
    found = [
        alone.difference(name, name, steps=steps, other_steps=other_steps, of=of) for name in names
    ]
    least = [max(one.lower, -one.upper, 0.0) for one in found]
    most = [max(abs(one.lower), abs(one.upper)) for one in found]
    others = [max([*most[:at], *most[at + 1 :]], default=0.0) for at in range(len(names))]
    is_certain = [one > other for one, other in zip(least, others, strict=True)]
    table = _table(names, found).with_columns(is_certain=pl.Series(is_certain, dtype=pl.Boolean))
    return table.sort(pl.col("estimate").abs(), descending=True, maintain_order=True)


def _table(names: list[str], answers: list[Answer]) -> pl.DataFrame:
    rows = [(one.value, one.std, one.lower, one.upper) for one in answers]
    columns = ["estimate", "noise_std", "lower", "upper"]
    table = pl.DataFrame(rows, dict.fromkeys(columns, pl.Float64), orient="row")
    return table.select(pl.Series("group", names), *columns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("--of", help="number of each group, if it has several: mean, count, 0.9")
    parser.add_argument("--windows", help="windows 2:3, or days 2024-03-18:2024-03-24")
    parser.add_argument("--from", dest="other", help="earlier windows, for changes since then")
    given = parser.parse_args()
    read = counton.read(given.file)
    print(read.describe().splitlines()[0])
    if given.other is None:
        print(shares(read, steps=given.windows, of=given.of))
    else:
        print(changes(read, given.windows, given.other, of=given.of))

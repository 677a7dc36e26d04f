"""Make whole numbers of a released hierarchy or contingency table that still add up.

    python recipes/whole_numbers.py census.parquet whole.csv --nonnegative --total 6121618

The total is rounded, or the public number that you give. Then the parts of each place are moved by
equal amounts until they add up to it, and rounded: the largest remainders up. This costs no
privacy, because it reads released numbers alone. Numbers of at least 0 are biased: where little is
counted they are too large on average, by up to 0.4 standard deviations, and those beside them too
small.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import counton

Path = tuple[str, ...]


def divided(total: int, wanted: list[float], nonnegative: bool) -> list[int]:
    """Return the whole numbers nearest to the wanted ones, all moved alike, that have this sum.

    >>> divided(10, [-2.2, 4.9, 6.9], nonnegative=True)
    [0, 4, 6]
    """
    near = np.array(wanted)
    falling = np.sort(near)[::-1] if nonnegative else near
    moved = (total - np.cumsum(falling)) / np.arange(1, len(near) + 1)
    kept = np.flatnonzero(falling + moved > 0) if nonnegative else [-1]
    near = near + (moved[kept[-1]] if len(kept) else 0)
    if nonnegative:
        near = np.maximum(near, 0) if len(kept) else 0 * near
    whole = np.floor(np.where(near > 0, np.maximum(near - 1e-9, 0), near - 1e-9)).astype(int)
    up = np.argsort(whole - near, kind="stable")[: total - int(whole.sum())]
    whole[up] += 1
    return [int(one) for one in whole]


def whole_table(table: pl.DataFrame, nonnegative: bool, total: int | None = None) -> pl.DataFrame:
    """Return a table of one release with whole estimates; its intervals are cut to what can be."""
    added = {"start", "step", "window_start", "window_end", "level"}
    names = table.columns[: table.columns.index("estimate")]
    names = [name for name in names if name not in added]
    rows: list[Path] = table.select(names).rows()
    pairs = zip(rows, table["estimate"].to_list(), strict=True)
    parts: dict[Path, float] = {}  # the finest rows, by their labels
    for row, estimate in sorted(pairs, key=lambda pair: sum(one is None for one in pair[0])):
        if not any(matches(row, finer) for finer in parts):
            parts[row] = estimate
    done: dict[Path, int] = {(): round(max(sum(parts.values()), 0 if nonnegative else -np.inf))}
    if total is not None:
        done[()] = total
    for depth in range(1, len(names) + 1):
        below: dict[Path, dict[Path, float]] = {}
        for path, estimate in parts.items():
            inside = below.setdefault(path[: depth - 1], {})
            inside[path[:depth]] = inside.get(path[:depth], 0.0) + estimate
        for above, inside in below.items():
            each = divided(done[above], [*inside.values()], nonnegative)
            done |= dict(zip(inside, each, strict=True))
    estimates = [sum(done[path] for path in parts if matches(row, path)) for row in rows]
    least = 0 if nonnegative else None
    return table.with_columns(
        pl.Series("estimate", estimates),
        pl.col("lower").clip(least).ceil().cast(pl.Int64),
        pl.col("upper").clip(least).floor().cast(pl.Int64),
    )


def matches(row: Path, path: Path) -> bool:
    """Return whether a row of sums contains a part: its labels are the part's, or empty."""
    return all(one in (None, label) for one, label in zip(row, path, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released hierarchy or contingency table")
    parser.add_argument("out", help="the table of whole numbers (.csv)")
    parser.add_argument("--nonnegative", action="store_true", help="no number below 0")
    parser.add_argument("--total", type=int, help="a public total, to which all adds up")
    given = parser.parse_args()
    released = counton.read(given.file).table()
    if "step" in released.columns:
        released = released.filter(pl.col("step") == pl.col("step").max())
    whole_table(released, given.nonnegative, given.total).write_csv(given.out)

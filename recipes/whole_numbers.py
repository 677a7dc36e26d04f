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

Path = tuple[str | None, ...]


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
    names = table.columns[: table.columns.index("estimate")]
    names = [name for name in names if table[name].null_count()]  # the total has no labels
    rows: list[Path] = table.select(names).rows()
    shapes = {tuple(label is not None for label in row) for row in rows}

    def sums_over(path: Path) -> set[Path]:
        """Return the rows of sums that contain a part: some of its labels, the others empty."""
        pairs = [zip(path, shape, strict=True) for shape in shapes]
        return {tuple(label if shown else None for label, shown in each) for each in pairs}

    pairs = zip(rows, table["estimate"].to_list(), strict=True)
    parts: dict[Path, float] = {}  # the finest rows, by their labels
    covered: set[Path] = set()
    for row, estimate in sorted(pairs, key=lambda pair: pair[0].count(None)):
        if row not in covered:
            parts[row] = estimate
            covered |= sums_over(row)
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
    sums = dict.fromkeys(rows, 0)
    for path in parts:
        for row in sums_over(path) & sums.keys():
            sums[row] += done[path]
    estimates = pl.Series("estimate", [sums[row] for row in rows], pl.Int64)
    least = 0 if nonnegative else None
    return table.with_columns(
        estimates,
        pl.min_horizontal(pl.col("lower").clip(least).ceil().cast(pl.Int64), estimates),
        pl.max_horizontal(pl.col("upper").clip(least).floor().cast(pl.Int64), estimates),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released hierarchy or contingency table")
    parser.add_argument("out", help="the table of whole numbers (.csv)")
    parser.add_argument("--nonnegative", action="store_true", help="no number below 0")
    parser.add_argument("--total", type=int, help="a public total, to which all adds up")
    given = parser.parse_args()
    if given.nonnegative and given.total is not None and given.total < 0:
        parser.error(f"--total is {given.total}: with --nonnegative, give a total of at least 0")
    released = counton.read(given.file).table()
    if "window_index" in released.columns:
        released = released.filter(pl.col("window_index") == pl.col("window_index").max())
    whole_table(released, given.nonnegative, given.total).write_csv(given.out)

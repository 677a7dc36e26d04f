"""Add the last totals of an ended series to the totals of the one that goes on from it.

    python recipes/go_on_from.py old.csv new.csv > both.csv

Both files have running totals of the same groups. Each new total then contains the noise of the
last old one too, so variances add up. An interval has the ends of two added intervals that miss
with half of the chance each, so it holds with the stated probability or more.
"""

from __future__ import annotations

import sys

import polars as pl

import counton

_ENDS = ("estimate", "lower", "upper")


def go_on_from(old: counton.Release, new: counton.Release) -> pl.DataFrame:
    """Return the table of ``new`` with the last totals of ``old`` added."""
    level = min(old.numbers.level, new.numbers.level)
    before, after = (
        release.at((1 + level) / 2).table().filter(series="cumulative") for release in (old, new)
    )
    if set(before["group"]) != set(after["group"]):
        raise SystemExit("the files have different groups: give files of the same groups")
    last = before.filter(pl.col("window_index") == before["window_index"].max())
    both = after.join(last.select("group", "noise_std", *_ENDS), on="group", suffix="_before")
    return both.with_columns(
        *(pl.col(name) + pl.col(f"{name}_before") for name in _ENDS),
        noise_std=(pl.col("noise_std") ** 2 + pl.col("noise_std_before") ** 2).sqrt(),
        confidence_level=pl.lit(level),
    ).select(after.columns)


if __name__ == "__main__":
    print(go_on_from(*map(counton.read, sys.argv[1:])).write_csv(), end="")

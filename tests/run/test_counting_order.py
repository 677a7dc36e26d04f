"""The order in which rows of users count: that of all columns, however it is sorted."""

import numpy as np
import polars as pl
import pytest

from counton.run.counting.contribution_choice import in_order, within_bound
from counton.run.spec.terms import User

DAY = 86_400_000_000
#: Groups whose places differ from the order of their names.
GROUPS = ("pear", "apple", "fig", "Äpfel")
ORDER = ["user", "period", "us", "rank", "total", "id"]


def some_rows(
    seed: int, *, span: int = 30 * DAY, unit: int = 1, values: int = 1, same_bits: bool = False
) -> pl.DataFrame:
    """Random rows of 40 users.

    Args:
        seed: of the random numbers.
        span: length of the time in which they lie, in microseconds.
        unit: what their times are multiples of.
        values: number of different values.
        same_bits: whether all digests have the same first bits.
    """
    chance = np.random.default_rng(seed)
    height = 500
    digests = chance.integers(0, 2**64, 40, np.uint64, endpoint=False)
    if same_bits:
        digests %= 2**8
    return pl.DataFrame(
        {
            "us": chance.integers(-span, span, height) // unit * unit,
            "window": chance.integers(1, 30, height),
            "group": chance.integers(0, len(GROUPS), height),
            "total": chance.integers(0, values, height),
            "user": digests[chance.integers(0, 40, height)],
        }
    ).with_columns(period=pl.lit(0, pl.Int64))


def sorted_by_all(rows: pl.DataFrame) -> pl.DataFrame:
    ranks = pl.Series(GROUPS).rank("ordinal")
    ranked = rows.with_columns(rank=ranks.gather(rows["group"]))
    order = [name for name in ORDER if name in ranked.columns]
    return ranked.sort(order, maintain_order=True).drop("rank")


ROWS = {
    "times of their own": some_rows(1),
    "equal times": some_rows(2, unit=10 * DAY),
    "equal times and values": some_rows(3, unit=10 * DAY, values=3),
    "large values": some_rows(4, unit=10 * DAY, values=2**62),
    "times of all years": some_rows(5, span=2**62),
    "digests that begin alike": some_rows(6, same_bits=True),
    "periods": some_rows(7).with_columns(period=pl.col("us") // (7 * DAY)),
    "clocks that are set back": some_rows(8).with_columns(period=pl.col("us") // DAY % 3),
    "ids": some_rows(9, unit=10 * DAY).with_columns(
        id=pl.Series(np.random.default_rng(9).integers(0, 9, 500)).cast(pl.UInt64)
    ),
    "no users": some_rows(10).drop("user"),
    "a single row": some_rows(11)[:1],
    "no rows": some_rows(12)[:0],
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_stand_in_the_order_of_all_columns(kind: str) -> None:
    rows = ROWS[kind]
    assert in_order(rows, GROUPS).equals(sorted_by_all(rows))


@pytest.mark.parametrize("kind", sorted(set(ROWS) - {"no users"}))
def test_first_rows_of_each_unit_count(kind: str) -> None:
    rows = ROWS[kind]
    chosen = within_bound(rows, rows.clear(), User("user", "user", 3), GROUPS)
    in_unit = pl.int_range(pl.len()).over("user", "period")
    assert chosen.equals(sorted_by_all(rows).filter(in_unit < 3))

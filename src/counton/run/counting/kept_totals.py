"""Totals by window and cell, of which the state keeps what was seen and what was counted."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from counton.base.private import Private, reveal
from counton.run.counting.measurement import Measurement
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl

#: Columns that say whose totals a row has.
KEY_COLUMNS: Final = ("window", "cell")
#: Columns of the totals that the state keeps.
KEPT_COLUMNS: Final = ("seen_rows", "seen_total", "counted_rows", "counted_total")

_seen_rows = pl.col("seen_rows")
_seen_total = pl.col("seen_total")
_counted_rows = pl.col("counted_rows")
_counted_total = pl.col("counted_total")


def kept_totals(
    stream: JournalReader | None, touched: NDArray[np.int64], measurement: Measurement
) -> pl.DataFrame:
    """Return the totals that a stream keeps of some windows, and of those with rows to count.

    Args:
        touched: numbers of the windows.
    """
    schema = dict.fromkeys((*KEY_COLUMNS, *KEPT_COLUMNS), pl.Int64)
    frames = [pl.DataFrame(schema=schema)]
    blocks = iter(()) if stream is None else reveal(stream.observed_blocks(Private(touched)))
    last = len(measurement.kept) - 1  # the total, or the number of rows if that is the total
    for windows, totals in blocks:  # totals: window, seen or counted, measure, cell
        row, cell = np.nonzero(totals.any(axis=(1, 2)))
        seen = totals[row, 0, :, cell].astype(np.int64)
        counted = totals[row, 1, :, cell].astype(np.int64)
        columns = {
            "window": windows[row],
            "cell": cell,
            "seen_rows": seen[:, 0],
            "seen_total": seen[:, last],
            "counted_rows": counted[:, 0],
            "counted_total": counted[:, last],
        }
        frames.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(frames)


def join_totals(totals: pl.DataFrame, sums: pl.DataFrame) -> pl.DataFrame:
    """Join kept totals and sums of rows; what one of them lacks is 0."""
    if not totals.height:  # a first run may have millions of sums
        return sums.with_columns(pl.lit(0, pl.Int64).alias(name) for name in KEPT_COLUMNS).sort(
            KEY_COLUMNS
        )
    joined = totals.join(sums, on=KEY_COLUMNS, how="full", coalesce=True)
    return joined.fill_null(0).sort(KEY_COLUMNS)


def is_due() -> pl.Expr:
    """Whether what is seen differs from what was counted: other rows, or rows of other values."""
    return (_seen_rows != _counted_rows) | (_seen_total != _counted_total)

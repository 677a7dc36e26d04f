"""Where a late row is counted: a row whose window was released before the row came."""

from __future__ import annotations

from counton.windowing.lazy_polars import polars as pl


def counting_step(window: pl.Expr, released: int) -> pl.Expr:
    """Return the step that counts a row: that of its window, or the next one for a late row.

    Args:
        window: the number of the row's window.
        released: number of steps that are released.
    """
    return pl.max_horizontal(window, pl.lit(released + 1, pl.Int64))

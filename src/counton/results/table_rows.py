"""Columns and rows of released tables, of any statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counton.base.table_schema import LABELS, RESERVED, in_order
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows


def finite(table: pl.DataFrame) -> pl.DataFrame:
    """Replace NaN and infinite numbers by null, as JSON needs."""
    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names
    )


def labels_of(table: pl.DataFrame) -> list[str]:
    """Return the columns that identify rows: those without released numbers.

    Floats, such as quantiles, are among them only if the other columns do not distinguish all rows.

    Args:
        table: a released table.

    >>> labels_of(
    ...     pl.DataFrame({"window_index": [1, 1], "quantile": [0.1, 0.5], "estimate": [3.0, 4.0]})
    ... )
    ['window_index', 'quantile']
    """
    names = [name for name in table.columns if name in LABELS or name not in RESERVED]
    exact = [name for name in names if not table.schema[name].is_float()]
    several = table.height and table.select(exact).is_duplicated().any()
    return names if several else exact


def rows_among(table: pl.DataFrame, stored_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table that another has too, by their common columns.

    >>> rows = pl.DataFrame({"window_index": [1, 2], "estimate": [3, 4]})
    >>> rows_among(rows, pl.DataFrame({"window_index": [2]}))["estimate"].to_list()
    [4]
    """
    columns = [name for name in stored_rows.columns if name in table.columns]
    same = [
        pl.col(name).fill_null("") if kind == pl.String else pl.col(name)
        for name, kind in table.select(columns).schema.items()
    ]
    kept = (
        table.select(same)
        .with_row_index("_row")
        .join(stored_rows.select(columns).select(same), on=columns, how="semi", nulls_equal=True)
    )
    return table[kept["_row"]]


def when_columns(
    steps: NDArray[np.int64],
    windows: Windows,
    over: int | None,
    begins: NDArray[np.int64] | None = None,
) -> pl.DataFrame:
    """Return the step of each row, and the beginning and end of the windows that it covers.

    ``over`` is their number, or ``begins`` the step before each; else the step's own window.
    """
    columns: dict[str, object] = {"window_index": steps}
    if windows.timed:
        ends = windows.ends(range(int(steps.max(initial=0)) + 1))  # from the stream's beginning
        starts = steps - (over or 1) if begins is None else begins
        columns["window_start"] = windows.local_times(ends[starts])
        columns["window_end"] = windows.local_times(ends[steps])
    if over is not None:
        columns["n_windows"] = np.full(len(steps), over)
    return pl.DataFrame(columns)


def columns_below(parts: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Join tables with equal columns; NaN in columns that may be empty becomes null."""
    columns: dict[str, object] = {}
    for name in parts[0] if parts else ():
        values = np.concatenate([part[name] for part in parts])
        texts = values.dtype == object
        columns[name] = pl.Series(values.tolist(), dtype=pl.String) if texts else values
    table = pl.DataFrame(columns)
    empty = [name for name in ("noise_std", "quantile") if name in table.columns]
    return table.with_columns(pl.col(empty).cast(pl.Float64).fill_nan(None))


def arranged(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with its columns in the order of released tables.

    >>> arranged(pl.DataFrame({"estimate": [3], "group": ["home"], "window_index": [1]})).columns
    ['window_index', 'group', 'estimate']
    """
    return table.select(in_order(table.columns))

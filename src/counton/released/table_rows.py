"""Tables of readings: columns below each other, when each row was, and which rows are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.windows import Windows
from counton.released.series import local_times

#: Columns that are numbers of a row, and no name of it.
NUMBERS = (
    *("window_start", "window_end", "counted_until", "over"),
    *("estimate", "std", "lower", "upper", "value", "sure"),
    *("window_estimate", "window_std", "window_lower", "window_upper"),
    *("running_total", "running_total_std"),
)


def labels_of(table: pl.DataFrame) -> list[str]:
    """Columns that tell the rows of a table of readings apart: no numbers, unless they must.

    >>> labels_of(pl.DataFrame({"step": [1, 1], "share": [0.1, 0.5], "value": [3.0, 4.0]}))
    ['step', 'share']
    """
    names = [name for name in table.columns if name not in NUMBERS]
    exact = [name for name in names if not table.schema[name].is_float()]
    several = table.height and table.select(exact).is_duplicated().any()
    return names if several else exact


def rows_among(table: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table that are among those of another, by the columns that both have.

    >>> rows = pl.DataFrame({"step": [1, 2], "value": [3, 4]})
    >>> rows_among(rows, pl.DataFrame({"step": [2]}))["value"].to_list()
    [4]
    """
    on = [name for name in there.columns if name in table.columns]
    same = [
        pl.col(name).fill_null("") if kind == pl.String else pl.col(name)
        for name, kind in table.select(on).schema.items()
    ]
    kept = (
        table.select(same)
        .with_row_index("_row")
        .join(there.select(on).select(same), on=on, how="semi", nulls_equal=True)
    )
    return table[kept["_row"]]


def when_columns(
    steps: NDArray[np.int64], windows: Windows | None, over: int | None
) -> pl.DataFrame:
    """The step of each row, and its window.

    Args:
        steps: of the rows.
        windows: how time is cut; None: it is not.
        over: how many steps up to each are shown together; None: all so far.
    """
    columns: dict[str, Any] = {"step": steps}
    if windows is not None:
        ends = windows.ends(range(int(steps.max(initial=0)) + 1))  # from the stream's beginning
        columns["window_start"] = local_times(windows, ends[steps - (over or 1)])
        columns["window_end"] = local_times(windows, ends[steps])
    if over is not None:
        columns["over"] = np.full(len(steps), over)
    return pl.DataFrame(columns)


def columns_below(parts: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Columns of readings below each other."""
    columns: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        values = np.concatenate([part[name] for part in parts])
        texts = values.dtype == object
        columns[name] = pl.Series(values.tolist(), dtype=pl.String) if texts else values
    found = pl.DataFrame(columns)
    if "std" in found.columns:  # of what has none
        found = found.with_columns(pl.col("std").fill_nan(None))
    return found

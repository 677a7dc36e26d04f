"""Tables of counts in files: leaves of a hierarchy, cells of a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.events.files import EventFile


def read_table(path: str, columns: Sequence[str], stated: str | None = None) -> pl.DataFrame:
    """The named columns of a file, in its order.

    Raises:
        InvalidInput: no such file, format or column, one named twice, or a file that cannot be
            read.
    """
    for place, name in enumerate(columns):
        if name in columns[:place]:
            raise InvalidInput(f"column {name!r} of {path} is named twice; each has one meaning")
    file = EventFile(path, stated)
    try:
        return file.scan(tuple(columns)).collect()
    except pl.exceptions.PolarsError as error:
        raise file.unreadable(error) from error


def labels(table: pl.DataFrame, columns: Sequence[str]) -> dict[str, NDArray[np.object_]]:
    """Columns as text; empty text counts as missing."""
    found = {}
    for name in columns:
        text = table[name].cast(pl.String)
        found[name] = np.array(
            [None if value == "" else value for value in text.to_list()], dtype=object
        )
    return found


def whole_numbers(table: pl.DataFrame, column: str, file: str) -> NDArray[np.int64]:
    """A column of counts.

    Raises:
        InvalidInput: a value that is not a whole number, naming its row.
    """
    series = table[column]
    numbers = series.cast(pl.Int64, strict=False)
    if series.dtype.is_float():
        numbers = numbers.set(numbers.cast(pl.Float64) != series, None)
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        value = series[row]
        raise InvalidInput(
            f"row {row + 1} of {file}: {column} is {value!r}, which is not a whole number; repair "
            f"it or drop the row"
        )
    return numbers.to_numpy()

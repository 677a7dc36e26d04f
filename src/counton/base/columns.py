"""Tables of plain columns: written out as text and as data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from counton.base.exact import figures, quantity
from counton.base.lazy import require

if TYPE_CHECKING:
    from polars import DataFrame as DataFrame

    from counton.base.arrays import Column

#: Codes of values that are missing, and of values that are not among the declared ones.
MISSING = -1
OUTSIDE = -2


#: Separator between the values of several columns of groups, in the label of a group.
BETWEEN = " / "


class TextTable(NamedTuple):
    """A table of texts: names of columns (and whether they hold numbers) and rows.

    >>> TextTable((("node", False), ("estimate", True)), [("total", "35")]).rows
    [('total', '35')]
    """

    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]


def align_lines(table: TextTable) -> list[str]:
    """Format a table as aligned lines: column names and rows."""
    columns = [
        [name, *(row[index] for row in table.rows)] for index, (name, _) in enumerate(table.columns)
    ]
    for cells, (_, number) in zip(columns, table.columns, strict=True):
        wide = max(map(len, cells))
        cells[:] = [cell.rjust(wide) if number else cell.ljust(wide) for cell in cells]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def data_frame(columns: Mapping[str, Column]) -> DataFrame:
    """Return a table as a polars data frame."""
    require("polars")
    import polars as pl

    return pl.DataFrame(
        {
            name: values.tolist() if values.dtype == object else values
            for name, values in columns.items()
        },
        strict=False,
    )


def data_frame_of_rows(rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """Return rows as a polars data frame."""
    require("polars")
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)


#: Columns whose numbers are shown only as precisely as their noise allows.
_NOISY = ("estimate", "lower", "upper")
_STD = "noise_std"
#: An infinite standard deviation, as of a mean whose released number of rows is not positive.
UNBOUNDED = "unbounded"


def errors_of(columns: Mapping[str, Sequence[Any]]) -> list[float | None]:
    """Return the approximate standard deviation of each row's noise; None if it is not known.

    It is ``noise_std`` or, where this is empty, a quarter of the interval.

    Args:
        columns: the columns of a released table.

    >>> errors_of({"estimate": [3.25], "noise_std": [None], "lower": [2], "upper": [4]})
    [0.5]
    """
    n_rows = max((len(values) for values in columns.values()), default=0)
    nothing = [None] * n_rows
    errors: list[float | None] = []
    for std, lower, upper in zip(
        columns.get("noise_std", nothing),
        columns.get("lower", nothing),
        columns.get("upper", nothing),
        strict=True,
    ):
        if std is not None and math.isfinite(std):
            errors.append(std)
        elif lower is None or upper is None:
            errors.append(None)
        else:
            errors.append((upper - lower) / 4)
    return errors


def readable(columns: Mapping[str, Sequence[object]]) -> list[list[str]]:
    """Format each column as texts, without exponents, with the digits that the noise leaves.

    Nothing else rounds published numbers. Files for machines keep every digit, so that the
    difference of two consecutive totals is exactly the number of the window between them.

    >>> readable({"estimate": [4.5], "noise_std": [math.inf], "lower": [0.0], "upper": [9.0]})
    [['4.5'], ['unbounded'], ['0.0'], ['9.0']]
    """
    errors = errors_of(columns)
    texts = []
    for name, values in columns.items():
        if name in _NOISY:
            pairs = zip(values, errors, strict=True)
            texts.append([_number_text(value, error) for value, error in pairs])
        elif name == _STD:
            pairs = zip(values, errors, strict=True)
            texts.append(
                [
                    UNBOUNDED if value == math.inf else _number_text(value, error)
                    for value, error in pairs
                ]
            )
        else:
            texts.append([_cell_text(value) for value in values])
    return texts


def _number_text(value: Any, error: float | None) -> str:
    """Format a noisy number with the digits that its error leaves; None: it is not known."""
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number or error is None or not math.isfinite(error):
        return _cell_text(value)
    return quantity(value, error, isinstance(value, int))


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M" + (":%S" if value.second else ""))
    if not isinstance(value, float):
        return str(value)
    return figures(value)


def list_in_words(names: Sequence[str]) -> str:
    """Join names with commas and "and"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"

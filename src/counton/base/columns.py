"""Tables of plain columns: written out as text and as data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import figures, quantity
from counton.base.lazy import require

#: Codes of values that are missing, and of values that are not among the declared ones.
MISSING = -1
OUTSIDE = -2


#: Separator between the values of several columns of groups, in the label of a group.
BETWEEN = " / "
#: Columns that released tables add to the caller's columns; `WHEN` is added to tables of many
#: steps, `REVISED` to those of windows that are published anew.
ADDED = ("estimate", "std", "lower", "upper")
WHEN = ("step", "window_start", "window_end")
REVISED = ("as_of", "lag", "final")


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
        [name, *(row[at] for row in table.rows)] for at, (name, _) in enumerate(table.columns)
    ]
    for cells, (_, number) in zip(columns, table.columns, strict=True):
        wide = max(map(len, cells))
        cells[:] = [cell.rjust(wide) if number else cell.ljust(wide) for cell in cells]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def refuse_added(names: Sequence[str], *more: str) -> None:
    """Refuse names of columns that a released table, or ``more``, needs for its own columns."""
    for name in names:
        if name in (*ADDED, *WHEN, *more):
            raise InvalidInputError(
                f"a column of the events is called {name!r}, and the released table needs this "
                "name for a column of its own: rename the column of the events"
            )


def data_frame(columns: Mapping[str, NDArray[Any]]) -> Any:
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


def data_frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a polars data frame."""
    require("polars")
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)


#: Endings of the names of columns whose numbers are shown only as precisely as their noise allows.
_NOISY = (*ADDED, "value", "sum")


def errors_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return approximate standard deviations for each column of noisy numbers, by column name.

    Those of ``x_value`` are ``x_std``, else ``std``, else a quarter of ``x_lower`` to ``x_upper``.

    >>> errors_of({"value": [3.25], "lower": [2], "upper": [4]})["value"], errors_of({"step": [1]})
    ([0.5], {})
    """
    errors: dict[str, list[Any]] = {}
    for name in columns:
        kind = next((ending for ending in _NOISY if name.endswith(ending)), None)
        if kind is None:
            continue
        prefix = name.removesuffix(kind)
        stds = next(
            (columns[column] for column in (f"{prefix}std", "std") if column in columns), None
        )
        ends = [columns.get(f"{prefix}{end}") for end in ("lower", "upper")]
        if stds is not None:
            errors[name] = [*stds]
        elif ends[0] is not None and ends[1] is not None:
            pairs = zip(ends[0], ends[1], strict=True)
            errors[name] = [None if None in pair else (pair[1] - pair[0]) / 4 for pair in pairs]
    return errors


def readable(columns: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Format each column as texts, without exponents, with the digits that the noise leaves.

    Nothing else rounds published numbers. Files for machines keep every digit, so that the
    difference of two consecutive totals is exactly the number of the window between them.
    """
    errors = errors_of(columns)
    cells = []
    for name, values in columns.items():
        stds = errors.get(name, [None] * len(values))
        cells.append(
            [
                quantity(value, std, isinstance(value, int))
                if all(
                    isinstance(number, int | float) and math.isfinite(number)
                    for number in (value, std)
                )
                else _cell_text(value)
                for value, std in zip(values, stds, strict=True)
            ]
        )
    return cells


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
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

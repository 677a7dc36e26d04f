"""Tables as plain columns: read from mappings and data frames of any library, and written out."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.base.exact import figures, quantity, quote, without_mask
from counton.base.lazy import require
from counton.base.outside_input import shown_name

#: Codes of values that are missing, and of values that are not among the declared ones.
MISSING, OUTSIDE = -1, -2


#: Separator between the values of several columns of groups, in the label of a group.
BETWEEN = " / "
#: Columns that released tables add to the caller's columns; `WHEN` is added to tables of many
#: steps.
ADDED = ("estimate", "std", "lower", "upper")
WHEN = ("step", "window_start", "window_end")


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


def columns_of(table: Any, names: Sequence[str]) -> list[NDArray[Any]]:
    """Return the columns ``names`` of a table, one-dimensional and of equal length.

    Messages call the table the domain, and the columns its levels.
    """
    asked: Any = names
    if isinstance(asked, str) or not isinstance(asked, Collection) or not len(asked):
        given = repr(asked) if isinstance(asked, list | tuple) else quote(asked)
        raise InvalidInput(f"levels are {given}; give a list of at least one column name")
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput("levels contain a value that is not a text; give names of columns")
    if len(set(names)) < len(names):
        raise InvalidInput(f"levels {list(names)} name a column twice: name each column once")
    if not (isinstance(table, Mapping) or hasattr(table, "columns")):
        raise InvalidInput(
            f"the domain has type {type(table).__name__}; give a data frame or a mapping from "
            f"column names to arrays"
        )
    # an Arrow table's ``columns`` are its data
    named = table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns)
    present = list(named)
    if not all(isinstance(name, str | int | tuple) for name in present):
        raise InvalidInput(
            f"the domain has type {type(table).__name__}, whose columns have no names; give a "
            f"data frame or a mapping from column names to arrays"
        )
    missing = [name for name in names if name not in present]
    if missing:
        raise InvalidInput(
            f"the domain has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(str, present))}"
        )
    columns = [_array(table[name], f"column {name!r} of the domain") for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or len(column) != len(columns[0]):
            raise InvalidInput(
                f"column {name!r} of the domain has shape {column.shape}; all columns must be flat "
                f"and have {len(columns[0])} rows, as the first one has"
            )
    return columns


def _array(column: Any, what: str) -> NDArray[Any]:
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = column.to_numpy()
    column = without_mask(column, what)
    if isinstance(column, np.ndarray):
        return column
    values = list(column)
    if any(value is None for value in values) or len({type(value) for value in values}) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA: a comparison with itself is missing as well
        return True
    except ValueError:  # an array; the sorting of labels refuses it
        return False


def codes_of(column: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return codes (places among the values; -1 if missing) and the sorted distinct values.

    >>> codes_of(np.array(["b", None, "a"], dtype=object))
    (array([ 1, -1,  0]), array(['a', 'b'], dtype=object))
    """
    codes, missing = np.full(len(column), MISSING, np.int64), np.zeros(len(column), dtype=bool)
    if column.dtype.kind == "f":
        missing = np.isnan(column)
    elif column.dtype == object:
        missing = np.array([_is_missing(value) for value in column.tolist()], dtype=bool)
    kept = column[~missing]
    if kept.dtype != object:
        values, codes[~missing] = np.unique(kept, return_inverse=True)
        return codes, values
    try:
        distinct = sorted(set(kept.tolist()), key=lambda value: (type(value).__name__, value))
    except TypeError as error:
        raise InvalidInput(
            f"labels must be plain values such as texts or numbers ({error}): convert the column "
            "that holds them"
        ) from error
    values = np.empty(len(distinct), dtype=object)
    values[:] = distinct
    place = {value: code for code, value in enumerate(values.tolist())}
    codes[~missing] = [place[value] for value in kept.tolist()]
    return codes, values


def labels_bytes(labels: NDArray[Any]) -> bytes:
    """Encode labels with types and lengths, for a digest: different labels give different bytes.

    >>> labels_bytes(np.array(["a", 1], dtype=object))
    b'5,5;str:aint:1'
    """
    held = labels.tolist()
    # Times finer than microseconds become plain integers, so they are named by their own type.
    times = labels.dtype.name if labels.dtype.kind in "mM" else None
    texts = [
        f"{times if times and type(label) is int else type(label).__name__}:{label}"
        for label in held
    ]
    lengths = ",".join(map(str, map(len, texts)))
    return f"{lengths};{''.join(texts)}".encode("utf-8", "surrogatepass")


def refuse_added(names: Sequence[str], *more: str) -> None:
    """Refuse names of columns that a released table, or ``more``, needs for its own columns."""
    for name in names:
        if name in (*ADDED, *WHEN, *more):
            raise InvalidInput(
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


def html(words: str, columns: Mapping[str, NDArray[Any]], rows: int = 8) -> str:
    """Format a text and the first rows of a table as HTML for a notebook."""
    head = "".join(f"<th>{escape(shown_name(name))}</th>" for name in columns)
    shown = readable({name: values[:rows].tolist() for name, values in columns.items()})
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown_name(value))}</td>" for value in row) + "</tr>"
        for row in zip(*shown, strict=True)
    )
    left = max((len(values) for values in columns.values()), default=0) - rows
    more = f"<p>and {left:,} more rows</p>" if left > 0 else ""
    return (
        f"<div><pre>{escape(words)}</pre><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


#: Endings of the names of columns whose numbers are shown only as precisely as their noise allows.
_NOISY = (*ADDED, "value", "sum")


def errors_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return approximate standard deviations for each column of noisy numbers, by column name.

    Those of ``x_value`` are ``x_std``, else ``std``, else a quarter of ``x_lower`` to ``x_upper``.

    >>> errors_of({"value": [3.25], "lower": [2], "upper": [4]})["value"], errors_of({"step": [1]})
    ([0.5], {})
    """
    found: dict[str, list[Any]] = {}
    for name in columns:
        kind = next((one for one in _NOISY if name.endswith(one)), None)
        if kind is None:
            continue
        prefix = name.removesuffix(kind)
        stds = next((columns[one] for one in (f"{prefix}std", "std") if one in columns), None)
        ends = [columns.get(f"{prefix}{end}") for end in ("lower", "upper")]
        if stds is not None:
            found[name] = [*stds]
        elif ends[0] is not None and ends[1] is not None:
            pairs = zip(ends[0], ends[1], strict=True)
            found[name] = [None if None in pair else (pair[1] - pair[0]) / 4 for pair in pairs]
    return found


def readable(columns: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Format each column as texts, without exponents, with the digits that the noise leaves.

    Nothing else rounds published numbers. Files for machines keep every digit, so that the
    difference of two consecutive totals is exactly the number of the window between them.
    """
    errors, found = errors_of(columns), []
    for name, values in columns.items():
        stds = errors.get(name, [None] * len(values))
        found.append(
            [
                quantity(value, std, isinstance(value, int))
                if all(isinstance(one, int | float) and math.isfinite(one) for one in (value, std))
                else _cell_text(value)
                for value, std in zip(values, stds, strict=True)
            ]
        )
    return found


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

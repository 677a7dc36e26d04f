"""Columns of labels, read from mappings and data frames of any library."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Column
from counton.base.columns import MISSING
from counton.base.errors import InvalidInputError
from counton.base.exact import quote, without_mask


def columns_of(table: Any, names: Sequence[str]) -> list[Column]:
    """Return the columns ``names`` of a table, one-dimensional and of equal length.

    Messages call the table the domain, and the columns its levels.
    """
    asked: Any = names
    if isinstance(asked, str) or not isinstance(asked, Collection) or not len(asked):
        asked_text = repr(asked) if isinstance(asked, list | tuple) else quote(asked)
        raise InvalidInputError(f"levels are {asked_text}; give a list of at least one column name")
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError("levels contain a value that is not a text; give names of columns")
    if len(set(names)) < len(names):
        raise InvalidInputError(f"levels {list(names)} name a column twice: name each column once")
    if not (isinstance(table, Mapping) or hasattr(table, "columns")):
        raise InvalidInputError(
            f"the domain has type {type(table).__name__}; give a data frame or a mapping from "
            f"column names to arrays"
        )
    # an Arrow table's ``columns`` are its data
    named = table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns)
    present = list(named)
    if not all(isinstance(name, str | int | tuple) for name in present):
        raise InvalidInputError(
            f"the domain has type {type(table).__name__}, whose columns have no names; give a "
            f"data frame or a mapping from column names to arrays"
        )
    missing = [name for name in names if name not in present]
    if missing:
        raise InvalidInputError(
            f"the domain has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(str, present))}"
        )
    columns = [_array(table[name], f"column {name!r} of the domain") for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or len(column) != len(columns[0]):
            raise InvalidInputError(
                f"column {name!r} of the domain has shape {column.shape}; all columns must be flat "
                f"and have {len(columns[0])} rows, as the first one has"
            )
    return columns


def _array(column: Any, noun: str) -> Column:
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = column.to_numpy()
    column = without_mask(column, noun)
    if isinstance(column, np.ndarray):
        return column
    values = list(column)
    if any(value is None for value in values) or len({type(value) for value in values}) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA: a comparison with itself is missing as well
        return True
    except ValueError:  # an array; the sorting of labels refuses it
        return False


def codes_of(column: Column) -> tuple[NDArray[np.int64], Column]:
    """Return codes (places among the values; -1 if missing) and the sorted distinct values.

    >>> codes_of(np.array(["b", None, "a"], dtype=object))
    (array([ 1, -1,  0]), array(['a', 'b'], dtype=object))
    """
    codes = np.full(len(column), MISSING, np.int64)
    missing = np.zeros(len(column), dtype=bool)
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
        raise InvalidInputError(
            f"labels must be plain values such as texts or numbers ({error}): convert the column "
            "that holds them"
        ) from error
    values = np.empty(len(distinct), dtype=object)
    values[:] = distinct
    code_of = {value: code for code, value in enumerate(values.tolist())}
    codes[~missing] = [code_of[value] for value in kept.tolist()]
    return codes, values


def labels_bytes(labels: Column) -> bytes:
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

"""Public tables that declare the cells of a statistic: read from files, with labels as texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, param
from counton.io.declared_groups import table_columns
from counton.io.files import EventFile
from counton.io.input_paths import SUFFIXES, ending, is_file
from counton.windowing.lazy_polars import polars as pl

_Path = str | os.PathLike[str]


def read_table(path: _Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read the named columns of a file of public cells, all names, in the file's order."""
    for place, name in enumerate(columns):
        if name in columns[:place]:
            raise InvalidInputError(
                f"column {name!r} of {os.fspath(path)} is given for two purposes; give another "
                "column for one of them"
            )
    file = EventFile(path)
    try:
        return file.scan(tuple(columns), columns).collect()
    except pl.exceptions.PolarsError as error:
        raise file.unreadable(error) from error


def labels_of(table: pl.DataFrame, columns: Sequence[str]) -> dict[str, NDArray[np.object_]]:
    """Return columns as arrays of texts, by name; an empty text is a missing label.

    Args:
        table: a table of groups.
        columns: the columns to return.
    """
    return {
        name: np.array(
            [value or None for value in table[name].cast(pl.String).to_list()], dtype=object
        )
        for name in columns
    }


def read_tree_table(file: str, levels: Sequence[str]) -> pl.DataFrame:
    """Return the columns of the levels of a file that lists the leaves of a tree.

    Args:
        file: path of the file.
        levels: columns of the levels, the coarsest first.

    Raises:
        InvalidInputError: the path is that of no table, or the table lacks a column.
    """
    if ending(file) not in SUFFIXES:
        lines = (",".join(row) for row in (levels, [f"{level} A" for level in levels]))
        raise InvalidInputError(
            f"{param('groups', file)} is no table; the groups of a hierarchy are a file (.csv, "
            ".parquet or .jsonl) with a column for each level and a row for each of the lowest "
            f"places: places.csv with the lines {' and '.join(map(repr, lines))}"
        )
    return read_table(file, levels)


def values_of(domain: object, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the public values that each column may have, in the order stated.

    A text or a mapping may list other columns than those named.

    Args:
        domain: a table with these columns (shorter columns end in empty cells), a text
            ``sex=f,m;smokes=no,yes``, or a mapping.

    >>> values_of("sex=f,m;smokes=no,yes", ["sex", "smokes"])
    {'sex': ['f', 'm'], 'smokes': ['no', 'yes']}
    """
    if isinstance(domain, Mapping):
        return {column: list(values) for column, values in domain.items()}
    if not isinstance(domain, str | os.PathLike):
        raise InvalidInputError(
            f"{param('groups')} is of type {type(domain).__name__}; give a dictionary from each "
            "column to its values, a text such as sex=f,m;smokes=no,yes, or a file"
        )
    text = os.fspath(domain)
    values_by_column: dict[str, list[str]] = {}
    if is_file(text):
        table = read_table(text, columns)
        for column, labels in labels_of(table, columns).items():
            named = [label for label in labels.tolist() if label is not None]
            if labels.tolist()[: len(named)] != named:
                raise InvalidInputError(
                    f"{param('groups', text)} has an empty cell among the values of {column!r}: "
                    "list the values from the first row on, without gaps"
                )
            values_by_column[column] = named
        _refuse_repeated(values_by_column, text)
        return values_by_column
    for part in text.split(";"):
        column, equals, values = part.partition("=")
        if not equals or not column.strip():
            raise InvalidInputError(
                f"{param('groups', part.strip())} is neither a file nor a list of values; write "
                "sex=f,m;smokes=no,yes for example, or name a table with these columns"
            )
        if column.strip() in values_by_column:
            raise InvalidInputError(
                f"{param('groups')} lists the values of {column.strip()!r} twice; list them once"
            )
        values_by_column[column.strip()] = [value.strip() for value in values.split(",")]
    _refuse_repeated(values_by_column, text)
    return values_by_column


def _refuse_repeated(values_by_column: Mapping[str, Sequence[str]], groups: str) -> None:
    """Refuse a column without values, or with one value twice, as in a file of combinations."""
    for column, values in values_by_column.items():
        if not values:
            raise InvalidInputError(
                f"{param('groups', groups)} has no value of {column!r}. List all its values"
            )
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            raise InvalidInputError(
                f"{param('groups', groups)} lists the value {repeated!r} of {column!r} twice. List "
                "each value of a column once: not combinations, which follow from the values"
            )


def refuse_counts(domain: object, value: str | None) -> None:
    """Refuse a file of public cells that has the column of private counts, because it may hold the
    private rows.

    Args:
        value: name of the column of private counts; None if there is none.
    """
    if value is None or not isinstance(domain, str | os.PathLike):
        return
    if is_file(os.fspath(domain)) and value in table_columns(domain):
        raise InvalidInputError(
            f"{param('groups', os.fspath(domain))} has the column of counts, {value!r}, so it "
            "seems to be the private data; the release would show which cells have counts: list "
            "cells that are publicly known to exist"
        )

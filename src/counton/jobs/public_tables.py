"""Public tables that say which cells a released table has: read from files, labels as texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.errors import InvalidInput, field
from counton.events.files import EventFile, is_file, table_columns
from counton.strategies.trees import Tree

_Path = str | os.PathLike[str]


def read_table(path: _Path, columns: Sequence[str], value: str | None = None) -> pl.DataFrame:
    """The named columns of a file, in its order; all but that of the values hold names."""
    for place, name in enumerate(columns):
        if name in columns[:place]:
            raise InvalidInput(
                f"column {name!r} of {os.fspath(path)} is named twice; each has one meaning"
            )
    file = EventFile(path)
    try:
        names = [name for name in columns if name != value]
        return file.scan(tuple(columns), names).collect()
    except pl.exceptions.PolarsError as error:
        raise file.unreadable(error) from error


def labels_of(table: pl.DataFrame, columns: Sequence[str]) -> dict[str, NDArray[np.object_]]:
    """Columns as text; empty text counts as missing."""
    return {
        name: np.array(
            [value or None for value in table[name].cast(pl.String).to_list()], dtype=object
        )
        for name in columns
    }


def names_of(given: str | Sequence[str], name: str) -> list[str]:
    """Names of columns: a list, or a text with commas between them.

    Raises:
        InvalidInput: an empty one.
    """
    names = [each.strip() for each in given.split(",")] if isinstance(given, str) else [*given]
    if "" in names:
        raise InvalidInput(f"{field(name, given)} holds an empty name; write it as A,B,C")
    return names


def levels_of(given: str | Sequence[str]) -> list[str]:
    """Names of level columns.

    Raises:
        InvalidInput: an empty one, or one that a released table has besides.
    """
    levels = names_of(given, "levels")
    if "level" in levels:
        raise InvalidInput(
            "a column is called 'level', as a column of the released table is: rename it"
        )
    return levels


def targets_of(given: str | Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Standard deviations by level, as they are asked for.

    Raises:
        InvalidInput: what is no such list.

    >>> targets_of("state=50,county=100")
    {'state': 50.0, 'county': 100.0}
    """
    if not isinstance(given, str):
        return given
    targets = {}
    for part in given.split(","):
        level, equals, std = part.partition("=")
        if level.strip() in targets:
            raise InvalidInput(f"{field('target')} names {level.strip()!r} twice; give one of them")
        try:
            targets[level.strip()] = float(std)
        except ValueError:
            equals = ""
        if not equals:
            raise InvalidInput(
                f"{field('target', part)} is not LEVEL=STD; write it as in state=50,county=100"
            )
    return targets


def tree_of(domain: Any, levels: Sequence[str], value: str | None = None) -> Tree:
    """The tree whose leaves are the rows of a public table.

    Args:
        domain: a file, or a mapping from level names to labels.
        levels: names of the columns, coarsest first.
        value: column of the private counts, which a public table has not.

    Raises:
        InvalidInput: no such file, or no tree.
    """
    named = levels_of(levels)
    if isinstance(domain, str | os.PathLike):
        if value is not None and is_file(os.fspath(domain)) and value in table_columns(domain):
            raise InvalidInput(
                f"{field('domain', os.fspath(domain))} has the column of the counts, {value!r}, so "
                f"it looks like the private rows; what has counts would show in what is released: "
                f"list what is publicly known to exist"
            )
        domain = labels_of(read_table(domain, named), named)
    return Tree.from_leaves(domain, named)

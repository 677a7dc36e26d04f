"""The declared groups of a histogram. Declared, because observed groups would leak.

Whether a rare group appears in the output at all would tell whether its one event is in the data,
whatever noise the counts have; so the list of groups must come from public knowledge.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from counton.errors import InvalidInput, field
from counton.events.files import EventFile

_TABLES = (".csv", ".parquet", ".pq", ".jsonl", ".ndjson")


def read_domain(source: str | os.PathLike[str] | Sequence[str], column: str) -> tuple[str, ...]:
    """Groups from a comma-separated list, a table's column or a text file with one group per line.

    Args:
        source: ``A,B,C``, the path of a file, or the groups themselves.
        column: column of the table to read; a table with one column needs no such name.

    Returns:
        The groups in the order stated.

    Raises:
        InvalidInput: no such file, no such column, no groups, or a group stated twice.

    >>> read_domain("AA, UA,DL", "carrier")
    ('AA', 'UA', 'DL')
    """
    if isinstance(source, str | os.PathLike):
        source = os.fspath(source)
        groups = _listed(source, column)
    else:
        groups = _given(source)
    if not groups or "" in groups:
        raise InvalidInput(f"domain {source!r} holds no group or an empty one; name each group")
    twice = [group for group, times in Counter(groups).items() if times > 1]
    if twice:
        raise InvalidInput(f"domain {source!r} names the group {twice[0]!r} twice; name it once")
    return tuple(groups)


def _given(groups: object) -> list[str]:
    texts: list[object] = list(groups) if isinstance(groups, Iterable) else [groups]
    for group in texts:
        if not isinstance(group, str):
            raise InvalidInput(
                f"a group of {field('domain')} is of type {type(group).__name__}; give a file, a "
                f"list A,B,C, or texts"
            )
    return [str(group) for group in texts]


def _listed(source: str, column: str) -> list[str]:
    path = Path(source)
    if is_file(source):
        groups = _from_table(source, column) if _is_table(path) else _from_lines(path)
    elif "," not in source and (_is_table(path) or path.suffix == ".txt" or os.sep in source):
        raise InvalidInput(f"domain {source!r} is not a file; check the path, or list A,B,C")
    else:
        groups = [group.strip() for group in source.split(",")]
    return groups


def is_file(name: str) -> bool:
    """Whether a text names a file; a long list of groups is no name at all.

    >>> is_file("A," * 5000)
    False
    """
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def table_columns(source: str | os.PathLike[str]) -> list[str]:
    """Columns of a domain that is a table; none of a text with one group per line."""
    return EventFile(source).columns() if _is_table(Path(source)) else []


def _is_table(path: Path) -> bool:
    return path.suffix in _TABLES


def _from_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"domain {str(path)!r} is not UTF-8 text; convert it") from error
    return [line.strip() for line in lines if line.strip()]


def _from_table(source: str, column: str) -> list[str]:
    file = EventFile(source)
    names = file.columns()
    if column not in names and len(names) > 1:
        raise InvalidInput(
            f"domain {source!r} has no column {column!r}; name one of its columns "
            f"({', '.join(names)}) {column!r}"
        )
    name = column if column in names else names[0]
    try:
        groups = file.scan((name,)).select(pl.col(name).cast(pl.String)).collect()[name]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise file.unreadable(error) from error
    return groups.fill_null("").to_list()

"""Declared groups of a stream, read from a list, a table or a text.

Observed groups would leak: the mere presence of a rare group would reveal that its one event is in
the data, whatever the noise. So groups must come from public knowledge.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from itertools import product
from numbers import Integral
from pathlib import Path

from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInputError, is_text, param
from counton.base.exact import quote
from counton.base.wording import counted
from counton.io.files import EventFile, refuse_sqlite
from counton.io.input_paths import ending, is_file, is_table, looks_like_file
from counton.io.sources import InputPart, Source, join_columns, unreadable_errors
from counton.io.timestamps import moments
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import is_moment

#: Endings of tables that cannot be read. As text, each of their lines would become a group.
_OTHER_TABLES = (
    *(".tab", ".xlsx", ".xls", ".ods", ".json"),
    *(".feather", ".arrow", ".ipc", ".orc", ".avro"),
)


#: Largest number of bytes of one release: it is one value of a database.
_MOST_BYTES = 9 * 10**8

#: Largest number of groups: each takes at most 4 bytes in a release, unless the numbers of very
#: many groups are beyond some billions.
_MOST_GROUPS = 2 * 10**8

#: Number of characters of a text of names that are read at a time.
_CHARACTERS_PER_READ = 2**24
#: Largest size in bytes of a text that is read without polars: to import it takes longer.
_MOST_BYTES_WITHOUT_POLARS = 2**16


def read_domain(
    source: str | os.PathLike[str] | Sequence[object] | Mapping[str, Sequence[object]], column: str
) -> GroupNames:
    """Read declared groups.

    Args:
        source: ``A,B,C``; the path of a table or of a text with one name per line; or the names.
            Groups of several columns come from such a table, from tuples, or from a mapping of
            columns to lists, which declares all combinations; as text ``sex=f,m;adult=no,yes``.
        column: of the table, if it has several; or several, separated by commas.

    Raises:
        InvalidInputError: the file or column is missing, there are no groups, a group is stated
            twice, or there are more groups than a state can keep sums of.

    >>> read_domain("AA, UA,DL", "carrier")
    ('AA', 'UA', 'DL')
    >>> read_domain({"sex": ["f", "m"], "adult": [True, False]}, "sex,adult")
    ('f / true', 'f / false', 'm / true', 'm / false')
    """
    if isinstance(source, str | os.PathLike):
        source = os.fspath(source)
        if re.fullmatch(r"\s*-?[\d.]+\s*:\s*-?[\d.]+\s*", source) and not is_file(source):
            raise InvalidInputError(
                f"{param('groups', source)} would be a single group of this name; list groups, "
                "A,B,C, or give a file with one group a line (seq 0 99 > cells.txt); quantiles "
                f"need numbered cells instead: give {param('lower')}, {param('upper')} and "
                f"{param('cells')}"
            )
        path = Path(source)
        if is_file(source):
            names = _from_table(source, column) if is_table(path) else text_lines(path)
        elif looks_like_file(source):
            raise InvalidInputError(
                f"{param('groups', source)} is not a file. Check the path, or list groups: A,B,C"
            )
        elif (values := _values_in_text(source, column)) is not None:
            names = _group_names(values, column)
        else:
            names = _names([group.strip() for group in source.split(",")])
    else:
        names = _group_names(source, column)
    called = f"{param('groups')} {source!r}" if isinstance(source, str) else param("groups")
    _refuse_too_many(len(names))
    if (hidden := names.first_with(chr(0))) is not None:
        raise _no_text(hidden)
    if not names or "" in names:
        raise InvalidInputError(f"{called} has no group, or an empty name; give each group a name")
    if (twice := names.first_repeated()) is not None:
        raise InvalidInputError(f"{called} names the group {twice!r} twice; name each group once")
    return names


def refuse_groups_of_fewer_columns(names: GroupNames, column: str) -> None:
    """Refuse groups of which none has a part for each column.

    Args:
        column: several columns, separated by commas; none of the rows' columns has this name.

    Raises:
        InvalidInputError: no group has as many parts as there are columns.
    """
    columns = column.split(",")
    if not any(name.count(BETWEEN) == len(columns) - 1 for name in names):
        example = ";".join(f"{name.strip()}=A,B" for name in columns)
        raise InvalidInputError(
            f"{param('groups')} names {names[0][:80]!r} and no group of "
            f"{counted(len(columns), 'column')}, such as {BETWEEN.join(['A'] * len(columns))!r}. "
            f"List the values of each column, as in {example}, or give a file with these columns"
        )


def refuse_groups_without_header(groups: object, column: str, columns: Sequence[str]) -> None:
    """Refuse a table of one column whose first line is probably a group and no header.

    Args:
        groups: the stated groups.
        column: the column of groups.
        columns: columns of the rows.

    Raises:
        InvalidInputError: the first line of the table names no column of the rows.
    """
    if not isinstance(groups, str | os.PathLike) or not is_file(os.fspath(groups)):
        return
    header = table_columns(groups)
    if len(header) != 1 or header[0] in columns or "," in column:
        return
    raise InvalidInputError(
        f"the first line of {param('groups', os.fspath(groups))} must be {column!r}, the column of "
        f"the groups, and it is {header[0][:80]!r}, which would be no group. Add a first line, or "
        "write the groups into a .txt file, one group a line"
    )


def _values_in_text(source: str, column: str) -> dict[str, list[str]] | None:
    """Return the values of several columns that a text lists; None if it lists groups.

    >>> _values_in_text("sex=f,m;adult=no,yes", "sex,adult")
    {'sex': ['f', 'm'], 'adult': ['no', 'yes']}
    """
    parts = source.split(";")
    if "," not in column or not all("=" in part for part in parts):
        return None
    values: dict[str, list[str]] = {}
    for part in parts:
        name, _, listed = part.partition("=")
        if name.strip() in values:
            raise InvalidInputError(
                f"{param('groups')} lists the values of {name.strip()!r} twice; list them once"
            )
        values[name.strip()] = [value.strip() for value in listed.split(",")]
    return values


def _no_text(group: str) -> InvalidInputError:
    return InvalidInputError(
        f"the group {group[:80]!r} of {param('groups')} is not valid UTF-8 (a byte of another "
        f"encoding, or NUL); write it in UTF-8"
    )


def _names(groups: Sequence[str]) -> GroupNames:
    for group in groups:
        if not is_text(group):
            raise _no_text(group)
    return GroupNames(groups)


def _refuse_too_many(number: int) -> None:
    if number >= _MOST_GROUPS:
        raise InvalidInputError(
            f"{param('groups')} lists {number:,} groups, and a state keeps the sums of fewer than "
            f"{_MOST_GROUPS:,}: list fewer, such as the groups of a coarser column"
        )


def refuse_long_terms(names: GroupNames) -> None:
    """Refuse groups whose names together are longer than a database value may be."""
    # A letter takes up to 12 bytes in JSON, and a name four more.
    letters = int(names.column.str.len_chars().sum())
    most = 12 * letters + 4 * len(names)
    if most > _MOST_BYTES and len(json.dumps(list(names))) > _MOST_BYTES:
        raise InvalidInputError(
            f"the names of the {len(names):,} groups of {param('groups')} take more than "
            f"{_MOST_BYTES:,} bytes, and this statistic stores all of them with its options: list "
            "fewer groups, such as those of a coarser column, or shorten their names"
        )


def _group_names(groups: object, column: str) -> GroupNames:
    if isinstance(groups, GroupNames):
        return groups
    parts = [name.strip() for name in column.split(",")]
    if isinstance(groups, Mapping) and len(parts) > 1:
        if set(groups) != set(parts):
            raise InvalidInputError(
                f"{param('groups')} lists {', '.join(map(str, groups))}, and {param('group_by')} "
                f"names {', '.join(parts)}: list the values of each of these columns"
            )
        values = [list(groups[name]) for name in parts]
        _refuse_too_many(math.prod(map(len, values)))
        return _names([_label(group, parts) for group in product(*values)])
    if isinstance(groups, Mapping | Set) or hasattr(groups, "columns"):
        kind = type(groups).__name__
        problem = (
            "has no order" if isinstance(groups, Set) else f"is a table: give its {column!r} only"
        )
        raise InvalidInputError(
            f"{param('groups')} is of type {kind}, which {problem}; give a list of the groups in "
            "order"
        )
    if not isinstance(groups, Iterable):
        raise InvalidInputError(
            f"{param('groups')} is {quote(groups)}; give a file, a "
            f"list A,B,C, or a sequence of groups"
        )
    _refuse_too_many(len(groups) if isinstance(groups, Sized) else 0)
    return _names([_label(group, parts) for group in groups])


def _label(group: object, parts: list[str]) -> str:
    """Return the name of a group: the values of its columns, joined."""
    if isinstance(group, tuple):
        if len(group) != len(parts):
            raise InvalidInputError(
                f"{param('groups')} contains a tuple of {len(group)} values, and "
                f"{param('group_by')} "
                f"names {counted(len(parts), 'column')}: give one value for each column"
            )
        labels = [_label(part, parts[:1]) for part in group]
        for part in labels:
            if BETWEEN in part:
                raise InvalidInputError(
                    f"{param('groups')} contains {part!r}, but counton writes {BETWEEN!r} between "
                    "the values of several columns, so a value may not contain it; rename the value"
                )
        return BETWEEN.join(labels)
    if isinstance(group, bool):
        return str(group).lower()
    if isinstance(group, str):
        return group
    if isinstance(group, Integral):
        return str(group)
    raise InvalidInputError(
        f"a group of {param('groups')} is of type {type(group).__name__}; give a file, a "
        f"list A,B,C, texts, whole numbers, or True and False"
    )


def table_columns(source: str | os.PathLike[str]) -> list[str]:
    """Return the columns of a file that is a table; [] for a text."""
    return EventFile(source).columns() if is_table(Path(source)) else []


def text_lines(source: str | os.PathLike[str]) -> GroupNames:
    """Return the groups in a text, one per line; none for a table."""
    path = Path(source)
    if is_table(path):
        return GroupNames(())
    if ending(str(path)) in _OTHER_TABLES:
        raise InvalidInputError(
            f"groups {str(path)!r} is a kind of table that cannot be read; write it as .csv, "
            ".parquet or .jsonl, or as .txt with one group a line"
        )
    refuse_sqlite(str(path))
    try:
        if path.stat().st_size <= _MOST_BYTES_WITHOUT_POLARS:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
            return GroupNames([line.strip() for line in lines if line.strip()])
        return _lines_of_long_text(path)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"groups {str(path)!r} is not valid UTF-8; convert the file"
        ) from error


def _lines_of_long_text(path: Path) -> GroupNames:
    """Return the lines of a text, some at a time, so that it is never in memory as a whole."""
    space = "".join(filter(str.isspace, map(chr, range(0x3001))))  # as for ``str.strip``
    with path.open(encoding="utf-8-sig") as file:
        parts = [
            pl.Series([text]).str.split("\n").explode().str.strip_chars(space)
            for text in iter(lambda: file.read(_CHARACTERS_PER_READ) + file.readline(), "")
        ]
    names = pl.concat([pl.Series(dtype=pl.String), *parts])
    return GroupNames(names.filter(names != ""))


def _from_table(source: str, column: str) -> GroupNames:
    file = EventFile(source)
    names = file.columns()
    if column not in names and "," in column:
        return _from_table_of(join_columns(Source((file,), file.name), column).parts[0], column)
    if column not in names and len(names) > 1:
        raise InvalidInputError(
            f"groups {source!r} has no column {column!r}; name one of its columns "
            f"({', '.join(names)}) {column!r}"
        )
    return _from_table_of(file, column if column in names else names[0])


def _from_table_of(file: InputPart, name: str) -> GroupNames:
    """Return one column as texts."""
    try:
        groups = file.scan((name,), (name,)).select(pl.col(name).cast(pl.String)).collect()[name]
        if file.kind == "jsonl" and groups.str.contains(r"^[\[{]").any():
            raise file.unreadable(TypeError(f"column {name!r} holds lists or records"))
    except unreadable_errors() as error:
        raise file.unreadable(error) from error
    return GroupNames(groups.fill_null(""))


def refuse_events_as_domain(
    domain: object,
    source: Source,
    time: str | None,
    time_format: str | None,
    *,
    named: Sequence[str] = (),
    people: Sequence[str] = (),
    once: bool = False,
    same: bool = False,
) -> None:
    """Refuse groups that are read from the events, because they would reveal whose events exist.

    Args:
        domain: a plain list is accepted, because its origin cannot be checked.
        named: columns of groups and values.
        people: columns of users and ids.
        once: all rows are released once; the domain may then be a public list of cells with all
            columns that name cells, even if the events have no others.
        same: True if the domain is known to be the events.
    """
    present = columns_of(domain)
    if present is None:
        return
    path = os.fspath(domain) if isinstance(domain, str | os.PathLike) else None
    problem = None
    columns_of_people = [name for name in people if name in present and name not in named]
    if same or (path is not None and source.has_bytes_of(path)):
        problem = f"is the {'table' if path is None else 'file'} of the events"
    elif time is not None and time in present:
        problem = f"has {time!r}, the events' column of times, so it seems to hold events"
    elif columns_of_people:
        problem = (
            f"has {columns_of_people[0]!r}, a column of the events, so it seems to hold events"
        )
    elif once and {*source.columns()} <= {*named}:
        return
    elif time is None and 1 < len(source.columns()) == len({*source.columns()} & {*present}):
        problem = "has all columns of the events, so it seems to hold events"
    elif once or path is None:
        return
    elif _are_rows(text_lines(path), source, time, time_format):
        problem = "has lines that are rows of the events"
    if problem is not None:
        raise InvalidInputError(
            f"{param('groups', path)} {problem}: the groups must be public knowledge, because "
            "groups from the data reveal whose events are in it. Give a list of all possible groups"
        )


def columns_of(domain: object) -> list[str] | None:
    """Return the columns of a file, a frame or a mapping; None for a list."""
    if isinstance(domain, str | os.PathLike):
        return [*table_columns(domain)] if is_file(os.fspath(domain)) else None
    if isinstance(domain, Mapping):
        return [*map(str, domain)]
    if domain is None or isinstance(domain, list | tuple):
        return None  # without importing polars
    if isinstance(domain, pl.LazyFrame):
        return domain.collect_schema().names()
    names = getattr(domain, "columns", None)
    return None if names is None else [*map(str, names)]


def _are_rows(lines: GroupNames, source: Source, time: str | None, time_format: str | None) -> bool:
    """Return True if a text of groups seems to consist of rows of the events.

    One line is the header, or more than half of the fewer than 400 lines checked, from all parts,
    have a time in the place of the events' times.
    """
    names = source.columns()
    if len(names) < 2:
        return False
    alike = lines.column.filter(lines.column.str.contains(names[0], literal=True))
    if any(_cells(line, names) == names for line in GroupNames(alike)):
        return True
    if time is None or time not in names:
        return False
    place = names.index(time)
    times: list[str | None] = []
    for line in lines[:: max(1, len(lines) // 200)]:
        cells = _cells(line, names)
        times.append(cells[place] if cells is not None and len(cells) == len(names) else None)
    texts = pl.DataFrame({"time": pl.Series(times, dtype=pl.String)})
    try:
        read_times = texts.select(moments("time", pl.String(), "UTC", "earliest", time_format))
    except pl.exceptions.PolarsError:  # the events' own reading raises it again
        return False
    readable = is_moment(read_times.to_series())
    return 2 * int(readable.sum()) > len(times)


def _cells(line: str, names: Sequence[str]) -> list[str | None] | None:
    """Return the values of a line of CSV, or of ``names`` in a line of JSON, or None."""
    try:
        if line.startswith("{"):
            row = json.loads(line)
            return [None if row.get(name) is None else str(row[name]) for name in names]
        return [*next(csv.reader([line]))]
    except (ValueError, csv.Error, StopIteration):
        return None

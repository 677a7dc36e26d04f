"""The private file is no list of public groups: a guard of every job that takes such a list."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence

import polars as pl

from counton.base.errors import InvalidInput, field
from counton.base.groups import GroupNames
from counton.base.windows import NO_MOMENT
from counton.rows.domains import table_columns, text_lines
from counton.rows.formats import is_file
from counton.rows.sources import Source
from counton.rows.timestamps import moments


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
    """Refuse groups read from the events, which would say whose events are in them.

    Args:
        domain: file of the declared groups, or a table of them; of a list nobody knows.
        source: of the events.
        time: their column of times; None: each row is a step.
        time_format: of the times.
        named: their columns of groups and values, or of what names the cells of a table.
        people: their columns of users and of ids.
        once: all rows are released once, as a table: a public list may have all columns that name
            its cells, and events may have no others.
        same: they are the events themselves.

    Raises:
        InvalidInput: the groups are read from the events, a copy of them, or rows of them.
    """
    present = _columns_of(domain)
    if present is None:
        return
    path = os.fspath(domain) if isinstance(domain, str | os.PathLike) else None
    how = None
    of_people = [name for name in people if name in present and name not in named]
    if same or (path is not None and source.has_bytes_of(path)):
        how = f"is the {'table' if path is None else 'file'} of the events"
    elif time is not None and time in present:
        how = f"has the events' column of times, {time!r}, so it looks like events"
    elif of_people:
        how = f"has the events' column {of_people[0]!r}, so it looks like events"
    elif once and {*source.columns()} <= {*named}:
        return
    elif time is None and 1 < len(source.columns()) == len({*source.columns()} & {*present}):
        how = "has all columns of the events, so it looks like events"
    elif once or path is None:
        return
    elif _are_rows(text_lines(path), source, time, time_format):
        how = "has lines that are rows of events"
    if how is not None:
        raise InvalidInput(
            f"{field('domain', path)} {how}: the groups must be public knowledge, "
            f"chosen without looking at the data, because groups found in the data reveal whose "
            f"events are in it; give a public list of all groups there can be"
        )


def _columns_of(domain: object) -> list[str] | None:
    """Names of the columns of a file, a frame or a mapping; None of a list."""
    if isinstance(domain, str | os.PathLike):
        return [*table_columns(domain)] if is_file(os.fspath(domain)) else None
    if isinstance(domain, Mapping):
        return [*map(str, domain)]
    if isinstance(domain, pl.LazyFrame):
        return domain.collect_schema().names()
    names = getattr(domain, "columns", None)
    return None if names is None else [*map(str, names)]


def _are_rows(lines: GroupNames, source: Source, time: str | None, time_format: str | None) -> bool:
    """Whether lines are rows of events: the header, or a time where the events have theirs.

    At most 200 of the lines are looked at, from all parts of the text.
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
        found = texts.select(moments("time", pl.String(), "UTC", "earliest", time_format))
    except pl.exceptions.PolarsError:  # said of the events, which are read by the same format
        return False
    readable = found.to_series() > NO_MOMENT
    return 2 * int(readable.sum()) > len(times)


def _cells(line: str, names: Sequence[str]) -> list[str | None] | None:
    """A line's values under the columns, from CSV or JSON; None if it is neither."""
    try:
        if line.startswith("{"):
            row = json.loads(line)
            return [None if row.get(name) is None else str(row[name]) for name in names]
        return [*next(csv.reader([line]))]
    except (ValueError, csv.Error, StopIteration):
        return None

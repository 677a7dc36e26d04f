"""The private file is no list of public groups: a guard of every job that takes such a list."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence

import polars as pl

from counton.errors import InvalidInput, field
from counton.events.files import Source, is_file, table_columns, text_lines
from counton.events.windows import moments
from counton.windows import NO_MOMENT


def refuse_events_as_domain(
    domain: object,
    source: Source,
    time: str | None,
    time_format: str | None,
    *,
    named: Sequence[str] = (),
    people: Sequence[str] = (),
    once: bool = False,
) -> None:
    """Refuse groups read from the events, which would say whose events are in them.

    Args:
        domain: file of the declared groups; anything else that declares groups is let pass.
        source: of the events.
        time: their column of times; None: each row is a step.
        time_format: of the times.
        named: their columns of groups and values, or of what names the cells of a table.
        people: their columns of users and of ids.
        once: all rows are released once, as a table: a public list may have all columns that name
            its cells, and events may have no others.

    Raises:
        InvalidInput: the groups are read from the events, a copy of them, or rows of them.
    """
    if not isinstance(domain, str | os.PathLike) or not is_file(os.fspath(domain)):
        return
    how, present = None, table_columns(domain)
    of_people = [name for name in people if name in present and name not in named]
    if source.has_bytes_of(domain):
        how = "is the file of the events"
    elif time is not None and time in present:
        how = f"has the events' column of times, {time!r}, so it looks like events"
    elif of_people:
        how = f"has the events' column {of_people[0]!r}, so it looks like events"
    elif once and {*source.columns()} <= {*named}:
        return
    elif time is None and 1 < len(source.columns()) == len(_shared(source, domain)):
        how = "has all columns of the events, so it looks like events"
    elif once:
        return
    elif _are_rows(text_lines(domain), source, time, time_format):
        how = "has lines that are rows of events"
    if how is not None:
        raise InvalidInput(
            f"{field('domain', os.fspath(domain))} {how}: the groups must be public knowledge, "
            f"chosen without looking at the data, because groups found in the data reveal whose "
            f"events are in it; give a public list of all groups there can be"
        )


def _shared(source: Source, domain: str | os.PathLike[str]) -> set[str]:
    """Columns of the events which the file of groups has too."""
    return {*source.columns()} & {*table_columns(domain)}


def _are_rows(
    lines: Sequence[str], source: Source, time: str | None, time_format: str | None
) -> bool:
    """Whether lines are rows of events: the header, or a time where the events have theirs.

    At most 200 of the lines are looked at, from all parts of the text.
    """
    names = source.columns()
    if len(names) < 2:
        return False
    if any(names[0] in line and _cells(line, names) == names for line in lines):
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

"""Releases as plain rows of a database: what ``counton publish`` and every later run share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from counton.base.columns import WHEN
from counton.base.errors import InvalidInput, field
from counton.base.windows import moment
from counton.released.packed_cells import MOST_CELLS, pack
from counton.released.read_options import View
from counton.released.release_facts import AUTHOR, description_of
from counton.run.continuation import carried_by
from counton.run.definition import Definition
from counton.run.journal_values import level_of, read_cells, read_released, shown_of
from counton.state import Stream, published
from counton.state.store import JournalReader

if TYPE_CHECKING:
    from counton.released.release import Release

#: What a reading says of each of its numbers.
_NUMBERS = ("estimate", "std", "lower", "upper")
#: Values written in one transaction.
_CHUNK = 2**18


@dataclass(frozen=True)
class Publication:
    """What `publish` did.

    Attributes:
        stream: name of the stream.
        place: the database, without a password.
        before, after: steps published before and now; after is 0 if the stream was removed.

    >>> Publication("visits", "dashboards.db", 24, 48).after
    48
    """

    stream: str
    place: str
    before: int
    after: int


def publish_new(
    source: JournalReader | Stream, place: published.Place, level: float | None
) -> Publication:
    """Add what is not published yet.

    Args:
        source: the stream to read from.
        place: the database to publish in.
        level: of the intervals; None: as before, at first that of the stream's files.

    Raises:
        InvalidInput: the stream was not made from events, has no windows of time, or computes its
            cells when they are asked for.
        StateError: another stream of its name is published there, or more of this one.
    """
    if "every" not in source.details and source.design.statistic is None:
        raise InvalidInput(
            f"stream {source.design.name!r} was not made from events, so its steps have no times "
            f"to show: choose another {field('name')}"
        )
    definition = Definition.reopen(source.design, source.details)
    terms = source.design
    _refuse_unpublished(terms.name, definition)
    readings, of_cells = shown_of(definition.remembered), definition.shows_cells
    groups: Sequence[str] = definition.groups
    own: dict[str, Any] = {"shown": readings.to_dict()}
    if definition.discovery is not None:
        found = read_released(source, definition, level_of(definition))
        groups, own = found.groups, found.own_facts() or {}
        own.pop("cells", None)  # which have a table of their own
    elif of_cells:
        carried = carried_by(source, definition)
        own = {} if carried is None else carried.facts(groups, terms)
    with place.transaction(write=True) as connection:
        known = published.find_row(connection, terms.name)
        kept = level_of(definition) if known is None else float(known.level)
        shown = published.PublicFacts(
            terms.name,
            source.key_fingerprint,
            terms.contribution.describe(definition.unit),
            str(terms.guarantee),
            repr(terms.strategy),
            level or kept,
            None if readings == View() else json.dumps(readings.to_dict()),
            groups if of_cells else (),
        )
        description = description_of(terms, definition, shown.level, own)
        begun = published.begin(connection, shown, source.step, description, AUTHOR)
    if not of_cells:
        _publish_readings(source, definition, place, begun, shown.level, readings)
    elif source.step > begun[1]:
        _publish_cells(read_cells(source, definition, shown.level, readings), place, begun)
    return Publication(terms.name, place.label, begun[1], source.step)


def _refuse_unpublished(name: str, definition: Definition) -> None:
    """Refuse what plain tables cannot hold, before anything is written there."""
    why = None
    if definition.statistic.on_demand:
        why = "computes its cells when they are asked for, and publishes none by itself"
    elif definition.each_row:
        why = "has no windows of time"
    if why is not None:
        raise InvalidInput(f"stream {name!r} {why}; write its table with {field('out')} instead")


def _publish_cells(
    released: Release, place: published.Place, begun: published.PublishedReach
) -> None:
    """Add counts or sums: a row for each step and group."""
    stream_id, before, _ = begun
    size = max(1, _CHUNK // max(1, len(released.groups)))
    for first in range(before + 1, released.steps.stop, size):
        steps = range(first, min(first + size, released.steps.stop))
        with place.transaction(write=True) as connection:
            _write(connection, stream_id, released, steps)


def _publish_readings(
    source: JournalReader | Stream,
    definition: Definition,
    place: published.Place,
    begun: published.PublishedReach,
    level: float,
    readings: View,
) -> None:
    """Add the readings of a statistic: what its table says, a row a number; and its cells."""
    stream_id, before, cells_until = begun
    all_cells = source.step * math.prod(source.design.shape)
    behind = cells_until < source.step and (definition.ranks or all_cells <= MOST_CELLS)
    if before == source.step and not behind:
        return
    released, cut = read_released(source, definition, level, readings), definition.cut
    cells = released.cells()
    if before == source.step and cells is not None:  # published before there were cells
        with place.transaction(write=True) as connection:
            packs = pack(cells[cells_until:])
            published.write_cells(connection, stream_id, cells_until + 1, source.step, packs)
        return
    # Of what is read, `over` windows before its end; a table that was released once has no times.
    starts = None if cut is None else cut.starts(range(1, source.step + 1))
    size = max(1, _CHUNK // max(1, released.last_rows().height))
    for first in range(before + 1, source.step + 1, size):
        steps = range(first, min(first + size, source.step + 1))
        table = released.table(steps)
        there = set(table.columns)
        numbers: list[str | None] = [name if name in there else None for name in _NUMBERS]
        if numbers[0] is None and "value" in there:
            numbers[0] = "value"
        aside = {*WHEN, *(name for name in numbers if name)}
        aside |= {
            "over",
            "running_total",
            "running_total_std",
        }  # of a line: sums of what is published
        labels = [name for name in table.columns if name not in aside]
        rows = []
        counts: dict[int, int] = {}
        for row in table.iter_rows(named=True):
            step = row.get("step", 1)
            number = counts[step] = counts.get(step, -1) + 1
            said = definition.inner.label({name: row[name] for name in labels})
            found = [None if name is None else _finite(row[name]) for name in numbers]
            rows.append((step, number, said, *found))
        of = np.maximum(np.asarray(steps) - (readings.over or 1), 0)
        with place.transaction(write=True) as connection:
            nothing: Sequence[Any] = [None] * len(steps)
            begins = ends = local = nothing
            if cut is not None and starts is not None:
                begins, ends, local = _times(connection, cut, starts[of], cut.ends(steps))
            windows = zip(
                *(steps, begins, ends, nothing, nothing, nothing, nothing, local), strict=True
            )
            published.write(connection, stream_id, steps[0], steps[-1], windows, (), rows)
            if cells is None:
                published.remove_cells(connection, stream_id)
            else:
                packs = pack(cells[cells_until : steps[-1]])
                published.write_cells(connection, stream_id, cells_until + 1, steps[-1], packs)
                cells_until = steps[-1]


def _finite(value: Any) -> Any:
    """A number as databases keep it: NaN and infinity are none."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _times(connection: Any, windows: Any, starts: Any, ends: Any) -> list[Sequence[Any]]:
    """Starts and ends as the database keeps them, and local starts."""
    begins, ends = ([moment(int(us)) for us in times] for times in (starts, ends))
    local = published.local_moments(connection, begins, windows.timezone)
    return [*(published.moments(connection, times) for times in (begins, ends)), local]


def _write(connection: Any, stream_id: int, released: Release, steps: range) -> None:
    part, windows = slice(steps.start - 1, steps.stop - 1), released.definition.windows
    begins, ends, local = _times(connection, windows, windows.starts(steps), windows.ends(steps))
    nothing = [None] * len(steps)
    columns: list[list[Any]] = []
    numbers: list[Iterator[Any]] = []
    cells = len(released.groups)
    for series in (released.totals, released.windows):
        if series is None:
            columns += [nothing, nothing]
            numbers.append(iter([None] * (len(steps) * cells)))
        else:
            columns += [series.std[part].tolist(), series.half[part].tolist()]
            numbers.append(iter(series.estimates[part].ravel().tolist()))
    step_of = np.repeat(np.asarray(steps), cells)
    cell_of = np.tile(np.arange(cells), len(steps))
    rows: Iterator[Any] = zip(step_of.tolist(), cell_of.tolist(), *numbers, strict=True)
    if released.since is not None:  # nothing of a group before it is shown
        first = np.array([released.since[group] for group in released.groups], np.int64)
        rows = compress(rows, (step_of >= first[cell_of]).tolist())
    published.write(
        connection,
        stream_id,
        steps[0],
        steps[-1],
        zip(steps, begins, ends, *columns, local, strict=True),
        rows,
    )

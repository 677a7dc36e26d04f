"""Exports of releases: ``counton export`` and ``publish`` for Python.

An export needs no key, no events and no permission to write to the state. A run may write the
stream meanwhile. All sources of `counton.read`, such as released tables, can be exported too.
Published rows are plain rows of a database, to which every later run adds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counton.base.columns import ADDED, REVISED, WHEN
from counton.base.errors import InvalidInput, OldCopy, RequestMismatch, field
from counton.frame.options import check_text
from counton.frame.windows import load_zone, moment
from counton.numbers.intervals import check_level
from counton.released.description import Description
from counton.released.periods import groups_named
from counton.released.read_options import View
from counton.released.release import Release
from counton.released.release_facts import TABLES, promise_of
from counton.released.release_files import is_table, read_public
from counton.released.released_numbers import ReleasedNumbers
from counton.released.series import finite
from counton.run.definition import KIND, Definition
from counton.run.journal_values import (
    level_of,
    read_released,
    shown_of,
)
from counton.run.written_files import (
    PAGES,
    PICTURES,
    beside,
    check_output,
    refuse_another_streams,
    write_release,
)
from counton.state import Store, Stream, published
from counton.state.keys import state_files
from counton.state.ledger_rows import record_in
from counton.state.reader import JournalReader

if TYPE_CHECKING:
    import polars as pl

    from counton.state.keys import Kept

#: Largest number of rows that are made at once.
_MOST_ROWS = 2**18


@dataclass(frozen=True)
class Publication:
    """The result of `publish`.

    Attributes:
        stream: name of the stream.
        place: address of the database, without a password.
        before, after: number of steps published before and now; after is 0 if the stream was
            removed.

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
    """Publish all steps that are not published yet; ``level`` None keeps the level used before."""
    if "every" not in record_in(source.details) and source.design.statistic is None:
        raise InvalidInput(
            f"stream {source.design.name!r} was not made from events, so its steps have no times, "
            f"and it cannot be published: choose another {field('name')}"
        )
    definition = Definition.reopen(source.design, source.details)
    name, readings = source.design.name, shown_of(definition.record.get)
    with place.transaction(write=True) as connection:
        known = published.find_row(connection, name)
        level = level or (level_of(definition) if known is None else float(known.level))
        released = read_released(source, definition, level, readings)
        row = {
            "stream": name,
            "key_fingerprint": source.key_fingerprint,
            "protected": source.design.contribution.describe(definition.unit),
            "guarantee": str(source.design.guarantee),
            "strategy": repr(source.design.strategy),
            "level": level,
            "step": source.step,
            "shown": json.dumps([_shown_facts(released, readings), *definition.marks]),
            "description": json.dumps(promise_of(released)),
        }
        steps = published.begin(connection, row, definition.cut.lags)
        at_once = max(1, _MOST_ROWS // max(1, released.last_rows().height)) if steps else 1
        for first in range(0, len(steps), at_once):
            some = steps[first : first + at_once]
            rows = _rows_of(released, some, is_sqlite=connection.is_sqlite)
            published.write(connection, name, rows)
    return Publication(name, place.label, 0 if known is None else known.step, source.step)


def _rows_of(
    released: ReleasedNumbers, steps: range, *, is_sqlite: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield the published rows of some steps.

    A number of one window alone is in the columns ``window_...``, whatever the statistic is. All
    other numbers, such as totals so far, are in the columns without this prefix.
    """
    definition = released.definition
    table = finite(released.table(steps))
    numbers = _number_columns(released, table)
    # A line has running totals, which are sums of its published cells.
    aside = {*WHEN, *ADDED, *numbers, "over", "running_total", "running_total_std", "note"}
    aside.update(f"window_{number}" for number in ADDED)
    aside.update(REVISED if definition.cut.lags else ())
    aside -= {part.name for part in definition.inner.parts if part.kind == "label"}
    note = table.columns[-1] if definition.marks else ""
    labels = [column for column in table.columns if column not in {*aside, note}]
    times = _times_of(definition, steps, released.shown.over or 1, is_sqlite=is_sqlite)
    before, number = 0, 0
    for row in table.iter_rows(named=True):
        step = row.get("step", 1)
        before, number = step, number + 1 if step == before else 0
        if definition.shows_cells:
            label = row.get("group", "all")
        else:
            label = definition.inner.label({column: row.pop(column) for column in labels})
        yield (step, number, *times[step], label, *map(row.get, (*numbers, note)))


def _number_columns(released: ReleasedNumbers, table: pl.DataFrame) -> list[str]:
    """Return the columns of a table whose numbers are published as `ADDED`, and then as those of
    the window alone; "" where there is none.
    """
    definition = released.definition
    windows = [f"window_{number}" for number in ADDED]
    if definition.shows_cells and not definition.of_windows:
        return ["", "", "", "", *ADDED]
    if definition.shows_cells:
        return [*ADDED, *windows]
    first = "estimate" if "estimate" in table.columns else "value"
    numbers = [first, *ADDED[1:]]
    if _shows_own_windows(released):
        return ["", "", "", "", *numbers]
    return [*numbers, "", "", "", ""]


def _shows_own_windows(released: ReleasedNumbers) -> bool:
    """Return whether each number of a statistic is that of one window alone."""
    definition = released.definition
    if not definition.cut.goes_on or definition.shows_cells:
        return False
    if isinstance(released.over, str):  # a period, which may be a window
        return definition.anew_every() == definition.cut.every
    return released.over == 1


def _shown_facts(released: ReleasedNumbers, selection: View) -> dict[str, Any]:
    """Return what decides the published rows, besides the level, as JSON values.

    Rows that were published with other facts are written again.
    """
    facts = selection.to_dict()
    if _shows_own_windows(released):
        facts["own_windows"] = True
    return facts


def _times_of(
    definition: Description, steps: range, over: int, *, is_sqlite: bool
) -> dict[int, tuple[Any, ...]]:
    """Return the times of some steps' windows as texts in UTC: SQLite has no times."""
    cut = definition.cut
    if not cut.goes_on:  # a table that was released once has no times
        return dict.fromkeys(steps, (None, None, None))
    edges, zone = cut.ends(range(steps.stop)), load_zone(cut.timezone)
    found: dict[int, tuple[Any, ...]] = {}
    for step in steps:
        start, end = (moment(int(edges[at])) for at in (max(step - over, 0), step))
        local = start.astimezone(zone).replace(tzinfo=None)
        found[step] = start, end, local
        if is_sqlite:
            texts = (time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in (start, end))
            found[step] = (*texts, local.isoformat())
    return found


def _choose(
    found: ReleasedNumbers, steps: str | range | None, groups: str | Sequence[str] | None
) -> ReleasedNumbers:
    """Return a release that has only some steps and groups; None: all."""
    if steps is not None:
        found = found.only(found.steps_named(steps))
    if groups is None:
        return found
    return found.only(groups=groups_named(groups, found.groups or found.definition.groups))


def export(
    state: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    steps: str | range | None = None,
    groups: str | Sequence[str] | None = None,
    level: float | None = None,
    title: str | None = None,
    axis: str | None = None,
    source: str | None = None,
    width: float | None = None,
) -> Release:
    """Read a stream's released numbers from its state, and write them to a file if ``out`` names
    one.

    Args:
        state: path of a SQLite file, or a database URL; or a source of `counton.read`: a released
            table.
        out: a table (.parquet, .csv, .json), a chart (.png, .svg, .pdf), or a web page (.html). A
            table carries its guarantee: Parquet in its metadata, others in ``OUT.json`` beside it.
            A page has charts, the newest numbers, and the text on methods.
        name: name of the stream; needed if the state has several.
        steps: ``"25:48"`` for the steps 25 to 48, both included, days or times as in
            ``"2024-03-18:2024-03-24"``, or a ``range``; None: all.
        groups: only these groups, in this order; None: all.
        level: probability with which each interval holds; None: the level of the stream's last job,
            initially 0.95. The numbers that a statistic shows follow the options ``over`` and
            ``shares`` of that job.
        title, axis, source, width: for a chart or a page: see `Release.figures`.

    Raises:
        StateError: the state cannot be read, lacks the release, or has several and no name is
            given.
        InvalidInput: steps or groups are not among the released ones, or the file cannot be
            written, or another stream released the table there.
        OSError: the file could not be written; an old file is unchanged.

    >>> from counton.run import Job, run
    >>> events, state = Path("visits.csv"), Path("visits.db")
    >>> _ = events.write_text("time,page\\n2024-03-01T09:00,home\\n2024-03-04T10:15,shop\\n")
    >>> run(Job(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest",
    ...     by="page", domain="home,shop", epsilon=1,
    ... )).close()
    >>> found = export(state, steps="2:3", groups="shop", level=0.9)
    >>> found.table().select("step", "group").rows(), found.numbers.level
    ([(2, 'shop'), (3, 'shop')], 0.9)
    """
    level = None if level is None else check_level(level)
    path = None if out is None else checked_file(out, state)
    if (public := read_public(state, name=name, level=level)) is not None:
        found = _choose(public.numbers, steps, groups)
    else:
        with Store(state) as store:
            reader = store.reader(only_name(store.streams) if name is None else name)
            found, doubt = _of_stream(reader, level, steps, groups), reader.doubt()
            if doubt is not None:  # the state may be an old copy that was restored
                found = found.with_note(doubt)
    if path is not None:
        refuse_another_streams(path, found.design.noise_id)
        write_release(found, path, title=title, axis=axis, source=source, width=width)
    return Release(found)


def methods(
    state: str | os.PathLike[str] | Store,
    name: str | None = None,
    *,
    level: float | None = None,
    full: bool = False,
) -> dict[str, str]:
    """Return, for each release of a state, a paragraph to print in a publication, which explains
    how its numbers are protected and how exact they are.

    See `Release.methods`.

    Args:
        state: path of a SQLite file, or a database URL, or an open state.
        name: name of one stream; None: all that have released something.
        level: probability with which the intervals in the text hold; None: the level of the
            stream's last job.
        full: return the whole account, for specialists.

    Returns:
        Texts by the names of releases.

    Raises:
        StateError: the state cannot be read, or has released nothing.
        InvalidInput: the level is outside (0, 1 - 1e-9], or the stream has no step.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> with Stream.create("s.db", "visits", Binary(9), PureDP(1)) as stream:
    ...     _ = stream.release_many([3, 0, 5])
    >>> print(methods("s.db")["visits"].partition(". ")[0])
    The total 'visits' so far was published 3 times
    """
    level = None if level is None else check_level(level)
    if not isinstance(state, Store):
        with Store(state) as store:
            return methods(store, name, level=level, full=full)
    return {
        one: Release(_of_stream(state.reader(one), level)).methods(full=full)
        for one in _released_names(state, name)
    }


def _released_names(store: Store, name: str | None) -> list[str]:
    names = [one for one in store.streams if store.reader(one).step] if name is None else [name]
    if not names:
        raise RequestMismatch(
            f"state {store.database.label} has released nothing yet, so there is nothing to "
            "record: run a release first"
        )
    return names


def checked_file(out: str | os.PathLike[str], state: str | os.PathLike[str]) -> Path:
    """Return the path of an output file; refuse a file of the state."""
    path = Path(out)
    check_text("out", str(path))
    ending = path.suffix.lower()
    known = next((kind for kind in (PICTURES, PAGES) if ending in kind), None)
    inputs = [Path(state)] if is_table(state) else state_files(state, None)
    if known is None and ending not in (*TABLES, ".gz", ".zst"):
        raise InvalidInput(
            f"{field('out', path)} has an ending that is not known. Give {', '.join(TABLES)} for a "
            f"table, {', '.join(PICTURES)} for a chart, or {', '.join(PAGES)} for a web page"
        )
    check_output(path, known, inputs=[*inputs, *map(beside, inputs)])
    return path


def only_name(names: Sequence[str]) -> str:
    """Return the only name of a list; refuse an empty list, or a list of several names."""
    if len(names) != 1:
        if not names:
            raise RequestMismatch("the state has released nothing yet: run a release first")
        listed = ", ".join(map(repr, sorted(names)))
        raise RequestMismatch(f"the state has {listed}: choose with {field('name')}")
    return names[0]


def _of_stream(
    reader: JournalReader,
    level: float | None,
    steps: str | range | None = None,
    groups: str | Sequence[str] | None = None,
) -> ReleasedNumbers:
    name = reader.design.name
    if not reader.step:
        try:
            reader.design.strategy._check_law(reader.design.law)
        except InvalidInput as error:
            raise InvalidInput(
                f"stream {name!r} has released no step, and cannot release any ({error}), so there "
                "is nothing to export; end it, and begin another stream"
            ) from error
        raise InvalidInput(
            f"stream {name!r} has released no step yet; it can be exported after the end of its "
            "first window"
        )
    if "every" not in record_in(reader.details):
        once = bool(reader.details.get("once"))
        for word, given in (("steps", steps), ("groups", groups)):
            if given is not None and (once or word != "steps"):
                why = "was released once" if once else "was not made from events"
                raise InvalidInput(
                    f"{field(word, given)} does not apply to stream {name!r}, which {why}: leave "
                    "it out"
                )
        if reader.details.get("kind") != KIND:
            about, releases = Description.of_stream(reader.design), reader.releases()
            found = ReleasedNumbers(about, reader.design, releases.steps, releases, level or 0.95)
            return _choose(found, steps, groups)
    definition = Definition.reopen(reader.design, reader.details)
    return _choose(read_released(reader, definition, level), steps, groups)


def publish(
    state: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    level: float | None = None,
    remove: bool = False,
    key: Kept = None,
) -> Publication:
    """Write a stream's releases into plain tables, and a view over them for SQL.

    Existing rows stay and new ones are added, so publish after each release. If the tables are in
    the state's own database, later runs of the stream publish by themselves. If windows are revised
    (released again when late rows come), rows of windows that were not final are replaced by their
    newest versions.

    Args:
        state: path of a SQLite file, or a database URL.
        to: another database: a SQLite file, made if missing, or a URL; None: the state's own. Every
            reader of a SQLite state can read exact sums in it: publish to a file of its own.
        name: name of the stream; needed if the state has several.
        level: probability with which each interval holds; None: unchanged, initially the level of
            the stream's last job.
        remove: remove the stream's rows instead.
        key: where the key is kept, if not beside the state.

    Raises:
        StateError: the stream is missing, the state was restored from an old copy, the tables hold
            another stream of this name, or a database cannot be used.
        InvalidInput: the stream was not made from events, or an argument is out of range.

    >>> from counton.run import Job, run
    >>> events, state = Path("visits.csv"), Path("visits.db")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-04T10:15\\n")
    >>> run(Job(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest",
    ...     epsilon=1,
    ... )).close()
    >>> publish(state, Path("dashboards.db")).after
    3
    """
    if level is not None:
        level = check_level(level)
        if remove:
            raise InvalidInput(
                f"{field('level', level)} is for published numbers, and {field('remove', True)} "
                "only removes them: leave one of the two out"
            )
    with Store(state) as store:
        chosen = only_name(store.streams) if name is None else name
        reader = store.reader(chosen, key)
        place = published.Place(store.database, to)
        try:
            if remove:
                with place.transaction(write=True) as connection:
                    known = published.remove(connection, chosen)
                if known is None:
                    raise RequestMismatch(
                        f"stream {chosen!r} is not published in {place.label}, and nothing was "
                        f"removed: correct {field('name')} or {field('to')}"
                    )
                return Publication(chosen, place.label, known.step, 0)
            if (doubt := reader.doubt()) is not None:
                raise OldCopy(f"nothing was published: {doubt}")
            return publish_new(reader, place, level)
        finally:
            place.close()

"""Exports of releases: ``counton export``, ``methods`` and ``publish`` for Python.

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
from typing import TYPE_CHECKING

from counton.base.arguments import check_text
from counton.base.errors import InvalidInputError, StateRolledBackError, StreamMismatchError, param
from counton.base.table_schema import RESERVED
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.job.incompatible import EXCLUSIONS_OF_PUBLISHING, refuse_of_command
from counton.results.metadata import ReleaseMetadata
from counton.results.metadata_codec import TABLES, guarantee_of_stream
from counton.results.release import Release
from counton.results.release_data import ReleaseData
from counton.results.release_files import is_table, read_public
from counton.results.released_table import last_rows, table_of
from counton.results.table_rows import finite
from counton.run.outputs.output_files import (
    PAGES,
    PICTURES,
    check_output,
    description_path,
    refuse_another_streams,
    write_release,
)
from counton.run.outputs.read_journal import read_release
from counton.run.spec.stream_spec import StreamSpec, is_made_by_job
from counton.run.spec.terms import SingleTable
from counton.state import Store, Stream, sql_view
from counton.state.keys import state_files
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.window_selection import groups_named, steps_between

if TYPE_CHECKING:
    from counton.state.keys import KeySource

#: Largest number of rows that are made at once.
_ROWS_AT_A_TIME = 2**18
#: Form of times in UTC as texts.
_UTC_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


# ----------------------------------------------------------------------------------------- export
def export(
    state: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    stream: str | None = None,
    windows: str | range | None = None,
    groups: str | Sequence[str] | None = None,
    confidence_level: float | None = None,
    title: str | None = None,
    axis: str | None = None,
    source: str | None = None,
    width: float | None = None,
) -> Release:
    """Read a stream's released numbers from its state, and write them to a file if ``output`` names
    one.

    Args:
        state: path of a SQLite file, or a database URL; or a source of `counton.read`: a released
            table.
        output: a table (.parquet, .csv, .json), a chart (.png, .svg, .pdf), or a web page (.html).
            A table carries its guarantee: Parquet in its metadata, others in ``OUT.json`` beside
            it. A page has charts, the newest numbers, and the text on methods.
        stream: name of the stream; needed if the state has several.
        windows: ``"25:48"`` for the steps 25 to 48, both included, days or times as in
            ``"2024-03-18:2024-03-24"``, or a ``range``; None: all.
        groups: only these groups, in this order; None: all.
        confidence_level: confidence level of the intervals; None: that of the stream's last job,
            initially 0.95. The numbers that a statistic shows follow the options ``over`` and
            ``shares`` of that job.
        title, axis, source, width: for a chart or a page: see `Release.figures`.

    Raises:
        StateError: the state cannot be read, lacks the release, or has several and no name is
            given.
        InvalidInputError: steps or groups are not among the released ones, or the file cannot be
            written, or another stream released the table there.
        OSError: the file could not be written; an old file is unchanged.

    >>> import polars as pl
    >>> from counton.job.statistics.count import CountJob
    >>> from counton.run.run_job import run
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-04T10:15"], "page": ["a", "b"]})
    >>> job = CountJob(
    ...     state="visits.db", time="at", every="1d", start="2024-03-01", windows=365,
    ...     until="latest-event", group_by="page", groups="a,b", epsilon=1,
    ... )
    >>> result = run(job, rows=visits)
    >>> chosen = export("visits.db", windows="2:3", groups="b", confidence_level=0.9)
    >>> chosen.table().select("window_index", "group").rows(), chosen.numbers.level
    ([(2, 'b'), (3, 'b')], 0.9)
    """
    confidence_level = (
        None if confidence_level is None else check_confidence_level(confidence_level)
    )
    path = None if output is None else check_export_path(output, state)
    public = read_public(state, stream=stream, confidence_level=confidence_level)
    if public is not None:
        numbers = _choose(public.numbers, windows, groups)
    else:
        numbers = _read_from_state(state, stream, confidence_level, windows, groups)
    if path is not None:
        refuse_another_streams(path, numbers.design.noise_id)
        write_release(numbers, path, title=title, axis=axis, source=source, width=width)
    return Release(numbers)


def check_export_path(out: str | os.PathLike[str], state: str | os.PathLike[str]) -> Path:
    """Return the path of an exported file; refuse a file that is read.

    Args:
        out: the path.
        state: the state, or the released table, that is exported.

    Raises:
        InvalidInputError: the file cannot be written, or would replace one of the state.
    """
    path = Path(out)
    check_text("output", str(path))
    ending = path.suffix.lower()
    formats = next((endings for endings in (PICTURES, PAGES) if ending in endings), None)
    if formats is None and ending not in (*TABLES, ".gz", ".zst"):
        raise InvalidInputError(
            f"{param('output', path)} has an ending that is not known. Give "
            f"{', '.join(TABLES)} for a table, {', '.join(PICTURES)} for a chart, or "
            f"{', '.join(PAGES)} for a web page"
        )
    inputs = [Path(state)] if is_table(state) else state_files(state, None)
    check_output(path, formats, inputs=[*inputs, *map(description_path, inputs)])
    return path


def only_name(names: Sequence[str]) -> str:
    """Return the only name of a list.

    Raises:
        StreamMismatchError: the list is empty, or has several names.
    """
    if not names:
        raise StreamMismatchError("the state has released nothing yet: run a release first")
    if len(names) > 1:
        listed = ", ".join(map(repr, sorted(names)))
        raise StreamMismatchError(f"the state has {listed}: choose with {param('stream')}")
    return names[0]


def _read_from_state(
    state: str | os.PathLike[str],
    name: str | None,
    level: float | None,
    steps: str | range | None,
    groups: str | Sequence[str] | None,
) -> ReleaseData:
    with Store(state) as store:
        reader = store.reader(only_name(store.streams) if name is None else name)
        numbers = _numbers_of(reader, level, steps, groups)
        suspicion = reader.rollback_suspicion()
    return numbers if suspicion is None else numbers.with_note(suspicion)  # an old copy, perhaps


def _numbers_of(
    reader: JournalReader,
    level: float | None,
    steps: str | range | None = None,
    groups: str | Sequence[str] | None = None,
) -> ReleaseData:
    """Return what a stream has released, of some steps and groups; None: all.

    Raises:
        InvalidInputError: it has released nothing, or has no such steps or groups.
    """
    _refuse_without_release(reader)
    if not is_made_by_job(reader.public_facts):
        _refuse_choice(reader, "was not made from events", {"groups": groups})
        metadata = ReleaseMetadata.of_stream(reader.design)
        releases = reader.releases()
        numbers = ReleaseData(
            metadata, reader.design, releases.steps, releases, level or DEFAULT_CONFIDENCE_LEVEL
        )
        return _choose(numbers, steps, groups)
    spec = StreamSpec.of_stream(reader)
    if isinstance(spec.terms.windowing, SingleTable):
        _refuse_choice(reader, "was released once", {"windows": steps, "groups": groups})
    return _choose(read_release(reader, spec, level=level).numbers, steps, groups)


def _refuse_without_release(reader: JournalReader) -> None:
    """Refuse a stream that has released no step, and say whether it will ever do so."""
    if reader.step:
        return
    name = reader.design.name
    try:
        reader.design.strategy._check_distribution(reader.design.distribution)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"stream {name!r} has released no step, and cannot release any ({error}), so there is "
            "nothing to export; end it, and begin another stream"
        ) from error
    raise InvalidInputError(
        f"stream {name!r} has released no step yet; it can be exported after the end of its first "
        "window"
    )


def _refuse_choice(
    reader: JournalReader, reason: str, choice: dict[str, str | range | Sequence[str] | None]
) -> None:
    for name, value in choice.items():
        if value is not None:
            raise InvalidInputError(
                f"{param(name, value)} does not apply to stream {reader.design.name!r}, "
                f"which {reason}: leave it out"
            )


def _choose(
    numbers: ReleaseData, steps: str | range | None, groups: str | Sequence[str] | None
) -> ReleaseData:
    """Return a release that has only some steps and groups; None: all."""
    if steps is not None:
        numbers = numbers.only(
            steps_between(steps, numbers.steps.stop - 1, numbers.metadata.windows)
        )
    if groups is None:
        return numbers
    return numbers.only(groups=groups_named(groups, numbers.groups or numbers.metadata.groups))


# ---------------------------------------------------------------------------------------- methods
def methods(
    state: str | os.PathLike[str] | Store,
    stream: str | None = None,
    *,
    confidence_level: float | None = None,
    full: bool = False,
) -> dict[str, str]:
    """Return, for each release of a state, a paragraph to print in a publication, which explains
    how its numbers are protected and how exact they are.

    See `Release.methods`.

    Args:
        state: path of a SQLite file, or a database URL, or an open state.
        stream: name of one stream; None: all that have released something.
        confidence_level: confidence level of the intervals in the text; None: that of the stream's
            last job.
        full: return the whole account, for specialists.

    Returns:
        Texts by the names of releases.

    Raises:
        StateError: the state cannot be read, or has released nothing.
        InvalidInputError: the level is outside (0, 1 - 1e-9], or the stream has no step.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> with Stream.create("s.db", "visits", Binary(9), PureDP(1)) as stream:
    ...     _ = stream.release_many([3, 0, 5])
    >>> print(methods("s.db")["visits"].partition(". ")[0])
    The cumulative total 'visits' was published 3 times
    """
    confidence_level = (
        None if confidence_level is None else check_confidence_level(confidence_level)
    )
    if not isinstance(state, Store):
        with Store(state) as store:
            return methods(store, stream, confidence_level=confidence_level, full=full)
    names = _released_names(state) if stream is None else [stream]
    return {
        name: Release(_numbers_of(state.reader(name), confidence_level)).methods(full=full)
        for name in names
    }


def _released_names(store: Store) -> list[str]:
    names = [name for name in store.streams if store.reader(name).step]
    if not names:
        raise StreamMismatchError(
            f"state {store.database.label} has released nothing yet, so there is nothing to "
            "record: run a release first"
        )
    return names


# ---------------------------------------------------------------------------------------- publish
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


def publish(
    state: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    stream: str | None = None,
    confidence_level: float | None = None,
    remove: bool = False,
    key: KeySource = None,
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
        stream: name of the stream; needed if the state has several.
        confidence_level: confidence level of the intervals; None: unchanged, initially that of the
            stream's last job.
        remove: remove the stream's rows instead.
        key: where the key is kept, if not beside the state.

    Raises:
        StateError: the stream is missing, the state was restored from an old copy, the tables hold
            another stream of this name, or a database cannot be used.
        InvalidInputError: the stream was not made from events, or an argument is out of range.

    >>> import polars as pl
    >>> from counton.job.statistics.count import CountJob
    >>> from counton.run.run_job import run
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-04T10:15"]})
    >>> job = CountJob(
    ...     state="visits.db", time="at", every="1d", start="2024-03-01", windows=365,
    ...     until="latest-event", epsilon=1,
    ... )
    >>> result = run(job, rows=visits)
    >>> publish("visits.db", "dashboards.db").after
    3
    """
    if confidence_level is not None:
        confidence_level = check_confidence_level(confidence_level)
    refuse_of_command(
        {"confidence_level": confidence_level, "remove": remove},
        exclusions=EXCLUSIONS_OF_PUBLISHING,
    )
    with Store(state) as store:
        chosen = only_name(store.streams) if stream is None else stream
        reader = store.reader(chosen, key)
        target = sql_view.PublishTarget(store.database, to)
        try:
            if remove:
                return _remove_published(chosen, target)
            suspicion = reader.rollback_suspicion()
            if suspicion is not None:
                raise StateRolledBackError(f"nothing was published: {suspicion}")
            return publish_new(reader, target, confidence_level)
        finally:
            target.close()


def _remove_published(name: str, target: sql_view.PublishTarget) -> Publication:
    with target.transaction(write=True) as connection:
        removed = sql_view.remove(connection, name)
    if removed is None:
        raise StreamMismatchError(
            f"stream {name!r} is not published in {target.label}, and nothing was removed: correct "
            f"{param('stream')} or {param('to')}"
        )
    return Publication(name, target.label, removed.last_window, 0)


def publish_new(
    source: JournalReader | Stream, target: sql_view.PublishTarget, level: float | None
) -> Publication:
    """Publish all steps of a stream that are not published yet.

    Args:
        source: the stream.
        target: the database in which its rows are written.
        level: confidence level of the intervals; None: the level used before.

    Raises:
        InvalidInputError: no job made the stream.
    """
    name = source.design.name
    if not is_made_by_job(source.public_facts):
        raise InvalidInputError(
            f"stream {name!r} was not made from events, so its steps have no times, and it cannot "
            f"be published: choose another {param('stream')}"
        )
    spec = StreamSpec.of_stream(source)
    with target.transaction(write=True) as connection:
        before = sql_view.find_row(connection, name)
        if level is None and before is not None:
            level = float(before.confidence_level)
        numbers = read_release(source, spec, level=level).numbers
        row = {
            "stream": name,
            "key_fingerprint": source.key_fingerprint,
            "protected": source.design.contribution.describe(spec.metadata().privacy_unit),
            "guarantee": str(source.design.guarantee),
            "strategy": repr(source.design.strategy),
            "confidence_level": numbers.level,
            "last_window": source.step,
            "shown": json.dumps([spec.remembered_display.to_dict(), *spec.notes]),
            "description": json.dumps(guarantee_of_stream(numbers)),
        }
        steps = sql_view.begin(connection, row, spec.terms.windowing.windows.n_revisions)
        size = max(1, _ROWS_AT_A_TIME // max(1, last_rows(numbers).height)) if steps else 1
        for first in range(0, len(steps), size):
            chunk = steps[first : first + size]
            rows = _published_rows(numbers, chunk, is_sqlite=connection.is_sqlite)
            sql_view.write(connection, name, rows)
    return Publication(name, target.label, 0 if before is None else before.last_window, source.step)


def _published_rows(
    numbers: ReleaseData, steps: range, *, is_sqlite: bool
) -> Iterator[tuple[object, ...]]:
    """Yield the published rows of some steps, with the columns of the published tables.

    Args:
        numbers: the released numbers.
        steps: the steps.
        is_sqlite: whether the database is a SQLite file, which takes times as texts.
    """
    table = finite(table_of(numbers, steps))
    if not numbers.metadata.shows_cells:
        label = numbers.metadata.inner.label
        columns = _group_columns(table.columns)
        groups = [
            label(dict(zip(columns, row, strict=True))) for row in table.select(columns).rows()
        ]
        if not columns:
            groups = ["all"] * table.height
        table = table.with_columns(group=pl.Series(groups, dtype=pl.String))
    missing = [name for name in sql_view.ROW_COLUMNS if name not in table.columns]
    table = table.with_columns(pl.lit(None).alias(name) for name in missing)
    table = table.with_columns(
        pl.col("window_index").fill_null(1),  # a table that was released once
        pl.col("is_complete", "is_final").fill_null(value=True),
    )
    table = table.with_columns(row=pl.int_range(pl.len()).over("window_index"))
    times = pl.selectors.datetime()
    if "window_start" not in missing:
        table = table.with_columns(local_start=pl.col("window_start").dt.replace_time_zone(None))
        zoned = times - pl.selectors.by_name("local_start")
        table = table.with_columns(zoned.dt.convert_time_zone("UTC"))
        if is_sqlite:
            table = table.with_columns(
                zoned.dt.strftime(_UTC_FORMAT),
                pl.col("local_start").dt.strftime("%Y-%m-%dT%H:%M:%S"),
            )
    yield from table.select(sql_view.ROW_COLUMNS).iter_rows()


def _group_columns(present: Sequence[str]) -> list[str]:
    """Return the columns of a table that name the group or the node of a row.

    Args:
        present: all columns of the table.
    """
    others = {"statistic", "rank", "measure", "quantile", "tree_level", *RESERVED}
    return [column for column in present if column not in others]

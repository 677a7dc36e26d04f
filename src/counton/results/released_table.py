"""Tables of released numbers: a row for each step and each group or number, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInputError, param
from counton.base.table_schema import CUMULATIVE, PER_WINDOW, TRAILING, WINDOW
from counton.continual import Releases
from counton.continual.formulas import TableNumbers
from counton.continual.table_request import TableRequest
from counton.results.metadata import PublishedSeries, ReleaseMetadata
from counton.results.series_numbers import SeriesNumbers
from counton.results.table_rows import arranged, columns_below, finite, rows_among, when_columns
from counton.results.window_notes import (
    note_of_number,
    with_notes,
    with_notes_of_sums,
    withdrawn_cells,
)
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData

#: Largest number of table rows that are made at a time.
_ROWS_AT_A_TIME = 2**16


def table_of(numbers: ReleaseData, steps: range | None = None) -> pl.DataFrame:
    """Return a row for each step and each group or number; see `Release.table`.

    Args:
        numbers: the released numbers.
        steps: consecutive steps; None: all shown steps.
    """
    if steps is None:
        steps = numbers.shown_steps
    tables = [_rows(numbers, chunk) for chunk in _chunks(numbers, steps)]
    return tables[0] if len(tables) == 1 else pl.concat(tables)


def lazy_table(numbers: ReleaseData) -> pl.LazyFrame:
    """Return `table_of` as a lazy frame, which computes some rows at a time."""
    if not numbers.is_by_group:
        return table_of(numbers).lazy()
    from polars.io.plugins import register_io_source

    def rows(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        most: int | None,
        _batch: int | None,
    ) -> Iterator[pl.DataFrame]:
        for steps in _chunks(numbers, numbers.shown_steps):
            table = _rows(numbers, steps)
            if predicate is not None:
                table = table.filter(predicate)
            table = table if columns is None else table.select(columns)
            if most is not None:
                table = table.head(most)
                most -= table.height
            yield table

    schema = _rows(numbers, numbers.shown_steps[:1]).schema
    return register_io_source(rows, schema=schema, is_pure=True)


def _chunks(numbers: ReleaseData, steps: range) -> Iterator[range]:
    """Yield consecutive ranges whose rows fit into memory; a single one for results."""
    size = max(
        1, _ROWS_AT_A_TIME // max(1, len(numbers.groups)) if numbers.is_by_group else len(steps)
    )
    for start in range(0, max(len(steps), 1), size):
        yield steps[start : start + size]


def _rows(numbers: ReleaseData, steps: range) -> pl.DataFrame:
    published = numbers.published
    if numbers.is_by_group:
        return _rows_of_cells(numbers, steps)
    if isinstance(published, Releases):
        values = published.values[
            steps.start - published.steps.start : steps.stop - published.steps.start
        ]
        return pl.DataFrame(Releases(steps, values, numbers.design).table_columns(numbers.level))
    if numbers.metadata.is_recent:
        return _rows_of_recent_results(numbers, steps)
    return published_form(numbers, _rows_of_results(numbers, steps), numbers.stored_rows)


def _rows_of_cells(numbers: ReleaseData, shown: range) -> pl.DataFrame:
    windows = numbers.metadata.windows
    groups = numbers.groups
    steps = len(shown)
    times = {"window_start": windows.starts(shown), "window_end": windows.ends(shown)}
    if numbers.metadata.strategy.facts.delay:
        times["counted_until"] = numbers.counted_until()[shown.start - 1 : shown.stop - 1]
    when = {"window_index": np.asarray(shown, dtype=np.int64), **times}
    columns: dict[str, object] = {
        name: np.repeat(column, len(groups)) for name, column in when.items()
    }
    columns["group"] = GroupNames(groups).column.gather(np.tile(np.arange(len(groups)), steps))
    moments = pl.col([*times]).cast(pl.Datetime("us", "UTC"))
    table = pl.DataFrame(columns).with_columns(moments.dt.convert_time_zone(windows.timezone))
    table = published_form(numbers, _with_versions(numbers, table), None)
    kept = ~withdrawn_cells(numbers.metadata.notes, shown, groups)
    is_present = numbers.cells.is_present
    if is_present is not None:
        kept &= is_present[shown.start - 1 : shown.stop - 1]
    if numbers.since is not None:
        kept &= np.asarray(shown)[:, None] >= numbers.first_steps
    is_kept = pl.Series(kept.ravel(), dtype=pl.Boolean)
    tables = [
        _with_numbers(numbers, table, published, series, shown).filter(is_kept)
        for published, series in numbers.series.published(shown)
    ]
    if len(tables) == 1:
        return tables[0]
    together = pl.concat(tables, how="vertical_relaxed")
    return together.sort("window_index", maintain_order=True)


def _with_numbers(
    numbers: ReleaseData,
    table: pl.DataFrame,
    published: PublishedSeries,
    series: SeriesNumbers,
    steps: range,
) -> pl.DataFrame:
    """Return the rows of one series.

    Args:
        numbers: the released numbers.
        table: the window and the group of each row.
        published: the series.
        series: its numbers; missing ones are 0.
        steps: the steps of the rows, each with a row for each group.
    """
    columns: dict[str, Any] = series.with_zeros().columns(numbers.level)
    if numbers.metadata.widths:
        columns |= _columns_of_width(numbers, published, steps)
    table = table.with_columns(**columns, series=pl.lit(published.name))
    if published.width is not None:
        metadata = numbers.metadata
        table = with_notes_of_sums(table, metadata.notes, metadata.windows, published.width)
    return arranged(table)


def _columns_of_width(
    numbers: ReleaseData, published: PublishedSeries, steps: range
) -> dict[str, Any]:
    """Return which windows the numbers of a series count, and whether all have been released.

    Args:
        numbers: the released numbers.
        published: the series.
        steps: the steps of the rows, each with a row for each group.
    """
    stops = np.asarray(steps, np.int64)
    n_windows = _windows_counted(published, stops)
    columns = {
        "n_windows": np.repeat(n_windows, len(numbers.groups)),
        "is_complete": np.repeat(stops >= n_windows, len(numbers.groups)),
    }
    if published.width is None:
        return columns
    windows = numbers.metadata.windows
    begins = windows.starts(range(1, steps.stop))[np.maximum(stops - published.width, 0)]
    return columns | {"window_start": windows.local_times(np.repeat(begins, len(numbers.groups)))}


def _windows_counted(
    published: PublishedSeries, steps: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many windows the numbers of a series count at some steps."""
    if published.width is not None:
        return np.full_like(steps, published.width)
    return np.ones_like(steps) if published.name == PER_WINDOW else np.asarray(steps)


def _rows_of_results(numbers: ReleaseData, steps: range) -> pl.DataFrame:
    begin = numbers.shown.over or 0
    steps = steps[sum(step < begin for step in steps[:begin]) :]
    begins = numbers.begins_of(steps)
    if numbers.metadata.ranks:
        tables = _rankings(numbers, steps)
    else:
        tables = map(partial(numbers_between, numbers), begins.tolist(), steps)
    parts = [table.columns(numbers.level) for table in tables]
    rows = [len(next(iter(part.values()))) for part in parts]
    place = np.repeat(np.arange(len(steps)), rows)
    period_begins = begins[place] if numbers.metadata.series == "period-to-date" else None
    when = when_columns(
        np.asarray(steps, np.int64)[place],
        numbers.metadata.windows,
        numbers.shown.over,
        period_begins,
    )
    when = when.with_columns(series=pl.lit(_series_name(numbers)))
    return _with_versions(numbers, pl.concat([when, columns_below(parts)], how="horizontal"))


def _rows_of_recent_results(numbers: ReleaseData, steps: range) -> pl.DataFrame:
    """Return the rows of a statistic's numbers of the last windows, or of decayed ones."""
    metadata = numbers.metadata
    tables = []
    for published in metadata.published_series:
        table = _rows_of_recent_series(numbers, published, steps)
        table = published_form(numbers, table, numbers.stored_rows)
        if published.width is not None:
            table = with_notes_of_sums(table, metadata.notes, metadata.windows, published.width)
        tables.append(arranged(table))
    if len(tables) == 1:
        return tables[0]
    together = pl.concat(tables, how="vertical_relaxed")
    return together.sort("window_index", maintain_order=True)


def _rows_of_recent_series(
    numbers: ReleaseData, published: PublishedSeries, steps: range
) -> pl.DataFrame:
    """Return the rows of one series of a statistic's numbers of the last windows.

    Args:
        numbers: the released numbers.
        published: the series.
        steps: the steps of the rows.
    """
    request = TableRequest(numbers.shown.ask, numbers.chosen)
    if published.width is not None and len(steps):
        ends = np.asarray(steps, np.int64)
        starts = np.maximum(ends - published.width, 0)
        numbers.design.errors.keep_cell_halfwidths(starts, ends, numbers.level)
    results = [numbers.result_of_series(published, step) for step in steps]
    parts = [result.numbers(request).columns(numbers.level) for result in results]
    rows = [len(next(iter(part.values()))) for part in parts]
    stops = np.asarray(steps, np.int64)[np.repeat(np.arange(len(steps)), rows)]
    begins = None if published.width is None else np.maximum(stops - published.width, 0)
    when = when_columns(stops, numbers.metadata.windows, None, begins)
    if published.width is not None:
        when = when.with_columns(
            n_windows=pl.lit(published.width, pl.Int64),
            is_complete=pl.Series(stops >= published.width, dtype=pl.Boolean),
        )
    when = when.with_columns(series=pl.lit(published.name))
    return pl.concat([when, columns_below(parts)], how="horizontal")


def numbers_between(numbers: ReleaseData, start: int, stop: int) -> TableNumbers:
    """Return the numbers of a statistic's table for steps ``start`` + 1 to ``stop``.

    Args:
        numbers: the released numbers.
        start: the step before the first one.
        stop: the last step.
    """
    groups = numbers.chosen
    if numbers.since is not None:
        first = numbers.first_steps.tolist()
        shown = zip(numbers.groups, first, strict=True)
        groups = tuple(name for name, first_step in shown if first_step <= stop)
    return numbers.result_between(start, stop).numbers(TableRequest(numbers.shown.ask, groups))


def _rankings(numbers: ReleaseData, steps: range) -> Iterator[TableNumbers]:
    """Yield the table of each step: the ``shown.top`` groups, and whether each is surely among
    them.

    This depends on all groups, so a file contains every group that any step shows.
    """
    from counton.statistics.ranking import ranked_numbers, ranking_of

    # Showing some groups is a choice among all possible ones, so lower ends allow for the
    # largest noise of all of them, and upper ends for that of k. If a reader chose the groups,
    # perhaps by released numbers, upper ends allow for the noise of all groups too.
    series = numbers.series.released
    shown = numbers.shown
    assert shown.top is not None
    first = numbers.first_steps
    values = series.estimates[steps.start - 1 : steps.stop - 1]
    shown_steps = steps or range(1, 2)
    # Groups that are not shown were always below.
    hidden = numbers.metadata.cells.thresholds(numbers.design, shown_steps)
    halves = cache(partial(numbers.design.errors.halfwidths, shown_steps))
    for index, (step, std) in enumerate(
        zip(shown_steps, numbers.design.errors.std(shown_steps), strict=True)
    ):
        present = np.flatnonzero(first <= step)
        names = [numbers.groups[place] for place in present.tolist()]
        half = partial(lambda row, level: float(halves(level)[row]), index)
        ranking = partial(
            ranking_of,
            names,
            values[index : index + 1, present].ravel(),
            half,
            shown.top,
            room=shown.room,
            chosen=shown.ask is not None,
            hidden=int(hidden[index]),
        )
        yield ranked_numbers(ranking, float(std))


def _series_name(numbers: ReleaseData) -> str:
    """What a statistic's rows of a window count, as in the column ``series``."""
    if numbers.shown.over is not None:
        return PER_WINDOW if numbers.shown.over == 1 else TRAILING
    series = numbers.metadata.series
    return CUMULATIVE if series == "both" else series


def _with_versions(numbers: ReleaseData, table: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of versions, if windows are released again."""
    if not numbers.design.strategy.facts.reads_another:
        return table
    from counton.results.revisions import version_columns

    newest: Any = numbers.design.strategy
    steps = table["window_index"].to_numpy()
    return table.with_columns(**version_columns(newest, steps, numbers.metadata.windows))


def published_form(
    numbers: ReleaseData, table: pl.DataFrame, stored_rows: pl.DataFrame | None
) -> pl.DataFrame:
    """Return rows in the form in which they are published.

    A table that is released once has no column of steps. A combined group has a column for each
    part of its name.

    Args:
        numbers: the released numbers.
        table: the rows.
        stored_rows: the columns that identify the rows of a file; others are left out. None: all
            rows are kept.
    """
    if stored_rows is not None:
        table = rows_among(table, stored_rows)
    if not (numbers.metadata.windows.is_recurring or numbers.has_cells):
        return arranged(table.drop("window_index", "series"))
    parted = table if numbers.metadata.ranks else _with_parts(table, numbers.metadata)
    return arranged(with_notes(parted, numbers.metadata.notes))


def _with_parts(table: pl.DataFrame, metadata: ReleaseMetadata) -> pl.DataFrame:
    """Add a column for each part of a combined group's name."""
    group_by = metadata.group_by
    if group_by is None or "," not in group_by or "group" not in table.columns:
        return table
    names = [name.strip() for name in group_by.split(",")]
    if {*names} & {*table.columns}:
        return table
    parts = pl.col("group").str.split(BETWEEN)
    part_columns = [
        pl.when(parts.list.len() == len(names))
        .then(parts.list.get(place, null_on_oob=True))
        .alias(name)
        for place, name in enumerate(names)
    ]
    order = [*table.columns]
    order[order.index("group") + 1 : order.index("group") + 1] = names
    return table.with_columns(part_columns).select(order)


def table_of_series(
    numbers: ReleaseData, series: str | None = None, steps: range | None = None
) -> pl.DataFrame:
    """Return the rows of one series, which is computed if it is not released.

    Args:
        numbers: the released numbers.
        series: ``"cumulative"`` or ``"per-window"``; None: cumulative if it is released.
        steps: the steps of the rows; None: all shown steps.
    """
    steps = numbers.shown_steps if steps is None else steps
    released = numbers.metadata.series_names
    if numbers.metadata.is_recent and series not in (None, *released):
        raise InvalidInputError(
            f"{param('series', series)} is not released by {numbers.design.name!r}; give "
            f"{' or '.join(released)}"
        )
    if not numbers.is_by_group:
        if series is not None and not numbers.metadata.is_recent:
            raise InvalidInputError(
                f"{param('series', series)} is only for statistics with several numbers, but "
                f"{numbers.design.name!r} is a {numbers.metadata.statistic_name}; leave it out"
            )
        return table_of(numbers, steps)
    if series is None:
        series = released[0]
    if series not in (CUMULATIVE, PER_WINDOW, *released):
        raise InvalidInputError(
            f"{param('series')} is {series!r}; use {CUMULATIVE} or {PER_WINDOW}"
        )
    table = table_of(numbers, steps)
    if series in released:
        return table.filter(pl.col("series") == series)
    # Unpublished numbers follow from published ones.
    stops = np.asarray(steps, np.int64)
    begins = stops - 1 if series == PER_WINDOW else np.zeros_like(stops)
    computed = pl.DataFrame(numbers.series.between(begins, stops).columns(numbers.level))
    computed = computed.with_columns(series=pl.lit(series))
    table = table.drop(computed.columns)
    if not numbers.metadata.notes:
        return arranged(table.hstack(computed))
    withdrawn = withdrawn_cells(numbers.metadata.notes, range(1, steps.stop), numbers.groups)
    # Numbers that are computed of a withdrawn one would tell it.
    hidden = np.logical_or.accumulate(withdrawn)
    if series == PER_WINDOW:
        hidden = withdrawn | np.vstack([np.zeros_like(withdrawn[:1]), withdrawn[:-1]])
    is_shown = ~withdrawn[steps.start - 1 :].ravel()
    shown = ~hidden[steps.start - 1 :].ravel()
    rows = table.hstack(computed.filter(pl.Series(is_shown)))
    return arranged(rows.filter(pl.Series(shown[is_shown])))


def last_rows(numbers: ReleaseData, most: int | None = None) -> pl.DataFrame:
    """Return the rows of the last step.

    Args:
        numbers: the released numbers.
        most: largest number of groups, or of rows of a statistic's table; None: all.
    """
    last = numbers.only(numbers.steps[-1:])
    if most is None:
        return table_of(last)
    if numbers.is_by_group:
        return table_of(last.first_groups(most))
    return table_of(last).head(most)


def last_numbers(numbers: ReleaseData) -> dict[str, Any]:
    """Return the last numbers as JSON values, as ``rows`` of the table.

    Args:
        numbers: the released numbers.
    """
    if not numbers.is_by_group:
        return {
            "rows": finite(last_rows(numbers).drop([*WINDOW, "as_of"], strict=False)).to_dicts()
        }
    withdrawn = withdrawn_cells(numbers.metadata.notes, numbers.steps[-1:], numbers.groups)
    rows: list[dict[str, object]] = []
    for published, stored in numbers.series.published(numbers.steps[-1:]):
        columns = stored.with_withdrawn(withdrawn).columns(numbers.level)
        about: dict[str, object] = {"series": published.name}
        if numbers.metadata.widths:
            about["n_windows"] = int(_windows_counted(published, numbers.steps[-1]))
        hidden = withdrawn[0].tolist()
        for place, group in enumerate(numbers.groups):
            row: dict[str, object] = {**about, "group": group}
            for column, values in columns.items():
                row[column] = None if hidden[place] else values[place].item()
            if numbers.metadata.notes:
                row["note"] = note_of_number(
                    numbers.metadata.notes,
                    numbers.metadata.windows,
                    step=numbers.steps[-1],
                    group=group,
                    width=published.width,
                )
            rows.append(row)
    counted_until = numbers.metadata.windows.format_moment(int(numbers.counted_until()[-1]))
    return {"counted_until": counted_until, "rows": rows}


class MissingTableRows(NamedTuple):
    """How many rows of a release a file lacks.

    Attributes:
        n_missing: number of rows that the file lacks.
        n_rows: number of rows of the release.
    """

    n_missing: int
    n_rows: int


def missing_rows(numbers: ReleaseData) -> MissingTableRows:
    """Return how many rows of a release the file lacks from which it was read.

    Args:
        numbers: the released numbers.
    """
    if numbers.stored_rows is not None:
        n_rows = table_of(replace(numbers, stored_rows=None)).height
        return MissingTableRows(n_rows - table_of(numbers).height, n_rows)
    if not numbers.has_cells or numbers.cells.is_present is None:
        return MissingTableRows(0, 0)
    begins = np.maximum(numbers.first_steps, numbers.first)
    n_missing = int((~numbers.cells.is_present[numbers.first - 1 :]).sum())
    n_numbers = int((numbers.steps.stop - begins).sum())
    return MissingTableRows(n_missing * numbers.n_series, n_numbers * numbers.n_series)

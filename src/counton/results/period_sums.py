"""Sums of released numbers over days, weeks and months.

A sum is the difference of two released totals, or the sum of the windows' counts. Nothing more is
released; noise and intervals follow from the releases that are used.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, param
from counton.base.table_schema import WINDOW
from counton.results.metadata import ReleaseMetadata
from counton.results.released_table import numbers_between, published_form
from counton.results.table_rows import arranged, columns_below
from counton.results.window_notes import with_notes_of_periods
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.periods import Periods, periods_of, refuse_split_windows

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData


def sums_of_periods(numbers: ReleaseData, every: str) -> pl.DataFrame:
    """Return the number of each day, week or month; see `Release.sums`.

    Args:
        numbers: the released numbers.
        every: length of a period.
    """
    _refuse_unaddable(numbers.metadata, every)
    numbers.check_released()
    windows = numbers.metadata.windows
    _refuse_delay(numbers.metadata.strategy.facts.delay, every)
    refuse_split_windows(windows, every)
    periods = periods_of(windows, every, numbers.steps[-1])
    _refuse_users_added(numbers, every, periods.edges)
    make_table = _sums_of_cells if numbers.has_cells else _sums_of_results
    table = make_table(numbers, periods)
    if windows.n_revisions:
        from counton.results.revisions import final_windows

        final = final_windows(numbers.design, numbers.steps[-1])
        table = table.with_columns(is_final=pl.col("last_window") <= final)
    return arranged(with_notes_of_periods(table, numbers.metadata.notes))


def _sums_of_cells(numbers: ReleaseData, periods: Periods) -> pl.DataFrame:
    """Return a row with the sum of each group in each period."""
    first = periods.edges[:-1]
    numbers.series.refuse_withdrawn(periods.edges.tolist(), numbers.groups)
    columns = numbers.series.between(first, periods.edges[1:]).columns(numbers.level)
    table = periods.table(numbers.metadata.windows, [len(numbers.groups)] * len(first))
    return table.with_columns(
        group=pl.Series(list(numbers.groups) * len(first), dtype=pl.String),
        **columns,
    )


def _sums_of_results(numbers: ReleaseData, periods: Periods) -> pl.DataFrame:
    """Return the rows of a statistic's table for each period."""
    ends = pairwise(periods.edges.tolist())
    parts = [numbers_between(numbers, start, stop).columns(numbers.level) for start, stop in ends]
    rows = [len(next(iter(part.values()))) for part in parts]
    period_columns = periods.table(numbers.metadata.windows, rows)
    table = pl.concat([period_columns, columns_below(parts)], how="horizontal")
    stored_rows = numbers.stored_rows
    if stored_rows is not None:
        named = [name for name in stored_rows.columns if name not in (*WINDOW, "series")]
        stored_rows = stored_rows.select(named).unique()
    return published_form(numbers, table, stored_rows)


def _refuse_unaddable(metadata: ReleaseMetadata, every: str) -> None:
    """Raise `InvalidInputError` if a release has no windows, or numbers that cannot be added up."""
    obstacle = ""
    if not metadata.windows.is_recurring:
        obstacle = f"this {metadata.statistic_name} is released only once"
    elif metadata.half_life is not None:
        obstacle = f"decayed {metadata.recent_noun}s do not add up"
    elif not metadata.cells.named_beforehand:
        obstacle = "groups that were found in the data are shown from different windows on"
    elif (
        metadata.series == "per-window"
        and not metadata.shows_cells
        and every != metadata.windows.every
    ):
        raise InvalidInputError(
            f"{param('sums', every)} needs totals, but {param('series', 'per-window')} of "
            f"{metadata.statistic_name} has the numbers of single windows of "
            f"{metadata.windows.every}, which are not added up: give "
            f"{param('series', 'cumulative')} to a new stream, or leave it out"
        )
    if obstacle:
        raise InvalidInputError(
            f"{param('sums', every)} cannot be used with this release, because {obstacle}. "
            "Leave it out"
        )


def _refuse_users_added(numbers: ReleaseData, every: str, edges: NDArray[np.int64]) -> None:
    """Raise `InvalidInputError` if a sum of windows would not be a number of distinct users.

    Args:
        numbers: the released numbers.
        every: length of the periods that are asked for.
        edges: the steps that end these periods, beginning with 0.
    """
    metadata = numbers.metadata
    again = metadata.users_again
    if again is None or (numbers.users_begin[edges[1:] - 1] == edges[:-1]).all():
        return
    length = metadata.counting_period() or metadata.windows.every
    raise InvalidInputError(
        f"{param('sums', every)} does not give numbers of distinct users, because each counts once "
        f"in each {again}. Give {param('sums', length)}; or ask for a total of some steps, whose "
        "words say that users count several times"
    )


def _refuse_delay(delay: int, every: str) -> None:
    """Raise `InvalidInputError` if releases count up to an earlier window than their own.

    Args:
        delay: number of last windows that a release does not count yet.
        every: length of the periods.
    """
    if delay:
        raise InvalidInputError(
            f"{param('sums', every)} cannot be used with {param('expiration_delay', delay)}, "
            "because a delayed release counts up to an earlier window. Leave it out"
        )

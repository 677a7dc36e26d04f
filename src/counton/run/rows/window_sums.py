"""The rows of a run, added up by window and group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.errors import InvalidInputError, param
from counton.base.exact import with_capital
from counton.base.private import Private, reveal
from counton.io.row_assignment import Columns
from counton.run.rows.group_gaps import find_group_gaps
from counton.run.rows.row_numbers import GroupGap, RowNumbers, WithoutRows
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import DeclaredGroups, RunOptions
from counton.run.windows.covered_windows import empty_stretches
from counton.run.windows.due_windows import RowTimes
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows

if TYPE_CHECKING:
    from counton.run.counting.contribution_choice import ChoiceCounts
    from counton.run.rows.discovered_groups import GroupNamesOfRun
    from counton.run.rows.row_buffer import RowBuffer
    from counton.state.input_sums import InputSums

#: Most windows of groups in which missing counts are looked for.
_MOST_COMPARED_CELLS = 100_000


class KeptColumns(NamedTuple):
    """The columns of sums by window and cell that a state has kept."""

    window: NDArray[np.int64]
    cell: NDArray[np.int64]
    rows: NDArray[np.int64]
    total: NDArray[np.int64]


class RepeatedRows(NamedTuple):
    """The rows of users that the last run had, of which none counts again.

    Attributes:
        choice: numbers of the rows that do not count.
        kept: what the last run has kept.
    """

    choice: ChoiceCounts
    kept: InputSums


@dataclass(frozen=True, repr=False)
class WindowSums:
    """The rows of a run, added up by window and group. Exact, and so secret.

    Attributes:
        sums: columns ``window`` (its number), ``cell``, ``rows`` and ``total``; as an array if a
            state has kept them, so that polars is imported only if more is done with them.
        times: what the times of the rows say.
        numbers: numbers of the rows.
        names: names of groups that are found in the rows; None if groups are declared.
        buffer: the rows themselves, if those that count are chosen; else None.
        repeated: of kept sums, what is known of a run with the rows of users of the last run.
    """

    sums: pl.DataFrame | KeptColumns
    times: RowTimes
    numbers: RowNumbers
    names: GroupNamesOfRun | None = None
    buffer: RowBuffer | None = None
    repeated: RepeatedRows | None = None

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The sums as a data frame."""
        if not isinstance(self.sums, KeptColumns):
            return self.sums
        columns = self.sums._asdict()
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))


def find_without_rows(
    sums: WindowSums,
    spec: StreamSpec,
    options: RunOptions,
    windows: range,
    *,
    begins_stream: bool,
    windows_with_rows: ArrayLike,
    earlier_cells: pl.DataFrame | None = None,
) -> WithoutRows:
    """Return windows and groups without rows, which may be missing.

    Args:
        sums: the rows of the run, added up.
        spec: the specification of the stream.
        options: the options of the run.
        windows: numbers of the windows that the run releases.
        begins_stream: whether there was no earlier run.
        windows_with_rows: numbers of the windows that have a row, of this input or, if it has new
            rows alone, of earlier ones.
        earlier_cells: columns ``window`` and ``cell``: those that have a row of an earlier file,
            if files have new rows alone; else None.
    """
    cells = _cells_without_counts(sums, spec, windows, earlier_cells)
    if not windows or not spec.terms.windowing.windows.is_recurring:
        return WithoutRows(cells)
    stretches = tuple(
        stretch
        for stretch in empty_stretches(windows, windows_with_rows)
        if len(stretch) > options.max_empty_windows
    )
    # Files of new rows do not repeat rows that an earlier run has read.
    has_all_rows = begins_stream or not options.input.has_only_new_rows
    if not has_all_rows:
        return WithoutRows(cells, windows=stretches)
    return WithoutRows(
        cells,
        _groups_without_rows(sums, spec),
        stretches,
        # Windows without a count are named already.
        () if cells else _group_gaps(sums, spec, windows),
    )


def _group_gaps(
    sums: WindowSums, spec: StreamSpec, windows: range
) -> tuple[tuple[str, GroupGap], ...]:
    """Return the unusual gaps of listed groups in the windows that a run releases."""
    groups = spec.terms.groups
    # Sums that are kept of users' rows have no columns.
    if not isinstance(groups, DeclaredGroups) or sums.repeated is not None:
        return ()
    frame = sums.frame.filter(pl.col("rows") > 0)
    n_accumulators = spec.terms.group_statistic.n_accumulators
    gaps = find_group_gaps(
        frame["window"].to_numpy(),
        frame["cell"].to_numpy() // n_accumulators,
        n_groups=len(groups.declared),
        released=windows,
    )
    return tuple((groups.declared[gap.group], gap) for gap in gaps)


def _groups_without_rows(sums: WindowSums, spec: StreamSpec) -> tuple[str, ...]:
    """Return listed groups of counts without a row, except for the group of all others."""
    groups = spec.terms.groups
    if spec.job.value_of("count_column") is None or not isinstance(groups, DeclaredGroups):
        return ()
    if isinstance(sums.sums, KeptColumns):
        cells_with_rows = sums.sums.cell[sums.sums.rows > 0]
    else:
        cells_with_rows = sums.frame.filter(pl.col("rows") > 0)["cell"].to_numpy()
    present = set(np.unique(cells_with_rows).tolist())
    return tuple(name for cell, name in enumerate(groups.declared) if cell not in present)


def _cells_without_counts(
    sums: WindowSums, spec: StreamSpec, windows: range, earlier_cells: pl.DataFrame | None
) -> tuple[tuple[int, str | None], ...]:
    """Return windows in which a group has no count, if rows of counts are left out. Exact.

    Such a window is released as 0 with noise. A group without any row is left out, and so is the
    group of all others, whose rows may be rare.

    Args:
        sums: the rows of the run, added up.
        spec: the specification of the stream.
        windows: numbers of the windows that the run releases.
        earlier_cells: columns ``window`` and ``cell``: those with a row of an earlier file.

    Returns:
        Numbers of windows, each with the name of a group; None: there are no groups.
    """
    groups = spec.terms.groups
    n_left_out = sums.numbers.missing + sums.numbers.quarantined
    if spec.job.value_of("count_column") is None or not n_left_out or not windows:
        return ()
    names = groups.declared if isinstance(groups, DeclaredGroups) else None
    n_groups = 1 if names is None else len(names)
    if len(windows) * n_groups > _MOST_COMPARED_CELLS:
        return ()
    with_rows = sums.frame.filter(pl.col("rows") > 0).select("window", "cell")
    if earlier_cells is not None:
        with_rows = pl.concat([with_rows, earlier_cells], how="vertical_relaxed")
    with_rows = with_rows.filter(pl.col("cell").is_between(0, n_groups, closed="left"))
    cells = with_rows["cell"].unique().sort().to_list()
    # The input may have many windows that were released before.
    is_released_now = pl.col("window").is_between(windows.start, windows.stop, closed="left")
    present = set(with_rows.filter(is_released_now).iter_rows())
    return tuple(
        (window, None if names is None else names[cell])
        for window in windows
        for cell in cells
        if (window, cell) not in present
    )


def columns_of(spec: StreamSpec) -> Columns:
    """Return the columns that the rows of a stream must have."""
    terms = spec.terms
    return Columns(
        time=terms.windowing.time,
        group=terms.groups.column,
        several=terms.statistic.columns,
        user=terms.privacy_unit.user_column,
        id=terms.recognition.id_column,
    )


def refuse_no_row_within(sums: Private[WindowSums], windows: Windows) -> None:
    """Refuse the first rows of a stream if none lies in a window: an option is probably wrong.

    Raises:
        InvalidInputError: none does, although there are rows.
    """
    opened = reveal(sums)
    if not opened.numbers.read or opened.numbers.within or opened.times.more_follow:
        return
    times = opened.times
    if times.why_none_counts is not None:
        raise InvalidInputError(
            "No row can be counted, and nothing was released. "
            f"{with_capital(times.why_none_counts)}"
        )
    newest = "none can be counted"
    if times.newest is not None:
        shown = windows.to_the_minute(times.newest)
        newest = f"the newest row that can be read is of {shown}"
    raise InvalidInputError(
        f"No row lies in a window of the stream, from {windows.format_moment(windows.start)} to "
        f"{windows.format_moment(windows.end)}: {newest}. Nothing was released. Correct "
        f"{param('start')}, {param('windows')} or {param('time_format')}, or "
        "give rows of these windows. If nothing happened in them, give "
        f"{param('allow_empty_windows', True)}"
    )

"""Reading of a run's rows: opened, checked, and added up by window and group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from counton.base.private import Private, reveal
from counton.io.aggregation import Aggregates, sum_rows
from counton.io.bad_rows import UnlistedRows, count_unlisted_rows, why_none_counts
from counton.io.row_assignment import RowMapping
from counton.io.sources import Source, UnreadableRowError
from counton.run.rows.discovered_groups import find_group_names
from counton.run.rows.row_buffer import RowBuffer
from counton.run.rows.row_numbers import RowNumbers
from counton.run.rows.window_sums import WindowSums, columns_of
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import DeclaredGroups, RunOptions
from counton.run.windows.due_windows import FutureRows, RowTimes
from counton.windowing.groups import GroupNames
from counton.windowing.windows import NO_MOMENT, Windows, microseconds

#: Function that returns a buffer of the rows, if those that count are chosen; else None.
MakeBuffer = Callable[[RowMapping, GroupNames | None], RowBuffer | None]


def row_mapping(spec: StreamSpec, options: RunOptions) -> RowMapping:
    """Return the rules by which the rows of a run are read."""
    terms = spec.terms
    statistic = terms.group_statistic
    adds_values = statistic.parts or statistic.rank_digits
    groups = terms.groups
    return RowMapping(
        columns_of(spec),
        terms.windowing.windows,
        unlisted_groups="discover" if spec.discovers_groups else options.unlisted_groups,
        row_rule=statistic if adds_values else None,  # else rows are only counted
        ambiguous=terms.ambiguous,
        time_format=terms.time_format,
        declared=groups.names if isinstance(groups, DeclaredGroups) else (),
        other=groups.other,
        policies=options.policies,
    )


@dataclass(frozen=True, repr=False)
class RowReading:
    """How a run reads its rows.

    Attributes:
        spec: the specification of the stream.
        options: the options of the run.
        now: the current time.
        kept_names: names of groups that the state has.
        make_buffer: function that returns a buffer of the rows, if those that count are chosen.
        watch: function that is told numbers of rows as they are read.
    """

    spec: StreamSpec
    options: RunOptions
    now: datetime
    kept_names: tuple[str, ...]
    make_buffer: MakeBuffer
    watch: Callable[[int], None] | None = None

    def add_up(self, rows: Source) -> WindowSums:
        """Read all rows, and add them up by window and group.

        Raises:
            UnreadableRowError: a row cannot be read, and was not set aside.
            InvalidInputError: a row cannot be counted, and no option says what to do with it.
        """
        mapping = row_mapping(self.spec, self.options)
        groups = self.spec.terms.groups.names
        names = None
        if self.spec.discovers_groups:
            names = find_group_names(rows, mapping, self.kept_names)
            groups = names.all
        buffer = self.make_buffer(mapping, groups)
        counted = reveal(sum_rows(rows, mapping, groups, row_holder=buffer, watch=self.watch))
        numbers = _row_numbers(rows, mapping, self.spec, counted)
        if buffer is not None:
            numbers = replace(numbers, users_like_missing=buffer.users_like_missing())
        times = _times_of(counted, mapping.windows, self.now, more_follow=rows.may_grow)
        if counted.rows and counted.newest is None:
            times = replace(times, why_none_counts=why_none_counts(rows, mapping))
        return WindowSums(counted.cells, times, numbers, names, buffer)


def aggregate_rows(reading: RowReading, source: Private[Source]) -> Private[WindowSums]:
    """Read all rows, and add them up by window and group.

    Raises:
        InvalidInputError: a row cannot be counted, and no option says what to do with such rows.
    """
    rows = reveal(source)
    try:
        sums = reading.add_up(rows)
    except UnreadableRowError:  # read the others again, if such rows are set aside
        columns = columns_of(reading.spec).names
        sums = reading.add_up(rows.sift(columns, reading.options.policies.unread))
    return Private(sums)


def _row_numbers(
    rows: Source, mapping: RowMapping, spec: StreamSpec, counted: Aggregates
) -> RowNumbers:
    groups = spec.terms.groups
    has_other_rows = False
    if isinstance(groups, DeclaredGroups) and groups.other is not None:
        group_index = counted.cells["cell"] // spec.terms.group_statistic.n_accumulators
        has_other_rows = bool((group_index == len(groups.declared)).any())
    unlisted = UnlistedRows(0, 0, [])
    if isinstance(groups, DeclaredGroups) and (counted.unlisted or has_other_rows):
        unlisted = count_unlisted_rows(rows, mapping)
    numbers = RowNumbers(
        read=counted.rows,
        within=counted.within,
        before_start=counted.before_start,
        after_last_window=counted.after_last_window,
        unlisted=counted.unlisted,
        missing=counted.missing,
        quarantined=counted.quarantined,
        unlisted_names=tuple(unlisted.names),
    )
    if not has_other_rows:
        return numbers
    return replace(numbers, in_other_group=unlisted.named, without_group=unlisted.without_group)


def _times_of(
    counted: Aggregates, windows: Windows, now: datetime, *, more_follow: bool
) -> RowTimes:
    moments = np.asarray(counted.moments, np.int64)
    past = moments[(moments <= microseconds(now)) & (moments > NO_MOMENT)]
    return RowTimes(
        newest=counted.newest,
        newest_within=int(past.max()) if past.size else None,
        any_beyond=counted.after_last_window > 0,
        any_rows=counted.rows > 0,
        more_follow=more_follow,
        windows_with_rows=counted.windows_with_rows,
        future=_future_rows(counted, windows, now),
    )


def _future_rows(counted: Aggregates, windows: Windows, now: datetime) -> FutureRows | None:
    """Return the rows of windows that have not begun yet; None if there are none.

    Later rows of the present window are not looked for: the sums do not separate them.
    """
    if counted.newest is None or counted.newest <= microseconds(now):
        return None
    present_window = windows.step_of(np.array([microseconds(now)], np.int64))[0]
    n_rows = np.asarray(counted.rows_of_moments, np.int64)
    is_future = (np.asarray(counted.windows_of_moments, np.int64) > present_window) & (n_rows > 0)
    if not is_future.any():
        return None
    moments = np.asarray(counted.moments, np.int64)
    return FutureRows(int(n_rows[is_future].sum()), int(moments[is_future].max()))

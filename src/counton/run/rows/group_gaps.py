"""Windows in which a group has no row although others have one, if they are unusual for it.

Small groups have no row at night or on closing days. Lines that name these would be noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.run.rows.row_numbers import GroupGap

#: Up to so many different gaps of all groups together, each is unusual.
_FEW_GAPS = 7
#: Of more, a gap is unusual if it is more than so many times as long as the group's fourth-longest
#: gap, and has more than so many windows.
_TIMES_AS_LONG = 3
_USUAL_PLACE = 4
#: Most windows of groups that are compared.
_MOST_COMPARED = 5_000_000


class _Stretches(NamedTuple):
    """Stretches of compared windows without a row of a group: from ``begin`` to before ``end``."""

    group: int
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def are_unusual(self) -> NDArray[np.bool_]:
        """Return whether each is unusually long for the group, if there are many gaps."""
        lengths = self.end - self.begin
        usual = 1
        if len(lengths) >= _USUAL_PLACE:
            usual = int(np.sort(lengths)[-_USUAL_PLACE])
        return lengths > _TIMES_AS_LONG * usual


def find_group_gaps(
    window: NDArray[np.int64],
    group: NDArray[np.int64],
    n_groups: int,
    released: range,
) -> list[GroupGap]:
    """Return the unusual gaps of groups, as far as they are in windows that a run releases. Exact.

    A gap is a stretch of windows without a row of the group, of those with rows of any group. Only
    groups with rows in more than half of these windows are looked at.

    Args:
        window: numbers of windows, each with the index of a group that has rows there.
        group: these indices. Those from ``n_groups`` on count as other groups.
        n_groups: number of groups to look at.
        released: numbers of the windows that the run releases.

    >>> windows = np.array([1, 2, 3, 4, 5, 6, 1, 2, 3, 6])
    >>> groups = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    >>> find_group_gaps(windows, groups, 2, range(1, 7))
    [GroupGap(group=1, windows=range(4, 6), n_windows=2, lasts=False)]
    """
    is_compared = (window >= 1) & (window < released.stop)
    window = window[is_compared]
    group = group[is_compared]
    compared = np.unique(window)
    if len(compared) * n_groups > _MOST_COMPARED:
        return []
    has_rows = np.zeros((n_groups, len(compared)), dtype=np.bool_)
    is_looked_at = group < n_groups
    place = np.searchsorted(compared, window[is_looked_at])
    has_rows[group[is_looked_at], place] = True
    n_with_rows = has_rows.sum(axis=1)
    is_frequent = (2 * n_with_rows > len(compared)) & (n_with_rows < len(compared))
    all_stretches = []
    for number in np.flatnonzero(is_frequent).tolist():
        edges = np.flatnonzero(np.diff(~has_rows[number], prepend=False, append=False))
        all_stretches.append(_Stretches(number, edges[::2], edges[1::2]))
    # One file that is missing makes the same gap in several groups.
    different = {
        pair
        for stretches in all_stretches
        for pair in zip(stretches.begin.tolist(), stretches.end.tolist(), strict=True)
    }
    gaps = []
    for stretches in all_stretches:
        is_named = np.full(len(stretches.begin), fill_value=True)
        if len(different) > _FEW_GAPS:
            is_named = stretches.are_unusual()
        for begin, end in zip(stretches.begin[is_named], stretches.end[is_named], strict=True):
            windows_of_gap = compared[begin:end]
            released_now = windows_of_gap[windows_of_gap >= released.start]
            if released_now.size:
                stretch = range(int(released_now[0]), int(released_now[-1]) + 1)
                lasts = end == len(compared) and windows_of_gap[0] < released.start
                gaps.append(
                    GroupGap(stretches.group, stretch, released_now.size, lasts=bool(lasts))
                )
    return gaps

"""Exact numbers of the rows of a run, which only its operator sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, repr=False)
class RowNumbers:
    """Exact numbers of the rows that were read, for the operator alone.

    Attributes:
        read: all rows.
        within: rows in windows, whether or not they count.
        before_start, after_last_window: rows outside all windows, counted nowhere.
        unlisted: rows of undeclared groups that were left out.
        missing: rows that were left out since they lack a value.
        quarantined: unreadable rows that were set aside.
        in_other_group: rows of undeclared groups in the group of all others.
        without_group: rows without a group in the group of all others.
        unlisted_names: the commonest names of undeclared groups, each with its number of rows.
        users_like_missing: texts that programs write for a missing value and that are names of
            users here, each with its number of rows in windows.
    """

    read: int
    within: int
    before_start: int
    after_last_window: int
    unlisted: int
    missing: int
    quarantined: int
    in_other_group: int = 0
    without_group: int = 0
    unlisted_names: tuple[tuple[str, int], ...] = ()
    users_like_missing: tuple[tuple[str, int], ...] = ()


class GroupGap(NamedTuple):
    """Windows in which a group has no row although others have one. Exact: for the operator.

    Attributes:
        group: index of the group.
        windows: from the first window to the last one.
        n_windows: how many of these have rows of other groups.
        lasts: whether the gap began before these windows, and no row of the group follows.
    """

    group: int
    windows: range
    n_windows: int
    lasts: bool = False


class WithoutRows(NamedTuple):
    """What a run releases without a row, so that it is only noise. Exact: for the operator.

    Attributes:
        cells: windows in which a group has no count, each with the name of the group; None: there
            are no groups.
        groups: listed groups of counts of which the input has no row.
        windows: stretches of windows without a row, longer than ``max_empty_windows``.
        group_gaps: unusual gaps of listed groups, each with the name of the group.
    """

    cells: tuple[tuple[int, str | None], ...] = ()
    groups: tuple[str, ...] = ()
    windows: tuple[range, ...] = ()
    group_gaps: tuple[tuple[str, GroupGap], ...] = ()

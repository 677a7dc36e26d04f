"""How rows contribute: each row alone, or rows of users within a bound.

A row counts alone (`EventLevel`), or the rows of each user are bounded, here (`UserLevel`) or by
whoever made the rows (`BoundedUpstream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from typing_extensions import override

from counton.base.distributions import BoundedChange
from counton.base.lengths import LATE_DAYS, PERIODS
from counton.base.wording import plural
from counton.privacy.contribution import ContributionBound, OncePer
from counton.privacy.unit_changes import BoundedEvents

#: Fields of `UserLevel`, by their key in the metadata of releases, which older versions read, too.
_STORED_FIELDS_OF_USERS = {
    "most": "max_contributions",
    "per": "contribution_period",
    "distinct": "once_per_window",
    "each": "max_contributions_per_group",
    "most_a_window": "max_contributions_per_window",
    "row": "event_name",
}
#: Fields of `BoundedUpstream`, likewise.
_STORED_FIELDS_UPSTREAM = {"moves": "upstream_max_contributions", "row": "event_name"}


class PeriodicWindows(Protocol):
    """Windows, as far as bounds of users depend on them."""

    @property
    def every(self) -> str:
        """Length of a window."""

    @property
    def steps(self) -> int:
        """Number of windows."""

    @property
    def period(self) -> str | None:
        """Name of a window, such as "day"; None if it has none."""


class ContributionRule:
    """Base class of contribution rules. Its methods describe a rule without a bound on users."""

    max_contributions: int = 1
    contribution_period: str | None = None
    once_per_window: bool = False
    max_contributions_per_group: int | None = None
    max_contributions_per_window: int | None = None
    #: How many rows of one user are in a table of counts, bounded by whoever made it, if they are.
    upstream_max_contributions: int | None = None
    #: The name of one row, where it is not the protected unit.
    event_name: str | None = None
    #: True if the number of a user's rows is bounded.
    bounds_users: ClassVar[bool] = False

    def protected_unit(self, unit: str) -> str:
        """Return the protected unit, such as "reader's day", given the name of a row or a user."""
        period = self.contribution_period
        return unit if period is None else f"{unit}'s {PERIODS.get(period, period)}"

    def contribution_bound(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        """Return the bound on the change by one protected unit: ``row``, that of one row."""
        return row

    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        """Return what happens to rows that arrive after their window's release.

        Args:
            window: name of a window, such as "day".
            unit: name of the privacy unit.
            ids: whether rows have an id.
        """
        note = f"are counted in a later {window}, or not at all"
        too_old = self.too_old(window, unit, ids=ids)
        return note if too_old is None else f"{note} if their {too_old}"

    def too_old(self, window: str, unit: str, *, ids: bool) -> str | None:
        """Return of which rows all come too late to count, as words after "rows whose".

        `counton.run.counting.remembered_rows.FirstOpen` decides it: a row counts only in a period
        of its user, and on a day of UTC, that had not ended `LATE_DAYS` before.

        Args:
            window: name of a window, such as "day".
            unit: name of the privacy unit.
            ids: whether rows have an id.

        Returns:
            The words; None if rows of all times count.

        >>> print(UserLevel(3, "1w").too_old("day", "visitor's week", ids=False))
        visitor's week ended at least 35 days (840 hours) before the end of the last day that
        earlier runs released
        """
        decisive = []
        if ids:
            decisive.append("UTC day")
        if self.contribution_period is not None:
            decisive.append(unit)
        if not decisive:
            return None
        return (
            f"{' or '.join(decisive)} ended at least {LATE_DAYS} days ({24 * LATE_DAYS} hours) "
            f"before the end of the last {window} that earlier runs released"
        )

    def leaves_old_rows_out(self, *, ids: bool) -> bool:
        """Return whether late rows are too old to count at some time, whatever windows follow.

        Args:
            ids: whether rows have an id.
        """
        return ids

    def beyond(
        self, windows: PeriodicWindows, unit: str, groups: int | None, *, most_windows: float
    ) -> str | None:
        """Return words for what a bound leaves out: nothing here.

        Args:
            windows: the windows of the stream.
            unit: the protected unit.
            groups: number of groups in which rows of a user count apart; None: they do not.
            most_windows: largest number of windows in a period of users.
        """
        return None

    def late_note(
        self, windows: PeriodicWindows, unit: str, groups: int | None, *, most_windows: float
    ) -> str | None:
        """Return a note that counts are too low late in a period: none here.

        Args:
            windows: the windows of the stream.
            unit: the protected unit.
            groups: number of groups in which rows of a user count apart; None: they do not.
            most_windows: largest number of windows in a period of users.
        """
        return None

    def bound_in_heading(self, window: str, unit: str) -> str:
        """Return the bound in a heading, after a comma: none here."""
        return ""

    def subject(self, unit: str, groups: int | None, *, windows_only: bool) -> str:
        """Return words for the counted quantity, such as "number of visits".

        ``windows_only``: counts of single windows are released, not running totals.
        """
        return f"number of {plural(self.event_name or unit)}"

    def cell_subject(self, unit: str, *, windows_only: bool) -> str:
        """Return words for the number in one cell, such as "number of loans"."""
        return f"number of {plural(self.event_name or unit)}"

    def with_groups(self, max_contributions_per_group: int) -> ContributionRule:
        """Return a copy in which at most so many rows of a bounded user count in a group."""
        return self

    def as_users_in(self, every: str) -> ContributionRule:
        """Return a rule that counts the same rows without groups, and says that they are users.

        Args:
            every: length of a window.

        Returns:
            This rule, unless one row of each user counts in a window.
        """
        return self

    def to_dict(self) -> dict[str, object] | None:
        """Return the bound for each user as JSON values; None, because there is none here."""
        return None


@dataclass(frozen=True)
class EventLevel(ContributionRule):
    """The rule that rows are added up in any order, and that each row is a protected unit."""


EVENT_LEVEL = EventLevel()


@dataclass(frozen=True)
class BoundedUpstream(ContributionRule):
    """The rule of a table of counts of users' rows, which the query that made it has bounded.

    Attributes:
        upstream_max_contributions: how many rows of one user the table may count, in all windows
            and groups.
        event_name: the name of one row.

    >>> BoundedUpstream(5, "visit").subject("person", None, windows_only=True)
    'number of visits'
    """

    upstream_max_contributions: int
    event_name: str

    @override
    def to_dict(self) -> dict[str, object]:
        return {key: getattr(self, field) for key, field in _STORED_FIELDS_UPSTREAM.items()}

    @override
    def bound_in_heading(self, window: str, unit: str) -> str:
        return f", at most {self.upstream_max_contributions:,} per {unit}, as bounded before"

    @override
    def contribution_bound(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        return ContributionBound.events(self.upstream_max_contributions, bounds=row, unit=row.unit)


@dataclass(frozen=True)
class UserLevel(ContributionRule):
    """The rule that some rows of each user count; the unit is a user or, with
    ``contribution_period``, a user's period.

    Attributes:
        max_contributions: largest number of a user's events that count in a period or, with
            ``max_contributions_per_group``, of groups in which they count.
        contribution_period: length of a period, such as "1d"; None: the whole stream.
        once_per_window: at most one event of a user counts in each window and group.
        max_contributions_per_group: largest number of a user's events in each group; None:
            ``max_contributions`` bounds all together.
        max_contributions_per_window: largest number of events, among ``max_contributions``, in one
            window.
        event_name: the name of one row.

    >>> loans = UserLevel(3, event_name="loan")
    >>> loans.cell_subject("reader", windows_only=False)
    'number of loans'
    >>> UserLevel(3, "1d").protected_unit("visitor")
    "visitor's day"
    """

    max_contributions: int
    contribution_period: str | None = None
    once_per_window: bool = False
    max_contributions_per_group: int | None = None
    max_contributions_per_window: int | None = None
    event_name: str = "event"
    bounds_users: ClassVar[bool] = True

    @override
    def to_dict(self) -> dict[str, object]:
        return {key: getattr(self, field) for key, field in _STORED_FIELDS_OF_USERS.items()}

    @override
    def leaves_old_rows_out(self, *, ids: bool) -> bool:
        return ids or self.contribution_period is not None

    @override
    def bound_in_heading(self, window: str, unit: str) -> str:
        if self.max_contributions_per_group is not None or self.once_per_window:
            return ""
        bound = f", at most {self.max_contributions:,} per {unit}"
        if (
            self.max_contributions_per_window is not None
            and self.max_contributions_per_window < self.max_contributions
        ):
            bound += f" and {self.max_contributions_per_window:,} in a {window}"
        return bound

    def _may_exceed(self, steps: int, groups: int | None, most_windows: float) -> bool:
        """Return False if a limit for each window already keeps the bound: ``max_contributions`` is
        at least this limit times the number of windows in a period.
        """
        a_window = self.max_contributions_per_window or self.max_contributions + 1
        if self.once_per_window:
            if groups is None:
                a_window = 1
            elif groups:  # once in each group; 0 groups are found in the rows, and can be many
                a_window = min(a_window, groups)
        # The whole stream may have an end, and a period may be longer than the stream.
        n_windows = min(steps, most_windows)
        return self.max_contributions < n_windows * a_window

    @override
    def beyond(
        self, windows: PeriodicWindows, unit: str, groups: int | None, *, most_windows: float
    ) -> str | None:
        """Return words for what the bound leaves out, if it may leave out anything.

        >>> from datetime import datetime, UTC
        >>> from counton.windowing.windows import Windows
        >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
        >>> rule = UserLevel(7, contribution_period="1w", max_contributions_per_window=1)
        >>> rule.beyond(days, "visitor's week", None, most_windows=7)
        "rows beyond 7 of each visitor's week, or beyond 1 of it in one day"
        >>> days_rule = UserLevel(3, "1d", once_per_window=True)
        >>> days_rule.beyond(days, "visitor's day", 9, most_windows=1)
        "groups beyond the first 3 of each visitor's day"
        >>> weeks_rule = UserLevel(3, "1w", once_per_window=True)
        >>> weeks_rule.beyond(days, "visitor's week", 9, most_windows=7)
        "pairs of a day and a group beyond the first 3 of each visitor's week"
        """
        count = f"{self.max_contributions:,}"
        if self.max_contributions_per_group is not None:
            if groups is None or 0 < groups <= self.max_contributions:
                return None
            return f"groups beyond the first {count} of each {unit}"
        if self.once_per_window:
            if not self._may_exceed(windows.steps, groups, most_windows):
                return None
            window = windows.period or f"period of {windows.every}"
            counted_once = plural(window)
            if groups is not None:
                has_one_window = most_windows <= 1
                counted_once = "groups" if has_one_window else f"pairs of a {window} and a group"
            return f"{counted_once} beyond the first {count} of each {unit}"
        rows_beyond = f"rows beyond {count} of each {unit}"
        if self.max_contributions_per_window is None:
            return rows_beyond
        window = windows.period or "window"
        return (
            f"{rows_beyond}, or beyond {self.max_contributions_per_window:,} of it in one {window}"
        )

    @override
    def late_note(
        self, windows: PeriodicWindows, unit: str, groups: int | None, *, most_windows: float
    ) -> str | None:
        """Return a note that counts are too low in the last windows of a period.

        A user's rows count in order of time until the bound is reached
        (`counton.run.counting.contribution_choice`).
        """
        if self.max_contributions_per_group is not None or most_windows <= 1:
            return None
        if not self._may_exceed(windows.steps, groups, most_windows):
            return None
        part = "the stream" if self.contribution_period is None else "a period"
        return (
            f"late windows of {part} are counted too low: the bound of {self.max_contributions:,} "
            f"for each {unit} is spent in the order of rows, and no interval includes rows beyond "
            "it"
        )

    @override
    def subject(self, unit: str, groups: int | None, *, windows_only: bool) -> str:
        if self.max_contributions_per_group is None:
            return self.cell_subject(unit, windows_only=windows_only)
        users = f"number of distinct {plural(unit)}"
        if groups is None or 0 < groups <= self.max_contributions:
            return users
        first = (
            "first group"
            if self.max_contributions == 1
            else f"first {self.max_contributions:,} groups"
        )
        return f"{users} (each in the {first} alone)"

    @override
    def cell_subject(self, unit: str, *, windows_only: bool) -> str:
        if not self.once_per_window:
            return f"number of {plural(self.event_name)}"
        users = plural(unit.removesuffix(self.protected_unit("")))
        return (
            f"number of distinct {users}"
            if windows_only
            else f"number of {users}, each once in a window"
        )

    @override
    def with_groups(self, max_contributions_per_group: int) -> ContributionRule:
        return replace(self, max_contributions_per_group=max_contributions_per_group)

    @override
    def as_users_in(self, every: str) -> ContributionRule:
        """Return this rule with ``once_per_window``, if it counts one row of a user in a window.

        A rule that names its rows (``event_name``) counts these rows.

        >>> UserLevel(1, "1d").as_users_in("1d").cell_subject("reader's day", windows_only=True)
        'number of distinct readers'
        """
        is_one_row = self.max_contributions == 1 and self.contribution_period == every
        if not is_one_row or self.max_contributions_per_group is not None:
            return self
        if self.event_name != UserLevel.event_name:
            return self
        return replace(self, once_per_window=True)

    @override
    def contribution_bound(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        """Return the bound on the change by all rows of one unit.

        Args:
            row: the bound of one row; with ``max_contributions_per_group``, of a unit's rows in one
                group.
            norms: 1-norm and squared 2-norm that the statistic knows to be smaller than
                ``max_contributions`` rows'.

        >>> print(UserLevel(3).contribution_bound(ContributionBound.add_remove(unit="visitor")))
        one visitor added or removed, with at most 3 events counted, each by at most 1
        """
        assert row.relation == "add_remove"  # jobs of users refuse the other relation
        once: OncePer | None = None if self.max_contributions_per_group is None else "group"
        if row.pattern is None:
            a_step = self.max_contributions_per_window
            most = self.max_contributions
            if isinstance(row.occurrences, BoundedEvents):
                most *= row.occurrences.most
            return ContributionBound.events(
                most, most_a_step=a_step, once=once, bounds=row, unit=row.unit
            )
        assert self.max_contributions_per_window is None  # jobs refuse it for such rows
        assert isinstance(row.pattern, BoundedChange)
        pattern = replace(row.pattern.scaled_by(self.max_contributions), single_step=False)
        if norms is not None:
            l1, l2_squared = norms
            pattern = BoundedChange(l1, l2_squared)
        rows = (
            f"up to {self.max_contributions:,} rows count, each a row"
            if self.max_contributions > 1
            else "one row counts,"
        )
        words = f"of whom {rows} {row.change_in_words()}"
        return ContributionBound.of_pattern(pattern, words, unit=row.unit)


def contribution_rule_from_dict(bound: Mapping[str, object] | None) -> ContributionRule:
    """Rebuild the result of `ContributionRule.to_dict`."""
    if bound is None:
        return EventLevel()
    if "moves" in bound:
        return BoundedUpstream(**_constructor_arguments(bound, _STORED_FIELDS_UPSTREAM))
    return UserLevel(**_constructor_arguments(bound, _STORED_FIELDS_OF_USERS))


def _constructor_arguments(
    stored: Mapping[str, object], fields: Mapping[str, str]
) -> dict[str, Any]:
    """Return stored values by the names of their fields; a constructor refuses unknown keys."""
    return {fields.get(key, key): value for key, value in stored.items()}

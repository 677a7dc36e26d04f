"""Rules by which rows count: each alone (`Added`), bounded per user (`Bounded`), or in order.

The three kinds have one interface, so callers need not ask which one a stream has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from typing_extensions import override

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInput, field
from counton.base.lengths import PERIODS
from counton.base.locales import local_text
from counton.base.windows import LATE_DAYS, Windows
from counton.privacy import Contribution
from counton.privacy.contribution import checked_unit, whole_of
from counton.privacy.guarantees import plural


class Counting:
    """Base class of counting rules. Its methods fit rules without a bound on users and without
    order.
    """

    most: int = 1
    per: str | None = None
    distinct: bool = False
    each: int | None = None
    most_a_window: int | None = None
    #: True if rows of a user are bounded together.
    users: ClassVar[bool] = False
    #: True if rows are taken one after the other.
    in_order: ClassVar[bool] = False
    #: True if a user, or a user's period, is protected.
    of_people: bool = False

    def of(self, unit: str) -> str:
        """Return the name of the protected unit, given the name of a row or a user."""
        return unit

    def unit_of(self, word: str | None, own: str) -> str:
        """Return the name of the protected unit of a stream.

        Args:
            word: the stated name of a row, or of a user; None: none is stated.
            own: the name that the statistic uses by default.
        """
        return self.of(word or own)

    def bounding(self, row: Contribution, norms: tuple[int, int] | None = None) -> Contribution:
        """Return the largest change of the counts by all rows of one unit: see
        `Bounded.bounding`.
        """
        return row

    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        """Return words for what happens to rows that come after the release of their window.

        Args:
            window: the name of a window, such as "day".
            unit: the name of one protected unit.
            ids: True if rows are identified by an id.
        """
        said = "counted by arrival, so late rows are in the {window} in which they were counted"
        if ids:
            said += "; those that came more than {count} days late are in none"
            return local_text(said, window=local_text(window), count=str(LATE_DAYS))
        return local_text(said + ", or do not count", window=local_text(window))

    def beyond(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return words for the rows or groups that a bound per user leaves out; None without a
        bound.

        Args:
            cut: how rows are assigned to steps.
            unit: the name of one protected unit.
            groups: number of declared groups; None: there is one total.
        """
        return None

    def late_note(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return a note that the last windows of a period are counted too low; None if no bound
        spans several windows.
        """
        return None

    def subject(self, unit: str, groups: int | None, *, alone: bool) -> str:
        """Return words for the counted quantity, such as "number of visits".

        Args:
            unit, groups: see `beyond`.
            alone: True if single windows are released, and not running totals.
        """
        return f"number of {plural(unit)}"

    def cells_count(self, unit: str, *, alone: bool) -> str:
        """Return words for the number in one cell, such as "number of loans".

        Args:
            alone: True if single windows are released, and not running totals.
        """
        return f"number of {plural(unit)}"

    def with_groups(self, each: int) -> Counting:
        """Return the rule with a bound on a user's rows in each group; unchanged if it bounds no
        users.
        """
        return self

    def to_dict(self) -> dict[str, Any] | None:
        """Return the bound per user as JSON values; None if there is none."""
        return None

    def check_any_order(self, what: str, remedy: str) -> None:
        """Refuse rows whose order is unknown, if the rule depends on it."""

    def check_forgets(self, name: str, statistic: object) -> None:
        """Refuse to delete a user's data, if this rule or the statistic makes it impossible."""


@dataclass(frozen=True)
class Added(Counting):
    """Rule under which rows are added up in any order, and each row is a protected unit."""


ADDED = Added()


@dataclass(frozen=True)
class Ordered(Counting):
    """Rule under which rows are taken one after the other, in their order.

    Attributes:
        of_people: True if the statistic protects users.
    """

    of_people: bool = False
    in_order: ClassVar[bool] = True

    @override
    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        return f"rows that came after the release of their {window} do not count"

    @override
    def unit_of(self, word: str | None, own: str) -> str:
        return own if word is None else checked_unit(word) + own.removeprefix(whole_of(own))

    @override
    def check_any_order(self, what: str, remedy: str) -> None:
        raise InvalidInput(f"{what} needs its rows in their order, {remedy}")

    @override
    def check_forgets(self, name: str, statistic: object) -> None:
        raise InvalidInput(
            f"stream {name!r} is a {statistic!r}, which keeps exact sets (users, edges or "
            "letters), and cannot forget a single one: end the stream, and delete the state when "
            "nothing in it is needed any more"
        )


@dataclass(frozen=True)
class Bounded(Counting):
    """Rule under which only some rows of each user count; a user, or a user's period, is protected.

    Attributes:
        most: most events of a user that count; with ``per`` in each period; with ``each`` the most
            groups in which they count.
        per: length of a period, written like that of a window; None: the whole stream is one
            period.
        distinct: True if at most one event of a user counts in each window and group.
        each: most events of a user that count in each group; None: ``most``, over all groups.
        most_a_window: most events, among ``most``, that count in one window.
        row: the name of one row.

    >>> Bounded(3, "1d").of("visitor"), Bounded(3, row="loan").cells_count("reader", alone=False)
    ("visitor's day", 'number of loans')
    """

    most: int
    per: str | None = None
    distinct: bool = False
    each: int | None = None
    most_a_window: int | None = None
    row: str = "event"
    users: ClassVar[bool] = True
    of_people = True

    @override
    def of(self, unit: str) -> str:
        return unit if self.per is None else f"{unit}'s {PERIODS.get(self.per, self.per)}"

    @override
    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        said = super().late_rows(window, unit, ids=ids)
        if ids or self.per is None:
            return said
        return f"{said}, as those that came more than {LATE_DAYS} days after the {unit}"

    def _may_exceed(self, cut: Windows, groups: int | None) -> bool:
        """Return whether a unit can have more rows than the bound lets count.

        It cannot if so few of its rows count in each window that all of them stay within the bound.
        """
        a_window = self.most_a_window or self.most + 1
        if self.distinct:  # once in each group
            a_window = min(a_window, 1 if groups is None else groups or a_window)
        return self.most < cut.windows_within(self.per) * a_window

    @override
    def beyond(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        if self.each is not None:
            all_groups = groups is None or 0 < groups <= self.most
            return None if all_groups else f"groups beyond {self.most:,} of each {unit}"
        if self.distinct:
            windows = plural(cut.period or f"period of {cut.every}")
            once = windows if groups is None else f"{windows} and groups"
            return (
                f"{once} beyond {self.most:,} of each {unit}"
                if self._may_exceed(cut, groups)
                else None
            )
        beyond = f"rows beyond {self.most:,} of each {unit}"
        if self.most_a_window is not None:
            beyond += f", or {self.most_a_window:,} of it in one window,"
        return beyond

    @override
    def late_note(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return a note that the last windows of a period are counted too low; None if they are
        not.

        Rows of a user count in order of time until the bound is reached
        (`counton.run.contribution_bounds`). So the rows that are left out lie in the last windows
        of a period.
        """
        if self.each is not None or cut.windows_within(self.per) <= 1:
            return None
        if not self._may_exceed(cut, groups):
            return None
        part = "the stream" if self.per is None else "a period"
        return (
            f"late windows of {part} are counted too low: the bound of {self.most:,} for each "
            f"{unit} is spent in the order of rows, and no interval includes rows beyond it"
        )

    @override
    def subject(self, unit: str, groups: int | None, *, alone: bool) -> str:
        if self.each is None:
            return self.cells_count(unit, alone=alone)
        users = f"number of distinct {plural(unit)}"
        if groups is None or 0 < groups <= self.most:
            return users
        first = "first group" if self.most == 1 else f"first {self.most:,} groups"
        return f"{users} (each in the {first} alone)"

    @override
    def cells_count(self, unit: str, *, alone: bool) -> str:
        if not self.distinct:
            return f"number of {plural(self.row)}"
        users = plural(unit.removesuffix(self.of("")))
        return (
            f"number of distinct {users}" if alone else f"number of {users}, each once in a window"
        )

    @override
    def with_groups(self, each: int) -> Counting:
        return replace(self, each=each)

    @override
    def to_dict(self) -> dict[str, Any] | None:
        return asdict(self)

    @override
    def bounding(self, row: Contribution, norms: tuple[int, int] | None = None) -> Contribution:
        """Return the largest change of the counts by all rows of one unit.

        Args:
            row: the change by one row; with ``each`` the change by the rows of one group together.
            norms: 1-norm and squared 2-norm of the change by all rows, if they are smaller than one
                row's change implies.

        Raises:
            InvalidInput: the bound holds for each window, but a row counts in several cells; or the
                guarantee does not protect the presence of a row.

        >>> print(Bounded(3).bounding(Contribution.add_remove(unit="visitor")))
        one visitor added or removed, with at most 3 events counted, each by at most 1, in any cells
        and steps
        """
        if row.relation == "replace":
            raise InvalidInput(
                f"{field('user')} hides whether a user is in the data, but "
                f"{field('replace', True)} hides only the values of rows; leave one of them out"
            )
        once: Literal["group"] | None = None if self.each is None else "group"
        if row.pattern is None:
            a_step, most = self.most_a_window, self.most * (row.most or 1)
            return Contribution.events(
                most, most_a_step=a_step, once=once, bounds=row, unit=row.unit
            )
        if self.most_a_window is not None:
            raise InvalidInput(
                f"{field('most_a_window', self.most_a_window)} is only for counts and sums, and "
                "here each row changes several numbers; leave it out"
            )
        assert isinstance(row.pattern, BoundedChange)
        rows_together = replace(row.pattern.scaled_by(self.most), once=False)
        pattern = BoundedChange(*norms) if norms else rows_together
        rows = f"up to {self.most:,} rows count, each a row" if self.most > 1 else "one row counts,"
        words = f"of whom {rows} {row.words}"
        return Contribution.of_pattern(pattern, words, unit=row.unit)


def counting_from_dict(
    bound: Mapping[str, Any] | None, *, in_order: bool, of_people: bool
) -> Counting:
    """Rebuild a counting rule from `to_dict`.

    Args:
        bound: the bound on the rows of a user, as JSON values.
        in_order: True if rows are taken one after the other.
        of_people: True if the statistic protects users.
    """
    if in_order:
        return Ordered(of_people)
    return Added() if bound is None else Bounded(**bound)

"""The public description of a stream: together with published values all that a reader needs.

It contains no state, no key and no exact number. Every file of released numbers has one as JSON. A
part of it is the rule by which rows count: each row alone (`EventLevel`), or bounded for each
    user, here
(`UserLevel`) or by whoever made the rows (`BoundedUpstream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

from typing_extensions import override

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError, field
from counton.base.exact import quote
from counton.base.lengths import PERIODS
from counton.base.series import Series
from counton.base.table_schema import CUMULATIVE, PER_WINDOW
from counton.continual import Design
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.guarantees import plural
from counton.results.window_notes import WindowNote
from counton.statistics import AccumulatorStatistic, Statistic
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_named
from counton.statistics.count import statistic_of_rows
from counton.statistics.discovery import DECLARED, Cells, cells_from_dict
from counton.statistics.live_statistic import statistic_of
from counton.strategies import StreamStrategy
from counton.windowing.groups import GroupNames
from counton.windowing.windows import (
    LATE_DAYS,
    RevisableWindows,
    SingleTableWindow,
    UnwindowedSteps,
    Windows,
)


class ContributionRule:
    """Base class of counting rules; its own methods describe a rule without a bound on users."""

    most: int = 1
    per: str | None = None
    distinct: bool = False
    each: int | None = None
    most_a_window: int | None = None
    #: How many rows of one user are in a table of counts, bounded by whoever made it, if they are.
    moves: int | None = None
    #: The name of one row, where it is not the protected unit.
    row: str | None = None
    #: True if the number of a user's rows is bounded.
    users: ClassVar[bool] = False

    def of(self, unit: str) -> str:
        """Return the protected unit, such as "reader's day", given the name of a row or a user."""
        return unit if self.per is None else f"{unit}'s {PERIODS.get(self.per, self.per)}"

    def bounding(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        """Return the bound on the change by one protected unit: ``row``, that of one row."""
        return row

    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        """Return words on a row that comes after its window's release; ``ids``: rows have an id."""
        never = f"; one that came more than {LATE_DAYS} days late is in none"
        return (
            f"counted by arrival: a row that came after its {window} was published is in a later "
            f"one{never if ids else ', or does not count'}"
        )

    def beyond(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return words for what a bound leaves out: nothing here."""
        return None

    def late_note(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return a note that counts are too low late in a period: none here."""
        return None

    def bound_in_heading(self, window: str, unit: str) -> str:
        """Return the bound in a heading, after a comma: none here."""
        return ""

    def subject(self, unit: str, groups: int | None, *, windows_only: bool) -> str:
        """Return words for the counted quantity, such as "number of visits".

        ``windows_only``: counts of single windows are released, not running totals.
        """
        return f"number of {plural(self.row or unit)}"

    def cells_count(self, unit: str, *, windows_only: bool) -> str:
        """Return words for the number in one cell, such as "number of loans"."""
        return f"number of {plural(self.row or unit)}"

    def with_groups(self, each: int) -> ContributionRule:
        """Return a copy in which at most ``each`` rows of a bounded user count in a group."""
        return self

    def to_dict(self) -> dict[str, Any] | None:
        """Return the bound for each user as JSON values, if there is one."""
        return dict(vars(self)) or None


@dataclass(frozen=True)
class EventLevel(ContributionRule):
    """The rule that rows are added up in any order, and that each row is a protected unit."""


ADDED = EventLevel()


@dataclass(frozen=True)
class BoundedUpstream(ContributionRule):
    """The rule of a table of counts of users' rows, which the query that made it has bounded.

    Attributes:
        moves: how many rows of one user the table may count, in all windows and groups.
        row: the name of one row.

    >>> BoundedUpstream(5, "visit").subject("person", None, windows_only=True)
    'number of visits'
    """

    moves: int
    row: str

    @override
    def bound_in_heading(self, window: str, unit: str) -> str:
        return f", at most {self.moves:,} of one {unit}, as bounded before"

    @override
    def bounding(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        return ContributionBound.events(self.moves, bounds=row, unit=row.unit)


@dataclass(frozen=True)
class UserLevel(ContributionRule):
    """The rule that some rows of each user count; the unit is a user or, with ``per``, a user's
    period.

    Attributes:
        most: largest number of a user's events that count in a period or, with ``each``, of groups
            in which they count.
        per: length of a period, such as "1d"; None: the whole stream.
        distinct: at most one event of a user counts in each window and group.
        each: largest number of a user's events in each group; None: ``most`` bounds all together.
        most_a_window: largest number of events, among ``most``, in one window.
        row: the name of one row.

    >>> loans = UserLevel(3, row="loan")
    >>> UserLevel(3, "1d").of("visitor"), loans.cells_count("reader", windows_only=False)
    ("visitor's day", 'number of loans')
    """

    most: int
    per: str | None = None
    distinct: bool = False
    each: int | None = None
    most_a_window: int | None = None
    row: str = "event"
    users: ClassVar[bool] = True

    @override
    def late_rows(self, window: str, unit: str, *, ids: bool) -> str:
        note = super().late_rows(window, unit, ids=ids)
        if ids or self.per is None:
            return note
        return (
            f"{note}, as one that came more than {LATE_DAYS} days (the "
            f"program's limit) after the end of its {unit}"
        )

    @override
    def bound_in_heading(self, window: str, unit: str) -> str:
        if self.each is not None or self.distinct:
            return ""
        bound = f", at most {self.most:,} of one {unit}"
        if self.most_a_window is not None and self.most_a_window < self.most:
            bound += f" and {self.most_a_window:,} in a {window}"
        return bound

    def _may_exceed(self, cut: Windows, groups: int | None) -> bool:
        """Return False if a limit for each window already keeps the bound: ``most`` is at least
        this limit times the number of windows in a period.
        """
        a_window = self.most_a_window or self.most + 1
        if self.distinct:  # once in each group
            a_window = min(a_window, 1 if groups is None else groups or a_window)
        return self.most < cut.windows_within(self.per) * a_window

    @override
    def beyond(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return words for what the bound leaves out, if it may leave out anything."""
        count = f"{self.most:,}"
        if self.each is not None:
            if groups is None or 0 < groups <= self.most:
                return None
            return f"groups beyond {count} of each {unit}"
        if self.distinct:
            if not self._may_exceed(cut, groups):
                return None
            periods = plural(cut.period or f"period of {cut.every}")
            return (
                f"{periods}{'' if groups is None else ' and groups'} beyond {count} of each {unit}"
            )
        if self.most_a_window is None:
            return f"rows beyond {count} of each {unit}"
        return f"rows beyond {count} of each {unit}, or {self.most_a_window:,} of it in one window,"

    @override
    def late_note(self, cut: Windows, unit: str, groups: int | None) -> str | None:
        """Return a note that counts are too low in the last windows of a period.

        A user's rows count in order of time until the bound is reached
        (`counton.run.contribution_choice`).
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
    def subject(self, unit: str, groups: int | None, *, windows_only: bool) -> str:
        if self.each is None:
            return self.cells_count(unit, windows_only=windows_only)
        users = f"number of distinct {plural(unit)}"
        if groups is None or 0 < groups <= self.most:
            return users
        first = "first group" if self.most == 1 else f"first {self.most:,} groups"
        return f"{users} (each in the {first} alone)"

    @override
    def cells_count(self, unit: str, *, windows_only: bool) -> str:
        if not self.distinct:
            return f"number of {plural(self.row)}"
        users = plural(unit.removesuffix(self.of("")))
        return (
            f"number of distinct {users}"
            if windows_only
            else f"number of {users}, each once in a window"
        )

    @override
    def with_groups(self, each: int) -> ContributionRule:
        return replace(self, each=each)

    @override
    def bounding(
        self, row: ContributionBound, norms: tuple[int, int] | None = None
    ) -> ContributionBound:
        """Return the bound on the change by all rows of one unit.

        Args:
            row: the bound of one row; with ``each``, of a unit's rows in one group.
            norms: 1-norm and squared 2-norm that the statistic knows to be smaller than ``most``
                rows'.

        Raises:
            InvalidInputError: the bound holds for each window, but a row counts in several ...
                guarantee does not protect the presence of a row.

        >>> print(UserLevel(3).bounding(ContributionBound.add_remove(unit="visitor")))
        one visitor added or removed, with at most 3 events counted, each by at most 1, in any cells
        and steps
        """
        if row.relation == "replace":
            raise InvalidInputError(
                f"{field('user')} hides whether a user is in the data, but "
                f"{field('replace', True)} hides only the values of rows; leave one of them out"
            )
        once: Literal["group"] | None = None if self.each is None else "group"
        if row.pattern is None:
            a_step = self.most_a_window
            most = self.most * (row.most or 1)
            return ContributionBound.events(
                most, most_a_step=a_step, once=once, bounds=row, unit=row.unit
            )
        if self.most_a_window is not None:
            raise InvalidInputError(
                f"{field('max_contributions_per_window', self.most_a_window)} is only for counts "
                "and sums, and "
                "here each row changes several numbers; leave it out"
            )
        assert isinstance(row.pattern, BoundedChange)
        rows_together = replace(row.pattern.scaled_by(self.most), once=False)
        pattern = BoundedChange(*norms) if norms else rows_together
        rows = f"up to {self.most:,} rows count, each a row" if self.most > 1 else "one row counts,"
        words = f"of whom {rows} {row.words}"
        return ContributionBound.of_pattern(pattern, words, unit=row.unit)


def counting_from_dict(bound: Mapping[str, Any] | None) -> ContributionRule:
    """Rebuild the result of `ContributionRule.to_dict`."""
    if bound is None:
        return EventLevel()
    return BoundedUpstream(**bound) if "moves" in bound else UserLevel(**bound)


#: The published numbers of each step: the total so far, the step's own number, both, or, for users
#: counted anew in each period, the number of that period.
SERIES: tuple[Series, ...] = get_args(Series)
#: Fields of a description that are texts, with their allowed values; (): any text or None.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "what": (),
    "by": (),
    "value": (),
    "unit": (),
    "series": SERIES,
    "metric": (),
}


def period_anew(statistic: Statistic, per: str | None) -> str | None:
    """Return the period, such as "1w", after which a statistic counts each user again, if any."""
    if per is None or statistic.statistics:
        return None
    return per if getattr(statistic, "counted_ranks", ()) else None


def counted_anew(period: str) -> str:
    """Return a note that one user may count several times, once in each period.

    >>> counted_anew("week")
    'each counted anew in each week'
    """
    return f"each counted anew in each {period}"


class RowsLeftOut(NamedTuple):
    """What some run of a stream was told to leave out, whether or not there was any.

    Attributes:
        drops: True for rows of undeclared groups.
        skips: columns whose missing values leave rows out.
        sets_aside: True for rows that cannot be read.
    """

    drops: bool = False
    skips: tuple[str, ...] = ()
    sets_aside: bool = False

    def to_dict(self) -> dict[str, Any]:
        skips = {"skips": [*self.skips]} if self.skips else {}
        facts = {"drops": True} if self.drops else {}
        return facts | skips | ({"sets_aside": True} if self.sets_aside else {})


@dataclass(frozen=True, kw_only=True)
class ReleaseMetadata:
    """The public facts of a stream of events.

    Attributes:
        what: name of the statistic.
        by, value: columns of groups, and of values that are added up.
        cut: how rows are assigned to steps: `Windows`, `SingleTableWindow` (one step), or
            `UnwindowedSteps`.
        domain: names of the groups in the order of their cells; None: one total.
        unit: the protected unit.
        counting: `EventLevel`, `UserLevel` for each user, or `Ordered`.
        release: totals, counts of windows, or both; or the number in the period so far, for users
            who count again in each period.
        cells: whether groups are declared; if they are found, ``domain`` is empty.
        left_out: what some run was told to leave out.
        ids: True if rows have an id.
        marks: public notes on single windows.
        changes: how many changes of each unit the guarantee covers, where inputs hold all rows of
            windows, so that the last one is right; None where rows are new.

    >>> from counton.continual import Counter
    >>> from counton import Key, PureDP
    >>> from counton.strategies import Binary
    >>> terms = Counter(Binary(31), PureDP(1), key=Key.generate(), name="visits").design
    >>> facts = {"what": "count", "by": None, "value": None, "windows": None, "groups": None,
    ...          "unit": "visit", "people": None, "series": "cumulative", "metric": "mean",
    ...          "discovery": None}
    >>> described = ReleaseMetadata.of(terms, facts)
    >>> described.subject, described.groups, described.public() == facts
    ('number of visits', ('all',), True)
    """

    what: str
    statistic: AccumulatorStatistic
    by: str | None
    value: str | None
    cut: Windows
    domain: GroupNames | None
    unit: str
    guarantee: Guarantee
    contribution: ContributionBound
    strategy: StreamStrategy
    series: Series
    metric: str
    counting: ContributionRule = ADDED
    cells: Cells = DECLARED
    left_out: RowsLeftOut = attribute(default_factory=RowsLeftOut)
    ids: bool = False
    changes: int | None = None
    marks: tuple[WindowNote, ...] = ()

    @classmethod
    def of_stream(cls, terms: Design) -> ReleaseMetadata:
        """Return the description of a stream to which a program passes numbers, not events."""
        return cls(
            what="stream",
            statistic=statistic_kept(terms, "stream", None),
            by=None,
            value=None,
            cut=UnwindowedSteps(),
            domain=None,
            unit=terms.contribution.unit,
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            series="per-window" if terms.strategy.facts.workload == "windows" else "cumulative",
            metric="mean",
        )

    @property
    def window(self) -> str:
        """The word for one window, such as "day"."""
        return self.cut.period or f"period of {self.cut.every}"

    @property
    def ranks(self) -> bool:
        """True if the stream shows a ranking of undeclared groups."""
        return not self.cells.named_beforehand and statistic_named(self.what).ranks

    @property
    def series_names(self) -> tuple[str, ...]:
        """The series of counts and sums that are published, as in the column ``series``."""
        if self.series == "both":
            return CUMULATIVE, PER_WINDOW
        return (PER_WINDOW,) if self.series == "per-window" else (CUMULATIVE,)

    @property
    def shows_cells(self) -> bool:
        """True if the published numbers are the cells, as for counts and sums."""
        return self.statistic.additive and not self.ranks

    @property
    def kind(self) -> str:
        """Name of the statistic for messages; it says if groups were found."""
        ending = "" if self.cells.named_beforehand else " of groups that were found in the data"
        return f"{self.what}{ending}"

    @property
    def groups_apart(self) -> int | None:
        """Number of declared groups; None for one total."""
        return None if self.by is None else len(self.domain or ())

    def anew_every(self, of: Statistic | None = None) -> str | None:
        """Return the period, such as "1w", after which each user is counted again, if any."""
        return period_anew(self.inner if of is None else of, self.counting.per)

    def anew(self, of: Statistic | None = None) -> str | None:
        """Return that period as a word, such as "week"."""
        period = self.anew_every(of)
        return None if period is None else PERIODS.get(period, f"period of {period}")

    @property
    def counts_users(self) -> bool:
        """Whether numbers count distinct users, and not their rows."""
        if self.inner.counts_users:
            return True
        bounded = self.counting.distinct or self.counting.each is not None
        return bounded and self.statistic.additive and self.value is None

    @property
    def users_again(self) -> str | None:
        """The period, such as "week", after which the numbers count each user again.

        None: they count no users, or each user only once, ever.
        """
        if not self.counts_users:
            return None
        period = self.anew()
        if period is None and self.counting.distinct:
            return self.window
        return period

    @property
    def groups_of_user(self) -> int:
        """The largest number of groups in which one user counts at a time; 1 if rows count."""
        if not self.counts_users:
            return 1
        most = self.counting.most
        if self.counting.distinct and self.counting.most_a_window is not None:
            most = min(most, self.counting.most_a_window)
        if not self.cells.named_beforehand:
            return most
        groups = self.statistic.declares if self.domain is None else self.domain
        return 1 if groups is None else min(most, len(groups))

    @property
    def inner(self) -> AccumulatorStatistic:
        """The statistic of each group, or the statistic itself."""
        return inner_of(self.statistic)

    @property
    def groups(self) -> GroupNames:
        """Names of the groups of each step; ``["all"]`` for one total."""
        return GroupNames(["all"]) if self.domain is None else self.domain

    @property
    def subject(self) -> str:
        """Words for the counted or summed quantity, such as "number of visits"."""
        if self.value is not None and not getattr(self.inner, "counts_units", False):
            return f"sum of {self.value}"
        windows_only = self.series == "per-window"
        return self.counting.subject(self.unit, self.groups_apart, windows_only=windows_only)

    def public(self) -> dict[str, Any]:
        """Return the description as JSON values, without strategy and noise."""
        return {
            "what": self.what,
            "by": self.by,
            "value": self.value,
            "windows": self.cut.to_dict(local=True),
            "groups": None if self.domain is None else list(self.domain),
            "unit": self.unit,
            "people": self.counting.to_dict(),
            "series": self.series,
            "metric": self.metric,
            "discovery": self.cells.to_dict(),
            **({} if self.cut.goes_on else {"once": True}),
            **self.left_out.to_dict(),
            **({"ids": True} if self.ids else {}),
            **({} if self.changes is None else {"changes": self.changes}),
            **({"marks": [[*mark] for mark in self.marks]} if self.marks else {}),
        }

    @classmethod
    def of(cls, terms: Design, public: Mapping[str, Any]) -> ReleaseMetadata:
        """Rebuild a description from the design of its stream and the result of `public`.

        Raises:
            InvalidInputError: a field that must be a text, or one of some words, is not.
            LookupError, TypeError, ValueError: a field is missing or malformed.
        """
        for name, words in _WORDS.items():
            word = public[name]
            if not (word in words if words else word is None or isinstance(word, str)):
                raise InvalidInputError(
                    f"{name} in the description of the table is {quote(word)}, which counton does "
                    "not write: give the file as counton wrote it"
                )
        windows = public["windows"]
        groups = public["groups"]
        statistic = statistic_kept(terms, public["what"], public["value"])
        cut = cut_from_dict(windows, once=public.get("once", False))
        return ReleaseMetadata(
            what=public["what"],
            statistic=statistic,
            by=public["by"],
            value=public["value"],
            cut=cut,
            domain=None if groups is None else GroupNames(groups),
            unit=public["unit"],
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            series=public["series"],
            metric=public["metric"],
            counting=counting_from_dict(public["people"]),
            cells=cells_from_dict(public["discovery"]),
            left_out=RowsLeftOut(
                public.get("drops", False),
                tuple(public.get("skips", ())),
                public.get("sets_aside", False),
            ),
            ids=public.get("ids", False),
            changes=public.get("changes"),
            marks=tuple(WindowNote(*mark) for mark in public.get("marks", ())),
        )


def statistic_kept(terms: Design, keyword: str, value: str | None) -> AccumulatorStatistic:
    """Return the statistic in a stream's design; if it is a count or a sum, by its name ``keyword``
    and its column of values.
    """
    if terms.statistic is not None:
        return cast("AccumulatorStatistic", statistic_of(terms.statistic)[0])
    return statistic_of_rows(keyword, terms.contribution, counts=value is not None)


def cut_from_dict(kept: Mapping[str, Any] | None, *, once: bool) -> Windows:
    """Rebuild the result of `Windows.to_dict`; without windows, ``once`` decides."""
    if kept is None:
        return SingleTableWindow() if once else UnwindowedSteps()
    start = datetime.fromisoformat(kept["from"])
    every = kept["every"]
    steps = kept["steps"]
    timezone = kept["timezone"]
    if "versions" in kept:
        return RevisableWindows(start, every, steps, timezone, kept["versions"])
    return Windows(start, every, steps, timezone)

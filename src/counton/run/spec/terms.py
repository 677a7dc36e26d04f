"""The typed values into which a job is parsed.

What excludes each other is a type: a stream has windows with an end, without one, or revised ones;
an input is a snapshot, or holds new rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from typing_extensions import override

from counton.base.arguments import DEFAULT_TOP
from counton.base.series import Series
from counton.io.declared_groups import refuse_long_terms
from counton.io.error_policy import Policies
from counton.privacy import ZCDP, ApproxDP, ContributionBound, ExpiringDP, ExpiringZCDP, PureDP
from counton.privacy.contribution import Relation
from counton.privacy.contribution_rules import (
    EVENT_LEVEL,
    BoundedUpstream,
    ContributionRule,
    UserLevel,
)
from counton.results.display import DisplaySelection
from counton.results.release import ChartWords
from counton.statistics import AccumulatorStatistic, Grouped, TopK
from counton.statistics.average import undeclared_variant
from counton.statistics.report_members import GroupedRows
from counton.strategies import Expiring as ExpiringStrategy
from counton.strategies import StreamStrategy
from counton.windowing.groups import GroupNames
from counton.windowing.windows import RevisableWindows, SingleTableWindow, Windows, revisions_in

if TYPE_CHECKING:
    from counton.strategies.workloads import RecentWorkload

#: Default of ``max-empty-windows``: most windows without a row, one after the other, that a run
#: releases.
MAX_EMPTY_WINDOWS = 2
#: The same if a job states which windows its input covers: then each such window may be a hole.
MAX_EMPTY_WINDOWS_OF_LOOKBACK = 0


# ------------------------------------------------------------------------------------- statistic
@dataclass(frozen=True)
class StatisticOfRows:
    """A statistic of the core, and the columns of a row that it reads.

    Attributes:
        name: name of the statistic in jobs.
        of_group: the statistic of the rows of one group, before it knows the noise.
        columns: columns of the values of a row, in the order in which the statistic reads them.
    """

    name: str
    of_group: AccumulatorStatistic
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that no column is named twice, which was refused with the options of the job."""
        assert len({*self.columns}) == len(self.columns)

    def of_groups(self, groups: GroupNames) -> AccumulatorStatistic:
        """Return the statistic of the rows of several groups."""
        statistic_of_groups = self.of_group.by_groups(groups)
        if statistic_of_groups is not None:
            return statistic_of_groups
        refuse_long_terms(groups)
        return Grouped(self.of_group, groups)

    def of_discovered_groups(self) -> AccumulatorStatistic:
        """Return the statistic of groups that are found by their number of rows."""
        statistic_of_groups = undeclared_variant(self.of_group)
        # The jobs of other statistics have no option for such groups.
        assert statistic_of_groups.additive or statistic_of_groups.row_total is not None
        return statistic_of_groups

    def in_report(self, by: str, groups: GroupNames) -> StatisticOfRows:
        """Return the statistic that a report computes in each of several groups."""
        statistic_of_groups = GroupedRows(self.of_group, groups)
        return StatisticOfRows(self.name, statistic_of_groups, (by, *self.columns))

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that hold numbers; others hold labels."""
        parts = zip(self.columns, self.of_group.parts, strict=True)
        return tuple(column for column, part in parts if part.kind != "label")

    @property
    def value_column(self) -> str | None:
        """The column of values, if the value of a row is a single number."""
        is_one_number = len(self.columns) == 1 and self.number_columns == self.columns
        return self.columns[0] if is_one_number else None


@dataclass(frozen=True)
class RankingOfGroups(StatisticOfRows):
    """The groups with the most rows: all are counted, and the largest are shown.

    Attributes:
        shown: number of groups that are shown, unless a later job says otherwise.
    """

    shown: int = DEFAULT_TOP
    neighbours: Relation = "add_remove"

    @override
    def of_groups(self, groups: GroupNames) -> TopK:
        return TopK(groups, self.shown, neighbours=self.neighbours)

    @override
    def in_report(self, by: str, groups: GroupNames) -> StatisticOfRows:
        return StatisticOfRows(self.name, self.of_groups(groups), (by,))


# ------------------------------------------------------------------------------------- windowing
@dataclass(frozen=True)
class _TimeWindows:
    """What all windows of time have. Impossible windows are refused when an object is made.

    Attributes:
        time: the column of event times.
        every: the length of a window.
        start: the begin of the first window.
        timezone: the time zone of windows and of times without a zone.
        windows: the windows, with their edges.
    """

    time: str
    every: str
    start: datetime
    timezone: str
    windows: Windows = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", self._make_windows())

    def _make_windows(self) -> Windows:
        """Return the windows, with their edges."""
        raise NotImplementedError


@dataclass(frozen=True)
class FixedHorizon(_TimeWindows):
    """Windows up to a last one, each released once."""

    n_windows: int

    @property
    def horizon(self) -> int:
        """Number of steps in which a row may change a release."""
        return self.n_windows

    @override
    def _make_windows(self) -> Windows:
        return Windows(self.start, self.every, self.n_windows, self.timezone)


@dataclass(frozen=True)
class Endless(_TimeWindows):
    """Windows without a last one, each released once; about how many are expected."""

    expected_windows: int
    horizon = None

    @override
    def _make_windows(self) -> Windows:
        return Windows.endless(self.start, self.every, self.timezone)


@dataclass(frozen=True)
class Revised(_TimeWindows):
    """Windows that are released anew for late rows, until they are final."""

    n_windows: int
    allowed_lateness: str
    windows: RevisableWindows = field(init=False, repr=False, compare=False)

    @property
    def n_revisions(self) -> int:
        """Number of later runs that revise a window, until it is final."""
        return revisions_in(self.allowed_lateness, self.every)

    @property
    def horizon(self) -> int:
        """Number of versions of a window: noise is not shared between windows."""
        return self.n_revisions + 1

    @override
    def _make_windows(self) -> RevisableWindows:
        return RevisableWindows(
            self.start, self.every, self.n_windows, self.timezone, self.n_revisions + 1
        )


@dataclass(frozen=True)
class ExpiringWindows(_TimeWindows):
    """Windows that are each released once, under a guarantee that weakens as rows age.

    Attributes:
        n_windows: number of windows; None: without a last one.
        strategy: noise for each age of a row.
    """

    n_windows: int | None
    strategy: ExpiringStrategy
    horizon = None

    @override
    def _make_windows(self) -> Windows:
        if self.n_windows is None:
            return Windows.endless(self.start, self.every, self.timezone)
        return Windows(self.start, self.every, self.n_windows, self.timezone)


@dataclass(frozen=True)
class SingleTable:
    """One table of all rows, which have no times: it is released once."""

    time = ""
    timezone = "UTC"
    horizon = 1
    windows = SingleTableWindow()


Windowing = FixedHorizon | Endless | ExpiringWindows | Revised | SingleTable


# ---------------------------------------------------------------------------------------- groups
@dataclass(frozen=True)
class Ungrouped:
    """One total of all rows."""

    column = None
    other = None
    names = None
    declared = None
    number = None


@dataclass(frozen=True)
class DeclaredGroups:
    """Groups with public names, and perhaps one more that counts the rows of all others."""

    column: str
    declared: GroupNames
    other: str | None

    @property
    def names(self) -> GroupNames:
        """All groups, in the order of their cells; that of all others is the last."""
        return self.declared if self.other is None else self.declared.plus([self.other])

    @property
    def number(self) -> int:
        """Number of groups."""
        return len(self.declared) + (self.other is not None)


@dataclass(frozen=True)
class DiscoveredGroups:
    """Groups that nobody declared, each shown once it is large enough."""

    column: str
    other = None
    names = None
    declared = None
    number = None


Groups = Ungrouped | DeclaredGroups | DiscoveredGroups


# ---------------------------------------------------------------------------------- privacy unit
class PrivacyUnit(Protocol):
    """What the guarantee protects, and how much of it may change a release.

    Attributes:
        word: name of the unit in the ledger.
        user_column: column of users; None if single events are protected.
    """

    @property
    def word(self) -> str:
        """Name of the unit in the ledger."""

    @property
    def user_column(self) -> str | None:
        """Column of users; None if single events are protected."""

    @property
    def rule(self) -> ContributionRule:
        """The core's rule that says which rows of a unit count."""

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what one unit changes.

        Args:
            statistic: the statistic of all groups, once its parameters are resolved.
        """


@dataclass(frozen=True)
class Event:
    """Each row is one protected unit."""

    word: str
    user_column: ClassVar[None] = None
    rule: ClassVar[ContributionRule] = EVENT_LEVEL

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what one row changes."""
        return replace(statistic.contribution(batched=True), unit=self.word)


@dataclass(frozen=True)
class CountedEvent:
    """A row stands for as many events as a column says; each of them is a unit.

    Attributes:
        column: column of the numbers of events.
    """

    word: str
    column: str
    user_column: ClassVar[None] = None
    rule: ClassVar[ContributionRule] = EVENT_LEVEL

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what one counted event changes."""
        return replace(statistic.contribution(batched=True), unit=self.word)


@dataclass(frozen=True)
class UserOfCounts:
    """A user, of whom a table of counts has a bounded number of events.

    Attributes:
        column: column of the numbers of events.
        max_contributions: largest number of events of one user, which the maker of the table
            ensured.
        event_name: what texts call one event.
    """

    word: str
    column: str
    max_contributions: int
    event_name: str
    user_column: ClassVar[None] = None

    @property
    def rule(self) -> ContributionRule:
        """The core's rule: rows were bounded before."""
        return BoundedUpstream(self.max_contributions, self.event_name)

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what all events of one user change."""
        row = replace(statistic.contribution(batched=True), unit=self.word)
        return self.rule.contribution_bound(row)


@dataclass(frozen=True)
class User:
    """A user, of whom a bounded number of rows counts, in all or in each period.

    Attributes:
        column: column of users.
        max_contributions: how many rows of a user count or, with ``max_contributions_per_group``,
            in how many groups.
        contribution_period: length of a period; None: the whole stream.
        max_contributions_per_window: how many rows count in one window; None: all that count.
        once_per_window: whether a user counts once in each window and group.
        event_name: what texts call one row.
        max_contributions_per_group: how many rows count in each group; None: the first bound holds
            for all groups together.
    """

    word: str
    column: str
    max_contributions: int
    contribution_period: str | None = None
    max_contributions_per_window: int | None = None
    once_per_window: bool = False
    event_name: str = UserLevel.event_name
    max_contributions_per_group: int | None = None

    @property
    def user_column(self) -> str:
        """Column of users."""
        return self.column

    @property
    def rule(self) -> UserLevel:
        """The core's rule."""
        return UserLevel(
            self.max_contributions,
            contribution_period=self.contribution_period,
            once_per_window=self.once_per_window,
            max_contributions_per_group=self.max_contributions_per_group,
            max_contributions_per_window=self.max_contributions_per_window,
            event_name=self.event_name,
        )

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what all counted rows of one user (and period) change."""
        row = replace(
            statistic.contribution(batched=True), unit=self.rule.protected_unit(self.word)
        )
        return self.rule.contribution_bound(row, statistic.norms_of_people(self.max_contributions))


@dataclass(frozen=True)
class DistinctUser:
    """A user, who counts once in the whole stream: once in each of at most some groups.

    Attributes:
        column: column of users.
        max_groups: in how many groups a user counts.
    """

    word: str
    column: str
    max_groups: int

    @property
    def user_column(self) -> str:
        """Column of users."""
        return self.column

    @property
    def rule(self) -> UserLevel:
        """The core's rule."""
        return UserLevel(self.max_groups, max_contributions_per_group=1)

    def contribution(self, statistic: AccumulatorStatistic) -> ContributionBound:
        """Return the bound on what one user changes."""
        row = replace(statistic.contribution(batched=True), unit=self.word)
        return self.rule.contribution_bound(row, statistic.norms_of_people(self.max_groups))


# ------------------------------------------------------------------------------------------ loss
#: The stated privacy loss is a guarantee.
Loss = PureDP | ApproxDP | ZCDP | ExpiringDP | ExpiringZCDP


@dataclass(frozen=True)
class WantedAccuracy:
    """The least loss with which intervals at the last step are no wider than wanted.

    Attributes:
        margins_of_error: largest half-widths of intervals, by name of the number.
        solve_for: the parameter of the loss that is made as small as possible.
        delta: delta of the guarantee; None: pure or zero-concentrated.
        expected_rows: public number of rows by the last window.
        confidence_level: confidence level of the intervals.
        over: number of last windows of which the statistic's numbers are shown; None: all.
        is_share_of_rows: whether one margin of error is stated, as a percentage of the rows.
    """

    margins_of_error: Mapping[str, float]
    solve_for: Literal["epsilon", "rho"]
    delta: Fraction | None
    expected_rows: int | None
    confidence_level: float
    over: int | None
    is_share_of_rows: bool


# ----------------------------------------------------------------------------------------- input
@dataclass(frozen=True)
class SnapshotRecognition:
    """Each input has all rows of the windows that it covers.

    They are compared with counted ones.
    """

    id_column: ClassVar[None] = None


@dataclass(frozen=True)
class FileRecognition:
    """Each row of a file is new. Digests of the files that were counted are kept."""

    id_column: ClassVar[None] = None


@dataclass(frozen=True)
class IdRecognition:
    """Each row has an id. Digests of the ids that were counted are kept.

    Attributes:
        id_column: column of the ids.
    """

    id_column: str


#: How a stream recognises a row that it has counted, so that the row counts once.
Recognition = SnapshotRecognition | FileRecognition | IdRecognition


@dataclass(frozen=True)
class Snapshot:
    """An input holds all rows of the windows that it covers.

    Attributes:
        lookback: length of time that it covers; None: all windows.
        repeats_rows: whether it has the rows of released windows, too. The result of a query with
            ``{since}`` has none.
    """

    lookback: str | None = None
    repeats_rows: bool = True
    has_only_new_rows: ClassVar[bool] = False


@dataclass(frozen=True)
class NewRows:
    """An input is made of files, each of whose rows is new unless the file was counted before."""

    lookback: ClassVar[None] = None
    repeats_rows: ClassVar[bool] = False
    has_only_new_rows: ClassVar[bool] = True


@dataclass(frozen=True)
class RowsWithIds:
    """Rows are new if their id is; inputs may repeat others.

    Attributes:
        column: column of the ids.
        repeats_rows: whether an input has the rows of released windows, too. Files of new rows have
            none, nor has the result of a query with ``{since}``.
    """

    column: str
    repeats_rows: bool
    lookback: ClassVar[None] = None

    @property
    def has_only_new_rows(self) -> bool:
        """Whether an input lacks rows that earlier inputs had, also of windows not released yet."""
        return not self.repeats_rows


InputKind = Snapshot | NewRows | RowsWithIds


# ----------------------------------------------------------------------------------------- whole
@dataclass(frozen=True)
class StreamTerms:
    """What a job asks of its stream: all that defines it, but for the chosen strategy.

    Attributes:
        widths: numbers of last windows whose sums are released, ascending.
        half_life: half-life of decayed sums in windows, if these are released.
        strategy: kind of strategy, "auto" for the best, or a strategy of the user's own.
        metric: error that the strategy minimises.
        is_simple: whether only strategies are considered that publish whole numbers.
        recognition: how rows are recognised that were counted.
        max_corrections: changes of a counted row that the guarantee covers.
        time_format: how times are written; None: ISO 8601.
        ambiguous: which moment a local time means that occurs twice.
    """

    statistic: StatisticOfRows
    windowing: Windowing
    groups: Groups
    privacy_unit: PrivacyUnit
    loss: Loss
    series: Series
    widths: tuple[int, ...]
    half_life: Fraction | None
    strategy: str | StreamStrategy
    metric: Literal["mean", "max"]
    is_simple: bool
    recognition: Recognition
    max_corrections: int
    time_format: str | None
    ambiguous: Literal["raise", "earliest", "latest"]

    @property
    def chooses_rows(self) -> bool:
        """Whether the rows that count are chosen one by one: of users, or by their ids."""
        return self.privacy_unit.user_column is not None or self.recognition.id_column is not None

    @property
    def workload(self) -> RecentWorkload | None:
        """Sums of recent windows that the strategy makes accurate; None: there are none."""
        if self.half_life is None and not self.widths:
            return None
        from counton.strategies.workloads import Decayed, sums_of_last_steps

        if self.half_life is not None:
            return Decayed(self.half_life)
        return sums_of_last_steps(self.series, self.widths)

    @property
    def column_names(self) -> list[str]:
        """All columns of rows that the stream reads."""
        named = [
            self.windowing.time,
            self.groups.column,
            *self.statistic.columns,
            self.privacy_unit.user_column,
            self.recognition.id_column,
        ]
        return list(dict.fromkeys(name for name in named if name))

    @cached_property
    def group_statistic(self) -> AccumulatorStatistic:
        """The core's statistic of the rows of one group, whose exact sums are kept."""
        if isinstance(self.groups, DiscoveredGroups):
            return self.statistic.of_discovered_groups()
        return self.statistic.of_group

    def statistic_of_groups(self) -> AccumulatorStatistic:
        """Return the core's statistic of all groups, before its parameters are resolved."""
        match self.groups:
            case Ungrouped():
                return self.statistic.of_group
            case DeclaredGroups():
                return self.statistic.of_groups(self.groups.names)
            case DiscoveredGroups():
                return self.group_statistic


#: The moment up to which windows are released: the clock's; that of the newest row; or a stated
#: one. "now" is the clock's too, but a stream of the past must state it. "end" is that of the last
#: window, whatever the clock says: for a single table.
Until = datetime | Literal["clock", "now", "latest-event", "end"]


@dataclass(frozen=True)
class RunOptions:
    """How one run reads its rows, and which windows it releases.

    Attributes:
        input: what the input holds.
        release_delay: microseconds from the end of a window to its release.
        max_empty_windows: most windows without a row, one after the other, that it releases.
        allow_empty_windows: whether the run releases even if rows seem to be missing.
        unlisted_groups: rows of undeclared groups are an error, or are dropped.
        display: which of the released numbers a table shows.
    """

    input: InputKind
    until: Until
    release_delay: int
    max_empty_windows: int
    allow_empty_windows: bool
    unlisted_groups: Literal["error", "drop"]
    policies: Policies
    display: DisplaySelection


@dataclass(frozen=True)
class OutputFiles:
    """The files that a run writes.

    Attributes:
        table, chart: paths; None: no such file.
        chart_form: title, label of the axis, source line, and width in inches of the chart.
    """

    table: Path | None = None
    chart: Path | None = None
    chart_form: ChartWords = field(default_factory=ChartWords)

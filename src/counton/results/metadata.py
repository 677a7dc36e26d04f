"""The public description of a stream: together with published values all that a reader needs.

It contains no state, no key and no exact number. Every file of released numbers has one as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple, cast, get_args

from counton.base.columns import list_in_words
from counton.base.errors import InvalidInputError
from counton.base.exact import exact, quote, text
from counton.base.lengths import PERIODS, days_in, length_of_windows
from counton.base.series import Series
from counton.base.table_schema import CUMULATIVE, DECAYED, PER_WINDOW, ROLLING
from counton.base.wording import plural
from counton.continual import Design
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.contribution_rules import (
    EVENT_LEVEL,
    ContributionRule,
    contribution_rule_from_dict,
)
from counton.results.window_notes import WindowNote
from counton.statistics import AccumulatorStatistic, Statistic
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_named
from counton.statistics.count import statistic_of_rows
from counton.statistics.discovery import DECLARED, Cells, cells_from_dict
from counton.statistics.live_statistic import statistic_of
from counton.strategies import StreamStrategy
from counton.windowing.groups import GroupNames
from counton.windowing.periods import made_of_windows
from counton.windowing.windows import (
    RevisableWindows,
    SingleTableWindow,
    UnwindowedSteps,
    Windows,
)

#: The published numbers of each step: the cumulative total, the step's own number, both, or, for
#: users counted once in each period, the number of that period, or sums of the last steps.
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


def counting_period_of(statistic: Statistic, per: str | None) -> str | None:
    """Return the period, such as "1w", after which a statistic counts each user again, if any."""
    if per is None or statistic.statistics:
        return None
    counts_users = isinstance(statistic, AccumulatorStatistic) and statistic.counted_ranks
    return per if counts_users else None


def counted_anew(period: str) -> str:
    """Return a note that one user may count several times, once in each period.

    >>> counted_anew("week")
    'each counted once in each week'
    """
    return f"each counted once in each {period}"


class PublishedSeries(NamedTuple):
    """One series of counts or sums, with a number for each window and group.

    Attributes:
        name: as in the column ``series``.
        width: how many last windows are added up; None: not a rolling sum.
    """

    name: str
    width: int | None = None


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
        statistic_name: name of the statistic; "stream" if a program passes numbers, not events.
        group_by, value: columns of groups, and of values that are added up.
        windows: how rows are assigned to steps: `Windows`, `SingleTableWindow` (one step), or
            `UnwindowedSteps`.
        domain: names of the groups in the order of their cells; None: one total.
        other_group: the last of them, if it has the rows of groups that are not listed.
        privacy_unit: the protected unit.
        contribution_rule: `EventLevel`, `UserLevel` or `BoundedUpstream`.
        series: totals, counts of windows, or both; or the number in the period to date, for users
            who count again in each period; or sums of the last windows.
        widths: how many last windows are added up, ascending, if such sums are published, or
            averages of such sums.
        half_life: number of windows after which a window counts half, of decayed sums or averages.
        cells: whether groups are declared; if they are found, ``domain`` is empty.
        left_out: what some run was told to leave out.
        has_row_ids: True if rows have an id.
        notes: public notes on single windows.
        max_corrections: how many changes of each unit the guarantee covers, where inputs hold all
            rows of windows, so that the last one is right; None where rows are new.

    >>> from counton.continual import Counter
    >>> from counton import Key, PureDP
    >>> from counton.strategies import Binary
    >>> design = Counter(Binary(31), PureDP(1), key=Key.generate(), name="visits").design
    >>> facts = {"what": "count", "by": None, "value": None, "windows": None, "groups": None,
    ...          "unit": "visit", "people": None, "series": "cumulative", "metric": "mean",
    ...          "discovery": None}
    >>> described = ReleaseMetadata.of(design, facts)
    >>> described.subject, described.groups, described.public() == facts
    ('number of visits', ('all',), True)
    """

    statistic_name: str
    statistic: AccumulatorStatistic
    group_by: str | None
    value: str | None
    windows: Windows
    domain: GroupNames | None
    privacy_unit: str
    guarantee: Guarantee
    contribution: ContributionBound
    strategy: StreamStrategy
    series: Series
    metric: str
    contribution_rule: ContributionRule = EVENT_LEVEL
    cells: Cells = DECLARED
    left_out: RowsLeftOut = field(default_factory=RowsLeftOut)
    has_row_ids: bool = False
    max_corrections: int | None = None
    notes: tuple[WindowNote, ...] = ()
    widths: tuple[int, ...] = ()
    half_life: Fraction | None = None
    other_group: str | None = None

    @classmethod
    def of_stream(cls, design: Design) -> ReleaseMetadata:
        """Return the description of a stream to which a program passes numbers, not events.

        Args:
            design: the design of the stream.
        """
        return cls(
            statistic_name="stream",
            statistic=statistic_kept(design, "stream", None),
            group_by=None,
            value=None,
            windows=UnwindowedSteps(),
            domain=None,
            privacy_unit=design.contribution.unit,
            guarantee=design.guarantee,
            contribution=design.contribution,
            strategy=design.strategy,
            series="per-window" if design.strategy.facts.release == "windows" else "cumulative",
            metric="mean",
        )

    @property
    def window(self) -> str:
        """The word for one window, such as "day"."""
        return self.windows.period or f"period of {self.windows.every}"

    @property
    def ranks(self) -> bool:
        """True if the stream shows a ranking of undeclared groups."""
        return not self.cells.named_beforehand and statistic_named(self.statistic_name).ranks

    @property
    def published_series(self) -> tuple[PublishedSeries, ...]:
        """The series of counts and sums that are published."""
        names: dict[str, tuple[str, ...]] = {
            "both": (CUMULATIVE, PER_WINDOW),
            "per-window": (PER_WINDOW,),
            "rolling": (),
            "decayed": (DECAYED,),
        }
        plain = names.get(self.series, (CUMULATIVE,))
        rolling = [PublishedSeries(ROLLING, width) for width in self.widths]
        return (*map(PublishedSeries, plain), *rolling)

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of `published_series`, each once."""
        return tuple(dict.fromkeys(series.name for series in self.published_series))

    @property
    def is_recent(self) -> bool:
        """True if sums or averages of the last windows, or decayed ones, are published."""
        return bool(self.widths) or self.half_life is not None

    @property
    def recent_noun(self) -> str:
        """The word for one number of the last windows: "sum", or "average" for an average."""
        return "sum" if self.statistic.additive else self.statistic_name

    @property
    def half_life_in_words(self) -> str:
        """Words for the half-life of decayed sums, such as "7 days"."""
        assert self.half_life is not None
        number = f"{float(self.half_life):,g}"
        noun = self.windows.period or f"window of {self.windows.every}"
        return f"{number} {noun if number == '1' else plural(noun)}"

    @property
    def last_windows_in_words(self) -> str:
        """Words for the last windows of all rolling sums, such as "last 7 and 28 days"."""
        *others, widest = self.widths
        words = self.last_in_words(widest)
        if not others or self.windows.period is None:
            return list_in_words([self.last_in_words(width) for width in self.widths])
        return words.replace("last ", f"last {', '.join(f'{width:,}' for width in others)} and ", 1)

    def last_in_words(self, width: int) -> str:
        """Return words for the last windows of a rolling sum, such as "last 7 days".

        Args:
            width: number of windows.
        """
        if self.windows.period is None:
            return f"last {length_of_windows(width, self.windows.every)}"
        if width == 1:
            return f"last {self.windows.period}"
        return f"last {width:,} {self.windows.period}s"

    @property
    def shows_cells(self) -> bool:
        """True if the published numbers are the cells, as for counts and sums."""
        return self.statistic.additive and not self.ranks

    @property
    def kind(self) -> str:
        """Name of the statistic for messages; it says if groups were found."""
        ending = "" if self.cells.named_beforehand else " of groups that were found in the data"
        return f"{self.statistic_name}{ending}"

    @property
    def groups_apart(self) -> int | None:
        """Number of declared groups; None for one total."""
        return None if self.group_by is None else len(self.domain or ())

    def counting_period(self, of: Statistic | None = None) -> str | None:
        """Return the period after which each user is counted again, if there is one.

        Args:
            of: a statistic of the report; None: the statistic of the stream.

        Returns:
            Text such as "1w"; None if each user counts once in the stream, or if users are not
            counted.
        """
        return counting_period_of(
            self.inner if of is None else of, self.contribution_rule.contribution_period
        )

    def counting_period_in_words(self, of: Statistic | None = None) -> str | None:
        """Return the period of `counting_period` as a word, such as "week".

        Args:
            of: as in `counting_period`.
        """
        period = self.counting_period(of)
        return None if period is None else PERIODS.get(period, f"period of {period}")

    @property
    def rule_in_words(self) -> ContributionRule:
        """The contribution rule as texts describe it.

        A count without groups that takes one row of each user in a window is a number of users.
        """
        counts_rows = self.statistic.additive and self.value is None
        if not counts_rows or self.group_by is not None:
            return self.contribution_rule
        if self.is_recent:  # sums of windows count a user several times
            return self.contribution_rule
        return self.contribution_rule.as_users_in(self.windows.every)

    @property
    def counts_users(self) -> bool:
        """Whether numbers count distinct users, and not their rows."""
        if self.inner.counts_users:
            return True
        bounded = (
            self.rule_in_words.once_per_window
            or self.contribution_rule.max_contributions_per_group is not None
        )
        return bounded and self.statistic.additive and self.value is None

    @property
    def user_noun(self) -> str:
        """What published texts call a user, such as "student"; the privacy unit without a period.

        The privacy unit of rows whose users are not bounded is no user.
        """
        if not self.contribution_rule.bounds_users:
            return "user"
        return self.privacy_unit.removesuffix(self.contribution_rule.protected_unit(""))

    @property
    def users_again(self) -> str | None:
        """The period, such as "week", after which the numbers count each user again.

        None: they count no users, or each user only once, ever.
        """
        if not self.counts_users:
            return None
        period = self.counting_period_in_words()
        if period is None and self.rule_in_words.once_per_window:
            return self.shorter_period or self.window
        return period

    @property
    def period_in_window(self) -> str | None:
        """The contribution period, such as "day", if one window may have parts of several."""
        period = self.contribution_rule.contribution_period
        if period is None or made_of_windows(self.windows, period):
            return None
        return PERIODS.get(period, f"period of {period}")

    @property
    def shorter_period(self) -> str | None:
        """The contribution period, such as "day", if it is shorter than a window."""
        period = self.contribution_rule.contribution_period
        if period is None or self.period_in_window is None:
            return None
        return self.period_in_window if days_in(period) < days_in(self.windows.every) else None

    @property
    def groups_of_user(self) -> int:
        """The largest number of groups in which one user counts at a time; 1 if rows count."""
        if not self.counts_users:
            return 1
        most = self.contribution_rule.max_contributions
        if (
            self.contribution_rule.once_per_window
            and self.contribution_rule.max_contributions_per_window is not None
        ):
            most = min(most, self.contribution_rule.max_contributions_per_window)
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
        if self.value is not None and not self.inner.counts_units:
            return f"sum of {self.value}"
        period = self.shorter_period
        if period is not None and self.rule_in_words.once_per_window:
            users = plural(self.user_noun)
            return f"number of {users}, each once in each {period}"
        windows_only = self.series == "per-window"
        return self.rule_in_words.subject(
            self.privacy_unit, self.groups_apart, windows_only=windows_only
        )

    def recent_sums(self) -> dict[str, object]:
        """Return the numbers of windows of rolling and decayed sums as JSON values, if any."""
        last = {"last": list(self.widths)} if self.widths else {}
        half_life = {} if self.half_life is None else {"half_life": text(self.half_life)}
        return {**last, **half_life}

    def public(self) -> dict[str, object]:
        """Return the description as JSON values, without strategy and noise."""
        return {
            "what": self.statistic_name,
            "by": self.group_by,
            "value": self.value,
            "windows": self.windows.to_dict(local=True),
            "groups": None if self.domain is None else list(self.domain),
            **({} if self.other_group is None else {"other_group": self.other_group}),
            "unit": self.privacy_unit,
            "people": self.rule_in_words.to_dict(),  # distinct users, wherever texts say so
            "series": self.series,
            **self.recent_sums(),
            "metric": self.metric,
            "discovery": self.cells.to_dict(),
            **({} if self.windows.is_recurring else {"once": True}),
            **self.left_out.to_dict(),
            **({"ids": True} if self.has_row_ids else {}),
            **({} if self.max_corrections is None else {"changes": self.max_corrections}),
            **({"marks": [[*mark] for mark in self.notes]} if self.notes else {}),
        }

    @classmethod
    def of(cls, design: Design, public: Mapping[str, Any]) -> ReleaseMetadata:
        """Rebuild a description from the design of its stream and the result of `public`.

        Args:
            design: the design of the stream.
            public: the JSON values that `public` returned, as a released file has them.

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
        statistic = statistic_kept(design, public["what"], public["value"])
        windows_of_stream = windows_from_dict(windows, once=public.get("once", False))
        return ReleaseMetadata(
            statistic_name=public["what"],
            statistic=statistic,
            group_by=public["by"],
            value=public["value"],
            windows=windows_of_stream,
            domain=None if groups is None else GroupNames(groups),
            privacy_unit=public["unit"],
            guarantee=design.guarantee,
            contribution=design.contribution,
            strategy=design.strategy,
            series=public["series"],
            metric=public["metric"],
            contribution_rule=contribution_rule_from_dict(public["people"]),
            cells=cells_from_dict(public["discovery"]),
            left_out=RowsLeftOut(
                drops=public.get("drops", False),
                skips=tuple(public.get("skips", ())),
                sets_aside=public.get("sets_aside", False),
            ),
            has_row_ids=public.get("ids", False),
            max_corrections=public.get("changes"),
            notes=tuple(map(WindowNote.from_saved, public.get("marks", ()))),
            widths=_checked_widths(public),
            half_life=_checked_half_life(public),
            other_group=_checked_other_group(public),
        )


def _checked_widths(public: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the widths of rolling sums in a description, which are ascending integers."""
    saved = public.get("last", [])
    widths = tuple(saved)
    is_right = all(type(width) is int and width > 0 for width in widths)
    is_right = is_right and sorted({*widths}) == [*widths]
    if not is_right or (public["series"] == "rolling" and not widths):
        raise InvalidInputError(
            f"last in the description of the table is {quote(saved)}, which counton does not "
            "write: give the file as counton wrote it"
        )
    return widths


def _checked_half_life(public: Mapping[str, Any]) -> Fraction | None:
    """Return the half-life of decayed sums in a description."""
    saved = public.get("half_life")
    if (public["series"] == "decayed") != (saved is not None):
        raise InvalidInputError(
            f"half_life in the description of the table is {quote(saved)}, which counton does not "
            "write: give the file as counton wrote it"
        )
    return None if saved is None else exact(saved, "half_life")


def _checked_other_group(public: Mapping[str, Any]) -> str | None:
    """Return the group of unlisted groups in a description, which is the last one."""
    saved = public.get("other_group")
    groups = public["groups"] or [None]
    if saved is not None and saved != groups[-1]:
        raise InvalidInputError(
            f"other_group in the description of the table is {quote(saved)}, which counton does "
            "not write: give the file as counton wrote it"
        )
    return cast("str | None", saved)


def statistic_kept(design: Design, keyword: str, value: str | None) -> AccumulatorStatistic:
    """Return the statistic in a stream's design; if it is a count or a sum, by its name ``keyword``
    and its column of values.
    """
    if design.statistic is not None:
        return cast("AccumulatorStatistic", statistic_of(design.statistic)[0])
    return statistic_of_rows(keyword, design.contribution, counts=value is not None)


def windows_from_dict(kept: Mapping[str, Any] | None, *, once: bool) -> Windows:
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

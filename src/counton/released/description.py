"""The public description of a stream: together with published values all that a reader needs.

It contains no state, no key and no exact number. Every file of released numbers has one as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast, get_args

from counton.base.errors import InvalidInput
from counton.base.exact import quote
from counton.base.lengths import PERIODS
from counton.frame.groups import GroupNames
from counton.frame.windows import Once, PlainSteps, RevisedWindows, Windows
from counton.numbers import Design
from counton.privacy import Contribution, Guarantee
from counton.released.counting import ADDED, Counting, counting_from_dict
from counton.released.marks import WindowMark
from counton.statistics import Statistic, TallyStatistic
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_named
from counton.statistics.count import statistic_of_rows
from counton.statistics.discovery import DECLARED, Cells, cells_from_dict
from counton.statistics.live_statistic import statistic_of
from counton.strategies import StreamStrategy

#: The published numbers of each step: the total so far, the step's own number, both, or, for users
#: counted anew in each period, the number of that period.
Published = Literal["totals", "windows", "both", "periods"]
RELEASES: tuple[Published, ...] = get_args(Published)
#: Fields of a description that are texts, with their allowed values; (): any text or None.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "what": (),
    "by": (),
    "value": (),
    "unit": (),
    "release": RELEASES,
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
        found = {"drops": True} if self.drops else {}
        return found | skips | ({"sets_aside": True} if self.sets_aside else {})


@dataclass(frozen=True, kw_only=True)
class Description:
    """The public facts of a stream of events.

    Attributes:
        what: name of the statistic.
        by, value: columns of groups, and of values that are added up.
        cut: how rows are assigned to steps: `Windows`, `Once` (one step), or `PlainSteps`.
        domain: names of the groups in the order of their cells; None: one total.
        unit: the protected unit.
        counting: `Added`, `Bounded` for each user, or `Ordered`.
        release: totals, counts of windows, or both; or the number in the period so far, for users
            who count again in each period.
        cells: whether groups are declared; if they are found, ``domain`` is empty.
        left_out: what some run was told to leave out.
        ids: True if rows have an id.
        marks: public notes on single windows.
        changes: how many changes of each unit the guarantee covers, where inputs hold all rows of
            windows, so that the last one is right; None where rows are new.

    >>> from counton.numbers import Counter
    >>> from counton import Key, PureDP
    >>> from counton.strategies import Binary
    >>> terms = Counter(Binary(31), PureDP(1), key=Key.generate(), name="visits").design
    >>> facts = {"what": "count", "by": None, "value": None, "windows": None, "groups": None,
    ...          "unit": "visit", "people": None, "release": "totals", "metric": "mean",
    ...          "discovery": None}
    >>> described = Description.of(terms, facts)
    >>> described.subject, described.groups, described.public() == facts
    ('number of visits', ('all',), True)
    """

    what: str
    statistic: TallyStatistic
    by: str | None
    value: str | None
    cut: Windows
    domain: GroupNames | None
    unit: str
    guarantee: Guarantee
    contribution: Contribution
    strategy: StreamStrategy
    release: Published
    metric: str
    counting: Counting = ADDED
    cells: Cells = DECLARED
    left_out: RowsLeftOut = attribute(default_factory=RowsLeftOut)
    ids: bool = False
    changes: int | None = None
    marks: tuple[WindowMark, ...] = ()

    @classmethod
    def of_stream(cls, terms: Design) -> Description:
        """Return the description of a stream to which a program passes numbers, not events."""
        return cls(
            what="stream",
            statistic=statistic_kept(terms, "stream", None),
            by=None,
            value=None,
            cut=PlainSteps(),
            domain=None,
            unit=terms.contribution.unit,
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            release="windows" if terms.strategy.facts.workload == "windows" else "totals",
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
    def of_windows(self) -> str:
        """Prefix of columns about single windows: "window_", or "" for versions alone."""
        return "" if self.cut.lags and self.release == "windows" else "window_"

    @property
    def shows_cells(self) -> bool:
        """True if the published numbers are the cells, as for counts and sums."""
        return self.statistic.additive and not self.ranks

    @property
    def kind(self) -> str:
        """Name of the statistic for messages; it says if groups were found."""
        found = "" if self.cells.named_beforehand else " of groups that were found in the data"
        return f"{self.what}{found}"

    @property
    def groups_apart(self) -> int | None:
        """Number of declared groups; None for one total."""
        return None if self.by is None else len(self.domain or ())

    def anew_every(self, of: Statistic | None = None) -> str | None:
        """Return the period, such as "1w", after which each user is counted again, if any."""
        return period_anew(self.inner if of is None else of, self.counting.per)

    def anew(self, of: Statistic | None = None) -> str | None:
        """Return that period as a word, such as "week"."""
        found = self.anew_every(of)
        return None if found is None else PERIODS.get(found, f"period of {found}")

    @property
    def inner(self) -> TallyStatistic:
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
        alone = self.release == "windows"
        return self.counting.subject(self.unit, self.groups_apart, alone=alone)

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
            "release": self.release,
            "metric": self.metric,
            "discovery": self.cells.to_dict(),
            **({} if self.cut.goes_on else {"once": True}),
            **self.left_out.to_dict(),
            **({"ids": True} if self.ids else {}),
            **({} if self.changes is None else {"changes": self.changes}),
            **({"marks": [[*one] for one in self.marks]} if self.marks else {}),
        }

    @classmethod
    def of(cls, terms: Design, public: Mapping[str, Any]) -> Description:
        """Rebuild a description from the design of its stream and the result of `public`.

        Raises:
            InvalidInput: a field that must be a text, or one of some words, is not.
            LookupError, TypeError, ValueError: a field is missing or malformed.
        """
        for name, words in _WORDS.items():
            said = public[name]
            if not (said in words if words else said is None or isinstance(said, str)):
                raise InvalidInput(
                    f"{name} in the description of the table is {quote(said)}, which counton does "
                    "not write: give the file as counton wrote it"
                )
        windows, groups = public["windows"], public["groups"]
        statistic = statistic_kept(terms, public["what"], public["value"])
        cut = cut_from_dict(windows, once=public.get("once", False))
        return Description(
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
            release=public["release"],
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
            marks=tuple(WindowMark(*one) for one in public.get("marks", ())),
        )


def statistic_kept(terms: Design, what: str, value: str | None) -> TallyStatistic:
    """Return the statistic in a stream's design; if it is a count or a sum, by its name ``what``
    and its column of values.
    """
    if terms.statistic is not None:
        return cast("TallyStatistic", statistic_of(terms.statistic)[0])
    return statistic_of_rows(what, terms.contribution, counts=value is not None)


def cut_from_dict(kept: Mapping[str, Any] | None, *, once: bool) -> Windows:
    """Rebuild the result of `Windows.to_dict`; without windows, ``once`` decides."""
    if kept is None:
        return Once() if once else PlainSteps()
    start = datetime.fromisoformat(kept["from"])
    told = start, kept["every"], kept["steps"], kept["timezone"]
    return RevisedWindows(*told, kept["versions"]) if "versions" in kept else Windows(*told)

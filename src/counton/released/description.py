"""What is public of a stream of releases: with the published values it is all that a result needs.

A description holds no state, no key and no exact number. Every file of released numbers carries one
as JSON, so that whoever has the file can ask it what the run could be asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import BoundedChange, NoiseDistribution, law_from_dict, law_to_dict
from counton.base.errors import InvalidInput, field
from counton.base.exact import quote
from counton.base.groups import GroupNames
from counton.base.windows import Once, Windows
from counton.numbers import Design
from counton.numbers.discovery import Discovery
from counton.privacy import Contribution, Guarantee
from counton.privacy.contribution import PERIODS
from counton.privacy.guarantees import people_in_words, plural
from counton.statistics import Statistic
from counton.statistics.catalogue import is_keyword, statistic_named
from counton.statistics.live_statistic import statistic_of
from counton.strategies import StreamStrategy, strategy_from_dict

if TYPE_CHECKING:
    from counton.strategies.strategy import ReleaseForm

#: Parts of a description that are words: which ones there are; (): any text, or none.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "what": (),
    "by": (),
    "value": (),
    "unit": (),
    "release": ("totals", "windows", "both"),
    "metric": (),
}


class People(NamedTuple):
    """Whose events they are and how many of them count: what is protected is a user.

    Attributes:
        most: how many events of a user count at most; with ``per`` in each period, with ``each`` in
            how many groups they count.
        per: length of a period, as of a window; None: the whole stream is one.
        distinct: at most one event of a user counts in each window and group.
        each: how many events of a user count in each group; None: as many as ``most``, wherever
            they are.
        most_a_window: of the ``most``, how many count in one window at most.

    >>> People(3, "1d").of("visitor")
    "visitor's day"
    """

    most: int
    per: str | None = None
    distinct: bool = False
    each: int | None = None
    most_a_window: int | None = None

    def of(self, user: str) -> str:
        """What one protected unit is called: the user, or the user's period."""
        return user if self.per is None else f"{user}'s {PERIODS.get(self.per, self.per)}"

    def bounding(self, row: Contribution, norms: tuple[int, int] | None = None) -> Contribution:
        """What all rows of one unit change that count.

        Args:
            row: what one of them changes; with ``each`` what those of one group change together.
            norms: what all of them together change, where that is not as many times as much: l1,
                and the square of l2.

        Raises:
            InvalidInput: a bound for each window, and rows of several cells.

        >>> print(People(3).bounding(Contribution.add_remove(unit="visitor")))
        one visitor added or removed, with at most 3 events counted, each by at most 1, in any cells
        and steps
        """
        once: Literal["group"] | None = None if self.each is None else "group"
        if row.pattern is None:
            a_step, most = self.most_a_window, self.most * (row.most or 1)
            return Contribution.events(
                most, most_a_step=a_step, once=once, bounds=row, unit=row.unit
            )
        if self.most_a_window is not None:
            raise InvalidInput(
                f"{field('most_a_window', self.most_a_window)} is for counts and sums, and what is "
                f"released here changes in several cells with each row; leave it out"
            )
        assert isinstance(row.pattern, BoundedChange)
        l1, l2_squared = norms or (
            self.most * row.pattern.l1,
            self.most**2 * row.pattern.l2_squared,
        )
        rows = f"up to {self.most:,} rows count, each a row" if self.most > 1 else "one row counts,"
        words = f"of whom {rows} {row.words}"
        return Contribution.of_pattern(BoundedChange(l1, l2_squared), words, unit=row.unit)


#: Days of each unit of time, about.
_DAYS = {"s": 1 / 86_400, "m": 1 / 1440, "h": 1 / 24, "d": 1, "w": 7, "mo": 31}


def _days(length: str) -> float:
    """About how many days a length is.

    >>> _days("2w"), _days("12h")
    (14, 0.5)
    """
    number = length.rstrip("smhdwo")
    return int(number) * _DAYS[length.removeprefix(number)]


class Threshold(NamedTuple):
    """Which rows of a release are shown: those that are large enough.

    Attributes:
        value: that a number has to be above.
        of: which number of a row: its estimate, or the lower end of its interval.
        declared: how many groups there are, shown or not.

    >>> print(Threshold(100.0, "lower", 10**6))
    rows are left out whose lower end is not above 100
    """

    value: float
    of: Literal["estimate", "lower"]
    declared: int

    def __str__(self) -> str:
        number = "estimate" if self.of == "estimate" else "lower end"
        return f"rows are left out whose {number} is not above {self.value:,.15g}"


class GroupBlock(NamedTuple):
    """Consecutive groups of a release, as they stand in a file of their own.

    Attributes:
        number: which, from 0 on.
        declared: how many groups there are in all.
    """

    number: int
    declared: int


@dataclass(frozen=True, kw_only=True)
class Description:
    """What is public of a stream of events.

    Attributes:
        what: name of the statistic.
        statistic: what rows become.
        by, value: columns of the groups, and of what is added up, in words of the data.
        cut: how time is cut; window k is step k. None: it is not.
        simulated: numbers are made up, and noise is of no stream (`Release.simulate`).
        once: released once, of all rows. Where this is not so and time is not cut, each row is a
            step.
        domain: the groups, in the order of their cells. None for one total.
        unit: what is protected, in a word: one row or, with ``people``, one user or user's period.
        people: whose events they are, and how many count; None where single events are protected.
        guarantee, contribution, strategy: as in `Counter`.
        release: whether totals so far, the windows' own counts, or both are published.
        metric: by which error the strategy was chosen.
        discovery: how groups are found where none is declared; then ``domain`` is empty.
        above: which rows are shown, where it is not all; then ``domain`` has the groups of these.
        block: which groups these are of all, in a file of some; then ``domain`` has them, and the
            rows name them.

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
    statistic: Statistic
    by: str | None
    value: str | None
    cut: Windows | None
    domain: GroupNames | None
    unit: str
    guarantee: Guarantee
    contribution: Contribution
    strategy: StreamStrategy
    release: ReleaseForm
    metric: str
    people: People | None = None
    discovery: Discovery | None = None
    once: bool = False
    simulated: bool = False
    above: Threshold | None = None
    block: GroupBlock | None = None

    @classmethod
    def of_stream(cls, terms: Design) -> Description:
        """What is known of a stream that was not made from events: it has no windows, no groups."""
        return cls(
            what="stream",
            statistic=statistic_kept(terms, "stream"),
            by=None,
            value=None,
            cut=None,
            domain=None,
            unit=terms.contribution.unit,
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            release="windows" if terms.strategy.workload == "windows" else "totals",
            metric="mean",
        )

    @property
    def windows(self) -> Windows:
        """How rows become steps: by how time is cut, or all of them one.

        Raises:
            InvalidInput: each row is a step.
        """
        if self.once:
            return Once()
        if self.cut is None:
            raise InvalidInput(
                f"each row is a step here, and there are no windows of time; give {field('time')}"
            )
        return self.cut

    @property
    def ranks(self) -> bool:
        """Whether the largest are shown of groups that nobody declared."""
        return self.discovery is not None and statistic_named(self.what).ranks

    @property
    def shows_cells(self) -> bool:
        """Whether its cells themselves are shown: counts and sums."""
        return self.statistic.additive and not self.ranks

    @property
    def holds(self) -> str:
        """What a stream holds, in words."""
        return self.subject if self.statistic.additive else repr(self.statistic)

    @property
    def of_people(self) -> bool:
        """Whether what is protected is a user, or a user's period, with all rows that count."""
        return self.people is not None or (self.ordered and self.statistic.protects == "user")

    @property
    def people_note(self) -> str | None:
        """What is said of people where numbers are shown; None: nothing.

        That single events are protected, and not they; or that a bound on them bends the numbers.
        """
        if self.of_people:
            return self.late_note or self.bound_note
        return people_in_words(self.guarantee, self.unit)

    @property
    def bound_note(self) -> str | None:
        """That rows beyond a bound on people do not count, which no noise says."""
        beyond = self.beyond_bound
        return None if beyond is None else f"{beyond} do not count, and no interval includes them"

    @property
    def beyond_bound(self) -> str | None:
        """The rows or groups that a bound on people leaves out, in words; None: there are none."""
        people = self.people
        if people is None:
            return None
        if people.each is not None:
            all_groups = self.by is None or 0 < self.declares <= people.most
            return None if all_groups else f"groups beyond {people.most:,} of each {self.unit}"
        beyond = f"rows beyond {people.most:,} of each {self.unit}"
        if people.most_a_window is not None:
            beyond += f", or {people.most_a_window:,} of it in one window,"
        return beyond

    @property
    def late_note(self) -> str | None:
        """That late windows are counted too low, where a bound spans several; None: it does not.

        A bound is spent in the order of rows (`counton.run.contribution_bounds`), so that rows
        beyond it are those of late windows.
        """
        people = self.people
        if people is None or self.cut is None or self.once or people.each is not None:
            return None
        if people.per is not None:
            windows = math.ceil(_days(people.per) / _days(self.cut.every) - 1e-9)
            if windows <= 1 or people.most >= windows * (people.most_a_window or people.most + 1):
                return None  # no bound of several windows is ever reached
        part = "the stream" if people.per is None else "a period"
        return (
            f"late windows of {part} are counted too low: the bound of {people.most:,} for each "
            f"{self.unit} is spent in the order of rows, and no interval includes rows beyond it"
        )

    @property
    def ordered(self) -> bool:
        """Whether rows are taken one after the other, in their order."""
        return self.each_row or not self.statistic.tallied

    @property
    def each_row(self) -> bool:
        """Whether each row is a step."""
        return self.cut is None and not self.once

    @property
    def inner(self) -> Statistic:
        """The statistic of one group."""
        return self.statistic.inner

    @property
    def least(self) -> Literal["mean", "max"]:
        """Which error was to be small."""
        return "max" if self.metric == "max" else "mean"

    @property
    def groups(self) -> GroupNames:
        """Names of the cells of one step that are shown."""
        return GroupNames(["all"]) if self.domain is None else self.domain

    @property
    def declares(self) -> int:
        """How many groups are declared, shown or not."""
        of = self.above or self.block
        return len(self.domain or ()) if of is None else of.declared

    @property
    def subject(self) -> str:
        """What is counted or added up."""
        if self.value is not None:
            return f"sum of {self.value}"
        if self.people is None:
            return f"number of {plural(self.unit)}"
        if self.people.each is None:
            if self.people.distinct:
                return self.users_once(alone=self.release == "windows")
            return "number of events"
        users, most = f"number of distinct {plural(self.unit)}", self.people.most
        if self.by is None or 0 < self.declares <= most:
            return users
        first = "first group" if most == 1 else f"first {most:,} groups"
        return f"{users} (each in the {first} alone)"

    def users_once(self, *, alone: bool) -> str:
        """Users who count once in a window, in words: of windows alone, or added up."""
        assert self.people is not None
        users = plural(self.unit.removesuffix(self.people.of("")))
        return (
            f"number of distinct {users}" if alone else f"number of {users}, each once in a window"
        )

    def public(self) -> dict[str, Any]:
        """As JSON values, but for what the terms of the stream say."""
        named = self.domain if self.block is None else None if self.domain is None else ()
        return {
            "what": self.what,
            "by": self.by,
            "value": self.value,
            "windows": None if self.cut is None else windows_to_dict(self.cut, local=True),
            "groups": None if named is None else list(named),
            "unit": self.unit,
            "people": None if self.people is None else self.people._asdict(),
            "release": self.release,
            "metric": self.metric,
            "discovery": None if self.discovery is None else self.discovery._asdict(),
            **({"once": True} if self.once else {}),
            **({"simulated": True} if self.simulated else {}),
            **({} if self.above is None else {"above": self.above._asdict()}),
            **({} if self.block is None else {"block": self.block._asdict()}),
        }

    @classmethod
    def of(cls, terms: Design, public: Mapping[str, Any]) -> Description:
        """Inverse of `public`.

        Raises:
            InvalidInput: a part that is a text, or one of some words, is none.
            LookupError, TypeError, ValueError: parts are missing, or no such parts.
        """
        for name, words in _WORDS.items():
            said = public[name]
            if not (said in words if words else said is None or isinstance(said, str)):
                raise InvalidInput(
                    f"{name} of the description is {quote(said)}: give the file as it was written"
                )
        windows, groups = public["windows"], public["groups"]
        people, found = public["people"], public["discovery"]
        return Description(
            what=public["what"],
            statistic=statistic_kept(terms, public["what"]),
            by=public["by"],
            value=public["value"],
            cut=None if windows is None else windows_from_dict(windows),
            domain=None if groups is None else GroupNames(groups),
            unit=public["unit"],
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            release=public["release"],
            metric=public["metric"],
            people=None if people is None else People(**people),
            discovery=None if found is None else Discovery(**found),
            once=public.get("once", False),
            simulated=public.get("simulated", False),
            above=Threshold(**public["above"]) if "above" in public else None,
        )


@dataclass(frozen=True)
class CarriedTotals:
    """The totals from which a stream goes on.

    Attributes:
        estimates: what was released by group, in data units.
        variance: of the noise in it, in data units.
        releases: strategy, law and step of each release that it adds up.
    """

    estimates: NDArray[Any]
    variance: float
    releases: tuple[tuple[StreamStrategy, NoiseDistribution, int], ...]

    def of(self, groups: int) -> CarriedTotals:
        """Those of the first groups."""
        return replace(self, estimates=self.estimates[:groups])

    def facts(self, groups: Sequence[str], terms: Design) -> dict[str, Any]:
        """As the description of a stream of these terms has them: those of its first groups."""
        of = self.of(len(groups)).to_dict(terms.resolution)
        return {"carried": {"groups": list(groups), **of}}

    def to_dict(self, resolution: Fraction) -> dict[str, Any]:
        """As JSON values, laws in data units.

        Args:
            resolution: one unit of the exact sums, in data units.
        """
        releases = [
            {
                "strategy": strategy.to_dict(),
                "law": law_to_dict(law, resolution / 2**strategy.lattice_bits),
                "step": step,
            }
            for strategy, law, step in self.releases
        ]
        return {
            "estimates": self.estimates.tolist(),
            "variance": self.variance,
            "releases": releases,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> CarriedTotals:
        """Inverse of `to_dict`."""
        releases = tuple(
            (strategy_from_dict(one["strategy"]), law_from_dict(one["law"]), int(one["step"]))
            for one in saved["releases"]
        )
        return cls(np.asarray(saved["estimates"]), float(saved["variance"]), releases)


def statistic_kept(terms: Design, what: str) -> Statistic:
    """The statistic of a stream, by its terms and its name."""
    if terms.statistic is not None:
        return statistic_of(terms)[0]
    of = statistic_named(what) if is_keyword(what) else Statistic
    return of.of_contribution(terms.contribution)


def windows_to_dict(windows: Windows, *, local: bool = False) -> dict[str, Any]:
    """As JSON values; the start as clocks show it in the windows' zone, or in UTC."""
    start = windows.local(windows.start) if local else windows.start.astimezone(UTC)
    return {
        "every": windows.every,
        "from": start.isoformat(),
        "steps": windows.steps,
        "timezone": windows.timezone,
    }


def windows_from_dict(kept: Mapping[str, Any]) -> Windows:
    """Inverse of `windows_to_dict`."""
    start = datetime.fromisoformat(kept["from"])
    return Windows(start, kept["every"], kept["steps"], kept["timezone"])

"""Releases: one type for every statistic, from a run or from a file.

A release is a public description with published numbers (`ReleasedNumbers`). It answers questions
about them: differences, ratios, shares and sums, bands, words and charts. Answers come from
`ReleasedNumbers.number_of`, which returns a number with all that is known of its noise
(`counton.numbers.formulas`): intervals follow from the joint law of all noise in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import numpy as np

from counton.base.columns import align_lines, html
from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer, quantity, some_of
from counton.base.groups import GroupNames
from counton.base.lazy import require
from counton.base.lazy_polars import polars as pl
from counton.numbers import Releases
from counton.numbers.contrasts import Answer, answer, sum_formula
from counton.numbers.formulas import Estimate, Ratio, Term, difference, ratio_of, shares_of
from counton.numbers.intervals import check_level
from counton.numbers.releases import noise_in_words
from counton.released.description import counted_anew
from counton.released.periods import (
    WEEK,
    WEEKDAYS,
    check_delay,
    occurrences_of,
    patterns_of,
)
from counton.released.read_options import Look
from counton.released.release_facts import facts_of
from counton.released.released_numbers import Groups, ReleasedNumbers, Steps
from counton.released.screen import Screen, page, screen_of
from counton.released.series import Series
from counton.released.stream_words import (
    account_of,
    error_in_words,
    far_in_words,
    in_words,
    methods_of,
    promise_in_words,
    reach_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from counton.released.revisions import Revisions, When


#: Most days whose joint noise is computed at once.
_MOST_TIMES = 2048


class Comparison(TypedDict, total=False):
    """Options of a comparison: steps, the number to compare, another stream; see
    `Release.difference`."""

    steps: Steps
    other_steps: Steps
    of: str | None
    beside: Release | None
    at_once: int


@dataclass(frozen=True, repr=False)
class Release(ReleasedNumbers):
    """The released steps of a stream: all or some, for all groups or some.

    All of it is public. Every statistic answers about differences, ratios and shares as far as its
    numbers have any; an error names what a statistic does not answer. Attributes are those of
    `ReleasedNumbers`.

    >>> import polars as pl
    >>> from counton.run import Job, run
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"], "paid": [3, 5]})
    >>> told = {
    ...     "time": "at", "every": "1d", "start": "2024-03-01", "steps": 365,
    ...     "until": "2024-03-03", "epsilon": 1,
    ... }
    >>> with run(Job("count", visits, "c.db", release="both", **told)) as outcome:
    ...     outcome.read().table().columns[3:6]
    ['group', 'estimate', 'std']
    >>> mean = {"value": "paid", "lower": "0", "upper": "9", "resolution": "1"}
    >>> with run(Job("average", visits, "a.db", **mean, **told)) as outcome:
    ...     outcome.read().table()["name"].unique(maintain_order=True).to_list()
    ['mean', 'sum', 'count']
    """

    def difference(
        self,
        one: Groups,
        other: Groups,
        *,
        steps: Steps = None,
        other_steps: Steps = None,
        of: str | None = None,
        beside: Release | None = None,
        at_once: int = 1,
    ) -> Answer:
        """Estimate how much more happened in one group, or in some steps, than in another.

        The interval comes from the joint noise of all numbers involved: two groups; two windows of
        one group, which share noise; or two streams, which do not. If a number is not a function of
        sums, such as a quantile, each of the two intervals takes half of the probability of error.

        Args:
            one, other: a group, several that are added up, or a mapping of weights by group. For a
                statistic without groups the name of a number, as in its table: ``"mean"``,
                ``"users"``, ``"CA/Napa"``; ``"all"`` is the statistic's main number.
            steps: the steps of ``one``; ``"25:48"`` with both ends, days as in
                ``"2024-03-18:2024-03-24"`` with both ends, a ``range``, or None: all.
            other_steps: the steps of ``other``; None: the steps of ``one``.
            of: the number of each group, if a statistic has several: ``"mean"``, ``"0.9"``. Counts
                and sums have one number for each group and do not take it.
            beside: another stream, to which the group ``other`` belongs; None: this one.
            at_once: number of answers whose intervals hold together with the probability ``level``
                (Bonferroni).

        Raises:
            InvalidInput: an unknown group, step or number, undeclared groups, or a stream beside
                itself.

        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> visits = pl.DataFrame({
        ...     "time": ["2024-03-01T09:00", "2024-03-02T11:30", "2024-03-03T10:15"],
        ...     "page": ["home", "shop", "home"], "paid": [3, 8, 5],
        ... })
        >>> found = release(
        ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365, by="page",
        ...     until="newest", domain=["home", "shop"], guarantee=PureDP(1),
        ...     state="visits.db",
        ... )
        >>> found.difference("home", "shop").what
        'home minus shop'
        >>> found.difference("home", "home", steps="2:2", other_steps="1:1").what
        'home (2 March 2024) minus home (1 March 2024)'
        >>> found.share("home").lower >= 0
        True
        >>> paid = release(
        ...     "average", visits, time="time", every="1d", start="2024-03-01", steps=365,
        ...     by="page", until="newest", domain=["home", "shop"], guarantee=PureDP(1),
        ...     value="paid", lower=0, upper=9, resolution=1, state="paid.db",
        ... )
        >>> paid.difference("home", "shop", of="mean", steps="1:2").what
        'mean of home minus mean of shop (1 March to 2 March 2024)'
        """
        asked: Comparison = {
            "steps": steps, "other_steps": other_steps, "of": of, "beside": beside,
            "at_once": at_once,
        }  # fmt: skip
        return self._two(difference, "minus", one, other, **asked)

    def ratio(self, one: Groups, other: Groups, **asked: Unpack[Comparison]) -> Answer:
        """Estimate how many times as much happened in one group, or in some steps, as in another.

        The interval is Fieller's: unbounded if the divisor may be 0.

        Args and errors as in `difference`.
        """
        return self._two(ratio_of, "over", one, other, **asked)

    def change(self, one: Groups, other: Groups, **asked: Unpack[Comparison]) -> Answer:
        """Estimate by how many per cent one is above another: 100 times their ratio, minus 100.

        Args and errors as in `ratio`.
        """
        found = self._two(
            lambda above, below: ratio_of(above, below, 100.0, -100.0),
            *("against", one, other),
            **asked,
        )
        return replace(found, what=f"{found.what}, in per cent")

    def _two(
        self,
        together: Callable[[Estimate, Estimate], Estimate],
        how: str,
        one: Groups,
        other: Groups,
        **asked: Unpack[Comparison],
    ) -> Answer:
        steps, of, beside = asked.get("steps"), asked.get("of"), asked.get("beside")
        later = steps if asked.get("other_steps") is None else asked["other_steps"]
        second = self if beside is None else beside
        if beside is not None and beside.design.may_share_noise(self.design):
            raise InvalidInput(
                f"{field('beside')} is stream {beside.design.name!r} with the same terms, so its "
                f"noise may be the same: leave {field('beside')} out to compare a stream, or a "
                f"report, with itself"
            )
        named = None if second.definition.statistic.card.additive and second is not self else of
        found = together(self.number_of(one, steps, of), second.number_of(other, later, named))
        many = asked.get("at_once", 1) * max(self._comparisons, second._comparisons)
        words = self._pair(one, steps, other, later, of, second, how)
        return answer(found, self.level, at_once=many, what=words)

    def share(
        self, one: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate the share of one group in all groups, with an interval.

        The share of a count is from 0 to 1. The sentence of the answer states it in per cent.

        Args and errors as in `difference`.
        """
        asked = ratio_of(self.number_of(one, steps, of), self.whole(steps, of))
        words = f"{_question_in_words(one, of)}, of all groups{self._within_words(steps)}"
        if not isinstance(one, Mapping):
            asked = self._as_part(asked)
        found = answer(asked, self.level, at_once=at_once * self._comparisons, what=words)
        return replace(found, per_cent=True)

    def _as_part(self, estimate: Estimate) -> Estimate:
        """Return an estimate of a share; for counts its bounds are 0 and 1."""
        counts = isinstance(self.said, Series) and self.design.contribution.resolution is None
        return (
            replace(estimate, least=0.0, most=1.0)
            if counts and isinstance(estimate, Ratio)
            else estimate
        )

    def shares_of_groups(self, *, steps: Steps = None, of: str | None = None) -> pl.DataFrame:
        """Estimate the share of each group, with intervals that hold for all groups at once.

        Columns: group, estimate, std, lower, upper.

        Raises:
            InvalidInput: an unknown step, undeclared groups, or no groups.
        """
        if not self.groups:
            self._cannot("shares of groups")
        numbers = [self.number_of(group, steps, of) for group in self.groups]
        many = len(numbers) * self._comparisons
        found = [
            answer(self._as_part(asked), self.level, at_once=many)
            for asked in shares_of(numbers, self.whole(steps, of))
        ]
        return answers_table(list(self.groups), found)

    def combine(
        self,
        weights: Mapping[str, float],
        *,
        steps: Steps = None,
        of: str | None = None,
        at_once: int = 1,
    ) -> Answer:
        """Estimate a weighted sum over groups, with an interval; weights may be negative.

        Args and errors as in `difference`.
        """
        words = " + ".join(
            f"{weight:g} {_question_in_words(one, of)}" for one, weight in weights.items()
        )
        return answer(
            self.number_of(weights, steps, of),
            self.level,
            at_once=at_once,
            what=words.replace("+ -", "- ") + self._within_words(steps),
        )

    def as_of(self, when: When) -> Self:
        """Return the numbers that had been published by a time, for revised windows (``revise``).

        Args:
            when: a day, up to its end, a moment, or a number of ended windows. A time after the
                newest night stands for that night.

        Raises:
            InvalidInput: windows that are released once, or a time before the first window ended.

        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> told = {"time": "at", "every": "1d", "start": "2024-03-01", "revise": "2d"}
        >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"]})
        >>> _ = release(
        ...     "count", visits, **told, append=True, until="2024-03-03", guarantee=PureDP(1),
        ...     state="visits.db",
        ... )
        >>> late = pl.DataFrame({"at": ["2024-03-01T23:30"]})
        >>> found = release("count", late, append=True, until="2024-03-04", state="visits.db")
        >>> found.table()["lag"].to_list(), found.table()["final"].to_list()
        ([2, 1, 0], [True, False, False])
        >>> found.as_of("2024-03-02").table()["lag"].to_list()
        [1, 0]
        >>> found.versions().height, found.revision("2024-03-01", "2024-03-03", "2024-03-02").what
        (6, 'all of 1 March 2024, as known to the end of 2024-03-03 less to the end of 2024-03-02')
        """
        from counton.released.revisions import night_of

        found = self._revisions
        night = night_of(when, self.definition.cut, len(found.values))
        return self._at_night(found, night)

    def _at_night(self, revisions: Revisions, night: int) -> Self:
        """Return the newest versions as of a night, with the steps and groups shown here."""
        terms = revisions.design_at(night)
        definition = replace(self.definition, strategy=terms.strategy)
        newest = revisions.newest(night)
        made = type(self).of(definition, terms, newest, self.level, shown=self.shown)
        made = replace(made, revisions=revisions, notes=self.notes, kept_in=self.kept_in)
        return made if self.chosen is None else made.only(None, self.chosen)

    @property
    def _revisions(self) -> Revisions:
        from counton.released.revisions import versions_at_hand

        return versions_at_hand(self.revisions, self.design.name)

    @property
    def _last_night(self) -> int:
        """The night as of which windows are shown."""
        strategy = self.design.strategy
        return (strategy.horizon or 0) if strategy.facts.reads_another else 0

    def versions(self, form: str = "all") -> pl.DataFrame:
        """Return all versions of the shown windows: one row each, with the columns of `table`.

        Args:
            form: "all" for the columns of `table`, where ``as_of`` is the end of the window with
                which a version was published, and ``lag`` the number of windows that had ended
                since its own; "epiprocess" for geo_value, time_value, version and value.

        Raises:
            InvalidInput: windows that are released once, or another form.
        """
        from counton.released.revisions import FORMS, as_archive, versions_of_cells

        if form not in FORMS:
            known = " or ".join(FORMS)
            raise InvalidInput(f"{field('form', form)} is no form of versions; use {known}")
        found, cut, last = self._revisions, self.definition.cut, self._last_night
        if isinstance(self.said, Series):
            places = GroupNames(self.definition.groups).places(self.groups).tolist()
            cells = dict(zip(self.groups, places, strict=True))
            table = versions_of_cells(found, cut, cells, self.level, last)
        else:
            each = [
                self._at_night(found, night).table(range(max(1, night - found.lags), night + 1))
                for night in range(1, last + 1)
            ]
            table = pl.concat(each).sort("step", "lag", maintain_order=True)
        shown = pl.col("step").is_between(self.first, self.steps.stop - 1)
        table = table.filter(shown)
        return table if form == "all" else as_archive(table, cut)

    def revision(
        self,
        window: When,
        later: When | None = None,
        earlier: When | None = None,
        *,
        group: str | None = None,
    ) -> Answer:
        """Estimate by how much a window was revised; the common noise of both versions cancels.

        Args:
            window: the window's number, or a day or moment by which it had ended.
            later, earlier: the times of the two versions, as in `as_of`; None: the newest version,
                and the first.
            group: the group; it may be left out if there is only one.

        Raises:
            InvalidInput: an unknown group or version, or as `versions`.
        """
        from counton.released.revisions import night_of

        found, cut, last = self._revisions, self.definition.cut, self._last_night
        if not self.definition.statistic.card.additive:
            self._cannot("differences of versions")
        step = night_of(window, cut, last)
        ends = later, window if earlier is None else earlier
        nights = [last if when is None else night_of(when, cut, last) for when in ends]
        if min(nights) < step:
            raise InvalidInput(
                f"window {step:,} ended after window {min(nights):,}, so it had no version then: "
                f"give a later time"
            )
        names = list(self.definition.groups)
        name = names[0] if group is None and len(names) == 1 else group
        if name not in names:
            raise InvalidInput(
                f"{field('group', group)} is none of the groups; choose from {some_of(names)}"
            )
        cell, lags = names.index(name), [min(night - step, found.lags) for night in nights]
        asked = found.number(step, lags[0], cell) - found.number(step, lags[1], cell)
        days = [cut.until(int(cut.ends(range(night, night + 1))[0])) for night in nights]
        what = f"{name} of {cut.span(range(step, step + 1))}, as known {days[0]} less {days[1]}"
        return answer(asked, self.level, what=what)

    def changes(self, steps: Steps, other_steps: Steps, *, of: str | None = None) -> pl.DataFrame:
        """Estimate the change of each group from some steps to others, the largest change first.

        The intervals hold for all groups at once, so you may pick the largest. The noise of groups
        is independent, so each interval holds with the probability ``level ** (1 / groups)``.

        Columns: group, estimate, std, lower, upper, and ``sure``: True if the change of this group
        is surely the largest of all, up or down.

        Args:
            steps: the later steps, as in `difference`.
            other_steps: the earlier steps.
            of: the number of each group, if a statistic has several.

        Raises:
            InvalidInput: no groups, or as `difference`.
        """
        self._refuse_chosen("the largest change")
        names = self.groups
        if not names:
            self._cannot("changes of groups")
        one = self.level ** (1 / len(names))
        found = [
            answer(
                difference(self.number_of(name, steps, of), self.number_of(name, other_steps, of)),
                one,
            )
            for name in names
        ]
        table = answers_table(names, found)
        lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
        most = np.maximum(np.abs(lower), np.abs(upper))
        least = np.where((lower <= 0) & (upper >= 0), 0.0, np.minimum(np.abs(lower), np.abs(upper)))
        top = int(np.argmax(most))
        others = np.full(len(names), most[top])
        others[top] = np.delete(most, top).max(initial=0.0)
        table = table.with_columns(pl.Series("sure", least > others, dtype=pl.Boolean))
        return table.sort(pl.col("estimate").abs(), descending=True, maintain_order=True)

    def total(
        self, one: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate the number of one group, or of several together, with an interval.

        Args and errors as in `difference`.
        """
        return answer(
            self.number_of(one, steps, of),
            self.level,
            at_once=at_once * self._comparisons,
            what=f"{_question_in_words(one, of)}{self._within_words(steps)}",
        )

    def _within_words(self, steps: Steps) -> str:
        definition = self.definition
        anew = definition.anew()
        if not definition.cut.goes_on or (steps is None and anew is None):
            return ""
        start, stop = self.ends(steps)
        words = self._cut.span(range(start + 1, stop + 1))
        if anew is not None and self._period_begins[stop - 1] > start:
            words += f", {counted_anew(anew)}"
        return f" ({words})" if self._cut.timed else f" in {words}"

    def _pair(
        self, one: Groups, steps: Steps, other: Groups, later: Steps, of: str | None,
        second: Release, how: str,
    ) -> str:  # fmt: skip
        """Return words for a comparison: both compared numbers, with their times."""
        counts = second is not self and second.definition.statistic.card.additive
        names = [_question_in_words(one, of), _question_in_words(other, None if counts else of)]
        if second is not self:
            streams = (self, steps, names[0]), (second, later, names[1])
            first, last = (
                f"{name} of {each.design.name}{each._within_words(part)}"
                for each, part, name in streams
            )
            return f"{first} {how} {last}"
        if steps == later:
            return f"{names[0]} {how} {names[1]}{self._within_words(steps)}"
        begin, end = (self._within_words(part) for part in (steps, later))
        return f"{names[0]}{begin} {how} {names[1]}{end}"

    def band(self) -> pl.DataFrame:
        """Return the rows of `numbers`, with intervals that hold for all of them at once.

        They hold for all shown steps and groups (`only` leaves some out), and so for every change
        of the series between two of them. For a statistic they follow from the union bound over its
        rows.
        """
        return self.with_band().numbers()

    def with_band(self) -> Self:
        """Return these numbers with the intervals of `band`, for a chart.

        For counts and sums they follow from the joint law of all steps, if that is narrower. Groups
        have independent noise, so each holds with ``level ** (1 / groups)``.

        Raises:
            InvalidInput: no intervals, undeclared groups, or groups shown because of their size.
        """
        from counton.numbers.joint import narrower

        self._refuse_chosen("a band")
        if self.since is not None:
            raise InvalidInput(
                "a band holds for groups chosen beforehand, and undeclared groups are shown "
                "because they are large; use the table, or declare the groups"
            )
        if not isinstance(self.said, Series):
            table = self.numbers()
            if "lower" not in table.columns:
                self._cannot("bands")
            return self.at(1 - (1 - self.level) / max(table.height, 1))
        one = float(self.level ** (1 / len(self.groups)))
        wide = self.at(min(1 - (1 - one) / len(self.shown_steps), 1 - 1e-9))
        if self.carried is not None:
            return wide
        shown = slice(self.first - 1, None)
        half = wide.series.half.copy()
        factor = narrower(self.design, half[shown], self.first, one, windows=self.totals is None)
        half[shown] *= factor
        # whole numbers are inside or outside, never between
        if not self.design.strategy.facts.fraction_bits:
            unit = float(self.design.released_unit)
            half[shown] = np.floor(half[shown] / unit * (1 + 1e-12)) * unit
        band = replace(wide.series, half=half)
        return replace(wide, said=band, level=self.level, together=True)

    def most_of_hidden(self, *, groups: int = 1) -> Answer:
        """Return an upper bound for the number of a group that is not shown, after the last step.

        A group that is not shown also had an estimate below the threshold at the last step, so its
        number is below the threshold plus the most that noise may have taken away.

        Args:
            groups: number of groups for which the bound holds at once; 1 for one that is named
                without looking.

        Raises:
            InvalidInput: declared groups, which are all shown; or a level of 0.5 or less.
        """
        thresholds = self.definition.cells.thresholds(self.design, self.steps[-1:])
        last, missed = self.steps[-1:], (1 - self.level) / check_integer("groups", groups, 1)
        if missed >= 0.5:
            raise InvalidInput(
                f"{field('level', self.level)} is a probability that a bound holds; it must be "
                f"above 0.5"
            )
        hidden = int(thresholds[0]) - 1
        half = self.design.halfwidths(last, check_level(1 - 2 * missed))
        return Answer(
            math.nan,
            float(self.design.std(last)[0]),
            0.0,
            float(hidden + half[0]),
            self.level,
            f"a group that was not large enough to be shown up to step {last[0]:,}",
        )

    def simulate(self, numbers: Any = None, n: int = 1) -> list[Self]:
        """Simulate releases of true numbers, to train readers and to try dashboards.

        Each simulated release has independent noise of the stream's law. Its name, words, charts
        and files state that it is simulated.

        Args:
            numbers: the number of each step, in data units, shape ``(steps, groups)``, or the
                changes of a statistic's cells; None: takes the released numbers as the truth.
            n: number of releases.

        Raises:
            InvalidInput: numbers of another shape, or that are not finite.

        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T11:30"]})
        >>> found = release(
        ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365,
        ...     until="newest", guarantee=PureDP(1), state="visits.db",
        ... )
        >>> one, other = found.simulate([[300], [500], [200]], 2)
        >>> one.design.name, one.table().height, other.totals.values.shape
        ('SIMULATED events', 3, (3, 1))
        """
        from counton.released.simulation import as_simulation, check_numbers, simulated_releases

        if self.since is not None:
            self._cannot("simulations of groups that nobody declared")
        self._refuse_chosen("a simulation")
        shape: tuple[int, ...] = self.design.shape
        if isinstance(self.said, Series):
            shape, values = (len(self.groups),), self.own.estimates
        elif self.statistic.card.on_demand:
            self._cannot("simulations")
        elif not self.design.whole:
            raise InvalidInput(
                f"{self.definition.what} is read from the cells of report {self.design.name!r}: "
                f"simulate the report, and take this part of each simulation"
            )
        else:
            assert self.readings.releases is not None
            values = self.readings.releases.values
        if numbers is not None:
            exact = check_numbers(numbers, shape, self.design)
        else:
            exact = np.asarray(values, np.float64)
            if self.design.strategy.facts.workload == "totals":
                exact = np.diff(exact, axis=0, prepend=np.zeros((1, *exact.shape[1:])))
        found = []
        for made in simulated_releases(self.design, exact, n):
            terms, definition = as_simulation(self.design, self.definition)
            if values.dtype == np.int64:
                made = np.rint(made).astype(np.int64)
            one = type(self).of(definition, terms, made, self.level, shown=self.shown)
            found.append(replace(one, chosen=self.chosen))
        return found

    def pattern(self, by: str | Sequence[str]) -> pl.DataFrame:
        """Return the average number in each hour of the day, or on each day of the week.

        Columns: ``weekday``, ``hour`` (0 to 23), or both, ``times`` (how often the shown steps
        contain it whole), group, estimate (the average), std, lower, upper. Each interval holds
        separately, by the joint noise of all windows in it.

        Args:
            by: ``"hour"``, ``"weekday"``, or ``("weekday", "hour")`` for each hour of the week, in
                the stream's time zone.

        Raises:
            InvalidInput: a statistic without such averages, longer windows, or more than 2,048
                days, whose joint noise would be too large a table.
        """
        self.series  # noqa: B018 - it is of no other statistic
        windows, groups = self.definition.windows, self.groups
        named = patterns_of(by)
        check_delay(field("by", ",".join(named)), self.delay)
        found = occurrences_of(windows, by, self.shown_steps)
        series = self.between(found.starts, found.stops)
        known = np.unique(found.of)
        columns: dict[str, list[Any]] = {
            name: [] for name in (*named, "times", "group", "estimate", "std", "lower", "upper")
        }
        for one in known.tolist():
            places = np.flatnonzero(found.of == one)
            times = len(places)
            if times > _MOST_TIMES:
                raise InvalidInput(
                    f"{field('by', ','.join(named))} finds {times:,} days, and at most "
                    f"{_MOST_TIMES:,} are taken together: choose fewer {field('steps')}"
                )
            # Groups have independent noise of one law, so one group's noise gives the errors of
            # all.
            ends = zip(found.starts[places].tolist(), found.stops[places].tolist(), strict=True)
            terms = [Term(1 / times, start, stop, 0) for start, stop in ends]
            noise = sum_formula(self.design, terms, lambda _cell, _step: 0.0)
            std, half = noise.std, noise.half(self.level)
            means = np.asarray(series.estimates, np.float64)[places].mean(axis=0)
            day = one // 24 if named == WEEK else one
            called = {"hour": one % 24, "weekday": WEEKDAYS[day % 7]}
            for name in named:
                columns[name] += [called[name]] * len(groups)
            columns["times"] += [times] * len(groups)
            columns["group"] += groups
            columns["estimate"] += means.tolist()
            columns["std"] += [std] * len(groups)
            columns["lower"] += (means - half).tolist()
            columns["upper"] += (means + half).tolist()
        return pl.DataFrame(columns, schema_overrides={"group": pl.String})

    def reach(self) -> dict[str, float]:
        """Return how far the last numbers may be off, at most, with the probability `level` each.

        Keys are the names of numbers, if there are several for each group; empty: not known.
        """
        if not self._by_group:
            if self._all_on_demand:  # that of any cell
                return {"": float(self.design.window_halfwidths(0, self.steps[-1], self.level))}
            return reach_of(self._last)
        cut = self.definition.cut
        each = f"in each {cut.period or cut.every}"
        own = {"so far": self.totals, each: self.windows}
        return {
            name: float(series.half[-1])
            for name, series in own.items()
            if series is not None and len(series.half)
        }

    def _errors(self) -> list[str]:
        """Return sentences about the noise, for `methods`."""
        far = far_in_words(self.reach())
        if isinstance(self.said, Series):
            errors = [
                error_in_words(series, what, self.level)
                for what, series in (("total", self.totals), ("window's own number", self.windows))
                if series is not None and len(series.std)
            ]
            if self.definition.ranks and far:
                errors.append(
                    f"Intervals of the groups that are shown hold at once, and reach at most {far} "
                    f"to either side."
                )
            return errors
        errors = []
        if not self._all_on_demand:
            last = self._last
            if "std" in last.columns and last["std"].drop_nulls().len():
                errors = [noise_in_words(last["std"].drop_nulls().to_numpy())]
        if not errors:  # readings have no standard deviation of their own
            after = self.steps.stop - 1
            std = float(self.design.std(range(after, after + 1))[0])
            errors = [
                f"A cell of what it is read from has the standard deviation {quantity(std, std)}."
            ]
        if isinstance(self.said, Releases):
            last_step = f"At step {self.steps[-1]:,}, the last one"
            level = f"{100 * self.level:g}% intervals"
            return [*errors, f"{last_step}, {level} reach at most {far} to either side."]
        errors.append(
            f"Intervals hold with a probability of {100 * self.level:g}% or more, one at a time "
            f"unless the table says else"
            f"{f'; the last ones reach at most {far} to either side' if far else ''}."
        )
        return errors

    def screen(self) -> Screen:
        """Return the text and tables with which a screen shows the last step."""
        self._check_released()
        return screen_of(self)

    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
        locale: str | os.PathLike[str] | None = None,
    ) -> dict[str, Figure]:
        """Return charts by subject: totals, windows, or the table of a statistic.

        Args:
            panels: True draws a small chart for each group of counts and sums; of many the largest.
            title, axis: replacements for the words of the chart.
            source: the source of the numbers, printed below the chart.
            width: width in inches; None: 7.5. A telephone shows 4.
            locale: language of words, numbers and dates: ``de``, or a file of TOML whose name ends
                in .toml; None: English. Texts that it lacks stay English.

        Raises:
            InvalidInput: a width out of range, panels of a statistic without groups, or an unknown
                language.
            MissingExtra: matplotlib is not installed.
        """
        from counton.released.figures import figures_of

        if isinstance(self.said, Releases):
            raise InvalidInput(
                f"stream {self.design.name!r} was not made from events, so that its steps have no "
                f"times and there is nothing for a chart: write a table"
            )
        if panels and not self._by_group:
            raise InvalidInput(
                f"{field('panels', True)} is for the groups of counts and sums: leave it out"
            )
        self._check_released()
        return figures_of(self, Look(title, axis, source, width, locale), panels=panels)

    def plot(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
        locale: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """Return the first of `figures`, with the same arguments; a notebook shows it.

        Raises:
            InvalidInput: see `figures`.
            MissingExtra: matplotlib is not installed.
        """
        look: dict[str, Any] = {"title": title, "axis": axis, "source": source, "width": width}
        found = self.figures(panels=panels, **look, locale=locale)
        return next(iter(found.values()))

    def to_polars(self) -> pl.DataFrame:
        """Return `table` with its usual rows, as a frame of polars."""
        return self.table()

    def to_pandas(self) -> Any:
        """Return the rows of `table` as a frame of pandas.

        Raises:
            MissingExtra: pandas is not installed.
        """
        require("pandas")
        import pandas as pd

        table = self.table()
        return pd.DataFrame({name: table[name].to_list() for name in table.columns})

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return the rows of `table` as a frame of Spark, to be stored with a team's other tables.

        The last column has the description in its metadata, as a file does. `counton.read` restores
        this release from the frame, and from any table that keeps the metadata of its columns
        (Parquet by Spark, Delta). Released rows never change.

        Args:
            session: a session of Spark, also by Spark Connect.

        Raises:
            MissingExtra: PySpark is not installed.

        Example::

            >>> frame = outcome.read().to_spark(spark)                # doctest: +SKIP
            >>> frame.write.mode("overwrite").saveAsTable("released") # doctest: +SKIP
            >>> counton.read(spark.table("released")).describe()      # doctest: +SKIP
        """
        from counton.released.spark_frames import frame_of

        return frame_of(self.table(), facts_of(self), session)

    def describe(self) -> str:
        """Describe the protected unit, the guarantee and the released steps in words."""
        words = in_words(self.definition, self.design.name, self.steps)
        missing, of = self.left_out()
        return words + (
            f"\nleft out:  {missing:,} of {of:,} rows, in what was read" * bool(missing)
        )

    def methods(self, *, full: bool = False) -> str:
        """Write the text that a publication prints with these numbers; all of it is public.

        The text has about five sentences for all readers: subject and time, whom noise protects,
        how far a number may be off, and where to read more.

        Args:
            full: True returns the whole account, for specialists: unit, neighbouring datasets,
                guarantee, attacker, error, mechanism, what is not protected, sources.
        """
        from counton.numbers.methods import methods

        self._check_released()
        definition, terms, steps = self.definition, self.design, self.steps
        if not full:
            return methods_of(definition, terms.name, steps, self.level, self.reach(), self.over)
        if isinstance(self.said, Releases):  # the subject of its numbers is not stated
            return methods(terms, errors=self._errors())
        repeats = [f"{line[:1].upper()}{line[1:]}." for line in self._repeats]
        errors = [*self._errors(), *repeats]
        return account_of(definition, terms, len(steps), errors, self.over)

    def __repr__(self) -> str:
        last = self.steps.stop - 1
        steps = f"steps 1 to {last:,}" if last else "no step yet"
        return f"<{type(self).__name__} {self.design.name!r}, {steps}>"

    def __str__(self) -> str:
        if not self.steps:
            return self.describe()
        screen, numbers = self.screen(), []
        for table in screen.tables:
            numbers += align_lines(table)
        if screen.left_out:
            numbers.append(f"{screen.left_out}: table() has them all")
        kept = f"; kept in {self.kept_in}, which is secret" if self.kept_in else ""
        return "\n".join(
            [
                *filter(None, [screen.heading.lstrip("\n")]),
                *numbers,
                *screen.notes,
                f"promise: {promise_in_words(self.definition)}",
                f"the account of the promise: describe(){kept}",
            ]
        )

    def _repr_html_(self) -> str:
        words = self.describe()
        return page(self, words, self.figures) if self.steps else html(words, {})


def _question_in_words(groups: Groups, of: str | None) -> str:
    """Return the subject of a question, in words."""
    name = groups if isinstance(groups, str) else " and ".join(groups)
    return name if of is None else f"{of} of {name}"


def answers_table(names: Sequence[str], answers: Sequence[Answer]) -> pl.DataFrame:
    """Return answers in rows: group, estimate, std, lower, upper."""
    return pl.DataFrame(
        {
            "group": list(names),
            "estimate": [one.value for one in answers],
            "std": [one.std for one in answers],
            "lower": [one.lower for one in answers],
            "upper": [one.upper for one in answers],
        }
    )

"""What was released: one type for every statistic, from a run or from a file alone.

Two things can have been released. Of counts and sums it is their cells, over time
(`counton.released.counts`); of every other statistic what it reads in its cells, step by step
(`counton.released.reading_tables`). Nobody else needs to know which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.columns import WHEN, html
from counton.base.errors import InvalidInput, field
from counton.numbers import Design
from counton.released.description import Description
from counton.released.screen import Screen
from counton.released.series import Series, finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from counton.base.windows import Windows
    from counton.numbers.contrasts import Answer
    from counton.numbers.formulas import Estimate

#: Groups that are asked about: one, several that are added up, or weights of some.
Groups = str | Sequence[str] | Mapping[str, float]
#: Consecutive steps: ``"25:48"``, both included, a range, or None for all.
Steps = str | range | None


class Release(ABC):
    """A release holds the released steps of a stream: all or some, for all groups or some.

    All of it is public. Every statistic answers about differences, ratios and shares as far as its
    numbers have any; an error says what a statistic does not answer.

    Attributes:
        definition: the public definition of the stream.
        terms: strategy, guarantee and noise of the stream.
        steps: 1 to the last step released.
        level: probability with which each interval holds.
        notes: sentences that stand with the release wherever it is shown.
    """

    definition: Description
    terms: Design
    steps: range
    level: float
    notes: tuple[str, ...]

    @property
    @abstractmethod
    def groups(self) -> Sequence[str]:
        """Names of the groups that these are of; of counts and sums without groups ``("all",)``."""

    @property
    @abstractmethod
    def shown_steps(self) -> range:
        """Those of the steps that tables and charts show."""

    @abstractmethod
    def only(self, steps: range | None = None, groups: Sequence[str] | None = None) -> Self:
        """Some of the steps, and some of the groups; None: all.

        Raises:
            InvalidInput: groups that are not among them.
        """

    def part(self, name: str) -> Release:
        """Give the release of one statistic of a report, as if it were released alone.

        Raises:
            InvalidInput: it is no report, or has no statistic of this name.
        """
        raise InvalidInput(
            f"{field('part', name)} names a statistic of a report, and {self.terms.name!r} is of "
            f"{self.definition.what}; leave it out"
        )

    @abstractmethod
    def table(self, steps: range | None = None) -> pl.DataFrame:
        """The table: a row for each step, and for each group or number of it, with intervals.

        Args:
            steps: which of the shown steps; None: all of them.
        """

    @abstractmethod
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        """The rows of the last step; of many groups at most this many, the largest."""

    @abstractmethod
    def window_end(self, step: int) -> np.datetime64:
        """When the window of a step ended, in local time."""

    @abstractmethod
    def screen(self) -> Screen:
        """What a screen shows of the last step."""

    @abstractmethod
    def errors(self) -> list[str]:
        """Sentences about the noise, for `methods`."""

    @abstractmethod
    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
    ) -> dict[str, Figure]:
        """Charts by what they show."""

    def facts(self) -> dict[str, Any]:
        """What a file says of these numbers besides the description, as JSON values."""
        return {"notes": list(self.notes)} if self.notes else {}

    @abstractmethod
    def with_note(self, note: str) -> Self:
        """The same, with a sentence that stands with it wherever it is shown."""

    @abstractmethod
    def own_facts(self) -> dict[str, Any] | None:
        """What belongs to the description that a file carries, and is the statistic's own.

        None: its rows do not say enough for `counton.read` to give it back.
        """

    def cells(self) -> NDArray[Any] | None:
        """The released cells by step of which readings are made, if a description holds them.

        None: its rows say all, or there are too many.
        """
        return None

    @property
    def totals(self) -> Series | None:
        """So far, after each step; None where they are not asked for.

        Raises:
            InvalidInput: a statistic that has none.
        """
        self._cannot("totals")

    @property
    def windows(self) -> Series | None:
        """Of each window by itself; None where that is not asked for.

        Raises:
            InvalidInput: a statistic that has none.
        """
        self._cannot("numbers of windows")

    def largest(self, count: int) -> Self:
        """The groups with the largest numbers, if there are more than ``count``.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("largest groups")

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Series:
        """What happened in the steps start + 1 .. stop, for each pair of ends.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("differences of two moments")

    def numbers(self, of: str | None = None) -> pl.DataFrame:
        """A row for each step and group, in columns of the same names whatever is published.

        Args:
            of: ``"totals"`` or ``"windows"``; None: totals, where they are released.

        Raises:
            InvalidInput: totals or windows of a statistic that has none.
        """
        if of is not None:
            raise InvalidInput(
                f"{field('of', of)} is for counts and sums, and {self.terms.name!r} is of "
                f"{self.definition.what}; leave it out"
            )
        return self.table()

    @property
    def over(self) -> int | None:
        """How many steps up to each are shown together; None: all so far."""
        return None

    @property
    def rows(self) -> int | None:
        """How many rows `table` has; None where only the table says."""
        return None

    def last_numbers(self) -> dict[str, Any]:
        """The last step as JSON values: ``rows`` of its table, or numbers by group."""
        shown = self.last_rows().drop(WHEN, strict=False)
        return {"rows": finite(shown).to_dicts()}

    def left_out(self) -> tuple[int, int]:
        """How many rows were left out of the file that was read, and how many there were."""
        return 0, 0

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw."""
        return self.last_rows(1).height > 0

    def at_hand(self) -> Self:
        """The same, with its steps read, so that where they were read from may be closed."""
        return self

    def lazy(self) -> pl.LazyFrame:
        """The rows of `table`, made some at a time while they are written."""
        return self.table().lazy()

    def to_spark(self, session: SparkSession) -> DataFrame:
        """The rows of `table` as a frame of Spark, to be kept where a team keeps its tables.

        The last column carries the description in its metadata, as a file does:
        `counton.read` gives this release back from the frame, and from any table that keeps the
        metadata of its columns (Parquet by Spark, Delta). Rows that were released never change.

        Args:
            session: of Spark, also by Spark Connect.

        Raises:
            MissingExtra: PySpark is not installed.

        Example::

            >>> frame = outcome.read().to_spark(spark)                # doctest: +SKIP
            >>> frame.write.mode("overwrite").saveAsTable("released") # doctest: +SKIP
            >>> counton.read(spark.table("released")).describe()      # doctest: +SKIP
        """
        from counton.released.release_facts import facts_of
        from counton.released.spark_frames import frame_of

        return frame_of(self.table(), facts_of(self), session)

    def describe(self) -> str:
        """Say in words what is protected, what is promised and which steps are released."""
        from counton.released.stream_words import in_words

        words = in_words(self.definition, self.terms.name, self.steps)
        missing, of = self.left_out()
        return words + (
            f"\nleft out:  {missing:,} of {of:,} rows, in what was read" * bool(missing)
        )

    def reach(self) -> dict[str, float]:
        """How far the last numbers may be off, at most, with the probability `level` each.

        By the names of numbers, where there are several for each group; nothing: it is not known.
        """
        from counton.released.stream_words import reach_of

        return reach_of(self.last_rows())

    def methods(self, *, full: bool = False) -> str:
        """Write the text that a publication prints with these numbers; all of it is public.

        The text has about five sentences for everybody: subject and time, whom noise protects, how
        far a number may be off, and where more stands.

        Args:
            full: the whole account, for specialists: unit, neighbouring datasets, guarantee,
                attacker, error, mechanism, what is not protected, sources.
        """
        from counton.released.stream_words import methods_of

        self.check_released()
        if full:
            return self._account()
        name, reach = self.terms.name, self.reach()
        return methods_of(self.definition, name, self.steps, self.level, reach, self.over)

    def _account(self) -> str:
        """The whole account: see `methods`."""
        from counton.released.stream_words import account_of

        return account_of(self.definition, self.terms, len(self.steps), self.errors(), self.over)

    def check_released(self) -> None:
        """Refuse what is asked of the last step, where there is none.

        Raises:
            InvalidInput: nothing is released yet.
        """
        if not self.steps:
            raise InvalidInput(
                f"nothing is released yet: no window has ended by the newest event; give events "
                f"beyond the first window, or {field('until')}"
            )

    def __repr__(self) -> str:
        last = self.steps.stop - 1
        steps = f"steps 1 to {last:,}" if last else "no step yet"
        return f"<{type(self).__name__} {self.terms.name!r}, {steps}>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.released.notebook import page

        return page(self) if self.steps else html(self.describe(), {})

    def number_of(self, one: Groups, steps: Steps = None, of: str | None = None) -> Estimate:
        """A number of one group, or of several together, in some steps, with what is known of it.

        Args:
            one: a group, several that are added up, or a mapping of weights by group. Of a
                statistic without groups the name of a number, as its table calls it, or "all".
            steps: ``"25:48"`` with both ends, days as in ``"2024-03-18:2024-03-24"`` with both
                ends, a ``range``, or None: all.
            of: which number of each group, where a statistic has several: ``"mean"``, ``"0.9"``.

        Raises:
            InvalidInput: no such group, step or number; or a statistic that does not answer it.
        """
        self._cannot("differences")

    def whole(self, steps: Steps = None, of: str | None = None) -> Estimate:
        """Estimate all groups together: the divisor of a share.

        Args and errors as of `number_of`.
        """
        self._cannot("shares")

    @property
    def parts_of_whole(self) -> bool:
        """Whether shares lie between 0 and 1 in any case, as those of counts do."""
        return False

    @property
    def comparisons(self) -> int:
        """How many comparisons there are to choose among: 1 unless groups are shown by size."""
        return 1

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

        The interval comes from the joint noise of all numbers that enter: two groups; two windows
        of one group, which share noise; or two streams, which do not. If a number is no function of
        sums, such as a quantile, each of the two intervals takes half of the probability of error.

        Args:
            one, other: a group, several that are added up, or a mapping of weights by group. For a
                statistic without groups the name of a number, as its table calls it: ``"mean"``,
                ``"users"``, ``"CA/Napa"``; ``"all"`` is the number that it is there for.
            steps: the steps of ``one``; ``"25:48"`` with both ends, days as in
                ``"2024-03-18:2024-03-24"`` with both ends, a ``range``, or None: all.
            other_steps: the steps of ``other``; None: the same.
            of: which number of each group, where a statistic has several: ``"mean"``, ``"0.9"``.
                Counts and sums have one number for each group and do not ask for it.
            beside: another stream, to which the group ``other`` belongs; None: this one.
            at_once: how many answers are asked for together; their intervals hold all at once with
                the probability ``level`` (Bonferroni).

        Raises:
            InvalidInput: no such group, step or number, groups that nobody declared, or the same
                stream beside itself.

        >>> import tempfile
        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> folder = tempfile.TemporaryDirectory()
        >>> visits = pl.DataFrame({
        ...     "time": ["2024-03-01T09:00", "2024-03-02T11:30", "2024-03-03T10:15"],
        ...     "page": ["home", "shop", "home"], "paid": [3, 8, 5],
        ... })
        >>> found = release(
        ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365, by="page",
        ...     until="newest", domain=["home", "shop"], guarantee=PureDP(1),
        ...     state=folder.name + "/visits.db",
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
        ...     value="paid", lower=0, upper=9, resolution=1, state=folder.name + "/paid.db",
        ... )
        >>> paid.difference("home", "shop", of="mean", steps="1:2").what
        'mean of home minus mean of shop (1 March to 2 March 2024)'
        >>> folder.cleanup()
        """
        from counton.numbers.formulas import difference

        return self._two(difference, "minus", one, other, steps, other_steps, of, beside, at_once)

    def ratio(
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
        """Estimate how many times as much happened in one group, or in some steps, as in another.

        The interval is Fieller's: unbounded where the divisor may be 0.

        Args and errors as of `difference`.
        """
        from counton.numbers.formulas import ratio_of

        return self._two(ratio_of, "over", one, other, steps, other_steps, of, beside, at_once)

    def change(
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
        """Estimate by how many per cent one is above another: 100 times their ratio, less 100.

        Args and errors as of `ratio`.
        """
        from counton.numbers.formulas import ratio_of

        found = self._two(
            lambda above, below: ratio_of(above, below, 100.0, -100.0),
            "against", one, other, steps, other_steps, of, beside, at_once,
        )  # fmt: skip
        return replace(found, what=f"{found.what}, in per cent")

    def _two(
        self,
        together: Callable[[Estimate, Estimate], Estimate],
        how: str,
        one: Groups,
        other: Groups,
        steps: Steps,
        other_steps: Steps,
        of: str | None,
        beside: Release | None,
        at_once: int,
    ) -> Answer:
        from counton.numbers.contrasts import answer

        later = steps if other_steps is None else other_steps
        second = self if beside is None else beside
        if beside is not None and beside.terms.may_share_noise(self.terms):
            raise InvalidInput(
                f"{field('beside')} is stream {beside.terms.name!r} with the same terms, so its "
                f"noise may be the same: leave {field('beside')} out to compare a stream, or a "
                f"report, with itself"
            )
        named = None if second.definition.statistic.additive and second is not self else of
        asked = together(self.number_of(one, steps, of), second.number_of(other, later, named))
        many = at_once * max(self.comparisons, second.comparisons)
        words = self._pair(one, steps, other, later, of, second, how)
        return answer(asked, self.level, at_once=many, what=words)

    def share(
        self, one: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate which part of all groups one is, with an interval.

        The share of a count is from 0 to 1. The sentence of the answer gives it in per cent.

        Args and errors as of `difference`.
        """
        from counton.numbers.contrasts import answer
        from counton.numbers.formulas import Ratio, ratio_of

        asked = ratio_of(self.number_of(one, steps, of), self.whole(steps, of))
        words = f"{_question_in_words(one, of)}, of all groups{self._within_words(steps)}"
        if self.parts_of_whole and not isinstance(one, Mapping) and isinstance(asked, Ratio):
            asked = replace(asked, least=0.0, most=1.0)
        found = answer(asked, self.level, at_once=at_once * self.comparisons, what=words)
        return replace(found, per_cent=True)

    def shares_of_groups(self, *, steps: Steps = None, of: str | None = None) -> pl.DataFrame:
        """Estimate the share of each group, with intervals that hold for all groups at once.

        Columns: group, estimate, std, lower, upper.

        Raises:
            InvalidInput: no such step, groups that nobody declared, or none at all.
        """
        if not self.groups:
            self._cannot("shares of groups")
        found = [
            self.share(group, steps=steps, of=of, at_once=len(self.groups)) for group in self.groups
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

        Args and errors as of `difference`.
        """
        from counton.numbers.contrasts import answer

        words = " + ".join(
            f"{weight:g} {_question_in_words(one, of)}" for one, weight in weights.items()
        )
        return answer(
            self.number_of(weights, steps, of),
            self.level,
            at_once=at_once,
            what=words.replace("+ -", "- ") + self._within_words(steps),
        )

    def changes(self, steps: Steps, other_steps: Steps, *, of: str | None = None) -> pl.DataFrame:
        """Estimate the change of each group from some steps to others, the largest change first.

        The intervals hold for all groups at once, so you may pick out the largest. The noise of
        groups is independent, so each interval holds with the probability
        ``level ** (1 / groups)``.

        Columns: group, estimate, std, lower, upper, and ``sure``, whether the change of this group
        is surely the largest of all, up or down.

        Args:
            steps: the later steps, as of `difference`.
            other_steps: the earlier steps.
            of: which number of each group, where a statistic has several.

        Raises:
            InvalidInput: no groups, or as `difference`.
        """
        from counton.numbers.contrasts import answer
        from counton.numbers.formulas import difference

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
        others = [np.delete(most, place).max(initial=0.0) for place in range(len(names))]
        table = table.with_columns(pl.Series("sure", least > np.array(others), dtype=pl.Boolean))
        return table.sort(pl.col("estimate").abs(), descending=True, maintain_order=True)

    def band(self) -> pl.DataFrame:
        """The rows of `numbers`, with intervals that hold for all of them at once.

        For all steps and groups that are shown (`only` leaves some out), so for whatever the
        series does between two of them. Of a statistic by the union bound over its rows.
        """
        return self.with_band().numbers()

    def with_band(self) -> Release:
        """Give the same numbers with the intervals of `band`, for a chart.

        Raises:
            InvalidInput: as `band`.
        """
        table = self.numbers()
        if "lower" not in table.columns:
            self._cannot("bands")
        return self.at(1 - (1 - self.level) / max(table.height, 1))

    def at(self, level: float) -> Release:
        """Give the same numbers with intervals of another level.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
        """
        self._cannot("intervals of another level")

    def most_of_hidden(self, *, groups: int = 1) -> Answer:
        """What the number of a group that is not shown is at most, after the last step.

        Raises:
            InvalidInput: a stream whose groups are declared, so that all are shown.
        """
        raise InvalidInput(
            f"{self.terms.name!r} shows all of its groups, which were declared: ask for the number "
            f"of one"
        )

    def simulate(self, numbers: Any = None, n: int = 1) -> list[Self]:
        """Simulate releases of true numbers, to train readers and to try dashboards.

        Each simulated release has noise of its own, drawn as the stream's noise. Its name, its
        words, its charts and its files say that it is simulated.

        Args:
            numbers: the number of each step, shape ``(steps, groups)``, or the changes of a
                statistic's cells; None: as if the released numbers were the truth.
            n: number of releases.

        Raises:
            InvalidInput: numbers of another shape, or that are not finite.
        """
        self._cannot("simulations")

    def ends(self, steps: Steps) -> tuple[int, int]:
        """The step before the first of some, and the last.

        Raises:
            InvalidInput: steps that are not released.
        """
        from counton.released.selection import steps_between

        chosen = steps_between(steps, self.steps.stop - 1, self._cut)
        return chosen.start - 1, chosen.stop - 1

    @property
    def _cut(self) -> Windows | None:
        """Windows by whose times steps may be named; None where there are none."""
        return self.definition.cut

    def _within_words(self, steps: Steps) -> str:
        from counton.released.stream_words import span_in_words

        if steps is None or self.definition.once:
            return ""
        start, stop = self.ends(steps)
        words = span_in_words(self._cut, range(start + 1, stop + 1))
        return f" in {words}" if self._cut is None else f" ({words})"

    def _pair(
        self, one: Groups, steps: Steps, other: Groups, later: Steps, of: str | None,
        second: Release, how: str,
    ) -> str:  # fmt: skip
        """What is compared, in words."""
        counts = second is not self and second.definition.statistic.additive
        names = [_question_in_words(one, of), _question_in_words(other, None if counts else of)]
        if second is not self:
            streams = (self, steps, names[0]), (second, later, names[1])
            first, last = (
                f"{name} of {each.terms.name}{each._within_words(part)}"
                for each, part, name in streams
            )
            return f"{first} {how} {last}"
        if steps == later:
            return f"{names[0]} {how} {names[1]}{self._within_words(steps)}"
        begin, end = (self._within_words(part) for part in (steps, later))
        return f"{names[0]}{begin} {how} {names[1]}{end}"

    def pattern(self, by: str) -> pl.DataFrame:
        """How much happened on the average in each hour of the day, or on each day of the week.

        Columns: ``hour`` (0 to 23) or ``weekday``, how many ``times`` the steps that are shown hold
        it whole, group, estimate (the average of these), std, lower, upper. Each interval holds by
        itself, by the joint noise of all windows in it.

        Args:
            by: ``"hour"`` or ``"weekday"``, by the clock of the stream's time zone.

        Raises:
            InvalidInput: a statistic that does not answer it, or windows that are longer.
        """
        self._cannot("patterns")

    def total(
        self, one: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate what happened in one group, or in several together, with an interval.

        Args and errors as of `difference`.
        """
        from counton.numbers.contrasts import answer

        return answer(
            self.number_of(one, steps, of),
            self.level,
            at_once=at_once * self.comparisons,
            what=f"{_question_in_words(one, of)}{self._within_words(steps)}",
        )

    def sums(self, every: str) -> pl.DataFrame:
        """Add up what happened in each day, week or month.

        Raises:
            InvalidInput: the statistic does not answer it.
        """
        self._cannot("sums")

    def _cannot(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"{self.terms.name!r} holds readings of {self.definition.what}; {what} are answered "
            f"for counts and sums"
        )


def _question_in_words(asked: Groups, of: str | None) -> str:
    """What is asked about, in words."""
    name = asked if isinstance(asked, str) else " and ".join(asked)
    return name if of is None else f"{of} of {name}"


def answers_table(names: Sequence[str], found: Sequence[Answer]) -> pl.DataFrame:
    """Answers below each other: group, estimate, std, lower, upper."""
    return pl.DataFrame(
        {
            "group": list(names),
            "estimate": [one.value for one in found],
            "std": [one.std for one in found],
            "lower": [one.lower for one in found],
            "upper": [one.upper for one in found],
        }
    )

"""Releases: one type for every statistic, from a run or from a file.

It answers questions: differences, ratios, shares and sums, bands, sentences and charts. Answers
come from `questions.number_of`, which knows each number's noise (`counton.continual.formulas`);
intervals follow from the joint distribution of all noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from counton.base.arguments import with_keywords
from counton.base.columns import align_lines
from counton.base.errors import InvalidInputError
from counton.base.lazy import require
from counton.continual import Releases
from counton.continual.comparisons import Answer
from counton.continual.formulas import Estimate, difference, shifted_ratio
from counton.results.bands import with_joint_intervals
from counton.results.display import ChartOptions
from counton.results.error_text import errors_of_release, margins_of_release
from counton.results.metadata_codec import facts_of
from counton.results.period_sums import sums_of_periods
from counton.results.privacy_text import guarantee_in_words, notes_as_sentences
from counton.results.questions import (
    Question,
    compare,
    refuse_shared_noise,
    share_of,
    total_of,
    weighted_sum_of,
)
from counton.results.release_data import Groups, ReleaseData, Steps
from counton.results.released_table import missing_rows, table_of, table_of_series
from counton.results.report_parts import part_of
from counton.results.terminal import page, screen_of
from counton.results.text import account_of, description_of, methods_of
from counton.statistics import StatisticResult
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession


class Comparison(TypedDict, total=False):
    """Keyword arguments of a comparison; see `Release.difference`."""

    steps: Steps
    other_steps: Steps
    of: str | None
    other_release: Release | None
    at_once: int


class ChartWords(TypedDict, total=False):
    """Keyword arguments of a chart; see `Release.figures`."""

    title: str | None
    axis: str | None
    source: str | None
    width: float | None


@dataclass(frozen=True, repr=False)
class Release:
    """The released numbers of a stream, for all steps and groups or for some of them.

    All of it is public. A question that makes no sense for the statistic is refused with the
    reason.

    >>> import polars as pl
    >>> from counton.run import Job, run
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"], "paid": [3, 5]})
    >>> told = {
    ...     "time": "at", "every": "1d", "start": "2024-03-01", "windows": 365,
    ...     "until": "2024-03-03", "epsilon": 1,
    ... }
    >>> with run(Job("count", visits, "c.db", series="both", **told)) as outcome:
    ...     outcome.read().table().columns[3:6]
    ['series', 'group', 'estimate']
    """

    numbers: ReleaseData

    @property
    def steps(self) -> range:
        """The released steps: 1 to the last one."""
        return self.numbers.steps

    @property
    def result(self) -> StatisticResult:
        """The numbers after the last step, from which sums and covariances may be computed."""
        return self.numbers.result

    def table(self, steps: range | None = None) -> pl.DataFrame:
        """Return the table: a row for each step and each group or number, with intervals.

        The reference of table columns lists all columns. For counts and sums they are window_index,
        window_start, window_end, series, group, estimate, noise_std, lower, upper and
        confidence_level. If totals and windows are released, both are rows, with another
        ``series``.

        Args:
            steps: some of the shown steps; None: all, or the last one if cells are computed on
                request.

        Raises:
            InvalidInputError: steps are not consecutive, or not all released.

        >>> import polars as pl
        >>> from counton import release
        >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"]})
        >>> found = release("count", visits, state="c.db", time="at", every="1d", epsilon=1,
        ...                 start="2024-03-01", windows=365, until="2024-03-05")
        >>> found.table()["window_index"].to_list()
        [1, 2, 3, 4]
        """
        if steps is not None:
            _check_steps(self.numbers, steps)
        return table_of(self.numbers, steps)

    def sums(self, every: str) -> pl.DataFrame:
        """Return the statistic of each day, week or month, from the rows of that period alone.

        Columns: window_start, window_end, first_window, last_window; those of `table`; and
        is_complete. The sums of all periods add up to the last total. The first and the last period
        are not complete if the released windows do not cover them.

        Distinct users who count once, ever, are those whom no earlier period counted.

        If windows are released again, ``is_final`` says whether all of its windows are. If windows
        have notes, ``note`` has those of the period's windows.

        Args:
            every: length of a period: ``1d``, ``1w``, ``1mo``, or several of these.

        Raises:
            InvalidInputError: ``every`` is not a length of time, a period begins inside a window,
                the stream has a delay, the table was released once, or cells are computed on
                request; or distinct users are counted again in other periods, so that sums would
                count some of them several times.
        """
        return sums_of_periods(self.numbers, every)

    def only(self, steps: range | None = None, groups: Sequence[str] | None = None) -> Self:
        """Return a release of only some steps and some groups; None: all.

        Args:
            steps: consecutive released steps, from 1; None: all.
            groups: in the wanted order.

        Raises:
            InvalidInputError: a group is unknown or named twice; or steps are not consecutive or
                released.
        """
        if steps is not None:
            _check_steps(self.numbers, steps)
        return type(self)(self.numbers.only(steps, groups))

    def part(self, name: str) -> Self:
        """Return the release of one statistic of a report, as if it had been released alone.

        A statistic that is computed from the cells of another answers the questions that the other
        does.

        Args:
            name: name of the statistic in the report.

        Raises:
            InvalidInputError: the release is not a report, or has no statistic of this name.
        """
        return type(self)(part_of(self.numbers, name))

    def at(self, level: float) -> Self:
        """Return the same numbers with intervals of another confidence level.

        Args:
            level: probability with which an interval holds its true value, above 0 and at most 1 -
                1e-9.

        Raises:
            InvalidInputError: a level outside (0, 1 - 1e-9].
        """
        return type(self)(self.numbers.at(level))

    @with_keywords(Comparison, {"at_once": 1})
    def difference(self, groups: Groups, other: Groups, **options: Unpack[Comparison]) -> Answer:
        """Estimate how much more was counted in one group, or in some steps, than in another.

        The interval comes from the joint noise of all numbers: two groups; two windows of one
        group, which share noise; or two streams, which do not. If a number is not a function of
        sums, such as a quantile, each of the two intervals gets half of the error probability.

        Args:
            groups, other: a group; several groups that are added up; or a mapping from groups to
                weights. Without groups, the name of a number: ``"mean"``, ``"CA/Napa"``, or
                ``"all"``.
            steps: of ``groups``; ``"25:48"`` or days as in ``"2024-03-18:2024-03-24"``, each
                including both ends; a ``range``; or None: all.
            other_steps: of ``other``; None: those of ``groups``.
            of: the number of each group, such as ``"mean"`` or ``"0.9"``, if it has several.
            other_release: release of another stream, which has the group ``other``.
            at_once: number of answers whose intervals hold together (Bonferroni).

        Raises:
            InvalidInputError: a group, step or number is unknown; groups are undeclared; or
                ``other_release`` may have the same noise as this one, because both are of one
                stream.

        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> visits = pl.DataFrame({
        ...     "time": ["2024-03-01T09:00", "2024-03-02T11:30", "2024-03-03T10:15"],
        ...     "page": ["home", "shop", "home"], "paid": [3, 8, 5],
        ... })
        >>> found = release(
        ...     "count", visits, time="time", every="1d", start="2024-03-01", windows=365,
        ...     group_by="page",
        ...     until="latest-event", groups=["home", "shop"], guarantee=PureDP(1),
        ...     state="visits.db",
        ... )
        >>> found.difference("home", "shop").what
        'home minus shop'
        >>> found.share("home").lower >= 0
        True
        """
        _refuse_unknown("difference", options, Comparison)
        return self._compare(difference, "minus", groups, other, options)

    @with_keywords(Comparison, {"at_once": 1})
    def ratio(self, groups: Groups, other: Groups, **options: Unpack[Comparison]) -> Answer:
        """Estimate the number of one group divided by that of another; see `difference`.

        The interval is Fieller's: it is unbounded if the divisor may be 0.

        Args:
            groups: the dividend, as in `difference`.
            other: the divisor.
            steps, other_steps, of, other_release, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        _refuse_unknown("ratio", options, Comparison)
        return self._compare(shifted_ratio, "over", groups, other, options)

    @with_keywords(Comparison, {"at_once": 1})
    def change(self, groups: Groups, other: Groups, **options: Unpack[Comparison]) -> Answer:
        """Estimate by how many per cent one group's number is above another's; see `ratio`.

        Args:
            groups: the number that changed, as in `difference`.
            other: the number that is 100 per cent.
            steps, other_steps, of, other_release, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        _refuse_unknown("change", options, Comparison)
        change = self._compare(
            lambda above, below: shifted_ratio(above, below, 100.0, -100.0),
            operator="against",
            groups=groups,
            other=other,
            options=options,
        )
        return replace(change, what=f"{change.what}, in per cent")

    def _compare(
        self,
        operation: Callable[[Estimate, Estimate], Estimate],
        operator: str,
        groups: Groups,
        other: Groups,
        options: Comparison,
    ) -> Answer:
        steps = options.get("steps")
        other_steps = options.get("other_steps")
        of = options.get("of")
        other_release = options.get("other_release")
        first = Question(self.numbers, groups, steps, of)
        numbers = self.numbers if other_release is None else other_release.numbers
        if other_release is not None:
            refuse_shared_noise(self.numbers.design, numbers.design)
            if numbers.metadata.statistic.additive:
                of = None  # a count or a sum has one number for each group
        second = Question(numbers, other, steps if other_steps is None else other_steps, of)
        return compare(first, second, operation, operator, options.get("at_once", 1))

    def share(
        self, groups: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate the share of one group in all groups; see `difference`.

        The share of a count is between 0 and 1. The sentence states it in per cent.

        Args:
            groups, steps, of, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`; or one user may count in several groups, so that
                the number of users of all groups is not known.
        """
        return share_of(Question(self.numbers, groups, steps, of), at_once)

    def combine(
        self,
        weights: Mapping[str, float],
        *,
        steps: Steps = None,
        of: str | None = None,
        at_once: int = 1,
    ) -> Answer:
        """Estimate a weighted sum over groups; see `difference`.

        Args:
            weights: the weight of each group, which may be negative.
            steps, of, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        return weighted_sum_of(self.numbers, weights, steps, of, at_once)

    def versions(self) -> pl.DataFrame:
        """Return a table of all versions of the shown windows.

        A version is a window's row in `table` as one release showed it. ``as_of`` is the end of the
        newest window when it was published; ``lag_windows`` is the number of windows that had ended
        after the row's window. Of marked windows all versions have the ``note``.

        Raises:
            InvalidInputError: windows are released only once.

        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> told = {"time": "at", "every": "1d", "start": "2024-03-01", "allowed_lateness": "2d"}
        >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"]})
        >>> _ = release(
        ...     "count", visits, **told, append=True, until="2024-03-03", guarantee=PureDP(1),
        ...     state="visits.db",
        ... )
        >>> late = pl.DataFrame({"at": ["2024-03-01T23:30"]})
        >>> found = release("count", late, append=True, until="2024-03-04", state="visits.db")
        >>> found.table()["lag_windows"].to_list(), found.versions().height
        ([2, 1, 0], 6)
        """
        from counton.results.versions import versions_of

        return versions_of(self.numbers)

    def total(
        self, groups: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate the number of one or several groups together; see `difference`.

        Args:
            groups, steps, of, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        return total_of(Question(self.numbers, groups, steps, of), at_once)

    def band(self) -> pl.DataFrame:
        """Return the rows of `table`, with intervals that hold for all rows at once.

        The intervals hold together for all shown steps and groups (`only` leaves some out), so they
        also bound every change between two steps. Except for counts and sums they follow from the
        union bound.
        """
        table = table_of_series(with_joint_intervals(self.numbers))
        return table.with_columns(confidence_level=pl.lit(self.numbers.level))

    @with_keywords(ChartWords, {})
    def figures(self, **words: Unpack[ChartWords]) -> dict[str, Figure]:
        """Return charts of counts and sums by their subject, totals and windows.

        Each of the first 24 groups has a small chart.

        Args:
            title, axis: words that replace those of the chart.
            source: of the numbers, printed below the chart.
            width: width in inches; None: 7.5. A width of 4 fits a telephone.

        Raises:
            InvalidInputError: the width is out of range, or the release is of another statistic.
            MissingDependencyError: matplotlib is not installed.
        """
        from counton.results.charts import figures_of

        _refuse_unknown("figures", words, ChartWords)
        return figures_of(self.numbers, ChartOptions(**words))

    @with_keywords(ChartWords, {})
    def plot(self, **words: Unpack[ChartWords]) -> Figure:
        """Return the first chart of `figures`; a notebook displays it."""
        return next(iter(self.figures(**words).values()))

    def to_pandas(self) -> Any:
        """Return `table` as a pandas data frame."""
        require("pandas")
        import pandas as pd

        table = table_of(self.numbers)
        return pd.DataFrame({name: table[name].to_list() for name in table.columns})

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return `table` as a frame of Spark.

        The last column has the description in its metadata. `counton.read` restores this release
        from the frame, and from any table that keeps the metadata of its columns (Parquet by Spark,
        Delta). Released rows never change.

        Args:
            session: the session of Spark in which the frame is made.

        Raises:
            MissingDependencyError: PySpark is not installed.

        Example::

            >>> frame = outcome.read().to_spark(spark)                # doctest: +SKIP
            >>> frame.write.mode("overwrite").saveAsTable("released") # doctest: +SKIP
            >>> counton.read(spark.table("released")).describe()      # doctest: +SKIP
        """
        from counton.results.spark_frames import frame_of

        return frame_of(table_of(self.numbers), facts_of(self.numbers), session)

    def describe(self) -> str:
        """Describe the protected unit, the guarantee and the released steps."""
        numbers = self.numbers
        words = description_of(numbers.metadata, numbers.design, numbers.steps)
        missing = missing_rows(numbers)
        words += "".join(f"\nnote: {note}" for note in numbers.notes)
        if missing.n_missing:
            left_out = f"{missing.n_missing:,} of {missing.n_rows:,} rows"
            words += f"\nleft out: {left_out}, in what was read"
        return words

    def methods(self, *, full: bool = False) -> str:
        """Return the text on methods that a publication prints with these numbers.

        Args:
            full: False for about five sentences for all readers. True for the complete account for
                specialists: unit, neighbouring datasets, guarantee, attacker, error, mechanism,
                what is not protected, and sources.
        """
        from counton.continual.methods import methods

        numbers = self.numbers
        steps = self.numbers.steps
        numbers.check_released()
        metadata = numbers.metadata
        design = numbers.design
        counted = numbers.counted_windows
        if not full:
            return methods_of(
                metadata,
                design.name,
                steps=numbers.steps,
                level=numbers.level,
                margins=margins_of_release(numbers),
                counted=counted,
                notes=numbers.notes,
            )
        if isinstance(numbers.published, Releases):  # the subject of its numbers is not stated
            return methods(design, errors=errors_of_release(numbers))
        notes = numbers.notes
        errors = [*errors_of_release(numbers), *notes_as_sentences(notes)]
        return account_of(metadata, design, len(steps), errors, counted)

    def __repr__(self) -> str:
        last = self.numbers.steps.stop - 1
        steps = f"steps 1 to {last:,}" if last else "no step yet"
        return f"<{type(self).__name__} {self.numbers.design.name!r}, {steps}>"

    def __str__(self) -> str:
        numbers = self.numbers
        if not numbers.steps:
            return self.describe()
        screen = screen_of(numbers)
        lines = []
        for table in screen.tables:
            lines += align_lines(table)
        if screen.left_out:
            lines.append(f"Shown: {screen.left_out}. All: table()")
        state = f"; state (secret): {numbers.state}" if numbers.state else ""
        return "\n".join(
            [
                *filter(None, [screen.heading.lstrip("\n")]),
                *lines,
                *screen.notes,
                f"Privacy: {guarantee_in_words(numbers.metadata)}",
                f"Details: describe(){state}",
            ]
        )

    def _repr_html_(self) -> str:
        words = self.describe()
        if not self.numbers.steps:
            from counton.continual.html_table import html_table

            return html_table(words, {})
        return page(self.numbers, words, self.figures if self.numbers.is_drawable else dict)


def _check_steps(numbers: ReleaseData, steps: range) -> None:
    """Refuse steps that are not consecutive, or not all released."""
    present = numbers.steps
    inside = present.start <= steps.start and steps.stop <= present.stop
    if steps and not (steps.step == 1 and inside):
        raise InvalidInputError(
            f"steps is {steps!r}, but steps {present.start:,} to {present.stop - 1:,} are there: "
            f"give consecutive ones of them, such as range({present.start}, {present.stop})"
        )


def _refuse_unknown(method: str, names: Iterable[str], keys: type) -> None:
    """Raise `TypeError` for unknown keyword arguments, as Python does."""
    if unknown := [name for name in names if name not in keys.__annotations__]:
        raise TypeError(f"Release.{method}() got an unexpected keyword argument {unknown[0]!r}")

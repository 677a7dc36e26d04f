"""Releases: one type for every statistic, from a run or from a file.

It answers questions: differences, ratios, shares and sums, bands, sentences and charts. Answers
come from `ReleaseData.number_of`, which knows each number's noise (`counton.continual.formulas`);
intervals follow from the joint distribution of all noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from counton.base.arguments import with_keywords
from counton.base.columns import align_lines
from counton.base.errors import InvalidInputError, param
from counton.base.exact import percent
from counton.base.lazy import require
from counton.base.outside_input import shown_name
from counton.continual import Design, Releases, StepRelease
from counton.continual.comparisons import Answer, answer
from counton.continual.formulas import Estimate, Ratio, difference, shifted_ratio
from counton.continual.releases import noise_in_words
from counton.results.display import ChartOptions
from counton.results.metadata import counted_anew
from counton.results.metadata_codec import facts_of
from counton.results.release_data import Groups, ReleaseData, Steps
from counton.results.terminal import page, screen_of
from counton.results.text import (
    account_of,
    deviations_in_words,
    deviations_of,
    error_in_words,
    far_in_words,
    guarantee_in_words,
    in_words,
    methods_of,
    notes_as_sentences,
    reach_of,
)
from counton.results.window_notes import with_notes
from counton.statistics import Grouped, StatisticResult
from counton.statistics.by_group import inner_of
from counton.statistics.cells import Cells
from counton.statistics.results import StatisticResults
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from counton.results.revisions import Revisions
    from counton.statistics.report import Report


class Comparison(TypedDict, total=False):
    """Keyword arguments of a comparison; see `Release.difference`."""

    steps: Steps
    other_steps: Steps
    of: str | None
    beside: Release | None
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
        return self.numbers.table(steps)

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
        return self.numbers.sums(every)

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
        numbers = self.numbers
        if not inner_of(numbers.statistic).statistics:
            raise InvalidInputError(
                f"{param('part', name)} names a statistic inside a report, but "
                f"{numbers.design.name!r} is not a report, it releases {numbers.metadata.what}; "
                "leave it out"
            )
        report: Report = cast("Report", inner_of(numbers.statistic))
        groups = numbers.metadata.domain
        member = report.statistic(name)
        statistic = member
        measured = report.derived_from.get(name, name)
        n_groups = () if groups is None else (len(groups),)
        design = report.design_of(measured, numbers.design, n_groups)
        counts = statistic.additive and measured == name
        by_group = None if groups is None or counts else Grouped(statistic, groups)
        by = numbers.metadata.group_by
        columns = report.columns[name]
        if (
            isinstance(statistic, Grouped) or statistic.declares is not None
        ):  # it has its own groups
            groups = GroupNames(
                statistic.groups if isinstance(statistic, Grouped) else statistic.declares or ()
            )
            by = columns[0]
            columns = columns[1:]
            statistic = inner_of(statistic)
        additive = statistic.additive and measured == name
        contribution_rule = numbers.metadata.contribution_rule
        if member.counted_ranks == (1,) or (by is None and member.counts_users):
            contribution_rule = contribution_rule.with_groups(member.counted_ranks[-1])
        metadata = replace(
            numbers.metadata,
            what=statistic.keyword or type(statistic).__name__,
            statistic=statistic if additive else by_group or member,
            group_by=by,
            domain=groups,
            value=columns[0] if len(columns) == 1 else None,
            contribution_rule=contribution_rule,
        )
        releases = numbers.results.releases
        assert releases is not None
        if additive:
            values = report.values_of(name, releases.values, design)
            cells = numbers.of(metadata, design, values, numbers.level)
            return type(self)(cells.only(range(numbers.first, numbers.steps.stop), numbers.chosen))

        def read(release: StepRelease) -> StatisticResult:
            return report.read_part(name, Cells(release), by_group)

        results = StatisticResults(metadata.statistic, releases.steps, releases, read=read)
        selected = replace(numbers, metadata=metadata, design=design, published=results)
        return type(self)(selected)

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
            beside: another stream, which has the group ``other``.
            at_once: number of answers whose intervals hold together (Bonferroni).

        Raises:
            InvalidInputError: a group, step or number is unknown; groups are undeclared; or
                ``beside`` may have the same noise as this stream, because it is this stream itself.

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
        return self._two(difference, "minus", groups, other, **options)

    @with_keywords(Comparison, {"at_once": 1})
    def ratio(self, groups: Groups, other: Groups, **options: Unpack[Comparison]) -> Answer:
        """Estimate the number of one group divided by that of another; see `difference`.

        The interval is Fieller's: it is unbounded if the divisor may be 0.

        Args:
            groups: the dividend, as in `difference`.
            other: the divisor.
            steps, other_steps, of, beside, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        _refuse_unknown("ratio", options, Comparison)
        return self._two(shifted_ratio, "over", groups, other, **options)

    @with_keywords(Comparison, {"at_once": 1})
    def change(self, groups: Groups, other: Groups, **options: Unpack[Comparison]) -> Answer:
        """Estimate by how many per cent one group's number is above another's; see `ratio`.

        Args:
            groups: the number that changed, as in `difference`.
            other: the number that is 100 per cent.
            steps, other_steps, of, beside, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        _refuse_unknown("change", options, Comparison)
        change = self._two(
            lambda above, below: shifted_ratio(above, below, 100.0, -100.0),
            operator="against",
            groups=groups,
            other=other,
            **options,
        )
        return replace(change, what=f"{change.what}, in per cent")

    def _two(
        self,
        together: Callable[[Estimate, Estimate], Estimate],
        operator: str,
        groups: Groups,
        other: Groups,
        *,
        steps: Steps = None,
        other_steps: Steps = None,
        of: str | None = None,
        beside: Release | None = None,
        at_once: int = 1,
    ) -> Answer:
        later = steps if other_steps is None else other_steps
        first = self.numbers
        second = first if beside is None else beside.numbers
        if beside is not None and _may_share_noise(first.design, second.design):
            raise InvalidInputError(
                f"{param('beside')} seems to be the same stream, {second.design.name!r}, or its "
                "copy, whose noise is the same, so errors of differences cannot be stated: give "
                f"another stream, or leave {param('beside')} out to compare numbers of one stream"
            )
        named = None if second.statistic.additive and beside is not None else of
        estimate = together(
            first.number_of(groups, steps, of), second.number_of(other, later, named)
        )
        n_comparisons = at_once * max(first._comparisons, second._comparisons)
        first_words = _question_in_words(first, groups, of)
        second_words = _question_in_words(second, other, named)
        begin = _within_words(first, steps)
        end = _within_words(second, later)
        if second is not first:
            first_words = f"{first_words} of {first.design.name}"
            second_words = f"{second_words} of {second.design.name}"
        elif steps == later:  # the times stand only once, at the end
            begin = ""
        words = f"{first_words}{begin} {operator} {second_words}{end}"
        return answer(estimate, first.level, at_once=n_comparisons, what=words)

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
        estimate = shifted_ratio(
            self.numbers.number_of(groups, steps, of), self.numbers.whole(steps, of)
        )
        if not isinstance(groups, Mapping):
            estimate = self._bounded_share(estimate)
        words = f"{_question_in_words(self.numbers, groups, of)}, of all groups"
        return replace(self._answer(estimate, words, steps, at_once), per_cent=True)

    def _answer(self, estimate: Estimate, words: str, steps: Steps, at_once: int) -> Answer:
        """Return an answer: an estimate for some steps, its interval and words."""
        numbers = self.numbers
        words = words + _within_words(self.numbers, steps)
        return answer(estimate, numbers.level, at_once=at_once * numbers._comparisons, what=words)

    def _bounded_share(self, estimate: Estimate) -> Estimate:
        """Return the estimate, between 0 and 1 if it is a quotient of counts."""
        numbers = self.numbers
        exact = numbers.design.contribution.resolution is None
        counts = exact and numbers.has_cells
        return (
            replace(estimate, least=0.0, most=1.0)
            if counts and isinstance(estimate, Ratio)
            else estimate
        )

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
        words = " + ".join(
            f"{weight:g} {_question_in_words(self.numbers, groups, of)}"
            for groups, weight in weights.items()
        )
        words = words.replace("+ -", "- ") + _several_groups(self.numbers, weights)
        words += _within_words(self.numbers, steps)
        estimate = self.numbers.number_of(weights, steps, of)
        return answer(estimate, self.numbers.level, at_once=at_once, what=words)

    def _numbers_at_step(self, revisions: Revisions, step: int) -> ReleaseData:
        """Return the newest numbers of the shown windows and groups after one release."""
        design = revisions.design_at(step)
        values = revisions.newest(step)
        numbers = self.numbers
        metadata = replace(numbers.metadata, strategy=design.strategy)
        chosen = numbers.chosen
        if (since := revisions.found_by(step)) is not None:
            values = values[:, GroupNames(tuple(revisions.since or ())).places(list(since))]
            chosen = None if chosen is None else tuple(name for name in chosen if name in since)
        version_numbers = numbers.of(
            metadata, design, values, numbers.level, shown=numbers.shown, since=since
        )
        version_numbers = replace(
            version_numbers, revisions=revisions, notes=numbers.notes, kept_in=numbers.kept_in
        )
        return version_numbers if chosen is None else version_numbers.only(None, chosen)

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
        from counton.results.revisions import versions_at_hand, versions_of_cells

        numbers = self.numbers
        revisions = versions_at_hand(numbers.revisions, numbers.design.name)
        windows = numbers.metadata.windows
        last = numbers.design.strategy.horizon or 0
        if numbers.has_cells:
            names = revisions.names(numbers.metadata.groups)
            places = GroupNames(tuple(names)).places(numbers.groups).tolist()
            cells = dict(zip(numbers.groups, places, strict=True))
            table = versions_of_cells(revisions, windows, cells, numbers.level, last)
            for mark in numbers.metadata.notes:
                if mark.withdrawn:
                    of = pl.col("group") == (mark.group or pl.col("group"))
                    table = table.filter(~((pl.col("window_index") == mark.step) & of))
            table = with_notes(table, numbers.metadata.notes)
        else:
            tables = [
                self._numbers_at_step(revisions, step).table(
                    range(max(1, step - revisions.lags), step + 1)
                )
                for step in range(1, last + 1)
            ]
            table = pl.concat(tables).sort("window_index", "lag_windows", maintain_order=True)
        shown = pl.col("window_index").is_between(numbers.first, numbers.steps.stop - 1)
        return table.filter(shown)

    def total(
        self, groups: Groups, *, steps: Steps = None, of: str | None = None, at_once: int = 1
    ) -> Answer:
        """Estimate the number of one or several groups together; see `difference`.

        Args:
            groups, steps, of, at_once: as in `difference`.

        Raises:
            InvalidInputError: as for `difference`.
        """
        estimate = self.numbers.number_of(groups, steps, of)
        words = _question_in_words(self.numbers, groups, of)
        return self._answer(estimate, words, steps, at_once)

    def band(self) -> pl.DataFrame:
        """Return the rows of `table`, with intervals that hold for all rows at once.

        The intervals hold together for all shown steps and groups (`only` leaves some out), so they
        also bound every change between two steps. Except for counts and sums they follow from the
        union bound.
        """
        table = self.numbers.with_band().plain_table()
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

        table = self.numbers.table()
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

        return frame_of(self.numbers.table(), facts_of(self.numbers), session)

    def describe(self) -> str:
        """Describe the protected unit, the guarantee and the released steps."""
        numbers = self.numbers
        words = in_words(numbers.metadata, numbers.design, numbers.steps)
        missing, of = numbers.left_out()
        words += "".join(f"\nnote: {note}" for note in numbers.notes)
        if missing:
            words += f"\nleft out: {missing:,} of {of:,} rows, in what was read"
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
        over = numbers.over
        if not full:
            return methods_of(
                metadata,
                design.name,
                steps=numbers.steps,
                level=numbers.level,
                reach=_reach(numbers),
                over=over,
                notes=numbers.facts().get("notes", ()),
            )
        if isinstance(numbers.published, Releases):  # the subject of its numbers is not stated
            return methods(design, errors=_errors_in_words(numbers))
        notes = numbers.notes
        errors = [*_errors_in_words(numbers), *notes_as_sentences(notes)]
        return account_of(metadata, design, len(steps), errors, over)

    def __repr__(self) -> str:
        last = self.numbers.steps.stop - 1
        steps = f"steps 1 to {last:,}" if last else "no step yet"
        return f"<{type(self).__name__} {self.numbers.design.name!r}, {steps}>"

    def __str__(self) -> str:
        released = self.numbers
        if not released.steps:
            return self.describe()
        screen = screen_of(released)
        numbers = []
        for table in screen.tables:
            numbers += align_lines(table)
        if screen.left_out:
            numbers.append(f"Shown: {screen.left_out}. All: table()")
        kept = f"; state (secret): {released.kept_in}" if released.kept_in else ""
        return "\n".join(
            [
                *filter(None, [screen.heading.lstrip("\n")]),
                *numbers,
                *screen.notes,
                f"Privacy: {guarantee_in_words(released.metadata)}",
                f"Details: describe(){kept}",
            ]
        )

    def _repr_html_(self) -> str:
        words = self.describe()
        if not self.numbers.steps:
            from counton.continual.html_table import html_table

            return html_table(words, {})
        return page(self.numbers, words, self.figures if self.numbers.drawable else dict)


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


def _within_words(numbers: ReleaseData, steps: Steps) -> str:
    """Return the times of some steps in parentheses; "" for all."""
    metadata = numbers.metadata
    again = metadata.users_again
    covers_all = steps is None and again is None and metadata.series != "rolling"
    if not metadata.windows.is_recurring or covers_all:
        return ""
    start, stop = numbers.ends(steps)
    words = metadata.windows.span_text(range(start + 1, stop + 1))
    words += _users_in_words(numbers, start, stop)
    return f" ({words})" if metadata.windows.timed else f" in {words}"


def _users_in_words(numbers: ReleaseData, start: int, stop: int) -> str:
    """Return a note on users whom the number of some steps counts several times, or not at all.

    Args:
        numbers: the released numbers.
        start: the step before the first of these steps.
        stop: the last of them.
    """
    metadata = numbers.metadata
    if not metadata.counts_users:
        return ""
    again = metadata.users_again
    begin = 0 if again is None else int(numbers._users_begin[stop - 1])
    if begin > start:
        return f", {counted_anew(again or 'period')}"
    if begin < start:
        since = "before" if again is None else f"before in the {again}"
        return f", without users who were counted {since}"
    return ""


def _may_share_noise(design: Design, other: Design) -> bool:
    """Return True if two designs may have the same noise, of one stream or its parts."""
    if design.noise_id is not None and other.noise_id is not None:
        return design.noise_id == other.noise_id
    mine = design.name, design.guarantee, design.strategy
    return mine == (other.name, other.guarantee, other.strategy)


def _reach(numbers: ReleaseData) -> dict[str, float]:
    """Return the half-widths of the last numbers by name, "" for one kind; empty if not known."""
    if not numbers.is_by_group:
        return reach_of(numbers._last, _margins_of(numbers))
    windows = numbers.metadata.windows
    period = windows.period if windows.period else windows.every
    in_each = f"in each {period}"
    if windows.n_revisions and numbers.totals is None and numbers.windows is not None:
        half = numbers.windows.half
        final = len(half) > windows.n_revisions
        oldest = "when final" if final else "of the oldest"
        ends = {"when first published": half[-1:], oldest: half[:-1][:1]}
        return {name: float(end[0]) for name, end in ends.items() if len(end)}
    series_by_words = {"cumulative": numbers.totals, in_each: numbers.windows}
    for width in numbers.metadata.widths:
        series_by_words[f"in the {numbers.metadata.last_in_words(width)}"] = numbers._rolling(
            width, numbers.steps[-1:]
        )
    if numbers.metadata.half_life is not None:
        series_by_words[""] = numbers._decayed(numbers.steps[-1:])
    return {
        name: float(series.half[-1])
        for name, series in series_by_words.items()
        if series is not None and len(series.half)
    }


def _margins_of(numbers: ReleaseData) -> list[str]:
    """Return the columns of a contingency table, whose numbers are named by those they count by."""
    of_table = hasattr(numbers.statistic.result_type, "margin")
    return [*getattr(numbers.statistic, "columns", ())] if of_table else []


def _errors_in_words(numbers: ReleaseData) -> list[str]:
    """Return sentences on the noise."""
    far = far_in_words(_reach(numbers))
    if numbers.has_cells:
        by_words = {"a total": numbers.totals, "a window's own number": numbers.windows}
        for width in numbers.metadata.widths:
            windows = numbers.metadata.last_in_words(width)
            by_words[f"the sum of the {windows}"] = numbers._rolling(width)
        if numbers.metadata.half_life is not None:
            by_words["a decayed sum"] = numbers._decayed()
        errors = [
            error_in_words(series, numbers.level, words)
            for words, series in by_words.items()
            if series is not None and len(series.std)
        ]
        if numbers.metadata.ranks and far:
            errors.append(
                "Intervals of the groups that are shown hold at once; their margins of error are "
                f"at most {far}."
            )
        return errors
    last = numbers._last
    if isinstance(numbers.published, Releases):
        errors = [noise_in_words(last["noise_std"].drop_nulls().to_numpy())]
    else:
        errors = deviations_in_words(deviations_of(last, _margins_of(numbers)))
    level = percent(numbers.level)
    if isinstance(numbers.published, Releases):
        note = (
            f"At step {numbers.steps[-1]:,}, the last one, the margin of error ({level}%) is at "
            f"most {far}."
        )
        return [*errors, note]
    reach = ""
    if far:
        reach = f"; the last margins of error are at most {far}"
    return [
        *errors,
        (
            f"Intervals hold the numbers without noise with a probability of {level}% or more, "
            f"one at a time unless the table says else{reach}."
        ),
    ]


def _question_in_words(numbers: ReleaseData, groups: Groups, of: str | None) -> str:
    """Return words such as "mean of home"."""
    name = shown_name(groups if isinstance(groups, str) else " and ".join(groups))
    words = name if of is None else f"{of} of {name}"
    return words + _several_groups(numbers, groups)


def _several_groups(numbers: ReleaseData, groups: Groups) -> str:
    """Return a note that one user may count in several of the groups that are added up, if so."""
    if isinstance(groups, str) or numbers.metadata.groups_of_user == 1:
        return ""
    weights = groups.values() if isinstance(groups, Mapping) else [1.0] * len(groups)
    added = max(sum(weight > 0 for weight in weights), sum(weight < 0 for weight in weights))
    return ", users counted in each of these groups" if added > 1 else ""

"""Charts of releases: counts and sums over time, and tables of statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import percent, quantity
from counton.numbers import Releases
from counton.privacy.guarantees import plural
from counton.released.besides_noise import adds_users_up
from counton.released.periods import WEEK, patterns_of, periods_of
from counton.released.read_options import Look
from counton.released.revisions import final_windows
from counton.released.series import CellValues, Series
from counton.released.stream_words import (
    besides_as_sentence,
    counted_in_words,
    foot_of,
    groups_in_words,
    series_in_words,
    subject_in_words,
    times_in_words,
    title_in_words,
)
from counton.statistics import Statistic
from counton.statistics.catalogue import statistic_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.charts import Curves
    from counton.numbers.contrasts import Answer
    from counton.released.released_numbers import ReleasedNumbers

#: Approximate number of steps that a chart of a statistic shows.
_DRAWN = 500
#: For each kind of question: the title of a chart of its answers, and the label of its axis.
_DRAWN_AS = {
    "difference": ("differences", "difference in {subject}"),
    "ratio": ("ratios", "ratio: 1 is as many"),
    "change": ("changes in per cent", "change in per cent"),
    "share": ("shares", "share in per cent"),
    "total": ("totals", "{subject}"),
    "changes": ("largest changes", "change of {subject}"),
    "hidden": ("groups that are not shown", "{subject}"),
}
#: Words for averages by time, by the name of the pattern.
AVERAGES = {
    "hour": "of each hour of the day, over the days that have it whole",
    "weekday": "of each day of the week, over those that are there whole",
    "weekday,hour": "of each hour of the week, over those that are there whole",
}


def figures_of(released: ReleasedNumbers, look: Look, *, panels: bool) -> dict[str, Figure]:
    """Return the charts of a release by the name of their subject; see `counton.Release.figures`.

    Args:
        released: the release.
        look: words, width and language of the charts.
        panels: True for a small chart of each group.
    """
    if isinstance(released.published, Releases):
        raise InvalidInput(
            f"stream {released.design.name!r} was not made from events, so its steps have no "
            "times, and no chart can be drawn: write a table"
        )
    if panels and not released._by_group:
        raise InvalidInput(
            f"{field('panels', True)} draws the groups of counts and sums, and this release has "
            "none: leave it out"
        )
    released._check_released()
    definition = released.definition
    if definition.ranks:
        ranking: Any = statistic_named(definition.what)
        statistic = ranking(list(released.groups), released.shown.top)
        return {"statistic": _chart_of_readings(released, statistic, released.table(), look)}
    if isinstance(released.published, CellValues):
        return _charts_of_cells(released, look, panels=panels)
    if not definition.cut.goes_on:
        return {"table": _chart_of_table(released, look)}
    drawn = _drawn_rows(released)
    return {"statistic": _chart_of_readings(released, released.statistic, drawn, look)}


def _charts_of_cells(released: ReleasedNumbers, look: Look, *, panels: bool) -> dict[str, Figure]:
    """Return charts of counts or sums: of totals, of windows, or of both.

    If there are many groups, the charts show the largest.
    """
    from counton.charts.totals import MOST_PANELS, plot_totals

    definition, part = released.definition, released.largest(MOST_PANELS)
    grouped, what = groups_in_words(definition), subject_in_words(definition.subject)
    drawn = {}
    if released.totals is not None:
        times = times_in_words(definition)
        if released.delay:
            times += f", each point released {released.delay:,} windows later"
        running = f"Running {what}"
        drawn["totals"] = (totals_curves(part), title_in_words(running, grouped), times)
    apart = released.together is None
    if definition.release == "windows" or (definition.release == "both" and apart):
        most = () if apart else (len(released.shown_steps),)
        curves, every = window_curves(part, *most)
        times = times_in_words(definition, 1, every)
        drawn["windows"] = curves, title_in_words(what, grouped), times
    level = percent(released.level)
    together = "" if apart else ", which hold together"
    return {
        kind: plot_totals(
            replace(
                curves,
                all_groups=len(released.groups),
                groups=[*curves.groups] if grouped else [series_in_words(definition)],
            ),
            look.around(
                f"{times}; with {level}% intervals" + together,
                foot_of(definition, look.source, released.notes),
                title=said,
                axis=what,
            ),
            panels=panels,
        )
        for kind, (curves, said, times) in drawn.items()
    }


def totals_curves(released: ReleasedNumbers) -> Curves:
    """Return the data of a chart of totals; each total is drawn at the end of the last window that
    it counts.
    """
    # Before the delay is over nothing is counted.
    start = min(max(released.delay, released.first - 1), len(released.steps) - 1)
    part = slice(start, None)
    times = released._local(released._counted_until())[part]
    return _curves(released, times, released.totals or released.series, part)


def window_curves(released: ReleasedNumbers, most: int = 400) -> tuple[Curves, str]:
    """Return the data of a chart of single windows, and the length of a window.

    If there are more than ``most`` windows, they are added up to days, weeks, months or years. A
    period that released windows do not cover completely is then left out.
    """
    windows = released.definition.windows
    if len(released.shown_steps) > most:
        for every in ("1d", "1w", "1mo", "12mo"):
            try:
                periods = periods_of(windows, every, released.steps[-1])
            except InvalidInput:  # these windows do not divide days
                continue
            edges = periods.edges
            whole = periods.whole & (edges[:-1] >= released.first - 1)
            if 1 < whole.sum() <= most:
                series = released.between(edges[:-1], edges[1:])
                ends = released._local(windows.ends(range(released.steps.stop))[edges])
                found = _curves(released, ends[1:][whole], series, whole)
                final = final_windows(released.design, released.steps.stop - 1)
                open_ones = int((edges[1:][whole] > final).sum())
                return replace(found, starts=ends[:-1][whole], provisional=open_ones), every
    stops = np.arange(1, released.steps.stop)
    series = released.windows or released.between(stops - 1, stops)
    part = slice(released.first - 1, None)
    until, since = (
        released._local(moments(released.steps))[part] for moments in (windows.ends, windows.starts)
    )
    found = _curves(released, until, series, part)
    last = released.steps.stop - 1
    open_ones = min(last - final_windows(released.design, last), len(since))
    return replace(found, starts=since, provisional=open_ones), windows.every


def _curves(
    released: ReleasedNumbers, times: NDArray[np.datetime64], series: Series, shown: Any
) -> Curves:
    from counton.charts import Curves

    known, since, there = series.with_zeros(), released.since, released.there
    estimates, lower, upper = (
        np.asarray(a, np.float64)[shown] for a in (known.estimates, known.lower, known.upper)
    )
    hidden = np.zeros(estimates.shape, np.bool_)
    if since is not None:
        steps = np.asarray(released.steps)[shown]
        hidden |= steps[:, None] < released.first_steps
    if there is not None and len(there) == len(known.estimates):  # not for periods
        hidden |= ~there[shown]
    estimates, lower, upper = (np.where(hidden, np.nan, a) for a in (estimates, lower, upper))
    names = released.definition.groups if since is None else tuple(since)
    place = {group: number for number, group in enumerate(names)}
    places = [place[group] for group in released.groups]
    return Curves(times, released.groups, estimates, lower, upper, places=places)


def _drawn_rows(released: ReleasedNumbers) -> pl.DataFrame:
    """Return the rows of a statistic's table that a chart shows: evenly spaced steps, including the
    last step.
    """
    if released.statistic.card.on_demand and released.shown.ask is None:
        return released.table()
    count, after = released.steps.stop - released.first, released.steps.stop - 1
    stride = max(1, count // _DRAWN)
    steps = range(released.first + (count - 1) % stride, released.steps.stop, stride)
    drawn = released.table(steps)
    if "rank" not in drawn.columns:
        return drawn
    # The same groups in all steps: the largest by the whole shown time.
    over = None if released.first == 1 else released.steps.stop - released.first
    whole = replace(released, shown=replace(released.shown, over=over))
    largest = whole.table(range(after, after + 1))["group"].to_list()
    return replace(released, shown=replace(released.shown, ask=tuple(largest))).table(steps)


def _chart_of_readings(
    released: ReleasedNumbers, statistic: Statistic, table: pl.DataFrame, look: Look
) -> Figure:
    """Return a chart of a statistic's table over time.

    Args:
        released: the release that has the table.
        statistic: the statistic of the table.
        table: the rows to draw.
        look: words and width of the chart.
    """
    from counton.charts.statistic_charts import plot_statistic

    definition, over = released.definition, released.over
    return plot_statistic(
        statistic,
        {name: table[name].to_numpy() for name in table.columns},
        released._times,
        level=released.level,
        words=look.around(
            times_in_words(definition, over), foot_of(definition, look.source, released.notes)
        ),
        by=groups_in_words(definition),
        of=definition.value,
        counted=subject_in_words(counted_in_words(definition, over)),
        over=over,
        begins=released._begins_of_periods(np.unique(table["step"].to_numpy())),
        anew=adds_users_up(definition),
    )


def _chart_of_table(released: ReleasedNumbers, look: Look) -> Figure:
    """Return a chart of a table that was released once.

    Raises:
        InvalidInput: the release was read from a file in which rows were left out.
    """
    from counton.charts.table_charts import plot_table

    if released.rows_there is not None:
        raise InvalidInput(
            f"rows of {released.design.name!r} are missing from the file, and a chart needs all "
            "rows: give the complete file, or use its table instead of a chart"
        )
    definition = released.definition
    promise = f"{definition.guarantee} protects each single {definition.unit} "
    promise += f"({definition.contribution.neighbours})"
    foot = [] if look.source is None else [f"Source: {look.source}."]
    foot += [f"{note}." for note in released.notes]
    foot += besides_as_sentence(definition)
    return plot_table(
        released.reading,
        look.around(promise, " ".join(foot)),
        what=plural(definition.unit),
        fit=released.shown.fit,
        level=released.level,
    )


def figure_of_answers(
    released: ReleasedNumbers,
    answers: Sequence[Answer],
    questions: Sequence[str],
    steps: range,
    other_steps: range | None = None,
) -> Figure:
    """Return a chart of answers to questions about groups, whose heading states subject and time.

    Args:
        released: the release that answered.
        answers: the answers.
        questions: kinds of the questions, such as ``"difference"`` and ``"share"``.
        steps: the steps to which the answers refer.
        other_steps: earlier steps with which the answers compare; None: there are none.
    """
    from counton.charts.answer_charts import plot_answers
    from counton.charts.style import Caption

    definition = released.definition
    subject = definition.subject if definition.statistic.card.additive else released.design.name
    kind, axis = _DRAWN_AS[questions[0]] if len(questions) == 1 else ("answers", "")
    if [*questions] == ["changes"]:
        several = len(released.groups)
        some = f"the {len(answers)} {kind} of {several:,} groups"
        kind = f"{some if several > len(answers) else 'changes'}, by {groups_in_words(definition)}"
    elif len(answers) == 1:
        kind = kind.replace("changes", "change").removesuffix("s")
    when = definition.cut.span(steps)
    if other_steps is not None:
        when += f", against {definition.cut.span(other_steps)}"
    drawn = []
    for one in answers:  # the heading states the time; shares of groups in all are in per cent
        times = 100 if one.per_cent else 1
        ends = {name: times * getattr(one, name) for name in ("value", "std", "lower", "upper")}
        drawn.append(replace(one, what=one.what.removesuffix(f" ({when})"), **ends))
    subtitle = f"{when}; with {percent(released.level)}% intervals"
    subtitle += ", which hold together" if len(answers) > 1 else ""
    return plot_answers(
        drawn,
        Caption(
            title_in_words(f"{subject}: {kind}", None),
            subtitle,
            axis.format(subject=subject),
            foot_of(definition, None, released.notes),
        ),
    )


def figure_of_pattern(
    released: ReleasedNumbers, table: pl.DataFrame, by: str | Sequence[str], steps: range
) -> Figure:
    """Return a chart of averages by hour or weekday.

    Args:
        released: the release.
        table: the averages, from `Release.pattern`.
        by: "hour", "weekday", or both for each hour of the week.
        steps: the steps over which the averages were taken.
    """
    from counton.charts.answer_charts import plot_pattern, plot_week
    from counton.charts.style import Caption

    definition, named = released.definition, patterns_of(by)
    subject, grouped = definition.subject, groups_in_words(definition)
    times, level = definition.cut.span(steps), f"{percent(released.level)}%"
    intervals = f"with {level} intervals"
    if named == WEEK:
        half = max(((table["upper"] - table["lower"]) / 2).to_list(), default=0.0)
        far = quantity(half, half)
        intervals = f"each is within {far} of the true one with probability {level}"
    words = Caption(
        title_in_words(subject, grouped),
        f"the average {AVERAGES[','.join(named)]}, {times}; {intervals}",
        subject,
        foot_of(definition, None, released.notes),
    )
    return plot_week(table, words) if named == WEEK else plot_pattern(table, words)

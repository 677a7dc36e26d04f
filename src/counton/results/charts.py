"""Charts of releases: counts and sums over time, and tables of statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import percent
from counton.base.lengths import length_of_windows
from counton.continual import Releases
from counton.results.display import ChartOptions
from counton.results.revisions import final_windows
from counton.results.series_numbers import SeriesNumbers
from counton.results.subject_text import (
    foot_of,
    groups_in_words,
    incomplete_note,
    series_in_words,
    times_in_words,
    title_in_words,
)
from counton.results.window_notes import noted_sums, withdrawn_cells
from counton.windowing.periods import periods_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.charts import Curves
    from counton.results.metadata import ReleaseMetadata
    from counton.results.release_data import ReleaseData


@dataclass(frozen=True)
class _Chart:
    """One chart of a release.

    Attributes:
        kind: what its file is named after, such as "totals" or "last-7d".
        curves: its data.
        title: its title, if the user gives none.
        times: which windows each point counts, in words.
        note: a further remark; None: none.
    """

    kind: str
    curves: Curves
    title: str
    times: str
    note: str | None = None


def chart_kinds(numbers: ReleaseData) -> list[str]:
    """Return the kinds of a release's charts, such as "totals", "windows" or "last-7d"."""
    metadata = numbers.metadata
    kinds = []
    if numbers.series.totals is not None:
        kinds.append("totals")
    if _has_chart_of_windows(numbers):
        kinds.append("windows")
    if metadata.half_life is not None:
        kinds.append("decayed")
    return kinds + [_kind_of_width(width, metadata) for width in metadata.widths]


def _kind_of_width(width: int, metadata: ReleaseMetadata) -> str:
    """Return the kind of the chart of sums of the last ``width`` windows."""
    return f"last-{length_of_windows(width, metadata.windows.every)}"


def _has_chart_of_windows(numbers: ReleaseData) -> bool:
    series = numbers.metadata.series
    return series == "per-window" or (series == "both" and _holds_apart(numbers))


def _holds_apart(numbers: ReleaseData) -> bool:
    """Return whether each interval holds by itself, and not all of them together."""
    return numbers.joint_margins is None and numbers.joint_level is None


def _titles_by_length(title: str | None, metadata: ReleaseMetadata) -> dict[str, str]:
    """Return a stated title for each chart of sums of last windows, by the chart's kind.

    Charts of several lengths would have the same title otherwise.
    """
    if title is None:
        return {}
    return {
        _kind_of_width(width, metadata): f"{title}, {metadata.last_in_words(width)}"
        for width in metadata.widths
    }


def figures_of(numbers: ReleaseData, look: ChartOptions) -> dict[str, Figure]:
    """Return a release's charts by their subject; see `counton.Release.figures`."""
    if isinstance(numbers.published, Releases):
        raise InvalidInputError(
            f"stream {numbers.design.name!r} was not made from events, so its steps have no "
            "times, and no chart can be drawn: write a table"
        )
    if not numbers.is_by_group:
        raise InvalidInputError(
            f"a chart shows counts and sums over time, and {numbers.design.name!r} releases "
            f"{numbers.metadata.kind}: draw the table, as recipes/chart_of_groups.py does"
        )
    numbers.check_released()
    from counton.charts.totals import MOST_PANELS, plot_totals

    metadata = numbers.metadata
    part = numbers.first_groups(MOST_PANELS)
    charts = list(_charts_of(numbers, part))
    kinds = [chart.kind for chart in charts]
    assert kinds == chart_kinds(numbers)
    stated_titles = {} if len(kinds) == 1 else _titles_by_length(look.title, metadata)
    intervals = f"with {percent(numbers.level)}% intervals"
    if not _holds_apart(numbers):
        intervals += ", which hold together"
    groups = None
    if not groups_in_words(metadata):  # the name of the only curve is the label of its axis
        groups = [look.axis or series_in_words(metadata)]
        look = look._replace(axis="" if look.axis else None)
    notes = _notes_of(part)
    figures = {}
    for chart in charts:
        chart_notes = notes if chart.note is None else [*notes, chart.note.removesuffix(".")]
        caption = look._replace(title=stated_titles.get(chart.kind, look.title)).around(
            f"{chart.times}; {intervals}",
            foot_of(metadata, look.source, chart_notes),
            title=chart.title,
            axis=metadata.subject,
        )
        curves = replace(
            chart.curves,
            all_groups=len(numbers.groups),
            groups=[*chart.curves.groups] if groups is None else groups,
        )
        figures[chart.kind] = plot_totals(curves, caption)
    return figures


def _charts_of(numbers: ReleaseData, part: ReleaseData) -> Iterator[_Chart]:
    """Yield the charts of a release, in the order of `chart_kinds`.

    Args:
        numbers: the numbers.
        part: the same for the groups that are drawn.
    """
    metadata = numbers.metadata
    subject = metadata.subject
    grouped = groups_in_words(metadata)
    if numbers.series.totals is not None:
        times = times_in_words(metadata)
        if numbers.metadata.strategy.facts.delay:
            times += (
                f", each point released {numbers.metadata.strategy.facts.delay:,} windows later"
            )
        title = title_in_words(f"Running {subject}", grouped)
        yield _Chart("totals", totals_curves(part), title, times)
    if _has_chart_of_windows(numbers):
        if _holds_apart(numbers):
            curves, every = window_curves(part)
        else:
            curves, every = window_curves(part, len(numbers.shown_steps))
        title = title_in_words(subject, grouped)
        yield _Chart("windows", curves, title, times_in_words(metadata, 1, every))
    if metadata.half_life is not None:
        curves = recent_curves(part, part.series.decayed())
        title = title_in_words(f"{subject}, decayed", grouped)
        times = f"each {metadata.window} counts half after {metadata.half_life_in_words}"
        yield _Chart("decayed", curves, title, times)
    for width in metadata.widths:
        last = metadata.last_in_words(width)
        yield _Chart(
            kind=_kind_of_width(width, metadata),
            curves=recent_curves(part, part.series.rolling(width), width),
            title=title_in_words(f"{subject}, {last}", grouped),
            times=f"in the {last} up to each point",
            note=incomplete_note(metadata, numbers.first, [width]),
        )


def _notes_of(numbers: ReleaseData) -> list[str]:
    """Return the notes that a chart shows: not those on windows or groups that it leaves out."""
    metadata = numbers.metadata
    shown = numbers.shown_steps
    widest = max(metadata.widths, default=1)  # later sums include the noted window, too
    outside = {
        mark.sentence(metadata.windows, metadata.widths)
        for mark in metadata.notes
        if not (mark.step < shown.stop and mark.step + widest > shown.start)
        or (mark.group is not None and mark.group not in numbers.groups)
    }
    return [note for note in numbers.notes if note not in outside]


def totals_curves(numbers: ReleaseData) -> Curves:
    """Return the data of a chart of totals, each at the end of the last window that it counts."""
    # Before the delay is over nothing is counted.
    start = min(
        max(numbers.metadata.strategy.facts.delay, numbers.first - 1), len(numbers.steps) - 1
    )
    part = slice(start, None)
    times = numbers.in_local_time(numbers.counted_until())[part]
    return _curves(numbers, times, numbers.series.totals or numbers.series.released, part)


def recent_curves(numbers: ReleaseData, sums: SeriesNumbers, width: int = 1) -> Curves:
    """Return the data of a chart of sums of recent windows, each at the end of its last one.

    Args:
        numbers: the numbers.
        sums: the sums after all steps.
        width: how many windows are added up, each of which may have a note.
    """
    part = slice(numbers.first - 1, None)
    times = numbers.in_local_time(numbers.metadata.windows.ends(numbers.steps))[part]
    curves = _curves(numbers, times, sums, part)
    notes = numbers.metadata.notes
    if width == 1 or not notes:
        return curves
    return replace(curves, noted=noted_sums(notes, numbers.shown_steps, numbers.groups, width))


def window_curves(numbers: ReleaseData, most: int = 400) -> tuple[Curves, str]:
    """Return the data of a chart of single windows, and the length of a window.

    More than ``most`` windows are added up to days, weeks, months or years that released windows
    cover completely.
    """
    windows = numbers.metadata.windows
    if len(numbers.shown_steps) > most:
        for every in ("1d", "1w", "1mo", "12mo"):
            curves = _period_curves(numbers, every, most)
            if curves is not None:
                return curves, every
    stops = np.arange(1, numbers.steps.stop)
    series = numbers.series.windows or numbers.series.between(stops - 1, stops)
    part = slice(numbers.first - 1, None)
    until, since = (
        numbers.in_local_time(moments(numbers.steps))[part]
        for moments in (windows.ends, windows.starts)
    )
    curves = _curves(numbers, until, series, part)
    last = numbers.steps.stop - 1
    open_ones = min(last - final_windows(numbers.design, last), len(since))
    return replace(curves, starts=since, provisional=open_ones), windows.every


def _period_curves(numbers: ReleaseData, every: str, most: int) -> Curves | None:
    """Return the data of a chart of periods of equal length; None if there are too many or few."""
    windows = numbers.metadata.windows
    try:
        periods = periods_of(windows, every, numbers.steps[-1])
    except InvalidInputError:  # these windows do not divide days
        return None
    edges = periods.edges
    whole = periods.is_complete & (edges[:-1] >= numbers.first - 1)
    if not 1 < whole.sum() <= most:
        return None
    series = numbers.series.between(edges[:-1], edges[1:])
    ends = numbers.in_local_time(windows.ends(range(numbers.steps.stop))[edges])
    curves = _curves(numbers, ends[1:][whole], series, whole)
    final = final_windows(numbers.design, numbers.steps.stop - 1)
    open_ones = int((edges[1:][whole] > final).sum())
    return replace(curves, starts=ends[:-1][whole], provisional=open_ones)


def _curves(
    numbers: ReleaseData, times: NDArray[np.datetime64], series: SeriesNumbers, shown: Any
) -> Curves:
    from counton.charts import Curves

    filled = series.with_zeros()
    since = numbers.since
    is_present = numbers.cells.is_present
    estimates, lower, upper = (
        np.asarray(a, np.float64)[shown] for a in (filled.estimates, filled.lower, filled.upper)
    )
    hidden, noted = np.zeros((2, *estimates.shape), np.bool_)
    if since is not None:
        steps = np.asarray(numbers.steps)[shown]
        hidden |= steps[:, None] < numbers.first_steps
    if len(filled.estimates) == numbers.steps.stop - 1:  # not for periods
        every = range(1, numbers.steps.stop)
        cells = partial(withdrawn_cells, numbers.metadata.notes, every, numbers.groups)
        hidden |= cells()[shown]
        noted = cells(withdrawn=False)[shown]
        if is_present is not None:
            hidden |= ~is_present[shown]
    estimates, lower, upper = (np.where(hidden, np.nan, a) for a in (estimates, lower, upper))
    return Curves(times, numbers.groups, estimates, lower, upper, noted=noted)

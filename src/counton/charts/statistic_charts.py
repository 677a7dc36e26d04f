"""Charts of statistics: numbers over time with bands, or the cells of the last step side by
side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.base.exact import percent, with_capital
from counton.charts.style import (
    FAINT,
    INK,
    PALETTE,
    WIDTH,
    Bars,
    Caption,
    axis_inches,
    clean,
    drawing,
    frame,
    name_axis,
    number_ticks,
    shorten,
    tick,
)
from counton.charts.totals import (
    Curves,
    plot_bars,
    plot_totals,
    until_in_words,
)
from counton.statistics.by_group import inner_of, members_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.statistics import Statistic

#: Names of columns that may name the rows of a table; the first column that is present is used.
_NAMES = ("group", "name", "cell", "share", "degree", "cut")
#: Largest number of cells of a line that are drawn over time. More cells are drawn side by side,
#: after the last step.
_MOST_CURVES = 12
#: Largest number of cells of a line that are drawn as bars. More cells are drawn as steps.
_MOST_COLUMNS = 60


@drawing
def plot_statistic(
    statistic: Statistic,
    table: Mapping[str, NDArray[Any]],
    times: Callable[[range], NDArray[Any]],
    *,
    level: float,
    words: Caption,
    by: str | None = None,
    of: str | None = None,
    counted: str = "count",
    over: int | str | None = None,
    begins: NDArray[np.int64] | None = None,
    anew: str | None = None,
) -> Figure:
    """Draw a statistic's numbers over time, or its cells after the last step.

    Args:
        statistic: the statistic.
        table: columns of the statistic's table (`counton.Release.table`) as arrays, by name, with
            at least one row.
        times: function that returns the times at which the steps of a range end; step 0 is the
            beginning of the stream.
        level: probability with which each interval holds.
        words: the words around the chart; a missing title or axis is taken from the statistic. The
            subtitle states the times of the numbers.
        by: names of the grouping columns, in words; None: no groups.
        of: name of the column with the values; None: the statistic reads none.
        counted: the word for the things that cells count.
        over: number of last steps that each number covers, or the word for its period, such as
            "week"; None: all steps so far.
        begins: for each step, the last step before its period, shape ``(steps,)``; None: there are
            no periods.
        anew: a note that each user counts once in each period and that all periods are added up;
            None: they are not.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    inner = inner_of(statistic)
    how, chosen = inner.card.chart, inner.card.chart.rows
    *some, parts = [*members_of(inner)] or [""]
    if some:
        parts = f"{', '.join(some)} and {parts}"
    title = heading(how.title or f"{inner.card.keyword or 'Statistic'} so far", over is None)
    title, shown = (
        one.format(counted=counted, statistics=with_capital(parts)) for one in (title, how.axis)
    )
    title = with_capital(title)
    value = "" if of is None else of
    if of is not None and how.of_values:
        title, shown = f"{title} of {value}", value
    title += "" if anew is None else f", {anew}"
    left_out = "" if how.left_out is None else how.left_out(inner, table)
    table = table if how.choose is None else how.choose(inner, table)
    if inner is not statistic:
        table, middle = _by_group(table, chosen)
        if middle is not None:
            share = "Running median" if over is None else "Median"
            if middle != 0.5:
                share = (
                    f"Running {_share(middle)} quantile"
                    if over is None
                    else f"The {_share(middle)} quantile"
                )
            title = f"{share} of {value}"
        title = _by(title, [by or "group"])
        chosen = None
    title = _by(title, [*how.by])
    steps, place = np.unique(table["step"], return_inverse=True)
    column = next((name for name in _NAMES if name in table), None)
    names = None if column is None else table[column].astype(str)
    bars = names is not None and statistic.card.on_demand and len(steps) == 1
    intervals = percent(level)
    promise = f"; {left_out}" if left_out else ""
    if how.jointly:
        promise += " for all groups at once"
    profile = None if how.profile is None else how.profile(inner, table)
    if profile is not None and not how.bars:
        several = int((place == len(steps) - 1).sum()) > _MOST_CURVES
        profile = profile if several else None
    if names is None:
        names = np.full(len(place), of if of is not None and how.of_values else shown)
    if "share" in table:
        names = np.array([_share(share) for share in table["share"]])
    estimate = "estimate" if "estimate" in table else "value"
    ends = [np.asarray(table[end], float) for end in (estimate, "lower", "upper")]
    last = place == len(steps) - 1
    when_ended = np.asarray(times(range(int(steps[0]), int(steps[-1]) + 1)))[steps - steps[0]]
    if how.jointly and by is not None:
        largest = f"{int(last.sum()):,}"
        title = f"{_by(title, [by])}: the {largest} largest"
        promise += "" if over is None else "; the largest over the whole time"
    under = (
        f"{words.subtitle}; with {intervals}% intervals"
        if words.subtitle
        else f"with {intervals}% intervals"
    )
    under += promise
    words = words._replace(title=words.title or title, subtitle=under, axis=words.axis or shown)
    if bars or profile is not None:
        until = until_in_words(when_ended[-1])
        under = f"{until}; with {intervals}% intervals"
        words = words._replace(subtitle=under + promise)
        named = Bars(names[last].tolist(), *(end[last] for end in ends))
        if profile is not None:
            return plot_line(named, words, profile)
        return plot_bars(named, words)
    drawn = [name for name in names[last].tolist() if chosen is None or name in chosen]
    columns = {name: number for number, name in enumerate(drawn)}
    curve = np.array([columns.get(name, -1) for name in names.tolist()])
    grids = np.full((3, len(steps), len(drawn)), np.nan)
    grids[:, place[curve >= 0], curve[curve >= 0]] = [end[curve >= 0] for end in ends]
    if how.bounds is not None:  # an interval of all possible values says nothing
        least, most = how.bounds
        grids[:, (grids[1] <= least) & (grids[2] >= most)] = np.nan
    starts = None
    if begins is not None and (begins < steps - 1).any():
        begun = np.asarray(times(range(int(steps[-1]))))[begins]
        when_ended, grids = _begun_anew(when_ended, begun, grids)
    elif over is not None and when_ended.dtype.kind == "M" and (begins is not None or over == 1):
        begun = np.asarray(times(range(int(steps[0]) - 1, int(steps[-1]))))
        starts = begun[steps - steps[0]]
    groups: Sequence[str] = getattr(statistic, "groups", ())  # colours depend on all of them
    known = {name: number for number, name in enumerate(groups)}
    places = [known[name] for name in drawn] if set(drawn) <= known.keys() else None
    if len(drawn) == 1 and drawn[0] == "mean":
        drawn = [of or "mean"]
    curves = Curves(when_ended, drawn, grids[0], grids[1], grids[2], starts=starts, places=places)
    curves = replace(curves, running=over is None)
    return plot_totals(curves, words, alike=not how.panels, from_zero=how.from_zero)


def heading(title: str, running: bool) -> str:
    """Return a chart's title; "Running" and "so far" are removed unless numbers are running
    totals.
    """
    if running:
        return title
    return with_capital(title.removeprefix("Running ").removesuffix(" so far"))


def _by(title: str, dimensions: Sequence[str]) -> str:
    """Return a title, followed by the names of the columns that divide rows into groups."""
    if not dimensions:
        return title
    groups, *others = dimensions
    for other in others:
        groups = f"{groups} and by {other}"
    return f"{title}, by {groups}"


def _begun_anew(
    ends: NDArray[Any], begun: NDArray[Any], grids: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Let curves begin again at 0 at the start of each period except the first.

    NaN, which makes a gap in the curve, and then 0 are inserted there.

    Args:
        ends: times of the ends of steps, whose numbers cover the period so far.
        begun: start of each step's period.
        grids: estimates, lower and upper ends of intervals: shape ``(3, steps, curves)``.

    Returns:
        The times, including the starts of periods, and the values of ``grids`` at these times.
    """
    first = np.flatnonzero(begun[1:] != begun[:-1]) + 1
    twice = np.repeat(first, 2)
    blank = np.full((3, 2, grids.shape[2]), np.nan)
    blank[:, 1] = 0.0
    times = np.insert(ends, twice, begun[twice])
    return times, np.insert(grids, twice, np.tile(blank, (1, len(first), 1)), axis=1)


def _by_group(
    table: Mapping[str, NDArray[Any]], chosen: tuple[str, ...] | None
) -> tuple[dict[str, NDArray[Any]], float | None]:
    """Reduce a table to one number for each step and group.

    If a group has several numbers with names, those in ``chosen`` are kept. If it has several
    quantiles, the one nearest to the median is kept. If it has several cells, each cell becomes a
    group of its own, named "GROUP, CELL".

    Args:
        table: columns of the table, by name.
        chosen: names of the numbers to keep; None: all.

    Returns:
        The columns, and the share of the kept quantile; None if there are no quantiles.
    """
    found = dict(table)
    if chosen is not None and "name" in found:
        kept = np.isin(found.pop("name").astype(str), chosen)
        return {name: values[kept] for name, values in found.items() if name in table}, None
    if "share" in found:
        shares = found.pop("share").astype(float)
        middle = min(np.unique(shares).tolist(), key=lambda share: abs(share - 0.5))
        return {name: values[shares == middle] for name, values in found.items()}, middle
    inner = next((name for name in _NAMES[1:] if name in found), None)
    if inner is not None:
        names = found.pop(inner).astype(str).tolist()
        groups = found["group"].astype(str).tolist()
        found["group"] = np.array([f"{a}, {b}" for a, b in zip(groups, names, strict=True)])
    return found, None


def _share(share: float) -> str:
    return "median" if share == 0.5 else f"{100 * share:.12g}" + "%"


@drawing
def plot_line(bars: Bars, words: Caption, along: str) -> Figure:
    """Draw ordered cells side by side: bars with intervals or, if there are many, a line with a
    band.

    Args:
        bars: the cells in order.
        words: the words around the chart.
        along: label of the axis along which cells are ordered.

    >>> counts = np.array([5.0, 2.0, 1.0])
    >>> bars = Bars("123", counts, counts - 1, counts + 1)
    >>> plot_line(bars, Caption("Degrees", axis="nodes"), "degree").axes[0].get_xlabel()
    'degree'
    """
    from matplotlib.ticker import MaxNLocator

    (names, estimates, low, high), axis, width = bars, words.axis, words.width
    figure, bottom, top = frame(
        words,
        2.6 if width < WIDTH else 3.6,
        above=0.3 + axis_inches(axis, width),
        below=0.55,
    )
    ax = figure.subplots()
    places = np.arange(len(names))
    if len(names) <= _MOST_COLUMNS:
        ax.bar(places, estimates, 0.8, color=PALETTE[0], alpha=0.55)
        ax.vlines(places, low, high, color=INK, linewidth=1.3)
    else:
        edges = np.append(places, len(names)) - 0.5
        level, lower, upper = (np.append(part, part[-1]) for part in (estimates, low, high))
        style: dict[str, Any] = {"step": "post", "color": PALETTE[0], "linewidth": 0}
        ax.fill_between(edges, lower, upper, alpha=0.22, **style)
        ax.step(edges, level, where="post", color=PALETTE[0], linewidth=1.1)
    ax.axhline(0, color="#b0b0b0", linewidth=0.8)
    ax.set_xlim(-0.6, len(names) - 0.4)
    least, most = min(float(np.min(low)), 0.0), max(float(np.max(high)), 0.0)
    margin = 0.03 * (most - least or 1.0)
    ax.set_ylim(least - margin if least else 0.0, most + margin)
    shown = [shorten(name, 10) for name in names]
    room = max(2, int((width - 1) / (0.25 + 0.08 * max(map(len, shown)))))
    stride = max(1, -(-len(names) // room))
    stride = next(round_ for round_ in (1, 2, 5, 10, 20, 50, 100, stride) if round_ >= stride)
    ticks = places[::stride]
    if all(name.isdecimal() for name in names):  # round numbers
        ticks = places[[int(name) % stride == 0 for name in names]]
    ax.set_xticks(ticks, [shown[place] for place in ticks.tolist()])
    whole = bool(np.all(estimates == np.rint(estimates)))
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=whole))
    ax.yaxis.set_major_formatter(number_ticks())
    clean(ax, grid="y")
    for label in ax.get_xticklabels():
        label.set_parse_math(False)
    name_axis(ax, axis, width)
    ax.set_xlabel(along, size=9, color=FAINT, parse_math=False)
    letters = max(len(tick(float(one))) for one in ax.get_yticks())
    figure.subplots_adjust(
        left=(0.3 + 0.078 * letters) / width,
        right=1 - 0.25 / width,
        bottom=bottom,
        top=top,
    )
    return figure

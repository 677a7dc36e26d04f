"""Charts of statistics: how they grew, with bands, or how cells stand beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.plots.style import (
    FAINT,
    WIDTH,
    draw_bars,
    drawing,
    heading_inches,
    shorten,
    write_heading,
)
from counton.plots.totals import Curves, largest_groups, plot_totals
from counton.statistics import Grouped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.mechanisms import StreamTerms
    from counton.statistics import Statistic

#: Columns that name what a row is about; the first that is there.
_NAMES = ("group", "name", "cell", "share", "degree", "cut")
#: What a chart is called, what its axis shows, and which of the rows are drawn; None: all.
_SAID: dict[str, tuple[str, str, tuple[str, ...] | None]] = {
    "Average": ("Running average", "mean", ("mean",)),
    "Cuts": ("Cuts of a growing graph", "weight of a cut", None),
    "Distinct": ("Distinct users", "users", None),
    "Edges": ("Edges of a growing graph", "edges", None),
    "Forest": ("Weight of a minimum spanning forest", "weight", None),
    "Contingency": ("Running margins of a table", "count", None),
    "Hierarchy": ("Running counts of a hierarchy", "count", None),
    "Quantiles": ("Running quantiles", "value", None),
    "Ranges": ("Running counts of a line of cells", "count", None),
    "Stars": ("Stars of a growing graph", "stars", None),
    "TopK": ("Largest groups so far", "count", None),
    "Triangles": ("Triangles of a growing graph", "triangles", None),
    "Degrees": ("Degrees of a growing graph", "nodes of each degree", None),
}
#: Cells that are drawn beside each other, at most.
_MOST_BARS = 30


@drawing
def plot_statistic(
    statistic: Statistic,
    table: Mapping[str, NDArray[Any]],
    times: Callable[[range], NDArray[Any]],
    terms: StreamTerms,
    level: float,
    *,
    title: str | None = None,
    axis: str | None = None,
) -> Figure:
    """How a statistic grew, or how its cells stand after the last step.

    Args:
        statistic: which.
        table: columns of `counton.jobs.StatisticOutcome.table`, at least one row.
        times: of steps, as `counton.jobs.StatisticOutcome.times`.
        terms: of the stream.
        level: probability that an interval holds the truth.
        title, axis: what is shown, instead of the statistic's own words.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    inner = statistic.inner if isinstance(statistic, Grouped) else statistic
    kind = type(inner).__name__
    said, shown, chosen = _SAID.get(kind, (f"{kind} so far", "count", None))
    if inner is not statistic:
        table, shown = _by_group(table, chosen, shown)
        said, chosen = f"{said}, by group", None
    table = _of_table(inner, table)
    steps, place = np.unique(table["step"], return_inverse=True)
    names = next((table[name].astype(str) for name in _NAMES if name in table), None)
    bars = names is not None and (kind == "Degrees" or (statistic.on_demand and len(steps) == 1))
    promise = f"{terms.guarantee} protects {terms.contribution}; "
    promise += f"{'lines' if bars else 'bands'}: {100 * level:g}% intervals"
    if kind == "TopK":  # as `TopKReading.ranking`
        promise += " for all groups at once"
    if names is None:
        names = np.full(len(place), shown)
    if "degree" in table:
        names = np.array([f"degree {name}" for name in names])
    if "share" in table:
        names = np.array([_share(share) for share in table["share"]])
    estimate = "estimate" if "estimate" in table else "value"
    ends = [np.asarray(table[end], float) for end in (estimate, "lower", "upper")]
    last = place == len(steps) - 1
    when = np.asarray(times(range(int(steps[0]), int(steps[-1]) + 1)))[steps - steps[0]]
    if bars:
        estimate, low, high = (end[last] for end in ends)
        heading = title or f"{said}, {_at(when[-1])}"
        return plot_bars(names[last].tolist(), estimate, low, high, heading, promise, axis or shown)
    drawn = [name for name in names[last].tolist() if chosen is None or name in chosen]
    columns = {name: column for column, name in enumerate(drawn)}
    column = np.array([columns.get(name, -1) for name in names.tolist()])
    grids = np.full((3, len(steps), len(drawn)), np.nan)
    grids[:, place[column >= 0], column[column >= 0]] = [end[column >= 0] for end in ends]
    curves = Curves(when, drawn, grids[0], grids[1], grids[2])
    counts = kind not in ("Average", "Quantiles", "Moments")
    return plot_totals(curves, title or said, promise, axis or shown, from_zero=counts)


def _by_group(
    table: Mapping[str, NDArray[Any]], chosen: tuple[str, ...] | None, shown: str
) -> tuple[dict[str, NDArray[Any]], str]:
    """One curve for each group, and what the axis then shows.

    Of several numbers of a group the one that a chart of it alone shows, of shares the middle one.
    """
    found = dict(table)
    if chosen is not None and "name" in found:
        kept = np.isin(found.pop("name").astype(str), chosen)
        return {name: values[kept] for name, values in found.items() if name in table}, shown
    if "share" in found:
        shares = found.pop("share").astype(float)
        middle = min(np.unique(shares).tolist(), key=lambda share: abs(share - 0.5))
        return {name: values[shares == middle] for name, values in found.items()}, _share(middle)
    inner = next((name for name in _NAMES[1:] if name in found), None)
    if inner is not None:
        names = found.pop(inner).astype(str).tolist()
        groups = found["group"].astype(str).tolist()
        found["group"] = np.array([f"{a}, {b}" for a, b in zip(groups, names, strict=True)])
    return found, shown


def _of_table(
    statistic: Statistic, table: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """Rows of a table by names: nodes below the total, cells of a line, margins of one column."""
    kind = type(statistic).__name__
    if kind == "Hierarchy":
        return _coarsest(table)
    if kind == "Ranges" and "from_cell" in table:
        ends = zip(table["from_cell"].tolist(), table["to_before"].tolist(), strict=True)
        return {**table, "group": np.array([f"cells {low} to {high - 1}" for low, high in ends])}
    if kind == "Ranges":
        return {**table, "group": table[statistic.parameters["name"]]}
    if kind != "Contingency":
        return table
    names = [name for name, _ in statistic.parameters["columns"]]
    values = [[None if one is None else str(one) for one in table[name]] for name in names]
    rows = list(zip(*values, strict=True))
    kept = np.array([sum(one is not None for one in row) == 1 for row in rows])
    called = [
        next(f"{name} {one}" for name, one in zip(names, row, strict=True) if one is not None)
        for row, wanted in zip(rows, kept, strict=True)
        if wanted
    ]
    found = {name: column[kept] for name, column in table.items() if name not in names}
    return {**found, "group": np.array(called)}


def _coarsest(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Of the nodes of a tree those below the total, by their names."""
    levels = list(dict.fromkeys(table["level"].tolist()))
    shown = levels[min(1, len(levels) - 1)]
    kept = table["level"] == shown
    found = {name: values[kept] for name, values in table.items() if name != "level"}
    return {**found, "group": found.get(shown, np.full(int(kept.sum()), shown))}


def _share(share: float) -> str:
    return "median" if share == 0.5 else f"{100 * share:.12g}%"


def _at(time: Any) -> str:
    if isinstance(time, np.datetime64):
        return f"{time.astype('datetime64[m]')}".replace("T", " ")
    return f"after step {int(time):,}"


@drawing
def plot_bars(
    names: Sequence[str],
    estimates: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    title: str,
    subtitle: str,
    axis: str,
) -> Figure:
    """Cells beside each other, each with its interval; of many the largest.

    Args:
        names: of the cells.
        estimates, low, high: of each.
        title, subtitle: what is shown, what is protected.
        axis: what lengths mean.

    >>> counts = np.array([5.0, 2.0])
    >>> chart = plot_bars(["AC", "GT"], counts, counts - 1, counts + 1, "Words", "letters", "count")
    >>> len(chart.axes)
    1
    """
    from matplotlib.figure import Figure

    kept = list(range(len(names)))
    if len(names) > _MOST_BARS:
        kept = largest_groups(estimates, _MOST_BARS)
        subtitle += f"; the {_MOST_BARS} largest of {len(names):,}"
    head = heading_inches(title, subtitle) + 0.3
    tall = head + 0.5 + 0.24 * len(kept)
    figure = Figure(figsize=(WIDTH, tall), dpi=150, facecolor="white")
    ax = figure.subplots()
    longest = max(len(shorten(names[place])) for place in kept)
    figure.subplots_adjust(
        left=(0.25 + 0.1 * longest) / WIDTH, right=0.96, bottom=0.35 / tall, top=1 - head / tall
    )
    write_heading(figure, title, subtitle)
    shown = [names[place] for place in kept]
    draw_bars(ax, shown, *(numbers[kept] for numbers in (estimates, low, high)))
    ax.set_title(axis, loc="left", size=9, color=FAINT, pad=4)
    return figure

"""Charts of tables that are released once: the size of each number, and its error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import list_in_words
from counton.base.exact import quantity, with_capital
from counton.charts.style import (
    FAINT,
    INK,
    LONGEST_NAME,
    NARROW,
    PALETTE,
    Bars,
    Caption,
    clean,
    colours_at,
    draw_bars,
    drawing,
    frame,
    number_ticks,
    shade,
    shorten,
)
from counton.charts.totals import VALUE_INCHES, Labels
from counton.numbers.fit_request import Fit, TableRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counton.statistics import Reading
    from counton.statistics.hierarchy import HierarchyReading
    from counton.statistics.line_ranges import RangesReading
    from counton.strategies.trees import Tree

_MAP_TALL = 4.6  # inches
_SMALLEST = 0.11  # square inches: smaller children share one block
_MOST_GROUPS = 40  # most groups on the map; the rest share one block
_LETTER = 0.0086  # inches of a letter for each point of its size
_SIZES = (10.0, 8.5, 7.5)  # sizes of letters, in points
_MOST_CELLS = 240
_MOST_BARS = 30
_THIN = 0.008  # part of the axis: a narrower band is hidden by its line


@drawing
def plot_table(
    reading: Reading,
    words: Caption,
    *,
    what: str = "counts",
    fit: Fit | None = None,
    level: float = 0.95,
) -> Figure:
    """Draw a table that was released once: a tree of counts, a line of cells, a contingency table,
    or quantiles.

    Args:
        reading: the released numbers.
        words: the words around the chart; a missing title or axis gets a default.
        what: the word for the counted things.
        fit: public constraints to which the numbers are adjusted; None: as they were released.
        level: probability with which each interval holds.
    """
    named, own = what, cast("Any", reading)
    head = with_capital(named)
    this = own.statistic
    kind = this.card.chart.once
    if kind == "tree":
        levels = list_in_words([*this.tree.levels[1:]])
        title = f"{head} by {levels}" if levels else head
        return plot_hierarchy(own, words._replace(title=words.title or title), fit=fit)
    if kind == "line":
        cells = f"{len(this.labels):,}"
        title = f"{head} of {cells} cells"
        words = words.adding(f"; strategy {this.grid.name}")
        return plot_ranges(own, words._replace(title=words.title or title))
    if kind == "margins":
        names = list(this.columns)
        bars = own.numbers(TableRequest(fit=fit)).columns(level)
        by = list_in_words([*names])
        title = f"{head} by {by}"
        shown = f"number of {named}"
    else:
        found = own.numbers().columns(level)
        shares = [f"{100 * share:g}%" for share in found["share"].tolist()]
        bars = {"share": np.array(shares, dtype=object), "estimate": found["value"]}
        bars |= {end: found[end] for end in ("lower", "upper")}
        names, title = ["share"], "Quantiles of values"
        shown = "value"
    words = words._replace(title=words.title or title, axis=words.axis or shown)
    return plot_contingency(names, bars, words)


@drawing
def plot_hierarchy(reading: HierarchyReading, words: Caption, *, fit: Fit | None = None) -> Figure:
    """Draw two panels: relative errors by level and size, and a treemap of the two coarsest levels.

    Only released values are drawn. In the treemap an area is a count; negative counts have no area.
    Relative errors are shown for nodes whose count exceeds its noise; the chart states the number
    of the other nodes.

    Args:
        reading: the released numbers.
        words: the words around the chart; its ``axis`` says what areas mean.
        fit: public constraints to which the numbers are adjusted; None: as they were released.

    >>> from counton import ZCDP, Hierarchy, Key, Running
    >>> from counton.strategies.trees import Tree
    >>> states = Hierarchy(Tree.from_leaves({"state": ["CA", "DC"]}, ["state"]), counts=True)
    >>> counter = Running.start(
    ...     states, 1, ZCDP(0.5), key=Key.generate(), name="people", batched=True
    ... )
    >>> reading = counter.release_batch([(("CA",), 39_538_223), (("DC",), 689_545)])
    >>> [axes.get_title("left") for axes in plot_hierarchy(reading, Caption("People")).axes]
    ['Standard deviation, in % of the count', 'Released counts by state']
    """
    shown, stds = reading.estimates, reading.stds
    if fit is not None:
        fitted = reading.apply_fit(fit)
        shown, stds = fitted.estimates, fitted.std
    tree = reading.statistic.tree
    tall = (0.55 + 0.62 * len(tree.levels), _MAP_TALL)
    figure, (top, bottom) = _panels_below(words, tall)
    _error_by_level(top, tree, shown, stds)
    _tree_map(bottom, tree, shown, words.axis or "Released counts")
    return figure


def _panels_below(words: Caption, tall: Sequence[float]) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with panels below each other, and the axes of the panels.

    Args:
        words: the words around the chart.
        tall: height of each panel in inches.
    """
    width = words.width
    narrow = width < NARROW  # names then have two lines
    gap = 0.85 + 0.3 * narrow
    figure, _, top = frame(
        words,
        sum(tall) + gap * (len(tall) - 1),
        above=0.5 if narrow else 0.3,
        below=0.55,
    )
    height = figure.get_figheight()
    axes, place = [], top * height
    for inches in tall:
        place -= inches
        left = 0.975 / width
        axes.append(figure.add_axes((left, place / height, 0.97 - left, inches / height)))
        place -= gap
    return figure, axes


def _wide(ax: Axes) -> float:
    return float(ax.figure.get_figwidth())  # type: ignore[union-attr]


def _write_panel_name(ax: Axes, name: str) -> None:
    """Write a name above a panel, broken into lines."""
    lines = fill(name, int(11.5 * (_wide(ax) - 1.1)))
    ax.set_title(lines, loc="left", size=11, color=INK, parse_math=False)


def _cell_name(values: Sequence[str]) -> str:
    """Return the name of a cell: its values, the longest of which are shortened so that all are
    visible.

    Args:
        values: the cell's value in each column.

    >>> _cell_name(["Bavaria and the Palatinate", "men"]), _cell_name(["Berlin", "men"])
    ('Bavaria and the Pa…, men', 'Berlin, men')
    """
    if len(values) == 1:
        return values[0]
    room = LONGEST_NAME - 2 * (len(values) - 1)
    for place in np.argsort([-len(value) for value in values], kind="stable").tolist():
        others = sum(len(value) for number, value in enumerate(values) if number != place)
        if others + len(values[place]) > room:
            values = [*values]
            values[place] = shorten(values[place], max(room - others, room // len(values)))
    return ", ".join(values)


def _error_by_level(
    ax: Axes, tree: Tree, shown: Sequence[NDArray[Any]], stds: Sequence[NDArray[Any]]
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    levels = tree.levels
    lowest, highest = np.inf, 0.0
    for level in range(len(levels)):
        estimates, std = shown[level], stds[level]
        known = std == 0
        seen = (estimates > std) & ~known
        y, colour = -float(level), PALETTE[level % len(PALETTE)]
        hidden = int(np.count_nonzero(~seen & ~known))
        count = f"{len(estimates):,}"
        note = f"{count} nodes" if len(estimates) > 1 else f"{count} node"
        if seen.any():
            relative = np.sort(100 * std[seen] / estimates[seen])
            lowest, highest = min(lowest, relative[0]), max(highest, relative[-1])
            middle = float(np.median(relative))
            ax.plot(relative[[0, -1]], [y, y], color=colour, linewidth=1.5)
            ax.plot(
                np.quantile(relative, [0.1, 0.9]),
                [y, y],
                color=shade(colour, 1.5),
                linewidth=9,
                solid_capstyle="butt",
            )
            ax.plot(middle, y, "o", color=colour, markersize=7)
            if len(estimates) > 1:
                note += f": half of them within {_percent(middle)}"
            least, most = float(estimates[seen].min()), float(estimates[seen].max())
            sizes = (
                {relative[0]: most} if least == most else {relative[0]: most, relative[-1]: least}
            )
            for place, size in sizes.items():
                text = f"{size:,.0f}"
                ax.annotate(
                    text,
                    (float(place), y),
                    xytext=(0, -8),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    size=8,
                    color=FAINT,
                )
        if known.any():
            note += f"; {int(known.sum()):,} known"
        if hidden:
            note += f"; {hidden:,} below their noise"
        ax.annotate(
            note,
            (0, y),
            xycoords=("axes fraction", "data"),
            xytext=(4, 9),
            textcoords="offset points",
            size=9,
            color=INK,
        )
    ax.set_ylim(0.55 - len(levels), 0.62)
    places = [-float(level) for level in range(len(levels))]
    ax.set_yticks(places, [*levels], color=INK)
    ax.set_xscale("log")
    if highest > 0:
        ax.set_xlim(lowest / 4, max(highest, 10 * lowest) * 4)
    ax.xaxis.set_major_locator(LogLocator(numticks=4 if _wide(ax) < NARROW else 7))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _percent(value)))
    ax.minorticks_off()
    clean(ax, grid="x")
    _write_panel_name(ax, "Standard deviation, in % of the count")
    legend = (
        "line: all nodes, from the largest to the smallest count; bar: the middle 80%; dot: median"
    )
    ax.set_xlabel(fill(legend, int(14 * (_wide(ax) - 0.6))), size=8.5, color=FAINT)


def _percent(value: float) -> str:
    """Format a percentage with two significant digits, however small it is.

    >>> _percent(5.43e-7), _percent(12.0)
    ('0.00000054%', '12%')
    """
    shown = np.format_float_positional(value, 2, unique=False, fractional=False, trim="-")
    return f"{shown}%"


class _Box(NamedTuple):
    """A rectangle: left, bottom, width and height in inches."""

    x: float
    y: float
    wide: float
    tall: float


def squarify(sizes: NDArray[np.float64], box: tuple[float, float, float, float]) -> list[_Box]:
    """Return boxes with areas proportional to sizes, as square as a layout in rows allows.

    Args:
        sizes: the sizes, descending.
        box: the rectangle to fill: left, bottom, width and height.

    Source: Bruls, Huizing and van Wijk, "Squarified Treemaps".

    >>> [tuple(part) for part in squarify(np.array([3.0, 1.0]), (0, 0, 4, 2))]
    [(0.0, 0.0, 3.0, 2.0), (3.0, 0.0, 1.0, 2.0)]
    """
    x, y, wide, tall = map(float, box)
    areas = (sizes * (wide * tall / sizes.sum())).tolist()
    placed: list[_Box] = []
    while areas:
        short = min(wide, tall)
        count = 1
        while count < len(areas) and _worst_ratio(areas[: count + 1], short) <= _worst_ratio(
            areas[:count], short
        ):
            count += 1
        row, areas = areas[:count], areas[count:]
        thick = sum(row) / short
        along = 0.0
        for area in row:
            length = area / thick
            lies = (x, y + along, thick, length) if wide >= tall else (x + along, y, length, thick)
            placed.append(_Box(*lies))
            along += length
        if wide >= tall:
            x, wide = x + thick, wide - thick
        else:
            y, tall = y + thick, tall - thick
    return placed


def _worst_ratio(row: Sequence[float], short: float) -> float:
    """Return the largest ratio of long to short side among the rectangles that fill a row of a
    treemap.

    Args:
        row: areas of the rectangles, descending.
        short: length of the row: of the side along which the rectangles lie.
    """
    whole = sum(row) ** 2
    return max(short**2 * row[0] / whole, whole / (short**2 * row[-1]))


def _tree_map(ax: Axes, tree: Tree, estimates: Sequence[NDArray[Any]], what: str) -> None:
    wide = _wide(ax) * 0.955
    ax.set_position((0.02, ax.get_position().y0, 0.955, ax.get_position().height))
    ax.set_xlim(0, wide)
    ax.set_ylim(0, _MAP_TALL)
    ax.set_axis_off()
    names = list_in_words(tree.levels[1:3] or ["total"])
    _write_panel_name(ax, f"{what} by {names}")
    whole = _Box(0.0, 0.0, wide, _MAP_TALL)
    if len(tree.levels) == 1:
        _block(ax, whole, PALETTE[0], 1.6, "total", float(estimates[0][0]))
        return
    sizes = np.maximum(estimates[1], 0.0)
    groups = _parts(sizes, tree.labels[0].tolist(), whole, _MOST_GROUPS)
    drawn = list(groups)
    nodes = [len(sizes) if node is None else node for node, *_ in drawn]  # the rest comes last
    for (node, name, size, box), colour in zip(drawn, colours_at(nodes), strict=True):
        inside = box.tall > 0.6 and box.wide > 0.6 and node is not None and len(tree.levels) > 2
        children = np.flatnonzero(tree.parents[1] == node) if inside else np.array([], np.int64)
        values = np.maximum(estimates[2][children], 0.0) if len(children) else sizes[:0]
        if not values.sum() > 0:
            _block(ax, box, colour, 1.55, name, size)
            continue
        _block(ax, box, colour, 1.3, "", 0)
        head = 0.2
        _text(ax, _Box(box.x, box.y + box.tall - head, box.wide, head), name, size, bold=True)
        inner = _Box(box.x + 0.02, box.y + 0.02, box.wide - 0.04, box.tall - head - 0.02)
        labels = tree.labels[1][children].tolist()
        for _, below, value, part in _parts(values, labels, inner):
            _block(ax, part, colour, 1.65, below, value)


def _parts(
    sizes: NDArray[np.float64], labels: Sequence[object], box: _Box, most: int | None = None
) -> Iterator[tuple[int | None, str, float, _Box]]:
    """Yield the rectangles of a treemap: one for each large number, and one for all small numbers
    together.

    Each is (index, name, size, rectangle); the index is None for the small numbers.

    Args:
        sizes: the numbers.
        labels: their names.
        box: the rectangle to fill.
        most: largest number of rectangles; None: as many as are large enough.
    """
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    large = sizes[order] * box.wide * box.tall >= _SMALLEST * sizes.sum()
    shown = max(int(np.count_nonzero(large)), 1)
    shown = shown if most is None else min(shown, most - 1)
    if len(order) - shown == 1:
        shown += 1
    rest = order[shown:]
    drawn = sizes[order[:shown]]
    values = np.append(drawn, sizes[rest].sum()) if len(rest) else drawn
    ranks = np.argsort(-values, kind="stable")
    boxes = squarify(values[ranks], box) if len(values) else []
    for rank, found in zip(ranks.tolist(), boxes, strict=True):
        part = found._replace(y=2 * box.y + box.tall - found.y - found.tall)  # the largest on top
        if rank == shown:
            count = f"{len(rest):,}"
            yield None, f"{count} more", float(values[rank]), part
        else:
            name = str(labels[int(order[rank])])
            yield int(order[rank]), name, float(values[rank]), part


def _block(ax: Axes, box: _Box, colour: str, strength: float, name: str, size: float) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(
        Rectangle(
            (box.x, box.y),
            box.wide,
            box.tall,
            facecolor=shade(colour, strength),
            edgecolor="white",
            linewidth=1.0,
        )
    )
    if name:
        _text(ax, box, name, size)


def _text(ax: Axes, box: _Box, name: str, size: float, *, bold: bool = False) -> None:
    number = f"{size:,.0f}"
    found = fitting(name, number, box.wide - 0.06, box.tall - 0.04, one_line=bold)
    if found is None:
        return
    text, points = found
    ax.text(
        box.x + box.wide / 2,
        box.y + box.tall / 2,
        text,
        ha="center",
        va="center",
        size=points,
        weight="bold" if bold else "normal",
        color=INK,
        parse_math=False,
        clip_on=True,
    )


def fitting(
    name: str, number: str, wide: float, tall: float, *, one_line: bool = False
) -> tuple[str, float] | None:
    """Break a name and a number into lines that fit into a rectangle, and return them with the font
    size in points.

    If only the name fits, the number is left out. None: nothing fits.

    Args:
        name, number: the texts.
        wide, tall: size of the rectangle in inches.
        one_line: True to write both in one line.

    >>> fitting("South America", "349", 1.5, 0.5), fitting("South America", "349", 0.7, 0.5)
    (('South America\\n349', 10.0), ('South\\nAmerica\\n349', 8.5))
    >>> fitting("South America", "349", 0.7, 0.3), fitting("South America", "349", 0.3, 2.0)
    (('South\\nAmerica', 7.5), None)
    >>> fitting("Asia", "349", 1.5, 0.2, one_line=True)
    ('Asia  349', 10.0)
    """
    for with_number in (True, False):
        for points in _SIZES:
            letters = int(wide / (_LETTER * points))
            if one_line:
                lines = [f"{name}  {number}" if with_number else name]
            else:
                lines = wrap(name, letters, break_long_words=False) if letters > 0 else [name]
                lines += [number] if with_number else []
            high = len(lines) * 1.35 * points / 72
            if max(map(len, lines)) <= letters and high <= tall and len(lines) <= 4:
                return "\n".join(lines), points
    return None


@drawing
def plot_ranges(reading: RangesReading, words: Caption) -> Figure:
    """Draw the cells of a line with their noise and, in a panel below, the noise of sums of
    neighbouring cells.

    The lower panel shows the noise by the number of cells in the sum.

    Args:
        reading: the released numbers on a line.
        words: the words around the chart; its ``axis``, unless empty, labels both vertical axes.

    >>> from counton import ZCDP, Key, Ranges, Running
    >>> line = Ranges(4, counts=True)
    >>> counter = Running.start(line, 1, ZCDP(0.5), key=Key.generate(), name="visits", batched=True)
    >>> reading = counter.release_batch([*enumerate([52, 31, 17, 40])])
    >>> [axes.get_title("left") for axes in plot_ranges(reading, Caption("Visits")).axes]
    ['Cells ± two standard deviations', 'Standard deviation of an interval, by its length']
    """
    figure, (top, bottom) = _panels_below(words, (2.9, 2.1))
    _cells_panel(top, reading)
    if words.axis:
        for ax in (top, bottom):
            ax.set_ylabel(words.axis, color=FAINT, parse_math=False)
    _lengths_panel(bottom, reading)
    return figure


def _cells_panel(ax: Axes, reading: RangesReading) -> None:

    cells = len(reading.statistic.labels)
    size = -(-cells // _MOST_CELLS)
    low = np.arange(0, cells, size)
    high = np.minimum(low + size, cells)
    sums, stds = reading.boxes(low[None], high[None])
    estimate = sums / (high - low)
    twice = 2 * stds / (high - low)
    edges = np.append(low, cells)
    # The last value is repeated: a step ends at the end of its last cell.
    middle, lower, upper = (
        np.append(part, part[-1]) for part in (estimate, estimate - twice, estimate + twice)
    )
    ax.fill_between(edges, lower, upper, step="post", color=PALETTE[1], alpha=0.5, linewidth=0)
    ax.step(edges, middle, where="post", color=PALETTE[0], linewidth=1.1)
    ax.set_xlim(0, cells)
    what = "Cells"
    if size > 1:
        what = f"Averages of {size:,} cells"
    bottom, top = ax.get_ylim()
    widest = float(twice.max())
    band = f"{what} ± two standard deviations"
    if 2 * widest < _THIN * (top - bottom):
        band = f"{what}; their noise, ± {quantity(widest, widest)}, is thinner than the line"
    _write_panel_name(ax, band)
    ax.set_xlabel("cell", color=FAINT)
    ax.xaxis.set_major_formatter(number_ticks())
    ax.yaxis.set_major_formatter(number_ticks())
    clean(ax, grid="y")


def _lengths_panel(ax: Axes, reading: RangesReading) -> None:
    from matplotlib.ticker import LogLocator

    cells = len(reading.statistic.labels)
    lengths = np.unique(np.geomspace(1, cells, 60).astype(np.int64))
    spread = np.zeros((len(lengths), 3))
    for place, length in enumerate(lengths.tolist()):
        low = np.unique(np.linspace(0, cells - length, 200).astype(np.int64))
        std = reading.boxes(low[None], low[None] + length)[1]
        spread[place] = std.min(), std.mean(), std.max()
    between = "least to largest"
    ax.fill_between(
        lengths, spread[:, 0], spread[:, 2], color=PALETTE[1], alpha=0.25, label=between
    )
    ax.plot(lengths, spread[:, 1], color=PALETTE[1], label="mean")
    ax.set_xscale("log")
    ax.set_xlim(1, max(cells, 2))
    ax.set_ylim(0, None)
    ax.xaxis.set_major_locator(LogLocator(numticks=7))
    ax.xaxis.set_major_formatter(number_ticks())
    ax.set_xlabel("cells in the interval", color=FAINT)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(number_ticks())
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    _write_panel_name(ax, "Standard deviation of an interval, by its length")
    clean(ax, grid="y")


@drawing
def plot_contingency(
    names: Sequence[str], margins: Mapping[str, NDArray[Any]], words: Caption
) -> Figure:
    """Draw the counts of a contingency table as bars with intervals, a panel for each column.

    A panel has the counts by the values of its column, summed over other columns. If there are two
    columns, a further panel has the cells.

    Args:
        names: names of the columns.
        margins: a table with a row for each count, by column. It has the columns ``names``, with a
            value or, if the count is a sum over the column, None; and estimate, lower and upper.
        words: the words around the chart; its ``axis`` says what lengths mean.

    >>> none = np.array([None, "f", "m"], dtype=object)
    >>> counts = np.array([7.0, 5.0, 2.0])
    >>> margins = {"sex": none, "estimate": counts, "lower": counts - 1, "upper": counts + 1}
    >>> figure = plot_contingency(["sex"], margins, Caption("People"))
    >>> [axes.get_title("left") for axes in figure.axes]
    ['by sex']
    """
    values = [[None if one is None else str(one) for one in margins[name]] for name in names]
    rows = list(zip(*values, strict=True))
    panels: list[tuple[str, list[tuple[str, int]]]] = []
    sets = [(column,) for column in range(len(names))]
    for kept in [*sets, *([(0, 1)] if len(names) == 2 else [])]:
        bars = [
            (_cell_name([str(row[column]) for column in kept]), place)
            for place, row in enumerate(rows)
            if all((row[column] is not None) == (column in kept) for column in range(len(names)))
        ]
        panels.append((list_in_words([names[column] for column in kept]), bars))
    numbers = [np.asarray(margins[name], float) for name in ("estimate", "lower", "upper")]
    shown = []
    for called, bars in panels:
        places = np.array([place for _, place in bars])
        largest = np.argsort(-numbers[0][places], kind="stable")[:_MOST_BARS]
        more = ""
        if len(bars) > _MOST_BARS:
            most = str(_MOST_BARS)
            more = f", the {most} largest of {len(bars):,}"
        order = np.sort(largest) if more else np.arange(len(bars))
        title = f"by {called}" + more
        shown.append((title, [bars[place] for place in order.tolist()]))
    tall = [0.24 * len(bars) + 0.1 for _, bars in shown]
    figure, all_axes = _panels_below(words, tall)
    width = words.width
    room = max(len(shorten(name)) for _, bars in shown for name, _ in bars)
    labels = Labels.of([""] * len(rows), *numbers).values
    right = 0.3 + VALUE_INCHES * max(len(labels[place]) for _, bars in shown for _, place in bars)
    for (called, bars), ax in zip(shown, all_axes, strict=True):
        places = np.array([place for _, place in bars])
        left = min((0.25 + 0.1 * room) / width, 0.5)
        ax.set_position(
            (left, ax.get_position().y0, 1 - right / width - left, ax.get_position().height)
        )
        beside = [labels[place] for _, place in bars]
        each = Bars([name for name, _ in bars], *(part[places] for part in numbers))
        draw_bars(ax, each, values=beside)
        _write_panel_name(ax, called)
    all_axes[-1].set_xlabel(words.axis or "count", color=FAINT, parse_math=False)
    return figure

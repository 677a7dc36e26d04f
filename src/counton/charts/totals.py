"""Charts of released numbers over time: totals as curves, windows as bars or steps, with bands.

Only released values are drawn, and only they decide the layout: a chart is as private as they.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.base.dates import day_and_time, day_in_words, month_name, weekday_name
from counton.base.errors import InvalidInput
from counton.base.exact import quantity
from counton.charts.style import (
    FAINT,
    INK,
    NARROW,
    PALETTE,
    Bars,
    Caption,
    axis_inches,
    clean,
    colours_at,
    draw_bars,
    drawing,
    frame,
    name_axis,
    number_ticks,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 2_000
#: Largest number of groups in one chart, each with a colour of its own, and of small charts.
MOST_LINES, MOST_PANELS = len(PALETTE), 24
#: Largest number of windows that are drawn as bars.
_MOST_BARS = 80
#: Largest number of cells that are drawn as bars.
_MOST_CELLS = 30
_LEGEND_INCHES = 0.19  # height of a line of names under a narrow chart
_LABEL_POINTS = 12.5  # height of a line of labels
_LARGEST_RATIO = 8.0  # groups with sizes of a larger ratio do not share an axis
_DEEPEST = 2  # bands that may overlap and still be told apart
_THIN = 0.005  # part of the axis: a narrower band is hidden by its line
_LETTERS = 12.3  # letters per inch of a heading above a small chart
NAME_INCHES, VALUE_INCHES = 0.095, 0.078  # widths of a letter of a name and of a value
LINE_INCHES = 0.19  # from the axis to a name
_HATCH = "#d0d0d0"


@dataclass(frozen=True)
class Curves:
    """Data of a chart of totals or of windows. Contains released values only.

    Attributes:
        times: ends of the windows, or numbers of steps: shape ``(steps,)``.
        estimates, lower, upper: arrays of shape ``(steps, groups)``.
        all_groups: number of all groups, also of those that are not drawn; None: all are drawn.
        starts: of the windows, if estimates are of single ones.
        places: index of each group among all, which decides its colour.
        provisional: number of last windows whose numbers may still change.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2).thin(2).groups
    ['visits']
    """

    times: NDArray[np.datetime64] | NDArray[np.int64]
    groups: Sequence[str]
    estimates: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    all_groups: int | None = None
    starts: NDArray[np.datetime64] | None = None
    places: Sequence[int] | None = None
    provisional: int = 0

    @property
    def last(self) -> Bars:
        """The last step, one bar for each curve."""
        return Bars(self.groups, self.estimates[-1], self.lower[-1], self.upper[-1])

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Each group's last total, or the mean of its windows.

        The last window alone is not used, because noise would decide which groups are the largest.

        >>> windows = np.array([[90.0, 5.0], [80.0, 6.0], [1.0, 4.0]])
        >>> ends = np.arange("2026-01-02", "2026-01-05", dtype="datetime64[D]")
        >>> Curves(ends, "ab", windows, windows, windows, starts=ends - 1).sizes.tolist()
        [57.0, 5.0]
        """
        if self.starts is None:
            return np.asarray(np.nan_to_num(self.estimates[-1]))
        known = np.maximum(np.isfinite(self.estimates).sum(axis=0), 1)
        return np.asarray(np.nansum(self.estimates, axis=0) / known)

    @property
    def colours(self) -> dict[int, str]:
        """Colour of each curve, the same in every chart."""
        places = range(len(self.groups)) if self.places is None else self.places
        return dict(enumerate(colours_at(places)))

    def largest(self, count: int) -> Curves:
        """Return the curves of the ``count`` groups of largest `sizes`, largest first."""
        return self._of(largest_groups(self.sizes, count))

    def first(self, count: int) -> Curves:
        """Return the curves of the first ``count`` groups."""
        return self._of(range(len(self.groups))[:count])

    def _of(self, kept: Sequence[int]) -> Curves:
        return replace(
            self,
            groups=[self.groups[index] for index in kept],
            places=kept if self.places is None else [self.places[index] for index in kept],
            estimates=self.estimates[:, kept],
            lower=self.lower[:, kept],
            upper=self.upper[:, kept],
            all_groups=self.all_groups or len(self.groups),
        )

    def thin(self, most: int = _MOST_POINTS) -> Curves:
        """Return the curves at about ``most`` evenly spaced steps, with the last."""
        stride = -(-len(self.times) // most)
        keep = slice((len(self.times) - 1) % stride, None, stride)
        estimates, lower, upper = (
            array[keep] for array in (self.estimates, self.lower, self.upper)
        )
        starts = None if self.starts is None else self.starts[keep]
        return replace(
            self,
            times=self.times[keep],
            starts=starts,
            estimates=estimates,
            lower=lower,
            upper=upper,
        )


def largest_groups(last: NDArray[Any], count: int) -> list[int]:
    """Return the indices of the ``count`` largest numbers, largest first; equal ones in order.

    >>> largest_groups(np.array([4, 9, 7, 9]), 3)
    [1, 3, 2]
    """
    return [int(place) for place in np.argsort(-last, kind="stable")[:count]]


@drawing
def plot_totals(
    curves: Curves,
    words: Caption,
    *,
    panels: bool = False,
    alike: bool = True,
    from_zero: bool = True,
) -> Figure:
    """Draw running totals, or the counts of windows; groups of very different size get two panels.

    A window is a bar if there is one group and few windows, otherwise a level from its start to its
    end. More than 8 groups, or more than 4 with many windows, or some whose bands overlap, get
    small charts, the largest first; of more than 24 the chart says so. A single step is drawn as
    bars, a single number is written out.

    Args:
        panels: a small chart for each group, even if there are few.
        alike: all curves have one unit; else each gets a small chart, in the given order.
        from_zero: the axis must contain 0, as it should for counts.

    Raises:
        InvalidInput: there is nothing to draw.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> curves = Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2)
    >>> float(plot_totals(curves, Caption("Visits", axis="visits")).get_figwidth())
    7.5
    """
    if len(curves.times) == 0 or not curves.groups:
        why = "no step has been released yet: draw it after the first release"
        if len(curves.times):
            why = (
                "no group is shown yet, and a group of the rows is shown once it is large enough: "
                "draw it after a later release"
            )
        raise InvalidInput(f"there is nothing to draw, because {why}")
    several = curves.all_groups or len(curves.groups)
    windows = curves.starts is not None and len(curves.times) > _MOST_BARS
    most = MOST_LINES // 2 if windows else MOST_LINES  # bands of many windows hide each other
    panels = panels or not alike or len(curves.groups) > most or bands_hide(curves)
    if panels:
        curves = curves.largest(MOST_PANELS) if alike else curves.first(MOST_PANELS)
        if several > len(curves.groups):
            count, of = str(len(curves.groups)), f"{several:,}"
            which = f"; the first {count} of {of}"
            if alike:
                which = f"; the {count} largest of {of} groups"
            words = words.adding(which)
    if len(curves.times) == 1 and alike:
        return _one_step(curves, words)
    if curves.starts is not None:  # the numbers beside names are those of one window
        words = words.adding(f"; in numbers: {_last_window(curves)}")
    if curves.provisional:
        words = words.adding("; hatched: provisional, more rows may come")
    parts = [[place] for place in range(len(curves.groups))]
    if not panels:  # averages have no sizes to compare
        everything = [[*range(len(curves.groups))]]
        parts = split_by_size(curves.sizes) if from_zero else everything
    curves = curves.thin()
    if any(_is_thin(curves, part, from_zero=from_zero) for part in parts):
        words = words.adding("; where no band is seen, it is narrower than the line")
    charts = _small_charts if panels else _one_chart
    return charts(curves, parts, words, from_zero=from_zero)


def bands_hide(curves: Curves) -> bool:
    """Return True if more than two bands overlap at more than half of the steps.

    >>> level = np.array([[5.0, 6.0, 7.0]] * 4)
    >>> near = Curves(np.arange(4), "abc", level, level - 3, level + 3)
    >>> apart = Curves(np.arange(4), "abc", 9 * level, 9 * level - 3, 9 * level + 3)
    >>> bands_hide(near), bands_hide(apart)
    (True, False)
    """
    low, high = curves.lower[:, :, None], curves.upper[:, :, None]
    begins = curves.lower[:, None]  # the deepest overlap contains the beginning of a band
    deepest = ((low <= begins) & (begins <= high)).sum(axis=1).max(axis=1)
    return bool((deepest > _DEEPEST).mean() > 0.5)


def _is_thin(curves: Curves, part: Sequence[int], *, from_zero: bool) -> bool:
    """Return True if a band is narrower than its curve's line at the last step of a common axis."""
    low, high = reach(curves, part, from_zero=from_zero)
    wide = curves.upper[-1, part] - curves.lower[-1, part]
    return bool((wide < _THIN * (high - low)).any())


def _last_window(curves: Curves) -> str:
    assert curves.starts is not None
    (window,) = window_names(curves.starts[-1:], curves.times[-1:].astype("datetime64[us]"))
    return " ".join(window.split())


def _one_step(curves: Curves, words: Caption) -> Figure:
    """Draw a single step: several groups as bars, a single one as a written number."""
    when = until_in_words(curves.times[0]) if curves.starts is None else _last_window(curves)
    words, wide = words.adding(f"; {when}"), words.width
    if len(curves.groups) > 1:
        return plot_bars(curves.last, words)
    labels = Labels.of(*curves.last, room=wide)
    figure, bottom, top = frame(words, 1.0, below=0.1)
    ax = figure.add_axes((0.15 / wide, bottom, 1 - 0.3 / wide, top - bottom))
    ax.set_axis_off()
    size = min(30.0, 66 * wide / len(labels.values[0]))
    style: dict[str, Any] = {"va": "center", "parse_math": False}
    ax.text(0, 0.62, labels.values[0], size=size, color=curves.colours[0], **style)
    ax.text(0, 0.18, labels.names[0], size=11, color=INK, **style)
    return figure


@drawing
def plot_bars(bars: Bars, words: Caption) -> Figure:
    """Draw cells as bars with interval and number, of many the largest.

    >>> counts = np.array([5.0, 2.0])
    >>> bars = Bars(["AC", "GT"], counts, counts - 1, counts + 1)
    >>> len(plot_bars(bars, Caption("Words", "letters", "count")).axes)
    1
    """
    if len(bars.names) > _MOST_CELLS:
        words = words.adding(f"; the {_MOST_CELLS:,} largest of {len(bars.names):,}")
        bars = bars.at(largest_groups(bars.estimates, _MOST_CELLS))
    tall, width = 0.15 + 0.24 * len(bars.names), words.width
    above = 0.3 + axis_inches(words.axis, width)
    figure, bottom, top = frame(words, tall, above=above, below=0.35)
    ax = figure.subplots()
    labels = Labels.of(*bars)
    longest = max(map(len, labels.names))
    figure.subplots_adjust(
        left=min((0.25 + 0.1 * longest) / width, 0.5),
        right=1 - (0.3 + VALUE_INCHES * max(map(len, labels.values))) / width,
        bottom=bottom,
        top=top,
    )
    draw_bars(ax, bars, values=labels.values)
    name_axis(ax, words.axis, width)
    return figure


def _one_chart(
    curves: Curves, panels: list[list[int]], words: Caption, *, from_zero: bool
) -> Figure:
    from matplotlib.ticker import MaxNLocator

    wide = words.width
    below = wide < NARROW  # if names are below
    labels = Labels.of(*curves.last, room=wide - 0.6 if below else None)
    heights = [2.2 if below else max(2.2, 0.32 * len(panel)) for panel in panels]
    legend = _LEGEND_INCHES * len(curves.groups) + 0.1 if below else 0.0
    figure, bottom, top = frame(
        words,
        max(2.6 if below else 4.0, sum(heights)),
        above=0.25 + axis_inches(words.axis, wide),
        below=0.55 + legend,
    )
    axes = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    room = 0.25 if below else 0.2 + labels.inches
    ends = [abs(end) for panel in panels for end in reach(curves, panel, from_zero=from_zero)]
    left = max(0.5 if below else 0.8, 0.3 + VALUE_INCHES * len(f"{max(ends):,.0f}"))
    figure.subplots_adjust(
        left=left / wide, right=1 - room / wide, bottom=bottom, top=top, hspace=0.16
    )
    shades = curves.colours
    for place, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
        _draw_panel(ax, curves, panel, shades, from_zero=from_zero)
        ax.yaxis.set_major_formatter(number_ticks())
        ax.yaxis.set_major_locator(MaxNLocator(4 if place else 6))
        smallest = f"the {len(panel)} smallest, enlarged"
        name_axis(ax, smallest if place else words.axis, wide)
    name_times(axes[-1], curves, 3, 5 if below else 8)
    if below:
        order = [index for panel in panels for index in panel]
        _list_below(figure, labels, order, shades, bottom - 0.55 / figure.get_figheight())
        return figure
    for ax, panel in zip(axes, panels, strict=True):
        _label_ends(figure, ax, curves, panel, shades, labels)
    return figure


def _list_below(
    figure: Figure, labels: Labels, order: Sequence[int], shades: dict[int, str], top: float
) -> None:
    """Write names and last values below a narrow chart, from ``top``, a fraction of its height."""
    line, wide = _LEGEND_INCHES / figure.get_figheight(), figure.get_figwidth()
    for number, index in enumerate(order):
        y = top - (number + 0.5) * line
        named: dict[str, Any] = {"color": shades[index], "weight": "bold", "size": 9}
        value: dict[str, Any] = {"color": FAINT, "size": 8.5, "ha": "right"}
        for x, words, style in (
            (0.15, labels.names[index], named),
            (wide - 0.25, labels.values[index], value),
        ):
            figure.text(x / wide, y, words, va="center", parse_math=False, **style)


def _small_charts(
    curves: Curves, panels: list[list[int]], words: Caption, *, from_zero: bool
) -> Figure:
    """Draw a small chart for each panel, side by side as headings allow."""
    from matplotlib.ticker import MaxNLocator

    words = words.adding(f"; {words.axis}" if words.axis else "")
    alike = bands_hide(curves)  # they are compared with each other
    scales = "; all on one scale" if alike else "; each chart with its own scale"
    words = words.adding(scales)
    together = [*range(len(curves.groups))]
    count, wide, labels = len(panels), words.width, Labels.of(*curves.last)
    ends = [end for panel in panels for end in reach(curves, panel, from_zero=from_zero)]
    left = 0.3 + VALUE_INCHES * max(4, *(len(f"{end:,.0f}") for end in ends))
    names, most = [min(len(name), 20) for name in labels.names], 3 if count > MOST_LINES else 2
    values = [len(value) for value in labels.values]
    between, needed = "   ", max(one + 3 + of for one, of in zip(names, values, strict=True))
    for columns in range(min(most, count), 0, -1):
        each = (wide - 0.22) / columns
        room = int((each - 0.1) * _LETTERS)  # above a chart
        if each >= left + 0.9 and room >= max(*names, *values):
            between = between if room >= needed else "\n"
            break
    rows = -(-count // columns)
    middle = (1.95 if between == "\n" else 1.75) * rows - 0.6
    figure, bottom, top = frame(words, middle, above=0.45, below=0.55)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    figure.subplots_adjust(
        left=left / wide,
        right=1 - 0.22 / wide,
        bottom=bottom,
        top=top,
        hspace=0.9 if between == "\n" else 0.7,
        wspace=left / (each - left),
    )
    shades = curves.colours
    for index, ax in enumerate(axes):
        if index >= count:
            ax.set_axis_off()
            continue
        _draw_panel(ax, curves, panels[index], shades, from_zero=from_zero)
        if alike:
            ax.set_ylim(reach(curves, together, from_zero=from_zero))
        value = labels.values[index]
        beside = 0 if between == "\n" else len(value) + 3
        name = f"{shorten(curves.groups[index], max(room - beside, 8))}{between}{value}"
        x = (0.15 - left) / (each - left)  # also above the numbers of the axis
        ax.set_title(name, x=x, loc="left", size=10, color=INK, parse_math=False)
        ax.yaxis.set_major_formatter(number_ticks())
        ax.yaxis.set_major_locator(MaxNLocator(3))
        name_times(ax, curves, 2, 4 if each > 2.5 else 3)
    return figure


def split_by_size(last: NDArray[np.float64]) -> list[list[int]]:
    """Divide groups, by index, into panels of large and of much smaller ones, largest first.

    Two panels have at least two groups each.

    >>> split_by_size(np.array([50_000.0, 700.0, 48_000.0, 40.0]))
    [[0, 2], [1, 3]]
    """
    last = np.nan_to_num(last)  # numbers that are not known yet
    order = [int(index) for index in np.argsort(-last, kind="stable")]
    if len(order) < 4 or last[order[0]] <= 0:
        return [order]
    # Sizes below a thousandth of the largest are drawn alike: all of them lie on the axis.
    sizes = np.maximum(last[order], last[order[0]] / 1000)
    ratios = sizes[:-1] / sizes[1:]
    # Split once, at the widest gap with at least two groups on each side.
    inner = ratios[1:-1]
    cut = int(np.argmax(inner)) + 2
    if sizes[0] / sizes[cut] < _LARGEST_RATIO or len(order) - cut < 2:
        return [order]
    return [order[:cut], order[cut:]]


def reach(curves: Curves, panel: Sequence[int], *, from_zero: bool = True) -> tuple[float, float]:
    """Return both ends of the axis for some curves.

    It contains all estimates. A band that is infinite, or much wider than the changes of its curve,
    extends beyond it: otherwise early values from very few rows would hide later changes.

    >>> estimates = np.array([[4.0], [5.0]])
    >>> band = np.array([[np.inf], [1.0]])
    >>> reach(Curves(np.arange(2), ["mean"], estimates, estimates - band, estimates + band), [0])
    (0.0, 6.18)
    """
    shown = [part[:, panel] for part in (curves.estimates, curves.lower, curves.upper)]
    finite = [part[np.isfinite(part)] for part in shown]
    values = finite[0] if finite[0].size else np.zeros(1)
    low, high = float(values.min()), float(values.max())
    if finite[1].size and finite[2].size:
        half = (shown[2] - shown[1]) / 2
        half = half[np.isfinite(half)]
        room = max(high - low, 4 * float(np.median(half)) if half.size else 0.0)
        low = min(low, max(float(finite[1].min()), low - room))
        high = max(high, min(float(finite[2].max()), high + room))
    low = min(0.0, low) if from_zero else low
    high = max(0.0, high) if from_zero else high
    margin = 0.03 * max(high - low, 1e-9 * max(abs(high), 1.0))
    return low - (0 if low == 0 else margin), high + margin


def _draw_panel(
    ax: Axes, curves: Curves, panel: list[int], shades: dict[int, str], *, from_zero: bool = True
) -> None:
    low, high = reach(curves, panel, from_zero=from_zero)
    ax.set_ylim(low, high)
    clean(ax, grid="y")
    if curves.starts is not None:
        _draw_windows(ax, curves, panel, shades)
        return
    if len(curves.times) == 1:  # a single step is not a line
        for index in panel:
            band = np.clip([curves.lower[-1, index], curves.upper[-1, index]], low, high)
            ax.plot([0.98, 0.98], band, color=shades[index], alpha=0.4, linewidth=4)
            ax.plot(0.98, curves.estimates[-1, index], "o", color=shades[index])
        ax.set_xlim(0, 1)
        return
    times = positions(curves.times)
    for index in panel:
        _draw_curve(ax, times, curves, index, shades[index])
        if np.isnan(curves.estimates[-2, index]):  # there is no line yet
            ax.plot(times[-1], curves.estimates[-1, index], ".", color=shades[index])
    ax.set_xlim(times[0], times[-1])


def _draw_curve(
    ax: Axes, times: NDArray[np.float64], curves: Curves, index: int, colour: str, each: int = 1
) -> None:
    """Draw a curve with its band; ``each`` is 2 for levels from start to end of windows."""
    estimates, lower, upper = (
        np.repeat(part[:, index], each) for part in (curves.estimates, curves.lower, curves.upper)
    )
    low, high = ax.get_ylim()
    room = high - low  # an infinite band is drawn beyond the axis
    lower, upper = np.clip(lower, low - room, None), np.clip(upper, None, high + room)
    ax.fill_between(times, lower, upper, color=colour, alpha=0.22, linewidth=0)
    ax.plot(times, estimates, color=colour, linewidth=1.1)


def _draw_windows(ax: Axes, curves: Curves, panel: list[int], shades: dict[int, str]) -> None:
    """Draw each number over its window, as bars or levels."""
    assert curves.starts is not None
    starts, ends = positions(curves.starts), positions(curves.times)
    ax.set_xlim(float(starts[0]), float(ends[-1]))
    if curves.provisional:
        hatch(ax, float(starts[-curves.provisional]), float(ends[-1]))
    if len(curves.groups) == 1 and len(starts) <= _MOST_BARS:
        wide, low, high = ends - starts, *ax.get_ylim()
        colour, estimates = shades[panel[0]], curves.estimates[:, panel[0]]
        ax.bar(starts + 0.06 * wide, estimates, 0.88 * wide, align="edge", color=colour, alpha=0.55)
        middles = (starts + ends) / 2
        below, above = (
            np.clip(part[:, panel[0]], low, high) for part in (curves.lower, curves.upper)
        )
        ax.vlines(middles, below, above, color=INK, linewidth=1.3)
        ax.axhline(0, color="#b0b0b0", linewidth=0.8)
        return
    times = np.stack([starts, ends], axis=1).ravel()
    for index in panel:
        _draw_curve(ax, times, curves, index, shades[index], each=2)


def hatch(ax: Axes, start: float, end: float) -> None:
    """Hatch the background where numbers may still change."""
    ax.axvspan(start, end, facecolor="none", edgecolor=_HATCH, hatch="////", linewidth=0, zorder=0)
    ax.axvline(start, color=_HATCH, linewidth=0.8, zorder=0)


def positions(times: NDArray[Any]) -> NDArray[np.float64]:
    """Convert times to days since 1970; numbers of steps stay."""
    from matplotlib.dates import date2num

    if times.dtype.kind != "M":
        return np.asarray(times, np.float64)
    return np.asarray(date2num(times), np.float64)  # type: ignore[no-untyped-call]


def name_times(ax: Axes, curves: Curves, least: int, most: int) -> None:
    """Set between ``least`` and ``most`` ticks on an axis of times, or of steps.

    A tick marks a moment; a window's number is drawn to the right of its beginning. Up to ``most``
    windows are labelled with their names instead, if these fit.
    """
    from matplotlib.dates import AutoDateLocator
    from matplotlib.ticker import MaxNLocator

    times, starts = curves.times, curves.starts
    if times.dtype.kind != "M":
        if len(times) == 1:
            name = f"step {int(times[0]):,}"
            ax.set_xticks([0.98], [name], ha="right")
            return
        ax.xaxis.set_major_locator(MaxNLocator(most, integer=True))
        ax.xaxis.set_major_formatter(number_ticks("step {number}"))
        return
    if starts is None and len(times) == 1:
        ax.set_xticks([0.98], [until_in_words(times[0])], ha="right")
        return
    ax.tick_params(axis="x", length=3)
    if starts is not None and len(starts) <= most:
        for between in (" ", "\n"):
            names = window_names(starts, times.astype("datetime64[us]"), between=between)
            if _side_by_side(ax, names):
                ax.set_xticks((positions(starts) + positions(times)) / 2, _align_names(names))
                ax.tick_params(axis="x", length=0)
                return
    first, last = (
        one.astype("datetime64[us]").item()
        for one in ((times if starts is None else starts)[0], times[-1])
    )
    low, high = map(float, ax.get_xlim())
    for number in range(most, least - 1, -1):
        locator = AutoDateLocator(minticks=least, maxticks=number)  # type: ignore[no-untyped-call]
        ticks = np.asarray(locator.tick_values(first, last), np.float64)  # type: ignore[no-untyped-call]
        ticks = ticks[(ticks >= low - 1e-9) & (ticks <= high + 1e-9)]
        names = tick_names(ticks, high)
        if not names or _side_by_side(ax, [name.partition("\n")[0] for name in names]):
            break
    ax.set_xticks(ticks, _align_names(names))


def _side_by_side(ax: Axes, names: Sequence[str]) -> bool:
    """Return True if names fit side by side below the axes."""
    wide = ax.get_position().width * ax.figure.get_figwidth()  # type: ignore[union-attr]
    longest = max(_inches(line, 9) for name in names for line in name.split("\n"))
    return len(names) == 1 or longest <= wide / len(names)


def _align_names(names: list[str]) -> list[str]:
    """Add empty lines such that all names have the same number."""
    lines = max((name.count("\n") for name in names), default=0)
    return [name + "\n " * (lines - name.count("\n")) for name in names]


def tick_names(ticks: NDArray[np.float64], end: float) -> list[str]:
    """Return labels for ticks, in days since 1970; the day, or the year, is on a second line.

    Midnight at the end of the axis is written as the end of a day.

    >>> tick_names(np.array([19783.0, 19783.5, 19784.0]), 19784.0)
    ['00:00\\n1 Mar 2024', '12:00', '24:00']
    >>> tick_names(np.array([19783.0, 19814.0]), 19844.0)
    ['Mar\\n2024', 'Apr']
    """
    moments = [np.datetime64(round(one * 86_400), "s").item() for one in ticks.tolist()]
    gap = float(np.diff(ticks).min()) if len(ticks) > 1 else 0.0
    found, shown = [], None
    for place, one in enumerate(moments):
        date = day_in_words(one)
        if gap >= 360:
            name, above = f"{one.year}", ""
        elif gap >= 27 and all(other.day == 1 for other in moments):
            name, above = month_name(one), f"{one.year}"
        elif gap >= 0.99 or all(other.hour == other.minute == 0 for other in moments):
            name, above = date, f"{one.year}"
        else:
            name, above = f"{one:%H:%M}", day_in_words(one, year=True)
            if gap < 1 / 1440:
                name = f"{one:%H:%M:%S}"
            if place and ticks[place] >= end - 1e-9 and name == "00:00":
                name, above = "24:00", shown or ""
        found.append(name if above == shown or not above else f"{name}\n{above}")
        shown = above
    return found


def window_names(
    starts: NDArray[np.datetime64], ends: NDArray[np.datetime64], *, between: str = " "
) -> list[str]:
    """Return a name for each window: its day, month or year, or its beginning and end.

    ``between`` weekday and day is a space, or a new line.

    >>> days = np.array(["2024-03-29", "2024-03-30", "2024-03-31"], "datetime64[us]")
    >>> window_names(days[:-1], days[1:])
    ['Fri 29 Mar\\n2024', 'Sat 30 Mar']
    """
    found: list[str] = []
    shown = None
    for start, end in zip(
        starts.astype("datetime64[s]"), ends.astype("datetime64[s]"), strict=True
    ):
        first, days = start.item(), (end - start) / np.timedelta64(1, "D")
        midnight = first.hour == first.minute == first.second == 0
        above = f"{first.year}"
        if midnight and first.day == first.month == 1 and 364 < days < 367:
            name, above = f"{first.year}", ""
        elif midnight and first.day == 1 and 27 < days < 32:
            name = month_name(first)
        elif midnight and days == 1:
            name = day_in_words(first, weekday=True)
            if between != " ":
                name = f"{weekday_name(first)}{between}{day_in_words(first)}"
        elif midnight:
            last = (end - np.timedelta64(1, "D")).item()
            name = f"{day_in_words(first)} –\n{day_in_words(last)}"
        else:
            name = f"{first:%H:%M}–\n{end.item():%H:%M}"
            above = day_in_words(first, year=True)
        found.append(name if above == shown or not above else f"{name}\n{above}")
        shown = above
    return found


def moment_in_words(time: np.datetime64) -> str:
    """Format a moment; midnight is the end of the day before.

    >>> moment_in_words(np.datetime64("2024-03-29T12:30"))
    '29 Mar 2024, 12:30'
    >>> moment_in_words(np.datetime64("2024-03-30T00:00"))
    'the end of 29 Mar 2024'
    """
    one = time.astype("datetime64[s]").item()
    if one.hour == one.minute == one.second == 0:
        one = (time.astype("datetime64[s]") - np.timedelta64(1, "s")).item()
        return f"the end of {day_in_words(one, year=True)}"
    return day_and_time(one)


def until_in_words(time: Any) -> str:
    """Describe up to which time, or after which step, a number counts.

    >>> until_in_words(np.int64(3)), until_in_words(np.datetime64("2024-03-29T12:30"))
    ('after step 3', 'up to 29 Mar 2024, 12:30')
    """
    if isinstance(time, np.datetime64):
        return f"up to {moment_in_words(time)}"
    return f"after step {int(time):,}"


def _label_ends(
    figure: Figure,
    ax: Axes,
    curves: Curves,
    panel: list[int],
    shades: dict[int, str],
    labels: Labels,
) -> None:
    """Write names beside the ends of curves, moved apart."""
    inch = 1 / (ax.get_position().width * figure.get_figwidth())  # in fractions of the axis
    value_at = 1 + inch * labels.inches
    low, high = ax.get_ylim()
    height = ax.get_position().height * figure.get_figheight() * 72  # in points
    ends = curves.estimates[-1, panel]
    ends = np.where(np.isfinite(ends), ends, low)  # numbers that are not known yet
    wanted = (ends - low) / (high - low) * height
    for index, place, value in zip(panel, spread(wanted, _LABEL_POINTS, height), ends, strict=True):
        style: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "textcoords": ("axes fraction", "axes points"),
            "va": "center",
            "annotation_clip": False,
            "parse_math": False,  # a name with dollar signs is not a formula
        }
        ax.annotate(
            labels.names[index],
            xy=(1.0, float(value)),
            xytext=(1 + LINE_INCHES * inch, float(place)),
            color=shades[index],
            weight="bold",
            size=9,
            arrowprops={
                "arrowstyle": "-",
                "color": shades[index],
                "linewidth": 0.7,
                # the connecting line ends at the name's beginning: it would cross out other names
                "relpos": (0.0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
            **style,
        )
        ax.annotate(
            labels.values[index],
            xy=(1.0, float(value)),
            xytext=(value_at, float(place)),
            ha="right",
            color=FAINT,
            size=8.5,
            **style,
        )


@dataclass(frozen=True)
class Labels:
    """Names and last values beside the ends of curves, and the width in inches of both."""

    names: list[str]
    values: list[str]
    inches: float

    @classmethod
    def of(
        cls,
        groups: Sequence[str],
        last: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        *,
        room: float | None = None,
    ) -> Labels:
        """Build labels from last estimates and intervals; ``room`` is a line's width in inches.

        >>> ends = np.array([18.0, 0.0]), np.array([22.0, 2.0])
        >>> Labels.of(["visits", "median"], np.array([20.0, 0.25]), *ends).values
        ['20.0 ± 2.0', '0.25 (0 to 2)']
        """
        halves = (high - low) / 2
        whole = all(bool(np.all(numbers == np.rint(numbers))) for numbers in (last, halves))
        values = []
        for value, half, *ends in np.stack([last, halves, low, high], axis=1).tolist():
            if not all(map(math.isfinite, (value, *ends))):
                values.append("not known yet")
                continue
            if abs((value - ends[0]) - (ends[1] - value)) <= 1e-6 * half:
                band = f" ± {quantity(half, half, whole)}"
            else:  # the estimate is not in the middle of its interval
                least, most = (quantity(end, half, end == round(end)) for end in ends)
                band = f" ({least} to {most})"
            values.append(quantity(value, half, whole) + band)
        longest = (
            {}
            if room is None
            else {"longest": int((room - VALUE_INCHES * max(map(len, values))) / NAME_INCHES)}
        )
        names = [shorten(name, **longest) for name in groups]
        beside = max(min(_inches(one, 9, "bold"), NAME_INCHES * len(one)) for one in names)
        numbers = max(min(_inches(one, 8.5), VALUE_INCHES * len(one)) for one in values)
        return cls(names, values, LINE_INCHES + beside + 0.2 + numbers)


def _inches(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a text in inches, about, for letters that the font lacks."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    font = FontProperties(weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters that the font lacks
        path = TextPath((0, 0), text.replace("$", "S"), size=size, prop=font)
    return float(path.get_extents().width) / 72 * 1.04


def spread(wanted: NDArray[np.float64], gap: float, height: float) -> NDArray[np.float64]:
    """Move positions apart, with the least sum of squared changes (pool adjacent violators).

    They become at least ``gap`` apart, or less if they do not fit, stay between 0 and ``height``
    and in order.

    >>> spread(np.array([5.0, 5.0, 90.0]), 10.0, 100.0)
    array([ 0., 10., 90.])
    """
    from scipy.optimize import isotonic_regression

    count = len(wanted)
    gap = min(gap, height / max(count - 1, 1))
    order = np.argsort(wanted, kind="stable")
    slots = np.arange(count) * gap
    fitted = isotonic_regression(wanted[order] - slots).x
    places = np.empty(count)
    places[order] = np.clip(fitted, 0, height - slots[-1]) + slots
    return places

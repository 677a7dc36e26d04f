"""Charts of released totals: one curve with its band per group, named where it ends.

Only released values are drawn, and the layout is chosen from them too, so a chart is as private as
the numbers it shows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import quantity
from counton.plots.style import (
    FAINT,
    INK,
    PALETTE,
    WIDTH,
    clean,
    colours,
    drawing,
    heading_inches,
    shorten,
    tick,
    write_heading,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 2_000
#: Groups that one chart can name, how many of more are drawn, and how many in panels of their own.
MOST_GROUPS, LARGEST_SHOWN, MOST_PANELS = 40, 12, 24
_LABEL_POINTS = 12.5  # height of a line of labels
_LARGEST_RATIO = 8.0  # groups farther apart than this share no axis
NAME_INCHES, VALUE_INCHES = 0.095, 0.078  # widths of a letter of a name and of a value
LINE_INCHES = 0.19  # from the axis to a name


@dataclass(frozen=True)
class Curves:
    """What is drawn: released values, never exact ones.

    Attributes:
        times: ends of the windows, ``datetime64``, or numbers of steps; shape ``(steps,)``.
        groups: a name for each curve.
        estimates, lower, upper: shape ``(steps, groups)``.
        all_groups: how many groups there are; None: these.
        of_windows: each estimate is of its own window, and groups are as large as their sums.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2).thinned(2).groups
    ['visits']
    """

    times: NDArray[np.datetime64] | NDArray[np.int64]
    groups: Sequence[str]
    estimates: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    all_groups: int | None = None
    of_windows: bool = False

    def largest(self, count: int) -> Curves:
        """The largest groups, largest first, if there are more: by totals, or sums of windows."""
        if len(self.groups) <= count:
            return self
        sizes = np.nansum(self.estimates, axis=0) if self.of_windows else self.estimates[-1]
        kept = largest_groups(sizes, count)
        return replace(
            self,
            groups=[self.groups[index] for index in kept],
            estimates=self.estimates[:, kept],
            lower=self.lower[:, kept],
            upper=self.upper[:, kept],
            all_groups=self.all_groups or len(self.groups),
        )

    def thinned(self, most: int = _MOST_POINTS) -> Curves:
        """At most about ``most`` steps, the last among them."""
        stride = -(-len(self.times) // most)
        keep = slice((len(self.times) - 1) % stride, None, stride)
        estimates, lower, upper = (
            array[keep] for array in (self.estimates, self.lower, self.upper)
        )
        return replace(self, times=self.times[keep], estimates=estimates, lower=lower, upper=upper)


def largest_groups(last: NDArray[Any], count: int) -> list[int]:
    """Places of the largest numbers, largest first; of equal ones the earlier.

    >>> largest_groups(np.array([4, 9, 7, 9]), 3)
    [1, 3, 2]
    """
    return [int(place) for place in np.argsort(-last, kind="stable")[:count]]


@drawing
def plot_totals(
    curves: Curves,
    title: str,
    subtitle: str,
    ylabel: str,
    *,
    panels: bool = False,
    from_zero: bool = True,
) -> Figure:
    """A chart of running totals; groups of very different size get an axis of their own.

    Of more groups than a chart can name (40) the 12 largest are drawn, and it says so.

    Args:
        curves: what to draw; at least one step and one group.
        title: what is counted.
        subtitle: what is protected and what the bands mean.
        ylabel: what the axis shows.
        panels: a small chart for each group, the largest 24, each with an axis of its own.
        from_zero: the axis reaches down to 0, as it should for what is counted.

    Raises:
        InvalidInput: nothing to draw.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> curves = Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2)
    >>> float(plot_totals(curves, "Visits", "each one is protected", "visits").get_figwidth())
    7.5
    """
    if len(curves.times) == 0 or not curves.groups:
        raise InvalidInput("there is nothing to draw: no step has been released yet")
    if panels or len(curves.groups) > MOST_GROUPS:
        most = MOST_PANELS if panels else LARGEST_SHOWN
        if len(curves.groups) > most:
            curves, several = curves.largest(most), curves.all_groups or len(curves.groups)
            subtitle += f"; the {most} largest of {several:,} groups"
    curves = curves.thinned()
    if panels:
        return _small_charts(curves, title, subtitle, ylabel)
    return _one_chart(curves, title, subtitle, ylabel, from_zero=from_zero)


def _one_chart(
    curves: Curves, title: str, subtitle: str, ylabel: str, *, from_zero: bool
) -> Figure:
    from matplotlib.figure import Figure

    panels = split_by_size(curves.estimates[-1])
    heights = [max(2.2, 0.32 * len(panel)) for panel in panels]
    head = heading_inches(title, subtitle) + 0.25
    tall, wide = head + 0.55 + max(4.0, sum(heights)), WIDTH
    figure = Figure(figsize=(wide, tall), dpi=150, facecolor="white")
    axes = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    labels = Labels.of(curves.groups, curves.estimates[-1], curves.lower[-1], curves.upper[-1])
    room = 0.2 + labels.inches
    ends = [abs(end) for panel in panels for end in reach(curves, panel, from_zero=from_zero)]
    left = max(0.8, 0.3 + VALUE_INCHES * len(f"{max(ends):,.0f}"))
    figure.subplots_adjust(
        left=left / wide,
        right=1 - room / wide,
        bottom=0.45 / tall,
        top=1 - head / tall,
        hspace=0.12,
    )
    write_heading(figure, title, subtitle)
    shades: dict[int, str] = {}
    for panel in panels:  # no two curves of one panel have one colour
        shades.update(zip(panel, colours(len(panel)), strict=True))
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, curves, panel, shades, from_zero=from_zero)
    _name_axes(list(axes), panels, ylabel, curves.times)
    for ax, panel in zip(axes, panels, strict=True):
        _label_ends(figure, ax, curves, panel, shades, labels)
    return figure


def _small_charts(curves: Curves, title: str, subtitle: str, ylabel: str) -> Figure:
    """Small multiples, two beside each other, so that a telephone shows them too."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    subtitle += f"; {ylabel}, each chart with its own scale"
    count, columns = len(curves.groups), min(2, len(curves.groups))
    rows, head = -(-count // columns), heading_inches(title, subtitle) + 0.45
    tall = head + 1.75 * rows
    figure = Figure(figsize=(WIDTH, tall), dpi=150, facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    figure.subplots_adjust(
        left=0.1, right=0.97, bottom=0.4 / tall, top=1 - head / tall, hspace=0.62, wspace=0.24
    )
    write_heading(figure, title, subtitle)
    labels = Labels.of(curves.groups, curves.estimates[-1], curves.lower[-1], curves.upper[-1])
    for index, ax in enumerate(axes):
        if index >= count:
            ax.set_axis_off()
            continue
        _draw_panel(ax, curves, [index], {index: PALETTE[0]})
        name = f"{labels.names[index]}   {labels.values[index]}"
        ax.set_title(name, loc="left", size=10, color=INK, parse_math=False)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        ax.yaxis.set_major_locator(MaxNLocator(3))
        if len(curves.times) == 1:
            ax.set_xticks([0.98], [_when(curves.times)[:10]], ha="right")
            continue
        name_times(ax, curves.times, 2, 5)
    return figure


def split_by_size(last: NDArray[np.float64]) -> list[list[int]]:
    """Groups, largest first, cut where a much smaller one follows: one panel for each part.

    There are at most two parts, each of two groups or more.

    >>> split_by_size(np.array([50_000.0, 700.0, 48_000.0, 40.0]))
    [[0, 2], [1, 3]]
    >>> split_by_size(np.array([5.0, 9.0]))
    [[1, 0]]
    """
    order = [int(index) for index in np.argsort(-last, kind="stable")]
    if len(order) < 4 or last[order[0]] <= 0:
        return [order]
    # Sizes below a hundredth of the largest look alike: all of them lie on the axis.
    sizes = np.maximum(last[order], last[order[0]] / 1000)
    ratios = sizes[:-1] / sizes[1:]
    # Cut once, at the widest gap that leaves at least two groups on each side.
    inner = ratios[1:-1]
    cut = int(np.argmax(inner)) + 2
    if sizes[0] / sizes[cut] < _LARGEST_RATIO or len(order) - cut < 2:
        return [order]
    return [order[:cut], order[cut:]]


def reach(curves: Curves, panel: Sequence[int], *, from_zero: bool = True) -> tuple[float, float]:
    """Between which values an axis shows some curves: all estimates, and bands as far as they help.

    A band that is infinite, or much wider than what its curve does, goes beyond the axis: early
    moments of next to no rows would leave nothing to see of the later ones.

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
    ax: Axes,
    curves: Curves,
    panel: list[int],
    shades: dict[int, str],
    *,
    from_zero: bool = True,
) -> None:
    if len(curves.times) == 1:  # a single step makes no line
        for index in panel:
            band = [curves.lower[-1, index], curves.upper[-1, index]]
            ax.plot([0.98, 0.98], band, color=shades[index], alpha=0.4, linewidth=4)
            ax.plot(0.98, curves.estimates[-1, index], "o", color=shades[index])
        ax.set_xlim(0, 1)
    for index in panel if len(curves.times) > 1 else ():
        ax.fill_between(
            curves.times,
            curves.lower[:, index],
            curves.upper[:, index],
            color=shades[index],
            alpha=0.22,
            linewidth=0,
        )
        ax.plot(curves.times, curves.estimates[:, index], color=shades[index], linewidth=1.1)
        if len(curves.times) > 1 and np.isnan(curves.estimates[-2, index]):  # no line yet
            ax.plot(curves.times[-1], curves.estimates[-1, index], ".", color=shades[index])
    ax.set_ylim(*reach(curves, panel, from_zero=from_zero))
    if len(curves.times) > 1:
        ax.set_xlim(curves.times[0], curves.times[-1])
    clean(ax, grid="y")


def _name_axes(
    axes: Sequence[Axes],
    panels: list[list[int]],
    ylabel: str,
    times: NDArray[np.datetime64] | NDArray[np.int64],
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for number, ax in enumerate(axes):
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        ax.yaxis.set_major_locator(MaxNLocator(6 if number == 0 else 4))
        name = ylabel if number == 0 else f"the {len(panels[number])} smallest, enlarged"
        ax.set_title(name, loc="left", size=9, color=FAINT, pad=4)
    if len(times) == 1:
        axes[-1].set_xticks([0.98], [_when(times).replace("T", " ")])
        return
    name_times(axes[-1], times, 4, 8)


def name_times(
    ax: Axes, times: NDArray[np.datetime64] | NDArray[np.int64], least: int, most: int
) -> None:
    """Ticks of an axis of times, between so many; or of numbers of steps."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if times.dtype.kind != "M":
        ax.xaxis.set_major_locator(MaxNLocator(most, integer=True))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"step {tick(value)}"))
        return
    locator = AutoDateLocator(minticks=least, maxticks=most)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_formatter(formatter)


def _when(times: NDArray[np.datetime64] | NDArray[np.int64]) -> str:
    """The only time there is, to the second; or its step."""
    if times.dtype.kind != "M":
        return f"step {times[0]:,}"
    return str(times[0].astype("datetime64[s]"))


def _label_ends(
    figure: Figure,
    ax: Axes,
    curves: Curves,
    panel: list[int],
    shades: dict[int, str],
    labels: Labels,
) -> None:
    """Names beside the ends of the curves, moved apart where they would overlap."""
    inch = 1 / (ax.get_position().width * figure.get_figwidth())  # in fractions of the axis
    value_at = 1 + inch * labels.inches
    low, high = ax.get_ylim()
    height = ax.get_position().height * figure.get_figheight() * 72  # points
    ends = curves.estimates[-1, panel]
    wanted = (ends - low) / (high - low) * height
    for index, place, value in zip(panel, spread(wanted, _LABEL_POINTS, height), ends, strict=True):
        style: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "textcoords": ("axes fraction", "axes points"),
            "va": "center",
            "annotation_clip": False,
            "parse_math": False,  # a name with dollar signs is no formula
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
                "relpos": (0.0, 0.5),  # to its beginning: across a name it would strike others out
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
    """What stands beside the ends of the curves, and the width that it takes."""

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
    ) -> Labels:
        """From names, last estimates and ends of the last bands.

        >>> ends = np.array([18.0, 0.0]), np.array([22.0, 2.0])
        >>> Labels.of(["visits", "median"], np.array([20.0, 0.25]), *ends).values
        ['20.0 ± 2.0', '0.25 (0 to 2)']
        """
        names, halves = [shorten(name) for name in groups], (high - low) / 2
        whole = all(bool(np.all(numbers == np.rint(numbers))) for numbers in (last, halves))
        values = []
        for value, half, *ends in np.stack([last, halves, low, high], axis=1).tolist():
            if not all(map(math.isfinite, (value, *ends))):
                values.append("not known yet")
                continue
            if abs((value - ends[0]) - (ends[1] - value)) <= 1e-6 * half:
                band = f" ± {quantity(half, half, whole)}"
            else:  # the estimate is not in the middle of what may be true
                band = " to ".join(quantity(end, half, end == round(end)) for end in ends)
                band = f" ({band})"
            values.append(quantity(value, half, whole) + band)
        beside = max(min(_inches(one, 9, "bold"), NAME_INCHES * len(one)) for one in names)
        numbers = max(min(_inches(one, 8.5), VALUE_INCHES * len(one)) for one in values)
        return cls(names, values, LINE_INCHES + beside + 0.2 + numbers)


def _inches(text: str, size: float, weight: str = "normal") -> float:
    """How wide a text is, as far as the font has its letters."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font has not
        path = TextPath((0, 0), text.replace("$", "S"), size=size, prop=font)
    return float(path.get_extents().width) / 72 * 1.04


def spread(wanted: NDArray[np.float64], gap: float, height: float) -> NDArray[np.float64]:
    """Places as near as possible to the wanted ones, at least ``gap`` apart, within the height.

    Least squares under the ordering (pool adjacent violators). Where they cannot all fit, the gap
    shrinks.

    >>> spread(np.array([5.0, 5.0, 90.0]), 10.0, 100.0)
    array([ 0., 10., 90.])
    """
    count = len(wanted)
    gap = min(gap, height / max(count - 1, 1))
    order = np.argsort(wanted, kind="stable")
    slots = np.arange(count) * gap
    blocks: list[list[float]] = []  # [mean, size]
    for target in wanted[order] - slots:
        blocks.append([float(target), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            before, earlier = blocks.pop()
            total = size + earlier
            blocks.append([(mean * size + before * earlier) / total, total])
    fitted = np.concatenate([np.full(int(size), mean) for mean, size in blocks])
    places = np.empty(count)
    places[order] = np.clip(fitted, 0, height - slots[-1]) + slots
    return places

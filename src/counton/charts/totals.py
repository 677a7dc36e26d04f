"""Charts of released numbers over time: totals as curves, windows as bars or steps, with bands.

Only released values are drawn, and only they decide the layout: a chart is as private as they.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import time, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import quantity
from counton.charts.style import (
    INK,
    NARROW,
    PALETTE,
    Caption,
    clean,
    drawing,
    frame,
    shorten,
    shorten_all,
    tick,
)
from counton.windowing.date_text import day_in_words, month_name, weekday_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINE_POINTS = 2_000
#: Largest number of groups that are drawn.
MOST_PANELS = 24
#: Largest number of windows that are drawn as bars.
_MOST_BARS = 80
_LARGEST_RATIO_OF_SIZES = 8.0  # groups with sizes of a larger ratio do not share a scale
_NARROWEST_BAND = 0.005  # part of the axis: a narrower band is hidden by its line
_LETTERS_PER_INCH = 12.3  # letters per inch of a heading above a chart
_VALUE_INCHES = 0.078  # width of a letter of a number
_COLOUR = PALETTE[0]
_HATCH_COLOUR = "#d0d0d0"


@dataclass(frozen=True)
class Curves:
    """Data of a chart of totals or of windows. Contains released values only.

    Attributes:
        times: ends of the windows, shape ``(steps,)``.
        groups: name of each curve.
        estimates, lower, upper: arrays of shape ``(steps, groups)``.
        all_groups: number of all groups, also of those that are not drawn; None: all are drawn.
        starts: of the windows, if estimates are of single ones.
        provisional: number of last windows whose numbers may still change.
        noted: numbers with a public note, of shape ``(steps, groups)``; None: no number.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2).thin(2).groups
    ['visits']
    """

    times: NDArray[np.datetime64]
    groups: Sequence[str]
    estimates: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    all_groups: int | None = None
    starts: NDArray[np.datetime64] | None = None
    provisional: int = 0
    noted: NDArray[np.bool_] | None = None

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Each group's last total, or the mean of its windows.

        They decide whether groups have one scale. Which groups are drawn does not depend on them.

        >>> windows = np.array([[90.0, 5.0], [80.0, 6.0], [1.0, 4.0]])
        >>> ends = np.arange("2026-01-02", "2026-01-05", dtype="datetime64[D]")
        >>> Curves(ends, "ab", windows, windows, windows, starts=ends - 1).sizes.tolist()
        [57.0, 5.0]
        """
        if self.starts is None:
            return np.asarray(np.nan_to_num(self.estimates[-1]))
        counts = np.maximum(np.isfinite(self.estimates).sum(axis=0), 1)
        return np.asarray(np.nansum(self.estimates, axis=0) / counts)

    def first(self, count: int) -> Curves:
        """Return the curves of the first ``count`` groups.

        Groups are not chosen by their estimates: intervals of the largest of many noisy numbers
        hold less often than they state.

        Args:
            count: number of groups that are kept.
        """
        return replace(
            self,
            groups=[*self.groups[:count]],
            estimates=self.estimates[:, :count],
            lower=self.lower[:, :count],
            upper=self.upper[:, :count],
            noted=None if self.noted is None else self.noted[:, :count],
            all_groups=self.all_groups or len(self.groups),
        )

    def thin(self, most: int = _MOST_LINE_POINTS) -> Curves:
        """Return the curves at evenly spaced steps, with the last.

        Args:
            most: number of steps that are kept, approximately.
        """
        stride = -(-len(self.times) // most)
        keep = slice((len(self.times) - 1) % stride, None, stride)
        return replace(
            self,
            times=self.times[keep],
            starts=None if self.starts is None else self.starts[keep],
            estimates=self.estimates[keep],
            lower=self.lower[keep],
            upper=self.upper[keep],
            noted=None if self.noted is None else self.noted[keep],
        )


@drawing
def plot_totals(curves: Curves, words: Caption) -> Figure:
    """Draw running totals, or the counts of windows: a chart for each of the first 24 groups.

    A window is a bar if there is one group and few windows, otherwise a level from its start to its
    end. Groups of comparable size have one scale. Above each chart stands its last number.

    Args:
        curves: the released numbers.
        words: title, subtitle, name of the axis, source and width.

    Raises:
        InvalidInputError: there is nothing to draw.

    >>> hours = np.arange("2026-01-01T01", "2026-01-01T04", dtype="datetime64[h]")
    >>> estimates = np.array([[3.0], [5.0], [9.0]])
    >>> curves = Curves(hours, ["visits"], estimates, estimates - 2, estimates + 2)
    >>> float(plot_totals(curves, Caption("Visits", axis="visits")).get_figwidth())
    7.5
    """
    from matplotlib.ticker import MaxNLocator

    _refuse_empty(curves)
    n_groups = curves.all_groups or len(curves.groups)
    curves = curves.first(MOST_PANELS)
    words = _with_remarks(words, curves, n_groups)
    curves = curves.thin()
    together = [*range(len(curves.groups))]
    count = len(together)
    sizes = curves.sizes
    has_one_scale = count > 1 and sizes.max() <= _LARGEST_RATIO_OF_SIZES * sizes.min()
    parts = [together if has_one_scale else [index] for index in together]
    words = _with_scales(words, curves, parts, has_one_scale=has_one_scale)
    values = values_in_words(curves)
    scales = [reach(curves, part) for part in parts]
    panels = _arrange(curves.groups, values, scales, words.width)
    separator = "   " if panels.has_one_line else "\n"
    value_widths = [len(value) + 3 if panels.has_one_line else 0 for value in values]
    headings = shorten_all(curves.groups, [max(panels.room - used, 8) for used in value_widths])
    figure, axes = _empty_panels(words, panels, count)
    for index, ax in enumerate(axes):
        if index >= count:
            ax.set_axis_off()
            continue
        ax.set_ylim(scales[index])
        _draw_panel(ax, curves, index)
        name = f"{headings[index]}{separator}{values[index]}"
        x = (0.15 - panels.label_width) / panels.axis_width  # also above the numbers of the axis
        ax.set_title(name, x=x, loc="left", size=10, color=INK, parse_math=False)
        ax.yaxis.set_major_formatter(lambda value, _place: tick(value))
        ax.yaxis.set_major_locator(MaxNLocator(3 if count > 1 else 6))
        n_times = 4 if panels.width > 2.5 else 3
        name_times(ax, curves, 2, n_times if count > 1 or words.width < NARROW else 8)
    return figure


def _refuse_empty(curves: Curves) -> None:
    """Refuse a chart without a step or without a group."""
    if len(curves.times) and curves.groups:
        return
    why = "no step has been released yet: draw it after the first release"
    if len(curves.times):
        why = "no group is shown yet, as none is large enough: draw it after a later release"
    raise InvalidInputError(f"there is nothing to draw, because {why}")


def _empty_panels(words: Caption, panels: _Panels, count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with a caption and ``count`` or more pairs of axes."""
    rows = -(-count // panels.columns)
    height = 0.45 * words.width
    if count > 1:
        height = (1.75 if panels.has_one_line else 1.95) * rows - 0.6
    figure, bottom, top = frame(words, height, above=0.45, below=0.55)
    axes = figure.subplots(rows, panels.columns, squeeze=False).ravel()
    figure.subplots_adjust(
        left=panels.label_width / words.width,
        right=1 - 0.22 / words.width,
        bottom=bottom,
        top=top,
        hspace=0.7 if panels.has_one_line else 0.9,
        wspace=panels.label_width / panels.axis_width,
    )
    return figure, list(axes)


def _with_scales(
    words: Caption, curves: Curves, parts: Sequence[Sequence[int]], *, has_one_scale: bool
) -> Caption:
    """Add what a caption says about notes, thin bands, the axis and the scales.

    Args:
        words: the caption.
        curves: the curves that are drawn.
        parts: for each chart, the groups that share its scale.
        has_one_scale: whether all charts share one scale.
    """
    if curves.noted is not None and curves.noted.any():
        words = words.adding("; hollow: with a note")
    if any(_is_thin(curves, part) for part in parts):
        words = words.adding("; where no band is seen, it is narrower than the line")
    if words.axis:
        words = words.adding(f"; {words.axis}")
    if len(parts) > 1:
        words = words.adding(
            "; all on one scale" if has_one_scale else "; each chart with its own scale"
        )
    return words


def _with_remarks(words: Caption, curves: Curves, n_groups: int) -> Caption:
    """Add what a caption says about the groups, numbers and bars of a chart.

    Args:
        words: the caption.
        curves: the curves that are drawn.
        n_groups: the number of groups, of which the first are drawn.
    """
    if n_groups > len(curves.groups):
        words = words.adding(f"; the first {len(curves.groups)} of {n_groups:,} groups")
    if curves.starts is not None:  # the numbers beside names are those of one window
        words = words.adding(f"; in numbers: {_last_window(curves)}")
    if curves.provisional:
        words = words.adding("; hatched: provisional, more rows may come")
    return words


class _Panels(NamedTuple):
    """How charts are arranged; lengths are in inches.

    Attributes:
        columns: number of charts side by side.
        width: width of each chart with its labels.
        label_width: width of the labels of its axis.
        room: number of letters above it.
        has_one_line: whether the name of a group and its number stand in one line.
    """

    columns: int
    width: float
    label_width: float
    room: int
    has_one_line: bool

    @property
    def axis_width(self) -> float:
        """Width of a chart without its labels."""
        return self.width - self.label_width


def _arrange(
    groups: Sequence[str],
    values: Sequence[str],
    scales: Sequence[tuple[float, float]],
    width: float,
) -> _Panels:
    """Arrange charts so that their names and numbers have room.

    Args:
        groups: name of each group.
        values: number above each chart, as text.
        scales: both ends of each axis.
        width: width of the figure in inches.
    """
    names = [min(len(shorten(name)), 20) for name in groups]
    longest_label = max(len(f"{end:,.0f}") for ends in scales for end in ends)
    longest_text = max([*names, *map(len, values)])
    label_width = 0.3 + _VALUE_INCHES * max(4, longest_label)
    most_columns = 3 if len(values) > 8 else 2
    needed = max(letters + 3 + len(value) for letters, value in zip(names, values, strict=True))
    for columns in range(min(most_columns, len(values)), 0, -1):
        panel_width = (width - 0.22) / columns
        room = int((panel_width - 0.1) * _LETTERS_PER_INCH)
        if panel_width >= label_width + 0.9 and room >= longest_text:
            return _Panels(columns, panel_width, label_width, room, has_one_line=room >= needed)
    return _Panels(1, panel_width, label_width, room, has_one_line=True)


def _is_thin(curves: Curves, part: Sequence[int]) -> bool:
    """Return True if a band is narrower than its curve's line at the last step of a common axis."""
    low, high = reach(curves, part)
    return bool(
        (curves.upper[-1, part] - curves.lower[-1, part] < _NARROWEST_BAND * (high - low)).any()
    )


def _last_window(curves: Curves) -> str:
    assert curves.starts is not None
    (window,) = window_names(curves.starts[-1:], curves.times[-1:].astype("datetime64[us]"))
    return " ".join(window.split())


def reach(curves: Curves, panel: Sequence[int]) -> tuple[float, float]:
    """Return both ends of the axis for some curves, with 0.

    It contains all estimates. A band that is infinite, or much wider than the changes of its curve,
    extends beyond it: otherwise early values from very few rows would hide later changes.

    >>> estimates = np.array([[4.0], [5.0]])
    >>> band = np.array([[np.inf], [1.0]])
    >>> days = np.array(["2024-03-29", "2024-03-30"], "datetime64[us]")
    >>> reach(Curves(days, ["mean"], estimates, estimates - band, estimates + band), [0])
    (0.0, 6.18)
    """
    shown = [part[:, panel] for part in (curves.estimates, curves.lower, curves.upper)]
    finite = [part[np.isfinite(part)] for part in shown]
    values = finite[0] if finite[0].size else np.zeros(1)
    low = float(values.min())
    high = float(values.max())
    if finite[1].size and finite[2].size:
        half = (shown[2] - shown[1]) / 2
        half = half[np.isfinite(half)]
        room = max(high - low, 4 * float(np.median(half)) if half.size else 0.0)
        low = min(low, max(float(finite[1].min()), low - room))
        high = max(high, min(float(finite[2].max()), high + room))
    low = min(0.0, low)
    high = max(0.0, high)
    margin = 0.03 * max(high - low, 1e-9 * max(abs(high), 1.0))
    return low - (0 if low == 0 else margin), high + margin


def _draw_panel(ax: Axes, curves: Curves, index: int) -> None:
    from matplotlib.dates import date2num

    clean(ax, grid="y")
    times = np.asarray(date2num(curves.times), np.float64)  # type: ignore[no-untyped-call]
    estimates = curves.estimates[:, index]
    lower = curves.lower[:, index]
    upper = curves.upper[:, index]
    begins = curves.times if curves.starts is None else curves.starts
    starts = np.asarray(date2num(begins), np.float64)  # type: ignore[no-untyped-call]
    middles = (starts + times) / 2
    if curves.noted is not None and curves.noted[:, index].any():
        is_noted = curves.noted[:, index]
        ax.plot(
            middles[is_noted],
            estimates[is_noted],
            "o",
            color=_COLOUR,
            markerfacecolor="white",
            zorder=3,
        )
    low, high = ax.get_ylim()
    room = high - low  # an infinite band is drawn beyond the axis
    lower = np.clip(lower, low - room, None)
    upper = np.clip(upper, None, high + room)
    if curves.starts is not None:
        ax.set_xlim(float(starts[0]), float(times[-1]))
        if curves.provisional:
            hatch(ax, float(starts[-curves.provisional]), float(times[-1]))
        if len(curves.groups) == 1 and len(starts) <= _MOST_BARS:
            wide = times - starts
            bar_left = starts + 0.06 * wide
            ax.bar(bar_left, estimates, 0.88 * wide, align="edge", color=_COLOUR, alpha=0.55)
            ax.vlines(middles, lower, upper, color=INK, linewidth=1.3)
            ax.axhline(0, color="#b0b0b0", linewidth=0.8)
            return
        times = np.stack([starts, times], axis=1).ravel()
        estimates = np.repeat(estimates, 2)
        lower = np.repeat(lower, 2)
        upper = np.repeat(upper, 2)
    elif len(times) == 1:  # a single step is not a line
        ax.vlines(times, lower, upper, color=_COLOUR, alpha=0.4, linewidth=4)
        ax.plot(times, estimates, "o", color=_COLOUR)
        return
    else:
        ax.set_xlim(float(times[0]), float(times[-1]))
    ax.fill_between(times, lower, upper, color=_COLOUR, alpha=0.22, linewidth=0)
    ax.plot(times, estimates, color=_COLOUR, linewidth=1.1)
    if np.isnan(estimates[-2]):  # there is no line yet
        ax.plot(times[-1], estimates[-1], ".", color=_COLOUR)


def hatch(ax: Axes, start: float, end: float) -> None:
    """Hatch the background where numbers may still change."""
    ax.axvspan(
        start, end, facecolor="none", edgecolor=_HATCH_COLOUR, hatch="////", linewidth=0, zorder=0
    )
    ax.axvline(start, color=_HATCH_COLOUR, linewidth=0.8, zorder=0)


def name_times(ax: Axes, curves: Curves, least: int, most: int) -> None:
    """Set between ``least`` and ``most`` ticks on an axis of times.

    A tick marks a moment; a window's number is drawn to the right of its beginning. Up to ``most``
    windows are labelled with their names instead, if these fit.
    """
    from matplotlib.dates import AutoDateLocator, date2num

    times = curves.times
    starts = curves.starts
    if starts is None and len(times) == 1:
        ticks = np.asarray(date2num(times), np.float64)  # type: ignore[no-untyped-call]
        ax.set_xticks(ticks, tick_names(ticks, float(ticks[0])))
        return
    ax.tick_params(axis="x", length=3)
    if starts is not None and len(starts) <= most:
        for separator in (" ", "\n"):
            names = window_names(starts, times.astype("datetime64[us]"), between=separator)
            if _side_by_side(ax, names):
                middles = starts + (times - starts) / 2
                ax.set_xticks(date2num(middles), _align_names(names))  # type: ignore[no-untyped-call]
                ax.tick_params(axis="x", length=0)
                return
    first_time = times[0] if starts is None else starts[0]
    first = first_time.astype("datetime64[us]").item()
    last = times[-1].astype("datetime64[us]").item()
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
    longest = max(_inches(line) for name in names for line in name.split("\n"))
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
    moments = [np.datetime64(round(tick * 86_400), "s").item() for tick in ticks.tolist()]
    gap = float(np.diff(ticks).min()) if len(ticks) > 1 else 0.0
    names = []
    shown = None
    for place, moment in enumerate(moments):
        date = day_in_words(moment)
        if gap >= 360:
            name = f"{moment.year}"
            above = ""
        elif gap >= 27 and all(other.day == 1 for other in moments):
            name = month_name(moment)
            above = f"{moment.year}"
        elif gap >= 0.99 or all(other.hour == other.minute == 0 for other in moments):
            name = date
            above = f"{moment.year}"
        else:
            name = f"{moment:%H:%M}"
            above = day_in_words(moment, year=True)
            if gap < 1 / 1440:
                name = f"{moment:%H:%M:%S}"
            if place and ticks[place] >= end - 1e-9 and name == "00:00":
                name = "24:00"
                above = shown or ""
        names.append(name if above == shown or not above else f"{name}\n{above}")
        shown = above
    return names


def window_names(
    starts: NDArray[np.datetime64], ends: NDArray[np.datetime64], *, between: str = " "
) -> list[str]:
    """Return a name for each window: its day, month or year, or its beginning and end.

    ``between`` weekday and day is a space, or a new line.

    >>> days = np.array(["2024-03-29", "2024-03-30", "2024-03-31"], "datetime64[us]")
    >>> window_names(days[:-1], days[1:])
    ['Fri 29 Mar\\n2024', 'Sat 30 Mar']
    """
    names: list[str] = []
    shown = None
    for start, end in zip(
        starts.astype("datetime64[s]"), ends.astype("datetime64[s]"), strict=True
    ):
        first = start.item()
        days = (end - start) / np.timedelta64(1, "D")
        last = end.item()
        midnight = first.time() == last.time() == time()
        above = f"{first.year}"
        if midnight:  # which ends the day before
            last -= timedelta(days=1)
        years = first.year != last.year
        if midnight and first.day == first.month == 1 and 364 < days < 367:
            name = f"{first.year}"
            above = ""
        elif midnight and first.day == 1 and 27 < days < 32:
            name = month_name(first)
        elif midnight and days == 1:
            name = f"{weekday_name(first)}{between}{day_in_words(first)}"
        elif midnight:
            name = f"{day_in_words(first, year=years)} –\n{day_in_words(last, year=years)}"
        elif days < 1:
            name = f"{first:%H:%M}–\n{last:%H:%M}"
            above = day_in_words(first, year=True)
            years = False
        else:
            begin = f"{day_in_words(first, year=years)} {first:%H:%M}"
            name = f"{begin} –\n{day_in_words(last, year=years)} {last:%H:%M}"
        if years:  # both years are in the name
            above = ""
        names.append(name if above == shown or not above else f"{name}\n{above}")
        shown = f"{last.year}" if years else above
    return names


def values_in_words(curves: Curves) -> list[str]:
    """Return each group's last number with its interval.

    >>> ends = np.array([[18.0, 0.0]]), np.array([[22.0, 2.0]])
    >>> day = np.array(["2024-03-30"], "datetime64[us]")
    >>> values_in_words(Curves(day, ["a", "b"], np.array([[20.0, 0.25]]), *ends))
    ['20.0 ± 2.0', '0.25 (0 to 2)']
    """
    last = curves.estimates[-1]
    low = curves.lower[-1]
    high = curves.upper[-1]
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
    return values


def _inches(text: str) -> float:
    """Return the width of a tick's name in inches, about, for letters that the font lacks."""
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters that the font lacks
        path = TextPath((0, 0), text.replace("$", "S"), size=9)
    return float(path.get_extents().width) / 72 * 1.04

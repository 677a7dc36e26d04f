"""Charts of answers: differences, ratios and shares, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counton.base.errors import InvalidInput
from counton.base.exact import quantity
from counton.charts.style import (
    FAINT,
    INK,
    PALETTE,
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
from counton.charts.totals import NAME_INCHES, VALUE_INCHES, Labels, largest_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.numbers.contrasts import Answer

#: Largest number of answers in one chart, and width of a letter of a name in inches.
_MOST, _LETTER = 40, 0.078


@drawing
def plot_answers(answers: Sequence[Answer], words: Caption) -> Figure:
    """Draw each answer as a row: its name, a point with its interval, and its number; and a line at
    0.

    An interval without a finite end extends to the end of the chart.

    Args:
        answers: 1 to 40 answers, whose numbers have the same unit.
        words: the words around the chart; its ``axis`` has the name and unit of the numbers.

    Raises:
        InvalidInput: there are no answers, or too many for one chart.
        MissingExtra: matplotlib is not installed.

    >>> from counton.numbers import Answer
    >>> one = Answer(3.0, 1.0, 1.0, 5.0, 0.95, "home minus shop")
    >>> figure = plot_answers([one], Caption("Visits"))
    >>> [text.get_text() for text in (*figure.axes[0].get_yticklabels(), *figure.axes[0].texts)]
    ['home minus shop', '3 ± 2']
    """
    from matplotlib.ticker import MaxNLocator

    if not 1 <= len(answers) <= _MOST:
        raise InvalidInput(
            f"there are {len(answers):,} answers, and a chart has 1 to {_MOST}: draw fewer"
        )
    axis, width = words.axis, words.width
    ends = np.array([(one.value, one.lower, one.upper) for one in answers], np.float64).T
    values = [_number(one) for one in answers]
    beside = 0.3 + VALUE_INCHES * max(map(len, values))
    longest = max(len(one.what) for one in answers)
    left = min(0.25 + NAME_INCHES * longest, max(0.4 * width, 0.65 * width - beside))
    names = [fill(one.what, int((left - 0.2) / _LETTER)) for one in answers]
    row = 0.12 + 0.16 * max(name.count("\n") + 1 for name in names)
    figure, bottom, top = frame(
        words,
        row * len(answers),
        above=0.3 + axis_inches(axis, width),
        below=0.35,
    )
    wide = 1 - (left + beside) / width
    ax = figure.add_axes((left / width, bottom, wide, top - bottom))
    known = ends[np.isfinite(ends)]
    low, high = min(known.min(initial=0.0), 0.0), max(known.max(initial=0.0), 0.0)
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room
    ax.set_xlim(low, high)
    ax.set_ylim(len(answers) - 0.5, -0.5)
    ax.axvline(0, color=FAINT, linewidth=1)
    for place, (value, lower, upper) in enumerate(ends.T.tolist()):
        band = [max(lower, low), min(upper, high)]
        ax.plot(band, [place] * 2, color=PALETTE[0], linewidth=3, alpha=0.45)
        if math.isfinite(value):
            ax.plot([value], [place], "o", color=PALETTE[0], markersize=6)
        where: dict[str, Any] = {"xy": (1, place), "xycoords": ("axes fraction", "data")}
        style: dict[str, Any] = {"size": 8.5, "color": FAINT, "va": "center"}
        ax.annotate(values[place], **where, xytext=(6, 0), textcoords="offset points", **style)
    clean(ax, grid="x")
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", labelcolor=INK)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    most = int(wide * width / (0.3 + VALUE_INCHES * len(tick(float(round(high))))))
    ax.xaxis.set_major_locator(MaxNLocator(min(max(most, 1), 6)))
    ax.xaxis.set_major_formatter(number_ticks())
    name_axis(ax, axis, width, x=(0.15 - left) / (wide * width))
    return figure


def _number(one: Answer) -> str:
    """Format the number of an answer with its interval, as far as both are known.

    >>> from counton.numbers import Answer
    >>> [_number(Answer(one, 1.0, 0.5, math.inf, 0.95)) for one in (2.0, math.nan)]
    ['2.0 (0.5 or more)', '0.50 or more']
    """
    ends = one.value, one.lower, one.upper
    if all(map(math.isfinite, ends)):
        return Labels.of([one.what], *(np.array([end]) for end in ends)).values[0]
    error = max((abs(end) for end in ends if math.isfinite(end)), default=1.0)
    value, low, high = (quantity(end, error) if math.isfinite(end) else "" for end in ends)
    bounds = [f"{low} or more"] if low else [f"{high} or less"] if high else ["nothing bounds it"]
    if low and high:
        bounds = [f"{high} or less"] if one.lower == 0 else [f"{low} to {high}"]
    return f"{value} ({bounds[0]})" if value else bounds[0]


#: Largest number of groups whose patterns one chart shows.
_PATTERNS = len(PALETTE)


@drawing
def plot_pattern(table: pl.DataFrame, words: Caption) -> Figure:
    """Draw each group's mean by hour of the day, or by day of the week, with intervals.

    If there are more than 8 groups, the chart shows the groups with the largest means, and says so.

    Args:
        table: a table of `Release.pattern`.
        words: the words around the chart.

    Raises:
        MissingExtra: matplotlib is not installed.

    >>> import polars as pl
    >>> rows = {"hour": [8, 9], "times": [3, 3], "group": ["all"] * 2, "estimate": [4.0, 7.0],
    ...         "std": [1.0, 1.0], "lower": [2.0, 5.0], "upper": [6.0, 9.0]}
    >>> figure = plot_pattern(pl.DataFrame(rows), Caption("Visits"))
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['8:00', '9:00']
    """
    by = table.columns[0]
    groups, drawn, words = _largest_groups(table, _PATTERNS, words)
    letters = max(int((words.width - 1.5) / _LETTER), 10)  # that a name may have
    longest = min(max(map(len, drawn)), letters)
    fit = int((words.width - 1) / (0.5 + _LETTER * longest))
    columns = max(min(fit, len(drawn), 4), 1)  # names side by side above the axes
    lines = -(-len(drawn) // columns) if len(groups) > 1 else 0
    figure, bottom, top = frame(words, 3.2, above=0.12 + _LEGEND * lines, below=0.9)
    wide = words.width
    ax = figure.add_axes((0.68 / wide, bottom, 1 - 0.9 / wide, top - bottom))
    names = table[by].unique(maintain_order=True).to_list()
    for place, group in enumerate(drawn):
        rows = table.filter(pl.col("group") == group)
        at = [names.index(name) + 0.6 * ((place + 0.5) / len(drawn) - 0.5) for name in rows[by]]
        colour = PALETTE[place]
        ax.vlines(at, rows["lower"], rows["upper"], color=colour, linewidth=3, alpha=0.45)
        label = shorten(group, letters) if len(groups) > 1 else "_"
        ax.plot(at, rows["estimate"], "o", color=colour, markersize=4, label=label)
    ax.axhline(0, color=FAINT, linewidth=1)
    clean(ax, grid="y")
    labels = [f"{name}:00" if by == "hour" else str(name)[:3] for name in names]
    ax.set_xticks(range(len(names)), labels, rotation=90 if len(names) > 12 else 0)
    if lines:  # above the axes, because beside points it would cover some
        legend = ax.legend(
            frameon=False, fontsize=9, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1),
            borderaxespad=0.2, borderpad=0,
        )  # fmt: skip
        for one in legend.get_texts():
            one.set_parse_math(False)
    return figure


#: Height in inches of a line of names, and of a day in a chart of the hours of the week.
_LEGEND, _OF_A_DAY = 0.2, 0.24
#: Largest number of groups whose weeks one chart shows.
_WEEKS = 6


@drawing
def plot_week(table: pl.DataFrame, words: Caption) -> Figure:
    """Draw a coloured table for each group with its mean in each hour of the week.

    All tables have the same colour scale. If there are more than 6 groups, the chart shows the
    groups with the largest means, and says so.

    Args:
        table: a table of `Release.pattern` by weekday and hour.
        words: the words around the chart; its ``axis`` says what colours mean.

    Raises:
        MissingExtra: matplotlib is not installed.

    >>> import polars as pl
    >>> rows = {"weekday": ["Monday"] * 2, "hour": [8, 9], "times": [3, 3], "group": ["all"] * 2,
    ...         "estimate": [4.0, 7.0], "std": [1.0, 1.0], "lower": [2.0, 5.0],
    ...         "upper": [6.0, 9.0]}
    >>> figure = plot_week(pl.DataFrame(rows), Caption("Visits"))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['Mon']
    """
    groups, drawn, words = _largest_groups(table, _WEEKS, words)
    days = table["weekday"].unique(maintain_order=True).to_list()
    named = 0.24 if len(groups) > 1 else 0.06
    tall = named + _OF_A_DAY * len(days)
    axis = axis_inches(words.axis, words.width)
    figure, bottom, top = frame(words, (tall + 0.1) * len(drawn), above=0.12, below=1.05 + axis)
    whole = figure.get_figheight()
    shown = table.filter(pl.col("group").is_in(drawn))["estimate"]
    low, high = min(float(shown.min() or 0), 0.0), float(shown.max() or 0)  # type: ignore[arg-type]
    image: Any = None
    for place, group in enumerate(drawn):
        up = top - ((tall + 0.1) * (place + 1) - 0.1) / whole
        wide = words.width
        ax = figure.add_axes((0.55 / wide, up, 1 - 0.75 / wide, (tall - named) / whole))
        cells = np.full((len(days), 24), np.nan)
        for day, hour, value in (
            table.filter(pl.col("group") == group).select("weekday", "hour", "estimate").iter_rows()
        ):
            cells[days.index(day), hour] = value
        image = ax.imshow(cells, aspect="auto", cmap="YlGnBu", vmin=low, vmax=max(high, low + 1e-9))
        ax.set_yticks(range(len(days)), [day[:3] for day in days], fontsize=8.5)
        last = place == len(drawn) - 1
        ax.set_xticks(range(0, 24, 3), [f"{hour}:00" for hour in range(0, 24, 3)] if last else [])
        ax.tick_params(length=0, colors=FAINT, labelsize=8.5)
        for side in ax.spines.values():
            side.set_visible(False)
        if len(groups) > 1:
            ax.set_title(shorten(group, 60), loc="left", size=9, color=INK, pad=3, parse_math=False)
    scale = figure.add_axes(
        (0.55 / words.width, bottom - 0.6 / whole, 2.4 / words.width, 0.12 / whole)
    )
    bar = figure.colorbar(image, cax=scale, orientation="horizontal")
    bar.outline.set_visible(False)
    scale.tick_params(length=0, colors=FAINT, labelsize=8.5)
    name_axis(scale, words.axis, words.width)
    return figure


def _largest_groups(
    table: pl.DataFrame, most: int, words: Caption
) -> tuple[list[str], list[str], Caption]:
    """Choose the groups to draw: the ``most`` groups with the largest sum of estimates.

    Returns:
        All groups of the table; the groups to draw, in the order of the table; and the words around
        the chart, with a remark if groups are left out.
    """
    groups = table["group"].unique(maintain_order=True).to_list()
    if len(groups) <= most:
        return groups, groups, words
    sizes = table.group_by("group", maintain_order=True).agg(pl.col("estimate").sum())["estimate"]
    drawn = [groups[place] for place in sorted(largest_groups(sizes.to_numpy(), most))]
    return groups, drawn, words.adding(f"; the {most} largest of {len(groups):,} groups")

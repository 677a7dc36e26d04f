"""Charts of answers: differences, ratios and shares, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counton.errors import InvalidInput
from counton.plots.style import (
    FAINT,
    INK,
    PALETTE,
    WIDTH,
    clean,
    drawing,
    foot_inches,
    heading_inches,
    write_foot,
    write_heading,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.mechanisms.contrasts import Answer

#: Answers that one chart shows, and inches of each.
_MOST, _ROW = 40, 0.5


@drawing
def plot_answers(
    answers: Sequence[Answer],
    title: str,
    subtitle: str = "",
    *,
    foot: str = "",
    width: float = WIDTH,
) -> Figure:
    """Answers below each other: a point, its interval, and a line at 0 where that is in sight.

    An interval that nothing bounds goes from one end of the chart to the other.

    Args:
        answers: 1 to 40 of them, with numbers of one kind.
        title, subtitle, foot: above and below.
        width: in inches.

    Raises:
        InvalidInput: no answers, or too many for one chart.
        MissingExtra: matplotlib is not installed.

    >>> from counton.mechanisms import Answer
    >>> figure = plot_answers([Answer(3.0, 1.0, 1.0, 5.0, 0.95, "home minus shop")], "Visits")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['home minus shop']
    """
    from matplotlib.figure import Figure

    if not 1 <= len(answers) <= _MOST:
        raise InvalidInput(f"{len(answers):,} answers are no chart; draw 1 to {_MOST} of them")
    head, below = heading_inches(title, subtitle, width), 0.4 + foot_inches(foot, width)
    tall = head + _ROW * len(answers) + below
    figure = Figure(figsize=(width, tall), dpi=150, facecolor="white")
    write_heading(figure, title, subtitle)
    write_foot(figure, foot)
    rows = _ROW * len(answers) / tall
    ax = figure.add_axes((0.03, below / tall, 0.94, rows))
    ends = [end for one in answers for end in (one.lower, one.upper, one.value)]
    known = [end for end in ends if math.isfinite(end)] or [0.0]
    low, high = min(*known, 0.0), max(*known, 0.0)
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room
    ax.set_xlim(low, high)
    ax.set_ylim(len(answers) - 0.3, -0.6)
    ax.axvline(0, color=FAINT, linewidth=1)
    for row, one in enumerate(answers):
        left, right = max(one.lower, low), min(one.upper, high)
        ax.plot([left, right], [row + 0.1] * 2, color=PALETTE[0], linewidth=3, alpha=0.45)
        if math.isfinite(one.value):
            ax.plot([one.value], [row + 0.1], "o", color=PALETTE[0], markersize=6)
        ax.text(low, row - 0.2, one.what, size=9, color=INK, va="center", parse_math=False)
    clean(ax, grid="x")
    ax.set_yticks([])
    return figure

"""How what was released shows itself in a notebook: words, the last numbers, and charts."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from counton.base.columns import WHEN, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.released.released_numbers import ReleasedNumbers

#: Groups that a notebook shows, or rows of a statistic's reading.
_ROWS = 24


def page(released: ReleasedNumbers, words: str, figures: Callable[[], Mapping[str, Figure]]) -> str:
    """HTML of what was released: words, the largest groups of the last step, charts.

    Args:
        released: counts and sums, or readings of a statistic.
        words: above it.
        figures: what draws its charts.
    """
    table = released.last_rows(_ROWS)
    more = 0 if released.rows is None else len(released.groups) - table.height
    if more > 0:
        words += f"\n{more:,} smaller groups are not shown"
    if "window_end" in table.columns and table.height:
        end = table["window_end"][-1]
        words += f"\nat {end:%Y-%m-%d %H:%M} ({end.tzinfo})"
    shown = table.drop(WHEN, strict=False)  # which stands above them
    columns = {name: shown[name].to_numpy() for name in shown.columns}
    return html(words, columns, _ROWS) + _charts(figures)


def _charts(figures: Callable[[], Mapping[str, Figure]]) -> str:
    if find_spec("matplotlib") is None:  # the extra "plot"; the table is shown without
        return ""
    try:
        return "".join(map(_picture, figures().values()))
    except Exception as error:  # whatever it is: the numbers are shown all the same
        return f"<p>no chart ({escape(f'{type(error).__name__}: {error}')})</p>"


def _picture(figure: Any) -> str:
    from counton.charts.style import quietly

    drawn = io.BytesIO()
    with quietly():
        figure.savefig(drawn, format="png", facecolor="white", dpi=100)
    data = base64.b64encode(drawn.getvalue()).decode("ascii")
    return f'<img alt="chart" style="max-width: 100%" src="data:image/png;base64,{data}">'

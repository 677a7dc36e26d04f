"""Margins of error by epsilon, for the page "Choosing epsilon".

``python -m tools.epsilon_table`` writes two tables into ``docs/concepts/choosing-epsilon.md`` and
the numbers of its selection into ``docs/javascripts/epsilon-margins.js``; a test compares both.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

from counton import ContributionBound, plan
from counton.base.exact import figures_above

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "concepts" / "choosing-epsilon.md"
MARGINS = DOCS / "javascripts" / "epsilon-margins.js"

EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "3", "5", "10")
#: Number of windows of a stream, and what such a stream is in words.
WINDOWS = {12: "12 months", 52: "52 weeks", 365: "365 days", 8760: "8,760 hours"}
#: How many rows of the protected unit count.
BOUNDS = (1, 3, 10, 30)
#: Beliefs, in percent, that a reader has before reading any number.
BELIEFS = (1, 10, 50)


@cache
def margin(epsilon: str, windows: int, bound: int, *, cumulative: bool) -> str:
    """Return the margin of error (95%) of a count in the last window.

    Args:
        epsilon: The privacy loss of the protected unit in the whole stream.
        windows: The number of windows.
        bound: The largest number of rows of one unit.
        cumulative: Whether running totals are published; otherwise single windows are.

    Returns:
        The margin with two digits, rounded up.
    """
    planned = plan(
        windows,
        epsilon=epsilon,
        contribution=ContributionBound.events(bound),
        series="cumulative" if cumulative else "per-window",
        compare=False,
    )
    return figures_above(planned.halfwidth(windows))


def belief_after(epsilon: str, percent: int) -> str:
    """Return the largest belief, in percent, to which any releases can raise a belief.

    Under pure differential privacy the odds grow by at most a factor of e^epsilon.

    >>> belief_after("1", 10)
    '23%'
    """
    odds = math.exp(float(epsilon)) * percent / (100 - percent)
    after = 100 * odds / (1 + odds)
    decimals = 0 if after < 99 else 2 if after < 99.9 else 3
    return f"{after:.{decimals}f}%"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown whose columns after the first are aligned to the right."""
    lines = [header, ["---"] + ["--:"] * (len(header) - 1), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def table_of_margins() -> str:
    """Return the margins of error by epsilon, for one row of each unit."""
    header = ["ε", "each window alone", *(f"total of {words}" for words in WINDOWS.values())]
    rows = [
        [
            epsilon,
            f"±{margin(epsilon, 52, 1, cumulative=False)}",
            *(f"±{margin(epsilon, windows, 1, cumulative=True)}" for windows in WINDOWS),
        ]
        for epsilon in EPSILONS
    ]
    return table(header, rows)


def table_of_beliefs() -> str:
    """Return what a reader may believe after reading all releases, by epsilon."""
    header = ["ε", *(f"{percent}% before" for percent in BELIEFS)]
    rows = [
        [epsilon, *(belief_after(epsilon, percent) for percent in BELIEFS)] for epsilon in EPSILONS
    ]
    return table(header, rows)


def margins_script() -> str:
    """Return the JavaScript that defines the numbers of the selection on the page."""
    numbers = {
        f"{kind},{windows},{bound},{epsilon}": margin(
            epsilon, windows, bound, cumulative=kind == "cumulative"
        )
        for kind in ("per-window", "cumulative")
        for windows in WINDOWS
        for bound in BOUNDS
        for epsilon in EPSILONS
    }
    return f"window.countonMargins = {json.dumps(numbers, indent=0, ensure_ascii=False)};\n"


def with_tables(page: str) -> str:
    """Return the page with the tables of today's plans between its markers.

    Args:
        page: The page, with lines ``<!-- NAME -->`` and ``<!-- /NAME -->`` around each table.

    Returns:
        The page with new tables.
    """
    for name, lines in {"margins": table_of_margins(), "beliefs": table_of_beliefs()}.items():
        begin = f"<!-- {name} -->\n"
        end = f"<!-- /{name} -->"
        before, found, rest = page.partition(begin)
        _old, found_end, after = rest.partition(end)
        assert found
        assert found_end
        page = f"{before}{begin}\n{lines}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), encoding="utf-8")
    MARGINS.parent.mkdir(exist_ok=True)
    MARGINS.write_text(margins_script(), encoding="utf-8")

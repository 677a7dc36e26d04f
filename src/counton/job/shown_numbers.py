"""Options that choose which released numbers a table shows."""

from __future__ import annotations

from counton.job import values as v
from counton.job.option_fields import REMEMBERED, Section, option


class OverOptions(Section):
    """Numbers that can be shown for the last steps alone."""

    heading = "Output"
    scope = REMEMBERED
    over: v.NotNegative | None = option(
        "Show the numbers of this many last windows, in place of all; 0 shows all again."
    )


class ShareOptions(Section):
    """The choice of quantiles to show."""

    heading = "Output"
    scope = REMEMBERED
    shares: v.Numbers | None = option(
        "Quantiles to show, as in 0.25,0.5. [default: 0.1,0.25,0.5,0.75,0.9]"
    )


class IntervalOptions(Section):
    """The choice of intervals of cells to show."""

    heading = "Output"
    scope = REMEMBERED
    ask: v.Names | None = option("Intervals of cells to show, in place of single cells.")

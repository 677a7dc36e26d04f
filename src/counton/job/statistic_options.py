"""Options that several statistics share, beside those of every job."""

from __future__ import annotations

from counton.job import values as v
from counton.job.option_fields import STREAM, Section, option


class CountColumnOptions(Section):
    """A table of counts: a row stands for several events."""

    heading = "Statistic"
    scope = STREAM
    count_column: v.Column | None = option(
        "Column with the number of events that each row represents."
    )


class ReplaceOptions(Section):
    """Protection of a row's values, where its presence is public."""

    heading = "Privacy"
    scope = STREAM
    replace: bool = option("Protect the values of a row, not its presence.", default=False)


class BoundOptions(Section):
    """A column of values, which are clipped to bounds and rounded to a grid."""

    heading = "Statistic"
    scope = STREAM
    value: v.Column | None = option("Column of the values, whose mean or sum is shown.")
    lower: v.Exact | None = option("Smaller values count as this value.")
    upper: v.Exact | None = option("Larger values count as this value.")
    resolution: v.Loss | None = option("Values are rounded to multiples of this number.")

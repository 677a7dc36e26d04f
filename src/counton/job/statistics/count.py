"""Options of a count."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.common_options import (
    DiscoveredGroupOptions,
    GroupOptions,
    Job,
    RollingSeriesOptions,
    UserRowOptions,
)
from counton.job.option_fields import FILE_ONLY, STREAM, Section, option
from counton.job.statistic_options import CountColumnOptions


class UpstreamBoundOptions(Section):
    """A bound on one user's share of a table of counts, which its maker vouches for."""

    heading = "Contributions"
    scope = STREAM
    upstream_max_contributions: v.MostEvents | None = option(
        "Largest number of one user's events in a table of counts, which its maker ensured.",
        FILE_ONLY,
    )


class CountJob(
    CountColumnOptions,
    UpstreamBoundOptions,
    RollingSeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The number of events: of rows, or of what a column of counts adds up to."""

    statistic: Literal["count"] = "count"
    summary: ClassVar = "The number of events: of rows, or of what a column of counts adds up to."
    also_called: ClassVar = ("number", "events", "rows", "histogram")
    example: ClassVar = {"group-by": "page", "groups": "home,shop"}

"""Options of a sum."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job.common_options import (
    DiscoveredGroupOptions,
    GroupOptions,
    Job,
    RollingSeriesOptions,
    UserRowOptions,
)
from counton.job.statistic_options import BoundOptions


class SumJob(
    BoundOptions, RollingSeriesOptions, DiscoveredGroupOptions, GroupOptions, UserRowOptions, Job
):
    """The sum of a column, whose values are clipped to bounds and put on a grid."""

    statistic: Literal["sum"] = "sum"
    summary: ClassVar = "The sum of a column, whose values are clipped to bounds and put on a grid."
    also_called: ClassVar = ("total", "totals")
    example: ClassVar = {"value": "seconds", "lower": "0", "upper": "600", "resolution": "1"}
    needs: ClassVar = ("value", "lower", "upper", "resolution")

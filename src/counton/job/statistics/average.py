"""Options of an average."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job.common_options import (
    DiscoveredGroupOptions,
    GroupOptions,
    Job,
    RollingSeriesOptions,
    UserRowOptions,
)
from counton.job.shown_numbers import OverOptions
from counton.job.statistic_options import BoundOptions
from counton.job.statistics.sum import SumJob


class AverageJob(
    BoundOptions,
    OverOptions,
    RollingSeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The mean of clipped values, and their sum and number."""

    statistic: Literal["average"] = "average"
    summary: ClassVar = "The mean of clipped values, and their sum and number."
    also_called: ClassVar = ("mean", "avg")
    example: ClassVar = SumJob.example
    needs: ClassVar = SumJob.needs

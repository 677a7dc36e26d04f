"""Options of a ranking of groups."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.common_options import (
    DiscoveredGroupOptions,
    GroupOptions,
    Job,
    SeriesOptions,
    UserRowOptions,
)
from counton.job.option_fields import REMEMBERED, STREAM, option
from counton.job.shown_numbers import OverOptions
from counton.job.statistic_options import ReplaceOptions


class TopKJob(
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The largest groups of a histogram, with intervals that hold for all of them at once."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["top-k"] = "top-k"
    top: v.Positive | None = option("Number of groups to show. [default: 10]", REMEMBERED)
    room: v.Positive | None = option(
        "Largest number of undeclared groups, from public knowledge. [default: 1,000,000]",
        REMEMBERED,
    )
    summary: ClassVar = (
        "The largest groups of a histogram, with intervals that hold for all of them at once."
    )
    also_called: ClassVar = ("top", "topk", "top_k", "largest")
    example: ClassVar = {"group-by": "page", "groups": "home,shop", "top": "1"}
    needs: ClassVar = ("group_by",)

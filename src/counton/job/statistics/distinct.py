"""Options of a number of different users."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job.common_options import (
    GroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserOptions,
)
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import OverOptions


class DistinctJob(OverOptions, SeriesOptions, UnlistedGroupOptions, GroupOptions, UserOptions, Job):
    """The number of different users; each counts once in the stream."""

    heading = "Contributions"
    scope = STREAM
    statistic: Literal["distinct"] = "distinct"
    distinct_users: bool = option("Each user counts once, as always here.", default=False)
    summary: ClassVar = "The number of different users."
    also_called: ClassVar = ("unique", "uniques", "users", "visitors")
    example: ClassVar = {"user": "visitor"}
    needs: ClassVar = ("user",)

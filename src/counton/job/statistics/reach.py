"""Options of a number of users by their number of rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.common_options import (
    GroupOptions,
    Job,
    PeriodSeriesOptions,
    UnlistedGroupOptions,
    UserPeriodOptions,
)
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import OverOptions


class ReachJob(
    OverOptions, PeriodSeriesOptions, UnlistedGroupOptions, GroupOptions, UserPeriodOptions, Job
):
    """How many users have at least 1, 5, 100 rows in a period."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["reach"] = "reach"
    at_least: v.WholeNumbers | None = option(
        "Least number of rows of a user: one number, or several as in 1,5,100. [default: 1]"
    )
    summary: ClassVar = "How many users have at least 1, 5, 100 rows in a period."
    also_called: ClassVar = ("frequency", "returning", "active")
    example: ClassVar = {"user": "visitor", "contribution-period": "1mo", "at-least": "1,2"}
    needs: ClassVar = ("user",)

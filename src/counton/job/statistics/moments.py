"""Options of moments."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.common_options import (
    GroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserRowOptions,
)
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import OverOptions


class MomentsJob(
    OverOptions, SeriesOptions, UnlistedGroupOptions, GroupOptions, UserRowOptions, Job
):
    """Means, variances and covariances of columns."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["moments"] = "moments"
    columns: v.Names | None = option("Columns that the statistic reads, in this order: A,B.")
    bounds: v.Names | None = option("Lowest and highest value of each column: 0:100,0:20.")
    grid: v.Positive | None = option(
        "Number of cells between the bounds of a column. [default: 256]"
    )
    summary: ClassVar = "Means, variances and covariances of columns."
    also_called: ClassVar = ("variance", "var", "std", "correlation")
    example: ClassVar = {"columns": "seconds", "bounds": "0:600"}
    needs: ClassVar = ("columns", "bounds")

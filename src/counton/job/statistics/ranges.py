"""Options of a line of cells."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.common_options import (
    DeclaredGroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserRowOptions,
)
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import IntervalOptions, OverOptions
from counton.job.statistic_options import CountColumnOptions, ReplaceOptions


class RangesJob(
    IntervalOptions,
    CountColumnOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    DeclaredGroupOptions,
    UserRowOptions,
    Job,
):
    """A line of counts, accurate in every interval."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["ranges"] = "ranges"
    label: v.Column | None = option("Column that names the cells of a line.")
    workload: v.Text | None = option("What is accurate: ranges or prefixes. [default: ranges]")
    line: v.Text | None = option(
        "How cells are measured: auto, identity, haar, hierarchy or optimal. [default: auto]"
    )
    summary: ClassVar = "A line of counts, accurate in every interval."
    example: ClassVar = {"label": "page", "groups": "home,shop"}
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("label", "groups")

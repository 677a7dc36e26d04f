"""Options of quantiles."""

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
from counton.job.shown_numbers import OverOptions, ShareOptions
from counton.job.statistic_options import ReplaceOptions


class QuantilesJob(
    ShareOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """How values are distributed: median and other quantiles."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["quantiles"] = "quantiles"
    value: v.Column | None = option("Column of the values, whose quantiles are shown.")
    lower: v.Exact | None = option("Smaller values count as this value.")
    upper: v.Exact | None = option("Larger values count as this value.")
    cells: v.Positive | None = option("Number of cells of equal width from lower to upper.")
    edges: v.Numbers | None = option("Edges of the cells, in place of cells: 0,15,60,180.")
    line: v.Text | None = option(
        "How cells are measured: auto, identity, haar, hierarchy or optimal. [default: auto]"
    )
    summary: ClassVar = "How values are distributed: median and other quantiles."
    also_called: ClassVar = ("median", "quantile", "percentile", "percentiles")
    example: ClassVar = {"value": "seconds", "lower": "0", "upper": "600", "cells": "60"}
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("value",)

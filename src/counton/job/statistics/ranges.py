"""Options of a line of cells."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import IntervalOptions
from counton.job.statistics.declared_cells import DeclaredCellsJob


class RangesJob(IntervalOptions, DeclaredCellsJob):
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
    needs: ClassVar = ("label", "groups")

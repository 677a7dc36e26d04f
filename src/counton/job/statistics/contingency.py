"""Options of a contingency table."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.option_fields import STREAM, option
from counton.job.statistics.declared_cells import DeclaredCellsJob


class ContingencyJob(DeclaredCellsJob):
    """How many rows have each combination of some columns' values, with all margins."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["contingency"] = "contingency"
    columns: v.Names | None = option("Columns that the statistic reads, in this order: A,B.")
    equal: bool = option("Give every margin the same accuracy.", default=False)
    summary: ClassVar = (
        "How many rows have each combination of some columns' values, with all margins."
    )
    also_called: ClassVar = ("crosstab", "table")
    example: ClassVar = {"columns": "page,device", "groups": "page=home,shop;device=phone,desk"}
    needs: ClassVar = ("columns", "groups")

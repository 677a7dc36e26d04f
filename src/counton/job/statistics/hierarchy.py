"""Options of a hierarchy."""

from __future__ import annotations

from typing import ClassVar, Literal

from counton.job import values as v
from counton.job.option_fields import STREAM, option
from counton.job.statistics.declared_cells import DeclaredCellsJob


class HierarchyJob(DeclaredCellsJob):
    """How many rows each place of a hierarchy has, such as region and city; counts add up."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["hierarchy"] = "hierarchy"
    levels: v.Names | None = option("Columns of the levels, coarsest first: A,B,C.")
    target: v.NumbersByName | None = option(
        "Noise standard deviation of each level: LEVEL=STD,... With epsilon or rho, their ratios."
    )
    summary: ClassVar = (
        "How many rows each place of a hierarchy has, such as region and city; counts add up."
    )
    example: ClassVar = {"levels": "page", "groups": "pages.csv"}
    example_file: ClassVar = ("pages.csv", "page\nhome\nshop\n")
    needs: ClassVar = ("levels", "groups")

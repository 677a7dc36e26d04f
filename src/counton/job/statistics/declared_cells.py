"""What the options of hierarchies, contingency tables and ranges have in common."""

from __future__ import annotations

from typing import ClassVar

from counton.job.common_options import (
    DeclaredGroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserRowOptions,
)
from counton.job.option_fields import STREAM
from counton.job.shown_numbers import OverOptions
from counton.job.statistic_options import CountColumnOptions, ReplaceOptions


class DeclaredCellsJob(
    CountColumnOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    DeclaredGroupOptions,
    UserRowOptions,
    Job,
):
    """A job that counts rows in cells, which ``groups`` declares.

    No statistic has this model itself: those that count rows in cells derive theirs from it.
    """

    heading = "Statistic"
    scope = STREAM
    may_be_single_table: ClassVar = True

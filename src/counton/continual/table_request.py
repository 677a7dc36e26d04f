"""Requests for rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class TableRequest(NamedTuple):
    """The rows of a table that somebody asks for, by names and groups; None stands for all.

    Attributes:
        ask: names of numbers.
        groups: names of groups.
        running_totals: whether a line of cells has its running totals besides the cells.
    """

    ask: Sequence[Any] | None = None
    groups: Sequence[str] | None = None
    running_totals: bool = True


#: All rows.
EVERY_ROW = TableRequest()

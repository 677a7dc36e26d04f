"""Requests for rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class TableRequest(NamedTuple):
    """The rows of a table that somebody asks for, by names and groups; None stands for all."""

    ask: Sequence[Any] | None = None
    groups: Sequence[str] | None = None


#: All rows.
EVERY_ROW = TableRequest()

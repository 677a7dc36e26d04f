"""What a screen shows of a release: words, tables of the last step, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from counton.columns import TextTable, readable

#: Groups, or rows, on a screen at most.
MOST = 20


class Screen(NamedTuple):
    """What a screen shows of the last step.

    Attributes:
        words: names, and beside each what it says.
        heading: above the tables.
        tables: of the last step.
        left_out: what only a file has, of these tables; "": nothing.
        notes: below all.

    >>> Screen(heading="after step 2").tables
    ()
    """

    words: Sequence[tuple[str, str]] = ()
    heading: str = ""
    tables: Sequence[TextTable] = ()
    left_out: str = ""
    notes: Sequence[str] = ()


def largest_rows(table: pl.DataFrame) -> tuple[TextTable, str]:
    """The rows with the largest estimates, and what is left out."""
    most = table
    if table.height > MOST and "estimate" in table.columns:
        most = table.sort("estimate", descending=True, maintain_order=True)
    columns: Mapping[str, Sequence[Any]] = most.head(MOST).to_dict(as_series=False)
    rows = [*zip(*readable(columns), strict=True)]
    left_out = f"the {MOST} largest of {table.height:,} rows" if table.height > MOST else ""
    return TextTable([(n, kind.is_numeric()) for n, kind in table.schema.items()], rows), left_out

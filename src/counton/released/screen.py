"""What a screen shows of a release: words, tables of the last step, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from counton.base.columns import TextTable, readable

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


def text_table(table: pl.DataFrame) -> TextTable:
    """All rows as people read them; of moments that are all midnights the day says enough."""
    columns: Mapping[str, Sequence[Any]] = table.to_dict(as_series=False)
    texts = [
        [text.removesuffix(" 00:00") for text in column] if _are_days(columns[name]) else column
        for name, column in zip(columns, readable(columns), strict=True)
    ]
    names = [(name, kind.is_numeric()) for name, kind in table.schema.items()]
    return TextTable(names, [*zip(*texts, strict=True)])


def _are_days(values: Sequence[object]) -> bool:
    return all(isinstance(value, datetime) and not value.hour | value.minute for value in values)


def largest_rows(table: pl.DataFrame) -> tuple[TextTable, str]:
    """The rows with the largest estimates, and what is left out.

    Of a report they are the largest of each statistic, in the order in which these stand.
    """
    if table.height <= MOST:
        return text_table(table), ""
    if "statistic" in table.columns:
        rank = pl.col("estimate").rank("ordinal", descending=True).over("statistic")
        places = pl.int_range(pl.len()).sort_by(rank, maintain_order=True, nulls_last=True)
        most = table[table.select(places.head(MOST).sort()).to_series()]
        return text_table(most), f"{MOST} of {table.height:,} rows, the largest of each statistic"
    if "estimate" in table.columns:
        table = table.sort("estimate", descending=True, maintain_order=True)
    return text_table(table.head(MOST)), f"the {MOST} largest of {table.height:,} rows"

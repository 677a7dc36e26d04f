"""What a website prints of a release is short and plain, and its numbers are those in full."""

import re
from typing import Any

import polars as pl

from counton.base.exact import quantity
from counton.results.released_table import last_rows

#: Words that nobody outside the field knows.
_TERMS = re.compile(
    r"neighbour|\bsteps?\b|\bcells?\b|strateg|windows?\b|discrete|laplace|gaussian|\brho\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def check_short_methods(released: Any) -> None:
    """Five sentences or so, no terms, numbers as in the table and in the whole account."""
    text = released.methods()
    full = released.methods(full=True)
    address = re.search(r"https://\S+(?=\.)", text)
    assert address is not None
    told = text.replace(address[0], "")
    sentences = re.split(r"(?<=\.) (?=[A-Z])", told)
    assert 4 <= len(sentences) <= 7, text
    assert "\n" not in text
    besides = "".join(one for one in sentences if one.startswith("The intervals do not include: "))
    assert len(text.split()) - len(besides.split()) < 200
    assert not _TERMS.search(text), text
    numbers = released.numbers
    definition = released.numbers.metadata
    if definition.windows.timed:
        span = definition.windows.span_text(released.steps)
        assert told.count(span) == 1
        told = told.replace(span, "")
    assert {*_NUMBER.findall(told)} <= {*_NUMBER.findall(full)}, (text, full)
    said = next(one for one in sentences if one.startswith("With "))
    assert f"{100 * numbers.level:g}% confidence for each number" in said
    rows = last_rows(numbers)
    series = rows.partition_by("series") if "series" in rows.columns else [rows]
    for part in series:
        estimate = pl.col("estimate")
        far = part.select(pl.max_horizontal(estimate - pl.col("lower"), pl.col("upper") - estimate))
        most = float(max(far.to_series().drop_nulls()))
        assert re.search(rf"\b{re.escape(quantity(most, most))}(?!\d|,\d|\.\d)", said), (
            said,
            most,
        )

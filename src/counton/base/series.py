"""The series of numbers that a stream releases, as options name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

#: A series: running totals, the number of each window, both, totals since a period began, sums of
#: the last windows, or sums in which older windows count less.
Series: TypeAlias = Literal[
    "cumulative", "per-window", "both", "period-to-date", "rolling", "decayed"
]
#: Series that plans rank strategies for.
PlannedSeries: TypeAlias = Literal["cumulative", "per-window", "both"]
#: What strategies release for each series: a period's totals are differences of totals.
RELEASE_FORMS: Mapping[str, Literal["totals", "windows", "both"]] = {
    "cumulative": "totals",
    "per-window": "windows",
    "both": "both",
    "period-to-date": "totals",
}
#: Series beside which sums of the last windows may be released, too.
WITH_LAST: tuple[Series, ...] = ("rolling", "cumulative", "both")

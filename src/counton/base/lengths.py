"""Lengths of time as text: "1d", "12h", "2w", "1mo"."""

from __future__ import annotations

import math
import re
from typing import Final

#: Form of a length: a whole number above 0 and a unit.
LENGTH: Final = re.compile(r"([1-9]\d{0,8})(s|m|h|d|w|mo)")
#: Largest delay of a row of users or with an id, in days after the end of the last released window.
LATE_DAYS = 35
#: Names of common lengths.
PERIODS: Final = {
    "1h": "hour",
    "1d": "day",
    "1w": "week",
    "1mo": "month",
    "3mo": "quarter",
    "12mo": "year",
}
#: Approximate days of each unit.
_DAYS = {"s": 1 / 86_400, "m": 1 / 1440, "h": 1 / 24, "d": 1, "w": 7, "mo": 31}


def days_in(length: str) -> float:
    """Return the approximate number of days in a length such as "2w"; a month counts as 31.

    >>> days_in("2w"), days_in("12h")
    (14, 0.5)
    """
    number = length.rstrip("smhdwo")
    return int(number) * _DAYS[length.removeprefix(number)]


def has_same_length(length: str, other: str) -> bool:
    """Return whether two lengths are equal; no number of days is as long as months.

    >>> has_same_length("24h", "1d"), has_same_length("31d", "1mo")
    (True, False)
    """
    in_months = length.endswith("mo"), other.endswith("mo")
    return len(set(in_months)) == 1 and math.isclose(days_in(length), days_in(other))

"""Lengths of time as text: "1d", "12h", "2w", "1mo"."""

from __future__ import annotations

import math
import re
from fractions import Fraction
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
#: Seconds of each unit; a month is only compared with months.
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 1}


def days_in(length: str) -> float:
    """Return the approximate number of days in a length such as "2w"; a month counts as 31.

    >>> days_in("2w"), days_in("12h")
    (14, 0.5)
    """
    number = length.rstrip("smhdwo")
    return int(number) * _DAYS[length.removeprefix(number)]


def windows_in(length: str, every: str) -> Fraction | None:
    """Return how many windows of a length another length has; None: of months and days.

    >>> windows_in("28d", "1w"), windows_in("36h", "1d"), windows_in("1mo", "1d")
    (Fraction(4, 1), Fraction(3, 2), None)
    """
    sizes = []
    for text in (length, every):
        match = LENGTH.fullmatch(text)
        assert match is not None  # options have lengths
        sizes.append((int(match[1]), match[2]))
    (number, unit), (number_of_window, unit_of_window) = sizes
    if (unit == "mo") != (unit_of_window == "mo"):
        return None
    return Fraction(number * _SECONDS[unit], number_of_window * _SECONDS[unit_of_window])


def length_of_windows(n_windows: int, every: str) -> str:
    """Return the length of several windows.

    >>> length_of_windows(7, "1d"), length_of_windows(4, "15m")
    ('7d', '60m')
    """
    number = every.rstrip("smhdwo")
    return f"{n_windows * int(number)}{every.removeprefix(number)}"


def has_same_length(length: str, other: str) -> bool:
    """Return whether two lengths are equal; no number of days is as long as months.

    >>> has_same_length("24h", "1d"), has_same_length("31d", "1mo")
    (True, False)
    """
    in_months = length.endswith("mo"), other.endswith("mo")
    return len(set(in_months)) == 1 and math.isclose(days_in(length), days_in(other))

"""Lengths of time as text: "1d", "12h", "2w", "1mo"."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final, NamedTuple

#: Form of a length: a whole number above 0 and a unit.
_FORM: Final = re.compile(r"([1-9]\d{0,8})(s|m|h|d|w|mo)")
#: A row of users, or with an id, is too old if its period, or its UTC day, ended at least so many
#: days before the end of the last released window.
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
#: Seconds of the units that do not depend on the calendar.
_CLOCK_SECONDS = {"s": 1, "m": 60, "h": 3600}
#: Seconds of each unit; a month is only compared with months.
_SECONDS = {**_CLOCK_SECONDS, "d": 86_400, "w": 604_800, "mo": 1}


class Length(NamedTuple):
    """A length of time: a number of seconds, minutes, hours, days, weeks or months.

    Attributes:
        number: how many units.
        unit: ``s``, ``m``, ``h``, ``d``, ``w`` or ``mo``.

    >>> Length.of("12h"), str(Length(2, "w"))
    (Length(number=12, unit='h'), '2w')
    """

    number: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> Length | None:
        """Return the length that a text states; None for another text.

        Args:
            text: such as "12h".
        """
        match = _FORM.fullmatch(text)
        return None if match is None else cls(int(match[1]), match[2])

    @classmethod
    def of(cls, text: str) -> Length:
        """Return the length that a checked text states.

        Args:
            text: such as "12h".
        """
        length = cls.parse(text)
        assert length is not None, text
        return length

    @property
    def fixed_us(self) -> int | None:
        """Microseconds of a length of seconds, minutes or hours; None if the calendar decides."""
        if self.unit not in _CLOCK_SECONDS:
            return None
        return self.number * _CLOCK_SECONDS[self.unit] * 1_000_000

    @property
    def nominal_us(self) -> int:
        """Microseconds of a length without months, if each day has 24 hours."""
        assert self.unit != "mo"
        return self.number * _SECONDS[self.unit] * 1_000_000

    @property
    def days(self) -> float:
        """Approximate number of days; a month counts as 31.

        >>> Length.of("2w").days, Length.of("12h").days
        (14, 0.5)
        """
        return self.number * _DAYS[self.unit]

    def __str__(self) -> str:
        return f"{self.number}{self.unit}"

    def times(self, n_windows: int) -> Length:
        """Return the length of several windows of this length.

        Args:
            n_windows: number of windows.

        >>> str(Length.of("15m").times(4))
        '60m'
        """
        return self._replace(number=n_windows * self.number)


def example_lookback(every: str) -> str:
    """Return an example of how much a file of the last windows covers: a week, or three windows.

    >>> [example_lookback(every) for every in ("1h", "1d", "1w", "1mo")]
    ['7d', '7d', '3w', '3mo']
    """
    window = Length.of(every)
    return "7d" if window.days <= 1 else str(window.times(3))


def example_release_delay(every: str) -> str:
    """Return an example of how long a window waits for its rows.

    >>> [example_release_delay(every) for every in ("1m", "1h", "1d", "1w", "1mo")]
    ['1m', '15m', '2h', '1d', '3d']
    """
    days = Length.of(every).days
    delays = {28: "3d", 7: "1d", 1: "2h", 1 / 24: "15m"}
    return next((delay for least, delay in delays.items() if days >= least), "1m")


def days_in(length: str) -> float:
    """Return the approximate number of days in a length such as "2w"; a month counts as 31."""
    return Length.of(length).days


def windows_in(length: str, every: str) -> Fraction | None:
    """Return how many windows of a length another length has; None: of months and days.

    >>> windows_in("28d", "1w"), windows_in("36h", "1d"), windows_in("1mo", "1d")
    (Fraction(4, 1), Fraction(3, 2), None)
    """
    whole = Length.of(length)
    window = Length.of(every)
    if (whole.unit == "mo") != (window.unit == "mo"):
        return None
    return Fraction(whole.number * _SECONDS[whole.unit], window.number * _SECONDS[window.unit])


def length_of_windows(n_windows: int, every: str) -> str:
    """Return the length of several windows.

    >>> length_of_windows(7, "1d"), length_of_windows(4, "15m")
    ('7d', '60m')
    """
    return str(Length.of(every).times(n_windows))


def has_same_length(length: str, other: str) -> bool:
    """Return whether two lengths are equal; no number of days is as long as months.

    >>> has_same_length("24h", "1d"), has_same_length("31d", "1mo")
    (True, False)
    """
    in_months = length.endswith("mo"), other.endswith("mo")
    return len(set(in_months)) == 1 and math.isclose(days_in(length), days_in(other))

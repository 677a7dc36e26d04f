"""Dates in words: days, months and weekdays of texts, charts and messages."""

from __future__ import annotations

from datetime import date, datetime

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def month_name(moment: date, *, long: bool = False) -> str:
    """Return the name of a date's month, such as "Mar" or "March"."""
    name = _MONTHS[moment.month - 1]
    return name if long else name[:3]


def weekday_name(moment: date) -> str:
    """Return the name of a date's day of the week, such as "Fri"."""
    return _WEEKDAYS[moment.weekday()]


def day_in_words(moment: date, *, year: bool = False, long: bool = False) -> str:
    """Return day and month of a date, and on request the year.

    >>> friday = date(2024, 3, 29)
    >>> day_in_words(friday), day_in_words(friday, year=True, long=True)
    ('29 Mar', '29 March 2024')
    """
    day = f"{moment.day} {month_name(moment, long=long)}"
    return f"{day} {moment.year}" if year else day


def day_and_time(moment: datetime, *, long: bool = False) -> str:
    """Return day, month, year and time of a moment."""
    return f"{day_in_words(moment, year=True, long=long)}, {moment:%H:%M}"

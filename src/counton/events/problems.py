"""Why a row of events cannot be counted, and what to do about it."""

from __future__ import annotations

from enum import IntEnum

from counton.errors import field


class Problem(IntEnum):
    """What is wrong with a row; of several, the first is named.

    >>> Problem.NO_GROUP.words
    'no group'
    """

    NONE = 0
    NO_TIME = 1
    UNREADABLE_TIME = 2
    CLOCK_CHANGE = 3
    NO_GROUP = 4
    NO_VALUE = 5
    NOT_FINITE = 6

    @property
    def words(self) -> str:
        """What the row has."""
        return _WORDS[self]

    def remedy(self, timezone: str) -> str:
        """What to do.

        Args:
            timezone: in which times without an offset are read.
        """
        return _REMEDIES[self].replace("TIMEZONE", timezone)


_WORDS = {
    Problem.NONE: "no problem",
    Problem.NO_TIME: "no time",
    Problem.UNREADABLE_TIME: "a time that cannot be read",
    Problem.CLOCK_CHANGE: "a local time that the clocks skip or pass twice",
    Problem.NO_GROUP: "no group",
    Problem.NO_VALUE: "no value",
    Problem.NOT_FINITE: "a value that is not a finite number",
}
_REMEDIES = {
    Problem.NONE: "count it",
    Problem.NO_TIME: "remove such rows, or choose a time column that is always filled",
    Problem.UNREADABLE_TIME: (
        "write ISO 8601, as in 2013-01-01T05:00Z, or state the time format "
        f"({field('time_format')})"
    ),
    Problem.CLOCK_CHANGE: (
        "write times with a UTC offset; of a time that comes twice in TIMEZONE you may also "
        f"choose one ({field('clock_change')})"
    ),
    Problem.NO_GROUP: (
        f"give the row a group, or leave out rows without ({field('unknown', 'drop')})"
    ),
    Problem.NO_VALUE: "remove such rows, or fill the value",
    Problem.NOT_FINITE: "write a finite number",
}

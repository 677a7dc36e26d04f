"""What is wrong with a row that cannot be counted, and what to do."""

from __future__ import annotations

from enum import IntEnum

from counton.base.errors import field


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
    NO_USER = 7
    NO_ID = 8
    NO_FLAG = 9
    NO_COUNT = 10
    UNREADABLE_ROW = 11

    @property
    def words(self) -> str:
        """What the row has."""
        return _WORDS[self]

    def remedy(self, timezone: str) -> str:
        """What to do."""
        return _REMEDIES[self].replace("TIMEZONE", timezone)


_WORDS = {
    Problem.NONE: "no problem",
    Problem.NO_TIME: "no time",
    Problem.UNREADABLE_TIME: "a time that cannot be read",
    Problem.CLOCK_CHANGE: "a local time that the clocks skip or pass twice",
    Problem.NO_GROUP: "no group",
    Problem.NO_VALUE: "no value",
    Problem.NOT_FINITE: "a value that is not a finite number",
    Problem.NO_USER: "no user",
    Problem.NO_ID: "no id",
    Problem.NO_FLAG: "neither true nor false",
    Problem.NO_COUNT: "no whole number from 0 to 2^32",
    Problem.UNREADABLE_ROW: "a line that cannot be read",
}

_REMEDIES = {
    Problem.NONE: "count it",
    Problem.NO_TIME: (
        f"remove such rows, leave them out ({field('missing', 'skip')}), or choose a time column "
        f"that is always filled"
    ),
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
    Problem.NO_VALUE: (
        f"remove such rows, leave them out ({field('missing', 'skip')}), or fill the value"
    ),
    Problem.NOT_FINITE: (
        f"write a finite number, or nothing and leave such rows out ({field('missing', 'skip')})"
    ),
    Problem.NO_USER: (
        f"say whose event it is, remove such rows, or leave them out ({field('missing', 'skip')})"
    ),
    Problem.NO_ID: (
        f"give each row an id of its own, remove those without, or leave them out "
        f"({field('missing', 'skip')})"
    ),
    Problem.NO_FLAG: "write true or false, 1 or 0, yes or no",
    Problem.NO_COUNT: "write how often the row counts, or split the row",
    Problem.UNREADABLE_ROW: "write it anew",
}

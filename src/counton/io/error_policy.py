"""Policies for rows that cannot be counted: refuse them, set them aside, or leave them out.

By default the first bad row ends the run, so that one row decides whether there is a release. With
a policy the run goes on; what happens to a row depends on that row alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, Literal, NamedTuple

from counton.base.atomic_file import replace_file
from counton.base.errors import InvalidInputError, param


class Problem(IntEnum):
    """The reason why a row cannot be counted.

    Of several problems one counts: time or an unreadable row first, then group, user and id, then
    the values in their order.

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
    NO_COUNT = 10
    UNREADABLE_ROW = 11

    @property
    def words(self) -> str:
        """The problem in words."""
        return _WORDS[self]

    def remedy(self, timezone: str) -> str:
        """Return words on the remedy."""
        return _REMEDIES[self].replace("TIMEZONE", timezone)


_WORDS = {
    Problem.NONE: "no problem",
    Problem.NO_TIME: "no time",
    Problem.UNREADABLE_TIME: "a time that cannot be read",
    Problem.CLOCK_CHANGE: ("a local time that a clock change skips or repeats"),
    Problem.NO_GROUP: "no group",
    Problem.NO_VALUE: "no value",
    Problem.NOT_FINITE: "a value that is not a finite number",
    Problem.NO_USER: "no user",
    Problem.NO_ID: "no id",
    Problem.NO_COUNT: "a count that is not written in digits alone",
    Problem.UNREADABLE_ROW: "a line that cannot be read",
}

_REMEDIES = {
    Problem.NONE: "count it",
    Problem.NO_TIME: (
        f"remove such rows, leave them out ({param('missing_values', 'drop')}), or choose a time "
        "column that is always filled"
    ),
    Problem.UNREADABLE_TIME: (
        f"write ISO 8601, as in 2013-01-01T05:00Z, or give {param('time_format')}"
    ),
    Problem.CLOCK_CHANGE: (
        "write times with a UTC offset; for a time that comes twice in TIMEZONE you may also "
        f"choose the earlier or the later ({param('ambiguous')})"
    ),
    Problem.NO_GROUP: (
        "give the row a group, remove such rows, or leave them out "
        f"({param('missing_values', 'drop')})"
    ),
    Problem.NO_VALUE: (
        f"remove such rows, leave them out ({param('missing_values', 'drop')}), or fill the value"
    ),
    Problem.NOT_FINITE: (
        "write a finite number, or nothing and leave such rows out "
        f"({param('missing_values', 'drop')})"
    ),
    Problem.NO_USER: (
        "name the user of each event, remove such rows, or leave them out "
        f"({param('missing_values', 'drop')})"
    ),
    Problem.NO_ID: (
        f"give each row an id of its own, remove those without, or leave them out "
        f"({param('missing_values', 'drop')})"
    ),
    Problem.NO_COUNT: "write how often the row counts, as in 1000, or split the row",
    Problem.UNREADABLE_ROW: "write it anew",
}


Missing = Literal["fail", "drop"]
#: Default for the largest number of rows set aside. More suggest a wrong option or file.
DEFAULT_MOST_BAD_ROWS: Final = 1000


class Policies(NamedTuple):
    """Policies for rows that cannot be counted.

    Attributes:
        quarantine: file for unreadable rows; None: they are refused.
        most: largest number of rows of one run in it.
        missing: "drop" rows, or "fail" at rows that lack a time, user, group, value or id.
        is_most_stated: whether the job states ``most``. Else a run is refused if more than half of
            its rows are unreadable, too.

    >>> Policies(Path("bad.csv"), 10).unread, Policies().unread
    (10, 0)
    """

    quarantine: Path | None = None
    most: int = DEFAULT_MOST_BAD_ROWS
    missing: Missing = "fail"
    is_most_stated: bool = False

    @property
    def unread(self) -> int:
        """Largest number of unreadable lines that a run accepts."""
        return 0 if self.quarantine is None else self.most


def set_aside(file: Path, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a new CSV file that only its owner can read.

    A row has the name of its file, its number there, its problem, and its values.
    """
    if file.is_symlink():
        raise _not_written(file, "it is a symbolic link")

    def write(name: str) -> None:
        with open(name, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(aside_header(columns))
            writer.writerows(rows)

    try:
        # The file is new, so a reader or a link of the old one sees none of these rows.
        replace_file(file, write, 0o600)
    except OSError as error:
        raise _not_written(file, error.strerror) from error


def aside_header(columns: Iterable[str]) -> list[str]:
    """Return the columns: file, number and problem, renamed if the events have them, then the
    events'.

    >>> aside_header(["time", "row"])
    ['file', 'counton row', 'problem', 'time', 'row']
    """
    columns = list(columns)
    added = [f"counton {name}" if name in columns else name for name in ("file", "row", "problem")]
    return [*added, *columns]


def _not_written(file: Path, why: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"{param('bad_rows', f'quarantine:{file}')} cannot be written ({why}); give a file that "
        "belongs to you, in a folder that exists"
    )

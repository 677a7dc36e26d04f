"""Refusals of inputs from which rows are probably missing.

A release is final, so an export with a hole would become final zeros. These refusals depend on the
rows of an input. They are visible, and `docs/promised.md` lists them.

- The job states which windows an input covers, and one that is due has no row in any group.
  ``quiet`` says how many such windows in a row are usual.
- An open window keeps less than half of the rows that the last input had of it.
- All rows that were counted before are missing, although the input should hold them: it has other
  days, or their ids or the names of their users were given anew.

Inputs of new rows (``append``) cover no window, so nothing is missing from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.errors import InvalidInput, field
from counton.frame.windows import Windows
from counton.job.job import Job
from counton.rows.row_reading import Columns

#: Number of windows without a row, one after the other, at which a run stops.
QUIET = 3
#: The same if a job states which windows its input covers: then each such window may be a hole.
QUIET_IF_COVERED = 1
#: Largest number of periods, or of windows, that a message names.
_NAMED = 5


class KeptRows(NamedTuple):
    """How many rows an input keeps of an open window. Exact: for the operator.

    Attributes:
        window: number of the window.
        before: number of rows by the last input that counted.
        now: number of rows by this input.
    """

    window: int
    before: int
    now: int


def quiet_limit(job: Job) -> int:
    """Return the number of windows without a row, one after the other, at which a run stops.

    Args:
        job: the job, which may state it (``quiet``).
    """
    if job.times.quiet is not None:
        return job.times.quiet
    return QUIET if job.rows.covers is None else QUIET_IF_COVERED


def empty_stretches(covered: range, windows_with_rows: ArrayLike) -> list[range]:
    """Return the stretches of consecutive windows without a row.

    Args:
        covered: windows of which an input holds all rows.
        windows_with_rows: numbers of the windows that have a row.

    >>> empty_stretches(range(1, 9), [2, 3, 6, 11])
    [range(1, 2), range(4, 6), range(7, 9)]
    """
    every = np.arange(covered.start, covered.stop, dtype=np.int64)
    empty: NDArray[np.int64] = np.setdiff1d(every, np.asarray(windows_with_rows, np.int64))
    if not len(empty):
        return []
    breaks = np.flatnonzero(np.diff(empty) > 1) + 1
    return [range(int(part[0]), int(part[-1]) + 1) for part in np.split(empty, breaks)]


def refuse_empty_windows(
    job: Job,
    windows: Windows,
    source_name: str,
    windows_with_rows: ArrayLike,
    covered: range,
    due: range,
) -> None:
    """Refuse to release windows without a row, unless the job says that they are usual.

    Args:
        job: the job; ``yes`` permits all such windows, ``quiet`` shorter stretches of them.
        windows: windows of the stream.
        source_name: name of the input, for the message.
        windows_with_rows: numbers of the windows that have a row, in any group.
        covered: windows of which the input holds all rows; the last one is due.
        due: windows that this run releases.

    Raises:
        InvalidInput: a window that is due lies in a stretch of ``quiet`` or more windows without a
            row.
    """
    if job.times.yes or not due:
        return
    limit = max(quiet_limit(job), 1)
    empty = [
        range(max(stretch.start, due.start), stretch.stop)
        for stretch in empty_stretches(covered, windows_with_rows)
        if len(stretch) >= limit and stretch.stop > due.start
    ]
    if not empty:
        return
    count = sum(map(len, empty))
    named = _join([windows.span(stretch) for stretch in empty[:_NAMED]], len(empty))
    raise InvalidInput(
        f"{source_name} has no row of {named}, and this run would "
        f"release {count:,} window{'s' * (count > 1)} without rows. Add the rows if they are "
        f"missing. If nothing happened then, give {field('yes', True)} for this run. If such "
        f"windows are usual, give {field('quiet')} for every run, chosen without looking at these "
        "rows: the run stops at so many windows in a row without rows"
    )


def refuse_shrunk_windows(
    job: Job, windows: Windows, source_name: str, open_windows: Sequence[KeptRows]
) -> None:
    """Refuse to replace the rows of an open window by less than half as many.

    Args:
        job: the job; ``yes`` permits it.
        windows: windows of the stream.
        source_name: name of the input, for the message.
        open_windows: the open windows that this run replaces.

    Raises:
        InvalidInput: an open window keeps less than half of its rows.
    """
    shrunk = [rows for rows in open_windows if 2 * rows.now < rows.before]
    if job.times.yes or not shrunk:
        return
    named = []
    for rows in shrunk[:_NAMED]:
        span = windows.span(range(rows.window, rows.window + 1))
        named.append(f"{span} ({rows.now:,}, before {rows.before:,})")
    raise InvalidInput(
        f"{source_name} has less than half of the rows that the last input had of "
        f"{_join(named, len(shrunk))}, and this run would replace them. Add the rows if they are "
        f"missing. If they were removed on purpose, give {field('yes', True)} for this run"
    )


def refuse_other_names(job: Job, source_name: str, columns: Columns) -> None:
    """Refuse an input in which every id or user's row that was counted before is missing.

    Rows under other ids would count a second time, which the guarantee does not cover. So ``yes``
    does not permit it.

    Args:
        job: the job; ``yes`` permits that all rows of users are missing.
        source_name: name of the input, for the message.
        columns: columns of the stream, which has ids or users.

    Raises:
        InvalidInput: the job does not permit it.
    """
    if columns.id is not None:
        raise InvalidInput(
            f"{source_name} has none of the ids that were counted before. If each export gives "
            f"other ids ({field('id', columns.id)}), its rows would count again: begin a stream of "
            f"another {field('name')} with ids that stay. If all rows are new, give "
            f"{field('append', True)}"
        )
    if not job.times.yes:
        raise InvalidInput(
            f"{source_name} has none of the rows that were counted before. If each export gives "
            f"users other names ({field('user', columns.user)}), their rows would count again: "
            f"give names that stay. If all these rows were removed on purpose, give "
            f"{field('yes', True)} for this run"
        )


def refuse_other_rows(job: Job, source_name: str) -> None:
    """Refuse an input of all rows that has no row of the windows that were released before.

    Args:
        job: the job; ``yes`` permits it.
        source_name: name of the input, for the message.

    Raises:
        InvalidInput: the job does not permit it.
    """
    if not job.times.yes:
        raise InvalidInput(
            f"{source_name} has none of the rows that were counted before, and it should have all "
            f"rows since {field('start')}. If it has those of the last days, say of how many "
            f"({field('covers', '7d')}). If all earlier rows were removed on purpose, give "
            f"{field('yes', True)} for this run"
        )


def _join(named: Sequence[str], count: int) -> str:
    """Join names with commas; ``count`` is the number of all, of which only some are named."""
    if count > len(named):
        return f"{', '.join(named)} and {count - len(named):,} more"
    return ", ".join(named)

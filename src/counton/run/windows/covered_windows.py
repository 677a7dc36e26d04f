"""Which windows the input of a run covers: which of them it describes in full.

The covered windows depend on the job, the clock and the released step, never on rows: otherwise a
row alone in a window would wipe out the others. What an input covers follows from what it holds:

- A snapshot holds all rows up to now, or with ``lookback`` those of the last days; the result of a
  query with ``{since}`` those of windows that may change. `StreamSpec.takes_whole_windows`: these
  rows replace what was seen before in the covered windows that are not final. Else rows of users
  are chosen, and a row counts if it was not counted before, in whatever window it is.
- New rows, and rows with ids, replace nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counton.base.errors import InvalidInputError, param
from counton.run.spec.terms import RunOptions
from counton.run.windows.due_windows import EndedWindows
from counton.windowing.windows import Windows


def covered_windows(
    windows: Windows,
    options: RunOptions,
    released: int,
    ended: EndedWindows,
) -> range:
    """Return the numbers of the windows of which a snapshot holds all rows.

    Args:
        released: number of windows released before.
        ended: the windows that have ended.

    Raises:
        InvalidInputError: a window would be released that is not covered.
    """
    lookback = options.input.lookback
    if lookback is None:
        first = 1 if options.input.repeats_rows else max(released + 1 - windows.n_revisions, 1)
        return range(first, ended.last + 1)
    # Windows that the release delay holds back count: the file has their rows in place of earlier
    # ones.
    last = windows.ended_by(ended.until + options.release_delay)
    windows_within = windows.windows_in_last(lookback, max(last, released))
    covered = range(windows_within.start, min(windows_within.stop, max(ended.last, released) + 1))
    if ended.last <= released or covered.start <= released + 1:
        return covered
    longer = windows.length_text(last - released)
    begin = windows.format_moment(int(windows.ends(range(released, released + 1))[0]))
    end = windows.format_moment(int(windows.ends(range(covered.start - 1, covered.start))[0]))
    raise InvalidInputError(
        f"{param('lookback')} reaches back to {end}, but the first window that is not "
        f"released yet begins at {begin}. That window would be released without its rows. For this "
        f"run alone, set {param('lookback', longer)}. If the input lacks rows, add the rows from "
        f"{begin} to {end}"
    )


def empty_stretches(covered: range, windows_with_rows: ArrayLike) -> list[range]:
    """Return the stretches of consecutive windows without a row.

    Args:
        covered: windows of which an input holds all rows.
        windows_with_rows: numbers of the windows that have a row.

    >>> empty_stretches(range(1, 9), [2, 3, 6, 11])
    [range(1, 2), range(4, 6), range(7, 9)]
    """
    numbers = np.asarray(windows_with_rows, np.int64)
    within = numbers[(numbers >= covered.start) & (numbers < covered.stop)]
    # A window with rows is assumed before the first and after the last, where a stretch may end.
    has_rows = np.ones(len(covered) + 2, bool)
    has_rows[1:-1] = False
    has_rows[within - covered.start + 1] = True
    edges = np.flatnonzero(has_rows[1:] != has_rows[:-1]) + covered.start
    return list(map(range, edges[::2].tolist(), edges[1::2].tolist()))

"""Which windows a run releases, and which of them a snapshot covers.

The clock decides, or a stated time, so that the number of steps does not depend on rows. Only
``until=newest`` lets the newest row decide. Rows may stop a run, because a file seems to be
missing, but never choose what is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from counton.base.errors import HorizonExceeded, InvalidInput
from counton.base.errors import field as option_name
from counton.frame.windows import Windows, microseconds, moment
from counton.runs.terms import NewRows, RowsWithIds, RunOptions, Snapshot

#: A stream that ended longer ago holds data of the past, so that the clock does not decide.
_PAST = timedelta(days=31)
_LATEST = microseconds(datetime(9999, 12, 31, tzinfo=UTC))


@dataclass(frozen=True)
class RowTimes:
    """What the times of the rows say about missing nights, and for ``until=newest``.

    Attributes:
        newest: time of the newest row, in microseconds since 1970; None without rows.
        newest_within: that of the newest row neither after the last window nor in the future.
        any_beyond: whether a row is after the last window.
        any_rows: whether the input has a row.
    """

    newest: int | None
    newest_within: int | None
    any_beyond: bool
    any_rows: bool

    def windows_since_newest(self, windows: Windows, span_end: int, released: int) -> int:
        """Return how many windows up to ``span_end`` were not released and have no row.

        Rows that count nowhere are looked at, too.
        """
        newest = 0
        if self.newest_within is not None:
            newest = int(windows.step_of(np.array([self.newest_within]))[0])
        return max(0, span_end - max(newest, released))


class EndedWindows(NamedTuple):
    """The windows that have ended: the number of the last one, and the time by which it ended."""

    last: int
    until: int


def ended_windows(
    windows: Windows,
    run: RunOptions,
    times: RowTimes,
    released: int,
    now: datetime,
    *,
    allows_empty_windows: bool,
) -> EndedWindows:
    """Return the windows that a run has released when it is done.

    Args:
        released: number of windows released before.
        now: the current time.
        allows_empty_windows: whether any number of windows without a row is released.

    Raises:
        InvalidInput: the stated time is in the future or before the first window ends; the stream
            is of the past; or more windows than ``quiet`` have no row.
        HorizonExceeded: the stated time is after the last window.
    """
    if released >= windows.steps or run.until == "end":
        return EndedWindows(windows.steps, windows.end)
    if run.until == "newest":
        until = _time_of_newest_row(windows, run, times, now)
        return EndedWindows(windows.ended_by(until), until)
    until = _stated_time(windows, run, now, allows_empty_windows) - run.release_delay
    begin = microseconds(windows.start)
    if until <= begin:
        held_back = until + run.release_delay > begin
        waits = run.until in ("clock", "now") and (run.release_delay > 0 or allows_empty_windows)
        if held_back or waits:
            return EndedWindows(0, until)
        raise InvalidInput(
            f"no window has ended by {windows.at(until)}; the first begins at "
            f"{windows.at(windows.start)}: run later, or correct {option_name('start')}"
        )
    ended = EndedWindows(windows.ended_by(until), until)
    if not allows_empty_windows:
        _refuse_empty_windows(windows, run, times, released, ended.last)
    return ended


def _stated_time(
    windows: Windows, run: RunOptions, now: datetime, allows_empty_windows: bool
) -> int:
    """Return the time that the clock or the job states, at most that of the last release."""
    last_release = windows.end + run.release_delay
    if isinstance(run.until, datetime):
        until = microseconds(run.until)
        if until > microseconds(now):
            raise InvalidInput(
                f"{option_name('until', run.until)} lies in the future, so rows would be missing; "
                "give a time in the past"
            )
        if until > last_release:
            raise HorizonExceeded(
                f"{option_name('until', run.until)} is after the last window of the stream; give "
                f"{windows.at(min(last_release, _LATEST))}, and another stream for later rows"
            )
        return until
    if run.until == "clock" and now - moment(windows.end) > _PAST and not allows_empty_windows:
        raise InvalidInput(
            f"the last window ended at {windows.at(windows.end)}, so the data are of the past; "
            f"give {option_name('until')}, the time up to which they are complete"
        )
    return min(microseconds(now), last_release)


def _time_of_newest_row(windows: Windows, run: RunOptions, times: RowTimes, now: datetime) -> int:
    """Return the time of the newest row, less the watermark, if it may decide."""
    newest = times.newest
    until = option_name("until")
    if newest is None:
        raise InvalidInput(
            f"there are no rows, so none tells which windows have ended; give {until}"
        )
    if times.any_beyond:
        raise HorizonExceeded(f"the newest row is after the last window; give {until}")
    if newest > microseconds(now):
        raise InvalidInput(f"the newest row lies in the future; correct it, or give {until}")
    return newest - run.release_delay


def _refuse_empty_windows(
    windows: Windows, run: RunOptions, times: RowTimes, released: int, ended: int
) -> None:
    """Refuse to release windows if too many of them have no row: a file may be missing.

    The window of the newest row counts too. A file of new rows has none of released windows.
    """
    newest = 0 if times.newest_within is None else windows.ended_by(times.newest_within)
    new_and_empty = ended - max(newest, released)
    takes_new_rows = not _repeats_released_rows(run)
    empty = new_and_empty if takes_new_rows else ended - newest
    is_empty_snapshot = isinstance(run.input, Snapshot) and not times.any_rows
    if new_and_empty <= 0 or (empty <= run.max_empty_windows and not is_empty_snapshot):
        return
    last = "there is no row"
    if times.newest_within is not None:
        verb = "windows have" if empty > 1 else "window has"
        last = (
            f"the newest row is of {windows.to_the_minute(times.newest_within)}: {empty:,} {verb} "
            f"ended since, more than {run.max_empty_windows:,}"
        )
    raise InvalidInput(
        f"{new_and_empty:,} window{'s' * (new_and_empty > 1)} would be released, but {last}. If a "
        f"file is missing, add it. If nothing happened, give {option_name('yes', True)} for this "
        f"run, or {option_name('quiet')} for every run"
    )


def _repeats_released_rows(run: RunOptions) -> bool:
    """Return whether an input has the rows of released windows, too."""
    match run.input:
        case Snapshot():
            return True
        case NewRows():
            return False
        case RowsWithIds():
            return not run.input.only_new_rows


def covered_windows(
    windows: Windows,
    run: RunOptions,
    released: int,
    ended: EndedWindows,
    *,
    repeats_all_rows: bool,
) -> range:
    """Return the numbers of the windows of which a snapshot holds all rows.

    They depend on the job, the clock and the released step, never on rows: otherwise a row alone in
    a window would wipe out the others.

    Args:
        released: number of windows released before.
        ended: the windows that have ended.
        repeats_all_rows: whether the input has the rows of all released windows.

    Raises:
        InvalidInput: a window would be released that is not covered.
    """
    covers = run.input.covers if isinstance(run.input, Snapshot) else None
    if covers is None:
        first = 1 if repeats_all_rows else max(released + 1 - windows.lags, 1)
        return range(first, ended.last + 1)
    # Windows that the release delay holds back count: the file has their rows in place of earlier
    # ones.
    last = windows.ended_by(ended.until + run.release_delay)
    within = windows.within(covers, max(last, released))
    covered = range(within.start, min(within.stop, max(ended.last, released) + 1))
    if ended.last <= released or covered.start <= released + 1:
        return covered
    begin = windows.at(int(windows.ends(range(released, released + 1))[0]))
    end = windows.at(int(windows.ends(range(covered.start - 1, covered.start))[0]))
    raise InvalidInput(
        f"{option_name('covers', covers)} reaches back to {end}, but the first window that is not "
        f"released yet begins at {begin}, so windows would be released without their rows: give "
        f"also the rows from {begin} to {end}, and a longer {option_name('covers')} for this run"
    )

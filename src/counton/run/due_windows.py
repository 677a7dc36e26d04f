"""Which windows a run releases, and which of them a snapshot covers.

The clock decides, or a stated time, so that the number of steps does not depend on rows. Only
``until=latest-event`` lets the newest row decide. Rows may stop a run, because a file seems to be
missing, but never choose what is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counton.base.errors import HorizonExceededError, InvalidInputError, param
from counton.run.terms import RunOptions, Snapshot
from counton.windowing.windows import Windows, microseconds, moment

#: A stream that ended longer ago holds data of the past, so that the clock does not decide.
_PAST = timedelta(days=31)
_LATEST = microseconds(datetime(9999, 12, 31, tzinfo=UTC))


@dataclass(frozen=True)
class RowTimes:
    """What the times of the rows say about missing nights, and for ``until=latest-event``.

    Attributes:
        newest: time of the newest row, in microseconds since 1970; None without rows.
        newest_within: that of the newest row neither after the last window nor in the future.
        any_beyond: whether a row is after the last window.
        any_rows: whether the input has a row.
        more_follow: whether more rows will follow in further runs, so that there may be none yet.
        windows_with_rows: numbers of the windows that have a row, in order. Rows that count
            nowhere, such as those of undeclared groups, are rows, too.
    """

    newest: int | None
    newest_within: int | None
    any_beyond: bool
    any_rows: bool
    more_follow: bool = False
    windows_with_rows: ArrayLike = ()

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
    options: RunOptions,
    times: RowTimes,
    released: int,
    now: datetime,
    *,
    is_new_stream: bool,
    allows_missing_rows: bool,
) -> EndedWindows:
    """Return the windows that a run has released when it is done.

    Args:
        released: number of windows released before.
        now: the current time.
        is_new_stream: whether the run begins the stream.
        allows_missing_rows: whether any number of windows without a row is released.

    Raises:
        InvalidInputError: the stated time is in the future or before the first window begins; the
            stream is of the past; or too many windows have ended since the newest row.
        HorizonExceededError: the stated time, or the newest row, is after the last window.
    """
    if released >= windows.steps or options.until == "end":
        return EndedWindows(windows.steps, windows.end)
    begin = microseconds(windows.start)
    if times.more_follow and (times.newest is None or times.newest < begin):
        return EndedWindows(0, begin)
    if options.until == "latest-event":
        until = _time_of_newest_row(windows, options, times, now, is_new_stream=is_new_stream)
        return EndedWindows(windows.ended_by(until), until)
    stated = _stated_time(windows, options, times, now, allows_missing_rows=allows_missing_rows)
    until = stated - options.release_delay
    if until <= begin:
        _refuse_long_before(windows, options, stated)
        return EndedWindows(0, until)
    ended = EndedWindows(windows.ended_by(until), until)
    if not allows_missing_rows:
        _refuse_empty_windows(windows, options, times, released, ended.last)
    return ended


def _stated_time(
    windows: Windows,
    options: RunOptions,
    times: RowTimes,
    now: datetime,
    *,
    allows_missing_rows: bool,
) -> int:
    """Return the time that the clock or the job states, at most that of the last release."""
    last_release = windows.end + options.release_delay
    if not isinstance(options.until, datetime):
        is_past = now - moment(windows.end) > _PAST
        if options.until == "clock" and is_past and not allows_missing_rows:
            raise _data_of_the_past(windows, options, times)
        return min(microseconds(now), last_release)
    until = microseconds(options.until)
    stated = param("until", windows.at(until))
    if until > microseconds(now):
        raise InvalidInputError(
            f"{stated} lies in the future, so rows would be missing. Give a time in the past"
        )
    if until > last_release:
        last = windows.at(min(last_release, _LATEST))
        raise HorizonExceededError(
            f"{stated} is after the last window of the stream, {windows.steps:,}, which is "
            f"released at {last}. Give {param('until', last)} for the rest of this stream. "
            "Begin another stream for later rows"
        )
    return until


def _data_of_the_past(windows: Windows, options: RunOptions, times: RowTimes) -> InvalidInputError:
    """Build the error for a stream that ended long ago, so that the clock says nothing."""
    last = windows.at(min(windows.end + options.release_delay, _LATEST))
    stated = param("until", last)
    newest = 0 if times.newest_within is None else windows.ended_by(times.newest_within)
    if windows.steps - newest > 1 + options.max_empty_windows:
        stated += f" with {param('allow_empty_windows', True)}"
    return InvalidInputError(
        f"The last window ended at {windows.at(windows.end)}, so the clock does not tell up to "
        f"which time the data are complete. Give that time, at most {stated}; or "
        f"{param('until', 'latest-event')}, which publishes the window of the newest row. "
        f"If the stream should still run, correct {param('start')}, {param('every')} "
        f"or {param('windows')}"
    )


def _refuse_long_before(windows: Windows, options: RunOptions, stated: int) -> None:
    """Refuse a stated time that is more than a window before the first one begins.

    A scheduled run may come before its first window begins.
    """
    begin = microseconds(windows.start)
    first_window = int(windows.ends(range(1, 2))[0]) - begin
    if not isinstance(options.until, datetime) or stated > begin - first_window:
        return
    raise InvalidInputError(
        f"{param('until', windows.at(stated))} is not after {windows.at(windows.start)}, "
        f"when the first window begins. Give a later time, or correct {param('start')}"
    )


def _time_of_newest_row(
    windows: Windows, options: RunOptions, times: RowTimes, now: datetime, *, is_new_stream: bool
) -> int:
    """Return the time of the newest row, less the release delay, if it may decide."""
    newest = times.newest
    until = param("until")
    if newest is None:
        raise InvalidInputError(
            f"There are no rows, so none tells which windows have ended. Give {until}, or add rows"
        )
    shown = windows.to_the_minute(newest)
    if times.any_beyond:
        last = windows.at(min(windows.end + options.release_delay, _LATEST))
        raise HorizonExceededError(
            f"The newest row ({shown}) is after the last window of the stream, {windows.steps:,}, "
            f"which ends at {windows.at(windows.end)}. Give {param('until', last)} for the "
            "rest of this stream. Begin another stream for later rows"
        )
    if newest > microseconds(now):
        raise InvalidInputError(
            f"The newest row ({shown}) lies in the future. Correct it, or give {until}"
        )
    if is_new_stream and newest < microseconds(windows.start):
        raise InvalidInputError(
            f"The newest row ({shown}) is before {windows.at(windows.start)}, when the first "
            f"window begins. Correct {param('start')} or the rows"
        )
    return newest - options.release_delay


def _refuse_empty_windows(
    windows: Windows, options: RunOptions, times: RowTimes, released: int, ended: int
) -> None:
    """Refuse to release windows if too many of them have no row: a file may be missing.

    The window of the newest row counts too. A file of new rows has none of released windows.
    """
    newest = 0 if times.newest_within is None else windows.ended_by(times.newest_within)
    new_and_empty = ended - max(newest, released)
    empty = ended - newest if options.repeats_rows else new_and_empty
    is_empty_snapshot = isinstance(options.input, Snapshot) and not times.any_rows
    if new_and_empty <= 0 or (empty <= 1 + options.max_empty_windows and not is_empty_snapshot):
        return
    last = "there is no row"
    newest_window = 0
    if times.newest_within is not None:
        if times.newest_within >= microseconds(windows.start):
            newest_window = newest + 1
        verb = "windows have" if empty > 1 else "window has"
        last = (
            f"the newest row is of {windows.to_the_minute(times.newest_within)}: {empty:,} {verb} "
            f"ended since, more than {1 + options.max_empty_windows:,}"
        )
    without_rows = range(max(newest_window, released) + 1, ended + 1)
    named = f" {windows.span(without_rows)} would have no row." if without_rows else ""
    past = ""
    if not isinstance(options.input, Snapshot) or options.input.lookback is None:
        past = (
            f" If the data are of the past, give {param('until', 'latest-event')}, which "
            "shows the time of the newest row."
        )
    stated = f"without {param('until')}, this run"
    if isinstance(options.until, datetime):
        stated = param("until", windows.at(options.until))
    elif options.until == "now":
        stated = param("until", "now")
    raise InvalidInputError(
        f"{stated} would release {new_and_empty:,} window{'s' * (new_and_empty > 1)}, but {last}."
        f"{named} If a file is missing, add it.{past} If nothing happened, give "
        f"{param('allow_empty_windows', True)} for this run, or a larger "
        f"{param('max_empty_windows')} for every run"
    )


def covered_windows(
    windows: Windows,
    options: RunOptions,
    released: int,
    ended: EndedWindows,
) -> range:
    """Return the numbers of the windows of which a snapshot holds all rows.

    They depend on the job, the clock and the released step, never on rows: otherwise a row alone in
    a window would wipe out the others.

    Args:
        released: number of windows released before.
        ended: the windows that have ended.

    Raises:
        InvalidInputError: a window would be released that is not covered.
    """
    covers = options.input.lookback if isinstance(options.input, Snapshot) else None
    if covers is None:
        first = 1 if options.repeats_rows else max(released + 1 - windows.lags, 1)
        return range(first, ended.last + 1)
    # Windows that the release delay holds back count: the file has their rows in place of earlier
    # ones.
    last = windows.ended_by(ended.until + options.release_delay)
    within = windows.within(covers, max(last, released))
    covered = range(within.start, min(within.stop, max(ended.last, released) + 1))
    if ended.last <= released or covered.start <= released + 1:
        return covered
    begin = windows.at(int(windows.ends(range(released, released + 1))[0]))
    end = windows.at(int(windows.ends(range(covered.start - 1, covered.start))[0]))
    raise InvalidInputError(
        f"{param('lookback', covers)} reaches back to {end}, but the first window that is "
        f"not released yet begins at {begin}, so windows would be released without their rows: "
        f"give also the rows from {begin} to {end}, and a longer {param('lookback')} for "
        "this run"
    )

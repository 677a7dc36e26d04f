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
from counton.base.exact import name_alone, with_capital
from counton.base.wording import counted
from counton.run.spec.terms import RunOptions, Snapshot
from counton.windowing.windows import Windows, microseconds, moment

#: A stream that ended longer ago holds data of the past, so that the clock does not decide.
_PAST_AGE = timedelta(days=31)
_LATEST = microseconds(datetime(9999, 12, 31, tzinfo=UTC))


@name_alone
class FutureRows(NamedTuple):
    """The rows of windows that have not begun yet, whose times may be wrong. Exact.

    Attributes:
        number: number of these rows.
        newest: time of the newest one, in microseconds since 1970.
    """

    number: int
    newest: int


@dataclass(frozen=True)
class RowTimes:
    """What the times of the rows say about missing windows, and for ``until=latest-event``.

    Attributes:
        newest: time of the newest row, in microseconds since 1970; None without rows.
        newest_within: that of the newest row neither after the last window nor in the future.
        any_beyond: whether a row is after the last window.
        any_rows: whether the input has a row.
        why_none_counts: why the first row cannot be counted, if no row can; else None.
        more_follow: whether more rows will follow in further runs, so that there may be none yet.
        windows_with_rows: numbers of the windows that have a row, in order. Rows that count
            nowhere, such as those of undeclared groups, are rows, too.
        future: rows of windows that have not begun yet; None if there are none.
    """

    newest: int | None
    newest_within: int | None
    any_beyond: bool
    any_rows: bool
    more_follow: bool = False
    windows_with_rows: ArrayLike = ()
    why_none_counts: str | None = None
    future: FutureRows | None = None

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


@dataclass(frozen=True)
class ReleaseClock:
    """What decides which windows a run releases.

    Attributes:
        options: the stated time, and the release delay.
        times: what the times of the rows say.
        released: number of windows released before.
        now: the current time.
        is_new_stream: whether the run begins the stream.
        last_waiting: last window with rows that earlier files held and no window has counted yet;
            0 if there is none, or if the input repeats such rows.
    """

    windows: Windows
    options: RunOptions
    times: RowTimes
    released: int
    now: datetime
    is_new_stream: bool
    last_waiting: int = 0

    def ended_windows(self, *, allows_missing_rows: bool) -> EndedWindows:
        """Return the windows that a run has released when it is done.

        Args:
            allows_missing_rows: whether any number of windows without a row is released.

        Raises:
            InvalidInputError: the stated time is in the future or before the first window begins;
                the stream is of the past; or too many windows have ended since the newest row.
            HorizonExceededError: the stated time, or the newest row, is after the last window.
        """
        windows = self.windows
        if self.released >= windows.steps or self.options.until == "end":
            return EndedWindows(windows.steps, windows.end)
        if self._may_begin_later:
            return EndedWindows(0, self._begin)
        if self.options.until == "latest-event":
            until = self._time_of_newest_row() - self.options.release_delay
            return EndedWindows(windows.ended_by(until), until)
        time = self._stated_time()
        if time is None:
            time = self._time_of_clock(allows_missing_rows=allows_missing_rows)
        until = time - self.options.release_delay
        if until <= self._begin:
            return EndedWindows(0, until)
        ended = EndedWindows(windows.ended_by(until), until)
        if not allows_missing_rows:
            self._refuse_empty_windows(ended.last)
        return ended

    # --------------------------------------------------------------------------- moments of windows
    @property
    def _begin(self) -> int:
        """The moment at which the first window begins."""
        return microseconds(self.windows.start)

    @property
    def _last_release(self) -> int:
        """The moment at which the last window is released."""
        return self.windows.end + self.options.release_delay

    @property
    def _last_release_in_words(self) -> str:
        return self.windows.format_moment(min(self._last_release, _LATEST))

    @property
    def _may_begin_later(self) -> bool:
        """Whether no row lies in a window yet, and more rows follow in further runs."""
        newest = self.times.newest
        return self.times.more_follow and (newest is None or newest < self._begin)

    @property
    def _window_of_newest(self) -> int:
        """The window of the input's newest row; 0 without such a row."""
        newest = self.times.newest_within
        if newest is None:
            return 0
        return max(0, int(self.windows.step_of(np.array([newest]))[0]))

    @property
    def _last_window_with_rows(self) -> int:
        """The last window with a row, of the input or of earlier files; 0 if there is none."""
        return max(self._window_of_newest, self.last_waiting)

    # ------------------------------------------------------------------------------ what states it
    def _stated_time(self) -> int | None:
        """Return the time that the job states; None if it leaves it to the clock."""
        if not isinstance(self.options.until, datetime):
            return None
        until = microseconds(self.options.until)
        until_option = param("until", self.windows.format_moment(until))
        if until > microseconds(self.now):
            raise InvalidInputError(
                f"{until_option} lies in the future, so rows would be missing. "
                "Give a time in the past"
            )
        if until > self._last_release:
            last = self._last_release_in_words
            raise HorizonExceededError(
                f"{until_option} is after the last window of the stream, {self.windows.steps:,}, "
                f"which is released at {last}. Give {param('until', last)} for the rest of this "
                "stream. Begin another stream for later rows"
            )
        return until

    def _time_of_clock(self, *, allows_missing_rows: bool) -> int:
        """Return the current time, at most that of the last release."""
        is_past = self.now - moment(self.windows.end) > _PAST_AGE
        if self.options.until == "clock" and is_past and not allows_missing_rows:
            raise self._data_of_the_past()
        return min(microseconds(self.now), self._last_release)

    def _data_of_the_past(self) -> InvalidInputError:
        """Build the error for a stream that ended long ago, so that the clock says nothing."""
        remedy = param("until", self._last_release_in_words)
        if self.windows.steps - self._last_window_with_rows > self.options.max_empty_windows:
            remedy += f" with {param('allow_empty_windows', True)}"
        return InvalidInputError(
            f"The last window ended at {self.windows.format_moment(self.windows.end)}, so the "
            "clock does not tell up to which time the data are complete. State that time, at most "
            f"{remedy}. Or give {param('until', 'latest-event')}, which makes the time of the "
            "newest row public"
        )

    def _time_of_newest_row(self) -> int:
        """Return the time of the newest row, if it may decide."""
        windows = self.windows
        newest = self.times.newest
        if newest is None and self.times.why_none_counts is not None:
            raise InvalidInputError(
                "No row can be counted, so none tells which windows have ended. "
                f"{with_capital(self.times.why_none_counts)}"
            )
        if newest is None:
            raise InvalidInputError(
                "There are no rows, so none tells which windows have ended. Give "
                f"{param('until')}, or add rows"
            )
        shown = windows.to_the_minute(newest)
        if self.times.any_beyond:
            raise HorizonExceededError(
                f"The newest row ({shown}) is after the last window of the stream, "
                f"{windows.steps:,}, which ends at {windows.format_moment(windows.end)}. Give "
                f"{param('until', self._last_release_in_words)} for the rest of this stream. "
                "Begin another stream for later rows"
            )
        if newest > microseconds(self.now):
            raise InvalidInputError(
                f"The newest row ({shown}) lies in the future. Correct it, or give {param('until')}"
            )
        if self.is_new_stream and newest < self._begin:
            raise InvalidInputError(
                f"The newest row ({shown}) is before {windows.format_moment(windows.start)}, when "
                f"the first window begins. Correct {param('start')} or the rows"
            )
        return newest

    # ------------------------------------------------------------------------------------- refusals
    def _refuse_empty_windows(self, ended: int) -> None:
        """Refuse to release windows if too many of them have no row: a file may be missing.

        A file of new rows has none of released windows, so only the new windows are looked at.
        """
        last_with_rows = self._last_window_with_rows
        new_and_empty = ended - max(last_with_rows, self.released)
        empty = ended - last_with_rows if self.options.input.repeats_rows else new_and_empty
        is_empty_snapshot = isinstance(self.options.input, Snapshot) and not self.times.any_rows
        is_usual = empty <= self.options.max_empty_windows and not is_empty_snapshot
        if new_and_empty <= 0 or is_usual:
            return
        due = counted(ended - self.released, "window")
        raise InvalidInputError(
            f"{self._stated_in_words()} would release {due}, but "
            f"{self._newest_row_in_words()}.{self._empty_windows_in_words(ended)} Add missing "
            f"files{self._remedy_for_the_past()}. If nothing happened, give "
            f"{param('allow_empty_windows', True)} for this run, or a larger "
            f"{param('max_empty_windows')}"
        )

    def _stated_in_words(self) -> str:
        if isinstance(self.options.until, datetime):
            return param("until", self.windows.format_moment(self.options.until))
        if self.options.until == "now":
            return param("until", "now")
        return f"without {param('until')}, this run"

    def _newest_row_in_words(self) -> str:
        if self.last_waiting > self._window_of_newest:
            newest = range(self.last_waiting, self.last_waiting + 1)
            return f"the newest rows are of {self.windows.span_text(newest)}"
        newest_within = self.times.newest_within
        if newest_within is None:
            has_more_rows = self.options.input.has_only_new_rows and not self.is_new_stream
            return "there is no new row" if has_more_rows else "there is no row"
        return f"the newest readable row is of {self.windows.to_the_minute(newest_within)}"

    def _empty_windows_in_words(self, ended: int) -> str:
        """Return a sentence that names the windows without a row."""
        without_rows = range(max(self._last_window_with_rows, self.released) + 1, ended + 1)
        return f" {self.windows.span_text(without_rows)} would have no row."

    def _remedy_for_the_past(self) -> str:
        """Return words that name other times, if one of them releases a window."""
        number = self._window_of_newest
        repeats_rows = self.options.input.repeats_rows
        if self.options.input.lookback is not None or (
            number <= self.released and not repeats_rows
        ):
            return ""
        newest = param("until", "latest-event")
        end = self._end_of_window(number) if number > self.released else None
        if end is None:
            return f", or give {newest} for data of the past"
        complete = param("until", self.windows.option_text(end))
        return f", or give {complete} (complete file) or {newest} (older data)"

    def _end_of_window(self, number: int) -> int | None:
        """Return when a window is released; None if that is in the future."""
        end = int(self.windows.ends(range(number, number + 1))[0]) + self.options.release_delay
        return end if end <= microseconds(self.now) else None

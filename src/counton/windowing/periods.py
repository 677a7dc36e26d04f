"""Periods of the calendar: days, weeks and months that consist of windows.

A sum of a period is the difference of two released totals, or the sum of the windows' counts, so
that all periods add up to the same total. Users may count again in each period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, param
from counton.base.lengths import Length
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows, first_moment, load_zone, microseconds, moment

#: Smallest number of days in each unit of a period, which bounds the number of periods.
_FEWEST_DAYS = {"d": 1, "w": 7, "mo": 28}
#: Largest number of units of a period.
_MOST_UNITS = 999
#: A day and ten years in microseconds.
_DAY = 86_400_000_000
_TEN_YEARS = 3653 * _DAY
#: Most periods of users, and the time after the first window, in which windows are counted. In a
#: hundred years, years begin on each day of the week, leap years as well.
_MOST_PERIODS = 1000
_HUNDRED_YEARS = 36_600 * _DAY
#: The day from which periods are counted, and the number of its month.
_FIRST_DATE = date(1970, 1, 1)
_FIRST_MONTH = 1970 * 12


class Periods(NamedTuple):
    """Consecutive periods of complete windows, which cover the first steps of a stream.

    Attributes:
        edges: the steps that end a period, beginning with 0: shape ``(periods + 1,)``.
        is_complete: for each period, whether the steps cover it; false at most for the first and
            last.
    """

    edges: NDArray[np.int64]
    is_complete: NDArray[np.bool_]

    def table(self, windows: Windows, rows: Sequence[int]) -> pl.DataFrame:
        """Return the window columns of all periods and is_complete, each row ``rows`` times."""
        first = self.edges[:-1]
        last = self.edges[1:]
        ends = windows.ends(range(int(self.edges[-1]) + 1))  # from the stream's beginning
        table = pl.DataFrame(
            {
                "window_start": windows.local_times(ends[first]),
                "window_end": windows.local_times(ends[last]),
                "first_window": first + 1,
                "last_window": last,
                "is_complete": self.is_complete,
            }
        )
        return table[np.repeat(np.arange(len(first)), rows)]


def periods_of(windows: Windows, every: str, steps: int) -> Periods:
    """Return the periods that contain the first ``steps`` windows, by the local calendar.

    The first period may begin before the first window. Days begin at midnight, weeks on Monday,
    months on the first. Periods of several days or weeks are counted from the day or week of the
    first window, periods of several months from a January.

    Raises:
        InvalidInputError: ``every`` is not a length of time, or a period begins inside a window.

    >>> from datetime import UTC
    >>> windows = Windows(datetime(2024, 2, 28, 12, tzinfo=UTC), "12h", 60)
    >>> periods_of(windows, "1mo", 8).edges.tolist(), periods_of(windows, "1d", 6).edges.tolist()
    ([0, 3, 8], [0, 1, 3, 5, 6])
    >>> periods_of(windows, "1d", 5).is_complete.tolist()
    [False, True, True]
    """
    length = _parse_period(every)
    zone = load_zone(windows.timezone)
    first = microseconds(windows.start)
    last = int(windows.ends(range(steps, steps + 1))[0])
    day = windows.start.astimezone(zone).date()
    if length.unit == "w":
        day -= timedelta(days=day.weekday())
    if length.unit == "mo":
        months = (day.year * 12 + day.month - 1) // length.number * length.number
        day = day.replace(year=months // 12, month=months % 12 + 1, day=1)
    begin = datetime.combine(day, time(), zone)
    most = (moment(last) - begin).days // (_FEWEST_DAYS[length.unit] * length.number) + 2
    begins = Windows(begin, every, most, windows.timezone).starts(range(1, most + 2))
    inner = begins[(begins > first) & (begins < last)]
    before = windows.step_of(inner) - 1  # windows that have ended when a period begins
    windows_begin = windows.starts(range(1, steps + 1))[before]
    wrong = np.flatnonzero(windows_begin != inner)
    if len(wrong):
        inside, window = (windows.format_moment(int(us[wrong[0]])) for us in (inner, windows_begin))
        raise InvalidInputError(
            f"{param('sums', every)} cannot be used, because one of its periods begins at "
            f"{inside}, inside the window of {windows.every} that begins at {window}; choose "
            "periods that consist of whole windows"
        )
    is_complete = np.ones(len(inner) + 1, dtype=np.bool_)
    is_complete[0] = first in begins
    is_complete[-1] &= last in begins
    return Periods(np.concatenate([[0], before, [steps]]).astype(np.int64), is_complete)


def _parse_period(every: str) -> Length:
    """Return the length of periods of days or longer; `InvalidInputError` for another text."""
    length = Length.parse(every)
    if length is None or length.unit not in _FEWEST_DAYS or length.number > _MOST_UNITS:
        raise InvalidInputError(
            f"{param('sums')} has {every!r}, which is not the length of a period; give 1d, 1w, 1mo "
            "or 3mo, with commas between several"
        )
    return length


def refuse_split_windows(windows: Windows, every: str) -> None:
    """Raise `InvalidInputError` if a period of the next ten years does not consist of windows.

    >>> refuse_split_windows(Windows(datetime.fromisoformat("2024-03-01T00:00Z"), "1d", 30), "1w")
    """
    steps = windows.ended_by(microseconds(windows.start) + _TEN_YEARS)
    periods_of(windows, every, max(steps, 1))


def period_of(us: pl.Expr, per: str | None, timezone: str) -> pl.Expr:
    """Return a polars expression for the number of each moment's period.

    Moments are microseconds since 1970-01-01 UTC, which is in period 0. Periods follow the calendar
    of the time zone, or complete hours; None: a single period, 0.

    >>> frame = pl.DataFrame({"us": [4 * 3_600_000_000, 5 * 3_600_000_000]})
    >>> frame.select(period_of(pl.col("us"), "1d", "America/New_York"))["us"].to_list()
    [-1, 0]
    """
    if per is None:
        return us * 0
    length = Length.of(per)
    if length.fixed_us is not None:
        return us // length.fixed_us
    local = pl.from_epoch(us, time_unit="us").dt.replace_time_zone("UTC")
    local = local.dt.convert_time_zone(timezone)
    if length.unit == "mo":
        number = local.dt.year().cast(pl.Int64) * 12 + local.dt.month().cast(pl.Int64) - 1
    else:
        number = local.dt.date().to_physical().cast(pl.Int64)
        if length.unit == "w":
            number = (number + 3) // 7  # 1970 began on a Thursday, weeks begin on Mondays
    return number // length.number


def made_of_windows(windows: Windows, per: str) -> bool:
    """Return True if each window of the next ten years lies within one period of length ``per``.

    >>> from datetime import UTC
    >>> days = Windows(datetime(2024, 2, 28, tzinfo=UTC), "1d", 366)
    >>> made_of_windows(days, "1mo"), made_of_windows(days, "12h")
    (True, False)
    """
    return first_split_window(windows, per) is None


class SplitWindow(NamedTuple):
    """A window in which a period begins; both beginnings in microseconds since 1970."""

    window_begin: int
    period_begin: int


@lru_cache(maxsize=32)  # several checks of a job compare the same windows with the same period
def first_split_window(windows: Windows, per: str) -> SplitWindow | None:
    """Return the first window of the next ten years in which a period of length ``per`` begins.

    None: each window lies within one period.

    >>> from datetime import UTC
    >>> sundays = Windows(datetime(2024, 3, 3, tzinfo=UTC), "1w", 52)
    >>> [sundays.format_moment(begin)[:10] for begin in first_split_window(sundays, "1w")]
    ['2024-03-03', '2024-03-04']
    """
    first = microseconds(windows.start)
    last = int(
        windows.ends(range(1, 1 + min(windows.ended_by(first + _TEN_YEARS), windows.steps)))[-1]
    )
    inner = _period_begins(windows, per, last)
    window_begins = windows.ends(windows.step_of(inner) - 1)
    split = np.flatnonzero(window_begins != inner)
    if not len(split):
        return None
    return SplitWindow(int(window_begins[split[0]]), int(inner[split[0]]))


def most_windows_in(windows: Windows, per: str | None) -> float:
    """Return how many windows overlap a period at most; infinite for None, the whole stream.

    Periods of the first hundred years are looked at, but at most `_MOST_PERIODS`.

    Args:
        windows: the windows of a stream. Those without times are one step.
        per: length of a period; None: the whole stream.

    >>> from datetime import UTC
    >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
    >>> most_windows_in(days, "1w"), most_windows_in(days, "12h"), most_windows_in(days, None)
    (7, 1, inf)
    >>> weeks = Windows(datetime(2025, 1, 6, tzinfo=UTC), "1w", 52)
    >>> most_windows_in(weeks, "1mo")  # June 2025 begins on a Sunday
    6
    """
    if not windows.timed:
        return 1
    return math.inf if per is None else _most_windows_in(windows, per)


@lru_cache(maxsize=32)  # several notes of a release compare the same windows with the same period
def _most_windows_in(windows: Windows, per: str) -> int:
    """Return how many windows overlap a period of length ``per`` at most."""
    first = microseconds(windows.start)
    last = min(windows.end, first + _HUNDRED_YEARS)
    begins = _period_begins(windows, per, last, most=_MOST_PERIODS)
    if last == windows.end and len(begins) < _MOST_PERIODS:
        begins = np.append(begins, windows.end)
    if not len(begins):
        return windows.steps  # the period has no end within a hundred years
    first_windows = windows.step_of(np.append(first, begins[:-1]))
    last_windows = windows.step_of(begins - 1)
    return int((last_windows - first_windows).max()) + 1


def _period_begins(
    windows: Windows, per: str, last: int, *, most: int | None = None
) -> NDArray[np.int64]:
    """Return the moments between the beginning of window 1 and ``last`` at which a period begins.

    Args:
        windows: the windows, which decide the time zone.
        per: length of a period.
        last: the moment, in microseconds since 1970, before which these periods begin.
        most: how many of them to return at most; None: all.
    """
    first = microseconds(windows.start)
    length = Length.of(per)
    if length.fixed_us is not None:
        begin = (first // length.fixed_us + 1) * length.fixed_us
        number = len(range(begin, last, length.fixed_us)[:most])
        return begin + length.fixed_us * np.arange(number, dtype=np.int64)
    zone = load_zone(windows.timezone)
    first_date = windows.local(first).date()
    n_days = min((last - first) // _DAY + 3, (date.max - first_date).days)
    numbers = _numbers_of_days(first_date, n_days, length)
    days = (np.flatnonzero(np.diff(numbers)) + 1)[:most].tolist()
    midnights = [datetime.combine(first_date + timedelta(days=day), time()) for day in days]
    begins = [microseconds(first_moment(midnight, zone)) for midnight in midnights]
    edges = np.array(begins, dtype=np.int64)
    return edges[(edges > first) & (edges < last)]


def period_starts(windows: Windows, period: str | None, last: int) -> NDArray[np.int64]:
    """Return, for each of ``last`` steps, the last step before its period: int64, 0 in the first
    one.

    >>> from counton.windowing.windows import UnwindowedSteps
    >>> period_starts(UnwindowedSteps(), None, 3).tolist()
    [0, 0, 0]
    """
    steps = np.arange(1, last + 1)
    if period is None or not windows.timed:
        return np.zeros(last, np.int64)
    numbers = _numbers(windows.starts(range(1, last + 1)), period, windows.timezone)
    new = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    return new[np.searchsorted(new, steps - 1, "right") - 1].astype(np.int64)


def _numbers_of_days(first: date, days: int, length: Length) -> NDArray[np.int64]:
    """Return the number of the period in which each of some consecutive days lies.

    Periods have the numbers that `period_of` gives the first moments of these days. A zone may skip
    a day; then the day after it has the same first moment.

    Args:
        first: the first day.
        days: number of days.
        length: length of a period, in days, weeks or months.

    >>> _numbers_of_days(date(1970, 1, 4), 3, Length.of("1w")).tolist()
    [0, 1, 1]
    """
    numbers = np.arange(days, dtype=np.int64) + (first - _FIRST_DATE).days
    if length.unit == "mo":
        months = numbers.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        numbers = months + _FIRST_MONTH
    elif length.unit == "w":
        numbers = (numbers + 3) // 7  # 1970 began on a Thursday, weeks begin on Mondays
    return numbers // length.number


def _numbers(us: NDArray[np.int64], per: str, timezone: str) -> NDArray[np.int64]:
    """Return the number of each moment's period; see `period_of`."""
    periods = pl.DataFrame({"us": us}).select(period_of(pl.col("us"), per, timezone))
    return periods["us"].to_numpy().astype(np.int64)

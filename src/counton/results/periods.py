"""Selection of steps by dates, numbers, days, weeks and months.

A period consists of complete windows. Its number is the difference of two released totals, or the
sum of the windows' counts, so that all periods add up to the same total. Nothing more is released;
noise and intervals follow from the releases that are used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, param
from counton.results.metadata import ReleaseMetadata
from counton.results.series import local_times
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows, load_zone, microseconds, moment, parse_time

if TYPE_CHECKING:
    from counton.results.metadata import ReleaseMetadata

_PERIOD = re.compile(r"([1-9]\d{0,2})(d|w|mo)")
#: Smallest number of days in each unit of time, which bounds the number of periods.
_FEWEST_DAYS = {"d": 1, "w": 7, "mo": 28}
_TEN_YEARS = 3653 * 86_400_000_000  # in microseconds


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
                "window_start": local_times(windows, ends[first]),
                "window_end": local_times(windows, ends[last]),
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
    amount, unit = parsed_period(every)
    zone = load_zone(windows.timezone)
    first = microseconds(windows.start)
    last = int(windows.ends(range(steps, steps + 1))[0])
    day = windows.start.astimezone(zone).date()
    if unit == "w":
        day -= timedelta(days=day.weekday())
    if unit == "mo":
        months = (day.year * 12 + day.month - 1) // amount * amount
        day = day.replace(year=months // 12, month=months % 12 + 1, day=1)
    begin = datetime.combine(day, time(), zone)
    most = (moment(last) - begin).days // (_FEWEST_DAYS[unit] * amount) + 2
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


#: An hour and a day in microseconds.
_HOUR = 3_600_000_000
_DAY = 86_400_000_000


def parsed_period(every: str) -> tuple[int, str]:
    """Return the number and the unit of a period's length; `InvalidInputError` for another text.

    >>> parsed_period("3mo")
    (3, 'mo')
    """
    match = _PERIOD.fullmatch(every)
    if match is None:
        raise InvalidInputError(
            f"{param('sums')} has {every!r}, which is not the length of a period; give 1d, 1w, 1mo "
            "or 3mo, with commas between several"
        )
    return int(match[1]), match[2]


def check_sums(metadata: ReleaseMetadata, every: str) -> None:
    """Raise `InvalidInputError` if a release has no windows, or numbers that cannot be added up."""
    obstacle = ""
    if not metadata.windows.is_recurring:
        obstacle = f"a {metadata.what} that is released only once"
    elif metadata.half_life is not None:
        obstacle = "decayed sums, which do not add up"
    elif not metadata.cells.named_beforehand:
        obstacle = (
            "groups that were found in the data, because they are shown from different windows on"
        )
    elif (
        metadata.series == "per-window"
        and not metadata.shows_cells
        and every != metadata.windows.every
    ):
        raise InvalidInputError(
            f"{param('sums', every)} needs totals, but {param('series', 'per-window')} of "
            f"{metadata.what} has the numbers of single windows of {metadata.windows.every}, "
            f"which are not added up: give {param('series', 'cumulative')} to a new stream, or "
            "leave it out"
        )
    if obstacle:
        raise InvalidInputError(f"{param('sums', every)} does not go with {obstacle}; leave it out")


def refuse_users_added(
    metadata: ReleaseMetadata, every: str, edges: NDArray[np.int64], begins: NDArray[np.int64]
) -> None:
    """Raise `InvalidInputError` if a sum of windows would not be a number of distinct users.

    Args:
        metadata: the description of a stream whose users are counted again after some time.
        every: length of the periods that are asked for.
        edges: the steps that end these periods, beginning with 0.
        begins: for each step, the step after which users are counted again.
    """
    again = metadata.users_again
    if again is None or (begins[edges[1:] - 1] == edges[:-1]).all():
        return
    length = metadata.anew_every() or metadata.windows.every
    raise InvalidInputError(
        f"{param('sums', every)} does not give numbers of distinct users, because each counts once "
        f"in each {again}. Give {param('sums', length)}; or ask for a total of some steps, whose "
        "words say that users count several times"
    )


def check_periods(windows: Windows, every: str, delay: int = 0) -> None:
    """Raise `InvalidInputError` if a period in the next ten years does not consist of complete
    windows, or if a delay leaves out a release's own window.

    >>> check_periods(Windows(datetime.fromisoformat("2024-03-01T00:00Z"), "1d", 30), "1w")
    """
    if delay:
        raise InvalidInputError(
            f"{param('sums', every)} does not go with {param('expiration_delay', delay)}, "
            "because a delayed release counts up to an earlier window; leave it out"
        )
    steps = windows.ended_by(microseconds(windows.start) + _TEN_YEARS)
    periods_of(windows, every, max(steps, 1))


#: Lengths of a user's period that do not depend on the calendar, in microseconds.
_LENGTHS = {"s": 1_000_000, "m": 60_000_000, "h": _HOUR}


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
    match = re.fullmatch(r"(\d+)(s|m|h|d|w|mo)", per)
    assert match is not None
    amount = int(match[1])
    unit = match[2]
    if unit in _LENGTHS:
        return us // (amount * _LENGTHS[unit])
    local = pl.from_epoch(us, time_unit="us").dt.replace_time_zone("UTC")
    local = local.dt.convert_time_zone(timezone)
    if unit == "mo":
        number = local.dt.year().cast(pl.Int64) * 12 + local.dt.month().cast(pl.Int64) - 1
    else:
        number = local.dt.date().to_physical().cast(pl.Int64)
        if unit == "w":
            number = (number + 3) // 7  # 1970 began on a Thursday, weeks begin on Mondays
    return number // amount


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
    amount = int(per.rstrip("smhdwo"))
    unit = per.lstrip("0123456789")
    if unit in _LENGTHS:
        length = amount * _LENGTHS[unit]
        edges = np.arange(-(-first // length) * length, last, length)
    else:
        midnight = datetime.combine(
            windows.local(first).date(), time(), load_zone(windows.timezone)
        )
        days = Windows(midnight, "1d", (last - first) // _DAY + 3, windows.timezone)
        begins = days.starts(range(1, days.steps + 1))
        numbers = _numbers(begins, per, windows.timezone)
        edges = begins[1:][np.diff(numbers) != 0]
    inner = edges[(edges > first) & (edges < last)]
    window_begins = windows.ends(windows.step_of(inner) - 1)
    split = np.flatnonzero(window_begins != inner)
    if not len(split):
        return None
    return SplitWindow(int(window_begins[split[0]]), int(inner[split[0]]))


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


def _numbers(us: NDArray[np.int64], per: str, timezone: str) -> NDArray[np.int64]:
    """Return the number of each moment's period; see `period_of`."""
    periods = pl.DataFrame({"us": us}).select(period_of(pl.col("us"), per, timezone))
    return periods["us"].to_numpy().astype(np.int64)


def steps_between(requested: str | range | None, last: int, windows: Windows) -> range:
    """Parse a selection of released steps.

    Args:
        requested: numbers as ``"25:48"`` (both included), ``"25:"``, ``":48"`` or ``"25"``; days as
            ``"2024-03-18:2024-03-24"`` (both included), or one day; a range; None: all.
        last: the last released step.

    Raises:
        InvalidInputError: the text has another form, steps are not released, or no released window
            lies in the times.

    >>> from datetime import UTC
    >>> from counton.windowing.windows import UnwindowedSteps
    >>> hours = Windows(datetime(2024, 3, 18, tzinfo=UTC), "6h", 99)
    >>> days = "2024-03-19:2024-03-20"
    >>> steps_between("2:3", 99, UnwindowedSteps()), steps_between(days, 99, hours)
    (range(2, 4), range(5, 13))
    """
    if requested is None:
        return range(1, last + 1)
    first = 1
    end = last
    if isinstance(requested, range):
        first = requested.start
        end = requested.stop - 1
        wrong = requested.step != 1
    else:
        if windows.timed and (times := _times(requested, windows.timezone)) is not None:
            return _steps_of(windows, range(1, last + 1), times, requested)
        match = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", str(requested))
        wrong = match is None or not (match[1] or match[3])
        if match is not None:
            first = int(match[1] or 1)
            end = int(match[3] or last) if match[2] else first
    if wrong:
        dates = ", or days, as in 2024-03-18:2024-03-24" if windows.timed else ""
        raise InvalidInputError(
            f"{param('windows', requested)} cannot be read as steps; write 25:48 for the steps "
            f"25 to 48 (both included), 25: or :48, or 25 for a single step{dates}"
        )
    if not 1 <= first <= end <= last:
        raise InvalidInputError(
            f"{param('windows', f'{first}:{end}')} is not within the released steps 1:{last}; give "
            "steps among these, the first before the last"
        )
    return range(first, end + 1)


_Times = tuple[int | None, int | None]


def _times(requested: object, timezone: str) -> _Times | None:
    """Parse days or times to two ends in microseconds since 1970-01-01 UTC; None for another text.

    An open end is None.
    """
    text = str(requested).strip()
    if "-" not in text.lstrip("-"):
        return None
    places = [place for place, letter in enumerate(text) if letter == ":"]
    pairs = [(text, text)] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else []
    pairs += [(text[:place], text[place + 1 :]) for place in places]
    for left, right in pairs:
        try:
            start = _moment_of(left, timezone, end=False) if left.strip() else None
            until = _moment_of(right, timezone, end=True) if right.strip() else None
        except InvalidInputError:
            continue
        return start, until
    return None


def _moment_of(text: str, timezone: str, *, end: bool) -> int:
    """Parse a day or a time to microseconds since 1970-01-01 UTC.

    At the ``end`` of a range a day stands for its end.
    """
    text = text.strip()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        if "T" not in text and " " not in text:
            raise InvalidInputError(f"{text!r} is neither a day nor a time; write it as 2024-03-18")
        return microseconds(parse_time(text, timezone))
    parse_time(text, timezone)  # an existing day
    day = date.fromisoformat(text) + timedelta(days=end)
    return microseconds(parse_time(day.isoformat(), timezone))


def groups_named(requested: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Parse groups, separated by commas unless the whole text is a group."""
    if isinstance(requested, str):
        return (
            [requested] if requested in names else [group.strip() for group in requested.split(",")]
        )
    groups = list(requested)
    if not groups or not all(isinstance(group, str) for group in groups):
        raise InvalidInputError(
            f"{param('groups')} is {groups!r}, which is not a group; give a list of texts, or A,B,C"
        )
    return groups


def _steps_of(windows: Windows, steps: range, times: _Times, requested: object) -> range:
    """Return the steps between two times; refuse those ``requested`` if there are none."""
    kept = np.ones(len(steps), dtype=bool)
    if times[0] is not None:
        kept &= windows.starts(steps) >= times[0]
    if times[1] is not None:
        kept &= windows.ends(steps) <= times[1]
    places = np.flatnonzero(kept)
    if not len(places):
        first = windows.starts(steps)[0]
        last = windows.ends(steps)[-1]
        raise InvalidInputError(
            f"no released window lies between the times of {param('windows', requested)}; give "
            f"times between {windows.format_moment(int(first))} and "
            f"{windows.format_moment(int(last))}, when the released windows begin and end"
        )
    return range(steps[int(places[0])], steps[int(places[-1])] + 1)

"""Which steps are meant: dates and numbers in words of people, days, weeks and months.

A period is a run of whole windows. What happened in it is the difference of two released totals, or
the sum of the windows' own numbers; so the sums of all periods, and those of all windows, are the
same total. The cells of other statistics are such sums too: an average of a period is read in the
cells of that period. Nothing more is released: a sum is computed from what is public, and its
noise, and hence its interval, follow from which releases it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.windows import Windows, load_zone, microseconds, moment, parse_time
from counton.released.description import Description
from counton.released.series import local_times

if TYPE_CHECKING:
    from counton.released.description import Description

_PERIOD = re.compile(r"([1-9]\d{0,2})(d|w|mo)")
#: Fewest days of a unit, so that no more periods than these cover some time.
_FEWEST_DAYS = {"d": 1, "w": 7, "mo": 28}
_TEN_YEARS = 3653 * 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Periods:
    """Consecutive periods that cover the first steps of a stream, each of whole windows.

    Attributes:
        every: length: ``1d``, ``1w``, ``1mo``, or several.
        edges: the steps that end a period, from 0 on: shape ``(periods + 1,)``.
        whole: whether the steps cover the period from its beginning to its end; of all but the
            first and the last they do.
    """

    every: str
    edges: NDArray[np.int64]
    whole: NDArray[np.bool_]

    def table(self, windows: Windows, rows: Sequence[int]) -> pl.DataFrame:
        """When each period was, as many times as it has rows.

        Columns: window_start, window_end, first_step, last_step, whole.
        """
        first, last = self.edges[:-1], self.edges[1:]
        ends = windows.ends(range(int(self.edges[-1]) + 1))  # from the stream's beginning
        table = pl.DataFrame(
            {
                "window_start": local_times(windows, ends[first]),
                "window_end": local_times(windows, ends[last]),
                "first_step": first + 1,
                "last_step": last,
                "whole": self.whole,
            }
        )
        return table[np.repeat(np.arange(len(first)), rows)]


def periods_of(windows: Windows, every: str, steps: int) -> Periods:
    """The periods that begin in the first ``steps`` windows, or before them, by the local calendar.

    Days begin at midnight, weeks on Monday, months on the first; several days or weeks are counted
    from that of the first window, several months from a January.

    Raises:
        InvalidInput: no such length, or a period that begins inside a window.

    >>> from datetime import UTC
    >>> windows = Windows(datetime(2024, 2, 28, 12, tzinfo=UTC), "12h", 60)
    >>> periods_of(windows, "1mo", 8).edges.tolist(), periods_of(windows, "1d", 6).edges.tolist()
    ([0, 3, 8], [0, 1, 3, 5, 6])
    >>> periods_of(windows, "1d", 5).whole.tolist(), periods_of(windows, "1d", 6).whole.tolist()
    ([False, True, True], [False, True, True, False])
    """
    amount, unit = parsed_period(every)
    zone = load_zone(windows.timezone)
    first, last = microseconds(windows.start), int(windows.ends(range(steps, steps + 1))[0])
    begin = _begin(windows.start.astimezone(zone), amount, unit)
    most = (moment(last) - begin).days // (_FEWEST_DAYS[unit] * amount) + 2
    begins = Windows(begin, every, most, windows.timezone).starts(range(1, most + 2))
    inner = begins[(begins > first) & (begins < last)]
    before = windows.step_of(inner) - 1  # windows that have ended when a period begins
    windows_begin = windows.starts(range(1, steps + 1))[before]
    wrong = np.flatnonzero(windows_begin != inner)
    if len(wrong):
        inside, window = (windows.at(int(us[wrong[0]])) for us in (inner, windows_begin))
        raise InvalidInput(
            f"{field('sums', every)} has a period that begins at {inside}, inside the window of "
            f"{windows.every} from {window}; choose periods that are made of whole windows"
        )
    whole = np.ones(len(inner) + 1, dtype=np.bool_)
    whole[0] = first in begins
    whole[-1] &= last in begins
    return Periods(every, np.concatenate([[0], before, [steps]]).astype(np.int64), whole)


#: What patterns are by: microseconds, how many there are, and which of them a whole number is.
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
PATTERNS = ("hour", "weekday")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Occurrences(NamedTuple):
    """Whole hours, or whole days, by the local clock: what each is called, and its steps.

    Attributes:
        of: hour of the day from 0, or day of the week from Monday, 0.
        starts: the step before the first of each.
        stops: the last step of each.
    """

    of: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]


def occurrences_of(windows: Windows, by: str, steps: range) -> Occurrences:
    """Each hour of the day, or each day of the week, that some steps cover from end to end.

    Raises:
        InvalidInput: neither, windows that are no parts of it, or steps that cover none.

    >>> from datetime import UTC
    >>> windows = Windows(datetime(2024, 3, 1, 12, tzinfo=UTC), "30m", 999)
    >>> hours = occurrences_of(windows, "hour", range(2, 8))
    >>> hours.of.tolist(), hours.starts.tolist(), hours.stops.tolist()
    ([13, 14], [2, 4], [4, 6])
    """
    if by not in PATTERNS:
        raise InvalidInput(f"{field('by', by)} is no pattern; use {' or '.join(PATTERNS)}")
    hourly = by == "hour"
    length = _HOUR if hourly else _DAY
    starts, ends = windows.starts(steps), windows.ends(steps)
    first, last = (
        local_times(windows, us).dt.replace_time_zone(None).cast(pl.Int64).to_numpy()
        for us in (starts, ends - 1)
    )
    if len(wrong := np.flatnonzero(first // length != last // length)):
        since = windows.at(int(starts[wrong[0]]))
        raise InvalidInput(
            f"{field('by', by)} adds up windows that lie within {'an hour' if hourly else 'a day'},"
            f" and that of {windows.every} from {since} does not"
            + (f": use {PATTERNS[1]}" if hourly else "")
        )
    which = starts - first % length if hourly else first // length  # an hour may come twice
    edges = np.concatenate([[0], np.flatnonzero(np.diff(which)) + 1, [len(which)]])
    begin, end = edges[:-1], edges[1:]
    whole = (first[begin] % length == 0) & ((last[end - 1] + 1) % length == 0)
    if not whole.any():
        raise InvalidInput(
            f"{field('by', by)} needs a whole {'hour' if hourly else 'day'} among the steps, and "
            f"they have none: ask for more of them"
        )
    begin, end = begin[whole], end[whole]
    count = first[begin] // length
    of = count % 24 if hourly else (count + 3) % 7  # 1 January 1970 was a Thursday
    return Occurrences(of, begin + steps.start - 1, end + steps.start - 1)


def parsed_period(every: str) -> tuple[int, str]:
    """How many of which unit a period is long.

    Raises:
        InvalidInput: no such length.

    >>> parsed_period("3mo")
    (3, 'mo')
    """
    match = _PERIOD.fullmatch(every)
    if match is None:
        raise InvalidInput(
            f"{field('sums')} names {every!r}, which is no length of a period; write 1d, 1w, 1mo "
            f"or 3mo, and commas between several"
        )
    return int(match[1]), match[2]


def check_sums(definition: Description, every: str) -> None:
    """Refuse periods where there are no windows, or where releases do not tell them.

    Raises:
        InvalidInput: see above.
    """
    statistic = definition.statistic.inner
    what = ""
    if definition.once:
        what = f"a {definition.what} that is released once"
    elif statistic.on_demand:
        what = f"{type(statistic).__name__}, which computes cells when they are asked for"
    elif definition.discovery is not None:
        what = "groups that nobody declared, which are shown from different windows on"
    if what:
        raise InvalidInput(f"{field('sums', every)} does not go with {what}; leave it out")


def check_periods(windows: Windows, every: str, delay: int = 0) -> None:
    """Refuse periods which some windows of the next ten years are not parts of.

    Raises:
        InvalidInput: as `periods_of`, or a delay: releases then count other windows.

    >>> check_periods(Windows(datetime.fromisoformat("2024-03-01T00:00Z"), "1d", 30), "1w")
    """
    check_delay(field("sums", every), delay)
    steps = windows.ended_by(microseconds(windows.start) + _TEN_YEARS)
    periods_of(windows, every, max(steps, 1))


def check_delay(asked: str, delay: int) -> None:
    """Refuse sums of windows where a release counts up to an earlier one.

    Raises:
        InvalidInput: naming what was asked.
    """
    if delay:
        raise InvalidInput(
            f"{asked} does not go with {field('delay', delay)}, since a release then counts up to "
            f"an earlier window; leave it out"
        )


def _begin(start: datetime, amount: int, unit: str) -> datetime:
    """Beginning of the period in which a local time lies."""
    day = start.date()
    if unit == "w":
        day -= timedelta(days=day.weekday())
    if unit == "mo":
        months = (day.year * 12 + day.month - 1) // amount * amount
        day = day.replace(year=months // 12, month=months % 12 + 1, day=1)
    return datetime.combine(day, time(), start.tzinfo)


#: A time, as it is written or as Python has it.
Moment = str | datetime


def steps_between(given: str | range | None, last: int, windows: Windows | None = None) -> range:
    """The steps asked for, all of them released.

    Args:
        given: ``"25:48"`` for the steps 25 to 48, both included, ``"25:"``, ``":48"`` or ``"25"``;
            by the times of their windows ``"2024-03-18:2024-03-24"``, both days included, or one
            day; a range; None for all.
        last: the last step that is released.
        windows: of the stream; None where steps have no times.

    Raises:
        InvalidInput: neither, steps that are not released, or times without a released window.

    >>> from datetime import UTC
    >>> hours = Windows(datetime(2024, 3, 18, tzinfo=UTC), "6h", 99)
    >>> steps_between("2:3", 99), steps_between("2024-03-19:2024-03-20", 99, hours)
    (range(2, 4), range(5, 13))
    >>> steps_between("2024-03-19T06:00:2024-03-19T18:00", 99, hours)
    range(6, 8)
    """
    if given is None:
        return range(1, last + 1)
    first, end = 1, last
    if isinstance(given, range):
        first, end = given.start, given.stop - 1
        wrong = given.step != 1
    else:
        if windows is not None and (times := _times(given, windows.timezone)) is not None:
            return _steps_of(
                windows, range(1, last + 1), times, f"the times of {field('steps', given)}"
            )
        found = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", str(given))
        wrong = found is None or not (found[1] or found[3])
        if found is not None:
            first = int(found[1] or 1)
            end = int(found[3] or last) if found[2] else first
    if wrong:
        dates = "" if windows is None else ", or days, as in 2024-03-18:2024-03-24"
        raise InvalidInput(
            f"{field('steps', given)} names no steps; write 25:48 for the steps 25 to 48, both "
            f"included, 25: or :48, or 25 for one step{dates}"
        )
    if not 1 <= first <= end <= last:
        raise InvalidInput(
            f"{field('steps', f'{first}:{end}')} is not within the released steps 1:{last}; ask "
            f"for some of them, the first before the last"
        )
    return range(first, end + 1)


_Times = tuple[int | None, int | None]


def _times(given: object, timezone: str) -> _Times | None:
    """The microseconds between which windows lie, where a text says days or times; else None."""
    text = str(given).strip()
    if "-" not in text.lstrip("-"):
        return None
    places = [place for place, letter in enumerate(text) if letter == ":"]
    pairs = [(text, text)] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else []
    pairs += [(text[:place], text[place + 1 :]) for place in places]
    for left, right in pairs:
        try:
            start = _moment_of(left, timezone, end=False) if left.strip() else None
            until = _moment_of(right, timezone, end=True) if right.strip() else None
        except InvalidInput:
            continue
        return start, until
    return None


def _moment_of(text: str, timezone: str, *, end: bool) -> int:
    """A time; of a day that ends a range its end."""
    text = text.strip()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        if "T" not in text and " " not in text:
            raise InvalidInput(f"{text!r} is no day and no time; write 2024-03-18")
        return microseconds(parse_time(text, timezone))
    parse_time(text, timezone)  # a day that there is
    day = date.fromisoformat(text) + timedelta(days=end)
    return microseconds(parse_time(day.isoformat(), timezone))


def groups_named(given: str | Sequence[str], known: Sequence[str]) -> list[str]:
    """The groups asked for; a text lists them with commas, unless a group is called so itself."""
    if isinstance(given, str):
        return [given] if given in known else [group.strip() for group in given.split(",")]
    found = list(given)
    if not found or not all(isinstance(group, str) for group in found):
        raise InvalidInput(
            f"{field('groups')} is {found!r}, which names no group; give a list of texts, or A,B,C"
        )
    return found


def steps_within(
    definition: Description, steps: range, start: Moment | None, until: Moment | None
) -> range:
    """Of these steps, those whose windows lie between two times."""
    windows = definition.windows
    ends = []
    for given in (start, until):
        text = given.isoformat() if isinstance(given, datetime) else given
        us = None if text is None else microseconds(parse_time(text, windows.timezone))
        ends.append(us)
    return _steps_of(windows, steps, (ends[0], ends[1]), f"{field('start')} and {field('until')}")


def _steps_of(windows: Windows, steps: range, times: _Times, asked: str) -> range:
    """Of these steps, those whose windows lie between two times."""
    kept = np.ones(len(steps), dtype=bool)
    if times[0] is not None:
        kept &= windows.starts(steps) >= times[0]
    if times[1] is not None:
        kept &= windows.ends(steps) <= times[1]
    found = np.flatnonzero(kept)
    if not len(found):
        first, last = windows.starts(steps)[0], windows.ends(steps)[-1]
        raise InvalidInput(
            f"no released window lies between {asked}; released windows reach from "
            f"{windows.at(int(first))} to {windows.at(int(last))}: give times between these"
        )
    return range(steps[int(found[0])], steps[int(found[-1])] + 1)

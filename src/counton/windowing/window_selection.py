"""Selection of released windows by numbers, days or times, and of groups by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from counton.base.errors import InvalidInputError, param
from counton.windowing.windows import Windows, microseconds, parse_time


def steps_between(requested: str | range | None, last: int, windows: Windows) -> range:
    """Parse a selection of released steps.

    Args:
        requested: numbers as ``"25:48"`` (both included), ``"25:"``, ``":48"`` or ``"25"``; days as
            ``"2024-03-18:2024-03-24"`` (both included), or one day; a range; None: all.
        last: the last released step.

    Raises:
        InvalidInputError: the text has another form, steps are not released, or no released window
            lies in the times.

    >>> from datetime import UTC, datetime
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
    for first, last in pairs:
        try:
            start = _moment_of(first, timezone, end=False) if first.strip() else None
            end = _moment_of(last, timezone, end=True) if last.strip() else None
        except InvalidInputError:
            continue
        return start, end
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

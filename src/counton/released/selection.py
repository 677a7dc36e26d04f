"""Some of the steps and groups that were released, in words of people: dates, names, 25:48."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta

import numpy as np

from counton.base.errors import InvalidInput, field
from counton.base.windows import Windows, microseconds, parse_time
from counton.released.description import Description

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

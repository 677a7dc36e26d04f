"""Some of the steps and groups that were released, in words of people: dates, names, 25:48."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from counton.errors import InvalidInput, field
from counton.results.description import Description
from counton.windows import microseconds, parse_time

_Moment = str | datetime


def steps_between(given: str | range | None, last: int) -> range:
    """The steps asked for, all of them released."""
    if given is None:
        return range(1, last + 1)
    first, end = 1, last
    if isinstance(given, range):
        first, end = given.start, given.stop - 1
        wrong = given.step != 1
    else:
        found = re.fullmatch(r"\s*(\d*)\s*:\s*(\d*)\s*", str(given))
        wrong = found is None or not (found[1] or found[2])
        if found is not None:
            first, end = int(found[1] or 1), int(found[2] or last)
    if wrong:
        raise InvalidInput(
            f"{field('steps', given)} is not FIRST:LAST; write 25:48 for the steps 25 to 48, both "
            f"included, 25: or :48"
        )
    if not 1 <= first <= end <= last:
        raise InvalidInput(
            f"{field('steps', f'{first}:{end}')} is not within the released steps 1:{last}; ask "
            f"for some of them, the first before the last"
        )
    return range(first, end + 1)


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
    definition: Description, steps: range, start: _Moment | None, until: _Moment | None
) -> range:
    """Of these steps, those whose windows lie between two times."""
    windows = definition.windows
    kept = np.ones(len(steps), dtype=bool)
    for word, given in (("start", start), ("until", until)):
        if given is None:
            continue
        text = given.isoformat() if isinstance(given, datetime) else given
        us = microseconds(parse_time(text, windows.timezone))
        kept &= windows.starts(steps) >= us if word == "start" else windows.ends(steps) <= us
    found = np.flatnonzero(kept)
    if not len(found):
        first, last = windows.starts(steps)[0], windows.ends(steps)[-1]
        raise InvalidInput(
            f"no released window lies between {field('start')} and {field('until')}; those asked "
            f"for reach from {windows.at(int(first))} to "
            f"{windows.at(int(last))}: give times between these"
        )
    return range(steps[int(found[0])], steps[int(found[-1])] + 1)

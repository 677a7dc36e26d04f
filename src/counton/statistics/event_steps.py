"""Checks of events: how many there are in each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import quote, without_mask

if TYPE_CHECKING:
    from counton.statistics.statistic import Events, Statistic


def ends_of(
    statistic: Statistic,
    events: Events,
    stops: Sequence[int] | NDArray[np.int64] | None = None,
    *,
    batched: bool,
    name: str,
) -> NDArray[np.int64]:
    """Return the number of events up to the end of each step: int64, ``(steps,)``.

    This is ``stops``, checked. Without it all events form one step if ``batched``, otherwise each
    is a step.
    """
    count = count_events(statistic, events)
    if stops is None:
        stops = [count] if batched else range(1, count + 1)
    ends = np.asarray(stops)
    if ends.ndim == 1 and not len(ends):
        ends = ends.astype(np.int64)
    if (
        ends.ndim != 1
        or ends.dtype.kind not in "iu"
        or (np.diff(ends.astype(np.int64), prepend=0) < 0).any()
        or (ends[-1] if len(ends) else 0) != count
    ):
        raise InvalidInputError(
            f"stops are {quote(ends.tolist())} for {count:,} events; give ascending integers, "
            "the last equal to the number of events"
        )
    ends = ends.astype(np.int64)
    counts = np.diff(ends, prepend=0)
    exactly = statistic.of_letters
    wrong = (counts != 1) if exactly else (counts > 1)
    if not batched and wrong.any():
        raise InvalidInputError(
            f"a step has {int(counts[wrong][0]):,} events, but the noise of {name!r} was made for "
            f"{'' if exactly else 'at most '}one {statistic.event} a step: start it with "
            "batched=True"
        )
    return ends


def count_events(statistic: Statistic, events: Events) -> int:
    """Return the number of events."""
    text = isinstance(events, str) and statistic.of_letters
    if not text and (
        isinstance(events, (str, bytes, bytearray, Mapping, Set))
        or not hasattr(events, "__len__")
        or np.ndim(events if isinstance(events, np.ndarray) else ()) < 1
    ):
        raise InvalidInputError(
            f"events are {quote(events)}, of type {type(events).__name__}; give a list or an "
            f"array of each {statistic.event}, in order: put a single one in brackets"
        )
    if isinstance(events, np.ma.MaskedArray):
        without_mask(events, "the events")
    return len(events)

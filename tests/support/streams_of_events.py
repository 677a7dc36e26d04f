"""Events of a statistic into a stream, which takes changes of cells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton import Stream
from counton.statistics.results import StatisticResults


def changes(stream: Stream, batches: Sequence[Sequence[Any]]) -> NDArray[np.int64]:
    """By how much cells change in each step, in multiples of the resolution."""
    assert stream.statistic is not None
    events = [event for batch in batches for event in batch]
    stops = np.cumsum([len(batch) for batch in batches])
    return stream.statistic.begin().take(events, stops)


def release_events(
    stream: Stream, *batches: Sequence[Any], first_step: int | None = None
) -> StatisticResults:
    """Release a step of each batch of events."""
    totals = stream.design.contribution.from_grid(changes(stream, batches))
    steps = stream.release_many(totals, first_step=first_step).steps
    return stream.results(steps.start, steps.stop)

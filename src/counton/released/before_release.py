"""A release before anything is released: what is simulated from a plan alone."""

from __future__ import annotations

import numpy as np

from counton.numbers import Design
from counton.released.counts import ReleasedCells
from counton.released.description import Description
from counton.released.read_options import View
from counton.released.reading_tables import ReleasedReadings
from counton.released.release import Release
from counton.statistics.readings import Readings


def release_of_nothing(
    description: Description, terms: Design, level: float, shown: View
) -> Release:
    """A first step in which nothing happened, without noise: what is simulated from a plan alone.

    Args:
        description, terms: of the stream.
        level: probability with which each interval holds.
        shown: what is shown of a statistic's readings.
    """
    nothing = terms.of_exact(np.zeros((1, *terms.shape), np.int64))
    statistic = description.statistic
    if statistic.additive:
        return ReleasedCells.of(description, terms, nothing.reshape(1, -1), level)
    readings = Readings.of(statistic, terms, nothing)
    return ReleasedReadings(description, terms, range(1, 2), readings, level, shown=shown)

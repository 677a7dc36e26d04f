"""What a stream keeps as seen of its windows, by their numbers."""

import numpy as np
from numpy.typing import NDArray

from counton.base.private import Private, reveal
from counton.state import Stream


def observed_of(stream: Stream, *also: int) -> dict[int, NDArray[np.int64]]:
    """Of all windows; or of those that a release reads beside its own rows' windows."""
    asked = Private(np.array(also, np.int64)) if also else None
    return {
        int(step): totals
        for steps, some in reveal(stream.observed_blocks(asked))
        for step, totals in zip(steps, some, strict=True)
    }

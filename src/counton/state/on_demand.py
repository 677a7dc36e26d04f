"""Storage of statistics whose cells are computed on demand: the journal holds digests of events.

A step releases nothing: cells are computed when somebody asks for them. In place of released values
the journal holds a keyed digest of the step's events, which later checks compare.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import HorizonExceeded, StateError
from counton.base.private import Private
from counton.noise import Key
from counton.noise.key import check_key
from counton.numbers import Counter, Design, Releases
from counton.numbers.counter import OneAtATime
from counton.numbers.counter_state import Checkpoint, StreamProgress, Waiting
from counton.strategies.strategy import last_served_step

_NOTHING = np.zeros(0, np.int64)


class OnDemand(Counter):
    """The counter of a stream whose statistic computes each value only when a reader requests it.
    It releases no sums: it counts the steps, and its "release" is a digest of each step's events.
    """

    def __init__(self, terms: Design, key: Key, step: int = 0) -> None:
        self.key_fingerprint = check_key(key).fingerprint
        self.design = terms.under(self.key_fingerprint)
        self._done = Private(StreamProgress(step, _NOTHING, Waiting(_NOTHING)))
        self._turn = OneAtATime(f"statistic {terms.name!r}", elsewhere="open it in each process")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what a step releases here, one integer: the digest of its events."""
        return (1,)

    @override
    def release_exact(self, digests: NDArray[np.int64]) -> Releases:
        """Count n consecutive steps, and return the digests of their events, shape ``(n, 1)``, as
        their releases, without noise.
        """
        first, horizon = self.step + 1, last_served_step(self.design.strategy)
        last = self.step + len(digests)
        if horizon is not None and last > horizon:
            raise HorizonExceeded(
                f"step {last:,} is after the last of the {horizon:,} steps: start a new stream "
                "with more steps"
            )
        self._done = Private(self._progress()._replace(step=last))
        return Releases(range(first, last + 1), digests, self.design)

    @property
    @override
    def noise_is_worth_keeping(self) -> bool:
        return False  # noise is drawn when cells are asked for

    @override
    def std_of(self, releases: Releases) -> NDArray[np.float64]:
        return np.asarray(releases.std(), np.float64)

    @classmethod
    def from_checkpoint(cls, state: Checkpoint, key: Key) -> OnDemand:
        """Restore a counter of steps from the checkpoint that the method `checkpoint` wrote."""
        if state.sums.size or state.waiting.size or not isinstance(state.step, int):
            raise StateError(
                "the checkpoint of a statistic whose numbers are computed on demand has sums, "
                "which it should not: it was altered; restore it from a copy"
            )
        return cls(Design.from_dict(state.design), key, state.step)

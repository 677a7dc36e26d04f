"""Noise for the next steps, computed in windows so that one step at a time is cheap too."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from counton.noise import NoiseField
from counton.strategies import StreamStrategy

#: Windows grow from the first to the second size (numbers, all coordinates together).
_FIRST = 2**6
_LARGEST = 2**16
#: Windows of strategies that are not local double up to here (numbers, 128 MB).
_MOST = 2**24


class Lookahead:
    """B z for consecutive steps, remembered for a short way ahead.

    What is remembered never changes a value: the noise of a step is a function of its address.
    """

    def __init__(self, strategy: StreamStrategy, field: NoiseField) -> None:
        self._strategy = strategy
        self._field = field
        self._size = math.prod(field.shape)
        self._ahead = _FIRST
        self.window = range(0)
        self._noise: NDArray[np.int64] = np.empty((0, *field.shape), np.int64)
        # The last large batch, held until the next is there: memory freed in between goes back to
        # the system, and getting it again takes as long as the noise.
        self._before = self._noise

    def noise(self, steps: range) -> NDArray[np.int64]:
        """Noise of ``steps``: int64, shape ``(len(steps), *shape)``; a view, not to be written."""
        if not (self.window.start <= steps.start and steps.stop <= self.window.stop):
            wanted = max(len(steps), self._next_length(steps.start))
            stop = steps.start + wanted
            if self._strategy.horizon is not None:
                stop = min(stop, self._strategy.horizon + 1)
            window = range(steps.start, max(stop, steps.stop))
            noise = self._strategy.noise(self._field, window)
            if len(window) > 1 and len(window) * self._size > _LARGEST and self._strategy.local:
                self._before = noise
                return noise  # a large batch, not worth keeping
            self.window, self._noise = window, noise
        first = steps.start - self.window.start
        return self._noise[first : first + len(steps)]

    def _next_length(self, start: int) -> int:
        if not self._strategy.local:
            # The cost of a window is that of all before it: as long as memory allows.
            return min(max(start, _FIRST), max(_MOST // self._size, 1))
        self._ahead = min(2 * self._ahead, max(_LARGEST // self._size, 1))
        return self._ahead

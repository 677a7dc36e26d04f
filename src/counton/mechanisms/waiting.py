"""Totals that a strategy with a delay does not count yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Waiting:
    """The totals of the last ``delay`` steps, oldest first. Exact, hence secret.

    A value: letting steps in gives another one. They share memory with room behind the newest
    total, so that a step costs the same whatever the delay; of several made from one value, only
    the last is to be used.

    >>> leaving, waiting = Waiting(np.array([1, 2, 3])).then(np.array([4, 5]))
    >>> leaving.tolist(), waiting.totals.tolist()
    ([1, 2], [3, 4, 5])
    """

    def __init__(self, totals: NDArray[np.int64]) -> None:
        self._room = totals
        self._start = 0
        self._delay = len(totals)
        #: Their sum, shape ``shape``.
        self.sum: NDArray[np.int64] = totals.sum(axis=0)

    @property
    def totals(self) -> NDArray[np.int64]:
        """All of them: int64, shape ``(delay, *shape)``; a view, not to be written."""
        return self._room[self._start : self._start + self._delay]

    def then(self, entering: NDArray[np.int64]) -> tuple[NDArray[np.int64], Waiting]:
        """As many totals as enter leave, and those which then wait."""
        count = len(entering)
        if count >= self._delay:
            queue = np.concatenate([self.totals, entering])
            return queue[:count], Waiting(queue[count:].copy())
        room, start = self._room, self._start
        if start + self._delay + count > len(room):
            room, start = np.empty((3 * self._delay, *room.shape[1:]), np.int64), 0
            room[: self._delay] = self.totals
        end = start + self._delay
        room[end : end + count] = entering
        after = Waiting.__new__(Waiting)
        after._room, after._start, after._delay = room, start + count, self._delay
        leaving = room[start : start + count]
        after.sum = self.sum + entering.sum(axis=0) - leaving.sum(axis=0)
        return leaving, after

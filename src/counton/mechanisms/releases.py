"""What streams give out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.mechanisms.terms import StreamTerms


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One released step.

    Attributes:
        step: number of the step, from 1.
        value: private running total, in data units: a number, or an array of the stream's shape.
            Integers for tree strategies on counts, else float64. Where the
            strategy serves windows, the step's own private count instead.
        std: standard deviation of its noise, in data units, the same for every coordinate.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> counter.release(3)
    Release(step=1, value=..., std=7.05...)
    """

    step: int
    value: Any
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class Releases:
    """Consecutive released steps.

    Attributes:
        steps: their numbers.
        values: private running totals in data units, shape ``(len(steps), *shape)``.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> releases = counter.release_many([3, 0, 5])
    >>> len(releases), releases.values.dtype, releases.std.round(2).tolist()
    (3, dtype('int64'), [7.06, 7.06, 9.98])
    """

    steps: range
    values: NDArray[Any]
    # What was promised, never the counter: published numbers must not lead to exact sums.
    _terms: StreamTerms = field(repr=False)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each step's noise in data units, shape ``(len(steps),)``."""
        return self._terms.std(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

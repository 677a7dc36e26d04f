"""Tallied statistics whose measurement is fitted to the kind of noise, unless one is stated."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from counton.arrays import Integers
from counton.errors import SumOverflow
from counton.mechanisms.tables import LARGEST_MEASUREMENT
from counton.privacy import ApproxDP, ExpiringDP, Guarantee, PureDP
from counton.statistics.tallied import Tallied
from counton.strategies import StreamStrategy
from counton.strategies.base import Norm, check_norm


class Fitted(Tallied):
    """A statistic that measures its cells in the way best for Laplace or for Gaussian noise."""

    @property
    @abstractmethod
    def _is_stated(self) -> bool:
        """Whether how cells are measured is stated, or settled already."""

    @abstractmethod
    def _best(self, norm: Norm) -> Self:
        """The same with the best measurement under one kind of noise."""

    def settled(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """With the measurement that has the least error under a guarantee.

        That is found for either kind of noise, and if both can give the guarantee, by the error
        with the planner's strategy over time.
        """
        if self._is_stated:
            return self
        if isinstance(guarantee, (PureDP, ExpiringDP)):
            return self._best(1)
        if not isinstance(guarantee, ApproxDP) or horizon is None:
            return self._best(2)

        def error(this: Self) -> float:
            return this.plan(horizon, guarantee).best.mean_std

        return min((self._best(2), self._best(1)), key=error)

    def sensitivity(self, strategy: StreamStrategy, p: Norm, *, batched: bool = False) -> float:
        """See `Statistic.sensitivity`; as measured for this norm, unless that is stated."""
        if self._is_stated:
            return super().sensitivity(strategy, p, batched=batched)
        return self._best(check_norm(p)).sensitivity(strategy, p, batched=batched)


def refuse_inexact(sums: Integers, largest_entry: int) -> None:
    """Refuse counts whose measurements would not be exact.

    Args:
        sums: shape ``(steps, places)``.
        largest_entry: no measurement is larger than this times the sum of all places.

    Raises:
        SumOverflow: the counts of a step are too large.
    """
    most = float(np.abs(sums.astype(np.float64)).sum(axis=1).max(initial=0.0))
    if most * largest_entry >= LARGEST_MEASUREMENT:
        raise SumOverflow(
            f"the counts of a step sum to {most:.3g}; at most "
            f"{LARGEST_MEASUREMENT / largest_entry:.3g} can be measured exactly: count in "
            f"larger units"
        )


#: So many standard deviations noise stays within, and as much is left for what is rounded.
_ROOM = 64


def most_read(bits: int, std: float) -> float:
    """How large counts may be whose sums are read on multiples of 2^-bits, in float64.

    Args:
        bits: behind the point.
        std: of the widest noise that is read.

    >>> most_read(16, 1.0) / 2**37
    0.99...
    """
    return 2.0 ** (53 - bits) - _ROOM * max(std, 1.0)

"""Runs of a mechanism with counton's own exact noise, and what they say with which certainty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.distributions import NoiseDistribution
from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key, NoiseField
from counton.strategies import StreamStrategy
from counton.strategies.strategy import node_distribution

#: Half the width of a normal 99% interval, in standard errors.
_CERTAIN = 2.5758
#: Numbers of one batch of runs (32 MB).
_BATCH = 2**22


def known_key() -> Key:
    """The key of all simulations: the same runs every time, and no secret."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        return InsecureSeededKey(16)


def errors(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    runs: int,
    name: str,
    *,
    steps: range | None = None,
) -> Iterator[NDArray[np.float64]]:
    """Noise of released totals, some runs at a time: shape (steps, runs of the batch).

    The same name gives the same noise every time; all of it is independent of the data.

    Args:
        strategy: how the noise is correlated over time.
        distribution: of one node of level 0.
        runs: independent repetitions.
        name: of what is simulated.
        steps: which releases; all unless stated.

    >>> from fractions import Fraction
    >>> from counton.base.distributions import DiscreteGaussian
    >>> from counton.strategies import Binary
    >>> [batch.shape for batch in errors(Binary(7), DiscreteGaussian(Fraction(9)), 100, "test")]
    [(7, 100)]
    """
    steps = range(1, (strategy.horizon or 1) + 1) if steps is None else steps
    size = max(1, _BATCH // (strategy.horizon or len(steps)))
    key = known_key()
    for first in range(0, runs, size):
        subkey = key.derive(b"reproduce", name.encode(), first.to_bytes(8, "little"))
        field = NoiseField(
            subkey,
            lambda level: node_distribution(strategy, distribution, level),
            (min(size, runs - first),),
        )
        yield strategy.noise(field, steps) / 2.0**strategy.facts.fraction_bits


class Measured(NamedTuple):
    """A mean over runs.

    Attributes:
        mean: over the runs.
        half: the true mean lies within mean - half and mean + half with 99% confidence.
        runs: how many there were.
    """

    mean: float
    half: float
    runs: int

    @classmethod
    def of(cls, values: ArrayLike) -> Measured:
        """Mean of one number for each run, with its normal interval.

        >>> Measured.of([1.0, 2.0, 3.0]).mean
        2.0
        """
        every = np.asarray(values, dtype=np.float64).ravel()
        half = _CERTAIN * float(every.std(ddof=1)) / math.sqrt(len(every))
        return cls(float(every.mean()), half, len(every))

    def told(self) -> str:
        """Runs and interval, for a row's note.

        >>> Measured(2.0, 0.125, 400).told()
        'mean of 400 runs, 99% interval +- 0.12'
        """
        return f"mean of {self.runs:,} runs, 99% interval +- {self.half:.2g}"

"""What all errors of a stream's totals stay within together, with some probability: a quantile.

By simulation, since no formula is known. A union bound over steps, which do not err independently,
is half as much again.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, figures
from counton.continual.intervals import check_confidence_level
from counton.noise import NoiseField
from counton.strategies import StreamStrategy


class ErrorQuantile(NamedTuple):
    """What all errors together stay within with some probability, as well as so many runs tell.

    Attributes:
        value: estimated from the runs, in units of the counts.
        lower: it lies between ``lower`` and ``upper`` ...
        upper: see ``lower``; infinite where the runs are too few to tell.
        level: ... with this confidence (order statistics, exact for any law).
        runs: how many independent draws of all noise there were; 0 for a bound that is proven.

    >>> print(ErrorQuantile(110.0, 101.0, 125.0, 0.95, 10))
    110 (10 runs; between 101 and 125 with 95% confidence)
    """

    value: float
    lower: float
    upper: float
    level: float
    runs: int

    def __str__(self) -> str:
        if not self.runs:
            return f"{figures(self.value)} (a union bound)"
        return (
            f"{figures(self.value)} ({self.runs:,} runs; between {figures(self.lower)} and "
            f"{figures(self.upper)} with {100 * self.level:.4g}% confidence)"
        )


def fewest_runs(probability: float, level: float = 0.95) -> int:
    """How many runs tell something of a quantile from above: the largest exceeds it with them.

    >>> fewest_runs(2 / 3), fewest_runs(0.95)
    (10, 72)
    """
    return math.ceil(math.log((1 - level) / 2) / math.log(probability))


def largest_error_of_totals(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    horizon: int,
    probability: float,
    *,
    runs: int,
    level: float = 0.95,
) -> ErrorQuantile:
    """What the errors of all totals of a stream stay within together with some probability.

    It depends on no data, so planning with it costs no privacy. The draws are always the same ones,
    from a public seed.

    Args:
        strategy: of the stream.
        distribution: of its noise.
        horizon: number of steps.
        probability: between 0 and 1.
        runs: independent draws, at least `fewest_runs` for a finite interval.
        level: confidence of the interval.

    Raises:
        InvalidInputError: a probability or level outside (0, 1), or no runs.

    >>> from counton import PureDP, plan
    >>> best = plan(365, PureDP(1)).best
    >>> found = largest_error_of_totals(best.strategy, best.distribution, 365, 2 / 3, runs=20)
    >>> found.lower < found.value < found.upper
    True
    >>> best.errors.largest_error(2 / 3) > 1.2 * found.value
    True
    """
    if not 0 < probability < 1:
        raise InvalidInputError(f"probability is {probability}; it must be between 0 and 1")
    runs = check_integer("runs", runs, 1, 2**16)
    level = check_confidence_level(level)
    unit = 2.0**-strategy.facts.fraction_bits
    said = f"{strategy!r} {distribution!r}".encode()
    every = []
    for run in range(runs):
        subkey = sha256(b"largest error of totals, run %d: " % run + said).digest()
        parts = strategy._reader(NoiseField(subkey, distribution)).parts(range(1, horizon + 1))
        every.append(max(max(int(part.max()), -int(part.min())) for part in parts) * unit)
    return quantile_of(every, probability, level)


def quantile_of(values: ArrayLike, probability: float, level: float = 0.95) -> ErrorQuantile:
    """A quantile of what one number a run was drawn from, and how well so many of them tell it.

    >>> print(quantile_of(range(1, 101), 0.5))
    50.5 (100 runs; between 40 and 61 with 95% confidence)
    """
    every = np.sort(np.asarray(values, np.float64)).tolist()
    runs = len(every)
    missed = (1 - level) / 2
    # Of the runs, a binomial number lies below the quantile.
    below = [
        math.comb(runs, k) * probability**k * (1 - probability) ** (runs - k)
        for k in range(runs + 1)
    ]
    low = max((k for k in range(runs) if sum(below[: k + 1]) <= missed), default=-1)
    high = min((k for k in range(1, runs + 1) if sum(below[k:]) <= missed), default=runs + 1)
    return ErrorQuantile(
        float(np.quantile(every, probability)),
        every[low] if low >= 0 else 0.0,
        every[high - 1] if high <= runs else math.inf,
        level,
        runs,
    )

"""How large the largest of many errors is: by simulation, since no formula is known.

"Ranges", Definition 3.12: err_{W,inf} is the expectation of the largest error of all queries of a
workload W. Every run draws the mechanism's own exact noise. Over all intervals of a line the
largest error of one draw is the largest running sum of the noise less the least, so that no query
has to be left out: the paper samples 5,000 of them, which comes out too small.

Of totals of a stream it is a quantile that is asked for: what all errors together stay within with
some probability. A union bound over steps, which do not err independently, is half as much again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counton.errors import InvalidInput
from counton.exact import check_integer, figures
from counton.laws import Law
from counton.mechanisms.intervals import check_level
from counton.mechanisms.tables import fraction_bits
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.plans.ranges import RangesChoice
from counton.strategies import StreamStrategy
from counton.strategies.lines import Workload
from counton.strategies.lines import workload as named_workload


class LargestError(NamedTuple):
    """An expectation, known as well as so many runs tell.

    Attributes:
        mean: over the runs, in units of the counts.
        lower: the expectation lies between ``lower`` and ``upper`` ...
        upper: see ``lower``.
        level: ... with this confidence (Student's interval).
        runs: how many independent draws of all noise there were.

    >>> print(LargestError(12.5, 12.0, 13.0, 0.95, 200))
    12.5, between 12 and 13 with 95% confidence (200 runs)
    """

    mean: float
    lower: float
    upper: float
    level: float
    runs: int

    def __str__(self) -> str:
        return (
            f"{figures(self.mean)}, between {figures(self.lower)} and {figures(self.upper)} with "
            f"{100 * self.level:.4g}% confidence ({self.runs:,} runs)"
        )


def expected_largest_error(
    choice: RangesChoice,
    workload: str | Workload | ArrayLike = "ranges",
    *,
    runs: int = 200,
    level: float = 0.95,
    key: Key | None = None,
) -> LargestError:
    """Expected largest error of all answers to a workload: err_{W,inf}, Definition 3.12.

    It depends on no data, so planning with it costs no privacy.

    Args:
        choice: strategy and noise, one of `plan_ranges`' choices for a line.
        workload: "ranges", "prefixes", "nodes", or a matrix with one row a query.
        runs: independent draws, at least 2.
        level: confidence of the interval.
        key: for the same draws again; a fresh one unless given.

    Raises:
        InvalidInput: a grid of several axes, too few runs, a level outside (0, 1), or a workload
            of random subsets, of which the largest error depends on how many are asked.

    >>> from counton import ApproxDP
    >>> from counton.plans import plan_ranges
    >>> cascade = plan_ranges(1024, guarantee=ApproxDP(0.1, 1e-9), strategy="cascade").best
    >>> found = expected_largest_error(cascade, "nodes", runs=50)
    >>> found.lower < found.mean < found.upper
    True
    """
    every = [*largest_errors(choice, workload, runs=runs, key=key)]
    return summed_up(every, check_level(level))


def summed_up(every: ArrayLike, level: float) -> LargestError:
    """Mean of one number a run, with Student's interval.

    >>> summed_up([1.0, 2.0, 3.0], 0.95)
    LargestError(mean=2.0, lower=-0.48..., upper=4.48..., level=0.95, runs=3)
    """
    from scipy.special import stdtrit

    values = np.asarray(every, dtype=np.float64)
    mean, runs = float(values.mean()), len(values)
    half = float(stdtrit(runs - 1, (1 + level) / 2) * values.std(ddof=1)) / math.sqrt(runs)
    return LargestError(mean, mean - half, mean + half, level, runs)


def largest_errors(
    choice: RangesChoice,
    workload: str | Workload | ArrayLike = "ranges",
    *,
    runs: int,
    key: Key | None = None,
) -> Iterator[float]:
    """The largest error in each of so many runs; arguments as in `expected_largest_error`."""
    runs = check_integer("runs", runs, 2, 2**32)
    axes = choice.grid.axes
    if len(axes) != 1:
        raise InvalidInput(
            f"the choice is for a grid of {len(axes)} axes; largest errors are known for one line: "
            f"plan each axis by itself"
        )
    (strategy,) = axes
    asked = named_workload(workload, strategy.cells)
    key = Key.generate() if key is None else check_key(key)
    first = np.zeros(1, np.int64)
    cell = math.sqrt(float(strategy.variance(first, first + 1)[0]) * choice.noise_law.variance)
    bits = fraction_bits(cell)

    said = repr(strategy).encode()

    def simulated() -> Iterator[float]:
        for run in range(runs):
            subkey = key.derive(b"largest error", said, run.to_bytes(4, "big"))
            field = NoiseField(subkey, choice.noise_law)
            yield strategy.largest_error(asked, field, bits)

    return simulated()


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
    law: Law,
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
        law: of its noise.
        horizon: number of steps.
        probability: between 0 and 1.
        runs: independent draws, at least `fewest_runs` for a finite interval.
        level: confidence of the interval.

    Raises:
        InvalidInput: a probability or level outside (0, 1), or no runs.

    >>> from counton import PureDP, plan
    >>> best = plan(365, PureDP(1)).best
    >>> found = largest_error_of_totals(best.strategy, best.noise_law, 365, 2 / 3, runs=20)
    >>> found.lower < found.value < found.upper
    True
    >>> plan(365, PureDP(1)).largest_error(best, 2 / 3) > 1.2 * found.value
    True
    """
    if not 0 < probability < 1:
        raise InvalidInput(f"probability is {probability}; it must be between 0 and 1")
    runs, level = check_integer("runs", runs, 1, 2**16), check_level(level)
    unit, said = 2.0**-strategy.fraction_bits, f"{strategy!r} {law!r}".encode()
    every = []
    for run in range(runs):
        subkey = sha256(b"largest error of totals, run %d: " % run + said).digest()
        parts = strategy.reader(NoiseField(subkey, law)).parts(range(1, horizon + 1))
        every.append(max(max(int(part.max()), -int(part.min())) for part in parts) * unit)
    return quantile_of(every, probability, level)


def quantile_of(values: ArrayLike, probability: float, level: float = 0.95) -> ErrorQuantile:
    """A quantile of what one number a run was drawn from, and how well so many of them tell it.

    >>> print(quantile_of(range(1, 101), 0.5))
    50.5 (100 runs; between 40 and 61 with 95% confidence)
    """
    every = np.sort(np.asarray(values, np.float64)).tolist()
    runs, missed = len(every), (1 - level) / 2
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

"""The expected largest error over all queries of a workload, by simulation.

"Ranges", Definition 3.12, in `counton.base.literature`: err_{W,inf} is the expectation of the
largest error of all queries. Every run draws the exact noise and takes all queries into account.
The paper samples 5,000 intervals, so its numbers are too small.
"""

# Over all intervals of a line of cells, the largest error is the largest running sum of the noise
# less the smallest one. So no query is left out.

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, figures
from counton.continual.intervals import check_confidence_level
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.planning.ranges_plan import CellsDesign
from counton.strategies.strategy import NodeNoise
from counton.tables import AllRanges, LineStrategy, Queries, Workload
from counton.tables.table_calibration import fraction_bits
from papers.ranges.dyadic import Dyadic
from papers.ranges.running_sums import running_sums
from papers.ranges.workloads import RandomSubsets, TreeNodes
from papers.ranges.workloads import workload as named_workload


class LargestError(NamedTuple):
    """The expected largest error, in units of the counts, with Student's confidence interval.

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
    choice: CellsDesign,
    workload: str | Workload | ArrayLike = "ranges",
    *,
    runs: int = 200,
    level: float = 0.95,
    key: Key | None = None,
) -> LargestError:
    """Return the expected largest error of all answers to a workload, estimated by simulation.

    It is err_{W,inf} of "Ranges", Definition 3.12, and depends on no data.

    Args:
        choice: a design of `counton.plan_cells` for a line of cells.
        workload: "ranges", "prefixes", "nodes", or a matrix with one row for each query.
        runs: number of independent draws of all noise, at least 2.
        key: to repeat a simulation; a fresh one unless given.

    Raises:
        InvalidInputError: a grid of several axes, too few runs, a level outside (0, 1), or a
            workload of random subsets: their largest error depends on their number.

    >>> from counton import ApproxDP
    >>> from counton import plan_cells
    >>> cascade = plan_cells(1024, guarantee=ApproxDP(0.1, 1e-9), line="cascade").best
    >>> found = expected_largest_error(cascade, "nodes", runs=50)
    >>> found.lower < found.mean < found.upper
    True
    """
    every = [*largest_errors(choice, workload, runs=runs, key=key)]
    return mean_with_interval(every, check_confidence_level(level))


def mean_with_interval(every: ArrayLike, level: float) -> LargestError:
    """Return the mean of at least two results, with Student's interval of the expectation.

    >>> mean_with_interval([1.0, 2.0, 3.0], 0.95)
    LargestError(mean=2.0, lower=-0.48..., upper=4.48..., level=0.95, runs=3)
    """
    from scipy.special import stdtrit

    values = np.asarray(every, dtype=np.float64)
    mean = float(values.mean())
    runs = len(values)
    half = float(stdtrit(runs - 1, (1 + level) / 2) * values.std(ddof=1)) / math.sqrt(runs)
    return LargestError(mean, mean - half, mean + half, level, runs)


def largest_errors(
    choice: CellsDesign,
    workload: str | Workload | ArrayLike = "ranges",
    *,
    runs: int,
    key: Key | None = None,
) -> Iterator[float]:
    """Draw the noise ``runs`` times, and yield the largest error over all answers each time."""
    runs = check_integer("runs", runs, 2, 2**32)
    axes = choice.strategy.axes
    if len(axes) != 1:
        raise InvalidInputError(
            f"the plan is for a grid of {len(axes)} axes, but largest errors are known only for a "
            "single line: plan each axis by itself"
        )
    (strategy,) = axes
    queries = named_workload(workload, strategy.cells)
    key = Key.generate() if key is None else check_key(key)
    first = np.zeros(1, np.int64)
    cell = math.sqrt(float(strategy.variance(first, first + 1)[0]) * choice.distribution.variance)
    bits = fraction_bits(cell)
    address = repr(strategy).encode()
    subkeys = (key.derive(b"largest error", address, run.to_bytes(4, "big")) for run in range(runs))
    fields = (NoiseField(subkey, choice.distribution) for subkey in subkeys)
    return (largest_error_of(strategy, queries, field, bits) for field in fields)


def largest_error_of(
    strategy: LineStrategy, workload: Workload, noise: NodeNoise, bits: int
) -> float:
    """Return the largest error among all answers to a workload, for one draw of the noise.

    Measurement i has the noise of node i of level 0; errors are of running sums in multiples of
    2^-bits.

    Raises:
        InvalidInputError: a workload of one random query, which has no largest error.
    """
    if isinstance(workload, RandomSubsets):
        raise InvalidInputError(
            "the workload is a single random subset, but the largest error depends on the number "
            "of subsets: give a matrix with one subset in each row"
        )
    if isinstance(strategy, Dyadic):
        found = strategy.largest_error(workload, noise.run(0, range(strategy.measurements)))
        if found is not None:
            return found
    sums, bits = running_sums(strategy, np.zeros(strategy.cells, np.int64), noise, bits)
    ends = sums * 2.0**-bits
    if isinstance(workload, AllRanges):
        return float(ends.max() - ends.min())
    if isinstance(workload, TreeNodes):
        low, high = workload.intervals()
        ends = ends[high] - ends[low]
    elif isinstance(workload, Queries):
        ends = workload.matrix @ np.diff(ends)
    return float(np.abs(ends).max())

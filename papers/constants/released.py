"""Section 5 end to end: what counton's statistics release of streams, less what is true.

Every run is a stream of its own: real events, a real counter, its releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton import RunningStatistic
from counton.privacy import ApproxDP
from counton.statistics import Statistic
from papers.constants.numbers import DELTA
from papers.constants.sensitivities import changes_of
from papers.constants.streams import mechanisms
from papers.simulation import known_key

_SEED = 2**17
#: Half the width of a normal 99% interval, in standard errors.
_CERTAIN = 2.5758


def kept(values: Sequence[float] | NDArray[np.float64]) -> float:
    """What two thirds of runs do not exceed."""
    return float(np.quantile(values, 2 / 3))


def certain(numbers: int) -> float:
    """Half of the 99% interval of a standard deviation of so many normal numbers, relative.

    >>> round(certain(20_000), 4)
    0.0129
    """
    return _CERTAIN / math.sqrt(2 * numbers)


def noise(
    statistic: Statistic, events: Sequence[Any], epsilon: float, runs: int
) -> Iterator[NDArray[np.float64]]:
    """Released less exact totals of a stream of one event a step, by the square root.

    Args:
        statistic: which.
        events: of the stream, one a step.
        epsilon: of all releases together; delta as in all experiments.
        runs: how many streams with noise of their own.

    Yields:
        For each run, shape (steps, cells).
    """
    strategy = mechanisms(len(events)).ours
    guarantee = ApproxDP(epsilon, DELTA)
    true = np.cumsum(changes_of(statistic, [[event] for event in events]), axis=0)
    for run in range(runs):
        counter = RunningStatistic.start(
            statistic,
            guarantee=guarantee,
            key=known_key(),
            name=f"constants {run}",
            strategy=strategy,
        )
        releases = counter.release_many(events).releases
        if releases is None:
            values = counter.history(np.arange(true.shape[1]), range(1, len(events) + 1))
        else:
            values = releases.values
        yield values.reshape(true.shape) - true


def of_nodes(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The noise z of which releases have L z, with L the square root: L^-1 has a closed form.

    >>> from counton.strategies import SqrtToeplitz, matrices
    >>> left = np.asarray(matrices(SqrtToeplitz(8))[0], dtype=float)
    >>> bool(np.allclose(of_nodes(left), np.eye(8)))
    True
    """
    from scipy.linalg import toeplitz

    steps = np.arange(1, len(errors))
    first = np.concatenate([[1.0], np.cumprod((steps - 1.5) / steps)])
    found: NDArray[np.float64] = toeplitz(first, np.zeros(len(first))) @ errors
    return found


@lru_cache
def graph(degree: int, edges: int) -> list[tuple[int, int]]:
    """So many edges in random order, of a graph with that largest degree and many triangles."""
    generator = np.random.default_rng([_SEED, degree, edges])
    nodes = math.ceil(2.2 * edges / degree)
    has = np.zeros(nodes, np.int64)
    found: dict[tuple[int, int], None] = {}
    while len(found) < edges:
        one = int(generator.integers(nodes))
        # Neighbours on a circle: they have neighbours in common.
        other = (one + int(generator.integers(1, degree + 1))) % nodes
        pair = (min(one, other), max(one, other))
        if pair not in found and max(has[one], has[other]) < degree:
            found[pair] = None
            has[[one, other]] += 1
    return list(found)


def letters(alphabet: str, steps: int) -> list[str]:
    """Random letters."""
    generator = np.random.default_rng([_SEED, steps])
    return [alphabet[place] for place in generator.integers(len(alphabet), size=steps)]

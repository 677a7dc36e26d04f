"""How far a release may lie from the truth: half-widths of two-sided intervals.

A release of a tree is the truth plus a sum of independent draws of discrete laws, so its interval
is computed from the law of that sum, not from a normal approximation: the smallest integer c with
P(|N| <= c) >= level. Each interval speaks of one released number, not of all at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from counton.analysis.noise_tails import sum_tail
from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.laws import DiscreteLaplace, Law
from counton.strategies import StreamStrategy

#: Tail probabilities below this are not told apart from 0 by the sums of float64 numbers here.
SMALLEST_TAIL = 1e-9
#: Below this variance, in lattice cells, an atom of a node's law is more than a rounding.
_NARROW = 400


def interval_halfwidth(law: Law, terms: int, level: float = 0.95) -> int:
    """Smallest c with P(|N| <= c) >= level, N the sum of ``terms`` independent draws of ``law``.

    Exact up to float64 (about 1e-12 in probability). Only for Gaussian sums with a standard
    deviation beyond 4096 it rests on an integral; then its error bound, 1 / (12 variance), is added
    to the level, so that the interval is never too short.

    Args:
        law: law of one node's noise.
        terms: number of nodes a release reads, with weights +1 or -1.
        level: wanted probability, above 0 and at most 1 - 1e-9.

    Raises:
        InvalidInput: a level or number of terms out of range.

    >>> from fractions import Fraction
    >>> interval_halfwidth(DiscreteLaplace(Fraction(3)), 1), interval_halfwidth(
    ...     DiscreteLaplace(Fraction(3)), 10)
    (9, 26)
    """
    counts = ((law, check_integer("terms", terms, 0)),)
    return _of_sum(counts, check_level(level))


@lru_cache(maxsize=4096)
def _of_sum(counts: tuple[tuple[Law, int], ...], level: float) -> int:
    """Smallest c with P(|N| <= c) >= level, N the sum of so many draws of each law."""
    tail = sum_tail(dict(counts))
    return _first(lambda c: tail(c) <= 1 - level)


def halfwidths(
    strategy: StreamStrategy, law: Law, steps: range | NDArray[np.int64], level: float = 0.95
) -> NDArray[np.float64]:
    """Half-widths of the intervals at ``steps``: float64, shape ``(len(steps),)``.

    In units of the exact sums (multiply by the resolution of a clipped contribution). Trees get the
    exact half-width for the nodes they read, also where laws differ by level, computed once for
    each set of nodes; where different Laplace laws add up to a standard deviation beyond 8192, they
    are too wide by up to 1/4096 of it for each node. Strategies with fractional weights get the
    quantile of a normal law of the exact variance, plus half a lattice cell of their nodes (a whole
    one where these are narrow) and the grid they are rounded to; with Laplace nodes the quantile of
    a single Laplace law if that is larger, which is up to 8% too wide at 95%.

    Raises:
        InvalidInput: a level out of range or steps the strategy does not serve.

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> halfwidths(Binary(7), DiscreteLaplace(Fraction(3)), range(1, 8)).tolist()
    [9.0, 9.0, 12.0, 9.0, 12.0, 12.0, 15.0]
    """
    level = check_level(level)
    if strategy.fraction_bits == 0:
        variances, where = np.unique(strategy.variance(steps), return_inverse=True)
        first = np.zeros(len(variances), np.int64)
        first[where[::-1]] = np.asarray(steps, dtype=np.int64)[::-1]
        sums = [_summed(strategy, law, int(step)) for step in first]
        if None not in sums:
            exact = [float(_of_sum(counts, level)) for counts in sums if counts is not None]
            return np.array(exact, dtype=np.float64)[where]
    std = np.sqrt(strategy.noise_variance(law, steps))
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    if isinstance(law, DiscreteLaplace):
        quantile = max(quantile, -math.log1p(-level) / math.sqrt(2))
    # Nodes are whole lattice cells: steps that read few of them jump where a normal law is smooth.
    coarse = (1.0 if law.variance < _NARROW else 0.5) * 2.0**-strategy.lattice_bits
    cell = 2.0**-strategy.fraction_bits
    result: NDArray[np.float64] = np.ceil((quantile * std + coarse) / cell + 0.5) * cell
    alone = _summed(strategy, law, 1) if 1 in steps and strategy.lattice_bits == 0 else None
    if alone is not None:  # the first step reads one node, and its law is known exactly
        result[np.asarray(steps) == 1] = _of_sum(alone, level)
    return result


def check_level(level: float) -> float:
    """``level`` as a float, if it is a probability that intervals are computed for.

    Raises:
        InvalidInput: not above 0 or above 1 - 1e-9.
    """
    if not 0 < level <= 1 - SMALLEST_TAIL:
        raise InvalidInput(f"level is {level!r}; it must be above 0 and at most 1 - 1e-9: try 0.95")
    return float(level)


def _summed(strategy: StreamStrategy, law: Law, step: int) -> tuple[tuple[Law, int], ...] | None:
    """Laws the release at ``step`` adds up draws of, and of each how many; weights all +1 or -1."""
    row = strategy.row(step)
    if any(abs(node.weight) != 1 for node in row):
        return None
    return tuple(Counter(strategy.node_law(law, node.level) for node in row).items())


def _first(holds: Callable[[int], bool]) -> int:
    """Smallest c >= 0 from which on ``holds``."""
    if holds(0):
        return 0
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high

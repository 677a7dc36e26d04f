"""Tests of the errors that a strategy states."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.distributions import (
    LARGEST_SPREAD,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseDistribution,
)
from counton.laws.rows import accepts, count_steps, names_subject, reads_of, require
from counton.strategies import StreamStrategy, noise_variance
from counton.strategies.strategy import node_law

#: Noise distributions under which errors are compared: wide ones, and ones on a few integers.
WIDE: tuple[NoiseDistribution, ...] = (
    DiscreteLaplace(Fraction(2**30)),
    DiscreteGaussian(Fraction(2**60)),
)
NARROW = DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(1, 3))
#: Allowed relative error of variances, which are sums of some hundred floats.
NEAR = 1e-9


@names_subject
def check_noise_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that `noise_variance` returns the variance of the noise in releases.

    It must be the sum, over all nodes, of the squared weight times the variance of the node's
    noise, plus up to ``rounding_variance`` for each release. Releases and differences of two are
    checked, under wide and narrow noise.

    >>> from counton.strategies import Binary
    >>> check_noise_variance(Binary(12))
    """
    reads = reads_of(strategy, count_steps(strategy, steps))
    levels = sorted(set(reads.levels.tolist()))
    first, last = reads.ends()
    starts, stops = reads.steps[first], reads.steps[last]
    squares, by_level = reads.between(first, last) ** 2, np.zeros((len(levels), len(first)))
    for place, level in enumerate(levels):
        by_level[place] = squares[:, reads.levels == level].sum(axis=1)
    windows = strategy.facts.workload == "windows"
    ends = np.where(windows, stops - starts, (starts > 0) * 1 + (stops > starts))
    more = np.asarray(ends * strategy.facts.rounding_variance, np.float64)
    # Measurements are integers in this unit; narrow noise is a few units of data at most.
    unit, (laplace, gaussian) = 1 << strategy.facts.lattice_bits, NARROW
    narrow = (
        DiscreteLaplace(min(laplace.scale * unit, Fraction(LARGEST_SPREAD))),
        DiscreteGaussian(gaussian.sigma_squared * unit**2),
    )
    for law in (*WIDE, *narrow):
        if not accepts(strategy, law):
            continue
        laws = [node_law(strategy, law, level) for level in levels]
        widths = np.array([law.variance for law in laws])
        exact = widths @ by_level / 4.0**strategy.facts.lattice_bits
        found = noise_variance(strategy, law, stops, since=starts)
        _compare(
            f"noise_variance() between two steps, with the noise {law}",
            found,
            exact,
            more,
            stops,
            starts,
        )
        single = first == (last - 1 if windows else 0)
        single &= last > 0
        found = noise_variance(strategy, law, stops[single].tolist())
        names = f"noise_variance() with the noise {law}", found, exact[single], more[single]
        _compare(*names, stops[single], starts[single])


def _compare(
    what: str, found: Any, exact: Floats, more: Floats, stops: Integers, starts: Integers
) -> None:
    found = np.asarray(found)
    room = NEAR * np.abs(exact) + 1e-13 * float(exact.max(initial=0.0))
    wrong = (found < exact - room) | (found > exact + more + room)
    if found.shape != exact.shape or wrong.any():
        at = int(np.argmax(wrong))
        require(
            False,
            f"{what} from {starts[at]} to {stops[at]} returns {found.flat[at]}, but the rows of "
            f"the strategy give {exact[at]}",
        )

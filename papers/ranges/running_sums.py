"""Noisy running sums of the cells of a line, in which the paper's mechanisms are compared.

A table of counton publishes sums of cells, from the same measurements.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Integers
from counton.strategies.lines.line_strategy import LineStrategy, rounded_sums
from counton.strategies.strategy import NodeNoise
from counton.tables import Grid
from counton.tables.line_square_root import SquareRoot


def running_sums(
    strategy: LineStrategy | Grid, counts: Integers, noise: NodeNoise, bits: int
) -> tuple[Integers, int]:
    """Return the noisy sums of the first 0, 1, ..., n cells, a function of y = C x + z alone.

    Args:
        strategy: of a line or a grid; a method ``running_sums`` of its own goes before.
        counts: x, shape (cells,); so small that C x plus noise fits int64.
        noise: measurement i has the noise of node i of level 0.
        bits: sums are rounded to multiples of 2^-bits, so that adjacent intervals add up exactly.

    Returns:
        The sums in units of 2^-b, int64 of shape (cells + 1,); and b, which is ``bits`` unless the
        strategy rounds to other multiples.

    Raises:
        SumOverflowError: a sum is 2^53 units or more, which float64 does not hold exactly.
    """
    if isinstance(strategy, Grid) and len(strategy.axes) == 1:
        (strategy,) = strategy.axes
    own = getattr(strategy, "running_sums", None)
    if own is not None:
        sums, places = own(counts, noise, bits)
        return sums, places
    return sums_of_measurements(strategy, counts, noise, bits)


def sums_of_measurements(
    strategy: LineStrategy | Grid, counts: Integers, noise: NodeNoise, bits: int
) -> tuple[Integers, int]:
    """Return `running_sums` of a strategy that has no such method."""
    if isinstance(strategy, SquareRoot):  # the exact sums, and the noise of its stream
        bits = strategy.strategy.facts.fraction_bits
        sums = np.zeros(strategy.cells + 1, np.int64)
        np.cumsum(counts, out=sums[1:])
        sums[1:] <<= bits
        sums[1:] += strategy.strategy.noise(noise, range(1, strategy.cells + 1))
        return sums, bits
    measured = strategy.measure(counts)
    measured += noise.run(0, range(measured.size)).reshape(measured.shape)
    return rounded_sums(strategy.estimate(measured), bits), bits

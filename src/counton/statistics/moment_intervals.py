"""Intervals of means, variances and covariances, computed from noisy sums, with a proof.

Values lie between -1 and 1. For n rows the sums of 1, x, y, 1 - x^2, 1 - y^2 and x y are released,
each with noise of one distribution. A share is a released sum divided by the released n. ``ratio``
is h / n, where h is the half-width of a weighted sum whose weights have 2-norm 1, and n is the
released number of rows.
"""

# With a stated probability, a weighted sum of these with weights w errs by at most h |w|, where |w|
# is the 2-norm of w. Below, c is the ratio h / n with the released n.
#
# A mean m is a ratio: x - m n is 0, a sum with weights 1 and -m, so |share - m| <= c sqrt(1 + m^2):
# Fieller's set (1954). Around the true means (m, m') these are sums of cells too:
#
#     sum of (x - m)^2 - v n          which is 0 at the variance v,
#     sum of (x - m) (y - m') - k n   which is 0 at the covariance k,
#
# so if the means are known, each value determines how far its released sum may be from 0. The means
# are not known. So a part of the allowed probability of error goes to them: they then lie in
# intervals of half-widths r and r' around their shares, and the interval is the union over these
# (Berger and Boos 1994). A sum around m is a sum around the share of m, plus n times a product of
# differences: for the variance n (m - share)^2, at most n r^2. So the cost is of second order. The
# best part for the means depends on the true number of rows. That number is not known either, so it
# lies in an interval of its own, and the union over all possible parts is taken. The product of two
# differences d and d' is ((d + d')^2 - (d - d')^2) / 4. So for a covariance the sum and the
# difference of the means are used, which halves the cost.

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

#: Part of the allowed probability of error that the number of rows gets. Then (number of rows in
#: standard deviations of its noise, part of the rest that the means get below this number).
NUMBER_FAILS = 1 / 100
_MEANS_FAIL = ((30.0, 1 / 4), (120.0, 1 / 20), (math.inf, 1 / 50))


def error_shares_of_means(least: float, most: float) -> list[float]:
    """Return the fractions of the error probability to try for the intervals of the means.

    The caller returns what contains all intervals. The best fraction depends on n / s, the true
    number of rows over the standard deviation of the released one, of which bounds are known.

    >>> error_shares_of_means(25.0, 40.0), error_shares_of_means(1e3, 2e3)
    ([0.25, 0.05], [0.02])
    """
    return [
        part
        for (before, _), (number, part) in pairwise([(-math.inf, 0.0), *_MEANS_FAIL])
        if least < number and most >= before
    ]


def fieller_ends(share: float, square: float, ratio: float) -> tuple[float, float]:
    """Return Fieller's interval of a ratio of two exact sums, given noisy sums.

    The interval holds all u with |u - share| <= ratio sqrt(u^2 + square). For the true ratio u, a
    weighted sum of the exact sums is 0, so the same weighted sum of the noisy sums is at most its
    half-width; u^2 + square is the squared 2-norm of its weights. The interval is infinite if
    ``ratio`` is 1 or more.

    >>> fieller_ends(0.5, 1.0, 0.0), fieller_ends(0.0, 3.0, 0.5)
    ((0.5, 0.5), (-1.0, 1.0))
    """
    rest = 1 - ratio**2
    if not rest > 0:
        return -math.inf, math.inf
    wide = ratio * math.sqrt(share**2 + square * rest)
    return (share - wide) / rest, (share + wide) / rest


class MeanEnds(NamedTuple):
    """The ends of the interval of a column's mean, and the released ``share``."""

    share: float
    low: float
    high: float

    @classmethod
    def of_share(cls, share: float, ratio: float, lines: int = 1) -> MeanEnds:
        """Compute the interval of a mean or, with ``lines=2``, of a sum or difference of two means.

        >>> MeanEnds.of_share(0.25, 0.0).high, MeanEnds.of_share(0.25, 2.0).low
        (0.25, -1.0)
        """
        low, high = fieller_ends(share, lines, ratio)
        most = float(lines)
        return cls(share, min(max(low, -most), most), max(min(high, most), -most))

    @property
    def off(self) -> float:
        """Largest possible difference of the released ``share`` and the true mean."""
        return max(self.share - self.low, self.high - self.share)

    @property
    def squares(self) -> tuple[float, float]:
        """The smallest and the largest square of a number in the interval."""
        ends = self.low**2, self.high**2
        return 0.0 if self.low < 0 < self.high else min(ends), max(ends)


def variance_ends(value: float, mean: MeanEnds, ratio: float) -> tuple[float, float]:
    """Return the interval of a variance, given its released value and the mean's interval.

    >>> variance_ends(0.25, MeanEnds.of_share(0.0, 0.0), 0.0)
    (0.25, 0.25)
    """
    # The weights of the sums are 1 + m^2 - v, 1 and 2 m, for a mean m and a variance v.
    largest = mean.squares[1]
    moved = 1 + largest
    square = 1 + 4 * largest
    low = moved - fieller_ends(moved - value, square, ratio)[1]
    high = moved - fieller_ends(moved - value - mean.off**2, square, ratio)[0]
    return min(max(low, 0.0), 1.0), max(min(high, 1.0), 0.0)


def covariance_ends(
    value: float, both: MeanEnds, difference: MeanEnds, ratio: float
) -> tuple[float, float]:
    """Return the interval of a covariance, given those of the means' sum and difference.

    >>> covariance_ends(0.25, MeanEnds.of_share(0.5, 0.0, 2), MeanEnds.of_share(0.5, 0.0, 2), 0.0)
    (0.25, 0.25)
    """
    # The weights of the sums are 1, m, m' and m m' - k, for means m, m' and a covariance k.
    least, most = both.squares
    least_apart, most_apart = difference.squares
    low_product = (least - most_apart) / 4
    high_product = (most - least_apart) / 4
    moved = (low_product + high_product) / 2
    aside = ratio * (high_product - low_product) / 2
    square = 1 + (most + most_apart) / 2
    high = moved - value - both.off**2 / 4 - aside
    low = moved - value + difference.off**2 / 4 + aside
    ends = (
        moved - fieller_ends(low, square, ratio)[1],
        moved - fieller_ends(high, square, ratio)[0],
    )
    return min(max(ends[0], -1.0), 1.0), max(min(ends[1], 1.0), -1.0)

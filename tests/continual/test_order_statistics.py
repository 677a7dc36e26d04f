"""The order statistic of drawn ratios that intervals for all steps at once take."""

import math
from fractions import Fraction

from counton.continual.simultaneous_intervals import order_above_quantile


def test_the_order_statistic_lies_above_the_quantile() -> None:
    """Of the binomial law, by its sum: r draws or more below the quantile are unlikely."""
    for runs, level in ((300, 0.9), (1000, 0.95)):
        place = order_above_quantile(runs, level)
        assert place is not None
        tails = [
            sum(
                math.comb(runs, k) * Fraction(level) ** k * (1 - Fraction(level)) ** (runs - k)
                for k in range(least, runs + 1)
            )
            for least in (place, place - 1)
        ]
        assert tails[0] <= 1e-6 < tails[1]

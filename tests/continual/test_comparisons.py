"""Sums with signs, differences and ratios: their intervals hold, and hardly more than that."""

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from some_cases import long

from counton import ZCDP, ContributionBound, Counter, PureDP
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.continual import Releases, interval_halfwidth
from counton.continual.comparisons import Answer, answer, sum_formula
from counton.continual.formulas import Estimate, Term, shifted_ratio
from counton.privacy.guarantees import Guarantee
from counton.strategies import (
    HonakerOnline,
    Independent,
    KAry,
    MultiscaleStrategy,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)

CELLS = 2048
STEPS = 16
LEVEL = 0.9
CASES: list[tuple[StreamStrategy, Guarantee]] = [
    (KAry(STEPS, 3), PureDP(0.5)),
    (SmoothBinary.best(STEPS), ZCDP(0.05)),
    (HonakerOnline(STEPS), PureDP(0.5)),
    (SqrtToeplitz(STEPS), ZCDP(0.05)),
    (MultiscaleStrategy(STEPS), ZCDP(0.05)),
    (Independent(STEPS), PureDP(0.5)),
]


def released(strategy: StreamStrategy, guarantee: Guarantee, each: int) -> Releases:
    """Releases of many cells under a fixed key, each of which counts the same."""
    counter = Counter(
        strategy, guarantee, key=chosen_key(), name="t", shape=(CELLS,),
        contribution=ContributionBound.add_remove(),
    )  # fmt: skip
    return counter.release_many(np.full((STEPS, CELLS), each))


def total_of(releases: Releases, shift: int) -> Any:
    """Totals of a run of cells that begins at one of them, as a function of cell and step."""
    values = releases.values
    if releases._design.strategy.facts.release == "windows":
        values = np.cumsum(values, axis=0)
    return lambda cell, step: float(values[step - 1, shift + cell]) if step else 0.0


def quotient_of(releases: Releases, above: list[Term], below: list[Term], cell: int) -> Estimate:
    """One sum of parts over another, of a run of cells that begins at one of them."""
    of = total_of(releases, cell)
    one, other = (sum_formula(releases._design, parts, of) for parts in (above, below))
    return shifted_ratio(one, other)


def coverage(answers: list[Answer], truth: float) -> float:
    return float(np.mean([one.lower <= truth <= one.upper for one in answers]))


@pytest.mark.parametrize(
    ("strategy", "guarantee"),
    [CASES[0], *(long(*case) for case in CASES[1:])],
    ids=lambda case: type(case).__name__,
)
def test_intervals_of_ratios_have_stated_coverage(
    strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    releases = released(strategy, guarantee, 10)
    above = [Term(1, 4, 16, 0)]
    below = [Term(1, 4, 16, 0), Term(1, 4, 16, 1)]
    answers = [
        answer(quotient_of(releases, above, below, cell), LEVEL) for cell in range(0, CELLS, 8)
    ]
    error = math.sqrt(LEVEL * (1 - LEVEL) / len(answers))
    held = coverage(answers, 0.5)
    assert LEVEL - 3.5 * error <= held <= LEVEL + 0.06 + 3.5 * error


def test_a_divisor_that_may_be_nothing_gives_no_bounds() -> None:
    releases = released(KAry(STEPS, 3), PureDP(0.01), 0)
    found = answer(quotient_of(releases, [Term(1, 0, 16, 0)], [Term(1, 0, 16, 1)], 0))
    assert (found.lower, found.upper) == (-math.inf, math.inf)


def test_intervals_widen_with_simultaneous_comparisons() -> None:
    releases = released(KAry(STEPS, 3), PureDP(0.5), 10)
    of = total_of(releases, 0)
    asked = sum_formula(releases._design, [Term(1, 0, 16, 0), Term(-1, 0, 16, 1)], of)
    widths = [answer(asked, at_once=many).upper for many in (1, 2, 10)]
    assert widths == sorted(set(widths))
    for wrong in (0, True, 1.5):
        with pytest.raises(InvalidInputError, match="at_once"):
            answer(asked, at_once=wrong)  # type: ignore[arg-type]


def test_how_far_the_level_of_wide_laplace_noise_falls_short() -> None:
    """The docstring of `Answer` says a ten-thousandth: two draws of unequal weights, exactly.

    An interval takes the larger of the quantiles of a normal law and of the heaviest node alone;
    where both are equal, near 0.9075, a sum of two nodes of weights 1 and w is beyond either.
    """
    distribution = DiscreteLaplace(Fraction(10**6))
    short = {}
    for level in (0.5, 0.8, 0.9, 0.905, 0.9075, 0.91, 0.92, 0.95, 0.99, 0.999):
        alone = interval_halfwidth(distribution, 1, level) / distribution.std
        quantile = max(NormalDist().inv_cdf((1 + level) / 2), alone)
        for weight in (0.1, 0.3, 0.5, 0.7, 0.9, 0.98):
            half = quantile * math.sqrt(2 * (1 + weight**2))  # scale 1, variance 2
            beyond = math.exp(-half) - weight**2 * math.exp(-half / weight)
            short[level, weight] = beyond / (1 - weight**2) - (1 - level)
    worst = max(short, key=short.__getitem__)
    assert worst == (0.9075, 0.98)
    assert short[worst] == pytest.approx(9e-5, abs=1e-6)
    assert short[0.95, 0.98] < 0

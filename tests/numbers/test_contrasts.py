"""Sums with signs, differences and ratios: their intervals hold, and hardly more than that."""

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray
from once import hierarchy
from trees import covariance_of, sum_of

from counton import ZCDP, Contribution, Counter, PureDP
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInput
from counton.numbers import Releases, interval_halfwidth
from counton.numbers.contrasts import Answer, answer, sum_formula
from counton.numbers.formulas import Estimate, Term, shifted_ratio
from counton.privacy.guarantees import Guarantee
from counton.strategies import (
    HonakerOnline,
    Independent,
    KAry,
    MultiscaleInterpolation,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from counton.tables import Tree

CELLS, STEPS, LEVEL = 2048, 16, 0.9
CASES: list[tuple[StreamStrategy, Guarantee]] = [
    (KAry(STEPS, 3), PureDP(0.5)),
    (SmoothBinary.best(STEPS), ZCDP(0.05)),
    (HonakerOnline(STEPS), PureDP(0.5)),
    (SqrtToeplitz(STEPS), ZCDP(0.05)),
    (MultiscaleInterpolation(STEPS), ZCDP(0.05)),
    (Independent(STEPS), PureDP(0.5)),
]


def released(strategy: StreamStrategy, guarantee: Guarantee, each: int) -> Releases:
    """Releases of many cells under a fixed key, each of which counts the same."""
    counter = Counter(
        strategy, guarantee, key=chosen_key(), name="t", shape=(CELLS,),
        contribution=Contribution.add_remove(),
    )  # fmt: skip
    return counter.release_many(np.full((STEPS, CELLS), each))


def total_of(releases: Releases, shift: int) -> Any:
    """Totals of a run of cells that begins at one of them, as a function of cell and step."""
    values = releases.values
    if releases._design.strategy.facts.workload == "windows":
        values = np.cumsum(values, axis=0)
    return lambda cell, step: float(values[step - 1, shift + cell]) if step else 0.0


def quotient_of(releases: Releases, above: list[Term], below: list[Term], cell: int) -> Estimate:
    """One sum of parts over another, of a run of cells that begins at one of them."""
    of = total_of(releases, cell)
    one, other = (sum_formula(releases._design, parts, of) for parts in (above, below))
    return shifted_ratio(one, other)


def sums_of_all_cells(releases: Releases, parts: list[Term]) -> NDArray[np.float64]:
    """The sums of the parts, with each cell in the place of the first one."""
    values = np.asarray(releases.values, float)
    if releases._design.strategy.facts.workload == "windows":
        values = np.cumsum(values, axis=0)
    totals = np.vstack([np.zeros(CELLS), values])
    first = np.arange(CELLS - 1)
    found = np.zeros(len(first))
    for part in parts:
        found += part.weight * (totals[part.stop] - totals[part.start])[first + part.cell]
    return found


def coverage(answers: list[Answer], truth: float) -> float:
    return float(np.mean([one.lower <= truth <= one.upper for one in answers]))


@pytest.mark.parametrize(("strategy", "guarantee"), CASES, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize(
    "parts",
    [
        [Term(1, 0, 16, 0), Term(-1, 0, 16, 1)],
        [Term(1, 8, 16, 0), Term(-1, 0, 8, 0)],
        [Term(1, 3, 7, 0), Term(-2.5, 3, 7, 1), Term(0.5, 0, 16, 0)],
    ],
    ids=["groups", "windows", "weights"],
)
@pytest.mark.slow
def test_sums_with_signs_hold_as_often_as_promised(
    strategy: StreamStrategy, guarantee: Guarantee, parts: list[Term]
) -> None:
    releases = released(strategy, guarantee, 40)
    truth = sum(40 * part.weight * (part.stop - part.start) for part in parts)
    answers = [
        answer(sum_formula(releases._design, parts, total_of(releases, cell)), LEVEL)
        for cell in range(32)
    ]
    # Cells have one law: of all others the value is enough.
    half = answers[0].upper - answers[0].value
    assert [one.upper - one.value for one in answers] == pytest.approx([half] * 32)
    assert [one.value - one.lower for one in answers] == pytest.approx([half] * 32)
    values = sums_of_all_cells(releases, parts)
    assert [one.value for one in answers] == pytest.approx(values[:32])
    noise = values - truth
    error = math.sqrt(LEVEL * (1 - LEVEL) / (len(noise) / 2))  # neighbours have a cell in common
    held = np.mean(np.abs(noise) <= half)
    assert held >= LEVEL - 3.5 * error
    assert held <= LEVEL + 0.035 + 3.5 * error  # wide ones would hold too
    assert answers[0].std == pytest.approx(noise.std(), rel=0.12)
    # with power: intervals a quarter shorter do not hold as often as promised
    assert np.mean(np.abs(noise) <= 0.75 * half) < LEVEL - 3 * error


@pytest.mark.parametrize(("strategy", "guarantee"), CASES, ids=lambda case: type(case).__name__)
@pytest.mark.slow
def test_ratios_hold_as_often_as_promised(strategy: StreamStrategy, guarantee: Guarantee) -> None:
    releases = released(strategy, guarantee, 10)
    above, below = [Term(1, 4, 16, 0)], [Term(1, 4, 16, 0), Term(1, 4, 16, 1)]
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


def test_more_at_once_are_wider() -> None:
    releases = released(KAry(STEPS, 3), PureDP(0.5), 10)
    of = total_of(releases, 0)
    asked = sum_formula(releases._design, [Term(1, 0, 16, 0), Term(-1, 0, 16, 1)], of)
    widths = [answer(asked, at_once=many).upper for many in (1, 2, 10)]
    assert widths == sorted(set(widths))
    for wrong in (0, True, 1.5):
        with pytest.raises(InvalidInput, match="at_once"):
            answer(asked, at_once=wrong)  # type: ignore[arg-type]


def test_signs_of_a_hierarchy_are_not_ignored() -> None:
    tree = Tree.from_leaves({"state": ["a", "b"]}, ["state"])
    release = hierarchy([30, 4], tree, ZCDP(2), chosen_key())
    value, std = sum_of(release, {"a": 1, "b": -1})
    assert value == release["a"] - release["b"]
    of = [[covariance_of(release, one, other) for other in "ab"] for one in "ab"]
    assert std == pytest.approx(math.sqrt(of[0][0] + of[1][1] - 2 * of[0][1]))
    ends: Any = [release.number_of(name).formula for name in "ab"]
    assert (ends[0] - ends[1]).std == pytest.approx(std)


def test_how_far_the_level_of_wide_laplace_noise_falls_short() -> None:
    """The docstring of `Answer` says a ten-thousandth: two draws of unequal weights, exactly.

    An interval takes the larger of the quantiles of a normal law and of the heaviest node alone;
    where both are equal, near 0.9075, a sum of two nodes of weights 1 and w is beyond either.
    """
    law = DiscreteLaplace(Fraction(10**6))
    short = {}
    for level in (0.5, 0.8, 0.9, 0.905, 0.9075, 0.91, 0.92, 0.95, 0.99, 0.999):
        alone = interval_halfwidth(law, 1, level) / law.std
        quantile = max(NormalDist().inv_cdf((1 + level) / 2), alone)
        for weight in (0.1, 0.3, 0.5, 0.7, 0.9, 0.98):
            half = quantile * math.sqrt(2 * (1 + weight**2))  # scale 1, variance 2
            beyond = math.exp(-half) - weight**2 * math.exp(-half / weight)
            short[level, weight] = beyond / (1 - weight**2) - (1 - level)
    worst = max(short, key=short.__getitem__)
    assert worst == (0.9075, 0.98)
    assert short[worst] == pytest.approx(9e-5, abs=1e-6)
    assert short[0.95, 0.98] < 0

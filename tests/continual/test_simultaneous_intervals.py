"""Several answers hold together as often as they say, and are narrower than by Bonferroni."""

import math
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray

from counton import ZCDP, ContributionBound, Counter, PureDP
from counton.base.errors import InvalidInputError
from counton.continual.comparisons import Answer, answer
from counton.continual.design import Design
from counton.continual.formulas import CellSum, Formula, Term, quotient
from counton.continual.simultaneous_intervals import joint_factor, jointly
from counton.privacy import Guarantee
from counton.strategies import Binary, Independent, SqrtToeplitz, StreamStrategy

STEPS = 12
GROUPS = 3
DRAWS = 4000
LEVEL = 0.9
#: Three standard deviations of how many of so many draws hold.
BAND = 3 * math.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
CASES: list[tuple[StreamStrategy, Guarantee]] = [
    (Binary(STEPS), PureDP("0.2")),
    (SqrtToeplitz(STEPS), ZCDP("0.01")),
    (Independent(STEPS), PureDP("0.2")),
]
#: Each as pairs of a group, the step before and the last step, which are added and taken away.
DIFFERENCES = [((0, 0, 12), (1, 0, 12)), ((0, 0, 12), (2, 0, 12)), ((1, 0, 12), (2, 0, 12))]
WEEKS = [((0, 4, 8), (0, 0, 4)), ((0, 8, 12), (0, 4, 8)), ((0, 8, 12), (0, 0, 4))]


def noise_of(strategy: StreamStrategy, guarantee: Guarantee) -> tuple[Design, NDArray[Any]]:
    """Noise of totals by step, group and draw, after a step 0 without."""
    counter = Counter(
        strategy, guarantee, key=chosen_key(), name="t", shape=(GROUPS * DRAWS,),
        contribution=ContributionBound.add_remove(),
    )  # fmt: skip
    values = counter.release_many(np.zeros((STEPS, GROUPS * DRAWS), np.int64)).values
    if strategy.facts.release == "windows":
        values = np.cumsum(values, axis=0)
    noise = values.reshape(STEPS, GROUPS, DRAWS).astype(float)
    return counter.design, np.concatenate([np.zeros((1, GROUPS, DRAWS)), noise])


def formula(terms: Design, pair: Any, value: float = 0.0) -> Formula:
    parts = [
        Term(weight, start, stop, cell)
        for weight, (cell, start, stop) in zip((1.0, -1.0), pair, strict=True)
    ]
    return Formula.from_cell_sum(CellSum(value, terms, tuple(parts)))


@pytest.mark.parametrize("pairs", [DIFFERENCES, WEEKS], ids=["groups", "weeks"])
@pytest.mark.parametrize(("strategy", "guarantee"), CASES, ids=lambda case: type(case).__name__)
def test_joint_intervals_have_stated_coverage(
    strategy: StreamStrategy, guarantee: Guarantee, pairs: list[Any]
) -> None:
    terms, noise = noise_of(strategy, guarantee)
    asked = [formula(terms, pair) for pair in pairs]
    found = jointly([answer(one, LEVEL) for one in asked])
    halves = np.array([one.upper for one in found])
    wide = np.array([one.interval(1 - (1 - LEVEL) / 3)[1] for one in asked])
    assert (halves < wide).all()
    errors = np.array([
        [noise[stop, cell] - noise[start, cell] for cell, start, stop in pair] for pair in pairs
    ])  # fmt: skip
    largest = np.abs(errors[:, 0] - errors[:, 1])
    held = float((largest <= halves[:, None]).all(axis=0).mean())
    assert LEVEL - BAND < held < LEVEL + 0.015 + BAND
    shorter = float((largest <= 0.8 * halves[:, None]).all(axis=0).mean())
    assert shorter < LEVEL - BAND
    bonferroni = float((largest <= wide[:, None]).all(axis=0).mean())
    assert bonferroni > held


def test_joint_factor_uses_correlation_of_answers() -> None:
    terms, _ = noise_of(*CASES[0])
    one = formula(terms, DIFFERENCES[0])
    half = np.array([one.half(1 - (1 - LEVEL) / 2)] * 2)
    same = joint_factor([one, one], half, LEVEL)  # miss together
    other = joint_factor([one, formula(terms, ((2, 0, 12), (2, 0, 4)))], half, LEVEL)
    assert same * half[0] == pytest.approx(one.half(LEVEL), rel=0.05)
    assert same < 0.95 * other
    streams = joint_factor([one, formula(noise_of(*CASES[1])[0], DIFFERENCES[0])], half, LEVEL)
    assert streams != other


def test_quotients_keep_their_share_of_union_bound() -> None:
    terms, _ = noise_of(*CASES[0])
    total = Formula.from_cell_sum(CellSum(9000.0, terms, (Term(1.0, 0, 12, 0),)))
    mean = quotient(Formula.from_cell_sum(CellSum(4000.0, terms, (Term(1.0, 0, 12, 1),))), total)
    found = jointly([answer(one, LEVEL) for one in (mean, total, -total)])
    each = 1 - (1 - LEVEL) / 3
    assert found[0].interval() == mean.interval(each)
    # Both miss together: as one with what two may miss.
    assert found[1].upper - 9000 == pytest.approx(total.half(1 - 2 * (1 - LEVEL) / 3), rel=0.05)
    picked = answer(total, LEVEL, at_once=3)
    assert jointly([picked])[0].interval() == picked.interval()
    many = jointly([picked, answer(mean, LEVEL)])
    assert many[0].interval() == total.interval(1 - (1 - LEVEL) / 4)
    for wrong in ([], [answer(mean, 0.9), answer(mean, 0.95)], [Answer(1, 1, 0, 2, 0.9)]):
        with pytest.raises(InvalidInputError, match="have different levels"):
            jointly(wrong)
    with pytest.raises(InvalidInputError, match="not a sum of cells"):
        joint_factor([mean], np.ones(1), LEVEL)

"""How far a unit moves C x, by brute force in exact fractions, and that noise is as wide as that.

The theorems of ``proofs/`` ask for it: whatever change d a contribution allows, the sum over nodes
of abs(C d) / scale is epsilon at most, or that of (C d)^2 / (2 variance) rho at most.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from by_reference import described, known_key, measured

from counton import ZCDP, Counter, PureDP
from counton.base.errors import InvalidInputError
from counton.continual.sensitivity import sensitivity_of
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.unit_changes import EventsPerStep
from counton.strategies import KAry, StreamStrategy, public_strategies
from proofs import reference

#: Steps and cells within which every change is tried.
STEPS = 3
CELLS = 2
CONTRIBUTIONS = (
    ContributionBound.add_remove(), ContributionBound.add_remove(cells=2, steps=2, separation=2),
    ContributionBound.add_remove(cells=1, steps=3),
    ContributionBound.add_remove(cells=2, steps=2, every=2),
    ContributionBound.replace(cells=1), ContributionBound.events(3, most_a_step=2),
    ContributionBound.events(2, once="group"), ContributionBound.values(-3, 12, resolution="0.05"),
)  # fmt: skip
EXAMPLES = [
    pytest.param(strategy, horizon, id=f"{strategy}-{horizon}")
    for horizon in (2, 3, 9)
    for kind in public_strategies()
    for strategy in kind.examples(horizon)
]
GUARANTEES: tuple[Guarantee, ...] = (PureDP(1), ZCDP("0.02"))


def designs(strategy: StreamStrategy) -> Iterator[tuple[Counter, ContributionBound]]:
    """Counters that the strategy can have."""
    for guarantee in GUARANTEES:
        for contribution in CONTRIBUTIONS:
            terms = {"contribution": contribution, "shape": (CELLS,), "name": "it"}
            try:
                yield Counter(strategy, guarantee, key=known_key(), **terms), contribution  # type: ignore[arg-type]
            except InvalidInputError:
                continue


Moved = Callable[[Counter], tuple[Fraction, Fraction]]


def moved(mine: reference.Strategy, last: int) -> Moved:
    """The largest 1-norm and squared 2-norm of C d, by brute force over changes d.

    A contribution's are computed once, whichever guarantees it meets: neither hangs on them.
    """
    found: dict[str, tuple[Fraction, Fraction]] = {}

    def norms(counter: Counter) -> tuple[Fraction, Fraction]:
        told = described(counter.design)["contribution"]
        if str(told) not in found:
            found[str(told)] = reference.norms(mine, reference.changes(told, CELLS, last), last)
        return found[str(told)]

    return norms


def loss(counter: Counter, l1: Fraction, l2_squared: Fraction) -> tuple[Fraction, Fraction] | None:
    """What such a movement loses, in exact fractions, and what is promised; None: no formula."""
    told = described(counter.design)
    family, width = reference.law_of(told["law"])
    promised = told["guarantee"]
    if family == "laplace" and "epsilon" in promised:
        return l1 / width, Fraction(promised["epsilon"])
    if family == "gaussian" and "rho" in promised:
        return l2_squared / (2 * width), Fraction(promised["rho"])
    return None


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_noise_is_as_wide_as_every_unit_needs(strategy: StreamStrategy, horizon: int) -> None:
    norms = moved(measured(strategy), min(STEPS, horizon))
    for counter, contribution in designs(strategy):
        l1, l2_squared = norms(counter)
        claimed = sensitivity_of(counter.design.strategy, contribution, counter.shape)
        assert l1 <= claimed.l1, contribution
        assert l2_squared <= claimed.l2_squared, contribution
        found = loss(counter, l1, l2_squared)
        assert found is None or found[0] <= found[1], contribution


def test_noise_that_is_a_little_narrower_is_too_little() -> None:
    """The test above has power: claims are attained, and noise is no wider than it has to be."""
    tried = 0
    strategy = KAry(STEPS, 3)
    norms = moved(measured(strategy), STEPS)
    for counter, contribution in designs(strategy):
        found = loss(counter, *norms(counter))
        if found is not None and not isinstance(contribution.occurrences, EventsPerStep):
            assert found[0] * Fraction(1001, 1000) > found[1], contribution
            tried += 1
    assert tried > len(CONTRIBUTIONS)

"""Why the address of a noise has no digest of the data in it: going back would tell everything.

Two runs of one step, as after a state was put back. The noise is a random function of the run's
address; with a digest of the data in it, equal data give equal noise.
"""

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

M = 8  # noise is uniform on 0 ... M - 1

NoiseDistribution = dict[tuple[int, int], Fraction]


def outputs(first: int, second: int, *, digested: bool) -> NoiseDistribution:
    """Law of what two runs show, which counted ``first`` and ``second``, over all functions."""
    addresses = [first, second] if digested else ["run 1", "run 2"]
    names = sorted(set(addresses), key=str)
    found: Counter[tuple[int, int]] = Counter()
    for noise in product(range(M), repeat=len(names)):
        drawn = dict(zip(names, noise, strict=True))
        found[first + drawn[addresses[0]], second + drawn[addresses[1]]] += 1
    return {shown: Fraction(times, M ** len(names)) for shown, times in found.items()}


def advantage(one: NoiseDistribution, other: NoiseDistribution) -> Fraction:
    """How much better than by guessing the two can be told apart: their total variation."""
    none = Fraction(0)
    return sum((abs(one.get(x, none) - other.get(x, none)) for x in {*one, *other}), none) / 2


def equal(distribution: NoiseDistribution) -> Fraction:
    return sum(
        (chance for (first, second), chance in distribution.items() if first == second), Fraction(0)
    )


@pytest.mark.parametrize("count", [0, 3])
def test_digest_in_address_reveals_changed_data(count: int) -> None:
    without, with_row = (outputs(count, count + more, digested=True) for more in (0, 1))
    assert equal(without) == 1
    assert equal(with_row) == Fraction(M - 1, M**2)
    assert advantage(without, with_row) == 1 - Fraction(M - 1, M**2)
    fresh = [outputs(count, count + more, digested=False) for more in (0, 1)]
    assert advantage(*fresh) == Fraction(1, M)  # what one release costs: the row is in one

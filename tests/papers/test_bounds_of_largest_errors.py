"""Bounds on the largest error of every mechanism: the streams of their proofs, one by one."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from papers import lower_bounds as bounds
from papers.constants.numbers import least_error_of_minimum_cut
from papers.lower_bounds import least_error_of_cells, least_error_on_coin_flips


def test_least_error_on_coin_flips_uses_distance_of_sums() -> None:
    """The distance in `least_error_on_coin_flips`, over all strings of a block."""
    for size, changed in ((5, 1), (6, 2), (7, 3)):
        distribution: dict[tuple[int, ...], float] = dict.fromkeys(
            product((0, 1), repeat=size), 0.0
        )
        for flips in distribution:
            zeros = [i for i in range(size) if not flips[i]]
            ways = list(combinations(zeros, changed)) or [()]
            for ones in ways:
                moved = tuple(1 if i in ones else bit for i, bit in enumerate(flips))
                distribution[moved] += 1 / len(ways) / 2**size
        apart = sum(max(mass - 0.5**size, 0.0) for mass in distribution.values())
        masses = sorted((math.comb(size, i) / 2**size for i in range(size + 1)), reverse=True)
        stuck = sum(math.comb(size, i) / 2**size for i in range(size - changed + 1, size + 1))
        assert apart <= sum(masses[:changed]) + stuck
        assert apart > 0.8 * sum(masses[:changed]) - stuck
    # 8,760 steps in 180 blocks of 48: four ones more are told apart, at epsilon = 1, five are not.
    assert least_error_on_coin_flips(8760, 1) == 2.0
    assert least_error_on_coin_flips(8760, 0.1) > 3 * least_error_on_coin_flips(8760, 1)
    assert least_error_on_coin_flips(10, 1) == 0.0


@pytest.mark.parametrize("changed", [1, 2, 3, 10, 65, 333, 4096])
def test_a_distance_of_blocks_has_the_same_terms_and_integrals(changed: int) -> None:
    size = np.unique(np.floor(np.geomspace(changed, 1e4 * changed**2, 200)))
    terms = bounds._distance_by_terms(changed, size)
    integrals = bounds._distance_by_integrals(changed, size)
    proves = integrals < 0.75
    assert proves.sum() > 100
    assert terms[~proves].min(initial=1) >= 0.75
    assert terms[proves] == pytest.approx(integrals[proves], rel=1e-10)
    exact = [
        sum(sorted(math.comb(int(n), i) for i in range(int(n) + 1))[-changed:])
        + sum(math.comb(int(n), i) for i in range(changed))
        for n in size[size < 99]
    ]
    expected = [share / 2**n for share, n in zip(exact, size, strict=False)]
    assert terms[: len(exact)] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("horizon", [1, 3, 100, 8760, 10**9, 2**256])
@pytest.mark.parametrize("epsilon", ["10", "1", "0.1", "0.01"])
def test_least_error_on_coin_flips_is_same_for_both_summations(
    horizon: int, epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = least_error_on_coin_flips(horizon, epsilon)
    monkeypatch.setattr(bounds, "_FEW_TERMS", 0)
    assert least_error_on_coin_flips(horizon, epsilon) == found


def test_largest_totals_tell_all_vectors_apart() -> None:
    """The streams of `least_error_of_minimum_cut`: no answer is within k / 2 of two of them."""
    changed = 2
    bits = 3
    totals = []
    streams = []
    for vector in product((0, 1), repeat=bits):
        steps = [np.array(vector)] * changed
        for j in range(bits):
            steps += [np.arange(bits) >= j] * (changed * (j > 0)) + [np.arange(bits) == j] * changed
        streams.append(np.array(steps).astype(int))
        totals.append(streams[-1].cumsum(axis=0).max(axis=1))
    for (a, of_a), (b, of_b) in combinations(zip(streams, totals, strict=True), 2):
        assert len(a) == 2 * bits * changed
        assert (a != b).any(axis=1).sum() == changed
        assert np.abs(of_a - of_b).max() >= changed
    # 18 steps and 27 bits fit 1000 steps: 27 ln 2 - 0.41 > 18 and 2 * 27 * 18 <= 1000.
    assert least_error_of_minimum_cut(100, 1000, 1) == 9.0
    assert least_error_of_minimum_cut(3, 10**6, 1) == 0.0 < least_error_of_minimum_cut(5, 100, 1)


def test_letters_in_blocks_bound_error_by_distance() -> None:
    changed = 3
    letters = 4
    steps = 9
    counts = []
    for letter, block in product(range(1, letters), range(steps // changed)):
        text = np.zeros(steps, int)
        text[changed * block :][:changed] = letter
        counts.append((text[:, None] == np.arange(1, letters)).cumsum(axis=0))
    for one, other in combinations(counts, 2):
        assert np.abs(one - other).max() >= changed
    assert 3 * 0.29 < math.log(len(counts) * 2 / 3) < 3 * 0.6
    assert least_error_of_cells(letters - 1, steps, 0.29) >= 1.5
    assert least_error_of_cells(letters - 1, steps, 0.6) < 1.5

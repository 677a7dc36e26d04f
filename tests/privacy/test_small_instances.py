"""What docs/guarantees/verification.md says is tried: all small instances, exactly.

Three statements on which everything else stands: a ledger's filter holds however the next guarantee
is chosen, rounding commutes with whole numbers, and the samplers decide by the law alone. No number
here is a float; each check comes with wrong variants that it finds.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from counton.base.distributions import DiscreteGaussian
from counton.noise.blocks import BlockAddress
from counton.noise.samplers import (
    UNDECIDED,
    CumulativeDistribution,
    GaussianBlocks,
    GaussianBlockSampler,
    InverseTable,
    SignedGeometric,
)
from counton.privacy import ZCDP, AddableGuarantee, ApproxDP, PureDP
from counton.privacy.filter import PrivacyFilter, RenyiOrder
from counton.strategies.rounding import round_bits
from counton.strategies.streams.block_tree import _quotients

# ------------------------------------------------------------------------------------ the filter
#: A unit of epsilon: just above log 2, so that its randomised response has odds of two to one.
UNIT = Fraction("0.69314718056")


class Way(NamedTuple):
    """A guarantee that may be asked for: coins with odds 2^k, after telling all with ``told``."""

    guarantee: AddableGuarantee
    k: int
    told: Fraction = Fraction(0)


def most_lost(start: PrivacyFilter, limit: int, ways: Sequence[Way], most: int) -> Fraction:
    """The largest P(S) - 2^limit Q(S) over all ways of choosing by what was seen, and all events S.

    Exact: losses are whole multiples of log 2, chances are rational. What a filter lets through
    hangs on how often each way was taken; no way is taken more than ``most`` times.
    """

    @cache
    def spent(counts: tuple[int, ...]) -> PrivacyFilter:
        for number, count in enumerate(counts):
            if count:
                before = (*counts[:number], count - 1, *counts[number + 1 :])
                return spent(before).after(ways[number].guarantee)
        return start

    @cache
    def value(counts: tuple[int, ...], loss: int) -> Fraction:
        best = max(Fraction(0), 1 - Fraction(2) ** (limit - loss))
        for number, way in enumerate(ways):
            after = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
            if after[number] > most or not spent(after).within:
                continue
            odds = Fraction(2) ** way.k
            up = value(after, loss + way.k)
            down = value(after, loss - way.k)
            onward = (odds * up + down) / (odds + 1)
            best = max(best, way.told + (1 - way.told) * onward)
        return best

    return value((0,) * len(ways), 0)


def ways_of(delta: Fraction) -> list[Way]:
    """Pure, concentrated and approximate ones, small and large."""
    rho = UNIT**2 / 2  # of the coin with odds of two to one
    return [
        Way(PureDP(UNIT), 1), Way(PureDP(2 * UNIT), 2), Way(ZCDP(rho), 1),
        Way(ApproxDP(UNIT, delta / 2), 1, delta / 2),
    ]  # fmt: skip


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("delta", [Fraction(1, 4), Fraction(1, 100)])
@pytest.mark.parametrize("share", [None, Fraction(1)])
def test_no_choice_exceeds_an_approximate_budget(
    units: int, delta: Fraction, share: Fraction | None
) -> None:
    budget = ApproxDP(units * UNIT, delta)
    ways = ways_of(delta)
    for first in ways:
        start = PrivacyFilter.start(
            budget, [first.guarantee], None if share is None else share * delta
        )
        assert most_lost(start, units, ways, most=4) <= delta


@pytest.mark.parametrize("units", [1, 3, 6])
def test_no_choice_exceeds_a_pure_budget(units: int) -> None:
    ways = [Way(PureDP(k * UNIT), k) for k in (1, 2, 3)]
    start = PrivacyFilter.start(PureDP(units * UNIT))
    assert most_lost(start, units, ways, most=6) == 0
    assert most_lost(start, units - 1, ways, most=6) > 0  # and all of it is used
    late = PrivacyFilter.start(PureDP((units + 1) * UNIT))  # which refuses one spend too late
    assert most_lost(late, units, ways, most=7) > 0


def test_filters_that_are_wrong_are_found() -> None:
    delta = Fraction(1, 4)
    budget = ApproxDP(3 * UNIT, delta)
    ways = ways_of(delta)
    start = PrivacyFilter.start(budget, [ways[2].guarantee])
    assert most_lost(start, 3, ways, most=6) <= delta
    free = start._replace(approximate_delta=Fraction(2))  # deltas of guarantees cost nothing
    assert most_lost(free, 3, ways, most=6) > delta
    whole = tuple(one._replace(loss=2 * one.loss) for one in start.orders)
    assert most_lost(start._replace(orders=whole), 3, ways, most=6) > delta
    orders = tuple(RenyiOrder.within(budget, one.order, one.delta) for one in start.orders)
    assert orders == start.orders


# -------------------------------------------------------------------------------------- rounding
ROUNDINGS: dict[str, Callable[[int, int], int]] = {
    # A value in units of 1 / parts, rounded to whole numbers or to multiples of 2^-24.
    "shifts of bits": lambda value, bits: int(round_bits(np.array([value]), bits)[0]),
    "quotients": lambda value, weight: int(
        _quotients(np.array([[value]]), np.array([[weight]]))[0, 0]
    ),
}


def commutes(
    rounded: Callable[[int, int], int], parts: Callable[[int], int], grid: int
) -> list[tuple[int, int, int]]:
    """Values, parts and whole numbers for which rounding the sum is not the sum of the rounded."""
    return [
        (value, one, whole)
        for one in range(1, 6)
        for value in range(-70, 71)
        for whole in (-3, -2, -1, 1, 2, 5)
        if rounded(value + whole * parts(one), one) != rounded(value, one) + whole * grid
    ]


def test_rounding_commutes_with_whole_numbers() -> None:
    assert not commutes(ROUNDINGS["shifts of bits"], lambda bits: 2**bits, 1)
    assert not commutes(ROUNDINGS["quotients"], lambda weight: weight, 2**24)


def test_rounding_halves_to_even_or_towards_zero_does_not() -> None:
    to_even = commutes(lambda v, bits: round(Fraction(v, 2**bits)), lambda bits: 2**bits, 1)
    to_zero = commutes(lambda v, bits: int(Fraction(v, 2**bits)), lambda bits: 2**bits, 1)
    assert to_even
    assert to_zero


# -------------------------------------------------------------------------------------- samplers
BITS = 240


def power(rate: Fraction, n: int) -> tuple[int, int]:
    """Integers around exp(-n rate) 2^BITS: the alternating series of exp, then products."""
    base = _exponential(rate)
    low = 1 << BITS
    high = 1 << BITS
    for digit in bin(n)[2:]:
        low = low * low >> BITS
        high = -(-high * high >> BITS)
        if digit == "1":
            low = low * base[0] >> BITS
            high = -(-high * base[1] >> BITS)
    return low, high


@cache
def _exponential(rate: Fraction) -> tuple[int, int]:
    assert 0 < rate <= 2
    term = Fraction(1)
    total = Fraction(0)
    sums = list[Fraction]()
    for number in range(1, 120):
        total += term
        sums.append(total)
        term *= -rate / number
    low, high = sorted(sums[-2:])
    return int(low * 2**BITS), int(high * 2**BITS) + 1


Bracket = tuple[Fraction, Fraction]


def laplace(scale: Fraction) -> Callable[[int], Bracket]:
    """F of the discrete Laplace law, between two fractions."""

    def cumulative(value: int) -> Bracket:
        q = [Fraction(end, 1 << BITS) for end in power(1 / scale, 1)]
        one = Fraction(1)
        n = -value if value < 0 else value + 1
        low, high = (Fraction(end, 1 << BITS) for end in power(1 / scale, n))
        tail = low / (1 + q[1]), high / (1 + q[0])
        return tail if value < 0 else (one - tail[1], one - tail[0])

    return cache(cumulative)


def gaussian(sigma_squared: Fraction, reach: int) -> Callable[[int], Bracket]:
    """F of the discrete Gaussian law, between two fractions; beyond the reach next to nothing."""
    weights = {x: power(1 / (2 * sigma_squared), x * x) for x in range(-reach, reach + 1)}
    beyond = 4 * reach * power(1 / (2 * sigma_squared), reach * reach)[1]
    whole = sum(low for low, _ in weights.values()), sum(high for _, high in weights.values())

    def cumulative(value: int) -> Bracket:
        part = [sum(weights[x][end] for x in range(-reach, value + 1)) for end in (0, 1)]
        return Fraction(part[0], whole[1] + beyond), Fraction(part[1] + beyond, whole[0])

    return cache(cumulative)


SMALL: dict[str, tuple[CumulativeDistribution, Callable[[int], Bracket]]] = {
    **{f"Laplace {s}": (SignedGeometric(Fraction(s), 0), laplace(Fraction(s)))
       for s in ("1/2", "1", "7/3", "5")},
    **{f"Gaussian {s}": (GaussianBlocks(Fraction(s), 0), gaussian(Fraction(s), reach))
       for s, reach in (("1/3", 9), ("1", 16), ("5", 36))},
}  # fmt: skip


def undecided_or_right(table: InverseTable, cumulative: Callable[[int], Bracket]) -> int:
    """Look at all strings of sixteen bits; how many do not decide.

    Raises:
        AssertionError: a string gives a value, though numbers with it have another one.
    """
    for sixteen, value in enumerate(table.cells.tolist()):
        if value != UNDECIDED:
            assert cumulative(value - 1)[1] <= Fraction(sixteen, 2**16), (sixteen, value)
            assert Fraction(sixteen + 1, 2**16) <= cumulative(value)[0], (sixteen, value)
    return int((table.cells == UNDECIDED).sum())


@pytest.mark.parametrize("distribution", SMALL)
def test_sixteen_bits_decide_as_distribution_requires(distribution: str) -> None:
    """And floors of 64 bits are those of the law, so that what follows decides too."""
    sampler, cumulative = SMALL[distribution]
    table = InverseTable(sampler)
    assert 0 < undecided_or_right(table, cumulative) <= len(table._floors) + 1
    for number, floor in enumerate(table._floors.tolist()[:-1]):
        low, high = cumulative(table.lowest + number)
        assert floor <= low * 2**64, (number, floor)
        assert high * 2**64 <= floor + 1, (number, floor)


class Bits:
    """A source whose next bits are chosen: those after the first sixteen, then all alike."""

    def __init__(self, next_48: Any, then: int) -> None:
        self._next = np.asarray(next_48, np.uint64)
        self._then = then

    def refine(self, _address: Any, rows: Any, _columns: Any, lane: int) -> Any:
        every = (1 << 64) - 1 if self._then else 0
        words = np.full((len(rows), 2), every, np.uint64)
        if lane == 1:
            words[:, 0] = self._next << np.uint64(16) | np.uint64(every & 0xFFFF)
        return words


@pytest.mark.parametrize("distribution", SMALL)
@pytest.mark.parametrize("then", [0, 1])
def test_bits_around_thresholds_decide_as_distribution_requires(
    distribution: str, then: int
) -> None:
    """Numbers 2^-64 below a floor, at it and above it, followed by zeros or ones."""
    sampler, cumulative = SMALL[distribution]
    table = InverseTable(sampler)
    floors = table._floors.tolist()[:-1]
    for floor, apart in product(floors, (-1, 0, 1)):
        leading = floor + apart
        if not 0 < leading + then < 2**64:  # 0 and 1 themselves have no end of bits
            continue
        source: Any = Bits([leading & (2**48 - 1)], then)
        place = np.zeros(1, np.uint64)
        first = np.array([leading >> 48], np.uint64)
        value = int(table.resolve(source, BlockAddress(0, 0), place, place, first)[0])
        number = Fraction(leading + then, 2**64)  # or next to nothing less
        assert cumulative(value - 1)[0] <= number, (floor, apart)
        assert number <= cumulative(value)[1], (floor, apart)


def test_tables_that_are_wrong_are_found() -> None:
    cumulative = laplace(Fraction(5))
    narrow = InverseTable(SignedGeometric(Fraction(99, 20), 0))  # one percent
    with pytest.raises(AssertionError):
        undecided_or_right(narrow, cumulative)
    rounded = InverseTable(SignedGeometric(Fraction(5), 0))  # what is open is decided all the same
    open_ones = rounded.cells == UNDECIDED
    rounded.cells[open_ones] = np.roll(rounded.cells, 1)[open_ones]
    with pytest.raises(AssertionError):
        undecided_or_right(rounded, cumulative)


def test_rejection_sampler_accepts_no_rejected_string() -> None:
    """All strings of sixteen bits, for places in blocks of a Gaussian law that is drawn by blocks.

    Those below `_surely_accepted` are accepted unseen; of all others more bits are read.
    """
    variance = Fraction(300**2)
    sampler = GaussianBlockSampler(DiscreteGaussian(variance))
    size = 1 << sampler._bits
    rate = 1 / (2 * variance)
    assert size > 1

    def chance(value: int) -> tuple[int, int]:
        near = sampler._distribution.nearest(value // size)
        return power(rate, value * value - near * near)

    too_many = 0
    for block in (*range(-40, 40), *range(-900, 900, 60)):
        sure = sampler._surely_accepted(block)
        for value in range(block * size, (block + 1) * size):
            assert sure << (BITS - 16) <= chance(value)[0], value
            too_many += sure + 2 << (BITS - 16) > chance(value)[1]
    assert too_many > 50  # with two strings more it would not hold
    every = np.arange(2**16, dtype=np.uint64)
    rows = np.zeros_like(every)
    for value, then in product((1, 2, 301, 903, -1, -4, -900), (0, 1)):
        source: Any = Bits(np.full(2**16, (2**48 - 1) * then), then)
        blocks = np.full(2**16, value // size)
        accepted = sampler._accept(
            source, BlockAddress(1, 0), rows, rows, blocks, np.full(2**16, value), every
        )
        low, high = chance(value)
        right = [(int(string) + then << (BITS - 16)) - then < low for string in every]
        assert high - low < 1 << (BITS - 200)
        assert accepted.tolist() == right, value

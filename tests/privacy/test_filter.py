"""No way of choosing guarantees by earlier outputs loses more than the budget.

The loss of an analyst who chooses freely is computed exactly: each guarantee is given by the
mechanism that loses most, randomised response, so that the log-likelihood ratio of what was seen
walks on a lattice; the best of all ways of going on, and the best event, follow by going backwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from some_cases import long

from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP, AddableGuarantee, ApproxDP, Ledger, PureDP
from counton.privacy.concentrated import rho_within
from counton.privacy.filter import PrivacyFilter, RenyiOrder

Losses = NDArray[np.floating]


def lost(losses: Losses, epsilon: float) -> Losses:
    """1 - e^(epsilon - L) where positive: its mean is delta at this epsilon."""
    return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses))))


def delta_of_luck(start: PrivacyFilter | Ledger, budget: ApproxDP, steps: int) -> float:
    """True delta of many small releases and, at the best moment, all that remains at one go.

    What remains is one pure guarantee, and one of ApproxDP that tells everything with its delta.
    """
    spent: PrivacyFilter | Ledger = start
    whole = start.remaining(ZCDP)
    assert isinstance(whole, ZCDP)
    rho = whole.rho / steps
    rest = [float(budget.epsilon)]
    told = [0.0]
    for _ in range(steps):
        if isinstance(spent, Ledger):
            spent.spend("small", ZCDP(rho))
        else:
            spent = spent.after(ZCDP(rho))
            assert spent.within
        left = spent.remaining()
        rest.append(0.0 if left is None else float(left.epsilon))  # type: ignore[union-attr]
        told.append(float(left.delta) if isinstance(left, ApproxDP) else 0.0)
    # epsilon^2 / 2 concentrated
    small = math.sqrt(2 * rho)
    epsilon = float(budget.epsilon)

    def finished(losses: Losses, step: int) -> Losses:
        chance = 1 / (1 + math.exp(-rest[step]))
        up = lost(losses + rest[step], epsilon)
        down = lost(losses - rest[step], epsilon)
        return told[step] + (1 - told[step]) * (chance * up + (1 - chance) * down)

    chance = 1 / (1 + math.exp(-small))
    losses = small * np.arange(-steps, steps + 1)
    value = finished(losses, steps)
    for step in range(steps - 1, -1, -1):
        losses = losses[1:-1]
        onward = chance * value[2:] + (1 - chance) * value[:-2]
        value = np.maximum(onward, finished(losses, step))
    return float(value[0])


@pytest.mark.parametrize(
    ("epsilon", "delta", "steps"), [("5", "0.01", 400), long("10", "1e-6", 800)]
)
def test_adaptive_analyst_stays_within_budget(epsilon: str, delta: str, steps: int) -> None:
    """Many small releases; when luck was good, all that remains as one pure one.

    A total that is the least over all orders after each spend accepts every path, and this analyst
    then loses 1.7 and 1.9 times the budget's delta.
    """
    budget = ApproxDP(epsilon, delta)
    assert delta_of_luck(Ledger(budget), budget, steps) <= budget.delta


@pytest.mark.parametrize(("steps", "times"), [(100, Fraction(21, 20)), long(200, Fraction(13, 10))])
def test_each_order_needs_a_share_of_its_own(steps: int, times: Fraction) -> None:
    """The test above would notice a filter that gives all delta to each of its orders."""
    budget = ApproxDP(5, 0.01)
    sound = PrivacyFilter.start(budget, approximate_delta=0)
    assert delta_of_luck(sound, budget, steps) <= budget.delta
    orders = [RenyiOrder.within(budget, one.order, budget.delta) for one in sound.orders]
    unsound = sound._replace(orders=tuple(orders))
    assert delta_of_luck(unsound, budget, steps) > times * budget.delta


def test_approximate_guarantees_need_a_share_of_their_own() -> None:
    budget = ApproxDP(5, 0.01)
    sound = PrivacyFilter.start(budget, approximate_delta=budget.delta / 2)
    assert delta_of_luck(sound, budget, 100) <= budget.delta
    unsound = sound._replace(approximate_delta=budget.delta)
    assert delta_of_luck(unsound, budget, 100) > Fraction(11, 10) * budget.delta


@dataclass(frozen=True)
class Way:
    """A guarantee that can be asked for, as randomised response on the lattice of losses.

    With probability ``told`` (under the data that are there) the secret itself comes out.
    """

    guarantee: AddableGuarantee
    multiple: int
    told: float = 0.0


def worst_delta(start: PrivacyFilter, menu: Sequence[Way], unit: float, most: int) -> float:
    """True delta of the best analyst, of all who choose from ``menu`` by what they have seen.

    The acceptance of a filter depends on how often each way was taken, so these counts and the loss
    are all there is to know. No way is taken more than ``most`` times.
    """
    epsilon = float(start.budget.epsilon)  # type: ignore[union-attr]
    reach = most * sum(way.multiple for way in menu)
    stop = lost(unit * np.arange(-reach, reach + 1), epsilon)

    @cache
    def state(counts: tuple[int, ...]) -> PrivacyFilter:
        for number, count in enumerate(counts):
            if count:
                before = (*counts[:number], count - 1, *counts[number + 1 :])
                return state(before).after(menu[number].guarantee)
        return start

    values: dict[tuple[int, ...], Losses] = {}
    for counts in product(*(range(most, -1, -1) for _ in menu)):  # later counts come first
        if not state(counts).within:
            continue
        best = stop
        for number, way in enumerate(menu):
            after = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
            if after not in values:
                continue
            chance = 1 / (1 + math.exp(-way.multiple * unit))
            onward = np.zeros_like(stop)
            k = way.multiple
            value = values[after]
            onward[:-k] += chance * value[k:]
            onward[-k:] += chance  # beyond the lattice, which no path reaches
            onward[k:] += (1 - chance) * value[:-k]
            best = np.maximum(best, way.told + (1 - way.told) * onward)
        values[counts] = best
    return float(values[(0,) * len(menu)][reach])


@pytest.mark.parametrize("most", [5, long(9)])
@settings(max_examples=30, deadline=None)
@given(
    epsilon=st.sampled_from([0.5, 1, 2, 4, 8]),
    delta=st.sampled_from([0.3, 0.05, 0.003, 1e-5]),
    parts=st.integers(2, 9),
    pure=st.integers(1, 6),
    small=st.integers(1, 2),
    share=st.sampled_from([None, Fraction(0), Fraction(1, 2), Fraction(1)]),
    first=st.integers(0, 2),
)
def test_worst_delta_of_filter_is_within_budget(
    most: int,
    epsilon: float,
    delta: float,
    parts: int,
    pure: int,
    small: int,
    share: Fraction | None,
    first: int,
) -> None:
    unit = round(epsilon / parts, 6)
    budget = ApproxDP(epsilon, delta)
    menu = [
        Way(PureDP(pure * unit), pure),
        Way(ZCDP((small * unit) ** 2 / 2), small),
        Way(ApproxDP(unit, round(delta / 4, 9)), 1, round(delta / 4, 9)),
    ]
    stated = None if share is None else share * budget.delta
    start = PrivacyFilter.start(budget, [menu[first].guarantee], stated)
    assert worst_delta(start, menu, unit, most) <= delta * (1 + 1e-9)


def test_worst_delta_nearly_reaches_budget() -> None:
    """The exact analyst above is not blind: alone, each kind comes near what the budget allows."""
    told = ApproxDP(0.1, 0.01)
    start = PrivacyFilter.start(ApproxDP(1, 0.05), [told])
    assert worst_delta(start, [Way(told, 1, 0.01)], 0.1, 9) > 0.049 * 0.99
    small = Way(ZCDP(0.02), 1)
    start = PrivacyFilter.start(ApproxDP(1, 0.3), approximate_delta=0)
    assert worst_delta(start, [small], 0.2, 30) > 0.02


@pytest.mark.parametrize(
    ("epsilon", "delta", "least"), [("1", "1e-6", 0.91), ("5", "0.01", 0.85), ("10", "1e-6", 0.94)]
)
def test_many_small_releases_lose_little_to_the_filter(
    epsilon: str, delta: str, least: float
) -> None:
    """Against somebody who fixes all of them beforehand."""
    budget = ApproxDP(epsilon, delta)
    allowed = Ledger(budget).remaining(ZCDP)
    assert isinstance(allowed, ZCDP)
    assert least < allowed.rho / rho_within(budget.epsilon, budget.delta) < 1


def test_the_order_of_spends_does_not_matter() -> None:
    spends: list[AddableGuarantee] = [
        PureDP(0.1), ZCDP(0.001), ApproxDP(0.05, 1e-8), PureDP("1/3"), ZCDP("0.0007"),
    ]  # fmt: skip
    for budget in (ApproxDP(1, 1e-6), ApproxDP(20, 0.01)):
        start = PrivacyFilter.start(budget)
        ends = set()
        for way in permutations(spends):
            end = start
            for guarantee in way:
                end = end.after(guarantee)
            ends.add(end)
        assert len(ends) == 1


amounts = st.fractions(Fraction(1, 10**6), Fraction(2), max_denominator=10**6)
guarantees = st.one_of(
    st.builds(PureDP, amounts),
    st.builds(ZCDP, amounts),
    st.builds(
        ApproxDP,
        amounts,
        st.fractions(Fraction(1, 10**9), Fraction(1, 10**5), max_denominator=10**9),
    ),
)


def smaller(guarantee: AddableGuarantee, part: Fraction) -> AddableGuarantee:
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho * part)
    if isinstance(guarantee, PureDP):
        return PureDP(guarantee.epsilon * part)
    return ApproxDP(guarantee.epsilon * part, guarantee.delta)


@settings(max_examples=30)
@given(st.lists(guarantees, max_size=6), st.fractions("1/10", 1), st.data())
def test_filter_accepts_smaller_losses_than_accepted_ones(
    spends: list[AddableGuarantee], part: Fraction, data: st.DataObject
) -> None:
    """With less spent, or less asked for, what was accepted is accepted."""
    budget = data.draw(st.sampled_from([ApproxDP(1, 1e-6), ApproxDP(6, 1e-3), ApproxDP(3, 0.2)]))
    whole = fewer = lesser = PrivacyFilter.start(budget)
    left_out = data.draw(st.integers(0, 5))
    for number, guarantee in enumerate(spends):
        whole = whole.after(guarantee)
        fewer = fewer if number == left_out else fewer.after(guarantee)
        lesser = lesser.after(smaller(guarantee, part))
        if whole.within:
            assert fewer.within
            assert lesser.within


@settings(max_examples=30)
@given(st.lists(amounts, max_size=12))
def test_pure_guarantees_lose_nothing(epsilons: list[Fraction]) -> None:
    """Whatever the plain sum allows is allowed, with and without a delta."""
    plain = PrivacyFilter.start(PureDP(5))
    shared = PrivacyFilter.start(ApproxDP(5, 1e-6))
    for epsilon in epsilons:
        plain = plain.after(PureDP(epsilon))
        shared = shared.after(PureDP(epsilon))
        if plain.within:
            assert shared.within


def test_orders_are_whole_numbers_and_others_are_refused() -> None:
    """Between whole orders the divergence may exceed alpha rho."""
    budget = ApproxDP(1, "1e-6")
    opened = PrivacyFilter.start(budget)
    assert opened.orders
    assert all(one.order.denominator == 1 and one.order >= 2 for one in opened.orders)
    saved = opened.to_dict()
    assert opened.after(ZCDP(1)).losses == tuple(one.order for one in opened.orders)
    rest = PrivacyFilter.from_dict(budget, saved).remaining(ZCDP)
    assert rest is not None
    assert PrivacyFilter.from_dict(budget, saved).after(rest).within
    for order in ("43/2", "1"):
        saved["orders"][0]["order"] = order
        with pytest.raises(InvalidInputError, match="belong to an order 2, 3"):
            PrivacyFilter.from_dict(budget, saved)

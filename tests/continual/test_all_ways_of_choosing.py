"""All ways of choosing a step, and a stream, from earlier releases: none loses more.

Every assignment of noise to the nodes is tried, up to a reach. What an attacker has seen at a step
is the vector of releases before it; he may say that the unit counts there, or wait. The best of all
ways follows by optimal stopping, and the best event by comparing what follows with and without
the unit.
"""

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from node_masses import masses
from numpy.typing import NDArray

from counton import ZCDP, ApproxDP, ContributionBound
from counton.base.distributions import DiscreteLaplace, NoiseDistribution, NoiseKind
from counton.continual.node_distribution import distribution_for
from counton.privacy import calibrate
from counton.strategies import (
    Binary,
    HonakerOnline,
    Independent,
    KAry,
    LookAhead,
    SmoothBinary,
    StreamStrategy,
)
from counton.strategies.participation import sensitivities
from counton.strategies.strategy import NodeNoise, node_distribution

Reals = NDArray[np.float64]
#: What an event gains: of the probabilities with the unit, and without it.
Gain = Callable[[Reals, Reals], Reals]
ONE = ContributionBound.add_remove()
#: Most assignments of noise to nodes, for each pair of nodes.
MOST = 1_000
pytestmark = pytest.mark.slow


class Assigned:
    """Noise of which every coordinate is another assignment to the nodes."""

    def __init__(
        self, strategy: StreamStrategy, distribution: NoiseDistribution, room: int | None
    ) -> None:
        assert strategy.horizon is not None
        steps = range(1, strategy.horizon + 1)
        nodes = sorted({node[:2] for step in steps for node in strategy.row(step)})
        values = within(
            len(nodes),
            1 if isinstance(distribution, DiscreteLaplace) else 2,
            room or MOST * len(nodes) ** 2,
        )
        self.noise = dict(zip(nodes, values, strict=True))
        self.shape = (values.shape[1],)
        parts = [
            masses(node_distribution(strategy, distribution, node[0]), self.noise[node])
            for node in nodes
        ]
        self.chances: Reals = np.prod(parts, axis=0)

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Noise of consecutive nodes; 0 where no release reads it."""
        zero = np.zeros(self.shape, np.int64)
        return np.array([self.noise.get((level, node), zero) for node in nodes], np.int64)


@cache
def within(nodes: int, power: int, room: int) -> NDArray[np.int64]:
    """The likeliest vectors of integers, as many as there is room for; a column each."""
    found = np.zeros((nodes, 1), np.int64)
    for number in itertools.count():
        wider = ball(nodes, int(1.1**number), power)
        if wider.shape[1] > room:
            return found
        found = wider
    raise AssertionError


def ball(nodes: int, most: int, power: int) -> NDArray[np.int64]:
    """All vectors of so many integers whose powers add up to ``most``; a column each."""
    if nodes == 0:
        return np.zeros((0, 1), np.int64)
    reach = most if power == 1 else math.isqrt(most)
    firsts = range(-reach, reach + 1)
    beside = [ball(nodes - 1, most - size**power, power) for size in range(reach + 1)]
    parts = [beside[abs(first)] for first in firsts]
    lengths = [part.shape[1] for part in parts]
    return np.vstack([np.repeat(np.array(firsts), lengths)[None], np.hstack(parts)])


def best_way(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    gain: Gain,
    never: float,
    room: int | None = None,
) -> tuple[float, float]:
    """What the best way of choosing a step gains, and the probability that was left out.

    ``never`` is what it gains never to choose one, for each unit of probability.
    """
    table = Assigned(strategy, distribution, room)
    steps = strategy.horizon
    assert steps is not None
    noise = strategy.noise(table, range(1, steps + 1)).astype(np.uint64)
    # Odd multipliers, and arithmetic modulo 2^64: one number for a vector of releases.
    factors = np.array([pow(0x9E3779B97F4A7C15, t, 2**64) for t in range(1, steps + 1)], np.uint64)
    seen = np.cumsum(noise * factors[:, None], axis=0, dtype=np.uint64)
    vectors, first, place = np.unique(seen[-1], return_index=True, return_inverse=True)
    chances: Reals = np.bincount(place, table.chances).astype(np.float64)
    unit = np.uint64(1 << strategy.facts.fraction_bits)
    value: Reals = never * chances
    of = vectors  # what it is worth to have seen all of it
    for step in range(steps, 0, -1):
        last = step if strategy.facts.release == "windows" else steps
        moved = np.sum(factors[step - 1 : last] * unit, dtype=np.uint64)
        before = seen[step - 2][first] if step > 1 else np.zeros(len(first), np.uint64)
        histories, history = np.unique(before, return_inverse=True)
        chosen = np.zeros(len(histories))
        for other in (vectors + moved, vectors - moved):
            at = np.searchsorted(vectors, other).clip(max=len(vectors) - 1)
            without: Reals = np.where(vectors[at] == other, chances[at], 0.0)
            gains = np.bincount(history, gain(chances, without), len(histories))
            chosen = np.maximum(chosen, gains)
        # Of what may be seen by the next step, what was seen before this one.
        longer = seen[step - 1][first] if step < steps else vectors
        where = np.searchsorted(of, longer)
        shorter = np.zeros(len(of), np.int64)
        shorter[where] = history
        waited: Reals = np.bincount(shorter, value, len(histories)).astype(np.float64)
        value = np.maximum(chosen, waited)
        of = histories
    return float(value[0]), 1 - float(chances.sum())


def beyond(epsilon: float) -> Gain:
    """What an event has in probability beyond e^epsilon times that without the unit."""
    factor = math.exp(epsilon)
    return lambda p, q: np.maximum(p - factor * q, 0)


def to_the_power(order: float) -> Gain:
    """What the mean of (p / q)^(order - 1) gains; of what is likely enough to be whole in both."""

    def gain(p: Reals, q: Reals) -> Reals:
        whole = (p > 1e-12) & (q > 1e-100)
        return np.where(whole, p * (p / np.where(whole, q, 1)) ** (order - 1), 0)

    return gain


SMALL = [
    Binary(3), KAry(2, 3), KAry(4, 3), KAry(8, 4), KAry(6, 3, subtraction=False),
    LookAhead(3, (3,), (1, 1)), LookAhead(2, (2,), (1, 1)), HonakerOnline(3), SmoothBinary(3, 4, 2),
    Independent(2),
]  # fmt: skip
GUARANTEES = [ApproxDP(6, "0.02"), ApproxDP(5, "0.2")]


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", SMALL, ids=str)
def test_no_way_of_choosing_exceeds_epsilon_and_delta(
    strategy: StreamStrategy, family: NoiseKind
) -> None:
    for guarantee in GUARANTEES:
        epsilon = float(guarantee.epsilon)
        delta = float(guarantee.delta)
        distribution = distribution_for(strategy, guarantee, ONE, family=family).distribution
        room = 200_000 if strategy.horizon == 8 else None  # noise of many nodes is wide
        lost, left_out = best_way(strategy, distribution, beyond(epsilon), never=0, room=room)
        assert left_out < 1e-3
        assert lost <= delta * (1 + 1e-9) + left_out * math.exp(epsilon)


@pytest.mark.long
def test_search_finds_loss_beyond_composed_bound() -> None:
    """Who waits for the second block where the first one tells too little gains."""
    strategy = KAry(8, 4)
    guarantee = GUARANTEES[0]
    distribution = calibrate(guarantee, sensitivities(strategy), "laplace").distribution
    lost, left_out = best_way(strategy, distribution, beyond(6), never=0, room=200_000)
    assert lost - math.exp(6) * left_out > 1.02 * float(guarantee.delta)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", SMALL, ids=str)
def test_no_way_of_choosing_exceeds_rho_at_whole_orders(
    strategy: StreamStrategy, family: NoiseKind
) -> None:
    for rho, order in ((2, 2), (2, 3), (4, 2)):
        distribution = distribution_for(strategy, ZCDP(rho), ONE, family=family).distribution
        mean, _ = best_way(strategy, distribution, to_the_power(order), never=1)
        assert math.log(mean) <= (order - 1) * order * rho * (1 + 1e-9)


def test_divergence_between_whole_orders_exceeds_rho_within_bound() -> None:
    strategy = KAry(8, 4)
    rho = 4
    order = 1.5
    distribution = distribution_for(strategy, ZCDP(rho), ONE).distribution
    mean, _ = best_way(strategy, distribution, to_the_power(order), never=1)
    divergence = math.log(mean) / (order - 1)
    assert divergence > 1.02 * order * rho
    part = order % 1
    assert divergence <= order * rho + part * (1 - part) * rho / (order - 1)


# ------------------------------------------------------------------------- several streams


def both_known(epsilon: float) -> Gain:
    """As `beyond`, of events whose probabilities stand in the table: no way gains less in truth."""
    factor = math.exp(epsilon)
    return lambda p, q: np.where(q > 0, np.maximum(p - factor * q, 0), 0)


def best_of_streams(
    strategy: StreamStrategy, distribution: NoiseDistribution, epsilon: float, most: int
) -> tuple[float, float]:
    """What the best way loses in one stream, and in so many that each has noise of its own.

    Who waits to the end of one stream, without a step, goes on to the next: so what is gained in
    the streams to come is what it gains never to choose a step in this one.
    """
    one = lost = 0.0
    for number in range(most):
        more, _ = best_way(strategy, distribution, both_known(epsilon), never=lost)
        one = one or more
        if more <= lost + 1e-9 and number:
            break
        lost = more
    return one, lost


FEW = [strategy for strategy in SMALL if strategy.horizon is not None and strategy.horizon < 5]


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", FEW, ids=str)
def test_no_way_of_choosing_a_stream_exceeds_epsilon_and_delta(
    strategy: StreamStrategy, family: NoiseKind
) -> None:
    for guarantee in GUARANTEES:
        distribution = distribution_for(strategy, guarantee, ONE, family=family).distribution
        one, lost = best_of_streams(strategy, distribution, float(guarantee.epsilon), 12)
        assert one <= lost <= float(guarantee.delta) * (1 + 1e-9)


def test_two_streams_in_sequence_lose_at_most_larger_guarantee() -> None:
    """Chosen by all that the first one released, whichever of the two is the weaker."""
    both = [ApproxDP(6, "0.02"), ApproxDP(5, "0.02")]
    some = [KAry(4, 3), LookAhead(2, (2,), (1, 1))]
    for strategy, (first, then) in itertools.product(some, itertools.permutations(both)):
        lost = 0.0
        for guarantee in (then, first):  # what comes is what it gains to wait
            distribution = distribution_for(
                strategy, guarantee, ONE, family="gaussian"
            ).distribution
            lost, _ = best_way(strategy, distribution, both_known(6), never=lost)
        assert lost <= 0.02 * (1 + 1e-9)


def test_laplace_noise_for_one_stream_exceeds_delta_over_several() -> None:
    """Composed losses of a strategy that is not causal."""
    strategy = KAry(4, 3)
    guarantee = GUARANTEES[0]
    distribution = calibrate(guarantee, sensitivities(strategy), "laplace").distribution
    one, lost = best_of_streams(strategy, distribution, 6, 3)
    assert one <= float(guarantee.delta) < lost / 1.09


class Shared(Independent):
    """Two streams of one step each, with the same noise: wrong."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """The first node's noise at each step."""
        return np.repeat(super().noise(field, range(1, 2)), len(steps), axis=0)


def test_streams_that_share_their_noise_are_found_to_lose_everything() -> None:
    distribution = distribution_for(Independent(2), GUARANTEES[0], ONE).distribution
    right, _ = best_way(Independent(2), distribution, both_known(6), never=0)
    wrong, left_out = best_way(Shared(2), distribution, beyond(6), never=0)
    assert right <= float(GUARANTEES[0].delta)
    assert wrong > 1 - 1e-6 - left_out


def test_rows_that_are_dealt_in_turn_change_every_stream() -> None:
    """Which stream a row goes to must hang on that row alone."""

    def changed(split: Callable[[int, int], int]) -> int:
        """Most rows that are in other places if one row is taken away, among three streams."""
        most = 0
        for rows in itertools.product(range(3), repeat=5):
            whole = [(split(row, place), row) for place, row in enumerate(rows)]
            for gone in range(5):
                rest = rows[:gone] + rows[gone + 1 :]
                left = [(split(row, place), row) for place, row in enumerate(rest)]
                cells = {*whole, *left}
                most = max(most, sum(abs(whole.count(c) - left.count(c)) for c in cells))
        return most

    assert changed(lambda row, place: row) == 1
    assert changed(lambda row, place: place % 3) > 5

"""Each strategy for streams, once more by definitions: what it releases, and that y decides it."""

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from by_reference import (
    AnyNumbers,
    check_it_estimates,
    known_key,
    recomputed,
    strategy_by_reference,
    written_out,
)
from in_turn import in_turn

from counton import ZCDP, ApproxDP, Counter, PureDP
from counton.base.errors import InvalidInputError
from counton.privacy import ContributionBound, ExpiringDP, ExpiringZCDP, Guarantee
from counton.strategies import (
    EndlessStrategy,
    MultiscaleStrategy,
    StreamStrategy,
    public_strategies,
)
from counton.strategies.strategy import column_until
from proofs import reference

GUARANTEES: tuple[Guarantee, ...] = (
    PureDP(1), PureDP("1e-4"), ApproxDP(1, 1e-6), ZCDP(0.5), ZCDP("1e-9"), ExpiringDP(1),
    ExpiringZCDP(0.5),
)  # fmt: skip
HORIZONS = (1, 2, 9, 25)
#: Of these an example meets one.
IN_TURN = (2, 9)
CELLS = 3
COUNTERS = 2


def examples() -> Iterator[tuple[StreamStrategy, int]]:
    for horizon in HORIZONS:
        for kind in public_strategies():
            several = [*kind.examples(horizon)]
            if horizon in IN_TURN:
                several = in_turn(several, 2, first=IN_TURN.index(horizon)) or several[:1]
            yield from ((strategy, horizon) for strategy in several)


EXAMPLES = [pytest.param(*one, id=f"{one[0]}-{one[1]}") for one in examples()]


def counters(strategy: StreamStrategy, number: int) -> Iterator[Counter]:
    """Some of those that the strategy can have: by turns, of which each example has two."""
    values = ContributionBound.values(-3, 12, resolution="0.05")
    several = ContributionBound.add_remove(cells=2)
    asked = [*product(GUARANTEES, (several, values), ((), (CELLS,)))]
    made = 0
    for guarantee, contribution, shape in asked[number % len(asked) :] + asked:
        terms = {"contribution": contribution, "shape": shape, "name": "it"}
        try:
            yield Counter(strategy, guarantee, key=known_key(), **terms)  # type: ignore[arg-type]
        except InvalidInputError:
            continue
        made += 1
        if made == COUNTERS:
            return


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_releases_are_those_of_the_reference(strategy: StreamStrategy, horizon: int) -> None:
    chance = np.random.default_rng(horizon)
    number = len(str(strategy))
    for counter in counters(strategy, number):
        xs = chance.integers(0, 50, (horizon, *counter.shape))
        assert recomputed(counter.release_exact(xs), xs) == xs.size


def test_thousands_of_values_are_computed_again() -> None:
    """As many as the test above compares: shapes come by turns, so half of them has cells."""
    found = sum(horizon for _, horizon in examples()) * COUNTERS // 2 * (1 + CELLS)
    assert found > 6_000


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_columns_are_those_of_the_reference(strategy: StreamStrategy, horizon: int) -> None:
    if isinstance(strategy, MultiscaleStrategy):
        return  # one of many, which is shown to be right below
    mine = strategy_by_reference(strategy)
    assert (mine.bits, mine.places) == (strategy.facts.lattice_bits, strategy.facts.fraction_bits)
    assert (mine.delay, mine.windows) == (
        strategy.facts.delay,
        strategy.facts.release == "windows",
    )
    for step in range(1, horizon + 1):
        found = {
            (level, index): Fraction(weight) * 2**mine.bits
            for level, index, weight in column_until(strategy, step, horizon)
        }
        assert mine.column(step, horizon) == found


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_releases_depend_only_on_measurements(strategy: StreamStrategy, horizon: int) -> None:
    """noise(z + C x) = noise(z) + A x for any z and x, rounding included."""
    mine = strategy_by_reference(strategy)
    columns = [
        {
            (level, index): int(Fraction(weight) * 2**mine.bits)
            for level, index, weight in column_until(strategy, step, horizon)
        }
        for step in range(1, horizon + 1)
    ]
    check_it_estimates(mine, columns, horizon)


@pytest.mark.parametrize("kind", public_strategies(), ids=lambda kind: kind.__name__)
def test_causal_strategies_need_no_noise_of_later_items(kind: type[StreamStrategy]) -> None:
    """A release is the same whatever z is at the nodes that a later item enters."""
    for strategy in kind.examples(9):
        mine = strategy_by_reference(strategy)
        z = AnyNumbers(9, 2**30)
        for step in range(1, 9) if strategy.facts.causal else ():
            before = mine.noise(z, step)
            ahead = {node for later in range(step + 1, 10) for node in mine.column(later, 9)}
            z.drawn |= {node: random.Random(step).randrange(2**30) for node in ahead}
            assert mine.noise(z, step) == before, (strategy, step)


def test_strategies_of_other_packages_are_computed_by_their_matrices() -> None:
    from examples.blocks.counton_blocks import Blocks

    strategy = Blocks(30, 4)
    chance = np.random.default_rng(0)
    counter = Counter(strategy, PureDP(1), key=known_key(), name="it", shape=(2,))
    xs = chance.integers(0, 50, (30, 2))
    matrices = written_out(strategy, 30)
    assert recomputed(counter.release_many(xs), xs, matrices=matrices) == 60


def test_every_public_strategy_is_in_the_reference() -> None:
    saved = {kind.saved_name for kind in public_strategies()}
    assert saved == set(reference.STRATEGIES)
    assert any(issubclass(kind, EndlessStrategy) for kind in public_strategies())

"""Whatever is accepted can release its last step: with the widest noise and the largest sums."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from in_turn import in_turn
from keys import chosen_key
from numpy.typing import NDArray

from counton import ContributionBound, Counter, PureDP
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.base.private import Private
from counton.continual.checkpoint import StreamProgress
from counton.continual.design import Design, largest_sum
from counton.continual.node_distribution import distribution_for
from counton.noise import NoiseField
from counton.planning.families import FamilyMembers, FamilyRequest, candidates
from counton.planning.planner import MOST_HELD_NUMBERS, MOST_NUMBERS_DRAWN_FIRST
from counton.privacy import ZCDP, ApproxDP, Guarantee
from counton.statistics import (
    Average,
    Contingency,
    Count,
    Cuts,
    Distinct,
    Edges,
    Forest,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Statistic,
    Sum,
    TopK,
)
from counton.statistics.accumulator_statistic import AccumulatorStatistic
from counton.statistics.live_statistic import RunningStatistic, counter_of
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import (
    Binary,
    Epochs,
    Expiring,
    KAry,
    LeastSquaresStrategy,
    NodeNoise,
    Norm,
    StreamStrategy,
    noise_variance,
    public_strategies,
)
from counton.strategies.lines import least_squares
from counton.strategies.strategy import built_from, last_served_step, node_distribution
from counton.tables import Tree
from counton.testing import HashedNoise

#: Strategies that draw all nodes before the last release are looked at up to here.
_FAR = 2**17
#: So many standard deviations each node of a hostile table is away from 0.
_AWAY = 12


@dataclass(frozen=True)
class Signs:
    """Every node as far from 0 as noise comes, on one side or the other."""

    strategy: StreamStrategy
    distribution: NoiseDistribution
    shape: tuple[int, ...] = ()

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        sign = HashedNoise(self.shape, spread=2**40, seed=3).run(level, nodes) > 0
        away = int(_AWAY * node_distribution(self.strategy, self.distribution, level).std) + 1
        return np.where(sign, away, -away)


def distributions(strategy: StreamStrategy) -> list[NoiseDistribution]:
    """The widest of each family that is accepted, to a factor of 2."""
    found: list[NoiseDistribution] = []
    for family in (DiscreteLaplace, DiscreteGaussian):
        for power in range(40, -1, -1):
            distribution = family(
                Fraction(2 ** (power if family is DiscreteLaplace else 2 * power))
            )
            try:
                strategy._check_distribution(distribution)
            except InvalidInputError:
                continue
            found.append(distribution)
            break
    return found


def last_of(strategy: StreamStrategy, horizon: int) -> int:
    last = last_served_step(strategy)
    known = strategy.horizon is not None or strategy.facts.local
    return last if known and last is not None else horizon


def check_last_release(strategy: StreamStrategy, horizon: int) -> None:
    """The last steps are released, of wide noise drawn and of a hostile table, within int64."""
    wide = distributions(strategy)
    assert wide
    last = last_of(strategy, horizon)
    for distribution in wide:
        drawn = NoiseField(bytes(range(32)), partial(node_distribution, strategy, distribution))
        fields: list[NodeNoise] = [drawn, Signs(strategy, distribution)]
        for field in fields:
            noise = strategy._reader(field).noise(range(max(1, last - 2), last + 1))
            std = math.sqrt(float(noise_variance(strategy, distribution, [last])[0]))
            # Where sums leave int64 they come out anywhere.
            assert np.abs(noise).max() <= _AWAY**2 * std * 2.0**strategy.facts.fraction_bits + 1
            terms = Design(
                name="last", strategy=strategy, guarantee=PureDP(1), shape=(),
                distribution=distribution,
                contribution=ContributionBound.add_remove(),
            )  # fmt: skip
            exact = largest_sum(terms.strategy) << strategy.facts.fraction_bits
            assert exact + int(np.abs(noise).max()) < 2**63


EXAMPLES = [
    pytest.param(strategy, horizon, id=f"{cls.__name__}-{horizon}-{number}")
    for horizon in (1, 250)
    for cls in public_strategies()
    # Those without a last step are looked at where they end.
    if horizon == 1 or not issubclass(cls, (Epochs, Expiring))
    for number, strategy in enumerate(cls.examples(horizon))
]


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_the_last_step_can_be_released(strategy: StreamStrategy, horizon: int) -> None:
    check_last_release(strategy, horizon)


def contending(horizon: int, norms: tuple[Norm, ...]) -> tuple[FamilyMembers, ...]:
    request = FamilyRequest(horizon)
    return candidates(request, norms=norms, published=False, unlikely=False)


PLANNED = [(horizon, norm) for horizon in (1000, 105_120, 2**25, 2**30) for norm in (1, 2)]


@pytest.mark.parametrize(("horizon", "norm"), PLANNED)
@pytest.mark.slow
def test_planned_strategies_can_release_their_last_step(horizon: int, norm: int) -> None:
    norms: Any = (norm,)
    for family in contending(horizon, norms):
        for strategy in family.members[:1]:
            few = (
                strategy.facts.buffer_size <= MOST_HELD_NUMBERS
                and strategy.facts.drawn_ahead <= MOST_NUMBERS_DRAWN_FIRST
            )
            if few and (
                strategy.facts.local
                or horizon <= _FAR
                or isinstance(strategy, LeastSquaresStrategy)
            ):
                check_last_release(strategy, horizon)


class CarelessEpochs(Epochs):
    """Takes all noise, though later epochs have wider noise than the first."""

    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        pass


class CarelessSolved(LeastSquaresStrategy):
    """Takes all noise, however small its part of the grid."""

    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        pass

    def node_distribution(self, base: NoiseDistribution, level: int) -> NoiseDistribution:
        return base


def careless_solved() -> StreamStrategy:
    said = contending(105_120, (1,))[0].members[0].to_dict()
    return built_from(CarelessSolved, said)


@pytest.mark.parametrize("careless", [CarelessEpochs, careless_solved])
def test_check_last_release_rejects_careless_strategy(
    careless: Callable[[], StreamStrategy], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the second modulus residuals of wide noise are not known.
    monkeypatch.setattr(least_squares, "_RESIDUAL_BITS_WITH_PRIME", least_squares._RESIDUAL_BITS)
    with pytest.raises((InvalidInputError, AssertionError)):
        check_last_release(careless(), 105_120)


def test_least_squares_refuses_noise_that_overflows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy = contending(105_120, (1,))[0].members[0]
    assert isinstance(strategy, LeastSquaresStrategy)
    wide = distribution_for(strategy, PureDP("0.001"), ContributionBound.add_remove()).distribution
    monkeypatch.setattr(least_squares, "_RESIDUAL_BITS_WITH_PRIME", least_squares._RESIDUAL_BITS)
    with pytest.raises(InvalidInputError, match="and its sums over 105,120 steps are not exact"):
        built_from(LeastSquaresStrategy, strategy.to_dict())._check_distribution(wide)


def at_the_end(terms: Design, counter: Counter) -> float:
    """What the last step gives where sums are as large as they may be, less these."""
    sums = np.full(terms.shape, largest_sum(terms.strategy), np.int64)
    _, before, waiting = counter._progress()
    last = last_of(terms.strategy, 10**9)
    totals = terms.strategy.facts.release == "totals"
    counter._done = Private(StreamProgress(last - 1, sums if totals else before, waiting))
    release = counter.release(np.zeros_like(sums) if totals else sums)
    away = np.abs(release.value - terms.to_data(sums << terms.strategy.facts.fraction_bits)).max()
    return float(
        away / (release.std + 2.0**-52 * largest_sum(terms.strategy) * float(terms.units.exact))
    )


STATISTICS: tuple[Statistic, ...] = (
    Average(0, 100, "0.5"), Sum(-9, 100, "0.5"), Count(),
    Quantiles([0, 4, 9, 20, 50], line="identity"), TopK(["a", "b", "c"], 2), Distinct(changes=4),
    Moments({"x": (0, 10), "y": (0, 1)}), Ranges(["a", "b", "c", "d"]),
    Contingency({"a": ["x", "y"], "b": ["u", "v", "w"]}),
    Grouped(Average(0, 100, "0.5"), ["n", "s"]), Edges(), Forest(9), Cuts(4),
)  # fmt: skip
GUARANTEES: tuple[Guarantee, ...] = (PureDP("0.001"), ApproxDP("0.001", "1e-9"), ZCDP("0.000001"))


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: type(one).__name__)
@pytest.mark.slow
def test_strategies_of_statistics_release_last_step(statistic: Statistic) -> None:
    turn = STATISTICS.index(statistic) % len(GUARANTEES)
    for guarantee in in_turn(GUARANTEES, len(GUARANTEES), first=turn):
        this = statistic.resolve_parameters(guarantee, 105_120)
        for choice in plan_statistic(this, 105_120, guarantee).choices[:2]:
            counter = counter_of(this, choice.strategy, guarantee, key=chosen_key(), name="last")
            if isinstance(counter, Counter):
                assert at_the_end(counter.design, counter) < _AWAY**2


@pytest.mark.parametrize("strategy", [Binary(2**40), KAry(2**40, 16)], ids=str)
def test_several_cells_have_addresses_for_all_their_noise(strategy: StreamStrategy) -> None:
    at_the_end_of = Counter(strategy, PureDP(1), key=chosen_key(), name="one")
    assert at_the_end(at_the_end_of.design, at_the_end_of) < _AWAY**2
    with pytest.raises(
        InvalidInputError, match="at most 4,294,967,296 are possible: plan fewer steps"
    ):
        Counter(strategy, PureDP(1), key=chosen_key(), name="many", shape=(3,))


def test_stream_that_overflows_is_refused_at_start() -> None:
    key = chosen_key()
    bound = ContributionBound.add_remove()
    strategy = contending(105_120, (1,))[0].members[0]
    for wide, budget in ((strategy, "0.0000001"), (Epochs(), "0.00000000001")):
        with pytest.raises(InvalidInputError, match=r"(give a larger|raise) epsilon"):
            Counter(wide, PureDP(budget), key=key, name="wide", contribution=bound)


REGIONS = Tree.from_leaves({"region": ["N", "N", "S"], "city": ["a", "b", "c"]}, ["region", "city"])
TABLES: tuple[tuple[AccumulatorStatistic, Any], ...] = (
    (Ranges(["a", "b", "c", "d"], counts=True), "d"),
    (Ranges(["a", "b", "c", "d"], line="haar", counts=True), "a"),
    (Contingency({"a": ["x", "y"], "b": ["u", "v", "w"]}, counts=True), ("y", "w")),
    (Hierarchy(REGIONS, counts=True), ("N", "b")),
    (Grouped(Ranges(["a", "b"], counts=True), ["n", "s"]), "b"),
)


def events_of(statistic: AccumulatorStatistic, cell: Any, whole: int) -> list[Any]:
    """Rows of one cell that count so often together."""
    each = [2**32] * (whole // 2**32) + [whole % 2**32]
    rows = [(cell, count) for count in each]
    return [("s", row) for row in rows] if isinstance(statistic, Grouped) else rows


def check_readable(statistic: AccumulatorStatistic, cell: Any, guarantee: Guarantee) -> None:
    """What is accepted can be read at the last step; what cannot be is refused, and not counted."""
    this = statistic.resolve_parameters(guarantee, 4)
    counter = RunningStatistic.start(
        this, 4, guarantee, key=chosen_key(), name="read", batched=True
    )
    most = 2 ** math.floor(math.log2(2.0**53 / 2**16))
    accepted = 0
    for part in (most // 4, most // 8, most // 2, most // 2):
        try:
            reading = counter.release_batch(events_of(statistic, cell, part))
        except SumOverflowError:
            break
        accepted += part
        assert len(reading.table_columns()["estimate"])
    assert accepted >= most // 4
    assert counter.step < 4


@pytest.mark.parametrize(("statistic", "cell"), TABLES, ids=lambda one: type(one).__name__)
def test_tables_can_be_read_at_their_last_step(statistic: AccumulatorStatistic, cell: Any) -> None:
    for guarantee in (PureDP(1000), ZCDP(1)):
        check_readable(statistic, cell, guarantee)


class Boundless(Ranges):
    """Takes any counts, whether or not they can be read."""

    def most_counted(self, first: float, last: float) -> float:
        return math.inf


def test_check_readable_rejects_table_with_unreadable_sums() -> None:
    with pytest.raises(SumOverflowError, match="private sums reach"):
        check_readable(Boundless(["a", "b", "c", "d"], counts=True), "d", PureDP(1000))

"""Units that act in several steps: claims against all sets of steps, and bounds by themselves."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from some_cases import long

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.privacy import Sensitivity
from counton.strategies import (
    Binary,
    Expiring,
    HonakerOnline,
    KAry,
    LookAhead,
    Node,
    NodeNoise,
    SmoothBinary,
    SqrtToeplitz,
    StrategyFacts,
    StreamStrategy,
    check_step,
    participation,
    sensitivities,
    sensitivity,
)
from counton.strategies.participation import Schedule, pattern_sensitivity

HORIZONS = (1, 2, 3, 5, 8, 12)


def strategies(horizon: int) -> list[StreamStrategy]:
    return [
        Binary(horizon), HonakerOnline(horizon), SqrtToeplitz(horizon), *KAry.examples(horizon),
        *SmoothBinary.examples(horizon),
    ]  # fmt: skip


def weights(strategy: StreamStrategy) -> NDArray[Any]:
    """C on the lattice, column by column, shape (nodes, horizon)."""
    assert strategy.horizon is not None
    columns = [strategy.column(step) for step in range(1, strategy.horizon + 1)]
    nodes = sorted({node[:2] for column in columns for node in column})
    matrix = np.zeros((len(nodes), len(columns)), np.int64)
    for step, column in enumerate(columns):
        for level, index, weight in column:
            matrix[nodes.index((level, index)), step] = weight * 2**strategy.facts.lattice_bits
    return matrix


def admissible(horizon: int, steps: int, separation: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, steps + 1):
        for chosen in itertools.combinations(range(horizon), size):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def worst(strategy: StreamStrategy, sets: Iterable[Sequence[int]]) -> tuple[int, int]:
    """Norms of the most that any of these sets adds up to, by definition."""
    matrix = weights(strategy)
    sums = [matrix[:, list(chosen)].sum(axis=1) for chosen in sets]
    return max(int(s.sum()) for s in sums), max(int((s**2).sum()) for s in sums)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.slow
def test_short_horizons_are_exact_over_all_sets(horizon: int) -> None:
    for steps, separation in [(1, 3), (2, 1), (2, 4), (3, 1), (3, 2), (5, 1), (5, 2), (4, 5)]:
        sets = list(admissible(horizon, steps, separation))
        for strategy in strategies(horizon):
            claimed = sensitivities(strategy, steps=steps, separation=separation)
            assert (claimed.l1, claimed.l2_squared) == worst(strategy, sets), strategy


@pytest.mark.parametrize("horizon", HORIZONS)
def test_fixed_schedules_are_exact_over_all_starts(horizon: int) -> None:
    for every, steps in itertools.product((1, 2, 3, 7), (None, 1, 2, 4)):
        sets = [range(i, horizon, every)[:steps] for i in range(horizon)]
        for strategy in strategies(horizon):
            claimed = sensitivities(strategy, steps=steps, every=every)
            assert (claimed.l1, claimed.l2_squared) == worst(strategy, sets), strategy


@pytest.mark.parametrize("horizon", HORIZONS)
def test_units_may_miss_some_of_a_schedule(horizon: int) -> None:
    """Any part of so many scheduled steps in a row moves no more than all of them."""
    for every, steps in itertools.product((1, 2, 3), (2, 3, 5)):
        rows = [range(i, horizon, every)[:steps] for i in range(horizon)]
        sets = {
            s for row in rows for n in range(1, steps + 1) for s in itertools.combinations(row, n)
        }
        for strategy in strategies(horizon):
            claimed = sensitivities(strategy, steps=steps, every=every)
            assert (claimed.l1, claimed.l2_squared) == worst(strategy, sets), strategy


def test_steps_anywhere_in_a_schedule_need_a_separation() -> None:
    """Steps 1 and 3 share a node, steps in a row do not: no schedule of two steps covers them."""
    tree = KAry(3, 3)
    moved = worst(tree, [(0, 2)])[1]
    assert sensitivities(tree, steps=2, every=1).l2_squared < moved
    assert sensitivities(tree, steps=2, separation=1).l2_squared == moved


@pytest.mark.parametrize("horizon", [2, 3, 9, 40, 250, 1500, 4000])
def test_all_steps_are_one_set(horizon: int) -> None:
    """Who may count in every step moves what counting in every step does, exactly."""
    schedule = participation.Schedule(horizon, 1, fixed=True)
    for strategy in (*strategies(horizon), SmoothBinary(horizon, 40, 12)):
        everything = sensitivities(strategy, steps=horizon)
        assert (
            everything == sensitivities(strategy, every=1) == sensitivities(strategy, steps=10**9)
        )
        if strategy.structure.divisions(None):
            by_starts = participation._sums_by_starts(strategy, (1, 2), schedule)
            assert by_starts is not None
            largest = [int(moved.max()) for moved in by_starts]
            assert largest == [everything.l1, everything.l2_squared]
        if horizon <= 40:
            norms = worst(strategy, [range(horizon)])
            assert (everything.l1, everything.l2_squared) == norms


@pytest.mark.parametrize("horizon", [16, 23, 40])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.slow
def test_bounds_hold_where_not_all_sets_are_tried(
    horizon: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least of the bounds, and of those for many steps, against enumeration."""
    cases = [(2, 5), (3, 2), (4, 3), (4, 8), (3, 13)]
    truth = {}
    for strategy, case in itertools.product(strategies(horizon), cases):
        schedule = participation.Schedule(*case, fixed=False)
        truth[strategy, case] = [
            participation._sensitivity_by_sets(strategy, norm, schedule) for norm in (1, 2)
        ]
    monkeypatch.setattr(participation, "_MOST_SETS", 0)
    if not shared:
        monkeypatch.setattr(participation, "_MOST_DISTRIBUTED_STEPS", 0)
    for (strategy, case), (l1, l2_squared) in truth.items():
        schedule = participation.schedule_for(horizon, *case, None)
        if schedule.steps == 1:
            continue
        bounds = list(participation._bounds(strategy, 2, schedule))
        assert min(bounds) >= l2_squared, (strategy, case)
        assert participation.largest_sum(strategy, 1, schedule) >= l1
        if shared:
            assert participation.largest_sum(strategy, 2, schedule) <= 1.35 * l2_squared


def test_bounds_of_long_horizons_hold_for_steps_close_together() -> None:
    """Sets that are likely to be bad: runs from every place of the first levels."""
    strategy: StreamStrategy
    for strategy in (Binary(300), KAry(300, 5), SmoothBinary.best(300, 2), HonakerOnline(300)):
        matrix = weights(strategy)
        for steps, separation in [(20, 2), (30, 7), (9, 30)]:
            runs = [range(i, 300, separation)[:steps] for i in range(60)]
            sums = [matrix[:, list(run)].sum(axis=1) for run in runs]
            claimed = sensitivities(strategy, steps=steps, separation=separation).l2_squared
            assert max(int((s**2).sum()) for s in sums) <= claimed


@pytest.mark.slow
def test_overlaps_of_smooth_leaves_by_brute_force() -> None:
    for strategy in SmoothBinary.candidates(28, of_each=1):
        products = weights(strategy).T @ weights(strategy)
        for apart in (1, 2, 3, 7):
            found = strategy._overlaps(participation.schedule_for(28, 28, apart, None))
            for j, overlap in enumerate(found, start=1):
                lags = [np.diagonal(products, lag).max() for lag in range(j * apart, 28)]
                assert overlap >= max(lags)
                if strategy.height > 8:
                    continue
                everything = SmoothBinary(
                    len(list(_leaves(strategy))) - 1, strategy.height, strategy.zeros
                )
                all_products = weights(everything).T @ weights(everything)
                lags = [np.diagonal(all_products, lag).max() for lag in range(j * apart, 28)]
                assert overlap <= max(lags) + 1


def _leaves(strategy: SmoothBinary) -> Iterator[int]:
    for leaf in range(2**strategy.height):
        if strategy.height - leaf.bit_count() == strategy.zeros:
            yield leaf


@pytest.mark.parametrize("horizon", [1, 2, 9, 100, 1000])
def test_sensitivity_of_one_step_equals_column_norms(horizon: int) -> None:
    for strategy in strategies(horizon):
        unit = 2**strategy.facts.lattice_bits
        l1 = strategy.l1_sensitivity()
        squared = strategy.squared_sensitivity()
        entries = ((unit, int(l1)),) if strategy.facts.unit_columns else None
        expected = Sensitivity(int(l1 * unit), int(squared * unit**2), entries)
        assert sensitivities(strategy) == sensitivities(strategy, steps=1, separation=9) == expected
        assert sensitivities(strategy, every=horizon) == expected
        assert sensitivity(strategy, 1) == float(l1)
        assert sensitivity(strategy, 2) == float(squared) ** 0.5


class OnlyColumns(StreamStrategy):
    """Columns with weights, on a lattice, and nothing said about how they divide."""

    facts = StrategyFacts(lattice_bits=3, unit_columns=False)

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    @property
    def parameters(self) -> dict[str, Any]:
        return {"horizon": self.horizon}

    def column(self, step: int) -> tuple[Node, ...]:
        step = check_step(self, step)
        weight = Fraction(1 + step % 5, 8)
        return (Node(0, step, weight), Node(0, 999 + step // 4, 1), Node(1, step // 7, -weight))

    def row(self, step: int) -> tuple[Node, ...]:
        raise NotImplementedError

    def l1_sensitivity(self) -> Fraction:
        return max(sum(abs(Fraction(n.weight)) for n in self.column(t)) for t in self._steps())  # type: ignore[return-value]

    def squared_sensitivity(self) -> Fraction:
        return max(sum(Fraction(n.weight) ** 2 for n in self.column(t)) for t in self._steps())  # type: ignore[return-value]

    def _steps(self) -> range:
        assert self.horizon is not None
        return range(1, self.horizon + 1)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        raise NotImplementedError


class FloatColumns(OnlyColumns):
    """The same, with weights as a package of others may write them."""

    def column(self, step: int) -> tuple[Node, ...]:
        return tuple(node._replace(weight=float(node.weight)) for node in super().column(step))  # type: ignore[arg-type]


def test_weights_may_be_floats() -> None:
    for steps, separation in [(3, 1), (5, 4)]:
        found, expected = (
            sensitivities(columns(11), steps=steps, separation=separation)
            for columns in (FloatColumns, OnlyColumns)
        )
        assert found == expected


@pytest.mark.parametrize("horizon", [11, 60, long(300), long(1500)])
def test_a_strategy_of_which_only_columns_are_known(horizon: int) -> None:
    strategy = OnlyColumns(horizon)
    matrix = np.abs(weights(strategy)) if horizon < 100 else np.zeros((0, 0))
    for steps, separation in [(3, 1), (3, 2), (5, 4), (horizon, 1)]:
        claimed = sensitivities(strategy, steps=steps, separation=separation)
        one = sensitivities(strategy)
        assert claimed.l2_squared <= claimed.l1**2
        assert claimed.l2_squared <= steps**2 * one.l2_squared
        if horizon == 11:
            sums = [matrix[:, list(s)].sum(axis=1) for s in admissible(11, steps, separation)]
            expected = max(int(s.sum()) for s in sums), max(int((s**2).sum()) for s in sums)
            assert (claimed.l1, claimed.l2_squared) == expected
        elif horizon == 60:
            runs = [range(i, horizon, separation)[:steps] for i in range(horizon)]
            sums = [matrix[:, list(run)].sum(axis=1) for run in runs]
            assert claimed.l2_squared >= max(int((s**2).sum()) for s in sums)
    every = sensitivities(strategy, every=5, steps=3)
    assert every.l2_squared <= sensitivities(strategy, steps=3, separation=5).l2_squared


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps is 0; it must be an integer between 1"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"steps": 2, "separation": 0}, "separation is 0"),
        ({"every": -1}, "every is -1"),
        ({"every": 3, "separation": 2}, "leave separation out"),
    ],
)
def test_impossible_participation_is_refused(arguments: Any, message: str) -> None:
    for strategy in (Binary(16), SqrtToeplitz(16)):
        with pytest.raises(InvalidInputError, match=message):
            sensitivities(strategy, **arguments)


def test_endless_streams_have_no_norms() -> None:
    arguments: list[dict[str, int]] = [{"steps": 3}, {"every": 3, "steps": 2}, {"every": 3}]
    for given in arguments:
        with pytest.raises(InvalidInputError, match=r"never ends|has no horizon"):
            sensitivities(Expiring(1), **given)


def test_many_steps_of_long_streams() -> None:
    tree = Binary(2**20 - 1)
    full = sum(2 ** (19 - level) * 4**level for level in range(20))
    assert (
        sensitivities(tree, steps=2**20 - 1).l2_squared
        == sensitivities(tree, every=1).l2_squared
        == full
    )
    makers: list[Callable[[int], StreamStrategy]] = [KAry.best, SmoothBinary.best, HonakerOnline]
    for make in makers:
        strategy = make(10**6)
        few, many = (sensitivities(strategy, steps=k).l2_squared for k in (100, 1100))
        assert few < many <= 1100**2 * strategy.squared_sensitivity()


@lru_cache
def _dense(horizon: int) -> NDArray[Any]:
    return weights(SqrtToeplitz(horizon))


@pytest.mark.parametrize("separation", [1, 2, 5, 9])
def test_square_root_moves_to_the_left(separation: int) -> None:
    """The schedule from step 1 on against random ones, over more steps than can be enumerated."""
    matrix = _dense(60)
    rng = np.random.default_rng(separation)
    for steps in (3, 7):
        claimed = sensitivities(SqrtToeplitz(60), steps=steps, separation=separation).l2_squared
        for _ in range(200):
            gaps = separation + rng.geometric(0.5, steps) - 1
            chosen = np.cumsum(gaps) - gaps[0] + rng.integers(0, 5)
            total = matrix[:, chosen[chosen < 60]].sum(axis=1)
            assert int((total**2).sum()) <= claimed


class Hidden(LookAhead):
    """A tree of which only columns are known."""

    @property
    def structure(self) -> participation.Structure:
        return participation.Structure()


HEAVY = (1, 2**20, 2**20, 2**20)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(64, 2, fixed=True), Schedule(9, 2, fixed=True), Schedule(60, 1, fixed=False),
        Schedule(60, 2, fixed=False),
    ],
    ids=str,
)  # fmt: skip
def test_sums_beyond_int64_are_added_up_exactly(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = range(0, schedule.steps * schedule.apart, schedule.apart)
    for kind in (LookAhead, Hidden):
        heavy = kind(128, (4, 4, 8), HEAVY)
        together = weights(heavy).astype(object)[:, list(steps)].sum(axis=1)
        claimed = participation.largest_sum(heavy, 2, schedule)
        assert claimed >= (together**2).sum()
        # No weight has more than 20 bits of these: int64 suffices, and must say the same.
        light = kind(128, (4, 4, 8), (1, 3, 2, 5))
        plain = [participation.largest_sum(light, norm, schedule) for norm in (1, 2)]
        monkeypatch.setattr(participation, "_LARGEST_SUM", 0)
        assert [participation.largest_sum(light, norm, schedule) for norm in (1, 2)] == plain
        monkeypatch.undo()


def test_norms_of_heavy_levels_over_many_steps() -> None:
    tree = LookAhead(65536, (256, 256), (1, 2**20, 2**20))
    assert sensitivities(tree, every=2).l2_squared == 2**15 + 2**40 * (256 * 128**2 + 2**30)
    assert sensitivities(tree, steps=1024).l2_squared == 2**10 + 2**40 * (4 * 256**2 + 2**20)
    short = Hidden(16, (2, 8), (1, 2**20, 2**20))
    assert sensitivities(short, every=2).l2_squared == 8 + 2**40 * (8 + 8**2)


@pytest.mark.parametrize(
    "tree",
    [
        KAry(500, 3, True), KAry(100_000, 7, True), KAry(3000, 26, False),
        SmoothBinary(2000, 20, 5), SmoothBinary(900, 12, 6),
        LookAhead(700, (4, 3, 5), (4, 3, 7, 5)),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("separation", [1, 3])
def test_largest_sum_over_many_steps_equals_brute_force(
    tree: StreamStrategy, separation: int
) -> None:
    schedule = participation.schedule_for(tree.horizon, 130, separation, None)
    for norm in (1, 2):
        assert participation.largest_sum(tree, norm, schedule) == all_shares(tree, norm, schedule)


def all_shares(tree: StreamStrategy, norm: int, schedule: participation.Schedule) -> int:
    """The same recursion over parts, every share tried, one part after the other."""
    most = schedule.steps

    def both(left: NDArray[Any], right: NDArray[Any], room: int) -> NDArray[Any]:
        found = np.zeros(min(len(left) + len(right) - 1, room + 1), np.int64)
        for first, sums in enumerate(left[: len(found)]):
            place = found[first : first + len(right)]
            np.maximum(place, sums + right[: len(place)], out=place)
        return found

    @cache
    def best(part: participation.Stretch | None) -> NDArray[Any]:
        room = most if part is None else min(most, -(-part.steps // schedule.apart))
        total = np.zeros(1, np.int64)
        divisions = tree.structure.divisions(part)
        for division, times in divisions:
            for _ in range(min(times, room)):
                total = both(total, best(division), room)
        if part is None:
            return total
        total = total if divisions else np.zeros(2, np.int64)
        weight = part.nodes * participation.level_weights(tree)[part.level] ** norm
        return np.asarray(total + weight * np.arange(len(total)) ** norm)

    return int(best(None).max())


def test_sensitivity_is_cached_for_each_strategy_separately() -> None:
    class Times(Binary):
        """Its parameters forget how often an item enters a node."""

        def __init__(self, horizon: int, times: int = 1) -> None:
            super().__init__(horizon)
            self.times = times

        @property
        def parameters(self) -> dict[str, Any]:
            return {"horizon": self.horizon}

        def l1_sensitivity(self) -> Fraction:
            return self.times * super().l1_sensitivity()

    pattern = BoundedChange(5, 25)
    once, thrice = (pattern_sensitivity(Times(8, times), pattern).l1 for times in (1, 3))
    assert thrice == 3 * once

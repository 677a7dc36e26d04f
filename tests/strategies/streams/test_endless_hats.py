"""Steps and hats without a last step: errors of rolling sums, exact rounding, and sensitivity."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from keys import chosen_key
from some_cases import long

from counton import Counter, PureDP, plan
from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError
from counton.strategies import (
    EndlessHats,
    matrices,
    sensitivities,
    strategy_from_dict,
)
from counton.strategies.streams import endless_hats
from counton.strategies.streams.exact_totals import WIDEST_STDS
from counton.strategies.workloads import Decayed, RecentWorkload, Rolling
from counton.testing import HashedNoise, check_strategy
from proofs import reference

#: Of one level, and of two.
SMALL = (
    EndlessHats(3, 28, 6),
    EndlessHats(2, 0, 0),
    EndlessHats(5, 900, 10),
    EndlessHats(2, 20, 6, 2, 18),
    EndlessHats(2, 1, 1, 3, 0),
    EndlessHats(3, 300, 10, 2, 400),
)
#: For sums over 365 steps.
YEAR = EndlessHats(12, 21998, 16, 12, 20623)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_examples_pass_check_strategy(strategy: EndlessHats) -> None:
    check_strategy(strategy, 14)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_factorisation_is_exact_with_fractions(strategy: EndlessHats) -> None:
    reads, enters = matrices(strategy, 23)
    assert (reads @ enters == np.tri(23, dtype=int)).all()


@pytest.mark.parametrize(
    ("workload", "steps", "best"),
    [(Rolling(7), 3653, 3.590), (Rolling(28), 3653, 6.17), (Rolling(91), 3653, 8.375),
     (Rolling(182), 3653, 9.979), (Decayed(7), 3653, 3.201), (Decayed(28), 3653, 4.844),
     (Decayed(90), 3653, 6.498), (Rolling(28), 10**6, 6.18)],
)  # fmt: skip
def test_endless_plan_reaches_the_best_known_error(
    workload: RecentWorkload, steps: int, best: float
) -> None:
    ranked = plan(None, PureDP(1), workload=workload, expected_windows=steps)
    assert ranked.best.strategy.saved_name == "EndlessHats"
    assert ranked.best.errors.mean_std <= best
    assert ranked.best.errors.mean_std > 0.95 * best


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "steps", "best"),
    [(Rolling(365), 10**6, 11.603), (Rolling(500), 10**6, 12.30), (Rolling(1000), 10**6, 13.98)],
)  # fmt: skip
def test_sums_over_hundreds_of_steps_take_two_levels_of_hats(
    workload: RecentWorkload, steps: int, best: float
) -> None:
    """One level of hats has 12.21, 13.61 and 17.84."""
    ranked = plan(None, PureDP(1), workload=workload, expected_windows=steps)
    assert ranked.best.strategy.parameters.get("multiple", 1) > 1
    assert ranked.best.errors.mean_std == pytest.approx(best, rel=0.002)


@pytest.mark.parametrize(
    ("width", "strategy"),
    [(7, EndlessHats(2, 0, 0)), (28, EndlessHats(14, 29127)), (91, EndlessHats(20, 32269)),
     (182, EndlessHats(28, 32768)), (250, EndlessHats(38, 32768)), long(365, YEAR)],
)  # fmt: skip
def test_widths_have_the_strategy_of_least_noise(width: int, strategy: EndlessHats) -> None:
    best = plan(None, PureDP(1), workload=Rolling(width), expected_windows=5000).best.strategy
    assert best == strategy


def test_plan_by_the_largest_error_evens_the_places_between_knots() -> None:
    mean, largest = (
        plan(None, PureDP(1), workload=Rolling(28), expected_windows=5000, metric=metric)
        .best.errors.max_std
        for metric in ("mean", "max")
    )  # fmt: skip
    assert mean == pytest.approx(6.52, abs=0.01)
    assert largest == pytest.approx(6.27, abs=0.01)


@pytest.mark.parametrize("strategy", [EndlessHats(11, 29128), YEAR], ids=repr)
def test_late_rolling_sums_have_the_same_error_for_ever(strategy: EndlessHats) -> None:
    stops = np.array([10**4, 10**6, 10**8])
    stops = stops - stops % (11 * 144)
    variances = strategy.variance(stops, since=stops - 28)
    assert variances == pytest.approx(variances[0], rel=1e-9)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_variances_equal_sums_over_nodes(strategy: EndlessHats) -> None:
    reads, _ = matrices(strategy, 90, exact=False)
    starts = np.array([0, 0, 17, 60, 61, 62])
    stops = np.array([1, 90, 45, 88, 89, 90])
    totals = np.vstack([np.zeros_like(reads[:1]), reads])
    expected = ((totals[stops] - totals[starts]) ** 2).sum(axis=1)
    assert strategy.variance(stops, since=starts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("strategy", [SMALL[0], SMALL[3]], ids=repr)
def test_long_windows_grow_by_the_same_variance_for_each_block(strategy: EndlessHats) -> None:
    weights, knots = strategy._weights_of_sum(np.ones(2000), 100)
    expected = float(weights @ weights + knots @ knots)
    assert strategy.variance(2100, since=100) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("strategy", [SMALL[0], SMALL[3]], ids=repr)
def test_decayed_variances_equal_weighted_sums_over_nodes(strategy: EndlessHats) -> None:
    factor = Decayed(4).factor
    steps = np.array([1, 2, 7, 60, 299, 300])
    for step, variance in zip(steps, strategy._decayed_variance(factor, steps), strict=True):
        weights, knots = strategy._weights_of_sum(factor ** np.arange(step - 1, -1, -1.0), 0)
        assert variance == pytest.approx(float(weights @ weights + knots @ knots), rel=1e-9)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_count_changes_endless_hats_by_one_in_1_norm(strategy: EndlessHats) -> None:
    _, enters = matrices(strategy, 40)
    assert {sum(abs(weight) for weight in column) for column in enters.T} == {Fraction(1)}
    squares = max(sum(weight**2 for weight in column) for column in enters.T)
    assert strategy.squared_sensitivity() == squares
    assert sensitivities(strategy).l1 == 2**strategy.bits


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_counts_move_releases_by_exactly_their_totals(strategy: EndlessHats) -> None:
    field = HashedNoise(shape=(2,), spread=5000)
    counts = {3: 2, 7: -5, 8: 11, 29: 1}

    class Moved:
        shape = (2,)

        def run(self, level: int, nodes: range) -> Integers:
            moved = np.array(field.run(level, nodes))
            for step, count in counts.items():
                for node in strategy.column(step):
                    if node.level == level and node.index in nodes:
                        place = node.index - nodes[0]
                        moved[place] += int(node.weight * 2**strategy.bits) * count
            return moved

    steps = range(1, 41)
    x = np.array([counts.get(step, 0) for step in steps])
    change = strategy.noise(Moved(), steps) - strategy.noise(field, steps)
    assert (change == (np.cumsum(x) * 2**strategy.facts.fraction_bits)[:, None]).all()


@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@pytest.mark.parametrize("strategy", [SMALL[2], SMALL[5]], ids=repr)
def test_windows_of_noise_continue_each_other(
    strategy: EndlessHats, shape: tuple[int, ...]
) -> None:
    field = HashedNoise(shape=shape, spread=5000)
    whole = strategy.noise(field, range(1, 60))
    reader = strategy._reader(field)
    parts = [
        reader.noise(range(begin, stop))
        for begin, stop in ((1, 2), (2, 7), (7, 7), (7, 40), (39, 60))
    ]
    joined = np.concatenate([*parts[:4], parts[4][1:]])
    assert (joined == whole).all()
    assert (strategy.noise(field, range(33, 60)) == whole[32:]).all()


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_noise_of_many_cells_is_the_same_in_small_parts(
    strategy: EndlessHats, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = HashedNoise(shape=(2,), spread=5000)
    whole = strategy.noise(field, range(1, 60))
    monkeypatch.setattr(endless_hats, "steps_at_once", lambda _cells: 7)
    assert (strategy.noise(field, range(1, 60)) == whole).all()


@pytest.mark.parametrize("strategy", [EndlessHats(14, 29127), YEAR], ids=repr)
def test_matrix_of_residuals_is_the_inverse(strategy: EndlessHats) -> None:
    here, after = (weights / 2.0**strategy.bits for weights in strategy._weights)
    knots = here.shape[1]
    middle = 15
    square = here.T @ here + after.T @ after + np.eye(knots) * (strategy.own / 2**16) ** 2
    system = np.kron(np.eye(2 * middle + 1), square)
    system += np.kron(np.eye(2 * middle + 1, k=1), here.T @ after)
    system += np.kron(np.eye(2 * middle + 1, k=-1), after.T @ here)
    inverse = np.linalg.inv(system)[middle * knots :][:knots].reshape(knots, -1, knots)
    exact = inverse[:, middle - 6 : middle + 7].transpose(1, 0, 2) * 2.0**14
    assert np.abs(strategy._kernel - exact).max() < 0.501


def test_widest_accepted_noise_has_exact_sums() -> None:
    strategy = EndlessHats(2, 30000, 16, 2, 20000)
    exact = reference.EndlessHats(2, 30000, 16, 2, 20000)
    epsilons = [Fraction(1, 2**n) for n in range(40)]
    accepted = None
    for epsilon in epsilons:
        try:
            counter = Counter(strategy, PureDP(epsilon), key=chosen_key(), name="wide")
        except InvalidInputError:
            break
        accepted = counter.design.distribution
    assert accepted is not None
    signs = HashedNoise(shape=(), spread=5000)
    widest = int(WIDEST_STDS * accepted.std)

    class Widest:
        shape = ()

        def run(self, level: int, nodes: range) -> Integers:
            drawn = np.asarray(signs.run(level, nodes))
            return np.where(drawn < 0, -widest, widest).astype(np.int64)

    field = Widest()
    expected = exact.noise(lambda level, at: int(field.run(level, range(at, at + 1))[0]), 40)
    assert strategy.noise(field, range(1, 41)).tolist() == expected


@pytest.mark.parametrize(
    "strategy", [EndlessHats(14, 29127), EndlessHats(3, 22000, 16, 4, 20000)], ids=repr
)
def test_measured_noise_has_the_stated_error(strategy: EndlessHats) -> None:
    counter = Counter(strategy, PureDP(1), key=chosen_key(), name="hats", shape=(4000,))
    recent = counter.release_many(np.zeros((70, 4000), int)).recent(Rolling(28))
    measured = np.asarray(recent.values[""], float).std(axis=1)
    assert measured[[0, 27, 50, 69]] == pytest.approx(recent.std()[[0, 27, 50, 69]], rel=0.05)
    low, high = recent.interval()
    assert ((low <= 0) & (high >= 0)).mean(axis=1).min() > 0.94


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_no_weight_of_a_node_is_above_the_stated_one(strategy: EndlessHats) -> None:
    reads, _ = matrices(strategy, 60, exact=False)
    most = strategy.largest_reads(np.array([60]))[0]
    assert np.abs(reads).max() <= most * (1 + 1e-12)
    assert np.abs(reads[50:] - reads[:10]).max() <= most * (1 + 1e-12)
    assert most < 4 * np.abs(reads).max()


def test_strategy_is_rebuilt_from_its_description() -> None:
    for strategy in SMALL:
        assert strategy_from_dict(strategy.to_dict()) == strategy


@pytest.mark.parametrize(
    ("spacing", "height", "bits"), [(1, 5, 6), (3, 64, 6), (3, -1, 6), (3, 5, 17), (2**15, 5, 6)]
)
def test_arguments_out_of_range_are_refused(spacing: int, height: int, bits: int) -> None:
    with pytest.raises(InvalidInputError, match=r"spacing|height|bits"):
        EndlessHats(spacing, height, bits)


@pytest.mark.parametrize(
    "arguments",
    [(2, 5, 6, 0, 0), (2, 5, 6, 33, 5), (2, 60, 6, 2, 4), (2, 4, 6, 2, -1), (2, 5, 6, 1, 1)],
)  # fmt: skip
def test_arguments_of_two_levels_out_of_range_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"multiple|wide_height"):
        EndlessHats(*arguments)


@pytest.mark.parametrize(("strategy", "width"), [(EndlessHats(14, 29127), 28), long(YEAR, 365)])
def test_noise_too_wide_for_exact_sums_is_refused(strategy: EndlessHats, width: int) -> None:
    with pytest.raises(InvalidInputError, match="sums are not exact in 64 bits"):
        Counter(strategy, PureDP("1e-6"), key=chosen_key(), name="wide")
    wide = plan(None, PureDP("0.001"), workload=Rolling(width)).best.strategy
    assert wide.parameters["bits"] == 10
    assert [*wide.parameters] == [*strategy.parameters]


def test_totals_are_not_planned_with_hats() -> None:
    from counton.planning.recent_sums import hats_of
    from counton.strategies.workloads import Stack

    with pytest.raises(InvalidInputError, match="not planned for totals"):
        hats_of(Stack([7], totals=1), None)

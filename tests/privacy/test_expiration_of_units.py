"""Units that act more than once, under expiration: the loss by age holds, found by trying."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, one_replaced
from scipy.optimize import linprog

from counton import ContributionBound, Counter, ExpiringDP, ExpiringZCDP, Key, RunningStatistic
from counton.base.distributions import BoundedChange, Run, Runs, Sensitivity
from counton.base.errors import InvalidInputError
from counton.continual import node_distribution
from counton.continual.node_distribution import distribution_for
from counton.privacy import expiration_loss
from counton.privacy.contribution_rules import UserLevel
from counton.statistics import Degrees, Distinct, Moments, Stars, Statistic, Substrings, Triangles
from counton.strategies import Expiring

Pairs = Iterator[tuple[Sequence[Any], Sequence[Any]]]
STRATEGIES = [Expiring(0), Expiring(1), Expiring(2), Expiring(1, delay=1)]


def edges_left_out() -> Pairs:
    """Two triangles with a common edge, in each order, and without one of the edges."""
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("b", "d"), ("d", "a")]
    for stream in itertools.permutations(edges):
        for step in range(len(stream)):
            yield stream, [*stream[:step], [], *stream[step + 1 :]]


def users_left_out() -> Pairs:
    """Everything that one of two users does, in four steps."""
    events = [(user, comes) for user in "uv" for comes in (True, False)]
    for stream in itertools.product(events, repeat=4):
        yield stream, [event if event[0] != "u" else [] for event in stream]


def triangles_in_one_step() -> Pairs:
    """All edges of two triangles come at once, with and without the edge that both have."""
    others = [("b", "c"), ("c", "a"), ("b", "d"), ("d", "a")]
    yield [[*others, ("a", "b")], [], [], []], [others, [], [], []]


def edge_that_keeps_two_out() -> Pairs:
    """Two later edges are kept only where an earlier one is missing."""
    later: list[Any] = [[("a", "c"), ("b", "d")], [], []]
    yield [[("a", "b")], *later], [[], *later]


def letters_of_two_steps() -> Pairs:
    """Words whose letters come in two steps, with and without another letter in a place."""
    for one, other in one_replaced("ab", 4, "ab"):
        for cut in (1, 2, 3):
            yield [[*one[:cut]], [*one[cut:]], [], []], [[*other[:cut]], [*other[cut:]], [], []]


#: Units of which several events may come in one step.
BATCHED = ("triangles in one step", "dropped edges", "words of two steps", "degrees of two steps")


def edges_of_two_steps() -> Pairs:
    """Edges at one node, and one between its neighbours, with and without one of them."""
    edges = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c")]
    for stream in itertools.permutations(edges):
        for place, cut in itertools.product(range(4), (1, 2, 3)):
            parts = [[*stream[:cut]], [*stream[cut:]], [], []]
            left_out = stream[place]
            yield parts, [[edge for edge in part if edge != left_out] for part in parts]


UNITS: dict[str, tuple[Statistic, Callable[[], Pairs]]] = {
    "triangles": (Triangles(degree=3), edges_left_out),
    "triangles in one step": (Triangles(degree=3), triangles_in_one_step),
    "degrees": (Degrees(degree=3), edges_left_out),
    "degrees of all nodes": (Degrees(degree=3, nodes=4), edges_left_out),
    "degrees of two steps": (Degrees(degree=3), edges_of_two_steps),
    "words of two steps": (Substrings("ab", 3), letters_of_two_steps),
    "dropped triangles": (Triangles(degree=2, beyond="drop"), edges_left_out),
    "dropped edges": (Stars(1, 1, beyond="drop"), edge_that_keeps_two_out),
    "words": (Substrings("ab", 2), lambda: one_replaced("ab", 4, "ab")),
    "users who come and go": (Distinct(changes=2), users_left_out),
}


def different_changes(statistic: Statistic, pairs: Pairs) -> list[np.ndarray[Any, Any]]:
    """What a unit changes, by step and cell: each change once, and none of zeros."""
    found: dict[bytes, np.ndarray[Any, Any]] = {}
    for one, other in pairs:
        change = changes_of(statistic, one) - changes_of(statistic, other)
        if change.any():
            found[change.tobytes()] = change
    return [*found.values()]


@cache
def reads(strategy: Expiring, steps: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which nodes each release reads, as a matrix; and the ratio of each node's noise."""
    rows = [strategy.row(step) for step in range(1, steps + 1)]
    nodes = sorted({node[:2] for row in rows for node in row})
    matrix = np.zeros((steps, len(nodes)))
    for place, row in enumerate(rows):
        for level, index, weight in row:
            matrix[place, nodes.index((level, index))] = weight
    return matrix, np.array([float(strategy.expiry.factor(level)) for level, _ in nodes])


@cache
def loss_of_cell(strategy: Expiring, totals: tuple[int, ...], gaussian: bool) -> float:
    """The least cost of shifts that move the releases by ``totals``, for noise of scale 1.

    For Laplace noise a linear program, for continuous Gaussian noise half of a squared norm.
    """
    delay = strategy.delay
    released = np.array([0] * delay + list(totals))[: len(totals)]
    if not released.any():
        return 0.0
    matrix, factors = reads(strategy, len(totals))
    if gaussian:
        shown = matrix.any(axis=1)
        covariance = (matrix[shown] * factors) @ matrix[shown].T
        return float(released[shown] @ np.linalg.solve(covariance, released[shown])) / 2
    both = np.hstack([matrix, -matrix])
    cost = np.concatenate([1 / factors, 1 / factors])
    solved = linprog(cost, A_eq=both, b_eq=released, bounds=(0, None))
    assert solved.status == 0
    return float(solved.fun)


def largest_ratio(
    strategy: Expiring, guarantee: Any, noise: float, found: list[np.ndarray[Any, Any]]
) -> float:
    """The largest exact loss, over all changes and releases, divided by what is guaranteed.

    The age of a unit is the number of steps since its first change. ``noise`` is the scale of
    Laplace noise, or the variance of Gaussian noise, of single steps.
    """
    gaussian = isinstance(guarantee, ExpiringZCDP)
    analysis: Any = "concentrated" if gaussian else "exact"
    ratios = []
    for changes in found:
        first = int(np.flatnonzero(changes.any(axis=1))[0])
        for step in range(first + strategy.delay, len(changes)):
            totals = changes[: step + 1].cumsum(axis=0).T.tolist()
            loss = sum(loss_of_cell(strategy, tuple(cell), gaussian) for cell in totals) / noise
            ratios.append(loss / float(expiration_loss(strategy, [step - first], analysis)[0]))
    return max(ratios)


def noise_for(
    strategy: Expiring, guarantee: Any, contribution: ContributionBound, cells: int
) -> float:
    """The scale or variance of the calibrated noise, for epsilon or rho of 1."""
    shape = () if cells == 1 else (cells,)
    distribution: Any = distribution_for(strategy, guarantee, contribution, shape).distribution
    gaussian = isinstance(guarantee, ExpiringZCDP)
    return float(distribution.sigma_squared if gaussian else distribution.scale)


def noise_for_one_change(guarantee: Any) -> float:
    """What would do for a unit that changes a single count by 1."""
    return 0.5 if isinstance(guarantee, ExpiringZCDP) else 1.0


@pytest.mark.parametrize("guarantee", [ExpiringDP(1), ExpiringZCDP(1)], ids=repr)
@pytest.mark.parametrize("unit", [*UNITS])
def test_exact_loss_of_unit_is_within_loss_by_age(unit: str, guarantee: Any) -> None:
    statistic, pairs = UNITS[unit]
    found = different_changes(statistic, pairs())
    contribution = statistic.contribution(batched=unit in BATCHED)
    assert not contribution.in_one_step
    alone = noise_for_one_change(guarantee)
    for strategy in STRATEGIES:
        noise = noise_for(strategy, guarantee, contribution, found[0].shape[1])
        assert largest_ratio(strategy, guarantee, noise, found) <= 1 + 1e-9, strategy
    if unit != "dropped triangles":  # noise for a single change would lose more than it guarantees
        assert max(largest_ratio(each, guarantee, alone, found) for each in STRATEGIES) > 1.1


@pytest.mark.parametrize("guarantee", [ExpiringDP(1), ExpiringZCDP(1)], ids=repr)
def test_loss_of_triangles_in_one_step_is_attained(guarantee: Any) -> None:
    statistic, pairs = UNITS["triangles in one step"]
    found = different_changes(statistic, pairs())
    strategy = Expiring(1)
    noise = noise_for(strategy, guarantee, statistic.contribution(batched=True), 1)
    assert largest_ratio(strategy, guarantee, noise, found) == pytest.approx(1)


BOUNDS = {
    "three steps": (ContributionBound.add_remove(steps=3), 1),
    "three events": (ContributionBound.events(3), 1),
    "once in each group": (ContributionBound.events(2, once="group"), 2),
}


def changes_within(name: str) -> list[np.ndarray[Any, Any]]:
    """Every change that a bound admits, in four steps."""
    _, cells = BOUNDS[name]
    most = {"three steps": 1, "three events": 3, "once in each group": 1}[name]
    found = []
    for flat in itertools.product(range(most + 1), repeat=4 * cells):
        change = np.array(flat).reshape(4, cells)
        limit = 2 if cells == 2 else 3
        one_per_cell = cells == 1 or bool((change.sum(axis=0) <= 1).all())
        if 0 < change.sum() <= limit and one_per_cell:
            found.append(change)
    return found


@pytest.mark.parametrize("guarantee", [ExpiringDP(1), ExpiringZCDP(1)], ids=repr)
@pytest.mark.parametrize("name", [*BOUNDS])
def test_exact_loss_of_several_events_is_within_loss_by_age(name: str, guarantee: Any) -> None:
    contribution, cells = BOUNDS[name]
    found = changes_within(name)
    alone = noise_for_one_change(guarantee)
    for strategy in STRATEGIES:
        noise = noise_for(strategy, guarantee, contribution, cells)
        assert largest_ratio(strategy, guarantee, noise, found) <= 1 + 1e-9, strategy
    assert max(largest_ratio(each, guarantee, alone, found) for each in STRATEGIES) > 1.3


@pytest.mark.parametrize("guarantee", [ExpiringDP(1), ExpiringZCDP(1)], ids=repr)
def test_exact_loss_of_run_is_within_loss_by_age(guarantee: Any) -> None:
    """Changes of one cell in consecutive steps add up; squares of changes alone are too little."""
    pattern = Runs((Run(length=3),))
    contribution = ContributionBound.of_pattern(pattern, "three steps in a row", unit="user")
    run = np.tri(4, 2) - np.tri(4, 2, k=-3)
    found = [run[:, [place]] for place in range(2)]
    for strategy in STRATEGIES:
        noise = noise_for(strategy, guarantee, contribution, 1)
        assert largest_ratio(strategy, guarantee, noise, found) <= 1 + 1e-9, strategy
    squares = pattern.total * noise_for_one_change(guarantee)
    if isinstance(guarantee, ExpiringZCDP):
        assert largest_ratio(Expiring(1), guarantee, squares, found) > 1.1


def rows_of_a_user(statistic: Moments) -> list[np.ndarray[Any, Any]]:
    """What two rows of a user change, in each pair of four steps and for each pair of values."""
    rows = [changes_of(statistic, [[(value,)]])[0] for value in (0.0, 0.25, 0.5, 1.0)]
    found = []
    for one, other in itertools.combinations_with_replacement(rows, 2):
        for first, second in itertools.product(range(4), repeat=2):
            change = np.zeros((4, len(one)))
            change[first] += one
            change[second] += other
            found.append(change)
    return found


def test_rows_of_a_user_need_only_the_2_norm_of_a_row() -> None:
    """The sum of all changes would have 2.5 times the variance; less than this is too little."""
    statistic = Moments({"price": (0, 1)}, grid=4)
    found = rows_of_a_user(statistic)
    contribution = UserLevel(2).contribution_bound(statistic.contribution(batched=True))
    pattern = contribution.pattern
    assert isinstance(pattern, BoundedChange)
    guarantee = ExpiringZCDP(1)
    for strategy in STRATEGIES:
        variance = noise_for(strategy, guarantee, contribution, found[0].shape[1])
        assert variance == pattern.l2_squared / 2
        assert pattern.l1**2 / 2 == pytest.approx(2.53 * variance, rel=0.01)
        assert largest_ratio(strategy, guarantee, variance, found) == pytest.approx(1)


def least_shifts(strategy: Expiring, steps: int) -> np.ndarray[Any, Any]:
    """Inner products of the least shifts of continuous noise, for a change by 1 from each step."""
    matrix, factors = reads(strategy, steps)
    shown = matrix.any(axis=1)
    released = np.tri(steps, k=-strategy.delay)[shown]
    covariance = (matrix[shown] * factors) @ matrix[shown].T
    return np.asarray(released.T @ np.linalg.solve(covariance, released))


def least_integer_shifts(strategy: Expiring, steps: int) -> np.ndarray[Any, Any]:
    """As `least_shifts`, for shifts by integers: labels of intervals are 0 or 1."""
    matrix, factors = reads(strategy, steps)
    shifts = [_integer_shift(strategy, steps, step) for step in range(1, steps + 1)]
    rows = [strategy.row(step) for step in range(1, steps + 1)]
    nodes = sorted({node[:2] for row in rows for node in row})
    columns = np.array([[shift.get(node, 0) for node in nodes] for shift in shifts]).T
    assert (matrix @ columns == np.tri(steps, k=-strategy.delay)).all()
    return np.asarray((columns.T / factors) @ columns)


def _integer_shift(strategy: Expiring, steps: int, step: int) -> dict[tuple[int, int], int]:
    """The shift of each interval that moves all releases of ``step`` and later by 1, least of all.

    Among labels of equal cost, the smallest are taken.
    """
    last = steps - strategy.delay

    def solve(level: int, index: int, parent: int) -> tuple[float, dict[tuple[int, int], int]]:
        first = index << level
        if first > last:
            return 0.0, {}
        choices = []
        for label in (0, 1):
            if level == 0 and label != (index >= step):
                continue
            cost = abs(label - parent) / float(strategy.expiry.factor(level))
            shift = {(level, index): label - parent}
            for child in (2 * index, 2 * index + 1) if level else ():
                cost_of_child, shift_of_child = solve(level - 1, child, label)
                cost += cost_of_child
                shift |= shift_of_child
            choices.append((cost, label, shift))
        cost, _, shift = min(choices, key=lambda choice: (round(choice[0], 9), choice[1]))
        return cost, shift

    whole: dict[tuple[int, int], int] = {}
    roots = [(min(at.bit_length() - 1, strategy.expiry.top), at) for at in range(1, last + 1)]
    for level, at in roots:
        if at & ((1 << level) - 1) == 0:
            whole |= solve(level, at >> level, 0)[1]
    return whole


@pytest.mark.parametrize("products", [least_shifts, least_integer_shifts])
@pytest.mark.parametrize("strategy", [*STRATEGIES, Expiring(4), Expiring(1, levels=2)], ids=repr)
def test_least_shifts_are_aligned(
    strategy: Expiring, products: Callable[[Expiring, int], np.ndarray[Any, Any]]
) -> None:
    """No inner product is negative, and it falls as the later of both steps grows."""
    for steps in (1, 2, 3, 7, 12, 17):
        if steps > strategy.delay:
            gram = products(strategy, steps)
            assert gram.min() > -1e-12
            assert np.triu(np.diff(gram, axis=1)).max(initial=0) < 1e-12


def test_noise_for_one_change_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an implementation would draw it that forgets how often a unit acts."""
    monkeypatch.setattr(
        node_distribution, "change_under_expiration", lambda *_, **__: Sensitivity(1, 1)
    )
    with pytest.raises(AssertionError):
        test_exact_loss_of_unit_is_within_loss_by_age("words", ExpiringDP(1))


def test_unit_in_any_number_of_steps_is_refused() -> None:
    endless = ContributionBound.add_remove(every=7)
    with pytest.raises(InvalidInputError, match=r"any number of steps, whose losses"):
        Counter(Expiring(1), ExpiringDP(1), key=Key.generate(), name="weekly", contribution=endless)


def test_words_and_triangles_are_released_under_expiration() -> None:
    words: Any = RunningStatistic.start(
        Substrings("ab", 2),
        guarantee=ExpiringDP(10**6),
        strategy=Expiring(1),
        key=Key.generate(),
        name="words",
    )
    assert round(words.release_many("abab")[-1]["ab"]) == 2
    assert words.design.errors.loss([0, 3]).tolist() == [10**6, 3 * 10**6]
    triangles: Any = RunningStatistic.start(
        Triangles(degree=3),
        guarantee=ExpiringDP(10**6),
        strategy=Expiring(1),
        key=Key.generate(),
        name="graph",
    )
    result = triangles.release_many([("a", "b"), ("b", "c"), ("c", "a")])[-1]
    assert round(result["triangles"]) == 1

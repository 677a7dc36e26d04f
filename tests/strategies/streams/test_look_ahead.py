"""The look-ahead tree: its error, least squares against dense matrices, and what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from some_cases import long

from counton import ZCDP, ContributionBound, Counter, Key, PureDP
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.continual.design import design_for
from counton.continual.node_distribution import distribution_for
from counton.strategies import LookAhead, matrices, sensitivities, sensitivity, strategy
from counton.strategies.streams import look_ahead, subtrees
from counton.testing import HashedNoise, ShiftedNoise

# Mean variance at epsilon = 1 that is promised, and the root of the mean variance at rho = 1/2.
PROMISED = [
    (365, 79.1, 3.2), (1024, 116.9, 3.6), (8760, 236.9, 4.5), (2**16, 407.4, 5.3),
    (2**20, 750.0, 6.45), (10**7, 1142.0, 7.4), (10**9, 2318.0, 9.4),
]  # fmt: skip


@pytest.mark.parametrize(("horizon", "variance", "std"), PROMISED)
def test_look_ahead_error_is_below_stated_error(horizon: int, variance: float, std: float) -> None:
    once = ContributionBound.add_remove()
    tree = LookAhead.best(horizon)
    distribution = distribution_for(tree, PureDP(1), once).distribution
    assert (
        distribution.variance * tree.overall_variance("mean") / 4**tree.facts.lattice_bits
        <= variance
    )
    tree = LookAhead.best(horizon, norm=2)
    distribution = distribution_for(tree, ZCDP("1/2"), once).distribution
    assert (
        math.sqrt(
            distribution.variance * tree.overall_variance("mean") / 4**tree.facts.lattice_bits
        )
        <= std
    )


@pytest.mark.parametrize("horizon", [1, 2, 6, 11, 12, 13, 35])
def test_no_linear_estimate_is_better_where_all_levels_are_read(horizon: int) -> None:
    tree = LookAhead(horizon, (3, 4), (4, 3, 5))
    columns = matrices(tree)[1].astype(float)
    inverse = np.linalg.inv(columns.T @ columns)
    totals = np.tri(horizon)
    least = np.diagonal(totals @ inverse @ totals.T)
    assert tree.variance(range(1, horizon + 1)) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("horizon", [5, 12, 29])
def test_no_change_of_a_weight_or_radix_is_better(horizon: int) -> None:
    best = LookAhead.best(horizon)

    def error(tree: LookAhead) -> float:
        return tree.overall_variance("mean") * sensitivity(tree, 1) ** 2

    for place in range(1, best.height):
        for step in (-8, 8):
            weights = list(best.weights)
            weights[place] += step
            assert error(LookAhead(horizon, best.radices, weights)) > error(best)
    for place in range(best.height - 1):
        for step in (-1, 1):
            radices = list(best.radices)
            radices[place] += step
            if radices[place] > 1:
                assert error(LookAhead(horizon, radices, best.weights)) > error(best) * 0.999


@pytest.mark.parametrize("horizon", [17, 2**16 + 1, 10**9, 2**62])
@pytest.mark.parametrize("radices", [(2, 3, 2), (12, 11, 10), ()])
def test_largest_variance_is_attained_nearby_and_never_exceeded(
    horizon: int, radices: tuple[int, ...]
) -> None:
    tree = LookAhead(horizon, radices, (8, 7, 9, 6)[: len(radices) + 1])
    largest = tree.overall_variance("max")
    width = math.prod(radices)
    last = np.arange(max(1, horizon - 3 * width), horizon + 1)
    found = tree.variance(last)
    assert largest == pytest.approx(found.max(), rel=1e-12)
    some = np.random.default_rng(horizon).integers(1, horizon + 1, 1000)
    assert tree.variance(some).max() <= largest * (1 + 1e-12)


@pytest.mark.parametrize(
    ("horizon", "radices", "weights"),
    [
        (7877, (5, 25, 30, 3), (1, 1024, 1, 1, 1)),
        (3011, (50, 30, 3, 5), (512, 1, 4, 1, 4)),
        (1254, (25, 20, 7), (8192, 1, 29, 27)),
    ],
)
def test_largest_variance_includes_nodes_known_worse_than_their_children(
    horizon: int, radices: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    tree = LookAhead(horizon, radices, weights)
    trees = tree._trees
    assert any(
        spread < own
        for both, above in zip(trees.spreads, trees.variances[1:], strict=True)
        for spread, own in zip(both, above, strict=True)
    )
    found = tree.variance(np.arange(1, horizon + 1)).max()
    assert tree.overall_variance("max") == pytest.approx(found, rel=1e-12)


def test_mean_variance_is_that_of_whole_trees_and_the_rest() -> None:
    tree = LookAhead(10**5, (7, 5, 11, 13), (16, 13, 14, 15, 12))
    found = tree.variance(np.arange(1, 10**5 + 1))
    assert tree.overall_variance("mean") == pytest.approx(math.fsum(found) / 10**5, rel=1e-12)
    assert tree.overall_variance("max") == pytest.approx(found.max(), rel=1e-12)


@pytest.mark.parametrize("horizon", [1, 2, 5, 13])
def test_neighbours_release_the_same_with_shifted_noise(horizon: int) -> None:
    key = Key.generate()
    for tree in LookAhead.examples(horizon):
        counter = Counter(tree, PureDP(1), key=key, name="visits")
        field = counter.design.noise_field(key)
        counts = np.arange(horizon) % 3
        released = counter.release_many(counts).values
        for item in range(1, horizon + 1):
            more = counts.copy()
            more[item - 1] += 2
            unit = tree.weights[0]
            moved = {node[:2]: -2 * int(node.weight * unit) for node in tree.column(item)}
            noise = tree.noise(ShiftedNoise(field, moved), range(1, horizon + 1))
            assert (np.cumsum(more) + noise / 2.0**16 == released).all()


def test_losses_of_all_levels_add_up_to_epsilon() -> None:
    tree = LookAhead.best(10**7)
    for epsilon in (Fraction(1), Fraction(1, 3), Fraction(7)):
        distribution = distribution_for(
            tree, PureDP(epsilon), ContributionBound.add_remove()
        ).distribution
        assert isinstance(distribution, DiscreteLaplace)
        moved = [int(node.weight * tree.weights[0]) for node in tree.column(5)]
        assert sum(weight / distribution.scale for weight in moved) == epsilon
    rho = Fraction(1, 3)
    distribution = distribution_for(
        tree, ZCDP(rho), ContributionBound.add_remove(), family="gaussian"
    ).distribution
    assert isinstance(distribution, DiscreteGaussian)
    squares = sum(int(node.weight * tree.weights[0]) ** 2 for node in tree.column(5))
    assert squares / (2 * distribution.sigma_squared) == rho


@pytest.mark.parametrize("horizon", [7, 60, long(365)])
def test_largest_read_bounds_weights_of_all_releases(horizon: int) -> None:
    trees = {*LookAhead.examples(horizon), *LookAhead.candidates(horizon, steps=horizon // 4 + 1)}
    for tree in trees:
        rows = [tree.row(step) for step in range(1, horizon + 1, 1 + horizon // 30)]
        read = max(abs(float(node.weight)) for row in rows for node in row)
        assert read <= tree._largest_read * (1 + 1e-12)
        assert tree._largest_read <= 1.7 * read


@pytest.mark.parametrize("steps", [3, 40])
@pytest.mark.parametrize("separation", [1, 7])
def test_candidates_for_units_of_many_steps_are_better_for_them(
    steps: int, separation: int
) -> None:
    def error(tree: LookAhead) -> float:
        moved = sensitivities(tree, steps=steps, separation=separation)
        return tree.overall_variance("mean") * float(
            moved.l2_squared >> 2 * tree.facts.lattice_bits
        )

    once = error(LookAhead.best(1000, norm=2))
    several = LookAhead.candidates(1000, steps=steps, separation=separation)
    assert min(error(tree) for tree in several) < 0.97 * once


@pytest.mark.parametrize("horizon", [1, 12, 47, 230])
def test_row_by_row_is_the_same(horizon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HashedNoise((3,))
    everything = range(1, horizon + 1)
    trees = LookAhead.examples(horizon)
    whole = [tree.noise(table, everything) for tree in trees]
    for room in (1, 10):
        monkeypatch.setattr(subtrees, "nodes_per_chunk", lambda shape, numbers=0, n=room: n)
        assert all(
            (tree.noise(table, everything) == expected).all()
            for tree, expected in zip(trees, whole, strict=True)
        )
    monkeypatch.setattr(look_ahead, "FEWEST_WIDE_COORDINATES", 1)
    monkeypatch.setattr(strategy, "FEWEST_WIDE_COORDINATES", 1)
    for tree, expected in zip(trees, whole, strict=True):
        assert (tree.noise(table, everything) == expected).all()
        reader = tree._reader(table)
        # Windows that follow each other, one that does not, and what comes after it.
        for start, stop in [(1, 2), (2, 9), (9, 40), (5, 6), (6, 7), (40, 41), (3, 231)]:
            window = range(min(start, horizon), min(stop, horizon + 1))
            assert (reader.noise(window) == expected[window.start - 1 :][: len(window)]).all()
        assert (np.concatenate(list(reader.parts(everything))) == expected).all()
    with pytest.raises(HorizonExceededError):
        reader.noise(range(1, horizon + 2))


def test_any_window_of_a_stream_of_2_62_steps() -> None:
    tree = LookAhead.best(2**62)
    field = HashedNoise()
    for start in (1, 10**15, 2**62 - 49):
        whole = tree.noise(field, range(start, start + 50))
        assert (tree.noise(field, range(start + 20, start + 23)) == whole[20:23]).all()
    assert tree.noise(field, range(2**62, 2**62 + 1)).shape == (1,)


REFUSED = [
    ({"horizon": 0}, "horizon is 0"),
    ({"horizon": 9, "radices": (1,)}, "radix is 1"),
    ({"horizon": 9, "radices": 3}, "values of radix are 3; give a list"),
    ({"horizon": 9, "radices": range(10**30)}, "more than 64 values of radix"),
    ({"horizon": 9, "radices": (3,), "weights": range(10**30)}, "more than 65 values of weight"),
    ({"horizon": 9, "radices": (3,), "weights": (1, 0)}, "weight is 0"),
    ({"horizon": 9, "radices": (3,), "weights": (1,)}, "give 2 weights"),
    ({"horizon": 9, "radices": (3,), "weights": (3, 1)}, "a power of two"),
    ({"horizon": 9, "radices": (2**15,) * 5}, "leave out some of the radices"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_look_ahead_refuses_invalid_arguments(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        LookAhead(**arguments)  # type: ignore[arg-type]


def test_noise_too_wide_for_its_sums_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="give a larger epsilon"):
        design_for(LookAhead.best(1000), PureDP("1e-9"), ContributionBound.add_remove())
    with pytest.raises(HorizonExceededError):
        LookAhead(5).row(6)


def test_levels_that_single_windows_hardly_read_keep_a_weight() -> None:
    """A search divided by a weight that had become 0."""
    (found,) = LookAhead.candidates(30, release="windows", steps=3, separation=7)
    assert found.horizon == 30
    assert min(found.weights) >= 1

"""Mathias' bounds against the square-root factorisation and a norm computed directly."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from counton import Counter, Key, plan
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInput
from counton.planning import lower_bounds as bounds
from counton.planning.lower_bounds import (
    factorisation_bounds,
    least_error_of_cells,
    least_error_on_coin_flips,
    least_noise_variance,
    least_variance,
    mathias_sum,
    nuclear_norm,
)
from counton.privacy import ZCDP, ApproxDP, Contribution, Guarantee, PureDP
from counton.statistics import Cuts, Substrings
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import Metric
from counton.strategies.strategy import ReleaseForm
from counton.strategies.streams.square_root import square_root_sensitivity
from papers.constants.numbers import least_error_of_minimum_cut


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 2**16, 2**20])
def test_square_root_lies_within_0585_of_the_lower_bound(horizon: int) -> None:
    lower, upper = factorisation_bounds(horizon)
    value = square_root_sensitivity(horizon)
    assert lower <= value <= lower + 0.58502
    assert lower <= upper <= lower + 0.5


def test_the_gap_tends_to_its_limit() -> None:
    lower, _ = factorisation_bounds(2**20)
    assert square_root_sensitivity(2**20) - lower == pytest.approx(0.5850, abs=1e-4)


def test_blocks_of_the_sum_agree_with_one_sum() -> None:
    horizon = 2**21 + 12_345
    j = np.arange(1, horizon + 1)
    direct = math.fsum(1 / np.sin((2 * j - 1) * np.pi / (2 * horizon))) / horizon
    assert mathias_sum(horizon) == pytest.approx(direct, rel=1e-10)


def test_no_factorisation_of_two_steps_beats_the_bound() -> None:
    """A = B C for T = 2 is B = A M^-1, C = M: search the lower-triangular M."""
    best = math.inf
    for a in np.linspace(0.05, 3, 120):
        for b in np.linspace(-3, 3, 121):
            inverse = np.array([[1, 0], [-b / a, 1 / a]])
            reads = np.array([[1, 0], [1, 1]]) @ inverse
            column = math.sqrt(max(1 + b * b, a * a))
            row = math.sqrt(max((reads**2).sum(axis=1)))
            best = min(best, column * row)
    lower, upper = factorisation_bounds(2)
    assert lower <= best <= upper + 0.01


def test_horizon_is_checked() -> None:
    with pytest.raises(InvalidInput, match="horizon"):
        mathias_sum(0)


# --- bounds on variances -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 100])
def test_singular_values_of_running_sums(horizon: int) -> None:
    singular = np.linalg.svd(np.tri(horizon), compute_uv=False)
    assert nuclear_norm(horizon) == pytest.approx(singular.sum(), rel=1e-12)
    both = np.linalg.svd(np.vstack([np.tri(horizon), np.eye(horizon)]), compute_uv=False)
    least = (both.sum() / horizon) ** 2 / 2
    assert least_variance(horizon, release="both") == pytest.approx(least, rel=1e-8)


def test_long_sums_are_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for horizon in (5000, 5001):
        exact = mathias_sum(horizon)
        with monkeypatch.context() as patched:
            patched.setattr(bounds, "_MOST_TERMS", 1000)
            assert mathias_sum(horizon) == pytest.approx(exact, rel=1e-8)
    assert least_variance(10**9) == pytest.approx(7.29832**2, rel=1e-5)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1), PureDP(8), ZCDP(0.5), ApproxDP(1, 1e-6)], ids=repr
)
@pytest.mark.parametrize(
    ("release", "metric"), [("totals", "mean"), ("windows", "max"), ("both", "mean")]
)
def test_no_plan_is_below_the_bound(
    guarantee: Guarantee, release: ReleaseForm, metric: Metric
) -> None:
    """With integers too, where noise is narrowest; for several cells, and clipped values."""
    for contribution in (
        Contribution.add_remove(),
        Contribution.replace(cells=2),
        Contribution.values(0, 50, 0.5),
    ):
        for horizon in (1, 2, 30, 300):
            ranked = plan(horizon, guarantee, metric, contribution, (3,), release=release)
            (least,) = ranked.least_std().values()
            family = next(iter(ranked.least_std()))
            found = [choice.errors.by(metric) for choice in ranked if choice.family == family]
            assert found or isinstance(guarantee, ApproxDP)
            assert all(least <= std * (1 + 1e-9) for std in found)


def test_the_bound_is_nearly_met() -> None:
    """By the best strategies for Gaussian noise, and by one draw a step."""
    ranked = plan(1024, ZCDP(0.5))
    assert ranked.least_std()["gaussian"] == pytest.approx(2.91, abs=5e-3)
    assert ranked.best.errors.mean_std < 1.03 * ranked.least_std()["gaussian"]
    counts = plan(1024, PureDP(1), release="windows")
    assert counts.best.errors.mean_std == pytest.approx(counts.least_std()["laplace"])


def test_units_that_count_several_times_have_no_bound() -> None:
    assert plan(30, PureDP(1), contribution=Contribution.add_remove(steps=2)).least_std() == {}


# --- noise of any law, and any mechanism ---------------------------------------------------------


def _least_variance_on_integers(epsilon: float, delta: float, reach: int) -> float:
    """Of all laws on -reach..reach whose shifts by 1 are (epsilon, delta)-close: a linear program.

    Variables: the masses p, and what one shift exceeds the other times e^epsilon by.
    """
    count = 2 * reach + 1
    places = np.arange(-reach, reach + 1)
    bounded, limits = [], []
    for sign in (1, -1):
        for i in range(-1, count + 1):
            row = np.zeros(count + 2 * (count + 2))
            if 0 <= i < count:
                row[i] = 1
            if 0 <= i + sign < count:
                row[i + sign] -= math.exp(epsilon)
            row[count + (sign > 0) * (count + 2) + i + 1] = -1
            bounded.append(row)
            limits.append(0.0)
        row = np.zeros(count + 2 * (count + 2))
        row[count + (sign > 0) * (count + 2) :][: count + 2] = 1
        bounded.append(row)
        limits.append(delta)
    total = np.zeros(count + 2 * (count + 2))
    total[:count] = 1
    cost = np.concatenate([places.astype(float) ** 2, np.zeros(2 * (count + 2))])
    found = linprog(cost, np.array(bounded), limits, total[None], [1.0])
    return float(found.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-4), (0.5, 1e-3), (2.0, 0.05), (1.0, 0.3)])
def test_no_integer_noise_has_less_variance(epsilon: float, delta: float) -> None:
    least = _least_variance_on_integers(epsilon, delta, 24)
    assert 0.5 * least <= least_noise_variance(ApproxDP(epsilon, delta)) <= least * (1 + 1e-7)
    # Pure noise may use no delta: the discrete Laplace law is the best there is.
    pure = least_noise_variance(PureDP(epsilon))
    assert DiscreteLaplace(Fraction(1) / Fraction(epsilon)).variance == pytest.approx(pure)
    wide = DiscreteGaussian(Fraction(10**6))
    assert least_noise_variance(ZCDP(Fraction(1, 2 * 10**6))) == pytest.approx(wide.variance)
    assert least_noise_variance(ZCDP(0.5)) < DiscreteGaussian(Fraction(1)).variance


def _closeness(law: np.ndarray, epsilon: float) -> float:
    """Delta between a law on the integers and itself moved by 1, the worse of both ways."""
    padded = np.concatenate([[0.0], law, [0.0]])
    return max(
        float(np.maximum(padded[1:] - math.exp(epsilon) * padded[:-1], 0).sum()),
        float(np.maximum(padded[:-1] - math.exp(epsilon) * padded[1:], 0).sum()),
    )


@pytest.mark.parametrize("epsilon", [0.03, 0.3, 1.0, 3.0])
def test_no_law_has_less_variance_than_its_closeness_allows(epsilon: float) -> None:
    """Laplace, Gaussian, uniform, triangular, and random ones, also between two integers."""
    rng, wide = np.random.default_rng(5), round(4 / epsilon) + 2
    for centre in (0.0, 0.3, 0.5):
        places = np.abs(np.arange(-wide, wide + 1) - centre)
        shapes = [
            np.exp(-epsilon * places),
            np.exp(-((epsilon * places) ** 2) / 8),
            np.ones(len(places)),
            np.maximum(1 - places / wide, 0),
            np.exp(-epsilon * places) * rng.uniform(0.7, 1.3, len(places)),
            *rng.dirichlet(np.ones(len(places)), 3),
        ]
        for shape in shapes:
            law = shape / shape.sum()
            mean = float(law @ np.arange(len(law)))
            variance = float(law @ (np.arange(len(law)) - mean) ** 2)
            delta = _closeness(law, epsilon)
            if 0 < delta < 1:
                assert least_noise_variance(ApproxDP(epsilon, delta)) <= variance


def test_the_bound_on_any_mechanism_is_tight_for_small_deltas() -> None:
    assert least_noise_variance(ApproxDP(1, 1e-6)) == pytest.approx(1.841, abs=5e-4)
    for epsilon, delta in ((1, 1e-6), (1e-3, 1e-12), (10, 1e-9), (0.1, 1e-300)):
        pure = least_noise_variance(PureDP(epsilon))
        assert 0.99 * pure < least_noise_variance(ApproxDP(epsilon, delta)) < pure
    assert least_noise_variance(PureDP(2000)) == 0 == least_noise_variance(ZCDP(1000))
    assert least_noise_variance(ApproxDP(2000, 0.1)) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_what_is_proved_does_not_rest_on_the_programme(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever shares it finds, what they prove stays below the least."""
    from scipy import optimize

    least = bounds._least_close(epsilon, 1e-3)
    solve = optimize.linprog

    def wrong(*given: object, **more: object) -> object:
        found = solve(*given, **more)
        found.x[:-2] += 0.01 * np.sin(np.arange(len(found.x) - 2))
        return found

    monkeypatch.setattr(optimize, "linprog", wrong)
    assert bounds._least_close(epsilon, 1e-3) <= least * (1 + 1e-9)


def test_a_plan_says_how_far_it_is_from_what_is_possible() -> None:
    for guarantee in (PureDP(1), ZCDP(0.5), ApproxDP(1, 1e-6), ApproxDP(1, 1e-60)):
        for metric in ("mean", "max"):
            ranked = plan(500, guarantee, metric)
            factors = {factor.holds_for.split(" with ")[0]: factor for factor in ranked.factors}
            least = factors["any mechanism"]
            assert least.at_least is not None
            assert least.factor == pytest.approx(
                ranked.best.errors.by(ranked.metric) / least.at_least
            )
            assert least.factor >= 1
            assert "Theorem 3; with its constant (counton)" in least.distance
            if ranked.best.family in ranked.least_std():
                assert 1 <= factors["matrix mechanisms"].factor <= least.factor * (1 + 1e-9)
            else:
                assert set(factors) == {"any mechanism"}
    often = plan(500, ZCDP(0.5), contribution=Contribution.add_remove(steps=5)).factors
    assert [factor.holds_for for factor in often] == ["any mechanism"]
    (moved,) = plan(50, PureDP(1), contribution=Contribution.replace(), shape=(3,)).factors[1:]
    assert moved.at_least == pytest.approx(plan(50, PureDP(1)).factors[1].at_least)
    assert plan(50, PureDP(1000)).factors == ()


def test_statistics_state_what_is_known_of_them() -> None:
    """`Substrings` and `Cuts` called every bound vacuous."""
    letters = plan_statistic(Substrings("ACGT", 3), 1000, PureDP(1))
    (bound,) = [bound for bound in letters.bounds if not bound.vacuous]
    assert bound.at_least == least_error_of_cells(3, 1000, 1) == 2.5
    cuts = plan_statistic(Cuts(100), 1000, PureDP(0.1))
    said = {bound.quantity: bound.at_least for bound in cuts.bounds if not bound.vacuous}
    assert said.pop("largest of all errors of cuts") == least_error_of_cells(4950, 1000, 0.1) > 40
    assert set(said) == {"mean std", "max std"}  # of matrix mechanisms
    assert [factor.holds_for for factor in cuts.factors] == ["matrix mechanisms with Laplace noise"]
    assert plan_statistic(Cuts(100), 1000, ZCDP(1)).bounds[-1].vacuous


@pytest.mark.parametrize("horizon", [1, 2, 7, 500, 1024, 10**6])
def test_a_bound_is_credited_to_whom_it_is_due(horizon: int) -> None:
    """The table said Mathias where the nuclear norm is what is shown."""
    ranked = plan(horizon, ZCDP(0.5), "max", simple=True)
    (bound,) = [one for one in ranked.bounds if one.quantity == "max std"][:1]
    unit = ranked.least_std("max")["gaussian"] / least_variance(horizon, "max") ** 0.5
    nuclear = nuclear_norm(horizon) / horizon * unit
    mathias = factorisation_bounds(horizon)[0] * unit
    assert bound.at_least == pytest.approx(max(nuclear, mathias), rel=1e-6)
    assert ("Mathias" in bound.source) == (mathias > nuclear)


def test_blocks_of_coin_flips_are_as_far_apart_as_their_sums() -> None:
    """The distance in `least_error_on_coin_flips`, over all strings of a block."""
    for size, changed in ((5, 1), (6, 2), (7, 3)):
        law: dict[tuple[int, ...], float] = dict.fromkeys(product((0, 1), repeat=size), 0.0)
        for flips in law:
            zeros = [i for i in range(size) if not flips[i]]
            ways = list(combinations(zeros, changed)) or [()]
            for ones in ways:
                moved = tuple(1 if i in ones else bit for i, bit in enumerate(flips))
                law[moved] += 1 / len(ways) / 2**size
        apart = sum(max(mass - 0.5**size, 0.0) for mass in law.values())
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
    terms, integrals = (
        bounds._distance_by_terms(changed, size),
        bounds._distance_by_integrals(changed, size),
    )
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
def test_errors_on_coin_flips_do_not_hang_on_how_they_are_summed(
    horizon: int, epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = least_error_on_coin_flips(horizon, epsilon)
    monkeypatch.setattr(bounds, "_FEW_TERMS", 0)
    assert least_error_on_coin_flips(horizon, epsilon) == found


def test_largest_totals_tell_all_vectors_apart() -> None:
    """The streams of `least_error_of_minimum_cut`: no answer is within k / 2 of two of them."""
    changed, bits = 2, 3
    totals, streams = [], []
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


def test_letters_in_blocks_are_told_apart() -> None:
    changed, letters, steps = 3, 4, 9
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


def test_every_bound_stands_beside_what_is_achieved() -> None:
    """And is not above it; what says nothing says why, in every form of question."""
    cells = Contribution.replace()
    for guarantee, contribution, shape in (
        (PureDP(1), None, ()),
        (PureDP(0.1), cells, (4,)),
        (ZCDP(0.5), Contribution.values(0, 50, 0.5), (2,)),
        (ApproxDP(1, 1e-6), Contribution.add_remove(steps=2), ()),
    ):
        ranked = plan(500, guarantee, contribution=contribution, shape=shape)
        said = [bound for bound in ranked.bounds if not bound.vacuous]
        assert all(0 < bound.at_least <= (bound.achieved or 1e9) for bound in said)  # type: ignore[operator]
        assert all(bound.holds_for and bound.source for bound in ranked.bounds)
        sources = " ".join(bound.source for bound in ranked.bounds)
        for statement in ("5.1", "1.4", "Theorem 3", "Theorem 5", "Theorem 6"):
            assert statement in sources
        if contribution is None or contribution is cells:
            assert len(said) == (6 if shape == () else 5)
    letters = plan(500, PureDP(0.1), contribution=cells, shape=(4,)).bounds[-1]
    assert letters.at_least == least_error_of_cells(3, 500, 0.1)


def test_the_largest_error_is_one_that_holds() -> None:
    """In 60 streams, all errors stay below it more often than with probability 2/3."""
    ranked = plan(64, PureDP(1))
    for choice in ranked.choices[:3]:
        bound = choice.errors.largest_error(2 / 3)
        counter = [
            Counter(choice.strategy, PureDP(1), key=Key.generate(), name="zeros") for _ in range(60)
        ]
        errors = [np.abs(one.release_many(np.zeros(64, int)).values).max() for one in counter]
        assert bound / 2 < np.median(errors) < bound
        assert np.mean(np.array(errors) <= bound) >= 2 / 3
    assert ranked.best.errors.largest_error(1 - 1e-8) == math.inf
    with pytest.raises(InvalidInput, match="probability"):
        ranked.best.errors.largest_error(1.0)


def test_a_bound_is_not_above_what_a_coarser_lattice_needs() -> None:
    """One step under (epsilon, delta): the bound is nearly reached, and never passed."""
    compared = [
        (bound.at_least, bound.achieved)
        for bound in plan(1, ApproxDP(0.01, 0.4)).bounds
        if bound.quantity.endswith("std") and bound.at_least and bound.achieved
    ]
    assert len(compared) >= 2
    assert all(0.9999 * achieved < least <= achieved for least, achieved in compared[:2])

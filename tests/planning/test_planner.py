"""The planner ranks by exact error, and finds the published crossings by computing."""

import itertools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from in_turn import in_turn
from keys import chosen_key
from numpy.typing import NDArray
from some_cases import long

from counton import Counter, Key, Rolling, plan, plan_cells
from counton.base.errors import InvalidInputError
from counton.base.exact import figures_above
from counton.base.series import PlannedSeries
from counton.base.strategy_names import FAMILIES, PAPERS, RECENT_FAMILIES
from counton.continual.node_distribution import distribution_for
from counton.planning import families, planner
from counton.planning.families import FamilyRequest
from counton.planning.families import candidates as candidates_by_kind
from counton.planning.planner import MOST_HELD_NUMBERS
from counton.privacy import ZCDP, ApproxDP, ContributionBound, Guarantee, PureDP
from counton.privacy.calibration import elders_scale
from counton.privacy.gaussian import analytic_gaussian_sigma
from counton.statistics import Average, Distinct
from counton.strategies import (
    Binary,
    GrowingSquareRoot,
    HonakerOnline,
    Independent,
    KAry,
    LeastSquaresStrategy,
    LookAhead,
    Metric,
    MultiscaleStrategy,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from counton.strategies.participation import sensitivities, sensitivity
from counton.strategies.strategy import ReleaseForm

UNIT = ContributionBound.add_remove()
GUARANTEES = [PureDP(1), ZCDP(Fraction(1, 2)), ApproxDP(1, 1e-6)]


def members(
    horizon: int, metric: Metric, *, simple: bool = False, **unit: Any
) -> dict[str, tuple[StreamStrategy, ...]]:
    request = FamilyRequest(horizon, metric, **unit)
    by_family = candidates_by_kind(request, simple=simple)
    return {family.strategy_family: family.members for family in by_family}


def error_of(strategy: StreamStrategy, guarantee: Guarantee, metric: Metric) -> float:
    distribution = distribution_for(strategy, guarantee, UNIT).distribution
    return (
        strategy.overall_variance(metric) * distribution.variance / 4.0**strategy.facts.lattice_bits
    )


@pytest.mark.parametrize(
    ("horizon", "metric", "guarantee"),
    in_turn(itertools.product([1, 2, 3, 10, 250, 1000], ["mean", "max"], GUARANTEES), 2),
    ids=str,
)
def test_nothing_beats_the_best_choice(horizon: int, guarantee: Guarantee, metric: Metric) -> None:
    """All arities, and all heights and zeros that suffice, not only the candidates."""
    everything: list[StreamStrategy] = [
        Binary(horizon),
        HonakerOnline(horizon),
        SqrtToeplitz(horizon),
    ]
    everything += [KAry(horizon, arity, form) for arity in range(2, 40) for form in (True, False)]
    everything += [
        SmoothBinary(horizon, height, zeros)
        for height in range(2, 24)
        for zeros in range(1, height)
        if math.comb(height, zeros) > horizon
    ]
    least = min(error_of(strategy, guarantee, metric) for strategy in everything)
    best = plan(horizon, guarantee, metric).best
    assert best.errors.by(metric) ** 2 == pytest.approx(error_of(best.strategy, guarantee, metric))
    assert best.errors.by(metric) ** 2 <= least * (1 + 1e-12)


@pytest.mark.parametrize("metric", ["mean", "max"])
def test_choices_are_of_every_kind(metric: Metric) -> None:
    result = plan(8760, PureDP(1), metric)
    assert {result.why(choice) for choice in result} == {"Laplace of scale l1 / epsilon"}
    kinds = {type(choice.strategy) for choice in result}
    trees = {Binary, HonakerOnline, KAry, SmoothBinary}
    assert kinds == {*trees, SqrtToeplitz, LookAhead, LeastSquaresStrategy}


def test_both_smooth_rules_are_listed() -> None:
    strategies = [choice.strategy for choice in plan(2**10, ZCDP(0.5))]
    assert SmoothBinary.best(2**10, norm=2) in strategies
    assert SmoothBinary.even(2**10) in strategies


# --- units that act several times ----------------------------------------------------------------


def all_trees(horizon: int) -> dict[str, list[StreamStrategy]]:
    """Every strategy of every kind that could serve, up to one level and to 20 bits."""
    widest = range(2, 2 * horizon + 3)
    return {
        "k-ary": [KAry(horizon, arity, False) for arity in widest],
        "k-ary with subtraction": [KAry(horizon, arity, True) for arity in widest],
        "smooth binary": [
            SmoothBinary(horizon, height, zeros)
            for height in range(2, 21)
            for zeros in range(1, height)
            if math.comb(height, zeros) > horizon
        ],
    }


UNITS: list[dict[str, Any]] = [
    {"steps": 2},
    {"steps": 100, "separation": 10},
    {"steps": 3, "separation": 4},
    {"every": 20},
    {"every": 8},
    {"every": 5, "steps": 3},
]


@pytest.mark.parametrize(
    ("when", "horizon"), in_turn(itertools.product(UNITS, [5, 17, 21]), 3), ids=str
)
def test_smooth_trees_are_no_worse_than_those_of_any_height(
    horizon: int, when: dict[str, Any]
) -> None:
    """Every number of zeros, and heights far beyond what the horizon needs, for both norms."""
    candidates = members(horizon, "mean", **{"steps": None, **when})["smooth binary"]
    everything = [
        SmoothBinary(horizon, height, zeros)
        for height in range(2, horizon + 12)
        for zeros in range(1, min(height, 9))
        if math.comb(height, zeros) > horizon
    ]

    def costs(strategy: StreamStrategy) -> NDArray[np.float64]:
        moved = sensitivities(strategy, **when)
        return strategy.overall_variance("mean") * np.array([moved.l1**2, moved.l2_squared], float)

    least = np.min([costs(strategy) for strategy in everything], axis=0)
    assert (np.min([costs(strategy) for strategy in candidates], axis=0) <= least).all()


@pytest.mark.parametrize(
    ("horizon", "contribution"),
    [
        (20, ContributionBound.add_remove(steps=4)),
        (20, ContributionBound.add_remove(every=7)),
        *(
            pytest.param(horizon, contribution, marks=pytest.mark.long)
            for horizon, contribution in (
                (20, ContributionBound.replace(cells=2, steps=9, separation=3)),
                (90, ContributionBound.add_remove(steps=60)),
                (90, ContributionBound.add_remove(every=12, steps=4)),
            )
        ),
    ],
    ids=str,
)
@pytest.mark.slow
def test_the_best_of_every_kind_is_found_by_brute_force(
    horizon: int, contribution: ContributionBound
) -> None:
    """All arities, heights and zeros, for both kinds of noise, mean and largest error."""
    everything = all_trees(horizon)
    distributions = {
        (strategy, guarantee): distribution_for(
            strategy, guarantee, contribution, (5,)
        ).distribution.variance
        for strategies in everything.values()
        for strategy in strategies
        for guarantee in GUARANTEES
    }
    metrics: tuple[Metric, ...] = ("mean", "max")
    for guarantee in GUARANTEES:
        for metric in metrics:
            ranked = plan(horizon, guarantee, metric, contribution, shape=(5,))
            found = {
                choice.strategy_family: choice.errors.by(metric)
                for choice in reversed(ranked.choices)
            }
            for kind, strategies in everything.items():
                least = min(
                    strategy.overall_variance(metric) * distributions[strategy, guarantee]
                    for strategy in strategies
                )
                best = found.get(kind, math.inf)  # a kind whose best another kind has already
                best = min(best, found["k-ary"]) if kind != "smooth binary" else best
                assert best**2 <= least * (1 + 1e-12), (kind, guarantee, metric)


@pytest.mark.long
def test_more_steps_change_the_ranking() -> None:
    """Laplace noise wins for single events at this delta, Gaussian noise for whole visitors.

    Its example says so of `counton.plan`, too.
    """
    guarantee = ApproxDP(1, 1e-6)
    assert plan(8760, guarantee).best.noise_kind == "laplace"
    visitors = ContributionBound.add_remove(steps=30, unit="visitor")
    result = plan(8760, guarantee, contribution=visitors)
    assert result.best.noise_kind == "gaussian"
    assert "one visitor" in str(result)
    assert "up to 30 steps" in str(result)


# --- crossing of Laplace trees and the Gaussian square root ------------------------------------


def crossing_of(laplace_wins: Callable[[float], bool], digits: float = 2e-4) -> float:
    """Delta below which Laplace noise is better, by halving."""
    low = -20.0
    high = -2.0
    while high - low > digits:
        middle = (low + high) / 2
        low, high = (middle, high) if laplace_wins(10**middle) else (low, middle)
    return float(10 ** ((low + high) / 2))


def paper_crossing(horizon: int) -> float:
    """With the bounds in print: Elders' Laplace on odd trees, Balle and Wang's Gaussian."""
    kinds = members(horizon, "mean")
    trees = [KAry(horizon, k) for k in range(3, 60, 2)]
    assert min(t.overall_variance("mean") * t.height**2 for t in trees) >= min(
        t.overall_variance("mean") * float(t.l1_sensitivity()) ** 2
        for t in kinds["k-ary with subtraction"]
    )
    (root,) = kinds["square root"]

    def laplace_wins(delta: float) -> bool:
        gaussian = (
            analytic_gaussian_sigma(1, delta) ** 2
            * float(root.squared_sensitivity())
            * root.overall_variance("mean")
        )
        scales = [
            min(tree.height, float(elders_scale(Fraction(1), Fraction(delta), tree.height)))
            for tree in trees
        ]
        laplace = min(
            2 * scale**2 * tree.overall_variance("mean")
            for scale, tree in zip(scales, trees, strict=True)
        )
        return laplace < gaussian

    return crossing_of(laplace_wins, 1e-4)


def planned_crossing(horizon: int, strategies: Iterable[StreamStrategy] | None = None) -> float:
    """That of plans at epsilon = 1."""

    def laplace_wins(delta: float) -> bool:
        guarantee = ApproxDP(1, Fraction(delta))
        return plan(horizon, guarantee, strategies=strategies).best.noise_kind == "laplace"

    return crossing_of(laplace_wins)


@pytest.mark.parametrize(
    ("horizon", "in_print", "tighter"),
    [
        (2**10, "1.13e-06", "1.24e-06"),
        pytest.param(2**16, "5.61e-10", "7.37e-10", marks=pytest.mark.long),
    ],
)
@pytest.mark.slow
@pytest.mark.long
def test_crossing_of_laplace_and_gaussian(horizon: int, in_print: str, tighter: str) -> None:
    assert f"{paper_crossing(horizon):.3g}" == in_print
    # Even arities, discrete laws and composed losses move the crossing a little.
    kinds = members(horizon, "mean", simple=True)
    published = [*kinds["k-ary with subtraction"], SqrtToeplitz(horizon)]
    assert f"{planned_crossing(horizon, published):.3g}" == tighter


# --- contributions, shapes, given strategies -----------------------------------------------------


def test_given_strategies_are_ranked() -> None:
    given = [Binary(100), KAry.best(100), SmoothBinary.even(50)]
    result = plan(100, PureDP(1), strategies=given)
    assert [choice.strategy for choice in result] == [KAry.best(100), Binary(100)]
    assert "fewer than 100" in result.notes[0]


def test_table_and_text() -> None:
    result = plan(8760, PureDP(1))
    assert list(result.rows()[0]) == [
        *("rank", "strategy", "noise", "mean_std", "max_std", "held", "kind", "why", "paper"),
    ]
    assert "8,760 steps" in result.describe(full=True)
    assert len(str(result).splitlines()) == 7
    assert repr(result).startswith("<StreamPlan of 10 choices, PureDP(epsilon=1), best Solved(")
    assert len(repr(result)) < 200


@pytest.mark.parametrize("horizon", [2, 3, 10, 64, 1000, 2**13, 2**14])
def test_normalised_square_root_is_no_worse_than_square_root(horizon: int) -> None:
    """So a run that plans its stream does not compute the errors of the square root."""
    roots = {
        choice.strategy_family: choice.errors
        for choice in plan(horizon, ZCDP(0.5), strategies=["normalised-sqrt", "sqrt"])
    }
    normalised = roots["normalised square root"]
    plain = roots["square root"]
    assert normalised.mean_std <= plain.mean_std
    assert normalised.max_std <= plain.max_std


def test_long_horizons_omit_unsuitable_strategies() -> None:
    result = plan(10**9, ZCDP(0.5))
    assert any("square root" in note and "2^22" in note for note in result.notes)
    assert all(np.isfinite(choice.errors.mean_std) for choice in result)


@pytest.mark.parametrize("metric", ["mean", "max"])
@pytest.mark.parametrize("subtraction", [True, False])
def test_rows_of_trees_are_the_best_trees(metric: Metric, subtraction: bool) -> None:
    """At short horizons too, where one level is best: the planner and ``best`` agree."""
    kind = "k-ary with subtraction" if subtraction else "k-ary"
    for horizon in (*range(1, 20), *range(20, 71, 7)):
        trees = members(horizon, metric)[kind]
        for norm in (1, 2):
            best = KAry.best(horizon, metric, subtraction, norm)
            costs = [tree.overall_variance(metric) * sensitivity(tree, norm) ** 2 for tree in trees]
            least = best.overall_variance(metric) * best.height ** (3 - norm)
            assert min(costs) == pytest.approx(least, rel=1e-12)


# --- counts of single steps ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "metric", "guarantee"),
    in_turn(itertools.product([1, 7, 90], ["mean", "max"], GUARANTEES), 2),
    ids=str,
)
def test_the_best_for_totals_and_counts(horizon: int, guarantee: Guarantee, metric: Metric) -> None:
    """Over all released numbers, one by one, for all arities, heights and zeros."""

    def error(strategy: StreamStrategy) -> float:
        ends = np.arange(horizon + 1)
        variances = [strategy.variance(ends[1:]), strategy.variance(ends[1:], since=ends[:-1])]
        variance = np.max(variances) if metric == "max" else np.mean(variances)
        distribution = distribution_for(strategy, guarantee, UNIT).distribution
        rounded = 1.0 if metric == "max" else 1.5 - 0.5 / horizon  # of each difference both ends
        exact = float(variance) * distribution.variance / 4.0**strategy.facts.lattice_bits
        return exact + rounded * strategy.facts.rounding_variance

    ranked = plan(horizon, guarantee, metric, series="both", simple=True)
    least = min(error(strategy) for kind in all_trees(horizon).values() for strategy in kind)
    assert ranked.best.errors.by(metric) ** 2 == pytest.approx(error(ranked.best.strategy))
    assert ranked.best.errors.by(metric) ** 2 <= least * (1 + 1e-12)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_counts_alone_take_one_draw_a_step(guarantee: Guarantee) -> None:
    thrice = ContributionBound.add_remove(steps=3)
    for contribution in (UNIT, thrice):
        ranked = plan(100, guarantee, contribution=contribution, series="per-window")
        distribution = distribution_for(Independent(100), guarantee, contribution).distribution
        assert ranked.best.strategy == Independent(100)
        assert (
            ranked.best.errors.mean_std
            == ranked.best.errors.max_std
            == pytest.approx(math.sqrt(distribution.variance))
        )
        assert {choice.strategy.facts.release for choice in ranked} == {"windows"}


@pytest.mark.parametrize("form", ["cumulative", "per-window", "both"])
def test_a_simple_plan_releases_integers(form: PlannedSeries) -> None:
    everything = plan(1000, ZCDP(0.5), series=form)
    simple = plan(1000, ZCDP(0.5), series=form, simple=True)
    assert any(choice.strategy.facts.fraction_bits for choice in everything)
    kept = [choice.strategy for choice in everything if not choice.strategy.facts.fraction_bits]
    assert [c.strategy for c in simple if not isinstance(c.strategy, MultiscaleStrategy)] == kept
    not_simple = [choice for choice in simple if not choice.strategy.facts.local]
    assert not not_simple, "give their families simple=False in planning/families.py"
    assert not [choice for choice in simple if choice.row()["held"]]


@pytest.mark.long
def test_plan_without_comparison_finds_the_best_strategy() -> None:
    """From 64 steps on, for every kind of noise and however often units count."""
    units = [
        UNIT,
        ContributionBound.add_remove(steps=4),
        ContributionBound.add_remove(steps=60, separation=3),
        ContributionBound.add_remove(every=7),
    ]
    guarantees = [PureDP(Fraction(1, 10)), PureDP(16), ZCDP(8), ApproxDP(1, 1e-12)]
    metrics: tuple[Metric, ...] = ("mean", "max")
    forms: tuple[PlannedSeries, ...] = ("cumulative", "both")
    asked = [*itertools.product(guarantees, metrics, units, forms)]
    for guarantee, metric, unit, form in asked[::3]:  # any two of them meet
        best, alone = (
            plan(64, guarantee, metric, unit, series=form, compare=compare).best
            for compare in (True, False)
        )
        assert best.strategy == alone.strategy


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 15, 16, 31])
def test_published_strategies_are_compared_but_not_chosen(horizon: int) -> None:
    """However short: full trees, where two children a node are at their best, and one step more."""
    guarantees = [PureDP(1), ZCDP(8), ApproxDP(1, 1e-6)]
    metrics: tuple[Metric, ...] = ("mean", "max")
    for guarantee, metric in itertools.product(guarantees, metrics):
        compared, alone = (
            plan(horizon, guarantee, metric, compare=compare) for compare in (True, False)
        )
        assert not [choice for choice in alone if is_published(choice.strategy)]
        assert [choice for choice in compared if is_published(choice.strategy)] or horizon == 1
        assert compared.best.strategy == alone.best.strategy


@pytest.mark.parametrize("horizon", [2, 3, 5, 6, 18, 20])
def test_the_best_is_published_where_units_change_few_steps(horizon: int) -> None:
    """So it is weighed there by runs too, which compare with nothing else."""
    units = [
        Distinct(changes=4).contribution(),
        Distinct(changes=8).contribution(),
        ContributionBound.add_remove(steps=6, separation=2),
    ]
    guarantees = [PureDP(1), ZCDP(8), ApproxDP(1, 1e-6)]
    found = []
    for unit, guarantee, simple in itertools.product(units, guarantees, (False, True)):
        compared, alone = (
            plan(horizon, guarantee, "max", unit, simple=simple, compare=compare).best
            for compare in (True, False)
        )
        assert compared.strategy == alone.strategy
        found.append(is_published(alone.strategy))
    assert any(found)


def test_a_published_strategy_is_one_by_its_folder() -> None:
    assert [is_published(strategy) for strategy in (Binary(9), KAry(9, 3))] == [True, False]


def is_published(strategy: StreamStrategy) -> bool:
    return type(strategy).__module__.startswith("counton.strategies.published.")


def test_plan_omits_strategies_with_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    few = plan(8760, PureDP(1), shape=(100,))
    many = plan(8760, PureDP(1), shape=(10**5,))
    assert few.best.strategy_family == "least-squares"
    assert few.best.row()["held"] == few.best.strategy.facts.buffer_size * 100 > 8760
    assert many.best.strategy_family == "look-ahead tree"
    assert any(f"more than {MOST_HELD_NUMBERS:,}" in note for note in many.notes)
    assert all(choice.row()["held"] <= MOST_HELD_NUMBERS for choice in many)
    monkeypatch.setattr("counton.planning.planner.MOST_NUMBERS_DRAWN_FIRST", 1000)
    late = plan(8760, PureDP(1))
    assert late.best.strategy_family == "look-ahead tree"
    assert any("before the first release" in note for note in late.notes)


def test_a_kind_that_cannot_plan_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"no strategy of strategy=binary .*made for windows; allow"
    ):
        plan(365, PureDP(1), series="per-window", strategies=["binary"])
    with pytest.raises(
        InvalidInputError, match=r"strategy=independent .*made for totals; allow .* auto"
    ):
        plan(365, PureDP(1), strategies=["independent"])


def test_no_totals_from_a_strategy_of_windows() -> None:
    given = [Independent(100), Binary(100)]
    result = plan(100, PureDP(1), strategies=given)
    assert [choice.strategy for choice in result] == [Binary(100)]
    assert "releases no totals" in result.notes[0]
    assert len(plan(100, PureDP(1), strategies=given, series="per-window")) == 2


# --- refusals ----------------------------------------------------------------------------------


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        plan(0, PureDP(1))
    with pytest.raises(InvalidInputError, match="metric"):
        plan(10, PureDP(1), "median")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="series"):
        plan(10, PureDP(1), series="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="guarantee"):
        plan(10, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="shape"):
        plan(10, PureDP(1), shape=(0,))
    with pytest.raises(InvalidInputError, match="no strategy"):
        plan(10, PureDP(1e-15))


def test_plan_describes_itself_in_text_and_html() -> None:
    ranked = plan(365, PureDP(1), contribution=ContributionBound.add_remove(unit="<b>"))
    assert str(ranked) == ranked.describe()
    assert repr(ranked.best.strategy) in ranked.describe(full=True)
    first, last = (figures_above(ranked.halfwidth(step)) for step in (1, 365))
    assert ranked.describe().startswith(
        f"epsilon = 1: a total has a margin of error of {first} in step 1 and {last} in step 365 "
        "(95% confidence)\n"
    )
    shown = ranked._repr_html_()
    assert "epsilon = 1" in shown
    assert "<table" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_plan_states_margin_of_each_series() -> None:
    """Windows beside totals are wider than windows alone, and the sentence says so."""
    alone, both = (plan(52, PureDP(1), series=form) for form in ("per-window", "both"))
    assert (
        alone.in_words()
        == "epsilon = 1: the number of one step has a margin of error of 3 (95% confidence)"
    )
    totals, windows = both.in_words().split("; ")
    assert "a total has a margin of error of" in totals
    first = figures_above(both.halfwidths(1, over=1)[""])
    assert f"the number of one step has a margin of error of {first} in step 1" in windows
    assert both.halfwidths(1, over=1)[""] > alone.halfwidth(1)
    waits = plan(
        52, margin_of_error=50, expected_rows=5000, of=Average(0, 60, resolution=1), batched=True
    )
    assert waits.halfwidth(52, name="count") <= 50
    assert "mean" not in waits.halfwidths(1)  # how many rows there are by then nobody said
    assert "mean has a margin of error of 0.3 in step 52;" in waits.in_words()
    with pytest.raises(InvalidInputError, match=r"no number ''; the numbers are mean, sum, count"):
        waits.halfwidth(52)
    with pytest.raises(InvalidInputError, match="step is 0"):
        both.halfwidth(0)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)])
def test_the_errors_in_words_hold_at_every_step(guarantee: Guarantee) -> None:
    """The first and the last step of a tree may read one node, and steps between them many."""
    forms: list[PlannedSeries] = ["cumulative", "per-window", "both"]
    for steps, form, kind in itertools.product((1, 2, 22, 64), forms, [*FAMILIES, *PAPERS]):
        try:
            found = plan(steps, guarantee, series=form, strategies=[kind])
        except InvalidInputError:
            continue  # not for this guarantee or these numbers
        for words in found.in_words().split("; "):
            windows = "of one step" in words
            stops = np.arange(1, steps + 1)
            starts = stops - 1 if windows else np.zeros_like(stops)
            halves = found.best.errors.window_halfwidths(starts, stops, 0.95)
            stated = [float(one) for one in re.findall(r"(?:error of|,|and) ([0-9.]+)", words)]
            assert figures_above(halves.max()) == figures_above(max(stated)), (kind, words)
            named = dict(re.findall(r"([0-9.]+) in step (\d+)", words))
            assert all(float(half) >= halves[int(step) - 1] for half, step in named.items())


@pytest.mark.parametrize("horizon", [10**7, 10**9])
@pytest.mark.parametrize("metric", ["mean", "max"])
def test_long_gaussian_streams_take_octaves(horizon: int, metric: Metric) -> None:
    assert plan(horizon, ZCDP(0.5), metric).best.strategy_family == "multiscale"


def test_wide_noise_takes_the_coarser_octave() -> None:
    wide = ContributionBound.add_remove(per_cell=10**6)
    best = plan(10**7, ZCDP(0.5), contribution=wide).best
    assert best.strategy == MultiscaleStrategy(10**7, grid_bits=12)
    fine = plan(10**7, ZCDP(0.5)).best
    assert best.errors.mean_std == pytest.approx(fine.errors.mean_std * 10**6, rel=0.01)


@pytest.mark.parametrize(
    ("guarantee", "kind", "std"),
    [
        (ZCDP(0.5), "growing square root", 3.8930),
        (PureDP(1), "epochs", 18.62),
        (ApproxDP(1, 1e-4), "growing square root", None),
        (ApproxDP(1, 1e-9), "epochs", 18.62),
    ],
    ids=str,
)
def test_streams_without_a_last_step(guarantee: Guarantee, kind: str, std: float | None) -> None:
    planned = plan(None, guarantee, expected_windows=8760)
    assert planned.best.strategy_family == kind
    assert std is None or planned.best.errors.mean_std == pytest.approx(std, rel=1e-3)
    assert planned.horizon is None
    assert planned.steps == 8760
    bounded = plan(8760, guarantee).best
    assert 1 <= planned.best.errors.mean_std / bounded.errors.mean_std <= 1.45
    assert re.search(
        r"step 8,760( and \d+ in the worst step up to 8,760)? \(there is no last step\) \(95%",
        planned.describe(),
    )
    assert "no last step, errors of the first 8,760 steps" in planned.describe(full=True)
    assert planned.best.errors.largest_error(0.95) == math.inf
    ((family, least),) = planned.least_std().items()
    assert all(least < one.errors.mean_std for one in planned if one.noise_kind == family)


@pytest.mark.parametrize(
    ("around", "metric", "even"),
    [
        *((20, "mean", None), (64, "mean", 32), (365, "mean", 128), (1024, "mean", 512)),
        *((4096, "mean", 2048), (10**5, "mean", None), (100, "max", 32), (None, "mean", None)),
    ],
)
def test_endless_plan_chooses_equal_noise_by_expected_windows(
    around: int | None, metric: Metric, even: int | None
) -> None:
    best = plan(None, ZCDP(0.5), metric=metric, expected_windows=around).best.strategy
    assert best == GrowingSquareRoot(even=even)


def test_wide_noise_without_a_last_step_takes_coarser_weights() -> None:
    planned = plan(None, ZCDP("1e-6"), expected_windows=1000)
    assert planned.best.strategy_family == "growing square root"
    fine = plan(None, ZCDP(0.5), expected_windows=1000).best
    assert planned.best.errors.mean_std == pytest.approx(
        fine.errors.mean_std * 500_000**0.5, rel=0.01
    )


def test_endless_plan_refuses_single_windows() -> None:
    with pytest.raises(InvalidInputError, match="can only be planned for totals"):
        plan(None, ZCDP(0.5), series="per-window")
    with pytest.raises(InvalidInputError, match="expected_windows is only for"):
        plan(100, ZCDP(0.5), expected_windows=100)
    with pytest.raises(InvalidInputError, match="expected_windows is 0"):
        plan(None, ZCDP(0.5), expected_windows=0)
    with pytest.raises(InvalidInputError, match="its protection fades"):
        plan(None, ZCDP(0.5), strategies=[Binary(31)])


def test_whole_numbers_with_gaussian_noise_are_octaves() -> None:
    ranked = plan(8760, ZCDP(0.5), simple=True)
    assert ranked.best.strategy_family == "multiscale, whole numbers"
    assert ranked.best.strategy.facts.fraction_bits == 0
    assert ranked.best.errors.mean_std < 0.6 * ranked.choices[1].errors.mean_std
    assert ranked.best.errors.mean_std < 1.03 * plan(8760, ZCDP(0.5)).best.errors.mean_std
    assert all(one.strategy_family != "multiscale, whole numbers" for one in plan(8760, ZCDP(0.5)))
    counter = Counter(ranked.best.strategy, ZCDP(0.5), key=Key.generate(), name="visits")
    released = counter.release_many(np.zeros(50, np.int64))
    assert released.values.dtype == np.int64
    low, high = released.interval()
    assert low.dtype == high.dtype == np.int64
    assert (high - low >= 2 * 1.9 * released.std()).all()


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)], ids=str)
def test_errors_of_plan_and_design_are_equal(guarantee: Guarantee) -> None:
    """Of planned strategies too, whose lattice is finer than what is counted."""
    bound = ContributionBound.values(0, 8, resolution="0.5")
    ranked = plan(600, guarantee, contribution=bound)
    assert ranked.std(7) == ranked.best.errors.std(7)
    steps = [1, 7, 600]
    for choice in ranked:
        strategy = choice.strategy
        key = chosen_key()
        counter = Counter(strategy, guarantee, key=key, name="asked", contribution=bound)
        std = choice.errors.std(steps)
        assert std.tolist() == [choice.errors.std(step) for step in steps]
        assert std.tolist() == counter.std(steps).tolist() == [counter.std(n) for n in steps]
        assert counter.release(1).std == pytest.approx(choice.errors.std(1))
        every = choice.errors.std(range(1, 601))
        assert math.sqrt((every**2).mean()) == pytest.approx(choice.errors.mean_std)
        assert every.max() == pytest.approx(choice.errors.max_std)
    for wrong in ("mean", 1.5, True, [0]):
        with pytest.raises(InvalidInputError):
            ranked.best.errors.std(wrong)


def test_errors_have_same_methods_in_plan_and_release() -> None:
    """Of plan, choice, counter and releases, with the same arguments; one release has a number."""
    ranked = plan(60, PureDP(1))
    best = ranked.best
    counter = Counter(best.strategy, PureDP(1), key=chosen_key(), name="errors")
    releases = counter.release_many([1] * 60)
    for steps in (7, [7, 60], range(1, 61), None):
        asked = [one.std(steps) for one in (ranked, best.errors, counter, releases)]
        for each in asked:
            assert np.array_equal(each, asked[0])
    assert counter.resume(counter.checkpoint(), key=chosen_key()).std(7) == releases.std(7)
    alone = Counter(best.strategy, PureDP(1), key=chosen_key(), name="errors").release(1)
    assert alone.std == releases.std(1)
    with pytest.raises(InvalidInputError, match="step 61 is not among the releases 1 to 60"):
        releases.std([3, 61])
    with pytest.raises(InvalidInputError, match="has no last step"):
        plan(None, PureDP(1)).std()


@pytest.mark.parametrize("steps", [*range(37, 140), 323, 365, 1000, 8760, 105_120, 10**8])
def test_least_squares_is_best_up_to_epsilon_2_without_comparison(steps: int) -> None:
    replaced = ContributionBound.replace(cells=3, per_cell=5)
    metrics: tuple[Metric, ...] = ("mean", "max")
    releases: tuple[ReleaseForm, ...] = ("totals", "both")
    for metric, release in itertools.product(metrics, releases):
        for epsilon, unit in itertools.product(("0.000001", "2"), (UNIT, replaced)):
            request = planner.RankingRequest(
                horizon=steps,
                guarantee=PureDP(epsilon),
                metric=metric,
                contribution=unit,
                release=release,
            )
            alone, _ = planner.ranked_designs(replace(request, compare=False))
            every, _ = planner.ranked_designs(request)
            assert alone[0] == every[0]
            if epsilon == "2":  # else its noise is too wide, and others are compared
                assert len(alone) == 1
                assert every[1].errors.by(metric) ** 2 > 1.1 * every[0].errors.by(metric) ** 2


@pytest.mark.parametrize("steps", [2**17, *map(long, (524_289, 900_000, 2**20))])
def test_normalised_root_is_best_on_long_streams_without_comparison(steps: int) -> None:
    metrics: tuple[Metric, ...] = ("mean", "max")
    for metric, rho in itertools.product(metrics, ("1e-12", "1e-6", "1")):
        request = planner.RankingRequest(horizon=steps, guarantee=ZCDP(rho), metric=metric)
        alone, _ = planner.ranked_designs(replace(request, compare=False))
        every, _ = planner.ranked_designs(request)
        assert alone[0] == every[0]
        if rho != "1e-12":  # else its noise is too wide, and others are compared
            assert len(alone) == 1
            assert every[1].errors.by(metric) ** 2 > 1.018 * every[0].errors.by(metric) ** 2


@pytest.mark.parametrize("steps", [37, 1000])
def test_normalised_root_is_compared_where_least_squares_is_better(steps: int) -> None:
    request = planner.RankingRequest(horizon=steps, guarantee=ZCDP(1))
    alone, _ = planner.ranked_designs(replace(request, compare=False))
    every, _ = planner.ranked_designs(request)
    assert alone[0] == every[0]
    assert alone[0].strategy_family == "least-squares"


def test_normalised_root_is_known_best_only_where_families_were_compared() -> None:
    def is_known(
        steps: int = 2**17,
        rho: int = 1,
        release: ReleaseForm = "totals",
        contribution: ContributionBound = UNIT,
        *,
        simple: bool = False,
    ) -> bool:
        request = FamilyRequest(steps, "mean", release)
        known = families.known_best(request, ZCDP(rho), contribution, simple=simple)
        return bool(known.members)

    assert is_known()
    assert is_known(2**20)
    assert not is_known(2**17 - 1)
    assert not is_known(2**20 + 1)
    assert not is_known(rho=2)
    assert not is_known(release="both")
    assert not is_known(contribution=ContributionBound.add_remove(steps=2))
    assert not is_known(simple=True)


@pytest.mark.parametrize("metric", ["mean", "max"])
def test_one_release_of_whole_numbers_needs_no_comparison(metric: Metric) -> None:
    several = ContributionBound.add_remove(cells=3, steps=5)
    for size in ("0.001", "40"):
        for guarantee in (PureDP(size), ZCDP(size), ApproxDP(size, "1e-7")):
            for unit in (UNIT, several):
                request = planner.RankingRequest(
                    horizon=1, guarantee=guarantee, metric=metric, contribution=unit, simple=True
                )
                alone, _ = planner.ranked_designs(replace(request, compare=False))
                every, _ = planner.ranked_designs(request)
                assert alone == every[:1]


@pytest.mark.parametrize("horizon", [pytest.param(2**20 + 1, marks=pytest.mark.long), 10**9])
def test_multiscale_error_is_as_near_to_bound_as_documented(horizon: int) -> None:
    """What the pages say of it."""
    ranked = plan(horizon, ZCDP(0.5), compare=False)
    assert ranked.best.strategy_family == "multiscale"
    above = ranked.best.errors.mean_std / ranked.least_std("mean")["gaussian"] - 1
    assert 0.0225 < above < 0.0335


def test_ranked_families_and_named_families_are_same() -> None:
    rules = (*families.TOTALS_FAMILIES, *families.WINDOWS_FAMILIES)
    ranked = {rule.family.words for rule in rules}
    endless = plan(None, ZCDP(1), expected_windows=100), plan(None, PureDP(1), expected_windows=100)
    ranked |= {choice.strategy_family for each in endless for choice in each}
    recent = plan(100, ZCDP(1), workload=Rolling(20)), plan(100, PureDP(1), workload=Rolling(20))
    of_recent = {choice.strategy_family for each in recent for choice in each} - ranked
    assert of_recent == {kind.words for kinds in RECENT_FAMILIES.values() for kind in kinds}
    assert ranked == {kind.words for kinds in FAMILIES.values() for kind in kinds}
    assert all(kind.name == name for name, kinds in FAMILIES.items() for kind in kinds)


def test_window_halfwidth_of_totals_is_that_of_difference() -> None:
    made = plan(64, PureDP(1), series="per-window", strategies=["binary-paper"])
    std = made.best.errors.window_std([63], [64]).item()
    assert made.halfwidth(64) == made.halfwidths(64, over=1)[""] > 1.9 * std


@pytest.mark.parametrize("horizon", [365, 105_120])
def test_plan_with_little_noise_finds_independent_noise_without_comparison(horizon: int) -> None:
    each = KAry(horizon, horizon + 1, False)
    best = plan(horizon, PureDP(12), compare=False).best
    known = plan(horizon, PureDP(12), strategies=[each]).best
    assert best.errors.mean_std == known.errors.mean_std


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda **more: plan(64, PureDP(1), **more), "plan has no argument 'strategy': did you"),
        (lambda **more: plan_cells(8, PureDP(1), **more), "did you mean"),
    ],
)
def test_plan_refuses_unknown_argument_with_nearest_name(asked: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        asked(**{"strategy" if "plan has" in said else "workloads": "binary"})

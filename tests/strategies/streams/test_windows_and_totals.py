"""Windows and totals read together: against plain least squares, and intervals against draws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from every_version import EveryVersion
from keys import chosen_key

from counton import ZCDP, ApproxDP, PureDP
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, Family
from counton.base.errors import InvalidInput
from counton.laws import HashedNoise
from counton.numbers import Design
from counton.numbers.formulas import CellSum, Formula, Term
from counton.numbers.node_law import calibration_of, law_of_totals
from counton.privacy import Contribution, Guarantee
from counton.privacy.concentrated import rho_within
from counton.run.new_stream import with_totals
from counton.strategies import (
    Binary,
    KAry,
    StreamStrategy,
    WindowsAndTotals,
    WindowVersions,
    matrices,
    public_strategies,
    strategy_from_dict,
)
from counton.strategies.joint_errors import noise_variance
from counton.strategies.strategy import step_reader_of
from counton.strategies.streams.factorisation import Factorisation
from counton.strategies.streams.normalised_sqrt import NormalisedSqrt
from counton.strategies.streams.solved import LeastSquaresFactorization
from counton.strategies.streams.square_root import SqrtToeplitz
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf, by_night, totals_moved

GAUSS, WIDE = DiscreteGaussian(Fraction(900)), DiscreteGaussian(Fraction(8100))


def measured(both: WindowsAndTotals, night: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What nodes measure of the rows by window and lag, what versions read, and which exist.

    Rows are those that have arrived by the night; nodes that only later rows enter are left out.
    """
    lags = both.windows.lags
    cells = [(w, lag) for w in range(1, night + 1) for lag in range(lags + 1) if w + lag <= night]
    versions = np.array([[w == v and low <= lag for v, low in cells] for w, lag in cells], float)
    totals = np.array([[v + low <= t for v, low in cells] for t in range(1, night + 1)], float)
    return versions, totals, np.array(cells)


@pytest.mark.parametrize("night", [1, 2, 5])
@pytest.mark.parametrize("totals", [KAry(5, 2, subtraction=False), SqrtToeplitz(5)], ids=str)
def test_it_is_the_best_linear_estimate_of_all_numbers(night: int, totals: StreamStrategy) -> None:
    """Generalised least squares of every version and every total, written out."""
    windows = WindowVersions(5, Binary(3))
    both = WindowsAndTotals(windows, totals, "1/4", WIDE)
    found = LeastSquaresAsOf(both, night, GAUSS)
    versions, sums, cells = measured(both, night)
    of_versions = np.zeros((len(cells),) * 2)
    for i, (w, lag) in enumerate(cells):
        for j, (v, other) in enumerate(cells):
            if w == v:
                of_versions[i, j] = windows.lag_covariance(int(lag), int(other)) * 900
    reads = np.asarray(matrices(totals)[0], float)[:night]
    of_totals = reads @ reads.T * 8100 / 4.0**totals.facts.lattice_bits
    design = np.vstack([versions, sums])
    noise = np.block(
        [
            [of_versions, np.zeros((len(cells), night))],
            [np.zeros((night, len(cells))), of_totals],
        ]
    )
    weights = np.linalg.inv(noise)
    covariance = np.linalg.inv(design.T @ weights @ design)
    up_to = np.array([[w <= until for w, _ in cells] for until in range(1, night + 1)], float)
    right = up_to @ covariance @ up_to.T
    steps = np.arange(1, night + 1)
    unit = 900.0
    assert np.allclose(found.variance(steps, 0) * unit, np.diag(right))
    if night > 1:
        apart = right[-1, -1] + right[0, 0] - 2 * right[0, -1]
        assert found.variance([night], [1]) * unit == pytest.approx(apart)
        weight = np.arange(1.0, night + 1)
        summed = found._summed_variance(steps, weight) * unit
        assert summed == pytest.approx(weight @ right @ weight)
    # Numbers as nights release them: all versions by lag, and the total.
    y = np.random.default_rng(3).normal(size=len(design)) * 100
    nights = np.zeros((night, 1, windows.lags + 2))
    for (w, lag), one in zip(cells, y, strict=False):
        nights[w + lag - 1, 0, lag] = one
    nights[:, 0, -1] = y[len(cells) :]
    newest, *parts = by_night(nights, windows.lags)
    mine = found.estimates(newest, found.innovations(*parts))[:, 0]
    best = up_to @ covariance @ design.T @ weights @ y
    assert np.allclose(np.cumsum(mine), best, atol=2.0**-9)


def dense(both: WindowsAndTotals, night: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of sums of windows, and weights of totals less windows, by plain matrices."""
    windows, last, weights = both.windows, np.arange(night), np.tri(night).T
    lags, at = windows.lags, np.clip(last - last[:, None], 0, windows.lags)  # windows by nights
    of = windows.lag_covariance(np.arange(lags + 1)[:, None], np.arange(lags + 1)) * 900.0
    known = [last >= window for window in last]
    there = [of[at[w][:, None], at[w]] * known[w] * known[w][:, None] for w in range(night)]
    ends = np.arange(1, night + 1)
    alone = noise_variance(both.totals, both.law, ends)
    one, other = np.maximum(ends[:, None], ends), np.minimum(ends[:, None], ends)
    apart = noise_variance(both.totals, both.law, one, since=other)
    shared = sum(there) + (alone[:, None] + alone - apart) / 2
    seen = -np.array([each[-1] for each in there]).T @ weights  # of contrasts with the sums
    read = np.linalg.solve(shared, seen)
    own = np.diag([each[-1, -1] for each in there])
    return weights.T @ own @ weights - read.T @ seen, read


@pytest.mark.parametrize(
    ("inner", "totals"),
    [
        (KAry(8, 3), KAry(150, 3)),
        (SqrtToeplitz(15), NormalisedSqrt(150)),
        (SqrtToeplitz(70), SqrtToeplitz(150)),
        (Binary(1), Factorisation.examples(150)[0]),
    ],
    ids=str,
)
def test_nights_share_one_factor(inner: StreamStrategy, totals: StreamStrategy) -> None:
    """Every night is as by its own dense matrices, whichever nights were read before."""
    wide = DiscreteGaussian(WIDE.sigma_squared * 4**totals.facts.lattice_bits)
    law = DiscreteGaussian(GAUSS.sigma_squared * 4**inner.facts.lattice_bits)
    both = WindowsAndTotals(WindowVersions(150, inner), totals, "1/4", wide)
    again: Any = strategy_from_dict(both.to_dict())
    rng = np.random.default_rng(7)
    nights = rng.normal(size=(150, 2, both.windows.lags + 2)).round(3) * 100
    _, *parts = by_night(nights, both.windows.lags)
    innovations = LeastSquaresAsOf(both, 150, law).innovations(*parts)
    for night in (1, 5, 66, 150):
        found, alone = (LeastSquaresAsOf(each, night, law) for each in (both, again))
        steps = np.arange(1, night + 1)
        covariance, read = dense(both, night)
        of, (last, first) = np.pad(covariance, (1, 0)), np.tril_indices(night + 1)
        variance = of[last, last] + of[first, first] - 2 * of[first, last]
        assert np.allclose(found.variance(last, first) * 900, variance, rtol=1e-9, atol=1e-12)
        few = np.arange(0, len(last), 7)  # not all pairs: another way
        some = found.variance(last[few], first[few]) * 900
        assert np.allclose(some, variance[few], rtol=1e-9, atol=1e-12)
        newest, *parts = by_night(nights[:night], both.windows.lags)
        best = np.cumsum(newest, axis=0) - read.T @ (parts[1] - parts[0])
        mine = found.estimates(newest, innovations)
        assert np.allclose(np.cumsum(mine, axis=0), best, atol=2.0**-10)
        assert (found.newest_sums(newest, innovations)[-1] == np.cumsum(mine, axis=0)[-1]).all()
        assert (mine == alone.estimates(newest, alone.innovations(*parts))).all()
        assert np.allclose(found.variance(steps, 0), alone.variance(steps, 0), rtol=1e-12)
        size = np.abs(read).sum(axis=0)
        assert np.allclose(found._errors_of_sums(steps).size, size, rtol=1e-8)


def test_single_steps_of_totals_have_their_covariance() -> None:
    """A strategy's own way gives what variances of all pairs give."""
    found = set()
    for kind in public_strategies():
        for strategy in kind.examples(40) if hasattr(kind, "_step_covariance") else ():
            one: Any = strategy
            for steps, others in ((range(1, 41), range(1, 41)), (range(20, 41), range(5, 9))):
                quick = one._step_covariance(steps, others)
                if quick is None:
                    continue
                ends = np.arange(41)
                alone = strategy.variance(ends, 0 * ends)
                pair = ends[:, None], ends
                apart = strategy.variance(np.maximum(*pair), np.minimum(*pair))
                sums = (alone[:, None] + alone - apart) / 2
                of = np.diff(np.diff(sums, axis=0), axis=1)[steps.start - 1 :, others.start - 1 :]
                of = of[:, : len(others)]
                later = np.array(steps)[:, None] >= np.array(others)
                assert np.allclose(quick[later], of[later], atol=1e-9 * alone.max())
                found.add(kind.__name__)
    assert found == {"Factorisation", "NormalisedSqrt"}


def test_a_night_releases_versions_and_the_total() -> None:
    windows, totals = WindowVersions(6, Binary(3)), SqrtToeplitz(6)
    both, field = WindowsAndTotals(windows, totals, "1/4", WIDE), HashedNoise((2,), spread=10_000)
    found = step_reader_of(both, field).noise(range(1, 7))
    assert found.shape == (6, 2, 4)
    assert (found[..., :3] == windows.night_noise(field, range(1, 7)) << 10).all()
    top = both._first_level

    class Above:
        shape = (2,)

        @staticmethod
        def run(level: int, nodes: range) -> np.ndarray:
            return field.run(level + top, nodes)

    assert (found[..., 3] == totals.noise(Above(), range(1, 7))).all()
    assert top not in {node.level for step in range(1, 7) for node in windows.row(step)}


@pytest.mark.parametrize("both", WindowsAndTotals.examples(9), ids=str)
def test_a_row_enters_its_window_and_one_night(both: WindowsAndTotals) -> None:
    for window in range(1, 10):
        for lag in range(both.windows.lags + 1):
            entered = both.lag_column(window, lag)
            own = {node for node in entered if node.level < both._first_level}
            assert own == set(both.windows.lag_column(window, lag))
            night = window + lag
            later = both._nodes_of_totals(both.totals.column(night)) if night <= 9 else ()
            assert set(entered) - own == set(later)
    assert strategy_from_dict(both.to_dict()) == both


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")], ids=str)
def test_shares_of_the_budget_add_up_to_it(guarantee: PureDP | ZCDP) -> None:
    one, share = Contribution.add_remove(), Fraction(3, 10)
    windows = WindowVersions(9, KAry(3, 3))
    both = with_totals(windows, share, guarantee, one, ())
    law = calibration_of(both, guarantee, one).law
    lost = []
    for part, own in ((windows, law), (both.totals, both.law)):
        bits = part.facts.lattice_bits
        if isinstance(own, DiscreteLaplace):
            lost.append(part.l1_sensitivity() * 2**bits / own.scale)
        else:
            lost.append(part.squared_sensitivity() * 4**bits / (2 * own.sigma_squared))
    promised = guarantee.epsilon if isinstance(guarantee, PureDP) else guarantee.rho
    assert lost == [promised * (1 - share), promised * share]
    width = both.law.scale if isinstance(both.law, DiscreteLaplace) else both.law.sigma_squared
    narrow = type(both.law)(width * (1 - Fraction(1, 10**12)))  # by a hair
    wrong = WindowsAndTotals(windows, both.totals, share, narrow)
    with pytest.raises(InvalidInput, match="the description was altered"):
        calibration_of(wrong, guarantee, one)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.05")], ids=str)
def test_intervals_hold_as_often_as_they_say(guarantee: PureDP | ZCDP) -> None:
    """Noise of 4,000 cells under a fixed key: 95% intervals hold, and narrower ones do not."""
    one, night = Contribution.add_remove(), 24
    both = with_totals(WindowVersions(30, KAry(3, 4)), Fraction(1, 5), guarantee, one, (4000,))
    law = calibration_of(both, guarantee, one, (4000,)).law
    terms = Design(
        guarantee=guarantee, contribution=one, shape=(4000,), law=law, strategy=both, name="t"
    )
    field = terms.noise_field(chosen_key())
    read = LeastSquaresAsOf(both, night, law)
    noise = np.cumsum(read.noise(field, range(1, night + 1)), axis=0) * 2.0**-10
    noise = np.concatenate([np.zeros((1, 4000)), noise])
    of = Design(
        guarantee=guarantee, contribution=one, shape=(4000,), law=law, strategy=read, name="t"
    )
    for start, stop in ((0, night), (0, 9), (10, 17), (4, 5), (night - 1, night)):
        apart = np.abs(noise[stop] - noise[start])
        half = float(of.errors.window_halfwidths(start, stop))
        inside = float((apart <= half).mean())
        most = 0.98 if isinstance(guarantee, PureDP) else 0.97  # half a count wider
        assert 0.943 <= inside <= most, (start, stop, inside)
        assert float((apart <= 0.85 * half).mean()) < 0.943 or isinstance(guarantee, PureDP)
        spread = float((noise[stop] - noise[start]).std())
        assert spread == pytest.approx(float(of.errors.window_std(start, stop)), rel=0.05)


@pytest.mark.parametrize(
    ("guarantee", "inner", "level"),
    [(PureDP(4), SqrtToeplitz(3), 0.8), (ZCDP(8), KAry(3, 3), 0.99), (ZCDP(8), KAry(3, 3), 0.999)],
    ids=str,
)
def test_intervals_hold_where_totals_jump_by_whole_numbers(
    guarantee: PureDP | ZCDP, inner: StreamStrategy, level: float
) -> None:
    """Totals with most of a large budget have narrow noise of whole numbers, unlike windows."""
    one, night, share = Contribution.add_remove(), 10, Fraction(9, 10)
    totals = KAry(12, 24)  # a node for each total
    law = law_of_totals(totals, share, guarantee, one, (4000,))
    both = WindowsAndTotals(WindowVersions(12, inner), totals, share, law)
    law = calibration_of(both, guarantee, one, (4000,)).law
    read = LeastSquaresAsOf(both, night, law)
    terms, of = (
        Design(
            guarantee=guarantee, contribution=one, shape=(4000,), law=law, strategy=each, name="t"
        )
        for each in (both, read)
    )
    noise = read.noise(terms.noise_field(chosen_key()), range(1, night + 1)).sum(axis=0) * 2.0**-10
    half = float(of.errors.window_halfwidths(0, night, level))
    assert float((np.abs(noise) <= half).mean()) >= level - 0.002
    low, high = Formula.of(CellSum(0.0, of, (Term(1.0, 0, night, 0),))).interval(level)
    assert (high - low) / 2 == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("guarantee", [PureDP(1000), PureDP(10**8), ZCDP(10**6)], ids=str)
def test_noise_whose_variance_rounds_to_nothing_is_read(guarantee: PureDP | ZCDP) -> None:
    one = Contribution.add_remove()
    both = with_totals(WindowVersions(9, KAry(3, 3)), Fraction(1, 10), guarantee, one, ())
    read = LeastSquaresAsOf(both, 4, calibration_of(both, guarantee, one).law)
    totals = np.arange(1.0, 5.0)[:, None]
    found = read.estimates(np.ones((4, 1)), read.innovations(totals, totals))
    assert found.tolist() == [[1.0]] * 4
    assert np.isfinite(read.variance([1, 4], 0)).all()


#: Trees, a square root, and matrices of anybody.
OF_TOTALS = [
    Binary(5), KAry(5, 3, subtraction=True), KAry(5, 6, subtraction=True), SqrtToeplitz(5),
    NormalisedSqrt(5), *LeastSquaresFactorization.examples(5),
]  # fmt: skip


@pytest.mark.parametrize("totals", OF_TOTALS, ids=str)
@pytest.mark.parametrize("values", [(1,), (-1, 1)], ids=str)
def test_corrections_move_totals_by_no_more_than_is_claimed(
    totals: StreamStrategy, values: tuple[int, ...]
) -> None:
    """Every row of two cells, replaced or taken back on every night, at most twice."""
    enters = np.asarray(matrices(totals)[1], np.float64) * 2.0**totals.facts.lattice_bits
    rows = [value * np.eye(2)[cell] for cell in range(2) for value in values]
    counted = np.zeros((1, 1, 2))  # what counts on each night: series, nights, cells
    states = np.array([np.zeros(2), *rows])
    for _ in range(5):
        longer = np.repeat(counted, len(states), axis=0)
        counted = np.concatenate([longer, np.tile(states, (len(counted), 1))[:, None]], axis=1)
    arrives = np.diff(counted, axis=1)
    changes = arrives.any(axis=2).sum(axis=1)
    for corrections in (0, 1, 2):
        some = arrives[changes <= corrections + 1]
        moved = np.einsum("nt,stc->snc", enters, some)
        found = totals_moved(totals, corrections, signed=len(values) > 1)
        l1, squared = np.abs(moved).sum(axis=(1, 2)).max(), (moved**2).sum(axis=(1, 2)).max()
        assert 0.4 * found.l1 <= l1 <= found.l1
        assert 0.35 * found.l2_squared <= squared <= found.l2_squared


def test_a_guarantee_with_delta_is_divided_in_one_way_for_both() -> None:
    guarantee, one, share = ApproxDP(1, "1e-6"), Contribution.add_remove(), Fraction(1, 5)
    windows, rho = WindowVersions(9, KAry(3, 4)), rho_within(Fraction(1), Fraction(1, 10**6))
    divided: list[tuple[Family, tuple[Guarantee, Guarantee]]] = [
        ("laplace", (PureDP("0.8"), PureDP("0.2"))),
        ("gaussian", (ZCDP(rho * (1 - share)), ZCDP(rho * share))),
    ]
    for family, parts in divided:
        both = with_totals(windows, share, guarantee, one, (), family)
        laws = calibration_of(both, guarantee, one).law, both.law
        wanted = [
            calibration_of(of, part, one, (), family).law
            for of, part in zip((windows, both.totals), parts, strict=True)
        ]
        assert [*laws] == wanted


def test_what_does_not_go_together_is_refused() -> None:
    windows = WindowVersions(9, Binary(3))
    wrong: Any = Binary(9)
    for (of, totals), why in (
        ((wrong, Binary(9)), "give WindowVersions"),
        ((windows, Binary(8)), "serves 8 steps"),
        ((WindowVersions(5000, Binary(3)), Binary(5000)), "at most 4,096"),
        ((windows, windows), "a strategy of totals"),
    ):
        with pytest.raises(InvalidInput, match=why):
            WindowsAndTotals(of, totals, "1/4", WIDE)
    with pytest.raises(InvalidInput, match="above 0 and below 1"):
        WindowsAndTotals(windows, Binary(9), 1, WIDE)
    with pytest.raises(InvalidInput, match="by least squares"):
        LeastSquaresAsOf(WindowsAndTotals(windows, Binary(9), "1/4", WIDE), 3, GAUSS).row(1)
    assert EveryVersion(windows).horizon == 27

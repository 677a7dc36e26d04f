"""Windows that are revised: blocks that share nothing, versions, and the order of nights."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from every_version import EveryVersion
from own_laws.streams import check_strategy

from counton import ZCDP, PureDP, plan
from counton.base.errors import InvalidInputError
from counton.strategies import (
    AsOf,
    Binary,
    Independent,
    StreamStrategy,
    WindowVersions,
    matrices,
    strategy_from_dict,
)
from counton.strategies.lines.dense import Dense
from counton.strategies.participation import sensitivities
from counton.strategies.streams.factorisation import Factorisation
from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy
from counton.strategies.streams.normalised_sqrt import NormalisedSqrt
from counton.strategies.streams.square_root import SqrtToeplitz
from counton.strategies.streams.window_versions import VersionReader
from counton.testing import HashedNoise, PropertyViolationError


def every_matrix(windows: WindowVersions) -> tuple[np.ndarray, np.ndarray]:
    reads, enters = matrices(EveryVersion(windows))
    return reads.astype(float), enters.astype(float)


@pytest.mark.parametrize("windows", WindowVersions.examples(4), ids=str)
def test_versions_are_totals_within_each_window(windows: WindowVersions) -> None:
    reads, enters = every_matrix(windows)
    block = np.tri(windows.lags + 1)
    assert np.allclose(reads @ enters, np.kron(np.eye(4), block))


@pytest.mark.parametrize("windows", WindowVersions.examples(4), ids=str)
def test_row_changes_one_window_within_sensitivity(windows: WindowVersions) -> None:
    _, enters = every_matrix(windows)
    assert np.abs(enters).sum(axis=0).max() <= float(windows.l1_sensitivity()) + 1e-12
    assert (enters**2).sum(axis=0).max() <= float(windows.squared_sensitivity()) + 1e-12
    products = enters.T @ enters
    of = np.arange(products.shape[0]) // (windows.lags + 1)
    assert not products[of[:, None] != of].any()  # windows share no node


@pytest.mark.parametrize("windows", WindowVersions.examples(4), ids=str)
def test_units_in_several_windows_add_up_and_no_more(windows: WindowVersions) -> None:
    one = sensitivities(windows)
    three = sensitivities(windows, steps=3)
    assert three.l2_squared <= 3 * one.l2_squared
    assert three.l1 <= 3 * one.l1


@pytest.mark.parametrize("windows", WindowVersions.examples(7), ids=str)
def test_runs_release_versions_of_windows(windows: WindowVersions) -> None:
    field = HashedNoise((2,), spread=10_000)
    versions = EveryVersion(windows)
    whole = versions.noise(field, range(1, versions.horizon + 1))
    nights = windows.release_noise(field, range(1, 8))
    for night in range(1, 8):
        for lag in range(windows.lags + 1):
            window = night - lag
            found = nights[night - 1, :, lag]
            if window < 1:
                assert found.any()  # nothing is released without noise
            else:
                assert (found == whole[versions.step_of(window, lag) - 1]).all()


@pytest.mark.parametrize("windows", WindowVersions.examples(7), ids=str)
def test_noise_of_runs_is_same_in_any_parts(windows: WindowVersions) -> None:
    field = HashedNoise((3,))
    whole = windows.release_noise(field, range(1, 8))
    one_by_one = [VersionReader(windows, field).noise(range(n, n + 1)) for n in range(1, 8)]
    assert (np.concatenate(one_by_one) == whole).all()
    assert (np.concatenate([*VersionReader(windows, field).parts(range(3, 8))]) == whole[2:]).all()


@pytest.mark.parametrize("windows", WindowVersions.examples(6), ids=str)
def test_the_newest_versions_have_noise_and_error_of_their_lags(windows: WindowVersions) -> None:
    newest = AsOf(windows, 6)
    every = EveryVersion(windows)
    field = HashedNoise(spread=10_000)
    found = newest.noise(field, range(1, 7))
    for window in range(1, 7):
        lag = min(6 - window, windows.lags)
        step = every.step_of(window, lag)
        assert found[window - 1] == every.noise(field, range(step, step + 1))[0]
        assert newest.variance([window]) == pytest.approx(every.variance([step]))
        assert newest.row(window) == every.row(step)


LONG_ROWS = (LeastSquaresStrategy, Factorisation, SqrtToeplitz, NormalisedSqrt)


@pytest.mark.parametrize("kind", LONG_ROWS)
def test_widths_of_levels_are_those_of_all_columns_and_rows(kind: type[StreamStrategy]) -> None:
    for steps in (1, 2, 5, 8, 13):
        for strategy in kind.examples(steps):
            written_out = StreamStrategy._level_widths(strategy)
            assert strategy._level_widths() == written_out, strategy


class SharedBetweenWindows(WindowVersions):
    """A mistake: all windows have the nodes of the first."""

    def _in_block(self, window, nodes):  # type: ignore[no-untyped-def]
        return super()._in_block(1, nodes)

    def _nodes_of(self, windows, field, level, nodes):  # type: ignore[no-untyped-def]
        return super()._nodes_of(range(1, 2), field, level, nodes).repeat(len(windows), axis=1)


def test_check_strategy_rejects_noise_shared_by_windows() -> None:
    with pytest.raises(PropertyViolationError):
        check_strategy(SharedBetweenWindows(5, Binary(3)))


class OfAYear(WindowVersions):
    """A mistake: calibrated to the first lag of a window alone."""

    def l1_sensitivity(self):  # type: ignore[no-untyped-def]
        return super().l1_sensitivity() / 2


def test_check_strategy_rejects_small_sensitivity_of_versions() -> None:
    with pytest.raises(PropertyViolationError):
        check_strategy(OfAYear(5, Binary(3)))


@pytest.mark.parametrize(
    "inner", [Independent(3), "Binary(3)", Binary(2**13)], ids=["windows", "text", "long"]
)
def test_a_strategy_that_serves_no_window_is_refused(inner: StreamStrategy) -> None:
    with pytest.raises(InvalidInputError, match="strategy of a window"):
        WindowVersions(9, inner)


@pytest.mark.parametrize(
    ("lags", "pure", "rho"), [(7, 2.88, 1.50), (14, 3.57, 1.68), (35, 4.58, 1.94)]
)
def test_noise_equals_that_of_one_step_per_version(lags: int, pure: float, rho: float) -> None:
    """Mean standard deviation over the lags, whatever the number of windows."""
    for guarantee, wanted in ((PureDP(1), pure), (ZCDP(0.5), rho)):
        best = plan(lags + 1, guarantee).best
        windows = WindowVersions(40_000, best.strategy)
        std = np.sqrt(windows.lag_variance(range(lags + 1)) * best.distribution.variance)
        std /= 2.0**windows.facts.lattice_bits
        assert float(np.sqrt((std**2).mean())) == pytest.approx(wanted, abs=0.01)
        one = sensitivities(best.strategy)
        all_windows = sensitivities(windows)
        assert (one.l1, one.l2_squared) == (all_windows.l1, all_windows.l2_squared)


def moved_by_corrections(windows: WindowVersions) -> tuple[float, float]:
    """Largest 1-norm and squared 2-norm that rows move which take each other's place, tried all.

    Each row but the last is taken back when the next one comes. It is in one of three places, which
    are windows or cells; in another window the next one comes at any lag.
    """
    enters = np.asarray(matrices(windows.inner)[1], np.float64)
    none = np.zeros((len(enters), 1))
    at_lag = np.concatenate([enters, none], axis=1)
    last = windows.lags
    stays = [enters[:, lag] for lag in range(last + 1)]
    goes = [
        (begin, end, at_lag[:, begin] - at_lag[:, end])
        for begin in range(last + 1)
        for end in range(begin + 1, last + 1)
    ]
    found = [0.0, 0.0]

    def weigh(nodes: dict[int, np.ndarray]) -> None:
        whole = np.concatenate([*nodes.values()])
        found[0] = max(found[0], float(np.abs(whole).sum()))
        found[1] = max(found[1], float((whole**2).sum()))

    for lag in range(last + 1):
        weigh({0: stays[lag]})
    for begin, end, moved in goes if windows.corrections else ():
        for lag in range(last + 1):
            weigh({0: moved, 1: stays[lag]})  # in another window, or another cell
            if lag >= end:
                weigh({0: moved + stays[lag]})  # in the same cell of the same window
                weigh({0: moved - stays[lag]})  # the same with a value of the other sign
        weigh({0: moved})
        assert begin < end
    return found[0], found[1]


@pytest.mark.parametrize("corrections", [0, 1])
@pytest.mark.parametrize("inner", [one.inner for one in WindowVersions.examples(4)], ids=str)
def test_one_correction_attains_claimed_sensitivity(
    inner: StreamStrategy, corrections: int
) -> None:
    windows = WindowVersions(4, inner, corrections)
    l1, squared = moved_by_corrections(windows)
    assert float(windows.l1_sensitivity()) == pytest.approx(l1)
    assert float(windows.squared_sensitivity()) == pytest.approx(squared)


def against_each_other(versions: int) -> StreamStrategy:
    """A strategy of somebody's own: rows of odd lags move one node the other way."""
    shared = np.where(np.arange(versions) % 2, -9, 9)
    matrix = np.concatenate([np.eye(versions, dtype=np.int64), shared[None]])
    return LeastSquaresStrategy(Dense(matrix, "mine"))


@pytest.mark.parametrize("inner", [against_each_other(5), against_each_other(66)], ids=[5, 66])
def test_two_corrections_in_one_cell_stay_within_sensitivity(inner: StreamStrategy) -> None:
    windows = WindowVersions(4, inner, 2)
    enters = np.asarray(matrices(inner)[1], np.float64)
    lags = range(windows.lags + 1)
    squared = [
        float(
            ((enters[:, a] - enters[:, b] + enters[:, c] - enters[:, d] + enters[:, e]) ** 2).sum()
        )
        for a, b, c, d, e in combinations_with_replacement([*lags][:5], 5)
        if a < b and c < d
    ]
    assert 0.8 * float(windows.squared_sensitivity()) < max(squared)
    assert max(squared) <= float(windows.squared_sensitivity())


@pytest.mark.parametrize("inner", [one.inner for one in WindowVersions.examples(4)], ids=str)
def test_more_corrections_move_no_more_than_norms_that_add_up(inner: StreamStrategy) -> None:
    one = WindowVersions(4, inner, 1)
    three = WindowVersions(4, inner, 3)
    first = WindowVersions(4, inner).l1_sensitivity()
    alone = one.l1_sensitivity()
    assert three.l1_sensitivity() == alone + 2 * (alone - first)
    assert three.squared_sensitivity() > one.squared_sensitivity()
    assert strategy_from_dict(three.to_dict()) == three != one
    assert not three.facts.causal

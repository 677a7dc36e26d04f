"""Total squared errors: the published figures, optimality with its proof, and large lines."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # loads its own BLAS, whose threads are counted too
import threadpoolctl
from calls import calls_of

from counton.base import arrays
from counton.base.arrays import one_thread
from counton.tables import (
    AllRanges,
    Dense,
    Haar,
    Nodes,
    Prefixes,
    Queries,
    SquareRoot,
    gaussian_bound,
    optimal_gaussian,
    optimal_laplace,
)
from counton.tables import optimal as search
from counton.tables.tree_distribution import TreeDistribution
from papers.ranges.workloads import RandomSubsets, TreeNodes, cell_levels

#: sigma(0.1, 1e-9) for unit sensitivity, squared.
GAUSSIAN = 50.2098**2
#: Variance of Laplace noise of scale 1 / 0.1.
LAPLACE = 2 / 0.1**2


def gaussian_cost(strategy: Any, asked: Any) -> Any:
    """Total squared error, if Gaussian noise has variance 1 for unit sensitivity."""
    return strategy.squared_sensitivity() * asked.total(strategy)


@pytest.mark.parametrize(
    ("strategy", "published"),
    [
        (Haar.cascade(1024), "2.724e+10"),
        (Haar.best(AllRanges(1024), 2), "2.388e+10"),
        (Nodes.binary(1024), "2.866e+10"),
        (Nodes.independent(1024), "4.525e+11"),
        (SquareRoot(1024), "2.008e+10"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_all_ranges_with_gaussian_noise(strategy: Any, published: Any) -> None:
    error = GAUSSIAN * gaussian_cost(strategy, AllRanges(1024))
    assert f"{error:.3e}" == published


@pytest.mark.long
def test_the_optimal_gaussian_strategy_reaches_its_proven_bound() -> None:
    asked = AllRanges(1024)
    strategy = optimal_gaussian(asked)
    error = GAUSSIAN * gaussian_cost(strategy, asked)
    assert f"{error:.3e}" == "1.635e+10"
    assert GAUSSIAN * gaussian_bound(asked) <= error <= 1.0002 * GAUSSIAN * gaussian_bound(asked)


@pytest.mark.long
def test_pure_epsilon_is_below_the_published_6_485e9() -> None:
    asked = AllRanges(1024)
    strategy = optimal_laplace(asked)
    assert LAPLACE * strategy.l1_sensitivity() ** 2 * asked.total(strategy) < 6.38e9
    tree = Nodes.best(asked, 1)
    assert LAPLACE * tree.l1_sensitivity() ** 2 * asked.total(tree) < 8.1e9


@pytest.mark.slow
def test_laplace_prefixes_keep_stored_error() -> None:
    asked = Prefixes(256)
    strategy = optimal_laplace(asked)
    assert LAPLACE * strategy.l1_sensitivity() ** 2 * asked.total(strategy) < 1.379e6


@pytest.mark.parametrize(
    "asked", [AllRanges(60), Prefixes(60), TreeNodes(61), RandomSubsets(40), AllRanges(61)]
)
def test_gaussian_costs_exceed_bound_and_optimum_attains_it(asked: Any) -> None:
    bound = gaussian_bound(asked)
    strategy = optimal_gaussian(asked)
    assert bound <= gaussian_cost(strategy, asked) <= 1.001 * bound
    for other in (Haar.cascade(asked.cells), Haar.best(asked, 2), Nodes.binary(asked.cells)):
        assert gaussian_cost(other, asked) > bound


@pytest.mark.parametrize("kind", [AllRanges, Prefixes])
def test_solutions_of_fewer_cells_start_longer_lines(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps lead within 0.5% of the proven bound."""
    taken = calls_of(monkeypatch, search, "_square_root")
    search._fixed_point.cache_clear()
    monkeypatch.setattr(search, "_gap", lambda cells: 1e-4 if cells <= 256 else 5e-3)
    search._fixed_point(kind(600))
    assert [len(matrix) for (matrix,) in taken].count(600) <= 2
    search._fixed_point.cache_clear()


def test_few_queries_on_many_cells() -> None:
    asked = Queries(np.random.default_rng(3).normal(size=(4, 16)))
    strategy = optimal_gaussian(asked)
    bound = gaussian_bound(asked)
    assert bound <= gaussian_cost(strategy, asked) <= 1.02 * bound


@pytest.mark.parametrize("cells", [2**6, 2**8, 2**10])
def test_haar_weights_make_the_cascade_12_to_18_percent_better(cells: Any) -> None:
    asked = AllRanges(cells)
    cascade = Haar.cascade(cells)
    best = Haar.best(asked, 2)
    assert 0.12 < 1 - gaussian_cost(best, asked) / gaussian_cost(cascade, asked) < 0.18


@pytest.mark.parametrize("cells", [3, 17, 100, 300])
def test_square_root_variances_against_its_matrix(cells: Any) -> None:
    strategy = SquareRoot(cells)
    first = [float(value) for value in strategy.strategy.root.row(cells)]
    totals = np.zeros((cells + 1, cells))
    for step in range(1, cells + 1):
        totals[step, :step] = first[:step][::-1]
    totals /= strategy.largest_entry
    low, high = np.triu_indices(cells + 1)
    expected = ((totals[high] - totals[low]) ** 2).sum(axis=1)
    assert strategy.variance(low, high) == pytest.approx(expected, rel=5e-6)
    cell = np.diff(totals, axis=0)
    for asked in (
        AllRanges(cells),
        Prefixes(cells),
        TreeNodes(cells),
        Queries(np.random.default_rng(0).normal(size=(4, cells))),
    ):
        exact = np.trace(asked.gram() @ cell @ cell.T)
        assert asked.total(strategy) == pytest.approx(exact, rel=5e-6)


def test_variances_of_long_lines_stay_consistent() -> None:
    """Far apart and close together, the two square-root formulas meet brute force."""
    strategy = SquareRoot(20000)
    first = np.sqrt(np.diff(strategy._cumulative))
    for low, high in ((15000, 15001), (15000, 15100), (70, 20000), (19999, 20000)):
        end = first[:high][::-1]
        start = np.zeros(high)
        start[:low] = first[:low][::-1]
        exact = ((end - start) ** 2).sum()
        assert strategy.variance(np.array([low]), np.array([high]))[0] == pytest.approx(
            exact, rel=5e-6
        )


@pytest.mark.parametrize("cells", [1, 2, 9, 26, 40])
@pytest.mark.parametrize("radices", [(2,) * 6, (3, 5, 7), (4, 12), (41,)])
def test_tree_covariances_equal_dense_covariance(cells: Any, radices: Any) -> None:
    rng = np.random.default_rng(cells)
    shares = rng.uniform(0.5, 2, size=(2, len(radices)))
    distribution = TreeDistribution(cells, radices, tuple(shares[0]), tuple(shares[1]), 1.3)
    counts = distribution.counts()
    joint = np.array([[distribution.root]])
    for level in range(len(radices) - 1, -1, -1):
        own = np.full(counts[level], shares[0][level])
        own[-1] = shares[1][level]
        family = np.arange(counts[level]) // radices[level]
        together = family[:, None] == family
        passed = own[:, None] / np.where(together, own, 0).sum(axis=1)[:, None]
        joint = joint[np.ix_(family, family)] * passed * passed.T
        joint += (
            np.diag(own)
            - together * np.outer(own, own) / (np.where(together, own, 0).sum(axis=1)[:, None])
        )
    for asked in (AllRanges(cells), Prefixes(cells), TreeNodes(cells), RandomSubsets(cells)):
        assert asked.levels(distribution).sum() == pytest.approx(np.trace(asked.gram() @ joint))


@pytest.mark.parametrize("cells", [1, 2, 9, 26, 40])
@pytest.mark.parametrize("radices", [(2,) * 6, (3, 5, 7), (4, 12), (41,), (1, 7, 7)])
def test_variances_of_all_cells_need_no_look_at_any(cells: Any, radices: Any) -> None:
    shares = np.random.default_rng(cells).uniform(0.5, 2, (2, len(radices)))
    distribution = TreeDistribution(cells, radices, tuple(shares[0]), tuple(shares[1]), 1.7)
    low = np.arange(cells)
    each = [float(level.sum()) for level in distribution.interval_levels(low, low + 1)]
    assert list(cell_levels(distribution)) == pytest.approx(each, abs=1e-9)


def test_haar_is_better_than_cascade_on_huge_line() -> None:
    asked = AllRanges(2**25)
    strategy = Haar.best(asked, 2)
    assert gaussian_cost(strategy, asked) < gaussian_cost(Haar.cascade(2**25), asked)


def blas_threads() -> set[int]:
    libraries = threadpoolctl.threadpool_info()
    return {library["num_threads"] for library in libraries if library["user_api"] == "blas"}


@pytest.mark.parametrize("find", [optimal_gaussian, optimal_laplace, gaussian_bound])
def test_searches_take_one_thread_and_give_the_others_back(
    find: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search._fixed_point.cache_clear()  # another test may have solved the same
    seen = []
    gram = AllRanges.gram
    times = AllRanges.gram_times

    def watched(method: Any) -> Any:
        def watching(*args: Any) -> Any:
            seen.append(blas_threads())
            return method(*args)

        return watching

    monkeypatch.setattr(AllRanges, "gram", watched(gram))
    monkeypatch.setattr(AllRanges, "gram_times", watched(times))
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert before == {2}
        find(AllRanges(17))
        assert blas_threads() == before
    assert seen
    assert all(threads == {1} for threads in seen)


def test_libraries_that_are_loaded_later_take_one_thread_too() -> None:
    program = """
import numpy
from threadpoolctl import threadpool_info
from counton.base.arrays import one_thread
for first in (True, False):
    with one_thread():
        found = [one for one in threadpool_info() if one["user_api"] == "blas"]
        assert {one["num_threads"] for one in found} == {1}, found
    if first:
        known = len(found)
        import scipy.linalg
assert len(found) > known
"""
    given = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_thread_limit_is_restored_after_error() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert before == {2}
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert blas_threads() == before


@pytest.mark.parametrize("asked", [AllRanges(50), Prefixes(51), TreeNodes(20), Queries([[1, 2.5]])])
def test_products_with_the_gram_matrix(asked: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(3, asked.cells))
    assert asked.gram_times(rows) == pytest.approx(rows @ asked.gram())


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 8, 63, 64, 65, 100, 1031])
@pytest.mark.parametrize("radices", [(2,) * 11, (4,) * 6, (2, 4, 16, 64), (1, 8, 16, 64), (2048,)])
def test_nodes_that_a_tree_treats_alike_are_looked_at_once(cells: Any, radices: Any) -> None:
    shares = np.random.default_rng(cells).uniform(0.5, 2, (2, len(radices)))
    distribution = TreeDistribution(cells, radices, tuple(shares[0]), tuple(shares[1]), 1.7)
    asked = TreeNodes(cells)
    each = [float(level.sum()) for level in distribution.interval_levels(*asked.intervals())]
    assert list(asked.levels(distribution)) == pytest.approx(each, abs=1e-9 * max(each))
    alike = asked._alike(distribution)
    assert alike is not None
    assert alike[2].sum() == 2 * cells - 1
    assert len(alike[0]) < 200


def test_without_threadpoolctl_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = optimal_laplace(AllRanges(17))
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    arrays._libraries.cache_clear()
    assert optimal_laplace(AllRanges(17)) == found
    with pytest.raises(KeyError), one_thread():
        raise KeyError


def test_number_of_threads_changes_no_digit() -> None:
    """What a file gives is what the run gave, which may have looked for its strategy meanwhile."""
    rows = np.random.default_rng(5).integers(-40, 40, (300, 257))
    low, high = np.triu_indices(258, 1)
    measured = np.arange(300)
    found = []
    for most in (1, 2, 1):
        with threadpoolctl.threadpool_limits(limits=most, user_api="blas"):
            line = Dense(rows, "drawn")
            found.append((line.variance(low, high), line.estimate(measured)))
    assert all(np.array_equal(a, b) for one in found for a, b in zip(one, found[0], strict=True))

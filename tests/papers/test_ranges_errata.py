"""Where "Range Queries with Correlated Input Perturbation" is wrong, by arithmetic alone."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.privacy.gaussian import analytic_gaussian_sigma


def cascade_covariance(height: int) -> NDArray[np.float64]:
    """Definition 3.1: leaves of a perfect binary tree whose nodes all have variance 1."""
    covariance = np.ones((1, 1))
    for _ in range(height):
        split = np.array([[1.0, -0.5], [-0.5, 1.0]])
        near = np.kron(covariance, np.ones((2, 2)) / 4)
        covariance = near + np.kron(np.eye(len(covariance)), split - 0.25)
    return covariance


def test_ranges_theorem_3_9_states_63_percent_more_variance() -> None:
    epsilon = 1.0
    delta = 1e-6
    height = 10
    printed = (2 + 2 * height / 3) / epsilon**2 * math.log(2 / delta)
    sensitivity_squared = np.linalg.inv(cascade_covariance(height)).diagonal().max()
    assert sensitivity_squared == pytest.approx(1 + height / 3)
    needed = analytic_gaussian_sigma(epsilon, delta) ** 2 * sensitivity_squared
    assert (round(printed, 2), round(needed, 2)) == (125.74, 77.34)


def test_proposition_3_13_first_inequality_lacks_a_factor() -> None:
    """Root mean square <= mean absolute value is false: for one query of N(0, 1), 1 > 0.798."""
    root_mean_square = 1.0
    mean_absolute = math.sqrt(2 / math.pi)
    assert root_mean_square > mean_absolute
    assert math.sqrt(2 / math.pi) * root_mean_square <= mean_absolute


def test_algorithm_2_as_printed_leaves_the_lowest_level_without_noise() -> None:
    """Doubling a tree of 2^k leaves adds 2^k leaves {1} x {0,1}^k: k levels below the new root's
    right child. Splitting nodes at depths 1 to k - 1 from there reaches all but the last."""
    for k in range(1, 6):
        named = {
            (1, *bits) for i in range(k) for bits in itertools.product((0, 1), repeat=i)
        }  # "nodes I in union over i <= k - 1 of {1} x {0,1}^i"
        leaves = {(1, *bits) for bits in itertools.product((0, 1), repeat=k)}
        assert not leaves & named


def test_ranges_matrix_form_is_workload_times_root_of_covariance() -> None:
    """The paper writes R = C^(1/2), A = R^-1 W; shapes and covariance need B = W C^(1/2)."""
    covariance = cascade_covariance(2)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    queries = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])
    decoder = queries @ root
    encoder = np.linalg.inv(root)
    assert decoder @ encoder == pytest.approx(queries)
    assert decoder @ decoder.T == pytest.approx(queries @ covariance @ queries.T)
    with pytest.raises(ValueError, match="mismatch"):
        np.linalg.inv(root) @ queries


def test_doubled_tree_has_covariance_of_larger_cascade() -> None:
    """What the sensitivity of the growing stream rests on: 1 + j / 3 after j doublings."""
    for height in range(6):
        larger = cascade_covariance(height + 1)
        half = 2**height
        assert larger[:half, :half] == pytest.approx(cascade_covariance(height))
        precision = np.linalg.inv(larger)
        assert precision.diagonal() == pytest.approx(np.full(2 * half, 1 + (height + 1) / 3))


def test_corollary_c_2_has_the_rates_of_nodes() -> None:
    """It says "all the continuous range queries", and orders of growth in n = 2^k cells."""
    largest = []
    nodes = []
    ranges = []
    for height in range(2, 9):
        covariance = cascade_covariance(height)
        # sigma^2 in units of one exact noise
        size = 2**height
        squared = 1 + height / 3
        sums = np.zeros((size + 1, size + 1))
        sums[1:, 1:] = covariance.cumsum(0).cumsum(1)
        spread = sums.diagonal()[:, None] + sums.diagonal()[None, :] - 2 * sums
        below = np.tril_indices(size + 1, -1)
        largest.append(spread[below].max() * squared / height)
        ranges.append(spread[below].sum() * squared / (size**2 * height))
        nodes.append((2 * size - 1) * squared / (size**2 * height))
    # Printed: all three bounded, above and below. Of ranges, both columns grow with log n;
    assert (np.diff(largest) > 0.1).all()
    assert (np.diff(ranges[2:]) > 0.05).all()  # early terms that do not grow are still falling
    # of nodes, the first is that of one node, and the total is smaller by a factor n.
    assert (np.diff(nodes) < 0).all()
    assert nodes[-1] * 2**8 == pytest.approx(2 * (1 + 8 / 3) / 8, rel=0.01)


def test_appendix_e_2_compares_unlike_constants() -> None:
    """Squared sensitivities over a node's variance: of the cascade 1 + k / 3, of a tree of which
    every node has its own noise one for each of k + 1 levels."""
    for height in range(1, 11):
        cascade = np.linalg.inv(cascade_covariance(height)).diagonal().max()
        nodes = np.vstack(
            [np.kron(np.eye(2**d), np.ones(2 ** (height - d))) for d in range(height + 1)]
        )
        tree = (nodes**2).sum(axis=0).max()
        assert (cascade, tree) == (pytest.approx(1 + height / 3), height + 1)
        assert cascade < tree
        assert (2 + 2 * height / 3 < height) == (height > 6)  # as printed


def test_figure_3_has_the_binary_tree_before_the_factorization() -> None:
    """Bounds on the others' expected largest errors are below the binary tree's own."""
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    from papers.ranges.mechanisms import choice
    from papers.ranges.workloads import TreeNodes

    low, high = TreeNodes(1024).intervals()
    tree, optimum, factorization = (
        np.sqrt(best.strategy.axes[0].variance(low, high) * best.distribution.variance)
        for best in (choice(name, 1024, "nodes") for name in ("dyadic", "optimal", "square_root"))
    )

    def outside(value: float, stds: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(2 * np.exp(log_ndtr(-value / stds)))

    # Nodes of the tree carry noise of their own: the largest is that of independent ones.
    exact, _ = quad(lambda v: -math.expm1(np.log1p(-outside(v, tree)).sum()), 0, 2000, limit=200)
    for stds in (optimum, factorization):
        above, _ = quad(lambda v, s=stds: min(1.0, outside(v, s).sum()), 0, 2000, limit=200)
        assert exact > 1.16 * above
    assert round(exact) == 604
    # And all others are below the tree's in the mean, too.
    assert (factorization**2).mean() < (tree**2).mean()


def test_figure_4_gives_the_factorization_the_largest_noise() -> None:
    from papers.ranges.mechanisms import total_error

    tree, other = (total_error(name, 1024, "subsets") for name in ("dyadic", "square_root"))
    assert tree > 4 * other
    assert other < 1.2 * total_error("wavelet", 1024, "subsets")


def test_ranges_figure_2_shows_factorization_better_for_long_sums() -> None:
    from papers.ranges.numbers import level_variances

    optimum, factorization = (level_variances(name, 1024) for name in ("optimal", "square_root"))
    assert round(optimum[-1] / optimum[0], 1) == 5.4
    assert round(factorization[-1] / factorization[0], 1) == 2.6

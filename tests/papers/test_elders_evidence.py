"""Numbers and figures of "Count on Your Elders"."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from papers import Evidence
from papers.elders.laplace_or_gaussian import (
    composed_epsilon,
    crossing,
    epsilon_of,
    exact_crossing,
    factorisation_bound,
    log_crossing_of_bounds,
    scale_factor,
    variance_ratio_bound,
)
from papers.elders.numbers import (
    BEST,
    arities,
    constant,
    full_tree,
    measured_constants,
    range_arity,
    terms_in_all,
    wrong_outputs,
)
from papers.elders.random_input import least_error

pytestmark = pytest.mark.xdist_group("elders")


def test_elders_rows_agree_or_are_explained(elders: Evidence) -> None:
    assert elders.wrong == ()
    assert len(elders.comparisons) >= 110
    explained = [row for row in elders.comparisons if row.verdict == "explained"]
    assert Counter(row.place for row in explained) == {
        "Claim 1": 1, "Corollary C.3": 1, "Corollary 4.9": 4, "Appendix C": 2, "section 1.3": 3,
        "Algorithm 3": 1, "Theorem 1.2": 4, "Corollary 5.7": 3,
    }  # fmt: skip
    computed = {row.quantity: row.computed for row in explained}
    for quantity, known in (
        ("(error - leading term) / h^2, k = 20, h = 10", 9 / 19),
        ("error * epsilon^2 / log2(T)^3, limit, k = 20", 0.123870),
        ("best odd k, T = 2^8", 23),
        ("best odd k, T = 2^10", 13),
        ("best odd k, T = 2^16", 21),
        ("Algorithm 2 over smooth with the best share of zeros", 0.123591 / 0.168518),
        ("wrong outputs as printed, k = 5, T = 62", 36),
        ("delta below which Laplace noise is better, T = 2^10", 1.13323e-6),
        ("delta below which Laplace noise is better, T = 2^16", 5.61192e-10),
        ("delta below which Laplace noise is better, T = 2^20", 3.65244e-12),
    ):
        assert computed[quantity] == pytest.approx(known, rel=1e-5)


def test_measured_constants_equal_formulas_at_every_arity() -> None:
    for form, (best, _) in BEST.items():
        found = measured_constants(form)
        assert found == pytest.approx({k: constant(form, k) for k in arities(form)}, rel=1e-9)
        assert min(found, key=lambda k: found[k]) == best


@pytest.mark.parametrize(("arity", "height"), [(4, 3), (6, 2), (8, 3)])
def test_the_recursion_leaves_a_constant_number_of_terms(arity: int, height: int) -> None:
    tree = full_tree("even", arity, height)
    total = terms_in_all(arity, height)
    assert total == tree.variance(range(1, tree.horizon + 1)).sum()
    leading = arity * height / 4 / (1 - arity**-height)
    assert total / tree.horizon - leading == pytest.approx((arity - 2) / (4 * (arity - 1)))


@pytest.mark.parametrize(("arity", "height"), [(2, 12), (3, 8), (16, 3)])
def test_ranges_read_as_many_nodes_as_their_formula(arity: int, height: int) -> None:
    steps = arity**height

    def inside(level: int) -> int:
        """How many ranges contain a node of a level, added up over its nodes."""
        width = arity**level
        return sum(
            (first + 1) * (steps - first - width + 1)
            for first in range(0, steps - width + 1, width)
        )

    # A range reads the nodes that it contains without the node above them.
    read = sum(inside(level) - arity * inside(level + 1) for level in range(height))
    mean = read / (steps * (steps + 1) / 2)
    assert mean == pytest.approx((arity - 1) * height - 2 * (arity + 1) / 3, rel=0.005)
    assert range_arity(2**200) == 17


def test_the_corrected_algorithm_3_counts_every_item_once() -> None:
    for arity, height in ((3, 4), (5, 3), (7, 2)):
        assert wrong_outputs(arity, height, as_printed=False) == 0
        tree = full_tree("odd", arity, height)
        steps = range(1, tree.horizon + 1)
        subtracting = sum(any(node.weight < 0 for node in tree.row(step)) for step in steps)
        assert wrong_outputs(arity, height, as_printed=True) == subtracting


def test_formulas_of_section_5_fit_together() -> None:
    for epsilon, delta in ((1.0, 1e-6), (0.3, 1e-9), (1e-3, 1e-6)):
        a = scale_factor(epsilon, delta)
        log = math.log(1 / delta)
        assert a**2 / 2 + a * math.sqrt(2 * log) == pytest.approx(epsilon)
        assert epsilon_of(1 / a, 1e9, 1.0, delta) == pytest.approx(epsilon)
        assert epsilon_of(8.0, 4.0, 1e9, delta) == 0.5
        w = epsilon / log
        bound = w**2 / (2 * (math.sqrt(1 + w) - 1) ** 2)
        assert variance_ratio_bound(epsilon, delta) == pytest.approx(bound, rel=1e-6)
    many = 10**4
    each = 1e-3
    drift = many * each * math.expm1(each) / (math.exp(each) + 1)
    rest = math.sqrt(2 * math.log(1e6) * many * each**2)
    assert composed_epsilon(each, many, 1e-6) == pytest.approx(drift + rest)
    assert composed_epsilon(each, 3, 1e-6) == 3 * each


def test_crossings_have_equal_errors() -> None:
    log_delta = log_crossing_of_bounds(math.log(2**20), 1147.0)
    assert factorisation_bound(2**20, 1, math.exp(log_delta)) == pytest.approx(1147.0)
    assert crossing(lambda delta: delta < 2e-7) == pytest.approx(2e-7, rel=1e-5)
    assert exact_crossing(2**10) == pytest.approx(1.13e-6, rel=5e-3)


def test_the_bound_of_section_6_is_the_proofs() -> None:
    # The proof asks for at least so many changed items that m e^(-k eps) / 2 is at most 1.
    assert 2**8 * math.exp(-4 * least_error(2**16)) / 2 == pytest.approx(1)


def test_measured_errors_grow_and_stay_above_the_bound(elders: Evidence) -> None:
    ratios = [row.computed for row in elders.comparisons if row.place == "Theorem 1.4"]
    assert len(ratios) == 4
    assert 0.005 < min(ratios) < max(ratios) < 0.03
    (measured,) = (row for row in elders.comparisons if row.quantity.endswith("measured"))
    assert measured.tolerance is not None
    assert measured.tolerance < 0.025 * measured.computed

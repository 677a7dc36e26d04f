"""Totals beside revised windows: what is computed for tables, against plain linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.totals_beside_windows import Problem, _causal, least_error


def test_the_fixed_point_is_the_optimum_of_a_workload_that_has_a_known_one() -> None:
    """Identity is best measured as it is; two cells and their sum by a root that is written out."""
    found, gap = least_error(np.eye(5))
    assert np.allclose(found, np.eye(5))
    assert abs(gap) < 1e-9
    wanted = np.array([[2.0, 1.0], [1.0, 2.0]])
    found, gap = least_error(wanted)
    own, axes = np.linalg.eigh(wanted)
    root = (axes * np.sqrt(own)) @ axes.T
    assert np.allclose(found, root / root[0, 0])
    assert gap < 1e-4


@pytest.mark.parametrize("shape", [(1, 3), (4, 3), (5, 2)])
def test_errors_are_those_of_dense_matrices(shape: tuple[int, int]) -> None:
    problem = Problem(*shape)
    rng = np.random.default_rng(7)
    cells = problem.versions.shape[1]
    strategy = np.linalg.qr(rng.normal(size=(cells, cells)))[0] + 2 * np.eye(cells)
    for place, errors in ((problem.versions, "windows"), (problem.totals, "totals")):
        noise = (place @ np.linalg.inv(strategy)) ** 2  # B with B C = A
        found = getattr(problem.errors(strategy.T @ strategy), errors)
        assert found == pytest.approx(noise.sum(axis=1).mean())
    # A version of a window at a night, and the total of it, written out row by row.
    last = problem.totals[-1]
    assert last.tolist() == [1.0] * cells
    assert problem.totals.sum(axis=1).tolist()[0] == 1
    assert problem.versions[shape[1] - 1].sum() == shape[1]


def test_reading_both_gains_and_never_beats_the_optimum() -> None:
    problem, share = Problem(6, 3), 0.2
    one, _ = least_error(np.tri(3).T @ np.tri(3))
    running, _ = least_error(np.tri(8).T @ np.tri(8))
    windows = np.kron(np.eye(6), one)
    both = problem.errors(
        (1 - share) * windows + share * problem.arrivals.T @ running @ problem.arrivals
    )
    by_night = problem.errors_of_each_night((1 - share) * one, share * running)
    apart = problem.errors(windows).windows / (1 - share)
    assert both.windows < by_night.windows < apart
    assert both.totals < by_night.totals
    assert both.last == pytest.approx(by_night.last)  # the last night has measured everything
    for weight in (0.05, 0.3, 0.8):
        wanted = (1 - weight) / len(problem.versions) * problem.versions.T @ problem.versions
        wanted += weight / problem.nights * problem.totals.T @ problem.totals
        best, gap = least_error(wanted)
        assert gap < 1e-4
        assert np.allclose(np.diag(best), 1)  # of sensitivity 1, as the other is
        least = problem.errors(best)
        sums = [(1 - weight) * of.windows + weight * of.totals for of in (least, both)]
        assert sums[0] < sums[1]


def test_nodes_of_a_step_read_no_later_step() -> None:
    measured, _ = least_error(np.tri(6).T @ np.tri(6))
    causal = _causal(measured)
    assert np.allclose(causal, np.tril(causal))
    assert np.allclose(causal.T @ causal, measured)

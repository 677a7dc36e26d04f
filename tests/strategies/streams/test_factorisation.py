"""Strategies from any real matrix: what is rounded is what is stated, by brute force."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from own_laws.streams import check_strategy

from counton import plan
from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP
from counton.strategies import Factorisation, SqrtToeplitz, strategy_from_dict
from counton.strategies.participation import sensitivities
from counton.testing import check_noise_is_rows, check_windows

LAG = np.subtract.outer(np.arange(9), np.arange(9))
#: Real, lower triangular, with entries of both signs and a diagonal that is not 1.
TRIANGLE = np.where(LAG < 0, 0, np.cos(1.7 * LAG + np.arange(9)) / 2) + np.diag(
    np.linspace(0.7, 1.3, 9)
)
#: It reads ahead: more measurements than steps, none of a single step.
AHEAD = np.cos(np.multiply.outer(np.arange(7) + 0.5, 1.3 * np.arange(5)))
GIVEN = [
    Factorisation(TRIANGLE), Factorisation(TRIANGLE, 4), Factorisation(-np.tril(np.ones((6, 6)))),
    Factorisation(AHEAD, 5), Factorisation(1e-7 * np.eye(3)), Factorisation(np.eye(4, dtype=int)),
]  # fmt: skip


def exact(strategy: Factorisation) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in strategy.matrix.tolist()]


@pytest.mark.parametrize("strategy", GIVEN, ids=str)
def test_factorisation_passes_check_strategy(strategy: Factorisation) -> None:
    check_strategy(strategy)


@pytest.mark.parametrize("bits", [1, 3, 18, None])
def test_entries_are_rounded_to_the_lattice(bits: int | None) -> None:
    strategy = Factorisation(TRIANGLE, bits)
    unit = Fraction(1, 2**strategy.facts.lattice_bits)
    for row, given in zip(exact(strategy), TRIANGLE.tolist(), strict=True):
        for entry, real in zip(row, given, strict=True):
            assert (entry / unit).denominator == 1
            assert abs(entry - Fraction(real)) <= unit / 2


def test_rounding_up_is_paid_for() -> None:
    # 0.3 in multiples of a quarter is a quarter, 0.4 a half: the real norm is too small.
    strategy = Factorisation([[1.0, 0.0], [0.4, 1.0]], 2)
    assert strategy.matrix.tolist() == [[1.0, 0.0], [0.5, 1.0]]
    assert strategy.squared_sensitivity() == Fraction(5, 4) > Fraction(1.0 + 0.4**2)


@pytest.mark.parametrize(
    ("matrix", "causal"),
    [
        (TRIANGLE, True),
        (np.eye(3), True),
        (TRIANGLE.T, False),
        (AHEAD, False),
        (np.vstack([np.eye(3), np.eye(3)]), False),
        # what rounding makes 0 is not measured
        ([[1, 1e-9], [0.5, 1]], True),
    ],
)
def test_triangles_are_causal(matrix: Any, causal: bool) -> None:
    strategy = Factorisation(matrix)
    assert strategy.facts.causal is causal


def test_the_square_root_as_a_matrix_is_the_square_root() -> None:
    root = SqrtToeplitz(200)
    lag = np.subtract.outer(np.arange(200), np.arange(200))
    matrix = np.where(lag < 0, 0, root.root.numerators[np.abs(lag)] / 2**18)
    strategy = Factorisation(matrix, 18)
    steps = range(1, 201)
    assert sensitivities(strategy) == sensitivities(root)
    assert strategy.structure.aligned()
    np.testing.assert_allclose(strategy.variance(steps), root.variance(steps), rtol=1e-10)
    ends = np.array([9, 4, 200]), np.array([0, 3, 50])
    np.testing.assert_allclose(strategy.variance(*ends), root.variance(*ends))
    check_windows(strategy, 200)


def test_noise_is_exact_of_an_ill_conditioned_matrix() -> None:
    # Entries of its inverse grow by 2.5 a step, and least squares have its condition squared.
    strategy = Factorisation(np.eye(12) - 2.5 * np.eye(12, k=-1), 10)
    assert strategy.variance([12])[0] > 1e8
    check_noise_is_rows(strategy, 12)


def test_plan_ranks_factorisation_among_strategies() -> None:
    root = SqrtToeplitz(64)
    lag = np.subtract.outer(np.arange(64), np.arange(64))
    mine = Factorisation(np.where(lag < 0, 0, root.root.numerators[np.abs(lag)] / 2**18), 18)
    choices = plan(64, ZCDP(0.5), also=[mine, root], compare=True)
    by_strategy = {choice.strategy: choice for choice in choices}
    assert by_strategy[mine].errors.mean_std == pytest.approx(by_strategy[root].errors.mean_std)


@pytest.mark.parametrize(
    ("matrix", "bits", "said"),
    [
        ([[1, 1], [1, 1]], None, "linearly dependent"),
        ([[1.0, 1.0], [1.0, 1.0000001]], 4, "linearly dependent"),
        ([[1.0, 1.0], [1.0, 1.000001]], 22, "linearly dependent"),
        (np.diag([1.0, 1e-7]), 28, "condition number may be 9.9e"),
        (np.eye(2), 41, "bits is 41"),
        (np.eye(2), 30, "add up to 1, but"),
        ([[1e308], [1e308]], None, "add up to inf"),
        (2.0**40 * np.eye(2), None, "below 2\\^30 times 2\\^-1"),
        ([[0.0]], None, "column 1 of the matrix is 0"),
        (
            [[1, 0], [1, 1e-9]],
            None,
            "column 2 of the matrix is 0 when it is rounded to multiples of 2",
        ),
        ([[1, np.nan]], None, "1 rows for 2 steps"),
        ([[1, 0], [np.inf, 1]], None, "entry 1, 0 of the matrix is inf"),
        ([[1, 0], [1]], None, "rows of different lengths"),
        ([1, 2], None, "shape \\(2,\\)"),
        ([["a"]], None, "type <U1"),
        ([[1j]], None, "type complex128"),
        (np.eye(3)[:, :0], None, "0 columns"),
        (np.zeros((4097, 4097), np.int8), None, "4097 columns"),
        (np.ma.masked_equal(np.eye(2), 0), None, "mask"),
    ],
)
def test_factorisation_refuses_invalid_matrix(matrix: Any, bits: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Factorisation(matrix, bits)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"matrix": "1:"}, "stored integers of shape"),
        ({"matrix": None}, "stored integers of shape"),
        ({"matrix_sha256": "0"}, "does not have the digest '0'"),
        ({"horizon": 10**9}, "horizon is 1"),
    ],
)
def test_a_description_that_was_changed_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        strategy_from_dict({**GIVEN[1].to_dict(), **changed})


@pytest.mark.parametrize("part", ["matrix", "bits", "horizon", "measurements", "matrix_sha256"])
def test_a_description_that_lacks_a_part_is_refused(part: str) -> None:
    description = GIVEN[1].to_dict()
    del description[part]
    with pytest.raises(InvalidInputError, match=f"cannot be read .*{part}"):
        strategy_from_dict(description)

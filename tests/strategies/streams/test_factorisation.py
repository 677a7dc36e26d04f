"""Strategies from any real matrix: what is rounded is what is stated, by brute force."""

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from own_laws.streams import check_strategy

from counton import Counter, PureDP, Stream, plan
from counton.base.errors import InvalidInput
from counton.laws import HashedNoise, check_noise_is_rows, check_windows
from counton.privacy import ZCDP
from counton.strategies import Factorisation, SqrtToeplitz, matrices, strategy_from_dict
from counton.strategies.participation import sensitivities

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
def test_every_law_holds(strategy: Factorisation) -> None:
    check_strategy(strategy)
    assert strategy_from_dict(strategy.to_dict()) == strategy


@pytest.mark.parametrize("bits", [1, 3, 18, None])
def test_entries_are_rounded_to_the_lattice(bits: int | None) -> None:
    strategy = Factorisation(TRIANGLE, bits)
    unit = Fraction(1, 2**strategy.facts.lattice_bits)
    for row, given in zip(exact(strategy), TRIANGLE.tolist(), strict=True):
        for entry, real in zip(row, given, strict=True):
            assert (entry / unit).denominator == 1
            assert abs(entry - Fraction(real)) <= unit / 2


@pytest.mark.parametrize("strategy", GIVEN, ids=str)
def test_sensitivities_are_those_of_the_rounded_matrix(strategy: Factorisation) -> None:
    columns = list(zip(*exact(strategy), strict=True))
    assert strategy.l1_sensitivity() == max(sum(map(abs, column)) for column in columns)
    assert strategy.squared_sensitivity() == max(sum(x * x for x in c) for c in columns)


def test_rounding_up_is_paid_for() -> None:
    # 0.3 in multiples of a quarter is a quarter, 0.4 a half: the real norm is too small.
    strategy = Factorisation([[1.0, 0.0], [0.4, 1.0]], 2)
    assert strategy.matrix.tolist() == [[1.0, 0.0], [0.5, 1.0]]
    assert strategy.squared_sensitivity() == Fraction(5, 4) > Fraction(1.0 + 0.4**2)


@pytest.mark.parametrize("strategy", GIVEN[:4], ids=str)
@pytest.mark.parametrize(("times", "apart"), [(2, 1), (2, 3), (3, 2), (4, 1)])
def test_a_unit_in_several_steps_moves_no_more_than_stated(
    strategy: Factorisation, times: int, apart: int
) -> None:
    columns = [np.array(column) for column in zip(*exact(strategy), strict=True)]
    moved = sensitivities(strategy, steps=times, separation=apart)
    unit = 2**strategy.facts.lattice_bits
    for steps in itertools.combinations(range(strategy.horizon), times):
        if min(np.diff(steps)) < apart:
            continue
        for signs in itertools.product((-1, 1), repeat=times):
            total: Any = np.sum([s * columns[t] for s, t in zip(signs, steps, strict=True)], axis=0)
            assert abs(total).sum() * unit <= moved.l1
            assert (total**2).sum() * unit**2 <= moved.l2_squared


def test_a_release_reads_the_inverse() -> None:
    strategy = Factorisation(TRIANGLE, 6)
    reads, enters = matrices(strategy)
    assert (reads @ enters == np.tril(np.ones((9, 9), int))).all()
    variance = [sum(x * x for x in row) for row in reads.tolist()]
    np.testing.assert_allclose(strategy.variance(range(1, 10)), [float(v) for v in variance])


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


def test_noise_does_not_depend_on_how_many_numbers_are_asked_for() -> None:
    strategy = Factorisation(TRIANGLE)
    field = HashedNoise((3,), spread=1 << strategy.facts.lattice_bits)
    whole = strategy.noise(field, range(1, 10))
    for step in range(1, 10):
        assert (strategy.noise(field, range(step, step + 1)) == whole[step - 1 : step]).all()


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)])
def test_totals_are_the_exact_ones_plus_noise_of_the_key(guarantee: Any) -> None:
    def totals(counts: list[int]) -> Any:
        counter = Counter(GIVEN[0], guarantee, key=chosen_key(), name="any")
        return counter.release_many(counts).values

    one, other = [3, 0, 2, 5, 0, 0, 1, 4, 9], [0] * 9
    np.testing.assert_array_equal(totals(one) - totals(other), np.cumsum(one))


def test_a_stream_goes_on_without_the_matrix(tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    with Stream.create(path, "any", GIVEN[0], PureDP(1)) as stream:
        stream.release_many([4, 2])
    with Stream.open(path, "any") as stream:
        assert stream.design.strategy == GIVEN[0]
        assert stream.release(3).step == 3


def test_a_plan_ranks_it_among_the_others() -> None:
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
        (np.eye(2), 0, "bits is 0"),
        (np.eye(2), 41, "bits is 41"),
        (np.eye(2), 2.5, "bits is 2.5"),
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
def test_what_cannot_be_is_refused(matrix: Any, bits: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Factorisation(matrix, bits)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"matrix": "1:"}, "stored integers of shape"),
        ({"matrix": None}, "stored integers of shape"),
        ({"matrix_sha256": "0"}, "does not have the digest '0'"),
        ({"bits": 3000}, "bits is 3000"),
        ({"horizon": 10**9}, "horizon is 1"),
        ({"measurements": 5}, "stored integers of shape"),
    ],
)
def test_a_description_that_was_changed_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        strategy_from_dict({**GIVEN[1].to_dict(), **changed})


@pytest.mark.parametrize("part", ["matrix", "bits", "horizon", "measurements", "matrix_sha256"])
def test_a_description_that_lacks_a_part_is_refused(part: str) -> None:
    description = GIVEN[1].to_dict()
    del description[part]
    with pytest.raises(InvalidInput, match=f"cannot be read .*{part}"):
        strategy_from_dict(description)

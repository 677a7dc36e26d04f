"""Matrices of published mechanisms give running totals, and columns have the stated norms."""

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.strategies.published import group_algebra_matrix, indexed_tree_matrix
from papers.survey.indexed import indexed_tree
from papers.survey.numbers import group_algebra

HORIZONS = (1, 2, 5, 12, 16, 31)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("norm", [1, 2])
def test_indexed_tree_is_triangular_with_the_published_variances(horizon: int, norm: int) -> None:
    matrix = indexed_tree_matrix(horizon, norm)  # type: ignore[arg-type]
    assert not np.triu(matrix, 1).any()
    reads = np.tri(horizon) @ np.linalg.inv(matrix)
    assert (reads**2).sum(axis=1) == pytest.approx(indexed_tree(horizon, norm))  # type: ignore[arg-type]
    assert (np.abs(matrix) ** norm).sum(axis=0).max() == pytest.approx(1)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_spare_rows_complete_columns_within_norm_1(horizon: int) -> None:
    tree = indexed_tree_matrix(horizon, 2)
    matrix = indexed_tree_matrix(horizon, 2, spare=True)
    assert (matrix[:horizon] == tree).all()
    alone = matrix[horizon:]
    assert ((alone > 0).sum(axis=1) == 1).all()
    assert (matrix**2).sum(axis=0).max() == pytest.approx(1)


@pytest.mark.parametrize("horizon", [3, 31])
def test_spare_rows_complete_every_column_of_whole_tree(horizon: int) -> None:
    matrix = indexed_tree_matrix(horizon, 2, spare=True)
    assert (matrix**2).sum(axis=0) == pytest.approx(np.ones(horizon))


@pytest.mark.parametrize("horizon", HORIZONS)
def test_group_algebra_columns_have_the_published_norm(horizon: int) -> None:
    matrix = group_algebra_matrix(horizon)
    reads = np.array([np.roll(matrix[::-1, 0], step) for step in range(1, horizon + 1)])
    assert reads @ matrix == pytest.approx(np.tri(horizon))
    squares = (matrix**2).sum(axis=0)
    assert squares == pytest.approx(np.full(horizon, group_algebra(horizon)))


def test_matrices_refuse_long_horizons_and_unknown_norms() -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        indexed_tree_matrix(4097, 1)
    with pytest.raises(InvalidInputError, match="horizon"):
        group_algebra_matrix(0)
    with pytest.raises(InvalidInputError, match="norm"):
        indexed_tree_matrix(4, 3)  # type: ignore[arg-type]

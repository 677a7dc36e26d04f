"""The binary mechanism: popcounts, dyadic nodes."""

from fractions import Fraction

import pytest
from drawn_noise import CountedNoise
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import InvalidInputError
from counton.strategies import Binary, Node


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 7, 8, 1000, 2**20, 10**18])
def test_sensitivity_and_worst_variance(horizon: int) -> None:
    """Two rho times the largest variance is h^2 on a full tree, else max popcount times h."""
    tree = Binary(horizon)
    height = horizon.bit_length()
    assert tree.l1_sensitivity() == tree.squared_sensitivity() == height
    full = horizon == 2**height - 1
    assert tree.overall_variance("max") == (
        height if full else max(height - 1, horizon.bit_count())
    )


@given(st.integers(1, 5000))
def test_error_is_that_of_enumeration(horizon: int) -> None:
    counts = [step.bit_count() for step in range(1, horizon + 1)]
    assert Binary(horizon).overall_variance("mean") == float(Fraction(sum(counts), horizon))
    assert Binary(horizon).overall_variance("max") == max(counts)
    assert Binary(horizon).variance(range(1, horizon + 1)).tolist() == counts


def test_nodes_are_the_left_children() -> None:
    tree = Binary(6)
    assert tree.column(1) == (Node(0, 0, 1), Node(1, 0, 1), Node(2, 0, 1))
    assert tree.column(3) == (Node(0, 1, 1), Node(2, 0, 1))
    assert tree.column(6) == (Node(1, 1, 1),)
    assert tree.row(6) == (Node(2, 0, 1), Node(1, 1, 1))


def test_one_draw_a_release() -> None:
    for shape in ((), (40,)):
        table = CountedNoise(shape)
        Binary(1000).noise(table, range(1, 1001))
        assert table.drawn == 1000


@pytest.mark.parametrize("horizon", [0, -1, True, 3.0, None, "8"])
def test_bad_horizons(horizon: int) -> None:
    with pytest.raises(InvalidInputError, match=f"horizon is {horizon!r}"):
        Binary(horizon)

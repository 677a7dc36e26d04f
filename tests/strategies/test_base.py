"""What every strategy inherits: sensitivities as floats, matrices, checked steps, identity."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counton.errors import HorizonExceeded, InvalidInput
from counton.strategies import Binary, HonakerOnline, KAry


def test_matrices_of_a_tiny_tree() -> None:
    reads, enters = KAry(4, 3).matrices()
    # Nodes: items 1, 3 and 4 alone, and the first three together; 2 = 3 - 1.
    assert reads.tolist() == [[1, 0, 0, 0], [0, -1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert enters.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 0]]
    assert (reads @ enters).tolist() == np.tri(4, dtype=int).tolist()
    assert reads.dtype == enters.dtype == np.int64


def test_matrices_of_fractions_hold_objects() -> None:
    reads, enters = HonakerOnline(5).matrices()
    assert reads.dtype == object
    assert (reads @ enters == np.tri(5, dtype=int)).all()


def test_matrices_over_fewer_steps() -> None:
    reads, enters = Binary(1000).matrices(steps=6)
    assert (reads @ enters == np.tri(6, dtype=int)).all()


@pytest.mark.parametrize("steps", [0, 4097])
def test_matrices_too_large(steps: int) -> None:
    with pytest.raises(InvalidInput, match=f"over {steps} steps"):
        Binary(10_000).matrices(steps)


def test_sensitivity_as_float() -> None:
    tree = Binary(1000)
    assert tree.sensitivity(1) == 10.0
    assert tree.sensitivity(2) == math.sqrt(10)
    with pytest.raises(InvalidInput, match="norm is 3"):
        tree.sensitivity(3)  # type: ignore[arg-type]


def test_steps_in_any_form() -> None:
    tree = Binary(100)
    expected = [1.0, 2.0, 1.0]
    for steps in (
        [2, 3, 4],
        (2, 3, 4),
        range(2, 5),
        iter([2, 3, 4]),
        np.array([2, 3, 4], np.uint8),
    ):
        assert tree.variance(steps).tolist() == expected
    assert tree.variance(range(4, 1, -1)).tolist() == expected[::-1]
    assert tree.variance(np.array([[2, 3], [4, 1]])).shape == (2, 2)


@pytest.mark.parametrize("steps", [[0], [101], range(3), range(99, 103), [True], [1.0], ["1"]])
def test_bad_steps(steps: list[int]) -> None:
    with pytest.raises(InvalidInput):
        Binary(100).variance(steps)


@pytest.mark.parametrize("window", [range(1, 9, 2), range(9, 1, -1), [1, 2], slice(1, 3)])
def test_bad_windows(window: range) -> None:
    with pytest.raises(InvalidInput, match="consecutive steps"):
        Binary(100).check_window(window)


def test_empty_windows_draw_nothing() -> None:
    assert Binary(100).check_window(range(200, 200)) == range(200, 200)


@pytest.mark.parametrize("step", [True, 1.0, "1", None])
def test_a_step_is_an_integer(step: int) -> None:
    with pytest.raises(InvalidInput, match="must be an integer"):
        Binary(100).row(step)


def test_beyond_the_horizon() -> None:
    with pytest.raises(HorizonExceeded, match="plan a longer horizon"):
        Binary(100).column(101)


def test_identity_is_type_and_parameters() -> None:
    assert KAry(100, 5) == KAry(100, 5, subtraction=True)
    assert KAry(100, 5) != KAry(100, 5, subtraction=False)
    assert Binary(100) != HonakerOnline(100)
    assert len({Binary(7), Binary(7), Binary(8)}) == 2
    assert repr(KAry(100, 5)) == "KAry(horizon=100, arity=5, subtraction=True)"

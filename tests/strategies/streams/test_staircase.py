"""Noise divided by the root as it comes: what it misses by, and where it begins anew."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counton.base.errors import SumOverflowError
from counton.strategies import GrowingSquareRoot
from counton.strategies.streams import growing_root
from counton.strategies.streams.growing_root import series_bits
from counton.strategies.streams.power_series import PrefixQuotient
from counton.strategies.streams.square_root import square_root_coefficients
from counton.strategies.streams.staircase import Dividing, Staircase
from counton.testing import HashedNoise


def root(steps: int, bits: int) -> NDArray[np.int64]:
    return np.rint(square_root_coefficients(steps) * 2.0**bits).astype(np.int64)


@settings(max_examples=30, deadline=None)
@given(
    bits=st.sampled_from([12, 14, 16]),
    spread=st.sampled_from([1, 2**20, 2**47]),
    lengths=st.lists(st.integers(1, 700), min_size=3, max_size=7),
)
def test_every_step_solves_its_equation_within_four_units(
    bits: int, spread: int, lengths: list[int]
) -> None:
    steps = sum(lengths)
    numerators = root(steps, bits)
    stairs = Staircase(numerators, bits)
    z = HashedNoise((2,), spread, seed=steps).run(0, range(steps))
    dividing = Dividing(stairs, 2)
    at = 0
    for length in lengths:
        dividing.next(z[at : at + length])
        at += length
    falls = [0, *(-np.diff(numerators)).tolist()]
    of_lags = [(lag, fall) for lag, fall in enumerate(falls) if fall]
    found = dividing._halves[:steps]
    assert (found == np.rint(found)).all()
    assert (found[:, 1] >= 0).all()
    assert (found[:, 1] < 2.0**stairs.half).all()
    for cell in range(2):
        units = [(int(a) << stairs.half) + int(b) for a, b in found[:, :, cell].tolist()]
        for step in {*range(0, steps, 97), steps - 1}:
            past = sum(fall * units[step - lag] for lag, fall in of_lags if lag <= step)
            wanted = (int(z[step, cell]) << stairs.point) + Fraction(past, 1 << bits)
            assert abs(units[step] - wanted) <= 4


@pytest.mark.parametrize("bits", [12, 16])
def test_the_error_that_is_stated_is_none_too_small(bits: int) -> None:
    numerators = root(20_000, bits)
    stairs = Staircase(numerators, bits)
    sums = np.cumsum(PrefixQuotient(numerators, bits).approximate)  # of 1 / ((1 - x) c)
    for steps in (1, 2, 3, 10, 1000, 20_000):
        least = 4 * sums[steps - 1] * 2.0**-stairs.point
        assert least <= stairs.error(steps) <= 12 * least


def test_no_other_series_is_taken() -> None:
    for wrong in (np.array([4, 2, 3]), np.array([3, 2, 1])):
        with pytest.raises(ValueError, match="never increase"):
            Staircase(wrong, 2)


def test_noise_without_room_is_refused() -> None:
    dividing = Dividing(Staircase(root(10, 16), 16), 1)
    with pytest.raises(SumOverflowError, match="2\\^50 or more"):
        dividing.next(np.array([[2**50]]))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_running_stream_has_the_noise_of_any_window(shape: tuple[int, ...]) -> None:
    growing = GrowingSquareRoot()
    field = HashedNoise(shape, 2**36)
    whole = growing.noise(field, range(1, 3001))
    reader = growing._reader(field)
    assert reader.local
    for window in (range(1, 2), range(2, 700), range(700, 700), range(650, 900), range(2500, 3001)):
        found = reader.noise(window)
        assert np.array_equal(found, whole[window.start - 1 : window.stop - 1])
    parts = [part.copy() for part in reader.parts(range(5, 3001))]
    assert np.array_equal(np.concatenate(parts), whole[4:])


def test_streams_of_too_many_cells_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    field = HashedNoise((3,), 2**36)
    growing = GrowingSquareRoot()
    whole = growing.noise(field, range(1, 400))
    monkeypatch.setattr(growing_root, "_MOST_HELD_NUMBERS", 6 * 250)
    reader = growing._reader(field)
    assert np.array_equal(reader.noise(range(1, 200)), whole[:199])
    assert not reader.local
    assert np.array_equal(reader.noise(range(200, 400)), whole[199:])


@pytest.mark.parametrize("bits", [4, 18])
def test_integers_decide_values_that_floats_leave_open(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = GrowingSquareRoot(bits)
    assert growing._stairs.bits == series_bits(bits)
    field = HashedNoise((2,), 2**36)
    before = growing.noise(field, range(1, 60))
    monkeypatch.setattr(growing._stairs, "error", lambda steps: 2.0**growing.facts.lattice_bits)
    decided = set()
    decide = growing_root.WeightedRoot._decide

    def watched(self: growing_root.WeightedRoot, z: NDArray[np.int64]) -> int:
        decided.add(len(z))
        return decide(self, z)

    monkeypatch.setattr(growing_root.WeightedRoot, "_decide", watched)
    assert np.array_equal(growing.noise(field, range(1, 60)), before)
    assert decided == set(range(1, 60))
    assert np.array_equal(growing._reader(field).noise(range(1, 60)), before)

"""Float normals for training: their law, their addresses, the same bits everywhere."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
    __cpu_dispatch__,
)
from scipy import stats
from some_cases import long

from counton.base.errors import NoiseAddressError
from counton.noise import normals
from counton.noise.normals import COORDINATES_PER_BLOCK, NormalField

SUBKEY = bytes(range(32))
DIGEST = "767d7991c1ea5df5a848c8abb6f8846f"


def digest() -> str:
    drawn = NormalField(SUBKEY, 3 * COORDINATES_PER_BLOCK // 2 + 1).read(2, 7)
    return hashlib.sha256(drawn.astype("<f4").tobytes()).hexdigest()[:32]


def test_normals_equal_known_answers() -> None:
    drawn = NormalField(SUBKEY, 5).read(0, 1)
    assert drawn.dtype == np.float32
    assert digest() == DIGEST


def test_the_same_bits_without_the_newest_instructions() -> None:
    """Only operations that IEEE 754 rounds in one way are used."""
    program = (
        "import hashlib, numpy as np\n"
        "from counton.noise.normals import COORDINATES_PER_BLOCK, NormalField\n"
        "drawn = NormalField(bytes(range(32)), 3 * COORDINATES_PER_BLOCK // 2 + 1).read(2, 7)\n"
        "print(hashlib.sha256(drawn.astype('<f4').tobytes()).hexdigest()[:32])"
    )
    features = " ".join(__cpu_dispatch__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": features},
    )  # fmt: skip
    assert done.stdout.strip() == DIGEST


def test_draws_are_the_exact_function_of_their_bits() -> None:
    count = 2**15
    words = np.random.default_rng(0).integers(0, 2**32, (2, count), np.uint32)
    uniform = words[0].astype(np.float32)
    angle = words[1].view(np.int32)
    low = np.empty(count, np.float32)
    high = np.empty(count, np.float32)
    normals._box_muller(uniform.copy(), angle, low, high)
    radius = np.sqrt(-2 * np.log(uniform.astype(float) / 2**32))
    turn = (words[1] << np.uint32(1)).view(np.int32) / 2.0**31 * np.pi / 2
    sign = np.where(angle < 0, -1, 1)
    assert np.abs(low - radius * np.cos(turn) * sign).max() < 2e-6
    assert np.abs(high - radius * np.sin(turn)).max() < 2e-6


@pytest.mark.parametrize(
    "half",
    [
        slice(0, COORDINATES_PER_BLOCK // 2),
        long(slice(COORDINATES_PER_BLOCK // 2, COORDINATES_PER_BLOCK)),
        long(slice(None)),
    ],
)
def test_normals_pass_tests_that_wider_ones_fail(half: slice) -> None:
    field = NormalField(SUBKEY, 4 * COORDINATES_PER_BLOCK)
    drawn = np.concatenate([field.read(0, index).reshape(4, -1)[:, half] for index in range(4)])
    flat = drawn.reshape(-1).astype(float)
    assert stats.kstest(flat, "norm").pvalue > 1e-3
    assert stats.kstest(1.03 * flat, "norm").pvalue < 1e-20
    assert abs((flat**4).mean() - 3) < 5 * np.sqrt(96 / len(flat))


def test_blocks_steps_levels_and_neighbours_are_not_correlated() -> None:
    field = NormalField(SUBKEY, 2 * COORDINATES_PER_BLOCK)
    one = field.read(0, 0)
    others = [
        field.read(0, 1),
        field.read(1, 0),
        np.roll(one, 1),
        np.roll(one, COORDINATES_PER_BLOCK),
    ]
    others += [
        np.roll(one, COORDINATES_PER_BLOCK // 2),
        NormalField(bytes(32), 2 * COORDINATES_PER_BLOCK).read(0, 0),
    ]
    for other in others:
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(2 * COORDINATES_PER_BLOCK)


def test_small_words_are_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further bits change nothing but the last places, and no radius is infinite."""
    plain = NormalField(SUBKEY, COORDINATES_PER_BLOCK).read(0, 3)
    monkeypatch.setattr(normals, "_RARE_WORD_LIMIT", 2**31)
    refined = NormalField(SUBKEY, COORDINATES_PER_BLOCK).read(0, 3)
    assert not (plain == refined).all()
    assert np.abs(plain - refined).max() < 0.01
    least = np.zeros(2, np.float32) + np.float32(2.0**-33)
    low = np.empty(2, np.float32)
    high = np.empty(2, np.float32)
    normals._box_muller(least, np.array([0, 2**31 - 1], np.int32), low, high)
    assert low[0] == pytest.approx(np.sqrt(2 * 65 * np.log(2)), rel=1e-6)


def test_any_part_is_that_of_the_whole() -> None:
    field = NormalField(SUBKEY, 2 * COORDINATES_PER_BLOCK + 11)
    whole = field.read(3, 9)
    for first, stop in (
        (0, 1),
        (COORDINATES_PER_BLOCK - 1, COORDINATES_PER_BLOCK + 1),
        (COORDINATES_PER_BLOCK, 2 * COORDINATES_PER_BLOCK),
        (2 * COORDINATES_PER_BLOCK + 5, None),
    ):
        assert (field.read(3, 9, first, stop) == whole[first:stop]).all()
    assert field.read(3, 9, 7, 7).shape == (0,)
    assert len(NormalField(SUBKEY, 1).read(0, 0)) == 1


@pytest.mark.parametrize("place", [(0, 0, 3, 2), (0, 0, 0, 99), (0, 2**32, 0, 1), (256, 0, 0, 1)])
def test_normal_field_refuses_address_outside_table(place: tuple[int, int, int, int]) -> None:
    with pytest.raises(NoiseAddressError):
        NormalField(SUBKEY, 9).read(*place)

"""Noise is a function of its address: any window, any thread, any processor."""

import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import run_program
from some_cases import long

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import NoiseAddressError
from counton.noise import NoiseField
from counton.noise.blocks import BlockSource

SUBKEY = bytes(range(32))
DISTRIBUTIONS: list[NoiseDistribution] = [
    DiscreteLaplace(Fraction(6)), DiscreteLaplace(Fraction(10**5)), DiscreteGaussian(Fraction(30)),
    DiscreteGaussian(Fraction(10**9)),
]  # fmt: skip


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (16,), (3, 5), (40_000,)], ids=str)
def test_a_window_is_a_slice_of_a_larger_window(
    distribution: NoiseDistribution, shape: tuple[int, ...]
) -> None:
    field = NoiseField(SUBKEY, distribution, shape)
    whole = field.run(2, range(5, 25))
    assert whole.shape == (20, *shape)
    for start, stop in ((5, 6), (7, 19), (24, 25), (9, 9)):
        assert (field.run(2, range(start, stop)) == whole[start - 5 : stop - 5]).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_part_of_part_equals_slice_of_whole_field(distribution: NoiseDistribution) -> None:
    field = NoiseField(SUBKEY, distribution, (3, 7))
    whole = field.run(2, range(4, 9)).reshape(5, 21)
    for first, cells, then, rest in ((0, 21, 0, 21), (5, 12, 0, 4), (5, 12, 3, 9), (20, 1, 0, 1)):
        once = field.part(first, cells)
        twice = once.part(then, rest)
        begin = first + then
        assert (once.run(2, range(4, 9)) == whole[:, first : first + cells]).all()
        assert (twice.run(2, range(4, 9)) == whole[:, begin : begin + rest]).all()
        encrypted = field.cipher.encrypt(b"drawn", b"step 1")
        assert twice.cipher.decrypt(encrypted, b"step 1") == b"drawn"
        with pytest.raises(NoiseAddressError, match="are not all within a node"):
            once.part(then, cells - then + 1)  # of the field, and not of the part


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 2**63 - 400_000), offset=st.integers(0, 300_000))
def test_windows_agree_across_chunk_borders(start: int, offset: int) -> None:
    field = NoiseField(SUBKEY, DISTRIBUTIONS[0])
    whole = field.run(0, range(start, start + 300_010))
    assert (field.run(0, range(start + offset, start + offset + 10)) == whole[offset:][:10]).all()


def test_level_distribution_shape_and_subkey_change_noise() -> None:
    base = NoiseField(SUBKEY, DISTRIBUTIONS[0]).run(0, range(200))
    assert not (NoiseField(SUBKEY, DISTRIBUTIONS[0]).run(1, range(200)) == base).all()
    assert not (NoiseField(bytes(32), DISTRIBUTIONS[0]).run(0, range(200)) == base).all()
    assert not (NoiseField(SUBKEY, DISTRIBUTIONS[0], (1,)).run(0, range(200))[:, 0] == base).all()


def test_distributions_may_differ_by_level() -> None:
    field = NoiseField(SUBKEY, lambda level: DiscreteLaplace(Fraction(1 + level)))
    assert (field.run(5, range(50)) == NoiseField(SUBKEY, DISTRIBUTIONS[0]).run(5, range(50))).all()


def test_addresses_outside_the_table_are_refused() -> None:
    scalar = NoiseField(SUBKEY, DISTRIBUTIONS[0])
    vector = NoiseField(SUBKEY, DISTRIBUTIONS[0], (2,))
    assert scalar.run(255, range(2**63 - 2, 2**63)).shape == (2,)
    assert vector.run(255, range(2**32 - 2, 2**32)).shape == (2, 2)
    for field, level, nodes in (
        (scalar, 0, range(2**63 - 1, 2**63 + 1)),
        (vector, 0, range(2**32 - 1, 2**32 + 1)),
        (scalar, 0, range(-1, 3)),
        (scalar, 0, range(0, 10, 2)),
        (scalar, 256, range(3)),
        (scalar, -1, range(3)),
    ):
        with pytest.raises(NoiseAddressError, match="use a strategy"):
            field.run(level, nodes)


def test_threads_do_not_disturb_each_other() -> None:
    field = NoiseField(SUBKEY, DISTRIBUTIONS[3], (100,))
    expected = field.run(0, range(2000))

    def part(i: int) -> bool:
        return bool((field.run(0, range(i * 20, i * 20 + 20)) == expected[i * 20 :][:20]).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(part, range(100)))


@pytest.mark.slow
@pytest.mark.parametrize("disabled", [long("AVX512"), ""])
def test_the_same_bits_without_wide_vector_instructions(disabled: str) -> None:
    """Without those of a name; without any."""
    from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
        __cpu_dispatch__,
    )

    program = (
        "import hashlib, sys\n"
        "from fractions import Fraction\n"
        "from counton.base.distributions import DiscreteGaussian, DiscreteLaplace\n"
        "from counton.noise import NoiseField\n"
        "digest = hashlib.sha256()\n"
        "for law in (DiscreteLaplace(Fraction(6)), DiscreteLaplace(Fraction(10**5)),\n"
        "            DiscreteGaussian(Fraction(30)), DiscreteGaussian(Fraction(10**9))):\n"
        "    digest.update(NoiseField(bytes(32), law).run(0, range(300_000)).tobytes())\n"
        "print(digest.hexdigest())\n"
    )

    here: list[str] = []
    exec(program, {"print": here.append})
    names = [name for name in __cpu_dispatch__ if disabled in name or name == "X86_V4"]
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(names)}
    run = [sys.executable, "-W", "ignore", "-c", program]
    assert run_program(run, env=environment, check=True).stdout.split() == here


@pytest.mark.parametrize(
    "distribution", [*DISTRIBUTIONS, DiscreteGaussian(Fraction(2**80))], ids=str
)
@pytest.mark.parametrize("shape", [(), (37,)], ids=str)
def test_each_block_of_bits_is_read_for_one_purpose(
    distribution: NoiseDistribution, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block read by two packings, lanes, attempts or levels would tie their noise together."""
    readers: dict[tuple[int, int], tuple[object, ...]] = {}
    reading: list[tuple[object, ...]] = []
    encrypt = BlockSource._encrypt

    def recorded(self: BlockSource, blocks: int) -> memoryview:
        for block in self._counters[:blocks].tolist():
            assert readers.setdefault(tuple(block), reading[-1]) == reading[-1]
        return encrypt(self, blocks)

    def announced(method: str, describe: Any) -> None:
        original = getattr(BlockSource, method)

        def call(self: BlockSource, *arguments: Any, **named: Any) -> Any:
            reading.append(describe(*arguments, **named))
            return original(self, *arguments, **named)

        monkeypatch.setattr(BlockSource, method, call)

    monkeypatch.setattr(BlockSource, "_encrypt", recorded)
    announced("words_of_tile", lambda address, tile, dtype: ("packed", address, dtype))
    announced("refine", lambda address, rows, columns, lane: ("one sample", address, lane))
    field = NoiseField(SUBKEY, distribution, shape)
    for level in (0, 7):
        field.run(level, range(13, 13 + 4000 // (math.prod(shape))))
    assert len({reader[0] for reader in readers.values()}) == 2

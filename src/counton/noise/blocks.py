"""Counter blocks under AES-256: every random bit has an address.

The noise is a table with one sample for each row and column. In a stream of single numbers the
column is the index of a node (noisy measurement), and the row is 0; in a stream of vectors the row
is the node, and the column the coordinate.

A counter block is 128 bits, little-endian. Its low 64 bits are the column. Its high 64 bits hold,
from the top, the purpose of the bits (8 bits), the level of the node (8), the number of the attempt
in rejection sampling (8), the lane (8) and the row (32). The block of lane 0 is cut into short
samples for several columns. Blocks of higher lanes belong to one sample each, and give it further
random bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import NoiseAddressError

BLOCK_BYTES = 16
LAST_LANE = 255
LAST_ATTEMPT = 255
ROWS_LIMIT = 2**32
COLUMNS_LIMIT = 2**63


#: One unsigned 64-bit word for each of several samples: shape (samples,).
Words = NDArray[np.uint64]


class BlockAddress(NamedTuple):
    """The fields of a noise address that all samples drawn at once share; each is 0 to 255."""

    purpose: int
    level: int
    attempt: int = 0

    def high(self, lane: int) -> int:
        """Return the high 64 bits of a lane's AES counter block, with 0 for the sample's row."""
        fields = (self.purpose, self.level, self.attempt, lane)
        if min(fields) < 0 or max(fields) > 255:
            raise NoiseAddressError(
                f"noise address (purpose, level, attempt, lane) = {fields} is outside 0..255: "
                f"use a strategy with fewer levels"
            )
        return self.purpose << 56 | self.level << 48 | self.attempt << 40 | lane << 32


class Tile(NamedTuple):
    """A rectangle of the table of noise: consecutive rows times consecutive columns."""

    first_row: int
    rows: int
    first_column: int
    columns: int

    def parts(self, most: int) -> Iterator[tuple[Tile, tuple[slice, slice]]]:
        """Yield tiles of at most ``most`` samples, each with its slices of this tile's array."""
        rows_at_once = max(most // self.columns, 1)
        for row in range(0, self.rows, rows_at_once):
            rows = min(rows_at_once, self.rows - row)
            for column in range(0, self.columns, most):
                columns = min(most, self.columns - column)
                tile = Tile(self.first_row + row, rows, self.first_column + column, columns)
                yield tile, (slice(row, row + rows), slice(column, column + columns))

    def places(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Words, Words]:
        """Convert places counted from the tile's corner to places in the whole table."""
        return (
            rows.astype(np.uint64) + np.uint64(self.first_row),
            columns.astype(np.uint64) + np.uint64(self.first_column),
        )


class BlockSource(threading.local):
    """Uniform random bits, computed from their address by AES-256 under one secret subkey.

    Each thread has its own scratch space and AES context: neither may be shared.
    """

    def __init__(self, subkey: bytes) -> None:
        self._subkey = subkey
        self._encryptor: Any = None
        self._counters: NDArray[np.uint64] = np.empty((0, 2), np.dtype("<u8"))
        self._plain = self._cipher = memoryview(b"")

    def _reserve(self, blocks: int) -> NDArray[np.uint64]:
        """Return scratch space for the counters of ``blocks`` blocks, shape (blocks, 2)."""
        if len(self._counters) < blocks:
            self._counters = np.empty((blocks, 2), np.dtype("<u8"))
            self._plain = self._counters.data.cast("B")
            self._cipher = memoryview(bytearray(blocks * BLOCK_BYTES + BLOCK_BYTES - 1))
        return self._counters[:blocks]

    def _encrypt(self, blocks: int) -> memoryview:
        if self._encryptor is None:  # a run without new rows draws nothing
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

            self._encryptor = Cipher(algorithms.AES(self._subkey), modes.ECB()).encryptor()
        size = blocks * BLOCK_BYTES
        self._encryptor.update_into(self._plain[:size], self._cipher)
        return self._cipher[:size]

    def words_of_tile(self, address: BlockAddress, tile: Tile, dtype: str) -> NDArray[Any]:
        """Return a uniform random word for each sample of a tile: shape ``(rows, columns)``.

        It is scratch space: the next call in this thread overwrites it.
        """
        per_block = BLOCK_BYTES // np.dtype(dtype).itemsize
        first = tile.first_column // per_block
        last = (tile.first_column + tile.columns - 1) // per_block + 1
        width = last - first
        blocks = tile.rows * width
        counters = self._reserve(blocks).reshape(tile.rows, width, 2)
        counters[:, :, 0] = np.arange(first, last, dtype=np.uint64)
        high = address.high(lane=0) | tile.first_row
        counters[:, :, 1] = np.arange(high, high + tile.rows, dtype=np.uint64)[:, None]
        words = np.frombuffer(self._encrypt(blocks), dtype).reshape(tile.rows, width * per_block)
        skip = tile.first_column - first * per_block
        return words[:, skip : skip + tile.columns]

    def refine(self, address: BlockAddress, rows: Words, columns: Words, lane: int) -> Words:
        """Return 128 further random bits for each sample: uint64, shape ``(len(rows), 2)``."""
        blocks = len(rows)
        counters = self._reserve(blocks)
        counters[:, 0] = columns
        np.bitwise_or(rows, np.uint64(address.high(lane)), out=counters[:, 1])
        return np.frombuffer(self._encrypt(blocks), "<u8").astype(np.uint64).reshape(blocks, 2)

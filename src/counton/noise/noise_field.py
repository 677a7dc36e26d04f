"""An endless table of independent noise: one exact draw per (level, node, coordinate)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import NoiseDistribution
from counton.base.errors import NoiseAddressError
from counton.noise.blocks import COLUMNS_LIMIT, ROWS_LIMIT, BlockSource, Tile
from counton.noise.encryption import NoiseCipher
from counton.noise.samplers import SAMPLES_PER_SPAN, TileSampler, sampler_for


class NoiseField:
    """Noise as a function of a subkey and an address (level, node, coordinate); no draw is stored.

    The same address always gives the same integer.

    Args:
        subkey: 32 secret bytes from `counton.noise.Key.derive`.
        distribution: distribution of every node, or a function from a level to it.
        shape: shape of one node's noise; ``()`` for scalars.

    >>> from fractions import Fraction
    >>> from counton.base.distributions import DiscreteLaplace
    >>> field = NoiseField(bytes(32), DiscreteLaplace(Fraction(3)))
    >>> field.run(0, range(4)).shape
    (4,)
    >>> bool((field.run(0, range(2, 4)) == field.run(0, range(4))[2:]).all())
    True
    """

    def __init__(
        self,
        subkey: bytes,
        distribution: NoiseDistribution | Callable[[int], NoiseDistribution],
        shape: tuple[int, ...] = (),
    ) -> None:
        self._source = BlockSource(subkey)
        #: Encrypts noise of this field that is stored before it is released.
        self.cipher = NoiseCipher(subkey)
        self._distribution = distribution
        self.shape = shape
        self._size = math.prod(shape)
        self._first = 0
        self._samplers: dict[int, TileSampler] = {}

    def part(self, first: int, cells: int) -> NoiseField:
        """Return a field with ``cells`` consecutive coordinates of each node's flattened noise.

        Its draws are the same as in this field.

        Args:
            first: index of the first coordinate, from 0.
            cells: number of coordinates, from 1.

        Raises:
            NoiseAddressError: ``shape`` is ``()``, or some coordinates do not exist.

        >>> from fractions import Fraction
        >>> from counton.base.distributions import DiscreteLaplace
        >>> field = NoiseField(bytes(32), DiscreteLaplace(Fraction(3)), shape=(5,))
        >>> bool((field.part(3, 2).run(0, range(4)) == field.run(0, range(4))[:, 3:]).all())
        True
        """
        if not self.shape or not 0 <= first < first + cells <= self._size:
            raise NoiseAddressError(
                f"coordinates {first} to {first + cells - 1} are not all within a node of shape "
                f"{self.shape}: give smaller numbers"
            )
        part = NoiseField.__new__(NoiseField)
        part._source = self._source
        part._distribution = self._distribution
        part._samplers = self._samplers
        part.cipher = self.cipher
        part.shape = (cells,)
        part._size = cells
        part._first = self._first + first
        return part

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Return the noise of consecutive nodes of one level: int64, ``(len(nodes), *shape)``.

        Args:
            level: level of the nodes, from 0 to 255.
            nodes: consecutive indices of nodes, from 0.

        Raises:
            NoiseAddressError: nodes outside ``0..2^63`` (if ``shape`` is ``()``) or ``0..2^32``.
        """
        limit = ROWS_LIMIT if self.shape else COLUMNS_LIMIT
        if nodes.step != 1 or nodes.start < 0 or nodes.stop > limit:
            raise NoiseAddressError(
                f"nodes {nodes} of level {level} must be consecutive numbers from 0 to {limit}: "
                "use a strategy with fewer steps"
            )
        count = len(nodes)
        out = np.empty((count, *self.shape), np.int64)
        if not out.size:
            return out
        sampler = self._samplers.get(level)
        if sampler is None:
            distribution = (
                self._distribution(level) if callable(self._distribution) else self._distribution
            )
            sampler = self._samplers[level] = sampler_for(distribution)
        tile = Tile(0, 1, nodes.start, count)
        rows = out.reshape(1, -1)
        if self.shape:
            tile = Tile(nodes.start, count, self._first, self._size)
            rows = out.reshape(count, -1)
        for part, place in tile.parts(SAMPLES_PER_SPAN):
            window = rows[place]
            if window.flags.c_contiguous:
                sampler.fill(self._source, level, part, window)
            else:
                scratch = np.empty(window.shape, np.int64)
                sampler.fill(self._source, level, part, scratch)
                window[...] = scratch
        return out

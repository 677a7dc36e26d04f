"""The noise of a stream's next steps, computed together, and kept in memory and beside its state.

With many strategies the noise of a late step sums draws of all earlier steps: computing it costs as
much as computing many steps together. A `NoiseStore` holds that noise for later processes. It is
encrypted, because it decides later releases: a copy of the store without the key tells nothing of
it. Releases do not depend on the store: noise that cannot be decrypted is computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from counton.base.arrays import Integers, from_fixed_width, to_fixed_width
from counton.noise import NoiseField
from counton.strategies import StreamStrategy
from counton.strategies.strategy import Reader, last_served_step

#: Number of steps whose noise is computed together at first.
_FIRST_STEPS_AHEAD = 2**6
#: For this many earlier steps, at least one is computed ahead, if a step uses draws of all of them.
_STEPS_PER_STEP_AHEAD = 8
#: Largest number of numbers (steps times cells) computed ahead, if a step uses no earlier draws.
_MOST_NUMBERS_AHEAD_IF_LOCAL = 2**16
#: The same (128 MB), if a step's noise uses draws of all earlier steps.
_MOST_NUMBERS_AHEAD = 2**24
#: Largest number of cells of a step that are computed together.
_CELLS_AT_ONCE = 2**20
#: Number of draws at a time, for steps whose noise uses draws of all earlier steps.
_DRAWS_AT_ONCE = 2**22
#: Number of steps that are stored together, if so many numbers fit.
_STEPS_PER_STORED_ROW = 2**9
#: Largest number of numbers in a stored row of several steps.
_MOST_NUMBERS_IN_STORED_ROW = 2**16
#: Smallest number of draws from which noise is worth storing.
_FEWEST_DRAWS_TO_STORE = 2**10
#: Noise is stored in as many bytes as hold this many standard deviations. Noise beyond has a
#: probability below 2^-91, because the distribution of each number is log-concave.
_STORED_STDS = 2**6


class EncryptedNoise(NamedTuple):
    """Stored noise of consecutive steps and cells.

    Attributes:
        step, steps: the first step, and their number.
        cell, cells: the first cell of a flattened step, and their number.
        noise: the numbers, encrypted by `counton.noise.encryption.NoiseCipher`. Its length depends
            on the public design alone.
    """

    step: int
    steps: int
    cell: int
    cells: int
    noise: bytes

    @property
    def address(self) -> bytes:
        """The public place of the noise, as bytes."""
        return f"{self.step} {self.steps} {self.cell} {self.cells}".encode()


class NoiseStore(Protocol):
    """A store of noise for later processes. If it loses or alters noise, releases do not change."""

    def find(self, step: int, cell: int) -> EncryptedNoise | None:
        """Return stored noise that includes this step, from ``cell`` on; None if there is none."""
        ...

    def replace(self, cell: int, rows: Sequence[EncryptedNoise]) -> None:
        """Store noise for the cells from ``cell`` on, in place of all older noise of them."""
        ...


class NoiseCache:
    """The noise of a stream's steps, computed and cached for some steps ahead.

    It is B z, the strategy's matrix times the noise of nodes: a function of key, step and cell, so
    caching changes no value.
    """

    def __init__(self, strategy: StreamStrategy, field: NoiseField) -> None:
        self._strategy = strategy
        self.field = field
        self._reader = strategy.step_reader(field)
        self._versions = strategy.facts.versions
        #: Shape of one step's noise.
        self._shape = field.shape if self._versions == 1 else (*field.shape, self._versions)
        self._size = math.prod(self._shape)
        self._ahead = _FIRST_STEPS_AHEAD
        self.window = range(0)
        self._noise: Integers = np.empty((0, *self._shape), np.int64)
        # The last part of a large batch is held until the next one exists. Otherwise the memory
        # goes back to the system, and getting it again takes as long as the noise.
        self._before = self._noise
        self._alone = type(self._reader) is Reader
        self.store: NoiseStore | None = None
        self._largest_std: Callable[[range], float] | None = None

    @property
    def by_cells(self) -> bool:
        """Whether the noise of a step is computed for some cells at a time, which saves memory."""
        # If a late step costs as much as many steps and nothing is stored, a window of whole steps
        # is computed instead, as long as memory allows.
        if self._versions > 1:
            return False
        apart = self._alone and (self._strategy.facts.local or self.store is not None)
        return self._size > (_CELLS_AT_ONCE if apart else _MOST_NUMBERS_AHEAD)

    def cells_of(self, step: int) -> Iterator[tuple[slice, Integers]]:
        """Yield the noise of one step as pairs (cells, noise); it is not cached."""
        kept = min(_STEPS_PER_STORED_ROW, max(_MOST_NUMBERS_AHEAD // _CELLS_AT_ONCE, 1))
        for first in range(0, self._size, _CELLS_AT_ONCE):
            cells = slice(first, min(first + _CELLS_AT_ONCE, self._size))
            noise = self._find(range(step, step + 1), cells)
            if noise is None:
                window = self._up_to_horizon(step, 1 if self.store is None else kept)
                noise = self._compute(window, cells)
            yield cells, noise[0]

    def parts(self, steps: range) -> Iterator[Integers]:
        """Yield the noise of ``steps`` for some at a time, in arrays that are reused."""
        if (
            len(steps) > 1
            and len(steps) * self._size > _MOST_NUMBERS_AHEAD_IF_LOCAL
            and self._reader.local
        ):
            for part in self._reader.parts(steps):
                self._before = part  # a large batch, not worth keeping
                yield part
            return
        if not steps:
            return
        if not (self.window.start <= steps.start and steps.stop <= self.window.stop):
            self.window = range(0)  # an interruption must not leave a window with other noise
            self._noise = self._before  # otherwise two windows are in memory
            noise = self._look_ahead(steps)
            self._noise = noise.reshape(len(noise), *self._shape)
            self.window = range(steps.start, steps.start + len(noise))
        first = steps.start - self.window.start
        yield self._noise[first : first + len(steps)]

    def _look_ahead(self, steps: range) -> Integers:
        """Return the noise of ``steps`` and some later ones: shape ``(steps, cells)``."""
        cells = slice(0, self._size)
        cached = self._find(steps, cells)
        if cached is not None:
            return cached
        if self.store is not None or not self._reader.local:
            # The window costs as much as all before it: make it as long as memory allows. It ends
            # at a power of two, because Fourier transforms have such lengths.
            least = _FIRST_STEPS_AHEAD if self.store is None else _STEPS_PER_STORED_ROW
            first_too_near = steps.start + steps.start // _STEPS_PER_STEP_AHEAD
            more = (1 << first_too_near.bit_length()) + 1 - steps.start
            more = min(max(more, least), max(_MOST_NUMBERS_AHEAD // self._size, 1))
        else:
            self._ahead = min(2 * self._ahead, max(_MOST_NUMBERS_AHEAD_IF_LOCAL // self._size, 1))
            more = self._ahead
        return self._compute(self._up_to_horizon(steps.start, max(len(steps), more)), cells)

    def _up_to_horizon(self, start: int, steps: int) -> range:
        longest = last_served_step(self._strategy)
        stop = start + steps
        return range(start, stop if longest is None else max(min(stop, longest + 1), start + 1))

    def _compute(self, window: range, cells: slice) -> Integers:
        """Compute the noise of a window and of consecutive cells: ``(len(window), cells)``; store
        it.
        """
        count = cells.stop - cells.start
        local = self._strategy.facts.local
        if not self.field.shape or (count == self._size and (local or not self._alone)):
            noise = self._reader.noise(window).reshape(len(window), count)
        else:
            noise = np.empty((len(window), count), np.int64)
            width = count if local else max(1, _DRAWS_AT_ONCE // window.stop)
            for start in range(0, count, width):
                some = min(width, count - start)
                part = self.field.part(cells.start + start, some)
                noise[:, start : start + some] = self._strategy.noise(part, window)
        if self.store is not None:
            self.store.replace(cells.start, self._encrypted(window, cells, noise))
        return noise

    # -------------------------------------------------------------------- between processes

    def _encrypted(self, window: range, cells: slice, noise: Integers) -> list[EncryptedNoise]:
        """Encrypt the noise of a window and of consecutive cells, some steps in a row.

        The number of bytes of an integer follows from the public design, and not from the noise:
        compressed noise would show by its length how large it is.
        """
        count = cells.stop - cells.start
        size = max(1, _MOST_NUMBERS_IN_STORED_ROW // count)
        assert self._largest_std is not None
        rows = []
        for start in range(0, len(window), size):
            kept = noise[start : start + size]
            largest_std = self._largest_std(window[start : start + size])
            largest = math.ceil(_STORED_STDS * largest_std)
            width = min(8, (largest.bit_length() + 8) // 8)
            message = to_fixed_width(kept, width)
            if message is None:  # it is computed anew
                continue
            place = EncryptedNoise(window[start], len(kept), cells.start, count, b"")
            encrypted = self.field.cipher.encrypt(message, place.address)
            rows.append(place._replace(noise=encrypted))
        return rows

    def keep(self, step: int, store: NoiseStore, largest_std: Callable[[range], float]) -> None:
        """Use a store if noise of ``step`` and later ones in it saves later processes much work.

        Args:
            step: the next step.
            store: the store.
            largest_std: function that returns the largest standard deviation of the noise of some
                steps, in units of the noise's integers.
        """
        # They do not gain if a step costs no more than its own draws.
        nodes = max(
            self._up_to_horizon(step, _STEPS_PER_STORED_ROW).stop, self._strategy.facts.drawn_ahead
        )
        costly = not (self._alone and self._strategy.facts.local)
        if costly and nodes * self._size >= _FEWEST_DRAWS_TO_STORE:
            self.store = store
            self._largest_std = largest_std

    def _find(self, steps: range, cells: slice) -> Integers | None:
        """Return the stored noise of these and later steps; None if one is missing or altered."""
        parts = list[Integers]()
        step = steps.start
        while step < steps.stop:
            row = None if self.store is None else self.store.find(step, cells.start)
            noise = None if row is None else self._decrypted(row, step, cells)
            if row is None or noise is None:
                return None
            parts.append(noise[step - row.step :])
            step = row.step + row.steps
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _decrypted(self, row: EncryptedNoise, step: int, cells: slice) -> Integers | None:
        """Return the noise in a stored row, shape ``(steps, cells)``; None if the row was altered,
        or is not of this stream, ``step`` or ``cells``.
        """
        if (row.cell, row.cell + row.cells) != (cells.start, cells.stop):
            return None
        if not row.step <= step < row.step + row.steps:
            return None
        message = self.field.cipher.decrypt(row.noise, row.address)
        if message is None:
            return None
        return from_fixed_width(message, (row.steps, row.cells))

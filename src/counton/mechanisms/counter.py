"""The counter: private running totals of a stream, one step after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import HorizonExceeded, InvalidInput, SumOverflow, WrongKey
from counton.mechanisms import checkpoint as saved_states
from counton.mechanisms.calibration import law_for, promised
from counton.mechanisms.lookahead import Lookahead
from counton.mechanisms.specification import Specification
from counton.noise import Key
from counton.privacy import Contribution, Guarantee
from counton.strategies import Strategy

#: Exact totals: integers, or numbers on the grid of a clipped contribution.
Totals = ArrayLike | Fraction | Decimal
#: Sums (in units of the released grid) stay below this; the rest of int64 is room for noise.
LARGEST_SUM = 2**61
#: Steps handled at once inside a batch, all coordinates together: stays in the cache.
_CHUNK = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One released step.

    Attributes:
        step: number of the step, from 1.
        value: private running total, in data units: a number, or an array of the stream's shape.
            Integers for tree strategies on counts, else float64.
        std: standard deviation of its noise, in data units, the same for every coordinate.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), stream="visits")
    >>> counter.release(3)
    Release(step=1, value=..., std=7.05...)
    """

    step: int
    value: Any
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class Releases:
    """Consecutive released steps.

    Attributes:
        steps: their numbers.
        values: private running totals in data units, shape ``(len(steps), *shape)``.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), stream="visits")
    >>> releases = counter.release_many([3, 0, 5])
    >>> len(releases), releases.values.dtype, releases.std.round(2).tolist()
    (3, dtype('int64'), [7.06, 7.06, 9.98])
    """

    steps: range
    values: NDArray[Any]
    _counter: Counter

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each step's noise in data units, shape ``(len(steps),)``."""
        return self._counter.std(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


class Counter:
    """Private running totals, released at every step, under one guarantee for the whole stream.

    Args:
        strategy: how the noise is correlated over time, e.g. ``KAry.best(horizon)``.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``; holds for all releases together.
        key: the secret from which the noise is computed; see :class:`counton.Key`.
        stream: name of the stream. One key may serve several streams of different names.
        contribution: what one protected unit can change; default: one count in one cell, present
            or absent.
        shape: shape of one step's input; ``()`` for scalars, ``(16,)`` for a histogram of 16 cells.

    Raises:
        InvalidInput: an argument is out of range, or the strategy cannot give the guarantee.

    Privacy: releases equal ``A x + round(B z)``, a function of the measurements ``C x + z`` alone
    (Andersson and Pagh; Andersson et al.; the shift argument holds for adaptive streams too).

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import KAry
    >>> counter = Counter(KAry.best(1000), PureDP(epsilon=1), key=Key.generate(), stream="visits")
    >>> release = counter.release(3)
    >>> release.step, round(release.std, 1)
    (1, 4.2)
    >>> counter.release_many([0, 1, 5]).steps
    range(2, 5)
    """

    def __init__(
        self,
        strategy: Strategy,
        guarantee: Guarantee,
        *,
        key: Key,
        stream: str,
        contribution: Contribution | None = None,
        shape: tuple[int, ...] = (),
    ) -> None:
        contribution = Contribution.add_remove() if contribution is None else contribution
        shape = _checked_shape(shape)
        guarantee = promised(strategy, guarantee)
        law = law_for(strategy, guarantee, contribution, shape).law
        self._begin(Specification(stream, strategy, guarantee, contribution, shape, law), key)

    def _begin(self, specification: Specification, key: Key) -> None:
        if not isinstance(key, Key):
            raise InvalidInput(
                f"key is of type {type(key).__name__}; it must be a counton.Key: use "
                f"Key.generate() for a new stream or Key.load(path)"
            )
        self.specification = specification
        self.key_fingerprint = key.fingerprint
        self._lookahead = Lookahead(specification.strategy, specification.noise_field(key))
        self._std_window, self._stds = range(0), np.empty(0)
        self._step = 0
        self._sums = np.zeros(specification.shape, np.int64)
        self._waiting = np.zeros((specification.strategy.delay, *specification.shape), np.int64)
        room = LARGEST_SUM >> specification.strategy.fraction_bits
        self._largest_sum = room

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that identifies the stream, as JSON values; no secrets."""
        return self.specification.to_dict()

    @property
    def step(self) -> int:
        """Number of the last released step; 0 before the first."""
        return self._step

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one step's input."""
        return self.specification.shape

    def release(self, x: Totals) -> Release:
        """Release one step.

        Args:
            x: the step's exact total (not the running one), shape ``self.shape``: integers, or
                data units on the grid of a clipped contribution.

        Raises:
            InvalidInput: NaN, infinite, negative count, float without resolution, wrong shape.
            HorizonExceeded: the strategy serves no more steps.
            SumOverflow: the running total would leave the exact range.
        """
        batch: Any = x[None] if isinstance(x, np.ndarray) else [x]
        values = self._advance(self._checked(batch, one=True))[0]
        value = values if self.shape else values.item()
        return Release(self._step, value, self._std_at(self._step))

    def release_many(self, xs: Totals) -> Releases:
        """Release consecutive steps: the same values as one by one, much faster.

        Args:
            xs: exact totals of the steps, shape ``(n, *self.shape)``.

        Raises:
            InvalidInput, HorizonExceeded, SumOverflow: as :meth:`release`; nothing is released.
        """
        first = self._step + 1
        values = self._advance(self._checked(xs, one=False))
        return Releases(range(first, self._step + 1), values, self)

    def _std_at(self, step: int) -> float:
        """One step's standard deviation; those of the steps ahead are computed with it."""
        window = self._lookahead.window
        if self._std_window != window:
            self._std_window, self._stds = window, self.std(window)
        return float(self._stds[step - window.start])

    def std(self, steps: range) -> NDArray[np.float64]:
        """Standard deviation of the noise at ``steps`` in data units, ``(len(steps),)``."""
        spec = self.specification
        variance = spec.strategy.noise_variance(spec.law, steps)
        deviation: NDArray[np.float64] = np.sqrt(variance) * float(spec.resolution)
        return deviation

    def _checked(self, xs: Totals, *, one: bool) -> NDArray[np.int64]:
        """Inputs as exact grid integers, shape (n, *shape), or an error and no change."""
        spec = self.specification
        totals = spec.contribution.grid_total(xs)  # type: ignore[arg-type]
        if totals.ndim == 0 or totals.shape[1:] != spec.shape:
            got = totals.shape[1:] if one else totals.shape
            expected = spec.shape if one else ("n", *spec.shape)
            raise InvalidInput(
                f"input has shape {got}; this stream takes {expected}: "
                f"pass one total for each declared cell"
            )
        horizon = spec.strategy.horizon
        if horizon is not None and self._step + len(totals) > horizon:
            raise HorizonExceeded(
                f"step {self._step + len(totals):,} is beyond the horizon of {horizon:,} steps "
                f"({horizon - self._step:,} are left): start a new stream with a larger horizon"
            )
        smallest, largest = (totals.min(), totals.max()) if totals.size else (0, 0)
        if spec.contribution.resolution is None and smallest < 0:
            place = tuple(int(i) for i in np.argwhere(totals < 0)[0])
            raise InvalidInput(
                f"input {int(totals[place])} at step {self._step + 1 + place[0]} is a negative "
                f"count: counts are 0 or more; for signed sums declare "
                f"Contribution.clipped(lower, upper, resolution)"
            )
        self._refuse_overflow(totals, max(abs(int(smallest)), abs(int(largest))))
        return totals

    def _advance(self, totals: NDArray[np.int64]) -> NDArray[Any]:
        """Release checked inputs. State changes last, after everything that can fail."""
        spec = self.specification
        count = len(totals)
        if spec.strategy.delay:
            queue = np.concatenate([self._waiting, totals])
            totals, waiting = queue[:count], queue[count:]
        else:
            waiting = self._waiting
        size = math.prod(spec.shape)
        chunk = max(_CHUNK // size, 1) if spec.strategy.local else count
        values = np.empty(totals.shape, np.int64)
        sums = self._sums
        for start in range(0, count, max(chunk, 1)):
            part = totals[start : start + chunk]
            steps = range(self._step + 1 + start, self._step + 1 + start + len(part))
            noise = self._lookahead.noise(steps)
            prefix = np.cumsum(part, axis=0)
            prefix += sums
            sums = prefix[-1].copy()
            if spec.strategy.fraction_bits:
                prefix <<= spec.strategy.fraction_bits
            np.add(prefix, noise, out=values[start : start + chunk])
        self._step, self._sums, self._waiting = self._step + count, sums, waiting
        return spec.to_data(values)

    def _refuse_overflow(self, totals: NDArray[np.int64], largest: int) -> None:
        """Raise if any running sum, also in the middle of the batch, leaves the exact range.

        With a delay this looks ``delay`` steps ahead, at sums that are not released yet.
        """
        waiting = sum(int(np.abs(row).max(initial=0)) for row in self._waiting)
        reached = int(np.abs(self._sums).max(initial=0)) + waiting + largest * len(totals)
        if reached <= self._largest_sum:
            return
        # cumulative sums in two halves of 32 bits cannot wrap; floats then compare safely
        high = np.cumsum(totals >> 32, axis=0).astype(float) * 2.0**32
        low = np.cumsum(totals & 0xFFFFFFFF, axis=0).astype(float)
        running = np.abs(high + low + self._sums + self._waiting.sum(axis=0))
        wrong = running > self._largest_sum * (1 - 1e-9)
        if wrong.any():
            place = int(np.argwhere(wrong)[0][0])
            raise SumOverflow(
                f"running total {running[wrong][0]:.6g} at step {self._step + 1 + place} is beyond "
                f"{self._largest_sum:,} grid cells, up to which sums are exact: coarsen the "
                f"resolution or split the stream"
            )

    def checkpoint(self) -> bytes:
        """State from which :meth:`resume` continues. Holds exact sums: keep it as secret as data.

        The key is not part of it, only its fingerprint.
        """
        return saved_states.write(
            self.spec, self.key_fingerprint, self._step, self._sums, self._waiting
        )

    @classmethod
    def resume(cls, saved: bytes, *, key: Key, strategy: Strategy | None = None) -> Counter:
        """Continue where :meth:`checkpoint` stood: the same values as if never stopped.

        Args:
            saved: bytes from :meth:`checkpoint`.
            key: the stream's key.
            strategy: needed only for strategies which are not part of counton.

        Raises:
            StateError: truncated, altered or written by another format version.
            WrongKey: the key is not the one the stream was started with.
        """
        state = saved_states.read(saved)
        specification = Specification.from_dict(state.spec, strategy)
        counter = cls.at(
            specification, key=key, step=state.step, sums=state.sums, waiting=state.waiting
        )
        if counter.key_fingerprint != state.key_fingerprint:
            raise WrongKey(
                f"key {counter.key_fingerprint} is not the key {state.key_fingerprint} of stream "
                f"{specification.stream!r}: load the key that was saved with it"
            )
        return counter

    @classmethod
    def at(
        cls,
        specification: Specification,
        *,
        key: Key,
        step: int,
        sums: NDArray[np.int64],
        waiting: NDArray[np.int64],
    ) -> Counter:
        """A counter which has already released ``step`` steps with the given exact sums."""
        counter = cls.__new__(cls)
        counter._begin(specification, key)
        counter._step = step
        counter._sums = sums.reshape(specification.shape)
        counter._waiting = waiting.reshape(specification.strategy.delay, *specification.shape)
        return counter

    def describe(self) -> str:
        """In words: unit, neighbouring relation, guarantee, strategy and standard deviation."""
        spec = self.specification
        last = spec.strategy.horizon or max(self._step, 1)
        deviation = float(self.std(range(last, last + 1))[0])
        return (
            f"Protected: {spec.contribution}. "
            f"Guarantee: {spec.guarantee}, for all releases of the stream together. "
            f"Strategy: {spec.strategy!r}. "
            f"Noise: standard deviation {deviation:,.4g} at step {last:,}."
        )

    def __repr__(self) -> str:
        spec = self.specification
        return (
            f"Counter(stream={spec.stream!r}, strategy={spec.strategy!r}, "
            f"guarantee={spec.guarantee!r}, shape={spec.shape}, step={self._step})"
        )


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if (
        not isinstance(shape, tuple)
        or any(type(n) is not int or n < 1 for n in shape)
        or math.prod(shape) >= 2**32
    ):
        raise InvalidInput(
            f"shape is {shape!r}; it must be a tuple of positive integers with fewer than 2^32 "
            f"cells, such as () or (16,)"
        )
    return shape

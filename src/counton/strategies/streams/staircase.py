"""Division of a stream of noise by a power series, step by step, at a fixed cost for each step.

The coefficients c_k of the square root of running sums, rounded to multiples of 2^-bits, fall from
1 in at most 2^bits steps, like a staircase. So the series (1 - x) c is 1, then -e_k: rarely
non-zero at large k, and of a sum below 1. Hence s = z / ((1 - x) c) satisfies

    s_t = z_t + sum over k >= 1 of e_k s_(t - k).

For small k the sum is computed by a small matrix, and for large k by one term for each non-zero
e_k. Numbers are integers in units of 2^-point, in two halves of 52 - bits bits each, so that
products by matrices are exact in float64, in any order. Each s_t misses that equation by at most 4
units. The resulting error is at most 4 times the sum of the coefficients of 1 / ((1 - x) c), which
are positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.errors import SumOverflowError

#: Noise and quotients must be below 2 to this power in magnitude.
_ROOM_BITS = 50
#: Number of steps computed at once, and number of coefficients that are applied by matrices.
_STEPS_PER_BLOCK = 128
_NEAR_COEFFICIENTS = 1024


class Staircase:
    """The series (1 - x) c and its inverse, for c that falls from 1 by multiples of 2^-bits.

    Args:
        numerators: coefficients of c in units of 2^-bits, none larger than the one before.
        bits: fraction bits of the coefficients, at most 16.
    """

    def __init__(self, numerators: Integers, bits: int) -> None:
        if bits > 16 or numerators[0] != 1 << bits or (np.diff(numerators) > 0).any():
            raise ValueError(
                f"coefficients begin with {numerators[0]} and have {bits} fraction bits; they must "
                "begin with 2^bits and never increase: give such coefficients, of at most 16 bits"
            )
        self.bits = bits
        self.half = 52 - bits
        self.point = 2 * self.half - _ROOM_BITS - 1
        falls = -np.diff(numerators)
        near = np.zeros(_NEAR_COEFFICIENTS + 1)
        near[1 : len(falls) + 1] = falls[:_NEAR_COEFFICIENTS]
        self.lags = np.flatnonzero(falls[_NEAR_COEFFICIENTS:]) + _NEAR_COEFFICIENTS + 1
        self.falls = falls[self.lags - 1].astype(np.float64)
        # Entry i, j: the coefficient with which the j-th of the near steps before a block enters
        # step i of the block.
        lag = (
            np.arange(_STEPS_PER_BLOCK)[:, None]
            + _NEAR_COEFFICIENTS
            - np.arange(_NEAR_COEFFICIENTS)
        )
        self.before = np.where(
            lag <= _NEAR_COEFFICIENTS, near[np.minimum(lag, _NEAR_COEFFICIENTS)], 0.0
        )
        lag = np.arange(_STEPS_PER_BLOCK)[:, None] - np.arange(_STEPS_PER_BLOCK)
        self.within = np.where(lag > 0, near[np.maximum(lag, 0)], 0.0)
        self.inverse = np.linalg.inv(np.eye(_STEPS_PER_BLOCK) - self.within / 2.0**bits)
        self._stride = max(1, len(numerators) // 4096)
        self._sums = np.cumsum(numerators[:: self._stride].astype(np.float64))

    def error(self, steps: int) -> float:
        """Return a bound on the error of s = z / ((1 - x) c) in the first steps, in units of z."""
        # With b = 1 / ((1 - x) c) and r = 1 - 1/n, the sum of b_0 .. b_(n-1) is at most r^-n b(r) =
        # r^-n / ((1 - r) c(r)), and c(r) is at least r^n times the sum of c_0 .. c_(n-1).
        index = min((steps - 1) // self._stride, len(self._sums) - 1)
        # A lower bound of that sum: all coefficients between two multiples of the stride are
        # counted as the second one.
        least = self._stride * float(self._sums[index] - self._sums[0]) + 2.0**self.bits
        ratio = (1 - 1 / max(steps, 2)) ** (-2 * max(steps, 2))
        units = min(4.0 * steps, 4.04 * ratio * steps * 2.0**self.bits / least)
        return units * 2.0**-self.point


class Dividing:
    """A division of noise z by a power series, s = z / ((1 - x) c), continued step by step.

    If c is the first column of a Toeplitz matrix, s is the noise of running totals. Each of
    ``cells`` coordinates is divided by the same series, ``stairs``.
    """

    def __init__(self, stairs: Staircase, cells: int) -> None:
        self._stairs = stairs
        self._cells = cells
        self.steps = 0
        self._halves = np.empty((_NEAR_COEFFICIENTS, 2, cells))

    def next(self, z: NDArray[np.int64]) -> Floats:
        """Return s for the noise z of the next steps, (steps, cells).

        `Staircase.error` bounds its error.

        Raises:
            SumOverflowError: z or s of 2^50 or more.
        """
        stairs = self._stairs
        cells = self._cells
        parts = [np.empty((0, self._cells))]
        # So few steps are taken at a time that all terms with larger lags are known before them.
        for some in (
            z[first : first + _NEAR_COEFFICIENTS] for first in range(0, len(z), _NEAR_COEFFICIENTS)
        ):
            if np.abs(some).max(initial=0) >= 2**_ROOM_BITS:
                raise _too_wide()
            start = self.steps
            stop = self.steps + len(some)
            if stop > len(self._halves):
                grown = np.empty((2 * len(self._halves), 2, cells))
                grown[:start] = self._halves[:start]
                self._halves = grown
            far = np.zeros((len(some), 2, cells))
            there = int(np.searchsorted(stairs.lags, stop))
            pairs = zip(stairs.lags[:there].tolist(), stairs.falls[:there].tolist(), strict=True)
            for lag, fall in pairs:
                first = max(lag - start, 0)
                seen = self._halves[start + first - lag : stop - lag]
                far[first:] += seen if fall == 1.0 else fall * seen
            for begin in range(0, len(some), _STEPS_PER_BLOCK):
                self._solve(
                    some[begin : begin + _STEPS_PER_BLOCK], far[begin : begin + _STEPS_PER_BLOCK]
                )
            halves = self._halves[start:stop]
            s = (halves[:, 0] * 2.0**stairs.half + halves[:, 1]) * 2.0**-stairs.point
            if np.abs(s).max(initial=0.0) >= 2.0**_ROOM_BITS:
                raise _too_wide()
            parts.append(s)
        return np.concatenate(parts)

    def _solve(self, z: NDArray[np.int64], far: Floats) -> None:
        """Compute and store s_t = z_t + sum over k >= 1 of e_k s_(t - k) for the next steps.

        ``far`` is the part with k above 1024, in high and low halves: shape (steps, 2, cells).
        """
        # The equations are solved in float64, and then once more for what is missing.
        stairs = self._stairs
        start = self.steps
        count = len(z)
        cells = self._cells
        seen = min(start, _NEAR_COEFFICIENTS)
        past = self._halves[start - seen : start].reshape(seen, 2 * cells)
        sums = far + (stairs.before[:count, _NEAR_COEFFICIENTS - seen :] @ past).reshape(
            count, 2, cells
        )
        targets = self._sum_halves(sums)
        half = 2.0**stairs.half
        above = stairs.half - stairs.point
        targets[:, 0] += z >> above
        targets[:, 1] += (z & (1 << above) - 1) << stairs.point
        near = stairs.inverse[:count, :count]
        first = near @ (targets[:, 0] * half + targets[:, 1])
        solution = np.empty((count, 2, cells))
        solution[:, 0] = np.floor(first / half)
        solution[:, 1] = np.rint(first - solution[:, 0] * half)
        within = stairs.within[:count, :count] @ solution.reshape(count, 2 * cells)
        missing = targets + self._sum_halves(within.reshape(count, 2, cells)) - solution
        solution[:, 1] += np.rint(near @ (missing[:, 0] * half + missing[:, 1]))
        carried = np.floor(solution[:, 1] / half)
        solution[:, 0] += carried
        solution[:, 1] -= carried * half
        self._halves[start : start + count] = solution
        self.steps += count

    def _sum_halves(self, sums: Floats) -> Floats:
        """Divide numbers by 2^bits, rounded down, in halves: shape (steps, 2, cells)."""
        unit = 2.0**-self._stairs.bits
        whole = np.floor(sums[:, 0] * unit)
        rest = (sums[:, 0] - whole / unit) * (2.0**self._stairs.half * unit)
        return np.stack([whole, rest + np.floor(sums[:, 1] * unit)], axis=1)


def _too_wide() -> SumOverflowError:
    return SumOverflowError(
        f"the noise of GrowingSquareRoot, or a sum of it, is 2^{_ROOM_BITS} or more, too large for "
        "its exact sums: give a larger epsilon, rho or resolution"
    )

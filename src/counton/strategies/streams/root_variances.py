"""Variances of all releases of square roots whose columns have weights.

Let a be the coefficients of sqrt(1 - x), and d the norms of the columns. The variances are the
squared norms of the rows of A D C^-1. The variance at t grows by d_t^2 times the sum over j <= t of
a_j^2, and by 2 d_t times the cross term: the sum over i < t of d_i G(i, t - i), where G(i, l) is
the sum over j <= i of a_j a_(j + l). From 2 on, a_j is the sum of w p^(j - 1) over pairs (p, w). So
G(i, l) is the sum over these pairs of w S(i) p^(l - 1), where S(i) is the sum over j <= i of
a_j p^j.

`block_variances` divides the steps into blocks. Earlier blocks enter the cross term through one
number for each pair, the sum of d_i S(i) p^(t - 1 - i). Within a block, the coefficients a and the
function G are smooth, apart from the first steps of the stream, which are computed by running sums.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from counton.base.arrays import one_thread
from counton.strategies.streams.power_series import fft_length
from counton.strategies.streams.square_root import square_root_coefficients

if TYPE_CHECKING:
    from collections.abc import Callable

    from counton.base.arrays import Floats

#: Numbers that are computed at a time, so that they stay in the processor's cache.
_NUMBERS_IN_CACHE = 2**14
#: Convolutions of fewer numbers are computed as sums of shifted copies.
_SHORT_SERIES = 2**16
#: Smallest number of first releases whose variances are computed alone; a multiple of
#: `_NUMBERS_IN_CACHE`.
FEWEST_FIRST_RELEASES = 2**16
#: Steps of a block.
_STEPS_PER_BLOCK = 32
#: Blocks that are computed at a time, so that their numbers stay in the processor's cache.
_BLOCKS_AT_ONCE = 2**10
#: First steps, in which functions of the step are not smooth enough; a multiple of
#: `_STEPS_PER_BLOCK`.
_FIRST_STEPS = 2**12


def exact_variances(d: Floats, a: Floats, q: Floats) -> Floats:
    """Return the variances of all releases by sums over nodes, in quadratic time.

    Args:
        d: the norms of the columns of the square root.
        a: the first column of its inverse.
        q: the variances of the nodes' noise.
    """
    # The squared norms of the rows of A D C^-1, weighted by the variances of the nodes.
    total = np.zeros(len(d))
    for k in range(len(d)):  # node k + 1 in all releases
        total[k:] += q[k] * np.cumsum(d[k:] * a[: len(d) - k]) ** 2
    return total


def mixture_of_powers(count: int) -> tuple[list[tuple[float, float]], Floats]:
    """Return the coefficients a_0 .. a_(count - 1) of sqrt(1 - x), as sums of powers.

    From j = 2 on, a_j is the sum of w p^(j - 1) over a few pairs (p, w), which are returned first.

    >>> mixture_of_powers(5)[1].round(5).tolist()
    [1.0, -0.5, -0.125, -0.0625, -0.03906]
    """
    powers, mixture = _mixture(count)
    rule = list(zip(powers.tolist(), mixture.tolist(), strict=True))
    a = np.zeros(count)
    series = [_PowerSeries(power, count - 1) for power, _ in rule]
    for start in range(1, count, _NUMBERS_IN_CACHE):
        part = a[start : start + _NUMBERS_IN_CACHE]
        for pair_powers, (_, weight) in zip(series, rule, strict=True):
            seen = pair_powers.following(len(part))
            part[: len(seen)] += weight * seen
    _set_first(a)
    return rule, a


def _mixture(count: int) -> tuple[Floats, Floats]:
    """Return the powers p and weights w of `mixture_of_powers`."""
    # -1/pi times the integral over (0, 1) of x^(j - 3/2) sqrt(1 - x), by the trapezoidal rule in
    # ln(x / (1 - x)).
    step = 0.75
    y = np.arange(-9.0, math.log(count) + 13.0, step)
    powers = 1 / (1 + np.exp(-y))
    rest = 1 / (1 + np.exp(y))
    return powers, -step / math.pi * rest**1.5 * powers**0.5


def _set_first(a: Floats) -> None:
    """Set the first two of the coefficients a of sqrt(1 - x), in place."""
    # Errors would add up over the steps if these were not the coefficients of one series whose sum
    # is that of sqrt(1 - x).
    a[0] = 1.0
    a[1] = square_root_coefficients(len(a))[-1] - 1.0 - a[2:].sum()


def variances_of_long_rows(d: Floats, q: Floats, count: int | None = None) -> Floats:
    """Return the variances of all releases of a square root whose entries are not rounded.

    The time is linear if ``q`` is constant.

    Args:
        d: the norms of the columns of the square root.
        q: the variances of the nodes' noise, which never decrease.
        count: number of releases, of a constant ``q``; None: all. Those of fewer releases have the
            same bits, if they are `FEWEST_FIRST_RELEASES` at least.
    """
    # They are the squared norms of the rows of A D C^-1. The variance at t grows by d_t^2 sum over
    # s <= t of q_s a_{t-s}^2 and by twice d_t times the sum over s < t of q_s B_{t-1,s} a_{t-s},
    # with a the coefficients of sqrt(1 - x). From 2 on these are a mixture of powers; the sums over
    # s are convolutions with q.
    rule, a = mixture_of_powers(len(d))
    d = d[:count]
    q = q[:count]
    a = a[:count]
    cross = np.zeros(len(d))
    cross[1:] = (a[1] - sum(weight for _, weight in rule)) * (d * q)[:-1]
    if (q == q[0]).all():
        for power, weight in rule:
            _add_cross_terms(cross, power, weight, d=d, a=a, variance=float(q[0]))
        return np.cumsum(2 * d * cross + d**2 * (q[0] * np.cumsum(a**2)))
    convolve_q = _convolution_with(q)
    for power, weight in rule:
        seen = powers_of(power, len(d))
        cross[1:] += weight * discounted_sums(d * convolve_q(a[: len(seen)] * seen), power)[:-1]
    return np.cumsum(2 * d * cross + d**2 * convolve_q(a**2))


def _add_cross_terms(
    cross: Floats, power: float, weight: float, *, d: Floats, a: Floats, variance: float
) -> None:
    """Add what one power of the mixture adds to the cross terms if all nodes' noise is alike.

    Args:
        cross: the cross terms.
        power, weight: the power, and its weight in the mixture.
        d: the norms of the columns.
        a: the coefficients of sqrt(1 - x).
        variance: the variance of each node's noise.
    """
    # Some steps at a time, so that all numbers stay in the processor's cache.
    series = _PowerSeries(power, len(d))
    discount = _Discount(power, len(d))
    before = 0.0
    for start in range(0, len(d), discount.steps):
        sums = d[start : start + discount.steps].copy()
        seen = series.following(len(sums))
        if len(seen):
            products = a[start : start + len(seen)] * seen
            products[0] += before
            np.cumsum(products, out=products)
            before = products[-1]
            sums[: len(seen)] *= variance * products
        sums[len(seen) :] *= variance * before
        sums = discount.following(sums)
        after = cross[start + 1 : start + 1 + len(sums)]
        after += weight * sums[: len(after)]


def _convolution_with(q: Floats) -> Callable[[Floats], Floats]:
    """Return a function that convolves first numbers with q, which never decreases."""
    horizon = len(q)
    rises = np.diff(q, prepend=0.0)
    starts = np.flatnonzero(rises)
    length = fft_length(horizon)
    transform_of_q = np.fft.rfft(q, length)

    def convolve_q(x: Floats) -> Floats:
        if len(x) > _SHORT_SERIES:
            return np.asarray(
                np.fft.irfft(np.fft.rfft(x, length) * transform_of_q, length)[:horizon]
            )
        # After the variance of nodes rises, the running sums are multiplied by that rise.
        sums = np.cumsum(x)
        variances = np.zeros(horizon)
        past = 0.0
        for start, stop in pairwise([*starts, horizon]):
            rise = rises[start]
            variances[start:stop] += past
            some = variances[start : start + len(x)]
            some += rise * (sums[: len(some)] - sums[-1])
            variances[start:stop] += rise * sums[-1]
            past += rise * sums[-1]
        return variances

    return convolve_q


def discounted_sums(x: Floats, power: float) -> Floats:
    """Return running sums y_t = x_t + power * y_(t - 1)."""
    discount = _Discount(power, len(x))
    sums = np.empty(len(x))
    for start in range(0, len(x), discount.steps):
        part = slice(start, start + discount.steps)
        sums[part] = discount.following(x[part])
    return sums


class _Discount:
    """Running sums y_t = x_t + power * y_(t - 1), for some steps at a time.

    Attributes:
        steps: number of steps of each part but the last.
    """

    def __init__(self, power: float, count: int) -> None:
        # Blocks are so short that no power within a block underflows, and so long that after one
        # more block a number has become negligible, unless there is one block at a time.
        width = min(max(2, int(-300 / math.log(power))), _NUMBERS_IN_CACHE, count)
        self.steps = max(1, _NUMBERS_IN_CACHE // width) * width
        self._within = np.full(width, power)
        self._within[0] = 1.0
        np.cumprod(self._within, out=self._within)
        self._later = self._within * power
        self._last = 0.0

    def following(self, x: Floats) -> Floats:
        """Return the sums of the next steps.

        Args:
            x: the summands of these steps.
        """
        width = len(self._within)
        sums = np.zeros(-(-len(x) // width) * width)
        sums[: len(x)] = x
        blocks = sums.reshape(-1, width)
        blocks /= self._within
        np.cumsum(blocks, axis=1, out=blocks)
        blocks *= self._within
        lasts = np.append(self._last, blocks[:-1, -1])
        blocks += lasts[:, None] * self._later
        self._last = sums[-1]
        return sums[: len(x)]


class _PowerSeries:
    """The first powers of a number, for some exponents at a time.

    Args:
        power: the number, above 0 and below 1.
        count: number of powers; powers that are negligible are left out.
    """

    def __init__(self, power: float, count: int) -> None:
        self._power = power
        self._left = min(count, 8 + int(-40 / math.log(power)))
        self._next = 1.0

    def following(self, count: int) -> Floats:
        """Return the next powers, fewer than ``count`` if all later ones are left out."""
        powers = np.full(min(count, self._left), self._power)
        if len(powers):
            powers[0] = self._next
            np.cumprod(powers, out=powers)
            self._next = float(powers[-1]) * self._power
            self._left -= len(powers)
        return powers


def powers_of(power: float, count: int) -> Floats:
    """Return the first ``count`` powers of ``power``; fewer if all later are negligible."""
    return _PowerSeries(power, count).following(count)


def block_variances(d: Floats) -> Floats:
    """Return the variances of `variances_of_long_rows` for a constant variance 1 of the noise.

    They differ by less than 1e-8 of a variance. Most of the work are products of matrices, so the
    time is a sixth.

    Args:
        d: the norms of the columns of the square root, more than 2^13.
    """
    with one_thread():
        return _block_variances(d)


def _block_variances(d: Floats) -> Floats:
    horizon = len(d)
    powers, mixture = _mixture(horizon)
    logarithms = np.log(powers)
    offsets = np.arange(_STEPS_PER_BLOCK)
    starts = _STEPS_PER_BLOCK * np.arange(-(-horizon // _STEPS_PER_BLOCK))
    # Powers within a block, and powers at the starts of blocks: shape (pairs, offsets or blocks).
    within = np.exp(logarithms[:, None] * offsets)
    at_starts = np.exp(logarithms[:, None] * starts)

    a = np.empty(len(starts) * _STEPS_PER_BLOCK + 1)
    a[1:] = ((mixture[:, None] * at_starts).T @ within).reshape(-1)
    _set_first(a[:horizon])
    only_second = a[1] - mixture.sum()  # what the mixture lacks
    a = a[:-1]
    a_blocks = a.reshape(-1, _STEPS_PER_BLOCK)
    # ``before`` has S before each block, and after the last one.
    before = np.zeros((len(mixture), len(starts) + 1))
    np.cumsum(at_starts * (within @ a_blocks.T), axis=1, out=before[:, 1:])

    cross = np.empty((len(starts), _STEPS_PER_BLOCK))
    first = _FIRST_STEPS // _STEPS_PER_BLOCK
    states = np.empty((len(mixture), len(starts) - first))
    cross.reshape(-1)[:_FIRST_STEPS], states[:, 0] = _first_steps(
        d[:_FIRST_STEPS], a[:_FIRST_STEPS], logarithms, mixture
    )
    d_blocks = np.zeros((len(starts), _STEPS_PER_BLOCK))
    d_blocks.reshape(-1)[:horizon] = d
    d_blocks = d_blocks[first:]
    before = before[:, first:]
    a_blocks = a_blocks[first:]
    at_starts = at_starts[:, first:]
    parts = [
        slice(start, start + _BLOCKS_AT_ONCE) for start in range(0, len(d_blocks), _BLOCKS_AT_ONCE)
    ]
    added = np.empty_like(states)
    for part in parts:
        added[:, part] = before[:, :-1][:, part] * (within[:, ::-1] @ d_blocks[part].T)
        rising = _rising_within(d_blocks[part], a_blocks[part], within)
        added[:, part] += at_starts[:, part] * rising
    for pair, power in enumerate(within[:, -1] * within[:, 1]):
        added[pair, 0] += power * states[pair, 0]
        states[pair, 1:] = discounted_sums(added[pair, :-1], power)
    limit: Floats = np.empty(0)
    for part in reversed(parts):
        ends = slice(part.start, part.stop + 1)
        products = (mixture[:, None] * before[:, ends]).T @ within
        if not len(limit):
            limit = products[-1]
        part_cross_terms = cross[first:][part]
        part_cross_terms[:] = (states[:, part] * mixture[:, None]).T @ within
        part_cross_terms += _within_blocks(d_blocks[part], products, limit)

    cross_terms = cross.reshape(-1)[:horizon]
    cross_terms[1:] += only_second * d[:-1]
    return np.cumsum(2 * d * cross_terms + d**2 * np.cumsum(a[:horizon] ** 2))


def _first_steps(
    d: Floats, a: Floats, logarithms: Floats, mixture: Floats
) -> tuple[Floats, Floats]:
    """Return the cross terms of the first steps, and the sums of each pair after them."""
    cross = np.zeros(len(d))
    states = np.empty(len(mixture))
    numbers = np.arange(len(d))
    for pair, (logarithm, weight) in enumerate(zip(logarithms, mixture, strict=True)):
        x = d * np.cumsum(a * np.exp(logarithm * numbers))
        sums = discounted_sums(x, np.exp(logarithm))
        cross[1:] += weight * sums[:-1]
        states[pair] = sums[-1]
    return cross, states


def _rising_within(d_blocks: Floats, a_blocks: Floats, within: Floats) -> Floats:
    """Return what the rise of S within each block adds to the sums, for a block that starts at 0.

    In each block, a line replaces the coefficients a.
    """
    centred = np.arange(_STEPS_PER_BLOCK) - (_STEPS_PER_BLOCK - 1) / 2
    means = a_blocks.mean(axis=1)
    slopes = a_blocks @ (centred / (centred @ centred))
    later = within[:, ::-1]
    weights_of_means = (later * np.cumsum(within, axis=1)) @ d_blocks.T
    weights_of_slopes = (later * np.cumsum(within * centred, axis=1)) @ d_blocks.T
    return np.asarray(means * weights_of_means + slopes * weights_of_slopes)


def _within_blocks(d_blocks: Floats, products: Floats, limit: Floats) -> Floats:
    """Return what the steps of each block add to its cross terms.

    Args:
        d_blocks: the norms d by block.
        products: G(i, l) for l from 1 on, where i is the step before each block, and the last step.
        limit: the same for the last step of the stream.
    """
    # G is a function of the lag alone, which its last row has, and a small rest. The rest is close
    # to a polynomial of degree 2 in the lag, and to a line within each block.
    offsets = np.arange(_STEPS_PER_BLOCK)
    lags = offsets - offsets[:, None]  # from row to column
    earlier = lags > 0
    places = np.maximum(lags, 1) - 1
    polynomials = np.vander((offsets + 1) / _STEPS_PER_BLOCK, 3)
    rest = (products - limit) @ np.linalg.pinv(polynomials).T
    rises = np.diff(rest, axis=0)
    ramped = d_blocks * ((offsets + 1) / _STEPS_PER_BLOCK)
    cross = d_blocks @ np.where(earlier, limit[places], 0.0)
    for degree, polynomial in enumerate(polynomials.T):
        values_at_lags = np.where(earlier, polynomial[places], 0.0)
        cross += rest[:-1, degree, None] * (d_blocks @ values_at_lags)
        cross += rises[:, degree, None] * (ramped @ values_at_lags)
    return np.asarray(cross)

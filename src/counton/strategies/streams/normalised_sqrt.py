"""The square-root factorisation with columns of norm 1, which lowers the error with Gaussian noise.

Later columns of the square root C have smaller norms, so the sensitivity is that of early items.
`NormalisedSqrt` divides the columns by their norms, D: C' = C D^-1 has the same sensitivity for all
items, and a smaller error: Henzinger, Kalinin and Upadhyay, "Normalized square root: sharper matrix
factorization bounds for differentially private continual counting" (arXiv 2509.14334).
"""

from __future__ import annotations

import math
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure, sensitivities
from counton.strategies.strategy import Node, Steps, check_step, window_ends
from counton.strategies.streams.power_series import convolve
from counton.strategies.streams.root_variances import (
    FEWEST_FIRST_RELEASES,
    block_variances,
    exact_variances,
    variances_of_long_rows,
)
from counton.strategies.streams.square_root import RootStrategy, is_falling, signed_overlaps

if TYPE_CHECKING:
    from counton.base.arrays import Floats

#: Fraction bits of the weights of columns, and of the coefficients that they multiply: on short and
#: on long horizons.
_WEIGHT_BITS = 16
_SERIES_BITS = 12
_FINER_SERIES_BITS = 14
#: Largest horizon for which products of coefficients and two weights are proved to fit int64.
_LARGEST_PROVED_HORIZON = 2**20
#: Up to this horizon variances are exact sums over rows; beyond it they are within 1e-4.
_EXACT_STEPS = 2**13
#: Weights computed at once.
_WEIGHTS_AT_ONCE = 2**14
#: Beyond this horizon the mean and largest variance are computed by blocks.
_LONGEST_UNBLOCKED_HORIZON = 2**17
#: Number of overlaps that are all computed; further ones are computed at distances that grow by a
#: tenth.
_ALL_OVERLAPS = 16


class NormalisedSqrt(RootStrategy):
    """The square-root factorisation with columns of norm 1, less error with Gaussian noise.

    C is the matrix square root of the matrix of running totals, D the diagonal matrix of the norms
    d_i of its columns, and C' = C D^-1 the measurement matrix. The noise of release t is the sum
    over i <= t of d_i (C^-1 z)_i. Weights 1 / d_i are rounded to multiples of 2^-weight_bits, C to
    multiples of 2^-12 (beyond 2^13 steps 2^-14). The stated sensitivity is exact for the rounded
    C', and noise is rounded correctly.

    Args:
        horizon: number of steps, from 1 to 2^20.
        weight_bits: fraction bits of weights, from 4 to 16; with fewer the error is slightly
            larger, but wider noise fits int64.

    Raises:
        InvalidInputError: an argument outside that range.

    >>> strategy = NormalisedSqrt(1024)
    >>> round(float(strategy.squared_sensitivity()), 3), strategy.variance([1, 1024]).round(2)
    (1.0, array([3.27, 6.89]))
    >>> [round((strategy.overall_variance(m)) ** 0.5, 3) for m in ("mean", "max")]
    [2.991, 3.081]
    """

    sources = ("normalised",)

    def __init__(self, horizon: int, weight_bits: int = _WEIGHT_BITS) -> None:
        horizon = check_integer("horizon", horizon, 1)
        if horizon > _LARGEST_PROVED_HORIZON:
            raise InvalidInputError(
                f"horizon of the normalised square root is {horizon}; it must be at most 2^20: use "
                f"SqrtToeplitz, or a tree strategy such as KAry for longer streams"
            )
        bits = _SERIES_BITS if horizon <= _EXACT_STEPS else _FINER_SERIES_BITS
        super().__init__(horizon, bits, check_integer("weight_bits", weight_bits, 4, _WEIGHT_BITS))
        self._computed_variances: Floats = np.empty(0)

    @classmethod
    def examples(cls, horizon: int) -> tuple[NormalisedSqrt, ...]:
        """Return strategies with fine weights, on short horizons alone, and with coarse ones.

        Args:
            horizon: number of steps that each instance must serve, from 1.
        """
        coarse = cls(horizon, weight_bits=4)
        fine = cls(horizon)
        if horizon <= 26:
            return (fine, coarse)
        return (coarse,) if horizon <= 250 else ()

    @cached_property
    @override
    def weights(self) -> NDArray[np.int64]:
        """Weights 1 / d_i of the columns, in units of 2^-weight_bits: shape (horizon,)."""
        squares = self._squares[::-1]
        weights = np.empty(self.horizon, np.int64)
        # Some at a time, because each array of a million steps takes 8 MB.
        for start in range(0, self.horizon, _WEIGHTS_AT_ONCE):
            part = slice(start, start + _WEIGHTS_AT_ONCE)
            norms = np.sqrt(squares[part].astype(np.float64)) / 2.0**self.root.bits
            weights[part] = np.rint(2.0**self.weight_bits / norms)
        return weights

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Norms d_i, as the reciprocals of the rounded weights: float64, shape (horizon,)."""
        return 2.0**self.weight_bits / self.weights

    @cached_property
    def _rows(self) -> dict[int, tuple[Node, ...]]:
        return {}

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes 1, ..., ``step`` in the release; for small horizons only.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        step = check_step(self, step)
        if step in self._rows:
            return self._rows[step]
        weights = [int(w) for w in self.weights[:step]]
        common = math.lcm(*weights)
        shares = [common // w for w in weights]
        b = self.root.row(step)
        p = self.root.bits
        # The inverse series 1/c is that of b, differenced; over the common denominator 2^(p k).
        inverse = [int((b[k] - (b[k - 1] if k else 0)) * (1 << p * k)) for k in range(step)]
        nodes = []
        for k in range(step):
            width = step - 1 - k
            total = sum(shares[k + j] * inverse[j] << p * (width - j) for j in range(width + 1))
            exact = Fraction(total << self.weight_bits, common << p * width)
            nodes.append(Node(0, k + 1, exact))
        self._rows[step] = tuple(nodes)
        return self._rows[step]

    @property
    @override
    def structure(self) -> Structure:
        """Inner products of two columns decrease with their distance."""
        if not is_falling(self.root.numerators):
            return Structure(overlaps=self._overlaps)
        # Therefore each of several alternating changes adds at most the largest squared norm of a
        # column.
        return Structure(
            overlaps=self._overlaps,
            change_bound=lambda: sensitivities(self).l2_squared,
            aligned=lambda: True,
        )

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        # They are exact at some distances; at others the bound for the next smaller of these is
        # used. Coefficients decrease and weights increase, so among all earlier columns at least
        # this far away, the nearest has the largest product with a given column.
        c = self.root.numerators
        w = self.weights
        if not is_falling(c):
            return signed_overlaps(c, w, schedule)
        overlaps: list[int] = []
        computed = 0
        for j in range(1, schedule.steps):
            lag = j * schedule.apart
            if j <= _ALL_OVERLAPS or 10 * j >= 11 * computed:
                products = np.cumsum(c[: len(c) - lag] * c[lag:])[::-1]
                overlaps.append(int((products * (w[lag:] * w[: len(w) - lag])).max()))
                computed = j
            else:
                overlaps.append(overlaps[-1])  # at least those of columns further apart
        return overlaps

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """First column of the inverse of the square root, in float64: shape (horizon,)."""
        return np.diff(self.root.inverse.coefficients, prepend=0.0)

    @cached_property
    @override
    def _variances(self) -> Floats:
        if self.horizon > _EXACT_STEPS:
            return variances_of_long_rows(self.shares, self._node_variances)
        return exact_variances(self.shares, self.inverse, np.ones(self.horizon))

    @cached_property
    @override
    def _mean_and_largest(self) -> tuple[float, float]:
        if self.horizon <= _LONGEST_UNBLOCKED_HORIZON:
            return super()._mean_and_largest
        return float(self._block_variances.mean()), float(self._block_variances.max())

    @cached_property
    def _block_variances(self) -> Floats:
        return block_variances(self.shares)

    @override
    def for_estimates(self) -> NormalisedSqrt:
        if self.horizon <= _LONGEST_UNBLOCKED_HORIZON or "_variances" in self.__dict__:
            return self
        strategy = copy(self)
        strategy._variances = self._block_variances
        return strategy

    @property
    def _node_variances(self) -> Floats:
        """The variance 1 of each node, which takes no memory."""
        return np.broadcast_to(1.0, self.horizon)

    def _first_variances(self, count: int) -> Floats:
        """Return the variances of the first ``count`` releases or more, as ``_variances`` has them.

        A scheduled run at the beginning of a long stream needs no others.
        """
        if "_variances" in self.__dict__ or 2 * max(count, FEWEST_FIRST_RELEASES) > self.horizon:
            return self._variances
        if len(self._computed_variances) < count:
            number = max(FEWEST_FIRST_RELEASES, 1 << (count - 1).bit_length())
            self._computed_variances = variances_of_long_rows(
                self.shares, self._node_variances, min(number, self.horizon)
            )
        return self._computed_variances

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        # Time is proportional to the horizon for each distance up to the longest window, or for
        # each window, whichever is less.
        first, last = window_ends(self, steps, since)
        variance = np.zeros(first.shape)
        from_start = (first == 0) & (last > 0)
        total_steps = last[from_start]
        if total_steps.size:
            variance[from_start] = self._first_variances(int(total_steps.max()))[total_steps - 1]
        inner = (first > 0) & (last > first)
        s = first[inner]
        t = last[inner]
        if s.size:
            longest = int((t - s).max())
            one_by_one = self._by_distance if longest <= 64 * len(s) else self._by_window
            variance[inner] = one_by_one(s, t)
        return variance

    def _by_distance(self, s: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variances of the counts of the steps s + 1 .. t, summed over distances."""
        # They are sums over pairs i, j of d_i d_j (C^-1 C^-T)_ij.
        a = self.inverse
        d = self.shares
        variances = np.zeros(len(s))
        for distance in range(int((t - s).max())):
            count = self.horizon - distance
            products = np.cumsum(a[:count] * a[distance:])
            sums = np.concatenate([[0.0], np.cumsum(d[:count] * d[distance:] * products)])
            some = t - s > distance
            twice = 1 if distance == 0 else 2
            variances[some] += twice * (sums[t[some] - distance] - sums[s[some]])
        return variances

    def _by_window(self, s: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variances of the counts of the steps s + 1 .. t, by a convolution for each."""
        a = self.inverse
        d = self.shares
        variances = np.empty(len(s))
        for index, (start, stop) in enumerate(zip(s.tolist(), t.tolist(), strict=True)):
            within = np.zeros(stop)
            within[: stop - start] = d[start:stop][::-1]
            variances[index] = float((convolve(within, a[:stop], stop) ** 2).sum())
        return variances

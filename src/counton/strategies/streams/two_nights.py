"""One window as tables of two nights have it: how its numbers differ, and the noise they share.

A night is the release at the end of a window. Beside totals, the table of night m estimates a
window from all that was released up to then (`LeastSquaresAsOf`). With v the released version of
the window and e the independent parts of the contrasts of the nights 1 .. m, of variance 1, the
estimate is v - h' e, where h = Cov(e, v). Let v and w be the versions of an earlier night k and of
a later night m. For the later one, h = Cov(e, w) has m entries, of which the first k multiply the
same e. So

    Cov(v - h_v' e, w - h_w' e) = Cov(v, w) - h_w' Cov(e, v),

because - h_v' Cov(e_1..k, w) and + h_v' (h_w)_1..k cancel. Here Cov(e, v) is over all m nights:
later changes of the window share noise with its earlier version.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.strategies.strategy import NodeNoise, Steps, window_ends
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf, WindowsAndTotals


class TwoNights(LeastSquaresAsOf):
    """Two estimates of one window's count, made on two nights (releases at ends of windows).

    Step 1 is the estimate of the earlier night, step 2 the estimate of the later night.

    Args:
        both: the stream's strategy.
        window: the window, which had ended by the earlier night.
        earlier, later: the nights, numbered by the windows after which they release.
        law: the noise distribution of a node of the windows.

    >>> from fractions import Fraction
    >>> from counton.base.distributions import DiscreteLaplace
    >>> from counton.strategies import Binary, WindowVersions
    >>> law = DiscreteLaplace(Fraction(3))
    >>> both = WindowsAndTotals(WindowVersions(7, Binary(3)), Binary(7), "1/4", law)
    >>> moved = TwoNights(both, 2, 2, 4, law)
    >>> bool(moved.variance([2], [0]) > moved.variance([1]) + moved.variance([2], [1]))
    True
    """

    def __init__(
        self, both: WindowsAndTotals, window: int, earlier: int, later: int, law: NoiseDistribution
    ) -> None:
        super().__init__(both, later, law)
        self.horizon, self.window, self.earlier = 2, window, earlier
        self._tables = [LeastSquaresAsOf(both, night, law) for night in (earlier, later)]

    @override
    def __repr__(self) -> str:
        nights = f"{self.earlier}, {self.night}"
        return f"{self.saved_name}({self.both!r}, window={self.window}, nights={nights})"

    def _contrast_covariance(self, lag: int, until: int) -> Floats:
        """Return the covariances of one released count of the window with the innovations of the
        nights from the window's end up to night ``until``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.
        Its innovation is the part of its contrast that is uncorrelated with earlier contrasts,
        scaled to variance 1. ``lag`` is the number of windows after which the count was released.
        """
        start, contrasts = self.window - 1, self._contrasts
        nights = min(contrasts.lags + 1, until - start)
        rows = contrasts.independent(until)[start:, start : start + nights]
        return np.asarray(rows @ -contrasts.shared[lag, :nights])

    @cached_property
    def _covariance(self) -> Floats:
        """Covariance matrix of the noise of two estimates of the count of ``self.window``: shape
        (2, 2).

        The first estimate is made at the end of window ``self.earlier``, the second at the end of
        window ``self.night``. The unit is the noise variance of a node of the windows.
        """
        lags = [
            min(night - self.window, self._contrasts.lags) for night in (self.earlier, self.night)
        ]
        first = self._contrast_covariance(lags[0], self.earlier)
        before, last = (self._contrast_covariance(lag, self.night) for lag in lags)
        versions = self._contrasts.versions
        shared = versions[lags[0], lags[1]] - last @ before
        own = versions[lags[0], lags[0]] - first @ first, versions[lags[1], lags[1]] - last @ last
        return np.array([[own[0], shared], [shared, own[1]]]) / self._contrasts.unit

    @override
    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the noise variances of the estimates at the two nights (steps 1 and 2), or of sums
        of both.

        With ``since``, the estimates of the steps since + 1 .. step are added up: step 2 since 0 is
        the sum of both. The unit is the noise variance of a node of the windows.
        """
        first, last = window_ends(self, steps, since)
        of = self._covariance
        sums = np.array([[0, of[0, 0], of.sum()], [0, 0, of[1, 1]], [0, 0, 0]])
        return np.asarray(np.maximum(sums[first, last], 0.0))

    @override
    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals of the estimates at the two nights (steps
        1 and 2).

        Total i adds up the estimates of the steps up to ``stops[i]``, and has the weight
        ``weights[i]``. The unit is the noise variance of a node of the windows.
        """
        each = np.array([weights[stops >= step].sum() for step in (1, 2)])
        return max(float(each @ self._covariance @ each), 0.0)

    @override
    def _largest_reads(self, stops: Integers) -> Floats:
        ends = np.array([self.window - 1, self.window])
        most = max(float(table._largest_reads(ends).max()) for table in self._tables)
        return np.full(stops.shape, most)

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        ends = np.array([self.window - 1]), np.array([self.window])
        each = [float(table._window_rounding(*ends)[0]) for table in self._tables]
        until = np.array([0.0, each[0], sum(each)])
        return np.asarray(until[last] - until[first])

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the window's estimates at the two nights (steps 1 and 2).

        It is computed from the noise of all releases up to each night: int64, ``(len(steps),
        *field.shape)``, in multiples of 2^-10.
        """
        own = range(self.window, self.window + 1)
        return np.concatenate([self._tables[step - 1].noise(field, own) for step in steps])

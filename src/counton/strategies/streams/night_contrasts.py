"""Contrasts of nights: how far the totals of arrivals differ from the windows, night by night.

A night has published the newest version of each window, and the total of all arrivals. What arrived
between two nights is measured twice: by the growth of the total, and by the growth of the sum of
all windows. The first minus the second is the *contrast* of the later night. It is noise alone.

Contrasts of earlier nights do not depend on the night that reads them. So one factor serves all
nights. With d the vector of all contrasts, and P' the transpose of P, `NightContrasts` computes a
lower triangular matrix P for which P Cov(d) P' is the identity. The rows 1 .. t of P belong to the
nights 1 .. t, and P d are independent errors of variance 1. A later night adds rows, and changes
none.
"""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.distributions import NoiseDistribution
from counton.strategies.joint_errors import step_covariance
from counton.strategies.strategy import StreamStrategy
from counton.strategies.streams.window_versions import WindowVersions

#: Nights whose rows are computed together.
_TOGETHER = 64


class NightContrasts:
    """The covariance of the noise that the nightly releases of a stream reveal, and a matrix that
    makes this noise uncorrelated, with variance 1.

    A night is the release at the end of a window: the newest count of each window, and the total of
    all rows that have arrived. The contrast of a night is the growth of the total since the night
    before, minus the growth of the sum of all newest counts. It is noise alone. Let d be the vector
    of the contrasts of all nights. P is the lower triangular matrix for which the entries of P d
    are uncorrelated and have variance 1.

    Args:
        windows: the strategy of revised windows, without the strategy of totals.
        totals: the strategy of the totals that are released with the windows.
        law: the noise distribution of a node of the totals.
        unit: variance of the noise of a node of the windows, in squared data units.

    Attributes:
        versions: covariance of the released counts (versions) of one window, in squared data units:
            shape ``(versions, versions)``.
        shared: covariance of each version of a window with each change of the same window's count.
            The changes are the first version, the second version minus the first, and so on. Shape
            ``(versions, changes)``.
    """

    def __init__(
        self, windows: WindowVersions, totals: StreamStrategy, law: NoiseDistribution, unit: float
    ) -> None:
        self.horizon, self.lags, self.unit = windows.horizon, windows.lags, unit
        self._totals, self._law = totals, law
        lags = np.arange(windows.lags + 1)
        self.versions = np.asarray(windows.lag_covariance(lags[:, None], lags) * unit)
        self.shared = np.diff(self.versions, axis=1, prepend=0.0)
        self._changes = _sums_along_diagonals(np.diff(self.shared, axis=0, prepend=0.0))
        self._known = np.zeros((0, 0)), np.zeros(0)
        self._read = np.zeros(0)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._totals!r}, nights={len(self._known[0])})"

    def independent(self, nights: int) -> Floats:
        """Return the lower triangular matrix P that turns the contrasts of the first nights into
        innovations: shape ``(nights, nights)``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of all windows' newest counts.
        Its innovation is the part of its contrast that is uncorrelated with all earlier contrasts,
        scaled to variance 1. With d the vector of contrasts, P d is the vector of innovations.
        """
        return self._up_to(nights)[0][:nights, :nights]

    def covariances_with_final(self, nights: int) -> Floats:
        """Return the covariances of the nights' innovations with sums of final windows: shape
        ``(nights,)``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of all windows' newest counts.
        Its innovation is the part of its contrast that is uncorrelated with all earlier contrasts,
        scaled to variance 1. The value for night m is for the sum of the windows 1 .. m, once they
        are final. A longer sum of final windows has the same covariance, since later windows have
        no part in the contrast of night m.
        """
        return self._up_to(nights)[1][:nights]

    def read_by_final(self, nights: int) -> Floats:
        """Return, for each night, the weight of its contrast in the least-squares estimate of a sum
        of final windows: shape ``(nights,)``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of all windows' newest counts.
        The weights are the transpose of the matrix that `independent` returns, times the
        covariances that `covariances_with_final` returns.
        """
        # Row by row, so that a night's numbers do not depend on which others were asked before.
        rows, final = self._up_to(nights)
        before = self._read if len(self._read) <= nights else np.zeros(0)
        found = np.zeros(nights)
        found[: len(before)] = before
        for night in range(len(before), nights):
            found[: night + 1] += final[night] * rows[night, : night + 1]
        self._read = found
        return found

    def _up_to(self, nights: int) -> tuple[Floats, Floats]:
        """Return the results of `independent` and `covariances_with_final` before they are cut
        to ``nights`` nights.

        The first is the matrix that turns contrasts into innovations. The second has the
        covariances of the innovations with sums of final windows. Both are for ``nights`` releases
        or more.
        """
        found, seen = self._known
        first = len(found)
        if nights <= first:
            return found, seen
        last = min(-(-nights // _TOGETHER) * _TOGETHER, self.horizon)
        rows = np.zeros((last, last))
        rows[:first, :first] = found
        self._write_covariance(rows, first)
        for start in range(first, last, _TOGETHER):
            stop = min(start + _TOGETHER, last)
            # With the known P of earlier nights, C = [A B'; B D] and R = B P', the rows are
            # K [-R P, I], where K (D - R R') K' = I.
            before, own = rows[:start, :start], rows[start:stop, :stop]
            read = own[:, :start] @ before.T
            root = np.linalg.cholesky(own[:, start:] - read @ read.T)
            inverse = np.tril(np.linalg.inv(root))
            own[:, start:] = inverse
            own[:, :start] = -(inverse @ read) @ before
        more = np.concatenate([seen, rows[first:] @ self.final_covariance(last)])
        self._known = rows, more
        return self._known

    def final_covariance(self, nights: int) -> Floats:
        """Return the covariances of the nights' contrasts with sums of final windows: shape
        ``(nights,)``.

        Night m is the release after window m. Its contrast is noise alone: the growth of the total
        since the night before, minus the growth of the sum of the windows' newest counts. The value
        for night m is for the sum of the windows 1 .. m, once they are final. A longer sum of final
        windows has the same covariance.
        """
        return np.asarray(-self.versions[-1][np.minimum(np.arange(nights), self.lags)])

    def _write_covariance(self, into: Floats, first: int) -> None:
        """Write the covariances of the contrasts of every two nights into the matrix ``into``: the
        rows from ``first`` on, up to the diagonal.

        Row and column are numbers of nights, from 0 on. A night is the release at the end of a
        window. Its contrast is noise alone: the growth of the total since the night before, minus
        the growth of the sum of all windows' newest counts. Entries above the diagonal have no
        meaning.
        """
        # A strategy may be quick for few beginnings and many ends: so few columns at a time.
        for start in range(0, len(into), _TOGETHER):
            stop, top = min(start + _TOGETHER, len(into)), max(first, start)
            nights, columns = np.arange(top, len(into))[:, None], np.arange(start, stop)
            apart, earlier = np.abs(nights - columns), np.minimum(nights, columns)
            near = np.minimum(apart, self.lags)
            changes = self._changes[near, np.minimum(earlier, self.lags - near)]
            into[top:, start:stop] = np.where(apart <= self.lags, changes, 0.0)
            steps = range(top + 1, len(into) + 1), range(start + 1, stop + 1)
            into[top:, start:stop] += step_covariance(self._totals, self._law, *steps)

    def covariance(self, night: int, weights: Floats) -> Floats:
        """Return the covariances of nights' contrasts with weighted sums of the windows' newest
        counts as of night ``night``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of all windows' counts. The
        first row of the result is for the contrast of night 1. Column j is for sum j.

        Args:
            night: the number of the night.
            weights: weight of each window in each sum, shape ``(night, sums)``.

        Returns:
            Shape ``(night, sums)``.
        """
        final, found = max(night - self.lags, 0), np.zeros_like(weights)
        for lag in range(self.lags + 1 if final else 0):
            found[lag : lag + final] -= self.shared[-1, lag] * weights[:final]
        for window in range(final, night):
            known = self.shared[night - 1 - window, : night - window]
            found[window:] -= known[:, None] * weights[window]
        return found

    def weights_of_final(self, read: Floats) -> Floats:
        """Return what the contrasts of nights take away from each final window's newest count, in
        the estimate by least squares.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.
        The result for a window is the sum over nights of ``read`` times the covariance of the
        night's contrast with the window's number.

        Args:
            read: a number for each night, shape ``(nights, columns)``: Cov(d)^-1 d for the
                contrasts d.

        Returns:
            For each window that is final after the last of the nights: shape ``(windows,
            columns)``.
        """
        final = max(len(read) - self.lags, 0)
        found = np.zeros((final, *read.shape[1:]))
        for lag in range(self.lags + 1):
            found -= self.shared[-1, lag] * read[lag : lag + final]
        return found


def _sums_along_diagonals(changes: Floats) -> Floats:
    """Return running sums along the diagonals of a square matrix: entry (k, q) is the sum of the
    entries (l, l + k) for l = 0 .. q.

    In use, entry (i, j) of the matrix is the covariance of two changes of a window's count. Change
    0 is the window's first count, change l the difference of its l-th revised count and the count
    before. Take two nights (releases at ends of windows) that are k windows apart. Entry (l, l + k)
    is for a window whose change l comes on the earlier night; its change l + k comes on the later
    night.

    >>> _sums_along_diagonals(np.array([[1.0, 5.0], [5.0, 2.0]])).tolist()
    [[1.0, 3.0], [5.0, 0.0]]
    """
    found = np.zeros_like(changes)
    for apart in range(len(changes)):
        along = np.cumsum(np.diagonal(changes, apart))
        found[apart, : len(along)] = along
    return found

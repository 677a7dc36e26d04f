"""Every version of every window as a step of its own: a strategy for tests of sensitivities."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.strategies import Node, NodeNoise, StreamStrategy, WindowVersions, check_step
from counton.strategies.strategy import Steps, check_window, window_ends
from counton.strategies.streams.window_versions import _stretches


def lag_covariance(windows: WindowVersions, one: Steps, other: Steps) -> Floats:
    """Return the noise covariances of pairs of counts of one window, by lags of their releases."""
    first, second = np.broadcast_arrays(np.asarray(one), np.asarray(other))
    apart = windows.lag_variance(np.maximum(first, second), np.minimum(first, second))
    return np.asarray((windows.lag_variance(first) + windows.lag_variance(second) - apart) / 2)


class EveryVersion(StreamStrategy):
    """All released counts (versions) of all windows of a `WindowVersions` strategy, each as one
    step.

    It serves to compute the errors of sums and differences of versions. The version of window w
    that is released l windows later is the step (w - 1) (lags + 1) + l + 1. The measurements are
    the same as in `WindowVersions`.

    Args:
        windows: a `WindowVersions` strategy.

    >>> from counton.strategies import Binary, WindowVersions
    >>> every = EveryVersion(WindowVersions(9, Binary(3)))
    >>> every.step_of(2, 1), every.variance([every.step_of(2, 1)]).tolist()
    (5, [1.0])
    """

    sources = ("calibration",)

    horizon: int

    def __init__(self, windows: WindowVersions) -> None:
        self.windows = windows
        self.horizon = windows.horizon * (windows.lags + 1)
        self.facts = windows.facts._replace(
            unit_rows=False, attained=windows.inner.facts.attained, versions=1,
            corrections=0, reads_another=True,
        )  # fmt: skip

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: the parameters of the windows' strategy."""
        return {"windows": {"strategy": self.windows.saved_name, **self.windows.parameters}}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description of this strategy as JSON values, including the description of the
        windows' strategy.
        """
        return {"strategy": self.saved_name, "windows": self.windows.to_dict()}

    def step_of(self, window: int, lag: int) -> int:
        """Return the step for the count of ``window`` that is released ``lag`` windows later."""
        return (window - 1) * (self.windows.lags + 1) + self.windows._check_lag(lag) + 1

    def _version(self, step: int) -> tuple[int, int]:
        window, lag = divmod(check_step(self, step) - 1, self.windows.lags + 1)
        return window + 1, lag

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes (noisy measurements) that a data row enters if it arrives just in time
        for one version of its window's count.

        A version is one released count of the window; ``step`` is its number (see `step_of`).
        """
        return self.windows.lag_column(*self._version(step))

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes (noisy measurements) whose noise is in one released count (version) of a
        window; ``step`` is its number (see `step_of`).
        """
        return self.windows.lag_row(*self._version(step))

    def l1_sensitivity(self) -> Fraction:
        """Return the 1-norm by which a unit changes the measurements, as for `WindowVersions`."""
        return self.windows.l1_sensitivity()

    def squared_sensitivity(self) -> Fraction:
        """Return the squared 2-norm by which a unit changes the measurements, as for
        `WindowVersions`.
        """
        return self.windows.squared_sensitivity()

    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals, in units of one node's noise variance.

        Total i adds up the versions of all steps up to ``stops[i]``, and has the weight
        ``weights[i]``. Versions of one window are correlated; those of different windows are
        independent.
        """
        read: dict[int, dict[int, float]] = {}
        for first, last, weight in _stretches(stops, weights):
            for step in range(first + 1, last + 1):
                window, lag = self._version(step)
                read.setdefault(window, {})[lag] = weight
        found = 0.0
        for versions in read.values():
            lags, times = np.array([*versions]), np.array([*versions.values()])
            found += float(times @ lag_covariance(self.windows, lags[:, None], lags) @ times)
        return max(found, 0.0)

    def variance(self, steps: Steps, since: Steps | None = None) -> Floats:
        """Return the variances of versions (released counts of windows), or of sums of versions, in
        units of one node's noise variance.

        With ``since``, each sum has the versions since + 1 .. step, as `step_of` numbers them.
        """
        first, last = window_ends(self, steps, since)
        pairs = zip(first.ravel().tolist(), last.ravel().tolist(), strict=True)
        ones = np.array([1.0, -1.0])
        found = [self._summed_variance(np.array([stop, start]), ones) for start, stop in pairs]
        return np.array(found, np.float64).reshape(first.shape)

    @override
    def _largest_reads(self, stops: Integers) -> Floats:
        every = np.arange(1, self.windows.lags + 2)
        return np.full(stops.shape, float(self.windows.inner._largest_reads(every).max()))

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        ends = np.arange(1, self.windows.lags + 2)
        most = self.windows.inner._window_rounding(np.zeros_like(ends), ends).max()
        return np.asarray((last - first) * float(most))

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of consecutive versions (released counts of windows): int64,
        ``(len(steps), *field.shape)``.

        ``steps`` are their numbers (see `step_of`).
        """
        check_window(self, steps)
        found, at = np.empty((len(steps), *field.shape), np.int64), 0
        while at < len(steps):
            window, lag = self._version(steps[at])
            lags = range(lag, min(self.windows.lags + 1, lag + len(steps) - at))
            found[at : at + len(lags)] = self.windows.lag_noise(field, window, lags)
            at += len(lags)
        return found

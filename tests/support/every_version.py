"""Every version of every window as a step of its own: a strategy for tests of sensitivities."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats
from counton.strategies import Node, NodeNoise, StreamStrategy, WindowVersions, check_step
from counton.strategies.strategy import Steps, check_window


def lag_covariance(windows: WindowVersions, one: Steps, other: Steps) -> Floats:
    """The noise covariances of pairs of counts of one window, by lags of their releases."""
    first, second = np.broadcast_arrays(np.asarray(one), np.asarray(other))
    apart = windows.lag_variance(np.maximum(first, second), np.minimum(first, second))
    return np.asarray((windows.lag_variance(first) + windows.lag_variance(second) - apart) / 2)


class EveryVersion(StreamStrategy):
    """All released counts (versions) of all windows of a `WindowVersions` strategy.

    The version of window w that is released l windows later is the step (w - 1) (lags + 1) + l + 1.
    The measurements are the same as in `WindowVersions`; variances are those of rows.

    >>> from counton.strategies import Binary
    >>> every = EveryVersion(WindowVersions(9, Binary(3)))
    >>> every.step_of(2, 1), every.variance([every.step_of(2, 1)]).tolist()
    (5, [1.0])
    """

    horizon: int

    def __init__(self, windows: WindowVersions) -> None:
        self.windows = windows
        self.horizon = windows.horizon * (windows.lags + 1)
        self.facts = windows.facts._replace(versions=1, corrections=0, reads_another=True)

    def step_of(self, window: int, lag: int) -> int:
        """The step for the count of ``window`` that is released ``lag`` windows later."""
        return (window - 1) * (self.windows.lags + 1) + self.windows._check_lag(lag) + 1

    def _version(self, step: int) -> tuple[int, int]:
        window, lag = divmod(check_step(self, step) - 1, self.windows.lags + 1)
        return window + 1, lag

    def column(self, step: int) -> tuple[Node, ...]:
        """The nodes of a row that arrives just in time for one version of its window's count."""
        return self.windows.lag_column(*self._version(step))

    def row(self, step: int) -> tuple[Node, ...]:
        """The nodes whose noise is in one version."""
        return self.windows.lag_row(*self._version(step))

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        check_window(self, steps)
        found = np.empty((len(steps), *field.shape), np.int64)
        at = 0
        while at < len(steps):
            window, lag = self._version(steps[at])
            lags = range(lag, min(self.windows.lags + 1, lag + len(steps) - at))
            found[at : at + len(lags)] = self.windows.lag_noise(field, window, lags)
            at += len(lags)
        return found

"""What a stream has released, as a table with intervals and as curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.events.windows import load_zone
from counton.jobs.definition import Definition
from counton.mechanisms.intervals import halfwidths
from counton.store import Stream

if TYPE_CHECKING:
    from counton.plots import Curves

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Released:
    """All released steps; estimates and bounds have shape ``(steps, groups)``.

    Attributes:
        definition: of the stream.
        steps: 1 to the last step released.
        estimates: what was released, in data units.
        std: standard deviation of the noise by step.
        half: half-width of the intervals by step.

    >>> from counton.jobs.definition import ask, define
    >>> from counton.jobs.request import Request
    >>> request = Request(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, epsilon=1
    ... )
    >>> std, half = np.array([4.0, 4.0]), np.array([9.0, 9.0])
    >>> released = Released(define(ask(request)), range(1, 3), np.array([[12], [17]]), std, half)
    >>> released.table().select("step", "group", "lower", "upper").rows()
    [(1, 'all', 3, 21), (2, 'all', 8, 26)]
    """

    definition: Definition
    steps: range
    estimates: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]

    @classmethod
    def read(cls, stream: Stream, definition: Definition, level: float) -> Released:
        """Everything in the journal, with intervals of confidence ``level``."""
        releases = stream.releases()
        steps = range(1, len(releases.steps) + 1)
        values = np.asarray(releases.values).reshape(len(steps), len(definition.groups))
        std = np.asarray(releases.std, dtype=np.float64)
        terms = stream.terms
        half = halfwidths(terms.strategy, terms.law, steps, level)
        return cls(definition, steps, values, std, half * float(terms.resolution))

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals; integers where estimates are."""
        return self._shifted(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals; integers where estimates are."""
        return self._shifted(self.half)

    def _shifted(self, by: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(by == np.rint(by)):
            return np.asarray(self.estimates + by.astype(np.int64)[:, None], dtype=np.int64)
        return np.asarray(self.estimates + by[:, None], dtype=np.float64)

    def local_start(self) -> str:
        """Beginning of the first window in local time."""
        start = self.definition.windows.start
        zone = load_zone(self.definition.windows.timezone)
        return start.astimezone(zone).strftime("%Y-%m-%d %H:%M")

    @property
    def delay(self) -> int:
        """How many windows before its own a release counts up to."""
        return self.definition.strategy.delay

    def local_ends(self) -> NDArray[np.datetime64]:
        """Ends of the windows in local time, without a zone."""
        return self._local(self.definition.windows.ends(self.steps))

    def local_counted(self) -> NDArray[np.datetime64]:
        """Up to when each release counts, in local time: ends of windows, less the delay."""
        return self._local(self._counted())

    def counted_until(self) -> int:
        """Microsecond up to which the last release counts."""
        return int(self._counted()[-1])

    def _counted(self) -> NDArray[np.int64]:
        last_windows = np.maximum(np.asarray(self.steps) - self.delay, 0)
        ends = self.definition.windows.ends(range(self.steps.stop))  # from the stream's beginning
        return np.asarray(ends[last_windows], dtype=np.int64)

    def _local(self, us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        local = _moments(us, self.definition).dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def curves(self) -> Curves:
        """What a chart shows: totals over the times up to which they count."""
        from counton.plots import Curves

        shown = slice(min(self.delay, len(self.steps) - 1), None)  # before it nothing is counted
        arrays = (
            np.asarray(a, np.float64)[shown] for a in (self.estimates, self.lower, self.upper)
        )
        return Curves(self.local_counted()[shown], self.definition.groups, *arrays)

    def table(self) -> pl.DataFrame:
        """One row per step and group: step, window, group, estimate, std, lower, upper.

        With a delay also ``counted_until``: the total is that of the events before it.
        """
        windows, groups = self.definition.windows, self.definition.groups
        steps = len(self.steps)

        def each(series: pl.Series) -> pl.Series:
            return series.gather(np.repeat(np.arange(steps), len(groups)))

        delayed = {"counted_until": each(_moments(self._counted(), self.definition))}
        return pl.DataFrame(
            {
                "step": np.repeat(np.arange(1, steps + 1), len(groups)),
                "window_start": each(_moments(windows.starts(self.steps), self.definition)),
                "window_end": each(_moments(windows.ends(self.steps), self.definition)),
                **(delayed if self.delay else {}),
                "group": pl.Series(list(groups) * steps, dtype=pl.String),
                "estimate": self.estimates.ravel(),
                "std": np.repeat(self.std, len(groups)),
                "lower": self.lower.ravel(),
                "upper": self.upper.ravel(),
            }
        )


def _moments(us: NDArray[np.int64], definition: Definition) -> pl.Series:
    series = pl.Series(np.asarray(us, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
    return series.dt.convert_time_zone(definition.windows.timezone)

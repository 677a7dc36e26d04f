"""Revised windows: counts of windows are released again, because rows arrive late.

A row belongs to the window w of its own time. It arrives with a lag l = 0, 1, ..., L: by the end of
window w + l. At the end of each window there is one release. Release t publishes,
for each of the windows t - L to t, the number of its rows that have arrived so far: a *version* of
the window's count. After release w + L the number of w is final.

The arrivals x_0, ..., x_L of a window at its lags are a stream of L + 1 steps. Its running totals
x_0 + ... + x_l are the versions. `WindowVersions` uses the same strategy with matrices B' and C'
for the L + 1 steps of each window, with separate nodes. So C is block-diagonal with a block C' for
each window, C = I (x) C', and B = I (x) B'.

Privacy. A row enters one window at one lag, and so one column of C, which is a column of C' in one
block. Its norms are those of C' for L + 1 steps, for any number of windows. Releases give the rows
of I (x) B' in an order that mixes the blocks. Noise is drawn once, as a function of the node, so
the order changes nothing, and B C = A holds number by number. Suppose an attacker chooses window
and lag of a row e, which adds d, from earlier releases. The change z -> z + d C e of
the noise leaves these releases unchanged and makes up for the row in all later ones, as within one
stream of L + 1 steps, because blocks share no node. So the guarantee of C' for L + 1 steps holds
for all windows together.

This mechanism is counton's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, quote
from counton.strategies.participation import Norm, Schedule, Structure, written_out
from counton.strategies.strategy import (
    LARGEST_DENSE,
    EndlessStrategy,
    Metric,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    check_window,
    window_ends,
)

#: Most windows.
LARGEST_HORIZON = 2**40
#: Most versions of a window.
MOST_VERSIONS = 2**12
#: Most times that a unit may replace its row by another.
MOST_CORRECTIONS = 1000


class WindowVersions(StreamStrategy):
    """A strategy for windows whose counts are released again, as rows arrive late.

    Each step is a window. A row's lag is the number of windows between its own and that in which it
    arrives. A version of a window's count includes the rows that have arrived up to some lag. `row`
    and `noise` describe the final one, `lag_row` and `lag_noise` others. A running stream releases,
    at the end of each window (a step), the newest version of each of the last windows
    (`release_noise`).

    Args:
        horizon: number of windows; it does not affect the amount of noise.
        inner: the strategy for the versions of one window: running totals over its lags.
        corrections: how many times a unit may take back its row and add another.

    Raises:
        InvalidInputError: a number out of range, or an inner strategy that is not for running
            totals without delay, or has too many steps.

    >>> from counton.strategies import Binary
    >>> revised = WindowVersions(365, Binary(7))
    >>> revised.lags, float(revised.l1_sensitivity()), revised.variance([1, 365]).tolist()
    (6, 3.0, [3.0, 3.0])
    >>> revised.lag_variance([0, 1, 6]).tolist()
    [1.0, 1.0, 3.0]
    """

    sources = ("calibration",)

    horizon: int

    def __init__(self, horizon: int, inner: StreamStrategy, corrections: int = 0) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        untyped: object = inner
        if not isinstance(untyped, StreamStrategy) or isinstance(untyped, EndlessStrategy):
            raise InvalidInputError(
                f"the strategy of a window is {quote(untyped)}; give a strategy for as many steps "
                "as a window has versions, such as SqrtToeplitz(15)"
            )
        bad = untyped.horizon is None or untyped.horizon > min(MOST_VERSIONS, LARGEST_DENSE)
        if bad or untyped.facts.release != "totals" or untyped.facts.delay:
            raise InvalidInputError(
                f"the strategy of a window is {untyped!r}, made for {untyped.facts.release}; give "
                f"a strategy of totals without delay, for at most {MOST_VERSIONS:,} versions"
            )
        self.inner = untyped
        self.corrections = check_integer("corrections", corrections, 0, MOST_CORRECTIONS)
        self.lags = (self.inner.horizon or 1) - 1
        facts = self.inner.facts
        self.facts = StrategyFacts(
            release="windows",
            lattice_bits=facts.lattice_bits,
            fraction_bits=facts.fraction_bits,
            unit_columns=facts.unit_columns and not self.corrections,
            unit_rows=facts.unit_rows,
            attained=False,  # sensitivities are largest over all lags; `column` is for lag 0
            # A correction enters nodes whose noise is in earlier releases, and an attacker may
            # choose it by these.
            causal=facts.causal and not self.corrections,
            rounding_variance=facts.rounding_variance,
            versions=self.lags + 1,
            corrections=self.corrections,
        )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[WindowVersions]:
        from counton.strategies.lines.dense import Dense
        from counton.strategies.streams.kary import KAry
        from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy
        from counton.strategies.streams.square_root import SqrtToeplitz

        solved = LeastSquaresStrategy(Dense.examples(4)[1])
        tree = KAry(3, 3, subtraction=True)
        return cls(horizon, tree), cls(horizon, SqrtToeplitz(3)), cls(horizon, solved)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values: number of windows, the inner strategy, and its nodes on each level."""
        inner = {"strategy": self.inner.saved_name, **self.inner.parameters}
        return {"horizon": self.horizon, "inner": inner, **self._own_parameters}

    @property
    def _own_parameters(self) -> dict[str, object]:
        more = {"corrections": self.corrections} if self.corrections else {}
        return {"nodes": self._nodes, **more}

    @property
    def _nodes(self) -> list[list[int]]:
        """Pairs (noise level, number of one window's nodes)."""
        # From these numbers follow the indices of each window's nodes.
        return [[level, width] for level, width in sorted(self._widths.items())]

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters with the inner strategy's description as JSON values."""
        named = {"strategy": self.saved_name, "horizon": self.horizon}
        return {**named, "inner": self.inner.to_dict(), **self._own_parameters}

    @classmethod
    @override
    def _from_description(
        cls, horizon: int, inner: StreamStrategy, nodes: Any, corrections: int = 0
    ) -> Self:
        strategy = cls(horizon, inner, corrections)
        if nodes != strategy._nodes:
            raise InvalidInputError(
                f"a window of {strategy.inner!r} has the nodes {strategy._nodes} by level, but "
                f"{str(nodes)[:200]} are saved: restore it from a copy"
            )
        return strategy

    @override
    def __repr__(self) -> str:
        return f"{self.saved_name}(horizon={self.horizon}, inner={self.inner!r})"

    # --------------------------------------------------------------------------- one block

    @cached_property
    def _widths(self) -> dict[int, int]:
        """For each noise level, the number of a window's nodes."""
        return self.inner._level_widths()

    def _in_block(self, window: int, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return nodes of the inner strategy as those of ``window``."""
        return tuple(
            node._replace(index=node.index + self._first(window) * self._widths[node.level])
            for node in nodes
        )

    def _first(self, window: int) -> int:
        """Return how many windows have nodes before those of ``window``.

        Some below 1 have nodes too; no row belongs to them, so their counts are noise alone.
        """
        return window - 1 + self.lags

    def _versions(self, field: NodeNoise, windows: range, lags: range) -> Integers:
        """Return the noise of versions: ``(len(lags), len(windows), *field.shape)``."""

        def run(level: int, nodes: range) -> Integers:
            return self._nodes_of(windows, field, level, nodes)

        steps = range(lags.start + 1, lags.stop + 1)
        return self.inner.noise(NoiseView((len(windows), *field.shape), run), steps)

    def _nodes_of(self, windows: range, field: NodeNoise, level: int, nodes: range) -> Integers:
        """Return the noise of each window's nodes: ``(len(nodes), len(windows), *field.shape)``.

        Indices begin anew in each window; one that it does not have gets the noise 0.
        """
        width = self._widths.get(level, 0)
        inside = range(max(nodes.start, 0), min(nodes.stop, width))
        noise = np.zeros((len(nodes), len(windows), *field.shape), np.int64)
        if not inside:
            return noise
        some = noise[inside.start - nodes.start : inside.stop - nodes.start]
        starts = [self._first(window) * width for window in windows]
        if 2 * len(inside) >= width:  # windows' nodes are consecutive
            whole = field.run(level, range(starts[0], starts[-1] + width))
            whole = whole.reshape(len(windows), width, *field.shape)
            some[...] = np.moveaxis(whole, 1, 0)[inside.start : inside.stop]
            return noise
        for index, start in enumerate(starts):
            some[:, index] = field.run(level, range(start + inside.start, start + inside.stop))
        return noise

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that a row enters if it arrives in its own window, ``step``.

        Args:
            step: number of the window, from 1 to the horizon.
        """
        return self.lag_column(step, 0)

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the final count of a window.

        Args:
            step: number of the window, from 1 to the horizon.
        """
        return self.lag_row(step, self.lags)

    def lag_column(self, window: int, lag: int) -> tuple[Node, ...]:
        """Return the nodes that a row enters if it arrives ``lag`` windows after its own.

        Args:
            window: number of the row's own window, from 1 to the horizon.
            lag: windows from its own to that in which it arrives, from 0 to ``lags``.

        Raises:
            InvalidInputError: another lag, or a window below 1.
            HorizonExceededError: a window beyond the horizon.
        """
        column = self.inner.column(self._check_lag(lag) + 1)
        return self._in_block(check_step(self, window), column)

    def lag_row(self, window: int, lag: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the version ``lag`` of a window.

        Args:
            window: number of the window, from 1 to the horizon.
            lag: windows after its own end, from 0 to ``lags``.

        Raises:
            InvalidInputError: another lag, or a window below 1.
            HorizonExceededError: a window beyond the horizon.
        """
        row = self.inner.row(self._check_lag(lag) + 1)
        return self._in_block(check_step(self, window), row)

    def _check_lag(self, lag: int) -> int:
        return check_integer("lag", lag, 0, self.lags)

    def lag_variance(self, lags: Steps, since: Steps | None = None) -> Floats:
        """Return the noise variances of versions, or of their differences from earlier ones.

        Args:
            lags: lags of the versions, from 0 to ``lags``: one or an array.
            since: lags of earlier versions, broadcast with ``lags``. Default: the versions
                themselves.
        """
        steps = np.asarray(lags, np.int64) + 1
        return self.inner.variance(steps, 0 if since is None else np.asarray(since) + 1)

    # ------------------------------------------------------------------------------- norms

    def l1_sensitivity(self) -> Fraction:
        """Return a proven bound of the 1-norm of a unit's change, with its corrections."""
        # A row that is taken back counts in its window from lag a to lag b, and changes the
        # measurements by column a minus column b of C'; the last row stays. The norms of all rows
        # add up.
        single = self.inner.l1_sensitivity()
        return single + self.corrections * self._retraction_norms.l1 if self.corrections else single

    def squared_sensitivity(self) -> Fraction:
        """Return a proven bound of the squared 2-norm of a unit's change, with its corrections."""
        # Rows of a unit in one cell of one window enter common nodes. For one correction the norm
        # is computed exactly: for rows in two windows, and for every pair of lags in one. Each
        # further correction adds a square, and twice its inner products with all others.
        if not self.corrections:
            return self.inner.squared_sensitivity()
        changes = self._retraction_norms
        count = self.corrections
        more = (count - 1) * changes.square + (count * (count + 1) - 2) * changes.product
        return changes.once + more

    @cached_property
    def _retraction_norms(self) -> _RetractionNorms:
        """Largest changes by a row that is taken back at a later lag, over all pairs of lags."""
        unit = 1 << self.facts.lattice_bits
        versions = self.lags + 1
        entering = written_out(self.inner).astype(np.int64 if unit < 2**20 else object)
        # The added last lag enters no node: a row that is taken back only there stays.
        gram = np.pad(entering.T @ entering, (0, 1))
        squares = np.diag(gram)
        l1 = square = product = alone = 0
        for begin in range(versions - 1):
            ends = np.arange(begin + 1, versions)
            apart = entering[:, ends] - entering[:, begin, None]
            l1 = max(l1, int(np.abs(apart).sum(axis=0).max()))
            moved = gram[begin] - gram[ends]  # by rows that arrive at each lag
            norms = squares[begin] + squares[ends] - 2 * gram[begin, ends]
            square = max(square, int(norms.max()))
            meets = norms[:, None] + squares + 2 * np.abs(moved)
            alone = max(alone, int(np.triu(meets[:, begin + 1 : -1]).max()))
            # Rows of one unit may also count from a later lag on, up to any lag after it.
            later = moved[:, begin + 1 : -1]
            after = moved[:, :begin:-1]
            highest, lowest = (
                extreme.accumulate(after, axis=1)[:, -2::-1] for extreme in (np.maximum, np.minimum)
            )
            meets = np.maximum(highest - later, later - lowest)
            product = max(product, int(np.triu(meets).max()))
        once = max(alone, int(squares.max()) + square)  # in one window, or in two
        return _RetractionNorms(
            Fraction(l1, unit), *(Fraction(bound, unit**2) for bound in (square, product, once))
        )

    @property
    @override
    def structure(self) -> Structure:
        """Windows share no node, so the norms of a unit's rows in several of them add up."""
        return Structure(largest_sum=self._largest_sum, aligned=self.inner.structure.aligned)

    def _largest_sum(self, norm: Norm, schedule: Schedule) -> int:
        single = self.l1_sensitivity() if norm == 1 else self.squared_sensitivity()
        return int(single * schedule.steps * (1 << norm * self.facts.lattice_bits))

    # ------------------------------------------------------------------------------ errors

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of final numbers, or of sums over the windows since + 1 .. step.

        Args:
            steps: one window or an array of windows, from 1 on.
            since: windows from 0 on, broadcast with ``steps``, after which each sum begins.
                Default: single final numbers.
        """
        first, last = window_ends(self, steps, since)
        return np.asarray((last - first) * float(self.lag_variance([self.lags])[0]))

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return the variance of a final number, equal for all windows.

        Args:
            metric: "mean" or "max"; both are equal.
            of: has no effect.
        """
        check_metric(metric)
        return float(self.lag_variance([self.lags])[0])

    @override
    def largest_reads(self, stops: Integers) -> Floats:
        largest = self.inner.largest_reads(np.array([self.lags + 1]))
        return np.full(stops.shape, float(largest[0]))

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        rounding = self.inner._window_rounding(np.array([0]), np.array([self.lags + 1]))
        return np.asarray((last - first) * float(rounding[0]))

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        self.inner._check_distribution(distribution)

    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals of final numbers."""
        return _variance_of_stretches(self, stops, weights)

    # ------------------------------------------------------------------------------- noise

    def lag_noise(self, field: NodeNoise, window: int, lags: range) -> Integers:
        """Return the noise of one window's versions: int64, ``(len(lags), *field.shape)``.

        Args:
            field: source of the noise of nodes.
            window: number of the window, up to the horizon.
            lags: consecutive lags, from 0 to ``lags``.
        """
        return self._versions(field, range(window, window + 1), lags)[:, 0]

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the final numbers of consecutive windows.

        Args:
            field: source of the noise of nodes.
            steps: consecutive windows, from 1 on.
        """
        check_window(self, steps)
        return self.versions_noise(field, steps, [self.lags] * len(steps))

    def versions_noise(self, field: NodeNoise, steps: range, lags: Sequence[int]) -> Integers:
        """Return the noise of one version of each of some windows, each at its own lag.

        Args:
            field: source of the noise of nodes.
            steps: consecutive windows, from 1 on.
            lags: one lag for each window, from 0 to ``lags``.

        Returns:
            int64, shape ``(len(steps), *field.shape)``.
        """
        noise = np.empty((len(steps), *field.shape), np.int64)
        for index, (window, lag) in enumerate(zip(steps, lags, strict=True)):
            noise[index] = self.lag_noise(field, window, range(lag, lag + 1))[0]
        return noise

    @override
    def step_reader(self, field: NodeNoise) -> Reader:
        return VersionReader(self, field)

    def release_noise(self, field: NodeNoise, steps: range) -> Integers:
        """Return the noise of all numbers of consecutive steps: int64.

        It has the shape ``(len(steps), *field.shape, lags + 1)``, with the newest window first,
        and last the one that becomes final.

        Args:
            field: source of the noise of nodes.
            steps: consecutive steps at whose ends numbers are released, from 1 on.
        """
        check_window(self, steps)
        noise_by_step = np.zeros((len(steps), self.lags + 1, *field.shape), np.int64)
        windows = range(steps.start - self.lags, steps.stop)
        together = max(1, _NUMBERS_PER_DRAW // ((self.lags + 1) * math.prod(field.shape)))
        together = min(together, max(len(steps), 8))  # few steps need few versions
        for some in (
            windows[start : start + together] for start in range(0, len(windows), together)
        ):
            # The lags at which each window is released at these steps: it is released at its own
            # end, and at the ends of the next ``lags`` windows.
            lag_ranges = [
                range(max(steps.start - window, 0), min(steps.stop - 1 - window, self.lags) + 1)
                for window in some
            ]
            lags = range(lag_ranges[-1].start, lag_ranges[0].stop)
            noise = self._versions(field, some, lags)
            for index, (window, own_lags) in enumerate(zip(some, lag_ranges, strict=True)):
                some_lags = np.arange(own_lags.start, own_lags.stop)
                noise_by_step[window + some_lags - steps.start, some_lags] = noise[
                    some_lags - lags.start, index
                ]
        return np.moveaxis(noise_by_step, 1, -1)


class VersionReader(Reader):
    """The noise of one running stream of revised windows, step by step.

    >>> from counton.testing import HashedNoise
    >>> from counton.strategies import Binary
    >>> VersionReader(WindowVersions(9, Binary(3)), HashedNoise((2,))).noise(range(1, 5)).shape
    (4, 2, 3)
    """

    _strategy: WindowVersions

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        return self._strategy.release_noise(self._field, steps)

    @override
    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(steps), _STEPS_PER_PART):
            yield self.noise(steps[start : start + _STEPS_PER_PART])


#: Number of steps whose noise is computed together.
_STEPS_PER_PART = 256
#: Number of noise values computed together: windows times lags times cells.
_NUMBERS_PER_DRAW = 2**16


class AsOf(StreamStrategy):
    """The newest count of each window as of one step.

    C is that of `WindowVersions`; errors depend on how long ago a window ended.

    Args:
        windows: a `WindowVersions` strategy.
        step: the number of windows that have ended.

    Raises:
        InvalidInputError: another strategy, or a step above its horizon.

    >>> from counton.strategies import Binary
    >>> AsOf(WindowVersions(365, Binary(7)), 9).variance(range(1, 10)).tolist()
    [3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 2.0, 1.0, 1.0]
    """

    sources = ("calibration",)

    horizon: int

    def __init__(self, windows: WindowVersions, step: int) -> None:
        untyped: object = windows
        if not isinstance(untyped, WindowVersions):
            raise InvalidInputError(
                f"windows are {quote(untyped)}; give a strategy WindowVersions(...)"
            )
        self.windows = untyped
        self.horizon = self.step = check_integer("step", step, 1, untyped.horizon)
        self.facts = untyped.facts._replace(versions=1, reads_another=True)

    @classmethod
    @override
    def _from_description(cls, windows: WindowVersions, night: int) -> Self:
        return cls(windows, night)  # the stored name of the step

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[AsOf]:
        return tuple(cls(windows, horizon) for windows in WindowVersions.examples(horizon))

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values: the parameters of the windows' strategy, and the step."""
        windows = {"strategy": self.windows.saved_name, **self.windows.parameters}
        return {"windows": windows, "night": self.step}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters with the windows' description as JSON values."""
        windows = self.windows.to_dict()
        return {"strategy": self.saved_name, "windows": windows, "night": self.step}

    @override
    def __repr__(self) -> str:
        return f"{self.saved_name}({self.windows!r}, step={self.step})"

    def lags(self, steps: Steps) -> Integers:
        """Return, for each window, how many windows after it its newest count was released.

        Args:
            steps: windows from 1 to ``step``: one or an array.

        >>> from counton.strategies import Binary
        >>> AsOf(WindowVersions(365, Binary(3)), 9).lags([1, 7, 8, 9]).tolist()
        [2, 2, 1, 0]
        """
        return np.minimum(self.step - np.asarray(steps, np.int64), self.windows.lags)

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that a row enters if it arrives in its own window, ``step``.

        Args:
            step: number of the window, from 1 to the horizon.
        """
        return self.windows.column(check_step(self, step))

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the newest count of a window.

        Args:
            step: number of the window, from 1 to the horizon.
        """
        lag = int(self.lags(check_step(self, step)))
        return self.windows.lag_row(step, lag)

    def l1_sensitivity(self) -> Fraction:
        return self.windows.l1_sensitivity()

    def squared_sensitivity(self) -> Fraction:
        return self.windows.squared_sensitivity()

    @property
    @override
    def structure(self) -> Structure:
        return self.windows.structure

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of newest counts, or of sums over the windows since + 1 .. step.

        Args:
            steps: one window or an array of windows, from 1 on.
            since: windows from 0 on, broadcast with ``steps``, after which each sum begins.
                Default: single windows.
        """
        first, last = window_ends(self, steps, since)
        return self._sum(self._variances, first, last)

    @cached_property
    def _variances(self) -> Floats:
        """Noise variances of newest counts, for each lag: shape ``(lags + 1,)``."""
        return self.windows.lag_variance(np.arange(self.windows.lags + 1))

    def _sum(self, values_by_lag: Floats, first: Integers, last: Integers) -> Floats:
        """Return sums over the windows first + 1 .. last of their ``values_by_lag``."""
        # These are sums over the newest 0, 1, ... windows.
        sums_until = np.concatenate([[0.0], np.cumsum(values_by_lag)])

        def newest(count: Integers) -> Floats:
            some = np.minimum(count, len(values_by_lag))
            return np.asarray(sums_until[some] + (count - some) * float(values_by_lag[-1]))

        return np.asarray(newest(self.step - first) - newest(self.step - last))

    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals of newest counts."""
        return _variance_of_stretches(self, stops, weights)

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return the mean or the largest noise variance of windows' newest counts.

        Args:
            metric: "mean" over all windows, or "max" for the largest.
            of: has no effect.
        """
        check_metric(metric)
        variances = self._variances[: self.step]
        final = float(self._variances[-1]) * max(self.step - len(self._variances), 0)
        return (
            float(variances.max())
            if metric == "max"
            else (float(variances.sum()) + final) / self.step
        )

    @override
    def largest_reads(self, stops: Integers) -> Floats:
        return np.full(stops.shape, self._most_read)

    @cached_property
    def _most_read(self) -> float:
        """Upper bound of the weight of a node's noise in the newest count of any window."""
        inner = self.windows.inner
        last = min(self.windows.lags + 1, self.step)
        if last > self.windows.lags:
            return float(inner.largest_reads(np.array([last]))[0])
        return inner._read_until(last)

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        ends = np.arange(1, self.windows.lags + 2)
        roundings_by_lag = self.windows.inner._window_rounding(np.zeros_like(ends), ends)
        return self._sum(roundings_by_lag, first, last)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        self.windows._check_distribution(distribution)

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        check_window(self, steps)
        return self.windows.versions_noise(field, steps, self.lags(steps).tolist())


class _RetractionNorms(NamedTuple):
    """How far a row moves a window's measurements, at most, if it is taken back later.

    It arrives at a lag a, and is taken back at a later lag b. Each value is the largest over all a
    < b.

    Attributes:
        l1, square: 1-norm and squared 2-norm of the change by the row.
        product: magnitude of the inner product with the change by another row of the unit, which
            arrives at b or later, and is taken back still later.
        once: squared 2-norm of the sum with the change by another row that is never taken back.
    """

    l1: Fraction
    square: Fraction
    product: Fraction
    once: Fraction


def _variance_of_stretches(strategy: StreamStrategy, stops: Integers, weights: Floats) -> float:
    """Return the variance of a weighted sum of totals of windows with independent noise."""
    variance = 0.0
    for first, last, weight in _stretches(stops, weights):
        variance += weight**2 * float(strategy.variance([last], [first])[0])
    return variance


def _stretches(stops: Integers, weights: Floats) -> Iterator[tuple[int, int, float]]:
    """Yield (first, last, weight): ranges first + 1 .. last of equal weight in a sum of totals.

    A step's weight is the sum of those of all totals that include it; those of weight 0 are left
    out.

    >>> [*_stretches(np.array([5, 3, 4]), np.array([1.0, 2.0, -1.0]))]
    [(0, 3, 2.0), (4, 5, 1.0)]
    """
    ends, end_indices = np.unique(stops, return_inverse=True)
    at_ends = np.bincount(end_indices.reshape(-1), weights, len(ends))
    counted = np.cumsum(at_ends[::-1])[::-1]
    first = 0
    for last, weight in zip(ends.tolist(), counted.tolist(), strict=True):
        if weight and last > first:
            yield first, last, weight
        first = last

"""Revised windows, and running totals of all rows that have arrived, for a part of the privacy
budget.

The release at the end of window t, a *night*, publishes the versions of windows as in
`counton.strategies.streams.window_versions`, and the number of all rows that have arrived in the
nights 1 to t. The totals have a strategy, nodes and a noise law of their own. `LeastSquaresAsOf`
combines versions and totals by least squares.

Privacy. A row enters one window at one lag, and the total of one night: the night of its arrival. C
is block-diagonal, I (x) C' for windows and C" for nights, and no node belongs to both. So the
releases are two mechanisms on the same rows with independent noise. The noise of windows is
calibrated to a part 1 - share of the guarantee, and the noise of totals to the part share. Both
bounds hold against an attacker who chooses each night's rows by all earlier releases. If a row e
adds d, the change z -> z + d C e of the noise makes up for it in both blocks at once, and densities
of independent blocks multiply. So epsilons add up, and so do the rhos of zero-concentrated
differential privacy, and both parts together give the guarantee exactly.

This mechanism is counton's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import (
    DiscreteLaplace,
    NoiseDistribution,
    law_from_dict,
    law_to_dict,
)
from counton.base.errors import InvalidInput
from counton.base.exact import exact, quote
from counton.strategies.joint_errors import noise_variance
from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StrategyFacts,
    StreamStrategy,
    Workload,
    check_law,
    check_step,
    largest_reads,
    reader_of,
    step_reader_of,
    window_ends,
    window_rounding,
)
from counton.strategies.streams.window_versions import AsOf, WindowVersions

#: Most windows: least squares over all nights takes time of the third power of their number.
MOST_WINDOWS = 1024
#: Numbers estimated by least squares are rounded to multiples of 2^-10.
READ_BITS = 10
#: Least variance of a node's noise in matrices: under a very large budget, the variance rounds to
#: 0.
_LEAST = 1e-200


class WindowsAndTotals(StreamStrategy):
    """Window counts that are released again until they are final, and running totals of all rows
    that have arrived.

    Its steps are windows, and the number of a step is the final number of the window. A running
    stream releases, at the end of each window (a "night"), the newest version of each of the last
    windows, and then the total of all rows that have arrived.

    Args:
        windows: the strategy of the windows; without corrections.
        totals: the strategy of the running totals, for at least as many steps as there are
            windows.
        share: the part of the privacy budget for the totals, between 0 and 1.
        law: the noise distribution of a node of the totals. That of the windows' nodes is
            chosen with the design.

    Raises:
        InvalidInput: windows with corrections, more than 1024 windows, totals for too few
            steps or with a delay, or a share out of range.

    >>> from counton.strategies import Binary
    >>> both = WindowsAndTotals(
    ...     WindowVersions(7, Binary(3)), Binary(7), "0.25", DiscreteLaplace(12))
    >>> both.lag_column(2, 1)
    (Node(level=1, index=3, weight=1), Node(level=2, index=1, weight=1),
     Node(level=4, index=0, weight=1))
    """

    sources = ("calibration",)

    horizon: int

    def __init__(
        self,
        windows: WindowVersions,
        totals: StreamStrategy,
        share: Fraction | int | str,
        law: NoiseDistribution,
    ) -> None:
        self.windows, self.totals = _fitting(windows, totals)
        self.horizon, self.share, self.law = windows.horizon, checked_share(share), law
        facts, beside = windows.facts, totals.facts
        self.facts = StrategyFacts(
            workload="windows",
            lattice_bits=facts.lattice_bits,
            fraction_bits=max(facts.fraction_bits, beside.fraction_bits),
            unit_columns=facts.unit_columns and beside.unit_columns,
            unit_rows=facts.unit_rows,
            attained=False,
            causal=facts.causal and beside.causal,
            local=facts.local and beside.local,
            buffer_size=beside.buffer_size,
            drawn_ahead=beside.drawn_ahead,
            rounding_variance=facts.rounding_variance,
            versions=facts.versions + 1,
            totals=True,
        )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[WindowsAndTotals]:
        """Return strategies for tests: trees for windows and for totals, with integer
        measurements.
        """
        from counton.strategies.streams.kary import KAry

        tree = WindowVersions(min(horizon, MOST_WINDOWS), KAry(3, 3, subtraction=True))
        law = DiscreteLaplace(Fraction(9))
        return tuple(cls(tree, KAry(tree.horizon, arity), "1/4", law) for arity in (2, 3))

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: the parameters of both strategies, the share, and
        the noise distribution of the totals' nodes.
        """
        parts = {"windows": self.windows, "totals": self.totals}
        named = {
            name: {"strategy": one.saved_name, **one.parameters} for name, one in parts.items()
        }
        return {**named, **self._own_parameters}

    @property
    def _own_parameters(self) -> dict[str, Any]:
        return {"share": str(self.share), "law": law_to_dict(self.law)}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON values, including those of both strategies."""
        parts = {"windows": self.windows.to_dict(), "totals": self.totals.to_dict()}
        return {"strategy": self.saved_name, **parts, **self._own_parameters}

    @classmethod
    def _from_description(
        cls, windows: WindowVersions, totals: StreamStrategy, share: str, law: dict[str, Any]
    ) -> Self:
        return cls(windows, totals, share, law_from_dict(law))

    @override
    def __repr__(self) -> str:
        return f"{self.saved_name}({self.windows!r}, {self.totals!r}, share={self.share})"

    # ----------------------------------------------------------------------------- C and B

    @cached_property
    def _first_level(self) -> int:
        """The first noise level of the totals: after all levels of windows."""
        return 1 + max(self.windows._widths)

    def _own_law(self, level: int) -> NoiseDistribution | None:
        return self.law if level >= self._first_level else None

    def _of_totals(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(node._replace(level=node.level + self._first_level) for node in nodes)

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that a row enters if it arrives by the end of its own window.

        ``step`` is the number of the window.
        """
        return self.lag_column(step, 0)

    def lag_column(self, window: int, lag: int) -> tuple[Node, ...]:
        """Return the nodes that a row enters if it belongs to ``window`` and arrives ``lag``
        windows later.

        They are nodes of the window and of the totals. A row that arrives after the last night
        enters nodes of its window alone.
        """
        night = window + lag
        arrives = self.totals.column(night) if night <= self.horizon else ()
        return (*self.windows.lag_column(window, lag), *self._of_totals(arrives))

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the final number of a window; ``step`` is its
        number.
        """
        return self.windows.row(step)

    def total_row(self, night: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the total released on a night."""
        return self._of_totals(self.totals.row(check_step(self, night)))

    def l1_sensitivity(self) -> Fraction:
        """Return the 1-norm by which a row changes the measurements of windows and totals together.

        Their nodes have different noise distributions.
        """
        return self.windows.l1_sensitivity() + self.totals.l1_sensitivity()

    def squared_sensitivity(self) -> Fraction:
        """Return the squared 2-norm by which a row changes the measurements of windows and totals
        together.
        """
        return self.windows.squared_sensitivity() + self.totals.squared_sensitivity()

    # ------------------------------------------------------------------------------ errors

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of final numbers as they are released, or of sums of them over the
        windows after ``since``.

        The unit is the variance of a windows' node. Estimates from all releases have smaller ones:
        `LeastSquaresAsOf`.
        """
        return self.windows.variance(steps, since)

    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """Return the variance of a final number as it is released, in variances of a windows' node.

        ``of`` changes nothing: the numbers are always those of windows.
        """
        return self.windows.overall_variance(metric, of)

    @override
    def _largest_reads(self, stops: Integers) -> Floats:
        return self.windows._largest_reads(stops)

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        more = 2.0 ** (self.facts.fraction_bits - self.windows.facts.fraction_bits)
        return more * self.windows._window_rounding(first, last)

    @override
    def _check_law(self, law: NoiseDistribution) -> None:
        check_law(self.windows, law)
        check_law(self.totals, self.law)

    # ------------------------------------------------------------------------------- noise

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the final numbers of consecutive windows: int64, ``(len(steps),
        *field.shape)``.
        """
        return self.windows.noise(field, steps) << self._coarser(self.windows)

    def _coarser(self, part: StreamStrategy) -> int:
        """Return by how many fraction bits the released numbers exceed the noise of one part,
        windows or totals.
        """
        return int(self.facts.fraction_bits - part.facts.fraction_bits)

    @override
    def _step_reader(self, field: NodeNoise) -> Reader:
        return _NightReader(self, field)


class _NightReader(Reader):
    """The noise of one running stream, night by night: of the versions of windows, and last of the
    total.
    """

    def __init__(self, strategy: WindowsAndTotals, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        level = strategy._first_level

        def run(of: int, nodes: range) -> Integers:
            return field.run(level + of, nodes)

        self._both = strategy
        self._windows = step_reader_of(strategy.windows, field)
        self._totals = reader_of(strategy.totals, NoiseView(field.shape, run))

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        of, both = self._windows.noise(steps), self._both
        totals = self._totals.noise(steps)[..., None]
        return np.concatenate(
            [of << both._coarser(both.windows), totals << both._coarser(both.totals)], axis=-1
        )

    @override
    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        yield self.noise(steps)


class LeastSquaresAsOf(AsOf):
    """The numbers of windows as of a night (a release at the end of a window), estimated from all
    releases so far by least squares.

    Until night m these have been published: versions of windows, with A_m the sum of the newest
    version of each window, and R_m, the total of all rows that have arrived. A_m and R_m are the
    same number with different noise, so D_m = R_m - A_m is noise alone. There are as many D_m as
    there are more measurements than unknown numbers, so every combination of measurements that is
    noise alone is a combination of them. A sum S of windows has the best linear unbiased estimate
    (Gauss and Markov)

        S - G' D,    G = Cov(D)^-1 Cov(D, S),    of variance Var(S) - G' Cov(D, S).

    The estimates are consistent: the estimate of a sum is the sum of its windows' estimates.

    Its description as JSON is that of the stream's strategy; the night is the stream's number of
    released steps.

    Args:
        both: the stream's strategy.
        night: the number of windows that have ended.
        law: the noise distribution of a windows' node.
    """

    def __init__(self, both: WindowsAndTotals, night: int, law: NoiseDistribution) -> None:
        super().__init__(both.windows, night)
        self.both, self.law = both, law
        self.facts = StrategyFacts(
            workload="windows",
            lattice_bits=both.windows.facts.lattice_bits,
            fraction_bits=READ_BITS,
            unit_columns=False,
            attained=False,
            causal=both.facts.causal,
            reads_another=True,
            least_squares=True,
        )

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: those of the stream's strategy."""
        return self.both.parameters

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description of the stream's strategy as JSON values."""
        return self.both.to_dict()

    @override
    def __repr__(self) -> str:
        return f"{self.saved_name}({self.both!r}, night={self.night})"

    @cached_property
    def _unit(self) -> float:
        """Variance of the noise of a windows' node, in squared data units."""
        return max(float(self.law.variance), _LEAST) / 4.0**self.facts.lattice_bits

    @cached_property
    def _of_versions(self) -> Floats:
        """Covariance matrix of the versions of one window, by lag, in squared data units."""
        lags = np.arange(min(self.windows.lags, self.night - 1) + 1)
        return self.windows.lag_covariance(lags[:, None], lags) * self._unit

    @cached_property
    def _read(self) -> tuple[Floats, Floats]:
        """Two matrices: the weights G of D_1, D_2, ... in the sum up to each window, shape
        ``(nights, windows)``; and the covariance of the estimates of these sums, in squared data
        units.
        """
        nights, last = np.arange(self.night), len(self._of_versions) - 1
        # Covariance of the versions of a window on a night and on the last night, windows by
        # nights.
        lags = nights - nights[:, None]
        known, newest = lags >= 0, np.minimum(lags[:, -1], last)
        there = np.where(known, self._of_versions[newest[:, None], lags.clip(0, last)], 0.0)
        with_sums = -np.cumsum(there, axis=0)  # Cov(S, D), windows by nights
        alone = np.cumsum(self._of_versions[newest, newest])
        measured = self._of_totals + self._of_newest(last)
        root = np.linalg.cholesky(measured)
        half = np.linalg.solve(root, with_sums.T)
        read = np.linalg.solve(root.T, half)
        sums = alone[np.minimum(nights[:, None], nights)] - half.T @ half
        return read, (sums + sums.T) / 2

    def _of_newest(self, last: int) -> Floats:
        """Return the covariance matrix of A_1, A_2, ..., the sums of newest versions on each night.

        ``last`` is the largest lag.
        """
        ages, found = np.minimum(np.arange(self.night), last), np.zeros((self.night,) * 2)
        for later in range(self.night):
            before = ages[: self.night - later]
            shared = np.cumsum(self._of_versions[before, np.minimum(before + later, last)])
            at = np.arange(len(shared))
            found[at, at + later] = found[at + later, at] = shared
        return found

    @cached_property
    def _of_totals(self) -> Floats:
        """Covariance matrix of the released totals of all nights, in squared data units."""
        totals, law = self.both.totals, self.both.law
        first, last = np.triu_indices(self.night)
        alone = noise_variance(totals, law, np.arange(1, self.night + 1))
        apart = noise_variance(totals, law, last + 1, since=first + 1)
        found = np.zeros((self.night, self.night))
        found[first, last] = found[last, first] = (alone[first] + alone[last] - apart) / 2
        return found

    def estimates(self, newest: NDArray[Any], summed: NDArray[Any], totals: NDArray[Any]) -> Floats:
        """Return the estimated number of each window, from the releases of all nights so far.

        Args:
            newest: the newest version of each window, shape ``(windows, cells)``.
            summed: for each night the sum of the newest versions of all windows, shape
                ``(nights, cells)``.
            totals: the total released on each night, shape ``(nights, cells)``.

        Returns:
            Shape ``(windows, cells)``: multiples of 2^-10, in the unit of the arguments.
        """
        apart = totals.astype(np.float64) - summed
        sums = np.cumsum(newest.astype(np.float64), axis=0) - self._read[0].T @ apart
        whole = np.rint(sums * 2.0**READ_BITS) / 2.0**READ_BITS
        return np.diff(whole, axis=0, prepend=0.0)

    # ------------------------------------------------------------------------------ errors

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        raise InvalidInput(
            f"window {step} is estimated from measurements of all nights by least squares, so it "
            "has no row of its own: use variance and covariances"
        )

    @override
    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of the estimated sums of windows up to ``steps``, after ``since``,
        in variances of a windows' node.
        """
        first, last = window_ends(self, steps, since)
        sums = np.pad(self._read[1], (1, 0))
        found = sums[last, last] + sums[first, first] - 2 * sums[first, last]
        return np.asarray(np.where(first < last, np.maximum(found, 0.0), 0.0) / self._unit)

    @override
    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of estimated totals up to each window in ``stops``.

        The unit is the variance of a windows' node.
        """
        sums = np.pad(self._read[1], (1, 0))[np.ix_(stops, stops)]
        return max(float(weights @ sums @ weights), 0.0) / self._unit

    @override
    def _largest_reads(self, stops: Integers) -> Floats:
        totals = self.both.totals
        finer = self.windows.facts.lattice_bits - totals.facts.lattice_bits
        weight = float(np.abs(self._read[0]).sum(axis=0).max()) * 2.0**finer
        read = float(largest_reads(totals, np.array([self.night]))[0]) * weight
        return np.maximum(super()._largest_reads(stops), read)

    @override
    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """Return the mean or the largest variance of the windows' estimates, in variances of a
        windows' node.

        ``of`` changes nothing: the numbers are always those of windows.
        """
        found = self.variance(np.arange(1, self.night + 1))
        return float(found.max() if metric == "max" else found.mean())

    @cached_property
    def _most_rounding(self) -> Floats:
        """Bound on the error by rounding in the sum of the first 0, 1, ... windows, in units of
        2^-10.
        """
        read, lags = np.pad(self._read[0], ((0, 0), (1, 0))), len(self._of_versions) - 1
        later = np.cumsum(read[::-1], axis=0)[::-1]  # sums over this night and all later ones
        final = np.zeros_like(later)
        final[: self.night - lags] = later[lags:]
        stops = np.arange(self.night + 1)
        own = np.arange(1, self.night + 1)[:, None] <= stops
        size = np.abs(read).sum(axis=0)
        versions = np.abs(final + own).sum(axis=0) + lags * size

        def most(of: StreamStrategy) -> float:
            one = float(window_rounding(of, np.array([0]), np.array([1]))[0])
            return one * 2.0**-of.facts.fraction_bits

        moved = versions * most(self.windows) + size * most(self.both.totals)
        return np.asarray(moved * 2.0**READ_BITS + 0.5)

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        both = self._most_rounding[first] * (first > 0) + self._most_rounding[last]
        return np.asarray(np.where(first < last, both, 0.0))

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the estimates of consecutive windows, computed from that of all
        nights so far.

        It is int64 of shape ``(len(steps), *field.shape)``, rounded to multiples of 2^-10.
        """
        nights = step_reader_of(self.both, field).noise(range(1, self.night + 1))
        scale = 2.0**-self.both.facts.fraction_bits
        newest, summed, totals = by_night(nights, self.windows.lags)
        flat = [one.reshape(self.night, -1) * scale for one in (newest, summed, totals)]
        found = np.rint(self.estimates(*flat) * 2.0**READ_BITS).astype(np.int64)
        return found.reshape(self.night, *field.shape)[steps.start - 1 : steps.stop - 1]


def by_night(released: NDArray[Any], lags: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the newest version of each window, the sum of newest versions on each night, and the
    total of each night.

    Args:
        released: the numbers released on each night, shape ``(nights, *cells, lags + 2)``:
            versions by lag, then the total.
        lags: number of windows after which a window's number is final.

    >>> first, second = [7, 0, 0, 8], [4, 9, 0, 12]
    >>> [one.tolist() for one in by_night(np.array([first, second]), 2)]
    [[9, 4], [7, 13], [8, 12]]
    """
    night = len(released)
    windows = np.arange(1, night + 1)
    age = np.minimum(night - windows, lags)
    by_age = np.moveaxis(released, -1, 1)
    newest = by_age[windows + age - 1, age]
    final = by_age[:, lags].copy()
    final[:lags] = 0  # windows before the first one are noise alone
    summed = np.cumsum(final, axis=0)
    for lag in range(lags):
        summed[lag:] += by_age[lag:, lag]
    return newest, summed, by_age[:, lags + 1]


def checked_share(share: Any) -> Fraction:
    """Return the part of the privacy budget for totals as an exact number.

    Raises:
        InvalidInput: not a number above 0 and below 1.

    >>> checked_share("0.1"), checked_share(0.25)
    (Fraction(1, 10), Fraction(1, 4))
    """
    found = exact(share, "also_totals")
    if not 0 < found < 1:
        raise InvalidInput(
            f"also_totals is {quote(share)}; it is the part of the privacy budget that running "
            "totals get beside revised windows, and must be above 0 and below 1: try 0.1"
        )
    return found


def _fitting(windows: Any, totals: Any) -> tuple[WindowVersions, StreamStrategy]:
    """Return the strategies of windows and of totals, if they can be combined.

    Raises:
        InvalidInput: they cannot: see `WindowsAndTotals`.
    """
    if not isinstance(windows, WindowVersions) or windows.corrections:
        raise InvalidInput(
            f"windows are {quote(windows)}; give WindowVersions(...) without corrections"
        )
    if windows.horizon > MOST_WINDOWS:
        raise InvalidInput(
            f"there are {windows.horizon:,} windows, and with totals beside them at most "
            f"{MOST_WINDOWS:,} are possible, because all are read together: give fewer"
        )
    served = isinstance(totals, StreamStrategy) and not isinstance(totals, EndlessStrategy)
    if not (served and totals.facts.workload == "totals" and not totals.facts.delay):
        raise InvalidInput(f"totals are {quote(totals)}; give a strategy of totals without a delay")
    if totals.horizon is None or totals.horizon < windows.horizon:
        raise InvalidInput(
            f"the strategy of totals serves {totals.horizon} steps, but there are "
            f"{windows.horizon:,} windows: give a strategy for that number"
        )
    return windows, totals

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

Corrections. If a unit may replace its row K times, `WindowVersions` bounds how far it moves the
windows. For the totals, let p_t be what the unit's row adds to each cell on night t: the vector of
the row that counts, or 0. It changes at most K + 1 times. A row that is replaced rises and falls,
so all rises and falls of all cells together are at most (2 K + 1) times one row, and arrivals are
the changes x_t = p_t - p_(t-1). So the 1-norm by which they move the measurements is at most (2 K +
1) times that of one row. For the 2-norm, let A be a number for which any N changes by +1 and -1 in
turn move them by at most A N in the squared 2-norm (`participation.each_alternating`). If the
entries of p are between 0 and c, the set of nights on which a cell's entry exceeds u changes N(u)
times, and

    ||C x||_2 <= integral over u from 0 to c of sqrt(A N(u)) <= sqrt(c A integral of N(u)),

where the integral of N is the sum of the cell's rises and falls. Cells add up in the squared norm,
so the unit moves the totals by at most c A (2 K + 1) ||row||_1. If entries may have both signs, p
is the difference of two such series, and ||a - b||^2 <= 2 ||a||^2 + 2 ||b||^2 doubles this. The
night of a correction may be chosen by earlier releases, so the noise of both parts is calibrated to
an attacker who has seen part of it.

Guarantees with delta. Two ways divide (epsilon, delta), and `numbers.node_law` takes the one whose
windows have less noise: two parts of epsilon, with Laplace noise and no delta; or two parts of the
largest rho that implies (epsilon, delta), with Gaussian noise.

This mechanism is counton's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import (
    DiscreteLaplace,
    NoiseDistribution,
    Sensitivity,
    law_from_dict,
    law_to_dict,
)
from counton.base.errors import InvalidInput
from counton.base.exact import exact, quote
from counton.strategies.participation import each_alternating, sensitivities
from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StreamStrategy,
    Workload,
    check_law,
    largest_reads,
    reader_of,
    step_reader_of,
    window_ends,
    window_rounding,
)
from counton.strategies.streams.night_contrasts import NightContrasts
from counton.strategies.streams.window_versions import AsOf, WindowVersions

#: Most windows: nights are read together by a matrix of their number squared (128 MiB).
MOST_WINDOWS = 4096
#: Numbers read by least squares are rounded to multiples of 2^-10.
READ_BITS = 10
#: Least variance of a node's noise in matrices: under a very large budget, the variance rounds to
#: 0.
_LEAST = 1e-200
#: Sums of windows whose errors are computed together.
_TOGETHER = 64
#: Pairs of ends, for each end, from which on the covariance of all ends is computed.
_MANY = 4


class WindowsAndTotals(StreamStrategy):
    """Window counts that are released again until they are final, and running totals of all rows
    that have arrived.

    Each step is a window, and the release of a step is the window's final count. A running stream
    releases, at the end of each window (a "night"), the newest version of each of the last windows,
    and then the total of all rows that have arrived.

    Args:
        windows: the strategy of the windows.
        totals: the strategy of the running totals, for at least as many steps as there are windows.
        share: the part of the privacy budget for the totals, between 0 and 1.
        law: the noise distribution of a node of the totals. The distribution for the windows' nodes
            is chosen with the design.

    Raises:
        InvalidInput: more than 4096 windows, totals for too few steps or with a delay, or a share
            out of range.

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
        given: object = windows
        if not isinstance(given, WindowVersions):
            raise InvalidInput(f"windows are {quote(given)}; give WindowVersions(...)")
        if windows.horizon > MOST_WINDOWS:
            raise InvalidInput(
                f"there are {windows.horizon:,} windows, and with totals beside them at most "
                f"{MOST_WINDOWS:,} are possible, because all are read together: give fewer"
            )
        other: object = totals
        served = isinstance(other, StreamStrategy) and not isinstance(other, EndlessStrategy)
        if not (served and totals.facts.workload == "totals" and not totals.facts.delay):
            raise InvalidInput(
                f"totals are {quote(totals)}; give a strategy of totals without a delay"
            )
        if totals.horizon is None or totals.horizon < windows.horizon:
            raise InvalidInput(
                f"the strategy of totals serves {totals.horizon} steps, but there are "
                f"{windows.horizon:,} windows: give a strategy for that number"
            )
        self.windows, self.totals = windows, totals
        self.horizon, self.share, self.law = windows.horizon, checked_share(share), law
        self._known: tuple[NoiseDistribution, NightContrasts] | None = None
        facts, beside = windows.facts, totals.facts
        self.facts = replace(
            facts,
            fraction_bits=max(facts.fraction_bits, beside.fraction_bits),
            unit_columns=facts.unit_columns and beside.unit_columns,
            causal=facts.causal and beside.causal,
            local=beside.local,
            buffer_size=beside.buffer_size,
            drawn_ahead=beside.drawn_ahead,
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
        """Return the description of this strategy as JSON values, including the descriptions of the
        strategies of windows and of totals.
        """
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

    def _nodes_of_totals(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(node._replace(level=node.level + self._first_level) for node in nodes)

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes (noisy measurements) that a data row enters if it arrives by the end of
        its own window.

        ``step`` is the number of the window.
        """
        return self.lag_column(step, 0)

    def lag_column(self, window: int, lag: int) -> tuple[Node, ...]:
        """Return the nodes that a data row enters if it belongs to ``window`` and arrives ``lag``
        windows later.

        They are nodes of the window and of the totals. A row that arrives after the last release
        enters nodes of its window alone.
        """
        night = window + lag
        arrives = self.totals.column(night) if night <= self.horizon else ()
        return (*self.windows.lag_column(window, lag), *self._nodes_of_totals(arrives))

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes (noisy measurements) whose noise is in the final number of a window;
        ``step`` is its number.
        """
        return self.windows.row(step)

    def l1_sensitivity(self) -> Fraction:
        """Return a bound on the 1-norm by which one unit changes all measurements: the bound for
        the measurements of windows plus the bound for the measurements of totals.

        It includes the unit's corrections. The two groups of measurements have different noise.
        """
        return self.windows.l1_sensitivity() + self._totals_moved[0]

    def squared_sensitivity(self) -> Fraction:
        """Return a bound on the squared 2-norm by which one unit changes all measurements: the
        bound for the measurements of windows plus the bound for the measurements of totals.

        It includes the unit's corrections. The two groups of measurements have different noise.
        """
        return self.windows.squared_sensitivity() + self._totals_moved[1]

    @cached_property
    def _totals_moved(self) -> tuple[Fraction, Fraction]:
        unit = 1 << self.totals.facts.lattice_bits
        found = totals_moved(self.totals, self.windows.corrections)
        return Fraction(found.l1, unit), Fraction(found.l2_squared, unit**2)

    # ------------------------------------------------------------------------------ errors

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of windows' final numbers as they are released, or of sums of these
        numbers.

        With ``since``, each sum has the windows since + 1 .. step. The unit is the noise variance
        of a node of the windows. Estimates from all releases, by `LeastSquaresAsOf`, have smaller
        variances.
        """
        return self.windows.variance(steps, since)

    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """Return the variance of the last released count of a window, which is final, over all
        windows, in units of the noise variance of a node of the windows.

        Args:
            metric: mean, or largest, over the windows.
            of: without effect: totals have a strategy and a guarantee of their own, `totals`.
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

    def _contrasts_for(self, law: NoiseDistribution) -> NightContrasts:
        """Return an object with the covariances of the contrasts of all nights.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.

        Args:
            law: the noise distribution of a node of the windows.
        """
        if self._known is None or self._known[0] != law:
            unit = max(float(law.variance), _LEAST) / 4.0**self.facts.lattice_bits
            self._known = law, NightContrasts(self.windows, self.totals, self.law, unit)
        return self._known[1]

    # ------------------------------------------------------------------------------- noise

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the final numbers of consecutive windows: int64, ``(len(steps),
        *field.shape)``.
        """
        return self.windows.noise(field, steps) << self._coarser(self.windows)

    def _coarser(self, part: StreamStrategy) -> int:
        """Return how many more fraction bits the released numbers have than the noise of ``part``,
        which is the strategy of windows or of totals.
        """
        return int(self.facts.fraction_bits - part.facts.fraction_bits)

    @override
    def _step_reader(self, field: NodeNoise) -> Reader:
        return _NightReader(self, field)


class _NightReader(Reader):
    """The noise of one running stream of windows and totals, computed for one release after
    another.

    In a release, the noise of the newest counts of the last windows comes first, then the noise of
    the total.
    """

    _strategy: WindowsAndTotals

    def __init__(self, strategy: WindowsAndTotals, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        level = strategy._first_level

        def run(of: int, nodes: range) -> Integers:
            return field.run(level + of, nodes)

        self._windows = step_reader_of(strategy.windows, field)
        self._totals = reader_of(strategy.totals, NoiseView(field.shape, run))

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        of, both = self._windows.noise(steps), self._strategy
        totals = self._totals.noise(steps)[..., None]
        return np.concatenate(
            [of << both._coarser(both.windows), totals << both._coarser(both.totals)], axis=-1
        )

    @override
    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        yield self.noise(steps)


class _Sums(NamedTuple):
    """Errors and weights of estimated sums of windows, each from window 1 up to some window.

    Arrays have one entry for each sum.

    Attributes:
        variance: variance of the estimated sum.
        alone: variance of the estimate of the sum's last window.
        size: in the estimated sum, the absolute weights of all released totals, added up.
        versions: upper bound of the same for all released counts of windows.
    """

    variance: Floats
    alone: Floats
    size: Floats
    versions: Floats


class LeastSquaresAsOf(AsOf):
    """The numbers of windows as of a night (a release at the end of a window), estimated from all
    releases so far by least squares.

    Night m has published the newest count of every window, and the total R_m of all rows that have
    arrived. Let A_m be the sum of the newest counts. A_m and R_m measure the same number, so R_m -
    A_m is noise alone. The contrast of night m is the growth of this noise since the night before:
    d_m = (R_m - R_{m-1}) - (A_m - A_{m-1}). Each night releases one number more than it adds
    unknown numbers. So the contrasts, one for each night, hold all further information. A sum S of
    windows has the best linear unbiased estimate (Gauss and Markov)

        S - G' d,    G = Cov(d)^-1 Cov(d, S),    of variance Var(S) - G' Cov(d, S).

    The estimates are consistent: the estimate of a sum is the sum of its windows' estimates.

    `NightContrasts` has the matrix P for which the entries of e = P d are uncorrelated and have
    variance 1. Then G' d = h' e with h = P Cov(d, S). For sums that reach into the newest windows,
    the entries of h for earlier nights are equal, because d_m has no part of later windows. So the
    estimates of the newest windows on n nights take time of the order of n^2, all nights together,
    and P takes n^3 once.

    The public description of the estimates is the description of the stream; the night is the
    number of released steps.

    Args:
        both: the stream's strategy.
        night: the number of windows that have ended.
        law: the noise distribution of a node of the windows.
    """

    def __init__(self, both: WindowsAndTotals, night: int, law: NoiseDistribution) -> None:
        super().__init__(both.windows, night)
        self.both, self.law = both, law
        self._contrasts = both._contrasts_for(law)
        self._older: dict[int, _Sums] = {}
        self.facts = replace(
            self.facts,
            fraction_bits=READ_BITS,
            unit_columns=False,
            unit_rows=False,
            causal=both.facts.causal,
            rounding_variance=0.0,
            least_squares=True,
        )

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: the parameters of the stream's strategy."""
        return self.both.parameters

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description of the whole stream's strategy, `both`, as JSON values."""
        return self.both.to_dict()

    @override
    def __repr__(self) -> str:
        return f"{self.saved_name}({self.both!r}, night={self.night})"

    # ----------------------------------------------------------------------- what is read

    @property
    def first_newest(self) -> int:
        """Number of windows whose counts are no longer in the release of this night (the end of a
        window).

        The windows after them are called the newest windows. On this night, the first of the newest
        windows becomes final, if at least lags + 1 windows have ended.
        """
        return max(self.night - self.windows.lags - 1, 0)

    @cached_property
    def _own(self) -> Floats:
        """Noise variance of the newest released count of each window, in squared data units."""
        return np.diag(self._contrasts.versions)[self.lags(np.arange(1, self.night + 1))]

    @cached_property
    def _alone(self) -> Floats:
        """Noise variance of the sum of the newest counts of the first 0, 1, ... windows, as
        released.

        The unit is squared data units.
        """
        return np.concatenate([[0.0], np.cumsum(self._own)])

    def _up_to(self, stops: Integers, since: int = 0) -> Floats:
        """Return the covariances of nights' contrasts with sums of the windows' newest counts:
        shape (nights, sums).

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of all windows' counts. A row
        of the result belongs to the contrast of one night, column j to the sum of the newest counts
        of the windows 1 to ``stops[j]``. The first ``since`` nights are left out, and so are
        windows that were final by then, because they have no part in later contrasts.
        """
        before = max(since - self.windows.lags, 0)
        windows = np.arange(before + 1, self.night + 1)[:, None]
        weights = (windows <= stops).astype(np.float64)
        return self._contrasts.covariance(self.night - before, weights)[since - before :]

    @cached_property
    def _ends(self) -> Floats:
        """Covariances of the innovations of the last nights with sums of windows: shape (nights,
        sums).

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.
        Its innovation is the part of its contrast that is uncorrelated with all earlier contrasts,
        scaled to variance 1.

        The last nights and the newest windows are those after `first_newest`. The first sum has all
        windows before the newest ones. The others have all windows up to each of the newest ones.
        For earlier nights, the covariance is equal for all these sums.
        """
        first, night, contrasts = self.first_newest, self.night, self._contrasts
        seen = self._up_to(np.arange(first, night + 1), first)
        other = seen - contrasts.final_covariance(night)[first:, None]  # with final windows alone
        rows = contrasts.independent(night)[first:, first:]
        return np.asarray(contrasts.covariances_with_final(night)[first:, None] + rows @ other)

    @cached_property
    def _newest(self) -> _Sums:
        """Errors and weights of the estimated sums of the windows 1 to m, for m = `first_newest`
        and for each later window m.

        The windows after `first_newest` are the newest windows, whose counts are in this night's
        release.
        """
        first, contrasts = self.first_newest, self._contrasts
        rows, ends = contrasts.independent(self.night), self._ends
        read = rows[first:].T @ ends
        read[:first] += contrasts.read_by_final(first)[:, None]
        before = float((contrasts.covariances_with_final(first) ** 2).sum())
        start = max(first - 1, 0)
        last = np.diff(self._up_to(np.array([start, first]), start), axis=1)  # before the newest
        alone = [*(rows[start:, start:] @ last).T, *np.diff(ends, axis=1).T]
        less = np.array([one @ one for one in alone])
        stops = np.arange(first, self.night + 1)
        return self._sums(stops, read, before + (ends**2).sum(axis=0), less)

    def _older_sums(self, part: int) -> _Sums:
        """Return errors and weights of up to 64 estimated sums of windows; results are kept.

        The sums are over the windows from 1 up to each of the windows 64 p to 64 p + 63, where p is
        ``part``. Sums that end at the window `first_newest` or later are left out.
        """
        if (found := self._older.get(part)) is not None:
            return found
        first, night = part * _TOGETHER, self.night
        stops = np.arange(first, min(first + _TOGETHER, self.first_newest))
        start = max(first - 1, 0)  # the sum to which windows are added
        rows = self._contrasts.independent(night)
        seen = self._up_to(np.array([start, *stops]))
        moved = np.diff(seen, axis=1)  # by each window from start + 1 on, alone
        until = min(int(stops[-1]) + self.windows.lags, night)
        base = rows @ seen[:, 0]
        apart = np.zeros((night, len(stops)))
        apart[start:] = rows[start:, start:until] @ moved[start:until]
        sums = base[:, None] + np.cumsum(apart, axis=1)
        read = (rows.T @ base)[:, None] + np.cumsum(rows[start:].T @ apart[start:], axis=1)
        found = self._sums(stops, read, (sums**2).sum(axis=0), (apart**2).sum(axis=0))
        self._older[part] = found
        return found

    def _sums(self, stops: Integers, read: Floats, less: Floats, less_alone: Floats) -> _Sums:
        """Return errors and weights of the estimated sums of windows, from window 1 up to each of
        ``stops``.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.

        Args:
            stops: the last window of each sum, shape ``(sums,)``.
            read: the weight of each night's contrast in each sum, shape ``(nights, sums)``.
            less: by how much the released totals lower the variance of each sum.
            less_alone: by how much the released totals lower the variance of the last window of
                each sum.
        """
        size = np.abs(np.diff(read, axis=0, append=0.0)).sum(axis=0)  # of weights of totals
        final, lags = np.zeros_like(read), min(self.windows.lags, self.night - 1)
        final[: self.night - lags] = read[lags:]
        own = np.arange(1, self.night + 1)[:, None] <= stops
        versions = np.abs(final + own).sum(axis=0) + lags * size
        alone = np.concatenate([[0.0], self._own])[stops] - less_alone
        return _Sums(self._alone[stops] - less, alone, size, versions)

    def _errors_of_sums(self, stops: Integers) -> _Sums:
        """Return errors and weights of the estimated sums of the windows from 1 up to each of
        ``stops``; 0 for a sum of no windows.
        """
        found = _Sums(*(np.zeros(stops.shape) for _ in _Sums._fields))
        parts = np.where(stops < self.first_newest, stops // _TOGETHER, -1)
        for part in np.unique(parts[stops > 0]).tolist():
            some = (parts == part) & (stops > 0)
            known = self._newest if part < 0 else self._older_sums(part)
            start = self.first_newest if part < 0 else part * _TOGETHER
            for whole, of in zip(found, known, strict=True):
                whole[some] = of[stops[some] - start]
        return found

    def innovations(self, summed: NDArray[Any], totals: NDArray[Any]) -> Floats:
        """Return the innovations of the released numbers: for each night, the part of its contrast
        that is uncorrelated with all earlier contrasts, scaled to variance 1.

        A night is the release at the end of a window. Its contrast is noise alone: the growth of
        the total since the night before, minus the growth of the sum of the windows' newest counts.
        The result has a row for each night.

        Args:
            summed: the sum of the newest counts of all windows, by night.
            totals: the totals, by night.
        """
        apart = np.diff(totals.astype(np.float64) - summed, axis=0, prepend=0.0)
        return np.asarray(self._contrasts.independent(len(apart)) @ apart)

    def newest_sums(self, newest: NDArray[Any], innovations: Floats) -> Floats:
        """Return estimated sums of windows, each from window 1 up to some window.

        The first sum has all windows before the newest ones, which are those after `first_newest`.
        Each further sum has one more window. Results are multiples of 2^-10, in the unit of the
        arguments.

        Args:
            newest: the last released count of each window, shape ``(night, cells)``.
            innovations: the result of the method `innovations` for the releases so far, or for
                more.
        """
        first, errors = self.first_newest, innovations[: self.night]
        before = self._contrasts.covariances_with_final(first) @ errors[:first]
        sums = np.cumsum(np.pad(newest.astype(np.float64), ((1, 0), (0, 0))), axis=0)[first:]
        return _round_sums(np.asarray(sums - before - self._ends.T @ errors[first:]))

    def estimates(self, newest: NDArray[Any], innovations: Floats) -> Floats:
        """Return the least-squares estimate of each window's number, from all numbers released so
        far.

        Args:
            newest: the last released count of each window, shape ``(night, cells)``.
            innovations: the result of the method `innovations` for the releases so far, or for
                more.

        Returns:
            Shape ``(windows, cells)``: multiples of 2^-10, in the unit of the arguments.
        """
        ends, first = self.newest_sums(newest, innovations), self.first_newest
        read = self._contrasts.independent(self.night).T @ innovations[: self.night]
        moved = self._contrasts.weights_of_final(read)[:first]
        older = np.cumsum(newest[:first].astype(np.float64) - moved, axis=0)[: first - 1]
        start = np.zeros((min(first, 1), newest.shape[1]))
        return np.diff(np.concatenate([start, _round_sums(older), ends]), axis=0)

    # ------------------------------------------------------------------------------ errors

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        raise InvalidInput(
            f"window {step} is estimated from measurements of all nights by least squares, so it "
            "has no row of its own: use variance and covariances"
        )

    @override
    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of the windows' estimates, or of sums of estimates, from all
        releases up to this night (the end of a window).

        With ``since``, each sum has the windows since + 1 .. step. The unit is the noise variance
        of a node of the windows.
        """
        ends = window_ends(self, steps, since)
        first, last = (one.ravel() for one in ends)
        found, total = np.zeros(last.shape), first == 0
        some = total | (last - first == 1)
        of = self._errors_of_sums(last[some])
        found[some] = np.where(total[some], of.variance, of.alone)
        found[~some] = self._between(first[~some], last[~some])
        found = np.where(first < last, np.maximum(found, 0.0), 0.0) / self._contrasts.unit
        return np.asarray(found.reshape(ends[0].shape))

    def _between(self, first: Integers, last: Integers) -> Floats:
        """Return the variances of the estimated sums of the windows first + 1 .. last."""
        rows, alone = self._contrasts.independent(self.night), self._alone
        found = alone[last] - alone[first]
        ends = np.unique(np.concatenate([first, last]))
        if len(first) > _MANY * len(ends):
            known = rows @ self._up_to(ends)
            common = known.T @ known
            one, other = np.searchsorted(ends, first), np.searchsorted(ends, last)
            square = np.diag(common)
            return found - square[one] - square[other] + 2 * common[one, other]
        for start in range(0, len(first), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            moved = rows @ (self._up_to(last[some]) - self._up_to(first[some]))
            found[some] -= (moved**2).sum(axis=0)
        return found

    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals of windows, as estimated from all
        releases up to the end of window ``self.night``.

        Total i sums the windows from 1 up to ``stops[i]`` and has the weight ``weights[i]``. The
        unit is the variance of one node's noise.
        """
        by_stop: Floats = np.bincount(stops, weights, self.night + 1).astype(np.float64)
        windows = np.cumsum(by_stop[::-1])[::-1][1:]
        seen = self._contrasts.covariance(self.night, windows[:, None])
        moved = self._contrasts.independent(self.night) @ seen
        return max(float(windows**2 @ self._own - (moved**2).sum()), 0.0) / self._contrasts.unit

    @override
    def _largest_reads(self, stops: Integers) -> Floats:
        totals = self.both.totals
        finer = self.windows.facts.lattice_bits - totals.facts.lattice_bits
        weight = self._errors_of_sums(stops).size * 2.0**finer
        read = float(largest_reads(totals, np.array([self.night]))[0]) * weight
        return np.maximum(super()._largest_reads(stops), read)

    @override
    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """Return the mean or the largest variance of the windows' estimates, in units of the noise
        variance of a node of the windows.

        ``of`` has no effect, because all numbers belong to windows.
        """
        found = self.variance(np.arange(1, self.night + 1))
        return float(found.max() if metric == "max" else found.mean())

    def _most_rounding(self, stops: Integers) -> Floats:
        """Return the most by which rounding moves the estimated sum of the windows from 1 up to
        each of ``stops``, in units of 2^-10.
        """

        def most(of: StreamStrategy) -> float:
            one = float(window_rounding(of, np.array([0]), np.array([1]))[0])
            return one * 2.0**-of.facts.fraction_bits

        of = self._errors_of_sums(stops)
        moved = of.versions * most(self.windows) + of.size * most(self.both.totals)
        return np.asarray(moved * 2.0**READ_BITS + 0.5)

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        both = self._most_rounding(first) * (first > 0) + self._most_rounding(last)
        return np.asarray(np.where(first < last, both, 0.0))

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the estimates of consecutive windows, computed from the noise of all
        releases so far.

        It is int64 of shape ``(len(steps), *field.shape)``, rounded to multiples of 2^-10.
        """
        nights = step_reader_of(self.both, field).noise(range(1, self.night + 1))
        scale = 2.0**-self.both.facts.fraction_bits
        newest, summed, totals = by_night(nights, self.windows.lags)
        flat = [one.reshape(self.night, -1) * scale for one in (newest, summed, totals)]
        read = self.estimates(flat[0], self.innovations(*flat[1:]))
        found = np.rint(read * 2.0**READ_BITS).astype(np.int64)
        return found.reshape(self.night, *field.shape)[steps.start - 1 : steps.stop - 1]


def _round_sums(sums: Floats) -> Floats:
    """Round sums to multiples of 2^-10."""
    return np.asarray(np.rint(sums * 2.0**READ_BITS) / 2.0**READ_BITS)


def by_night(released: NDArray[Any], lags: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return three arrays: the newest count of each window, the sum of all newest counts in each
    release, and the total in each release.

    Args:
        released: the numbers in each release ("night"), shape ``(nights, *cells, lags + 2)``:
            counts of the last windows, the newest window first, then the total.
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


def totals_moved(totals: StreamStrategy, corrections: int, *, signed: bool = False) -> Sensitivity:
    """Return the most by which one unit moves the measurements of totals.

    The unit adds a row of 1 in one cell, and replaces it at most ``corrections`` times. The
    docstring of the module has the proof.

    Args:
        totals: the strategy of the totals.
        corrections: how many times, at most, the unit replaces its row.
        signed: True if the unit's rows may add values of both signs.

    Returns:
        Norms in units of 2^-lattice_bits.

    >>> from counton.strategies import Binary
    >>> totals_moved(Binary(15), 0)
    Sensitivity(l1=4, l2_squared=4, entries=((1, 4),))
    >>> totals_moved(Binary(15), 1), totals_moved(Binary(15), 1, signed=True).l2_squared
    (Sensitivity(l1=12, l2_squared=12, entries=None), 24)
    """
    one = sensitivities(totals)
    if not corrections:
        return one
    changes = 2 * corrections + 1
    squared = changes * each_alternating(totals, 2)
    return Sensitivity(changes * one.l1, 2 * squared if signed else squared)


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

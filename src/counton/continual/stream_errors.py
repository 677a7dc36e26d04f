"""The errors of a stream's releases, and of numbers computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import is_whole
from counton.continual.intervals import (
    SMALLEST_TAIL,
    halfwidths,
    largest_expiring_error,
    smooth_halfwidth,
    widest_halfwidth,
    window_halfwidths,
)
from counton.privacy import ExpiringDP, ExpiringZCDP, Guarantee
from counton.strategies import Metric, StreamStrategy, noise_variance
from counton.strategies.joint_errors import (
    recent_variance,
    recent_variances,
    released_variance,
)
from counton.strategies.strategy import (
    EndlessStrategy,
    ReleaseForm,
    Steps,
    check_ends,
    check_metric,
    check_steps,
    window_rounding,
)

if TYPE_CHECKING:
    from counton.privacy.loss_by_age import Analysis
    from counton.strategies.workloads import RecentWorkload, WorkloadPart


class ErrorsOf(NamedTuple):
    """The numbers to which the errors of a design refer; by default a released cell.

    Attributes:
        release: "totals", "windows" or "both", as in `counton.plan`; None: the strategy decides.
        steps: the first steps to which errors refer, if there is no last step.
        mean, largest: ratios of their mean, and largest, standard deviation to that of a cell.
        meaning: the numbers in words; "": one cell.
        per_step: expected items in a step; those that a delay holds back add to the error.
        workload: sums over recent steps, which are computed from released numbers; None: the
            released numbers themselves.
    """

    release: ReleaseForm | None = None
    steps: int | None = None
    mean: float = 1.0
    largest: float = 1.0
    meaning: str = ""
    per_step: float = 0.0
    workload: RecentWorkload | None = None


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of a stream's releases, or of numbers computed from them, in data units.

    Attributes:
        strategy, distribution: the correlation of the noise, and the distribution of one node.
        resolution: resolution of the exact sums in data units; 1 for counts.
        cells: number of cells in each step.
        of: the numbers to which the errors refer.

    >>> from counton import PureDP, plan
    >>> errors = plan(365, PureDP(1)).best.errors
    >>> round(errors.mean_std, 1), round(errors.max_std), round(errors.halfwidth(365), 1)
    (7.9, 9, 18.7)
    """

    strategy: StreamStrategy
    distribution: NoiseDistribution
    guarantee: Guarantee
    resolution: Fraction
    cells: int
    of: ErrorsOf

    @property
    def steps(self) -> int:
        """Number of steps over which `mean_std` is a mean and `max_std` a maximum."""
        steps = self.of.steps or self.strategy.horizon
        if steps is None:
            raise InvalidInputError(f"{self.strategy!r} has no last step: give the number of steps")
        return steps

    @property
    def release(self) -> ReleaseForm:
        """The numbers to which ``mean_std`` and ``max_std`` refer: totals, windows or both."""
        return self.of.release or self.strategy.facts.release

    @cached_property
    def mean_std(self) -> float:
        """Square root of the mean noise variance over all steps; exact, in data units."""
        return float(self.in_data_units(math.sqrt(self._variance("mean"))))

    @cached_property
    def max_std(self) -> float:
        """Square root of the largest noise variance over all steps, in data units."""
        return math.sqrt(self._variance("max")) * float(self.resolution) * self.of.largest

    def _variance(self, metric: Metric) -> float:
        """Return a cell's mean or largest noise variance, in squared units of the resolution."""
        strategy = self.strategy
        steps = self.of.steps
        if self.of.workload is not None:
            parts = self.of.workload.parts
            return recent_variance(strategy, self.distribution, parts, metric, self.steps)
        if steps is not None and isinstance(strategy, EndlessStrategy):
            if metric == "mean":
                return strategy.mean_variance(steps, self.distribution)
            return strategy.largest_variance(steps, self.distribution)
        node = self.distribution.variance / 4.0**strategy.facts.lattice_bits
        # A difference rounds both totals; the largest variances are of totals.
        both = metric == "mean" and self.release == "both"
        roundings = 1.5 - 0.5 / (strategy.horizon or 1) if both else 1.0
        released = released_variance(strategy, metric, self.release)
        return released * node + roundings * strategy.facts.rounding_variance

    def by(self, metric: Metric) -> float:
        """Return ``mean_std`` or ``max_std``.

        Args:
            metric: "mean" for ``mean_std``, "max" for ``max_std``.
        """
        check_metric(metric)
        return self.mean_std if metric == "mean" else self.max_std

    @property
    def rmse(self) -> float:
        """Root mean squared error in data units, with items that a delay holds back."""
        return math.hypot(self.mean_std, self.of.per_step * self.strategy.facts.delay)

    def largest_error(self, probability: float = 2 / 3) -> float:
        """Return a bound on the errors of all totals together, which holds with a probability.

        It is a union bound over steps and cells, or Chernoff's bound for an expiring guarantee, and
        counts items that a delay holds back. It is infinite if totals are not released, if there is
        no last step, or for more than 10^9 * (1 - probability) numbers.

        Args:
            probability: the probability with which all errors are within the bound, above 0 and
                below 1.

        Raises:
            InvalidInputError: the probability is outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InvalidInputError(f"probability is {probability}; it must be between 0 and 1")
        steps = self.of.steps or self.strategy.horizon
        if steps is None or self.release == "windows" or self.of.workload is not None:
            return math.inf
        if isinstance(self.guarantee, ExpiringDP | ExpiringZCDP):
            held_back = self.of.per_step * self.strategy.facts.delay
            return largest_expiring_error(self.guarantee, steps, probability) + held_back
        missed = (1 - probability) / (steps * self.cells)
        if missed < SMALLEST_TAIL or self.strategy.horizon is None:
            return math.inf
        return widest_halfwidth(self.strategy, self.distribution, 1 - missed) * float(
            self.resolution
        )

    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Return an item's privacy loss at each age: epsilon or rho.

        Args:
            ages: ages of the item, in steps.
            analysis: "exact" for the loss that ``guarantee.at_age`` states, or another one of
                `expiration_loss`.

        Returns:
            float64, one for each age.

        Raises:
            InvalidInputError: the guarantee does not expire, or there are no ages.
        """
        guarantee = self.guarantee
        if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            return guarantee.loss(ages, analysis)
        raise InvalidInputError(
            f"{guarantee} is equal at every age; losses by age exist only for guarantees that "
            "expire: use the guarantee itself"
        )

    def std(self, steps: Any = None) -> Any:
        """Return the standard deviation of the noise at ``steps``, in data units.

        Args:
            steps: one step for a float, several for an array; None: all up to the horizon.

        Raises:
            InvalidInputError: a value that is no step, or None without a last step.
            HorizonExceededError: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> best = plan(365, PureDP(1)).best
        >>> best.errors.std([5, 365]).round(2).tolist()[0] == round(best.errors.std(5), 2)
        True
        """
        is_single = is_whole(steps)
        if steps is None:
            if self.strategy.horizon is None:
                raise InvalidInputError(
                    "steps is None, but the stream has no last step: give the steps, as in "
                    "std(range(1, 101))"
                )
            steps = range(1, self.strategy.horizon + 1)
        if isinstance(steps, str):
            raise InvalidInputError(
                f"steps are {steps!r}; give a number, a range or a list of steps"
            )
        served = check_steps(self.strategy, [steps] if is_single else steps)
        variances = (
            noise_variance(self.strategy, self.distribution, served)
            if self.of.workload is None
            else self._recent_variances(self.of.workload.parts, served)
        )
        stds = self.in_data_units(np.sqrt(variances))
        return float(stds[0]) if is_single else stds

    def _recent_variances(self, parts: Sequence[WorkloadPart], steps: Integers) -> Floats:
        """Return the weighted mean of the variances of a workload's numbers at each step."""
        shares = sum(part.share for part in parts)
        variances = np.zeros(len(steps))
        for part in parts:
            part_variances = recent_variances(self.strategy, self.distribution, part, steps)
            variances += part.share / shares * part_variances
        return variances

    def recent_stds(self, steps: Steps) -> dict[str, Floats]:
        """Return, by name, the standard deviations of the workload's numbers at ``steps``.

        A single number has the name "". Values are in data units, of shape ``(len(steps),)``.

        Args:
            steps: steps of the stream, from 1.

        Raises:
            InvalidInputError: the errors are not of a workload of recent steps.

        >>> from counton import Stack, ZCDP, plan
        >>> errors = plan(365, ZCDP(0.5), workload=Stack({1: 1, 7: 1})).best.errors
        >>> {name: stds.round(2).tolist() for name, stds in errors.recent_stds([300]).items()}
        {'last 1': [1.19], 'last 7': [1.85]}
        """
        served = check_steps(self.strategy, steps)
        return {
            part.name: np.asarray(
                self.in_data_units(np.sqrt(self._recent_variances([part], served)))
            )
            for part in self._recent_parts()
        }

    def recent_halfwidths(self, steps: Steps, confidence_level: float = 0.95) -> dict[str, Floats]:
        """Return, by name, the half-widths of the workload's numbers at ``steps``.

        Args:
            steps: steps of the stream, from 1.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the errors are not of a workload of recent steps, or the level is
                outside (0, 1 - 1e-9].
        """
        stops = check_steps(self.strategy, steps)
        halfwidths: dict[str, Floats] = {}
        for part in self._recent_parts():
            if part.factor < 1:
                std = np.sqrt(self._recent_variances([part], stops))
                half = self._decayed_halfwidths(std, part.factor, confidence_level)
                halfwidths[part.name] = np.asarray(self.in_data_units(half))
                continue
            starts = np.zeros_like(stops)
            if part.width is not None:
                starts = np.maximum(stops - part.width, 0)
            halfwidths[part.name] = self.window_halfwidths(starts, stops, confidence_level)
        return halfwidths

    def decayed_halfwidths(
        self, std: object, factor: float, confidence_level: float = 0.95, *, cells: int = 1
    ) -> Floats:
        """Return half-widths of weighted sums of cells, each cell with its decayed sum.

        Args:
            std: standard deviations of the noise in the weighted sums, in data units.
            factor: the weight of a step, divided by the weight of the next step.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
            cells: number of cells in a sum. The squares of their weights add up to at most 1.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        grid_std = np.asarray(std, np.float64) / float(self.in_data_units(1.0))
        half = self._decayed_halfwidths(grid_std, factor, confidence_level, cells=cells)
        return np.asarray(self.in_data_units(half), np.float64)

    def _decayed_halfwidths(
        self, std: Floats, factor: float, confidence_level: float, *, cells: int = 1
    ) -> Floats:
        """Return what `decayed_halfwidths` does; both are in multiples of the resolution."""
        half = smooth_halfwidth(std, self.distribution, confidence_level)
        # Each step's own number is a difference of two rounded releases. By Cauchy and Schwarz,
        # rounding moves a sum of several cells by at most this.
        rounding = 2 * float(window_rounding(self.strategy, 0, 1)) / (1 - factor)
        rounding *= math.sqrt(cells)
        return np.asarray(half + rounding * 2.0**-self.strategy.facts.fraction_bits)

    def _recent_parts(self) -> Sequence[WorkloadPart]:
        if self.of.workload is None:
            raise InvalidInputError(
                "these errors are of released numbers: give plan a workload, such as Rolling(28)"
            )
        return self.of.workload.parts

    def window_std(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Return the standard deviation of sums over steps start + 1 to stop, in data units.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last steps of the sums. The shapes of both are broadcast.
        """
        variance = noise_variance(self.strategy, self.distribution, stops, since=starts)
        deviation: NDArray[np.float64] = self.in_data_units(np.sqrt(variance))
        return deviation

    def window_covariance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Return the covariance matrix of the noise in sums over steps start + 1 to stop.

        It is for one cell, in squared data units. The variance of the difference of two sums, such
        as week on week, is the sum of their variances less twice their covariance.

        Args:
            starts, stops: one start and one stop for each sum.

        Raises:
            InvalidInputError: ends that are not integers, below 0, or in the wrong order.
            HorizonExceededError: an end beyond the horizon.

        >>> from counton import Rolling, ZCDP, plan
        >>> errors = plan(365, ZCDP(0.5), workload=Rolling(7)).best.errors
        >>> covariance = errors.window_covariance([286, 293], [293, 300])
        >>> float((covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]) ** 0.5) < 2.7
        True
        """
        first, last = check_ends(self.strategy, starts, stops)
        ends = np.concatenate([first.ravel(), last.ravel()])
        low = np.minimum(ends[:, None], ends[None, :])
        high = np.maximum(ends[:, None], ends[None, :])
        differ = low < high
        variances = np.zeros(differ.shape)
        variances[differ] = noise_variance(
            self.strategy, self.distribution, high[differ], since=low[differ]
        )
        # Cov(b - a, d - c) = (Var(b - c) + Var(a - d) - Var(b - d) - Var(a - c)) / 2
        count = first.size
        crossed = variances[count:, :count] + variances[:count, count:]
        covariance = (crossed - variances[count:, count:] - variances[:count, :count]) / 2
        return np.asarray(covariance * float(self.in_data_units(1.0)) ** 2)

    def halfwidths(self, steps: Any, confidence_level: float = 0.95) -> NDArray[np.float64]:
        """Return the half-widths, in data units, of the releases of some steps.

        With a workload of several numbers, it is the largest of their half-widths.

        Args:
            steps: steps of the stream, from 1: a range or an array.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.

        Returns:
            float64, shape ``(len(steps),)``.
        """
        if self.of.workload is not None:
            several = self.recent_halfwidths(steps, confidence_level).values()
            largest: Floats = np.max(np.stack([*several]), axis=0)
            return largest
        widths: NDArray[np.float64] = halfwidths(
            self.strategy, self.distribution, steps, confidence_level
        )
        return np.asarray(self.in_data_units(widths))

    def halfwidth(self, step: int, confidence_level: float = 0.95) -> float:
        """Return the half-width of the interval at one step, in data units.

        Args:
            step: step of the stream, from 1.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
            HorizonExceededError: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> plan(365, PureDP(1)).best.errors.halfwidth(365)
        18.66...
        """
        return float(self.halfwidths(range(step, step + 1), confidence_level)[0])

    def window_halfwidths(
        self, starts: Steps, stops: Steps, confidence_level: float = 0.95, *, cells: int = 1
    ) -> NDArray[np.float64]:
        """Return half-widths of sums over steps and cells, in data units.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last steps of the sums. The shapes of both are broadcast.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
            cells: number of cells that are added up.
        """
        halfwidths = window_halfwidths(
            self.strategy, self.distribution, starts, stops, confidence_level, cells=cells
        )
        return np.asarray(self.in_data_units(halfwidths))

    def cell_halfwidth(self, start: int, stop: int, confidence_level: float = 0.95) -> float:
        """Return the half-width of one cell's interval for some steps, in data units.

        Args:
            start: the step after which the sum begins, from 0.
            stop: the last step of the sum.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        asked = start, stop, confidence_level
        if asked not in self._cell_halfwidths:
            halfwidths = self.window_halfwidths(start, stop, confidence_level)
            self._cell_halfwidths[asked] = float(halfwidths.reshape(-1)[0])
        return self._cell_halfwidths[asked]

    def keep_cell_halfwidths(
        self, starts: Integers, stops: Integers, confidence_level: float
    ) -> None:
        """Compute many values of `cell_halfwidth` together, which is faster, and keep them.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last step of each sum.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
        """
        halfwidths = self.window_halfwidths(starts, stops, confidence_level)
        ends = zip(starts.tolist(), stops.tolist(), halfwidths.tolist(), strict=True)
        for start, stop, half in ends:
            self._cell_halfwidths[start, stop, confidence_level] = half

    @cached_property
    def _cell_halfwidths(self) -> dict[tuple[int, int, float], float]:
        return {}

    def in_data_units(self, errors: Any) -> Any:
        """Convert errors of a cell to errors of the numbers that ``of`` describes.

        Args:
            errors: a number or an array, in multiples of the resolution.
        """
        # No other code multiplies an error by the resolution, or by the factor of ``of``.
        return errors * float(self.resolution) * self.of.mean

"""Lower bounds on the error of releases: for all factorisations, and for all mechanisms.

A is the T x T matrix of running totals, and A = B C with columns of C of norm at most 1. The bounds
on variances are in units of the noise variance of one node (a row of C):

- *mean of totals, Gaussian noise*: the square of ||A||_* / T, the mean of A's singular values.
- *largest of totals, Gaussian noise*: the square of |A|_cb, the least product of B's
  largest row norm and C's largest column norm. |A|_cb is known to within 1/2 (Mathias,
  "The Hadamard operator norm of a circulant and applications", 1993, Corollary 3.5;
  "Constant matters", section 1).
- *each step's own count*: 1, for any noise.
- *sums over recent steps*: ||W||_*^2 / T, where W has the rows of all numbers.
- *totals and counts*: ||W||_*^2 / T, where W is the matrix of totals above the
  identity.
- *Laplace noise*: all of these bounds hold, but the best known strategies have several
  times their variance, and no better bound is known to us.

For other noise, and for mechanisms of any kind, papers state bounds up to constants. This file
computes the constants that their proofs give. `StreamPlan.factors` compares a plan with two of
these bounds.
"""

# *Mean of totals*: ||B||_F^2 / T >= (||A||_* / T)^2, since ||B||_F ||C||_F is at least the sum of
# the singular values of A and ||C||_F^2 <= T. They are 1 / (2 sin((2j - 1) pi / (4T + 2))), j =
# 1..T. On short horizons `gaussian_bound` is tighter.
#
# *Each step's own count*: 1, since tr (C^T C)^-1 >= sum 1 / ||C e_t||_2^2.
#
# *Totals and counts*: ||B||_F^2 >= ||W||_*^2 / T, and the singular values of W are sqrt(s^2 + 1)
# for those of A.
#
# *Laplace noise*: columns of 1-norm at most 1 have 2-norm at most 1.

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from counton.base.distributions import NoiseKind, Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, float_above
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP, calibrate
from counton.strategies.strategy import Metric, ReleaseForm, check_metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counton.continual.design import Design
    from counton.strategies.workloads import RecentWorkload

#: Sums of more terms than this are replaced by their limit, to within 1e-12.
_MOST_TERMS = 2**20
#: Factor for bounds: it lowers them by more than all rounding errors of the sums.
_ROUNDING_FACTOR = 1 - 1e-9
#: Loss from which on float64 has no bound above 0.
_LARGEST_LOSS = 700.0
#: Fraction bits of a lattice on which noise is as good as continuous.
_FINE_BITS = 12
#: Fraction by which a bound on standard deviations is lowered, since noise on a coarser lattice may
#: need a little less.
_COARSE_LATTICE_MARGIN = 1e-5
#: Number of steps that is assumed if none is stated.
_DEFAULT_STEPS = 2**16
#: Largest horizon for which a search finds the tighter bound in under a second.
LONGEST_SEARCHED_HORIZON = 256
#: Longest block of time whose nuclear norm is computed for sums over recent steps.
_LONGEST_BLOCK_STEPS = 1024


def least_variance(horizon: int, metric: Metric = "mean", release: ReleaseForm = "totals") -> float:
    """Return a lower bound on the variance of releases by any factorisation A = B C.

    The unit is the noise variance of a row of C. It is proven for columns of 2-norm 1 (Gaussian
    noise), and so holds for columns of 1-norm 1 (Laplace noise).

    Args:
        metric: "mean" variance of all released numbers, or "max" for the largest.
        release: totals, each step's own count, or both.

    Raises:
        InvalidInputError: a horizon below 1 or above 2^62, or an unknown metric or release.

    >>> round(least_variance(1024) ** 0.5, 3), round(least_variance(1024, "max") ** 0.5, 3)
    (2.91, 2.91)
    """
    horizon = check_integer("horizon", horizon, 1, 2**62)
    check_metric(metric, release)
    if release == "windows":
        return 1.0
    mean = (nuclear_norm(horizon) / horizon) ** 2
    if metric == "max":
        return max(factorisation_bounds(horizon)[0] ** 2, mean) * _ROUNDING_FACTOR
    if release == "both":
        if horizon <= _MOST_TERMS:
            # Singular values of the T x T matrix of prefix sums, largest first.
            angles = (2 * np.arange(1, horizon + 1) - 1) * (math.pi / (4 * horizon + 2))
            return (
                float((np.hypot(0.5 / np.sin(angles), 1.0).sum() / horizon) ** 2 / 2)
                * _ROUNDING_FACTOR
            )
        return (mean + 1) / 2 * _ROUNDING_FACTOR
    if horizon <= LONGEST_SEARCHED_HORIZON:
        from counton.tables.optimal import gaussian_bound
        from counton.tables.workloads import Prefixes

        mean = max(mean, gaussian_bound(Prefixes(horizon)) / horizon)
    return mean * _ROUNDING_FACTOR


def least_recent_variance(workload: RecentWorkload, horizon: int) -> float:
    """Return a lower bound on the variance of sums over recent steps, by any factorisation.

    The unit is the noise variance of a row of C, as in `least_variance`. It bounds the mean over
    all steps, weighted by the shares of the numbers, and hence also the largest variance.

    Raises:
        InvalidInputError: a horizon below 1 or above 2^62.

    >>> from counton.strategies.workloads import Rolling
    >>> round(least_recent_variance(Rolling(28), 365) ** 0.5, 3)
    2.29
    """
    # Let the rows of W be those of all numbers, times the roots of their shares. As for totals, the
    # mean is at least (||W||_* / T)^2, divided by the sum of the shares. Of longer streams, W has
    # blocks of time on its diagonal, and ||W||_* is at least the sum of their nuclear norms.
    horizon = check_integer("horizon", horizon, 1, 2**62)
    block = min(horizon, _LONGEST_BLOCK_STEPS)
    blocks, rest = divmod(horizon, block)
    norm = blocks * _nuclear_norm_of(workload, block)
    if rest:
        norm += _nuclear_norm_of(workload, rest)
    shares = sum(part.share for part in workload.parts)
    return (norm / horizon) ** 2 / shares * _ROUNDING_FACTOR


@lru_cache(maxsize=16)
def _nuclear_norm_of(workload: RecentWorkload, steps: int) -> float:
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    gram = np.zeros((steps, steps))
    for part in workload.parts:
        width = steps if part.width is None else part.width
        weights = np.where((lag >= 0) & (lag < width), part.factor ** np.maximum(lag, 0), 0.0)
        gram += part.share * (weights.T @ weights)
    values = np.linalg.eigvalsh(gram)
    # Rounding errors of eigenvalues may raise the smallest ones.
    error = 8 * steps * 2.0**-52 * float(values[-1])
    return float(np.sqrt(np.maximum(values - error, 0.0)).sum())


def _least_variance_of(design: Design, metric: Metric) -> float:
    errors = design.errors
    if errors.of.workload is not None:
        return least_recent_variance(errors.of.workload, errors.steps)
    return least_variance(errors.steps, metric, errors.release)


def nuclear_norm(horizon: int) -> float:
    """Return the sum of the singular values of the T x T matrix of prefix sums.

    >>> round(nuclear_norm(2), 6)  # of [[1, 0], [1, 1]]: the square root of 5
    2.236068
    """
    # The cosecants on one side of the middle of Mathias' sum over 2T + 1; the middle is 1.
    odd = 2 * check_integer("horizon", horizon, 1, 2**62) + 1
    return (odd * mathias_sum(odd) - 1) / 4


def mathias_sum(horizon: int) -> float:
    """Return Mathias's sum gamma_hat(T) = (1/T) sum_{j=1..T} |csc((2j - 1) pi / (2T))|.

    Beyond 2^20 terms the limit of the trapezoidal rule is used, accurate to 1e-12.

    >>> round(mathias_sum(2), 6)
    1.414214
    """
    horizon = check_integer("horizon", horizon, 1, 2**63)
    half, middle = divmod(horizon, 2)  # symmetric; the middle term of an odd number is 1
    if half <= _MOST_TERMS:
        j = np.arange(1, half + 1)
        below = float(np.sum(1 / np.sin((2 * j - 1) * (math.pi / (2 * horizon)))))
        return (2 * below + middle) / horizon
    # The sum of 1/x over x = (2j - 1) pi / 2T, and the integral of csc x - 1/x up to the middle.
    end = half * math.pi / horizon
    odd = (math.log(half) + np.euler_gamma + 2 * math.log(2)) / 2  # of 1 / (2j - 1)
    smooth = math.log(math.tan(end / 2)) - math.log(end / 2)
    below = 2 * horizon / math.pi * odd + horizon / math.pi * smooth
    return float(2 * below + middle) / horizon


def factorisation_bounds(horizon: int) -> tuple[float, float]:
    """Return a lower and an upper bound on the least error of any factorisation A = B C.

    A is the T x T matrix of totals, T the ``horizon``. The error is the largest row norm of B times
    the largest column norm of C. Mathias 1993, Corollary 3.5: the least error is between (1/2 +
    1/(2T)) gamma and gamma / 2 + 1/2, where gamma is `mathias_sum`.

    >>> from counton.strategies.streams.square_root import square_root_sensitivity
    >>> lower, upper = factorisation_bounds(1024)
    >>> lower < square_root_sensitivity(1024) < lower + 0.5851
    True
    """
    # The least error is |A|_cb. The square-root factorisation's product is Psi*(T), within 0.5851
    # of the lower bound.
    gamma = mathias_sum(horizon)
    return (0.5 + 0.5 / horizon) * gamma, gamma / 2 + 0.5


# ---------------------------------------------------- noise of any distribution, any mechanism


# The proof of `least_noise_variance` has three steps. Noise w of any distribution is as close to
# w + y as the guarantee says, where y is what a unit moves the releases by.
#
# 1. *One direction.* For any vector u let s = u'y and V = Var(u'w). Then V >= c s^2, where c is
#    what the function returns:
#
#    - *pure*: c = 1 / (2 sinh^2(epsilon / 2)). Within the coset w + Z y, w = w_0 + k y has a
#      distribution p(k) whose neighbours differ by factors e^epsilon at most. So V >= s^2 E Var(p).
#      With r = e^-epsilon, P(k > j) >= r P(k >= j) for every j, and P(k < j) >= r P(k <= j). Hence
#      E (k - a)^2, for the mean a moved into [-1/2, 1/2], is least for the discrete Laplace
#      distribution, whose variance is c.
#    - *rho*: c = 1 / (exp(2 rho) - 1). For s^2 <= V chi^2 (Hammersley, Chapman and Robbins), and
#      chi^2 + 1 = exp(D_2) is at most exp(2 rho).
#
# 2. *All directions.* Let S be the covariance of w. By step 1, y' S^-1 y <= 1 / c for every such y.
#    So S^(1/2) and S^(-1/2) A factorise the matrix A of totals. Hence the mean (or largest)
#    variance of w is at least c times that of a factorisation with columns of norm 1, which is
#    `least_variance`.
#
# 3. *Any mechanism*, also if its errors depend on the data: let their squares have means of at most
#    V_t on all streams of counts >= 0. Give it a random stream v, even on {0, .., n}^T. Its errors
#    then have a distribution with second moments at most V_t. Where one count is one more, v + e
#    has the distribution of v up to total variation 1 / (n + 1). So this distribution, moved by y,
#    is as close to itself as the guarantee says, but for a term of 1 / n. As n grows there is a
#    limit distribution, since second moments are bounded, and it is noise as above. So the largest
#    of V_t, and the largest mean over steps on any stream, are bounded as those of noise are. (If a
#    unit is moved from one cell to another, take the difference of the two cells.)


def least_noise_variance(guarantee: Guarantee) -> float:
    """Return a lower bound on the variance of noise that keeps a guarantee for a change by 1.

    It is 0, no bound, for (epsilon, delta): `papers/close_noise.py` has one.

    With it, a bound on factorisations becomes one on any mechanism, whose mean (or largest) squared
    error is at least this number times `least_variance`. The argument is that of "Constant
    matters", Theorem 3, which states the bound up to a constant. The comment above proves it.

    Raises:
        InvalidInputError: another guarantee.

    >>> [round(least_noise_variance(g), 3) for g in (PureDP(1), ZCDP(0.5))]
    [1.841, 0.582]
    """
    if isinstance(guarantee, PureDP):
        epsilon = float_above(guarantee.epsilon)
        return (
            0.5 / math.sinh(epsilon / 2) ** 2 if epsilon < _LARGEST_LOSS else 0.0
        ) * _ROUNDING_FACTOR
    if isinstance(guarantee, ZCDP):
        doubled = 2 * float_above(guarantee.rho)
        return (1 / math.expm1(doubled) if doubled < _LARGEST_LOSS else 0.0) * _ROUNDING_FACTOR
    if isinstance(guarantee, ApproxDP):
        return 0.0
    raise InvalidInputError(
        f"guarantee is {guarantee!r}; give a guarantee such as PureDP(epsilon), "
        "ApproxDP(epsilon, delta) or ZCDP(rho)"
    )


# ------------------------------------------------------------------------- beside a plan


#: Source of the bound on any mechanism.
ANY_MECHANISM = "after Constant Matters, Theorem 3; with its constant (counton)"


def least_std(design: Design, metric: Metric) -> dict[NoiseKind, float]:
    """Return lower bounds on the standard deviation of any strategy's releases, in data units, by
    kind of noise; kinds without a known bound are left out.
    """
    contribution = design.contribution
    guarantee = design.guarantee
    shown_errors = design.errors_of
    if not contribution.acts_once:
        return {}
    family = guarantee.families[-1]
    # Laplace noise has the least variance on the integers, since doubling its scale multiplies the
    # variance by at least four. Gaussian noise has the least on the finest lattice, where it is as
    # good as continuous noise.
    unit_sensitivity = contribution.sensitivities(Sensitivity(1, 1, ((1, 1),)), cells=design.cells)
    fine = Sensitivity(
        unit_sensitivity.l1 << _FINE_BITS, unit_sensitivity.l2_squared << 2 * _FINE_BITS
    )
    unit = min(
        calibrate(guarantee, unit_sensitivity, family).distribution.variance,
        calibrate(guarantee, fine, family).distribution.variance / 4.0**_FINE_BITS,
    )
    least = _least_variance_of(design, metric)
    if isinstance(guarantee, ApproxDP):
        # A coarser lattice may do with a little less than the finest: by 7e-7 where measured.
        least *= (1 - _COARSE_LATTICE_MARGIN) ** 2
    scale = float(design.units.exact) * (
        shown_errors.mean if metric == "mean" else shown_errors.largest
    )
    return {family: math.sqrt(least * unit) * scale}


def factors_of_design(design: Design, metric: Metric = "mean") -> tuple[LowerBound, ...]:
    """Compare the error of a design with lower bounds on the error of other mechanisms.

    The ``factor`` of each is the design's error divided by the bound: first for mechanisms with its
    kind of noise, then for any; see `StreamPlan.factors`. The result is empty if no theorem
    applies, as for guarantees that expire. Without a last step errors are of
    ``design.errors_of.steps`` steps, or of 65,536.

    Args:
        design: a strategy with its noise and guarantee.
        metric: "mean" for the root of the mean variance, "max" for the largest standard deviation.

    >>> from counton import Counter, Key, ZCDP
    >>> from counton.strategies import NormalisedSqrt
    >>> counter = Counter(NormalisedSqrt(1024), ZCDP(0.5), key=Key.generate(), name="visits")
    >>> [round(factor.factor, 2) for factor in factors_of_design(counter.design)]
    [1.03, 1.35]
    """
    if design.strategy.horizon is None and design.errors_of.steps is None:
        design = replace(design, errors_of=design.errors_of._replace(steps=_DEFAULT_STEPS))
    try:
        bounds = least_std(design, metric)
        least = least_of_any_mechanism(design, metric)
    except InvalidInputError:  # no bound is known of a guarantee or strategy of its kind
        return ()
    achieved = design.errors.by(metric)
    quantity = f"{metric} std"
    lower_bounds = []
    if bounds.get(design.noise_kind):
        source = _source_of_variance(design, metric)
        who = f"matrix mechanisms with {design.noise_kind.capitalize()} noise"
        lower_bounds.append(LowerBound(quantity, bounds[design.noise_kind], achieved, who, source))
    if least > 0:
        lower_bounds.append(LowerBound(quantity, least, achieved, "any mechanism", ANY_MECHANISM))
    return tuple(lower_bounds)


def far_from_possible(
    design: Design,
    factors: Sequence[LowerBound],
    metric: Metric = "mean",
    *,
    of: str = "",
    cited: bool = True,
) -> str:
    """Return a sentence that compares a design's error with lower bounds, "" without any.

    Args:
        design: the design that was compared.
        factors: what `factors_of_design` returned for the design.
        metric: the metric of these factors: "mean" or "max".
        of: the kind of number that has this error, such as "a cell". Default: it is not named.
        cited: whether to name the sources of the bounds.

    >>> from counton import ZCDP, plan
    >>> ranked = plan(1024, ZCDP(0.5))
    >>> print(far_from_possible(ranked.best, ranked.factors))
    The root of the mean variance is 1.02 times the least of matrix mechanisms with Gaussian noise
    (Constant Matters, section 1 (nuclear norm)), and 1.33 times the least of any mechanism (after
    Constant Matters, Theorem 3; with its constant (counton)).
    """
    if not factors:
        return ""
    quantity = "root of the mean variance" if metric == "mean" else "largest standard deviation"
    if of:
        quantity = f"{quantity} of {of}"
    if design.strategy.horizon is None:
        count = f"{design.errors_of.steps or _DEFAULT_STEPS:,}"
        quantity = f"{quantity} of the first {count} steps"
    parts = [
        f"{factor.times} times the least of {factor.holds_for}" + f" ({factor.source})" * cited
        for factor in factors
    ]
    comparisons = ", and ".join(parts)
    return f"The {quantity} is {comparisons}."


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound on an error, together with the error that a plan achieves.

    Attributes:
        quantity: the bounded quantity in words, in data units.
        at_least: the bound, above 0.
        achieved: the plan's value.
        holds_for: the mechanisms.
        source: paper and statement.

    >>> from counton import plan
    >>> bound = plan(8760, PureDP(1)).factors[1]
    >>> bound.quantity, round(bound.at_least, 3), round(bound.achieved, 2)
    ('mean std', 4.874, 13.39)
    >>> print(bound.source)
    after Constant Matters, Theorem 3; with its constant (counton)
    """

    quantity: str
    at_least: float
    achieved: float
    holds_for: str
    source: str

    @property
    def factor(self) -> float:
        """Achieved error divided by the bound."""
        return self.achieved / self.at_least

    @property
    def times(self) -> str:
        """The factor as text for a table."""
        return f"{self.factor:.3g}" if self.factor < 1000 else f"{self.factor:,.0f}"

    @property
    def distance(self) -> str:
        """Sentence that compares the error of a plan with this bound.

        >>> from counton import ZCDP, plan
        >>> for factor in plan(1024, ZCDP(0.5)).factors:
        ...     print(factor.distance)
        mean std: 1.02 times the proved lower bound for matrix mechanisms with Gaussian...
        mean std: 1.33 times the proved lower bound for any mechanism; after...
        """
        least = f"the proved lower bound for {self.holds_for}"
        return f"{self.quantity}: {self.times} times {least}; {self.source}"

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def _unit(design: Design) -> float:
    return design.contribution.per_cell * float(design.units.exact)


def _source_of_variance(design: Design, metric: Metric) -> str:
    """Return the source of the tightest bound on the variance of any factorisation."""
    steps = design.errors.steps
    release = design.errors.release
    if design.errors.of.workload is not None:
        return "nuclear norm of the sums (counton)"
    if release == "windows":
        return "trace of the inverse (counton)"
    nuclear = "Constant Matters, section 1 (nuclear norm)"
    if metric == "max" and factorisation_bounds(steps)[0] > nuclear_norm(steps) / steps:
        return "Constant Matters, eq. 3 (Mathias)"
    if metric == "mean" and release == "totals" and steps <= LONGEST_SEARCHED_HORIZON:
        return "nuclear norm, or the dual of the best factorisation (counton)"
    return nuclear


def least_of_any_mechanism(design: Design, metric: Metric) -> float:
    """Return a lower bound on the root mean, or largest, squared error of every mechanism."""
    if design.errors_of.meaning or design.contribution.pattern is not None:
        return 0.0
    least = least_noise_variance(design.guarantee)
    least *= _least_variance_of(design, metric)
    return math.sqrt(least) * _unit(design)

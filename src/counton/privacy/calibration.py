"""Calibration: the noise distribution of least variance for a guarantee and a sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseKind, Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import float_below, root_rounded_up, rounded_up
from counton.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP

_PURE = "Laplace of scale l1 / epsilon"


class Candidate(NamedTuple):
    """A candidate for the noise distribution.

    Attributes:
        family: "laplace" or "gaussian".
        distribution: the noise distribution of every node; None if the method does not apply.
        method: why the distribution meets the guarantee, or why there is no distribution.
    """

    family: NoiseKind
    distribution: DiscreteLaplace | DiscreteGaussian | None
    method: str

    @property
    def variance(self) -> float:
        """Variance of one node's noise; infinite if the method does not apply."""
        return math.inf if self.distribution is None else self.distribution.variance


def _candidate(family: NoiseKind, method: str, parameter: Callable[[], Fraction]) -> Candidate:
    """Return a candidate of the parameter ``parameter()``, or of its error as the reason."""
    distribution = DiscreteLaplace if family == "laplace" else DiscreteGaussian
    try:
        return Candidate(family, distribution(parameter()), method)
    except InvalidInputError as error:
        return Candidate(family, None, f"{method}: {error}")
    except (ArithmeticError, ValueError):  # budgets near 0 or near infinity
        why = "its noise would be too large to compute with; give another privacy budget"
        return Candidate(family, None, f"{method}: {why}")


def pure(guarantee: PureDP, sensitivity: Sensitivity) -> tuple[Candidate, ...]:
    """Return the candidate for pure privacy: Laplace noise of scale l1 / epsilon."""
    return (
        _candidate(
            "laplace", "Laplace of scale l1 / epsilon", lambda: sensitivity.l1 / guarantee.epsilon
        ),
        Candidate("gaussian", None, "Gaussian noise never satisfies pure differential privacy"),
    )


def zero_concentrated(
    guarantee: ZCDP, sensitivity: Sensitivity, *, causal: bool = True
) -> tuple[Candidate, ...]:
    """Return the candidates for zero-concentrated privacy: Gaussian and Laplace noise.

    ``causal`` is False if an attacker may learn something about the noise of changed nodes before
    he chooses the unit. Laplace noise then has to be wider.

    Canonne, Kamath and Steinke 2020, Theorem 14; Bun and Steinke 2016, Proposition 3.3.
    """
    # Laplace noise of scale b: one node that changes by m loses epsilon = m / b, hence rho =
    # epsilon^2 / 2, and the nodes' rho add up. All nodes together lose epsilon = l1 / b, hence rho
    # = epsilon. If the attacker has seen part of the noise, the losses of single nodes do not add
    # up; the bound is epsilon^2 / 2 for all nodes together.
    rho = guarantee.rho
    variance = sensitivity.l2_squared / (2 * rho)
    gaussian = _candidate("gaussian", "Gaussian of variance l2^2 / (2 rho)", lambda: variance)
    square = variance
    method = "Laplace of scale min(l2 / sqrt(2 rho), l1 / rho)"
    if not causal:
        square = sensitivity.l1**2 / (2 * rho)
        method = "Laplace of scale l1 / max(sqrt(2 rho), rho)"
    laplace = _candidate(
        "laplace", method, lambda: min(root_rounded_up(square), sensitivity.l1 / rho)
    )
    return gaussian, laplace


def approximate(guarantee: ApproxDP, sensitivity: Sensitivity) -> tuple[Candidate, ...]:
    """Return the candidate noise distributions for (epsilon, delta): four Laplace, two Gaussian."""
    from counton.privacy import concentrated, gaussian

    epsilon = guarantee.epsilon
    delta = guarantee.delta
    rho = concentrated.rho_within(epsilon, delta, every_order=True)
    variance = sensitivity.l2_squared / (2 * rho)
    bounds = (
        _candidate("laplace", _PURE, lambda: sensitivity.l1 / epsilon),
        _candidate(
            "laplace",
            "Laplace by the bound of Elders, Theorem 1.3",
            lambda: elders_scale(epsilon, delta, sensitivity.l2_squared),
        ),
        _candidate("laplace", "Laplace by conversion from zCDP", lambda: root_rounded_up(variance)),
    )
    return (
        *bounds,
        _compose(guarantee, sensitivity, bounds),
        _candidate(
            "gaussian",
            "Gaussian by analytic calibration",
            lambda: gaussian.variance_for(epsilon, delta, sensitivity),
        ),
        _candidate(
            "gaussian",
            "Gaussian by conversion from zCDP",
            lambda: rounded_up(float(variance) * (1 + 1e-14)),
        ),
    )


def approximate_ahead(
    guarantee: ApproxDP, sensitivity: Sensitivity, *, once: bool
) -> tuple[Candidate, ...]:
    """Return the candidates for (epsilon, delta) if the strategy is not causal.

    Earlier releases may then depend on noise that hides later steps: an attacker may learn
    something about it before he chooses the step and cells of the unit. ``once``: a unit changes
    one step.
    """
    # Given the noise that was seen, the losses of several nodes may depend on each other, so
    # composing them as independent losses understates the total. A bound on the loss of every
    # outcome still holds. Given what the attacker knows, discrete Gaussian noise has the same
    # distribution around another centre.
    from counton.privacy import concentrated, gaussian

    epsilon = guarantee.epsilon
    delta = guarantee.delta
    variance = sensitivity.l2_squared / (2 * concentrated.rho_within(epsilon, delta))
    analysis = "Gaussian by analytic calibration around any centre"
    analytic = Candidate("gaussian", None, f"{analysis}: shown for units in one step only")
    if once:
        analytic = _candidate(
            "gaussian",
            analysis,
            lambda: gaussian.variance_around(epsilon, delta, sensitivity.l2_squared),
        )
    return (
        _candidate("laplace", _PURE, lambda: sensitivity.l1 / epsilon),
        analytic,
        _candidate(
            "gaussian",
            "Gaussian by conversion from zCDP at a whole order",
            lambda: rounded_up(float(variance) * (1 + 1e-14)),
        ),
    )


def elders_scale(epsilon: Fraction, delta: Fraction, l2_squared: int) -> Fraction:
    """Return the scale of Laplace noise for (epsilon, delta) by Andersson et al., rounded up.

    The scale is l2 / a, with the sensitivity l2, and a^2 / 2 + a sqrt(2 ln(1/delta)) = epsilon
    ("Count on Your Elders", Theorem 1.3 and Lemma 5.5). It holds for discrete Laplace noise too.
    """
    # For discrete noise of scale b: a node that changes by m loses m^2 / (2 b^2) in zCDP, and Bun
    # and Steinke's conversion of the sum to (epsilon, delta) is the paper's formula.
    from counton.privacy.concentrated import log_rounded_down

    log = -log_rounded_down(delta) * (1 + 1e-14)
    root = math.sqrt(2 * log)
    budget = float_below(epsilon)
    a = 2 * budget / (math.sqrt(2 * log + 2 * budget) + root)
    return rounded_up(math.sqrt(l2_squared) / a * (1 + 1e-13))


def _compose(
    guarantee: ApproxDP, sensitivity: Sensitivity, bounds: tuple[Candidate, ...]
) -> Candidate:
    from counton.privacy import laplace

    method = "Laplace by composed privacy-loss distributions"
    if sensitivity.entries is None or len(sensitivity.entries) > 1:
        return Candidate("laplace", None, f"{method}: changes of single nodes are not all known")
    ((magnitude, count),) = sensitivity.entries
    if not laplace.composable(magnitude, count):
        return Candidate("laplace", None, f"{method}: {count} changed nodes are too many")
    scales = [
        bound.distribution.scale
        for bound in bounds
        if isinstance(bound.distribution, DiscreteLaplace)
    ]
    if not scales:
        return Candidate("laplace", None, f"{method}: the scale would be too large")
    return _candidate(
        "laplace",
        method,
        lambda: laplace.least_scale(
            guarantee.epsilon, guarantee.delta, magnitude, count, min(scales)
        ),
    )


class Calibration(NamedTuple):
    """The noise distribution of least variance, with all candidates.

    Attributes:
        distribution: the noise distribution of every node.
        candidates: all candidates, least variance first.
        reason: why ``distribution`` was chosen, in words.

    >>> from counton.privacy import ApproxDP
    >>> moved = Sensitivity(l1=3, l2_squared=3, entries=((1, 3),))
    >>> calibration = calibrate(ApproxDP(1, 1e-9), moved)
    >>> calibration.distribution == calibration.candidates[0].distribution
    True
    """

    distribution: DiscreteLaplace | DiscreteGaussian
    candidates: tuple[Candidate, ...]
    reason: str


@lru_cache(maxsize=4096)
def calibrate(
    guarantee: Guarantee,
    sensitivity: Sensitivity,
    family: NoiseKind | None = None,
    *,
    causal: bool = True,
    once: bool = True,
) -> Calibration:
    """Return the noise distribution of least variance that keeps ``guarantee``.

    Pure: Laplace of scale l1 / epsilon. Zero-concentrated: Gaussian of variance l2^2 / (2 rho).
    Approximate: the candidate of least variance, Laplace or Gaussian. Parameters are exact if they
    are rational; others are rounded towards more privacy.

    Args:
        family: "laplace" or "gaussian"; None allows both.
        causal: False if an attacker may see, before he chooses the unit, releases that depend on
            the noise of its nodes. True for tables and causal strategies.
        once: whether a unit changes one step only, which matters if ``causal`` is False.

    Raises:
        InvalidInputError: no noise of this family is known to keep the guarantee.

    >>> from counton.privacy import ApproxDP, PureDP, Sensitivity
    >>> calibrate(PureDP(0.5), Sensitivity(3, 3)).distribution
    DiscreteLaplace(scale=Fraction(6, 1))
    >>> guarantee = ApproxDP(1, "1e-2")
    >>> calibrate(guarantee, Sensitivity(2, 2, ((1, 2),)), "laplace", causal=False).distribution
    DiscreteLaplace(scale=Fraction(2, 1))
    """
    if family not in (None, "laplace", "gaussian"):
        raise InvalidInputError(f"family is {family!r}; it must be 'laplace', 'gaussian' or None")
    if isinstance(guarantee, PureDP):
        ways = pure(guarantee, sensitivity)
    elif isinstance(guarantee, ZCDP):
        ways = zero_concentrated(guarantee, sensitivity, causal=causal)
    elif isinstance(guarantee, ApproxDP) and not causal:
        ways = approximate_ahead(guarantee, sensitivity, once=once)
    elif isinstance(guarantee, ApproxDP):
        ways = approximate(guarantee, sensitivity)
    else:
        raise InvalidInputError(
            f"{guarantee!r} cannot be kept by noise that is equal at every age; give PureDP, "
            "ApproxDP or ZCDP, or use a strategy made for this guarantee"
        )
    ranked = tuple(sorted(ways, key=lambda way: way.variance))
    allowed = [way for way in ranked if family in (None, way.family)]
    best = allowed[0]
    if best.distribution is None:
        raise InvalidInputError(
            f"no {family + ' ' if family else ''}noise is known to give {guarantee} (tried: "
            f"{'; '.join(way.method for way in allowed)}). Give another guarantee or kind of "
            "noise"
        )
    if family is not None:
        reason = f"{best.method}: {family} noise was asked for"
    else:
        count = sum(way.distribution is not None for way in ranked)
        reason = best.method + (f": least variance of {count} ways" if count > 1 else "")
    return Calibration(best.distribution, ranked, reason)

"""Every known way from a guarantee and a shift to a noise law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from counton.errors import InvalidInput
from counton.exact import float_below, root_rounded_up, rounded_up
from counton.laws import DiscreteGaussian, DiscreteLaplace, Family
from counton.privacy import concentrated, gaussian, laplace
from counton.privacy.guarantees import ZCDP, ApproxDP, PureDP
from counton.shift import Shift

_PURE = "Laplace of scale l1 / epsilon"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to meet the guarantee.

    Attributes:
        family: the kind of noise.
        law: the noise law of every node, or None if this way does not apply.
        method: by which argument it meets the guarantee, or why it does not apply.

    >>> from fractions import Fraction
    >>> Candidate("laplace", DiscreteLaplace(Fraction(5)), "Laplace of scale l1 / epsilon").variance
    49.8...
    """

    family: Family
    law: DiscreteLaplace | DiscreteGaussian | None
    method: str

    @property
    def variance(self) -> float:
        """True variance of one node's noise; infinite if this way does not apply."""
        return math.inf if self.law is None else self.law.variance


def _candidate(family: Family, method: str, parameter: Callable[[], Fraction]) -> Candidate:
    """The candidate, or the reason why there is none."""
    law = DiscreteLaplace if family == "laplace" else DiscreteGaussian
    try:
        return Candidate(family, law(parameter()), method)
    except InvalidInput as error:
        return Candidate(family, None, f"{method}: {error}")


def pure(guarantee: PureDP, shift: Shift) -> tuple[Candidate, ...]:
    """Laplace of scale l1 / epsilon; nothing else is known."""
    return (
        _candidate(
            "laplace", "Laplace of scale l1 / epsilon", lambda: shift.l1 / guarantee.epsilon
        ),
        Candidate("gaussian", None, "Gaussian noise never satisfies pure differential privacy"),
    )


def zero_concentrated(guarantee: ZCDP, shift: Shift) -> tuple[Candidate, ...]:
    """Canonne, Kamath and Steinke 2020, Theorem 14; Bun and Steinke 2016, Proposition 3.3.

    A shift by m of Laplace noise of scale b costs one node epsilon = m / b, which is at most
    rho = epsilon^2 / 2; all nodes together cost epsilon = l1 / b, which is at most rho = epsilon.
    """
    rho = guarantee.rho
    variance = shift.l2_squared / (2 * rho)
    return (
        _candidate("gaussian", "Gaussian of variance l2^2 / (2 rho)", lambda: variance),
        _candidate(
            "laplace",
            "Laplace of scale min(l2 / sqrt(2 rho), l1 / rho)",
            lambda: min(root_rounded_up(variance), shift.l1 / rho),
        ),
    )


def approximate(guarantee: ApproxDP, shift: Shift) -> tuple[Candidate, ...]:
    """Four ways with Laplace noise, two with Gaussian noise."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    variance = shift.l2_squared / (2 * concentrated.rho_within(epsilon, delta))
    bounds = (
        _candidate("laplace", _PURE, lambda: shift.l1 / epsilon),
        _candidate(
            "laplace",
            "Laplace by the bound of Elders, Theorem 1.3",
            lambda: elders_scale(epsilon, delta, shift.l2_squared),
        ),
        _candidate("laplace", "Laplace by conversion from zCDP", lambda: root_rounded_up(variance)),
    )
    return (
        *bounds,
        _composed(guarantee, shift, bounds),
        _candidate(
            "gaussian",
            "Gaussian by analytic calibration",
            lambda: gaussian.variance_for(epsilon, delta, shift),
        ),
        _candidate(
            "gaussian",
            "Gaussian by conversion from zCDP",
            lambda: rounded_up(float(variance) * (1 + 1e-14)),
        ),
    )


def elders_scale(epsilon: Fraction, delta: Fraction, l2_squared: int) -> Fraction:
    """Laplace scale l2 / a with a^2 / 2 + a sqrt(2 ln(1/delta)) = epsilon; rounded up.

    Andersson et al., "Count on Your Elders", Theorem 1.3 and Lemma 5.5. It holds for discrete
    Laplace noise too: a shift by m costs a node m^2 / (2 b^2) in zCDP, and Bun and Steinke's
    conversion of the sum is the paper's formula.
    """
    log = -concentrated.log_below(delta) * (1 + 1e-14)
    root = math.sqrt(2 * log)
    budget = float_below(epsilon)
    a = 2 * budget / (math.sqrt(2 * log + 2 * budget) + root)
    return rounded_up(math.sqrt(l2_squared) / a * (1 + 1e-13))


def _composed(guarantee: ApproxDP, shift: Shift, bounds: tuple[Candidate, ...]) -> Candidate:
    method = "Laplace by composed privacy-loss distributions"
    if shift.entries is None or len(shift.entries) > 1:
        return Candidate("laplace", None, f"{method}: changes of single nodes are not all known")
    ((magnitude, count),) = shift.entries
    if not laplace.composable(magnitude, count):
        return Candidate("laplace", None, f"{method}: {count} changed nodes are too many")
    scales = [bound.law.scale for bound in bounds if isinstance(bound.law, DiscreteLaplace)]
    if not scales:
        return Candidate("laplace", None, f"{method}: the scale would be too large")
    return _candidate(
        "laplace",
        method,
        lambda: laplace.least_scale(
            guarantee.epsilon, guarantee.delta, magnitude, count, min(scales)
        ),
    )

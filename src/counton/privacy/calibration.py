"""From a guarantee and a shift to a noise law: of all that are known, the one of least variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace, Family
from counton.privacy import candidates
from counton.privacy.candidates import Candidate
from counton.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from counton.shift import Shift


@dataclass(frozen=True, slots=True)
class Calibration:
    """The law with the least variance, and what else was considered.

    Attributes:
        law: the noise law of every node.
        candidates: all ways considered, least variance first.
        reason: in words, why ``law`` was taken.

    >>> from counton.privacy import ApproxDP
    >>> calibration = calibrate(ApproxDP(1, 1e-9), Shift(l1=3, l2_squared=3, entries=((1, 3),)))
    >>> calibration.law == calibration.candidates[0].law
    True
    """

    law: DiscreteLaplace | DiscreteGaussian
    candidates: tuple[Candidate, ...]
    reason: str


@lru_cache(maxsize=4096)
def calibrate(guarantee: Guarantee, shift: Shift, family: Family | None = None) -> Calibration:
    """The law with the least variance under which a shift by ``shift`` keeps ``guarantee``.

    Pure: Laplace of scale l1 / epsilon. Zero-concentrated: Gaussian of variance l2^2 / (2 rho).
    Approximate: the best of several ways with Laplace and Gaussian noise. Parameters are exact
    where they are rational and else rounded towards more privacy. ``family`` forces one kind of
    noise.

    Raises:
        InvalidInput: no law of that family meets the guarantee.

    >>> from counton.privacy import ApproxDP, PureDP, Shift
    >>> calibrate(PureDP(0.5), Shift(3, 3)).law
    DiscreteLaplace(scale=Fraction(6, 1))
    >>> calibrate(ApproxDP(1, 1e-6), Shift(20, 20)).reason
    'Gaussian by analytic calibration: least variance of 5 ways'
    """
    if family not in (None, "laplace", "gaussian"):
        raise InvalidInput(f"family is {family!r}; it must be 'laplace', 'gaussian' or None")
    if isinstance(guarantee, PureDP):
        ways = candidates.pure(guarantee, shift)
    elif isinstance(guarantee, ZCDP):
        ways = candidates.zero_concentrated(guarantee, shift)
    elif isinstance(guarantee, ApproxDP):
        ways = candidates.approximate(guarantee, shift)
    else:
        raise InvalidInput(
            f"{guarantee!r} cannot be calibrated to one law for all nodes; it must be PureDP, "
            f"ApproxDP or ZCDP: other guarantees have their own strategies"
        )
    ranked = tuple(sorted(ways, key=lambda way: way.variance))
    allowed = [way for way in ranked if family in (None, way.family)]
    best = allowed[0]
    if best.law is None:
        raise InvalidInput(
            f"no {family + ' ' if family else ''}noise is known to give {guarantee}: "
            f"{'; '.join(way.method for way in allowed)}"
        )
    if family is not None:
        reason = f"{best.method}: {family} noise was asked for"
    else:
        count = sum(way.law is not None for way in ranked)
        reason = best.method + (f": least variance of {count} ways" if count > 1 else "")
    return Calibration(best.law, ranked, reason)

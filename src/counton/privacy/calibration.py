"""From a guarantee and a shift to a noise law: of all that are known, the one of least variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.privacy.exact import root_rounded_up
from counton.privacy.guarantees import ZCDP, Guarantee, PureDP
from counton.privacy.shift import Shift

Family = Literal["laplace", "gaussian"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to meet the guarantee.

    Attributes:
        law: the noise law, or None if this way does not apply.
        method: by which argument it meets the guarantee, or why it does not apply.
    """

    family: Family
    law: Law | None
    method: str

    @property
    def variance(self) -> float:
        """True variance of one node's noise; infinite if this way does not apply."""
        return float("inf") if self.law is None else self.law.variance


@dataclass(frozen=True, slots=True)
class Calibration:
    """The law with the least variance, and what else was considered.

    Attributes:
        law: the noise law of every node.
        candidates: all ways considered, least variance first.
        reason: in words, why ``law`` was taken.
    """

    law: Law
    candidates: tuple[Candidate, ...]
    reason: str


@lru_cache(maxsize=4096)
def calibrate(guarantee: Guarantee, shift: Shift, family: Family | None = None) -> Calibration:
    """The law with the least variance under which a shift by ``shift`` keeps ``guarantee``.

    Pure: Laplace of scale l1 / epsilon. Zero-concentrated: Gaussian of variance l2^2 / (2 rho).
    ``family`` forces one kind of noise.

    Raises:
        InvalidInput: no law of that family meets the guarantee.

    >>> from counton.privacy import PureDP, Shift
    >>> calibrate(PureDP(0.5), Shift(3, 3)).law
    DiscreteLaplace(scale=Fraction(6, 1))
    """
    if family not in (None, "laplace", "gaussian"):
        raise InvalidInput(f"family is {family!r}; it must be 'laplace', 'gaussian' or None")
    for kind, candidates_of in _CANDIDATES.items():
        if isinstance(guarantee, kind):
            return _least(guarantee, candidates_of(guarantee, shift), family)
    raise InvalidInput(
        f"a {type(guarantee).__name__} cannot be calibrated to one law for all nodes: give PureDP, "
        f"ApproxDP or ZCDP"
    )


def _least(
    guarantee: Guarantee, candidates: tuple[Candidate, ...], family: Family | None
) -> Calibration:
    ranked = tuple(sorted(candidates, key=lambda candidate: candidate.variance))
    allowed = [c for c in ranked if c.law is not None and family in (None, c.family)]
    if not allowed:
        reasons = "; ".join(c.method for c in ranked if family in (None, c.family))
        raise InvalidInput(
            f"no {family or 'known'} noise gives {guarantee}: {reasons or 'none is known'}; let "
            f"family be None or choose another guarantee"
        )
    best = allowed[0]
    assert best.law is not None
    others = [c for c in ranked if c.law is not None and c is not best]
    reason = best.method
    if family is not None:
        reason += f" ({family} noise was asked for)"
    elif others:
        reason += f"; least variance of {len(others) + 1} ways"
    return Calibration(best.law, ranked, reason)


def _pure(guarantee: PureDP, shift: Shift) -> tuple[Candidate, ...]:
    law = DiscreteLaplace(shift.l1 / guarantee.epsilon)
    return (
        Candidate("laplace", law, "Laplace of scale l1 / epsilon"),
        Candidate("gaussian", None, "Gaussian noise never satisfies pure differential privacy"),
    )


def _concentrated(guarantee: ZCDP, shift: Shift) -> tuple[Candidate, ...]:
    """Canonne, Kamath and Steinke 2020, Theorem 14; Bun and Steinke 2016, Proposition 3.3.

    Pure epsilon gives rho = min(epsilon^2 / 2, epsilon), node by node or all at once.
    """
    rho = guarantee.rho
    gaussian = DiscreteGaussian(shift.l2_squared / (2 * rho))
    scales = [root_rounded_up(shift.l2_squared / (2 * rho)), Fraction(shift.l1) / rho]
    return (
        Candidate("gaussian", gaussian, "Gaussian of variance l2^2 / (2 rho)"),
        Candidate(
            "laplace", DiscreteLaplace(min(scales)), "Laplace by rho = min(epsilon^2 / 2, epsilon)"
        ),
    )


_CANDIDATES: dict[type[Guarantee], Callable[..., tuple[Candidate, ...]]] = {
    PureDP: _pure,
    ZCDP: _concentrated,
}

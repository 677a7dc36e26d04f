"""What an item loses to sums of discrete Gaussian noise, where integers are not the reals.

Noise of nested intervals hides an item best if each is shifted a little, by fractions. Integer
noise cannot be. Shifts by integers cost what they cost under Laplace noise, g of the pure loss;
that always holds. Wide noise does almost as well as continuous noise, g of the concentrated loss:

The releases up to now have the law P(r) ~ exp(-r^T Sigma^-1 r / 2) Theta(r), where Theta sums
exp(-(s - c(r))^T H (s - c(r)) / 2) over integer vectors s, the sums of the noise from a root down
to each interval of level 1 and more; levels above those that the window needs may be taken as told.
Were Theta constant, D_alpha(P moved by d || P) <= alpha d^T Sigma^-1 d / 2. With R = max Theta /
min Theta there is alpha / (alpha - 1) ln R more; and since D_alpha grows with alpha, for every
order D_alpha <= alpha (sqrt(rho g) + sqrt(ln R))^2.

R: Theta is, by Poisson summation, a sum over integer vectors k with terms of at most
exp(-2 pi^2 k^T H^-1 k). H is a tree's: its diagonal p has 1 / variance of the interval and of its
two children, and H <= 2 diag(p). So R <= (1 + S) / (1 - S), where 1 + S is the product over the
intervals of the sums of exp(-pi^2 k^2 / p) over the integers k.
"""

from __future__ import annotations

import math
from fractions import Fraction

from counton.exact import float_above
from counton.expiry import Expiry
from counton.privacy.expiration_loss import loss_above, smooth_loss

_ROOM = 1e-9  # relative, for the rounding of a few hundred floats and an age's worth of intervals
_MOST = 0.01


def concentrated_loss(expiry: Expiry, rho: Fraction, age: int) -> Fraction:
    """Zero-concentrated loss at an age, rounded up: the least of the two bounds above.

    A unit that changes more than one count by one has wider noise, and loses no more.

    >>> [float(concentrated_loss(Expiry(1), Fraction(rho), 10) / rho) for rho in (5, 0.01)]
    [4.0, 2.60173...]
    """
    whole = rho * loss_above(expiry, age, "exact")
    length = age - expiry.delay + 1
    if length < 2:
        return whole
    top = _top(expiry, length)
    log_ratio = _log_ratio(expiry, float_above(rho), length, top)
    if log_ratio is None:
        return whole
    loss = float_above(rho * smooth_loss(expiry, length, top))
    return min(whole, Fraction((math.sqrt(loss) + math.sqrt(log_ratio)) ** 2 * (1 + 1e-14)))


def is_wide(expiry: Expiry, rho: float, age: int) -> bool:
    """Whether integer noise loses less than a hundredth more than continuous noise would."""
    length = age - expiry.delay + 1
    log_ratio = _log_ratio(expiry, rho, length, _top(expiry, length)) if length > 1 else 0.0
    return log_ratio is not None and log_ratio < 2e-5 * rho


def _top(expiry: Expiry, length: int) -> int:
    """Higher levels would not lower the largest loss over all positions."""
    return min(expiry.top, length.bit_length() + 1)


def _log_ratio(expiry: Expiry, rho: float, length: int, top: int) -> float | None:
    """At least ln R for one count; None: the noise is too narrow for a use of it."""
    precision = [2 * rho / float(expiry.factor(level)) for level in range(top + 1)]
    excess = 0.0
    for level in range(1, top + 1):
        term = math.exp(-(math.pi**2) / (precision[level] + 2 * precision[level - 1]) * (1 - _ROOM))
        # No more intervals than this: twice those over four times the window.
        excess += 2.0 ** max(length.bit_length() + 3 - level, 0) * 4 * term  # 1 / (1 - term) < 2
        if excess > _MOST:
            return None
    return 3 * excess  # ln (1 + S) / (1 - S), S <= e^excess - 1

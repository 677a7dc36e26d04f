"""The noise multiplier for a guarantee, including the gain from sampling.

*Without amplification* the whole run is one Gaussian mechanism, also if gradients are chosen after
earlier releases: the noise of a strategy is that of an invertible lower-triangular matrix C
(Denisov, McMahan, Rush, Smith and Thakurta, "Improved Differential Privacy for SGD via Optimal
Private Linear Operators on Adaptive Streams", 2022, Theorem 2.1). So the analytic calibration holds
for it.

*Poisson sampling* amplifies independent noise: the run is a composition of subsampled Gaussian
mechanisms. It is bounded by privacy-loss distributions that are rounded towards more loss
(dp-accounting; Koskela, Jälkö and Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022). No number in this module, nor in ``bins.py`` on balls in bins, is estimated by simulation.

**The bounded radius of drawn normals.** Normals are drawn in n pairs with a radius of at most R =
9.49 (``noise/normals.py``): a pair is distributed like exact normals conditioned on a disc. Two
neighbouring datasets shift the pairs by vectors of lengths a_1, a_2, ... whose squares add up to
a^2, with a = 1 / multiplier. Where both discs overlap, densities are those of exact normals times
one common factor, so that

    delta = e^(n p) delta_exact + sum over i of lost(a_i),    p = e^-(R^2 / 2).

The loss arises where one disc reaches and the other does not. Let z be the drawn pairs, and z + a
those with which the other dataset has the same output. Let u be the density of exact normals at z,
and v = e^epsilon u(. + a) that for the other dataset. Where the other disc does not reach, v is
missing: all of u counts instead of max(u - v, 0), and the difference is min(u, v). So what is lost
is at most min(u, v) on the union over pairs of the events |z_i| <= R < |z_i + a_i|. The mass of one
event is at most

    f(a_i) = e^-((R - a_i)^2 / 2) - p        under u: then the radius of z_i is above R - a_i,
    c = e^epsilon p / 2                      under v: the radius of z_i + a_i is above R, and less
                                             than half of all directions lead there;

the other pairs lie within their discs, which under v is likeliest if the disc is centred
(Anderson's inequality), and the factors cancel. As functions of a_i^2, f and the part of f below c
are first concave and then convex (up to R - a_i = 2). So of all pairs with f(a_i) <= c and squares
that add up to a^2, all but one have equal lengths or the length b with f(b) = c. With k = a^2 /
b^2, rounded down,

    sum over pairs up to b <= (k + 1) c + n f(a / sqrt(n))  (k = 0: f(a) in the place of c)
    sum over pairs beyond b <= k c.

Lengths may depend on what was released; then each of the two sums holds on every path, one under u
and one under v, and both are added. `beyond` returns this bound, with n for 2^40 coordinates. Noise
is calibrated for the rest of delta, and a delta of which less than half remains is refused. If each
step takes examples at random, densities are mixtures. What is missing is then at most what is
missing of the shifted part, and every step loses at most as much. The possible radii also have
gaps, as all floating-point numbers do; this bound does not cover them
(docs/guarantees/details.md).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInputError
from counton.base.exact import float_above, float_below
from counton.noise.normals import LARGEST_SQUARED_RADIUS
from counton.privacy import ZCDP, ApproxDP, Guarantee
from counton.privacy.guarantees import AgesWithData

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_LARGEST_MULTIPLIER = 2.0**20
#: Largest number of coordinates of all parameters together.
LARGEST_DIMENSION = 2**40
#: Largest number of nodes of a strategy for each step: those of `OctaveTraining` on all levels.
_NODES = 4
#: Largest rounding error of a computed radius.
_RADIUS_ROUNDED = 1e-5
_INTERVAL = 1e-3


def beyond(multiplier: float, steps: int = 1, epsilon: float | None = None) -> float:
    """Bound the probability with which drawn noise reveals more than exact normal noise would.

    It is above 0 because normal numbers are drawn in pairs, as points of the plane within a disc.
    So some outputs are possible under only one of two neighbouring datasets. An (epsilon, delta)
    guarantee includes this probability in delta. A ``ZCDP`` guarantee, which has no delta, holds
    except with this probability. The bound holds for up to 2^40 coordinates.

    Args:
        multiplier: standard deviation of the noise divided by the sensitivity.
        steps: number of steps of the run.
        epsilon: only privacy losses above it count; None: every loss counts.

    >>> beyond(1.0, steps=1000) < 1e-10, beyond(0.25, steps=1000) > 1e-7
    (True, True)
    >>> beyond(0.2), beyond(0.2, epsilon=20) < 1e-10
    (4.142...e-05, True)
    """
    shift = 1 / multiplier
    pairs = _pairs(steps)
    spread = pairs * _outside(shift / math.sqrt(pairs))
    whole = min(_outside(shift) + spread, 1.0)
    if epsilon is None:
        return whole
    radius = _radius()
    least = math.exp(-(radius**2) / 2)
    most = math.exp(min(epsilon - radius**2 / 2, 0.0)) / 2
    if most + least >= math.exp(-2):  # f is concave again where it is larger
        return whole
    end = radius - math.sqrt(-2 * math.log(most + least))
    times = math.floor(shift**2 / end**2 * (1 + 1e-9))
    return min(whole, (2 * times + 1) * most + spread) if times else whole


def _radius() -> float:
    return math.sqrt(LARGEST_SQUARED_RADIUS) - _RADIUS_ROUNDED


def _pairs(steps: int) -> float:
    return LARGEST_DIMENSION / 2 * _NODES * steps


def _outside(shift: float) -> float:
    """Bound the probability that a shift moves a point of the disc of drawn pairs out of it."""
    radius = _radius()
    if shift >= radius:
        return 1.0
    return math.exp(-(radius**2) / 2) * math.expm1(shift * (radius - shift / 2))


def delta_left(guarantee: ApproxDP, steps: int, lost: float) -> float:
    """Return the delta for which the noise must be calibrated as if it were exactly normal: the
    guarantee's delta, less the part that is lost because drawn numbers never exceed a largest
    radius.

    Args:
        guarantee: the guarantee for the whole run.
        steps: number of steps of the run.
        lost: the result of `beyond`.

    Raises:
        InvalidInputError: less than half of delta remains.
    """
    delta = float_below(guarantee.delta)
    if lost > delta / 2:
        raise InvalidInputError(
            f"delta is {float(guarantee.delta):g}, but noise that ends at "
            f"{math.sqrt(LARGEST_SQUARED_RADIUS):.2f} standard deviations may show more than "
            f"epsilon {float(guarantee.epsilon):g} allows with a probability of {lost:.2g} "
            f"({steps:,} steps, any number of coordinates), and half of delta has to cover that: "
            "give a larger delta, or a smaller epsilon"
        )
    return delta_rest(delta, steps, lost)


def delta_rest(delta: float, steps: int, lost: float) -> float:
    """Return what `delta_left` does, also if little or nothing of delta remains.

    Args:
        delta: delta of the guarantee.
        steps: number of steps of the run.
        lost: the result of `beyond`.
    """
    return (delta - lost) * math.exp(-_pairs(steps) * math.exp(-LARGEST_SQUARED_RADIUS / 2))


def noise_multiplier(guarantee: Guarantee, steps: int = 1) -> float:
    """Return the noise multiplier without amplification by sampling, rounded up.

    It is the standard deviation of the Gaussian noise divided by the sensitivity. For ZCDP it is 1
    / sqrt(2 rho). Drawn normal numbers never exceed a largest radius, so the ZCDP guarantee holds
    except with the probability that `beyond` returns. For ApproxDP it is the multiplier of Balle
    and Wang (2018), Theorem 8, for the part of delta that `delta_left` returns.

    Args:
        guarantee: the guarantee for the whole run.
        steps: number of steps of the run; more steps draw more normal numbers.

    Raises:
        InvalidInputError: another guarantee, such as pure differential privacy, or a delta too
            small to cover that drawn normal numbers never exceed a largest radius.

    >>> noise_multiplier(ZCDP("1/8"))
    2.0
    """
    if isinstance(guarantee, ZCDP):
        return math.sqrt(float_above(1 / (2 * guarantee.rho)))
    if isinstance(guarantee, ApproxDP):
        from counton.privacy.gaussian import analytic_gaussian_sigma

        # noise for less than delta is wider, and then less is lost
        narrowest = analytic_gaussian_sigma(guarantee.epsilon, guarantee.delta)
        remaining = delta_left(
            guarantee, steps, beyond(narrowest, steps, float_above(guarantee.epsilon))
        )
        return analytic_gaussian_sigma(guarantee.epsilon, remaining)
    if isinstance(guarantee, AgesWithData):
        raise InvalidInputError(
            f"{guarantee} does not fit training: the published model is the last release, which "
            "reveals most of every example, and each epoch adds to its loss. Give ZCDP(rho) or "
            "ApproxDP(epsilon, delta)"
        )
    raise InvalidInputError(
        f"{guarantee!r} cannot be kept with Gaussian noise; give ZCDP(rho) or ApproxDP(epsilon, "
        "delta)"
    )


def poisson_multiplier(guarantee: Guarantee, rate: float, steps: int) -> float:
    """Return the noise multiplier of independent noise if each step samples each example at random.

    It is the standard deviation of the noise divided by the sensitivity.

    Args:
        guarantee: (epsilon, delta) for neighbouring datasets that differ by one added or removed
            example.
        rate: probability with which a step samples an example, independently and in secret.
        steps: number of steps of the run.

    Raises:
        InvalidInputError: another kind of guarantee, too much noise, or a delta too small to cover
            that drawn normal numbers never exceed a largest radius.

    >>> poisson_multiplier(ApproxDP(2, 1e-5), rate=0.05, steps=100) < 1.4
    True
    """
    if not isinstance(guarantee, ApproxDP):
        raise InvalidInputError(
            f"how Poisson sampling improves {guarantee!r} is not known here; give "
            "ApproxDP(epsilon, delta)"
        )
    from counton.privacy.gaussian import analytic_gaussian_sigma

    # not amplified, noise is wider: so far no curves need to be computed
    widest = math.sqrt(steps) * analytic_gaussian_sigma(guarantee.epsilon, guarantee.delta)
    above = float_above(guarantee.epsilon)
    delta_left(guarantee, steps, steps * beyond(widest, epsilon=above))
    epsilon = float_below(guarantee.epsilon)
    delta = float_below(guarantee.delta)
    narrowest = _poisson(epsilon, delta, rate, steps)
    remaining = delta_left(guarantee, steps, steps * beyond(narrowest, epsilon=above))
    return _poisson(epsilon, remaining, rate, steps)


@lru_cache(maxsize=1024)
def _delta_lost(multiplier: float, epsilon: float, rate: float, steps: int) -> float:
    return float(poisson_losses(multiplier, rate, steps).get_delta_for_epsilon(epsilon))


def poisson_losses(multiplier: float, rate: float, steps: int) -> PrivacyLossDistribution:
    """Return the privacy loss of independent noise if each step samples each example at random.

    It is rounded towards more loss.

    Args:
        multiplier: standard deviation of a step's noise divided by the clipping norm.
        rate: probability with which a step samples an example.
        steps: number of steps.
    """
    from dp_accounting.pld import privacy_loss_distribution

    once = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier,
        sampling_prob=rate,
        value_discretization_interval=_INTERVAL,
        use_connect_dots=True,
    )
    return once.self_compose(steps)


def _poisson(epsilon: float, delta: float, rate: float, steps: int) -> float:
    delta_lost = partial(_delta_lost, epsilon=epsilon, rate=rate, steps=steps)
    low = 0.25
    high = 1.0
    while delta_lost(high) > delta:
        low = high
        high = 2 * high
        if high > _LARGEST_MULTIPLIER:
            raise InvalidInputError(
                f"epsilon {epsilon:g} with delta {delta:g} over {steps} steps needs a noise "
                f"multiplier above {_LARGEST_MULTIPLIER:g}: raise epsilon or delta"
            )
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_lost(middle) <= delta else (middle, high)
    return high

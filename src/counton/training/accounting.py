"""How wide Gaussian noise has to be for a guarantee, with what a sampler adds to it.

*Without amplification* the whole run is one Gaussian mechanism, also for gradients that are chosen
from earlier releases: the noise of a strategy is that of a lower-triangular C with an inverse
(Denisov, McMahan, Rush, Smith and Thakurta, "Improved Differential Privacy for SGD via Optimal
Private Linear Operators on Adaptive Streams", 2022, Theorem 2.1). So the analytic calibration holds
for it.

*Poisson sampling* amplifies independent noise: the run is a composition of subsampled Gaussian
mechanisms, bounded by privacy-loss distributions rounded towards more loss (dp-accounting; Koskela,
Jälkö and Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). No number here is an
estimate by simulation; where only such are known, as for balls in bins, nothing is gained.
"""

from __future__ import annotations

import math
from functools import lru_cache

from counton.errors import InvalidInput
from counton.exact import float_above, float_below
from counton.privacy import ZCDP, ApproxDP, Guarantee

_LARGEST_MULTIPLIER = 2.0**20
_INTERVAL = 1e-3


def noise_multiplier(guarantee: Guarantee) -> float:
    """Standard deviation of Gaussian noise at sensitivity 1; rounded up.

    Zero-concentrated: 1 / sqrt(2 rho). Approximate: Balle and Wang (2018), Theorem 8.

    Raises:
        InvalidInput: another guarantee, such as pure differential privacy.

    >>> noise_multiplier(ZCDP("1/8"))
    2.0
    """
    if isinstance(guarantee, ZCDP):
        return math.sqrt(float_above(1 / (2 * guarantee.rho)))
    if isinstance(guarantee, ApproxDP):
        from counton.privacy.gaussian import analytic_gaussian_sigma

        return analytic_gaussian_sigma(guarantee.epsilon, guarantee.delta)
    raise InvalidInput(
        f"{guarantee!r} cannot be kept with Gaussian noise; training takes ZCDP(rho) or "
        f"ApproxDP(epsilon, delta)"
    )


def poisson_multiplier(guarantee: Guarantee, rate: float, steps: int) -> float:
    """Standard deviation of independent noise where each step takes each example by chance.

    Args:
        guarantee: (epsilon, delta), for one example more or less.
        rate: probability with which a step takes an example, secretly and independently.
        steps: of the run.

    Raises:
        InvalidInput: another guarantee, or noise beyond what is computed.

    >>> poisson_multiplier(ApproxDP(2, 1e-5), rate=0.05, steps=100) < 1.4
    True
    """
    if not isinstance(guarantee, ApproxDP):
        raise InvalidInput(
            f"{guarantee!r} is not amplified by Poisson sampling here; state ApproxDP(epsilon, "
            f"delta)"
        )
    return _poisson(float_below(guarantee.epsilon), float_below(guarantee.delta), rate, steps)


@lru_cache(maxsize=256)
def _poisson(epsilon: float, delta: float, rate: float, steps: int) -> float:
    from dp_accounting.pld import privacy_loss_distribution

    def lost(multiplier: float) -> float:
        once = privacy_loss_distribution.from_gaussian_mechanism(
            multiplier,
            sampling_prob=rate,
            value_discretization_interval=_INTERVAL,
            use_connect_dots=True,
        )
        return float(once.self_compose(steps).get_delta_for_epsilon(epsilon))

    low, high = 0.25, 1.0
    while lost(high) > delta:
        low, high = high, 2 * high
        if high > _LARGEST_MULTIPLIER:
            raise InvalidInput(
                f"epsilon {epsilon:g} with delta {delta:g} over {steps} steps needs noise beyond "
                f"{_LARGEST_MULTIPLIER:g}: raise either"
            )
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if lost(middle) <= delta else (middle, high)
    return high

"""The noise of a strategy's releases, drawn many times, and the band that holds all steps."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from counton.base.arrays import Floats
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInput
from counton.base.exact import check_integer
from counton.noise import Key, NoiseField
from counton.numbers.intervals import check_level, halfwidths
from counton.numbers.joint import UNLUCKY, largest_share, order_above_quantile
from counton.strategies import StreamStrategy
from counton.strategies.strategy import node_law

#: Largest number of noise values in memory at a time.
_AT_ONCE = 2**22


def simulate(
    strategy: StreamStrategy,
    law: NoiseDistribution,
    runs: int,
    *,
    steps: int | None = None,
    key: Key | None = None,
) -> Floats:
    """Draw the noise of the releases of many streams, with the samplers of real ones.

    Args:
        law: of one node, in units of 2^-``strategy.facts.lattice_bits``.
        steps: None: all of the horizon.
        key: None: a fresh key.

    Returns:
        float64, shape ``(runs, steps)``, in data units.

    Raises:
        InvalidInput: no horizon and no steps, or numbers out of range.

    >>> from counton.base.distributions import DiscreteGaussian
    >>> from counton.strategies import Binary, noise_variance
    >>> noise = simulate(Binary(63), DiscreteGaussian(9), runs=400)
    >>> noise.shape
    (400, 63)
    >>> expected = noise_variance(Binary(63), DiscreteGaussian(9), [63]) ** 0.5
    >>> bool(abs(noise[:, -1].std() / expected[0] - 1) < 0.25)
    True
    """
    runs, last = check_integer("runs", runs, 1), _steps(strategy, steps)
    drawn = Key.generate() if key is None else key
    return _noise(strategy, law, drawn.derive(b"simulation"), runs, last).T


def _noise(
    strategy: StreamStrategy, law: NoiseDistribution, subkey: bytes, runs: int, last: int
) -> Floats:
    """Return the noise of the first ``last`` releases of ``runs`` streams: ``(last, runs)``."""
    field = NoiseField(subkey, lambda level: node_law(strategy, law, level), (runs,))
    noise = strategy.noise(field, range(1, last + 1))
    return np.asarray(noise * 2.0**-strategy.facts.fraction_bits, dtype=np.float64)


def band(
    strategy: StreamStrategy,
    law: NoiseDistribution,
    level: float = 0.95,
    *,
    steps: int | None = None,
    runs: int = 10_000,
    seed: int = 0,
) -> Floats:
    """Return half-widths within which the noise of all steps lies with probability ``level``.

    They are those of the union bound (Bonferroni) times one factor of at most 1, which is found by
    simulation and too small with a probability of at most 1e-6, for any number of runs.

    Args:
        strategy, law, steps: as in `simulate`.
        runs: more draws give a narrower band.
        seed: of the draws, which protect nobody.

    Returns:
        float64, shape ``(steps,)``, in data units.

    Raises:
        InvalidInput: no horizon and no steps, a level outside (0, 1 - 1e-9], or too few runs for
            it.

    >>> from fractions import Fraction
    >>> from counton.base.distributions import DiscreteLaplace
    >>> from counton.strategies import HonakerOnline
    >>> strategy, law = HonakerOnline(255), DiscreteLaplace(Fraction(2**20))
    >>> found = band(strategy, law, 0.9, runs=2000)
    >>> apart = halfwidths(strategy, law, range(1, 256), 1 - 0.1 / 255)  # the union bound
    >>> 0.8 < float((found / apart).mean()) < 0.9
    True
    """
    # Each run gives one number: the largest ratio of noise to half-width over all steps. The factor
    # is an order statistic of these ratios: it is below the wanted quantile with a probability of
    # at most 1e-6, whatever the law of the ratio is. If the factor is not below 1, as over a few
    # steps, the band is the union bound.
    level, last = check_level(level), _steps(strategy, steps)
    runs, seed = check_integer("runs", runs, 1), check_integer("seed", seed, 0)
    if order_above_quantile(runs, level) is None:
        least = math.ceil(math.log(UNLUCKY) / math.log(level))
        raise InvalidInput(
            f"runs is {runs:,}, but a level of {level:g} needs at least {least:,}, because the "
            "largest error of fewer runs may lie below the quantile: give more"
        )
    apart = halfwidths(strategy, law, range(1, last + 1), 1 - (1 - level) / last)
    largest, at_once = np.empty(runs), max(1, _AT_ONCE // last)
    for first in range(0, runs, at_once):
        some = min(at_once, runs - first)
        address = f"band {seed} {first} {strategy!r} {law!r}".encode()
        noise = np.abs(_noise(strategy, law, hashlib.sha256(address).digest(), some, last))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(noise > 0, noise / apart[:, None], 0.0)
        largest[first : first + some] = ratio.max(axis=0)
    factor = largest_share(largest, level)
    if factor is None or factor >= 1:
        return apart
    found = apart * factor * (1 + 1e-12)
    return np.floor(found) if strategy.facts.fraction_bits == 0 else found


def _steps(strategy: StreamStrategy, steps: int | None) -> int:
    if steps is None and strategy.horizon is None:
        raise InvalidInput(
            "steps is None, but the strategy has no last step: give the number of steps"
        )
    return check_integer("steps", strategy.horizon if steps is None else steps, 1)

"""The noise of a strategy's releases: drawn many times with real samplers, or counted."""

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.noise import Key, NoiseField
from counton.strategies import StreamStrategy
from counton.strategies.strategy import node_distribution
from counton.testing import HashedNoise


def drawn_noise(
    strategy: StreamStrategy, distribution: NoiseDistribution, runs: int, key: Key
) -> Floats:
    """Noise in data units, shape ``(runs, steps)``; ``distribution`` is that of one node."""
    subkey = key.derive(b"simulation")
    last = strategy.horizon
    assert last is not None
    field = NoiseField(
        subkey, lambda level: node_distribution(strategy, distribution, level), (runs,)
    )
    noise = strategy.noise(field, range(1, last + 1))
    return np.asarray(noise * 2.0**-strategy.facts.fraction_bits, dtype=np.float64).T


class CountedNoise(HashedNoise):
    """Noise that counts how many nodes are drawn."""

    drawn = 0

    def run(self, level: int, nodes: range) -> Integers:
        self.drawn += len(nodes)
        return super().run(level, nodes)

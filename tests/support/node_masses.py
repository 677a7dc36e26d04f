"""Probabilities of one node's noise, from the definitions of its laws."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteLaplace, NoiseDistribution


def all_masses(distribution: NoiseDistribution) -> NDArray[np.float64]:
    """Probabilities on -reach..reach, beyond which there is next to nothing."""
    if isinstance(distribution, DiscreteLaplace):
        scale = float(distribution.scale)
        x = np.arange(-math.ceil(36 * scale) - 5, math.ceil(36 * scale) + 6)
        weights = np.exp(-np.abs(x) / scale)
    else:
        variance = float(distribution.sigma_squared)
        x = np.arange(-math.ceil(9 * variance**0.5) - 5, math.ceil(9 * variance**0.5) + 6)
        weights = np.exp(-(x**2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def masses(distribution: NoiseDistribution, values: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities of these values."""
    if isinstance(distribution, DiscreteLaplace):
        rate = 1 / float(distribution.scale)
        return np.asarray(np.exp(-rate * np.abs(values)) * math.tanh(rate / 2))
    spread = 2 * float(distribution.sigma_squared)
    far = np.arange(-int(20 * math.sqrt(spread)) - 9, int(20 * math.sqrt(spread)) + 10)
    return np.asarray(np.exp(-(values**2) / spread) / np.sum(np.exp(-(far**2) / spread)))

"""Exact, reproducible noise: integers that depend on a secret key, an address and a distribution.

This package knows neither privacy nor streams.
"""

from counton.noise.key import InsecureKeyWarning, InsecureSeededKey, Key
from counton.noise.noise_field import NoiseField

__all__ = ["InsecureKeyWarning", "InsecureSeededKey", "Key", "NoiseField"]

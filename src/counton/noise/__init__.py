"""Exact, reproducible noise: ``(key, address, law) -> integers``.

This package knows neither privacy nor streams.
"""

from counton.noise.key import InsecureKeyWarning, InsecureSeededKey, Key
from counton.noise.noise_field import NoiseField

__all__ = ["InsecureKeyWarning", "InsecureSeededKey", "Key", "NoiseField"]

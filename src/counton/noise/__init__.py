"""Exact, reproducible noise: ``(key, address, law) -> integers``.

This package knows nothing of privacy or of streams.
"""

from counton.noise.field import NoiseField
from counton.noise.key import InsecureKeyWarning, InsecureSeededKey, Key

__all__ = ["InsecureKeyWarning", "InsecureSeededKey", "Key", "NoiseField"]

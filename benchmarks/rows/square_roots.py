"""A million releases of the square root by a new object, against their simple computation in numpy.

The simple computation draws normal numbers and multiplies them by the square root with one Fourier
transform, in floating point. counton also rounds the square root, bounds the error of its inverse,
and rounds releases correctly: eight more transforms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import ZCDP, Counter, Key
from counton.strategies import SqrtToeplitz

STEPS = 10**6


def measure() -> Iterator[Row]:
    """Measure all releases of a new square root, against numpy; yield the row."""
    generator = np.random.default_rng()
    ones = np.ones(STEPS, np.int64)

    def releases() -> None:
        strategy = SqrtToeplitz(STEPS)
        Counter(strategy, ZCDP(rho=0.5), key=Key.generate(), name="bench").release_many(ones)

    def simple_releases() -> None:
        falls = 1 - 0.5 / np.arange(1, STEPS)
        root = np.cumprod(np.append(1.0, falls))
        noise = generator.standard_normal(STEPS)
        spectrum = np.fft.rfft(root, 2 * STEPS) * np.fft.rfft(noise, 2 * STEPS)
        np.cumsum(ones) + np.fft.irfft(spectrum, 2 * STEPS)[:STEPS]

    ours, peer = fastest(releases, simple_releases)
    name = f"{STEPS:,} releases of a new square root"
    yield Row(name, ours / peer, 8, note="numpy's normals and one product by transforms")

"""Releases of stated true numbers with noise like a stream's, drawn anew each time."""

from dataclasses import replace
from secrets import token_hex
from typing import Any

import numpy as np

from counton import Key, Release
from counton.continual.simultaneous_intervals import stream_noise


def simulate(released: Release, numbers: Any = None, n: int = 1) -> list[Release]:
    """Releases of these true numbers of steps; None: the released numbers are the truth."""
    held = released.numbers
    if held.has_cells:
        values = held.series.released.estimates
    else:
        assert held.results.releases is not None
        values = held.results.releases.values
    facts = held.design.strategy.facts
    totals = facts.release == "totals"
    exact = np.asarray(values if numbers is None else numbers, np.float64)
    if numbers is None and totals:
        exact = np.diff(exact, axis=0, prepend=np.zeros((1, *exact.shape[1:])))
    steps = len(exact)
    late = np.concatenate([np.zeros((facts.delay, *exact.shape[1:])), exact])[:steps]
    truth = np.cumsum(late, axis=0) if totals else late
    found = []
    for _ in range(n):
        terms = replace(held.design, noise_id=token_hex(16))
        (noise,) = stream_noise(terms, Key.generate(), truth[0].size, steps, steps)
        made = truth + noise.reshape(truth.shape)
        if values.dtype == np.int64:
            made = np.rint(made).astype(np.int64)
        one = held.of(held.metadata, terms, made, held.level, shown=held.shown)
        found.append(Release(one))
    return found

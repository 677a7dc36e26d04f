"""Planned errors of revised windows, which are released again until a delay is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from counton.numbers import Design
from counton.strategies import AsOf, WindowVersions

#: Names of versions of a window, for statements of wanted half-widths. A version is the window's
#: number as one release gives it; later versions include more late rows.
FIRST, FINAL = "first", "final"


def windows_of(terms: Design) -> WindowVersions:
    """Return the strategy by which a design releases each window in several versions."""
    assert isinstance(terms.strategy, WindowVersions)
    return terms.strategy


def newest_at(terms: Design, lags: int) -> Design:
    """Return a design for planning the errors of windows released again in ``lags`` versions more.

    It has each window's newest version at step ``lags + 1``, where each version occurs.
    """
    strategy = windows_of(terms)
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner, strategy.corrections)
    return replace(terms, strategy=AsOf(strategy, lags + 1))


def halfwidths_of_versions(
    terms: Design, versions: Sequence[int], level: float
) -> tuple[float, ...]:
    """Return half-widths of a cell in versions of a window, numbered from 1 at its end."""
    strategy = windows_of(terms)
    at = newest_at(terms, strategy.lags)
    steps = strategy.lags + 2 - np.asarray(versions, np.int64)
    return tuple(at.errors.window_halfwidths(steps - 1, steps, level).tolist())


def named_versions(terms: Design, level: float) -> Mapping[str, tuple[float, ...]]:
    """Return half-widths of a window's number as first released (`FIRST`) and final (`FINAL`)."""
    first, final = halfwidths_of_versions(terms, (1, windows_of(terms).lags + 1), level)
    return {FIRST: (first,), FINAL: (final,)}

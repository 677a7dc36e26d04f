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
    """Return a design (strategy, guarantee and noise) for planning the errors of a window's
    versions.

    A window is released at its end, and again after each of the next ``lags`` windows. The design
    has, for each window, the version that is the newest at step ``lags + 1``. At this step window 1
    is released in its last version and window ``lags + 1`` in its first, so each version occurs.
    """
    strategy = windows_of(terms)
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner, strategy.corrections)
    return replace(terms, strategy=AsOf(strategy, lags + 1))


def halfwidths_of_versions(
    terms: Design, versions: Sequence[int], level: float
) -> tuple[float, ...]:
    """Return half-widths of a cell in some versions of a window, given by their numbers from 1 on.

    Version 1 is released at the window's end, and each further version one window later.
    """
    strategy = windows_of(terms)
    at = newest_at(terms, strategy.lags)
    steps = strategy.lags + 2 - np.asarray(versions, np.int64)
    return tuple(at.errors.window_halfwidths(steps - 1, steps, level).tolist())


def named_versions(terms: Design, level: float) -> Mapping[str, tuple[float, ...]]:
    """Return half-widths of a window's number as it is first released (`FIRST`), and as it is once
    it is final (`FINAL`).

    Args:
        terms: design of the stream (strategy, guarantee and noise).
        level: probability with which each interval holds.
    """
    first, final = halfwidths_of_versions(terms, (1, windows_of(terms).lags + 1), level)
    return {FIRST: (first,), FINAL: (final,)}

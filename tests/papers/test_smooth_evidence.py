"""Numbers and figures of "A Smooth Binary Mechanism"."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from counton.strategies import SmoothBinary
from counton.strategies.published.smooth import unrank
from papers import Evidence
from papers.smooth.figures import efficiency
from papers.smooth.numbers import (
    PURE,
    best_share,
    lowest_run,
    nodes_of,
    pure_constant,
    pure_variance,
    replaced,
)
from papers.smooth.timing import BINARY, HORIZONS, ROOT, SMOOTH, Times

pytestmark = pytest.mark.xdist_group("smooth")

#: The rows that do not agree, each for the reason in its note: place and computed number.
EXPLAINED = [
    ("Table 1", 420 / 400),
    ("Table 1", 226.870289 / 400),
    ("Table 1", 5.4789878**2 / 400),
    ("Table 1", 144 / 400),
    ("section 3.2", 1),  # T = 2
    ("Lemma 3.4", 9),  # T = 13
    ("Lemma 3.4", 49),  # T = 1000
    ("Lemma 3.4", 2506),
    ("abstract", 1600 / 484),
    *(("Lemma 3.5", math.comb(2 * k + 1, k + 1) - (k + 1)) for k in range(2, 7)),
    ("section 5", 0.160365),
    *(("section 5", zeros / height) for height, zeros, _ in PURE.values()),
]


def test_smooth_rows_agree_or_are_explained(smooth: Evidence) -> None:
    assert smooth.wrong == ()
    assert len(smooth.comparisons) >= 75
    found = [(row.place, row.computed) for row in smooth.comparisons if row.verdict == "explained"]
    assert [place for place, _ in found] == [place for place, _ in EXPLAINED]
    for (_, computed), (_, known) in zip(found, EXPLAINED, strict=True):
        assert computed == pytest.approx(known, rel=1e-5)


def test_best_share_of_zeros_matches_grid_and_high_tree() -> None:
    shares = np.linspace(0.05, 0.5, 4501)
    assert best_share() == pytest.approx(shares[np.argmin([*map(pure_constant, shares)])], abs=1e-4)
    height = 250
    zeros = 40
    leaves = math.comb(height, zeros) - 1
    limit = pure_constant(zeros / height) * math.log2(leaves) ** 3
    # C(h, k) falls short of 2^(H(k / h) h) by a factor of the order of the root of h.
    assert pure_variance(SmoothBinary(2**61, height, zeros)) == pytest.approx(limit, rel=0.12)
    for horizon, (_, _, variance) in PURE.items():
        assert pure_variance(SmoothBinary.best(horizon, norm=1)) == variance


def test_the_drawn_nodes_are_those_that_the_mechanism_reads() -> None:
    tree = SmoothBinary(60, 8, 4)
    for step in range(1, 61):
        ranges = nodes_of(8, unrank(8, 4, step))
        assert len(ranges) == len(tree.row(step))
        # End to end, from the first leaf up to the one before the leaf of the next item.
        covered = [leaf for low, high in ranges for leaf in range(low, high + 1)]
        assert covered == [*range(1, unrank(8, 4, step) + 1)]
    rows = [{node[:2] for node in tree.row(step)} for step in range(1, 61)]
    counted = [nodes for nodes, _ in replaced(8, 4, 60)]
    assert counted == [len(new - old) for old, new in zip([set(), *rows], rows, strict=False)]
    assert counted[1:] == [lowest_run(unrank(8, 4, step)) for step in range(1, 60)]


def test_ratios_of_times_use_least_time_of_one_run() -> None:
    seconds = {
        (name, horizon): [1.0 * weight, 100.0, 1.0 * weight]
        for name, weight in ((BINARY, 1), (SMOOTH, 2), (ROOT, 3))
        for horizon in HORIZONS
    }
    times = Times(seconds)
    assert times.ratio(SMOOTH, BINARY, HORIZONS[-1]) == 2
    seconds[ROOT, HORIZONS[-1]] = [12.0, 12.0, 12.0]
    assert [row.computed for row in times.rows()] == [2, 0.25]
    assert [row.verdict for row in times.rows()] == ["agrees", "agrees"]
    for horizon in HORIZONS:
        seconds[SMOOTH, horizon] = [1000.0]
        seconds[ROOT, horizon] = [1.0 / horizon]
    assert [row.verdict for row in times.rows()] == ["DIFFERS", "DIFFERS"]


@pytest.mark.slow
def test_in_full_a_figure_has_a_panel_more(
    drawn: Callable[[str], Evidence], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    figures = drawn("smooth").figures
    # In full the last but one has a panel more, under the same name and title.
    seconds = {
        (name, horizon): [1.0, 2.0] for name in (BINARY, SMOOTH, ROOT) for horizon in HORIZONS
    }
    timed = efficiency(tmp_path / "figure-5.png", Times(seconds))
    assert timed[1:] == figures[4][1:]
    assert timed.path.stat().st_size > figures[4].path.stat().st_size

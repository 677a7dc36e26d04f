"""The table of errors: nothing published is below the plans, nothing is below the bound."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from counton import plan
from counton.strategies import KAry, LookAhead
from papers import Comparison, Evidence, reproduce
from papers.less_noise.numbers import (
    BOUND,
    GUARANTEES,
    LOOK_AHEAD,
    PLANNED,
    PUBLISHED,
    comparisons,
    least_squares_tree,
)

pytestmark = pytest.mark.xdist_group("less-noise")


def test_nothing_published_has_less_error(less_noise: Evidence) -> None:
    errors = less_noise.errors
    for one in errors:
        at = (one.guarantee, one.metric, one.horizon)
        here = {row.mechanism: row.std for row in errors if at == row[:3]}
        least = here.pop(BOUND)
        searched = here.pop("HDMM", math.inf)
        assert least <= here[PLANNED] <= min(here.values()) * (1 + 1e-12)
        assert here[PLANNED] < 1.002 * searched
        if one.guarantee.startswith("pure"):
            trees = here["least-squares tree"]
            streams = [
                here[kind.name]
                for kind in PUBLISHED
                if kind.name in here and kind.purpose == "streams"
            ]
            assert here[LOOK_AHEAD] < 0.92 * min(streams)
            assert here[PLANNED] < 0.85 * min(streams)
            assert here[PLANNED] < 0.93 * trees < 0.93 * min(streams)


def test_the_least_squares_tree_is_that_of_its_matrix() -> None:
    """By a matrix written out, and the law of discrete Laplace noise."""
    horizon = 30
    children = 3
    tree = LookAhead(horizon, (children,) * 3)
    steps = np.arange(horizon)
    rows = [
        steps // children**level == node
        for level in range(4)
        for node in range(-(-horizon // children**level))
    ]
    measured = np.array(rows, dtype=np.float64)
    assert measured.sum(axis=0).max() == 4
    totals = np.tril(np.ones((horizon, horizon)))
    read = totals @ np.linalg.solve(measured.T @ measured, measured.T)
    assert abs(read @ measured - totals).max() < 1e-9
    ratio = math.exp(-1 / 4)  # scale: a step counts in 4 rows
    variances = (read**2).sum(axis=1) * 2 * ratio / (1 - ratio) ** 2
    asked = plan(horizon, GUARANTEES["pure, epsilon = 1"][0], strategies=[tree]).best
    assert asked.errors.mean_std**2 == pytest.approx(variances.mean(), rel=1e-6)
    assert asked.errors.max_std**2 == pytest.approx(variances.max(), rel=1e-6)
    best = least_squares_tree(horizon, 1, "mean")
    assert best.overall_variance("mean") * best.height**2 <= 16 * tree.overall_variance("mean")


def test_rows_are_plans_of_one_strategy(less_noise: Evidence) -> None:
    (row,) = (
        row.std
        for row in less_noise.errors
        if (row[:4]) == ("pure, epsilon = 1", "mean", 365, "k-ary with subtraction")
    )
    guarantee, _ = GUARANTEES["pure, epsilon = 1"]
    assert row == plan(365, guarantee, strategies=[KAry.best(365)]).best.errors.mean_std


def test_comparisons_agree_with_stated_errors(less_noise: Evidence) -> None:
    assert {row.verdict for row in less_noise.comparisons} == {"agrees"}
    assert any(row.at_most for row in less_noise.comparisons)


@pytest.mark.evidence
def test_comparisons_agree_at_longest_horizons() -> None:
    assert {row.verdict for row in comparisons()} == {"agrees"}


def test_upper_bound_is_compared_without_tolerance() -> None:
    assert Comparison("here", "variance", "62.6", 62.6, at_most=True).agrees
    assert not Comparison("here", "variance", "62.6", 62.61, at_most=True).agrees


@pytest.mark.evidence
def test_the_picture_has_four_panels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (figure,) = reproduce("less-noise", tmp_path / "new", quick=True).figures
    assert figure.path.name == "less-noise.png"
    assert figure.path.stat().st_size > 30_000


def test_mechanisms_page_states_how_far_plans_are_below(less_noise: Evidence) -> None:
    """With Laplace noise, over the lengths of the quick form."""
    streams = {one.name for one in PUBLISHED if one.purpose == "streams"}
    horizons = sorted({row.horizon for row in less_noise.errors})
    below: dict[tuple[str, str], list[float]] = {}
    for metric in ("mean", "max"):
        for horizon in horizons:
            stds = {
                row.mechanism: row.std
                for row in less_noise.errors
                if (row.guarantee[:4], row.metric, row.horizon) == ("pure", metric, horizon)
            }
            best = min(std for name, std in stds.items() if name in streams)
            for other, std in (("streams", best), ("tree", stds["least-squares tree"])):
                below.setdefault((metric, other), []).append(100 * (1 - stds[PLANNED] / std))
    ranges = {key: f"{min(values):.0f} to {max(values):.0f}" for key, values in below.items()}
    page = Path(__file__).parents[2] / "docs" / "research" / "mechanisms.md"
    stated = (
        f"For {horizons[0]} to {horizons[-1]:,} steps with Laplace noise, the mean standard "
        f"deviation of plans is {ranges['mean', 'streams']} per cent below that of the best "
        "mechanism published for streams. The largest standard deviation is "
        f"{ranges['max', 'streams']} per cent below. Compared with the best least-squares tree, "
        f"the mean is {ranges['mean', 'tree']} per cent lower, and the largest is "
        f"{ranges['max', 'tree']} per cent lower."
    )
    assert stated in " ".join(page.read_text("utf-8").split())

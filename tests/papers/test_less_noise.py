"""The table of errors: nothing published is below the plans, nothing is below the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from counton.plans import plan
from counton.strategies import KAry
from papers import Comparison, Evidence, reproduce
from papers.less_noise.numbers import (
    BOUND,
    GUARANTEES,
    LOOK_AHEAD,
    PLANNED,
    PUBLISHED,
)

pytestmark = pytest.mark.xdist_group("less-noise")


def test_nothing_published_has_less_error(less_noise: Evidence) -> None:
    errors = less_noise.errors
    for one in errors:
        at = (one.guarantee, one.metric, one.horizon)
        here = {row.mechanism: row.std for row in errors if at == row[:3]}
        least = here.pop(BOUND)
        assert least <= here[PLANNED] <= min(here.values()) * (1 + 1e-12)
        if one.guarantee.startswith("pure"):
            published = [here[kind.name] for kind in PUBLISHED if kind.name in here]
            assert here[LOOK_AHEAD] < 0.92 * min(published)
            assert here[PLANNED] < 0.85 * min(published)


def test_rows_are_plans_of_one_strategy(less_noise: Evidence) -> None:
    (row,) = (
        row.std
        for row in less_noise.errors
        if (row[:4]) == ("pure, epsilon = 1", "mean", 365, "k-ary with subtraction")
    )
    guarantee, _ = GUARANTEES["pure, epsilon = 1"]
    assert row == plan(365, guarantee, strategies=[KAry.best(365)]).best.mean_std


def test_what_was_announced_is_reached(less_noise: Evidence) -> None:
    assert {row.verdict for row in less_noise.comparisons} == {"agrees"}
    assert any(row.at_most for row in less_noise.comparisons)


def test_at_most_is_not_nearly() -> None:
    assert Comparison("here", "variance", "62.6", 62.6, at_most=True).agrees
    assert not Comparison("here", "variance", "62.6", 62.61, at_most=True).agrees


@pytest.mark.slow
def test_the_picture_has_four_panels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (figure,) = reproduce("less-noise", tmp_path / "new", quick=True).figures
    assert figure.path.name == "less-noise.png"
    assert figure.path.stat().st_size > 30_000

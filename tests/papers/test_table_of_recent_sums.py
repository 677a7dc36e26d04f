"""The table of rolling and decayed sums in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from counton import Decayed, Rolling
from counton.strategies.workloads import RecentWorkload
from papers import recent_sums

PAGE = Path(__file__).parents[2] / "docs/research/accuracy.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "guarantee"),
    [(Rolling(7), "ρ = ½"), (Rolling(28), "ε = 1"), (Decayed(7), "ε = 1")],
    ids=str,
)
def test_page_has_the_computed_rows(workload: RecentWorkload, guarantee: str) -> None:
    row = recent_sums.row_of(workload, guarantee, recent_sums.YEAR)
    line = recent_sums.table([row]).splitlines()[-1]
    assert line in PAGE.read_text(encoding="utf-8").splitlines()
    assert row.planned <= row.derived


def test_page_has_a_row_for_each_workload_and_guarantee() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for workload in recent_sums.WORKLOADS:
        for guarantee in recent_sums.GUARANTEES:
            words = workload.words.removeprefix("the ")
            assert f"| {words} | {guarantee} | 365 |" in text


@pytest.mark.slow
def test_picture_is_drawn(tmp_path: Path) -> None:
    rows = [
        recent_sums.row_of(Rolling(width), name, 40)
        for name in recent_sums.GUARANTEES
        for width in (1, 7, 30)
    ]
    figure = recent_sums.draw(tmp_path / "rolling.png", rows)
    assert figure.path.stat().st_size > 5_000

"""Totals of groups, and bands, over a night in which the clocks change."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import PureDP, Release, read, release
from counton.continual import Answer
from counton.results.bands import with_joint_intervals
from counton.results.released_table import table_of_series


def released(tmp_path: Path, every: str = "1h", hours: int = 29 * 24, **more: Any) -> Any:
    """Rows in every hour from 30 March 2024 on, over the night in which Berlin skips an hour."""
    begin = datetime(2024, 3, 30, 3, tzinfo=UTC)
    visits = pl.DataFrame({
        "time": [begin + timedelta(minutes=10 + 20 * n) for n in range(3 * hours)],
        "page": ["home", "shop", "home"] * hours,
    })  # fmt: skip
    out = tmp_path / "t.parquet"
    asked: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop"], **more}
    release(
        "count", visits, time="time", every=every, start="2024-03-30T04:00",
        windows=720 if every == "1h" else 1440, until="latest-event", guarantee=PureDP(1),
        timezone="Europe/Berlin",
        state=tmp_path / "s.db", output=out, **asked,
    )  # fmt: skip
    return read(out)


def test_totals_of_groups_are_their_sums(tmp_path: Path) -> None:
    found = released(tmp_path, hours=60)
    both = found.total(["home", "shop"], steps="2:9")
    assert isinstance(both, Answer)
    assert both.value == pytest.approx(found.combine({"home": 1, "shop": 1}, steps="2:9").value)
    assert both.std == pytest.approx(2**0.5 * found.total("home", steps="2:9").std)


@pytest.mark.parametrize("form", ["cumulative", "per-window", "both"])
def test_chart_of_band_shows_limits_of_band(tmp_path: Path, form: str) -> None:
    found = released(
        tmp_path, hours=40, series=form, strategy="binary" if form != "per-window" else None
    ).only(range(5, 40))
    table = table_of_series(with_joint_intervals(found.numbers))
    assert table.equals(found.band())
    figure: Any
    (figure,) = Release(with_joint_intervals(found.numbers)).figures().values()
    assert "with 95% intervals, which hold together" in [one.get_text() for one in figure.texts][1]
    ends = [path.vertices[:, 1] for each in figure.axes for one in each.collections
            for path in one.get_paths()]  # fmt: skip
    drawn = np.concatenate(ends)
    assert np.isclose(drawn, float(table["upper"].to_numpy().max())).any()

"""Charts of revised windows: newest versions, earlier ones, provisional ones hatched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from counton.charts.style import Caption
from counton.charts.version_charts import Forecasts, Versions, plot_nowcast, plot_versions
from counton.cli.app import app
from tests.released.test_nowcasting import state  # noqa: F401 - a fixture

DAYS = np.arange("2026-01-01", "2026-01-11", dtype="datetime64[D]")


def _versions(groups: int = 1) -> Versions:
    """Ten windows of which two may still change, with lags 0 to 2."""
    values = np.cumsum(np.ones((10, 3, groups)) * [[[60.0], [30.0], [10.0]]], axis=1)
    values[9, 1:] = values[8, 2:] = np.nan
    names = [f"page {place}" for place in range(groups)]
    return Versions(DAYS, DAYS + 1, names, values, values - 2, values + 2, final=2)


def test_provisional_windows_are_hatched_and_said() -> None:
    figure = plot_versions(_versions(), Caption("Visits", "per day", "visits"), period="day")
    panel, shares, _ = figure.axes
    assert [one.get_hatch() for one in panel.patches] == ["////"]
    assert [one.get_hatch() for one in shares.patches] == ["////"]
    said = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "hatched: provisional, more rows may come" in said
    first, newest = panel.lines[1].get_ydata(), panel.lines[-1].get_ydata()
    assert (float(np.asarray(first)[0]), float(np.asarray(newest)[0])) == (60.0, 100.0)


def test_shares_are_of_the_final_number_and_of_final_windows_alone() -> None:
    shares = _versions(2).shares
    assert shares[0].tolist() == pytest.approx([0.6, 0.9, 1.0])
    assert np.isnan(shares[8:]).all()


@pytest.mark.parametrize("width", [4.0, 7.5])
def test_nothing_lies_on_the_foot(width: float) -> None:
    words = Caption("Visits", "per day", "visits", "Noise protects each single visit", width)
    figure = plot_versions(_versions(2), words, period="day")
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.texts]
    for number, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[number + 1 :])


@pytest.mark.parametrize("width", [4.0, 7.5])
def test_forecasts_stand_over_the_provisional_windows(width: float) -> None:
    ahead = Forecasts(*(np.full((2, 1), value) for value in (100.0, 97.0, 180.0)))
    figure = plot_nowcast(_versions(), ahead, Caption("Visits", "per day", "visits", width=width))
    (panel,) = figure.axes
    newest, forecast = (np.asarray(line.get_ydata(), float) for line in panel.lines[-2:])
    assert (newest[-1], forecast.tolist()) == (60.0, [100.0] * 4)
    assert [one.get_hatch() for one in panel.patches] == ["////"]
    hatched: Any = panel.patches[0]
    assert np.asarray(panel.lines[-1].get_xdata(), float)[0] == hatched.get_x()
    assert panel.get_ylim()[1] > 180
    said = " ".join(text.get_text() for text in [*figure.texts, *panel.texts])
    assert "forecast" in said


def test_answer_draws_a_nowcast(state: Path, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "ahead.svg"
    done = CliRunner().invoke(app, ["answer", str(state), "--nowcast", "--plot", str(out)])
    assert done.exit_code == 0, done.stderr
    drawn = out.read_text()
    assert all(word in drawn for word in ("What will be", "home", "forecast", "hatched"))


def test_export_draws_versions(state: Path, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "known.png"
    done = CliRunner().invoke(app, ["export", str(state), "--versions", "all", "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    assert out.read_bytes().startswith(b"\x89PNG")


def test_numbers_below_zero_are_within_the_axis() -> None:
    """Noise takes small numbers below zero: an interval that ends at zero would be a false one."""
    versions = _versions()
    below = replace(versions, **{
        name: getattr(versions, name) - 100 for name in ("estimates", "lower", "upper")
    })  # fmt: skip
    panel, *_ = plot_versions(below, Caption("Visits", "per day", "visits"), period="day").axes
    assert panel.get_ylim()[0] < -42 < 2 < panel.get_ylim()[1]
    ahead = Forecasts(*(np.full((2, 1), value) for value in (-10.0, -70.0, 4.0)))
    (panel,) = plot_nowcast(below, ahead, Caption("Visits", "per day", "visits")).axes
    assert panel.get_ylim()[0] < -70 < 4 < panel.get_ylim()[1]

"""The recipe ``recipes/watch.py``: alarms at the stated rate, and an exit code of their own."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from forked_commands import forked_python
from programs import run_program

from counton import PureDP, release

RECIPE = Path(__file__).parents[2] / "recipes" / "watch.py"
OF = runpy.run_path(str(RECIPE), run_name="recipe")
DAYS = np.arange("2024-01-01", "2024-03-25", dtype="datetime64[D]")


def test_alarms_have_stated_rate() -> None:
    """Some 5,800 alarms: their number is 1.3% about its mean."""
    normal = np.random.default_rng(1).standard_normal(300_000)
    rate = len(OF["alarms"](normal, OF["threshold_for"](1 / 52))) / len(normal)
    assert rate == pytest.approx(1 / 52, rel=0.05)
    looser = len(OF["alarms"](normal, OF["threshold_for"](1.15 / 52))) / len(normal)
    assert looser > 1.05 / 52


@pytest.mark.parametrize("season", [1, 7])
def test_errors_of_forecasts_are_standard_normal(season: int) -> None:
    rng = np.random.default_rng(9)
    errors = []
    for _ in range(40):
        level = 400 * (1 + 0.3 * (season > 1) * np.sin(2 * np.pi * np.arange(120) / 7))
        errors.append(OF["residuals"](rng.poisson(level) + rng.normal(0, 8, 120), season))
    every = np.concatenate(errors)
    assert abs(every.mean()) < 4 / np.sqrt(len(every))
    assert every.var() == pytest.approx(1, abs=4 * np.sqrt(2 / len(every)))
    assert abs((every[1:] * every[:-1]).mean()) < 4 / np.sqrt(len(every))


@pytest.mark.parametrize(
    "more",
    [{"allowed_lateness": "2d"}, *({"series": of} for of in ("per-window", "cumulative", "both"))],
)
def test_a_change_of_the_shop_is_an_alarm(tmp_path: Path, more: dict[str, Any]) -> None:
    rows = [(str(day), page) for day in DAYS for page in ("home", "shop") for _ in range(40)]
    late = DAYS[-4:] if "allowed_lateness" in more else DAYS[-2:]
    rows += [(str(day), "shop") for day in late for _ in range(400)]
    visits = pl.DataFrame(rows, schema=["time", "page"], orient="row")
    steps: dict[str, Any] = {} if "allowed_lateness" in more else {"windows": 366}
    release(
        "count", visits, time="time", every="1d", start="2024-01-01", until="2024-03-25",
        group_by="page",
        groups=["home", "shop"], guarantee=PureDP(4), append="allowed_lateness" in more,
        state=tmp_path / "visits.db", output=tmp_path / "visits.csv", **steps, **more,
    )  # fmt: skip
    done = run_program([forked_python(), str(RECIPE), str(tmp_path / "visits.csv")])
    refused = {"cumulative": "no windows of equal noise", "both": "share noise"}
    if (said := refused.get(more.get("series", ""))) is not None:
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    else:
        assert done.returncode == 10, done.stdout + done.stderr
        newest = done.stdout.splitlines()[-2]
        assert ("shop" in newest, "increase" in newest) == (True, True), done.stdout

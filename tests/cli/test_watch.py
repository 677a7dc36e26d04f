"""``counton watch``: alarms over released tables and states, with an exit code of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import Average, PureDP, release, watch
from counton.base.errors import InvalidInput
from counton.numbers.design import design_for
from counton.privacy import Contribution
from counton.released.watching import _noise_of_windows
from counton.strategies import Binary
from tests.cli.conftest import Workplace

DAYS = np.arange("2024-01-01", "2024-03-25", dtype="datetime64[D]")


def _visits(last: int) -> pl.DataFrame:
    """Forty visits a day to each page, and on the last two days as many as wanted to the shop."""
    rows = [(str(day), page) for day in DAYS for page in ("home", "shop") for _ in range(40)]
    rows += [(str(day), "shop") for day in DAYS[-2:] for _ in range(last - 40)]
    return pl.DataFrame(rows, schema=["time", "page"], orient="row")


def _release(state: Path, last: int, **more: Any) -> None:
    asked: dict[str, Any] = {
        "time": "time",
        "every": "1d",
        "start": "2024-01-01",
        "steps": 366,
        "until": "2024-03-25",
        "by": "page",
        "domain": ["home", "shop"],
        "state": state,
        "guarantee": PureDP(4),
        "out": state.with_suffix(".parquet"),
        **more,
    }
    release("count", _visits(last), **asked)


@pytest.mark.parametrize("kind", ["windows", "totals"])
def test_a_change_is_an_alarm_with_a_code_of_its_own(place: Workplace, kind: str) -> None:
    _release(place.folder / "visits.db", 400, release=kind)
    for source in ("visits.db", "visits.parquet"):
        done = place.plain("watch", str(place.folder / source), "--json")
        assert done.code == 10, done.err
        said = json.loads(done.out)
        assert said["alarm"] is True
        assert {row["group"] for row in said["alarms"][-2:]} == {"shop"}
        assert said["alarms"][-1]["change"] == "increase"


def test_no_change_is_no_alarm_and_delays_are_said(place: Workplace) -> None:
    _release(place.folder / "visits.db", 40, release="windows")
    source = str(place.folder / "visits.parquet")
    done = place.plain("watch", source, "--false-alarms", "0.01", "--change", "30")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "No alarm." in said
    assert "0.01 false alarms expected in a year in 2 groups together" in said
    assert "A lasting change of 30 in each window of shop brings an alarm after" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--false-alarms", "5000"], "false alarms in one window"),
        (["--over", "800d"], "give 1 to 366 windows"),
        (["--change", "-1"], "is not the size of a change"),
        (["--over", "1y"], "is not a length of time"),
        (["--groups", "cellar"], "cellar"),
    ],
)
def test_what_is_wrong_is_named(place: Workplace, more: list[str], said: str) -> None:
    _release(place.folder / "visits.db", 40, release="windows")
    done = place.plain("watch", str(place.folder / "visits.parquet"), *more)
    assert done.code == 2
    assert said in done.err


def test_a_statistic_without_sums_is_refused(place: Workplace) -> None:
    rows = _visits(40).with_columns(paid=pl.lit(3))
    average = Average(0, 10, resolution=1)
    asked: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-01-01", "steps": 366}
    state = place.folder / "paid.db"
    run = release(
        average, rows, value="paid", until="2024-03-25", guarantee=PureDP(1), state=state, **asked
    )
    with pytest.raises(InvalidInput, match="watch a count or a sum"):
        watch(run)


def test_the_noise_of_windows_is_that_of_differences_of_totals() -> None:
    added = Contribution("add_remove", 1, 1)
    design = design_for(
        Binary(16), PureDP(1), added, (), counters=None, name="visits", statistic=None
    )
    steps = np.arange(3, 12)
    covariance = _noise_of_windows(design, steps)
    assert np.diag(covariance) == pytest.approx(design.errors.window_std(steps - 1, steps) ** 2)
    whole = float(design.errors.window_std(np.array([2]), np.array([11]))[0])
    assert float(covariance.sum()) == pytest.approx(whole**2)


def test_provisional_windows_are_no_alarm_and_final_ones_are(place: Workplace) -> None:
    # Half of each day's rows come two days late, so each provisional number is far below others.
    asked: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-01-01", "revise": "2d"}
    state, level = place.folder / "late.db", 200
    for night, day in enumerate(DAYS[:40]):
        days = [day, DAYS[night - 2]] if night > 1 else [day]
        many = [(2 if night == 35 else 1) * level, (2 if night == 37 else 1) * level]
        rows = [str(one) for one, each in zip(days, many, strict=False) for _ in range(each)]
        run = release(
            "count", pl.DataFrame({"time": rows}), append=True, guarantee=PureDP(20), state=state,
            until=str(day + 1), **asked,
        )  # fmt: skip
        if night == 30:
            found = watch(run, false_alarms=0.1)
            assert (found.table().height, found.newest, found.last) == (0, False, 29)
            assert "Provisional windows are not watched" in found.describe()
        if night == 1:
            with pytest.raises(InvalidInput, match="no window of 'events' is final yet"):
                watch(run)
        if night == 37:  # the doubled day is final on this night
            assert watch(run, false_alarms=0.1).newest
    starts = watch(run, false_alarms=0.1, over="1d").table()["window_start"].to_list()
    assert [str(start.date()) for start in starts] == ["2024-02-05"]

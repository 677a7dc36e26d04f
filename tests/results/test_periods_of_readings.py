"""Averages, tables and reports of each week or month: of its rows, and as noisy as it is."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counton
from counton import ApproxDP, PureDP, Release, release
from counton.base.errors import InvalidInputError
from counton.results.questions import number_of
from counton.results.released_table import last_rows
from counton.statistics import Average, Contingency, Count, Moments, Quantiles, Report

BEGIN = datetime(2024, 2, 27)
DAYS = 10
#: The days before March, and those in it.
MONTHS = [(0, 3), (3, 10)]
TIMES = [BEGIN + timedelta(hours=6 * place + 1) for place in range(4 * DAYS)]
PAID = np.random.default_rng(5).integers(0, 9, len(TIMES))
PAGE = np.array(["home", "shop"])[np.arange(len(TIMES)) % 2]


def released(what: Any, folder: Path, epsilon: float = 1e6, **more: Any) -> Release:
    """What a job releases of four rows a day; unless told else with next to no noise."""
    rows = pl.DataFrame({"at": [str(time) for time in TIMES], "page": PAGE, "paid": PAID})
    return release(
        what, rows, time="at", every="1d", start=f"{BEGIN:%Y-%m-%d}", windows=100,
        until=f"{BEGIN + timedelta(days=DAYS):%Y-%m-%d}",
        **{"guarantee": PureDP(epsilon), "state": str(folder / "s.db"), **more},
    )  # fmt: skip


AVERAGE = Average(0, 8, resolution=1)
BY_PAGE: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop"]}


def test_averages_of_a_month_are_those_of_its_rows(tmp_path: Path) -> None:
    found = released(AVERAGE, tmp_path, value="paid", **BY_PAGE).sums("1mo")
    assert found.columns == [
        *("window_start", "window_end", "first_window", "last_window"),
        *(
            "group",
            "measure",
            "estimate",
            "noise_std",
            "lower",
            "upper",
            "confidence_level",
            "is_complete",
        ),
    ]
    expected = []
    for start, stop in MONTHS:
        for page in ("home", "shop"):
            own = PAID[4 * start : 4 * stop][PAGE[4 * start : 4 * stop] == page]
            for name, value in (("mean", own.mean()), ("sum", own.sum()), ("count", len(own))):
                expected.append((start + 1, stop, page, name, pytest.approx(value, abs=0.01)))
    assert (
        found.select("first_window", "last_window", "group", "measure", "estimate").rows()
        == expected
    )
    assert not found["is_complete"].any()
    assert found["window_end"].dt.strftime("%Y-%m-%d").unique().sort().to_list() == [
        "2024-03-01",
        "2024-03-08",
    ]


@pytest.mark.parametrize(
    ("statistic", "more"),
    [
        (Contingency({"page": ["home", "shop"]}), {"columns": "page"}),
        (Moments({"paid": (0, 8)}), {"columns": "paid"}),
        (Quantiles([0, 3, 6, 9]), {"value": "paid"}),
        (
            Report(
                {"n": Count(), "paid": AVERAGE, "at": Contingency({"page": ["home", "shop"]})},
                columns={"paid": "paid"},
            ),
            {},
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_sum_of_period_equals_stream_of_its_rows(statistic: Any, more: Any, tmp_path: Path) -> None:
    """Of nearly no noise: the second period, against a stream that begins with it."""
    whole = released(statistic, tmp_path, 1e7, **more)
    found = whole.sums("1mo").filter(pl.col("first_window") == 4)
    march = [place for place, time in enumerate(TIMES) if time.month == 3]
    rows = pl.DataFrame(
        {"at": [str(TIMES[p]) for p in march], "page": PAGE[march], "paid": PAID[march]}
    )
    alone = release(
        statistic, rows, time="at", every="1mo", start="2024-03-01", windows=100,
        until="2024-04-01",
        guarantee=PureDP(1e7), state=str(tmp_path / "alone.db"), **more,
    ).table()  # fmt: skip
    assert found.height == alone.height > 0
    assert found["estimate"].to_list() == pytest.approx(
        alone["estimate"].to_list(), abs=0.02, nan_ok=True
    )


def test_the_intervals_are_of_the_noise_between_two_releases(tmp_path: Path) -> None:
    whole = released(AVERAGE, tmp_path, 1, value="paid")
    found = whole.sums("1mo")
    for row in found.filter(pl.col("measure") == "count").iter_rows(named=True):
        start = row["first_window"] - 1
        stop = row["last_window"]
        unit = (
            whole.numbers.design.errors.std(range(1, 2))[0]
            / whole.table()
            .filter(pl.col("measure") == "count", pl.col("window_index") == 1)["noise_std"]
            .item()
        )
        assert row["noise_std"] == pytest.approx(
            whole.numbers.design.errors.window_std(start, stop) / unit
        )
        week = number_of(whole.numbers, "count", range(start + 1, stop + 1))
        assert row["estimate"] == pytest.approx(week.value)
    each_day = whole.sums("1d").filter(pl.col("measure") == "sum")
    total = last_rows(whole.numbers).filter(pl.col("measure") == "sum")["estimate"].item()
    assert each_day["estimate"].sum() == pytest.approx(total)
    assert each_day.height == DAYS


def test_sums_of_complete_and_cut_file_equal_those_of_run(tmp_path: Path) -> None:
    whole = released(AVERAGE, tmp_path, 1, value="paid", output=str(tmp_path / "o.csv"),
                     **BY_PAGE)  # fmt: skip
    read = counton.read(str(tmp_path / "o.csv"))
    assert read.sums("1mo").equals(whole.sums("1mo"))
    lines = (tmp_path / "o.csv").read_text().splitlines()
    kept = [line for line in lines if ",shop," not in line and ",mean," not in line]
    (tmp_path / "o.csv").write_text("\n".join(kept) + "\n")
    windows = counton.read(str(tmp_path / "o.csv")).sums("1mo")
    left = (pl.col("group") == "home") & (pl.col("measure") != "mean")
    assert windows.equals(whole.sums("1mo").filter(left))


@pytest.mark.parametrize(
    ("what", "more", "why"),
    [
        (
            "quantiles",
            {"value": "paid", "edges": "0,2,4,8", "series": "per-window"},
            "needs totals",
        ),
        (
            "count",
            {"group_by": "page", "unlisted_groups": "discover"},
            "groups that were found in the data",
        ),
    ],
)
def test_periods_that_do_not_follow_are_refused(
    what: str, more: Any, why: str, tmp_path: Path
) -> None:
    loss: dict[str, Any] = {"guarantee": ApproxDP(1, 1e-6)} if "unlisted_groups" in more else {}
    found = released(what, tmp_path, **more, **loss)
    with pytest.raises(InvalidInputError, match=why):
        found.sums("1mo")

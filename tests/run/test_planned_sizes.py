"""A plan with a public number of rows states the half-widths that a release of such rows has."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import PureDP, plan
from counton.base.errors import InvalidInputError
from counton.run import Job, run
from counton.run.plan_job import planned_job
from counton.statistics import Average, Quantiles
from counton.strategies import Binary

#: Number of windows, and of rows in each of them.
WINDOWS = 6
ROWS = 400
PAID = {"value": "paid", "lower": 0, "upper": 9}
#: Statistics whose errors depend on the number of rows, or whose numbers count rows.
STATISTICS: dict[str, dict[str, Any]] = {
    "average": {**PAID, "resolution": "0.01"},
    "average by page": {**PAID, "resolution": "0.01", "group_by": "page", "groups": "home,shop"},
    "quantiles": {**PAID, "cells": 900, "epsilon": 3},
    "quantiles by page": {
        **PAID,
        "cells": 900,
        "epsilon": 3,
        "group_by": "page",
        "groups": "home,shop",
    },
    "moments": {"columns": "paid,spent", "bounds": "0:9,0:5", "epsilon": 5000},
    "report": {
        "statistics": {
            "rows": {"statistic": "count"},
            "paid": {"statistic": "average", **PAID, "resolution": "0.01"},
        }
    },
    "count": {"group_by": "page", "groups": "home,shop"},
    "sum": {**PAID, "resolution": 1},
    "top-k": {"group_by": "page", "groups": "home,shop", "top": 1},
    "ranges": {"label": "page", "groups": "home,shop"},
    "reach": {"user": "user", "at_least": "1,2", "contribution_period": "3h"},
}
#: The forms of a stream: options of the job.
FORMS: dict[str, dict[str, Any]] = {
    "totals": {"series": "cumulative"},
    "windows": {"series": "per-window"},
    "both": {"series": "both"},
    "periods": {"series": "period-to-date"},
    "revised": {"allowed_lateness": "2h"},
    "last two": {"over": 2},
}


def evenly_spread_rows() -> pl.DataFrame:
    """Rows of which each window has equally many, whose values are spread over their bounds."""
    rows = []
    for hour in range(WINDOWS):
        for place in range(ROWS):
            minute = place * 60 // ROWS
            share = (place + 0.5) / ROWS
            turned = (place * 173 + 0.5) % ROWS / ROWS
            page = ("home", "shop")[place % 2]
            time = f"2024-03-01T{hour:02}:{minute:02}:00"
            rows.append((time, page, f"{hour} {place}", 9 * share, 5 * turned))
    return pl.DataFrame(rows, schema=["at", "page", "user", "paid", "spent"], orient="row")


def job_of(statistic: str, form: str, folder: Path) -> Job:
    """A job with small noise, over rows that are spread evenly."""
    options = {"epsilon": 20, **STATISTICS[statistic], **FORMS[form]}
    if form == "revised" and statistic == "reach":
        options |= {"contribution_period": "1h", "at_least": "1"}
    return Job(
        statistic.removesuffix(" by page"), evenly_spread_rows(), folder / "s.db", time="at",
        every="1h", start="2024-03-01", windows=WINDOWS, until="2024-03-01T06:00",
        allow_empty_windows=True,
        **options,
    )  # fmt: skip


def released_halfwidths(table: pl.DataFrame, step: int) -> dict[str, float]:
    """The mean half-width of each number of a step, over its groups."""
    halves: dict[str, list[float]] = {}
    if "measure" in table.columns and "running total" in table["measure"]:
        table = table.filter(measure="count").drop("measure")
    for row in table.filter(pl.col("window_index") == step).iter_rows(named=True):
        name = str(row.get("measure") or row.get("tree_level") or "")
        if row.get("quantile") is not None:
            name = f"quantile {row['quantile']:g}"
        if row.get("statistic"):
            names = (row["statistic"], row.get("group"), row.get("measure"), row.get("quantile"))
            name = " ".join(str(part) for part in names if part is not None)
        if row["series"] == "per-window" and not name:
            name = "in each window"
        halves.setdefault(name, []).append((row["upper"] - row["lower"]) / 2)
    return {name: sum(each) / len(each) for name, each in halves.items()}


def is_possible(statistic: str, form: str) -> bool:
    if form == "periods":
        return statistic == "reach"
    return form != "last two" or statistic not in ("count", "sum")


CASES = [
    pytest.param(statistic, form, id=f"{statistic}, {form}")
    for statistic in STATISTICS
    for form in FORMS
    if is_possible(statistic, form)
]


@pytest.mark.parametrize(("statistic", "form"), CASES)
def test_plan_with_a_size_states_the_released_halfwidths(
    tmp_path: Path, statistic: str, form: str
) -> None:
    job = job_of(statistic, form, tmp_path)
    planned = planned_job(job, size=WINDOWS * ROWS)
    with run(job) as outcome:
        table = outcome.read().table()
    revised = form == "revised"
    assert planned.steps == ((1, 2, 3) if revised else (1, 3, 6))
    # An interval of a quantile ends where noisy counts cross a line, which the noise moves.
    tolerance = 0.4 if statistic.startswith("quantiles") else 0.03
    for place, step in enumerate(planned.steps):
        shown = WINDOWS + 1 - step if revised else step
        if form == "last two" and shown < 2:  # which has no such number
            continue
        released = released_halfwidths(table, shown)
        numbers = {number.name: number.halfwidths[place] for number in planned.numbers}
        if statistic.startswith("quantiles"):
            assert numbers.keys() == released.keys()
            numbers, released = (
                {"": sum(each.values()) / len(each)} for each in (numbers, released)
            )
        for name, half in numbers.items():
            expected = released.get(name, max(released.values()))
            assert half == pytest.approx(expected, rel=tolerance)


#: How many rows a number of the last step counts, by form.
COUNTED = {
    "totals": {"": 6}, "windows": {"in each window": 1}, "both": {"": 6, "in each window": 1},
    "revised": {"in each window": 1},
}  # fmt: skip


@pytest.mark.parametrize("form", COUNTED)
def test_planned_percentages_refer_to_rows_of_each_number(tmp_path: Path, form: str) -> None:
    planned = planned_job(job_of("count", form, tmp_path), size=WINDOWS * ROWS)
    numbers = {number.name: number for number in planned.numbers}
    assert set(numbers) == set(COUNTED[form])
    for name, windows in COUNTED[form].items():
        rows_of_a_group = windows * ROWS / 2
        half = numbers[name].halfwidths[-1]
        assert numbers[name].percent == pytest.approx(100 * half / rows_of_a_group)


@pytest.mark.parametrize(
    ("statistic", "form", "windows"),
    [
        ("average", "totals", 6), ("average", "windows", 1), ("average", "revised", 1),
        ("average", "last two", 2), ("reach", "periods", 3),
    ],
)  # fmt: skip
def test_planned_percentages_refer_to_rows_of_statistic(
    tmp_path: Path, statistic: str, form: str, windows: int
) -> None:
    planned = planned_job(job_of(statistic, form, tmp_path), size=WINDOWS * ROWS)
    assert planned.rows_of(planned.numbers[0].name) == windows * ROWS
    for number in planned.numbers:
        if number.name == "count":
            assert number.percent == pytest.approx(100 * number.halfwidths[-1] / (windows * ROWS))


def test_rank_error_of_windows_is_a_part_of_their_rows(tmp_path: Path) -> None:
    totals = planned_job(job_of("quantiles", "totals", tmp_path), size=WINDOWS * ROWS)
    windows = planned_job(job_of("quantiles", "windows", tmp_path), size=WINDOWS * ROWS)
    for planned, covered in ((totals, WINDOWS), (windows, 1)):
        without_size = planned_job(planned_again(planned, tmp_path))
        (half,) = {number.halfwidths[-1] for number in without_size.numbers}
        for number in planned.numbers:
            assert number.in_rank
            assert number.percent == pytest.approx(100 * half / (covered * ROWS))


def planned_again(planned: Any, folder: Path) -> Job:
    form = "totals" if planned.metadata.series == "cumulative" else "windows"
    return job_of("quantiles", form, folder)


@pytest.mark.parametrize(
    ("form", "windows"), [("windows", 1), ("revised", 1), ("last two", 2), ("totals", WINDOWS)]
)
def test_margin_of_error_finds_loss_with_that_released_error(
    tmp_path: Path, form: str, windows: int
) -> None:
    wanted = {"epsilon": None, "margin_of_error": "mean=0.05", "expected_rows": WINDOWS * ROWS}
    job = job_of("average", form, tmp_path).derive(**wanted)
    with run(job) as outcome:
        table = outcome.read().table()
    shown = 4 if form == "revised" else WINDOWS  # the newest window that is final
    half = released_halfwidths(table, shown)["mean"]
    (count,) = table.filter(window_index=shown, measure="count")["estimate"]
    # The interval of a mean is as wide as its released count is small.
    assert half * count / (windows * ROWS) == pytest.approx(0.05, rel=0.01)


def test_size_of_revised_windows_needs_their_number_for_an_error(tmp_path: Path) -> None:
    job = job_of("average", "revised", tmp_path)
    endless = job.derive(windows=None)
    with pytest.raises(
        InvalidInputError, match=r"expected_rows=2400 is the number of rows by the last window"
    ):
        planned_job(
            endless.derive(epsilon=None, margin_of_error="mean=0.05", expected_rows=WINDOWS * ROWS)
        )
    planned = planned_job(endless, size=WINDOWS * ROWS)
    assert planned.windows == 1000
    with run(job) as outcome:
        outcome.read()
    later = job.derive(windows=None, start=None, every=None, until=None)
    assert planned_job(later, size=WINDOWS * ROWS).windows == WINDOWS


@pytest.mark.parametrize("strategies", [None, [Binary(WINDOWS)]])
def test_plan_of_per_window_statistic_uses_rows_of_one_window(strategies: Any) -> None:
    average = Average(0, 9, resolution="0.01")
    wanted = {"mean": 0.05}
    windows = plan(
        WINDOWS, of=average, batched=True, series="per-window", strategies=strategies,
        margin_of_error=wanted, expected_rows=WINDOWS * ROWS,
    )  # fmt: skip
    assert windows.halfwidths(WINDOWS)["mean"] == pytest.approx(0.05, rel=0.01)
    if strategies is None:
        once = plan(1, of=average, batched=True, margin_of_error=wanted, expected_rows=ROWS)
        assert isinstance(windows.guarantee, PureDP)
        assert isinstance(once.guarantee, PureDP)
        ratio = float(windows.guarantee.epsilon / once.guarantee.epsilon)
        assert ratio == pytest.approx(1, rel=0.01)


def test_rows_fewer_than_the_cells_of_quantiles_are_spread_evenly() -> None:
    quantiles = Quantiles([*range(901)], line="identity")
    for rows in (0, 1, 400, 1799, 2**60):
        cells = np.asarray(quantiles.typical_cells(rows, 1))
        assert int(cells.sum()) == rows
        assert int(cells.max() - cells.min()) <= 1
        assert abs(int(cells[:450].sum()) - rows // 2) <= 1

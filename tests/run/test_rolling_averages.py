"""Averages of the last windows, and averages in which older windows count less."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from by_reference import state_by_reference
from keys import chosen_key

from counton import ZCDP, Average, Decayed, PureDP, Release, Rolling, Stack, plan, read, release
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError, StreamMismatchError
from counton.job.statistics.average import AverageJob
from counton.job.statistics.count import CountJob
from counton.results.web_page import web_page
from counton.run import Job
from counton.run.notes import annotate
from counton.run.outputs.exports import export, publish
from counton.run.plan_job import planned_job
from counton.run.spec.plan_spec import plan_spec
from counton.run.spec.planned_accuracy import planned_design
from counton.serve.public_series import Journal, SeriesSelection
from counton.state import Store
from counton.statistics import Moments, Sum

START = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 20
TIMES: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 60}
VALUES: dict[str, Any] = {"value": "paid", "lower": -2, "upper": 10, "resolution": 1}
LAST: dict[str, Any] = {"series": "rolling", "last": "7d"}
DECAYED: dict[str, Any] = {"series": "decayed", "half_life": "7d"}
BY: dict[str, Any] = {"group_by": "page", "groups": "home,shop"}
#: So little noise that rounding to whole numbers gives the exact numbers.
EXACT: dict[str, Any] = {"rho": 10**8}
FACTOR = 0.5 ** (1 / 7)


def visits(days: int = DAYS) -> pl.DataFrame:
    """Day d has d + 2 visits of home and 2 of shop, with values from -4 to 12."""
    rows = [
        {
            "time": START + timedelta(days=day, minutes=visit),
            "page": page,
            "paid": (visit * 5 + day) % 17 - 4,
        }
        for day in range(days)
        for page, number in (("home", day + 2), ("shop", 2))
        for visit in range(number)
    ]
    return pl.DataFrame(rows)


def released(rows: pl.DataFrame, folder: Path, last_day: int = DAYS, **options: Any) -> Release:
    until = (START + timedelta(days=last_day)).isoformat()
    stated = {**TIMES, **VALUES, **EXACT, **options}
    name = stated.pop("state", "s.db")
    return release("average", rows, state=folder / name, until=until, key=chosen_key(), **stated)


def daily(group: str) -> tuple[list[int], list[int]]:
    """Return sums of clipped values, and numbers of values, by day."""
    rows = visits().filter(page=group).with_columns(pl.col("paid").clip(-2, 10))
    days = rows.group_by(pl.col("time").dt.date(), maintain_order=True)
    table = days.agg(sum=pl.col("paid").sum(), count=pl.len())
    return table["sum"].to_list(), table["count"].to_list()


def measured(table: pl.DataFrame, measure: str, **of: Any) -> list[float]:
    return table.filter(measure=measure, **of)["estimate"].to_list()


def last_sums(numbers: list[int], width: int) -> list[int]:
    return [sum(numbers[max(0, end - width) : end]) for end in range(1, len(numbers) + 1)]


# ------------------------------------------------------------------------------------ the numbers
@pytest.mark.parametrize("group", ["home", "shop"])
@pytest.mark.parametrize("width", [3, 7])
def test_rolling_average_is_that_of_the_rows_of_last_windows(
    group: str, width: int, tmp_path: Path
) -> None:
    table = released(visits(), tmp_path, **{**LAST, "last": "3d,7d"}, **BY).table()
    sums, counts = (last_sums(numbers, width) for numbers in daily(group))
    of = {"group": group, "n_windows": width}
    assert measured(table, "sum", **of) == pytest.approx(sums, abs=0.5)
    assert measured(table, "count", **of) == pytest.approx(counts, abs=0.1)
    means = np.divide(sums, counts).tolist()
    assert measured(table, "mean", **of) == pytest.approx(means, abs=0.1)


@pytest.mark.parametrize("options", [LAST, DECAYED], ids=["rolling", "decayed"])
def test_average_is_released_sum_divided_by_released_count(
    options: dict[str, Any], tmp_path: Path
) -> None:
    table = released(visits(), tmp_path, **{**options, **BY, "rho": 0.1}).table()
    sums, counts, means = (np.array(measured(table, name)) for name in ("sum", "count", "mean"))
    is_positive = counts > 0
    expected = np.clip(sums[is_positive] / counts[is_positive], -2, 10)
    assert is_positive.sum() > DAYS
    assert means[is_positive].tolist() == pytest.approx(expected.tolist(), abs=1e-9)


def test_decayed_average_counts_old_windows_less(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, **DECAYED, **BY).table()
    sums, counts = (
        [sum(FACTOR ** (now - day) * numbers[day] for day in range(now + 1)) for now in range(DAYS)]
        for numbers in daily("home")
    )
    assert measured(table, "sum", group="home") == pytest.approx(sums, abs=0.5)
    assert measured(table, "count", group="home") == pytest.approx(counts, abs=0.1)
    means = np.divide(sums, counts).tolist()
    assert measured(table, "mean", group="home") == pytest.approx(means, abs=0.1)
    assert table["series"].unique().to_list() == ["decayed"]
    assert not {"n_windows", "is_complete"} & {*table.columns}


def test_rolling_numbers_are_differences_of_released_totals(tmp_path: Path) -> None:
    """A width of all windows gives the totals, from which each shorter sum follows."""
    table = released(visits(), tmp_path, series="rolling", last="7d,60d", rho=0.1).table()
    for measure in ("sum", "count"):
        totals = np.array([0.0, *measured(table, measure, n_windows=60)])
        begins = np.maximum(np.arange(1, DAYS + 1) - 7, 0)
        expected = totals[1:] - totals[begins]
        of_week = measured(table, measure, n_windows=7)
        assert of_week == pytest.approx(expected.tolist(), abs=1e-6)


def test_table_says_which_windows_an_average_counts(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, **LAST).table()
    means = table.filter(measure="mean")
    assert table.columns[3:6] == ["n_windows", "series", "measure"]
    assert means["n_windows"].unique().to_list() == [7]
    assert means["is_complete"].to_list() == [False] * 6 + [True] * (DAYS - 6)
    begins = [START + timedelta(days=max(0, day - 6)) for day in range(DAYS)]
    assert means["window_start"].to_list() == begins
    assert means["window_end"].to_list() == [START + timedelta(days=d + 1) for d in range(DAYS)]


def test_users_are_bounded_in_rolling_averages(tmp_path: Path) -> None:
    rows = visits().with_columns(user=pl.lit("one"))
    bound: dict[str, Any] = {"user": "user", "max_contributions": 1, "contribution_period": "1d"}
    table = released(rows, tmp_path, **LAST, **bound).table()
    expected = [min(day + 1, 7) for day in range(DAYS)]
    assert measured(table, "count") == pytest.approx(expected, abs=0.1)


# --------------------------------------------------------------------------------- night by night
@pytest.mark.parametrize("series", [{**LAST, "last": "3d,7d"}, DECAYED], ids=["rolling", "decayed"])
def test_nights_release_averages_of_one_run(series: dict[str, Any], tmp_path: Path) -> None:
    options = {**BY, **series, "rho": 1, "stream": "paid"}
    at_once = released(visits(), tmp_path, state="once.db", **options).table()
    for night in (1, 2, 5, 9, DAYS):
        nightly = released(visits(night), tmp_path, night, state="nights.db", **options)
        assert nightly.table().equals(at_once.filter(pl.col("window_index") <= night))


@pytest.mark.parametrize("changed", [{"last": "14d"}, {"series": "cumulative", "last": None}])
def test_other_widths_of_averages_are_refused_later(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    released(visits(), tmp_path, 5, **LAST)
    with pytest.raises(StreamMismatchError, match="exists with other options"):
        released(visits(), tmp_path, 6, **{**LAST, **changed})


# ------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**LAST, "series": "cumulative"}, "published alone, with series rolling"),
        ({**LAST, "series": "both"}, "published alone, with series rolling"),
        ({**LAST, "over": 3}, "the numbers are already of recent windows"),
        ({**DECAYED, "over": 3}, "the numbers are already of recent windows"),
        ({**DECAYED, "last": "7d"}, "planned for one kind of sum"),
        ({**LAST, "allowed_lateness": "2d"}, "cannot be used with"),
        ({**LAST, "strategy": "binary"}, "cannot be used with strategy=binary"),
        ({**LAST, "last": "61d"}, "61d has 61 windows, and at most 60 are possible"),
        ({**LAST, "user": "page", "distinct_users": True}, "not numbers of different users"),
        ({**DECAYED, "chart": "c.png"}, "draws counts and sums over time"),
    ],
    ids=str,
)
def test_options_that_rolling_averages_exclude(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        released(visits(), tmp_path, **options)
    assert not (tmp_path / "s.db").exists()


def test_rolling_stream_of_averages_refuses_other_windows_later(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5, **LAST)
    with pytest.raises(InvalidInputError, match="already of recent windows"):
        released(visits(), tmp_path, 6, **LAST, over=3)


# ------------------------------------------------------------------------------------- the noise
def planned(**options: Any) -> Any:
    return plan_spec(AverageJob(**{**TIMES, **VALUES, "windows": 365, **options}))


@pytest.mark.parametrize(
    ("options", "guarantee", "workload"),
    [
        ({**LAST, "rho": 0.5}, ZCDP(0.5), Rolling(7)),
        ({**LAST, "last": "1d,7d", "rho": 0.5}, ZCDP(0.5), Stack([1, 7])),
        ({**LAST, "last": "28d", "epsilon": 1}, PureDP(1), Rolling(28)),
        ({**DECAYED, "rho": 0.5}, ZCDP(0.5), Decayed(7)),
    ],
    ids=["gaussian", "several", "laplace", "decayed"],
)
def test_average_has_the_strategy_of_sums(
    options: dict[str, Any], guarantee: Any, workload: Any
) -> None:
    """Sum and count are cells of one stream, so the plan for sums is that of averages."""
    spec = planned(**options)
    contribution = spec.contribution
    best = plan(365, guarantee, workload=workload, contribution=contribution, shape=(2,)).best
    assert spec.strategy == best.strategy


@pytest.mark.parametrize(
    ("loss", "width", "derived", "rolling"),
    [
        ({"epsilon": 1}, 7, 10.32, 5.27),
        ({"epsilon": 1}, 28, 11.57, 8.58),
        ({"rho": 0.1}, 7, 7.83, 5.62),
        ({"rho": 0.1}, 28, 9.05, 7.33),
    ],
)
def test_rolling_plan_has_less_noise_than_numbers_over_windows(
    loss: dict[str, Any], width: int, derived: float, rolling: float
) -> None:
    """The table of docs/guides/rolling-sums.md: noise of the number of values."""
    stops = np.arange(1, 366)
    row = f"| last {width} days | {derived} | {rolling} |"
    page = Path(__file__).parents[2] / "docs/guides/rolling-sums.md"
    assert row in page.read_text(encoding="utf-8")

    def mean_std(**options: Any) -> float:
        design = planned_design(planned(**loss, **options, lower=0, upper=600))
        std = design.errors.window_std(np.maximum(stops - width, 0), stops)
        return float(np.sqrt((std**2).mean())) * 2**0.5 / 600

    assert mean_std(series="cumulative") == pytest.approx(derived, abs=0.005)
    assert mean_std(series="rolling", last=f"{width}d") == pytest.approx(rolling, abs=0.005)


@pytest.mark.parametrize("options", [LAST, {**LAST, "last": "28d"}, DECAYED], ids=str)
def test_one_value_changes_nodes_as_far_as_the_noise_hides(options: dict[str, Any]) -> None:
    spec = planned(**options, windows=40, epsilon=1)
    distribution = planned_design(spec).distribution
    assert isinstance(distribution, DiscreteLaplace)
    losses = []
    for step in range(1, 41):
        weights = [abs(float(node.weight)) for node in spec.strategy.column(step)]
        for code in range(13):  # every clipped value
            cells = [amount for _, amount in spec.accumulator_statistic.entries(code)]
            moved = sum(map(abs, cells)) * sum(weights) * 2**spec.strategy.facts.lattice_bits
            losses.append(moved / float(distribution.scale))
    assert 0.99 < max(losses) <= 1 + 1e-12


@pytest.mark.parametrize("options", [LAST, DECAYED], ids=["rolling", "decayed"])
def test_one_more_row_moves_released_numbers_by_its_value(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """Both neighbours run under one key, so their difference is what the row moves."""
    row = pl.DataFrame([{"time": START + timedelta(days=4, hours=5), "page": "shop", "paid": 30}])
    few = released(visits(), tmp_path, state="few.db", stream="paid", **options, rho=0.1)
    more = released(
        pl.concat([visits(), row]), tmp_path, state="more.db", stream="paid", **options, rho=0.1
    )
    ages = np.arange(DAYS) - 4
    weights = np.where((ages >= 0) & (ages < 7), 1.0, 0.0)
    if options is DECAYED:
        weights = np.where(ages >= 0, FACTOR ** np.maximum(ages, 0), 0.0)
    for measure, moved in (("sum", 10), ("count", 1)):  # 30 is clipped to 10
        before, after = (np.array(measured(r.table(), measure)) for r in (few, more))
        assert (after - before).tolist() == pytest.approx((moved * weights).tolist(), abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {**LAST, "rho": 0.5},
        {**LAST, "epsilon": 1, "last": "2d,7d"},
        {**DECAYED, "rho": 0.5},
        {**DECAYED, "epsilon": 1},
        {**LAST, "rho": 0.5, "windows": None, "expected_windows": 60},
    ],
    ids=["gaussian", "laplace", "decayed", "decayed laplace", "endless"],
)
def test_intervals_hold_averages_as_often_as_they_say(
    options: dict[str, Any], tmp_path: Path
) -> None:
    n_groups = 1500
    names = [f"g{number}" for number in range(n_groups)]
    values = [1, 3, 8, 8, 9]
    rows = pl.DataFrame(
        {
            "time": [START + timedelta(days=day) for day in (0, 3, 4, 8, 8)] * n_groups,
            "page": [name for name in names for _ in values],
            "paid": values * n_groups,
        }
    )
    loss = {"rho": options.get("rho")}
    options = {**options, **loss, "group_by": "page", "groups": names}
    table = released(rows, tmp_path, 12, allow_empty_windows=True, **options).table()
    if options["series"] == "rolling":
        table = table.filter(n_windows=7)
    for step in (1, 7, 12):
        total, count = _exact_of(options, step)
        of_step = table.filter(window_index=step)
        for measure, true in (("sum", total), ("count", count), ("mean", total / count)):
            part = of_step.filter(measure=measure)
            lower, upper = (part[end].to_numpy() for end in ("lower", "upper"))
            inside = float(np.mean((lower <= true) & (true <= upper)))
            assert inside > 0.95 - 4 * (0.95 * 0.05 / n_groups) ** 0.5, (step, measure)
            if measure != "mean":
                ratio = float(np.std(part["estimate"].to_numpy())) / part["noise_std"][0]
                assert 0.93 < ratio < 1.07
                assert inside < 0.995


def _exact_of(options: dict[str, Any], step: int) -> tuple[float, float]:
    """Return the exact sum and count of one group after a step."""
    values = {0: [1], 3: [3], 4: [8], 8: [8, 9]}
    total = 0.0
    count = 0.0
    for day, paid in values.items():
        age = step - 1 - day
        weight = float(0 <= age < 7)
        if options["series"] == "decayed":
            weight = FACTOR**age if age >= 0 else 0.0
        total += weight * sum(paid)
        count += weight * len(paid)
    return total, count


@pytest.mark.parametrize("options", [{**LAST, "last": "3d,7d"}, LAST, DECAYED], ids=str)
def test_planned_margins_are_those_of_the_release(options: dict[str, Any], tmp_path: Path) -> None:
    stated = {**TIMES, **VALUES, **options, "windows": DAYS, "rho": 0.1}
    job = Job("average", "v.csv", tmp_path / "p.db", **stated)
    margins = {number.name: number.halfwidths[-1] for number in planned_job(job).numbers}
    table = released(visits(), tmp_path, **{**options, "windows": DAYS, "rho": 0.1}).table()
    last = table.filter(window_index=DAYS)
    widths = last["n_windows"].unique().to_list() if "n_windows" in last.columns else [None]
    for measure in ("sum", "count"):
        for width in widths:
            part = last.filter(measure=measure)
            part = part if width is None else part.filter(n_windows=width)
            name = f"{measure} in the last {width} days" if len(widths) > 1 else measure
            half = (part["upper"] - part["lower"]).item() / 2
            assert margins[name] == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.1)], ids=str)
@pytest.mark.parametrize(
    ("options", "workload"), [(LAST, Rolling(7)), (DECAYED, Decayed(7))], ids=["rolling", "decayed"]
)
def test_plan_of_a_program_has_the_margins_of_a_job(
    options: dict[str, Any], workload: Any, guarantee: Any, tmp_path: Path
) -> None:
    """With epsilon = 1, the plan of 7 steps releases each step alone."""
    loss: dict[str, Any] = {"rho": 0.1} if guarantee == ZCDP(0.1) else {"epsilon": 1}
    stated = {**TIMES, **VALUES, **options, **loss}
    job = Job("average", "v.csv", tmp_path / "p.db", **stated)
    margins = {number.name: number.halfwidths[-1] for number in planned_job(job, size=6000).numbers}
    statistic = Average(-2, 10, resolution=1)
    best = plan(60, guarantee, of=statistic, batched=True, workload=workload)
    half = best.halfwidths(60)
    assert [half["sum"], half["count"]] == pytest.approx([margins["sum"], margins["count"]])
    own = best.own_halfwidths
    assert own is not None
    workload_part = {"over": 7} if workload == Rolling(7) else {"decay": workload}
    of_mean = own(best, 60, rows=6000, **workload_part)
    assert of_mean["mean"] == pytest.approx(margins["mean"])


@pytest.mark.parametrize("of", [Sum(0, 9, resolution=1), Moments({"paid": (0, 9)})], ids=str)
def test_decayed_plan_of_another_statistic_is_refused(of: Any) -> None:
    with pytest.raises(InvalidInputError, match="counts, sums and averages"):
        plan(60, ZCDP(0.5), of=of, batched=True, workload=Decayed(7))


@pytest.mark.long
@pytest.mark.parametrize("options", [{**LAST, "last": "3d,7d"}, DECAYED], ids=str)
def test_wanted_margin_of_a_mean_finds_the_least_loss(options: dict[str, Any]) -> None:
    spec = planned(**options, margin_of_error="mean=0.5", expected_rows=36500)
    tight = planned(**options, margin_of_error="mean=0.25", expected_rows=36500)
    assert tight.terms.loss.epsilon > 1.5 * spec.terms.loss.epsilon


# -------------------------------------------------------------------------------- other places
@pytest.mark.parametrize("options", [{**LAST, "last": "3d,7d"}, LAST, DECAYED], ids=str)
@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_file_of_averages_is_read_back(
    options: dict[str, Any], ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"r.{ending}"
    result = released(visits(), tmp_path, 9, **options, **BY, rho=1, output=path)
    restored = read(path)
    assert restored.table().equals(result.table())
    assert restored.only(groups=["shop"]).table().equals(result.table().filter(group="shop"))
    assert restored.methods() == result.methods()


@pytest.mark.parametrize(
    "options", [{**LAST, "last": "3d,7d"}, DECAYED], ids=["rolling", "decayed"]
)
def test_reference_recomputes_released_averages(options: dict[str, Any], tmp_path: Path) -> None:
    job = {**TIMES, **VALUES, **BY, **options, "epsilon": 1, "until": "2024-03-10"}
    release("average", visits(), state=tmp_path / "s.db", **job)
    assert state_by_reference(tmp_path / "s.db") == 9 * 2 * 2


def test_note_stands_beside_each_average_that_includes_its_window(tmp_path: Path) -> None:
    released(visits(), tmp_path, **{**LAST, "last": "1d,3d"}, **BY)
    annotate(tmp_path / "s.db", "2024-03-09", "broken", group="home")
    result = export(tmp_path / "s.db")
    means = result.table().filter(pl.col("note").is_not_null(), measure="mean")
    rows = means.select("window_index", "n_windows", "group").rows()
    assert rows == [(9, 1, "home"), (9, 3, "home"), (10, 3, "home"), (11, 3, "home")]
    assert "in averages of the last 3 days up to 11 March 2024" in str(result.numbers.notes)


def test_view_has_averages_of_each_width(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5, **{**LAST, "last": "1d,3d"})
    publish(tmp_path / "s.db", to=tmp_path / "p.db")
    with closing(sqlite3.connect(tmp_path / "p.db")) as database:
        sql = "SELECT series, n_windows, is_complete FROM counton_releases"
        sql += " WHERE window_index = 2 AND measure = 'mean'"
        rows = database.execute(sql).fetchall()
    assert rows == [("rolling", 1, 1), ("rolling", 3, 0)]


@pytest.mark.parametrize("options", [{**LAST, "last": "3d,7d"}, DECAYED], ids=str)
def test_service_has_rows_of_released_series_alone(options: dict[str, Any], tmp_path: Path) -> None:
    table = released(visits(), tmp_path, 9, **options, **BY, rho=1).table()
    with Store(tmp_path / "s.db") as store:
        journal = Journal(store, "average_of_paid", key=chosen_key())
        assert journal.page().table.equals(table)
        selection = SeriesSelection(series=options["series"], groups=("shop",), last=2)
        part = table.filter(pl.col("window_index") > 7, group="shop")
        assert journal.page(selection).table.equals(part)
        with pytest.raises(InvalidInputError, match=f"give {options['series']}"):
            journal.page(SeriesSelection(series="cumulative"))


def test_screen_names_the_last_windows_of_each_average(tmp_path: Path) -> None:
    screen = " ".join(str(released(visits(), tmp_path, 5, **{**LAST, "last": "3d,7d"})).split())
    assert "in the last 3 and 7 days" in screen
    assert "In the first 6 days, the average of the last 7 days counts all days" in screen
    decayed = str(released(visits(), tmp_path, 5, state="d.db", **DECAYED))
    assert "in which a day counts half after 7 days" in decayed


def test_page_has_a_column_for_each_width(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **{**LAST, "last": "3d,7d"})
    page = web_page(result.numbers, result.methods(), None)
    assert '<th class="number">last 3 days</th>' in page
    assert '<th class="number">last 7 days</th>' in page


def test_methods_name_errors_of_each_width(tmp_path: Path) -> None:
    full = released(visits(), tmp_path, **{**LAST, "last": "3d,7d"}, rho=1).methods(full=True)
    assert "in the last 3 and 7 windows, was released" in full
    assert "(mean in the last 3 windows)" in full
    assert "(count in the last 7 windows)" in full


def test_question_about_averages_is_about_the_last_windows(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **LAST, **BY, rho=1)
    answer = result.difference("home", "shop", of="mean")
    assert "14 March to 20 March 2024" in answer.what
    table = result.table().filter(window_index=DAYS, measure="mean")
    home, shop = table["estimate"].to_list()
    assert answer.value == pytest.approx(home - shop)
    numbers: Any = result.result
    assert numbers.of("home")["mean"] == pytest.approx(home)


@pytest.mark.parametrize("loss", [{"rho": 1}, {"rho": None, "epsilon": 1}], ids=str)
def test_result_of_a_rolling_average_counts_its_last_windows(
    loss: dict[str, Any], tmp_path: Path
) -> None:
    """With epsilon = 1, the plan of 7 windows releases each window alone."""
    result: Any = released(visits(), tmp_path, **LAST, **loss).result
    assert result.start == result.cells.ends[0] == DAYS - 7
    errors = result.cells.design.errors
    assert result.cells.std == pytest.approx(errors.window_std(DAYS - 7, DAYS))
    (half,) = errors.window_halfwidths([DAYS - 7], [DAYS])
    assert result.cells.halfwidth() == pytest.approx(half)


def test_questions_about_decayed_averages_are_refused(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **DECAYED, **BY)
    with pytest.raises(InvalidInputError, match="decayed averages, which are not added up"):
        result.difference("home", "shop", of="mean")
    with pytest.raises(InvalidInputError, match="decayed averages do not add up"):
        result.sums("1w")
    numbers: Any = result.result
    with pytest.raises(InvalidInputError, match="not subtracted"):
        numbers.since(numbers)
    table = result.table().filter(window_index=DAYS, measure="mean", group="home")
    assert numbers.of("home")["mean"] == table["estimate"].item()


def test_averages_of_weeks_follow_from_rolling_streams(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **LAST, start="2024-03-04")
    weeks = result.sums("1w").filter(measure="count", is_complete=True)
    sevens = result.table().filter(measure="count")
    assert weeks["estimate"].to_list() == pytest.approx(
        [sevens["estimate"][7 * week + 6] for week in range(weeks.height)]
    )


def test_band_holds_averages_at_once(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **DECAYED, rho=1)
    band = result.band()
    table = result.table()
    assert (band["upper"] - band["lower"] >= table["upper"] - table["lower"]).all()


def test_count_of_the_same_rows_keeps_its_rolling_plan() -> None:
    """Averages changed no plan of counts."""
    spec = plan_spec(CountJob(**{**TIMES, **LAST, "rho": 0.5}))
    assert spec.strategy == plan(60, ZCDP(0.5), workload=Rolling(7)).best.strategy


def test_json_has_the_length_of_each_average(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    released(visits(), tmp_path, 3, **{**LAST, "last": "2d,7d"}, output=path)
    rows = json.loads(path.read_text())
    assert [row["n_windows"] for row in rows[:6]] == [2, 2, 2, 7, 7, 7]
    assert [row["measure"] for row in rows[:3]] == ["mean", "sum", "count"]

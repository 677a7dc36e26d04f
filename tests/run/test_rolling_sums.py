"""Sums of the last windows: what a job publishes, night by night."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from matplotlib.text import Text

from counton import ZCDP, Decayed, PureDP, Release, Rolling, Stack, plan, read, release
from counton.base.errors import InvalidInputError, StreamMismatchError
from counton.job.statistics.count import CountJob
from counton.results.released_table import last_numbers
from counton.run import Job, run
from counton.run.notes import annotate
from counton.run.outputs.exports import export, publish
from counton.run.outputs.output_files import charts_in_words
from counton.run.spec.plan_spec import plan_spec

START = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 30
TIMES: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 60}
LAST: dict[str, Any] = {"series": "rolling", "last": "7d"}
DECAYED: dict[str, Any] = {"series": "decayed", "last": None, "half_life": "7d"}
#: So little noise that rounding to whole numbers gives the exact numbers.
EXACT: dict[str, Any] = {"rho": 10**8}
BY: dict[str, Any] = {"group_by": "page", "groups": "home,shop"}


def visits(days: int = DAYS) -> pl.DataFrame:
    """Day d has d + 1 visits of home and 2 visits of shop."""
    rows = [
        {"time": START + timedelta(days=day, minutes=visit), "page": page, "paid": visit % 4}
        for day in range(days)
        for page, number in (("home", day + 1), ("shop", 2))
        for visit in range(number)
    ]
    return pl.DataFrame(rows)


def released(rows: pl.DataFrame, folder: Path, last_day: int = DAYS, **options: Any) -> Release:
    until = (START + timedelta(days=last_day)).isoformat()
    stated = {**TIMES, **EXACT, **LAST, **options}
    name = stated.pop("state", "s.db")
    return release("count", rows, state=folder / name, until=until, key=chosen_key(), **stated)


def sums_of(table: pl.DataFrame, width: int, group: str = "all") -> list[int]:
    part = table.filter(series="rolling", n_windows=width, group=group)
    return [round(estimate) for estimate in part["estimate"]]


def last_sums(counts: list[int], width: int) -> list[int]:
    return [sum(counts[max(0, end - width) : end]) for end in range(1, len(counts) + 1)]


# ------------------------------------------------------------------------------------ the numbers
def test_count_of_last_windows_is_their_sum(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, **BY).table()
    assert sums_of(table, 7, "home") == last_sums([day + 1 for day in range(DAYS)], 7)
    assert sums_of(table, 7, "shop") == last_sums([2] * DAYS, 7)
    assert table["series"].unique().to_list() == ["rolling"]


def test_table_says_which_windows_a_sum_counts(tmp_path: Path) -> None:
    table = released(visits(), tmp_path).table()
    assert table["n_windows"].unique().to_list() == [7]
    assert table["is_complete"].to_list() == [False] * 6 + [True] * (DAYS - 6)
    begins = [max(0, day - 6) for day in range(DAYS)]
    assert table["window_start"].to_list() == [START + timedelta(days=day) for day in begins]
    assert table["window_end"].to_list() == [START + timedelta(days=d + 1) for d in range(DAYS)]


def test_several_widths_are_rows_of_their_own(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, last="28d,1d,7d").table()
    counts = [day + 3 for day in range(DAYS)]
    for width in (1, 7, 28):
        assert sums_of(table, width) == last_sums(counts, width)
    assert table["n_windows"].to_list()[:4] == [1, 7, 28, 1]


def test_totals_and_windows_are_published_beside_sums(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, series="both", last="7d").table()
    counts = [day + 3 for day in range(DAYS)]
    assert sums_of(table, 7) == last_sums(counts, 7)
    totals = table.filter(series="cumulative")
    assert [round(x) for x in totals["estimate"]] == last_sums(counts, DAYS)
    assert totals["n_windows"].to_list() == [*range(1, DAYS + 1)]
    windows = table.filter(series="per-window")
    assert [round(x) for x in windows["estimate"]] == counts
    assert windows["n_windows"].unique().to_list() == [1]


def test_sum_of_values_of_last_windows(tmp_path: Path) -> None:
    rows = visits()
    told: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 3, "resolution": 1}
    until = (START + timedelta(days=DAYS)).isoformat()
    result = release(
        "sum", rows, state=tmp_path / "s.db", until=until, **TIMES, **LAST, **EXACT, **told
    )
    days = rows.group_by(pl.col("time").dt.date(), maintain_order=True).agg(pl.col("paid").sum())
    assert sums_of(result.table(), 7) == last_sums(days["paid"].to_list(), 7)


def test_table_without_last_windows_has_no_column_of_them(tmp_path: Path) -> None:
    table = released(visits(), tmp_path, series="both", last=None).table()
    assert not {"n_windows", "is_complete"} & {*table.columns}


def test_decayed_sum_counts_old_windows_less(tmp_path: Path) -> None:
    options = {"series": "decayed", "last": None, "half_life": "7d", **BY}
    table = released(visits(), tmp_path, **options).table()
    home = table.filter(group="home")["estimate"].to_list()
    factor = 0.5 ** (1 / 7)
    expected = [
        sum((day + 1) * factor ** (now - day) for day in range(now + 1)) for now in range(DAYS)
    ]
    assert home == pytest.approx(expected, abs=0.05)
    assert table["series"].unique().to_list() == ["decayed"]
    assert not {"n_windows", "is_complete"} & {*table.columns}


# --------------------------------------------------------------------------------- night by night
@pytest.mark.parametrize("series", [{"last": "7d,28d"}, DECAYED], ids=str)
def test_nights_release_what_one_run_releases(series: dict[str, Any], tmp_path: Path) -> None:
    options = {**BY, **series, "rho": 1}
    at_once = released(visits(), tmp_path, state="once.db", stream="visits", **options).table()
    for night in (1, 2, 5, 6, 13, DAYS):  # some nights are skipped
        nightly = released(
            visits(night), tmp_path, night, state="nights.db", stream="visits", **options
        )
        assert nightly.table().equals(at_once.filter(pl.col("window_index") <= night))


def test_late_rows_count_in_the_next_window(tmp_path: Path) -> None:
    rows = visits(6)
    first = rows.filter(pl.col("time") < START + timedelta(days=5))
    late = pl.DataFrame([{"time": START + timedelta(days=1), "page": "home", "paid": 0}])
    released(first, tmp_path, 5, append=True)
    sixth = pl.concat([rows.filter(pl.col("time") >= START + timedelta(days=5)), late])
    table = released(sixth, tmp_path, 6, append=True).table()
    assert sums_of(table, 7) == [3, 7, 12, 18, 25, 33 + 1]


def test_run_that_stops_before_it_publishes_releases_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = released(visits(), tmp_path, state="whole.db", stream="visits", rho=1).table()
    for night in (3, 9):
        released(visits(night), tmp_path, night, stream="visits", rho=1)

    def stops(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("counton.run.outputs.output_files.write_table", stops)
    with pytest.raises(OSError, match="no space left"):
        released(visits(17), tmp_path, 17, stream="visits", rho=1, output=tmp_path / "t.csv")
    monkeypatch.undo()
    again = released(visits(), tmp_path, stream="visits", rho=1, output=tmp_path / "t.csv")
    assert again.table().equals(whole)


@pytest.mark.parametrize(
    "changed",
    [
        {"last": "14d"},
        {"last": "7d,28d"},
        {"series": "both"},
        {"series": "cumulative", "last": None},
    ],
    ids=str,
)
def test_other_widths_are_refused_in_a_later_run(changed: dict[str, Any], tmp_path: Path) -> None:
    released(visits(), tmp_path, 5)
    with pytest.raises(StreamMismatchError, match=r"exists with other options: .*(last|series)"):
        released(visits(), tmp_path, 6, **{**LAST, **changed})


def test_same_length_in_another_unit_continues_the_stream(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5, last="7d,28d")
    table = released(visits(), tmp_path, 6, last=["4w", "168h"]).table()
    assert table["window_index"].max() == 6


def test_later_run_may_leave_the_lengths_out(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5)
    until = (START + timedelta(days=6)).isoformat()
    result = release("count", visits(), state=tmp_path / "s.db", until=until, key=chosen_key())
    assert sums_of(result.table(), 7)[-1] == 3 + 4 + 5 + 6 + 7 + 8


# ------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": None}, "series=rolling needs last"),
        ({**DECAYED, "half_life": None}, "series=decayed needs half_life"),
        ({"half_life": "7d"}, "half_life=7d needs series=decayed"),
        ({**DECAYED, "last": "7d"}, "last=7d cannot be used with series=decayed"),
        ({**DECAYED, "half_life": "5h"}, "half_life=5h is not from 0.25 to 1,048,576 windows"),
        ({**DECAYED, "half_life": "1mo"}, "half_life=1mo is not a number of windows of 1d"),
        ({**DECAYED, "allowed_lateness": "2d"}, "cannot be used with"),
        ({"series": None}, "last=7d needs series"),
        ({"series": "per-window"}, "last=7d cannot be used with series=per-window"),
        ({"last": "36h"}, "36h is not a whole number of windows of 1d"),
        ({"last": "1mo"}, "1mo is not a whole number of windows of 1d"),
        ({"last": "61d"}, "61d has 61 windows, and at most 60 are possible"),
        ({"last": "7d,7d"}, "names a length twice"),
        ({"last": "7"}, "is not a length of time"),
        ({"allowed_lateness": "2d"}, "cannot be used with"),
        ({"strategy": "binary"}, "cannot be used with strategy=binary"),
        ({"expiring": True, "windows": None}, "cannot be used with"),
        ({"series": "both", "windows": None, "expected_windows": 90}, "need a last window"),
        ({"user": "page", "distinct_users": True}, "not numbers of different users"),
        (
            {"user": "page", "max_contributions": 2, "once_per_window": True},
            "not numbers of different users",
        ),
        (
            {"group_by": "page", "unlisted_groups": "discover", "rho": None, "epsilon": 1,
             "delta": "1e-6"},
            "a discovered group is shown only from some window on",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_do_not_go_with_last_windows(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        released(visits(), tmp_path, **options)
    assert not (tmp_path / "s.db").exists()


def test_other_statistics_have_no_last_windows(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="last"):
        Job("moments", "v.csv", tmp_path / "s.db", **LAST)


# ------------------------------------------------------------------------------------- the noise
def planned(**options: Any) -> Any:
    return plan_spec(CountJob(**{**TIMES, "windows": 365, **LAST, **options}))


@pytest.mark.parametrize(
    ("options", "of_plan"),
    [
        ({"rho": 0.5}, (365, ZCDP(0.5), Rolling(7))),
        ({"rho": 0.5, "last": "1d,7d,28d"}, (365, ZCDP(0.5), Stack([1, 7, 28]))),
        ({"epsilon": 1, "last": "28d"}, (365, PureDP(1), Rolling(28))),
        (
            {"rho": 0.5, "series": "both"},
            (365, ZCDP(0.5), Stack([1, 7], totals=1)),
        ),
        ({"rho": 0.5, "windows": None, "expected_windows": 365}, (None, ZCDP(0.5), Rolling(7))),
        ({"rho": 0.5, **DECAYED}, (365, ZCDP(0.5), Decayed(7))),
        ({"epsilon": 1, **DECAYED, "half_life": "28d"}, (365, PureDP(1), Decayed(28))),
    ],
    ids=["gaussian", "several", "laplace", "with totals", "endless", "decayed", "decayed laplace"],
)
def test_job_has_the_strategy_of_the_plan(options: dict[str, Any], of_plan: Any) -> None:
    horizon, guarantee, workload = of_plan
    more: dict[str, Any] = {"expected_windows": 365} if horizon is None else {}
    best = plan(horizon, guarantee, workload=workload, **more).best
    assert planned(**options).strategy == best.strategy


@pytest.mark.parametrize("loss", [{"rho": 0.5}, {"epsilon": 1}], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("last", ["7d", "28d"])
def test_noise_is_at_most_that_of_derived_sums(loss: dict[str, Any], last: str) -> None:
    from counton.run.spec.planned_accuracy import planned_design

    width = int(last[:-1])
    stops = np.arange(width, 366)

    def mean_variance(**options: Any) -> float:
        design = planned_design(planned(**loss, **options))
        return float((design.errors.window_std(stops - width, stops) ** 2).mean())

    derived = [mean_variance(series=series, last=None) for series in ("cumulative", "per-window")]
    assert mean_variance(last=last) <= min(derived) * (1 + 1e-9)


def test_rolling_noise_with_rho_is_below_half_of_totals() -> None:
    from counton.run.spec.planned_accuracy import planned_design

    week = planned_design(planned(rho=0.5)).errors.window_std([193], [200])
    assert 1.7 < week[0] < 1.8


@pytest.mark.parametrize(
    "options",
    [
        {"rho": 0.5},
        {"rho": 0.5, "last": "1d,7d,28d"},
        {"epsilon": 1, "last": "28d"},
        {"rho": 0.5, "windows": None, "expected_windows": 60},
        {"epsilon": 1, "windows": None, "expected_windows": 60},
        {"rho": 0.5, "series": "both", "last": "7d"},
        {"rho": 0.5, **DECAYED},
        {"epsilon": 1, **DECAYED},
    ],
    ids=[
        "gaussian",
        "several",
        "laplace",
        "endless",
        "endless laplace",
        "with totals",
        "decayed",
        "decayed laplace",
    ],
)
def test_intervals_hold_the_sums_as_often_as_they_say(
    options: dict[str, Any], tmp_path: Path
) -> None:
    cells = 2000
    groups = [f"g{cell}" for cell in range(cells)]
    rows = pl.DataFrame({"time": [START + timedelta(days=40)], "page": ["g0"], "paid": [1]})
    result = released(
        rows, tmp_path, DAYS, rho=options.pop("rho", None), group_by="page", groups=groups,
        allow_empty_windows=True, **options,
    )  # fmt: skip
    table = result.table().filter(pl.col("window_index").is_in([1, 6, 7, 29, 30]))
    kinds = [name for name in ("window_index", "series", "n_windows") if name in table.columns]
    held = table.group_by(kinds).agg(
        inside=((pl.col("lower") <= 0) & (pl.col("upper") >= 0)).mean(),
        ratio=pl.col("estimate").std() / pl.col("noise_std").first(),
    )
    assert held["inside"].min() > 0.95 - 4 * (0.95 * 0.05 / cells) ** 0.5
    assert held["ratio"].is_between(0.93, 1.07).all()


def test_change_between_weeks_has_the_joint_noise(tmp_path: Path) -> None:
    cells = 2000
    groups = [f"g{cell}" for cell in range(cells)]
    rows = pl.DataFrame({"time": [START + timedelta(days=40)], "page": ["g0"], "paid": [1]})
    result = released(
        rows, tmp_path, DAYS, rho=0.5, group_by="page", groups=groups, allow_empty_windows=True
    )
    week = result.table().filter(pl.col("window_index").is_in([21, 28]))
    changes = week.group_by("group").agg(pl.col("estimate").sort_by("window_index").diff().last())
    answer = result.difference("g1", "g1", steps="22:28", other_steps="15:21")
    spread = float(np.std(changes["estimate"].to_numpy()))
    half = (answer.upper - answer.lower) / 2
    assert half == pytest.approx(1.96 * spread, rel=0.06)
    numbers = result.numbers.series.rolling(7)
    row = week.filter(group="g1").sort("window_index")["estimate"]
    assert answer.value == pytest.approx(row[1] - row[0])
    assert half < 1.96 * 2**0.5 * numbers.std[-1] * 1.1


def test_one_row_more_changes_the_exact_input_of_one_step(tmp_path: Path) -> None:
    rows = visits(DAYS)
    one_more = pl.concat([rows, rows[:1]])
    tables = [
        released(data, tmp_path, state=f"{place}.db", stream="visits", rho=10**8).table()
        for place, data in enumerate((rows, one_more))
    ]
    changes = np.array(sums_of(tables[1], 7)) - np.array(sums_of(tables[0], 7))
    assert changes.tolist() == [1] * 7 + [0] * (DAYS - 7)


# ---------------------------------------------------------------------------- files and questions
@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"last": "1d,7d"},
        {"series": "both"},
        {"series": "cumulative"},
        {"rho": None, "epsilon": 1},
        DECAYED,
    ],
    ids=str,
)
def test_file_is_read_as_the_run_released_it(
    options: dict[str, Any], ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"visits.{ending}"
    result = released(visits(), tmp_path, output=path, **{**BY, "rho": 1, **options})
    found = read(path)
    assert found.table().equals(result.table())
    assert found.describe() == result.describe()
    assert found.methods(full=True) == result.methods(full=True)
    if "half_life" in options:
        return
    assert found.sums("1w").equals(result.sums("1w"))
    assert found.total("home", steps="3:9") == result.total("home", steps="3:9")


def test_file_of_some_windows_keeps_their_sums(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, rho=1, last="2d,7d")
    path = tmp_path / "some.csv"
    export(tmp_path / "s.db", path, windows="9:12")
    found = read(path)
    assert found.table().equals(result.only(range(9, 13)).table())
    with pytest.raises(InvalidInputError, match="is not in the file"):
        found.total("all", steps="9:12")


def test_file_without_the_width_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    released(visits(), tmp_path, output=path)
    pl.read_csv(path).drop("n_windows").write_csv(path)
    with pytest.raises(InvalidInputError, match="no column 'n_windows'"):
        read(path)


def test_decayed_sums_answer_no_questions(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    result = released(visits(), tmp_path, **BY, **DECAYED, output=path)
    for found in (result, read(path)):
        with pytest.raises(InvalidInputError, match="decayed sums, which are not added up"):
            found.total("home")
        with pytest.raises(InvalidInputError, match="decayed sums do not add up"):
            found.sums("1w")


def test_half_life_cannot_change(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5, **DECAYED)
    assert released(visits(), tmp_path, 6, **{**DECAYED, "half_life": "168h"}).steps[-1] == 6
    with pytest.raises(StreamMismatchError, match="half_life"):
        released(visits(), tmp_path, 7, **{**DECAYED, "half_life": "8d"})


def test_withdrawn_window_has_no_sums(tmp_path: Path) -> None:
    released(visits(), tmp_path, last="1d,7d")
    annotate(tmp_path / "s.db", "2024-03-09", "the counter was broken", withdraw=True)
    table = export(tmp_path / "s.db").table()
    assert table.filter(window_index=9).is_empty()
    assert table.filter(window_index=10).height == 2


def noted_days(table: pl.DataFrame, width: int, page: str = "home") -> list[int]:
    part = table.filter(n_windows=width, group=page, series="rolling")
    return part.filter(pl.col("note").is_not_null())["window_index"].to_list()


@pytest.mark.parametrize("withdraw", [False, True])
def test_note_stands_beside_each_sum_that_includes_its_window(
    withdraw: bool, tmp_path: Path
) -> None:
    released(visits(), tmp_path, last="1d,3d,7d", **BY)
    annotate(tmp_path / "s.db", "2024-03-09", "broken", group="home", withdraw=withdraw)
    annotate(tmp_path / "s.db", "2024-03-11", "a holiday")
    result = export(tmp_path / "s.db")
    table = result.table()
    own_row = [] if withdraw else [9]
    assert noted_days(table, 1) == [*own_row, 11]
    assert noted_days(table, 3) == [*own_row, *range(10, 14)]
    assert noted_days(table, 7) == [*own_row, *range(10, 18)]
    assert noted_days(table, 7, "shop") == [*range(11, 18)]
    state = ", withdrawn" if withdraw else ""
    both = f"9 March 2024{state}: broken; 11 March 2024: a holiday"
    assert table.filter(window_index=11, n_windows=3, group="home")["note"].item() == both
    assert "home" in str(result)
    text = f"9 March 2024, home{state}: broken (in sums of the last 3 days up to 11 March 2024 and"
    assert text in str(result.numbers.notes)
    assert text in result.methods()


@pytest.mark.long
def test_noted_sums_are_hollow_and_in_files_and_pages(tmp_path: Path) -> None:
    released(visits(), tmp_path, 11, series="both", last="3d,7d")
    annotate(tmp_path / "s.db", "2024-03-09", "broken")
    result = export(tmp_path / "s.db", tmp_path / "e.csv")
    export(tmp_path / "s.db", tmp_path / "e.html")
    page = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert page.count("<td>9 March 2024: broken</td>") == 3  # of 9, 10 and 11 March
    assert read(tmp_path / "e.csv").table().equals(result.table())
    figures = result.figures()
    noted = {kind: len(hollow_points(figure)) for kind, figure in figures.items()}
    assert noted == {"totals": 1, "windows": 1, "last-3d": 3, "last-7d": 3}
    last = last_numbers(result.numbers)["rows"]
    notes = {(row["series"], row["n_windows"]): row["note"] for row in last}
    sentence = "9 March 2024: broken"
    assert notes == {
        ("cumulative", 11): None,
        ("per-window", 1): None,
        ("rolling", 3): sentence,
        ("rolling", 7): sentence,
    }


def hollow_points(figure: Any) -> Any:
    (axes,) = figure.axes
    (marker,) = (line for line in axes.lines if line.get_markerfacecolor() == "white")
    return marker.get_xdata()


def test_chart_of_later_sums_names_notes_on_windows_before(tmp_path: Path) -> None:
    released(visits(), tmp_path, 20)
    annotate(tmp_path / "s.db", "2024-03-09", "broken")
    result = export(tmp_path / "s.db")
    for first, is_named in ((9, True), (15, True), (16, False)):
        (text,) = chart_texts(result.only(range(first, 21)))
        assert ("broken" in text) == is_named


def test_view_says_which_sums_are_complete(tmp_path: Path) -> None:
    released(visits(), tmp_path, 5, series="both", last="3d")
    publish(tmp_path / "s.db", to=tmp_path / "p.db")
    with closing(sqlite3.connect(tmp_path / "p.db")) as database:
        sql = "SELECT series, n_windows, is_complete FROM counton_releases WHERE window_index = :at"
        second = database.execute(sql, {"at": 2}).fetchall()
        third = database.execute(sql, {"at": 3}).fetchall()
    assert second == [("cumulative", 2, 1), ("per-window", 1, 1), ("rolling", 3, 0)]
    assert third == [("cumulative", 3, 1), ("per-window", 1, 1), ("rolling", 3, 1)]


def test_question_without_steps_is_about_the_last_windows(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **BY)
    answer = result.total("home")
    assert round(answer.value) == sum(range(24, 31))
    assert "24 March to 30 March 2024" in answer.what


def test_band_holds_all_sums_at_once(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, rho=1)
    one = result.table()
    band = result.band()
    assert (band["upper"] - band["lower"] > one["upper"] - one["lower"]).all()
    assert band["confidence_level"].unique().to_list() == [0.95]


@pytest.mark.parametrize("series", ["cumulative", "both"])
def test_band_of_totals_beside_sums_is_wider_than_single_intervals(
    series: str, tmp_path: Path
) -> None:
    result = released(visits(), tmp_path, rho=1, series=series)
    band = result.band()
    one = result.table().filter(series="cumulative")
    widths = [table["upper"] - table["lower"] for table in (band.filter(series="cumulative"), one)]
    assert (widths[0] > 1.4 * widths[1]).all()


# ---------------------------------------------------------------------------------------- texts
def test_words_say_which_windows_are_added_up(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, rho=1, last="7d,28d", privacy_unit="visit")
    assert "in the last 7 and 28 days" in result.methods()
    full = result.methods(full=True)
    assert "in the last 7 and 28 windows" in full
    assert "The noise of the sum of the last 28 days has the standard deviation" in full
    screen = str(result)
    assert "last 7 days" in screen
    assert "last 28 days" in screen
    few = released(visits(), tmp_path, 5, state="few.db", rho=1)
    assert "Incomplete: In the first 6 days, the sum of the last 7 days counts all days" in str(few)


def test_incomplete_sums_of_each_width_are_named(tmp_path: Path) -> None:
    options = {"rho": 1, "last": "1d,7d,28d"}
    early = " ".join(str(released(visits(), tmp_path, 6, **options)).split())
    assert (
        "Incomplete: In the first 6 and 27 days, the sums of the last 7 and 28 days count all days "
        "since the start." in early
    )
    later = " ".join(str(released(visits(), tmp_path, 7, **options)).split())
    assert "Incomplete: In the first 27 days, the sum of the last 28 days counts all days" in later


def test_chart_says_which_sums_are_incomplete(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, DAYS, rho=1, last="7d,28d")
    week, month = chart_texts(result)
    assert "In the first 6 days, the sum of the last 7 days counts all days" in week
    assert "In the first 27 days, the sum of the last 28 days counts all days" in month
    (week, _) = chart_texts(result.only(range(7, 31)))
    assert "In the first" not in week


def chart_texts(result: Release) -> list[str]:
    return [
        " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())
        for figure in result.figures().values()
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("series", "heading"),
    [
        ({}, "Number of events, last 7 days"),
        (DECAYED, "Number of events, each day counts half after 7 days"),
        ({"last": "7d,28d"}, "Number of events"),
    ],
    ids=str,
)
def test_heading_of_page_says_what_its_only_numbers_are(
    series: dict[str, Any], heading: str, tmp_path: Path
) -> None:
    path = tmp_path / "visits.html"
    released(visits(), tmp_path, rho=1, **series)
    export(tmp_path / "s.db", path)
    assert f"<h1>{heading}</h1>" in path.read_text()


def test_words_say_how_fast_weights_fall(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, **DECAYED, rho=1)
    assert "in which a day counts half after 7 days" in result.methods()
    assert "in which a window counts half after 7 days" in result.methods(full=True)
    assert "in which a day counts half after 7 days" in str(result)


@pytest.mark.long
def test_charts_show_each_width(tmp_path: Path) -> None:
    chart = tmp_path / "visits.svg"
    released(visits(), tmp_path, chart=chart, last="7d,28d")
    assert chart.exists()
    assert (tmp_path / "visits.last-28d.svg").exists()
    chart = tmp_path / "decayed.svg"
    released(visits(), tmp_path, state="d.db", chart=chart, **DECAYED)
    assert chart.exists()


def test_stated_title_says_which_windows_each_chart_adds_up(tmp_path: Path) -> None:
    result = released(visits(), tmp_path, rho=1, last="7d,28d")
    week, month = (
        " ".join(text.get_text() for text in figure.findobj(Text))
        for figure in result.figures(title="Visits").values()
    )
    assert "Visits, last 7 days" in week
    assert "Visits, last 28 days" in month
    chart = tmp_path / "visits.svg"
    words = charts_in_words(result.numbers, chart)
    assert words == f"charts written to {chart}, {tmp_path / 'visits.last-28d.svg'}"


def test_wanted_margin_of_error_is_that_of_the_sums() -> None:
    spec = planned(margin_of_error=20)
    halves = plan_halfwidths(spec)
    assert 19 < halves[-1] <= 20


def plan_halfwidths(spec: Any) -> tuple[float, ...]:
    from counton.run.spec.planned_accuracy import halfwidths_at

    (halves,) = halfwidths_at(spec, [365], 0.95).values()
    return halves


def test_stream_goes_on_from_its_state(tmp_path: Path) -> None:
    """The state keeps the widths, from which a later process makes the same numbers."""
    released(visits(), tmp_path, 20, last="7d,28d", rho=1)
    before = export(tmp_path / "s.db").table()
    job = Job("count", visits(), tmp_path / "s.db", until="2024-03-31", key=chosen_key())
    with run(job) as outcome:
        after = outcome.read().table()
    assert after.filter(pl.col("window_index") <= 20).equals(before)
    assert after["window_index"].max() == 30

"""One verb for every statistic, from frames: groups of several columns, dates, lengths."""

from __future__ import annotations

import re
import sys
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from counton import Average, Job, Key, PureDP, Release, plan, read, release
from counton.base.errors import (
    InvalidInputError,
    MissingDependencyError,
    MissingOptionError,
    NoiseKeyError,
)
from counton.cli.app import app
from counton.continual import interval_halfwidth
from counton.job.saved_job import save
from counton.results.charts import totals_curves, window_curves
from counton.state import state_summary

ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1 + n % 3, n) for n in range(24)],
        "region": [("north", "south")[n % 2] for n in range(24)],
        "adult": [n % 3 == 0 for n in range(24)],
        "paid": [n % 7 for n in range(24)],
        "user": [f"u{n % 5}" for n in range(24)],
    }
)
NEW: dict[str, Any] = {
    "time": "time",
    "every": timedelta(days=1),
    "start": date(2024, 3, 1),
    "windows": 30,
    "until": date(2024, 3, 4),
    "guarantee": PureDP(200),  # noise that is 0 nearly always
}
PAIRS = ["north / true", "north / false", "south / true", "south / false"]


def totals(table: pl.DataFrame) -> dict[str, int]:
    last = table.filter(pl.col("window_index") == table["window_index"].max())
    return dict(zip(last["group"], last["estimate"].round().cast(pl.Int64), strict=True))


def exact() -> dict[str, int]:
    by = ROWS.group_by("region", "adult").len()
    return {f"{r} / {str(a).lower()}": count for r, a, count in by.iter_rows()}


@pytest.mark.parametrize(
    "domain",
    [
        {"region": ["north", "south"], "adult": [True, False]},
        [("north", True), ("north", False), ("south", True), ("south", False)],
        PAIRS,
        ",".join(PAIRS),
        "table",
    ],
    ids=["mapping", "tuples", "labels", "list", "table"],
)
def test_groups_of_two_columns_are_counted_by_pair(domain: Any, tmp_path: Path) -> None:
    if domain == "table":
        pairs = [pair.split(" / ") for pair in PAIRS]
        pl.DataFrame(pairs, schema=["region", "adult"], orient="row").write_csv(tmp_path / "d.csv")
        domain = tmp_path / "d.csv"
    run = release(
        "count", ROWS, group_by=["region", "adult"], groups=domain, state=tmp_path / "s.db", **NEW
    )
    table = run.table()
    assert totals(table) == exact()
    assert set(zip(table["region"], table["adult"], strict=True)) == {
        tuple(pair.split(" / ")) for pair in PAIRS
    }
    again = release("count", ROWS, state=tmp_path / "s.db", until=date(2024, 3, 5))
    assert (run.steps, again.steps) == (range(1, 4), range(1, 5))


def test_row_without_one_of_two_groups_has_no_group(tmp_path: Path) -> None:
    rows = ROWS.with_columns(pl.when(pl.col("paid") > 0).then("region").alias("region"))
    asked = {"group_by": "region,adult", "groups": PAIRS, "state": tmp_path / "s.db", **NEW}
    with pytest.raises(InvalidInputError, match="no group"):
        release("count", rows, **asked)
    release("count", rows, missing_values="drop", **asked)


def test_a_column_whose_name_has_a_comma_is_that_column(tmp_path: Path) -> None:
    rows = ROWS.with_columns(pl.lit("a").alias("region,adult"))
    run = release(
        "count", rows, group_by="region,adult", groups=["a"], state=tmp_path / "s.db", **NEW
    )
    assert totals(run.table()) == {"a": 24}


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ({"region": ["north"]}, "list the values of each"),
        (["f", "m"], "groups names 'f' and no group of 2 columns"),
        ("f,m", "such as 'A / A'.* as in region=A,B;adult=A,B, or give a file with"),
        ([("north", True, 1)], "names 2 columns"),
        ([("a / b", True)], "between the values of several columns"),
        ([1.5], "of type float"),
    ],
)
def test_release_refuses_groups_unfit_for_columns(domain: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=said):
        release(
            "count",
            ROWS,
            group_by=["region", "adult"],
            groups=domain,
            state=tmp_path / "s.db",
            **NEW,
        )
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("length", [timedelta(0), timedelta(seconds=1.5), timedelta(days=-1)])
def test_window_length_must_be_whole_seconds(length: timedelta, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="whole number of seconds"):
        release("count", ROWS, state=tmp_path / "s.db", **{**NEW, "every": length})


@pytest.mark.parametrize("form", ["cumulative", "per-window"])
def test_first_groups_are_chosen_by_their_order_not_by_size(tmp_path: Path, form: Any) -> None:
    rows = pl.DataFrame(
        {
            "time": [datetime(2024, 3, 1)] * 50 + [datetime(2024, 3, 3)] * 3,
            "page": ["often"] * 50 + ["lately"] * 3,
        }
    )
    pages = ["never", "lately", "often"]
    found = release(
        "count", rows, group_by="page", groups=pages, series=form, state=tmp_path / "s.db", **NEW
    )
    assert found.numbers.first_groups(2).groups == ("never", "lately")
    assert found.numbers.first_groups(4).groups == tuple(pages)
    curves = totals_curves(found.numbers)
    if form == "per-window":
        curves, _ = window_curves(found.numbers)
    assert list(curves.first(2).groups) == ["never", "lately"]
    for numbers in (found.numbers, found.numbers.first_groups(2)):
        assert Release(numbers).band().height == len(numbers.groups) * 3


def test_shares_lie_between_0_and_1_with_both_ends(tmp_path: Path) -> None:
    """Also where noise puts the whole interval of an empty group below 0."""
    empty = [f"empty {n}" for n in range(20)]
    given = {"group_by": "region", "groups": ["north", "south", *empty], "guarantee": PureDP(2)}
    found = release("count", ROWS, state=tmp_path / "s.db", **{**NEW, **given})
    names = found.numbers.groups
    shares = [found.at(0.1).share(name, at_once=len(names)) for name in names]
    assert sum(not 0 <= one.value <= 1 for one in shares) > 3
    assert all(0 <= one.lower <= one.upper <= 1 for one in shares)


def test_release_refuses_invalid_statistic(tmp_path: Path) -> None:
    wrong: Any
    for wrong, said in ((3, "what is 3; give"), (Average, "give a statistic such as")):
        with pytest.raises(InvalidInputError, match=said):
            release(wrong, ROWS, state=tmp_path / "s.db", **NEW)
    mine: Any = [3]
    with pytest.raises(InvalidInputError, match="a strategy is 3"):
        plan(64, PureDP(1), strategies=mine)
    distribution: Any = 5.0
    with pytest.raises(InvalidInputError, match="the noise distribution is"):
        interval_halfwidth(distribution, 1)


def test_release_accepts_key_object_like_key_location(tmp_path: Path) -> None:
    key = Key.generate()
    rows = pl.DataFrame({"time": [datetime(2024, 3, 1, hour) for hour in (1, 2)]})
    asked: dict[str, Any] = {"time": "time", "every": "1h", "start": "2024-03-01", "windows": 3}
    asked |= {"epsilon": 1, "state": tmp_path / "s.db", "until": "2024-03-01T03:00"}
    first = release("count", rows, key=key, **asked)
    assert not (tmp_path / "s.db.key").exists()
    key.save(tmp_path / "kept.key")
    for again in (key, tmp_path / "kept.key", str(tmp_path / "kept.key")):
        assert release("count", rows, key=again, **asked).table().equals(first.table())
    with pytest.raises(NoiseKeyError):
        release("count", rows, key=Key.generate(), **asked)
    with pytest.raises(InvalidInputError, match="key is an object in memory, which a job file"):
        save(Job("count", "rows.csv", key=key, **asked), tmp_path / "jobs.toml")
    assert not (tmp_path / "jobs.toml").exists()


def test_a_cell_without_a_state_may_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the same numbers, spends once, and says where they are kept."""
    monkeypatch.chdir(tmp_path)
    asked = {**NEW, "guarantee": PureDP(1), "group_by": "region", "groups": ["north", "south"]}
    first = release("count", ROWS, **asked)
    again = release("count", ROWS, **asked)
    assert str(first) == str(again)
    assert first.table().equals(again.table())
    assert len(state_summary("counts.counton.db")["ledger"]) == 1
    lines = str(first).splitlines()
    heading = "Number of events, by region, cumulative to the end of 3 March 2024"
    assert lines[0] == f"{heading} (window 3 of 30, UTC)"
    assert [line.split()[0] for line in lines[1:4]] == ["region", "north", "south"]
    assert lines[-1].endswith("state (secret): counts.counton.db")
    ROWS.select(pl.col("time").dt.to_string("iso"), "region").write_csv(tmp_path / "e.csv")
    of_file = release("count", tmp_path / "e.csv", **asked)
    assert of_file.numbers.state == str(tmp_path / "e.counton.db")
    assert Path(of_file.numbers.state).exists()
    release("count", tmp_path / "e.csv", output=tmp_path / "t.csv", **asked)
    assert "state (secret)" not in str(read(tmp_path / "t.csv"))


@pytest.mark.parametrize("kept", [{}, {"state": "s.db"}], ids=["beside", "named"])
def test_release_warns_of_late_rows_in_data_frame(
    kept: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {**NEW, **kept, "until": date(2024, 3, 3)}
    release("count", ROWS, **asked)
    release("count", ROWS, **asked)  # nothing is late
    twice = pl.concat([ROWS, ROWS])
    with pytest.warns(UserWarning, match="not counted, because a frame or file of all") as told:
        again = release("count", twice, **asked | {"until": date(2024, 3, 4)})
    assert told[0].filename == __file__
    assert not any(
        sign.isdigit() for sign in str(told[0].message).replace("6h", "").replace("14d", "")
    )
    rows = ROWS.group_by(pl.col("time").dt.date()).len().sort("time")["len"].to_list()
    estimates = again.table()["estimate"].round().to_list()
    assert estimates == [rows[0], sum(rows[:2]), sum(rows[:2]) + 2 * rows[2]]


def test_second_data_frame_without_state_gives_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be shown the numbers of the first, which has no file to give it a name."""
    monkeypatch.chdir(tmp_path)
    asked = {**NEW, "guarantee": PureDP(1)}
    first = release("count", ROWS, **asked)
    with pytest.warns(UserWarning, match="from this frame.*give it a state or a name of its"):
        other = release("count", ROWS[:1], **asked)
    assert other.table().equals(first.table())
    with pytest.warns(UserWarning, match="does it hold other data.*the numbers shown are not of"):
        larger = release("count", pl.concat([ROWS, ROWS]), **asked)
    assert larger.table().equals(first.table())
    assert release("count", ROWS[:1], stream="other", **asked).numbers.state == first.numbers.state


TABLE: dict[str, Any] = {"columns": "region", "groups": {"region": ["north", "south"]}}
WINDOWS = {key: NEW[key] for key in ("time", "every", "start", "windows", "until")}
AGAIN: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": ("contingency", TABLE),
    "table of users": ("contingency", {**TABLE, "user": "user", "max_contributions": 9}),
    "windows": ("count", WINDOWS),
    "windows of users": ("count", {**WINDOWS, "user": "user", "max_contributions": 9}),
    "sum": (Average(0, 9, resolution=1), {**WINDOWS, "value": "paid"}),
}


@pytest.mark.parametrize("case", AGAIN)
@pytest.mark.parametrize("given", ["more", "fewer"])
def test_other_rows_under_a_released_name_bring_a_warning(
    given: str, case: str, tmp_path: Path
) -> None:
    """Python returned the numbers of the former rows without a word."""
    what, asked = AGAIN[case]
    asked = {**asked, "guarantee": PureDP(200), "state": tmp_path / "s.db", "stream": "visits"}
    first = release(what, ROWS, **asked)
    assert release(what, ROWS, **asked).table().equals(first.table())  # the same: no warning
    rows = ROWS[1:] if given == "fewer" else pl.concat([ROWS, ROWS[:1]])
    with pytest.warns(
        UserWarning, match="differs from the rows that stream 'visits' has counted"
    ) as told:
        assert release(what, rows, **asked).table().equals(first.table())
    assert told[0].filename == __file__
    remedy = "begin a new stream with another name, which spends the privacy loss again"
    if given == "fewer":  # no row waits for a release
        remedy = "those of the last release"
    elif case == "windows of users":
        remedy = "The next release counts the late rows"
    assert str(told[0].message).endswith(remedy)
    with pytest.warns(UserWarning, match="differs from the rows that"):
        release(what, rows, **asked)  # each time
    again = release(what, rows, **{**asked, "stream": "other"})
    assert not again.table().equals(first.table())


def test_late_rows_after_final_suggest_longer_lateness(tmp_path: Path) -> None:
    """The stream revises its windows already."""
    asked: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "privacy_unit": "row",
        "allowed_lateness": "1d",
        "state": tmp_path / "s.db", "guarantee": PureDP(1),
    }  # fmt: skip
    days = [f"2024-03-0{day}T12:00" for day in range(1, 6)]
    release("count", pl.DataFrame({"at": days[:4]}), until="2024-03-05", **asked)
    with pytest.warns(
        UserWarning, match=r"^rows .* final .* longer time than allowed_lateness='1d'"
    ):
        release("count", pl.DataFrame({"at": [*days, days[0]]}), until="2024-03-06", **asked)


@pytest.mark.parametrize("case", [case for case in AGAIN if "time" in AGAIN[case][1]])
def test_later_days_give_no_warning(case: str, tmp_path: Path) -> None:
    """A warning is an error here."""
    what, asked = AGAIN[case]
    asked = {**asked, "guarantee": PureDP(200), "state": tmp_path / "s.db"}
    later = ROWS.with_columns(pl.col("time") + timedelta(days=3))
    release(what, ROWS, **asked)
    more = pl.concat([ROWS, later])
    release(what, more, **asked)  # nothing is released
    found = release(what, more, **{**asked, "until": date(2024, 3, 6)})  # one day waits
    assert found.steps[-1] == 5
    release(what, more, **{**asked, "until": date(2024, 3, 6)})


def test_missing_rows_with_new_windows_give_warning(tmp_path: Path) -> None:
    asked = {**NEW, "state": tmp_path / "s.db"}
    release("count", ROWS, **{**asked, "until": date(2024, 3, 3)})
    fewer = ROWS.filter(pl.col("time") != ROWS["time"][0])
    with pytest.warns(UserWarning, match="are missing from these events.*stay counted"):
        release("count", fewer, **asked)


def test_python_and_command_state_same_guarantee_and_dropped_rows(tmp_path: Path) -> None:
    own = {**NEW, "guarantee": PureDP(1)}
    state = tmp_path / "s.db"
    out = tmp_path / "t.csv"
    found = release("count", ROWS, state=state, output=out, **own)
    promise = next(line for line in str(found).splitlines() if line.startswith("Privacy: "))
    assert "Users are not protected" in promise
    for place in (state, out):
        shown = CliRunner().invoke(app, ["inspect", str(place)])
        assert promise in shown.output.splitlines()


def test_a_release_is_given_to_other_libraries_and_drawn(tmp_path: Path) -> None:
    found = release("count", ROWS, state=tmp_path / "s.db", **NEW)
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert [*frame.columns] == found.table().columns
    assert frame["estimate"].to_list() == found.table()["estimate"].to_list()
    drawn = found.plot(title="of March")
    assert [axes.get_title(loc="left") or axes.get_title() for axes in drawn.axes][:1] == [
        axes.get_title(loc="left") or axes.get_title()
        for axes in next(iter(found.figures(title="of March").values())).axes
    ][:1]


def test_to_pandas_without_pandas_names_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = release("count", ROWS, state=tmp_path / "s.db", **NEW)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingDependencyError, match=r"install counton's extra 'pandas'.*'\.\[pandas\]'"
    ):
        found.to_pandas()


def test_first_release_is_refused_with_all_missing_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times without a zone, of a past year; a row without a page, and one without a reader."""
    monkeypatch.chdir(tmp_path)
    times = ["2024-03-01 09:00", "2024-03-02 09:00", "2024-03-03 09:00"]
    rows = pl.DataFrame({"at": times, "page": ["a", None, "b"], "reader": ["x", "y", None]})
    stated: dict[str, Any] = {"group_by": "page", "user": "reader"}
    needs = "needs time, every, start, windows, epsilon or rho, groups and max_contributions"
    with pytest.raises(MissingOptionError, match=needs) as refused:
        release("count", rows, **stated)
    assert not list(tmp_path.iterdir())
    told = re.findall(r"(?m)^  (\w+)=([\w,-]+): ", str(refused.value))
    needed: dict[str, Any] = {name: int(one) if one.isdigit() else one for name, one in told}
    needed |= {"start": "2024-03-01", "until": "2024-03-04", "groups": "a,b,c,d"}
    with pytest.raises(InvalidInputError, match="no group"):
        release("count", rows, **stated, **needed)
    with pytest.raises(InvalidInputError, match="has no user in column 'reader'"):
        release("count", rows.drop_nulls("page"), **stated, **needed)
    needed["missing_values"] = "drop"
    assert len(release("count", rows, **stated, **needed).table().get_column("group").unique()) == 4


@pytest.mark.parametrize("groups", [{}, {"group_by": "page", "groups": ["home", "shop"]}])
def test_numbers_of_last_windows_are_refused_where_windows_are_shown(
    groups: dict[str, Any], tmp_path: Path
) -> None:
    """It was taken and left nothing changed."""
    visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"], "page": ["home"] * 2})
    stream: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "latest-event",
        "guarantee": PureDP(1), "state": tmp_path / "s.db", **groups,
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match="over"):
        release("count", visits, over=7, **stream)
    assert not (tmp_path / "s.db").exists()

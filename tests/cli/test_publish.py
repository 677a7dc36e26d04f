"""The command `publish`: releases as plain rows, for SQL."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from databases import rows_in

from counton import PureDP, Stream
from counton.results.table_rows import finite
from counton.run import Job, export, methods, publish, run
from counton.strategies import Binary

from .conftest import Workplace

Contents = Callable[[], dict[str, bytes]]
ROWS = ["00:10,a", "00:20,b", "01:10,a", "02:30,a", "03:30,b", "04:05,b"]
COLUMNS = [
    "window_index",
    "window_start",
    "window_end",
    "group",
    "estimate",
    "noise_std",
    "lower",
    "upper",
    "confidence_level",
]


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def view(file: Path) -> list[tuple[Any, ...]]:
    return rows(
        file,
        'SELECT window_index, window_start, window_end, "group", estimate, noise_std, lower, '
        'upper, confidence_level FROM counton_releases ORDER BY window_index, "group"',
    )


def exported(state: Any, **options: Any) -> list[tuple[Any, ...]]:
    table = export(state, **options).table()
    times = [pl.col(name).dt.to_string("%Y-%m-%dT%H:%M:%SZ") for name in COLUMNS[1:3]]
    shown = table.with_columns(times).select(*COLUMNS)
    return shown.sort("window_index", "group").rows()


def test_published_view_equals_exported_table_after_each_release(place: Workplace) -> None:
    out = place.folder / "dashboards.db"
    place.count(place.write("e.csv", ROWS[:3]))
    words = ("publish", str(place.state), "--to", str(out))
    assert "1 new step, 1 in all, in the view counton_releases" in place(*words).out
    assert view(out) == exported(place.state)
    place("release", "count", place.write("e.csv", ROWS), *place.again)
    assert len(view(out)) == 2  # another database is brought up to date by the command
    assert "3 new steps, 4 in all" in place(*words).out
    assert view(out) == exported(place.state)
    assert "0 new steps, 4 in all" in place(*words).out
    assert [type(row[4]) for row in view(out)] == [int] * 8
    assert "4 steps removed" in place(*words, "--remove").out
    assert view(out) == []


def test_within_the_state_every_later_run_adds_its_releases(place: Workplace) -> None:
    place.count(place.write("e.csv", ROWS[:3]))
    assert place("publish", str(place.state), "--confidence-level", "0.9").code == 0
    place("release", "count", place.write("e.csv", ROWS), *place.again)
    assert len(view(place.state)) == 8
    assert view(place.state) == exported(place.state, confidence_level=0.9)
    assert place("verify", str(place.state)).code == 0
    # Another level: all intervals anew.
    assert place("publish", str(place.state), "--confidence-level", "0.5").code == 0
    assert view(place.state) == exported(place.state, confidence_level=0.5)


def test_published_database_has_no_exact_or_secret_value(place: Workplace) -> None:
    out = place.folder / "dashboards.db"
    place.count(place.write("e.csv", ROWS))
    publish(place.state, out)
    published = {name for (name,) in rows(out, "SELECT name FROM sqlite_master")}
    assert {name for name in published if not name.startswith("sqlite_")} == {
        "counton_releases",
        "counton_published_streams",
        "counton_published_rows",
    }
    kept = out.read_bytes()
    key = Path(f"{place.state}.key").read_bytes().strip().splitlines()[-1]
    checkpoint = rows(place.state, "SELECT checkpoint FROM counton_streams")[0][0]
    assert key not in kept
    assert checkpoint[:60] not in kept


def test_windows_and_totals_have_rows_of_their_own(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    events.write_text("time\n2024-03-01T09:00\n2024-03-02T09:00\n2024-03-04T10:15\n")
    for series in ("per-window", "both"):
        state = tmp_path / f"{series}.db"
        out = tmp_path / f"{series}-out.db"
        request = Job(
            "count", events, state, time="time", every="1d", start="2024-03-01", windows=30,
            until="latest-event", epsilon=1, series=series,
        )  # fmt: skip
        run(request).close()
        publish(state, out)
        found = rows(
            out,
            "SELECT series, estimate, noise_std, lower, upper, confidence_level "
            "FROM counton_published_rows ORDER BY window_index, row",
        )
        table = export(state).table()
        names = ("series", "estimate", "noise_std", "lower", "upper", "confidence_level")
        assert found == table.select(names).rows()
        assert len(found) == (6 if series == "both" else 3)


BAD = [
    (["--to", "none/d.db"], 2, "--to none/d.db is in a folder that does not exist"),
    (["--to", "mysql://ann@db/x"], 2, "--to is a 'mysql' address"),
    (["--to", "sqlite://"], 2, "--to sqlite:// would exist in memory only"),
    (["--to", "e.csv"], 2, "is a file, but no SQLite database"),
    (["--to", "."], 2, "is a folder"),
    (["--confidence-level", "0"], 2, "level is 0.0; it is the probability of an interval"),
    (
        ["--confidence-level", "0.9", "--remove"],
        2,
        "--confidence-level 0.9 cannot be used with --remove",
    ),
    (["--remove"], 2, "stream 'count' is not published in"),
    (["--stream", "visits"], 2, "has no stream 'visits'; it has 'count'"),
]


@pytest.mark.parametrize(("options", "code", "words"), BAD, ids=lambda value: str(value)[:40])
def test_publish_refuses_invalid_target_without_change(
    options: list[str],
    code: int,
    words: str,
    place: Workplace,
    contents: Contents,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place.count(place.write("e.csv", ROWS))
    monkeypatch.chdir(place.folder)
    before = contents()
    done = place("publish", str(place.state), *options)
    assert (done.code, words in " ".join(done.err.split())) == (code, True), done.err
    assert contents() == before


def test_streams_of_one_name_and_old_copies_are_refused(place: Workplace) -> None:
    out = place.folder / "d.db"
    other = place.folder / "other.db"
    place.count(place.write("e.csv", ROWS))
    shutil.copy(place.state, place.folder / "full.db")
    publish(place.state, out)
    (place.folder / "f.csv").write_text((place.folder / "e.csv").read_text())
    place("release", "count", str(place.folder / "f.csv"), *place.new(state=str(other)))
    done = place("publish", str(other), "--to", str(out))
    assert (done.code, "another stream 'count' is published there" in done.err) == (2, True)
    connection = sqlite3.connect(out)
    with connection:
        connection.execute("UPDATE counton_published_streams SET last_window = 9")
    connection.close()
    done = place("publish", str(place.state), "--to", str(out))
    assert (done.code, "the state is an old copy; restore the newest copy" in done.err) == (7, True)


def test_publish_refuses_tables_of_earlier_version_with_advice(place: Workplace) -> None:
    out = place.folder / "d.db"
    place.count(place.write("e.csv", ROWS[:3]))
    publish(place.state, out)
    place("release", "count", place.write("e.csv", ROWS), *place.again)
    connection = sqlite3.connect(out)
    with connection:
        connection.execute("DROP VIEW counton_releases")
        connection.execute("ALTER TABLE counton_published_rows DROP COLUMN series")
    connection.close()
    done = place("publish", str(place.state), "--to", str(out))
    said = "an earlier version of counton made them; publish to another database (--to)"
    assert (done.code, said in " ".join(done.err.split())) == (2, True), done.err
    assert place("publish", str(place.state), "--to", str(place.folder / "new.db")).code == 0


def test_a_stream_without_times_has_no_rows_to_show(tmp_path: Path, place: Workplace) -> None:
    state = str(tmp_path / "s.db")
    with Stream.create(state, "visits", Binary(9), PureDP(1)) as stream:
        stream.release(3)
    done = place("publish", state)
    assert (done.code, "was not made from events" in done.err) == (2, True)


def test_another_state_is_no_place_to_publish_in(place: Workplace) -> None:
    other = place.folder / "other.db"
    place.count(place.write("e.csv", ROWS))
    Stream.create(other, "visits", Binary(9), PureDP(1)).close()
    before = other.read_bytes()
    done = place("publish", str(place.state), "--to", str(other))
    assert (done.code, "is a state, which is secret" in done.err) == (2, True), done.err
    assert other.read_bytes() == before


def test_old_copy_is_exported_with_warning_but_not_published(place: Workplace) -> None:
    state = str(place.state)
    out = str(place.folder / "dashboards.db")
    old = place.folder / "old.db"
    place.count(place.write("e.csv", ROWS[:3]))
    for command in ("export", "show", "methods"):
        done = place(command, state)
        assert "old copy" not in done.out + done.err
    shutil.copy(place.state, old)
    place("release", "count", place.write("e.csv", ROWS), *place.again)
    shutil.copy(old, place.state)
    for words in (
        ("export", state),
        ("inspect", state),
        ("inspect", state, "--json"),
        ("methods", state),
        ("close", state, "--stream", "count", "--drop-waiting"),
    ):
        done = place(*words).fine()
        said = " ".join((done.out + done.err).split())
        assert "records that step 4 is released" in said
    assert place("verify", state).code == 7
    done = place("publish", state, "--to", out)
    assert (done.code, "nothing was published: state " in done.err) == (7, True)
    assert not Path(out).exists()


@pytest.mark.parametrize("within", [True, False])
def test_published_statistic_follows_display_options_of_run(tmp_path: Path, within: bool) -> None:
    """Over, shares and level are those of the run's own table, also where they are said anew."""
    rows_of = {"time": [f"2024-03-0{day}T09:00" for day in range(1, 6)], "paid": range(5)}
    events = tmp_path / "e.csv"
    out = tmp_path / "t.parquet"
    pl.DataFrame(rows_of).write_csv(events)
    state = tmp_path / "s.db"
    to = None if within else tmp_path / "dashboards.db"

    def job(until: str, **shown: Any) -> None:
        again: dict[str, Any] = {} if state.exists() else {
            "value": "paid", "edges": "0,2,4", "time": "time", "every": "1d", "windows": 30,
            "start": "2024-03-01", "epsilon": 1,
        }  # fmt: skip
        run(Job("quantiles", events, state, until=until, output=out, **again, **shown)).close()
        publish(state, to)

    def published_is_written() -> None:
        table = pl.read_parquet(out)
        times = [pl.col(name).dt.to_string("%Y-%m-%dT%H:%M:%SZ") for name in COLUMNS[1:3]]
        told = table.with_columns(times)
        columns = [*COLUMNS[:3], "quantile", "estimate", "lower", "upper"]
        query = (
            f"SELECT {', '.join(columns)} FROM counton_published_rows ORDER BY window_index, row"  # noqa: S608 - columns
        )
        assert rows(to or state, query) == told.select(columns).rows()

    job("2024-03-05", over=2, shares="0.5", confidence_level=0.8)
    published_is_written()
    assert rows(to or state, "SELECT DISTINCT confidence_level FROM counton_releases") == [(0.8,)]
    assert rows(to or state, "SELECT min(window_index) FROM counton_releases") == [(2,)]
    assert "With 80% confidence for each number" in methods(state)["quantiles_of_paid"]
    job("2024-03-06")  # nothing is said of it
    published_is_written()
    job("2024-03-06", over=0, shares="0.25,0.75")
    published_is_written()
    assert rows(to or state, "SELECT count(*) FROM counton_releases") == [(10,)]


@pytest.mark.parametrize("server", [False, True])
def test_windows_have_their_local_date(
    tmp_path: Path, server: bool, request: pytest.FixtureRequest
) -> None:
    events = tmp_path / "e.csv"
    state = tmp_path / "s.db"
    events.write_text("time\n2026-09-01T09:00\n")
    to = request.getfixturevalue("postgres") if server else str(tmp_path / "p.db")
    day: Any = {"time": "time", "every": "1d", "start": "2026-09-01", "windows": 9, "epsilon": 1}
    day |= {"timezone": "Europe/Berlin", "until": "2026-09-03"}
    run(Job("count", events, state, **day))
    quantiles: Any = {"value": "n", "lower": 0, "upper": 9, "cells": 3}
    (tmp_path / "n.csv").write_text("time,n\n2026-09-01T09:00,3\n")
    run(Job("quantiles", tmp_path / "n.csv", state, **day, **quantiles))
    for name in ("count", "quantiles_of_n"):
        publish(state, stream=name, to=to)
    local = ["2026-09-01T00:00:00", "2026-09-02T00:00:00"]

    def starts() -> set[tuple[str, str]]:
        found = rows_in(to, "SELECT stream, CAST(local_start AS TEXT) AS t FROM counton_releases")
        return {(row["stream"], row["t"].replace(" ", "T")) for row in found}

    whole = {(name, start) for name in ("count", "quantiles_of_n") for start in local}
    assert starts() == whole
    for name in ("count", "quantiles_of_n"):
        publish(state, stream=name, to=to)
    assert starts() == whole


#: Statistics whose numbers have columns of different names in a released table.
OF_WINDOWS: dict[str, dict[str, Any]] = {
    "count": {},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "quantiles": {"value": "paid", "edges": "0,2,4", "shares": "0.5"},
    "reach": {"user": "user", "at_least": "1", "contribution_period": "1d"},
    "top-k": {"group_by": "page", "groups": "a,b", "top": 1},
    "hierarchy": {"levels": "page", "groups": {"page": ["a", "b"]}},
    "ranges": {"label": "page", "groups": "a,b"},
    "contingency": {"columns": "page", "groups": "page=a,b"},
    "moments": {"columns": "paid", "bounds": "0:9", "epsilon": 100},
    "report": {
        "statistics": {
            "rows": {"statistic": "count"},
            "paid": {
                "statistic": "average",
                "value": "paid",
                "lower": 0,
                "upper": 9,
                "resolution": 1,
            },
        }
    },
}
#: Forms of a stream whose numbers are each of a single window: options of the job.
WINDOW_FORMS: dict[str, dict[str, Any]] = {
    "windows": {"series": "per-window"},
    "revised": {"allowed_lateness": "1d"},
    "last one": {"over": 1},
}


def publishable(name: str, form: str, folder: Path) -> Job:
    """A job over four days of rows, whose state is in a folder."""
    table = {
        "time": [f"2024-03-0{day}T09:00" for day in (1, 2, 2, 3, 4)], "paid": range(5),
        "user": ["ann", "bob", "cy", "ann", "bob"], "page": ["a", "b", "a", "a", "b"],
    }  # fmt: skip
    options = {"epsilon": 1, **OF_WINDOWS[name], **WINDOW_FORMS.get(form, {"series": form})}
    return Job(
        name, pl.DataFrame(table), folder / "s.db", time="time", every="1d", start="2024-03-01",
        windows=9, until="2024-03-05", **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in OF_WINDOWS
        for form in WINDOW_FORMS
        if form != "last one" or name not in ("count", "sum")
    ],
)
def test_publish_writes_the_numbers_of_each_window(tmp_path: Path, name: str, form: str) -> None:
    run(publishable(name, form, tmp_path)).close()
    publish(tmp_path / "s.db", tmp_path / "out.db")
    table = export(tmp_path / "s.db").table()
    names = ("series", "estimate", "noise_std", "lower", "upper", "confidence_level")
    query = f"SELECT {', '.join(names)} FROM counton_published_rows ORDER BY window_index, row"  # noqa: S608
    assert rows(tmp_path / "out.db", query) == finite(table).select(names).rows()
    assert set(table["series"]) == {"per-window"}

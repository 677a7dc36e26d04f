"""Notes beside single numbers: every later table and text has them, and the stream goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import read
from counton.base.errors import InvalidInputError, StateRolledBackError
from counton.job.saved_job import stream_name
from counton.results.charts import totals_curves, window_curves
from counton.results.release import Release
from counton.results.released_table import last_numbers
from counton.run import Job, annotate, export, publish, run
from counton.serve.public_series import Journal
from counton.state import Store, verify

ROWS = [("2024-03-01", "a"), ("2024-03-02", "b"), ("2024-03-03", "b"), ("2024-03-04", "a")]
KINDS: dict[str, dict[str, Any]] = {
    "windows": {"series": "per-window", "windows": 9},
    "totals": {"windows": 9},
    "both": {"series": "both", "windows": 9},
    "revised": {"allowed_lateness": "1d"},
}


@pytest.fixture(params=KINDS)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    run(job(tmp_path / "s.db", 3, **KINDS[request.param])).close()
    return tmp_path / "s.db"


def job(state: Path, until: int, **more: Any) -> Job:
    rows = pl.DataFrame(ROWS, schema=["at", "group"], orient="row")
    given = {
        "time": "at", "every": "1d", "start": "2024-03-01", "group_by": "group", "groups": "a,b",
        "epsilon": 1, **more,
    }  # fmt: skip
    return Job("count", rows, state, until=f"2024-03-{until + 1:02}", **(given if more else {}))


def notes(table: pl.DataFrame) -> dict[tuple[int, str], str]:
    return {
        (step, group): note
        for step, group, note in table.select("window_index", "group", "note").rows()
        if note is not None
    }


def test_a_note_is_in_all_later_tables_and_texts(state: Path) -> None:
    before = read_again(state)
    annotate(state, "2024-03-02", "counter broken", group="b")
    annotate(state, "2024-03-01T15:00", "a holiday")
    wanted = {(2, "b"): "counter broken", (1, "a"): "a holiday", (1, "b"): "a holiday"}
    found = read_again(state)
    assert notes(found) == wanted
    assert found.drop("note").equals(before)
    with run(job(state, 4)) as outcome:  # the stream goes on
        assert notes(outcome.read().table()) == wanted
        for text in (outcome.read().methods(), str(outcome.read())):
            assert "1 March 2024: a holiday" in text
            assert "2 March 2024, b: counter broken" in text
    annotate(state, "2024-03-02", "it was repaired", group="b")  # instead of the first one
    assert notes(read_again(state))[2, "b"] == "it was repaired"
    assert all(one.right for one in verify(state))


def test_a_note_is_published_and_hollow_in_charts(state: Path) -> None:
    annotate(state, "2024-03-02", "counter broken", group="b")
    publish(state, to=state.parent / "p.db")
    with closing(sqlite3.connect(state.parent / "p.db")) as database:
        said = (
            'SELECT series, window_index, "group", note FROM counton_releases '
            "WHERE note IS NOT NULL ORDER BY series"
        )
        published = database.execute(said).fetchall()
        shown = sorted(read_again(state)["series"].unique())
        assert published == [(series, 2, "b", "counter broken") for series in shown]
        said = "SELECT description FROM counton_published_streams"
        assert "2 March 2024, b: counter broken" in database.execute(said).fetchone()[0]
    released = read(exported(state))
    for figure in released.figures().values():
        panel = next(ax for ax in figure.axes if ax.get_title(loc="left").startswith("b"))
        (marker,) = (line for line in panel.lines if line.get_markerfacecolor() == "white")
        assert len(np.asarray(marker.get_xdata())) == 1
        assert "hollow: with a note" in " ".join(text.get_text() for text in figure.texts)


def exported(state: Path) -> Path:
    export(state, state.parent / "e.csv")
    return state.parent / "e.csv"


def read_again(state: Path) -> pl.DataFrame:
    out = state.parent / "t.csv"
    out.unlink(missing_ok=True)
    export(state, out)
    return read(out).table()


@pytest.mark.parametrize("state", ["revised"], indirect=True)
@pytest.mark.parametrize("group", [None, "b"])
def test_the_history_of_a_window_has_its_note(state: Path, group: str | None) -> None:
    annotate(state, "2024-03-02", "counter broken", group=group)
    noted = (
        read(exported(state))
        .versions()
        .filter(pl.col("note") == "counter broken")
        .select("window_index", "group")
    )
    assert set(noted.rows()) == {(2, one) for one in (group or "ab")}
    assert noted.height == 2 * len(group or "ab")


def test_a_withdrawn_number_is_in_no_later_table(state: Path) -> None:
    to = state.parent / "published.db"
    publish(state, to)
    annotate(state, "2024-03-02", "counter broken", group="b", withdraw=True)
    publish(state, to)
    with closing(sqlite3.connect(to)) as public:
        said = "SELECT count(*) FROM counton_releases WHERE window_index = 2 AND \"group\" = 'b'"
        assert public.execute(said).fetchone() == (0,)
    out = state.parent / "t.csv"
    export(state, out)
    rows = pl.read_csv(out).select("window_index", "group").rows()
    assert (2, "b") not in rows
    n_series = pl.read_csv(out)["series"].n_unique()
    assert len(rows) == 5 * n_series
    assert "2 March 2024, b, withdrawn: counter broken" in read(out).methods()
    if "lag_windows" in pl.read_csv(out).columns:
        revisions = read(out).numbers.revisions
        assert revisions is not None
        assert [revisions.values[1, 1, 0], revisions.values[2, 1, 1]] == [0, 0]
        versions = read(out).versions()
        assert versions.filter(window_index=2, group="b").is_empty()
        assert versions.height == 8
    with run(job(state, 4)) as outcome:
        assert outcome.read().table().height == 7 * n_series
        numbers = outcome.read().numbers
        drawn = [
            window_curves(numbers)[0],
            *[totals_curves(numbers)] * (numbers.series.totals is not None),
        ]
    for curves in drawn:
        hidden = np.isnan([curves.estimates, curves.lower, curves.upper])
        assert np.argwhere(hidden).tolist() == [[part, 1, 1] for part in range(3)]


def check_withdrawn(released: Release, step: int, group: str | None, nights: int) -> None:
    """Check that a released table has all numbers but the withdrawn ones of one window."""
    gone = {(step, one) for one in ("ab" if group is None else group)}
    rows = set(released.table().select("window_index", "group").rows())
    assert rows == {(one, name) for one in range(1, nights + 1) for name in "ab"} - gone
    versions = released.versions().select("window_index", "group").rows()
    assert gone.isdisjoint(versions)
    assert "counter broken" in str(released)


def test_withdrawn_number_of_last_step_is_not_shown(state: Path) -> None:
    annotate(state, "2024-03-03", "counter broken", group="b", withdraw=True)
    with run(job(state, 3)) as outcome:
        for released in (outcome.read(), read(exported(state))):
            lines = str(released).splitlines()
            (shown,) = (line for line in lines if "withdrawn" in line and line[:4] != "Note")
            assert set(shown.split()) <= {"3", "March", "2024", "b", "withdrawn", "provisional"}
            for row in last_numbers(released.numbers)["rows"]:
                hidden = [row[name] for name in ("estimate", "noise_std", "lower", "upper")]
                assert all((number is None) == (row["group"] == "b") for number in hidden)


@pytest.mark.parametrize("group", [None, "b"])
@pytest.mark.parametrize("days", [1, 3, 7])
@pytest.mark.parametrize("nights", [1, 2, 3, 4])
def test_withdrawal_in_first_runs_keeps_other_numbers(
    nights: int, days: int, group: str | None, tmp_path: Path
) -> None:
    for step in range(1, nights + 1):
        state = tmp_path / f"{step}.db"
        run(job(state, nights, allowed_lateness=f"{days}d")).close()
        annotate(state, f"2024-03-{step:02}", "counter broken", group=group, withdraw=True)
        for ending in ("csv", "parquet", "json"):
            out = tmp_path / f"{step}.{ending}"
            export(state, out)
            check_withdrawn(read(out), step, group, nights)
            revisions = read(out).numbers.revisions
            assert revisions is not None
            for night, lag in np.ndindex(nights, min(days + 1, nights)):
                values = revisions.values[night, 0 if group is None else 1 :, lag]
                assert night - lag + 1 != step or not values.any()
        out = tmp_path / f"{step} run.csv"
        with run(job(state, nights).derive(output=out)) as outcome:
            check_withdrawn(outcome.read(), step, group, nights)
        with run(
            job(state, nights).derive(until=f"2024-03-{nights + 2:02}", output=out)
        ) as outcome:
            assert outcome.after == nights + 1
            gone = 2 if group is None else 1
            assert outcome.read().table().height == 2 * (nights + 1) - gone
        publish(state, tmp_path / f"{step} published.db")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"window": "2024-03-09"}, r"in no window .* from 2024-03-01.* to 2024-03-04"),
        ({"window": "2023-03-09"}, "in no window"),
        ({"group": "c"}, r"no declared group of stream 'count'\. Give one of a, b, or"),
        ({"group": "A "}, r"of stream 'count'\. Did you mean 'a'\? Give one of a, b, or"),
        ({"note": " "}, "give one line"),
        ({"note": "two\nlines"}, "give one line"),
    ],
)
def test_annotate_refuses_unreleased_numbers(
    asked: dict[str, Any], words: str, tmp_path: Path
) -> None:
    run(job(tmp_path / "s.db", 3, **KINDS["windows"])).close()
    with pytest.raises(InvalidInputError, match=words):
        annotate(tmp_path / "s.db", **{"window": "2024-03-02", "note": "wrong", **asked})


def test_other_statistics_have_notes_and_keep_their_numbers(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    rows = pl.DataFrame({"at": ["2024-03-01"], "paid": [3]})
    given: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": 9, "epsilon": 1,
        "value": "paid", "lower": 0, "upper": 9, "resolution": 1, "until": "2024-03-02",
    }  # fmt: skip
    with run(Job("average", rows, state, **given)) as outcome:
        before = outcome.read().table()
    with pytest.raises(InvalidInputError, match="withdraw=True is for counts and sums"):
        annotate(state, "2024-03-01", "wrong", withdraw=True)
    annotate(state, "2024-03-01", "wrong")
    with run(Job("average", rows, state, until="2024-03-02")) as outcome:
        table = outcome.read().table()
    assert table["note"].to_list() == ["wrong"] * before.height
    assert table.drop("note").equals(before)


def test_annotation_during_run_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    run(job(state, 2, **KINDS["windows"])).close()

    def mark_a_window(*_: object) -> None:
        annotate(state, "2024-03-02", "counter broken", withdraw=True)

    with run(job(state, 3), before_commit=mark_a_window) as outcome:
        assert 2 not in outcome.read().table()["window_index"].to_list()
        assert 2 not in outcome.release.table()["window_index"].to_list()
    assert set(notes(read_again(state)).values()) == set()
    assert 2 not in read_again(state)["window_index"].to_list()


def test_service_hides_number_withdrawn_after_it_was_read(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    run(job(state, 3, **KINDS["windows"])).close()
    with Store(state) as store:
        journal = Journal(store, stream_name(job(state, 3)))
        assert 2 in journal.page().table["window_index"].to_list()
        annotate(state, "2024-03-03", "a holiday")
        annotate(state, "2024-03-02", "counter broken", withdraw=True)
        journal.refresh()
        assert 2 not in journal.page().table["window_index"].to_list()
        assert notes(journal.page().table) == {(3, "a"): "a holiday", (3, "b"): "a holiday"}
        assert "2 March 2024, withdrawn: counter broken" in journal.describe()["systematic_errors"]


def test_no_answer_contains_a_withdrawn_number(state: Path) -> None:
    annotate(state, "2024-03-03", "counter broken", group="b", withdraw=True)
    annotate(state, "2024-03-03", "counter broken twice", group="b")  # it stays withdrawn
    with run(job(state, 3)) as outcome:
        found = outcome.read()
        if found.numbers.metadata.windows.n_revisions:
            return
        for ask in (
            lambda: found.total("b", steps="3:3"),
            lambda: found.difference("a", "b", steps="2:3"),
            lambda: found.share("b", steps="3:3"),
            lambda: found.sums("1d"),
        ):
            with pytest.raises(InvalidInputError, match="step 3 of 'b' is withdrawn"):
                ask()
        assert found.total("b", steps="1:2").confidence_level == 0.95
        assert found.total("a", steps="2:3").confidence_level == 0.95


def test_withdrawn_total_is_missing_in_every_difference(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    run(job(state, 4, **KINDS["totals"])).close()
    annotate(state, "2024-03-02", "counter broken", group="a", withdraw=True)
    with run(job(state, 4)) as outcome:
        found = outcome.read()
        for steps in ("1:2", "2:2", "3:4"):
            with pytest.raises(InvalidInputError, match="step 2 of 'a' is withdrawn"):
                found.total("a", steps=steps)
        with pytest.raises(InvalidInputError, match="step 2 of 'a' is withdrawn"):
            found.sums("1d")
        assert (
            found.total("a", steps="1:4").confidence_level
            == found.total("b", steps="3:4").confidence_level
        )


def test_annotate_refuses_old_copy(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    run(job(state, 2, **KINDS["windows"])).close()
    old = state.read_bytes()
    run(job(state, 3)).close()
    state.write_bytes(old)
    with pytest.raises(StateRolledBackError):
        annotate(state, "2024-03-01", "counter broken")

"""What is said of revised numbers is true while late rows come: margins are those of noise."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from counton import Release
from counton.run import Job, annotate, export, run

START = datetime(2024, 3, 4, tzinfo=UTC)  # a Monday
GROUPS = [f"g{number:03}" for number in range(200)]
#: Rows of a group on a day, and those of them that come a day later: 2%.
ROWS = 300
LATE = 6
NIGHTS = 4


def job_of_night(folder: Path, night: int) -> Job:
    """The job of one night: the rows of its day, and late ones of the day before."""
    parts = []
    for day, rows in ((night, ROWS - LATE), (night - 1, LATE)):
        if day >= 1:
            noon = START + timedelta(days=day - 1, hours=12)
            parts.append(pl.DataFrame({"page": GROUPS, "n": rows, "time": noon.isoformat()}))
    events = folder / f"{night}.csv"
    pl.concat(parts).write_csv(events)
    return Job(
        "count", events, folder / "s.db", time="time", every="1d", start=START.isoformat(),
        allowed_lateness="2d", append=True, group_by="page", groups=GROUPS, count_column="n",
        epsilon="0.5",
        until=(START + timedelta(days=night)).isoformat(),
    )  # fmt: skip


@pytest.fixture
def published(tmp_path: Path) -> Release:
    for night in range(1, NIGHTS + 1):
        run(job_of_night(tmp_path, night)).close()
    return export(tmp_path / "s.db")


def test_margin_of_revised_numbers_is_that_of_their_noise(published: Release) -> None:
    text = published.methods()
    margin = re.search(
        r"With 95% confidence for each number, the noise changes the numbers by at most (\S+) "
        r"\(when first published\) and (\S+) \(when final\)\.",
        text,
    )
    assert margin is not None, text
    newest = published.table().filter(pl.col("lag_windows") == 0)["estimate"].to_numpy()
    counted = ROWS - LATE
    assert np.mean(np.abs(newest - counted) <= float(margin[1])) > 0.93
    final = published.table().filter("is_final")["estimate"].to_numpy()
    assert np.mean(np.abs(final - ROWS) <= float(margin[2])) > 0.93
    # Late rows move a number further: no sentence may say that it is within the margin of the
    # final truth.
    assert np.mean(np.abs(newest - ROWS) <= float(margin[1])) < 0.85
    assert "late" not in text or "off by" not in text
    assert "rows that arrive after their day became final are not counted" in text
    assert "earlier late rows are added to their day" in text
    assert "provisional for 2 more days" in text
    whole = published.methods(full=True)
    assert "off by" not in whole


def test_sums_of_revised_windows_mark_final_ones(published: Release) -> None:
    days = published.sums("1d")
    assert days.columns[-1] == "is_final"
    final = days.group_by("first_window").agg(pl.col("is_final").unique()).sort("first_window")
    assert final["is_final"].to_list() == [[True], [True], [False], [False]]
    week = published.sums("1w")
    assert not week["is_final"].any()
    two = published.only(range(1, 3)).sums("1d")
    assert two["is_final"].all()


def test_sums_of_windows_with_notes_have_their_notes(published: Release, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    assert "note" not in published.sums("1w").columns
    annotate(state, "2024-03-05", "counter broken", group="g001")
    annotate(state, "2024-03-06", "a holiday")
    week = export(state).sums("1w")
    assert week.columns[-2:] == ["is_final", "note"]
    notes = dict(week.select("group", "note").rows())
    assert notes["g000"] == "a holiday"
    assert notes["g001"] == "counter broken; a holiday"
    days = export(state).sums("1d").filter(group="g001")
    assert days["note"].to_list() == [None, "counter broken", "a holiday", None]


def test_sums_of_a_statistic_have_finality_and_notes(tmp_path: Path) -> None:
    rows = pl.DataFrame({"time": [(START + timedelta(days=day)).isoformat() for day in range(4)]})
    job = Job(
        "average", rows.with_columns(paid=5), tmp_path / "s.db", time="time", every="1d",
        start=START.isoformat(), allowed_lateness="1d", append=True, value="paid", lower=0, upper=9,
        resolution=1, epsilon=1, until=(START + timedelta(days=4)).isoformat(),
    )  # fmt: skip
    run(job).close()
    annotate(tmp_path / "s.db", "2024-03-05", "counter broken")
    days = export(tmp_path / "s.db").sums("1d").filter(measure="mean")
    assert days["is_final"].to_list() == [True, True, True, False]
    assert days["note"].to_list() == [None, "counter broken", None, None]

"""A run that finds nothing new reads no row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from counton.run import Job, Outcome, export, read_rows, resolve, run, unordered_rows
from counton.run.dry_run import dry_run

ROWS = "time,group\n2024-03-01T09:00,a\n2024-03-02T10:00,b\n2024-03-03T11:00,a\n"
DAYS: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "steps": 9, "by": "group",
    "domain": "a,b", "epsilon": 1, "until": "newest",
}  # fmt: skip
ONCE: dict[str, Any] = {"columns": "group", "domain": {"group": ["a", "b"]}, "epsilon": 1}


def job_in(folder: Path, what: str = "count", **more: Any) -> Job:
    events = folder / "events.csv"
    if not events.exists():
        events.write_text(ROWS)
    return Job(what, events, folder / "s.db", **more)


def reads(job: Job) -> bool:
    """Whether a run of the job would read its rows."""
    with resolve(job) as settled:
        return read_rows(settled).tally is not None


def outcome_of(job: Job) -> Outcome:
    with run(job) as outcome:
        return outcome


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ("count", DAYS),
        ("count", DAYS | {"until": "2024-03-04"}),
        ("count", DAYS | {"revise": "2d", "covers": "9d", "until": "2024-03-04", "steps": None}),
        ("count", DAYS | {"domain": None, "unknown": "discover", "delta": "1e-6"}),
        ("contingency", ONCE),
    ],
    ids=["newest", "stated", "revised", "found", "once"],
)
def test_the_input_of_the_last_release_is_not_read_again(
    what: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    job = job_in(tmp_path, what, **asked)
    assert reads(job)
    first = outcome_of(job)
    assert not reads(job)
    assert dry_run(job).for_operator().rows == 3  # which says that it reads
    with run(job) as again:
        assert (again.before, again.after) == (first.after, first.after)
        assert again.for_operator().rows == 0
    os.utime(tmp_path / "events.csv")  # the same bytes; that they are is known by reading alone
    assert reads(job)
    with run(job) as other:
        assert other.after == first.after
        assert other.for_operator().rows == 3
    assert reads(job)  # a run that releases nothing keeps nothing of its input


@pytest.mark.parametrize("until", ["newest", "2024-03-04"])
def test_a_run_that_reads_says_in_public_what_one_that_does_not_says(
    until: str, tmp_path: Path
) -> None:
    """A row before the start, or an unlisted one, is told to the operator again."""
    found = []
    for number, more in enumerate(("", "2024-02-01T09:00,a\n", "2024-03-02T09:00,z\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "events.csv").write_text(ROWS + more)
        job = job_in(folder, **DAYS | {"until": until, "unknown": "drop"})
        outcome_of(job)
        again = outcome_of(job)
        assert reads(job) is bool(more)
        found.append((again.before, again.after, again.until))
    assert found[0] == found[1] == found[2]
    assert found[0][2] is not None


def test_other_rows_are_read_and_told(tmp_path: Path) -> None:
    job = job_in(tmp_path, **DAYS)
    outcome_of(job)
    (tmp_path / "events.csv").write_text(ROWS.replace("T09:00,a", "T09:00,b"))
    assert outcome_of(job).differing_rows is not None
    (tmp_path / "events.csv").write_text(f"{ROWS}2024-03-04T01:00,b\n")
    assert outcome_of(job).after == 3


@pytest.mark.parametrize(
    "more", [{"until": "2024-03-05"}, {"until": None, "yes": True}, {"missing": "skip"}], ids=str
)
def test_another_job_or_a_window_that_is_due_is_read(more: dict[str, Any], tmp_path: Path) -> None:
    outcome_of(job_in(tmp_path, **DAYS))
    assert reads(job_in(tmp_path, **DAYS | more))


def test_the_clock_makes_the_same_input_due(tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start, steps = now - timedelta(days=3), 365
    (tmp_path / "events.csv").write_text(f"time,group\n{(now - timedelta(hours=5)):%FT%R},a\n")
    clock = {"start": f"{start:%F}", "steps": steps, "until": None, "quiet": 9}
    job = job_in(tmp_path, **DAYS | clock)
    first = outcome_of(job)
    for days, due in ((0, False), (1, True)):
        with resolve(job) as settled:
            found = read_rows(settled, now=now + timedelta(days=days, hours=23, minutes=50))
        assert (found.tally is not None, found.ended) == (due, first.after + due)


def test_events_of_a_first_run_that_was_cut_off_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last transaction says that the input has nothing more."""
    monkeypatch.setattr(unordered_rows, "_CHUNK", 2)  # a step in each transaction
    job = job_in(tmp_path, **DAYS)
    done = list[int]()

    def cut_off(task: str, _: float) -> None:
        done.append(task == "releasing")
        if sum(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job, cut_off)
    assert reads(job)
    assert outcome_of(job).before == 1


def test_a_table_is_written_whatever_lies_there(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    job = job_in(tmp_path, **DAYS, out=table)

    def written() -> bytes:
        with run(job) as outcome:
            outcome.outputs.write(outcome.stream, outcome.definition)
        return table.read_bytes()

    whole = written()
    export(tmp_path / "s.db", out=table, steps="2:2")
    assert 0 < len(table.read_bytes()) < len(whole)
    assert written() == whole

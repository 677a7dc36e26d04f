"""A run over files that told the last run nothing new does as if it had read them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from counton.base.private import Private
from counton.cli import run_statistic
from counton.cli.run_statistic import carried_out
from counton.job.job import Job
from counton.run import known_rows, outputs, run, written_files
from counton.run.runs import Outcome, remember_rows
from counton.run.settlement import SettledJob, resolve
from counton.state.addition import Addition

ROWS = "time,group,user\n" + "".join(
    f"2013-01-01T0{hour}:10,{'abc'[hour % 3]},{'xyz'[hour % 3]}\n" for hour in range(10)
)
#: Kinds of streams, by the options that differ.
KINDS: dict[str, dict[str, Any]] = {
    "groups": {"by": "group", "domain": "a,b", "unknown": "drop"},
    "people": {"user": "user", "most": 1, "per": "1d"},
    "the clock": {"until": "2013-01-01T05:30"},
    "found groups": {"by": "group", "unknown": "discover", "delta": 1e-6},
    "set aside": {"missing": "skip", "bad_rows": "quarantine:aside.csv"},
}


def job_of(kind: str) -> Job:
    options: dict[str, Any] = {"until": "newest", "epsilon": 1, "start": "2013-01-01", "steps": 100}
    return Job(
        "count", "events.csv", "state.db", time="time", every="1h", unit="row"
        if "user" not in KINDS[kind] else None, **options | KINDS[kind],
    )  # fmt: skip


def night(job: Job) -> dict[str, Any]:
    return json.loads(json.dumps(carried_out(job, silently=True), default=str))  # type: ignore[no-any-return]


def is_known(job: Job) -> bool:
    with resolve(job) as settled:
        return known_rows.look_up(settled)[1] is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.csv").write_text(ROWS)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_read_again_is_told_again_to_the_letter(folder: Path, kind: str) -> None:
    job = job_of(kind)
    night(job)
    assert not is_known(job)
    read = night(job)  # nothing new: that is recorded
    assert is_known(job)
    assert night(job) == read == night(job)
    assert read["new"] == 0


def test_other_bytes_options_or_writers_have_the_rows_read(folder: Path) -> None:
    job = job_of("groups")
    night(job)
    night(job)
    copy = folder / "copy"
    shutil.copytree(folder, copy)
    events = folder / "events.csv"

    events.write_text(ROWS.replace("00:10,a", "00:10,b"))  # as many bytes
    assert not is_known(job)
    events.write_text(ROWS)
    assert is_known(job)
    for other in ({"missing": "skip"}, {"watermark": "1h"}, {"until": "2013-01-01T09:00"}):
        assert not is_known(job.having(**other))

    with run(job):  # another writer, who keeps no record
        pass
    assert not is_known(job)
    os.replace(copy / "state.db", folder / "state.db")  # the record of an old copy
    assert is_known(job)
    with closing(sqlite3.connect(folder / "state.db")) as state:
        for said in (
            "UPDATE counton_last_read SET found = replace(found, '10', '11')",
            "UPDATE counton_last_read SET found = x'00'",
            "UPDATE counton_last_read SET seal = 'text'",
            "UPDATE counton_last_read SET seal = 7",
        ):
            state.execute(said)
            state.commit()
            assert not is_known(job)  # its seal is broken


def test_files_that_are_as_the_last_run_left_them_are_replaced_by_copies(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of("groups").having(out="out.csv", sums="1d", release="both")
    night(job)
    written = night(job)  # nothing new: its files are recorded
    names = ("out.csv", "out.csv.json", "out.1d.csv", "out.1d.csv.json")
    whole = {name: (folder / name).read_bytes() for name in names}
    computed = list[str]()

    def write_table(table: object, path: Path, *more: Any, **options: Any) -> None:
        computed.append(path.name)
        written_table(cast("Any", table), path, *more, **options)

    written_table = written_files.write_table
    monkeypatch.setattr(written_files, "write_table", write_table)

    def computes(job: Job) -> bool:
        """Readers see new files of the same bytes each night, whether or not rows came."""
        before = {name: (folder / name).stat() for name in names if (folder / name).exists()}
        computed.clear()
        assert night(job) == written
        assert {name: (folder / name).read_bytes() for name in names} == whole
        for name, old in before.items():
            now = (folder / name).stat()
            assert now.st_ino != old.st_ino
            assert now.st_mode == old.st_mode
        return bool(computed)

    assert not computes(job)
    (folder / "out.1d.csv").write_text("changed by hand")
    assert computes(job)
    assert not computes(job)
    (folder / "out.csv.json").unlink()
    assert computes(job)
    assert not computes(job)
    monkeypatch.setattr(outputs, "_VERSION", 2)  # of a counton that writes otherwise
    assert computes(job)
    (folder / "events.csv").write_text(ROWS + "2013-01-01T10:20,a,x\n2013-01-01T12:20,a,x\n")
    assert night(job)["new"] == 3
    assert (folder / "out.csv").read_bytes() != whole["out.csv"]


def test_a_run_that_cannot_record_is_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run of the job becomes the writer after a run that found nothing new."""
    job = job_of("groups")
    night(job)
    runs: list[dict[str, Any]] = []

    def second_run(settled: SettledJob, outcome: Outcome, outputs: str | None) -> None:
        monkeypatch.setattr(run_statistic, "remember_rows", remember_rows)
        runs.append(night(job))
        remember_rows(settled, outcome, outputs)

    monkeypatch.setattr(run_statistic, "remember_rows", second_run)
    assert [night(job)] == runs
    assert is_known(job)  # the second run's record


def test_a_window_that_has_ended_since_is_released(folder: Path) -> None:
    job = job_of("the clock").having(until=None, yes=True)
    night(job_of("the clock"))
    with run(job_of("the clock")) as outcome:
        assert outcome.found is not None
        with resolve(job) as settled:  # the record of a run by the clock, some years ago
            asked = known_rows.look_up(settled, rows=False)[0]
            assert asked is not None
            outcome.stream.take(Private(Addition(last_read=(asked, outcome.found, None))))
    with resolve(job) as settled:
        assert settled.saved is not None
        assert settled.saved.last_read(asked) is not None
        assert known_rows.look_up(settled) == (asked, None)

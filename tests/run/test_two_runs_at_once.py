"""Two runs of one job at once: one of them releases, and the other is told to run again."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from counton import Key
from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InputChangedError,
    InvalidInputError,
    StreamClosedError,
)
from counton.job.statistics.count import CountJob
from counton.run.close_stream import close_stream
from counton.run.counting.plan_steps import plan_steps
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import prepare
from counton.run.rows.read_rows import read_rows
from counton.run.run_job import commit, decide, run

NOW = datetime(2024, 3, 5, tzinfo=UTC)
ROWS = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15", "2024-03-04T10:15"]})


def job(folder: Path, until: str, *, append: bool = False) -> CountJob:
    return CountJob(
        state=folder / "visits.db",
        time="at",
        every="1d",
        start="2024-03-01",
        windows=30,
        until=until,
        epsilon=1,
        append=append,
        allow_empty_windows=True,
    )


@pytest.mark.parametrize("append", [False, True])
def test_commit_overtaken_run_releases_nothing(tmp_path: Path, append: bool) -> None:
    key = Key.generate()
    first = run(job(tmp_path, "2024-03-02", append=append), now=NOW, rows=ROWS[:1], key=key)
    rows = ROWS[1:] if append else ROWS
    slow_job = job(tmp_path, "2024-03-03", append=append)
    with OpenedState(slow_job, key) as state:
        slow = prepare(slow_job, state, rows, now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        fast = run(job(tmp_path, "2024-03-04", append=append), now=NOW, rows=rows, key=key)
        with pytest.raises(ConcurrentWriterError, match="run the same command again"):
            commit(slow, read, ended)
    assert (first.after, fast.before, fast.after) == (1, 1, 3)


def test_commit_run_of_stream_closed_meanwhile_releases_nothing(tmp_path: Path) -> None:
    key = Key.generate()
    run(job(tmp_path, "2024-03-02"), now=NOW, rows=ROWS, key=key)
    slow_job = job(tmp_path, "2024-03-03")
    with OpenedState(slow_job, key) as state:
        slow = prepare(slow_job, state, ROWS, now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        close_stream(tmp_path / "visits.db", state.name, drop_waiting=True)
        with pytest.raises(ConcurrentWriterError, match="nothing was released"):
            commit(slow, read, ended)
    with pytest.raises(StreamClosedError, match="closed at window 1 "):
        run(slow_job, now=NOW, rows=ROWS, key=key)


def test_commit_run_refuses_stream_closed_after_it_was_opened(tmp_path: Path) -> None:
    key = Key.generate()
    run(job(tmp_path, "2024-03-02"), now=NOW, rows=ROWS, key=key)
    slow_job = job(tmp_path, "2024-03-03")
    with OpenedState(slow_job, key) as state:
        slow = prepare(slow_job, state, ROWS, now=NOW)
        read = read_rows(slow)
        stream = state.open_writer()
        steps = plan_steps(slow, read, decide(slow, read), stream)
        close_stream(tmp_path / "visits.db", state.name, drop_waiting=True)
        assert stream is not None
        ((_, addition),) = steps.transactions()
        with pytest.raises(ConcurrentWriterError):
            stream.commit(addition)
    with pytest.raises(StreamClosedError, match="closed at window 1 "):
        run(slow_job, now=NOW, rows=ROWS, key=key)


def test_commit_new_rows_that_both_runs_read_count_once(tmp_path: Path) -> None:
    """Neither run releases a step, so only the digest of the rows says that they are counted."""
    key = Key.generate()
    run(job(tmp_path, "2024-03-02", append=True), now=NOW, rows=ROWS[:1], key=key)
    again = job(tmp_path, "2024-03-02", append=True)
    with OpenedState(again, key) as state:
        slow = prepare(again, state, ROWS[1:], now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        run(again, now=NOW, rows=ROWS[1:], key=key)
        with pytest.raises((InputChangedError, ConcurrentWriterError)):
            commit(slow, read, ended)


def test_commit_stream_that_another_run_began_is_not_begun_again(tmp_path: Path) -> None:
    key = Key.generate()
    with OpenedState(job(tmp_path, "2024-03-02"), key) as state:
        slow = prepare(job(tmp_path, "2024-03-02"), state, ROWS, now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        run(job(tmp_path, "2024-03-02"), now=NOW, rows=ROWS, key=key)
        with pytest.raises(CountonError):
            commit(slow, read, ended)
    assert run(job(tmp_path, "2024-03-03"), now=NOW, rows=ROWS, key=key).before == 1


def test_commit_options_remembered_by_another_run_are_kept(tmp_path: Path) -> None:
    """The other run releases no step, but changes what the stream remembers."""
    key = Key.generate()
    run(job(tmp_path, "2024-03-02"), now=NOW, rows=ROWS, key=key)
    slow_job = job(tmp_path, "2024-03-03")
    with OpenedState(slow_job, key) as state:
        slow = prepare(slow_job, state, ROWS, now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        other = job(tmp_path, "2024-03-02").with_options(missing_values="drop")
        run(other, now=NOW, rows=ROWS, key=key)
        with pytest.raises(ConcurrentWriterError):
            commit(slow, read, ended)


def test_commit_refuses_file_name_counted_with_other_bytes(
    tmp_path: Path,
) -> None:
    """Of a folder, a file of the same name may hold the same rows again."""
    key = Key.generate()
    run(job(tmp_path, "2024-03-02", append=True), now=NOW, rows=ROWS[:1], key=key)
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "rows.csv"
    again = job(tmp_path, "2024-03-02", append=True).with_options(events=str(folder))
    ROWS[1:].write_csv(file)
    with OpenedState(again, key) as state:
        slow = prepare(again, state, None, now=NOW)
        read = read_rows(slow)
        ended = decide(slow, read)
        ROWS[2:].write_csv(file)
        run(again, now=NOW, key=key)
        with pytest.raises((InvalidInputError, ConcurrentWriterError)):
            commit(slow, read, ended)

"""Sums of files that a state keeps: a run that finds them does what a run does that reads rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from databases import rows_in

from counton.base.errors import ConcurrentWriterError, CountonError, InvalidInputError
from counton.base.private import Private, reveal
from counton.io.sources import Source
from counton.job.statistics.count import CountJob
from counton.job.statistics.sum import SumJob
from counton.noise import Key
from counton.run import Job, run
from counton.run.counting import plan_steps, unchanged_rows
from counton.run.counting.step_inputs import PlannedSteps
from counton.run.erasure import erase_user
from counton.run.prepared_run import PreparedRun
from counton.run.rows import kept_sums, read_rows, row_reading
from counton.run.rows.window_sums import WindowSums
from counton.state import Store
from counton.state.input_sums import InputSums

START = datetime(2024, 3, 1, tzinfo=UTC)
EVENTS = ("same", "later", "new", "late", "fewer")


@pytest.fixture
def key() -> Key:
    return Key.generate()


@contextmanager
def reading_always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let runs read their files, whatever the state keeps."""
    with monkeypatch.context() as patch:
        patch.setattr(read_rows, "find_sums", lambda _prepared, _source: None)
        yield


def refuse_to_read(*_: object, **__: object) -> None:
    raise AssertionError("rows are read")


def refuse_to_plan(*_: object) -> None:
    raise AssertionError("steps are planned")


def visits(rows: list[tuple[float, str, int]]) -> str:
    """Return rows of CSV: days since the start, page and value."""
    lines = [
        f"{START + timedelta(days=day):%Y-%m-%dT%H:%M:%S},{page},{value}"
        for day, page, value in rows
    ]
    return "\n".join(["time,page,value", *lines, ""])


def some_rows(chance: random.Random, days: int, number: int) -> list[tuple[float, str, int]]:
    return [
        (round(chance.random() * days, 3), chance.choice("ab"), chance.randrange(9))
        for _ in range(number)
    ]


def counting(folder: Path, state: str, **more: Any) -> Job:
    columns = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 30}
    groups = {"group_by": "page", "groups": ["a", "b"]}
    given = {"events": folder / "visits.csv", "state": folder / state, "epsilon": 1}
    return CountJob(**{**columns, **groups, **given, "allow_empty_windows": True, **more})


def outcome(job: Job, key: Key, now: datetime) -> tuple[object, ...]:
    """Return all that a run shows, or why it refuses."""
    try:
        with run(job, key=key, now=now) as result:
            table = result.release.table()
            return (
                *(result.before, result.after, result.until, result.is_duplicate_input),
                *(result.confidential_counts(), table.columns, table.rows()),
            )
    except CountonError as error:
        return type(error), str(error)


def kept(state: Path) -> list[list[dict[str, Any]]]:
    """Return what a state keeps, but for the sums of the last files."""
    queries = (
        "SELECT step, details, checkpoint, arrived, late FROM counton_streams",
        "SELECT step, input_digests, estimates, std FROM counton_journal ORDER BY 1",
        "SELECT step, last, totals FROM counton_observed ORDER BY 1, 2",
        "SELECT part, digests FROM counton_sources ORDER BY 1",
        "SELECT kind, period, part FROM counton_marks WHERE kind <> 'sums' ORDER BY 1, 2, 3",
    )
    return [rows_in(str(state), query) for query in queries]


def test_same_bytes_are_not_read_again(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    job = counting(tmp_path, "s.db")
    first = outcome(job, key, START + timedelta(days=2))
    (tmp_path / "same.csv").write_bytes((tmp_path / "visits.csv").read_bytes())
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    later = counting(tmp_path, "s.db", events=tmp_path / "same.csv")
    second = outcome(later, key, START + timedelta(days=3))
    assert (first[:2], second[:2]) == ((0, 2), (2, 3))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: {"events": write_same_size(folder)},
        lambda folder: {"events": write_same_size(folder), "unlisted_groups": "drop"},
        lambda _: {"file_format": "csv", "unlisted_groups": "drop"},
        lambda _: {"separator": ";"},
        lambda folder: {"events": [folder / "visits.csv", write_same_size(folder)]},
    ],
    ids=["other bytes", "other bytes and rule", "other rule", "separator", "two files"],
)
def test_other_input_is_read(
    change: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    key: Key,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    outcome(counting(tmp_path, "s.db"), key, START + timedelta(days=2))
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    more = change(tmp_path)
    if more == {"separator": ";"}:
        (tmp_path / "visits.csv").write_text("time;page;value\n")
    with pytest.raises(AssertionError, match="rows are read"):
        run(counting(tmp_path, "s.db", **more), key=key, now=START + timedelta(days=3))


def write_same_size(folder: Path) -> Path:
    path = folder / "other.csv"
    path.write_text(visits([(0.5, "b", 1), (1.5, "b", 2)]))
    return path


def test_digest_of_kept_sums_needs_the_key(tmp_path: Path, key: Key) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    digests = set()
    for state, key_of_state in (("s.db", key), ("t.db", Key.generate())):
        job = counting(tmp_path, state)
        outcome(job, key_of_state, START + timedelta(days=2))
        with Store(tmp_path / state) as store:
            kept_here = reveal(store.reader("count", key_of_state).input_sums())
        assert kept_here is not None
        digests.add(kept_here.digest)
    assert len(digests) == 2  # without the key, nobody can test guesses of the rows


def test_row_of_the_future_is_read_again(tmp_path: Path, key: Key) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (5.5, "b", 2)]))
    job = counting(tmp_path, "s.db")
    outcome(job, key, START + timedelta(days=2))
    with Store(tmp_path / "s.db") as store:
        assert reveal(store.reader("count", key).input_sums()) is None
    outcome(job, key, START + timedelta(days=6))
    with Store(tmp_path / "s.db") as store:
        assert reveal(store.reader("count", key).input_sums()) is not None


def test_clock_put_back_is_noticed(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (2.5, "b", 2)]))
    job = counting(tmp_path, "s.db")
    outcome(job, key, START + timedelta(days=3))
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    with pytest.raises(AssertionError, match="rows are read"):
        run(job, key=key, now=START + timedelta(days=2))


@pytest.mark.parametrize(
    "more",
    [
        {"groups": None, "unlisted_groups": "discover", "delta": 1e-6, "epsilon": 1},
        {"user": "value", "max_contributions": 2, "max_contributions_per_window": 1},
        {"user": "value", "max_contributions": 2, "lookback": "4d"},
        {"row_id": "value"},
    ],
    ids=["found groups", "users in windows", "users of some days", "ids"],
)
def test_input_that_does_more_than_add_up_is_not_kept(
    more: dict[str, Any], tmp_path: Path, key: Key
) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    _, after, *_ = outcome(counting(tmp_path, "s.db", **more), key, START + timedelta(days=2))
    assert after == 2
    rows = rows_in(str(tmp_path / "s.db"), "SELECT kind FROM counton_marks WHERE kind = 'sums'")
    assert not rows


@pytest.mark.parametrize("bad_row", ["yesterday,a,1", "2024-03-01T09:00,,1"])
def test_file_of_bad_rows_is_written_by_each_run(bad_row: str, tmp_path: Path, key: Key) -> None:
    (tmp_path / "visits.csv").write_text(f"{visits([(0.5, 'a', 1), (1.5, 'b', 2)])}{bad_row}\n")
    aside = tmp_path / "bad.csv"
    job = counting(tmp_path, "s.db", missing_values="drop", bad_rows=f"quarantine:{aside}")
    before = outcome(job, key, START + timedelta(days=2))
    content = aside.read_text()
    aside.unlink()
    assert outcome(job, key, START + timedelta(days=2, hours=1))[4:] == before[4:]
    assert aside.read_text() == content


def test_rows_that_were_left_out_are_refused_without_the_option(tmp_path: Path, key: Key) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "", 2), (1.5, "b", 2)]))
    now = START + timedelta(days=2)
    outcome(counting(tmp_path, "s.db", missing_values="drop"), key, now)
    with pytest.raises(InvalidInputError, match="no group"):
        run(counting(tmp_path, "s.db", missing_values="fail"), key=key, now=now)


def test_larger_sums_are_not_kept(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_sums, "MOST_SUMS", 1)
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    outcome(counting(tmp_path, "s.db"), key, START + timedelta(days=2))
    rows = rows_in(str(tmp_path / "s.db"), "SELECT kind FROM counton_marks WHERE kind = 'sums'")
    assert not rows


@pytest.mark.parametrize("fate", ["deleted", "replaced", "unreadable"])
def test_file_that_is_gone_before_the_commit_is_not_kept(
    fate: str, tmp_path: Path, key: Key
) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))

    def change_file(*_: object) -> None:
        path.unlink()
        if fate == "replaced":
            write_same_size(tmp_path).rename(path)
        elif fate == "unreadable":
            path.mkdir()

    job = counting(tmp_path, "s.db")
    with run(job, key=key, now=START + timedelta(days=2), before_commit=change_file) as result:
        assert result.after == 2
    with Store(tmp_path / "s.db") as store:
        assert reveal(store.reader("count", key).input_sums()) is None


def test_sums_that_another_version_kept_are_not_unpacked(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    pack = kept_sums._pack

    def pack_more(*given: Any) -> InputSums:
        sums = pack(*given)
        rows = {**sums.numbers["rows"], "a number of another version": 1}
        return sums._replace(numbers={"sizes": sums.numbers["sizes"], "rows": rows})

    with monkeypatch.context() as patch:
        patch.setattr(kept_sums, "version", lambda _: "0")
        patch.setattr(kept_sums, "_pack", pack_more)
        outcome(counting(tmp_path, "s.db"), key, START + timedelta(days=2))
    before, after, *_ = outcome(counting(tmp_path, "s.db"), key, START + timedelta(days=3))
    assert (before, after) == (2, 3)


KINDS: dict[str, dict[str, Any]] = {
    "whole": {},
    "lookback": {"lookback": "4d"},
    "revised": {"allowed_lateness": "2d"},
    "append": {"append": True},
    "latest": {"until": "latest-event"},
    "careful": {"allow_empty_windows": False},
    "dropped": {"unlisted_groups": "drop", "groups": ["a"]},
    "left out": {"missing_values": "drop"},
    "set aside": {"missing_values": "drop", "bad_rows": "quarantine:bad.csv"},
    "users": {"user": "value", "max_contributions": 2},
    "users of days": {"user": "value", "max_contributions": 1, "contribution_period": "1d"},
    "users of weeks": {"user": "value", "max_contributions": 3, "contribution_period": "1w"},
    "users without groups": {
        "user": "value",
        "max_contributions": 2,
        "group_by": None,
        "groups": None,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_history_with_kept_sums_equals_history_of_read_rows(
    kind: str, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(kind)
    hits = list[bool]()
    find = kept_sums.find_sums

    def find_and_note(prepared: PreparedRun, source: Source) -> Private[WindowSums] | None:
        sums = find(prepared, source)
        hits.append(sums is not None)
        return sums

    monkeypatch.setattr(read_rows, "find_sums", find_and_note)
    monkeypatch.chdir(tmp_path)
    rows = some_rows(chance, 2, 30)
    if kind == "left out":
        rows.append((0.5, "", 1))
    day = 2
    events = [*EVENTS, *EVENTS]
    chance.shuffle(events)
    for night, event in enumerate(["new", "same", *events]):
        day += event != "same"
        if event == "new":
            more = some_rows(chance, 1, 9)
            rows = rows + [(day - 1 + at / 2, page, value) for at, page, value in more]
        if event == "late":
            rows = rows + some_rows(chance, day, 3)
        if event == "fewer":
            rows = rows[:-2]
        (tmp_path / "visits.csv").write_text(visits(rows))
        now = START + timedelta(days=day, hours=night)
        quick = outcome(counting(tmp_path, "quick.db", **KINDS[kind]), key, now)
        with reading_always(monkeypatch):
            slow = outcome(counting(tmp_path, "slow.db", **KINDS[kind]), key, now)
        assert quick == slow
        assert kept(tmp_path / "quick.db") == kept(tmp_path / "slow.db")
    # Names of undeclared groups are read again, for the operator.
    assert any(hits) == (kind != "dropped")


@pytest.mark.parametrize("kind", ["whole", "lookback", "revised", "latest", "careful", "users"])
def test_run_without_steps_compares_unchanged_rows_alone(
    kind: str, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[float, str, int]] = [(0.5, "a", 1), (1.5, "b", 2), (2.5, "a", 1)]
    rows += [(2.5, "b", 1), (2.6, "a", 1)]
    (tmp_path / "visits.csv").write_text(visits(rows))
    job = counting(tmp_path, "s.db", **KINDS[kind])
    outcome(job, key, START + timedelta(days=3))
    monkeypatch.setattr(plan_steps, "plan_steps", refuse_to_plan)
    before, after, *_ = outcome(job, key, START + timedelta(days=3, hours=1))
    assert before
    assert before == after


USERS: dict[str, Any] = {"user": "value", "max_contributions": 2}
OF_USERS: list[tuple[float, str, int]] = [
    (0.5, "a", 1),
    (0.6, "a", 1),
    (0.7, "b", 1),
    (1.5, "b", 2),
]


def test_rows_of_users_are_read_again_for_a_new_window(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the rows of a window, those within the bound of their users count."""
    (tmp_path / "visits.csv").write_text(visits(OF_USERS))
    job = counting(tmp_path, "s.db", **USERS)
    outcome(job, key, START + timedelta(days=1))
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    with pytest.raises(AssertionError, match="rows are read"):
        run(job, key=key, now=START + timedelta(days=2))


def has_kept_sums(state: Path) -> bool:
    return bool(rows_in(str(state), "SELECT part FROM counton_marks WHERE kind = 'sums'"))


@pytest.mark.parametrize("user", ["null", "ann"])
def test_state_keeps_no_name_of_a_user(user: str, tmp_path: Path, key: Key) -> None:
    """A run notes users whose names look like missing ones."""
    (tmp_path / "visits.csv").write_text(f"time,page,value\n2024-03-01T09:00,a,{user}\n")
    outcome(counting(tmp_path, "s.db", **USERS), key, START + timedelta(days=2))
    assert has_kept_sums(tmp_path / "s.db") == (user == "ann")


def test_rows_of_users_are_read_again_after_an_erasure(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text(visits(OF_USERS))
    job = counting(tmp_path, "s.db", **USERS)
    now = START + timedelta(days=2)
    outcome(job, key, now)
    assert has_kept_sums(tmp_path / "s.db")
    erase_user(tmp_path / "s.db", "1", key=key, now=now)
    assert not has_kept_sums(tmp_path / "s.db"), (
        "numbers and times of the user's rows are forgotten"
    )
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    with pytest.raises(AssertionError, match="rows are read"):
        run(job, key=key, now=now)


def test_rows_of_users_are_read_again_while_late_ones_wait(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = counting(tmp_path, "s.db", **USERS)
    now = START + timedelta(days=2)
    for rows in (OF_USERS, [*OF_USERS, (1.4, "b", 3)]):
        (tmp_path / "visits.csv").write_text(visits(rows))
        outcome(job, key, now)
    monkeypatch.setattr(row_reading, "aggregate_rows", refuse_to_read)
    with pytest.raises(AssertionError, match="rows are read"):
        run(job, key=key, now=now)


def test_repeated_rows_of_users_are_refused_if_others_were_counted_meanwhile(
    tmp_path: Path, key: Key
) -> None:
    (tmp_path / "visits.csv").write_text(visits(OF_USERS))
    job = counting(tmp_path, "s.db", **USERS)
    now = START + timedelta(days=2)
    outcome(job, key, now)

    def count_another_file(*_: object) -> None:
        (tmp_path / "more.csv").write_text(visits([*OF_USERS, (1.4, "b", 3)]))
        outcome(job.with_options(events=tmp_path / "more.csv"), key, now)

    with pytest.raises(ConcurrentWriterError, match="run the same command again"):
        run(job, key=key, now=now, before_commit=count_another_file)


def test_counted_sums_are_none_if_rows_of_a_released_window_wait() -> None:
    totals = np.array([[[[3, 4]], [[3, 0]]]])  # of one window: seen, then counted
    block = (np.array([2]), totals)
    assert unchanged_rows._counted_sums([block], released=2) is None
    sums = unchanged_rows._counted_sums([block], released=1)
    assert sums is not None
    assert sums.shape == (4, 0)


def test_unchanged_late_rows_are_told_again(tmp_path: Path, key: Key) -> None:
    rows: list[tuple[float, str, int]] = [(0.5, "a", 1), (1.5, "b", 2)]
    job = counting(tmp_path, "s.db")
    (tmp_path / "visits.csv").write_text(visits(rows))
    outcome(job, key, START + timedelta(days=2))
    (tmp_path / "visits.csv").write_text(visits([*rows, (1.6, "b", 3)]))
    told = [
        run(job, key=key, now=START + timedelta(days=3, hours=hour)).confidential_counts()
        for hour in range(2)
    ]
    assert [counts.input.after_final for counts in told] == [1, 1]


def test_columns_are_checked_if_bytes_are_new(tmp_path: Path, key: Key) -> None:
    """A run without new rows does not look at columns, nor at where groups come from."""
    (tmp_path / "visits.csv").write_text(visits([(0.5, "a", 1), (1.5, "b", 2)]))
    job = counting(tmp_path, "s.db")
    now = START + timedelta(days=2)
    outcome(job, key, now)
    (tmp_path / "visits.csv").write_text("time,pages\n2024-03-01T09:00,a\n")
    with pytest.raises(InvalidInputError, match="has no column 'page'"):
        run(job, key=key, now=now)
    (tmp_path / "visits.csv").write_text("page,time\na,2024-03-01T09:00\nb,2024-03-01T09:00\n")
    of_rows = job.with_options(groups=str(tmp_path / "visits.csv"))
    with pytest.raises(InvalidInputError, match="is the file of the events"):
        run(of_rows, key=key, now=now)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv.gz"])
def test_sums_of_values_are_restored_exactly(
    ending: str, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pl.read_csv(visits(some_rows(random.Random(1), 5, 99)).encode())
    path = tmp_path / f"visits.{ending}"
    if ending == "parquet":
        frame.write_parquet(path)
    elif ending == "jsonl":
        frame.write_ndjson(path)
    else:
        import gzip

        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    nights = (2, 3, 5)
    shown = {}
    for state in ("quick.db", "slow.db"):
        job = SumJob(
            events=path, state=tmp_path / state, time="time", every="1d", start="2024-03-01",
            windows=30, value="value", lower=0, upper=5, resolution=1, group_by="page",
            groups=["a", "b"], epsilon=1,
        )  # fmt: skip
        with reading_always(monkeypatch) if state == "slow.db" else monkeypatch.context():
            shown[state] = [outcome(job, key, START + timedelta(days=day)) for day in nights]
    assert shown["quick.db"] == shown["slow.db"]


def test_only_totals_of_changed_windows_are_kept() -> None:
    totals = pl.DataFrame(
        {
            "window": [2, 3, 5, 9],
            "cell": [0, 1, 0, 0],
            "seen_rows": [4, 7, 1, 8],
            "counted_rows": [0, 7, 0, 0],
        }
    )
    measurement: Any = SimpleNamespace(kept=("rows",), n_sums=2)
    unused: Any = None
    steps = PlannedSteps(
        rows=unused,
        span=unused,
        measurement=measurement,
        totals=totals,
        changed=np.array([2, 5, 9]),
        counts=unused,
        missing=unused,
        late_rows_before=unused,
    )
    kept = steps.totals_by_window(range(2, 6), is_first=True, is_last=False)
    assert kept.steps.tolist() == [2, 5]
    assert kept.totals[:, :, 0].tolist() == [[[4, 0], [4, 0]], [[1, 0], [1, 0]]]

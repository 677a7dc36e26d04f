"""Rows that decide what counts: whoever alters them on purpose, without the key, is noticed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from altered_journal import mend_checksums
from keys import chosen_key

from counton import Key, PureDP, Stream
from counton.base.errors import ConcurrentWriterError, InputChangedError, StateError
from counton.base.private import Private, reveal
from counton.continual.checkpoint import with_checksum
from counton.run import Job, run
from counton.state import Store, verify
from counton.state.authenticated_rows import (
    MARKS,
    OBSERVED,
    SOURCES,
    AuthenticatedRows,
    AuthenticatedTable,
)
from counton.state.commit_input import CommitInput, LateRowStats
from counton.state.dedup import DigestChange, DigestSet, Secret, pack
from counton.strategies import KAry

KEY = chosen_key()
INPUTS = np.array([[1, 2], [3, 4], [5, 6]])
SECRET = Secret(bytes(range(32)))


def users(period: int, *digests: int) -> DigestSet:
    return DigestSet("user", period, np.array(digests, np.uint64))


def build(state: Path) -> None:
    """A stream of two commits with rows in each sealed table."""
    with Stream.create(state, "s", KAry(20, 4), PureDP(1), key=KEY, shape=(2,)) as stream:
        for night in (1, 2):
            addition = CommitInput(
                INPUTS[night - 1 : night],
                totals_by_window={night: INPUTS[night], night + 1: INPUTS[night] + 7},
                sources=[f"file {night}", f"name {night}"],
                remembered=DigestChange(SECRET, [users(night, 3, 8 + night)]),
                late_row_stats=LateRowStats(5 * night, night),
            )
            stream.commit(Private(addition))


def rows_of(state: Path, table: AuthenticatedTable) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        said = f"SELECT * FROM {table.name}"  # noqa: S608 - a table
        return [dict(row) for row in connection.execute(said)]


def write_rows(state: Path, table: AuthenticatedTable, rows: list[dict[str, Any]]) -> None:
    """Put rows in place of those of a table, each with the digest of its contents."""
    with closing(sqlite3.connect(state)) as connection:
        connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - a table
        for row in rows:
            mended = {**row, "digest": table.digest_of(row)}
            places = ", ".join(f":{column}" for column in mended)
            names = ", ".join(mended)
            said = f"INSERT INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 - a table
            connection.execute(said, mended)
        connection.commit()


def assert_noticed(state: Path) -> None:
    (found,) = verify(state, key=KEY)
    assert not found.right
    with pytest.raises(StateError, match="the state was altered"):
        Stream.open(state, "s", key=KEY)
    with (
        Store(state) as store,
        pytest.raises(StateError, match="the state was altered"),
    ):
        store.reader("s", KEY).has_source("file 1")


@pytest.mark.parametrize("table", [MARKS, OBSERVED, SOURCES], ids=lambda table: table.name)
@pytest.mark.parametrize("change", ["contents", "first gone", "last gone", "added", "facts"])
def test_altered_row_with_correct_digest_is_refused(
    tmp_path: Path, table: AuthenticatedTable, change: str
) -> None:
    build(tmp_path / "s.db")
    assert all(one.right for one in verify(tmp_path / "s.db", key=KEY))
    rows = rows_of(tmp_path / "s.db", table)
    if change == "contents":
        cell = bytearray(rows[-1][table.contents[-1]])
        cell[-1] ^= 1
        rows[-1][table.contents[-1]] = bytes(cell)
    elif change == "first gone":
        rows = rows[1:]
    elif change == "last gone":
        rows = rows[:-1]
    elif change == "added":
        place = table.address[-1] if table is not OBSERVED else "step"
        rows.append({**rows[-1], place: rows[-1][place] + 1000})
    else:
        fact = (table.index_columns or table.address)[-1]
        rows[-1][fact] = rows[-1][fact] + 1000
    write_rows(tmp_path / "s.db", table, rows)
    assert_noticed(tmp_path / "s.db")


@pytest.mark.parametrize("fact", ["last = 0, written = -1", "last = 1", "written = 0"])
def test_row_hidden_by_altered_range_is_refused(tmp_path: Path, fact: str) -> None:
    """Its contents and their digest are as before."""
    build(tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(f"UPDATE counton_observed SET {fact}")  # noqa: S608 - ours
        connection.commit()
    assert_noticed(tmp_path / "s.db")


@pytest.mark.parametrize("table", [MARKS, OBSERVED, SOURCES], ids=lambda table: table.name)
def test_rows_of_earlier_copy_are_refused(tmp_path: Path, table: AuthenticatedTable) -> None:
    """Each of them was written under the key once."""
    build(tmp_path / "s.db")
    earlier = rows_of(tmp_path / "s.db", table)
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        later = CommitInput(
            INPUTS[2:],
            totals_by_window={1: INPUTS[0] + 9},
            sources=["file 3", "file 4", "file 5"],
            remembered=DigestChange(SECRET, [users(1, 77)]),
        )
        stream.commit(Private(later))
    assert rows_of(tmp_path / "s.db", table) != earlier
    write_rows(tmp_path / "s.db", table, earlier)
    assert_noticed(tmp_path / "s.db")


@pytest.mark.parametrize("table", [MARKS, OBSERVED, SOURCES], ids=lambda table: table.name)
def test_altered_contents_are_refused_when_read(tmp_path: Path, table: AuthenticatedTable) -> None:
    """The list fits, and the contents do not: noticed when they are read, or in `verify`."""
    build(tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        contents = table.contents[-1]
        said = f"UPDATE {table.name} SET {contents} = substr({contents}, 1, 5)"  # noqa: S608
        connection.execute(said)
        connection.commit()
    (found,) = verify(tmp_path / "s.db", key=KEY)
    assert f"table {table.name}) is not what was written" in found.problems[0]
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        reads: dict[str, Callable[[], Any]] = {
            "counton_marks": lambda: [*reveal(stream.digest_sets("user"))],
            "counton_observed": lambda: [*reveal(stream.observed_blocks())],
            "counton_sources": lambda: [stream.has_source(f"file {n}") for n in range(9)],
        }
        for name, read in reads.items():
            if name != table.name:
                read()
        with pytest.raises(StateError, match=rf"table {table.name}\) is not what was written"):
            reads[table.name]()


@pytest.mark.parametrize(
    "change",
    [
        "arrived = arrived + 1", "late = late + 1", "forgotten = 3", "key_salt = 'salt'",
        "step = 1", "created = created", "checkpoint = CAST(:other AS BLOB)", "seal = zeroblob(32)",
        "terms = replace(terms, '\"epsilon\": \"1\"', '\"epsilon\": \"2\"')",
    ],
)  # fmt: skip
def test_altered_stream_row_with_valid_checksum_is_refused(tmp_path: Path, change: str) -> None:
    state = tmp_path / "s.db"
    build(state)
    with closing(sqlite3.connect(state)) as connection:
        (checkpoint,) = connection.execute("SELECT checkpoint FROM counton_streams").fetchone()
        head, body = bytes(checkpoint).split(b"\n", 1)
        other = with_checksum(head.decode().split(" ")[0], body[:-1] + bytes([body[-1] ^ 2]))
        given = {"other": other} if ":other" in change else {}
        connection.execute(f"UPDATE counton_streams SET {change}", given)  # noqa: S608 - ours
        connection.commit()
    mend_checksums(state)
    if change == "created = created":  # so that the others show what they change
        Stream.open(state, "s", key=KEY).close()
        return
    (found,) = verify(state, key=KEY)
    assert not found.right
    with pytest.raises((StateError,)):
        Stream.open(state, "s", key=KEY)


def test_state_with_other_identity_is_refused(tmp_path: Path) -> None:
    """Otherwise an old copy could leave its witness behind."""
    state = tmp_path / "s.db"
    build(state)
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("UPDATE counton_database SET identity = ?", ["5a" * 16])
        connection.commit()
    with pytest.raises(StateError, match="is not what was written under its key"):
        Stream.open(state, "s", key=KEY)


def visit_job(state: Path, rows: list[tuple[str, str]], until: str, **more: Any) -> Job:
    frame = pl.DataFrame(rows, schema=["time", "who"], orient="row")
    asked: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "epsilon": 10**6,
        "user": "who", "max_contributions": 1, "privacy_unit": "visitor", "append": True,
        "key": KEY,
    }  # fmt: skip
    return Job("count", frame, state, until=until, **asked | more)


@pytest.mark.parametrize("on_purpose", [False, True])
def test_user_cannot_count_twice_after_one_changed_byte(tmp_path: Path, on_purpose: bool) -> None:
    state = tmp_path / "s.db"
    run(visit_job(state, [("2024-03-01T09:00", "ann")], "2024-03-02")).close()
    rows = rows_of(state, MARKS)
    (known,) = [row for row in rows if row["kind"] == "user"]
    cell = bytearray(known["marks"])
    cell[-1] ^= 1
    known["marks"] = bytes(cell)
    if on_purpose:
        write_rows(state, MARKS, rows)
    else:
        with closing(sqlite3.connect(state)) as connection:
            said = "UPDATE counton_marks SET marks = ? WHERE kind = 'user'"
            connection.execute(said, [bytes(cell)])
            connection.commit()
    assert not any(one.right for one in verify(state, key=KEY))
    with pytest.raises(StateError, match="the state was altered"):
        run(visit_job(state, [("2024-03-02T09:00", "ann")], "2024-03-03"))


def test_rows_that_wait_cannot_vanish(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    more = {"user": None, "max_contributions": None, "privacy_unit": "event"}
    rows = [("2024-03-01T09:00", "ann"), ("2024-03-02T09:00", "bob")]  # the second day waits
    run(visit_job(state, rows, "2024-03-02", **more)).close()
    with closing(sqlite3.connect(state)) as connection:
        assert connection.execute("DELETE FROM counton_observed").rowcount == 1
        connection.commit()
    assert not any(one.right for one in verify(state, key=KEY))
    with pytest.raises(StateError, match="the state was altered"):
        run(visit_job(state, [("2024-03-02T10:00", "cyd")], "2024-03-03", **more))


def test_file_cannot_count_again_under_an_altered_record(tmp_path: Path) -> None:
    build(tmp_path / "s.db")
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        with pytest.raises(InputChangedError, match="source file 2 has been counted already"):
            stream.commit(Private(CommitInput(sources=["file 2"])))
        with pytest.raises(InputChangedError, match="source a has been counted already"):
            stream.commit(Private(CommitInput(sources=["a", "a"])))
        assert not stream.has_source("a")
    rows = rows_of(tmp_path / "s.db", SOURCES)
    rows[0]["digests"] = bytes(len(rows[0]["digests"]))  # as many files as before
    write_rows(tmp_path / "s.db", SOURCES, rows)
    assert_noticed(tmp_path / "s.db")


def test_many_files_are_each_known_again(tmp_path: Path) -> None:
    names = [f"file {number}" for number in range(1000)]
    with Stream.create(tmp_path / "s.db", "s", KAry(9, 3), PureDP(1), key=KEY) as stream:
        stream.commit(Private(CommitInput(sources=names[::2])))
        stream.commit(Private(CommitInput(sources=names[1::4])))
    with Store(tmp_path / "s.db") as store:
        reader = store.reader("s", KEY)
        known = [name for name in names if reader.has_source(name)]
    assert known == sorted({*names[::2], *names[1::4]}, key=names.index)
    assert len(rows_of(tmp_path / "s.db", SOURCES)) <= 64


def test_reader_sees_rows_written_by_another_process(state: str) -> None:
    """The list that it has read before is not taken for the present one."""
    with Stream.create(state, "s", KAry(9, 3), PureDP(1), key=KEY) as stream, Store(state) as store:
        reader = store.reader("s", KEY)
        assert not reader.has_source("a")
        stream.commit(
            Private(CommitInput(sources=["a"], remembered=DigestChange(SECRET, [users(1, 5)])))
        )
        assert reader.has_source("a")
        assert reader.secret() == SECRET
        assert [part.digests.tolist() for part in reveal(reader.digest_sets("user"))] == [[5]]


def test_replaced_writer_is_refused_when_it_reads_digests(state: str) -> None:
    with Stream.create(state, "s", KAry(9, 3), PureDP(1), key=KEY) as former:
        former.commit(Private(CommitInput(remembered=DigestChange(SECRET, [users(1, 5)]))))
        with Stream.open(state, "s", key=KEY) as stream:
            change = DigestChange(SECRET, [], forgotten=[("user", 2)])
            stream.commit(Private(CommitInput(remembered=change)))
        with pytest.raises(
            ConcurrentWriterError, match="another process has released in stream 's'"
        ):
            [*reveal(former.digest_sets("user"))]


def test_failed_commit_leaves_the_lists_of_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "s.db")
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:

        def fail(*_: object) -> None:
            raise OSError("no space left")

        addition = CommitInput(sources=["file 3"], remembered=DigestChange(SECRET, [users(3, 1)]))
        with pytest.raises(OSError, match="no space"):
            stream.commit(Private(addition), commit_hook=fail)
        assert not stream.has_source("file 3")
        stream.commit(Private(addition))
        assert stream.has_source("file 3")
    assert all(one.right for one in verify(tmp_path / "s.db", key=KEY))


def test_writer_refuses_commit_after_unconfirmed_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection may break after the commit, and the lists in memory are those before it."""
    build(tmp_path / "s.db")
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        before = stream._authenticated
        stream.commit(Private(CommitInput(sources=["file 3"])))
        stream._authenticated = before
        with pytest.raises(StateError, match="was interrupted while it saved something"):
            stream.commit(Private(CommitInput(sources=["file 4"])))
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        assert stream.has_source("file 3")


@pytest.mark.parametrize("blind", ["no root", "no digest of contents"])
def test_wrong_authentication_misses_altered_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind: str
) -> None:
    """A seal without the list, and a list without contents."""
    if blind == "no root":
        monkeypatch.setattr(AuthenticatedRows, "root", "")
    else:
        monkeypatch.setattr(AuthenticatedTable, "digest_of", lambda self, row: b"")
    build(tmp_path / "s.db")
    rows = rows_of(tmp_path / "s.db", MARKS)
    for row in rows:
        if row["kind"] == "user":
            row["marks"] = pack(np.array([1], np.uint64))
    write_rows(tmp_path / "s.db", MARKS, rows)
    assert all(one.right for one in verify(tmp_path / "s.db", key=KEY))
    with Stream.open(tmp_path / "s.db", "s", key=KEY) as stream:
        found: Callable[[], Any] = lambda: reveal(stream.digest_sets("user"))  # noqa: E731
        assert [part.digests.tolist() for part in found()] == [[1], [1]]


def test_observed_sums_are_read_without_key(tmp_path: Path) -> None:
    """Digests in the state need no key, the seal does."""
    build(tmp_path / "s.db")
    with Store(tmp_path / "s.db") as store:
        reader = store.reader("s", Key.generate())
        assert len([*reveal(reader.observed_blocks())]) == 1

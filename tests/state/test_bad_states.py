"""States that cannot be used: each gives one clear error, and nothing is changed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import psycopg
import pytest
from altered_journal import mend_checksums
from databases import looked_into

from counton import Key, PureDP, Stream
from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
)
from counton.base.outside_input import sqlite_header
from counton.io.files import open_source
from counton.state import Store, database, sqlite_file, state_summary
from counton.state.schema import APPLICATION_ID, FORMAT
from counton.strategies import Binary


@pytest.fixture
def key() -> Key:
    return Key.generate()


@pytest.fixture
def used(file: Path, key: Key) -> Path:
    """A state with a stream of many steps, closed."""
    with Stream.create(file, "visits", Binary(1000), PureDP(1), key=key, shape=(20,)) as stream:
        for first, last in ((1, 6), (7, 7), (8, 200)):
            stream.release_many(np.ones((last - first + 1, 20), dtype=int))
    return file


def change(file: Path, sql: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(sql)
    connection.commit()
    connection.close()


def refused(file: Path, key: Key, match: str) -> None:
    """Opening, reading and creating are all refused, and the file is left as it was."""
    content = file.read_bytes() if file.exists() else None
    for action in (
        lambda: Stream.open(file, "visits", key=key),
        lambda: state_summary(file),
        lambda: Stream.create(file, "other", Binary(10), PureDP(1), key=key),
    ):
        with pytest.raises(StateError, match=match):
            action()
    assert (file.read_bytes() if file.exists() else None) == content


def test_missing_state_is_refused(file: Path, key: Key) -> None:
    with pytest.raises(StateError, match=r"state\.db does not exist. Correct the path"):
        Stream.open(file, "visits", key=key)
    with pytest.raises(StateError, match="does not exist"):
        state_summary(file)
    assert not file.exists()


def test_a_second_name_is_refused_and_nothing_is_shown_twice(used: Path, key: Key) -> None:
    second = used.with_name("second.db")
    with Stream.open(used, "visits", key=key) as stream:
        stream.release(np.ones(20, dtype=int))
        second.hardlink_to(used)  # beside it SQLite finds no log, hence not the last step
        for name in second, used:
            refused(name, key, r"has 2 names \(hard links\).*: remove the other names")
        with pytest.raises(StateError, match=r"has 2 names \(hard links\)"):
            stream.release(np.ones(20, dtype=int))
    assert not list(used.parent.glob("second.db-*"))
    second.unlink()
    with Stream.open(used, "visits", key=key) as stream:
        assert stream.step == 201


def test_open_removes_temporary_name_of_new_state(used: Path, key: Key) -> None:
    unfinished = used.with_name(f".{used.name}.a1_bcdef")
    unfinished.hardlink_to(used)
    kept = used.with_name(f".{used.name}.12345678")
    kept.write_text("another file")
    Stream.open(used, "visits", key=key).close()
    assert not unfinished.exists()
    assert kept.exists()


def test_symbolic_links_are_followed_to_log_and_key(file: Path) -> None:
    link = file.with_name("link.db")
    link.symlink_to(file)
    with Stream.create(link, "visits", Binary(10), PureDP(1)) as stream:
        first = stream.release(3)
        with Stream.open(file, "visits") as other:
            assert other.replay(1, 3).value == first.value
    with Stream.open(link, "visits") as stream:
        assert stream.step == 1
    assert link.is_symlink()
    assert not list(file.parent.glob("link.db?*"))


def test_missing_folder(tmp_path: Path, key: Key) -> None:
    with pytest.raises(StateError, match="its folder does not exist"):
        Stream.create(tmp_path / "no" / "s.db", "visits", Binary(10), PureDP(1), key=key)


def test_key_of_state_replaced_by_empty_one_is_refused(file: Path) -> None:
    Stream.create(file, "visits", Binary(10), PureDP(1)).close()
    file.unlink()
    Store(file, create=True).close()
    with pytest.raises(NoiseKeyError, match=r"state .* has released nothing with it"):
        Stream.create(file, "visits", Binary(10), PureDP(1))


def test_a_full_disk_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(
            NoiseKeyError, match=r"key file .*\.key cannot be written \(No space left"
        ):
            Stream.create(file, "visits", Binary(10), PureDP(1))
    monkeypatch.setattr(
        "counton.state.schema.TABLES", "PRAGMA max_page_count = 1; CREATE TABLE x (y)"
    )
    with pytest.raises(
        StateError, match=r"state .* cannot be created \(.*\): check the space left"
    ):
        Stream.create(file, "visits", Binary(10), PureDP(1))
    assert list(file.parent.iterdir()) == []


def test_is_state_is_true_after_state_is_created(file: Path) -> None:
    assert not sqlite_file.is_state(file)
    Stream.create(file, "visits", Binary(10), PureDP(1)).close()
    assert sqlite_file.is_state(file)


def test_a_folder_is_no_state(tmp_path: Path, key: Key) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        Stream.open(tmp_path, "visits", key=key)


@pytest.mark.parametrize("size", [0, 1, 50, 99, 100, 4096, 5000, -4096, -1])
def test_truncated(used: Path, key: Key, size: int) -> None:
    content = used.read_bytes()
    used.write_bytes(content[:size])
    refused(used, key, "truncated")


def test_process_killed_during_checkpoint_of_log_truncates_nothing(used: Path, key: Key) -> None:
    log = used.with_name(used.name + "-wal")
    with Stream.open(used, "visits", key=key) as stream:
        stream.release_many(np.ones((300, 20), dtype=int))
        short = used.read_bytes()
        waiting = log.read_bytes()
        last = stream.releases().values
    first_page = used.read_bytes()[:4096]  # which says how many pages there are
    assert len(short) < used.stat().st_size
    used.write_bytes(first_page + short[4096:])
    with pytest.raises(StateError, match="truncated"):
        state_summary(used)
    log.write_bytes(waiting)
    with Stream.open(used, "visits", key=key) as stream:
        assert (stream.releases().values == last).all()


def test_looking_at_a_state_that_is_open_keeps_its_log(used: Path, key: Key) -> None:
    """A process that closes a file loses its locks, and then anybody takes it for unused."""
    reader = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('SELECT * FROM counton_streams').fetchall()\n"
        "connection.close()"
    )
    with Stream.open(used, "visits", key=key) as stream:
        stream.release(np.ones(20, dtype=int))
        state_summary(used)
        assert sqlite_file.is_state(used)
        assert sqlite_header(used) is not None
        with pytest.raises(InvalidInputError, match="SQLite database"):
            open_source(str(used), "csv")
        subprocess.run([sys.executable, "-c", reader, used], check=True)
        assert used.with_name(used.name + "-wal").exists()
        stream.release(np.ones(20, dtype=int))
    assert state_summary(used)["streams"][0]["step"] == 202


def test_not_a_database(file: Path, key: Key) -> None:
    file.write_text("time,carrier\n2013-01-01,UA\n" * 100)
    refused(file, key, "not a counton database")


def test_a_database_of_another_program(file: Path, key: Key) -> None:
    change(file, "CREATE TABLE t (a)")
    refused(file, key, "another program")
    change(file, f"CREATE TABLE pragma_application_id AS SELECT {APPLICATION_ID} AS application_id")
    refused(file, key, "another program")


def test_an_empty_server_holds_no_streams(postgres: str, key: Key) -> None:
    with pytest.raises(StateError, match="holds nothing yet"):
        Stream.open(postgres, "visits", key=key)


def test_an_unreachable_server_is_named_without_its_password(key: Key) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://me:secret-word@localhost:1/nowhere"
    with pytest.raises(StateError) as caught:
        Stream.open(url, "visits", key=key)
    assert "secret-word" not in str(caught.value)
    assert "localhost:1/nowhere" in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE counton_streams SET step = 199",
        "DELETE FROM counton_journal WHERE step = 200",
        'UPDATE counton_streams SET terms = replace(terms, \'"epsilon": "1"\', \'"epsilon": "2"\')',
        "UPDATE counton_streams SET checkpoint = substr(checkpoint, 1, 300)",
        "UPDATE counton_streams SET checkpoint = "
        "CAST(substr(checkpoint, 1, length(checkpoint) - 1) || 'z' AS BLOB)",
        "UPDATE counton_streams SET checkpoint = x'00'",
        "DROP TABLE counton_journal",
    ],
)
def test_altered_state_is_refused(used: Path, key: Key, sql: str) -> None:
    change(used, sql)
    with pytest.raises(StateError):
        Stream.open(used, "visits", key=key)


def test_pages_overwritten(used: Path, key: Key) -> None:
    content = bytearray(used.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    used.write_bytes(content)
    with pytest.raises(StateError, match="damaged"):
        Stream.open(used, "visits", key=key)


def test_a_hole_in_the_journal(used: Path, key: Key) -> None:
    change(used, "DELETE FROM counton_journal WHERE step = 7")
    with Stream.open(used, "visits", key=key) as stream:
        with pytest.raises(StateError, match="6 readable releases for the 200"):
            stream.releases()
        with pytest.raises(StateError):
            stream.replay(7, np.ones(20, dtype=int))
        assert len(stream.releases(8, 201)) == 193


#: Changes of a row of the journal after which its values cannot be read.
UNREADABLE = (
    "estimates = x''", "estimates = x'09'",
    "estimates = substr(estimates, 1, length(estimates) - 1)", "estimates = x'0100'",
    "estimates = CAST(x'81' || zeroblob(119) AS BLOB)",
    "estimates = CAST(x'82' || zeroblob(120) AS BLOB)", "steps = 5", "steps = 7",
    "unit = 'none'", "unit = '1/0'",
)  # fmt: skip
#: Changes that only the checksum shows.
READABLE = ("std = 'x'", "std = 3", "digest = NULL", "checksum = 'x'", "checksum = x'00'")


@pytest.mark.parametrize(
    ("change_to", "on_purpose"),
    [*((one, True) for one in UNREADABLE), *((one, False) for one in (*UNREADABLE, *READABLE))],
)
def test_a_row_of_the_journal_that_was_altered(
    used: Path, key: Key, change_to: str, on_purpose: bool
) -> None:
    change(used, f"UPDATE counton_journal SET {change_to} WHERE step = 6")  # noqa: S608
    if on_purpose:
        mend_checksums(used)
    with Stream.open(used, "visits", key=key) as stream:
        with pytest.raises(StateError, match="the state was altered"):
            stream.releases()
        with pytest.raises(StateError, match="the state was altered"):
            stream.replay(5, np.ones(20, dtype=int))
        assert len(stream.releases(8, 201)) == 193


@pytest.mark.parametrize("change_to", ["late = 1", "arrived = -1", "late = -1", "late = 'x'"])
def test_arrivals_that_cannot_be_are_refused(used: Path, change_to: str) -> None:
    change(used, f"UPDATE counton_streams SET {change_to}")  # noqa: S608
    with Store(used) as store, pytest.raises(StateError, match="the state was altered"):
        store.late_row_stats("visits")


def test_open_with_a_damaged_last_release_is_refused(used: Path, key: Key) -> None:
    change(used, "UPDATE counton_journal SET std = std + 1 WHERE step = 200")
    with pytest.raises(StateError, match="step 200 in table counton_journal does not fit"):
        Stream.open(used, "visits", key=key)


def test_altered_input_digests_are_refused(used: Path, key: Key) -> None:
    change(used, "UPDATE counton_journal SET input_digests = x'00' WHERE step = 7")
    with (
        Stream.open(used, "visits", key=key) as stream,
        pytest.raises(StateError, match="the state was altered"),
    ):
        stream.replay(7, np.ones(20, dtype=int))


def test_locked_state_raises_retryable_error(
    used: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
    stream = Stream.open(used, "visits", key=key)
    holder = sqlite3.connect(used, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    x = np.ones(20, dtype=int)
    with pytest.raises(
        ConcurrentWriterError, match=r"locked by another process.*nothing was released"
    ):
        stream.release(x)
    with pytest.raises(ConcurrentWriterError, match="locked"):
        Stream.open(used, "visits", key=key)
    assert state_summary(used)["streams"][0]["step"] == 200  # readers are not held up
    assert stream.step == 200
    holder.execute("ROLLBACK")
    assert stream.release(x).step == 201  # the lock is gone: the same handle goes on
    holder.close()
    stream.close()


@pytest.mark.parametrize("earlier", range(1, FORMAT))
def test_states_of_earlier_formats_are_refused_with_advice(
    used: Path, key: Key, earlier: int
) -> None:
    change(used, f"PRAGMA user_version={earlier}")
    refused(
        used, key, f"has format {earlier} of an earlier version .* \\(counton close\\). Then begin"
    )


def test_formats_on_a_server(postgres: str, key: Key) -> None:
    Stream.create(postgres, "visits", Binary(10), PureDP(1), key=key).close()
    for number, match in ((FORMAT - 1, "counton close"), (FORMAT + 1, "or a later one")):
        with looked_into(postgres) as connection:
            connection.execute("UPDATE counton_database SET format = :format", format=number)
        with pytest.raises(StateError, match=match):
            Stream.open(postgres, "visits", key=key)


def test_locked_on_a_server(postgres: str, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
    stream = Stream.create(postgres, "visits", Binary(10), PureDP(1), key=key)
    with looked_into(postgres) as connection:
        connection.execute("SELECT * FROM counton_streams FOR UPDATE")
        with pytest.raises(ConcurrentWriterError, match="locked by another process"):
            stream.release(1)
    assert stream.release(1).step == 1
    stream.close()


@pytest.mark.parametrize(
    ("state", "match"),
    [
        ("", "empty"),
        ("sqlite://", "memory only"),
        ("sqlite:///:memory:", "memory only"),
        (":memory:", "memory only"),
        ("sqlite+pysqlite:///visits.db", "sqlite.pysqlite"),
        ("sqlite:///file::memory:?cache=shared&uri=true", "memory only"),
        ("sqlite:///file:visits?mode=memory&uri=true", "memory only"),
        ("sqlite:///visits.db?mode=memory", "memory only"),
        ("file::memory:", "memory only"),
        ("file:visits?mode=memory", "memory only"),
        ("mysql://localhost/x", "'mysql'"),
        ("://", "neither a path nor a database URL"),
    ],
)
def test_addresses(state: str, match: str, key: Key) -> None:
    with pytest.raises(InvalidInputError, match=match):
        Stream.create(state, "visits", Binary(10), PureDP(1), key=key)


def test_sqlite_urls_are_paths(file: Path, key: Key) -> None:
    Stream.create(f"sqlite:///{file}", "visits", Binary(10), PureDP(1), key=key).close()
    with Store(file) as store:
        assert store.streams == ("visits",)


def test_flipped_bytes_raise_only_counton_errors(used: Path, key: Key) -> None:
    """Whatever bytes are flipped, a state opens and reads right, or raises a counton error."""
    rng = np.random.default_rng(0)
    content = used.read_bytes()
    with Stream.open(used, "visits", key=key) as stream:
        values = stream.releases().values
    raised = 0
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 40):
            damaged[place] ^= 0xFF
        used.write_bytes(damaged)
        try:
            with Stream.open(used, "visits", key=key) as stream:
                assert stream.releases().values.shape == values.shape
        except CountonError:
            raised += 1
    assert raised > 20


def test_a_server_without_an_encoding_is_refused(postgres: str, key: Key) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'"
        )
    bytes_only = postgres.replace("/postgres?", "/bytes?")
    with pytest.raises(
        StateError, match="SQL_ASCII, which cannot be trusted with texts: make another one with"
    ):
        Stream.create(bytes_only, "visits", Binary(9), PureDP(1), key=key)

"""A witness notices every old copy, or nothing is released."""

import errno
import json
import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from databases import looked_into
from once import kept_line
from states_put_back import Server
from witnesses import refuse_writing, witness_file

from counton import PureDP, Stream
from counton.base.errors import NoiseKeyError, StateError, StateUnavailableError
from counton.noise import Key, guard_file
from counton.noise.guard_file import parse_entries
from counton.state import Store, verify
from counton.state.keys import KeySource
from counton.state.rollback_guard import accept_old_copy, latest_guard, position_of
from counton.strategies import Binary


def create(state: Path | str, key: KeySource = None, name: str = "a") -> None:
    with Stream.create(state, name, Binary(64), PureDP(1), key=key) as stream:
        stream.release_many([1, 2])


def go_on(state: Path | str, key: KeySource, value: int = 3, name: str = "a") -> None:
    with Stream.open(state, name, key=key) as stream:
        stream.release(value)


def linked(key: Path, folder: str) -> Path:
    """A symbolic link to a key, in a folder of its own."""
    link = key.parent / folder / "link.key"
    link.parent.mkdir()
    link.symlink_to(key)
    return link


@pytest.mark.parametrize("first", [False, True])
def test_a_key_through_a_symbolic_link(file: Path, tmp_path: Path, first: bool) -> None:
    key = tmp_path / "my.key"
    Key.generate().save(key)
    links = linked(key, "one"), linked(key, "two")
    create(file, key if first else links[0])
    elsewhere = tmp_path / "elsewhere.db"
    shutil.copy2(file, elsewhere)
    go_on(file, links[1])
    for name in (*links, key, Key.load(links[0])):
        with pytest.raises(StateError, match="is an old copy"):
            go_on(elsewhere, name, 10)


def test_linked_rollback_guard_is_written_at_its_target(file: Path, tmp_path: Path) -> None:
    create(file)
    kept = witness_file(file)
    vault = tmp_path / "vault"
    kept.rename(vault)
    kept.symlink_to(vault)
    go_on(file, None)
    assert kept.is_symlink()
    assert '"step": 3' in vault.read_text()
    old = file.read_bytes()
    go_on(file, None)
    file.write_bytes(old)
    with pytest.raises(StateError, match="is an old copy"):
        go_on(file, None, 10)


def test_a_key_by_a_hard_link_is_refused(file: Path, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    Key.generate().save(key)
    os.link(key, tmp_path / "other.key")
    with pytest.raises(NoiseKeyError, match="hard links"):
        create(file, tmp_path / "other.key")


@pytest.mark.slow
def test_a_linked_key_of_a_server(postgres: str, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    server = Server(postgres)
    Key.generate().save(key)
    link = linked(key, "one")
    create(postgres, key)
    dump = server.saved()
    go_on(postgres, link)
    server.put_back(dump)
    for name in (link, key, Key.load(key)):
        with pytest.raises(StateError, match="is an old copy"):
            go_on(postgres, name, 10)


@pytest.mark.parametrize("stands", [False, True])
def test_nothing_is_released_that_cannot_be_noted(
    file: Path, monkeypatch: pytest.MonkeyPatch, stands: bool
) -> None:
    if stands:
        create(file)
    else:
        Stream.create(file, "a", Binary(8), PureDP(1)).close()
    before = verify(file)[0].values
    with monkeypatch.context() as patch:
        refuse_writing(patch, str(witness_file(file)))
        refused = r"witness .* cannot be written \(Operation not permitted\)\. .*: nothing was"
        with pytest.raises(StateError, match=refused):
            go_on(file, None)
        with pytest.raises(StateError, match=refused):
            kept_line([1, 2], file)
        (found,) = verify(file, "a")
        assert found.values == before
        assert found.right is not stands
        assert sum(one.values for one in verify(file)) == before
    go_on(file, None)
    assert verify(file)[0].right


def test_full_disk_keeps_previous_rollback_guard(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part of a text is no note, and what stood there stays."""
    create(file)
    path = witness_file(file)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: 0)
        with pytest.raises(StateError, match="No space left"):
            go_on(file, None)
    assert path.read_bytes() == before
    go_on(file, None)


def test_a_note_that_fails_after_the_commit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is shown the release before it is noted."""
    create(file)
    with monkeypatch.context() as patch:
        patch.setattr("counton.noise.guard_file.GuardFile.note", full)
        with pytest.raises(StateError, match="is kept in the state, but not shown yet"):
            go_on(file, None)
        with pytest.raises(StateError, match="is kept in the state, but not shown yet"):
            Stream.open(file, "a")
    (found,) = verify(file)
    assert "is at step 3, but its rollback guard" in found.problems[0]
    Stream.open(file, "a").close()
    assert verify(file)[0].right


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_verify_reports_rollback_guard_that_is_behind(file: Path) -> None:
    create(file)
    guard = witness_file(file)
    old = guard.read_bytes()
    go_on(file, None)
    guard.write_bytes(old)
    assert "records only steps up to 2" in verify(file)[0].problems[0]


@pytest.fixture
def missing_guard(file: Path) -> Path:
    """Release three steps, and delete the rollback guard; return its path."""
    create(file)
    go_on(file, None)
    guard = witness_file(file)
    guard.unlink()
    return guard


def lost(guard: Path) -> str:
    return f"rollback guard {guard} of state .* is missing.*would release steps again"


def test_verify_reports_missing_rollback_guard(file: Path, missing_guard: Path) -> None:
    (verified,) = verify(file)
    assert verified.old_copy
    assert re.search(lost(missing_guard), verified.problems[0])


def test_missing_rollback_guard_stops_releases_and_new_streams(
    file: Path, missing_guard: Path
) -> None:
    for _ in range(2):
        with pytest.raises(StateError, match=lost(missing_guard)):
            go_on(file, None)
        assert not missing_guard.exists()
    with pytest.raises(StateError, match=lost(missing_guard)):
        Stream.create(file, "b", Binary(64), PureDP(1))


def test_reader_shows_released_steps_without_creating_missing_guard(
    file: Path, missing_guard: Path
) -> None:
    with Store(file) as store:
        assert len(store.reader("a").releases().values) == 3
        assert re.search(lost(missing_guard), str(store.reader("a").rollback_suspicion()))
        with pytest.raises(StateError, match=lost(missing_guard)):
            store.position("a")
    assert not missing_guard.exists()


def test_accept_old_copy_lets_stream_continue_after_lost_guard(
    file: Path, missing_guard: Path
) -> None:
    assert accept_old_copy(file) == ("a",)
    go_on(file, None)
    assert verify(file)[0].right
    assert accept_old_copy(file) == ()


def test_rollback_guard_without_stream_stops_it(file: Path) -> None:
    """As one that was begun anew by hand: the stream and new ones are refused."""
    create(file)
    path = witness_file(file)
    first, *_ = json.loads(path.read_bytes())
    path.write_text(json.dumps([first]))
    said = r"stream 'a' is at step 2 in state .*, and .* has no record of it"
    with pytest.raises(StateError, match=said):
        go_on(file, None)
    with pytest.raises(StateError, match=r"name its folder \(rollback_guard\).*accept_old_copy"):
        create(file, name="b")
    assert re.search(said, verify(file)[0].problems[0])
    with Store(file) as store:
        assert len(store.reader("a").releases().values) == 2
    assert json.loads(path.read_bytes()) == [first]  # nobody who looks makes it the newest
    assert accept_old_copy(file) == ("a",)
    go_on(file, None)


def test_stream_begun_during_a_read_is_no_old_copy(file: Path) -> None:
    """The witness is read before the state: then it may not know what the state has released."""
    Stream.create(file, "a", Binary(64), PureDP(1)).close()
    with Store(file) as store:
        database = store.database
        before = [latest_guard(database) for _ in range(4)]
        go_on(file, None)
        with database.transaction(write=False) as connection:
            assert position_of(connection, database, "a", before.pop()).step == 1
            before.pop().refuse_forgotten(connection, beginning="b")
        path = witness_file(file)
        known = json.loads(path.read_bytes())
        for wrong in ({"digest": "0" * 64}, {"step": 2}):  # what is read then counts
            path.write_text(json.dumps([{**one, **wrong} for one in known]))
            with database.transaction(write=False) as connection, pytest.raises(StateError):
                position_of(connection, database, "a", before.pop())


def test_release_is_returned_after_rollback_guard_is_on_disk(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut leaves is what was synced: of files their bytes, of folders their names."""
    synced: dict[int, Any] = {}
    plain = os.fsync

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        folder = stat.S_ISDIR(found.st_mode)
        with suppress(OSError):  # of a key, which is opened to write alone
            synced[found.st_ino] = (
                os.listdir(descriptor) if folder else os.pread(descriptor, found.st_size, 0)
            )
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with Stream.create(file, "a", Binary(64), PureDP(1)) as stream:
        record = witness_file(file)
        for step in range(1, 12):
            stream.release(1)
            assert record.name in synced[record.parent.stat().st_ino]
            assert parse_entries(synced[record.stat().st_ino])[-1]["step"] == step


@pytest.mark.slow
def test_several_machines_share_a_folder(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a home of its own, which another machine does not see."""
    keys = [tmp_path / "one.key", tmp_path / "two.key"]
    server = Server(postgres)
    Key.generate().save(keys[0])
    shutil.copy2(keys[0], keys[1])
    shared = tmp_path / "shared"

    def on(machine: int, value: int = 3, **more: Any) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"home {machine}"))
        with Stream.open(postgres, "a", key=keys[machine], **more) as stream:
            stream.release(value)

    create(postgres, keys[0])
    witness_file(postgres).rename(tmp_path / "away")  # as seen from the second machine
    each: tuple[dict[str, Any], ...] = ({}, {"rollback_guard": shared})
    for more in each:
        with pytest.raises(StateUnavailableError, match=r"is missing.*which all machines"):
            on(1, **more)
    (tmp_path / "away").rename(witness_file(postgres))
    on(0, rollback_guard=shared)
    dump = server.saved()
    on(1)
    server.put_back(dump)
    for machine in (0, 1):
        with pytest.raises(StateError, match=f"{shared}/.* records that step 4 is released"):
            on(machine, 9)
        assert verify(postgres, key=keys[machine])[0].old_copy


def test_moved_rollback_guard_is_used_by_open_streams(state: str, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    away = tmp_path / "away"
    back = tmp_path / "back"
    Key.generate().save(key)
    for name in "ab":
        create(state, key, name)

    def knows(place: Path) -> dict[str, int]:
        (file,) = place.glob("*.witness")
        return {one["stream"]: one["step"] for one in parse_entries(file.read_bytes())}

    with Stream.open(state, "b", key=key) as opened_before:
        Stream.open(state, "a", key=key, rollback_guard=away).close()
        opened_before.release(3)
        assert knows(away)["b"] == 3
    with Store(state) as store:
        Stream.open(state, "a", key=key, rollback_guard=back).close()
        with Stream.open(store, "a", key=key) as opened_after:
            opened_after.release(3)
            assert knows(back)["a"] == 3
    assert not [*away.iterdir()]


@pytest.mark.slow
def test_reader_without_rights_is_warned_of_old_copies(postgres: str, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    Key.generate().save(key)
    create(postgres, key)
    secret = ("checkpoint", "seal")
    with looked_into(postgres) as connection:
        schema = connection.value("SELECT current_schema()")
        role = f"public_{schema}"
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        said = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        for (table,) in [*connection.rows(said)]:
            found = connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - a table
            names = [column.name for column in found.description]
            if table == "counton_streams":
                names = [name for name in names if name not in secret]
            connection.execute(f"GRANT SELECT ({', '.join(names)}) ON {table} TO {role}")
    try:
        with Store(postgres.replace("//counton@", f"//{role}@")) as store:
            reader = store.reader("a")
            assert reader.rollback_suspicion() is None
            assert len(reader.releases().values) == 2
    finally:
        with looked_into(postgres) as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("killed", [False, True])
def test_waiting_process_does_not_overwrite_new_rollback_guard(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes it between the opening of the new file and its lock."""
    path = tmp_path / "a.key.witness"
    lock = guard_file._lock

    def note(stream: str) -> None:
        entry = {"key": "k", "state": "s", "stream": stream, "step": 1, "digest": stream}
        assert guard_file.GuardFile(path).note(entry, lambda _: True, make=True) is None

    def late(descriptor: int) -> None:
        monkeypatch.setattr(guard_file, "_lock", lock)
        note("faster")
        if killed:  # before the name under which it was made was gone
            os.link(path, path.with_name(f"{path.name}.new"))
        lock(descriptor)

    monkeypatch.setattr(guard_file, "_lock", late)
    note("slower")
    assert {entry["stream"] for entry in parse_entries(path.read_bytes())} == {"faster", "slower"}
    assert [*tmp_path.iterdir()] == [path]

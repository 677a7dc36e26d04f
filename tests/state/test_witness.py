"""A witness notices every old copy: whatever the key is called, or nothing is released."""

import errno
import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from databases import looked_into
from once import kept_line
from states_put_back import Server

from counton import PureDP, Stream
from counton.base.errors import StateError, StateUnavailable, WrongKey
from counton.noise import Key, witness
from counton.noise.witness import parse_entries
from counton.state import Store, key_path, verify
from counton.state.key_and_witness import Mark, Witness
from counton.state.watch import Watch, accept_old_copy
from counton.strategies import Binary


def create(state: Any, key: Any = None, name: str = "a") -> None:
    with Stream.create(state, name, Binary(64), PureDP(1), key=key) as stream:
        stream.release_many([1, 2])


def go_on(state: Any, key: Any, value: int = 3, name: str = "a") -> None:
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
    elsewhere = tmp_path / "elsewhere.db"  # so that the witness beside the state says nothing
    shutil.copy2(file, elsewhere)
    go_on(file, links[1])
    for name in (*links, key, Key.load(links[0])):
        with pytest.raises(StateError, match="restored from an old copy"):
            go_on(elsewhere, name, 10)
    assert not list(tmp_path.glob("*/link.key.witness"))


@pytest.mark.parametrize("name", ["my.key.witness", "state.db.key.witness"])
def test_a_witness_through_a_link_is_written_where_it_leads(tmp_path: Path, name: str) -> None:
    state, key, vault = tmp_path / "state.db", tmp_path / "my.key", tmp_path / "vault"
    vault.mkdir()
    (tmp_path / name).symlink_to(vault / "witness")  # of a file that is not there yet
    create(state, key)
    go_on(state, key)
    assert (tmp_path / name).is_symlink()
    assert (vault / "witness").stat().st_size


def test_a_key_by_a_hard_link_is_refused(file: Path, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    Key.generate().save(key)
    os.link(key, tmp_path / "other.key")
    with pytest.raises(WrongKey, match="hard links"):
        create(file, tmp_path / "other.key")


@pytest.mark.slow
def test_a_linked_key_of_a_server(postgres: str, tmp_path: Path) -> None:
    key, server = tmp_path / "my.key", Server(postgres)
    Key.generate().save(key)
    link = linked(key, "one")
    create(postgres, key)
    dump = server.saved()
    go_on(postgres, link)
    server.put_back(dump)
    for name in (link, key, Key.load(key)):
        with pytest.raises(StateError, match="restored from an old copy"):
            go_on(postgres, name, 10)


def refuse_writing(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """As of immutable files, which even their owner cannot write."""
    plain = os.open

    def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
        writes = flags & (os.O_RDWR | os.O_WRONLY)
        if writes and any(str(path).startswith(str(one)) for one in paths):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return plain(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.usefixtures("one_witness")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("stands", [False, True])
def test_nothing_is_released_that_cannot_be_noted(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, stands: bool
) -> None:
    key = tmp_path / "my.key" if named else None
    if stands:
        create(file, key)
    else:
        Stream.create(file, "a", Binary(8), PureDP(1), key=key).close()
    before = verify(file, key=key)[0].values
    places = [Path(f"{key_path(file)}.witness"), tmp_path / "my.key.witness"]
    with monkeypatch.context() as patch:
        refuse_writing(patch, *places)
        refused = r"witness .* cannot be written \(Operation not permitted\)\. .*: nothing was"
        with pytest.raises(StateError, match=refused):
            go_on(file, key)
        with pytest.raises(StateError, match=refused):
            kept_line([1, 2], file, key=key)
        (found,) = verify(file, "a", key=key)
        assert found.values == before
        assert found.right is not stands
        assert sum(one.values for one in verify(file, key=key)) == before
    go_on(file, key)
    assert verify(file, key=key)[0].right


def test_no_space_for_the_witness(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a text is no note, and what stood there stays."""
    create(file)
    path = Path(f"{key_path(file)}.witness")
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: 0)
        with pytest.raises(StateError, match="No space left"):
            go_on(file, None)
    assert path.read_bytes() == before
    go_on(file, None)


def test_a_key_in_a_folder_of_others(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd hands keys over: the witness beside the state suffices."""
    key = tmp_path / "my.key"
    Key.generate().save(key)
    refuse_writing(monkeypatch, tmp_path / "my.key.witness")
    create(file, key)
    old = file.read_bytes()
    go_on(file, key)
    file.write_bytes(old)
    with pytest.raises(StateError, match="restored from an old copy"):
        go_on(file, key, 10)


def test_a_note_that_fails_after_the_commit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is shown the release before it is noted."""
    create(file)
    with monkeypatch.context() as patch:
        patch.setattr("counton.noise.witness.WitnessFile.note", full)
        with pytest.raises(StateError, match="is kept in the state, but not shown yet"):
            go_on(file, None)
        with pytest.raises(StateError, match="is kept in the state, but not shown yet"):
            Stream.open(file, "a")
    (found,) = verify(file)
    assert "is at step 3, but its witness" in found.problems[0]
    Stream.open(file, "a").close()
    assert verify(file)[0].right


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("one_witness")
def test_verify_names_a_witness_that_is_behind_or_missing(file: Path) -> None:
    create(file)
    path = Path(f"{key_path(file)}.witness")
    old = path.read_bytes()
    go_on(file, None)
    path.write_bytes(old)
    assert "records only steps up to 2" in verify(file)[0].problems[0]
    path.unlink()
    said = f"{path} has no record of it: it is missing, or new.*would release steps again"
    (found,) = verify(file)
    assert found.old_copy
    assert re.search(said, found.problems[0])
    for _ in range(2):
        with pytest.raises(StateError, match=said):
            go_on(file, None)
        with Store(file) as store:  # whoever looks or shows notes nothing that nobody knew
            assert len(store.reader("a").releases().values) == 3
            store.position("a")
        Watch().look(file, None)
    with pytest.raises(StateError, match="stream 'a' has released something"):
        Stream.create(file, "b", Binary(64), PureDP(1))
    assert accept_old_copy(file, None).streams == ("a",)
    go_on(file, None)
    assert verify(file)[0].right


def test_a_release_is_shown_when_its_witness_is_on_the_disk(
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
    witness = Path(f"{key_path(file)}.witness")
    with Stream.create(file, "a", Binary(64), PureDP(1)) as stream:
        for step in range(1, 12):
            stream.release(1)
            assert witness.name in synced[witness.parent.stat().st_ino]
            assert parse_entries(synced[witness.stat().st_ino])[0]["step"] == step


@pytest.mark.slow
def test_a_server_that_was_away_does_not_go_on_from_a_dump(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows only what it saw: the dump is newer than that, and older than what was released."""
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # machines have no home in common
    keys, server = [tmp_path / "one.key", tmp_path / "two.key"], Server(postgres)
    Key.generate().save(keys[0])
    create(postgres, keys[0])
    shutil.copy2(keys[0], keys[1])
    with pytest.raises(StateError, match="not seen who wrote the state last"):
        go_on(postgres, keys[1])  # a new machine
    accept_old_copy(postgres, keys[1])
    go_on(postgres, keys[1])
    dump = server.saved()
    go_on(postgres, keys[1])
    server.put_back(dump)
    for _ in range(2):
        with pytest.raises(
            StateError,
            match=r"not seen who wrote the state last.*confirm it \(accept_old_copy=True\)",
        ):
            go_on(postgres, keys[0])
        Watch().look(postgres, keys[0])  # which shows what stands there, and not whether it goes on
    with pytest.raises(StateError, match="restored from an old copy"):
        go_on(postgres, keys[1])
    assert accept_old_copy(postgres, keys[0]).streams == (
        "a",
    )  # somebody's word, against which nothing is known
    go_on(postgres, keys[0])
    assert accept_old_copy(postgres, keys[0]).streams == ()


@pytest.mark.slow
def test_a_server_that_saw_the_writer_go_on_takes_over(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # machines have no home in common
    keys, server = [tmp_path / "one.key", tmp_path / "two.key"], Server(postgres)
    Key.generate().save(keys[0])
    create(postgres, keys[0])
    shutil.copy2(keys[0], keys[1])
    watch = Watch()
    watch.look(postgres, keys[1])
    watch.look(postgres, keys[1])
    assert watch.unknown == {"a"}  # it stands still
    dump = server.saved()
    go_on(postgres, keys[0])
    watch.look(postgres, keys[1])
    assert watch.unknown == set()
    go_on(postgres, keys[0])
    with pytest.raises(StateError, match="not seen who wrote the state last"):
        go_on(postgres, keys[1])
    watch.look(postgres, keys[1])  # it looked on all the time
    go_on(postgres, keys[1])
    newest, later = server.saved(), Watch()
    shutil.copy2(keys[0], third := tmp_path / "three.key")
    for saved in (dump, newest):  # a newer copy after an older one is nobody who goes on
        server.put_back(saved)
        later.look(postgres, third)
        assert later.unknown == {"a"}


@pytest.mark.slow
def test_a_server_that_watches_notices_an_old_dump(postgres: str, tmp_path: Path) -> None:
    """Two machines with key files of their own: one that only looked knows what it saw."""
    keys, server = [tmp_path / "one.key", tmp_path / "two.key"], Server(postgres)
    Key.generate().save(keys[0])
    shutil.copy2(keys[0], keys[1])
    create(postgres, keys[0])
    accept_old_copy(postgres, keys[1])
    go_on(postgres, keys[1])
    dump = server.saved()
    go_on(postgres, keys[1])
    Watch().look(postgres, keys[0])
    with Stream.open(postgres, "a", key=keys[1]) as stream:
        Watch().look(postgres, keys[0], ["a", "not there yet"])
        stream.release(8)  # it goes on to write
    server.put_back(dump)
    with pytest.raises(StateError, match="restored from an old copy"):
        Watch().look(postgres, keys[0])
    for key in keys:
        with pytest.raises(StateError, match="restored from an old copy"):
            go_on(postgres, key, 10)


def test_a_place_that_another_process_names_is_told_at_the_next_release(
    state: str, tmp_path: Path
) -> None:
    key, away, back = tmp_path / "my.key", tmp_path / "away", tmp_path / "back"
    Key.generate().save(key)
    for name in "ab":
        create(state, key, name)

    def knows(place: Path) -> dict[str, int]:
        (file,) = place.glob("*.witness")
        return {one["stream"]: one["step"] for one in parse_entries(file.read_bytes())}

    with Stream.open(state, "b", key=key) as opened_before:
        Stream.open(state, "a", key=key, witness=away).close()
        opened_before.release(3)
        assert knows(away)["b"] == 3
    with Store(state) as store:
        Stream.open(state, "a", key=key, witness=back).close()
        with Stream.open(store, "a", key=key) as opened_after:
            opened_after.release(3)
            assert knows(back)["a"] == 3
    assert not [*away.iterdir()]


@pytest.mark.slow
def test_who_may_not_see_sums_is_told_of_old_copies(postgres: str, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    Key.generate().save(key)
    create(postgres, key)
    secret = ("checkpoint", "seal")
    with looked_into(postgres) as connection:
        schema = connection.value("SELECT current_schema()")
        role = f"public_{schema}"
        connection.run(f"CREATE ROLE {role} LOGIN")
        connection.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        said = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        for (table,) in [*connection.rows(said)]:
            found = connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - a table
            names = [column.name for column in found.description]
            if table == "counton_streams":
                names = [name for name in names if name not in secret]
            connection.run(f"GRANT SELECT ({', '.join(names)}) ON {table} TO {role}")
    try:
        with Store(postgres.replace("//counton@", f"//{role}@")) as store:
            reader = store.reader("a")
            assert reader.doubt() is None
            assert len(reader.releases().values) == 2
    finally:
        with looked_into(postgres) as connection:
            connection.run(f"DROP OWNED BY {role}")
            connection.run(f"DROP ROLE {role}")


@pytest.mark.parametrize("killed", [False, True])
def test_who_waits_to_make_a_witness_does_not_write_over_it(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes it between the opening of the new file and its lock."""
    path, lock = tmp_path / "a.key.witness", witness._lock

    def note(stream: str) -> None:
        entry = {"key": "k", "state": "s", "stream": stream, "step": 1, "digest": stream}
        assert witness.WitnessFile(path).note(entry, lambda _: True) is None

    def late(descriptor: int) -> None:
        monkeypatch.setattr(witness, "_lock", lock)
        note("faster")
        if killed:  # before the name under which it was made was gone
            os.link(path, path.with_name(f"{path.name}.new"))
        lock(descriptor)

    monkeypatch.setattr(witness, "_lock", late)
    note("slower")
    assert {entry["stream"] for entry in witness.WitnessFile(path).read()} == {"faster", "slower"}
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("none_wanted", [False, True])
@pytest.mark.parametrize("noted", [0, 1, 2])
def test_a_step_is_noted_in_one_place_at_least_unless_none_is_wanted(
    noted: int, none_wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the places it is: all of them are kept. One that stands has to take it."""

    class Place:
        def __init__(self, takes: bool, stands: bool) -> None:
            self.takes, self.stands, self.steps = takes, stands, 0

        def join(self, entry: dict[str, Any]) -> None:
            if not self.takes:
                raise OSError("read-only")
            self.steps += 1

    def told(*places: Place) -> None:
        second = SimpleNamespace(none_wanted=none_wanted)
        look = SimpleNamespace(places=places, second=second)
        monkeypatch.setattr(Witness, "_look_at_places", lambda self: look)
        Witness([], "s.db").join(Mark("key", "visits", 1))

    places = [Place(takes=at < noted, stands=False) for at in range(2)]
    if noted or none_wanted:
        told(*places)
    else:
        with pytest.raises(StateUnavailable, match="cannot be written"):
            told(*places)
        with pytest.raises(StateUnavailable, match="there is none beside it"):
            told()
    assert sum(place.steps for place in places) == noted
    with pytest.raises(StateUnavailable, match="cannot be written"):
        told(Place(takes=True, stands=True), Place(takes=False, stands=True))

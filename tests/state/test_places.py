"""One witness, wherever it moves: all short histories of homes, names and copies.

A history is runs, each under a home and with a place that it names or none, then a copy of the
state and of all that lies beside it, more runs, the copy put back, and more runs. Each run counts
other rows. Either a run is refused, or no step is ever released from two data sets; and a place
that is forgotten has no file any more. Without a copy that is put back no run is refused. Of the
histories of four runs every seventh is tried, and on a server every third of three runs (in `make
test` every second of three runs, and a few on a server): each slip below shows in one of four or of
seven. All of them with ``COUNTON_FUZZ=1`` (`make fuzz`).
"""

import itertools
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from in_turn import in_turn
from some_cases import long
from states_put_back import Files, Place, Server
from witnesses import witness_file

from counton import CountonError, Key, PureDP, Stream
from counton.base.errors import (
    InvalidInputError,
    StateError,
    StateRolledBackError,
    StateUnavailableError,
    StreamMismatchError,
)
from counton.noise import guard_file as witness_module
from counton.noise.guard_file import GuardFile, parse_entries
from counton.state import Store, verify
from counton.state.inbox import Inbox
from counton.state.rollback_guard import (
    NO_FOLDER,
    GuardPosition,
    RollbackGuard,
    accept_old_copy,
    latest_guard,
    remark_on_guard,
)
from counton.strategies import Binary


class Run(NamedTuple):
    """A run, of whose home and with which place named."""

    home: str
    named: str | None


RUNS = [Run(home, named) for home in ("H1", "H2") for named in (None, "W1", "W2")]
COPY = "copy"
BACK = "back"
Move = Run | str


class TwoInputsError(AssertionError):
    """A step was released from two data sets."""


class World:
    """A state in a folder with its key, two homes, two other places, and what was shown."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, place: Place | None = None) -> None:
        self.folder = folder
        self.patch = patch
        self.beside = folder / "beside"
        self.beside.mkdir(parents=True)
        Key.generate().save(self.beside / "my.key")
        self.place = place or Files(self.beside / "state.db")
        self.counted: list[int] = []
        self.copied: tuple[Any, list[int]] | None = None
        self.shown: dict[int, set[tuple[int, ...]]] = {}
        self.used: set[str] = set()
        self.forgets = False  # whether places that are left may keep their files
        self.number = 0

    def address(self, name: str) -> str:
        return str(self.folder / name)

    def make(self, move: Move) -> bool:
        """Whether it came through; refused changes nothing."""
        if move == COPY:
            shutil.copytree(self.beside, self.folder / "copy")
            self.copied = self.place.saved(), [*self.counted]
        elif move == BACK:
            assert self.copied is not None
            saved = self.copied[0]
            self.counted = [*self.copied[1]]
            shutil.rmtree(self.beside)
            shutil.copytree(self.folder / "copy", self.beside)
            self.place.put_back(saved)
        else:
            assert isinstance(move, Run)
            return self.run(move)
        return True

    def run(self, run: Run) -> bool:
        """Count rows that nobody counted before, in the next step."""
        self.patch.setenv("XDG_STATE_HOME", str(self.folder / run.home))
        self.number += 1
        more: dict[str, Any] = {"key": self.beside / "my.key"}
        if run.named is not None:
            more["rollback_guard"] = self.address(run.named)
        try:
            if self.counted:
                stream = Stream.open(self.place.address, "a", **more)
            else:
                stream = Stream.create(self.place.address, "a", Binary(31), PureDP(1), **more)
            with stream:
                stream.release(self.number)
        except CountonError:
            return False
        self.counted.append(self.number)
        with Stream.open(self.place.address, "a", key=self.beside / "my.key") as stream:
            at = latest_guard(stream.database).folder
        assert run.named is None or at == self.address(run.named)
        self.used.add(at)
        left = [file for one in self.used - {at} for file in Path(one).glob("*.witness")]
        assert not left or self.forgets, (left, at)
        for step in range(1, len(self.counted) + 1):
            data = self.shown.setdefault(step, set())
            data.add(tuple(self.counted[:step]))
            if len(data) > 1:
                raise TwoInputsError(f"step {step}: {data}")
        return True


def histories(length: int) -> Iterator[list[Move]]:
    """All of so many runs, but for those that differ in names alone."""
    for runs in itertools.product(RUNS, repeat=length):
        names = [run.named for run in runs if run.named is not None]
        if runs[0].home != "H1" or names[:1] == ["W2"]:
            continue
        for first, second in itertools.combinations(range(1, length), 2):
            yield [*runs[:first], COPY, *runs[first:second], BACK, *runs[second:]]


def told(history: Sequence[Move]) -> str:
    """A history in words."""
    return ", ".join(
        move if isinstance(move, str) else "-".join(filter(None, move)) for move in history
    )


def tried(world: World, history: Sequence[Move]) -> None:
    """Make all moves; those before the copy is put back come through."""
    put_back = False
    for move in history:
        put_back = put_back or move == BACK
        if not world.make(move):
            assert put_back, told(history)
    assert world.number == len(history) - 2


@pytest.mark.parametrize(("length", "every"), [(3, 2), long(3, 1), long(4, 7)])
def test_no_history_releases_a_step_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, every: int
) -> None:
    for number, history in enumerate(in_turn(histories(length), every)):
        world = World(tmp_path / str(number), monkeypatch)
        tried(world, history)
        shutil.rmtree(world.folder)


@pytest.mark.slow
@pytest.mark.parametrize("every", [14, long(3)])
def test_no_history_on_a_server_releases_a_step_twice(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """The folder of the key goes back with the dump."""
    server = Server(postgres)
    for number, history in enumerate(in_turn(histories(3), every)):
        server.clear()
        tried(World(tmp_path / str(number), monkeypatch, server), history)


def _left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GuardFile, "move_to", lambda *_: None)


def _never_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RollbackGuard, "refuse_missing", lambda *_: None)
    patch.setattr(RollbackGuard, "_refuse_unknown", lambda *_: None)
    patch.setattr(RollbackGuard, "check_writable_for", lambda *_: None)
    patch.setattr(RollbackGuard, "note", lambda *_: None)


@pytest.mark.parametrize(
    ("slip", "history"),
    [
        (_left_behind, [Run("H1", None), COPY, Run("H1", "W1"), BACK, Run("H1", None)]),
        (_left_behind, [Run("H1", "W1"), COPY, Run("H1", "W2"), BACK, Run("H1", "W1")]),
        (_never_missing, [Run("H1", None), COPY, Run("H1", "W1"), BACK, Run("H1", None)]),
    ],
)
def test_histories_detect_each_wrong_rollback_guard(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slip: Callable[[pytest.MonkeyPatch], None],
    history: list[Move],
) -> None:
    tried(World(tmp_path / "right", monkeypatch), history)
    slip(monkeypatch)
    world = World(tmp_path / "wrong", monkeypatch)
    world.forgets = True
    with pytest.raises(TwoInputsError):
        tried(world, history)


def night(state: Any, rows: int, **more: Any) -> None:
    """One step of stream "a", which is created where there is none."""
    try:
        stream = Stream.open(state, "a", **more)
    except StreamMismatchError:
        stream = Stream.create(state, "a", Binary(31), PureDP(1), **more)
    with stream:
        stream.release(rows)


def folder_of(state: Any) -> str:
    """Where a state has its witness."""
    return str(witness_file(state).parent)


def test_a_place_that_is_not_mounted(file: Path, tmp_path: Path) -> None:
    """It is not made anew below the mount point; given up, the user's folder has the witness."""
    disk = tmp_path / "disk"
    disk.mkdir()
    named = str(disk / "w")
    night(file, 1, rollback_guard=named)
    old = file.read_bytes()
    night(file, 2, rollback_guard=named)
    newest = file.read_bytes()
    disk.rename(tmp_path / "away")
    disk.mkdir()
    missing = r"is missing\. .*nobody can tell.*mount its disk"
    for more in ({}, {"rollback_guard": named}, {"rollback_guard": tmp_path / "other"}):
        with pytest.raises(StateUnavailableError, match=missing):
            night(file, 3, **more)
        with pytest.raises(StateUnavailableError, match="is missing"):
            Stream.create(file, "b", Binary(31), PureDP(1), **more)
    with Store(file) as store, pytest.raises(StateUnavailableError, match="is missing"):
        store.position("a")
    (found,) = verify(file)
    assert found.old_copy
    assert "is missing" in found.problems[0]
    assert not [*disk.iterdir()]
    assert not (tmp_path / "other").exists()
    assert accept_old_copy(file) == ("a",)
    assert folder_of(file) == f"{os.environ['XDG_STATE_HOME']}/counton"
    night(file, 3)
    assert not [*disk.iterdir()]
    disk.rmdir()
    (tmp_path / "away").rename(disk)
    for copy in (old, newest):  # the second one is all that the disk knows
        file.write_bytes(copy)
        with pytest.raises(StateRolledBackError, match="records that step 3 is released"):
            night(file, 9)


def test_disabled_rollback_guard_is_refused_for_old_copy(file: Path) -> None:
    night(file, 1)
    old = file.read_bytes()
    night(file, 2)
    file.write_bytes(old)
    with pytest.raises(StateRolledBackError, match="records that step 2 is released"):
        accept_old_copy(file)
    with pytest.raises(StateRolledBackError, match="records that step 2 is released"):
        night(file, 9, rollback_guard=NO_FOLDER)


@pytest.mark.parametrize("place", ["sqlite:///w.db", "postgresql://ann@db/w", ""])
def test_a_place_is_a_folder(file: Path, place: str) -> None:
    with pytest.raises(InvalidInputError, match="is not the path of a folder: give a folder"):
        Stream.create(file, "a", Binary(31), PureDP(1), rollback_guard=place)
    assert not file.exists()


def test_rollback_guard_in_folder_of_state_gives_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "data").mkdir()
    state = folder / "visits.db"
    inside = "lies in the folder of the state .*visits.db: if the whole folder"
    said = remark_on_guard(state, folder / "w")
    assert re.search(inside, said or "")
    assert remark_on_guard(state, tmp_path / "w") is None
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / ".local"))
    said = remark_on_guard(state)
    assert re.search(inside, said or "")
    night(state, 1, rollback_guard=folder / "w")
    monkeypatch.delenv("XDG_STATE_HOME")
    with Store(state) as store:
        said = remark_on_guard(state, opened=store.database)
    assert re.search(inside, said or "")
    assert remark_on_guard("postgresql://ann@db/visits") is None


@pytest.mark.parametrize("home", ["/proc", "/dev/null"])
def test_a_home_that_cannot_be_written_is_one_sentence(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """By whoever may write anywhere, too. A folder that is named helps, or none."""
    key = tmp_path / "my.key"
    Key.generate().save(key)
    monkeypatch.setenv("XDG_STATE_HOME", home)
    said = (
        f"the rollback guard {home}/counton/.* cannot be written .*: nothing was released; .*name a"
    )
    with pytest.raises(StateUnavailableError, match=said):
        night(state, 1, key=key)
    for place in (NO_FOLDER, tmp_path / "w"):
        night(state, 1, key=key, rollback_guard=place)
        assert folder_of(state) == str(place)


def test_a_user_without_a_home(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    for variable in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(StateUnavailableError, match="the user has no home"):
        night(file, 1)


@pytest.mark.slow
def test_fresh_machines_with_a_key_from_the_environment(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused from the second night on, unless a place is named that outlives them, or none."""
    Key.generate().save(tmp_path / "vault")
    monkeypatch.setenv("VAULT", (tmp_path / "vault").read_text())
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))

    def fresh(rows: int, **more: Any) -> None:
        shutil.rmtree(home, ignore_errors=True)  # which the last machine had at the same path
        night(postgres, rows, key="env:VAULT", **more)

    fresh(1)
    for more in ({}, {"rollback_guard": NO_FOLDER}):
        with pytest.raises(StateUnavailableError, match="is missing"):
            fresh(2, **more)
    Server(postgres).clear()
    fresh(1, rollback_guard=NO_FOLDER)
    fresh(2)  # it is remembered
    Server(postgres).clear()
    place = tmp_path / "outlives"
    fresh(1, rollback_guard=place)
    dump = Server(postgres).saved()
    for rows in (2, 3):
        fresh(rows)
    Server(postgres).put_back(dump)
    with pytest.raises(StateRolledBackError, match="records that step 3 is released"):
        fresh(4)


def test_rollback_guard_can_be_added_to_existing_state(file: Path, tmp_path: Path) -> None:
    """It knows all streams, and a copy from before is refused."""
    for rows in (1, 2):
        night(file, rows, rollback_guard=NO_FOLDER)
    Stream.create(file, "b", Binary(31), PureDP(1)).close()
    with Stream.open(file, "b") as stream:
        stream.release(5)
    night(file, 3, rollback_guard=tmp_path / "w")
    with Stream.open(file, "b") as stream:
        old = file.read_bytes()
        stream.release(6)
    known = {one["stream"]: one["step"] for one in parse_entries(witness_file(file).read_bytes())}
    assert known == {"": 0, "a": 3, "b": 2}
    file.write_bytes(old)
    with pytest.raises(StateRolledBackError, match="records that step 2 is released"):
        Stream.open(file, "b")


def test_a_step_that_is_known_lies_inside_a_longer_commit(file: Path) -> None:
    """The state has no digest of it then, so it may be another release: it is no match."""
    night(file, 1)
    old = file.read_bytes()
    night(file, 2)
    kept = witness_file(file)
    knows = kept.read_bytes()
    file.write_bytes(old)
    kept.unlink()
    accept_old_copy(file)
    with Stream.open(file, "a") as stream:
        stream.release_many([20, 30, 40])  # steps 2 to 4 in one commit
    kept.write_bytes(knows)
    with pytest.raises(StateRolledBackError, match="has another release in state"):
        night(file, 5)
    with (
        Store(file) as store,
        pytest.raises(StateRolledBackError, match="has another release in state"),
    ):
        store.position("a")
    with (
        Inbox(file) as inbox,
        pytest.raises(StateRolledBackError, match="has another release in state"),
        inbox._taking_in(["a"]),
    ):
        pass
    (known,) = (one for one in parse_entries(knows) if one["stream"] == "a")
    with (
        Store(file) as store,
        pytest.raises(StateRolledBackError, match="has another release in state"),
        store.database.transaction(write=False) as connection,
    ):
        latest_guard(store.database).check(connection, 0, GuardPosition(known["key"], "a", 4))
    assert verify(file)[0].old_copy


@pytest.mark.parametrize(
    "damage", [b"", b"[{", b"\x00\xff junk", b"[" * 10**5, b'[{"step": 1}]', b"{}", b"[]", None]
)
def test_damaged_rollback_guard_is_refused_until_repaired(file: Path, damage: bytes | None) -> None:
    night(file, 1)
    kept = witness_file(file)
    right = kept.read_bytes()
    before = file.read_bytes()
    kept.unlink()
    if damage is None:
        kept.mkdir()
    else:
        kept.write_bytes(damage)
    refused = f"rollback guard {kept} of state .* cannot be read .*: make it readable, or restore"
    with pytest.raises(StateError, match=refused):
        night(file, 2)
    with pytest.raises(StateError, match=refused):
        Stream.create(file, "b", Binary(31), PureDP(1))
    with Store(file) as store:
        with pytest.raises(StateError, match=refused):
            store.position("a")
        with pytest.raises(StateError, match=refused):
            store.reader("a").releases()
    with pytest.raises(StateError, match=refused):
        accept_old_copy(file)
    assert remark_on_guard(file) is None  # said by whatever releases
    assert "cannot be read" in verify(file)[0].problems[0]
    assert file.read_bytes() == before
    if damage is None:
        kept.rmdir()
    kept.write_bytes(right)
    night(file, 2)


def test_named_rollback_guard_replaces_the_former_one(file: Path, tmp_path: Path) -> None:
    one = str(tmp_path / "one")
    two = str(tmp_path / "two")
    for rows, named in enumerate((one, two, one, None, two), 1):
        night(file, rows, **({} if named is None else {"rollback_guard": named}))
    assert folder_of(file) == two
    assert not [*Path(one).iterdir()]
    (file_of_two,) = Path(two).iterdir()
    night(file, 6)
    assert max(entry["step"] for entry in parse_entries(file_of_two.read_bytes())) == 6


def test_a_place_by_another_name_stays(file: Path, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "w")
    night(file, 1, rollback_guard=tmp_path / "w")
    night(file, 2, rollback_guard=tmp_path / "link")
    night(file, 3)
    (kept,) = (tmp_path / "w").iterdir()
    assert max(entry["step"] for entry in parse_entries(kept.read_bytes())) == 3


def test_an_earlier_file_that_cannot_be_removed_stops_the_move(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(file, 1)
    before = file.read_bytes()

    def unlink(self: Path, **_: Any) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(
            StateUnavailableError, match=r"cannot be written .*nothing was released"
        ):
            night(file, 2, rollback_guard=tmp_path / "w")
    assert file.read_bytes() == before
    night(file, 2)
    night(file, 3, rollback_guard=tmp_path / "w")
    assert folder_of(file) == str(tmp_path / "w")


@pytest.mark.parametrize("before", ["begin", "move_to", "commit"])
def test_kill_during_move_of_rollback_guard_loses_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Before the new file, before the earlier one is gone, or before the state says so."""
    one = tmp_path / "one"
    two = tmp_path / "two"
    night(file, 1, rollback_guard=one)
    old = file.read_bytes()
    night(file, 2)

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if before == "commit":
            right = RollbackGuard._begin
            patched.setattr(
                RollbackGuard, "_begin", lambda *given, **named: (right(*given, **named), dies())
            )
        else:
            patched.setattr(GuardFile, before, dies)
        with pytest.raises(KeyboardInterrupt):
            night(file, 3, rollback_guard=two)
    newest = file.read_bytes()
    file.write_bytes(old)
    refused = f"{two}/.* records that step 2|{one}/.* (is missing|records that step 2)"
    for more in ({}, {"rollback_guard": two}):
        with pytest.raises(StateError, match=refused):
            night(file, 9, **more)
    file.write_bytes(newest)
    if before == "commit":
        with pytest.raises(StateUnavailableError, match=r"is missing.*if it was moved, name its"):
            night(file, 9)
    night(file, 3, rollback_guard=two)
    assert folder_of(file) == str(two)
    assert not [*one.iterdir()]


def test_interrupted_move_leaves_no_valid_rollback_guard(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new place does not stand for the earlier one, which went on and is not mounted."""
    one = tmp_path / "one"
    two = tmp_path / "two"
    night(file, 1, rollback_guard=one)
    old = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(GuardFile, "move_to", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            night(file, 2, rollback_guard=two)
    night(file, 2)
    file.write_bytes(old)
    one.rename(tmp_path / "away")
    with pytest.raises(StateUnavailableError, match="is missing"):
        night(file, 9, rollback_guard=two)


def test_writer_waiting_for_moved_rollback_guard_does_not_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves it between the opening of the file and its lock."""
    old, new = (GuardFile(tmp_path / name / "a.witness") for name in ("old", "new"))
    entry = {"key": "k", "state": "s", "stream": "a", "step": 1, "digest": "d"}
    old.begin([entry])
    new.begin([{**entry, "stream": "b"}])
    lock = witness_module._lock

    def late(descriptor: int) -> None:
        monkeypatch.setattr(witness_module, "_lock", lock)
        old.move_to(new)
        lock(descriptor)

    monkeypatch.setattr(witness_module, "_lock", late)
    with pytest.raises(FileNotFoundError):
        old.note({**entry, "step": 2}, lambda _: True)
    assert [known["step"] for known in parse_entries(new.path.read_bytes())] == [1, 1]


def test_release_waits_for_rollback_guard_moved_after_commit(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is not shown; the same command shows it, and the new file knows it."""
    key = tmp_path / "my.key"
    Key.generate().save(key)
    for name in "ab":
        Stream.create(state, name, Binary(31), PureDP(1), key=key).close()
    note = RollbackGuard.note

    def late(self: RollbackGuard, *given: Any) -> None:
        monkeypatch.setattr(RollbackGuard, "note", note)
        Stream.open(state, "b", key=key, rollback_guard=tmp_path / "w").close()
        note(self, *given)

    with Stream.open(state, "a", key=key) as stream:
        monkeypatch.setattr(RollbackGuard, "note", late)
        with pytest.raises(StateUnavailableError, match="is kept in the state, but not shown yet"):
            stream.release(3)
    with Stream.open(state, "a", key=key) as stream:
        assert stream.step == 1
    known = {one["stream"]: one["step"] for one in parse_entries(witness_file(state).read_bytes())}
    assert known == {"": 0, "a": 1, "b": 0} or known == {"": 0, "a": 1}


@pytest.mark.parametrize("carried", [False, True])
def test_a_state_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried: bool
) -> None:
    """Its folders have other names there: with the witness it goes on, without it is refused."""
    here = tmp_path / "here"
    there = tmp_path / "there"
    here.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "home"))
    night(here / "e.db", 1)
    old = (here / "e.db").read_bytes()
    night(here / "e.db", 2)
    if not carried:
        shutil.move(here / "home", tmp_path / "left")
    here.rename(there)
    monkeypatch.setenv("XDG_STATE_HOME", str(there / "home"))
    with pytest.raises(StateUnavailableError, match="if it was moved, name its folder"):
        night(there / "e.db", 3)
    if carried:
        night(there / "e.db", 3, rollback_guard=there / "home" / "counton")
        night(there / "e.db", 4)
        (there / "e.db").write_bytes(old)
        with pytest.raises(StateRolledBackError, match="records that step 4 is released"):
            night(there / "e.db", 9, rollback_guard=there / "home" / "counton")
    else:
        with pytest.raises(StateUnavailableError, match="is missing"):
            night(there / "e.db", 3, rollback_guard=there / "home" / "counton")


def test_moved_state_file_keeps_its_rollback_guard(tmp_path: Path) -> None:
    one = tmp_path / "one.db"
    two = tmp_path / "two.db"
    night(one, 1)
    for part in ("", ".key"):
        shutil.copy2(f"{one}{part}", f"{two}{part}")
    night(two, 2)
    with pytest.raises(StateRolledBackError, match="records that step 2 is released"):
        night(one, 9)
    one.unlink()
    with pytest.raises(CountonError, match=r"records 2 steps|has released nothing with"):
        night(one, 9)


def _many(state: str, key: Path, places: list[Path], name: str) -> None:
    for number in range(12):
        try:
            with Stream.open(state, name, key=key, rollback_guard=places[number % 2]) as stream:
                stream.release(1)
        except StateError:
            continue


@pytest.mark.slow
def test_concurrent_moves_of_rollback_guard_lose_no_step(state: str, tmp_path: Path) -> None:
    """Whoever is too late is refused; nothing that was released is forgotten."""
    key = tmp_path / "my.key"
    places = [tmp_path / "one", tmp_path / "two"]
    Key.generate().save(key)
    for name in "ab":
        Stream.create(state, name, Binary(31), PureDP(1), key=key, rollback_guard=places[0]).close()
    context: Any = multiprocessing.get_context("fork")
    both = [
        context.Process(target=_many, args=(state, key, places[:: 1 - 2 * at], name))
        for at, name in enumerate("ab")
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    with Store(state) as store:
        steps = {one: store.reader(one).step for one in store.streams}
    assert min(steps.values()) > 0
    for name in steps:
        Stream.open(state, name, key=key).close()  # one that was killed may not be noted
    known = {one["stream"]: one["step"] for one in parse_entries(witness_file(state).read_bytes())}
    assert known == {"": 0, **steps}
    assert len([*places[0].iterdir(), *places[1].iterdir()]) == 1

"""Every place of a witness is asked: all short histories of homes, names and copies.

A history is runs, each under a home and with a place that it names or none, then a copy of the
state and of all that lies beside it, more runs, the copy put back, and more runs. Each run counts
other rows. Either a run is refused, or no step is ever released from two data sets; and a place
that is forgotten has no file any more. Without a copy that is put back no run is refused. Of the
histories of four runs every seventh is tried, and on a server every third of three runs: each slip
below shows in one of four or of seven. All of them with ``COUNTON_FUZZ=1`` (`make fuzz`).
"""

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from in_turn import in_turn
from states_put_back import Files, Place, Server

from counton import PureDP, Stream
from counton.base.errors import (
    CountonError,
    InvalidInput,
    OldCopy,
    RequestMismatch,
    StateError,
    StateUnavailable,
)
from counton.noise import Key
from counton.noise import witness as witness_module
from counton.noise.witness import WitnessFile, parse_entries
from counton.state import Store, verify
from counton.state.inbox import Inbox
from counton.state.key_and_witness import Mark, Witness, witness_beside, witness_remarks
from counton.state.second_witness import HOME, LOST, NAMED, NONE
from counton.state.watch import accept_old_copy
from counton.strategies import Binary


class Run(NamedTuple):
    """A run, of whose home and with which place named."""

    home: str
    named: str | None


RUNS = [Run(home, named) for home in ("H1", "H2") for named in (None, "W1", "W2")]
COPY, BACK = "copy", "back"
Move = Run | str


class TwoInputs(AssertionError):
    """A step was released from two data sets."""


class World:
    """A state in a folder with its key, two homes, two other places, and what was shown."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, place: Place | None = None) -> None:
        self.folder, self.patch = folder, patch
        self.beside = folder / "beside"
        self.beside.mkdir(parents=True)
        Key.generate().save(self.beside / "my.key")
        self.place = place or Files(self.beside / "state.db")
        self.counted: list[int] = []
        self.copied: tuple[Any, list[int]] | None = None
        self.shown: dict[int, set[tuple[int, ...]]] = {}
        self.used: set[str] = set()
        self.forgets = False  # whether places may be forgotten
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
            saved, self.counted = self.copied[0], [*self.copied[1]]
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
            more["witness"] = self.address(run.named)
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
            known = stream.database.witnesses
        named = [at for at in known if known[at] == NAMED]
        self.used |= {self.address(run.named)} if run.named is not None else set()
        self.used |= set() if named else {f"{self.folder / run.home}/counton"}
        left = [file for at in self.used - known.keys() for file in Path(at).glob("*.witness")]
        assert not left or self.forgets, (left, known)
        for step in range(1, len(self.counted) + 1):
            data = self.shown.setdefault(step, set())
            data.add(tuple(self.counted[:step]))
            if len(data) > 1:
                raise TwoInputs(f"step {step}: {data}")
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


@pytest.mark.parametrize(("length", "every"), [(3, 1), pytest.param(4, 7, marks=pytest.mark.slow)])
def test_no_history_releases_a_step_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, every: int
) -> None:
    for number, history in enumerate(in_turn(histories(length), every)):
        world = World(tmp_path / str(number), monkeypatch)
        tried(world, history)
        shutil.rmtree(world.folder)


@pytest.mark.slow
def test_no_history_on_a_server_releases_a_step_twice(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the key goes back with the dump."""
    server = Server(postgres)
    for number, history in enumerate(in_turn(histories(3), 3)):
        server.clear()
        tried(World(tmp_path / str(number), monkeypatch, server), history)


def _left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WitnessFile, "move_to", lambda *_: None)


def _homes_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = Witness._remember

    def remember(self: Witness, connection: Any, known: dict[str, str]) -> None:
        right(self, connection, {at: said for at, said in known.items() if said != HOME})

    patch.setattr(Witness, "_remember", remember)


@pytest.mark.parametrize(
    ("slip", "history"),
    [
        (_left_behind, [Run("H1", None), COPY, Run("H1", "W1"), BACK, Run("H1", None)]),
        (_left_behind, [Run("H1", "W1"), COPY, Run("H1", "W2"), BACK, Run("H1", "W1")]),
        (_homes_forgotten, [Run("H1", None), COPY, Run("H2", None), BACK, Run("H1", None)]),
    ],
)
def test_each_slip_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slip: Callable[[pytest.MonkeyPatch], None],
    history: list[Move],
) -> None:
    tried(World(tmp_path / "right", monkeypatch), history)
    slip(monkeypatch)
    world = World(tmp_path / "wrong", monkeypatch)
    world.forgets = True
    with pytest.raises(TwoInputs):
        tried(world, history)


def night(state: Any, rows: int, **more: Any) -> None:
    """One step of stream "a", which is created where there is none."""
    try:
        stream = Stream.open(state, "a", **more)
    except RequestMismatch:
        stream = Stream.create(state, "a", Binary(31), PureDP(1), **more)
    with stream:
        stream.release(rows)


def places_of(state: Any) -> dict[str, str]:
    """What a state remembers of its second witness."""
    with Store(state) as store:
        return store.database.witnesses


def test_a_place_that_is_not_mounted(file: Path, tmp_path: Path) -> None:
    """It is not made anew below the mount point; given up, it is asked all the same."""
    disk = tmp_path / "disk"
    disk.mkdir()
    named = str(disk / "w")
    night(file, 1, witness=named)
    old = file.read_bytes(), Path(f"{file}.key.witness").read_bytes()
    night(file, 2, witness=named)
    disk.rename(tmp_path / "away")
    disk.mkdir()
    missing = r"is missing\. .*nobody can tell.*mount its disk"
    for more in ({}, {"witness": named}, {"witness": tmp_path / "other"}):
        with pytest.raises(StateUnavailable, match=missing):
            night(file, 3, **more)
        with pytest.raises(StateUnavailable, match="is missing"):
            Stream.create(file, "b", Binary(31), PureDP(1), **more)
    with Store(file) as store, pytest.raises(StateUnavailable, match="is missing"):
        store.position("a")
    assert not [*disk.iterdir()]
    assert not (tmp_path / "other").exists()
    assert accept_old_copy(file, None) == ((), (named,))  # what lies beside it knows the stream
    assert places_of(file)[named] == LOST
    night(file, 3)
    assert not [*disk.iterdir()]
    disk.rmdir()
    (tmp_path / "away").rename(disk)
    for path, data in zip((file, Path(f"{file}.key.witness")), old, strict=True):
        path.write_bytes(data)
    with pytest.raises(OldCopy, match="records that step 3 is released"):
        night(file, 9)


def test_a_word_does_not_help_where_a_place_knows_better(file: Path, tmp_path: Path) -> None:
    night(file, 1)
    old = file.read_bytes()
    night(file, 2)
    file.write_bytes(old)
    Path(f"{file}.key.witness").unlink()
    with pytest.raises(OldCopy, match="records that step 2 is released"):
        accept_old_copy(file, None)
    with pytest.raises(OldCopy, match="records that step 2 is released"):
        night(file, 9, witness=NONE)


@pytest.mark.parametrize("place", ["sqlite:///w.db", "postgresql://ann@db/w", ""])
def test_a_place_is_a_folder(file: Path, place: str) -> None:
    with pytest.raises(InvalidInput, match="is not the path of a folder: give a folder"):
        Stream.create(file, "a", Binary(31), PureDP(1), witness=place)
    assert not file.exists()


def test_a_place_in_the_folder_of_the_state_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "data").mkdir()
    state = folder / "visits.db"
    inside = "lies in the folder of the state .*visits.db: if the whole folder"
    (said,) = witness_remarks(state, None, witness=folder / "w")
    assert re.search(inside, said)
    assert witness_remarks(state, None, witness=tmp_path / "w") == []
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / ".local"))
    for _ in range(2):  # before there is a state, and after
        (said,) = witness_remarks(state, None)
        assert re.search(inside, said)
        night(state, 1)


def test_a_home_that_cannot_be_written_does_not_begin(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever may write anywhere, too: it is tried."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc")
    night(file, 1)
    (said,) = witness_remarks(file, None)
    assert said.startswith("there is no second witness (/proc/counton cannot be written)")
    assert places_of(file) == {}


def test_a_home_that_begins_later_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data" / "visits.db"
    file.parent.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    night(file, 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    assert "has no record of state" in witness_remarks(file, None)[0]
    night(file, 2)
    assert witness_remarks(file, None) == []
    assert places_of(file) == {f"{tmp_path}/user/counton": HOME}


def test_a_line_that_is_removed_is_said(tmp_path: Path) -> None:
    file = tmp_path / "data" / "visits.db"
    file.parent.mkdir()
    night(file, 1, witness=tmp_path / "w")
    assert witness_remarks(file, None, witness=tmp_path / "w", in_file=True) == []
    assert witness_remarks(file, None) == []
    (said,) = witness_remarks(file, None, in_file=True)
    assert re.search("an earlier run named the second witness '.*/w'.*is not given", said)
    night(file, 2, witness=NONE)
    (said,) = witness_remarks(file, None, in_file=True)
    assert "the second witness 'none'" in said


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
    for _ in range(2):
        with pytest.raises(StateUnavailable, match="is missing"):
            fresh(2)
    fresh(2, witness=NONE)
    fresh(3)  # it is remembered
    Server(postgres).clear()
    place = tmp_path / "outlives"
    fresh(1, witness=place)
    dump = Server(postgres).saved()
    for rows in (2, 3):
        fresh(rows)
    Server(postgres).put_back(dump)
    with pytest.raises(OldCopy, match="records that step 3 is released"):
        fresh(4)


@pytest.mark.slow
def test_no_place_at_all(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is in no file, and no home: nothing is released unless somebody says so."""
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    key = Key.generate()
    with pytest.raises(
        StateUnavailable,
        match="there is no witness, which would record the last releases: the state is on a server",
    ):
        night(postgres, 1, key=key)
    night(postgres, 1, key=key, witness=NONE)


@pytest.mark.slow
def test_a_missing_witness_beside_a_key_is_said(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one alone is enough to release, and knows what is done on this machine."""
    key = tmp_path / "keys" / "my.key"
    key.parent.mkdir()
    Key.generate().save(key)
    key.chmod(0o400)
    night(postgres, 1, key=key)
    assert witness_remarks(postgres, key) == []
    Path(f"{key}.witness").unlink()
    (said,) = witness_remarks(postgres, key)
    assert f"the witness {key}.witness is missing" in said
    plain = os.open

    def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & os.O_CREAT and str(path).startswith(str(key.parent)):
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, flags, *more, **others)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened)
        night(postgres, 2, key=key)
        assert "is missing" in witness_remarks(postgres, key)[0]
    dump = Server(postgres).saved()
    night(postgres, 3, key=key)
    assert witness_remarks(postgres, key) == []
    Server(postgres).put_back(dump)
    Path(f"{key}.witness").unlink()
    with pytest.raises(OldCopy, match="records that step 3 is released"):
        night(postgres, 9, key=key)


def test_a_release_is_noted_in_one_place_at_least(tmp_path: Path) -> None:
    """In all that stand; where none can be made, nothing is released."""
    (tmp_path / "file").write_text("")
    cannot = tmp_path / "file" / "a.witness"
    Witness([cannot, tmp_path / "b.witness"], "s.db").reserve(Mark("k", "a", 1))
    with pytest.raises(StateUnavailable, match="cannot be written"):
        Witness([cannot], "s.db").reserve(Mark("k", "a", 1))
    with pytest.raises(StateUnavailable, match="no witness"):
        Witness([], "s.db").note(Mark("k", "a", 1), "")
    (tmp_path / "b.witness").write_bytes(b"")
    with pytest.raises(StateError, match="cannot be read"):
        Witness([tmp_path / "b.witness", tmp_path / "c.witness"], "s.db").reserve(Mark("k", "a", 1))


def test_a_step_that_is_known_lies_inside_a_longer_commit(file: Path, tmp_path: Path) -> None:
    """The state has no digest of it then, so it may be another release: it is no match."""
    night(file, 1)
    old = file.read_bytes()
    night(file, 2)
    knows = Path(f"{file}.key.witness").read_bytes()
    homes = {at: at.read_bytes() for at in Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness")}
    file.write_bytes(old)
    for at in homes:
        at.unlink()
    Path(f"{file}.key.witness").unlink()
    accept_old_copy(file, None)
    with Stream.open(file, "a") as stream:
        stream.release_many([20, 30, 40])  # steps 2 to 4 in one commit
    for at, data in homes.items():
        at.write_bytes(data)
    Path(f"{file}.key.witness").write_bytes(knows)
    with pytest.raises(OldCopy, match="has another release in state"):
        night(file, 5)
    with Store(file) as store, pytest.raises(OldCopy, match="has another release in state"):
        store.position("a")
    with (
        Inbox(file, {"a": None}) as inbox,
        pytest.raises(OldCopy, match="has another release in state"),
        inbox._taking_in(["a"]),
    ):
        pass
    (known,) = (one for one in parse_entries(knows) if one["stream"] == "a")
    with pytest.raises(OldCopy, match="has another release in state"):
        witness_beside(file, None).check(Mark(known["key"], "a", 4), lambda _: None)
    assert verify(file)[0].old_copy


@pytest.mark.parametrize("damage", [b"", b"[{", b"\x00\xff junk", b"[" * 10**5, b'[{"step": 1}]'])
def test_a_damaged_second_witness_is_said(file: Path, damage: bytes, tmp_path: Path) -> None:
    night(file, 1)
    (second,) = Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness")
    right = second.read_bytes()
    second.write_bytes(damage)
    refused = f"witness {second} of state .* cannot be read"
    with pytest.raises(StateError, match=refused):
        night(file, 2)
    with Store(file) as store:
        with pytest.raises(StateError, match=refused):
            store.position("a")
        with pytest.raises(StateError, match=refused):
            store.reader("a").releases()
    with pytest.raises(StateError, match=refused):
        accept_old_copy(file, None)
    assert witness_remarks(file, None) == []  # said by whatever releases
    assert "cannot be read" in verify(file)[0].problems[0]
    second.write_bytes(right)
    night(file, 2)


def test_who_goes_back_to_a_place_leaves_the_other(file: Path, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for rows, named in enumerate((one, two, one, None, two), 1):
        night(file, rows, **({} if named is None else {"witness": named}))
    assert places_of(file) == {two: NAMED}
    assert not [*Path(one).iterdir()]
    (file_of_two,) = Path(two).iterdir()
    night(file, 6)
    assert max(entry["step"] for entry in parse_entries(file_of_two.read_bytes())) == 6


def test_a_place_by_another_name_stays(file: Path, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "w")
    night(file, 1, witness=tmp_path / "w")
    night(file, 2, witness=tmp_path / "link")
    night(file, 3)
    (kept,) = (tmp_path / "w").iterdir()
    assert max(entry["step"] for entry in parse_entries(kept.read_bytes())) == 3


@pytest.mark.parametrize("before", ["begin", "move_to", "_remember"])
def test_a_process_killed_while_the_witness_moves(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Before the new file, before the earlier one is gone, or before the state says so."""
    one, two = tmp_path / "one", tmp_path / "two"
    night(file, 1, witness=one)
    old = file.read_bytes(), Path(f"{file}.key.witness").read_bytes()
    night(file, 2)

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Witness if before == "_remember" else WitnessFile, before, dies)
        with pytest.raises(KeyboardInterrupt):
            night(file, 3, witness=two)
    newest = file.read_bytes(), Path(f"{file}.key.witness").read_bytes()
    for path, data in zip((file, Path(f"{file}.key.witness")), old, strict=True):
        path.write_bytes(data)
    refused = f"{two}/.* records that step 2|{one}/.* (is missing|records that step 2)"
    for more in ({}, {"witness": two}):
        with pytest.raises(StateError, match=refused):
            night(file, 9, **more)
    for path, data in zip((file, Path(f"{file}.key.witness")), newest, strict=True):
        path.write_bytes(data)
    if before == "_remember":
        with pytest.raises(StateUnavailable, match="is missing"):
            night(file, 9)
    night(file, 3, witness=two)
    assert places_of(file) == {str(two): NAMED}
    assert not [*one.iterdir()]


def test_a_move_that_was_cut_short_is_no_witness(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new place does not stand for the earlier one, which went on and is not mounted."""
    one, two = tmp_path / "one", tmp_path / "two"
    night(file, 1, witness=one)
    old = file.read_bytes(), Path(f"{file}.key.witness").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(WitnessFile, "move_to", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            night(file, 2, witness=two)
    night(file, 2)
    for path, data in zip((file, Path(f"{file}.key.witness")), old, strict=True):
        path.write_bytes(data)
    one.rename(tmp_path / "away")
    with pytest.raises(StateUnavailable, match="is missing"):
        night(file, 9, witness=two)


def test_who_waits_for_a_witness_that_is_moved_does_not_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves it between the opening of the file and its lock."""
    old, new = (WitnessFile(tmp_path / name / "a.witness", second=True) for name in ("old", "new"))
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
    assert [known["step"] for known in new.read()] == [1, 1]

"""Whatever is put back from earlier nights, in any order: a witness that knows is enough.

A world has a state, its key and its witness. Each of them may be put back from an earlier night by
itself, or lost; then other rows are released. No step is ever shown with two data sets, but where
the witness was put back too: what `docs/guarantees/details.md` lists.
"""

import itertools
import os
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from in_turn import in_turn
from states_put_back import Server
from worlds import Killed, dies, drawn_acts, nights

from counton import Key, PureDP, Stream
from counton.base.errors import StateError
from counton.job.job_file import load
from counton.run import Job, run
from counton.run.erasure import erase_older, erase_user
from counton.state import Store, verify
from counton.state.inbox import Inbox
from counton.state.rollback_guard import RollbackGuard, accept_old_copy
from counton.strategies import Binary

#: What docs/guarantees/details.md says that nobody notices: each is tried here, or where it says.
NOT_NOTICED = (
    "The rollback guard is restored together with the state",
    "A program passes its own `Key` to a state from before its first release",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_restored_parts_of_any_night_never_repeat_noise(tmp_path: Path, home: Path) -> None:
    world = nights(tmp_path / "w", home)
    sources = [None, *world.copies[1:]]  # of night 0 nothing is there
    first = dict(world.shown)
    known = dict(world.known)
    tried = 0
    alike = set[Any]()
    every = itertools.product(sources, repeat=len(world.parts))
    for chosen in in_turn(every, 1):
        tried += 1
        files = frozenset(
            (path, data)
            for name, copy in zip(world.parts, chosen, strict=True)
            for path, data in (copy[name].files.items() if copy else ())
        )
        if files in alike:  # a key is the same in each night
            continue
        alike.add(files)
        world.shown = dict(first)
        world.known = dict(known)
        for name, copy in zip(world.parts, chosen, strict=True):
            world.put_back(name, copy)
        world.read()
        world.release(100)
    assert len(alike) > tried / 4
    assert tried >= len(sources) ** len(world.parts) // 2
    assert world.unnoticed > 0  # where the witness was put back


@pytest.mark.parametrize("seed", range(int(os.environ.get("PUT_BACKS", "3"))))
def test_parts_put_back_in_any_order(tmp_path: Path, home: Path, seed: int) -> None:
    """With processes killed between commit and note."""
    world = nights(tmp_path / "w", home)
    for one in drawn_acts(random.Random(seed), 90):
        world.act(*one)


def test_model_detects_missing_rollback_guard_record(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is no echo of the code: without notes it finds a step twice."""
    monkeypatch.setattr(RollbackGuard, "note", lambda *_: None)
    world = nights(tmp_path / "w", home)
    world.put_back("state", world.copies[1])
    with pytest.raises(AssertionError, match="was shown twice"):
        world.release(100)


def night(state: Any, number: int, rows: int, folder: Path, **more: Any) -> None:
    """A day's rows, counted in the night after it."""
    events = folder / "visits.csv"
    times = [f"2024-03-0{day}T09:00" for day in range(1, number + 1)]
    events.write_text("\n".join(["time", *times, *[times[-1]] * rows]) + "\n")
    asked: dict[str, Any] = {"every": "1d", "start": "2024-03-01", "windows": 30, "epsilon": 1}
    asked |= {"stream": "visits", "time": "time", "until": f"2024-03-0{number + 1}", **more}
    run(Job("count", events, state, **asked)).close()


def test_a_folder_put_back_from_a_backup(tmp_path: Path, home: Path) -> None:
    """State and key of one night, whoever goes on: the witness knows more."""
    folder = tmp_path / "w"
    folder.mkdir()
    state = folder / "e.db"
    for number in (1, 2, 3):
        night(state, number, 0, folder)
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    night(state, 4, 5, folder)
    shutil.rmtree(folder)
    shutil.copytree(saved, folder)
    refused = f"{home}/counton/.* records that step 4 is released.*Restore the newest copy"
    (folder / "job.toml").write_text(
        '[jobs.visits]\nevents = "visits.csv"\ntime = "time"\nstate = "e.db"\n'
        'until = "2024-03-05"\n'
    )

    def by_file() -> None:
        run(load(folder / "job.toml")["visits"]).close()

    def by_service() -> None:
        with Store(state) as store:
            store.position("visits")

    def by_stream() -> None:
        Stream.open(state, "visits").close()

    def taken_in() -> None:
        inbox = Inbox(state)
        try:
            with inbox._taking_in(["visits"]):
                pass
        finally:
            inbox.close()

    def by_job() -> None:
        night(state, 4, 12, folder)

    for door in (by_job, by_file, by_service, by_stream, taken_in):
        with pytest.raises(StateError, match=refused):
            door()
    assert "records that step 4 is released" in " ".join(verify(state)[0].problems)
    shutil.rmtree(home)  # on another machine nobody can know
    refused = f"{home}/counton/.* is missing. It records the last releases"
    with pytest.raises(StateError, match=refused):
        by_job()
    (found,) = verify(state)
    assert found.old_copy
    assert "is missing. It records" in found.problems[0]
    assert accept_old_copy(state) == ("visits",)
    by_job()
    assert len([*home.glob("counton/*.witness")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_a_dump_and_the_folder_of_the_key_put_back(
    postgres: str, tmp_path: Path, home: Path, named: bool
) -> None:
    server = Server(postgres)
    folder = tmp_path / "w"
    folder.mkdir()
    more = {
        "key": folder / "my.key",
        **({"rollback_guard": tmp_path / "elsewhere"} if named else {}),
    }
    Key.generate().save(folder / "my.key")
    for number in (1, 2):
        night(postgres, number, 0, folder, **more)
    dump = server.saved()
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    night(postgres, 3, 5, folder, **more)
    server.put_back(dump)
    shutil.rmtree(folder)
    shutil.copytree(saved, folder)
    place = tmp_path / "elsewhere" if named else home / "counton"
    with pytest.raises(StateError, match=f"{place}/.* records that step 3 is released"):
        night(postgres, 3, 12, folder, **more)


def test_moved_state_is_checked_by_named_rollback_guards(tmp_path: Path, home: Path) -> None:
    """It is remembered; a state that is moved to another one is checked by both."""
    state = tmp_path / "e.db"
    one = tmp_path / "one"
    two = tmp_path / "two"
    night(state, 1, 0, tmp_path, rollback_guard=one)
    old = {path: path.read_bytes() for path in tmp_path.glob("e.db*")}
    night(state, 2, 0, tmp_path)
    assert not home.exists()
    assert len([*one.iterdir()]) == 1
    newest = {path: path.read_bytes() for path in tmp_path.glob("e.db*")}
    for path, data in old.items():
        path.write_bytes(data)
    for more in ({}, {"rollback_guard": two}):
        with pytest.raises(StateError, match=rf"{one}/.* records that step 2 is released"):
            night(state, 2, 9, tmp_path, **more)
    assert not two.exists()
    for path, data in newest.items():
        path.write_bytes(data)
    night(state, 3, 0, tmp_path, rollback_guard=two)
    for path, data in newest.items():
        path.write_bytes(data)
    with pytest.raises(StateError, match=rf"{two}/.* records that step 3 is released"):
        night(state, 3, 9, tmp_path, rollback_guard=two)
    with pytest.raises(StateError, match=rf"{one}/.* is missing"):
        night(state, 3, 9, tmp_path)


def test_a_folder_that_states_share(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "w"
    place = tmp_path / "witnesses"
    folder.mkdir()
    for name in ("e.db", "f.db"):  # it may be of several states
        night(folder / name, 1, 0, folder, rollback_guard=place)
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    night(folder / "e.db", 2, 5, folder)
    shutil.rmtree(folder)
    shutil.copytree(saved, folder)
    with pytest.raises(StateError, match=r"\.witness records that step 2 is released"):
        night(folder / "e.db", 2, 9, folder)
    night(folder / "f.db", 2, 9, folder)
    assert not home.exists()


def test_page_lists_undetected_restorations() -> None:
    page = " ".join(
        (Path(__file__).parents[2] / "docs" / "guarantees" / "details.md").read_text().split()
    )
    assert [said for said in NOT_NOTICED if said not in page] == []


def test_a_key_that_a_program_passes_itself(tmp_path: Path, home: Path) -> None:
    """Nobody notices that its state is put back from before it was made: it is a new one."""
    key = Key.generate()

    def first(rows: int) -> Any:
        folder = tmp_path / str(rows)
        folder.mkdir()
        with Stream.create(folder / "e.db", "a", Binary(8), PureDP(1), key=key) as stream:
            return stream.release(rows).value

    assert first(9) - first(2) == 7


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("until", ["2024-03-03", "2024-03-01T12:00"])
@pytest.mark.parametrize("older", [False, True])
def test_erased_user_is_not_restored_by_old_copy(
    tmp_path: Path, home: Path, until: str, older: bool, killed: bool
) -> None:
    """Where no step was released since, and before the first one too."""
    state = tmp_path / "w" / "e.db"
    events = tmp_path / "visits.csv"
    state.parent.mkdir()
    events.write_text("time,who\n2024-03-01T09:00,ann\n2024-03-02T09:00,bob\n")
    asked: dict[str, Any] = {"every": "1d", "start": "2024-03-01", "windows": 30, "epsilon": 1}
    asked |= {
        "user": "who",
        "max_contributions": 2,
        "contribution_period": "1d",
        "allow_empty_windows": True,
        "time": "time",
    }

    def go_on() -> None:
        run(Job("count", events, state, until=until, **asked)).close()

    def forgets(person: str) -> None:
        if older:
            erase_older(state, "1d", now=datetime(2024, 6, 1, tzinfo=UTC))
        else:
            erase_user(state, person)

    go_on()
    saved = tmp_path / "saved"
    shutil.copytree(state.parent, saved)
    if killed:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RollbackGuard, "note", dies)
            with pytest.raises(Killed):
                forgets("ann")
        go_on()  # which notes it
        forgets("bob")
    else:
        for person in ("ann", "bob"):
            forgets(person)
    go_on()
    shutil.rmtree(state.parent)
    shutil.copytree(saved, state.parent)
    before = state.read_bytes()
    refused = f"{home}/.* records that people were forgotten in stream 'count' 2 times since"
    with pytest.raises(StateError, match=refused):
        go_on()
    with Store(state) as store, pytest.raises(StateError, match=refused):
        store.position("count")
    assert state.read_bytes() == before
    assert "people were forgotten" in " ".join(verify(state)[0].problems)
    forgets("ann")
    with pytest.raises(StateError, match="'count' once since"):
        go_on()
    forgets("bob")
    go_on()
    assert all(one.right for one in verify(state))

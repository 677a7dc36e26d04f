"""A state put back from an old copy gives no noise a second time, and spends nothing twice.

Key and witness stay, newer than the copy. Whatever kind of release was forgotten, nothing
new is created in such a state, whoever asks; and of two copies that went on, one is stopped before
anybody is shown what it released.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import looked_into
from once import kept_line, kept_margins, kept_tree
from streams_of_events import release_events
from witnesses import witness_file

from counton import ZCDP, Average, ContributionBound, ExpiringDP, Key, PureDP, Stream, TopK
from counton.base.errors import BudgetExceededError, StateError
from counton.noise.guard_file import GuardFile, parse_entries
from counton.run import Job, run
from counton.state import Store, key_path, state_summary, verify
from counton.state.keys import KeySource
from counton.state.rollback_guard import RollbackGuard, accept_old_copy
from counton.strategies import Binary, Expiring

Make = Callable[[Path, str, Any], object]


def _stream(state: Path, name: str, key: KeySource = None) -> object:
    one = ContributionBound.add_remove(unit="event")
    with Stream.create(state, name, Binary(8), PureDP(1), key=key, contribution=one) as stream:
        return stream.release_many([3, 1]).values.tolist()


def _expiring(state: Path, name: str, key: KeySource = None) -> object:
    strategy = Expiring(1, 0)
    guarantee = ExpiringDP(1).bound_to(strategy)
    with Stream.create(state, name, strategy, guarantee, key=key) as stream:
        return stream.release(3).value


def _statistic(state: Path, name: str, key: KeySource = None) -> object:
    terms = Binary(7), PureDP(1)
    with Stream.create(
        state, name, *terms, statistic=Average(0, 9, resolution=1), key=key
    ) as stream:
        return release_events(stream, [3])[0].step


def _top(state: Path, name: str, key: KeySource = None) -> object:
    statistic = TopK(["a", "b"], k=1)
    with Stream.create(state, name, Binary(7), PureDP(1), statistic=statistic, key=key) as stream:
        return release_events(stream, ["a"])[0].step


def _line(state: Path, name: str, key: KeySource = None) -> object:
    return kept_line([5, 0, 7], state, name, key)


def _tree(state: Path, name: str, key: KeySource = None) -> object:
    return kept_tree(state, name, key)


def _contingency(state: Path, name: str, key: KeySource = None) -> object:
    return kept_margins(state, name, key)


def _job(state: Path, name: str, key: KeySource = None, **more: Any) -> object:
    events = state.with_name("visits.csv")
    events.write_text("time,page\n2024-03-01T09:00,a\n2024-03-02T10:00,b\n")
    asked: dict[str, Any] = {"group_by": "page", "groups": "a,b", "epsilon": 1, **more}
    request = Job(
        "count", events, state, time="time", every="1d", start="2024-03-01", windows=30,
        until="2024-03-03", stream=name, key=key, **asked,
    )  # fmt: skip
    with run(request) as outcome:
        return outcome.read().table().rows()


def _discovered(state: Path, name: str, key: KeySource = None) -> object:
    return _job(state, name, key, groups=None, unlisted_groups="discover", delta="1e-6")


MAKERS = [*(_stream, _expiring, _statistic, _top, _line, _tree, _contingency, _job, _discovered)]

#: Those that say where their key is kept.
JOBS = (_line, _tree, _contingency, _job, _discovered)


def begun(state: Path, key: KeySource = None) -> bytes:
    """A state with one stream, as it is to be put back later."""
    _stream(state, "first", key)
    return state.read_bytes()


def dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def put_back(state: Path, old: bytes) -> None:
    for part in ("-wal", "-shm"):
        Path(f"{state}{part}").unlink(missing_ok=True)
    state.write_bytes(old)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kept", ["beside", "file", "raw"])
def test_restored_copy_releases_no_forgotten_step(file: Path, make: Make, kept: str) -> None:
    if kept == "raw" and make in JOBS:
        pytest.skip("a request says where its key is kept")
    key: Any = {"beside": None, "file": file.with_name("my.key"), "raw": Key.generate()}[kept]
    old = begun(file, key)
    make(file, "second", key)
    put_back(file, old)
    for again in (make, _stream, _statistic if kept == "raw" else _line):
        for name in ("second", "third"):
            with pytest.raises(StateError, match=r"no release 'second', but .* records"):
                again(file, name, key)
    assert file.read_bytes() == old
    right = [one.name for one in verify(file, key=key) if one.right]
    assert right == ["first"]
    assert [one.name for one in verify(file, key=key) if one.kind == "forgotten"] == ["second"]


@pytest.mark.parametrize("make", [_stream, _statistic, _line])
def test_budget_holds_for_restored_copy_with_several_keys(file: Path, make: Make) -> None:
    """Streams of one state may have keys in several places; the state has one limit."""
    old = begun(file)
    make(file, "second", file.with_name("second.key"))
    put_back(file, old)
    keys: list[Any] = [None, file.with_name("second.key"), file.with_name("third.key")]
    for key in (*keys, *(() if make in JOBS else (Key.generate(),))):
        with pytest.raises(StateError, match="no release 'second'"):
            make(file, "third", key)
    assert not file.with_name("third.key").exists()


def test_stream_of_other_key_missing_in_copy_is_refused(file: Path) -> None:
    _job(file, "first")
    old = file.read_bytes()
    _job(file, "second", file.with_name("second.key"))
    newest = file.read_bytes()
    put_back(file, old)
    for name in ("second", "third"):
        with pytest.raises(StateError, match="no release 'second'"):
            _job(file, name)
    put_back(file, newest)
    with Store(file) as store:
        assert store.streams == ("first", "second")


def test_budget_holds_for_restored_copies(file: Path) -> None:
    """What the copy has forgotten stays spent."""

    def spend(name: str, epsilon: str) -> None:
        with Stream.create(file, name, Binary(8), PureDP(epsilon)) as stream:
            stream.release(1)

    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
    spend("first", "0.1")
    old = file.read_bytes()
    spend("second", "0.9")
    put_back(file, old)
    with pytest.raises(StateError, match=r"The privacy loss of those releases remains"):
        spend("third", "0.9")


def test_two_streams_created_in_two_copies(file: Path) -> None:
    """Neither is known to the witness before it releases; the second one then never does."""
    old = begun(file)
    Stream.create(file, "second", Binary(8), PureDP(1)).close()
    other = file.read_bytes()
    put_back(file, old)
    _line(file, "third")
    put_back(file, other)
    with Stream.open(file, "second") as stream:
        with pytest.raises(StateError, match="no release 'third'"):
            stream.release(1)
        assert stream.step == 0
    with Stream.open(file, "first") as stream:  # goes on: its guarantee is in both
        assert stream.release(1).step == 3


def test_an_empty_state_is_put_back(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(2))
    old = file.read_bytes()
    _stream(file, "first")
    put_back(file, old)
    for key in (None, key_path(file), Key.generate()):
        with pytest.raises(StateError, match="no release 'first'"):
            _stream(file, "second", key)


def test_a_state_that_was_moved(file: Path) -> None:
    begun(file)
    moved = file.with_name("moved.db")
    for part in ("", ".key"):
        shutil.copy2(f"{file}{part}", f"{moved}{part}")
    old = moved.read_bytes()
    _line(moved, "second")
    put_back(moved, old)
    for state in (moved, file):
        with pytest.raises(StateError, match="no release 'second'"):
            _line(state, "third")


def test_a_state_moved_and_then_restored(tmp_path: Path) -> None:
    """Its copies are the same state, wherever they lie; another state under its key is not."""
    key = tmp_path / "my.key"
    Key.generate().save(key)
    one = tmp_path / "one.db"
    two = tmp_path / "two.db"
    old = begun(one, key)
    _stream(one, "second", key)
    two.write_bytes(old)
    two.chmod(0o600)
    with pytest.raises(StateError, match="no release 'second'"):
        _stream(two, "third", key)
    _stream(tmp_path / "three.db", "second", key)


def test_each_release_has_a_key_of_its_own(file: Path) -> None:
    """So that a name which is used again, if all else fails, does not meet the same noise."""
    for number, make in enumerate((_stream, _top, _line, _tree)):
        make(file, f"release {number}", None)
    shown = state_summary(file)
    prints = [one["key_fingerprint"] for one in shown["streams"]]
    assert len(set(prints)) == 4
    assert all(one.right for one in verify(file))


def test_verify_reports_stream_created_again(file: Path) -> None:
    """While the witness was away."""
    old = begun(file)
    witness = witness_file(file)
    _stream(file, "second")
    put_back(file, old)
    away = witness.read_bytes()
    witness.unlink()
    assert accept_old_copy(file) == ("first",)
    _stream(file, "second")
    assert all(one.right for one in verify(file))
    witness.write_bytes(away)
    for name in ("second", None):
        wrong = {(one.name, one.kind) for one in verify(file, name) if not one.right}
        assert wrong == {("second", "forgotten"), ("second", "stream")}
    assert all(one.right for one in verify(file, "first"))


@pytest.mark.parametrize("make", [_stream, _statistic, _line])
def test_release_without_record_is_recorded_by_next_reader(
    file: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens or shows the release next notes it."""
    old = begun(file)
    with monkeypatch.context() as patched:
        patched.setattr(RollbackGuard, "note", dies)
        with pytest.raises(KeyboardInterrupt):
            make(file, "second", None)
    if make is _line:
        make(file, "second", None)
    else:
        Stream.open(file, "second").close()
    put_back(file, old)
    with pytest.raises(StateError, match="no release 'second'"):
        make(file, "second", None)


def test_two_copies_that_are_open_at_once(file: Path) -> None:
    """The later of them is stopped before it commits, or before anybody is shown what it did."""
    key = file.with_name("my.key")
    other = file.with_name("other.db")
    begun(file, key)
    shutil.copy2(file, other)
    with Stream.open(file, "first", key=key) as stream, Stream.open(other, "first", key=key) as two:
        stream.release_many([1, 1])
        with pytest.raises(StateError, match=r"is at step 2, .* records that step 4 is released"):
            two.release(5)
        assert two.step == 2


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_copy_that_commits_at_the_same_moment(
    file: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Between the look at the witness and the commit: noticed when it is to be noted."""
    key = file.with_name("my.key")
    other = file.with_name("other.db")
    begun(file, key)
    shutil.copy2(file, other)
    with (
        monkeypatch.context() as patched,
        Stream.open(file, "first", key=key) as stream,
        Stream.open(other, "first", key=key) as two,
    ):
        patched.setattr(RollbackGuard, "check", lambda *_, **__: None)
        stream.release_many([9, 9])
        with pytest.raises(StateError, match="has another release in state"):
            two.release_many([1] * steps)
    with pytest.raises(StateError):
        Stream.open(other, "first", key=key)


def test_an_equal_step_with_another_digest_is_refused(tmp_path: Path) -> None:
    witness = GuardFile(tmp_path / "witness")
    entry = {"key": "key", "state": "s", "stream": "a", "step": 2, "digest": "one"}

    def noted(digest: str) -> int | None:
        return witness.note(
            {**entry, "digest": digest}, lambda old: bool(old["digest"] == digest), make=True
        )

    assert [noted(digest) for digest in ("one", "one", "two")] == [None, None, 2]
    assert parse_entries(witness.path.read_bytes())[0]["digest"] == "one"


def test_budget_alone_refuses_streams_not_forgotten(file: Path) -> None:
    """The gate is no second ledger: what is not forgotten is refused by the limit alone."""
    with Store(file, create=True) as store:
        store.set_budget(ZCDP(1))
    with Stream.create(file, "first", Binary(8), ZCDP("0.6")) as stream:
        stream.release(1)
    with pytest.raises(BudgetExceededError):
        Stream.create(file, "second", Binary(8), ZCDP("0.6"))


@pytest.mark.parametrize("make", [_stream, _statistic, _line])
def test_on_a_server_whose_key_has_a_file(postgres: str, tmp_path: Path, make: Make) -> None:
    """As if the database had been restored from a dump: the key's witness stays."""
    state: Any = postgres
    key = tmp_path / "my.key"
    _stream(state, "first", key)
    make(state, "second", key)
    with looked_into(state) as connection:
        later = connection.value("SELECT id FROM counton_streams WHERE name = 'second'")
        for table in ("journal", "observed", "sources", "marks", "names"):
            connection.execute(f"DELETE FROM counton_{table} WHERE stream_id = :id", id=later)  # noqa: S608 - a table
        for table in ("streams", "ledger"):
            connection.execute(f"DELETE FROM counton_{table} WHERE name = 'second'")  # noqa: S608 - a table
    for again in (make, _stream, _line):
        for name in ("second", "third"):
            with pytest.raises(StateError, match="no release 'second'"):
                again(state, name, key)
    assert [one.name for one in verify(state, key=key) if one.kind == "forgotten"] == ["second"]


def test_unrecorded_release_is_recorded_when_it_is_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was killed between commit and note; then the state is put back."""
    old = begun(file)
    with monkeypatch.context() as patched:
        patched.setattr(RollbackGuard, "note", dies)
        with pytest.raises(KeyboardInterrupt), Stream.open(file, "first") as stream:
            stream.release(5)
    with Store(file) as store:
        shown = store.reader("first").releases()
    assert shown.steps.stop == 4
    put_back(file, old)
    with pytest.raises(StateError, match=r"records that step 3 is released"):
        Stream.open(file, "first")


def test_copy_with_unrecorded_last_release_is_not_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was released with other data in the copy that went on."""
    old = begun(file)
    with monkeypatch.context() as patched:
        patched.setattr(RollbackGuard, "note", lambda *_, **__: None)
        with Stream.open(file, "first") as stream:
            stream.release(50)
    forgotten = file.read_bytes()
    put_back(file, old)
    for value in (1, 2):
        with Stream.open(file, "first") as stream:
            stream.release(value)
    newest = file.read_bytes()
    put_back(file, forgotten)
    with Store(file) as store, pytest.raises(StateError, match="has another release"):
        store.reader("first").releases()
    (described,) = state_summary(file)["streams"]
    assert described["last"] is None
    assert "has another release" in described["refused"]
    put_back(file, old)  # what is forgotten here was released, and may be seen
    with Store(file) as store:
        reader = store.reader("first")
        assert len(reader.releases()) == 2
        assert "records that step 4 is released" in str(reader.rollback_suspicion())
    put_back(file, newest)
    with Stream.open(file, "first") as stream:
        assert stream.release(3).step == 5

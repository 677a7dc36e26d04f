"""Where keys are kept, and the witness that notices a state restored from an old copy."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from once import kept_line
from witnesses import witness_file

from counton import Key, PureDP, Stream
from counton.base.errors import InvalidInputError, NoiseKeyError, StateError
from counton.noise.guard_file import GuardFile, parse_entries
from counton.noise.key import give_name
from counton.state import key_path, state_summary, verify
from counton.state.rollback_guard import accept_old_copy
from counton.strategies import KAry

STRATEGY = KAry(1000, 5, subtraction=True)


def create(state: object, name: str = "a", **more: object) -> Stream:
    return Stream.create(state, name, STRATEGY, PureDP(1), **more)  # type: ignore[arg-type]


class TestWitness:
    """It is away from the state, and knows how far each stream was."""

    def test_a_state_restored_from_an_old_copy_is_refused(self, file: Path) -> None:
        with create(file) as stream:
            stream.release_many([1, 2, 3])
        shutil.copy(file, f"{file}.old")
        with Stream.open(file, "a") as stream:
            stream.release_many([4, 5])
        newest = file.read_bytes()
        shutil.copy(f"{file}.old", file)
        with pytest.raises(StateError, match=r"is at step 3, .* records that step 5 is released"):
            Stream.open(file, "a")
        assert file.read_bytes() == Path(f"{file}.old").read_bytes()
        file.write_bytes(newest)
        with Stream.open(file, "a") as stream:
            assert stream.release(6).step == 6

    def test_a_copy_that_was_continued_elsewhere_is_refused(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with create(file) as stream:
            stream.release_many([1, 2, 3])
        elsewhere = file.with_name("elsewhere.db")
        for old, new in ((file, elsewhere), (key_path(file), key_path(elsewhere))):
            shutil.copy2(old, new)
        away = witness_file(file).rename(tmp_path / "away")
        with monkeypatch.context() as patched:  # another machine
            patched.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
            assert accept_old_copy(elsewhere) == ("a",)
            with Stream.open(elsewhere, "a") as stream:
                stream.release_many([40, 50, 60])
        witness = witness_file(file)
        away.rename(witness)
        with Stream.open(file, "a") as stream:
            stream.release_many([4, 5])
        shutil.copy(elsewhere, file)
        for place in (None, witness.parent):
            with pytest.raises(
                StateError, match=r"step 5 .*has another release .*than .* records|step 6 is rel"
            ):
                Stream.open(file, "a", rollback_guard=place)

    def test_rollback_guard_that_is_behind_is_updated(self, file: Path) -> None:
        with create(file) as stream:
            stream.release_many([1, 2, 3])
        witness = witness_file(file)
        behind = witness.read_bytes()
        with Stream.open(file, "a") as stream:
            stream.release(4)
        for content in (behind, behind + b"]"):  # killed before it was cut to its length
            witness.write_bytes(content)
            Stream.open(file, "a").close()
        assert '"step": 4' in witness.read_text()

    def test_rollback_guard_is_created_after_kill_at_start(
        self, file: Path, tmp_path: Path
    ) -> None:
        create(file, rollback_guard=tmp_path).close()
        witness = witness_file(file)
        witness.unlink()
        Path(f"{witness}.new").write_text("left by a process that was killed, and longer" * 20)
        accept_old_copy(file, tmp_path)
        assert '"step": 0' in witness.read_text()
        assert not Path(f"{witness}.new").exists()

    def test_verify_reports_forgotten_steps_of_old_copy(self, file: Path) -> None:
        with create(file) as stream:
            stream.release_many([1, 2, 3])
        shutil.copy(file, f"{file}.old")
        with Stream.open(file, "a") as stream:
            stream.release_many([4, 5])
        with create(file, "b") as stream:
            stream.release(1)
        kept_line([1, 2], file)
        assert all(one.right for one in verify(file))
        shutil.copy(f"{file}.old", file)
        old, *forgotten = verify(file)
        assert "records that step 5 is released" in " ".join(old.problems)
        assert [one.name.split()[0] for one in forgotten] == ["b", "line"]
        assert not any(one.right for one in forgotten)
        assert len(verify(file, "a")) == 1

    def test_rollback_guard_keeps_newest_step_of_each_stream(self, tmp_path: Path) -> None:
        witness = GuardFile(tmp_path / "witness")
        facts = {"key": "key", "state": "visits.db", "past": [], "forgotten": 0}
        witness.begin([{**facts, "stream": "b", "step": 1, "digest": "digest 1"}])
        for stream, step in (("a", 2), ("b", 9), ("a", 3), ("a", 1)):
            entry = {**facts, "stream": stream, "step": step, "digest": f"digest {step}"}
            assert witness.note(entry, lambda _: True) is None
        found = {
            (one["stream"], one["step"]): one["past"]
            for one in parse_entries(witness.path.read_bytes())
        }
        assert found == {("a", 3): [[2, "digest 2"]], ("b", 9): [[1, "digest 1"]]}

    def test_rollback_guard_is_private_and_holds_no_secret(self, file: Path) -> None:
        with create(file) as stream:
            stream.release(123_456)
        path = witness_file(file)
        assert path.stat().st_mode & 0o777 == 0o600
        assert Key.load(key_path(file))._secret.hex() not in path.read_text()
        assert "123456" not in path.read_text()

    def test_named_key_of_lost_state_starts_no_new_state(self, file: Path) -> None:
        key = file.with_name("my.key")
        with create(file, key=key) as stream:
            stream.release(1)
        file.unlink()
        for name in ("a", "another name"):  # the limit would forget what the lost one spent
            with pytest.raises(
                StateError, match=r"records 1 step of it as released, .* restore the"
            ):
                create(file, name, key=key)
        assert not file.exists()
        create(file.with_name("another.db"), key=key).close()

    def test_deleted_state_and_key_allow_new_stream(self, file: Path) -> None:
        with create(file) as stream:
            first = stream.release(1).value
        for path in (file, key_path(file)):
            path.unlink()
        with create(file) as stream:  # under another key; the ledger has forgotten the first one
            assert stream.release(1).value != first

    def test_damaged_rollback_guard_of_other_state_stops_no_creation(
        self, file: Path, tmp_path: Path
    ) -> None:
        Key.generate().save(tmp_path / "my.key")
        create(tmp_path / "other.db", key=tmp_path / "my.key").close()
        witness_file(tmp_path / "other.db").write_text("[")
        create(file, key=tmp_path / "my.key").close()

    def test_loaded_key_gives_noise_to_one_state(self, tmp_path: Path) -> None:
        path = tmp_path / "my.key"
        Key.generate().save(path)
        with create(tmp_path / "one.db", key=Key.load(path)) as stream:
            stream.release(1)
        with pytest.raises(StateError, match="records 1 step of it as released"):
            create(tmp_path / "two.db", key=Key.load(path))
        create(tmp_path / "one.db", "b", key=Key.load(path)).close()
        create(tmp_path / "two.db", key=path).close()  # a key of its own


class TestPrepared:
    """A key that was there before the state gives it one of its own."""

    def test_each_state_has_noise_of_its_own(self, tmp_path: Path) -> None:
        key = tmp_path / "prepared.key"
        Key.generate().save(key)
        shown = []
        for name in ("one.db", "two.db"):
            with create(tmp_path / name, key=key) as stream:
                stream.release_many(np.zeros(50, np.int64))
            with Stream.open(tmp_path / name, "a", key=key) as stream:
                shown.append(stream.releases().values.tolist())
        assert shown[0] != shown[1]
        prints = {
            state_summary(tmp_path / name)["streams"][0]["key_fingerprint"]
            for name in ("one.db", "two.db")
        }
        assert len(prints | {Key.load(key).fingerprint}) == 3

    def test_another_prepared_key_is_refused(self, tmp_path: Path) -> None:
        one = tmp_path / "one.key"
        two = tmp_path / "two.key"
        for path in (one, two):
            Key.generate().save(path)
        create(tmp_path / "s.db", key=one).close()
        with pytest.raises(NoiseKeyError, match="was created with the key"):
            Stream.open(tmp_path / "s.db", "a", key=two)

    def test_prepared_key_gives_equal_noise_to_tables(self, tmp_path: Path) -> None:
        key = tmp_path / "prepared.key"
        Key.generate().save(key)
        os.environ["COUNTON_TEST_KEY"] = key.read_text()
        try:
            first = [
                kept_line([5] * 64, tmp_path / name, key=kept)
                for name, kept in (("1.db", key), ("2.db", "env:COUNTON_TEST_KEY"))
                for _ in range(2)
            ]
        finally:
            del os.environ["COUNTON_TEST_KEY"]
        assert first[0] == first[1] != first[2] == first[3]


class TestElsewhere:
    """An environment variable or a vault's client has the key."""

    @pytest.fixture
    def text(self, tmp_path: Path) -> str:
        Key.generate().save(tmp_path / "vault")
        return (tmp_path / "vault").read_text()

    def test_key_is_read_from_environment_variable(
        self, file: Path, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VISITS_KEY", text)
        create(file, key="env:VISITS_KEY").close()
        with Stream.open(file, "a", key="env:VISITS_KEY") as stream:
            assert stream.release(1).step == 1
        assert not key_path(file).exists()
        monkeypatch.setenv("VISITS_KEY", "secret words")
        with pytest.raises(
            NoiseKeyError, match="variable 'VISITS_KEY' does not hold a counton key"
        ) as e:
            Stream.open(file, "a", key="env:VISITS_KEY")
        assert "secret words" not in str(e.value)
        monkeypatch.delenv("VISITS_KEY")
        with pytest.raises(NoiseKeyError, match="'VISITS_KEY', which is not set: set it to the"):
            Stream.open(file, "a", key="env:VISITS_KEY")

    def test_key_is_read_from_command(self, file: Path, text: str, tmp_path: Path) -> None:
        def printing(what: str) -> str:
            return f"command:{shlex.quote(sys.executable)} -c {shlex.quote(what)}"

        kept = printing(f"print(open({str(tmp_path / 'vault')!r}).read())")
        create(file, key=kept).close()
        with Stream.open(file, "a", key=kept) as stream:
            assert stream.release(1).step == 1
        for wrong, words in (
            (printing("raise SystemExit(3)"), "ended with exit code 3"),
            (printing("print('secret words')"), "printed does not hold a counton key"),
            ("command:no-such-program-anywhere", "No such file or directory"),
            ("command:'", "a quotation mark is not closed, or no command is named"),
            ("command:", "a quotation mark is not closed, or no command is named"),
        ):
            with pytest.raises(NoiseKeyError, match=words) as error:
                Stream.open(file, "a", key=wrong)
            assert "secret words" not in str(error.value)

    def test_lost_state_with_key_from_environment_is_refused(
        self, file: Path, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VISITS_KEY", text)
        with create(file, key="env:VISITS_KEY") as stream:
            stream.release(1)
        file.unlink()
        with pytest.raises(StateError, match="restore the newest copy of the state"):
            create(file, key="env:VISITS_KEY")


def test_a_key_waits_where_its_name_leads_to_no_file(tmp_path: Path) -> None:
    """A vault that is not there: the state is used with the key that waits."""
    state = tmp_path / "s.db"
    os.symlink(tmp_path / "vault" / "s.key", f"{state}.key")
    with create(state) as stream:
        stream.release(3)
    with Stream.open(state, "a") as stream:
        assert stream.release(4).step == 2
    (waiting,) = tmp_path.glob("s.db.key.new-*")
    assert waiting.is_file()


def test_a_file_that_is_gone_gets_no_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        give_name(tmp_path / "waiting", tmp_path / "name")


def test_an_empty_text_names_no_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="key is empty: give a file"):
        create(tmp_path / "s.db", key="")
    assert not list(tmp_path.iterdir())


def test_rollback_guard_reveals_nothing_of_released_values(file: Path) -> None:
    """Neither how many cells there are that are not shown nor their values: it is keyed."""
    found = []
    for name in ("one", "two"):
        state = file.with_name(f"{name}.db")
        with Stream.create(state, "a", STRATEGY, PureDP(10**6)) as stream:  # noise is 0
            assert stream.release(7).value == 7
        _, entry = json.loads(witness_file(state).read_bytes())
        found.append(entry["digest"])
    assert found[0] != found[1]

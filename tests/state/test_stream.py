"""A durable stream releases what its counter would, once, and answers from its journal."""

import gc
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observed_windows import observed_of

from counton import ContributionBound, Counter, Key, PureDP, Stream
from counton.base.errors import (
    ConcurrentWriterError,
    HorizonExceededError,
    InputChangedError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    SumOverflowError,
)
from counton.base.private import Private
from counton.noise import InsecureSeededKey
from counton.state import Store, key_path, state_summary
from counton.state.commit_input import CommitInput
from counton.state.keys import key_of_new_stream
from counton.strategies import Binary, KAry

pytestmark = pytest.mark.filterwarnings("ignore::counton.noise.key.InsecureKeyWarning")

STRATEGY = KAry(horizon=400, arity=5, subtraction=True)
XS = np.random.default_rng(5).integers(0, 30, (300, 4))


@pytest.fixture
def key() -> Key:
    return InsecureSeededKey(11)


def create(state: str | Path, key: Key, name: str = "visits", **more: Any) -> Stream:
    return Stream.create(state, name, STRATEGY, PureDP(1), key=key, shape=(4,), **more)


@pytest.fixture
def parts(state: str, key: Key) -> list[tuple[int, int]]:
    """Create a stream, to be released in these parts."""
    create(state, key).close()
    return [(0, 1), (1, 2), (2, 7), (7, 7), (7, 200), (200, 300)]


def uncut_counter(key: Key) -> Counter:
    """Return a counter in memory with the noise of the stream."""
    return Counter(STRATEGY, PureDP(1), key=key, name="visits", shape=(4,))


def test_stream_released_in_parts_equals_counter(
    state: str, key: Key, parts: list[tuple[int, int]]
) -> None:
    expected = uncut_counter(key).release_many(XS)
    values = []
    for start, stop in parts:
        with Stream.open(state, "visits", key=key) as stream:
            assert stream.step == start
            releases = stream.release_many(XS[start:stop])
            assert releases.steps == range(start + 1, stop + 1)
            assert stream.step == stop
            values.append(releases.values)
    assert np.array_equal(np.concatenate(values), expected.values)


def test_stream_releases_single_steps_as_counter_does(state: str, key: Key) -> None:
    expected = uncut_counter(key).release_many(XS)
    create(state, key).close()
    for step in (1, 2):
        with Stream.open(state, "visits", key=key) as stream:
            release = stream.release(XS[step - 1])
        assert release.step == step
        assert release.std == expected.std()[step - 1]
        assert np.array_equal(release.value, expected.values[step - 1])


def test_journal_returns_released_values_and_errors(
    state: str, key: Key, parts: list[tuple[int, int]]
) -> None:
    counter = uncut_counter(key)
    expected = counter.release_many(XS)
    with Stream.open(state, "visits", key=key) as stream:
        for start, stop in parts:
            stream.release_many(XS[start:stop])
    with Stream.open(state, "visits", key=key) as stream:
        journal = stream.releases()
        assert journal.steps == expected.steps
        assert journal.values.dtype == expected.values.dtype
        assert np.array_equal(journal.values, expected.values)
        assert np.array_equal(journal.std(), expected.std())
        assert np.array_equal(stream.releases(20, 31).values, expected.values[19:30])
        assert len(stream.releases(5, 5)) == 0
        assert stream.design == counter.design
        assert stream.describe() == counter.describe()


def test_scalar_releases_are_numbers_and_real_values_are_exact(file: Path, key: Key) -> None:
    clipped = ContributionBound.values(0, 10, resolution=0.1)
    counter = Counter(Binary(50), PureDP(1), key=key, name="takings", contribution=clipped)
    expected = counter.release_many([0.1 + 0.2, 7.5, 3.0])
    with Stream.create(
        file, "takings", Binary(50), PureDP(1), key=key, contribution=clipped
    ) as stream:
        first = stream.release(0.1 + 0.2)
        assert isinstance(first.value, float)
        stream.release_many([7.5, 3])
        values = stream.releases().values
        assert values.dtype == np.float64
        assert values.tobytes() == expected.values.tobytes()
        # the same exact total, written in another way, is the same input
        assert stream.replay(1, 0.3).value == first.value
    with Stream.create(file, "clicks", Binary(50), PureDP(1), key=key) as stream:
        assert type(stream.release(3).value) is int


def test_replay_answers_the_same_input_and_refuses_another(state: str, key: Key) -> None:
    with create(state, key) as stream:
        shown = stream.release_many(XS[:20])
        for step in (1, 13, 20):
            assert np.array_equal(stream.replay(step, XS[step - 1]).value, shown.values[step - 1])
        changed = XS[12].copy()
        changed[2] += 1
        with pytest.raises(InputChangedError, match="step 13 was released from another input"):
            stream.replay(13, changed)
        with pytest.raises(InputChangedError, match="step 13 "):  # another step's input
            stream.replay(13, XS[13])
        with pytest.raises(
            InvalidInputError, match=r"step is 21; .*between 1 and 20: .*not released"
        ):
            stream.replay(21, XS[20])
        with pytest.raises(InvalidInputError, match=r"step is 0; .*between 1 and 20"):
            stream.replay(0, XS[0])
        assert stream.step == 20


def test_repeated_release_with_first_step_adds_only_new_steps(file: Path, key: Key) -> None:
    expected = (
        Counter(STRATEGY, PureDP(1), key=key, name="visits", shape=(4,))
        .release_many(XS[:12])
        .values
    )
    with create(file, key) as stream:
        stream.release_many(XS[:5], first_step=1)
        stream.release_many(XS[:5], first_step=1)
        assert stream.step == 5
        overlapping = stream.release_many(XS[3:12], first_step=4)
        assert overlapping.steps == range(4, 13)
        assert np.array_equal(overlapping.values, expected[3:])
        assert stream.release(XS[11], step=12).step == 12
        assert stream.step == 12
        with pytest.raises(InvalidInputError, match=r"first step is 14; .*between 1 and 13"):
            stream.release(XS[13], step=14)
        wrong = XS[10:14].copy()
        wrong[1] += 1
        with pytest.raises(InputChangedError, match="step 12"):
            stream.release_many(wrong, first_step=11)
        assert stream.step == 12


@pytest.mark.parametrize(
    ("xs", "error", "match"),
    [
        ([[1, 2, 3]], InvalidInputError, "shape"),
        (7, InvalidInputError, "shape"),
        ([[1, 2, 3, 4], [1]], InvalidInputError, "cannot be made an array"),
        ([[1, 2, 3, None]], InvalidInputError, None),
        ([["a", "b", "c", "d"]], InvalidInputError, None),
        ([[1, 2, 3, -1]], InvalidInputError, "-1"),
        ([[1.0, 2, 3, float("nan")]], InvalidInputError, "nan"),
        ([[1, 2, 3, 4.5]], InvalidInputError, "resolution"),
        (np.ones((401, 4), dtype=int), HorizonExceededError, "last of the 400"),
        ([[1, 2, 3, 2**62]], SumOverflowError, None),
        (
            np.ma.array([[1, 2, 3, 4]], mask=[[False, False, True, False]]),
            InvalidInputError,
            "masked",
        ),
        ([[1, 2, 3, 4], [1, 2, 3, 2**70]], SumOverflowError, None),
    ],
)
def test_bad_input_releases_nothing_and_changes_nothing(
    file: Path, key: Key, xs: Any, error: type[Exception], match: str | None
) -> None:
    with create(file, key) as stream:
        stream.release_many(XS[:3])
        before = _dump(file)
        with pytest.raises(error, match=match):
            stream.release_many(xs)
        assert stream.step == 3
        assert _dump(file) == before
        reference = Counter(STRATEGY, PureDP(1), key=key, name="visits", shape=(4,))
        reference.release_many(XS[:3])
        assert np.array_equal(stream.release(XS[3]).value, reference.release(XS[3]).value)


def test_one_masked_total_is_refused(file: Path, key: Key) -> None:
    hidden: Any = [1, 2, np.ma.masked, 4]
    with create(file, key) as stream:
        with pytest.raises(InvalidInputError, match="masked"):
            stream.release(np.ma.array([1, 2, 3, 4], mask=[False, False, True, False]))
        with pytest.raises(
            InvalidInputError, match="element 3 of element 1 of the inputs has 1 masked"
        ):
            stream.release_many([hidden])
        with pytest.raises(InvalidInputError, match="masked"):
            stream.commit(Private(CommitInput(totals_by_window={1: hidden})))
        assert stream.step == 0
        assert stream.release(np.ma.array([1, 2, 3, 4])).step == 1


def test_a_failed_commit_undoes_the_release(
    state: str, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counton.state import journal

    expected = (
        Counter(STRATEGY, PureDP(1), key=key, name="visits", shape=(4,)).release_many(XS[:6]).values
    )
    with create(state, key) as stream:
        stream.release_many(XS[:3])
        with monkeypatch.context() as patch:
            patch.setattr(journal, "write_observed", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                stream.release_many(XS[3:5])
        assert stream.step == 3
        with pytest.raises(InvalidInputError):
            stream.releases(1, 5)
        assert np.array_equal(stream.release_many(XS[3:6]).values, expected[3:])
        assert np.array_equal(stream.releases().values, expected)


def test_interrupt_after_commit_keeps_released_step(
    file: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(file, key) as stream:
        commit = Stream._write_transaction

        def commit_and_die(*arguments: Any) -> None:
            commit(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Stream, "_write_transaction", commit_and_die)
            with pytest.raises(KeyboardInterrupt):
                stream.release(XS[0])
        with pytest.raises(StateError, match=r"is at step 1, not 0: open it again"):
            stream.release(XS[0])
    with Stream.open(file, "visits", key=key) as stream:
        assert stream.release(XS[0], step=1).step == 1
        assert stream.step == 1


def test_observed_totals_are_kept_and_replaced_by_later_ones(state: str, key: Key) -> None:
    with create(state, key) as stream:
        windows = {step: XS[step - 1] for step in range(1, 6)}
        stream.commit(Private(CommitInput(XS[:5], totals_by_window=windows)))
        later = {5: XS[4] + 1, 6: np.array([[1, 2], [3, -4]])}
        stream.commit(Private(CommitInput(totals_by_window=later)))
        assert stream.step == 5
    with Stream.open(state, "visits", key=key) as stream:
        kept = observed_of(stream)
        assert sorted(kept) == [1, 2, 3, 4, 5, 6]
        assert np.array_equal(kept[5], XS[4] + 1)
        assert np.array_equal(kept[6], [[1, 2], [3, -4]])


def test_source_is_counted_once_and_remembered(state: str, key: Key) -> None:
    with create(state, key) as stream:
        stream.commit(Private(CommitInput(XS[:5], sources=["a", "b"])))
        stream.commit(Private(CommitInput(sources=["c"])))
        with pytest.raises(InputChangedError, match="source b has been counted already"):
            stream.commit(
                Private(CommitInput(XS[5:6], totals_by_window={6: XS[5]}, sources=["d", "b"]))
            )
        assert stream.step == 5
        assert not stream.has_source("d")
    with Stream.open(state, "visits", key=key) as stream:
        assert stream.has_source("a")
        assert stream.has_source("c")
        assert sorted(observed_of(stream)) == []
        stream.commit(Private(CommitInput(XS[5:6], sources=["d"])))
        assert stream.has_source("d")


def test_observed_totals_of_wrong_step_or_type_are_refused(state: str, key: Key) -> None:
    with create(state, key) as stream:
        with pytest.raises(InvalidInputError, match="window 0 "):
            stream.commit(Private(CommitInput(totals_by_window={0: XS[0]})))
        with pytest.raises(InvalidInputError, match="dtype float64"):
            stream.commit(Private(CommitInput(totals_by_window={1: XS[0] / 2})))


def test_streams_of_one_database_do_not_touch_each_other(state: str, key: Key) -> None:
    with create(state, key, "a") as a, create(state, key, "b") as b:
        a.release_many(XS[:5])
        b.release_many(XS[:3])
        a.commit(Private(CommitInput(XS[5:6], sources=["s"])))
        assert (a.step, b.step) == (6, 3)
        assert not b.has_source("s")
        # one key, other name: other noise
        assert not np.array_equal(a.releases(1, 4).values, b.releases().values)
    with Store(state) as store:
        assert store.streams == ("a", "b")
    with pytest.raises(StateError, match=r"no stream 'c'; it has 'a', 'b'"):
        Stream.open(state, "c", key=key)
    with pytest.raises(StateError, match="has a stream 'a' already"):
        create(state, key, "a")


def test_wrong_key_is_refused_without_stopping_writer(state: str, key: Key) -> None:
    with create(state, key) as stream:
        stream.release(XS[0])
        with pytest.raises(NoiseKeyError, match=key.fingerprint):
            Stream.open(state, "visits", key=Key.generate())
        assert stream.release(XS[1]).step == 2


def test_later_writer_replaces_earlier_one(state: str, key: Key) -> None:
    first = create(state, key)
    first.release(XS[0])
    second = Stream.open(state, "visits", key=key)
    with pytest.raises(ConcurrentWriterError, match=r"opened by another process.*released nothing"):
        first.release(XS[1] + 1)
    with pytest.raises(ConcurrentWriterError):
        first.release(XS[1])
    with pytest.raises(ConcurrentWriterError):
        first.commit(Private(CommitInput(totals_by_window={1: XS[0]})))
    assert second.release(XS[1]).step == 2
    with pytest.raises(ConcurrentWriterError):
        first.release(XS[2])
    assert second.step == 2
    first.close()
    second.close()


def test_a_fork_must_open_its_own_handle(file: Path, key: Key) -> None:
    with create(file, key) as stream:
        stream.database._owner += 1
        with pytest.raises(ConcurrentWriterError, match="open the state anew in each process"):
            stream.release(XS[0])
        stream.database._owner = os.getpid()
        assert stream.release(XS[0]).step == 1


def test_threads_take_turns(file: Path, key: Key) -> None:
    with create(file, key) as stream:
        threads = [
            threading.Thread(target=lambda: [stream.release(XS[0]) for _ in range(10)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stream.step == 40
        expected = Counter(STRATEGY, PureDP(1), key=key, name="visits", shape=(4,))
        assert np.array_equal(
            stream.releases().values, expected.release_many(np.array([XS[0]] * 40)).values
        )


def test_closed_stream_handle_is_refused(file: Path, key: Key) -> None:
    stream = create(file, key)
    stream.close()
    stream.close()
    with pytest.raises(StateError, match="is closed"):
        stream.release(XS[0])


def test_a_state_that_is_dropped_is_closed(
    file: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Python closes it whenever it comes to it, and warns where it is new enough."""
    plain = sqlite3.connect
    made = list[sqlite3.Connection]()

    def connect(*args: Any, **more: Any) -> sqlite3.Connection:
        made.append(plain(*args, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    stream = create(file, key)
    stream.release(XS[0])
    del stream
    gc.collect()
    assert made
    for connection in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_description_has_no_secrets(state: str, key: Key) -> None:
    secret_sums = np.array([123456789, 987654321, 192837465, 918273645])
    with create(state, key, public_facts={"groups": ["AA", "UA", "DL", "WN"]}) as stream:
        assert state_summary(state)["streams"][0]["last"] is None
        release = stream.commit(
            Private(CommitInput(secret_sums[np.newaxis], totals_by_window={1: secret_sums}))
        )
        terms = stream.design.to_dict()
        assert release is not None
        shown = state_summary(state)  # needs no key and does not disturb the writer
        stream.release(XS[0])
    (described,) = shown["streams"]
    distribution = {**terms["law"], "grid": "1"}  # in units of the data
    assert described["terms"] == {**terms, "law": distribution}
    assert described["step"] == 1
    assert described["last"]["values"] == release.values[0].tolist()
    assert described["last"]["std"] == release.std()[0]
    assert described["details"]["groups"] == ["AA", "UA", "DL", "WN"]
    assert described["key_fingerprint"] == key.fingerprint
    assert shown["ledger"][0]["name"] == "visits"
    text = repr(shown)
    assert not any(str(value) in text for value in secret_sums)
    assert key._secret.hex() not in text


def test_names_and_keys_are_checked(file: Path, key: Key) -> None:
    with pytest.raises(InvalidInputError, match="201 characters; it may have at most 200"):
        create(file, key, "x" * 201)
    assert not file.exists()
    create(file, key).close()
    with pytest.raises(
        InvalidInputError, match=r"key is of type bytes; it must be a counton\.Key, or"
    ):
        Stream.open(file, "visits", key=b"secret")  # type: ignore[arg-type]


def test_arguments_of_wrong_types_are_named(file: Path, key: Key) -> None:
    wrong: Any
    for wrong in (5, None, b"visits"):
        with pytest.raises(InvalidInputError, match="name is"):
            create(file, key, wrong)
    wrong = [1]
    with pytest.raises(InvalidInputError, match=r"public_facts are a value of type list"):
        create(file, key, public_facts=wrong)
    with pytest.raises(InvalidInputError, match="JSON"):
        create(file, key, public_facts={"start": object()})
    assert not file.exists()
    with create(file, key) as stream:
        stream.release(XS[0])
        for wrong in (1.7, "x", True):
            with pytest.raises(InvalidInputError, match="first step is"):
                stream.release(XS[0], step=wrong)


def test_state_replaced_while_open_is_refused(file: Path, key: Key) -> None:
    """Its journal could not be found again, and the step might be released once more elsewhere."""
    with create(file, key) as stream:
        first = stream.release(XS[0])
        away = file.rename(file.with_name("away.db"))
        with pytest.raises(StateError, match="removed or replaced while it was open"):
            stream.release(XS[1])
        with pytest.raises(StateError, match="so the state was lost or restored from an old copy"):
            create(file, Key.generate())
        another = file.with_name("another.db")
        create(another, Key.generate()).close()
        another.rename(file)
        with pytest.raises(StateError, match="removed or replaced while it was open"):
            stream.release(XS[1])
        away.replace(file)
        assert stream.release(XS[1]).step == 2
        assert (stream.releases().values[0] == first.value).all()


def test_state_files_are_private_without_key_or_plain_digest(file: Path, key: Key) -> None:
    import hashlib

    with create(file, key) as stream:
        stream.release(XS[0])
        for path in (file, file.with_name(file.name + "-wal")):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    content = file.read_bytes()
    assert key._secret not in content
    assert key._secret.hex().encode() not in content
    data = XS[0].astype("<i8").tobytes()
    for message in (data, (1).to_bytes(8, "little") + data):
        assert hashlib.sha256(message).digest() not in content
    assert [path.name for path in file.parent.iterdir()] == ["state.db"]


def test_equal_inputs_of_two_steps_or_streams_do_not_show(file: Path, key: Key) -> None:
    import sqlite3

    for name in ("a", "b"):
        with create(file, key, name) as stream:
            stream.release_many(XS[[0, 0, 0]])
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT input_digests FROM counton_journal").fetchall()
    connection.close()
    digests = [row[0][start : start + 6] for row in rows for start in (0, 6, 12)]
    assert len(digests) == len(set(digests)) == 6


class TestKeyFile:
    """Without a given key, the key is kept in ``STATE.key``."""

    def test_made_with_the_state_and_found_again(self, file: Path) -> None:
        with Stream.create(file, "a", STRATEGY, PureDP(1)) as stream:
            stream.release(1)
        path = key_path(file)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with Stream.open(file, "a") as stream:
            assert stream.step == 1
        Stream.create(file, "b", STRATEGY, PureDP(1)).close()
        prints = {s["key_fingerprint"] for s in state_summary(file)["streams"]}
        assert len(prints) == 2
        assert Key.load(path).fingerprint in prints
        assert sorted(p.name for p in file.parent.iterdir()) == ["state.db", "state.db.key"]

    def test_key_left_from_lost_state_is_refused(self, file: Path) -> None:
        Stream.create(file, "a", STRATEGY, PureDP(1)).close()
        file.unlink()
        with pytest.raises(NoiseKeyError, match="changed data would reveal the change"):
            Stream.create(file, "a", STRATEGY, PureDP(1))
        assert not file.exists()

    def test_lost_key_file_is_refused(self, file: Path) -> None:
        Stream.create(file, "a", STRATEGY, PureDP(1)).close()
        key_path(file).unlink()
        with pytest.raises(NoiseKeyError, match=r"state\.db\.key"):
            Stream.open(file, "a")

    def test_killed_before_the_key_got_its_name(self, file: Path) -> None:
        Stream.create(file, "a", STRATEGY, PureDP(1)).close()
        path = key_path(file)
        fingerprint = Key.load(path).fingerprint
        path.rename(path.with_name(f"{path.name}.new-{fingerprint}"))
        Key.generate().save(path.with_name(f"{path.name}.new-0123456789abcdef"))
        Stream.open(file, "a").close()
        assert Key.load(path).fingerprint == fingerprint

    def test_failed_creation_leaves_nothing(self, file: Path) -> None:
        with pytest.raises(InvalidInputError):
            Stream.create(file, "", STRATEGY, PureDP(1))
        assert list(file.parent.iterdir()) == []

    def test_state_on_server_needs_stated_key(self, postgres: str) -> None:
        with pytest.raises(NoiseKeyError, match="the place of the key"):
            Stream.create(postgres, "a", STRATEGY, PureDP(1))


def _dump(file: Path) -> list[Any]:
    import sqlite3

    connection = sqlite3.connect(file)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_streams_created_together_in_new_state_keep_their_keys(file: Path) -> None:
    """Each made a key of its own before the other had given its key the name."""
    guarantee = PureDP(1)
    with key_of_new_stream(file, None) as (waiting, _):
        Stream.create(file, "b", STRATEGY, guarantee).close()
        Stream.create(file, "a", STRATEGY, guarantee, key=waiting).close()
    for name in ("a", "b"):
        with Stream.open(file, name) as stream:
            assert stream.release(1).step == 1


def test_a_release_within_a_commit_is_refused(
    file: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler would: its step would be shown before the one it follows is kept."""
    with create(file, key) as stream:
        commit = Stream._write_transaction
        refused = []

        def interrupted(writer: Stream, *arguments: Any) -> None:
            with pytest.raises(ConcurrentWriterError, match="in the middle of a release"):
                stream.release(XS[1])
            refused.append(True)
            commit(writer, *arguments)

        monkeypatch.setattr(Stream, "_write_transaction", interrupted)
        assert stream.release(XS[0]).step == 1
        monkeypatch.undo()
        assert refused == [True]
        assert stream.release(XS[1]).step == 2

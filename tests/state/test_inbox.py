"""Rows that wait: each batch once, each fold until it is taken; and whose turn it is."""

import threading
import time
from pathlib import Path

import pytest
from databases import heard, looked_into
from patience import HANGS

from counton import PureDP, Stream
from counton.base.errors import ConcurrentWriterError, StateError
from counton.base.private import Private, reveal
from counton.state.inbox import Batch, Inbox, InboxDrain, Load
from counton.state.lease import Leases
from counton.strategies import Binary


@pytest.fixture(params=["file", "server"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A state with two streams: a SQLite file, or a PostgreSQL schema."""
    where = str(tmp_path / "visits.db")
    if request.param == "server":
        where = request.getfixturevalue("postgres")
    for name in ("visits", "others"):
        Stream.create(where, name, Binary(100), PureDP(1), key=tmp_path / "key").close()
    return where


def batch(id: str, body: bytes = b"rows", stream: str = "visits", arrived: int = 0) -> Batch:
    return Batch(stream, id, b"digest of " + body, arrived, {"rows": 3}, 3, Private(body))


def fold_of(inbox: Inbox, by: int = 1000) -> InboxDrain | None:
    """The next fold, of ten microseconds each."""
    return inbox.drain("visits", lambda arrived: arrived // 10 * 10 + 10, by)


def take(inbox: Inbox, fold: InboxDrain) -> None:
    """In a transaction that counts nothing."""
    with inbox._database.transaction(write=True) as connection:
        inbox.remove(connection, fold)


def test_a_batch_is_accepted_once(state: str) -> None:
    with Inbox(state) as inbox, Inbox(state) as other:
        assert [v.outcome for v in inbox.put([batch("a"), batch("b"), batch("a")])] == [
            *("accepted", "accepted", "known")
        ]
        assert [v.outcome for v in other.put([batch("a"), batch("b", b"more")])] == [
            "known",
            "other",
        ]
        assert [v.outcome for v in other.put([batch("a", stream="others")])] == ["accepted"]
        found = inbox.find("visits", "a", batch("a").digest)
        assert found is not None
        assert (found.outcome, found.answer) == ("known", {"rows": 3})
        assert inbox.find("visits", "c", b"") is None
        assert inbox.load() == Load(3, 9, 12)
        assert inbox.load("visits") == Load(2, 6, 8)


def test_of_one_id_two_servers_accept_one(state: str) -> None:
    """At the same moment, from several threads, each with a connection of its own."""
    verdicts: list[str] = []
    with Inbox(state) as one, Inbox(state) as other:

        def put(inbox: Inbox, body: bytes) -> None:
            for number in range(20):
                (verdict,) = inbox.put([batch(f"{number}", body)])
                verdicts.append(f"{number} {verdict.outcome}")

        threads = [
            threading.Thread(target=put, args=given) for given in ((one, b"x"), (other, b"y"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(verdicts) == sorted(f"{n} {w}" for n in range(20) for w in _BOTH)
        assert one.load().batches == 20


_BOTH = ("accepted", "other")


def test_drain_is_same_until_it_is_committed(state: str) -> None:
    with Inbox(state) as inbox:
        assert fold_of(inbox) is None
        inbox.put([batch("a", b"1"), batch("b", b"2"), batch("a", b"3", "others")])
        fold = fold_of(inbox)
        assert fold is not None
        assert [*map(reveal, fold.bodies)] == [b"1", b"2"]
        inbox.put([batch("c", b"4")])
        with Inbox(state) as other:
            again = fold_of(other)
        assert again is not None
        assert again._replace(bodies=()) == fold._replace(bodies=())
        take(inbox, fold)
        rest = fold_of(inbox)
        assert rest is not None
        assert [*map(reveal, rest.bodies)] == [b"4"]
        take(inbox, rest)
        assert fold_of(inbox) is None
        assert inbox.load() == Load(1, 3, 1)
        assert inbox.put([batch("a", b"1")])[0].outcome == "known"


def test_drains_are_divided_by_arrival_times(state: str) -> None:
    """Whenever one asks for them, and in whatever order they were committed."""
    with Inbox(state) as inbox:
        inbox.put([batch(f"{came}", f"{came}".encode(), arrived=came) for came in (25, 3, 9, 11)])
        found = []
        for by in (9, 10, 19, 1000, 1000, 1000):
            while (fold := fold_of(inbox, by)) is not None:
                found.append(
                    (by, [int(reveal(body)) for body in fold.bodies], fold.first, fold.last)
                )
                take(inbox, fold)
        assert found == [(10, [3, 9], 3, 9), (1000, [11], 11, 11), (1000, [25], 25, 25)]


def test_a_closed_stream_takes_nothing(state: str) -> None:
    """It is closed when nothing waits; the others go on."""
    with Inbox(state) as inbox, Inbox(state) as other:
        inbox.put([batch("a")])
        assert not inbox.close_stream("visits")
        fold = fold_of(inbox)
        assert fold is not None
        assert not inbox.close_stream("visits")
        take(inbox, fold)
        assert inbox.close_stream("visits")
        assert inbox.close_stream("visits")
        verdicts = other.put([batch("a"), batch("b"), batch("b", stream="others")])
        assert [verdict.outcome for verdict in verdicts] == ["known", "closed", "accepted"]
        assert inbox.load().batches == 1


def test_drain_does_not_grow_while_it_is_counted(postgres: str, tmp_path: Path) -> None:
    """A server stops between its look and its update; meanwhile another one folds, and rows come.

    Each row is in one fold, whose rows are the same for both.
    """
    Stream.create(postgres, "visits", Binary(100), PureDP(1), key=tmp_path / "key").close()
    with Inbox(postgres) as slow, Inbox(postgres) as other:
        slow.put([batch("a", b"1")])
        found: list[InboxDrain | None] = []
        racing = threading.Thread(target=lambda: found.append(fold_of(other)))

        def meanwhile(statement: str) -> None:
            if statement.startswith("UPDATE counton_inbox_waiting") and not racing.ident:
                racing.start()
                racing.join(0.5)  # it may have to wait for us
                other.put([batch("b", b"2")])

        with heard(meanwhile):
            mine = fold_of(slow)
        racing.join()
        assert mine is not None
        assert found[0] is not None
        assert found[0]._replace(bodies=()) == mine._replace(bodies=())
        take(other, found[0])
        rest = fold_of(slow)
        left = () if rest is None else rest.bodies
        assert sorted(map(reveal, (*found[0].bodies, *left))) == [b"1", b"2"]


@pytest.mark.long
def test_a_server_that_is_paused_holds_up_no_other(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops where it has the lock of all folds: the other waits for the database to end it."""
    Stream.create(postgres, "visits", Binary(100), PureDP(1), key=tmp_path / "key").close()
    other = Inbox(postgres)
    # Longer than a busy machine holds up a transaction that nobody pauses.
    monkeypatch.setattr("counton.state.database.PAUSE_SECONDS", 2)
    with other, Inbox(postgres) as paused:
        paused.put([batch("a", b"1")])
        found: list[InboxDrain | None] = []

        def pause(arrived: int) -> int:
            found.append(fold_of(other))
            return arrived // 10 * 10 + 10

        with pytest.raises(StateError, match="idle-in-transaction"):
            paused.drain("visits", pause, 1000)
        again = fold_of(paused)  # it goes on, and has what the other has
        assert again is not None
        assert found[0] is not None
        assert found[0]._replace(bodies=()) == again._replace(bodies=())


def test_batch_ids_are_removed_by_age(state: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a", arrived=10), batch("b", arrived=20)])
        assert inbox.forget(15) == 1
        assert [v.outcome for v in inbox.put([batch("a"), batch("b")])] == ["accepted", "known"]


def test_batch_id_reused_after_retention_is_another_drain(state: str) -> None:
    """They were accepted, and are counted; whoever still has the fold of before counts nothing."""
    with Inbox(state) as inbox:
        stale = None
        for arrived in (10, 20):
            assert inbox.put([batch("a", arrived=arrived)])[0].outcome == "accepted"
            fold = fold_of(inbox)
            assert fold is not None
            if stale is not None:
                with pytest.raises(
                    ConcurrentWriterError, match="another process has taken the rows"
                ):
                    take(inbox, stale)
            take(inbox, fold)
            inbox.forget(arrived + 1)
            stale = fold
        assert inbox.load().batches == 0


def test_batch_for_unknown_stream_is_refused(state: str) -> None:
    with Inbox(state) as inbox:
        with pytest.raises(StateError, match="has no stream 'cellar'"):
            inbox.put([batch("a"), batch("a", stream="cellar")])
        assert inbox.load().batches == 0


def test_inbox_of_earlier_version_with_quarantine_is_refused_with_advice(state: str) -> None:
    """Every batch would fail, because its table wants what no batch has any more."""
    with Inbox(state) as inbox, inbox._database.transaction(write=True) as connection:
        connection.execute("CREATE TABLE counton_inbox_aside (id BIGINT, aside TEXT NOT NULL)")
    with pytest.raises(StateError, match="let that version count the rows that wait, end its"):
        Inbox(state)


@pytest.mark.parametrize(
    "change",
    ["body = :other", "rows = rows + 1", "arrived = arrived + 1", "digest = :other",
     "checksum = :other", "stream_id = 2"],
)  # fmt: skip
def test_drain_of_damaged_rows_is_refused(state: str, change: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a", b"other rows")])
        with looked_into(state) as connection:
            given = {"other": b"x"} if ":other" in change else {}
            connection.execute(f"UPDATE counton_inbox_waiting SET {change}", **given)  # noqa: S608
        name = "others" if "stream_id" in change else "visits"
        with pytest.raises(StateError, match=r"counton_inbox_waiting\) do not fit"):
            inbox.drain(name, lambda arrived: arrived + 10, 1000)


@pytest.mark.parametrize("column", ["fold", "arrived"])
@pytest.mark.parametrize("value", ["[]", b"x", 1.5], ids=repr)
def test_drain_with_value_of_wrong_type_is_refused(
    column: str, value: object, tmp_path: Path
) -> None:
    state = str(tmp_path / "visits.db")
    Stream.create(state, "visits", Binary(100), PureDP(1), key=tmp_path / "key").close()
    with Inbox(state) as inbox:
        inbox.put([batch("a")])
        with looked_into(state) as connection:
            said = f"UPDATE counton_inbox_waiting SET {column} = :value"  # noqa: S608
            connection.execute(said, value=value)
        with pytest.raises(StateError, match="the state was altered"):
            fold_of(inbox)


@pytest.mark.parametrize("arrived", [-(2**63), -1, 2**62])
def test_drain_of_rows_with_impossible_arrival_time_is_refused(arrived: int, state: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a", arrived=arrived)])
        with pytest.raises(StateError, match="microseconds after 1970"):
            inbox.drain("visits", lambda came: came + 1, 2**62 + 1)


@pytest.mark.parametrize("change", ["stream_id = 77", "arrived = 4611686018427387904"])
def test_inbox_with_rows_that_would_never_be_counted_is_refused(change: str, state: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a")])
    with looked_into(state) as connection:
        connection.execute(f"UPDATE counton_inbox_waiting SET {change}")  # noqa: S608
    with pytest.raises(StateError, match="belong to no stream, or came at an impossible time"):
        Inbox(state)


def test_find_with_a_damaged_answer_is_refused(state: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a")])
        with looked_into(state) as connection:
            connection.execute("UPDATE counton_inbox_batches SET answer = 'x'")
        with pytest.raises(StateError, match="the answer to a batch cannot be read"):
            inbox.find("visits", "a", b"")


def test_repr_of_batches_shows_no_rows(state: str) -> None:
    with Inbox(state) as inbox:
        inbox.put([batch("a")])
        assert "rows" not in repr(batch("a"))
        assert "rows" not in repr(fold_of(inbox))


def test_a_lease_is_of_one_process(state: str) -> None:
    names = frozenset({"visits", "others"})
    one = Leases(state, names)
    other = Leases(state, names)
    assert one.renew() == names
    assert not other.renew()
    assert one.renew() == names
    one.close()
    assert other.renew() == names
    other.close()


def test_each_stream_has_a_lease_of_its_own(postgres: str, tmp_path: Path) -> None:
    """Two servers with different streams of one state: each releases its own."""
    for name in ("visits", "others", "more"):
        Stream.create(postgres, name, Binary(100), PureDP(1), key=tmp_path / "key").close()
    with Leases(postgres, ["visits", "more"]) as one, Leases(postgres, ["others", "more"]) as other:
        assert one.renew() == {"visits", "more"}
        assert other.renew() == {"others"}
        one.close()
        assert other.renew() == {"others", "more"}


def test_lease_is_released_for_excluded_streams(postgres: str, tmp_path: Path) -> None:
    for name in ("visits", "others"):
        Stream.create(postgres, name, Binary(100), PureDP(1), key=tmp_path / "key").close()
    names = ["visits", "others"]
    with Leases(postgres, names) as one, Leases(postgres, names) as other:
        assert one.renew() == {"visits", "others"}
        assert other.renew() == frozenset()
        assert one.renew(excluded={"visits"}) == {"others"}
        assert other.renew() == {"visits"}
        assert one.renew() == {"others"}


def test_state_file_is_served_by_one_process(tmp_path: Path) -> None:
    Stream.create(tmp_path / "v.db", "visits", Binary(100), PureDP(1)).close()
    with (
        Leases(tmp_path / "v.db", ["visits"]) as one,
        Leases(tmp_path / "v.db", ["visits"]) as other,
    ):
        one.take()
        with pytest.raises(ConcurrentWriterError, match="is served by another process"):
            other.take()


def test_lease_expires_without_renewal(postgres: str, tmp_path: Path) -> None:
    Stream.create(postgres, "visits", Binary(100), PureDP(1), key=tmp_path / "key").close()
    with Leases(postgres, ["visits"], HANGS) as one, Leases(postgres, ["visits"], HANGS) as other:
        assert one.renew()
        assert not other.renew()
        one._seconds = 0.01
        assert one.renew()
        time.sleep(0.1)
        assert other.renew()
        assert not one.renew()

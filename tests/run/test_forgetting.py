"""A person who is forgotten: no byte of them stays, and nobody counts more than is promised."""

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import looked_into
from some_cases import long

from counton import PureDP, Stream
from counton.base.errors import InvalidInputError, StateError
from counton.base.private import reveal
from counton.run import Job, run
from counton.run.counting import remembered_rows as people
from counton.run.erasure import erase_older, erase_user
from counton.run.rows.row_buffer import PURPOSES
from counton.state import Store, dedup
from counton.strategies import Binary

NOW = datetime(2024, 3, 4, tzinfo=UTC)
ANN = "ann@people.example"


def job(state: str | Path, events: Path, until: str, **more: Any) -> Job:
    terms: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "epsilon": 10**6,
        "user": "who", "max_contributions": 1, "append": True, "allow_empty_windows": True,
        "strategy": "binary",
    }  # fmt: skip
    return Job("count", events, state, until=until, **{**terms, **more})


def rows(path: Path, *who_and_day: tuple[str, int]) -> Path:
    lines = "".join(f"2024-03-{day:02}T09:00,{who},{path.stem}\n" for who, day in who_and_day)
    path.write_text(f"time,who,file\n{lines}")
    return path


def counted(*args: Any, **more: Any) -> list[int]:
    with run(job(*args, **more)) as outcome:
        return [round(one) for one in outcome.read().table()["estimate"].to_list()]


def test_erase_user_matches_every_spelling_of_integer(tmp_path: Path) -> None:
    for written in ("7", "7.0"):
        state = tmp_path / f"{written}.db"
        counted(state, rows(tmp_path / "a.csv", ("7", 1)), "2024-03-02")
        (done,) = erase_user(str(state), written, now=NOW)
        assert reveal(done.deleted) == 1


def bytes_of(state: str, postgres: bool) -> bytes:
    """All that a state has written: its files, or all of its tables' rows and pages."""
    if not postgres:
        files = Path(state).parent.glob(f"{Path(state).name}*")
        return b"".join(file.read_bytes() for file in files if file.suffix != ".key")
    found = b""
    with looked_into(state) as connection:
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        for (table,) in [*connection.rows(tables)]:
            for row in connection.rows(f"SELECT * FROM {table}"):  # noqa: S608 - a table
                found += b"|".join(
                    one if isinstance(one, bytes) else str(one).encode() for one in row
                )
        ask = "SELECT current_setting('data_directory'), pg_relation_filepath('counton_marks')"
        folder, pages = connection.first(ask)
    return found + Path(folder, pages).read_bytes()


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_erase_user_leaves_no_byte_of_user(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    key = tmp_path / "a.key"
    on_server = place == "postgres"
    state = str(request.getfixturevalue("postgres")) if on_server else str(tmp_path / "v.db")
    events = rows(tmp_path / "one.csv", (ANN, 1), ("bob", 1), ("cid", 2))
    assert counted(state, events, "2024-03-03", key=key) == [2, 3]
    with Store(state) as store:
        secret = store.reader("count", key).secret()
    assert secret is not None
    (digest,) = secret.digests(ANN.encode(), np.array([len(ANN)]), PURPOSES["user"])
    with Stream.open(state, "count", key=key) as stream:
        before = [*reveal(stream.digest_sets("user"))]
    packed = [dedup.pack(part.digests, part.columns) for part in before]
    assert all(blob in bytes_of(state, on_server) for blob in packed)

    (done,) = erase_user(state, ANN, key=key, now=NOW)
    assert reveal(done.deleted) == 1
    with Stream.open(state, "count", key=key) as stream:
        for kind in ("user", "id", people.REFUSED):
            for part in reveal(stream.digest_sets(kind)):
                assert digest not in part.digests
    left = bytes_of(state, on_server)
    names = [ANN.encode(), int(digest).to_bytes(8, "little"), int(digest).to_bytes(8, "big")]
    for gone in (*names, *packed):
        assert gone not in left
    # What was released is there, and the stream goes on: nobody counts twice.
    again = rows(tmp_path / "two.csv", (ANN, 3), ("bob", 3), ("dan", 3))
    assert counted(state, again, "2024-03-04", key=key) == [2, 3, 4]


@pytest.mark.parametrize("more", [{}, {"append": False}, {"contribution_period": "1d"}], ids=str)
def test_erase_user_closes_bucket_for_unknown_user_too(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "BUCKETS", 1)  # everybody is in the bucket of the forgotten person
    totals = {}
    for known in (True, False):
        folder = tmp_path / f"known {known}"
        folder.mkdir()
        state = folder / "v.db"
        first = [("ann", 1)] if known else []
        counted(state, rows(folder / "one.csv", *first, ("bob", 1)), "2024-03-02", **more)
        erase_user(state, "ann", now=NOW)
        second = rows(folder / "two.csv", *first, ("bob", 1), ("cid", 2), ("dan", 2))
        totals[known] = counted(state, second, "2024-03-03", **more)
    ann_alone = [1, 1]
    assert np.subtract(totals[True], totals[False]).tolist() == ann_alone
    assert totals[False] == [1, 1]  # cid and dan count in neither state


def changes(folder: Path, first: list[str], second: list[str], without: str | None) -> list[int]:
    """What is counted of two deliveries, between which a person is forgotten."""
    folder.mkdir()
    state = folder / "v.db"
    given = [[who for who in some if who != without] for some in (first, second)]
    one = rows(folder / "one.csv", *((who, 1) for who in given[0]))
    counted(state, one, "2024-03-02")
    erase_user(state, "u", now=NOW)
    two = rows(folder / "two.csv", *((who, 2) for who in given[1]))
    return counted(state, two, "2024-03-03")


def broken(folder: Path, buckets: int, patched: pytest.MonkeyPatch) -> Iterator[str]:
    """Deliveries of which one person's rows change more than the one that may count."""
    patched.setattr(people, "BUCKETS", buckets)
    firsts = (["u"], ["u", "v"])
    seconds = (["w"], ["u", "v", "w"])
    for number, (first, second) in enumerate(itertools.product(firsts, seconds)):
        there = changes(folder / f"{buckets} {number} with", first, second, None)
        gone = changes(folder / f"{buckets} {number} without", first, second, "u")
        changed = np.abs(np.diff(there, prepend=0) - np.diff(gone, prepend=0)).sum()
        if changed > 1:
            yield f"{first}, {second}: {there} with, {gone} without"


@pytest.fixture
def same_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users fall into the same buckets in all states."""
    fixed = dedup.Secret(bytes(range(32)))
    monkeypatch.setattr(dedup.Secret, "fresh", classmethod(lambda _: fixed))


@pytest.mark.slow
@pytest.mark.usefixtures("same_secret")
@pytest.mark.parametrize("buckets", [1, long(1024)])  # all others are in the same one, or none
def test_guarantee_holds_after_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    assert list(broken(tmp_path, buckets, monkeypatch)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("same_secret")
@pytest.mark.parametrize("wrong", ["their room comes back", "refused only if they were known"])
def test_guarantee_check_detects_wrong_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    if wrong == "their room comes back":
        monkeypatch.setattr(people.RememberedRows, "without_refused", lambda _, rows: rows)
    else:
        right = dedup.write

        def only_known(
            connection: Any, rows: Any, change: dedup.DigestChange, subkey: bytes
        ) -> None:
            if not change.replaced:
                kept = [one for one in change.added if one.kind != people.REFUSED]
                change = change._replace(added=kept)
            right(connection, rows, change, subkey)

        monkeypatch.setattr(dedup, "write", only_known)
    buckets = 1024 if wrong == "their room comes back" else 1
    assert any(broken(tmp_path, buckets, monkeypatch))


def test_erasure_closes_no_finished_period(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    terms = {"contribution_period": "1d"}
    counted(state, rows(tmp_path / "one.csv", (ANN, 1), ("bob", 1)), "2024-03-02", **terms)
    erase_user(state, ANN, now=datetime(2024, 3, 2, 12, tzinfo=UTC))
    late = rows(tmp_path / "two.csv", (ANN, 1), (ANN, 2), (ANN, 3), ("bob", 3))
    assert counted(state, late, "2024-03-04", **terms) == [2, 2, 4]


def test_erase_user_refuses_rows_of_the_future(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 3)), "2024-03-02", contribution_period="1d")
    with pytest.raises(InvalidInputError, match="whose times lie in the future"):
        erase_user(state, ANN, now=datetime(2024, 3, 2, tzinfo=UTC))


def test_erase_user_keeps_users_whom_other_runs_counted(tmp_path: Path) -> None:
    """They are in the same period, and in a set of digests without the erased user."""
    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 1)), "2024-03-02")
    counted(state, rows(tmp_path / "two.csv", ("bob", 2)), "2024-03-03")
    erase_user(state, ANN, now=NOW)
    again = rows(tmp_path / "three.csv", ("bob", 3))
    assert counted(state, again, "2024-03-04") == [1, 2, 2]


def test_erase_user_keeps_digests_of_row_ids(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 1), ("bob", 1)), "2024-03-02", row_id="file")

    def ids() -> list[int]:
        with Stream.open(state, "count") as stream:
            return [
                int(digest) for part in reveal(stream.digest_sets("id")) for digest in part.digests
            ]

    before = ids()
    (done,) = erase_user(state, ANN, now=NOW)
    assert (reveal(done.deleted), len(before)) == (1, 2)
    assert ids() == before


def test_erase_user_reports_streams_without_users(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    Stream.create(state, "sums", Binary(9), PureDP(1)).close()
    assert [one.keeps for one in erase_user(state, ANN)] == ["sums"]
    with pytest.raises(StateError, match="has no stream 'other'"):
        erase_user(state, ANN, stream="other")
    with pytest.raises(InvalidInputError, match="user is not a text"):
        erase_user(state, "")


def test_erase_user_reports_that_readers_may_keep_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 1)), "2024-03-02")
    monkeypatch.setattr("counton.state.backup.LOCK_TIMEOUT_SECONDS", 0)
    with closing(sqlite3.connect(state)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM counton_marks").fetchone()
        with pytest.raises(StateError, match="may still be in its files"):
            erase_user(state, ANN, now=NOW)
    erase_user(state, ANN, now=NOW)


def test_rows_that_wait_are_counted_first(tmp_path: Path) -> None:
    from counton.base.private import Private
    from counton.state.inbox import Batch, Inbox

    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 1)), "2024-03-02")
    with Inbox(state) as inbox:
        inbox.put([Batch("count", "1", b"1", 0, {}, 1, Private(b"rows"))])
    with pytest.raises(InvalidInputError, match="rows wait in the inbox"):
        erase_user(state, ANN, now=NOW)


def test_complete_file_continues_with_or_without_rows_of_erased_user(tmp_path: Path) -> None:
    whole = [(ANN, 1), ("bob", 1), ("cid", 2)]
    later = ("bob", 3), ("dan", 3)
    for name, then in (("with", [*whole, *later]), ("without", [*whole[1:], *later])):
        (tmp_path / name).mkdir()
        state = tmp_path / name / "v.db"
        events = tmp_path / name / "all.csv"
        all_since = {"append": False}
        assert counted(state, rows(events, *whole), "2024-03-03", **all_since) == [2, 3]
        erase_user(state, ANN, now=NOW)
        assert counted(state, rows(events, *then), "2024-03-04", **all_since) == [2, 3, 4]


DAYS = {"contribution_period": "1d"}
#: The number of the second day of the stream among all days.
DAY_2 = (datetime(2024, 3, 2) - datetime(1970, 1, 1)).days


def test_retention_leaves_no_byte_of_old_users(tmp_path: Path) -> None:
    state = str(tmp_path / "v.db")
    counted(
        state, rows(tmp_path / "one.csv", (ANN, 1), ("bob", 1), ("cid", 3)), "2024-03-04", **DAYS
    )
    with Store(state) as store:
        secret = store.reader("count", None).secret()
    assert secret is not None
    gone = secret.digests(f"{ANN}bob".encode(), np.array([len(ANN), 3]), PURPOSES["user"])
    (done,) = erase_older(state, "2d", now=NOW)
    assert (reveal(done.deleted), done.before) == (2, datetime(2024, 3, 2, tzinfo=UTC))
    with Stream.open(state, "count") as stream:
        (kept,) = reveal(stream.digest_sets("user"))
    assert not set(gone) & set(kept.digests)
    left = bytes_of(state, postgres=False)
    for digest in map(int, gone):
        assert digest.to_bytes(8, "little") not in left
        assert digest.to_bytes(8, "big") not in left


def delivered_again(
    folder: Path, second: list[tuple[str, int]], append: bool, retain: str | None = None
) -> list[int]:
    """What is counted when old rows come once more, after the people of day 1 are forgotten.

    By a command; or by the job itself, whose later runs remember for how long people are known.
    """
    folder.mkdir()
    state = folder / "v.db"
    first = [(ANN, 1), ("bob", 1), ("bob", 2)]
    more = {**DAYS, "append": append}
    one = rows(folder / "one.csv", *first)
    assert counted(state, one, "2024-03-03", **more, retain=retain) == [2, 3]
    if retain is None:
        erase_older(state, "1d", now=datetime(2024, 3, 3, 12, tzinfo=UTC))  # day 1 has ended
    with Stream.open(state, "count") as stream:
        assert [part.period for part in reveal(stream.digest_sets("user"))] == [DAY_2]
    return counted(state, rows(folder / "two.csv", *second), "2024-03-04", **more)


#: What comes then: rows that come twice, rows of others on that day, and all rows anew.
AGAIN: dict[str, tuple[list[tuple[str, int]], bool]] = {
    "their rows and one more": ([(ANN, 1), ("bob", 1), ("bob", 2), (ANN, 1)], True),
    "their rows and new ones": ([(ANN, 1), ("dan", 1), ("dan", 2)], True),
    "all rows": ([(ANN, 1), ("bob", 1), ("bob", 2), ("dan", 3)], False),
    "all rows but the forgotten": ([("bob", 2), ("dan", 3)], False),
}
COUNTED = {"their rows and one more": [2, 3, 3], "their rows and new ones": [2, 3, 4]}


@pytest.mark.parametrize("retain", [None, "1d"])
@pytest.mark.parametrize("comes", AGAIN)
def test_users_of_erased_period_count_no_more(
    tmp_path: Path, comes: str, retain: str | None
) -> None:
    again = delivered_again(tmp_path / "v", *AGAIN[comes], retain)
    assert again == COUNTED.get(comes, [2, 3, 4])


def periods_known(state: Path) -> list[int]:
    """Days, from the first, of which users are known."""
    with Stream.open(state, "count") as stream:
        return [part.period - DAY_2 + 2 for part in reveal(stream.digest_sets("user"))]


def test_retention_forgets_users_and_never_lets_them_count_again(tmp_path: Path) -> None:
    """Also where a later run says that people be known longer than before."""
    state = tmp_path / "v.db"
    more = DAYS
    days = [[(ANN, day), ("bob", day)] for day in range(1, 7)]
    file = [rows(tmp_path / f"{day}.csv", *both) for day, both in enumerate(days, 1)]
    assert counted(state, file[0], "2024-03-02", **more, retain="2d") == [2]
    assert counted(state, file[1], "2024-03-03", **more) == [2, 4]
    assert periods_known(state) == [1, 2]
    assert counted(state, file[2], "2024-03-04", **more)[-1] == 6
    assert periods_known(state) == [2, 3]  # day 1 ended two days before day 3 did
    assert counted(state, file[3], "2024-03-05", **more, retain="1d")[-1] == 8
    assert periods_known(state) == [4]
    assert counted(state, file[4], "2024-03-06", **more, retain="4w")[-1] == 10
    assert periods_known(state) == [4, 5]
    again = rows(tmp_path / "again.csv", *days[0], *days[2], *days[3], ("dan", 2), *days[5])
    assert counted(state, again, "2024-03-07", **more)[-1] == 12  # of day 6 alone


def test_retention_of_job_leaves_no_byte_of_users(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    many = [(f"{number}", 1) for number in range(900)]  # several pages of the file
    counted(state, rows(tmp_path / "one.csv", *many), "2024-03-02", **DAYS)
    with Stream.open(state, "count") as stream:
        (part,) = reveal(stream.digest_sets("user"))
    packed = dedup.pack(part.digests, part.columns)
    pieces = [packed[at : at + 32] for at in range(0, len(packed) - 32, 32)]
    there = bytes_of(str(state), postgres=False)
    assert sum(one in there for one in pieces) > 0.9 * len(pieces)
    counted(state, rows(tmp_path / "two.csv", ("cid", 2)), "2024-03-03", **DAYS, retain="1d")
    left = bytes_of(str(state), postgres=False)
    assert not any(one in left for one in pieces)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"retain": "1d"}, r"retain=1d .*\bcontribution_period\b"),
        ({**DAYS, "retain": "7"}, "retain.*7.*; (give|write) a"),
        ({**DAYS, "retain": "36h"}, "retain.*36h.*; give a number of days or weeks"),
        ({**DAYS, "retain": "5w"}, "retain=5w is too long.* 35 days"),
        (
            {"user": None, "max_contributions": None, "retain": "1d"},
            r"retain=1d .*\bcontribution_period\b",
        ),
    ],
)
def test_invalid_retention_is_refused_before_state_is_created(
    tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        counted(tmp_path / "v.db", rows(tmp_path / "one.csv", (ANN, 1)), "2024-03-02", **more)
    assert not (tmp_path / "v.db").exists()


@pytest.mark.slow
def test_erasure_check_detects_slots_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What if no period were closed: the same rows count once more."""
    monkeypatch.setattr(people, "CLOSED", "nothing")
    comes = "their rows and one more"
    assert delivered_again(tmp_path / "v", *AGAIN[comes]) != COUNTED[comes]


def test_users_without_periods_are_never_erased_by_age(tmp_path: Path) -> None:
    state = tmp_path / "v.db"
    counted(state, rows(tmp_path / "one.csv", (ANN, 1)), "2024-03-02")
    before = state.read_bytes()
    with pytest.raises(InvalidInputError, match=r"protects each user over its whole length.*days"):
        erase_older(state, "90d", now=NOW)
    assert state.read_bytes() == before
    with pytest.raises(
        InvalidInputError, match="age is '90'; give a number of days or weeks, as in 90d or 12w"
    ):
        erase_older(state, "90")

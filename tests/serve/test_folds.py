"""Folds: each is counted once, whenever its process is killed, and leaves nothing behind."""

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import heard
from inside import EXACT, Inside, inside, visit
from numpy.typing import NDArray
from some_cases import long

from counton import Stream
from counton.base.errors import ConcurrentWriterError, InvalidInputError
from counton.base.private import reveal
from counton.run import erasure as forgetting
from counton.run.erasure import erase_user
from counton.serve import release_times
from counton.serve.release_times import Releaser
from counton.state import Store, journal
from counton.state.database import Database
from counton.state.inbox import InboxDrain, waiting_batches
from counton.state.sql import Connection

pytestmark = pytest.mark.slow

FOLDS = int(os.environ.get("COUNTON_FOLDS", "10"))
#: Where a run can be killed: after the last one nobody dies.
EVERY_PLACE = range(1, 100)


class KilledError(MemoryError):
    """What ends a run where a process would have been killed: no fault of its rows."""


class Places:
    """The places at which a run can be killed: before and after each commit of a change.

    All places within a transaction are one: what is not committed was never there.

    Attributes:
        passed: how many there were.
    """

    def __init__(self) -> None:
        self.passed = self._deadly = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._deadly:
            raise KilledError

    @contextmanager
    def deadly(self, place: int) -> Iterator[None]:
        """Whoever passes so many places in this block is killed at the last one."""
        self.passed = 0
        self._deadly = place
        transaction = Database.transaction

        @contextmanager
        def passing(database: Database, *, write: bool) -> Iterator[Connection]:
            with transaction(database, write=write) as connection:
                yield connection
                if write:
                    self()
            if write:
                self()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "transaction", passing)
            yield


def killed_everywhere(
    service: Inside, parts: tuple[int, ...], numbers: range = EVERY_PLACE
) -> tuple[list[int], list[int]]:
    """Rows of each minute that are counted, and that are to be.

    A fold is killed at one of its places, and a minute later another one at the next place. Then a
    new process looks again. The first half of a minute is counted only, the second with a release.

    Args:
        service: what is killed.
        parts: of each minute, that are folded.
        numbers: of the places; it ends with the last one that there is.
    """
    (releaser,) = service.service.releasers.values()
    places = Places()
    deaths = 0
    sent = []
    for minute, number in enumerate(numbers):
        died = deaths
        rows = [visit(minute + 0.1)] * (1 + minute % 3)
        for part in parts:
            answer = service.post(f"{minute}.{part}", rows)
            assert answer.status_code == 202, answer.text
            try:
                with places.deadly(number):
                    service.at(minute + part / 2)
            except KilledError:
                deaths += 1
                releaser.forget()
        sent.append(len(parts) * len(rows))
        if deaths == died:
            break
    assert deaths > 6 * len(parts) or numbers != EVERY_PLACE
    service.at(minute + 1)
    windows = service.rows(series="per-window", group="home")
    return [round(row["estimate"]) for row in windows], sent


@pytest.mark.parametrize("parts", [(2,), long((1, 2))])
def test_drained_rows_are_counted_once_after_any_kill(
    tmp_path: Path, parts: tuple[int, ...]
) -> None:
    with inside(tmp_path, **EXACT) as service:
        counted, sent = killed_everywhere(service, parts)
        assert counted == sent


@pytest.mark.parametrize("early", [True, long(False)])
def test_rows_removed_in_another_transaction_are_lost_or_counted_twice(
    tmp_path: Path, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above sees it, whether they are removed before the fold is counted or after."""
    real = Releaser._run

    def removed(releaser: Releaser, fold: InboxDrain | None, us: int) -> bool:
        inbox = releaser._inbox

        def remove() -> None:
            if fold is not None:
                with inbox._database.transaction(write=True) as connection:
                    inbox.remove(connection, fold)

        if early:
            remove()
        found = real(releaser, fold, us)
        if not early:
            remove()
        return found

    monkeypatch.setattr(release_times, "partial", lambda *_given, **_more: None)
    monkeypatch.setattr(Releaser, "_run", removed)
    with inside(tmp_path, **EXACT) as service:
        counted, sent = killed_everywhere(service, (2,), range(4, 8))
        assert (sum(counted) < sum(sent)) if early else (sum(counted) > sum(sent))


def test_resumed_server_counts_no_batch_that_another_server_counted(
    tmp_path: Path,
) -> None:
    """It still holds a fold, and other folds have come and gone, of the same number."""
    with inside(tmp_path, **EXACT) as service:
        inbox = service.service.state_of("visits").inbox
        (releaser,) = service.service.releasers.values()
        stale = None
        for minute in range(2):
            assert service.post(f"b{minute}", [visit(minute + 0.1)]).status_code == 202
            if stale is None:
                stale = inbox.drain("visits", lambda came: came + 1, 2**62)
                assert stale is not None
                service.at(0.5)
            with pytest.raises(ConcurrentWriterError, match="another process has taken the rows"):
                releaser._run(stale, stale.last)
            if minute:
                assert inbox.load("visits").batches == 1
            service.at(minute + 1)
        windows = service.rows(series="per-window", group="home")
        assert [round(row["estimate"]) for row in windows] == [1, 1]


@contextmanager
def statements_asked() -> Iterator[list[str]]:
    """What all databases are asked in this block."""
    found: list[str] = []

    with heard(found.append):
        yield found


def rows_of(state: Path) -> dict[str, int]:
    """How many rows each table of a state has."""
    with closing(sqlite3.connect(state)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - a table
            for (name,) in names
        }


@pytest.mark.parametrize(
    "people",
    [
        {
            "user": "who",
            "max_contributions": 2,
            "contribution_period": "1h",
            "privacy_unit": "user",
        },
        {},
    ],
)
@pytest.mark.long
def test_drained_batches_leave_no_rows_in_state(tmp_path: Path, people: dict[str, Any]) -> None:
    """However many there were, the next one asks the same and leaves the same rows.

    But for the ids of batches, which are forgotten after their time. ``COUNTON_FOLDS=2000`` folds
    so often.
    """
    with inside(tmp_path, **EXACT, every="1h", **people) as service:
        seen = []
        for fold in range(FOLDS):
            assert service.post(f"b{fold}", [visit(0.2, who="ann")]).status_code == 202
            with statements_asked() as asked:
                service.at((fold + 1) / 50)
            rows = rows_of(tmp_path / "visits.db")
            assert rows.pop("counton_inbox_batches") == fold + 1
            assert rows["counton_sources"] == rows["counton_inbox_waiting"] == 0
            seen.append((asked, rows))
        service.at(60)
        assert round(service.rows(group="home")[0]["estimate"]) == (2 if people else FOLDS)
    settled = 4 if people else 1  # marks of users are put together from time to time
    asked, rows = seen[settled]
    # What kind of file it is and which tables it has, only SQLite is asked so.
    of_the_file = ("PRAGMA ", "SELECT name FROM sqlite_master ", "BEGIN", "COMMIT")
    assert len([one for one in asked if not one.startswith(of_the_file)]) < 50
    assert all(sum(later.values()) <= sum(rows.values()) for _, later in seen[settled:])
    assert all(len(later) <= len(asked) + 2 * bool(people) for later, _ in seen[settled:])


def counted_and_read(folder: Path, minutes: int) -> tuple[bool, list[int]]:
    """Whether all is counted and kept rightly, and how many windows each fold has read.

    Rows come for windows that go on and for those of long ago.
    """
    chance = random.Random(2026)
    sent = Counter[int]()
    read = list[int]()
    real = journal.read_observed

    def counting(*given: Any) -> Iterator[journal.WindowTotals]:
        for seen in real(*given):
            read[-1] += len(seen.steps) if given[-1] is not None else 0  # else all are asked for
            yield seen

    with inside(folder, **EXACT, windows=500) as service, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_NUMBERS_PER_ROW", 8)  # two windows in a row of the table
        patch.setattr(journal, "read_observed", counting)
        for minute in range(minutes):
            for part in (0.3, 0.6):
                of = [max(0, minute + chance.choice((-4, -2, 1, 2))) for _ in range(2)]
                rows = [visit(one + 0.1) for one in of]
                assert service.post(f"{minute}-{part}", rows).status_code == 202
                sent.update(of)
                read.append(0)
                service.at(minute + part)
            read.append(0)
            service.at(minute + 1)
            due = sum(many for one, many in sent.items() if one <= minute)
            if round(service.rows(last=1, group="home")[0]["estimate"]) != due:
                return False, read
        with Store(folder / "visits.db") as store:
            blocks = [*reveal(store.reader("visits").observed_blocks())]
    seen = {
        int(step) - 1: int(totals[0, 0, 0])  # of the first group
        for steps, many in blocks
        for step, totals in zip(steps, many, strict=True)
    }
    return seen == sent, read


@pytest.mark.long
def test_drain_reads_observed_sums_of_few_windows(tmp_path: Path) -> None:
    """Of its own, of those that go on, and of those that have had rows since the last release."""
    right, read = counted_and_read(tmp_path, 12)
    assert right
    assert max(read) < 11  # of 13, had it read all


@pytest.mark.parametrize("missing", ["waiting", long("read lately"), long("touched")])
def test_drain_that_reads_less_loses_rows(tmp_path: Path, missing: str) -> None:
    """The test above sees it if any of the three is not read."""
    is_read = journal.is_read

    def without(
        address: Any, facts: tuple[int, int], released: int, also: NDArray[np.int64]
    ) -> bool:
        last, written = facts
        if missing == "waiting":
            last = 0 if last > released else last
        elif missing == "read lately":
            written = -1
        else:
            also = also[:0]
        return is_read(address, (last, written), released, also)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "is_read", without)
        right, _ = counted_and_read(tmp_path, 10)
    assert not right


def test_service_applies_retention_of_job(tmp_path: Path) -> None:
    """With releases, while it runs; nobody of a day that is over counts once more."""
    day = 24 * 60
    people = {"user": "who", "max_contributions": 1, "contribution_period": "1d", "retain": "1d"}
    windows = {"every": "1d", "start": "2026-03-01"}  # days and a user's days begin together
    with inside(tmp_path, **EXACT, **windows, privacy_unit="user", **people) as service:
        for number in range(4):
            rows = [visit(number * day + 1, who=who) for who in ("ann", f"new{number}")]
            assert service.post(f"b{number}", rows).status_code == 202
            again = [visit(max(0, number - 2) * day + 2, who="ann")]  # counted, or long ago
            assert service.post(f"again{number}", again).status_code == 202
            service.at((number + 1) * day)
            with closing(sqlite3.connect(tmp_path / "visits.db")) as state:
                known = state.execute("SELECT period FROM counton_marks WHERE kind = 'user'")
                assert len({*known}) == 1  # today's alone
        rows = service.rows(series="per-window", group="home")
        assert [round(row["estimate"]) for row in rows] == [2, 2, 2, 2]


DAY = 24 * 60


@pytest.fixture
def people_served(tmp_path: Path) -> Iterator[Inside]:
    """A service of days, of which each user counts twice at most; ann and bob have, once."""
    people = {"user": "who", "max_contributions": 2, "privacy_unit": "user"}
    with inside(tmp_path, **EXACT, every="1d", **people) as service:
        assert service.post("0", [visit(1, who=who) for who in ("ann", "bob")]).status_code == 202
        service.at(DAY)
        yield service


def visits_of_a_day(service: Inside, day: int, *who: str) -> None:
    rows = [visit(day * DAY + 1, who=one) for one in who]
    assert service.post(f"{day}.{len(who)}", rows).status_code == 202


def forget_ann(service: Inside, wait: float) -> None:
    folder = service.file.parent
    erase_user(folder / "visits.db", "ann", key=folder / "visits.key", now=service.time, wait=wait)


def counts_of_days(service: Inside) -> list[int]:
    return [round(row["estimate"]) for row in service.rows(series="per-window", group="home")]


def test_user_is_erased_while_service_runs(
    people_served: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait are counted first; rows that come meanwhile are those of somebody new."""
    service = people_served
    visits_of_a_day(service, 1, "ann", "bob", "cid")
    with pytest.raises(
        InvalidInputError, match=r"rows wait in the inbox.*give wait=60 to wait up to 60 seconds"
    ):
        forget_ann(service, 0)

    def time_passes(_: float) -> None:
        service.at(2 * DAY)
        visits_of_a_day(service, 2, "ann", "cid")  # of ann's two visits both were counted

    monkeypatch.setattr(forgetting, "sleep", time_passes)
    forget_ann(service, 60)
    with Store(service.file.with_name("visits.db")) as store:
        assert waiting_batches(store.database, "visits")
    service.at(3 * DAY)
    visits_of_a_day(service, 3, "ann", "dan")
    service.at(4 * DAY)
    assert counts_of_days(service) == [2, 3, 1, 1]


def test_erasure_repeats_after_concurrent_run_of_service(
    people_served: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the stream over, after marks were read and before any is deleted: once more then."""
    service = people_served
    users_of = forgetting._users_of
    between: list[int] = []

    def served_meanwhile(stream: Stream) -> Any:
        found = users_of(stream)
        if not between:
            between.append(1)
            visits_of_a_day(service, 1, "bob", "cid")
            service.at(2 * DAY)
        return found

    monkeypatch.setattr(forgetting, "_users_of", served_meanwhile)
    monkeypatch.setattr(forgetting, "sleep", lambda _: None)
    forget_ann(service, 60)
    visits_of_a_day(service, 2, "ann", "bob", "cid", "cid")
    service.at(3 * DAY)
    assert counts_of_days(service) == [2, 2, 1]  # cid's second: bob and ann may count no more

"""Several states under one limit: what is entered once, refused in time, and never forgotten."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from databases import heard, looked_into
from patience import HANGS

from counton import ApproxDP, PureDP, Stream
from counton.base.errors import BudgetExceeded, CountonError, InvalidInput, OldCopy, StateError
from counton.job.jobfile import load
from counton.privacy import Contribution, Limit
from counton.run import Job, export, publish, run
from counton.run.exports import methods, released_in
from counton.run.shared_paths import refuse_shared
from counton.state import Store, database, shared, state_summary, verify
from counton.state.inbox import Inbox
from counton.state.watch import accept_old_copy
from counton.strategies import Binary

HALF = PureDP("0.5")


def made(place: Path | str, limit: Limit = PureDP(1)) -> str:  # noqa: B008 - nobody changes it
    """A ledger with a limit."""
    with Store(place, create=True) as store:
        store.set_limit(limit)
    return str(place)


def begin(state: Path | str, ledger: Path | str | None, name: str = "visits", **more: Any) -> None:
    Stream.create(
        state, name, Binary(9), more.pop("guarantee", HALF), ledger=ledger, **more
    ).close()


def entries(ledger: Path | str) -> list[tuple[str, str, bool]]:
    with Store(ledger) as store:
        return [(Path(e.place).name, e.spend.name, e.begun) for e in store.shared_entries]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return made(tmp_path / "team.db")
    return made(str(request.getfixturevalue("postgres")))


def test_two_states_count_against_one_limit(ledger: str, tmp_path: Path) -> None:
    begin(tmp_path / "web.db", ledger)
    begin(tmp_path / "shop.db", ledger, guarantee=PureDP("0.3"))
    with pytest.raises(BudgetExceeded) as refused:
        begin(tmp_path / "app.db", ledger)
    said = str(refused.value)
    assert "release 'visits' asks for pure differential privacy with epsilon = 0.5" in said
    assert "is left: give at most epsilon=0.2" in said
    assert "give at most --epsilon 0.2" in refused.value.translate({"epsilon": "--epsilon"})
    assert not list(tmp_path.glob("app.db*"))  # no state, no key
    begin(tmp_path / "app.db", ledger, guarantee=PureDP("0.2"))
    assert entries(ledger) == [(f"{n}.db", "visits", True) for n in ("web", "shop", "app")]
    with Store(ledger) as store:
        book = store.ledger
    assert book is not None
    assert book.remaining() is None


def test_its_history_has_entries_of_all_states_by_time(ledger: str, tmp_path: Path) -> None:
    begin(tmp_path / "web.db", ledger)
    begin(tmp_path / "shop.db", ledger, guarantee=PureDP("0.25"))
    with looked_into(ledger) as connection:
        said = "UPDATE counton_shared_entries SET entered = :at, token = :token WHERE number = :n"
        connection.run(said, at="2024-03-01T12:00:00+00:00", token="it", n=1)
        connection.run(said, at="2024-03-01T11:00:00+00:00", token=None, n=2)
        connection.run("UPDATE counton_limits SET time = :at", at="2024-03-01T11:00:00+00:00")
    with Store(ledger) as store:
        limit, shop, web = store.ledger_history
    assert (limit.event, limit.name, limit.state) == ("limit set", None, None)
    assert limit.user
    assert (shop.event, shop.name, shop.user) == ("reserved", "visits", limit.user)
    assert (shop.time, Path(shop.state or "").name) == ("2024-03-01T11:00:00+00:00", "shop.db")
    assert (shop.terms or {})["epsilon"] == "0.25"
    assert (web.event, Path(web.state or "").name) == ("spent", "web.db")


def test_a_limit_that_is_taken_away_is_in_its_history(tmp_path: Path) -> None:
    with Store(made(tmp_path / "team.db")) as store:
        store.set_limit(None, allow_raise=True)
        assert [one.in_words() for one in store.ledger_history] == [
            "limit set to pure differential privacy with epsilon = 1",
            "limit removed",
        ]


def test_a_state_remembers_its_ledger(ledger: str, tmp_path: Path) -> None:
    state = tmp_path / "web.db"
    begin(state, ledger)
    begin(state, None, "sales")
    assert [name for _, name, _ in entries(ledger)] == ["visits", "sales"]
    with pytest.raises(BudgetExceeded):
        begin(state, None, "third")
    with Store(state) as store:
        assert store.streams == ("sales", "visits")
        assert [spend.name for spend in store.spends] == ["visits", "sales"]


def test_a_state_that_joins_enters_all_of_its_streams(ledger: str, tmp_path: Path) -> None:
    state = tmp_path / "web.db"
    begin(state, None, guarantee=PureDP("0.4"))
    begin(state, None, "sales", guarantee=PureDP("0.4"))
    with Stream.open(state, "visits", ledger=ledger) as stream:
        stream.release(3)
    assert entries(ledger) == [("web.db", "visits", True), ("web.db", "sales", False)]
    with Stream.open(state, "sales") as stream:
        stream.release(3)
    assert entries(ledger)[1][2]


def test_a_state_that_cannot_join_stays_as_it_was(ledger: str, tmp_path: Path) -> None:
    state = tmp_path / "web.db"
    for name in ("one", "two", "three"):
        begin(state, None, name)
    with pytest.raises(BudgetExceeded):
        Stream.open(state, "one", ledger=ledger)
    assert entries(ledger) == []
    with Stream.open(state, "one") as stream:
        stream.release(1)


def test_a_name_of_ledger_that_is_wrong(tmp_path: Path) -> None:
    team = made(tmp_path / "team.db")
    with pytest.raises(StateError, match="does not exist: correct it, or make it"):
        begin(tmp_path / "web.db", tmp_path / "taem.db")
    Store(tmp_path / "none.db", create=True).close()
    with pytest.raises(InvalidInput, match="has no limit"):
        begin(tmp_path / "web.db", tmp_path / "none.db")
    assert not list(tmp_path.glob("web.db*"))
    begin(tmp_path / "web.db", team)
    other = made(tmp_path / "other.db")
    with pytest.raises(StateError, match="is another ledger"):
        begin(tmp_path / "web.db", other, "sales")
    with pytest.raises(StateError, match="is another ledger"):
        Stream.open(tmp_path / "web.db", "visits", ledger=other)
    with pytest.raises(InvalidInput, match=r"is itself counted in the ledger .*team\.db"):
        begin(tmp_path / "shop.db", tmp_path / "web.db")
    with pytest.raises(InvalidInput, match="itself the ledger of other states"):
        begin(team, other)


def test_a_ledger_may_have_streams_of_its_own(tmp_path: Path) -> None:
    team = made(tmp_path / "team.db")
    begin(tmp_path / "web.db", team)
    begin(team, team)  # which is to say nothing
    for state, name in ((team, "sales"), (tmp_path / "web.db", "sales")):
        with pytest.raises(BudgetExceeded):
            begin(state, None, name, guarantee=PureDP("0.1"))


def test_the_word_for_people_is_one_word(tmp_path: Path) -> None:
    team = made(tmp_path / "team.db")
    one = Contribution.add_remove(unit="visitor")
    begin(tmp_path / "web.db", team, contribution=one)
    begin(tmp_path / "shop.db", team)  # says no word, and has that of the ledger
    with Store(team) as store:
        assert [entry.spend.unit for entry in store.shared_entries] == ["visitor", "visitor"]
    begin(tmp_path / "old.db", None)  # as "unit": which might be the same people
    with pytest.raises(BudgetExceeded):
        Stream.open(tmp_path / "old.db", "visits", ledger=team)


def test_limits_of_other_kinds(tmp_path: Path) -> None:
    team = made(tmp_path / "team.db", ApproxDP(1, "1e-6"))
    for name in ("web", "shop"):
        begin(tmp_path / f"{name}.db", team, guarantee=ApproxDP("0.4", "1e-7"))
    with pytest.raises(BudgetExceeded):
        begin(tmp_path / "app.db", team, guarantee=ApproxDP("0.4", "1e-7"))


def test_jobs_of_a_file_share_a_ledger_beside_it(tmp_path: Path) -> None:
    made(tmp_path / "team.db")
    (tmp_path / "rows.csv").write_text("time\n2024-03-01T09:00\n")
    job = 'statistic = "count"\nevents = "rows.csv"\ntime = "time"\nevery = "1d"\n'
    job += 'start = "2024-03-01"\nsteps = 9\nuntil = "2024-03-02"\nepsilon = 0.6\n'
    (tmp_path / "jobs.toml").write_text(
        f'[defaults]\nledger = "team.db"\n[jobs.web]\nstate = "web.db"\n{job}'
        f'[jobs.app]\nstate = "app.db"\n{job}'
    )
    jobs = load(tmp_path / "jobs.toml")
    with run(jobs["web"]):
        pass
    with pytest.raises(BudgetExceeded, match=r"give at most epsilon=0\.4"):
        run(jobs["app"])
    with run(jobs["app"].having(epsilon="0.4", unit="event")):
        pass
    over = {name: job.having(out=tmp_path / "team.db.csv") for name, job in jobs.items()}
    over["web"] = over["web"].having(ledger=tmp_path / "team.db.csv", out=None)
    with pytest.raises(InvalidInput, match=r"reads or keeps \(ledger\)"):
        refuse_shared(over)


# What was put back.


def copied(place: Path, to: Path) -> None:
    for file in place.parent.glob(f"{place.name}*"):
        shutil.copy(file, to.parent / file.name.replace(place.name, to.name))


def test_a_ledger_put_back_is_refused(tmp_path: Path) -> None:
    team = Path(made(tmp_path / "team.db", PureDP(9)))
    begin(tmp_path / "web.db", team)
    copied(team, tmp_path / "copy.db")
    begin(tmp_path / "shop.db", team)
    shutil.copy(tmp_path / "copy.db", team)
    with pytest.raises(
        StateError, match=r"ledger .*team\.db ends at entry 1, but entry 2 was seen"
    ):
        begin(tmp_path / "new.db", team)  # its witness stood beside it
    assert not list(tmp_path.glob("new.db*"))


@pytest.mark.parametrize("others", [True, False])
def test_a_ledger_put_back_with_its_witness_is_refused(tmp_path: Path, others: bool) -> None:
    team = Path(made(tmp_path / "team.db", PureDP(9)))
    begin(tmp_path / "web.db", team)
    copied(team, tmp_path / "copy.db")
    begin(tmp_path / "shop.db", team)
    copied(tmp_path / "copy.db", team)
    if others:  # as many entries as before, and others
        begin(tmp_path / "app.db", team)
    said = "has another entry 2" if others else "ends at entry 1"
    with pytest.raises(StateError, match=said):
        Stream.open(tmp_path / "shop.db", "visits")
    with pytest.raises(StateError, match=said):
        begin(tmp_path / "shop.db", team, "sales")


def test_a_ledger_put_back_on_a_server_is_refused(postgres: str, tmp_path: Path) -> None:
    made(postgres)
    begin(tmp_path / "web.db", postgres)
    begin(tmp_path / "shop.db", postgres)
    with looked_into(postgres) as connection:
        connection.run("DELETE FROM counton_shared_entries WHERE number = 2")
    with pytest.raises(StateError, match="ends at entry 1"):
        Stream.open(tmp_path / "shop.db", "visits")
    with Stream.open(tmp_path / "web.db", "visits") as stream:  # which has not seen the other
        stream.release(1)


def test_a_copy_of_a_ledger_without_its_witness_is_refused(tmp_path: Path) -> None:
    team = Path(made(tmp_path / "team.db"))
    begin(tmp_path / "web.db", team)
    shutil.copy(team, tmp_path / "copy.db")
    with pytest.raises(StateError, match="is a copy, or was moved without its witness"):
        begin(tmp_path / "shop.db", tmp_path / "copy.db")
    with pytest.raises(StateError, match="is a copy, or was moved without its witness"):
        Stream.open(tmp_path / "web.db", "visits", ledger=tmp_path / "copy.db")


def test_a_ledger_that_was_moved_is_found_again(tmp_path: Path) -> None:
    team, moved = Path(made(tmp_path / "team.db")), tmp_path / "moved.db"
    begin(tmp_path / "web.db", team)
    for file in (team, Path(f"{team}.witness")):
        file.rename(str(file).replace("team", "moved"))
    with pytest.raises(StateError, match="does not exist"):
        Stream.open(tmp_path / "web.db", "visits")
    Stream.open(tmp_path / "web.db", "visits", ledger=moved).close()
    Stream.open(tmp_path / "web.db", "visits").close()


def test_a_state_put_back_is_refused_without_a_witness_of_its_own(
    ledger: str, tmp_path: Path
) -> None:
    state, old = tmp_path / "web.db", tmp_path / "old.db"
    begin(state, ledger)
    with Stream.open(state, "visits") as stream:
        stream.release(3)
    shutil.copy(state, old)
    with Stream.open(state, "visits") as stream:
        stream.release(4)
    shutil.copy(old, state)
    Path(f"{state}.key.witness").unlink()
    with pytest.raises(StateError, match="records that step 2 is released"):
        Stream.open(state, "visits")


def test_of_two_copies_one_goes_on(ledger: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (tmp_path / name / "web.db" for name in ("one", "two"))
    begin(one, ledger)
    copied(one, two)
    with Stream.open(one, "visits") as first, Stream.open(two, "visits") as second:
        first.release(3)
        with pytest.raises(StateError, match=r"records that step 1 is released|another release"):
            second.release(4)


def test_of_two_copies_in_which_one_stream_is_begun_one_has_the_entry(
    ledger: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (tmp_path / name / "web.db" for name in ("one", "two"))
    Store(one, create=True).close()
    copied(one, two)
    begin(one, ledger)
    with pytest.raises(StateError, match="has an entry for stream 'visits'"):
        begin(two, ledger)
    begin(two, ledger, "other")
    assert len(entries(ledger)) == 2


def _away(*_: object) -> None:
    raise StateError("the server is away")


def test_nothing_is_released_while_the_ledger_cannot_be_written(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "web.db"
    begin(state, ledger)
    with Stream.open(state, "visits") as stream:
        stream.release(3)
        with monkeypatch.context() as patched:
            patched.setattr(shared.SharedLedger, "change", _away)
            with pytest.raises(StateError, match="the server is away"):
                stream.release(4)
        assert (stream.step, stream.release(5).step) == (1, 2)


def _answers(state: Path) -> list[object]:
    """What every reader shows of a state's stream; of one that shows nothing, why."""

    def published() -> object:
        return publish(state, state.with_name("public.db")).after

    def streamed() -> object:
        with Stream.open(state, "visits") as stream:
            return stream.step

    def read() -> object:
        with Store(state) as store:
            return store.reader("visits").releases().values.tolist()[-1]

    def stands() -> object:
        with Store(state) as store:
            return store.position("visits").step

    def looked() -> object:
        (stream,) = state_summary(state)["streams"]
        return stream.get("refused") or stream["last"]["values"]

    found: list[object] = []
    for reader in (
        *(published, streamed, read, stands, looked),
        lambda: export(state).table().rows()[-1],
        lambda: released_in(state).table().rows()[-1],
        lambda: methods(state),
    ):
        try:
            found.append(reader())
        except StateError as error:
            found.append(str(error))
    return found


def night(state: Path, ledger: str | None, number: int, rows: int) -> None:
    """A day's rows, counted in the night after it."""
    events = state.with_name("visits.csv")
    times = [f"2024-03-0{day}T09:00" for day in range(1, number + 1)]
    events.write_text("\n".join(["time", *times, *[times[-1]] * rows]) + "\n")
    asked: dict[str, Any] = {"every": "1d", "start": "2024-03-01", "steps": 30, "epsilon": "0.5"}
    until = f"2024-03-0{number + 1}"
    job = Job("count", events, state, name="visits", time="time", ledger=ledger, until=until)
    run(job.having(**asked)).close()


@pytest.mark.parametrize("killed", [False, True])
def test_nobody_is_shown_what_the_ledger_does_not_know(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """The ledger goes away, or the process, between a release and its note.

    Else the release is read, state and witness are put back, and other rows give the same noise.
    """
    state = tmp_path / "web.db"
    for number in (1, 2):
        night(state, ledger, number, 0)
    old = {path: path.read_bytes() for path in tmp_path.glob("web.db*")}

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(shared.SharedEntry, "note", dies if killed else _away)
        with pytest.raises(Killed if killed else StateError):
            night(state, ledger, 3, 5)
        if not killed:
            assert [said for said in _answers(state) if "is away" not in str(said)] == []
    with monkeypatch.context() as patched:
        patched.setattr(shared.SharedLedger, "change", _away)
        assert [said for said in _answers(state) if "not shown yet" not in str(said)] == []
    with Store(ledger) as store:
        assert [one.step for one in store.shared_entries] == [2]
    shown = export(state).table()["estimate"].to_list()
    with Store(ledger) as store:
        assert [one.step for one in store.shared_entries] == [3]
    assert len(shown) == 3
    assert not [said for said in _answers(state) if "shown" in str(said)]
    for path in tmp_path.glob("web.db*"):
        path.unlink()
    for path, data in old.items():
        path.write_bytes(data)
        path.chmod(0o600)
    with pytest.raises(StateError, match="records that step 3 is released"):
        night(state, ledger, 3, 12)


@pytest.mark.usefixtures("one_witness")
@pytest.mark.parametrize("lost", [True, False])
def test_state_and_ledger_put_back_from_one_night(tmp_path: Path, lost: bool) -> None:
    """What the ledger's witness knows is enough, whatever became of the state's."""
    team, state = made(tmp_path / "team.db"), tmp_path / "web.db"
    for number in (1, 2):
        night(state, team, number, 0)
    names = ("web.db", "team.db") if lost else ("web.db", "web.db.key.witness", "team.db")
    old = {name: (tmp_path / name).read_bytes() for name in names}
    night(state, team, 3, 5)
    Path(f"{state}.key.witness").unlink()
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    before = state.read_bytes()
    refused = r"witness records step 3, so the ledger was restored"
    with pytest.raises(StateError, match="has no record of it" if lost else refused):
        night(state, team, 3, 12)
    if lost:
        with pytest.raises(StateError, match=refused):
            accept_old_copy(state, None)
    assert state.read_bytes() == before


# Interrupted anywhere, and in every order.


class Killed(BaseException):
    """What a process dies of, as far as databases can tell."""


@contextmanager
def killed_at(deadly: int) -> Iterator[None]:
    """Die before an event: a statement that writes, or a commit, of any database."""
    count = 0

    def writes(statement: str) -> None:
        nonlocal count
        verb = statement.split(maxsplit=1)[0]
        ours = "_shared_" in statement or "_streams" in statement
        if verb == "COMMIT" or (verb in ("INSERT", "UPDATE") and ours):
            count += 1
            if count == deadly:
                raise Killed

    with heard(writes):
        yield


def after_each_death(tmp_path: Path, *, step: int = 1) -> list[int]:
    """Numbers of entries after a death at each event of a first release; then it is run again.

    Raises:
        AssertionError: a stream is there whose entry is not, or an entry is there twice.
    """
    found: list[int] = []
    for number in itertools.count(1, step):
        folder = tmp_path / str(number)
        folder.mkdir()
        team, state = made(folder / "team.db"), folder / "web.db"
        try:
            with killed_at(number):
                released(state, team)
        except Killed:
            pass
        else:
            return found
        there = entries(team)
        if state.exists():
            with Store(state) as store:
                assert len(store.streams) <= len(there), f"uncounted after {number}"
        assert released(state, team) is not None
        assert entries(team) == [("web.db", "visits", True)], f"entered otherwise after {number}"
        found.append(len(there))
    raise AssertionError


def released(state: Path, ledger: str | Path) -> int:
    """What a run does: begin a stream or go on with it, and release its first step."""
    known: tuple[str, ...] = ()
    if state.exists():
        with Store(state) as store:
            known = store.streams
    terms = Binary(9), HALF
    open_ = Stream.open if known else Stream.create
    more: Any = () if known else terms
    with open_(state, "visits", *more, ledger=ledger) as stream:
        return int(stream.release(7, step=1).value)


@pytest.mark.slow
def test_an_entry_is_made_once_wherever_a_run_dies(tmp_path: Path) -> None:
    found = after_each_death(tmp_path)
    assert set(found) == {0, 1}
    assert found == sorted(found)  # once reserved, it counts


@pytest.mark.slow
def test_an_entry_that_is_made_after_the_stream_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter, joined = shared.SharedLedger.enter, shared.SharedLedger.join

    def later(self: shared.SharedLedger, state: Any, name: str) -> Any:
        with monkeypatch.context() as right:
            right.setattr(shared.SharedLedger, "enter", enter)
            return joined(self, state, name)

    monkeypatch.setattr(shared.SharedLedger, "enter", lambda *_: None)
    monkeypatch.setattr(shared.SharedLedger, "entry", lambda *_: None)
    monkeypatch.setattr(shared.SharedLedger, "join", later)
    with pytest.raises(AssertionError, match="after"):
        after_each_death(tmp_path)


@pytest.mark.slow
def test_an_entry_that_is_made_twice_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = shared.SharedLedger._reserve

    def anew(self: Any, connection: Any, state: Any, spend: Any, kind: Any) -> int:
        number = connection.value("SELECT count(*) FROM counton_shared_entries")
        other = spend._replace(name=spend.name + "'" * number)
        return reserve(self, connection, state, other, kind)

    monkeypatch.setattr(shared.SharedLedger, "_reserve", anew)
    with pytest.raises(AssertionError, match="entered otherwise after"):
        after_each_death(tmp_path)


def run_in_processes(states: list[Path], ledger: str, party: str = "") -> list[int]:
    """Processes that begin streams in their states until nothing is left; how many each began."""
    script = """
import sys
from counton import PureDP, Stream
from counton.base.errors import BudgetExceeded, StreamConflict
from counton.strategies import Binary
state, ledger, party, begun = sys.argv[1], sys.argv[2], sys.argv[3] or None, 0
sys.stdin.readline()
while True:
    try:
        name = f"stream {begun}"
        each = PureDP("0.125")
        Stream.create(state, name, Binary(9), each, ledger=ledger, party=party).close()
    except BudgetExceeded:
        break
    except StreamConflict:
        continue
    begun += 1
print(begun)
"""
    path = os.pathsep.join(sys.path)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, state, ledger, party],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        for state in states
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    return [int(one.communicate(timeout=HANGS)[0]) for one in started]


@pytest.mark.slow
def test_two_processes_at_once_fill_a_limit_and_no_more(ledger: str, tmp_path: Path) -> None:
    begun = run_in_processes([tmp_path / "web.db", tmp_path / "shop.db"], ledger)
    assert sum(begun) == 8  # times 0.125
    assert len(entries(ledger)) == 8
    assert all(is_begun for _, _, is_begun in entries(ledger))
    with Store(ledger) as store:
        book = store.ledger
    assert book is not None
    assert book.remaining() is None


@pytest.mark.slow
def test_two_processes_at_once_fill_a_quota_and_no_more(ledger: str, tmp_path: Path) -> None:
    with Store(ledger) as store:
        store.set_quota("sales", PureDP("0.375"))
    states = [tmp_path / "web.db", tmp_path / "shop.db"]
    assert sum(run_in_processes(states, ledger, "sales")) == 3  # times 0.125
    with Store(ledger) as store:
        book = store.ledger
    assert book is not None
    assert (book.remaining(), book.remaining(party="sales")) == (PureDP("0.625"), None)


def test_a_party_spends_its_quota_in_all_of_its_states(ledger: str, tmp_path: Path) -> None:
    with Store(ledger) as store:
        store.set_quota("sales", HALF)
    with pytest.raises(InvalidInput, match="states no party"):
        begin(tmp_path / "web.db", ledger)
    begin(tmp_path / "web.db", ledger, party="sales", guarantee=PureDP("0.4"))
    with pytest.raises(BudgetExceeded) as refused:
        begin(tmp_path / "shop.db", ledger, party="sales", guarantee=PureDP("0.2"))
    assert "the quota of 'sales' is pure differential privacy with epsilon = 0.5" in str(
        refused.value
    )
    assert not list(tmp_path.glob("shop.db*"))
    with Store(ledger) as store:
        (spent,) = [one for one in store.ledger_history if one.event == "spent"]
        assert (spent.party, bool(spent.user), bool(spent.host)) == ("sales", True, True)
        store.set_quota("sales", None)
        assert [one.verb for one in store.limit_changes] == ["set", "shared out", "shared out"]
    begin(tmp_path / "shop.db", ledger)


class World:
    """A state, a copy of it, a ledger and a copy of that; and everything that was shown."""

    def __init__(self, folder: Path, shown: tuple[tuple[str, int, int], ...] = ()) -> None:
        self.folder, self.shown = folder, shown
        self.team = folder / "team.db"

    def fork(self, folder: Path) -> World:
        shutil.copytree(self.folder, folder)
        return World(folder, self.shown)

    def does_all(self, order: str) -> None:
        """Several moves."""
        for act in order.split(", "):
            self.does(act)

    def does(self, act: str) -> None:
        """One move; what is refused changes nothing.

        Raises:
            AssertionError: something was released that is not counted, or a noise again.
        """
        what, _, which = act.partition(" ")
        saved, one, other = (self.folder / name for name in ("saved.db", "A", "B"))
        if what == "save":
            shutil.copy(self.team, saved)
        elif what == "restore" and saved.exists():
            shutil.copy(saved, self.team)
        elif what == "copy":  # with its key; the witness stays where it was
            shutil.rmtree(other, ignore_errors=True)
            shutil.copytree(one, other, ignore=shutil.ignore_patterns("*.witness"))
            with suppress(CountonError):
                accept_old_copy(other / "web.db", None)
        elif which and (self.folder / which).exists():
            self._runs(which, what)

    def _runs(self, which: str, what: str) -> None:
        state, data = self.folder / which / "web.db", ord(which)
        dies = {"run": None, "reserve": "enter", "make": "entry"}[what]
        with pytest.MonkeyPatch.context() as patched:
            if dies is not None:
                patched.setattr(*_dying(dies))
            try:
                with Store(state) as store:
                    known = bool(store.streams)
                if not known:
                    begin(state, self.team)
                with Stream.open(state, "visits", ledger=self.team) as stream:
                    shown = stream.release(data)
                    row = stream.key_fingerprint, shown.step, data
            except (Killed, CountonError):
                return
        self.shown = (*self.shown, row)
        for key, step, of in self.shown:
            given = {other for one, at, other in self.shown if (one, at) == (key, step)}
            assert given == {of}, "one noise for two data sets"
        assert len({key for key, _, _ in self.shown}) <= len(entries(self.team)), "not counted"


def _dying(method: str) -> tuple[type, str, Any]:
    """A run that dies when it has reserved its entry, or made its stream before it claims it."""
    right = getattr(shared.SharedLedger, method)
    if method == "entry":
        right_check = shared.SharedEntry.check

        def check(self: shared.SharedEntry, step: int, digest: Any) -> None:
            if not step and self._row().token is None:
                raise Killed
            right_check(self, step, digest)

        return shared.SharedEntry, "check", check

    def dies(self: Any, *given: Any) -> Any:
        right(self, *given)
        raise Killed

    return shared.SharedLedger, method, dies


ACTS = ("run A", "run B", "reserve A", "make A", "make B", "copy", "save", "restore")


def walk(world: World, folder: Path, depth: int, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every order of moves; the orders in which a law is broken."""
    for number, act in enumerate(ACTS):
        there = world.fork(folder / f"{len(path)}{number}")
        try:
            there.does(act)
        except AssertionError as broken:
            yield f"{(*path, act)}: {broken}"
        else:
            if depth > 1:
                yield from walk(there, folder, depth - 1, (*path, act))
        shutil.rmtree(there.folder)


def beginning(tmp_path: Path) -> World:
    """A ledger, and a state in which nothing is begun."""
    (tmp_path / "start" / "A").mkdir(parents=True)
    made(tmp_path / "start" / "team.db", PureDP(9))
    Store(tmp_path / "start" / "A" / "web.db", create=True).close()
    return World(tmp_path / "start")


@pytest.mark.slow
def test_no_order_of_runs_deaths_and_copies_breaks_the_laws(tmp_path: Path) -> None:
    depth = int(os.environ.get("COUNTON_ORDERS", "2"))
    assert [*walk(beginning(tmp_path), tmp_path, depth)] == []


def _nothing(*_: object) -> None:
    return None


def _unseen(self: shared.SharedLedger, ties: Any) -> Any:
    with self._database.transaction(write=False) as connection:
        return shared._end(connection)


#: What might be left out, and the order of moves that shows it.
WRONG: dict[str, tuple[list[tuple[type, str, Any]], str]] = {
    "a ledger that has forgotten is refused": (
        [
            (shared.SharedLedger, "refuse_forgotten", _unseen),
            (shared.SharedLedger, "witness_ends", lambda *_: []),
            (shared.SharedLedger, "write_witness", _nothing),
        ],
        "copy, save, run A, restore, run B",
    ),
    "a ledger remembers what was released": (
        [(shared.SharedEntry, each, _nothing) for each in ("check", "reserve", "note")],
        "run A, copy, run A, run B",
    ),
}


@pytest.mark.usefixtures("one_witness")
@pytest.mark.parametrize("law", WRONG)
def test_what_each_rule_is_good_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: str
) -> None:
    wrong, order = WRONG[law]
    start = beginning(tmp_path)
    world = start.fork(tmp_path / "right")
    world.does_all(order)
    assert world.shown
    for change in wrong:
        monkeypatch.setattr(*change)
    world = start.fork(tmp_path / "wrong")
    with pytest.raises(AssertionError, match=r"not counted|two data sets"):
        world.does_all(order)


@pytest.mark.parametrize("why", ["locked", "no witness"])
def test_a_ledger_that_cannot_be_written_leaves_no_new_state(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, state = tmp_path / "team.db", tmp_path / "web.db"
    made(team)
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
    witness = tmp_path / "team.db.witness"
    with closing(sqlite3.connect(team, isolation_level=None)) as other:
        if why == "locked":
            other.execute("BEGIN IMMEDIATE")
        else:
            witness.mkdir()
        with pytest.raises(CountonError):
            begin(state, team)
    assert [path.name for path in tmp_path.glob("web*")] == []
    if witness.is_dir():
        witness.rmdir()
    begin(state, team)


@pytest.mark.usefixtures("one_witness")
def test_an_old_copy_that_only_the_ledger_knows(ledger: str, tmp_path: Path) -> None:
    """Whoever shows it or takes rows in asks the ledger, as a release does; nothing changes."""
    (folder := tmp_path / "w").mkdir()
    state = folder / "web.db"
    for number in (1, 2):
        night(state, ledger, number, 0)
    old = {path: path.read_bytes() for path in folder.glob("web.db*")}
    night(state, ledger, 3, 5)
    begin(state, ledger, "later", guarantee=PureDP("0.1"))
    for path in folder.glob("web.db*"):
        path.unlink()
    for path, data in old.items():
        path.write_bytes(data)
        path.chmod(0o600)
    knows = r"ledger .* records that step 3 is released"
    with Store(state) as store:
        with pytest.raises(OldCopy, match=knows):
            store.position("visits")
        assert re.search(knows, store.reader("visits").doubt() or "")
        assert len(store.reader("visits").releases().steps) == 2  # what was shown, with that note
    (note,) = released_in(state, "visits").numbers.notes
    assert re.search(knows, note)
    inbox = Inbox(state, {"visits": None})
    try:
        with pytest.raises(OldCopy, match=knows), inbox._taking_in(["visits"]):
            pass
    finally:
        inbox.close()
    with pytest.raises(OldCopy, match=knows):
        publish(state, tmp_path / "public.db", name="visits")
    one, other = verify(state)
    assert re.search(knows, " ".join(one.problems))
    assert one.old_copy
    assert (other.name, other.kind, other.old_copy) == ("later", "forgotten", True)
    assert "its ledger records that" in other.problems[0]
    with pytest.raises(OldCopy, match=knows):
        night(state, ledger, 3, 12)
    with pytest.raises(OldCopy, match=knows):
        accept_old_copy(state, None)


@pytest.mark.usefixtures("one_witness")
def test_a_fork_that_only_the_ledger_knows_is_not_shown(tmp_path: Path) -> None:
    """Two copies went on, and this one's release is another than the ledger has."""
    (folder := tmp_path / "w").mkdir()
    state, team = folder / "web.db", made(tmp_path / "team.db")
    night(state, team, 1, 0)
    old = {path: path.read_bytes() for path in folder.glob("web.db*")}
    night(state, team, 2, 5)
    for path, data in old.items():
        path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patched:
        for each in ("check", "refuse_forgotten", "reserve", "note"):
            patched.setattr(shared.SharedEntry, each, _nothing)
        night(state, team, 2, 12)
    Path(f"{state}.key.witness").write_bytes(old[Path(f"{state}.key.witness")])
    with (
        Store(state) as store,
        pytest.raises(OldCopy, match=r"has another release in state .*ledger"),
    ):
        store.reader("visits").releases()


def test_a_party_is_kept_in_one_spelling_or_refused(tmp_path: Path) -> None:
    for party in ("", "a\x07"):  # as kept, no limit could ever be set for the state
        with pytest.raises(InvalidInput, match="must be a name of 1 to 200 characters"):
            begin(tmp_path / "bad.db", None, party=party)
    assert not (tmp_path / "bad.db").exists()
    begin(tmp_path / "web.db", None, party=" field  \uff57ork ")
    with Store(tmp_path / "web.db") as store:
        with pytest.raises(InvalidInput, match="must be a name of 1 to 200 characters"):
            store.add_spend("survey", HALF, unit="unit", party=" ")
        assert [one.party for one in store.spends] == ["field work"]

"""A clock that jumps: no window ends before its time, and runs of many windows are bounded."""

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from inside import EXACT, Inside, inside, visit
from services import START, copied, counted, job_file, rows, running

from counton.base.errors import StateUnavailableError
from counton.serve import release_times
from counton.serve import service as serving
from counton.serve.steady_clock import LASTING_SECONDS, SteadyClock, machine_clock, machine_seconds


class Machine:
    """The two clocks of a machine, which a test sets."""

    def __init__(self) -> None:
        self.time = START
        self.seconds = 0.0
        self.steady = SteadyClock(lambda: self.time, lambda: self.seconds)

    def pass_by(self, seconds: float, *, jump: float = 0.0) -> datetime:
        """Let some seconds pass, and the clock jump by some; return the time of the service."""
        self.seconds += seconds
        self.time += timedelta(seconds=seconds + jump)
        return self.steady()


YEAR = 400 * 86_400.0


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_clock_that_jumps_ahead_for_seconds_is_not_followed() -> None:
    machine = Machine()
    assert machine.pass_by(10) == after(10)
    assert machine.pass_by(1, jump=YEAR) == after(11)
    assert machine.steady.is_ahead
    assert machine.pass_by(8) == after(19)
    assert machine.pass_by(1, jump=-YEAR) == after(20)
    assert not machine.steady.is_ahead
    assert machine.pass_by(LASTING_SECONDS) == after(20 + LASTING_SECONDS)


def test_jump_ahead_that_lasts_is_accepted() -> None:
    machine = Machine()
    machine.pass_by(10, jump=3600)
    assert machine.pass_by(LASTING_SECONDS - 1) == after(10 + LASTING_SECONDS - 1)
    assert machine.pass_by(1) == after(10 + LASTING_SECONDS + 3600)
    assert not machine.steady.is_ahead
    assert machine.pass_by(5) == after(15 + LASTING_SECONDS + 3600)


def test_changing_clock_jump_is_never_followed() -> None:
    """Also a clock that runs far too fast is never followed."""
    machine = Machine()
    for seconds in range(100, 3 * int(LASTING_SECONDS), 100):
        assert machine.pass_by(100, jump=3600) == after(seconds)
        assert machine.steady.is_ahead


def test_clock_follows_jump_back_and_return_without_alarm() -> None:
    machine = Machine()
    assert machine.pass_by(10, jump=-3600) == after(10 - 3600)
    assert not machine.steady.is_ahead
    assert machine.pass_by(10, jump=3600) == after(20)
    assert not machine.steady.is_ahead


def test_jump_back_that_lasts_is_the_new_time() -> None:
    machine = Machine()
    machine.pass_by(10, jump=-3600)
    machine.pass_by(LASTING_SECONDS)
    time = machine.pass_by(10, jump=3600)
    assert time == after(20 + LASTING_SECONDS - 3600)
    assert machine.steady.is_ahead


def test_small_corrections_are_followed_but_do_not_add_up_quickly() -> None:
    machine = Machine()
    assert machine.pass_by(10, jump=1) == after(11)
    assert machine.pass_by(10, jump=-2) == after(19)
    for _ in range(20):
        machine.pass_by(1, jump=1)
    assert machine.steady.is_ahead
    slow = Machine()
    for minute in range(1, 20):  # corrections by hand, each some minutes after the one before
        assert slow.pass_by(LASTING_SECONDS, jump=4) == after(minute * (LASTING_SECONDS + 4))


def test_pause_between_two_readings_is_no_jump() -> None:
    """The process may be stopped after it has read one clock, and before it reads the other."""
    pauses = iter([0.0, 0.0, 0.0, 3600.0, 0.0, 0.0])
    now = {"seconds": 0.0}

    def seconds() -> float:
        now["seconds"] += next(pauses, 0.0)
        return now["seconds"]

    clock = SteadyClock(lambda: after(now["seconds"]), seconds)
    assert clock() == after(3600)
    assert not clock.is_ahead
    assert clock() == after(3600)


def test_machine_clocks_are_monotonic() -> None:
    first = machine_seconds()
    second = machine_seconds()
    assert first <= second
    assert machine_clock().tzinfo is UTC
    assert not SteadyClock(machine_clock, machine_seconds).is_ahead


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[Inside]:
    """A service whose clock is checked against seconds that the test sets."""
    exact: dict[str, Any] = EXACT
    found = Inside(job_file(tmp_path, **exact), seconds=0.0)
    with closing(found.service):
        yield found


def pass_by(service: Inside, minutes: float) -> None:
    assert service.seconds is not None
    service.seconds += 60 * minutes
    service.time += timedelta(minutes=minutes)
    service.work()


def test_service_ends_no_window_while_its_clock_has_jumped(checked: Inside) -> None:
    service = checked
    assert service.post("a", [visit(0.1)]).status_code == 202
    pass_by(service, 1)
    assert service.service.journals["visits"].step == 1
    service.time += timedelta(days=400)
    pass_by(service, 8 / 60)
    assert service.service.journals["visits"].step == 1
    refused = service("GET", "/ready")
    assert refused.status_code == 503
    assert "the clock of this machine has jumped ahead" in refused.text
    # Rows are taken meanwhile, and counted at their time.
    assert service.post("b", [visit(1.1)]).status_code == 202
    pass_by(service, 1)
    assert [row["estimate"] for row in service.rows(group="home", series="per-window")] == [1, 1]
    service.time -= timedelta(days=400)
    pass_by(service, 1)
    assert service.service.journals["visits"].step == 3
    assert service("GET", "/ready").status_code == 200


def test_service_accepts_a_new_time_that_lasts(checked: Inside) -> None:
    service = checked
    service.time += timedelta(minutes=30)
    pass_by(service, 1)
    assert service.service.journals["visits"].step == 1
    pass_by(service, LASTING_SECONDS / 60)
    assert service.service.journals["visits"].step == 41
    assert service("GET", "/ready").status_code == 200


@pytest.mark.parametrize(
    "job",
    [{}, {"allowed_lateness": "2m", "windows": None}, {"user": "who", "max_contributions": 3}],
)
def test_many_windows_are_released_in_runs_of_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    """Each run is committed by itself, and the numbers are those of a single run."""
    monkeypatch.setattr(release_times, "_RUN_WINDOWS", 3)
    file = job_file(tmp_path, **job, epsilon=1)
    copy = copied(file)
    body = rows(0, ["home"] * 3 + ["shop"])
    if "user" in job:
        body = body.replace(b"}", b', "who": "ann"}')
    served = Inside(file)
    with closing(served.service):
        assert served.send("a", body).status_code == 202
        served.at(10)
        releaser = served.service.releasers["visits"]
        assert (releaser.counts["releases"], releaser.counts["runs"]) == (10, 5)  # a fold, and 4
        told = [row["estimate"] for row in served.rows()]
    assert told == counted(file, copy, [[body]], last=10)


def test_run_has_fewer_windows_of_many_numbers(tmp_path: Path) -> None:
    sizes = {}
    for groups in (1, 2000):
        folder = tmp_path / str(groups)
        folder.mkdir()
        names = [f"g{number}" for number in range(groups)]
        with inside(folder, groups=names) as service:
            sizes[groups] = service.service.releasers["visits"]._windows_of_run
    assert sizes == {1: 10_000, 2000: 524}


def test_release_of_many_windows_ends_when_the_service_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_times, "_RUN_WINDOWS", 3)
    with inside(tmp_path, **EXACT) as service:
        assert service.post("a", [visit(9.5)]).status_code == 202
        releaser = service.service.releasers["visits"]
        original = releaser._run

        def run_and_stop(*arguments: Any) -> bool:
            released = original(*arguments)
            if releaser._step == 6:
                service.service.stopping.set()
            return released

        monkeypatch.setattr(releaser, "_run", run_and_stop)
        service.at(20)
        assert service.service.journals["visits"].step == 6
        service.service.stopping.clear()
        service.at(20)
        assert service.service.journals["visits"].step == 20
        counts = [row["estimate"] for row in service.rows(group="home", series="per-window")]
        assert sum(counts) == 1


@pytest.mark.slow
def test_service_whose_clock_is_years_ahead_still_ends(tmp_path: Path) -> None:
    """Where the new time is accepted, millions of windows are due."""
    file = job_file(tmp_path, every="1s", windows=None, expected_windows=1000)
    with running(file, {"counton.serve.release_times._RUN_WINDOWS": 500}) as service:
        service.at(400 * 1440)
        service.wait_for(500)
        assert service.get("/ready").status_code == 503
        assert service.stop() == 0
        service.at(0)
        service.start()
        assert 500 <= service.steps() < 400 * 86_400
        assert "has not reached" in service.get("/ready").text


def test_ready_reports_overdue_windows(tmp_path: Path) -> None:
    with inside(tmp_path) as service:
        service.at(1)
        service.time = START + timedelta(minutes=6)
        assert service("GET", "/ready").status_code == 200
        service.time = START + timedelta(minutes=7)  # the second window was due five minutes ago
        answer = service("GET", "/ready")
        assert answer.status_code == 503
        assert "have been due for more than five minutes" in answer.text
        service.work()
        assert service("GET", "/ready").status_code == 200


def test_ready_reports_failed_thread(tmp_path: Path) -> None:
    with inside(tmp_path) as service:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        service.service._threads.append(thread)
        assert "a thread of the service has failed" in service("GET", "/ready").text


def test_ready_reports_unreadable_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with inside(tmp_path) as service:
        journal = service.service.journals["visits"]
        original = journal.refresh
        answers: list[str] = []

        def fail() -> int:
            raise StateUnavailableError("the database does not answer")

        def refresh() -> int:
            answers.append(service("GET", "/ready").text)
            if len(answers) == 4:
                service.service.stopping.set()
            return fail() if len(answers) < 3 else original()

        monkeypatch.setattr(journal, "refresh", refresh)
        monkeypatch.setattr(serving, "_READING_SECONDS", 0.0)
        anyio.run(service.service.watch)
        unreadable = "the state of a stream cannot be read: see the log\n"
        assert answers == ["ready\n", unreadable, unreadable, "ready\n"]


def test_ready_reports_unsaved_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with inside(tmp_path) as service:
        inbox = next(iter(service.service.states.values())).inbox

        def fail(_batches: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(inbox, "put", fail)
            assert service.post("a", [visit(0.1)]).status_code == 503
        assert "batches cannot be saved" in service("GET", "/ready").text
        assert service.post("a", [visit(0.1)]).status_code == 202
        assert service("GET", "/ready").status_code == 200

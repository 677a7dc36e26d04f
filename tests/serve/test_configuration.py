"""What a service refuses at its start, naming value, bound and remedy."""

import io
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calls import calls_of
from click.testing import CliRunner
from inside import inside, metric, visit
from polars.exceptions import PanicException
from services import START, job_file

import counton.serve.served_jobs
from counton.base.errors import (
    BudgetExceededError,
    CountonError,
    InvalidInputError,
    MissingDependencyError,
    StateError,
)
from counton.cli.app import app
from counton.job.common_options import Job
from counton.job.messages import parse_options
from counton.job.statistics import STATISTIC_NAMES, model_of
from counton.privacy import PureDP
from counton.run.close_stream import close_stream
from counton.run.run_job import run
from counton.serve.service import Service
from counton.serve.settings import address, settings_of
from counton.serve.tokens import tokens_of
from counton.state import Store
from counton.state.database import Database


def refused(file: Path, only: tuple[str, ...] = ()) -> str:
    with pytest.raises(CountonError) as error:
        Service(file, only, clock=lambda: START)
    return str(error.value)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"events": "visits.csv"}, "here the rows are passed in from outside; leave the key out"),
        ({"epsilon": -1}, "epsilon"),
        ({"until": "latest-event"}, "a service, which releases by its clock"),
        ({"release_delay": "soon"}, "release-delay soon is not a length of time; write 90s"),
        ({"output": "visits.csv"}, "cannot be used in a service, because it is for runs"),
        ({"time": None, "every": None}, "without a column of times"),
        ({"every": "1y"}, "1y"),
        ({"starts": "2024-03-01"}, "count has no option 'starts'; did you mean start?"),
        ({"statistic": "graphs"}, "give one of"),
        ({"key": "/nowhere/key"}, "/nowhere"),
        ({"state": "mysql://db"}, "SQLite and PostgreSQL"),
    ],
)
def test_jobs_that_cannot_be_served(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    message = refused(job_file(tmp_path, **changed))
    assert says in message
    assert "job 'visits'" in message
    assert not (tmp_path / "visits.db").exists()


def test_a_table_that_was_released_once_is_not_served(tmp_path: Path) -> None:
    """The refusal was of an option that nobody had given."""
    table: dict[str, Any] = {"label": "page", "groups": "home,shop", "epsilon": 1}
    options = {
        "state": tmp_path / "visits.db", "key": tmp_path / "visits.key", "stream": "visits",
        **table,
    }  # fmt: skip
    run(parse_options(model_of("ranges"), options), rows=pl.DataFrame({"page": ["home"]}))
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"time": None, "every": None, "start": None, "windows": None},
    )
    for times in changes:
        more: dict[str, Any] = {
            "statistic": "ranges", "label": "page", "group_by": None, "privacy_unit": None, **times,
        }  # fmt: skip
        message = refused(job_file(tmp_path, **more))
        assert "'visits' is a table that was released once, but a service releases" in message


@pytest.mark.parametrize(
    ("serve", "says"),
    [
        ({"fold": "soon"}, "fold soon is not a length of time"),
        ({"fold": "2h"}, "fold 2h is not from 1s to 1h"),
        ({"fold": 5}, "fold 5 is not a length of time"),
        ({"fold": True}, "fold is not a length of time"),
        ({"public": "yes"}, "public yes is neither true nor false"),
        ({"port": 80}, "has no option 'port'; leave it out"),
        ({"token": "x"}, "did you mean tokens?"),
    ],
)
def test_service_settings_out_of_range_are_refused(
    tmp_path: Path, serve: dict[str, Any], says: str
) -> None:
    message = refused(job_file(tmp_path, serve=serve))
    assert says in message
    assert "jobs.toml" in message


def test_a_table_of_settings_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text("serve = 5\n[jobs.a]\n")
    with pytest.raises(InvalidInputError, match="is no section"):
        settings_of(file)


@pytest.mark.parametrize("listen", ["8080", "localhost", "a b:80", ":80", "127.0.0.1:99999", ""])
def test_addresses_that_are_none(listen: str) -> None:
    with pytest.raises(InvalidInputError, match="HOST:PORT"):
        address(listen)


def test_one_stream_is_served_by_one_job(tmp_path: Path) -> None:
    file = job_file(tmp_path, jobs={"visits": {}, "again": {}})
    file.write_text(file.read_text().replace("[jobs.again]", "[jobs.again]\nstream = 'visits'"))
    message = refused(file)
    assert "a stream named 'visits' too" in message


def test_service_refuses_publish_and_limit_tables_of_job_file(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    text = file.read_text()
    file.write_text(f"{text}\n[publish]\nto = 'public.db'\n")
    assert "a service answers readers itself" in refused(file)
    file.write_text(f"{text}\n[limit]\nepsilon = 0.5\n")
    assert "set the budget of the state by counton ledger" in refused(file)


def test_a_file_is_served_by_one_process(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    first = Service(file, clock=lambda: START)
    try:
        assert "is served by another process" in refused(file)
    finally:
        first.close()
    Service(file, clock=lambda: START).close()


def test_a_job_that_changes_its_stream_is_refused(tmp_path: Path) -> None:
    Service(job_file(tmp_path), clock=lambda: START).close()
    assert "epsilon" in refused(job_file(tmp_path, epsilon=2))
    assert "home" in refused(job_file(tmp_path, groups="home,cellar"))


def test_unknown_jobs_are_refused(tmp_path: Path) -> None:
    assert "cellar" in refused(job_file(tmp_path), ("cellar",))


def test_two_tokens_are_made_once(tmp_path: Path) -> None:
    made = tokens_of(tmp_path / "tokens")
    assert tokens_of(tmp_path / "tokens") == made
    assert made.write != made.read
    assert oct((tmp_path / "tokens").stat().st_mode)[-3:] == "600"
    with pytest.raises(InvalidInputError, match="a folder that exists"):
        tokens_of(tmp_path / "nowhere" / "tokens")


@pytest.mark.parametrize("text", ["{", "[]", '{"write": "a"}', '{"write": "abc", "read": "def"}'])
def test_a_file_without_two_tokens_is_refused(tmp_path: Path, text: str) -> None:
    file = job_file(tmp_path)
    (tmp_path / "jobs.toml.tokens").write_text(text)
    (tmp_path / "jobs.toml.tokens").chmod(0o600)
    assert "the service makes new ones" in refused(file)


def test_two_tokens_that_are_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(json.dumps({"write": "x" * 40, "read": "x" * 40}))
    (tmp_path / "tokens").chmod(0o600)
    with pytest.raises(InvalidInputError, match="must differ"):
        tokens_of(tmp_path / "tokens")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mode", [0o604, 0o644, 0o640, 0o444, 0o660, 0o602, 0o601, 0o666])
def test_tokens_that_others_may_read_or_write_are_refused(tmp_path: Path, mode: int) -> None:
    tokens_of(tmp_path / "tokens")
    (tmp_path / "tokens").chmod(mode)
    with pytest.raises(InvalidInputError, match=f"have mode {mode:04o}.*chmod 600"):
        tokens_of(tmp_path / "tokens")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440])
def test_tokens_file_readable_by_owner_or_group_is_accepted(tmp_path: Path, mode: int) -> None:
    made = tokens_of(tmp_path / "tokens")
    (tmp_path / "tokens").chmod(mode)
    assert tokens_of(tmp_path / "tokens") == made


def test_serve_command_refuses_job_that_cannot_run(tmp_path: Path) -> None:
    file = job_file(tmp_path, epsilon=-1)
    done = CliRunner().invoke(app, ["serve", str(file)])
    assert done.exit_code == 2
    assert "job 'visits'" in done.stderr


def served_by(file: Path) -> Service:
    return Service(file, clock=lambda: START)


def test_closed_stream_is_served_and_reported(tmp_path: Path) -> None:
    jobs = {"visits": {}, "old": {"stream": "older"}}
    with inside(tmp_path, jobs=jobs) as service:
        body = json.dumps(visit(0.5)).encode()
        for name in ("visits", "older"):
            url = f"/v1/streams/{name}/batches/a"
            media = {"Content-Type": "application/x-ndjson"}
            assert service("POST", url, "write", content=body, headers=media).status_code == 202
        service.at(2)
    close_stream(str(tmp_path / "visits.db"), "older")
    with inside(tmp_path, jobs=jobs) as service:
        (said,) = service.service.remarks
        assert "job 'old': stream 'older' is closed at window 2" in said
        service.at(4)
        answer = service("GET", "/v1/streams/older/series")
        assert [row["window_index"] for row in answer.json()["rows"]] == [1, 1, 2, 2]
        assert service("GET", "/v1/streams/older").json()["next_release"] is None
        again = service("POST", url, "write", content=body, headers=media)
        assert again.status_code == 200  # it was counted
        other = url.replace("batches/a", "batches/b")
        assert service("POST", other, "write", content=body, headers=media).status_code == 410
        assert service("GET", "/v1/streams/visits").json()["steps"] == 4
        assert service.service.why_not_ready is None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"state": "."}, "job 'bad'"),
        ({"statistic": "sum"}, "lower"),
        ({"statistic": "sum", "lower": 0, "upper": 9, "resolution": 1}, "sum needs value"),
        ({"statistic": "cuont"}, "did you mean count?"),
        ({"epsilom": 1}, "did you mean epsilon?"),
        ({"windows": [60]}, "windows is not a whole number"),
    ],
)
def test_job_that_cannot_run_is_reported_and_others_are_served(
    tmp_path: Path, bad: dict[str, Any], says: str
) -> None:
    with inside(tmp_path, jobs={"visits": {}, "bad": bad}) as service:
        (said,) = service.service.remarks
        assert said.startswith("job 'bad'")
        assert says in said
        service.at(2)
        assert service("GET", "/v1/streams/visits").json()["steps"] == 2
        for answer in (
            service("GET", "/v1/streams/bad/series"),
            service("GET", "/v1/streams/bad/release"),
            service("POST", "/v1/streams/bad/batches/a", "write", content=b"{}"),
        ):
            assert answer.status_code == 503  # whoever sends rows keeps them
            assert "cannot run" in answer.json()["detail"]
            assert says not in answer.text
        assert metric(service, "failed_jobs") == 1
        streams = service("GET", "/v1/streams").json()["streams"]
        assert [one["name"] for one in streams] == ["visits"]


def test_jobs_of_every_statistic_that_cannot_run_stop_no_other(tmp_path: Path) -> None:
    """Each states nothing of its own, or one thing wrongly."""
    bad: dict[str, dict[str, Any]] = {}
    for what in STATISTIC_NAMES:
        own = {"statistic": what, "group_by": None, "groups": None, "epsilon": -1}
        bad[what] = own
        model = model_of(what)
        for option in sorted(model.model_fields.keys() - Job.model_fields.keys()):
            key = str(model.model_fields[option].alias)
            for number, value in enumerate(("", -1, [], True)):
                bad[f"{what}-{key}-{number}"] = {**own, key: value}
    service = served_by(job_file(tmp_path, jobs={**bad, "visits": {}}))
    try:
        assert [*service.served] == ["visits"]
        assert service.failed.keys() == bad.keys()
        for name, error in service.failed.items():
            assert f"job {name!r}" in str(error)
            assert not isinstance(error, StateError), error  # a defect of ours
    finally:
        service.close()


def test_service_opens_state_a_fixed_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The releaser and the journals of its streams then share one."""
    file = job_file(tmp_path, jobs={"visits": {}, "pages": {}})
    served_by(file).close()
    opened = calls_of(monkeypatch, Database, "_look_at_format")
    service = served_by(file)
    try:
        assert len(opened) == 2 + 2 + 3  # for the turn, the inbox, and all that reads
        for releaser in service.releasers.values():
            releaser.forget()
            releaser._due(0)
        assert len(opened) == 7
    finally:
        service.close()


def test_a_job_that_meets_a_defect_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic of polars is no `Exception`."""
    real = counton.serve.served_jobs.serve_job
    for defect in (TypeError("no"), PanicException("no"), MissingDependencyError("install it")):

        def serve_job(name: str, job: Any, defect: BaseException = defect) -> Any:
            if job.stream == "bad":
                raise defect
            return real(name, job)

        monkeypatch.setattr(counton.serve.served_jobs, "serve_job", serve_job)
        service = served_by(job_file(tmp_path, jobs={"visits": {}, "bad": {}}))
        service.close()
        assert [*service.served] == ["visits"]
        assert "job 'bad': " in str(service.failed["bad"])


def test_job_beyond_budget_is_refused_and_others_are_served(tmp_path: Path) -> None:
    with Store(tmp_path / "bad.db", create=True) as store:
        store.set_budget(PureDP("0.5"))
    service = served_by(job_file(tmp_path, jobs={"visits": {}, "bad": {"state": "bad.db"}}))
    service.close()
    assert ([*service.served], [*service.failed]) == (["visits"], ["bad"])
    error = service.failed["bad"]
    assert isinstance(error, BudgetExceededError)
    for words in (
        "job 'bad': release 'bad' asks for pure differential privacy with epsilon = 1; ",
        "the budget is pure differential privacy with epsilon = 0.5 for one visit ",
        "give at most epsilon 0.5",
    ):
        assert words in str(error)
    with Store(tmp_path / "bad.db") as store:
        assert (store.streams, store.entries) == ((), ())


def test_state_named_as_key_or_groups_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that is opened besides loses its locks."""
    served_by(job_file(tmp_path)).close()
    opened = set[str]()
    for module, name in ((os, "open"), (io, "open")):
        real = getattr(module, name)

        def watched(path: Any, *more: Any, real: Any = real, **named: Any) -> Any:
            opened.add(str(path))
            return real(path, *more, **named)

        monkeypatch.setattr(module, name, watched)
    state = str(tmp_path / "visits.db")
    for bad, says in (({"key": state}, "not hold a counton key"), ({"groups": state}, "SQLite")):
        service = served_by(
            job_file(tmp_path, jobs={"visits": {}, "bad": {"state": "bad.db", **bad}})
        )
        service.close()
        assert [*service.served] == ["visits"]
        assert says in str(service.failed["bad"])
        assert opened
        assert state not in opened


def test_a_job_without_its_key_stops_no_other(tmp_path: Path) -> None:
    jobs = {"visits": {}, "bad": {"key": "bad.key", "state": "bad.db"}}
    served_by(job_file(tmp_path, jobs=jobs)).close()
    (tmp_path / "bad.key").unlink()
    service = served_by(job_file(tmp_path, jobs=jobs))
    try:
        assert [*service.served] == ["visits"]
        assert "job 'bad'" in str(service.failed["bad"])
        assert "key" in str(service.failed["bad"])
    finally:
        service.close()


def test_service_names_every_job_when_none_can_run(tmp_path: Path) -> None:
    file = job_file(tmp_path, jobs={"one": {"epsilon": -1}, "two": {"release_delay": "soon"}})
    message = refused(file)
    assert "job 'one'" in message
    assert "job 'two'" in message
    assert not (tmp_path / "visits.db").exists()


def test_a_stream_whose_runs_fail_is_left_to_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its next run is due; and one whose job cannot run here always."""
    service = Service(job_file(tmp_path), clock=lambda: START)
    (state,), ((name, releaser),) = service.states.values(), service.releasers.items()

    def fail() -> bool:
        raise OSError("no room")

    monkeypatch.setattr(releaser, "work", fail)
    left = []
    for _ in range(3):
        left.append(service._left_to_others(state))
        failures, _ = service._wait.get(name, (0, 0.0))
        service._wait[name] = (failures, 0.0)  # its next run is due
        service._work(releaser)
    assert left == [frozenset()] * 3
    assert service._left_to_others(state) == {name}
    service._wait[name] = (3, 0.0)
    assert service._left_to_others(state) == frozenset()
    del service.served[name]
    assert service._left_to_others(state) == {name}
    service.close()

"""A service in a process of its own, on a port kept for it, with a clock that a test sets."""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from databases import looked_into
from forked_commands import forked_python
from patience import HANGS
from ports import kept_port

#: When the tests' first windows begin.
START = datetime(2026, 3, 1, 9, tzinfo=UTC)

#: As the command does, but told the time by a file. It loads all that it needs, and forks a service
#: for each line that it is given, or waits for the end of one.
_PROGRAM = """
import importlib, json, os, signal, sys, warnings
from datetime import datetime
from pathlib import Path
warnings.simplefilter("error")
import counton.run.run_job
import counton.results.display
import counton.results.release, counton.continual.intervals, counton.serve.metrics
import counton.state.dedup, counton.strategies, psycopg, tzdata
from functools import partial
from counton.serve import service as serving
from counton.serve.server import serve
from counton.serve.service import Service

# It looks more often than others whether there is work, and what was released, and whether a job
# that failed can begin. A turn that nobody asks for again is over sooner, too: tests wait for it.
serving._TICK_SECONDS = 0.05
serving._READING_SECONDS = 0.1
serving._RETRY_SECONDS = 0.5
serving.LEASE_SECONDS = 1
serving.Leases = partial(serving.Leases, seconds=serving.LEASE_SECONDS)

file, folder, changed = sys.argv[1:]
for name, value in json.loads(changed).items():
    module, _, attribute = name.rpartition(".")
    setattr(importlib.import_module(module), attribute, value)

def now():
    return datetime.fromisoformat(Path(folder, "clock").read_text())

def listening(url):
    Path(folder, "url.new").write_text(url)
    Path(folder, "url.new").rename(Path(folder, "url"))

def work(listen, deadly):
    if deadly:  # dies when it has asked the database for so much
        import itertools
        from counton.state.sql import Connection

        number, execute = itertools.count(1), Connection.execute

        def asked():
            if next(number) >= deadly:
                os.kill(os.getpid(), signal.SIGKILL)

        def executed(connection, *given, **values):
            asked()
            cursor = execute(connection, *given, **values)
            asked()
            return cursor

        Connection.execute = executed
    serve(Service(file, clock=now), listen, listening)

for line in sys.stdin:
    what, number, *listen = line.split()
    if what == "number":
        print(os.getpid(), flush=True)
        continue
    if what == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(int(number), 0)[1]), flush=True)
        continue
    child = os.fork()
    if not child:
        code = 1
        try:
            work(listen[0], int(number))
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\\n")
            sys.stderr.flush()
        finally:
            os._exit(code)
    print(child, flush=True)
"""


def job_file(
    folder: Path,
    *,
    state: str = "visits.db",
    jobs: Mapping[str, Mapping[str, Any]] | None = None,
    serve: Mapping[str, Any] | None = None,
    **changed: Any,
) -> Path:
    """A job file of one count by page, in windows of a minute, or of other jobs.

    Args:
        folder: where it is written.
        state: of all jobs.
        jobs: instead of the count, or beside what it says.
        serve: settings.
        changed: keys of the count; None leaves one out.
    """
    count = {
        "statistic": "count", "time": "time", "every": "1m",
        "start": START.strftime("%Y-%m-%dT%H:%M"), "windows": 60, "group_by": "page",
        "groups": "home,shop",
        "epsilon": 1, "privacy_unit": "visit",
    } | changed  # fmt: skip
    several = {"visits": {}} if jobs is None else jobs
    lines = ["[defaults]", f"state = {json.dumps(state)}", 'key = "visits.key"']
    for name, own in several.items():
        lines.append(f"[jobs.{name}]")
        merged = count | dict(own)
        lines += [
            f"{key.replace('_', '-')} = {json.dumps(v)}"
            for key, v in merged.items()
            if v is not None
        ]
    settings = {"fold": "1s", "public": True} | dict(serve or {})
    lines += ["[serve]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    file = folder / "jobs.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def tokens_for(file: Path) -> dict[str, str]:
    """The two tokens of a service."""
    from counton.serve.settings import settings_of
    from counton.serve.tokens import tokens_of

    return tokens_of(settings_of(file).tokens)._asdict()


def rows(minute: int, pages: Sequence[str]) -> bytes:
    """A batch of JSON lines: visits in one minute after the beginning."""
    time = START.timestamp() + 60 * minute
    return b"".join(
        json.dumps(
            {"time": datetime.fromtimestamp(time + n % 60, UTC).isoformat(), "page": page}
        ).encode()
        + b"\n"
        for n, page in enumerate(pages)
    )


def copied(file: Path) -> str:
    """Make the new state of a service, and a copy of it with a copy of its key.

    Args:
        file: job file of one count, made by `job_file`, whose key is ``visits.key``.

    Returns:
        The state of the copy.
    """
    from witnesses import without_witness

    from counton.job.job_file import load
    from counton.serve.service import Service

    with pytest.MonkeyPatch.context() as patched:
        without_witness(patched)  # which would notice the copy
        Service(file, clock=lambda: START).close()
    copy = file.parent / "undisturbed"
    copy.mkdir()
    shutil.copy2(file.parent / "visits.key", copy)
    state = str(load(file, without_rows=True)["visits"].state)
    if "://" not in state:
        shutil.copy2(state, copy)
        return str(copy / Path(state).name)
    url, _, schema = state.rpartition("%3D")
    with looked_into(state) as connection:
        connection.execute(f"CREATE SCHEMA {schema}_copy")
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = :name"
        for (table,) in [*connection.rows(tables, name=schema)]:
            new = f"{schema}_copy.{table}"
            connection.execute(f"CREATE TABLE {new} (LIKE {table} INCLUDING ALL)")
            connection.execute(f"INSERT INTO {new} SELECT * FROM {table}")  # noqa: S608
    return f"{url}%3D{schema}_copy"


def counted(
    file: Path, state: str, minutes: Sequence[Sequence[bytes]], last: int | None = None
) -> list[float]:
    """What runs over files say, one after each minute, of the batches that had come by then.

    Args:
        file: of the service.
        state: a copy of its new state.
        minutes: batches.
        last: the minute that the last run releases; None: its own.

    Returns:
        All estimates.
    """
    from counton.job.statistics.count import CountJob
    from counton.run.run_job import run

    copy = file.parent / "undisturbed"
    found: list[float] = []
    for minute, batches in enumerate(minutes, 1):
        until = last if last is not None and minute == len(minutes) else minute
        events = copy / f"{minute}.jsonl"
        events.write_bytes(b"".join(batches))
        job = CountJob(
            events=events, state=state, stream="visits", append=True, allow_empty_windows=True,
            key=copy / "visits.key", until=START + timedelta(minutes=until),
        )  # fmt: skip
        found = run(job).release.table()["estimate"].to_list()
    return found


#: Of requests by plain HTTP: to read all certificates takes far longer than one of them.
PLAIN: dict[str, Any] = {"verify": False}


class RunningService:
    """A service that runs.

    Args:
        file: its job file; the clock lies beside it.
        tokens: of each scope.
        changed: values of constants of modules, by their full names.
    """

    def __init__(
        self, file: Path, tokens: Mapping[str, str], changed: Mapping[str, float] | None = None
    ) -> None:
        self.folder = file.parent
        self.tokens = dict(tokens)
        self._place = kept_port()
        self.port: int = self._place.getsockname()[1]
        self.log = self.folder / "log"
        self.url = ""
        self._pid = 0
        if not (self.folder / "clock").exists():
            self.at(-1)
        with self.log.open("ab") as log:
            self._parent = subprocess.Popen(
                [
                    *(forked_python(), "-c", _PROGRAM, str(file), str(self.folder)),
                    json.dumps(dict(changed or {})),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"},
            )

    def limit_open_files(self, most: int) -> None:
        """Services that begin from here on may open so many files."""
        resource.prlimit(self._ask("number", 0), resource.RLIMIT_NOFILE, (most, most))

    def at(self, minute: float) -> None:
        """Set the clock, in minutes after the beginning."""
        moment = datetime.fromtimestamp(START.timestamp() + 60 * minute, UTC)
        (self.folder / "clock.new").write_text(moment.isoformat())
        (self.folder / "clock.new").rename(self.folder / "clock")

    def _ask(self, *words: object) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(" ".join(map(str, words)) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def spawn(self, deadly: int = 0) -> None:
        """Begin; with a number it kills itself when it has asked its database for so much."""
        (self.folder / "url").unlink(missing_ok=True)
        self._pid = self._ask("spawn", deadly, f"127.0.0.1:{self.port}")

    def start(self) -> None:
        """Begin, and wait until it answers."""
        self.spawn()
        if not self.up():
            raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")

    def up(self, seconds: float = HANGS) -> bool:
        """Wait until it answers; whether it does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.ended(0):
            with contextlib.suppress(httpx.TransportError, FileNotFoundError):
                self.url = (self.folder / "url").read_text()
                return httpx.get(f"{self.url}/health", timeout=10, **PLAIN).status_code == 200
            time.sleep(0.02)
        return False

    def ended(self, seconds: float) -> bool:
        """Whether it ends by itself within some seconds."""
        if not self._pid:
            return True
        handle = os.pidfd_open(self._pid)  # readable when the process has ended
        try:
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self._pid, number)

    def deleted(self) -> list[str]:
        """Files that it holds open, and that have no name any more."""
        found = []
        for handle in Path(f"/proc/{self._pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(handle))
        return [name for name in found if name.endswith(" (deleted)") and "db" in name]

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)
        self._wait()

    def _wait(self) -> int:
        pid = self._pid
        self._pid = 0
        return self._ask("wait", pid)

    def stop(self) -> int:
        """Tell it to end; its exit code."""
        self.send_signal(signal.SIGTERM)
        if not self.ended(HANGS):
            self.kill()
            raise TimeoutError(f"it does not end: {self.log.read_text()[-2000:]}")
        return self._wait()

    def close(self) -> None:
        """Stop it, if it runs, and forget it."""
        try:
            if self._pid:
                self.stop()
        finally:
            assert self._parent.stdin is not None
            assert self._parent.stdout is not None
            self._parent.stdin.close()
            self._parent.stdout.close()
            self._parent.wait(HANGS)
            self._place.close()

    def header(self, scope: str) -> dict[str, str]:
        """The header with a token."""
        return {"Authorization": f"Bearer {self.tokens[scope]}"}

    def post(
        self,
        batch: str,
        body: bytes,
        media: str = "application/x-ndjson",
        stream: str = "visits",
        **headers: str,
    ) -> httpx.Response:
        """Send a batch."""
        told = {"Content-Type": media, **self.header("write"), **headers}
        return httpx.post(
            f"{self.url}/v1/streams/{stream}/batches/{batch}", content=body, headers=told,
            timeout=HANGS, **PLAIN,
        )  # fmt: skip

    def get(self, path: str, scope: str | None = None, **query: Any) -> httpx.Response:
        """Read a path."""
        headers = {} if scope is None else self.header(scope)
        url = f"{self.url}{path}"
        return httpx.get(url, params=query or None, headers=headers, timeout=HANGS, **PLAIN)

    def steps(self, stream: str = "visits") -> int:
        """How many steps readers know of."""
        found: int = self.get(f"/v1/streams/{stream}").json()["steps"]
        return found

    def wait_for(self, step: int, stream: str = "visits", seconds: float = HANGS) -> None:
        """Wait until a step is released."""
        end = time.monotonic() + seconds
        while self.steps(stream) < step:
            if time.monotonic() > end:
                raise TimeoutError(f"step {step} is not released: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def series(self, stream: str = "visits", **query: Any) -> list[dict[str, Any]]:
        """All that is released, from all pages."""
        answer = self.get(f"/v1/streams/{stream}/series", **query).json()
        found: list[dict[str, Any]] = answer["rows"]
        while answer["next"] is not None:
            answer = self.get(f"/v1/streams/{stream}/{answer['next']}").json()
            found += answer["rows"]
        return found

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Wait until a text is in the log, as often as given."""
        end = time.monotonic() + HANGS
        while self.log.read_text().count(text) < times:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} is not logged: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)


@contextlib.contextmanager
def running(file: Path, changed: Mapping[str, float] | None = None) -> Iterator[RunningService]:
    """A service that is stopped at the end; ``changed`` is as for `RunningService`."""
    service = RunningService(file, tokens_for(file), changed)
    try:
        service.start()
        yield service
    finally:
        service.close()

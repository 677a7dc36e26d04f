"""Every command beside a service that takes rows into a SQLite file, and what it opens.

A state on a server has no file, and no locks that closing one could lose.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from forked_commands import forked_python
from patience import HANGS
from services import RunningService, copied, counted, job_file, rows, running
from state_commands import CODES, KNOWN, words_by_command

pytestmark = pytest.mark.slow

PAGES = ["home", "shop", "home"]


class Load:
    """Sends batches of the second minute, one after the other, until it is stopped."""

    def __init__(self, service: RunningService) -> None:
        self.service = service
        self.accepted = list[bytes]()
        self.refused: list[str] = []
        self._end = time.monotonic() + HANGS
        self._over, self._thread = threading.Event(), threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._over.wait(0.05):
            number = len(self.accepted)
            body = rows(1, PAGES[: 1 + number % 3])
            self.service.at(1 + min(0.9, number / 5000))  # rows are counted as time goes on
            try:
                answer = self.service.post(f"b{number}", body)
            except httpx.TransportError as error:
                self.refused.append(repr(error))
                continue
            if answer.status_code == 202:
                self.accepted.append(body)
            # A file that is locked for long, on a busy machine: the same batch is sent again.
            elif "could not be saved now" not in answer.text or time.monotonic() > self._end:
                self.refused.append(answer.text)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.long
def test_commands_during_service_lose_no_accepted_row(
    tmp_path: Path, forked_commands: Path
) -> None:
    """A command that dropped the service's locks deleted its log; all rows were gone then."""
    file = job_file(tmp_path)
    copy = copied(file)
    words = words_by_command(tmp_path)
    wrong: dict[str, object] = {}
    with running(file) as service:
        assert service.post("first", rows(0, PAGES)).status_code == 202
        service.at(1)
        service.wait_for(1)
        with Load(service) as load:
            for name, said in words.items():
                service.get("/v1/streams")  # a request which looks at the state anew
                before = len(load.accepted)
                command = [str(forked_commands / "counton"), *said]
                done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
                if name in KNOWN and done.returncode != CODES.get(name, 0):
                    wrong[name] = (done.returncode, done.stderr)
                if deleted := service.deleted():
                    wrong[name] = deleted
                while len(load.accepted) == before and not load.refused:
                    time.sleep(0.01)
                if load.refused:
                    wrong[name] = load.refused
                    break
        assert wrong == {}
        service.stop()
        service.start()
        service.at(2)
        service.wait_for(2)
        released = [row["estimate"] for row in service.series()]
    assert released == counted(file, copy, [[rows(0, PAGES)], load.accepted])


@pytest.mark.long
def test_no_command_opens_state_file_outside_sqlite(tmp_path: Path) -> None:
    """Closing it would drop all locks that the process has on it."""
    script = Path(__file__).parents[1] / "support" / "state_commands.py"
    done = subprocess.run(
        [forked_python(), script, tmp_path], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert {*KNOWN, "/v1/streams", "POST"} <= found.keys()
    assert {name: one for name, one in found.items() if one["opened"]} == {}
    known = {name: (found[name]["code"], found[name]["said"]) for name in KNOWN}
    assert {n: one for n, one in known.items() if one[0] != CODES.get(n, 0)} == {}

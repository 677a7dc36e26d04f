"""A service whose witness is damaged takes and shows nothing until it is repaired."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import HANGS
from services import RunningService, job_file, rows, running

PAGES = ["home", "shop"]
DAMAGES = [b"", b"[" * 10**5]
#: A service is not ready for so long after a batch that it could not keep: half a minute otherwise.
SOON_READY = {"counton.serve.batch_intake._RECENT_SECONDS": 0.5}


def kept() -> Path:
    """The one witness that there is."""
    return sorted(Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness"))[0]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + HANGS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def all_is_well(service: RunningService, stream: str = "visits") -> bool:
    shown = service.get(f"/v1/streams/{stream}/series").status_code
    return (shown, service.get("/ready").status_code) == (200, 200)


def test_running_service_continues_after_guard_is_repaired(tmp_path: Path) -> None:
    with running(job_file(tmp_path), SOON_READY) as service:
        assert service.post("first", rows(0, PAGES)).status_code == 202
        service.at(2)
        service.wait_for(2)
        right = kept().read_bytes()
        for number, damage in enumerate(DAMAGES):
            kept().write_bytes(damage)
            until(lambda: service.get("/ready").status_code == 503)
            assert service.post(f"no-{number}", rows(3, PAGES)).status_code == 503
            kept().write_bytes(right)
            until(lambda: all_is_well(service))
            assert service.post(f"yes-{number}", rows(3, PAGES)).status_code == 202
        service.at(4)
        service.wait_for(4)


@pytest.mark.long
def test_starting_service_serves_other_jobs_with_damaged_guard(tmp_path: Path) -> None:
    """One job waits for the repair, and no other one for it."""
    jobs = {
        "visits": {},
        "again": {"stream": "again"},
        "other": {"state": "other.db", "stream": "other"},
    }
    file = job_file(tmp_path, jobs=jobs)
    with running(file) as service:
        for name in jobs:
            assert service.post("first", rows(0, PAGES), stream=name).status_code == 202
        service.at(2)
        for name in jobs:
            service.wait_for(2, stream=name)
    files = sorted(Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness"))
    (damaged,) = [one for one in files if b'"again"' in one.read_bytes()]
    right = damaged.read_bytes()
    damaged.write_bytes(b"junk")
    with running(file, SOON_READY) as service:
        assert service.post("next", rows(3, PAGES), stream="other").status_code == 202
        for name in ("visits", "again"):
            assert service.post("next", rows(3, PAGES), stream=name).status_code == 503
        damaged.write_bytes(right)
        for name in ("visits", "again"):
            until(lambda name=name: all_is_well(service, name))  # type: ignore[misc]
            assert service.post("next", rows(3, PAGES), stream=name).status_code == 202
        service.at(4)
        for name in jobs:
            service.wait_for(4, stream=name)

"""The paths of a service against what their description says, with inputs made to break it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from services import job_file, rows, running

pytestmark = pytest.mark.slow

#: Examples of each path.
EXAMPLES = os.environ.get("COUNTON_EXAMPLES", "40")


def test_no_request_that_schemathesis_makes_breaks_the_service(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    with running(job_file(tmp_path, serve={"timeout": "5s"})) as service:
        service.post("first", rows(0, ["home", "shop"]))
        service.at(3)
        service.wait_for(3)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"),
                *("--checks", "not_a_server_error,status_code_conformance,"),
                *("--max-examples", EXAMPLES, "--seed", "2026", "--no-color"),
                *("--exclude-path", "/v1/streams/{name}/live"),  # it does not end
                *("--header", f"Authorization: {service.header('ingest')['Authorization']}"),
            ],
            capture_output=True,
            text=True,
            timeout=900,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert service.get("/health").status_code == 200
        again = service.post("first", rows(0, ["home", "shop"]))
        assert again.status_code == 200

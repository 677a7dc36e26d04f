"""The paths of a service against what their description says, with inputs made to break it.

``COUNTON_EXAMPLES=1000`` tries so many for each path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANGS
from services import job_file, rows, running

EXAMPLES = os.environ.get("COUNTON_EXAMPLES", "40")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "ignored_auth", "missing_required_header", "unsupported_method",
)  # fmt: skip


def test_no_request_that_is_made_up_breaks_the_service(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    file = job_file(tmp_path, serve={"timeout": "5s", "public": False})
    with running(file) as service:
        service.post("first", rows(0, ["home", "shop"]))
        service.at(3)
        for use, paths in (("write", "--include-path-regex"), ("read", "--exclude-path-regex")):
            done = subprocess.run(
                [
                    *(
                        sys.executable, "-m", "schemathesis.cli", "run",
                        f"{service.url}/openapi.json",
                    ),
                    *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"),
                    *("--max-examples", EXAMPLES, "--seed", "2026", "--no-color"),
                    *("--request-timeout", str(HANGS)),
                    *(paths, "batches|metrics"),
                    *("--header", f"Authorization: {service.header(use)['Authorization']}"),
                ],
                capture_output=True,
                text=True,
                timeout=HANGS,
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PYTHONPATH": str(Path(__file__).parent),
                    "SCHEMATHESIS_HOOKS": "fuzz_hooks",
                },
            )  # fmt: skip
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert service.get("/health").status_code == 200
        assert service.post("first", rows(0, ["home", "shop"])).status_code == 200

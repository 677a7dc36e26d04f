"""Services killed at any moment: nothing acknowledged is lost, nothing is counted twice.

Rows that cannot be read are in the file of such rows, each once.

``COUNTON_KILLS=100`` kills so often (`make test-live`: 8 times), at other moments with another
``COUNTON_SEED``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from forked_commands import forked_python
from patience import HANGS
from programs import run_program

#: Shorter: `test_processes`, a service that was down, and `test_folds`, a fold that is killed.
pytestmark = [pytest.mark.slow, pytest.mark.long]

WORKER = Path(__file__).with_name("killing_services.py")
KILLS = int(os.environ.get("COUNTON_KILLS", "2"))
MINUTES = min(6, KILLS + 1)
SEED = os.environ.get("COUNTON_SEED", "2026")


def killed(folder: Path, database: str) -> dict[str, Any]:
    done = run_program(
        [forked_python(), WORKER, folder, database, str(KILLS), str(MINUTES), SEED],
        timeout=HANGS + 30 * KILLS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_killed_service_publishes_undisturbed_values(tmp_path: Path) -> None:
    seen = killed(tmp_path, "file")
    assert (seen["killed"], seen["code"], seen["steps"]) == (KILLS, 0, MINUTES)
    assert seen["wrong"] == []


@pytest.mark.usefixtures("postgres_server")  # skipped where none is installed
def test_service_with_killed_database_publishes_undisturbed_values(tmp_path: Path) -> None:
    seen = killed(tmp_path, "server")
    assert (seen["killed"], seen["code"], seen["steps"]) == (KILLS, 0, MINUTES)
    assert seen["databases"] == (KILLS + 1) // 3
    assert seen["wrong"] == []

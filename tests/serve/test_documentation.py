"""The commands of the page about the service run as they stand there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANGS
from ports import kept_port
from services import job_file

from counton.serve.settings import settings_of

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "service.md").read_text()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    commands = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    place = kept_port()
    port = str(place.getsockname()[1])
    wait = f"until curl -sf http://127.0.0.1:{port}/health; do kill -0 $!; sleep 0.1; done\n"
    script = "set -eu\ntrap 'kill $!; wait $!' EXIT\n" + wait.join(commands)
    counton = f"{sys.executable} -W error -m counton"
    for shown, sooner in (('"10s"', '"2s"'), ("sleep 12", "sleep 3")):  # as long as one window
        assert script.count(shown) == 1
        script = script.replace(shown, sooner)
    script = re.sub(r"^counton ", f"{counton} ", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", script.replace("8080", port)], cwd=tmp_path, capture_output=True, text=True,
        timeout=HANGS,
    )  # fmt: skip
    place.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"batch":"first","rows":2,"counted":2,"counted_nowhere":{}}' in done.stdout
    assert (
        "window_index,window_start,window_end,series,group,estimate,noise_std,lower,upper"
        in done.stdout
    )
    assert '"next_release":' in done.stdout


def test_the_page_has_all_settings_and_their_defaults(tmp_path: Path) -> None:
    defaults = settings_of(job_file(tmp_path, serve={"fold": "10s", "public": False}))
    for name, value in vars(defaults).items():
        shown = f"`{str(value).lower()}`" if isinstance(value, bool) else str(value)
        shown = f'`"{value}"`' if isinstance(value, str) else shown
        shown = "`JOBFILE.tokens`" if name == "tokens" else shown
        assert f"| `{name.replace('_', '-')}` | {shown} |" in PAGE

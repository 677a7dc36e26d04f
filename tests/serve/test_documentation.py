"""The commands of the page about the service run as they stand there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inside import inside
from patience import HANGS
from ports import kept_port
from services import job_file

from counton.serve.settings import BATCH_BYTES, BATCH_ROWS, MOST_NAME, WAITING_BYTES, settings_of

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guides" / "service.md").read_text("utf-8")
API = (DOCS / "reference" / "http-api.md").read_text("utf-8")


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


def test_reference_has_all_paths_parameters_statuses_and_metrics(tmp_path: Path) -> None:
    with inside(tmp_path) as served:
        paths = served("GET", "/openapi.json").json()["paths"]
        metrics = served("GET", "/metrics", "write").text
    listed = re.findall(r"^\| `(/[^`]*)` \| (GET|POST) \|", API, re.MULTILINE)
    described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert {*listed} == described | {("/", "GET")}
    (batches,) = (methods for path, methods in paths.items() if "post" in methods)
    statuses = re.findall(r"^\| (\d{3}) \|", API, re.MULTILINE)
    assert {*statuses} == {*batches["post"]["responses"]}
    series = paths["/v1/streams/{name}/series"]["get"]["parameters"]
    for parameter in series:
        assert parameter["in"] == "path" or f"| `{parameter['name']}` |" in API
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics, re.MULTILINE))
    assert dict(re.findall(r"^\| `(counton_\w+)` \| (\w+) \|", API, re.MULTILINE)) == types


def test_reference_has_the_limits_of_a_batch() -> None:
    assert f"| {BATCH_BYTES // 2**20} MiB and {BATCH_ROWS:,} rows |" in API
    assert f"| Rows that wait to be counted | {WAITING_BYTES // 2**20} MiB |" in API
    assert f"| Characters of a stream's name | {MOST_NAME}, without `/` |" in API

"""The image: its install step carried out here, and all of it where an engine can build."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from containerfile import stages

ROOT = Path(__file__).parents[2]
TOOLS = os.environ.get("COUNTON_PACKAGE_TOOLS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TOOLS is None, reason="the container file is tested by make test-package"),
]

EVENTS = "time,page\n2024-03-01T09:00,home\n2024-03-01T11:30,shop\n2024-03-02T10:15,home\n"
JOBS = """[defaults]
events = "visits.csv"
state = "visits.db"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 366
until = "2024-03-03"
epsilon = 0.5
[jobs.visits]
group-by = "page"
groups = ["home", "shop"]
output = "visits.parquet"
chart = "visits.png"
"""


def job_in(folder: Path) -> None:
    (folder / "visits.csv").write_text(EVENTS, encoding="utf-8")
    (folder / "nightly.toml").write_text(JOBS, encoding="utf-8")


def check_runs(first: str, again: str, folder: Path) -> None:
    assert "Released 2 new windows (1 to 2 of 366)." in first
    assert "No new window is due" in again
    assert {"visits.db", "visits.db.key", "visits.parquet", "visits.png"} <= {
        path.name for path in folder.iterdir()
    }


def test_its_install_step_gives_a_command_that_runs_a_job(tmp_path: Path) -> None:
    build, _ = stages(ROOT / "Containerfile")
    context = tmp_path / "context"
    context.mkdir()
    for copy in (each.rest.split() for each in build if each.word == "COPY"):
        for name in copy[:-1]:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name,
                    context / name,
                    ignore=shutil.ignore_patterns("*.egg-info", "__py*"),
                )
            else:
                shutil.copy(ROOT / name, context / name)
    steps = [each.rest for each in build if each.word == "RUN"]
    (there,) = [each.rest.removeprefix("PYTHONPATH=") for each in build if each.word == "ENV"]
    prefix = tmp_path / "install"
    data = tmp_path / "data"
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # A fresh environment has what the image's interpreter has: pip, and nothing to fall back on.
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], env=bare, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    for step in steps:
        words = [word.replace("/install", str(prefix)) for word in shlex.split(step)]
        assert words[0] == "python"
        path = sysconfig.get_path("purelib", vars={"base": str(prefix)}, scheme="posix_prefix")
        assert there.startswith("/install/lib/python")
        done = subprocess.run(
            [python, *words[1:]], cwd=context, env=bare | {"PYTHONPATH": path}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "Collecting" not in done.stdout  # all that counton needs is there, by its digest
    data.mkdir()
    job_in(data)
    packages = sysconfig.get_path("purelib", vars={"base": str(prefix)}, scheme="posix_prefix")
    place = bare | {"PYTHONPATH": packages, "HOME": str(data), "MPLBACKEND": "Agg"}
    said = [
        subprocess.run(
            [prefix / "bin" / "counton", "run", "nightly.toml"], cwd=data, env=place,
            capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    check_runs(said[0], said[1], data)


@pytest.fixture(scope="module")
def engine() -> str:
    """A program that builds and runs containers, and answers."""
    for name in ("podman", "docker"):
        if shutil.which(name):
            answers = subprocess.run([name, "info"], capture_output=True, check=False)
            if answers.returncode == 0:
                return name
    pytest.skip("no container engine answers: neither podman nor docker can build here")


@pytest.fixture(scope="module")
def image(engine: str) -> Iterator[str]:
    name = "counton-under-test"
    subprocess.run(
        [engine, "build", "--tag", name, "--file", "Containerfile", "."], cwd=ROOT, check=True
    )
    yield name
    subprocess.run([engine, "image", "rm", "--force", name], check=False)


def test_image_runs_job_as_user_without_root_rights(
    engine: str, image: str, tmp_path: Path
) -> None:
    job_in(tmp_path)
    tmp_path.chmod(0o777)  # of whoever runs the test; inside it is another user's
    limits = ["--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none"]

    def ran(*words: str) -> str:
        return subprocess.run(
            [engine, "run", *limits, "--volume", f"{tmp_path}:/data:Z", *words],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert re.match(r"counton \d", ran(image, "--version"))
    assert ran("--entrypoint", "id", image, "-u").strip() == "10001"
    check_runs(ran(image, "run", "nightly.toml"), ran(image, "run", "nightly.toml"), tmp_path)

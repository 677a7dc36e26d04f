"""What is built is what is installed: sdist and wheel, by pip and pipx, in an empty home.

`make test-package` builds both into `dist` and says where the tools are; else nothing here runs.
"""

import os
import shutil
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from programs import run_program

ROOT = Path(__file__).parents[2]
TOOLS = os.environ.get("COUNTON_PACKAGE_TOOLS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TOOLS is None, reason="the built package is tested by make test-package"),
]


def only(ending: str) -> Path:
    found = sorted((ROOT / "dist").glob(f"*{ending}"))
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def wheel() -> Path:
    return only(".whl")


@pytest.fixture
def sdist() -> Path:
    return only(".tar.gz")


@pytest.fixture
def project() -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return read


def sources() -> set[str]:
    """Files of the library that git tracks, as they are called where it is installed."""
    listed = run_program(["git", "ls-files", "src/counton"], cwd=ROOT, check=True).stdout
    return {name.removeprefix("src/") for name in listed.splitlines()}


def call(*words: str | Path, home: Path, **more: str) -> str:
    """What a command prints, in an empty home; nothing of this checkout is seen there."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV", "XDG_", "COUNTON_"))
    }
    environment |= {"HOME": str(home), "COLUMNS": "100", **more}
    done = run_program([str(word) for word in words], cwd=home, env=environment)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_the_wheel_holds_the_library_and_nothing_else(wheel: Path, project: dict[str, Any]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith("/METADATA")).rpartition("/")[0]
        told = message_from_bytes(archive.read(f"{info}/METADATA"))
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    assert {name for name in names if not name.startswith(f"{info}/")} == sources()
    assert f"{info}/licenses/LICENSE" in names
    assert (told["Name"], told["Version"]) == (project["name"], project["version"])
    assert set(told.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    assert told["Requires-Python"] == project["requires-python"]
    assert "counton = counton.cli.__main__:main" in scripts


def test_source_archive_contains_build_files(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if "egg-info" not in name}
    assert {"pyproject.toml", "README.md", "LICENSE"} < names
    assert {f"src/{name}" for name in sources()} < names
    assert not [name for name in names if name.startswith(("tests/", "papers/", "docs/"))]


def test_wheel_installed_by_pipx_runs_command(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    places = {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    pipx = (ROOT / str(TOOLS) / "pipx").absolute()
    call(pipx, "install", "--python", sys.executable, f"{wheel}[cli,plot]", home=home, **places)
    days = pl.datetime_range(
        pl.datetime(2024, 3, 1), pl.datetime(2024, 3, 9), "1h", closed="left", eager=True
    )
    events = pl.DataFrame({"time": days, "page": ["home", "shop", "home"] * (len(days) // 3)})
    events.write_parquet(home / "visits.parquet")
    words = "visits.parquet --time time --every 1d --start 2024-03-01 --windows 8 --group-by page"
    words += " --groups home,shop --epsilon 1 --until 2024-03-09 --state visits.db"
    asked: list[str | Path] = [
        home / "bin" / "counton", "release", "count", *words.split(), "--output", "t.parquet",
    ]  # fmt: skip
    first = call(*asked, "--chart", "chart.png", home=home)
    assert "Released 8 new windows (1 to 8 of 8)." in first
    table = pl.read_parquet(home / "t.parquet")
    truth = events["page"].value_counts()
    last = table.tail(2).join(truth, left_on="group", right_on="page")
    assert (table.height, last.height) == (8 * 2, 2)
    assert ((last["estimate"] - last["count"]).abs() < 20 * last["noise_std"]).all()
    assert (home / "chart.png").stat().st_size > 20_000
    assert "No new window is due" in call(*asked, home=home)


def test_wheel_without_extras_counts_and_command_names_missing_package(
    wheel: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    call(sys.executable, "-m", "venv", home / "venv", home=home)
    python = home / "venv" / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", wheel, home=home)
    program = (
        "from counton import Counter, Key, PureDP, plan\n"
        "best = plan(horizon=99, guarantee=PureDP(1)).best.strategy\n"
        "counter = Counter(best, PureDP(1), key=Key.generate(), name='visits')\n"
        "print('step', counter.release(42).step)\n"
    )
    assert call(python, "-c", program, home=home) == "step 1\n"
    command = f"{home}/venv/bin/counton --help; echo code $?"
    assert "needs click, which is not installed" in (said := call("sh", "-c", command, home=home))
    assert "code 1" in said


def test_checks_pass_for_extension_packages_with_wheel(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    call(sys.executable, "-m", "venv", home / "venv", home=home)
    python = home / "venv" / "bin" / "python"
    copies = [home / "above", home / "blocks"]
    for copy in copies:  # building writes into the folder of the sources
        shutil.copytree(ROOT / "examples" / copy.name, copy)
    call(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli]", *copies, home=home)
    checks = "from counton.testing import check; import counton_above, counton_blocks; "
    checks += "check(counton_above.Above); check(counton_blocks.Blocks); print('kept')"
    assert "kept" in call(python, "-c", checks, home=home)

"""Nights of a job file under Airflow: thirty at once, failed in the middle, killed.

Airflow runs in an environment of its own, with the recipe's file; counton runs in this one.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import run_program

import counton
from counton.cli.exits import RETRYABLE_CODES, ExitCode
from counton.run import export

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="groups of processes are those of POSIX"),
]
ROOT = Path(__file__).parents[2]
JOBS = """\
[jobs.visits]
events = "visits.csv"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 60
state = "nightly.db"
epsilon = 1
privacy-unit = "visit"
"""
#: Days on which rows came, and by whose end their windows are released.
CAME = [f"2024-03-{day:02}" for day in range(1, 31)]
DAYS = [f"2024-03-{day:02}" for day in range(2, 32)]
#: How many of the days are run in a backfill, and how often a run is killed.
BACKFILL = int(os.environ.get("COUNTON_BACKFILL", "6"))
KILLS = int(os.environ.get("COUNTON_KILLS", "2"))
RECIPES = [("airflow", "in_python"), ("airflow", "in_bash")]


@dataclass
class Program:
    """A program that runs nights, in a folder with a job file and thirty days of rows."""

    kind: str
    name: str
    folder: Path
    env: dict[str, str]

    @property
    def log(self) -> Path:
        return self.folder / "nightly.log"

    def command(self, *days: str) -> list[str]:
        python = ROOT / f".venv-{self.kind}" / "bin" / "python"
        driver = Path(__file__).with_name(f"drive_{self.kind}.py")
        recipe = ROOT / "deploy" / self.kind / "nightly.py"
        return [str(python), str(driver), str(recipe), self.name, *days]

    def __call__(self, *days: str) -> list[str]:
        """Run these days in turn, and return how each of them ended."""
        done = run_program(self.command(*days), env=self.env)
        ended = [line.split() for line in done.stdout.splitlines()]
        found = {line[1]: line[0] for line in ended if line[:1] in (["done"], ["failed"])}
        assert [*found] == [*dict.fromkeys(days)], done.stderr
        return [found[day] for day in days]

    def kill(self, day: str, seconds: float) -> None:
        """Kill the run of a day so many seconds after its command began, with all its processes."""
        before = self.log.stat().st_size if self.log.exists() else -1
        with subprocess.Popen(
            self.command(day),
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            while (
                not (self.log.exists() and self.log.stat().st_size >= before)
                and process.poll() is None
            ):
                time.sleep(0.01)
            time.sleep(seconds)
            os.killpg(process.pid, signal.SIGKILL)

    def steps(self) -> int:
        """Return how many windows are released, each of them once, after a check of all of them."""
        state = self.folder / "nightly.db"
        verify = [sys.executable, "-m", "counton", "verify", str(state)]
        subprocess.run(verify, check=True, capture_output=True, env=self.env)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("XDG_STATE_HOME", self.env["XDG_STATE_HOME"])
            export(state, self.folder / "visits.out.csv")
        found = counton.read(self.folder / "visits.out.csv").table()["window_index"].to_list()
        assert found == [*range(1, len(found) + 1)]
        return len(found)


@pytest.fixture
def program(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Program:
    kind, name = request.param
    if not (ROOT / f".venv-{kind}" / ".ready").exists():
        pytest.skip(f"{kind} is not installed: make test-orchestrators")
    rows = [f"{day}T{hour:02}:00" for day in CAME for hour in range(6, 20)]
    (tmp_path / "visits.csv").write_text("\n".join(["time", *rows, ""]))
    (tmp_path / "nightly.toml").write_text(JOBS)
    (tmp_path / "home").mkdir()
    env = {
        **os.environ,
        "COUNTON_JOBS": str(tmp_path / "nightly.toml"),
        "COUNTON_LOG": str(tmp_path / "nightly.log"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "deploy" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    env.pop("PYTHONPATH", None)
    _make_home(env, tmp_path_factory)
    return Program(kind, name, tmp_path, env)


#: A home of Airflow that knows the recipe, made once and copied.
_HOMES: list[Path] = []


def _make_home(env: dict[str, str], folders: pytest.TempPathFactory) -> None:
    if not _HOMES:
        airflow = str(ROOT / ".venv-airflow" / "bin" / "airflow")
        home = folders.mktemp("airflow")
        for words in (["db", "migrate"], ["dags", "reserialize"]):
            made = {**env, "AIRFLOW_HOME": str(home)}
            subprocess.run([airflow, *words], env=made, check=True, capture_output=True)
        _HOMES.append(home)
    shutil.copytree(_HOMES[0], env["AIRFLOW_HOME"], dirs_exist_ok=True)


@pytest.mark.parametrize("program", RECIPES, indirect=True, ids=" ".join)
@pytest.mark.smoke
def test_days_in_any_order_are_released_once(program: Program) -> None:
    days = [*random.Random(1).sample(DAYS[:-1], BACKFILL - 1), DAYS[-1]]
    random.Random(2).shuffle(days)
    assert program(*days) == ["done"] * len(days)
    assert program(days[0]) == ["done"]  # once more, by hand: there is nothing left to do
    assert program.steps() == 30
    ledger = [sys.executable, "-m", "counton", "ledger", str(program.folder / "nightly.db")]
    told = run_program(ledger, env=program.env, check=True)
    assert "epsilon = 1" in told.stdout


@pytest.mark.parametrize("program", RECIPES, indirect=True, ids=" ".join)
def test_after_a_failed_night_the_next_one_releases_both(program: Program) -> None:
    assert program(DAYS[0]) == ["done"]
    rows = program.folder / "visits.csv"
    rows.rename(program.folder / "away.csv")
    assert program(DAYS[1]) == ["failed"]
    assert program.steps() == 1
    (program.folder / "away.csv").rename(rows)
    assert program(DAYS[2], DAYS[1]) == ["done", "done"]
    assert program.steps() == 3


@pytest.mark.parametrize("program", RECIPES, indirect=True, ids=" ".join)
def test_manual_run_without_date_releases_due_windows(program: Program) -> None:
    jobs = JOBS.replace("windows = 60", "windows = 36600") + "allow-empty-windows = true\n"
    (program.folder / "nightly.toml").write_text(jobs)
    assert program("now") == ["done"]
    assert program.steps() > 60  # up to today


@pytest.mark.parametrize("program", RECIPES, indirect=True, ids=" ".join)
def test_a_killed_night_is_run_again(program: Program) -> None:
    for kill in range(KILLS):
        program.kill(DAYS[kill], 0.4 * kill)  # at several moments of a run that takes a second
        assert program(DAYS[kill]) == ["done"]
        assert program.steps() == kill + 1


def test_the_recipe_knows_the_exit_codes() -> None:
    tree = ast.parse((ROOT / "deploy" / "airflow" / "nightly.py").read_text())
    values = [node for node in tree.body if isinstance(node, ast.Assign)]
    (done, again) = (
        {*ast.literal_eval(node.value)}
        for name in ("DONE", "AGAIN")
        for node in values
        if ast.unparse(node.targets[0]) == name
    )
    assert (done, again) == ({int(ExitCode.OK)}, {int(code) for code in RETRYABLE_CODES})


@pytest.mark.parametrize("code", ExitCode, ids=str)
def test_bash_task_fails_only_for_exit_codes_worth_a_retry(code: ExitCode, tmp_path: Path) -> None:
    tree = ast.parse((ROOT / "deploy" / "airflow" / "nightly.py").read_text())
    (said,) = (
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg == "bash_command"
        and isinstance(node.value, ast.Constant)
    )
    command = tmp_path / "counton"
    command.write_text(f"#!/bin/sh\necho exact\nexit {int(code)}\n")
    command.chmod(0o755)
    again = " ".join(str(int(one)) for one in RETRYABLE_CODES)
    env = {"JOBS": "j.toml", "LOG": str(tmp_path / "log"), "AGAIN": again}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run_program(
        ["bash", "-c", re.sub(r"\{\{.*?\}\}", "2024-03-02", str(said))], env=env | {"PATH": path}
    )
    told = (int(code), "") if code in RETRYABLE_CODES else (0, f"{int(code)}\n")
    assert (done.returncode, done.stdout) == told
    assert (tmp_path / "log").read_text() == "exact\n"

"""Without an optional package: one line that says how to install it, and all else works."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from programs import run_program

from counton.base.errors import CountonError, MissingDependencyError
from counton.base.lazy import OPTIONAL_MODULES, missing

ROOT = Path(__file__).parents[2]

PLAN = "from counton import plan_expiring; plan = plan_expiring({24: 1})"
TREE = (
    "from counton import Hierarchy, Key, RunningStatistic, ZCDP\n"
    "from counton.tables import Tree\n"
    "tree = Tree.from_leaves({'state': ['CA']}, ['state'])\n"
    "table, key = Hierarchy(tree), Key.generate()\n"
    "counter = RunningStatistic.start(table, 1, ZCDP(0.5), key=key, name='t', batched=True)\n"
    "release = counter.release_batch([('CA',)])"
)


def run(program: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    """A program in an interpreter which cannot import some packages."""
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in blocked)
    return run_program([sys.executable, "-c", f"import sys\n{block}{program}"])


def remedy(extra: str) -> str:
    return f"install counton's extra {extra!r} (in a checkout: pip install '.[{extra}]')"


def command(*words: str) -> str:
    return f"sys.argv = {['counton', *words]}\nfrom counton.cli.__main__ import main\nmain()"


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("polars", "import counton.io.files"),
        ("polars", "from counton import release"),
        ("pydantic", "from counton import Job"),
        ("polars", "from counton.run import run"),
        ("polars", f"{TREE}; release.table()"),
        ("matplotlib", f"{PLAN}; from counton.charts import plot_loss as p; p(plan, {{}}, '')"),
        ("matplotlib", "from papers.drawing import panels; panels('a', 'b')"),
        ("psycopg", "from counton import Stream; Stream.open('postgresql://ann@db/x', 's')"),
    ],
)
def test_missing_package_error_names_its_extra(module: str, program: str) -> None:
    done = run(program, module)
    need, extra = OPTIONAL_MODULES[module]
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"counton.base.errors.MissingDependencyError: {need}, which is not installed: "
        f"{remedy(extra)}"
    )


@pytest.mark.parametrize("start", [command("--help"), "import runpy; runpy.run_module('counton')"])
def test_the_command_line_without_click_ends_in_one_line(start: str) -> None:
    program = start.replace("run_module('counton')", "run_module('counton', run_name='__main__')")
    done = run(program, "click")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"counton: the command line needs click, which is not installed: {remedy('cli')}\n"
    )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("polars", ("release", "count", "e.csv", "--state", "s.db")),
        (
            "rich",
            (
                "release",
                "ranges",
                "e.csv",
                "--count-column",
                "n",
                "--state",
                "s.db",
                "--output",
                "o.csv",
            ),
        ),
    ],
)
def test_a_command_without_a_package_ends_in_one_line(module: str, words: tuple[str, ...]) -> None:
    done = run(command(*words), module)
    need, extra = OPTIONAL_MODULES[module]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"counton: {need}, which is not installed: {remedy(extra)}\n")


def test_names_without_jobs_need_no_optional_package() -> None:
    done = run(
        "from counton import *\n"
        "import counton\n"
        "print(Counter, plan, Ranges, Stream)\n"
        "for name in 'Job', 'read', 'release':\n"
        "    print(name in globals(), name in dir(counton))",
        *OPTIONAL_MODULES,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n" + 3 * "False True\n")


def test_extras_install_their_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for module, (_, extra) in OPTIONAL_MODULES.items():
        package = module.replace("_", "-")
        assert any(line.lower().startswith(package) for line in extras[extra]), module


def test_broken_package_is_not_reported_as_missing() -> None:
    error = missing("psycopg", ImportError("no pq wrapper available"))
    assert isinstance(error, MissingDependencyError)
    assert isinstance(error, CountonError | ImportError)
    assert "psycopg, which cannot be imported (no pq wrapper available): install" in str(error)


def test_no_document_installs_counton_by_name() -> None:
    """It would fail, or install whatever takes the name; extras come from a checkout or a wheel."""
    by_name = re.compile(
        r"\b(pipx?|uv|uvx|conda)\b[^\n`#]* (install|add|run) "
        r"[^\n`#]*(?<![\w./-])['\"]?counton\b(?!-)"
    )
    for told in ("pip install counton", "pipx install --global 'counton[cli]'", "uv add counton"):
        assert by_name.search(told)
    for told in ("pip install '.[cli]'", 'pip install "$(ls dist/counton-*.whl)[cli]"'):
        assert not by_name.search(told)
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.toml", "*.service", "*.ipynb", "Containerfile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{name}: {line.strip()}"
        for name in listed.stdout.splitlines()
        if name != here
        for line in (ROOT / name).read_text("utf-8").splitlines()
        if by_name.search(line)
    ]
    assert not found

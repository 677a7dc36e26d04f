"""Programs of others know the types of all that is stable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import counton

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "every_name.py"
#: Of no other configuration, and kept: anew it is most of what the checker takes.
CACHE = ROOT / ".mypy_cache" / "strict"


def test_the_script_uses_every_name() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(SCRIPT.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ct"
    }
    assert used == {*counton.__all__}


def test_the_script_has_at_most_fifty_lines() -> None:
    _, _, code = SCRIPT.read_text("utf-8").split('"""')
    lines = [line.strip() for line in code.splitlines()]
    assert sum(line != "" and not line.startswith("#") for line in lines) <= 50


@pytest.mark.slow
def test_it_runs_and_a_strict_checker_finds_nothing(tmp_path: Path) -> None:
    """As in a project of others: without this one's configuration, and of the installed package."""
    copy = tmp_path / "program.py"
    copy.write_text(SCRIPT.read_text("utf-8"))
    subprocess.run([sys.executable, str(copy)], cwd=tmp_path, check=True, capture_output=True)
    asked = ["--strict", "--config-file=", f"--cache-dir={CACHE}", str(copy)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *asked], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

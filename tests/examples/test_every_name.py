"""Programs of others know the types of all that is stable."""

import ast
import sys
from pathlib import Path

import pytest
from forked_commands import forked_python
from programs import run_program

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


@pytest.mark.long
def test_example_program_runs(tmp_path: Path) -> None:
    run_program([forked_python(), SCRIPT], cwd=tmp_path, check=True)


@pytest.mark.long
@pytest.mark.slow
def test_a_strict_checker_finds_nothing(tmp_path: Path) -> None:
    """As in a project of others: without this one's configuration, and of the installed package."""
    copy = tmp_path / "program.py"
    copy.write_text(SCRIPT.read_text("utf-8"))
    asked = ["--strict", "--config-file=", f"--cache-dir={CACHE}", str(copy)]
    done = run_program([sys.executable, "-m", "mypy", *asked], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

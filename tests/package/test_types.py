"""Types of what is installed, as pyright reads them beside mypy; by make test-package."""

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest
from programs import run_program

ROOT = Path(__file__).parents[2]
TOOLS = os.environ.get("COUNTON_PACKAGE_TOOLS")
#: Packages that their users import; the others need Spark, PyTorch or JAX.
STABLE = (
    "", ".charts", ".testing", ".noise", ".continual", ".planning", ".privacy", ".results", ".run",
    ".state", ".statistics", ".strategies", ".tables", ".training", ".training.strategies",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TOOLS is None, reason="the built package is tested by make test-package"),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]


def complaints(folder: Path) -> str:
    """What pyright says of a folder of programs, of which it knows the interpreter alone."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    done = run_program(
        [str((ROOT / str(TOOLS) / "pyright").absolute()), "--pythonpath", sys.executable],
        cwd=folder,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.strip().endswith("informations"), done.stdout + done.stderr
    return done.stdout


def test_strict_type_check_accepts_program_with_every_public_name(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "every_name.py").read_text("utf-8")
    (tmp_path / "program.py").write_text(text)
    assert complaints(tmp_path).startswith("0 errors, 0 warnings")


def test_every_stable_name_is_exported_and_has_a_type(tmp_path: Path) -> None:
    lines = []
    for number, package in enumerate(f"counton{one}" for one in STABLE):
        names = [f"{one} as {one}_{number}" for one in import_module(package).__all__]
        lines += [f"from {package} import {one}" for one in names]
        lines.append(f"print({', '.join(one.partition(' as ')[2] for one in names)})")
    (tmp_path / "names.py").write_text("\n".join([*lines, ""]))
    assert complaints(tmp_path).startswith("0 errors, 0 warnings")


def test_type_checker_rejects_unknown_statistic_name(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('import counton\ncounton.release("cuont", "visits.csv")\n')
    assert "reportArgumentType" in complaints(tmp_path)

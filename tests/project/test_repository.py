"""What must and must not stand in the repository's own files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "benchmarks", "docs", "src", "tests")

#: Places that exist on one machine only, and hosts which a lock or a build must not depend on.
FORBIDDEN = re.compile(
    r"/(?:home|root|Users|work|opt|tmp)/[a-z.]"
    r"|file:/{2}"
    r"|pypi\.[a-z]|pythonhosted|anaconda\.[a-z]"
    r"|(?<!no-emit-)(?:index-url|find-links|trusted-host)",
    re.IGNORECASE,
)


def texts() -> Iterator[Path]:
    """Every text file of the project, this one excepted: it names what it forbids."""
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in files:
        generated = "__pycache__" in path.parts or ".egg-info" in str(path)
        if not generated and path != Path(__file__) and path.suffix not in {".png", ".pyc"}:
            yield path


@pytest.mark.parametrize(
    "text",
    ["/home/" + "ann/x", "file:" + "///x", "--find" + "-links x", "https://pypi" + ".org/simple"],
)
def test_the_pattern_finds_what_it_forbids(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_no_file_names_a_machine_or_a_package_host() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert not found


def test_the_lock_names_versions_and_no_addresses() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 20
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line)] == []


def test_no_file_is_called_utils() -> None:
    assert [path for path in texts() if "util" in path.stem] == []


def test_test_files_have_unique_names() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_bare_make_lists_the_targets() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in ("setup", "demo", "test", "bench", "docs", "lint", "format", "lock", "clean"):
        assert re.search(rf"^  make {target} +\w", listed, re.MULTILINE), target


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")

"""The statistic of another package, which is installed beside counton."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counton.statistics import catalogue as known

PACKAGE = Path(__file__).parents[2] / "examples" / "above"


@contextmanager
def installed(folder: Path, *, by_pip: bool = True) -> Iterator[Path]:
    """Where the package lies; in this process its statistic is known meanwhile.

    Args:
        folder: an empty one.
        by_pip: as people do; else as pip leaves it, where an environment cannot build.
    """
    target = folder / "installed"
    if by_pip:
        _install(folder / "sources", target)
    else:
        facts = target / "counton_above-1.0.dist-info"
        facts.mkdir(parents=True)
        settings = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        (points,) = settings["entry-points"].items()
        lines = [f"[{points[0]}]", *(f"{name} = {where}" for name, where in points[1].items())]
        (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (facts / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: counton-above\nVersion: 1.0\n"
        )
        shutil.copy(PACKAGE / "counton_above.py", target)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(target)
        forget()
        yield target
    sys.modules.pop("counton_above", None)
    forget()


def _install(copy: Path, target: Path) -> None:
    """From a copy, since building writes into the folder of the sources."""
    copy.mkdir()
    for name in ("pyproject.toml", "counton_above.py"):
        shutil.copy(PACKAGE / name, copy)
    words = ["install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    command = [sys.executable, "-m", "pip", *words, str(target), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def forget() -> None:
    """Look for packages again."""
    known._others.cache_clear()
    known.statistic_named.cache_clear()

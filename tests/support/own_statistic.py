"""The statistic of another package, which is installed beside counton."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counton.statistics import known

PACKAGE = Path(__file__).parents[2] / "examples" / "above"


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Where the package lies; in this process its statistic is known meanwhile."""
    words = ["install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    # A copy, since building writes into the folder of the sources.
    copy = folder / "sources"
    copy.mkdir()
    for file in (PACKAGE / "pyproject.toml", PACKAGE / "counton_above.py"):
        (copy / file.name).write_bytes(file.read_bytes())
    target = folder / "installed"
    command = [sys.executable, "-m", "pip", *words, str(target), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(target)
        forget()
        yield target
    sys.modules.pop("counton_above", None)
    forget()


def forget() -> None:
    """Look for packages again."""
    known._others.cache_clear()
    known.statistic_named.cache_clear()

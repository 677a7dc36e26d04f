"""The statistic of another package, which is installed beside counton."""

import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counton.statistics import catalogue as known

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = EXAMPLES / "above"


def left_by_pip(name: str, target: Path) -> None:
    """A package of ``examples`` as pip leaves it; `make test-package` installs both by pip."""
    facts = target / f"counton_{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    settings = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    ((group, points),) = settings["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: counton-{name}\nVersion: 1.0\n")
    shutil.copy(EXAMPLES / name / f"counton_{name}.py", target)


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Where the package lies; in this process its statistic is known meanwhile."""
    target = folder / "installed"
    left_by_pip("above", target)
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

"""`make test-lowest` runs with the versions that pyproject.toml allows at least, and no others."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
#: What is installed for it; the other extras are heavy, and have environments of their own.
EXTRAS = ("plot", "postgresql", "cli", "serve")


def lower_bounds() -> dict[str, Version]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = [*project["dependencies"]]
    for extra in EXTRAS:
        stated += project["optional-dependencies"][extra]
    found = {}
    for one in map(Requirement, stated):
        for bound in one.specifier:
            assert bound.operator == ">=", one
            found[one.name.replace("_", "-")] = Version(bound.version)
    return found


def test_lowest_lock_pins_lower_bounds_of_dependencies() -> None:
    lines = (ROOT / "tests/lowest/requirements.lock").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    bounds = lower_bounds()
    assert len(bounds) > 15
    assert {name: Version(pins[name]) for name in bounds} == bounds

"""States to test on: a SQLite file, and a PostgreSQL server of our own where one is installed."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A state that does not exist yet, of each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "state.db")
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A path for a SQLite state."""
    return tmp_path / "state.db"

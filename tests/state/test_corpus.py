"""States of every version from 0.3.0 on: this version reads them, or refuses them in a sentence."""

from pathlib import Path
from typing import Any

import pytest
from corpus_states import FOLDER, VERSIONS, about, copied
from packaging.version import Version

import counton
from counton.base.errors import StateError
from counton.state import Store, schema, verify
from tools import corpus


def test_corpus_has_a_state_of_this_version_in_its_formats() -> None:
    """A change of a format changes the version, and a version has a state."""
    version = counton.__version__
    assert version in VERSIONS, "run python -m tools.corpus, which writes the state of this version"
    remedy = "a format has changed: change the version, if it is released, and run tools.corpus"
    assert about(version)["formats"] == corpus.formats(), remedy


def test_corpus_has_states_from_version_0_3_on_alone() -> None:
    assert min(map(Version, VERSIONS)) >= Version("0.3.0.dev0")
    assert {path.name for path in FOLDER.iterdir()} == {*VERSIONS, "README.md"}
    assert all(about(version)["version"] == version for version in VERSIONS)


def test_corpus_versions_of_one_format_follow_each_other() -> None:
    """No version has the format of an earlier one again."""
    numbers = [about(version)["formats"]["state"] for version in sorted(VERSIONS, key=Version)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("version", VERSIONS)
def test_state_of_a_version_is_read_or_refused(version: str, tmp_path: Path) -> None:
    folder = copied(version, tmp_path / "state")
    expected = about(version)
    if expected["formats"]["state"] != schema.FORMAT:
        with pytest.raises(StateError, match="Close its streams with the version"):
            Store(folder / "state.db")
        return
    # The witness was moved here with the state.
    found = verify(folder / "state.db", rollback_guard=folder / "witness")
    assert [one.name for one in found] == sorted(corpus.STREAMS)
    assert all(one.right for one in found), found
    nights = expected["nights"]
    for name, options in expected["streams"].items():
        assert corpus.run_night(folder, name, options, nights) == expected["before"][name]
        assert corpus.run_night(folder, name, options, nights + 1) == expected["after"][name]
    assert all(one.right for one in verify(folder / "state.db"))


def test_state_of_the_corpus_has_rows_in_every_table(tmp_path: Path) -> None:
    """Otherwise a change of a table might not be noticed."""
    folder = copied(counton.__version__, tmp_path / "state")
    with Store(folder / "state.db") as store, store.database.transaction(write=False) as connection:
        tables = [row.name for row in connection.rows("SELECT name FROM sqlite_master")]
        tables = [name for name in tables if schema.types_of(name)]
        counts: dict[str, Any] = {
            name: connection.value(f"SELECT count(*) FROM {name}")  # noqa: S608 - a table
            for name in tables
        }
    assert len(counts) == 10
    assert all(counts.values()), counts

"""Descriptions of earlier formats are read; those of later ones and unknown ones are refused."""

import json
from pathlib import Path

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import StateError
from counton.released import release_facts


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"]})
    out = tmp_path / "visits.csv"
    release(
        "count", rows, time="at", every="1d", start="2024-03-01", steps=30, until="2024-03-03",
        guarantee=PureDP(1), state=tmp_path / "visits.db", out=out,
    )  # fmt: skip
    return out


def test_a_later_description_is_refused(table: Path) -> None:
    beside = table.with_name("visits.csv.json")
    facts = json.loads(beside.read_text())
    facts["description"]["format"] = release_facts.FORMAT + 1
    beside.write_text(json.dumps(facts))
    with pytest.raises(StateError, match="read it with the version of counton that wrote it"):
        read(table)

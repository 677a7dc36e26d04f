"""Descriptions of earlier formats are read; those of later ones and unknown ones are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import StateError
from counton.released import release_facts, release_files


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"]})
    out = tmp_path / "visits.csv"
    release(
        "count", rows, time="at", every="1d", start="2024-03-01", steps=30, until="2024-03-03",
        guarantee=PureDP(1), state=tmp_path / "visits.db", out=out,
    )  # fmt: skip
    return out


def test_an_earlier_description_is_read(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = read(table).table(), release_facts.FORMAT

    def to_next(described: Mapping[str, Any]) -> dict[str, Any]:
        return {**described, "format": now + 1}

    for module in (release_facts, release_files):
        monkeypatch.setattr(module, "FORMAT", now + 1)
    with pytest.raises(StateError, match=f"a description of format {now}"):
        read(table)
    monkeypatch.setitem(release_facts.EARLIER, now, to_next)
    assert read(table).table().equals(before)


def test_a_later_description_is_refused(table: Path) -> None:
    beside = table.with_name("visits.csv.json")
    facts = json.loads(beside.read_text())
    facts["description"]["format"] = release_facts.FORMAT + 1
    beside.write_text(json.dumps(facts))
    with pytest.raises(StateError, match="read it with the version of counton that wrote it"):
        read(table)

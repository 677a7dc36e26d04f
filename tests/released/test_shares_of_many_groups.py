"""A question about many groups looks them up together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, release
from counton.base.groups import GroupNames
from counton.released.release import Release

NAMES = [f"page-{number}" for number in range(40)]


@pytest.fixture
def visits(tmp_path: Path) -> Release:
    rows = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:15"], "page": NAMES[:2]})
    return release(
        "count", rows, time="time", every="1d", start="2024-03-01", steps=30, by="page",
        until="2024-03-03", domain=NAMES, guarantee=PureDP(1), state=tmp_path / "v.db",
    )  # fmt: skip


@pytest.mark.parametrize("count", [1, 8, 9, 40])
def test_places_of_names_are_those_of_each(count: int) -> None:
    asked = [*NAMES[::-1][: count - 1], "nowhere"]
    expected = [NAMES.index(name) if name in NAMES else -1 for name in asked]
    assert GroupNames(NAMES).places(asked).tolist() == expected


def test_a_share_looks_for_no_group_by_itself(
    visits: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = visits.table().filter(pl.col("step") == 2)["estimate"]
    expected = found[3] / found.sum()
    looked = []

    def alone(_names: GroupNames, name: Any, *_: Any) -> Any:
        looked.append(name)
        raise AssertionError(f"{name} was looked for by itself")

    monkeypatch.setattr(GroupNames, "index", alone)
    monkeypatch.setattr(GroupNames, "__contains__", alone)
    assert visits.share(NAMES[3]).value == pytest.approx(expected)
    assert visits.only(groups=NAMES[5:20]).groups == tuple(NAMES[5:20])
    assert not looked

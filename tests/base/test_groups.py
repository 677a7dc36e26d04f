"""Names of groups behave as a tuple of texts, in blocks of any size."""

from __future__ import annotations

import copy

import polars as pl
import pytest

from counton.base import groups
from counton.base.groups import GroupNames

NAMES = ["home", "shop", "", "Zürich", "a\nb", "x" * 300, "shop "]


@pytest.mark.parametrize("size", [1, 3, 2**20])
def test_blocks_hold_names_to_the_letter(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK", size)
    names = GroupNames(NAMES)
    blocks = names.blocks()
    assert len(blocks) == -(-len(NAMES) // size)
    again = GroupNames.from_blocks(blocks)
    assert list(again) == NAMES
    assert (again, again.digest) == (names, names.digest)
    if len(blocks) > 1:  # the order of blocks is part of what they say
        assert GroupNames.from_blocks(blocks[::-1]).digest != names.digest
    with pytest.raises(ValueError, match="cannot be decoded"):
        GroupNames.from_blocks([blocks[0][:50]])


def test_names_stay_packed_until_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK", 3)
    names = GroupNames.from_blocks(GroupNames(NAMES).blocks())
    same = GroupNames(names)[: len(NAMES)]
    parts = [(start, part.to_list()) for start, part in same.parts()]
    assert parts == [(0, NAMES[:3]), (3, NAMES[3:6]), (6, NAMES[6:])]
    assert (len(same), list(same), same.blocks()) == (len(NAMES), NAMES, names.blocks())
    assert isinstance(same._held, tuple)
    assert same.column.to_list() == NAMES
    assert not isinstance(same._held, tuple)


def test_names_are_as_a_tuple_of_them() -> None:
    names, texts = GroupNames(NAMES), tuple(NAMES)
    assert names == texts
    assert texts == names
    assert names != texts[:-1]
    assert names != (*texts[:-1], "other")
    assert hash(names) == hash(texts)
    assert (names[0], names[-1]) == (texts[0], texts[-1])
    assert names[1:3] == texts[1:3]
    assert [names.index(name) for name in texts] == [*range(len(texts))]
    assert names.index("shop", 1) == 1
    with pytest.raises(ValueError, match="not among"):
        names.index("shop", 2)
    assert "shop " in names
    assert "sho" not in names
    assert names.plus(["new"]) == (*texts, "new")
    assert copy.deepcopy(names) == names  # as it travels to another process
    assert (len(GroupNames(())), GroupNames(()) == ()) == (0, True)
    assert GroupNames(pl.Series("page", NAMES)) == names

"""Names of groups behave as a tuple of texts, in blocks of any size."""

import copy
import io

import polars as pl
import pytest

from counton.windowing import groups
from counton.windowing.groups import GroupNames

NAMES = ["home", "shop", "", "Zürich", "a\nb", "x" * 300, "shop "]


@pytest.mark.parametrize("size", [1, 3, 2**20])
def test_blocks_hold_names_to_the_letter(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "NAMES_PER_BLOCK", size)
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
    monkeypatch.setattr(groups, "NAMES_PER_BLOCK", 3)
    names = GroupNames.from_blocks(GroupNames(NAMES).blocks())
    same = GroupNames(names)[: len(NAMES)]
    parts = [(start, part.to_list()) for start, part in same.parts()]
    assert parts == [(0, NAMES[:3]), (3, NAMES[3:6]), (6, NAMES[6:])]
    assert (len(same), list(same), same.blocks()) == (len(NAMES), NAMES, names.blocks())
    assert same._held.blocks
    assert same.column.to_list() == NAMES
    assert not same._held.blocks


TEXTS = tuple(NAMES)


@pytest.fixture(params=["texts", "a column", "a block"])
def names(request: pytest.FixtureRequest) -> GroupNames:
    """Return the same names, held in each of three ways."""
    if request.param == "a column":
        return GroupNames(pl.Series(NAMES))
    if request.param == "a block":
        return GroupNames.from_blocks(GroupNames(NAMES).blocks())
    return GroupNames(NAMES)


def test_group_names_equal_the_tuple_of_their_texts(names: GroupNames) -> None:
    assert names == TEXTS
    assert names == TEXTS
    assert names != TEXTS[:-1]
    assert names != (*TEXTS[:-1], "other")
    assert hash(names) == hash(TEXTS)
    assert GroupNames(pl.Series("page", NAMES)) == names
    assert copy.deepcopy(names) == names  # as it travels to another process


def test_group_names_are_read_by_position(names: GroupNames) -> None:
    assert (names[0], names[-1]) == (TEXTS[0], TEXTS[-1])
    assert names[1:3] == TEXTS[1:3]
    assert names.at([4, 0]) == [TEXTS[4], TEXTS[0]]


def test_group_names_are_found_by_text(names: GroupNames) -> None:
    assert [names.index(name) for name in TEXTS] == [*range(len(TEXTS))]
    assert names.index("shop", 1) == 1
    with pytest.raises(ValueError, match="not among"):
        names.index("shop", 2)
    assert names.places(["shop", "none", "home"]).tolist() == [1, -1, 0]
    assert (names.first_with("b"), names.first_with("q")) == ("a\nb", None)
    assert "shop " in names
    assert "sho" not in names


def test_group_names_grow_and_report_a_repeated_name(names: GroupNames) -> None:
    assert names.plus(["new"]) == (*TEXTS, "new")
    assert names.first_repeated() is None
    assert names.plus(["x", ""]).first_repeated() == ""


def test_group_names_may_be_empty() -> None:
    assert len(GroupNames(())) == 0
    assert GroupNames(()) == ()


@pytest.mark.parametrize("many", [1, 1000, 600_000])
def test_each_name_is_found_at_its_place_and_no_other(many: int) -> None:
    """Half a million names lose their place in a table of hashes to others, some several times."""
    column = pl.select(pl.format("page {}", pl.int_range(many))).to_series()
    find = GroupNames(column).finder()
    assert find(column.reverse()).tolist() == [*range(many)][::-1]
    assert (find(column + "?") == many).all()
    texts = pl.Series(["page 0", None, "", "page"])
    assert find(texts).tolist() == [0, many, many, many]
    assert find(texts.clear()).tolist() == []


def test_few_names_are_stored_in_json_and_many_are_packed() -> None:
    """So few names are read without polars; states of earlier versions hold compressed ones."""
    few = GroupNames(NAMES)
    many = GroupNames([f"group {number}" for number in range(5_000)])
    assert len(many.blocks()[0]) < 20_000
    again = GroupNames.from_blocks(few.blocks())
    assert again._held == NAMES
    old = io.BytesIO()
    table = few.column.to_frame()
    table.write_ipc(old, compression="zstd", compat_level=pl.CompatLevel.oldest())
    assert GroupNames.from_blocks([old.getvalue()]) == again == few

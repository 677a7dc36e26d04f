"""The list of what a reviewer of privacy has to read names files and tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.review import (
    CORE,
    DOOR,
    PRIVATE,
    PROMISES,
    PUBLIC,
    SOURCE,
    code_lines,
    files_of,
    numbers,
    promises,
)

ROOT = Path(__file__).parents[2]


def test_rooms_name_files_and_tests_that_there_are_each_once() -> None:
    read = [path for room in (*PRIVATE, *DOOR) for path in files_of(room)]
    assert all(path.is_file() for path in read)
    assert len(set(read)) == len(read)
    assert not [path for path in read if path.relative_to(SOURCE).parts[0] in PUBLIC]
    for room in (*PRIVATE, *DOOR):
        assert room.attack
        for name in room.attack:
            assert (ROOT / name).is_file(), name


def test_whoever_opens_rows_or_keys_is_on_the_list_or_calls_who_is() -> None:
    """No file of the public wing names a reader of rows, a key or a state."""
    words = ("counton.rows", "counton.state", "counton.noise", "sqlalchemy", "noise_field(")
    for wing in PUBLIC:
        for path in sorted((SOURCE / wing).rglob("*.py")):
            code = "".join(
                line
                for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
                if not line.strip().startswith((">>>", "..."))
            )
            assert not [word for word in words if word in code], path


def test_lines_of_code_are_counted_without_words(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    words = ['"""Doc', "", 'more."""', "", "# why", "x = (", "    1,", ")", "", "def f():"]
    file.write_text("\n".join([*words, '    """Doc."""', "    return x", ""]))
    assert code_lines(file) == 5


@pytest.mark.parametrize("place", [one for p in PROMISES for one in (p.stated, p.enforced)])
def test_a_promise_is_stated_and_enforced_where_the_list_says(place: str) -> None:
    file, _, name = place.partition(": ")
    body = ast.parse((SOURCE / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        found = [node for node in body if isinstance(node, kinds) and node.name == part]
        assert found, place
        body = found[0].body


def test_what_is_read_whole_is_read_in_two_days() -> None:
    assert {place.partition(":")[0] for one in PROMISES for place in (one.enforced,)} <= {*CORE}
    assert numbers()[0] < 5_500


def test_the_page_has_the_promises_and_the_numbers_of_the_program() -> None:
    text = (ROOT / "docs/review.md").read_text(encoding="utf-8")
    assert promises() in text
    told = re.search(r"About ([\d,]+) lines .* of ([\d,]+) .* and ([\d,]+) in all", text, re.DOTALL)
    assert told is not None
    for said, counted in zip(told.groups(), numbers(), strict=True):
        assert int(said.replace(",", "")) == pytest.approx(counted, rel=0.05)

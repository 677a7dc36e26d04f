"""The list of what a reviewer of privacy has to read names files and tests that there are."""

import ast
import re
from pathlib import Path

import pytest

from tools.review import (
    BESIDES,
    DOOR,
    PRIVATE,
    PROMISES,
    PUBLIC,
    RECOMPUTED,
    SOURCE,
    files_of,
    numbers,
)

ROOT = Path(__file__).parents[2]


def test_reviewed_files_and_tests_exist_once() -> None:
    read = [path for room in (*PRIVATE, *DOOR) for path in files_of(room)]
    assert all(path.is_file() for path in read)
    assert len(set(read)) == len(read)
    assert not [path for path in read if path.relative_to(SOURCE).parts[0] in PUBLIC]
    for room in (*PRIVATE, *DOOR):
        assert room.attack
        for name in room.attack:
            assert (ROOT / name).is_file(), name


def test_public_folders_name_no_reader_of_rows_or_keys() -> None:
    """No file of the public wing names a reader of rows, a key or a state."""
    words = ("counton.io", "counton.state", "counton.noise", "sqlite3", "noise_field(")
    for wing in PUBLIC:
        for path in sorted((SOURCE / wing).rglob("*.py")):
            code = "".join(
                line
                for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
                if not line.strip().startswith((">>>", "..."))
            )
            assert not [word for word in words if word in code], path


@pytest.mark.parametrize("place", [one for p in PROMISES for one in (p.stated, p.enforced)])
def test_promises_name_existing_functions(place: str) -> None:
    file, _, name = place.partition(": ")
    body = ast.parse((SOURCE / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        found = [node for node in body if isinstance(node, kinds) and node.name == part]
        assert found, place
        body = found[0].body


def test_promises_are_enforced_in_reviewed_files() -> None:
    enforced = {one.enforced.partition(":")[0] for one in PROMISES}
    assert enforced <= {*BESIDES, *RECOMPUTED}
    assert not {*BESIDES} & {*RECOMPUTED}


PAGES = {
    name: (ROOT / "docs" / "guarantees" / f"{name}.md").read_text("utf-8")
    for name in ("details", "verification")
}


def test_the_page_has_the_numbers_of_the_program() -> None:
    text = PAGES["verification"]
    told = re.search(r"`proofs/reference\.py`, about ([\d,]+) lines of code", text)
    assert told is not None
    assert int(told[1].replace(",", "")) == round(numbers()[0], -2)


#: A command that shows what a section says.
SHOWS = re.compile(r"`(?:make [a-z]|python -m |counton [a-z]|node |tests/\S+\.py)")


def sections(page: str) -> list[tuple[str, str]]:
    """Sections of a page, those that are divided again without their parts, each with its text."""
    headed = re.split(r"^#{2,3} (.+)$", page, flags=re.MULTILINE)[1:]
    return list(zip(headed[::2], headed[1::2], strict=True))


def unshown(page: str) -> list[str]:
    """Sections without a command that shows what they say."""
    return [name for name, text in sections(page) if not SHOWS.search(text)]


def anchor_of(title: str) -> str:
    return re.sub(r"[^a-z ]", "", title.lower()).replace(" ", "-")


def shown_sections(verification: str) -> set[str]:
    """Sections of the details page whose row names a command that shows what they say."""
    rows = re.findall(r"^\| .*details\.md#([a-z-]+)\).*? \| (.*) \|$", verification, re.MULTILINE)
    return {anchor for anchor, commands in rows if SHOWS.search(commands)}


def test_each_section_of_details_has_command_in_verification() -> None:
    names = [anchor_of(name) for name, _ in sections(PAGES["details"])]
    assert len(names) > 10
    assert set(names) == shown_sections(PAGES["verification"])


def test_each_section_about_verification_has_a_command() -> None:
    # `make proof` stands above the theorems.
    assert unshown(PAGES["verification"]) == ["Theorems", "Reporting a problem"]

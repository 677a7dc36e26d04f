"""The list of what a reviewer of privacy has to read names files and tests that there are."""

from __future__ import annotations

from pathlib import Path

from tools.review import DOOR, PRIVATE, PUBLIC, SOURCE, code_lines, files_of

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
    words = ("counton.events", "counton.store", "counton.noise", "sqlalchemy", "noise_field(")
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

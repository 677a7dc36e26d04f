"""Names say what a thing is or does: no bare participles, no class name twice."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tools.names import KEPT, SOURCES, is_participle, participles, twice


@pytest.mark.xdist_group("source")
def test_functions_methods_and_types_are_not_called_by_a_bare_participle() -> None:
    left = [f"{one.place}:{one.line}: {one.name}" for one in participles()]
    assert not left, f"call it by what it is or does: {left}"


@pytest.mark.xdist_group("source")
def test_every_class_has_a_name_of_its_own() -> None:
    assert not twice()


def test_every_file_has_a_name_of_its_own() -> None:
    files = Counter(path.name for path in SOURCES.rglob("*.py"))
    assert {name for name, times in files.items() if times > 1} == {"__init__.py", "__main__.py"}


def test_a_participle_and_a_second_class_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").write_text(
        "class Part: ...\nclass Found: ...\ndef told(): ...\n"
        "class Door:\n    @property\n    def closed(self) -> bool: ...\n    def opened(self): ...\n"
    )
    (tmp_path / "room" / "two.py").write_text("class Part: ...\n")
    assert [one.name for one in participles(tmp_path)] == ["Found", "told", "opened"]
    assert twice(tmp_path) == {"Part": ["room/one.py", "room/two.py"]}


def test_every_kept_name_is_a_participle_of_one_class() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    for name in KEPT:
        assert is_participle(name)
        assert len(re.findall(rf"^class {name}\b", text, re.MULTILINE)) == 1


def test_words_of_more_than_a_participle_are_names() -> None:
    assert not any(map(is_participle, ("rounded_down", "HeldRows", "need", "release", "reading")))

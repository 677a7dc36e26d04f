"""The page of errata and the tests that show them are about the same errors."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errata.md"


def test_errata_page_and_errata_tests_name_each_other() -> None:
    here = Path(__file__)
    shown = {
        name
        for file in here.parent.glob("test_*_errata.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(shown) > 10
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"`(test_\w+)`", page)) == shown
    rows = re.findall(r"^\| (?!Where|--).*\|$", page, re.MULTILINE)
    assert len(rows) > 30
    assert [row for row in rows if "`test_" not in row.rsplit(" | ", 1)[1]] == []

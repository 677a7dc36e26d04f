"""The page of errata and the tests that show them are about the same errors."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errata.md"

#: A number with several digits. One digit, a number before a letter, and a power of a logarithm are
#: parts of a formula.
NUMBER = re.compile(r"(?<!log\^)(?<![\d.])(?:\d+\.\d+|\d{2,}(?![A-Za-z\d]))")


def literals_of(name: str) -> set[float]:
    """The numbers that the code of a test has, also as texts of rounded numbers."""
    for file in Path(__file__).parent.glob("test_*_errata.py"):
        for function in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.name == name:
                values = [
                    node.value for node in ast.walk(function) if isinstance(node, ast.Constant)
                ]
                words = [str(value) for value in values if not isinstance(value, bool)]
                numbers = [float(word) for word in words if re.fullmatch(r"[\d.]*\d[\d.]*", word)]
                return {*numbers, *(100 * number for number in numbers if number < 1)}
    raise AssertionError(f"no test {name}")


def unshown(correct: str, tests: list[str]) -> list[str]:
    """The numbers of a corrected statement that no test of its row computes."""
    shown = {round(number, 6) for name in tests for number in literals_of(name)}
    return [number for number in NUMBER.findall(correct) if float(number) not in shown]


def rows_of_page() -> list[tuple[str, list[str]]]:
    """What each row of the page states as correct, and its tests."""
    rows = re.findall(r"^\| (?!Where|--)(.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    cells = [row.replace("\\|", "").split(" | ") for row in rows]
    return [(row[2], re.findall(r"`(test_\w+)`", row[3])) for row in cells]


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


def test_numbers_of_a_correction_are_those_of_its_tests() -> None:
    wrong = [(correct, unshown(correct, tests)) for correct, tests in rows_of_page()]
    assert [row for row in wrong if row[1]] == []


@pytest.mark.parametrize(("correct", "missing"), [("It is 0.12387.", []), ("0.1238", ["0.1238"])])
def test_number_that_no_test_has_is_noticed(correct: str, missing: list[str]) -> None:
    assert unshown(correct, ["test_elders_corollary_c_3_cuts_off_its_constant"]) == missing

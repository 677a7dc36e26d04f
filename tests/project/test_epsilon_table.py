"""The numbers of the page "Choosing epsilon" are those of today's plans."""

import json
import re

import pytest

from tools.epsilon_table import (
    BOUNDS,
    EPSILONS,
    MARGINS,
    PAGE,
    WINDOWS,
    belief_after,
    margins_script,
    with_tables,
)

TEXT = PAGE.read_text("utf-8")


def test_tables_of_the_page_are_those_of_plans() -> None:
    assert with_tables(TEXT) == TEXT, "run: python -m tools.epsilon_table"


@pytest.mark.slow
def test_numbers_of_the_selection_are_those_of_plans() -> None:
    assert MARGINS.read_text("utf-8") == margins_script(), "run: python -m tools.epsilon_table"


def test_every_choice_of_the_form_has_a_number() -> None:
    offered = {
        name: re.findall(r"<option(?: value=\"([^\"]+)\")?[^>]*>([^<]+)</option>", options)
        for name, options in re.findall(r"<select name=\"(\w+)\">(.*?)</select>", TEXT)
    }
    values = {name: [value or text for value, text in choices] for name, choices in offered.items()}
    assert values == {
        "series": ["per-window", "cumulative"],
        "windows": [str(number) for number in WINDOWS],
        "bound": [str(number) for number in BOUNDS],
        "epsilon": list(EPSILONS),
    }
    margins = json.loads(MARGINS.read_text("utf-8").partition("=")[2].rstrip(";\n"))
    assert margins.keys() == {
        f"{kind},{windows},{bound},{epsilon}"
        for kind in values["series"]
        for windows in values["windows"]
        for bound in values["bound"]
        for epsilon in values["epsilon"]
    }


@pytest.mark.parametrize(("epsilon", "percent", "after"), [("1", 10, "23%"), ("3", 10, "69%")])
def test_belief_in_words_is_that_of_the_table(epsilon: str, percent: int, after: str) -> None:
    assert belief_after(epsilon, percent) == after
    assert f"A suspicion of {percent}% may become {after}" in TEXT

"""Four sizes that may only fall: lines of logic, options of ``counton count``, and functions and
files that a reader has to follow through five calls.

A change that makes one smaller writes the smaller number here. No change writes a larger one: it
takes out something else first.
"""

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from counton.cli.app import application
from tools.logic import sizes
from tools.walk import CALLS, Walk, entered, walks

#: Lines of logic of ``src/counton`` (`tools.logic`), at most. It may only fall.
LOGIC = 47_731
#: Options of ``counton count --help``, at most. It may only fall.
OPTIONS = 45
#: Functions and files that each call may enter. They may only fall.
MOST = {
    "first_count": Walk(509, 77),
    "count_again": Walk(321, 70),
    "quantiles": Walk(571, 85),
    "table_once": Walk(541, 84),
    "command": Walk(630, 88),
}


@pytest.mark.xdist_group("source")
def test_the_source_has_no_more_lines_of_logic() -> None:
    assert sum(room.logic for room in sizes().values()) <= LOGIC


def test_count_has_no_more_options() -> None:
    shown = CliRunner().invoke(application(["count"]), ["count", "--help"]).output
    found = set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE)) - {"--help"}
    assert 0 < len(found) <= OPTIONS


@pytest.mark.slow
@pytest.mark.parametrize("calls", [CALLS[:1], pytest.param(CALLS, marks=pytest.mark.long)])
def test_calls_enter_no_more_functions_and_files(calls: tuple[Any, ...]) -> None:
    found = walks(calls)
    assert [call.__name__ for call in CALLS] == list(MOST)
    assert list(found) == list(MOST)[: len(calls)]
    for name, walk in found.items():
        assert walk.functions <= MOST[name].functions, (name, walk)
        assert walk.files <= MOST[name].files, (name, walk)


def test_a_walk_counts_each_function_of_counton_once() -> None:
    from counton.base.lengths import days_in

    assert entered(lambda: [days_in("1d"), days_in("2w")]) == {("base/lengths.py", "days_in")}
    assert entered(lambda: sorted("ba")) == set()

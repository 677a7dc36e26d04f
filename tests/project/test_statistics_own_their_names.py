"""A statistic owns its room: no file outside `statistics/` names one, but what registers it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import counton
from counton.statistics.catalogue import KNOWN, keywords
from tools.parsed_source import parsed

HOME = Path(counton.__file__).parent
#: Words that are names of statistics and mean something else where they stand, by file.
OTHER_WORDS = {
    *(
        ("cli/command_list.py", name)  # commands of their own
        for name in ("count", "sum", "hierarchy", "contingency", "ranges")
    ),
    ("cli/plan_command.py", "count"),  # the unit of a plan that names no statistic
    ("base/columns.py", "sum"),  # a column
    ("rows/tally.py", "count"),  # a kind of part
    ("rows/row_reading.py", "count"),  # a kind of part
    ("run/definition.py", "distinct"),  # an option of people
    ("job/stated_options.py", "distinct"),  # an option of people
    ("job/jobfile.py", "report"),  # a section of a job file
    ("state/records.py", "count"),  # how many names of groups there are
    ("run/job_plan.py", "count"),  # a row of a reading
    ("base/literature.py", "ranges"),  # a paper
    ("planning/ranges_plan.py", "ranges"),  # a workload
    ("planning/least_privacy.py", "count"),  # a part that a wanted accuracy names
    ("released/stream_words.py", "sum"),  # a word of a phrase
}
#: What is made of a statistic: a report is made of several.
MADE_OF = {("released/release.py", "Report")}
#: Written from the catalogue by ``python -m tools.keywords``; a test holds the two together.
WRITTEN = "job/keywords.py"
#: Made of any statistic, for its groups.
APART = {"Grouped"}
#: Below these nobody knows statistics: their words are of mathematics.
BELOW = ("statistics", "tables", "strategies", "numbers", "privacy", "noise", "laws")
#: Where the classes of statistics are imported from.
_ROOM = "counton.statistics"
#: The job of a file that says no statistic, and the first one of a new user.
DEFAULTS = {
    ("job/jobfile.py", "count"),
    ("run/first_job.py", "count"),
    ("cli/run_words.py", "count"),
}


def named_in(text: str) -> Iterator[str]:
    """Classes of statistics that a file imports, and names of statistics among its texts."""
    tree = parsed(text)
    sentences = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_ROOM):
            yield from (one.name for one in node.names if one.name in set(KNOWN) - APART)
        elif isinstance(node, ast.Constant) and id(node) not in sentences:
            yield from (one for one in keywords() if one == node.value)


@pytest.mark.xdist_group("source")
def test_no_other_file_names_a_statistic() -> None:
    found = set()
    for file in HOME.rglob("*.py"):
        place = file.relative_to(HOME).as_posix()
        apart = file.name == "__init__.py" or place == WRITTEN
        if place.partition("/")[0] not in BELOW and not apart:
            found |= {(place, name) for name in named_in(file.read_text(encoding="utf-8"))}
    assert found - OTHER_WORDS - DEFAULTS - MADE_OF == set()
    assert found >= OTHER_WORDS | DEFAULTS | MADE_OF  # what is gone leaves the list


@pytest.mark.parametrize(
    "wrong",
    [
        "from counton.statistics import TopK\nisinstance(statistic, TopK)",
        "from counton.statistics.line_ranges import Ranges",
        "alone = statistic in ('top-k', 'ranges')",
        "MORE = {'hierarchy': 'With --time rows are events.'}",
    ],
)
def test_a_file_that_names_one_is_found(wrong: str) -> None:
    assert [*named_in(wrong)]
    assert not [*named_in('"""Of a hierarchy."""\nwords = "of a hierarchy"')]

"""Options are the command line's own words: below it, errors name fields, which it translates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import counton
from counton.errors import InvalidInput
from counton.jobs import Job, run

SOURCE = Path(counton.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")


def test_the_pattern_finds_options_and_no_dashes() -> None:
    assert OPTION.search('f"give --from, or"')
    assert not OPTION.search("# ------- tables -- and rows")


def test_no_module_below_the_command_line_names_an_option() -> None:
    naming = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "cli"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OPTION.search(line)
    ]
    assert naming == []


@pytest.mark.parametrize(
    ("changed", "in_python", "on_the_command_line", "fields"),
    [
        (
            {"start": None},
            "a new stream needs start; give it, or correct state and name",
            "a new stream needs --from; give it, or correct --state and --name",
            ("start", "state", "name"),
        ),
        (
            {"growth": "2"},
            "growth=2 needs expire; give it, or leave growth out",
            "--growth 2 needs --expire; give it, or leave --growth out",
            ("growth", "expire"),
        ),
        (
            {"epsilon": None},
            "or rho: epsilon=1 is a common choice",
            "or --rho: --epsilon 1 is a common choice",
            ("epsilon", "delta", "rho"),
        ),
    ],
)
def test_an_error_names_fields_in_python_and_options_on_the_command_line(
    changed: dict[str, str | None],
    in_python: str,
    on_the_command_line: str,
    fields: tuple[str, ...],
    place: Any,
) -> None:
    events = place.write("e.csv", ["00:10,a"])
    request: dict[str, Any] = {
        "what": "count", "events": events, "state": place.state, "time": "time", "every": "1h",
        "by": "group", "domain": "a,b", "steps": 6, "start": "2013-01-01", "epsilon": 100,
    }  # fmt: skip
    with pytest.raises(InvalidInput) as caught:
        run(Job(**(request | changed)))
    assert in_python in str(caught.value)
    assert caught.value.fields == fields
    options = {{"start": "from"}.get(name, name): value for name, value in changed.items()}
    assert on_the_command_line in place("count", events, *place.new(**options)).err

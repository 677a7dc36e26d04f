"""Options are the command line's own words: below it, errors name fields, which it translates."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

import counton
from counton.base.errors import InvalidInputError
from counton.cli.app import app
from counton.cli.command_list import COMMANDS
from counton.cli.statistic_commands import statistic_command
from counton.run import Job, run

from .conftest import Workplace

SOURCE = Path(counton.__file__).parent
#: The command line.
PROGRAMS = ("cli",)
#: No variable of a stylesheet, which is set, used and no option.
OPTION = re.compile(r"(?<![\w(-])--[a-z][a-z-]*(?![\w:-])(?! ?:)")


def test_no_module_below_the_command_line_names_an_option() -> None:
    naming = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.relative_to(SOURCE).as_posix().startswith(PROGRAMS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OPTION.search(line)
    ]
    assert naming == []


@pytest.mark.parametrize(
    ("changed", "in_python", "on_the_command_line", "fields"),
    [
        (
            {"start": None},
            "If the stream exists, correct state or stream",
            "If the stream exists, correct --state or --stream",
            ("start", "state", "stream"),
        ),
        (
            {"expiration_growth": "2"},
            "expiration_growth=2 needs expiring",
            "--expiration-growth 2 needs --expiring",
            ("expiration_growth", "expiring"),
        ),
        (
            {"epsilon": None},
            "needs epsilon or rho",
            "needs --epsilon or --rho",
            ("epsilon", "rho", "state", "stream"),
        ),
    ],
)
def test_error_names_fields_in_python_and_options_in_commands(
    changed: dict[str, str | None],
    in_python: str,
    on_the_command_line: str,
    fields: tuple[str, ...],
    place: Workplace,
) -> None:
    events = place.write("e.csv", ["00:10,a"])
    request: dict[str, Any] = {
        "events": events, "state": place.state, "time": "time", "every": "1h",
        "group_by": "group", "groups": "a,b", "windows": 6, "start": "2013-01-01", "epsilon": 100,
    }  # fmt: skip
    with pytest.raises(InvalidInputError) as caught:
        run(Job("count", **(request | changed)))
    assert in_python in str(caught.value)
    assert caught.value.fields == fields
    assert on_the_command_line in place("release", "count", events, *place.new(**changed)).err


def test_state_is_argument_of_commands_without_events() -> None:
    taking = {}
    for name in ("count", *COMMANDS):
        command = app.get_command(click.Context(app), name) or statistic_command(name)
        assert command is not None
        words = {one.name: one.param_type_name for one in command.params}
        if "state" in words:
            taking[name] = words["state"]
            assert (words["state"] == "option") == (words.get("events") == "argument"), name
    arguments = {name for name, kind in taking.items() if kind == "argument"}
    assert arguments == {
        "annotate", "backup", "close", "erase-user", "export", "inspect", "ledger", "methods",
        "publish", "verify",
    }  # fmt: skip

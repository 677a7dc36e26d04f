"""Pages of the reference list the options of commands, and the keys of job files."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from counton.cli.app import app
from counton.cli.command_list import COMMANDS
from counton.cli.statistic_commands import statistic_command
from counton.job.messages import parse_options
from counton.job.statistics import STATISTIC_NAMES, model_of
from tools import reference_pages

PARTS = reference_pages.parts()
KEYS = {
    field.alias or name: statistic
    for statistic in reversed(STATISTIC_NAMES)
    for name, field in model_of(statistic).model_fields.items()
    if name != "statistic"
}


def test_pages_have_the_written_parts() -> None:
    """All pages in one test, so that no selection of cases leaves one out."""
    stale = [
        page.name
        for page, part in PARTS.items()
        if page.read_text("utf-8") != reference_pages.renewed(page, part())
    ]
    assert not stale, f"run python -m tools.reference_pages, which writes {stale} anew"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "release"])
def test_command_page_has_every_option(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    words = {word for option in command.params for word in option.opts if word.startswith("--")}
    part = reference_pages.command_part(name)
    assert words - {"--help"} <= set(re.findall(r"--[a-z-]+", part))


def test_release_page_has_every_option_of_every_statistic() -> None:
    part = reference_pages.command_part("release")
    shared, _, own = part.partition("## Options of single statistics")
    for name in STATISTIC_NAMES:
        _, _, after = own.partition(f"### {name}\n")
        listed = re.findall(r"^- `(--[a-z-]+)(?:.*\(Not for (.*)\.\)$)?", shared, re.MULTILINE)
        words = {word for word, without in listed if name not in without.split(", ")}
        words |= {*re.findall(r"^- `(--[a-z-]+)", after.partition("### ")[0], re.MULTILINE)}
        options = {word for one in statistic_command(name).params for word in one.opts}
        assert {word for word in options if word.startswith("--")} == words


def test_every_key_has_an_example_and_no_other_has_one() -> None:
    missing = {*KEYS} - {*reference_pages.EXAMPLES}
    assert not missing, f"give {sorted(missing)} an example in tools/reference_pages.py"
    assert {*reference_pages.EXAMPLES} == {*KEYS}


@pytest.mark.parametrize("key", reference_pages.EXAMPLES)
def test_example_of_a_key_is_allowed(key: str, tmp_path: Path) -> None:
    value = tomllib.loads(f"value = {reference_pages.EXAMPLES[key]}")["value"]
    (tmp_path / "numbers.toml").write_text('[pages]\nstatistic = "count"\n')
    job = parse_options(model_of(KEYS[key]), {key: value}, tmp_path)
    assert [name for name in job.stated_options() if name != "statistic"]


@pytest.mark.parametrize(
    ("statistic", "name", "expected"),
    [
        ("count", "every", ("text", "a whole number and a unit: `s`, `m`, `h`, `d`, `w` or `mo`")),
        ("count", "windows", ("whole number", "from 1")),
        ("count", "max_empty_windows", ("whole number", "from 0")),
        ("count", "expiring", ("boolean", "`true` or `false`")),
        ("reach", "series", ("text", "`cumulative`, `per-window`, `both` or `period-to-date`")),
        ("report", "statistics", reference_pages.OTHER_TYPE),
    ],
)
def test_type_in_words_of_an_option(statistic: str, name: str, expected: tuple[str, str]) -> None:
    assert reference_pages.type_in_words(model_of(statistic).model_fields[name]) == expected


def test_only_report_statistics_have_option_type_without_words() -> None:
    other = {
        key
        for key, statistic in KEYS.items()
        for field in model_of(statistic).model_fields.values()
        if field.alias == key and reference_pages.type_in_words(field) == reference_pages.OTHER_TYPE
    }
    assert other == {"statistics"}


def test_page_without_a_written_part_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="has no written part"):
        reference_pages.renewed(page, "part")

"""Help has two pages: one screen with an example that runs, and all options."""

import re
import shlex
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from counton.cli.exits import MEANINGS, RETRYABLE_CODES, ExitCode
from counton.statistics.catalogue import keywords

from .conftest import Workplace

VISITS = """time,page,device,visitor,seconds
2024-03-01T09:12,home,phone,ann,40
2024-03-01T09:40,shop,desk,bob,210
2024-03-02T10:15,home,desk,ann,15
2024-03-03T08:05,home,phone,cy,90
"""
#: What -h may take of a screen, and how many options it may show, besides those of a statistic.
LINES = 40
OPTIONS = 17


def words(name: str) -> tuple[str, ...]:
    return (name,) if name == "plan" else ("release", name)


def example(page: str) -> list[str]:
    """The lines of the example of a page, each put together."""
    shown = re.search(r"\nExample:\n(.*?)\n\n", page, re.DOTALL)
    assert shown is not None
    return [line.strip() for line in shown[1].replace("\\\n", "").splitlines()]


@pytest.mark.parametrize("name", [*keywords(), "plan"])
def test_the_first_page_is_one_screen_whose_example_runs(
    name: str, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(place.folder)
    shown = place.plain(*words(name), "-h").out
    lines = shown.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80
    assert len(re.findall(r"^  --", shown, re.MULTILINE)) <= OPTIONS + 4
    (place.folder / "visits.csv").write_text(VISITS, encoding="utf-8")
    commands = example(shown)
    assert commands[-1].startswith(" ".join(("counton", *words(name))))
    for command in commands:
        if not command.startswith("counton "):
            subprocess.run(["sh", "-c", command], check=True)
            continue
        done = place.plain(*shlex.split(command)[1:])
        assert done.code == 0, (command, done.err)
        assert done.out


@pytest.mark.parametrize("name", [*keywords(), "plan"])
def test_long_help_lists_all_options_in_order_of_headings(name: str, place: Workplace) -> None:
    short, long = (place.plain(*words(name), page).out for page in ("-h", "--help"))
    options = [set(re.findall(r"^  (--[a-z-]+)", page, re.MULTILINE)) for page in (short, long)]
    assert options[0] < options[1]
    more = re.search(r"--help: these, and (\d+) more", short)
    assert more is not None
    arguments = len(re.findall(r"^  \[?[A-Z|]+\]?(?:\.\.\.)?  ", short, re.MULTILINE))
    assert arguments == 1
    assert len(options[1]) - 1 == len(options[0]) + int(more[1])  # --help is none of them
    if name != "plan":
        headings = re.findall(r"^([A-Z][a-z ]+):\n", long, re.MULTILINE)
        first = [one for one in headings if one != "Statistic"]
        assert first[:5] == [
            "Positional arguments",
            "Windows",
            "Late data",
            "Groups",
            "Contributions",
        ]


def test_help_lists_tasks_before_commands(place: Workplace) -> None:
    short = place.plain("-h").out
    after = [short.index(one) for one in ("a number each day", "protect users", "a table")]
    assert after == sorted(after)
    assert short.index("counton init") < after[1] < short.index("Options:")
    assert not any(meaning in short for meaning in MEANINGS.values())
    long = " ".join(place.plain("--help").out.split())
    assert "Exit codes:" in long
    assert all(meaning in long for meaning in MEANINGS.values())
    assert place.plain().err.startswith(short.splitlines()[0])


def test_the_page_has_the_table_of_exit_codes() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md"
    head = "| Code | Meaning | What to do | Retry |\n|---|---|---|---|\n"
    rest = page.read_text(encoding="utf-8").partition(head)[2].splitlines()
    rows = takewhile(lambda line: line.startswith("|"), rest)
    for code, row in zip(ExitCode, rows, strict=True):
        _, number, meaning, remedy, again, _ = map(str.strip, row.split("|"))
        assert (number, meaning) == (str(int(code)), MEANINGS[code])
        assert remedy
        assert again == ("yes" if code in RETRYABLE_CODES else "no")

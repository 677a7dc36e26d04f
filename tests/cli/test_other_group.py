"""What the screens state about the group of all groups that are not listed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result, Workplace

OF_FILE = ("--timezone", "UTC", "--start", "2024-03-01", "--until", "2024-03-02")
BY_STREET = ("--group-by", "street", "--groups", "Mill Lane", "--privacy-unit", "passage")
LINE = "Group 'other' has the rows of groups that are not listed, and rows without a group."
NOTE = "no row counts in group 'other', so its numbers are only noise"
LATER_NOTE = (
    "no row of this input counts in group 'other'. If no earlier run counted one, its numbers are "
    "only noise"
)
REMEDY = "To leave it out, delete the line other-group before the first run."


@pytest.fixture
def init(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[..., Result]]:
    """Write rows of some streets, and their job file; return the command."""
    monkeypatch.chdir(tmp_path)

    def write(*streets: str, other: str | None = "other") -> Callable[..., Result]:
        rows = "".join(f"2024-03-01T09:00,{street}\n" for street in streets)
        Path("passages.csv").write_text(f"time,street\n{rows}")
        more = () if other is None else ("--other-group", other)
        place.plain("init", "passages.csv", *OF_FILE, *BY_STREET, *more).fine()
        return place.plain

    return write


def test_empty_other_group_is_noted_before_and_at_first_run(
    init: Callable[..., Callable[..., Result]],
) -> None:
    command = init("Mill Lane")
    rehearsed = command("run", "nightly.toml", "--dry-run").fine()
    assert f"confidential: job passages: {NOTE}. {REMEDY}" in rehearsed.err
    first = command("run", "nightly.toml").fine()
    assert f"confidential: job passages: {NOTE}\n" in first.err
    assert LINE in first.out
    assert NOTE not in first.out
    again = command("run", "nightly.toml").fine()
    assert LINE in again.out
    assert NOTE not in again.err


def test_note_of_a_later_run_leaves_open_what_earlier_runs_counted(
    init: Callable[..., Callable[..., Result]],
) -> None:
    command = init("Mill Lane", "Hill Road")
    assert "No window is released" in command("run", "nightly.toml", "--until", "2024-03-01").out
    Path("passages.csv").write_text("time,street\n2024-03-01T09:00,Mill Lane\n")
    later = command("run", "nightly.toml").fine()
    assert NOTE not in later.err
    assert f"{LATER_NOTE}\n" in later.err


@pytest.mark.parametrize("street", ["Hill Road", ""])
def test_other_group_with_a_row_has_no_note(
    init: Callable[..., Callable[..., Result]], street: str
) -> None:
    command = init("Mill Lane", street)
    job_file = Path("nightly.toml")
    job_file.write_text(job_file.read_text().replace('missing-values = "drop"\n', ""))
    assert NOTE not in command("run", "nightly.toml", "--dry-run").fine().err
    report = json.loads(command("run", "nightly.toml", "--json").fine().out)["jobs"]["passages"]
    assert NOTE not in report["not_private"]["notes"]


def test_deleted_other_group_is_neither_stated_nor_noted(
    init: Callable[..., Callable[..., Result]],
) -> None:
    command = init("Mill Lane")
    job_file = Path("nightly.toml")
    text = job_file.read_text()
    assert "Without this line, such a row stops the run." in text
    job_file.write_text(text.replace('other-group = "other"\n', ""))
    assert NOTE not in command("run", "nightly.toml", "--dry-run").fine().err
    assert "Group 'other'" not in command("run", "nightly.toml").fine().out


def test_unlisted_group_stops_the_run_without_other_group(
    init: Callable[..., Callable[..., Result]],
) -> None:
    command = init("Mill Lane", "Hill Road")
    job_file = Path("nightly.toml")
    job_file.write_text(job_file.read_text().replace('other-group = "other"\n', ""))
    assert "Hill Road" in command("run", "nightly.toml").refused()

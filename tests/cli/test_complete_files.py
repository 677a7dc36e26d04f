"""A complete file of the past: its last window is released at the first attempt."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result, Workplace

#: Two days of visits; the last one ends on 2 March.
VISITS = "time,visitor\n2024-03-01T09:00,ann\n2024-03-01T10:00,bob\n2024-03-02T22:45,ann\n"
DAILY = ("--timezone", "UTC", "--start", "2024-03-01", "--privacy-unit", "visit")
NOTE = "not released: 2 March 2024, because {}. If the file has all rows of this time, set {}"


@pytest.fixture
def command(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text(VISITS)
    return place.plain


def init(command: Callable[..., Result], until: str, *more: str) -> Result:
    return command("init", "visits.csv", *DAILY, "--until", until, "--force", *more)


def released(command: Callable[..., Result], *more: str) -> object:
    report = json.loads(command("run", "nightly.toml", *more, "--json").fine().out)
    return report["jobs"]["visits"]["released"]


def test_init_with_date_releases_all_windows_at_first_run(command: Callable[..., Result]) -> None:
    written = init(command, "2024-03-03").fine()
    assert "not released" not in written.err
    assert 'until = "2024-03-03" is for a complete file' in written.out
    (job,) = tomllib.loads(Path("nightly.toml").read_text())["jobs"].values()
    assert job["until"] == "2024-03-03"
    assert job["release-delay"] == "0s"
    rehearsed = command("run", "nightly.toml", "--dry-run").fine()
    assert "release 2 windows" in rehearsed.out
    assert "not released" not in rehearsed.err
    assert released(command) == 2


@pytest.mark.parametrize(
    ("until", "message"),
    [
        ("2999-03-03", "lies in the future"),
        ("2024-02-01", "is not after 2024-03-01"),
        ("2024-03-01T12:00", "releases no window: the first one is 1 March 2024. Give"),
        ("2024-13-01", "is not a time"),
    ],
)
def test_init_refuses_wrong_date(command: Callable[..., Result], until: str, message: str) -> None:
    assert message in init(command, until).refused()
    assert not Path("nightly.toml").exists()


def test_init_refuses_date_after_last_window(command: Callable[..., Result]) -> None:
    message = init(command, "2024-03-09", "--windows", "3").refused()
    assert "is after the last window of the stream, 3" in message


def test_init_names_first_date_that_releases_a_window(command: Callable[..., Result]) -> None:
    message = init(command, "2024-03-01T12:00", "--release-delay", "2h").refused()
    assert "Give --until 2024-03-02T02:00 or later" in message


@pytest.mark.parametrize(
    ("until", "reason"),
    [("latest-event", "more rows may follow"), ("2024-03-02", "it ends after until")],
)
def test_held_back_window_is_noted_with_line_to_change(
    command: Callable[..., Result], until: str, reason: str
) -> None:
    noted = NOTE.format(reason, 'until = "2024-03-03" in ')
    assert f"confidential: {noted}nightly.toml" in init(command, until).fine().err
    note = f"confidential: job visits: {noted}the job file"
    assert note in command("run", "nightly.toml", "--dry-run").fine().err
    assert note in command("run", "nightly.toml").fine().err
    job_file = Path("nightly.toml")
    job_file.write_text(job_file.read_text().replace(f'"{until}"', '"2024-03-03"'))
    later = command("run", "nightly.toml").fine()
    assert "Released 1 new window (2 of" in later.out
    assert "not released" not in later.err


def test_window_held_back_by_delay_is_noted_with_delay(command: Callable[..., Result]) -> None:
    noted = NOTE.format(
        "it ends less than release-delay before until", 'release-delay = "0s" in nightly.toml'
    )
    assert noted in init(command, "2024-03-03", "--release-delay", "2h").fine().err
    init(command, "2024-03-03", "--release-delay", "0s").fine()
    assert released(command) == 2


def test_held_back_window_of_delayed_newest_row_is_noted(command: Callable[..., Result]) -> None:
    written = init(command, "latest-event", "--release-delay", "3h").fine()
    assert 'set until = "2024-03-03T03:00" in nightly.toml' in written.err
    assert released(command, "--until", "2024-03-03T03:00") == 2


def test_option_of_a_command_is_noted_as_typed(command: Callable[..., Result]) -> None:
    words = ["release", "count", "visits.csv", "--time", "time", "--every", "1d"]
    words += ["--start", "2024-03-01", "--windows", "9", "--epsilon", "1", "--state", "v.db"]
    noted = "confidential: " + NOTE.format("more rows may follow", "--until 2024-03-03\n")
    assert noted in command(*words, "--until", "latest-event").fine().err
    init(command, "latest-event").fine()
    rehearsed = command("run", "nightly.toml", "--until", "2024-03-02", "--dry-run").fine()
    assert NOTE.format("it ends after --until", "--until 2024-03-03\n") in rehearsed.err


@pytest.mark.parametrize("line", ["append = true", 'lookback = "2d"'])
def test_inputs_of_new_or_last_rows_have_no_note(command: Callable[..., Result], line: str) -> None:
    init(command, "2024-03-02").fine()
    job_file = Path("nightly.toml")
    job_file.write_text(f"{job_file.read_text()}{line}\n")
    assert "not released" not in command("run", "nightly.toml", "--dry-run").fine().err


def test_window_that_has_not_ended_is_not_noted(command: Callable[..., Result]) -> None:
    Path("visits.csv").write_text(VISITS)
    written = init(command, "latest-event", "--every", "12mo", "--start", "2024-01-01").fine()
    assert "not released: 1 January to 31 December 2024" in written.err
    written = init(command, "latest-event", "--every", "1200mo", "--start", "2024-01-01").fine()
    assert "not released" not in written.err


def test_chosen_earlier_date_is_not_noted(command: Callable[..., Result]) -> None:
    Path("visits.csv").write_text(f"{VISITS}2024-03-05T09:00,ann\n")
    assert "not released" not in init(command, "2024-03-02").fine().err


def test_date_is_read_in_the_zone_of_the_windows(command: Callable[..., Result]) -> None:
    words = ("--timezone", "America/New_York", "--start", "2024-03-01", "--privacy-unit", "visit")
    written = command("init", "visits.csv", *words, "--until", "latest-event").fine()
    assert 'set until = "2024-03-03" in nightly.toml' in written.err
    assert released(command, "--until", "2024-03-03") == 2


def test_empty_until_is_explained_with_both_lines(command: Callable[..., Result]) -> None:
    written = command("init", "visits.csv", *DAILY).fine()
    assert "Fill in these empty lines before the first run: until." in written.out
    lines = 'write until = "2024-03-03" and release-delay = "0s" in nightly.toml'
    assert f"if the file has all rows of 2 March 2024, and none follow, {lines}" in written.err
    text = Path("nightly.toml").read_text()
    text = text.replace('until = ""', 'until = "2024-03-03"')
    Path("nightly.toml").write_text(text.replace('release-delay = "2h"', 'release-delay = "0s"'))
    assert released(command) == 2


def test_refusal_of_empty_windows_names_end_of_a_complete_file(
    command: Callable[..., Result],
) -> None:
    init(command, "now").fine()
    message = command("run", "nightly.toml").refused()
    assert "or give --until 2024-03-03T02:00 (complete file) or until = " in message
    assert released(command, "--until", "2024-03-03T02:00") == 2

"""CSV with other separators, decimal signs and times, on the command line alone."""

import shlex
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Workplace

GERMAN = "Zeit;Ort;kWh\n01.03.2024 09:00;Nord;1,5\n01.03.2024 10:00;Süd;2,25\n13.03.2024;Nord;3\n"


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("verbrauch.csv").write_text(GERMAN.replace("13.03.2024;", "13.03.2024 00:00;"), "utf-8")
    return tmp_path


def test_sum_of_decimal_commas_between_semicolons_needs_no_job_file(
    german: Path, place: Workplace
) -> None:
    words = ["--separator", ";", "--decimal", ",", "--time-format", "%d.%m.%Y %H:%M"]
    words += ["--time", "Zeit", "--every", "1d", "--start", "2024-03-01", "--windows", "30"]
    words += ["--value", "kWh", "--lower", "0", "--upper", "10", "--resolution", "0.25"]
    words += ["--epsilon", "1000", "--privacy-unit", "reading", "--until", "2024-03-03"]
    place.plain("release", "sum", "verbrauch.csv", *words, "--output", "t.csv").fine()
    assert pl.read_csv("t.csv")["estimate"].round(1).to_list() == [3.8, 3.8]


def test_proposed_command_for_csv_file_runs_as_printed(german: Path, place: Workplace) -> None:
    """It has the separator, the decimal sign and the format of times."""
    said = place.plain("release", "count", "verbrauch.csv").err
    assert "to protect users: --user COLUMN --max-contributions N --contribution-period 1w" in said
    command = said.partition("as in:\n")[2].partition("counton init writes")[0]
    program, *words = shlex.split(command.replace("\\\n", " "))
    assert program == "counton"
    assert {"--separator", "--decimal", "--time-format"} <= {*words}
    place.plain(*words, "--output", "t.csv").fine()
    assert pl.read_csv("t.csv").height == 72  # the days from 1 January to 12 March


@pytest.mark.parametrize(
    ("word", "value", "why"),
    [
        ("--separator", "ab", "columns may be separated by , ; | or tab"),
        ("--decimal", ";", "give . or ,"),
        ("--time-format", "%H:%M", "does not say a day and its year"),
    ],
)
def test_form_that_is_not_known_is_refused_by_its_option(
    word: str, value: str, why: str, german: Path, place: Workplace
) -> None:
    words = ["--time", "Zeit", "--every", "1d", "--start", "2024-03-01", "--windows", "30"]
    said = place.plain(
        "release",
        "count",
        "verbrauch.csv",
        *words,
        "--epsilon",
        "1",
        "--until",
        "latest-event",
        word,
        value,
    ).refused()
    assert word in said
    assert why in said

"""What Python and commands state about the job of a new stream before its numbers mislead."""

import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from counton import release
from counton.base.errors import JobWarning
from counton.cli.app import app

VISITS = pl.DataFrame(
    {
        "time": ["2024-03-01T09:00", "2024-03-01T10:00", "2024-03-02T09:00"],
        "visitor": ["ann", "ann", "bob"],
        "page": ["home", "shop", "home"],
        "count": [1, 2, 1],
    }
)
DAILY: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 28, "until": "2024-03-03",
    "epsilon": 1, "user": "visitor", "privacy_unit": "visitor", "max_contributions": 1,
    "contribution_period": "1d", "series": "per-window", "state": "visits.db",
}  # fmt: skip
BY_PAGE: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop"]}
WEEKLY = {"stream": "weekly", "every": "1w", "start": "2024-02-26", "contribution_period": "1w"}
UNITS_NOTE = "the ledger does not add this loss per visitor's week (UTC, time) to the losses per"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the states of a test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def job_warnings(**options: Any) -> list[str]:
    """Return the warnings of a call of ``release``, which are all of this class."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release("count", VISITS.drop("count"), **DAILY | options)
    assert {warning.category for warning in caught} <= {JobWarning}
    return [str(warning.message) for warning in caught]


def test_release_warns_of_left_out_groups_as_command_does(tmp_path: Path) -> None:
    warning, fixed = job_warnings(**BY_PAGE)
    assert fixed.startswith("the stream has begun, so its options are fixed. To change them, begin")
    assert "the numbers of the other groups are too low" in warning
    assert "set once_per_window=True, and max_contributions to the largest number" in warning
    rows = tmp_path / "rows.csv"
    VISITS.drop("count").write_csv(rows)
    words = ["--user", "visitor", "--max-contributions", "1", "--contribution-period", "1d"]
    words += ["--time", "time", "--every", "1d", "--start", "2024-03-01", "--windows", "28"]
    words += ["--privacy-unit", "visitor", "--group-by", "page", "--groups", "home,shop"]
    words += ["--until", "2024-03-03", "--epsilon", "1", "--state", str(tmp_path / "other.db")]
    command = CliRunner().invoke(app, ["release", "count", str(rows), *words])
    assert command.exit_code == 0, command.output
    in_command = warning.replace("once_per_window=True", "once-per-window = true in the job file")
    in_command = in_command.replace("max_contributions", "max-contributions")
    assert f"note: {in_command}" in command.stderr


def test_release_warns_of_uneven_windows_with_arguments() -> None:
    warning, _ = job_warnings(contribution_period="1mo", max_contributions=3)
    assert "late windows of a period are counted too low" in warning
    assert "max_contributions_per_window=1 with max_contributions=28" in warning
    assert "-" not in warning


def test_arguments_of_a_warning_end_it() -> None:
    assert job_warnings(**BY_PAGE)
    more: dict[str, Any] = {"once_per_window": True, "max_contributions": 2, "state": "all.db"}
    assert job_warnings(**BY_PAGE | more) == []


def test_release_warns_of_column_of_counts_with_argument() -> None:
    users = ("user", "max_contributions", "contribution_period")
    options = {name: value for name, value in DAILY.items() if name not in users}
    options["privacy_unit"] = "visit"
    with pytest.warns(JobWarning, match="set count_column='count'$"):
        release("count", VISITS, **options)
    release("count", VISITS, **options | {"count_column": "count", "stream": "counted"})


def test_second_call_does_not_warn_again() -> None:
    assert job_warnings(**BY_PAGE)
    assert job_warnings(**BY_PAGE | {"until": "2024-03-04", "allow_empty_windows": True}) == []


def test_stream_with_another_unit_of_the_ledger_is_noted() -> None:
    assert job_warnings() == []
    warning, _ = job_warnings(**WEEKLY, until="2024-03-04")
    assert f"{UNITS_NOTE} visitor's day (UTC, time) in this state" in warning


@pytest.mark.parametrize("unit", ["visitor", "Visitor"])
def test_stream_with_the_unit_of_the_ledger_is_not_noted(unit: str) -> None:
    assert job_warnings() == []
    assert job_warnings(stream="again", privacy_unit=unit) == []


def test_stream_in_another_state_is_not_noted() -> None:
    assert job_warnings() == []
    assert job_warnings(**WEEKLY, until="2024-03-04", state="weeks.db") == []

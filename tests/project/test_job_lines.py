"""Lines of job files that the pages show are lines of jobs that counton accepts."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from counton.cli.app import app

ROOT = Path(__file__).parents[2]
#: Blocks with a title are files, which `test_documents.py` runs.
BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, block in enumerate(BLOCK.findall(page.read_text("utf-8")), start=1)
]
#: A job to which the lines are added.
JOB = {
    "statistic": "count", "events": "visits.csv", "state": "visits.db", "time": "time",
    "every": "1d", "start": "2024-03-01", "windows": 365, "series": "per-window", "epsilon": 1,
}  # fmt: skip


def file_of(table: dict[str, Any], heading: str = "") -> str:
    """Return a TOML file with a table of texts, numbers and tables."""
    tables = {name: value for name, value in table.items() if isinstance(value, dict)}
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for name, value in table.items()
        if name not in tables
    ]
    inner = (file_of(value, f"{heading}.{name}".strip(".")) for name, value in tables.items())
    return "\n".join([f"[{heading}]" if heading else "", *lines, *inner])


def job_file_with(lines: str) -> str:
    """Return a job file with the shown lines; those that a reader fills in are left out."""
    shown = tomllib.loads(lines)
    tables = {name: value for name, value in shown.items() if isinstance(value, dict)}
    options = {name: value for name, value in shown.items() if name not in tables and value != ""}
    needed = {"group-by": "page", "groups": "home,shop"} if "once-per-window" in options else {}
    users = {"user": "visitor"} if "max-contributions" in options else {}
    jobs = {"jobs": {"visits": JOB | users | needed | options}}
    return file_of(tables if "jobs" in tables else jobs | tables)


@pytest.mark.parametrize("lines", BLOCKS)
def test_plan_accepts_shown_lines(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(job_file_with(lines), "utf-8")
    result = CliRunner().invoke(app, ["plan", "job.toml"], prog_name="counton")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("lines", BLOCKS)
def test_reference_has_shown_keys(lines: str) -> None:
    reference = (ROOT / "docs" / "reference" / "job-file.md").read_text("utf-8")
    keys = [name for name, value in tomllib.loads(lines).items() if not isinstance(value, dict)]
    assert [key for key in keys if f"### {key}\n" not in reference] == []


def test_plan_refuses_an_unknown_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(job_file_with("max-contribution = 1\n"), "utf-8")
    result = CliRunner().invoke(app, ["plan", "job.toml"], prog_name="counton")
    assert result.exit_code == 2
    assert "max-contribution" in result.output

"""Paths in job files: an empty one names no file, and a long list of groups is no path."""

from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError
from counton.job.job_file import load

from .conftest import Workplace

JOB = """
[defaults]
events = "e.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
until = "2024-03-04"
epsilon = 0.5
privacy-unit = "event"
rollback-guard = "guard"

[jobs.visits]
state = "v.db"
output = "visits.csv"
chart = "visits.svg"
bad-rows = "quarantine:bad.csv"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A job file whose events exist."""
    (tmp_path / "e.csv").write_text("time,page\n2024-03-01T09:00,home\n2024-03-02T10:15,shop\n")
    path = tmp_path / "nightly.toml"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize(
    "key", ["events", "state", "key", "rollback-guard", "output", "chart", "bad-rows"]
)
@pytest.mark.parametrize("value", ['""', '"  "', '"${NOTHING}"', '["e.csv", ""]'])
def test_empty_text_in_place_of_a_path_is_refused(
    file: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    """Joined to the folder of the file it would be that folder, with all files in it."""
    if value.startswith("[") and key != "events":
        return
    monkeypatch.setenv("NOTHING", "")
    if key == "bad-rows":
        value = value.replace('"', '"quarantine:', 1)
    lines = [line for line in JOB.splitlines() if not line.startswith(f"{key} ")]
    file.write_text("\n".join([*lines, f"{key} = {value}"]))
    before = sorted(file.parent.iterdir())
    done = place("run", str(file))
    assert done.code == 2
    assert f"job 'visits' of {str(file)!r}: {key} " in done.err
    assert " is empty; give the path of a file" in done.err or "quarantine:FILE" in done.err
    assert sorted(file.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("groups", "groups '' is not a list"),
        ("output", "no option 'output'"),
        ("chart", "option 'chart'"),
    ],
)
def test_empty_path_of_a_statistic_of_a_report_is_refused(file: Path, key: str, words: str) -> None:
    file.write_text(f'{JOB}[report.all]\nstate = "r.db"\n[report.all.one]\n{key} = ""\n')
    with pytest.raises(InvalidInputError, match=words):
        load(file)


def test_list_of_groups_longer_than_a_path_is_read(file: Path) -> None:
    names = [f"group-{number}" for number in range(200)]
    file.write_text(f'{JOB}group-by = "page"\ngroups = "{",".join(names)}"\n')
    assert load(file)["visits"].value_of("groups") == ",".join(names)

"""Where a job file publishes: a file that a job needs is refused before anything is released."""

from pathlib import Path

import pytest

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
    ("to", "used"),
    [
        ("v.db.key", "(state)"),
        ("v.db-wal", "(state)"),
        ("./v.db-journal", "(state)"),
        ("visits.csv", "(output)"),
        ("visits.csv.json", "(the description beside its output)"),
        ("visits.svg", "(chart)"),
        ("bad.csv", "(bad-rows)"),
        ("guard", "(rollback-guard)"),
    ],
)
def test_publishing_over_file_of_job_is_refused_before_release(
    file: Path, place: Workplace, to: str, used: str
) -> None:
    file.write_text(f'{JOB}[publish]\nto = "{to}"\n')
    before = sorted(file.parent.iterdir())
    for door in (("run", str(file)), ("run", str(file), "--dry-run"), ("plan", str(file))):
        done = place(*door)
        assert done.code == 2, door
        assert f"which job 'visits' uses {used}" in " ".join(done.err.split())
        assert sorted(file.parent.iterdir()) == before


@pytest.mark.parametrize("to", ["v.db", "./v.db", "sqlite:///FOLDER/v.db", "other/../v.db"])
def test_publishing_to_state_of_job_is_refused_before_release(
    file: Path, place: Workplace, to: str
) -> None:
    """It would be found out only by the job that has another state, after its release."""
    (file.parent / "other").mkdir()
    other = '[jobs.other]\nstate = "w.db"\n'
    to = to.replace("FOLDER", str(file.parent))
    file.write_text(f'{JOB}{other}[publish]\nto = "{to}"\n')
    done = place("run", str(file))
    assert done.code == 2
    assert "is the state of job 'visits', which is secret, and job 'other'" in done.err
    assert not (file.parent / "w.db").exists()


def test_publishing_to_the_state_of_all_jobs_is_possible(file: Path, place: Workplace) -> None:
    other = '[jobs.other]\nstate = "v.db"\noutput = "other.csv"\nchart = "o.svg"\n'
    file.write_text(f'{JOB}{other}[publish]\nto = "v.db"\n'.replace("bad-rows", "#"))
    for new in (3, 0):
        done = place("run", str(file)).fine()
        assert done.out.count(f"published {new} new steps, 3 in all") == 2

"""A note on options of a stream that its job file leaves out after the first run."""

import pytest

from .conftest import Workplace

EVENTS = "time,street\n2024-03-01T09:00,A\n2024-03-02T09:00,C\n"
JOB = """
[jobs.visits]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 365
until = "2024-03-03"
max-empty-windows = 0
series = "per-window"
privacy-unit = "visit"
epsilon = 1
group-by = "street"
groups = ["A", "B"]
other-group = "other"
"""


@pytest.fixture
def job_file(place: Workplace) -> str:
    """Return a job file that has run once."""
    (place.folder / "e.csv").write_text(EVENTS)
    file = place.folder / "nightly.toml"
    file.write_text(JOB)
    assert "leaves out" not in place.plain("run", str(file)).fine().err
    return str(file)


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_left_out_option_of_stream_is_noted(
    place: Workplace, job_file: str, options: tuple[str, ...]
) -> None:
    assert "leaves out" not in place.plain("run", job_file, *options).fine().err
    (place.folder / "nightly.toml").write_text(JOB.replace('other-group = "other"\n', ""))
    done = place.plain("run", job_file, *options).fine()
    assert (
        "job visits: note: the job file leaves out other-group, but the stream keeps it from its "
        "first run. To change it, start another stream, "
        "which spends the privacy loss again"
    ) in done.err.splitlines()


def test_left_out_options_with_defaults_are_noted(place: Workplace, job_file: str) -> None:
    text = JOB.replace('privacy-unit = "visit"\n', "").replace('series = "per-window"\n', "")
    (place.folder / "nightly.toml").write_text(text)
    done = place.plain("run", job_file).fine()
    assert "leaves out privacy-unit and series, but the stream keeps them" in done.err


def test_job_that_only_names_its_stream_is_not_noted(place: Workplace, job_file: str) -> None:
    short = '[jobs.visits]\nstate = "v.db"\nevents = "e.csv"\nuntil = "2024-03-03"\n'
    (place.folder / "nightly.toml").write_text(short)
    assert "leaves out" not in place.plain("run", job_file).fine().err

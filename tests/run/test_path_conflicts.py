"""Jobs of a file that would overwrite each other's files are refused by name."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError
from counton.job.job_file import load
from counton.run.outputs.path_conflicts import JobStates, refuse_publishing_over, refuse_shared
from counton.run.run_job import run

ROWS = "time,page\n2024-03-01T09:00,home\n2024-03-02T10:15,shop\n"
FILE = """
[defaults]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
epsilon = 0.5
until = "2024-03-03"
DEFAULT

[jobs.first]
FIRST

[jobs.second]
SECOND
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text(ROWS)
    (tmp_path / "a.csv").write_text("page\nhome\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "a.csv")
    (tmp_path / "v-too.db").symlink_to(tmp_path / "v.db")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "e.csv").write_text(ROWS)
    return tmp_path


def write(folder: Path, default: str = "", first: str = "", second: str = "") -> Path:
    file = folder / "nightly.toml"
    text = FILE.replace("DEFAULT", default).replace("FIRST", first).replace("SECOND", second)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("default", "first", "second", "words"),
    [
        (
            'output = "a.csv"',
            "",
            "",
            r"'second' writes '.*a.csv' \(output\), .* 'first' writes too",
        ),
        ('bad-rows = "quarantine:b.csv"', "", "", r"'.*b.csv' \(bad-rows\), which job 'first'"),
        ("", 'output = "a.csv"', 'output = "link.csv"', "as '.*a.csv', writes too"),
        ("", 'output = "a.csv"', 'output = "hard.csv"', "as '.*a.csv', writes too"),
        ("", 'output = "a.csv"', 'output = "folder/../A.CSV"', "as '.*a.csv', writes too"),
        (
            "",
            'output = "a.csv"',
            'bad-rows = "quarantine:a.csv"',
            r"\(bad-rows\), which job 'first'",
        ),
        ("", 'chart = "a.png"\nseries = "both"', 'chart = "a.windows.png"', r"\(chart\)"),
        ("", 'output = "a.csv"', 'output = "a.csv.json"', r"\(the description beside its output\)"),
        ("", 'output = "a.csv"', 'events = "a.csv"', r"'second' reads or keeps \(events\)"),
        (
            "",
            'output = "a.csv"',
            'group-by = "page"\ngroups = "a.csv"',
            r"reads or keeps \(groups\)",
        ),
        ("", 'output = "mine.json"', 'strategy = "mine.json"', r"reads or keeps \(strategy\)"),
        ("", 'output = "folder/a.csv"', 'events = "folder"', "read as events by the next run"),
        ("", 'bad-rows = "quarantine:w.csv"', 'state = "w.csv"', r"reads or keeps \(state\)"),
        ("", 'output = "k.csv"', 'key = "k.csv"', r"reads or keeps \(state\)"),
        ('stream = "it"', "", "", "'second' releases stream 'it' of state .* so does job 'first'"),
        ('stream = "it"', "", 'state = "v-too.db"', "'second' releases stream 'it'"),
    ],
)
def test_refuse_shared_names_both_jobs_and_their_path(
    default: str, first: str, second: str, words: str, folder: Path
) -> None:
    jobs = load(write(folder, default, first, second))
    with JobStates(jobs) as states, pytest.raises(InvalidInputError) as caught:
        refuse_shared(states.jobs)
    assert re.search(words, str(caught.value))


def test_refuse_shared_takes_jobs_with_files_of_their_own(folder: Path) -> None:
    file = write(
        folder, "", 'output = "a.csv"\nchart = "a.png"', 'output = "b.csv"\nstate = "w.db"'
    )
    refuse_shared(load(file))
    refuse_shared(load(write(folder, "", 'events = "nowhere.csv"', 'state = "mysql://db"')))


def test_job_states_reads_remembered_options_of_streams(folder: Path) -> None:
    jobs = load(write(folder, "", 'output = "first.csv"'))
    run(jobs["first"])
    jobs = load(write(folder, "", "", 'output = "first.csv"'))
    refuse_shared(jobs)
    with JobStates(jobs) as states:
        assert states.begun == {"first"}
        with pytest.raises(InvalidInputError, match=r"which job 'first' writes too \(output\)"):
            refuse_shared(states.jobs)
        assert states.at(str(folder / "v.db")) is states.at(folder / "v-too.db")
        assert states.at(folder / "other.db") is None


def test_job_states_omits_unreadable_state(folder: Path) -> None:
    (folder / "v.db").write_text("left over, longer than the header of a database" * 9)
    jobs = load(write(folder, "", "", 'state = "mysql://db"'))
    with JobStates(jobs) as states:
        assert (states.jobs, states.begun) == (jobs, set())
    (folder / "v.db").unlink()
    with closing(sqlite3.connect(folder / "v.db")) as other, other:
        other.execute("CREATE TABLE visits (at TEXT)")
    with JobStates(jobs) as states:
        assert states.jobs == jobs


@pytest.mark.parametrize(
    ("first", "second", "to", "words"),
    [
        ("", 'state = "w.db"', "v.db", "is the state of job 'first', which is secret"),
        ('state = "w.db"', "", "w.db", "and job 'second' has another state"),
        ('output = "p.csv"', "", "p.csv", r"which job 'first' uses \(output\)"),
        ("", 'rollback-guard = "guard"', "guard", r"which job 'second' uses \(rollback-guard\)"),
        ('key = "k.key"', "", "k.key", r"which job 'first' uses \(state\)"),
        ("", "", "v.db.key", r"uses \(state\)"),
        ("", "", "v.db", ""),
        ("", "", "p.db", ""),
        ("", "", "postgresql://ann@db/visits", ""),
    ],
)
def test_refuse_publishing_over_names_the_job_that_uses_the_file(
    first: str, second: str, to: str, words: str, folder: Path
) -> None:
    jobs = load(write(folder, "", first, second))
    to = to if "://" in to else str(folder / to)
    if not words:
        refuse_publishing_over(jobs, to)
        return
    with pytest.raises(InvalidInputError) as caught:
        refuse_publishing_over(jobs, to)
    assert re.search(words, str(caught.value))

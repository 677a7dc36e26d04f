"""Options that take a word or a file: a word stays a word, from night to night and in job files."""

import os
from pathlib import Path
from typing import Any

import pytest
from run_results import details_of

from counton.job.job_file import load
from counton.job.messages import choices_of
from counton.job.option_fields import OptionScope, scope_of
from counton.job.saved_job import save
from counton.job.statistics.count import CountJob
from counton.run import Job, run


def write_visits(folder: Path) -> Path:
    """Return a file with a row a day."""
    file = folder / "visits.csv"
    lines = ["time,page", *(f"2024-03-{day:02}T09:00,home" for day in range(1, 5))]
    file.write_text("\n".join(lines) + "\n")
    return file


def first_night(folder: Path, **more: Any) -> Job:
    events = write_visits(folder)
    asked: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 30,
        "until": "2024-03-02", "epsilon": 1, "privacy_unit": "visit",
    }  # fmt: skip
    return Job("count", events, folder / "visits.db", **asked | more)


#: Words that options take in place of a file, or as their usual value.
WORDS = [
    ("bad_rows", "fail"),
    *(
        (name, word)
        for name in CountJob.model_fields
        if name not in ("statistic", "unlisted_groups", "file_format")  # they need other rows
        and scope_of(CountJob, name) is OptionScope.REMEMBERED
        for word in choices_of(CountJob, name)
    ),
]


@pytest.mark.parametrize(("name", "word"), WORDS, ids=str)
def test_later_runs_keep_remembered_option_value(tmp_path: Path, name: str, word: Any) -> None:
    job = first_night(tmp_path, **{name: word})
    run(job).close()
    for day in (3, 4):
        night = Job("count", job.events, job.state, until=f"2024-03-{day:02}")
        with run(night) as outcome:
            assert outcome.after == day - 1


def test_option_values_cover_options_that_may_name_files() -> None:
    assert ("bad_rows", "fail") in WORDS


def test_bad_rows_fail_may_follow_quarantine_and_return(tmp_path: Path) -> None:
    job = first_night(tmp_path, bad_rows="fail")
    run(job).close()
    for day, bad_rows in ((3, f"quarantine:{tmp_path / 'bad.csv'}"), (4, "fail"), (5, None)):
        night = Job("count", job.events, job.state, until=f"2024-03-{day:02}")
        night = night if bad_rows is None else night.derive(bad_rows=bad_rows)
        with run(night) as outcome:
            assert outcome.after == day - 1
            expected = "fail" if bad_rows is None else bad_rows
            assert details_of(outcome)["remembered"]["bad_rows"] == expected


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("bad_rows", "fail", "fail"),
        ("bad_rows", "quarantine:bad.csv", "quarantine:{folder}/bad.csv"),
        ("bad_rows", "quarantine:fail", "quarantine:{folder}/fail"),
        ("output", "visits.csv", "{folder}/visits.csv"),
        ("output", "fail", "{folder}/fail"),
        ("output", "quarantine:visits.csv", "{folder}/quarantine:visits.csv"),
        ("chart", "none", "{folder}/none"),
        ("key", "env:KEY", "env:KEY"),
        ("key", "command:cat key", "command:cat key"),
        ("key", "visits.key", "{folder}/visits.key"),
        ("rollback_guard", "none", "none"),
        ("rollback_guard", "away", "{folder}/away"),
        ("groups", "home,shop", "home,shop"),
        ("groups", "home", "home"),
        ("groups", "a folder", "a folder"),
        ("groups", "pages.txt", "{folder}/pages.txt"),
        ("groups", "missing.csv", "{folder}/missing.csv"),
        ("groups", "a," * 3000 + "b", "a," * 3000 + "b"),
        ("strategy", "kary", "kary"),
        ("strategy", "mine.json", "{folder}/mine.json"),
        ("state", "visits.db", "{folder}/visits.db"),
        ("state", "postgresql://db/visits", "postgresql://db/visits"),
    ],
)
def test_value_is_path_only_in_options_that_name_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, kept: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "pages.txt").write_text("home\nshop\n")
    expected = kept.format(folder=tmp_path)
    stated: dict[str, Any] = {"state": "v.db", name: value}
    job = Job("count", "v.csv", **stated)
    (tmp_path / "jobs").mkdir()
    save(job, tmp_path / "jobs" / "job.toml")
    (read,) = load(tmp_path / "jobs" / "job.toml").values()
    assert (
        os.path.abspath(read.value_of(name).rpartition(":")[2])
        == os.path.abspath(expected.rpartition(":")[2])
        or read.value_of(name) == expected
    )


def test_job_file_reads_words_and_files_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the name of a group is no list of groups, and a missing list is no group."""
    jobs = tmp_path / "jobs"
    elsewhere = tmp_path / "elsewhere"
    for folder in (jobs, elsewhere):
        folder.mkdir()
    (jobs / "home").mkdir()
    (elsewhere / "pages.txt").write_text("another list\n")
    monkeypatch.chdir(elsewhere)
    text = '[jobs.visits]\nevents = "v.csv"\nstate = "v.db"\nbad-rows = "fail"\n'
    for domain, expected in (
        ("home", "home"),
        ("home,shop", "home,shop"),
        ("pages.txt", str(jobs / "pages.txt")),
    ):
        (jobs / "nightly.toml").write_text(f'{text}groups = "{domain}"\n')
        job = load(jobs / "nightly.toml")["visits"]
        assert job.value_of("groups") == expected
        assert job.bad_rows == "fail"
        save(job, jobs / "saved.toml", replaces_file=True)
        assert load(jobs / "saved.toml")["visits"].value_of("groups") == expected

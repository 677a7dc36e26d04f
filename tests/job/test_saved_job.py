"""A job that is written into a job file is the same job when it is read again."""

import stat
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.job.common_options import Job
from counton.job.job_file import load
from counton.job.messages import parse_options
from counton.job.saved_job import HEADING, date_of_one_run, job_entries, save
from counton.job.statistics import model_of
from counton.job.statistics.count import CountJob
from counton.noise import Key
from counton.strategies import Factorisation

OTHER_JOBS = """# ours
[defaults]
epsilon = 0.5

[jobs.visits]  # each day
events = "e.csv"
state = "v.db"
"""


def job_of(statistic: str, folder: Path, **options: Any) -> Job:
    """Return a job over files of a folder."""
    files = {"events": folder / "e.csv", "state": folder / "v.db"}
    job: Job = parse_options(model_of(statistic), {**files, **options})
    return job


EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("count", {"time": "at", "every": "1h", "windows": 9, "start": "2024-03-01", "epsilon": "0.1"}),
    (
        "count",
        {
            "group_by": "a,b",
            "groups": {"a": ["x"], "b": ["y", "z"]},
            "allow_empty_windows": True,
            "max_empty_windows": 0,
        },
    ),
    (
        "count",
        {
            "group_by": "a",
            "groups": ["x", 3],
            "other_group": "rest",
            "distinct_users": True,
            "user": "who",
        },
    ),
    (
        "sum",
        {
            "value": "paid",
            "lower": "-1/3",
            "upper": 9,
            "resolution": "1e-6",
            "margin_of_error": "2%",
        },
    ),
    (
        "top-k",
        {"group_by": "a", "unlisted_groups": "discover", "delta": "1e-6", "top": 3, "room": 10},
    ),
    ("hierarchy", {"levels": "a,b", "groups": {"a": ["x"], "b": ["y"]}, "target": "a=1,b=2"}),
    ("quantiles", {"value": "paid", "edges": "0,0.5,9", "shares": [0.25, 0.5]}),
    (
        "moments",
        {"columns": ["a", "b"], "bounds": ["0:9", "0:20"], "width": 4.5, "confidence_level": 0.9},
    ),
    (
        "report",
        {
            "statistics": {"rows": {"group_by": "a", "groups": ["x"]}},
            "group_by": "a",
            "groups": "x",
        },
    ),
    ("count", {"events": ["a.csv", "b.csv"], "append": True, "time_format": "%d.%m.%Y"}),
    ("count", {"bad_rows": "quarantine:bad.csv", "max_bad_rows": 7, "strategy": "mine.json"}),
    (
        "count",
        {"key": "env:KEY", "rollback_guard": "none", "until": "latest-event", "query": "select 1"},
    ),
    ("count", {"state": "postgresql://ann@db/visits", "events": "sqlite:///a.db"}),
]


@pytest.mark.parametrize(("statistic", "options"), EXAMPLES, ids=lambda value: str(value)[:40])
def test_saved_job_is_read_back_unchanged(
    statistic: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = job_of(statistic, tmp_path, stream="it", **options)
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "jobs" / "nightly.toml"
    save(job, file)
    again = load(file)["it"]
    assert job_entries(again, tmp_path) == job_entries(job, tmp_path)
    text = file.read_text()
    save(again, file)
    assert file.read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_saved_job_is_named_like_stream_of_command(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    save(job_of("sum", tmp_path, value="paid", lower=0, upper=9, resolution=1), file)
    save(job_of("count", tmp_path), file)
    assert list(load(file)) == ["sum_of_paid", "count"]


def test_save_keeps_other_jobs_comments_and_permissions(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text(OTHER_JOBS)
    file.chmod(0o640)
    save(job_of("count", tmp_path, stream="more", epsilon=1), file)
    assert file.read_text().startswith(OTHER_JOBS)
    assert list(load(file)) == ["visits", "more"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    save(job_of("count", tmp_path, stream="visits", epsilon=2), file)
    assert load(file)["visits"].epsilon == 2


def test_save_refuses_defaults_that_would_change_the_job(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text(OTHER_JOBS.replace("epsilon", 'until = "2024-03-01"\nlevels = "a"\nepsilon'))
    with pytest.raises(InvalidInputError, match=r"does not state \(until, epsilon\)"):
        save(job_of("count", tmp_path), file)
    with pytest.raises(
        InvalidInputError, match=r"does not state \(until\)"
    ):  # a date is of one run
        save(job_of("count", tmp_path, epsilon=1, until="2024-03-03"), file)
    assert list(load(file)) == ["visits"]


def test_save_leaves_out_the_date_of_one_run(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    job = job_of("count", tmp_path, until=date(2024, 3, 4))
    assert date_of_one_run(job) == "2024-03-04"
    save(job, file)
    assert load(file)["count"].until is None
    for until in ("now", "latest-event", None):
        assert date_of_one_run(CountJob(until=until)) is None


def test_save_writes_comments_and_empty_keys_first(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text("left over")
    comments = {HEADING: "Two\nlines.", "user": "whom to protect", "state": "secret"}
    save(
        job_of("count", tmp_path),
        file,
        comments,
        replaces_file=True,
        empty=["user", "max-contributions"],
    )
    assert file.read_text().splitlines() == [
        "# Two",
        "# lines.",
        "",
        "[jobs.count]",
        "# whom to protect",
        'user = ""',
        'max-contributions = ""',
        'statistic = "count"',
        'events = "e.csv"',
        "# secret",
        'state = "v.db"',
    ]
    with pytest.raises(InvalidInputError, match="these keys are empty: user, max-contributions"):
        load(file)


def test_save_writes_no_password(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    address = "postgresql://ann:secret@db/visits?sslpassword=secret&sslmode=require"
    save(job_of("count", tmp_path, state=address, events=address), file)
    assert "secret" not in file.read_text()
    assert load(file)["count"].state == "postgresql://ann@db/visits?sslmode=require"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("events", pl.DataFrame({"at": ["2024-03-01"]})),
        ("key", Key.generate()),
        ("strategy", Factorisation([[1.0, 0.0], [0.5, 1.0]])),
        ("groups", pl.Series(["home"])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_save_refuses_an_object_in_memory(option: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        save(
            job_of("count", tmp_path, group_by="page", **{option: value}), tmp_path / "nightly.toml"
        )
    assert caught.value.fields == (option,)
    assert not (tmp_path / "nightly.toml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("left over", "not valid TOML"),
        (".".join(["a"] * 50_000) + " = 1", "nested too deep"),
        ("a = 1\na = 2", "not valid TOML"),
    ],
    ids=["words", "deep", "twice"],
)
def test_save_refuses_a_file_that_is_no_job_file(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        save(job_of("count", tmp_path), file)
    assert file.read_text() == text
    with pytest.raises(InvalidInputError, match="cannot be read"):
        save(job_of("count", tmp_path), tmp_path)

"""What holds for every option of a job: its default, its file, and its stream."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from otherwise import OTHERWISE

from counton.base.errors import CountonError
from counton.cli.statistic_commands import statistic_command
from counton.job.job_file import load
from counton.job.option_fields import OptionScope, names_in_scope
from counton.job.saved_job import job_entries, save
from counton.job.statistics.count import CountJob
from counton.run import Job, run
from counton.run.spec import changed_options

FIELDS = {name: item for name, item in CountJob.model_fields.items() if name != "statistic"}
#: Where a later run cannot come with the value of `OTHERWISE`.
VALUES: dict[str, Any] = {
    **{name: value for name, value in OTHERWISE.items() if value is not None},
    **dict.fromkeys(("append", "allow_empty_windows"), True),
    "events": "others.csv",
    "stream": "other",
    "query": "select 1",
    "state": "others.db",
    "timezone": "Europe/Berlin",
    "until": "latest-event",
    "lookback": "7d",
    "count_column": "number",
}
#: Options whose values are paths of files.
FILES = (
    "events",
    "state",
    "output",
    "chart",
    "rollback_guard",
    "key",
    "bad_rows",
    "groups",
    "strategy",
)
STREAM: dict[str, Any] = {
    "time": "time", "every": "1h", "start": "2013-10-27", "windows": 3, "group_by": "place",
    "groups": "home,shop", "epsilon": 1, "until": "latest-event",
}  # fmt: skip
HERE = Path()


def with_option(name: str, value: Any, **stated: Any) -> Job:
    return Job(**{"what": "count", "events": "e.csv", "state": "s.db", **stated, name: value})


def test_every_option_has_another_value() -> None:
    missing = {*FIELDS} - {*VALUES}
    assert not missing, f"give {sorted(missing)} a value in tests/support/otherwise.py"


@pytest.mark.parametrize("name", FIELDS)
def test_option_with_its_default_is_left_out(name: str) -> None:
    default = FIELDS[name].default
    assert not with_option(name, default).has_stated(name)
    entries = job_entries(with_option(name, default), HERE)
    assert entries == job_entries(with_option(name, None), HERE)


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    if name in FILES and name not in ("groups", "strategy"):
        before, colon, file = str(value).rpartition(":")
        value = f"{before}{colon}{tmp_path / file}"
    files = {"events": str(tmp_path / "e.csv"), "state": str(tmp_path / "s.db")}
    job = with_option(name, value, **files)
    entries = job_entries(job, tmp_path)
    assert FIELDS[name].alias in entries or name == "stream"
    assert json.loads(json.dumps(entries)) == entries
    save(job, tmp_path / "jobs.toml")
    (read,) = load(tmp_path / "jobs.toml").values()
    assert job_entries(read, tmp_path) == entries


@pytest.mark.parametrize("name", FILES)
def test_file_is_one_beside_the_job_file(name: str, tmp_path: Path) -> None:
    key = FIELDS[name].alias
    file = "strategy.json" if name == "strategy" else "f"  # a strategy is a file by its ending
    (tmp_path / file).write_text("")
    start = "quarantine:" if name == "bad_rows" else ""
    told = {"events": "e", "state": "s.db", key: f"{start}{file}"}
    text = "".join(f'{one} = "{value}"\n' for one, value in told.items())
    (tmp_path / "jobs.toml").write_text(f"[jobs.one]\n{text}")
    (read,) = load(tmp_path / "jobs.toml").values()
    assert str(read.value_of(name)) == f"{start}{tmp_path / file}"


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("laws")
    rows = pl.DataFrame({"time": ["2013-10-27T00:30", "2013-10-27T02:10"], "place": ["home"] * 2})
    rows.write_csv(folder / "e.csv")
    run(Job("count", folder / "e.csv", folder / "s.db", **STREAM)).close()
    return Job("count", folder / "e.csv", folder / "s.db", stream="count", until="latest-event")


def is_refused(stream: Job, name: str) -> bool:
    """Whether a later run that says something else is refused, and the stream stays as it was."""
    try:
        run(stream.derive(**{name: VALUES[name]})).close()
    except CountonError:
        return True
    return False


#: Options that define a stream; a choice at clock changes may come later.
DEFINING = [name for name in names_in_scope(CountJob, OptionScope.STREAM) if name != "ambiguous"]


@pytest.mark.parametrize("name", DEFINING)
def test_later_run_may_omit_but_not_contradict_stream_options(name: str, stream: Job) -> None:
    with run(stream) as outcome:
        assert outcome.after == outcome.before == 2
    assert is_refused(stream, name)
    if name in STREAM:
        run(stream.derive(**{name: STREAM[name]})).close()


def test_check_detects_option_that_is_not_compared(
    stream: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = changed_options.differences

    def without_release(*of: Any) -> list[changed_options.Difference]:
        return [one for one in right(*of) if one.option != "series"]

    monkeypatch.setattr(changed_options, "differences", without_release)
    assert is_refused(stream, "simple")
    assert not is_refused(stream, "series")


def test_every_command_option_is_a_field_with_one_help_text() -> None:
    shown = {one.name: one.help for one in statistic_command("count").params}
    beside = {"help", "h", "json", "save_job", "plan", "full", "all_options"}
    assert {*shown} - beside <= {*FIELDS}
    texts = [item.description for item in FIELDS.values() if item.description is not None]
    assert len({*texts}) == len(texts)

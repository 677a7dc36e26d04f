"""An option of a command is one of every other door: plans, job files, nightly runs, services."""

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from every_option import every, own_of, stated_by, words_of

from counton.base.errors import CountonError
from counton.cli.command_text import CommandActions, command_of
from counton.cli.run_command import run as run_command
from counton.cli.statistic_commands import statistic_command
from counton.job.common_options import Job
from counton.job.job_file import load
from counton.job.option_fields import ALL_JOBS, RUN_ONLY, has_mark
from counton.job.saved_job import save
from counton.job.statistics import model_of
from counton.run.plan_job import planned_job
from counton.serve.served_jobs import prepare_jobs

from .conftest import Workplace


def whole_command(name: str, said: dict[str, Any], folder: Path) -> str:
    """A command of a new stream, as it is typed."""
    words = [*command_of(name).split()[1:], "e.csv", "--state", str(folder / "s.db")]
    return shlex.join([*words, *words_of(name, stated_by(name, said), folder)])


def parsed(command: str) -> Job | None:
    """Parse a command as the command line does."""
    parts = shlex.split(command)
    found = list[Job]()
    _, name, *words = parts

    def keep(job: Job, _: CommandActions) -> None:
        found.append(job)

    try:
        statistic_command(name, keep).main(words, prog_name=name, standalone_mode=False)
    except (click.UsageError, SystemExit):  # the latter if the job itself refuses
        return None
    (job,) = found
    return job


def is_planned(job: Job) -> bool:
    try:
        planned_job(job)
    except CountonError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own", "said"), every(1), ids=str)
def test_job_files_and_plans_accept_options_of_commands(
    name: str, own: bool, said: dict[str, Any], place: Workplace
) -> None:
    command = whole_command(name, said, place.folder)
    job = parsed(command)
    if job is None:  # the command does not take it either
        assert place.plain(*shlex.split(command)).code != 0
        return
    begins = is_planned(job)
    assert begins or not own
    file = place.folder / "nightly.toml"
    of_service = place.folder / "service.toml"
    save(job, file)
    (kept,) = load(file).values()
    assert {one: kept.value_of(one) for one in own_of(name)} == {
        one: job.value_of(one) for one in own_of(name)
    }
    assert (place.plain("plan", str(file)).code == 0) == begins
    lines = [one for one in file.read_text().splitlines() if not one.startswith("events")]
    of_service.write_text("\n".join(lines))
    fields = model_of(name).model_fields
    served = not any(has_mark(fields[one], RUN_ONLY) for one in said if one in fields)
    done = place.plain("plan", str(of_service))
    assert (done.code == 0) == (begins and served), done.err
    found, failed = prepare_jobs(of_service)
    assert bool(found) == (begins and served), failed
    done = place.plain(*shlex.split(command), "--plan")
    assert (done.code == 0) == begins, done.err


def test_options_of_run_command_are_those_for_all_jobs() -> None:
    nightly = {name for name, field in Job.model_fields.items() if has_mark(field, ALL_JOBS)}
    assert nightly == {"until", "allow_empty_windows"}
    names = {parameter.name for parameter in run_command.params}
    assert names == {*nightly, "file", "only", "dry_run", "schema", "as_json"}


def test_run_of_job_file_allows_empty_windows(place: Workplace) -> None:
    rows = ["00:10,a", "00:20,b"]
    file = place.folder / "nightly.toml"
    begun = [place.write("e.csv", rows), *place.new(windows="20"), "--until", "2013-01-01T01:00"]
    assert place.plain("release", "count", *begun).code == 0
    file.write_text('[jobs.count]\nevents = "e.csv"\nstate = "state.db"\n')
    quiet = ("run", str(file), "--until", "2013-01-01T16:00")
    said = place.plain(*quiet).refused()
    assert "would release 15 windows, but the newest readable row is of " in said
    assert 'until = "latest-event"' in said
    assert "or a larger max-empty-windows of the job file" in said
    assert "max-empty-windows = 2" not in said  # a job file would keep when the newest event was
    done = place.plain(*quiet, "--allow-empty-windows", "--json").fine()
    assert json.loads(done.out)["jobs"]["count"]["released"] == 16


def test_a_file_of_a_service_is_planned(place: Workplace) -> None:
    file = place.folder / "service.toml"
    lines = (*(f'{key} = "{value}"' for key, value in (("state", "s.db"), ("time", "time"))),
             'every = "1h"', 'start = "2013-01-01"', "windows = 6", "epsilon = 1",
             "allow-empty-windows = true",
             "append = true")  # fmt: skip
    file.write_text("\n".join(["[jobs.visits]", *lines, "[serve]", "public = true"]))
    place.plain("plan", str(file)).fine()
    found, failed = prepare_jobs(file)
    assert (list(found), failed) == (["visits"], {})
    file.write_text("\n".join(["[jobs.visits]", *lines, 'chart = "a.png"']))
    assert "a.png cannot be used in a service, because" in place.plain("plan", str(file)).err
    assert "the key 'events' is missing" in place.plain("run", str(file)).err

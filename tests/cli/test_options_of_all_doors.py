"""An option of a command is one of every other door: plans, job files, nightly runs, services."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from every_option import every, own_of, stated_by, words_of

from counton.base.errors import CountonError, InvalidInput
from counton.cli.run_options import RunOptions
from counton.cli.statistic_command import parse_words
from counton.job.job import Job, options_of
from counton.job.jobfile import load, save
from counton.run.job_plan import planned_job
from counton.serve.served_jobs import prepare
from counton.statistics.catalogue import statistic_named

from .conftest import Workplace


def in_order(job: Job) -> bool:
    """Whether rows count in their order, so that no service takes them."""
    return job.what in (
        "substrings", "episodes", "cuts", "edges", "triangles", "stars", "degrees", "forest",
    ) or any(job.option(one) for one in ("window", "changes", "number"))  # fmt: skip


def whole_command(name: str, said: dict[str, Any], folder: Path) -> str:
    """A command of a new stream, as it is typed."""
    alone = statistic_named(name).additive
    words = [*([] if alone else ["statistic"]), name, "e.csv", "--state", str(folder / "s.db")]
    return shlex.join([*words, *words_of(name, stated_by(name, said), folder)])


def parsed(command: str) -> Job | None:
    try:
        return parse_words("of", command)[1]
    except (InvalidInput, SystemExit):  # the latter if the job itself refuses
        return None


def is_planned(job: Job) -> bool:
    try:
        planned_job(job)
    except CountonError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own", "said"), every(1), ids=str)
def test_every_door_takes_what_the_command_takes(
    name: str, own: bool, said: dict[str, Any], place: Workplace
) -> None:
    command = whole_command(name, said, place.folder)
    job = parsed(command)
    if job is None:  # the command does not take it either, or no plan of a statistic knows it
        taken = place.plain(*shlex.split(command)).code == 0
        assert not taken or {"expire", "unknown"} & {*said}
        return
    begins = is_planned(job)
    assert begins or not own
    file, of_service = place.folder / "nightly.toml", place.folder / "service.toml"
    save(job, file)
    (kept,) = load(file).values()
    assert {one: kept.option(one) for one in own_of(name)} == {
        one: job.option(one) for one in own_of(name)
    }
    assert (place.plain("plan", str(file)).code == 0) == begins
    lines = [one for one in file.read_text().splitlines() if not one.startswith("events")]
    of_service.write_text("\n".join(lines))
    served = all(options_of(Job)[one].served for one in said if one in options_of(Job))
    done = place.plain("plan", str(of_service))
    assert (done.code == 0) == (begins and served), done.err
    found, failed = prepare(of_service)
    assert bool(found) == (begins and served and not in_order(job)), failed
    if begins and not {"expire", "unknown", "revise"} & {*said}:
        done = place.plain("plan", "--of", command)
        assert done.code == 0, done.err


def test_a_nightly_run_says_all_that_is_said_of_one_night() -> None:
    nightly = {name for name, said in options_of(Job).items() if said.nightly}
    assert nightly == {"until", "yes"}
    assert {*options_of(RunOptions)} == {*nightly, "file", "only", "dry_run", "schema", "json"}


def test_a_nightly_run_releases_quiet_windows(place: Workplace) -> None:
    rows, file = ["00:10,a", "00:20,b"], place.folder / "nightly.toml"
    begun = [place.write("e.csv", rows), *place.new(steps="20"), "--until", "2013-01-01T01:00"]
    assert place.plain("count", *begun).code == 0
    file.write_text('[jobs.count]\nevents = "e.csv"\nstate = "state.db"\n')
    quiet = ("run", str(file), "--until", "2013-01-01T16:00")
    refused = place.plain(*quiet)
    assert refused.code == 2
    assert "would release 15 windows, but the newest event is of " in refused.err
    assert "the number of windows since the newest event that is normal" in refused.err
    assert "quiet = 3" not in refused.err  # a job file would keep when the newest event was
    done = place.plain(*quiet, "--yes", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["jobs"]["count"]["released"] == 16


def test_words_of_a_plan_say_what_its_own_options_say(place: Workplace) -> None:
    def planned(*words: str) -> Any:
        done = place.plain("plan", *words, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    stated = ("--steps", "30", "--epsilon", "1", "--release", "windows")
    simple, users = "--simple", ("--most", "20")
    of = f"count --user who --unit user {shlex.join(users)}"
    whole = f"count e.csv --state s.db --user who {shlex.join((*users, *stated))} --by g --domain a"
    mine = planned(*stated, *users, simple)
    words, typed = planned("--of", of, *stated, simple), planned("--of", whole, simple)
    for one in (words, typed):
        assert one["contribution"] == mine["contribution"]
        assert one["choices"][0]["mean_std"] == mine["choices"][0]["mean_std"]
    assert (typed["steps"], typed["release"]) == (30, "windows")
    for words_of_it, said in (
        ("count --steps 9", "--steps 30 is stated twice: --of count --steps 9 says 9"),
        ("count --most 3", "--most 3 needs --user"),
        ("count --expire", "because its protection fades"),
        ("count --by g --unknown discover", "because only some of its groups are shown"),
    ):
        done = place.plain("plan", "--of", words_of_it, *stated)
        assert (done.code, said in done.err) == (2, True), done.err


def test_a_file_of_a_service_is_planned(place: Workplace) -> None:
    file = place.folder / "service.toml"
    lines = (*(f'{key} = "{value}"' for key, value in (("state", "s.db"), ("time", "time"))),
             'every = "1h"', 'start = "2013-01-01"', "steps = 6", "epsilon = 1", "yes = true",
             "append = true")  # fmt: skip
    file.write_text("\n".join(["[jobs.visits]", *lines, "[serve]", "public = true"]))
    done = place.plain("plan", str(file))
    assert done.code == 0, done.err
    found, failed = prepare(file)
    assert (list(found), failed) == (["visits"], {})
    file.write_text("\n".join(["[jobs.visits]", *lines, 'plot = "a.png"']))
    assert "a.png is for runs over files" in place.plain("plan", str(file)).err
    assert "lacks the key 'events'" in place.plain("run", str(file)).err

"""Job files: what they may hold, what is refused, and that they are one more door to one run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.errors import InvalidInput
from counton.jobs import Job, run
from counton.jobs.jobfile import load, said, save, schema

ROWS = "time,page,paid\n2024-03-01T09:00,home,3\n2024-03-02T10:15,shop,5\n"
FILE = """
[defaults]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
from = 2024-03-01
steps = 30
until = "2024-03-04"
epsilon = 0.5

[jobs.visits]
by = "page"
domain = ["home", "shop"]
out = "visits.csv"

[jobs.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 9
resolution = "0.5"
unit = "event"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text(ROWS)
    path = tmp_path / "nightly.toml"
    path.write_text(FILE)
    return path


def test_jobs_of_a_file_are_those_of_python(file: Path, tmp_path: Path) -> None:
    jobs = load(file)
    assert list(jobs) == ["visits", "paid"]
    visits = jobs["visits"]
    assert (visits.what, visits.epsilon, visits.start) == ("count", "0.5", "2024-03-01")
    assert visits.events == str(tmp_path / "e.csv")
    assert visits.domain == ["home", "shop"]
    with run(visits) as outcome:
        mine = outcome.released().table()
    same = Job(
        "count",
        tmp_path / "e.csv",
        tmp_path / "v.db",
        time="time",
        by="page",
        name="visits",
        until="newest",
    )
    with run(same) as outcome:  # goes on with the same stream
        assert outcome.released().table().equals(mine)
    with run(jobs["paid"]) as outcome:
        assert outcome.shown().table().height


def test_the_command_runs_all_and_reports_each(file: Path, place: Any) -> None:
    done = place("run", str(file), "--json")
    assert done.code == 0, done.err
    reports = json.loads(done.out)["jobs"]
    assert [reports[name]["released"] for name in ("visits", "paid")] == [3, 3]
    written = pl.read_csv(file.parent / "visits.csv")
    last = written.filter(pl.col("step") == 3)["estimate"].to_list()
    assert last == [row["estimate"] for row in reports["visits"]["last"]["groups"]]
    file.write_text(FILE.replace('"home", "shop"', '"home"') + '\n[jobs.more]\nname = "more"\n')
    done = place("run", str(file), "--json")
    assert done.code == 3
    reports = json.loads(done.out)["jobs"]
    assert "domain" in reports["visits"]["error"]
    assert (reports["paid"]["new"], reports["more"]["new"]) == (0, 3)  # the others were run


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("[jobs.visits]", "[job.visits]"), "takes"),
        (('time = "time"', 'tiem = "time"'), "did you mean 'time'"),
        (("steps = 30", 'steps = "30"'), "must be a whole number"),
        (("steps = 30", "steps = true"), "must be a whole number"),
        (('statistic = "average"', 'statistic = "mean"'), "use one of count, sum"),
        (('by = "page"', 'lower = 3\nby = "page"'), "belongs to another statistic"),
        (("epsilon = 0.5", "epsilon = ["), "no TOML"),
        (('events = "e.csv"', ""), "says no 'events'"),
    ],
)
def test_what_is_wrong_is_named(changed: tuple[str, str], words: str, file: Path) -> None:
    file.write_text(FILE.replace(*changed))
    with pytest.raises(InvalidInput, match=words):
        load(file)


def test_a_job_that_is_saved_is_read_again(file: Path, tmp_path: Path) -> None:
    job = Job(
        "sum", tmp_path / "e.csv", tmp_path / "v.db", time="time", every="1d", start="2024-03-01",
        value="paid", lower="0", upper="9", resolution="0.5", steps=30, epsilon="0.25",
        name="takings", sums="1w", out=tmp_path / "t.csv", key="env:KEY", level=0.9,
    )  # fmt: skip
    file.write_text("# ours\n" + FILE)
    with pytest.raises(InvalidInput, match="defaults which the job does not state"):
        save(job, file)
    job = replace(job, until="2024-03-03")
    save(job, file)
    assert file.read_text().startswith("# ours\n")
    found = load(file)
    assert list(found) == ["visits", "paid", "takings"]
    again = found["takings"]
    assert again.out == str(tmp_path / "t.csv")
    assert again.level == 0.9
    assert said(again, tmp_path) == said(job, tmp_path)
    save(again, file)
    assert load(file)["takings"] == again
    with pytest.raises(InvalidInput, match="frame"):
        save(Job("count", pl.DataFrame(), "v.db"), file)


def test_the_schema_says_what_commands_say(place: Any) -> None:
    found = schema()["$defs"]["job"]["properties"]
    assert found["from"]["description"] == "beginning of the first window"
    assert found["bad-rows-most"] == {
        "type": "integer",
        "description": "with quarantine: so many rows may be set aside",
        "default": 1000,
    }
    assert json.loads(place("run", "--schema").out) == schema()
    assert "name one" in place("run").err or "no job file" in place("run").err


def test_a_command_saves_what_it_was_told(file: Path, place: Any) -> None:
    words = ["count", str(file.parent / "e.csv"), "--state", str(place.state), "--time", "time"]
    words += ["--every", "1d", "--from", "2024-03-01", "--steps", "9", "--epsilon", "1"]
    words += ["--until", "2024-03-03", "--save", str(file.parent / "new.toml")]
    done = place(*words)
    assert done.code == 0, done.err
    (job,) = load(file.parent / "new.toml").values()
    assert (job.name, job.steps, job.epsilon) == ("events", 9, "1")
    done = place("run", str(file.parent / "new.toml"))
    assert (done.code, "Nothing new" in done.out) == (0, True)

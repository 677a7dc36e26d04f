"""Alarms of jobs: said after a run, with an exit code, in JSON, and sent to a webhook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from receivers import Receiver, receiving

from counton.base.errors import InvalidInput
from counton.job.jobfile import alarms_in, load, schema
from counton.run.job_alarms import planned_alarms
from counton.run.new_stream import define
from counton.serve.served_jobs import prepare
from tests.cli.conftest import Workplace

DAYS = np.arange("2024-01-01", "2024-03-25", dtype="datetime64[D]")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def _job(place: Workplace, last: int, days: int = len(DAYS), **alarm: Any) -> str:
    """A job file over forty visits a day, and ``last`` on the last day."""
    rows = [str(day) for day in DAYS[: days - 1] for _ in range(40)]
    rows += [str(DAYS[days - 1])] * last
    (place.folder / "visits.csv").write_text("\n".join(["time", *rows]) + "\n")
    told = "\n".join(f"{name} = {json.dumps(value)}" for name, value in alarm.items())
    (place.folder / "nightly.toml").write_text(
        "[jobs.visits]\n"
        'events = "visits.csv"\nstate = "v.db"\ntime = "time"\nevery = "1d"\n'
        f'start = "2024-01-01"\nsteps = 366\nuntil = "{DAYS[days - 1] + 1}"\nepsilon = 4\n'
        f'release = "windows"\n[jobs.visits.alarm]\n{told}\n'
    )
    return str(place.folder / "nightly.toml")


def test_an_alarm_is_said_sent_and_is_an_exit_code(place: Workplace, receiver: Receiver) -> None:
    file = _job(place, 400, webhook=f"http://127.0.0.1:{receiver.server_port}/", false_alarms=0.5)
    done = place.plain("run", file)
    assert done.code == 10, done.err
    assert "ALARM in the newest window (increase in the total)" in done.out
    (sent,) = receiver.taken
    assert (sent["name"], sent["alarm"], sent["false_alarms_a_year"]) == ("visits", True, 0.5)
    said = json.loads(place.plain("run", file, "--json").out)
    assert said["jobs"]["visits"]["alarm"]["alarms"][-1]["change"] == "increase"


def test_no_alarm_and_too_few_windows_are_said(place: Workplace) -> None:
    done = place.plain("run", _job(place, 40, days=12))
    assert (done.code, "alarms: too few windows to learn from yet" in done.out) == (0, True)
    done = place.plain("run", _job(place, 40, false_alarms=0.01))
    assert (done.code, "no alarm" in done.out) == (0, True)


def test_a_webhook_that_is_away_stops_nothing(place: Workplace) -> None:
    done = place.plain("run", _job(place, 400, webhook="http://127.0.0.1:9/"))
    assert done.code == 10
    assert "the webhook did not take the alarm" in done.out


def test_a_plan_of_a_short_stream_says_that_a_change_may_bring_no_alarm(place: Workplace) -> None:
    """Seven weekdays and a baseline are learnt from 21 windows, half of 40 are fewer."""
    for steps, delays in ((21, False), (40, True)):
        file = Path(_job(place, 40, change=30))
        file.write_text(file.read_text().replace("steps = 366", f"steps = {steps}"))
        done = place.plain("plan", str(file), "--json")
        assert done.code == 0, done.err
        found = json.loads(done.out)["alarms"]["visits"]
        assert all((one["delay"] is not None) == delays for one in found)
    file.write_text(file.read_text().replace("change = 30", 'over = "60d"'))
    assert json.loads(place.plain("plan", str(file), "--json").out)["alarms"] == {"visits": []}


@pytest.mark.parametrize(
    ("alarm", "said"),
    [
        ({"often": 3}, "has the unknown key 'often'"),
        ({"false_alarms": "many"}, "it must be a whole number or a number"),
        ({"webhook": "ftp://x"}, "give the address of a service that takes JSON"),
    ],
)
def test_wrong_terms_are_named(place: Workplace, alarm: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        load(_job(place, 40, **alarm))


@pytest.mark.parametrize(
    ("more", "alarm", "said"),
    [
        (
            'by = "page"\ndomain = "pages.csv"\ntiers = "loss"\n',
            {},
            "alarms look at groups whose noise is of one size, and 'visits' has groups with an "
            "epsilon or rho of their own; use the table; or take the job's 'alarm' out of the file",
        ),
        (
            'by = "page"\nunknown = "discover"\ndelta = 1e-6\n',
            {},
            "alarms have their rate for groups chosen beforehand, and undeclared groups",
        ),
        (
            'by = "page"\ndomain = "home,shop"\n',
            {"groups": "home,cart"},
            "groups=cart is not a group of 'visits'; choose from home, shop; or take",
        ),
        ("", {"false_alarms": 400}, "false alarms in one window; give a number from 1e-05 to"),
    ],
)
def test_a_job_that_can_have_no_alarm_is_refused_before_it_releases(
    place: Workplace, more: str, alarm: dict[str, Any], said: str
) -> None:
    file = Path(_job(place, 40, **alarm))
    (place.folder / "pages.csv").write_text("page,loss\nhome,4\nshop,2\n")
    rows = (place.folder / "visits.csv").read_text().split()[1:30]
    (place.folder / "visits.csv").write_text("time,page\n" + ",home\n".join([*rows, ""]))
    told = file.read_text().replace("[jobs.visits.alarm]", f"{more}[jobs.visits.alarm]")
    file.write_text(told.replace('release = "windows"\n', ""))
    for command in (["plan"], ["run", "--dry-run"], ["run"]):
        done = place.plain(*command, str(file))
        assert done.code == 2, done.err
        assert said in " ".join(done.err.split()), done.err
        message = json.loads(place.plain(*command, str(file), "--json").out)
        assert said in json.dumps(message)
    job = load(file)["visits"]
    with pytest.raises(InvalidInput, match=re.escape(said)):
        planned_alarms(job, alarms_in(file)["visits"], define(job), 366)
    file.write_text(file.read_text().replace('events = "visits.csv"\n', "").replace("until", "#"))
    assert said in str(prepare(file)[1]["visits"])
    assert not (place.folder / "v.db").exists()


def test_terms_are_no_option_of_a_job(place: Workplace) -> None:
    file = _job(place, 40, over="7d", trend=True)
    assert alarms_in(file)["visits"][:4] == (1.0, "7d", None, True)
    assert "visits" in load(file)
    assert "alarm" in schema()["$defs"]["job"]["properties"]


def test_a_plan_says_which_series_is_better_and_how_soon_a_change_is_an_alarm(
    place: Workplace,
) -> None:
    """Less noise over one day with windows, over half a year with totals; no row is read."""
    for over, better in (("1d", "windows"), ("180d", "totals")):
        file = Path(_job(place, 40, over=over, change=30))
        file.write_text(file.read_text().replace("epsilon = 4", "epsilon = 0.5"))
        said = json.loads(place.plain("plan", str(file), "--json").out)["alarms"]["visits"]
        assert said[0]["release"] == better
        assert said[0]["std"] < said[1]["std"]
    said = json.loads(place.plain("plan", _job(place, 40, change=30), "--json").out)
    delays = {one["release"]: one["delay"] for one in said["alarms"]["visits"]}
    assert 1 <= delays["windows"] < 2  # thirty rows are twenty deviations of the noise
    done = place.plain("plan", _job(place, 40, over="7d", change=30), "--size", "14640")
    words = " ".join(done.out.split())
    assert "alarms of visits: the noise of 7 windows together has the standard deviation" in words
    assert "With windows: A lasting change of 30 in each window brings an alarm after" in words
    assert not (place.folder / "v.db").exists()


def test_a_plan_of_revised_windows_states_the_delay_and_when_a_window_is_final(
    place: Workplace,
) -> None:
    file = Path(_job(place, 40, over="7d", change=30))
    told = file.read_text().replace('release = "windows"', 'revise = "3d"\nappend = true')
    file.write_text(told.replace("until =", "# until ="))
    (one,) = json.loads(place.plain("plan", str(file), "--json").out)["alarms"]["visits"]
    assert (one["release"], one["windows"], one["final_after"], one["spread"]) == (
        "windows",
        7,
        3,
        0,
    )
    words = " ".join(place.plain("plan", str(file)).out.split())
    assert "alarms of visits: the noise of 7 final windows together has the standard dev" in words
    assert f"brings an alarm after {one['delay']:.1f} final windows on the average." in words
    assert (
        f"final 3 windows after its end, so the alarm comes after {one['delay'] + 3:.1f}" in words
    )
    assert "the job's steps with --size state how many rows" in words
    words = " ".join(place.plain("plan", str(file), "--size", "14640").out.split())
    assert "by noise alone" not in words
    assert not (place.folder / "v.db").exists()


@pytest.mark.parametrize(
    ("alarm", "said"),
    [
        ({"change": -1}, "change is -1; give a number above 0"),
        ({"false_alarms": 0}, "false_alarms is 0; give a number above 0"),
        (
            {"over": "1y"},
            "over is '1y'; it is a length of time: give a whole number above 0",
        ),
    ],
)
def test_terms_out_of_range_are_refused_before_anything_is_released(
    place: Workplace, alarm: dict[str, Any], said: str
) -> None:
    for command in ("plan", "run"):
        done = place.plain(command, _job(place, 40, **alarm))
        assert (done.code, said in done.err) == (2, True), done.err
    assert not (place.folder / "v.db").exists()

"""`counton plan 52 --within 20`: the least guarantee with which a last release is so accurate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counton import ZCDP, plan, release
from counton.job.job import Job
from counton.job.jobfile import load
from counton.statistics import Average, Substrings

from .conftest import Workplace


def test_the_command_says_what_python_says(place: Workplace) -> None:
    done = place.plain("plan", "12", "--within", "2%", "--size", "1000", "--least", "rho", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    found = plan(12, within=20, least="rho")
    assert isinstance(found.guarantee, ZCDP)
    assert said["guarantee"] == found.guarantee.to_dict()
    assert said["steps"] == 12
    assert said["within"]["wanted"] == {"": 20}
    assert said["within"]["planned"][""] <= 20


def test_a_statistic_is_planned_with_its_own_numbers(place: Workplace) -> None:
    average = "average --lower 0 --upper 60 --resolution 1"
    wanted = ["--within", "count=20,mean=1", "--size", "5000", "--level", "0.9"]
    done = place.plain("plan", "--steps", "6", "--of", average, *wanted)
    assert done.code == 0, done.err
    found = plan(
        6, within={"count": 20, "mean": 1}, size=5000, level=0.9, of=Average(0, 60, 1), batched=True
    )
    assert done.out.startswith(str(found.guarantee).partition(" with ")[2])
    assert str(found.reached) in " ".join(done.out.split())


@pytest.mark.parametrize("words", [[], ["--each-row"]], ids=["any number of events", "each row"])
def test_a_statistic_has_one_plan_in_python_and_in_the_command(
    place: Workplace, words: list[str]
) -> None:
    letters = ["--of", "substrings --alphabet ACGT --longest 3", *words]
    said = json.loads(place.plain("plan", "40", *letters, "--rho", "0.5", "--json").out)
    found = plan(40, ZCDP(0.5), of=Substrings("ACGT", longest=3), batched=not words)
    assert [one["mean_std"] for one in said["choices"]] == [one.errors.mean_std for one in found]
    assert said["contribution"] == found.contribution.to_dict()
    assert said["errors"] == found.best.errors_of.what in found.words
    assert ("each row is a step" in said["errors"]) == bool(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["12", "--within", "20", "--epsilon", "1"],
            "--epsilon 1 does not go with --within 20, which finds the privacy loss",
        ),
        (["12", "--within", "20", "--rho", "1"], "give --least rho"),
        (["12", "--within", "2%"], "give the size, which must be public"),
        (["12", "--epsilon", "1", "--size", "9"], "give --within, or leave --size out"),
        (["12", "--steps", "12", "--epsilon", "1"], "leave one of them out"),
        (["twelve", "--epsilon", "1"], "neither a number of windows nor a job file"),
        (["--within", "20"], "--steps is missing"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(
    place: Workplace, given: list[str], words: str
) -> None:
    done = place.plain("plan", *given)
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_a_plan_of_a_user_s_period_is_that_of_the_command(place: Any) -> None:
    """As the stream of a count with these options has it."""
    words = ["--most", "3", "--per", "1d"]
    plain = place("plan", "--steps", "30", "--epsilon", "1", *words, "--json")
    of = "count --user who --every 1d --steps 30 --epsilon 1 " + " ".join(words)
    same = place("plan", "--of", of, "--json")
    errors = [
        [one["mean_std"] for one in json.loads(each.out)["choices"]] for each in (plain, same)
    ]
    assert errors[0] == pytest.approx(errors[1])
    assert "one user's day with up to 3 events" in place("plan", "30", "--epsilon", "1", *words).out
    assert "--per 1d needs --most" in place("plan", "30", "--epsilon", "1", *words[2:]).err


def test_half_widths_of_tiers_are_the_same_at_every_door(place: Workplace) -> None:
    (place.folder / "groups.csv").write_text("group,size\na,big\nb,small\n")
    place.write("rows.csv", ["00:10,a", "01:10,b"])
    options: dict[str, Any] = {"time": "time", "every": "1h", "start": "2013-01-01T00:00"}
    options |= {"steps": 6, "by": "group", "tiers": "size", "within": "big=10,small=30"}
    paths = {"domain": "groups.csv", "state": "state.db"}
    own: dict[str, Any] = {name: str(place.folder / path) for name, path in paths.items()}
    rows = str(place.folder / "rows.csv")
    words = [word for name, one in (options | own).items() for word in (f"--{name}", str(one))]
    said = json.loads(place.plain("count", rows, *words, "--plan", "--json").out)
    numbers = said["plans"]["totals"]["numbers"]
    assert [one["of"] for one in numbers] == ["big: epsilon = 0.6786", "small: epsilon = 0.2262"]
    table = [f"{name} = {one!r}" for name, one in (options | paths).items()]
    file = place.folder / "nightly.toml"
    file.write_text("\n".join(["[jobs.visits]", 'events = "rows.csv"', *table]) + "\n")
    planned = json.loads(place.plain("plan", str(file), "--json").out)
    assert planned["jobs"]["visits"]["numbers"] == numbers
    job = Job("count", rows, **options, **own)
    assert repr(load(file)["visits"].promise) == repr(job.promise)
    found = release("count", rows, **options, **own, until="2013-01-01T02:00")
    guarantee = found.numbers.definition.guarantee.to_dict()
    assert guarantee == said["plans"]["totals"]["guarantee"]
    assert guarantee == planned["jobs"]["visits"]["guarantee"]
    half = [one["halfwidths"][0] for one in numbers]
    lower, upper = (found.table().filter(step=1)[end].to_list() for end in ("lower", "upper"))
    assert [(high - low) / 2 for low, high in zip(lower, upper, strict=True)] == half
    assert place.plain("count", rows, *words, "--until", "2013-01-01T03:00").code == 0
    assert place.plain("run", str(file), "--until", "2013-01-01T04:00").code == 0

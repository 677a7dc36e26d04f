"""Laws that hold for every option of a job, whatever it means."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from counton.cli.command_options import Printing, option_names
from counton.cli.statistic_command import command_of
from otherwise import OTHERWISE

from counton.base.errors import CountonError, InvalidInput
from counton.job.job import options_of
from counton.job.jobfile import job_entries, load, save
from counton.job.stated_options import KINDS, kept_as, refuse_other_kinds
from counton.run import settlement
from counton.runs import Job, run

OPTIONS = options_of(Job)
#: Where a later run cannot come with the value of `OTHERWISE`.
VALUES: dict[str, Any] = {
    **{name: value for name, value in OTHERWISE.items() if value is not None},
    **dict.fromkeys(("append", "yes"), True),
    "cut": "a,b;c",
    "events": "others.csv",
    "name": "other",
    "over": 3,
    "query": "select 1",
    "state": "others.db",
    "timezone": "Europe/Berlin",
    "until": "newest",
    "covers": "7d",
}
STREAM: dict[str, Any] = {
    "time": "time", "every": "1h", "start": "2013-10-27", "steps": 3, "by": "place",
    "domain": "home,shop", "epsilon": 1, "until": "newest",
}  # fmt: skip


def with_option(name: str, value: Any, **stated: Any) -> Job:
    return Job(**{"what": "count", "events": "e.csv", "state": "s.db", **stated, name: value})


@pytest.mark.parametrize("name", [name for name, one in OPTIONS.items() if not one.needed])
def test_what_has_its_default_is_left_out(name: str) -> None:
    assert job_entries(with_option(name, OPTIONS[name].default)) == job_entries(
        Job("count", "e.csv", "s.db")
    )
    assert not with_option(name, OPTIONS[name].default).states(name) or name == "name"


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    if OPTIONS[name].file and name not in ("domain", "strategy"):
        before, colon, file = str(value).rpartition(":")
        value = f"{before}{colon}{tmp_path / file}"
    files = {"events": str(tmp_path / "e.csv"), "state": str(tmp_path / "s.db")}
    job = with_option(name, value, **files)
    entries = job_entries(job)
    assert OPTIONS[name].key in entries or name == "name"
    assert json.loads(json.dumps(entries)) == entries
    save(job, tmp_path / "jobs.toml")
    (found,) = load(tmp_path / "jobs.toml").values()
    told = {key: str(one) for key, one in job_entries(found).items()}
    assert told == {key: str(one) for key, one in entries.items()}
    assert found.name == job.name


@pytest.mark.parametrize("name", [name for name, one in OPTIONS.items() if one.file])
def test_a_file_is_one_beside_the_job_file(name: str, tmp_path: Path) -> None:
    key = OPTIONS[name].key  # a strategy or a language is a file by its ending
    file = {"strategy": "strategy.json", "locale": "own.toml"}.get(name, "f")
    (tmp_path / file).write_text("")
    start = "quarantine:" if name == "bad_rows" else ""
    told = {"events": "e", "state": "s.db", key: f"{start}{file}"}
    text = "".join(f'{one} = "{value}"\n' for one, value in told.items())
    (tmp_path / "jobs.toml").write_text(f"[jobs.one]\n{text}")
    (found,) = load(tmp_path / "jobs.toml").values()
    assert str(found.option(name)) == f"{start}{tmp_path / file}"


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("laws")
    rows = pl.DataFrame({"time": ["2013-10-27T00:30", "2013-10-27T02:10"], "place": ["home"] * 2})
    rows.write_csv(folder / "e.csv")
    run(Job("count", folder / "e.csv", folder / "s.db", **STREAM)).close()
    return Job("count", folder / "e.csv", folder / "s.db", until="newest")


def is_refused(stream: Job, name: str) -> bool:
    """Whether a later run that says something else is refused, and the stream stays as it was."""
    try:
        run(stream.having(**{name: VALUES[name]})).close()
    except CountonError:
        return True
    return False


DEFINING = [
    option.name
    for kind in ("stream", "reading")
    for option in kept_as(kind, OPTIONS)
    if not option.later
]


@pytest.mark.parametrize("name", DEFINING)
def test_a_later_run_may_leave_out_what_defines_its_stream_and_not_contradict_it(
    name: str, stream: Job
) -> None:
    with run(stream) as outcome:
        assert outcome.after == outcome.before == 2
    assert is_refused(stream, name)
    if name in STREAM:
        run(stream.having(**{name: STREAM[name]})).close()


def test_the_law_sees_an_option_that_nobody_compares(
    stream: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = settlement._beside

    def without_release(*of: Any) -> dict[str, Any]:
        return {name: both for name, both in compared(*of).items() if name != "release"}

    monkeypatch.setattr(settlement, "_beside", without_release)
    assert is_refused(stream, "metric")
    assert not is_refused(stream, "release")


def test_what_needs_another_option_names_one_that_there_is() -> None:
    kinds = [KINDS[kind] for option in OPTIONS.values() for kind in option.of]
    needed = {kind.chosen for kind in kinds} - {""}
    assert {"domain", "expire", "user", "within"} < needed <= {*OPTIONS, "counts"}


@pytest.mark.parametrize("mine", KINDS)
def test_an_option_of_other_kinds_is_refused(mine: str) -> None:
    kind, refused = KINDS[mine], 0
    what = "hierarchy" if mine == "once" else "count"
    chosen = {kind.chosen: (VALUES | {"counts": "n"})[kind.chosen]} if kind.chosen else {}
    chosen |= {"unknown": "discover"} if mine == "found" else {}
    for name, option in OPTIONS.items():
        of = [one for one in option.of if KINDS[one].axis == kind.axis]
        job = with_option(name, VALUES[name], **{**chosen, "what": what})
        if (
            not of
            or mine in of
            or name in (kind.chosen, KINDS[of[0]].chosen)
            or not job.states(name)
        ):
            refuse_other_kinds(job, {kind.axis: mine} if mine in of else {})
            continue
        with pytest.raises(InvalidInput, match=f"^{name}"):
            refuse_other_kinds(job, {kind.axis: mine})
        refused += 1
    assert refused or mine in ("declared", "whole", "users")  # which exclude no option


def test_every_option_of_a_command_is_a_field_and_says_its_text_once() -> None:
    app = typer.Typer(add_completion=False)
    command_of(app, "count")
    made: Any = typer.main.get_command(app)
    told = {one.name: one.help for one in made.params if one.name != "help"}
    beside = {*option_names(Printing), "counts"}  # of counts alone
    assert {*told} <= {*OPTIONS, *beside}
    assert all(told[name] == OPTIONS[name].help for name in told if name not in beside)
    texts = [option.help for option in OPTIONS.values()]
    assert len(set(texts)) == len(texts)

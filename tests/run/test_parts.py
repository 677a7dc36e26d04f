"""Each part of a job checks itself, and a job has each option once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest

from counton.base.errors import InvalidInput
from counton.frame.options import Statement
from counton.job.job import JobPart, JobStatement, fields_of, option, options_of
from counton.job.stated_options import all_options
from counton.runs import Job

PARTS = [item.metadata["part"] for item in fields(Job) if "part" in item.metadata]
WRONG: dict[str, Any] = {
    "Keeping": {"state": "s.db", "name": 3},
    "Times": {"steps": "30"},
    "Lateness": {"revise": 3},
    "Groups": {"unknown": "maybe"},
    "Promise": {"expire": 1},
    "Arrangement": {"release": "all"},
    "Users": {"most": True},
    "RowFormat": {"clock_change": "often"},
    "RowPolicies": {"append": "keep"},
    "OutputFiles": {"out": 5},
    "Showing": {"level": "high"},
}


def test_a_job_has_each_option_once() -> None:
    own = {"what", "events", "options", *all_options()}
    named = [item.name for part in PARTS for item in fields(part)]
    assert len(set(named)) == len(named)
    assert not own & set(named)
    assert {item.name for _, item in fields_of(Job)} == {*named, "what", "events", "options"}
    assert all(option.help for part in PARTS for option in options_of(part).values())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_part_refuses_by_itself_what_a_job_refuses(part: Any) -> None:
    wrong = WRONG[part.__name__]
    with pytest.raises(InvalidInput) as alone:
        part(**wrong)
    (name,) = set(wrong) - {"state"}
    assert name in alone.value.fields
    with pytest.raises(InvalidInput) as whole:
        Job(**{"what": "count", "events": "e.csv", "state": "s.db"} | wrong)
    assert str(whole.value) == str(alone.value)


def public(kind: type) -> set[str]:
    named = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    return {name for name in named if not name.startswith("_")}


def test_a_job_shows_its_parts_and_no_part_is_large() -> None:
    """A reader sees at a place what it uses: 94 names stood side by side on a job."""
    assert len(public(Job)) <= 19
    assert max(len(public(part) - public(JobPart)) for part in PARTS) <= 11
    with pytest.raises(AttributeError):
        Job("count", "e.csv", "s.db").every  # type: ignore[attr-defined]  # noqa: B018


def test_what_statistics_read_of_a_job_is_flat() -> None:
    job = Job("average", "e.csv", "s.db", by="page", lower=0)
    stated = JobStatement(job)
    assert (stated.by, stated["lower"], job.by) == ("page", 0, "page")
    assert {name for name in Statement.__annotations__ if not hasattr(stated, name)} == set()
    part = stated.of_part("count", {}, None, None)
    assert (part.statistic, part.by, job.by) == ("count", None, "page")


def test_a_field_of_a_new_part_is_checked() -> None:
    @dataclass(frozen=True)
    class Weather(JobPart):
        rain: bool = option("whether it rains", default=False)

    Weather(True)
    with pytest.raises(InvalidInput, match="rain is 'yes', of type str; give True or False"):
        Weather("yes")  # type: ignore[arg-type]

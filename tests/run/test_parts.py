"""Each section of a job's options checks itself, and a job has each option once."""

from __future__ import annotations

from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.job import common_options
from counton.job.option_fields import Section
from counton.job.statistics import all_models
from counton.run import Job

WRONG: dict[str, Any] = {
    "StateOptions": {"stream": True},
    "WindowOptions": {"windows": "30"},
    "LateDataOptions": {"max_corrections": True},
    "DeclaredGroupOptions": {"groups": 3},
    "GroupOptions": {"group_by": 3},
    "UnlistedGroupOptions": {"unlisted_groups": "maybe"},
    "DiscoveredGroupOptions": {"unlisted_groups": "perhaps"},
    "PrivacyOptions": {"expiring": 1},
    "SeriesOptions": {"series": "all"},
    "PeriodSeriesOptions": {"series": "every"},
    "RollingSeriesOptions": {"series": "any"},
    "MechanismOptions": {"metric": "least"},
    "UserOptions": {"max_contributions": True},
    "UserPeriodOptions": {"contribution_period": "soon"},
    "UserRowOptions": {"event_name": True},
    "InputOptions": {"ambiguous": "often"},
    "OutputOptions": {"confidence_level": "high"},
}
SECTIONS = [
    section
    for section in vars(common_options).values()
    if isinstance(section, type) and issubclass(section, Section) and section not in (Section, Job)
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_section_refuses_wrong_value_as_a_job_does(section: type[Section]) -> None:
    wrong = WRONG[section.__name__]
    (name,) = wrong
    with pytest.raises(InvalidInputError) as alone:
        section(**wrong)
    assert name in alone.value.fields
    with pytest.raises(InvalidInputError) as whole:
        Job("distinct" if "series" in wrong else "count", "e.csv", "s.db", **wrong)
    assert name in whole.value.fields


@pytest.mark.parametrize("statistic", all_models())
def test_job_has_each_option_once_with_a_help(statistic: str) -> None:
    model = all_models()[statistic]
    for name, item in model.model_fields.items():
        assert item.description or name == "statistic"
    of_common = [name for section in SECTIONS for name in section.__annotations__]
    own = {*model.model_fields} - {*of_common, *Job.model_fields}
    assert not own & {*of_common}


def test_job_of_any_statistic_is_the_model_of_its_name() -> None:
    job = Job("average", "e.csv", "s.db", group_by="page", lower=0)
    assert isinstance(job, Job)
    assert isinstance(job, all_models()["average"])
    assert (job.value_of("lower"), job.value_of("group_by")) == (0, ("page",))
    with pytest.raises(AttributeError):
        job.average  # type: ignore[attr-defined]  # noqa: B018


def test_having_checks_values_and_leaves_the_job_unchanged() -> None:
    job = Job("average", "e.csv", "s.db", lower=0, windows=9)
    assert (job.derive(windows=None).windows, job.windows) == (None, 9)
    assert job.derive(what="sum").statistic == "sum"
    with pytest.raises(InvalidInputError, match="windows=many"):
        job.derive(windows="many")
    with pytest.raises(InvalidInputError, match="no option 'stepz'"):
        job.derive(stepz=3)

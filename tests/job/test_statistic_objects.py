"""A statistic that a program passes as an object continues the stream of its name."""

from typing import Any

import pytest
from every_option import LEAST, own_of, settings_of

from counton.job.statistic_objects import job_of_statistic
from counton.run import Job
from counton.run.spec.parsing import normal_form
from counton.run.spec.statistic_parsing import parse_statistic

#: Statistics without an object of their own: they count rows or users, or combine others.
WITHOUT_OBJECT = ("top-k", "distinct", "report")
CASES = [
    (name, option, setting)
    for name in LEAST
    if name not in WITHOUT_OBJECT
    for option in own_of(name)
    for setting in settings_of(name, option)
]


@pytest.mark.parametrize(("name", "option", "setting"), CASES, ids=str)
def test_object_has_job_of_its_name_with_each_option(
    name: str, option: str, setting: dict[str, Any]
) -> None:
    options = {**LEAST[name], **setting}
    options = {key: value for key, value in options.items() if value is not None}
    named = normal_form(Job(name, "visits.csv", "s.db", **options))
    statistic = parse_statistic(named)
    others = {key: value for key, value in options.items() if key not in own_of(name)}
    others.pop("groups", None)
    columns = statistic.columns or None
    of_object = job_of_statistic(statistic.of_group, {"columns": columns, **others})
    remedy = "convert it in job/statistic_objects.py"
    assert of_object.statistic == name, remedy
    assert parse_statistic(normal_form(of_object)) == statistic, remedy

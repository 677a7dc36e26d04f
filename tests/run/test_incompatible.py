"""The one table of options that exclude or need each other."""

import re
from typing import Any

import pytest

from counton.base.errors import CountonError, InvalidInputError
from counton.job.common_options import Job
from counton.job.incompatible import (
    EXCLUSIONS,
    EXCLUSIONS_OF_ERASURE,
    EXCLUSIONS_OF_GUARANTEE,
    EXCLUSIONS_OF_PLANS,
    EXCLUSIONS_OF_PUBLISHING,
    NEEDS,
    NEEDS_OF_ADDED_LOSS,
    NEEDS_OF_BUDGET,
    NEEDS_OF_EXPORT,
    NEEDS_OF_OUTPUTS,
    NEEDS_OF_PLANS,
    Condition,
    Exclusion,
    IncompatibleOptionsError,
    Need,
    refuse_beside_job_file,
    refuse_excluded,
    refuse_of_command,
    refuse_of_plan,
    refuse_of_service,
    refuse_of_streaming,
    refuse_unmet_needs,
)
from counton.job.messages import choices_of
from counton.job.report import ReportJob
from counton.job.statistics import all_models
from counton.job.statistics.contingency import ContingencyJob
from counton.job.statistics.count import CountJob

#: A value for each option that the table names.
VALUES: dict[str, Any] = {
    **dict.fromkeys(("time", "user", "row_id", "count_column", "value", "event_name"), "column"),
    **dict.fromkeys(
        (
            "windows",
            "expected_windows",
            "max_contributions",
            "max_corrections",
            "expected_rows",
            "upstream_max_contributions",
            "room",
            "over",
        ),
        2,
    ),
    **dict.fromkeys(
        ("append", "expiring", "simple", "once_per_window", "distinct_users", "replace"), True
    ),
    **dict.fromkeys(
        ("every", "allowed_lateness", "lookback", "contribution_period", "retain", "release_delay"),
        "1d",
    ),
    **dict.fromkeys(("epsilon", "rho", "expiration_growth", "margin_of_error"), 1),
    "start": "2024-03-01",
    "until": "2024-03-09",
    "timezone": "Europe/Berlin",
    "strategy": "sqrt",
    "metric": "max",
    "delta": 1e-6,
    "expiration_delay": 2,
    "solve_for": "rho",
    "max_contributions_per_window": 1,
    "group_by": "page",
    "groups": "home,shop",
    "other_group": "others",
    "target": "total=3",
    "edges": "0,1,2",
    "lower": 0,
    "upper": 9,
    "cells": 3,
    "last": "2d",
    "half_life": "2d",
    **dict.fromkeys(("title", "axis", "source"), "Visits"),
    "chart": "visits.png",
    "width": 7,
    "asked": 365,  # the number of windows that a plan names without an option
}
#: What excludes each other, why, and what to do.
THREE_PARTS = re.compile(r".+ cannot be used with .+, because .+\. Leave .+ out")


def options_with(condition: Condition) -> dict[str, Any]:
    """Return options for which a condition holds, as a job states them."""
    beside = (
        {} if condition.further_condition is None else options_with(condition.further_condition)
    )
    if condition.option == "statistic":
        return beside
    value = condition.values[0] if condition.values else VALUES[condition.option]
    return {**beside, condition.option: value}


def statistic_in(*conditions: Condition | None) -> str | None:
    """Return the statistic that one of the conditions names, if there is one."""
    for condition in conditions:
        if condition is not None and condition.option == "statistic":
            return condition.values[0]
        if condition is not None and condition.further_condition is not None:
            named = statistic_in(condition.further_condition)
            if named is not None:
                return named
    return None


def jobs_with(options: dict[str, Any], *conditions: Condition) -> list[Job]:
    """Return a job of each statistic that has all the options."""
    named = statistic_in(*conditions)
    return [
        model(**options)
        for name, model in all_models().items()
        if named in (None, name) and takes_options(model, options)
    ]


def takes_options(model: type[Job], options: dict[str, Any]) -> bool:
    """Return whether a statistic has all the options, and can have their values."""
    if not options.keys() <= model.model_fields.keys():
        return False
    choices = {name: choices_of(model, name) for name in options}
    return all(not choices[name] or options[name] in choices[name] for name in options)


@pytest.mark.parametrize("rule", [*EXCLUSIONS, *NEEDS], ids=lambda rule: rule.reason)
def test_rule_of_the_table_names_options_and_values_that_exist(rule: Exclusion | Need) -> None:
    models = all_models()
    waiting: list[Condition | None] = [rule.condition, *rule.others]
    while waiting:
        condition = waiting.pop()
        if condition is None:
            continue
        waiting.append(condition.further_condition)
        having = [model for model in models.values() if condition.option in model.model_fields]
        assert having, condition
        values = {*condition.values, *condition.excluded}
        choices = {word for model in having for word in choices_of(model, condition.option)}
        if condition.option == "statistic":
            choices = {*models}
        assert not choices or values <= choices, condition


EXCLUDING_PAIRS = [(rule, other) for rule in EXCLUSIONS for other in rule.others]


@pytest.mark.parametrize(
    ("rule", "other"), EXCLUDING_PAIRS, ids=lambda item: getattr(item, "option", "")
)
def test_refuse_excluded_pair_of_options_is_refused(rule: Exclusion, other: Condition) -> None:
    options = options_with(rule.condition) | options_with(other)
    jobs = jobs_with(options, rule.condition, other)
    if not jobs:  # no statistic has both options
        return
    for job in jobs:
        with pytest.raises(InvalidInputError) as refused:
            refuse_excluded(job)
        named = {rule.condition.option, other.option} - {"statistic"}
        assert named & {*refused.value.fields}
        assert THREE_PARTS.fullmatch(str(refused.value))


@pytest.mark.parametrize(
    "rule", [*NEEDS, *NEEDS_OF_OUTPUTS], ids=lambda rule: f"{rule.condition.option} {rule.reason}"
)
def test_refuse_unmet_need_is_refused(rule: Need) -> None:
    options = options_with(rule.condition)
    jobs = jobs_with(options, rule.condition)
    jobs = [job for job in jobs if not any(other.holds(job) for other in rule.others)]
    assert jobs
    for job in jobs:
        with pytest.raises(CountonError):
            refuse_unmet_needs(job, [rule])


@pytest.mark.parametrize("rule", EXCLUSIONS_OF_PLANS, ids=lambda rule: rule.reason)
def test_refuse_of_plan_excluded_pair_is_refused(rule: Exclusion) -> None:
    for other in rule.others:
        options = options_with(rule.condition) | options_with(other)
        with pytest.raises(IncompatibleOptionsError, match=THREE_PARTS) as refused:
            refuse_of_plan(options)
        assert {rule.condition.option, other.option} <= {*refused.value.fields}


@pytest.mark.parametrize("rule", NEEDS_OF_PLANS, ids=lambda rule: rule.condition.option)
def test_refuse_of_plan_unmet_need_is_refused(rule: Need) -> None:
    options = options_with(rule.condition)
    needed = rule.others[0]
    with pytest.raises(IncompatibleOptionsError, match=f" needs {needed.option}"):
        refuse_of_plan(options)
    refuse_of_plan(options | options_with(needed))


@pytest.mark.parametrize(
    "rule",
    [*EXCLUSIONS_OF_ERASURE, *EXCLUSIONS_OF_GUARANTEE, *EXCLUSIONS_OF_PUBLISHING],
    ids=lambda rule: rule.reason,
)
def test_refuse_of_command_excluded_pair_is_refused(rule: Exclusion) -> None:
    for other in rule.others:
        refuse_of_command({rule.condition.option: 1}, exclusions=[rule])
        with pytest.raises(IncompatibleOptionsError, match=THREE_PARTS):
            refuse_of_command({rule.condition.option: 1, other.option: 1}, exclusions=[rule])


@pytest.mark.parametrize(
    "rule",
    [*NEEDS_OF_BUDGET, *NEEDS_OF_ADDED_LOSS, *NEEDS_OF_EXPORT],
    ids=lambda rule: f"{rule.condition.option} {rule.reason}",
)
def test_refuse_of_command_unmet_need_is_refused(rule: Need) -> None:
    for other in rule.others:
        refuse_of_command({rule.condition.option: 1, other.option: 1}, needs=[rule])
    with pytest.raises(IncompatibleOptionsError, match=f" needs {rule.others[0].option}"):
        refuse_of_command({rule.condition.option: 1}, needs=[rule])


def test_refuse_beside_job_file_allows_named_options_only() -> None:
    options = {"job_file": "nightly.toml", "expected_rows": 9, "simple": False, "epsilon": None}
    refuse_beside_job_file(options, allowed=["expected_rows"])
    with pytest.raises(IncompatibleOptionsError, match=THREE_PARTS) as refused:
        refuse_beside_job_file({**options, "simple": True}, allowed=["expected_rows"])
    assert refused.value.fields == ("simple", "job_file")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chart": "visits.png"}, "chart=visits.png cannot be used in a service, because"),
        ({"until": "2024-03-09"}, "because time goes on"),
        ({"until": "latest-event"}, "because the newest event belongs to a user"),
        ({"time": None}, "Give time, or use counton run"),
    ],
    ids=str,
)
def test_refuse_of_service_refuses_options_of_runs(options: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "separator": ","}
    refuse_of_service(CountJob(**usual), is_new=True)
    with pytest.raises(IncompatibleOptionsError, match=words):
        refuse_of_service(CountJob(**{**usual, **options}), is_new=True)


def test_refuse_of_service_accepts_job_that_goes_on_without_its_options() -> None:
    refuse_of_service(CountJob())


def test_refuse_of_streaming_accepts_newest_event_alone() -> None:
    refuse_of_streaming(CountJob())
    refuse_of_streaming(CountJob(until="latest-event"))
    with pytest.raises(IncompatibleOptionsError, match="until=2024-03-09 cannot be used with a"):
        refuse_of_streaming(CountJob(until="2024-03-09"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "page,page"}, "columns=page,page names the column 'page' twice"),
        (
            {"columns": "page,visits", "count_column": "visits"},
            "count_column=visits cannot be used with columns=page,visits, because a column has",
        ),
    ],
    ids=str,
)
def test_refuse_excluded_column_named_twice_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(IncompatibleOptionsError, match=words):
        refuse_excluded(ContingencyJob(**options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"statistic": "sum", "value": "price"}, "'first' of statistics needs lower and upper"),
        ({"statistic": "count", "group_by": "page"}, "'first' of statistics needs groups, because"),
        (
            {"statistic": "count", "group_by": "page,city", "groups": "a,b"},
            "group_by=page,city of 'first' names several columns",
        ),
    ],
    ids=str,
)
def test_refuse_excluded_impossible_statistic_of_report_is_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(IncompatibleOptionsError, match=words):
        refuse_excluded(ReportJob(statistics={"first": options}))


def test_refuse_excluded_accepts_a_usual_job() -> None:
    for model in all_models().values():
        make_job: Any = model
        job = make_job(time="at", every="1d", start="2024-03-01", windows=9, epsilon=1)
        refuse_excluded(job)

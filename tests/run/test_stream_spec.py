"""What a stream keeps of its job, and how a later job is compared with it."""

import json
from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.job.common_options import Job
from counton.job.messages import parse_options
from counton.job.option_fields import STREAM, names_in_scope
from counton.job.statistics import model_of
from counton.job.statistics.count import CountJob
from counton.run.spec.changed_options import differences
from counton.run.spec.parsing import normal_form, parse_run, parse_terms
from counton.run.spec.plan_spec import plan_spec
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import (
    Endless,
    FixedHorizon,
    NewRows,
    Revised,
    RowsWithIds,
    SingleTable,
    Snapshot,
    User,
)

DAYS: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01"}
LOSS: dict[str, Any] = {"windows": 9, "epsilon": 1}
SUM: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 6, "resolution": 0.5}
CELLS: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 6, "cells": 12}
TABLE: dict[str, Any] = {"columns": "page,device", "groups": "page=home,shop;device=big,small"}
LEAVES: dict[str, Any] = {"page": ["home", "home", "shop"], "device": ["big", "small", None]}
MEMBERS: dict[str, dict[str, Any]] = {
    "rows": {"statistic": "count"},
    "paid": {"statistic": "quantiles", **CELLS, "group_by": "page", "groups": "home,shop"},
    "a table": {"statistic": "contingency", **TABLE, "share": 2},
}
STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("count", LOSS),
    ("count", {"expected_windows": 30, "rho": 0.5, "series": "both", "privacy_unit": "visit"}),
    ("count", {"allowed_lateness": "3d", "epsilon": "1/3", "append": True, "count_column": "many"}),
    ("count", {**LOSS, "group_by": "page", "groups": "home,shop", "other_group": "more"}),
    ("count", {**LOSS, "delta": 1e-6, "timezone": "America/New_York"}),
    (
        "count",
        {
            **LOSS,
            "user": "who",
            "max_contributions": 3,
            "contribution_period": "1d",
            "max_contributions_per_window": 1,
        },
    ),
    ("count", {**LOSS, "user": "who", "distinct_users": True}),
    ("count", {**LOSS, "delta": 1e-6, "group_by": "page", "unlisted_groups": "discover"}),
    ("count", {"expiring": True, "rho": 0.5, "expiration_growth": "3/2", "expiration_delay": 2}),
    ("count", {**LOSS, "strategy": "sqrt", "metric": "max", "time_format": "epoch"}),
    ("sum", {**LOSS, **SUM}),
    ("average", {**LOSS, **SUM, "group_by": "page", "groups": "a,b"}),
    ("average", {"expected_windows": 30, "margin_of_error": "count=40", **SUM}),
    ("quantiles", {**LOSS, **CELLS, "replace": True}),
    (
        "quantiles",
        {**LOSS, "value": "paid", "edges": "0,1.5,6", "group_by": "page", "groups": "a,b"},
    ),
    ("moments", {**LOSS, "columns": "paid, many", "bounds": "0:6,-0.50:4", "grid": 16}),
    ("top-k", {**LOSS, "group_by": "page", "groups": "home,shop,help", "top": 2}),
    ("hierarchy", {**LOSS, "levels": "page,device", "groups": LEAVES, "target": "page=3,total=4"}),
    ("contingency", {**LOSS, **TABLE, "count_column": "many"}),
    (
        "ranges",
        {
            "allowed_lateness": "2d",
            "rho": 1,
            "label": "page",
            "groups": "home,shop",
            "line": "haar",
        },
    ),
    ("report", {**LOSS, "delta": 1e-6, "statistics": MEMBERS}),
    ("distinct", {**LOSS, "user": "who"}),
    ("reach", {**LOSS, "user": "who", "contribution_period": "1w", "at_least": "1,5"}),
]
SINGLE_TABLES: list[tuple[str, dict[str, Any]]] = [
    ("quantiles", {"epsilon": 1, **CELLS}),
    ("contingency", {"rho": 1, **TABLE}),
    ("hierarchy", {"levels": "page,device", "groups": LEAVES, "target": "page=3,total=4"}),
]


def job_of(statistic: str, options: dict[str, Any]) -> Job:
    """Return a job of windows of a day."""
    job: Job = parse_options(model_of(statistic), {**DAYS, **options})
    return job


def through_json(spec: StreamSpec) -> StreamSpec:
    """Return the spec that a state would keep, whose JSON has sorted keys."""
    return StreamSpec.from_json(json.loads(json.dumps(spec.to_json(), sort_keys=True)))


@pytest.mark.parametrize(("statistic", "options"), STREAMS)
def test_spec_after_json_is_the_same(statistic: str, options: dict[str, Any]) -> None:
    spec = plan_spec(job_of(statistic, options))
    again = through_json(spec)
    assert again.terms == spec.terms
    assert again.to_json() == spec.to_json()
    assert again.strategy == spec.strategy


@pytest.mark.parametrize(("statistic", "options"), SINGLE_TABLES)
def test_spec_of_single_table_after_json_is_the_same(
    statistic: str, options: dict[str, Any]
) -> None:
    job: Job = parse_options(model_of(statistic), options)
    again = through_json(plan_spec(job))
    assert isinstance(again.terms.windowing, SingleTable)
    assert differences(again, job) == []


@pytest.mark.parametrize(("statistic", "options"), STREAMS)
def test_differences_of_the_same_job_are_none(statistic: str, options: dict[str, Any]) -> None:
    job = job_of(statistic, options)
    spec = through_json(plan_spec(job))
    empty: Job = parse_options(model_of(statistic), {"append": job.append})
    assert differences(spec, job) == []
    assert differences(spec, empty) == []
    assert parse_terms(normal_form(spec.complete_job(empty))) == spec.terms


@pytest.mark.parametrize("is_new_rows", [True, False])
def test_differences_of_an_input_of_the_other_kind_name_append(is_new_rows: bool) -> None:
    """Files of all rows would count twice as new rows; new rows would replace all others."""
    spec = plan_spec(job_of("count", {"windows": 30, "epsilon": 1, "append": is_new_rows}))
    later = CountJob(append=not is_new_rows)
    assert [difference.option for difference in differences(spec, later)] == ["append"]


def test_differences_of_inputs_of_rows_with_ids_are_none() -> None:
    spec = plan_spec(job_of("count", {"windows": 30, "epsilon": 1, "row_id": "number"}))
    assert differences(spec, CountJob(append=True)) == []
    assert differences(spec, CountJob()) == []


@pytest.mark.parametrize("unit", ["Visit", "VISIT", " visit "])
def test_differences_of_another_spelling_of_the_unit_are_none(unit: str) -> None:
    spec = plan_spec(job_of("count", {"windows": 30, "epsilon": 1, "privacy_unit": "visit"}))
    assert differences(spec, CountJob(privacy_unit=unit)) == []


def test_growth_of_zero_is_kept() -> None:
    spec = plan_spec(job_of("count", {"epsilon": 1, "expiring": True, "expiration_growth": 0}))
    assert spec.strategy.parameters["growth"] == "0"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("every", "2d"),
        ("start", "2024-03-02"),
        ("windows", 31),
        ("epsilon", 2),
        ("expected_windows", 30),
        ("rho", 1),
        ("group_by", "page"),
        ("privacy_unit", "visit"),
        ("append", True),
        ("allowed_lateness", "2d"),
        ("user", "who"),
        ("count_column", "many"),
        ("series", "per-window"),
        ("time_format", "epoch"),
        ("decimal", ","),
        ("timezone", "Europe/Berlin"),
        ("row_id", "number"),
    ],
)
def test_differences_of_another_value_name_the_option(option: str, value: object) -> None:
    spec = plan_spec(job_of("count", {"windows": 30, "epsilon": 1}))
    job: Job = parse_options(CountJob, {option: value})
    named = [difference.option for difference in differences(spec, job)]
    assert option in named
    # Another time zone means another start, and another series follows from revised windows.
    assert {*named} <= {option, "start", "series"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timezone", "UTC"),
        ("start", "2024-03-01T00:00"),
        ("start", "2024-03-01T01:00+01:00"),
        ("series", "cumulative"),
        ("epsilon", "1.0"),
        ("strategy", "auto"),
        ("metric", "mean"),
        ("privacy_unit", "event"),
        ("ambiguous", "raise"),
        ("ambiguous", "earliest"),
        ("decimal", "."),
    ],
)
def test_differences_of_another_form_are_none(option: str, value: object) -> None:
    spec = plan_spec(job_of("count", {"windows": 30, "epsilon": 1}))
    assert differences(spec, parse_options(CountJob, {option: value})) == []


def test_differences_of_a_changed_choice_at_clock_changes_are_named() -> None:
    spec = plan_spec(job_of("count", {**LOSS, "ambiguous": "earliest"}))
    job: Job = parse_options(CountJob, {"ambiguous": "latest"})
    assert [one.option for one in differences(spec, job)] == ["ambiguous"]
    stream_of_spring = plan_spec(job_of("count", LOSS))
    later = stream_of_spring.updated_by(stream_of_spring.complete_job(job))
    assert later.terms.ambiguous == "latest"


def test_every_option_that_defines_a_stream_is_compared() -> None:
    spec = plan_spec(job_of("count", LOSS))
    for name in names_in_scope(CountJob, STREAM):
        if name in ("start", "timezone", "groups", "strategy", "expected_windows", "expiring"):
            continue  # their values are read, and "another" is none
        value = {"last": ("2d",), "half_life": "2d", "allowed_lateness": "2d"}.get(name, "another")
        other = spec.job.with_options(**{name: value})
        changed = StreamSpec(other, spec.accumulator_statistic, spec.contribution, spec.strategy)
        assert [one.option for one in differences(changed, spec.job)] in ([name], []), name


def test_parse_terms_exclusive_options_are_different_types() -> None:
    def terms(**options: Any) -> Any:
        return plan_spec(job_of("count", {"epsilon": 1, **options})).terms

    assert isinstance(terms(windows=3).windowing, FixedHorizon)
    assert isinstance(terms(expected_windows=3).windowing, Endless)
    assert isinstance(terms(allowed_lateness="3d").windowing, Revised)
    assert isinstance(terms(windows=3, user="who", max_contributions=2).privacy_unit, User)


def test_parse_run_kinds_of_input_are_different_types() -> None:
    def kind(**options: Any) -> Any:
        job = job_of("count", {**LOSS, **options})
        spec = plan_spec(job)
        return parse_run(spec.complete_job(job), spec.terms).input

    assert kind(lookback="7d") == Snapshot("7d")
    assert kind(append=True) == NewRows()
    assert kind(row_id="number") == RowsWithIds("number", repeats_rows=True)


def test_plan_member_of_report_with_option_of_report_is_refused() -> None:
    statistics = {"rows": {"statistic": "count", "epsilon": 1}}
    with pytest.raises(InvalidInputError, match="epsilon"):
        job_of("report", {**LOSS, "statistics": statistics})


@pytest.mark.parametrize("option", ["every", "until", "append", "strategy"])
def test_plan_single_table_with_option_of_windows_is_refused(option: str) -> None:
    options: dict[str, Any] = {
        "every": "1d",
        "until": "now",
        "append": True,
        "strategy": "binary",
    }
    job: Job = parse_options(
        model_of("quantiles"), {"epsilon": 1, **CELLS, option: options[option]}
    )
    with pytest.raises(InvalidInputError, match="time"):
        plan_spec(job)

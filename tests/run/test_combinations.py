"""What the options of a job alone show to be impossible is refused by the table of options.

All values here are possible for some job. So a job that has two of them is either planned, or its
options exclude each other: then `counton.job.incompatible` refuses it, and no file that plans.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from above import Above
from every_option import COMMON, LEAST, own_of, settings_of
from in_turn import in_turn

from counton.base.errors import CountonError, MissingOptionError
from counton.base.strategy_names import FAMILIES, PAPERS, PUBLISHED
from counton.job.common_options import Job
from counton.job.incompatible import IncompatibleOptionsError
from counton.job.statistics import all_models, model_of
from counton.run.outputs.run_outputs import check_outputs
from counton.run.spec.parsing import parse_outputs, parse_run
from counton.run.spec.plan_spec import plan_spec
from counton.statistics import Reach, Report, Sum
from counton.strategies import Binary, Epochs, Independent

Options = dict[str, Any]
#: What to do if another file than the table of options refuses a job.
REMEDY = "refuse this in job/incompatible.py, or in job/contradictions.py"
USERS: Options = {"user": "user", "max_contributions": 2}
#: Possible values of options that the options of every statistic leave out.
FURTHER: list[Options] = [
    {"series": "period-to-date"},
    {"allowed_lateness": "2h", "strategy": None},
    {"allowed_lateness": "2h", "windows": None, "strategy": None},
    {"allowed_lateness": "90m", "strategy": None},
    {"append": True},
    {"lookback": "2h"},
    {"every": "1d"},
    {"every": "1w", "start": "2024-03-03"},
    {**USERS, "contribution_period": "1h"},
    {**USERS, "contribution_period": "1w"},
    {"epsilon": 1, "delta": "1e-6", "strategy": None},
    {"epsilon": None, "rho": 1, "strategy": None},
    {"epsilon": None, "rho": 1, "strategy": None, "windows": None, "expiring": True},
    {"time": None, "every": None, "start": None, "windows": None, "strategy": None},
    {"until": "latest-event"},
    {"until": "2024-02-01"},
    {"strategy": "independent"},
    {"strategy": "normalised-sqrt"},
    {"strategy": Binary(6)},
    {"strategy": Independent(6)},
    {"over": 0},
    {"last": "90m", "series": "rolling", "strategy": None},
    {"last": "2d", "series": "rolling", "strategy": None},
    {"half_life": "1mo", "series": "decayed", "strategy": None},
    {"privacy_unit": "user's day"},
    {"query": "select 1"},
    {"events": "sqlite:///visits.db", "query": "select 1"},
    {"max_corrections": 1, "allowed_lateness": "1h", "strategy": None},
    {**USERS, "max_corrections": 1, "allowed_lateness": "1h", "strategy": None},
]
#: Options that are read by the cells of a statistic, which only its plan has.
OF_CELLS = ("ask",)
#: Options of statistics that counton does not name.
OF_OWN: dict[str, Options] = {
    "above": {"what": Above(60), "columns": "paid"},
    "report": {
        "what": Report({"sum": Sum(0, 9, resolution=1), "users": Reach("1,2")}),
        "columns": "paid",
        **USERS,
    },
}
LOSSES: list[Options] = [
    {"epsilon": 1},
    {"rho": 1},
    {"epsilon": 1, "delta": "1e-6"},
    {"margin_of_error": 50, "solve_for": "rho"},
]
LENGTHS: list[Options] = [
    {"windows": 6},
    {"windows": 512},
    {"expected_windows": 20},
    {"allowed_lateness": "3h"},
]
#: Groups in a text or in a file that another option does not allow, by statistic.
GROUPS: list[tuple[str, Options]] = [
    ("count", {"group_by": "page", "groups": "home,shop", "other_group": "shop"}),
    ("count", {"group_by": "page", "groups": "pages.csv", "other_group": "shop"}),
    ("count", {"group_by": "page", "groups": "home,shop", "other_group": " "}),
    ("contingency", {"columns": "page,device", "groups": "page=home,shop"}),
    ("contingency", {"columns": "page", "groups": "page=home,shop;device=phone"}),
    ("contingency", {"columns": "page,device", "groups": {"page": ["home", "shop"]}}),
    (
        "report",
        {
            "statistics": {
                "a": {"statistic": "contingency", "columns": "page,device", "groups": "page=home"}
            }
        },
    ),
]
SERIES: list[Options] = [{}, {"series": "per-window"}, {"series": "both"}]
SEARCHES: list[Options] = [{}, {"simple": True}, {"metric": "max"}]


def own_settings_of(name: str) -> list[Options]:
    """Return possible values of a statistic's own options, each with what it replaces."""
    return [
        setting
        for option in own_of(name)
        for setting in settings_of(name, option)
        if has_options(name, setting)
    ]


def shared_settings_of(name: str) -> list[Options]:
    """Return possible values of the other options of a statistic, each with what it replaces."""
    return [setting for setting in (*COMMON, *FURTHER) if has_options(name, setting)]


def has_options(name: str, setting: Options) -> bool:
    """Return whether a statistic has all options of a setting, and none is read by its cells."""
    return setting.keys() <= model_of(name).model_fields.keys() - {*OF_CELLS}


def jobs_of(what: Any, least: Options, pairs: Iterator[tuple[Options, ...]]) -> Iterator[Job]:
    """Yield the jobs with some pairs of settings, whose values are possible one by one."""
    for settings in pairs:
        options = {"events": "visits.csv", "state": "s.db", **least}
        for setting in settings:
            options |= setting
        stated = {name: value for name, value in options.items() if value is not None}
        try:
            yield Job(what, stated.pop("events"), stated.pop("state"), **stated)
        except CountonError:  # the statistic has not this value
            continue


@cache
def jobs_of_shared_pairs() -> Mapping[str, list[Job]]:
    """Return a job for each pair of settings that several statistics have, by statistic.

    Statistics take turns, so each pair has one of those that can have both settings.
    """
    names = sorted(LEAST)
    jobs = defaultdict(list)
    for turn, pair in enumerate(combinations((*COMMON, *FURTHER), 2)):
        start = turn % len(names)
        for name in (*names[start:], *names[:start]):
            if not all(has_options(name, setting) for setting in pair):
                continue
            job = next(jobs_of(name, LEAST[name], iter([pair])), None)
            if job is not None:
                jobs[name].append(job)
                break
    return jobs


def is_planned(job: Job) -> bool:
    """Return whether a job is planned; False if its options exclude or need others.

    Raises:
        CountonError: another file than the table of options refuses the job.
    """
    try:
        spec = plan_spec(job)
        options = parse_run(job, spec.terms)
        outputs = parse_outputs(job)
    except (IncompatibleOptionsError, MissingOptionError):
        return False
    check_outputs(outputs, options, spec, job.confidence_level)
    return True


def refused_by_others(jobs: Iterator[Job]) -> tuple[dict[str, str], int]:
    """Return the refusals by other files than the table, by job, and the number of planned jobs."""
    refused = {}
    n_planned = 0
    for job in jobs:
        try:
            n_planned += is_planned(job)
        except CountonError as error:
            refused[str(job)] = str(error)
    return refused, n_planned


def test_cases_cover_every_statistic() -> None:
    assert {*LEAST} == {*all_models()}, "add it to OWN or TABLES of support/every_statistic.py"


@pytest.mark.parametrize("name", sorted(LEAST))
def test_one_option_is_planned_or_refused_by_table(name: str) -> None:
    settings = [*own_settings_of(name), *shared_settings_of(name)]
    jobs = jobs_of(name, LEAST[name], ((setting,) for setting in settings))
    refused, n_planned = refused_by_others(jobs)
    assert not refused, REMEDY
    assert n_planned > len(settings) / 3


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(LEAST))
def test_two_options_are_planned_or_refused_by_table(name: str) -> None:
    jobs = jobs_of_shared_pairs()[name]
    refused, n_planned = refused_by_others(iter(jobs))
    assert not refused, REMEDY
    assert n_planned > len(jobs) / 8


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in sorted(LEAST) if own_settings_of(name)])
def test_own_option_with_another_is_planned_or_refused_by_table(name: str) -> None:
    own = own_settings_of(name)
    pairs = [*combinations(own, 2), *product(own, shared_settings_of(name))]
    pairs = in_turn(pairs, 2, first=sorted(LEAST).index(name) % 2)
    refused, n_planned = refused_by_others(jobs_of(name, LEAST[name], iter(pairs)))
    assert not refused, REMEDY
    assert n_planned > len(pairs) / 8


@pytest.mark.parametrize("name", sorted(OF_OWN))
def test_options_of_own_statistic_are_planned_or_refused_by_table(name: str) -> None:
    of_times = {"time": "at", "every": "1h", "start": "2024-03-01", "windows": 6, "epsilon": 1}
    least = {**of_times, **OF_OWN[name]}
    what = least.pop("what")
    names = model_of("custom").model_fields.keys()
    settings = [{}, *COMMON, *FURTHER]
    settings = [setting for setting in settings if setting.keys() <= names]
    settings = [setting for setting in settings if not {*OF_CELLS} & setting.keys()]
    pairs = in_turn(combinations(settings, 2), 12)
    singles = ((setting,) for setting in settings)
    refused, n_planned = refused_by_others(jobs_of(what, least, iter([*singles, *pairs])))
    assert not refused, REMEDY
    assert n_planned > len(settings) / 4


@pytest.mark.parametrize("name", [*FAMILIES, PUBLISHED, *PAPERS])
def test_strategy_is_planned_or_refused_by_table(name: str) -> None:
    place = [*FAMILIES, PUBLISHED, *PAPERS].index(name)
    of_times = {"time": "at", "every": "1h", "start": "2024-03-01", "strategy": name}
    cases = in_turn(product(LOSSES, LENGTHS, SERIES, SEARCHES), 5, first=place % 5)
    refused, n_planned = refused_by_others(jobs_of("count", of_times, iter(cases)))
    assert not refused, REMEDY
    assert n_planned


@pytest.mark.parametrize("length", LENGTHS)
def test_strategy_object_is_planned_or_refused_by_table(length: Options) -> None:
    of_times = {"time": "at", "every": "1h", "start": "2024-03-01", "epsilon": 1}
    strategies = [{"strategy": own} for own in (Binary(6), Binary(4), Independent(6), Epochs())]
    cases = product([length], strategies, SERIES)
    refused, _ = refused_by_others(jobs_of("count", of_times, cases))
    assert not refused, REMEDY


@pytest.mark.parametrize(("name", "options"), GROUPS)
def test_groups_that_another_option_does_not_allow_are_refused_by_table(
    name: str, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pages.csv").write_text("page\nhome\nshop\n")
    times: Options = {"time": "at", "every": "1h", "start": "2024-03-01", "windows": 6}
    job = Job(name, "visits.csv", "s.db", **times, epsilon=1, **options)
    with pytest.raises(IncompatibleOptionsError, match="groups"):
        plan_spec(job)


def test_own_strategy_of_single_windows_is_planned() -> None:
    times: Options = {"time": "at", "every": "1h", "start": "2024-03-01", "epsilon": 1}
    options: Options = {"windows": 6, "series": "per-window", "strategy": Independent(6)}
    spec = plan_spec(Job("count", "visits.csv", "s.db", **times, **options))
    assert spec.strategy == Independent(6)


def test_over_zero_wants_accuracy_of_all_windows() -> None:
    wanted: Options = {"margin_of_error": "5%", "expected_rows": 1000, "windows": 6}
    options = {**LEAST["average"], **wanted}
    del options["epsilon"], options["strategy"]
    loss = plan_spec(Job("average", "visits.csv", "s.db", **options)).terms.loss
    assert plan_spec(Job("average", "visits.csv", "s.db", **options, over=0)).terms.loss == loss

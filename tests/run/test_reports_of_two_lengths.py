"""Statistics of a report with windows of their own are jobs that share its budget."""

import hashlib
import itertools
from pathlib import Path
from typing import Any

import pytest

from counton import release
from counton.base.errors import InvalidInput
from counton.job.job import Job
from counton.job.jobfile import load, schema
from counton.run import jobs_of, run
from counton.state import Store

SHARED = """
events = "shop.csv"
state = "shop.db"
time = "time"
start = "2024-03-01"
user = "person"
most = 5
"""
TOGETHER = f"""
[report.shop]
{SHARED}
every = "1h"
steps = 8760
epsilon = 2
out = "hours.csv"
[report.shop.visits]
statistic = "count"
[report.shop.regions]
statistic = "count"
by = "region"
domain = ["north", "south"]
every = "1d"
steps = 365
share = 2
out = "days.csv"
"""
APART = f"""
[jobs.shop]
{SHARED}
every = "1h"
steps = 8760
epsilon = "2/3"
out = "hours.csv"
[jobs.shop-1d]
{SHARED}
by = "region"
domain = ["north", "south"]
every = "1d"
steps = 365
epsilon = "4/3"
out = "days.csv"
"""


def _loaded(folder: Path, text: str) -> dict[str, Job]:
    file = folder / "nightly.toml"
    file.write_text(text)
    return load(file)


def test_each_length_of_windows_is_a_job_with_its_part_of_the_budget(tmp_path: Path) -> None:
    found, wanted = _loaded(tmp_path, TOGETHER), _loaded(tmp_path, APART)
    assert {name: repr(job) for name, job in found.items()} == {
        name: repr(job) for name, job in wanted.items()
    }


def test_statistics_of_one_length_stay_a_report(tmp_path: Path) -> None:
    paid = '[report.shop.paid]\nstatistic = "sum"\nvalue = "paid"\nlower = 0\nupper = 9\n'
    found = _loaded(tmp_path, f'{TOGETHER}{paid}every = "1d"\n')
    assert {name: job.what for name, job in found.items()} == {"shop": "count", "shop-1d": "report"}
    assert [job.promise.epsilon for job in found.values()] == ["1/2", "3/2"]


@pytest.mark.parametrize(
    ("budget", "parts"),
    [
        (
            {"epsilon": 3, "delta": 1e-6},
            {"epsilon": ["1", "2"], "delta": ["1/3000000", "1/1500000"]},
        ),
        ({"rho": 0.3}, {"rho": ["1/10", "1/5"]}),
    ],
)
def test_delta_and_rho_are_divided_too(
    tmp_path: Path, budget: dict[str, float], parts: dict[str, list[str]]
) -> None:
    stated = "\n".join(f"{name} = {value}" for name, value in budget.items())
    found = _loaded(tmp_path, TOGETHER.replace("epsilon = 2", stated)).values()
    assert {name: [getattr(job.promise, name) for job in found] for name in parts} == parts


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("epsilon = 2", "", "no privacy loss to divide"),
        ('every = "1d"\n', "", "without windows of its own"),
        ("share = 2", "share = 0", "share is 0; it must be above 0"),
        ('every = "1d"', 'every = ["1d"]', r"the windows \['1d'\]; give a length"),
        ("[report.shop.visits]", '[jobs.shop-1d]\nevents = "x"\n[report.shop.visits]', "'shop-1d'"),
        (
            "share = 2",
            '[report.shop.more]\nstatistic = "count"\nevery = "1d"\nsteps = 9',
            "365 and 9; give one",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert TOGETHER.count(old) == 1
    with pytest.raises(InvalidInput, match=told):
        _loaded(tmp_path, TOGETHER.replace(old, new))


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("epsilon = -1", "epsilon is -1; it must be above 0"),
        ('rho = "many"', "rho is 'many'; it must be a finite number"),
        ("epsilon = 1\ndelta = 1.5", "delta is 1.5; it must be above 0 and below 1"),
        ("epsilon = 1\ndelta = 0.002", "delta is 0.002, the probability .* give at most 0.001"),
        ("delta = 1e-9", "delta 1e-09 needs epsilon too"),
    ],
)
def test_a_bad_budget_is_named_as_it_is_written(tmp_path: Path, budget: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        _loaded(tmp_path, TOGETHER.replace("epsilon = 2", budget))


@pytest.mark.parametrize("length", ["", 'every = "12h"\nsteps = 60\n'])
def test_a_count_alone_with_its_windows_is_within_no_half_width(
    tmp_path: Path, length: str
) -> None:
    start, _, _ = TOGETHER.partition("[report.shop.")
    count = f'[report.shop.all]\nstatistic = "count"\nwithin = 20\n{length}'
    paid = '[report.shop.paid]\nstatistic = "sum"\nvalue = "paid"\nlower = 0\nupper = 9\n'
    told = (
        f"count 'all' that is alone with its windows of {'12h' if length else '1h'}, and within 20"
    )
    with pytest.raises(InvalidInput, match=told):
        _loaded(tmp_path, start + count + paid * bool(length))


@pytest.mark.parametrize("own", ["epsilon = 5", 'state = "other.db"', 'unit = "visit"'])
def test_a_statistic_alone_with_its_windows_has_no_budget_of_its_own(
    tmp_path: Path, own: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"{own.split()[0]}', which is not an option of a"):
        _loaded(tmp_path, TOGETHER.replace("share = 2", own))


def test_the_schema_has_the_windows_of_a_statistic() -> None:
    assert {"every", "steps", "out"} <= schema()["$defs"]["statistic"]["properties"].keys()


ROWS = """time,person,paid,region
2024-03-01T09:00,ann,30,north
2024-03-01T11:30,bob,45,south
2024-03-02T10:15,ann,20,north
2024-03-02T12:40,dan,70,south
"""


def _in_python(folder: Path, state: str = "shop.db", **more: Any) -> Job:
    regions = {"statistic": "count", "by": "region", "domain": ["north", "south"], "share": 2}
    asked: dict[str, Any] = {"name": "shop", "time": "time", "start": "2024-03-01"}
    asked |= {"user": "person", "most": 5, "every": "1h", "steps": 8760, "epsilon": 2}
    return Job(
        "report",
        str(folder / "shop.csv"),
        str(folder / state),
        out=str(folder / "hours.csv"),
        statistics={
            "visits": {"statistic": "count"},
            "regions": {**regions, "every": "1d", "steps": 365, "out": str(folder / "days.csv")},
        },
        **{**asked, **more},
    )


def test_python_makes_the_jobs_that_a_file_makes_and_releases_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.csv").write_text(ROWS)
    of_file, of_python = _loaded(tmp_path, TOGETHER), jobs_of(_in_python(tmp_path))
    assert {name: repr(job) for name, job in of_python.items()} == {
        name: repr(job) for name, job in of_file.items()
    }
    tables = []
    for number, jobs in enumerate((of_file, of_python)):
        count = itertools.count()  # the same keys for both
        monkeypatch.setattr(
            "counton.noise.key.secrets.token_bytes",
            lambda size, count=count: hashlib.shake_256(bytes([next(count)])).digest(size),
        )
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"home of {number}"))
        state = str(tmp_path / f"{number}.db")
        for job in jobs.values():
            with run(job.having(state=state, until="2024-03-03", quiet=24)) as outcome:
                tables.append(outcome.read().table())
        with Store(state) as store:
            spent = [str(one.guarantee) for one in store.spends]
        assert [one.rpartition(" = ")[2] for one in spent] == ["2/3", "4/3"]
    hours, days, *again = tables
    assert (hours.height, days.height) == (48, 4)
    assert all(one.equals(other) for one, other in zip((hours, days), again, strict=True))


def test_a_job_of_one_length_is_returned_as_it_is(tmp_path: Path) -> None:
    count = Job("count", "shop.csv", "shop.db", epsilon=1)
    assert jobs_of(count) == {"events": count}
    parts: dict[str, Any] = {"visits": {}, "paid": {"statistic": "sum", "value": "paid"}}
    report = Job("report", "shop.csv", "shop.db", every="1d", statistics=parts, epsilon=1)
    assert repr(jobs_of(report)["report"]) == repr(report)


def test_a_run_of_a_report_of_two_lengths_says_how_to_divide_it(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(ROWS)
    told = (
        r"'regions' of the report has windows of its own \(every=1d\).*counton.run.jobs_of\(job\)"
    )
    whole = _in_python(tmp_path).having(out=None)
    with pytest.raises(InvalidInput, match=told), run(whole):
        pass
    with pytest.raises(InvalidInput, match=told):
        release(
            "report",
            whole.events,
            state=whole.keeping.state,
            statistics=whole.options["statistics"],
            time="time",
            every="1h",
            start="2024-03-01",
            steps=9,
            epsilon=1,
        )
    assert not (tmp_path / "shop.db").exists()
    with pytest.raises(
        InvalidInput, match="no privacy loss to divide between them: give it epsilon"
    ):
        jobs_of(whole.having(epsilon=None))


#: Reports of the state of `_in_python`, by the options that differ.
OTHERS: dict[str, dict[str, Any]] = {
    "one length": {"statistics": {"visits": {}, "regions": {"statistic": "distinct"}}},
    "another length": {
        "statistics": {"visits": {}, "regions": {"every": "1w", "steps": 9, "share": 2}}
    },
    "another share": {"statistics": {"visits": {}, "regions": {"every": "1d", "steps": 9}}},
    "another loss": {"epsilon": 3},
    "another kind of loss": {"epsilon": None, "rho": "0.5"},
}


@pytest.mark.parametrize("first", OTHERS)
def test_a_report_of_other_parts_begins_no_stream(tmp_path: Path, first: str) -> None:
    (tmp_path / "shop.csv").write_text(ROWS)
    asked = _in_python(tmp_path).having(until="2024-03-03", out=None, quiet=24)
    before = asked.having(**OTHERS[first])
    (begun, job), *_ = jobs_of(before).items()
    with run(job):
        pass
    with Store(tmp_path / "shop.db") as store:
        kept = store.spends
    later = jobs_of(asked)
    assert begun == "shop"
    if first == "another length":  # both give this part the same loss, and the weeks are there
        with run(jobs_of(before)["shop-1w"].having(until="2024-03-15")):
            pass
        with Store(tmp_path / "shop.db") as store:
            kept = store.spends
    told = "'shop(-1w)?' of this state has spent .* not its part of the report 'shop'"
    with pytest.raises(InvalidInput, match=told), run(later["shop-1d"]):
        pass
    with Store(tmp_path / "shop.db") as store:
        assert store.spends == kept


def test_a_report_whose_second_part_failed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(ROWS)
    jobs = jobs_of(_in_python(tmp_path).having(until="2024-03-03", out=None, quiet=24))
    for name in ("shop", "shop", "shop-1d", "shop-1d"):
        with run(jobs[name]) as outcome:
            assert outcome.after


def test_what_bounds_leave_out_may_have_windows_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(ROWS.replace("2024-03-02T10:15,ann", "2024-03-01T10:15,ann"))
    left = {"statistic": "left-out", "most": 1, "every": "1d", "steps": 9}
    asked = _in_python(tmp_path).having(
        until="2024-03-02", out=None, epsilon=10**6, statistics={"visits": {}, "left": left}
    )
    for job in jobs_of(asked).values():
        with run(job) as outcome:
            found = outcome.read().table()
    assert found["estimate"].round(2).to_list() == [0.33, 1]  # one of three rows

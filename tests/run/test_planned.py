"""A plan of jobs says before any row what is released after all of them, and touches nothing."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from every_statistic import ONCE, OWN, TABLES, made
from run_results import design_of

from counton import ApproxDP, PureDP
from counton.base.errors import CountonError, InvalidInputError
from counton.run import Job, run
from counton.run.plan_job import PlannedJob, planned_job, planned_jobs
from counton.state import Store
from counton.statistics.catalogue import keywords


def halfwidths(table: pl.DataFrame) -> dict[str, float]:
    """The largest half-width of the last step, by what a row is of."""
    if "window_index" in table.columns:
        table = table.filter(pl.col("window_index") == table["window_index"].max())
    found: dict[str, float] = {}
    for row in table.iter_rows(named=True):
        name = str(row.get("measure") or row.get("tree_level") or "")
        if "statistic" in row:  # of a report
            names = (row["statistic"], row.get("group"), row.get("measure"), row.get("quantile"))
            name = " ".join(str(part) for part in names if part is not None)
        if name == "running total":
            continue
        if "page" in row and "user" in row and "tree_level" not in row:  # a margin
            name = ", ".join(one for one in ("page", "user") if row[one] is not None) or "total"
        if row.get("series") == "per-window" and not name:
            name = "in each window"
        found[name] = max(found.get(name, 0.0), (row["upper"] - row["lower"]) / 2)
    return found


def refuse_other(planned: dict[str, float], released: dict[str, float]) -> None:
    for name, half in planned.items():
        assert half == pytest.approx(released[name], rel=0.01)


NAMES = [*(name for name in keywords() if name in {**OWN, **TABLES}), *(f"{n} once" for n in ONCE)]


def whole(name: str, folder: Path, **more: Any) -> Job:
    """A job that releases all of its six windows, or its table, with wide noise.

    Of moments with narrow noise: how many rows there are is cut off at 0.
    """
    job = made(name, folder).derive(epsilon="5000" if name == "moments" else "0.05", **more)
    return (
        job
        if name.endswith("once")
        else job.derive(until="2024-03-01T06:00", allow_empty_windows=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_planned_halfwidths_are_those_that_are_released(name: str, tmp_path: Path) -> None:
    job = whole(name, tmp_path)
    planned = planned_job(job)
    assert not Path(str(job.state)).exists()
    assert planned.steps == ((1,) if name.endswith("once") else (1, 3, 6))
    last = {one.name: one.halfwidths[-1] for one in planned.numbers}
    with run(job) as outcome:
        assert outcome.spec.metadata().guarantee == planned.spend.guarantee
        assert outcome.spec.metadata().strategy == planned.metadata.strategy
        # A period of a user has one clock, which the ledger says beside it.
        assert outcome.spec.metadata().privacy_unit == planned.spend.unit.partition(" (")[0]
        released = halfwidths(outcome.read().table())
        spends = design_of(outcome).contribution.relation
    assert spends == planned.spend.relation
    if name.startswith("quantiles"):  # whose half-widths depend on the rows
        assert planned.needs_size
        return
    if len(last) == 1 and last.keys() <= {"", "a cell"}:
        released = dict.fromkeys(last, max(released.values()))
    refuse_other(last, released)


@pytest.mark.parametrize("release", ["cumulative", "per-window", "both"])
def test_planned_errors_of_each_series_equal_released_ones(tmp_path: Path, release: str) -> None:
    job = whole(
        "count", tmp_path, series=release, group_by="page", groups="home,shop", strategy=None
    )
    planned = {one.name: one.halfwidths[-1] for one in planned_job(job).numbers}
    with run(job) as outcome:
        released = halfwidths(outcome.read().table())
    assert set(planned) == set(released)
    refuse_other(planned, released)


@pytest.mark.parametrize("name", ["count", "sum", "hierarchy", "top-k", "average"])
def test_planned_errors_of_revised_windows_equal_released_ones(name: str, tmp_path: Path) -> None:
    job = whole(name, tmp_path, allowed_lateness="1h", append=True)
    planned = planned_job(job)
    assert planned.steps == (1, 2)
    with run(job) as outcome:
        table = outcome.read().table()
    released = halfwidths(table.filter("is_final"))
    for one in planned.numbers:
        half = max(released.values()) if one.name in ("", "in each window") else released[one.name]
        assert one.halfwidths[-1] == pytest.approx(half, rel=0.01)


def test_check_detects_plan_three_percent_off(tmp_path: Path) -> None:
    with run(whole("sum", tmp_path)) as outcome:
        released = halfwidths(outcome.read().table())
    refuse_other(released, released)
    with pytest.raises(AssertionError):
        refuse_other({"": released[""] * 1.03}, released)


def test_planned_error_includes_over_option(tmp_path: Path) -> None:
    job = whole("average", tmp_path, over=2)
    planned = {one.name: one.halfwidths[-1] for one in planned_job(job).numbers}
    with run(job) as outcome:
        refuse_other(planned, halfwidths(outcome.read().table()))


def test_expected_rows_give_planned_margin_of_mean(tmp_path: Path) -> None:
    job = whole("average", tmp_path)
    few, many = (planned_job(job, size=size).numbers for size in (10_000, 20_000))
    assert [one.name for one in few] == ["mean", "sum", "count"]
    assert few[0].halfwidths[-1] == pytest.approx(2 * many[0].halfwidths[-1], rel=0.01)
    percent = few[2].percent
    assert percent is not None
    assert percent == pytest.approx(few[2].halfwidths[-1] / 100)
    assert (
        planned_job(job.derive(epsilon=None, margin_of_error=20, expected_rows=10_000))
        .numbers[0]
        .name
        == "mean"
    )
    groups = planned_job(whole("count", tmp_path, group_by="page", groups="home,shop"), size=10_000)
    assert groups.numbers[0].percent == pytest.approx(groups.numbers[0].halfwidths[-1] / 50)


UNITS = ["event", "event", "user", "event"]


def limit_all(jobs: dict[str, Job], limit: PureDP) -> None:
    for job in jobs.values():
        with Store(str(job.state), create=True) as store:
            store.set_budget(limit)


def test_planned_jobs_respect_budget_of_state_and_unit(tmp_path: Path) -> None:
    jobs = {
        "visits": made("count", tmp_path).derive(stream="visits"),
        "sales": made("sum", tmp_path).derive(stream="sales", epsilon=2),
        "users": made("count", tmp_path).derive(stream="users", user="user", max_contributions=3),
        "apart": made("sum", tmp_path).derive(state=tmp_path / "other.db"),
    }
    for limit in (None, PureDP(3)):
        if limit is not None:
            limit_all(jobs, limit)
        found = planned_jobs(jobs)
        assert [one.spend.unit for one in found.values() if isinstance(one, PlannedJob)] == UNITS
    limit_all(jobs, PureDP(2))
    found = planned_jobs(jobs)
    refused = {name: str(one) for name, one in found.items() if isinstance(one, CountonError)}
    assert list(refused) == ["sales"]
    assert "PureDP" not in (said := refused["sales"])
    assert "epsilon = 1 is spent and pure differential privacy with epsilon = 1 is left" in said


def test_planned_job_refuses_incomplete_or_repeated_jobs(tmp_path: Path) -> None:
    job = made("count", tmp_path)
    events = tmp_path / "pages.csv"
    events.write_text("at,page\n2024-03-01T00:10,home\n")
    wrong = {
        "later": Job("count", job.events, job.state),
        "lines": made("ranges once", tmp_path).derive(
            label=None, groups=None, count_column="paid", stream="lines"
        ),
        "groups": job.derive(group_by="page", events=events, groups=str(events), stream="groups"),
    }
    found = planned_jobs(wrong)
    assert all(isinstance(one, CountonError) for one in found.values())
    said = {name: str(error) for name, error in found.items()}
    assert "a new stream of count needs" in said["later"]
    assert "ranges needs label" in said["lines"]
    assert "is the file of the events" in said["groups"]
    with pytest.raises(InvalidInputError):
        planned_job(job.derive(windows=None))
    with pytest.raises(InvalidInputError, match="a stream belongs to one job"):
        planned_jobs({"one": job, "two": job})


def test_discovered_groups_and_endless_streams_are_planned(tmp_path: Path) -> None:
    found = planned_job(
        made("count", tmp_path).derive(
            group_by="page", unlisted_groups="discover", delta="1e-9", strategy=None
        )
    )
    assert found.spend.guarantee == ApproxDP(1, "1e-9")
    assert found.numbers[0].halfwidths[-1] > 0
    endless = made("count", tmp_path).derive(windows=None, strategy=None)
    assert planned_job(endless.derive(expected_windows=500)).steps == (1, 250, 500)
    assert planned_job(endless.derive(expiring=True)).steps == (1, 500, 1000)


def test_plan_of_few_revised_windows_equals_plan_of_many(tmp_path: Path) -> None:
    revised = planned_job(whole("count", tmp_path, allowed_lateness="2d"))
    # Six hours are planned as many would be, though none of them is ever final.
    many = planned_job(whole("count", tmp_path, allowed_lateness="2d", windows=100))
    assert revised.numbers == many.numbers

"""Five reports: planned, released, read back from their files, and right as often as they say.

Coverage is looked at over 80 keys; ``COUNTON_KEYS=400`` takes so many.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from scipy.stats import binom
from some_cases import long

from counton import Release, read
from counton.base.arrays import Floats
from counton.continual import Counter, StepRelease
from counton.results.metadata import ReleaseMetadata
from counton.run import Job, export, run
from counton.run.plan_job import planned_job
from counton.statistics import Report
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.results import result_of_release

from .test_planned import halfwidths

KEYS = int(os.environ.get("COUNTON_KEYS", "50"))
ROWS = 3000
STEPS = 6
PLACES = {"region": ["N", "N", "S"], "city": ["a", "b", "c"]}
PAID: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 100, "resolution": 1}
REGIONS: dict[str, Any] = {"group_by": "region", "groups": ["N", "S"]}
PEOPLE: dict[str, Any] = {"user": "who", "max_contributions": 9}
#: What each job says, and its statistics.
REPORTS: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {
    "pure, people": (
        {"epsilon": 2, **PEOPLE},
        {
            "visits": {},
            "users": {"statistic": "distinct", "share": 3},
            "paid": {"statistic": "average", **PAID, "share": 2},
            "by region": {**REGIONS},
        },
    ),
    "zCDP, events": (
        {"rho": 0.5},
        {
            "visits": {},
            "all": {"statistic": "moments", "columns": "paid", "bounds": "0:100", "grid": 10},
            "total": {"statistic": "sum", **PAID},
            "spread": {"statistic": "quantiles", "value": "paid", "edges": "0,25,50,75,100"},
            "places": {"statistic": "hierarchy", "levels": "region,city", "groups": PLACES},
        },
    ),
    "approximate, people, once": (
        {"epsilon": 1, "delta": 1e-6, "windows": 1, "every": "1w", "until": "2024-03-08", **PEOPLE},
        {
            "users": {"statistic": "distinct"},
            "users by region": {"statistic": "distinct", **REGIONS},
            "total": {"statistic": "sum", **PAID},
        },
    ),
    "approximate, events": (
        {"epsilon": 1, "delta": 1e-6},
        {
            "visits": {},
            "low": {"statistic": "sum", **PAID, "upper": 20, "share": 2},
            "cities": {"statistic": "ranges", "label": "city", "groups": "a,b,c"},
            "top": {"statistic": "top-k", "group_by": "city", "groups": "a,b,c", "top": 3},
            "table": {
                "statistic": "contingency", "columns": "region,city",
                "groups": "region=N,S;city=a,b,c",
            },
            "paid by region": {"statistic": "average", **PAID, **REGIONS},
        },
    ),
    "pure, of a public size": (
        {"epsilon": 4, "expected_rows": ROWS},
        {
            "paid": {"statistic": "average", **PAID},
            "paid by region": {"statistic": "average", **PAID, **REGIONS, "share": 3},
            "cities": {"group_by": "city", "groups": ["a", "b", "c"]},
        },
    ),
}  # fmt: skip


def made(name: str, folder: Path) -> Job:
    rng = np.random.default_rng(3)
    place = rng.integers(0, 3, ROWS)
    frame = pl.DataFrame(
        {
            "at": [f"2024-03-0{1 + day}T12:00" for day in rng.integers(0, STEPS, ROWS)],
            "who": [f"u{user}" for user in rng.integers(0, ROWS // 3, ROWS)],
            "paid": rng.integers(0, 101, ROWS),
            "region": [PLACES["region"][one] for one in place],
            "city": [PLACES["city"][one] for one in place],
        }
    )
    own, statistics = REPORTS[name]
    stream: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": STEPS, "until": "2024-03-07",
        "allow_empty_windows": True,
    }  # fmt: skip
    given: dict[str, Any] = {**stream, **own}
    return Job("report", frame, folder / "s.db", statistics=statistics, **given)


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_planned_released_and_read_back(name: str, tmp_path: Path) -> None:
    job = made(name, tmp_path)
    planned = planned_job(job, size=ROWS)
    with run(job) as outcome:
        released = Release(outcome.read().numbers)
        assert outcome.spec.metadata().contribution == planned.metadata.contribution
        assert outcome.spec.metadata().strategy == planned.metadata.strategy
    found = halfwidths(released.table())
    report = planned.metadata.inner
    assert isinstance(report, Report)
    for one in planned.numbers:
        of_rows = one.name.split()[-1] in ("mean", "std") or one.part == "spread"
        room = (0.25 if "user" in REPORTS[name][0] else 0.05) if of_rows else 0.01
        if one.name in found:  # those of groups and levels are planned as one
            half = found[one.name]
        else:
            half = max(found[key] for key in found if key.startswith(one.name.split()[0]))
        if one.part != "spread" and one.name in found:
            assert one.halfwidths[-1] == pytest.approx(half, rel=room), one
    shares = {one.part: one.share for one in planned.numbers if one.share is not None}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares.keys() | report.derived_from.keys() == report.statistics.keys()
    export(str(job.state), tmp_path / "report.parquet")
    again = read(tmp_path / "report.parquet")
    assert again.table().equals(released.table())
    for part in report.statistics:
        assert again.part(part).table().equals(released.part(part).table())
    assert json.loads(json.dumps(planned.to_dict()))["numbers"]


def cells_of(report: Report, rng: np.random.Generator) -> Any:
    """Exact cells of rows at random, some of them the first of their users."""
    columns = []
    for part in report.parts:
        if part.kind == "label":
            columns.append(rng.integers(0, len(part.labels), ROWS))
        else:
            columns.append(rng.integers(0, 101, ROWS).astype(float))
    said = report.encode(*columns)
    said = said[said >= 0]  # a region has only some of the cities
    for digit in report.rank_digits:
        said[: ROWS // 5] += digit.unit
    sums = np.zeros((1, report.n_accumulators), np.int64)
    for place, amount in report.entries(said):
        np.add.at(sums[0], np.broadcast_to(place, said.shape), np.broadcast_to(amount, said.shape))
    return report.measure(sums)[0]


def missed(definition: ReleaseMetadata, steps: int) -> tuple[dict[str, int], dict[str, int]]:
    """How often each interval of the last step does not hold the truth, over many keys, and how
    often it did not if it were two fifths narrower.
    """
    report = definition.statistic
    assert isinstance(report, Report)
    cells = cells_of(report, np.random.default_rng(7))
    misses = dict[str, int]()
    narrow = dict[str, int]()
    truth: dict[str, float] = {}
    for number in range(KEYS):
        counter = Counter(
            definition.strategy, definition.guarantee, name="coverage",
            key=chosen_key(number.to_bytes(32, "big")), contribution=definition.contribution,
            shape=report.cells, statistic=statistic_to_dict(report),
        )  # fmt: skip
        changes = np.zeros((steps, *report.cells), np.int64)
        changes[0] = cells
        last = [counter.release(each) for each in changes][-1]
        if not truth:
            exact = StepRelease(last.step, np.asarray(cells), last.std, counter.design)
            truth = dict(_rows(report, exact, "estimate"))
        low, high = (dict(_rows(report, last, end)) for end in ("lower", "upper"))
        for name, right in truth.items():
            middle = (low[name] + high[name]) / 2
            half = (high[name] - low[name]) / 2
            for found, share in ((misses, 1.0), (narrow, 0.6)):
                found[name] = found.get(name, 0) + (abs(right - middle) > half * share + 1e-9)
    return misses, narrow


def _rows(report: Report, release: StepRelease, column: str) -> list[tuple[str, float]]:
    table = result_of_release(report, release).table_columns()
    labels = [
        table[label] for label in ("statistic", "group", "measure", "quantile") if label in table
    ]
    names = [" ".join(map(str, row)) for row in zip(*labels, strict=True)]
    return [*zip(names, table[column].tolist(), strict=True)]


@pytest.mark.parametrize("name", ["pure, people", *map(long, [*REPORTS][1:])])
def test_intervals_of_reports_have_stated_coverage(name: str, tmp_path: Path) -> None:
    """And intervals of the first report that are too narrow are seen."""
    planned = planned_job(made(name, tmp_path))
    steps = planned.steps[-1]
    found, narrow = missed(planned.metadata, steps)
    most = binom.ppf(1 - 1e-4 / len(found), KEYS, 0.05)
    assert max(found.values()) <= most, found
    assert max(narrow.values()) > most or name != "pure, people", narrow


#: Quantiles between edges a hundredth apart, and noise that moves them by several edges.
FINE: dict[str, dict[str, Any]] = {
    "visits": {},
    "spread": {"statistic": "quantiles", "value": "paid", "edges": [*range(102)]},
}


def quantiles_planned_and_released(folder: Path, keys: int) -> tuple[dict[str, float], Floats]:
    """Half-widths of a report's quantiles: as planned, and for each of some keys."""
    own: dict[str, Any] = {"statistics": FINE, "margin_of_error": None, "rho": 0.002}
    job = made("zCDP, events", folder).derive(**own)
    planned = planned_job(job, size=ROWS)
    report = planned.metadata.statistic
    assert isinstance(report, Report)
    said = report.encode(np.arange(ROWS) * 101 // ROWS)  # spread evenly, as the plan supposes
    sums = np.zeros((1, report.n_accumulators), np.int64)
    for place, amount in report.entries(said):
        np.add.at(sums[0], np.broadcast_to(place, said.shape), np.broadcast_to(amount, said.shape))
    cells = report.measure(sums)[0]
    found = []
    for number in range(keys):
        counter = Counter(
            planned.metadata.strategy, planned.metadata.guarantee, name="quantiles",
            key=chosen_key(number.to_bytes(32, "big")), shape=report.cells,
            contribution=planned.metadata.contribution, statistic=statistic_to_dict(report),
        )  # fmt: skip
        rest = np.zeros((STEPS - 1, *report.cells), np.int64)
        last = [counter.release(each) for each in (cells, *rest)][-1]
        reading: Any = result_of_release(report, last)
        table = reading.of("spread").table_columns()
        found.append((table["upper"] - table["lower"]) / 2)
    halves = {one.name: one.halfwidths[-1] for one in planned.numbers if one.part == "spread"}
    return halves, np.mean(found, axis=0)


@pytest.mark.long
def test_quantiles_of_a_report_are_planned_to_a_fifth(tmp_path: Path) -> None:
    """On average over keys: an interval ends at edges, and moves with the noise of all cells."""
    planned, released = quantiles_planned_and_released(tmp_path, 30)
    assert [*planned] == [f"spread quantile {share}" for share in (0.1, 0.25, 0.5, 0.75, 0.9)]
    halves = np.array([*planned.values()])
    assert (halves > 3).all()  # of edges
    assert np.abs(halves / released - 1).max() < 0.2


def test_expected_rows_are_remembered_by_stream(tmp_path: Path) -> None:
    """How many rows there will be is a word of every job, and a later run may leave it out."""
    job = made("pure, of a public size", tmp_path)
    with run(job) as outcome:
        table = outcome.read().table()
    with run(job.derive(expected_rows=None)) as outcome:
        assert outcome.read().table().equals(table)

"""A report: several statistics of the same rows under one guarantee."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from own_laws.statistics import check_statistic
from some_cases import long

from counton import ZCDP, ExpiringDP, Key, PureDP, RunningStatistic, plan, read, release
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.job.job_file import load
from counton.job.saved_job import save
from counton.privacy import ContributionBound
from counton.results.release import Release
from counton.results.terminal import screen_of
from counton.run import Job, export, run
from counton.statistics import (
    Average,
    Contingency,
    Count,
    Distinct,
    Episodes,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Report,
    Sum,
    TopK,
)
from counton.statistics.report_budget import weights_for_noise
from counton.statistics.report_members import norms_of
from counton.strategies.participation import Norm
from counton.tables import Tree
from counton.testing import PropertyViolationError

TREE = Tree.from_leaves({"region": ["N", "N", "S"], "city": ["a", "b", "c"]}, ["region", "city"])
PLACES = [("N", "a"), ("N", "b"), ("S", "c")]
ROWS = [
    {"paid": paid, "region": region, "city": city} for paid in (0, 3, 10) for region, city in PLACES
]


def daily(**more: Any) -> Report:
    return Report(
        {
            "visits": Count(),
            "paid": Average(0, 10, resolution=1),
            "spread": Quantiles(lower=0, upper=10, cells=5),
            "places": Hierarchy(TREE),
        },
        columns={"paid": "paid", "spread": "paid"},
        **more,
    )


def several() -> dict[str, Report]:
    """Reports of three to six statistics, none of them settled."""
    value: dict[str, Any] = {
        "columns": {"paid": "paid", "total": "paid", "spread": "paid", "low": "paid"}
    }
    return {
        "daily": daily(),
        "sums": Report(
            {"total": Sum(-3, 7, resolution=1), "low": Sum(0, 2, resolution=1), "n": Count()},
            columns={"total": "paid", "low": "paid"},
        ),
        "one column": Report(
            {
                "n": Count(), "paid": Average(0, 10, resolution=1),
                "total": Sum(0, 10, resolution=1), "all": Moments({"paid": (0, 10)}, grid=10),
            },
            columns={"paid": "paid", "total": "paid"},
        ),
        "tables": Report(
            {
                "n": Count(),
                "cities": Ranges(["a", "b", "c"]),
                "table": Contingency({"region": ["N", "S"], "city": ["a", "b", "c"]}),
                "places": Hierarchy(TREE),
            },
            columns={"cities": "city"},
        ),
        "groups": Report(
            {
                "n": Count(),
                "regions": Count(),
                "paid": Grouped(Average(0, 10, resolution=1), ["a", "b", "c"]),
                "spread": Grouped(Quantiles(lower=0, upper=10, cells=5), ["N", "S"]),
                "largest": TopK(["c", "a", "b"], 2),
            },
            columns={
                "regions": "region", "paid": ["city", "paid"], "spread": ["region", "paid"],
                "largest": "city",
            },
            groups={"regions": ["N", "S"]},
        ),
        "six": Report(
            {
                "n": Count(),
                "paid": Average(0, 10, resolution=1),
                "total": Sum(0, 10, resolution=1),
                "spread": Quantiles(lower=0, upper=10, cells=5),
                "low": Sum(0, 2, resolution=1),
                "places": Hierarchy(TREE),
            },
            **value,
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", [long(one) if one in ("tables", "six") else one for one in several()]
)
def test_report_passes_statistic_checks(name: str) -> None:
    report = several()[name]
    for one in (
        report,
        report.resolve_parameters(PureDP(1), 4),
        report.resolve_parameters(ZCDP(1), 4),
    ):
        rows = [{column: row[column] for column in one.column_names} for row in ROWS]
        check_statistic(one, [rows[:4], rows[4:], []])


class Forgetful(Report):
    """Forgets what a row changes in all statistics but the first."""

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        first = next(iter(self.measured_ones))
        l1, l2 = norms_of(self.statistics[first])
        weight = self.weight(first)
        moved = BoundedChange(weight * l1, weight**2 * l2, single_step=True)
        return ContributionBound.of_pattern(moved, "which counts in all", unit=self.unit)


def test_checks_reject_report_that_omits_statistic() -> None:
    told = daily().resolve_parameters(PureDP(1), 4).parameters
    check_statistic(Report(**told), [ROWS[:4], ROWS[4:]])
    with pytest.raises(PropertyViolationError, match="changes"):
        check_statistic(Forgetful(**told), [ROWS[:4], ROWS[4:]])


def test_derived_count_is_measured_once() -> None:
    reports = several()
    assert reports["daily"].derived_from == {"visits": "paid"}
    assert reports["one column"].derived_from == {"n": "all", "paid": "all", "total": "all"}
    assert reports["tables"].derived_from == {"n": "places"}
    assert reports["sums"].derived_from == {}
    finer = Report(
        {"paid": Average(0, 10, resolution="0.1"), "all": Moments({"paid": (0, 10)}, grid=10)},
        columns={"paid": "paid"},
    )
    assert finer.derived_from == {}  # whose values the moments round further than wanted
    others = Report(
        {"paid": Average(0, 20, resolution=1), "all": Moments({"paid": (0, 10)}, grid=10)},
        columns={"paid": "paid"},
    )
    assert others.derived_from == {}
    columns = Report(
        {"paid": Average(0, 10, resolution=1), "all": Moments({"age": (0, 10)}, grid=10)},
        columns={"paid": "paid"},
    )
    assert columns.derived_from == {}


def exact(report: Report, rows: list[dict[str, Any]]) -> Any:
    """What is read where there is next to no noise."""
    guarantee = PureDP(4000)
    counter = RunningStatistic.start(
        report, 1, guarantee, key=Key.generate(), name="exact", batched=True
    )
    return counter.release_batch(rows)


def test_report_members_equal_single_statistics() -> None:
    rows = [ROWS[place % len(ROWS)] for place in range(501)]
    for report in several().values():
        own = [{column: row[column] for column in report.column_names} for row in rows]
        reading = exact(report, own)
        for name, one in report.statistics.items():
            columns = report.columns[name]
            events: Any = [tuple(row[column] for column in columns) for row in own]
            if len(columns) == 1 and not isinstance(one, Moments | Hierarchy | Contingency):
                events = [event[0] for event in events]
            if isinstance(one, Grouped):
                one = Grouped(one.inner, one.groups)
                inner = one.inner.parts
                events = [(event[0], event[1] if inner else None) for event in events]
            counter = RunningStatistic.start(
                one, 1, PureDP(4000), key=Key.generate(), name=name, batched=True
            )
            alone = counter.release_batch(events or own).table_columns()
            together = reading.of(name).table_columns()
            assert np.allclose(
                np.asarray(alone["estimate"], float),
                np.asarray(together["estimate"], float),
                atol=0.3,
            ), (name, report)


def drawn(number: int) -> Report:
    """A report of sums with norms and shares of all sizes."""
    rng = np.random.default_rng(number)
    names = [f"s{place}" for place in range(int(rng.integers(2, 7)))]
    sums = {name: Sum(0, int(10 ** rng.uniform(0, 2)), resolution=1) for name in names}
    shares = {name: round(float(10 ** rng.uniform(-1, 1)), 3) for name in names}
    return Report(sums, columns=dict.fromkeys(names, "x"), shares=shares)


def furthest_from_shares(report: Report, weights: dict[str, int], norm: int) -> float:
    """How far an error is from that of its exact share, as a fraction of it."""
    norms = {name: norms_of(one)[norm - 1] for name, one in report.measured_ones.items()}
    moved = {name: weights[name] ** norm * norms[name] for name in norms}
    wanted = {name: one / sum(report.shares.values()) for name, one in report.shares.items()}
    got = {name: one / sum(moved.values()) for name, one in moved.items()}
    off = (float((wanted[name] / got[name]) ** (1 / norm)) - 1 for name in norms)
    return max(map(abs, off))


@pytest.mark.parametrize("number", range(24))
@pytest.mark.parametrize("norm", [1, 2])
def test_weights_divide_the_budget_by_shares(number: int, norm: Norm) -> None:
    report = drawn(number)
    weights = weights_for_noise(report, norm)
    assert furthest_from_shares(report, weights, norm) < 1e-3
    assert furthest_from_shares(report, {**weights, "s0": 2 * weights["s0"]}, norm) > 1e-3
    settled = report.resolve_parameters(PureDP(1) if norm == 1 else ZCDP(1), 4)
    assert settled.weights == weights


def test_weights_are_smallest_integers() -> None:
    def weights(norm: Norm, **shares: float) -> list[int]:
        sums: dict[str, Any] = {"a": Sum(0, 60, resolution=1), "b": Sum(0, 1, resolution=1)}
        report = Report(sums, columns={"a": "x", "b": "x"}, shares=shares)
        return [*weights_for_noise(report, norm).values()]

    assert weights(1) == weights(2) == [1, 60]
    assert weights(2, b=4) == [1, 120]  # a share of rho is a square of weights
    large: dict[str, Any] = {"a": Sum(0, 1000, resolution="1e-9"), "b": Sum(0, 1, resolution=1)}
    with pytest.raises(InvalidInputError, match="coarser resolution"):
        weights_for_noise(Report(large, columns={"a": "x", "b": "x"}), 1)


def test_measured_once_is_better_than_twice() -> None:
    """A count beside an average: half-widths with what follows, and of a count of its own."""
    guarantee = PureDP(1)
    steps = 12
    once = Report({"n": Count(), "paid": Average(0, 10, resolution=1)}, columns={"paid": "paid"})
    own: dict[str, Any] = {"n": Sum(0, 1, resolution=1), "paid": once.statistics["paid"]}
    twice = Report(own, columns={"n": "one", "paid": "paid"})

    def half(report: Report, name: str) -> float:
        report = report.resolve_parameters(guarantee, steps)
        best = plan(steps, guarantee, contribution=report.contribution(), compare=False).best
        return best.errors.halfwidth(steps) / report.weight(name)

    assert once.measured_ones.keys() == {"paid"}
    assert half(once, "paid") < 0.51 * half(twice, "paid")


def test_hierarchy_of_counts_gives_no_number_of_rows() -> None:
    rows = Hierarchy(TREE)
    counts = Hierarchy(TREE, counts=True)
    assert (rows.gives(None), counts.gives(None), rows.gives(0)) == ({"count": ()}, {}, {})


def test_report_refuses_unsuitable_statistics() -> None:
    for one, why in (
        (Distinct(changes=7), "rows in their order"),
        (Episodes("ab", 2), r"\(Episodes\) that needs its rows in their order"),
        (TopK(["a", "b"], cells=2), "rows in their order"),
        (TopK(["a", "b"], neighbours="replace"), "the values of a row"),
        (Hierarchy(TREE, counts=True), "counts a row more than once"),
        (Average(0, 1, 1, number=3), "rows in their order"),
        (daily(), "has rows that change several"),
    ):
        with pytest.raises(InvalidInputError, match=f"{why}.*beside the report"):
            Report({"n": Count(), "x": one})
    with pytest.raises(InvalidInputError, match="events of Python do not name their user"):
        exact(Report({"n": Count(), "people": Distinct()}), ROWS)
    with pytest.raises(InvalidInputError, match="no statistic of the report reads a column"):
        Report({"n": Count(), "m": Count()})
    with pytest.raises(InvalidInputError, match="62 bits"):
        Report(
            {f"s{number}": Sum(0, 1, resolution="1e-9") for number in range(3)},
            columns={f"s{number}": f"x{number}" for number in range(3)},
        )
    with pytest.raises(InvalidInputError, match="a report has one that does not fade"):
        daily().resolve_parameters(ExpiringDP(1), None)
    with pytest.raises(InvalidInputError, match="is not a statistic of the report"):
        Report({"x": Sum(0, 7, resolution=1)}, columns={"x": "x", "nobody": "x"})


def test_rows_that_cannot_be_counted_are_refused_and_change_nothing() -> None:
    report = daily()
    counter = RunningStatistic.start(
        report, 3, PureDP(4000), key=Key.generate(), name="r", batched=True
    )
    for wrong, said in (
        ({"city": "b", "region": "S"}, "belongs to no cell"),  # each is declared, not the pair
        ({"city": "elsewhere"}, "belongs to no cell"),
        ({"city": ["a"]}, "belongs to no cell"),
        ({"paid": float("nan")}, "must be finite"),
        ({"paid": "many"}, "must be numbers"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            counter.release_batch([*ROWS, {**ROWS[0], **wrong}])
    assert counter.step == 0
    right: Any = counter.release_batch(ROWS)
    assert round(right["visits"]) == 9


def test_weights_do_not_make_sums_wrap() -> None:
    told = {**daily().resolve_parameters(PureDP(1), 4).parameters}
    told["weights"] = dict.fromkeys(told["weights"], 2**34)
    sums = np.full((1, daily().n_accumulators), 2**30, np.int64)
    with pytest.raises(SumOverflowError, match="may reach"):
        Report(**told).measure(sums)


# Through whole jobs.

FRAME = pl.DataFrame(
    [
        {
            "at": f"2024-03-{1 + number % 9:02}T12:00", "who": f"u{number % 40}",
            "page": ("home", "shop")[number % 3 == 0], **ROWS[(5 * number) % len(ROWS)],
        }
        for number in range(400)
    ]
)  # fmt: skip
STREAM: dict[str, Any] = {
    "time": "at", "every": "1d", "start": "2024-03-01", "windows": 20, "until": "2024-03-10",
}  # fmt: skip


def released(report: Report, folder: Path, frame: pl.DataFrame = FRAME, **more: Any) -> Release:
    state = str(folder / f"{len(list(folder.iterdir()))}.db")
    with run(Job(report, frame, state, **{**STREAM, **more})) as outcome:
        return Release(outcome.read().numbers)


def test_report_job_counts_rows_correctly(tmp_path: Path) -> None:
    found = released(daily(), tmp_path, epsilon=4000)
    last = found.table().filter(pl.col("window_index") == 9)

    def number(statistic: str, **labels: Any) -> float:
        return float(last.filter(statistic=statistic, **labels)["estimate"][0])

    assert number("visits") == pytest.approx(400, abs=0.3)
    assert number("paid", measure="mean") == pytest.approx(
        sum(FRAME["paid"]) / FRAME.height, abs=0.01
    )
    assert number("paid", measure="sum") == pytest.approx(sum(FRAME["paid"]), abs=1)
    for region, rows in FRAME.group_by("region"):
        assert number("places", group=region[0]) == pytest.approx(rows.height, abs=0.5)
    assert 0 < number("spread", quantile=0.5) < 6


@pytest.mark.long
def test_report_supports_groups_users_and_late_rows(tmp_path: Path) -> None:
    more: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop"], "epsilon": 4000}
    found = released(daily(), tmp_path, **more)
    last = found.table().filter((pl.col("window_index") == 9) & (pl.col("statistic") == "visits"))
    numbers = dict(last.select("group", "estimate").rows())
    pages = dict(FRAME["page"].value_counts().rows())
    assert {group: round(number) for group, number in numbers.items()} == pages
    bounded = released(
        daily(), tmp_path, user="who", max_contributions=2, contribution_period="1d", epsilon=4000
    )
    kept = FRAME.with_columns(day=pl.col("at").str.slice(0, 10))
    counted = int(kept.group_by("who", "day").len()["len"].clip(upper_bound=2).sum())
    one = bounded.part("visits").table().filter(pl.col("window_index") == 9)
    assert float(one["estimate"][0]) == pytest.approx(counted, abs=0.3)
    parts = [FRAME.filter(pl.col("at") < "2024-03-05"), FRAME.filter(pl.col("at") >= "2024-03-05")]
    state = str(tmp_path / "late.db")
    for until, rows in (("2024-03-09", parts[1]), ("2024-03-10", parts[0])):
        again = release(
            daily(), rows, state=state, append=True, epsilon=4000, allow_empty_windows=True,
            **{**STREAM, "until": until},
        )  # fmt: skip
    late = again.table().filter((pl.col("window_index") == 9) & (pl.col("statistic") == "visits"))
    assert float(late["estimate"][0]) == pytest.approx(400, abs=0.3)


def test_bound_on_users_holds_for_whole_report(tmp_path: Path) -> None:
    """All a person's rows move all cells, times their weights, by no more than is stated."""
    report = Report(
        {"n": Sum(0, 1, resolution=1), "paid": Average(0, 10, resolution=1)},
        columns={"n": "region", "paid": "paid"},
    )
    rows = [{"region": 1, "paid": paid} for paid in (0, 10)]
    for most, several_rows in ((1, 3), (2, 5)):
        definition = None
        with run(
            Job(
                report,
                pl.DataFrame(
                    [
                        {"at": "2024-03-01T10:00", "who": "x", **rows[place % 2]}
                        for place in range(several_rows)
                    ]
                ),
                str(tmp_path / f"p{most}.db"),
                **STREAM,
                user="who",
                max_contributions=most,
                epsilon=1,
                allow_empty_windows=True,
            )
        ) as outcome:
            definition = outcome.spec.metadata()
        settled = definition.statistic
        assert isinstance(settled, Report)
        stated = definition.contribution.pattern
        assert isinstance(stated, BoundedChange)
        combos = itertools.combinations_with_replacement(rows, most)
        moved = [settled.begin().take([*some], np.array([most]))[0] for some in combos]
        assert max(int(np.abs(one).sum()) for one in moved) <= stated.l1
        assert stated.l1 == most * settled.contribution().pattern.l1  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", [".parquet", *(long(one) for one in (".csv", ".json"))])
def test_a_file_answers_for_the_report_and_each_statistic(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"daily{ending}"
    own = release(
        daily(),
        FRAME,
        state=tmp_path / "s.db",
        epsilon=2,
        output=path,
        user="who",
        max_contributions=3,
        **STREAM,
    )
    found = read(path)
    assert found.table().equals(own.table())
    assert found.methods(full=True) == own.methods(full=True)
    for name in daily().statistics:
        assert found.part(name).table().equals(own.part(name).table())
    places = found.part("places").table()
    assert set(places["tree_level"]) == {"total", "region", "city"}
    if ending == ".parquet":
        with pytest.raises(InvalidInputError, match="is not a statistic of the report"):
            found.part("nobody")


def test_derived_count_answers_like_count(tmp_path: Path) -> None:
    report = Report(
        {"n": Sum(0, 1, resolution=1), "spread": Quantiles(lower=0, upper=10, cells=5)},
        columns={"n": "one", "spread": "paid"},
    )
    frame = FRAME.with_columns(one=pl.lit(1))
    found = released(report, tmp_path, frame, epsilon=4000)
    counts = found.part("n")
    week = counts.sums("1w")
    assert week.height
    assert counts.table()["estimate"][-1] == pytest.approx(400, abs=0.3)
    apart = counts.difference("all", "all", steps="1:4", other_steps="5:8")
    exact_apart = [
        FRAME.filter(pl.col("at").str.slice(8, 2).cast(int).is_between(*ends)).height
        for ends in ((1, 4), (5, 8))
    ]
    assert apart.value == pytest.approx(exact_apart[0] - exact_apart[1], abs=0.5)


ORDER = """[report.odd]
events = "e.csv"
state = "s.db"
time = "at"
every = "1d"
start = "2024-03-01"
windows = 4
until = "2024-03-03"
epsilon = 4000

[report.odd.visits]
statistic = "count"

[report.odd.by-page]
statistic = "count"
group-by = "page"
groups = "PAGES"

[report.odd.all]
statistic = "count"
"""


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_table_of_report_is_ordered_by_window_and_job_file(tmp_path: Path, ending: str) -> None:
    """Not by the names of statistics or of groups; the screen shows all rows, in order."""
    pages = [f"p{number}" for number in range(30, 0, -1)]
    rows = [f"2024-03-0{day},{page}\n" for day in (2, 1) for page in pages]
    (tmp_path / "e.csv").write_text("at,page\n" + "".join(rows))
    (tmp_path / "r.toml").write_text(ORDER.replace("PAGES", ",".join(pages)))
    job = load(tmp_path / "r.toml")["odd"]
    run(job).close()
    once = [("visits", None), *(("by-page", page) for page in pages), ("all", None)]
    wanted = [(step, *row) for step in (1, 2) for row in once]
    file = tmp_path / f"t.{ending}"
    found = export(tmp_path / "s.db", file)
    for one in (found, read(file)):
        assert one.table().select("window_index", "statistic", "group").rows() == wanted
    (shown,) = screen_of(found.numbers).tables
    assert [row[0] for row in shown.rows] == ["visits", *["by-page"] * 30, "all"]
    assert screen_of(found.numbers).left_out == ""


def test_a_report_answers_differences_and_ratios(tmp_path: Path) -> None:
    found = released(daily(), tmp_path, epsilon=4000)
    number = found.difference("visits", "places region N")
    north = FRAME.filter(pl.col("region") == "N").height
    assert number.value == pytest.approx(400 - north, abs=0.5)
    assert number.lower <= 400 - north <= number.upper
    means = found.difference("paid mean", "paid mean", steps="1:4", other_steps="5:8")
    exact_means = [
        FRAME.filter(pl.col("at").str.slice(8, 2).cast(int).is_between(*ends))["paid"]
        for ends in ((1, 4), (5, 8))
    ]
    apart = [sum(values) / len(values) for values in exact_means]
    assert means.value == pytest.approx(apart[0] - apart[1], abs=0.02)
    alone = found.part("paid").difference("mean", "mean", steps="1:4", other_steps="5:8")
    assert (alone.value, alone.lower, alone.upper) == (means.value, means.lower, means.upper)
    visits = found.part("visits").ratio("all", "all", steps="1:4", other_steps="5:8")
    assert visits.value == pytest.approx(len(exact_means[0]) / len(exact_means[1]), abs=0.02)


FILE = """
[defaults]
state = "{folder}/v.db"
epsilon = 2

[report.daily]
events = "{folder}/visits.csv"
time = "at"
every = "1d"
start = "2024-03-01"
windows = 20
until = "2024-03-10"
user = "who"
max-contributions = 3

[report.daily.visits]
statistic = "count"
share = 3

[report.daily.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 10
resolution = 1
share = 2

[report.daily.places]
statistic = "hierarchy"
levels = "region,city"
groups = "places.csv"

[report.daily.people]
statistic = "distinct"

[report.daily.pages]
statistic = "top-k"
group-by = "page"
groups = "home,shop"
top = 1

[report.daily.cities]
group-by = "city"
groups = ["a", "b", "c"]
"""


@pytest.mark.long
def test_a_job_file_has_reports(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "visits.csv")
    (tmp_path / "places.csv").write_text("region,city\nN,a\nN,b\nS,c\n")
    file = tmp_path / "nightly.toml"
    file.write_text(FILE.format(folder=tmp_path))
    (job,) = load(file).values()
    assert job.stream == "daily"
    for _ in range(2):  # the second night changes nothing, and is no other report
        with run(job) as outcome:
            report = outcome.spec.metadata().statistic
            table = outcome.read().table()
    assert isinstance(report, Report)
    names = ["visits", "paid", "places", "people", "pages", "cities"]
    assert [*report.statistics] == names
    assert report.shares == {"visits": 3, "paid": 2}
    assert set(table["statistic"]) == {*names}
    pages = table.filter((pl.col("statistic") == "pages") & (pl.col("window_index") == 9))
    assert pages["group"].to_list() == ["home"]
    saved = tmp_path / "saved.toml"
    save(job, saved)
    (again,) = load(saved).values()
    with run(again.derive(until="2024-03-10")) as outcome:  # which no file keeps
        assert outcome.read().table().equals(table)


def test_job_file_with_invalid_report_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text('[report.daily]\nevents = "x.csv"\nstate = "v.db"\n')
    with pytest.raises(InvalidInputError, match="contains no statistic"):
        load(file)
    wrong = FILE.format(folder=tmp_path).replace("lower = 0", "lowest = 0")
    file.write_text(wrong)
    FRAME.write_csv(tmp_path / "visits.csv")
    (tmp_path / "places.csv").write_text("region,city\nN,a\nN,b\nS,c\n")
    with pytest.raises(
        InvalidInputError, match="average has no option 'lowest'; did you mean lower"
    ):
        run(next(iter(load(file).values())))
    file.write_text(FILE.format(folder=tmp_path) + '\n[jobs.daily]\nevents = "x.csv"\n')
    with pytest.raises(InvalidInputError, match="job and a report called 'daily'"):
        load(file)


def test_resolved_report_is_allowed_by_its_definition() -> None:
    for report in several().values():
        settled = report.resolve_parameters(ZCDP(1), 4)
        assert report.allows(settled)
        assert not settled.allows(several()["sums"]) or report.column_names == ("paid",)
    grouped = Grouped(daily(), ["n", "s"]).resolve_parameters(PureDP(1), 4)
    assert grouped.cells == (2, *daily().cells)


def test_windows_of_another_length_are_a_job_of_their_own(tmp_path: Path) -> None:
    statistics = {"visits": {"statistic": "count"}, "days": {"statistic": "count", "every": "1d"}}
    asked: dict[str, Any] = {"statistics": statistics, "time": "time", "every": "1h", "windows": 9}
    with pytest.raises(InvalidInputError, match="gives 'days' windows of its own"):
        run(
            Job(
                "report", pl.DataFrame({"time": ["2024-03-01"]}), tmp_path / "s.db",
                start="2024-03-01", epsilon=1, **asked,
            )
        )  # fmt: skip

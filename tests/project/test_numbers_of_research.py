"""Numbers in the text of the pages of research, guarantees and reference are computed again."""

import io
import math
import re
import tokenize
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks import whole_processes
from counton import ZCDP, PureDP, plan, plan_cells, plan_expiring
from counton.base.distributions import DiscreteLaplace
from counton.cli.print_forms import LARGEST_PROTECTING_LOSS
from counton.planning import least_privacy
from counton.serve import settings
from counton.strategies import Binary, KAry, matrices
from counton.strategies.strategy import LARGEST_DENSE
from counton.tables import optimal
from papers import tried
from papers.ranges.largest_error import expected_largest_error
from papers.survey import lengths
from tools.prose import LONG_SENTENCE_WORDS

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """Return the text of a page without line breaks."""
    return " ".join((ROOT / f"{name}.md").read_text("utf-8").split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("horizon", "sentence"),
    [
        (365, "Plans need {:.2f} times its standard deviation at 365 steps and"),
        (10**9, "at 365 steps and {:.1f} times at 10⁹."),
    ],
)
def test_mechanisms_state_distance_from_bound_with_laplace_noise(
    horizon: int, sentence: str
) -> None:
    choices = plan(horizon, PureDP(1), compare=False)
    (least,) = choices.least_std().values()
    times = choices.best.errors.mean_std / least
    assert sentence.format(times) in page("docs/research/mechanisms")


@pytest.mark.long
@pytest.mark.slow
def test_mechanisms_state_distance_from_bound_with_gaussian_noise() -> None:
    above = []
    for steps in (2**20 + 1, 2**25, 2**40, 2**50):
        choices = plan(steps, ZCDP(0.5), compare=False)
        (least,) = choices.least_std().values()
        assert type(choices.best.strategy).__name__ == "MultiscaleStrategy"
        above.append(100 * (choices.best.errors.mean_std / least - 1))
    stated = f"is at most {max(above):.1f} per cent above the bound up to 2^50 steps."
    assert stated in page("docs/research/mechanisms")


def test_mechanisms_state_best_arity() -> None:
    text = page("docs/research/mechanisms")
    assert f"`KAry.best(2**16)` has arity {KAry.best(2**16).arity}." in text
    limits = {k: k * (1 - k**-2) / math.log(k) ** 3 for k in range(3, 101, 2)}
    best = min(limits, key=limits.__getitem__)
    assert f"In the limit, k-ary trees are best with arity {best}." in text


def test_expiring_plan_states_noise_over_its_steps() -> None:
    errors = plan_expiring({24: 1, 365 * 24: 3}).best.errors
    steps_of_year = np.arange(1, 8761)
    some_steps = np.random.default_rng(0).integers(1, 10**8, 200_000)
    year, thousand, long = (
        math.sqrt(np.mean(errors.std(steps) ** 2))
        for steps in (steps_of_year, steps_of_year[:1000], some_steps)
    )
    stated = (
        f"The standard deviation is {year:.0f} events over the hours of a year, {thousand:.0f} "
        f"over a thousand releases, and {long:.0f} over a hundred million."
    )
    assert stated in page("docs/research/privacy-expiration")


def test_accuracy_states_numbers_of_recorded_lengths() -> None:
    rows = lengths.recorded()
    above = max(100 * (row.hdmm / row.plan - 1) for row in rows)
    assert 0.05 < max(100 * row.excess for row in rows) < 0.1
    text = page("docs/research/accuracy")
    assert f"HDMM's search ends up to {above:.1f} per cent above plans." in text
    assert "Plans are at most .1 per cent above the best of both." in text
    assert f"computes the {len(rows)} lengths of `papers/survey/lengths.json`" in text
    longest = f"HDMM only for series of up to {lengths.LENGTHS[-1]:,} totals."
    assert longest in page("README")


def test_accuracy_states_nodes_of_far_reads() -> None:
    nodes = np.bitwise_count(np.arange(1, 8761)).mean()
    text = page("docs/research/accuracy")
    assert f"100,000 totals among 10^9 cells at 8,760 steps then take {nodes:.1f} nodes" in text


def test_comparison_states_errors_of_independent_noise() -> None:
    variance = float(DiscreteLaplace(Fraction(1)).variance)
    error = math.sqrt(np.mean(variance * np.arange(1, 366)))
    text = page("docs/research/comparison")
    assert f"an error of √(t · {variance:.2f}) after t days. Its root mean square is" in text
    assert f"Its root mean square is {error:.1f}." in text
    assert f"| **7.9** | {error:.1f}; at the end of the year 10.3 |" in text
    mean = np.mean(np.arange(1, 513))
    eight = math.sqrt(8 * mean)
    assert f"With independent noise the error would be √(8 · {mean}) = {eight:.1f}." in text


def test_comparison_has_the_recorded_times() -> None:
    """`python -m benchmarks.whole_processes --record` has written them."""
    recorded = whole_processes.recorded()
    table = "\n".join(whole_processes.row(work, seconds) for work, seconds in recorded.items())
    text = (ROOT / "docs" / "research" / "comparison.md").read_text("utf-8")
    assert f"{whole_processes.HEADER}\n{table}\n" in text
    (first, *others) = recorded.values()
    assert first[0] < max(first)
    assert all(seconds[0] == max(seconds) for seconds in others)
    csv_seconds = [recorded[work] for work in recorded if work.endswith("rows of CSV")]
    assert csv_seconds[0][2] == min(csv_seconds[0])


def divergence_of_answer(right: float, alpha: float) -> float:
    """Return the Renyi divergence of an answer that is right with this probability."""
    wrong = 1 - right
    moment = right**alpha * wrong ** (1 - alpha) + wrong**alpha * right ** (1 - alpha)
    return math.log(moment) / (alpha - 1)


def largest_difference_of_rates(orders: list[float]) -> float:
    """Return the largest difference of rates of such an answer with rho = 2 at these orders."""
    low, high = 0.51, 1 - 1e-6
    while high - low > 1e-9:
        right = (low + high) / 2
        is_private = all(divergence_of_answer(right, alpha) <= 2 * alpha for alpha in orders)
        low, high = (right, high) if is_private else (low, right)
    return 2 * low - 1


def test_details_state_difference_of_rates() -> None:
    """The definition has whole orders only; between 1 and 2, orders allow less."""
    whole = largest_difference_of_rates([float(alpha) for alpha in range(2, 30)])
    every = largest_difference_of_rates(np.arange(1.001, 30, 0.01).tolist())
    normals = 2 * NormalDist().cdf(1) - 1
    assert (
        f"Its true positive rate can exceed its false positive rate by {whole:.2f}. The difference "
        f"is {normals:.2f} for two normal distributions. It can be {every:.2f} if all orders above "
        "1 are bounded, not only whole ones."
    ) in page("docs/guarantees/details")


def test_details_state_change_by_an_inserted_row() -> None:
    _, measured = matrices(Binary(32), exact=False)
    sensitivity = abs(measured).sum(axis=0).max()
    rows = np.arange(31) // 2 % 2
    before = np.append(rows, 0)
    after = np.insert(rows, 15, 1)
    assert abs(measured @ (after - before)).sum() > 2 * sensitivity
    stated = (
        "one row inserted in the middle of 32 rows can change the *measurements* by more than "
        "twice the stated sensitivity."
    )
    assert stated in page("docs/guarantees/details")


def test_details_state_bound_of_normals_from_devices() -> None:
    """Uniform numbers have 24 bits in JAX and on a CPU, and 32 bits and a half with CUDA."""
    jax = -NormalDist().inv_cdf(2**-25)
    of_torch = [math.sqrt(2 * math.log(2**bits)) for bits in (24, 33)]
    assert 6 < max(jax, *of_torch) < 7
    assert "are never more than 7 standard deviations." in page("docs/guarantees/details")


def test_verification_states_length_of_the_reference() -> None:
    """Lines with code: neither empty, nor of a comment or a docstring."""
    program = (ROOT / "proofs" / "reference.py").read_text("utf-8")
    other = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(program).readline)
        if token.type not in other | {tokenize.ENDMARKER}
        and not token.line.lstrip().startswith('"""')
    ]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    stated = f"`proofs/reference.py`, about {round(len(lines), -2):,} lines of code"
    assert stated in page("docs/guarantees/verification")


def test_glossary_states_rounded_numbers_of_distributions() -> None:
    text = page("docs/reference/glossary")
    assert f"its standard deviation is about {math.sqrt(2):.1f} b." in text
    within = [2 * NormalDist().cdf(times) - 1 for times in (1, 2)]
    stated = f"about {10 * within[0]:.0f} of 10 numbers are within one, {20 * within[1]:.0f} of 20"
    assert stated in text


def test_hierarchies_state_bias_of_numbers_that_are_not_negative() -> None:
    bias = 1 / math.sqrt(2 * math.pi)  # of the positive part of a normal variable
    assert f"too large by up to {bias:.1f} standard deviations" in page(
        "docs/statistics/hierarchies"
    )


def test_pages_state_limits_of_losses_groups_and_names() -> None:
    refused = 10**least_privacy._HIGHEST_POWER_OF_TEN
    stated = f"above {refused:,} is refused. Above {LARGEST_PROTECTING_LOSS}, counton warns you."
    assert stated in page("docs/guides/plan")
    assert f"at most {settings.MOST_NAME} letters, digits" in page("docs/reference/http-api")
    assert f"at most {LONG_SENTENCE_WORDS} words. It has one" in page("CONTRIBUTING")


@pytest.mark.long
@pytest.mark.slow
def test_strategies_state_simulated_largest_errors() -> None:
    """Each run has another key, so means differ by less than one count."""
    largest = {"cascade": 20, "binary": 22, "identity": 49}
    for name, stated in largest.items():
        choice = plan_cells(1024, guarantee=ZCDP(0.5), line=name).choices[0]
        mean = expected_largest_error(choice, "ranges", runs=4000).mean
        assert mean == pytest.approx(stated, abs=1.5)
    sentence = (
        "It is about {cascade} counts for `cascade`, {binary} for `binary` and {identity} for"
    )
    assert sentence.format(**largest) in page("docs/reference/strategies")


def test_strategies_state_where_search_stops() -> None:
    longest = (4 * optimal._COARSE, LARGEST_DENSE)
    gaps = [100 * optimal._gap(cells) for cells in longest]
    stated = (
        f"`optimal` stops within {gaps[0]:.1f}% of a proven lower bound up to {longest[0]:,} "
        f"cells, and within {gaps[1]:.1f}% up to {longest[1]:,}."
    )
    assert stated in page("docs/reference/strategies")
    assert optimal._gap(longest[0] + 1) > optimal._gap(longest[0])
    assert longest[0] == optimal.LONGEST_LAPLACE_LINE


def test_theory_states_variances_of_blocks() -> None:
    rows = [line.split(" | ") for line in tried.blocks()]
    text = (ROOT / "docs" / "research" / "theory.md").read_text("utf-8")
    start = text.index("| steps | growing square root alone | over blocks |")
    stated = text[start:].split("\n\n")[0].splitlines()[2:]
    computed = {f"| {' | '.join(cell.strip() for cell in row)} |" for row in rows}
    assert len(stated) == 5
    assert {*stated} <= computed


def test_pages_state_sizes_of_audits() -> None:
    audit = (ROOT / "tests" / "audit" / "test_auditorium.py").read_text("utf-8")
    outside = (ROOT / "tests" / "privacy" / "test_audited_from_outside.py").read_text("utf-8")
    groups = int(re.findall(r"^GROUPS = ([\d_]+)$", audit, re.MULTILINE)[0])
    draws = int(re.findall(r"^RUNS = ([\d_]+)$", outside, re.MULTILINE)[0])
    least = float(re.findall(r"assert ([\d.]+) \* epsilon < right <= epsilon", outside)[0])
    wrong = float(re.findall(r"assert wrong > ([\d.]+) \* epsilon", outside)[0])
    text = page("docs/guarantees/verification")
    assert f"computes a lower bound of δ from {groups:,} groups." in text
    stated = (
        f"From {draws:,} Laplace draws for ε = 1, this bound is between {least} and 1. If the "
        f"noise is half as wide, so that ε = 2, it is above {wrong}."
    )
    assert stated in text


def test_pages_state_numbers_of_files() -> None:
    container = (ROOT / "Containerfile").read_text("utf-8")
    group = re.findall(r"^USER \d+:(\d+)$", container, re.MULTILINE)[0]
    assert f"need a volume that group {group} can read." in page("docs/guides/deploy")
    package = (ROOT / "examples" / "blocks" / "counton_blocks.py").read_text("utf-8")
    stated = f"`examples/blocks` is such a package, with {len(package.splitlines())} lines."
    assert stated in page("docs/research/extend")


def test_accuracy_states_gain_of_least_squares() -> None:
    """`tests/papers/test_survey_names.py` computes these factors."""
    text = page("docs/research/accuracy")
    assert "3.43 instead of 4.48, and 2.77 instead of 2.86." in text
    names = (ROOT / "tests" / "papers" / "test_survey_names.py").read_text("utf-8")
    for ours, published in (("3.428", "4.476"), ("2.772", "2.859")):
        assert f"{ours} / {published}" in names
        assert f"{float(ours):.2f} instead of {float(published):.2f}" in text


def test_comparison_states_limit_of_the_benchmark() -> None:
    rows = (ROOT / "benchmarks" / "rows" / "unchanged_files.py").read_text("utf-8")
    (limit,) = re.findall(r"compared with imports\", many / imports, ([\d.]+),", rows)
    stated = f"It takes at most {limit} times the CPU time of importing numpy and polars"
    assert stated in page("docs/research/comparison")

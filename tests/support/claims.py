"""The truth about a release, computed from its job, and every sentence that may be said of it.

A text is read from its beginning to its end: each part must be one of the sentences here, and its
numbers must be those that are computed here once more, by brute force where that is possible.
"""

import html
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from counton import Release
from counton.base.distributions import DiscreteLaplace
from counton.base.exact import with_capital
from counton.base.lazy import software
from counton.base.literature import REFERENCES, paper_of
from counton.continual import Design
from counton.continual.strategy_text import strategy_in_words
from counton.planning import factors_of_design
from counton.results.released_table import last_rows, table_of
from counton.run import Job
from counton.statistics.by_group import inner_of
from counton.statistics.statistic import Statistic
from counton.strategies import AsOf, StreamStrategy, WindowVersions, matrices

#: Largest number of codes of rows that are all tried.
_MOST_CODES = 3000


@dataclass
class Truth:
    """What holds for a release, from its job and the options of its form."""

    job: Job
    released: Release
    form: str
    guarantee: str
    unit: str
    #: How many windows have been released, and how often each is released again.
    windows: int = 3
    lags: int = 0

    @property
    def design(self) -> Design:
        return self.released.numbers.design

    @property
    def is_once(self) -> bool:
        return self.form == "once"

    @property
    def noun(self) -> str:
        return "step" if self.is_once else "window"

    @property
    def strategy(self) -> StreamStrategy:
        strategy: StreamStrategy = self.design.strategy
        return strategy.windows if isinstance(strategy, AsOf) else strategy

    @property
    def statistic(self) -> Statistic:
        return self.released.numbers.metadata.statistic

    @property
    def is_additive(self) -> bool:
        return bool(self.statistic.additive)

    @cached_property
    def factorisation(self) -> tuple[Any, Any]:
        """Dense B and C over the steps, or over the versions of one window."""
        strategy = self.strategy
        if isinstance(strategy, WindowVersions):
            strategy = strategy.inner
        released, measured = matrices(strategy)
        return np.asarray(released, float), np.asarray(measured, float)

    @property
    def has_matrices(self) -> bool:
        return self.form not in ("endless", "expiring")

    @property
    def is_correlated(self) -> bool:
        """Whether a measurement counts rows of several steps, or versions."""
        if not self.has_matrices:
            return True
        _, measured = self.factorisation
        together = measured.T @ measured
        return bool(np.abs(together - np.diag(np.diag(together))).max() > 1e-9)

    def change_of_row(self) -> tuple[float, float]:
        """The largest 1-norm and 2-norm by which one row changes the measured cells of its step.

        In multiples of the units of the data, for counts and sums; else of the cells.
        """
        statistic: Any = self.statistic
        if self.job.statistic == "sum":
            return 9.0, 9.0
        if self.is_additive or self.job.statistic == "reach":  # a row has one rank, and so one cell
            return 1.0, 1.0
        low, high = statistic.code_bounds()
        rows: Sequence[int] = range(low, high + 1)
        if len(rows) > _MOST_CODES:  # the largest ones, and many others
            chosen = np.random.default_rng(5).integers(low, high + 1, _MOST_CODES).tolist()
            rows = [low, high, *chosen]
        sums = np.zeros((len(rows), statistic.n_accumulators), np.int64)
        for place, code in enumerate(rows):
            for cell, amount in statistic.entries(code):
                sums[place, cell] += amount
        cells = np.asarray(statistic.measure(sums), float).reshape(len(rows), -1)
        return float(np.abs(cells).sum(axis=1).max()), float(np.sqrt((cells**2).sum(axis=1).max()))

    @cached_property
    def sensitivity(self) -> tuple[float, float]:
        """The L1 and L2 sensitivity of all measurements to one unit of privacy."""
        _, measured = self.factorisation if not self.is_once else (None, np.ones((1, 1)))
        columns = np.abs(measured).sum(axis=0).max(), np.sqrt((measured**2).sum(axis=0)).max()
        one, two = (
            float(column) * row for column, row in zip(columns, self.change_of_row(), strict=True)
        )
        if self.unit == "event" or self.job.statistic == "distinct":
            return one, two
        if self.job.statistic == "reach":  # a row in each cell, in any steps
            ranks = len(inner_of(self.statistic).counted_ranks)  # type: ignore[attr-defined]
            return ranks * one, math.sqrt(ranks) * two
        return 2 * one, 2 * two  # both rows alike

    @property
    def size_of_cell(self) -> float:
        """The unit of the noise's law, in units of the data or, for a statistic, of its cells."""
        return float(self.design.units.noise)

    @property
    def distribution(self) -> tuple[str, float, float]:
        """The kind of the noise, its scale (or standard deviation), and standard deviation."""
        distribution = self.design.distribution
        if isinstance(distribution, DiscreteLaplace):
            scale = float(distribution.scale)
            decay = math.exp(-1 / scale)
            std = math.sqrt(2 * decay) / (1 - decay)
            return "Laplace", scale * self.size_of_cell, std * self.size_of_cell
        variance = float(distribution.sigma_squared)
        if variance < 1000:  # else the discrete noise is as wide as the continuous one
            most = int(40 * math.sqrt(variance)) + 9
            numbers = np.arange(-most, most + 1)
            chances = np.exp(-(numbers**2) / (2 * variance))
            variance = float((chances * numbers**2).sum() / chances.sum())
        std = math.sqrt(variance) * self.size_of_cell
        return "Gaussian", std, std

    @cached_property
    def stds(self) -> dict[str, list[float]]:
        """Standard deviations of counts or sums: of totals, and of windows, by step."""
        kind, _, std = self.distribution
        assert kind
        if self.is_once or not self.has_matrices:
            return {}
        released, _ = self.factorisation
        rows = released[: self.windows]
        if self.lags:  # the newest window has only its first version
            versions = [min(self.windows - step, self.lags) for step in range(1, self.windows + 1)]
            rows = released[versions]
            return {"a window's own number": [std * float(np.linalg.norm(row)) for row in rows]}
        of_rows = [std * float(np.linalg.norm(row)) for row in rows]
        if self.strategy.facts.release == "windows":
            return {"a window's own number": of_rows}
        apart = np.diff(rows, axis=0, prepend=np.zeros((1, rows.shape[1])))
        windows = [std * float(np.linalg.norm(row)) for row in apart]
        return {"a total": of_rows, "a window's own number": windows}

    def mean_deviation(self, steps: int) -> float:
        """Root of the mean variance of all numbers of the stream, of one measured cell."""
        released, _ = self.factorisation
        return self.distribution[2] * math.sqrt(float((released**2).sum(axis=1)[:steps].mean()))


def close(text: str, truth: float, rel: float = 0.006) -> bool:
    """Whether a printed number is the true one, but for its last digit."""
    number = float(text.replace(",", "").replace("−", "-"))
    digits = len(text.replace(",", "").partition(".")[2])
    return abs(number - truth) <= max(rel * abs(truth), 0.5001 * 10.0**-digits)


#: What a sentence says, checked with the truth; it raises an error if it is false.
Check = Callable[[re.Match[str], Truth], None]
SENTENCES: list[tuple[re.Pattern[str], Check]] = []


def sentence(pattern: str) -> Callable[[Check], Check]:
    """Add a sentence; ``NUMBER`` in its pattern is a number."""

    def add(check: Check) -> Check:
        number = r"[\d,]+(?:\.\d+)?"
        SENTENCES.append((re.compile(pattern.replace("NUMBER", number), re.DOTALL), check))
        return check

    return add


def check_text(text: str, truth: Truth) -> int:
    """Check all sentences of a text; return how many there are."""
    place = 0
    found = 0
    while place < len(text):
        for pattern, check in SENTENCES:
            match = pattern.match(text, place)
            if match is not None and match.end() > place:
                check(match, truth)
                place = match.end()
                found = found + 1
                break
        else:
            raise AssertionError(
                f"nobody knows whether this is true: {text[place : place + 200]!r}"
            )
        while place < len(text) and text[place] in " \n":
            place += 1
    return found


def require(holds: object, match: re.Match[str]) -> None:
    """Raise an error that names a false sentence."""
    assert holds, f"false: {match[0]!r}, {match.groupdict()}"


GUARANTEES = {
    "epsilon": "pure differential privacy with epsilon = 1",
    "delta": "approximate differential privacy with epsilon = 1 and delta = 1e-6",
    "rho": "zero-concentrated differential privacy with rho = 0.5",
}
EXPIRING = {
    "epsilon": "expiring differential privacy with epsilon = 1 (growth 1)",
    "rho": "expiring zero-concentrated differential privacy with rho = 0.5 (growth 1)",
}
MEANINGS = {
    "epsilon": "the privacy loss is at most epsilon = 1",
    "delta": "the privacy loss is at most epsilon = 1, up to an additional probability of delta = "
    "1e-6",
    "rho": "the Renyi divergence of each whole order alpha from 2 on is at most alpha times rho = "
    "0.5",
}
UNITS = {"event": "event", "user": "user", "day": "user's day", "hour": "user's hour"}


def expected_guarantee(truth: Truth) -> str:
    table = EXPIRING if truth.form == "expiring" else GUARANTEES
    return table[truth.guarantee]


def expected_meaning(truth: Truth, unit: str) -> str:
    meaning = MEANINGS[truth.guarantee]
    if truth.form == "expiring":
        meaning += " when a release first counts it, and grows slowly with its age"
    return (
        f"between neighbouring datasets, which differ in one {unit} that is added or removed, "
        f"{meaning}"
    )


def expected_scope(truth: Truth) -> str:
    if truth.is_once:
        return ""
    if truth.form == "expiring":
        return ", growing with age"
    return ", for all releases of the stream together"


def words_of_subject(truth: Truth) -> str:
    """The beginning of the words for what is released, by statistic."""
    names = {
        "count": "number of events", "sum": "sum of paid", "distinct": "number of distinct users",
        "average": "average of paid, each value clipped to [0, 9],",
        "quantiles": "distribution of paid over ranges from 0 to 9, with its quantiles,",
        "report": "report", "top-k": "ranking of the 1 largest groups",
        "reach": "number of users by how many rows each has",
        "hierarchy": "table of counts at the levels total, page and user of a hierarchy",
        "ranges": "line of counts, for sums over any of its ranges,",
        "contingency": "contingency table of page and user",
        "moments": "table of means, variances and covariances of paid and id",
    }  # fmt: skip
    what = str(truth.job.statistic)
    assert what in names, f"give {what!r} words in words_of_subject of tests/support/claims.py"
    return names[what]


@sentence(r"The (?P<what>[^\n]+?) was released once\.")
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.is_once, match)
    require(match["what"].startswith(words_of_subject(truth).removesuffix(",")), match)


@sentence(
    r"The (?P<what>[^\n]+?) was released after each (?:of up to (?P<last>[\d,]+) "
    r"windows|window) of "
    r"1h from 1 Mar 2024, 00:00 \(UTC\) on(?:, and again after the next (?P<again>window|\d+ "
    r"windows))?; (?P<steps>[\d,]+) windows have been released\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(not truth.is_once, match)
    require(match["steps"] == str(truth.windows), match)
    bounded = truth.has_matrices
    require(match["last"] == ("6" if bounded else None), match)
    again = {0: None, 1: "window", 2: "2 windows"}[truth.lags]
    require(match["again"] == again, match)
    what = match["what"]
    form = truth.form
    if form in ("endless", "expiring"):
        form = "totals"
    if truth.job.statistic == "reach" and form == "totals" and truth.job.value_of("series") is None:
        form = "periods"
    is_total = form == "totals"
    require(
        what.startswith("cumulative ") == (form == "both" or (is_total and truth.is_additive)),
        match,
    )
    require(what.startswith("running ") == (is_total and not truth.is_additive), match)
    require((", and that in each window," in what) == (form == "both"), match)
    require((" in each window" in what) == (form in ("windows", "revised", "both")), match)
    require((" in each day to date" in what) == (form == "periods"), match)
    require(words_of_subject(truth).rstrip(",") in what, match)


@sentence(r"Each user counts anew in each (?P<period>\w+)\.")
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.job.statistic == "reach" and match["period"] == "day", match)


@sentence(
    r"The privacy unit is one (?P<unit>[^\n]+?), (?P<change>[^\n]+?)\. Neighbouring data sets "
    r"differ in one (?P<again>[^\n]+?) that is (?P<relation>[^\n.]+)\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    unit = UNITS[truth.unit]
    require(match["unit"] == match["again"] == unit, match)
    require(match["relation"] == "added or removed", match)
    check_change(match["change"], truth, match)


def check_change(change: str, truth: Truth, match: re.Match[str]) -> None:
    """What one unit changes: how many rows count, and how each changes the measured numbers."""
    rest = change
    place = truth.noun
    user = truth.unit != "event"
    groups = "group" if truth.is_additive else "cell"
    grouped = truth.job.value_of("group_by") is not None or not truth.is_additive
    explained = "; a cell is one of the counts behind the numbers"
    if rest.endswith(explained):
        rest = rest.removesuffix(explained)
        require("cell" in rest and not truth.is_additive, match)
    one = f"one {groups} of one {place}" if grouped else f"one {place}"
    what = truth.job.statistic
    counted = {
        "count": f"counted in {one} by at most 1",
        "top-k": f"counted in {one} by at most 1",
        "sum": f"whose value, clipped to [0, 9] and rounded to multiples of 1, is added to {one}",
        "average": "whose value, clipped to [0, 9] in steps of 1, counts in a sum and in the "
                   "number "
        "of values",
        "quantiles": "whose value counts in one of 2 cells, which are measured together",
        "report": "which counts in all of rows, paid",
        "hierarchy": "which counts in one of 3 leaves, and in all that is above it",
        "ranges": "which counts in one of 2 cells, which are measured together",
        "contingency": "which counts in one of 6 cells, which are measured together",
        "moments": "whose 2 values, clipped to bounds on a grid of 256 cells, count in sums and "
        "products, and in the number of rows",
    }  # fmt: skip
    assert {what} <= {*counted, "distinct", "reach"}, (
        f"give {what!r} words in check_change of tests/support/claims.py"
    )
    if what == "distinct" or (what == "reach" and truth.unit == "hour"):
        one = f"one {groups} of one {place}" if not truth.is_additive else f"one {place}"
        expected = f"with at most one event counted, in {one} by at most 1"
    elif what == "reach":
        expected = (
            "with at most 2 events counted, each by at most 1, no two of them in the same cell"
        )
    elif not user:
        expected = counted[str(what)]
    elif what in ("count", "top-k"):
        expected = "with at most 2 events counted, each by at most 1"
    elif what == "sum":
        expected = (
            "with at most 2 events counted, each value clipped to [0, 9] and rounded to multiples "
            "of 1"
        )
    else:
        expected = f"of whom up to 2 rows count, each a row {counted[str(what)]}"
    require(rest == expected, match)


@sentence(
    r"The guarantee is (?P<guarantee>[^\n]+?)(?P<scope>, for all releases of the stream together|, "
    r"growing with age|)\. (?P<meaning>Between neighbouring datasets, which differ in one "
    r"(?P<unit>[^\n]+?) that is added or removed, [^\n]+?)\.(?= |\n)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["guarantee"] == expected_guarantee(truth), match)
    require(match["scope"] == expected_scope(truth), match)
    require(match["unit"] == UNITS[truth.unit], match)
    meaning = expected_meaning(truth, match["unit"])
    require(match["meaning"] == with_capital(meaning), match)


def loss_of(units: int, truth: Truth) -> str:
    """The loss of several units: k times epsilon, k^2 times rho, by group privacy."""
    if truth.guarantee == "rho":
        return f"{units**2:,} times the rho"
    more = ", and far more delta" if truth.guarantee == "delta" else ""
    return f"{units:,} times the epsilon{more}"


@sentence(r"(?P<begin>U|u)sers are not protected: a user with 100 events loses (?P<loss>[^.\n;]+)")
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.unit == "event", match)
    require(match["loss"] == loss_of(100, truth), match)


@sentence(
    r"[Ee]ach (?P<unit>user's \w+) is protected separately: a user with 10 of them loses up to "
    r"(?P<loss>[^.\n;]+)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["unit"] == UNITS[truth.unit], match)
    require(match["loss"] == loss_of(10, truth), match)


@sentence(r"[.;](?= |\n|$)")
def _(match: re.Match[str], truth: Truth) -> None:
    """The end of a clause."""


@sentence(
    r"[Ff]or each event that changes K times in later inputs \(it disappears, returns, or moves to "
    r"another window or group\), the loss is up to (?P<loss>\(1 \+ 2?K\)[^.\n;]+)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.unit == "event" and not truth.is_once, match)
    of_moved = {
        "rho": "(1 + K)^2 times as large",
        "delta": "(1 + K) times as large, with far more delta",
    }.get(truth.guarantee, "(1 + K) times as large")
    require(match["loss"] == ("(1 + 2K) times as large" if truth.lags else of_moved), match)


@sentence(
    r"[Aa] counted row that later inputs lack stays counted: the guarantee covers all inputs of "
    r"each "
    r"(?P<unit>[^\n]+?) together"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["unit"] == UNITS[truth.unit] and truth.unit != "event", match)


@sentence(
    r"The guarantee holds against an attacker who knows all releases, the program and its "
    r"parameters and every other row(?P<active>, and who chooses rows, and the window and cells "
    r"that "
    r"distinguish neighbours, after seeing earlier releases)?(?P<orders> \(at whole orders of the "
    r"divergences\))?\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    active = not truth.is_once and truth.form != "expiring"
    require((match["active"] is not None) == active, match)
    if match["orders"] is not None:  # which may be said also where more holds
        require(active and truth.guarantee == "rho", match)
    elif active and truth.guarantee == "rho" and truth.has_matrices:
        require(is_causal(truth), match)


def is_causal(truth: Truth) -> bool:
    """Whether no release before a step has noise of what the step enters."""
    released, measured = truth.factorisation
    for step in range(measured.shape[1]):
        entered = np.abs(measured[:, step]) > 1e-12
        if np.abs(released[:step][:, entered]).max(initial=0) > 1e-12:
            return False
    return True


@sentence(r"The trust model is central: the publisher holds the rows, the state and the key\.")
def _(match: re.Match[str], truth: Truth) -> None:
    """True of all."""


@sentence(
    r"The attacker does not know the key: the noise is computed by a keyed pseudo-random function "
    r"\(AES-256\), so it is as safe as that function\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    """True of all."""


@sentence(
    r"The noise of (?P<what>a total|a window's own number) has the standard deviation "
    r"(?P<std>NUMBER) "
    r"at the last step(?: \(from (?P<low>NUMBER) to (?P<high>NUMBER) over all steps\))?, and its "
    r"margin of error \(95%\) there is (?P<margin>NUMBER)\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.is_additive, match)
    if truth.has_matrices:
        stds = truth.stds[match["what"]]
        require(close(match["std"], stds[-1], 0.05), match)
        for end, number in (("low", min(stds)), ("high", max(stds))):
            require(match[end] is None or close(match[end], number, 0.05), match)
        require((match["low"] is None) == (max(stds) - min(stds) < 0.05 * max(stds)), match)
    rows = last_rows(truth.released.numbers)
    if rows["series"].n_unique() > 1:
        series = "cumulative" if match["what"] == "a total" else "per-window"
        rows = rows.filter(series=series)
    half = half_width(rows)
    require(close(match["margin"], half, 0.05), match)
    require(1.2 < half / float(match["std"].replace(",", "")) < 4, match)


def half_width(rows: pl.DataFrame) -> float:
    """Half of the length of the longest interval."""
    ends = rows.select("upper", "lower").to_numpy()
    return float((ends[:, 0] - ends[:, 1]).max()) / 2


def numbers_by_name(truth: Truth) -> dict[str, tuple[float | None, float]]:
    """The largest standard deviation and margin of each number of the last step, by its name."""
    rows = last_rows(truth.released.numbers)
    columns = (
        [*getattr(truth.statistic, "columns", ())] if truth.job.statistic == "contingency" else []
    )
    found: dict[str, tuple[float | None, float]] = {}
    for row in rows.iter_rows(named=True):
        name = str(row.get("measure") or row.get("tree_level") or "")
        if row.get("quantile") is not None:
            name = "median" if row["quantile"] == 0.5 else f"{row['quantile']:g} quantile"
        if row.get("statistic"):
            name = f"{row['statistic']} {name}".strip()
        if columns:
            name = " x ".join(one for one in columns if row[one] is not None) or "total"
        value = row["estimate"]
        margin = max(value - row["lower"], row["upper"] - value)
        std, most = found.get(name, (None, 0.0))
        if row.get("noise_std") is not None:
            std = max(std or 0.0, row["noise_std"])
        found[name] = std, max(most, margin)
    return found


def check_named(
    words: str, truth: dict[str, float], match: re.Match[str], rel: float = 0.06
) -> None:
    """A list such as "3.5 (mean) and 12 (sum)": each number, and its name."""
    named = re.findall(r"([\d,]+(?:\.\d+)?)(?: \(([^)]*)\))?(?:, | and |$)", words)
    if len(truth) == 1 and len(named) == 1 and not named[0][1]:  # one number needs no name
        truth = {"": next(iter(truth.values()))}
    require(named and {name for _, name in named} == set(truth), match)
    for number, name in named:
        require(close(number, truth[name], rel), match)


@sentence(
    r"The noise of the last numbers has the standard deviation (?P<stds>NUMBER(?: "
    r"\([^)]*\))?(?:(?:, | "
    r"and )NUMBER \([^)]*\))*)\.(?: That of (?P<unknown>[^\n]+?) is not known, for so few rows\.)?"
)
def _(match: re.Match[str], truth: Truth) -> None:
    numbers = numbers_by_name(truth)
    known = {
        name: std for name, (std, margin) in numbers.items() if std is not None and std <= margin
    }
    check_named(match["stds"], known, match)
    unknown = set(numbers) - set(known)
    named = set(re.split(r", | and ", match["unknown"])) if match["unknown"] else set()
    require(named == unknown, match)
    check_deviations(known, truth, match)


def check_deviations(known: dict[str, float], truth: Truth, match: re.Match[str]) -> None:
    """Compare standard deviations of sums of cells with their computation from the matrices."""
    if not truth.stds and not truth.is_once:
        return
    std = truth.distribution[2]
    if not truth.is_once:
        total = "a window's own number" if "a total" not in truth.stds else "a total"
        shown = "a window's own number" if truth.form == "windows" else total
        std = truth.stds[shown][-1]
    width = 9.0
    expected = {
        "top-k": {"": std},
        "reach": {"1 or more": std, "2 or more": std, "1": math.sqrt(2) * std},
        "average": {"sum": std, "count": math.sqrt(2) * std / width},
    }.get(str(truth.job.statistic), {})
    if truth.job.statistic == "reach" and truth.form in ("periods", "endless"):
        return  # of which only the steps of the period count
    for name, number in expected.items():
        require(name not in known or abs(known[name] / number - 1) < 0.01, match)


@sentence(
    r"Intervals hold the numbers without noise with a probability of 95% or more, one at a time "
    r"unless the table says else(?:; the last margins of error are at most (?P<margins>[^\n]+?))?"
    r"\.(?=\s|$)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(not truth.is_additive, match)
    margins = {name: margin for name, (_, margin) in numbers_by_name(truth).items()}
    check_named(match["margins"], margins, match)


@sentence(
    r"The (?P<what>root of the mean variance|largest standard deviation)(?: of a cell of what it "
    r"reads)?(?: of the first (?P<steps>[\d,]+) steps)? is (?P<factors>[^\n]+?)\.(?=\s)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["what"] == "root of the mean variance" and not truth.lags, match)
    require((match["steps"] is None) == truth.has_matrices, match)
    found = re.findall(
        r"([\d.,]+) times the least of (any mechanism|matrix mechanisms with \w+ noise)",
        match["factors"],
    )
    bounds = {factor.holds_for: factor for factor in factors_of_design(truth.design)}
    require(found and {name for _, name in found} == set(bounds), match)
    for number, name in found:
        achieved = bounds[name].achieved
        if truth.has_matrices:
            exact = truth.mean_deviation(6)
            require(abs(achieved / exact - 1) < 0.01, match)
            achieved = exact
        require(close(number, achieved / bounds[name].at_least, 0.02), match)
        require(float(number.replace(",", "")) >= 1, match)


@sentence(r"The intervals do not include these errors: (?P<lines>[^\n]+?)\.(?=\n|$| The method)")
def _(match: re.Match[str], truth: Truth) -> None:
    check_besides(match["lines"], truth, match)


def check_besides(text: str, truth: Truth, match: re.Match[str]) -> None:
    """Errors other than noise: each that the job can have, and no other."""
    rest = text
    for line in expected_besides(truth):
        require(re.match(line, rest), match)
        rest = re.sub(f"^{line}(; )?", "", rest, count=1)
    require(not rest, match)


def expected_besides(truth: Truth) -> Iterator[str]:
    """Patterns of the lines on other errors, in their order."""
    what = str(truth.job.statistic)
    user = truth.unit != "event"
    unit = UNITS[truth.unit]
    if truth.lags:
        hours = "1 more hour" if truth.lags == 1 else f"{truth.lags} more hours"
        if user:
            yield (
                "rows that arrive after their hour became final are not counted; earlier late rows "
                f"are added to their hour, whose number is provisional for {hours}"
            )
        else:
            yield (
                "rows that arrive, change or disappear after their hour became final do not change "
                f"its number; earlier ones change it, because it is provisional for {hours}"
            )
    elif not truth.is_once and user:
        period = ""
        if truth.unit in ("day", "hour"):
            period = (
                rf" if their {unit} ended at least 35 days \(840 hours\) "
                "before the end of the last hour that "
                "earlier runs released"
            )
        yield (
            "rows that arrive after their hour was released are counted in a later hour, or not "
            f"at all{period}"
        )
    elif not truth.is_once:
        yield "rows that arrive after their hour was released are not counted"
    if user and what not in ("distinct", "reach"):
        low = what in ("count", "sum", "top-k", "hierarchy", "ranges", "contingency")
        effect = "too low" if low else "biased"
        late = ""
        if not truth.is_once:
            late = ", most of all in late hours, because early rows count first"
        yield (
            f"rows beyond 2 of each user are not counted, so that numbers are {effect} by an "
            f"unknown amount{late}"
        )
    named = {"sum": "sum", "average": "average"}
    if what in named:
        yield (
            "values outside 0 to 9 are counted as the nearer bound, which biases the "
            f"{named[what]} by an unknown amount"
        )
    if what == "report":
        yield (
            "paid: values outside 0 to 9 are counted as the nearer bound, which biases the average "
            "by an unknown amount"
        )
    if what == "quantiles":
        yield (
            "values outside 0 to 9 are counted at the nearer end, so that quantiles outside this "
            "range are shown at its ends"
        )
    if what == "moments":
        for column in ("paid", "id"):
            yield (
                f"values of {column} outside 0 to 9 are counted as the nearer bound, which biases "
                "means and variances by an unknown amount"
            )
    if what == "reach" and truth.form == "totals":
        yield "users, each counted once in each day, are added up over all periods"


CALIBRATION = paper_of(["calibration"])
OVER_TIME = r"(?P<paper>[^\n]+?)\)\.(?= (?:One|Measurements|Each m|Numbers))"


@sentence(
    r"Noise is (?P<kind>correlated|independent) over time(?:, by a factorisation of (?P<of>running "
    r"totals|the numbers of single windows), the strategy (?P<name>[^(\n]+)|: each window has "
    r"noise of "
    r"its own(?P<adds>, which a number of several windows adds up)?) \(" + OVER_TIME
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(not truth.is_once and not truth.lags, match)
    require((match["kind"] == "correlated") == truth.is_correlated, match)
    totals = truth.strategy.facts.release == "totals"
    if truth.is_correlated:
        require((match["of"] == "running totals") == totals, match)
        require(match["name"] == strategy_in_words(truth.strategy, "window"), match)
    else:
        require((match["adds"] is not None) == totals, match)
        require(match["paper"] == CALIBRATION, match)


@sentence(
    r"(?:Noise is (?P<kind>correlated) over the versions of a window, by a factorisation of "
    r"running "
    r"totals, the strategy (?P<name>[^(\n]+)|Each version of a window has the noise of the version "
    r"before it and noise of its own) \(" + OVER_TIME
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.lags > 0, match)
    require((match["kind"] is not None) == truth.is_correlated, match)
    assert isinstance(truth.strategy, WindowVersions)
    if truth.is_correlated:
        require(match["name"] == strategy_in_words(truth.strategy.inner, "version"), match)
    else:
        require(match["paper"] == CALIBRATION, match)
        released, _ = truth.factorisation
        require(np.allclose(released, np.tril(np.ones_like(released)) * released[0, 0]), match)


@sentence(r"Numbers of different windows share no noise\.")
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.lags > 0, match)


NORM = {
    "sum of absolute changes: L1 sensitivity": "Laplace",
    "root of the sum of squared changes: L2 sensitivity": "Gaussian",
}


@sentence(
    r"(?:One (?P<unit>[^\n]+?) changes the measurements by at most "
    r"(?P<most>NUMBER)|Measurements are "
    r"scaled so that one (?P<scaled>[^\n]+?) changes them by at most 1) \((?P<norm>[^)\n]+)\)\. "
    r"Each "
    r"measurement has discrete (?P<kind>\w+) noise of (?:scale (?P<scale>NUMBER) and )?standard "
    r"deviation (?P<std>NUMBER), drawn exactly\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.has_matrices, match)
    kind, scale, std = truth.distribution
    require(match["kind"] == kind == NORM[match["norm"]], match)
    require((match["scale"] is not None) == (kind == "Laplace"), match)
    true = truth.sensitivity[0 if kind == "Laplace" else 1]
    if truth.is_additive:
        require(match["unit"] == UNITS[truth.unit], match)
        most = float(match["most"].replace(",", ""))
        require(true * (1 - 1e-9) <= most <= 1.002 * true, match)
        require(close(match["std"], std, 1e-3), match)
        require(match["scale"] is None or close(match["scale"], scale, 1e-3), match)
    else:
        require(match["scaled"] == UNITS[truth.unit], match)
        # A larger sensitivity than the true one may be assumed, never a smaller one.
        stated = float((match["scale"] or match["std"]).replace(",", ""))
        require(stated <= scale / true * 1.002, match)
        require(stated >= scale / true / 2.1, match)
    check_promise(match, truth, kind, scale, true)


def check_promise(
    match: re.Match[str], truth: Truth, kind: str, scale: float, sensitivity: float
) -> None:
    """The noise gives the guarantee, by the formulas of textbooks."""
    ratio = scale / sensitivity
    stated = float((match["scale"] or match["std"]).replace(",", ""))
    if not truth.is_additive:
        ratio = stated
    if truth.guarantee == "epsilon":
        require(kind == "Laplace" and ratio >= 1 / 1.002, match)
    elif truth.guarantee == "rho":
        # rho = 1/2 is a normal distribution moved by one standard deviation.
        require(kind == "Gaussian" and ratio >= 1 / 1.01, match)
    elif kind == "Laplace":
        require(ratio >= 0.3, match)
    else:
        require(gaussian_delta(ratio) <= 1.05e-6, match)


def gaussian_delta(ratio: float) -> float:
    """The delta of Gaussian noise for epsilon = 1 (Balle and Wang 2018, Theorem 8)."""

    def below(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    near = 1 / (2 * ratio)
    return below(near - ratio) - math.e * below(-near - ratio)


@sentence(
    r"Each measurement has discrete (?P<kind>\w+) noise(?: of (?:scale (?P<scale>NUMBER) and "
    r")?standard "
    r"deviation (?P<std>NUMBER)(?: at the first level of the strategy, and "
    r"(?P<trend>larger|smaller) at "
    r"higher ones)?)?, drawn exactly\.(?: It is (?P<then>larger|smaller) at higher levels of the "
    r"strategy\.)?"
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.form in ("endless", "expiring"), match)
    kind, scale, std = truth.distribution
    require(match["kind"] == kind, match)
    require((match["std"] is not None) == truth.is_additive, match)
    if match["std"] is not None:
        require(close(match["std"], std, 1e-3), match)
        require(match["scale"] is None or close(match["scale"], scale, 1e-3), match)
    trend = match["trend"] or match["then"]
    require(trend == ("larger" if truth.form == "endless" else None), match)


@sentence(
    r"Not protected are: the parameters named here and all that was declared, which must not be "
    r"chosen by the data; that a release took place, (?:and when|when, and the time of the "
    r"newest row "
    r"where that decided which (?P<windows>windows) had ended); a user with several "
    r"units, of whom more can be learned than whether one (?P<unit>[^\n;]+) is there; what other "
    r"releases about the same users reveal; anything from those who hold the key, the state or "
    r"the rows\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["unit"] == UNITS[truth.unit], match)
    require((match["windows"] is None) == truth.is_once, match)


@sentence(r"Constants and sources(?=\n)")
def _(match: re.Match[str], truth: Truth) -> None:
    """A heading."""


@sentence(r"strategy +(?P<name>[^;\n]+); (?P<constants>[^\n]+)(?=\n)")
def _(match: re.Match[str], truth: Truth) -> None:
    require(not truth.is_once, match)
    require(match["name"] == strategy_in_words(truth.strategy, "window"), match)
    first, *others = match["constants"].split(", ")
    expected = f"{truth.lags + 1} versions" if truth.lags else "6 windows"
    if not truth.has_matrices:
        expected = "without a last window"
    require(first == expected, match)
    inner = truth.strategy.inner if isinstance(truth.strategy, WindowVersions) else truth.strategy
    for constant in others:
        name, value = constant.split(" ")
        require(truth.is_correlated and str(inner.parameters[name]) == value, match)


@sentence(
    r"least of (?P<of>any mechanism|matrix mechanisms with \w+ noise) +(?P<source>[^\n]+)(?=\n)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    bounds = {factor.holds_for: factor.source for factor in factors_of_design(truth.design)}
    require(bounds[match["of"]] == match["source"] and not truth.lags, match)


@sentence(r"source +(?P<source>[^\n]+)(?=\n)")
def _(match: re.Match[str], truth: Truth) -> None:
    statistic = inner_of(truth.statistic)
    names = {*statistic.sources, truth.distribution[0].lower()}
    if not truth.is_once:
        inner = (
            truth.strategy.inner if isinstance(truth.strategy, WindowVersions) else truth.strategy
        )
        names |= {*inner.sources} if truth.is_correlated else {"calibration"}
    allowed = {paper_of([name]) or REFERENCES[name] for name in names}
    require(match["source"] in allowed, match)


@sentence(r"software +(?P<software>[^\n]+)")
def _(match: re.Match[str], truth: Truth) -> None:
    require(match["software"] == software(), match)


# ------------------------------------------------------------------ the short text for all readers


@sentence(
    r"The (?P<what>[^\n]+?), (?:of all rows, was published once|of 3 events, was published once)\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.is_once, match)
    require(match["what"].startswith(words_of_subject(truth).removesuffix(",")), match)


@sentence(
    r"The (?P<cumulative>cumulative )?(?P<what>[^\n]+?)(?:, (?P<when>in each hour|and that in each "
    r"hour|in each day to date),|,)? was published for each hour of 1 March 2024, 00:00 to "
    r"03:00 \(time zone UTC\)\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    require(not truth.is_once and truth.windows == 3, match)
    forms = {
        "totals": None, "windows": "in each hour", "revised": "in each hour",
        "both": "and that in each hour", "periods": "in each day to date", "endless": None,
        "expiring": None,
    }  # fmt: skip
    when = forms[truth.form]
    if (
        truth.job.statistic == "reach"
        and truth.job.value_of("series") is None
        and truth.form == "endless"
    ):
        when = "in each day to date"
    require(match["when"] == when, match)
    is_cumulative = when is None or truth.form == "both"
    require((match["cumulative"] is not None) == is_cumulative, match)
    require(match["what"].startswith(words_of_subject(truth).removesuffix(",")), match)


@sentence(
    r"Random noise was added before publication: it limits how well anyone can tell, from all "
    r"published numbers together, whether one (?P<unit>[^\n]+?) is there(?P<fades>, and less so "
    r"as it gets older)? \((?P<level>[^\n()]+)\)\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    is_whole = truth.unit in {"event", "user"}  # not a period of a user
    unit = UNITS[truth.unit]
    level = f"{truth.unit}-level privacy" if is_whole else f"privacy of each {unit}"
    require(match["level"] == level, match)
    require(match["unit"] == unit, match)
    require((match["fades"] is not None) == (truth.form == "expiring"), match)


@sentence(r"A user with several events is protected less\.")
def _(match: re.Match[str], truth: Truth) -> None:
    require(truth.unit == "event", match)


@sentence(
    r"With 95% confidence for each number, the noise changes "
    r"(?P<newest>the newest numbers|the numbers) by at most (?P<margins>[^\n]+?)\."
    r"(?= The intervals| The method)"
)
def _(match: re.Match[str], truth: Truth) -> None:
    stream = not truth.is_once and not truth.lags
    require((match["newest"] == "the newest numbers") == stream, match)
    if not truth.is_additive:
        margins = {name: margin for name, (_, margin) in numbers_by_name(truth).items()}
        check_named(match["margins"], margins, match)
        return
    numbers = truth.released.numbers
    named: dict[str, float] = {}
    if truth.lags:
        table = table_of(numbers)
        halves = ((table["upper"] - table["lower"]) / 2).to_list()
        named = {"when first published": halves[-1], "when final": halves[0]}
    else:
        rows = last_rows(numbers)
        for series, name in (("cumulative", "cumulative"), ("per-window", "in each hour")):
            rows_of_series = rows.filter(series=series)
            if rows_of_series.height:
                named[name] = half_width(rows_of_series)
    if len(named) == 1:
        named = {"": next(iter(named.values()))}
    check_named(match["margins"], named, match)


@sentence(
    r"The method is (?P<guarantee>[^\n]+), in the central trust model, by "
    r"(?P<software>[^\n]+?); it is explained at https://doi\.org/10\.6028/NIST\.SP\.800-226\."
)
def _(match: re.Match[str], truth: Truth) -> None:
    expected = expected_guarantee(truth).replace("rho = ", "a parameter of ")
    require(match["guarantee"] == expected, match)
    require(match["software"] == software(), match)


# -------------------------------------------------------------- what `describe` says, line by line


def check_description(text: str, truth: Truth) -> int:
    """Check all lines of `Release.describe`; return how many there are."""
    lines = text.split("\n")
    for line in lines:
        check_line(line, truth)
    expected = sum(1 for _ in expected_besides(truth))
    first = [place for place, line in enumerate(lines) if line.startswith("not in the intervals: ")]
    assert len(first) == min(expected, 1), text
    if first:
        told = "; ".join(
            one.strip().removeprefix("not in the intervals: ") for one in lines[first[0] :]
        )
        check_besides(told, truth, re.match(".*", told, re.DOTALL))  # type: ignore[arg-type]
    return len(lines)


def check_line(line: str, truth: Truth) -> None:
    """Check one line of a description."""
    unit = UNITS[truth.unit]
    name, _, rest = line.strip().partition(": ")
    match = re.match(".*", line)
    assert match is not None
    if name == truth.job.stream:
        what = "released once" if truth.is_once else f"{truth.windows} windows of 1h released"
        require(rest.endswith(what), match)
    elif name == "privacy unit":
        require(rest.startswith(f"one {unit} more or less, "), match)
        check_change(rest.removeprefix(f"one {unit} more or less, "), truth, match)
    elif name == "guarantee":
        require(rest == expected_guarantee(truth) + expected_scope(truth), match)
    elif name == "privacy loss":
        check_loss(rest, truth, match)
    elif name == "mechanism":
        check_mechanism(rest, truth, match)
    elif name == "not in the intervals" or any(
        re.fullmatch(one, line.strip()) for one in expected_besides(truth)
    ):
        pass  # together, in `check_description`
    else:
        check_text(line.strip(), truth)


def check_loss(text: str, truth: Truth, match: re.Match[str]) -> None:
    """What one unit loses: once for a table, and once for all releases of a stream."""
    unit = UNITS[truth.unit]
    if truth.form == "expiring":
        require(text == f"grows with the age of each {unit}", match)
        return
    loss = expected_guarantee(truth).partition(" with ")[2]
    whole = (
        " for the whole stream, which is this series of releases: later releases add nothing; "
        f"the losses of other streams about the same {unit} add up"
    )
    require(text == f"{loss} for each {unit}, once{'' if truth.is_once else whole}", match)


def check_promise_line(line: str, truth: Truth) -> None:
    """Check the line of `show` and of the screen on the guarantee."""
    match = re.fullmatch(
        r"Privacy: (?P<loss>[^;]+?) for each (?P<unit>[^;,]+?)(?: that is replaced by another)?"
        r"(?P<scope>, for all \w+s together)?\.(?P<rest> .*)?",
        line,
    )
    assert match is not None, line
    if truth.form == "expiring":
        return
    require((match["scope"] is None) == truth.is_once, match)
    require(match["unit"] == UNITS[truth.unit], match)
    require(match["loss"] == expected_guarantee(truth).partition(" with ")[2], match)
    if match["rest"]:
        check_text(match["rest"].strip(), truth)


def check_mechanism_line(line: str, truth: Truth) -> None:
    """Check the line of `inspect` on the noise."""
    match = re.fullmatch(r"Mechanism: (?P<words>.+)", line)
    assert match is not None, line
    check_mechanism(match["words"], truth, match)


def check_mechanism(text: str, truth: Truth, match: re.Match[str]) -> None:
    """Check words on the noise, and on whether windows share it."""
    require(not truth.is_once, match)
    relation = "correlated over" if truth.is_correlated else "independent for all"
    if truth.lags:
        relation = "correlated over the versions of each window"
    noise = f"discrete {truth.distribution[0]} noise, {relation}"
    require(text == (noise if truth.lags else f"{noise} windows"), match)


def check_served(described: dict[str, Any], truth: Truth) -> None:
    """Check what the page of a service says of a series: all its words come from here."""
    first, meaning, *notes, strategy = described["description"]
    everything = re.match(".*", f"{first}; {meaning}; {strategy}")
    assert everything is not None
    require(first == expected_guarantee(truth) + expected_scope(truth), everything)
    require(meaning == expected_meaning(truth, UNITS[truth.unit]), everything)
    require(strategy == strategy_in_words(truth.design.strategy, "window"), everything)
    for note in filter(None, [*notes, described["people"]]):
        check_text(note, truth)
    check_text(described["protects"], truth)
    besides = "; ".join(described["systematic_errors"])
    lines = re.match(".*", besides, re.DOTALL)
    assert lines is not None
    check_besides(besides, truth, lines)
    require(described["unit"] == UNITS[truth.unit], lines)
    require(described["guarantee"] == expected_guarantee(truth), lines)


def text_of_page(page: str) -> str:
    """The words of an HTML page above its table."""
    words = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert words is not None
    return html.unescape(words[1])

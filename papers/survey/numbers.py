"""Every published mechanism for continual counts that we know, and the exact error of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counton import plan
from counton.base.arrays import Floats
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.strategies import KAry, Metric, Norm, StreamStrategy
from counton.strategies.participation import sensitivity
from counton.tables.optimal import laplace_rows
from counton.tables.workloads import Prefixes
from papers.evidence import Comparison, ErrorRow
from papers.less_noise.numbers import BOUND, GUARANTEES, METRICS, PLANNED
from papers.less_noise.numbers import PUBLISHED as ELSEWHERE
from papers.survey.indexed import indexed_tree

if TYPE_CHECKING:
    from counton.training.strategies import BandedInverseSquareRoot, BufferedToeplitz

#: A year of days, a year of hours, and a million.
HORIZONS = (365, 8760, 10**6)
#: A dense matrix is searched for up to here.
_LARGEST_DENSE = 365
#: In tables, where a search would take too long.
NOT_COMPUTED = "not computed"
#: Odd numbers of children up to here are tried.
_MOST_CHILDREN = 128
_ONE, _HALF = GUARANTEES
#: Mean and largest standard deviation.
Errors = dict[Metric, float]


class Published(NamedTuple):
    """A mechanism.

    Attributes:
        name: as in the table.
        who: its authors, and what of theirs it is.
        venue: where and when.
        errors: mean and largest standard deviation for a horizon and a guarantee; None where it
            is not for it.
        python: the strategy for T steps in Python, with Laplace and with Gaussian noise; one
            expression if they are the same, with ``norm`` where they differ by it.
    """

    name: str
    who: str
    venue: str
    errors: Callable[[int, str], Errors | None]
    python: tuple[str, ...]

    @property
    def source(self) -> str:
        """Who, where and when."""
        return f"{self.who}: {self.venue}"


def _std(norm: Norm, moved: float, variances: np.ndarray) -> Errors:
    """Of B z with one law for all nodes, given what one unit moves and rows of B in squares."""
    distribution: DiscreteLaplace | DiscreteGaussian
    distribution = (
        DiscreteLaplace(Fraction(moved)) if norm == 1 else DiscreteGaussian(Fraction(moved))
    )  # epsilon = 1, and rho = 1/2
    return {
        "mean": math.sqrt(distribution.variance * float(variances.mean())),
        "max": math.sqrt(distribution.variance * float(variances.max())),
    }


def _of_stream(
    make: Callable[[int, Norm, Metric], StreamStrategy], norms: Sequence[Norm] = (1, 2)
) -> Callable[[int, str], Errors | None]:
    """A strategy of counton: its best one for each metric."""

    def errors(horizon: int, guarantee: str) -> Errors | None:
        stated, norm = GUARANTEES[guarantee]
        if norm not in norms:
            return None
        found: Errors = {}
        for metric in METRICS:
            try:
                strategy = make(horizon, norm, metric)
            except InvalidInputError:  # it serves no such horizon
                return None
            only = plan(horizon, stated, metric, strategies=[strategy])
            found[metric] = only.best.errors.by(metric)
        return found

    return errors


def _each_count(horizon: int, _norm: Norm, _metric: Metric) -> StreamStrategy:
    return KAry(horizon, horizon + 1, subtraction=False)


def two_levels(horizon: int) -> KAry:
    """Blocks of as many steps as there are blocks, or so.

    >>> two_levels(365).height
    2
    """
    return KAry(horizon, math.isqrt(horizon) + 1, subtraction=False)


def odd_arity(horizon: int, norm: Norm, metric: Metric) -> KAry:
    """Of trees with subtraction that have an odd number of children, the one of least error.

    >>> odd_arity(8760, 1, "mean").arity
    27
    """
    trees = (KAry(horizon, arity) for arity in range(3, _MOST_CHILDREN, 2))
    return min(
        trees, key=lambda tree: tree.overall_variance(metric) * float(sensitivity(tree, norm)) ** 2
    )


def _toeplitz(name: str) -> Callable[[int, str], Errors | None]:
    """Of training, with Gaussian noise: C and its inverse are Toeplitz; a unit counts once."""

    def errors(horizon: int, guarantee: str) -> Errors | None:
        if guarantee != _HALF:
            return None
        from counton.training import strategies as training

        return toeplitz_errors(getattr(training, name).fit(horizon))

    return errors


def toeplitz_errors(strategy: BandedInverseSquareRoot | BufferedToeplitz) -> Errors:
    """Mean and largest standard deviation of running sums at rho = 1/2, for a unit in one step.

    Args:
        strategy: C and its inverse are Toeplitz matrices.
    """
    read = np.cumsum(np.cumsum(strategy.inverse()) ** 2)  # by release
    scale = float((strategy.coefficients() ** 2).sum())
    # Normals of training are rounded far finer than a count.
    return {"mean": math.sqrt(scale * float(read.mean())), "max": math.sqrt(scale * read[-1])}


def group_algebra(horizon: int) -> float:
    """Row norm times column norm of the square root of a circulant matrix of twice the size.

    Its eigenvalues are those of as many ones: the horizon, and 1 / sin(pi k / 2 T) for odd k. Each
    row and each column of the root has the mean of their absolute values as its squared norm.

    >>> round(group_algebra(2), 4)
    1.2071
    """
    odd = np.arange(1, 2 * horizon, 2)
    return float((horizon + (1 / np.sin(np.pi * odd / (2 * horizon))).sum()) / (2 * horizon))


def _group_algebra(horizon: int, guarantee: str) -> Errors | None:
    std = group_algebra(horizon)
    return {"mean": std, "max": std} if guarantee == _HALF else None


def privelet(horizon: int, guarantee: str) -> Errors | None:
    """The Haar wavelet over all steps: a total, and a difference of halves on each level."""
    from counton.tables.haar import Haar

    norm = GUARANTEES[guarantee][1]
    tree = Haar.wavelet(horizon)
    ends = np.arange(1, horizon + 1)
    variances = tree.variance(np.zeros(horizon, np.int64), ends)
    return _std(norm, sum(weight**norm for weight in tree.weights), variances)


@lru_cache(maxsize=2)
def _dense(horizon: int, guarantee: str) -> Errors | None:
    if guarantee != _HALF or horizon > _LARGEST_DENSE:
        return None
    from counton.strategies import LeastSquaresStrategy
    from counton.tables.optimal import optimal_gaussian

    strategy = LeastSquaresStrategy(optimal_gaussian(Prefixes(horizon)), norm=2)
    return _of_stream(lambda *_: strategy)(horizon, guarantee)


def hdmm_variances(horizon: int) -> Floats:
    """Variances of all totals by the rows that HDMM's search finds, in units of a node's noise.

    With rows R beside the identity, columns are scaled by D = 1 + the column sums of R, so that
    (C^T C)^-1 = D (I - R^T (I + R R^T)^-1 R) D.

    >>> round(float(np.sqrt(2 * hdmm_variances(128).mean())), 2)
    6.31
    """
    rows = laplace_rows(Prefixes(horizon))
    sizes = 1 + rows.sum(axis=0)
    read = np.cumsum(rows * sizes, axis=1)
    saved = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, read)
    return np.asarray(np.cumsum(sizes**2) - (read * saved).sum(axis=0))


def _hdmm(horizon: int, guarantee: str) -> Errors | None:
    if guarantee != _ONE or horizon > _LARGEST_DENSE:
        return None
    return _on_a_lattice(1, hdmm_variances(horizon))


def _on_a_lattice(norm: Norm, variances: Floats) -> Errors:
    """With weights that are no integers: noise is drawn on a fine lattice."""
    unit = 2.0 if norm == 1 else 1.0
    return {
        "mean": math.sqrt(unit * float(variances.mean())),
        "max": math.sqrt(unit * float(variances.max())),
    }


def _indexed(norm: Norm, *, spare: bool = False) -> Callable[[int, str], Errors | None]:
    def errors(horizon: int, guarantee: str) -> Errors | None:
        if GUARANTEES[guarantee][1] != norm:
            return None
        return _on_a_lattice(norm, indexed_tree(horizon, norm, spare=spare))

    return errors


_MAKE = {one.name: one for one in ELSEWHERE}


def _as_there(name: str) -> Callable[[int, str], Errors | None]:
    return _of_stream(_MAKE[name].make, _MAKE[name].norms)


#: What takes a search.
SEARCHED = ("HDMM", "dense optimum")
_ELDERS = "Andersson, Pagh, Steiner, Torkamani"
_CAI = "Cai, Liu, Ye, Liu, Wang"
PUBLISHED: tuple[Published, ...] = (
    Published(
        "noise for each count",
        "Dwork, McSherry, Nissim, Smith",
        "TCC 2006",
        _of_stream(_each_count),
        ("KAry(T, T + 1, subtraction=False)",),
    ),
    Published(
        "two levels",
        "Chan, Shi, Song",
        "ICALP 2010; TISSEC 2011",
        _of_stream(lambda horizon, norm, metric: two_levels(horizon)),
        ("KAry(T, isqrt(T) + 1, subtraction=False)",),
    ),
    Published(
        "binary tree",
        "Dwork, Naor, Pitassi, Rothblum; Chan, Shi, Song",
        "STOC 2010; TISSEC 2011",
        _as_there("binary tree"),
        ("Binary(T)",),
    ),
    Published(
        "Honaker online",
        "Honaker; as streams use it Kairouz et al.",
        "TPDP 2015, a workshop; ICML 2021",
        _as_there("Honaker online"),
        ("HonakerOnline(T)",),
    ),
    Published(
        "smooth binary",
        "Andersson, Pagh",
        "NeurIPS 2023",
        _as_there("smooth binary"),
        ("SmoothBinary.best(T, norm)",),
    ),
    Published(
        "k-ary tree",
        f"{_ELDERS}, Algorithm 1",
        "FORC 2025",
        _as_there("k-ary tree"),
        ("KAry.best(T, subtraction=False, norm=norm)",),
    ),
    Published(
        "19-ary with subtraction",
        f"{_ELDERS}, Algorithm 2 with the best arity of endless streams",
        "FORC 2025",
        _of_stream(lambda horizon, norm, metric: KAry(horizon, 19)),
        ("KAry(T, 19)",),
    ),
    Published(
        "odd k-ary with subtraction",
        f"{_ELDERS}, Algorithm 2 with the best arity for the horizon",
        "FORC 2025",
        _of_stream(odd_arity),
        ("KAry(T, 29)", "KAry(T, 11)"),
    ),
    Published(
        "k-ary with subtraction",
        f"{_ELDERS}, Algorithm 2 and, for even arities, Appendix C",
        "FORC 2025",
        _as_there("k-ary with subtraction"),
        ("KAry.best(T, norm=norm)",),
    ),
    Published(
        "FDA",
        "Cai, Wu, Wang",
        "J. Front. Comput. Sci. Technol. 2016",
        _indexed(1),
        ("Factorisation(indexed_tree_matrix(T, norm=1))",),
    ),
    Published(
        "BCRG",
        _CAI,
        "dpcrpy 1.0.0, October 2025",
        _indexed(2),
        ("Factorisation(indexed_tree_matrix(T, norm=2))",),
    ),
    Published(
        "ABCRG",
        _CAI,
        "dpcrpy 1.0.0, October 2025",
        _indexed(2, spare=True),
        ("Factorisation(indexed_tree_matrix(T, norm=2, spare=True))",),
    ),
    Published(
        "square root",
        "Fichtenberger, Henzinger, Upadhyay",
        "ICML 2023",
        _as_there("square root"),
        ("SqrtToeplitz(T)",),
    ),
    Published(
        "group algebra",
        "Henzinger, Upadhyay",
        "SODA 2025",
        _group_algebra,
        ("Factorisation(group_algebra_matrix(T))",),
    ),
    Published(
        "normalised square root",
        "Henzinger, Kalinin, Upadhyay",
        "FORC 2026",
        _as_there("normalised square root"),
        ("NormalisedSqrt(T)",),
    ),
    Published(
        "banded inverse square root",
        "Kalinin, McKenna, Upadhyay, Lampert, up to 64 normals",
        "arXiv 2025",
        _toeplitz("BandedInverseSquareRoot"),
        ("BandedInverseSquareRoot.fit(T)",),
    ),
    Published(
        "BLT",
        "Dvijotham, McMahan, Pillutla, Steinke, Thakurta, 3 buffers",
        "FOCS 2024",
        _toeplitz("BufferedToeplitz"),
        ("BufferedToeplitz.fit(T)",),
    ),
    Published(
        "dense optimum",
        "Li, Hay, Rastogi, Miklau, McGregor; over time Denisov et al.",
        "PODS 2010; NeurIPS 2022",
        _dense,
        ("LeastSquaresStrategy(optimal_gaussian(Prefixes(T)), norm=2)",),
    ),
    Published(
        "least-squares tree, drawn ahead",
        "Hay, Rastogi, Miklau, Suciu; children as Qardaji, Yang, Li",
        "PVLDB 2010; PVLDB 2013",
        _as_there("least-squares tree"),
        ("LookAhead(T, (10, 10))", "LookAhead(T, (3, 3, 3, 3, 3))"),
    ),
    Published(
        "Privelet, drawn ahead",
        "Xiao, Wang, Gehrke",
        "ICDE 2010; TKDE 2011",
        privelet,
        ("Factorisation(Haar.wavelet(T).matrix())",),
    ),
    Published(
        "HDMM, drawn ahead",
        "McKenna, Miklau, Hay, Machanavajjhala",
        "PVLDB 2018",
        _hdmm,
        ("LeastSquaresStrategy(optimal_laplace(Prefixes(T)))",),
    ),
)


def errors_at(horizon: int, *, quick: bool = False) -> list[ErrorRow]:
    """A row for each guarantee, metric and mechanism that serves the horizon.

    At the end ours, and what no factorisation with the same noise is below.
    """
    found = []
    for guarantee, (stated, _norm) in GUARANTEES.items():
        for one in PUBLISHED:
            if quick and one.name.partition(",")[0] in SEARCHED:
                continue
            errors = one.errors(horizon, guarantee)
            for metric, std in (errors or {}).items():
                found.append(ErrorRow(guarantee, metric, horizon, one.name, one.source, std))
        for metric in METRICS:
            ranked = plan(horizon, stated, metric)
            source = f"counton: {ranked.best.strategy_family}"
            std = ranked.best.errors.by(metric)
            found.append(ErrorRow(guarantee, metric, horizon, PLANNED, source, std))
            (least,) = ranked.least_std(metric).values()
            source = "counton.planning.lower_bounds"
            found.append(ErrorRow(guarantee, metric, horizon, BOUND, source, least))
    return found


_EACH = PUBLISHED[0].name
_ROOT = "normalised square root"
_SUBTRACTING = "k-ary with subtraction"
_TREE = "least-squares tree, drawn ahead"
#: Mean standard deviations that the front page and the page about choosing state.
STATED = (
    (_ONE, 365, _SUBTRACTING, "10.29"),
    (_ONE, 365, PLANNED, "7.87"),
    (_ONE, 8760, _EACH, "89.8"),
    (_ONE, 8760, _SUBTRACTING, "18.6"),
    (_ONE, 8760, _TREE, "15.5"),
    (_ONE, 8760, PLANNED, "13.4"),
    (_HALF, 365, _ROOT, "2.67"),
    (_HALF, 365, PLANNED, "2.64"),
    (_HALF, 8760, _ROOT, "3.67"),
    (_HALF, 8760, PLANNED, "3.67"),
)


def comparisons(rows: Iterable[ErrorRow]) -> tuple[Comparison, ...]:
    """What the front page and the page about choosing state, beside rows of the table."""
    mean = [row for row in rows if row.metric == "mean"]
    found = {(row.guarantee, row.horizon, row.mechanism): row.std for row in mean}
    return tuple(
        Comparison(at, f"{name}, T = {horizon:,}", printed, found[at, horizon, name], own=True)
        for at, horizon, name, printed in STATED
    )


def markdown(rows: Iterable[ErrorRow], guarantee: str) -> list[str]:
    """A table of one guarantee: mean and largest error by mechanism and horizon."""
    found = {
        (row.mechanism, row.horizon, row.metric): f"{row.std:,.2f}"
        for row in rows
        if row.guarantee == guarantee
    }
    horizons = list(dict.fromkeys(horizon for _, horizon, _ in found))
    heads = (head for horizon in horizons for head in (f"T = {horizon:,}: mean", "largest"))
    lines = [
        f"| mechanism | {' | '.join(heads)} |",
        f"|---|{'--:|' * (2 * len(horizons))}",
    ]
    for name in dict.fromkeys(name for name, _, _ in found):
        cells = (
            found.get((name, horizon, metric), NOT_COMPUTED)
            for horizon in horizons
            for metric in METRICS
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines

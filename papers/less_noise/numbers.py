"""Which mechanisms there are, who published them, and the error of each at every horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from counton import plan
from counton.base.errors import InvalidInputError
from counton.planning import StreamPlan
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.strategies import (
    Binary,
    HonakerOnline,
    KAry,
    LookAhead,
    Metric,
    MultiscaleStrategy,
    Norm,
    NormalisedSqrt,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from counton.strategies.participation import sensitivity
from papers.evidence import Comparison, ErrorRow

#: Both guarantees of the table, and the norm to which their noise is calibrated.
GUARANTEES: dict[str, tuple[Guarantee, Norm]] = {
    "pure, epsilon = 1": (PureDP(1), 1),
    "zCDP, rho = 1/2": (ZCDP(Fraction(1, 2)), 2),
}
METRICS: tuple[Metric, ...] = ("mean", "max")
#: Years of days and hours, and powers of two; and far beyond.
HORIZONS = (64, 256, 365, 1024, 4096, 8760, 2**16, 2**20, 10**7, 10**9)
_QUICK = 8760
#: A dense matrix is searched for up to here: seconds, and minutes beyond.
_LARGEST_DENSE = 1024
_QUICK_DENSE = 365
#: What counton's own rows and the bound are called.
PLANNED = "counton's plan"
LOOK_AHEAD = "look-ahead tree"
BOUND = "no factorisation is below"
OCTAVE = "octave"
#: Where it has weights of its own.
_SHORTEST_OCTAVE = 512


class Mechanism(NamedTuple):
    """One that was published.

    Attributes:
        name: as in the table.
        source: who published it.
        make: the best of its kind for a horizon, a norm and a metric.
        norms: of noise for which it was published or makes sense.
        purpose: what it was published for. What was meant for finished tables serves totals over
            time too: all of its noise is drawn ahead, and a release reads what it needs of it.
        searched: a matrix is searched for, up to 1,024 steps, and in the quick form up to 365.
    """

    name: str
    source: str
    make: Callable[[int, Norm, Metric], StreamStrategy]
    norms: tuple[Norm, ...] = (1, 2)
    purpose: Literal["streams", "finished tables"] = "streams"
    searched: bool = False


#: Most children of a node of a least-squares tree that are tried.
_MOST_CHILDREN = 40


def least_squares_tree(horizon: int, norm: Norm, metric: Metric) -> LookAhead:
    """Equal numbers of children, equal weights, and least squares: the number of least error.

    No level above the horizon is measured, which the guarantee does not need.

    >>> least_squares_tree(8760, 1, "mean").radices
    (12, 12, 12)
    """
    found = []
    for children in range(2, _MOST_CHILDREN + 1):
        above = 0
        while children ** (above + 1) < horizon:
            above += 1
        found.append(LookAhead(horizon, (children,) * above))
    return min(
        found, key=lambda tree: tree.overall_variance(metric) * float(sensitivity(tree, norm)) ** 2
    )


@lru_cache(maxsize=8)
def hdmm(horizon: int, norm: Norm, metric: Metric) -> StreamStrategy:
    """The matrix that the search of HDMM finds for all totals, and least squares."""
    from counton.strategies import LeastSquaresStrategy
    from counton.tables.optimal import optimal_laplace
    from counton.tables.workloads import Prefixes

    return LeastSquaresStrategy(optimal_laplace(Prefixes(horizon)))


PUBLISHED: tuple[Mechanism, ...] = (
    Mechanism(
        "binary tree",
        "Dwork, Naor, Pitassi, Rothblum (2010); Chan, Shi, Song (2011)",
        lambda horizon, norm, metric: Binary(horizon),
    ),
    Mechanism(
        "Honaker online",
        "Honaker (2015), estimation from below",
        lambda horizon, norm, metric: HonakerOnline(horizon),
    ),
    Mechanism(
        "k-ary tree",
        "Andersson, Pagh, Steiner, Torkamani: Count on Your Elders, Alg. 1",
        lambda horizon, norm, metric: KAry.best(horizon, metric, False, norm),
    ),
    Mechanism(
        "k-ary with subtraction",
        "Andersson, Pagh, Steiner, Torkamani: Count on Your Elders, Alg. 2",
        lambda horizon, norm, metric: KAry.best(horizon, metric, True, norm),
    ),
    Mechanism(
        "smooth binary",
        "Andersson, Pagh: A Smooth Binary Mechanism",
        lambda horizon, norm, metric: SmoothBinary.best(horizon, norm),
    ),
    Mechanism(
        "square root",
        "Fichtenberger, Henzinger, Upadhyay: Constant Matters",
        lambda horizon, norm, metric: SqrtToeplitz(horizon),
        norms=(2,),
    ),
    Mechanism(
        "normalised square root",
        "Henzinger, Kalinin, Upadhyay: Normalized Square Root (arXiv 2509.14334)",
        lambda horizon, norm, metric: NormalisedSqrt(horizon),
        norms=(2,),
    ),
    Mechanism(
        "least-squares tree",
        "Hay, Rastogi, Miklau, Suciu (2010); children as Qardaji, Yang, Li (2013): finished tables",
        least_squares_tree,
        purpose="finished tables",
    ),
    Mechanism(
        "HDMM",
        "McKenna, Miklau, Hay, Machanavajjhala (2018), begun at good trees: finished tables",
        hdmm,
        norms=(1,),
        purpose="finished tables",
        searched=True,
    ),
)
_DENSE_SOURCE = "Li, Hay, Rastogi, Miklau, McGregor (2010); Yuan, Yang, Zhang, Hao (2016)"


@lru_cache(maxsize=256)
def _planned(horizon: int, guarantee: str, metric: Metric) -> StreamPlan:
    return plan(horizon, GUARANTEES[guarantee][0], metric)


def _error(strategy: StreamStrategy, guarantee: str, metric: Metric) -> float:
    """Standard deviation: root of the mean or of the largest variance, with the law that it has."""
    asked = plan(strategy.horizon or 1, GUARANTEES[guarantee][0], metric, strategies=[strategy])
    return asked.best.errors.by(metric)


@lru_cache(maxsize=16)
def _dense_optimum(horizon: int) -> float:
    """Root mean variance of the dense L2 optimum at rho = 1/2, where a unit's noise is 1."""
    from counton.tables.optimal import optimal_gaussian
    from counton.tables.workloads import Prefixes

    asked = Prefixes(horizon)
    strategy = optimal_gaussian(asked)
    cost = float(strategy.squared_sensitivity()) * asked.total(strategy)
    return float((cost / horizon) ** 0.5)


def error_table(*, quick: bool = False) -> tuple[ErrorRow, ...]:
    """Every mechanism's error, ours, and the bound: one row for each that serves the horizon."""
    return tuple(_rows(quick))


def _rows(quick: bool) -> Iterator[ErrorRow]:
    for guarantee, (_stated, norm) in GUARANTEES.items():
        for metric in METRICS:
            for horizon in HORIZONS:
                if quick and horizon > _QUICK:
                    continue
                at = (guarantee, metric, horizon)
                for one in PUBLISHED:
                    searched = _QUICK_DENSE if quick else _LARGEST_DENSE
                    if norm not in one.norms or (one.searched and horizon > searched):
                        continue
                    try:
                        strategy = one.make(horizon, norm, metric)
                    except InvalidInputError:  # it serves no such horizon
                        continue
                    yield ErrorRow(*at, one.name, one.source, _error(strategy, guarantee, metric))
                dense = norm == 2 and metric == "mean" and not quick
                if dense and horizon <= _LARGEST_DENSE:
                    yield ErrorRow(*at, "dense optimum", _DENSE_SOURCE, _dense_optimum(horizon))
                tree = LookAhead.best(horizon, norm, metric)
                yield ErrorRow(*at, LOOK_AHEAD, "counton", _error(tree, guarantee, metric))
                if norm == 2 and horizon >= _SHORTEST_OCTAVE:
                    octave = _error(MultiscaleStrategy(horizon, metric), guarantee, metric)
                    yield ErrorRow(*at, OCTAVE, "counton", octave)
                ranked = _planned(horizon, guarantee, metric)
                source = f"counton: {ranked.best.strategy_family}"
                yield ErrorRow(*at, PLANNED, source, ranked.best.errors.by(metric))
                (least,) = ranked.least_std().values()
                yield ErrorRow(*at, BOUND, "counton.planning.lower_bounds", least)


#: Mean variance at epsilon = 1 of the best mechanism published for streams, and what was to be
#: reached.
BEST_PUBLISHED = {
    365: "105.8",
    1024: "168.9",
    8760: "347.4",
    65536: "604.8",
    2**20: "1143.6",
    10**7: "1772.7",
    10**9: "3664.3",
}
AT_MOST = {
    365: "62.6",
    1024: "92",
    8760: "190",
    65536: "356",
    2**20: "750",
    10**7: "1142",
    10**9: "2318",
}
#: Largest variance as a part of the smooth binary mechanism's.
PART_OF_SMOOTH = {365: "0.5", 1024: "0.4", 8760: "0.4", 65536: "0.5", 2**20: "0.65"}
#: Root mean and root largest variance with Gaussian noise, rho = 1/2.
GAUSSIAN = {
    1024: ("2.96", "3.09"),
    2**16: ("4.31", "4.40"),
    10**7: ("6.05", "6.12"),
    10**9: ("7.53", "7.60"),
}
NORMALISED = {1024: ("2.991", "3.081"), 2**14: ("3.865", "3.956"), 2**16: ("4.304", "4.395")}


def comparisons(*, quick: bool = False) -> tuple[Comparison, ...]:
    """What was announced beside what is computed."""
    return tuple(_compared(_QUICK if quick else 10**9))


def _compared(longest: int) -> Iterator[Comparison]:
    pure, gaussian = GUARANTEES
    for horizon, printed in BEST_PUBLISHED.items():
        if horizon <= longest:
            found = _error(KAry.best(horizon), pure, "mean") ** 2
            yield Comparison(
                "k-ary with subtraction",
                f"mean variance, T = {horizon:,}",
                printed,
                found,
                own=True,
            )
    for horizon, printed in AT_MOST.items():
        if horizon <= longest:
            found = _planned(horizon, pure, "mean").best.errors.mean_std ** 2
            yield _at_most(f"mean variance, T = {horizon:,}", printed, found)
    for horizon, printed in PART_OF_SMOOTH.items():
        if horizon <= longest:
            smooth = _error(SmoothBinary.best(horizon, 1), pure, "max")
            found = (_planned(horizon, pure, "max").best.errors.max_std / smooth) ** 2
            quantity = f"largest variance over smooth binary's, T = {horizon:,}"
            yield _at_most(quantity, printed, found)
    for horizon, bars in GAUSSIAN.items():
        for metric, printed in zip(METRICS, bars, strict=True):
            if horizon <= longest:
                found = _planned(horizon, gaussian, metric).best.errors.by(metric)
                yield _at_most(f"Gaussian, root {metric} variance, T = {horizon:,}", printed, found)
    for horizon, known in NORMALISED.items():
        for metric, printed in zip(METRICS, known, strict=True):
            if horizon <= longest:
                found = _error(NormalisedSqrt(horizon), gaussian, metric)
                quantity = f"root {metric} variance, T = {horizon:,}"
                yield Comparison("normalised square root", quantity, printed, found, own=True)


def _at_most(quantity: str, printed: str, computed: float) -> Comparison:
    return Comparison(PLANNED, quantity, printed, computed, at_most=True, own=True)
